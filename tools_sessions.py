"""tools_sessions.py - runs that wait for the owner's desktop, and the chat that links itself.

Article 7 names the three run tools (osfoundry:run) and link_current_chat; article 6, "Dov'è il confine", says what
they cannot be: osFoundry has no way to open, list or start a chat, so work for a chat waits until that chat asks.
read_session_runs, read_chat_work and answer_chat_work are names of ours.

Not here: what the tools do (session_store.py), the runner role they need (access.py).
"""
from typing import Callable, List

import session_store
from tools import ID, KEY, READ, RUN, WRITE, Answer, Call, Tool, arguments_of, stored, text
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

LABEL, WORDS = text(*session_store.LABEL_LENGTH), text(*session_store.REQUEST_LENGTH)
REQUEST = arguments_of({'session_id': ID, 'request': WORDS, 'idempotency_key': KEY})
CHAT = {'project_id': ID, 'label': LABEL}

# --- rules --------------------------------------------------------------------

def session(tx: Tx, arguments: dict) -> Ref:
    return Ref('session', arguments['session_id'])


def project(tx: Tx, arguments: dict) -> Ref:
    return Ref('project', arguments['project_id'])


def of_project(work: Callable[..., dict], call: Call) -> Answer:
    """A linked chat belongs to a project; the store knows projects by this name only."""
    return work(call.tx, call.actor, call.arguments, call.now_us, container(call.arguments['project_id']))


def container(project_id: str) -> str:
    return f'project:{project_id}'


TOOLS: List[Tool] = [
    Tool('request_session_run',
         'Ask an agent session of the owner\'s desktop to run. It is written down and starts when the desktop asks for '
         'work; read_session_runs tells how it ended. Needs the runner role there.',
         REQUEST, RUN, 'run', False, True, True, session, lambda call: stored(session_store.request_session_run, call)),
    Tool('run_graph_session',
         'The same for a Graph session, while its owner shares sessions and the desktop app is open.',
         REQUEST, RUN, 'run', False, True, True, session, lambda call: stored(session_store.run_graph_session, call)),
    Tool('cancel_graph_run', 'Cancel a run of a Graph session: at once while it waits, else when the desktop hears it.',
         arguments_of({'session_id': ID, 'run_id': ID, 'idempotency_key': KEY}),
         RUN, 'run', False, True, False, session, lambda call: stored(session_store.cancel_graph_run, call)),
    Tool('read_session_runs', 'The runs of one session, the newest first: what was asked and how it stands or ended.',
         arguments_of({'session_id': ID}),
         READ, 'view', True, False, False, session, lambda call: stored(session_store.read_session_runs, call)),
    Tool('link_current_chat',
         'Give this chat a label in one project, so that people can leave work for it. The label only routes: nobody '
         'verifies it, it opens nothing, and nothing is ever sent to the chat.',
         arguments_of({**CHAT, 'idempotency_key': KEY}),
         WRITE, 'view', False, False, False, project,
         lambda call: of_project(session_store.link_current_chat, call)),
    Tool('read_chat_work', 'What people left for the chat of this label. Only asking shows it.',
         arguments_of(CHAT), READ, 'view', True, False, False, project,
         lambda call: of_project(session_store.read_chat_work, call)),
    Tool('answer_chat_work', 'Say what became of one piece of that work.',
         arguments_of({'project_id': ID, 'work_id': ID, 'answer': WORDS, 'idempotency_key': KEY}),
         WRITE, 'view', False, False, False, project,
         lambda call: of_project(session_store.answer_chat_work, call)),
]
