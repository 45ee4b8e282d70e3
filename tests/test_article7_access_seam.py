"""Article 7, "Perché lo scope non basta?": the owner's click and an assistant's call at the same moment.

After the owner's click has answered, no later call succeeds, and no edit that was under way lands afterwards: the
number of saved edits that the click saw in its own transaction is final. In one process and across two. The same trials
catch a design whose check and write are two transactions (class TwoTransactions), so they can fail.
"""
import json
import subprocess
import sys
import threading
import time
import unittest

from tests.access_world import APPROVER, KB_A, TOP, World

import access
import tools
import versioned
import workspace
from versioned import Ref

WORKERS = 3


def revoke(tx, connection):
    access.revoke(tx, connection)


def move(tx, connection):
    access.move(tx, KB_A, 'project-b')


def remove(tx, connection):
    access.remove_from_project(tx, connection, 'project-a')


def untick(tx, connection):
    access.save_tools(tx, connection, ['edit_knowledge_article', 'read_knowledge_article'])


def lose_role(tx, connection):
    workspace.set_role(tx, APPROVER, Ref('project', 'project-a'), 'none')


CLICKS = ((revoke, 'connection_revoked'), (move, 'not_in_project'), (remove, 'not_in_project'),
          (untick, 'tool_not_enabled'), (lose_role, 'approver_lacks_role'))


def work(world, number, until):
    """Read and edit in turn until `until()`; -> [(tool, outcome, started, ended)], times in ns of one clock for all."""
    done, version = [], None
    while not until():
        arguments = {'knowledge_base_id': 'kb-a', 'article_id': 'refunds'}
        tool = 'read_knowledge_article' if version is None else 'edit_knowledge_article'
        if version:
            arguments.update(content=f'by {number}', expected_version=version,
                             idempotency_key=f'{number}-{len(done):08d}')
        started = time.monotonic_ns()
        result = world.call(tool, **arguments)
        answer = json.loads(result['content'][0]['text'])
        done.append((tool, answer['error'] if result['isError'] else 'ok', started, time.monotonic_ns()))
        version = answer['citation']['updated_at'] if tool.startswith('read') and not result['isError'] else None
    return done


def click_and_count(world, click):
    """The owner's click -> (edits saved before it, as its own transaction sees them; when it had answered)."""
    with world.db.write() as tx:
        click(tx, world.connection)
        saved = versioned.last_sequence(tx, KB_A)
    return saved, time.monotonic_ns()


def edits(world):
    with world.db.read() as tx:
        return versioned.last_sequence(tx, KB_A)


class Seam(unittest.TestCase):
    TRIALS = 3                            # a click of each kind

    def check_trial(self, world, click, code, calls, saved, answered):
        """Every claim of the module's text about one trial; `calls` are those of all workers."""
        late = [call for call in calls if call[1] == 'ok' and call[2] > answered]
        self.assertEqual(late, [], f'{click.__name__}: succeeded although it began after the click had answered')
        self.assertEqual(edits(world), saved, f'{click.__name__}: an edit landed after the click')
        self.assertEqual(sum(call[:2] == ('edit_knowledge_article', 'ok') for call in calls), saved - CREATED,
                         'an edit was half in: saved and not answered, or answered and not saved')
        self.assertEqual({call[1] for call in calls if call[2] > answered}, {code})
        self.assertGreater(saved, CREATED, 'nobody was editing when the owner clicked')

    def calls_of_threads(self, world, click):
        """WORKERS threads call while the owner clicks; each goes on for some calls after the click."""
        clicked, calls, warm = threading.Event(), [], threading.Semaphore(0)

        def worker(number):
            after = [0]

            def until():
                warm.release()
                after[0] += clicked.is_set()
                return after[0] > 6
            calls.extend(work(world, number, until))
        threads = [threading.Thread(target=worker, args=(number,)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        for _ in range(WORKERS * 8):
            warm.acquire()
        saved, answered = click_and_count(world, click)
        clicked.set()
        for thread in threads:
            thread.join()
        return calls, saved, answered


CREATED = 2                               # events before the first edit: created, published


class InOneProcess(Seam):
    def test_after_the_click_has_answered_no_call_succeeds_and_no_edit_lands(self):
        for click, code in CLICKS:
            for trial in range(self.TRIALS):
                with self.subTest(click=click.__name__, trial=trial):
                    world = World().build()
                    try:
                        self.check_trial(world, click, code, *self.calls_of_threads(world, click))
                    finally:
                        world.close()


class AcrossTwoProcesses(Seam):
    TRIALS = 1

    def test_a_click_in_another_process_is_as_final(self):
        for click, code in CLICKS:
            for trial in range(self.TRIALS):
                with self.subTest(click=click.__name__, trial=trial):
                    self.one_trial(click, code)

    def one_trial(self, click, code):
        world = World().build()
        self.addCleanup(world.close)
        workers = [start_worker(world, number) for number in range(2)]
        try:
            for worker in workers:
                for _ in range(8):
                    worker.stdout.readline()                     # it is under way
            saved, answered = click_and_count(world, click)
            calls = [tuple(call) for worker in workers for call in stop_worker(worker)]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
                worker.stdout.close()
                worker.stdin.close()
        self.check_trial(world, click, code, calls, saved, answered)


def start_worker(world, number):
    code = 'from tests import test_article7_access_seam as seam; seam.run_worker()'
    return subprocess.Popen([sys.executable, '-c', code, world.folder, world.token, str(number)], cwd=TOP, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def stop_worker(worker):
    """Tell it that the owner has clicked; it calls on a little, then prints all its calls on one line."""
    worker.stdin.write('clicked\n')
    worker.stdin.flush()
    return json.loads(worker.stdout.read().rpartition('calls ')[2])


def run_worker():
    folder, token, number = sys.argv[1:]
    world = World(folder)
    world.token = token
    clicked, after = threading.Event(), [0]

    def listen():
        sys.stdin.readline()
        clicked.set()
    threading.Thread(target=listen, daemon=True).start()

    def until():
        if not clicked.is_set():
            print('.', flush=True)
        after[0] += clicked.is_set()
        return after[0] > 6
    calls = work(world, int(number), until)
    print('calls', json.dumps(calls))
    world.close(keep=True)


class TwoTransactions(Seam):
    """The design that the claims exclude: the check in one transaction, the work in the next."""

    def written_in_two(self, state, bearer, tool, arguments):
        with state.db.read() as tx:
            grant = access.authenticate(tx, bearer, state.now_us())
            ref = tool.ref(tx, arguments)
            access.check(tx, grant, tool.name, tool.needs, ref)
        self.between(tool)
        with state.db.write() as tx:
            return tool.run(tools.Call(tx, grant, f'connection:{grant.connection}', arguments, state.now_us(), state))

    def setUp(self):
        self.between = lambda tool: None
        real, tools.written = tools.written, self.written_in_two
        self.addCleanup(setattr, tools, 'written', real)

    def test_it_saves_an_edit_after_the_owner_has_revoked(self):
        world = World().build()
        self.addCleanup(world.close)
        edit = world.edit_arguments()
        self.between = lambda tool: world.click(access.revoke, world.connection)
        self.assertEqual(world.code('edit_knowledge_article', **edit), 'ok')
        self.assertEqual(edits(world), CREATED + 1)

    def test_the_trials_of_the_seam_catch_it(self):
        for trial in range(500):
            world = World().build()
            try:
                self.check_trial(world, revoke, 'connection_revoked', *self.calls_of_threads(world, revoke))
            except AssertionError as caught:
                self.assertRegex(str(caught), 'landed after the click|began after')
                return
            finally:
                world.close()
        self.fail('500 trials, and none noticed')


del Seam                                  # the claims run through its subclasses

if __name__ == '__main__':
    unittest.main()
