"""Article 5, "Un'esecuzione reale": client.py notes plays it for real, and each line is as published."""
import contextlib
import io
import json
import unittest

import bench_notes
import host
import note_tabs
import published_notes
import runs_notes
import runs_stage
from tests import test_article5_tabs


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cls.status = runs_notes.main(['--json'])
        cls.printed, cls.played = json.loads(out.getvalue()), err.getvalue()

    def test_every_published_outcome_holds_and_the_program_says_so(self):
        wrong = [cell for table in self.printed['tables'] for cell in table['cells'] if not cell['holds']]
        self.assertEqual((wrong, self.status), ([], 0))
        self.assertEqual([table['table'] for table in self.printed['tables']], [
            table.name for table in (published_notes.SETUP, published_notes.RUN, published_notes.LIMITS,
                                     published_notes.NEXT_STEP)])

    def test_the_calls_of_the_run_come_in_the_articles_order_with_the_articles_argument_names(self):
        run = self.played.split('--- The run\n')[1].split('\n\n')[0]
        calls = [(line.split()[2], json.loads(line.split(' ', 3)[3])) for line in run.split('\n')
                 if line.startswith('Claude -> ')]
        self.assertEqual([(tool, *arguments) for tool, arguments in calls[:7]], [
            ('list_note_tabs',),
            ('read_sheet_range', 'tab_id', 'start_row', 'start_col', 'row_count', 'col_count'),
            ('read_note_tab', 'tab_id'),
            ('edit_note_tab', 'tab_id', 'operation', 'text', 'expected_version', 'idempotency_key'),
            ('read_note_tab', 'tab_id'),
            ('edit_note_tab', 'tab_id', 'operation', 'text', 'expected_version', 'idempotency_key'),
            ('create_note_tab', 'tab_type', 'label', 'expected_version', 'slides', 'idempotency_key')])
        self.assertEqual([arguments['expected_version'] for _, arguments in calls if 'expected_version' in arguments],
                         ['V1', 'V2', 'V3'])
        self.assertEqual([arguments['idempotency_key'] for _, arguments in calls if 'idempotency_key' in arguments],
                         ['brief-owners-1', 'brief-owners-2', 'launch-status-deck'])

    def test_the_host_asks_before_each_write_and_before_no_read(self):
        lines = self.played.split('\n')
        for line, following in zip(lines, lines[1:]):
            if line.startswith('Claude -> '):
                self.assertEqual('[the host asks' in following, line.split()[2] in runs_notes.WRITES, line)

    def test_claudes_edit_is_made_again_on_what_is_there_and_never_the_old_text_with_the_new_version(self):
        owners = {'venue': 'Aiko', 'press kit': 'Mika'}
        self.assertEqual(runs_notes.with_owners('- venue\n- unknown', owners), '- venue - owner: Aiko\n- unknown')
        self.assertEqual(runs_notes.with_owners('- venue\n- press kit', owners),
                         '- venue - owner: Aiko\n- press kit - owner: Mika')


class OverHttp(unittest.TestCase):
    def test_markup_turning_marks_and_a_text_of_one_megabyte_come_back_through_the_server_as_they_went(self):
        line = '<b>\u202e京都\u202c & "quoted" \\u0041 \U0001f680\r\n'
        largest = line * (note_tabs.TEXT_BYTES // len(line.encode()))
        texts = [*test_article5_tabs.NASTY, largest, 'x' * note_tabs.TEXT_BYTES]
        with runs_stage.stage(runs_notes.seed) as here:
            claude = here.claude()
            claude.call('list_granted_resources', {})
            here.click('add_to_project', connection=here.connection(), project='launch')
            here.click('move_item', kind='note', id=runs_notes.NOTE, project='launch')
            listed = host.tool_answer(claude.call('list_note_tabs', {'note_id': runs_notes.NOTE}).result)
            tab, version = {'note_id': runs_notes.NOTE, 'tab_id': listed['tabs'][0]['tab_id']}, listed['version']
            for number, text in enumerate(texts):
                with self.subTest(text=ascii(text)[:60]):
                    edit = {**tab, 'operation': 'replace_text', 'text': text, 'expected_version': version,
                            'idempotency_key': f'nasty-text-{number}'}
                    version = host.tool_answer(claude.call('edit_note_tab', edit).result)['version']
                    self.assertEqual(host.tool_answer(claude.call('read_note_tab', tab).result)['text'], text)


class Bench(unittest.TestCase):
    def test_bench_notes_measures_every_row_of_its_table(self):
        for name, small in (('NOTES', {'one': 1, 'hundred': 5, 'thousand': 20}),
                            ('SIDES', {'small': 100, 'large': 600}), ('ROUNDS', 4),
                            ('SLOW_ROUNDS', 1), ('WARM_UP', 1), ('RANGES', 2)):
            self.addCleanup(setattr, bench_notes, name, getattr(bench_notes, name))
            setattr(bench_notes, name, small)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            bench_notes.main(['--json'])
        cells, = (table['cells'] for table in json.loads(out.getvalue())['tables'])
        self.assertEqual({(cell['row'], cell['column']) for cell in cells},
                         {(cell.row, cell.column) for cell in published_notes.COSTS.cells})
        self.assertTrue(all(cell['here'] > 0 for cell in cells if cell['unit'] != 'KiB'), cells)


if __name__ == '__main__':
    unittest.main()
