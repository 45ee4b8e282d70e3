"""Article 1: the saved versions of an article, for people: who, when, which words, the old ones put back, for a year."""
import contextlib
import sqlite3
import unittest

from tests.kb_world import KB, NOW_US, World, faults

import kb_history
import kb_store
import retention
import versioned
from versioned import Database

ARTICLE = {**KB, 'article_id': 'art-000001'}


class SavedVersions(World):
    def history(self, **arguments):
        with self.db.read() as tx:
            return kb_history.article_history(tx, 'kb', 'art-000001', **arguments)

    def version(self, version):
        with self.db.read() as tx:
            return kb_history.saved_version(tx, 'kb', 'art-000001', version)

    def put_back(self, version, expected):
        return self.people(kb_history.put_back, 'art-000001', version=version, expected_version=expected)

    def five_saves(self):
        """Created, edited by Claude, retitled by a person, unpublished, published again; the five citations."""
        made = [self.article('art-000001')]
        made.append(self.edit(made[0])['citation'])
        made.append(self.people(kb_store.save_article, 'art-000001', title='Money back'))
        made.append(self.people(kb_store.unpublish_article, 'art-000001'))
        made.append(self.people(kb_store.publish_article, 'art-000001'))
        return [one['updated_at'] for one in made]

    def test_every_save_is_a_version_with_who_when_and_the_words_of_then(self):
        stamps = self.five_saves()
        found = self.history()
        self.assertEqual([one['version'] for one in found], stamps[::-1])
        self.assertEqual([one['actor'] for one in found],
                         ['person:mika', 'person:mika', 'person:mika', 'connection:claude', 'person:mika'])
        self.assertEqual([one['state'] for one in found], ['published', 'unpublished'] + ['published'] * 3)
        whole = [self.version(stamp) for stamp in stamps]
        self.assertEqual([(one['title'], one['content']) for one in whole], [
            ('Refund policy', 'Within 30 days.'), ('Refund policy', 'Within 14 days.')] + [('Money back', 'Within 14 days.')] * 3)
        self.assertEqual([one['before'] and one['before']['version'] for one in whole], [None] + stamps[:-1])
        self.assertEqual(whole[1]['before']['content'], 'Within 30 days.')

    def test_a_refused_a_repeated_and_an_idle_save_make_no_version(self):
        first = self.article('art-000001')
        self.edit(first, key='key-of-the-edit')
        self.edit(first, key='key-of-the-edit')
        self.refused('stale_version', self.edit, first, 'too late')
        self.refused('stale_version', self.people, kb_store.save_article, 'art-000001', content='x',
                     expected_version=first['updated_at'])
        self.people(kb_store.publish_article, 'art-000001')
        self.assertEqual(len(self.history()), 2)
        self.assertEqual(faults(self.path), [])

    def test_a_save_that_loses_the_comparison_inside_a_transaction_that_goes_on_keeps_nothing(self):
        first = self.article('art-000001')
        self.edit(first)
        with self.db.write() as tx:                        # a caller that answers a refusal and commits something else
            with contextlib.suppress(versioned.Refusal):
                kb_store.edit_knowledge_article(tx, 'c', {**ARTICLE, 'content': 'x', 'idempotency_key': 'k' * 8,
                                                          'expected_version': first['updated_at']}, NOW_US)
        self.assertEqual(len(self.history()), 2)

    def test_a_long_history_is_read_page_by_page_without_a_gap(self):
        self.article('art-000001')
        for number in range(24):
            self.people(kb_store.save_article, 'art-000001', content=str(number))
        pages, before = [], None
        while not pages or pages[-1]:
            pages.append(self.history(limit=10, before=before))
            before = pages[-1][-1]['version'] if pages[-1] else None
        self.assertEqual([len(page) for page in pages], [10, 10, 5, 0])
        self.assertEqual(len({one['version'] for page in pages for one in page}), 25)
        for limit in (0, 201, True, '5'):
            self.refused('invalid_argument', self.history, limit=limit)

    def test_an_old_text_is_put_back_as_a_new_save_over_exactly_the_version_that_was_shown(self):
        stamps = self.five_saves()
        self.refused('stale_version', self.put_back, stamps[0], stamps[3])
        self.assertEqual(len(self.history()), 5)
        self.put_back(stamps[0], stamps[4])
        now = self.read('art-000001')
        self.assertEqual((now['title'], now['content']), ('Refund policy', 'Within 30 days.'))
        self.assertEqual(self.found('refund'), ['art-000001'])
        self.assertEqual(self.found('money'), [])
        self.assertEqual([event['type'] for event in self.poll()['events']][-1], 'retitled')
        self.assertEqual(self.version(stamps[4])['title'], 'Money back', 'what it replaced is kept as well')
        self.refused('not_found', self.put_back, '2020-01-01T00:00:00Z', now['citation']['updated_at'])

    def test_whether_it_is_published_stays_as_it_is_when_an_old_text_is_put_back(self):
        stamps = self.five_saves()
        gone = self.people(kb_store.unpublish_article, 'art-000001')
        self.put_back(stamps[0], gone['updated_at'])
        self.assertEqual(self.history(limit=1)[0]['state'], 'unpublished')
        self.refused('gone', self.read, 'art-000001')

    def test_an_article_or_a_version_that_never_was_is_not_found_and_another_articles_is_none_of_this_one(self):
        stamps = self.five_saves()
        self.people(kb_store.create_article, 'art-000002', title='Other', content='x')
        self.refused('not_found', self.version, versioned.stamp_text(NOW_US - 1))
        self.refused('invalid_argument', self.version, 'yesterday')
        with self.db.read() as tx:
            self.refused('not_found', kb_history.article_history, tx, 'kb', 'art-000003')
            self.refused('not_found', kb_history.saved_version, tx, 'kb', 'art-000002', stamps[0])
            self.refused('not_found', kb_history.saved_version, tx, 'kb2', 'art-000001', stamps[0])

    def test_a_version_is_kept_for_a_year_from_when_it_was_replaced_and_the_current_one_for_ever(self):
        day = retention.DAY_US
        with self.db.write() as tx:
            kb_store.create_article(tx, 'p', {**ARTICLE, 'title': 'T', 'content': 'oldest'}, NOW_US)
            for days, content in ((300, 'old'), (600, 'newer'), (601, 'newest')):
                kb_store.save_article(tx, 'p', {**ARTICLE, 'content': content}, NOW_US + days * day)

        def left(days):
            retention_days = next(days for days, forget in retention.KEPT_DAYS if forget is kb_history.prune_versions)
            with self.db.write() as tx:
                kb_history.prune_versions(tx, NOW_US + (days - retention_days) * day)
            return [self.version(one['version'])['content'] for one in self.history()]
        self.assertEqual(left(664), ['newest', 'newer', 'old', 'oldest'])
        self.assertEqual(left(666), ['newest', 'newer', 'old'])       # `oldest` was replaced on day 300
        self.assertEqual(left(967), ['newest'])
        self.assertEqual(left(9_999), ['newest'])

    def test_a_state_from_before_the_table_gets_it_when_it_is_opened(self):
        self.article('art-000001')
        self.db.close()
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            db.executescript('DROP TABLE article_versions')
        self.db = Database(self.path, [kb_store.SCHEMA])
        self.addCleanup(self.db.close)
        self.people(kb_store.save_article, 'art-000001', content='new')
        self.assertEqual(len(self.history()), 2)

    def test_no_tool_of_an_agent_reads_an_old_version(self):
        first = self.article('art-000001', content='the old words')
        self.edit(first, 'the new words')
        answers = [self.read('art-000001'), self.search('refund'), self.search('old'), self.poll()]
        self.assertNotIn('the old words', repr(answers))


if __name__ == '__main__':
    unittest.main()
