"""bench_warm.py - the simulation of article 2 on the real Claude Code: 30 mentions through resident processes.

The channel, the mentions and the answers are the simulation's (sim_channel.py); the program is the real one, the model
a stand-in on this machine (fake_messages.py) that keeps every request. A request is compared with the one before it in
the order in which a provider reads it: tools, system, messages, without the marks of its cache breakpoints. Window and
watermark are one process each. Nothing can change a resident's system prompt, so for the unstable prefix the status
line is put in front of it by ending the process and resuming its session with another --system-prompt, every turn.

    python3 bench.py warm --judges DIR                 85 s; DIR/npm has @anthropic-ai/claude-code
    python3 bench.py warm --judges DIR --mentions 6    the same, shorter; nothing is judged
    python3 bench.py warm --json                       one JSON object

Not here: the simulation (sim_cache.py), the process (resident_claude.py), prices.
"""
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import channel_render
import ending
import fake_messages
import published
import published_warm
import resident_claude
import sim_cache
import sim_channel
from sim_cache import EVICTED_AT, UNSTABLE, WATERMARK, WINDOW, Strategy, Tokens
from token_counter import counter_of_ours

# --- data ---------------------------------------------------------------------

MENTIONS = 30
# Without it the first process of an empty HOME names another model than later ones do, in the middle of a tool's
# description: a restart would then keep 4 % of the request before it.
MODEL = ('--model', 'claude-sonnet-4-5')
FRESH, RESUMED = 'a new process', 'the saved session'


class Turn(NamedTuple):
    """A request beside the one before it, in our tokens and in bytes."""
    tokens: float
    cacheable: float                 # of them the longest common prefix
    previous: float                  # tokens of the one before; 0: the first
    size_bytes: int
    prefix_bytes: int
    breakpoints: Tuple[str, ...]


# --- rules --------------------------------------------------------------------

def segments(body: dict) -> List[str]:
    """What the provider reads, in its order, cut where nothing of the program's own can move: one text a line."""
    texts = [json.dumps(without_marks(tool)) for tool in body['tools']]
    texts += [json.dumps(without_marks(block)) for block in blocks(body['system'])]
    texts += [f'{message["role"]}: {json.dumps(without_marks(block))}'
              for message in body['messages'] for block in blocks(message['content'])]
    return [text + '\n' for text in texts]


def blocks(content: object) -> List[dict]:
    """A text and a list of one text block are one content in two spellings; the program uses both for one message."""
    return [{'type': 'text', 'text': content}] if isinstance(content, str) else list(content)


def without_marks(value: object) -> object:
    """The mark of a breakpoint is no part of the prompt, and moves from turn to turn."""
    if isinstance(value, dict):
        return {key: without_marks(inner) for key, inner in value.items() if key != 'cache_control'}
    return [without_marks(inner) for inner in value] if isinstance(value, list) else value


def breakpoints(body: dict) -> Tuple[str, ...]:
    """Where cache_control stands: by section, messages counted from the end."""
    found = [f'{section} {number}' for section in ('tools', 'system')
             for number, block in enumerate(blocks(body[section]), 1) if 'cache_control' in block]
    for number, message in enumerate(body['messages']):
        if any('cache_control' in block for block in blocks(message['content'])):
            found.append(f'message {number - len(body["messages"])} ({message["role"]})')
    return tuple(found)


def beside(before: Sequence[str], now: Sequence[str], body: dict, tokens: Tokens) -> Turn:
    """The longest common prefix: whole segments, then what two different ones have in common."""
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    kept = list(now[:same])
    if same < min(len(before), len(now)):
        kept.append(os.path.commonprefix([before[same], now[same]]))
    cacheable = sum(map(tokens.of, kept[:same])) + (len(tokens.counter.parts(kept[-1])) if len(kept) > same else 0)
    return Turn(sum(map(tokens.of, now)), cacheable, sum(map(tokens.of, before)), size(now), size(kept),
                breakpoints(body))


def size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def read(exchanges: Sequence[fake_messages.Exchange], tokens: Tokens) -> Iterator[Turn]:
    before: List[str] = []
    for exchange in exchanges:
        now = segments(exchange.body)
        yield beside(before, now, exchange.body, tokens)
        before = now


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def strategy_figures(name: str, turns: Sequence[Turn]) -> published.Figures:
    warm = turns[1:]
    return {('requests', name): len(turns),
            ('first request', name): round(turns[0].tokens),
            ('input, all turns', name): round(sum(turn.tokens for turn in turns)),
            ('of it cacheable prefix', name): round(sum(turn.cacheable for turn in turns)),
            ('cacheable ratio', name): round(sum(t.cacheable for t in turns) / sum(t.tokens for t in turns), 3),
            ('of the request before, kept', name): round(100 * mean([t.cacheable / t.previous for t in warm]), 1),
            ('common prefix, a warm turn', name): round(mean([turn.prefix_bytes for turn in warm])),
            ('not cached, a warm turn', name): round(mean([turn.tokens - turn.cacheable for turn in warm])),
            ('cache breakpoints a request', name): len(turns[-1].breakpoints)}


def eviction_figures(restarted: Dict[str, List[Turn]]) -> published.Figures:
    figures: published.Figures = {}
    for how, turns in restarted.items():
        turn = turns[-1]
        figures['request at mention 15', how] = round(turn.tokens)
        figures['of it cacheable', how] = round(turn.cacheable)
        figures['of the request before, kept', how] = round(100 * turn.cacheable / turn.previous, 1)
    return figures


# --- I/O ----------------------------------------------------------------------

def play(program: str, strategy: Strategy, mentions_played: int, tokens: Tokens, restart: str = '') -> List[Turn]:
    """The mentions under one strategy, in an empty HOME. `restart`: end the process before the last one."""
    plan = sim_channel.ARTICLE
    rows, mentions = sim_channel.channel(plan, MENTIONS)
    model = fake_messages.Model(sim_channel.replies(plan, MENTIONS))
    process: Optional[resident_claude.ClaudeProcess] = None
    watermark = None
    with tempfile.TemporaryDirectory(prefix='warm-') as home:
        try:
            for turn, at in enumerate(mentions[:mentions_played]):
                last = turn == mentions_played - 1
                if process is not None and (strategy.status_line or restart and last):
                    process.end()
                    native = process.native if restart != FRESH else None
                    watermark = watermark if native else None
                    process = start(program, home, model.url, strategy, turn, native)
                process = process or start(program, home, model.url, strategy, turn, None)
                shown = channel_render.mention_context(sim_cache.window_of(rows, at), rows[at].id, None, watermark)
                process.turn(channel_render.mention_turn(sim_channel.mention_of(rows[at], turn), shown.text))
                watermark = channel_render.advance(watermark, 'native', shown) if strategy.remembers else None
                published.progress(f'{strategy.name}: mention {turn + 1} of {mentions_played}')
        finally:
            if process is not None:
                process.end()
            model.close()
    return list(read(model.exchanges, tokens))


def start(program: str, home: str, url: str, strategy: Strategy, turn: int,
          native: Optional[str]) -> resident_claude.ClaudeProcess:
    folder = os.path.join(home, 'project')
    os.makedirs(folder, exist_ok=True)
    head = sim_channel.status_line(turn) if strategy.status_line else ''
    flags = [*MODEL, '--system-prompt', head + sim_channel.framing()]
    return resident_claude.ClaudeProcess(
        resident_claude.Setting(program, folder, resident_claude.environment(home, url), flags), native)


def claude_code(judges: Optional[str]) -> Optional[str]:
    """The program ships in the package of its platform."""
    found = glob.glob(os.path.join(judges or '', 'npm', 'node_modules', '@anthropic-ai', 'claude-code-*', 'claude'))
    return found[0] if judges and found else None


def version(program: str) -> str:
    done = subprocess.run([program, '--version'], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout.split(' ')[0].strip()


def measure(program: str, mentions: int, as_json: bool) -> List[dict]:
    tokens = Tokens(counter_of_ours())
    jobs = {strategy.name: (strategy, mentions, '') for strategy in (WINDOW, WATERMARK, UNSTABLE)}
    evicted = min(EVICTED_AT + 1, mentions)
    jobs.update({how: (WATERMARK, evicted, how) for how in (FRESH, RESUMED)})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = {name: pool.submit(play, program, job[0], job[1], tokens, job[2]) for name, job in jobs.items()}
        played = {name: future.result() for name, future in running.items()}
    published.progress('')
    figures: published.Figures = {}
    for strategy in (WINDOW, WATERMARK, UNSTABLE):
        figures.update(strategy_figures(strategy.name, played[strategy.name]))
    uncached = [figures['not cached, a warm turn', name] for name in (WINDOW.name, WATERMARK.name)]
    figures['window sends more a warm turn', 'than watermark'] = round(100 * (uncached[0] / uncached[1] - 1), 1)
    places = played[WATERMARK.name][-1].breakpoints
    published.note(f'Claude Code {version(program)}; breakpoints after: {", ".join(places)}', as_json)
    evictions = eviction_figures({how: played[how] for how in (FRESH, RESUMED)})
    return [published.compare(published_warm.WARM, figures), published.compare(published_warm.EVICTED, evictions)]


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py warm', __doc__)
    parser.add_argument('--judges', default=os.environ.get('JUDGES'), metavar='DIR',
                        help='a folder whose npm/ has @anthropic-ai/claude-code; default: the variable JUDGES')
    parser.add_argument('--mentions', type=int, default=MENTIONS, help=f'2 to {MENTIONS}; the article has {MENTIONS}')
    args = parser.parse_args(argv)
    if not 2 <= args.mentions <= MENTIONS:
        parser.error(f'--mentions: 2 to {MENTIONS}')
    program = claude_code(args.judges)
    if program is None:
        tables = [published.compare(published_warm.not_here(table), {}) for table in published_warm.TABLES]
        return published.report('bench.py warm', tables, args.json)
    tables = measure(program, args.mentions, args.json)
    status = published.report('bench.py warm', tables, args.json)
    return status if args.mentions == MENTIONS else 0


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
