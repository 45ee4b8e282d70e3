"""Article 6's set-up and run, as client.py plays them over HTTP, and that what they print comes from what was played."""
import io
import json
import unittest

from tests.test_article7_access_runs import run

import host
import host_signin
import runs_limits
import runs_person
import runs_project
import runs_setup
import runs_stage


class Runs(unittest.TestCase):
    def holds(self, name):
        status, out, err = run('client.py', name, '--json')
        self.assertNotIn('Traceback', err)
        printed = json.loads(out)
        wrong = [cell for table in printed['tables'] for cell in table['cells'] if cell['holds'] is False]
        self.assertEqual((status, wrong), (0, []))
        return err

    def test_the_set_up_click_by_click(self):
        self.assertIn('Use pending: Claude research', self.holds('setup'))

    def test_the_real_run_and_where_the_limit_is(self):
        said = self.holds('project')
        for call in ('list_granted_resources', 'list_note_tabs', 'search_knowledge_base', 'edit_record_item'):
            self.assertIn(f'Claude -> {call} ', said)

    def test_claudes_answer_is_made_of_what_the_calls_returned(self):
        """Another checklist and another policy: another answer."""
        def seed(tx):
            runs_project.seed(tx, 1_790_000_000_000_000)
            tx.execute("UPDATE note_texts SET text = '- [x] venue\n- [ ] caterer: 7 days'")
            tx.execute("UPDATE articles SET content = 'A refund is possible for 45 days.'")
        with runs_stage.stage(seed) as here:
            seen = runs_project.play(here, 1_790_000_000_000_000, io.StringIO())
        self.assertEqual([seen['4 read_note_tab', 'entries'], seen['Claude answers', 'open'],
                          seen['Claude answers', 'days by the checklist'], seen['Claude answers', 'days by "Refund policy"']],
                         [2, 'caterer', 7, 45])

    def test_a_connection_that_nobody_added_to_the_project_gets_no_further(self):
        with runs_stage.stage(runs_setup.seed) as here:
            claude = here.claude()
            self.assertEqual(host.tool_answer(claude.call('list_granted_resources', {}).result)['projects'], [])
            self.assertEqual(claude.call('list_note_tabs', {'note_id': 'q3-launch'}).refused, 'not_in_project')

    def test_the_person_cannot_choose_what_the_page_does_not_offer(self):
        with runs_stage.stage(runs_limits.seed) as here:
            door = runs_person.at_the_page(here, runs_person.open_owner_link(here), 'Use pending: X')
            with self.assertRaises(host_signin.SignInError):
                host.Host(here.url, door).call('list_granted_resources', {})


if __name__ == '__main__':
    unittest.main()
