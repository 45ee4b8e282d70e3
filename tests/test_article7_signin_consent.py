"""Articles 6 (step 3) and 7: who the owner is, what the consent page shows, and what its buttons do."""
import os
import re
import stat
import threading
import unittest
from urllib.parse import urlencode

from tests.signin_world import AUTHORIZE, REDIRECT, Browser, Client, World, hidden_fields

import access
import oauth
import owner
import pages
import pages_consent
import server
import workspace
from versioned import Ref, Refusal


class Case(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)

    def connections(self):
        return {one['display_name']: one for one in self.world.click('list_connections')['connections']}


class OwnersDoor(Case):
    """security.md 1 to 3."""

    def link(self):
        with self.world.state.db.write() as tx:
            return owner.make_link(tx, 'owner', self.world.state.now_us())

    def test_looking_at_the_link_uses_nothing_up_and_pressing_the_button_does(self):
        link, browser = self.link(), Browser(self.world, entered=False)
        for _ in range(3):
            page = browser.get(link)
            self.assertEqual((page.status, page['set-cookie'], page['referrer-policy']), (200, None, 'no-referrer'))
            self.assertIn('<form method="post">', page.text)
        entered = browser.post(link, {})
        self.assertEqual(entered.status, 303)
        self.assertEqual(entered['location'], link.split('enter/')[0])          # a clean address
        self.assertEqual(browser.get(entered['location']).status, 200)
        self.assertEqual((browser.post(link, {}).status, browser.get(link).status), (404, 404))

    def test_of_eight_clicks_at_one_instant_one_opens_a_session(self):
        link, barrier, found = self.link(), threading.Barrier(8), []

        def press():
            browser = Browser(self.world, entered=False)
            barrier.wait()
            found.append(browser.post(link, {}).status)
        threads = [threading.Thread(target=press) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(found), [303] + [404] * 7)

    def test_a_link_grows_old_and_so_does_a_session(self):
        link, browser = self.link(), Browser(self.world)
        self.world.offset_s = owner.LINK_TTL_S + 1
        self.assertEqual(Browser(self.world, entered=False).post(link, {}).status, 404)
        self.assertEqual(browser.get(browser.home).status, 200)
        self.world.offset_s = owner.SESSION_TTL_S + 1
        self.assertEqual(browser.get(browser.home).status, 401)

    def test_each_cookie_has_its_own_path_and_neither_opens_the_others_door(self):
        browser = Browser(self.world)
        cookies = {name: (path, value) for (name, path), value in browser.cookies.items()}
        self.assertRegex(cookies[owner.PAGE_COOKIE][0], r'^/o/[A-Za-z0-9_-]{20,}/$')
        self.assertEqual(cookies[owner.CONSENT_COOKIE][0], '/external-assistant-authorize')
        consent, page = cookies[owner.CONSENT_COOKIE][1], cookies[owner.PAGE_COOKIE][1]
        for swapped in (f'{owner.PAGE_COOKIE}={consent}', f'{owner.CONSENT_COOKIE}={consent}', ''):
            self.assertEqual(self.world.http('GET', browser.home, {'Cookie': swapped}).status, 401)
        at = self.world.http('GET', Client(self.world).authorize_path())['location']
        for swapped in (f'{owner.CONSENT_COOKIE}={page}', f'{owner.PAGE_COOKIE}={page}', ''):
            self.assertEqual(self.world.http('GET', at, {'Cookie': swapped}).status, 401)

    def test_the_cookies_are_httponly_samesite_and_secure_behind_https(self):
        page, consent = (value for _, value in owner.cookie_headers('/o/r/', 'a', 'b', True))
        self.assertRegex(page, r'; Path=/o/r/; SameSite=Strict; .*HttpOnly; Secure$')
        self.assertRegex(consent, r'; Path=/external-assistant-authorize; SameSite=Lax; .*HttpOnly; Secure$')
        self.assertNotIn('Secure', owner.cookie_headers('/o/r/', 'a', 'b', False)[0][1])

    def test_one_session_does_not_open_anothers_pages(self):
        first, second = Browser(self.world), Browser(self.world)
        cookie = next(value for (name, _), value in first.cookies.items() if name == owner.PAGE_COOKIE)
        self.assertEqual(self.world.http('GET', second.home, {'Cookie': f'{owner.PAGE_COOKIE}={cookie}'}).status, 401)

    def test_anonymous_is_401_and_an_agent_403_whatever_else_it_shows(self):
        token = Client(self.world).sign_in(Browser(self.world))['access_token']
        path, body = '/owner/decide', {'proposal_id': 'p', 'decision': 'approve'}
        for headers, status, code in (({}, 401, 'owner_required'), ({'Authorization': 'Owner wrong'}, 401, 'owner_required'),
                                      ({'Authorization': 'Owner'}, 401, 'owner_required'),
                                      ({'Authorization': 'Basic x'}, 401, 'owner_required'),
                                      ({'Authorization': f'Bearer {token}'}, 403, 'agent_scope_denied'),
                                      ({'Authorization': 'bearer unknown'}, 403, 'agent_scope_denied'),
                                      ({'Authorization': f'Owner {token}'}, 401, 'owner_required')):
            with self.subTest(headers=headers):
                reply = self.world.post_json(path, body, headers)
                self.assertEqual((reply.status, reply.json['error']), (status, code))

    def test_the_gates_of_host_and_origin_stand_before_the_owners_routes(self):
        good = {'Authorization': f'Owner {self.world.owner_token}'}
        self.assertEqual(self.world.post_json('/owner/list_connections', {}, good).status, 200)
        self.assertEqual(self.world.post_json('/owner/list_connections', {}, {**good, 'Host': 'evil.example'}).status, 421)
        for origin in ('https://evil.example', 'null', 'http://localhost:1'):
            reply = self.world.post_json('/owner/list_connections', {}, {**good, 'Origin': origin})
            self.assertEqual(reply.status, 403, origin)

    def test_the_token_and_the_link_lie_in_files_of_mode_600_and_the_folder_is_700(self):
        data = self.world.running.config.data
        owner.announce(self.world.state, data, self.world.base_url, to_terminal=False)
        self.assertEqual(stat.S_IMODE(os.stat(data).st_mode), 0o700)
        for name in (owner.TOKEN_FILE, owner.LINK_FILE):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(data, name)).st_mode), 0o600)

    def test_secrets_are_printed_to_a_terminal_only(self):
        data = self.world.running.config.data
        shown = '\n'.join(owner.announce(self.world.state, data, self.world.base_url, to_terminal=True))
        self.assertIn(self.world.base_url + '/o/', shown)
        self.assertNotIn(self.world.owner_token, shown)
        hidden = '\n'.join(owner.announce(self.world.state, data, self.world.base_url, to_terminal=False))
        self.assertNotIn('/o/', hidden)

    def test_an_emptied_or_torn_token_file_makes_nothing_the_owners_token(self):
        for torn in (b'', b'\n', b'\xff\xfe', b'short'):
            server.stop(self.world.running)
            with open(os.path.join(self.world.running.config.data, owner.TOKEN_FILE), 'wb') as file:
                file.write(torn)
            self.world.open()
            self.assertRegex(self.world.owner_token, owner.SECRET)
            for sent in ('Owner', 'Owner ', 'Owner short'):
                reply = self.world.post_json('/owner/list_connections', {}, {'Authorization': sent})
                self.assertEqual((reply.status, reply.json['error']), (401, 'owner_required'))

    def test_a_token_file_that_is_a_link_to_somewhere_else_is_not_followed(self):
        path = os.path.join(self.world.running.config.data, owner.TOKEN_FILE)
        other = os.path.join(self.world.folder, 'elsewhere')
        os.rename(path, other)
        os.symlink(other, path)
        with self.assertRaises(OSError):
            owner.read_secret(path)

    def test_who_deletes_the_token_file_gets_another_token_and_the_old_one_is_dead(self):
        old = self.world.owner_token
        server.stop(self.world.running)
        os.remove(os.path.join(self.world.running.config.data, owner.TOKEN_FILE))
        self.world.open()
        self.assertNotEqual(self.world.owner_token, old)
        self.assertEqual(self.world.click('list_connections'), {'connections': []})
        reply = self.world.post_json('/owner/list_connections', {}, {'Authorization': f'Owner {old}'})
        self.assertEqual(reply.json['error'], 'owner_required')

    def test_a_tick_of_a_tool_that_there_is_not_is_a_slip_and_says_so(self):
        reply = self.world.post_json('/owner/save_tools', {'connection': 'x', 'off': ['edit_note_tab', 'edit_nota_tab']},
                                     {'Authorization': f'Owner {self.world.owner_token}'})
        self.assertEqual((reply.status, reply.json['error'], reply.json['field']), (400, 'invalid_argument', 'off'))
        self.assertIn('edit_nota_tab', reply.json['message'])

    def test_the_owners_token_outlives_the_server(self):
        token = self.world.owner_token
        server.stop(self.world.running)
        self.world.open()
        self.assertEqual(self.world.owner_token, token)
        self.assertEqual(self.world.click('list_connections'), {'connections': []})

    def test_the_scripted_owner_may_play_a_colleague_that_there_is(self):
        with self.world.state.db.write() as tx:
            workspace.add_person(tx, 'mika', 'Mika')
            workspace.set_role(tx, 'mika', Ref('workspace', 'workspace'), 'viewer')
        for person, code in (('mika', 'role_too_low'), ('nobody', 'not_found'), (7, 'not_found')):
            reply = self.world.post_json('/owner/add_assistant', {'display_name': 'x', 'person': person},
                                         {'Authorization': f'Owner {self.world.owner_token}'})
            self.assertEqual(reply.json['error'], code)


class Page(Case):
    def setUp(self):
        super().setUp()
        self.browser, self.client = Browser(self.world), Client(self.world, client_name='Claude <b>"x"')

    def open(self, **changed):
        return self.browser.open_consent(self.client, **changed)[2]

    def test_it_shows_the_client_where_it_returns_to_and_what_it_asks_in_plain_words(self):
        page = self.open(scope='osfoundry:read osfoundry:write osfoundry:run').text
        for words in ('Connect an agent', 'Claude &lt;b&gt;&quot;x&quot;', '127.0.0.1:5555', 'Workspace to connect',
                      'Read supported resources in projects you add',
                      'Change supported resources where you have edit access',
                      'Run sessions where you grant a runner role', 'Create a new connection',
                      'I approve connecting this assistant to', '>Connect<', '>Cancel<'):
            self.assertIn(words, page)
        self.assertNotIn('<b>', page)
        self.assertNotIn('Change supported', self.open(scope='osfoundry:read').text)

    def test_every_scope_has_words_of_its_own(self):
        self.assertEqual(sorted(pages_consent.CAPABILITIES), sorted(access.SCOPES))

    def test_its_headers_keep_it_out_of_frames_caches_and_referrers_and_say_nothing_of_form_action(self):
        page = self.open()
        self.assertEqual((page['x-frame-options'], page['cache-control'], page['referrer-policy'],
                          page['x-content-type-options']), ('DENY', 'no-store', 'no-referrer', 'nosniff'))
        policy = page['content-security-policy']
        self.assertIn("default-src 'none'", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertNotIn('form-action', policy)               # everruns/everruns#2918: it would block the callback
        self.assertIn(f"'sha256-{pages.STYLE_HASH}'", policy)
        self.assertNotIn('<script', page.text)

    def test_pending_connections_are_offered_and_none_is_preselected(self):
        self.world.click('add_assistant', display_name='Claude research')
        page = self.open().text
        self.assertIn('Use pending: <bdi>Claude research</bdi>', page)
        chosen = [line for line in re.findall(r'<input type="radio" name="connection"[^>]*>', page) if 'checked' in line]
        self.assertEqual(chosen, ['<input type="radio" name="connection" value="new" checked>'])

    def test_without_the_owners_cookie_it_says_how_to_sign_in_and_nothing_else(self):
        at = self.world.http('GET', self.client.authorize_path())['location']
        page = self.world.http('GET', at)
        self.assertEqual(page.status, 401)
        self.assertNotIn('Claude', page.text)
        self.assertNotIn('<form', page.text)

    def test_it_never_names_the_owners_random_path(self):
        """Whoever gets hold of the consent cookie must not find the owner's pages with it."""
        self.assertNotIn(self.browser.home.split('/')[2], self.open().text)

    def test_only_workspaces_of_the_person_are_offered_and_with_two_of_them_none_is_chosen(self):
        with self.world.state.db.write() as tx:
            workspace.add_person(tx, 'mika', 'Mika')
            workspace.create_workspace(tx, 'second', 'Second', 'owner')
            workspace.create_workspace(tx, 'foreign', 'Foreign', 'mika')
        page = self.open().text
        radios = re.findall(r'<input type="radio" name="workspace" value="([^"]*)"([^>]*)>', page)
        self.assertEqual(sorted(radios), [('second', ' required'), ('workspace', ' required')])
        reply = self.browser.decide(self.client, workspace='foreign')
        self.assertEqual((reply.status, reply['location']), (409, None))


class Decision(Case):
    def setUp(self):
        super().setUp()
        self.browser, self.client = Browser(self.world), Client(self.world)

    def test_connect_goes_back_with_code_state_and_iss_and_the_connection_has_no_project(self):
        reply = self.browser.decide(self.client, state='a b&c')
        self.assertEqual(reply.status, 303)
        self.assertTrue(reply['location'].startswith(REDIRECT + '?'))
        answer = reply.answer
        self.assertEqual((answer['state'], answer['iss'], len(answer['code'])), ('a b&c', self.world.base_url, 43))
        made = self.connections()['Claude']
        self.assertEqual((made['status'], made['approver'], made['projects'], made['assistant']),
                         ('active', 'owner', [], 'claude'))

    def test_no_redirect_on_the_way_is_cached_or_tells_its_address_to_the_next_page(self):
        """Each has something in its address that is nobody else's: the request, the code, the state."""
        asked = self.client.authorize_path()
        for reply in (self.world.http('GET', asked), self.world.http('GET', asked + '&scope=nonsense'),
                      self.browser.decide(self.client), self.browser.decide(self.client, decision='cancel', approve='')):
            self.assertEqual((reply.status, reply['referrer-policy'], reply['cache-control']),
                             (303, 'no-referrer', 'no-store'), reply['location'])

    def test_cancel_goes_back_with_access_denied_and_connects_nothing(self):
        reply = self.browser.decide(self.client, decision='cancel', approve='')
        answer = reply.answer
        self.assertEqual((answer['error'], answer['state'], answer['iss']), ('access_denied', 's-1', self.world.base_url))
        self.assertEqual(self.connections(), {})

    def test_attaching_to_a_pending_connection_makes_it_the_connected_one(self):
        pending = self.world.click('add_assistant', display_name='Claude research')['connection']
        tokens = self.client.sign_in(self.browser, connection=pending)
        found = self.connections()
        self.assertEqual(list(found), ['Claude research'])
        self.assertEqual((found['Claude research']['status'], found['Claude research']['approver']), ('active', 'owner'))
        self.assertEqual(self.world.outcome(tokens['access_token']), 'ok')

    def test_a_pending_connection_can_hold_no_project(self):
        pending = self.world.click('add_assistant', display_name='Claude research')['connection']
        self.world.click('create_project', project='a', name='A')
        reply = self.world.post_json('/owner/add_to_project', {'connection': pending, 'project': 'a'},
                                     {'Authorization': f'Owner {self.world.owner_token}'})
        self.assertEqual((reply.status, reply.json['error']), (409, 'connection_pending'))

    def test_another_clients_active_or_a_revoked_or_unknown_connection_is_not_taken_over(self):
        Client(self.world, client_name='Other').sign_in(self.browser)
        active = self.connections()['Other']['connection']
        revoked = self.world.click('add_assistant', display_name='Old')['connection']
        self.world.click('revoke', connection=revoked)
        for connection in (active, revoked, 'conn-unknown'):
            reply = self.browser.decide(self.client, connection=connection)
            self.assertEqual((reply.status, reply['location']), (409, None), connection)
        self.assertEqual(self.world.rows('SELECT count(*) FROM oauth_codes WHERE client_id = ?', self.client.client_id),
                         [(0,)])

    def test_a_pending_connection_is_taken_once(self):
        pending = self.world.click('add_assistant', display_name='Claude research')['connection']
        self.client.sign_in(self.browser, connection=pending)
        self.assertEqual(self.browser.decide(Client(self.world), connection=pending).status, 409)

    def test_more_scope_for_the_clients_own_connection_keeps_its_projects(self):
        self.client.sign_in(self.browser, scope='osfoundry:read')
        own = self.connections()['Claude']['connection']
        self.world.click('create_project', project='a', name='A')
        self.world.click('add_to_project', connection=own, project='a')
        page = self.browser.open_consent(self.client)[2].text
        self.assertIn('Keep, with its projects: <bdi>Claude</bdi>', page)
        tokens = self.client.sign_in(self.browser, connection=own)
        self.assertEqual(tokens['scope'], 'osfoundry:read osfoundry:write')
        self.assertEqual(self.connections()['Claude']['projects'], ['a'])

    def test_without_the_tick_the_page_comes_again_and_can_still_be_decided(self):
        at, fields, _ = self.browser.open_consent(self.client)
        fields.update(decision='connect', connection='new', workspace='workspace')
        page = self.browser.post(at, fields)
        self.assertEqual(page.status, 400)
        self.assertIn('Tick the box', page.text)
        fields.update(hidden_fields(page.text), approve='yes')
        self.assertEqual(self.browser.post(at, fields).status, 303)
        for missing in ('workspace', 'connection', 'decision'):
            self.assertEqual(self.browser.decide(self.client, **{missing: ''}).status, 400)

    def test_a_decision_is_usable_once(self):
        at, fields, _ = self.browser.open_consent(self.client)
        fields.update(decision='connect', connection='new', workspace='workspace', approve='yes')
        barrier, found = threading.Barrier(8), []

        def press():
            barrier.wait()
            found.append(self.browser.post(at, fields).status)
        threads = [threading.Thread(target=press) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(found), [303] + [409] * 7)
        self.assertEqual(len(self.connections()), 1)
        self.assertEqual(self.browser.post(at, dict(fields, decision='cancel')).status, 409)

    def test_a_forged_form_is_refused(self):
        """malloydata/malloyyo#97: the token belongs to this person's session and to this request."""
        at, fields, _ = self.browser.open_consent(self.client)
        fields.update(decision='connect', connection='new', workspace='workspace', approve='yes')
        other, other_client = Browser(self.world), Client(self.world)
        forged = [(self.browser, at, dict(fields, form_token='')), (self.browser, at, dict(fields, form_token='0' * 64)),
                  (self.browser, at, dict(fields, nonce=fields['nonce'] + '0')), (other, at, fields),
                  (self.browser, at.replace('osfoundry%3Aread+', 'osfoundry%3Arun+'), fields),
                  (self.browser, at.replace(self.client.client_id, other_client.client_id), fields),
                  (self.browser, at + '&x=1', fields)]
        for browser, place, sent in forged:
            reply = browser.post(place, sent)
            self.assertEqual((reply.status, reply['location']), (403, None))
        self.assertEqual(self.connections(), {})
        self.assertEqual(self.browser.post(at, fields).status, 303)      # the real one was not used up by any of them

    def test_a_field_that_is_no_text_is_refused_and_the_form_can_still_be_sent(self):
        """Bytes that are no UTF-8 came as half surrogates to the form's token and to SQLite, which take none: 500."""
        at, fields, _ = self.browser.open_consent(self.client)
        fields.update(decision='connect', connection='new', workspace='workspace', approve='yes')
        for name in fields:
            for nasty in ('%ff', '%00', '%ed%a0%80'):
                sent = urlencode({other: value for other, value in fields.items() if other != name})
                self.assertEqual(self.browser.post(at, f'{sent}&{name}={nasty}').status, 403, (name, nasty))
        self.assertEqual(self.connections(), {})
        self.assertEqual(self.browser.post(at, fields).status, 303)

    def test_a_page_on_another_site_cannot_send_it(self):
        at, fields, _ = self.browser.open_consent(self.client)
        headers = self.browser.headers('/external-assistant-authorize')
        for origin in ('https://evil.example', 'null'):
            reply = self.world.form(at, fields, {**headers, 'Origin': origin})
            self.assertEqual(reply.status, 403)

    def test_every_parameter_is_checked_again_when_it_is_sent(self):
        at, fields, _ = self.browser.open_consent(self.client)
        fields.update(decision='connect', connection='new', workspace='workspace', approve='yes')
        with self.world.state.db.write() as tx:
            tx.execute('DELETE FROM oauth_clients')
        self.assertEqual(self.browser.post(at, fields).status, 400)
        self.assertEqual(self.connections(), {})

    def test_a_page_that_stood_open_for_too_long_decides_nothing(self):
        at, fields, _ = self.browser.open_consent(self.client)
        fields.update(decision='connect', connection='new', workspace='workspace', approve='yes')
        self.world.offset_s = oauth.FORM_TTL_S + 2
        self.assertEqual(self.browser.post(at, fields).status, 409)


class SelfConsent(unittest.TestCase):
    """security.md 5."""

    def setUp(self):
        self.world = World(demo=True, self_consent=True)
        self.addCleanup(self.world.close)

    def request(self, client_id, redirect):
        client = Client(self.world)
        return self.world.http('GET', f'{AUTHORIZE}?' + urlencode(client.request(client_id=client_id, redirect_uri=redirect)))

    def test_the_client_registered_beforehand_is_redirected_straight_to_its_loopback_callback(self):
        reply = self.request(oauth.DEMO_CLIENT, 'http://127.0.0.1:7777/callback')
        self.assertTrue(reply['location'].startswith('http://127.0.0.1:7777/callback?code='))

    def test_no_other_client_and_no_other_redirect_is(self):
        other = Client(self.world)
        self.assertIn('/external-assistant-authorize?', self.request(other.client_id, REDIRECT)['location'])
        self.assertEqual(self.request(oauth.DEMO_CLIENT, 'https://example.org/callback').status, 400)

    def test_the_rule_itself_refuses_every_other_request(self):
        good = oauth.Authorization(oauth.DEMO_CLIENT, 'x', oauth.DEMO_REDIRECT, None, 'c', ('osfoundry:read',), 'r')
        for other in (good._replace(client_id='client-other'), good._replace(redirect_uri='https://example.org/cb')):
            with self.assertRaises(Refusal) as caught, self.world.state.db.write() as tx:
                oauth.approve_demo(tx, 'owner', other, 1)
            self.assertEqual(caught.exception.code, 'consent_required')

    def test_without_the_flag_there_is_no_such_client(self):
        world = World()
        self.addCleanup(world.close)
        self.assertEqual(world.rows('SELECT client_id FROM oauth_clients'), [])

    def test_asking_again_keeps_the_connection_and_after_a_revocation_makes_a_new_one(self):
        for _ in range(2):
            self.request(oauth.DEMO_CLIENT, 'http://127.0.0.1/callback')
        first = self.world.click('list_connections')['connections']
        self.assertEqual(len(first), 1)
        self.world.click('revoke', connection=first[0]['connection'])
        self.request(oauth.DEMO_CLIENT, 'http://127.0.0.1/callback')
        self.assertEqual(len(self.world.click('list_connections')['connections']), 2)


if __name__ == '__main__':
    unittest.main()
