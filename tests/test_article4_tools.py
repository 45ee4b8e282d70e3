"""Article 4 over HTTP, the rest of GitNest: the six readers, the owner's side, and every answer searched for a secret."""
import json
import os
import shutil
import tempfile
import time
import unittest

import git_repo
import host
from runs_proposals import APPROVER, REPOSITORY, scene
from runs_stage import OWNER
from tests.test_article4_git import git

SECRET = 'x-access-token:ghp_0123456789abcdef'


class OverHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        entered = scene()
        cls.here = entered.__enter__()
        cls.addClassCleanup(entered.__exit__, None, None, None)
        folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.provider = os.path.join(folder, SECRET + '@github.com', 'site.git')
        os.makedirs(os.path.dirname(cls.provider))
        git_repo.create(cls.provider).close()
        cls.said = []
        cls.click('set_policy', repository_id=REPOSITORY, required_checks=['tests'], provider='github',
                  provider_url=cls.provider)

    @classmethod
    def click(cls, verb, **arguments):
        _, answer = host.owner_click(cls.here.here.base_url, cls.here.here.owner_token, verb,
                                     {'person': APPROVER, **arguments})
        cls.said.append(json.dumps(answer))
        return answer

    def call(self, name, **arguments):
        answer = self.here.call(name, repository_id=REPOSITORY, **arguments)
        self.said.append(json.dumps(answer))
        return answer

    def propose(self, tool, **arguments):
        return self.call(tool, idempotency_key=f'key-{time.monotonic_ns():016d}', **arguments)

    def do(self, tool, **arguments):
        proposal = self.propose(tool, **arguments)['proposal_id']
        self.assertIn('Proposal: ' + proposal, self.click('read_card', proposal_id=proposal)['card'])
        listed = self.click('list_proposals')['proposals']
        self.assertIn((proposal, tool), [(one['proposal_id'], one['tool']) for one in listed])
        return self.click('decide', proposal_id=proposal, decision='approve')

    def test_from_a_work_item_to_the_provider_and_what_the_readers_say_at_each_step(self):
        work = self.do('propose_gitnest_work', title='Ship it')['work_id']
        change_set = self.do('propose_gitnest_change_set', title='Bump', target_branch='main', work_id=work, imports=[
            {'message': 'Bump', 'files': [{'path': 'app.py', 'content': 'VERSION = 2  # ship\n'}]}])['change_set_id']
        self.assertEqual(self.call('list_gitnest_work')['work'], [{'work_id': work, 'title': 'Ship it'}])
        read = self.call('read_gitnest_work', work_id=work)['change_sets'][0]
        self.assertEqual((read['change_set_id'], read['version'], read['composition_oid']), (change_set, 1, None))
        oid = self.do('propose_gitnest_server_composition', change_set_id=change_set,
                      expected_change_set_version=1)['commit']
        read = self.call('read_gitnest_work', change_set_id=change_set)
        self.assertEqual((read['composition_oid'], read['paths']), (oid, ['app.py']))
        checks = self.call('list_gitnest_checks', change_set_id=change_set)
        self.assertEqual((checks['required'], [one['status'] for one in checks['checks']]), (['tests'], ['queued']))
        pins = {'change_set_id': change_set, 'expected_change_set_version': 1, 'expected_composition_oid': oid}
        self.assertEqual(self.do('propose_gitnest_provider_publication', **pins)['error'], 'required_checks')
        self.click('record_check', change_set_id=change_set, composition_oid=oid, check='tests', status='passed')
        published = self.do('propose_gitnest_provider_publication', **pins)
        self.assertEqual((published['status'], published['head_oid']), ('executed', oid))
        self.assertEqual(git(self.provider, 'rev-parse', f'change-sets/{change_set}'), oid)
        self.assertEqual(self.do('propose_gitnest_native_publication', **pins)['status'], 'executed')
        self.assertEqual(self.do('propose_gitnest_check_rerun', **pins, check='tests')['runs'], 2)
        self.click('revise_change_set', change_set_id=change_set, expected_change_set_version=1, imports=[
            {'message': 'Other', 'files': [{'path': 'b', 'content': 'b'}]}])
        self.assertEqual(self.propose('propose_gitnest_native_publication', **pins)['current_version'], 2)
        kinds = [one['kind'] for one in self.call('list_gitnest_saved_results', change_set_id=change_set)['results']]
        self.assertEqual(kinds, ['publication', 'publication', 'check', 'composition'])
        found = self.call('search_gitnest_code', query='# ship', branch=f'change-sets/{change_set}')['lines']
        self.assertEqual(found, [{'path': 'app.py', 'line': 1, 'text': 'VERSION = 2  # ship'}])
        for answer in self.said:                          # every answer of every tool, click and card of this run
            self.assertNotIn(SECRET, answer)
            self.assertNotIn(os.path.dirname(self.provider), answer)

    def test_a_repository_is_read_as_it_is_now(self):
        read = self.call('read_gitnest_repository')
        self.assertEqual((read['head'], read['paths'], read['has_more']), (git(self.here.path, 'rev-parse', 'main'),
                                                                           ['README.md', 'app.py'], False))
        self.assertEqual(self.call('read_gitnest_repository', path='app.py')['content'], 'VERSION = 1\n')
        for path, code in (('nope', 'not_found'), ('../x', 'invalid_argument'), ('app.py/x', 'path_conflict')):
            self.assertEqual(self.call('read_gitnest_repository', path=path)['error'], code)
        self.assertEqual(self.call('read_gitnest_repository', branch='nope')['error'], 'not_found')
        self.assertEqual(self.call('read_gitnest_repository', branch='a..b')['error'], 'invalid_argument')

    def test_words_are_searched_as_they_stand_and_never_taken_for_an_option_or_a_pattern(self):
        def found(query):
            return [line['text'] for line in self.call('search_gitnest_code', query=query)['lines']]
        self.assertEqual(found('VERSION'), ['VERSION = 1'])
        self.assertEqual(found('pip install'), ['install: pip install site'])
        for query in ('version', '.*', '--open-files-in-pager=touch /tmp/x', '-e', '\\d', 'nothing like it'):
            with self.subTest(query=query):
                self.assertEqual(found(query), [])
        self.assertEqual(self.call('search_gitnest_code', query='a\nb')['error'], 'invalid_argument')

    def test_what_is_of_another_repository_or_not_at_all_is_not_found(self):
        for tool, more in (('read_gitnest_work', {'work_id': 'nope'}), ('read_gitnest_work', {'change_set_id': 'nope'}),
                           ('list_gitnest_checks', {'change_set_id': 'nope'})):
            self.assertEqual(self.call(tool, **more)['error'], 'not_found')
        self.assertEqual(self.call('read_gitnest_work')['error'], 'invalid_argument')

    def test_only_an_owner_names_the_provider_and_a_name_needs_an_address(self):
        self.assertEqual(self.click('set_policy', repository_id=REPOSITORY, provider='')['error'], 'invalid_argument')
        self.click('set_policy', repository_id=REPOSITORY, look_twice=['docs/'])
        self.assertEqual(self.click('set_policy', repository_id='nope', look_twice=[])['error'], 'not_found')
        it = {'of': APPROVER, 'kind': 'repository', 'id': REPOSITORY, 'person': OWNER}
        self.click('set_role', role='editor', **it)
        self.addCleanup(self.click, 'clear_role', **it)
        for named in ({'provider': 'evil'}, {'provider_url': '/tmp/evil.git'}):
            self.assertEqual(self.click('set_policy', repository_id=REPOSITORY, **named)['error'], 'role_too_low')
        same = {'provider': 'github', 'provider_url': self.provider}
        self.assertEqual(self.click('set_policy', repository_id=REPOSITORY, **same)['provider'], 'github')


if __name__ == '__main__':
    unittest.main()
