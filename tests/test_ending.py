"""How a program ends: once, by the first signal, and never between two halves of a step. Real processes, real signals."""
import os
import signal
import subprocess
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = """
import os, signal, sys, time
import ending
def send(number):
    os.kill(os.getpid(), number)
{}
sys.exit(ending.run(main, []))
"""


def hear_all(test):
    """Whoever started the tests may have had them ignore a signal, which their children would inherit."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            test.addCleanup(signal.signal, number, signal.SIG_IGN)


class Ends(unittest.TestCase):
    def setUp(self):
        hear_all(self)

    def run_main(self, body, *before):
        """What it said and how it ended."""
        done = subprocess.run([*before, sys.executable, '-c', PROGRAM.format(body)], cwd=TOP, capture_output=True, text=True)
        self.assertEqual(done.stderr, '')
        return done.stdout.split(), done.returncode

    def test_each_signal_ends_it_with_its_status_and_without_a_word(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                body = f'def main(argv):\n send({int(number)})\n time.sleep(20)'
                self.assertEqual(self.run_main(body), ([], 128 + number))

    def test_what_is_undisturbed_is_done_first_and_a_second_signal_cuts_no_clean_up_short(self):
        self.assertEqual(self.run_main("""
def main(argv):
    with ending.undisturbed():
        send(signal.SIGHUP)
        print('started')
        try:
            with ending.disturbed():
                print('never')
        finally:
            send(signal.SIGTERM)
            send(signal.SIGINT)
            print('stopped')
    print('never')
"""), (['started', 'stopped'], 128 + signal.SIGHUP))

    def test_a_second_signal_does_not_reach_what_the_first_one_left_to_be_cleaned_up(self):
        self.assertEqual(self.run_main("""
def main(argv):
    try:
        send(signal.SIGHUP)
    finally:
        send(signal.SIGHUP)
        send(signal.SIGINT)
        print('stopped')
"""), (['stopped'], 128 + signal.SIGHUP))

    def test_undisturbed_in_undisturbed_waits_for_the_outer_one_and_an_error_does_not_outrank_the_signal(self):
        self.assertEqual(self.run_main("""
def main(argv):
    try:
        with ending.undisturbed():
            with ending.undisturbed():
                send(signal.SIGTERM)
            print('outer')
            raise LookupError
    except LookupError:
        print('never')
"""), (['outer'], 128 + signal.SIGTERM))

    def test_a_signal_in_a_place_where_python_swallows_exceptions_ends_it_all_the_same(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.assertEqual(self.run_main(f"""
class Closing:
    def __del__(self):
        send({int(number)})
        print('never')
def main(argv):
    Closing()
    time.sleep(20)
"""), ([], 128 + number))

    def test_a_signal_that_we_were_told_to_ignore_ends_nothing(self):
        body = 'def main(argv):\n send(signal.SIGHUP)\n print("on")\n return 0'
        self.assertEqual(self.run_main(body, 'sh', '-c', 'trap "" HUP; exec "$0" "$@"'), (['on'], 0))


if __name__ == '__main__':
    unittest.main()
