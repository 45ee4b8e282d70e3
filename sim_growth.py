"""sim_growth.py - what checking costs when there is more of everything.

Article 1, "Rileggere ogni articolo citato o interrogare il log?": reading again grows with what was cited, a poll with
what changed. The same day at 1, 10 and 100 times the questions with the same saves, and the other way round.

    python3 sim.py growth                   calls and bytes of the three ways, five days each (2 s)
    also: --articles 400 --questions 120 --saves 300 --hours 8 --zipf 0.9 --seeds 1-5 --json

Played in memory, where it is held equal to the store to the byte. Not here: the day (sim_model.py).
"""
import sys
from typing import List, NamedTuple, Optional, Sequence, Tuple

import ending
import published
import sim_kb
import sim_model
from published import Cell, Figure, Table
from sim_model import Counts, Settings

# --- data ---------------------------------------------------------------------

TIMES = (1, 10, 100)
FEW = 100                                                       # saves: below, a poll is mostly its envelope


class Grown(NamedTuple):
    """Five days with more questions or more saves, added up."""
    what: str                                                   # 'citations' or 'changes'
    times: int
    counts: Counts


# --- rules --------------------------------------------------------------------

def grow(settings: Settings, seeds: Sequence[int]) -> List[Grown]:
    return [Grown('citations', times, more_questions(settings, seeds, times)) for times in TIMES] + [
        Grown('changes', times, more_saves(settings, seeds, times)) for times in TIMES]


def more_questions(settings: Settings, seeds: Sequence[int], times: int) -> Counts:
    """More questions on the very same saves."""
    played = []
    for seed in seeds:
        day = sim_model.draw_day(seed, settings)
        more = sim_model.draw_day(seed, settings._replace(questions=settings.questions * times))
        played.append(sim_model.play_in_memory(day._replace(questions=more.questions)))
        published.progress(f'{times} times the questions: seed {seed}')
    return sim_model.add_up(played)


def more_saves(settings: Settings, seeds: Sequence[int], times: int) -> Counts:
    """More saves on the very same questions. None unpublishes: a hundred times as many would empty it."""
    played = []
    for seed in seeds:
        day = sim_model.draw_day(seed, settings)
        more = sim_model.draw_day(seed, settings._replace(saves=settings.saves * times))
        kept = [save._replace(kind='content') if save.kind == 'unpublish' else save for save in more.saves]
        played.append(sim_model.play_in_memory(day._replace(saves=kept)))
        published.progress(f'{times} times the saves: seed {seed}')
    return sim_model.add_up(played)


def judged(grown: Sequence[Grown], settings: Settings) -> dict:
    """Bytes as multiples of the day as it is. The poll's must follow the changes alone."""
    base = {each.what: each.counts for each in grown if each.times == 1}
    cells, found = [], {}
    for what, times, counts in grown:
        for way, row in sim_kb.WAYS:
            if times > 1 and base[what].get(f'{way} bytes') and (what == 'citations' or settings.saves >= FEW):
                place = (row, f'{times} times the {what}')
                low, high = expected(way, what, times)
                cells.append(Cell(*place, None, 'range', 'times', low=low, high=high))
                found[place] = Figure(round(counts[f'{way} bytes'] / base[what][f'{way} bytes'], 2))
    return published.compare(Table(1, 'bytes that the checks return, over the day as it is (ours)', cells), found)


def expected(way: str, what: str, times: int) -> Tuple[float, Optional[float]]:
    """What a checking reader pays for more: the poll the changes and nothing else, the two others what was cited."""
    if way == 'poll':
        return (1, 1) if what == 'citations' else (0.9 * times, 1.1 * times)    # empty pages, longer numbers
    if what == 'citations':
        return 1.0, None
    return (1, 1) if way == 'read' else (1.0, 0.5 * times)      # a new title is one more to search for


def sentence() -> str:
    """What it means for a reader's own knowledge base."""
    event = sim_model.SIZES.event + len('updated') + 4
    article = sim_model.SIZES.read
    return (f'A poll returns {event} bytes a change, reading again {article:,} bytes a cited article: polling is the '
            f'cheaper way\nuntil more than {article // event} changes for every article that you have cited fall '
            'between two checks.')


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('sim.py growth', __doc__)
    sim_kb.add_settings(parser)
    parser.add_argument('--seeds', type=sim_kb.seed_list, default=list(sim_model.SEEDS), help='1-5, 7 or 1,3,9')
    chosen = parser.parse_args(argv)
    settings = sim_kb.settings_of(chosen)
    grown = grow(settings, chosen.seeds)
    published.progress('')
    published.note(f'{"":<26}' + ''.join(f'{way:>24}' for way in ('search again', 'read again', 'poll')), chosen.json)
    for what, times, counts in grown:
        costs = ''.join(f'{counts.get(f"{way} calls", 0):>10,} {counts.get(f"{way} bytes", 0) // 1024:>9,} KiB'
                        for way, _ in sim_kb.WAYS)
        published.note(f'  {times:>3} times the {what:<10}{costs}', chosen.json)
    published.note('\n' + sentence() + '\n', chosen.json)
    return published.report('sim.py growth', [judged(grown, settings)], as_json=chosen.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
