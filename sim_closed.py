"""sim_closed.py - article 1's staleness by formula, beside the simulation.

Article 1, "Quanto velocemente diventano obsolete le citazioni?" and the edits after a delay: where the figures come
from. Questions and saves are Poisson streams over articles of known popularity, so each figure is a sum over them.

    python3 sim.py closed-form              formula, simulation without unpublishing, simulation as published (7 s)
    also: --groups 200 --articles 400 --questions 120 --saves 300 --hours 8 --zipf 0.9 --json

Unpublishing is left out of the formulas: an article that went gets no more citations and takes its place from another.
Not here: the day (sim_model.py), the tables through the store (sim_kb.py).
"""
import math
import sys
from typing import Callable, Dict, List, Sequence, Tuple

import ending
import published
import published_kb
import sim_kb
import sim_model
from published import Cell, Figure, Table
from sim_model import DELAYS_S, Day, Settings

# --- data ---------------------------------------------------------------------

TOLERANCE = 0.025                                               # of a figure: the days are drawn
SMALL = 20                                                      # in 200 groups; counts below it scatter by more
TOPIC_DRAWS = 200                                               # days whose topics the formulas are averaged over
Row = Tuple[str, str, float, float, float]                      # row, column, by formula, simulated, with unpublishing

# --- rules --------------------------------------------------------------------

def missed(rate: float, hours: float) -> float:
    """Integral of 1 - exp(-rate t) from 0 to `hours`: the chance of a change, over all ages of a citation."""
    return hours + math.expm1(-rate * hours) / rate if rate else 0.0


def second_hits(topics: Sequence[int]) -> List[int]:
    """The second citation of a question about article a: the most popular other article of its topic, or -1."""
    firsts: Dict[int, List[int]] = {}
    for article, topic in enumerate(topics):
        firsts.setdefault(topic, []).append(article)
    return [next((other for other in firsts[topic][:2] if other != article), -1)
            for article, topic in enumerate(topics)]


def staleness(settings: Settings, topics: Sequence[int], hour: int) -> Dict[str, float]:
    """The expected counts of one day at an hour.

    Article a changes at rate s (saves an hour times p) and is cited at rate c: as the first hit of its own questions
    and as the second hit of others.
      stale, each citation: one of age t is stale with chance 1 - exp(-s t), and citations come at rate c.
      stale, distinct: a version that ends (rate s) leaves one stale pair if it was cited while it stood. With r = s + c
        the chance of that is c/r (1 - exp(-r t)), t hours into the day.
      answers: stale when either of the two articles changed, at the sum of their rates.
    """
    p = sim_model.popularity(settings)
    saves, questions = settings.saves / settings.hours, settings.questions / settings.hours
    second = second_hits(topics)
    cited = [questions * each for each in p]
    for article, other in enumerate(second):
        if other >= 0:
            cited[other] += questions * p[article]
    change = [saves * each for each in p]
    pairs = [s * c / (s + c) * missed(s + c, hour) if s + c else 0.0 for s, c in zip(change, cited)]
    each = [c * missed(s, hour) for s, c in zip(change, cited)]
    answers = [questions * p[article] * missed(s + (change[other] if other >= 0 else 0.0), hour)
               for article, (s, other) in enumerate(zip(change, second))]
    return {'stale': math.fsum(pairs), 'stale each': math.fsum(each), 'answers stale': math.fsum(answers)}


def refused(settings: Settings, delay_s: int) -> float:
    """The expected refusals of one day among the edits after a delay.

    Article a moves with every save and with every edit of Claude's own; an edit follows each question, so both at rates
    proportional to p. Saves stop with the day, and edits with the last delay: a question near the end meets fewer.
    """
    day, delay, steps = settings.hours, delay_s / 3600, 400
    saves, edits = settings.saves / day, settings.questions / day / len(DELAYS_S)
    total = []
    for step in range(steps):                                   # the moment of the question, in the middle of each step
        asked = day * (step + 0.5) / steps
        until = asked + delay
        moves = saves * (min(until, day) - asked)
        moves += edits * sum(overlap(asked, until, other / 3600, day + other / 3600) for other in DELAYS_S)
        total.append(math.fsum(p * -math.expm1(-p * moves) for p in sim_model.popularity(settings)))
    return settings.questions / len(DELAYS_S) * math.fsum(total) / steps


def overlap(start: float, end: float, first: float, last: float) -> float:
    return max(0.0, min(end, last) - max(start, first))


def without_unpublishing(day: Day) -> Day:
    return day._replace(saves=[save._replace(kind='content') if save.kind == 'unpublish' else save
                               for save in day.saves])


def compare(settings: Settings, groups: int) -> List[Row]:
    """Every figure for five days: by the formula, simulated without unpublishing, simulated as published."""
    days = [sim_model.draw_day(seed, settings) for seed in range(1, 5 * groups + 1)]
    hours = sorted({hour for hour in published_kb.HOURS if hour <= settings.hours} | {settings.hours})
    plain = [without_unpublishing(day) for day in days]
    checks, edits = means(sim_model.play_in_memory, plain), means(sim_model.play_edits_in_memory, plain)
    full_checks, full_edits = means(sim_model.play_in_memory, days), means(sim_model.play_edits_in_memory, days)
    rows: List[Row] = []
    for hour in hours:
        drawn = [staleness(settings, day.topics, hour) for day in days[:TOPIC_DRAWS]]
        for name, column in (('stale', 'stale'), ('stale each', 'stale, each citation counted'),
                             ('answers stale', 'answers with a stale citation')):
            formula = 5 * math.fsum(each[name] for each in drawn) / len(drawn)
            rows.append((f'hour {hour}', column, formula, checks[f'{name} {hour}'], full_checks[f'{name} {hour}']))
    for row, delay_s, *_ in published_kb.EDIT_ROWS:
        name = f'changed {delay_s}'
        rows.append((row, 'refused, version changed', 5 * refused(settings, delay_s),
                     edits.get(name, 0), full_edits.get(name, 0)))
    return rows


def means(play: Callable[[Day], sim_model.Counts], days: Sequence[Day]) -> Dict[str, float]:
    """Of five days."""
    played = []
    for number, day in enumerate(days):
        published.progress(f'{play.__name__}: day {number + 1} of {len(days)}')
        played.append(play(day))
    published.progress('')
    return {name: 5 * count / len(days) for name, count in sim_model.add_up(played).items()}


def judged(rows: Sequence[Row], groups: int) -> dict:
    """Simulated without unpublishing over formula, as cells; what is too small to say is named, not judged."""
    cells, found = [], {}
    for row, column, formula, simulated, _ in rows:
        enough = formula * groups >= SMALL * sim_model.GROUPS
        judge = 'ratio' if enough else 'not run here'
        reason = None if enough else f'{formula:.1f} by the formula: so small a count scatters by more'
        cells.append(Cell(row, column, None, judge, low=1 - TOLERANCE, high=1 + TOLERANCE, reason=reason))
        found[row, column] = Figure(round(simulated / formula, 4)) if enough else None
    return published.compare(Table(1, 'simulated without unpublishing, over the formula', cells), found)


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('sim.py closed-form', __doc__)
    sim_kb.add_settings(parser)
    parser.add_argument('--groups', type=sim_kb.between(1, 100_000), default=sim_model.GROUPS,
                        help='of five days (200)')
    chosen = parser.parse_args(argv)
    rows = compare(sim_kb.settings_of(chosen), chosen.groups)
    published.note('five days, mean:                          formula  no unpublishing  as published', chosen.json)
    for row, column, formula, simulated, full in rows:
        published.note(f'  {row:<7} {column:<30} {formula:>8,.1f} {simulated:>16,.1f} {full:>13,.1f}', chosen.json)
    return published.report('sim.py closed-form', [judged(rows, chosen.groups)], as_json=chosen.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
