"""runs_kill.py - the server really killed while the owner's click is under way, started again, clicked again.

Article 4, "Cosa si rompe senza compare-and-swap?" tests one crash, injected at one place. Here SIGKILL comes at a
random instant: every second time to the server alone, so that its git becomes an orphan, else to its git too. Table:
what was lost, doubled, left locked or answered wrongly; all of it must be nothing.

    python3 client.py crash --kill 30       1 min

Not here: the recovery (proposals.py, git_lock.py), the kills without HTTP (tests/test_article4.py).
"""
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from typing import Dict, Iterator, List

import host_signin
import published
import published_proposals as article
import runs_stage
from runs_proposals import REPOSITORY, Scene, git, make_repository, seed_state

# --- data ---------------------------------------------------------------------

LONGER = 1.3                              # the kill comes between the click and a little after its usual end
COLUMNS = [cell.column for cell in article.KILLED.cells]

# --- rules --------------------------------------------------------------------

def judge(path: str, proposal: str, answers: List[dict]) -> Dict[str, int]:
    """What one kill left, after the retry. `answers`: what was answered before the kill, if anything, and after."""
    count = git(path, 'log', '--format=%B', 'main').split('\n').count(f'Proposal: {proposal}')
    commits = {answer.get('commit') for answer in answers}
    right = all(answer['status'] == 'executed' for answer in answers) and len(commits) == 1
    locks = [name for _, _, names in os.walk(path) for name in names if name.endswith(('.lock', '.keep'))]
    return {'commits lost': int(count < 1), 'commits doubled': int(count > 1), 'locks left': len(locks),
            'wrong answers': int(not right), 'fsck complaints': 0}


# --- I/O ----------------------------------------------------------------------

def table(kills: int) -> dict:
    totals, draw = dict.fromkeys(COLUMNS, 0), random.Random(4)
    with tempfile.TemporaryDirectory(prefix='osfoundry-kill-') as folder:
        path, data = os.path.join(folder, REPOSITORY + '.git'), os.path.join(folder, 'data')
        os.mkdir(data, 0o700)
        seed_oid = make_repository(path)
        runs_stage.plant(data, seed_state)
        longest_s = LONGER * usual_s(data, path, seed_oid)
        for number in range(kills):
            published.progress(f'kill {number} of {kills}')
            for column, count in kill_once(data, path, seed_oid, number, draw.random() * longest_s).items():
                totals[column] += count
        totals['fsck complaints'] += len(git(path, 'fsck', '--strict', '--no-dangling').split())
    published.progress('')
    return published.compare(article.KILLED, {('kills', column): published.Figure(
        count, reason=f'of {kills} kills' if column == COLUMNS[0] else None) for column, count in totals.items()})


def usual_s(data: str, path: str, seed_oid: str) -> float:
    """How long a click takes on this machine now."""
    with playing(data, path, seed_oid) as scene:
        spent = []
        for number in range(5):
            proposal = scene.propose('app.py', f'measured {number}\n', f'measured-{number}')['proposal_id']
            started = time.monotonic()
            scene.decide(proposal)
            spent.append(time.monotonic() - started)
        return statistics.median(spent)


def kill_once(data: str, path: str, seed_oid: str, number: int, after_s: float) -> Dict[str, int]:
    answers: List[dict] = []
    with playing(data, path, seed_oid) as scene:
        proposal = scene.propose('app.py', f'{number}\n', f'kill-{number:06d}')['proposal_id']
        click = threading.Thread(target=try_to_approve, args=(scene, proposal, answers))
        click.start()
        threading.Event().wait(after_s)
        (os.killpg if number % 2 else os.kill)(scene.here.process.pid, signal.SIGKILL)
        click.join()
    with playing(data, path, seed_oid) as scene:
        try_to_approve(scene, proposal, answers)
    return judge(path, proposal, answers)


@contextmanager
def playing(data: str, path: str, seed_oid: str) -> Iterator[Scene]:
    """A server on the state and the repository that are there."""
    with runs_stage.server_on(data, ('--repo', path)) as here:
        yield Scene(here, path, here.claude('osfoundry:read osfoundry:write'), seed_oid)


def try_to_approve(scene: Scene, proposal: str, answers: List[dict]) -> None:
    try:
        answers.append(scene.decide(proposal)[1])
    except (OSError, host_signin.SignInError):
        pass                              # it was killed before it answered
