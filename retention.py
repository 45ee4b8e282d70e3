"""retention.py - how long what is kept, and the sweep that forgets the rest.

All articles: replays, events, activity and saved versions grow with every call, so each is kept for a stated time.
A cursor older than its log is told so (versioned.events_after: cursor_too_old) and is never answered with a gap; a
key older than its replay counts as new, so a write repeated after a month is checked against its expected_version
like any other.

    kept   30 days   replays, events            90 days   Recent activity, ended runs, answered tasks
          365 days   saved versions of Notes and records, an article's from when it was replaced (the current one of
                     each for ever)

Nothing of anybody's content is pruned. Not here: codes and tokens, which go when they expire (oauth_tokens.py).
"""
import sqlite3
import threading
from typing import Any, Callable, Sequence, Tuple

import activity
import kb_history
import note_people
import record_store
import session_store
import versioned
from versioned import Database, Refusal, Tx

# --- data ---------------------------------------------------------------------

DAY_US = 24 * 3600 * 1_000_000
Forget = Callable[[Tx, int], None]        # (tx, before_us)
KEPT_DAYS: Sequence[Tuple[int, Forget]] = (
    (30, versioned.prune), (90, activity.prune), (90, session_store.prune_runs),
    (365, note_people.prune_history), (365, record_store.prune_history), (365, kb_history.prune_versions))
EVERY_S = 3600

# --- I/O ----------------------------------------------------------------------

def sweep(db: Database, now_us: int) -> None:
    """One transaction each, so that nobody's edit waits for all of them."""
    for days, forget in KEPT_DAYS:
        with db.write() as tx:
            forget(tx, now_us - days * DAY_US)


class Sweeper:
    """Sweeps when the server starts and every hour. One server of several on a folder is enough; more do no harm."""

    def __init__(self, state: Any) -> None:
        self._state, self._closing = state, threading.Event()
        self._thread = threading.Thread(target=self._run, name='retention', daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                sweep(self._state.db, self._state.now_us())
            except (Refusal, sqlite3.Error):            # another process holds the file: in an hour, then
                pass
            if self._closing.wait(EVERY_S):
                return
