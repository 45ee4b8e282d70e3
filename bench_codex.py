"""bench_codex.py - the five tables of article 3: rows, times, failures, kills, stderr.

Both strategies run against fake_codex.py, whose pauses are the article's; a figure that they fix is judged by the
span between two marks, any other by order. The stand-in runs as `python3 -I -S`: 6 ms to start instead of 32.

    python3 bench.py codex             50 s: 4 runs a strategy where the article has 20
    python3 bench.py codex --runs 20   the article's number, 2 minutes
    python3 bench.py codex --json      the same as one JSON object

Not here: what the wrapper costs (bench_wrap.py), the rivals (bench_peers.py).
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Sequence

import codex_cases
import ending
import published
import published_codex
import wrap
import wrap_command

# --- data ---------------------------------------------------------------------

RUNS = 4
DEADLINE_S, STDERR_DEADLINE_S = 3, 8     # the article's
LOOK_S = 0.3                             # after the return, as in the article
CODEX = [sys.executable, '-I', '-S', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fake_codex.py')]
ARGV = CODEX + ['exec', 'hi']
MARKS = {'first byte on stdout': 'first_byte', 'first completed item': 'first_item', 'answer available': 'answer',
         'process ended': 'exit'}
LOGIN = {'message': '401 Unauthorized: please log in'}

# An event of each row, and what is variable in the text that it becomes.
EVENTS = {
    'item.completed + agent_message': ({'type': 'agent_message', 'text': 'yes'}, 'yes', "the answer's text"),
    'item.completed + reasoning': ({'type': 'reasoning', 'text': 'look'}, 'look', '…'),
    'item.completed + command_execution': ({'type': 'command_execution', 'command': 'ls'}, 'ls', '<command>'),
    'item.completed + mcp_tool_call': ({'type': 'mcp_tool_call', 'server': 's', 'tool': 'read'}, 'read', '<tool>'),
    'item.completed + file_change': ({'type': 'file_change', 'changes': [{'path': '/a'}]}, '/a', '<path>'),
    'item.completed + todo_list': ({'type': 'todo_list', 'items': [{'text': 'do'}, {'text': 'do'}]}, 'do', '…'),
}
OTHERS = {
    'turn.completed': '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":1,"output_tokens":1}}',
    'turn.failed': json.dumps({'type': 'turn.failed', 'error': LOGIN}),
    'error': json.dumps({'type': 'error', **LOGIN}),
}
NOTHING = ('{"type":"turn.weather"}', '{"type":"item.completed","item":{"type":"telepathy"}}', '2026-11-30 a log line')


# --- rules --------------------------------------------------------------------

def rows_table() -> dict:
    told = {}
    for row, (item, variable, shown) in EVENTS.items():
        event = wrap.parse_codex_line(json.dumps({'type': 'item.completed', 'item': {'id': 'i', **item}}))
        told[row] = event.text.replace(variable, shown)
    for row, line in OTHERS.items():
        event = wrap.parse_codex_line(line)
        told[row] = (f'usage ({", ".join(event.usage)})' if event.kind == 'usage'
                     else event.kind + (', about the sign-in' if event.auth else ''))
    nothing = [wrap.parse_codex_line(line) for line in NOTHING] == [None] * len(NOTHING)
    told['an unknown event, an unknown item, no JSON'] = 'nothing' if nothing else 'something'
    return published.compare(published_codex.ROWS, {(row, 'becomes'): text for row, text in told.items()})


def error_of(answer: wrap.Answer) -> str:
    """What a caller is told, in the article's words."""
    if answer.status == 'partial':
        return 'answer kept, no error'
    error = answer.error or ''
    if error.startswith('no answer file'):
        return 'error: no answer file' + (', text of stderr' if answer.auth else '')
    if error.startswith('returned no output (') and 'panicked' in error:
        return 'error with the tail of stderr'
    return error + (', about the sign-in' if answer.auth else '')


def times_table(events: List[wrap.Answer], files: List[wrap.Answer], bare: List[float]) -> dict:
    seen: published.Figures = {('python3 -c pass', 'whole'): statistics.median(bare)}
    medians = {row: median(events, mark) for row, mark in MARKS.items()}
    rows = list(MARKS)
    seen[rows[0], 'events'] = published.Figure(medians[rows[0]], high=medians[rows[1]])
    for before, row in zip(rows, rows[1:]):      # in order: each mark after the one before it
        seen[row, 'events'] = published.Figure(medians[row], low=medians[before])
    exit_s, answer_s = median(files, 'exit'), median(files, 'answer')
    nothing = all(answer.timings['first_byte'] is None for answer in files)
    seen['first byte on stdout', 'file'] = seen['first completed item', 'file'] = 'none' if nothing else 'some'
    seen['answer available', 'file'] = published.Figure(answer_s, low=exit_s)
    seen['process ended', 'file'] = published.Figure(exit_s, low=medians['answer available'])
    for column, answers in (('events', events), ('file', files)):
        seen['runs that succeeded', column] = sum(answer.status == 'answered' for answer in answers)
    seen['from the first byte to the first item', 'events'] = span(events, 'first_byte', 'first_item')
    seen['from the first item to the answer', 'events'] = span(events, 'first_item', 'answer')
    seen['from the answer to the exit', 'events'] = span(events, 'answer', 'exit')
    seen['how much later the file has the answer', 'file'] = answer_s - medians['answer available']
    return published.compare(of_runs(published_codex.TIMES, len(events)), seen)


def of_runs(table: published.Table, runs: int) -> published.Table:
    """20 of 20 there; n of n here."""
    return table._replace(cells=[cell if cell.of in (None, runs) else cell._replace(
        of=None, judged='range', low=runs, high=runs, reason=f'of {runs} runs here, of {cell.of} there')
        for cell in table.cells])


def median(answers: Sequence[wrap.Answer], mark: str) -> float:
    return statistics.median(answer.timings[mark] or 0.0 for answer in answers)


def span(answers: Sequence[wrap.Answer], start: str, end: str) -> float:
    return statistics.median((answer.timings[end] or 0.0) - (answer.timings[start] or 0.0) for answer in answers)


# --- I/O ----------------------------------------------------------------------

def environment(mode: str, **more: str) -> Dict[str, str]:
    return {**os.environ, 'FAKE_CODEX': mode, **more}


def time_both(runs: int) -> dict:
    events, files, bare = [], [], []
    for n in range(runs):
        published.progress(f'events and file, run {n + 1} of {runs}')
        events.append(wrap.run_events(ARGV, 60, environment('ok')))
        files.append(wrap.run_file(ARGV, 60, environment('ok')))
        started = time.perf_counter()
        subprocess.run([sys.executable, '-c', 'pass'], check=True)
        bare.append(time.perf_counter() - started)
    return times_table(events, files, bare)


def fail_both() -> dict:
    seen: published.Figures = {}
    rows = {'crash before an answer': 'crash', 'sign-in (turn.failed 401)': 'auth',
            'killed after the message': 'killed', 'hangs past 3 s': 'hang'}
    for row, mode in rows.items():
        published.progress(f'failures: {row}')
        events = wrap.run_events(ARGV, DEADLINE_S, environment(mode))
        file = wrap.run_file(ARGV, DEADLINE_S, environment(mode))
        seen[row, 'exit'] = events.exit_status
        seen[row, 'events'], seen[row, 'file'] = error_of(events), error_of(file)
        if mode in ('crash', 'hang'):
            seen[row, 'events, after'], seen[row, 'file, after'] = events.timings['exit'], file.timings['exit']
    return published.compare(published_codex.FAILURES, seen)


def kill_both(folder: str) -> dict:
    seen: published.Figures = {}
    for row, group in (('p.kill()', False), ('new session + killpg', True)):
        published.progress(f'kills: {row}')
        began = time.monotonic()
        alive = after_deadline('hang', os.path.join(folder, row[0]), group)
        seen[row, 'returns after'] = time.monotonic() - began - LOOK_S
        seen[row, "the tool's process"] = 'still running' if alive else 'gone'
    row = 'ours, a tool in a session of its own'
    seen[row, "the tool's process"] = after_deadline('hang_session', os.path.join(folder, 'o'), True)
    return published.compare(published_codex.KILLS, seen)


def after_deadline(mode: str, pids: str, group: bool) -> int:
    """Let it hang past the deadline; how many of the tool's processes live LOOK_S after the return."""
    wrap.run_events(ARGV, DEADLINE_S, environment(mode, FAKE_CODEX_PIDS=pids), group=group)
    time.sleep(LOOK_S)
    alive = codex_cases.living(pids)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    return len(alive)


def drain_both() -> dict:
    published.progress('stderr: drained, and not')
    drained = wrap.run_events(ARGV, STDERR_DEADLINE_S, environment('trace'))
    late = wrap.run_events(ARGV, STDERR_DEADLINE_S, environment('trace'), drain_stderr=False)
    return published.compare(published_codex.STDERR, {
        ('what a pipe holds', 'bytes'): pipe_bytes(),
        ('drained beside stdout', 'answer after'): drained.timings['answer'] or drained.timings['exit'],
        ('read after stdout closes', 'result'): late.error or 'an answer'})


def pipe_bytes() -> int:
    """How much a child writes to a stderr that nobody reads, before it stands still."""
    script = 'import os, sys\nos.set_blocking(2, False)\nn = 0\ntry:\n    while True: n += os.write(2, b".")\n' \
             'except BlockingIOError:\n    print(n)'
    with subprocess.Popen([sys.executable, '-c', script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        return int(child.stdout.read())


def limits_table(folder: str) -> dict:
    seen = os.path.join(folder, 'seen')
    names = [cell.published for cell in published_codex.LIMITS.cells if cell.column == 'names'][0].split(', ')
    wrap.run_events(ARGV, 60, environment('quick', FAKE_CODEX_SEEN=seen, **dict.fromkeys(names, 'x')))
    with open(seen, encoding='utf-8') as file:
        there = json.load(file)['env']
    return published.compare(published_codex.LIMITS, {
        ('timeout of an autonomous run', 'seconds'): wrap_command.AUTONOMOUS_TIMEOUT_S,
        ('timeout of anything else', 'seconds'): wrap_command.TIMEOUT_S,
        ('tail of stderr that is kept', 'bytes'): len(trace_tail().encode()),
        ('variables taken out', 'names'): ', '.join(name for name in names if name not in there)})


def trace_tail() -> str:
    return wrap.run_events(ARGV, 60, environment('trace_line')).stderr_tail


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py codex', __doc__)
    parser.add_argument('--runs', type=int, default=RUNS,
                        help=f'runs a strategy in the table of times: {RUNS}; the article has 20')
    args = parser.parse_args(argv)
    if args.runs < 1:
        parser.error('--runs: at least 1')
    with tempfile.TemporaryDirectory(prefix='bench-') as folder:
        tables = [rows_table(), time_both(args.runs), fail_both(), kill_both(folder), drain_both(),
                  limits_table(folder)]
    published.progress('')
    return published.report('bench.py codex', tables, args.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
