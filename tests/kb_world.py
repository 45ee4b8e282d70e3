"""A knowledge base for the tests of article 1, and a process of many writers that can be killed."""
import os
import random
import sys
import tempfile
import threading
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)

import kb_store
import versioned
from versioned import Database, Refusal

KB = {'knowledge_base_id': 'kb'}
LOG = {'resource_type': 'knowledge_base', 'resource_id': 'kb'}
NOW_US = versioned.parse_stamp('2026-11-08T09:00:00Z')
CLOCKS = {
    'real': lambda: time.time_ns() // 1000,
    'frozen': lambda: NOW_US,
    'jumping': lambda: time.time_ns() // 1000 + random.choice((-3_000_000, 0, 3_000_000)),
    'coarse': lambda: time.time_ns() // 1_000_000_000 * 1_000_000,
}


class World(unittest.TestCase):
    """Each test has a database of its own on disk, with one knowledge base in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, 'kb.db')
        self.db = Database(self.path, [kb_store.SCHEMA])
        self.addCleanup(self.db.close)
        with self.db.write() as tx:
            kb_store.create_knowledge_base(tx, 'kb', 'Support')
        self.keys = 0

    def people(self, save, article_id, **arguments):
        with self.db.write() as tx:
            return save(tx, 'person:mika', {**KB, 'article_id': article_id, **arguments}, NOW_US)['citation']

    def article(self, article_id, title='Refund policy', content='Within 30 days.', publish=True):
        return self.people(kb_store.create_article, article_id, title=title, content=content, publish=publish)

    def call(self, tool, arguments, actor='connection:claude'):
        with self.db.write() as tx:
            return tool(tx, actor, arguments, NOW_US)

    def search(self, query, **arguments):
        return self.call(kb_store.search_knowledge_base, {**KB, 'query': query, **arguments})['results']

    def found(self, query, **arguments):
        return [hit['citation']['article_id'] for hit in self.search(query, **arguments)]

    def read(self, article_id):
        return self.call(kb_store.read_knowledge_article, {**KB, 'article_id': article_id})

    def edit(self, cited, content='Within 14 days.', key=None, **arguments):
        self.keys += 1
        return self.call(kb_store.edit_knowledge_article, {
            **KB, 'article_id': cited['article_id'], 'content': content, 'expected_version': cited['updated_at'],
            'idempotency_key': key or f'key-{self.keys:08d}', **arguments})

    def poll(self, after=0, **arguments):
        return self.call(kb_store.poll_resource_events, {**LOG, 'after_sequence': after, **arguments})

    def refused(self, code, work, *arguments, **named):
        with self.assertRaises(Refusal) as caught:
            work(*arguments, **named)
        self.assertEqual(caught.exception.code, code)
        return caught.exception.data


def faults(path, answered=()):
    """What is wrong with the database, in words: the promises that no crash and no race may break."""
    found = []
    db = Database(path, [kb_store.SCHEMA])
    with db.read() as tx:
        if tx.execute('PRAGMA integrity_check').fetchone() != ('ok',):
            found.append('the file is damaged')
        events = tx.execute('SELECT sequence, item_id, stamp_us FROM events ORDER BY sequence').fetchall()
        if [event[0] for event in events] != list(range(1, len(events) + 1)):
            found.append('the log has a gap')
        stamps = [event[2] for event in events]
        if any(later <= earlier for earlier, later in zip(stamps, stamps[1:])):
            found.append('a version came twice or went back')
        if dict((item, stamp) for _, item, stamp in events) != dict(tx.execute('SELECT article_id, updated_us FROM articles')):
            found.append('an article and its last event differ')
        kept = tx.execute('SELECT article_id, updated_us FROM articles UNION ALL '
                          'SELECT article_id, updated_us FROM article_versions').fetchall()
        if sorted(kept) != sorted(event[1:] for event in events):
            found.append('a version is not kept, or one that never was')
        for article_id, title in tx.execute('SELECT article_id, title FROM articles').fetchall():
            indexed = {word for word, in tx.execute('SELECT word FROM title_words WHERE article_id = ?', (article_id,))}
            if indexed != set(kb_store.words(title)):
                found.append(f'the words of {article_id} are not those of its title')
        lost = set(answered) - {(item, versioned.stamp_text(stamp)) for _, item, stamp in events}
        if lost:
            found.append(f'{len(lost)} answered edits are lost, such as {min(lost)}')
    db.close()
    return found


def write_for_ever(path, log, threads, clock):
    """Edits, saves, new titles, leaving and coming back, by many threads; each answer is noted once it is there."""
    db = Database(path, [kb_store.SCHEMA])
    note = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with db.read() as tx:
        names = [row[0] for row in kb_store.articles_for_people(tx, 'kb')]

    def writer(draw):
        while True:
            try:
                kind, cited = one_write(db, draw, draw.choice(names), CLOCKS[clock]())
                if not kind.endswith('publish'):               # to publish what is published makes no version
                    os.write(note, f'{cited["article_id"]} {cited["updated_at"]}\n'.encode())
            except Refusal as refusal:
                if refusal.code not in ('stale_version', 'gone'):
                    raise
    for number in range(threads):
        threading.Thread(target=writer, args=(random.Random(f'{os.getpid()} {number}'),), daemon=True).start()
    print('writing', flush=True)
    sys.stdin.read()                       # until whoever started us is gone


def one_write(db, draw, article_id, now_us):
    name, key = {**KB, 'article_id': article_id}, f'{draw.random():.17f}'
    kind = draw.choice(('edit', 'edit', 'edit', 'save', 'retitle', 'unpublish', 'publish'))
    if kind != 'edit':
        save = {'unpublish': kb_store.unpublish_article, 'publish': kb_store.publish_article}.get(kind, kb_store.save_article)
        changes = {'save': {'content': key}, 'retitle': {'title': f'Title {key[2:8]}'}}.get(kind, {})
        with db.write() as tx:
            return kind, save(tx, 'person:mika', {**name, **changes}, now_us)['citation']
    with db.read() as tx:
        version = kb_store.read_knowledge_article(tx, 'c', name, now_us)['citation']['updated_at']
    with db.write() as tx:
        arguments = {**name, 'content': key, 'expected_version': version, 'idempotency_key': key}
        return kind, kb_store.edit_knowledge_article(tx, 'c', arguments, now_us)['citation']


if __name__ == '__main__':
    write_for_ever(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
