"""bench_render.py - what rendering a turn, counting a simulation and committing a watermark cost (article 2).

The section "La simulazione" gives one timing: 1.23 s for the whole run, nearly all of it tokenising. Here: the whole
program, the five runs against tokenising their texts, `render` of 12 rows out of 30, and a commit beside ten channels
and beside ten thousand. CPU time, alternated where two things are compared, the best of several rounds.

    python3 bench.py render            10 seconds
    python3 bench.py render --json     the same as one JSON object

Not here: the tables of tokens (sim.py cache).
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable, List, Sequence

import channel_render
import ending
import published
import published_cache
import sim_cache
import sim_channel
import watermarks
from channel_render import Row, Watermark
from token_counter import counter_of_ours

# --- data ---------------------------------------------------------------------

ROUNDS = 7
RENDERS, RENDER_ROUNDS = 100, 60                # short rounds and many: some fall between two neighbours' turns
COMMITS = 40
CHANNELS = (10, 10_000)
HERE = os.path.dirname(os.path.abspath(__file__))

# --- rules --------------------------------------------------------------------

def all_runs(day: Sequence, tokens: sim_cache.Tokens) -> None:
    rows, mentions, replies = day
    for strategy in sim_cache.STRATEGIES:
        list(sim_cache.run(rows, mentions, replies, strategy, tokens))
    for strategy in (sim_cache.WINDOW, sim_cache.WATERMARK):
        list(sim_cache.run(rows, mentions, replies, strategy, tokens, sim_cache.EVICTED_AT))


def segments(day: Sequence) -> List[str]:
    """Prefix, every turn of every run, and every reply: what a counter that keeps only these would have to cut."""
    rows, mentions, replies = day
    texts = [sim_channel.framing(), *replies]
    for remembers, evicted in ((False, None), (True, None), (True, None), (False, sim_cache.EVICTED_AT),
                               (True, sim_cache.EVICTED_AT)):
        watermark = None
        for turn, at in enumerate(mentions):
            watermark = None if turn == evicted else watermark
            shown = channel_render.mention_context(sim_cache.window_of(rows, at), rows[at].id, None, watermark)
            texts.append(channel_render.mention_turn(sim_channel.mention_of(rows[at], turn), shown.text))
            watermark = channel_render.advance(watermark, 'native', shown) if remembers else None
    return texts


def cpu_s(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def tokenise(texts: Sequence[str]) -> None:
    counter = counter_of_ours()
    for text in texts:
        counter.weigh(counter.parts(text))


# --- I/O ----------------------------------------------------------------------

def whole_program_s() -> float:
    """User and system time of `sim.py cache` in a process of its own, under our counter alone."""
    hidden = 'import sys, token_counter, sim; ' \
             'token_counter.counter_of_tiktoken = lambda: None; sys.exit(sim.main(["cache"]))'
    best = float('inf')
    for _ in range(ROUNDS):
        before = os.times()
        subprocess.run([sys.executable, '-c', hidden], cwd=HERE, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        best = min(best, after.children_user + after.children_system
                   - before.children_user - before.children_system)
    return best


def run_figures() -> published.Figures:
    rows, mentions = sim_channel.channel(sim_channel.ARTICLE, len(sim_channel.ARTICLE.gaps) + 1)
    day = (rows, mentions, sim_channel.replies(sim_channel.ARTICLE, len(mentions)))
    texts, runs, whole, different = segments(day), [], [], []
    for _ in range(ROUNDS):
        tokens = sim_cache.Tokens(counter_of_ours())
        runs.append(cpu_s(lambda: all_runs(day, tokens)))
        whole.append(cpu_s(lambda: tokenise(texts)))
        different.append(cpu_s(lambda: tokenise(list(tokens.known))))
    return {('the five runs', 'times tokenising every prefix, turn and reply once'): round(min(runs) / min(whole), 2),
            ('the five runs', 'times tokenising every different text once'): round(min(runs) / min(different), 2)}


def render_figures() -> published.Figures:
    rows = sim_channel.channel(sim_channel.ARTICLE, len(sim_channel.ARTICLE.gaps) + 1)[0][-30:]
    old = Watermark('native', -1, tuple(f'old-{at}' for at in range(channel_render.WATERMARK_IDS)))
    figures: published.Figures = {}
    for column, watermark in (('snapshot', None), ('watermark of 200 ids', old)):
        assert len(channel_render.render(rows, rows[-1].id, watermark).rows) == 12

        def many() -> None:
            for _ in range(RENDERS):
                channel_render.render(rows, rows[-1].id, watermark)
        figures['render, 12 of 30 rows', column] = round(
            min(cpu_s(many) for _ in range(RENDER_ROUNDS)) / RENDERS * 1e6, 1)
    return figures


def commit_figures() -> published.Figures:
    """Alternated commit by commit, median against median: a disk's mood hits both alike."""
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        folders = [fill(folder, count) for folder, count in zip((few, many), CHANNELS)]
        times: List[List[float]] = [[], []]
        for turn in range(COMMITS):
            for marks, spent in zip(folders, times):
                start = time.perf_counter()
                commit_once(marks, turn)
                spent.append(time.perf_counter() - start)
    return {('commit beside 10,000 channels', 'times beside ten'):
            round(statistics.median(times[1]) / statistics.median(times[0]), 2)}


def fill(folder: str, channels: int) -> watermarks.Marks:
    marks = watermarks.open_marks(folder)
    watermark = Watermark('native', 5, tuple(f'm{at}' for at in range(30)))
    for at in range(channels):
        key = watermarks.Key('s1', f'ch-{at}', None)
        with open(watermarks.path_of(marks, key), 'wb') as file:
            file.write(watermarks.encode(key, watermark))
    return marks


def commit_once(marks: watermarks.Marks, turn: int) -> None:
    shown = channel_render.render([Row(f'n{turn}', 'user', 'aiko', 'text', turn)], 'none')
    watermarks.stage(marks, 'run', watermarks.Key('s1', 'ch-3', None), 'native', shown)
    watermarks.commit(marks, 'run')


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py render', __doc__)
    options = parser.parse_args(argv)
    figures: published.Figures = {('sim.py cache, whole program', 'CPU'): round(whole_program_s(), 2)}
    for part in (run_figures, render_figures, commit_figures):
        figures.update(part())
    return published.report('bench.py render', [published.compare(published_cache.COST, figures)], options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
