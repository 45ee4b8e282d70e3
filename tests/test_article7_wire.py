"""The connector's sockets: gate 0 (framing), deadlines, too many connections, one send, a stop that loses no answer."""
import contextlib
import io
import os
import select
import selectors
import socket
import threading
import time
import unittest

from tests.wire_world import PATIENCE_S, Talk, raw

import wire

SHORT = wire.Limits(request_s=0.4)


def echo(request):
    if request.path == '/fail':
        raise ZeroDivisionError(request.headers['authorization'])
    if request.path == '/split':
        return wire.Response(200, (('Location', 'x\r\nSet-Cookie: a=b'),), b'')
    if request.path == '/nothing':
        return wire.Response(204, (), b'')
    text = f'{request.method} {request.path} {request.query} {len(request.body)} {request.headers.get("x-test", "-")}'
    return wire.Response(200, (('Content-Type', 'text/plain'),), text.encode())


def error_of(work):
    try:
        work()
    except Exception as error:
        return error


class WithEcho(unittest.TestCase):
    limits = wire.Limits()

    def setUp(self):
        self.server = wire.start('127.0.0.1', 0, echo, self.limits)
        self.addCleanup(self.server.stop)

    def talk(self):
        talk = Talk(self.server.port)
        self.addCleanup(talk.sock.close)
        return talk

    def assertRefused(self, data, status, word=''):
        """Refused with `status`, and closed: the next byte may be anybody's."""
        talk = self.talk()
        answer = talk.ask(data + b'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n')
        self.assertEqual((answer.status, answer.closes), (status, True), answer)
        self.assertIn(word, answer.json['message'])
        self.assertTrue(talk.is_closed(), 'whatever came after was read as a request')


class Framing(WithEcho):
    def test_transfer_encoding_is_refused_whatever_else_is_said(self):
        for extra in ((), ('Content-Length: 5',)):
            with self.subTest(extra=extra):
                self.assertRefused(raw(headers=('Transfer-Encoding: chunked', *extra), length=False), 411)

    def test_a_length_that_is_missing_malformed_or_given_twice_is_refused(self):
        self.assertRefused(raw(length=False), 411)
        for length in ('-1', '+5', '1_0', '0x5', '5.0', '', 'five', '5, 5', '٥', '1' * 30):
            with self.subTest(length=length):
                line = 'Content-Length: '.encode() + length.encode('utf-8')
                self.assertRefused(raw(headers=(line,), length=False), 400, 'Content-Length')
        self.assertRefused(raw(headers=('Content-Length: 2', 'content-length: 2'), length=False) + b'{}', 400, 'twice')

    def test_a_body_over_the_limit_is_refused_before_it_is_read(self):
        self.assertRefused(raw(headers=(f'Content-Length: {self.limits.body_bytes + 1}',), length=False), 413)

    def test_a_body_of_exactly_the_limit_is_taken(self):
        body = b'x' * self.limits.body_bytes
        self.assertIn(str(len(body)).encode(), self.talk().ask(raw(path='/big', body=body)).body)

    def test_a_refusal_reaches_a_client_that_is_still_sending(self):
        talk = self.talk()
        talk.send(raw(headers=('Content-Length: 6000000',), length=False))
        talk.send(b'x' * 6000000)                       # a reset would end this, and elsewhere lose the answer too
        self.assertEqual(talk.answer().status, 413)

    def test_headers_that_two_readers_would_read_differently_are_refused(self):
        for name in ('Authorization', 'Host', 'MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name', 'Origin', 'Content-Type'):
            with self.subTest(doubled=name):
                self.assertRefused(raw(headers=(f'{name}: a', f'{name.upper()}: a')), 400, 'twice')
        for line in (b' folded: x', b'\tfolded', b'X-A : x', b': x', b'no colon', b'X-A: a\x00b', b'X-A: a\nX-B: b',
                     b'X-A: a\rb', b'X(A): x', b'X-\xe9: x'):
            with self.subTest(line=line):
                self.assertRefused(raw(headers=(b'X-First: 1', line, b'X-Last: 1')), 400)

    def test_a_value_keeps_its_inside_and_loses_spaces_and_tabs_around_it(self):
        answer = self.talk().ask(raw(headers=(b'X-Test: \t a \t b\t ',)))
        self.assertTrue(answer.body.endswith(b' a \t b'), answer)

    def test_a_first_line_that_is_not_http_is_refused_at_once(self):
        for line in (b'\x16\x03\x01\x02\x00', b'GET / HTTP/1.1 \r\nHost: x\r\n\r\n', b'GET  / HTTP/1.1\r\nHost: x\r\n\r\n',
                     b'GET / HTTP/2.0\r\nHost: x\r\n\r\n', b'GET /\r\n\r\n', b'GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n',
                     b'GET x HTTP/1.1\r\nHost: x\r\n\r\n', b'GET / HTTP/1.1\nHost: x\n\n\r\n\r\n'):
            with self.subTest(line=line):
                self.assertEqual(self.talk().ask(line).status, 400)

    def test_host_is_demanded_and_the_absolute_form_outranks_it(self):
        self.assertEqual(self.talk().ask(raw(host=None)).status, 400)
        seen = []
        server = wire.start('127.0.0.1', 0, lambda request: seen.append(request) or wire.Response(204, (), b''))
        self.addCleanup(server.stop)
        with Talk(server.port) as talk:
            talk.ask(raw(method='GET', path='http://evil.example/x?y', host='127.0.0.1'))
        self.assertEqual((seen[0].headers['host'], seen[0].path, seen[0].query), ('evil.example', '/x', 'y'))

    def test_a_head_that_never_ends_is_refused_by_its_size_and_by_its_lines(self):
        talk = self.talk()
        self.assertEqual(talk.ask(b'GET /' + b'a' * self.limits.head_bytes).status, 431)
        many = [f'X-{number}: x' for number in range(self.limits.header_lines + 1)]
        self.assertRefused(raw(headers=many), 431)


class Conversation(WithEcho):
    def test_the_whole_body_is_read_before_any_answer_so_that_it_never_becomes_the_next_request(self):
        talk = self.talk()
        smuggled = b'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n'
        with contextlib.redirect_stderr(io.StringIO()):
            for path in ('/a', '/fail', '/c'):
                answer = talk.ask(raw(path=path, body=smuggled, headers=('Authorization: x',)))
        self.assertEqual(answer.body, f'POST /c  {len(smuggled)} -'.encode())

    def test_requests_sent_ahead_are_answered_one_by_one_in_their_order(self):
        talk = self.talk()
        talk.send(b''.join(raw(path=f'/{number}', body=b'x' * number) for number in range(50)))
        for number in range(50):
            self.assertEqual(talk.answer().body, f'POST /{number}  {number} -'.encode())

    def test_an_empty_line_before_a_request_is_skipped(self):
        talk = self.talk()
        for _ in range(3):
            self.assertEqual(talk.ask(b'\r\n\r\n' + raw(method='GET', path='/a')).status, 200)

    def test_a_client_that_waits_for_100_continue_gets_it_and_any_other_expectation_is_417(self):
        talk = self.talk()
        talk.send(raw(headers=('Expect: 100-continue', 'Content-Length: 3'), length=False))
        self.assertEqual(talk.answer().status, 100)
        self.assertEqual(talk.ask(b'abc').status, 200)
        self.assertEqual(self.talk().ask(raw(headers=('Expect: a-miracle',))).status, 417)

    def test_the_connection_is_kept_or_closed_as_the_request_says(self):
        for version, line, kept in (('1.1', 'X: x', True), ('1.1', 'Connection: close', False), ('1.0', 'X: x', False),
                                    ('1.0', 'Connection: Keep-Alive', True), ('1.1', 'Connection: te, CLOSE', False)):
            with self.subTest(version=version, line=line):
                talk = self.talk()
                answer = talk.ask(raw(method='GET', headers=(line,)).replace(b'HTTP/1.1', f'HTTP/{version}'.encode(), 1))
                self.assertEqual(not answer.closes, kept)
                if not kept:
                    self.assertTrue(talk.is_closed())

    def test_head_has_the_length_without_the_body_and_204_has_neither(self):
        talk = self.talk()
        self.assertEqual(talk.ask(raw(method='HEAD', path='/abc'), head_only=True).headers['content-length'], '14')
        self.assertNotIn('content-length', talk.ask(raw(method='GET', path='/nothing')).headers)
        self.assertEqual(talk.ask(raw(method='GET', path='/next')).status, 200)

    def test_an_answer_leaves_in_one_send(self):
        class Counting(socket.socket):
            sends = 0

            def sendall(self, data):
                Counting.sends += 1
                return super().sendall(data)

        ours, theirs = socket.socketpair()
        counting = Counting(fileno=ours.detach())
        theirs.sendall(raw(path='/a', body=b'x', headers=('Connection: close',)))
        with counting, theirs:
            wire.converse(wire.Connection(counting, 'peer'), echo, wire.Limits(), threading.Event())
        self.assertEqual(Counting.sends, 1)

    def test_a_failure_is_a_500_without_a_word_and_one_line_of_log_without_a_secret(self):
        log = io.StringIO()
        with contextlib.redirect_stderr(log):
            answer = self.talk().ask(raw(path='/fail?token=SECRET', body=b'SECRET', headers=('Authorization: SECRET',)))
        self.assertEqual((answer.status, answer.json['error']), (500, 'internal_error'))
        self.assertNotIn('ZeroDivision', str(answer.body))
        self.assertRegex(log.getvalue(), r"\A500 POST '/fail' ZeroDivisionError at test_article7_wire.py:\d+\n\Z")

    def test_a_one_time_link_in_the_path_stays_out_of_the_log(self):
        log, link = io.StringIO(), '/o/' + 'r' * 22 + '/enter/' + 's' * 43
        with contextlib.redirect_stderr(log):
            wire.log_fault(wire.Request('GET', link, '', {}, b'', 'peer'), error_of(lambda: 1 / 0))
        self.assertRegex(log.getvalue(), r"\A500 GET '/o/\.\.\./enter/\.\.\.' ZeroDivisionError ")

    def test_no_answer_header_can_start_another_one(self):
        with contextlib.redirect_stderr(io.StringIO()):
            answer = self.talk().ask(raw(path='/split'))
        self.assertEqual(answer.status, 500)
        self.assertNotIn('set-cookie', answer.headers)

    def test_a_client_that_resets_leaves_no_line_in_the_log(self):
        log = io.StringIO()
        with contextlib.redirect_stderr(log):
            for number in range(20):
                talk = self.talk()
                talk.send(raw(path='/a', body=b'x' * 1000)[:100 + number * 50])
                talk.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\x01\0\0\0\0\0\0\0')
                talk.sock.close()
            self.assertEqual(self.talk().ask(raw(path='/a')).status, 200)
            self.server.stop()
        self.assertEqual(log.getvalue(), '')


class Deadlines(WithEcho):
    limits = SHORT

    def test_a_sender_of_one_byte_after_the_other_meets_one_absolute_deadline(self):
        talk = self.talk()
        for byte in raw(path='/a', body=b'x' * 900):
            talk.send(bytes([byte]))
            readable, _, _ = select.select([talk.sock], [], [], 0.01)        # the pace of the sender: ten seconds in all
            if readable:
                break
        else:
            self.fail('it listened to the end')
        answer = talk.answer()
        self.assertEqual((answer.status, answer.closes), (408, True))

    def test_each_request_of_a_connection_has_its_own_deadline(self):
        talk = self.talk()
        for _ in range(3):
            self.assertEqual(talk.ask(raw(path='/a')).status, 200)
            time.sleep(SHORT.request_s / 2)    # longer than one deadline together
        self.assertEqual(talk.ask(raw(path='/a')).status, 200)

    def test_half_a_request_and_then_the_end_is_no_request(self):
        for cut in (b'G', raw(body=b'x' * 10)[:-4]):
            talk = self.talk()
            talk.send(cut)
            talk.sock.shutdown(socket.SHUT_WR)
            self.assertIsNone(talk.answer())


class Crowd(WithEcho):
    IDLE, DRIPPING = 50, 10
    limits = wire.Limits(request_s=1.5)    # time for a few answers, also on a busy machine

    def test_beside_idle_and_dripping_connections_one_more_client_is_answered_and_every_dripping_one_meets_its_deadline(self):
        idle = [self.talk() for _ in range(self.IDLE)]
        dripping = [self.talk() for _ in range(self.DRIPPING)]
        for talk in dripping:
            talk.send(b'POST /a HTTP/1.1\r\nX: ')
        one_more, asked = self.talk(), 0
        with selectors.DefaultSelector() as selector:                # select() ends at descriptor 1,023
            for talk in dripping:
                selector.register(talk.sock, selectors.EVENT_READ, talk)
            while selector.get_map():
                self.assertEqual(one_more.ask(raw(path=f'/{asked}', body=b'x')).body, f'POST /{asked}  1 -'.encode())
                asked += 1
                for key, _ in selector.select(0.01):
                    self.assertEqual(key.data.answer().status, 408)
                    selector.unregister(key.fileobj)
                for key in list(selector.get_map().values()):
                    with contextlib.suppress(OSError):               # refused between the look and the send
                        key.data.send(b'x')
        self.assertGreater(asked, 3)
        for talk in idle:
            self.assertEqual(talk.ask(raw(path='/idle')).status, 200)


class TooMany(WithEcho):
    limits = wire.Limits(connections=4)

    def test_the_longest_idle_connection_makes_room_and_a_busy_one_never(self):
        entered, leave = threading.Event(), threading.Event()

        def slow(request):
            if request.path == '/slow':
                entered.set()
                leave.wait(PATIENCE_S)
            return wire.Response(200, (), request.path.encode())

        server = wire.start('127.0.0.1', 0, slow, self.limits)
        self.addCleanup(server.stop)
        talks = [Talk(server.port) for _ in range(4)]
        talks[0].send(raw(method='GET', path='/slow'))
        self.assertTrue(entered.wait(PATIENCE_S))
        for number in (2, 1, 3):                              # 2 is the longest idle now
            self.assertEqual(talks[number].ask(raw(method='GET')).status, 200)
        with Talk(server.port) as fifth:
            self.assertEqual(fifth.ask(raw(method='GET')).status, 200)
            self.assertTrue(talks[2].is_closed())
            for number in (1, 3):
                self.assertEqual(talks[number].ask(raw(method='GET')).status, 200)
            leave.set()
            self.assertEqual(talks[0].answer().body, b'/slow')
        for talk in talks:
            talk.sock.close()

    def test_whoever_only_drips_goes_when_nobody_is_idle_the_oldest_first(self):
        drips = []
        for number in range(1, 5):
            drips.append(self.talk())
            drips[-1].send(b'GET /')
            while [one.phase for one in list(self.server.connections.values())] != ['reading'] * number:
                time.sleep(0.001)                              # until its thread has seen the first byte
        self.assertEqual(self.talk().ask(raw(method='GET')).status, 200)
        self.assertTrue(drips[0].is_closed())

    def test_whoever_does_not_take_its_answer_is_cut_off_in_the_middle_of_it(self):
        answer = b'x' * 30_000_000                            # more than any system keeps for a reader
        server = wire.start('127.0.0.1', 0, lambda request: wire.Response(200, (), answer), self.limits)
        self.addCleanup(server.stop)
        greedy = []
        for number in range(6):
            greedy.append(Talk(server.port))
            self.addCleanup(greedy[-1].sock.close)
            greedy[-1].send(raw(method='GET'))
            until = time.monotonic() + PATIENCE_S
            while [one.phase for one in list(server.connections.values())] != ['sending'] * min(number + 1, 4):
                self.assertLess(time.monotonic(), until, 'its thread is not at it')
                time.sleep(0.001)
        for talk in greedy[:2]:
            self.assertLess(sum(map(len, iter(lambda: talk.sock.recv(1_000_000), b''))), len(answer))

    def test_the_order_in_which_connections_are_closed(self):
        def one(phase, since):
            connection = wire.Connection(None, '')
            connection.phase, connection.since = phase, since
            return connection
        busy, late, early, reading = one('busy', 1), one('idle', 3), one('idle', 2), one('reading', 1)
        self.assertIs(wire.first_to_close([busy, late, early, reading]), early)
        self.assertIs(wire.first_to_close([busy, reading]), reading)
        self.assertIsNone(wire.first_to_close([busy]))


class Stop(unittest.TestCase):
    def test_a_stop_answers_what_is_being_answered_and_takes_nothing_new(self):
        entered, leave = threading.Event(), threading.Event()

        def slow(request):
            entered.set()
            leave.wait(PATIENCE_S)
            return wire.Response(200, (), b'done')

        server = wire.start('127.0.0.1', 0, slow)
        with Talk(server.port) as busy, Talk(server.port) as idle:
            busy.send(raw(method='GET'))
            self.assertTrue(entered.wait(PATIENCE_S))
            stopper = threading.Thread(target=server.stop, args=(PATIENCE_S,))
            stopper.start()
            self.assertTrue(idle.is_closed())
            self.assertEqual(select.select([busy.sock], [], [], 0.1)[0], [], 'cut off while it was being answered')
            leave.set()
            answer = busy.answer()
            self.assertEqual((answer.body, answer.closes), (b'done', True))
            stopper.join(PATIENCE_S)
            self.assertFalse(stopper.is_alive())
        with self.assertRaises(OSError):
            Talk(server.port)

    def test_a_stop_does_not_wait_for_a_handler_longer_than_it_was_told(self):
        leave = threading.Event()
        entered = threading.Event()

        def stuck(request):
            entered.set()
            leave.wait(PATIENCE_S)
            return wire.Response(200, (), b'')

        server = wire.start('127.0.0.1', 0, stuck)
        with Talk(server.port) as talk:
            talk.send(raw(method='GET'))
            self.assertTrue(entered.wait(PATIENCE_S))
            server.stop(grace_s=0.05)
            self.assertTrue(talk.is_closed())
        leave.set()
        while server.connections:
            time.sleep(0.001)                                  # until its thread has ended too

    def test_no_thread_and_no_descriptor_is_left(self):
        if not os.path.isdir('/proc/self/fd'):
            self.skipTest('no /proc here')
        before = len(os.listdir('/proc/self/fd'))
        for _ in range(3):
            server = wire.start('127.0.0.1', 0, echo)
            for _ in range(5):
                with Talk(server.port) as talk:
                    talk.ask(raw(method='GET'))
            server.stop()
        self.assertEqual(len(os.listdir('/proc/self/fd')), before)


if __name__ == '__main__':
    unittest.main()
