"""note_tabs.py - what a tab of a Note holds, and which operation fits which kind.

Article 5, "Dove sta il limite" (each edit operation suits one kind of tab) and "Un'esecuzione reale" (a range of a
sheet is read, never the whole workbook). A change is checked first, without the database (`change_of`), and applied
then (`apply_change`); the same two steps serve agents, people, imported folders and whoever rebuilds a tab from
the history.

A sheet is stored in blocks of 50 cells of one row: a range costs its own rows and columns, an edit writes the blocks
it touches, and neither grows with the sheet.

Not here: versions, who may write, history, attachments (note_store.py), drafts (note_people.py).
"""
import json
import math
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import versioned
from versioned import Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
-- The words of a note or markdown tab; of the other content tabs their data as JSON.
-- Not a column of note_tabs: to list tabs must not read past a megabyte of text each.
CREATE TABLE IF NOT EXISTS note_texts (
    tab_id TEXT PRIMARY KEY,
    text   TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS note_slides (
    tab_id   TEXT NOT NULL,
    position INTEGER NOT NULL,         -- 0, 1, 2, ...
    title    TEXT NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (tab_id, position)
);
-- 50 cells of one row side by side: a range reads a few short texts a row, an edit writes only those it touches.
-- A block without cells has no row.
CREATE TABLE IF NOT EXISTS note_cells (
    tab_id TEXT NOT NULL,
    row    INTEGER NOT NULL,
    block  INTEGER NOT NULL,           -- columns block * 50 and the 49 after it
    cells  TEXT NOT NULL,              -- JSON: ["point", 1, 1.0, true, null], up to the last cell that is not empty
    PRIMARY KEY (tab_id, row, block)
) WITHOUT ROWID;
"""

TEXT_KINDS = ('note', 'markdown')
DATA_KINDS = ('checklist', 'board', 'timeline', 'diagram', 'form')     # ours: the article says "other content tabs"
TAB_TYPES = (*TEXT_KINDS, 'slides', 'sheet', *DATA_KINDS)
CREATABLE = ('slides', 'sheet')                                        # by create_note_tab

FITS: Dict[str, Tuple[str, ...]] = {                                   # operation -> the kinds of tab it suits
    'replace_text': TEXT_KINDS,
    'slide_add': ('slides',),
    'slides_add_outline': ('slides',),
    'sheet_set_range': ('sheet',),
    'replace_tab_data': DATA_KINDS,
}
FITS_PEOPLE = {**FITS, 'slide_set': ('slides',)}                       # a person also rewrites a slide that is there
CONTENT_FIELDS = ('text', 'slides', 'start_row', 'start_col', 'values', 'position')

RANGE_ROWS = RANGE_COLS = 100          # cells of one read or one write: a large sheet must not flood a conversation
SHEET_ROWS, SHEET_COLS = 1_048_576, 16_384
TEXT_BYTES = 2 ** 20                   # UTF-8 bytes of a text tab, and of the data of a content tab
LABEL_CHARS = 200
SLIDES_A_CALL, SLIDES_A_TAB = 100, 1_000
SLIDE_BYTES = 4_000                    # of the text under a slide's title
CELL_CHARS = 4_000
RANGE_CHARS = 2 ** 20                  # text in one answered range: 100 x 100 long cells would flood it all the same
BLOCK_COLS = 50                        # of a sheet's row in one stored text; note_cells says why


class Tab(NamedTuple):
    note_id: str
    tab_id: str
    tab_type: str
    label: str
    row_count: int                     # of a sheet: one past the furthest row and column ever written
    col_count: int
    version: int                       # of the whole Note


# --- rules --------------------------------------------------------------------

def require_fit(operation: str, tab_type: str, fits: Dict[str, Tuple[str, ...]]) -> None:
    """Refuse an operation that is not made for this kind of tab, and name those that are."""
    if operation not in fits:
        raise versioned.invalid('operation', 'one of ' + ', '.join(fits))
    if tab_type not in fits[operation]:
        suited = ', '.join(name for name, kinds in fits.items() if tab_type in kinds)
        raise versioned.invalid('operation', f'one that fits a {tab_type} tab: {suited}')


def change_of(operation: str, arguments: dict) -> dict:
    """The checked content of one change, and nothing else: what the history keeps and apply_change writes."""
    takes, check = CHANGES[operation]
    for field in CONTENT_FIELDS:
        if field in arguments and field not in takes:
            raise versioned.invalid(field, f'left out: {operation} takes {", ".join(takes)}')
    return check(arguments)


def text_change(arguments: dict) -> dict:
    return {'text': checked_text('text', arguments.get('text'), TEXT_BYTES)}


def slide_change(arguments: dict) -> dict:
    slides = checked_slides(arguments.get('slides'))
    if len(slides) != 1:
        raise versioned.invalid('slides', 'exactly one slide (slides_add_outline adds several)')
    return {'slides': slides}


def outline_change(arguments: dict) -> dict:
    """Either `slides`, or `text` as an outline: a line at the margin is a title, indented or dashed ones its text."""
    if ('slides' in arguments) == ('text' in arguments):
        raise versioned.invalid('slides', 'given, or text with an outline: one of the two')
    if 'slides' in arguments:
        return {'slides': checked_slides(arguments['slides'])}
    return {'slides': checked_slides(outline_slides(checked_text('text', arguments['text'], TEXT_BYTES)))}


def outline_slides(outline: str) -> List[dict]:
    slides: List[dict] = []
    for line in outline.split('\n'):
        if not line.strip():
            continue
        if slides and line.startswith((' ', '\t', '-', '*')):
            slides[-1]['text'] += ('\n' if slides[-1]['text'] else '') + line.strip()
        else:
            slides.append({'title': line.strip(), 'text': ''})
    return slides


def slide_set_change(arguments: dict) -> dict:
    position = arguments.get('position')
    versioned.check_integer('position', position, 0, 2 ** 31)
    return {'position': position, **slide_change(arguments)}


def range_change(arguments: dict) -> dict:
    """A rectangle of cells from (start_row, start_col). null empties a cell."""
    values = arguments.get('values')
    if not isinstance(values, list) or not all(isinstance(row, list) for row in values):
        raise versioned.invalid('values', 'a list of rows, each a list of cells')
    cols = len(values[0]) if values else 0
    if any(len(row) != cols for row in values):
        raise versioned.invalid('values', 'rows of one length')
    start_row, start_col = arguments.get('start_row'), arguments.get('start_col')
    require_range(start_row, start_col, len(values), cols, ('values', 'values'))
    for row in values:
        for value in row:
            require_cell(value)
    return {'start_row': start_row, 'start_col': start_col, 'values': values}


def require_range(start_row: int, start_col: int, rows: int, cols: int, fields: Tuple[str, str]) -> None:
    """At most 100 x 100 cells, inside the sheet. `fields` are the arguments that gave the size."""
    versioned.check_integer('start_row', start_row, 0, SHEET_ROWS - 1)
    versioned.check_integer('start_col', start_col, 0, SHEET_COLS - 1)
    for field, size, most in zip(fields, (rows, cols), (RANGE_ROWS, RANGE_COLS)):
        if type(size) is not int or not 1 <= size <= most:
            raise versioned.invalid(field, f'1 to {most}: a range is at most {RANGE_ROWS} rows by {RANGE_COLS} columns')
    if start_row + rows > SHEET_ROWS or start_col + cols > SHEET_COLS:
        raise versioned.invalid('start_row', f'inside the sheet of {SHEET_ROWS} rows by {SHEET_COLS} columns')


def require_cell(value: Any) -> None:
    if value is None or value is True or value is False:
        return
    if isinstance(value, str) and len(value) <= CELL_CHARS and versioned.is_text(value):
        return
    if type(value) is int and -2 ** 63 <= value < 2 ** 63 or type(value) is float and math.isfinite(value):
        return
    raise versioned.invalid('values', f'cells of text (up to {CELL_CHARS} characters), numbers (64 bits), '
                            'true, false or null')


def data_change(arguments: dict) -> dict:
    """The whole data of a content tab: any JSON object up to the size of a text."""
    values = arguments.get('values')
    if not isinstance(values, dict):
        raise versioned.invalid('values', 'an object with the whole data of the tab')
    try:
        checked_text('values', json.dumps(values, ensure_ascii=False, allow_nan=False), TEXT_BYTES)
    except (ValueError, RecursionError):
        raise versioned.invalid('values', 'an object of plain JSON: finite numbers, not nested too deep') from None
    return {'values': values}


def checked_text(field: str, text: Any, most_bytes: int) -> str:
    if not isinstance(text, str) or not versioned.is_text(text) or len(text.encode('utf-8')) > most_bytes:
        raise versioned.invalid(field, f'text of at most {most_bytes:,} UTF-8 bytes, without NUL and lone surrogates')
    return text


def checked_label(field: str, label: Any) -> str:
    """One visible line. Control characters would forge a second line wherever a label is listed."""
    if not isinstance(label, str) or not label.strip() or len(label) > LABEL_CHARS or not versioned.is_text(label) \
            or any(ord(char) < 32 or 127 <= ord(char) < 160 or char in '\u2028\u2029' for char in label):
        raise versioned.invalid(field, f'one line of 1 to {LABEL_CHARS} characters')
    return label


def checked_slides(slides: Any) -> List[dict]:
    if not isinstance(slides, list) or not 1 <= len(slides) <= SLIDES_A_CALL:
        raise versioned.invalid('slides', f'a list of 1 to {SLIDES_A_CALL} slides')
    checked = []
    for slide in slides:
        if not isinstance(slide, dict) or not {'title'} <= set(slide) <= {'title', 'text'}:
            raise versioned.invalid('slides', 'objects with a title, and text if you like')
        checked.append({'title': checked_label('slides.title', slide['title']),
                        'text': checked_text('slides.text', slide.get('text', ''), SLIDE_BYTES)})
    return checked


# operation -> the content arguments it takes, and their check
CHANGES: Dict[str, Tuple[Tuple[str, ...], Callable[[dict], dict]]] = {
    'replace_text': (('text',), text_change),
    'slide_add': (('slides',), slide_change),
    'slides_add_outline': (('slides', 'text'), outline_change),
    'slide_set': (('position', 'slides'), slide_set_change),
    'sheet_set_range': (('start_row', 'start_col', 'values'), range_change),
    'replace_tab_data': (('values',), data_change),
}


def apply_change(tx: Tx, tab: Tab, operation: str, change: dict) -> None:
    """Write a checked change to the tab's own rows, and to no others."""
    if operation == 'sheet_set_range':
        write_cells(tx, tab, change)
    elif operation == 'slide_set':
        rewrite_slide(tx, tab.tab_id, change['position'], change['slides'][0])
    elif 'slides' in change:
        append_slides(tx, tab.tab_id, change['slides'])
    else:
        text = change['text'] if operation == 'replace_text' else json.dumps(change['values'], ensure_ascii=False)
        tx.execute('INSERT INTO note_texts VALUES (?, ?) ON CONFLICT (tab_id) DO UPDATE SET text = excluded.text',
                   (tab.tab_id, text))


def append_slides(tx: Tx, tab_id: str, slides: Sequence[dict]) -> None:
    there = tx.execute('SELECT COUNT(*) FROM note_slides WHERE tab_id = ?', (tab_id,)).fetchone()[0]
    if there + len(slides) > SLIDES_A_TAB:
        raise versioned.invalid('slides', f'no more than {SLIDES_A_TAB:,} in one tab: it has {there:,}')
    tx.executemany('INSERT INTO note_slides VALUES (?, ?, ?, ?)',
                   [(tab_id, there + place, slide['title'], slide['text']) for place, slide in enumerate(slides)])


def rewrite_slide(tx: Tx, tab_id: str, position: int, slide: dict) -> None:
    found = tx.execute('UPDATE note_slides SET title = ?, text = ? WHERE tab_id = ? AND position = ?',
                       (slide['title'], slide['text'], tab_id, position)).rowcount
    if not found:
        raise versioned.invalid('position', 'that of a slide in this tab')


def write_cells(tx: Tx, tab: Tab, change: dict) -> None:
    """Only the blocks that the rectangle touches are read and written."""
    start_row, start_col, values = change['start_row'], change['start_col'], change['values']
    for row, line in enumerate(values, start_row):
        for block in range(start_col // BLOCK_COLS, (start_col + len(line) - 1) // BLOCK_COLS + 1):
            cells = read_blocks(tx, tab.tab_id, row, block, block)
            first = max(start_col, block * BLOCK_COLS)
            piece = line[first - start_col:(block + 1) * BLOCK_COLS - start_col]
            cells[first % BLOCK_COLS:first % BLOCK_COLS + len(piece)] = piece
            write_block(tx, tab.tab_id, row, block, cells)
    tx.execute('UPDATE note_tabs SET row_count = max(row_count, ?), col_count = max(col_count, ?) WHERE tab_id = ?',
               (start_row + len(values), start_col + len(values[0]), tab.tab_id))


def write_block(tx: Tx, tab_id: str, row: int, block: int, cells: list) -> None:
    while cells and cells[-1] is None:
        cells.pop()
    if cells:
        tx.execute('INSERT INTO note_cells VALUES (?, ?, ?, ?) '
                   'ON CONFLICT (tab_id, row, block) DO UPDATE SET cells = excluded.cells',
                   (tab_id, row, block, json.dumps(cells, ensure_ascii=False, separators=(',', ':'))))
    else:
        tx.execute('DELETE FROM note_cells WHERE tab_id = ? AND row = ? AND block = ?', (tab_id, row, block))


def read_blocks(tx: Tx, tab_id: str, row: int, first: int, last: int) -> list:
    """The cells of blocks `first` to `last` of one row, null where a cell is empty."""
    line = [None] * ((last - first + 1) * BLOCK_COLS)
    for block, text in tx.execute('SELECT block, cells FROM note_cells WHERE tab_id = ? AND row = ? '
                                  'AND block BETWEEN ? AND ?', (tab_id, row, first, last)):
        cells = json.loads(text)
        at = (block - first) * BLOCK_COLS
        line[at:at + len(cells)] = cells
    return line


def read_cells(tx: Tx, tab_id: str, start_row: int, start_col: int, rows: int, cols: int) -> List[list]:
    """The rectangle as rows of values. One descent into the index a row: one SELECT for all rows would walk every block
    of each row, twenty times the cells at 1,000 columns."""
    first, last = start_col // BLOCK_COLS, (start_col + cols - 1) // BLOCK_COLS
    offset, values, size_chars = start_col - first * BLOCK_COLS, [], 0
    for row in range(start_row, start_row + rows):
        line = read_blocks(tx, tab_id, row, first, last)[offset:offset + cols]
        size_chars += sum([len(cell) for cell in line if type(cell) is str])
        if size_chars > RANGE_CHARS:
            raise versioned.invalid('row_count', f'smaller here: these cells hold over {RANGE_CHARS:,} characters')
        values.append(line)
    return values


def read_content(tx: Tx, tab: Tab) -> dict:
    """The text, the slides, the data. Of a sheet its size only: read_sheet_range has cells."""
    if tab.tab_type == 'sheet':
        return {'row_count': tab.row_count, 'col_count': tab.col_count}
    if tab.tab_type == 'slides':
        rows = tx.execute('SELECT title, text FROM note_slides WHERE tab_id = ? ORDER BY position', (tab.tab_id,))
        return {'slides': [{'title': title, 'text': text} for title, text in rows]}
    row = tx.execute('SELECT text FROM note_texts WHERE tab_id = ?', (tab.tab_id,)).fetchone()
    if tab.tab_type in TEXT_KINDS:
        return {'text': row[0] if row else ''}
    return {'values': json.loads(row[0]) if row else {}}
