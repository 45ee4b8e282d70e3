"""client.py - the scripted Claude and the scripted owner: every run that articles 4 to 7 print, played for real.

    python3 client.py                  all runs; each starts its own server on a free port
    python3 client.py RUN              one of them
    python3 client.py RUN --help       what it plays, and its options

Exit status 1 unless each line says what the article's line says. Not here: the runs themselves (runs_*.py), how a
host finds the sign-in and calls a tool (host.py).
"""
import sys
from typing import Callable, Dict, Sequence

import published
import runs_access
import runs_hello
import runs_notes
import runs_project
import runs_proposals
import runs_race
import runs_setup
import runs_signin

# --- data ---------------------------------------------------------------------

COMMANDS: Dict[str, Callable[[Sequence[str]], int]] = {
    'scenario': runs_proposals.main, 'race': runs_race.race_main, 'crash': runs_race.crash_main,
    'notes': runs_notes.main, 'setup': runs_setup.main, 'project': runs_project.main,
    'hello': runs_hello.main, 'access': runs_access.main,
    'connect': runs_signin.main_connect, 'call': runs_signin.main_call,
}
ALL: Sequence[str] = (                                   # the run without arguments, in the order of the articles
    'scenario', 'race', 'crash', 'notes', 'setup', 'project', 'hello', 'access',
)

# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    if argv and argv[0] in COMMANDS:
        return COMMANDS[argv[0]](argv[1:])
    if argv:
        asked = argv[0] in ('-h', '--help')
        print(__doc__ + '\nRuns: ' + ', '.join(COMMANDS), file=sys.stdout if asked else sys.stderr)
        if not asked:
            print(f'client.py: {argv[0]!r} is none of them', file=sys.stderr)
        return 0 if asked else 2
    return max([COMMANDS[name]([]) for name in ALL], default=0)


if __name__ == '__main__':
    sys.exit(published.run(main, sys.argv[1:]))
