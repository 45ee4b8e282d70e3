"""Article 4: an agent proposes, the owner decides, git moves once (proposal_intake.py, proposals.py, proposal_card.py)."""
import itertools
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import git_plumbing
import git_repo
import proposal_card
import proposal_intake
import proposals
import versioned
from git_objects import GitError, person
from proposals import Facts, next_step
from tests.test_article4_git import TOP, Ground, git
from versioned import Database, Refusal

NOW = 1_790_000_000_000_000
CLAUDE, OWNER = 'connection:c7', 'person:repo-owner'
AUTHOR = person('Claude (conn-claude-research)', 'c7@connection.invalid')


class Crash(Exception):
    """The server died here."""


def crash():
    raise Crash


class Proposing(Ground):
    """A repository, a database, and a connection that proposes."""
    SCHEMAS = [proposal_intake.SCHEMA]

    def setUp(self):
        super().setUp()
        self.db = Database(os.path.join(self.folder, 'state.db'), self.SCHEMAS, synchronous='NORMAL')
        self.addCleanup(self.db.close)
        self.keys = itertools.count(1)
        with self.db.write() as tx:
            proposal_intake.register(tx, 'r1')

    def arguments(self, path='README.md', content='two\n', **more):
        return {'repository_id': 'r1', 'branch': 'main', 'message': 'Pin install version',
                'files': [{'path': path, 'content': content}], 'idempotency_key': f'key-{next(self.keys):08d}', **more}

    def intake(self, arguments, actor=CLAUDE, now_us=NOW, tool='propose_file_import'):
        with self.db.write() as tx:
            return proposal_intake.propose_file_import(tx, actor, arguments, now_us, self.repo, AUTHOR, tool=tool)

    def propose(self, path='README.md', content='two\n', **more):
        return self.intake(self.arguments(path, content, **more))['proposal_id']

    def decide(self, proposal, verb='approve', now_us=NOW + 1_000_000, approver=OWNER, repo=None, **more):
        return proposals.decide(self.db, repo or self.repo, proposal, approver, verb, now_us, **more)

    def stepping(self, **stops):
        repo = Stepping(self.path, **stops)
        self.addCleanup(repo.close)
        return repo

    def row(self, proposal):
        with self.db.read() as tx:
            return proposal_intake.find(tx, proposal)

    def read(self, proposal, actor=CLAUDE, now_us=NOW):
        with self.db.read() as tx:
            return proposal_intake.read_proposal(tx, actor, {'proposal_id': proposal}, now_us)

    def withdraw(self, proposal, actor=CLAUDE, now_us=NOW):
        with self.db.write() as tx:
            return proposal_intake.withdraw(
                tx, actor, {'proposal_id': proposal, 'idempotency_key': f'key-{next(self.keys):08d}'}, now_us)

    def on_main(self, proposal):
        """How many commits of this proposal the branch holds."""
        return git(self.path, 'log', '--format=%B', 'main').split('\n').count(f'Proposal: {proposal}')

    def assertRefused(self, code, work, *arguments, **named):
        with self.assertRaises(Refusal) as raised:
            work(*arguments, **named)
        self.assertEqual(raised.exception.code, code)
        return raised.exception


class Intake(Proposing):
    def test_it_pins_the_head_and_moves_nothing(self):
        answer = self.intake(self.arguments())
        self.assertEqual(answer, {'proposal_id': answer['proposal_id'], 'status': 'pending', 'base_oid': self.base})
        self.assertEqual((self.repo.head('main'), self.on_main(answer['proposal_id'])), (self.base, 0))

    def test_a_lost_answer_is_repeated_and_a_key_for_another_body_refused(self):
        arguments = self.arguments()
        first = self.intake(arguments)
        self.owner_commits('other', 'x')                  # the base is filled in, not sent: still the same call
        self.assertEqual(self.intake(arguments), {**first, 'replayed': True})
        self.assertRefused('idempotency_key_reused_with_different_body', self.intake, {**arguments, 'message': 'Other'})
        self.assertRefused('idempotency_key_reused_with_different_body', self.intake, arguments,
                           tool='propose_gitnest_file_import')
        self.assertNotEqual(self.intake(arguments, actor='connection:c8')['proposal_id'], first['proposal_id'])

    def test_of_one_connection_a_thousand_may_wait_in_a_repository_and_what_waits_no_more_makes_room(self):
        self.assertEqual(proposal_intake.MOST_PENDING, 1_000)
        with mock.patch.object(proposal_intake, 'MOST_PENDING', 3):
            waiting = [self.arguments() for _ in range(3)]
            made = [self.intake(arguments)['proposal_id'] for arguments in waiting]
            refused = self.assertRefused('too_many_pending', self.propose)
            self.assertEqual(refused.data, {'limit': 3})
            self.assertTrue(self.intake(waiting[0])['replayed'], 'a lost answer is still repeated')
            self.intake(self.arguments(), actor='connection:c8')
            self.withdraw(made[0])
            self.propose()
            self.assertRefused('too_many_pending', self.propose)
            self.decide(made[1], 'decline')
            self.propose()
            self.assertRefused('too_many_pending', self.propose)
            self.intake(self.arguments(), now_us=NOW + proposal_intake.TTL_US)     # the others have expired

    def test_an_empty_or_one_letter_key_is_no_key(self):
        for key in ('', 'x', '1234567', 'k' * 129):
            with self.subTest(key=key):
                self.assertRefused('invalid_argument', self.intake, self.arguments(idempotency_key=key))

    def test_a_base_that_is_no_longer_the_head_is_refused_at_once_with_the_head(self):
        self.assertEqual(self.intake(self.arguments(expected_base_oid=self.base))['base_oid'], self.base)
        head = self.owner_commits('other', 'x')
        arguments = self.arguments(expected_base_oid=self.base)
        self.assertEqual(self.assertRefused('stale', self.intake, arguments).data,
                         {'base_oid': self.base, 'branch_head': head})
        self.assertEqual(self.intake({**arguments, 'expected_base_oid': head})['base_oid'], head)   # the key still works

    def test_the_live_limits_hold_on_both_sides(self):
        def files(*contents):
            return [{'path': f'f{number}', 'content': content} for number, content in enumerate(contents)]
        for good in (files(*['x'] * 20), files('x' * 100_000, 'é' * 50_000), files('')):
            self.assertEqual(self.intake(self.arguments(files=good))['status'], 'pending')
        for bad in ([], files(*['x'] * 21), files('x' * 100_001), files('é' * 100_000, 'x'), files('a\x00b'),
                    files('\ud800')):
            self.assertRefused('invalid_argument', self.intake, self.arguments(files=bad))

    def test_a_trick_in_a_path_branch_or_message_is_refused_by_name_and_nothing_is_written(self):
        for more, field in (({'path': '../x'}, 'files[0].path'), ({'path': '.GIT/hooks/x'}, 'files[0].path'),
                            ({'branch': 'a..b'}, 'branch'), ({'branch': 'main\nrefs/heads/x'}, 'branch'),
                            ({'message': 'x\n\nApproved-by: boss'}, 'message'), ({'message': 'x' * 4001}, 'message')):
            with self.subTest(more=more):
                arguments = self.arguments(**more)
                self.assertEqual(self.assertRefused('invalid_argument', self.intake, arguments).data['field'], field)
        twins = [{'path': 'A', 'content': ''}, {'path': 'a', 'content': ''}]
        self.assertRefused('invalid_argument', self.intake, self.arguments(files=twins))
        self.assertRefused('path_conflict', self.intake, self.arguments('README.md/x'))
        with self.db.read() as tx:
            for table in ('proposals', 'file_imports', 'replays'):
                self.assertEqual(tx.execute(f'SELECT count(*) FROM {table}').fetchone(), (0,))

    def test_a_repository_with_gitnest_off_refuses(self):
        with self.db.write() as tx:
            proposal_intake.register(tx, 'r1', gitnest_on=False)
        self.assertRefused('gitnest_off', self.intake, self.arguments())
        self.assertRefused('gitnest_off', self.intake, self.arguments(repository_id='r2'))

    def test_a_proposal_is_its_proposers_to_read_and_to_take_back(self):
        proposal = self.propose()
        self.assertEqual(self.read(proposal), {
            'proposal_id': proposal, 'status': 'pending', 'branch': 'main', 'base_oid': self.base,
            'paths': ['README.md'], 'expires_at': versioned.stamp_text(NOW + proposal_intake.TTL_US)})
        self.assertRefused('not_found', self.read, proposal, actor='connection:c8')
        self.assertRefused('not_found', self.withdraw, proposal, actor='connection:c8')
        self.assertEqual(self.withdraw(proposal)['status'], 'withdrawn')
        self.assertEqual(self.assertRefused('already_decided', self.withdraw, proposal).data, {'status': 'withdrawn'})
        self.assertEqual(self.decide(proposal), {'status': 'withdrawn', 'refused': True})
        self.assertEqual(self.repo.head('main'), self.base)


class Approval(Proposing):
    def test_it_executes_once_and_then_replays_without_a_process(self):
        proposal = self.propose()
        answer = self.decide(proposal)
        self.assertEqual(answer, {'status': 'executed', 'commit': self.repo.head('main')})
        before = self.repo.processes
        self.assertEqual(self.decide(proposal), {**answer, 'replayed': True})
        self.assertEqual(self.repo.processes, before)
        self.assertEqual(self.read(proposal)['commit'], answer['commit'])
        self.assertSound()

    def test_the_commit_says_who_proposed_who_approved_and_which_proposal(self):
        proposal = self.propose(message='Pin install version\n\nBecause.\n')
        self.decide(proposal)
        self.assertEqual(git(self.path, 'log', '-1', '--format=%an|%cn|%s|%at|%ct', 'main'),
                         f'Claude (conn-claude-research)|repo-owner|Pin install version|{NOW // 10**6}|{NOW // 10**6 + 1}')
        trailers = git(self.path, 'log', '-1', '--format=%(trailers)', 'main')
        self.assertEqual(trailers, f'Proposal: {proposal}\nApproved-by: repo-owner')

    def test_the_second_on_the_same_base_is_stale_whatever_file_it_touches_and_names_the_head(self):
        a, b = self.propose('README.md'), self.propose('app.py')
        head = self.decide(a)['commit']
        refused = {'status': 'stale', 'refused': True, 'base_oid': self.base, 'branch_head': head}
        self.assertEqual(self.decide(b), refused)
        self.assertEqual(self.decide(b), refused)
        self.assertEqual((self.read(b)['status'], self.repo.count(self.repo.head('main'))), ('stale', 2))

    def test_only_a_person_decides_and_never_the_proposer(self):
        proposal = self.propose()
        for approver in (CLAUDE, 'connection:c8', 'repo-owner', ''):
            with self.subTest(approver=approver):
                self.assertRefused('agent_scope_denied', self.decide, proposal, approver=approver)
        self.assertRefused('invalid_argument', self.decide, proposal, verb='merge')
        self.assertRefused('not_found', self.decide, 'no-such-proposal')
        self.assertEqual(self.repo.head('main'), self.base)

    def test_a_decline_carries_a_reason_and_is_final(self):
        proposal = self.propose()
        self.assertEqual(self.decide(proposal, 'decline', reason='wrong file'), {'status': 'declined'})
        self.assertEqual(self.decide(proposal), {'status': 'declined', 'refused': True})
        self.assertEqual((self.read(proposal)['status'], self.read(proposal)['reason']), ('declined', 'wrong file'))

    def test_after_its_time_it_is_expired_for_everybody(self):
        proposal = self.propose()
        late = NOW + proposal_intake.TTL_US
        self.assertEqual(self.read(proposal, now_us=late - 1)['status'], 'pending')
        self.assertEqual(self.read(proposal, now_us=late)['status'], 'expired')
        self.assertRefused('already_decided', self.withdraw, proposal, now_us=late)
        self.assertEqual(self.decide(proposal, now_us=late), {'status': 'expired', 'refused': True})
        self.assertEqual(self.decide(proposal), {'status': 'expired', 'refused': True})      # also when the clock goes back
        self.assertEqual(self.repo.head('main'), self.base)

    def test_a_decision_under_way_is_not_expired_however_late_it_is_and_what_is_closed_stays_so(self):
        proposal, late = self.propose(), NOW + proposal_intake.TTL_US
        with self.assertRaises(Crash):
            self.decide(proposal, after_git=crash)
        self.assertEqual(self.read(proposal, now_us=late)['status'], 'pending')
        self.assertEqual(self.decide(proposal, now_us=late)['status'], 'executed')
        with self.db.write() as tx:
            for status in ('declined', 'stale', 'withdrawn'):
                proposal_intake.close(tx, proposal_intake.find(tx, proposal), status, OWNER, late)
        self.assertEqual(self.read(proposal)['status'], 'executed')

    def test_a_branch_that_appeared_or_vanished_since_is_stale(self):
        fresh = self.propose(branch='topic')
        git(self.path, 'branch', 'topic', 'main')
        self.assertEqual(self.decide(fresh)['status'], 'stale')
        gone = self.propose(branch='topic')
        git(self.path, 'branch', '-D', 'topic')
        self.assertEqual(self.decide(gone), {'status': 'stale', 'refused': True, 'base_oid': self.base, 'branch_head': None})
        begins = self.propose(branch='topic')
        commit = self.decide(begins)['commit']
        self.assertEqual(git(self.path, 'rev-parse', 'topic', 'topic^').split(), [commit, self.base])

    def test_the_first_commit_of_an_empty_repository(self):
        shutil.rmtree(self.path)
        self.repo.close()
        self.repo = git_repo.create(self.path)
        self.addCleanup(self.repo.close)
        proposal = self.propose()
        self.assertIsNone(self.row(proposal).base_oid)
        self.assertEqual(self.decide(proposal)['commit'], self.repo.head('main'))
        self.assertSound()

    def test_the_articles_processes_are_counted(self):
        plumbing = git_plumbing.Plumbing(self.path)
        self.addCleanup(plumbing.close)
        a, b, c, d = [self.propose(path) for path in ('a', 'b', 'c', 'd')]
        counts = []
        for proposal, mode in ((a, 'cas'), (a, 'cas'), (b, 'cas')):
            before = plumbing.processes
            self.decide(proposal, repo=plumbing, mode=mode)
            counts.append(plumbing.processes - before)
        self.assertEqual(counts, [8, 0, 2])
        e = self.propose('e')
        for proposal, status, count in ((c, 'stale', 1), (e, 'executed', 7), (e, 'executed', 0)):
            before = plumbing.processes
            self.assertEqual(self.decide(proposal, repo=plumbing, mode='naive')['status'], status)
            self.assertEqual(plumbing.processes - before, count)


class Recovery(Proposing):
    def test_next_step_row_by_row(self):
        pending = Facts('pending', False, True, 'base', 'base', None, None, False)
        mine = pending._replace(commit='C')
        table = [
            (pending, 'build'), (pending._replace(head='other'), 'stale'), (pending._replace(head=None), 'stale'),
            (pending._replace(expired=True), 'refuse'), (pending._replace(allowed=False), 'refuse'),
            (pending._replace(marker='X'), 'refuse'), (pending._replace(status='declined'), 'refuse'),
            (pending._replace(status='executed', head='other'), 'replay'),
            (mine, 'build'), (mine._replace(head='other'), 'stale'),
            (mine._replace(head='C', contains=True), 'add_marker'),
            (mine._replace(head='D', contains=True, marker='C'), 'replay'),
            (mine._replace(head='C', contains=True, allowed=False, expired=True), 'add_marker'),   # executed beats revoked
            (mine._replace(head='C', contains=True, status='declined', marker='C'), 'replay'),
            (mine._replace(marker='C'), 'build'), (mine._replace(marker='C', head='other'), 'stale'),
            (mine._replace(marker='X'), 'refuse'),
        ]
        for facts, step in table:
            with self.subTest(facts=facts):
                self.assertEqual(next_step(facts), step)

    def test_a_crash_after_git_is_a_replay_without_another_commit(self):
        proposal = self.propose()
        with self.assertRaises(Crash):
            self.decide(proposal, after_git=crash)
        head = self.repo.head('main')
        self.assertEqual((self.on_main(proposal), self.row(proposal).status), (1, 'pending'))
        self.assertRefused('decision_under_way', self.withdraw, proposal)
        self.assertEqual(self.decide(proposal), {'status': 'executed', 'commit': head, 'replayed': True})
        self.assertEqual((self.on_main(proposal), self.repo.head('main')), (1, head))

    def test_executed_beats_expired_revoked_and_declined_on_a_retry(self):
        def revoked(tx, row):
            raise Refusal('connection_revoked', 'gone')
        for more in ({'recheck': revoked}, {'now_us': NOW + 2 * proposal_intake.TTL_US}, {'verb': 'decline'}):
            with self.subTest(more=more):
                proposal = self.propose(content=str(more))
                with self.assertRaises(Crash):
                    self.decide(proposal, after_git=crash)
                answer = self.decide(proposal, **more)
                self.assertEqual((answer['status'], answer['commit']), ('executed', self.repo.head('main')))
                self.assertEqual('refused' in answer, 'verb' in more)
                self.assertEqual(self.read(proposal)['status'], 'executed')

    def test_a_crash_before_git_leaves_an_intent_and_the_retry_makes_the_very_same_commit(self):
        proposal = self.propose()
        with self.assertRaises(Crash):
            self.decide(proposal, repo=self.stepping(before_write=crash))
        foreseen = self.row(proposal).commit_oid
        self.assertIsNotNone(foreseen)
        self.assertEqual(self.decide(proposal, now_us=NOW + 77_000_000), {'status': 'executed', 'commit': foreseen})

    def test_who_asks_again_after_a_crash_is_not_put_down_as_who_decided(self):
        for step, verb in ((None, 'decline'), ('add_marker', 'approve')):
            proposal = self.propose(content=str(step))
            with self.assertRaises(Crash):
                self.decide(proposal, approver='person:mika', after_git=crash)
            if step:
                git(self.path, 'update-ref', '-d', 'refs/proposals/' + proposal)
            self.decide(proposal, verb, approver='person:aiko')
            with self.db.read() as tx:
                self.assertEqual(tx.execute('SELECT status, approver FROM proposals WHERE proposal = ?',
                                            (proposal,)).fetchone(), ('executed', 'person:mika'))

    def test_another_person_who_decides_after_a_crash_signs_himself(self):
        proposal = self.propose()
        with self.assertRaises(Crash):
            self.decide(proposal, repo=self.stepping(before_write=crash))
        self.decide(proposal, approver='person:mika')
        self.assertEqual(git(self.path, 'log', '-1', '--format=%cn', 'main'), 'mika')

    def test_torn_the_branch_moved_without_its_marker(self):
        proposal = self.propose()
        with self.assertRaises(Crash):
            self.decide(proposal, after_git=crash)
        git(self.path, 'update-ref', '-d', f'refs/proposals/{proposal}')
        commit = self.repo.head('main')
        self.owner_commits('later', 'x')
        self.assertEqual(self.decide(proposal), {'status': 'executed', 'commit': commit, 'replayed': True})
        self.assertEqual(self.repo.facts('main', proposal).marker, commit)
        self.assertEqual(self.on_main(proposal), 1)

    def test_torn_a_marker_without_its_branch_is_no_execution(self):
        proposal = self.propose()
        commit = self.torn_marker(proposal)
        proposals.recover(self.db, self.repo, 'r1', NOW)
        self.assertEqual(self.on_main(proposal), 0)
        self.assertEqual(self.decide(proposal), {'status': 'executed', 'commit': commit})
        self.assertEqual((self.on_main(proposal), self.repo.head('main')), (1, commit))
        lost = self.propose(content='three\n')
        self.torn_marker(lost)
        head = self.owner_commits('later', 'x')
        self.assertEqual(self.decide(lost)['status'], 'stale')
        self.assertEqual((self.on_main(lost), self.repo.head('main')), (0, head))

    def torn_marker(self, proposal):
        """What a git that queues the marker first leaves when it is killed between its two renames."""
        with self.assertRaises(Crash):
            self.decide(proposal, repo=self.stepping(before_move=crash))
        commit = self.row(proposal).commit_oid
        git(self.path, 'update-ref', f'refs/proposals/{proposal}', commit)
        return commit

    def test_a_forged_marker_executes_nothing(self):
        proposal = self.propose()
        git(self.path, 'update-ref', f'refs/proposals/{proposal}', self.base)
        answer = self.decide(proposal)
        self.assertEqual((answer['status'], answer['refused'], answer['error']), ('pending', True, 'marker_conflict'))
        self.assertEqual(self.repo.head('main'), self.base)

    def test_a_database_that_is_older_than_git_learns_from_the_marker(self):
        proposal = self.propose()
        with self.db.write() as tx:
            before = tx.execute('SELECT * FROM proposals').fetchall()
        commit = self.decide(proposal)['commit']
        with self.db.write() as tx:                       # a backup of yesterday comes back
            tx.execute('DELETE FROM proposals')
            tx.executemany(f'INSERT INTO proposals VALUES ({",".join("?" * len(before[0]))})', before)
            tx.execute('DELETE FROM intents')
        self.assertEqual(self.row(proposal).commit_oid, None)
        self.assertEqual(self.decide(proposal), {'status': 'executed', 'commit': commit, 'replayed': True})
        self.assertEqual(self.on_main(proposal), 1)

    def test_at_start_what_a_kill_cut_short_is_executed_or_open_again(self):
        done, undone = self.propose(content='a'), self.propose(content='b')
        with self.assertRaises(Crash):
            self.decide(done, after_git=crash)
        undone = self.propose(content='b')
        with self.assertRaises(Crash):
            self.decide(undone, repo=self.stepping(before_write=crash))
        git(self.path, 'update-ref', '-d', f'refs/proposals/{done}')
        self.assertEqual(proposals.recover(self.db, self.repo, 'r1', NOW), 2)
        self.assertEqual(self.read(done)['status'], 'executed')
        self.assertIsNotNone(self.repo.facts('main', done).marker)
        self.assertEqual(self.withdraw(undone)['status'], 'withdrawn')
        self.assertEqual(proposals.recover(self.db, self.repo, 'r1', NOW), 0)

    def test_what_another_process_ended_meanwhile_is_left_as_it_is(self):
        proposal = self.propose()
        commit = self.decide(proposal)['commit']
        git(self.path, 'update-ref', 'refs/heads/main', self.base)            # and the owner took it back by hand
        click = proposals.Click(OWNER, 'approve', NOW, proposals.nothing, '', proposals.nothing, crash)
        with self.repo.lock():
            proposals.bring_to_an_end(self.db, self.repo, proposal, click)
        self.assertEqual(self.decide(proposal), {'status': 'executed', 'commit': commit, 'replayed': True})

    def test_what_git_refuses_for_good_is_no_decision_under_way(self):
        proposal = self.propose(branch='main/sub')                    # git keeps main in a file: there is no folder
        self.assertEqual(self.decide(proposal)['error'], 'git_failed')
        self.assertEqual(self.withdraw(proposal)['status'], 'withdrawn')

    def test_a_git_that_cannot_be_reached_leaves_it_pending_and_says_why(self):
        def broken():
            raise GitError('git_failed', 'disk full')
        proposal = self.propose()
        answer = self.decide(proposal, repo=self.stepping(before_move=broken))
        self.assertEqual((answer['status'], answer['refused'], answer['error']), ('pending', True, 'git_failed'))
        self.assertEqual(self.decide(proposal)['status'], 'executed')
        self.assertSound()


class Stepping(git_repo.Repository):
    """The real repository, with a stop before a step."""

    def __init__(self, path, **stops):
        super().__init__(path)
        self.stops = stops

    def stop(self, name):
        if name in self.stops:
            self.stops.pop(name)()

    def facts(self, *arguments):
        self.stop('before_facts')
        return super().facts(*arguments)

    def build(self, intent):
        self.stop('before_build')
        return super().build(intent)

    def write(self, *arguments):
        self.stop('before_write')
        super().write(*arguments)

    def move(self, *arguments, **named):
        self.stop('before_move')
        super().move(*arguments, **named)
        self.stop('after_move')


STEPS = ('before_facts', 'before_build', 'before_write', 'before_move', 'after_move')
BEFORE_THE_DECISION = STEPS[:2]


class Meanwhile(Proposing):
    """Something else happens at each step of an approval: there is one story, and everybody is told the same."""

    def step(self, name, work):
        return self.stepping(**{name: work})

    def test_a_withdrawal_at_each_step(self):
        for step in STEPS:
            with self.subTest(step=step):
                proposal, told = self.propose(content=step), []

                def withdraw():
                    try:
                        told.append(self.withdraw(proposal)['status'])
                    except Refusal as refusal:
                        told.append(refusal.code)
                status = self.decide(proposal, repo=self.step(step, withdraw))['status']
                early = step in BEFORE_THE_DECISION
                self.assertEqual((status, told), ('withdrawn', ['withdrawn']) if early
                                 else ('executed', ['decision_under_way']))
                self.assertEqual((self.read(proposal)['status'], self.on_main(proposal)), (status, int(not early)))

    def test_a_revocation_at_each_step(self):
        for step in STEPS:
            with self.subTest(step=step):
                proposal, revoked = self.propose(content=step), threading.Event()

                def recheck(tx, row):
                    if revoked.is_set():
                        raise Refusal('connection_revoked', 'the owner has revoked this connection')
                answer = self.decide(proposal, repo=self.step(step, revoked.set), recheck=recheck)
                early = step in BEFORE_THE_DECISION
                self.assertEqual((answer['status'], answer.get('error')),
                                 ('pending', 'connection_revoked') if early else ('executed', None))
                self.assertEqual(self.on_main(proposal), int(not early))

    def test_a_decline_at_each_step_waits_and_reads_what_happened(self):
        for step in STEPS:
            with self.subTest(step=step):
                proposal, told = self.propose(content=step), []
                other = threading.Thread(target=lambda: told.append(self.decide(proposal, 'decline')))
                self.assertEqual(self.decide(proposal, repo=self.step(step, other.start))['status'], 'executed')
                other.join()
                self.assertEqual((told[0]['status'], told[0]['refused']), ('executed', True))
                self.assertEqual((self.read(proposal)['status'], self.on_main(proposal)), ('executed', 1))

    def test_whoever_clicks_while_another_decides_changes_neither_who_decided_nor_what_followed(self):
        proposal, followed = self.propose(), []
        others = [threading.Thread(target=self.decide, args=(proposal, verb), kwargs={'approver': 'person:aiko'})
                  for verb in ('approve', 'decline')]
        repo = self.step('after_move', lambda: [other.start() for other in others])
        self.decide(proposal, repo=repo, afterwards=lambda *_: followed.append(1))
        for other in others:
            other.join()
        self.assertEqual((self.row(proposal).status, len(followed)), ('executed', 1))
        with self.db.read() as tx:
            self.assertEqual(tx.execute('SELECT approver FROM proposals WHERE proposal = ?', (proposal,)).fetchone(),
                             (OWNER,))

    def test_a_push_at_each_step_is_never_overwritten(self):
        for step in STEPS:
            with self.subTest(step=step):
                proposal, pushed = self.propose(content=step), []
                repo = self.step(step, lambda: pushed.append(self.owner_commits('by-hand', step)))
                answer = self.decide(proposal, repo=repo)
                late = step == 'after_move'
                self.assertEqual(answer['status'], 'executed' if late else 'stale')
                if not late:
                    self.assertEqual(answer['branch_head'], pushed[0])
                self.assertEqual(self.on_main(proposal), int(late))
                self.assertEqual(git(self.path, 'merge-base', pushed[0], 'main'), pushed[0])

    def test_gitnest_switched_off_meanwhile_refuses(self):
        proposal = self.propose()
        with self.db.write() as tx:
            proposal_intake.register(tx, 'r1', gitnest_on=False)
        self.assertEqual(self.decide(proposal)['error'], 'gitnest_off')


class Races(Proposing):
    CLICKS, PAIRS = 12, 8

    def at_once(self, *works):
        barrier, answers = threading.Barrier(len(works)), [None] * len(works)

        def run(number, work):
            barrier.wait()
            answers[number] = work()
        threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def test_a_double_click_is_executed_and_a_replay(self):
        second = git_repo.Repository(self.path)           # as another server process holds it
        self.addCleanup(second.close)
        for number in range(self.CLICKS):
            proposal = self.propose(content=f'{number}\n')
            answers = self.at_once(lambda: self.decide(proposal),
                                   lambda: self.decide(proposal, repo=second if number % 2 else None))
            self.assertEqual([answer['status'] for answer in answers], ['executed', 'executed'])
            self.assertEqual(sorted('replayed' in answer for answer in answers), [False, True])
            self.assertEqual(self.on_main(proposal), 1)

    def test_two_on_one_base_are_exactly_one_executed_and_one_stale_that_names_it(self):
        for number in range(self.PAIRS):
            a, b = self.propose('a', f'{number}\n'), self.propose('b', f'{number}\n')
            answers = sorted(self.at_once(lambda: self.decide(a), lambda: self.decide(b)), key=lambda one: one['status'])
            self.assertEqual([answer['status'] for answer in answers], ['executed', 'stale'])
            self.assertEqual(answers[1]['branch_head'], answers[0]['commit'])
            git(self.path, 'merge-base', '--is-ancestor', answers[0]['commit'], 'main')

    def test_the_naive_way_loses_one_of_two(self):
        plumbing = [git_plumbing.Plumbing(self.path) for _ in range(2)]
        meet = threading.Barrier(2)
        for repo in plumbing:                             # both have looked before either writes, as in the article
            self.addCleanup(repo.close)
            repo.write = lambda *arguments, write=repo.write: (meet.wait(), write(*arguments))
        a, b = self.propose('a'), self.propose('b')
        answers = self.at_once(lambda: self.decide(a, repo=plumbing[0], mode='naive'),
                               lambda: self.decide(b, repo=plumbing[1], mode='naive'))
        self.assertEqual([answer['status'] for answer in answers], ['executed', 'executed'])
        self.assertEqual(self.on_main(a) + self.on_main(b), 1)


KILLED = """
import sys
import git_repo, proposal_intake, proposals
from versioned import Database
path, state, proposal, now_us = sys.argv[1:]
db, repo = Database(state, [proposal_intake.SCHEMA]), git_repo.Repository(path)
repo.head('main')
print('ready', flush=True)
sys.stdin.readline()
print(proposals.decide(db, repo, proposal, 'person:repo-owner', 'approve', int(now_us)), flush=True)
"""


class Kills(Proposing):
    KILLS, MEASURED = 15, 3

    def test_a_server_killed_at_any_instant_loses_nothing_doubles_nothing_and_locks_nothing(self):
        draw, outcomes = random.Random(9), {'before': 0, 'after': 0}
        # From the click to a little after its end, as long as that is on this machine now.
        longest_s = 1.3 * statistics.median(self.time_one(f'measured {number}\n') for number in range(self.MEASURED))
        for number in range(self.KILLS):
            proposal = self.propose(f'f{number % 5}', f'{number}\n')
            self.kill_one(proposal, draw.random() * longest_s, with_git=number % 2 == 1)
            with self.subTest(kill=number):
                answer = self.decide(proposal, now_us=NOW + 5_000_000)
                self.assertEqual(answer['status'], 'executed')
                self.assertEqual(self.on_main(proposal), 1)
                self.assertEqual(self.leftovers(), [])
                outcomes['after' if 'replayed' in answer else 'before'] += 1
                # Whatever the machine does meanwhile, as many kills fall before the move as after it.
                longest_s *= 0.97 if 'replayed' in answer else 1.03
        self.outcomes = outcomes
        self.assertSound()
        self.assertEqual(self.repo.count(self.repo.head('main')), 1 + self.MEASURED + self.KILLS)

    def kill_one(self, proposal, after_s, with_git):
        """SIGKILL the process alone (its git becomes an orphan), or the git with it."""
        child = self.start_one(proposal)
        threading.Event().wait(after_s)
        try:
            (os.killpg if with_git else os.kill)(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.end_one(child)

    def time_one(self, content):
        child = self.start_one(self.propose(content=content))
        child.stdout.readline()
        spent_s = time.monotonic() - self.clicked
        self.end_one(child)
        return spent_s

    def start_one(self, proposal):
        child = subprocess.Popen([sys.executable, '-c', KILLED, self.path, self.db.path, proposal, str(NOW + 5_000_000)],
                                 cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        child.stdout.readline()
        self.clicked = time.monotonic()
        child.stdin.write(b'go\n')
        child.stdin.flush()
        return child

    def end_one(self, child):
        child.stdin.close()
        child.stdout.close()
        child.wait()


class Card(Proposing):
    def card(self, proposal):
        return proposal_card.card(self.repo, self.row(proposal))

    def test_pinned_values_are_text(self):
        proposal = self.propose()
        text = self.card(proposal)
        for line in (f'Proposal: {proposal}', f'Reviewed commit: {self.base}', 'Branch: main', 'Files: 1',
                     'From: Claude (conn-claude-research) <c7@connection.invalid>', '    Pin install version',
                     'README.md (file, changed)', '-one', '+two'):
            self.assertIn(line, text.split('\n'))

    def test_a_character_that_no_eye_sees_is_shown_by_its_number(self):
        text = self.card(self.propose('a.py', 'if x:\u202e # \u2066\n\tok\x1b[2J\u200b\r\n'))
        for shown in ('<U+202E>', '<U+2066>', '<U+001B>[2J', '<U+200B>', '<U+000D>', '+\tok'):
            self.assertIn(shown, text)
        for hidden in '\u202e\x1b\u200b\r':
            self.assertNotIn(hidden, text)

    def test_every_line_is_there_however_long_the_file(self):
        old, new = [f'old {n}\n' for n in range(3000)], [f'new {n}\n' for n in range(3000)]
        self.base = self.commit(self.base, [('long', ''.join(old))], 'long')
        text = self.card(self.propose('long', ''.join(new)))
        self.assertEqual((text.count('\n-old '), text.count('\n+new ')), (3000, 3000))

    def test_modes_new_files_missing_newlines_and_files_that_git_acts_on_are_marked(self):
        self.base = self.commit(self.base, [('same', 'same\n')], 'same')
        proposal = self.propose(files=[{'path': 'same', 'content': 'same\n'}, {'path': 'x/.gitmodules', 'content': 'x'},
                                       {'path': 'README.md', 'content': 'one'}])
        text = self.card(proposal)
        self.assertIn('same (file, unchanged)', text)
        self.assertIn('x/.gitmodules (new file)  <-- look twice', text)
        self.assertIn('-one\n+one  <no newline at the end>', text)

    def test_a_branch_to_be_and_a_first_commit_are_said(self):
        self.assertIn('does not exist yet', self.card(self.propose(branch='topic')))


if __name__ == '__main__':
    unittest.main()
