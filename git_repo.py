"""git_repo.py - one commit onto one branch of a bare repository, or nothing.

Article 4, "La ricostruzione": the approval builds a commit that moves no reference, then one reference transaction
moves the branch only if it still is where the reviewer saw it, and makes a marker that names the proposal. Here the
commit is written as one pack, synced before any reference, and the two git processes that read and move references stay
open; the article's own way, in eight for each approval, is git_plumbing.py and gives the same commit ids.

    python3 git_repo.py        two writers on one base, in a throwaway repository: one moves it, one is told (0.3 s)

Holds against: other processes with this class and SIGKILL at any moment (git_lock.py), ordinary pushes (compare and
swap), `git gc --prune=now` (one pack, and its .keep).
Not here: proposals and their recovery (proposals.py), which paths are safe to write (git_paths.py). With
git_objects.py, git_process.py and git_lock.py this file stands alone: copy the four. sha256 needs git 2.29.
"""
import argparse
import hashlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import git_lock
import git_process
from git_lock import MARKERS, unlink
from git_objects import (EXECUTABLE, FILE, NOT_A_FILE, TREE, Build, GitError, Intent, Objects, commit_data, conflict,
                         in_order, nested, object_id, pack_bytes, parse_tree, person, tree_data)

# --- data ---------------------------------------------------------------------

RETRY_S = 5.0                   # for somebody's lock on the reference itself
GREP_LINE = re.compile(r'([^\0]*)\0([0-9]+)\0([^\n]*)\n')        # a pushed file's name may hold a newline
GC_EVERY = 40                   # approvals: 1,000 packs make one six times as slow
LASTING, LASTING_BYTES = 1000, 1 << 14      # commits and trees kept in memory, and how long one may be


class Facts(NamedTuple):
    """What git says. `contains`: whether the asked commit is on the branch; None when nobody asked."""
    head: Optional[str]
    marker: Optional[str]
    contains: Optional[bool]


# --- I/O ----------------------------------------------------------------------

class Repository:
    """A bare repository. `processes` counts the git children; `hooks=True` lets the repository's own hooks run."""

    def __init__(self, path: str, hooks: bool = False):
        self.path, self.processes = os.path.abspath(path), 0
        self._hooks = [] if hooks else ['-c', f'core.hooksPath={os.devnull}']
        self._ours, self._packs = os.path.join(self.path, git_lock.FOLDER), os.path.join(self.path, 'objects', 'pack')
        self._moves, self._gc, self._umask = 0, None, -1
        try:
            bare, self.hash_name = self.git('rev-parse', '--is-bare-repository', '--show-object-format').split()
        except GitError as error:
            raise GitError('unusable', f'{self.path} cannot be used as a git repository: {error}') from error
        if bare != 'true':
            raise GitError('unusable', f'{self.path} is not bare: moving its branch would leave its files behind')
        self.id_bytes = hashlib.new(self.hash_name).digest_size
        self.zero = '0' * 2 * self.id_bytes
        # As open as the repository is, and not as closed as a server's umask.
        self._umask = 0o777 & ~stat.S_IMODE(os.stat(os.path.join(self.path, 'objects')).st_mode)
        self._adopt()
        self._cat, self._updater = git_process.CatFile(self.path), git_process.Updater(self._start_updater)
        self._lasting: Dict[str, bytes] = {}                   # commits and trees by id: they never change
        self._decision = git_lock.DecisionLock(self.path, 'lock', sweeps=True,
                                               heir_is_idle=lambda: self._updater.is_idle)
        # Of its own, so that a slow provider stops no approval.
        self.publishing = git_lock.DecisionLock(self.path, 'publish-lock', sweeps=False)

    def _adopt(self) -> None:
        """Our folder, once. To update-ref it is a linked work tree with a HEAD of its own: so a kill never leaves the
        repository's HEAD.lock, which is empty and would block every push. And no push can forge a marker."""
        if adopted(self.path):
            return
        os.makedirs(self._ours, exist_ok=True)
        os.makedirs(self._packs, exist_ok=True)
        hidden = MARKERS.rstrip('/')
        self.git('config', '--replace-all', 'receive.hideRefs', hidden, f'^{hidden}$')     # one more, or the same again
        write_file(os.path.join(self._ours, 'HEAD'), b'ref: refs/heads/.none\n')
        write_file(os.path.join(self._ours, 'commondir'), b'..\n')

    def git(self, *arguments: str, text: str = '', allow: Sequence[int] = (0,),
            environ: Optional[Dict[str, str]] = None, deadline_s: Optional[float] = None) -> str:
        """Run git to its end and return what it printed. Raises git_failed."""
        return self._finish(self._start(arguments, environ=environ), arguments[0], text, allow, deadline_s)

    def _start(self, arguments: Sequence[str], git_dir: Optional[str] = None, environ: Optional[Dict[str, str]] = None,
               fds: Sequence[int] = ()) -> subprocess.Popen:
        self.processes += 1
        safe = [*self._hooks, '-c', 'core.fsync=reference']
        return git_process.start(git_dir or self.path, [*safe, *arguments], environ, fds, self._umask)

    def _finish(self, child: subprocess.Popen, name: str, text: str = '', allow: Sequence[int] = (0,),
                deadline_s: Optional[float] = None) -> str:
        status, output, errors = git_process.finish(child, text, deadline_s)
        if status not in allow:
            raise GitError('git_failed', f'git {name}: {errors or output}', status=status)
        return output

    # Reading: any thread, at any time.

    def object(self, name: str, kind: str, limit: int = git_process.READ_LIMIT) -> Optional[bytes]:
        found = self._cat.ask(name, limit)
        return found[2] if found and found[1] == kind else None

    def head(self, branch: str) -> Optional[str]:
        return self._reference('refs/heads/' + branch)

    def default_head(self) -> Optional[str]:
        return self._reference('HEAD')

    def _reference(self, name: str) -> Optional[str]:
        return self._references(name)[0]

    def _references(self, *names: str) -> List[Optional[str]]:
        commits = [found if found and found[1] == 'commit' else None for found in self._cat.ask_all(names)]
        for found in filter(None, commits):
            self._remember(found[0], found[2])
        return [found and found[0] for found in commits]

    def tree_of(self, commit: Optional[str]) -> Optional[str]:
        if commit is None:
            return None
        data = self._object_for_good(commit, 'commit')
        return data[5:data.index(b'\n')].decode('ascii')

    def _object_for_good(self, oid: str, kind: str) -> bytes:
        """An object that must be there. The trees that an approval walks were walked when it was proposed."""
        data = self._lasting.get(oid)
        if data is None:
            data = self.object(oid, kind)
            if data is None:
                raise GitError('unusable', f'the {kind} {oid} is not in the repository')
            self._remember(oid, data)
        return data

    def _remember(self, oid: str, data: bytes) -> None:
        if len(data) <= LASTING_BYTES:
            if len(self._lasting) >= LASTING:
                self._lasting.clear()
            self._lasting[oid] = data

    def entry(self, commit: Optional[str], path: str) -> Optional[Tuple[str, str]]:
        """(mode, object id) of a path, or None. Raises path_conflict when a part of it is no directory."""
        tree, parts = self.tree_of(commit), path.encode('utf-8').split(b'/')
        for number, part in enumerate(parts):
            found = self._entries(tree).get(part)
            if found is None:
                return None
            if number < len(parts) - 1 and found[0] != TREE:
                raise conflict(b'/'.join(parts[:number + 1]), found[0])
            tree = found[1].hex()
        return found[0].decode('ascii'), tree

    def _entries(self, tree: Optional[str]) -> Dict[bytes, Tuple[bytes, bytes]]:
        return parse_tree(self._object_for_good(tree, 'tree'), self.id_bytes) if tree else {}

    def facts(self, branch: str, marker: str, commit: Optional[str] = None) -> Facts:
        """`commit`: also ask whether it is on the branch (a git process, unless it is the head)."""
        head, marked = self._references('refs/heads/' + branch, MARKERS + marker)
        # For a name that is not there cat-file takes refs/tags/NAME and the like, and those anybody may push.
        if marked and not git_process.is_reference(self.path, MARKERS + marker):
            marked = None
        return Facts(head, marked, self.contains(head, commit) if commit else None)

    def contains(self, head: Optional[str], commit: str) -> bool:
        if head is None or self.object(commit, 'commit') is None:
            return False
        if head == commit:
            return True
        try:
            self.git('merge-base', '--is-ancestor', commit, head)
            return True
        except GitError as error:
            if error.data.get('status') != 1:
                raise
            return False

    def count(self, head: str) -> int:
        """Commits on a branch."""
        return int(self.git('rev-list', '--count', '--end-of-options', head))

    def paths(self, commit: str, most: int) -> List[str]:
        """The first `most` paths of a commit, as text; a path that is no UTF-8 shows where it is not."""
        listed = self.git('ls-tree', '-r', '-z', '--name-only', '--full-tree', commit).split('\0')
        return listed[:-1][:most]

    def changed(self, commit: str) -> List[str]:
        """The paths in which a commit differs from its parent."""
        listed = self.git('diff-tree', '-r', '-z', '--root', '--no-commit-id', '--name-only', '--no-renames', commit)
        return listed.split('\0')[:-1]

    def grep(self, commit: str, words: str, most: int, deadline_s: float) -> List[Tuple[str, int, str]]:
        """[(path, line number, line)] of text files that hold `words` as they stand."""
        output = self.git('grep', '-n', '-I', '-z', '-F', '--full-name', f'--max-count={most}', '-e', words, commit,
                          allow=(0, 1), deadline_s=deadline_s)
        return [(name.partition(':')[2], int(number), text)
                for name, number, text in GREP_LINE.findall(output)[:most]]

    # Building: nothing is written yet.

    def build(self, intent: Intent) -> Build:
        """The commit of `intent` and what it adds. Raises path_conflict when the parent's tree is in the way."""
        objects: Objects = {}
        tree = self._graft(self.tree_of(intent.parent), nested(intent.files), b'', objects)
        return Build(self._add('commit', commit_data(intent, tree.hex()), objects).hex(), objects)

    def _graft(self, tree: Optional[str], changes: dict, folder: bytes, objects: Objects) -> bytes:
        entries = self._entries(tree)
        known = len(entries)                                  # whose order stays as it is
        for name, change in changes.items():
            mode, raw = entries.get(name, (None, b''))
            if isinstance(change, dict):
                if mode not in (None, TREE):
                    raise conflict(folder + name, mode)
                entries[name] = (TREE, self._graft(raw.hex() or None, change, folder + name + b'/', objects))
            elif mode in NOT_A_FILE:
                raise conflict(folder + name, mode)
            else:                                             # an executable file stays executable
                kept = EXECUTABLE if mode and int(mode, 8) & 0o100 else FILE
                entries[name] = (kept, self._add('blob', change, objects))
        return self._add('tree', tree_data(entries if len(entries) == known else in_order(entries)), objects)

    def _add(self, kind: str, data: bytes, objects: Objects) -> bytes:
        raw = object_id(kind, data, self.hash_name)
        objects[raw] = (kind, data)
        return raw

    # Writing: one decision at a time, in all processes.

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Held for one decision; `write`, `move`, `add_marker` and `settle` want it."""
        with self._decision.hold():
            yield

    def write(self, build: Build, intent: Intent, branch: str, marker: str) -> None:
        """Make the commit's objects durable, and safe from gc until `settle`. (The article's way: git_plumbing.py.)"""
        self.write_pack(build.objects, git_lock.Note(build.commit, branch, marker, ''))

    def write_pack(self, objects: Objects, note: git_lock.Note) -> None:
        """Everything is written, even what exists: gc may be about to delete the one that does."""
        pack, index = pack_bytes(objects, self.hash_name)
        # A name of its own: a gc that is under way deletes by name the packs it saw, also a later one of that name.
        name = 'pack-' + os.urandom(20).hex()
        path = os.path.join(self._packs, name)
        try:
            self._decision.note(note._replace(pack=name))
            self._updater.ready()                              # it starts while we write
            write_file(path + '.keep', git_lock.KEEP)              # before the pack: gc takes none that has one
            written = os.path.join(self._ours, name)           # gc deletes what is called tmp_* beside the packs
            for data, suffix in ((pack, '.pack'), (index, '.idx')):
                write_file(written + suffix, data, 0o444 & ~self._umask)
            for suffix in ('.pack', '.idx'):
                sync(written + suffix)
            for suffix in ('.pack', '.idx'):
                os.replace(written + suffix, path + suffix)
            sync(self._packs)
        except OSError as error:
            raise GitError('git_failed', f'the commit cannot be written: {error}') from error

    def move(self, branch: str, new: str, old: Optional[str], marker: str, has_marker: bool = False) -> None:
        """One reference transaction: the branch from `old` to `new`, and the marker. Raises moved when it is elsewhere.

        The branch is queued first: the files backend renames one lock after the other, and a kill between the two must
        leave a branch without a marker, which can be seen, and never a marker of a commit that is lost (rule 2).
        """
        moving = f'update refs/heads/{branch} {new} {old or self.zero}'
        marking = f'verify {MARKERS}{marker} {new}' if has_marker else f'create {MARKERS}{marker} {new}'
        self._transaction([moving, marking], lambda: self.head(branch) == old, self._decision.noted())
        self._collect()

    def add_marker(self, marker: str, commit: str) -> None:
        self._transaction([f'create {MARKERS}{marker} {commit}'], lambda: self._reference(MARKERS + marker) is None,
                          git_lock.Note(commit, '', marker, ''))

    def _transaction(self, commands: List[str], still_possible: Callable[[], bool], note: git_lock.Note) -> None:
        """`note`: whose locks a killed git leaves."""
        give_up, pause = time.monotonic() + RETRY_S, 0.005
        while True:
            try:
                self._update(commands)
                return
            except GitError as error:
                killed = error.data.get('killed')
                if killed:
                    self._decision.remove_locks(note)
                if not still_possible():
                    raise GitError('moved', str(error)) from error
                if not killed and 'File exists' not in str(error):     # anything but somebody's lock
                    raise
                if time.monotonic() > give_up:
                    raise GitError('busy', f'somebody holds a lock in the repository: try again ({error})') from error
            self._decision.remove_abandoned()
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def _update(self, commands: List[str]) -> None:
        self._updater.run(commands)

    def _start_updater(self) -> subprocess.Popen:
        """Under a HEAD of its own, and with our lock: should we die while it moves something, it is not overtaken."""
        return self._start(['update-ref', '--stdin'], self._ours, fds=(self._decision.fd,))

    def settle(self) -> None:
        """The decision is over, whatever became of it."""
        self._decision.settle()

    def _collect(self) -> None:
        """`git gc --auto` in the background, now and then; never two of them, and it ends with us."""
        self._moves += 1
        if self._moves % GC_EVERY:
            return
        self._updater.end()                                   # it holds on to packs that gc deletes
        if self._gc is None or self._gc.poll() is not None:
            self._gc = subprocess.Popen(['git', *self._hooks, '-c', 'gc.autoDetach=false', 'gc', '--auto', '--quiet'],
                                        env=git_process.environment(self.path), umask=self._umask,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        self._cat.end()
        self._updater.end()
        self._decision.close()
        if self._gc is not None:
            self._gc.terminate()
            self._gc.wait()


def create(path: str, object_format: str = 'sha1') -> Repository:
    """A new, empty bare repository whose HEAD is main."""
    status, _, errors = git_process.run(path, ['init', '--quiet', '--bare', f'--object-format={object_format}'])
    if status:
        raise GitError('unusable', errors)
    write_file(os.path.join(path, 'HEAD'), b'ref: refs/heads/main\n')
    return Repository(path)


def adopted(path: str) -> bool:
    """Whether the repository was prepared before: a caller may want to ask its owner first."""
    return os.path.exists(os.path.join(path, git_lock.FOLDER, 'commondir'))


def write_file(path: str, data: bytes, mode: int = 0o644) -> None:
    unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view):]
        os.fchmod(fd, mode)                                   # whatever our umask is
        if hasattr(os, 'posix_fadvise'):                      # it goes to the disk now, beside what we write next:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)     # of two synced files the second waits little
    finally:
        os.close(fd)


def sync(path: str) -> None:
    """Until the disk has it."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# --- main ---------------------------------------------------------------------

def commit(repo: Repository, branch: str, old: Optional[str], intent: Intent, marker: str) -> str:
    """The whole way of one commit, without a database. Raises moved."""
    with repo.lock():
        build = repo.build(intent)
        repo.write(build, intent, branch, marker)
        try:
            repo.move(branch, build.commit, old, marker)
        finally:
            repo.settle()
        return build.commit


def main(argv: Sequence[str]) -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        repo = create(os.path.join(folder, 'r.git'))
        owner, claude = person('owner', 'owner@example.invalid'), person('Claude', 'claude@example.invalid')
        base = commit(repo, 'main', None, Intent(None, [('README.md', 'one\n')], owner, 0, owner, 0, 'seed'), 'seed')
        print(f'both read      {base[:8]}')
        for name, path in (('first', 'README.md'), ('second', 'app.py')):
            try:
                new = commit(repo, 'main', base, Intent(base, [(path, 'two\n')], claude, 1, owner, 1, name), name)
                print(f'{name:14} executed, main is {new[:8]}')
            except GitError as error:
                print(f'{name:14} {error.code}: main is {repo.head("main")[:8]}, not {base[:8]}')
        print('git fsck       ' + (repo.git('fsck', '--strict', '--no-dangling').strip() or 'clean'))
        repo.close()
    return 0


if __name__ == '__main__':
    import ending                          # here: what is copied out are the rules
    sys.exit(ending.run(main, sys.argv[1:]))
