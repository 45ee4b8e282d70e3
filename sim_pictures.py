"""sim_pictures.py - the tables of article 1's day as pictures.

Article 1: how fast citations go stale (the model's band, the formula, the published points, our five days), and what
the three ways of checking cost as the day goes on. Plain SVG, readable on light and dark, with a text alternative.

    python3 sim.py kb --svg DIR        staleness.svg, calls.svg, bytes.svg (2 s more)

Not here: the figures (sim_kb.py, sim_closed.py).
"""
import math
import os
from html import escape
from typing import Callable, List, NamedTuple, Sequence, Tuple

import published_kb
import sim_closed
import sim_kb
import sim_model
from sim_model import Counts, Settings

# --- data ---------------------------------------------------------------------

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 44, 48                      # around the plot; labels at the right
GROUPS = 100                                                    # of days, for the band
FORMULA_DAYS = 20                                               # whose topics the formula is averaged over
LABEL = 17                                                      # from one label's line down to the next
KEY = ('', '', '')
Point = Tuple[float, float]

STYLE = """
svg { font: 13px system-ui, sans-serif; color: #1b1f24; background: #ffffff; }
text { fill: currentColor; } .grid { stroke: currentColor; stroke-opacity: .15; } .axis { stroke: currentColor; }
.band { fill: #3b76c4; fill-opacity: .18; } .line { fill: none; stroke-width: 2; }
.one { stroke: #1f5fb4; } .two { stroke: #b4531f; } .three { stroke: #2b7a3e; } .dashed { stroke-dasharray: 6 4; }
.ours { fill: #1f5fb4; } .published { fill: none; stroke: #b4531f; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  svg { color: #e6e8eb; background: #14171a; }
  .band { fill: #7fb0ef; fill-opacity: .22; }
  .one { stroke: #7fb0ef; } .two { stroke: #f0a36f; } .three { stroke: #7fce94; }
  .ours { fill: #7fb0ef; } .published { stroke: #f0a36f; }
}
"""


class Plane(NamedTuple):
    """From data to pixels: hours to the right, `y` from `least` to `most` upwards."""
    hours: int
    least: float
    most: float
    scale: Callable[[float], float]                             # the identity, or log10

    def point(self, hour: float, value: float) -> Point:
        low, high = self.scale(self.least), self.scale(self.most)
        across = LEFT + (WIDTH - LEFT - RIGHT) * hour / self.hours
        up = (self.scale(min(max(value, self.least), self.most)) - low) / (high - low)
        return round(across, 1), round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up, 1)


# --- rules --------------------------------------------------------------------

def path(points: Sequence[Point]) -> str:
    return 'M' + ' L'.join(f'{x} {y}' for x, y in points)


def line(plane: Plane, values: Sequence[Tuple[float, float]], name: str) -> str:
    return f'<path class="line {name}" d="{path([plane.point(*value) for value in values])}"/>'


def label(place: Point, text: str, anchor: str = 'start') -> str:
    return f'<text x="{place[0]}" y="{place[1]}" text-anchor="{anchor}">{escape(text)}</text>'


def dot(place: Point, name: str, radius: int) -> str:
    return f'<circle class="{name}" r="{radius}" cx="{place[0]}" cy="{place[1]}"/>'


def at_the_right(plane: Plane, named: Sequence[Tuple[float, str]]) -> List[str]:
    """A label at the end of each line, moved down where it would be written over another."""
    drawn, lowest = [], -LABEL
    for value, text in sorted(named, reverse=True):
        lowest = max(plane.point(plane.hours, value)[1], lowest + LABEL)
        drawn.append(label((WIDTH - RIGHT + 10, lowest + 4), text))
    return drawn


def axes(plane: Plane, ticks: Sequence[float], unit: str) -> List[str]:
    drawn = []
    for tick in ticks:
        x, y = plane.point(0, tick)
        drawn.append(f'<path class="grid" d="M{x} {y} H{WIDTH - RIGHT}"/>' + label((x - 8, y + 4), f'{tick:,}', 'end'))
    for hour in range(0, plane.hours + 1, max(1, plane.hours // 8)):
        x, _ = plane.point(hour, plane.least)
        drawn.append(label((x, HEIGHT - BOTTOM + 20), str(hour), 'middle'))
    corner, end = plane.point(0, plane.least), plane.point(plane.hours, plane.least)
    drawn.append(f'<path class="axis" d="{path([corner, end])}"/>')
    drawn.append(label((WIDTH - RIGHT, HEIGHT - 8), 'hour of the day', 'end'))
    drawn.append(label((8, TOP - 14), unit))
    return drawn


def svg(title: str, description: str, parts: Sequence[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="title desc">\n<title id="title">{escape(title)}</title>\n'
            f'<desc id="desc">{escape(description)}</desc>\n<style>{STYLE}</style>\n' + '\n'.join(parts) + '\n</svg>\n')


def round_ticks(most: float) -> List[int]:
    """Five or so round numbers from 0 to at least `most`."""
    step = 1
    while most / step > 6:
        step = step * 5 // 2 if str(step)[0] == '2' else step * 2
    return list(range(0, int(most) + step + 1, step))


def staleness_picture(settings: Settings, ours: Counts, groups: Sequence[Counts], size: int) -> str:
    """The band is where 99 of 100 groups of `size` days lie; `ours` is the group that went through the store."""
    hours = range(1, settings.hours + 1)
    spreads = [sim_kb.spread([{KEY: group[f'stale {hour}']} for group in groups])[KEY] for hour in hours]
    low, high = zip(*(each.bounds(sim_model.SIGMAS_99) for each in spreads))
    mean = [(0.0, 0.0), *zip(hours, (each.mean for each in spreads))]
    formula = [(0.0, 0.0), *((hour, formula_of(settings, hour, size)) for hour in hours)]
    printed = ({hour: row[1] for hour, row in published_kb.STALE_ROWS.items()}
               if settings == Settings() and size == len(sim_model.SEEDS) else {})
    ticks = round_ticks(max(*high, formula[-1][1]))
    plane = Plane(settings.hours, 0, ticks[-1], float)
    edge = [(0.0, 0.0), *zip(hours, high), *reversed(list(zip(hours, low)))]
    parts = axes(plane, ticks, f'stale citations, {size} days')
    parts += [f'<path class="band" d="{path([plane.point(*each) for each in edge])} Z"/>',
              line(plane, mean, 'one'), line(plane, formula, 'two dashed')]
    parts += [dot(plane.point(hour, ours[f'stale {hour}']), 'ours', 4) for hour in hours]
    parts += [dot(plane.point(*each), 'published', 6) for each in printed.items()]
    parts += at_the_right(plane, [(formula[-1][1], 'formula (none goes)'), (mean[-1][1], 'model, with 99 %')])
    parts.append(label((LEFT + 20, TOP + 14), '○ published   ● ours, through the store'))
    words = [f'hour {hour}: model {each.mean:.0f}, ours {ours[f"stale {hour}"]}'
             + (f', published {printed[hour]}' if hour in printed else '') for hour, each in zip(hours, spreads)]
    return svg('Citations that went stale, by the hour', '; '.join(words) + '.', parts)


def formula_of(settings: Settings, hour: int, size: int) -> float:
    topics = [sim_model.draw_day(seed, settings).topics for seed in range(1, FORMULA_DAYS + 1)]
    return size * sum(sim_closed.staleness(settings, each, hour)['stale'] for each in topics) / FORMULA_DAYS


def cost_picture(settings: Settings, by_hour: Sequence[Counts], amount: str, unit: str, divisor: int) -> str:
    """Calls or bytes of the three ways so far, on a logarithmic scale: they are two orders of magnitude apart."""
    ways = (('search', 'search again', 'two'), ('read', 'read again', 'three'), ('poll', 'poll', 'one'))
    curves = {way: [(hour, max(1, counts.get(f'{way} {amount}', 0) / divisor))
                    for hour, counts in enumerate(by_hour, 1)] for way, _, _ in ways}
    ends = [(curves[way][-1][1], words) for way, words, _ in ways]
    most = max(end for end, _ in ends)
    plane = Plane(settings.hours, 1, 10 ** math.ceil(math.log10(most + 1)), math.log10)
    parts = axes(plane, [10 ** power for power in range(int(math.log10(plane.most)) + 1)], f'{unit} so far')
    parts += [line(plane, curves[way], name) for way, _, name in ways]
    parts += at_the_right(plane, [(end, f'{words}: {end:,.0f}') for end, words in ends])
    words = '; '.join(f'{words}: {end:,.0f} {unit} after {settings.hours} hours' for end, words in ends)
    return svg(f'What the hourly checks cost: {unit}', words + '.', parts)


# --- I/O ----------------------------------------------------------------------

def write_pictures(folder: str, settings: Settings, seeds: Sequence[int], stored: Counts) -> List[str]:
    """Returns the paths. `stored` are the counts that the days had in the store."""
    size = len(seeds)
    groups = [sim_model.add_up([sim_model.play_in_memory(sim_model.draw_day(seed, settings))
                                for seed in range(first, first + size)]) for first in range(1, 1 + GROUPS * size, size)]
    days = [list(sim_model.hours_in_memory(sim_model.draw_day(seed, settings))) for seed in seeds]
    by_hour = [sim_model.add_up(counts) for counts in zip(*days)]
    pictures = {'staleness.svg': staleness_picture(settings, stored, groups, size),
                'calls.svg': cost_picture(settings, by_hour, 'calls', 'calls', 1),
                'bytes.svg': cost_picture(settings, by_hour, 'bytes', 'KiB', 1024)}
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, name) for name in pictures]
    for written, content in zip(paths, pictures.values()):
        with open(written, 'w', encoding='utf-8') as file:
            file.write(content)
    return paths
