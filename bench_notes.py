"""bench_notes.py - what a range of a sheet and an edit of a tab cost, in small Notes and in large ones.

Article 5, "Un'esecuzione reale" (a range is read, not the workbook) and "Chi fa cosa" (an edit names one tab). The
article measures nothing here; the table is our promise: a 100 x 100 range must not cost the whole sheet, an edit must
not write the Note again, memory stays flat. Beside it the simplest storage, the whole Note as one JSON text.

    python3 bench.py notes                 Notes of 1, 100 and 1,000 tabs, a sheet of 1,000 x 1,000: about 20 s
    python3 bench.py notes --json          the table for programs

Two things that are compared are timed in turn, in one run, each answer checked, and the median of the rounds' ratios
is judged. Syncing to disk is switched off: it costs every edit the same and would hide what differs.
Not here: the store (note_store.py, note_tabs.py), the access check (bench_access.py).
"""
import contextlib
import itertools
import json
import os
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence

import ending
import note_store
import note_tabs
import published
import published_notes
import versioned
from published import Figures
from versioned import Database

# --- data ---------------------------------------------------------------------

NOTES = {'one': 1, 'hundred': 100, 'thousand': 1_000}      # Note -> its text tabs
TEXT = 'a line of a brief that somebody wrote\n' * 50        # 1,900 characters a tab
SIDES = {'small': 100, 'large': 1_000}                      # sheet Note -> rows and columns
ROUNDS, SLOW_ROUNDS = 200, 7                                # of what takes microseconds, of what takes a second
WARM_UP, RANGES = 200, 2_000                                # reads before memory is looked at, and between the looks
ACTOR = 'connection:bench'
JSON_NOTE = 'CREATE TABLE IF NOT EXISTS json_notes (note_id TEXT PRIMARY KEY, version INTEGER, body TEXT)'


class Bench(NamedTuple):
    db: Database
    tabs: Dict[str, str]                                    # Note -> the tab that is read and edited
    numbers: Iterator[int]                                  # for idempotency keys and fresh content


# --- rules --------------------------------------------------------------------

def fill_texts(bench: Bench, note_id: str, count: int) -> None:
    tabs = [{'tab_type': 'note', 'label': f'tab {number}', 'text': TEXT} for number in range(count)]
    with bench.db.write() as tx:
        note_store.create_note(tx, ACTOR, note_id, note_id, tabs, 1)
        listed = note_store.list_note_tabs(tx, ACTOR, {'note_id': note_id}, 1)['tabs']
    bench.tabs[note_id] = listed[count // 2]['tab_id']


def fill_sheet(bench: Bench, note_id: str, side: int) -> None:
    with bench.db.write() as tx:
        note_store.create_note(tx, ACTOR, note_id, note_id, [{'tab_type': 'sheet', 'label': 'Owners'}], 1)
        bench.tabs[note_id] = note_store.list_note_tabs(tx, ACTOR, {'note_id': note_id}, 1)['tabs'][0]['tab_id']
        for row, col in itertools.product(range(0, side, 100), repeat=2):
            values = [[cell(r, c) for c in range(col, col + 100)] for r in range(row, row + 100)]
            base_us = note_store.note_head(tx, note_id)[1]
            note_store.edit(tx, ACTOR, set_range(bench, note_id, row, col, values), base_us, 1, note_tabs.FITS)


def cell(row: int, col: int) -> str:
    return f'{row}:{col}'


def set_range(bench: Bench, note_id: str, row: int, col: int, values: List[list]) -> dict:
    return {'note_id': note_id, 'tab_id': bench.tabs[note_id], 'operation': 'sheet_set_range', 'start_row': row,
            'start_col': col, 'values': values}


def read_range(bench: Bench, note_id: str) -> None:
    """100 x 100 from the middle, as read_sheet_range gives it."""
    start = SIDES[note_id] // 2 if SIDES[note_id] > 100 else 0
    call = {'note_id': note_id, 'tab_id': bench.tabs[note_id], 'start_row': start, 'start_col': start,
            'row_count': 100, 'col_count': 100}
    with bench.db.read() as tx:
        values = note_store.read_sheet_range(tx, ACTOR, call, 1)['values']
    if values[99][99] != cell(start + 99, start + 99):
        raise AssertionError('the range is not the one that was asked for')


def edit(bench: Bench, note_id: str, content: dict) -> None:
    """One whole write as a tool makes it: replay looked up, version compared, history, event, answer stored."""
    with bench.db.write() as tx:
        version = versioned.stamp_text(note_store.note_head(tx, note_id)[1])
        call = {**content, 'note_id': note_id, 'tab_id': bench.tabs[note_id], 'expected_version': version,
                'idempotency_key': f'key-{next(bench.numbers):09}'}
        note_store.edit_note_tab(tx, ACTOR, call, 1)


def edit_text(bench: Bench, note_id: str) -> None:
    edit(bench, note_id, {'operation': 'replace_text', 'text': f'{next(bench.numbers)}\n{TEXT}'})


def edit_cell(bench: Bench, note_id: str) -> None:
    edit(bench, note_id, set_range(bench, note_id, 0, 0, [[cell(0, 0)]]))


def json_range(bench: Bench) -> None:
    """The alternative: the Note is one JSON text, so a range parses all of it."""
    with bench.db.read() as tx:
        sheet = json.loads(tx.execute("SELECT body FROM json_notes WHERE note_id = 'large'").fetchone()[0])
    values = [row[500:600] for row in sheet[500:600]]
    if values[99][99] != cell(599, 599):
        raise AssertionError('the range is not the one that was asked for')


def json_edit(bench: Bench) -> None:
    with bench.db.write() as tx:
        sheet = json.loads(tx.execute("SELECT body FROM json_notes WHERE note_id = 'large'").fetchone()[0])
        sheet[0][0] = cell(0, 0)
        tx.execute("UPDATE json_notes SET version = version + 1, body = ? WHERE note_id = 'large'",
                   (json.dumps(sheet),))


def in_turn(rounds: int, works: Dict[str, Callable[[], None]]) -> Dict[str, List[float]]:
    """Seconds of each in every round, timed one right after the other, every other round the other way about."""
    taken: Dict[str, List[float]] = {name: [] for name in works}
    for number in range(rounds + 2):                        # the first two rounds only warm up
        for name in list(works)[::1 if number % 2 else -1]:
            started = time.perf_counter()
            works[name]()
            if number >= 2:
                taken[name].append(time.perf_counter() - started)
    return taken


def ms(seconds: List[float]) -> str:
    return f'{statistics.median(seconds) * 1e3:.3g} ms'


def ratio(taken: Dict[str, List[float]], slow: str, fast: str) -> float:
    """The median of the rounds' own ratios: a machine that gets busy meets both halves of a round."""
    return statistics.median([one / other for one, other in zip(taken[slow], taken[fast])])


# --- I/O ----------------------------------------------------------------------

@contextlib.contextmanager
def opened() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder:
        db = Database(os.path.join(folder, 'notes.db'), [note_store.SCHEMA, JSON_NOTE + ';\n'], synchronous='OFF')
        with contextlib.closing(db):
            bench = Bench(db, {}, itertools.count())
            for note_id, count in NOTES.items():
                published.progress(f'a Note of {count} tabs')
                fill_texts(bench, note_id, count)
            for note_id, side in SIDES.items():
                published.progress(f'a sheet of {side} x {side}')
                fill_sheet(bench, note_id, side)
            yield bench
            published.progress('')


def bytes_written(bench: Bench, note_id: str) -> float:
    """What 50 edits add to the write-ahead log, an edit: every page that an edit touched."""
    with contextlib.closing(sqlite3.connect(bench.db.path)) as other:
        other.execute('PRAGMA wal_checkpoint(TRUNCATE)')
    for _ in range(50):
        edit_text(bench, note_id)
    return os.path.getsize(bench.db.path + '-wal') / 50


def memory_kib() -> int:
    """What this process holds now; where that cannot be asked, the most it ever held."""
    try:
        with open('/proc/self/statm', encoding='ascii') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') // 1024
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // 1024 if sys.platform == 'darwin' else peak


def measure(bench: Bench, say: Callable[[str], None]) -> Figures:
    found: Figures = {}
    texts = in_turn(ROUNDS, {note: (lambda note=note: edit_text(bench, note)) for note in NOTES})
    lists = in_turn(SLOW_ROUNDS, {note: (lambda note=note: list_tabs(bench, note)) for note in NOTES})
    for note, count in NOTES.items():
        say(f'Note of {count:>5,} tabs: edit of one {ms(texts[note])}, list_note_tabs {ms(lists[note])}')
    found['edit of one tab', 'Note of 1,000 tabs against 1 tab'] = ratio(texts, 'thousand', 'one')
    found['edit of one tab', 'bytes to disk, 1,000 tabs against 1 tab'] = (
        bytes_written(bench, 'thousand') / bytes_written(bench, 'one'))
    cells = in_turn(ROUNDS, {side: (lambda side=side: edit_cell(bench, side)) for side in SIDES})
    ranges = in_turn(ROUNDS, {side: (lambda side=side: read_range(bench, side)) for side in SIDES})
    for note, side in SIDES.items():
        say(f'sheet of {side:,} x {side:,}: 100 x 100 cells {ms(ranges[note])}, edit of a cell {ms(cells[note])}')
    found['edit of one cell', 'sheet of 1,000 x 1,000 against 100 x 100'] = ratio(cells, 'large', 'small')
    found['range of 100 x 100', 'sheet of 1,000 x 1,000 against 100 x 100'] = ratio(ranges, 'large', 'small')
    found['2,000 ranges', 'growth of memory'] = memory_growth(bench)
    return {**found, **against_json(bench, say)}


def list_tabs(bench: Bench, note_id: str) -> None:
    with bench.db.read() as tx:
        if len(note_store.list_note_tabs(tx, ACTOR, {'note_id': note_id}, 1)['tabs']) != NOTES[note_id]:
            raise AssertionError('not every tab was listed')


def memory_growth(bench: Bench) -> int:
    for _ in range(WARM_UP):
        read_range(bench, 'large')
    before = memory_kib()
    for number in range(RANGES):
        if number % 100 == 0:
            published.progress(f'{number:,} of {RANGES:,} ranges read')
        read_range(bench, 'large')
    return max(0, memory_kib() - before)


def against_json(bench: Bench, say: Callable[[str], None]) -> Figures:
    published.progress('beside the Note as one JSON text')
    body = json.dumps([[cell(row, col) for col in range(SIDES['large'])] for row in range(SIDES['large'])])
    with bench.db.write() as tx:
        tx.execute("INSERT INTO json_notes VALUES ('large', 1, ?)", (body,))
    ranges = in_turn(SLOW_ROUNDS, {'json': lambda: json_range(bench), 'ours': lambda: read_range(bench, 'large')})
    edits = in_turn(SLOW_ROUNDS, {'json': lambda: json_edit(bench), 'ours': lambda: edit_cell(bench, 'large')})
    say(f'the Note as one JSON text of {len(body) / 1e6:.1f} MB: 100 x 100 cells {ms(ranges["json"])}, '
        f'edit of a cell {ms(edits["json"])}')
    return {('range of 100 x 100', 'against the Note as one JSON text'): ratio(ranges, 'json', 'ours'),
            ('edit of one cell', 'against the Note as one JSON text'): ratio(edits, 'json', 'ours')}


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py notes', __doc__)
    options = parser.parse_args(argv)
    with opened() as bench:
        figures = measure(bench, lambda text: published.note(text, options.json))
    return published.report('bench.py notes', [published.compare(published_notes.COSTS, figures)], options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
