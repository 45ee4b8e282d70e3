"""bench.py - the timing tables of the articles beside ours, and ours beside the alternatives.

    python3 bench.py                  what finishes in a minute
    python3 bench.py COMMAND          one table
    python3 bench.py COMMAND --help   what it measures, and its options

Timings are medians with spread, alternated in one run where two things are compared, and judged by order and ratio:
a machine is as fast as it is. Not here: the measurements themselves (bench_COMMAND.py).
"""
import sys
from typing import Callable, Dict, Sequence

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
import published

# --- data ---------------------------------------------------------------------

COMMANDS: Dict[str, Callable[[Sequence[str]], int]] = {
    'access': bench_access.main,
    'codex': bench_codex.main,
    'kb': bench_kb.main,
    'notes': bench_notes.main,
    'peers': bench_peers.main,
    'power': bench_power.main,
    'proposals': bench_proposals.main,
    'render': bench_render.main,
    'search': bench_search.main,
    'server': bench_server.main,
    'warm': bench_warm.main,
    'wire': bench_wire.main,
    'wrap': bench_wrap.main,
}
IN_A_MINUTE: Dict[str, Sequence[str]] = {                # command -> its arguments in the run without arguments
    'access': [],
    'kb': ['--rounds', '1'],
    'notes': [],
    'power': ['--copies', '50'],
    'proposals': ['--n', '10'],
    'render': [],
    'server': ['--rounds', '31', '--requests', '40', '--calls', '30000'],
}

# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    if argv and argv[0] in COMMANDS:
        return COMMANDS[argv[0]](argv[1:])
    if argv:
        asked = argv[0] in ('-h', '--help')
        print(__doc__ + '\nCommands: ' + ', '.join(COMMANDS), file=sys.stdout if asked else sys.stderr)
        if not asked:
            print(f'bench.py: {argv[0]!r} is none of them', file=sys.stderr)
        return 0 if asked else 2
    return max([COMMANDS[name](arguments) for name, arguments in IN_A_MINUTE.items()], default=0)


if __name__ == '__main__':
    sys.exit(published.run(main, sys.argv[1:]))
