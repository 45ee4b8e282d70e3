"""Article 4: the packs and references that approvals write, read by pygit2 (libgit2) and by dulwich."""
import json
import os
import subprocess

from tests.interop import judges
from tests.test_article4 import Proposing
from tests.test_article4_git import TOP, git


class Readers(Proposing):
    def history_by(self, reader):
        python = judges.python_with(reader)
        done = subprocess.run([python, os.path.join(TOP, 'tests', 'interop', 'git_readers.py'), reader, self.path],
                              text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)

    def check(self, reader):
        commits = [self.base]
        for number in range(5):
            commits.append(self.decide(self.propose(f'd{number}/é.txt', f'{number} 京都\r\n' * 50))['commit'])
        history = self.history_by(reader)
        self.assertEqual([one['id'] for one in history], commits[::-1])
        self.assertEqual(history[0]['files']['d4/é.txt'], [0o100644, '4 京都\r\n' * 50])
        self.assertEqual((history[0]['author'], len(history[0]['files'])), ('Claude (conn-claude-research)', 3 + 5))
        self.assertIn('\nApproved-by: repo-owner\n', history[0]['message'])
        git(self.path, 'gc', '--quiet', '--prune=now')
        self.assertEqual(self.history_by(reader), history)

    def test_libgit2_reads_what_we_wrote_and_what_gc_made_of_it(self):
        self.check('pygit2')

    def test_dulwich_reads_it_and_checks_every_pack(self):
        self.check('dulwich')


del Proposing
