"""Article 4, git's half: one commit onto one branch, or nothing (git_repo.py, git_plumbing.py, git_paths.py)."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import git_lock
import git_paths
import git_plumbing
import git_process
import git_repo
from git_objects import GitError, Intent, person

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWNER, CLAUDE = person('owner', 'owner@example.invalid'), person('Claude', 'claude@example.invalid')
SEED = [('README.md', 'one\n'), ('src/app.py', 'print(1)\n'), ('src/lib/deep.py', '')]


def git(path, *arguments, text=None, check=True, environ=None):
    """Somebody else's git: what an owner types beside us."""
    who = {'GIT_AUTHOR_NAME': 'mika', 'GIT_AUTHOR_EMAIL': 'm@x', 'GIT_COMMITTER_NAME': 'mika', 'GIT_COMMITTER_EMAIL': 'm@x'}
    status, output, errors = git_process.run(path, arguments, text or '', {**who, **(environ or {})})
    if check and status:
        raise AssertionError(errors)
    return output.strip()


def change(base, files, marker):
    return Intent(base, files, CLAUDE, 1_790_000_000, OWNER, 1_790_000_100, 'change ' + marker)


def is_running(pid):
    """Neither gone nor waiting to be buried."""
    state = subprocess.run(['ps', '-o', 'stat=', '-p', str(pid)], stdout=subprocess.PIPE, text=True).stdout.strip()
    return bool(state) and not state.startswith('Z')


class Ground(unittest.TestCase):
    """A bare repository with one commit on main."""
    FORMAT = 'sha1'

    @classmethod
    def setUpClass(cls):
        """Made once; each test gets a copy, which starts no git."""
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.seeded = os.path.join(folder, 'r.git')
        repo = git_repo.create(cls.seeded, cls.FORMAT)
        cls.base = git_repo.commit(repo, 'main', None, change(None, SEED, 'seed'), 'seed')
        repo.close()

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, 'r.git')
        shutil.copytree(self.seeded, self.path)
        self.repo = git_repo.Repository(self.path)
        self.addCleanup(self.repo.close)

    def commit(self, base, files, marker, branch='main', repo=None, old='the base'):
        return git_repo.commit(repo or self.repo, branch, base if old == 'the base' else old,
                               change(base, files, marker), marker)

    def assertEnds(self, pid):
        deadline = time.monotonic() + 30
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_running(pid))

    def owner_commits(self, path, content, branch='main'):
        """An ordinary commit on the branch, past us."""
        blob = git(self.path, 'hash-object', '-w', '--stdin', text=content)
        index = {'GIT_INDEX_FILE': os.path.join(self.folder, 'index')}
        git(self.path, 'read-tree', branch, environ=index)
        git(self.path, 'update-index', '--add', '--cacheinfo', f'100644,{blob},{path}', environ=index)
        tree = git(self.path, 'write-tree', environ=index)
        new = git(self.path, 'commit-tree', tree, '-p', branch, '-m', 'by hand')
        git(self.path, 'update-ref', 'refs/heads/' + branch, new)
        return new

    def assertSound(self):
        self.assertEqual(git(self.path, 'fsck', '--strict', '--no-dangling'), '')
        self.assertEqual(self.leftovers(), [])

    def leftovers(self):
        if self.repo._gc:
            self.repo._gc.wait()                          # its pack-refs holds locks of its own
        found = [name for _, _, names in os.walk(self.path) for name in names if name.endswith(('.lock', '.keep'))]
        return found + [name for name in os.listdir(os.path.join(self.path, 'osfoundry'))
                        if name not in ('lock', 'HEAD', 'commondir', 'logs', 'refs')]


class OneCommit(Ground):
    RANDOM = 12

    def test_commit_ids_equal_those_of_the_articles_eight_processes(self):
        plumbing = git_plumbing.Plumbing(self.path)
        self.addCleanup(plumbing.close)
        draw, head = random.Random(4), self.base
        for number in range(self.RANDOM):
            intent = self.random_intent(draw, head, number)
            before = plumbing.processes
            with plumbing.lock():
                facts = plumbing.facts('main', f'p{number}')
                foreseen = self.repo.build(intent)
                plumbing.write(foreseen, intent, 'main', f'p{number}')      # raises when commit-tree makes another id
                plumbing.move('main', foreseen.commit, facts.head, f'p{number}')
                plumbing.settle()
            self.assertEqual(plumbing.processes - before, 8)
            self.assertEqual(git(self.path, 'rev-parse', 'main'), foreseen.commit)
            head = foreseen.commit
        self.assertSound()

    def random_intent(self, draw, head, number):
        known = git(self.path, '-c', 'core.quotePath=false', 'ls-tree', '-r', '--name-only', '-z', head).split('\0')[:-1]
        files = {}
        for _ in range(1 + int(draw.random() * 5)):
            if draw.random() < 0.5:
                path = known[int(draw.random() * len(known))]
            else:
                path = f'd{int(draw.random() * 4)}/é {int(draw.random() * 9)}/f-{number}.{int(draw.random() * 9)}'
            files[path] = chr(0x4e00 + int(draw.random() * 500)) * int(draw.random() * 300) + '\r\n'
        message = f'  Größe {number}\n\ntwo lines\n' + '\n' * int(draw.random() * 3)
        return Intent(head, list(files.items()), person('.Clau<de>,', 'c@x'), int(draw.random() * 2e9), OWNER,
                      1_790_000_000 + number, message)

    def test_an_executable_file_stays_executable_and_the_rest_of_the_tree_stays(self):
        blob = git(self.path, 'hash-object', '-w', '--stdin', text='#!/bin/sh\n')
        tree = git(self.path, 'mktree', text=f'100755 blob {blob}\trun.sh\n120000 blob {blob}\tlink\n')
        self.base = git(self.path, 'commit-tree', tree, '-p', self.base, '-m', 'modes')
        git(self.path, 'update-ref', 'refs/heads/main', self.base)
        new = self.commit(self.base, [('run.sh', 'new\n'), ('a/b/c/d.txt', 'deep\n'), ('a.txt', 'x')], 'p1')
        listed = git(self.path, 'ls-tree', '-r', new)
        self.assertRegex(listed, '100755 blob [0-9a-f]+\trun.sh')
        self.assertRegex(listed, '120000 blob [0-9a-f]+\tlink')
        self.assertRegex(listed, '100644 blob [0-9a-f]+\ta/b/c/d.txt')
        self.assertEqual(git(self.path, 'show', new + ':run.sh'), 'new')
        self.assertSound()

    def test_the_owners_attributes_change_no_byte_of_what_was_reviewed(self):
        with open(os.path.join(self.path, 'info', 'attributes'), 'w') as file:
            file.write('* text eol=lf\n')
        plumbing = git_plumbing.Plumbing(self.path)
        self.addCleanup(plumbing.close)
        for repo in (self.repo, plumbing):
            files = [('dos.txt', f'a\r\n{type(repo).__name__}\r\n'), ('.gitattributes', '* text\n')]
            self.base = self.commit(self.base, files, type(repo).__name__, repo=repo)
            self.assertEqual(self.repo.object(self.repo.entry(self.base, 'dos.txt')[1], 'blob'), files[0][1].encode())

    def test_a_path_through_a_link_a_submodule_or_a_file_is_refused_and_nothing_is_written(self):
        blob = git(self.path, 'hash-object', '-w', '--stdin', text='elsewhere')
        tree = git(self.path, 'mktree', text=f'120000 blob {blob}\tlink\n160000 commit {self.base}\tsub\n'
                                             f'100644 blob {blob}\tfile\n040000 tree {self.repo.tree_of(self.base)}\tdir\n')
        base = git(self.path, 'commit-tree', tree, '-m', 'odd')
        git(self.path, 'update-ref', 'refs/heads/odd', base)
        packs = os.listdir(os.path.join(self.path, 'objects', 'pack'))
        for path in ('link', 'link/x', 'sub', 'sub/x', 'file/x', 'dir'):
            with self.subTest(path=path), self.assertRaises(GitError) as raised:
                self.commit(base, [(path, 'x')], 'p1', branch='odd')
            self.assertEqual(raised.exception.code, 'path_conflict')
        self.assertEqual(self.repo.head('odd'), base)
        self.assertEqual(os.listdir(os.path.join(self.path, 'objects', 'pack')), packs)

    def test_the_branch_moves_only_from_where_it_was_reviewed_and_the_marker_with_it(self):
        first = self.commit(self.base, [('README.md', 'two\n')], 'p1')
        with self.assertRaises(GitError) as raised:
            self.commit(self.base, [('src/app.py', 'print(2)\n')], 'p2')
        self.assertEqual(raised.exception.code, 'moved')
        self.assertEqual(self.repo.facts('main', 'p1', first), (first, first, True))
        self.assertIsNone(self.repo.facts('main', 'p2').marker)
        self.assertSound()

    def test_a_branch_that_does_not_exist_yet_and_an_empty_repository(self):
        new = self.commit(self.base, [('n.txt', 'x')], 'p1', branch='topic/new', old=None)
        self.assertEqual(git(self.path, 'rev-parse', 'topic/new^'), self.base)
        with self.assertRaises(GitError):
            self.commit(self.base, [('m.txt', 'x')], 'p2', branch='topic/new', old=None)
        self.assertEqual(self.repo.head('topic/new'), new)
        empty = git_repo.create(os.path.join(self.folder, 'empty.git'), self.FORMAT)
        self.addCleanup(empty.close)
        self.assertEqual(empty.facts('main', 'p1'), (None, None, None))
        first = self.commit(None, [('a', 'b')], 'p1', repo=empty)
        self.assertEqual((empty.head('main'), empty.count(first)), (first, 1))

    def test_a_refused_move_leaves_no_reference_behind(self):
        with self.assertRaises(GitError):
            self.commit(self.base, [('a', 'b')], 'p1', branch='never/was', old=self.base)
        self.assertEqual(git(self.path, 'for-each-ref', '--format=%(refname)'), 'refs/heads/main\nrefs/proposals/seed')
        self.assertSound()

    def test_a_search_finds_lines_in_files_whose_pushed_name_holds_a_newline_or_a_colon(self):
        head = self.owner_commits('a\nb:c', 'one word\ntwo words\n')
        self.assertEqual(self.repo.grep(head, 'word', 9, 5.0), [('a\nb:c', 1, 'one word'), ('a\nb:c', 2, 'two words')])
        self.assertEqual(self.repo.grep(head, 'word', 1, 5.0), [('a\nb:c', 1, 'one word')])

    def test_a_symbolic_branch_moves_what_it_points_to(self):
        git(self.path, 'symbolic-ref', 'refs/heads/latest', 'refs/heads/main')
        new = self.commit(self.base, [('a', 'b')], 'p1', branch='latest')
        self.assertEqual(git(self.path, 'rev-parse', 'main'), new)
        self.assertEqual(git(self.path, 'symbolic-ref', 'refs/heads/latest'), 'refs/heads/main')

    def test_the_kept_open_reader_sees_moved_and_packed_references_and_what_gc_packed_again(self):
        self.assertEqual(self.repo.head('main'), self.base)
        git(self.path, 'pack-refs', '--all')
        new = self.commit(self.base, [('a', 'b')], 'p1')
        self.assertEqual(self.repo.head('main'), new)
        git(self.path, 'pack-refs', '--all')
        git(self.path, 'gc', '--quiet', '--prune=now')
        by_hand = self.owner_commits('c', 'd')
        git(self.path, 'gc', '--quiet', '--prune=now')
        self.assertEqual(self.repo.facts('main', 'p1', new), (by_hand, new, True))
        self.assertIsNotNone(self.repo.entry(by_hand, 'c'))

    def test_a_reader_that_was_killed_is_replaced(self):
        self.assertEqual(self.repo.head('main'), self.base)
        self.repo._cat._child.kill()
        self.repo._cat._child.wait()
        self.assertEqual(self.repo.head('main'), self.base)

    def test_of_many_repositories_only_the_last_used_keep_their_processes_and_all_answer(self):
        self.addCleanup(setattr, git_process, 'MOST_KEPT', git_process.MOST_KEPT)
        git_process.MOST_KEPT = 3
        repos, failed = [], []
        for number in range(6):
            repos.append(git_repo.Repository(shutil.copytree(self.path, os.path.join(self.folder, f'{number}.git'))))
            self.addCleanup(repos[-1].close)

        def work(first):
            try:
                for turn in range(4):
                    for repo in repos[first:] + repos[:first]:
                        self.commit(self.base, [('a', f'{turn}')], f'{first}-{turn}', f'b{first}-{turn}', repo, None)
            except Exception as error:
                failed.append(error)
        threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        for repo in repos:
            self.assertEqual(len(git(repo.path, 'for-each-ref', 'refs/heads').splitlines()), 1 + 3 * 4)
            self.assertIsNotNone(repo.head('b0-0'))
        kept = [kept for repo in repos for kept in (repo._cat, repo._updater) if kept._child is not None]
        self.assertEqual(kept, [repo._cat for repo in repos[3:]])

    def test_the_reader_of_a_killed_process_ends_too(self):
        code = ('import os, signal, git_repo\n'
                f'repo = git_repo.Repository({self.path!r})\n'
                'repo.head("main")\n'
                'print(repo._cat._child.pid, flush=True)\n'
                'os.kill(os.getpid(), signal.SIGKILL)\n')
        died = subprocess.run([sys.executable, '-c', code], cwd=TOP, stdout=subprocess.PIPE)
        self.assertEnds(int(died.stdout))

    def test_an_object_over_the_limit_is_refused_and_the_next_answer_is_not_its_tail(self):
        big = self.commit(self.base, [('big', 'x' * 100_000)], 'p1')
        with self.assertRaises(GitError) as raised:
            self.repo.object(self.repo.entry(big, 'big')[1], 'blob', limit=1000)
        self.assertEqual(raised.exception.code, 'too_large')
        self.assertEqual(self.repo.head('main'), big)

    def test_one_updater_serves_many_approvals_and_sees_what_others_did_in_between(self):
        self.base = self.commit(self.base, [('a', 'first')], 'first')
        updater, before = self.repo._updater._child.pid, self.repo.processes
        for number in range(3):
            self.base = self.commit(self.base, [('a', f'{number}')], f'p{number}')
            git(self.path, 'pack-refs', '--all', '--prune')
            git(self.path, 'gc', '--quiet', '--prune=now')
            self.base = self.owner_commits('theirs', f'{number}')
        with self.assertRaises(GitError) as raised:
            self.commit(self.base, [('a', 'late')], 'late', old=git(self.path, 'rev-parse', 'main^'))
        self.assertEqual(raised.exception.code, 'moved')
        self.assertEqual((self.repo.head('main'), git(self.path, 'rev-list', '--count', 'main')), (self.base, '8'))
        self.assertEqual(self.repo.processes, before)
        self.base = self.commit(self.base, [('a', 'again')], 'again')
        self.assertNotEqual(self.repo._updater._child.pid, updater, 'git refuses by ending')
        self.assertFalse(is_running(updater))
        self.assertEqual(self.repo.processes, before + 1)

    def test_an_updater_that_was_killed_or_takes_one_transaction_only_is_replaced(self):
        self.base = self.commit(self.base, [('a', 'first')], 'first')
        os.kill(self.repo._updater._child.pid, signal.SIGKILL)
        self.base = self.commit(self.base, [('a', 'b')], 'p1')
        script = os.path.join(self.folder, 'before-2.30')
        with open(script, 'w', encoding='ascii') as file:
            file.write('#!/bin/sh\nhead -n 5 | git "$@"\n')    # the end of its input after one transaction
        started = []

        def old_git():
            started.append(subprocess.Popen(['sh', script, 'update-ref', '--stdin'], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            env=git_process.environment(self.repo._ours)))
            return started[-1]
        self.repo._updater.end()
        self.repo._updater._start = old_git
        for number in range(3):
            self.base = self.commit(self.base, [('a', f'{number}')], f'q{number}')
        self.assertEqual((len(started), self.repo.head('main')), (3, self.base))

    def test_the_updater_of_a_killed_process_ends_and_leaves_the_lock(self):
        code = ('import os, signal, git_repo\n'
                f'repo = git_repo.Repository({self.path!r})\n'
                'with repo.lock():\n'
                '    repo._updater.ready()\n'
                '    print(repo._updater._child.pid, flush=True)\n'
                '    os.kill(os.getpid(), signal.SIGKILL)\n')
        died = subprocess.run([sys.executable, '-c', code], cwd=TOP, stdout=subprocess.PIPE)
        self.commit(self.base, [('a', 'b')], 'p1')             # it waits for the lock that the orphan shares
        self.assertEnds(int(died.stdout))

    def test_hooks_of_the_repository_run_only_when_asked(self):
        hook = os.path.join(self.path, 'hooks', 'reference-transaction')
        os.makedirs(os.path.dirname(hook), exist_ok=True)
        with open(hook, 'w') as file:
            file.write('#!/bin/sh\nexit 1\n')
        os.chmod(hook, 0o755)
        new = self.commit(self.base, [('a', 'b')], 'p1')
        hooked = git_repo.Repository(self.path, hooks=True)
        self.addCleanup(hooked.close)
        with self.assertRaises(GitError):
            self.commit(new, [('a', 'c')], 'p2', repo=hooked)
        self.assertEqual(self.repo.facts('main', 'p2'), (new, None, None))

    def test_the_branch_is_queued_before_its_marker(self):
        """git renames one lock after the other: queued the other way a kill leaves the marker of a commit that is lost."""
        seen = os.path.join(self.folder, 'seen')
        hook = os.path.join(self.path, 'hooks', 'reference-transaction')
        os.makedirs(os.path.dirname(hook), exist_ok=True)
        with open(hook, 'w') as file:
            file.write(f'#!/bin/sh\ncat >> {seen}\n')
        os.chmod(hook, 0o755)
        hooked = git_repo.Repository(self.path, hooks=True)
        self.addCleanup(hooked.close)
        self.commit(self.base, [('a', 'b')], 'p1', repo=hooked)
        with open(seen) as file:
            names = [line.split()[2] for line in file]
        self.assertEqual(names[:2], ['refs/heads/main', 'refs/proposals/p1'])

    def test_nothing_of_the_callers_git_reaches_ours(self):
        elsewhere = os.path.join(self.folder, 'elsewhere')
        saved = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        os.environ.update(GIT_DIR=elsewhere, GIT_OBJECT_DIRECTORY=elsewhere, GIT_INDEX_FILE=elsewhere,
                          GIT_CONFIG_COUNT='1', GIT_CONFIG_KEY_0='core.bare', GIT_CONFIG_VALUE_0='nonsense')
        new = self.commit(self.base, [('a', 'b')], 'p1')
        git(self.path, 'replace', new, self.base)
        self.assertEqual(self.repo.tree_of(new), git(self.path, 'rev-parse', new + '^{tree}'))
        self.assertFalse(os.path.exists(elsewhere))

    def test_an_ordinary_push_cannot_forge_a_marker(self):
        clone = os.path.join(self.folder, 'clone')
        subprocess.run(['git', 'clone', '--quiet', self.path, clone], check=True, stderr=subprocess.DEVNULL)
        done = subprocess.run(['git', 'push', 'origin', 'HEAD:refs/proposals/p1'], cwd=clone, stderr=subprocess.PIPE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b'hidden', done.stderr)
        self.assertIsNone(self.repo.facts('main', 'p1').marker)
        subprocess.run(['git', 'push', '--quiet', 'origin', 'HEAD:refs/heads/topic'], cwd=clone, check=True)
        for name in ('refs/refs', 'refs/tags/refs', 'refs/heads/refs', 'refs/remotes/refs'):   # git would take these too
            subprocess.run(['git', 'push', '--quiet', 'origin', f'HEAD:{name}/proposals/p1'], cwd=clone, check=True)
            self.assertIsNone(self.repo.facts('main', 'p1').marker, name)

    def test_files_are_as_open_as_the_repository_and_not_as_closed_as_the_servers_umask(self):
        os.chmod(os.path.join(self.path, 'objects'), 0o755)
        shared = git_repo.Repository(self.path)
        self.addCleanup(shared.close)
        self.addCleanup(os.umask, os.umask(0o077))
        self.commit(self.base, [('a', 'b')], 'p1', repo=shared)
        folder = os.path.join(self.path, 'objects', 'pack')
        newest = max((os.path.join(folder, name) for name in os.listdir(folder)), key=os.path.getmtime)
        self.assertEqual(os.stat(newest).st_mode & 0o777, 0o444)
        self.assertEqual(os.stat(os.path.join(self.path, 'refs', 'heads', 'main')).st_mode & 0o777, 0o644)

    def test_a_repository_with_a_work_tree_or_none_at_all_is_refused_in_words(self):
        subprocess.run(['git', 'init', '--quiet', os.path.join(self.folder, 'w')], check=True)
        for path in (os.path.join(self.folder, 'w', '.git'), self.folder, os.path.join(self.folder, 'nowhere')):
            with self.subTest(path=path), self.assertRaises(GitError) as raised:
                git_repo.Repository(path)
            self.assertEqual(raised.exception.code, 'unusable')


class OneCommitOfSha256(OneCommit):
    FORMAT, RANDOM = 'sha256', 3


class Locks(Ground):
    def lock_file(self, name, content=b'', age_s=0.0):
        place = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, 'wb') as file:
            file.write(content)
        if age_s:
            past = os.stat(place).st_mtime - age_s
            os.utime(place, (past, past))
        return place

    def test_the_lock_of_a_living_stranger_is_waited_for_and_never_deleted(self):
        place = self.lock_file('refs/heads/main.lock')
        threading.Timer(0.05, os.unlink, [place]).start()
        new = self.commit(self.base, [('a', 'b')], 'p1')
        self.assertEqual(self.repo.head('main'), new)
        place = self.lock_file('refs/heads/main.lock')
        self.addCleanup(setattr, git_repo, 'RETRY_S', git_repo.RETRY_S)
        git_repo.RETRY_S = 0.4                            # git itself waits 0.1 s
        with self.assertRaises(GitError) as raised:
            self.commit(new, [('a', 'c')], 'p2')
        self.assertEqual((raised.exception.code, self.repo.head('main')), ('busy', new))
        self.assertTrue(os.path.exists(place))
        os.unlink(place)
        self.assertSound()

    def test_a_lock_older_than_a_minute_belongs_to_a_dead_process(self):
        self.lock_file('refs/heads/main.lock', age_s=61)
        self.lock_file('packed-refs.lock', age_s=61)
        self.commit(self.base, [('a', 'b')], 'p1')
        self.assertSound()

    def test_the_repositorys_head_lock_is_neither_needed_nor_left(self):
        place = self.lock_file('HEAD.lock')
        new = self.commit(self.base, [('a', 'b')], 'p1')
        self.assertEqual((self.repo.head('main'), os.path.exists(place)), (new, True))

    def test_what_a_killed_decision_left_is_swept_by_the_next_one_at_once(self):
        intent = Intent(self.base, [('a', 'b')], CLAUDE, 1, OWNER, 1, 'm')
        build = self.repo.build(intent)
        with self.repo.lock():
            self.repo.write(build, intent, 'main', 'p1')              # and then the process dies: no settle, locks on disk
        self.lock_file('refs/heads/main.lock', build.commit.encode() + b'\n')
        self.lock_file('refs/proposals/p1.lock')
        stranger = self.lock_file('refs/heads/other.lock', self.base.encode() + b'\n')
        self.assertIn('.keep', ' '.join(self.leftovers()))
        with self.repo.lock():
            pass
        self.assertEqual(self.leftovers(), [os.path.basename(stranger)])

    def test_what_a_killed_git_child_left_is_swept_in_the_same_decision(self):
        run, killed = self.repo._updater.run, []

        def dies_with_its_locks(commands):
            if not killed:
                self.repo._updater.ready()
                child = self.repo._updater._child
                self.repo._updater.say(git_process.transaction(commands).partition('commit\n')[0])
                while b'prepare: ok' not in self.repo._updater.read(4096):
                    pass
                killed.append([name for name in self.leftovers() if name.endswith('.lock')])
                os.kill(child.pid, signal.SIGKILL)
            run(commands)
        with mock.patch.object(self.repo._updater, 'run', dies_with_its_locks):
            self.base = self.commit(self.base, [('a', 'b')], 'p1')
        self.assertEqual(sorted(killed[0]), ['main.lock', 'p1.lock'])
        self.assertEqual(self.repo.facts('main', 'p1')[:2], (self.base, self.base))
        self.assertSound()

    def test_a_lock_that_cannot_be_opened_is_said_in_words(self):
        repo = git_repo.Repository(self.path)
        self.addCleanup(repo.close)
        lock = os.path.join(self.path, 'osfoundry', 'lock')
        if os.path.exists(lock):
            os.unlink(lock)
        os.mkdir(lock)
        with self.assertRaises(GitError) as raised, repo.lock():
            pass
        self.assertEqual(raised.exception.code, 'unusable')

    def test_an_empty_lock_that_a_killed_update_ref_left_is_recognised_by_its_age_and_a_strangers_older_one_stays(self):
        older, build = self.lock_file('refs/heads/older.lock', age_s=1), None
        for branch in ('main', 'latest'):
            with self.subTest(branch=branch):
                if branch == 'latest':
                    git(self.path, 'symbolic-ref', 'refs/heads/latest', 'refs/heads/main')
                intent = Intent(self.base, [('a', branch)], CLAUDE, 1, OWNER, 1, 'm')
                with self.repo.lock():
                    build = self.repo.build(intent)
                    self.repo.write(build, intent, branch, 'p1')
                self.lock_file('refs/heads/main.lock')
                self.addCleanup(setattr, git_lock, 'EMPTY_S', git_lock.EMPTY_S)
                git_lock.EMPTY_S = 0.2
                new = self.commit(self.base, [('a', 'b')], 'p-' + branch)
                self.assertEqual(self.repo.head('main'), new)
                self.base = new
        self.assertEqual(self.leftovers(), [os.path.basename(older)])
        with self.repo.lock():                            # on our branch, but from before we began: a stranger's
            self.repo.write(build, intent, 'main', 'p1')
        stranger = self.lock_file('refs/heads/main.lock', age_s=1)
        with self.repo.lock():
            pass
        self.assertTrue(os.path.exists(stranger))

    def test_keep_files_that_a_power_cut_left_go_when_a_new_process_begins(self):
        with open(os.path.join(self.path, 'objects', 'pack', 'pack-' + 'a' * 40 + '.keep'), 'wb') as file:
            file.write(git_lock.KEEP)
        with open(os.path.join(self.path, 'objects', 'pack', 'pack-' + 'b' * 40 + '.keep'), 'wb') as file:
            file.write(b'the owner wants this\n')
        fresh = git_repo.Repository(self.path)
        self.addCleanup(fresh.close)
        with fresh.lock():
            pass
        self.assertEqual(self.leftovers(), ['pack-' + 'b' * 40 + '.keep'])

    def test_who_publishes_leaves_the_keep_file_of_an_approval_under_way(self):
        keep = os.path.join(self.path, 'objects', 'pack', 'pack-' + 'a' * 40 + '.keep')
        with self.repo.lock():
            with open(keep, 'wb') as file:
                file.write(git_lock.KEEP)
            with self.repo.publishing.hold():
                self.assertTrue(os.path.exists(keep))
        os.unlink(keep)

    def test_an_orphan_of_a_killed_process_keeps_the_lock_until_it_ends(self):
        code = ('import os, signal, subprocess, sys, git_repo\n'
                f'repo = git_repo.Repository({self.path!r})\n'
                'with repo.lock():\n'
                '    child = subprocess.Popen(["sleep", "60"], pass_fds=(repo._decision.fd,), stdout=subprocess.DEVNULL)\n'
                '    print(child.pid, flush=True)\n'
                '    os.kill(os.getpid(), signal.SIGKILL)\n')
        died = subprocess.run([sys.executable, '-c', code], cwd=TOP, stdout=subprocess.PIPE)
        orphan = int(died.stdout)
        self.addCleanup(setattr, git_lock, 'LOCK_WAIT_S', git_lock.LOCK_WAIT_S)
        git_lock.LOCK_WAIT_S = 0.2
        with self.assertRaises(GitError) as raised, self.repo.lock():
            pass
        self.assertEqual(raised.exception.code, 'busy')
        os.kill(orphan, signal.SIGKILL)
        git_lock.LOCK_WAIT_S = 30.0
        with self.repo.lock():
            pass

    def test_what_a_hook_left_running_keeps_the_lock_until_it_ends(self):
        seen = os.path.join(self.folder, 'pid')
        hook = os.path.join(self.path, 'hooks', 'reference-transaction')
        os.makedirs(os.path.dirname(hook), exist_ok=True)
        with open(hook, 'w', encoding='ascii') as file:
            file.write(f'#!/bin/sh\n[ "$1" = prepared ] || exit 0\nsleep 60 >/dev/null 2>&1 & echo $! >{seen}\nexit 1\n')
        os.chmod(hook, 0o755)
        hooked = git_repo.Repository(self.path, hooks=True)
        self.addCleanup(hooked.close)
        with self.assertRaises(GitError):
            self.commit(self.base, [('a', 'b')], 'p1', repo=hooked)
        with open(seen, encoding='ascii') as file:
            orphan = int(file.read())
        self.addCleanup(setattr, git_lock, 'LOCK_WAIT_S', git_lock.LOCK_WAIT_S)
        git_lock.LOCK_WAIT_S = 0.2
        for repo in (self.repo, hooked):
            with self.assertRaises(GitError) as raised, repo.lock():
                pass
            self.assertEqual(raised.exception.code, 'busy')
        os.kill(orphan, signal.SIGKILL)
        git_lock.LOCK_WAIT_S = 30.0
        with hooked.lock():
            pass

    def test_update_ref_inherits_the_lock_and_no_other_child_does(self):
        seen = {}
        saved = git_process.start
        self.addCleanup(setattr, git_process, 'start', saved)

        def watched(git_dir, arguments, environ, fds, umask):
            seen.setdefault(next(word for word in arguments if not word.startswith(('-', 'core.'))), fds)
            return saved(git_dir, arguments, environ, fds, umask)
        git_process.start = watched
        fresh = git_repo.Repository(self.path)
        self.addCleanup(fresh.close)
        new = self.commit(self.base, [('a', 'b')], 'p1', repo=fresh)
        fresh.count(new)
        self.assertEqual(len(seen['update-ref']), 1)
        self.assertEqual(seen['rev-list'], ())


class BesideGc(Ground):
    APPROVALS = 20

    def test_gc_prune_now_in_a_loop_takes_nothing_that_an_approval_needs(self):
        stop = threading.Event()
        loops = []

        def collect():
            while not stop.is_set():
                loops.append(git(self.path, 'gc', '--quiet', '--prune=now', check=False))
        thread = threading.Thread(target=collect)
        thread.start()
        try:
            head, number = self.base, 0
            while number < self.APPROVALS or len(loops) < 2:          # at least one gc began and ended among them
                self.assertTrue(thread.is_alive())
                head = self.commit(head, [(f'd{number % 7}/f{number}', f'{number}\n'), ('same', 'same\n')], f'p{number}')
                number += 1
        finally:
            stop.set()
            thread.join()
        self.assertEqual(self.repo.count(head), 1 + number)
        self.assertSound()

    def test_gc_runs_in_the_background_now_and_then_and_ends_with_us(self):
        self.addCleanup(setattr, git_repo, 'GC_EVERY', git_repo.GC_EVERY)
        git_repo.GC_EVERY = 2
        for number in range(2):
            self.assertIsNone(self.repo._gc)
            self.base = self.commit(self.base, [('a', f'{number}')], f'p{number}')
        self.assertIsNotNone(self.repo._gc)
        self.repo.close()
        self.assertIsNotNone(self.repo._gc.returncode)
        self.assertSound()


class Names(unittest.TestCase):
    def test_every_path_trick_is_refused_by_name(self):
        tricks = {'': 'characters', '/etc/passwd': 'absolute', 'a//b': 'empty', 'a/': 'empty', '../x': "'..'",
                  'a/./b': "'.'", '.git/config': 'own folder', 'a/.GIT/x': 'own folder', 'GIT~1/x': 'own folder', 'GITMOD~1': 'own folder', '.gitmodules/x': 'nothing can lie',
                  '.g\u200cit/x': 'invisible', '.git\u200d': 'invisible', 'a\u202eb': 'invisible', 'x\ufeff': 'invisible',
                  'a\u3164': 'invisible', '.git.': 'dot or a space', 'a /b': 'dot or a space', '.git ': 'dot or a space',
                  'a:b': 'colon', '.git::$INDEX_ALLOCATION': 'colon', 'a\\b': 'backslash', 'a\nb': 'control',
                  'a\x00b': 'control', 'a\x7f': 'control', 'a\x85': 'control', '\ud800': 'control', 'é' * 200: 'bytes',
                  '/'.join('a' * 101): 'parts', 'a' * 2049: 'characters'}
        for path, word in tricks.items():
            with self.subTest(path=ascii(path)):
                self.assertIn(word, git_paths.path_fault(path) or 'accepted')

    def test_honest_paths_pass(self):
        for path in ('README.md', '.gitignore', 'x~1', '.github/workflows/ci.yml', 'src/é 日本/x-y_z.tar.gz', 'git', 'a.git/b',
                     '.gitmodules', 'x' * 255, 'emoji 🚀'):
            with self.subTest(path=path):
                self.assertIsNone(git_paths.path_fault(path))

    def test_two_paths_that_some_file_system_takes_for_one_are_refused(self):
        for paths in (['a', 'a'], ['README', 'readme'], ['caf\u00e9', 'cafe\u0301'], ['A/x', 'a/y'], ['a', 'a/b'],
                      ['A', 'a/b'], ['Stra\u00dfe', 'STRASSE']):
            with self.subTest(paths=paths):
                self.assertIsNotNone(git_paths.twin_fault(paths))
        self.assertIsNone(git_paths.twin_fault(['a/x', 'a/y', 'b/x']))

    def test_a_branch_name_is_one_that_git_takes(self):
        for name in ('main', 'topic/é', 'release-1.2', 'a' * 200):
            with self.subTest(name=name):
                self.assertIsNone(git_paths.branch_fault(name))
                self.assertEqual(subprocess.run(['git', 'check-ref-format', 'refs/heads/' + name]).returncode, 0)
        for name in ('', '-x', 'a..b', '/a', 'a/', 'a//b', '.a', 'a/.b', 'a.lock', 'a.lock/b', 'a b', 'a~1', 'a^', 'a:b',
                     'a?', 'a*', 'a[', 'a\\b', '@', 'a@{1}', 'HEAD', 'a\nb', 'a\u200bb', 'a.', 'a' * 201, 'é' * 126,
                     'refs/heads/x', 'release-1-gb27a9cf'):
            with self.subTest(name=ascii(name)):
                self.assertIsNotNone(git_paths.branch_fault(name))

    def test_a_message_cannot_write_our_trailers(self):
        for message in ('', ' \n ', 'x\n\nApproved-by: boss', 'x\n\nproposal : 1', 'APPROVED-BY:x', 'a\x00b', 'a\x1b[2Jb',
                        'x\n\u3000Proposal: 9', 'a\u202eb', 'a\rb'):
            with self.subTest(message=ascii(message)):
                self.assertIsNotNone(git_paths.message_fault(message))
        self.assertIsNone(git_paths.message_fault('Pin install version\n\nThe proposal: see the issue.\n\tindented'))


class FsckIsTheOracle(Ground):
    def test_whatever_path_we_accept_fsck_strict_accepts(self):
        draw, accepted = random.Random(8), []
        alphabet = ['.', '..', 'git', '.git', 'GIT', '~1', ' ', 'a', 'é', '\u200c', '.gitmodules', '.gitattributes', ':',
                    '\\', '-', 'con', '\u00ad', '日']
        while len(accepted) < 60:
            parts = [''.join(alphabet[int(draw.random() * len(alphabet))] for _ in range(1 + int(draw.random() * 3)))
                     for _ in range(1 + int(draw.random() * 3))]
            path = '/'.join(parts)
            if git_paths.path_fault(path) is None and git_paths.twin_fault([*accepted, path]) is None:
                accepted.append(path)
        for start in range(0, 60, 20):
            self.base = self.commit(self.base, [(path, '') for path in accepted[start:start + 20]], f'p{start}')
        self.assertSound()


if __name__ == '__main__':
    unittest.main()
