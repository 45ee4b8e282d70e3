"""Article 5, a Note of your own: server.py --notes DIR makes Notes of a folder's Markdown and CSV files, once."""
import csv
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import access
import host
import note_folder
import note_store
import runs_stage
from tests import test_article5
from tests.access_world import errors_of_children
from versioned import Ref

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Folder(test_article5.Workspace):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = os.path.join(place.name, 'Launch')
        os.mkdir(self.folder)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def load(self):
        return note_folder.load(self.state.db, self.folder, 'w1', self.state.now_us())

    def notes(self):
        self.owner(access.add_to_project, self.connection, note_folder.PROJECT)
        found = self.ok('list_project_resources', project_id=note_folder.PROJECT, resource_type='note')['resources']
        return {each['name']: each['resource_id'] for each in found}

    def tabs_of(self, note_id):
        return {tab['label']: tab for tab in self.ok('list_note_tabs', note_id=note_id)['tabs']}

    def values(self, note_id, tab, row, col, rows, cols):
        return self.ok('read_sheet_range', note_id=note_id, tab_id=tab['tab_id'], start_row=row, start_col=col,
                       row_count=rows, col_count=cols)['values']


class Loading(Folder):
    def test_a_folder_is_a_note_with_markdown_and_sheet_tabs_and_attached_files(self):
        text = '# Brief\r\n\u202e<script>\n'
        self.write('Q3 launch/Brief.md', text)
        self.write('Q3 launch/Owners.csv', '\ufeffpoint,owner\r\n"a, b",Aiko\r\nline 3\r\n,"two\nlines"\r\n')
        self.write('Q3 launch/kit.pdf', b'%PDF \x00 secret')
        self.assertEqual(len(self.load().notes), 1)
        note_id = self.notes()['Q3 launch']
        tabs = self.tabs_of(note_id)
        kinds = {label: tab['tab_type'] for label, tab in tabs.items()}
        self.assertEqual(kinds, {'Brief': 'markdown', 'Owners': 'sheet'})
        self.assertEqual(self.ok('read_note_tab', note_id=note_id, tab_id=tabs['Brief']['tab_id'])['text'], text)
        self.assertEqual(self.values(note_id, tabs['Owners'], 0, 0, 4, 2), [
            ['point', 'owner'], ['a, b', 'Aiko'], ['line 3', None], [None, 'two\nlines']])
        file, = self.ok('list_note_attachments', note_id=note_id)['files']
        self.assertEqual((file['name'], file['media_type'], file['size_bytes']), ('kit.pdf', 'application/pdf', 13))

    def test_a_file_in_the_folder_itself_is_a_note_of_one_tab(self):
        self.write('Ideas.md', 'one')
        self.write('Budget.CSV', '1,2')
        self.load()
        self.assertEqual(set(self.notes()), {'Ideas', 'Budget'})

    def test_a_csv_larger_than_one_range_comes_whole(self):
        rows = [[f'r{row}c{col}' for col in range(130)] for row in range(230)]
        with open(self.write('Big.csv', ''), 'w', newline='', encoding='utf-8') as file:
            csv.writer(file).writerows(rows)
        self.load()
        note_id = self.notes()['Big']
        tab = self.tabs_of(note_id)['Big']
        self.assertEqual((tab['row_count'], tab['col_count']), (230, 130))
        for row, col in ((0, 0), (150, 40), (229, 129)):
            self.assertEqual(self.values(note_id, tab, row, col, 1, 1), [[rows[row][col]]])

    def test_a_second_start_loads_only_what_is_new_and_leaves_the_edited_note_alone(self):
        self.write('Ideas.md', 'from the file')
        first = self.load().notes
        note_id = self.notes()['Ideas']
        tab_id = self.tabs_of(note_id)['Ideas']['tab_id']
        version = self.ok('read_note_tab', note_id=note_id, tab_id=tab_id)['version']
        self.ok('edit_note_tab', note_id=note_id, tab_id=tab_id, operation='replace_text', text='edited',
                expected_version=version, idempotency_key=self.key())
        self.write('Ideas.md', 'the file changed')
        self.write('More.md', 'new')
        again = self.load()
        self.assertEqual((again.present, len(again.notes)), (first, 1))
        self.assertEqual(self.ok('read_note_tab', note_id=note_id, tab_id=tab_id)['text'], 'edited')

    def test_no_link_is_followed_and_what_cannot_be_loaded_is_named_while_the_rest_is_loaded(self):
        outside = tempfile.NamedTemporaryFile(suffix='.md')
        self.addCleanup(outside.close)
        outside.write(b'outside the tree')
        outside.flush()
        self.write('Note/good.md', 'good')
        os.symlink(outside.name, os.path.join(self.folder, 'Note', 'link.md'))
        os.symlink(os.path.dirname(outside.name), os.path.join(self.folder, 'tree'))
        os.mkfifo(os.path.join(self.folder, 'Note', 'pipe.md'))
        self.write('Note/latin.md', b'caf\xe9')
        self.write('Note/nul.md', 'a\x00b')
        self.write('Note/large.md', 'x' * (2 ** 20 + 1))
        self.write('Note/wide.csv', 'y' * 5000)
        self.write('Note/two\nlines.md', 'label')
        self.write('Note/.hidden.md', 'hidden')
        self.write('loose.txt', 'in no folder')
        skipped = dict(self.load().skipped)
        self.assertEqual({os.path.basename(path) for path in skipped}, {
            'link.md', 'tree', 'pipe.md', 'latin.md', 'nul.md', 'large.md', 'wide.csv', 'two\nlines.md', 'loose.txt'})
        self.assertEqual({reason for path, reason in skipped.items() if os.path.basename(path) in ('link.md', 'tree')},
                         {'a link'})
        self.assertEqual(set(self.tabs_of(self.notes()['Note'])), {'good'})

    def test_a_folder_that_is_closed_to_us_and_one_with_too_many_tabs_stop_no_other(self):
        self.write('Good/good.md', 'good')
        self.write('Closed/a.md', 'a')
        self.write('Many/a.md', 'a')
        self.write('Many/b.md', 'b')
        self.write('Good/deep/c.md', 'c')
        self.write('Attached/only.txt', 'd')
        self.write('Wide.csv', ',' * 16_000 + '\n' * 20_000)          # padded, it would take gigabytes
        scandir = os.scandir

        def closed(path):                                  # whoever runs this may be root, who may look everywhere
            if os.path.basename(path) == 'Closed':
                raise PermissionError(13, 'Permission denied', path)
            return scandir(path)
        with mock.patch('os.scandir', closed), mock.patch.object(note_store, 'TABS_A_NOTE', 1):
            skipped = {os.path.basename(path): reason for path, reason in self.load().skipped}
        self.assertEqual(set(skipped), {'Closed', 'Many', 'deep', 'Attached', 'Wide.csv'})
        self.assertEqual(set(self.notes()), {'Good'})

    def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_followed(self):
        target, link = self.write('Note/a.md', 'outside'), os.path.join(self.folder, 'Note', 'b.md')
        os.symlink(target, link)
        with self.assertRaises(OSError):
            note_folder.read_regular(link, 100)

    def test_two_names_that_look_alike_are_two_notes_with_ids_that_stay(self):
        for name in ('Q3 launch', 'q3-launch', '京都', '東京', 'x' * 100):
            self.write(f'{name}.md', name)
        first = self.load().notes
        self.assertEqual(len(set(first)), 5)
        self.assertEqual(self.load().present, first)
        for note_id in first:
            self.assertRegex(note_id, r'\A[a-z0-9-]{1,48}\Z')

    def test_a_note_that_fails_half_way_is_not_there_at_all(self):
        self.write('Note/a.md', 'a')
        self.write('Note/b.csv', '1,2')
        self.addCleanup(setattr, note_store, 'edit', note_store.edit)
        note_store.edit = lambda *arguments: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            self.load()
        with self.state.db.read() as tx:
            self.assertEqual(tx.execute('SELECT count(*) FROM notes').fetchone(), (1,))


class Served(Folder):
    def test_server_py_serves_the_folder_to_a_connection_that_is_added_to_its_project(self):
        self.write('Q3 launch/Brief.md', 'one open point')
        with errors_of_children() as said, runs_stage.stage(lambda tx: None, ('--notes', self.folder)) as here:
            said.seek(0)
            self.assertEqual(said.read(), 'notes: 1 loaded, 0 there before\n')
            claude = here.claude()
            claude.call('list_granted_resources', {})
            here.click('add_to_project', connection=here.connection(), project=note_folder.PROJECT)
            found = host.tool_answer(claude.call('list_project_resources', {}).result)['resources']
            self.assertEqual([each['name'] for each in found], ['Q3 launch'])

    def test_a_folder_that_is_not_there_leaves_no_project_of_its_name(self):
        with self.assertRaises(OSError):
            note_folder.load(self.state.db, self.folder + '-typo', 'w1', self.state.now_us())
        with self.state.db.read() as tx:
            self.assertFalse(access.is_placed(tx, Ref('project', note_folder.PROJECT)))

    def test_a_folder_that_is_not_there_ends_the_server_with_a_line_that_says_so(self):
        with tempfile.TemporaryDirectory() as data:
            os.chmod(data, 0o700)
            ended = subprocess.run([sys.executable, os.path.join(TOP, 'server.py'), '--port', '0', '--data', data,
                                    '--notes', os.path.join(self.folder, 'nowhere')], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn('nowhere', ended.stderr)
        self.assertNotIn('Traceback', ended.stderr)


if __name__ == '__main__':
    unittest.main()
