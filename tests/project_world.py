"""The world of article 6's tests: project A holds one of everything, project B nothing, and a call for every tool is at hand.

Not a test module. Arguments are made from the tool's own schema, with the ids of this world, so that a tool added tomorrow
is under the same tests without a line here (unless it has an id of a new kind).
"""
from tests.access_world import APPROVER, OWNER, World

import access
import channel_store
import owner_gitnest
import record_store
import rooms
import session_store
import workspace
from record_store import Field
from versioned import Ref

REPOSITORY = Ref('repository', 'repo-a')
ITEMS = (Ref('note', 'note-a1'), Ref('knowledge_base', 'kb-a'), Ref('record_channel', 'pages'), Ref('room', 'room-a'),
         Ref('channel', 'talk-a'), Ref('session', 'graph-a'), Ref('session', 'agent-a'), REPOSITORY)
INVITED = Ref('channel', 'backend')       # an ordinary channel: in no project
STAMP = '2026-11-08T09:30:00.000042Z'
PATTERNS = {'^([0-9a-f]{40}|[0-9a-f]{64})$': '0' * 40, rooms.NAME: 'countdown', rooms.PATH: 'index.html'}


class ProjectWorld(World):
    def build(self, repository=False):
        super().build()
        self.click(fill)
        if repository:                    # git makes it, which takes its time
            owner_gitnest.create_repository(self.state, OWNER, {'repository_id': 'repo-a', 'project': 'project-a',
                                                                'workspace': 'acme'})
        for kind, item in (('session', 'graph-a'), ('session', 'agent-a')):
            self.click(access.invite, self.connection, Ref(kind, item), 'runner')
        self.click(access.invite, self.connection, INVITED)
        self.be_there()
        self.ids = self.make_ids()
        return self

    def be_there(self):
        self.click(session_store.set_sharing, OWNER, True, self.state.now_us())
        self.click(session_store.desktop_seen, OWNER, self.state.now_us())

    def make_ids(self):
        """The arguments that name something: what exists here under each name."""
        tabs = self.call('list_note_tabs', note_id='note-a1')['structuredContent']['tabs']
        ids = {'note_id': 'note-a1', 'tab_id': tabs[0]['tab_id'], 'knowledge_base_id': 'kb-a', 'article_id': 'refunds',
                'record_channel_id': 'pages', 'item_id': 'rec-000001', 'room_id': 'room-a', 'channel_id': 'talk-a',
                'repository_id': 'repo-a', 'project_id': 'project-a',
                'session_id': 'graph-a', 'run_id': 'run-0', 'work_id': 'work-0', 'resource_id': 'kb-a',
                'resource_type': 'knowledge_base', 'branch': 'main', 'url': 'https://example.com/'}
        if 'repo-a' in self.state.repositories:
            proposed = self.call('propose_file_import', repository_id='repo-a', branch='main', message='m',
                                 files=[{'path': 'a.txt', 'content': 'a'}], idempotency_key=self.key())
            ids['proposal_id'] = proposed['structuredContent']['proposal_id']
        return ids

    def arguments(self, tool):
        """A call of `tool` that its schema accepts, on project A's items; a project is named where one can be."""
        found = {name: self.ids.get(name, example(kind)) for name, kind in tool.schema['properties'].items()
                 if name in tool.schema['required'] or name == 'project_id'}
        if tool.name == 'list_project_resources':
            del found['project_id']
        if tool.name == 'request_session_run':
            found['session_id'] = 'agent-a'
        return found


def example(kind):
    """The smallest value that the schema accepts."""
    if 'enum' in kind:
        return kind['enum'][0]
    if 'pattern' in kind:
        return PATTERNS[kind['pattern']]
    name = kind['type'][0] if isinstance(kind['type'], list) else kind['type']
    if name == 'string':
        return STAMP if kind.get('format') == 'date-time' else 'x' * max(1, kind.get('minLength', 0))
    if name == 'array':
        return [example(kind['items'])] * kind.get('minItems', 0)
    if name == 'object':
        required = {member: example(kind['properties'][member]) for member in kind.get('required', ())}
        return required or {'title': 'x'}
    return {'integer': kind.get('minimum', 0), 'number': 0.5, 'boolean': False, 'null': None}[name]


def fill(tx):
    """One of everything in project A, and a channel in no project."""
    record_store.create_record_channel(tx, 'pages', 'Pages', [Field('status', 'choice', ('Draft', 'Ready'))])
    record_store.create_record_item(tx, OWNER, {'record_channel_id': 'pages', 'idempotency_key': 'seed-page',
                                                'values': {'title': 'pricing page', 'status': 'Draft'}}, 1)
    rooms.create_room(tx, 'room-a', 'Room A')
    channel_store.create_channel(tx, 'talk-a', 'Talk A', OWNER)
    channel_store.create_channel(tx, INVITED.id, 'Backend', OWNER)
    for kind in ('graph', 'agent'):
        session_store.create_session(tx, f'{kind}-a', f'{kind} A', kind, OWNER)
    for ref in ITEMS:
        if ref is not REPOSITORY and not access.is_placed(tx, ref):
            access.place(tx, ref, 'acme', 'project-a', False, f'{ref.kind} {ref.id}')
    access.place(tx, INVITED, 'acme', None, False, 'Backend')
    workspace.set_role(tx, APPROVER, Ref('workspace', 'acme'), 'editor')
