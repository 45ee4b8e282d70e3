"""Clients of the field sign in at our server by themselves: `mcp`, `fastmcp`, MCP Inspector, Claude Code."""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unittest
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tests import pages_world
from tests.interop import judges
from tests.interop.scripted_model import ScriptedModel
from tests.signin_world import TOP, Browser, World

import host_signin

PATIENCE_S = 120


def with_note(world):
    """A project with one Note; the arguments of an edit of it."""
    world.click('create_project', project='launch', name='Launch Q3')
    note = world.click('create_note', note_id='n1', title='Q3 launch', project='launch',
                       tabs=[{'tab_type': 'note', 'label': 'Brief', 'text': 'first'}])
    return {'note_id': 'n1', 'tab_id': note['tabs'][0]['tab_id'], 'operation': 'replace_text', 'text': 'second',
            'expected_version': note['version'], 'idempotency_key': 'from-the-field'}


class Person:
    """Visits authorize links: the first sign-in makes a connection, which is then added to the project; later ones keep it."""

    def __init__(self, world):
        self.world, self.browser, self.asked, self.connection = world, Browser(world), [], 'new'

    def visit(self, url, scope=None):
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        self.asked.append(query.get('scope'))
        if scope:                                       # as if this client had asked for less
            query['scope'] = scope
        with self.browser.door([], self.connection) as (_, visit):
            landing = visit(urlunsplit(parts._replace(query=urlencode(query))))
        if self.connection == 'new':
            self.connection = self.world.click('list_connections')['connections'][0]['connection']
            self.world.click('add_to_project', connection=self.connection, project='launch')
        return landing


def land(url):
    """Load the callback as a browser would. A client may begin to listen only after it has sent the person off."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return host_signin.fetch('GET', url, {})
        except host_signin.SignInError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


class Sdks(unittest.TestCase):
    def signed_in(self, which):
        python = judges.python_with('mcp', 'fastmcp')
        world = World()
        self.addCleanup(world.close)
        edit, person = with_note(world), Person(world)
        calls = [['list_granted_resources', {}], ['list_note_tabs', {'note_id': 'n1'}], ['edit_note_tab', edit]]
        client = subprocess.Popen([python, os.path.join(TOP, 'tests', 'interop', 'oauth_client.py'), which,
                                   world.running.url, json.dumps(calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env={'PATH': os.environ['PATH'], 'HOME': world.folder})
        self.addCleanup(client.kill)
        said = {}
        for line in client.stdout:
            said = json.loads(line) if line.startswith('{') else {}
            if 'visit' in said:
                landing = person.visit(said['visit'], 'osfoundry:read' if not person.asked else None)
                if which == 'mcp':
                    client.stdin.write(landing + '\n')
                    client.stdin.flush()
                else:
                    self.assertEqual(land(landing).status, 200)
        _, warned = client.communicate(timeout=PATIENCE_S)
        self.assertEqual(client.returncode, 0, warned[-3000:])
        return said, person

    def check(self, which):
        said, person = self.signed_in(which)
        granted, tabs, saved = said['results']
        self.assertEqual([project['name'] for project in granted[1]['projects']], ['Launch Q3'])
        self.assertEqual(tabs[1]['tabs'][0]['label'], 'Brief')
        self.assertEqual((saved[0], sorted(saved[1])[-1]), (False, 'version'))
        self.assertEqual(len(person.asked), 2, 'it stepped up once')
        self.assertIn('osfoundry:write', person.asked[1].split())

    def test_mcp_signs_in_and_steps_up(self):
        self.check('mcp')

    def test_fastmcp_signs_in_and_steps_up(self):
        self.check('fastmcp')


class Terminal:
    """A program in a terminal of its own: what it shows, and lines typed at it."""

    def __init__(self, words, environment, folder):
        self.mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 50, 4000, 0, 0))    # no link is broken over two lines
        self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder,
                                        start_new_session=True)
        os.close(theirs)
        self.shown = ''

    def until(self, pattern):
        """The match in what is shown, once it is there."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            found = re.search(pattern, re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', self.shown))
            if found:
                return found
            if not select.select([self.mine], [], [], max(0, give_up - time.monotonic()))[0]:
                raise AssertionError(f'{pattern} did not appear in: {self.shown[-2000:]}')
            try:
                self.shown += os.read(self.mine, 65536).decode('utf-8', 'replace')
            except OSError:                                # the program has ended
                raise AssertionError(f'{pattern} did not appear in: {self.shown[-2000:]}') from None

    def type(self, line):
        os.write(self.mine, line.encode() + b'\r')

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.mine)


class Programs(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)
        self.edit, self.person = with_note(self.world), Person(self.world)

    def terminal(self, words, **environment):
        terminal = Terminal(words, {'PATH': f'{os.path.dirname(judges.node())}:{os.environ["PATH"]}',
                                    'HOME': self.world.folder, 'TERM': 'dumb', **environment}, self.world.folder)
        self.addCleanup(terminal.close)
        return terminal

    def test_inspector_lists_signs_in_and_calls(self):
        inspector = [judges.node(), judges.package('@modelcontextprotocol/inspector', 'clients/launcher/build/index.js'),
                     '--cli', self.world.running.url, '--transport', 'http', '--format', 'json', '--method']
        listed = subprocess.run([*inspector, 'tools/list'], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                timeout=PATIENCE_S, env={'PATH': os.environ['PATH'], 'HOME': self.world.folder})
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn('list_granted_resources', listed.stdout)
        terminal = self.terminal([*inspector, 'tools/call', '--tool-name', 'list_granted_resources'])
        link = terminal.until(r'http://127\.0\.0\.1:\d+/api/v1/external-oauth/authorize\?[!-~]+(?=[^!-~])').group(0)
        land(self.person.visit(link))
        self.assertIn('Launch Q3', terminal.until(r'structuredContent[^\n]*').group(0))

    def claude(self, *words):
        return subprocess.run([judges.claude_code(), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=PATIENCE_S, cwd=self.world.folder, env=self.claude_environment())

    def claude_environment(self, url='http://127.0.0.1:1'):
        return {'PATH': os.environ['PATH'], 'HOME': self.world.folder, 'ANTHROPIC_BASE_URL': url, 'ANTHROPIC_API_KEY': 'x',
                'CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC': '1', 'DISABLE_AUTOUPDATER': '1', 'MCP_TIMEOUT': '60000'}

    def logged_in(self, visit):
        """claude mcp add, list, login: as a person types them."""
        added = self.claude('mcp', 'add', '--transport', 'http', 'osfoundry', self.world.running.url)
        self.assertEqual(added.returncode, 0, added.stderr)
        self.assertRegex(self.claude('mcp', 'list').stdout, r'osfoundry: .*Connected')      # initialize and the catalogue are public
        terminal = self.terminal([judges.claude_code(), 'mcp', 'login', 'osfoundry', '--no-browser'],
                                 **self.claude_environment())
        link = terminal.until(r'http://127\.0\.0\.1:\d+/api/v1/external-oauth/authorize\?[!-~]+(?=[^!-~])').group(0)
        terminal.type(visit(link))
        terminal.process.wait(PATIENCE_S)
        self.assertRegex(self.claude('mcp', 'list').stdout, r'osfoundry: .*Connected')

    def asked(self, *calls):
        """What the tools answered one `claude -p`, whose model is scripted to make these calls.

        It does not wait for its servers for ever: on a busy machine the first turn may come before they are there, and
        is asked again. The calls are the same, so a write is a replay."""
        for _ in range(5):
            results = self.ask_once(calls)
            if all(one.startswith('{') for one in results):
                break
        return [json.loads(one) for one in results]

    def ask_once(self, calls):
        model = ScriptedModel([*(('tool', f'mcp__osfoundry__{name}', arguments) for name, arguments in calls), 'Done.'])
        self.addCleanup(model.close)
        tools = ','.join(f'mcp__osfoundry__{name}' for name, _ in calls)
        said = subprocess.run([judges.claude_code(), '-p', 'Do it', '--allowedTools', tools], cwd=self.world.folder,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
                              env=self.claude_environment(model.url))
        self.assertEqual(said.returncode, 0, said.stderr)
        return model.tool_results()

    def test_claude_code_is_added_signs_in_is_connected_and_calls(self):
        self.logged_in(self.person.visit)
        granted, saved = self.asked(('list_granted_resources', {}), ('edit_note_tab', self.edit))
        self.assertEqual(granted['projects'][0]['name'], 'Launch Q3')
        self.assertIn('version', saved)
        self.assertEqual(self.world.click('read_tab', note_id='n1', tab_id=self.edit['tab_id'])['text'], 'second')

    def test_a_newcomer_with_claude_code_gets_to_an_approved_proposal_and_a_refused_stale_edit(self):
        """The clicks of the README: `server.py --demo`, the pages' forms, the real Claude Code."""
        self.world = World(demo=True)
        self.addCleanup(self.world.close)
        owner = pages_world.Person(self.world)
        pending = owner.send(owner.page(), 'add_assistant', display_name='Claude Code')['location'].rsplit('/', 1)[1]

        def visit(link):
            with owner.door([], pending) as (_, through):
                return through(link)
        self.logged_in(visit)
        owner.send(owner.page('connection', pending), 'add_to_project')
        files = [{'path': 'README.md', 'content': 'Refunds within 30 days.\n'}]
        [proposed] = self.asked(('propose_file_import', {
            'repository_id': 'site', 'branch': 'main', 'message': 'State the refund window', 'files': files,
            'idempotency_key': 'newcomer-1'}))
        owner.send(owner.page('approval', proposed['proposal_id']), 'decide', 0)
        self.assertIn('Approved and carried out.', owner.page('approval', proposed['proposal_id']).text)
        page = owner.page('note', 'q3-launch')
        tab = owner.forms(page, 'save_note')[0][1]['tab_id']
        [read] = self.asked(('read_note_tab', {'note_id': 'q3-launch', 'tab_id': tab}))
        owner.send(page, 'save_note', text='press kit, says the owner')
        [refused] = self.asked(('edit_note_tab', {
            'note_id': 'q3-launch', 'tab_id': tab, 'operation': 'replace_text', 'text': 'an old picture',
            'expected_version': read['version'], 'idempotency_key': 'newcomer-2'}))
        self.assertEqual(refused['error'], 'stale_version')
        self.assertIn('press kit, says the owner', owner.page('note', 'q3-launch').text)
        self.assertIn('>stale_version<', owner.page('connection', pending).text)


if __name__ == '__main__':
    unittest.main()
