"""wrap_process.py - one run of a command: started, read beside its deadline, ended, nothing left behind.

Article 3, "Cosa uccide davvero un timeout?" and "Perché svuotare stderr su un thread a parte?". The article shows
a thread and a queue for each pipe; one loop over `selectors` with one monotonic deadline does the same at a
quarter of the cost, and `drain_stderr=False` still shows what happens without.

Copied out together with the other wrap files. Not here: what the lines mean (wrap_stream.py),
who belongs to a run (wrap_kill.py).
"""
import os
import secrets
import selectors
import signal
import subprocess
import time
from typing import Callable, Dict, NamedTuple, Optional, Sequence

import wrap_kill

# --- data ---------------------------------------------------------------------

STDERR_TAIL_BYTES = 4_000        # the article's figure: enough for a login error or a panic
READ_BYTES = 65_536              # what a pipe holds
LINGER_S = 2.0                   # a process that lives on after its last event
GENTLE_S = 2.0                   # from SIGINT to SIGKILL: SIGKILL first strands lock files such as .git/index.lock
DRAIN_S = 1.0                    # for what stands in the pipes of a process that has ended
TICK_S = 0.05                    # where the kernel cannot tell of an end by a descriptor (pidfd)


class Options(NamedTuple):
    """How to run. The defaults are the article's; the program is gentle and adopts orphans as well."""
    group: bool = True               # False: only the direct child is killed, to see what that leaves
    drain_stderr: bool = True        # False: read it after stdout has closed, to see what that costs
    gentle_s: float = 0.0            # this long from SIGINT to SIGKILL; 0: SIGKILL at once
    subreaper: bool = False          # this process has called wrap_kill.adopt_orphans()
    cwd: Optional[str] = None
    stdin: Optional[bytes] = None    # written beside reading; None: /dev/null, since an open pipe hangs Codex
    cancel: Optional['Cancel'] = None


class Ended(NamedTuple):
    """How a run went. Times in seconds from just before Popen."""
    why: str                         # exit | timeout | lingered | cancelled | no start
    exit_status: Optional[int]       # as Popen has it: -9 for SIGKILL
    stderr: str                      # its last STDERR_TAIL_BYTES
    survivors: int
    first_byte_s: Optional[float]
    exit_s: Optional[float]
    began: float                     # time.monotonic() of that moment


class Cancel:
    """Ends a run from another thread: the same clean-up as a timeout's."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)      # set_wakeup_fd demands it

    def cancel(self) -> None:
        os.write(self._write, b'.')

    def wakeup_fd(self) -> int:
        """For signal.set_wakeup_fd: the interpreter itself writes here when a signal that is handled comes."""
        return self._write

    def fileno(self) -> int:
        return self._read

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


# --- rules --------------------------------------------------------------------

def tail(kept: bytearray) -> str:
    return kept[-STDERR_TAIL_BYTES:].decode('utf-8', 'replace')


def keep_tail(kept: bytearray, chunk: bytes) -> None:
    """Append, and forget what no tail will show."""
    kept += chunk
    if len(kept) > READ_BYTES:
        del kept[:-STDERR_TAIL_BYTES]


# --- I/O ----------------------------------------------------------------------

def run_process(argv: Sequence[str], timeout: float, env: Dict[str, str], options: Options,
                feed: Callable[[bytes, float], bool]) -> Ended:
    """Run `argv` for at most `timeout` seconds. `feed(chunk, seconds)` takes what stdout says, b'' at its end,
    and answers whether the last event has been seen. Whatever it raises ends the run first."""
    mark = secrets.token_hex(16)
    run = wrap_kill.begin(mark, options.subreaper)
    began = time.monotonic()
    try:
        process = start(argv, {**env, wrap_kill.MARK: mark}, options)
    except (OSError, ValueError) as error:       # not there; or an argument that no process can have
        wrap_kill.end(run)
        why = getattr(error, 'strerror', None) or error
        return Ended('no start', None, f'cannot start {argv[0]}: {why}', 0, None, None, began)
    run = wrap_kill.started(run, process.pid)
    try:
        watch = Watch(process, began, began + timeout, options, feed)
    except OSError as error:                     # no descriptor is left
        return give_up(run, process, f'cannot watch {argv[0]}: {error.strerror or error}', began)
    try:
        try:
            why = watch.until_ended()
        except BaseException:
            watch.feed = discard                 # it may be what has just failed
            finish(run, watch, 'cancelled')
            raise
        survivors = finish(run, watch, why)
        return Ended(why, process.returncode, tail(watch.stderr), survivors, watch.first_byte_s, watch.exit_s, began)
    finally:
        wrap_kill.end(run)
        watch.close()


def give_up(run: wrap_kill.Run, process: subprocess.Popen, why: str, began: float) -> Ended:
    """It has only just begun, and nothing of it may live on."""
    wrap_kill.signal_group(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    wrap_kill.end(run)
    return Ended('no start', None, why, 0, None, None, began)


def start(argv: Sequence[str], env: Dict[str, str], options: Options) -> subprocess.Popen:
    return subprocess.Popen(
        list(argv), env=env, cwd=options.cwd, bufsize=0, start_new_session=options.group,
        stdin=subprocess.DEVNULL if options.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(run: wrap_kill.Run, watch: 'Watch', why: str) -> int:
    """After this nothing of the run lives, its pipes are read out and its status is known. Returns the survivors."""
    if not watch.options.group:
        if why != 'exit':
            watch.process.kill()                 # demo only: the article's first row, which leaves the tools alive
        watch.wait_for_exit()
        watch.drain()
        return len(wrap_kill.snapshot(run))
    if watch.exit_s is None:
        return stop(run, watch)
    watch.wait_for_exit()
    survivors = wrap_kill.sweep(run, {}) if wrap_kill.anything_left(run) else 0
    watch.drain()
    return survivors


def stop(run: wrap_kill.Run, watch: 'Watch') -> int:
    """SIGINT, the only signal that a real Codex obeys gracefully, and time for it; then all that is left goes."""
    known = wrap_kill.snapshot(run)
    try:
        if watch.options.gentle_s > 0:
            wrap_kill.signal_group(run.leader, signal.SIGINT)
            watch.until_exit(time.monotonic() + watch.options.gentle_s)
    finally:                                     # a second Ctrl-C cuts the patience short, never the clean-up
        wrap_kill.signal_group(run.leader, signal.SIGKILL)
        if not wrap_kill.LINUX:                  # there only signals tell, and a zombie answers them
            watch.wait_for_exit()
        survivors = wrap_kill.sweep(run, known)
        watch.wait_for_exit()
        watch.drain()
    return survivors


class Watch:
    """The one loop: stdout, stderr, stdin, the end of the process and a cancel, beside one deadline."""

    def __init__(self, process: subprocess.Popen, began: float, deadline: float, options: Options,
                 feed: Callable[[bytes, float], bool]) -> None:
        self.process, self.began, self.deadline, self.options, self.feed = process, began, deadline, options, feed
        self.stderr = bytearray()
        self.first_byte_s: Optional[float] = None
        self.exit_s: Optional[float] = None
        self.lingering, self.cancelled = False, False
        self.selector = selectors.DefaultSelector()
        self.pidfd = open_pidfd(process.pid)
        self._unwritten = memoryview(options.stdin or b'')
        try:
            self._register()
        except BaseException:                # who has no Watch cannot close it
            self.close()
            raise

    def _register(self) -> None:
        self._watch(self.process.stdout, self._read_stdout)
        if self.options.drain_stderr:
            self._watch(self.process.stderr, self._read_stderr)
        if self.process.stdin is not None:
            self._watch(self.process.stdin, self._write_stdin, selectors.EVENT_WRITE)
        if self.pidfd is not None:
            self.selector.register(self.pidfd, selectors.EVENT_READ, self._note_exit)
        if self.options.cancel is not None:
            self.selector.register(self.options.cancel, selectors.EVENT_READ, self._note_cancel)

    def _watch(self, pipe, action: Callable[[], None], events: int = selectors.EVENT_READ) -> None:
        os.set_blocking(pipe.fileno(), False)
        self.selector.register(pipe, events, action)

    def until_ended(self) -> str:
        """Read until the process ends or its time is up, and say which."""
        while self.exit_s is None and not self.cancelled:
            if not self._step(self.deadline):
                return 'lingered' if self.lingering else 'timeout'
        return 'cancelled' if self.cancelled else 'exit'

    def until_exit(self, deadline: float) -> None:
        while self.exit_s is None and self._step(deadline):
            pass

    def _step(self, deadline: float) -> bool:
        """Wait for something and do it. False: `deadline` has passed."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        for key, _ in self.selector.select(left if self.pidfd is not None else min(left, TICK_S)):
            key.data()
        if self.pidfd is None and self.exit_s is None and self.process.poll() is not None:
            self._note_exit()
        return True

    def _read_stdout(self) -> bool:
        chunk = read(self.process.stdout)
        if chunk is None:
            return False
        now = time.monotonic() - self.began
        if chunk and self.first_byte_s is None:
            self.first_byte_s = now
        if not chunk:
            self.selector.unregister(self.process.stdout)
            if not self.options.drain_stderr:
                self._watch(self.process.stderr, self._read_stderr)
        if self.feed(chunk, now) and not self.lingering:
            self.lingering = True
            self.deadline = min(self.deadline, time.monotonic() + LINGER_S)
        return True

    def _read_stderr(self) -> bool:
        chunk = read(self.process.stderr)
        if chunk:
            keep_tail(self.stderr, chunk)
        elif chunk is not None:
            self.selector.unregister(self.process.stderr)
        return chunk is not None

    def _write_stdin(self) -> None:
        try:
            written = os.write(self.process.stdin.fileno(), self._unwritten[:READ_BYTES])
        except BlockingIOError:
            return
        except OSError:                      # it has stopped listening: its own error says why
            written = len(self._unwritten)
        self._unwritten = self._unwritten[written:]
        if not self._unwritten:
            self.selector.unregister(self.process.stdin)
            self.process.stdin.close()

    def _note_exit(self) -> None:
        self.exit_s = time.monotonic() - self.began
        if self.pidfd is not None:
            self.selector.unregister(self.pidfd)

    def _note_cancel(self) -> None:
        self.cancelled = True
        self.selector.unregister(self.options.cancel)

    def wait_for_exit(self) -> None:
        """Take the leader's status. It has ended or been killed; a process that the kernel holds is not waited for."""
        self.until_exit(time.monotonic() + wrap_kill.GONE_S)
        try:
            self.process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            pass

    def drain(self) -> None:
        """What the dead have still left in the pipes: until they are empty, whoever else may hold them open."""
        until = time.monotonic() + DRAIN_S
        for pipe, action in ((self.process.stdout, self._read_stdout), (self.process.stderr, self._read_stderr)):
            while pipe in self.selector.get_map() and action() and time.monotonic() < until:
                pass
        if self.process.stdout in self.selector.get_map():
            self.feed(b'', time.monotonic() - self.began)

    def close(self) -> None:
        self.selector.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self.pidfd is not None:
            os.close(self.pidfd)


def discard(_chunk: bytes, _now_s: float) -> bool:
    return False


def open_pidfd(pid: int) -> Optional[int]:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def read(pipe) -> Optional[bytes]:
    """What is there: b'' at the end, None when there is nothing yet."""
    try:
        return os.read(pipe.fileno(), READ_BYTES)
    except BlockingIOError:
        return None

