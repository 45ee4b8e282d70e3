"""Article 6, "Dov'è il confine": an app in a Room is proposed, waits with its Room and files in sight, and the owner decides."""
import json
import unittest
from unittest import mock

from tests.access_world import APPROVER, OWNER, World

import access
import owner_project
import rooms
import workspace
from versioned import Ref, Refusal

ROOM = Ref('room', 'launch-room')
FILES = [{'path': 'index.html', 'content': '<h1>Launch</h1>'}, {'path': 'lib/app.js', 'content': 'start()'}]


class Rooms(unittest.TestCase):
    def setUp(self):
        self.world = World().build()
        self.addCleanup(self.world.close)
        self.owner('create_room', room_id=ROOM.id, name='Launch room', project='project-a', workspace='acme')

    def owner(self, verb, person=OWNER, **arguments):
        return {**owner_project.VERBS, 'decide': owner_project.decide_room}[verb](self.world.state, person, arguments)

    def propose(self, **changes):
        arguments = dict({'room_id': ROOM.id, 'app_name': 'countdown', 'files': FILES,
                          'idempotency_key': self.world.key()}, **changes)
        return self.world.call('propose_room_app_install', **arguments)

    def proposed(self, **changes):
        return self.propose(**changes)['structuredContent']['proposal_id']

    def read(self):
        return self.world.call('read_room', room_id=ROOM.id)['structuredContent']

    def refused(self, code, work, *arguments, **named):
        with self.assertRaises(Refusal) as caught:
            work(*arguments, **named)
        self.assertEqual(caught.exception.code, code)

    def test_a_room_of_the_project_is_listed_and_read(self):
        listed = self.world.call('list_project_resources', resource_type='room')['structuredContent']['resources']
        self.assertEqual([item['resource_id'] for item in listed], [ROOM.id])
        self.assertEqual(self.read(), {'room_id': ROOM.id, 'name': 'Launch room', 'apps': [], 'proposals': []})

    def test_an_install_becomes_a_proposal_and_changes_nothing(self):
        proposal = self.proposed()
        self.assertEqual(self.read()['apps'], [])
        self.assertEqual([(one['proposal_id'], one['status']) for one in self.read()['proposals']],
                         [(proposal, 'pending')])

    def test_of_one_connection_a_thousand_may_wait_for_a_room(self):
        self.assertEqual(rooms.MOST_PENDING, 1_000)
        with mock.patch.object(rooms, 'MOST_PENDING', 2):
            first, _ = self.proposed(), self.proposed()
            refused = json.loads(self.propose()['content'][0]['text'])
            self.assertEqual((refused['error'], refused['limit']), ('too_many_pending', 2))
            self.owner('decide', proposal_id=first, decision='decline')
            self.proposed()

    def test_the_card_shows_the_room_the_app_and_every_file_in_full(self):
        self.proposed()
        with self.world.db.read() as tx:
            card, = owner_project.room_cards(tx, OWNER, self.world.state.now_us())
            self.assertEqual(owner_project.room_cards(tx, 'person:nobody', self.world.state.now_us()), [])
        self.assertEqual((card['room'], card['app_name'], card['files']), ('Launch room', 'countdown', FILES))

    def test_approve_installs_once_and_a_second_click_is_a_replay(self):
        proposal = self.proposed()
        self.assertEqual(self.owner('decide', proposal_id=proposal, decision='approve'), {'status': 'executed'})
        self.assertEqual(self.owner('decide', proposal_id=proposal, decision='approve'),
                         {'status': 'executed', 'replayed': True})
        self.assertEqual(self.owner('decide', proposal_id=proposal, decision='decline'),
                         {'status': 'executed', 'refused': True})
        self.assertEqual([app['app_name'] for app in self.read()['apps']], ['countdown'])

    def test_decline_tells_the_assistant_the_owners_reason(self):
        self.owner('decide', proposal_id=self.proposed(), decision='decline', reason='not in this Room')
        told, = self.read()['proposals']
        self.assertEqual((told['status'], told['reason']), ('declined', 'not in this Room'))

    def test_of_two_proposals_for_one_app_the_second_approved_is_stale(self):
        first, second = self.proposed(), self.proposed()
        self.owner('decide', proposal_id=first, decision='approve')
        self.assertEqual(self.owner('decide', proposal_id=second, decision='approve'),
                         {'status': 'stale', 'refused': True})

    def test_a_proposal_expires(self):
        proposal = self.proposed()
        later = self.world.state.now_us() + self.world.state.config.ttl * 1_000_000
        answer = self.world.click(rooms.decide, proposal, OWNER, 'approve', '', later)
        self.assertEqual(answer, {'status': 'expired', 'refused': True})

    def test_a_proposal_of_a_connection_that_may_no_longer_is_refused_and_can_be_declined(self):
        connection = self.world.connection
        changes = ((access.revoke, connection), (access.remove_from_project, connection, 'project-a'),
                   (access.move, ROOM, 'project-b'), (workspace.set_role, APPROVER, ROOM, 'viewer'),
                   (access.save_tools, connection, ['propose_room_app_install']))
        codes = ('connection_revoked', 'not_in_project', 'not_in_project', 'approver_lacks_role', 'tool_not_enabled')
        for change, code in zip(changes[::-1], codes[::-1]):          # revoking is for good, so it comes last
            with self.subTest(code=code):
                self.restore()
                proposal = self.proposed()
                self.world.click(*change)
                self.refused(code, self.owner, 'decide', proposal_id=proposal, decision='approve')
                self.assertEqual(self.owner('decide', proposal_id=proposal, decision='decline'), {'status': 'declined'})

    def restore(self):
        self.world.click(access.add_to_project, self.world.connection, 'project-a')
        self.world.click(access.move, ROOM, 'project-a')
        self.world.click(workspace.set_role, APPROVER, ROOM, 'editor')
        self.world.click(access.save_tools, self.world.connection, [])

    def test_only_who_may_edit_the_room_decides(self):
        proposal = self.proposed()
        self.refused('not_found', self.owner, 'decide', 'person:stranger', proposal_id=proposal, decision='approve')
        self.world.click(workspace.set_role, APPROVER, ROOM, 'viewer')
        self.refused('role_too_low', self.owner, 'decide', APPROVER, proposal_id=proposal, decision='approve')

    def test_paths_that_could_leave_the_app_or_collide_are_refused(self):
        paths = ('../x', '/x', 'a/../b', '.git/config', 'a//b', 'a\\b', 'C:x', 'a\u202eb', 'x' * 256, 'a/', '')
        for path in paths:
            with self.subTest(path=path):
                self.assertTrue(self.propose(files=[{'path': path, 'content': ''}])['isError'])
        for twins in (('a', 'A'), ('a', 'a/b')):
            with self.subTest(twins=twins):
                self.assertTrue(self.propose(files=[{'path': path, 'content': ''} for path in twins])['isError'])

    def test_too_many_bytes_together_are_refused_with_the_limit(self):
        files = [{'path': f'f{number}', 'content': 'ü' * 50_000} for number in range(3)]
        refusal = json.loads(self.propose(files=files)['content'][0]['text'])
        self.assertEqual((refusal['error'], refusal['limit']), ('invalid_argument', 'at most 200,000 bytes together'))

    def test_a_repeated_proposal_is_the_first_one(self):
        key = self.world.key()
        self.assertEqual(self.proposed(idempotency_key=key), self.proposed(idempotency_key=key))

    def test_an_id_that_is_taken_is_refused(self):
        self.refused('already_exists', self.owner, 'create_room', room_id=ROOM.id, name='Again', workspace='acme')


if __name__ == '__main__':
    unittest.main()
