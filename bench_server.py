"""bench_server.py - requests a second of tools/call with the full check, beside a server with no checks at all.

Article 7, "Quanto costa il controllo a ogni chiamata?", asked of the whole server: kept-alive connections and a new
one each, 1 and 8 clients, against the official `mcp` SDK's server (PyPI; stateless, JSON, quiet, a trivial tool, no
checks) and against our own server with its checks taken out. Then a client beside 500 idle and 64 dripping
connections, both eras of the protocol on the one endpoint, and the memory over 40,000 calls (--calls).

    python3 bench.py server                               25 s; without the SDK its columns stay empty
    python3 bench.py server --sdk VENV/bin/python         with it (an interpreter that has `mcp`)
    python3 bench.py server --calls 100000                memory after so many calls

The floors were set before building: at least 4.5 and 3.5 times the SDK kept alive (1 and 8 clients), 2 and 1.5 times
with new connections, 0.7 of our own server without checks; the aim is 7 times. All servers are measured in turn,
round after short round, by one client process with raw sockets; of each the best round counts.
Not here: the check alone (bench_access.py).
"""
import argparse
import json
import os
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import access
import ending
import kb_store
import mcp
import published
import server
import tools
import workspace
from published import Cell, Figure, Table
from versioned import Ref

# --- data ---------------------------------------------------------------------

MODES = (('kept alive', 1, 4.5), ('kept alive', 8, 3.5),          # clients, floor against the SDK
         ('new connection each', 1, 2.0), ('new connection each', 8, 1.5))
CHECKS_SHARE = 0.7                        # of our own server without checks
AIM = 7.0
ROUNDS, REQUESTS = 81, 50                 # of each server in each mode: short, so that a busy moment spoils few
IDLE, DRIPPING, DRIP_S = 500, 64, 0.2     # a byte of each dripping connection every DRIP_S
CROWDS, SETTLING = 4, 2_000               # times that the crowd comes and goes, and the calls after which it is in
CROWD_SHARE, ERA_SHARE = 0.85, 0.85
BURN_IN_CALLS, MEMORY_GROWTH = 20_000, 1.03
TEXT = 'x' * 200                          # what every server's tool answers

FULL, UNCHECKED, SDK = 'full check', 'without checks', 'mcp SDK'

# Run by an interpreter that has the SDK, in isolated mode: our mcp.py must not be the one it imports.
SDK_SERVER = f"""
import logging, sys
from mcp.server import MCPServer
logging.disable(logging.CRITICAL)
server = MCPServer('sdk', log_level='CRITICAL')

@server.tool()
def read() -> str:
    return {TEXT!r}

server.run('streamable-http', host='127.0.0.1', port=int(sys.argv[1]), json_response=True, stateless_http=True)
"""


class Peer(NamedTuple):
    """A server under measurement and the bytes of one call of its tool."""
    process: subprocess.Popen
    port: int
    request: bytes


class Rate(NamedTuple):
    a_second: float
    p50_us: float
    p99_us: float


# --- rules --------------------------------------------------------------------

def request_bytes(path: str, port: int, tool: str, arguments: dict, token: str = 'none', modern: bool = False) -> bytes:
    params: Dict[str, object] = {'name': tool, 'arguments': arguments}
    lines = ['MCP-Protocol-Version: 2025-11-25']
    if modern:
        params['_meta'] = {mcp.VERSION_KEY: mcp.MODERN_VERSIONS[0], mcp.CAPABILITIES_KEY: {}}
        lines = [f'MCP-Protocol-Version: {mcp.MODERN_VERSIONS[0]}', 'Mcp-Method: tools/call', f'Mcp-Name: {tool}']
    body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': params}).encode()
    head = '\r\n'.join([f'POST {path} HTTP/1.1', f'Host: 127.0.0.1:{port}', 'Content-Type: application/json',
                        'Accept: application/json, text/event-stream', f'Authorization: Bearer {token}', *lines,
                        f'Content-Length: {len(body)}', '', ''])
    return head.encode() + body


def is_whole(answer: bytes) -> bool:
    head, blank, body = answer.partition(b'\r\n\r\n')
    return bool(blank) and len(body) >= int(re.search(rb'(?i)content-length: *([0-9]+)', head).group(1))


def best(rates: Sequence[Rate]) -> Rate:
    """The best round, figure by figure: whatever else the machine does can only slow a round down."""
    a_second, p50, p99 = zip(*rates)
    return Rate(max(a_second), min(p50), min(p99))


# --- I/O ----------------------------------------------------------------------

def drive(peer: Peer, clients: int, requests: int, kept_alive: bool) -> Rate:
    """`requests` calls by `clients` connections at once, from one thread. Raises AssertionError on any failed call."""
    spent: List[float] = []
    begun = 0
    with selectors.DefaultSelector() as selector:
        def begin(sock: Optional[socket.socket]) -> None:
            nonlocal begun
            begun += 1
            started = time.perf_counter()
            if sock is None:
                sock = socket.create_connection(('127.0.0.1', peer.port))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(sock, selectors.EVENT_READ)
            selector.modify(sock, selectors.EVENT_READ, [started, b''])
            sock.sendall(peer.request)

        started = time.perf_counter()
        for _ in range(clients):
            begin(None)
        while len(spent) < requests:
            for key, _ in selector.select():
                sock, exchange = key.fileobj, key.data
                exchange[1] += sock.recv(65536)
                if not is_whole(exchange[1]):
                    continue
                spent.append(time.perf_counter() - exchange[0])
                assert exchange[1].startswith(b'HTTP/1.1 200') and b'"isError":false' in exchange[1], exchange[1][:500]
                if not kept_alive or begun == requests:
                    selector.unregister(sock)
                    sock.close()
                if begun < requests:
                    begin(sock if kept_alive else None)
        whole = time.perf_counter() - started
    spent.sort()
    return Rate(requests / whole, statistics.median(spent) * 1e6, spent[len(spent) * 99 // 100] * 1e6)


@contextmanager
def ours(kind: str) -> Iterator[Peer]:
    """Our server as a process of its own: this file, told to serve."""
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), 'serve', kind], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        port, token = process.stdout.readline().split()
        yield Peer(process, int(port), request_bytes(mcp.ENDPOINT, int(port), 'read_knowledge_article',
                                                     {'knowledge_base_id': 'kb', 'article_id': 'refunds'}, token))
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextmanager
def theirs(python: str) -> Iterator[Peer]:
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([python, '-I', '-c', SDK_SERVER, str(port)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(('127.0.0.1', port)).close()
                break
            except OSError:
                if time.monotonic() > give_up or process.poll() is not None:
                    raise RuntimeError('the SDK\'s server did not start') from None
                time.sleep(0.05)
        yield Peer(process, port, request_bytes('/mcp', port, 'read', {}))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def crowd(port: int) -> Iterator[None]:
    """IDLE connections that say nothing and DRIPPING that send a byte now and then, from another process."""
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), 'crowd', str(port)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def serve(kind: str) -> int:
    """The measured process: prints its port and a token, and answers until standard input ends."""
    folder = tempfile.mkdtemp(prefix='bench-')
    try:
        running = server.start(server.Config(port=0, data=os.path.join(folder, 'data')))
        with running.state.db.write() as tx:
            connection = plant(tx)
            token = access.issue_access_token(tx, connection, access.SCOPES, running.state.now_us(), 36_000)
            grant = access.authenticate(tx, token, running.state.now_us())
        if kind == UNCHECKED:             # the rules are looked up when they are used, so they can be taken out here
            access.authenticate = lambda *_: grant
            access.require_scope = lambda *_: None
            access.check = lambda *_: None
        print(running.config.port, token, flush=True)
        sys.stdin.read()
        server.stop(running)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def plant(tx: tools.Tx) -> str:
    """A workspace with one project, one knowledge base and one article; returns the connection that may read it."""
    workspace.add_person(tx, 'owner', 'Owner')
    workspace.create_workspace(tx, 'acme', 'Acme', 'owner')
    access.create_project(tx, 'launch', 'acme', 'Launch')
    kb_store.create_knowledge_base(tx, 'kb', 'Support')
    access.place(tx, Ref('knowledge_base', 'kb'), 'acme', 'launch', False, 'Support')
    article = {'knowledge_base_id': 'kb', 'article_id': 'refunds', 'title': 'Refund policy', 'content': TEXT}
    kb_store.create_article(tx, 'owner', article, 1)
    kb_store.publish_article(tx, 'owner', article, 2)
    connection = access.add_assistant(tx, 'acme', 'owner', 'claude', 'Claude research', 3)
    access.attach(tx, connection, 'acme', 'owner')
    access.add_to_project(tx, connection, 'launch')
    return connection


def crowd_until_told(port: int) -> int:
    def connect() -> socket.socket:
        return socket.create_connection(('127.0.0.1', port))
    idle = [connect() for _ in range(IDLE)]
    dripping = [connect() for _ in range(DRIPPING)]
    for sock in dripping:
        sock.sendall(b'POST / HTTP/1.1\r\nX: ')
    print('there', flush=True)
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        while not selector.select(DRIP_S):
            for place, sock in enumerate(dripping):
                try:
                    sock.sendall(b'x')
                except OSError:           # it met its deadline: another one takes its place
                    sock.close()
                    dripping[place] = connect()
                    dripping[place].sendall(b'POST / HTTP/1.1\r\nX: ')
    for sock in idle + dripping:
        sock.close()
    return 0


def resident_kib(process: subprocess.Popen) -> int:
    return int(subprocess.run(['ps', '-o', 'rss=', '-p', str(process.pid)], stdout=subprocess.PIPE, check=True).stdout)


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    if argv[:1] == ['serve'] and len(argv) == 2:
        return serve(argv[1])
    if argv[:1] == ['crowd'] and len(argv) == 2:
        return crowd_until_told(int(argv[1]))
    options = parse(argv)
    with ExitStack() as stack:
        full, unchecked = stack.enter_context(ours(FULL)), stack.enter_context(ours(UNCHECKED))
        sdk = stack.enter_context(theirs(options.sdk)) if options.sdk else None
        peers = {FULL: full, UNCHECKED: unchecked, **({SDK: sdk} if sdk else {})}
        tables = [rates_table(peers, options), crowd_table(full, options), era_table(full, options),
                  memory_table(full, options.calls)]
    published.progress('')
    return published.report('bench.py server', tables, options.json)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = published.parser('bench.py server', __doc__)
    parser.add_argument('--sdk', metavar='PYTHON', help='an interpreter that has the mcp package (PyPI)')
    parser.add_argument('--rounds', type=int, default=ROUNDS, help='default %(default)s')
    parser.add_argument('--requests', type=int, default=REQUESTS,
                        help='of each server in each round; default %(default)s')
    parser.add_argument('--calls', type=int, default=2 * BURN_IN_CALLS, help='for the memory; default %(default)s')
    options = parser.parse_args(argv)
    if options.rounds < 1 or options.requests < 20 or options.calls <= BURN_IN_CALLS:
        parser.error(f'--rounds must be at least 1, --requests at least 20, --calls more than {BURN_IN_CALLS}')
    if options.sdk and not shutil.which(options.sdk):
        parser.error(f'--sdk: {options.sdk} is no program')
    return options


def rates_table(peers: Dict[str, Peer], options: argparse.Namespace) -> dict:
    cells: List[Cell] = []
    figures: Dict[Tuple[str, str], Figure] = {}
    for mode, clients, floor in MODES:
        row = f'{mode}, {clients} client{"s" if clients > 1 else ""}'
        published.progress(row)
        found: Dict[str, List[Rate]] = {name: [] for name in peers}
        for number in range(-1, options.rounds):               # the first round burns in
            for name, peer in peers.items():
                rate = drive(peer, clients, options.requests // (2 if name == SDK else 1), mode == 'kept alive')
                if number >= 0:
                    found[name].append(rate)
        row_cells, row_figures = rates_row(row, floor, found)
        cells += row_cells
        figures.update(row_figures)
    return published.compare(Table(7, 'tools/call with the full check, a server of our own each', cells), figures)


def rates_row(row: str, floor: float, found: Dict[str, List[Rate]]) -> Tuple[List[Cell], Dict[Tuple[str, str], Figure]]:
    """Our rate must be above the SDK's, and our times below."""
    here = best(found[FULL])
    figures = {(row, 'requests a second'): Figure(round(here.a_second)), (row, 'p50'): Figure(round(here.p50_us)),
               (row, 'p99'): Figure(round(here.p99_us)),
               (row, 'of ours without checks'): ratio(found[FULL], found[UNCHECKED], CHECKS_SHARE)}
    judged, reason = 'not run here', 'beside the SDK only: --sdk PYTHON'
    if SDK in found:
        judged, reason, other = 'order', None, best(found[SDK])
        for column, side, bound in (('requests a second', 'low', other.a_second), ('p50', 'high', other.p50_us),
                                    ('p99', 'high', other.p99_us)):
            figures[row, column] = figures[row, column]._replace(**{side: round(bound)})
        times = ratio(found[FULL], found[SDK], floor)
        figures[row, 'against the mcp SDK'] = times._replace(reason=f'{times.reason}; the aim is {AIM:g} times')
    cells = [Cell(row, 'requests a second', None, judged, reason=reason), Cell(row, 'p50', None, judged, 'µs'),
             Cell(row, 'p99', None, judged, 'µs'), Cell(row, 'of ours without checks', None, 'ratio'),
             Cell(row, 'against the mcp SDK', None, 'ratio' if SDK in found else judged)]
    return cells, figures


def ratio(ours: Sequence[Rate], others: Sequence[Rate], floor: float) -> Figure:
    """Best round against best round; the medians are told beside it."""
    here, other = best(ours).a_second, best(others).a_second
    medians = [statistics.median(rate.a_second for rate in rates) for rates in (ours, others)]
    return Figure(round(here / other, 2), low=floor,
                  reason=f'{here:,.0f} against {other:,.0f} a second; medians of {len(ours)} rounds {medians[0]:,.0f} '
                         f'and {medians[1]:,.0f}')


def crowd_table(peer: Peer, options: argparse.Namespace) -> dict:
    alone, beside = [], []
    published.progress(f'beside {IDLE} idle and {DRIPPING} dripping connections')
    for _ in range(CROWDS):
        alone += [drive(peer, 1, options.requests, True) for _ in range(options.rounds // CROWDS + 1)]
        with crowd(peer.port):
            drive(peer, 1, SETTLING, True)                    # until every one of them has been let in
            beside += [drive(peer, 1, options.requests, True) for _ in range(options.rounds // CROWDS + 1)]
    row = f'beside {IDLE} idle and {DRIPPING} dripping'
    table = Table(7, 'One more client', [Cell(row, 'of its rate alone', None, 'ratio')])
    return published.compare(table, {(row, 'of its rate alone'): ratio(beside, alone, CROWD_SHARE)})


def era_table(peer: Peer, options: argparse.Namespace) -> dict:
    token = re.search(rb'Bearer (\S+)', peer.request).group(1).decode()
    modern = peer._replace(request=request_bytes(mcp.ENDPOINT, peer.port, 'read_knowledge_article',
                                                 {'knowledge_base_id': 'kb', 'article_id': 'refunds'}, token, True))
    found: Tuple[List[Rate], List[Rate]] = ([], [])
    published.progress('both eras')
    for number in range(options.rounds):
        for rates, one in zip(found, (peer, modern)):
            rates.append(drive(one, 1, options.requests, True))
    table = Table(7, 'Two eras on one endpoint', [Cell('2025-11-25', 'of the rate of 2026-07-28', None, 'ratio')])
    return published.compare(table, {('2025-11-25', 'of the rate of 2026-07-28'): ratio(*found, ERA_SHARE)})


def memory_table(peer: Peer, calls: int) -> dict:
    published.progress(f'{calls:,} calls for the memory')
    drive(peer, 8, BURN_IN_CALLS, True)
    before = resident_kib(peer.process)
    drive(peer, 8, calls - BURN_IN_CALLS, True)
    after = resident_kib(peer.process)
    row = f'{calls:,} calls'
    table = Table(7, 'Resident memory', [Cell(row, f'of the size after {BURN_IN_CALLS:,}', None, 'ratio')])
    return published.compare(table, {(row, f'of the size after {BURN_IN_CALLS:,}'): Figure(
        round(after / before, 3), high=MEMORY_GROWTH, reason=f'{before:,} KiB, then {after:,} KiB')})


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
