"""Random and nasty requests on raw sockets: never a traceback, a hang, or a wrong answer to the connection's next request."""
import json
import os
import random
import shutil
import signal
import socket
import tempfile
import unittest

from tests import access_world
from tests.wire_world import Process, Talk, message, raw, rpc

import access
import mcp
import server

# What a server may say to a stranger. A 500 is a fault of ours, whatever was sent.
CIVIL = {200, 202, 204, 400, 401, 403, 404, 405, 406, 411, 413, 415, 417, 421, 431}
JSON_LINES = ('Content-Type: application/json', 'Accept: application/json')
TEXTS = ('', 'ping', 'tools/call', '\x00', '\u202e', '\U0001f680' * 9, '../..', "'; DROP TABLE notes; --", '%s%n', '{}', 'a' * 5000,
         '２０', 'İ', '\ufeff', '-0', '1_0')
NUMBERS = (0, -1, 1, 2 ** 31, 2 ** 53 + 1, 2 ** 63, -2 ** 63 - 1, 10 ** 400, 1.5, -0.0, 1e308, 5e-324)


class Nasty:
    """Makes one request: `data` to send, the statuses that may come back, and whether the sender ends after it."""

    def __init__(self, rng, token, names):
        self.rng, self.token, self.names = rng, token, names
        self.kinds = [self.cut, self.folded, self.doubled, self.pipelined, self.oversized, self.body_longer, self.body_shorter,
                      self.bad_text, self.brackets, self.numbers, self.duplicates, self.any_json, self.any_call, self.odd_framing,
                      self.garbage, self.flipped, self.odd_address, self.odd_era]

    def one(self):
        return self.rng.choice(self.kinds)()

    def ping(self, message_id=1):
        return rpc(message('ping', message_id=message_id))

    def cut(self):
        data = self.ping()
        return data[:self.rng.randrange(len(data))], set(), True

    def folded(self):
        line = self.rng.choice((' x', '\tx', 'X : x', 'X', ': x', 'X: \x00', 'X: \x7f', 'X: a\rb', 'X: a\nb', '\u00e9: x'))
        return raw(body=message('ping'), headers=(*JSON_LINES, line)), {400}, False

    def doubled(self):
        name = self.rng.choice(('Host', 'Authorization', 'Content-Length', 'mcp-protocol-version', 'Content-Type', 'Origin'))
        return raw(body=message('ping'), headers=(f'{name}: 1', f'{name.upper()}: {self.rng.randrange(3)}')), {400}, False

    def pipelined(self):
        return b''.join(self.ping(number) for number in range(self.rng.randrange(2, 20))), {200}, False

    def oversized(self):
        if self.rng.random() < 0.5:
            return raw(headers=(f'Content-Length: {self.rng.randrange(4 * 2 ** 20 + 1, 10 ** 17)}',), length=False), {413}, False
        lines = [f'X-{number}: {"x" * self.rng.randrange(400)}' for number in range(101)]
        return raw(body=b'{}', headers=lines), {431}, False

    def body_longer(self):
        data = self.ping()
        return data + data[-self.rng.randrange(1, 60):], {200, 400}, True

    def body_shorter(self):
        return raw(body=message('ping') * 2, headers=JSON_LINES)[:-self.rng.randrange(1, 40)], set(), True

    def bad_text(self):
        body = bytearray(message('ping', {'x': 'y' * 50}))
        body[self.rng.randrange(40, 80)] = self.rng.choice((0x00, 0x1f, 0x80, 0xc0, 0xed, 0xf8, 0xff))
        return rpc(bytes(body)), {400}, False

    def brackets(self):
        depth = self.rng.choice((2_000, 100_000))
        opening = self.rng.choice((b'[', b'{"a":', b'[[{"":'))
        return rpc(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + opening * depth), {400}, False

    def numbers(self):
        text = self.rng.choice(('9' * 5000, '-' + '9' * 100_000, '1e999', '1E+400', 'NaN', 'Infinity', '0x1', '01', '1.', '+1', '1_0', '１'))
        body = '{"jsonrpc":"2.0","id":%s,"method":"ping"}' % text
        return rpc(body.encode()), {400}, False

    def duplicates(self):
        body = self.rng.choice((b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}',
                                b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\\u0061me":"b"}}'))
        return rpc(body), {400}, False

    def value(self, depth=3):
        kind = self.rng.randrange(7 if depth else 5)
        if kind < 2:
            return self.rng.choice(TEXTS)
        if kind == 2:
            return self.rng.choice(NUMBERS)
        if kind < 5:
            return self.rng.choice((None, True, False, '\ud800', 'x'))
        if kind == 5:
            return [self.value(depth - 1) for _ in range(self.rng.randrange(4))]
        return {self.rng.choice(TEXTS): self.value(depth - 1) for _ in range(self.rng.randrange(4))}

    def any_json(self):
        body = {'jsonrpc': '2.0', 'id': self.value(0), 'method': self.rng.choice(('ping', 'tools/list', 'initialize', 'tools/call', self.value(0)))}
        body['params'] = self.value() if self.rng.random() < 0.5 else {'cursor': self.value(), 'name': self.value(), 'arguments': self.value()}
        for name in self.rng.sample(sorted(body), self.rng.randrange(3)):
            del body[name]
        return rpc(json.dumps(body).encode(), token=self.token), {200, 202, 400}, False

    def any_call(self):
        name = self.rng.choice(self.names)
        arguments = {self.rng.choice(('note_id', 'tab_id', 'knowledge_base_id', 'article_id', 'query', 'limit', 'after_sequence',
                                      'expected_version', 'idempotency_key', 'content', 'operation', 'text', 'start_row', 'x')): self.value()
                     for _ in range(self.rng.randrange(6))}
        return rpc(message('tools/call', {'name': name, 'arguments': arguments}), token=self.token), {200, 400}, False

    def odd_framing(self):
        lines = [self.rng.choice(('Transfer-Encoding: chunked', 'transfer-encoding: identity', 'Transfer-Encoding: \tchunked',
                                  'Content-Length: -1', 'Content-Length: 1_0', 'Content-Length: 0x1', 'Content-Length: 1, 1', 'Content-Length:',
                                  'Content-Length: 0\r\nExpect: x'))]
        return raw(body=b'', headers=lines, length=False), {400, 411, 417}, False

    def odd_era(self):
        """Half a modern request: some of its headers, some of its _meta, some of it wrong."""
        meta = {mcp.VERSION_KEY: self.rng.choice(('2026-07-28', '2025-11-25', self.value(0))),
                mcp.CAPABILITIES_KEY: self.rng.choice(({}, self.value(1))), self.rng.choice(TEXTS): self.value(1)}
        for name in self.rng.sample(sorted(meta), self.rng.randrange(3)):
            del meta[name]
        method = self.rng.choice(('tools/list', 'tools/call', 'server/discover', 'initialize', 'ping'))
        lines = [f'MCP-Protocol-Version: {self.rng.choice(("2026-07-28", "2025-11-25", "1999-01-01", "x" * 3000))}',
                 f'Mcp-Method: {self.rng.choice((method, "tools/list"))}', f'Mcp-Name: {self.rng.choice((self.names[0], "=?base64?x?=", "=?base64?//8=?="))}']
        params = {'name': self.rng.choice((self.names[0], self.value(0))), 'arguments': {}, '_meta': self.rng.choice((meta, meta, self.value(1)))}
        body = message(method, params, self.rng.choice((1, None)))
        return rpc(body, *self.rng.sample(lines, self.rng.randrange(4)), token=self.token), {200, 202, 400, 404}, False

    def garbage(self):
        return bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(1, 300))), {400}, True

    def flipped(self):
        data = bytearray(rpc(message('tools/call', {'name': self.rng.choice(self.names), 'arguments': {}}), token=self.token))
        for _ in range(self.rng.randrange(1, 4)):
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return bytes(data), CIVIL, True

    def odd_address(self):
        path = self.rng.choice(('/', '*', '/api/v1/external-mcp/', '/%00', '/..%2f', '/' + 'a' * 3000, '/o/', '/owner/x', '/api/v1/external-mcp?a=b#c',
                                'http://evil.example/', '/.well-known/', '//', '/;x', '/owner/' + '%' * 50))
        method = self.rng.choice(('GET', 'PUT', 'BREW', 'OPTIONS', 'get', 'POST'))
        return raw(method, path, b'{}', headers=JSON_LINES), CIVIL - {431, 413}, False


class Requests(unittest.TestCase):
    COUNT, SEED = 1000, 1

    def test_nasty_requests_never_give_a_traceback_a_hang_or_a_wrong_answer_to_the_next_request(self):
        folder = tempfile.mkdtemp(prefix='wire-')
        self.addCleanup(shutil.rmtree, folder)
        data = os.path.join(folder, 'data')
        process = Process(data)
        self.addCleanup(self.reap, process.child)
        rng = random.Random(self.SEED)
        nasty = Nasty(rng, self.token_for(data), [tool.name for tool in server.catalogue.TOOLS])
        seen = {}
        talk = None
        for number in range(self.COUNT):
            data, allowed, ends = nasty.one()
            talk = talk or Talk(process.port)
            with self.subTest(number=number, data=data[:300]):
                talk = self.exchange(rng, talk, data, allowed, ends, f'next-{number}', seen)
        if talk:
            talk.sock.close()
        self.assertEqual(process.end(signal.SIGTERM), (0, ''), 'something was said on standard error')
        self.assertTrue({200, 202, 400, 404, 405, 411, 413, 417, 421, 431} <= set(seen), f'too tame: {seen}')

    def exchange(self, rng, talk, data, allowed, ends, marker, seen):
        """Send it in pieces; read until the server has nothing more to say. Returns the connection if it is still good."""
        try:
            while data:
                piece = rng.randrange(1, len(data) + 1)
                talk.send(data[:piece])
                data = data[piece:]
            if ends:
                talk.sock.shutdown(socket.SHUT_WR)
            else:
                talk.send(rpc(message('ping', message_id=marker)))
        except OSError:
            pass                                    # refused and closed while we were still sending: fine
        last = None
        while True:
            answer = talk.answer()
            if answer is None:
                self.assertTrue(ends or last is None or last.closes, 'closed without a word')
                return talk.sock.close()
            if not ends and answer.status == 200 and answer.body and answer.json.get('id') == marker:
                self.assertEqual(answer.json['result'], {})
                return talk
            self.assertIn(answer.status, allowed, answer)
            seen[answer.status] = seen.get(answer.status, 0) + 1
            last = answer

    def token_for(self, data):
        database = server.Database(os.path.join(data, 'state.db'), server.SCHEMAS)
        with database.write() as tx:
            access_world.build_workspace(tx)
            connection = access_world.connect(tx)
            access.add_to_project(tx, connection, 'project-a')
            token = access.issue_access_token(tx, connection, access.SCOPES, server.tools.time.time_ns() // 1000, 36_000)
        database.close()
        return token

    def reap(self, child):
        if child.poll() is None:
            child.kill()
        child.communicate()


if __name__ == '__main__':
    unittest.main()
