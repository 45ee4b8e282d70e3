"""Article 5, what a tab holds: ranges of a sheet, outlines, limits, and texts that come back unchanged."""
import os
import random
import unittest

import note_store
import note_tabs
from tests import test_article5
from tests.test_article5 import OWNERS, Q3
from versioned import Refusal

# Markup, scripts, marks that turn or hide text, all kinds of ends of line, composed and decomposed letters.
NASTY = ('<script>alert(1)</script><!-- --> &amp; <b>', "'; DROP TABLE notes; --",
         '\u202eevil\u202c \u2066x\u2069 \u200b\u200f',
         'a\r\nb\rc\nd\x0b\x0c\x85\u2028\u2029e\n\n', '\x01\x1b[31m\x7f\x9b',
         'é e\u0301 \u1e9b\u0323 Å \ufb01', '\U0001f680\U0001f1ee\U0001f1f9 京都',
         '\ufeffbom', '{"a": [1, null]}', '%s %d {0} \\n \\', ' leading and trailing \t', '')


class Sheet(test_article5.Workspace):
    def read(self, row, col, rows, cols, tab='Owners'):
        return {'note_id': Q3.id, 'tab_id': self.tabs[tab], 'start_row': row, 'start_col': col, 'row_count': rows,
                'col_count': cols}

    def put(self, row, col, values, tab='Owners archive'):
        return self.edit(tab, self.version(), operation='sheet_set_range', start_row=row, start_col=col, values=values)

    def values(self, *corner_and_size, tab='Owners'):
        return self.ok('read_sheet_range', **self.read(*corner_and_size, tab=tab))['values']


class Ranges(Sheet):
    def test_a_range_gives_exactly_its_rows_by_columns(self):
        self.assertEqual(self.values(0, 0, 12, 4), OWNERS)
        self.assertEqual(self.values(3, 1, 2, 2), [row[1:3] for row in OWNERS[3:5]])
        self.assertEqual(self.values(11, 3, 2, 2), [[False, None], [None, None]])

    def test_over_100_by_100_is_refused_with_the_limit_reading_and_writing(self):
        self.assertEqual(len(self.values(0, 0, 100, 100)), 100)
        for rows, cols, field in ((101, 1, 'row_count'), (1, 101, 'col_count'), (0, 1, 'row_count'),
                                  (1, -1, 'col_count')):
            error = self.refused('invalid_argument', 'read_sheet_range', **self.read(0, 0, rows, cols))
            self.assertEqual(error['field'], field)
            self.assertRegex(error['limit'], '100|1')
        self.ok('edit_note_tab', **self.put(0, 0, [[1] * 100] * 100))
        for values in ([[1]] * 101, [[1] * 101], [], [[]], [[1], [1, 2]], [1], {'a': 1}):
            error = self.refused('invalid_argument', 'edit_note_tab', **self.put(0, 0, values))
            self.assertEqual(error['field'], 'values')

    def test_the_last_cell_of_a_sheet_can_be_written_and_nothing_outside_it(self):
        row, col = note_tabs.SHEET_ROWS - 1, note_tabs.SHEET_COLS - 1
        self.ok('edit_note_tab', **self.put(row, col, [['end']]))
        self.assertEqual(self.values(row, col, 1, 1, tab='Owners archive'), [['end']])
        for corner, values in (((row, col), [[1, 2]]), ((row, col), [[1], [2]]), ((row + 1, 0), [[1]]),
                               ((0, col + 1), [[1]]), ((-1, 0), [[1]]), ((True, 0), [[1]]), ((0.0, 0), [[1]])):
            self.refused('invalid_argument', 'edit_note_tab', **self.put(*corner, values))

    def test_cells_keep_their_kind_and_null_empties_one(self):
        row = ['1', 1, 1.0, True, False, '', 'true', -2 ** 63, 2 ** 63 - 1, 0.1, 1e300, 'x' * 4_000, None]
        self.ok('edit_note_tab', **self.put(7, 0, [row]))
        back = self.values(7, 0, 1, len(row), tab='Owners archive')[0]
        self.assertEqual([(type(cell), cell) for cell in back], [(type(cell), cell) for cell in row])
        self.ok('edit_note_tab', **self.put(7, 1, [[None, 'new']]))
        self.assertEqual(self.values(7, 0, 1, 4, tab='Owners archive'), [['1', None, 'new', True]])

    def test_what_is_no_cell_is_refused(self):
        for cell in (2 ** 63, -2 ** 63 - 1, float('inf'), float('nan'), [1], {}, 'x' * (note_tabs.CELL_CHARS + 1),
                     '\x00', '\udc80'):
            with self.subTest(cell=str(cell)[:20].encode('ascii', 'replace')):
                before = self.everything()
                self.refused('invalid_argument', 'edit_note_tab', **self.put(0, 0, [['good', cell]]))
                self.assertEqual(self.everything(), before)

    def test_a_range_with_too_much_text_is_refused_and_a_smaller_one_is_read(self):
        version = self.version()
        for row in range(0, 300, 20):
            call = self.edit('Owners archive', version, operation='sheet_set_range', start_row=row, start_col=0,
                             values=[['y' * note_tabs.CELL_CHARS] * 1] * 20)
            version = self.ok('edit_note_tab', **call)['version']
        self.values(0, 0, 100, 1, tab='Owners archive')
        note_tabs.RANGE_CHARS, before = 50 * note_tabs.CELL_CHARS, note_tabs.RANGE_CHARS
        self.addCleanup(setattr, note_tabs, 'RANGE_CHARS', before)
        self.values(0, 0, 50, 1, tab='Owners archive')
        self.refused('invalid_argument', 'read_sheet_range', **self.read(0, 0, 51, 1, tab='Owners archive'))

    def test_random_writes_read_back_as_a_model_of_the_sheet_has_them(self):
        rng, model, version = random.Random(5), {}, self.version()
        for _ in range(60):
            row, col = rng.randrange(40), rng.randrange(40)
            line = [rng.choice([None, rng.randrange(9), 'x']) for _ in range(rng.randrange(1, 7))]
            values = [line] * rng.randrange(1, 7)
            call = self.edit('Owners archive', version, operation='sheet_set_range', start_row=row, start_col=col,
                             values=values)
            version = self.ok('edit_note_tab', **call)['version']
            model.update({(row + i, col + j): value for i, line in enumerate(values) for j, value in enumerate(line)})
        for _ in range(30):
            row, col, rows, cols = rng.randrange(45), rng.randrange(45), rng.randrange(1, 50), rng.randrange(1, 50)
            self.assertEqual(self.values(row, col, rows, cols, tab='Owners archive'),
                             [[model.get((i, j)) for j in range(col, col + cols)] for i in range(row, row + rows)])

    def test_a_tab_that_is_no_sheet_has_no_ranges_and_a_sheet_tells_its_size(self):
        error = self.refused('invalid_argument', 'read_sheet_range', **self.read(0, 0, 1, 1, tab='Brief'))
        self.assertEqual(error['field'], 'tab_id')
        read = self.ok('read_note_tab', note_id=Q3.id, tab_id=self.tabs['Owners'])
        self.assertEqual((read['row_count'], read['col_count']), (12, 4))
        self.assertNotIn('values', read)


class TheStoreAlone(Sheet):
    """The schemas stop most of this before; whoever calls the store without them meets the same limits."""

    def refuses(self, field, work, actor, arguments):
        with self.state.db.write() as tx:
            before = self.everything()
            with self.assertRaises(Refusal) as caught:
                work(tx, actor, arguments, 1)
            self.assertEqual((caught.exception.code, caught.exception.data['field']), ('invalid_argument', field))
        self.assertEqual(self.everything(), before)

    def test_its_limits_do_not_lean_on_the_schemas(self):
        self.refuses('row_count', note_store.read_sheet_range, 'a', self.read(0, 0, 101, 1))
        self.refuses('col_count', note_store.read_sheet_range, 'a', self.read(0, 0, 1, 101))
        for cell in (float('nan'), float('inf'), 2 ** 63, [1], 'x' * (note_tabs.CELL_CHARS + 1), '\x00'):
            self.refuses('values', note_store.edit_note_tab, 'a', self.put(0, 0, [[cell]]))
        deck = {'note_id': Q3.id, 'tab_type': 'markdown', 'label': 'x', 'text': 'x', 'expected_version': self.version(),
                'idempotency_key': self.key()}
        self.refuses('tab_type', note_store.create_note_tab, 'a', deck)
        sheet = {**deck, 'tab_type': 'sheet'}
        self.refuses('slides', note_store.create_note_tab, 'a', {**sheet, 'slides': [{'title': 'a'}]})
        self.refuses('label', note_store.create_note_tab, 'a', {**sheet, 'label': 'two\nlines'})

    def test_a_note_has_room_for_so_many_tabs_and_sources(self):
        for name in ('TABS_A_NOTE', 'SOURCES_A_NOTE'):
            self.addCleanup(setattr, note_store, name, getattr(note_store, name))
        note_store.TABS_A_NOTE, note_store.SOURCES_A_NOTE = len(self.tabs), 0
        for work, more in ((note_store.create_note_tab, {'tab_type': 'sheet', 'label': 'x'}),
                           (note_store.add_note_source, {'url': 'https://example.org/'})):
            self.refuses('note_id', work, 'a', {'note_id': Q3.id, 'expected_version': self.version(),
                                                'idempotency_key': self.key(), **more})

    def test_an_empty_cell_takes_no_room(self):
        def stored():
            with self.state.db.read() as tx:
                return tx.execute('SELECT cells FROM note_cells WHERE tab_id = ?',
                                  (self.tabs['Owners archive'],)).fetchall()
        self.ok('edit_note_tab', **self.put(5, 48, [[None, 'a', 'b', None]]))
        self.assertEqual(sorted(stored()), [('["b"]',), ('[' + 'null,' * 49 + '"a"]',)])
        self.ok('edit_note_tab', **self.put(5, 49, [[None, None]]))
        self.assertEqual(stored(), [])


class Costs(Sheet):
    """Counted in steps of SQLite's machine, which do not depend on the machine that runs it."""

    def steps(self, work):
        with self.state.db.write() as tx:
            counted = [0]

            def tick():
                counted[0] += 1
            tx.set_progress_handler(tick, 10)
            try:
                work(tx)
            finally:
                tx.set_progress_handler(None, 0)
        return counted[0] * 10

    def fill(self, size):
        tab = note_store.find_tab
        with self.state.db.write() as tx:
            for row in range(0, size, 100):
                for col in range(0, size, 100):
                    note_tabs.write_cells(tx, tab(tx, Q3.id, self.tabs['Owners archive']), {
                        'start_row': row, 'start_col': col, 'values': [['cell'] * 100] * 100})

    def test_a_range_costs_its_own_cells_and_not_the_sheet(self):
        corner, middle = (self.read(at, at, 100, 100, tab='Owners archive') for at in (0, 150))
        self.fill(100)
        small = self.steps(lambda tx: note_store.read_sheet_range(tx, '', corner, 0))
        self.fill(400)
        large = self.steps(lambda tx: note_store.read_sheet_range(tx, '', middle, 0))
        self.assertLess(large, 1.1 * small)

    def test_an_edit_writes_its_own_tab_and_not_the_note(self):
        call = self.edit('Minutes', self.version(), operation='replace_text', text='new')
        alone = self.steps(lambda tx: note_store.edit_note_tab(tx, 'connection:c', call, 1))
        with self.state.db.write() as tx:
            for number in range(300):
                tab = {'tab_type': 'markdown', 'label': f'tab {number}', 'text': 'x' * 5000}
                note_store.add_tab(tx, 'person:mika', Q3.id, tab, note_store.note_head(tx, Q3.id)[1], 0)
        size = os.path.getsize(self.path + '-wal')
        call = self.edit('Minutes', self.version(), operation='replace_text', text='newer')
        among = self.steps(lambda tx: note_store.edit_note_tab(tx, 'connection:c', call, 1))
        self.assertLess(among, 1.5 * alone)
        self.assertLess(os.path.getsize(self.path + '-wal') - size, 100_000)


class Slides(test_article5.Workspace):
    def slides(self):
        return self.ok('read_note_tab', note_id=Q3.id, tab_id=self.tabs['Kick-off'])['slides']

    def add(self, operation, **content):
        return self.edit('Kick-off', self.version(), operation=operation, **content)

    def test_slides_are_added_at_the_end_in_order(self):
        self.ok('edit_note_tab', **self.add('slide_add', slides=[{'title': 'Aiko'}]))
        more = [{'title': 'Mika', 'text': 'two'}, {'title': 'Aiko'}]
        self.ok('edit_note_tab', **self.add('slides_add_outline', slides=more))
        self.assertEqual(self.slides(), [{'title': 'Why', 'text': ''}, {'title': 'Aiko', 'text': ''},
                                         {'title': 'Mika', 'text': 'two'}, {'title': 'Aiko', 'text': ''}])

    def test_an_outline_is_a_title_a_line_and_what_is_indented_or_dashed_stands_under_it(self):
        outline = '\nAiko\n  press list\n- embargo\n\n Mika?\nMika\n\tkit'
        self.ok('edit_note_tab', **self.add('slides_add_outline', text=outline))
        self.assertEqual(self.slides()[1:], [{'title': 'Aiko', 'text': 'press list\n- embargo\nMika?'},
                                             {'title': 'Mika', 'text': 'kit'}])

    def test_one_slide_is_one_slide_and_titles_are_one_line(self):
        one = [{'title': 'a'}]
        for operation, content in (('slide_add', {'slides': one * 2}), ('slide_add', {'slides': []}),
                                   ('slide_add', {'text': 'a'}), ('slide_add', {'slides': [{'text': 'no title'}]}),
                                   ('slide_add', {'slides': [{'title': 'a\nb'}]}),
                                   ('slide_add', {'slides': [{'title': ' '}]}),
                                   ('slide_add', {'slides': [{'title': 'a', 'notes': 'b'}]}),
                                   ('slides_add_outline', {}), ('slides_add_outline', {'text': ' \n '}),
                                   ('slides_add_outline', {'text': 'a', 'slides': one}),
                                   ('slides_add_outline', {'slides': one * 101})):
            with self.subTest(operation=operation, content=str(content)[:40]):
                self.refused('invalid_argument', 'edit_note_tab', **self.add(operation, **content))
        self.assertEqual(len(self.slides()), 1)

    def test_a_deck_and_the_text_under_a_title_have_an_end(self):
        version = self.version()
        for _ in range(9):
            call = self.edit('Kick-off', version, operation='slides_add_outline', slides=[{'title': 'a'}] * 100)
            version = self.ok('edit_note_tab', **call)['version']
        self.ok('edit_note_tab', **self.add('slides_add_outline', slides=[{'title': 'a'}] * 99))
        self.refused('invalid_argument', 'edit_note_tab', **self.add('slide_add', slides=[{'title': 'one too many'}]))
        self.assertEqual(len(self.slides()), 1000)
        long = [{'title': 'a', 'text': 'x' * (note_tabs.SLIDE_BYTES + 1)}]
        self.refused('invalid_argument', 'create_note_tab', note_id=Q3.id, tab_type='slides', label='b', slides=long,
                     expected_version=self.version(), idempotency_key=self.key())


class Texts(test_article5.Workspace):
    def test_markup_scripts_turning_marks_and_every_end_of_line_come_back_unchanged(self):
        for text in NASTY:
            with self.subTest(text=ascii(text)):
                self.ok('edit_note_tab', **self.edit('Brief', self.version(), operation='replace_text', text=text))
                self.assertEqual(self.text(), text)
                self.ok('edit_note_tab', **self.edit('Owners', self.version(), operation='sheet_set_range', start_row=0,
                                                     start_col=0, values=[[text]]))
                self.assertEqual(self.ok('read_sheet_range', note_id=Q3.id, tab_id=self.tabs['Owners'], start_row=0,
                                         start_col=0, row_count=1, col_count=1)['values'], [[text]])
                self.ok('edit_note_tab', **self.edit('Board', self.version(), operation='replace_tab_data',
                                                     values={'k' + text: [text, 1, None, True, 0.5]}))
                self.assertEqual(self.ok('read_note_tab', note_id=Q3.id, tab_id=self.tabs['Board'])['values'],
                                 {'k' + text: [text, 1, None, True, 0.5]})

    def test_a_text_of_one_megabyte_comes_back_unchanged_and_one_byte_more_is_refused_with_the_limit(self):
        rng = random.Random(5)
        ranges = ((1, 0x80), (0xa0, 0x800), (0x1f300, 0x1f600))
        text = ''.join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(400_000))
        text += 'x' * (note_tabs.TEXT_BYTES - len(text.encode()))
        self.ok('edit_note_tab', **self.edit('Brief', self.version(), operation='replace_text', text=text))
        self.assertEqual(self.text(), text)
        before = self.everything()
        error = self.refused('invalid_argument', 'edit_note_tab',
                             **self.edit('Brief', self.version(), operation='replace_text', text=text + 'y'))
        self.assertEqual(error['field'], 'text')
        self.assertIn('1,048,576', error['limit'])
        self.assertEqual(self.everything(), before)

    def test_what_sqlite_or_utf_8_would_not_give_back_is_refused(self):
        for text in ('nul \x00 inside', '\ud800', 'tail \udfff'):
            self.refused('invalid_argument', 'edit_note_tab',
                         **self.edit('Brief', self.version(), operation='replace_text', text=text))

    def test_an_operation_takes_its_own_arguments_and_no_others(self):
        for operation, tab, content in (('replace_text', 'Brief', {'text': 'x', 'values': {}}),
                                        ('replace_text', 'Brief', {}), ('replace_tab_data', 'Board', {}),
                                        ('replace_tab_data', 'Board', {'values': [[1]]}),
                                        ('replace_tab_data', 'Board', {'values': {}, 'text': 'x'}),
                                        ('replace_text', 'Brief', {'text': 'x', 'slides': [{'title': 'a'}]})):
            self.refused('invalid_argument', 'edit_note_tab',
                         **self.edit(tab, self.version(), operation=operation, **content))


if __name__ == '__main__':
    unittest.main()
