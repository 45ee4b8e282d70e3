"""Article 7's transcripts and tables, as the programs print them, and that they can fail."""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from tests.access_world import TOP, errors_of_children
from tests.test_ending import hear_all

import codex_cases
import host
import host_signin
import published
import published_access
import runs_access
import runs_stage


def run(*words):
    done = subprocess.run([sys.executable, *words], cwd=TOP, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


TORN = """
import os, sys
import ending, runs_access, runs_stage
begin = runs_stage.start
def start(folder, flags):
    process = begin(folder, flags)
    print(process.pid, flush=True)
    os.kill(os.getpid(), int(sys.argv[1]))
    return process
runs_stage.start = start
def main(argv):
    with runs_stage.stage(runs_access.seed):
        return 0
sys.exit(ending.run(main, []))
"""


class Transcripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Each is a process with servers of its own: they run at once."""
        asked = (('client.py', 'access', '--json'), ('client.py', 'hello', '--json'),
                 ('client.py', 'hello', 'http://127.0.0.1:9/nothing'),
                 ('bench.py', 'access', '--items', '10,2000', '--json'))
        with ThreadPoolExecutor(len(asked)) as pool:
            cls.access, cls.hello, cls.hello_nobody, cls.bench = pool.map(lambda words: run(*words), asked)

    def test_every_line_of_both_designs_is_the_articles_line(self):
        status, out, err = self.access
        scenario, discovery = json.loads(out)['tables']
        self.assertEqual((status, json.loads(out)['holds']), (0, 23), err)
        lines = err.splitlines()
        for answers in (0, -1):
            for step, *told in published_access.STEPS:
                self.assertIn(f'{step:<45}{told[answers]}', lines)
        self.the_weak_transcript_does_not_pass_for_the_strong_one(scenario['cells'])

    def the_weak_transcript_does_not_pass_for_the_strong_one(self, cells):
        weak = {cell['row']: cell['here'] for cell in cells if cell['column'] == published_access.TOKEN_ONLY}
        strong = published_access.SCENARIO._replace(
            cells=[cell for cell in published_access.SCENARIO.cells if cell.column == published_access.PER_CALL])
        judged = published.compare(strong, {(row, published_access.PER_CALL): here for row, here in weak.items()})
        self.assertEqual([cell['row'][:1] for cell in judged['cells'] if not cell['holds']], ['8', '9'])

    def test_hello_prints_what_a_host_sees_before_it_has_a_token(self):
        status, out, err = self.hello
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out)['holds'], json.loads(out)['of'])

    def test_hello_to_nobody_is_one_line_and_status_1(self):
        status, out, err = self.hello_nobody
        self.assertEqual((status, out, err.count('\n')), (1, '', 1))
        self.assertNotIn('Traceback', err)

    def test_a_path_without_an_endpoint_is_asked_about_and_no_key_of_ours_is_named(self):
        with runs_stage.stage(lambda tx: None) as here:
            for path in ('/', '/nothing', '/.well-known/oauth-protected-resource'):
                with self.subTest(path=path):
                    status, out, err = run('client.py', 'hello', here.base_url + path)
                    self.assertEqual((status, out, err.count('\n')), (1, '', 1))
                    self.assertRegex(err, 'initialize was answered with HTTP 40[45] and no result; is the path right')

    def test_a_size_that_is_no_number_is_named_and_not_left_out(self):
        for words, wrong in (('10,1x,2000', "'1x' is none"), ('10,3', "'3' is none"), ('10,,2000', "'' is none"),
                             ('10', 'at least two')):
            status, out, err = run('bench.py', 'access', '--items', words)
            self.assertEqual((status, out), (2, ''))
            self.assertIn(wrong, err)

    def test_the_cost_table_is_measured_and_judged_by_order(self):
        status, out, err = self.bench
        printed = json.loads(out)
        tables = {table['table']: table for table in printed['tables']}
        self.assertEqual(set(tables), {'What the check costs', 'The check on the database'})
        timings = [cell for cell in tables['The check on the database']['cells'] if cell['unit'] == 'µs']
        self.assertTrue(all(cell['here'] > 0 for cell in timings))
        self.assertEqual(status, 0 if printed['holds'] == printed['of'] else 1, err)    # a busy machine may break an order


class Stage(unittest.TestCase):
    def test_the_server_of_a_run_is_gone_when_the_run_ends_also_by_an_error(self):
        with self.assertRaises(ZeroDivisionError), runs_stage.stage(runs_access.seed) as here:
            url, folder = here.url, here.folder
            host.Host(url).initialize()
            1 / 0
        self.assertFalse(os.path.exists(folder))
        with self.assertRaises(host_signin.SignInError):
            host.Host(url).initialize()

    def test_a_run_that_is_ended_by_term_or_hup_takes_its_server_with_it(self):
        hear_all(self)
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number), tempfile.TemporaryDirectory() as folder:
                run = subprocess.Popen([sys.executable, 'client.py', 'race', '--trials', '100000'], cwd=TOP,
                                       env={**os.environ, 'TMPDIR': folder}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                self.addCleanup(run.kill)
                while not glob.glob(os.path.join(folder, '*', 'owner-token')):     # the server's own: it runs
                    self.assertIsNone(run.poll())
                    time.sleep(0.05)
                run.send_signal(number)
                self.assertEqual((run.communicate()[1], run.returncode), (b'', 128 + number))
                self.assertEqual(os.listdir(folder), [], 'the server went first: its folder is gone')

    def test_a_signal_between_the_start_of_a_server_and_the_next_line_leaves_no_server_behind(self):
        hear_all(self)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, '-c', TORN, str(int(number))], cwd=TOP, capture_output=True,
                                      env={**os.environ, 'TMPDIR': folder})
                self.assertEqual((done.stderr, done.returncode), (b'', 128 + number))
                self.assertFalse(codex_cases.runs(int(done.stdout)))
                self.assertEqual(os.listdir(folder), [])

    def test_a_server_that_does_not_start_is_an_error_and_not_a_wait(self):
        with errors_of_children() as said:
            with self.assertRaises(RuntimeError), runs_stage.stage(runs_access.seed, ('--check', 'nonsense')):
                pass
            said.seek(0)
            self.assertIn("invalid choice: 'nonsense'", said.read(), 'the person reads why')

    def test_a_click_that_is_refused_names_its_code(self):
        with runs_stage.stage(runs_access.seed) as here:
            with self.assertRaises(runs_stage.ClickRefused) as caught:
                here.click('revoke', connection='nobody')
            self.assertEqual((caught.exception.status, caught.exception.code), (404, 'not_found'))


if __name__ == '__main__':
    unittest.main()
