"""A stranger's first day: a bare clone, an empty HOME, no network, no rights, only python3 and git on PATH.

The README's first commands are run as they stand there, with the interpreter that runs this test. And the figures
are the same whatever the hash seed, the optimiser, the warnings, the time zone and the language of the machine.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOBODY = 65534
# In a mount namespace of its own: only the interpreter's folder stays visible where others may not enter.
OPEN = """
strangers_path=$PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin
hold=$(mktemp -d) && mount --bind "$2" "$hold" && mount -t tmpfs -o mode=755 tmpfs "$1" || exit 99
mkdir -p "$2" && mount --move "$hold" "$2" || exit 99
shift 2
PATH=$strangers_path exec "$@"
"""
# In a network namespace of its own: bring loopback up (SIOCSIFFLAGS), give up all rights, become the command.
STRANGER = """
import fcntl, os, socket, struct, sys
up = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(up, 0x8914, struct.pack('16sh14x', b'lo', 1))
up.close()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def namespaces():
    """The words that put a command on a machine without network and rights; none where this is not allowed."""
    if os.getuid() or not shutil.which('unshare'):
        return []
    words = [shutil.which('unshare'), '--mount', '--net']
    if subprocess.run([*words, 'true'], stderr=subprocess.DEVNULL).returncode:
        return []
    hidden = [folder for folder in map(str, reversed(pathlib.Path(sys.base_prefix).parents))
              if not os.stat(folder).st_mode & 0o005]
    if hidden:
        words += [shutil.which('sh'), '-c', OPEN, 'sh', hidden[0], sys.base_prefix]
    return [*words, os.path.realpath(sys.executable), '-c', STRANGER]


def readme_commands():
    """The lines of the README's first fenced block, without what they say of themselves."""
    with open(os.path.join(TOP, 'README.md'), encoding='utf-8') as file:
        block = re.search(r'```\w*\n(.*?)```', file.read(), re.DOTALL).group(1)
    return [line.split('  ')[0].split() for line in block.strip().split('\n')]


class FreshMachine(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        os.chmod(self.place, 0o755)
        self.clone, self.home, self.path = (os.path.join(self.place, name) for name in ('clone', 'home', 'bin'))
        subprocess.run(['git', '-c', 'safe.directory=*', 'clone', '-q', TOP, self.clone], check=True)
        os.mkdir(self.home)
        os.mkdir(self.path)
        os.symlink(shutil.which('git'), os.path.join(self.path, 'git'))
        os.symlink(os.path.realpath(sys.executable), os.path.join(self.path, 'python3'))
        if os.getuid() == 0:
            for folder, _, files in os.walk(self.place):
                for name in (folder, *(os.path.join(folder, file) for file in files)):
                    os.chown(name, NOBODY, NOBODY, follow_symlinks=False)

    def run_as_a_stranger(self, command):
        environment = {'HOME': self.home, 'PATH': self.path, 'TMPDIR': self.place}
        return subprocess.run([*namespaces(), *command], cwd=self.clone, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def test_the_commands_that_open_the_readme_run_as_they_stand_there(self):
        for command in readme_commands():
            with self.subTest(command=' '.join(command)):
                ran = self.run_as_a_stranger(command)
                self.assertEqual(ran.returncode, 0, ran.stdout[-2000:] + ran.stderr[-6000:])
                self.assertNotIn('Traceback', ran.stderr)
        left = subprocess.run(['git', '-c', 'safe.directory=*', 'status', '--porcelain'], cwd=self.clone,
                              capture_output=True, text=True).stdout
        self.assertEqual(left, '', 'a run leaves files in the clone')
        self.assertEqual(os.listdir(self.home), [], 'a run writes into HOME')


class WithoutArguments(unittest.TestCase):
    """What a newcomer types first. A busy machine may break an order of bench.py, and nothing else."""

    def play(self, program):
        ran = subprocess.run([sys.executable, program], cwd=TOP, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(ran.stderr, '')
        return ran.returncode, re.findall(r'^--- python3 \S+ (\S+)', ran.stdout, re.MULTILINE), ran.stdout

    def test_client_py_plays_every_run_and_every_line_holds(self):
        status, played, _ = self.play('client.py')
        self.assertEqual((status, played),
                         (0, ['scenario', 'race', 'crash', 'notes', 'setup', 'project', 'hello', 'access']))

    def test_bench_py_prints_every_table_that_it_begins(self):
        status, played, text = self.play('bench.py')
        self.assertIn(status, (0, 1))
        self.assertEqual(re.findall(r'^bench\.py (\S+): \d+ of \d+ figures hold', text, re.MULTILINE), played)
        self.assertGreater(len(played), 7)


class SameFigures(unittest.TestCase):
    def figures(self, *flags, **environment):
        ran = subprocess.run([sys.executable, *flags, 'sim.py', '--json'], cwd=TOP, stdin=subprocess.DEVNULL,
                             env={**os.environ, **environment}, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ''))
        return json.loads(ran.stdout)['tables']

    def test_hash_seed_optimiser_warnings_time_zone_and_language_change_no_figure(self):
        usual = self.figures(PYTHONHASHSEED='0')
        for flags, environment in (((), {'PYTHONHASHSEED': '4711'}), (('-O',), {}), (('-W', 'error'), {}),
                                   ((), {'TZ': 'Asia/Kathmandu'}), ((), {'LANG': 'C', 'LC_ALL': 'C', 'PYTHONUTF8': '0'})):
            with self.subTest(flags=flags, environment=environment):
                self.assertEqual(self.figures(*flags, **environment), usual)

    def test_all_of_them_at_once_change_no_line_of_the_runs_and_no_rule(self):
        odd = {'PYTHONHASHSEED': '4711', 'TZ': 'Asia/Kathmandu', 'LANG': 'C', 'LC_ALL': 'C', 'PYTHONUTF8': '0'}
        for words in (['client.py', 'scenario'], ['client.py', 'notes'], ['client.py', 'project'],
                      ['client.py', 'access'], ['ablate.py']):
            with self.subTest(words=words):
                ran = subprocess.run([sys.executable, '-O', '-W', 'error', *words], cwd=TOP, stdin=subprocess.DEVNULL,
                                     env={**os.environ, **odd}, capture_output=True)
                self.assertEqual((ran.returncode, ran.stderr), (0, b''))


if __name__ == '__main__':
    unittest.main()
