"""Article 1: a citation that can be checked, and is the version that an edit takes. The claims in the article's order."""
import contextlib
import io
import json
import unittest

import kb_store
import published_kb
from kb_store import apply_events, verdict
from tests.kb_world import KB, LOG, NOW_US, World


class Citations(World):
    def test_a_search_hit_and_a_read_carry_the_same_citation(self):
        made = self.article('art-000001')
        self.assertEqual(set(made), {'knowledge_base_id', 'article_id', 'updated_at'})
        self.assertEqual(self.search('refund')[0]['citation'], made)
        self.assertEqual(self.read('art-000001')['citation'], made)

    def test_a_read_right_before_the_edit_gives_the_version_that_the_edit_takes(self):
        self.article('art-000001')
        edited = self.edit(self.read('art-000001')['citation'], 'Within 14 days.')
        self.assertEqual(self.read('art-000001'), {**edited, 'content': 'Within 14 days.'})

    def test_a_title_tells_of_a_rename_only_the_id_of_no_change_and_the_time_of_every_change(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(kb_store.main(['--json']), 0)
        tables = {table['table']: table for table in json.loads(out.getvalue())['tables']}
        self.assertEqual(set(tables), {published_kb.KINDS.name, published_kb.LIMITS.name})
        for table in tables.values():
            self.assertTrue(all(cell['holds'] for cell in table['cells']), table)

    def test_every_save_is_one_event_with_the_version_it_made(self):
        made = [self.article('art-000001', publish=False), self.people(kb_store.publish_article, 'art-000001'),
                self.people(kb_store.save_article, 'art-000001', content='new'),
                self.people(kb_store.save_article, 'art-000001', title='Money back'),
                self.people(kb_store.unpublish_article, 'art-000001')]
        page = self.poll()
        self.assertEqual([event['type'] for event in page['events']],
                         ['created', 'published', 'updated', 'retitled', 'unpublished'])
        self.assertEqual([event['updated_at'] for event in page['events']], [each['updated_at'] for each in made])
        self.assertEqual((page['next_sequence'], page['has_more']), (5, False))

    def test_to_publish_what_is_published_changes_nothing(self):
        made = self.article('art-000001')
        self.assertEqual(self.people(kb_store.publish_article, 'art-000001'), made)
        self.assertEqual(len(self.poll()['events']), 1)

    def test_the_poll_goes_on_from_a_number_and_says_when_there_is_more(self):
        for number in range(7):
            self.article(f'art-{number:06d}')
        first = self.poll(2, limit=3)
        self.assertEqual([event['sequence'] for event in first['events']], [3, 4, 5])
        self.assertEqual((first['next_sequence'], first['has_more']), (5, True))
        self.assertFalse(self.poll(first['next_sequence'])['has_more'])


class Published(World):
    def test_a_draft_is_neither_found_nor_read_nor_edited_and_its_existence_does_not_show(self):
        made = self.article('art-000001', publish=False)
        self.assertEqual(self.found('refund'), [])
        self.assertEqual(self.found('within 30'), [])
        self.refused('not_found', self.edit, made)
        for article_id in ('art-000001', 'art-000009'):          # a draft and nothing at all: the same answer
            self.assertEqual(self.refused('not_found', self.read, article_id), {'article_id': article_id})

    def test_an_unpublished_article_leaves_search_and_read_at_the_next_call_and_comes_back_as_gone(self):
        made = self.article('art-000001')
        self.people(kb_store.unpublish_article, 'art-000001')
        self.assertEqual(self.found('refund'), [])
        self.refused('gone', self.read, 'art-000001')
        self.refused('gone', self.edit, made)

    def test_a_citation_is_fresh_changed_or_gone_and_an_edited_draft_is_still_gone(self):
        made, moved = self.article('art-000001'), {}

        def now():
            apply_events(moved, self.poll(now.after)['events'])
            now.after = self.poll(now.after)['next_sequence']
            return verdict(made, moved)
        now.after = 0
        self.assertEqual(now(), 'fresh')
        self.people(kb_store.save_article, 'art-000001', content='new')
        self.assertEqual(now(), 'changed')
        self.people(kb_store.unpublish_article, 'art-000001')
        self.assertEqual(now(), 'gone')
        self.people(kb_store.save_article, 'art-000001', content='a draft now')
        self.assertEqual(now(), 'gone')
        self.people(kb_store.publish_article, 'art-000001')
        self.assertEqual(now(), 'changed')
        self.assertEqual(verdict(self.read('art-000001')['citation'], moved), 'fresh')


class Edits(World):
    def test_an_old_version_is_refused_with_the_current_one_and_the_newer_words_stay(self):
        old = self.article('art-000001')
        new = self.people(kb_store.save_article, 'art-000001', content='A person wrote this.')
        self.assertEqual(self.refused('stale_version', self.edit, old), {'current_version': new['updated_at']})
        self.assertEqual(self.read('art-000001')['content'], 'A person wrote this.')
        self.assertEqual(len(self.poll()['events']), 2)

    def test_read_again_and_write_again_is_all_that_a_refused_edit_needs(self):
        old = self.article('art-000001')
        self.people(kb_store.save_article, 'art-000001', content='A person wrote this.')
        data = self.refused('stale_version', self.edit, old, key='key-of-the-edit')
        self.edit({**old, 'updated_at': data['current_version']}, key='key-of-the-edit')

    def test_a_client_that_cuts_digits_is_told_stale_and_never_believed(self):
        self.article('art-000001')
        with self.db.write() as tx:
            cited = kb_store.save_article(tx, 'p', {**KB, 'article_id': 'art-000001', 'content': 'x'}, NOW_US + 118_042)['citation']
        for cut in (cited['updated_at'][:23] + 'Z', cited['updated_at'][:19] + 'Z'):
            self.assertEqual(self.refused('stale_version', self.edit, {**cited, 'updated_at': cut}),
                             {'current_version': cited['updated_at']})

    def test_a_version_from_the_future_is_stale_and_does_not_move_the_clock_of_the_knowledge_base(self):
        cited = self.article('art-000001')
        with self.db.write() as tx:        # as call_tool does: the refusal is caught inside, and the transaction commits
            with self.assertRaises(kb_store.Refusal):
                kb_store.edit_knowledge_article(tx, 'c', {**KB, 'article_id': 'art-000001', 'content': 'x', 'idempotency_key':
                                                          'key-00001', 'expected_version': '9999-12-31T23:59:59.999999Z'}, NOW_US)
        self.assertLess(self.edit(cited)['citation']['updated_at'], '2026-11-09')

    def test_the_same_call_with_the_same_key_gets_the_first_answer_marked_and_writes_no_event(self):
        cited = self.article('art-000001')
        first = self.edit(cited, key='key-00001')
        self.people(kb_store.save_article, 'art-000001', content='later')
        self.assertEqual(self.edit(cited, key='key-00001'), {**first, 'replayed': True})
        self.assertEqual(len(self.poll()['events']), 3)
        self.assertEqual(self.read('art-000001')['content'], 'later')

    def test_a_key_used_for_another_edit_is_refused(self):
        cited = self.article('art-000001')
        self.edit(cited, 'one', key='key-00001')
        self.refused('idempotency_key_reused_with_different_body', self.edit, cited, 'two', key='key-00001')

    def test_an_edit_without_a_title_keeps_it_and_one_with_a_title_moves_its_words(self):
        self.article('art-000001')
        self.edit(self.read('art-000001')['citation'])
        self.assertEqual(self.found('refund'), ['art-000001'])
        self.edit(self.read('art-000001')['citation'], 'x', title='Money back')
        self.assertEqual((self.found('refund'), self.found('money')), ([], ['art-000001']))
        self.assertEqual(self.poll()['events'][-1]['type'], 'retitled')

    def test_a_persons_page_that_shows_an_old_version_is_refused_too(self):
        old = self.article('art-000001')
        self.edit(old)
        self.refused('stale_version', self.people, kb_store.save_article, 'art-000001', content='x',
                     expected_version=old['updated_at'])

    def test_an_id_that_is_taken_is_refused_and_one_that_is_not_given_is_made(self):
        self.article('art-000001')
        self.refused('already_exists', self.article, 'art-000001')
        with self.db.write() as tx:
            made = kb_store.create_article(tx, 'person:mika', {**KB, 'title': 'New', 'content': ''}, NOW_US)
        self.assertEqual(made['citation']['article_id'], 'art-000002')
        self.article('art-000004')                         # the number that would come next
        with self.db.write() as tx:
            made = kb_store.create_article(tx, 'person:mika', {**KB, 'title': 'New', 'content': ''}, NOW_US)
        self.assertEqual(made['citation']['article_id'], 'art-000005')


class Search(World):
    def test_words_of_the_title_come_first_most_words_first_then_the_id(self):
        self.article('c', 'Refund limits', 'x')
        self.article('b', 'Limits', 'refund refund refund')
        self.article('a', 'Other', 'refund limits')
        self.article('d', 'Refund', 'x')
        self.assertEqual(self.found('refund limits'), ['c', 'b', 'd', 'a'])

    def test_content_only_fills_the_limit_and_again_by_words_then_id(self):
        for article_id, content in (('a', 'north'), ('b', 'north south'), ('c', 'south north'), ('d', 'east')):
            self.article(article_id, 'Title', content)
        self.article('t', 'North', '')
        self.assertEqual(self.found('north south'), ['t', 'b', 'c', 'a'])
        self.assertEqual(self.found('north south', limit=2), ['t', 'b'])
        self.assertEqual(self.found('north', limit=1), ['t'])

    def test_it_finds_what_people_type(self):
        for article_id, title, content in (
                ('accent', 'Résumé', ''), ('sharp', 'Straße', ''), ('inside', '東京都の観光', ''), ('rocket', 'Launch 🚀 day', ''),
                ('plus', 'C++ guide', ''), ('percent', 'Save', 'about 100% of it'), ('short', 'Go to x', ''), ('wide', 'ＡＢＣ', ''),
                ('dash', 'Retry-After header', '')):
            self.article(article_id, title, content)
        for query, article_id in (('resume', 'accent'), ('RÉSUMÉ', 'accent'), ('STRASSE', 'sharp'), ('京都', 'inside'),
                                  ('🚀 ', 'rocket'), ('C++', 'plus'), ('c++?', 'plus'), ('100%', 'percent'), ('0%', 'percent'),
                                  ('go', 'short'), ('x ', 'short'), ('abc', 'wide'), ('after', 'dash'), ('retry-after', 'dash')):
            with self.subTest(query=query):
                self.assertEqual(self.found(query)[:1], [article_id])

    def test_wildcards_quotes_and_operators_are_only_characters(self):
        self.article('a', 'Plain', 'nothing special')
        for query in ('%%', '__', '**', '" OR "', "'; DROP TABLE articles; --", 'NEAR(', 'a*', '\\%', '()', '!!', '  '):
            with self.subTest(query=query):
                self.assertLessEqual(set(self.found(query)), {'a'})
        self.assertEqual(self.found('%%'), [])
        self.assertEqual(self.found('__'), [])

    def test_a_code_does_not_match_a_longer_one(self):
        self.article('a', 'k000017', '')
        self.article('b', 'k00001', '')
        self.assertEqual(self.found('k00001'), ['b', 'a'])          # the word first; inside a longer one only as text

    def test_the_snippet_shows_the_word_that_was_found(self):
        for content in ('x ' * 900 + 'the Needle here' + ' y' * 900, 'ß' * 700 + ' Needle ' + 'é' * 700):
            with self.subTest(content=content[:3]):
                self.article(f'a{len(content)}', f'T{len(content)}', content)
                self.assertIn('Needle', [hit['snippet'] for hit in self.search('needle', limit=20)
                                         if hit['title'] == f'T{len(content)}'][0])

    def test_the_limit_is_five_unless_asked_for_and_at_most_twenty(self):
        for number in range(25):
            self.article(f'art-{number:06d}', 'Same')
        self.assertEqual(len(self.found('same')), 5)
        self.assertEqual(len(self.found('same', limit=20)), 20)


class Arguments(World):
    """A malformed argument names its field and its limit, and nothing is written."""

    def test_each_limit_of_the_four_tools(self):
        cited = self.article('art-000001')
        edit = {**KB, 'article_id': 'art-000001', 'content': 'x', 'expected_version': cited['updated_at'],
                'idempotency_key': 'key-00001'}
        cases = [(kb_store.search_knowledge_base, {**KB, 'query': query}, 'query')
                 for query in ('', 'x', 'x' * 201, 'a\x00b', 'a\ud800', 7, None, ['ab'], True)]
        cases += [(kb_store.search_knowledge_base, {**KB, 'query': 'ab', 'limit': limit}, 'limit')
                  for limit in (0, 21, -1, 2 ** 63, 1.0, '5', None, True)]
        cases += [(kb_store.poll_resource_events, {**LOG, 'after_sequence': after}, 'after_sequence')
                  for after in (-1, 2 ** 63, '0', 0.0, None, True)]
        cases += [(kb_store.poll_resource_events, {**LOG, 'limit': limit}, 'limit') for limit in (0, 101, None)]
        cases += [(kb_store.poll_resource_events, {**LOG, 'resource_type': kind}, 'resource_type') for kind in ('note', None)]
        cases += [(kb_store.edit_knowledge_article, {**edit, field: value}, field) for field, value in (
            ('content', None), ('content', 'x' * 1_000_001), ('content', '\ud800'), ('title', ''), ('title', 'x' * 301),
            ('expected_version', 'now'), ('expected_version', None), ('expected_version', 5),
            ('idempotency_key', '1234567'), ('idempotency_key', 'x' * 129), ('article_id', ''), ('knowledge_base_id', 1))]
        before = self.poll()
        for tool, arguments, field in cases:
            with self.subTest(field=field, arguments=str(arguments)[:99]):
                data = self.refused('invalid_argument', self.call, tool, arguments)
                self.assertEqual(data['field'], field)
                self.assertTrue(data['limit'])
        self.assertEqual(self.poll(), before)

    def test_an_unknown_knowledge_base_is_not_found(self):
        for tool, arguments in ((kb_store.search_knowledge_base, {'knowledge_base_id': 'other', 'query': 'ab'}),
                                (kb_store.read_knowledge_article, {'knowledge_base_id': 'other', 'article_id': 'a'}),
                                (kb_store.poll_resource_events, {**LOG, 'resource_id': 'other'})):
            self.refused('not_found', self.call, tool, arguments)

    def test_two_knowledge_bases_share_nothing(self):
        with self.db.write() as tx:
            kb_store.create_knowledge_base(tx, 'kb2', 'Other')
            kb_store.create_article(tx, 'p', {'knowledge_base_id': 'kb2', 'article_id': 'art-000001', 'title': 'Refund',
                                              'content': '', 'publish': True}, NOW_US)
        self.assertEqual((self.found('refund'), self.poll()['events']), ([], []))


if __name__ == '__main__':
    unittest.main()
