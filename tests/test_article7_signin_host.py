"""Article 7, the host's side: from the 401 to a token at servers of every manner, and what is kept of it."""
import base64
import contextlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

from tests.foreign_server import Foreign
from tests.signin_world import TOP, Browser, World

import host
import host_signin
import oauth
import runs_signin
from host_signin import SignInError

SUFFIX = '/.well-known/oauth-protected-resource'
SERVER = '/.well-known/oauth-authorization-server'


class Case(unittest.TestCase):
    def setUp(self):
        self.foreign = Foreign()
        self.foreign.__enter__()
        self.addCleanup(self.foreign.__exit__)

    def host(self, **options):
        return host.Host(self.foreign.url, host_signin.directly, **options)

    def refused(self, code, **options):
        with self.assertRaises(SignInError) as caught:
            self.host(**options).call('x', {})
        self.assertEqual(caught.exception.code, code)
        self.assertEqual(self.foreign.requests('/token'), [])
        return caught.exception

    def asked(self, number=-1):
        return list(self.foreign.codes.values())[number]


class Challenges(unittest.TestCase):
    def test_the_bearer_parameters_are_read_among_other_schemes(self):
        for header, expected in (('Bearer resource_metadata="https://a/b?c=d,e", error="invalid_token"',
                                  {'resource_metadata': 'https://a/b?c=d,e', 'error': 'invalid_token'}),
                                 ('Basic realm="x", Bearer scope="a b"', {'scope': 'a b'}),
                                 ('bearer Scope=a, Error = "q\\"uote"', {'scope': 'a', 'error': 'q"uote'}),
                                 ('Bearer scope="a", Basic scope="b"', {'scope': 'a'}), ('Basic realm="Bearer scope=a"', {}),
                                 ('Bearer', {}), ('', {}), ('Bearer a="1", a="2"', {'a': '1'})):
            with self.subTest(header=header):
                self.assertEqual(host_signin.challenge(header), expected)

    def test_of_a_hostile_header_no_more_is_read_than_a_header_may_have(self):
        for hostile in ('a="' * 100_000, '\\"' * 100_000, 'a=' * 100_000, '"' + '\\' * 100_000, 'a ' * 100_000):
            for begin in ('Bearer x="', 'Bearer '):
                host_signin.challenge(begin + hostile)         # and what is read of it makes no trouble
        self.assertEqual(host_signin.challenge('Bearer a="1",' + ' ' * 8192 + 'b="2"'), {'a': '1'})


class Addresses(Case):
    BAD = ('http://[x', 'http://localhost:99999/x', 'http://localhost:0/x', 'http://a..b/x', 'http://127.0.0.1:1/é')

    def test_an_address_that_nobody_can_ask_is_called_wrong_and_not_json(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = ['--no-browser', '--tokens', os.path.join(folder.name, 'tokens.json')]
        for bad in self.BAD:
            for run, words in ((runs_signin.main_connect, [bad]), (runs_signin.main_call, [bad, 'x', '{}'])):
                with self.subTest(bad=bad, words=words), contextlib.redirect_stderr(io.StringIO()) as said:
                    self.assertEqual(run([*words, *tokens]), 1)
                    self.assertIn('not an http address: ', said.getvalue())

    def said_of(self, *words, status):
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            run = {'connect': runs_signin.main_connect, 'call': runs_signin.main_call}[words[0]]
            self.assertEqual(run([*words[1:], '--no-browser']), status, said.getvalue())
        self.assertEqual(said.getvalue().count('\n'), 1, said.getvalue())
        return said.getvalue()

    def test_a_file_that_can_keep_no_tokens_is_named_before_a_person_signs_in_and_an_empty_one_can(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'tokens.json')
            for content in (b'[]', b'{"http://a": 3}', b'no JSON', b'\xff', b'[' * 100_000):
                with open(path, 'wb') as file:
                    file.write(content)
                with self.subTest(content=content[:20]):
                    said = self.said_of('connect', self.foreign.url, '--tokens', path, status=2)
                    self.assertIn(f'--tokens: {path} is no file of tokens', said)
            for wrong in (folder, os.path.join(folder, 'none', 'tokens.json'), os.path.join(path, 'tokens.json')):
                with self.subTest(wrong=wrong):
                    self.assertIn('--tokens: ', self.said_of('call', self.foreign.url, 'x', '{}', '--tokens', wrong,
                                                             status=2))
            with open(path, 'wb'):
                pass
            self.assertEqual(host.read_grants(path), {})
        self.assertEqual(self.foreign.seen, [])

    def test_arguments_that_are_no_json_or_no_object_are_told_apart(self):
        for text, words in (('{', 'arguments: no JSON: '), ('[]', 'arguments: one JSON object'),
                            ('3', 'arguments: one JSON object'), ('[' * 100_000, 'arguments: ')):
            with self.subTest(text=text[:20]), tempfile.TemporaryDirectory() as folder:
                tokens = os.path.join(folder, 'tokens.json')
                said = self.said_of('call', self.foreign.url, 'x', text, '--tokens', tokens, status=2)
                self.assertTrue(said.startswith('client.py: ' + words), said)

    def test_a_server_that_answers_without_what_a_handshake_needs_is_an_error_and_no_key_of_ours(self):
        for result in ({}, [], {'protocolVersion': 3}):
            answer = host.Answer(200, {}, {'result': result})
            with self.subTest(result=result), mock.patch.object(host.Host, 'request', return_value=answer):
                with self.assertRaisesRegex(host.HostError, 'without a protocolVersion'):
                    self.host().initialize()
                with self.assertRaisesRegex(host.HostError, 'without tools'):
                    self.host().list_tools()

    def test_one_in_the_401_or_in_a_servers_metadata_ends_the_sign_in_with_an_error_that_quotes_it(self):
        for bad in self.BAD:
            for document, name in ((self.foreign.resource, 'resource'), (self.foreign.metadata, 'issuer'),
                                   (self.foreign.metadata, 'authorization_endpoint'),
                                   (self.foreign.metadata, 'token_endpoint'),
                                   (self.foreign.metadata, 'registration_endpoint')):
                with self.subTest(bad=bad, name=name), mock.patch.dict(document, {name: bad}):
                    with self.assertRaisesRegex(SignInError, re.escape(bad)):
                        self.host().call('x', {})
            with self.subTest(bad=bad, name='authorization_servers'), \
                    mock.patch.dict(self.foreign.resource, authorization_servers=[bad]):
                self.assertRaises(SignInError, self.host().call, 'x', {})
            with self.subTest(bad=bad, name='challenge'):
                self.foreign.challenge = f'Bearer resource_metadata="{bad}"'
                self.assertRaises(SignInError, self.host().call, 'x', {})
                self.foreign.challenge = f'Bearer resource_metadata="{self.foreign.base}/meta"'


class Discovery(Case):
    def discovered(self):
        return [one[1] for one in self.foreign.seen if one[0] == 'GET' and 'authorize?' not in one[1]]

    def test_the_header_leads_there_in_two_round_trips_and_signing_in_takes_five(self):
        one = self.host(client={'client_id': 'known'})
        one.call('x', {})
        self.assertEqual(self.discovered(), ['/meta', SERVER])
        self.assertEqual([trip.status for trip in one.trips], [401, 200, 200, 302, 200, 200])

    def test_without_a_header_the_suffix_after_the_host_is_asked_then_the_root(self):
        self.foreign.challenge = ''
        self.foreign.paths[SUFFIX] = self.foreign.resource
        self.host().call('x', {})
        self.assertEqual(self.discovered(), [SUFFIX + '/mcp', SUFFIX, SERVER])

    def test_any_4xx_falls_through_and_a_5xx_does_not(self):
        self.foreign.challenge = ''
        self.foreign.paths[SUFFIX + '/mcp'] = 403
        self.foreign.paths[SUFFIX] = self.foreign.resource
        self.host().call('x', {})
        self.foreign.paths[SUFFIX + '/mcp'] = 500
        self.foreign.paths.pop('/meta')
        with self.assertRaises(SignInError):
            self.host().call('x', {})

    def test_a_resource_that_is_not_the_address_called_is_refused(self):
        for other in ('https://evil.example/mcp', self.foreign.base + '/other', None, 7, self.foreign.url + '/',
                      self.foreign.base):
            self.foreign.resource['resource'] = other
            self.refused('resource')

    def test_only_the_document_at_the_root_may_speak_for_the_whole_origin(self):
        self.foreign.challenge, self.foreign.paths[SUFFIX] = '', self.foreign.resource
        self.foreign.resource['resource'] = self.foreign.base
        self.host().call('x', {})
        self.assertEqual(self.asked()['resource'], self.foreign.base)
        self.foreign.paths[SUFFIX + '/mcp'] = self.foreign.paths.pop(SUFFIX)
        self.foreign.seen.clear()
        self.refused('resource')

    def test_the_authorization_servers_metadata_is_looked_for_in_three_places(self):
        issuer = self.foreign.base + '/tenant'
        self.foreign.resource['authorization_servers'] = [issuer]
        self.foreign.metadata['issuer'] = issuer
        places = [SERVER + '/tenant', '/.well-known/openid-configuration/tenant', '/tenant/.well-known/openid-configuration']
        for number, place in enumerate(places):
            with self.subTest(place=place):
                self.foreign.paths = {'/meta': self.foreign.resource, place: self.foreign.metadata}
                self.foreign.seen.clear()
                self.host().call('x', {})
                self.assertEqual(self.discovered(), ['/meta'] + places[:number + 1])

    def test_the_issuer_must_be_identical_to_the_byte(self):
        for issuer in (self.foreign.base + '/', self.foreign.base.replace('127.0.0.1', 'localhost'), None):
            self.foreign.metadata['issuer'] = issuer
            self.refused('issuer')

    def test_a_server_without_s256_is_refused(self):
        for offered in (['plain'], [], None):
            self.foreign.metadata['code_challenge_methods_supported'] = offered
            self.refused('pkce')

    def test_codes_and_tokens_go_over_https_or_stay_on_this_machine(self):
        for name in ('authorization_endpoint', 'token_endpoint'):
            with mock.patch.dict(self.foreign.metadata, {name: 'http://example.org/x'}):
                self.refused('discovery')
        self.foreign.resource['authorization_servers'] = ['http://example.org']
        self.refused('discovery')

    def test_a_document_that_is_no_json_object_is_refused(self):
        for wrong in ([1], b'{', b'[' * 100_000, b'\xff'):
            self.foreign.paths['/meta'] = wrong
            self.refused('discovery')

    def test_redirects_and_proxies_are_not_followed(self):
        """security.md 6: urllib would carry Authorization across hosts."""
        self.foreign.answer_call = lambda message: (307, {'Location': self.foreign.base + '/stolen'}, {})
        with mock.patch.dict(os.environ, {'http_proxy': 'http://127.0.0.1:1', 'HTTP_PROXY': 'http://127.0.0.1:1'}):
            answer = self.host(client={'client_id': 'known'}).call('x', {})
        self.assertEqual(answer.status, 307)
        self.assertEqual(self.foreign.requests('/stolen'), [])


class Asking(Case):
    def test_scope_is_the_challenges_else_what_the_resource_supports_else_left_out(self):
        self.foreign.challenge += ', scope="c"'
        self.host().call('x', {})
        self.assertEqual(self.asked()['scope'], 'c')
        self.foreign.challenge = self.foreign.challenge.replace(', scope="c"', '')
        self.host().call('x', {})
        self.assertEqual(self.asked()['scope'], 'a b')
        self.foreign.resource.pop('scopes_supported')
        self.host().call('x', {})
        self.assertNotIn('scope', self.asked())

    def test_state_s256_and_resource_are_on_both_legs(self):
        self.host().call('x', {})
        self.host().call('x', {})
        first, second = self.asked(0), self.asked(1)
        self.assertEqual((first['code_challenge_method'], len(first['code_challenge'])), ('S256', 43))
        self.assertNotEqual(first['state'], second['state'])
        self.assertNotEqual(first['code_challenge'], second['code_challenge'])
        form = self.foreign.requests('/token')[0][3]
        self.assertEqual((first['resource'], form['resource']), (self.foreign.url, self.foreign.url))
        self.assertEqual(form['redirect_uri'], first['redirect_uri'])

    def test_an_answer_to_another_sign_in_is_refused(self):
        self.foreign.callback = {'state': 'another'}
        self.refused('state')
        self.foreign.callback = {'state': None}
        self.refused('state')

    def test_the_table_of_iss(self):
        """RFC 9207: advertised and there, compare; advertised and missing, refuse; not advertised, compare if there."""
        base = self.foreign.base
        for advertised, iss, good in ((True, base, True), (True, 'https://evil.example', False), (True, None, False),
                                      (False, None, True), (False, base, True), (False, 'https://evil.example', False),
                                      (True, base + '/', False)):
            with self.subTest(advertised=advertised, iss=iss):
                self.foreign.seen.clear()
                self.foreign.metadata['authorization_response_iss_parameter_supported'] = advertised
                self.foreign.callback = {'iss': iss}
                if good:
                    self.assertEqual(self.host().call('x', {}).status, 200)
                else:
                    self.refused('iss')

    def test_iss_is_looked_at_before_an_error_is_believed(self):
        self.foreign.callback = {'iss': 'https://evil.example', 'error': 'access_denied', 'code': None}
        self.refused('iss')
        self.foreign.callback = {'error': 'access_denied', 'code': None}
        self.refused('access_denied')

    def test_the_token_endpoint_is_told_who_calls_as_its_metadata_say(self):
        self.foreign.secret = 'geh/eim +'
        for offered, expected in ((['none'], 'none'), (['client_secret_post'], 'post'), (['client_secret_basic'], 'basic'),
                                  (None, 'basic')):
            with self.subTest(offered=offered):
                self.foreign.metadata['token_endpoint_auth_methods_supported'] = offered
                self.host().call('x', {})
                _, _, headers, form = self.foreign.requests('/token')[-1]
                pair = f'client-{self.foreign.registrations}:geh%2Feim%20%2B'.encode()
                basic = 'Basic ' + base64.b64encode(pair).decode()
                self.assertEqual((headers.get('authorization'), form.get('client_secret')),
                                 {'none': (None, None), 'post': (None, 'geh/eim +'), 'basic': (basic, None)}[expected])

    def test_a_token_of_another_type_is_refused(self):
        self.foreign.token_extra = {'token_type': 'mac'}
        with self.assertRaises(SignInError):
            self.host().call('x', {})

    def test_a_client_by_document_registers_nowhere(self):
        self.foreign.metadata['client_id_metadata_document_supported'] = True
        self.host(document='https://example.org/client.json').call('x', {})
        self.assertEqual((self.asked()['client_id'], self.foreign.registrations), ('https://example.org/client.json', 0))


class Again(Case):
    def test_a_known_client_is_not_registered_again_but_at_another_server_it_is(self):
        one = self.host()
        one.call('x', {})
        good, self.foreign.good = one.access_token, lambda token: token not in (None, good)
        one.call('x', {})
        self.assertEqual((self.foreign.registrations, len(self.foreign.codes)), (1, 2))
        with Foreign() as other:
            good = one.access_token
            self.foreign.resource['authorization_servers'] = [other.base]
            one.call('x', {})
            self.assertEqual((self.foreign.registrations, other.registrations), (1, 1))
            self.assertEqual([query['client_id'] for query in other.codes.values()], ['client-1'])

    def test_a_missing_scope_is_asked_for_together_with_what_was_granted(self):
        self.foreign.token_extra = {'scope': 'a'}
        needs = f'Bearer error="insufficient_scope", scope="c", resource_metadata="{self.foreign.base}/meta"'
        self.foreign.answer_call = lambda message: (403, {'WWW-Authenticate': needs}, {})
        one = self.host(scope='a')
        one.call_once('x', {})
        one.sign_in({'resource_metadata': self.foreign.base + '/meta'})
        one.scope = None
        answer = one.call('x', {})
        self.assertEqual((answer.status, answer.refused), (403, 'insufficient_scope'))
        self.assertEqual([query['scope'] for query in self.foreign.codes.values()], ['a', 'a c', 'a c', 'a c'])

    def test_a_server_that_is_never_content_is_asked_three_times_at_most(self):
        self.foreign.good = lambda token: False
        self.assertEqual(self.host().call('x', {}).status, 401)
        self.assertEqual(len(self.foreign.codes), 3)

    def test_without_a_door_a_401_is_an_answer(self):
        self.assertEqual(host.Host(self.foreign.url).call('x', {}).refused, 'invalid_token')

    def test_a_refresh_token_that_is_not_replaced_is_kept(self):
        self.foreign.token_extra = {'refresh_token': 'r-1', 'scope': 'a'}
        one = self.host()
        one.call('x', {})
        self.foreign.token_extra = {}
        self.assertTrue(one.refresh(one.access_token))
        self.assertEqual(one.grant['tokens']['refresh_token'], 'r-1')

    def test_a_token_endpoint_that_is_down_costs_no_refresh_token(self):
        self.foreign.token_extra = {'refresh_token': 'r-1'}
        one = self.host()
        one.call('x', {})
        self.foreign.token = lambda form: (503, {}, {'error': 'temporarily_unavailable'})
        with self.assertRaises(SignInError):
            one.refresh(one.access_token)
        self.assertEqual(one.grant['tokens']['refresh_token'], 'r-1')
        self.foreign.token = lambda form: (400, {}, {'error': 'invalid_grant'})
        self.assertFalse(one.refresh(one.access_token))


class Streams(Case):
    def stream(self, *events):
        return (200, {'Content-Type': 'text/event-stream'}, '\n\n'.join(events).encode() + b'\n\n')

    def test_an_answer_may_come_as_an_event_stream_behind_comments_notices_and_split_data(self):
        self.foreign.answer_call = lambda message: self.stream(
            ': hello', 'data: {"jsonrpc": "2.0", "method": "notifications/progress"}', 'event: x\nid: 1',
            f'data: {{"jsonrpc": "2.0",\ndata: "id": {message["id"]}, "result": {{"content": []}}}}')
        self.assertEqual(self.host().call('x', {}).result, {'content': []})

    def test_what_the_server_asks_meanwhile_is_answered(self):
        def answer(message):
            if 'method' not in message:
                return 202, {}, {}
            return self.stream('data: {"jsonrpc": "2.0", "id": "s", "method": "ping"}',
                               'data: {"jsonrpc": "2.0", "id": "t", "method": "sampling/createMessage"}',
                               f'data: {{"jsonrpc": "2.0", "id": {message["id"]}, "result": {{}}}}')
        self.foreign.answer_call = answer
        self.assertEqual(self.host().call('x', {}).result, {})
        replies = {one[3]['id']: one[3] for one in self.foreign.requests('/mcp') if 'method' not in one[3]}
        self.assertEqual(replies['s']['result'], {})
        self.assertEqual(replies['t']['error']['code'], -32601)

    def test_a_stream_cut_before_its_answer_is_taken_up_where_it_was(self):
        def answer(message):
            if not message:                               # the GET
                return self.stream('id: 8\ndata: {"jsonrpc": "2.0", "id": 2, "result": {"late": true}}')
            return self.stream('id: 7\nretry: 1\ndata:')
        self.foreign.answer_call = answer
        self.assertEqual(self.host().call('x', {}).result, {'late': True})
        method, _, headers, _ = self.foreign.requests('/mcp')[-1]
        self.assertEqual((method, headers['last-event-id']), ('GET', '7'))


class Kept(unittest.TestCase):
    """The tokens file, with a server of our own and a person's browser."""

    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)
        self.browser = Browser(self.world)
        self.path = os.path.join(tempfile.mkdtemp(dir=self.world.folder), 'tokens.json')

    def host(self):
        return host.Host(self.world.running.url, self.browser.door, self.path)

    def test_tokens_lie_in_a_file_of_mode_600_and_serve_the_next_process(self):
        os.umask(os.umask(0o022))
        self.host().call('list_granted_resources', {})
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        again = host.Host(self.world.running.url, None, self.path)
        self.assertEqual(again.call('list_granted_resources', {}).status, 200)
        self.assertEqual(len(again.trips), 1)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.path))), ['tokens.json', 'tokens.json.lock'])

    def test_the_lock_beside_the_tokens_is_of_mode_600_too_whatever_the_umask(self):
        self.addCleanup(os.umask, os.umask(0))
        self.host().call('list_granted_resources', {})
        for name in os.listdir(os.path.dirname(self.path)):
            mode = stat.S_IMODE(os.stat(os.path.join(os.path.dirname(self.path), name)).st_mode)
            self.assertEqual((name, mode), (name, 0o600))

    def test_an_expired_token_is_refreshed_without_a_person(self):
        self.host().call('list_granted_resources', {})
        self.world.offset_s = 3601
        again = host.Host(self.world.running.url, None, self.path)
        self.assertEqual(again.call('list_granted_resources', {}).status, 200)
        self.assertEqual([trip.status for trip in again.trips], [401, 200, 200])

    def test_three_processes_that_find_the_token_expired_refresh_it_once(self):
        self.host().call('list_granted_resources', {})
        self.world.offset_s = 3601
        call = [sys.executable, os.path.join(TOP, 'client.py'), 'call', self.world.running.url, '--no-browser',
                '--tokens', self.path, 'list_granted_resources', '{}']
        running = [subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
                   for _ in range(3)]
        outcomes = [(one.communicate(), one.returncode) for one in running]
        self.assertEqual([status for _, status in outcomes], [0] * 3, outcomes)
        self.assertEqual(self.world.rows('SELECT count(*) FROM oauth_refresh'), [(2,)])

    def test_a_refresh_under_way_in_another_process_is_waited_for_and_its_token_taken(self):
        """The other process is this test: it holds the lock, refreshes, writes the file, and lets go."""
        first = self.host()
        first.call('list_granted_resources', {})
        self.world.offset_s = 3601
        second, asked, refreshing = host.Host(self.world.running.url, None, self.path), threading.Event(), threading.Event()
        handle, answers = self.world.running.wire.handle, []

        def watched(request):
            (refreshing if request.path.endswith('/token') else asked).set()
            return handle(request)
        with host.locked(self.path):
            self.world.running.wire.handle = watched
            thread = threading.Thread(target=lambda: answers.append(second.call('list_granted_resources', {})))
            thread.start()
            asked.wait()
            self.assertFalse(refreshing.wait(0.5), 'it refreshed while another process did')
            form = {'grant_type': 'refresh_token', 'refresh_token': first.grant['tokens']['refresh_token']}
            tokens = host_signin.ask_for_tokens(first.grant['server'], first.grant['client'], form, [])
            host.write_grants(self.path, {self.world.running.url: dict(first.grant, tokens=tokens)})
        thread.join()
        self.assertIsNone(answers[0].refused)
        self.assertEqual(second.access_token, tokens['access_token'])
        self.assertEqual(self.world.rows('SELECT count(*) FROM oauth_refresh'), [(2,)])

    def test_a_step_up_through_the_consent_page_gets_the_missing_scope(self):
        one = self.host()
        one.scope = 'osfoundry:read'
        one.call('list_granted_resources', {})
        one.scope = None
        self.assertEqual(one.grant['scope'], 'osfoundry:read')
        edit = {'note_id': 'n', 'tab_id': 't', 'operation': 'replace_text', 'text': 'x',
                'expected_version': '2026-11-08T09:30:00.000042Z', 'idempotency_key': 'k' * 8}
        self.assertEqual(one.call_once('edit_note_tab', edit).refused, 'insufficient_scope')
        self.assertEqual(one.call('edit_note_tab', edit).refused, 'not_found')
        self.assertEqual(one.grant['scope'], 'osfoundry:read osfoundry:write')


class Commands(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)
        self.tokens = os.path.join(self.world.folder, 'tokens.json')

    def client(self, *words, **options):
        return subprocess.Popen([sys.executable, os.path.join(TOP, 'client.py'), *words], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def connect(self):
        running = self.client('connect', self.world.running.url, '--no-browser', '--tokens', self.tokens)
        link = next(line.strip() for line in running.stderr if line.strip().startswith('http'))
        browser = Browser(self.world)
        with browser.door([]) as (_, visit):
            landing = visit(link)
        at = host_signin.fetch('GET', landing, {})
        self.assertIn(b'Connected', at.body)
        return running.communicate()[0], running.returncode

    def test_connect_prints_a_link_waits_for_the_browser_and_keeps_the_token(self):
        said, status = self.connect()
        self.assertEqual(status, 0)
        self.assertIn('osfoundry 0.1.0', said)
        self.assertIn('connected for osfoundry:read osfoundry:write osfoundry:run osfoundry:models', said)

    def test_call_asks_before_what_is_not_read_only_and_prints_the_line(self):
        self.connect()
        read = self.client('call', self.world.running.url, 'list_granted_resources', '{}', '--tokens', self.tokens)
        said, warned = read.communicate()
        self.assertEqual((read.returncode, warned), (0, ''))
        self.assertEqual(json.loads(said)['projects'], [])
        edit = ['call', self.world.running.url, 'edit_note_tab', json.dumps(
            {'note_id': 'n\x1b[2J', 'tab_id': 't', 'operation': 'replace_text', 'text': 'x', 'idempotency_key': 'k' * 8,
             'expected_version': '2026-11-08T09:30:00.000042Z'}), '--tokens', self.tokens]
        unasked = self.client(*edit)
        _, warned = unasked.communicate()
        self.assertEqual(unasked.returncode, 1)
        self.assertIn('edit_note_tab {"note_id"', warned)
        self.assertIn('nobody here to ask', warned)
        self.assertNotIn('\x1b', warned)
        allowed = self.client(*edit, '--yes')
        said, _ = allowed.communicate()
        self.assertEqual((allowed.returncode, json.loads(said)['error']), (1, 'not_found'))

    def test_words_from_outside_cannot_rewrite_the_terminal(self):
        self.assertEqual(runs_signin.shown('a\x1b[2J\x9b\u202e\r\x7fb\nc é京'), 'a\\x1b[2J\\x9b\\u202e\\r\\x7fb\nc é京')

    def test_what_is_not_marked_read_only_needs_consent(self):
        for annotations, asks in (({'readOnlyHint': True}, False), ({'readOnlyHint': False}, True), ({}, True), (None, True),
                                  ({'readOnlyHint': 'yes'}, True)):
            self.assertEqual(runs_signin.needs_consent({'name': 'x', 'annotations': annotations}), asks)

    def test_wrong_usage_is_2_and_a_server_that_is_not_there_is_1_without_a_traceback(self):
        for words, status in ((('connect',), 2), (('call', self.world.running.url, 'x', '[1]'), 2),
                              (('call', self.world.running.url, 'x', '{'), 2), (('connect', 'http://127.0.0.1:1/mcp'), 1),
                              (('connect', 'file:///etc/passwd'), 1), (('connect', 'http://localhost:99999/x'), 1), (('connect', self.world.base_url + '/nothing'), 1),
                              (('call', self.world.running.url, 'no_such_tool', '{}'), 1)):
            with self.subTest(words=words):
                verb = {'connect': runs_signin.main_connect, 'call': runs_signin.main_call}[words[0]]
                said = io.StringIO()
                with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                    try:
                        returned = verb([*words[1:], '--no-browser', '--tokens', self.tokens])
                    except SystemExit as ended:
                        returned = ended.code
                self.assertEqual(returned, status, said.getvalue())

    def test_the_listener_takes_only_its_own_callback(self):
        told, found = threading.Event(), []
        with host_signin.in_browser(open_it=False, say=lambda line: told.set())([]) as (redirect_uri, visit):
            self.assertEqual(host_signin.fetch('GET', redirect_uri + '?state=right&code=early', {}).status, 404)
            thread = threading.Thread(target=lambda: found.append(visit('http://127.0.0.1/authorize?state=right')))
            thread.start()
            told.wait()
            for path in ('?state=wrong&code=evil', '?code=evil', '/other?state=right', ''):
                self.assertEqual(host_signin.fetch('GET', redirect_uri + path, {}).status, 404)
            self.assertEqual(host_signin.fetch('GET', redirect_uri + '?state=right&code=c', {}).status, 200)
            thread.join()
        self.assertEqual(found, ['/callback?state=right&code=c'])

    def test_the_browser_is_only_ever_sent_to_http_and_https(self):
        with mock.patch('webbrowser.open') as opened, mock.patch.object(host_signin, 'PERSON_TIMEOUT_S', 0):
            for url, times in (('file:///etc/passwd?state=x', 0), ('https://example.org/?state=x', 1)):
                with host_signin.in_browser(say=lambda line: None)([]) as (_, visit):
                    with self.assertRaises(SignInError):
                        visit(url)
                self.assertEqual(opened.call_count, times)


class FiveRoundTrips(unittest.TestCase):
    def test_from_the_401_to_a_token_there_are_five_and_a_client_nobody_registered_makes_one_more(self):
        world = World(demo=True, self_consent=True)
        self.addCleanup(world.close)
        one = host.Host(world.running.url, host_signin.directly, client={'client_id': oauth.DEMO_CLIENT})
        self.assertIsNone(one.call('list_granted_resources', {}).refused)
        self.assertEqual(len(one.trips), 5 + 1)
        person = host.Host(world.running.url, Browser(world).door)
        person.call('list_granted_resources', {})
        self.assertEqual(len(person.trips), 4 + 1 + 1)          # 401, two documents, register, token; and the call


if __name__ == '__main__':
    unittest.main()
