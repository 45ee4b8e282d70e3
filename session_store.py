"""session_store.py - what an assistant asks others to do, and what others ask of it: queued runs, linked chats.

Article 6, "Dov'è il confine": osFoundry has no way to open, list or start a chat, so nothing here pushes. A run is
written down and waits until the owner's desktop asks for work; work for a linked chat waits until that chat asks.
The label of link_current_chat is what the chat says of itself: it routes work and proves nothing, so whatever it
opens is the connection's anyway. Graph sessions have a switch of their own, and need the desktop to be there.

Names of ours: read_session_runs, read_chat_work, answer_chat_work. The run tools' and link_current_chat's names are
the article's. Not here: the runner role and which session lies where (access.py), Message channels (channel_store.py).
"""
import secrets
from typing import Callable, List, NamedTuple, Optional

import versioned
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
-- A person's desktop app: the switch in the Connected tab, and when the app last said that it is signed in.
CREATE TABLE IF NOT EXISTS desktops (
    person  TEXT PRIMARY KEY,
    sharing INTEGER NOT NULL,
    seen_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    session_id TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('agent', 'graph')),
    person     TEXT NOT NULL                -- whose desktop it runs on
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS session_runs (
    run_id      TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL,
    actor       TEXT NOT NULL,              -- who asked for it
    request     TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')),
    outcome     TEXT NOT NULL,              -- what the desktop said at the end
    queued_us   INTEGER NOT NULL,
    changed_us  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_runs_by_session ON session_runs (session_id, queued_us);
CREATE INDEX IF NOT EXISTS session_runs_by_status ON session_runs (status, changed_us);
CREATE TABLE IF NOT EXISTS linked_chats (
    chat_id    TEXT PRIMARY KEY,
    actor      TEXT NOT NULL,
    container  TEXT NOT NULL,               -- where work for it is routed from; what that is, the caller knows
    label      TEXT NOT NULL,               -- declared by the chat, never verified
    linked_us  INTEGER NOT NULL,
    UNIQUE (actor, container, label)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chat_work (
    work_id    TEXT PRIMARY KEY,
    chat_id    TEXT NOT NULL,
    task       TEXT NOT NULL,
    given_by   TEXT NOT NULL,
    answer     TEXT,                        -- NULL: it waits
    given_us   INTEGER NOT NULL,
    changed_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS chat_work_by_chat ON chat_work (chat_id, given_us);
"""

HERE_S = 90                                 # a desktop that has said nothing for so long is not there
REQUEST_LENGTH = (1, 8_000)                 # characters of a prompt, a task or an answer
LABEL_LENGTH = (1, 120)
QUEUE_LENGTH = 20                           # runs of one session that may wait
CHATS_A_CONTAINER, WORK_A_CHAT = 50, 50
RUNS_SHOWN = 20
OPEN = ('queued', 'running', 'cancelling')


class Run(NamedTuple):
    run_id: str
    session_id: str
    actor: str
    request: str
    status: str
    outcome: str
    queued_us: int
    changed_us: int


# --- rules --------------------------------------------------------------------

def request_session_run(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{run_id, session_id, status: queued} for an agent's session; it waits until the desktop asks."""
    return queue_once(tx, actor, 'request_session_run', 'agent', arguments, now_us)


def run_graph_session(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """The same for a Graph session."""
    return queue_once(tx, actor, 'run_graph_session', 'graph', arguments, now_us)


def cancel_graph_run(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{run_id, status}: a run that waits is cancelled at once; one that runs is cancelling until the desktop says so.
    What has ended stays as it ended."""
    def work() -> dict:
        session = open_session(tx, arguments['session_id'], 'graph', now_us)
        run = find_run(tx, session, arguments['run_id'])
        status = {'queued': 'cancelled', 'running': 'cancelling'}.get(run.status, run.status)
        if status != run.status:
            set_status(tx, run, status, '', now_us)
        return {'run_id': run.run_id, 'session_id': session, 'status': status}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'cancel_graph_run', arguments, work)


def read_session_runs(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{session_id, name, kind, runs}: the newest first. Whether anything runs is for the desktop; this only reads."""
    session = arguments['session_id']
    name, kind, _ = session_row(tx, session)
    rows = tx.execute('SELECT * FROM session_runs WHERE session_id = ? ORDER BY queued_us DESC, run_id LIMIT ?',
                      (session, RUNS_SHOWN))
    return {'session_id': session, 'name': name, 'kind': kind, 'runs': [shown(Run(*row)) for row in rows]}


def queue_once(tx: Tx, actor: str, tool: str, kind: str, arguments: dict, now_us: int) -> dict:
    def work() -> dict:
        session = open_session(tx, arguments['session_id'], kind, now_us)
        waiting = tx.execute("SELECT count(*) FROM session_runs WHERE session_id = ? AND status = 'queued'",
                             (session,)).fetchone()[0]
        if waiting >= QUEUE_LENGTH:
            raise Refusal('queue_full', f'{QUEUE_LENGTH} runs of this session are waiting: ask again later',
                          limit=QUEUE_LENGTH)
        stamp_us = versioned.next_stamp(tx, Ref('session', session), 0, now_us)
        run = Run('run-' + secrets.token_hex(8), session, actor, arguments['request'], 'queued', '',
                  stamp_us, stamp_us)
        tx.execute('INSERT INTO session_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)', run)
        versioned.record_event(tx, Ref('session', session), 'run_queued', run.run_id, stamp_us)
        return {'run_id': run.run_id, 'session_id': session, 'status': 'queued'}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), tool, arguments, work)


def open_session(tx: Tx, session: str, kind: str, now_us: int) -> str:
    """The session's id, while its owner shares and the owner's desktop is there; else the refusal says which is not."""
    _, held, person = session_row(tx, session)
    if held != kind:
        raise versioned.invalid('session_id', f'that of a session of the kind {kind}: this one is of the kind {held}')
    if not is_shared(tx, person):
        raise Refusal('sharing_is_off', 'the owner has switched the sharing of sessions off: only the owner can change '
                                        'that, in osFoundry')
    if not is_here(tx, person, now_us):
        raise Refusal('desktop_not_there', 'the owner\'s desktop app is not open and signed in: ask again when it is')
    return session


def is_shared(tx: Tx, person: str) -> bool:
    row = tx.execute('SELECT sharing FROM desktops WHERE person = ?', (person,)).fetchone()
    return bool(row and row[0])


def is_here(tx: Tx, person: str, now_us: int) -> bool:
    row = tx.execute('SELECT seen_us FROM desktops WHERE person = ?', (person,)).fetchone()
    return row is not None and row[0] > 0 and now_us - row[0] < HERE_S * 1_000_000


def session_row(tx: Tx, session: str) -> tuple:
    """(name, kind, person)."""
    row = tx.execute('SELECT name, kind, person FROM sessions WHERE session_id = ?', (session,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no session {session!r}', session_id=session)
    return row


def find_run(tx: Tx, session: str, run_id: str) -> Run:
    """A run of this session: another session's id under one's own session is not found."""
    row = tx.execute('SELECT * FROM session_runs WHERE run_id = ? AND session_id = ?', (run_id, session)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no run {run_id!r} of this session: read its runs', run_id=run_id)
    return Run(*row)


def set_status(tx: Tx, run: Run, status: str, outcome: str, now_us: int) -> None:
    """Only from the status that was read: a run that ended meanwhile is not taken back. And one event."""
    stamp_us = versioned.next_stamp(tx, Ref('session', run.session_id), run.changed_us, now_us)
    changed = tx.execute('UPDATE session_runs SET status = ?, outcome = ?, changed_us = ? '
                         'WHERE run_id = ? AND status = ?',
                         (status, outcome, stamp_us, run.run_id, run.status)).rowcount
    if changed:
        versioned.record_event(tx, Ref('session', run.session_id), 'run_' + status, run.run_id, stamp_us)


def shown(run: Run) -> dict:
    return {'run_id': run.run_id, 'status': run.status, 'request': run.request, 'outcome': run.outcome,
            'queued_at': versioned.stamp_text(run.queued_us), 'changed_at': versioned.stamp_text(run.changed_us)}


# The desktop's side: it asks, nothing is pushed to it.

def create_session(tx: Tx, session: str, name: str, kind: str, person: str) -> None:
    if kind not in ('agent', 'graph'):
        raise versioned.invalid('kind', 'agent or graph')
    tx.execute('INSERT INTO sessions VALUES (?, ?, ?, ?)', (session, name, kind, person))


def require_owner(tx: Tx, session: str, person: str) -> None:
    """The runner role on a session is granted by the person whose desktop it runs on, and by nobody else."""
    if session_row(tx, session)[2] != person:
        raise Refusal('owner_invites', 'this session runs on somebody else\'s desktop: only that person can open it',
                      session_id=session)


def set_sharing(tx: Tx, person: str, on: bool, now_us: int) -> None:
    """The owner's switch. Switched off, what still waits is cancelled: it must not start when he switches it on."""
    tx.execute('INSERT INTO desktops VALUES (?, ?, 0) ON CONFLICT (person) DO UPDATE SET sharing = excluded.sharing',
               (person, int(on)))
    if not on:
        for run in runs_of(tx, person, ('queued',)):
            set_status(tx, run, 'cancelled', 'sharing was switched off', now_us)


def desktop_seen(tx: Tx, person: str, now_us: int) -> None:
    """The app is open and signed in; it says so with every question for work."""
    tx.execute('INSERT INTO desktops VALUES (?, 0, ?) ON CONFLICT (person) DO UPDATE SET seen_us = excluded.seen_us',
               (person, now_us))


def desktop_gone(tx: Tx, person: str) -> None:
    """The app was closed, or its person signed out."""
    tx.execute('UPDATE desktops SET seen_us = 0 WHERE person = ?', (person,))


def desktop_of(tx: Tx, person: str, now_us: int) -> dict:
    """What the Connected tab shows."""
    return {'sharing': is_shared(tx, person), 'desktop': is_here(tx, person, now_us)}


def take_run(tx: Tx, person: str, now_us: int, still_allowed: Callable[[str, str], bool]) -> Optional[dict]:
    """The oldest run that waits for this person's desktop, now running; None when there is none.

    `still_allowed(actor, session_id)` asks for access again: a connection revoked since then does not run."""
    desktop_seen(tx, person, now_us)
    for run in runs_of(tx, person, ('queued',)) if is_shared(tx, person) else []:
        if still_allowed(run.actor, run.session_id):
            set_status(tx, run, 'running', '', now_us)
            return {'run_id': run.run_id, 'session_id': run.session_id, 'request': run.request, 'asked_by': run.actor}
        set_status(tx, run, 'cancelled', 'whoever asked for it may no longer run this session', now_us)
    return None


def runs_to_cancel(tx: Tx, person: str) -> List[str]:
    """Run ids that the desktop should stop."""
    return [run.run_id for run in runs_of(tx, person, ('cancelling',))]


def end_run(tx: Tx, person: str, run_id: str, status: str, outcome: str, now_us: int) -> dict:
    """The desktop's word for how a run ended. Only of its own person's sessions, and only once."""
    if status not in ('succeeded', 'failed', 'cancelled'):
        raise versioned.invalid('status', 'succeeded, failed or cancelled')
    run = next((run for run in runs_of(tx, person, ('running', 'cancelling')) if run.run_id == run_id), None)
    if run is None:
        raise Refusal('not_found', f'no run {run_id!r} is running on this desktop', run_id=run_id)
    set_status(tx, run, status, outcome[:REQUEST_LENGTH[1]], now_us)
    return {'run_id': run_id, 'status': status}


def runs_of(tx: Tx, person: str, statuses: tuple) -> List[Run]:
    marks = ', '.join('?' * len(statuses))
    rows = tx.execute('SELECT r.* FROM session_runs r JOIN sessions s ON s.session_id = r.session_id '
                      f'WHERE s.person = ? AND r.status IN ({marks}) ORDER BY r.queued_us, r.run_id',
                      (person, *statuses))
    return [Run(*row) for row in rows]


# Linked chats. A chat cannot be called: what is assigned to it waits until it asks.

def link_current_chat(tx: Tx, actor: str, arguments: dict, now_us: int, container: str) -> dict:
    """{chat_id, label, declared: true}. The same label again is the same chat: nobody can tell two of them apart."""
    def work() -> dict:
        known = find_chat(tx, actor, container, arguments['label'])
        if known is None:
            count = tx.execute('SELECT count(*) FROM linked_chats WHERE actor = ? AND container = ?',
                               (actor, container)).fetchone()[0]
            if count >= CHATS_A_CONTAINER:
                raise versioned.invalid('label', f'one of at most {CHATS_A_CONTAINER} in a project: use one of yours')
            known = 'chat-' + secrets.token_hex(8)
            tx.execute('INSERT INTO linked_chats VALUES (?, ?, ?, ?, ?)',
                       (known, actor, container, arguments['label'], now_us))
        return {'chat_id': known, 'label': arguments['label'], 'declared': True}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'link_current_chat', arguments, work)


def find_chat(tx: Tx, actor: str, container: str, label: str) -> Optional[str]:
    row = tx.execute('SELECT chat_id FROM linked_chats WHERE actor = ? AND container = ? AND label = ?',
                     (actor, container, label)).fetchone()
    return row[0] if row else None


def linked_chats(tx: Tx, container: str) -> List[dict]:
    """For people's pages: whom work can be left for. The label is shown as what it is, a declared one."""
    rows = tx.execute('SELECT chat_id, actor, label, linked_us FROM linked_chats WHERE container = ? '
                      'ORDER BY linked_us, chat_id', (container,))
    return [{'chat_id': chat, 'actor': actor, 'label': label, 'declared': True,
             'linked_at': versioned.stamp_text(linked_us)} for chat, actor, label, linked_us in rows]


def assign_to_chat(tx: Tx, person: str, arguments: dict, now_us: int) -> dict:
    """A person leaves a task for a linked chat. Nothing is sent: it waits until the chat asks."""
    chat = arguments['chat_id']
    if tx.execute('SELECT 1 FROM linked_chats WHERE chat_id = ?', (chat,)).fetchone() is None:
        raise Refusal('not_found', f'there is no linked chat {chat!r}', chat_id=chat)
    waiting = tx.execute('SELECT count(*) FROM chat_work WHERE chat_id = ? AND answer IS NULL', (chat,)).fetchone()[0]
    if waiting >= WORK_A_CHAT:
        raise Refusal('queue_full', f'{WORK_A_CHAT} tasks wait for this chat already', limit=WORK_A_CHAT)
    work_id = 'work-' + secrets.token_hex(8)
    tx.execute('INSERT INTO chat_work VALUES (?, ?, ?, ?, NULL, ?, ?)',
               (work_id, chat, arguments['task'], person, now_us, now_us))
    return {'work_id': work_id, 'chat_id': chat, 'status': 'waiting'}


def read_chat_work(tx: Tx, actor: str, arguments: dict, now_us: int, container: str) -> dict:
    """{label, work}: what waits for the chat that calls itself so, the oldest first. Another connection's label of
    the same words is another chat."""
    chat = find_chat(tx, actor, container, arguments['label'])
    rows = tx.execute('SELECT work_id, task, given_by, given_us FROM chat_work WHERE chat_id = ? AND answer IS NULL '
                      'ORDER BY given_us, work_id', (chat,))
    return {'label': arguments['label'],
            'work': [{'work_id': work_id, 'task': task, 'given_by': given_by,
                      'given_at': versioned.stamp_text(given_us)} for work_id, task, given_by, given_us in rows]}


def answer_chat_work(tx: Tx, actor: str, arguments: dict, now_us: int, container: str) -> dict:
    """{work_id, status: answered}. Only by the connection that it waits for, and once."""
    def work() -> dict:
        answered = tx.execute('UPDATE chat_work SET answer = ?, changed_us = ? WHERE work_id = ? AND answer IS NULL '
                              'AND chat_id IN (SELECT chat_id FROM linked_chats WHERE actor = ? AND container = ?)',
                              (arguments['answer'], now_us, arguments['work_id'], actor, container)).rowcount
        if not answered:
            raise Refusal('not_found', 'no such task waits for a chat of this connection: read what waits',
                          work_id=arguments['work_id'])
        return {'work_id': arguments['work_id'], 'status': 'answered'}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'answer_chat_work', arguments, work)


def work_of_chat(tx: Tx, chat: str) -> List[dict]:
    """For people's pages: what was left for a chat, and what it answered."""
    rows = tx.execute('SELECT work_id, task, answer, changed_us FROM chat_work WHERE chat_id = ? '
                      'ORDER BY given_us, work_id', (chat,))
    return [{'work_id': work_id, 'task': task, 'answer': answer, 'status': 'waiting' if answer is None else 'answered',
             'changed_at': versioned.stamp_text(changed_us)} for work_id, task, answer, changed_us in rows]


def prune_runs(tx: Tx, before_us: int) -> None:
    """Forget runs that ended and tasks that were answered before `before_us`. What waits or runs stays."""
    marks = ', '.join('?' * len(OPEN))
    tx.execute(f'DELETE FROM session_runs WHERE status NOT IN ({marks}) AND changed_us < ?', (*OPEN, before_us))
    tx.execute('DELETE FROM chat_work WHERE answer IS NOT NULL AND changed_us < ?', (before_us,))
