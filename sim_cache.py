"""sim_cache.py - a warm session's prompt cache over 30 mentions, under three strategies (article 2).

The sections "La simulazione" and "Cosa dicono i numeri": the three-column table, what it says a turn, the eviction at
mention 15, and what a limit of 12 rows loses; beyond the article, prices and the mention at which a context fills.
Every turn is made by channel_render.py as a session would get it. "Cacheable" is the longest common prefix with the
previous request of the same session, the best case for every strategy; a provider's own breakpoints are not modelled.

    python3 sim_cache.py                    all tables, under every counter at hand (0.3 s with ours alone)
    python3 sim_cache.py --seeds 1-5        other gaps, logs and texts: the ranges
    python3 sim_cache.py --svg              input tokens by mention, as a picture on standard output
    python3 sim_cache.py --json             the tables as one JSON object

Not here: the channel's texts (sim_channel.py), the counters (token_counter.py), the article's figures
(published_cache.py).
"""
import sys
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import channel_render
import ending
import published
import published_cache
import sim_channel
import sim_kb
from channel_render import Row, Watermark
from published import Figure
from token_counter import Counter, counters

# --- data ---------------------------------------------------------------------

EVICTED_AT = 14                     # mention 15: the 15th turn finds a new process
READ_PRICE, WRITE_PRICE = 0.1, 1.25     # of an input token, which is how cached prompts are sold
MENTIONS_BEYOND = 300


class Strategy(NamedTuple):
    name: str
    remembers: bool                 # a watermark: the snapshot first, then only what is new
    status_line: bool               # a line that changes every turn stands before the system prompt


WINDOW = Strategy('window', remembers=False, status_line=False)
WATERMARK = Strategy('watermark', remembers=True, status_line=False)
UNSTABLE = Strategy(published_cache.UNSTABLE, remembers=True, status_line=True)
STRATEGIES = (WINDOW, WATERMARK, UNSTABLE)


class Turn(NamedTuple):
    """One mention as the provider sees it, in tokens."""
    input: float
    cacheable: float
    context: float                  # channel rows, without the block's header
    seen: float                     # of them, rows that this session had been sent in an earlier turn
    seen_by_others: float           # rows that an ended process had been sent
    rows: Tuple[Row, ...]


class Tokens:
    """A counter that counts every text once, however many requests hold it."""

    def __init__(self, counter: Counter) -> None:
        self.counter, self.known = counter, {}      # type: Counter, Dict[str, float]

    def of(self, text: str) -> float:
        """Exact when each text ends in a newline: no token of cl100k goes on behind one, but into more white space."""
        if text not in self.known:
            self.known[text] = self.counter.weigh(self.counter.parts(text))
        return self.known[text]


# --- rules --------------------------------------------------------------------

def run(rows: Sequence[Row], mentions: Sequence[int], replies: Sequence[str], strategy: Strategy, tokens: Tokens,
        evicted_at: Optional[int] = None) -> Iterator[Turn]:
    """Every turn of one session. The cost is linear in turns: a request is the previous one and what was added."""
    before: Set[str] = set()                        # rows sent to processes that have ended
    watermark, sent, history, head, request = None, set(), 0.0, '', 0.0     # type: Optional[Watermark], Set[str], ...
    for turn, at in enumerate(mentions):
        if turn == evicted_at:
            watermark, before, sent, history = None, before | sent, set(), 0.0
        shown = channel_render.mention_context(window_of(rows, at), rows[at].id, None, watermark)
        asked, context = count_turn(rows[at], turn, shown.text, tokens)
        previous, head = head, sim_channel.status_line(turn) if strategy.status_line else ''
        cacheable = common(previous, head, request, tokens.counter) if history else 0
        request = tokens.of(head) + (history or tokens.of(sim_channel.framing())) + asked
        yield Turn(request, cacheable, sum(context), count_rows(shown.rows, context, sent),
                   count_rows(shown.rows, context, before), shown.rows)
        sent |= {row.id for row in shown.rows}
        history = request - tokens.of(head) + tokens.of(replies[turn])
        watermark = channel_render.advance(watermark, 'native', shown) if strategy.remembers else None


def window_of(rows: Sequence[Row], at: int) -> channel_render.Fetch:
    """The channel as it is when the mention at `at` arrives."""
    return lambda thread_root_id, before, limit: list(rows[max(0, at + 1 - limit):at + 1])


def count_turn(row: Row, turn: int, block: str, tokens: Tokens) -> Tuple[float, List[float]]:
    """(tokens of the user turn, tokens of each row in it). The brief is one text in all turns: counted once."""
    whole = channel_render.mention_turn(sim_channel.mention_of(row, turn), block)
    start = whole.index(channel_render.BRIEF)
    asked = tokens.of(whole[:start]) + tokens.of(channel_render.BRIEF + ('\n' if block else ''))
    head, lines = split_block(block)
    context = [tokens.of(line) for line in lines]
    return asked + tokens.of(head) + sum(context), context


def split_block(block: str) -> Tuple[str, List[str]]:
    """(header, rows), each with its newline; a row's further lines are indented, so `- ` begins every row."""
    head, *rows = block.split('\n- ') if block else ['']
    return (head + '\n' if head else ''), [f'- {row}\n' for row in rows]


def count_rows(rows: Sequence[Row], context: Sequence[float], those: Set[str]) -> float:
    return sum(tokens for row, tokens in zip(rows, context) if row.id in those)


def common(previous: str, head: str, previous_input: float, counter: Counter) -> float:
    """Tokens of the longest common prefix. Behind equal heads the previous request is a prefix of this one as a whole:
    framing, turns and replies are only ever added to. A head that differs ends it inside the head."""
    if previous == head:
        return previous_input
    for length, (one, other) in enumerate(zip(counter.parts(previous), counter.parts(head))):
        if one != other:
            return length
    return min(len(counter.parts(previous)), len(counter.parts(head)))


def lost(rows: Sequence[Row], mentions: Sequence[int], turns: Sequence[Turn]) -> List[Row]:
    """Messages from the first row shown to the last mention that no turn showed."""
    shown = {row.id for turn in turns for row in turn.rows}
    first = next(at for at, row in enumerate(rows) if row.id in shown)
    return [row for row in rows[first:mentions[-1]] if row.id not in shown]


def lost_in_bursts(mentions: Sequence[int]) -> int:
    """What the gaps alone say a limit of 12 loses: everything beyond 12 in a gap."""
    return sum(max(0, later - sooner - channel_render.SHOWN_ROWS) for sooner, later in zip(mentions, mentions[1:]))


def warm_uncached(turns: Sequence[Turn]) -> float:
    return sum(turn.input - turn.cacheable for turn in turns[1:]) / (len(turns) - 1)


def price(turns: Sequence[Turn]) -> float:
    """In input tokens at full price."""
    return sum(turn.cacheable * READ_PRICE + (turn.input - turn.cacheable) * WRITE_PRICE for turn in turns)


def passes(turns: Iterable[Turn], limits: Sequence[int]) -> List[int]:
    """For each limit the first mention, counted from 1, whose request holds more tokens; no turn is played beyond."""
    found: List[int] = []
    for number, turn in enumerate(turns, 1):
        while turn.input > limits[len(found)]:
            found.append(number)
            if len(found) == len(limits):
                return found
    raise ValueError(f'{number} mentions do not fill {limits[len(found)]:,} tokens')


def ratio(turns: Sequence[Turn]) -> float:
    return sum(turn.cacheable for turn in turns) / sum(turn.input for turn in turns)


# --- the tables ---

class Day(NamedTuple):
    """One channel played under every strategy."""
    rows: List[Row]
    mentions: List[int]
    runs: Dict[str, List[Turn]]
    evicted: Dict[str, List[Turn]]


def play(plan: sim_channel.Plan, tokens: Tokens) -> Day:
    rows, mentions = sim_channel.channel(plan, len(plan.gaps) + 1)
    replies = sim_channel.replies(plan, len(mentions))
    return Day(rows, mentions,
               {strategy.name: list(run(rows, mentions, replies, strategy, tokens)) for strategy in STRATEGIES},
               {strategy.name: list(run(rows, mentions, replies, strategy, tokens, EVICTED_AT))
                for strategy in (WINDOW, WATERMARK)})


def channel_figures(day: Day, tokens: Tokens) -> published.Figures:
    between = sorted(later - sooner - 1 for sooner, later in zip(day.mentions, day.mentions[1:]))
    example, _ = channel_render.example()
    label = channel_render.header(Watermark('', 0, ()), 0) + '\n'
    gap, longest = 'messages between mentions', channel_render.BODY_CHARACTERS
    return {('messages', ''): len(day.rows), ('mentions', ''): len(day.mentions),
            ('longer than 600 characters', ''): sum(len(row.body) > longest for row in day.rows),
            (gap, 'min'): between[0], (gap, 'median'): between[len(between) // 2], (gap, 'max'): between[-1],
            ('prefix: system prompt and 20 tools', ''): round(tokens.of(sim_channel.framing())),
            ('brief', ''): round(tokens.of(channel_render.mention_turn(example))),
            ('label of the context block', 'a turn'): round(tokens.of(label))}


def cache_figures(day: Day) -> published.Figures:
    figures: published.Figures = {}
    for name, turns in day.runs.items():
        figures['input, all turns', name] = round(sum(turn.input for turn in turns))
        figures['of it cacheable prefix', name] = round(sum(turn.cacheable for turn in turns))
        figures['cacheable ratio', name] = round(ratio(turns), 3)
        figures['not cached, a warm turn', name] = round(warm_uncached(turns))
        figures['channel context sent', name] = round(sum(turn.context for turn in turns))
        figures['of it read before', name] = round(sum(turn.seen for turn in turns))
        figures['channel rows sent', name] = sum(len(turn.rows) for turn in turns)
    sent, seen = figures['channel context sent', 'window'], figures['of it read before', 'window']
    figures['of it read before', 'window, percent'] = round(100 * seen / sent, 1)       # type: ignore[operator]
    return figures


def text_figures(day: Day, counter: Counter) -> published.Figures:
    window, watermark = day.runs['window'], day.runs['watermark']

    def warm(turns: Sequence[Turn], what: Callable[[Turn], float]) -> float:
        return round(sum(map(what, turns[1:])) / (len(turns) - 1), 1)
    return {('window sends more a warm turn', 'than watermark'):
            round(100 * (warm_uncached(window) / warm_uncached(watermark) - 1), 1),
            ('status line before the system prompt', 'changes every turn'):
            len(counter.parts(sim_channel.status_line(0))),
            ('channel text a warm turn', 'window'): warm(window, lambda turn: turn.context),
            ('read before a warm turn', 'window'): warm(window, lambda turn: turn.seen),
            ('channel text a warm turn', 'watermark'): warm(watermark, lambda turn: turn.context)}


def eviction_figures(day: Day) -> published.Figures:
    figures: published.Figures = {('input, all turns', name): round(sum(turn.input for turn in turns))
                                              for name, turns in day.evicted.items()}
    cold = day.evicted['watermark'][EVICTED_AT]
    figures['cacheable at mention 15', 'watermark'] = cold.cacheable
    figures['rows the old process had seen, sent again', 'watermark'] = round(
        sum(turn.seen_by_others for turn in day.evicted['watermark']))
    return figures


def lost_figures(day: Day) -> published.Figures:
    never, burst = 'messages never shown', 'of them in bursts of more than 12'
    return {(never, 'window'): len(lost(day.rows, day.mentions, day.runs['window'])),
            (never, 'watermark'): len(lost(day.rows, day.mentions, day.runs['watermark'])),
            (burst, 'watermark'): lost_in_bursts(day.mentions)}


def beyond_figures(day: Day, plan: sim_channel.Plan, tokens: Tokens) -> published.Figures:
    """Prices over the 30 mentions, and the same channel kept going until a context of 200,000 tokens is full.

    The bounds are the straight line through the published 30 turns: first request + so many warm turns."""
    paid = {name: price(turns) for name, turns in day.runs.items()}
    row = 'price, reads at 0.1, writes at 1.25'
    figures: published.Figures = {
        (row, 'window / watermark'): round(paid['window'] / paid['watermark'], 3),
        (row, 'unstable prefix / watermark'): round(paid[UNSTABLE.name] / paid['watermark'], 3)}
    rows, mentions = sim_channel.channel(plan, MENTIONS_BEYOND)
    replies = sim_channel.replies(plan, MENTIONS_BEYOND)
    window, watermark, _ = published_cache.WARM_TURN          # a status line in front makes nothing grow faster
    growth = {'window': window, 'watermark': watermark, UNSTABLE.name: watermark}
    for strategy in STRATEGIES:
        found = passes(run(rows, mentions, replies, strategy, tokens), published_cache.FULL_AT)
        for limit, mention in zip(published_cache.FULL_AT, found):
            line = 1 + (limit - published_cache.FIRST_REQUEST) / growth[strategy.name]
            figures[f'mention that passes {limit:,} tokens', strategy.name] = Figure(
                mention, *(round(line * times) for times in published_cache.BESIDE_THE_LINE))
    return figures


def tables_under(counter: Counter) -> List[dict]:
    tokens, plan = Tokens(counter), sim_channel.ARTICLE
    day = play(plan, tokens)
    figures = ((published_cache.CHANNEL, channel_figures(day, tokens)), (published_cache.CACHE, cache_figures(day)),
               (published_cache.TEXT, text_figures(day, counter)),
               (published_cache.EVICTION, eviction_figures(day)), (published_cache.LOST, lost_figures(day)),
               (published_cache.BEYOND, beyond_figures(day, plan, tokens)))
    return [published.compare(table._replace(name=f'{table.name}; counted by {counter.name}'), here)
            for table, here in figures]


def tables() -> List[dict]:
    """Every table of article 2 under every counter at hand."""
    return [table for counter in counters() for table in tables_under(counter)]


# --- I/O ----------------------------------------------------------------------

def print_ranges(seeds: Sequence[int]) -> None:
    """The three-column table over other days in other channels: lowest and highest."""
    counter = counters()[0]
    days = [cache_figures(play(sim_channel.other_plan(seed), Tokens(counter))) for seed in seeds]
    print(f'{len(days)} other channels, 30 mentions each, counted by {counter.name}: lowest and highest')
    for row, column in days[0]:
        values = sorted(day[row, column] for day in days)       # type: ignore[type-var]
        print(f'  {row + ", " + column:45}  {published.number(values[0]):>12}  {published.number(values[-1]):>12}')


def svg(runs: Dict[str, List[Turn]]) -> str:
    """Input tokens by mention: three strategies, one line each, the part that is not cached dashed."""
    top, colours = max(turn.input for turns in runs.values() for turn in turns), ('#c0392b', '#2471a3', '#7d6608')
    lines = []
    for (name, turns), colour in zip(runs.items(), colours):
        whole = points([turn.input for turn in turns], top)
        fresh = points([turn.input - turn.cacheable for turn in turns], top)
        lines.append(f'<polyline points="{whole}" fill="none" stroke="{colour}"><title>{name}</title></polyline>'
                     f'<polyline points="{fresh}" fill="none" stroke="{colour}" stroke-dasharray="3 2"/>'
                     f'<text x="70" y="{40 + 16 * len(lines)}" fill="{colour}">{name} (dashed: not cached)</text>')
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" font-family="sans-serif" font-size="12">\n'
            f'<text x="20" y="18">input tokens by mention, up to {top:,.0f}</text>\n' + '\n'.join(lines) + '\n</svg>')


def points(values: Sequence[float], top: float) -> str:
    step = 600 / (len(values) - 1)
    return ' '.join(f'{20 + step * at:.1f},{340 - 310 * value / top:.1f}' for at, value in enumerate(values))


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('sim.py cache', __doc__)
    parser.add_argument('--seeds', type=sim_kb.seed_list,
                        help='play other channels instead and print the ranges: 1-5, 7 or 1,3,9')
    parser.add_argument('--svg', action='store_true', help='a picture on standard output')
    options = parser.parse_args(argv)
    if bool(options.seeds) + options.svg + options.json > 1:
        parser.error('one of --seeds, --svg and --json: the ranges, a picture or the tables')
    if options.seeds:
        print_ranges(options.seeds)
        return 0
    if options.svg:
        print(svg(play(sim_channel.ARTICLE, Tokens(counters()[0])).runs))
        return 0
    return published.report('sim.py cache', tables(), options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
