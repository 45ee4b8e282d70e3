"""Article 1 on a real folder: an import, citations in a file, and one poll that says which of them still stand."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import kb_folder
import kb_store
import versioned
from versioned import Database

ODD = {'empty.md': b'', 'untitled.md': b'no heading here', 'one.md': b'# Same', 'two.md': b'# Same',
       'bytes.md': b'\xff\xfe# not UTF-8', 'nul.md': b'a\x00b', 'bom.md': b'\xef\xbb\xbf# With a mark',
       'front.md': b'---\ntitle: "From the front"\n---\n# Heading', 'fence.md': b'```\n# code\n```\n## Real ##',
       'big.md': b'x' * 5_000_000, 'notes.txt': b'# no Markdown', 'a/b/c.markdown': b'# Deep', '.hidden/x.md': b'# hidden'}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.docs, self.db = os.path.join(folder.name, 'docs'), os.path.join(folder.name, 'docs.db')
        self.citations = os.path.join(folder.name, 'CITATIONS.json')
        self.write('guide/limits.md', b'# Limits\n100 a minute')
        self.write('refunds.md', b'# Refunds\nWithin 30 days.')

    def write(self, path, content):
        path = os.path.join(self.docs, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(content)

    def run_it(self, *arguments, status=0):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(kb_store.main(['--db', self.db, '--json', *arguments]), status, out)
        self.assertEqual(err.getvalue(), '')
        return json.loads(out.getvalue())

    def imported(self, *arguments):
        return {name: paths for name, paths in self.run_it('import', self.docs, *arguments).items() if paths}

    def verdicts(self, status=1):
        return {each['article_id']: each['verdict'] for each in self.run_it('check', self.citations, status=status)['citations']}

    def test_a_second_import_takes_only_what_changed_and_unpublishes_what_disappeared(self):
        self.assertEqual(self.imported(), {'new': ['guide/limits.md', 'refunds.md']})
        self.assertEqual(self.imported(), {'unchanged': ['guide/limits.md', 'refunds.md']})
        self.write('refunds.md', b'# Refunds\nWithin 14 days.')
        os.remove(os.path.join(self.docs, 'guide/limits.md'))
        self.assertEqual(self.imported(), {'changed': ['refunds.md'], 'unpublished': ['guide/limits.md']})
        self.assertEqual([event['type'] for event in self.run_it('poll')['events']],
                         ['created', 'created', 'updated', 'unpublished'])
        self.write('guide/limits.md', b'# Limits\n100 a minute')
        self.assertEqual(self.imported()['changed'], ['guide/limits.md'])
        self.assertEqual(len(self.run_it('search', 'limits')['results']), 1)

    def test_one_poll_tells_fresh_from_changed_from_gone_and_a_second_check_says_the_same(self):
        self.write('fresh.md', b'# Fresh')
        self.imported()
        self.run_it('search', 'refunds', 'limits', '--cite', self.citations)
        self.run_it('read', 'fresh.md', '--cite', self.citations)
        self.assertEqual(set(self.verdicts(status=0).values()), {'fresh'})
        self.write('refunds.md', b'# Refunds\nWithin 14 days.')
        os.remove(os.path.join(self.docs, 'guide/limits.md'))
        self.imported()
        expected = {'refunds.md': 'changed', 'guide/limits.md': 'gone', 'fresh.md': 'fresh'}
        self.assertEqual(self.verdicts(), expected)
        with open(self.citations) as file:
            self.assertEqual(json.load(file)['after_sequence'], 5)
        self.assertEqual(self.verdicts(), expected)
        self.run_it('read', 'refunds.md', '--cite', self.citations)
        self.assertEqual([each['verdict'] for each in self.run_it('check', self.citations, status=1)['citations']
                          if each['article_id'] == 'refunds.md'], ['changed', 'fresh'])

    def test_of_commands_at_one_instant_none_loses_the_citation_of_another(self):
        names = [f'd{number}.md' for number in range(6)]
        for name in names:
            self.write(name, b'# D')
        self.imported()
        begun = [subprocess.Popen([sys.executable, kb_store.__file__, '--db', self.db, 'read', name, '--cite', self.citations],
                                  stdout=subprocess.DEVNULL) for name in names]
        self.assertEqual([child.wait() for child in begun], [0] * 6)
        self.assertEqual(set(self.verdicts(status=0)), set(names))

    def test_a_file_without_a_sequence_begins_at_0(self):
        self.imported()
        cited = self.run_it('read', 'refunds.md')['citation']
        with open(self.citations, 'w') as file:
            json.dump({'citations': [cited]}, file)
        self.write('refunds.md', b'# Refunds\nnew')
        self.imported()
        self.assertEqual(self.verdicts(), {'refunds.md': 'changed'})

    def test_a_pruned_or_a_replaced_log_makes_the_check_read_again_instead_of_saying_fresh(self):
        self.imported()
        self.run_it('search', 'refunds', 'limits', '--cite', self.citations)
        for after in (1, 99):                                  # before the pruned log, and past its end
            with self.subTest(after=after):
                with open(self.citations) as file:
                    kept = json.load(file)
                with open(self.citations, 'w') as file:
                    json.dump({**kept, 'after_sequence': after, 'moved': {}}, file)
                self.write('refunds.md', b'# Refunds\n' + str(after).encode())
                self.imported()
                db = Database(self.db, [])
                with db.write() as tx:
                    versioned.prune(tx, before_us=2 ** 60)
                db.close()
                self.assertEqual(self.verdicts(), {'refunds.md': 'changed', 'guide/limits.md': 'fresh'})

    def test_an_edit_made_here_is_not_lost_to_the_next_import(self):
        self.imported()
        read = self.run_it('read', 'refunds.md')['citation']
        content = os.path.join(self.docs, 'content.txt')
        self.write('content.txt', b'edited here')
        self.run_it('edit', 'refunds.md', content, '--version', read['updated_at'])
        self.assertIn('refunds.md', self.imported()['unchanged'])
        self.write('refunds.md', b'# Refunds\nedited there')
        self.assertEqual(self.imported()['edited here too'], ['refunds.md'])
        self.assertEqual(self.run_it('read', 'refunds.md')['content'], 'edited here')
        self.assertEqual(self.imported('--overwrite')['changed'], ['refunds.md'])
        refused = self.run_it('edit', 'refunds.md', content, '--version', read['updated_at'], status=1)
        self.assertEqual(refused['error'], 'stale_version')

    def test_odd_files_are_taken_for_what_they_are_or_named_with_the_reason(self):
        for path, content in ODD.items():
            self.write(path, content)
        os.mkfifo(os.path.join(self.docs, 'fifo.md'))
        os.symlink('/etc/passwd', os.path.join(self.docs, 'link.md'))
        os.symlink('/etc', os.path.join(self.docs, 'linked'))
        self.write('/'.join(['deep-folder'] * 30) + '/x.md', b'# Too deep')
        with open(os.path.join(self.docs.encode(), b'bad-\xff-name.md'), 'wb') as file:
            file.write(b'# Name')
        outcome = self.imported()
        reasons = {os.path.basename(path): reason for path, reason in outcome['skipped']}
        self.assertEqual(reasons.pop('deep-folder'), 'path must be 1 to 200 characters of text')
        self.assertEqual(reasons, {
            'bytes.md': 'not UTF-8', 'nul.md': 'content must be 0 to 1000000 characters of text', 'link.md': 'a link',
            'big.md': 'content must be 0 to 1000000 characters of text', 'fifo.md': 'not a regular file',
            'bad-\udcff-name.md': 'path must be 1 to 200 characters of text'})
        titles = {path: self.run_it('read', path)['title'] for path in outcome['new']}
        self.assertEqual(titles, {
            'empty.md': 'empty', 'untitled.md': 'untitled', 'one.md': 'Same', 'two.md': 'Same', 'bom.md': 'With a mark',
            'front.md': 'From the front', 'fence.md': 'Real', 'a/b/c.markdown': 'Deep', 'guide/limits.md': 'Limits',
            'refunds.md': 'Refunds'})

    def test_a_folder_that_cannot_be_listed_unpublishes_nothing(self):
        self.imported()
        os.remove(os.path.join(self.docs, 'refunds.md'))
        walk = os.walk

        def cannot(folder, onerror):
            onerror(PermissionError(13, 'Permission denied', os.path.join(folder, 'guide')))
            return walk(folder)
        self.addCleanup(setattr, os, 'walk', walk)
        os.walk = cannot
        outcome = self.imported()
        self.assertEqual(len(outcome['not listed']), 1)
        self.assertNotIn('unpublished', outcome)

    def test_what_an_article_holds_does_not_steer_the_terminal(self):
        self.write('evil.md', b'# \x1b]0;title\x07 \xe2\x80\xaeevil')
        self.imported()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            kb_store.main(['--db', self.db, 'read', 'evil.md'])
        self.assertIn('\\x1b]0;title\\x07 \\u202eevil', out.getvalue())

    def test_a_terminal_that_cannot_show_a_letter_gets_its_number(self):
        self.write('cafe.md', 'Café'.encode())
        self.imported()
        done = subprocess.run([sys.executable, kb_store.__file__, '--db', self.db, 'read', 'cafe.md'],
                              env={**os.environ, 'PYTHONIOENCODING': 'ascii'}, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b''))
        self.assertTrue(done.stdout.endswith(b'Caf\\xe9' + os.linesep.encode()))

    def test_a_wrong_citations_file_is_refused_by_name(self):
        self.imported()
        cited = self.run_it('read', 'refunds.md')['citation']
        for kept, field in (([], 'citations'), ({'citations': 5}, 'citations'), ({'citations': [5]}, 'citations'),
                            ({'citations': [{**cited, 'knowledge_base_id': 'other'}]}, 'citations'),
                            ({'citations': [{**cited, 'updated_at': '2026-11-08T09:00:00Z'}]}, 'updated_at'),
                            ({'citations': [{**cited, 'article_id': 5}]}, 'article_id'),
                            ({'citations': [cited], 'after_sequence': -1}, 'after_sequence'),
                            ({'citations': [cited], 'moved': {'x': 5}}, 'moved')):
            with self.subTest(kept=kept):
                with open(self.citations, 'w') as file:
                    json.dump(kept, file)
                self.assertEqual(self.run_it('check', self.citations, status=2)['field'], field)
        with open(self.citations, 'w') as file:
            file.write('[' * 100_000)
        self.assertEqual(self.run_it('check', self.citations, status=2)['error'], 'invalid_argument')

    def test_the_database_and_json_may_stand_before_a_command_or_after_it(self):
        before = self.imported()
        for words in (['--db', self.db, '--json', 'search', 'refunds'], ['search', 'refunds', '--json', '--db', self.db],
                      ['--json', 'search', 'refunds', '--kb', 'kb', '--db', self.db]):
            with self.subTest(words=words), contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(kb_store.main(words), 0)
                self.assertEqual(json.loads(out.getvalue())['results'][0]['citation']['article_id'], before['new'][1])

    def test_an_import_without_a_database_is_told_that_it_makes_one(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(kb_store.main(['import', self.docs]), 2)
        self.assertIn('--db FILE is missing; import makes it', said.getvalue())

    def test_usage_errors_are_2_and_a_file_that_is_no_database_is_refused(self):
        self.imported()
        for words in (['search', 'x'], ['search', 'refunds', '--limit', '21'], ['check', self.docs + '/none.json'],
                      ['read', 'refunds.md', '--cite', self.docs], ['import', self.docs + '/none']):
            with self.subTest(words=words):
                self.assertIn(self.run_it(*words, status=2)['error'], ('invalid_argument', 'file'))
        os.remove(self.db)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(kb_store.main(['search', 'x']), 2)
            self.assertEqual(kb_store.main(['--db', self.db, 'search', 'x']), 2)
        self.imported()
        size = os.path.getsize(self.db)
        with open(self.db, 'r+b') as file:
            file.seek(4096)
            file.write(b'\xff' * (size - 4096))
        self.assertEqual(self.run_it('search', 'refunds', status=2)['error'], 'storage_unusable')
        self.db = os.path.join(self.docs, 'refunds.md')
        self.assertEqual(self.run_it('search', 'refunds', status=2)['error'], 'storage_unusable')

    def test_a_name_that_is_no_text_is_a_usage_error_and_a_citation_that_holds_none_is_kept_as_it_is(self):
        for name in ('\udcff', '', 'x' * 201):
            with contextlib.redirect_stderr(io.StringIO()) as err:
                self.assertEqual(kb_store.main(['--db', self.db, '--kb', name, 'import', self.docs]), 2)
            self.assertIn('--kb must be text', err.getvalue())
        self.imported()
        cited = {**self.run_it('read', 'refunds.md')['citation'], 'note': '\udcff'}
        with open(self.citations, 'w') as file:
            json.dump({'citations': [cited]}, file)
        self.assertEqual(self.verdicts(status=0), {'refunds.md': 'fresh'})
        with open(self.citations) as file:
            self.assertEqual(json.load(file)['citations'], [cited])

    def test_a_citation_is_texts_by_name_so_that_no_depth_is_read_that_could_not_be_written_again(self):
        self.imported()
        cited = self.run_it('read', 'refunds.md')['citation']
        before = sorted([*os.listdir(os.path.dirname(self.citations)), os.path.basename(self.citations)])
        for note in ('1', '[]', '[' * 1200 + ']' * 1200, '[' * 200_000 + ']' * 200_000):
            with self.subTest(note=note[:9]), open(self.citations, 'w') as file:
                file.write(json.dumps({'citations': [{**cited, 'note': 'DEEP'}]}).replace('"DEEP"', note))
            refusal = self.run_it('check', self.citations, status=2)
            self.assertEqual(refusal['error'], 'invalid_argument')
            self.assertEqual(sorted(os.listdir(os.path.dirname(self.citations))), before)

    def test_a_title_is_found_without_walking_a_long_line_again_for_each_of_its_blanks(self):
        blanks = ' ' * 300_000                                 # squared, this is minutes
        for content, title in ((f'# a{blanks}b', 'a'), (f'---\ntitle: a{blanks}b\n---\n', 'a'), ('## ##', '#'),
                               ('# Limits ##', 'Limits'), ("---\ntitle: 'a b' \n---\n# c", 'a b'),
                               ('---\ntitle: "\n---\n', '"'), ('---\ntitle:  \n---\n# c', 'c')):
            with self.subTest(content=content[:20]):
                self.assertEqual(kb_folder.title_of(content, 'x.md').rstrip(), title)

    def test_the_whole_folder_is_one_transaction(self):
        page = kb_folder.import_page
        self.addCleanup(setattr, kb_folder, 'import_page', page)

        def dies_at_the_second(tx, knowledge_base, one, *rest):
            if one.article_id == 'refunds.md':
                raise KeyboardInterrupt
            return page(tx, knowledge_base, one, *rest)
        kb_folder.import_page = dies_at_the_second
        with self.assertRaises(KeyboardInterrupt):
            kb_store.main(['--db', self.db, 'import', self.docs])
        kb_folder.import_page = page
        self.assertEqual(self.imported(), {'new': ['guide/limits.md', 'refunds.md']})


if __name__ == '__main__':
    unittest.main()
