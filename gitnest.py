"""gitnest.py - the rest of GitNest's store: work, change sets and their versions, compositions, checks, publications.

Article 4, "Cosa fissano i sette tool di proposta?": what a proposal pins grows with its consequences, from its key
alone to the change set's version and the composed commit. Here is what those pins are compared with: a version counts
the changes to a change set's content, a composition is a real commit on the change set's own branch, a check's result
belongs to one commit. Both publications end in an open pull-request record: nothing here merges or deploys.

Check results are recorded by the owner's side; nothing that an agent wrote is executed. Not here: the proposals and
their decision (gitnest_proposals.py), the push to a provider (gitnest_provider.py), who may call (access.py).
"""
import json
import uuid
from typing import List, NamedTuple, Optional, Tuple

import git_paths
import proposal_intake
import versioned
from versioned import Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

SCHEMA = """
-- The owner's policy for a repository: what must be green, what needs a second look, where the provider is.
CREATE TABLE IF NOT EXISTS gitnest_policies (
    repository      TEXT PRIMARY KEY,
    required_checks TEXT NOT NULL,       -- JSON: [name, ...]
    look_twice      TEXT NOT NULL,       -- JSON: [path or path/, ...]; a folder ends in a slash
    look_twice_over INTEGER NOT NULL,    -- bytes that a composition may change without a second look
    provider        TEXT NOT NULL,       -- as shown: 'github'; '' for none
    provider_url    TEXT NOT NULL        -- never in an answer: it may hold a secret
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS gitnest_work (
    work        TEXT PRIMARY KEY,
    repository  TEXT NOT NULL,
    title       TEXT NOT NULL,
    description TEXT NOT NULL,
    actor       TEXT NOT NULL,
    created_us  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS gitnest_change_sets (
    change_set       TEXT PRIMARY KEY,
    repository       TEXT NOT NULL,
    work             TEXT,
    title            TEXT NOT NULL,
    target_branch    TEXT NOT NULL,
    version          INTEGER NOT NULL,   -- counts the changes to its imports; composing changes no content
    imports          TEXT NOT NULL,      -- JSON: [{"message", "files": [[path, content], ...]}, ...], applied in order
    composition_oid  TEXT,               -- the last composed commit, and what it was made of
    composed_version INTEGER,
    base_oid         TEXT,
    actor            TEXT NOT NULL,
    created_us       INTEGER NOT NULL
) WITHOUT ROWID;
-- A check belongs to one composed commit: a green light for another commit says nothing.
CREATE TABLE IF NOT EXISTS gitnest_checks (
    change_set      TEXT NOT NULL,
    composition_oid TEXT NOT NULL,
    name            TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('queued', 'passed', 'failed')),
    detail          TEXT NOT NULL,
    runs            INTEGER NOT NULL,    -- how often it was asked for
    at_us           INTEGER NOT NULL,
    PRIMARY KEY (change_set, composition_oid, name)
) WITHOUT ROWID;
-- What became of things, for those who come later.
CREATE TABLE IF NOT EXISTS gitnest_results (
    sequence   INTEGER PRIMARY KEY,
    repository TEXT NOT NULL,
    change_set TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('composition', 'check', 'publication')),
    oid        TEXT NOT NULL,
    summary    TEXT NOT NULL,
    at_us      INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS gitnest_results_by_repository ON gitnest_results (repository, sequence);
CREATE TABLE IF NOT EXISTS gitnest_pull_requests (
    pull_request TEXT PRIMARY KEY,       -- the proposal that opened it: opening twice is not possible
    repository   TEXT NOT NULL,
    change_set   TEXT NOT NULL,
    version      INTEGER NOT NULL,
    provider     TEXT NOT NULL,          -- '' for a native one
    base_branch  TEXT NOT NULL,
    base_oid     TEXT,
    head_branch  TEXT NOT NULL,
    head_oid     TEXT NOT NULL,
    status       TEXT NOT NULL CHECK (status IN ('open')),
    opened_us    INTEGER NOT NULL
) WITHOUT ROWID;
"""

BRANCHES = 'change-sets/'                # a change set's one branch: change-sets/ID
TITLE, DESCRIPTION = (1, 200), (0, 10_000)
MOST_IMPORTS = 20
LISTED = 100
UNLIMITED = 2 ** 62
NAME_PATTERN = '^[A-Za-z0-9][A-Za-z0-9._ -]{0,99}$'


class Policy(NamedTuple):
    required_checks: Tuple[str, ...]
    look_twice: Tuple[str, ...]
    look_twice_over: int
    provider: str
    provider_url: str


class ChangeSet(NamedTuple):
    """A row."""
    change_set: str
    repository: str
    work: Optional[str]
    title: str
    target_branch: str
    version: int
    imports: str
    composition_oid: Optional[str]
    composed_version: Optional[int]
    base_oid: Optional[str]
    actor: str
    created_us: int

    @property
    def branch(self) -> str:
        return BRANCHES + self.change_set


NO_POLICY = Policy((), (), UNLIMITED, '', '')

# --- rules --------------------------------------------------------------------


def policy(tx: Tx, repository: str) -> Policy:
    row = tx.execute('SELECT required_checks, look_twice, look_twice_over, provider, provider_url '
                     'FROM gitnest_policies WHERE repository = ?', (repository,)).fetchone()
    return Policy(tuple(json.loads(row[0])), tuple(json.loads(row[1])), *row[2:]) if row else NO_POLICY


def set_policy(tx: Tx, repository: str, new: Policy) -> None:
    """The owner's click."""
    tx.execute('INSERT OR REPLACE INTO gitnest_policies VALUES (?, ?, ?, ?, ?, ?)',
               (repository, json.dumps(new.required_checks), json.dumps(new.look_twice), *new[2:]))


def create_work(tx: Tx, repository: str, title: str, description: str, actor: str, now_us: int) -> str:
    work = str(uuid.uuid4())
    tx.execute('INSERT INTO gitnest_work VALUES (?, ?, ?, ?, ?, ?)',
               (work, repository, title, description, actor, now_us))
    return work


def require_work(tx: Tx, repository: str, work: str) -> tuple:
    row = tx.execute('SELECT work, title, description, created_us FROM gitnest_work WHERE work = ? AND repository = ?',
                     (work, repository)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no work item {work!r} in this repository')
    return row


def create_change_set(tx: Tx, repository: str, work: Optional[str], title: str, target_branch: str,
                      imports: List[dict], actor: str, now_us: int) -> str:
    change_set = str(uuid.uuid4())
    tx.execute('INSERT INTO gitnest_change_sets VALUES (?, ?, ?, ?, ?, 1, ?, NULL, NULL, NULL, ?, ?)',
               (change_set, repository, work, title, target_branch, json.dumps(imports), actor, now_us))
    return change_set


def revise(tx: Tx, change_set: str, imports: List[dict], version: int) -> int:
    """Other imports than those of `version`: a new one, whose composition is yet to be made. Or stale_version."""
    words = json.dumps(check_imports(imports))
    swapped = tx.execute('UPDATE gitnest_change_sets SET imports = ?, version = version + 1 '
                         'WHERE change_set = ? AND version = ?', (words, change_set, version))
    current = find(tx, change_set).version
    if not swapped.rowcount:
        raise Refusal('stale_version', 'the change set was revised in between: read it again', current_version=current)
    return current


def find(tx: Tx, change_set: str) -> ChangeSet:
    row = tx.execute('SELECT * FROM gitnest_change_sets WHERE change_set = ?', (change_set,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no change set {change_set!r}')
    return ChangeSet(*row)


def find_in(tx: Tx, repository: str, change_set: str) -> ChangeSet:
    """A change set of another repository does not exist here."""
    row = find(tx, change_set)
    if row.repository != repository:
        raise Refusal('not_found', f'there is no change set {change_set!r}')
    return row


def check_imports(imports: List[dict]) -> List[dict]:
    """Each import keeps the limits of a file import; as they are stored."""
    if not 1 <= len(imports) <= MOST_IMPORTS:
        raise invalid('imports', f'1 to {MOST_IMPORTS} imports')
    checked = []
    for number, one in enumerate(imports):
        proposal_intake.require_message(one['message'], f'imports[{number}].message')
        checked.append({'message': one['message'], 'files': proposal_intake.check_files(one['files'])})
    twins = git_paths.twin_fault(sorted({path for one in checked for path, _ in one['files']}))
    if twins:
        raise invalid('imports', 'paths that differ: ' + twins)
    return checked


def composed_files(row: ChangeSet) -> List[Tuple[str, str]]:
    """All imports applied in order: of one path the last content counts."""
    files = {path: content for one in json.loads(row.imports) for path, content in one['files']}
    return list(files.items())


def composed_message(row: ChangeSet) -> str:
    lines = [one['message'].strip().split('\n')[0] for one in json.loads(row.imports)]
    return '\n'.join([row.title, '', *(f'- {line}' for line in lines)])


def record_composition(tx: Tx, row: ChangeSet, version: int, oid: str, base_oid: Optional[str], now_us: int) -> None:
    """A composed commit, with every required check waiting for its result."""
    tx.execute('UPDATE gitnest_change_sets SET composition_oid = ?, composed_version = ?, base_oid = ? '
               'WHERE change_set = ?', (oid, version, base_oid, row.change_set))
    for name in policy(tx, row.repository).required_checks:
        tx.execute("INSERT OR IGNORE INTO gitnest_checks VALUES (?, ?, ?, 'queued', '', 1, ?)",
                   (row.change_set, oid, name, now_us))
    record_result(tx, row, 'composition', oid, f'version {version} composed', now_us)


def record_check(tx: Tx, change_set: str, oid: str, name: str, status: str, detail: str, now_us: int) -> None:
    """The owner's side says how a check ended, for one commit; also late, for one that was superseded."""
    row = find(tx, change_set)
    tx.execute('INSERT INTO gitnest_checks VALUES (?, ?, ?, ?, ?, 1, ?) '
               'ON CONFLICT (change_set, composition_oid, name) DO UPDATE '
               'SET status = excluded.status, detail = excluded.detail, at_us = excluded.at_us',
               (change_set, oid, name, status, detail, now_us))
    record_result(tx, row, 'check', oid, f'{name}: {status}', now_us)


def ask_again(tx: Tx, change_set: str, oid: str, name: str, now_us: int) -> int:
    """A rerun is a request: the check waits again for the owner's side. Returns how often it was asked for."""
    tx.execute("UPDATE gitnest_checks SET status = 'queued', detail = '', runs = runs + 1, at_us = ? "
               'WHERE change_set = ? AND composition_oid = ? AND name = ?', (now_us, change_set, oid, name))
    return require_check(tx, change_set, oid, name)[1]


def require_check(tx: Tx, change_set: str, oid: str, name: str) -> Tuple[str, int]:
    row = tx.execute('SELECT status, runs FROM gitnest_checks WHERE change_set = ? AND composition_oid = ? '
                     'AND name = ?', (change_set, oid, name)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no check {name!r} of that composition')
    return row


def checks_of(tx: Tx, change_set: str, oid: str) -> List[dict]:
    rows = tx.execute('SELECT name, status, detail, runs, at_us FROM gitnest_checks '
                      'WHERE change_set = ? AND composition_oid = ? ORDER BY name', (change_set, oid))
    return [{'name': name, 'status': status, 'detail': detail, 'runs': runs, 'at': versioned.stamp_text(at_us)}
            for name, status, detail, runs, at_us in rows]


def missing_checks(tx: Tx, row: ChangeSet, oid: str) -> List[dict]:
    """Required and not passed for this very commit: [{name, status}]."""
    found = {one['name']: one['status'] for one in checks_of(tx, row.change_set, oid)}
    required = policy(tx, row.repository).required_checks
    return [{'name': name, 'status': found.get(name, 'queued')} for name in required if found.get(name) != 'passed']


def look_twice_reasons(tx: Tx, row: ChangeSet) -> List[str]:
    """Why the owner's policy wants a second look at this change set; [] when it does not."""
    rules, files = policy(tx, row.repository), composed_files(row)
    reasons = [f'{path} is under {rule}' if rule.endswith('/') else f'{path} is listed'
               for rule in rules.look_twice for path, _ in files
               if (path.startswith(rule) if rule.endswith('/') else path == rule)]
    size = sum(len(content.encode('utf-8')) for _, content in files)
    if size > rules.look_twice_over:
        reasons.append(f'{size:,} bytes are more than {rules.look_twice_over:,}')
    return reasons


def open_pull_request(tx: Tx, proposal: str, row: ChangeSet, version: int, oid: str, provider: str,
                      now_us: int) -> dict:
    """The end of a publication: a record, open. What merges it is its owner's screen, not this server."""
    tx.execute("INSERT OR IGNORE INTO gitnest_pull_requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', ?)",
               (proposal, row.repository, row.change_set, version, provider, row.target_branch, row.base_oid,
                row.branch, oid, now_us))
    record_result(tx, row, 'publication', oid, f'pull request opened{" on " + provider if provider else ""}', now_us)
    return {'pull_request_id': proposal, 'base_branch': row.target_branch, 'base_oid': row.base_oid,
            'head_branch': row.branch, 'head_oid': oid}


def record_result(tx: Tx, row: ChangeSet, kind: str, oid: str, summary: str, now_us: int) -> None:
    tx.execute('INSERT INTO gitnest_results (repository, change_set, kind, oid, summary, at_us) '
               'VALUES (?, ?, ?, ?, ?, ?)', (row.repository, row.change_set, kind, oid, summary, now_us))


# What agents and pages read.

def describe(tx: Tx, row: ChangeSet) -> dict:
    pulls = tx.execute('SELECT pull_request, provider, status FROM gitnest_pull_requests WHERE change_set = ? '
                       'ORDER BY opened_us, pull_request', (row.change_set,)).fetchall()
    return {'change_set_id': row.change_set, 'title': row.title, 'work_id': row.work,
            'target_branch': row.target_branch, 'version': row.version, 'composition_oid': row.composition_oid,
            'composed_version': row.composed_version, 'base_oid': row.base_oid,
            'paths': [path for path, _ in composed_files(row)],
            'pull_requests': [{'pull_request_id': pull, 'provider': provider or None, 'status': status}
                              for pull, provider, status in pulls]}


def list_work(tx: Tx, repository: str) -> dict:
    """{work: [...], change_sets: [...]}, the newest first."""
    work = tx.execute('SELECT work, title FROM gitnest_work WHERE repository = ? '
                      'ORDER BY created_us DESC, work LIMIT ?', (repository, LISTED)).fetchall()
    sets = tx.execute('SELECT change_set, title, version, composition_oid FROM gitnest_change_sets '
                      'WHERE repository = ? ORDER BY created_us DESC, change_set LIMIT ?',
                      (repository, LISTED)).fetchall()
    return {'work': [{'work_id': one, 'title': title} for one, title in work],
            'change_sets': [{'change_set_id': one, 'title': title, 'version': version, 'composition_oid': oid}
                            for one, title, version, oid in sets]}


def read_work(tx: Tx, repository: str, work: str) -> dict:
    """The item with its change sets, their versions and compositions: what the next proposal must pin."""
    _, title, description, created_us = require_work(tx, repository, work)
    rows = tx.execute('SELECT * FROM gitnest_change_sets WHERE work = ? ORDER BY created_us, change_set LIMIT ?',
                      (work, LISTED)).fetchall()
    return {'work_id': work, 'title': title, 'description': description, 'created_at': versioned.stamp_text(created_us),
            'change_sets': [describe(tx, ChangeSet(*row)) for row in rows]}


def saved_results(tx: Tx, repository: str, change_set: Optional[str]) -> dict:
    rows = tx.execute('SELECT change_set, kind, oid, summary, at_us FROM gitnest_results WHERE repository = ? '
                      'AND (? IS NULL OR change_set = ?) ORDER BY sequence DESC LIMIT ?',
                      (repository, change_set, change_set, LISTED))
    return {'results': [{'change_set_id': one, 'kind': kind, 'oid': oid, 'summary': summary,
                         'at': versioned.stamp_text(at_us)} for one, kind, oid, summary, at_us in rows]}
