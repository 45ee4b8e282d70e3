"""What is kept, for how long, and what a cursor or a key older than that is told (all articles, security point 15)."""
import json
import time
import unittest

from tests.access_world import KB_A, World

import activity
import note_people
import retention
import server
import versioned



class Retention(unittest.TestCase):
    def setUp(self):
        self.world = World().build()
        self.addCleanup(self.world.close)
        self.now_us = self.world.state.now_us()

    def sweep(self, days):
        retention.sweep(self.world.db, self.now_us + days * retention.DAY_US)

    def code(self, name, **arguments):
        return self.world.code(name, **arguments)

    def test_a_replay_is_kept_for_30_days_and_then_the_key_counts_as_new_behind_the_version(self):
        edit = self.world.edit_arguments()
        self.assertEqual(self.code('edit_knowledge_article', **edit), 'ok')
        self.sweep(29)
        self.assertTrue(self.world.call('edit_knowledge_article', **edit)['structuredContent']['replayed'])
        self.sweep(31)
        self.assertEqual(self.code('edit_knowledge_article', **edit), 'stale_version',
                         'it must not write a second time')

    def test_a_cursor_older_than_the_log_is_told_so_and_where_to_go_on(self):
        poll = {'resource_type': 'knowledge_base', 'resource_id': 'kb-a', 'after_sequence': 0}
        self.assertEqual(len(self.world.call('poll_resource_events', **poll)['structuredContent']['events']), 2)
        self.sweep(31)                                   # both events of the world are from 1970
        refusal = json.loads(self.world.call('poll_resource_events', **poll)['content'][0]['text'])
        self.assertEqual((refusal['error'], refusal['next_sequence']), ('cursor_too_old', 2))
        self.assertEqual(self.code('edit_knowledge_article', **self.world.edit_arguments()), 'ok')
        events = self.world.call('poll_resource_events', **dict(poll, after_sequence=2))['structuredContent']['events']
        self.assertEqual([event['sequence'] for event in events], [3], 'the sequence goes on where it was')

    def test_recent_activity_is_kept_for_90_days(self):
        self.code('list_granted_resources')
        self.world.recent()
        self.sweep(89)
        self.assertEqual(len(self.world.recent()), 1)
        self.sweep(91)
        self.assertEqual(self.world.recent(), [])

    def test_saved_versions_of_a_note_are_kept_for_a_year_and_the_current_one_for_ever(self):
        def saved():
            with self.world.db.read() as tx:
                return len(note_people.history(tx, 'note-a1'))
        before = saved()
        self.assertGreater(before, 1)
        self.sweep(365 * 60)
        self.assertEqual(saved(), 1)
        self.assertEqual(self.code('list_note_tabs', note_id='note-a1'), 'ok')

    def test_a_version_is_never_given_again_because_its_log_was_swept(self):
        with self.world.db.write() as tx:
            first = versioned.next_stamp(tx, KB_A, 0, self.now_us)
        self.sweep(400)
        with self.world.db.write() as tx:
            self.assertGreater(versioned.next_stamp(tx, KB_A, 0, 1), first)

    def test_the_server_sweeps_when_it_starts(self):
        folder = self.world.folder
        self.world.click(activity.record, [('c', 'long_ago', '', '', 'ok', self.now_us - 91 * retention.DAY_US)])
        running = server.start(server.Config(port=0, data=folder))
        try:
            for _ in range(3_000):
                with self.world.db.read() as tx:
                    if not activity.recent(tx, 'c'):
                        return
                time.sleep(0.01)
            self.fail('30 seconds, and nothing was swept')
        finally:
            server.stop(running)


if __name__ == '__main__':
    unittest.main()
