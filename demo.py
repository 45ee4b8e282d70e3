"""demo.py - the small workspace that `python3 server.py --demo` begins with: the articles' Q3 launch, to play with.

Articles 5 and 6, "Un'esecuzione reale": the Note with its tabs, the support knowledge base whose refund window
contradicts the checklist, the pricing page that is still Draft, the colleague Mika. Every line is a click that the
owner could have made on the pages; without --demo a workspace is empty and explains itself.

Not here: what a click does (owner_verbs.py and its sisters), the scripted runs' own stages (runs_*.py).
"""
import shutil
from typing import Any, Dict, Sequence, Tuple

import owner
from tools import State

# --- data ---------------------------------------------------------------------

BRIEF = """Launch on 30 September.

Open:
- embargo date for the press
- translation of the FAQ
- refund line on the pricing page
"""
CHECKLIST = """[x] venue booked
[x] pricing page drafted
[x] FAQ in English
[x] screenshots
[x] support informed
[x] status page prepared
[ ] embargo date for the press
[ ] translation of the FAQ
[ ] refund line on the pricing page (14 days)
"""
OWNERS = [['Task', 'Owner', 'Due'], ['Embargo date', 'Aiko', '12 Sep'], ['FAQ translation', 'Mika', '19 Sep'],
          ['Refund line', 'Aiko', '22 Sep']]
REFUNDS = 'Customers may return a plan within 30 days of the purchase. The refund is paid back the way it was paid.'
PROJECT = 'launch-q3'

CLICKS: Sequence[Tuple[str, Dict[str, Any]]] = (
    ('add_person', {'of': 'mika', 'name': 'Mika', 'role': 'editor'}),
    ('add_person', {'of': 'aiko', 'name': 'Aiko', 'role': 'viewer'}),
    ('create_project', {'project': PROJECT, 'name': 'Launch Q3'}),
    ('create_note', {'note_id': 'q3-launch', 'title': 'Q3 launch', 'project': PROJECT, 'tabs': [
        {'tab_type': 'note', 'label': 'Brief', 'text': BRIEF},
        {'tab_type': 'sheet', 'label': 'Owners', 'start_row': 0, 'start_col': 0, 'values': OWNERS},
        {'tab_type': 'sheet', 'label': 'Owners archive', 'start_row': 0, 'start_col': 0, 'values': OWNERS[:2]}]}),
    ('create_note', {'note_id': 'q3-checklist', 'title': 'Q3 launch checklist', 'project': PROJECT, 'tabs': [
        {'tab_type': 'note', 'label': 'Note', 'text': CHECKLIST}]}),
    ('create_note', {'note_id': 'private-ideas', 'title': 'Ideas, in no project', 'project': None, 'tabs': [
        {'tab_type': 'note', 'label': 'Note', 'text': 'No assistant sees this until it is in a project.'}]}),
    ('create_knowledge_base', {'knowledge_base_id': 'support', 'name': 'Support', 'project': PROJECT}),
    ('save_article', {'knowledge_base_id': 'support', 'article_id': 'refund-policy', 'title': 'Refund policy',
                      'content': REFUNDS, 'publish': True}),
    ('save_article', {'knowledge_base_id': 'support', 'article_id': 'opening-hours', 'title': 'Opening hours',
                      'content': 'Support answers from 9 to 17 on working days.', 'publish': True}),
    ('save_article', {'knowledge_base_id': 'support', 'article_id': 'trial-plans', 'title': 'Trial plans',
                      'content': 'To be written.'}),
    ('create_record_channel', {'record_channel_id': 'launch-pages', 'name': 'Launch pages', 'project': PROJECT,
                               'fields': [
        {'field': 'status', 'kind': 'choice', 'choices': ['Draft', 'Ready']}, {'field': 'owner', 'kind': 'text'}]}),
    ('create_record', {'record_channel_id': 'launch-pages', 'idempotency_key': 'demo-record-1',
                       'values': {'title': 'pricing page', 'status': 'Draft', 'owner': 'Aiko'}}),
    ('create_record', {'record_channel_id': 'launch-pages', 'idempotency_key': 'demo-record-2',
                       'values': {'title': 'FAQ', 'status': 'Ready', 'owner': 'Mika'}}),
    ('create_channel', {'channel_id': 'launch-talk', 'name': 'Launch discussion', 'project': PROJECT}),
    ('post_message', {'channel_id': 'launch-talk', 'text': 'Three things are open, see the checklist.',
                      'idempotency_key': 'demo-message-1'}),
    ('create_channel', {'channel_id': 'press', 'name': 'Press', 'private': True}),
    ('create_room', {'room_id': 'launch-room', 'name': 'Launch room', 'project': PROJECT}),
    ('create_repository', {'repository_id': 'site', 'project': PROJECT}),
)

# --- I/O ----------------------------------------------------------------------

def furnish(state: State) -> None:
    """Make the workspace, once: a state that holds a project already is left as it is."""
    with state.db.write() as tx:
        person = owner.ensure_owner(tx)
        if tx.execute("SELECT 1 FROM places LIMIT 1").fetchone():
            return
    for verb, arguments in CLICKS:
        if verb == 'create_repository' and not shutil.which('git'):
            continue
        owner.run(state, person, verb, dict(arguments))
