"""Articles 5 and 6: the owner's pages: every page for every person, every click from a form, what is refused or kept."""
import html
import json
import os
import re
import threading
import unittest
from unittest import mock
from urllib.parse import urlencode

from tests.pages_world import NASTY, Person, World

import activity
import demo
import host
import oauth
import owner
import pages
import pages_forms
import repositories
import versioned
import workspace
from git_objects import GitError
from versioned import Refusal

class Case(unittest.TestCase):
    REPOSITORY = False                                     # git takes longer than all the rest of the demo

    def setUp(self):
        clicks = [one for one in demo.CLICKS if self.REPOSITORY or one[0] != 'create_repository']
        with mock.patch.object(demo, 'CLICKS', clicks):
            self.world = World(demo=True)
        self.addCleanup(self.world.close)
        self.owner = Person(self.world)

    def active(self):
        """A connection as a consent makes it, with a token; in the project of the demo."""
        connection = self.world.click('add_assistant', display_name='Claude research')['connection']
        with self.world.state.db.write() as tx:
            oauth.access.attach(tx, connection, 'workspace', 'owner')
            token = oauth.access.issue_access_token(tx, connection, oauth.access.SCOPES, self.world.state.now_us(), 3600)
        self.world.click('add_to_project', connection=connection, project='launch-q3')
        return connection, token

    def tool(self, token, name, **arguments):
        reply = self.world.call(token, name, arguments).json['result']
        return json.loads(reply['content'][0]['text'])

    def propose(self, token, key='from-a-page-1', **changed):
        return self.tool(token, 'propose_file_import', **{
            'repository_id': 'site', 'branch': 'main', 'message': 'State the refund window', 'idempotency_key': key,
            'files': [{'path': 'README.md', 'content': 'Refunds: 30 days\n'}], **changed})['proposal_id']


class Pages(Case):
    REPOSITORY = True

    def test_every_page_that_links_lead_to_opens_for_everybody_who_may_see_it(self):
        connection, token = self.active()
        self.propose(token)
        for person, least in (('owner', 42), ('mika', 40), ('aiko', 35)):
            found = Person(self.world, person).crawl()
            self.assertEqual({at: page.status for at, page in found.items() if page.status != 200}, {}, person)
            self.assertGreater(len(found), least)
            for at, page in found.items():
                self.assertEqual(page.text.count('<h1'), 1, at)
                self.assertNotIn('<script', page.text)
                self.assertIn("default-src 'none'", page['content-security-policy'])
                self.assertIn("form-action 'self'", page['content-security-policy'])
                self.assertEqual((page['x-frame-options'], page['cache-control'], page['referrer-policy']),
                                 ('DENY', 'no-store', 'no-referrer'))

    def test_an_empty_workspace_explains_itself(self):
        world = World()
        self.addCleanup(world.close)
        person = Person(world)
        self.assertIn('No assistant is connected. Begin with Add assistant above.', person.page().text)
        self.assertIn('No project yet. Make one', person.page('projects').text)
        self.assertIn('Nothing waits.', person.page('approval').text)
        self.assertNotIn('Try it in five steps', person.page().text)
        self.assertIn('Try it in five steps', self.owner.page().text)

    def test_the_demo_is_made_once_and_never_in_a_state_that_holds_something(self):
        before = self.world.rows('SELECT count(*) FROM places')
        demo.furnish(self.world.state)
        self.assertEqual(self.world.rows('SELECT count(*) FROM places'), before)

    def test_addresses_that_lead_nowhere_are_404_and_a_stranger_gets_401_everywhere(self):
        for parts in (('nothing',), ('note',), ('note', 'unknown'), ('note', 'a', 'b', 'c'), ('project', 'unknown'),
                      ('events', 'note', 'unknown'), ('approval', 'unknown'), ('connection', 'unknown'),
                      ('knowledge_base', 'support', 'unknown'), ('record_channel', 'launch-pages', 'unknown'),
                      ('note', 'q3-launch', 'unknown'), ('do', 'revoke'), ('%00',), ('note', '%ff%fe')):
            with self.subTest(parts=parts):
                self.assertEqual(self.owner.page(*parts).status, 404)
        for place in ('record_channel/launch-pages', 'channel/launch-talk', 'knowledge_base/support', 'note/q3-launch',
                      'events/note/q3-launch', ''):
            for query in ('after=%ff%fe', 'after=%00', 'after=' + '9' * 400, 'after', 'after=a&after=b', '%'):
                self.assertIn(self.owner.get(f'{self.owner.home}{place}?{query}').status, (200, 400, 404), (place, query))
        for parts in ((), ('people',), ('note', 'q3-launch')):
            self.assertEqual(self.world.http('GET', self.owner.home + '/'.join(parts)).status, 401)

    def test_every_field_shows_markup_scripts_and_right_to_left_text_as_text(self):
        click = self.world.click
        click('create_project', project='nasty', name='P <b>x</b>')
        click('create_note', note_id='nasty', title='N <b>x</b>', project='nasty', tabs=[
            {'tab_type': 'note', 'label': 'L <b>x</b>', 'text': NASTY},
            {'tab_type': 'slides', 'label': 'S', 'slides': [{'title': '<b>slide</b>', 'text': NASTY}]},
            {'tab_type': 'sheet', 'label': 'C', 'start_row': 0, 'start_col': 0, 'values': [[NASTY]]}])
        click('create_knowledge_base', knowledge_base_id='nasty', name='K <b>x</b>', project='nasty')
        click('save_article', knowledge_base_id='nasty', article_id='a<b>', title='A <b>x</b>', content=NASTY)
        click('create_record_channel', record_channel_id='nasty', name='R <b>x</b>', project='nasty',
              fields=[{'field': 'words', 'kind': 'text'}])
        click('create_record', record_channel_id='nasty', idempotency_key='nasty-key-1',
              values={'title': 'T <b>x</b>', 'words': NASTY})
        click('create_channel', channel_id='nasty', name='Ch <b>x</b>', project='nasty')
        click('post_message', channel_id='nasty', text=NASTY, idempotency_key='nasty-key-2')
        click('create_room', room_id='nasty', name='Ro <b>x</b>', project='nasty')
        click('add_person', of='nasty', name='Pe <b>x</b>')
        click('add_assistant', display_name='As <b>x</b>')
        shown = self.owner.crawl()
        self.assertEqual([at for at, page in shown.items() if page.status != 200], [])
        everything = ''.join(page.text for page in shown.values())
        self.assertNotIn('<b>', everything)
        self.assertNotIn('<script', everything)
        for name in ('P', 'N', 'L', 'K', 'A', 'R', 'T', 'Ch', 'Ro', 'Pe', 'As'):
            self.assertIn(f'{name} &lt;b&gt;x&lt;/b&gt;', everything)
        self.assertGreaterEqual(everything.count(html.escape(NASTY, quote=False)) + everything.count(html.escape(NASTY)), 5)

    def test_a_megabyte_is_shown_saved_and_comes_back_unchanged(self):
        words = ('é<&>\u202e' + 'x' * 58 + '\n') * 15_000
        words = words[:2 ** 20 // 2]
        note = self.world.click('create_note', note_id='long', title='Long', project='launch-q3',
                                tabs=[{'tab_type': 'note', 'label': 'Note', 'text': 'short'}])
        page = self.owner.page('note', 'long')
        self.assertEqual(self.owner.send(page, 'save_note', text=words).status, 303)
        saved = self.world.click('read_tab', note_id='long', tab_id=note['tabs'][0]['tab_id'])['text']
        self.assertEqual(saved, words)
        self.assertEqual(dict(self.owner.forms(self.owner.page('note', 'long'), 'save_note')[0][1])['text'], words)
        article = {'knowledge_base_id': 'support', 'article_id': 'long', 'title': 'Long', 'content': 'y\n' * 490_000}
        self.world.click('save_article', **article)
        page = self.owner.page('knowledge_base', 'support', 'long')
        self.assertEqual(self.owner.send(page, 'save_article').status, 303)
        self.assertEqual(self.owner.forms(self.owner.page('knowledge_base', 'support', 'long'),
                                          'save_article')[0][1]['content'], article['content'])

    def test_long_lists_are_paged(self):
        for number in range(120):
            self.world.click('save_article', knowledge_base_id='support', article_id=f'n{number:03}', title=f'Nr {number}',
                             content='')
        page, seen, pages_read = self.owner.page('knowledge_base', 'support'), set(), 0
        while True:
            pages_read += 1
            seen |= {one for one in range(120) if f'<bdi>Nr {one}</bdi>' in page.text}
            if 'Next page' not in page.text:
                break
            page = self.owner.get(page_link(page, self.owner.home + 'knowledge_base/support'))
        self.assertEqual((len(seen), pages_read), (120, 3))


def page_link(page, at):
    return at + html.unescape(page.text.split('Next page')[0].rsplit('href="', 1)[1].split('"')[0])


class Times(unittest.TestCase):
    def test_times_are_as_people_read_them_and_exact_behind(self):
        now = versioned.parse_stamp('2026-11-30T21:00:00.000000Z')
        for stamp, words in (('2026-11-30T20:59:30.000000Z', 'just now'), ('2026-11-30T20:12:00.000000Z', '48 min ago'),
                             ('2026-11-30T09:00:00.000000Z', '12 h ago'),
                             ('2026-11-08T09:30:00.000042Z', '8 Nov 2026, 09:30 UTC'),
                             ('2026-11-30T21:00:05.000000Z', '30 Nov 2026, 21:00 UTC')):
            shown = pages.when(stamp, now)
            self.assertIn(f'>{words}<', shown)
            self.assertIn(f'datetime="{stamp}"', shown)


class Connected(Case):
    """Article 6, steps 1 and 4."""

    def test_add_assistant_shows_setup_pending_and_the_server_address(self):
        page = self.owner.send(self.owner.page(), 'add_assistant', display_name='Claude research', assistant='claude')
        self.assertEqual(page.status, 303)
        shown = self.owner.get(page['location']).text
        self.assertIn('Setup pending. This assistant cannot read or change anything yet.', shown)
        self.assertIn(self.world.running.url, shown)
        self.assertIn('claude mcp add --transport http osfoundry ' + self.world.running.url, shown)
        self.assertNotIn('Add to project', shown)

    def test_buttons_and_states_have_the_published_names(self):
        first = self.owner.get(self.owner.home).text
        pending = self.owner.send(self.owner.page(), 'add_assistant', display_name='Waiting', assistant='claude')['location']
        at = ('connection', self.active()[0])
        self.owner.send(self.owner.page(*at), 'remove_from_project')
        active = self.owner.page(*at).text
        for shown, names in ((first, ('Connected agents', 'Connect in three steps', 'Assistant', 'Display name', 'Add assistant')),
                             (self.owner.get(pending).text, ('Setup pending.', 'Revoke connection')),
                             (active, ('Connected.', 'Add to project', 'Invite', 'Save tools', 'Revoke connection')),
                             (self.owner.page('approval').text, ('Needs your approval',))):
            for name in names:
                with self.subTest(name=name):
                    self.assertRegex(re.sub(r'<bdi>|</bdi>', '', shown), f'>\\s*{re.escape(name)}')

    def test_the_owner_opens_closes_and_revokes_with_forms_and_the_next_call_knows(self):
        connection, token = self.active()
        at = ('connection', connection)

        def outcome():
            return self.world.outcome(token, 'read_note_tab', {'note_id': 'q3-launch', 'tab_id': 'x'})
        self.assertEqual(outcome(), 'not_found')                       # the Note is open, the tab is not there
        self.owner.send(self.owner.page(*at), 'remove_from_project')
        self.assertEqual(outcome(), 'not_in_project')
        self.owner.send(self.owner.page(*at), 'add_to_project', project='launch-q3')
        self.assertEqual(outcome(), 'not_found')
        ticks = self.owner.forms(self.owner.page(*at), 'save_tools')[0]
        fields = [(name, value) for name, value in ticks[1].items() if name != 'tool'] + \
            [('tool', name) for name in self.world.state.catalogue if name != 'read_note_tab']
        self.assertEqual(self.owner.post(ticks[0], fields).status, 303)
        self.assertEqual(outcome(), 'tool_not_enabled')
        self.assertIn('1 switched off.', self.owner.page(*at).text)
        self.owner.send(self.owner.page(*at), 'revoke')
        self.assertEqual(outcome(), 'connection_revoked')
        page = self.owner.page(*at).text
        self.assertIn('Revoked. It can reach nothing, for good.', page)
        for line in ('not_found', 'not_in_project', 'tool_not_enabled', 'connection_revoked'):
            self.assertIn(f'>{line}<', page)                           # Recent activity, the refused ones too

    def test_invite_takes_a_channel_and_only_its_owner_is_offered_a_private_one(self):
        connection, token = self.active()
        self.assertIn('Press (private)', self.owner.page('connection', connection).text)
        mika = Person(self.world, 'mika')
        self.assertNotIn('Press (private)', mika.page('connection', connection).text)
        ask = {'channel_id': 'press'}
        self.assertEqual(self.world.outcome(token, 'channel_history', ask), 'not_invited')
        self.owner.send(self.owner.page('connection', connection), 'invite', id='press')
        self.assertEqual(self.world.outcome(token, 'channel_history', ask), 'ok')
        self.owner.send(self.owner.page('connection', connection), 'uninvite')
        self.assertEqual(self.world.outcome(token, 'channel_history', ask), 'not_invited')

    def test_a_viewer_sees_who_is_connected_and_can_neither_open_nor_change_it(self):
        connection, token = self.active()
        aiko, mika = Person(self.world, 'aiko'), Person(self.world, 'mika')
        self.assertIn('Claude research', aiko.page().text)
        self.assertNotIn('Add assistant', aiko.page().text)
        self.assertEqual(aiko.page('connection', connection).status, 403)
        page = mika.page('connection', connection)
        self.world.click('set_role', of='mika', kind='workspace', id='workspace', role='viewer')
        self.assertEqual(mika.send(page, 'revoke').status, 403)
        self.assertEqual(self.world.outcome(token), 'ok')


class RecentActivity(Case):
    def test_an_item_that_a_person_may_not_see_is_named_in_no_line_of_it(self):
        self.world.click('create_project', project='layoffs-2027', name='Layoffs 2027')
        self.world.click('create_note', note_id='layoffs-note', title='Layoffs', project='layoffs-2027')
        connection, token = self.active()
        self.world.click('add_to_project', connection=connection, project='layoffs-2027')
        self.world.click('invite', connection=connection, kind='channel', id='press')
        self.world.click('set_role', of='mika', kind='project', id='layoffs-2027', role='none')
        for tool, arguments in (('list_note_tabs', {'note_id': 'layoffs-note'}),
                                ('channel_history', {'channel_id': 'press'}),
                                ('list_project_resources', {'project_id': 'layoffs-2027'}),
                                ('list_note_tabs', {'note_id': 'q3-launch'}),
                                ('poll_resource_events', {'resource_id': 'layoffs-note'})):      # refused: no type
            self.world.call(token, tool, arguments)
        page = Person(self.world, 'mika').page('connection', connection).text
        self.assertNotIn('layoffs', page)
        self.assertNotIn('<bdi>press</bdi>', page)
        self.assertEqual(page.count('one that you may not see'), 4)
        self.assertIn('<bdi>q3-launch</bdi>', page)
        self.assertEqual(self.owner.page('connection', connection).text.count('<bdi>layoffs-note</bdi>'), 2)

    def test_a_page_waits_for_lines_that_are_being_written_just_now(self):
        batch, started = self.world.state.activity, threading.Event()
        batch.add(activity.Line('conn-x', 'read_note_tab', 'note', 'n', 'ok', 1))
        with self.world.state.db.write():                  # whoever writes the lines waits here
            while batch._lines:
                threading.Event().wait(0.005)              # until the batch's own thread has taken them

            def page():
                started.set()
                batch.flush()
            reader = threading.Thread(target=page)
            reader.start()
            started.wait()
            reader.join(0.3)
            self.assertTrue(reader.is_alive(), 'the page would have shown a list without them')
        reader.join()
        self.assertEqual(self.world.rows("SELECT outcome FROM activity WHERE connection = 'conn-x'"), [('ok',)])


class Forms(Case):
    def test_a_form_without_its_token_or_with_anothers_is_forged(self):
        connection, token = self.active()
        address, fields = self.owner.forms(self.owner.page('connection', connection), 'revoke')[0]
        other = Person(self.world)
        other_token = other.forms(other.page('connection', connection), 'revoke')[0][1]['form_token']
        wrong_click = self.owner.forms(self.owner.page('connection', connection), 'remove_from_project')[0][1]['form_token']
        for sent in ({}, {'form_token': ''}, {'form_token': '0' * 64}, {'form_token': other_token},
                     {'form_token': wrong_click}):
            there = {name: value for name, value in fields.items() if name != 'form_token'}
            self.assertEqual(self.owner.post(address, {**there, **sent}).status, 403)
        self.assertEqual(self.world.outcome(token), 'ok')
        self.assertEqual(self.owner.post(address, fields).status, 303)

    def test_it_is_refused_from_another_origin_by_another_cookie_and_as_another_type(self):
        address, fields = self.owner.forms(self.owner.page(), 'add_assistant')[0]
        cookies = self.owner.headers(address)
        for headers, status in (({**cookies, 'Origin': 'https://evil.example'}, 403), ({}, 401),
                                ({**cookies, 'Origin': 'null'}, 403)):
            self.assertEqual(self.world.form(address, {**fields, 'display_name': 'x'}, headers).status, status)
        reply = self.world.post_json(address, fields, cookies)
        self.assertEqual(reply.status, 400)
        self.assertEqual(self.world.click('list_connections')['connections'], [])

    def test_a_form_leads_back_to_a_page_of_this_session_only(self):
        address, fields = self.owner.forms(self.owner.page('people'), 'add_person')[0]
        for back in ('https://evil.example/', '//evil.example', '/\\evil.example', '../../evil', 'javascript:alert(1)'):
            reply = self.owner.post(address, {**fields, 'name': f'x{back}'[:40], 'back': back})
            self.assertTrue(reply['location'].startswith(self.owner.home), reply['location'])
            self.assertNotIn('//', reply['location'])

    def test_what_was_typed_comes_back_when_it_is_refused(self):
        reply = self.owner.send(self.owner.page(), 'add_assistant', display_name='a\u202eb')
        self.assertEqual(reply.status, 400)
        self.assertIn('role="alert"', reply.text)
        self.assertEqual(self.owner.forms(reply, 'add_assistant')[0][1]['display_name'], 'a\u202eb')

    def test_a_form_that_is_no_form_is_refused(self):
        address, fields = self.owner.forms(self.owner.page(), 'add_assistant')[0]
        for body, said in ((b'\xff\xfe=%ff', 'Form must be text of at most 2000 fields'),
                           ('&'.join(f'f{n}=1' for n in range(3000)), 'Form must be text of at most 2000 fields'),
                           (urlencode({**fields, 'display_name': 'a\x00b'}), 'Display_name must be text without NUL')):
            reply = self.world.form(address, body, self.owner.headers(address))
            self.assertEqual(reply.status, 400)
            self.assertIn(said, reply.text)

    def test_whoever_is_in_two_workspaces_clicks_in_the_one_that_the_page_shows(self):
        with self.world.state.db.write() as tx:
            workspace.create_workspace(tx, 'zz-second', 'Second', 'owner')
            workspace.create_workspace(tx, 'foreign', 'Foreign', 'mika')
        for shown, here in (('workspace', 'Workspace'), ('zz-second', 'Second')):
            page = self.owner.page('people')
            if f'<bdi>{here}</bdi>, as' not in page.text:
                self.assertEqual(self.owner.send(page, 'show_workspace', workspace=shown).status, 303)
            page = self.owner.page()
            self.assertIn(f'<bdi>{here}</bdi>, as', page.text)
            self.assertEqual(self.owner.send(page, 'add_assistant', display_name='x').status, 303)
            self.assertEqual(self.owner.send(self.owner.page('projects'), 'create_project', name='y').status, 303)
        found = "SELECT workspace FROM connections UNION ALL SELECT workspace FROM places WHERE name = 'y'"
        self.assertEqual(sorted(row[0] for row in self.world.rows(found)), ['workspace'] * 2 + ['zz-second'] * 2)
        page = self.owner.page('people')
        self.assertEqual(self.owner.send(page, 'show_workspace', workspace='foreign').status, 404)

    def test_unknown_clicks_are_404(self):
        address, fields = self.owner.forms(self.owner.page(), 'add_assistant')[0]
        forged = address.replace('add_assistant', 'no_such_click')
        self.assertEqual(self.owner.post(forged, fields).status, 403)

    def test_cells_and_records_become_what_a_person_means(self):
        for words, value in (('12', 12), (' -3 ', -3), ('1.5', 1.5), ('', None), ('007', '007'), ('1e5', '1e5'), ('x', 'x'),
                             ('٣', '٣'), ('9' * 30, '9' * 30)):
            self.assertEqual(pages_forms.cell_value(words), value)
        self.assertEqual(pages_forms.record_field('status: choice: Draft, Ready'),
                         {'field': 'status', 'kind': 'choice', 'choices': ['Draft', 'Ready']})
        self.assertEqual(pages_forms.record_field('words'), {'field': 'words', 'kind': 'text'})
        self.assertRegex(pages_forms.new_id('Launch Q3!'), r'^launch-q3-[0-9a-f]{6}$')
        self.assertRegex(pages_forms.new_id('京都'), r'^[0-9a-f]{6}$')


class Editing(Case):
    """Article 5: beside an agent that edits the same."""

    def test_a_save_that_comes_second_changes_nothing_and_keeps_the_words_as_a_draft(self):
        connection, token = self.active()
        page = self.owner.page('note', 'q3-launch')
        tab = self.owner.forms(page, 'save_note')[0][1]['tab_id']
        read = self.tool(token, 'read_note_tab', note_id='q3-launch', tab_id=tab)
        edit = {'note_id': 'q3-launch', 'tab_id': tab, 'operation': 'replace_text', 'text': 'by the agent',
                'expected_version': read['version'], 'idempotency_key': 'agent-first'}
        self.assertNotIn('error', self.tool(token, 'edit_note_tab', **edit))
        reply = self.owner.send(page, 'save_note', text='by the person')
        self.assertEqual(reply.status, 303)
        shown = self.owner.get(reply['location']).text
        self.assertIn('somebody saved this Note first', shown)
        self.assertIn('by the person', shown)
        self.assertIn('by the agent', shown)
        self.assertEqual(self.tool(token, 'read_note_tab', note_id='q3-launch', tab_id=tab)['text'], 'by the agent')
        self.assertEqual(self.owner.send(self.owner.page('note', 'q3-launch'), 'save_note', text='both').status, 303)
        self.owner.send(self.owner.page('note', 'q3-launch'), 'drop_draft')
        self.assertNotIn('Your draft', self.owner.page('note', 'q3-launch').text)
        self.assertEqual(self.tool(token, 'read_note_tab', note_id='q3-launch', tab_id=tab)['text'], 'both')

    def test_the_agent_that_comes_second_is_refused_as_stale(self):
        connection, token = self.active()
        page = self.owner.page('note', 'q3-launch')
        tab = self.owner.forms(page, 'save_note')[0][1]['tab_id']
        read = self.tool(token, 'read_note_tab', note_id='q3-launch', tab_id=tab)
        self.owner.send(page, 'save_note', text='Mika was here: press kit')
        refused = self.tool(token, 'edit_note_tab', note_id='q3-launch', tab_id=tab, operation='replace_text', text='old',
                            expected_version=read['version'], idempotency_key='agent-second')
        self.assertEqual(refused['error'], 'stale_version')

    def test_a_form_sent_twice_saves_once(self):
        page = self.owner.page('note', 'q3-checklist')
        address, fields = self.owner.forms(page, 'save_note')[0]
        for _ in range(2):
            self.assertEqual(self.owner.post(address, {**fields, 'text': 'once'}).status, 303)
        history = self.world.click('note_history', note_id='q3-checklist')['history']
        self.assertEqual([one['operation'] for one in history].count('replace_text'), 1)

    def test_slides_and_cells_are_added_by_forms(self):
        made = self.world.click('create_note', note_id='deck', title='Deck', project='launch-q3', tabs=[
            {'tab_type': 'slides', 'label': 'Slides', 'slides': [{'title': 'One'}]},
            {'tab_type': 'sheet', 'label': 'Sheet', 'start_row': 0, 'start_col': 0, 'values': [['a']]}])
        slides, sheet = (one['tab_id'] for one in made['tabs'])
        self.owner.send(self.owner.page('note', 'deck', slides), 'save_note', title='Two', text='more')
        self.assertIn('<bdi>Two</bdi>', self.owner.page('note', 'deck', slides).text)
        self.owner.send(self.owner.page('note', 'deck', sheet), 'save_note', start_row='1', start_col='0', cells='7, x\n,2.5')
        shown = self.owner.page('note', 'deck', sheet).text
        for cell in ('7', 'x', '2.5'):
            self.assertIn(f'<bdi>{cell}</bdi>', shown)
        page = self.owner.page('note', 'deck', sheet)
        again = self.owner.send(page, 'save_note', start_row='4', start_col='-2', cells='a\n\nb\n\n')
        self.assertEqual(again.status, 400)
        self.assertEqual(self.owner.send(again, 'save_note', start_col='1').status, 303)      # the row is as typed
        read = {'note_id': 'deck', 'tab_id': sheet, 'start_row': 0, 'start_col': 0, 'row_count': 7, 'col_count': 2}
        self.assertEqual([row[1] for row in self.world.click('read_range', **read)['values']],
                         [None, 'x', 2.5, None, 'a', None, 'b'])

    def test_a_sheet_of_long_cells_is_shown_as_far_as_an_answer_goes(self):
        sheet = self.world.click('create_note', note_id='long', title='Long', project='launch-q3', tabs=[
            {'tab_type': 'sheet', 'label': 'Sheet', 'start_row': 0, 'start_col': 0, 'values': [['a']]}])['tabs'][0]['tab_id']
        for row in range(0, 60, 4):
            base = self.world.click('read_note', note_id='long')['version']
            self.world.click('save_note', note_id='long', tab_id=sheet, operation='sheet_set_range', start_row=row,
                             start_col=0, values=[['x' * 4_000] * 20] * 4, base_version=base,
                             idempotency_key=f'long-cells-{row}')
        page = self.owner.page('note', 'long')
        self.assertEqual(page.status, 200)
        self.assertIn('The first 7 of 60 rows', page.text)

    def test_an_article_saved_in_between_is_shown_and_the_persons_words_stay_in_the_form(self):
        at = ('knowledge_base', 'support', 'refund-policy')
        page = self.owner.page(*at)
        self.owner.send(self.owner.page(*at), 'save_article', content='60 days, says Mika')
        reply = self.owner.send(page, 'save_article', content='14 days, say I')
        self.assertEqual(reply.status, 409)
        self.assertIn('somebody saved this in between', reply.text)
        self.assertIn('60 days, says Mika', reply.text)
        self.assertEqual(self.owner.forms(reply, 'save_article')[0][1]['content'], '14 days, say I')
        self.assertEqual(self.owner.send(reply, 'save_article').status, 303)
        self.assertIn('14 days, say I', self.owner.page(*at).text)

    def test_a_new_article_is_a_draft_until_it_is_published_and_unpublished_again(self):
        connection, token = self.active()
        reply = self.owner.send(self.owner.page('knowledge_base', 'support'), 'save_article', title='Shipping',
                                content='Three days.')
        at = reply['location']
        ask = {'knowledge_base_id': 'support', 'article_id': at.rsplit('/', 1)[1]}
        self.assertEqual(self.world.outcome(token, 'read_knowledge_article', ask), 'not_found')
        self.owner.send(self.owner.get(at), 'publish_article')
        self.assertEqual(self.world.outcome(token, 'read_knowledge_article', ask), 'ok')
        self.owner.send(self.owner.get(at), 'unpublish_article')
        self.assertEqual(self.world.outcome(token, 'read_knowledge_article', ask), 'gone')

    def test_a_record_saved_in_between_is_refused_and_can_be_saved_again(self):
        at = ('record_channel', 'launch-pages', 'rec-000001')
        page = self.owner.page(*at)
        self.owner.send(self.owner.page(*at), 'save_record', **{'value.owner': 'Mika'})
        reply = self.owner.send(page, 'save_record', **{'value.status': 'Ready'})
        self.assertEqual(reply.status, 409)
        self.assertEqual(self.owner.forms(reply, 'save_record')[0][1]['value.status'], 'Ready')
        self.assertEqual(self.owner.send(reply, 'save_record').status, 303)
        self.assertIn('status: Ready', self.owner.page(*at).text)

    def test_everything_can_be_made_from_the_pages(self):
        project = self.owner.send(self.owner.page('projects'), 'create_project', name='Next launch')['location']
        for verb, field in (('create_note', 'title'), ('create_knowledge_base', 'name'), ('create_record_channel', 'name'),
                            ('create_channel', 'name'), ('create_room', 'name'), ('create_repository', 'repository_id')):
            reply = self.owner.send(self.owner.get(project), verb, **{field: f'made-by-{verb}'})
            self.assertEqual(reply.status, 303, reply.text[-300:])
            self.assertEqual(self.owner.get(reply['location']).status, 200)
        self.assertEqual(self.owner.get(project).text.count('<bdi>made-by-'), 6)

    def test_a_note_in_no_project_shows_add_to_project_and_its_log_shows_what_happened(self):
        page = self.owner.page('note', 'private-ideas')
        self.assertIn('>Add to project<', page.text)
        self.owner.send(page, 'move_item', project='launch-q3')
        self.assertIn('Take out of the project', self.owner.page('note', 'private-ideas').text)
        self.owner.send(self.owner.page('note', 'q3-launch'), 'save_note', text='saved')
        self.assertIn('<code>tab_', self.owner.page('events', 'note', 'q3-launch').text)

    def test_a_log_whose_beginning_was_pruned_is_shown_from_where_it_begins(self):
        at = ('events', 'note', 'q3-launch')
        self.owner.send(self.owner.page('note', 'q3-launch'), 'save_note', text='the newest words')
        with self.world.state.db.write() as tx:
            last = versioned.last_sequence(tx, versioned.Ref('note', 'q3-launch'))
            tx.execute("DELETE FROM events WHERE ref_id = 'q3-launch' AND sequence < ?", (last,))
            tx.execute("UPDATE logs SET first_sequence = ? WHERE ref_id = 'q3-launch'", (last,))
        page = self.owner.page(*at)
        self.assertEqual(page.status, 200)
        self.assertIn(f'It begins with {last}:', page.text)

    def test_a_project_that_a_person_may_not_see_is_named_nowhere(self):
        self.world.click('create_project', project='layoffs-2027', name='Layoffs 2027')
        connection, _ = self.active()
        self.world.click('add_to_project', connection=connection, project='layoffs-2027')
        self.world.click('set_role', of='mika', kind='project', id='layoffs-2027', role='none')
        mika = Person(self.world, 'mika')
        for at, page in mika.crawl().items():
            self.assertNotIn('ayoffs', page.text, at)
        self.assertIn('1 that you may not see', mika.page('connection', connection).text)
        self.assertIn('Layoffs 2027', self.owner.page('projects').text)

    def test_a_source_is_a_link_that_tells_nothing_and_a_file_is_its_name_and_size(self):
        _, token = self.active()
        version = self.tool(token, 'list_note_tabs', note_id='q3-launch')['version']
        self.tool(token, 'add_note_source', note_id='q3-launch', url='https://example.org/?a=1&b=<x>'.replace('<x>', '%3C'),
                  expected_version=version, idempotency_key='source-key-1')
        self.world.click('attach_file', note_id='q3-launch', name='plan <b>.pdf', media_type='application/pdf',
                         content_base64='AAAA', idempotency_key='file-key-1')
        page = self.owner.page('note', 'q3-launch').text
        self.assertIn('<a href="https://example.org/?a=1&amp;b=%3C" rel="noopener noreferrer nofollow">', page)
        self.assertIn('plan &lt;b&gt;.pdf', page)
        self.assertIn('3 bytes', page)
        self.assertNotIn('AAAA', page)

    def test_messages_are_posted_and_shown(self):
        self.owner.send(self.owner.page('channel', 'launch-talk'), 'post_message', text='Ready <tomorrow>')
        self.assertIn('Ready &lt;tomorrow&gt;', self.owner.page('channel', 'launch-talk').text)


class Approval(Case):
    """Article 4: what is shown is what is approved."""
    REPOSITORY = True

    def setUp(self):
        super().setUp()
        self.connection, self.token = self.active()

    def test_the_card_shows_pinned_values_every_line_and_hidden_characters(self):
        proposal = self.propose(self.token, files=[{'path': 'README.md', 'content': 'one\u202etwo\nzero\u200bwidth\n'}])
        self.assertIn('Needs your approval (1)', self.owner.page().text)
        page = self.owner.page('approval', proposal).text
        for words in ('Reviewed commit', 'Branch: main', '+one&lt;U+202E&gt;two', '+zero&lt;U+200B&gt;width', 'Files: 1'):
            self.assertIn(words, page)

    def test_approve_carries_it_out_once_and_decline_gives_a_reason_that_the_agent_reads(self):
        first, second = self.propose(self.token), self.propose(self.token, 'from-a-page-2', message='Second')
        page = self.owner.page('approval', first)
        reply = self.owner.send(page, 'decide', 0)
        self.assertIn('Approved and carried out.', self.owner.get(reply['location']).text)
        self.assertEqual(self.owner.send(page, 'decide', 0).status, 303)            # the button again: a replay
        self.owner.send(self.owner.page('approval', second), 'decide', 1, reason='Not <now>')
        self.assertIn('Declined.', self.owner.page('approval', second).text)
        self.assertIn('Not &lt;now&gt;', self.owner.page('approval', second).text)
        found = self.tool(self.token, 'read_proposal', proposal_id=second)
        self.assertEqual((found['status'], found['reason']), ('declined', 'Not <now>'))

    def test_a_repository_out_of_reach_is_said_in_words_and_the_proposal_waits(self):
        proposal = self.propose(self.active()[1])
        with mock.patch('gitnest_proposals.decide', side_effect=GitError('git_failed', 'no such folder')):
            reply = self.owner.send(self.owner.page('approval', proposal), 'decide', decision='approve')
        self.assertEqual(reply.status, 409)
        self.assertIn('No such folder', reply.text)
        self.assertIn(proposal, self.owner.page('approval').text)

    def test_a_proposal_on_an_older_head_is_stale_and_the_page_says_what_that_means(self):
        first, second = self.propose(self.token), self.propose(self.token, 'from-a-page-2', files=[
            {'path': 'other.md', 'content': 'x\n'}])
        self.owner.send(self.owner.page('approval', first), 'decide', 0)
        reply = self.owner.send(self.owner.page('approval', second), 'decide', 0)
        self.assertIn('Not carried out: what you reviewed is no longer current.', self.owner.get(reply['location']).text)

    def test_who_may_not_edit_the_repository_sees_no_card(self):
        proposal = self.propose(self.token)
        aiko = Person(self.world, 'aiko')
        self.assertIn('Nothing waits.', aiko.page('approval').text)
        self.assertEqual(aiko.page('approval', proposal).status, 403)

    def test_an_app_for_a_room_is_shown_with_its_room_and_files(self):
        answer = self.tool(self.token, 'propose_room_app_install', room_id='launch-room', app_name='countdown',
                           idempotency_key='room-app-1', files=[{'path': 'app.html', 'content': '<script>x</script>'}])
        page = self.owner.page('approval', answer['proposal_id'])
        for words in ('Install countdown', 'Launch room', '&lt;script&gt;x&lt;/script&gt;'):
            self.assertIn(words, page.text)
        self.owner.send(page, 'decide', 0)
        self.assertIn('<bdi>countdown</bdi>', self.owner.page('room', 'launch-room').text)

    def test_the_agent_itself_cannot_open_the_pages_or_press_the_button(self):
        proposal = self.propose(self.token)
        bearer = {'Authorization': f'Bearer {self.token}'}
        self.assertEqual(self.world.http('GET', self.owner.home, bearer).status, 401)
        address, fields = self.owner.forms(self.owner.page('approval', proposal), 'decide')[0]
        self.assertEqual(self.world.form(address, fields, bearer).status, 401)
        self.assertEqual(host.owner_click(self.world.base_url, self.token, 'decide',
                                          {'proposal_id': proposal, 'decision': 'approve'})[0], 401)


class GitNest(Case):
    """Article 4: the owner's policy and the results of checks, and a publication that they hold up."""
    REPOSITORY = True

    def decide(self, proposal, **fields):
        page = self.owner.page('approval', proposal)
        reply = self.owner.send(page, 'decide', 0, **fields)
        return self.owner.get(reply['location']).text if reply.status == 303 else reply.text

    def test_policy_checks_and_the_second_look_are_forms(self):
        _, token = self.active()
        at = ('repository', 'site')
        again = self.owner.send(self.owner.page(*at), 'set_policy', required_checks='typed checks', provider='github')
        self.assertEqual(again.status, 400)                        # a provider has a name and an address
        self.assertIn('typed checks', again.text)
        self.assertIn('<details open><summary>Change the policy', again.text)
        self.decide(self.propose(token))
        self.owner.send(self.owner.page(*at), 'set_policy', required_checks='unit tests\n', look_twice='docs/\n',
                        look_twice_over='')
        made = self.tool(token, 'propose_gitnest_change_set', repository_id='site', title='Docs', target_branch='main',
                         imports=[{'message': 'Docs', 'files': [{'path': 'docs/a.md', 'content': 'a\n'}]}],
                         idempotency_key='gitnest-set-1')
        self.assertIn('A change set', self.owner.page('approval').text)
        self.assertIn('Approved and carried out.', self.decide(made['proposal_id']))
        sets = self.tool(token, 'list_gitnest_work', repository_id='site')['change_sets']
        one = {'repository_id': 'site', 'change_set_id': sets[0]['change_set_id'], 'expected_change_set_version': 1}
        made = self.tool(token, 'propose_gitnest_server_composition', idempotency_key='gitnest-set-2', **one)
        shown = self.owner.page('approval', made['proposal_id']).text
        self.assertIn('expected version 1', shown)
        self.decide(made['proposal_id'], second_look='yes')
        page = self.owner.page(*at)
        self.assertIn('unit tests', page.text)
        oid = self.owner.forms(page, 'record_check')[0][1]['composition_oid']
        publish = {**one, 'expected_composition_oid': oid, 'idempotency_key': 'gitnest-set-3'}
        made = self.tool(token, 'propose_gitnest_native_publication', **publish)
        self.assertIn('Required and not passed', self.owner.page('approval', made['proposal_id']).text)
        self.owner.send(page, 'record_check', 0)
        card = self.owner.page('approval', made['proposal_id'])
        self.assertIn('I have looked twice at what is marked above', card.text)
        self.assertIn('Approved and carried out.', self.decide(made['proposal_id'], second_look='yes'))

    def test_a_change_set_is_revised_over_the_version_that_was_shown_and_its_texts_keep_their_line_ends(self):
        _, token = self.active()
        self.decide(self.propose(token))
        dos, mixed = 'one\r\ntwo\r\n', 'one\r\ntwo\n'
        made = self.tool(token, 'propose_gitnest_change_set', repository_id='site', title='Docs', target_branch='main',
                         imports=[{'message': 'Docs', 'files': [{'path': 'dos', 'content': dos}, {'path': 'mixed', 'content': mixed},
                                                                {'path': 'gone', 'content': 'x'}]},
                                  {'message': 'Nasty', 'files': [{'path': 'nasty', 'content': '\n' + NASTY}]}],
                         idempotency_key='gitnest-set-1')
        self.decide(made['proposal_id'])
        one = self.tool(token, 'list_gitnest_work', repository_id='site')['change_sets'][0]['change_set_id']
        self.assertIn(f'/repository/site/{one}', self.owner.page('repository', 'site').text)
        page = self.owner.page('repository', 'site', one)
        self.assertEqual(self.owner.send(page, 'revise_change_set', **{
            'content.0.0': 'one\r\n2\r\n', 'path.0.2': '', 'path.1.1': 'new', 'content.1.1': 'new\r\n',
            'message.2': 'A third', 'path.2.0': 'third', 'content.2.0': '3'}).status, 303)
        self.assertEqual(self.imports(one), [
            {'message': 'Docs', 'files': [['dos', 'one\r\n2\r\n'], ['mixed', mixed]]},
            {'message': 'Nasty', 'files': [['nasty', '\n' + NASTY], ['new', 'new\n']]},
            {'message': 'A third', 'files': [['third', '3']]}])
        reply = self.owner.send(page, 'revise_change_set', **{'content.1.0': 'typed in vain'})
        self.assertEqual(reply.status, 409)
        self.assertIn('somebody saved this in between', reply.text)
        self.assertIn('typed in vain', reply.text)
        fields = self.owner.forms(reply, 'revise_change_set')[0][1]
        self.assertEqual((fields['expected_change_set_version'], fields['path.0.2']), ('2', 'gone'))
        self.assertEqual(self.owner.send(reply, 'revise_change_set', **{'path.0.0': '../etc'}).status, 400)
        self.assertEqual(self.owner.send(reply, 'revise_change_set').status, 303)
        self.assertEqual(self.imports(one)[1]['files'], [['nasty', 'typed in vain']])
        self.assertEqual(self.owner.page('repository', 'site', 'none').status, 404)
        self.world.click('set_role', of='mika', kind='repository', id='site', role='viewer')
        mika = Person(self.world, 'mika')
        shown = mika.page('repository', 'site', one)
        self.assertEqual((shown.status, mika.forms(shown, 'revise_change_set')), (200, []))
        self.assertNotIn('Revise', shown.text)

    def imports(self, change_set):
        return json.loads(self.world.rows('SELECT imports FROM gitnest_change_sets WHERE change_set = ?', change_set)[0][0])


class Colleague(Case):
    """Anybody can play the colleague of article 5."""

    def test_the_owner_opens_a_link_for_mika_and_both_work_side_by_side(self):
        page = self.owner.page('people')
        number = [fields['of'] for _, fields in self.owner.forms(page, 'open_link')].index('mika')
        shown = self.owner.send(page, 'open_link', number)
        self.assertEqual(shown.status, 200)
        link = shown.text.split('href="' + self.world.base_url)[1].split('"')[0]
        mika = Person(self.world, entered=False)
        mika.cookies = self.owner.cookies                  # the same browser
        mika.home = mika.post(link, {})['location']
        self.assertIn('as <bdi>Mika</bdi>', mika.page().text)
        self.assertIn('as <bdi>Owner</bdi>', self.owner.page().text)
        mika.send(mika.page('note', 'q3-launch'), 'save_note', text='press kit')
        self.assertIn('Mika', self.owner.page('note', 'q3-launch').text)
        self.assertEqual(mika.forms(mika.page('people'), 'open_link'), [])

    def test_only_an_owner_adds_people_opens_links_and_changes_roles(self):
        mika = Person(self.world, 'mika')
        for verb, arguments in (('add_person', {'of': 'x', 'name': 'X'}), ('open_link', {'of': 'owner'}),
                                ('set_role', {'of': 'mika', 'kind': 'workspace', 'id': 'workspace', 'role': 'owner'}),
                                ('clear_role', {'of': 'mika', 'kind': 'note', 'id': 'q3-launch'})):
            status, answer = host.owner_click(self.world.base_url, self.world.owner_token, verb,
                                              {**arguments, 'person': 'mika'})
            self.assertEqual((status, answer['error']), (403, 'role_too_low'))
        self.assertNotIn('Add somebody', mika.page('people').text)

    def test_no_link_into_a_workspace_that_the_asker_does_not_own(self):
        with self.world.state.db.write() as tx:
            workspace.create_workspace(tx, 'foreign', 'Foreign', 'mika')
        self.assertEqual(self.refused('open_link', of='mika'), 'role_too_low')
        with self.world.state.db.write() as tx:
            workspace.set_role(tx, 'owner', versioned.Ref('workspace', 'foreign'), 'owner')
        self.assertIn('/enter/', self.world.click('open_link', of='mika', workspace='workspace')['link'])

    def refused(self, verb, **arguments):
        return host.owner_click(self.world.base_url, self.world.owner_token, verb, arguments)[1]['error']

    def test_a_workspace_keeps_an_owner_and_a_role_goes_to_somebody_who_is_there(self):
        of_it = {'kind': 'workspace', 'id': 'workspace'}
        for role in ('editor', 'none'):
            self.assertEqual(self.refused('set_role', of='owner', role=role, **of_it), 'last_owner')
        self.assertEqual(self.refused('clear_role', of='owner', **of_it), 'last_owner')
        self.assertEqual(self.refused('set_role', of='ghost', role='owner', **of_it), 'not_found')
        self.world.click('set_role', of='aiko', role='owner', **of_it)
        with self.world.state.db.read() as tx:
            self.assertEqual(owner.ensure_owner(tx), 'owner')          # the printed link stays his
        self.world.click('set_role', of='owner', role='editor', **of_it)
        with self.world.state.db.read() as tx:
            self.assertEqual(owner.ensure_owner(tx), 'aiko')

    def test_nothing_new_is_put_into_a_project_that_its_maker_may_not_change(self):
        for role, error in (('none', 'not_found'), ('viewer', 'role_too_low')):
            self.world.click('set_role', of='mika', kind='project', id='launch-q3', role=role)
            for verb, arguments in (
                    ('create_note', {'note_id': 'n', 'title': 'N', 'tabs': []}),
                    ('create_knowledge_base', {'knowledge_base_id': 'k', 'name': 'K'}),
                    ('create_channel', {'channel_id': 'c', 'name': 'C'}), ('create_room', {'room_id': 'r', 'name': 'R'}),
                    ('create_record_channel', {'record_channel_id': 'rc', 'name': 'RC', 'fields': [
                        {'field': 'Status', 'kind': 'choice', 'choices': ['Draft']}]}),
                    ('create_repository', {'repository_id': 'rep'})):
                with self.subTest(role=role, verb=verb):
                    self.assertEqual(self.refused(verb, person='mika', project='launch-q3', **arguments), error)

    def test_of_four_who_make_a_repository_at_one_instant_one_has_made_it(self):
        state, together, outcomes = self.world.state, threading.Barrier(4), []

        def make():
            together.wait()
            try:
                repositories.create(state, state.config.data, 'at-once', 'workspace')
                outcomes.append('made')
            except Refusal as refusal:
                outcomes.append(refusal.code)
        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(outcomes), ['already_exists'] * 3 + ['made'])
        self.assertEqual(os.listdir(os.path.join(state.config.data, 'repos')), ['at-once.git'])

    def test_an_id_is_one_that_every_tool_can_name(self):
        for bad in ('x' * 129, 'a\0b'):
            self.assertEqual(self.refused('create_project', project=bad, name='P'), 'invalid_argument')
            self.assertEqual(self.refused('add_person', of=bad, name='P'), 'invalid_argument')
        self.assertEqual(self.refused('create_room', room_id='', name='R'), 'invalid_argument')

    def test_a_role_taken_away_counts_on_the_next_click_and_whoever_has_left_sees_nothing(self):
        mika = Person(self.world, 'mika')
        page = mika.page('note', 'q3-launch')
        self.world.click('set_role', of='mika', kind='workspace', id='workspace', role='viewer')
        self.assertEqual(mika.send(page, 'save_note', text='too late').status, 403)
        self.world.click('set_role', of='mika', kind='workspace', id='workspace', role='none')
        self.assertEqual(mika.page('note', 'q3-launch').status, 404)
        self.assertIn('has no role', self.owner.page('people').text)
        for role in ({'kind': 'note', 'id': 'q3-launch', 'role': 'none'},
                     {'kind': 'workspace', 'id': 'workspace', 'role': 'viewer'}):
            self.world.click('set_role', of='mika', **role)
        self.assertEqual(mika.page('note', 'q3-launch').status, 404)
        self.world.click('clear_role', of='mika', kind='note', id='q3-launch')
        self.assertEqual(mika.page('note', 'q3-launch').status, 200)
        self.world.click('clear_role', of='mika', kind='workspace', id='workspace')
        self.assertEqual(mika.page('note', 'q3-launch').status, 404)

    def test_sign_out_ends_every_session_of_this_person_and_of_nobody_else(self):
        other, mika = Person(self.world), Person(self.world, 'mika')
        self.assertEqual(self.owner.send(self.owner.page('people'), 'sign_out').status, 200)
        self.assertEqual([one.page().status for one in (self.owner, other, mika)], [401, 401, 200])


if __name__ == '__main__':
    unittest.main()
