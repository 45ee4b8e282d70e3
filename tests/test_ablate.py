"""What each rule is worth: every row differs, every rule of the closing lists has one, and each comes back."""
import contextlib
import io
import json
import os
import unittest

import ablate
import ablate_explore
import ablate_protocols
import ablate_rule
import ablate_sessions

POINTS = {1: 5, 2: 6, 3: 6, 4: 6, 5: 5, 6: 5, 7: 6}              # closing lists, and the limits of articles 5 and 6
SLOW = ('process-group', 'drain-stderr')                         # seconds of waiting: in the long tier


class Rows(unittest.TestCase):
    LEFT_OUT = SLOW

    def test_the_39_rules_of_the_articles_have_a_row_each(self):
        rows = ablate.all_rows()
        self.assertEqual({(row.article, row.point) for row in rows},
                         {(article, point) for article, points in POINTS.items() for point in range(1, points + 1)})
        self.assertEqual(sum(POINTS.values()), 39)
        self.assertEqual(len({row.name for row in rows}), len(rows))

    def test_a_row_takes_something_out_or_says_why_nothing_can(self):
        for row in ablate.all_rows():
            with self.subTest(row=row.name):
                self.assertEqual(bool(row.changes and row.try_it), not row.reason)

    def test_the_readme_counts_them_rightly(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(ablate.__file__)), 'README.md'), encoding='utf-8') as file:
            text = file.read()
        rows = ablate.all_rows()
        fixed = sum(row.try_it is None for row in rows)
        self.assertIn(f'{len(rows)} rows for the 39 rules', text)
        self.assertIn(f'{len(rows) - fixed} rows take a rule out of the running product', text)
        self.assertIn(f'{fixed} rules no code can take out', text)

    def test_every_rule_makes_a_difference_and_comes_back(self):
        for row in ablate.all_rows():
            if row.try_it and row.name not in self.LEFT_OUT:
                with self.subTest(row=row.name):
                    before = [vars(place)[name] for place, name, _ in row.changes]
                    result = ablate_rule.run(row)
                    self.assertNotEqual(result.with_it, result.without_it)
                    for (place, name, _), rule in zip(row.changes, before):
                        self.assertIs(vars(place)[name], rule)

    def test_a_rule_comes_back_also_when_its_experiment_fails(self):
        row = next(row for row in ablate.all_rows() if row.name == 'gone')
        before = vars(row.changes[0].place)[row.changes[0].name]
        with self.assertRaises(ZeroDivisionError), ablate_rule.taken_out(row):
            self.assertIsNot(vars(row.changes[0].place)[row.changes[0].name], before)
            raise ZeroDivisionError
        self.assertIs(vars(row.changes[0].place)[row.changes[0].name], before)


class Command(unittest.TestCase):
    def run_it(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            return ablate.main(arguments), out.getvalue()

    def test_one_rule_is_told_step_by_step(self):
        status, told = self.run_it('compare-and-swap')
        self.assertEqual(status, 0)
        for words in ('With the rule:', 'Without it:', 'Mika writes', 'kb_store.py: IS_CURRENT'):
            self.assertIn(words, told)

    def test_json_is_one_object(self):
        status, told = self.run_it('--json', 'forged-row')
        row, = json.loads(told)['rows']
        self.assertEqual((status, row['article'], row['differs']), (0, 2, True))
        rules = json.loads(self.run_it('--list', '--json')[1])['rules']
        self.assertEqual(rules, self.run_it('--list')[1].split())

    def test_a_rule_that_makes_no_difference_is_exit_1_and_an_unknown_one_is_usage(self):
        row = ablate_rule.Row(1, 1, 'useless', 'x', 'x', [ablate_rule.Change(ablate, 'SLOW', lambda before: before)],
                              lambda say: 'same')
        self.addCleanup(setattr, ablate, 'all_rows', ablate.all_rows)
        ablate.all_rows = lambda: [row]
        ablate.SLOW = 0
        self.addCleanup(delattr, ablate, 'SLOW')
        status, told = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn('NO DIFFERENCE', told)
        self.assertEqual(self.run_it('no-such-rule')[0], 2)


class Explore(unittest.TestCase):
    def test_with_the_rules_no_interleaving_breaks_a_promise_and_without_one_the_shortest_that_does_is_told(self):
        protocols = [*ablate_protocols.PROTOCOLS, *ablate_sessions.PROTOCOLS]
        walks = ablate_explore.explore(protocols)
        self.assertEqual(len(walks), sum(1 + len(protocol.rules) for protocol in protocols))
        for walk in walks:
            with self.subTest(protocol=walk.protocol, rule_out=walk.rule_out):
                self.assertEqual(walk.violations > 0, walk.rule_out is not None)
                self.assertEqual(bool(walk.story), walk.rule_out is not None)

    def test_the_shortest_way_to_a_lost_commit_is_the_kill_between_the_two_renames(self):
        rule = 'the branch goes first, and a marker alone proves nothing'
        changes = dict(ablate_protocols.PROPOSAL.rules)[rule]
        with ablate_rule.taken_out(ablate_rule.Row(4, 3, '', '', '', changes)):
            walk = ablate_explore.walk(ablate_protocols.PROPOSAL, rule)
        self.assertEqual(walk.story[3:5], ['git renames the marker of proposal 1 into place', 'the server is killed'])
        self.assertIn('not on the branch', walk.promise)


if __name__ == '__main__':
    unittest.main()
