"""The owner's screen in Chromium: a newcomer's way by clicks, beside a real client; axe-core on every page.

With SCREENSHOTS=DIR in the environment every page is also saved there as a picture, at two widths, light and dark.
"""
import json
import os
import re
import tempfile
import threading
import unittest

from tests.interop import judges
from tests.interop.browser import Chromium, need_chromium
from tests.pages_world import NASTY, Person, World
from tests.signin_world import Client

import access
import host
import host_signin
import owner

WIDTHS = (390, 1100)


def signed_in(world, chromium, choose=None):
    """host.py signs in while Chromium plays the person; `choose` is pressed before Connect."""
    links, told, answers = [], threading.Event(), []

    def say(line):
        links.append(line.split()[-1])
        told.set()
    claude = host.Host(world.running.url, host_signin.in_browser(open_it=False, say=say))
    thread = threading.Thread(target=lambda: answers.append(claude.call('list_granted_resources', {})))
    thread.start()
    assert told.wait(60)
    chromium.open(links[0])
    if choose:
        chromium.press(choose)
    chromium.click('input[name=approve]')
    chromium.press('Connect', 'You can close this window')
    thread.join()
    return claude, answers[0]


class Newcomer(unittest.TestCase):
    """The clicks from `python3 server.py --demo` to a connected assistant, an approved proposal, a refused stale edit."""

    def setUp(self):
        need_chromium()
        self.world = World(demo=True)
        self.addCleanup(self.world.close)
        self.chromium = Chromium(script=False)
        self.addCleanup(self.chromium.close)
        self.press = self.chromium.press
        self.home = self.chromium.enter(self.world)

    def connect(self):
        """Add assistant; consent takes the pending connection; Add to project."""
        self.chromium.type('input[name=display_name]', 'Claude research')
        self.press('Add assistant', 'Setup pending. This assistant cannot read or change anything yet.')
        claude, answer = signed_in(self.world, self.chromium, 'Use pending: Claude research')
        self.assertEqual(host.tool_answer(answer.result)['projects'], [])
        self.chromium.open(self.home)
        self.press('Claude research', 'It sees nothing yet.')
        self.press('Add to project', 'Remove')
        granted = host.tool_answer(claude.call('list_granted_resources', {}).result)
        self.assertEqual([one['name'] for one in granted['projects']], ['Launch Q3'])
        return claude

    def test_set_up_approve_a_stale_edit_and_revoke_by_clicks(self):
        claude = self.connect()
        proposed = host.tool_answer(claude.call('propose_file_import', {
            'repository_id': 'site', 'branch': 'main', 'message': 'State the refund window',
            'files': [{'path': 'README.md', 'content': 'Refunds within 30 days.\n'}],
            'idempotency_key': 'newcomer-1'}).result)
        self.chromium.open(self.home)
        self.press('Needs your approval (1)', 'State the refund window')
        card = self.press('State the refund window', 'Reviewed commit')
        self.assertIn('+Refunds within 30 days.', card)
        self.press('Approve', 'Approved and carried out.')
        read = host.tool_answer(claude.call('read_proposal', {'proposal_id': proposed['proposal_id']}).result)
        self.assertEqual(read['status'], 'executed')
        self.stale_edit(claude)
        self.chromium.open(self.home)
        self.press('Claude research', 'Recent activity')
        self.assertIn('stale_version', self.chromium.text)
        self.press('Revoke connection...', 'This cannot be undone')
        self.press('Revoke connection', 'Revoked. It can reach nothing, for good.')
        self.assertEqual(claude.call_once('list_granted_resources', {}).refused, 'connection_revoked')

    def stale_edit(self, claude):
        """The agent reads, the person saves, the agent's edit is refused; then the other way round."""
        tab = host.tool_answer(claude.call('list_note_tabs', {'note_id': 'q3-launch'}).result)['tabs'][0]['tab_id']
        where = {'note_id': 'q3-launch', 'tab_id': tab}
        read = host.tool_answer(claude.call('read_note_tab', where).result)
        self.chromium.open(self.home + 'projects')
        for words, then in (('Launch Q3', 'What is in it'), ('Q3 launch', 'History')):
            self.press(words, then)
        self.chromium.type('textarea[name=text]', 'Open: press kit, says the owner')
        self.press('Save', 'just now')
        edit = dict(where, operation='replace_text', text='an old picture', expected_version=read['version'])
        self.assertEqual(claude.call('edit_note_tab', dict(edit, idempotency_key='stale-edit-1')).refused, 'stale_version')
        self.chromium.until('Open: press kit')
        self.chromium.type('textarea[name=text]', 'and a poster')
        fresh = host.tool_answer(claude.call('read_note_tab', where).result)
        edit.update(text=fresh['text'] + ' (Mika)', expected_version=fresh['version'])
        self.assertIsNone(claude.call('edit_note_tab', dict(edit, idempotency_key='fresh-edit-1')).refused)
        shown = self.press('Save', 'somebody saved this Note first')
        self.assertIn('and a poster', shown)
        self.press('Drop this draft', 'History')
        self.assertNotIn('and a poster', self.chromium.text)

    def test_the_keyboard_alone_adds_an_assistant(self):
        from tests.interop.browser import ENTER
        self.chromium.type('input[name=display_name]', 'Claude by keyboard')
        self.chromium.keys(ENTER)
        self.chromium.until('Setup pending')

    def test_the_address_is_copied_by_keyboard_and_the_two_lines_by_one_click(self):
        from tests.interop.browser import TAB
        for _ in range(40):
            self.chromium.keys(TAB)
            name = self.chromium.run('return document.activeElement.name')
            if name == 'address':
                break
        self.assertEqual(name, 'address')
        chosen = self.chromium.run('const one = document.activeElement; '
                                   'return one.value.slice(one.selectionStart, one.selectionEnd)')
        self.assertEqual(chosen, self.world.running.url)
        self.chromium.click('pre.copy')
        self.assertEqual(self.chromium.run('return getSelection().toString()').strip(),
                         f'claude mcp add --transport http osfoundry {self.world.running.url}\nclaude mcp login osfoundry')

    def test_an_old_text_of_an_article_is_put_back_by_clicks(self):
        self.chromium.open(self.home + 'knowledge_base/support/refund-policy')
        self.chromium.type('textarea[name=content]', 'Customers may return a plan within 14 days.')
        self.chromium.type('input[name=title]', 'Money back')
        self.press('Save', 'Money back')
        self.chromium.click('tbody tr:last-child a')
        self.chromium.until('within 30 days')
        self.press('Put this text back', 'Publication')
        self.assertIn('within 30 days', self.chromium.run('return document.querySelector("textarea[name=content]").value'))

    def test_an_author_edits_and_deletes_his_message_by_clicks(self):
        self.chromium.open(self.home + 'channel/launch-talk')
        self.press('Edit or delete', 'Delete')
        self.chromium.type('details textarea', 'Two things are open.')
        self.press('Save', 'edited just now')
        self.assertIn('Two things are open.', self.chromium.text)
        self.press('Edit or delete', 'Delete')
        self.assertNotIn('Two things', self.press('Delete', 'Its author deleted it.'))

    def test_a_file_is_attached_by_clicks_as_a_browser_sends_it(self):
        content = bytes(range(256)) + b'\r\n--\r\n'
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'plan "2".pdf')
            with open(path, 'wb') as file:
                file.write(content)
            self.chromium.open(self.home + 'note/q3-launch')
            self.press('Attach a file', 'or a text')
            self.chromium.type('input[type=file]', path, clear=False)
            self.press('Attach', 'plan "2".pdf')
        self.press('plan "2".pdf', 'It is no text')
        self.assertEqual(self.world.rows('SELECT name, media_type, content FROM note_files'),
                         [('plan "2".pdf', 'application/pdf', content)])

    def test_a_change_set_is_revised_by_clicks_and_keeps_the_line_ends_that_a_browser_would_change(self):
        furnish_repository(self.world, active_token(self.world))
        imports = self.world.rows('SELECT imports FROM gitnest_change_sets')[0][0]
        with self.world.state.db.write() as tx:
            tx.execute('UPDATE gitnest_change_sets SET imports = ?', (imports.replace('\\n', '\\r\\n'),))
        self.chromium.open(self.home + 'repository/shop')
        self.press('Docs', 'Fourteen days')
        self.press('Change the imports', 'Save as a new version')
        self.chromium.type('input[name="path.0.1"]', 'docs/new.md')
        self.chromium.type('textarea[name="content.0.1"]', 'New')
        self.press('Save as a new version', 'version 2')
        self.assertEqual(json.loads(self.world.rows('SELECT imports FROM gitnest_change_sets')[0][0]), [
            {'message': 'Fourteen days', 'files': [['docs/a.md', 'Refunds\r\nwithin 14 days.\r\n'], ['docs/new.md', 'New']]}])

    def test_a_colleague_is_played_in_the_same_browser(self):
        self.press('People', 'Add somebody')
        self.press('Open a link for Mika', 'This link works once')
        link = re.search(r'http://127\.0\.0\.1:\d+/o/[\w-]+/enter/[\w-]+', self.chromium.text).group(0)
        self.chromium.open(link)
        self.press('Open', 'as Mika')
        self.chromium.open(self.home)
        self.chromium.until('as Owner')


def add_hostile_words(world):
    """Every kind of item with markup, right-to-left text, words without an end, and a megabyte."""
    click, long = world.click, 'Donaudampfschifffahrtsgesellschaft' * 9
    megabyte = (NASTY + ' ' + long + '\n') * 1_800
    click('create_project', project='nasty', name=long[:120])
    click('create_note', note_id='nasty', title=long[:100], project='nasty', tabs=[
        {'tab_type': 'note', 'label': long[:100], 'text': megabyte},
        {'tab_type': 'slides', 'label': NASTY[:80], 'slides': [{'title': long[:100], 'text': NASTY * 9}]},
        {'tab_type': 'sheet', 'label': 'S', 'start_row': 0, 'start_col': 0, 'values': [[long, NASTY, *range(20)]] * 9}])
    click('create_knowledge_base', knowledge_base_id='nasty', name=NASTY[:90], project='nasty')
    for content in ('x' * 900_000, megabyte, megabyte + long):
        click('save_article', knowledge_base_id='nasty', article_id='nasty', title=long[:300], content=content)
    click('create_record_channel', record_channel_id='nasty', name=long[:100], project='nasty',
          fields=[{'field': long[:60], 'kind': 'text'}])
    click('create_record', record_channel_id='nasty', idempotency_key='hostile-1', values={'title': long[:200], long[:60]: NASTY})
    click('create_channel', channel_id='nasty', name=NASTY[:90], project='nasty')
    click('post_message', channel_id='nasty', text=(NASTY + long) * 9, idempotency_key='hostile-2')
    click('create_room', room_id='nasty', name=long[:100], project='nasty')
    click('add_person', of='nasty', name=long[:110])
    click('add_assistant', display_name=long[:120])


def active_token(world):
    """Of a connection that is in the demo's project."""
    connection = world.click('add_assistant', display_name='Claude research')['connection']
    with world.state.db.write() as tx:
        access.attach(tx, connection, 'workspace', 'owner')
        token = access.issue_access_token(tx, connection, access.SCOPES, world.state.now_us(), 3600)
    world.click('add_to_project', connection=connection, project='launch-q3')
    return token


def furnished():
    """The demo with a connection that has called, a proposal of each kind, a draft; and the addresses of every page."""
    world = World(demo=True)
    person = Person(world)
    token = active_token(world)
    world.click('add_assistant', display_name='Claude, still pending')
    calls = (('read_note_tab', {'note_id': 'private-ideas', 'tab_id': 'x'}), ('list_granted_resources', {}),
             ('propose_file_import', {'repository_id': 'site', 'branch': 'main', 'message': 'State the refund window',
                                      'files': [{'path': 'README.md', 'content': 'Refunds\u202e within 30 days.\n'}],
                                      'idempotency_key': 'furnished-1'}),
             ('propose_room_app_install', {'room_id': 'launch-room', 'app_name': 'countdown', 'idempotency_key': 'furnished-2',
                                           'files': [{'path': 'app.html', 'content': '<p>10</p>'}]}),
             ('link_current_chat', {'project_id': 'launch-q3', 'label': 'Launch chat', 'idempotency_key': 'furnished-3'}))
    for name, arguments in calls:
        world.call(token, name, arguments)
    furnish_repository(world, token)
    world.click('attach_file', note_id='q3-checklist', name='plan.txt', media_type='text/plain', content_base64='T25lIHRlbnQ=',
                idempotency_key='furnished-4')
    world.click('save_article', knowledge_base_id='support', article_id='refund-policy', title='Refund policy',
                content='Customers may return a plan within 14 days.')
    page = person.page('note', 'q3-launch')
    person.send(person.page('note', 'q3-launch'), 'save_note', text='first')
    person.send(page, 'save_note', text='second, kept as a draft')
    return world, person


def furnish_repository(world, token):
    """Approved and declined proposals, a change set with a check that has not passed, and a publication that waits for it."""
    world.click('create_repository', repository_id='shop', project='launch-q3')
    world.click('set_policy', repository_id='shop', required_checks=['unit tests'], look_twice=['docs/'])
    keys = iter(range(100))

    def propose(decision, tool, **arguments):
        asked = {'repository_id': 'shop', 'idempotency_key': f'furnish-shop-{next(keys)}', **arguments}
        made = json.loads(world.call(token, tool, asked).json['result']['content'][0]['text'])
        return world.click('decide', proposal_id=made['proposal_id'], decision=decision, second_look=True) if decision else made
    files = [{'path': 'docs/a.md', 'content': 'Refunds\nwithin 30 days.\n'}]
    for decision, message in (('approve', 'First'), ('decline', 'Second')):
        propose(decision, 'propose_file_import', branch='main', message=message, files=files)
    propose('approve', 'propose_gitnest_work', title='Refunds everywhere')
    propose('approve', 'propose_gitnest_change_set', title='Docs', target_branch='main', imports=[
        {'message': 'Fourteen days', 'files': [{'path': 'docs/a.md', 'content': 'Refunds\nwithin 14 days.\n'}]}])
    one = json.loads(world.call(token, 'list_gitnest_work', {'repository_id': 'shop'}).json['result']['content'][0]['text'])
    pins = {'change_set_id': one['change_sets'][0]['change_set_id'], 'expected_change_set_version': 1}
    propose('approve', 'propose_gitnest_server_composition', **pins)
    one = json.loads(world.call(token, 'list_gitnest_work', {'repository_id': 'shop'}).json['result']['content'][0]['text'])
    propose('', 'propose_gitnest_native_publication', **pins,
            expected_composition_oid=one['change_sets'][0]['composition_oid'])


class EveryPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_chromium()
        cls.world, cls.person = furnished()
        cls.addClassCleanup(cls.world.close)
        pages, kinds = cls.person.crawl(), {}
        for address in sorted(pages):                      # one page of each shape
            parts = address[len(cls.person.home):].split('?')[0].split('/')
            each = {'connection': parts[1:], 'note': parts[1:], 'approval': parts[1:], 'repository': parts[1:],
                    'knowledge_base': parts[3:] if parts[2:3] == ['refund-policy'] else []}.get(parts[0], [])
            kinds.setdefault((parts[0], len(parts), *each), address[len(cls.person.home):])
        cls.addresses = [*kinds.values()]

    def visit(self, work):
        for width in WIDTHS:
            for dark in (False, True):
                chromium = Chromium(width=width, dark=dark)
                try:
                    home = chromium.enter(self.world)
                    for address in self.addresses:
                        with self.subTest(page=address, width=width, dark=dark):
                            work(chromium.open(home + address), address, width, dark)
                finally:
                    chromium.close()

    def look(self, chromium, axe, width):
        chromium.run(axe)
        found = chromium.command('/execute/async', {'args': [], 'script': """
            const done = arguments[arguments.length - 1];
            axe.run(document, {resultTypes: ['violations']}).then(found => done(JSON.stringify(found.violations.map(
                one => [one.impact, one.id, one.nodes.map(node => node.html.slice(0, 200))]))));"""})
        self.assertEqual([one for one in json.loads(found) if one[0] in ('serious', 'critical')], [])
        self.assertLessEqual(chromium.run('return document.documentElement.scrollWidth'), width)

    def test_axe_core_finds_nothing_serious_and_no_page_is_wider_than_its_window(self):
        with open(judges.package('axe-core', 'axe.min.js'), encoding='utf-8') as file:
            axe = file.read()
        folder = os.environ.get('SCREENSHOTS')

        def work(chromium, address, width, dark):
            for summary in chromium.find_all('details:not([open]) > summary'):
                chromium.command(f'/element/{summary}/click')
            self.look(chromium, axe, width)
            self.assertEqual(chromium.log(), [])
            if folder:
                name = re.sub(r'[^a-z0-9]+', '-', address.lower()).strip('-')[:40] or 'home'
                chromium.picture(os.path.join(folder, f'{name}-{width}{"-dark" if dark else ""}.png'))
        self.visit(work)

    def test_hostile_words_make_no_page_wider_than_a_phone_and_run_nothing(self):
        add_hostile_words(self.world)
        chromium = Chromium(width=WIDTHS[0])
        try:
            home = chromium.enter(self.world)
            for address, page in sorted(self.person.crawl().items()):
                place = address[len(self.person.home):]
                if 'nasty' in place or '/' not in place:
                    with self.subTest(page=place):
                        self.assertEqual(page.status, 200)
                        chromium.open(home + place)
                        self.assertLessEqual(chromium.run('return document.documentElement.scrollWidth'), WIDTHS[0])
                        self.assertEqual(chromium.log(), [])
                        self.assertEqual(chromium.run('return document.querySelectorAll("script, bdi b, pre b, .text b").length'), 0)
        finally:
            chromium.close()

    def test_the_consent_page_the_link_and_the_page_without_a_cookie_please_axe_core_too(self):
        with open(judges.package('axe-core', 'axe.min.js'), encoding='utf-8') as file:
            axe = file.read()
        consent = self.world.base_url + Client(self.world, client_name='Claude').authorize_path()
        with self.world.state.db.write() as tx:
            link = self.world.base_url + owner.make_link(tx, 'owner', self.world.state.now_us())
        for width in WIDTHS:
            for dark in (False, True):
                chromium = Chromium(width=width, dark=dark)
                try:
                    for name, address in (('stranger', consent), ('link', link), ('consent', consent)):
                        if name == 'consent':
                            chromium.enter(self.world)
                        with self.subTest(page=name, width=width, dark=dark):
                            chromium.open(address)
                            self.look(chromium, axe, width)
                            if os.environ.get('SCREENSHOTS'):
                                chromium.picture(os.path.join(os.environ['SCREENSHOTS'], f'{name}-{width}{dark}.png'))
                finally:
                    chromium.close()


if __name__ == '__main__':
    unittest.main()
