"""runs_setup.py - article 6's set-up, click by click: from Add assistant to Revoke connection.

Article 6, "Configurazione", steps 1 to 4: the scripted owner clicks, the scripted Claude is given nothing but the
address, and the scripted person reads the consent page and attaches Claude to the pending connection.

    python3 client.py setup               every line, then the table; 1 s

Not here: step 5, asking (runs_project.py), the pages (pages.py), what each click means (owner_verbs.py, access.py).
"""
import sys
from typing import Any, List, Sequence
from urllib.parse import urlsplit

import access
import channel_store
import ending
import host
import kb_store
import note_store
import published
import published_project
import rooms
import runs_person
import runs_stage
from published import Figures
from runs_stage import OWNER, WORKSPACE, Stage
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

NAME, PENDING = 'Claude research', 'Use pending: Claude research'
PROJECT, PROJECT_NAME = 'launch-q3', 'Launch Q3'
CHANNEL = Ref('channel', 'ch-backend')    # an ordinary Message channel: in no project
SCOPES = 'osfoundry:read osfoundry:write osfoundry:run'
ADD, PAGE, CONNECT = '1 Add assistant: Claude, "Claude research"', '3 consent page', '3 Connect'

# --- rules --------------------------------------------------------------------

def seed(tx: Tx) -> None:
    """A project that holds one of everything that step 4 lists, and a Message channel beside it."""
    access.create_project(tx, PROJECT, WORKSPACE, PROJECT_NAME)
    kb_store.create_knowledge_base(tx, 'support', 'Support')
    rooms.create_room(tx, 'launch-room', 'Launch room')
    note_store.create_note(tx, OWNER, 'q3-launch', 'Q3 launch checklist', [{'tab_type': 'note', 'label': 'Note'}], 1)
    for kind, item, name in (('note', 'q3-launch', 'Q3 launch checklist'), ('knowledge_base', 'support', 'Support'),
                             ('record_channel', 'pages', 'Pages'), ('room', 'launch-room', 'Launch room'),
                             ('repository', 'site', 'Site'), ('channel', 'launch-talk', 'Launch Q3')):
        access.place(tx, Ref(kind, item), WORKSPACE, PROJECT, False, name)
    channel_store.create_channel(tx, CHANNEL.id, 'backend', OWNER)
    access.place(tx, CHANNEL, WORKSPACE, None, False, 'backend')


def outcome(answer: host.Answer) -> str:
    return answer.refused or 'ok'


class Setup:
    """One set-up under way; `seen` fills up with the cells of the table."""

    def __init__(self, here: Stage, out: Any) -> None:
        self.here, self.out, self.seen, self.calls = here, out, {}, 0
        self.connection = ''

    def note(self, row: str, column: str, value: Any) -> None:
        self.seen[row, column] = value
        print(f'{row:<44} {column}: {value}', file=self.out)

    def call(self, name: str, **arguments: Any) -> host.Answer:
        self.calls += 1
        return self.claude.call_once(name, arguments)

    def add_assistant(self) -> None:
        added = self.here.click('add_assistant', assistant='claude', display_name=NAME)
        self.connection = added['connection']
        self.note(ADD, 'state', added['status'])
        self.note(ADD, 'server address', urlsplit(self.here.url).path)

    def connect(self) -> None:
        """Claude's first call leads to the page; the person chooses the pending connection there."""
        pages: List[runs_person.ConsentPage] = []
        door = runs_person.at_the_page(self.here, runs_person.open_owner_link(self.here), PENDING, pages=pages)
        self.claude = host.Host(self.here.url, door, scope=SCOPES)
        granted = host.tool_answer(self.claude.call('list_granted_resources', {}).result)
        self.calls += 1
        self.note('2 Claude has the address only', 'first call', str(self.claude.trips[0].status))
        pasted = 'none' if any(trip.url.endswith('/register') for trip in self.claude.trips) else 'a client ID'
        self.note('2 Claude has the address only', 'client ID or key to paste', pasted)
        self.read_page(pages[0])
        row = next(row for row in self.here.click('list_connections')['connections']
                   if row['connection'] == self.connection)
        self.note(CONNECT, 'state', row['status'])
        self.note(CONNECT, 'projects', len(granted['projects']))

    def read_page(self, page: runs_person.ConsentPage) -> None:
        connections = [choice for choice in page.choices if choice.name == 'connection']
        self.note(PAGE, 'title', page.title)
        self.note(PAGE, 'workspaces to choose', sum(choice.name == 'workspace' for choice in page.choices))
        self.note(PAGE, 'capabilities in plain words', len(page.capabilities))
        self.note(PAGE, 'connections', ' | '.join(choice.text for choice in connections))
        self.note(PAGE, 'preselected', ' | '.join(choice.text for choice in connections if choice.checked))

    def add_to_project(self) -> None:
        click, call = self.here.click, self.call
        click('add_to_project', connection=self.connection, project=PROJECT)
        listed = host.tool_answer(call('list_project_resources', project_id=PROJECT).result)['resources']
        self.note('4 Add to project', 'opens', ', '.join(sorted({item['resource_type'] for item in listed})))
        click('create_note', note_id='later', title='Later', project=PROJECT)
        self.note('4 a Note added to the project later', 'read', outcome(call('list_note_tabs', note_id='later')))
        click('create_note', note_id='mine', title='Mine', project=PROJECT, local_only=True)
        self.note('4 a Note that is only on a device', 'read', outcome(call('list_note_tabs', note_id='mine')))

    def invite(self) -> None:
        poll = {'resource_type': CHANNEL.kind, 'resource_id': CHANNEL.id}
        self.note('4 a Message channel', 'before Invite', outcome(self.call('poll_resource_events', **poll)))
        self.here.click('invite', connection=self.connection, kind=CHANNEL.kind, id=CHANNEL.id)
        self.note('4 a Message channel', 'after Invite', outcome(self.call('poll_resource_events', **poll)))

    def untick(self) -> None:
        off = self.here.click('tools_off', connection=self.connection)['off']
        self.note('4 Tools', 'on by default', 'all' if not off else f'all but {len(off)}')
        self.here.click('save_tools', connection=self.connection, off=['list_note_tabs'])
        self.note('4 one tool unticked, Save tools', 'that tool', outcome(self.call('list_note_tabs', note_id='later')))
        others = outcome(self.call('list_note_attachments', note_id='later'))
        self.note('4 one tool unticked, Save tools', 'the others', others)
        self.here.click('save_tools', connection=self.connection, off=[])

    def revoke(self) -> None:
        self.here.click('revoke', connection=self.connection)
        self.note('Revoke connection', 'next call', outcome(self.call('list_granted_resources')))
        lines = self.here.click('recent_activity', connection=self.connection)['activity']
        self.note('Recent activity', 'calls listed', 'every one' if len(lines) == self.calls
                  else f'{len(lines)} of {self.calls}')


def play(here: Stage, out: Any) -> Figures:
    setup = Setup(here, out)
    for step in (setup.add_assistant, setup.connect, setup.add_to_project, setup.invite, setup.untick, setup.revoke):
        step()
    return setup.seen


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('client.py setup', __doc__)
    options = parser.parse_args(argv)
    with runs_stage.stage(seed) as here:
        figures = play(here, sys.stderr if options.json else sys.stdout)
    print(file=sys.stderr if options.json else sys.stdout)
    table = published.compare(published_project.SETUP, figures)
    return published.report('client.py setup', [table], options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
