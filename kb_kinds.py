"""kb_kinds.py - three kinds of citation and four tools' limits, measured on a real knowledge base.

Article 1, the tools' definitions and "Cosa dovrebbe contenere una citazione?". Nothing is looked up: an article is
renamed, changed and edited, each limit is tried from both sides, and a cell holds what happened.

    python3 kb_store.py        both tables (1 s); --json for programs

Not here: the tools (kb_store.py), the commands on a folder (kb_folder.py), how fast citations go stale (sim_kb.py).
"""
import os
import tempfile
from typing import Callable, Dict, List, Sequence

import kb_store
import published
import published_kb
import versioned
from published import Place
from versioned import Database, Refusal

# --- data ---------------------------------------------------------------------

NAME = {'knowledge_base_id': 'kb'}
REFUNDS = {**NAME, 'article_id': 'art-000001'}
NOW_US = versioned.parse_stamp('2026-11-08T09:00:00Z')
KINDS = ('title', 'article ID', 'article ID + updated time')
# A call of each tool that is answered; the probes change one argument of it.
CALLS = {
    'search_knowledge_base': {**NAME, 'query': 'refund policy', 'limit': 5},
    'read_knowledge_article': REFUNDS,
    'edit_knowledge_article': {**REFUNDS, 'title': 'Money back', 'content': '7 days.', 'idempotency_key': 'key-0001'},
    'poll_resource_events': {'resource_type': 'knowledge_base', 'resource_id': 'kb', 'after_sequence': 0, 'limit': 100}}
TOOLS: Dict[str, Callable[..., dict]] = {
    'search_knowledge_base': kb_store.search_knowledge_base, 'read_knowledge_article': kb_store.read_knowledge_article,
    'edit_knowledge_article': kb_store.edit_knowledge_article, 'poll_resource_events': kb_store.poll_resource_events}

# --- rules --------------------------------------------------------------------

def yes(happened: bool) -> str:
    return 'yes' if happened else 'no'


def kinds(database: Database) -> Dict[Place, str]:
    """What each kind of citation did when its article was renamed, then changed, then edited with it."""
    first = call(database, 'read_knowledge_article', REFUNDS)
    people(database, kb_store.save_article, {**REFUNDS, 'title': 'Money back'})
    survives = (leads(database, first['title']), readable(database, first), readable(database, first))

    renamed = call(database, 'read_knowledge_article', REFUNDS)
    people(database, kb_store.save_article, {**REFUNDS, 'content': 'Within 14 days.'})
    changed = call(database, 'read_knowledge_article', REFUNDS)
    shows = (not leads(database, renamed['title']), not readable(database, renamed),
             changed['citation']['updated_at'] != renamed['citation']['updated_at'])

    takes = [yes(edited(database, version)) for version in (changed['title'], REFUNDS['article_id'])]
    old, recent = (edited(database, each['citation']['updated_at']) for each in (renamed, changed))
    takes.append('yes, if recent' if recent and not old else yes(recent))
    found: Dict[Place, str] = {}
    for kind, *answers in zip(KINDS, map(yes, survives), map(yes, shows), takes):
        found.update(((kind, column), answer) for column, answer in zip(published_kb.ASKED, answers))
    return found


def leads(database: Database, title: str) -> bool:
    """Whether a search for the title still finds an article under it."""
    hits = call(database, 'search_knowledge_base', {**NAME, 'query': title})['results']
    return any(hit['title'] == title for hit in hits)


def readable(database: Database, cited: dict) -> bool:
    return answered(database, 'read_knowledge_article', {**NAME, 'article_id': cited['citation']['article_id']})


def edited(database: Database, version: str) -> bool:
    with_it = {**CALLS['edit_knowledge_article'], 'expected_version': version, 'idempotency_key': f'with {version}'}
    return answered(database, 'edit_knowledge_article', with_it)


def limits(database: Database) -> Dict[Place, object]:
    """The least and the most that each tool answers, and the arguments without which it does not."""
    current = call(database, 'read_knowledge_article', REFUNDS)['citation']['updated_at']
    calls = {**CALLS, 'edit_knowledge_article': {**CALLS['edit_knowledge_article'], 'expected_version': current}}
    queries = tried(database, 'search_knowledge_base', 'query', ['x' * length for length in range(300)])
    hits = tried(database, 'search_knowledge_base', 'limit', range(-2, 200))
    events = tried(database, 'poll_resource_events', 'limit', range(-2, 200))
    cursors = tried(database, 'poll_resource_events', 'after_sequence', range(-2, 10))
    found: Dict[Place, object] = {
        ('search_knowledge_base', 'query, shortest'): len(queries[0]),
        ('search_knowledge_base', 'query, longest'): len(queries[-1]),
        ('search_knowledge_base', 'limit, least'): hits[0], ('search_knowledge_base', 'limit, most'): hits[-1],
        ('poll_resource_events', 'after_sequence, least'): cursors[0],
        ('poll_resource_events', 'limit, least'): events[0], ('poll_resource_events', 'limit, most'): events[-1]}
    for tool, arguments in calls.items():
        for argument in arguments:
            without = {name: value for name, value in arguments.items() if name != argument}
            found[tool, argument] = 'optional' if answered(database, tool, without) else 'required'
    return found


def tried(database: Database, tool: str, argument: str, values: Sequence) -> List:
    """Those of the values with which the tool answers."""
    return [value for value in values if answered(database, tool, {**CALLS[tool], argument: value})]


# --- I/O ----------------------------------------------------------------------

def call(database: Database, tool: str, arguments: dict) -> dict:
    with database.write() as tx:
        return TOOLS[tool](tx, 'connection:claude', arguments, NOW_US)


def answered(database: Database, tool: str, arguments: dict) -> bool:
    try:
        call(database, tool, arguments)
        return True
    except Refusal:
        return False


def people(database: Database, save: Callable[..., dict], arguments: dict) -> dict:
    with database.write() as tx:
        return save(tx, 'person:mika', arguments, NOW_US)


def tables() -> List[dict]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(os.path.join(folder, 'kb.db'), [kb_store.SCHEMA], synchronous='NORMAL')
        with database.write() as tx:
            kb_store.create_knowledge_base(tx, 'kb', 'Support')
        people(database, kb_store.create_article,
               {**REFUNDS, 'title': 'Refund policy', 'content': 'Within 30 days.', 'publish': True})
        compared = [published.compare(published_kb.KINDS, kinds(database)),
                    published.compare(published_kb.LIMITS, limits(database))]
        database.close()
    return compared


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    return published.report('kb_store.py', tables(), as_json='--json' in argv)
