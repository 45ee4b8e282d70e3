"""Article 3: real processes. The stand-in hangs, crashes and floods; wrap.py answers, and nothing is left behind."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import codex_cases
import fake_codex
import wrap
import wrap_kill
import wrap_process

from tests import test_article3_streams as streams

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WRAP = os.path.join(TOP, 'wrap.py')
CODEX = [sys.executable, '-I', '-S', os.path.join(TOP, 'fake_codex.py')]
ARGV = [*CODEX, 'exec', 'hi', '--json']
LONG_S = 120                     # for whoever is expected to end by himself, on a busy machine
DEADLINES_S = (0.4, 5, 60)       # for whoever hangs: the next one when the machine was too busy to get that far


_ignored = {}


def setUpModule():
    """A shell starts background jobs with SIGINT ignored, and children inherit that: here it must be heard."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            _ignored[number] = signal.signal(number, signal.default_int_handler)


def tearDownModule():
    for number, handler in _ignored.items():
        signal.signal(number, handler)


class Started:
    """The program itself, with the stand-in and a file of the pids that it started."""

    def __init__(self, folder, mode, *flags, prompt='hi', **env):
        self.pids = os.path.join(folder, f'{mode}-{time.monotonic_ns()}.pids')
        environment = {**os.environ, 'FAKE_CODEX': mode, 'FAKE_CODEX_SPEED': '20', 'FAKE_CODEX_PIDS': self.pids, **env}
        by_stdin = prompt != 'hi'
        self.process = subprocess.Popen(
            [sys.executable, WRAP, '--demo', *flags, '-' if by_stdin else prompt], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.prompt = prompt.encode() if by_stdin else b''

    def end(self):
        out, err = self.process.communicate(self.prompt, timeout=LONG_S)
        return self.process.returncode, out, err.decode()

    def answer(self):
        code, out, err = self.end()
        return code, json.loads(out), err


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def until_told(self, run, word):
        """Read the program's progress up to the line that holds `word`."""
        for line in run.process.stderr:
            if word in line:
                return
        self.fail(f'it ended before it said {word}')

    def hang(self, mode, run=wrap.run_events, **options):
        """Run past a deadline that left time for the tool to start. Returns the answer and who is alive after it."""
        for deadline_s in DEADLINES_S:
            env = self.env(mode)
            answer = run(ARGV, deadline_s, env, **options)
            if self.told(self.pids):
                left = codex_cases.living(self.pids)
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                self.assertEqual(answer.status, 'timed_out')
                self.assertEqual(answer.error, f'timed out after {deadline_s:g}s')
                self.assertGreaterEqual(answer.timings['exit'], deadline_s)
                return answer, left
        self.fail('the tool never started')

    def until_ready(self, mode, **options):
        """Run until the stand-in has said that its brood is there, then cancel. Returns the answer."""
        cancel = wrap.Cancel()
        self.addCleanup(cancel.close)
        return wrap.run_events(ARGV, LONG_S, self.env(mode), options=wrap.Options(cancel=cancel, **options),
                               on_event=lambda event: cancel.cancel() if event.text == 'Thinking: ready' else None)

    def told(self, pids):
        """Whether a pid is on file: the tool that bears it is there, in the session that it is to have."""
        return os.path.exists(pids) and os.path.getsize(pids) > 0

    def env(self, mode, **more):
        self.pids = os.path.join(self.folder, f'{mode}-{time.monotonic_ns()}.pids')    # a late child of another run
        return {**os.environ, 'FAKE_CODEX': mode, 'FAKE_CODEX_SPEED': '20', 'FAKE_CODEX_PIDS': self.pids, **more}


EXIT = {'answered': 0, 'failed': 1, 'partial': 3, 'timed_out': 124}


class Cases(Scratch):
    """All 22, through the program, at once."""
    TIMES = 1

    def test_all_22_cases_are_right_and_leave_nothing_behind(self):
        self.assertEqual(len(codex_cases.CASES), 22)
        for _ in range(self.TIMES):
            started = [(case, self.start(case, DEADLINES_S[0])) for case in codex_cases.CASES]
            for case, run in started:
                with self.subTest(case=case.what):
                    self.check(case, run)

    def start(self, case, deadline_s):
        return Started(self.folder, case.mode, '--json', '--timeout', str(deadline_s if case.hangs else LONG_S),
                       prompt=case.prompt)

    def check(self, case, run):
        code, answer, _ = run.answer()
        for deadline_s in DEADLINES_S[1:]:
            if case.hangs and not self.told(run.pids):
                run = self.start(case, deadline_s)
                code, answer, _ = run.answer()
        told = (answer['status'], answer['text'], answer['auth'])
        self.assertEqual(told, (case.status, case.text, case.auth), answer['error'])
        self.assertEqual(code, 4 if case.auth else EXIT[case.status])
        if case.error:
            self.assertIn(case.error, answer['error'])
        else:
            self.assertIsNone(answer['error'])
        self.assertEqual((answer['survivors'], codex_cases.living(run.pids)), (0, []))
        if case.hangs:
            self.assertTrue(self.told(run.pids), 'the tool never started')
        if case.mode in ('linger', 'holder'):            # these would go on by themselves
            self.assertLess(answer['timings']['exit'], fake_codex.LEFT_OPEN_S)


class Replays(Scratch):
    def test_recorded_streams_give_the_same_through_a_real_process(self):
        """Signals, exit statuses and the real stderr among them; every seventh stream, the long tier takes all."""
        for name in sorted(streams.REVIEWED)[::self.EVERY]:
            with self.subTest(stream=name):
                env = self.env('replay', FAKE_CODEX_STREAM=os.path.join(streams.STREAMS, name + '.jsonl'))
                answer = wrap.run_events(ARGV, LONG_S, env)
                expected = streams.REVIEWED[name]
                self.assertEqual((answer.status, answer.text, answer.auth, answer.steps), expected)
                self.assertEqual(answer.exit_status, streams.recorded(name)['exit_code'])
    EVERY = 7


SUBREAPER = """
import os, subprocess, sys
import wrap, wrap_kill
assert wrap_kill.adopt_orphans()
def child(**more):
    return subprocess.Popen(['sleep', '300'], **more)
mine = [child(start_new_session=True)]
def listen(event):
    if event.text == 'Thinking: ready':
        mine.append(child())
        mine.append(child(start_new_session=True, env={**os.environ, wrap_kill.MARK: 'another'}))
answer = wrap.run_events(sys.argv[1:], 120, options=wrap.Options(gentle_s=2.0, subreaper=True), on_event=listen)
print(answer.status, [one.poll() for one in mine])
for one in mine:
    one.kill()
"""


class Kills(Scratch):
    """What ends a run ends all of it, and nothing else."""
    TIMES = 1

    @unittest.skipUnless(wrap_kill.LINUX, 'elsewhere only the process group is ended, and said so')
    def test_the_program_ends_tools_in_every_hiding_place(self):
        for _ in range(self.TIMES):
            for mode in ('hang_brood', 'leave_brood'):
                with self.subTest(mode=mode):
                    run = Started(self.folder, mode, '--json')
                    if mode == 'hang_brood':
                        self.until_told(run, b'ready')
                        run.process.send_signal(signal.SIGTERM)
                    code, answer, _ = run.answer()
                    self.assertEqual(code, 128 + signal.SIGTERM if mode == 'hang_brood' else 0)
                    with open(run.pids) as file:
                        self.assertEqual(len(file.read().split()), 8, 'the brood was not complete')
                    self.assertEqual((answer['survivors'], codex_cases.living(run.pids)), (0, []))

    @unittest.skipUnless(wrap_kill.LINUX, 'elsewhere only the process group is ended, and said so')
    def test_a_library_caller_who_is_no_subreaper_finds_all_but_the_one_without_any_sign(self):
        answer = self.until_ready('hang_brood')
        self.assertEqual(answer.survivors, 0)
        left = codex_cases.living(self.pids)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertLessEqual(len(left), 1)

    @unittest.skipUnless(wrap_kill.LINUX, 'elsewhere only the process group is ended, and said so')
    def test_a_tool_without_environment_in_a_session_of_its_own_is_found_by_its_descent(self):
        self.assertEqual(self.hang('hang_bare')[1], [])

    def test_an_unrelated_child_stays_alive(self):
        mine = subprocess.Popen(['sleep', '300'], start_new_session=True)
        self.addCleanup(mine.wait)
        self.addCleanup(mine.kill)
        self.until_ready('hang_brood', gentle_s=2.0)
        for pid in codex_cases.living(self.pids):
            os.kill(pid, signal.SIGKILL)
        self.assertIsNone(mine.poll())

    @unittest.skipUnless(wrap_kill.LINUX, 'a subreaper is a thing of Linux')
    def test_a_subreaper_ends_no_child_of_its_own(self):
        """In a process of its own, since it is one for good: children from before, of our session, of another run."""
        done = subprocess.run([sys.executable, '-c', SUBREAPER, *ARGV], env=self.env('leave_brood'), cwd=TOP, text=True,
                              capture_output=True)
        self.assertEqual(done.stdout, 'answered [None, None, None]\n', done.stderr)
        self.assertEqual(codex_cases.living(self.pids), [])

    @unittest.skipUnless(wrap_kill.LINUX, 'elsewhere only a timeout ends the group')
    def test_after_a_normal_end_what_is_left_in_the_group_is_found_without_a_mark(self):
        script = 'env -i sleep 300 & echo $! > "$FAKE_CODEX_PIDS"'
        wrap.run_events(['/bin/sh', '-c', script], LONG_S, self.env('ok'))
        with open(self.pids) as file:
            self.assertTrue(file.read().strip())
        self.assertEqual(codex_cases.living(self.pids), [])

    def test_killpg_takes_the_tool_along_and_kill_does_not(self):
        """The article's two rows."""
        for group, alive in ((False, 1), (True, 0)):
            with self.subTest(group=group):
                answer, left = self.hang('hang', group=group)
                self.assertEqual((answer.exit_status, len(left)), (-9, alive))
                self.assertEqual(answer.survivors, alive if wrap_kill.LINUX else 0)

    def test_whoever_hears_no_sigint_gets_sigkill_after_the_grace(self):
        answer, left = self.hang('hang_deaf', options=wrap.Options(gentle_s=0.5))
        self.assertEqual((answer.exit_status, left), (-9, []))
        self.assertGreaterEqual(answer.timings['exit'], DEADLINES_S[0] + 0.5)

    def test_sigint_comes_first_when_the_run_is_gentle(self):
        answer, _ = self.hang('hang', options=wrap.Options(gentle_s=LONG_S))
        self.assertEqual(answer.exit_status, 1)          # the stand-in's, and Codex's, on SIGINT

    def test_a_listener_that_fails_ends_the_run_before_its_error_goes_on(self):
        def fail(_event):
            raise LookupError('listener')

        with self.assertRaises(LookupError):
            wrap.run_events(ARGV, LONG_S, self.env('hang_brood'), on_event=fail)
        left = codex_cases.living(self.pids)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertLessEqual(len(left), 1)

    def test_runs_beside_each_other_do_not_disturb_each_other(self):
        """Four runs end at different times in one process; each takes its own and no other's."""
        answers, told = {}, {}

        def run(name, mode, timeout):
            pids = os.path.join(self.folder, name)
            env = {**self.env(mode), 'FAKE_CODEX_PIDS': pids}
            answers[name] = wrap.run_events(ARGV, timeout, env, options=wrap.Options(gentle_s=2.0))
            told[name] = codex_cases.living(pids)

        cases = [('a', 'hang', 0.3), ('b', 'ok', LONG_S), ('c', 'hang_session', 0.6), ('d', 'holder', LONG_S)]
        threads = [threading.Thread(target=run, args=case) for case in cases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({name: answer.status for name, answer in answers.items()},
                         {'a': 'timed_out', 'b': 'answered', 'c': 'timed_out', 'd': 'answered'})
        self.assertEqual(told, dict.fromkeys('abcd', []))

    def test_a_run_is_not_ended_by_the_end_of_another(self):
        """A run that waits is still there after ten others have been swept."""
        cancel, begun = wrap.Cancel(), threading.Event()
        self.addCleanup(cancel.close)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(wrap.run_events(
            ARGV, LONG_S, self.env('hang_brood'), options=wrap.Options(cancel=cancel),
            on_event=lambda event: begun.set() if event.text == 'Thinking: ready' else None)))
        thread.start()
        self.assertTrue(begun.wait(LONG_S))
        brood = self.pids
        for _ in range(10):
            wrap.run_events(ARGV, LONG_S, {**self.env('killed'), 'FAKE_CODEX_PIDS': brood + '-other'})
        self.assertEqual(len(codex_cases.living(brood)), 8)
        cancel.cancel()
        thread.join()
        for pid in codex_cases.living(brood):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual((answers[0].status, answers[0].error), ('failed', 'cancelled'))


class Elsewhere(Scratch):
    """What Linux has and macOS has not, taken away."""

    def without(self, module, name, value):
        kept = getattr(module, name)
        self.addCleanup(setattr, module, name, kept)
        setattr(module, name, value)

    def test_without_a_descriptor_for_the_end_of_a_process_it_is_noticed_all_the_same(self):
        self.without(wrap_process, 'open_pidfd', lambda pid: None)
        self.assertEqual(wrap.run_events(ARGV, LONG_S, self.env('quick')).status, 'answered')
        self.assertEqual(wrap.run_events(ARGV, LONG_S, self.env('holder')).status, 'answered')
        self.assertEqual(self.hang('hang', options=wrap.Options(gentle_s=LONG_S))[0].exit_status, 1)

    def test_without_proc_the_group_is_ended_and_no_more_is_promised(self):
        self.without(wrap_kill, 'LINUX', False)
        answer, left = self.hang('hang')
        self.assertEqual((answer.survivors, left), (0, []))
        self.assertEqual(wrap.run_events(ARGV, LONG_S, self.env('quick')).status, 'answered')
        answer, left = self.hang('hang_session')
        self.assertEqual((answer.survivors, len(left)), (0, 1))


class Pipes(Scratch):
    def test_stderr_is_drained_beside_stdout_and_its_tail_is_kept(self):
        answer = wrap.run_events(ARGV, LONG_S, self.env('trace'))
        self.assertEqual(answer.status, 'answered')
        self.assertEqual(len(answer.stderr_tail.encode()), 4_000)
        self.assertIn('TRACE 001999 ', answer.stderr_tail)

    def test_stderr_read_only_after_stdout_loses_the_run_at_the_deadline(self):
        answer = wrap.run_events(ARGV, 0.4, self.env('trace'), drain_stderr=False)
        self.assertEqual((answer.status, answer.error, answer.text), ('timed_out', 'timed out after 0.4s', ''))
        self.assertEqual(wrap.run_events(ARGV, LONG_S, self.env('quick'), drain_stderr=False).status, 'answered')

    def test_progress_comes_while_the_run_goes_on(self):
        """Who is told of a step while its tool hangs can end the run: at its end nobody could."""
        self.assertEqual(self.until_ready('hang_brood').error, 'cancelled')
        for pid in codex_cases.living(self.pids):
            os.kill(pid, signal.SIGKILL)
        told = []
        answer = wrap.run_events(ARGV, LONG_S, self.env('ok'), on_event=lambda event: told.append(event.kind))
        self.assertEqual(told, ['step', 'step', 'text', 'usage'])
        times = [answer.timings[name] for name in ('first_byte', 'first_item', 'answer', 'exit')]
        self.assertEqual(times, sorted(times))

    def test_a_long_prompt_arrives_whole_by_standard_input(self):
        seen = os.path.join(self.folder, 'seen')
        prompt = '-é\u20ac\u2028' * 100_000
        argv = wrap.build_codex_command(prompt, codex=CODEX)
        answer = wrap.run_events(argv, LONG_S, self.env('quick', FAKE_CODEX_SEEN=seen),
                                 options=wrap.Options(stdin=wrap.prompt_input(argv, prompt)))
        self.assertEqual(answer.status, 'answered')
        with open(seen, encoding='utf-8') as file:
            self.assertEqual(json.load(file)['prompt'], prompt)

    def test_the_environment_is_clean_and_the_arguments_and_the_folder_are_as_given(self):
        seen = os.path.join(self.folder, 'seen')
        env = self.env('quick', FAKE_CODEX_SEEN=seen, OPENAI_API_KEY='x', CODEX_API_KEY='x', OPENAI_BASE_URL='x')
        self.assertEqual(wrap.run_events(ARGV, LONG_S, env, options=wrap.Options(cwd=self.folder)).status, 'answered')
        with open(seen, encoding='utf-8') as file:
            call = json.load(file)
        self.assertEqual([name for name in call['env'] if name.startswith(('OPENAI', 'CODEX_API'))], [])
        self.assertEqual((call['argv'], call['cwd']), (ARGV[4:], os.path.realpath(self.folder)))

    def test_our_own_open_standard_input_is_not_inherited(self):
        """The stand-in, like the real one, reads an open pipe to its end before it does anything."""
        program = subprocess.Popen([sys.executable, WRAP, '--demo', 'hi'], env=self.env('quick'), stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(program.stdin.close)
        self.assertEqual(program.wait(LONG_S), 0)

    def test_a_binary_that_is_not_there_is_an_answer_and_not_a_traceback(self):
        answer = wrap.run_events(['/nowhere/codex', 'exec', 'hi'], LONG_S)
        self.assertEqual((answer.status, answer.exit_status), ('failed', None))
        self.assertIn('/nowhere/codex', answer.error)

    def test_an_argument_that_no_process_can_have_is_an_answer_too(self):
        answer = wrap.run_events([*ARGV, 'a\x00b'], LONG_S)
        self.assertEqual((answer.status, answer.error), ('failed', f'cannot start {ARGV[0]}: embedded null byte'))
        self.assertEqual(wrap_kill._active, set())

    def test_a_run_that_cannot_be_watched_is_an_answer_too_and_does_not_live_on(self):
        started, start = [], wrap_process.start
        with mock.patch('wrap_process.start', lambda *how: started.append(start(*how)) or started[0]), \
                mock.patch('selectors.DefaultSelector', side_effect=OSError(24, 'Too many open files')):
            answer = wrap.run_events(ARGV, LONG_S, self.env('hang'))
        self.assertEqual((answer.status, answer.error), ('failed', f'cannot watch {ARGV[0]}: Too many open files'))
        self.assertEqual((started[0].returncode, wrap_kill._active), (-signal.SIGKILL, set()))

    def test_no_descriptor_is_left_open(self):
        if not wrap_kill.LINUX:
            self.skipTest('counts /proc/self/fd')
        before = len(os.listdir('/proc/self/fd'))
        for mode in ('quick', 'holder', 'crash'):
            wrap.run_events(ARGV, LONG_S, self.env(mode))
        wrap.run_events(['/nowhere/codex'], LONG_S)
        with mock.patch('wrap_process.Watch._register', side_effect=OSError(28, 'No space left on device')):
            wrap.run_events(ARGV, LONG_S, self.env('hang'))
        wrap.run_file(ARGV, LONG_S, self.env('quick'))
        self.assertEqual(len(os.listdir('/proc/self/fd')), before)


class AnswerFile(Scratch):
    """The other strategy, and where the two disagree."""

    def test_the_answer_is_there_only_when_the_process_has_ended(self):
        answer = wrap.run_file(ARGV, LONG_S, self.env('ok'))
        self.assertEqual((answer.status, answer.text), ('answered', codex_cases.ANSWER))
        self.assertEqual((answer.timings['first_byte'], answer.timings['first_item']), (None, None))
        self.assertEqual(answer.timings['answer'], answer.timings['exit'])

    def test_failures_leave_no_file_and_only_stderr_hints_at_why(self):
        for mode, auth, hint in (('crash', False, 'panicked'), ('auth', True, '401'),
                                 ('killed', False, 'exit status 137')):
            with self.subTest(mode=mode):
                answer = wrap.run_file(ARGV, LONG_S, self.env(mode))
                self.assertEqual((answer.status, answer.text, answer.auth), ('failed', '', auth))
                self.assertRegex(answer.error, rf'no answer file \(.*{hint}')

    def test_a_hang_is_ended_at_the_deadline(self):
        self.assertEqual(self.hang('hang', run=wrap.run_file)[1], [])

    def test_a_file_with_another_exit_than_0_is_partial(self):
        self.assertEqual(wrap.run_file(ARGV, LONG_S, self.env('completed_exit_1')).status, 'partial')


class Program(Scratch):
    def test_the_answer_alone_is_on_stdout_and_progress_on_stderr(self):
        code, out, err = Started(self.folder, 'ok').end()
        self.assertEqual((code, out), (0, b'The answer.\n'))
        self.assertEqual(err, 'Thinking: I look at the folder first.\nUsing shell — sleep 0.8\n')

    def test_json_has_the_keys_that_programs_count_on(self):
        _, answer, _ = Started(self.folder, 'quick', '--json').answer()
        self.assertEqual(list(answer), ['status', 'text', 'complete', 'auth', 'error', 'warnings', 'steps', 'usage',
                                        'exit_status', 'stderr_tail', 'survivors', 'timings'])
        self.assertEqual(list(answer['timings']), ['first_byte', 'first_item', 'answer', 'exit'])
        self.assertEqual((answer['usage']['input_tokens'], answer['survivors']), (100, 0))

    def test_the_person_is_told_how_to_sign_in_and_what_a_partial_is(self):
        self.assertIn('codex login', Started(self.folder, 'auth').end()[2])
        self.assertIn('half an answer', Started(self.folder, 'killed').end()[2])

    def test_an_earlier_message_is_shown_as_progress_and_is_not_in_the_answer(self):
        code, out, err = Started(self.folder, 'multi').end()
        self.assertEqual((code, out, err), (0, b'The answer.\n', 'I will look first.\nThinking: Looking.\n'))

    def test_the_file_strategy_and_the_sign_in_check_run_too(self):
        self.assertEqual(Started(self.folder, 'quick', '--file').end()[:2], (0, b'The answer.\n'))
        env = {**self.env('quick'), 'FAKE_CODEX_SEEN': os.path.join(self.folder, 'seen')}
        done = subprocess.run([sys.executable, WRAP, '--demo', '--verify'], env=env, capture_output=True)
        self.assertEqual(done.returncode, 0)
        with open(env['FAKE_CODEX_SEEN'], encoding='utf-8') as file:
            self.assertEqual(json.load(file)['argv'][1], 'Reply with the single word: ok')

    def test_it_finds_codex_on_path_and_says_how_to_get_it_when_there_is_none(self):
        binary = os.path.join(self.folder, 'codex')
        with open(binary, 'w') as file:
            file.write(f'#!/bin/sh\nexec {" ".join(CODEX)} "$@"\n')
        os.chmod(binary, 0o755)
        env = self.env('quick', FAKE_CODEX_SEEN=os.path.join(self.folder, 'seen'),
                       PATH=self.folder + os.pathsep + os.environ['PATH'])
        flags = ['--autonomous', '--system', 'Be brief.', '--cd', self.folder]
        done = subprocess.run([sys.executable, WRAP, 'hi', *flags], env=env, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b'The answer.\n'))
        with open(env['FAKE_CODEX_SEEN'], encoding='utf-8') as file:
            call = json.load(file)
        self.assertEqual(call['argv'], ['exec', 'Be brief.\n\nhi', '--json', '--skip-git-repo-check',
                                        '--ignore-user-config', '--ignore-rules', '-s', 'workspace-write',
                                        '-c', 'approval_policy="never"'])
        self.assertEqual(call['cwd'], os.path.realpath(self.folder))
        os.unlink(binary)
        env['PATH'] = self.folder
        done = subprocess.run([sys.executable, WRAP, 'hi'], env=env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (127, ''))
        self.assertIn('npm install', done.stderr)

    def test_an_older_binary_is_not_given_the_flag_that_it_refuses(self):
        self.assertEqual(Started(self.folder, 'quick', FAKE_CODEX_HELP='old').end()[:2], (0, b'The answer.\n'))

    def test_usage_errors_exit_with_2_and_start_nothing(self):
        for flags in ([], ['hi', '--verify'], ['hi', '--cd', '/nowhere'], ['hi', '--timeout', '0'], ['hi', '--what'],
                      [' ']):
            with self.subTest(flags=flags):
                done = subprocess.run([sys.executable, WRAP, '--demo', *flags], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (2, ''))
                self.assertNotIn('Traceback', done.stderr)

    def test_a_prompt_from_standard_input_may_hold_any_bytes(self):
        env = self.env('quick', FAKE_CODEX_SEEN=os.path.join(self.folder, 'seen'))
        done = subprocess.run([sys.executable, WRAP, '--demo', '-'], env=env, input=b'caf\xe9', capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, b'The answer.\n'))
        with open(env['FAKE_CODEX_SEEN'], encoding='utf-8') as file:
            self.assertEqual(json.load(file)['argv'][1], 'caf\ufffd')
        done = subprocess.run(['sh', '-c', 'exec "$0" "$1" --demo - <&-', sys.executable, WRAP], env=env,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, 'wrap.py: the prompt is empty\n'))

    def test_an_answer_that_cannot_be_written_is_said_in_a_sentence(self):
        for where, status in (('>&-', 1), ('>/dev/full', 1), ('2>&-', 0), ('2>/dev/full', 0)):
            with self.subTest(redirected=where):
                if 'full' in where and not os.path.exists('/dev/full'):
                    self.skipTest('no /dev/full here')
                done = subprocess.run(['sh', '-c', f'exec "$0" "$1" --demo hi {where}', sys.executable, WRAP],
                                      env=self.env('quick'), capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (status, '' if status else 'The answer.\n'))
                self.assertNotIn('Traceback', done.stderr)
                self.assertEqual('not written' in done.stderr, bool(status))

    def test_the_stand_in_that_nobody_reads_ends_without_a_word(self):
        for words in ('--modes', '--help', 'exec x'):
            for where in ('>&-', '<&-', '>/dev/full'):
                with self.subTest(words=words, redirected=where):
                    done = subprocess.run(['sh', '-c', f'exec "$@" {words} {where}', 'sh', *CODEX],
                                          env=self.env('quick'), capture_output=True, text=True)
                    self.assertNotIn('Traceback', done.stderr)
                    self.assertIn(done.returncode, (0, 1))

    def test_ctrl_c_cleans_up_and_leaves_no_traceback(self):
        run = Started(self.folder, 'hang_brood')
        self.until_told(run, b'ready')
        run.process.send_signal(signal.SIGINT)
        code, out, err = run.end()
        self.assertEqual((code, out, err), (130, b'', 'wrap.py: cancelled\n'))
        left = codex_cases.living(run.pids)
        self.assertEqual(left, [] if wrap_kill.LINUX else left)

    def test_a_signal_that_we_were_told_to_ignore_ends_nothing(self):
        words = f'trap "" HUP; exec {sys.executable} {WRAP} --demo hi'
        program = subprocess.Popen(['sh', '-c', words], env=self.env('ok', FAKE_CODEX_SPEED='4'),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn(b'I look at the folder first', program.stderr.readline())
        program.send_signal(signal.SIGHUP)
        out, _ = program.communicate(timeout=LONG_S)
        self.assertEqual((program.returncode, out), (0, b'The answer.\n'))

    def test_what_an_agent_says_cannot_steer_the_terminal(self):
        self.assertEqual(wrap.printable('a\x1b[31mb\u202ec\n', kept='\n'), 'a\\x1b[31mb\\u202ec\n')


if __name__ == '__main__':
    unittest.main()
