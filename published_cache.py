"""published_cache.py - the figures of article 2: what a warm session sends, and what of it a cache already holds.

The section "La simulazione" and what follows it ("Cosa dicono i numeri", "Altri due risultati"). Token figures may
differ by 2.5 %, since the texts are ours; counts of rows, losses, ratios and common prefixes may not.

Not here: any measurement (sim_cache.py, bench_render.py), the judge and the printer (published.py).
"""
from typing import List

from published import Cell, Table

# --- data ---------------------------------------------------------------------

TOLERANCE = 0.025
FIRST_REQUEST = 2954                      # tokens
WARM_TURN = (943, 766, 14315)             # tokens not cached: window, watermark, unstable prefix
FULL_AT = (100_000, 200_000)              # tokens of a context
BESIDE_THE_LINE = (0.94, 1.06)            # times the mention at which a straight line passes them
UNSTABLE = 'unstable prefix'
IN_PIECES = 'under our own counter a piece of the pre-tokenizer counts as one token here'
ERRATUM = ('erratum: the article\'s totals exclude its per-turn figures: 29 x 460 = 13,340 > 9,132 sent; 29 x 420 = '
           '12,180 > 5,057 read before; 343 + 29 x 44 = 1,619 < 4,075. The bounds are what the totals leave')


# --- rules --------------------------------------------------------------------

def near(row: str, column: str, value: float, unit: str = 'tokens') -> Cell:
    return Cell(row, column, value, 'range', unit, round(value * (1 - TOLERANCE), 4), round(value * (1 + TOLERANCE), 4))


def three(row: str, values: tuple, make: object = near, **more: object) -> List[Cell]:
    columns = ('window', 'watermark', UNSTABLE)
    return [make(row, column, value, **more) for column, value in zip(columns, values)]      # type: ignore[operator]


CHANNEL = Table(2, 'the channel of the cache simulation', (
    Cell('messages', '', 200), Cell('mentions', '', 30), Cell('longer than 600 characters', '', 8),
    Cell('messages between mentions', 'min', 1), Cell('messages between mentions', 'median', 4),
    Cell('messages between mentions', 'max', 21),
    near('prefix: system prompt and 20 tools', '', 2120), near('brief', '', 466),
    Cell('label of the context block', 'a turn', 30, 'range', 'tokens', 25, 35),
))

CACHE = Table(2, '30 mentions, three strategies', (
    *three('input, all turns', (515784, 417419, 418259)),
    near('of it cacheable prefix', 'window', 485477), near('of it cacheable prefix', 'watermark', 392256),
    Cell('of it cacheable prefix', UNSTABLE, 145, unit='tokens', reason=IN_PIECES),
    *three('cacheable ratio', (0.941, 0.940, 0.000), Cell),
    *three('not cached, a warm turn', WARM_TURN),
    *three('channel context sent', (9132, 4075, 4075)),
    near('of it read before', 'window', 5057), Cell('of it read before', 'watermark', 0, unit='tokens'),
    Cell('of it read before', UNSTABLE, 0, unit='tokens'),
    near('of it read before', 'window, percent', 55, '%'),
    *three('channel rows sent', (360, 162, 162), Cell),
))

TEXT = Table(2, 'what the numbers say', (
    Cell('window sends more a warm turn', 'than watermark', 23, 'range', '%', 22, 24),
    Cell('status line before the system prompt', 'changes every turn', 28, unit='tokens', reason=IN_PIECES),
    Cell('channel text a warm turn', 'window', 460, 'range', 'tokens', 295.0, 324.0, reason=ERRATUM),
    Cell('read before a warm turn', 'window', '420 to 440', 'range', 'tokens', 170.0, 179.0, reason=ERRATUM),
    Cell('channel text a warm turn', 'watermark', '21 to 44', 'range', 'tokens', 125.0, 145.0, reason=ERRATUM),
))

EVICTION = Table(2, 'eviction at mention 15', (
    near('input, all turns', 'window', 290000), near('input, all turns', 'watermark', 245000),
    Cell('cacheable at mention 15', 'watermark', 0, unit='tokens'),
    near('rows the old process had seen, sent again', 'watermark', 23),
))

LOST = Table(2, 'what a limit of 12 rows loses', (
    Cell('messages never shown', 'window', 25), Cell('messages never shown', 'watermark', 25),
    Cell('of them in bursts of more than 12', 'watermark', 25),
))

BEYOND = Table(2, 'beyond the article: price, and when a context fills', (
    Cell('price, reads at 0.1, writes at 1.25', 'window / watermark', None, 'ratio', '', 1.15, 1.35),
    Cell('price, reads at 0.1, writes at 1.25', 'unstable prefix / watermark', None, 'ratio', '', 6.0, 9.0),
    *(Cell(f'mention that passes {limit:,} tokens', column, None, 'range', '') for limit in FULL_AT
      for column in ('window', 'watermark', UNSTABLE)),
))

COST = Table(2, 'what rendering and counting cost', (
    Cell('sim.py cache, whole program', 'CPU', 1.23, 'order', 's', high=0.3,
         reason='the article needed 1.23 s of wall clock on an Apple M1, nearly all of it tiktoken'),
    Cell('the five runs', 'times tokenising every prefix, turn and reply once', None, 'ratio', '', high=1.5),
    Cell('the five runs', 'times tokenising every different text once', None, 'ratio', '', high=6.0,
         reason='brief and rows recur, so little is left to count: rendering and JSON are most of the rest'),
    Cell('render, 12 of 30 rows', 'snapshot', None, 'range', 'us', high=50.0),
    Cell('render, 12 of 30 rows', 'watermark of 200 ids', None, 'range', 'us', high=50.0),
    Cell('commit beside 10,000 channels', 'times beside ten', None, 'ratio', '', high=1.5),
))

TABLES = [CHANNEL, CACHE, TEXT, EVICTION, LOST, BEYOND, COST]
