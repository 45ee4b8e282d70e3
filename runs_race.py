"""runs_race.py - what breaks without compare-and-swap: two approvals at once, and a crash between git and database.

Article 4, "Cosa si rompe senza compare-and-swap?": each trial over HTTP against a server of its own mode, every
reported commit checked with git merge-base --is-ancestor. Tables: race; crash, then retry; and ours beyond the article:
one pack, two server processes on one state, and an approval against an ordinary git push.

    python3 client.py race                100 trials a run, two runs a mode, as the article (1 min)
    python3 client.py crash               50 trials a run (half a minute)
    python3 client.py crash --kill 30     and the server really killed, 30 times (1 min; runs_kill.py)

CAS and naive both run on the article's processes (--git plumbing), so that the difference is the transaction alone.
Not here: the transcript (runs_proposals.py), the decision (proposals.py).
"""
import argparse
import itertools
import os
import sys
import tempfile
import threading
from typing import Any, Callable, Dict, List, Sequence, Tuple

import ending
import git_process
import published
import published_proposals as article
import runs_kill
import runs_stage
from published import Figure
from runs_proposals import Scene, git, scene

# --- data ---------------------------------------------------------------------

RACE_TRIALS, CRASH_TRIALS, MORE_TRIALS, RUNS = 100, 50, 30, 2
UNRACED = 5                               # percent of the naive trials in which a busy machine may let nothing race
MODES = {article.CAS: (), article.NAIVE: ('--mode', 'naive')}
Counts = Dict[str, int]

# --- rules --------------------------------------------------------------------

def at_once(*works: Callable[[], Any]) -> List[Any]:
    """Run them in threads that a barrier releases at one instant. What one of them raises is raised here."""
    barrier, answers, errors = threading.Barrier(len(works)), [None] * len(works), []

    def run(number: int, work: Callable[[], Any]) -> None:
        try:
            barrier.wait()
            answers[number] = work()
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        barrier.abort()                   # a Ctrl-C before all were there: the first must not wait for the second
    if errors:
        raise errors[0]
    return answers


def race(first: Scene, second: Scene, trials: int, label: str) -> Counts:
    """Two proposals on one base, one click each, on the same server or on two."""
    counts, keys = {article.BOTH: 0, article.LOST: 0, article.EXECUTED: 0, article.WINNER: 0}, itertools.count(1)
    for trial in range(trials):
        published.progress(f'{label}: {trial} of {trials}')
        a = first.propose('README.md', f'{trial}\n', f'{label}-{next(keys):06d}')['proposal_id']
        b = first.propose('app.py', f'{trial}\n', f'{label}-{next(keys):06d}')['proposal_id']
        answers = [answer for _, answer in at_once(lambda: first.decide(a), lambda: second.decide(b))]
        done = [answer for answer in answers if answer['status'] == 'executed']
        stale = [answer for answer in answers if answer['status'] == 'stale']
        counts[article.BOTH] += len(done) == 2
        counts[article.LOST] += sum(not on_main(first.path, answer['commit']) for answer in done)
        counts[article.EXECUTED] += len(done) == len(stale) == 1
        counts[article.WINNER] += len(done) == len(stale) == 1 and stale[0]['branch_head'] == done[0]['commit']
    published.progress('')
    return counts


def against_push(one: Scene, trials: int, label: str) -> Counts:
    """An approval and somebody's ordinary push at one instant: whoever is told "done" must be on the branch."""
    counts = {article.LOST: 0, article.PUSHED: 0}
    with tempfile.TemporaryDirectory() as folder:
        clone = os.path.join(folder, 'clone')
        must(git_process.run(folder, ['clone', '--quiet', one.path, clone]))
        for trial in range(trials):
            published.progress(f'{label}: {trial} of {trials}')
            git_dir = os.path.join(clone, '.git')
            must(in_clone(git_dir, 'fetch', '--quiet', 'origin'))
            head = must(in_clone(git_dir, 'rev-parse', 'origin/main'))
            mine = must(in_clone(git_dir, 'commit-tree', head + '^{tree}', '-p', head, '-m', f'by hand {trial}'))
            proposal = one.propose('app.py', f'{trial}\n', f'{label}-{trial:06d}')['proposal_id']
            push = ('push', '--quiet', 'origin', f'{mine}:refs/heads/main')
            (_, answer), pushed = at_once(lambda: one.decide(proposal), lambda: in_clone(git_dir, *push))
            counts[article.LOST] += answer['status'] == 'executed' and not on_main(one.path, answer['commit'])
            counts[article.PUSHED] += pushed[0] == 0 and not on_main(one.path, mine)
    published.progress('')
    return counts


def in_clone(git_dir: str, *arguments: str) -> Tuple[int, str, str]:
    who = {f'GIT_{role}_{field}': 'mika' for role in ('AUTHOR', 'COMMITTER') for field in ('NAME', 'EMAIL')}
    return git_process.run(git_dir, arguments, environ=who)


def must(done: Tuple[int, str, str]) -> str:
    if done[0]:
        raise RuntimeError(done[2])
    return done[1].strip()


def on_main(path: str, commit: str) -> bool:
    return git_process.run(path, ['merge-base', '--is-ancestor', commit, 'refs/heads/main'])[0] == 0


def crash(one: Scene, trials: int, label: str) -> Counts:
    """Approve with a failure after the git step, approve again; the commits on main are counted before and after."""
    counts = {article.REPLAYED: 0, article.STALE: 0, article.DOUBLED: 0}
    for trial in range(trials):
        published.progress(f'{label}: {trial} of {trials}')
        before = int(git(one.path, 'rev-list', '--count', 'main'))
        proposal = one.propose('app.py', f'{trial}\n', f'{label}-{trial:06d}')['proposal_id']
        status, _ = one.decide(proposal, crash=True)
        if status != 500:
            raise RuntimeError(f'the injected crash answered HTTP {status}')
        _, answer = one.decide(proposal)
        counts[article.REPLAYED] += answer['status'] == 'executed' and answer.get('replayed') is True
        counts[article.STALE] += answer['status'] == 'stale'
        more = int(git(one.path, 'rev-list', '--count', 'main')) - before
        counts[article.DOUBLED] = max(counts[article.DOUBLED], more)
    published.progress('')
    return counts


def scaled(published_count: int, of: int, trials: int) -> Figure:
    """What must come out of another number of trials."""
    wanted = published_count * trials // of
    return Figure(None, wanted, wanted, None if trials == of else f'{trials} trials here')


def narrowed(table: published.Table, rows: Sequence[str], trials: int) -> published.Table:
    """The rows that were run; "of 100" only where it was 100."""
    return table._replace(cells=[cell._replace(of=cell.of if cell.of == trials else None)
                                 for cell in table.cells if cell.row in rows])


# --- I/O ----------------------------------------------------------------------

def race_table(trials: int, runs: int) -> dict:
    figures, rows = {}, []
    for mode, flags in MODES.items():
        for run in range(1, runs + 1):
            row = f'{mode}, run {run}'
            rows.append(row)
            with scene(*flags, plumbing=True) as one:
                counts = race(one, one, trials, f'race-{run}')
            for column in (article.BOTH, article.LOST):
                wanted = scaled(100 * (mode == article.NAIVE), 100, trials)
                if mode == article.NAIVE and counts[column] < trials:
                    wanted = wanted._replace(low=wanted.low * (100 - UNRACED) // 100, reason='in the others the first '
                                             'approval was over before the machine began the second')
                figures[row, column] = wanted._replace(here=counts[column])
    return published.compare(narrowed(article.RACE, rows, trials), figures)


def race_more_table(trials: int) -> dict:
    figures = {}
    with scene() as one:
        rows = {article.OURS_PACK: race(one, one, trials, 'pack')}
        with runs_stage.server_on(one.here.folder, ('--repo', one.path)) as there:
            rows[article.TWO_SERVERS] = race(one, one._replace(here=there), trials, 'two-servers')
        rows[article.PUSH] = against_push(one, trials, 'push-cas')
    with scene('--mode', 'naive', plumbing=True) as one:
        rows[article.PUSH_NAIVE] = against_push(one, trials, 'push-naive')
    for row, counts in rows.items():
        for column, count in counts.items():
            wanted = trials if column in (article.EXECUTED, article.WINNER) else 0
            figures[row, column] = Figure(count) if row == article.PUSH_NAIVE else Figure(count, wanted, wanted)
    return published.compare(article.RACE_MORE, figures)


def crash_tables(trials: int, runs: int) -> List[dict]:
    figures, more, rows = {}, {}, []
    for mode, flags in MODES.items():
        for run in range(1, runs + 1):
            row = f'{mode}, run {run}'
            rows.append(row)
            with scene('--inject-crash', *flags, plumbing=True) as one:
                counts = crash(one, trials, f'crash-{run}')
            wanted = article.REPLAYED if mode == article.CAS else article.STALE
            for column in (article.REPLAYED, article.STALE):
                figures[row, column] = scaled(50 * (column == wanted), 50, trials)._replace(here=counts[column])
            more[row, article.DOUBLED] = counts[article.DOUBLED]
    return [published.compare(narrowed(article.CRASH, rows, trials), figures),
            published.compare(narrowed(article.CRASH_MORE, rows, trials), more)]


# --- main ---------------------------------------------------------------------

def options_of(name: str, trials: int, argv: Sequence[str]) -> argparse.Namespace:
    parser = published.parser(f'client.py {name}', __doc__)
    parser.add_argument('--trials', type=int, default=trials, metavar='N',
                        help='a run; default %(default)s, as the article')
    parser.add_argument('--runs', type=int, default=RUNS, choices=(1, 2), help='a mode; default %(default)s')
    if name == 'race':
        parser.add_argument('--more', type=int, default=MORE_TRIALS, metavar='N',
                            help='trials of the rows that only we have; default %(default)s')
    else:
        parser.add_argument('--kill', type=int, default=0, metavar='N', help='also kill the server N times')
    options = parser.parse_args(argv)
    if options.trials < 1:
        parser.error('--trials must be at least 1')
    if min(getattr(options, 'more', 0), getattr(options, 'kill', 0)) < 0:
        parser.error(f'{"--more" if name == "race" else "--kill"} must be 0, for none, or more')
    return options


def race_main(argv: Sequence[str]) -> int:
    options = options_of('race', RACE_TRIALS, argv)
    tables = [race_table(options.trials, options.runs)]
    if options.more > 0:
        tables.append(race_more_table(options.more))
    return published.report('client.py race', tables, options.json)


def crash_main(argv: Sequence[str]) -> int:
    options = options_of('crash', CRASH_TRIALS, argv)
    tables = crash_tables(options.trials, options.runs)
    if options.kill > 0:
        tables.append(runs_kill.table(options.kill))
    return published.report('client.py crash', tables, options.json)


def main(argv: Sequence[str]) -> int:
    """Both, one after the other."""
    return max(race_main(argv), crash_main(argv))


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
