"""channel_store.py - Message channels: posting, reading, threads, who is in them, and what happened around them.

Article 6, step 4 and "Dov'è il confine": a project's discussion channel and ordinary Message channels are the same
thing here; that the first is open by membership, the others by invitation, and a private one by its owner's
invitation only, is decided where the places are (access.py), with `require_inviter` below. Article 2: what a resident
session reads with channel_history, channel_roster and project_activity; the answers are channel_render.py's own.

post_channel_message is our name: the article says that the assistant answers in the channel and names no tool.
Not here: sessions, queued runs and linked chats (session_store.py), what a mention shows (channel_render.py).
"""
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import channel_render
import versioned
from channel_render import Fetch, Row
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS channels (
    channel_id TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    private    INTEGER NOT NULL,           -- only its owner invites
    owner      TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS channel_members (
    channel_id TEXT NOT NULL,
    handle     TEXT NOT NULL,              -- '@claude', 'mika': as people write it
    kind       TEXT NOT NULL CHECK (kind IN ('person', 'agent')),
    reachable  INTEGER NOT NULL,
    PRIMARY KEY (channel_id, handle)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
    channel_id     TEXT NOT NULL,
    sequence       INTEGER NOT NULL,       -- the order of arrival, whatever a clock says: everything sorts by it
    thread_root_id TEXT,                   -- NULL: it stands in the channel itself
    role           TEXT NOT NULL,
    name           TEXT NOT NULL,          -- of the author, as shown at that time
    actor          TEXT NOT NULL,
    created_us     INTEGER NOT NULL,
    edited_us      INTEGER,
    deleted        INTEGER NOT NULL,
    body           TEXT NOT NULL,
    PRIMARY KEY (channel_id, sequence)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS messages_by_thread ON messages (channel_id, thread_root_id, sequence);
"""

BODY_LENGTH = (1, 10_000)                   # characters of one message
MEMBERS_A_CHANNEL = 500
ACTIVITY_LIMIT = (1, 100)
COLUMNS = 'sequence, role, name, body, created_us, thread_root_id, deleted'


class Author(NamedTuple):
    """Who a message is shown as. The caller knows; no argument of a call can say it."""
    role: str                               # 'user' or 'agent'
    name: str


# --- rules --------------------------------------------------------------------

def post_channel_message(tx: Tx, actor: str, arguments: dict, now_us: int, author: Author) -> dict:
    """{channel_id, message_id, created_at} of one new message, in the channel or, with thread_root_id, in a thread."""
    def work() -> dict:
        channel, root = arguments['channel_id'], arguments.get('thread_root_id')
        channel_name(tx, channel)
        require_root(tx, channel, root)
        body = checked_body(arguments['text'])
        container = Ref('channel', channel)
        created_us = versioned.next_stamp(tx, container, 0, now_us)
        sequence = next_sequence(tx, channel)
        tx.execute('INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, NULL, 0, ?)',
                   (channel, sequence, root, author.role, author.name, actor, created_us, body))
        versioned.record_event(tx, container, 'posted', message_id(sequence), created_us)
        return {'channel_id': channel, 'message_id': message_id(sequence),
                'created_at': versioned.stamp_text(created_us)}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'post_channel_message', arguments, work)


def channel_history(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """One page backwards: {channel_id, name, messages, has_more, before}. Stamps are text here, as in every answer."""
    channel = arguments['channel_id']
    try:
        page = channel_render.channel_history(fetch_from(tx, channel), arguments.get('before'),
                                              arguments.get('thread_root_id'),
                                              arguments.get('limit', channel_render.HISTORY_ROWS))
    except channel_render.Refusal as refusal:
        raise Refusal(refusal.code, str(refusal), **refusal.data) from None
    messages = [{**{name: value for name, value in each.items() if name != 'created_at_us'},
                 'created_at': versioned.stamp_text(each['created_at_us'])} for each in page['messages']]
    return {'channel_id': channel, 'name': channel_name(tx, channel), **page, 'messages': messages}


def channel_roster(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{channel_id, members: [{handle, kind, reachable}]}."""
    channel = arguments['channel_id']
    channel_name(tx, channel)
    rows = tx.execute('SELECT handle, kind, reachable FROM channel_members WHERE channel_id = ?', (channel,))
    members = [(handle, kind, bool(reachable)) for handle, kind, reachable in rows]
    return {'channel_id': channel, **channel_render.channel_roster(members)}


def project_activity(tx: Tx, refs: Sequence[Ref], arguments: dict) -> dict:
    """{activity, has_more}: the newest events of these logs, newest first. Which logs a project has and who may see
    them, the caller knows; each log is read from its end, so a long one costs no more than a short one."""
    limit = arguments.get('limit', channel_render.HISTORY_ROWS)
    versioned.check_integer('limit', limit, *ACTIVITY_LIMIT)
    found: List[Tuple[int, dict]] = []
    for ref in refs:
        rows = tx.execute('SELECT sequence, type, item_id, stamp_us FROM events WHERE ref_kind = ? AND ref_id = ? '
                          'ORDER BY sequence DESC LIMIT ?', (*ref, limit + 1))
        found += [(stamp_us, {'resource_type': ref.kind, 'resource_id': ref.id, 'type': kind, 'item_id': item_id,
                              'at': versioned.stamp_text(stamp_us)}) for _, kind, item_id, stamp_us in rows]
    found.sort(key=lambda pair: (pair[0], pair[1]['resource_type'], pair[1]['resource_id']))
    return channel_render.project_activity([event for _, event in found], limit)


def fetch_from(tx: Tx, channel: str) -> Fetch:
    """The channel as channel_render reads it: by index, from the newest back."""
    def fetch(thread_root_id: Optional[str], before: Optional[str], limit: int) -> List[Row]:
        end = sequence_of(tx, channel, before, 'before') if before is not None else 2 ** 62
        rows = tx.execute(f'SELECT {COLUMNS} FROM messages WHERE channel_id = ? AND thread_root_id IS ? '
                          'AND sequence < ? ORDER BY sequence DESC LIMIT ?',
                          (channel, thread_root_id, end, limit)).fetchall()
        if thread_root_id is not None and len(rows) < limit:
            root = sequence_of(tx, channel, thread_root_id, 'thread_root_id')
            rows += tx.execute(f'SELECT {COLUMNS} FROM messages WHERE channel_id = ? AND sequence = ? AND sequence < ?',
                               (channel, root, end)).fetchall()
        return [as_row(row) for row in reversed(rows)]
    return fetch


def as_row(row: tuple) -> Row:
    sequence, role, name, body, created_us, root, deleted = row
    return Row(message_id(sequence), role, name, body, created_us, root, bool(deleted))


def message_id(sequence: int) -> str:
    return f'm{sequence:06d}'


def sequence_of(tx: Tx, channel: str, message: str, field: str) -> int:
    """Refuses not_found for whatever is not exactly the id of a message of this channel."""
    digits = message[1:]
    if message[:1] == 'm' and digits.isascii() and digits.isdigit() and len(digits) <= 18:
        sequence = int(digits)
        found = tx.execute('SELECT 1 FROM messages WHERE channel_id = ? AND sequence = ?', (channel, sequence))
        if message == message_id(sequence) and found.fetchone():
            return sequence
    raise Refusal('not_found', f'there is no message {message!r} in this channel: page back with channel_history',
                  field=field)


def next_sequence(tx: Tx, channel: str) -> int:
    row = tx.execute('SELECT max(sequence) FROM messages WHERE channel_id = ?', (channel,)).fetchone()
    return (row[0] or 0) + 1


def require_root(tx: Tx, channel: str, root: Optional[str]) -> None:
    """A thread hangs on a message of the channel itself: no thread inside a thread, none across channels."""
    if root is None:
        return
    sequence = sequence_of(tx, channel, root, 'thread_root_id')
    inside = tx.execute('SELECT thread_root_id FROM messages WHERE channel_id = ? AND sequence = ?',
                        (channel, sequence)).fetchone()[0]
    if inside is not None:
        raise versioned.invalid('thread_root_id', f'the first message of a thread: this one is in the thread {inside}')


def checked_body(body: str) -> str:
    least, most = BODY_LENGTH
    if not least <= len(body.strip()) or len(body) > most or not versioned.is_text(body):
        raise versioned.invalid('text', f'{least} to {most:,} characters, not blank alone')
    return body


def channel_name(tx: Tx, channel: str) -> str:
    row = tx.execute('SELECT name FROM channels WHERE channel_id = ?', (channel,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no channel {channel!r}', channel_id=channel)
    return row[0]


# The people's side: channels, their members, and an author's own messages.

def create_channel(tx: Tx, channel: str, name: str, owner: str, private: bool = False) -> None:
    tx.execute('INSERT INTO channels VALUES (?, ?, ?, ?)', (channel, name, int(private), owner))


def require_inviter(tx: Tx, channel: str, person: str) -> None:
    """Whoever may edit the channel may invite to it; to a private one, its owner alone."""
    if person != (private_owner(tx, channel) or person):
        raise Refusal('owner_invites', 'this channel is private: only its owner can invite to it', channel_id=channel)


def private_owner(tx: Tx, channel: str) -> Optional[str]:
    """Whose private channel it is; None: it is an open one."""
    row = tx.execute('SELECT private, owner FROM channels WHERE channel_id = ?', (channel,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no channel {channel!r}', channel_id=channel)
    private, owner = row
    return owner if private else None


def require_reader(tx: Tx, channel: str, person: str) -> None:
    """A person's way into a private channel is its roster; for whoever is not on it the channel is not there."""
    row = tx.execute('SELECT private FROM channels WHERE channel_id = ?', (channel,)).fetchone()
    inside = tx.execute("SELECT 1 FROM channel_members WHERE channel_id = ? AND handle = ? AND kind = 'person'",
                        (channel, person)).fetchone()
    if row is None or (row[0] and not inside):
        raise Refusal('not_found', f'there is no channel {channel!r} for you', channel_id=channel)


def about_messages(tx: Tx, channel: str, messages: Sequence[str]) -> Dict[str, dict]:
    """What people's pages show beside the words: {message_id: {actor, edited_at or None, replies}}."""
    sequences = [sequence_of(tx, channel, message, 'message_id') for message in messages]
    rows = tx.execute('SELECT sequence, actor, edited_us FROM messages WHERE channel_id = ? '
                      f'AND sequence IN ({", ".join("?" * len(sequences))})', (channel, *sequences)).fetchall()
    replies = dict(tx.execute('SELECT thread_root_id, count(*) FROM messages WHERE channel_id = ? AND thread_root_id '
                              f'IN ({", ".join("?" * len(messages))}) GROUP BY thread_root_id', (channel, *messages)))
    return {message_id(sequence): {'actor': actor, 'edited_at': versioned.stamp_text(edited_us) if edited_us else None,
                                   'replies': replies.get(message_id(sequence), 0)}
            for sequence, actor, edited_us in rows}


def set_member(tx: Tx, channel: str, handle: str, kind: str, reachable: bool, person: str) -> None:
    """Into the roster, or reachable from now on, or no longer. Into a private one its owner lets others."""
    owner = private_owner(tx, channel)
    if owner and (person not in (owner, handle) or (handle == person and kind != 'person')):
        raise Refusal('owner_invites', 'only the owner of a private channel lets others in, and a person stays one',
                      channel_id=channel)
    count = tx.execute('SELECT count(*) FROM channel_members WHERE channel_id = ? AND handle <> ?',
                       (channel, handle)).fetchone()[0]
    if count >= MEMBERS_A_CHANNEL:
        raise versioned.invalid('handle', f'one of at most {MEMBERS_A_CHANNEL} members')
    tx.execute('INSERT INTO channel_members VALUES (?, ?, ?, ?) ON CONFLICT (channel_id, handle) DO UPDATE SET '
               'kind = excluded.kind, reachable = excluded.reachable', (channel, handle, kind, int(reachable)))


def may_remove(owner: Optional[str], person: str, handle: str) -> bool:
    """Of a private channel its owner removes, or a member himself; the owner stays: without him nobody could let
    anybody in. `owner`: of private_owner."""
    return owner is None or (handle != owner and person in (owner, handle))


def remove_member(tx: Tx, channel: str, handle: str, person: str) -> None:
    """Out of the roster."""
    if not may_remove(private_owner(tx, channel), person, handle):
        raise Refusal('owner_invites', 'only the owner of a private channel removes others from it, and he stays',
                      channel_id=channel)
    tx.execute('DELETE FROM channel_members WHERE channel_id = ? AND handle = ?', (channel, handle))


def edit_message(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """An author's change of his own words. A session that has read them is not shown them again (channel_render)."""
    return change_message(tx, actor, arguments, checked_body(arguments['text']), False, now_us)


def delete_message(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """The words go, the place in the order stays: a page of history and a thread keep their shape."""
    return change_message(tx, actor, arguments, '', True, now_us)


def change_message(tx: Tx, actor: str, arguments: dict, body: str, deleted: bool, now_us: int) -> dict:
    channel, message = arguments['channel_id'], arguments['message_id']
    sequence = sequence_of(tx, channel, message, 'message_id')
    stamp_us = versioned.next_stamp(tx, Ref('channel', channel), 0, now_us)
    changed = tx.execute('UPDATE messages SET body = ?, edited_us = ?, deleted = ? WHERE channel_id = ? '
                         'AND sequence = ? AND actor = ? AND deleted = 0',
                         (body, stamp_us, int(deleted), channel, sequence, actor)).rowcount
    if not changed:
        raise Refusal('not_your_message', 'only the author changes a message, and a deleted one stays deleted',
                      message_id=message)
    versioned.record_event(tx, Ref('channel', channel), 'deleted' if deleted else 'edited', message, stamp_us)
    return {'channel_id': channel, 'message_id': message, 'edited_at': versioned.stamp_text(stamp_us)}
