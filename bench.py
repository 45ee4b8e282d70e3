"""bench.py - the timing tables of the articles beside ours, and ours beside the alternatives.

    python3 bench.py                  a short run of most of them: a minute on two idle cores
    python3 bench.py COMMAND          one table in full
    python3 bench.py COMMAND --help   what it measures, and its options
    python3 bench.py COMMAND --json   the same as one JSON object

Timings are medians with spread, alternated in one run where two things are compared, and judged by order and ratio:
a machine is as fast as it is, and a busy one may break an order. Exit status: 0 every figure that must hold does, 1
one does not, 2 usage. Not here: the measurements themselves (bench_COMMAND.py).
"""
import sys
from typing import Dict, Sequence

import bench_access
import bench_codex
import bench_kb
import bench_notes
import bench_peers
import bench_power
import bench_proposals
import bench_render
import bench_search
import bench_server
import bench_warm
import bench_wire
import bench_wrap
import ending
import published
from published import Command

# --- data ---------------------------------------------------------------------

COMMANDS: Dict[str, Command] = {                         # in the order of the articles
    'kb': Command(bench_kb.main, 'article 1: the store beside the bare statements, eight writers, a poll; 35 s'),
    'search': Command(bench_search.main, 'article 1: a search beside LIKE and FTS5, up to 20,000 articles; 8 s',
                      ['--sizes', '400,10000', '--repeats', '9']),
    'power': Command(bench_power.main, 'article 1: what a power cut takes from a write-ahead log; 3 s',
                     ['--copies', '100']),
    'render': Command(bench_render.main, 'article 2: rendering a turn, counting tokens, a commit; 10 s', []),
    'warm': Command(bench_warm.main, 'article 2: the mentions through the real Claude Code; 85 s, --judges DIR'),
    'codex': Command(bench_codex.main, 'article 3: events, first byte to exit, failures, kills, stderr; 50 s'),
    'wrap': Command(bench_wrap.main, 'article 3: what the wrapper costs; 30 s'),
    'peers': Command(bench_peers.main, 'article 3: the 22 cases on published wrappers; 2 min, --judges DIR'),
    'proposals': Command(bench_proposals.main, 'article 4: what a proposal costs, processes, other ways; 3 min',
                         ['--n', '3']),
    'notes': Command(bench_notes.main, 'article 5: a range and an edit, in small Notes and in large ones; 20 s', []),
    'access': Command(bench_access.main, 'article 7: the check at every call, up to a million items; 20 s',
                      ['--items', '10,10000']),
    'server': Command(bench_server.main, 'article 7: requests a second of the whole server; 25 s, --sdk PYTHON',
                      ['--rounds', '11', '--requests', '40', '--calls', '22000']),
    'wire': Command(bench_wire.main, 'article 7: our HTTP beside http.server; 6 s', ['--rounds', '3']),
}

# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    return published.dispatch('bench.py', __doc__, COMMANDS, argv)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
