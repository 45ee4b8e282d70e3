"""proposal_intake.py - an agent proposes files: intake, reading, taking back. Nothing here moves a reference.

Article 4, "La ricostruzione": intake is idempotent on (connection, idempotency_key), with a hash of the call; it pins
the base that the reviewer will compare with. The limits are those of the live tool, propose_gitnest_file_import, whose
schema has no expected_base_oid: there the server pins the head; propose_file_import, the reconstruction's, may name it.

Not here: the owner's click and what git does then (proposals.py), names an agent may not use (git_paths.py), what the
owner sees (proposal_card.py), who may call (access.py), the other six propose tools (gitnest_proposals.py).
"""
import json
import uuid
from typing import Any, List, NamedTuple, Optional, Tuple

import git_paths
import versioned
from git_objects import GitError, Intent
from git_repo import Repository
from versioned import Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS repositories (
    repository TEXT PRIMARY KEY,
    gitnest_on INTEGER NOT NULL          -- the owner's switch: off refuses every proposal
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS proposals (
    proposal   TEXT PRIMARY KEY,         -- immutable; also the name of its marker in git
    tool       TEXT NOT NULL,
    actor      TEXT NOT NULL,            -- who proposed: never who decides
    repository TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('pending', 'executed', 'stale', 'declined', 'expired', 'withdrawn')),
    reason     TEXT NOT NULL,            -- the owner's words on a decline, for the agent to read
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    approver   TEXT,                     -- who decided
    decided_us INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS proposals_by_status ON proposals (repository, status, created_us);
CREATE INDEX IF NOT EXISTS proposals_by_actor ON proposals (actor, repository, status, expires_us);
CREATE TABLE IF NOT EXISTS file_imports (
    proposal      TEXT PRIMARY KEY,
    branch        TEXT NOT NULL,
    base_oid      TEXT,                  -- what the reviewer compares with: the parent; NULL: empty repository
    expected_head TEXT,                  -- where the branch must still be; NULL: the branch must still not exist
    author        TEXT NOT NULL,         -- the connection
    message       TEXT NOT NULL,
    files         TEXT NOT NULL          -- JSON: [[path, content], ...]
) WITHOUT ROWID;
-- An import's intent: stored, the decision is made. With it the commit id is known before git hears of it. Not beside
-- the files: SQLite would write all of them again with each change of it.
CREATE TABLE IF NOT EXISTS intents (
    proposal   TEXT PRIMARY KEY,
    commit_oid TEXT NOT NULL,
    committer  TEXT,                     -- as the next, NULL of one that git's marker told of
    intent_us  INTEGER
) WITHOUT ROWID;
"""

MOST_FILES = 20                          # the live tool's limits
MOST_CONTENT = 100_000                   # characters a file
MOST_BYTES = 200_000                     # of UTF-8, all files together
MOST_MESSAGE = 4_000                     # characters
MOST_PENDING = 1_000                     # of one connection in one repository: ours, so that an owner can read them
DAY_US = 24 * 3600 * 1_000_000
TTL_US = 7 * DAY_US
SELECT = """SELECT p.*, f.branch, f.base_oid, f.expected_head, f.author, f.message, f.files, i.commit_oid, i.committer,
                   i.intent_us FROM proposals p JOIN file_imports f ON f.proposal = p.proposal
                   LEFT JOIN intents i ON i.proposal = p.proposal """


class Proposal(NamedTuple):
    """A row of each table."""
    proposal: str
    tool: str
    actor: str
    repository: str
    status: str
    reason: str
    created_us: int
    expires_us: int
    approver: Optional[str]
    decided_us: Optional[int]
    branch: str
    base_oid: Optional[str]
    expected_head: Optional[str]
    author: str
    message: str
    files: str
    commit_oid: Optional[str]
    committer: Optional[str]
    intent_us: Optional[int]

# --- rules --------------------------------------------------------------------


def propose_file_import(tx: Tx, actor: str, arguments: dict, now_us: int, repo: Repository, author: str,
                        ttl_us: int = TTL_US, tool: str = 'propose_file_import') -> dict:
    """{proposal_id, status, base_oid}. `repo` is read, never written. `author`: as git_objects.person gives it."""
    return versioned.once(tx, actor, arguments['idempotency_key'], tool, arguments,
                          lambda: intake(tx, actor, arguments, now_us, repo, author, ttl_us, tool))


def intake(tx: Tx, actor: str, arguments: dict, now_us: int, repo: Repository, author: str, ttl_us: int,
           tool: str) -> dict:
    require_gitnest(tx, arguments['repository_id'])
    require_few(tx, actor, arguments['repository_id'], now_us)
    files, branch, message = check_files(arguments['files']), arguments['branch'], arguments['message']
    require_branch(branch)
    require_message(message)
    try:
        base, expected = pin(repo, branch, arguments.get('expected_base_oid'))
        repo.build(Intent(base, files, author, 0, author, 0, message))        # what stands in the way refuses now
    except GitError as error:
        raise Refusal(error.code, str(error), **error.data) from error
    proposal = str(uuid.uuid4())
    file_proposal(tx, proposal, tool, actor, arguments['repository_id'], now_us, ttl_us)
    tx.execute('INSERT INTO file_imports VALUES (?, ?, ?, ?, ?, ?, ?)',
               (proposal, branch, base, expected, author, message, json.dumps(files)))
    return {'proposal_id': proposal, 'status': 'pending', 'base_oid': base}


def file_proposal(tx: Tx, proposal: str, tool: str, actor: str, repository: str, now_us: int, ttl_us: int) -> None:
    """Of every kind of proposal."""
    tx.execute("INSERT INTO proposals VALUES (?, ?, ?, ?, 'pending', '', ?, ?, NULL, NULL)",
               (proposal, tool, actor, repository, now_us, now_us + ttl_us))


def pin(repo: Repository, branch: str, asked: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
    """(base, where the branch must still be at approval). A branch that does not exist yet begins at HEAD."""
    head = repo.head(branch)
    base = head if head is not None else repo.default_head()
    if asked is not None and asked != base:
        raise Refusal('stale', f'{branch} is not at {asked}: read again, then propose on the new head',
                      base_oid=asked, branch_head=base)
    return base, head


def check_files(files: List[dict]) -> List[Tuple[str, str]]:
    """[(path, content)]; refuses by name the path that is a trick."""
    if not 1 <= len(files) <= MOST_FILES:
        raise invalid('files', f'1 to {MOST_FILES} files')
    for number, file in enumerate(files):
        fault = git_paths.path_fault(file['path'])
        if fault:
            raise Refusal('invalid_argument', f'files[{number}].path {ascii(file["path"][:200])}: {fault}',
                          field=f'files[{number}].path', limit=fault)
        if len(file['content']) > MOST_CONTENT:
            raise invalid(f'files[{number}].content', f'at most {MOST_CONTENT:,} characters')
        if not versioned.is_text(file['content']):
            raise invalid(f'files[{number}].content', 'UTF-8 text without NUL')
    twins = git_paths.twin_fault([file['path'] for file in files])
    if twins:
        raise invalid('files', 'paths that differ: ' + twins)
    size = sum(len(file['content'].encode('utf-8')) for file in files)
    if size > MOST_BYTES:
        raise invalid('files', f'at most {MOST_BYTES:,} bytes of UTF-8 together, not {size:,}')
    return [(file['path'], file['content']) for file in files]


def require_branch(branch: str, field: str = 'branch') -> None:
    fault = git_paths.branch_fault(branch)
    if fault:
        raise invalid(field, 'another one: ' + fault)


def require_message(message: str, field: str = 'message') -> None:
    too_long = len(message) > MOST_MESSAGE
    fault = f'it has more than {MOST_MESSAGE:,} characters' if too_long else git_paths.message_fault(message)
    if fault:
        raise invalid(field, 'another one: ' + fault)


def register(tx: Tx, repository: str, gitnest_on: bool = True) -> None:
    """Make a repository known, or turn the owner's switch."""
    tx.execute('INSERT INTO repositories VALUES (?, ?) ON CONFLICT (repository) '
               'DO UPDATE SET gitnest_on = excluded.gitnest_on', (repository, int(gitnest_on)))


def require_gitnest(tx: Tx, repository: str) -> None:
    row = tx.execute('SELECT gitnest_on FROM repositories WHERE repository = ?', (repository,)).fetchone()
    if not row or not row[0]:
        raise Refusal('gitnest_off', 'Repository GitNest is not enabled here: its owner can switch it on')


def require_few(tx: Tx, actor: str, repository: str, now_us: int) -> None:
    """Of every kind of proposal. Another connection's do not count, and none that can no longer be approved."""
    pending = tx.execute("SELECT count(*) FROM proposals WHERE actor = ? AND repository = ? AND status = 'pending' "
                         'AND expires_us > ?', (actor, repository, now_us)).fetchone()[0]
    if pending >= MOST_PENDING:
        raise Refusal('too_many_pending', f'{MOST_PENDING:,} proposals of yours wait in this repository: withdraw '
                      'some, or wait for its owner', limit=MOST_PENDING)


def find(tx: Tx, proposal: str) -> Proposal:
    row = tx.execute(SELECT + 'WHERE p.proposal = ?', (proposal,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no proposal {proposal!r}')
    return Proposal(*row)


def tool_of(tx: Tx, proposal: str) -> str:
    """Which tool's proposal it is: others than file imports are found elsewhere (gitnest_proposals.py)."""
    return _column(tx, proposal, 'tool')


def repository_of(tx: Tx, proposal: str) -> str:
    return _column(tx, proposal, 'repository')


def status_of(tx: Tx, proposal: str) -> str:
    return _column(tx, proposal, 'status')


def _column(tx: Tx, proposal: str, name: str) -> str:
    row = tx.execute(f'SELECT {name} FROM proposals WHERE proposal = ?', (proposal,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no proposal {proposal!r}')
    return row[0]


def of_actor(tx: Tx, actor: str, proposal: str) -> Proposal:
    """A proposal is its proposer's to read: to anybody else it does not exist."""
    row = find(tx, proposal)
    if row.actor != actor:
        raise Refusal('not_found', f'there is no proposal {proposal!r}')
    return row


def status_now(row: Any, under_way: bool, now_us: int) -> str:
    """Nobody writes 'expired' at midnight. With a decision under way it is not expired: git may have done it."""
    return 'expired' if row.status == 'pending' and not under_way and now_us >= row.expires_us else row.status


def read_proposal(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    row = of_actor(tx, actor, arguments['proposal_id'])
    status = status_now(row, row.commit_oid is not None, now_us)
    found = {'proposal_id': row.proposal, 'status': status, 'branch': row.branch,
             'base_oid': row.base_oid, 'paths': [path for path, _ in json.loads(row.files)],
             'expires_at': versioned.stamp_text(row.expires_us)}
    if row.status == 'executed':
        found['commit'] = row.commit_oid
    return {**found, 'reason': row.reason} if row.reason else found


def withdraw(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """The proposer takes it back while nobody has decided."""
    return versioned.once(tx, actor, arguments['idempotency_key'], 'withdraw_proposal', arguments,
                          lambda: take_back(tx, actor, find(tx, arguments['proposal_id']), now_us))


def take_back(tx: Tx, actor: str, row: Any, now_us: int) -> dict:
    """Of every kind of proposal. `row.intent_us`: a decision was stored, and what became of it git knows."""
    if row.actor != actor:
        raise Refusal('not_found', f'there is no proposal {row.proposal!r}')
    under_way = row.intent_us is not None
    status = status_now(row, under_way, now_us)
    if status != 'pending':
        raise Refusal('already_decided', f'the proposal is {status}', status=status)
    if under_way:
        raise Refusal('decision_under_way', 'the owner is approving it: read the proposal again')
    close(tx, row, 'withdrawn', row.actor, now_us)
    return {'proposal_id': row.proposal, 'status': 'withdrawn'}


def close(tx: Tx, row: Proposal, status: str, by: str, now_us: int, reason: str = '') -> None:
    """The one place where a status changes. What is closed only ever becomes executed, and only by git's own word."""
    tx.execute('UPDATE proposals SET status = ?, approver = ?, decided_us = ?, reason = ? WHERE proposal = ? '
               "AND (status = 'pending' OR ? = 'executed')", (status, by, now_us, reason, row.proposal, status))
