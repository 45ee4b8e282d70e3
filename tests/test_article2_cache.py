"""Article 2: the simulation's tables, and the counters that they are counted with."""
import contextlib
import io
import json
import os
import random
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from unittest import mock

import channel_render
import published_cache
import sim_cache
import sim_channel
import sim_kb
import token_counter

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def day_of(plan=sim_channel.ARTICLE):
    rows, mentions = sim_channel.channel(plan, len(plan.gaps) + 1)
    return rows, mentions, sim_channel.replies(plan, len(mentions))


class TheTables(unittest.TestCase):
    """"La simulazione", "Cosa dicono i numeri", "Altri due risultati"."""

    def test_every_figure_holds_under_every_counter_at_hand(self):
        tables = sim_cache.tables()
        wrong = [(table['table'], cell['row'], cell['column'], cell['here'])
                 for table in tables for cell in table['cells'] if not cell['holds']]
        self.assertEqual(wrong, [])
        self.assertEqual(len(tables), 6 * len(token_counter.counters()))

    def test_the_program_prints_the_same_as_a_table_and_as_json(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(sim_cache.main(['--json']), 0)
        report = json.loads(printed.getvalue())
        self.assertEqual(report['holds'], report['of'])
        self.assertIn('counted by ours', report['tables'][0]['table'])

    def test_a_figure_that_is_off_makes_the_program_say_no_and_end_with_1(self):
        with mock.patch.object(channel_render, 'SHOWN_ROWS', 11), contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(sim_cache.main([]), 1)

    def test_other_channels_keep_the_ratios_and_vary_the_rest(self):
        tokens = sim_cache.Tokens(token_counter.counter_of_ours())
        plans = [sim_channel.other_plan(seed) for seed in range(1, 4)]
        self.assertEqual(len({plan.gaps for plan in plans}), 3)
        for plan in plans:
            figures = sim_cache.cache_figures(sim_cache.play(plan, tokens))
            for column in ('window', 'watermark'):
                self.assertAlmostEqual(figures['cacheable ratio', column], 0.94, delta=0.004)
            self.assertEqual(figures['of it read before', 'watermark'], 0)
            expected = 12 + sum(min(12, gap) for gap in plan.gaps)
            self.assertEqual(figures['channel rows sent', 'watermark'], expected)       # the closed form

    def test_a_longer_channel_begins_like_a_shorter_one(self):
        short, long = (sim_channel.channel(sim_channel.ARTICLE, mentions) for mentions in (30, 90))
        self.assertEqual(long[0][:200], short[0])
        self.assertEqual(long[1][:30], short[1])
        self.assertEqual(sim_channel.replies(sim_channel.ARTICLE, 90)[:30], sim_channel.replies(sim_channel.ARTICLE, 30))

    def test_the_second_turn_is_the_articles_example(self):
        rows, mentions, _ = day_of()
        self.assertEqual([(rows[at].id, rows[at].body) for at in mentions[:2]],
                         [(row.id, row.body) for row in channel_render.example()[1][1::2]])
        self.assertEqual(sim_channel.mention_of(rows[mentions[1]], 1), channel_render.example()[0])

    def test_the_picture_is_xml_with_two_lines_a_strategy(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(sim_cache.main(['--svg']), 0)
        root = xml.etree.ElementTree.fromstring(printed.getvalue())
        self.assertEqual(len(root.findall('{http://www.w3.org/2000/svg}polyline')), 6)

    def test_what_cannot_be_printed_together_is_refused_and_none_of_it_ignored(self):
        for words in (['--svg', '--json'], ['--svg', '--seeds', '7'], ['--seeds', '7', '--json']):
            with self.subTest(words=words), contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as ended:
                    sim_cache.main(words)
                self.assertEqual(ended.exception.code, 2)
                self.assertIn('one of --seeds, --svg and --json', said.getvalue())

    def test_seeds_are_read_as_ranges_lists_and_single_numbers(self):
        self.assertEqual([sim_kb.seed_list(text) for text in ('1-5', '7', '1,3,9')],
                         [[1, 2, 3, 4, 5], [7], [1, 3, 9]])
        for text in ('', '1-', '-', 'x', '1,,2', '٣', '1_0', '5-1'):
            with self.subTest(text=text), self.assertRaises(Exception):
                sim_kb.seed_list(text)

    def test_ranges_of_other_seeds_are_printed(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(sim_cache.main(['--seeds', '1-2']), 0)
        self.assertRegex(printed.getvalue(), r'channel rows sent, window +360 +360')


class TheCount(unittest.TestCase):
    """The shortcut of the simulation against whole requests, token by token."""

    def test_totals_and_common_prefixes_equal_those_of_whole_requests(self):
        for counter in token_counter.counters():
            for strategy in sim_cache.STRATEGIES:
                for evicted_at in (None, 14):
                    with self.subTest(counter=counter.name, strategy=strategy.name, evicted_at=evicted_at):
                        self.compare(counter, strategy, evicted_at)

    def compare(self, counter, strategy, evicted_at):
        rows, mentions, replies = day_of()
        mentions = mentions[:18]
        fast = list(sim_cache.run(rows, mentions, replies, strategy, sim_cache.Tokens(counter), evicted_at))
        watermark, talk, previous = None, '', None
        for turn, at in enumerate(mentions):
            if turn == evicted_at:
                watermark, talk, previous = None, '', None
            shown = channel_render.render(rows[max(0, at - 29):at + 1], rows[at].id, watermark)
            talk += channel_render.mention_turn(sim_channel.mention_of(rows[at], turn), shown.text)
            head = sim_channel.status_line(turn) if strategy.status_line else ''
            parts = counter.parts(head + sim_channel.framing() + talk)
            self.assertAlmostEqual(fast[turn].input, counter.weigh(parts), places=3)
            common = next((at for at, (one, other) in enumerate(zip(previous or [], parts)) if one != other),
                          min(len(previous or []), len(parts)))
            # A prefix inside the status line is counted in parts, a longer one in tokens.
            expected = common if strategy.status_line else counter.weigh(parts[:common])
            self.assertAlmostEqual(fast[turn].cacheable, expected, places=3)
            previous, talk = parts, talk + replies[turn]
            watermark = channel_render.advance(watermark, 'n', shown) if strategy.remembers else None

    def test_the_cost_is_linear_in_turns(self):
        rows, mentions = sim_channel.channel(sim_channel.ARTICLE, 160)
        replies = sim_channel.replies(sim_channel.ARTICLE, 160)
        steps = []
        for count in (40, 160):
            calls = []
            tokens = sim_cache.Tokens(token_counter.counter_of_ours())
            sys.setprofile(lambda frame, event, argument: calls.append(None))
            try:
                list(sim_cache.run(rows, mentions[:count], replies, sim_cache.WATERMARK, tokens))
            finally:
                sys.setprofile(None)
            steps.append(len(calls))
        self.assertLess(steps[1], 4.4 * steps[0])

    def test_the_status_line_is_never_the_same_twice_in_a_row(self):
        lines = [sim_channel.status_line(turn) for turn in range(400)]
        for one, other in zip(lines, lines[1:]):
            self.assertEqual(os.path.commonprefix([one, other]), 'Channel #backend · ')

    def test_framing_holds_a_system_prompt_and_twenty_tools_and_nothing_that_changes(self):
        text = sim_channel.framing()
        tools = [json.loads(line) for line in text.split('\n') if line.startswith('{')]
        self.assertEqual(len({tool['tool'] for tool in tools}), 20)
        self.assertEqual(text, sim_channel.framing())
        self.assertIsNone(re.search(r'20\d\d-\d\d|ch-backend|aiko|online', text))


class TheCounter(unittest.TestCase):
    """Standard library against tiktoken; what is never fetched."""

    def test_pieces_joined_are_the_text_again(self):
        rng = random.Random(1)
        alphabet = "ab Z09_'#·—\n\r\t.,{}\"é漢字🚀\u00a0\u0301"
        for _ in range(500):
            text = ''.join(alphabet[int(rng.random() * len(alphabet))] for _ in range(40))
            self.assertEqual(''.join(token_counter.pieces(text)), text)

    def test_a_text_that_ends_a_line_can_be_counted_by_itself(self):
        rows, _, replies = day_of()
        for counter in token_counter.counters():
            for one, other in zip(replies, map(channel_render.row_line, rows)):
                self.assertEqual(counter.parts(one) + counter.parts(other), counter.parts(one + other))

    def test_nothing_is_used_when_the_rank_file_is_not_the_one_that_is_pinned(self):
        spec = mock.Mock(origin=None)
        with mock.patch.object(token_counter.importlib.util, 'find_spec', return_value=spec), \
                mock.patch.object(token_counter, 'rank_file', return_value=os.path.abspath(__file__)):
            self.assertIsNone(token_counter.counter_of_tiktoken())

    def test_ours_is_near_tiktoken_where_that_is_at_hand(self):
        counters = token_counter.counters()
        if len(counters) < 2:
            self.skipTest('tiktoken and its rank file are not at hand')
        ours, theirs = counters
        for text in (sim_channel.framing(), channel_render.BRIEF, ''.join(day_of()[2])):
            self.assertAlmostEqual(ours.weigh(ours.parts(text)) / theirs.weigh(theirs.parts(text)), 1, delta=0.04)

    def test_the_program_counts_files_and_says_who_counted(self):
        done = subprocess.run([sys.executable, os.path.join(TOP, 'token_counter.py'), os.path.join(TOP, 'LICENSE')],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, 'ours (standard library)' in done.stdout), (0, True))
        self.assertEqual(subprocess.run([sys.executable, os.path.join(TOP, 'token_counter.py'), 'no such file'],
                                        capture_output=True).returncode, 2)


class ThePublishedSide(unittest.TestCase):
    def test_token_figures_may_differ_by_two_and_a_half_percent_and_counts_may_not(self):
        for cell in published_cache.CACHE.cells:
            if cell.judged == 'range':
                self.assertAlmostEqual(cell.high / cell.published, 1.025, places=4)
                self.assertAlmostEqual(cell.low / cell.published, 0.975, places=4)
        exact = {(cell.row, cell.column) for cell in published_cache.CACHE.cells if cell.judged == 'exact'}
        self.assertLessEqual({('channel rows sent', 'window'), ('cacheable ratio', 'watermark'),
                              ('of it cacheable prefix', 'unstable prefix'), ('of it read before', 'watermark')}, exact)

    def test_the_erratum_carries_its_arithmetic(self):
        self.assertTrue(29 * 460 == 13340 > 9132 and 29 * 420 == 12180 > 5057 and 343 + 29 * 44 == 1619 < 4075)
        for figure in ('13,340', '12,180', '1,619'):
            self.assertIn(figure, published_cache.ERRATUM)


if __name__ == '__main__':
    unittest.main()
