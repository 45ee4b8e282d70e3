"""Tests in two lanes tell what the same tests tell in one (lanes.py)."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import codex_cases

HERE = os.path.dirname(os.path.abspath(__file__))
# python3 -m unittest, also where a shell that began us in its background has Ctrl-C ignored
HEARS_CTRL_C = ('import signal, unittest; signal.signal(signal.SIGINT, signal.default_int_handler); '
                'unittest.main(module=None, argv=["python3 -m unittest"])')
MODULES = {'test_good': """
class Good(unittest.TestCase):
    def test_fine(self):
        pass
    @unittest.skip('no judge here')
    def test_left_out(self):
        pass
    @unittest.expectedFailure
    def test_known(self):
        self.fail()
    @unittest.expectedFailure
    def test_mended(self):
        pass
""", 'test_bad': """
class Bad(unittest.TestCase):
    def test_wrong(self):
        '''In words.'''
        self.assertEqual(1, 2)
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
    def test_broken(self):
        raise LookupError('gone')
""", 'test_ground': """
class Ground(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError('no disk')
    def test_never(self):
        pass
""", 'test_unreadable': 'import no_such_page'}


class Lanes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tests = os.path.join(self.folder, 'tests')
        os.mkdir(self.tests)
        for name, text in MODULES.items():
            self.write(name, 'import os, unittest\n' + text)

    def write(self, name, text):
        with open(os.path.join(self.tests, name + '.py'), 'w', encoding='ascii') as file:
            file.write(text)

    def run_tests(self, *flags):
        """(exit status, its lines). Not: the seconds, and a name that unittest puts there only after certain others."""
        done = subprocess.run([sys.executable, '-m', 'unittest', *flags], cwd=self.folder, stderr=subprocess.PIPE, text=True)
        return done.returncode, [re.sub(r' in [\d.]+s$|^setUpClass .* \.\.\. ', '', line) for line in done.stderr.split('\n')]

    def use_lanes(self):
        for name in ('__init__.py', 'lanes.py'):
            shutil.copy(os.path.join(HERE, name), self.tests)

    def test_every_kind_of_end_is_told_as_in_one_lane(self):
        self.write('__init__', '')
        alone = [self.run_tests(), self.run_tests('-v'), self.run_tests('-v', '-k', 'Bad')]
        self.use_lanes()
        self.assertEqual([self.run_tests(), self.run_tests('-v'), self.run_tests('-v', '-k', 'Bad')], alone)
        self.assertIn('FAILED (failures=2, errors=3, skipped=1, expected failures=1, unexpected successes=1)', alone[0][1])

    def test_a_module_that_takes_its_process_along_has_not_passed(self):
        self.use_lanes()
        self.write('test_gone', 'import os, unittest\nclass Gone(unittest.TestCase):\n def test_it(self):\n  os._exit(0)\n')
        status, lines = self.run_tests()
        self.assertEqual((status, lines[-2]), (1, 'RuntimeError: the process of tests.test_gone.Gone.test_it ended before its '
                                                  'module did'))

    def test_two_modules_run_at_the_same_time(self):
        """Each waits until the other has begun."""
        self.write_two()
        self.assertEqual(self.run_tests()[0], 0)

    def test_ctrl_c_and_the_death_of_the_runner_end_both_and_begin_no_third(self):
        for whom, number in ((os.killpg, signal.SIGINT), (os.kill, signal.SIGKILL)):
            with self.subTest(signal=number):
                self.write_two(waits_for='gone')
                runner = subprocess.Popen([sys.executable, '-c', HEARS_CTRL_C], cwd=self.folder, stderr=subprocess.DEVNULL,
                                          start_new_session=True)
                self.addCleanup(runner.wait)
                self.addCleanup(runner.kill)
                pids = [int(self.wait_for(name)) for name in ('test_a', 'test_b')]
                whom(runner.pid, number)
                self.assertEqual(runner.wait(30), -number)
                if number == signal.SIGKILL:                  # nobody told them: they find out between two modules
                    self.write('../gone', '')
                deadline = time.monotonic() + 30
                while any(map(codex_cases.runs, pids)) and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertEqual([pid for pid in pids if codex_cases.runs(pid)], [])
                self.assertFalse(os.path.exists(os.path.join(self.folder, 'third')))

    def write_two(self, waits_for=''):
        """Modules that write who they are and wait for each other, or for something else; and one that comes after."""
        shutil.rmtree(self.folder)
        os.makedirs(self.tests)
        self.use_lanes()
        for name, other in (('test_a', 'test_b'), ('test_b', 'test_a')):
            self.write(name, f"""
import os, time, unittest
class Meets(unittest.TestCase):
    def test_the_other(self):
        with open('{name}.new', 'w') as file:
            file.write(str(os.getpid()))
        os.rename('{name}.new', '{name}')
        deadline = time.monotonic() + 60
        while not os.path.exists('{waits_for and waits_for + '.py' or other}') and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertLess(time.monotonic(), deadline)
""")
        self.write('test_c', "import os, unittest\nclass Third(unittest.TestCase):\n def test_it(self):\n  os.mkdir('third')\n")

    def wait_for(self, name):
        path, deadline = os.path.join(self.folder, name), time.monotonic() + 60
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        with open(path, encoding='ascii') as file:
            return file.read()


if __name__ == '__main__':
    unittest.main()
