"""The host in both eras: a stateless request first, a handshake after any refusal, and what its requests repeat in headers."""
import unittest

from tests.foreign_server import Foreign
from tests.wire_world import READ_A, Served

import host
import host_eras
import mcp

VERSION = '2026-07-28'
DISCOVERED = {'resultType': 'complete', 'supportedVersions': [VERSION], 'capabilities': {'tools': {}}, 'instructions': 'hello',
              '_meta': {host_eras.META + 'serverInfo': {'name': 'foreign', 'version': '1'}}}
GREETED = {'protocolVersion': '2025-06-18', 'capabilities': {}, 'serverInfo': {'name': 'old', 'version': '1'}}


class WithForeign(unittest.TestCase):
    def setUp(self):
        self.foreign = self.enter(Foreign())
        self.foreign.good = lambda token: True
        self.foreign.answer_call = self.answer
        self.discover = self.result(DISCOVERED)
        self.answers = {}                               # method -> what `answer_call` gives, or a function of the message
        self.one = host.Host(self.foreign.url)

    def enter(self, manager):
        found = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return found

    def result(self, result, status=200):
        return lambda message: (status, {}, {'jsonrpc': '2.0', 'id': message['id'], 'result': result})

    def error(self, status, code, **data):
        error = {'code': code, 'message': 'no', **({'data': data} if data else {})}
        return lambda message: (status, {}, {'jsonrpc': '2.0', 'id': message['id'], 'error': error})

    def answer(self, message):
        if 'id' not in message:
            return 202, {}, b''
        known = {'server/discover': self.discover, 'initialize': self.result(GREETED),
                 'tools/list': self.result({'resultType': 'complete', 'tools': []}),
                 'tools/call': self.result({'resultType': 'complete', 'content': []}), **self.answers}
        return known[message['method']](message)

    def sent(self, method):
        return [(headers, body) for _, _, headers, body in self.foreign.requests('/mcp') if body.get('method') == method]


class Meeting(WithForeign):
    def test_a_server_of_this_era_is_met_without_a_handshake_and_every_request_says_everything(self):
        self.assertEqual(self.one.meet({'roots': {}})['serverInfo']['name'], 'foreign')
        self.one.list_tools()
        self.one.call('read', {'a': 1})
        self.assertEqual(self.sent('initialize'), [])
        for method in ('server/discover', 'tools/list', 'tools/call'):
            (headers, body), = self.sent(method)
            self.assertEqual((headers['mcp-protocol-version'], headers['mcp-method']), (VERSION, method))
            self.assertEqual(body['params']['_meta'], {
                host_eras.META + 'protocolVersion': VERSION, host_eras.META + 'clientInfo': host.CLIENT_INFO,
                host_eras.META + 'clientCapabilities': {'roots': {}}})
        self.assertEqual(self.sent('tools/call')[0][0]['mcp-name'], 'read')

    def test_any_refusal_that_is_no_word_of_this_era_means_a_handshake(self):
        refusals = {
            'an old dispatcher': self.error(200, -32601), 'the same with 404': self.error(404, -32601),
            'an unknown version': self.error(400, -32000), 'an invalid request': self.error(400, -32600),
            'invalid parameters': self.error(400, -32602), 'an internal error': self.error(500, -32603),
            'no body': lambda _: (400, {}, b''), 'a page': lambda _: (404, {}, b'<html>no</html>'),
            'not allowed': lambda _: (405, {'Allow': 'GET'}, b''), 'not acceptable': lambda _: (406, {}, b'no'),
            'a fault': lambda _: (502, {}, b'bad gateway'), 'a challenge as text': lambda _: (401, {}, b'Unauthorized'),
            'a list': lambda _: (200, {}, b'[]'), 'an empty result': self.result({}), 'a strange one': self.result([]),
            'only old versions': self.result({**DISCOVERED, 'supportedVersions': ['2025-11-25']}),
            'no list of versions': self.result({**DISCOVERED, 'supportedVersions': VERSION}),
            'told of old versions': self.error(400, -32022, supported=['2025-11-25'], requested=VERSION),
            'told of nothing': self.error(400, -32022), 'told nonsense': self.error(400, -32022, supported=7)}
        for name, refusal in refusals.items():
            with self.subTest(refusal=name):
                self.discover = refusal
                one = host.Host(self.foreign.url)
                self.assertEqual(one.meet()['serverInfo']['name'], 'old')
                one.call('read', {})
                headers, body = self.sent('tools/call')[-1]
                self.assertEqual(headers['mcp-protocol-version'], '2025-06-18')
                self.assertFalse({'mcp-method', 'mcp-name'} & set(headers))
                self.assertNotIn('_meta', body['params'])

    def test_a_server_of_this_era_alone_that_we_cannot_speak_to_is_not_asked_for_a_handshake(self):
        for refusal in (self.error(400, -32022, supported=['2099-01-01'], requested=VERSION), self.error(400, -32020),
                        self.error(400, -32021, requiredCapabilities={'sampling': {}})):
            self.discover = refusal
            with self.assertRaises(host.HostError):
                host.Host(self.foreign.url).meet()
        self.assertEqual(self.sent('initialize'), [])

    def test_told_which_versions_it_speaks_the_host_takes_one_and_asks_once_more(self):
        refused = []

        def once(message):
            refused.append(message)
            return (self.error(400, -32022, supported=['2099-01-01', VERSION]) if len(refused) == 1 else self.result(DISCOVERED))(message)
        self.discover = once
        self.assertEqual(self.one.meet()['protocolVersion'], VERSION)
        self.assertEqual(len(refused), 2)

    def test_a_server_that_refuses_the_version_it_names_is_left_after_two_times(self):
        self.discover = self.error(400, -32022, supported=[VERSION])
        with self.assertRaises(host.HostError):
            self.one.meet()
        self.assertEqual(len(self.sent('server/discover')), 2)


    def test_a_challenge_counts_whatever_stands_under_it(self):
        challenge = {'WWW-Authenticate': 'Bearer error="invalid_token"'}
        for body in (b'', b'Unauthorized', b'<html>no</html>', b'[]', b'{"error": "invalid_token"}'):
            self.answers['tools/call'] = lambda message: (401, challenge, body)
            self.assertEqual(self.one.call('read', {}).refused, 'invalid_token')


class OurServer(unittest.TestCase):
    def test_our_host_and_our_server_meet_in_this_era_and_in_the_old_one(self):
        served = Served()
        self.addCleanup(served.close)
        for begin, version in ((lambda one: one.meet(), VERSION), (lambda one: one.initialize(), '2025-11-25')):
            one = host.Host(served.url)
            one.grant['tokens'] = {'access_token': served.token}
            met = begin(one)
            self.assertEqual((met['protocolVersion'], met['serverInfo'], met['instructions']),
                             (version, mcp.SERVER_INFO, mcp.INSTRUCTIONS))
            self.assertEqual([tool['name'] for tool in one.list_tools()], list(served.running.state.catalogue))
            self.assertEqual(host.tool_answer(one.call(*READ_A).result)['content'], '30 days')
            self.assertEqual(one.call('read_knowledge_article', {'knowledge_base_id': 'kb-b', 'article_id': 'refunds'}).refused,
                             'not_in_project')
            one.grant = {}
            self.assertEqual(one.call(*READ_A).refused, 'invalid_token')


class Headers(WithForeign):
    def test_values_are_wrapped_exactly_when_a_reader_might_change_them(self):
        for value, header in (('us-west1', 'us-west1'), ('us west 1', 'us west 1'), ('', ''), ('a', 'a'), ('a\tb', 'a\tb'),
                              ('Hello, 世界', '=?base64?SGVsbG8sIOS4lueVjA==?='), (' padded ', '=?base64?IHBhZGRlZCA=?='),
                              ('line1\nline2', '=?base64?bGluZTEKbGluZTI=?='), ('=?base64?literal?=', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='),
                              ('\tx', '=?base64?CXg=?='), ('x\x7f', '=?base64?eH8=?='), ('=?base64?', '=?base64?')):
            with self.subTest(value=value):
                self.assertEqual(host_eras.encoded(value), header)
        self.assertEqual([host_eras.as_text(value) for value in (True, False, 42, -7, 42.0, 'x')], ['true', 'false', '42', '-7', '42', 'x'])

    def test_an_argument_is_mirrored_where_the_schema_marks_it_and_left_out_where_there_is_none(self):
        schema = {'type': 'object', 'properties': {
            'region': {'type': 'string', 'x-mcp-header': 'Region'}, 'dry': {'type': 'boolean', 'x-mcp-header': 'Dry'},
            'deep': {'type': 'object', 'properties': {'n': {'type': 'integer', 'x-mcp-header': 'N'}}}, 'plain': {'type': 'string'}}}
        self.answers['tools/list'] = self.result({'resultType': 'complete', 'tools': [{'name': 'query', 'inputSchema': schema}]})
        self.one.meet()
        self.one.list_tools()
        self.one.call('query', {'region': 'eu', 'dry': False, 'deep': {'n': 3}, 'plain': 'x'})
        self.one.call('query', {'region': None, 'deep': 'none'})
        first, second = [{name: value for name, value in headers.items() if name.startswith('mcp-param-')}
                         for headers, _ in self.sent('tools/call')]
        self.assertEqual(first, {'mcp-param-region': 'eu', 'mcp-param-dry': 'false', 'mcp-param-n': '3'})
        self.assertEqual(second, {})

    def test_a_tool_whose_schema_asks_wrongly_is_left_out_and_the_others_stay(self):
        def marked(name, kind='string', **more):
            return {'type': kind, 'x-mcp-header': name, **more}
        text = marked('A')
        bad = [{'a': marked('')}, {'a': marked('A b')}, {'a': marked('A:')}, {'a': marked('Ä')}, {'a': marked('A\n')}, {'a': marked(7)},
               {'a': marked('A', 'number')}, {'a': marked('A', 'object')}, {'a': marked('A', 'null')}, {'a': marked('A', ['string', 'null'])},
               {'a': text, 'b': marked('a')}, {'a': {'type': 'array', 'items': text}}, {'a': {'anyOf': [text]}}, {'a': {'not': text}},
               {'a': {'$defs': {'x': text}}}, {'a': {'if': {'properties': {'b': text}}}}]
        good = [{'a': text, 'b': marked('B', 'integer')}, {'x-mcp-header': {'type': 'string'}}, {'a': {'enum': [{'x-mcp-header': 'A b'}]}},
                {'a': {'default': {'x-mcp-header': ''}}}]
        tools = [{'name': f'{kind}{number}', 'inputSchema': {'type': 'object', 'properties': properties}}
                 for kind, schemas in (('bad', bad), ('good', good)) for number, properties in enumerate(schemas)]
        tools.append({'name': 'bad-root', 'inputSchema': {'type': 'object', 'x-mcp-header': 'A'}})
        self.answers['tools/list'] = self.result({'resultType': 'complete', 'tools': tools})
        self.one.meet()
        self.assertEqual([tool['name'] for tool in self.one.list_tools()], [f'good{number}' for number in range(len(good))])

    def test_told_of_a_mismatch_the_host_reads_the_list_again_and_tries_once_more(self):
        schemas = [{'type': 'object'}, {'type': 'object', 'properties': {'a': {'type': 'string', 'x-mcp-header': 'A'}}}]
        self.answers['tools/list'] = lambda message: self.result({'tools': [{'name': 'query', 'inputSchema': schemas.pop(0)}]})(message)

        def call(message):
            headers, _ = self.sent('tools/call')[-1]
            return (self.result({'content': []}) if 'mcp-param-a' in headers else self.error(400, -32020))(message)
        self.answers['tools/call'] = call
        self.one.meet()
        self.one.list_tools()
        self.assertEqual(self.one.call('query', {'a': 'x'}).result, {'content': []})
        self.assertEqual(len(self.sent('tools/call')), 2)


class Input(WithForeign):
    def ask_for(self, times, state=True):
        def call(message):
            if len(self.sent('tools/call')) > times:
                return self.result({'resultType': 'complete', 'content': [], 'structuredContent': {'done': True}})(message)
            asked = {'resultType': 'input_required', 'inputRequests': {'who': {'method': 'elicitation/create', 'params': {'message': '?'}}}}
            return self.result({**asked, 'requestState': 's-\u00e9'} if state else asked)(message)
        self.answers['tools/call'] = call
        self.one.serve['elicitation/create'] = lambda params: {'action': 'accept', 'content': {'message': params['message']}}
        self.one.meet()

    def test_what_the_server_wants_to_know_is_answered_and_the_state_goes_back_as_it_came(self):
        self.ask_for(1)
        self.assertEqual(host.tool_answer(self.one.call('ask', {'a': 1}).result), {'done': True})
        (_, first), (_, second) = self.sent('tools/call')
        self.assertNotEqual(first['id'], second['id'])
        self.assertEqual(second['params']['inputResponses'], {'who': {'action': 'accept', 'content': {'message': '?'}}})
        self.assertEqual((second['params']['requestState'], second['params']['arguments']), ('s-\u00e9', {'a': 1}))
        self.one.call('other', {})
        self.assertFalse({'requestState', 'inputResponses'} & set(self.sent('tools/call')[-1][1]['params']))

    def test_without_a_state_none_is_sent_and_a_state_alone_is_enough_to_ask_again(self):
        self.ask_for(1, state=False)
        self.one.call('ask', {})
        self.assertNotIn('requestState', self.sent('tools/call')[-1][1]['params'])

    def test_a_server_that_is_never_content_a_wish_that_we_do_not_serve_and_an_unknown_result_type_are_errors(self):
        self.ask_for(10_000)
        with self.assertRaises(host.HostError):
            self.one.call('ask', {})
        self.assertEqual(len(self.sent('tools/call')), host_eras.ROUNDS + 1)
        del self.one.serve['elicitation/create']
        with self.assertRaises(host.HostError):
            self.one.call('ask', {})
        self.answers['tools/call'] = self.result({'resultType': 'dream', 'content': []})
        before = len(self.sent('tools/call'))
        with self.assertRaises(host.HostError):
            self.one.call('ask', {})
        self.assertEqual(len(self.sent('tools/call')), before + 1)


if __name__ == '__main__':
    unittest.main()
