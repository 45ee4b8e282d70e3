"""bench_access.py - what it costs to ask again at every call.

Article 7, "Quanto costa il controllo a ogni chiamata?": 1,000 calls, 500 allowed and 500 denied, median and p99,
with the state in memory as there; a tool call on loopback in both designs; the round trips of discovery. And what
the article could not measure: our check on the database, with 10, 10,000 and 1,000,000 items and as many
memberships.

    python3 bench.py access                 about 20 s, most of it building the large database
    python3 bench.py access --items 10,10000

The connections, items and memberships of each size are drawn at random, and all sizes are measured in turn, so that
a busy moment of the machine falls on all of them. Not here: requests a second of the whole server
(bench_server.py).
"""
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

import access
import ending
import host
import published
import published_access
import runs_access
import runs_stage
import workspace
from published import Figure
from published_access import PER_CALL, TOKEN_ONLY
from versioned import Database, Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

CALLS = 1_000                             # a run, as in the article: half allowed, half denied
RUNS = {PER_CALL: 6, TOKEN_ONLY: 3}       # as in the article
LOOPBACK_CALLS = 300
ITEMS = (10, 10_000, 1_000_000)
ITEMS_A_PROJECT, MEMBERSHIPS_A_CONNECTION = 5, 50
TOOL, NEEDS = 'read_note_tab', 'view'


class Memory(NamedTuple):
    """What a server without a database would hold."""
    projects: Dict[str, str]              # item -> the project it lies in
    members: Set[Tuple[str, str]]         # (connection, project)
    active: Set[str]
    at_issue: Dict[str, Tuple[str, ...]]  # connection -> what its token carries


Pair = Tuple[str, str]                    # (connection, item)
Check = Callable[[str, str], bool]


# --- rules --------------------------------------------------------------------

def in_memory(memory: Memory, connection: str, item: str) -> bool:
    """The same questions to sets and dicts: an active connection, a known item, a project that has both."""
    project = memory.projects.get(item)
    return connection in memory.active and project is not None and (connection, project) in memory.members


def in_memory_token_only(memory: Memory, connection: str, item: str) -> bool:
    """demo only: the projects that the token carries."""
    return memory.projects.get(item) in memory.at_issue[connection]


def on_database(tx: Tx, grant: access.Grant, item: str) -> bool:
    try:
        access.check(tx, grant, TOOL, NEEDS, Ref('note', item))
        return True
    except Refusal:
        return False


def time_calls(pairs: Sequence[Pair], allowed: Callable[[str, str], bool]) -> List[int]:
    """ns of each call; the first half of the pairs must be allowed, the second half denied."""
    spent, clock = [], time.perf_counter_ns
    for number, (connection, item) in enumerate(pairs):
        started = clock()
        answer = allowed(connection, item)
        spent.append(clock() - started)
        if answer != (number < len(pairs) // 2):
            raise AssertionError(f'{connection}, {item}: {answer}')
    return spent


def p99(spent: Sequence[int]) -> float:
    return sorted(spent)[len(spent) * 99 // 100] / 1_000


def median(spent: Sequence[int]) -> float:
    return statistics.median(spent) / 1_000


def spread(values: Sequence[float]) -> str:
    """From the best run to the worst."""
    return f'{min(values):.2f} to {max(values):.2f}'


def draw_memory(items: int, rng: random.Random) -> Memory:
    """`items` items and as many memberships: connection c is in MEMBERSHIPS_A_CONNECTION projects drawn at random."""
    projects = max(2, items // ITEMS_A_PROJECT)
    connections = max(1, items // MEMBERSHIPS_A_CONNECTION)
    members = set()
    each = min(MEMBERSHIPS_A_CONNECTION, projects // 2, items)
    at_issue = {}
    for connection in range(connections):
        drawn = {f'p{int(rng.random() * projects)}' for _ in range(each)}
        at_issue[f'c{connection}'] = tuple(drawn)
        members.update((f'c{connection}', project) for project in drawn)
    return Memory({f'n{item}': f'p{item % projects}' for item in range(items)}, members, set(at_issue), at_issue)


def draw_pairs(memory: Memory, rng: random.Random) -> List[Pair]:
    """CALLS calls: half of items in a project of the connection, half of items that are not."""
    connections, items = sorted(memory.at_issue), len(memory.projects)
    allowed, denied = [], []
    while len(allowed) < CALLS // 2 or len(denied) < CALLS // 2:
        connection = connections[int(rng.random() * len(connections))]
        project = memory.at_issue[connection][int(rng.random() * len(memory.at_issue[connection]))]
        allowed.append((connection, f'n{project[1:]}'))
        other = (connection, f'n{int(rng.random() * items)}')
        if not in_memory(memory, *other):
            denied.append(other)
    return allowed[:CALLS // 2] + denied[:CALLS // 2]


def fill(tx: Tx, memory: Memory) -> None:
    """The same world in access.py's tables."""
    workspace.add_person(tx, 'owner', 'Owner')
    workspace.create_workspace(tx, 'w', 'Workspace', 'owner')
    tx.executemany('INSERT INTO places VALUES (?, ?, ?, ?, 0, ?, ?)',
                   (('note', item, 'w', project, item, item) for item, project in memory.projects.items()))
    tx.executemany("INSERT INTO connections VALUES (?, 'w', 'owner', 'claude', 'x', 'active', 'owner', 1)",
                   ((connection,) for connection in memory.at_issue))
    tx.executemany('INSERT INTO project_members VALUES (?, ?)', sorted(memory.members))


# --- I/O ----------------------------------------------------------------------

@contextlib.contextmanager
def world(items: int) -> Iterator[Tuple[Memory, List[Pair], Check]]:
    """(the world in memory, its calls, the check on its database)."""
    rng = random.Random(items)
    memory = draw_memory(items, rng)
    with tempfile.TemporaryDirectory() as folder:
        db = Database(os.path.join(folder, 'state.db'), [workspace.SCHEMA, access.SCHEMA], synchronous='OFF')
        try:
            with db.write() as tx:
                fill(tx, memory)
            with db.read() as tx:
                grants = {name: access.Grant(name, 'w', 'owner', frozenset()) for name in memory.at_issue}
                yield memory, draw_pairs(memory, rng), lambda name, item: on_database(tx, grants[name], item)
        finally:
            db.close()


def measure_memory() -> Dict[Tuple[str, str], Figure]:
    """The article's first two columns: sets of a handful of projects, as in its reconstruction."""
    memory = draw_memory(10, random.Random(7))
    pairs = draw_pairs(memory, random.Random(8))
    checks = {PER_CALL: in_memory, TOKEN_ONLY: in_memory_token_only}
    runs: Dict[str, List[List[int]]] = {design: [] for design in checks}
    for number in range(-1, max(RUNS.values())):                       # the first round burns in
        for design, check in checks.items():
            spent = time_calls(pairs, lambda connection, item: check(memory, connection, item))
            if 0 <= number < RUNS[design]:
                runs[design].append(spent)
    figures = {}
    for design, spent_of_runs in runs.items():
        for column, judge in (('access() median', median), ('access() p99', p99)):
            values = [judge(spent) for spent in spent_of_runs]
            figures[design, column] = Figure(round(statistics.median(values), 2), reason=f'runs: {spread(values)} µs')
    return figures


def measure_loopback() -> Dict[Tuple[str, str], Figure]:
    """A read on a server of each design, a new connection each time, as the article's urllib made them."""
    figures, trips = {}, 0
    with contextlib.ExitStack() as stack:
        claudes: Dict[str, Tuple[host.Host, List[int]]] = {}
        for design, flags in ((PER_CALL, ()), (TOKEN_ONLY, ('--check', 'token_only'))):
            here = stack.enter_context(runs_stage.stage(runs_access.seed, flags))
            claude = here.claude()
            trips = runs_access.discover(claude, time.perf_counter())['round trips']
            claudes[design] = claude, []
        for number in range(LOOPBACK_CALLS):
            for claude, spent in claudes.values():
                started = time.perf_counter_ns()
                claude.call_once('list_project_resources', {})
                spent.append(time.perf_counter_ns() - started)
        for design, (_, spent) in claudes.items():
            figures[design, 'tool call on loopback, median'] = Figure(round(median(spent[10:]), 1))
    figures['discovery', 'round trips'] = Figure(trips)
    return figures


def measure_database(sizes: Sequence[int]) -> Dict[int, Dict[str, List[float]]]:
    """size -> {'in memory': medians, 'on the database': medians, 'p99': ...} of the runs, all sizes in turn."""
    found: Dict[int, Dict[str, List[float]]] = {}
    with contextlib.ExitStack() as stack:
        worlds = {}
        for size in sizes:
            published.progress(f'building {size:,} items and memberships')
            worlds[size] = stack.enter_context(world(size))
            found[size] = {'in memory': [], 'on the database': [], 'p99': []}
        published.progress('')
        for number in range(-1, RUNS[PER_CALL]):
            for size, (memory, pairs, check) in worlds.items():
                known = time_calls(pairs, lambda connection, item: in_memory(memory, connection, item))
                asked = time_calls(pairs, check)
                if number >= 0:
                    found[size]['in memory'].append(median(known))
                    found[size]['on the database'].append(median(asked))
                    found[size]['p99'].append(p99(asked))
    return found


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py access', __doc__)
    parser.add_argument('--items', default=','.join(map(str, ITEMS)), metavar='N,N,...',
                        help='items and memberships of the database; default %(default)s')
    options = parser.parse_args(argv)
    words = options.items.split(',')
    wrong = [word for word in words if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) >= 4)]
    if wrong or len(words) < 2:
        parser.error('--items takes at least two numbers of at least 4, such as 10,10000'
                     + (f': {wrong[0]!r} is none' if wrong else ''))
    sizes = [int(word) for word in words]
    cost = {**measure_memory(), **measure_loopback()}
    tables = [published.compare(published_access.COST, bounded(cost)), database_table(measure_database(sizes), cost)]
    return published.report('bench.py access', tables, options.json)


def bounded(cost: Dict[Tuple[str, str], Figure]) -> Dict[Tuple[str, str], Figure]:
    """Each check must be below the loopback call of its design, and each call above its check."""
    figures = dict(cost)
    for design in (PER_CALL, TOKEN_ONLY):
        call, check = cost[design, 'tool call on loopback, median'], cost[design, 'access() p99']
        figures[design, 'tool call on loopback, median'] = call._replace(low=check.here)
        for column in ('access() median', 'access() p99'):
            figures[design, column] = cost[design, column]._replace(high=call.here)
    return figures


def database_table(found: Dict[int, Dict[str, List[float]]], cost: Dict[Tuple[str, str], Figure]) -> dict:
    """Our own rows: the medians of the runs, how the check grows with the size, and its share of a call."""
    table, figures = published_access.on_database(sorted(found)), {}
    smallest, known = (statistics.median(found[min(found)][way]) for way in ('on the database', 'in memory'))
    call = cost[PER_CALL, 'tool call on loopback, median'].here
    for size, runs in found.items():
        here = statistics.median(runs['on the database'])
        row = f'{size:,} items'
        memory = statistics.median(runs['in memory'])
        figures[row, 'in memory'] = Figure(round(memory, 2))
        figures[row, 'in memory, against the smallest'] = Figure(round(memory / known, 2))
        figures[row, 'on the database'] = Figure(round(here, 1), reason=f'runs: {spread(runs["on the database"])} µs')
        figures[row, 'p99'] = Figure(round(statistics.median(runs['p99']), 1))
        figures[row, 'against the smallest'] = Figure(round(here / smallest, 2))
        figures[row, 'share of a loopback call'] = Figure(round(100 * here / call, 1))
    return published.compare(table, figures)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
