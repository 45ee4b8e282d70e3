"""owner_channels.py - a person's clicks on Message channels: make one, say who is in it, write.

Article 6, step 4 and "Dov'è il confine": a project has its discussion channel; an ordinary channel lies in no
project and opens to an assistant by Invite, a private one by its owner's (owner_verbs.invite asks
channel_store.require_inviter).

Not here: what a channel is (channel_store.py), the assistant's tools (tools_channels.py).
"""
from typing import Callable, Dict

import access
import channel_store
import owner_project
import schema
import workspace as workspaces
from channel_store import Author
from owner_project import NAME, PLACE
from tools import ID, KEY, State, arguments_of, text
from versioned import Ref, Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

BODY = text(*channel_store.BODY_LENGTH)
NEW_CHANNEL = arguments_of({'channel_id': ID, 'name': NAME}, {'private': {'type': 'boolean'}, **PLACE})
MEMBER = arguments_of({'channel_id': ID, 'handle': text(1, 64), 'kind': {'type': 'string', 'enum': ['person', 'agent']},
                       'reachable': {'type': 'boolean'}})
REMOVED = arguments_of({'channel_id': ID, 'handle': text(1, 64)})
POST = arguments_of({'channel_id': ID, 'text': BODY, 'idempotency_key': KEY}, {'thread_root_id': ID})
EDIT = arguments_of({'channel_id': ID, 'message_id': ID, 'text': BODY})
DELETE = arguments_of({'channel_id': ID, 'message_id': ID})

# --- rules --------------------------------------------------------------------

def create_channel(state: State, person: str, arguments: dict) -> dict:
    """In a project it is that project's one discussion; in none, an ordinary channel."""
    schema.check(NEW_CHANNEL, arguments)
    ref, project = Ref('channel', arguments['channel_id']), arguments.get('project')
    if project is not None and arguments.get('private'):
        raise invalid('project', 'null for a private channel: a project would open it to every connection in it')
    with state.db.write() as tx:
        has_one = project is not None and access.holds(tx, project, 'channel')
        owner_project.put(tx, person, arguments, ref, arguments['name'])
        if has_one:                                        # told only to whoever may change the project
            raise Refusal('already_exists', 'this project has its discussion channel: make an ordinary one, and invite')
        channel_store.create_channel(tx, ref.id, arguments['name'], person, arguments.get('private', False))
        channel_store.set_member(tx, ref.id, person, 'person', True, person)
    return {'channel_id': ref.id, 'project': project}


def changing(state: State, person: str, wanted: dict, arguments: dict, work: Callable[[Tx, str, int], dict]) -> dict:
    """The roster is asked before the role: of a private channel nobody else is told "you may look at it"."""
    schema.check(wanted, arguments)
    ref = Ref('channel', arguments['channel_id'])
    with state.db.write() as tx:
        channel_store.require_reader(tx, ref.id, person)
        access.require_role_of(tx, person, ref, workspaces.EDITOR)
        return work(tx, f'person:{person}', state.now_us())


def set_member(state: State, person: str, arguments: dict) -> dict:
    def work(tx: Tx, actor: str, now_us: int) -> dict:
        channel_store.set_member(tx, arguments['channel_id'], arguments['handle'], arguments['kind'],
                                 arguments['reachable'], person)
        return {'channel_id': arguments['channel_id'], 'handle': arguments['handle']}
    return changing(state, person, MEMBER, arguments, work)


def remove_member(state: State, person: str, arguments: dict) -> dict:
    def work(tx: Tx, actor: str, now_us: int) -> dict:
        channel_store.remove_member(tx, arguments['channel_id'], arguments['handle'], person)
        return {'channel_id': arguments['channel_id'], 'handle': arguments['handle']}
    return changing(state, person, REMOVED, arguments, work)


def post_message(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, POST, arguments, lambda tx, actor, now_us: channel_store.post_channel_message(
        tx, actor, arguments, now_us, Author('user', workspaces.person_name(tx, person))))


def edit_message(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, EDIT, arguments,
                    lambda tx, actor, now_us: channel_store.edit_message(tx, actor, arguments, now_us))


def delete_message(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, DELETE, arguments,
                    lambda tx, actor, now_us: channel_store.delete_message(tx, actor, arguments, now_us))


VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    'create_channel': create_channel, 'set_member': set_member, 'remove_member': remove_member,
    'post_message': post_message, 'edit_message': edit_message, 'delete_message': delete_message,
}
