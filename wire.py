"""wire.py - sockets in, one send out: as much HTTP/1.1 as the connector needs, and no more.

Article 7, "La ricostruzione" (plain HTTP on loopback), and the loopback columns of articles 4 and 7.
A thread reads one connection: request after request, the whole body before any answer, and each answer
leaves in one send (head and body sent apart wait 40 ms for each other's acknowledgement on a kept-alive connection).
Strict where two readers could disagree: folded or doubled headers, two lengths, Transfer-Encoding are refused.

    server = start('127.0.0.1', 0, handle)      handle: Request -> Response, in the connection's thread
    server.stop()                               answers what is being answered, then closes

http.server is not underneath: it takes folded and doubled headers silently, its timeout is per receive, so that a
sender of one byte a minute holds a thread for ever, and its header parser (email's) takes 34 to 52 µs, ours 11.
Not here: routes, the gates of Host and Origin (server.py), JSON-RPC (mcp.py), TLS (a proxy's).
"""
import _thread
import errno
import re
import selectors
import socket
import sys
import threading
import time
import traceback
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

# --- data ---------------------------------------------------------------------


class Request(NamedTuple):
    method: str
    path: str                       # as sent, percent signs and all
    query: str                      # as sent, without the question mark
    headers: Dict[str, str]         # lower-case name -> value
    body: bytes
    peer: str                       # the sender's address


class Response(NamedTuple):
    status: int
    headers: Sequence[Tuple[str, str]]
    body: bytes


Handle = Callable[[Request], Response]


class Limits(NamedTuple):
    head_bytes: int = 32 * 1024
    header_lines: int = 100
    body_bytes: int = 4 * 1024 * 1024
    request_s: float = 20.0         # one absolute deadline from a request's first byte to its last
    idle_s: float = 75.0            # between requests, and for a client that does not take its answer
    connections: int = 1024         # then the longest idle one is closed first


class Head(NamedTuple):
    """What stands before the body, and what it says about where the body ends."""
    method: str
    path: str
    query: str
    headers: Dict[str, str]
    body_bytes: int
    keep_alive: bool
    wants_continue: bool


class BadRequest(Exception):
    """The framing cannot be trusted: answer with `status` and close, for the next byte may be anybody's."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


# Two different values would let two readers of one request see two requests.
SINGLE = frozenset(('authorization', 'content-length', 'content-type', 'expect', 'host', 'mcp-method', 'mcp-name',
                    'mcp-protocol-version', 'origin', 'transfer-encoding'))
WITHOUT_BODY = frozenset(('GET', 'HEAD', 'OPTIONS', 'DELETE', 'TRACE'))     # may leave Content-Length out
TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
REQUEST_LINE = re.compile(rf"({TOKEN}) (?:https?://([^/?#\s]+))?(/[!-~]*|\*) HTTP/1\.([01])")
NAME = re.compile(TOKEN)
CONTROL = re.compile(r'[\x00-\x08\x0a-\x1f\x7f]')      # a tab is the only one that a value may hold
LENGTH = re.compile(r'[0-9]{1,18}')                    # int() would take '+5', '1_0' and Arabic digits
FIRST_BYTE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z\r-]")
CHUNK_BYTES = 64 * 1024
LONG_PART = re.compile(r'[A-Za-z0-9_-]{20,}')          # of a path: in a log it may be a secret
LINGER_BYTES, LINGER_S = 8 * 1024 * 1024, 1.0          # read away after a refusal, so that the answer is not lost

# --- rules --------------------------------------------------------------------


def parse_head(text: str, limits: Limits) -> Head:
    """Request line and header lines, each ended by CRLF. Raises BadRequest."""
    lines = text.split('\r\n')
    if CONTROL.search(''.join(lines)):
        raise BadRequest(400, 'a control character, or a line not ended by CRLF, in the head')
    line = REQUEST_LINE.fullmatch(lines[0])
    if line is None:
        raise BadRequest(400, 'the first line must be METHOD /path HTTP/1.1')
    method, authority, target, minor = line.groups()
    headers = parse_fields(lines[1:-1], limits)
    if authority is not None:
        headers['host'] = authority                    # RFC 9112 3.2.2: the absolute form outranks Host
    elif minor == '1' and 'host' not in headers:
        raise BadRequest(400, 'Host is missing')
    path, _, query = target.partition('?')
    return Head(method, path, query, headers, body_length(method, headers, limits), keeps_alive(minor, headers),
                expects_continue(minor, headers))


def parse_fields(lines: Sequence[str], limits: Limits) -> Dict[str, str]:
    if len(lines) > limits.header_lines:
        raise BadRequest(431, f'more than {limits.header_lines} header lines')
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(':')
        if not colon or not NAME.fullmatch(name):      # a folded line begins with a space, and ends up here
            raise BadRequest(400, 'a header line must be name: value, unfolded, with no space before the colon')
        name, value = name.lower(), value.strip(' \t')
        if name not in headers:
            headers[name] = value
        elif name in SINGLE:
            raise BadRequest(400, f'{name} is given twice')
        else:
            headers[name] += ', ' + value
    return headers


def body_length(method: str, headers: Dict[str, str], limits: Limits) -> int:
    if 'transfer-encoding' in headers:
        raise BadRequest(411, 'Transfer-Encoding is not supported: send Content-Length')
    length = headers.get('content-length')
    if length is None:
        if method in WITHOUT_BODY:
            return 0
        raise BadRequest(411, 'Content-Length is missing')
    if not LENGTH.fullmatch(length):
        raise BadRequest(400, 'Content-Length must be a number')
    if int(length) > limits.body_bytes:
        raise BadRequest(413, f'the body may have at most {limits.body_bytes} bytes')
    return int(length)


def keeps_alive(minor: str, headers: Dict[str, str]) -> bool:
    if 'connection' not in headers:
        return minor == '1'
    options = [option.strip() for option in headers['connection'].lower().split(',')]
    return 'close' not in options and (minor == '1' or 'keep-alive' in options)


def expects_continue(minor: str, headers: Dict[str, str]) -> bool:
    expected = headers.get('expect', '').lower()
    if expected not in ('', '100-continue'):
        raise BadRequest(417, 'the only expectation supported is 100-continue')
    return expected != '' and minor == '1'


def check_headers(headers: Sequence[Tuple[str, str]]) -> None:
    """Raises ValueError rather than let a value start a header of its own."""
    for name, value in headers:
        if CONTROL.search(value) or not NAME.fullmatch(name):
            raise ValueError(f'the answer header {name!a} holds a control character')
        value.encode('latin-1')


def encode(response: Response, keep_alive: bool, now_s: int, head_only: bool = False) -> bytes:
    """The bytes of one answer, for one send."""
    lines = [status_line(response.status), f'Date: {http_date(now_s)}']
    lines += [f'{name}: {value}' for name, value in response.headers]
    if response.status not in (204, 304):
        lines.append(f'Content-Length: {len(response.body)}')
    lines.append('Connection: keep-alive' if keep_alive else 'Connection: close')
    head = '\r\n'.join(lines) + '\r\n\r\n'
    return head.encode('latin-1') + (b'' if head_only or response.status in (204, 304) else response.body)


@lru_cache(maxsize=64)
def status_line(status: int) -> str:
    return f'HTTP/1.1 {status} {HTTPStatus(status).phrase}'


@lru_cache(maxsize=2)
def http_date(now_s: int) -> str:
    return formatdate(now_s, usegmt=True)


def plain_error(status: int, code: str, message: str) -> Response:
    text = f'{{"error": "{code}", "message": "{message}"}}'       # both are ours: nothing to escape
    return Response(status, (('Content-Type', 'application/json'),), text.encode('ascii'))


def first_to_close(connections: Sequence['Connection']) -> Optional['Connection']:
    """Whose answer was ready longest ago; with none such the one that has been sending its request for longest; a busy
    one never."""
    waiting = [one for one in connections if one.phase != 'busy']
    return min(waiting, key=lambda one: (one.phase == 'reading', one.since)) if waiting else None


# --- I/O ----------------------------------------------------------------------

class Connection:
    """A socket, its bytes not read yet, and what it does now: that decides who is closed when there are too many."""
    __slots__ = ('sock', 'peer', 'unread', 'phase', 'since')

    def __init__(self, sock: socket.socket, peer: str):
        self.sock, self.peer, self.unread = sock, peer, bytearray()
        self.become('idle')

    def become(self, phase: str) -> None:
        """'idle' between requests, 'reading' one, 'busy' with it, 'sending' the answer, which makes it idle."""
        self.phase, self.since = phase, time.monotonic()


def read_request(connection: Connection, limits: Limits) -> Optional[Tuple[Head, bytes]]:
    """The next request, or None when the client is done. Raises BadRequest; OSError when the connection broke."""
    unread = connection.unread
    if not unread and not receive(connection, limits.idle_s):
        return None
    connection.become('reading')
    deadline = time.monotonic() + limits.request_s
    end = -1
    while end < 0:
        while unread.startswith(b'\r\n'):              # RFC 9112 2.2: some clients end a body with one
            del unread[:2]
        if unread and not FIRST_BYTE.match(unread):    # TLS, for example: no need to wait for the deadline
            raise BadRequest(400, 'this is not HTTP/1.1')
        end = unread.find(b'\r\n\r\n', 0, limits.head_bytes)
        if end < 0 and len(unread) >= limits.head_bytes:
            raise BadRequest(431, f'the head may have at most {limits.head_bytes} bytes')
        if end < 0 and not receive_by(connection, deadline):
            return None
    head = parse_head(unread[:end + 2].decode('latin-1'), limits)
    whole = end + 4 + head.body_bytes
    if len(unread) < whole and head.wants_continue:
        connection.sock.sendall(b'HTTP/1.1 100 Continue\r\n\r\n')
    while len(unread) < whole:
        if not receive_by(connection, deadline):
            return None
    body = bytes(unread[end + 4:whole])
    del unread[:whole]                                 # what is left is the next request, sent ahead
    return head, body


def receive_by(connection: Connection, deadline: float) -> bool:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise BadRequest(408, 'the request did not arrive in time')
    try:
        return receive(connection, remaining_s)
    except socket.timeout:
        raise BadRequest(408, 'the request did not arrive in time') from None


def receive(connection: Connection, timeout_s: float) -> bool:
    """Wait for more bytes; False when the client will send no more."""
    if connection.sock.gettimeout() != timeout_s:      # setting it costs a system call
        connection.sock.settimeout(timeout_s)
    data = connection.sock.recv(CHUNK_BYTES)
    connection.unread += data
    return bool(data)


def converse(connection: Connection, handle: Handle, limits: Limits, stopping: threading.Event) -> None:
    """One connection, from its first byte to its last. Raises OSError when the client went away."""
    keep_alive = True
    while keep_alive and not stopping.is_set():
        try:
            request = read_request(connection, limits)
        except BadRequest as bad:
            connection.become('sending')
            connection.sock.settimeout(limits.idle_s)
            connection.sock.sendall(encode(plain_error(bad.status, 'bad_request', str(bad)), False, int(time.time())))
            linger(connection.sock)
            return
        if request is None:
            return
        connection.become('busy')
        head, body = request
        response = respond(handle, Request(head.method, head.path, head.query, head.headers, body, connection.peer))
        keep_alive = head.keep_alive and not stopping.is_set()
        if connection.sock.gettimeout() != limits.idle_s:
            connection.sock.settimeout(limits.idle_s)
        # No longer busy before the send: whoever has the answer, or does not take it, may go to make room.
        connection.become('sending')
        connection.sock.sendall(encode(response, keep_alive, int(time.time()), head.method == 'HEAD'))
        connection.phase = 'idle'                      # since the answer was ready


def respond(handle: Handle, request: Request) -> Response:
    """The handler's answer, or a 500 without a word of what went wrong: that goes to the log, in one line."""
    try:
        response = handle(request)
        check_headers(response.headers)
        return response
    except Exception as error:
        log_fault(request, error)
        return plain_error(500, 'internal_error', 'the server failed; its log says more')


def log_fault(request: Request, error: Exception) -> None:
    """One line without query string, headers or body: they hold secrets, and so does the path of a one-time link.
    Names from outside are bounded and escaped."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    print(f'500 {request.method[:20]} {LONG_PART.sub("...", request.path)[:200]!a} {type(error).__name__} '
          f'at {where.filename.rpartition("/")[2]}:{where.lineno}', file=sys.stderr, flush=True)


def linger(sock: socket.socket) -> None:
    """Say that no more comes, and read away what the client still sends: closing at once would reset the
    connection, and a reset throws away the refusal that the client has not read yet."""
    sock.shutdown(socket.SHUT_WR)
    deadline, left = time.monotonic() + LINGER_S, LINGER_BYTES
    while left > 0 and time.monotonic() < deadline:
        sock.settimeout(max(0.01, deadline - time.monotonic()))
        data = sock.recv(CHUNK_BYTES)
        if not data:
            return
        left -= len(data)


class Server:
    """The listening socket, its connections, and the way to stop both."""

    def __init__(self, listener: socket.socket, handle: Handle, limits: Limits):
        self.port: int = listener.getsockname()[1]
        self.listener, self.handle, self.limits = listener, handle, limits
        self.connections: Dict[int, Connection] = {}
        self.changed = threading.Condition()           # guards connections
        self.stopping = threading.Event()
        self.wake, self.woken = socket.socketpair()    # closing a socket does not wake accept() everywhere
        self.acceptor = threading.Thread(target=self.accept_until_stopped, name='wire-accept', daemon=True)
        self.acceptor.start()

    def accept_until_stopped(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            selector.register(self.woken, selectors.EVENT_READ)
            while not self.stopping.is_set():
                selector.select()
                try:
                    sock, address = self.listener.accept()
                    self.admit(sock, str(address[0]))
                except OSError as error:               # gone again; or no descriptor left, so somebody has to go
                    if error.errno in (errno.EMFILE, errno.ENFILE):
                        self.close_one()
                    self.stopping.wait(0.01)

    def admit(self, sock: socket.socket, peer: str) -> None:
        sock.settimeout(self.limits.idle_s)            # also undoes what some systems inherit from the listener
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) >= self.limits.connections and not self.close_one():
            sock.close()                               # every one of them is being answered
            return
        connection = Connection(sock, peer)
        with self.changed:
            self.connections[id(connection)] = connection
        try:
            # threading.Thread.start waits until the new thread runs: 18 to 31 % fewer new connections a second.
            _thread.start_new_thread(self.attend, (connection,))
        except RuntimeError:                           # no thread to be had
            self.forget(connection)

    def attend(self, connection: Connection) -> None:
        try:
            converse(connection, self.handle, self.limits, self.stopping)
        except OSError:
            pass                                       # reset, timed out or closed by us: nobody is left to tell
        finally:
            self.forget(connection)

    def forget(self, connection: Connection) -> None:
        connection.sock.close()
        with self.changed:
            self.connections.pop(id(connection), None)
            self.changed.notify_all()

    def close_one(self) -> bool:
        """Make room: the thread of the one closed wakes from its receive, or a send that nobody takes, and ends."""
        with self.changed:
            victim = first_to_close(list(self.connections.values()))
            if victim is None:
                return False
            del self.connections[id(victim)]
            shut(victim, socket.SHUT_RDWR if victim.phase == 'sending' else socket.SHUT_RD)
        return True

    def stop(self, grace_s: float = 5.0) -> None:
        """Accept no more, read no more, answer what has arrived; after `grace_s` seconds close what is left."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        self.wake.send(b'.')
        self.acceptor.join()
        self.listener.close()
        deadline = time.monotonic() + grace_s
        with self.changed:
            for connection in self.connections.values():
                shut(connection, socket.SHUT_RD)
            while self.connections and time.monotonic() < deadline:
                self.changed.wait(max(0.0, deadline - time.monotonic()))
            for connection in self.connections.values():
                shut(connection, socket.SHUT_RDWR)
        self.wake.close()
        self.woken.close()


def shut(connection: Connection, how: int) -> None:
    """SHUT_RD wakes a waiting receive, and lets a request that had already arrived still be answered."""
    try:
        connection.sock.shutdown(how)
    except OSError:
        pass                                           # it was gone already


def listen(host: str, port: int) -> socket.socket:
    """A bound socket: its port is known before the first request is taken (port 0: any free one)."""
    listener = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def start(host: str, port: int, handle: Handle, limits: Limits = Limits()) -> Server:
    return Server(listen(host, port), handle, limits)
