"""What every store stands on: one transaction, versions that only grow, one answer a key, a log without gaps."""
import os
import sqlite3
import tempfile
import threading
import unittest
from unittest import mock

import versioned
from versioned import Ref, Refusal

KB = Ref('knowledge_base', 'kb')
NOTES = 'CREATE TABLE IF NOT EXISTS notes (id TEXT PRIMARY KEY, text TEXT NOT NULL);  -- with a comment; and a semicolon\n'


class Store(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'state.db')
        self.db = versioned.Database(self.path, [NOTES])
        self.addCleanup(self.db.close)

    def refused(self, code, work, *arguments):
        with self.assertRaises(Refusal) as caught:
            work(*arguments)
        self.assertEqual(caught.exception.code, code)
        return caught.exception.data


class Transactions(Store):
    def test_an_exception_takes_everything_back_and_the_next_write_works(self):
        with self.assertRaises(ZeroDivisionError), self.db.write() as tx:
            tx.execute("INSERT INTO notes VALUES ('n1', 'half')")
            versioned.record_event(tx, KB, 'created', 'n1', 5)
            raise ZeroDivisionError
        with self.db.write() as tx:
            self.assertEqual(tx.execute('SELECT count(*) FROM notes').fetchone(), (0,))
            self.assertEqual(versioned.record_event(tx, KB, 'created', 'n1', 5), 1)

    def test_a_reader_sees_one_snapshot_while_a_writer_commits(self):
        with self.db.read() as before:
            self.assertEqual(before.execute('SELECT count(*) FROM notes').fetchone(), (0,))
            with self.db.write() as tx:
                tx.execute("INSERT INTO notes VALUES ('n1', 'new')")
            self.assertEqual(before.execute('SELECT count(*) FROM notes').fetchone(), (0,))
        with self.db.read() as after:
            self.assertEqual(after.execute('SELECT count(*) FROM notes').fetchone(), (1,))

    def test_a_reader_cannot_write(self):
        with self.db.read() as tx, self.assertRaises(sqlite3.OperationalError):
            tx.execute("INSERT INTO notes VALUES ('n1', 'new')")

    def test_a_writer_held_by_another_process_is_a_refusal_that_says_try_again(self):
        self.addCleanup(setattr, versioned, 'BUSY_TIMEOUT_S', versioned.BUSY_TIMEOUT_S)
        versioned.BUSY_TIMEOUT_S = 0.01
        other = versioned.Database(self.path, [])
        self.addCleanup(other.close)
        with self.db.write():
            self.refused('storage_busy', other.write().__enter__)

    def test_a_file_that_is_no_database_is_refused_by_name_and_left_as_it_is(self):
        path = os.path.join(os.path.dirname(self.path), 'letter.txt')
        with open(path, 'w') as file:
            file.write('Dear colleague, ' * 100)
        self.assertEqual(self.refused('storage_unusable', versioned.Database, path, [])['path'], path)
        self.assertEqual(os.path.getsize(path), 1600)

    def test_every_commit_is_on_the_disk_when_it_returns_and_a_foreign_schema_runs_no_unsafe_function(self):
        for transaction in (self.db.write, self.db.read):
            with transaction() as tx:
                self.assertEqual(tx.execute('PRAGMA synchronous').fetchone(), (2,), 'FULL')
                self.assertIn(tx.execute('PRAGMA trusted_schema').fetchone(), ((0,), None), 'None: SQLite before 3.31')

    def test_eight_threads_that_open_a_new_file_at_one_instant_all_get_it(self):
        path = os.path.join(os.path.dirname(self.path), 'new.db')
        barrier, opened = threading.Barrier(8), []

        def open_it():
            barrier.wait()
            opened.append(versioned.Database(path, [NOTES]))
        threads = [threading.Thread(target=open_it) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(opened), 8)
        for db in opened:
            db.close()

    def test_a_new_file_that_another_process_is_writing_is_waited_for(self):
        path = os.path.join(os.path.dirname(self.path), 'new.db')
        other = sqlite3.connect(path, isolation_level=None)
        self.addCleanup(other.close)
        other.execute('BEGIN IMMEDIATE')
        other.execute('CREATE TABLE letters (text TEXT)')
        with mock.patch.object(versioned.time, 'sleep', lambda seconds: other.execute('COMMIT')):
            versioned.Database(path, []).close()


class Versions(Store):
    def test_a_version_is_never_given_twice_whatever_the_clock_says(self):
        with self.db.write() as tx:
            stamps = [versioned.next_stamp(tx, KB, 0, now_us) for now_us in (100, 100, 50, 3, 100, 101, 200)]
        self.assertEqual(stamps, [100, 101, 102, 103, 104, 105, 200])

    def test_a_version_is_later_than_the_items_own_even_in_a_container_without_a_log(self):
        with self.db.write() as tx:
            self.assertEqual(versioned.next_stamp(tx, KB, 500, 100), 501)

    def test_a_version_is_later_than_every_stamp_in_its_log(self):
        with self.db.write() as tx:
            for stamp_us in (5, 100):
                versioned.record_event(tx, KB, 'updated', 'a', stamp_us)
            self.assertEqual(versioned.next_stamp(tx, KB, 0, 50), 101)

    def test_a_version_is_printed_with_six_digits_and_read_back_exactly(self):
        for stamp_us in (0, 1, 999_999, 1_000_000, 1_795_426_200_000_042, 253_402_300_799_999_999):
            text = versioned.stamp_text(stamp_us)
            self.assertRegex(text, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$')
            self.assertEqual(versioned.parse_stamp(text), stamp_us)

    def test_cut_digits_are_another_version_and_never_believed(self):
        self.assertNotEqual(versioned.parse_stamp('2026-11-08T09:30:00.118Z'),
                            versioned.parse_stamp('2026-11-08T09:30:00.118042Z'))

    def test_an_offset_names_the_same_instant(self):
        self.assertEqual(versioned.parse_stamp('2026-11-08T10:30:00.000001+01:00'),
                         versioned.parse_stamp('2026-11-08T09:30:00.000001Z'))

    def test_what_is_no_date_time_is_a_bad_argument_that_names_its_field(self):
        for text in ('', 'now', '2026-11-08', '2026-11-08T09:30:60Z', '2026-02-30T09:30:00Z', '2026-11-08T09:30:00Z\n',
                     '2026-11-08T09:30:00', '2026-11-08T09:30:00.1234567Z', '２026-11-08T09:30:00Z', 7, None, True,
                     '9999-12-31T23:59:59-01:00', '0001-01-01T00:00:00+01:00'):
            with self.subTest(text=text):
                data = self.refused('invalid_argument', versioned.parse_stamp, text)
                self.assertEqual(data['field'], 'expected_version')


class Replays(Store):
    def call(self, key, arguments, answer):
        with self.db.write() as tx:
            return versioned.once(tx, 'connection:c7', key, 'edit', arguments, lambda: answer)

    def test_the_same_call_gets_the_first_answer_marked_as_a_replay(self):
        self.assertEqual(self.call('key-00001', {'a': 1, 'b': 2}, {'n': 1}), {'n': 1})
        self.assertEqual(self.call('key-00001', {'b': 2, 'a': 1}, {'n': 2}), {'n': 1, 'replayed': True})

    def test_a_key_used_for_another_body_is_refused(self):
        self.call('key-00001', {'a': 1}, {'n': 1})
        for other in ({'a': 2}, {'a': True}, {'a': 1.0}, {'a': '1'}, {}):
            with self.subTest(other=other):
                self.refused('idempotency_key_reused_with_different_body', self.call, 'key-00001', other, {'n': 2})

    def test_a_key_used_for_another_tool_is_refused_though_the_arguments_are_the_same(self):
        self.call('key-00001', {'a': 1}, {'n': 1})
        with self.db.write() as tx:
            self.refused('idempotency_key_reused_with_different_body',
                         versioned.once, tx, 'connection:c7', 'key-00001', 'delete', {'a': 1}, dict)

    def test_a_refusal_stores_nothing_so_that_the_key_works_after_a_re_read(self):
        def stale():
            raise Refusal('stale_version', 'read again')
        with self.assertRaises(Refusal), self.db.write() as tx:
            versioned.once(tx, 'connection:c7', 'key-00001', 'edit', {}, stale)
        self.assertEqual(self.call('key-00001', {'v': 2}, {'n': 1}), {'n': 1})

    def test_a_key_has_8_to_128_characters_of_text(self):
        for key in ('', 'x' * 7, 'x' * 129, 'key-0001\x00', 'key-0001\ud800', None, 12345678):
            with self.subTest(key=key):
                self.assertEqual(self.refused('invalid_argument', self.call, key, {}, {})['field'], 'idempotency_key')
        for key in ('x' * 8, 'x' * 128):
            self.call(key, {}, {})

    def test_two_actors_may_use_one_key(self):
        self.call('key-00001', {}, {'n': 1})
        with self.db.write() as tx:
            self.assertEqual(versioned.once(tx, 'person:mika', 'key-00001', 'edit', {}, lambda: {'n': 2}), {'n': 2})


class Log(Store):
    def setUp(self):
        super().setUp()
        with self.db.write() as tx:
            for number in range(1, 251):
                versioned.record_event(tx, KB, 'updated', f'art-{number}', number * 1000)

    def poll(self, after, limit=100, ref=KB):
        with self.db.read() as tx:
            return versioned.events_after(tx, ref, after, limit)

    def test_whoever_polls_until_has_more_is_false_sees_every_event_once(self):
        seen, after, more = [], 0, True
        while more:
            page = self.poll(after)
            seen += [event['sequence'] for event in page['events']]
            after, more = page['next_sequence'], page['has_more']
        self.assertEqual(seen, list(range(1, 251)))
        self.assertEqual(self.poll(250), {'events': [], 'next_sequence': 250, 'has_more': False})

    def test_each_container_counts_for_itself(self):
        with self.db.write() as tx:
            self.assertEqual(versioned.record_event(tx, Ref('note', 'n1'), 'updated', 't1', 5), 1)
        self.assertEqual(self.poll(0, ref=Ref('note', 'n1'))['events'][0]['tab_id'], 't1')

    def test_a_cursor_past_the_end_comes_back_to_the_end(self):
        self.assertEqual(self.poll(9_999)['next_sequence'], 250)

    def test_a_cursor_older_than_the_pruned_log_is_told_so_and_a_younger_one_goes_on(self):
        with self.db.write() as tx:
            versioned.prune(tx, before_us=101_000)
        data = self.refused('cursor_too_old', self.poll, 99)
        self.assertEqual(data, {'first_sequence': 101, 'next_sequence': 250})
        self.assertEqual(self.poll(100)['events'][0]['sequence'], 101)
        with self.db.write() as tx:
            versioned.prune(tx, before_us=10 ** 9)
            self.assertEqual(versioned.record_event(tx, KB, 'updated', 'art-1', 10 ** 9), 251)
        self.assertEqual([event['sequence'] for event in self.poll(250)['events']], [251])

    def test_a_limit_or_a_cursor_out_of_bounds_names_the_field_and_the_limit(self):
        for after, limit, field in ((-1, 1, 'after_sequence'), (2 ** 63, 1, 'after_sequence'), (True, 1, 'after_sequence'),
                                    (0, 0, 'limit'), (0, 101, 'limit'), (0, 1.5, 'limit'), ('0', 1, 'after_sequence')):
            with self.subTest(after=after, limit=limit):
                self.assertEqual(self.refused('invalid_argument', self.poll, after, limit)['field'], field)


if __name__ == '__main__':
    unittest.main()
