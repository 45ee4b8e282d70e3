"""owner_verbs.py - the owner's clicks, one function each: what the buttons of the Connected tab do.

Article 6, steps 1 and 4 (Add assistant, Add to project, Invite, Save tools, Revoke connection), and article 7, whose
/admin/* routes stand in for these clicks. A form on a page and the scripted owner's POST /owner/VERB run the same
function: (state, person, arguments) -> answer, or a Refusal after which nothing is written.

Who may click is asked here, in the transaction that does the work; what a click means is access.py's and the stores'.
Not here: how the person was proven (owner.py), the page around the buttons (pages_connected.py).
"""
from typing import Any, Callable, Dict, List, Optional, Tuple

import access
import activity
import channel_store
import session_store
import workspace as workspaces
from tools import ID, State
from versioned import Ref, Refusal, Tx, check_integer, invalid, is_text, stamp_text

# --- data ---------------------------------------------------------------------

MOST_LISTED = 10_000                      # of one list, where the asker says nothing
STAYS = ('project', 'channel')            # moving one would open or close it to everybody in a project

# --- rules --------------------------------------------------------------------

def field(arguments: dict, name: str, default: Any = None) -> str:
    """A text argument; an absent one without a default is a bad argument."""
    value = arguments.get(name, default)
    if not isinstance(value, str) or not value or not is_text(value):
        raise invalid(name, 'text')
    return value


def new_id(arguments: dict, name: str) -> str:
    """Of something to be made: no longer than a tool may name it."""
    value = field(arguments, name)
    if len(value) > ID['maxLength']:
        raise invalid(name, f'at most {ID["maxLength"]} characters')
    return value


def fields(arguments: dict, name: str) -> List[str]:
    value = arguments.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and is_text(one) for one in value):
        raise invalid(name, 'a list of texts')
    return value


def own_workspace(tx: Tx, person: str, arguments: dict) -> str:
    """The workspace a click is about: the one named, else the person's only one."""
    mine = [workspace for workspace, _, _ in workspaces.workspaces_of(tx, person)]
    named = arguments.get('workspace', mine[0] if len(mine) == 1 else None)
    if named not in mine:
        raise Refusal('not_found', 'name one of your workspaces', workspaces=mine)
    return named


def own_place(tx: Tx, person: str, arguments: dict) -> Tuple[str, Optional[str]]:
    """(workspace, project or None) that something new is put into: it takes a right to both."""
    workspace, project = own_workspace(tx, person, arguments), arguments.get('project')
    workspaces.require_role(tx, person, workspace, workspaces.EDITOR)
    if project is not None:
        access.require_role_of(tx, person, Ref('project', project), workspaces.EDITOR)
        access.require_place(tx, Ref('project', project), workspace)
    return workspace, project


def own_connection(tx: Tx, person: str, arguments: dict) -> dict:
    """The connection a click is about. Its workspace's editors and owners may change it, others may not."""
    connection = access.connection_row(tx, field(arguments, 'connection'))
    workspaces.require_role(tx, person, connection['workspace'], workspaces.EDITOR)
    return connection


def item(arguments: dict) -> Ref:
    return Ref(field(arguments, 'kind'), field(arguments, 'id'))


def add_assistant(state: State, person: str, arguments: dict) -> dict:
    with state.db.write() as tx:
        workspace = own_workspace(tx, person, arguments)
        workspaces.require_role(tx, person, workspace, workspaces.EDITOR)
        connection = access.add_assistant(tx, workspace, person, field(arguments, 'assistant', 'claude'),
                                          field(arguments, 'display_name'), state.now_us())
    return {'connection': connection, 'status': 'pending'}


def list_connections(state: State, person: str, arguments: dict) -> dict:
    """The connections of the workspace, the newest first, with what each was added to: all, or a page of them,
    `limit` after the connection `after`."""
    with state.db.read() as tx:
        workspace = own_workspace(tx, person, arguments)
        limit = arguments.get('limit', MOST_LISTED)
        check_integer('limit', limit, 1, MOST_LISTED)
        rows = [connection for connection, in tx.execute(
            'SELECT connection FROM connections WHERE workspace = ? ORDER BY created_us DESC, connection',
            (workspace,))]
        begin = rows.index(arguments['after']) + 1 if arguments.get('after') in rows else 0
        found = [dict(access.connection_row(tx, connection), projects=access.projects_of(tx, connection))
                 for connection in rows[begin:begin + limit]]
    return {'connections': found}


def add_to_project(state: State, person: str, arguments: dict) -> dict:
    with state.db.write() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        access.require_role_of(tx, person, Ref('project', field(arguments, 'project')), workspaces.EDITOR)
        access.add_to_project(tx, connection, arguments['project'])
    return {'connection': connection, 'project': arguments['project']}


def remove_from_project(state: State, person: str, arguments: dict) -> dict:
    with state.db.write() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        access.remove_from_project(tx, connection, field(arguments, 'project'))
    return {'connection': connection, 'project': arguments['project']}


def invite(state: State, person: str, arguments: dict) -> dict:
    with state.db.write() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        ref = item(arguments)
        if ref.kind == 'channel':                          # first: what "only its owner" is said of is there
            channel_store.require_reader(tx, ref.id, person)
        access.require_role_of(tx, person, ref, workspaces.EDITOR)
        if ref.kind == 'channel':
            channel_store.require_inviter(tx, ref.id, person)
        if ref.kind == 'session':
            session_store.require_owner(tx, ref.id, person)
        access.invite(tx, connection, ref, field(arguments, 'role', access.INVITED_AS.get(ref.kind, 'member')))
    return {'connection': connection, 'kind': arguments['kind'], 'id': arguments['id']}


def uninvite(state: State, person: str, arguments: dict) -> dict:
    with state.db.write() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        access.uninvite(tx, connection, item(arguments))
    return {'connection': connection, 'kind': arguments['kind'], 'id': arguments['id']}


def save_tools(state: State, person: str, arguments: dict) -> dict:
    """`off` is the whole list of unticked tools; a name that is in no catalogue is a slip of the sender."""
    off = fields(arguments, 'off')
    unknown = sorted(set(off) - set(state.catalogue))
    if unknown:
        raise invalid('off', 'names of the catalogue, not ' + ', '.join(unknown)[:200])
    with state.db.write() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        access.save_tools(tx, connection, off)
    return {'connection': connection, 'off': sorted(set(off))}


def tools_off(state: State, person: str, arguments: dict) -> dict:
    """The ticks taken away: what the Tools checklist shows."""
    with state.db.read() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        return {'connection': connection, 'off': access.tools_off(tx, connection)}


def recent_activity(state: State, person: str, arguments: dict) -> dict:
    """The newest calls of one connection, refused ones too, with what was asked until this moment."""
    state.activity.flush()
    with state.db.read() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        lines = activity.recent(tx, connection)
    return {'connection': connection, 'activity': [
        {'tool': line.tool, 'kind': line.kind, 'id': line.id, 'outcome': line.outcome, 'at': stamp_text(line.at_us)}
        for line in lines]}


def revoke(state: State, person: str, arguments: dict) -> dict:
    with state.db.write() as tx:
        connection = own_connection(tx, person, arguments)['connection']
        access.revoke(tx, connection)
    return {'connection': connection, 'status': 'revoked'}


def move_item(state: State, person: str, arguments: dict) -> dict:
    """Into another project of the item's workspace; into none when `project` is null. Takes a right to both."""
    ref, project = item(arguments), arguments.get('project')
    if ref.kind in STAYS:
        raise invalid('kind', 'of an item that can be moved: a project and its channel stay, a channel opens by Invite')
    with state.db.write() as tx:
        access.require_role_of(tx, person, ref, workspaces.EDITOR)
        if project is not None:
            target = Ref('project', field(arguments, 'project'))
            access.require_role_of(tx, person, target, workspaces.EDITOR)
            access.require_place(tx, target, access.workspace_of(tx, ref))
        access.move(tx, ref, project)
    return {'kind': ref.kind, 'id': ref.id, 'project': project}


def create_project(state: State, person: str, arguments: dict) -> dict:
    with state.db.write() as tx:
        workspace = own_workspace(tx, person, arguments)
        workspaces.require_role(tx, person, workspace, workspaces.EDITOR)
        project = new_id(arguments, 'project')
        if access.is_placed(tx, Ref('project', project)):
            raise invalid('project', 'an id that is not taken')
        access.create_project(tx, project, workspace, field(arguments, 'name'))
    return {'project': project}


def set_role(state: State, person: str, arguments: dict) -> dict:
    """Only an owner of the workspace says who may do what in it; `kind` is workspace, project, or an item's."""
    ref, other = item(arguments), field(arguments, 'of')
    with state.db.write() as tx:
        require_owner_of(tx, person, arguments, ref)
        if not workspaces.is_known(tx, other):
            raise Refusal('not_found', 'there is no such person here')
        workspaces.set_role(tx, other, ref, field(arguments, 'role'))
        require_an_owner(tx, ref)
    return {'of': other, 'kind': ref.kind, 'id': ref.id, 'role': arguments['role']}


def clear_role(state: State, person: str, arguments: dict) -> dict:
    """Back to what the project or the workspace gives; for a workspace: this person has left it."""
    ref, other = item(arguments), field(arguments, 'of')
    with state.db.write() as tx:
        require_owner_of(tx, person, arguments, ref)
        workspaces.clear_role(tx, other, ref)
        require_an_owner(tx, ref)
    return {'of': other, 'kind': ref.kind, 'id': ref.id}


def require_owner_of(tx: Tx, person: str, arguments: dict, ref: Ref) -> None:
    workspace = own_workspace(tx, person, arguments)
    workspaces.require_role(tx, person, workspace, workspaces.OWNER)
    if ref != ('workspace', workspace):
        access.require_place(tx, ref, workspace)


def require_an_owner(tx: Tx, ref: Ref) -> None:
    """After a change of roles: a workspace keeps an owner, or nobody could ever change a role in it again."""
    if ref.kind == 'workspace' and not workspaces.owners_of(tx, ref.id):
        raise Refusal('last_owner', 'nobody would own the workspace: make somebody else its owner first')


# A click has one name, on the page and for the scripted owner.
VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    'list_connections': list_connections, 'add_assistant': add_assistant,
    'add_to_project': add_to_project, 'remove_from_project': remove_from_project,
    'invite': invite, 'uninvite': uninvite, 'save_tools': save_tools,
    'tools_off': tools_off, 'recent_activity': recent_activity, 'revoke': revoke, 'move_item': move_item,
    'create_project': create_project, 'set_role': set_role, 'clear_role': clear_role,
}
