"""published_warm.py - article 2's figures beside those of the real Claude Code, and how each is judged.

The simulation has a framing of 2,120 tokens; the real program brings 24 tools and reminders of its own, about 20,000
tokens, so totals are larger and ratios nearer to 1. What must hold is what the article argues: a request keeps the
whole one before it, a window sends more than a watermark, and a line in front costs everything behind it.

Not here: any measurement (bench_warm.py).
"""
from published import Cell, Table
from published_cache import FIRST_REQUEST, WARM_TURN

# --- data ---------------------------------------------------------------------

COLUMNS = ('window', 'watermark', 'unstable prefix')
OWN = 'its own tools, reminders and JSON come on top of the simulation\'s texts'
TOOLS_FIRST = ('a provider reads the tools before the system prompt, so they stay cached behind a volatile system '
               'prompt; the simulation puts the line in front of everything')
MISSING = '@anthropic-ai/claude-code is not installed below JUDGES'


def three(row: str, values: tuple, judged: str, unit: str, bounds: tuple, reasons: tuple = (None, None, None)) -> list:
    return [Cell(row, column, value, judged, unit, low, high, reason=reason)
            for column, value, (low, high), reason in zip(COLUMNS, values, bounds, reasons)]


WARM = Table(2, '30 mentions through the real Claude Code', [
    *three('requests', (30, 30, 30), 'exact', '', ((None, None),) * 3),
    *three('first request', (FIRST_REQUEST,) * 3, 'order', 'tokens', ((FIRST_REQUEST, None),) * 3, (OWN, OWN, OWN)),
    *three('input, all turns', (515784, 417419, 418259), 'order', 'tokens',
           ((515784, None), (417419, None), (418259, None))),
    *three('of it cacheable prefix', (485477, 392256, 145), 'order', 'tokens',
           ((485477, None), (392256, None), (145, None)), (None, None, TOOLS_FIRST)),
    *three('cacheable ratio', (0.941, 0.940, 0.000), 'ratio', '', ((0.941, 1), (0.940, 1), (0, 0.9))),
    *three('of the request before, kept', (100.0, 100.0, 0.0), 'range', '%',
           ((100.0, 100.0), (100.0, 100.0), (0, 90)), (None, None, TOOLS_FIRST)),
    *three('common prefix, a warm turn', (None, None, None), 'range', 'bytes', ((10_000, None),) * 3),
    *three('not cached, a warm turn', WARM_TURN, 'range', 'tokens',
           ((850, 1300), (690, 1100), (8_000, 20_000)), (OWN, OWN, None)),
    Cell('window sends more a warm turn', 'than watermark', 23, 'range', '%', 15, 28, reason=OWN),
    *three('cache breakpoints a request', (None, None, None), 'range', '', ((1, 4),) * 3),
])

EVICTED = Table(2, 'eviction at mention 15 of the real Claude Code', [
    Cell('request at mention 15', 'a new process', None, 'range', 'tokens', FIRST_REQUEST, None),
    Cell('of it cacheable', 'a new process', 0, 'shown', 'tokens',
         reason='the article counts 0; a provider still has tools and system prompt of the ended process'),
    Cell('of the request before, kept', 'a new process', 0.0, 'range', '%', 0, 90),
    Cell('request at mention 15', 'the saved session', None, 'range', 'tokens', FIRST_REQUEST, None),
    Cell('of it cacheable', 'the saved session', None, 'range', 'tokens', FIRST_REQUEST, None),
    Cell('of the request before, kept', 'the saved session', None, 'range', '%', 100, 100),
])

TABLES = [WARM, EVICTED]

# --- rules --------------------------------------------------------------------

def not_here(table: Table) -> Table:
    return table._replace(cells=[cell._replace(judged='not run here', reason=MISSING) for cell in table.cells])
