"""bench_ways.py - other ways to the same commit, for bench.py proposals: eight processes, pygit2, dulwich.

Article 4, "Quanto costa?": almost all of an approval is the start of processes, and a server that links libgit2 would
shorten every column. So: the article's eight processes with git's own durability (none), pygit2 and dulwich where they
are installed, each in its quickest safe form: compare the branch, write, move. Ours is the whole approval with its
lock, its two COMMITs and everything synced.

Not here: the measuring (bench_proposals.py), the product (git_repo.py, proposals.py).
"""
import importlib
import itertools
import os
import random
import subprocess
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

import git_plumbing
import git_repo
import proposal_intake
import proposals
from git_objects import Intent, person
from versioned import Database

# --- data ---------------------------------------------------------------------

AUTHOR, APPROVER = person('Claude (bench)', 'bench@connection.invalid'), 'person:owner'
ACTOR = 'connection:bench'
LARGE_FOLDERS, LARGE_FILES = 200, 100     # 20,000 files
FILE_BYTES = 10_000
EIGHT, DISK = 'eight processes', 'one sync'      # the second tells how busy the disk is
Files = List[Tuple[str, str]]

# --- rules --------------------------------------------------------------------

def small_tree() -> Files:
    twenty = [(f'src/m{number}/file.txt', f'{number}\n') for number in range(20)]
    return [*twenty, ('app.py', 'one\n'), ('README.md', '\n')]


def large_tree() -> Files:
    return [(f'd{folder}/f{number}.txt', f'{folder} {number}\n')
            for folder in range(LARGE_FOLDERS) for number in range(LARGE_FILES)]


def change(row: str, draw: random.Random) -> Files:
    """The files of one proposal, new each time: one small file, or twenty of 10 KB in twenty folders."""
    small = row.startswith('small')
    places = [f'src/m{number}/file.txt' if small else f'd{number * 9}/f7.txt' for number in range(20)]
    if row.endswith('1 file'):
        return [(places[0], f'{draw.random()}\n')]
    return [(place, text_of(draw)) for place in places]


def text_of(draw: random.Random) -> str:
    """10 KB of words: it compresses about as source code does."""
    words = [f'word{int(draw.random() * 3000)}' for _ in range(FILE_BYTES // 8)]
    return ' '.join(words)[:FILE_BYTES - 1] + '\n'


# --- I/O ----------------------------------------------------------------------

class Desk:
    """A database, a repository, and somebody who proposes and decides at once."""

    def __init__(self, folder: str, kind: Type[git_repo.Repository], tree: Files):
        os.makedirs(folder)
        self.path = os.path.join(folder, 'r.git')
        self.repo = git_repo.create(self.path)
        git_repo.commit(self.repo, 'main', None, Intent(None, tree, AUTHOR, 1, AUTHOR, 1, 'seed'), 'seed')
        if kind is not git_repo.Repository:               # ours goes on with the two processes that it has open
            self.repo.close()
            self.repo = kind(self.path)
        self.db = Database(os.path.join(folder, 'state.db'), [proposal_intake.SCHEMA])
        self.keys = itertools.count(1)
        with self.db.write() as tx:
            proposal_intake.register(tx, 'r')

    def __enter__(self) -> 'Desk':
        return self

    def __exit__(self, *_: Any) -> None:
        self.repo.close()
        self.db.close()

    def propose(self, files: Files) -> str:
        arguments = {'repository_id': 'r', 'branch': 'main', 'message': 'change',
                     'idempotency_key': f'{next(self.keys):08d}',
                     'files': [{'path': path, 'content': content} for path, content in files]}
        with self.db.write() as tx:
            return proposal_intake.propose_file_import(tx, ACTOR, arguments, time.time_ns() // 1000, self.repo,
                                                       AUTHOR)['proposal_id']

    def decide(self, proposal: str, mode: str = 'cas') -> dict:
        return proposals.decide(self.db, self.repo, proposal, APPROVER, 'approve', time.time_ns() // 1000, mode)

    def commit_once(self) -> None:
        """The least that a decision costs on this disk: one row, one COMMIT, synced."""
        with self.db.write() as tx:
            proposal_intake.register(tx, f'another {next(self.keys)}')

    def between(self, proposal: str) -> int:
        """Processes between the naive look and the naive write."""
        seen: List[int] = []
        look, overwrite = self.repo.look_up, self.repo.overwrite

        def looked(name: str) -> Optional[str]:
            found = look(name)
            seen.append(self.repo.processes)
            return found

        def overwriting(branch: str, new: str) -> None:
            seen.append(self.repo.processes)
            overwrite(branch, new)
        self.repo.look_up, self.repo.overwrite = looked, overwriting
        self.decide(proposal, 'naive')
        return seen[-1] - seen[0]


class Unsynced(git_plumbing.Plumbing):
    """The article's processes with git's default: neither objects nor references are synced."""

    def git(self, *arguments: str, **named: Any) -> str:
        return super().git('-c', 'core.fsync=none', *arguments, **named)


def in_turn(folder: str, row: str, n: int) -> Dict[str, List[float]]:
    """Seconds of each way, one approval of each in turn, every one on a repository of its own."""
    tree = small_tree() if row.startswith('small') else large_tree()
    ways: Dict[str, Callable[[Files, str], Callable[[], str]]] = {}
    desk = Desk(os.path.join(folder, 'ours'), git_repo.Repository, tree)
    ways['one pack'] = lambda files, name: approval(desk, files)
    for way, make in ((EIGHT, eight_processes), ('pygit2', with_pygit2), ('dulwich', with_dulwich)):
        path = os.path.join(folder, way.replace(' ', '-') + '.git')
        subprocess.run(['cp', '-r', desk.path, path], check=True)
        prepared = make(path)
        if prepared:
            ways[way] = prepared
    ways[DISK] = lambda files, name: lambda: one_sync(os.path.join(folder, 'probe-' + name))
    spent: Dict[str, List[float]] = {way: [] for way in ways}
    draw = random.Random(1)
    with desk:
        for number in range(n + 2):
            files = change(row, draw)
            for way, prepare in ways.items():
                work = prepare(files, f'{number}')
                started = time.perf_counter()
                work()
                spent[way] += [time.perf_counter() - started] if number >= 2 else []
    return spent


def one_sync(path: str) -> None:
    """The least that anything durable waits for."""
    git_repo.write_file(path, b'x' * 4096)
    git_repo.sync(path)


def approval(desk: Desk, files: Files) -> Callable[[], Any]:
    proposal = desk.propose(files)

    def work() -> None:
        assert desk.decide(proposal)['status'] == 'executed'
    return work


def intent_on(head: str, files: Files, name: str) -> Intent:
    now = int(time.time())
    return Intent(head, files, AUTHOR, now, AUTHOR, now, f'change\n\nProposal: {name}\nApproved-by: owner\n')


def eight_processes(path: str) -> Callable[[Files, str], Callable[[], Any]]:
    repo = Unsynced(path)

    def prepare(files: Files, name: str) -> Callable[[], Any]:
        foreseen = repo.build(intent_on(repo.head('main'), files, name))      # to check the id is not the article's

        def work() -> None:
            facts = repo.facts('main', name)
            with repo.lock():
                repo.write(foreseen, intent_of(foreseen, files, name, facts.head), 'main', name)
                repo.move('main', foreseen.commit, facts.head, name)
        return work
    return prepare


def intent_of(build: Any, files: Files, name: str, head: Optional[str]) -> Intent:
    """The intent again, with the second that the foreseen commit has."""
    text = next(data for kind, data in build.objects.values() if kind == 'commit').decode('utf-8')
    second = int(text.split('\nauthor ')[1].split('\n')[0].split(' ')[-2])
    return intent_on(head, files, name)._replace(author_s=second, committer_s=second)


def with_pygit2(path: str) -> Optional[Callable[[Files, str], Callable[[], Any]]]:
    try:
        pygit2 = importlib.import_module('pygit2')
    except ImportError:
        return None
    repo = pygit2.Repository(path)
    who = pygit2.Signature('Claude', 'c@x')

    def graft(tree: Any, files: Files) -> Any:
        builder, below = repo.TreeBuilder(tree) if tree is not None else repo.TreeBuilder(), {}
        for place, text in files:
            first, _, rest = place.partition('/')
            if rest:
                below.setdefault(first, []).append((rest, text))
            else:
                builder.insert(first, repo.create_blob(text.encode()), pygit2.GIT_FILEMODE_BLOB)
        for name, more in below.items():
            old = repo[tree[name].id] if tree is not None and name in tree else None
            builder.insert(name, graft(old, more), pygit2.GIT_FILEMODE_TREE)
        return builder.write()

    def prepare(files: Files, name: str) -> Callable[[], Any]:
        def work() -> None:
            assert repo.references.get('refs/proposals/' + name) is None
            head = repo.references['refs/heads/main']
            tree = graft(repo[head.target].tree, files)
            new = repo.create_commit(None, who, who, f'change {name}', tree, [head.target])
            head.set_target(new)
            repo.references.create('refs/proposals/' + name, new)
        return work
    return prepare


def with_dulwich(path: str) -> Optional[Callable[[Files, str], Callable[[], Any]]]:
    try:
        objects, repos = importlib.import_module('dulwich.objects'), importlib.import_module('dulwich.repo')
    except ImportError:
        return None
    repo = repos.Repo(path)

    def graft(tree_id: Optional[bytes], files: Files, made: List[Any]) -> bytes:
        tree, below = repo[tree_id].copy() if tree_id else objects.Tree(), {}
        for place, text in files:
            first, _, rest = place.partition('/')
            if rest:
                below.setdefault(first.encode(), []).append((rest, text))
            else:
                made.append(objects.Blob.from_string(text.encode()))
                tree.add(first.encode(), 0o100644, made[-1].id)
        for name, more in below.items():
            tree.add(name, 0o040000, graft(tree[name][1] if name in tree else None, more, made))
        made.append(tree)
        return tree.id

    def prepare(files: Files, name: str) -> Callable[[], Any]:
        def work() -> None:
            marker, branch = b'refs/proposals/' + name.encode(), b'refs/heads/main'
            assert marker not in repo.refs
            head, made = repo.refs[branch], []        # type: bytes, List[Any]
            commit = objects.Commit()
            commit.tree, commit.parents = graft(repo[head].tree, files, made), [head]
            commit.author = commit.committer = b'Claude <c@x>'
            commit.author_time = commit.commit_time = int(time.time())
            commit.author_timezone = commit.commit_timezone = 0
            commit.message = b'change ' + name.encode()
            repo.object_store.add_objects([(one, None) for one in [*made, commit]])
            assert repo.refs.set_if_equals(branch, head, commit.id)
            assert repo.refs.add_if_new(marker, commit.id)
        return work
    return prepare
