"""Every figure beside ours: the judge is as strict as its word, and programs and people read the same verdict."""
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import unittest

import ending
import published
from published import Cell, Figure, Table

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

ORDERED = Table(4, 'demo', (
    Cell('exact', 'count', 0, of=100),
    Cell('range', 'stale', 24, 'range'),
    Cell('ratio', 'cost', 0.94, 'ratio', low=0.93, high=0.95),
    Cell('order', 'replay', 1.42, 'order', unit='ms'),
    Cell('live', 'tools', 59, 'not run here', reason='needs the live service'),
    Cell('shown', 'a rival', None, 'shown', unit='ms', high=1),
))
FIGURES = {('exact', 'count'): 0, ('range', 'stale'): Figure(27, 14, 40), ('ratio', 'cost'): 0.941,
           ('order', 'replay'): Figure(2.0, high=5.0), ('shown', 'a rival'): 7.5}


def verdicts(**changes):
    figures = {place: changes.get(place[0], figure) for place, figure in FIGURES.items()}
    return {cell['row']: cell['holds'] for cell in published.compare(ORDERED, figures)['cells']}


class Judge(unittest.TestCase):
    def test_a_figure_holds_when_it_is_equal_inside_its_range_or_on_the_right_side_of_the_other_timing(self):
        self.assertEqual(verdicts(), {'exact': True, 'range': True, 'ratio': True, 'order': True, 'live': None,
                                      'shown': None})

    def test_a_figure_just_outside_does_not_hold(self):
        self.assertFalse(verdicts(exact=1)['exact'])
        self.assertFalse(verdicts(range=Figure(41, 14, 40))['range'])
        self.assertFalse(verdicts(ratio=0.9501)['ratio'])
        self.assertFalse(verdicts(order=Figure(5.1, high=5.0))['order'])

    def test_a_cell_is_never_left_out_and_none_is_invented(self):
        with self.assertRaises(KeyError):
            published.compare(ORDERED, {})
        with self.assertRaises(KeyError):
            published.compare(ORDERED, {**FIGURES, ('no', 'such'): 1})

    def test_a_bound_that_nothing_can_fail_is_our_bug_and_not_a_figure_that_holds(self):
        for unfailing in (Figure(27), Figure(27, low=0)):
            with self.assertRaises(ValueError):
                verdicts(range=unfailing)

    def test_what_is_shown_needs_its_figure_and_is_never_counted(self):
        with self.assertRaises(KeyError):
            verdicts(shown=Figure(None))
        self.assertEqual(published.count([published.compare(ORDERED, FIGURES)]), (4, 4))


class Report(unittest.TestCase):
    def run_report(self, as_json, **changes):
        out = io.StringIO()
        figures = {place: changes.get(place[0], figure) for place, figure in FIGURES.items()}
        with contextlib.redirect_stdout(out):
            status = published.report('demo.py', [published.compare(ORDERED, figures)], as_json)
        return status, out.getvalue()

    def test_the_exit_status_is_1_when_a_cell_that_must_hold_does_not(self):
        self.assertEqual(self.run_report(False)[0], 0)
        self.assertEqual(self.run_report(False, exact=1)[0], 1)

    def test_json_is_one_object_with_numbers_and_a_null_verdict_for_what_is_not_run_here(self):
        answer = json.loads(self.run_report(True)[1])
        self.assertEqual((answer['program'], answer['holds'], answer['of']), ('demo.py', 4, 4))
        cells = answer['tables'][0]['cells']
        self.assertEqual((cells[0]['published'], cells[0]['here'], cells[0]['of']), (0, 0, 100))
        self.assertEqual((cells[4]['here'], cells[4]['holds'], cells[4]['reason']), (None, None, 'needs the live service'))

    def test_people_see_article_here_and_holds_in_one_line(self):
        text = self.run_report(False, exact=3)[1]
        self.assertRegex(text, r'exact +count +0 / 100 +3 / 100 +equal +NO')
        self.assertRegex(text, r'order +replay +1\.42 ms +2\.00 ms +at most 5\.00 +yes')
        self.assertRegex(text, r'shown +a rival +- +7\.500 ms +shown +-\n')


class Usage(unittest.TestCase):
    def run_it(self, *words, **environment):
        done = subprocess.run([sys.executable, *words], cwd=TOP, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr

    def test_a_wrong_argument_is_a_line_that_quotes_it_and_not_the_whole_help(self):
        for words in (('sim.py', 'no-such'), ('bench.py', '--json'), ('client.py', 'no-such'),
                      ('published.py', 'no-such'), ('ablate.py', 'no-such'), ('ablate.py', 'explore', 'no-such'),
                      ('ablate.py', 'cursor', 'gone'), ('git_repo.py', 'no-such'),
                      ('channel_render.py', 'no-such'), ('resident_pool.py', 'no-such'),
                      ('resident_claude.py', 'claude', '--no-such'), ('fake_messages.py', 'no-such'),
                      ('sim_channel.py', 'no-such'), ('wrap_stream.py', 'no-such'), ('watermarks.py', 'no-such'),
                      ('token_counter.py', '--no-such')):
            with self.subTest(words=words):
                status, out, said = self.run_it(*words)
                self.assertEqual((status, out), (2, ''))
                *usage, fault = said.splitlines()
                self.assertTrue(fault.startswith(words[0]) and words[-1] in fault and len(said) < 250, said)
                self.assertTrue(all(line.startswith('usage: ' + words[0]) for line in usage) and len(usage) < 2, said)

    def test_a_stand_in_without_the_stream_that_it_shall_replay_says_which_variable_is_missing(self):
        status, _, said = self.run_it('fake_codex.py', 'exec', 'hi', FAKE_CODEX='replay', FAKE_CODEX_STREAM='')
        self.assertEqual(status, 2)
        self.assertIn('FAKE_CODEX_STREAM', said.splitlines()[0])

    def test_the_figures_are_there_for_programs_too(self):
        status, out, _ = self.run_it('published.py', '--json')
        tables = json.loads(out)['tables']
        self.assertEqual((status, {table['article'] for table in tables}), (0, set(range(1, 8))))
        listed = self.run_it('published.py')[1].splitlines()
        self.assertEqual(sum(1 + len(table['cells']) for table in tables), len(listed))


class Run(unittest.TestCase):
    # Pages that may be copied out alone. What they read, if anything: a recorded stream of Codex.
    EXAMPLES = (['channel_render.py'], ['resident_pool.py'], ['git_repo.py'], ['token_counter.py'], ['wrap_stream.py'])
    STREAM = os.path.join(TOP, 'tests', 'data', 'codex-streams', 'authfile_apikey_vs_codex_env.jsonl')

    def test_ctrl_c_is_exit_130_and_no_traceback(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):          # it sets handlers, here for good
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.addCleanup(setattr, sys, 'unraisablehook', sys.unraisablehook)

        def interrupted(argv):
            raise KeyboardInterrupt
        self.assertEqual(ending.run(interrupted, []), 130)

    def test_a_reader_that_has_seen_enough_gets_no_traceback_from_any_program(self):
        for words in (['published.py'], ['kb_store.py'], ['sim_channel.py'], ['sim.py', 'cache'], ['sim_cache.py', '--svg'],
                      *self.EXAMPLES):
            with self.subTest(program=words[0]):
                gone, stdout = os.pipe()
                os.close(gone)
                try:
                    self.assertEqual(self.ended(words, stdout), (b'', 141))
                finally:
                    os.close(stdout)

    @unittest.skipUnless(os.path.exists('/dev/full'), 'no /dev/full here')
    def test_a_full_disk_is_said_in_a_line_by_the_pages_that_only_print_an_example_too(self):
        for words in (['published.py'], *self.EXAMPLES):
            with self.subTest(program=words[0]), open('/dev/full', 'wb') as full:
                self.assertEqual(self.ended(words, full.fileno()),
                                 (f'{words[0]}: [Errno 28] No space left on device\n'.encode(), 1))

    def test_a_closed_standard_output_is_no_reason_to_fail(self):
        for words in self.EXAMPLES:
            with self.subTest(program=words[0]):
                command = ' '.join(['exec', sys.executable, *words, '>&-'])
                with open(self.STREAM, 'rb') as stream:
                    done = subprocess.run(['sh', '-c', command], cwd=TOP, stdin=stream, stderr=subprocess.PIPE)
                self.assertEqual((done.stderr, done.returncode), (b'', 0))

    def ended(self, words, stdout):
        with open(self.STREAM, 'rb') as stream:
            done = subprocess.run([sys.executable, *words], cwd=TOP, stdout=stdout, stderr=subprocess.PIPE, stdin=stream)
        return done.stderr, done.returncode


if __name__ == '__main__':
    unittest.main()
