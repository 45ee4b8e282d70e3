"""bench_power.py - what a power cut takes from a knowledge base, under synchronous FULL and NORMAL.

Article 1, "La ricostruzione": one transaction an edit. A hundred edits are answered and their write-ahead log is kept;
then copies of it are cut at a random byte, half of them with the bytes before the cut torn (zeros, garbage, a sector
of an older write), and opened again.

    python3 bench.py power                  300 copies of each (3 s)
    also: --copies 300 --seed 1 --json

What a disk may lose: under FULL everything after the last COMMIT that was answered, because that one was synced; under
NORMAL everything after the last checkpoint. That SQLite does sync is taken from it, not shown here: a copied file knows
nothing of disks. Not here: kill -9, which loses nothing under either (tests/test_article1_storage.py).
"""
import os
import random
import statistics
import sys
import tempfile
from typing import Dict, List, NamedTuple, Sequence

import ending
import kb_store
import published
import versioned
from published import Cell, Table
from versioned import Database

# --- data ---------------------------------------------------------------------

EDITS = 100
SECTOR = 512
ARTICLE = {'knowledge_base_id': 'kb', 'article_id': 'art-000001'}
NOW_US = versioned.parse_stamp('2026-11-08T09:00:00Z')


class Written(NamedTuple):
    """A database as a checkpoint left it, the log of the edits since, and where each edit's COMMIT ends in it."""
    database: bytes
    log: bytes
    ends: Sequence[int]                                         # ends[k]: the log's length once k edits were answered


class Outcome(NamedTuple):
    copies: int
    inconsistent: int
    lost: Sequence[int]                                         # answered edits that a copy lacks


TABLE = Table(1, 'a power cut after up to 100 answered edits (ours)', [
    cell for synchronous, most in (('FULL', 0), ('NORMAL', EDITS)) for cell in (
        Cell(synchronous, 'copies cut or torn', None, 'shown'),
        Cell(synchronous, 'inconsistent', None, 'range', low=0, high=0),
        Cell(synchronous, 'lost an answered edit', None, 'range', low=1 if most else 0, high=None if most else 0),
        Cell(synchronous, 'edits lost, median', None, 'shown' if most else 'range', high=0),
        Cell(synchronous, 'edits lost, most', None, 'range', low=1 if most else 0, high=most))])

# --- rules --------------------------------------------------------------------

def survivors(written: Written, answered: int, synced: int, draw: random.Random) -> bytes:
    """The log as a power cut may leave it: whole up to `synced`, then cut somewhere inside the write under way, and in
    every second copy some sectors before the cut never reached the disk, or hold something else."""
    under_way = written.ends[min(answered + 1, len(written.ends) - 1)]
    log = bytearray(written.log[:draw.randint(synced, under_way)])
    if draw.random() < 0.5:
        for start in range(synced, len(log), SECTOR):
            if draw.random() < 4 * SECTOR / max(SECTOR, len(log) - synced):
                end = min(start + SECTOR, len(log))
                log[start:end] = draw.choice((bytes(end - start), draw.getrandbits(8 * (end - start)).to_bytes(
                    end - start, 'big'), written.log[:end - start]))
    return bytes(log)


def faults(tx: versioned.Tx) -> List[str]:
    """Whether every transaction is there as a whole: article, event and stored replay stand or fall together."""
    found = [] if tx.execute('PRAGMA integrity_check').fetchone() == ('ok',) else ['damaged']
    sequences = [row[0] for row in tx.execute('SELECT sequence FROM events ORDER BY sequence')]
    last = tx.execute('SELECT max(stamp_us) FROM events').fetchone()[0]
    content, updated_us = tx.execute('SELECT content, updated_us FROM articles').fetchone()
    replays = tx.execute('SELECT count(*) FROM replays').fetchone()[0]
    if sequences != list(range(1, len(sequences) + 1)):
        found.append('a gap in the log')
    if updated_us != last or content != f'edit {len(sequences) - 1}' or replays != len(sequences) - 1:
        found.append('an article, its event and its replay disagree')
    return found


# --- I/O ----------------------------------------------------------------------

def write_edits(path: str) -> Written:
    """EDITS edits after a checkpoint, none during them, and the log as it stood after each."""
    database = Database(path, [kb_store.SCHEMA])
    with database.write() as tx:
        kb_store.create_knowledge_base(tx, 'kb', 'Support')
        made = kb_store.create_article(tx, 'person:mika', {**ARTICLE, 'title': 'T', 'content': 'edit 0',
                                                           'publish': True}, NOW_US)
    database.close()                                            # the last connection's end is a checkpoint
    with open(path, 'rb') as file:
        whole = file.read()
    database, ends = Database(path, [kb_store.SCHEMA]), []
    for edit in range(EDITS + 1):
        with database.write() as tx:
            tx.execute('PRAGMA wal_autocheckpoint = 0')
            if edit:
                made = kb_store.edit_knowledge_article(tx, 'c', {
                    **ARTICLE, 'content': f'edit {edit}', 'expected_version': made['citation']['updated_at'],
                    'idempotency_key': f'edit-{edit:08d}'}, NOW_US)
        ends.append(os.path.getsize(path + '-wal'))
    with open(path + '-wal', 'rb') as file:
        log = file.read()
    database.close()
    return Written(whole, log, ends)


def reopen(path: str, written: Written, log: bytes, answered: int) -> Sequence[int]:
    """(whether it is inconsistent, how many answered edits are missing) of one copy."""
    for name, content in ((path, written.database), (path + '-wal', log)):
        with open(name, 'wb') as file:
            file.write(content)
    database = Database(path, [kb_store.SCHEMA], synchronous='OFF')
    with database.read() as tx:
        inconsistent = bool(faults(tx))
        edits = tx.execute('SELECT count(*) FROM events').fetchone()[0] - 1
    database.close()
    os.remove(path)
    return inconsistent, max(0, answered - edits)


def cut_power(copies: int, seed: int) -> Dict[str, Outcome]:
    found, draw = {}, random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        written = write_edits(os.path.join(folder, 'kb.db'))
        for synchronous in ('FULL', 'NORMAL'):
            results = []
            for copy in range(copies):
                published.progress(f'{synchronous}: copy {copy + 1} of {copies}')
                answered = draw.randint(1, EDITS)
                synced = written.ends[answered] if synchronous == 'FULL' else 0
                log = survivors(written, answered, synced, draw)
                results.append(reopen(os.path.join(folder, 'copy.db'), written, log, answered))
            found[synchronous] = Outcome(copies, sum(each[0] for each in results), [each[1] for each in results])
    published.progress('')
    return found


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py power', __doc__)
    parser.add_argument('--copies', type=int, default=300, help='of each (300)')
    parser.add_argument('--seed', type=int, default=1)
    chosen = parser.parse_args(argv)
    if chosen.copies < 1:
        parser.error('--copies must be at least 1')
    figures = {}
    for synchronous, outcome in cut_power(chosen.copies, chosen.seed).items():
        for column, figure in (('copies cut or torn', outcome.copies), ('inconsistent', outcome.inconsistent),
                               ('lost an answered edit', sum(lost > 0 for lost in outcome.lost)),
                               ('edits lost, median', round(statistics.median(outcome.lost))),
                               ('edits lost, most', max(outcome.lost))):
            figures[synchronous, column] = figure
    return published.report('bench.py power', [published.compare(TABLE, figures)], as_json=chosen.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
