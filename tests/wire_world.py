"""A served workspace for the tests of the wire, and raw sockets to talk to it. Not a test module."""
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from tests import access_world

import access
import mcp
import server
import wire

TOP = access_world.TOP
READ_A = ('read_knowledge_article', {'knowledge_base_id': 'kb-a', 'article_id': 'refunds'})
PATIENCE_S = 60                     # how long a test waits for what must come; never a pause


def lasting_port():
    """A free port for all the lives of one server. Above these, the kernel gives ports to whoever asks for any: to
    another server while ours is down, or to the very client that knocks, which would then be talking to itself."""
    try:
        with open('/proc/sys/net/ipv4/ip_local_port_range', encoding='ascii') as file:
            end = int(file.read().split()[0])
    except OSError:
        end = 32_768
    while True:
        port = random.randrange(10_000, end) if end > 20_000 else 0
        try:
            with socket.socket() as probe:
                probe.bind(('127.0.0.1', port))
                return probe.getsockname()[1]
        except OSError:
            pass


class Served:
    """server.py's parts on a free port, with access_world's workspace behind them; `token` may do everything."""

    def __init__(self, limits=wire.Limits(), **flags):
        self.folder = tempfile.mkdtemp(prefix='wire-')
        self.running = server.start(server.Config(port=0, data=os.path.join(self.folder, 'data'), **flags), limits)
        self.port, self.url = self.running.config.port, self.running.url
        with self.running.state.db.write() as tx:
            access_world.build_workspace(tx)
            self.connection = access_world.connect(tx)
            access.add_to_project(tx, self.connection, 'project-a')
        self.token = self.new_token(access.SCOPES)

    def new_token(self, scopes, ttl_s=3600):
        with self.running.state.db.write() as tx:
            return access.issue_access_token(tx, self.connection, scopes, self.running.state.now_us(), ttl_s)

    def close(self):
        server.stop(self.running)
        shutil.rmtree(self.folder)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def closes(self):
        return self.headers.get('connection') == 'close'

    def __repr__(self):
        return f'{self.status} {self.headers} {self.body[:300]!r}'


class Talk:
    """One connection: bytes out, answers in. A context manager."""

    def __init__(self, port, host='127.0.0.1'):
        self.sock = socket.create_connection((host, port), timeout=PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)     # what is sent in pieces arrives in pieces
        self.unread = b''

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def answer(self, head_only=False):
        """The next answer, or None when the server has closed the connection instead."""
        while b'\r\n\r\n' not in self.unread:
            if not self._more():
                assert not self.unread, f'half an answer: {self.unread!r}'
                return None
        head, _, self.unread = self.unread.partition(b'\r\n\r\n')
        lines = head.decode('latin-1').split('\r\n')
        headers = {name.lower(): value for name, value in (line.split(': ', 1) for line in lines[1:])}
        status = int(re.fullmatch(r'HTTP/1\.1 ([0-9]{3}) .+', lines[0]).group(1))
        length = 0 if head_only else int(headers.get('content-length', 0))
        while len(self.unread) < length:
            assert self._more(), 'half a body'
        body, self.unread = self.unread[:length], self.unread[length:]
        return Answer(status, headers, body)

    def _more(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            data = b''
        self.unread += data
        return bool(data)

    def ask(self, data, **how):
        self.send(data)
        return self.answer(**how)

    def is_closed(self):
        return not self.unread and not self._more()


def raw(method='POST', path=mcp.ENDPOINT, body=b'', headers=(), host='127.0.0.1', length=True):
    """A request as bytes; `headers` is a sequence of raw lines."""
    lines = [f'{method} {path} HTTP/1.1'.encode()]
    if host is not None:
        lines.append(f'Host: {host}'.encode())
    lines += [line if isinstance(line, bytes) else line.encode('latin-1') for line in headers]
    if length and (body or method == 'POST'):
        lines.append(b'Content-Length: %d' % len(body))
    return b'\r\n'.join(lines) + b'\r\n\r\n' + body


def message(method, params=None, message_id=1, **more):
    """A JSON-RPC request as bytes; message_id None leaves it a notification."""
    body = {'jsonrpc': '2.0', 'method': method, **more}
    if params is not None:
        body['params'] = params
    if message_id is not None:
        body['id'] = message_id
    return json.dumps(body).encode()


def rpc(body, *headers, token=None, path=mcp.ENDPOINT, host='127.0.0.1'):
    """A well-framed POST to the endpoint."""
    lines = ['Content-Type: application/json', 'Accept: application/json, text/event-stream', *headers]
    if token:
        lines.append(f'Authorization: Bearer {token}')
    return raw(path=path, body=body, headers=lines, host=host)


class Process:
    """server.py as a process on a free port; its first lines are in `lines`."""

    def __init__(self, data, *flags, descriptors=None):
        command = [sys.executable, os.path.join(TOP, 'server.py'), '--port', '0', '--data', data, *flags]
        if descriptors is not None:
            command = ['sh', '-c', f'ulimit -n {descriptors} && exec "$@"', 'sh', *command]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True)
        self.lines = []
        for line in self.child.stdout:
            self.lines.append(line.rstrip('\n'))
            if line.startswith('stop it'):
                break
        said = dict(line.split(None, 1) for line in self.lines if ' ' in line)
        self.url, self.port = said.get('endpoint'), int(said.get('listens', ':0').rpartition(':')[2])

    def end(self, number=None):
        """Send a signal if given, wait, and return (exit status, standard error)."""
        if number is not None:
            self.child.send_signal(number)
        try:
            _, errors = self.child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise
        return self.child.returncode, errors
