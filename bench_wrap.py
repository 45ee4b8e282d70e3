"""bench_wrap.py - what the wrapper costs: the parser beside its floor, long lines, a start, a kill, memory.

Article 3 gives no figures for these; the bounds are ours. The floor of a parser is what none can do without: split at
newlines, decode, JSONDecoder.raw_decode, and nothing done with the result. The stream is that of a long session: its
agent thinks, reads 120 lines of a file, changes one and says so.

    python3 bench.py wrap             half a minute
    python3 bench.py wrap --json      the same as one JSON object

Not here: the article's tables (bench_codex.py).
"""
import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable, Iterator, List, Sequence

import ending
import published
import published_codex
import wrap
import wrap_kill
import wrap_stream

# --- data ---------------------------------------------------------------------

STREAM_BYTES = 100_000_000
READ_LINES = 120                 # of a file, by one command: Codex likes to read 200 at a time
STARTS, KILLS = 60, 15
READ_BYTES = 65_536              # what a pipe gives
HERE = os.path.dirname(os.path.abspath(__file__))
CODEX = [sys.executable, '-I', '-S', os.path.join(HERE, 'fake_codex.py')]
SHORT = b''.join(json.dumps(event, separators=(',', ':')).encode() + b'\n' for event in (
    {'type': 'thread.started', 'thread_id': '01a22de4-96e5-7912-968d-0bc3b9ec35a8'},
    {'type': 'turn.started'},
    {'type': 'item.completed', 'item': {'id': 'item_0', 'type': 'reasoning', 'text': '**Looking at the file**'}},
    {'type': 'item.completed', 'item': {'id': 'item_1', 'type': 'agent_message', 'text': 'Hello from the model.'}},
    {'type': 'turn.completed', 'usage': {'input_tokens': 100, 'cached_input_tokens': 40, 'output_tokens': 20}}))


# --- rules --------------------------------------------------------------------

def turns(rng: random.Random) -> Iterator[bytes]:
    """A long session, a few lines at a time, for ever."""
    number = 0
    while True:
        module, line = int(rng.random() * 40), int(rng.random() * 900)
        command = f"/bin/bash -lc 'sed -n {line},{line + READ_LINES}p src/module_{module}.py'"
        output = ''.join(f'{line + n:4d}    value = round(total / count, {n % 7})  # of module {module}\n'
                         for n in range(READ_LINES))
        call = {'type': 'command_execution', 'command': command}
        path = f'/project/src/module_{module}.py'
        yield b''.join((
            event('item.completed', number, type='reasoning', text='**Looking at the failing test**\n\nThe assertion '
                  'compares two floats; how is the value rounded before it is stored?'),
            event('item.started', number + 1, **call, aggregated_output='', exit_code=None, status='in_progress'),
            event('item.completed', number + 1, **call, aggregated_output=output, exit_code=0, status='completed'),
            event('item.completed', number + 2, type='file_change', changes=[{'path': path, 'kind': 'update'}],
                  status='completed'),
            event('item.completed', number + 3, type='agent_message', text='The rounding now happens when the value '
                  'is shown; what is stored keeps its precision.')))
        number += 4


def event(kind: str, number: int, **item: object) -> bytes:
    return json.dumps({'type': kind, 'item': {'id': f'item_{number}', **item}}, separators=(',', ':')).encode() + b'\n'


def batches(size: int) -> Iterator[List[bytes]]:
    """`size` bytes of a session as a pipe would give them, a megabyte at a time."""
    made, held, source = 0, b'', turns(random.Random(3))
    while made < size:
        while len(held) < 1_000_000:
            held += next(source)
        yield [held[at:at + READ_BYTES] for at in range(0, len(held), READ_BYTES)]
        made, held = made + len(held), b''


class Floor:
    """The least that any parser of such a stream must do."""

    def __init__(self) -> None:
        self._rest, self._decode = b'', json.JSONDecoder().raw_decode

    def feed(self, chunk: bytes) -> None:
        lines = (self._rest + chunk).split(b'\n')
        self._rest = lines.pop()
        for line in lines:
            self._decode(line.decode())


def cpu_s(feed: Callable[[bytes], object], chunks: Sequence[bytes]) -> float:
    began = time.process_time()
    for chunk in chunks:
        feed(chunk)
    return time.process_time() - began


def against_floor(source: Iterator[List[bytes]]) -> float:
    """CPU time of ours in times the floor's, alternating after every batch."""
    floor, ours = Floor(), wrap_stream.Reading()
    spent = {floor: 0.0, ours: 0.0}
    for n, chunks in enumerate(source):
        for parser in (floor, ours) if n % 2 else (ours, floor):
            spent[parser] += cpu_s(parser.feed, chunks)
    return spent[ours] / spent[floor]


def per_byte_ns(size: int) -> float:
    """One line of `size` bytes: the best of three."""
    head, tail = b'{"type":"item.completed","item":{"type":"agent_message","text":"', b'"}}\n'
    block = b'x' * READ_BYTES
    chunks = [head, *[block] * (size // READ_BYTES), tail]
    return min(cpu_s(wrap_stream.Reading().feed, chunks) for _ in range(3)) / size * 1e9


# --- I/O ----------------------------------------------------------------------

def start_ms() -> float:
    """What a run costs over a bare Popen of the same program: median of differences, alternated."""
    argv, env = ['/bin/sh', '-c', 'echo "{}"', '--json'], wrap.wrap_command.child_environment()
    options = wrap.Options(gentle_s=2.0, subreaper=wrap_kill.adopt_orphans())
    over = []
    for _ in range(STARTS):
        began = time.perf_counter()
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              bufsize=0, env=env, start_new_session=True) as bare:
            while bare.stdout.read(READ_BYTES):
                pass
            bare.wait()
        between = time.perf_counter()
        wrap.run_events(argv, 60, options=options)
        over.append((time.perf_counter() - between - (between - began)) * 1e3)
    return statistics.median(over)


def kill_ms(folder: str) -> float:
    """From the moment that ends a hanging run to the return, with every kind of tool to be found: median."""
    took, subreaper = [], wrap_kill.adopt_orphans()
    for n in range(KILLS):
        published.progress(f'kills: {n + 1} of {KILLS}')
        cancel, at = wrap.Cancel(), []

        def listen(told: wrap.Event) -> None:
            if told.text == 'Thinking: ready':
                at.append(time.perf_counter())
                cancel.cancel()

        env = {**os.environ, 'FAKE_CODEX': 'hang_brood', 'FAKE_CODEX_PIDS': os.path.join(folder, str(n))}
        wrap.run_events([*CODEX, 'exec', 'hi'], 60, env, on_event=listen,
                        options=wrap.Options(gentle_s=2.0, subreaper=subreaper, cancel=cancel))
        took.append((time.perf_counter() - at[0]) * 1e3)
        cancel.close()
    return statistics.median(took)


def peak_mb() -> float:
    """Of a fresh process that reads the whole stream through a pipe from another one."""
    me = [sys.executable, os.path.abspath(__file__)]
    done = subprocess.run([*me, '--read-stream'], stdout=subprocess.PIPE, check=True)
    return int(done.stdout) / 1e6


def read_stream() -> int:
    """In a process of its own: run the writer, and tell our own greatest size in bytes."""
    answer = wrap.run_events([sys.executable, os.path.abspath(__file__), '--write-stream'], 600)
    if answer.status != 'partial' or not answer.text:
        raise SystemExit(f'the stream was not read: {answer.status}, {answer.error}')
    unit = 1 if sys.platform == 'darwin' else 1_024
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    return 0


def write_stream() -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for chunks in batches(STREAM_BYTES):
        sys.stdout.buffer.write(b''.join(chunks))
    return 0


# --- main ---------------------------------------------------------------------

def measure(folder: str) -> published.Figures:
    seen: published.Figures = {}
    for text, place, work in (
            ('100 MB against the floor', ('100 MB of a long session', 'times the floor'),
             lambda: against_floor(batches(STREAM_BYTES))),
            ('short lines against the floor', ('lines of 81 bytes', 'times the floor'),
             lambda: against_floor([SHORT * 500] for _ in range(40))),
            ('100 MB through a pipe', ('100 MB of a long session', 'peak memory'), peak_mb),
            ('long lines', ('one line of 10 MB', 'per byte'), lambda: per_byte_ns(10_000_000)),
            ('long lines', ('one line of 100 MB', 'per byte'), lambda: per_byte_ns(100_000_000)),
            ('starts', ('a run that ends at once', 'over a bare Popen'), start_ms),
            ('kills', ('from the kill to the return', 'median'), lambda: kill_ms(folder))):
        published.progress(text)
        seen[place] = work()
    seen['one line of 100 MB', 'per byte'] = published.Figure(
        seen['one line of 100 MB', 'per byte'], high=3 * seen['one line of 10 MB', 'per byte'])
    return seen


def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py wrap', __doc__)
    parser.add_argument('--read-stream', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--write-stream', action='store_true', help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.read_stream or args.write_stream:
        return read_stream() if args.read_stream else write_stream()
    with tempfile.TemporaryDirectory(prefix='bench-') as folder:
        seen = measure(folder)
    published.progress('')
    return published.report('bench.py wrap', [published.compare(published_codex.COSTS, seen)], args.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
