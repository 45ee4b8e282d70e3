"""The endpoint's gates, each with its code and in their order; initialize, tools/list, tools/call as article 7 prints them."""
import contextlib
import io
import json
import unittest

from tests.wire_world import READ_A, Served, Talk, message, raw, rpc

import access
import mcp
import server

CALL = message('tools/call', {'name': READ_A[0], 'arguments': READ_A[1]})
MODERN = 'MCP-Protocol-Version: 2026-07-28'


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.addClassCleanup(cls.served.close)
        cls.token = cls.served.token

    def ask(self, data, **how):
        with Talk(self.served.port) as talk:
            return talk.ask(data, **how)

    def result(self, method, params=None, *headers):
        answer = self.ask(rpc(message(method, params), *headers, token=self.token))
        self.assertEqual(answer.status, 200, answer)
        return answer.json['result']

    def assertProtocolError(self, answer, status, code, message_id=None):
        self.assertEqual((answer.status, answer.json['error']['code'], answer.json['id']), (status, code, message_id), answer)


class Order(WithServer):
    def test_each_gate_stands_before_the_next_one(self):
        """A request with every fault at once; each step heals the fault that was answered."""
        no_token = message('tools/call', {'name': 'no_such_tool', 'arguments': {}})
        get = [f'Authorization: Bearer {"x" * 43}', 'Content-Type: text/plain', 'Accept: text/html']
        steps = [
            (411, raw('PUT', body=b'\xff', headers=['Origin: http://evil.example', 'Transfer-Encoding: chunked', *get], host='evil.example')),
            (421, raw('PUT', body=b'\xff', headers=['Origin: http://evil.example', *get], host='evil.example')),
            (403, raw('PUT', body=b'\xff', headers=['Origin: http://evil.example', *get])),
            (405, raw('PUT', body=b'\xff', headers=get)),
            (415, raw('POST', body=b'\xff', headers=get)),
            (406, raw('POST', body=b'\xff', headers=['Content-Type: application/json', 'Accept: text/html'])),
            (-32700, rpc(b'\xff')),
            (-32600, rpc(b'[]')),
            (-32600, rpc(b'{"jsonrpc":"2.0","id":null,"method":"nope"}', 'MCP-Protocol-Version: 1999-01-01')),
            (-32022, rpc(b'{"jsonrpc":"2.0","id":1,"method":"nope"}', 'MCP-Protocol-Version: 1999-01-01')),
            (-32601, rpc(b'{"jsonrpc":"2.0","id":1,"method":"nope"}', token='x')),
            (401, rpc(no_token, token='x' * 43)),
            (-32602, rpc(no_token, token=self.token)),
        ]
        for expected, data in steps:
            with self.subTest(expected=expected):
                answer = self.ask(data)
                code = answer.json['error']['code'] if expected < 0 else answer.status
                self.assertEqual(code, expected, answer)

    def test_a_bad_token_is_401_also_when_a_scope_is_missing_or_the_tool_is_unknown_or_the_arguments_are_bad(self):
        for name, arguments in (('edit_knowledge_article', {}), ('no_such_tool', {}), READ_A):
            answer = self.ask(rpc(message('tools/call', {'name': name, 'arguments': arguments}), token='x' * 43))
            self.assertEqual(answer.status, 401)

    def test_a_missing_scope_comes_before_bad_arguments(self):
        token = self.served.new_token(['osfoundry:read'])
        answer = self.ask(rpc(message('tools/call', {'name': 'edit_knowledge_article', 'arguments': {}}), token=token))
        self.assertEqual(answer.status, 403)

    def test_no_answer_of_the_endpoint_is_kept_by_anybody_on_the_way(self):
        for request in (rpc(message('ping')), rpc(b'x'), rpc(message('tools/call', {'name': 'read_knowledge_article'})),
                        raw('GET', mcp.ENDPOINT)):
            self.assertEqual(self.ask(request).headers['cache-control'], 'no-store')


class Names(WithServer):
    def test_a_host_that_is_not_ours_is_421_before_every_route(self):
        port = self.served.port
        for host in ('evil.example', f'evil.example:{port}', '127.0.0.1.evil.example', 'localhost.', '[::2]', '127.0.0.1:x',
                     'localhost:80:80', '', '0.0.0.0', '[::1', '127.1', '127.0.0.1@evil.example'):
            for path in (mcp.ENDPOINT, '/o/x', '/owner/revoke', '/.well-known/oauth-authorization-server', '/nowhere'):
                with self.subTest(host=host, path=path):
                    self.assertEqual(self.ask(raw(path=path, host=host)).status, 421)

    def test_our_own_names_are_answered(self):
        port = self.served.port
        for host in (f'127.0.0.1:{port}', f'localhost:{port}', f'[::1]:{port}', 'LOCALHOST', '127.0.0.1', f'localhost:{port + 1}'):
            with self.subTest(host=host):
                self.assertEqual(self.ask(rpc(message('ping'), host=host)).status, 200)

    def test_a_foreign_origin_is_403_before_every_route_and_an_absent_one_is_fine(self):
        port = self.served.port
        for origin in ('http://evil.example', 'null', f'http://127.0.0.1.evil.example:{port}', f'http://localhost:{port}/',
                       f'http://localhost:{port}@evil.example', 'file://', 'javascript:x', '', 'http://[', 'localhost',
                       'chrome-extension://abc'):
            for path in (mcp.ENDPOINT, '/owner/revoke', '/nowhere'):
                with self.subTest(origin=origin, path=path):
                    self.assertEqual(self.ask(raw(path=path, headers=(f'Origin: {origin}',))).status, 403)
        for origin in (f'http://127.0.0.1:{port}', f'http://localhost:{port}', 'http://localhost:6274'):
            with self.subTest(origin=origin):
                self.assertEqual(self.ask(rpc(message('ping'), f'Origin: {origin}')).status, 200)

    def test_a_page_on_another_port_reaches_the_shared_routes_and_never_the_owners(self):
        answer = self.ask(raw(path='/owner/revoke', headers=('Origin: http://localhost:6274',)))
        self.assertEqual(answer.status, 403)

    def test_null_passes_only_outside_the_shared_routes_and_only_when_the_browser_vouches_for_it(self):
        for path, site, passes in (('/owner/revoke', 'same-origin', True), ('/owner/revoke', 'cross-site', False),
                                   (mcp.ENDPOINT, 'same-origin', False)):
            with self.subTest(path=path, site=site):
                answer = self.ask(raw(path=path, headers=('Origin: null', f'Sec-Fetch-Site: {site}')))
                self.assertEqual(answer.status != 403, passes, answer)

    def test_a_browser_may_read_the_refusals_of_the_endpoint_too(self):
        origin = 'http://localhost:6274'
        for data, status in ((rpc(CALL, f'Origin: {origin}'), 401), (rpc(b'', f'Origin: {origin}'), 400)):
            answer = self.ask(data)
            self.assertEqual((answer.status, answer.headers['access-control-allow-origin'], answer.headers['vary'],
                              answer.headers['access-control-expose-headers']), (status, origin, 'Origin', 'WWW-Authenticate'))

    def test_options_is_204_without_a_challenge_and_with_cors_for_an_allowed_origin_only(self):
        answer = self.ask(raw('OPTIONS', headers=('Origin: http://localhost:6274', 'Access-Control-Request-Method: POST')))
        self.assertEqual((answer.status, answer.headers['access-control-allow-methods']), (204, 'POST'))
        self.assertIn('Authorization', answer.headers['access-control-allow-headers'])
        self.assertNotIn('access-control-allow-origin', self.ask(raw('OPTIONS')).headers)
        self.assertEqual(self.ask(raw('OPTIONS', headers=('Origin: http://evil.example',))).status, 403)

    def test_every_shared_route_may_be_read_by_an_allowed_page_and_names_it_alone(self):
        for path in server.SHARED:
            for method in ('GET', 'POST'):
                answer = self.ask(raw(method, path, b'{}', headers=('Origin: http://localhost:6274',)))
                self.assertEqual(answer.headers['access-control-allow-origin'], 'http://localhost:6274', (path, answer))
                self.assertNotIn('access-control-allow-origin', self.ask(raw(method, path, b'{}')).headers)

    def test_authorize_shares_nothing_with_other_pages(self):
        port = self.served.port
        answer = self.ask(raw('GET', '/api/v1/external-oauth/authorize', headers=(f'Origin: http://127.0.0.1:{port}',)))
        self.assertNotIn('access-control-allow-origin', answer.headers)


class SixthVersion(unittest.TestCase):
    def test_on_a_loopback_address_of_ipv6_the_names_have_their_brackets(self):
        try:
            served = Served(host='::1')
        except OSError as error:
            self.skipTest(f'no IPv6 here: {error}')
        self.addCleanup(served.close)
        self.assertEqual(served.running.config.base_url, f'http://[::1]:{served.port}')
        with Talk(served.port, '::1') as talk:
            for host in (f'[::1]:{served.port}', f'localhost:{served.port}'):
                self.assertEqual(talk.ask(rpc(message('ping'), f'Origin: http://[::1]:{served.port}', host=host)).status, 200)


class Routes(WithServer):
    def test_other_methods_are_405_with_allow_and_without_a_challenge(self):
        for method in ('GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'TRACE'):
            with self.subTest(method=method):
                answer = self.ask(raw(method, body=b'x'), head_only=method == 'HEAD')
                self.assertEqual((answer.status, answer.headers['allow']), (405, 'POST'))
                self.assertNotIn('www-authenticate', answer.headers)

    def test_an_unknown_address_is_404_with_a_json_body(self):
        for path in ('/', '/nowhere', mcp.ENDPOINT + '/', mcp.ENDPOINT + '/.well-known/oauth-protected-resource', '/%2e%2e/etc',
                     '/.well-known/anything', '//api/v1/external-mcp', '/API/v1/external-mcp'):
            with self.subTest(path=path):
                answer = self.ask(raw('GET', path))
                self.assertEqual((answer.status, answer.json['error']), (404, 'not_found'))

    def test_a_path_that_ends_in_a_star_takes_what_is_below_and_an_exact_one_comes_first(self):
        one, two, three = object(), object(), object()
        table = {('GET', '/a/*'): one, ('GET', '/a/b'): two, ('POST', '/a/b/c/*'): three}
        for path, found in (('/a/x', {'GET': one}), ('/a/x/y', {'GET': one}), ('/a/b', {'GET': two}), ('/a', {}), ('/a/', {'GET': one}),
                            ('/a/b/c/d', {'POST': three}), ('/b', {})):
            with self.subTest(path=path):
                self.assertEqual(server.methods_of(table, path), found)

    def test_no_two_files_claim_one_route(self):
        claimed = [key for table in server.TABLES for key in table] + [('POST', mcp.ENDPOINT)]
        self.assertEqual(len(claimed), len(set(claimed)))


class Media(WithServer):
    def test_only_json_is_taken(self):
        for kind in ('text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'multipart/form-data', ''):
            with self.subTest(kind=kind):
                self.assertEqual(self.ask(raw(body=message('ping'), headers=(f'Content-Type: {kind}',))).status, 415)
        self.assertEqual(self.ask(raw(body=message('ping'))).status, 415)
        self.assertEqual(self.ask(raw(body=message('ping'), headers=('Content-Type: Application/JSON; charset=utf-8',))).status, 200)

    def test_whoever_admits_json_in_any_way_is_answered_an_event_stream_is_not_demanded(self):
        for accept, status in (('application/json', 200), ('*/*', 200), ('application/*;q=0.1', 200), (None, 200),
                               ('text/event-stream, application/json', 200), ('text/event-stream', 406), ('text/html', 406),
                               ('application/json;q=0', 406), ('application/json; q=0.0, */*', 406), ('', 406),
                               ('text/html, */*;q=0.8', 200)):
            with self.subTest(accept=accept):
                lines = ['Content-Type: application/json'] + ([f'Accept: {accept}'] if accept is not None else [])
                self.assertEqual(self.ask(raw(body=message('ping'), headers=lines)).status, status)


class Messages(WithServer):
    def test_what_is_not_json_or_not_the_same_json_to_every_reader_is_a_parse_error(self):
        for body in (b'', b'{', b'\xff\xfe', b'{"a":"\xc3\x28"}', b'\xef\xbb\xbf{}', b'{"jsonrpc":"2.0","id":NaN}',
                     b'{"id":1,"id":2,"jsonrpc":"2.0","method":"ping"}', b'{"a":-Infinity}', b'{"a":1e999}', b'{"a":"\\ud800"}',
                     b'{"a":' + b'9' * 5000 + b'}', b'[' * 100_000, b'{"a":' * 100_000, b'{"a":"\xed\xa0\x80"}', b"{'a':1}", b'{}x',
                     b'{"a":01}', b'{"a":"\x01"}'):
            with self.subTest(body=body[:40]):
                self.assertProtocolError(self.ask(rpc(body)), 400, -32700)

    def test_what_is_json_but_no_request_is_invalid(self):
        for body in (b'[]', b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b'1', b'"ping"', b'null', b'{}', b'true',
                     b'{"jsonrpc":"1.0","method":"ping"}', b'{"jsonrpc":2.0,"method":"ping"}', b'{"jsonrpc":"2.0"}',
                     b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
                     b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
                     b'{"jsonrpc":"2.0","method":1}', b'{"jsonrpc":"2.0","method":"ping","params":[]}',
                     b'{"jsonrpc":"2.0","method":"ping","params":null}'):
            with self.subTest(body=body):
                self.assertProtocolError(self.ask(rpc(body)), 400, -32600)

    def test_an_id_is_echoed_as_it_is_also_when_the_rest_is_wrong(self):
        for message_id in (0, '', 'a', -1, 2 ** 70, '\u00e9\U0001f680', 'x' * 1000):
            with self.subTest(message_id=message_id):
                self.assertEqual(self.ask(rpc(message('ping', message_id=message_id))).json,
                                 {'jsonrpc': '2.0', 'id': message_id, 'result': {}})
        self.assertProtocolError(self.ask(rpc(b'{"jsonrpc":"2.0","id":7,"method":1}')), 400, -32600, 7)

    def test_a_notification_and_a_stray_response_are_202_and_empty(self):
        for body in (message('notifications/initialized', message_id=None), message('notifications/unknown', {}, message_id=None),
                     b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
                     message('tools/call', {'name': 'x'}, message_id=None)):
            with self.subTest(body=body):
                answer = self.ask(rpc(body))
                self.assertEqual((answer.status, answer.body), (202, b''))

    def test_a_notification_never_runs_a_tool(self):
        with self.served.running.state.db.read() as tx:
            before = tx.execute('SELECT count(*) FROM activity').fetchone()
        self.ask(rpc(message('tools/call', {'name': READ_A[0], 'arguments': READ_A[1]}, message_id=None), token=self.token))
        self.served.running.state.activity.flush()
        with self.served.running.state.db.read() as tx:
            self.assertEqual(tx.execute('SELECT count(*) FROM activity').fetchone(), before)


class Legacy(WithServer):
    def test_initialize_is_public_and_says_who_we_are(self):
        result = self.ask(rpc(message('initialize', {'protocolVersion': '2025-06-18'}))).json['result']
        self.assertEqual(result['serverInfo'], {'name': 'osfoundry', 'version': '0.1.0'})
        self.assertEqual((result['protocolVersion'], result['capabilities']), ('2025-06-18', {'tools': {}}))
        for word in ('list_granted_resources', 'exact tab id', 'device'):
            self.assertIn(word, result['instructions'])

    def test_initialize_negotiates_whatever_the_header_says(self):
        for asked, given in (('2025-06-18', '2025-06-18'), ('2025-11-25', '2025-11-25'), ('2024-11-05', '2025-11-25'),
                             ('2099-01-01', '2025-11-25'), (7, '2025-11-25'), (None, '2025-11-25')):
            for header in ('X: x', MODERN, 'MCP-Protocol-Version: 1999-01-01'):
                with self.subTest(asked=asked, header=header):
                    result = self.result('initialize', {'protocolVersion': asked}, header)
                    self.assertEqual(result['protocolVersion'], given)

    def test_a_known_version_header_or_none_is_legacy_and_an_unknown_one_is_400(self):
        for version in ('2025-03-26', '2025-06-18', '2025-11-25'):
            self.assertEqual(self.result('ping', None, f'MCP-Protocol-Version: {version}'), {})
        answer = self.ask(rpc(message('ping'), 'MCP-Protocol-Version: 2024-01-01'))
        self.assertProtocolError(answer, 400, -32022, 1)
        self.assertEqual(answer.json['error']['data'], {'supported': ['2026-07-28', '2025-11-25', '2025-06-18'],
                                                       'requested': '2024-01-01'})

    def test_an_unknown_method_is_200_with_its_code(self):
        for method in ('server/discover', 'resources/list', 'prompts/list', 'logging/setLevel', '', 'tools/Call', '__class__'):
            with self.subTest(method=method):
                self.assertProtocolError(self.ask(rpc(message(method))), 200, -32601, 1)

    def test_no_answer_carries_a_session_id(self):
        answer = self.ask(rpc(message('initialize', {'protocolVersion': '2025-11-25'}), 'Mcp-Session-Id: abc'))
        self.assertNotIn('mcp-session-id', answer.headers)


class Listing(WithServer):
    def test_every_tool_states_its_annotations_its_scope_and_a_plain_object_schema(self):
        listed = self.ask(rpc(message('tools/list'))).json['result']
        self.assertEqual([tool['name'] for tool in listed['tools']], list(self.served.running.state.catalogue))
        self.assertNotIn('nextCursor', listed)
        for tool in listed['tools']:
            with self.subTest(tool=tool['name']):
                self.assertEqual(set(tool['annotations']), {'readOnlyHint', 'destructiveHint', 'openWorldHint'})
                scheme, = tool['securitySchemes']
                self.assertEqual((scheme['type'], len(scheme['scopes'])), ('oauth2', 1))
                self.assertEqual(tool['inputSchema']['type'], 'object')
                self.assertFalse({'anyOf', 'oneOf', 'allOf'} & set(tool['inputSchema']))

    def test_the_list_is_the_same_bytes_every_time_and_for_everybody(self):
        bodies = {self.ask(rpc(message('tools/list'), token=token)).body for token in (None, self.token, 'x' * 43)}
        self.assertEqual(len(bodies), 1)

    def test_pages_join_to_the_whole_list_and_the_last_one_has_no_cursor(self):
        whole = [tool['name'] for tool in self.result('tools/list')['tools']]
        self.addCleanup(setattr, mcp, 'TOOLS_A_PAGE', mcp.TOOLS_A_PAGE)
        for size in (1, 3, len(whole) - 1, len(whole), len(whole) + 1):
            mcp.TOOLS_A_PAGE, names, params = size, [], {}
            while params is not None:
                page = self.result('tools/list', params)
                names += [tool['name'] for tool in page['tools']]
                self.assertTrue(0 < len(page['tools']) <= size)
                params = {'cursor': page['nextCursor']} if 'nextCursor' in page else None
            self.assertEqual(names, whole)

    def test_a_cursor_that_we_did_not_give_is_invalid(self):
        for cursor in ('', 'x', 'bm9wZQ==', None, 7, {}, '\u00e9', 'x' * 10_000):
            with self.subTest(cursor=cursor):
                self.assertProtocolError(self.ask(rpc(message('tools/list', {'cursor': cursor}))), 200, -32602, 1)


class Calling(WithServer):
    def test_without_a_token_the_answer_is_a_401_that_says_in_two_places_where_to_go(self):
        answer = self.ask(rpc(message('tools/call', {'name': 'list_project_resources', 'arguments': {}}, 3)))
        base = self.served.running.config.base_url
        challenge = (f'Bearer resource_metadata="{base}/.well-known/oauth-protected-resource/api/v1/external-mcp", '
                     'error="invalid_token", error_description="Connect osFoundry to continue"')
        self.assertEqual((answer.status, answer.headers['www-authenticate']), (401, challenge))
        self.assertEqual(answer.json, {'jsonrpc': '2.0', 'id': 3, 'result': {
            'isError': True, 'content': [{'type': 'text', 'text': 'Authentication required'}],
            '_meta': {'mcp/www_authenticate': [challenge]}}})

    def test_what_is_no_bearer_token_of_ours_is_401(self):
        for line in ('', 'Bearer', 'Bearer ', f'Basic {self.token}', f'Owner {self.token}', f'Bearer {self.token} x',
                     f'Bearer "{self.token}"', f'Bearer {self.token}x', 'Bearer \u00e9', f'{self.token}',
                     f'Bearer{self.token}', f'Bearer\t{self.token}', f'Bearer,{self.token}'):
            with self.subTest(line=line[:12]):
                self.assertEqual(self.ask(rpc(CALL, f'Authorization: {line}')).status, 401)
        self.assertEqual(self.ask(rpc(CALL, f'Authorization: bEaReR   {self.token}')).status, 200)

    def test_a_token_in_the_address_or_in_the_body_is_no_token(self):
        self.assertEqual(self.ask(rpc(CALL, path=f'{mcp.ENDPOINT}?access_token={self.token}')).status, 401)
        body = message('tools/call', {'name': READ_A[0], 'arguments': READ_A[1], 'access_token': self.token})
        self.assertEqual(self.ask(rpc(body)).status, 401)

    def test_the_challenge_names_the_configured_address_whatever_the_request_says(self):
        forged = ('X-Forwarded-Host: evil.example', 'X-Forwarded-Proto: https', 'Forwarded: host=evil.example')
        answer = self.ask(rpc(CALL, *forged, host='localhost:1'))
        self.assertIn(self.served.running.config.base_url + '/.well-known/', answer.headers['www-authenticate'])

    def test_a_missing_scope_is_a_403_that_names_it(self):
        token = self.served.new_token(['osfoundry:read'])
        answer = self.ask(rpc(message('tools/call', {'name': 'edit_note_tab', 'arguments': {}}), token=token))
        self.assertEqual(answer.status, 403)
        self.assertRegex(answer.headers['www-authenticate'], 'error="insufficient_scope", scope="osfoundry:write"')
        self.assertEqual(answer.json['result']['_meta']['mcp/www_authenticate'], [answer.headers['www-authenticate']])
        self.assertEqual(json.loads(answer.json['result']['content'][0]['text'])['error'], 'insufficient_scope')

    def test_a_success_has_its_object_twice_and_an_error_has_it_in_the_text_only(self):
        result = self.result('tools/call', {'name': READ_A[0], 'arguments': READ_A[1]})
        self.assertEqual((json.loads(result['content'][0]['text']), result['isError']), (result['structuredContent'], False))
        for arguments in ({'knowledge_base_id': 'kb-b', 'article_id': 'refunds'}, {}, {'knowledge_base_id': 7}):
            result = self.result('tools/call', {'name': READ_A[0], 'arguments': arguments})
            self.assertTrue(result['isError'])
            self.assertNotIn('structuredContent', result)
            self.assertIn(json.loads(result['content'][0]['text'])['error'], ('not_in_project', 'invalid_argument'))

    def test_a_call_that_is_no_call_is_a_protocol_error(self):
        for params in ({}, {'name': 7}, {'name': None}, {'name': 'ping', 'arguments': []}, {'name': 'ping', 'arguments': None},
                       {'name': 'no_such_tool'}, {'name': ''}):
            with self.subTest(params=params):
                answer = self.ask(rpc(message('tools/call', params), token=self.token))
                self.assertProtocolError(answer, 200, -32602, 1)

    def test_the_real_clients_extras_are_no_fault(self):
        params = {'name': READ_A[0], 'arguments': READ_A[1], '_meta': {'progressToken': 4, 'claudecode/toolUseId': 'toolu_1'}}
        self.assertFalse(self.result('tools/call', params)['isError'])

    def test_a_revoked_connection_is_told_so_with_200_and_a_revoked_token_is_401(self):
        served = Served()
        self.addCleanup(served.close)
        other = served.new_token(access.SCOPES)
        with served.running.state.db.write() as tx:
            access.revoke_access_token(tx, access.digest(other))
            access.revoke(tx, served.connection)
        with Talk(served.port) as talk:
            self.assertEqual(talk.ask(rpc(CALL, token=other)).status, 401)
            answer = talk.ask(rpc(CALL, token=served.token))
        self.assertEqual((answer.status, json.loads(answer.json['result']['content'][0]['text'])['error']), (200, 'connection_revoked'))

    def test_a_storage_that_fails_is_503_and_never_a_word_about_the_token(self):
        served = Served()
        self.addCleanup(served.close)
        with served.running.state.db.write() as tx:
            tx.execute('ALTER TABLE access_tokens RENAME TO away')
        log = io.StringIO()
        with Talk(served.port) as talk, contextlib.redirect_stderr(log):
            answer = talk.ask(rpc(CALL, token=served.token))
        self.assertEqual((answer.status, answer.json['error']), (503, 'storage_failed'))
        self.assertNotIn('access_tokens', str(answer.body))
        self.assertNotIn('Traceback', log.getvalue())


if __name__ == '__main__':
    unittest.main()
