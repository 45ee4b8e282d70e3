"""bench_proposals.py - what a proposal costs: by request, by process, and beside other ways to a commit.

Article 4, "Quanto costa?": five operations over HTTP in both modes on the article's processes, and on our one pack;
processes an operation, counted; which operation is dearer. Beyond the article: a whole approval (lock, intent, pack,
references, outcome, all synced) against its eight processes, pygit2 and dulwich, which sync nothing; the server's own
share of a replay and of a refusal; how it grows with 1,000 proposals and 10,000 references.

    python3 bench.py proposals               n = 200 an operation, as the article (3 min)
    python3 bench.py proposals --n 20        in half a minute

What is compared is measured in turn, in one run. Not here: the other ways themselves (bench_ways.py).
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import bench_ways
import ending
import git_plumbing
import git_repo
import published
import published_proposals as article
from bench_ways import Desk
from published import Cell, Figure
from runs_proposals import Scene, scene

# --- data ---------------------------------------------------------------------

N, WAYS_N, GROWTH_N, STARTS = 200, 15, 1_000, 20
WARM_UP = 3
REFERENCES = 10_000
QUIET_SYNC_MS = 1.0                       # a disk that others keep busy takes 3 to 10
SERVERS = {'CAS': ((), True), 'naive': (('--mode', 'naive'), True), 'one pack': ((), False)}    # (flags, plumbing)
Spent = Dict[str, List[float]]            # operation -> seconds

# --- rules --------------------------------------------------------------------

def median_ms(spent: Sequence[float]) -> float:
    return 1_000 * statistics.median(spent)


def p95_ms(spent: Sequence[float]) -> float:
    return 1_000 * sorted(spent)[len(spent) * 95 // 100]


def timed(work: Callable[[], Any]) -> Tuple[float, Any]:
    started = time.perf_counter()
    answer = work()
    return time.perf_counter() - started, answer


def five_operations(one: Scene, number: int) -> Dict[str, float]:
    """One round: each operation once, each answer checked."""
    new, replay, executed, stale, again = article.OPERATIONS
    seconds: Dict[str, float] = {}

    def step(name: str, wanted: str, work: Callable[[], Any]) -> dict:
        seconds[name], answer = timed(work)
        answer = answer[1] if isinstance(answer, tuple) else answer
        if answer.get('status') != wanted:
            raise AssertionError(f'{name}: {answer}')
        return answer

    def propose() -> dict:
        return one.propose('app.py', f'{number}\n', f'cost-a-{number:06d}')
    a = step(new, 'pending', propose)['proposal_id']
    step(replay, 'pending', propose)
    b = one.propose('README.md', f'{number}\n', f'cost-b-{number:06d}')['proposal_id']
    step(executed, 'executed', lambda: one.decide(a))
    step(stale, 'stale', lambda: one.decide(b))
    step(again, 'executed', lambda: one.decide(a))
    return seconds


def cost_tables(spent: Dict[str, Spent]) -> List[dict]:
    """The article's milliseconds, ours, and the orders that must hold."""
    new, replay, executed, stale, again = article.OPERATIONS
    here, order = {}, {}
    for name, operations in spent.items():
        columns = {'one pack': ('one pack, median', 'one pack, p95')}.get(name, (f'{name} median', f'{name} p95'))
        for row, seconds in operations.items():
            here[row, columns[0]], here[row, columns[1]] = median_ms(seconds), p95_ms(seconds)
    for name in ('CAS', 'naive'):
        middle = {row: statistics.median(seconds) for row, seconds in spent[name].items()}
        order['replay before new (propose)', name] = middle[replay] / middle[new]
        order['again before stale (approve)', name] = middle[again] / middle[stale]
        order['stale before executed (approve)', name] = middle[stale] / middle[executed]
    return [published.compare(article.COST, {}), published.compare(article.COST_HERE, here),
            published.compare(article.ORDER, order)]


def approval_cell(cell: Cell, spent: Dict[str, List[float]]) -> Tuple[Cell, Optional[Figure]]:
    """The cell as this run can judge it. Ours waits for the disk seven times and the eight processes never: on a disk
    that others keep busy the ratio is the disk's, so it is told and not judged."""
    if cell.column not in spent:
        return cell._replace(judged='not run here', low=None, reason='not installed'), None
    way, eight, sync_ms = spent[cell.column], spent[bench_ways.EIGHT], median_ms(spent[bench_ways.DISK])
    ratio = min(eight) / min(way)                         # as timeit advises: what is above it was other people's work
    told = (f'best of {len(way)}: {1_000 * min(way):.1f} ms against {1_000 * min(eight):.1f} ms, medians '
            f'{median_ms(way):.1f} and {median_ms(eight):.1f}')
    asked, most = f'at least {cell.low}', None
    if cell.judged != 'shown' and cell.column == 'pygit2':
        most = min(eight) / min(spent['one pack'])        # ours
        asked = f'at most {most:.3f}'
    if cell.judged != 'shown' and sync_ms > QUIET_SYNC_MS:
        cell, told = shown(cell), f'{told}; {busy_disk(asked, sync_ms)}'
    return cell, Figure(ratio, high=most, reason=told)


def shown(cell: Cell) -> Cell:
    return cell._replace(judged='shown', low=None, high=None)


def busy_disk(bound: str, sync_ms: float) -> str:
    return f'one sync took {sync_ms:.1f} ms, and {bound} is asked of a disk under {QUIET_SYNC_MS} ms'


# --- I/O ----------------------------------------------------------------------

def measure_cost(n: int) -> Dict[str, Spent]:
    """Three servers, one round on each in turn."""
    spent: Dict[str, Spent] = {name: {row: [] for row in article.OPERATIONS} for name in SERVERS}
    with ExitStack() as stack:
        scenes = {name: stack.enter_context(scene(*flags, plumbing=plumbing))
                  for name, (flags, plumbing) in SERVERS.items()}
        for number in range(WARM_UP + n):
            published.progress(f'cost: {number} of {WARM_UP + n}')
            for name, one in scenes.items():
                for row, seconds in five_operations(one, number).items():
                    spent[name][row] += [seconds] if number >= WARM_UP else []
    published.progress('')
    return spent


def count_processes(folder: str) -> dict:
    """The children that the repository itself counted, in the article's way and in ours; and what one costs."""
    figures = {}
    for name, kind, mode in (('CAS', git_plumbing.Plumbing, 'cas'), ('naive', git_plumbing.Plumbing, 'naive'),
                             ('one pack', git_repo.Repository, 'cas')):
        with Desk(os.path.join(folder, name), kind, bench_ways.small_tree()) as desk:
            a, b = desk.propose([('app.py', 'a\n')]), desk.propose([('app.py', 'b\n')])
            for operation, proposal in (('executed', a), ('refused as stale', b), ('already executed', a)):
                before = desk.repo.processes
                desk.decide(proposal, mode)
                figures[f'{name}, {operation}', 'processes'] = desk.repo.processes - before
            if mode == 'naive':
                c = desk.propose([('app.py', 'c\n')])
                figures['naive, between look and write', 'processes'] = desk.between(c)
    del figures['one pack, already executed', 'processes']
    starts = [timed(lambda: subprocess.run(['git', '--version'], stdout=subprocess.DEVNULL, check=True))[0]
              for _ in range(STARTS)]
    figures['one git process', 'time'] = round(median_ms(starts), 1)
    return published.compare(article.PROCESSES, figures)


def measure_ways(folder: str, n: int) -> dict:
    """A whole approval of ours, and every other way to the same commit, in turn."""
    cells, figures = [], {}
    for number, row in enumerate(article.WAYS):
        published.progress(f'ways: {row}')
        spent = bench_ways.in_turn(os.path.join(folder, f'ways-{number}'), row, n)
        for cell in article.APPROVAL.cells:
            if cell.row == row:
                cell, figure = approval_cell(cell, spent)
                cells.append(cell)
                if figure:
                    figures[cell.row, cell.column] = figure
    published.progress('')
    return published.compare(article.APPROVAL._replace(cells=cells), figures)


def measure_in_server(folder: str, n: int) -> dict:
    again, stale, commits = [], [], []
    with Desk(os.path.join(folder, 'in-server'), git_repo.Repository, bench_ways.small_tree()) as desk:
        for number in range(WARM_UP + n):
            a, b = desk.propose([('app.py', f'{number}\n')]), desk.propose([('README.md', f'{number}\n')])
            desk.decide(a)
            stale.append(timed(lambda: desk.decide(b))[0])
            again.append(timed(lambda: desk.decide(a))[0])
            commits.append(timed(desk.commit_once)[0])
    commit_ms = median_ms(commits[WARM_UP:])
    replay, refusal = article.IN_SERVER.cells
    refused = Figure(median_ms(stale[WARM_UP:]))
    if commit_ms > QUIET_SYNC_MS:
        refused = refused._replace(reason=busy_disk(f'at most {refusal.high} ms', commit_ms))
        refusal = shown(refusal)
    figures = {(replay.row, replay.column): median_ms(again[WARM_UP:]), (refusal.row, refusal.column): refused}
    return published.compare(article.IN_SERVER._replace(cells=[replay, refusal]), figures)


def measure_growth(folder: str, n: int) -> dict:
    """The same approval and replay before and after 1,000 proposals and 10,000 references."""
    with Desk(os.path.join(folder, 'growth'), git_repo.Repository, bench_ways.small_tree()) as desk:
        first = approve_some(desk, n)
        for number in range(GROWTH_N - 1):                    # the last is always the one that is measured
            published.progress(f'growth: {number} of {GROWTH_N}')
            desk.propose([('app.py', f'waiting {number}\n')])
        head = desk.repo.head('main')
        desk.repo.git('update-ref', '--stdin', text=''.join(f'create refs/heads/many/{number} {head}\n'
                                                            for number in range(REFERENCES)))
        then = approve_some(desk, n)
    published.progress('')
    row = '1,000 proposals, 10,000 references'
    return published.compare(article.GROWTH, {
        (row, f'{what}, times the first'): Figure(after / before, reason=f'{before:.2f} ms, then {after:.2f} ms')
        for what, before, after in zip(('approval', 'replay'), first, then)})


def approve_some(desk: Desk, n: int) -> Tuple[float, float]:
    approvals, replays = [], []
    for number in range(WARM_UP + n):
        proposal = desk.propose([('app.py', f'{number} {time.time_ns()}\n')])
        approvals.append(timed(lambda: desk.decide(proposal))[0])
        replays.append(timed(lambda: desk.decide(proposal))[0])
    return median_ms(approvals[WARM_UP:]), median_ms(replays[WARM_UP:])


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py proposals', __doc__)
    parser.add_argument('--n', type=int, default=N, help='an operation; default %(default)s, as the article')
    options = parser.parse_args(argv)
    if options.n < 1:
        parser.error('--n must be at least 1')
    few = min(options.n, WAYS_N)
    with tempfile.TemporaryDirectory(prefix='osfoundry-bench-') as folder:
        tables = [*cost_tables(measure_cost(options.n)), count_processes(folder), measure_ways(folder, few),
                  measure_in_server(folder, few * 3), measure_growth(folder, few)]
    return published.report('bench.py proposals', tables, options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
