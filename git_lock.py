"""git_lock.py - one decision at a time on a repository, in all processes, and what a killed one left behind.

Article 4 trusts git's reference transaction alone. Killed inside it, git leaves its lock files, and they block every
later approval and every ordinary push. So a decision holds a lock of ours (a thread lock and an flock whose descriptor
update-ref inherits: an orphan of a killed server still holds it) and notes in that file what is under way. Whoever gets
the lock next and finds a note knows that its writer is dead, its git too, and which files to remove.

Not here: what a decision does (git_repo.py).
"""
import fcntl
import os
import re
import threading
import time
from contextlib import contextmanager
from typing import Callable, Iterator, List, NamedTuple, Sequence

import git_process
from git_objects import GitError

# --- data ---------------------------------------------------------------------

FOLDER = 'osfoundry'            # ours, inside the repository: the lock, and a HEAD of our own
MARKERS = 'refs/proposals/'
PACK_NAME = re.compile('pack-[0-9a-f]{40}')
KEEP = b'osfoundry\n'           # what our .keep files say
LOCK_WAIT_S = 30.0              # for another decision on this repository
ABANDONED_S = 60.0              # a lock of somebody else's that old belongs to a dead process
EMPTY_S = 2.0                   # an empty lock on our branch, made after a dead decision began, is its own if it stays


class Note(NamedTuple):
    """What is under way; all '' when nothing is."""
    commit: str
    branch: str
    marker: str
    pack: str


# --- I/O ----------------------------------------------------------------------

class DecisionLock:
    """`fd` is the lock file while the lock is held, for the child that must inherit it. `sweeps`: only the lock that
    decisions hold, since under another's one may be at work. `heir_is_idle`: whether nobody who inherited it can still
    be; then the child may keep it for the next decision."""

    def __init__(self, path: str, name: str, sweeps: bool, heir_is_idle: Callable[[], bool] = lambda: False):
        self._path, self._ours, self._name = path, os.path.join(path, FOLDER), name
        self._packs = os.path.join(path, 'objects', 'pack')
        self._one_at_a_time, self.fd = threading.Lock(), -1
        self._swept = not sweeps
        self._heir_is_idle = heir_is_idle

    @contextmanager
    def hold(self) -> Iterator[None]:
        give_up = time.monotonic() + LOCK_WAIT_S
        if not self._one_at_a_time.acquire(timeout=LOCK_WAIT_S):
            raise GitError('busy', 'another decision is under way: try again')
        try:
            if self.fd < 0:
                self.fd = self._open()
            try:
                _flock(self.fd, give_up)
                self._sweep()
                yield
            finally:
                if self._heir_is_idle():
                    fcntl.flock(self.fd, fcntl.LOCK_UN)
                else:                                         # closed, not unlocked: a child may still hold it
                    self.close()
        finally:
            self._one_at_a_time.release()

    def _open(self) -> int:
        try:
            return os.open(os.path.join(self._ours, self._name), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise GitError('unusable', f'the repository cannot be written: {error}') from error

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def note(self, note: Note) -> None:
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, '\n'.join(note).encode('utf-8'), 0)

    def noted(self) -> Note:
        lines = os.pread(self.fd, 4096, 0).decode('utf-8', 'replace').split('\n')
        return Note(*lines) if len(lines) == len(Note._fields) else Note('', '', '', '')

    def settle(self) -> None:
        """The decision is over: either a reference holds its pack now, or gc takes it. It is never deleted here: a git
        that died half-way may have moved the branch all the same."""
        pack = self.noted().pack
        if PACK_NAME.fullmatch(pack):
            unlink(os.path.join(self._packs, pack + '.keep'))
            for suffix in ('.pack', '.idx'):
                unlink(os.path.join(self._ours, pack + suffix))
        os.ftruncate(self.fd, 0)

    def _sweep(self) -> None:
        """What a killed predecessor left. Once in our life also every .keep of ours: a power cut may lose the note."""
        note = self.noted()
        if note.pack:
            self.remove_locks(note)
            self.settle()
        if not self._swept:
            for name in os.listdir(self._packs):
                if name.endswith('.keep') and _content(os.path.join(self._packs, name)) == KEEP:
                    unlink(os.path.join(self._packs, name))
            self._swept = True

    def remove_locks(self, note: Note) -> None:
        """Of a git that is dead, and was at this."""
        self._remove_named(note)
        if note.branch:
            self._remove_empty(note.branch, began_s=os.fstat(self.fd).st_mtime)

    def _remove_named(self, note: Note) -> None:
        """Locks that hold the dead decision's commit, or are its marker's while there is no such marker: nobody else
        locks what does not exist. (gc's pack-refs locks one that does.)"""
        for place in self._reference_locks():
            if _content(place).strip() == note.commit.encode('ascii', 'replace'):
                unlink(place)
        if not git_process.is_reference(self._path, MARKERS + note.marker):
            unlink(os.path.join(self._path, f'{MARKERS}{note.marker}.lock'))

    def _remove_empty(self, branch: str, began_s: float) -> None:
        """update-ref makes its lock, looks the commit up, and then writes: killed in between, it leaves an empty lock.
        A push in the same moment has one too, but not for long; so it was ours if it stays."""
        name = 'refs/heads/' + branch
        _, target, _ = git_process.run(self._path, ['symbolic-ref', '--quiet', name])
        for place in [os.path.join(self._path, one + '.lock') for one in (name, target.strip()) if one]:
            give_up = time.monotonic() + EMPTY_S
            while _is_empty_since(place, began_s):
                if time.monotonic() > give_up:
                    unlink(place)
                time.sleep(0.02)

    def remove_abandoned(self) -> None:
        """Locks so old that their holder must be dead. Whether somebody has one open says nothing: git closes a lock
        that it has written."""
        places = [os.path.join(self._path, name) for name in ('HEAD.lock', 'packed-refs.lock')]
        for place in [*places, *self._reference_locks()]:
            try:
                age_s = time.time() - os.stat(place).st_mtime
            except OSError:
                continue                                      # gone meanwhile
            if age_s > ABANDONED_S:
                unlink(place)

    def _reference_locks(self) -> Sequence[str]:
        found: List[str] = []
        for folder, _, names in os.walk(os.path.join(self._path, 'refs')):
            found += [os.path.join(folder, name) for name in names if name.endswith('.lock')]
        return found


def unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _content(path: str) -> bytes:
    try:
        with open(path, 'rb') as file:
            return file.read(80)
    except OSError:                                           # gone meanwhile
        return b''


def _is_empty_since(path: str, began_s: float) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_size == 0 and status.st_mtime >= began_s


def _flock(fd: int, give_up: float) -> None:
    pause = 0.0005
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise GitError('busy', 'another process decides on this repository: try again') from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
