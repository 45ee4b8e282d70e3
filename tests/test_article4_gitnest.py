"""Article 4, the rest of GitNest: what the seven propose tools pin, and the window between proposing and approving."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest
from contextlib import contextmanager
from unittest import mock

import catalogue
import git_repo
import gitnest
import gitnest_card
import gitnest_provider
import gitnest_proposals
import proposal_card
import proposal_intake
import proposals
from gitnest_proposals import CHANGE_SET, COMPOSITION, NATIVE, OID, PROVIDER, RERUN, VERSION, WORK, Click
from tests.test_article4 import AUTHOR, CLAUDE, NOW, OWNER, STEPS, Proposing
from tests.test_article4_git import TOP, git
from versioned import Refusal

FILE_IMPORT = 'propose_gitnest_file_import'
SEVEN = (WORK, CHANGE_SET, COMPOSITION, FILE_IMPORT, RERUN, NATIVE, PROVIDER)
PUBLICATIONS = (NATIVE, PROVIDER)
SECRET = 'x-access-token:ghp_0123456789abcdef'


class Gitnest(Proposing):
    """A repository with a policy, a provider whose address holds a secret, and every answer that was ever given."""
    SCHEMAS = [proposal_intake.SCHEMA, gitnest.SCHEMA, gitnest_proposals.SCHEMA]

    def setUp(self):
        super().setUp()
        self.provider = os.path.join(self.folder, SECRET + '@github.com', 'site.git')
        os.makedirs(os.path.dirname(self.provider))
        git_repo.create(self.provider).close()
        self.answers = []
        self.set_policy(required_checks=('tests',), provider='github', provider_url=self.provider)

    def set_policy(self, **more):
        with self.db.write() as tx:
            gitnest.set_policy(tx, 'r1', gitnest.policy(tx, 'r1')._replace(**more))

    def ask(self, tool, **arguments):
        arguments = {'repository_id': 'r1', 'idempotency_key': f'key-{next(self.keys):08d}', **arguments}
        try:
            if tool == FILE_IMPORT:
                return self.noted(self.intake(arguments, tool=tool))
            with self.db.write() as tx:
                return self.noted(gitnest_proposals.propose(tx, CLAUDE, arguments, NOW, tool, self.repo, AUTHOR))
        except Refusal as refusal:
            self.noted(refusal.as_dict())
            raise

    def click(self, proposal, verb='approve', now_us=NOW + 1_000_000, repo=None, approver=OWNER, **more):
        return self.noted(gitnest_proposals.decide(self.db, repo or self.repo, proposal,
                                                   Click(approver, verb, now_us, **more)))

    def noted(self, answer):
        self.answers.append(json.dumps(answer))
        return answer

    def do(self, tool, **arguments):
        """Proposed and approved."""
        return self.click(self.ask(tool, **arguments)['proposal_id'])

    def make_change_set(self, *contents, **more):
        imports = [{'message': f'step {number}', 'files': [{'path': 'app.py', 'content': content}]}
                   for number, content in enumerate(contents or ('two\n',))]
        return self.do(CHANGE_SET, title='Bump app', target_branch='main', imports=imports, **more)['change_set_id']

    def compose(self, change_set, version=1):
        return self.do(COMPOSITION, change_set_id=change_set, **{VERSION: version})['commit']

    def composed(self):
        """(change set, its pins), composed and with its required check passed."""
        change_set = self.make_change_set()
        oid = self.compose(change_set)
        self.record(change_set, oid, 'passed')
        return change_set, {'change_set_id': change_set, VERSION: 1, OID: oid}

    def record(self, change_set, oid, status):
        with self.db.write() as tx:
            gitnest.record_check(tx, change_set, oid, 'tests', status, '', NOW)

    def revise(self, change_set):
        with self.db.write() as tx:
            return gitnest.revise(tx, change_set, [{'message': 'other', 'files': [{'path': 'b', 'content': 'b\n'}]}],
                                  gitnest.find(tx, change_set).version)

    def pulls(self):
        with self.db.read() as tx:
            return tx.execute('SELECT head_oid, provider, status FROM gitnest_pull_requests').fetchall()

    def status(self, proposal):
        with self.db.read() as tx:
            return tx.execute('SELECT status FROM proposals WHERE proposal = ?', (proposal,)).fetchone()[0]

    def ready(self, tool):
        """A proposal of this tool that an approval would execute; and the change set it is about, if any."""
        if tool == WORK:
            return self.ask(WORK, title='Ship it')['proposal_id'], None
        if tool == CHANGE_SET:
            return self.ask(CHANGE_SET, title='Bump', target_branch='main', imports=[
                {'message': 'm', 'files': [{'path': 'x', 'content': 'x'}]}])['proposal_id'], None
        if tool == FILE_IMPORT:
            arguments = self.arguments()
            return self.ask(FILE_IMPORT, **{name: arguments[name] for name in ('branch', 'message', 'files')}
                            )['proposal_id'], None
        if tool == COMPOSITION:
            change_set = self.make_change_set()
            return self.ask(COMPOSITION, change_set_id=change_set, **{VERSION: 1})['proposal_id'], change_set
        change_set, pins = self.composed()
        more = {'check': 'tests'} if tool == RERUN else {}
        return self.ask(tool, **pins, **more)['proposal_id'], change_set


class WhatIsPinned(unittest.TestCase):
    def test_the_table_of_the_article(self):
        table = {                                         # key, version, oid, openWorldHint
            WORK: (True, False, False, False), CHANGE_SET: (True, False, False, False),
            COMPOSITION: (True, True, False, False), FILE_IMPORT: (True, False, False, False),
            RERUN: (True, True, True, False), NATIVE: (True, True, True, True), PROVIDER: (True, True, True, True)}
        tools = catalogue.by_name()
        for name, row in table.items():
            with self.subTest(tool=name):
                required = tools[name].schema['required']
                self.assertEqual(tuple(field in required for field in ('idempotency_key', VERSION, OID)) +
                                 (tools[name].open_world,), row)
                self.assertFalse(tools[name].read_only)

    def test_there_are_seven_that_propose_and_six_that_only_read(self):
        gitnests = {name: tool for name, tool in catalogue.by_name().items() if 'gitnest' in name}
        self.assertEqual({name for name, tool in gitnests.items() if not tool.read_only}, set(SEVEN))
        self.assertEqual({name for name, tool in gitnests.items() if tool.read_only}, {
            'read_gitnest_repository', 'search_gitnest_code', 'list_gitnest_work', 'read_gitnest_work',
            'list_gitnest_saved_results', 'list_gitnest_checks'})


class WhatItLeadsTo(Gitnest):
    def test_every_kind_of_proposal_counts_among_the_thousand_that_may_wait(self):
        with mock.patch.object(proposal_intake, 'MOST_PENDING', 2):
            self.ask(WORK, title='one')
            self.ask(FILE_IMPORT, branch='main', message='m', files=[{'path': 'a', 'content': 'b'}])
            for tool, arguments in ((WORK, {'title': 'two'}), (FILE_IMPORT, {
                    'branch': 'main', 'message': 'm', 'files': [{'path': 'a', 'content': 'b'}]})):
                self.assertRefused('too_many_pending', self.ask, tool, **arguments)

    def test_from_a_work_item_to_a_pull_request(self):
        work = self.do(WORK, title='Ship it', description='soon')['work_id']
        change_set = self.make_change_set('two\n', 'three\n', work_id=work)
        oid = self.compose(change_set)
        self.assertEqual(git(self.path, 'show', f'change-sets/{change_set}:app.py'), 'three')
        self.assertEqual(git(self.path, 'rev-parse', f'change-sets/{change_set}', f'{oid}^').split(), [oid, self.base])
        self.assertEqual(git(self.path, 'log', '-1', '--format=%an|%cn|%s', oid),
                         'Claude (conn-claude-research)|repo-owner|Bump app')
        with self.db.read() as tx:
            read = gitnest.read_work(tx, 'r1', work)['change_sets'][0]
        self.assertEqual((read['version'], read['composition_oid'], read['composed_version']), (1, oid, 1))
        pins = {'change_set_id': change_set, VERSION: 1, OID: oid}
        native = self.ask(NATIVE, **pins)['proposal_id']
        refused = self.click(native)
        self.assertEqual((refused['error'], refused['checks']), ('required_checks', [{'name': 'tests', 'status': 'queued'}]))
        self.record(change_set, oid, 'passed')
        opened = self.click(native)
        self.assertEqual((opened['status'], opened['base_branch'], opened['base_oid'], opened['head_oid']),
                         ('executed', 'main', self.base, oid))
        self.assertEqual(self.click(native), {**opened, 'replayed': True})
        self.assertEqual(self.pulls(), [(oid, '', 'open')])
        self.assertEqual(self.repo.head('main'), self.base)       # nothing merges
        with self.db.read() as tx:
            kinds = [one['kind'] for one in gitnest.saved_results(tx, 'r1', change_set)['results']]
        self.assertEqual(kinds, ['publication', 'check', 'composition'])
        self.assertSound()

    def test_a_provider_publication_pushes_its_one_branch_and_no_other_reference(self):
        change_set, pins = self.composed()
        answer = self.do(PROVIDER, **pins)
        self.assertEqual(answer['status'], 'executed')
        self.assertEqual(git(self.provider, 'for-each-ref', '--format=%(refname) %(objectname)'),
                         f'refs/heads/change-sets/{change_set} {pins[OID]}')
        self.assertEqual(self.pulls(), [(pins[OID], 'github', 'open')])

    def test_a_rerun_is_a_request_and_runs_nothing(self):
        change_set, pins = self.composed()
        self.assertEqual(self.do(RERUN, **pins, check='tests')['runs'], 2)
        with self.db.read() as tx:
            self.assertEqual([one['status'] for one in gitnest.checks_of(tx, change_set, pins[OID])], ['queued'])
        self.assertRefused('not_found', self.ask, RERUN, **pins, check='no such check')

    def test_a_green_light_for_another_commit_says_nothing(self):
        change_set, pins = self.composed()
        self.revise(change_set)
        oid = self.compose(change_set, 2)
        native = self.ask(NATIVE, change_set_id=change_set, **{VERSION: 2, OID: oid})['proposal_id']
        self.assertEqual(self.click(native)['error'], 'required_checks')

    def test_intake_is_idempotent_and_tells_a_late_model_at_once(self):
        change_set, pins = self.composed()
        arguments = {**pins, 'idempotency_key': 'the-same-key'}
        first = self.ask(NATIVE, **arguments)
        self.assertEqual(first, {'proposal_id': first['proposal_id'], 'status': 'pending', VERSION: 1, OID: pins[OID]})
        self.revise(change_set)
        self.assertEqual(self.ask(NATIVE, **arguments), {**first, 'replayed': True})
        self.assertEqual(self.assertRefused('stale', self.ask, NATIVE, **pins).data, {VERSION: 1, 'current_version': 2})
        self.assertEqual(self.assertRefused('stale', self.ask, COMPOSITION, change_set_id=change_set, **{VERSION: 1}).data,
                         {VERSION: 1, 'current_version': 2})
        self.assertRefused('not_found', self.ask, COMPOSITION, change_set_id='nowhere', **{VERSION: 1})

    def test_a_change_set_of_another_repository_does_not_exist_here(self):
        _, pins = self.composed()
        work = self.do(WORK, title='Ship it')['work_id']
        with self.db.write() as tx:
            proposal_intake.register(tx, 'r2')            # where this connection may perhaps look, and there is nothing
        self.assertRefused('not_found', self.ask, NATIVE, **pins, repository_id='r2')
        with self.db.read() as tx:
            self.assertRefused('not_found', gitnest.find_in, tx, 'r2', pins['change_set_id'])
            self.assertRefused('not_found', gitnest.read_work, tx, 'r2', work)
            self.assertEqual(gitnest.list_work(tx, 'r2'), {'work': [], 'change_sets': []})

    def test_without_a_provider_there_is_no_publication_to_one(self):
        _, pins = self.composed()
        self.set_policy(provider='', provider_url='')
        self.assertRefused('no_provider', self.ask, PROVIDER, **pins)

    def test_a_trick_in_an_import_is_refused_by_name(self):
        def change_set(*paths, **more):
            return self.ask(CHANGE_SET, **{'title': 't', 'target_branch': 'main', 'imports': [
                {'message': 'm', 'files': [{'path': path, 'content': ''}]} for path in paths], **more})
        for paths, more in ((['../x'], {}), (['A', 'a'], {}), (['x'], {'target_branch': 'a..b'})):
            with self.subTest(paths=paths):
                self.assertRefused('invalid_argument', change_set, *paths, **more)
        self.assertRefused('not_found', change_set, 'x', work_id='nowhere')
        folder = self.do(CHANGE_SET, title='t', target_branch='main', imports=[
            {'message': 'm', 'files': [{'path': 'src', 'content': 'a file where a folder is'}]}])['change_set_id']
        self.assertRefused('path_conflict', self.ask, COMPOSITION, change_set_id=folder, **{VERSION: 1})

    def test_the_proposer_reads_and_takes_back_every_kind(self):
        for tool in SEVEN:
            with self.subTest(tool=tool):
                proposal, _ = self.ready(tool)
                store = gitnest_proposals if tool in gitnest_proposals.INTAKES else proposal_intake
                asked = {'proposal_id': proposal, 'idempotency_key': f'key-{next(self.keys):08d}'}
                with self.db.read() as tx:
                    self.assertEqual(self.noted(store.read_proposal(tx, CLAUDE, asked, NOW))['status'], 'pending')
                    self.assertRefused('not_found', store.read_proposal, tx, 'connection:c8', asked, NOW)
                with self.db.write() as tx:
                    self.assertEqual(store.withdraw(tx, CLAUDE, asked, NOW)['status'], 'withdrawn')
                self.assertEqual(self.click(proposal), {'status': 'withdrawn', 'refused': True})

    def test_only_a_person_decides(self):
        for tool in SEVEN:
            with self.subTest(tool=tool):
                proposal, _ = self.ready(tool)
                self.assertRefused('agent_scope_denied', self.click, proposal, approver=CLAUDE)
                self.assertEqual(self.status(proposal), 'pending')


def revoked(tx, row):
    raise Refusal('connection_revoked', 'the owner has revoked this connection')


def role_lost(tx, row):
    raise Refusal('role_too_low', 'you may look and not change')


class TheWindow(Gitnest):
    """Seven tools x what may happen between the proposal and the click. What is not named executes."""

    def happen(self, reason, change_set):
        """Make it happen; what the click then carries."""
        if reason == 'expired':
            return {'now_us': NOW + proposal_intake.TTL_US}
        if reason == 'connection revoked':
            return {'recheck': revoked}
        if reason == 'role lost':
            return {'recheck': role_lost}
        if reason == 'gitnest off':
            with self.db.write() as tx:
                proposal_intake.register(tx, 'r1', gitnest_on=False)
        elif reason == 'target branch moved':
            self.moved = self.owner_commits('by-hand', 'x')
        elif reason == 'policy wants a second look':
            self.set_policy(look_twice=('app.py',))
        elif change_set and reason != 'nothing':
            self.happen_to(reason, change_set)
        return {}

    def happen_to(self, reason, change_set):
        with self.db.read() as tx:
            oid = gitnest.find(tx, change_set).composition_oid
        if reason == 'change set revised':
            self.revise(change_set)
        elif reason == 'composed again':
            self.owner_commits('by-hand', 'x')
            self.moved = self.compose(change_set)
        elif reason == 'its branch pushed past us':
            git(self.path, 'update-ref', f'refs/heads/change-sets/{change_set}', self.base)
            self.moved = self.base
        elif oid:
            self.record(change_set, oid, {'check failed': 'failed', 'check not finished': 'queued'}[reason])

    def undo(self):
        self.set_policy(look_twice=())
        with self.db.write() as tx:
            proposal_intake.register(tx, 'r1')

    PINNED = (COMPOSITION, RERUN, NATIVE, PROVIDER)
    TABLE = {                                             # reason -> {tools: (status, code, what is current)}
        'nothing': {},
        'expired': {SEVEN: ('expired', None, None)},
        'connection revoked': {SEVEN: ('pending', 'connection_revoked', None)},
        'role lost': {SEVEN: ('pending', 'role_too_low', None)},
        'gitnest off': {SEVEN: ('pending', 'gitnest_off', None)},
        'target branch moved': {(FILE_IMPORT, COMPOSITION): ('stale', None, 'branch_head')},
        'change set revised': {PINNED: ('stale', None, 'current_version')},
        'composed again': {(COMPOSITION,): ('stale', None, 'branch_head'),
                           (RERUN, NATIVE, PROVIDER): ('stale', None, 'composition_oid')},
        'its branch pushed past us': {(COMPOSITION, NATIVE, PROVIDER): ('stale', None, 'branch_head')},
        'check failed': {PUBLICATIONS: ('pending', 'required_checks', 'checks')},
        'check not finished': {PUBLICATIONS: ('pending', 'required_checks', 'checks')},
        'policy wants a second look': {PUBLICATIONS: ('pending', 'second_look_required', 'reasons')},
    }

    def test_seven_tools_and_every_reason_between_the_proposal_and_the_click(self):
        for reason, refusals in self.TABLE.items():
            for tool in SEVEN:
                wanted = next((row for tools, row in refusals.items() if tool in tools), ('executed', None, None))
                with self.subTest(reason=reason, tool=tool):
                    self.check(reason, tool, *wanted)

    def check(self, reason, tool, status, code, current):
        self.moved = None
        proposal, change_set = self.ready(tool)
        before = (self.pulls(), git(self.provider, 'for-each-ref'))
        more = self.happen(reason, change_set)
        answer = self.click(proposal, **more)
        self.undo()
        self.assertEqual((answer['status'], answer.get('error'), answer.get('refused', False)),
                         (status, code, status != 'executed'))
        self.assertEqual(self.status(proposal), status)
        if current:
            self.assertIn(current, answer)
        if current in ('branch_head', 'composition_oid') and self.moved and reason != 'composed again':
            self.assertEqual(answer[current], self.moved)
        if status != 'executed':
            self.assertEqual((self.pulls(), git(self.provider, 'for-each-ref')), before)
        if status == 'pending' and reason not in ('check failed', 'check not finished'):
            self.assertEqual(self.click(proposal)['status'], 'executed')    # it was never closed

    def test_a_second_look_is_said_by_the_click(self):
        for tool in PUBLICATIONS:
            with self.subTest(tool=tool):
                proposal, _ = self.ready(tool)
                self.set_policy(look_twice=('docs/', 'app.py'), look_twice_over=2)
                self.assertEqual(self.click(proposal)['reasons'], ['app.py is listed', '4 bytes are more than 2'])
                self.assertEqual(self.click(proposal, second_look=True)['status'], 'executed')
                self.set_policy(look_twice=(), look_twice_over=gitnest.UNLIMITED)

    def test_a_decline_is_always_possible_and_final(self):
        for tool in SEVEN:
            with self.subTest(tool=tool):
                proposal, change_set = self.ready(tool)
                if change_set:
                    self.revise(change_set)
                self.assertEqual(self.click(proposal, 'decline', recheck=revoked, reason='no'), {'status': 'declined'})
                self.assertEqual(self.click(proposal), {'status': 'declined', 'refused': True})
        self.assertEqual(self.pulls(), [])


class BetweenTheClickAndGit(Gitnest):
    """The decision's COMMIT is the line: what comes before it refuses, what comes after it comes too late."""

    def test_a_composition_at_each_step(self):
        for reason in ('change set revised', 'connection revoked', 'its branch pushed past us'):
            for step in STEPS:
                with self.subTest(reason=reason, step=step):
                    self.check_composition(reason, step)

    def check_composition(self, reason, step):
        proposal, change_set = self.ready(COMPOSITION)
        gone = threading.Event()

        def happen():
            if reason == 'change set revised':
                self.revise(change_set)
            elif reason == 'connection revoked':
                gone.set()
            else:
                git(self.path, 'update-ref', f'refs/heads/change-sets/{change_set}', self.base)

        def recheck(tx, row):
            if gone.is_set():
                revoked(tx, row)
        answer = self.click(proposal, repo=self.stepping(**{step: happen}), recheck=recheck)
        early = STEPS.index(step) < 2
        pushed_in_time = reason == 'its branch pushed past us' and step != 'after_move'
        if pushed_in_time or (early and reason == 'change set revised'):
            self.assertEqual(answer['status'], 'stale')
        elif early:
            self.assertEqual((answer['status'], answer.get('error')), ('pending', 'connection_revoked')
                             if reason == 'connection revoked' else ('executed', None))
        else:
            self.assertEqual(answer['status'], 'executed')
        with self.db.read() as tx:
            recorded = gitnest.find(tx, change_set).composition_oid
        self.assertEqual(recorded, answer.get('commit'))

    def test_a_withdrawal_at_each_step_of_a_composition(self):
        for step in STEPS:
            with self.subTest(step=step):
                proposal, change_set = self.ready(COMPOSITION)
                told = []

                def withdraw():
                    asked = {'proposal_id': proposal, 'idempotency_key': f'key-{next(self.keys):08d}'}
                    try:
                        with self.db.write() as tx:
                            told.append(gitnest_proposals.withdraw(tx, CLAUDE, asked, NOW)['status'])
                    except Refusal as refusal:
                        told.append(refusal.code)
                status = self.click(proposal, repo=self.stepping(**{step: withdraw}))['status']
                self.assertEqual((status, told), ('withdrawn', ['withdrawn']) if STEPS.index(step) < 2
                                 else ('executed', ['decision_under_way']))

    @contextmanager
    def while_pushing(self, before=lambda: None, after=lambda: None):
        saved = gitnest_provider.push

        def push(*arguments):
            before()
            saved(*arguments)
            after()
        gitnest_provider.push = push
        yield
        gitnest_provider.push = saved

    def test_a_provider_publication_after_its_decision_goes_on(self):
        for moment in ('before', 'after'):
            for reason in ('change set revised', 'check failed', 'connection revoked'):
                with self.subTest(moment=moment, reason=reason):
                    proposal, change_set = self.ready(PROVIDER)
                    gone = threading.Event()

                    def happen():
                        gone.set()
                        if reason == 'change set revised':
                            self.revise(change_set)
                        elif reason == 'check failed':
                            with self.db.read() as tx:
                                oid = gitnest.find(tx, change_set).composition_oid
                            self.record(change_set, oid, 'failed')

                    def recheck(tx, row):
                        if gone.is_set():
                            revoked(tx, row)
                    with self.while_pushing(**{moment: happen}):
                        self.assertEqual(self.click(proposal, recheck=recheck)['status'], 'executed')


KILLED = """
import os, signal, sys
import git_repo, gitnest, gitnest_proposals, gitnest_provider, proposal_intake, proposals
from versioned import Database
path, state, proposal, now_us, step = sys.argv[1:]
db = Database(state, [proposal_intake.SCHEMA, gitnest.SCHEMA, gitnest_proposals.SCHEMA])
repo, push = git_repo.Repository(path), gitnest_provider.push


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def pushing(*arguments):
    if step == 'after the intent':
        die()
    push(*arguments)
    if step == 'after the push':
        die()


gitnest_provider.push = pushing
recheck = die if step == 'before the intent' else proposals.nothing
if step == 'before the move':
    repo.move = die
click = gitnest_proposals.Click('person:repo-owner', 'approve', int(now_us), recheck,
                                after_git=die if step == 'before the outcome' else proposals.nothing)
gitnest_proposals.decide(db, repo, proposal, click)
print('done')
"""


class Kills(Gitnest):
    def kill_at(self, step, proposal):
        done = subprocess.run([sys.executable, '-c', KILLED, self.path, self.db.path, proposal, str(NOW + 1_000_000), step],
                              cwd=TOP, stdout=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGKILL, b''))

    def test_a_kill_at_every_step_of_a_provider_publication_leaves_one_story(self):
        for step in ('before the intent', 'after the intent', 'after the push', 'before the outcome'):
            with self.subTest(step=step):
                proposal, change_set = self.ready(PROVIDER)
                pulls = len(self.pulls())
                self.kill_at(step, proposal)
                self.assertEqual((self.status(proposal), len(self.pulls())), ('pending', pulls))
                pushed = step in ('after the push', 'before the outcome')
                answer = self.click(proposal)
                self.assertEqual((answer['status'], answer.get('replayed', False)), ('executed', pushed))
                self.assertEqual(len(self.pulls()), pulls + 1)
                self.assertEqual(git(self.provider, 'rev-parse', f'change-sets/{change_set}'), answer['head_oid'])
                self.assertEqual(self.click(proposal), {**answer, 'replayed': True})

    def test_what_was_pushed_is_executed_although_revoked_expired_or_declined_since(self):
        for more in ({'recheck': revoked}, {'now_us': NOW + 2 * proposal_intake.TTL_US}, {'verb': 'decline'}):
            with self.subTest(more=more):
                proposal, _ = self.ready(PROVIDER)
                self.kill_at('after the push', proposal)
                answer = self.click(proposal, **more)
                self.assertEqual((answer['status'], 'refused' in answer), ('executed', 'verb' in more))
        for more, status in (({'recheck': revoked}, 'pending'), ({'now_us': NOW + 2 * proposal_intake.TTL_US}, 'expired'),
                             ({'verb': 'decline'}, 'declined')):
            with self.subTest(more=more, pushed=False):
                proposal, change_set = self.ready(PROVIDER)
                self.kill_at('after the intent', proposal)
                self.assertEqual(self.click(proposal, **more)['status'], status)
                self.assertNotIn(change_set, git(self.provider, 'for-each-ref'))

    def test_a_kill_at_every_step_of_a_composition_leaves_one_story(self):
        for step in ('before the intent', 'before the move', 'before the outcome'):
            for restart in (False, True):
                with self.subTest(step=step, restart=restart):
                    proposal, change_set = self.ready(COMPOSITION)
                    self.kill_at(step, proposal)
                    if restart:                           # a server that starts brings to its end what is in git
                        proposals.recover(self.db, self.repo, 'r1', NOW, gitnest_proposals.afterwards)
                    answer = self.click(proposal)
                    self.assertEqual(answer['status'], 'executed')
                    self.assertEqual(answer.get('replayed', False), step == 'before the outcome')
                    with self.db.read() as tx:
                        row = gitnest.find(tx, change_set)
                    self.assertEqual((row.composition_oid, row.composed_version), (answer['commit'], 1))
                    self.assertEqual(git(self.path, 'rev-parse', row.branch), answer['commit'])

    def test_a_composition_that_was_cut_short_ends_before_the_next_one_takes_its_place(self):
        first, change_set = self.ready(COMPOSITION)
        self.kill_at('before the outcome', first)
        second = self.ask(COMPOSITION, change_set_id=change_set, **{VERSION: 1})['proposal_id']
        self.assertEqual(self.click(second)['status'], 'executed')
        self.assertEqual(self.status(first), 'executed')


class TheProvider(Gitnest):
    def hook(self, text):
        path = os.path.join(self.provider, 'hooks', 'pre-receive')
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write('#!/bin/sh\n' + text)
        os.chmod(path, 0o755)
        return path

    def test_one_that_refuses_leaves_the_proposal_open(self):
        proposal, change_set = self.ready(PROVIDER)
        hook = self.hook(f'echo "no: {SECRET}" >&2\nexit 1\n')
        answer = self.click(proposal)
        self.assertEqual((answer['status'], answer['error']), ('pending', 'provider_refused'))
        self.assertEqual(self.pulls(), [])
        os.unlink(hook)
        self.assertEqual(self.click(proposal)['status'], 'executed')

    def test_after_a_refusal_what_another_proposal_published_is_not_ours(self):
        change_set, pins = self.composed()
        refused = self.ask(PROVIDER, **pins)['proposal_id']
        hook = self.hook('exit 1\n')
        self.assertEqual(self.click(refused)['error'], 'provider_refused')
        os.unlink(hook)
        self.assertEqual(self.do(PROVIDER, **pins)['status'], 'executed')
        self.assertEqual(self.click(refused)['error'], 'provider_branch_exists')
        self.assertEqual(len(self.pulls()), 1)
        with self.db.write() as tx:                       # nobody waits for a push any more: it can be taken back
            asked = {'proposal_id': refused, 'idempotency_key': 'taken-back-1'}
            self.assertEqual(gitnest_proposals.withdraw(tx, CLAUDE, asked, NOW)['status'], 'withdrawn')

    def test_one_that_has_the_branch_already_is_not_overwritten(self):
        proposal, change_set = self.ready(PROVIDER)
        git(self.path, 'push', '--quiet', self.provider, f'{self.base}:refs/heads/change-sets/{change_set}')
        answer = self.click(proposal)
        self.assertEqual((answer['status'], answer['error']), ('pending', 'provider_branch_exists'))
        self.assertEqual(git(self.provider, 'rev-parse', f'change-sets/{change_set}'), self.base)
        self.assertEqual(self.click(proposal)['error'], 'provider_branch_exists')
        self.assertEqual(self.pulls(), [])

    def test_the_same_commit_published_twice_is_one_pull_request(self):
        change_set, pins = self.composed()
        self.assertEqual(self.do(PROVIDER, **pins)['status'], 'executed')
        self.assertEqual(self.do(PROVIDER, **pins)['error'], 'provider_branch_exists')
        self.assertEqual(len(self.pulls()), 1)

    def test_one_that_hangs_is_given_up_and_asked_later_what_became_of_it(self):
        proposal, change_set = self.ready(PROVIDER)
        gate = os.path.join(self.folder, 'gate')
        os.mkfifo(gate)
        self.hook(f'cat {gate} > /dev/null\n')
        self.addCleanup(setattr, gitnest_provider, 'PUSH_DEADLINE_S', gitnest_provider.PUSH_DEADLINE_S)
        gitnest_provider.PUSH_DEADLINE_S = 0.5
        answer = self.click(proposal)
        self.assertEqual((answer['status'], answer['error']), ('pending', 'provider_unreachable'))
        other, _ = self.ready(FILE_IMPORT)
        self.assertEqual(self.click(other)['status'], 'executed')     # it stops no other decision
        with open(gate, 'w'):
            pass                                          # the provider wakes up
        gitnest_provider.PUSH_DEADLINE_S = 30.0
        answer = self.click(proposal)
        self.assertEqual(answer['status'], 'executed')
        self.assertEqual(git(self.provider, 'rev-parse', f'change-sets/{change_set}'), answer['head_oid'])
        self.assertEqual(len(self.pulls()), 1)

    def test_one_that_is_gone_is_said_to_be_out_of_reach(self):
        proposal, _ = self.ready(PROVIDER)
        os.rename(self.provider, self.provider + '.away')
        self.assertEqual(self.click(proposal)['error'], 'provider_unreachable')
        self.assertEqual(self.click(proposal, 'decline')['error'], 'provider_unreachable')    # nobody knows what it has
        os.rename(self.provider + '.away', self.provider)
        self.assertEqual(self.click(proposal)['status'], 'executed')

    def test_one_on_the_network_or_behind_a_command_is_never_asked(self):
        listener = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listener.close)
        touched = self.provider + '.touched'
        for url in (f'http://127.0.0.1:{listener.getsockname()[1]}/x.git', f'git://127.0.0.1:{listener.getsockname()[1]}/x',
                    f'ext::touch {touched}', f'ssh://-oProxyCommand=touch%20{touched}/x'):
            with self.subTest(url=url), self.assertRaises(gitnest_provider.ProviderError):
                gitnest_provider.branch_at(self.repo, url, 'main')
        listener.setblocking(False)
        self.assertRaises(BlockingIOError, listener.accept)
        self.assertFalse(os.path.exists(touched))

    def test_a_double_click_pushes_once(self):
        proposal, _ = self.ready(PROVIDER)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.click(proposal))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([one['status'] for one in answers], ['executed', 'executed'])
        self.assertEqual(sorted('replayed' in one for one in answers), [False, True])
        self.assertEqual(len(self.pulls()), 1)

    def test_no_answer_and_no_card_holds_the_providers_address_or_a_secret(self):
        self.hook(f'echo "{SECRET}" >&2\nexit 1\n')
        for tool in SEVEN:
            proposal, change_set = self.ready(tool)
            with self.db.read() as tx:
                if tool in gitnest_proposals.INTAKES:
                    row = gitnest_proposals.find(tx, proposal)
                    facts = gitnest_card.read_facts(tx, row)
                if change_set:
                    self.noted(gitnest.describe(tx, gitnest.find(tx, change_set)))
                self.noted([gitnest.list_work(tx, 'r1'), gitnest.saved_results(tx, 'r1', None)])
            self.noted(gitnest_card.card(self.repo, row, facts) if tool in gitnest_proposals.INTAKES
                       else proposal_card.card(self.repo, self.row(proposal)))
            self.click(proposal)
            self.click(proposal)
        self.assertGreater(len(self.answers), 30)
        for answer in self.answers:
            self.assertNotIn(SECRET, answer)
            self.assertNotIn('site.git', answer)
            self.assertNotIn(self.folder, answer)


class TheCard(Gitnest):
    def card(self, proposal):
        with self.db.read() as tx:
            row = gitnest_proposals.find(tx, proposal)
            facts = gitnest_card.read_facts(tx, row)
        return gitnest_card.card(self.repo, row, facts)

    def test_pinned_values_are_text_and_every_line_is_there(self):
        change_set, pins = self.composed()
        self.record(change_set, pins[OID], 'failed')
        self.set_policy(look_twice=('app.py',))
        text = self.card(self.ask(PROVIDER, **pins)['proposal_id'])
        for line in ('Change set: Bump app · expected version 1', f'Reviewed commit: {pins[OID]}', 'Check tests: failed',
                     'Required and not passed: tests (failed)', 'Look twice: app.py is listed', 'Provider: github',
                     'Target branch: main', '+two'):
            self.assertIn(line, text.split('\n'))

    def test_it_shows_the_reviewed_commit_and_not_what_is_current(self):
        change_set, pins = self.composed()
        native = self.ask(NATIVE, **pins)['proposal_id']
        composition = self.ask(COMPOSITION, change_set_id=change_set, **{VERSION: 1})['proposal_id']
        self.assertNotIn('No longer current', self.card(native))
        self.revise(change_set)
        for proposal in (native, composition):
            text = self.card(proposal)
            self.assertIn('No longer current', text)
            self.assertIn('+two', text)
            self.assertNotIn('+b', text)

    def test_each_kind_has_one(self):
        for tool, words in ((WORK, 'Title: Ship it'), (CHANGE_SET, 'Import 1: m'), (COMPOSITION, '+two'),
                            (RERUN, 'Check: tests'), (NATIVE, 'Asks for: a pull request')):
            with self.subTest(tool=tool):
                self.assertIn(words, self.card(self.ready(tool)[0]))


if __name__ == '__main__':
    unittest.main()
