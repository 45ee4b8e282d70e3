"""runs_limits.py - article 6's limits, each tried for real.

Article 6, "Dov'è il confine", in its order: the server opens no chat; a label routes and proves nothing; local data
stays local; the desktop's sessions have a switch; access is checked at every call; some writes are proposals;
channels need an invitation.

    python3 client.py project             these after the real run

Not here: the run (runs_project.py), the rules themselves (access.py, session_store.py, rooms.py, channel_store.py).
"""
import json
import re
from typing import Any

import access
import channel_store
import host
import host_signin
import note_store
import rooms
import runs_stage
import session_store
import workspace
from published import Figures
from runs_setup import PROJECT, PROJECT_NAME
from runs_stage import OWNER, WORKSPACE, Stage
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

COLLEAGUE, OTHER_PROJECT = 'mika', 'other'
NOTE, ROOM, LABEL = 'q3-launch', 'launch-room', 'Claude, launch planning'
FILES = [{'path': 'index.html', 'content': '<h1>Launch</h1>'}, {'path': 'app.js', 'content': 'count()'}]
# What a way into somebody's chats would be called. None of these may be a tool's or a click's name.
INTO_A_CHAT = re.compile('(open|list|read|start|create|resume)_(host_|personal_)?(chats?|conversations?)')
OURS = ('list_chats',)                    # the owner's page of chats that linked themselves


class Limits:
    def __init__(self, here: Stage, out: Any) -> None:
        self.here, self.out, self.claude = here, out, here.claude()
        self.seen: Figures = {}
        self.keys = 0
        self.claude.call('list_granted_resources', {})             # signs in: the connection begins here
        self.connection = here.connection()
        here.click('add_to_project', connection=self.connection, project=PROJECT)

    def see(self, row: str, column: str, value: Any) -> None:
        self.seen[row, column] = value
        print(f'{row:<44} {column}: {value}', file=self.out)

    def call(self, tool: str, **arguments: Any) -> host.Answer:
        return self.claude.call(tool, arguments)

    def code(self, tool: str, **arguments: Any) -> str:
        return self.call(tool, **arguments).refused or 'ok'

    def key(self) -> str:
        self.keys += 1
        return f'limits-{self.keys:04d}'

    def click_code(self, verb: str, **arguments: Any) -> str:
        try:
            self.here.click(verb, **arguments)
            return 'ok'
        except runs_stage.ClickRefused as refused:
            return str(refused.code)


# --- rules --------------------------------------------------------------------

def seed(tx: Tx) -> None:
    """What the owner has on this device only, and what is synchronised."""
    workspace.add_person(tx, COLLEAGUE, 'Mika')
    workspace.set_role(tx, COLLEAGUE, Ref('workspace', WORKSPACE), 'editor')
    for project, name in ((PROJECT, PROJECT_NAME), (OTHER_PROJECT, 'Another project')):
        access.create_project(tx, project, WORKSPACE, name)
    tab = {'tab_type': 'note', 'label': 'Note', 'text': 'A checklist'}
    for note, local in ((NOTE, False), ('diary', True)):
        note_store.create_note(tx, f'person:{OWNER}', note, note, [tab], 1)
        access.place(tx, Ref('note', note), WORKSPACE, PROJECT, local, note)
    for room, local in ((ROOM, False), ('desk-room', True)):
        rooms.create_room(tx, room, room)
        access.place(tx, Ref('room', room), WORKSPACE, PROJECT, local, room)
    for session, local in (('graph', False), ('desk-graph', True)):
        session_store.create_session(tx, session, session, 'graph', OWNER)
        access.place(tx, Ref('session', session), WORKSPACE, PROJECT, local, session)
    for channel, project, private, owner in (('launch-talk', PROJECT, False, OWNER), ('backend', None, False, OWNER),
                                             ('board', None, True, OWNER)):
        channel_store.create_channel(tx, channel, channel, owner, private)
        access.place(tx, Ref('channel', channel), WORKSPACE, project, False, channel)
    for person in (OWNER, COLLEAGUE):                              # for whoever is not in it, it is not there
        channel_store.set_member(tx, 'board', person, 'person', True, OWNER)


def chats(limits: Limits) -> None:
    """The server has no way into the host's chats; a chat links itself, and work for it waits until it asks."""
    here, verbs = limits.here, ''
    names = [tool['name'] for tool in limits.claude.list_tools()]
    try:
        here.click('no_such_click')
    except runs_stage.ClickRefused as refused:
        verbs = str(refused).partition(': ')[2]                    # it lists every click there is
    into = [name for name in names + re.findall(r'\w+', verbs) if INTO_A_CHAT.fullmatch(name) and name not in OURS]
    limits.see('osFoundry opens a chat', 'tools and routes that could', len(into))
    linked = host.tool_answer(limits.call('link_current_chat', project_id=PROJECT, label=LABEL,
                                          idempotency_key=limits.key()).result)
    proves = limits.code('read_chat_work', project_id=OTHER_PROJECT, label=LABEL)
    limits.see('link_current_chat', 'the label it declares',
               'routes, proves nothing' if linked['declared'] and proves == 'not_in_project' else proves)
    here.click('assign_to_chat', project_id=PROJECT, chat_id=linked['chat_id'], task='check the pricing page')
    left = here.click('list_chats', project_id=PROJECT)['chats'][0]['work'][0]
    asked = host.tool_answer(limits.call('read_chat_work', project_id=PROJECT, label=LABEL).result)['work']
    limits.see('work for a linked chat', 'before the chat asks',
               'waits' if left['status'] == 'waiting' and len(asked) == 1 else left['status'])


def local_only(limits: Limits) -> None:
    instructions = limits.claude.initialize()['instructions']
    sentence = 'not available to cloud clients'
    said = sentence if sentence in instructions else instructions
    limits.see('local-only data', 'initialize says', said)
    limits.see('a local Room', 'read', limits.code('read_room', room_id='desk-room'))
    limits.see('a local Graph session', 'run', run_graph(limits, 'desk-graph'))
    limits.see('a Note that was never synchronised', 'read', limits.code('list_note_tabs', note_id='diary'))


def run_graph(limits: Limits, session: str) -> str:
    return limits.code('run_graph_session', session_id=session, request='go', idempotency_key=limits.key())


def desktop(limits: Limits) -> None:
    """The runner role, the switch, the app: each is missing once."""
    click = limits.here.click
    limits.see('no runner role on the session', 'run', run_graph(limits, 'graph'))
    click('invite', connection=limits.connection, kind='session', id='graph', role='runner')
    click('desktop_asks')
    limits.see('Graph sessions of the desktop, sharing off', 'run', run_graph(limits, 'graph'))
    click('set_sharing', on=True)
    click('desktop_closes')
    limits.see('the desktop app not there', 'run', run_graph(limits, 'graph'))
    click('desktop_asks')
    queued = run_graph(limits, 'graph')
    taken = click('desktop_asks')['run']
    limits.see('shared, and the desktop is there', 'run', 'waits until the desktop asks' if queued == 'ok' and taken
               else queued)


def every_call(limits: Limits) -> None:
    click, read = limits.here.click, lambda: limits.code('list_note_tabs', note_id=NOTE)
    tabs = host.tool_answer(limits.call('list_note_tabs', note_id=NOTE).result)
    edit = {'note_id': NOTE, 'tab_id': tabs['tabs'][0]['tab_id'], 'operation': 'replace_text', 'text': 'x',
            'expected_version': tabs['version'], 'idempotency_key': limits.key()}
    click('set_role', of=OWNER, kind='note', id=NOTE, role='viewer')
    limits.see('the approver may only look', 'edit', limits.code('edit_note_tab', **edit))
    limits.see('the approver may only look', 'read', read())
    click('set_role', of=OWNER, kind='note', id=NOTE, role='owner')
    click('move_item', kind='note', id=NOTE, project=OTHER_PROJECT)
    limits.see('the Note moved to another project', 'next call', read())
    click('move_item', kind='note', id=NOTE, project=PROJECT)
    click('remove_from_project', connection=limits.connection, project=PROJECT)
    limits.see('the project removed', 'next call', read())
    click('add_to_project', connection=limits.connection, project=PROJECT)


def proposals(limits: Limits) -> None:
    """An app for a Room waits for the owner; the assistant that proposed it cannot be the one who approves."""
    proposed = host.tool_answer(limits.call('propose_room_app_install', room_id=ROOM, app_name='countdown', files=FILES,
                                            idempotency_key=limits.key()).result)
    limits.see('an app for a Room', 'answer', proposed['status'])
    card = limits.here.click('list_proposals')['rooms'][0]
    shows = f'the Room and {len(card["files"])} files' if card['room'] == ROOM and card['files'] == FILES else str(card)
    limits.see('an app for a Room', 'Needs your approval shows', shows)
    reply = host_signin.fetch('POST', f'{limits.here.base_url}/owner/decide', {
        'Content-Type': 'application/json', 'Authorization': f'Bearer {limits.claude.access_token}'},
        json.dumps({'proposal_id': proposed['proposal_id'], 'decision': 'approve'}).encode())
    limits.see('an app for a Room', 'Claude approves it', f'{reply.status} {json.loads(reply.body)["error"]}')
    limits.here.click('decide', proposal_id=proposed['proposal_id'], decision='approve')
    apps = host.tool_answer(limits.call('read_room', room_id=ROOM).result)['apps']
    limits.see('an app for a Room', 'after Approve', 'installed' if [app['app_name'] for app in apps] == ['countdown']
               else 'missing')


def channels(limits: Limits) -> None:
    def history(channel: str) -> str:
        return limits.code('channel_history', channel_id=channel)
    here, connection = limits.here, limits.connection
    limits.see('the discussion channel of the project', 'read', history('launch-talk'))
    limits.see('another channel', 'read', history('backend'))
    invited = {'connection': connection, 'kind': 'channel', 'id': 'board'}
    limits.see('a private channel', 'invited by a colleague', limits.click_code('invite', person=COLLEAGUE, **invited))
    here.click('invite', **invited)
    limits.see('a private channel', 'invited by its owner', history('board'))


def play(here: Stage, out: Any) -> Figures:
    limits = Limits(here, out)
    for part in (chats, local_only, desktop, every_call, proposals, channels):
        part(limits)
    here.click('revoke', connection=limits.connection)
    limits.see('Revoke connection', 'next call', limits.code('list_granted_resources'))
    return limits.seen
