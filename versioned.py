"""versioned.py - versions that only grow, writes that happen once, and one event log to resume from.

Articles 1, 4, 5, 6 and 7 rest on the same four promises, kept here and nowhere else:
  - a change is compared, made, logged and remembered in one transaction (article 1, "La ricostruzione");
  - a version is never given twice, whatever the clock does;
  - a retried call gets the first answer, and a key used for another call is refused (article 4, intake);
  - every saved change is an event with a gapless sequence for each container (article 1, the poll).
The only file that says BEGIN, COMMIT and ROLLBACK. Every store takes the transaction as its first argument.

Not here: what is versioned (kb_store.py, note_store.py, record_store.py, ...), who may do it (access.py).
"""
import hashlib
import json
import re
import sqlite3
import threading
import time
from collections import deque
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Callable, Deque, Iterator, NamedTuple, Optional, Sequence, Tuple

# --- data ---------------------------------------------------------------------

SCHEMA = """
-- One row a container (a knowledge base, a Note, a channel): where its log and its clock stand.
CREATE TABLE IF NOT EXISTS logs (
    ref_kind       TEXT NOT NULL,
    ref_id         TEXT NOT NULL,
    last_us        INTEGER NOT NULL,      -- the newest stamp given: the next one is later, whatever the clock says
    last_sequence  INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL,      -- the oldest event still kept: a cursor before it is told so
    PRIMARY KEY (ref_kind, ref_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    ref_kind TEXT NOT NULL,
    ref_id   TEXT NOT NULL,
    sequence INTEGER NOT NULL,            -- order by this, never by time: clocks go back
    type     TEXT NOT NULL,
    item_id  TEXT NOT NULL,
    stamp_us INTEGER NOT NULL,
    PRIMARY KEY (ref_kind, ref_id, sequence)
) WITHOUT ROWID;
-- A refusal stores nothing, so that its key works after a re-read.
CREATE TABLE IF NOT EXISTS replays (
    actor     TEXT NOT NULL,
    key       TEXT NOT NULL,
    body_hash BLOB NOT NULL,              -- of the tool and its arguments as sent, before any default is filled in
    answer    TEXT NOT NULL,
    stored_us INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
) WITHOUT ROWID;
"""

# The reader's pages: among a million rows SQLite's own 2 MiB are too few. The writer keeps its 2 MiB: what it appends,
# Recent activity above all, nobody reads again, and 64 MiB of it would be the memory of a long-lived server.
CACHE_KIB = 64 * 1024
BUSY_TIMEOUT_S = 30.0                     # how long a second process waits for the writer
KEY_LENGTH = (8, 128)                     # characters of an idempotency key (article 4: no empty and no one-letter key)
POLL_LIMIT = (1, 100)                     # events an answer (article 1)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DATE_TIME = re.compile(r'([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?'
                       r'(Z|[+-][0-9]{2}:[0-9]{2})')
ITEM_FIELD = {'knowledge_base': 'article_id', 'note': 'tab_id', 'channel': 'message_id', 'session': 'run_id'}

Tx = sqlite3.Connection                   # inside a transaction that somebody above began


class Ref(NamedTuple):
    """A container that has a version clock and an event log of its own: ('knowledge_base', 'kb'), ('note', 'n1')."""
    kind: str
    id: str


class Refusal(Exception):
    """Nothing was written. `code` is stable; `data` is what the next call needs."""

    def __init__(self, code: str, message: str, **data: Any):
        super().__init__(message)
        self.code, self.data = code, data

    def as_dict(self) -> dict:
        return {'error': self.code, 'message': str(self), **self.data}


def invalid(field: str, limit: str) -> Refusal:
    """The refusal of a malformed argument: it names the field and the limit."""
    return Refusal('invalid_argument', f'{field} must be {limit}', field=field, limit=limit)


# --- rules --------------------------------------------------------------------

def next_stamp(tx: Tx, ref: Ref, current_us: int, now_us: int) -> int:
    """The version of the write under way: later than the item's current one and than every stamp of its container.

    A frozen, coarse or backward clock would otherwise give two saves one version, and a writer who
    holds the first would pass for current after the second (article 1: the citation is the version).
    """
    row = tx.execute('SELECT last_us FROM logs WHERE ref_kind = ? AND ref_id = ?', ref).fetchone()
    stamp_us = max(now_us, current_us + 1, row[0] + 1 if row else 0)
    tx.execute('INSERT INTO logs VALUES (?, ?, ?, 0, 1) '
               'ON CONFLICT (ref_kind, ref_id) DO UPDATE SET last_us = excluded.last_us', (*ref, stamp_us))
    return stamp_us


def record_event(tx: Tx, ref: Ref, kind: str, item_id: str, stamp_us: int) -> int:
    """Append one event to the log of `ref` and return its sequence: 1, 2, 3, ... without a gap for each container."""
    tx.execute('INSERT INTO logs VALUES (?, ?, ?, 1, 1) ON CONFLICT (ref_kind, ref_id) DO UPDATE '
               'SET last_sequence = last_sequence + 1, last_us = max(last_us, excluded.last_us)', (*ref, stamp_us))
    sequence = tx.execute('SELECT last_sequence FROM logs WHERE ref_kind = ? AND ref_id = ?', ref).fetchone()[0]
    tx.execute('INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)', (*ref, sequence, kind, item_id, stamp_us))
    return sequence


def log_ends(tx: Tx, ref: Ref) -> Tuple[int, int]:
    """The sequences of the oldest event that the log still holds, or would hold, and of the newest, 0 before any."""
    row = tx.execute('SELECT first_sequence, last_sequence FROM logs WHERE ref_kind = ? AND ref_id = ?', ref).fetchone()
    return row or (1, 0)


def events_after(tx: Tx, ref: Ref, after: int, limit: int) -> dict:
    """One page of the log: {"events": [...], "next_sequence": N, "has_more": bool}; N is the next `after`.

    Refuses cursor_too_old when events after the cursor were pruned: the reader would miss changes without knowing.
    """
    check_integer('after_sequence', after, 0, 2 ** 63 - 1)
    check_integer('limit', limit, *POLL_LIMIT)
    first, last = log_ends(tx, ref)
    if after + 1 < first:
        raise Refusal('cursor_too_old', f'the log begins at {first}: read again what you cite, then poll from {last}',
                      first_sequence=first, next_sequence=last)
    rows = tx.execute('SELECT sequence, type, item_id, stamp_us FROM events WHERE ref_kind = ? AND ref_id = ? '
                      'AND sequence > ? ORDER BY sequence LIMIT ?', (*ref, after, limit)).fetchall()
    item = ITEM_FIELD.get(ref.kind, 'item_id')
    events = [{'sequence': sequence, 'type': kind, item: item_id, 'updated_at': stamp_text(stamp_us)}
              for sequence, kind, item_id, stamp_us in rows]
    # A cursor past the end (a restored backup) comes back to the end instead of waiting for events that were.
    reached = rows[-1][0] if rows else min(after, last)
    return {'events': events, 'next_sequence': reached, 'has_more': reached < last}


def last_sequence(tx: Tx, ref: Ref) -> int:
    """Where the log of `ref` ends: a cursor for somebody who begins now. 0 before the first event."""
    row = tx.execute('SELECT last_sequence FROM logs WHERE ref_kind = ? AND ref_id = ?', ref).fetchone()
    return row[0] if row else 0


def once(tx: Tx, actor: str, key: str, tool: str, arguments: dict, work: Callable[[], dict]) -> dict:
    """Do `work` once for (actor, key) and remember its answer; the same call again gets it with replayed: true.

    Raises idempotency_key_reused_with_different_body when the key stands for another tool or other arguments.
    """
    check_key(key)
    digest = body_hash(tool, arguments)
    row = tx.execute('SELECT body_hash, answer FROM replays WHERE actor = ? AND key = ?', (actor, key)).fetchone()
    if row is None:
        answer = work()
        tx.execute('INSERT INTO replays VALUES (?, ?, ?, ?, ?)',
                   (actor, key, digest, json.dumps(answer), time.time_ns() // 1000))
        return answer
    if row[0] != digest:
        raise Refusal('idempotency_key_reused_with_different_body',
                      f'the key {key!r} was used for another call: use a new key for a new call')
    return {**json.loads(row[1]), 'replayed': True}


def stored(tx: Tx, actor: str, key: Any, tool: str, arguments: dict) -> Optional[dict]:
    """The answer that `once` would repeat for this very call; None when it would work or refuse. Reads only."""
    row = isinstance(key, str) and tx.execute(
        'SELECT answer FROM replays WHERE actor = ? AND key = ? AND body_hash = ?',
        (actor, key, body_hash(tool, arguments))).fetchone()
    return {**json.loads(row[0]), 'replayed': True} if row else None


def body_hash(tool: str, arguments: dict) -> bytes:
    """SHA-256 of the call as sent; the order of the members does not count."""
    body = json.dumps([tool, arguments], sort_keys=True, separators=(',', ':'))
    return hashlib.sha256(body.encode('ascii')).digest()


def prune(tx: Tx, before_us: int) -> None:
    """Forget replays and events older than `before_us`. Versions and the ends of the logs stay."""
    tx.execute('DELETE FROM replays WHERE stored_us < ?', (before_us,))
    # Only logs that hold something old: most hold nothing, and the writer must not be kept for each of them.
    for kind, ref_id, last in tx.execute(
            'SELECT l.ref_kind, l.ref_id, l.last_sequence FROM '
            '(SELECT DISTINCT ref_kind, ref_id FROM events WHERE stamp_us < ?) old JOIN logs l '
            'ON l.ref_kind = old.ref_kind AND l.ref_id = old.ref_id', (before_us,)).fetchall():
        kept = tx.execute('SELECT sequence FROM events WHERE ref_kind = ? AND ref_id = ? AND stamp_us >= ? '
                          'ORDER BY sequence LIMIT 1', (kind, ref_id, before_us)).fetchone()
        first = kept[0] if kept else last + 1
        tx.execute('DELETE FROM events WHERE ref_kind = ? AND ref_id = ? AND sequence < ?', (kind, ref_id, first))
        tx.execute('UPDATE logs SET first_sequence = ? WHERE ref_kind = ? AND ref_id = ?', (first, kind, ref_id))


@lru_cache(maxsize=10_000)                # a search prints the same few versions again and again
def stamp_text(stamp_us: int) -> str:
    """A version as RFC 3339 date-time, always six digits: 2026-11-08T09:30:00.000042Z."""
    return (EPOCH + timedelta(microseconds=stamp_us)).isoformat(timespec='microseconds')[:26] + 'Z'


def parse_stamp(text: str, field: str = 'expected_version') -> int:
    """RFC 3339 date-time -> integer microseconds. Malformed is a bad argument; whether it is current is for the caller.

    Cut digits parse to another integer, so that a client that rounds is told "stale", never believed.
    """
    match = DATE_TIME.fullmatch(text) if isinstance(text, str) else None
    try:
        seconds, fraction, zone = match.groups()
        moment = datetime.fromisoformat(seconds + ('+00:00' if zone == 'Z' else zone)).astimezone(timezone.utc)
    except (AttributeError, ValueError, OverflowError):       # over: year 0 or 10000, once it is UTC
        raise invalid(field, 'an RFC 3339 date-time as the read gave it, such as 2026-11-08T09:30:00.000042Z') from None
    return (moment - EPOCH) // timedelta(microseconds=1) + int((fraction or '0').ljust(6, '0'))


def check_key(key: str) -> None:
    shortest, longest = KEY_LENGTH
    if not isinstance(key, str) or not shortest <= len(key) <= longest or not is_text(key):
        raise invalid('idempotency_key', f'{shortest} to {longest} characters of text')


def check_integer(field: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:     # True is an int: it is no sequence and no limit
        raise invalid(field, f'an integer from {least} to {most}')


def is_text(text: str) -> bool:
    """Whether SQLite and UTF-8 give it back as it is: no lone surrogate, no NUL (which ends a string in C)."""
    if '\x00' in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode('utf-8')
    except UnicodeEncodeError:
        return False
    return True


# --- I/O ----------------------------------------------------------------------

class Queue:
    """A lock that serves first come, first served.

    threading.Lock goes to whoever asks at the right instant, mostly the thread that just gave it back: of eight writers
    one waited a hundred times as long as an edit takes, here eight times.
    """

    def __init__(self) -> None:
        self._guard, self._taken = threading.Lock(), False
        self._waiting: Deque[threading.Lock] = deque()         # each is released when its owner's turn has come

    def __enter__(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:                                  # a signal's: whoever leaves must not be waited for
            with self._guard:
                left_in_time = turn in self._waiting
                if left_in_time:
                    self._waiting.remove(turn)
            if not left_in_time:
                self.__exit__()
            raise

    def __exit__(self, *_error: object) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()              # handed over: nobody can come between
            else:
                self._taken = False


class Database:
    """One sqlite file: one writer and one reader connection a process, a lock each; other processes wait their turn.

    `synchronous`: FULL syncs the log at every COMMIT (an answered edit survives a power cut), NORMAL at checkpoints.
    Raises Refusal storage_unusable when the file cannot be opened as a database.
    """

    def __init__(self, path: str, schemas: Sequence[str], synchronous: str = 'FULL') -> None:
        self.path = path
        self._writing, self._reading = Queue(), threading.Lock()
        try:
            self._writer = _connect(path, synchronous)
            with self.write() as tx:
                for statement in _statements((SCHEMA, *schemas)):
                    tx.execute(statement)
            self._reader = _connect(path, synchronous)
            self._reader.execute('PRAGMA query_only = ON')
            self._reader.execute(f'PRAGMA cache_size = -{CACHE_KIB}')
        except sqlite3.Error as error:
            raise Refusal('storage_unusable', f'{path}: {error}', path=path) from error

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """BEGIN IMMEDIATE ... COMMIT, or ROLLBACK on any exception.

        IMMEDIATE takes the write lock now. A plain BEGIN takes it at the first UPDATE: two writers may both have read
        by then, and the second fails at once whatever the timeout.
        """
        with self._writing:
            _begin_immediate(self._writer, self.path)
            try:
                yield self._writer
                self._writer.execute('COMMIT')
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute('ROLLBACK')
                raise

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """One snapshot: every statement inside sees the same committed state."""
        with self._reading:
            self._reader.execute('BEGIN')
            try:
                yield self._reader
            finally:
                self._reader.execute('ROLLBACK')

    def close(self) -> None:
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()


def _connect(path: str, synchronous: str) -> sqlite3.Connection:
    if synchronous not in ('FULL', 'NORMAL', 'OFF'):
        raise ValueError(f'synchronous is FULL, NORMAL or OFF, not {synchronous!r}')
    # isolation_level=None: the module would otherwise begin transactions on its own, and deferred ones.
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute('PRAGMA trusted_schema = OFF')          # the file may come from elsewhere
        _set_wal(db)
        db.execute(f'PRAGMA synchronous = {synchronous}')
    except BaseException:
        db.close()
        raise
    return db


def _set_wal(db: sqlite3.Connection) -> None:
    """When two processes open a new file at one instant the change of mode answers busy at once: so we wait here."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            db.execute('PRAGMA journal_mode = WAL')
            return
        except sqlite3.OperationalError as error:
            if 'locked' not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.005)


def _begin_immediate(db: sqlite3.Connection, path: str) -> None:
    try:
        db.execute('BEGIN IMMEDIATE')
    except sqlite3.OperationalError as error:
        if 'locked' not in str(error):
            raise
        raise Refusal('storage_busy', f'{path} is held by another process: try again', path=path) from error


def _statements(schemas: Sequence[str]) -> Iterator[str]:
    """The statements of the schemas one by one: executescript would commit the transaction that we are in."""
    for schema in schemas:
        statement = ''
        for line in schema.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ''
