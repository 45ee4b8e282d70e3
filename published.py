"""published.py - every figure that the articles print, beside ours.

All articles. Here are the records, the judge and the printer; the figures themselves stand in one file an article:
published_kb.py (1), published_cache.py (2), published_codex.py (3), published_proposals.py (4), published_notes.py (5),
published_project.py (6), published_access.py (7). A program measures, hands its figures to `compare`, and ends with
`report`: a table for people, or one JSON object for programs, and exit status 1 when a cell that must hold does not.

    python3 published.py        every table that the articles print, and how each is judged; also --json

Not here: any measurement.
"""
import argparse
import importlib
import json
import os
import platform
import sys
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import ending

# --- data ---------------------------------------------------------------------

ARTICLES = ('published_kb', 'published_cache', 'published_codex', 'published_proposals', 'published_notes',
            'published_project', 'published_access')          # each holds TABLES
JUDGED = {
    'exact': 'equal to the article',                          # transcripts, counts that follow from the design
    'range': 'between low and high',                          # a random quantity, with the range of the model
    'ratio': 'a ratio between low and high',                  # cost against cost, in one run
    'order': 'a timing on the right side of another one',     # low or high is that other timing, as measured here
    'shown': 'measured here, and nothing is asked of it',     # a rival's figure, a machine's own milliseconds
    'not run here': 'needs what this machine has not',        # the reason says what
}
Value = Union[int, float, str, None]
Place = Tuple[str, str]                                       # (row, column)


class Cell(NamedTuple):
    """One published figure. Percent as 15.8, KiB as 3342. `published` is None in a row that only we have."""
    row: str
    column: str
    published: Value
    judged: str = 'exact'
    unit: str = ''
    low: Optional[float] = None
    high: Optional[float] = None
    of: Optional[int] = None                                  # "0 / 100" is the count 0 of 100
    reason: Optional[str] = None


class Table(NamedTuple):
    article: int
    name: str
    cells: Sequence[Cell]


class Figure(NamedTuple):
    """What a program measured for one cell; bounds that only the run knows go before the cell's own."""
    here: Value
    low: Optional[float] = None
    high: Optional[float] = None
    reason: Optional[str] = None


Figures = Dict[Place, Union[Figure, Value]]                    # of one table: what happened here


class Command(NamedTuple):
    """A word after a program's name: bench.py KB. `alone`: its arguments in the run without a word; None: left out."""
    main: Callable[[Sequence[str]], int]
    said: str                                                 # for --help: what, which article, how many seconds
    alone: Optional[Sequence[str]] = None


EXIT_STATUS = 'Exit status: 0 every figure that must hold does, 1 one does not, 2 usage.'

# --- rules --------------------------------------------------------------------

def compare(table: Table, figures: Figures) -> dict:
    """The table as `--json` prints it. Every cell that is run here needs its figure: a missing one is our bug."""
    unknown = set(figures) - {(cell.row, cell.column) for cell in table.cells}
    if unknown:
        raise KeyError(f'{table.name}: figures for no cell: {sorted(unknown)}')
    return {'article': table.article, 'table': table.name,
            'cells': [judge(cell, figures.get((cell.row, cell.column))) for cell in table.cells]}


def judge(cell: Cell, figure: Union[Figure, Value]) -> dict:
    """One cell beside ours: `holds` is True, False, or None for what is shown or not run here."""
    if not isinstance(figure, Figure):
        figure = Figure(figure)
    low = cell.low if figure.low is None else figure.low
    high = cell.high if figure.high is None else figure.high
    if cell.judged == 'shown':                                # a bound that judges nothing is not printed either
        low = high = None
    judged = {'row': cell.row, 'column': cell.column, 'unit': cell.unit,
              'published': cell.published, 'here': figure.here,
              'low': low, 'high': high, 'judged': cell.judged,
              'holds': holds(cell, figure.here, low, high), 'reason': figure.reason or cell.reason}
    return judged if cell.of is None else {**judged, 'of': cell.of}


def holds(cell: Cell, here: Value, low: Optional[float], high: Optional[float]) -> Optional[bool]:
    if cell.judged not in JUDGED:
        raise ValueError(f'{cell.row}, {cell.column}: {cell.judged!r} is no way to judge a figure')
    if cell.judged == 'not run here':
        return None
    if here is None:
        raise KeyError(f'no figure for {cell.row}, {cell.column}')
    if cell.judged == 'shown':
        return None
    if cell.judged == 'exact':
        return here == cell.published
    if high is None and (low is None or low <= 0):        # all our figures are counts, sizes and times
        raise ValueError(f'{cell.row}, {cell.column}: judged by {cell.judged}, but nothing can fail it')
    return (low is None or low <= here) and (high is None or here <= high)


def count(tables: Sequence[dict]) -> Tuple[int, int]:
    """(cells that hold, cells that must)."""
    verdicts = [cell['holds'] for table in tables for cell in table['cells'] if cell['holds'] is not None]
    return sum(verdicts), len(verdicts)


def number(value: Value, like: Value = None) -> str:
    """A figure as people read it: thousands apart, decimals as the article prints them."""
    if value is None:
        return '-'
    if isinstance(value, float):
        decimals = len(repr(like).partition('.')[2]) if isinstance(like, float) else 1 if abs(value) >= 100 else 3
        return f'{value:,.{decimals}f}'
    return f'{value:,}' if type(value) is int else str(value)


def table_lines(table: dict) -> List[str]:
    """The table in columns: row, column, article, here, what it must be, holds."""
    rows, previous = [('', '', 'article', 'here', 'must be', 'holds')], None
    for cell in table['cells']:
        rows.append(('' if cell['row'] == previous else cell['row'], *cell_texts(cell)))
        previous = cell['row']
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ['  ' + '  '.join((row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].rjust(widths[2]),
                               row[3].rjust(widths[3]), row[4].ljust(widths[4]), row[5])).rstrip() for row in rows]
    reasons = [f'    {cell["row"]}, {cell["column"]}: {cell["reason"]}' for cell in table['cells'] if cell['reason']]
    return [f'article {table["article"]}: {table["table"]}', *lines, *reasons]


def cell_texts(cell: dict) -> Tuple[str, str, str, str, str]:
    low, high, like = cell['low'], cell['high'], cell['published']
    like = 0.1 if like is None and cell['unit'] == '%' else like
    unit = f' {cell["unit"]}' if cell['unit'] else ''
    of = f' / {cell["of"]:,}' if 'of' in cell else ''
    must = 'equal' if cell['judged'] == 'exact' else cell['judged'] if cell['holds'] is None else None
    if must is None:
        must = (f'{number(low, like)} to {number(high, like)}' if low is not None and high is not None
                else f'at least {number(low, like)}' if high is None else f'at most {number(high, like)}')
    published = '-' if cell['published'] is None else number(like, like) + of + unit
    here = '-' if cell['here'] is None else number(cell['here'], like) + of + unit
    return cell['column'], published, here, must, {True: 'yes', False: 'NO', None: '-'}[cell['holds']]


def parser(program: str, header: Optional[str]) -> argparse.ArgumentParser:
    """A program's options; its --help is the header of its page."""
    made = argparse.ArgumentParser(prog=program, description=header, epilog=EXIT_STATUS, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('--json', action='store_true', help='one JSON object instead of tables')
    return made


def misused(program: str, said: str) -> str:
    """One line for standard error: what is wrong, and where the rest is told."""
    return f'{program}: {said}; python3 {program} --help says more'


def help_text(header: Optional[str], commands: Dict[str, Command]) -> str:
    width = max(map(len, commands))
    return f'{header}\n' + '\n'.join(f'  {name:<{width}}  {command.said}' for name, command in commands.items())


# --- I/O ----------------------------------------------------------------------

def dispatch(program: str, header: Optional[str], commands: Dict[str, Command], argv: Sequence[str]) -> int:
    """One command, or without arguments one after the other; the worst exit status of them."""
    if argv and argv[0] in commands:
        return commands[argv[0]].main(argv[1:])
    if argv and argv[0] in ('-h', '--help'):
        print(help_text(header, commands))
        return 0
    if argv:
        option = argv[0].startswith('-')
        wrong = 'belongs after a command' if option else f'is no command, these are: {", ".join(commands)}'
        print(misused(program, f'{argv[0]!r} {wrong}'), file=sys.stderr)
        return 2
    worst = 0
    for name, command in commands.items():
        if command.alone is not None:
            print(' '.join(['--- python3', program, name, *command.alone]) + '\n', flush=True)
            worst = max(worst, command.main(command.alone))
            print(flush=True)
    return worst


def report(program: str, tables: Sequence[dict], as_json: bool = False) -> int:
    """Print the tables and return the exit status: 0 when every cell that must hold does, else 1."""
    held, must = count(tables)
    if as_json:
        print(json.dumps({'program': program, 'python': platform.python_version(), 'tables': list(tables),
                          'holds': held, 'of': must}))
    else:
        for table in tables:
            print('\n'.join(table_lines(table)), end='\n\n')
        print(f'{program}: {held} of {must} figures hold')
    return 0 if held == must else 1


def progress(text: str) -> None:
    """A line on standard error that rewrites itself, for a person only; progress('') takes it away."""
    if sys.stderr.isatty():
        sys.stderr.write('\r\x1b[K' + text)
        sys.stderr.flush()


def note(text: str, as_json: bool) -> None:
    """A sentence beside the tables: standard output belongs to the JSON object alone when there is one."""
    print(text, file=sys.stderr if as_json else sys.stdout)


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    options = parser('published.py', __doc__).parse_args(argv)
    here = os.path.dirname(os.path.abspath(__file__))
    names = [name for name in ARTICLES if os.path.exists(os.path.join(here, name + '.py'))]
    tables = [table for name in names for table in importlib.import_module(name).TABLES]
    if options.json:
        print(json.dumps({'program': 'published.py', 'python': platform.python_version(), 'tables': [
            {'article': table.article, 'table': table.name, 'cells': [cell._asdict() for cell in table.cells]}
            for table in tables]}))
        return 0
    for table in tables:
        print(f'article {table.article}: {table.name}')
        for cell in table.cells:
            figure = f'{number(cell.published, cell.published)} {cell.unit}'.rstrip()
            print(f'  {cell.row}, {cell.column}: {figure}  [{cell.judged}]')
    return 0


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
