"""sim.py - the staleness and the cache tables of articles 1 and 2, each figure beside ours.

    python3 sim.py                  both articles, every figure
    python3 sim.py --json           the same as one JSON object
    python3 sim.py COMMAND --help   what a command shows, and its options

Not here: the days themselves (sim_kb.py, sim_cache.py), timings (bench.py).
"""
import sys
from typing import Callable, Dict, List, Sequence

import published
import sim_cache
import sim_closed
import sim_growth
import sim_kb

# --- data ---------------------------------------------------------------------

# What one command says of itself, and its main. `tables()` of the first two makes the run without arguments.
COMMANDS: Dict[str, Callable[[Sequence[str]], int]] = {
    'kb': sim_kb.main,
    'closed-form': sim_closed.main,
    'growth': sim_growth.main,
    'cache': sim_cache.main,
}
TABLES: List[Callable[[], List[dict]]] = [
    sim_kb.tables,
    sim_cache.tables,
]

# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    if argv and argv[0] in COMMANDS:
        return COMMANDS[argv[0]](argv[1:])
    if list(argv) not in ([], ['--json']):
        asked = argv[0] in ('-h', '--help')
        print(__doc__ + '\nCommands: ' + ', '.join(COMMANDS), file=sys.stdout if asked else sys.stderr)
        if not asked:
            print(f'sim.py: {argv[0]!r} is none of them', file=sys.stderr)
        return 0 if asked else 2
    return published.report('sim.py', [table for tables in TABLES for table in tables()], as_json=bool(argv))


if __name__ == '__main__':
    sys.exit(published.run(main, sys.argv[1:]))
