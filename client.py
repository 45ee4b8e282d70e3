"""client.py - the scripted Claude and the scripted owner: every run that articles 4 to 7 print, played for real.

    python3 client.py                  all runs, race and crash with fewer trials: half a minute
    python3 client.py RUN              one of them in full
    python3 client.py RUN --help       what it plays, and its options
    python3 client.py RUN --json       the tables as one JSON object

Each run starts a server of its own on a free port and ends it. Exit status: 0 each line says what the article's line
says, 1 one does not, 2 usage. Not here: the runs themselves (runs_*.py), how a host finds the sign-in and calls a tool
(host.py).
"""
import sys
from typing import Dict, Sequence

import ending
import published
import runs_access
import runs_hello
import runs_notes
import runs_project
import runs_proposals
import runs_race
import runs_setup
import runs_signin
from published import Command

# --- data ---------------------------------------------------------------------

COMMANDS: Dict[str, Command] = {                         # in the order of the articles
    'scenario': Command(runs_proposals.main, 'article 4: the transcript, fourteen lines and the log; 3 s', []),
    'race': Command(runs_race.race_main, 'article 4: two approvals at one instant; 1 min',
                    ['--trials', '10', '--runs', '1', '--more', '5']),
    'crash': Command(runs_race.crash_main, 'article 4: a crash between git and the database; 30 s, --kill N for real',
                     ['--trials', '10', '--runs', '1']),
    'notes': Command(runs_notes.main, 'article 5: Claude edits a Note beside Mika; 2 s', []),
    'setup': Command(runs_setup.main, 'article 6: from Add assistant to Revoke connection, click by click; 1 s', []),
    'project': Command(runs_project.main, 'article 6: the real run, and each of its limits; 2 s', []),
    'hello': Command(runs_hello.main, 'article 7: what a client sees before it has a token; 1 s', []),
    'access': Command(runs_access.main, 'article 7: nine steps, in both designs of the check; 2 s', []),
    'connect': Command(runs_signin.main_connect, 'article 7: you sign in to a server, in your browser'),
    'call': Command(runs_signin.main_call, 'articles 6 and 7: you call one tool, after a question where it writes'),
}

# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    return published.dispatch('client.py', __doc__, COMMANDS, argv)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
