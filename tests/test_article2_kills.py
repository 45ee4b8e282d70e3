"""Article 2: a process killed at every step between delivery and commit shows rows again and never hides one."""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import channel_render
import watermarks
from channel_render import Row
from watermarks import Key

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEY = Key('s1', 'ch-backend', None)
CHANNEL = [Row(f'm{at:03}', 'user', 'aiko', f'text {at}', at) for at in range(60)]

# One turn of a session in a process of its own: what reached the agent is printed, then the run succeeds. It kills
# itself before its Nth line inside watermarks.py, so that every step of stage and commit is hit once.
ONE_TURN = """
import os, signal, sys
sys.path.insert(0, {top!r})
import channel_render, watermarks
CHANNEL = [channel_render.Row(f'm{{at:03}}', 'user', 'aiko', f'text {{at}}', at) for at in range(60)]
KEY = watermarks.Key('s1', 'ch-backend', None)
folder, end, kill_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lines = 0
def count(frame, event, argument):
    global lines
    if not frame.f_code.co_filename.endswith('watermarks.py'):
        return None
    if event == 'line':
        lines += 1
        if lines == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    return count
marks = watermarks.open_marks(folder)
shown = channel_render.render(CHANNEL[max(0, end - 30):end], CHANNEL[end - 1].id,
                              watermarks.watermark_for(marks, KEY, 'n1'))
print(' '.join(row.id for row in shown.rows), flush=True)
sys.settrace(count)
watermarks.stage(marks, 'run', KEY, 'n1', shown)
watermarks.commit(marks, 'run')
sys.settrace(None)
print('committed', flush=True)
"""

# Many commits on one record and on many, as fast as they go, in a process of its own.
MANY_COMMITS = """
import sys
sys.path.insert(0, {top!r})
import channel_render, watermarks
from channel_render import Row
KEY = watermarks.Key('s1', 'ch-backend', None)
folder, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
marks = watermarks.open_marks(folder)
sys.stdin.readline()
for at in range(count):
    row = Row(f'{{name}}-{{at}}', 'user', 'aiko', 'text', at)
    for key in (KEY, KEY._replace(channel=f'{{name}}-{{at}}')):
        watermarks.stage(marks, 'run', key, 'n1', channel_render.render([row], 'none', None))
        if not watermarks.commit(marks, 'run'):
            sys.exit(1)
    if at == 0:
        print('at work', flush=True)
"""


def run(script, *arguments, **more):
    return subprocess.Popen([sys.executable, '-c', script.format(top=TOP), *map(str, arguments)], cwd=TOP,
                            stdout=subprocess.PIPE, text=True, **more)


class Kills(unittest.TestCase):
    EVERY = 6           # of the steps of a turn, one in so many; the long tier takes each

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def turn(self, end):
        """The rows that one whole turn shows, after a restart."""
        marks = watermarks.open_marks(self.folder)
        shown = channel_render.render(CHANNEL[max(0, end - 30):end], CHANNEL[end - 1].id,
                                      watermarks.watermark_for(marks, KEY, 'n1'))
        watermarks.stage(marks, 'run', KEY, 'n1', shown)
        self.assertTrue(watermarks.commit(marks, 'run'))
        return [row.id for row in shown.rows]

    def killed_turn(self, end, kill_at):
        """(rows that reached the agent, whether the run ended), in a process of its own."""
        process = run(ONE_TURN, self.folder, end, kill_at)
        out = process.communicate()[0].split('\n')
        self.assertIn(process.returncode, (0, -signal.SIGKILL))
        return out[0].split(), 'committed' in out

    def test_killed_at_every_step_rows_come_again_and_none_is_hidden(self):
        step, ended, killed = 1, False, 0
        while not ended:
            with self.subTest(step=step):
                self.folder = os.path.join(self.folder, str(step))
                self.turn(10)
                second, ended = self.killed_turn(15, step)
                killed += not ended
                said = []
                marks = watermarks.open_marks(self.folder, said.append)
                watermark = watermarks.watermark_for(marks, KEY, 'n1')
                self.assertEqual(said, [], 'a killed writer left a torn record')
                third = self.turn(15)
                self.assertEqual(second, [row.id for row in CHANNEL[9:14]])
                if 'm013' in watermark.ids:                 # the commit had happened: nothing again
                    self.assertEqual(third, [])
                else:                                       # it had not: all of it again
                    self.assertEqual((third, ended), (second, False))
                self.assertEqual(self.turn(17), ['m014', 'm015'])
            step += self.EVERY
        self.assertGreater(killed, 30 / self.EVERY)


class TwoProcesses(unittest.TestCase):
    COMMITS = 40

    def test_they_do_not_lose_each_others_marks(self):
        with tempfile.TemporaryDirectory() as folder:
            both = [run(MANY_COMMITS, folder, name, self.COMMITS, stdin=subprocess.PIPE) for name in 'ab']
            for process in both:
                process.stdin.write('go\n')
                process.stdin.flush()
            for process in both:
                process.communicate()
                self.assertEqual(process.returncode, 0)
            said = []
            marks = watermarks.open_marks(folder, said.append)
            kept = watermarks.watermark_for(marks, KEY, 'n1').ids
            self.assertEqual(sorted(kept), sorted(f'{name}-{at}' for name in 'ab' for at in range(self.COMMITS)))
            for name in 'ab':
                for at in range(self.COMMITS):
                    key = KEY._replace(channel=f'{name}-{at}')
                    self.assertEqual(watermarks.watermark_for(marks, key, 'n1').ids, (f'{name}-{at}',))
            self.assertEqual(said, [])

    def test_killed_while_they_commit_they_leave_whole_records_and_a_free_lock(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(5):
                both = [run(MANY_COMMITS, folder, name, 10_000, stdin=subprocess.PIPE) for name in 'ab']
                for process in both:
                    process.stdin.write('go\n')
                    process.stdin.flush()
                for process in both:
                    self.assertEqual(process.stdout.readline(), 'at work\n')
                for process in both:
                    process.kill()
                    process.communicate()
                said = []
                marks = watermarks.open_marks(folder, said.append)
                watermarks.stage(marks, 'run', KEY, 'n1', channel_render.render(CHANNEL[:3], 'none'))
                self.assertTrue(watermarks.commit(marks, 'run'))
                self.assertEqual(said, [])


if __name__ == '__main__':
    unittest.main()
