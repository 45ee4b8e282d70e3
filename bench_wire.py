"""bench_wire.py - wire.py beside the standard library's http.server: requests a second of an answer that costs nothing.

Article 7, "La ricostruzione": plain HTTP on loopback. The house rule is that a well-kept part of the standard library
beats our own code; this is the measurement behind the one exception. Both servers answer the same request with the
same bytes in one send, kept alive and with a new connection each, in turn, in one run. What http.server lacks besides
(one absolute deadline a request, refusal of folded and doubled headers) is in the tests of wire.py.

    python3 bench.py wire            6 s

Not here: the whole server with its checks (bench_server.py).
"""
import argparse
import http.server
import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import Dict, List, NamedTuple, Sequence

import ending
import published
import wire
from bench_server import is_whole, request_bytes
from published import Cell, Figure, Table

# --- data ---------------------------------------------------------------------

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"' + b'x' * 300 + b'"}],"isError":false}}'
ROUNDS, REQUESTS = 15, {'kept alive': 400, 'new connection each': 120}
OURS, THEIRS = 'wire.py', 'http.server'
FASTER = {'kept alive': 1.5, 'new connection each': 1.0}      # below that, our own code would not be worth its pages

TABLE = Table(7, 'wire.py beside http.server, an answer that costs nothing', [
    cell for way in REQUESTS for cell in (
        Cell(way, OURS, None, 'order', 'requests/s'),
        Cell(way, THEIRS, None, 'order', 'requests/s'),
        Cell(way, 'times faster', None, 'ratio', low=FASTER[way]))])


class Peer(NamedTuple):
    process: subprocess.Popen
    port: int


class Echo(http.server.BaseHTTPRequestHandler):
    """The same answer by the standard library, at its best: buffered, so that head and body leave in one send."""
    protocol_version, wbufsize, disable_nagle_algorithm = 'HTTP/1.1', -1, True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers['content-length']))
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *arguments: object) -> None:
        pass


# --- I/O ----------------------------------------------------------------------

def serve(name: str) -> None:
    """One of the two servers on a free port, until standard input ends."""
    if name == OURS:
        response = wire.Response(200, (('Content-Type', 'application/json'),), ANSWER)
        port = wire.start('127.0.0.1', 0, lambda request: response).port
    else:
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Echo)
        server.daemon_threads = True
        port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(port, flush=True)
    sys.stdin.read()


def start(name: str) -> Peer:
    process = subprocess.Popen([sys.executable, __file__, '--serve', name],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return Peer(process, int(process.stdout.readline()))


def ask(sock: socket.socket, request: bytes) -> None:
    sock.sendall(request)
    answer = b''
    while not is_whole(answer):
        answer += sock.recv(65536)


def rate(peer: Peer, way: str, requests: int) -> float:
    """Requests a second of one client."""
    request = request_bytes('/', peer.port, 'read', {})
    started = time.perf_counter()
    if way == 'kept alive':
        with socket.create_connection(('127.0.0.1', peer.port)) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(requests):
                ask(sock, request)
    else:
        for _ in range(requests):
            with socket.create_connection(('127.0.0.1', peer.port)) as sock:
                ask(sock, request)
    return requests / (time.perf_counter() - started)


def measure(rounds: int) -> Dict[tuple, object]:
    peers = {name: start(name) for name in (OURS, THEIRS)}
    rates: Dict[tuple, List[float]] = {}
    try:
        for number in range(rounds):
            published.progress(f'wire: round {number + 1} of {rounds}')
            for way, requests in REQUESTS.items():
                for name, peer in peers.items():
                    rates.setdefault((way, name), []).append(rate(peer, way, requests))
    finally:
        published.progress('')
        for peer in peers.values():
            peer.process.communicate()
    figures: Dict[tuple, object] = {}
    for way in REQUESTS:
        ours, theirs = (round(statistics.median(rates[way, name])) for name in (OURS, THEIRS))
        ratios = [mine / other for mine, other in zip(rates[way, OURS], rates[way, THEIRS])]
        figures.update({(way, OURS): Figure(ours, low=theirs), (way, THEIRS): Figure(theirs, high=ours),
                        (way, 'times faster'): Figure(round(statistics.median(ratios), 2))})
    return figures


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py wire', __doc__)
    parser.add_argument('--rounds', type=int, default=ROUNDS, help='each measures both servers; default %(default)s')
    parser.add_argument('--serve', choices=(OURS, THEIRS), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve(options.serve)
        return 0
    if options.rounds < 1:
        parser.error('--rounds must be at least 1')
    return published.report('bench.py wire', [published.compare(TABLE, measure(options.rounds))], options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
