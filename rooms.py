"""rooms.py - cloud Rooms, and app installs that wait for their owner.

Article 6, step 4 (Rooms are part of what a project opens) and "Dov'è il confine": an assistant does not install an
app in a Room, it proposes to. The proposal waits under "Needs your approval", where the owner sees the Room and
every file before Approve or Decline. The name propose_room_app_install is ours: the article gives the rule and no
name.

Approving stores the files as the Room's app. Nothing an assistant wrote is executed here.

Not here: who may propose and decide (tools_rooms.py, owner_project.py), proposals to a repository (proposals.py).
"""
import json
import uuid
from typing import List, NamedTuple, Optional, Tuple

import versioned
from versioned import Ref, Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS rooms (
    room TEXT PRIMARY KEY,
    name TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS room_apps (
    room         TEXT NOT NULL,
    app_name     TEXT NOT NULL,
    files        TEXT NOT NULL,           -- JSON: [[path, content], ...]
    installed_us INTEGER NOT NULL,
    proposal     TEXT NOT NULL,           -- which one brought it
    PRIMARY KEY (room, app_name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS room_proposals (
    proposal   TEXT PRIMARY KEY,
    actor      TEXT NOT NULL,             -- who proposed: never who decides
    room       TEXT NOT NULL,
    app_name   TEXT NOT NULL,
    replaces   TEXT,                      -- the proposal whose app stood there when this one was written; NULL: none
    files      TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('pending', 'executed', 'stale', 'declined', 'expired')),
    reason     TEXT NOT NULL,             -- the owner's words on a decline
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    approver   TEXT,
    decided_us INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS room_proposals_by_room ON room_proposals (room, actor, created_us);
CREATE INDEX IF NOT EXISTS room_proposals_by_status ON room_proposals (status, created_us);
"""

MOST_FILES, MOST_CONTENT, MOST_BYTES = 20, 100_000, 200_000           # as for files proposed to a repository
MOST_PENDING = 1_000                      # of one connection for one Room
NAME_LENGTH, PATH_LENGTH = (1, 64), (1, 255)
NAME, PATH = '^[a-z0-9][a-z0-9-]*$', '^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$'


class Install(NamedTuple):
    """A row of room_proposals."""
    proposal: str
    actor: str
    room: str
    app_name: str
    replaces: Optional[str]
    files: str
    status: str
    reason: str
    created_us: int
    expires_us: int
    approver: Optional[str]
    decided_us: Optional[int]


# --- rules --------------------------------------------------------------------

def create_room(tx: Tx, room: str, name: str) -> None:
    tx.execute('INSERT INTO rooms VALUES (?, ?)', (room, name))


def propose_room_app_install(tx: Tx, actor: str, arguments: dict, now_us: int, ttl_us: int) -> dict:
    """{proposal_id, status: pending}. The limits of the files are checked here; their kinds, by the tool's schema."""
    def work() -> dict:
        require_few(tx, actor, arguments['room_id'], now_us)
        files = checked_files(arguments['files'])
        standing = installed_by(tx, arguments['room_id'], arguments['app_name'])
        proposal = str(uuid.uuid4())
        tx.execute("INSERT INTO room_proposals VALUES (?, ?, ?, ?, ?, ?, 'pending', '', ?, ?, NULL, NULL)",
                   (proposal, actor, arguments['room_id'], arguments['app_name'], standing, json.dumps(files),
                    now_us, now_us + ttl_us))
        return {'proposal_id': proposal, 'status': 'pending'}
    return versioned.once(tx, actor, arguments['idempotency_key'], 'propose_room_app_install', arguments, work)


def require_few(tx: Tx, actor: str, room: str, now_us: int) -> None:
    pending = tx.execute("SELECT count(*) FROM room_proposals WHERE room = ? AND actor = ? AND status = 'pending' "
                         'AND expires_us > ?', (room, actor, now_us)).fetchone()[0]
    if pending >= MOST_PENDING:
        raise Refusal('too_many_pending', f'{MOST_PENDING:,} proposals of yours wait for this Room: wait for its owner',
                      limit=MOST_PENDING)


def checked_files(files: List[dict]) -> List[Tuple[str, str]]:
    """Refuses too many bytes together, and two paths that one file system would take for the same."""
    if sum(len(file['content'].encode()) for file in files) > MOST_BYTES:
        raise invalid('files', f'at most {MOST_BYTES:,} bytes together')
    paths = [file['path'].casefold() for file in files]
    if len(set(paths)) < len(paths) or any(other.startswith(path + '/') for path in paths for other in paths):
        raise invalid('files', 'of different paths, none of which is the folder of another')
    return [(file['path'], file['content']) for file in files]


def installed_by(tx: Tx, room: str, app_name: str) -> Optional[str]:
    row = tx.execute('SELECT proposal FROM room_apps WHERE room = ? AND app_name = ?', (room, app_name)).fetchone()
    return row[0] if row else None


def find(tx: Tx, proposal: str) -> Install:
    row = tx.execute('SELECT * FROM room_proposals WHERE proposal = ?', (proposal,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no proposal {proposal!r}')
    return Install(*row)


def is_room_proposal(tx: Tx, proposal: str) -> bool:
    return tx.execute('SELECT 1 FROM room_proposals WHERE proposal = ?', (proposal,)).fetchone() is not None


def decide(tx: Tx, proposal: str, approver: str, verb: str, reason: str, now_us: int) -> dict:
    """The owner's click. A decided proposal answers what was decided; one too old or overtaken, its status, refused.

    The caller has checked, in this transaction, that the proposer and the approver still may."""
    row = find(tx, proposal)
    if row.status != 'pending':
        return {'status': row.status, **({'replayed': True} if verdict(verb) == row.status else {'refused': True})}
    if verb == 'decline':
        return close(tx, row, 'declined', approver, now_us, reason)
    if now_us >= row.expires_us:
        return {**close(tx, row, 'expired', approver, now_us), 'refused': True}
    if installed_by(tx, row.room, row.app_name) != row.replaces:
        return {**close(tx, row, 'stale', approver, now_us), 'refused': True}
    stamp_us = versioned.next_stamp(tx, Ref('room', row.room), 0, now_us)
    tx.execute('INSERT OR REPLACE INTO room_apps VALUES (?, ?, ?, ?, ?)',
               (row.room, row.app_name, row.files, stamp_us, row.proposal))
    versioned.record_event(tx, Ref('room', row.room), 'app_installed', row.app_name, stamp_us)
    return close(tx, row, 'executed', approver, now_us)


def verdict(verb: str) -> str:
    return {'approve': 'executed', 'decline': 'declined'}[verb]


def close(tx: Tx, row: Install, status: str, approver: str, now_us: int, reason: str = '') -> dict:
    tx.execute('UPDATE room_proposals SET status = ?, approver = ?, decided_us = ?, reason = ? WHERE proposal = ?',
               (status, approver, now_us, reason, row.proposal))
    return {'status': status}


def read_room(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{room_id, name, apps, proposals}: the apps that are there, and what became of this connection's own proposals."""
    room = arguments['room_id']
    found = tx.execute('SELECT name FROM rooms WHERE room = ?', (room,)).fetchone()
    if found is None:
        raise Refusal('not_found', f'there is no Room {room!r}')
    apps = tx.execute('SELECT app_name, installed_us FROM room_apps WHERE room = ? ORDER BY app_name', (room,))
    mine = tx.execute('SELECT * FROM room_proposals WHERE room = ? AND actor = ? ORDER BY created_us DESC, proposal '
                      'LIMIT 20', (room, actor))
    return {'room_id': room, 'name': found[0],
            'apps': [{'app_name': app, 'installed_at': versioned.stamp_text(at_us)} for app, at_us in apps],
            'proposals': [{'proposal_id': row.proposal, 'app_name': row.app_name, 'status': status_now(row, now_us),
                           'reason': row.reason} for row in map(Install._make, mine)]}


def status_now(row: Install, now_us: int) -> str:
    return 'expired' if row.status == 'pending' and now_us >= row.expires_us else row.status


def all_waiting(tx: Tx, now_us: int) -> List[Install]:
    """What "Needs your approval" may show, the oldest first; whether to this person, the caller asks Room by Room."""
    rows = tx.execute("SELECT * FROM room_proposals WHERE status = 'pending' AND expires_us > ? "
                      'ORDER BY created_us, proposal', (now_us,))
    return [Install._make(row) for row in rows]


def count_waiting(tx: Tx, now_us: int) -> List[Tuple[str, int]]:
    return tx.execute("SELECT room, count(*) FROM room_proposals WHERE status = 'pending' AND expires_us > ? "
                      'GROUP BY room', (now_us,)).fetchall()


def card(tx: Tx, row: Install) -> dict:
    """What the owner sees before the click: the Room by name, the app, and every file in full."""
    name = tx.execute('SELECT name FROM rooms WHERE room = ?', (row.room,)).fetchone()[0]
    return {'proposal_id': row.proposal, 'kind': 'room_app_install', 'room_id': row.room, 'room': name,
            'app_name': row.app_name, 'replaces_an_app': row.replaces is not None,
            'files': [{'path': path, 'content': content} for path, content in json.loads(row.files)],
            'proposed_by': row.actor, 'expires_at': versioned.stamp_text(row.expires_us)}
