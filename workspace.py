"""workspace.py - workspaces, their people, and what each of them may do to what.

Article 6, "Chi fa cosa" and step 3 (one workspace a connection), and article 7, "Perché lo scope non basta": what
the person who approved a connection may do to an item *now*. A role is held on a workspace, on a project or on one
item; the nearest one counts, and whoever left the workspace has none, whatever is still written down below it.

Not here: connections, where an item is, and the check (access.py); the Notes, articles and records themselves
(their stores).
"""
from typing import List, Tuple

from versioned import Ref, Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS people (
    person TEXT PRIMARY KEY,
    name   TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workspaces (
    workspace TEXT PRIMARY KEY,
    name      TEXT NOT NULL
) WITHOUT ROWID;
-- One table for the workspace's members, the project's people and the item's ACL: they differ in what they are held on.
CREATE TABLE IF NOT EXISTS roles (
    person TEXT NOT NULL,
    kind   TEXT NOT NULL,                 -- 'workspace', 'project', or an item's kind
    id     TEXT NOT NULL,
    role   INTEGER NOT NULL,              -- a value of ROLES
    PRIMARY KEY (person, kind, id)
) WITHOUT ROWID;
"""

NO_ROLE, VIEWER, EDITOR, OWNER = 0, 1, 2, 3
ROLES = {'none': NO_ROLE, 'viewer': VIEWER, 'editor': EDITOR, 'owner': OWNER}
NAME_LENGTH = (1, 120)                    # characters of any name a person or a client gives


# --- rules --------------------------------------------------------------------

def add_person(tx: Tx, person: str, name: str) -> None:
    check_name('name', name)
    tx.execute('INSERT INTO people VALUES (?, ?) ON CONFLICT (person) DO UPDATE SET name = excluded.name',
               (person, name))


def create_workspace(tx: Tx, workspace: str, name: str, owner: str) -> None:
    check_name('name', name)
    tx.execute('INSERT INTO workspaces VALUES (?, ?)', (workspace, name))
    set_role(tx, owner, Ref('workspace', workspace), 'owner')


def set_role(tx: Tx, person: str, ref: Ref, role: str) -> None:
    """What `person` may do to `ref` from now on. 'none' on an item or a project shuts out even a workspace's editor."""
    if role not in ROLES:
        raise invalid('role', 'one of ' + ', '.join(ROLES))
    tx.execute('INSERT INTO roles VALUES (?, ?, ?, ?) '
               'ON CONFLICT (person, kind, id) DO UPDATE SET role = excluded.role', (person, *ref, ROLES[role]))


def clear_role(tx: Tx, person: str, ref: Ref) -> None:
    """Back to the role of the next wider container; for a workspace: the person has left it."""
    tx.execute('DELETE FROM roles WHERE person = ? AND kind = ? AND id = ?', (person, *ref))


def workspaces_of(tx: Tx, person: str) -> list:
    """What the consent page offers under "Workspace to connect": [(workspace, name, role)], by name."""
    return tx.execute('SELECT w.workspace, w.name, r.role FROM roles r JOIN workspaces w ON w.workspace = r.id '
                      "WHERE r.person = ? AND r.kind = 'workspace' AND r.role > ? ORDER BY w.name, w.workspace",
                      (person, NO_ROLE)).fetchall()


def people_of(tx: Tx, workspace: str) -> List[Tuple[str, str, int]]:
    """(person, name, role) of who is in a workspace, by name."""
    return tx.execute("SELECT p.person, p.name, r.role FROM roles r JOIN people p ON p.person = r.person "
                      "WHERE r.kind = 'workspace' AND r.id = ? ORDER BY p.name, p.person", (workspace,)).fetchall()


def owners_of(tx: Tx, workspace: str) -> List[str]:
    return [person for person, _, role in people_of(tx, workspace) if role == OWNER]


def is_known(tx: Tx, person: str) -> bool:
    return tx.execute('SELECT 1 FROM people WHERE person = ?', (person,)).fetchone() is not None


def role_in(tx: Tx, person: str, workspace: str) -> int:
    row = tx.execute("SELECT role FROM roles WHERE person = ? AND kind = 'workspace' AND id = ?",
                     (person, workspace)).fetchone()
    return row[0] if row else NO_ROLE


def require_role(tx: Tx, person: str, workspace: str, least: int) -> None:
    """not_found for a stranger (the workspace's existence does not leak), role_too_low for a member below `least`."""
    held = role_in(tx, person, workspace)
    if held == NO_ROLE:
        raise Refusal('not_found', f'there is no workspace {workspace!r}: choose one of yours')
    if held < least:
        needed = next(name for name, value in ROLES.items() if value == least)
        raise Refusal('role_too_low', f'this needs the role {needed} in the workspace: ask its owner', needs=needed)


def workspace_name(tx: Tx, workspace: str) -> str:
    row = tx.execute('SELECT name FROM workspaces WHERE workspace = ?', (workspace,)).fetchone()
    return row[0] if row else workspace


def person_name(tx: Tx, person: str) -> str:
    row = tx.execute('SELECT name FROM people WHERE person = ?', (person,)).fetchone()
    return row[0] if row else person


def check_name(field: str, name: str) -> None:
    shortest, longest = NAME_LENGTH
    if not isinstance(name, str) or not shortest <= len(name.strip()) <= longest or not name.isprintable():
        raise invalid(field, f'{shortest} to {longest} printable characters')
