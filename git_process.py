"""git_process.py - git as a child process: a clean environment, a deadline, and two that stay open.

Article 4, "Quanto costa?": almost all of an approval is the start of processes. So the reads go through one process
that was started before, and the reference transactions through another.

Not here: what is asked and what is written (git_repo.py), the bytes (git_objects.py).
"""
import os
import select
import shutil
import subprocess
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from git_objects import OID, GitError

# --- data ---------------------------------------------------------------------

GIT_DEADLINE_S = 60.0           # no git child is waited for any longer
READ_LIMIT = 1 << 26            # bytes of one object
MOST_KEPT = 32                  # children that wait for a question, of all repositories: each holds pipes open
Found = Tuple[str, str, bytes]  # object id, type, data

# --- rules --------------------------------------------------------------------

def environment(git_dir: str) -> Dict[str, str]:
    """Nothing of the caller's git reaches the child: a GIT_INDEX_FILE, an alias, a replace reference or a prompt."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith('GIT_')}
    return {**clean, 'GIT_DIR': git_dir, 'GIT_CONFIG_NOSYSTEM': '1', 'GIT_CONFIG_GLOBAL': os.devnull,
            'HOME': os.devnull, 'XDG_CONFIG_HOME': os.devnull, 'GIT_ATTR_NOSYSTEM': '1', 'GIT_NO_REPLACE_OBJECTS': '1',
            'GIT_OPTIONAL_LOCKS': '0', 'GIT_TERMINAL_PROMPT': '0', 'GIT_ALLOW_PROTOCOL': 'file', 'LC_ALL': 'C'}


# --- I/O ----------------------------------------------------------------------

def program() -> str:
    return shutil.which('git') or 'git'


def run(git_dir: str, arguments: Sequence[str], text: str = '', environ: Optional[Dict[str, str]] = None,
        fds: Sequence[int] = (), deadline_s: Optional[float] = None) -> Tuple[int, str, str]:
    """Run git to its end: (exit status, output, errors). At the deadline it is killed, and timed_out raised."""
    return finish(start(git_dir, arguments, environ, fds), text, deadline_s)


def is_reference(git_dir: str, name: str) -> bool:
    """Whether there is one of exactly this name."""
    return run(git_dir, ['show-ref', '--verify', '--quiet', name])[0] == 0


def start(git_dir: str, arguments: Sequence[str], environ: Optional[Dict[str, str]] = None, fds: Sequence[int] = (),
          umask: int = -1) -> subprocess.Popen:
    """A git that waits for its input. Whoever starts one must `finish` it or `give_up` on it."""
    try:
        # A child inherits no descriptor of ours but those in `fds`: none is left to close. With that, a full path and
        # no umask, Python 3.9 spawns it: 0.3 ms, where a fork takes 1.5 ms and 4 more for each 100 MB that we hold.
        return subprocess.Popen([program(), *arguments], env={**environment(git_dir), **(environ or {})},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                close_fds=bool(fds), pass_fds=fds, umask=umask)
    except OSError as error:
        raise GitError('git_failed', f'git cannot be started: {error}') from error


def finish(child: subprocess.Popen, text: str = '', deadline_s: Optional[float] = None) -> Tuple[int, str, str]:
    deadline_s = GIT_DEADLINE_S if deadline_s is None else deadline_s
    try:
        output, errors = child.communicate(text.encode('utf-8'), deadline_s)
    except BaseException as error:                            # at the deadline, and at Ctrl-C
        give_up(child)
        if isinstance(error, subprocess.TimeoutExpired):
            raise GitError('timed_out', f'git did not end within {deadline_s:.1f} s') from error
        raise
    return child.returncode, output.decode('utf-8', 'replace'), errors.decode('utf-8', 'replace').strip()


def transaction(commands: Sequence[str]) -> str:
    """What update-ref reads: all of them, or nothing."""
    return '\n'.join(['start', *commands, 'prepare', 'commit', ''])


def give_up(child: subprocess.Popen) -> None:
    child.kill()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    child.wait()


class Kept:
    """A git child that answers again and again. It ends with us, even when we are killed: its input closes.

    `lock` is held while it is asked something; while it is free anybody may end the child: the next question starts
    another.
    """

    def __init__(self, start: Callable[[], subprocess.Popen]):
        self._start, self._child, self.lock, self.used_s = start, None, threading.RLock(), 0.0

    def ready(self) -> None:
        """Start it now, so that it need not be waited for."""
        with self.lock:
            self.used_s = time.monotonic()
            if self._child is None:
                self._child = self._start()
                self._poll = select.poll()
                self._poll.register(self._child.stdout, select.POLLIN)
                _waiting.add(self)
                make_room(self)

    def say(self, text: str) -> None:
        data = memoryview(text.encode('utf-8'))
        while data:
            data = data[os.write(self._child.stdin.fileno(), data):]

    def read(self, size: int) -> bytes:
        if not self._poll.poll(GIT_DEADLINE_S * 1000):
            raise GitError('timed_out', f'git did not answer within {GIT_DEADLINE_S:.0f} s')
        data = os.read(self._child.stdout.fileno(), size)
        if not data:
            raise EOFError('it ended')
        return data

    def end(self) -> None:
        with self.lock:
            if self._child is not None:
                give_up(self.let_go())

    def let_go(self) -> subprocess.Popen:
        child, self._child = self._child, None
        _waiting.discard(self)
        return child


_waiting: Set[Kept] = set()                                   # those that have a child


def make_room(newcomer: Kept) -> None:
    """Of more than MOST_KEPT end those that were used longest ago, unless they are being asked something."""
    if len(_waiting) > MOST_KEPT:
        for kept in sorted(list(_waiting), key=lambda kept: kept.used_s)[:-MOST_KEPT]:
            if kept is not newcomer and kept.lock.acquire(blocking=False):
                try:
                    kept.end()
                finally:
                    kept.lock.release()


class CatFile(Kept):
    """`git cat-file --batch`: objects and references in microseconds. It sees moved references, new packs and gc."""

    def __init__(self, git_dir: str):
        super().__init__(lambda: subprocess.Popen(
            [program(), 'cat-file', '--batch'], env=environment(git_dir), bufsize=0, close_fds=False,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))

    def ask(self, name: str, limit: int = READ_LIMIT) -> Optional[Found]:
        return self.ask_all([name], limit)[0]

    def ask_all(self, names: Sequence[str], limit: int = READ_LIMIT) -> List[Optional[Found]]:
        """(object id, type, data) of each object id, or reference that we built; None: there is none. A few names:
        all are asked before the first answer is read."""
        # A newline would be a second question. Callers check names; this is for our own mistakes.
        assert all(OID.fullmatch(name) or name == 'HEAD' or name.startswith('refs/') and '\n' not in name
                   for name in names), names
        with self.lock:
            for attempt in (1, 2):
                try:
                    self.ready()
                    self.say(''.join(f'{name}\n' for name in names))
                    self._ahead = b''
                    return [self._answer(name, limit) for name in names]
                except (OSError, EOFError) as error:          # it died: a new one, once
                    self.end()
                    if attempt == 2:
                        raise GitError('git_failed', f'git cat-file: {error}') from error
                except BaseException:                         # an unread answer would become the next one's
                    self.end()
                    raise

    def _answer(self, name: str, limit: int) -> Optional[Found]:
        data = self._ahead
        while b'\n' not in data:
            data += self.read(4096)
        header, data = data.split(b'\n', 1)
        words = header.decode('utf-8', 'replace').split(' ')
        if len(words) != 3 or not OID.fullmatch(words[0]):
            self._ahead = data
            return None                                       # "NAME missing"
        size, chunks = int(words[2]), [data]
        if size > limit:
            raise GitError('too_large', f'{name} has {size:,} bytes, the limit is {limit:,}', size=size, limit=limit)
        missing = size + 1 - len(data)                        # a newline ends it
        while missing > 0:
            chunks.append(self.read(min(missing, 1 << 20)))
            missing -= len(chunks[-1])
        data = b''.join(chunks)
        self._ahead = data[size + 1:]
        return words[0], words[1], data[:size]


class Updater(Kept):
    """`git update-ref --stdin`: one reference transaction after the other, each all or nothing."""

    def run(self, commands: Sequence[str]) -> None:
        """Raises git_failed with what git said; whether something moved all the same is for the caller to look up."""
        with self.lock:
            new, said = self._child is None, b''
            try:
                self.ready()
                self.say(transaction(commands))
                while not said.endswith(b'commit: ok\n'):
                    said += self.read(4096)
                return
            except (OSError, EOFError):                       # it refuses by ending
                child = self.let_go()
                errors = finish(child)[2]
            except BaseException:
                self.end()
                raise
            if child.returncode < 0:                          # and the locks that it held are still there
                raise GitError('git_failed', f'git update-ref was ended by signal {-child.returncode}', killed=True)
            if said or new:
                raise GitError('git_failed', f'git update-ref: {errors}')
            self.run(commands)                                # the kept one was dead; before git 2.30 it takes one only

    @property
    def is_idle(self) -> bool:
        """Between two transactions, and whoever it started has ended."""
        return self._child is not None
