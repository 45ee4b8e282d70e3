"""Article 4 over HTTP: the transcript, the race and the crash as small runs, the tools' contract, the owner's route."""
import contextlib
import io
import json
import os
import sys
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)

import access
import catalogue
import host
import host_signin
import published
import published_proposals
import runs_kill
import runs_proposals
import runs_race
import runs_stage
from runs_proposals import APPROVER, CONNECTION_NAME, PROJECT, scene
from versioned import Database


def quiet(line):
    pass


class Runs(unittest.TestCase):
    def assertHolds(self, *tables):
        self.assertEqual([cell for table in tables for cell in table['cells'] if cell['holds'] is False], [])

    def test_the_transcript_says_what_the_articles_says(self):
        self.assertHolds(*runs_proposals.run(quiet))

    def test_the_race_in_both_modes_and_a_crash_in_both_modes(self):
        self.assertHolds(runs_race.race_table(3, 1), *runs_race.crash_tables(2, 1))

    def test_two_servers_on_one_state_and_an_ordinary_push(self):
        self.assertHolds(runs_race.race_more_table(2))

    def test_a_server_that_is_killed_and_started_again(self):
        self.assertHolds(runs_kill.table(2))

    def test_a_number_of_trials_below_0_is_usage_and_no_run_without_them(self):
        for main, option in ((runs_race.race_main, '--more'), (runs_race.crash_main, '--kill')):
            with self.subTest(option=option), contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as ended:
                    main([option, '-1', '--trials', '1', '--runs', '1'])
                self.assertEqual(ended.exception.code, 2)
                self.assertIn(f'{option} must be 0', said.getvalue())

    def test_a_transcript_that_differs_does_not_pass(self):
        steps = dict(published_proposals.STEPS)
        figures = {(cell.row, cell.column): cell.published for cell in published_proposals.SCENARIO.cells}
        figures['owner approves B', 'answer'] = steps['owner approves A']
        table = published.compare(published_proposals.SCENARIO, figures)
        self.assertEqual([cell['row'] for cell in table['cells'] if not cell['holds']], ['owner approves B'])


class TheTool(unittest.TestCase):
    def test_propose_gitnest_file_import_is_the_live_one(self):
        tool = catalogue.by_name()['propose_gitnest_file_import']
        self.assertEqual(tool.schema['required'], ['repository_id', 'branch', 'message', 'files', 'idempotency_key'])
        self.assertNotIn('expected_base_oid', tool.schema['properties'])
        self.assertIn('expected_base_oid', catalogue.by_name()['propose_file_import'].schema['properties'])
        files = tool.schema['properties']['files']
        self.assertEqual((files['minItems'], files['maxItems']), (1, 20))
        limits = {name: member['maxLength'] for name, member in files['items']['properties'].items()}
        self.assertEqual(limits, {'path': 2048, 'content': 100_000})
        key = tool.schema['properties']['idempotency_key']
        self.assertEqual((key['minLength'], key['maxLength']), (8, 128))
        self.assertEqual((tool.read_only, tool.destructive, tool.open_world, tool.scope),
                         (False, True, False, 'osfoundry:write'))

    def test_no_tool_approves_pushes_or_merges(self):
        for name, tool in catalogue.by_name().items():
            if 'gitnest' in name or 'repo' in name or 'proposal' in name:
                with self.subTest(tool=name):
                    self.assertTrue(tool.read_only or name.startswith('propose_') or name == 'withdraw_proposal')


class OwnersRoute(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.entered = scene()
        cls.here = cls.entered.__enter__()
        cls.addClassCleanup(cls.entered.__exit__, None, None, None)
        cls.here.call('list_granted_resources')           # signed in
        with cls.state(cls) as tx:
            cls.connection = tx.execute('SELECT connection FROM connections').fetchone()[0]

    def state(self):
        """The server's own database, as another process on it."""
        if not hasattr(type(self) if not isinstance(self, type) else self, 'db'):
            owner = self if isinstance(self, type) else type(self)
            owner.db = Database(os.path.join(self.here.here.folder, 'state.db'), [])
            owner.addClassCleanup(owner.db.close)
        return self.db.write()

    def propose(self, content=None):
        key = f'key-{time.monotonic_ns():016d}'
        return self.here.propose('app.py', content or key, key)['proposal_id']

    def post(self, authorization, proposal):
        headers = {'Content-Type': 'application/json', **({'Authorization': authorization} if authorization else {})}
        reply = host_signin.fetch('POST', self.here.here.base_url + '/owner/decide', headers,
                                  json.dumps({'proposal_id': proposal, 'decision': 'approve'}).encode())
        return reply.status, json.loads(reply.body)['error']

    def test_an_agent_is_403_nobody_is_401_and_a_stranger_is_404(self):
        proposal, before = self.propose(), self.here.commits()
        self.assertEqual(self.post(f'Bearer {self.here.claude.access_token}', proposal), (403, 'agent_scope_denied'))
        self.assertEqual(self.post('Bearer nonsense', proposal), (403, 'agent_scope_denied'))
        self.assertEqual(self.post(None, proposal), (401, 'owner_required'))
        self.assertEqual(self.post('Owner nonsense', proposal), (401, 'owner_required'))
        with self.state() as tx:
            tx.execute("INSERT OR IGNORE INTO people VALUES ('stranger', 'Stranger')")
        status, answer = self.here.decide(proposal, person='stranger')
        self.assertEqual((status, answer['error']), (404, 'not_found'))
        self.assertEqual(self.here.commits(), before)

    def test_the_present_connection_project_tick_box_and_roles_are_read_at_the_click(self):
        cases = (
            ('not_in_project', lambda tx: access.remove_from_project(tx, self.connection, PROJECT),
             lambda tx: access.add_to_project(tx, self.connection, PROJECT)),
            ('tool_not_enabled', lambda tx: access.save_tools(tx, self.connection, ['propose_file_import']),
             lambda tx: access.save_tools(tx, self.connection, [])),
            ('approver_lacks_role', lambda tx: tx.execute("UPDATE roles SET role = 1 WHERE person = 'owner'"),
             lambda tx: tx.execute("UPDATE roles SET role = 3 WHERE person = 'owner'")),
        )
        for code, change, back in cases:
            with self.subTest(code=code):
                proposal, before = self.propose(), self.here.commits()
                with self.state() as tx:
                    change(tx)
                status, answer = self.here.decide(proposal)
                with self.state() as tx:
                    back(tx)
                self.assertEqual((status, answer['status'], answer['refused'], answer['error']),
                                 (200, 'pending', True, code))
                self.assertEqual(self.here.commits(), before)
                self.assertEqual(self.here.decide(proposal)[1]['status'], 'executed')       # once it is as it was

    def test_the_clicker_needs_the_role_too(self):
        proposal = self.propose()
        with self.state() as tx:
            tx.execute('UPDATE roles SET role = 1 WHERE person = ?', (APPROVER,))
        status, answer = self.here.decide(proposal)
        with self.state() as tx:
            tx.execute('UPDATE roles SET role = 3 WHERE person = ?', (APPROVER,))
        self.assertEqual((status, answer['error']), (403, 'role_too_low'))

    def test_the_owner_reads_the_card_and_the_agent_the_reason(self):
        proposal = self.propose('new\n')
        click = lambda verb, **more: host.owner_click(self.here.here.base_url, self.here.here.owner_token, verb,
                                                      {'person': APPROVER, **more})
        status, listed = click('list_proposals')
        self.assertIn(proposal, [one['proposal_id'] for one in listed['proposals']])
        status, card = click('read_card', proposal_id=proposal)
        self.assertIn('+new', card['card'])
        self.assertIn(f'From: Claude ({CONNECTION_NAME})', card['card'])
        self.here.decide(proposal, 'decline', reason='not this week')
        read = self.here.call('read_proposal', proposal_id=proposal)
        self.assertEqual((read['status'], read['reason']), ('declined', 'not this week'))

    def test_a_repeated_proposal_is_answered_while_somebody_else_writes(self):
        arguments = ('app.py', 'again\n', 'key-while-writing')
        first = self.here.propose(*arguments)
        with self.state():                                # the writer is taken: a replay only reads
            self.assertEqual(self.here.propose(*arguments), {**first, 'replayed': True})

    def test_the_injected_crash_needs_its_flag_and_who_asks_for_it_without_is_told_so_before_anything_happens(self):
        proposal = self.propose()
        status, answer = self.here.decide(proposal, crash=True)
        self.assertEqual((status, answer['error'], answer['field']), (400, 'invalid_argument', 'crash'))
        self.assertIn('--inject-crash', answer['message'])
        self.assertEqual(self.here.call('read_proposal', proposal_id=proposal)['status'], 'pending')
        status, answer = self.here.decide(proposal, crash=False)
        self.assertEqual((status, answer['status']), (200, 'executed'))

    def test_the_owner_makes_a_repository_and_switches_gitnest_off(self):
        click = lambda verb, **more: host.owner_click(self.here.here.base_url, self.here.here.owner_token, verb,
                                                      {'person': APPROVER, **more})
        self.assertEqual(click('create_repository', repository_id='fresh', project=PROJECT)[0], 200)
        self.assertEqual(click('create_repository', repository_id='fresh')[1]['error'], 'already_exists')
        for bad in ('../x', 'a.git', '.x', 'x/y', 'a..b'):
            self.assertEqual(click('create_repository', repository_id=bad)[1]['error'], 'invalid_argument')
        read = self.here.call('read_repo', repository_id='fresh')
        self.assertEqual((read['head'], read['commits']), (None, 0))
        asked = dict(repository_id='fresh', branch='main', message='First', files=[{'path': 'a', 'content': 'b'}])
        first = self.here.call('propose_gitnest_file_import', **asked, idempotency_key='key-fresh-1')
        self.assertEqual(self.here.decide(first['proposal_id'])[1]['status'], 'executed')
        self.assertEqual(click('set_gitnest', repository_id='fresh', on=False)[0], 200)
        self.assertEqual(self.here.call('propose_gitnest_file_import', **asked, idempotency_key='key-fresh-2')['error'],
                         'gitnest_off')
        self.assertEqual(self.here.call('read_repo', repository_id='fresh')['commits'], 1)

    def test_a_repository_of_no_project_of_the_connection_does_not_exist_for_it(self):
        for name, code in (('nowhere', 'not_found'), ('private', 'not_in_project')):
            with self.state() as tx:
                access.place(tx, access.Ref('repository', 'private'), runs_stage.WORKSPACE, None, False, 'private')
            self.assertEqual(self.here.call('read_repo', repository_id=name)['error'], code)


if __name__ == '__main__':
    unittest.main()
