"""wrap_kill.py - ends everything that a run started, and nothing else.

Article 3, "Cosa uccide davvero un timeout?". The article's killpg reaches the group; a real Codex starts each
tool in a session of its own, outside that group. So on Linux a run is found by four signs at once: its group,
its session, a mark in the environment of every process it started, and descent; orphans come to us when this
process is a subreaper. Elsewhere there is no /proc: the group alone is ended.

Copied out together with the other wrap files. Not here: when to end a run (wrap_process.py).
"""
import ctypes
import os
import signal
import sys
import threading
import time
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set

# --- data ---------------------------------------------------------------------

MARK = 'CODEX_WRAP_RUN'          # in the child's environment: a random name of the run
GONE_S = 10.0                    # SIGKILL returns before the kernel has obeyed: milliseconds, but for a machine in need
ROUNDS = 50                      # of stop and look again, until nothing new appears
PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform.startswith('linux')


class Process(NamedTuple):
    """A line of /proc/PID/stat. `start` in clock ticks since boot: with it a pid names one process for ever."""
    pid: int
    state: str
    parent: int
    group: int
    session: int
    start: int


class Run(NamedTuple):
    """Who belongs to a run: whoever shares its leader's group or session, bears its mark, or descends from these."""
    mark: str
    before: FrozenSet[int]       # our children when it began: never its orphans
    adopts: bool                 # this process is a subreaper: the run's orphans become our children
    leader: int = 0              # pid, and so the id of its group and session
    start: int = 0


Known = Dict[int, int]           # pid -> start, of every process of the run seen so far

# Runs that this process has going. An orphan without a mark could be any one's.
_active: Set[str] = set()
_lock = threading.Lock()


# --- rules --------------------------------------------------------------------

def members(run: Run, processes: Dict[int, Process], known: Known) -> Known:
    """The living processes of `run`; `known` are those found earlier, whose parents may be gone by now."""
    found = {pid for pid, start in known.items() if pid in processes and processes[pid].start == start}
    owner = processes.get(run.leader)
    recycled = owner is not None and owner.start != run.start    # the number of a group that is no longer ours
    claims = run.adopts and may_claim_orphans(run)
    for p in processes.values():
        if not recycled and run.leader in (p.group, p.session) or mark_of(p.pid) == run.mark:
            found.add(p.pid)
        elif claims and is_orphan(run, p):
            found.add(p.pid)
    found |= descendants(found, processes)
    found.discard(os.getpid())
    return {pid: processes[pid].start for pid in found if processes[pid].state not in 'ZX'}


def is_orphan(run: Run, p: Process) -> bool:
    """Whether `p` was adopted from `run`: a child of ours that came later, in a session that is not ours."""
    return (p.parent == os.getpid() and p.pid not in run.before
            and p.session != os.getsid(0) and mark_of(p.pid) is None)


def may_claim_orphans(run: Run) -> bool:
    """With two runs going, an orphan that has shed its mark may be the other's: the last one takes it."""
    with _lock:
        return not _active - {run.mark}


def descendants(roots: Set[int], processes: Dict[int, Process]) -> Set[int]:
    children: Dict[int, List[int]] = {}
    for p in processes.values():
        children.setdefault(p.parent, []).append(p.pid)
    found, queue = set(), list(roots)
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in found and pid not in roots:
                found.add(pid)
                queue.append(pid)
    return found


# --- I/O ----------------------------------------------------------------------

def adopt_orphans() -> bool:
    """Become the subreaper: processes that lose their parent come to us instead of to init.

    For the whole process and for ever, so a program chooses it, not a library.
    """
    if not LINUX:
        return False
    try:
        return ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def begin(mark: str, adopts: bool) -> Run:
    """Note what was there before the run. Its leader is not known yet: `started` adds it."""
    with _lock:
        _active.add(mark)
    return Run(mark, our_children() if adopts else frozenset(), adopts)


def started(run: Run, leader: int) -> Run:
    process = read_stat(str(leader)) if LINUX else None
    return run._replace(leader=leader, start=process.start if process else 0)


def end(run: Run) -> None:
    with _lock:
        _active.discard(run.mark)


def our_children() -> FrozenSet[int]:
    if not any_child():
        return frozenset()
    return frozenset(p.pid for p in table().values() if p.parent == os.getpid())


def any_child() -> bool:
    """Whether this process has any child at all: one system call, where reading /proc costs a millisecond."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def table() -> Dict[int, Process]:
    found = {}
    for name in os.listdir('/proc'):
        if name.isdigit():
            process = read_stat(name)
            if process is not None:
                found[process.pid] = process
    return found


def read_stat(pid: str) -> Optional[Process]:
    raw = read_small(f'/proc/{pid}/stat')
    if raw is None:
        return None
    # The name, in parentheses, may hold anything, also a parenthesis: fields count from the last one.
    fields = raw[raw.rfind(b')') + 2:].split()
    return Process(int(pid), fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def mark_of(pid: int) -> Optional[str]:
    raw = read_small(f'/proc/{pid}/environ')
    at = -1 if raw is None else (b'\0' + raw).find(b'\0' + MARK.encode() + b'=')
    if raw is None or at < 0:
        return None
    return raw[at + len(MARK) + 1:].split(b'\0', 1)[0].decode('ascii', 'replace')


def read_small(path: str) -> Optional[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:                                 # gone meanwhile, or somebody else's
        return None
    try:
        return os.read(fd, 1 << 20)
    except OSError:
        return None
    finally:
        os.close(fd)


def signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):   # gone; or macOS, where a group of zombies answers EPERM
        pass


def group_alive(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return LINUX
    return True


def send(pid: int, start: int, number: int) -> None:
    """Signal this process and not one that got its pid since: the descriptor holds it while we compare."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError) as error:
        if isinstance(error, ProcessLookupError):
            return
        fd = -1                                     # a kernel before 5.3: the comparison alone
    try:
        now = read_stat(str(pid))
        if now is not None and now.start == start:
            if fd >= 0:
                signal.pidfd_send_signal(fd, number)
            else:
                os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        if fd >= 0:
            os.close(fd)


def snapshot(run: Run) -> Known:
    """Everything of the run that lives now: taken before the first signal, while descent can still be seen."""
    return members(run, table(), {}) if LINUX else {}


def anything_left(run: Run) -> bool:
    """After a normal end, with the leader reaped: whether a sweep is worth its scan.

    For a subreaper, an empty group and no child at all prove that nothing is left. Otherwise only a scan can tell.
    """
    return group_alive(run.leader) or LINUX and (not run.adopts or any_child())


def sweep(run: Run, known: Known) -> int:
    """SIGKILL all of the run, wait until it is gone, and return how many would not go."""
    if not LINUX:
        return sweep_group(run.leader)
    deadline = time.monotonic() + GONE_S
    known = dict(known)
    while True:
        stand_still(run, known)
        for pid, start in known.items():
            send(pid, start, signal.SIGKILL)
        living = await_end(run, known, deadline)
        if time.monotonic() > deadline or not members(run, table(), {}):
            reap_orphans(run)
            return living


def stand_still(run: Run, known: Known) -> None:
    """Add to `known` all that is there, each stopped at once: what runs could start another while we look."""
    for _ in range(ROUNDS):
        found = members(run, table(), known)
        new = {pid: start for pid, start in found.items() if known.get(pid) != start}
        for pid, start in new.items():
            send(pid, start, signal.SIGSTOP)
        known.update(new)
        if not new:
            return


def await_end(run: Run, known: Known, deadline: float) -> int:
    """Wait until `known` is gone; the number that is not by the deadline."""
    while True:
        living = sum(is_alive(run, pid, start) for pid, start in known.items())
        if not living or time.monotonic() > deadline:
            return living
        time.sleep(0.001)


def is_alive(run: Run, pid: int, start: int) -> bool:
    """Whether it still runs. An orphan of the run that came to us is reaped, and only that: `waitpid(-1)` would
    take other children's statuses, and the leader's belongs to its Popen."""
    now = read_stat(str(pid))
    if now is None or now.start != start:
        return False
    if now.state not in 'ZX':
        return True
    if now.parent == os.getpid() and pid != run.leader:
        reap(pid)
    return False


def reap_orphans(run: Run) -> None:
    """Those that came to us and ended by themselves: a subreaper owes them what init would have done."""
    if run.adopts and may_claim_orphans(run):
        for p in table().values():
            if p.state == 'Z' and p.pid != run.leader and is_orphan(run, p):
                reap(p.pid)


def reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def sweep_group(leader: int) -> int:
    """Without /proc: the group alone, and whether it is empty by the deadline."""
    signal_group(leader, signal.SIGKILL)
    deadline = time.monotonic() + GONE_S
    while group_alive(leader):
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.001)
    return 0
