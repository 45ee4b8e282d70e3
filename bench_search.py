"""bench_search.py - how long a search takes at 400, 10,000 and 20,000 articles, beside a LIKE scan and an FTS5 table.

Article 1's search_knowledge_base. The usual case is an article's own title, the worst one a word that is nowhere: then
every published text is scanned. FTS5 is asked for quoted words, ranked by its bm25; it needs an index of its own, finds
no word inside another one (京都 in 東京都) and orders by text frequency, so the second hit is another one.

    python3 bench.py search                 three sizes (8 s)
    also: --sizes 400,10000,20000 --repeats 30 --json

Where a worst case of tens of milliseconds is too much, a search engine does the job. Not here: what a search finds
(kb_store.py, tests/test_article1.py).
"""
import contextlib
import os
import statistics
import sys
import tempfile
import time
from typing import Callable, Dict, List, Sequence

import ending
import kb_store
import published
import sim_kb
import sim_store
from bench_kb import bare_connection
from published import Cell, Figure, Place, Table
from versioned import Database

# --- data ---------------------------------------------------------------------

SIZES = '400,10000,20000'
NOWHERE = 'zanzibar'
KB = {'knowledge_base_id': 'kb'}
LIKE = ("SELECT article_id, title, substr(content, 1, 130) FROM plain "
        "WHERE title LIKE ? ESCAPE '\\' OR content LIKE ? ESCAPE '\\' ORDER BY article_id LIMIT 5")
FTS5 = 'SELECT article_id, title, substr(content, 1, 130) FROM indexed WHERE indexed MATCH ? ORDER BY rank LIMIT 5'
PAIRS = (('usual', 'the title of an article'), ('nowhere', 'a word that is nowhere'))

Search = Callable[[str], list]


# --- rules --------------------------------------------------------------------

def like(db, query: str) -> list:
    """One word each way: more would be more scans."""
    pattern = '%' + query.split()[-1].replace('\\', '\\\\').replace('%', '\\%').replace('_', '\\_') + '%'
    return db.execute(LIKE, (pattern, pattern)).fetchall()


def fts5(db, query: str) -> list:
    quoted = ' OR '.join('"' + word.replace('"', '""') + '"' for word in query.split())
    return db.execute(FTS5, (quoted,)).fetchall()


def median_ms(search: Search, queries: Sequence[str]) -> float:
    spent = []
    for query in queries:
        start = time.perf_counter()
        search(query)
        spent.append(1000 * (time.perf_counter() - start))
    return round(statistics.median(spent), 3)


def measure(folder: str, size: int, repeats: int) -> Dict[str, float]:
    """'usual', 'usual, LIKE', ... -> median milliseconds, the ways in turns of one query each kind."""
    published.progress(f'{size:,} articles: writing')
    with contextlib.closing(write_store(os.path.join(folder, f'{size}.db'), size)) as store, \
            contextlib.closing(write_plain(os.path.join(folder, f'{size}-plain.db'), size)) as plain:
        def ours(query: str) -> list:
            with store.read() as tx:
                return kb_store.search_knowledge_base(tx, 'c', {**KB, 'query': query}, 0)['results']
        ways: Dict[str, Search] = {'': ours, ', LIKE': lambda query: like(plain, query)}
        if has_fts5(plain):
            ways[', FTS5'] = lambda query: fts5(plain, query)
        published.progress(f'{size:,} articles: searching')
        titles = [title(number * size // repeats) for number in range(repeats)]
        for search in ways.values():
            if not search(titles[-1]) or search(NOWHERE):
                raise ValueError(f'{size} articles: a search finds what it should not, or not what it should')
        found = {f'usual{way}': median_ms(search, titles) for way, search in ways.items()}
        found.update((f'nowhere{way}', median_ms(search, [NOWHERE] * repeats)) for way, search in ways.items())
    return found


def table(sizes: Sequence[int], measured: Dict[int, Dict[str, float]]) -> dict:
    """The usual search must beat a scan for one word of it; the rest stands beside it. Where a word is nowhere ours
    walks over rows twice as long, because they hold the text as it is and as it is compared."""
    cells, figures = [], {}
    for size in sizes:
        for column, milliseconds in measured[size].items():
            scan = measured[size]['usual, LIKE'] if column == 'usual' else None
            place: Place = (f'{size:,} articles', column)
            cells.append(Cell(*place, None, 'order' if scan else 'shown', 'ms'))
            figures[place] = Figure(milliseconds, high=scan)
    return published.compare(Table(1, 'one search, median (ours)', cells), figures)


# --- I/O ----------------------------------------------------------------------

def title(number: int) -> str:
    return sim_store.title_text(number % len(sim_store.TOPICS), number)


def write_store(path: str, size: int) -> Database:
    database = Database(path, [kb_store.SCHEMA], synchronous='OFF')
    with database.write() as tx:
        kb_store.create_knowledge_base(tx, 'kb', 'Support')
        for number in range(size):
            kb_store.create_article(tx, 'p', {
                **KB, 'article_id': sim_store.article_id(number), 'title': title(number),
                'content': sim_store.content_text(number), 'publish': True}, 0)
    return database


def write_plain(path: str, size: int):
    db = bare_connection(path, 'OFF')
    db.execute('BEGIN')
    db.execute('CREATE TABLE plain (article_id TEXT PRIMARY KEY, title TEXT, content TEXT)')
    rows = [(sim_store.article_id(number), title(number), sim_store.content_text(number)) for number in range(size)]
    db.executemany('INSERT INTO plain VALUES (?, ?, ?)', rows)
    if has_fts5(db):
        db.execute('CREATE VIRTUAL TABLE indexed USING fts5 (article_id UNINDEXED, title, content)')
        db.executemany('INSERT INTO indexed VALUES (?, ?, ?)', rows)
    db.execute('COMMIT')
    return db


def has_fts5(db) -> bool:
    return ('ENABLE_FTS5',) in db.execute('PRAGMA compile_options').fetchall()


# --- main ---------------------------------------------------------------------

def sizes_of(words: str) -> List[int]:
    return [sim_kb.between(10, 500_000)(size) for size in words.split(',')]


def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py search', __doc__)
    parser.add_argument('--sizes', type=sizes_of, default=SIZES, help=f'numbers of articles ({SIZES})')
    parser.add_argument('--repeats', type=sim_kb.between(1, 10_000), default=30, help='searches of each kind (30)')
    chosen = parser.parse_args(argv)
    sizes = chosen.sizes
    with tempfile.TemporaryDirectory() as folder:
        measured = {size: measure(folder, size, chosen.repeats) for size in sizes}
    published.progress('')
    for column, words in PAIRS:
        published.note(f'{column}: {words}', chosen.json)
    return published.report('bench.py search', [table(sizes, measured)], as_json=chosen.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
