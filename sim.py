"""sim.py - the staleness and the cache tables of articles 1 and 2, each figure beside ours.

    python3 sim.py                  both articles, every figure (10 s)
    python3 sim.py --json           the same as one JSON object
    python3 sim.py COMMAND          one of the tables, or what lies behind it
    python3 sim.py COMMAND --help   what a command shows, and its options

Exit status: 0 every figure holds, 1 one does not, 2 usage. Not here: the days themselves (sim_kb.py, sim_cache.py),
timings (bench.py).
"""
import sys
from typing import Dict, Sequence

import ending
import published
import sim_cache
import sim_closed
import sim_growth
import sim_kb
from published import Command

# --- data ---------------------------------------------------------------------

COMMANDS: Dict[str, Command] = {
    'kb': Command(sim_kb.main, 'article 1: how fast citations go stale, what checks cost, late edits; 7 s'),
    'closed-form': Command(sim_closed.main, 'article 1: where these figures come from; 7 s'),
    'growth': Command(sim_growth.main, 'article 1: how they grow with citations and with changes; 2 s'),
    'cache': Command(sim_cache.main, 'article 2: 30 mentions, three strategies; 0.3 s'),
}

# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    if list(argv) in ([], ['--json']):
        return published.report('sim.py', [*sim_kb.tables(), *sim_cache.tables()], as_json=bool(argv))
    return published.dispatch('sim.py', __doc__, COMMANDS, argv)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
