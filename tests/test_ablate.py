"""What each rule is worth: every row differs, every rule of the closing lists has one, and each comes back."""
import contextlib
import io
import json
import unittest

import ablate

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

    def test_every_rule_makes_a_difference_and_comes_back(self):
        for row in ablate.all_rows():
            if row.try_it and row.name not in self.LEFT_OUT:
                with self.subTest(row=row.name):
                    before = [vars(place)[name] for place, name, _ in row.changes]
                    result = ablate.run(row)
                    self.assertNotEqual(result.with_it, result.without_it)
                    for (place, name, _), rule in zip(row.changes, before):
                        self.assertIs(vars(place)[name], rule)

    def test_a_rule_comes_back_also_when_its_experiment_fails(self):
        row = next(row for row in ablate.all_rows() if row.name == 'gone')
        before = vars(row.changes[0].place)[row.changes[0].name]
        with self.assertRaises(ZeroDivisionError), ablate.taken_out(row):
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

    def test_a_rule_that_makes_no_difference_is_exit_1_and_an_unknown_one_is_usage(self):
        row = ablate.Row(1, 1, 'useless', 'x', 'x', [ablate.Change(ablate, 'SLOW', lambda before: before)], lambda say: 'same')
        self.addCleanup(setattr, ablate, 'all_rows', ablate.all_rows)
        ablate.all_rows = lambda: [row]
        ablate.SLOW = 0
        self.addCleanup(delattr, ablate, 'SLOW')
        status, told = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn('NO DIFFERENCE', told)
        self.assertEqual(self.run_it('no-such-rule')[0], 2)


if __name__ == '__main__':
    unittest.main()
