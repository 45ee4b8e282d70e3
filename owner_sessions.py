"""owner_sessions.py - the owner's desktop and the people's side of linked chats.

Article 6, "Dov'è il confine": sharing the desktop's Graph sessions is a switch of its own, and the app must be open
and signed in. The desktop asks for work; nothing is pushed to it. What a person leaves for a linked chat waits
until the chat asks.

Not here: queues and chats (session_store.py), the assistant's tools (tools_sessions.py), the runner role
(owner_verbs.invite).
"""
from typing import Callable, Dict

import access
import owner_project
import schema
import session_store
import tools_sessions
import workspace as workspaces
from owner_project import NAME, PLACE
from tools import ID, State, arguments_of, text
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

KIND = {'type': 'string', 'enum': ['agent', 'graph']}
NEW_SESSION = arguments_of({'session_id': ID, 'name': NAME, 'kind': KIND}, PLACE)
SHARING = arguments_of({'on': {'type': 'boolean'}})
END = arguments_of({'run_id': ID, 'status': {'type': 'string', 'enum': ['succeeded', 'failed', 'cancelled']}},
                   {'outcome': text(0, session_store.REQUEST_LENGTH[1])})
ASSIGN = arguments_of({'project_id': ID, 'chat_id': ID, 'task': tools_sessions.WORDS})
RUNS = {'agent': 'request_session_run', 'graph': 'run_graph_session'}

# --- rules --------------------------------------------------------------------

def create_session(state: State, person: str, arguments: dict) -> dict:
    """A session of this person's desktop. Local ones (local_only) stay invisible to every connection."""
    schema.check(NEW_SESSION, arguments)
    ref = Ref('session', arguments['session_id'])
    with state.db.write() as tx:
        owner_project.put(tx, person, arguments, ref, arguments['name'])
        session_store.create_session(tx, ref.id, arguments['name'], arguments['kind'], person)
    return {'session_id': ref.id, 'project': arguments.get('project')}


def set_sharing(state: State, person: str, arguments: dict) -> dict:
    """The switch in the Connected tab; each person's own."""
    schema.check(SHARING, arguments)
    with state.db.write() as tx:
        session_store.set_sharing(tx, person, arguments['on'], state.now_us())
    return read_desktop(state, person, {})


def read_desktop(state: State, person: str, arguments: dict) -> dict:
    schema.check(arguments_of({}), arguments)
    with state.db.read() as tx:
        return session_store.desktop_of(tx, person, state.now_us())


def desktop_asks(state: State, person: str, arguments: dict) -> dict:
    """The desktop app: here I am; {run, cancel}: what to start, or null, and which runs to stop."""
    schema.check(arguments_of({}), arguments)
    with state.db.write() as tx:
        run = session_store.take_run(tx, person, state.now_us(),
                                     lambda actor, session: may_still_run(tx, actor, session))
        return {'run': run, 'cancel': session_store.runs_to_cancel(tx, person)}


def may_still_run(tx: Tx, actor: str, session: str) -> bool:
    """Asked when the desktop takes the run, hours after the call perhaps: a revocation since then counts."""
    tool = RUNS[session_store.session_row(tx, session)[1]]
    try:
        access.still_allowed(tx, actor.partition(':')[2], tool, 'run', Ref('session', session))
        return True
    except Refusal:
        return False


def desktop_closes(state: State, person: str, arguments: dict) -> dict:
    schema.check(arguments_of({}), arguments)
    with state.db.write() as tx:
        session_store.desktop_gone(tx, person)
    return read_desktop(state, person, {})


def end_run(state: State, person: str, arguments: dict) -> dict:
    schema.check(END, arguments)
    with state.db.write() as tx:
        return session_store.end_run(tx, person, arguments['run_id'], arguments['status'],
                                     arguments.get('outcome', ''), state.now_us())


def list_chats(state: State, person: str, arguments: dict) -> dict:
    """The chats that linked themselves to a project, with what was left for each."""
    schema.check(arguments_of({'project_id': ID}), arguments)
    with state.db.read() as tx:
        access.require_role_of(tx, person, Ref('project', arguments['project_id']), workspaces.VIEWER)
        chats = session_store.linked_chats(tx, tools_sessions.container(arguments['project_id']))
        return {'chats': [dict(chat, work=session_store.work_of_chat(tx, chat['chat_id'])) for chat in chats]}


def assign_to_chat(state: State, person: str, arguments: dict) -> dict:
    """Leave work for a chat of this project. It waits: there is no way to reach a chat from here."""
    def work(tx: Tx) -> dict:
        chats = session_store.linked_chats(tx, tools_sessions.container(arguments['project_id']))
        if arguments['chat_id'] not in [chat['chat_id'] for chat in chats]:
            raise Refusal('not_found', f'no chat {arguments["chat_id"]!r} is linked to this project')
        return session_store.assign_to_chat(tx, f'person:{person}', arguments, state.now_us())
    return owner_project.changing(state, person, ASSIGN, arguments, 'project', work)


VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    'create_session': create_session, 'set_sharing': set_sharing, 'read_desktop': read_desktop,
    'desktop_asks': desktop_asks, 'desktop_closes': desktop_closes, 'end_run': end_run, 'list_chats': list_chats,
    'assign_to_chat': assign_to_chat,
}
