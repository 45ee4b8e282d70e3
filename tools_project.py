"""tools_project.py - what a connection may look for first: its projects and what lies in them.

Article 6, "Un'esecuzione reale", and article 7, steps 1 and 2 of the scenario. Every list is filtered by the
projects of this moment; it never says that something exists elsewhere.

Not here: where items are and who may see them (access.py), the tools of one kind of item (tools_kb.py,
tools_notes.py, ...).
"""
from typing import List, Optional

import access
import workspace
from tools import ID, READ, Answer, Call, Tool, arguments_of, text
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

# As the article's step 4 lists what a project opens.
RESOURCE_TYPES = ('note', 'knowledge_base', 'record_channel', 'room', 'repository', 'channel', 'session')

# --- rules --------------------------------------------------------------------

def no_item(tx: Tx, arguments: dict) -> Optional[Ref]:
    return None


def one_project(tx: Tx, arguments: dict) -> Optional[Ref]:
    """A named project passes the check like any item; without one the list covers what is reachable."""
    return Ref('project', arguments['project_id']) if 'project_id' in arguments else None


def granted(call: Call) -> Answer:
    """{workspace, projects, channels}: where this connection may look at all."""
    projects = [{'project_id': ref.id, 'name': name} for ref, name, _ in
                access.listed(call.tx, call.grant, kind='project')]
    channels = [{'channel_id': ref.id, 'name': name} for ref, name in access.invited(call.tx, call.grant, 'channel')]
    return {'workspace': {'workspace_id': call.grant.workspace,
                          'name': workspace.workspace_name(call.tx, call.grant.workspace)},
            'projects': projects, 'channels': channels}


def resources(call: Call) -> Answer:
    """{resources, has_more}: the items of the reachable projects, by project, kind and id."""
    rows = access.listed(call.tx, call.grant, call.arguments.get('project_id'), call.arguments.get('resource_type'),
                         call.arguments.get('search', ''), access.LISTED + 1)
    return {'resources': [{'resource_type': ref.kind, 'resource_id': ref.id, 'name': name, 'project_id': project}
                          for ref, name, project in rows[:access.LISTED]],
            'has_more': len(rows) > access.LISTED}


TOOLS: List[Tool] = [
    Tool('list_granted_resources',
         'Call this first: the workspace, the projects and the invited channels that this connection may use now.',
         arguments_of({}),
         READ, 'connection', True, False, False, no_item, granted),
    Tool('list_project_resources',
         'The items in one project, or in all projects of this connection: their type, id and name. Narrow with '
         'resource_type and with search, a part of the name.',
         arguments_of({}, {'project_id': ID, 'resource_type': {'type': 'string', 'enum': list(RESOURCE_TYPES)},
                           'search': text(1, 200)}),
         READ, 'view', True, False, False, one_project, resources),
]
