"""tiktoken, the counter that article 2 used, over the same simulation: every figure holds under it as well."""
import json
import os
import subprocess
import unittest

from tests.interop import judges

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Whoever tried to fetch the rank file would meet a closed door instead of waiting for a network.
NO_NETWORK = {name: 'http://127.0.0.1:9' for name in ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY')}


class Tiktoken(unittest.TestCase):
    def setUp(self):
        self.python = judges.python_with('tiktoken')
        asked = subprocess.run([self.python, '-c', 'import token_counter; print(token_counter.rank_file() or "")'],
                               cwd=TOP, capture_output=True, text=True)
        if not asked.stdout.strip():
            raise unittest.SkipTest('cl100k\'s rank file is not at hand below JUDGES (litellm (PyPI) ships it)')

    def run_there(self, *arguments):
        return subprocess.run([self.python, *arguments], cwd=TOP, capture_output=True, text=True,
                              env={**os.environ, **NO_NETWORK})

    def test_every_figure_of_article_2_holds_under_tiktoken(self):
        done = self.run_there('sim.py', 'cache', '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        tables = [table for table in json.loads(done.stdout)['tables'] if 'tiktoken cl100k_base' in table['table']]
        self.assertEqual(len(tables), 6)
        self.assertEqual([cell for table in tables for cell in table['cells'] if not cell['holds']], [])

    def test_our_counter_and_the_shortcuts_of_the_simulation_agree_with_it(self):
        done = self.run_there('-m', 'unittest', 'tests.test_article2_cache')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('skipped', done.stderr)


if __name__ == '__main__':
    unittest.main()
