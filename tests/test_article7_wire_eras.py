"""The stateless protocol of 2026-07-28 on the same endpoint: who speaks it, what it demands, what its results carry."""
import base64
import json
import unittest

from tests import test_article7_wire_gates as gates
from tests.wire_world import READ_A, message, raw, rpc

import mcp

VERSION = '2026-07-28'
META = {mcp.VERSION_KEY: VERSION, mcp.CAPABILITIES_KEY: {}}


class Modern(gates.WithServer):
    def send(self, method, params=None, meta=META, headers=None, token=None, message_id=1):
        """A modern request; `headers` replaces some of the three, None takes one away."""
        params = {**(params or {}), **({'_meta': meta} if meta is not None else {})}
        lines = {'MCP-Protocol-Version': VERSION, 'Mcp-Method': method}
        if 'name' in params:
            lines['Mcp-Name'] = params['name']
        lines.update(headers or {})
        return self.ask(rpc(message(method, params, message_id), token=token,
                            *[f'{name}: {value}' for name, value in lines.items() if value is not None]))


class Results(Modern):
    def test_discover_is_public_and_says_who_we_are_and_what_we_speak(self):
        answer = self.send('server/discover')
        self.assertEqual((answer.status, answer.json['result']), (200, {
            'resultType': 'complete', 'supportedVersions': ['2026-07-28', '2025-11-25', '2025-06-18'],
            'capabilities': {'tools': {}}, 'instructions': mcp.INSTRUCTIONS, 'ttlMs': mcp.TTL_MS, 'cacheScope': 'public',
            '_meta': {mcp.SERVER_INFO_KEY: mcp.SERVER_INFO}}))

    def test_every_result_says_that_it_is_complete_and_who_answers_and_only_lists_may_be_kept(self):
        listed = self.send('tools/list').json['result']
        called = self.send('tools/call', {'name': READ_A[0], 'arguments': READ_A[1]}, token=self.token).json['result']
        refused = self.send('tools/call', {'name': READ_A[0], 'arguments': {}}, token=self.token).json['result']
        for result in (listed, called, refused):
            self.assertEqual((result['resultType'], result['_meta'][mcp.SERVER_INFO_KEY]), ('complete', mcp.SERVER_INFO))
        self.assertEqual((listed['ttlMs'], listed['cacheScope']), (mcp.TTL_MS, 'public'))
        for result in (called, refused):
            self.assertFalse({'ttlMs', 'cacheScope'} & set(result))
        self.assertEqual((called['isError'], refused['isError']), (False, True))

    def test_apart_from_that_both_eras_give_the_same_lists_and_results(self):
        legacy = json.loads(self.ask(rpc(message('tools/list'))).body)['result']
        modern = self.send('tools/list').json['result']
        self.assertEqual(modern['tools'], legacy['tools'])
        call = {'name': READ_A[0], 'arguments': READ_A[1]}
        modern = self.send('tools/call', call, token=self.token).json['result']
        self.assertEqual(modern['structuredContent'], self.result('tools/call', call)['structuredContent'])

    def test_a_401_is_a_result_in_this_era_too(self):
        answer = self.send('tools/call', {'name': READ_A[0], 'arguments': READ_A[1]})
        result = answer.json['result']
        self.assertEqual((answer.status, result['resultType'], result['isError']), (401, 'complete', True))
        self.assertEqual(result['_meta'], {'mcp/www_authenticate': [answer.headers['www-authenticate']],
                                           mcp.SERVER_INFO_KEY: mcp.SERVER_INFO})

    def test_a_page_that_is_not_the_last_may_be_kept_under_the_same_terms(self):
        self.addCleanup(setattr, mcp, 'TOOLS_A_PAGE', mcp.TOOLS_A_PAGE)
        mcp.TOOLS_A_PAGE = 5
        first = self.send('tools/list').json['result']
        second = self.send('tools/list', {'cursor': first['nextCursor']}).json['result']
        self.assertEqual(first['cacheScope'], second['cacheScope'])
        self.assertNotEqual(first['tools'], second['tools'])


class Demands(Modern):
    def test_meta_without_version_or_capabilities_is_invalid(self):
        for meta in (None, {}, {mcp.VERSION_KEY: VERSION}, {mcp.CAPABILITIES_KEY: {}}, {mcp.VERSION_KEY: VERSION, mcp.CAPABILITIES_KEY: []},
                     [], 'x', {mcp.VERSION_KEY: VERSION, mcp.CAPABILITIES_KEY: None}):
            with self.subTest(meta=meta):
                self.assertProtocolError(self.send('tools/list', meta=meta), 400, -32602, 1)
        nothing = {mcp.VERSION_KEY: None, mcp.CAPABILITIES_KEY: {}}
        answer = self.send('tools/list', meta=nothing, headers={'MCP-Protocol-Version': None})
        self.assertProtocolError(answer, 400, -32602, 1)

    def test_client_info_is_not_demanded_and_unknown_members_are_no_fault(self):
        meta = {**META, 'io.modelcontextprotocol/clientInfo': {'name': 'x', 'version': '1'}, 'traceparent': '00-0-0-0', 'a/b': 1}
        for one in (META, meta):
            self.assertEqual(self.send('tools/list', meta=one).status, 200)

    def test_a_header_that_is_missing_or_says_something_else_than_the_body_is_refused(self):
        call = {'name': READ_A[0], 'arguments': READ_A[1]}
        for headers in ({'MCP-Protocol-Version': None}, {'MCP-Protocol-Version': '2025-11-25'}, {'Mcp-Method': None},
                        {'Mcp-Method': 'tools/list'}, {'Mcp-Method': 'TOOLS/CALL'}, {'Mcp-Name': None}, {'Mcp-Name': 'edit_note_tab'},
                        {'Mcp-Name': READ_A[0].upper()}, {'Mcp-Name': '=?base64?!?='}, {'Mcp-Name': '=?base64?//8=?='},
                        {'Mcp-Name': '=?BASE64?' + base64.b64encode(READ_A[0].encode()).decode() + '?='}):
            with self.subTest(headers=headers):
                self.assertProtocolError(self.send('tools/call', call, headers=headers, token=self.token), 400, -32020, 1)
        self.assertProtocolError(self.send('tools/call', {'arguments': {}}, headers={'Mcp-Name': 'x'}), 400, -32020, 1)

    def test_a_name_may_come_wrapped_and_with_spaces_around_it(self):
        wrapped = '=?base64?' + base64.b64encode(READ_A[0].encode()).decode() + '?='
        for value in (wrapped, f' \t{READ_A[0]} '):
            answer = self.send('tools/call', {'name': READ_A[0], 'arguments': READ_A[1]}, headers={'Mcp-Name': value}, token=self.token)
            self.assertEqual(answer.status, 200, answer)
        odd = '名前'
        answer = self.send('tools/call', {'name': odd}, token=self.token,
                           headers={'Mcp-Name': '=?base64?' + base64.b64encode(odd.encode()).decode() + '?='})
        self.assertProtocolError(answer, 400, -32602, 1)

    def test_header_checks_come_before_sign_in_and_after_the_message_itself(self):
        answer = self.send('tools/call', {'name': READ_A[0], 'arguments': {}}, headers={'Mcp-Name': 'x'})
        self.assertProtocolError(answer, 400, -32020, 1)
        answer = self.send('tools/call', {'name': READ_A[0]}, headers={'Mcp-Name': 'x'}, message_id=True)
        self.assertProtocolError(answer, 400, -32600, None)

    def test_a_version_that_we_do_not_speak_is_told_which_we_do(self):
        for version in ('1900-01-01', '2099-01-01', '2025-11-25', 'x' * 5000):
            with self.subTest(version=version[:20]):
                answer = self.send('tools/list', meta={**META, mcp.VERSION_KEY: version}, headers={'MCP-Protocol-Version': version})
                self.assertProtocolError(answer, 400, -32022, 1)
                self.assertEqual(answer.json['error']['data'], {'supported': ['2026-07-28', '2025-11-25', '2025-06-18'],
                                                               'requested': version[:100]})

    def test_a_method_that_this_era_does_not_have_is_404(self):
        for method in ('initialize', 'ping', 'logging/setLevel', 'resources/list', 'subscriptions/listen', 'no/such'):
            with self.subTest(method=method):
                self.assertProtocolError(self.send(method), 404, -32601, 1)

    def test_bad_parameters_are_400(self):
        for method, params in (('tools/list', {'cursor': 'x'}), ('tools/call', {'arguments': {}}), ('tools/call', {'name': 'no_such_tool'})):
            with self.subTest(method=method, params=params):
                self.assertProtocolError(self.send(method, params, token=self.token), 400, -32602, 1)

    def test_a_notification_is_202_in_any_era(self):
        answer = self.send('notifications/cancelled', message_id=None, headers={'Mcp-Method': None})
        self.assertEqual((answer.status, answer.body), (202, b''))


class Choice(Modern):
    def test_one_connection_may_speak_both_eras_in_turn_and_nothing_is_remembered(self):
        for _ in range(2):
            self.assertIn('resultType', self.send('tools/list').json['result'])
            self.assertNotIn('resultType', self.result('tools/list'))
            self.assertEqual(self.result('initialize', {'protocolVersion': VERSION})['protocolVersion'], '2025-11-25')

    def test_a_modern_header_alone_or_a_modern_body_alone_is_modern(self):
        self.assertProtocolError(self.ask(rpc(message('tools/list'), f'MCP-Protocol-Version: {VERSION}')), 400, -32602, 1)
        self.assertProtocolError(self.ask(rpc(message('tools/list', {'_meta': META}))), 400, -32020, 1)

    def test_an_initialize_with_a_modern_header_negotiates_and_one_with_a_modern_body_does_not_exist(self):
        answer = self.ask(rpc(message('initialize', {'protocolVersion': '2025-06-18'}), f'MCP-Protocol-Version: {VERSION}'))
        self.assertEqual(answer.json['result']['protocolVersion'], '2025-06-18')
        self.assertProtocolError(self.send('initialize', {'protocolVersion': '2025-06-18'}), 404, -32601, 1)

    def test_get_and_delete_stay_405(self):
        for method in ('GET', 'DELETE'):
            self.assertEqual(self.ask(raw(method, headers=(f'MCP-Protocol-Version: {VERSION}',))).status, 405)


if __name__ == '__main__':
    unittest.main()
