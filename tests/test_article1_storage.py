"""Article 1, "in un'unica transazione BEGIN IMMEDIATE": clocks that go back, two processes, kill -9, a torn log, nasty input."""
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

import bench_power
import kb_store
import versioned
from tests.kb_world import CLOCKS, KB, LOG, NOW_US, TOP, World, faults
from versioned import Database, Ref, Refusal


class Clocks(World):
    """Four clocks: a version is given once, and only the reader of the newest one gets through."""
    EDITS, THREADS = 40, 4

    def test_no_clock_gives_a_version_twice_and_no_stale_writer_gets_through(self):
        for clock in CLOCKS:
            with self.subTest(clock=clock):
                self.article(clock)
                answered = self.race(clock)
                self.assertEqual(len(set(answered)), self.EDITS * self.THREADS)
                self.assertEqual(faults(self.path, answered), [])
                last = max(version for _, version in answered)
                self.assertEqual(self.read(clock)['citation']['updated_at'], last)
                # each edit kept what the one before it had: none was written over a version its writer had not read
                self.assertEqual(len(json.loads(self.read(clock)['content'])), self.EDITS * self.THREADS)

    def race(self, clock):
        with self.db.write() as tx:
            kb_store.save_article(tx, 'p', {**KB, 'article_id': clock, 'content': '[]'}, CLOCKS[clock]())
        answered, failed = [], []

        def writer(number):
            try:
                for edit in range(self.EDITS):
                    answered.append(self.append_until_it_is_in(clock, f'{number}-{edit}'))
            except BaseException as error:
                failed.append(error)
        threads = [threading.Thread(target=writer, args=(number,)) for number in range(self.THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        return answered

    def append_until_it_is_in(self, clock, entry):
        tries = 0
        while True:
            tries += 1
            with self.db.read() as tx:
                seen = kb_store.read_knowledge_article(tx, 'c', {**KB, 'article_id': clock}, 0)
            arguments = {**KB, 'article_id': clock, 'content': json.dumps(json.loads(seen['content']) + [entry]),
                         'expected_version': seen['citation']['updated_at'], 'idempotency_key': f'{clock}-{entry}-{tries}'}
            try:
                with self.db.write() as tx:
                    made = kb_store.edit_knowledge_article(tx, 'c', arguments, CLOCKS[clock]())['citation']
                return made['article_id'], made['updated_at']
            except Refusal as refusal:
                self.assertEqual(refusal.code, 'stale_version')


class Turns(World):
    """One writer: whoever asked first is next."""

    def waiters(self, count):
        while len(self.db._writing._waiting) != count:
            time.sleep(0.001)

    def test_a_writer_that_asks_again_at_once_comes_after_those_who_waited(self):
        order = []

        def write(name):
            with self.db.write():
                order.append(name)
        threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(8)]
        with self.db.write():
            for number, thread in enumerate(threads):
                thread.start()
                self.waiters(number + 1)
        write('again')
        for thread in threads:
            thread.join(30)
        self.assertEqual(order, [*range(8), 'again'])

    def test_whoever_leaves_the_queue_by_a_signal_is_not_waited_for(self):
        """Also when his turn had come in that instant."""
        for had_come in (False, True):
            with self.subTest(had_come=had_come):
                queue = versioned.Queue()
                queue.__enter__()

                def leave(_number, _frame):
                    if had_come:
                        queue.__exit__()
                    raise InterruptedError
                self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, leave))
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                with self.assertRaises(InterruptedError):
                    queue.__enter__()
                if not had_come:
                    queue.__exit__()
                self.assertEqual((queue._taken, len(queue._waiting)), (False, 0))


class Processes(World):
    """Two processes of many threads on one file, killed with -9 while they write."""
    KILLS, THREADS, ARTICLES = 4, 20, 12
    ANSWERED = 30                          # at least so many between two kills

    def start(self, clock):
        process = subprocess.Popen([sys.executable, '-m', 'tests.kb_world', self.path, self.log, str(self.THREADS), clock],
                                   cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), b'writing\n')
        return process

    def answered(self):
        with open(self.log) as file:
            # the last line may have been cut by a kill: then its answer was not noted, and nobody counts on it
            return [tuple(line.split()) for line in file.read().split('\n')[:-1]]

    def test_kill_9_loses_no_answered_edit_repeats_no_version_and_leaves_no_gap(self):
        self.log = os.path.join(self.folder, 'answered')
        open(self.log, 'w').close()
        for number in range(self.ARTICLES):
            self.article(f'art-{number:06d}')
        draw = random.Random(1)
        running = [self.start('real'), self.start('jumping')]
        for kill in range(self.KILLS):
            before = len(self.answered())
            while len(self.answered()) < before + self.ANSWERED:
                self.assertTrue(all(process.poll() is None for process in running), 'a writer died on its own')
            victim = draw.randrange(2)
            running[victim].send_signal(signal.SIGKILL)
            running[victim].wait()
            running[victim] = self.start(draw.choice(sorted(CLOCKS)))
        for process in running:
            process.kill()
            process.wait()
        answered = self.answered()
        self.assertGreaterEqual(len(answered), self.KILLS * self.ANSWERED)
        self.assertEqual(len(set(answered)), len(answered))
        self.assertEqual(faults(self.path, answered), [])

    def test_the_check_itself_sees_a_lost_edit_a_gap_and_an_article_without_its_event(self):
        cited = self.article('art-000001')
        self.assertEqual(faults(self.path, [('art-000001', cited['updated_at'])]), [])
        self.assertIn('1 answered edits are lost', faults(self.path, [('art-000001', 'never')])[0])
        with self.db.write() as tx:
            tx.execute('UPDATE articles SET updated_us = updated_us + 1')
        self.assertEqual(faults(self.path), ['an article and its last event differ',
                                             'a version is not kept, or one that never was'])
        with self.db.write() as tx:
            tx.execute('UPDATE events SET sequence = 5')
        self.assertIn('the log has a gap', faults(self.path))


class SameKey(World):
    TRIALS = 20

    def test_two_calls_with_one_key_at_one_instant_have_one_effect_and_two_equal_answers(self):
        other = Database(self.path, [kb_store.SCHEMA])
        self.addCleanup(other.close)
        self.article('art-000001')
        for trial in range(self.TRIALS):
            cited, answers, barrier = self.read('art-000001')['citation'], [], threading.Barrier(2)
            arguments = {**KB, 'article_id': 'art-000001', 'content': str(trial), 'expected_version': cited['updated_at'],
                         'idempotency_key': f'trial-{trial:04d}'}

            def send(db):
                barrier.wait()
                with db.write() as tx:
                    answers.append(kb_store.edit_knowledge_article(tx, 'c', arguments, NOW_US))
            threads = [threading.Thread(target=send, args=(db,)) for db in (self.db, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            first, second = sorted(answers, key=len)
            self.assertEqual(second, {**first, 'replayed': True})
        with self.db.read() as tx:
            self.assertEqual(versioned.last_sequence(tx, Ref('knowledge_base', 'kb')), 1 + self.TRIALS)


class PowerCut(unittest.TestCase):
    COPIES = 20

    def test_a_cut_or_torn_log_is_never_inconsistent_and_full_loses_no_answered_edit(self):
        found = bench_power.cut_power(self.COPIES, seed=1)
        for synchronous in ('FULL', 'NORMAL'):
            self.assertEqual(found[synchronous].inconsistent, 0)
        self.assertEqual(max(found['FULL'].lost), 0)
        self.assertGreater(max(found['NORMAL'].lost), 0)


class Nasty(World):
    INPUTS = 1000
    TEXTS = ('', 'x', 'ab', 'kb', 'art-000001', 'x' * 200, 'x' * 201, 'x' * 100_000, '\x00', '\ud800', 'a\udfffb', '%_', '"', "'",
             '‮evil', '\x1b[31m', '🚀', 'ﷺ' * 20, '2026-11-08T09:00:00.000000Z', '9999-12-31T23:59:59.999999Z',
             '0000-00-00T00:00:00Z', '2026-11-08T09:00:00+99:99', 'key-00001', 'null', '[]', '\r\n', 'knowledge_base')
    OTHERS = (None, True, False, 0, 1, -1, 20, 21, 100, 101, 2 ** 63 - 1, 2 ** 63, -2 ** 63, 10 ** 400, 1.5, float('nan'),
              float('inf'), [], {}, ['ab'], {'a': {'b': []}}, b'ab', ())
    TOOLS = {kb_store.search_knowledge_base: ('knowledge_base_id', 'query', 'limit'),
             kb_store.read_knowledge_article: ('knowledge_base_id', 'article_id'),
             kb_store.edit_knowledge_article: ('knowledge_base_id', 'article_id', 'content', 'title', 'expected_version',
                                               'idempotency_key'),
             kb_store.poll_resource_events: ('resource_type', 'resource_id', 'after_sequence', 'limit')}
    GOOD = {**KB, **LOG, 'article_id': 'art-000001', 'query': 'refund', 'content': 'x', 'idempotency_key': 'key-00002',
            'expected_version': '2026-11-08T09:00:00.000000Z', 'limit': 5, 'after_sequence': 0, 'title': 'T'}

    def test_any_input_is_answered_or_refused_by_name_and_the_database_stays_whole(self):
        self.article('art-000001')
        draw, answered, refused = random.Random(1), 0, 0
        for _ in range(self.INPUTS):
            tool, names = draw.choice(sorted(self.TOOLS.items(), key=lambda item: item[0].__name__))
            arguments = {name: self.GOOD[name] for name in names}
            for name in draw.sample(names, draw.randint(0, min(2, len(names)))):
                arguments[name] = self.value(draw)
            if draw.random() < 0.1:
                del arguments[draw.choice(names)]
            try:
                json.dumps(self.call(tool, arguments)).encode()
                answered += 1
            except Refusal as refusal:
                refused += 1
                self.assertIn(refusal.code, ('invalid_argument', 'not_found', 'gone', 'stale_version',
                                             'idempotency_key_reused_with_different_body'))
                if refusal.code == 'invalid_argument':
                    self.assertIn(refusal.data['field'], names)
        self.assertEqual(faults(self.path), [])
        self.assertGreater(min(answered, refused), self.INPUTS // 5)

    def value(self, draw):
        kind = draw.random()
        if kind < 0.4:
            return draw.choice(self.TEXTS)
        if kind < 0.7:
            return draw.choice(self.OTHERS)
        return ''.join(chr(draw.choice((draw.randrange(128), draw.randrange(0x3000), draw.randrange(0x110000))))
                       for _ in range(draw.randrange(1, 30)))


if __name__ == '__main__':
    unittest.main()
