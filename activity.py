"""activity.py - Recent activity: every call of a connection, the refused ones too.

Article 6, the opening and "Chi fa cosa": each call is listed with its connection. A line says which connection,
which tool, which item, what came of it and when; it never holds an argument, an answer or a secret.

A write's line stands in the write's own transaction. Lines about reads and refusals are written together every
BATCH_S, so that a read costs no fsync of its own: a kill may lose the last of *those* lines.

Not here: who writes the lines (tools.call_tool), who may see them (owner_verbs.py).
"""
import sqlite3
import threading
from typing import Iterable, List, NamedTuple

from versioned import Database, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS activity (
    sequence   INTEGER PRIMARY KEY,
    connection TEXT NOT NULL,
    tool       TEXT NOT NULL,
    kind       TEXT NOT NULL,             -- of the item; empty for a tool of no one item
    id         TEXT NOT NULL,
    outcome    TEXT NOT NULL,             -- 'ok', or the code of the refusal
    at_us      INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS activity_by_connection ON activity (connection, sequence);
"""

BATCH_S = 0.1                             # how long a line about a read or a refusal may wait for the disk
MOST_WAITING = 100_000                    # lines kept while another process holds the database; then the oldest go
RECENT = 100                              # lines a page shows


class Line(NamedTuple):
    connection: str
    tool: str
    kind: str
    id: str
    outcome: str
    at_us: int


# --- rules --------------------------------------------------------------------

def record(tx: Tx, lines: Iterable[Line]) -> None:
    tx.executemany('INSERT INTO activity (connection, tool, kind, id, outcome, at_us) VALUES (?, ?, ?, ?, ?, ?)', lines)


def recent(tx: Tx, connection: str) -> List[Line]:
    """The newest first."""
    rows = tx.execute('SELECT connection, tool, kind, id, outcome, at_us FROM activity WHERE connection = ? '
                      'ORDER BY sequence DESC LIMIT ?', (connection, RECENT))
    return [Line._make(row) for row in rows]


def prune(tx: Tx, before_us: int) -> None:
    """Lines come in the order of time, so the old ones are the first: no index that every call would pay for."""
    row = tx.execute('SELECT sequence FROM activity WHERE at_us >= ? ORDER BY sequence LIMIT 1',
                     (before_us,)).fetchone()
    tx.execute('DELETE FROM activity WHERE sequence < ?', (row[0] if row else 2 ** 63 - 1,))


# --- I/O ----------------------------------------------------------------------

class Batch:
    """Lines about reads and refusals, written together every BATCH_S: a read then costs no fsync of its own.

    A kill may lose the last BATCH_S of these lines. A write's line is in the write's own transaction.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lines: List[Line] = []
        self._lock, self._flushing = threading.Lock(), threading.Lock()
        self._some, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name='activity', daemon=True)
        self._thread.start()

    def add(self, line: Line) -> None:
        with self._lock:
            self._lines.append(line)
        if not self._some.is_set():                     # setting it again takes a lock for nothing
            self._some.set()

    def flush(self) -> None:
        """Write what waits now; a page that shows Recent activity calls this first."""
        with self._flushing:                            # who finds nothing to write waits for what is being written
            with self._lock:
                lines, self._lines = self._lines, []
            try:
                if lines:
                    with self._db.write() as tx:
                        record(tx, lines)
            except (Refusal, sqlite3.Error):            # another process holds the file: the lines wait
                with self._lock:
                    self._lines = (lines + self._lines)[-MOST_WAITING:]

    def close(self) -> None:
        self._closing.set()
        self._some.set()
        self._thread.join()
        self.flush()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._some.wait()
            self._closing.wait(BATCH_S)
            self._some.clear()
            self.flush()
