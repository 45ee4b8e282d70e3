"""access.py - connections, where every item is, and the check before every tool.

Article 7: "Perché lo scope non basta", "La ricostruzione" (its function access()), and article 6: "Dov'è il
confine". A token says who, which connection, which scopes; everything else is read again at every call, in the
transaction that does the work. Nothing is cached. `--check token_only` keeps the article's weaker design, for its
table.

Not here: who calls these in which order (tools.call_tool), sign-in (oauth.py), people and roles (workspace.py), the
tables of the article (client.py access, bench.py access).
"""
import hashlib
import json
import secrets
from typing import FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

import workspace as workspaces
from versioned import Ref, Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS connections (
    connection   TEXT PRIMARY KEY,
    workspace    TEXT NOT NULL,           -- exactly one; a second workspace is a second connection
    approver     TEXT,                    -- the person whose permissions it borrows; NULL while pending
    assistant    TEXT NOT NULL,           -- 'claude', 'chatgpt', ...: what the owner chose
    display_name TEXT NOT NULL,
    status       TEXT NOT NULL CHECK (status IN ('pending', 'active', 'revoked')),
    created_by   TEXT NOT NULL,
    created_us   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS access_tokens (
    digest            BLOB PRIMARY KEY,   -- SHA-256: a stolen database opens nothing
    connection        TEXT NOT NULL,
    scopes            TEXT NOT NULL,      -- separated by spaces, as in OAuth
    expires_us        INTEGER NOT NULL,
    projects_at_issue TEXT NOT NULL       -- demo only: what a token that carries its projects would carry
) WITHOUT ROWID;
-- The one table of where items are. A project is an item that lies in itself.
CREATE TABLE IF NOT EXISTS places (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    workspace  TEXT NOT NULL,
    project    TEXT,                      -- NULL: in no project; only an invitation opens it
    local_only INTEGER NOT NULL,          -- never synchronised: invisible to every connection
    name       TEXT NOT NULL,             -- as lists show it
    folded     TEXT NOT NULL,             -- casefolded, for the search in lists
    PRIMARY KEY (id, kind)                -- the id first: comparing keys is most of a look-up, and kinds are few
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS places_by_project ON places (project, kind, id);
CREATE TABLE IF NOT EXISTS project_members (
    connection TEXT NOT NULL,
    project    TEXT NOT NULL,
    PRIMARY KEY (connection, project)
) WITHOUT ROWID;
-- A Message channel ('member') or a session ('runner') opened to one connection by name.
CREATE TABLE IF NOT EXISTS invitations (
    connection TEXT NOT NULL,
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('member', 'runner')),
    PRIMARY KEY (connection, kind, id)
) WITHOUT ROWID;
-- All tools are on by default, also one that is added to the catalogue tomorrow: so the ticks taken away are stored.
CREATE TABLE IF NOT EXISTS tools_off (
    connection TEXT NOT NULL,
    tool       TEXT NOT NULL,
    PRIMARY KEY (connection, tool)
) WITHOUT ROWID;
"""

SCOPES = ('osfoundry:read', 'osfoundry:write', 'osfoundry:run', 'osfoundry:models')
ASSISTANTS = ('claude', 'chatgpt', 'other')
NEEDS = {'view': workspaces.VIEWER, 'edit': workspaces.EDITOR, 'run': workspaces.EDITOR}      # the approver's role
TOKEN_BYTES = 32
INVITED_AS = {'channel': 'member', 'session': 'runner'}
LISTED = 100                              # resources an answer lists; a search narrows them

# The approver's role (of c) on the item (p): the nearest one, and none at all for whoever has left the workspace.
APPROVER_ROLE = """CASE WHEN of_workspace.role IS NULL THEN 0
                        ELSE COALESCE(of_item.role, of_project.role, of_workspace.role) END"""
APPROVER_ROLES = """
LEFT JOIN roles of_item ON of_item.person = c.approver AND of_item.kind = p.kind AND of_item.id = p.id
LEFT JOIN roles of_project
       ON of_project.person = c.approver AND of_project.kind = 'project' AND of_project.id = p.project
LEFT JOIN roles of_workspace
       ON of_workspace.person = c.approver AND of_workspace.kind = 'workspace' AND of_workspace.id = c.workspace"""
# Everything the check has to know, in one statement, from the state of this moment. CROSS JOIN: SQLite must begin with
# what is asked, never by walking a table.
FACTS = f"""
SELECT c.status, off.tool IS NOT NULL, p.workspace, p.project, m.project IS NOT NULL, i.role, {APPROVER_ROLE}
FROM (SELECT ? AS connection, ? AS tool, ? AS kind, ? AS id) asked
CROSS JOIN connections c ON c.connection = asked.connection
LEFT JOIN tools_off off ON off.connection = c.connection AND off.tool = asked.tool
LEFT JOIN places p ON p.kind = asked.kind AND p.id = asked.id AND p.workspace = c.workspace AND p.local_only = 0
LEFT JOIN project_members m ON m.connection = c.connection AND m.project = p.project
LEFT JOIN invitations i ON i.connection = c.connection AND i.kind = p.kind AND i.id = p.id
{APPROVER_ROLES}
"""

LISTED_IN_PROJECT = f"""
SELECT p.kind, p.id, p.name
FROM (SELECT ? AS approver, ? AS workspace) c
CROSS JOIN places p ON p.workspace = c.workspace AND p.local_only = 0
{APPROVER_ROLES}
WHERE p.project = ? AND (p.kind = ? OR ? IS NULL AND p.kind <> 'project') AND instr(p.folded, ?) > 0
      AND {APPROVER_ROLE} >= {workspaces.VIEWER}
ORDER BY p.kind, p.id LIMIT ?
"""


class Grant(NamedTuple):
    """What a token says, and no more."""
    connection: str
    workspace: str
    approver: str
    scopes: FrozenSet[str]
    projects_at_issue: Optional[Tuple[str, ...]] = None     # demo only: not None means --check token_only


class Facts(NamedTuple):
    """One call, as things stand now."""
    status: str                           # of the connection
    unticked: bool                        # the owner switched this tool off for it
    workspace: Optional[str]              # None: no such item in this workspace, or only on somebody's device
    project: Optional[str]
    in_project: bool                      # the connection was added to the project the item lies in now
    invitation: Optional[str]
    approver_role: int


class Unauthorized(Exception):
    """No token, or one that is unknown, expired or revoked: HTTP 401, and signing in again helps."""


class Forbidden(Exception):
    """The token lacks `scope`: HTTP 403, and asking for that scope helps."""

    def __init__(self, scope: str):
        super().__init__(f'this tool needs the scope {scope}')
        self.scope = scope


# --- rules --------------------------------------------------------------------

def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode('utf-8', 'replace')).digest()


def authenticate(tx: Tx, bearer: Optional[str], now_us: int, token_only: bool = False) -> Grant:
    """The token's grant, else Unauthorized. The token of a revoked connection is still known: the check refuses it."""
    row = bearer and tx.execute(
        'SELECT t.connection, c.workspace, c.approver, t.scopes, t.projects_at_issue '
        'FROM access_tokens t JOIN connections c ON c.connection = t.connection '
        'WHERE t.digest = ? AND t.expires_us > ?',
        (digest(bearer), now_us)).fetchone()
    if not row:
        raise Unauthorized('Connect osFoundry to continue')
    connection, workspace, approver, scopes, projects = row
    return Grant(connection, workspace, approver, frozenset(scopes.split()),
                 tuple(json.loads(projects)) if token_only else None)


def require_scope(grant: Grant, scope: str) -> None:
    if scope not in grant.scopes:
        raise Forbidden(scope)


def check(tx: Tx, grant: Grant, tool: str, needs: str, ref: Optional[Ref]) -> None:
    """Whether this call may happen now; else a Refusal, in the article's order. `ref` None: a tool of no one item."""
    facts = read_facts(tx, grant.connection, tool, ref)
    if grant.projects_at_issue is not None:
        return check_token_only(grant, facts, ref)
    if not connection_is_active(facts):
        raise Refusal('connection_revoked', 'the owner has revoked this connection: a person must connect again')
    if not tool_is_on(facts):
        raise Refusal('tool_not_enabled', f'the owner has switched {tool} off for this connection', tool=tool)
    if ref is None:
        return
    if not item_is_known(facts):
        raise Refusal('not_found', f'there is no {ref.kind} {ref.id!r} in the connected workspace')
    if not item_is_open(facts):
        raise Refusal(*closed(ref, facts))
    if not approver_may(facts, needs):
        raise Refusal('approver_lacks_role', f'the person who approved this connection may not {needs} this {ref.kind}',
                      needs=needs)
    if not may_run(facts, needs):
        raise Refusal('runner_role_required', 'the owner has not granted this connection the runner role there')


def check_token_only(grant: Grant, facts: Facts, ref: Optional[Ref]) -> None:
    """demo only, do not copy: trusts the projects as of the last refresh. The item's own project is still read live."""
    if ref is not None and facts.project not in (grant.projects_at_issue or ()):
        raise Refusal('not_in_project', f'{ref.kind} {ref.id!r} is in no project of this token')


def still_allowed(tx: Tx, connection: str, tool: str, needs: str, ref: Ref) -> None:
    """The check again, in the transaction of a decision that a person makes days after the connection proposed."""
    check(tx, Grant(connection, '', '', frozenset()), tool, needs, ref)


def read_facts(tx: Tx, connection: str, tool: str, ref: Optional[Ref]) -> Facts:
    kind, item = ref or (None, None)
    row = tx.execute(FACTS, (connection, tool, kind, item)).fetchone()
    # A connection is never deleted, only revoked; a missing one is refused like a revoked one.
    return Facts(*row) if row else Facts('revoked', False, None, None, False, None, workspaces.NO_ROLE)


def connection_is_active(facts: Facts) -> bool:
    return facts.status == 'active'


def tool_is_on(facts: Facts) -> bool:
    return not facts.unticked


def item_is_known(facts: Facts) -> bool:
    return facts.workspace is not None


def item_is_open(facts: Facts) -> bool:
    """By the project it lies in now; what lies in no project (an ordinary Message channel) by invitation only."""
    return bool(facts.in_project) if facts.project is not None else facts.invitation is not None


def closed(ref: Ref, facts: Facts) -> Tuple[str, str]:
    if facts.project is None and ref.kind == 'channel':
        return 'not_invited', 'this channel needs an invitation: a project opens its own discussion channel only'
    return 'not_in_project', f'{ref.kind} {ref.id!r} is in no project of this connection: its owner can add it'


def approver_may(facts: Facts, needs: str) -> bool:
    return facts.approver_role >= NEEDS[needs]


def may_run(facts: Facts, needs: str) -> bool:
    return needs != 'run' or facts.invitation == 'runner'


def reachable(tx: Tx, grant: Grant) -> List[str]:
    """The projects of this connection now; every list and every search filters by it."""
    if grant.projects_at_issue is not None:
        return list(grant.projects_at_issue)
    return projects_of(tx, grant.connection)


def projects_of(tx: Tx, connection: str) -> List[str]:
    return [project for (project,) in tx.execute(
        'SELECT project FROM project_members WHERE connection = ? ORDER BY project', (connection,))]


def listed(tx: Tx, grant: Grant, project: Optional[str] = None, kind: Optional[str] = None, search: str = '',
           limit: int = LISTED) -> List[Tuple[Ref, str, str]]:
    """(item, name, project) that this connection may see now, by project, kind and id; kind None: all but projects."""
    found: List[Tuple[Ref, str, str]] = []
    for reached in reachable(tx, grant) if project is None else [project]:
        rows = tx.execute(LISTED_IN_PROJECT, (grant.approver, grant.workspace, reached, kind, kind,
                                              search.casefold(), limit - len(found)))
        found += [(Ref(kind_, item), name, reached) for kind_, item, name in rows]
    return found


def invited(tx: Tx, grant: Grant, kind: str) -> List[Tuple[Ref, str]]:
    """(item, name) of what lies in no project and was opened to this connection by name."""
    rows = tx.execute(f"""
        SELECT p.kind, p.id, p.name
        FROM connections c JOIN invitations i ON i.connection = c.connection AND i.kind = ?
        JOIN places p ON p.kind = i.kind AND p.id = i.id AND p.workspace = c.workspace AND p.local_only = 0
        {APPROVER_ROLES}
        WHERE c.connection = ? AND p.project IS NULL AND {APPROVER_ROLE} >= {workspaces.VIEWER} ORDER BY p.id""",
                      (kind, grant.connection))
    return [(Ref(kind_, item), name) for kind_, item, name in rows]


def issue_access_token(tx: Tx, connection: str, scopes: Iterable[str], now_us: int, ttl_s: int) -> str:
    """A new opaque token; only its hash is stored. The caller has proved the code or the refresh token."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    projects = projects_of(tx, connection)
    tx.execute('INSERT INTO access_tokens VALUES (?, ?, ?, ?, ?)',
               (digest(token), connection, ' '.join(sorted(set(scopes))), now_us + ttl_s * 1_000_000,
                json.dumps(projects)))
    return token


def revoke_access_token(tx: Tx, token_digest: bytes) -> None:
    """A token revoked as a token (a code used twice, a refresh family): from now on it is unknown, so 401."""
    tx.execute('DELETE FROM access_tokens WHERE digest = ?', (token_digest,))


def place(tx: Tx, ref: Ref, workspace: str, project: Optional[str], local_only: bool, name: str = '') -> None:
    """Put an item where it is from now on; placing it again moves it. An empty name keeps the one it has."""
    tx.execute('INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, id) DO UPDATE SET '
               'workspace = excluded.workspace, project = excluded.project, local_only = excluded.local_only, '
               "name = CASE excluded.name WHEN '' THEN name ELSE excluded.name END, "
               "folded = CASE excluded.name WHEN '' THEN folded ELSE excluded.folded END",
               (*ref, workspace, project, int(local_only), name, name.casefold()))


def role_of(tx: Tx, person: str, ref: Ref) -> int:
    """A person's own role on an item now, by the rule that holds for an approver; none for what is not there."""
    row = tx.execute(f"""
        SELECT {APPROVER_ROLE}
        FROM (SELECT ? AS approver, workspace FROM places WHERE kind = ? AND id = ?) c
        JOIN places p ON p.kind = ? AND p.id = ? {APPROVER_ROLES}""", (person, *ref, *ref)).fetchone()
    return row[0] if row else workspaces.NO_ROLE


def require_role_of(tx: Tx, person: str, ref: Ref, least: int) -> None:
    """Raise not_found where the person may not even look (existence does not leak), else role_too_low below `least`."""
    held = role_of(tx, person, ref)
    if held < workspaces.VIEWER:
        raise Refusal('not_found', f'there is no {ref.kind} {ref.id!r} for you')
    if held < least:
        raise Refusal('role_too_low', f'you may look at this {ref.kind} and not change it: ask its owner')


def workspace_of(tx: Tx, ref: Ref) -> str:
    """Of an item that is there: ask for a role on it first."""
    return tx.execute('SELECT workspace FROM places WHERE kind = ? AND id = ?', ref).fetchone()[0]


def move(tx: Tx, ref: Ref, project: Optional[str]) -> None:
    """Into another project of its workspace, or out of every project. Nothing else about the item changes."""
    tx.execute('UPDATE places SET project = ? WHERE kind = ? AND id = ?', (project, *ref))


def create_project(tx: Tx, project: str, workspace: str, name: str) -> None:
    workspaces.check_name('name', name)
    place(tx, Ref('project', project), workspace, project, False, name)


# The owner's clicks in the Connected tab. Who may click is asked by owner.py; what a click means stands here.

def add_assistant(tx: Tx, workspace: str, person: str, assistant: str, display_name: str, now_us: int) -> str:
    """A pending connection: it cannot read or change anything until a consent attaches to it."""
    if assistant not in ASSISTANTS:
        raise invalid('assistant', 'one of ' + ', '.join(ASSISTANTS))
    workspaces.check_name('display_name', display_name)
    connection = 'conn-' + secrets.token_hex(8)
    tx.execute("INSERT INTO connections VALUES (?, ?, NULL, ?, ?, 'pending', ?, ?)",
               (connection, workspace, assistant, display_name, person, now_us))
    return connection


def attach(tx: Tx, connection: str, workspace: str, approver: str) -> None:
    """A consent takes a pending connection of the chosen workspace; the comparison and the change are one statement."""
    attached = tx.execute("UPDATE connections SET status = 'active', approver = ? "
                          "WHERE connection = ? AND workspace = ? AND status = 'pending'",
                          (approver, connection, workspace)).rowcount
    if not attached:
        raise Refusal('not_pending', 'this connection is not pending in that workspace: create a new one')


def pending_connections(tx: Tx, workspace: str) -> List[Tuple[str, str]]:
    return tx.execute("SELECT connection, display_name FROM connections WHERE workspace = ? AND status = 'pending' "
                      'ORDER BY created_us, connection', (workspace,)).fetchall()


def connection_row(tx: Tx, connection: str) -> dict:
    row = tx.execute('SELECT connection, workspace, approver, assistant, display_name, status, created_by, created_us '
                     'FROM connections WHERE connection = ?', (connection,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no connection {connection!r}')
    return dict(zip(('connection', 'workspace', 'approver', 'assistant', 'display_name', 'status', 'created_by',
                     'created_us'), row))


def add_to_project(tx: Tx, connection: str, project: str) -> None:
    """Only an active connection, and only a project of its own workspace."""
    known = connection_row(tx, connection)
    if known['status'] != 'active':
        raise Refusal('connection_' + known['status'], 'only an active connection is added to a project')
    require_place(tx, Ref('project', project), known['workspace'])
    tx.execute('INSERT OR IGNORE INTO project_members VALUES (?, ?)', (connection, project))


def remove_from_project(tx: Tx, connection: str, project: str) -> None:
    tx.execute('DELETE FROM project_members WHERE connection = ? AND project = ?', (connection, project))


def invite(tx: Tx, connection: str, ref: Ref, role: str = 'member') -> None:
    """Open one Message channel ('member') or one session ('runner') to a connection; nothing else opens by name."""
    if INVITED_AS.get(ref.kind) != role:
        raise invalid('role', ', '.join(f'{role} for a {kind}' for kind, role in INVITED_AS.items()))
    known = connection_row(tx, connection)
    if known['status'] != 'active':
        raise Refusal('connection_' + known['status'], 'only an active connection is invited')
    require_place(tx, ref, known['workspace'])
    tx.execute('INSERT INTO invitations VALUES (?, ?, ?, ?) '
               'ON CONFLICT (connection, kind, id) DO UPDATE SET role = excluded.role', (connection, *ref, role))


def uninvite(tx: Tx, connection: str, ref: Ref) -> None:
    tx.execute('DELETE FROM invitations WHERE connection = ? AND kind = ? AND id = ?', (connection, *ref))


def save_tools(tx: Tx, connection: str, off: Iterable[str]) -> None:
    """The whole list of unticked tools, as Save tools sends it."""
    tx.execute('DELETE FROM tools_off WHERE connection = ?', (connection,))
    tx.executemany('INSERT INTO tools_off VALUES (?, ?)', [(connection, tool) for tool in sorted(set(off))])


def tools_off(tx: Tx, connection: str) -> List[str]:
    return [tool for (tool,) in tx.execute('SELECT tool FROM tools_off WHERE connection = ? ORDER BY tool',
                                           (connection,))]


def revoke(tx: Tx, connection: str) -> None:
    """For good. Its tokens stay known: the assistant reads connection_revoked instead of being sent to sign in."""
    tx.execute("UPDATE connections SET status = 'revoked' WHERE connection = ?", (connection,))
    tx.execute('DELETE FROM project_members WHERE connection = ?', (connection,))
    tx.execute('DELETE FROM invitations WHERE connection = ?', (connection,))


def holds(tx: Tx, project: str, kind: str) -> bool:
    return tx.execute('SELECT 1 FROM places WHERE project = ? AND kind = ?', (project, kind)).fetchone() is not None


def is_placed(tx: Tx, ref: Ref) -> bool:
    return tx.execute('SELECT 1 FROM places WHERE kind = ? AND id = ?', ref).fetchone() is not None


def require_place(tx: Tx, ref: Ref, workspace: str) -> Optional[str]:
    """The project an item of this workspace lies in (None: in none); else not_found."""
    row = tx.execute('SELECT project FROM places WHERE kind = ? AND id = ? AND workspace = ?',
                     (*ref, workspace)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no {ref.kind} {ref.id!r} in this workspace')
    return row[0]
