"""runs_project.py - article 6's real run, and then each of its limits.

Article 6, "Un'esecuzione reale" (seven calls and an answer made of what they returned), the two details below it,
the opening's post in the discussion channel, and "Dov'è il confine", sentence by sentence.

    python3 client.py project             every line, then the tables; 2 s

The scripted Claude gets the item's id with list_record_items, a tool of ours: the article does not say where it
came from. Not here: the set-up (runs_setup.py), the limits themselves (runs_limits.py), the stage (runs_stage.py).
"""
import json
import re
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import access
import channel_store
import ending
import host
import kb_store
import note_store
import published
import published_project
import record_store
import runs_limits
import runs_stage
import versioned
from published import Figures
from record_store import Field
from runs_setup import PROJECT, PROJECT_NAME
from runs_stage import OWNER, WORKSPACE, Stage
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

DAY_US = 24 * 3600 * 1_000_000
NOTE, KB, RECORDS, TALK = 'q3-launch', 'support', 'pages', 'launch-talk'
NOTE_NAME, PAGE = 'Q3 launch checklist', 'pricing page'
OPEN = ('press embargo date', 'FAQ translation', 'refund line of the pricing page: 14 days')
DONE = ('venue', 'speakers', 'landing page', 'screenshots', 'mailing', 'budget')
CHECKLIST = '\n'.join([f'- [x] {entry}' for entry in DONE] + [f'- [ ] {entry}' for entry in OPEN])
POLICY = 'Refunds are possible within a window of 30 days after the purchase.'
DAYS = re.compile(r'([0-9]+) days')


class Chat:
    """The conversation under way: what Claude calls, what the host asks, and the cells of the table."""

    def __init__(self, here: Stage, out: Any) -> None:
        self.here, self.out, self.claude, self.calls = here, out, here.claude(), 0
        self.seen: Figures = {}
        self.asks = {tool['name'] for tool in self.claude.list_tools() if not tool['annotations']['readOnlyHint']}
        self.asked = False
        self.meanwhile: Optional[Callable[[], Any]] = None       # what a colleague does while the host's question waits

    def say(self, line: str = '') -> None:
        print(line, file=self.out)

    def see(self, row: str, column: str, value: Any) -> None:
        self.seen[row, column] = value

    def call(self, tool: str, **arguments: Any) -> Tuple[str, Dict[str, Any]]:
        """(ok or the refusal's code, the answer), as Claude gets them. The host asks before what is not read-only."""
        shown = {name: value[:30] + '...' if isinstance(value, str) and len(value) > 30 else value
                 for name, value in arguments.items()}
        self.say(f'Claude -> {tool} {json.dumps(shown, ensure_ascii=False)}')
        self.asked = tool in self.asks
        if self.asked:
            self.say('          [the host asks: allow this call? -> Allow]')
            if self.meanwhile:
                self.meanwhile()
                self.meanwhile = None
        self.calls += 1
        answer = self.claude.call(tool, arguments)
        found = host.tool_answer(answer.result)
        self.say(f'          <- {answer.refused or short(found)}')
        return answer.refused or 'ok', found


# --- rules --------------------------------------------------------------------

def seed(tx: Tx, now_us: int) -> None:
    """The demo project as the article's example has it."""
    access.create_project(tx, PROJECT, WORKSPACE, PROJECT_NAME)
    tabs = [{'tab_type': 'note', 'label': 'Note', 'text': CHECKLIST},
            {'tab_type': 'sheet', 'label': 'Owners', 'start_row': 0, 'start_col': 0, 'values': [['point', 'owner']]}]
    note_store.create_note(tx, f'person:{OWNER}', NOTE, NOTE_NAME, tabs, now_us)
    kb_store.create_knowledge_base(tx, KB, 'Support')
    article = {'knowledge_base_id': KB, 'article_id': 'refunds', 'title': 'Refund policy', 'content': POLICY}
    kb_store.create_article(tx, f'person:{OWNER}', article, now_us - 9 * DAY_US)
    kb_store.publish_article(tx, f'person:{OWNER}', article, now_us - 2 * DAY_US)
    record_store.create_record_channel(tx, RECORDS, 'Pages', [Field('status', 'choice', ('Draft', 'Ready')),
                                                              Field('notes', 'text')])
    page = {'record_channel_id': RECORDS, 'values': {'title': PAGE, 'status': 'Draft'}, 'idempotency_key': 'seed-page'}
    record_store.create_record_item(tx, f'person:{OWNER}', page, now_us)
    channel_store.create_channel(tx, TALK, PROJECT_NAME, OWNER)
    for kind, item, name in (('note', NOTE, NOTE_NAME), ('knowledge_base', KB, 'Support'),
                             ('record_channel', RECORDS, 'Pages'), ('channel', TALK, PROJECT_NAME)):
        access.place(tx, Ref(kind, item), WORKSPACE, PROJECT, False, name)


def short(found: Dict[str, Any]) -> str:
    """An answer as one line of a transcript."""
    line = json.dumps(found, ensure_ascii=False)
    return line if len(line) <= 100 else line[:97] + '...'


def entries(text: str) -> Tuple[int, List[str]]:
    """(how many, the ones that are not ticked) of a checklist."""
    lines = [line for line in text.split('\n') if line.startswith('- [')]
    return len(lines), [line[6:] for line in lines if line.startswith('- [ ]')]


def days(text: str) -> int:
    return int(DAYS.search(text).group(1))


def age_days(updated_at: str, now_us: int) -> int:
    return (now_us - versioned.parse_stamp(updated_at)) // DAY_US


def find(chat: Chat) -> Tuple[str, str]:
    """Calls 1 and 2: the one project, and the Note in it. (project_id, note_id)."""
    granted = chat.call('list_granted_resources')[1]
    project = granted['projects'][0]
    chat.see('1 list_granted_resources', 'answer', f'{len(granted["projects"])} project: "{project["name"]}"')
    _, listed = chat.call('list_project_resources', project_id=project['project_id'], resource_type='note',
                          search='checklist')
    note = listed['resources'][0]
    chat.see('2 list_project_resources note "checklist"', 'answer', f'Note "{note["name"]}"')
    return project['project_id'], note['resource_id']


def read_note(chat: Chat, note: str) -> str:
    """Calls 3 and 4: which tab, and what it says."""
    tabs = chat.call('list_note_tabs', note_id=note)[1]['tabs']
    chat.see('3 list_note_tabs', 'answer', ', '.join(f'{tab["label"]} ({tab["tab_type"]})' for tab in tabs))
    text = chat.call('read_note_tab', note_id=note, tab_id=tabs[0]['tab_id'])[1]['text']
    count, unticked = entries(text)
    chat.see('4 read_note_tab', 'entries', count)
    chat.see('4 read_note_tab', 'not ticked', len(unticked))
    return text


def search(chat: Chat, project: str, now_us: int) -> str:
    """Call 5: does the knowledge base say something else? The article's text."""
    _, listed = chat.call('list_project_resources', project_id=project, resource_type='knowledge_base')
    _, found = chat.call('search_knowledge_base', knowledge_base_id=listed['resources'][0]['resource_id'],
                         query='refund window')
    hit = found['results'][0]
    age = age_days(hit['citation']['updated_at'], now_us)
    chat.see('5 search_knowledge_base "refund window"', 'answer', f'"{hit["title"]}", updated {age} days ago')
    both = {'article_id', 'updated_at'} <= set(hit['citation'])
    chat.see('next step: what the KB says of refunds', 'answer carries',
             'article_id and updated_at' if both else 'less')
    return hit['snippet']


def mark_ready(chat: Chat) -> Dict[str, Any]:
    """Calls 6 and 7; the arguments of the edit, for the retries below."""
    items = chat.call('list_record_items', record_channel_id=RECORDS, search=PAGE)[1]['items']
    record = {'record_channel_id': RECORDS, 'item_id': items[0]['item_id']}
    _, item = chat.call('read_record_item', **record)
    chat.see('6 read_record_item', 'answer', f'"{item["title"]}", status {item["values"]["status"]}')
    edit = dict(record, values={'status': 'Ready'}, expected_version=item['version'], idempotency_key='mark-ready-1')
    code, saved = chat.call('edit_record_item', **edit)
    chat.see('7 edit_record_item', 'host asks', 'Allow' if chat.asked else 'nothing')
    moved = saved.get('version', '') > item['version']
    chat.see('7 edit_record_item', 'answer', 'saved, a new version' if moved else code)
    return edit


def answer(chat: Chat, checklist: str, policy: str) -> None:
    """What Claude says: made of what the calls returned, and of nothing else."""
    unticked = [entry.partition(':')[0] for entry in entries(checklist)[1]]
    chat.see('Claude answers', 'open', '; '.join(unticked))
    chat.see('Claude answers', 'days by the checklist', days(checklist))
    chat.see('Claude answers', 'days by "Refund policy"', days(policy))
    chat.say(f'Claude: {len(unticked)} entries are open: {", ".join(unticked)}. The checklist says '
             f'{days(checklist)} days, the article {days(policy)}. {PAGE} is marked Ready.')


def two_details(chat: Chat, edit: Dict[str, Any]) -> None:
    """A repeated key gets the first answer and writes nothing; a record changed in between is not overwritten."""
    poll = {'resource_type': 'record', 'resource_id': RECORDS}
    before = chat.call('poll_resource_events', **poll)[1]['next_sequence']
    again = chat.call('edit_record_item', **edit)[1]
    chat.see('the same call again', 'answer', 'the first one, replayed' if again.get('replayed') else 'another one')
    chat.see('the same call again', 'events written',
             chat.call('poll_resource_events', **poll)[1]['next_sequence'] - before)
    record = {'record_channel_id': RECORDS, 'item_id': edit['item_id']}
    now = chat.call('read_record_item', **record)[1]
    chat.see('the record now', 'status', now['values']['status'])
    chat.meanwhile = lambda: chat.here.click('save_record', **record, values={'notes': 'legal looks at it'},
                                             expected_version=now['version'], idempotency_key='colleague-1')
    code, _ = chat.call('edit_record_item', **record, values={'notes': 'all done'}, expected_version=now['version'],
                        idempotency_key='mark-ready-2')
    chat.see('a record changed in between', 'edit', code)
    kept = chat.call('read_record_item', **record)[1]['values'].get('notes') == 'legal looks at it'
    chat.see('a record changed in between', 'its text', 'kept' if kept else 'overwritten')


def play(here: Stage, now_us: int, out: Any) -> Figures:
    chat = Chat(here, out)
    chat.call('list_granted_resources')                            # signs in: the connection begins here
    connection = here.connection()
    here.click('add_to_project', connection=connection, project=PROJECT)
    project, note = find(chat)
    checklist = read_note(chat, note)
    policy = search(chat, project, now_us)
    edit = mark_ready(chat)
    answer(chat, checklist, policy)
    two_details(chat, edit)
    code, _ = chat.call('post_channel_message', channel_id=TALK, text='Three entries are open.',
                        idempotency_key='what-is-open')
    chat.see('Claude posts what it found', 'in the discussion channel', code)
    lines = here.click('recent_activity', connection=connection)['activity']
    listed = 'every one' if len(lines) == chat.calls else f'{len(lines)} of {chat.calls}'
    chat.see('Recent activity', 'calls listed', listed)
    return chat.seen


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('client.py project', __doc__)
    options = parser.parse_args(argv)
    out = sys.stderr if options.json else sys.stdout
    now_us = time.time_ns() // 1000
    with runs_stage.stage(lambda tx: seed(tx, now_us)) as here:
        run = play(here, now_us, out)
    print(file=out)
    with runs_stage.stage(runs_limits.seed) as here:
        limits = runs_limits.play(here, out)
    print(file=out)
    tables = [published.compare(published_project.RUN, run), published.compare(published_project.LIMITS, limits)]
    return published.report('client.py project', tables, options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
