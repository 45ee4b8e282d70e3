"""owner_project.py - the owner's clicks on what a project holds: knowledge bases, Rooms, and proposals for Rooms.

Article 6, step 4 ("content added to a project later is included") and "Dov'è il confine" ("Needs your approval":
the Room and the files are shown before Approve or Decline). Every click asks for the person's own right in the
transaction of the work.

Not here: Notes (owner_notes.py), repositories (owner_gitnest.py), the Connected tab (owner_verbs.py), how the
person was proven (owner.py).
"""
from typing import Any, Callable, Dict, List

import access
import kb_history
import kb_store
import rooms
import schema
import workspace as workspaces
from owner_verbs import own_place
from tools import ID, VERSION, State, arguments_of, integer, text
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

PLACE = {'project': {'type': ['string', 'null']}, 'local_only': {'type': 'boolean'}, 'workspace': ID}
NAME = text(*workspaces.NAME_LENGTH)
NEW_KB = arguments_of({'knowledge_base_id': ID, 'name': NAME}, PLACE)
ARTICLE = arguments_of({'knowledge_base_id': ID, 'article_id': ID})
SAVE_ARTICLE = arguments_of({'knowledge_base_id': ID, 'article_id': ID, 'title': text(*kb_store.TITLE_LENGTH),
                             'content': text(*kb_store.CONTENT_LENGTH)},
                            {'publish': {'type': 'boolean'}, 'expected_version': VERSION})
HISTORY = arguments_of({'knowledge_base_id': ID, 'article_id': ID}, {'limit': integer(*kb_history.HISTORY_LIMIT),
                                                                     'before': VERSION})
SAVED = arguments_of({'knowledge_base_id': ID, 'article_id': ID, 'version': VERSION})
PUT_BACK = arguments_of({'knowledge_base_id': ID, 'article_id': ID, 'version': VERSION, 'expected_version': VERSION})
NEW_ROOM = arguments_of({'room_id': ID, 'name': NAME}, PLACE)
DECISION = {'proposal_id': ID, 'decision': {'type': 'string', 'enum': ['approve', 'decline']}}
DECIDE = arguments_of(DECISION, {'reason': text(0, 1_000)})
INSTALL = 'propose_room_app_install'

# --- rules --------------------------------------------------------------------

def put(tx: Tx, person: str, arguments: dict, ref: Ref, name: str) -> None:
    """A new item in a project of the person's workspace, or in none; the store has just made it."""
    workspace, project = own_place(tx, person, arguments)
    if access.is_placed(tx, ref):
        raise Refusal('already_exists', f'there is a {ref.kind} {ref.id!r} already: choose another id')
    access.place(tx, ref, workspace, project, arguments.get('local_only', False), name)


def changing(state: State, person: str, wanted: dict, arguments: dict, kind: str, work: Callable[[Tx], Any]) -> Any:
    """Right and work in one transaction, as for an assistant's call. `kind`: of the item that KIND_id names."""
    schema.check(wanted, arguments)
    with state.db.write() as tx:
        access.require_role_of(tx, person, Ref(kind, arguments[f'{kind}_id']), workspaces.EDITOR)
        return work(tx)


def create_knowledge_base(state: State, person: str, arguments: dict) -> dict:
    schema.check(NEW_KB, arguments)
    ref = Ref('knowledge_base', arguments['knowledge_base_id'])
    with state.db.write() as tx:
        put(tx, person, arguments, ref, arguments['name'])
        kb_store.create_knowledge_base(tx, ref.id, arguments['name'])
    return {'knowledge_base_id': ref.id, 'project': arguments.get('project')}


def save_article(state: State, person: str, arguments: dict) -> dict:
    """A new article or a new text of one; `publish` puts it before the assistants."""
    def work(tx: Tx) -> dict:
        actor, now_us = f'person:{person}', state.now_us()
        known = {name: value for name, value in arguments.items() if name != 'publish'}
        there = kb_store.head(tx, known['knowledge_base_id'], known['article_id'])
        save = kb_store.save_article if there else kb_store.create_article
        saved = save(tx, actor, known, now_us)
        return kb_store.publish_article(tx, actor, known, now_us) if arguments.get('publish') else saved
    return changing(state, person, SAVE_ARTICLE, arguments, 'knowledge_base', work)


def publish_article(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, ARTICLE, arguments, 'knowledge_base',
                    lambda tx: kb_store.publish_article(tx, f'person:{person}', arguments, state.now_us()))


def unpublish_article(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, ARTICLE, arguments, 'knowledge_base',
                    lambda tx: kb_store.unpublish_article(tx, f'person:{person}', arguments, state.now_us()))


def reading(state: State, person: str, wanted: dict, arguments: dict, work: Callable[[Tx], dict]) -> dict:
    """Of a knowledge base, drafts and old versions too: for people only."""
    schema.check(wanted, arguments)
    with state.db.read() as tx:
        access.require_role_of(tx, person, Ref('knowledge_base', arguments['knowledge_base_id']), workspaces.VIEWER)
        return work(tx)


def article_history(state: State, person: str, arguments: dict) -> dict:
    return {'history': reading(state, person, HISTORY, arguments, lambda tx: kb_history.article_history(
        tx, arguments['knowledge_base_id'], arguments['article_id'], arguments.get('limit', 50),
        arguments.get('before')))}


def article_version(state: State, person: str, arguments: dict) -> dict:
    """A saved version as it was, and the one before it."""
    return reading(state, person, SAVED, arguments, lambda tx: kb_history.saved_version(
        tx, arguments['knowledge_base_id'], arguments['article_id'], arguments['version']))


def put_article_back(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, PUT_BACK, arguments, 'knowledge_base',
                    lambda tx: kb_history.put_back(tx, f'person:{person}', arguments, state.now_us()))


def create_room(state: State, person: str, arguments: dict) -> dict:
    schema.check(NEW_ROOM, arguments)
    ref = Ref('room', arguments['room_id'])
    with state.db.write() as tx:
        put(tx, person, arguments, ref, arguments['name'])
        rooms.create_room(tx, ref.id, arguments['name'])
    return {'room_id': ref.id, 'project': arguments.get('project')}


def room_cards(tx: Tx, person: str, now_us: int) -> List[dict]:
    """The Rooms' part of "Needs your approval": what this person may decide."""
    return [rooms.card(tx, row) for row in rooms.all_waiting(tx, now_us)
            if access.role_of(tx, person, Ref('room', row.room)) >= workspaces.EDITOR]


def waiting_in_rooms(tx: Tx, person: str, now_us: int) -> int:
    return sum(number for room, number in rooms.count_waiting(tx, now_us)
               if access.role_of(tx, person, Ref('room', room)) >= workspaces.EDITOR)


def decide_room(state: State, person: str, arguments: dict) -> dict:
    """Approve or Decline. To approve, the connection that proposed must still be allowed to: no is always possible."""
    schema.check(DECIDE, arguments)
    with state.db.write() as tx:
        row = rooms.find(tx, arguments['proposal_id'])
        ref = Ref('room', row.room)
        access.require_role_of(tx, person, ref, workspaces.EDITOR)
        if arguments['decision'] == 'approve' and row.status == 'pending':
            access.still_allowed(tx, row.actor.partition(':')[2], INSTALL, 'edit', ref)
        return rooms.decide(tx, row.proposal, f'person:{person}', arguments['decision'], arguments.get('reason', ''),
                            state.now_us())


VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    'create_knowledge_base': create_knowledge_base, 'save_article': save_article,
    'publish_article': publish_article, 'unpublish_article': unpublish_article, 'create_room': create_room,
    'article_history': article_history, 'article_version': article_version, 'put_article_back': put_article_back,
}
