"""Article 7: what a client finds before it has a token, how it registers, and what authorize does with a request."""
import json
import unittest
from urllib.parse import quote, urlencode

from tests.signin_world import AUTHORIZE, REDIRECT, REGISTER, Browser, Client, World

import oauth

WELL_KNOWN = '/.well-known/oauth-protected-resource'


class Signin(unittest.TestCase):
    """One server for the class: each test brings its own client."""

    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.addClassCleanup(cls.world.close)

    def dump(self):
        with self.world.state.db.read() as tx:
            return list(tx.iterdump())


class Discovery(Signin):
    def test_the_401_points_to_the_resource_metadata_and_the_result_repeats_the_challenge(self):
        reply = self.world.call(None)
        url = self.world.base_url + WELL_KNOWN + oauth.ENDPOINT
        self.assertEqual(reply.status, 401)
        self.assertEqual(reply['www-authenticate'], f'Bearer resource_metadata="{url}", error="invalid_token", '
                                                    'error_description="Connect osFoundry to continue"')
        result = reply.json['result']
        self.assertTrue(result['isError'])
        self.assertEqual(result['content'][0]['text'], 'Authentication required')
        self.assertEqual(result['_meta']['mcp/www_authenticate'], [reply['www-authenticate']])

    def test_the_suffix_goes_after_the_host_and_the_document_is_the_same_at_the_root(self):
        suffixed, root = self.world.http('GET', WELL_KNOWN + oauth.ENDPOINT), self.world.http('GET', WELL_KNOWN)
        self.assertEqual((suffixed.status, root.status), (200, 200))
        self.assertEqual(suffixed.body, root.body)
        self.assertEqual(suffixed.json['resource'], self.world.running.url)
        self.assertEqual(suffixed.json['authorization_servers'], [self.world.base_url])
        self.assertEqual(suffixed.json['scopes_supported'],
                         ['osfoundry:read', 'osfoundry:write', 'osfoundry:run', 'osfoundry:models'])
        self.assertEqual(suffixed.json['bearer_methods_supported'], ['header'])

    def test_under_the_endpoints_own_path_and_at_unknown_well_knowns_there_is_404_with_json(self):
        for path in (oauth.ENDPOINT + WELL_KNOWN, '/.well-known/openid-configuration',
                     '/.well-known/oauth-authorization-server/elsewhere', WELL_KNOWN + '/elsewhere'):
            with self.subTest(path=path):
                reply = self.world.http('GET', path)
                self.assertEqual((reply.status, reply.json['error']), (404, 'not_found'))

    def test_the_server_says_of_itself_what_the_article_prints(self):
        base = self.world.base_url
        found = self.world.http('GET', '/.well-known/oauth-authorization-server').json
        published = {'issuer': base, 'authorization_endpoint': base + '/api/v1/external-oauth/authorize',
                     'token_endpoint': base + '/api/v1/external-oauth/token',
                     'registration_endpoint': base + '/api/v1/external-oauth/register',
                     'grant_types_supported': ['authorization_code', 'refresh_token'],
                     'token_endpoint_auth_methods_supported': ['none'], 'code_challenge_methods_supported': ['S256'],
                     'authorization_response_iss_parameter_supported': True}
        self.assertEqual(dict(list(found.items())[:8]), published)
        self.assertEqual(found['response_types_supported'], ['code'])
        self.assertEqual(found['scopes_supported'], list(oauth.access.SCOPES))

    def test_issuer_resource_entry_and_iss_are_the_same_bytes(self):
        issuer = self.world.http('GET', '/.well-known/oauth-authorization-server').json['issuer']
        entry = self.world.http('GET', WELL_KNOWN).json['authorization_servers'][0]
        client = Client(self.world)
        iss = self.world.http('GET', client.authorize_path(scope='nonsense')).answer['iss']
        self.assertEqual(len({issuer, entry, iss}), 1)

    def test_addresses_come_from_configuration_never_from_a_header(self):
        """andrea-magni/MARS#203"""
        port = self.world.running.config.port
        for headers in ({'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'https'},
                        {'Forwarded': 'host=evil.example'}, {'Host': f'localhost:{port}'}):
            with self.subTest(headers=headers):
                reply = self.world.http('GET', WELL_KNOWN, headers)
                self.assertEqual(reply.json['resource'], self.world.running.url)
        self.assertEqual(self.world.http('GET', WELL_KNOWN, {'Host': 'evil.example'}).status, 421)

    def test_browsers_may_read_discovery_register_and_token_but_not_authorize(self):
        origin = {'Origin': 'http://localhost:6274'}
        for path in (WELL_KNOWN, '/.well-known/oauth-authorization-server'):
            self.assertEqual(self.world.http('GET', path, origin)['access-control-allow-origin'], origin['Origin'])
        for path in (REGISTER, oauth.ISSUED_UNDER + 'token'):
            preflight = self.world.http('OPTIONS', path, origin)
            self.assertEqual((preflight.status, preflight['access-control-allow-origin']), (204, origin['Origin']))
        reply = self.world.http('GET', AUTHORIZE, origin)
        self.assertIsNone(reply['access-control-allow-origin'])


class Registration(Signin):
    def register(self, **metadata):
        return self.world.post_json(REGISTER, {'redirect_uris': [REDIRECT], **metadata})

    def test_a_host_registers_itself_and_gets_no_secret(self):
        reply = self.register(client_name='Claude', client_uri='https://claude.ai', scope='osfoundry:read',
                              software_id='x', contacts=['a@example.org'], grant_types=['authorization_code'])
        self.assertEqual(reply.status, 201)
        self.assertEqual(reply['cache-control'], 'no-store')
        found = reply.json
        self.assertNotIn('client_secret', found)
        self.assertIsInstance(found['client_id_issued_at'], int)
        for name, value in (('client_name', 'Claude'), ('client_uri', 'https://claude.ai'), ('scope', 'osfoundry:read'),
                            ('software_id', 'x'), ('contacts', ['a@example.org']), ('redirect_uris', [REDIRECT]),
                            ('grant_types', ['authorization_code']), ('response_types', ['code']),
                            ('token_endpoint_auth_method', 'none')):
            self.assertEqual(found[name], value, name)

    def test_defaults_stand_for_null_and_what_is_unknown_is_ignored(self):
        found = self.register(client_name=None, grant_types=None, response_types=None, scope=None, logo_uri=None,
                              token_endpoint_auth_method='client_secret_post', invented={'deep': [1]}).json
        self.assertNotIn(None, found.values())
        self.assertNotIn('invented', found)
        self.assertEqual(found['grant_types'], ['authorization_code', 'refresh_token'])
        self.assertEqual(found['token_endpoint_auth_method'], 'none')

    def test_redirect_uris_are_https_or_loopback_and_nothing_else(self):
        good = ['https://claude.ai/api/mcp/auth_callback', 'http://localhost:1/cb', 'http://[::1]/cb?x=1',
                'http://127.0.0.1/callback', 'https://example.org:8443/a', 'http://localhost']
        bad = ['http://example.org/cb', 'javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'cursor://cb',
               'https://example.org/cb#fragment', 'https://', '/callback', '', 7, None, 'https://user@example.org/cb',
               'http://127.0.0.1.example.org/cb', 'http://127.0.0.2/cb', 'http://localhost:99999/cb',
               'https://example.org/a b', 'https://example.org/' + 'a' * 2048, 'http://127.0.0.1\\@example.org/',
               'http://localhost@example.org/', 'http://[::1/cb', 'HTTP://example.org/cb']
        for uri in good:
            with self.subTest(good=uri):
                self.assertEqual(self.register(redirect_uris=[uri]).status, 201)
        for uri in bad:
            with self.subTest(bad=uri):
                reply = self.register(redirect_uris=[uri])
                self.assertEqual((reply.status, reply.json['error']), (400, 'invalid_redirect_uri'))

    def test_no_redirect_lies_where_a_cookie_of_ours_is_sent(self):
        """security.md 1: cookies ignore ports, so a callback under these paths would get them."""
        for path in ('/o/', '/o/abc/callback', '/o', '/external-assistant-authorize', '/external-assistant-authorize/x',
                     '/%6f/abc', '/x/../o/abc', '/./o/abc', '/O/abc'):
            with self.subTest(path=path):
                reply = self.register(redirect_uris=['http://127.0.0.1:9' + path])
                self.assertEqual((reply.status, reply.json['error']), (400, 'invalid_redirect_uri'))

    def test_at_most_ten_redirect_uris_and_at_least_one(self):
        many = [f'https://example.org/{n}' for n in range(11)]
        self.assertEqual(self.register(redirect_uris=many[:10]).status, 201)
        for uris in (many, [], None, 'https://example.org/', {}):
            self.assertEqual(self.register(redirect_uris=uris).json['error'], 'invalid_redirect_uri')

    def test_metadata_that_is_no_metadata_is_refused_by_name(self):
        for wrong in ({'client_name': 7}, {'client_name': 'x' * 121}, {'client_name': 'a\u202eb'}, {'client_name': ' '},
                      {'grant_types': ['implicit']}, {'grant_types': 'authorization_code'}, {'response_types': ['token']},
                      {'client_uri': 'javascript:alert(1)'}, {'logo_uri': 'x'}, {'scope': ['osfoundry:read']}):
            with self.subTest(wrong=wrong):
                reply = self.register(**wrong)
                self.assertEqual((reply.status, reply.json['error']), (400, 'invalid_client_metadata'))

    def test_a_body_that_is_no_object_of_json_is_refused(self):
        as_json = {'Content-Type': 'application/json'}
        for body in ('', '[]', 'null', '{', '[' * 100_000, '"\\ud800"', '{"redirect_uris": [' + '"x",' * 20_000):
            with self.subTest(body=body[:20]):
                reply = self.world.http('POST', REGISTER, as_json, body)
                self.assertEqual((reply.status, reply.json['error']), (400, 'invalid_client_metadata'))
        fine = json.dumps({'redirect_uris': [REDIRECT]})
        self.assertEqual(self.world.http('POST', REGISTER, {'Content-Type': 'text/plain'}, fine).status, 400)


class Room(unittest.TestCase):
    """security.md 5: /register is open, so its clients are capped and unused ones expire."""

    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)
        self.addCleanup(setattr, oauth, 'CLIENTS', oauth.CLIENTS)
        oauth.CLIENTS = 3

    def register(self):
        return self.world.post_json(REGISTER, {'redirect_uris': [REDIRECT]})

    def test_a_full_table_refuses_then_forgets_unused_clients_and_keeps_used_ones(self):
        used = Client(self.world)
        used.sign_in(Browser(self.world))
        self.assertEqual([self.register().status for _ in range(3)], [201, 201, 503])
        self.world.offset_s = oauth.UNUSED_WHEN_FULL_S + 1
        self.assertEqual(self.register().status, 201)
        self.assertEqual(self.world.rows('SELECT count(*) FROM oauth_clients'), [(2,)])
        self.assertEqual(len(self.world.rows('SELECT 1 FROM oauth_clients WHERE client_id = ?', used.client_id)), 1)

    def test_unused_clients_go_after_a_day_and_used_ones_after_ninety(self):
        used = Client(self.world)
        used.sign_in(Browser(self.world))
        unused = Client(self.world)
        self.world.offset_s = oauth.UNUSED_TTL_S + 1
        self.register()
        left = {row[0] for row in self.world.rows('SELECT client_id FROM oauth_clients')}
        self.assertIn(used.client_id, left)
        self.assertNotIn(unused.client_id, left)
        self.world.offset_s = oauth.IDLE_TTL_S + 60
        self.register()
        self.assertNotIn((used.client_id,), self.world.rows('SELECT client_id FROM oauth_clients'))


class Authorize(Signin):
    def setUp(self):
        self.client = Client(self.world)

    def get(self, **changed):
        return self.world.http('GET', self.client.authorize_path(**changed))

    def test_a_good_request_goes_on_to_the_consent_page_with_the_same_query(self):
        path = self.client.authorize_path()
        reply = self.world.http('GET', path)
        self.assertEqual(reply.status, 303)
        self.assertEqual(reply['location'], '/external-assistant-authorize?' + path.split('?')[1])

    def test_looking_changes_nothing_and_mints_nothing(self):
        before = self.dump()
        browser = Browser(self.world)
        opened = self.dump()
        for changed in ({}, {'scope': 'nonsense'}, {'client_id': 'unknown'}):
            self.get(**changed)
        browser.open_consent(self.client)
        self.assertEqual(self.dump(), opened)
        self.assertNotEqual(before, opened)              # the dump sees what a visit of the owner writes

    def test_a_wrong_client_or_redirect_gets_a_page_and_never_a_redirect(self):
        for changed in ({'client_id': 'client-unknown'}, {'client_id': None}, {'redirect_uri': None}, {'client_id': '\x00'},
                        {'redirect_uri': 'https://evil.example/callback'}, {'redirect_uri': REDIRECT + '/more'},
                        {'redirect_uri': REDIRECT + '?x=1'}, {'redirect_uri': 'http://localhost:5555/callback'},
                        {'redirect_uri': REDIRECT.upper()}, {'redirect_uri': 'http://127.0.0.1:5555\\@evil/callback'}):
            with self.subTest(changed=changed):
                reply = self.get(**changed)
                self.assertEqual((reply.status, reply['location']), (400, None))
                self.assertIn('text/html', reply['content-type'])

    def test_a_client_or_redirect_given_twice_gets_a_page_too(self):
        for name, value in (('client_id', self.client.client_id), ('redirect_uri', REDIRECT)):
            reply = self.world.http('GET', f'{self.client.authorize_path()}&{name}={quote(value)}')
            self.assertEqual((reply.status, reply['location']), (400, None))

    def test_only_the_port_of_a_loopback_redirect_may_differ(self):
        for registered, asked in (('http://127.0.0.1/callback', 'http://127.0.0.1:60123/callback'),
                                  ('http://[::1]:1/cb', 'http://[::1]:2/cb'), ('http://localhost:1/cb', 'http://localhost/cb')):
            self.assertTrue(oauth.redirect_matches(registered, asked), asked)
        for registered, asked in (('https://example.org/cb', 'https://example.org:444/cb'),
                                  ('http://127.0.0.1/cb', 'http://localhost/cb'), ('http://127.0.0.1/cb', 'http://127.0.0.1/cb/'),
                                  ('http://127.0.0.1/cb', 'http://127.0.0.1/cb?x'), ('http://127.0.0.1/cb', 'https://127.0.0.1/cb')):
            self.assertFalse(oauth.redirect_matches(registered, asked), asked)

    def test_every_later_error_goes_back_to_the_client_with_state_and_iss(self):
        for changed, error in (({'response_type': 'token'}, 'unsupported_response_type'), ({'response_type': None}, 'invalid_request'),
                               ({'code_challenge': None}, 'invalid_request'), ({'code_challenge': 'short'}, 'invalid_request'),
                               ({'code_challenge_method': 'plain'}, 'invalid_request'),
                               ({'code_challenge_method': None}, 'invalid_request'),
                               ({'scope': 'osfoundry:admin'}, 'invalid_scope'), ({'scope': ' '}, 'invalid_scope'),
                               ({'resource': 'https://elsewhere.example/mcp'}, 'invalid_target'),
                               ({'prompt': 'x' * 5000}, 'invalid_request')):
            with self.subTest(changed=changed):
                reply = self.get(**changed)
                self.assertEqual(reply.status, 303)
                self.assertTrue(reply['location'].startswith(REDIRECT + '?'))
                answer = reply.answer
                self.assertEqual((answer['error'], answer['state'], answer['iss']), (error, 's-1', self.world.base_url))
                self.assertNotIn('code', answer)

    def test_a_repeated_parameter_is_an_invalid_request(self):
        for name in ('scope', 'state', 'resource', 'code_challenge', 'anything'):
            path = f'{self.client.authorize_path()}&{name}=a&{name}=b'
            self.assertEqual(self.world.http('GET', path).answer['error'], 'invalid_request', name)

    def test_state_comes_back_to_the_byte(self):
        for state in ('a b+c&d=e#f', '%00%ff', 'ü京🚀', '"<script>', ' ', 'x' * 2000, '%0d%0aSet-Cookie: a=b'):
            reply = self.get(state=state, scope='nonsense')
            self.assertEqual(reply.answer['state'], state)
        raw = self.client.authorize_path(state=None, scope='nonsense') + '&state=%ff%fe%20%2B'
        self.assertIn('state=%FF%FE+%2B', self.world.http('GET', raw)['location'])
        self.assertNotIn('state', self.get(state=None, scope='nonsense').answer)

    def test_the_scope_given_at_registration_does_not_cap_what_authorize_may_ask(self):
        """modelcontextprotocol/python-sdk#2301"""
        client = Client(self.world, scope='osfoundry:read')
        self.assertIn('/external-assistant-authorize', self.world.http('GET', client.authorize_path())['location'])

    def test_who_asks_for_no_scope_gets_the_least(self):
        browser = Browser(self.world)
        code = browser.decide(self.client, scope=None).answer['code']
        self.assertEqual(self.client.redeem(code).json['scope'], 'osfoundry:read')

    def test_the_redirects_own_query_stays(self):
        client = Client(self.world, redirect_uris=['https://example.org/cb?keep=1'])
        path = client.authorize_path(redirect_uri='https://example.org/cb?keep=1', scope='nonsense')
        self.assertTrue(self.world.http('GET', path)['location'].startswith('https://example.org/cb?keep=1&error='))

    def test_a_thousand_parameters_are_no_request(self):
        query = urlencode([(f'p{n}', n) for n in range(1000)])
        self.assertEqual(self.world.http('GET', f'{AUTHORIZE}?{query}').status, 400)


if __name__ == '__main__':
    unittest.main()
