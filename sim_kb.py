"""sim_kb.py - article 1's support day beside the published tables, with the range in which five such days scatter.

Article 1, from "La ricostruzione" to "Cosa succede quando Claude modifica": how fast citations go stale, what three
ways of checking them cost, what an edit with a citation's version meets. Each of five days is played three times
through the store (checks, control, edits); a range is mean +- 2.576 standard deviations over groups of five modelled
days.

    python3 sim.py kb                       every table (7 s)
    python3 sim.py kb --saves 1000          another day: our figures alone, inside the ranges of the model
    python3 sim.py kb --svg DIR             the pictures too (sim_pictures.py)
    also: --seeds 1-5 --articles 400 --questions 120 --hours 8 --zipf 0.9 --groups 200 --json

Not here: the day (sim_model.py), its play through the store (sim_store.py), the formulas (sim_closed.py), growth
(sim_growth.py), how figures are judged (published.py).
"""
import argparse
import math
import re
import statistics
import sys
import tempfile
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import ending
import published
import published_kb
import sim_model
import sim_store
from published import Cell, Figure, Place, Table
from sim_model import Counts, Day, Settings

# --- data ---------------------------------------------------------------------

Key = Tuple[str, str, str]                                      # (table, row, column)
Figures = Dict[Key, float]
DERIVED = ('stale of the citations', 'the same of the answers', 'of the edits', 'calls a check', 'returned a check',
           'of the stale citations', 'in all')                  # a figure that stands there already, in another unit
WAYS = (('search', 'search every cited title again'), ('read', 'read every cited article again'),
        ('poll', 'poll_resource_events from a cursor'))
MOST = 90_000                                                   # articles, saves, questions: six digits in every text


class Plays(NamedTuple):
    """The counts of some days, added up: with checks, the control, with edits; and what was drawn."""
    checks: Counts
    control: Counts
    edits: Counts
    drawn: Counts


class Spread(NamedTuple):
    """How a figure scatters from one group of days to the next."""
    mean: float
    deviation: float

    def bounds(self, sigmas: float) -> Tuple[float, float]:
        return self.mean - sigmas * self.deviation, self.mean + sigmas * self.deviation


# --- rules --------------------------------------------------------------------

def share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def drawn(day: Day) -> Counts:
    top = [[each.article for each in drawn_ones if each.article < 10] for drawn_ones in (day.questions, day.saves)]
    return {'days': 1, 'checks': day.settings.hours, 'top questions': len(top[0]), 'questions': len(day.questions),
            'top saves': len(top[1]), 'saves': len(day.saves)}


def play_model(settings: Settings, seeds: Sequence[int]) -> Plays:
    days = [sim_model.draw_day(seed, settings) for seed in seeds]
    return Plays(sim_model.add_up([sim_model.play_in_memory(day) for day in days]),
                 sim_model.add_up([sim_model.play_in_memory(sim_model.control(day)) for day in days]),
                 sim_model.add_up([sim_model.play_edits_in_memory(day) for day in days]),
                 sim_model.add_up([drawn(day) for day in days]))


def figures(plays: Plays, settings: Settings) -> Figures:
    """Every figure of the tables, unrounded, by (table, row, column)."""
    hours = sorted({hour for hour in published_kb.HOURS if hour <= settings.hours} | {settings.hours})
    stale = [cell for hour in hours for cell in stale_figures(plays.checks, hour)]
    by_table = {published_kb.DAY.name: day_figures(plays.drawn, settings),
                published_kb.STALE.name: dict(stale),
                published_kb.SPREAD.name: dict(control_figures(plays.control, settings.hours)),
                published_kb.BY_TITLE.name: {(f'hour {settings.hours}', 'of the stale citations'): share(
                    plays.checks[f'by title {settings.hours}'], plays.checks[f'stale {settings.hours}'])},
                published_kb.COSTS.name: dict(cost_figures(plays.checks, plays.drawn['checks'])),
                published_kb.EDITS.name: dict(edit_figures(plays.edits)),
                published_kb.REPLAYS.name: replay_figures(plays.edits)}
    return {(table, *place): figure for table, found in by_table.items() for place, figure in found.items()}


def day_figures(counts: Counts, settings: Settings) -> Dict[Place, float]:
    formula = 100 * math.fsum(sim_model.popularity(settings)[:10])
    return {('by the formula', 'of the questions'): formula, ('by the formula', 'of the saves'): formula,
            ('as drawn', 'of the questions'): share(counts['top questions'], counts['questions']),
            ('as drawn', 'of the saves'): share(counts['top saves'], counts['saves'])}


def stale_figures(counts: Counts, hour: int) -> Iterator[Tuple[Place, float]]:
    row, citations = f'hour {hour}', counts[f'citations {hour}']
    yield (row, 'citations'), citations
    yield (row, 'stale'), counts[f'stale {hour}']
    yield (row, 'stale of the citations'), share(counts[f'stale {hour}'], citations)
    yield (row, 'answers with a stale citation'), share(counts[f'answers stale {hour}'], counts[f'answers {hour}'])
    yield (row, 'by title alone'), counts[f'by title {hour}']
    yield (row, 'stale, each citation counted'), counts[f'stale each {hour}']
    yield (row, 'the same of the citations'), share(counts[f'stale each {hour}'], citations)


def control_figures(counts: Counts, hour: int) -> Iterator[Tuple[Place, float]]:
    row, answers = f'hour {hour}', counts[f'answers {hour}']
    for place, figure in stale_figures(counts, hour):
        if place[1] not in ('answers with a stale citation', 'by title alone'):
            yield place, figure
    yield (row, 'answers'), answers
    yield (row, 'answers with a stale citation'), counts[f'answers stale {hour}']
    yield (row, 'the same of the answers'), share(counts[f'answers stale {hour}'], answers)


def cost_figures(counts: Counts, checks: int) -> Iterator[Tuple[Place, float]]:
    for way, row in WAYS:
        calls, kib = counts.get(f'{way} calls', 0), counts.get(f'{way} bytes', 0) / 1024
        yield (row, 'calls'), calls
        yield (row, 'returned'), kib
        yield (row, 'calls a check'), calls / checks
        yield (row, 'returned a check'), kib / checks
    yield ('all three', 'checks'), checks


def edit_figures(counts: Counts) -> Iterator[Tuple[Place, float]]:
    for row, delay_s, *_ in published_kb.EDIT_ROWS:
        saved, changed, gone = (counts.get(f'{outcome} {delay_s}', 0) for outcome in ('saved', 'changed', 'gone'))
        yield (row, 'edits'), saved + changed + gone
        yield (row, 'refused, version changed'), changed
        yield (row, 'of the edits'), share(changed, saved + changed + gone)
        yield (row, 'refused, no longer published'), gone
    yield ('all delays', 'refused again after a new read'), counts.get('refused again', 0)


def replay_figures(counts: Counts) -> Dict[Place, float]:
    totals = {outcome: sum(counts.get(f'{outcome} {delay_s}', 0) for delay_s in sim_model.DELAYS_S)
              for outcome in ('saved', 'changed', 'gone')}
    row = 'the same call with the same key'
    return {(row, 'sent'): totals['saved'], (row, 'not the first answer, marked'): counts.get('not replayed', 0),
            (row, 'events written'): counts.get('replay events', 0),
            ('delayed edits', 'in all'): sum(totals.values()), ('delayed edits', 'no longer published'): totals['gone']}


# The ranges, and the published figures against them.

def spread(groups: Sequence[Figures]) -> Dict[Key, Spread]:
    """Mean and standard deviation of each figure over the groups."""
    return {key: Spread(statistics.fmean(each[key] for each in groups), statistics.stdev(each[key] for each in groups))
            for key in groups[0]}


def squares(found: Figures, spreads: Dict[Key, Spread]) -> Dict[Key, float]:
    """How many standard deviations each figure is off, squared. Left out: what is another figure in a second unit, and
    what varies by less than half of its last printed digit."""
    return {key: ((found[key] - each.mean) / each.deviation) ** 2 for key, each in spreads.items()
            if key in found and key[2] not in DERIVED and each.deviation > 0.5}


def fit(groups: Sequence[Figures], spreads: Dict[Key, Spread]) -> Dict[Place, float]:
    """The joint check. The figures hang together (a day with many saves on top has more of everything), so the sum of
    squares is compared with its own distribution among the groups, not with a chi-square."""
    printed = {(table.name, cell.row, cell.column): cell.published for table in published_kb.TABLES
               for cell in table.cells if cell.judged == 'range' and cell.published is not None}
    off = squares(printed, spreads)
    total = math.fsum(off.values())
    worse = [math.fsum(squares({key: group[key] for key in off}, spreads).values()) >= total for group in groups]
    outside_99, outside_95 = (sum(square > sigmas ** 2 for square in off.values())
                              for sigmas in (sim_model.SIGMAS_99, sim_model.SIGMAS_95))
    return {('each figure alone', 'outside its 99 % range'): outside_99,
            ('each figure alone', 'outside its 95 % range'): outside_95,
            ('all together', 'groups of days that fit worse'): share(sum(worse), len(worse))}


def tables(settings: Settings = Settings(), seeds: Sequence[int] = sim_model.SEEDS, count: int = sim_model.GROUPS,
           svg: Optional[str] = None) -> List[dict]:
    """The tables as published.py prints them; of another day than the article's, our figures in the model's ranges."""
    plays = play_store(settings, seeds)
    if svg is not None:
        import sim_pictures                                     # it draws these figures: above this page
        sim_pictures.write_pictures(svg, settings, seeds, plays.checks)
    here = figures(plays, settings)
    groups = []
    for first in range(1, 1 + count * len(seeds), len(seeds)):
        published.progress(f'ranges: seeds {first} to {first + len(seeds) - 1} in memory')
        groups.append(figures(play_model(settings, range(first, first + len(seeds))), settings))
    published.progress('')
    spreads = spread(groups)
    as_published = settings == Settings() and len(seeds) == len(sim_model.SEEDS)
    compared = [compared_table(table, here, spreads, as_published) for table in published_kb.SIMULATED]
    if as_published:
        compared.append(published.compare(published_kb.FIT, fit(groups, spreads)))
    return compared


def compared_table(table: Table, here: Figures, spreads: Dict[Key, Spread], as_published: bool) -> dict:
    cells, found = {(cell.row, cell.column): cell for cell in table.cells}, {}
    units = {cell.column: cell.unit for cell in table.cells}
    shown = []
    for name, row, column in here:
        if name == table.name:
            cell = cells.get((row, column)) if as_published else None
            shown.append(cell or Cell(row, column, None, 'range', units.get(column, '')))
            found[row, column] = figure_in_range(here[name, row, column], spreads[name, row, column], shown[-1])
    return published.compare(Table(table.article, table.name, shown), found)


def figure_in_range(value: float, each: Spread, cell: Cell) -> Figure:
    """Ours with the article's number of decimals, and the range widened to them."""
    low, high = each.bounds(sim_model.SIGMAS_99)
    if isinstance(cell.published, float) or cell.unit == '%':
        value, low, high = round(value, 1), math.floor(max(0, low) * 10 + 1e-6) / 10, math.ceil(high * 10 - 1e-6) / 10
    else:
        value, low, high = round(value), math.floor(max(0, low) + 1e-6), math.ceil(high - 1e-6)
    return Figure(value) if cell.judged == 'exact' else Figure(value, low, high)


# --- I/O ----------------------------------------------------------------------

def play_store(settings: Settings, seeds: Sequence[int]) -> Plays:
    """Each day three times through the store, in a folder that goes away with its end."""
    played: List[Sequence[Counts]] = []
    days = [sim_model.draw_day(seed, settings) for seed in seeds]
    with tempfile.TemporaryDirectory() as folder:
        for seed, day in zip(seeds, days):
            published.progress(f'seed {seed}: three days through the store')
            played.append(sim_store.play_three(folder, day))
    published.progress('')
    checks, control, edits = (sim_model.add_up(plays) for plays in zip(*played))
    return Plays(checks, control, edits, sim_model.add_up([drawn(day) for day in days]))


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = published.parser('sim.py kb', __doc__)
    parser.add_argument('--seeds', type=seed_list, default=list(sim_model.SEEDS), help='1-5, 7 or 1,3,9')
    add_settings(parser)
    parser.add_argument('--groups', type=between(2, 100_000), default=sim_model.GROUPS, help='for the ranges (200)')
    parser.add_argument('--svg', metavar='DIR', help='write the pictures there')
    return parser.parse_args(argv)


def add_settings(parser: argparse.ArgumentParser) -> None:
    usual = Settings()
    for name, least, most in (('articles', 1, MOST), ('questions', 0, MOST), ('saves', 0, MOST), ('hours', 1, 1000)):
        value = usual._asdict()[name]
        parser.add_argument(f'--{name}', type=between(least, most), default=value, help=f'{least} to {most} ({value})')
    parser.add_argument('--zipf', type=exponent, default=usual.zipf, help='0 to 10: 0 is uniform (0.9)')


def settings_of(chosen: argparse.Namespace) -> Settings:
    return Settings(*(vars(chosen)[name] for name in Settings._fields))


def between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not re.fullmatch('[0-9]{1,9}', text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f'{text!r} is no integer from {least} to {most}')
        return int(text)
    return number


def exponent(text: str) -> float:
    if not re.fullmatch(r'[0-9]{1,2}(\.[0-9]{1,6})?', text) or float(text) > 10:
        raise argparse.ArgumentTypeError(f'{text!r} is no number from 0 to 10')
    return float(text)


def seed_list(text: str) -> List[int]:
    """'1-5', '7' or '1,3,9'."""
    seeds: List[int] = []
    for part in text.split(','):
        match = re.fullmatch('([0-9]{1,9})(?:-([0-9]{1,9}))?', part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + 1000:
            raise argparse.ArgumentTypeError(f'{text!r}: seeds are 1-5, 7 or 1,3,9, at most 1,000')
        seeds.extend(range(first, last + 1))
    return seeds


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    chosen = options(argv)
    return published.report('sim.py kb',
                            tables(settings_of(chosen), chosen.seeds, chosen.groups, chosen.svg), as_json=chosen.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
