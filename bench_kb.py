"""bench_kb.py - what the knowledge base costs beside the bare statements: the tables, an edit, eight writers, a poll.

Article 1, "La ricostruzione": 25.7 s for everything, and one transaction an edit. What is compared runs in turns in one
process, and the median of the ratios counts; seconds and milliseconds are this machine's.

    python3 bench.py kb          everything (35 s); --rounds 5, --json

Not here: searches (bench_search.py), what a power cut takes (bench_power.py).
"""
import contextlib
import gc
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

import ending
import kb_store
import published
import published_kb
import sim_model
import sim_store
import versioned
from published import Cell, Figure, Place, Table
from versioned import Database, Tx

# --- data ---------------------------------------------------------------------

HERE = os.path.dirname(os.path.abspath(__file__))
CONTENT = sim_store.content_text(0)
EDITS, WRITERS, EVENTS = 150, 8, 100_000
NOW_US = sim_store.START_US

BARE_SCHEMA = """
CREATE TABLE articles (article_id TEXT PRIMARY KEY, updated_us INTEGER NOT NULL, content TEXT NOT NULL);
CREATE TABLE events (sequence INTEGER PRIMARY KEY, article_id TEXT NOT NULL, updated_us INTEGER NOT NULL);
"""

OURS = Table(1, 'the store against the bare statements (ours)', [
    Cell('tables of article 1, five seeds', 'CPU over the same statements and JSON', None, 'ratio', high=1.5),
    Cell('python3 sim.py kb, ranges included', 'CPU', None, 'order', 's', high=10),
    Cell('python3 sim.py kb, ranges included', 'memory', None, 'range', 'MB', high=100),
    Cell('an edit, synced', 'rate over BEGIN UPDATE INSERT COMMIT', None, 'ratio', low=0.75),
    Cell('an edit, synced', 'rate over the rollback journal', None, 'ratio', low=1),
    Cell('eight writers', 'p99', None, 'order', 'ms', high=25),
    Cell('eight writers', 'p99 over the median of one writer', None, 'ratio', high=3 * WRITERS),
    Cell('100 events out of 100,000', 'poll', None, 'order', 'ms', high=5)])


class Step(NamedTuple):
    """One thing the store did: a statement with its values, or something it wrote as JSON."""
    kind: str                                                   # write, many (of the writer), read, json
    what: object
    values: object


# --- rules --------------------------------------------------------------------

class Recorder:
    """Stands before a connection and notes every statement; the store says nothing else to it."""

    def __init__(self, tx: Tx, kind: str, steps: List[Step]) -> None:
        self.tx, self.kind, self.steps = tx, kind, steps

    def execute(self, statement: str, values: Sequence = ()):
        self.steps.append(Step(self.kind, statement, values))
        return self.tx.execute(statement, values)

    def executemany(self, statement: str, values: Sequence):
        self.steps.append(Step('many', statement, values))
        return self.tx.executemany(statement, values)


class RecordingDatabase(Database):
    steps: List[Step]

    @contextlib.contextmanager
    def write(self) -> Iterator[Recorder]:
        self.steps.append(Step('write', 'BEGIN IMMEDIATE', ()))
        try:
            with Database.write(self) as tx:
                yield Recorder(tx, 'write', self.steps)
        except BaseException:
            self.steps.append(Step('write', 'ROLLBACK', ()))
            raise
        self.steps.append(Step('write', 'COMMIT', ()))

    @contextlib.contextmanager
    def read(self) -> Iterator[Recorder]:
        self.steps.append(Step('read', 'BEGIN', ()))
        try:
            with Database.read(self) as tx:
                yield Recorder(tx, 'read', self.steps)
        finally:
            self.steps.append(Step('read', 'ROLLBACK', ()))


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# --- I/O ----------------------------------------------------------------------

@contextlib.contextmanager
def replaced(module: object, name: str, rule: object) -> Iterator[None]:
    before = vars(module)[name]
    setattr(module, name, rule)
    try:
        yield
    finally:
        setattr(module, name, before)


def record(day: sim_model.Day) -> List[List[Step]]:
    """The steps of one seed's three plays, a list for each database file that they opened."""
    files: List[List[Step]] = []

    def open_database(path: str) -> Database:
        files.append([])
        database = RecordingDatabase.__new__(RecordingDatabase)
        database.steps = files[-1]
        database.__init__(path, [kb_store.SCHEMA], synchronous='NORMAL')
        return database

    def size_bytes(answer: dict) -> int:
        files[-1].append(Step('json', answer, None))
        return size(answer)

    def body_hash(tool: str, arguments: dict) -> bytes:
        files[-1].append(Step('json', [tool, arguments], None))
        return digest(tool, arguments)
    size, digest = sim_store.size_bytes, versioned.body_hash
    with replaced(sim_store, 'open_database', open_database), replaced(sim_store, 'size_bytes', size_bytes), \
            replaced(versioned, 'body_hash', body_hash):
        store_seconds(day)
    return files


def store_seconds(day: sim_model.Day) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        sim_store.play_three(folder, day)
        return time.process_time() - start


def bare_seconds(files: Sequence[Sequence[Step]]) -> float:
    """The same statements with the same values on the same two connections, and the same JSON: nothing between them."""
    with tempfile.TemporaryDirectory() as folder:
        written, start = os.path.join(folder, 'written.db'), time.process_time()
        for number, steps in enumerate(files):
            path = written if number == 0 else os.path.join(folder, f'{number}.db')
            if number:
                with open(written, 'rb') as source, open(path, 'wb') as copy:
                    copy.write(source.read())
            writer, reader = bare_connection(path, 'NORMAL'), bare_connection(path, 'NORMAL')
            for kind, what, values in steps:
                if kind == 'json':
                    sim_store.COMPACT.encode(what)
                elif kind == 'many':
                    writer.executemany(what, values)
                else:
                    (reader if kind == 'read' else writer).execute(what, values).fetchall()
            reader.close()
            writer.close()
        return time.process_time() - start


def bare_connection(path: str, synchronous: str):
    import sqlite3                                              # the store itself never does: it gets its tx
    db = sqlite3.connect(path, isolation_level=None)
    db.execute('PRAGMA journal_mode = WAL')
    db.execute(f'PRAGMA synchronous = {synchronous}')
    return db


def tables_ratio(rounds: int) -> float:
    days = [sim_model.draw_day(seed, sim_model.Settings()) for seed in sim_model.SEEDS]
    ratios = []
    for number, day in enumerate(days):
        published.progress(f'tables: seed {number + 1}')
        files = record(day)
        gc.freeze()                                             # what was recorded is none of the store's garbage
        for _ in range(rounds):
            ratios.append(store_seconds(day) / bare_seconds(files))
        gc.unfreeze()
    return statistics.median(ratios)


def new_store(path: str, articles: int = WRITERS) -> Database:
    database = Database(path, [kb_store.SCHEMA])
    with database.write() as tx:
        kb_store.create_knowledge_base(tx, 'kb', 'Support')
        for number in range(articles):
            kb_store.create_article(tx, 'p', {'knowledge_base_id': 'kb', 'article_id': sim_store.article_id(number),
                                              'title': 'T', 'content': CONTENT, 'publish': True}, NOW_US)
    return database


def edit_ms(database: Database, number: int, count: int, key: str) -> List[float]:
    """Milliseconds of each of `count` edits of one article, each over the version that the one before it made."""
    name, spent = {'knowledge_base_id': 'kb', 'article_id': sim_store.article_id(number)}, []
    with database.read() as tx:
        version = kb_store.read_knowledge_article(tx, 'c', name, NOW_US)['citation']['updated_at']
    for edit in range(count):
        start = time.perf_counter()
        with database.write() as tx:
            version = kb_store.edit_knowledge_article(tx, 'c', {
                **name, 'content': CONTENT, 'expected_version': version,
                'idempotency_key': f'{key}-{number}-{edit:06d}'}, NOW_US)['citation']['updated_at']
        spent.append(1000 * (time.perf_counter() - start))
    return spent


def bare_edit_ms(db, count: int) -> List[float]:
    spent = []
    for _ in range(count):
        start = time.perf_counter()
        db.execute('BEGIN IMMEDIATE')
        db.execute("UPDATE articles SET updated_us = updated_us + 1, content = ? WHERE article_id = 'a'", (CONTENT,))
        db.execute("INSERT INTO events (article_id, updated_us) VALUES ('a', 1)")
        db.execute('COMMIT')
        spent.append(1000 * (time.perf_counter() - start))
    return spent


def edit_figures(folder: str, rounds: int) -> Dict[Place, Figure]:
    """In short turns: the store, the bare loop, the store on a rollback journal; all with synchronous FULL."""
    store = new_store(os.path.join(folder, 'edits.db'))
    with replaced(versioned, '_set_wal', lambda db: None):
        journal = new_store(os.path.join(folder, 'journal.db'))
    bare = bare_connection(os.path.join(folder, 'bare.db'), 'FULL')
    bare.executescript(BARE_SCHEMA + f"INSERT INTO articles VALUES ('a', 1, '{CONTENT}');")
    ours, bares, journals = [], [], []
    for turn in range(5 * rounds):
        published.progress(f'edits: turn {turn + 1}')
        ours += edit_ms(store, 0, EDITS // 5, f'turn{turn}')
        bares += bare_edit_ms(bare, EDITS // 5)
        journals += edit_ms(journal, 0, EDITS // 5, f'turn{turn}')
    for opened in (store, journal, bare):
        opened.close()
    row, total = 'an edit, synced', math.fsum(ours)
    spread = (f'{1000 * len(ours) / total:,.0f} edits a second; an edit: median {statistics.median(ours):.2f} ms, '
              f'nine in ten under {percentile(ours, 0.9):.2f} ms; the bare one: median {statistics.median(bares):.2f} '
              'ms; 0.1 ms are its own, so the rate falls where the disk answers at once')
    return {(row, 'rate over BEGIN UPDATE INSERT COMMIT'): Figure(round(math.fsum(bares) / total, 2), reason=spread),
            (row, 'rate over the rollback journal'): Figure(round(math.fsum(journals) / total, 1))}


def writer_figures(folder: str) -> Dict[Place, Figure]:
    """Eight threads, an article each, one writer connection with a lock: each waits for a few rounds of it."""
    store, spent, threads = new_store(os.path.join(folder, 'writers.db')), [], []
    alone = statistics.median(edit_ms(store, 0, EDITS, 'alone'))
    for number in range(WRITERS):
        threads.append(threading.Thread(target=lambda one=number: spent.extend(edit_ms(store, one, EDITS, 'eight'))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    p99 = percentile(spent, 0.99)
    told = f'the longest {max(spent):.1f} ms; one writer alone: median {alone:.1f} ms'
    return {('eight writers', 'p99'): Figure(round(p99, 1), reason=told),
            ('eight writers', 'p99 over the median of one writer'): Figure(round(p99 / alone, 1))}


def poll_figures(folder: str) -> Dict[Place, Figure]:
    store, spent = new_store(os.path.join(folder, 'poll.db'), 1), []
    with store.write() as tx:
        for number in range(EVENTS - 1):
            versioned.record_event(tx, versioned.Ref('knowledge_base', 'kb'), 'updated', 'art-000000', NOW_US + number)
    arguments = {'resource_type': 'knowledge_base', 'resource_id': 'kb', 'limit': 100}
    for after in range(0, EVENTS - 100, 997):
        start = time.perf_counter()
        with store.read() as tx:
            page = kb_store.poll_resource_events(tx, 'c', {**arguments, 'after_sequence': after}, NOW_US)
        spent.append(1000 * (time.perf_counter() - start))
        if len(page['events']) != 100:
            raise ValueError(f'a page after {after} has {len(page["events"])} events')
    store.close()
    return {('100 events out of 100,000', 'poll'): Figure(round(statistics.median(spent), 2))}


def whole_run() -> Tuple[float, float, float]:
    """(elapsed seconds, CPU seconds, MB at most) of `python3 sim.py kb` as a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, os.path.join(HERE, 'sim.py'), 'kb'], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise ValueError(f'sim.py kb ended with {status}')
    per_mb = 1024 if sys.platform != 'darwin' else 1024 * 1024  # ru_maxrss is in KiB, on a Mac in bytes
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / per_mb


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py kb', __doc__)
    parser.add_argument('--rounds', type=int, default=5, help='turns of what is compared (5)')
    chosen = parser.parse_args(argv)
    if chosen.rounds < 1:
        parser.error('--rounds must be at least 1')
    published.progress('python3 sim.py kb')
    elapsed, cpu, megabytes = whole_run()
    figures = {('python3 sim.py kb, ranges included', 'CPU'): Figure(round(cpu, 1)),
               ('python3 sim.py kb, ranges included', 'memory'): Figure(round(megabytes)),
               ('tables of article 1, five seeds', 'CPU over the same statements and JSON'): Figure(
                   round(tables_ratio(chosen.rounds), 2))}
    with tempfile.TemporaryDirectory() as folder:
        figures.update(edit_figures(folder, chosen.rounds))
        figures.update(writer_figures(folder))
        figures.update(poll_figures(folder))
    published.progress('')
    published.note(f'python3 sim.py kb: {elapsed:.1f} s elapsed', chosen.json)
    times = published.compare(published_kb.TIMES, {('five seeds, every table', 'time'): Figure(round(cpu, 1))})
    return published.report('bench.py kb', [times, published.compare(OURS, figures)], as_json=chosen.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
