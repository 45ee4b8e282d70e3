"""The real Codex under wrap.py, with a scripted model: what article 3 could only show on a stand-in."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import wrap
from tests.interop import judges
from tests.interop.responses_model import CUT, Failed, ResponsesModel, Status, message, reasoning, shell, tool
from tests.wire_world import READ_A, Served

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.join(HERE, 'codex_run.py')
TINY = {'name': 'tiny', 'command': [sys.executable, os.path.join(HERE, 'tiny_mcp.py')]}
LONG_S = 240                     # for whoever ends by himself, on a busy machine
DEADLINES_S = (6, 40)            # for whoever hangs: the second one when the machine was too busy for the first

# Every way to get away that a tool of Codex's has: background, a session of its own, deaf to signals, without any
# environment and parent, nohup, and in front. Each sleeps for a number of seconds that nobody else sleeps for.
BROOD = ("sh -c 'sleep {s} & wait' & setsid sleep {s} & "
         "setsid sh -c 'trap \"\" INT TERM HUP; sleep {s}; sleep {s}' & "
         "env -i PATH=\"$PATH\" setsid -f sleep {s}; nohup sleep {s} >/dev/null 2>&1 & touch {ready}; sleep {s}")


def program() -> str:
    return judges.existing(os.path.join(judges.folder(), 'npm', 'node_modules', '.bin', 'codex'), '@openai/codex (npm)')


def running(word: str) -> list:
    """Processes with `word` among their arguments, in whatever namespace."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as file:
                if word.encode() in file.read().split(b'\0'):
                    found.append(int(pid))
        except OSError:
            continue
    return found


class WithCodex(unittest.TestCase):
    def setUp(self):
        self.codex = program()
        self.home = os.path.realpath(tempfile.mkdtemp(prefix='codex-'))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.folder = os.path.join(self.home, 'project')
        os.makedirs(self.folder)
        os.makedirs(os.path.join(self.home, '.codex'))
        self.environment = {'PATH': os.environ['PATH'], 'HOME': self.home,
                            'CODEX_HOME': os.path.join(self.home, '.codex')}

    def model(self, *replies):
        model = ResponsesModel(replies)
        self.addCleanup(model.close)
        return model

    def run_codex(self, model, prompt='hi', kind='answer', bridge=None, timeout=LONG_S, folder=None, **environment):
        job = {'codex': [self.codex], 'flags': model.flags(), 'prompt': prompt, 'kind': kind, 'bridge': bridge,
               'cwd': folder or self.folder, 'timeout': timeout}
        done = subprocess.run([sys.executable, RUN], input=json.dumps(job), text=True, capture_output=True,
                              env={**self.environment, **environment}, timeout=LONG_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer['survivors'], 0)
        return answer

    def worktree(self):
        main, linked = os.path.join(self.home, 'main'), os.path.join(self.home, 'linked')
        author = ['-c', 'user.name=t', '-c', 'user.email=t@example.org']
        for words in (['init', '-q', main],
                      ['-C', main, *author, 'commit', '-q', '--allow-empty', '-m', 'first'],
                      ['-C', main, 'worktree', 'add', '-q', linked]):
            subprocess.run(['git', *words], check=True, capture_output=True, env=self.environment)
        return linked


class Answers(WithCodex):
    def test_a_plain_answer_with_its_usage(self):
        answer = self.run_codex(self.model([message('Hello.')]))
        self.assertEqual((answer['status'], answer['text'], answer['exit_status']), ('answered', 'Hello.', 0))
        self.assertEqual(answer['usage']['input_tokens'], 100)

    def test_the_program_itself_with_codex_on_path(self):
        model = self.model([reasoning('**Look**'), message('Hello.')])
        shim = os.path.join(self.home, 'codex')
        with open(shim, 'w') as file:
            flags = ' '.join(f"'{flag}'" for flag in model.flags())
            file.write(f'#!/bin/sh\nexec {self.codex} "$@" {flags}\n')
        os.chmod(shim, 0o755)
        environment = {**self.environment, 'PATH': self.home + os.pathsep + os.environ['PATH'],
                       'OPENAI_API_KEY': 'sk-no'}
        done = subprocess.run([sys.executable, os.path.join(os.path.dirname(wrap.__file__), 'wrap.py'), '--verify'],
                              capture_output=True, text=True, env=environment, cwd=self.folder, timeout=LONG_S)
        self.assertEqual((done.returncode, done.stdout), (0, 'Hello.\n'), done.stderr)
        self.assertIn('Thinking: **Look**', done.stderr)
        self.assertIn('Reply with the single word: ok', json.dumps(model.requests[0]['input']))

    def test_reasoning_and_a_command_are_the_progress(self):
        model = self.model([reasoning('**Look**\n\nWhat is here?'), shell('echo here; exit 3')], [message('Nothing.')])
        answer = self.run_codex(model)
        self.assertEqual((answer['status'], answer['text']), ('answered', 'Nothing.'))
        self.assertEqual(answer['steps'], ['Thinking: **Look**\n\nWhat is here?', 'Using shell — echo here; exit 3'])
        self.assertIn('here', model.outputs()[0])

    def test_of_several_messages_the_last_is_the_answer(self):
        answer = self.run_codex(self.model([message('I look.'), shell('true')], [message('Final.')]))
        self.assertEqual((answer['text'], answer['steps']), ('Final.', ['I look.', 'Using shell — true']))

    def test_a_changed_file_is_told_by_its_path(self):
        patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: hello.txt\n+hi\n*** End Patch\nEOF"
        answer = self.run_codex(self.model([shell(patch)], [message('Patched.')]), kind='autonomous')
        path = os.path.join(self.folder, 'hello.txt')
        self.assertEqual((answer['text'], answer['steps']), ('Patched.', [f'Edited {path}']))
        with open(path) as file:
            self.assertEqual(file.read(), 'hi\n')

    def test_a_prompt_of_200_kb_that_begins_with_a_dash_arrives_whole(self):
        prompt = '-é\u20ac ' * 30_000
        self.assertGreater(len(prompt.encode()), 200_000)
        model = self.model([message('Read.')])
        self.assertEqual(self.run_codex(model, prompt)['text'], 'Read.')
        self.assertIn(prompt.strip(), json.dumps(model.requests[0]['input'], ensure_ascii=False))


class Bridges(WithCodex):
    def test_a_tool_of_a_server_over_stdio_answers_and_fails(self):
        for sandboxed in (False, True):
            with self.subTest(sandboxed=sandboxed):
                model = self.model([tool('tiny', 'echo', {'text': 'ping'})], [tool('tiny', 'boom', {})],
                                   [message('Done.')])
                folder = os.path.join(self.home, 'linked')
                folder = folder if os.path.isdir(folder) else self.worktree()
                answer = self.run_codex(model, kind='bridge', bridge={**TINY, 'sandboxed': sandboxed}, folder=folder)
                self.assertEqual((answer['text'], answer['steps']), ('Done.', ['Using echo…', 'Using boom…']))
                self.assertIn('boom: tool call error: tool call failed for `tiny/boom`', answer['warnings'])
                self.assertIn('echo: ping', json.dumps(model.outputs()))

    def test_a_bridge_that_does_not_start_is_an_error(self):
        answer = self.run_codex(self.model(), kind='bridge', bridge={'name': 'dead', 'command': ['false']},
                                folder=self.worktree())
        self.assertEqual(answer['status'], 'failed')
        self.assertIn('required MCP servers failed to initialize: dead', answer['stderr_tail'])

    def test_our_own_connector_over_http_answers_and_refuses(self):
        served = Served()
        self.addCleanup(served.close)
        name, arguments = READ_A
        model = self.model([tool('osfoundry', name, arguments)],
                           [tool('osfoundry', name, {**arguments, 'knowledge_base_id': 'kb-b'})], [message('30 days.')])
        answer = self.run_codex(model, kind='bridge', folder=self.worktree(), OSFOUNDRY_BRIDGE=served.token, bridge={
            'name': 'osfoundry', 'url': served.url, 'bearer_variable': 'OSFOUNDRY_BRIDGE'})
        self.assertEqual((answer['status'], answer['text']), ('answered', '30 days.'), answer)
        self.assertEqual(answer['steps'][0], f'Using {name}…')
        read, refused = (json.dumps(output) for output in model.outputs())
        self.assertIn('30 days', read)
        self.assertIn('not_in_project', refused)
        self.assertNotIn(served.token, json.dumps(answer))


class Failures(WithCodex):
    def test_a_401_is_about_the_sign_in(self):
        refusal = Status(401, {'error': {'message': 'Incorrect API key provided: sk-no.'}})
        answer = self.run_codex(self.model(*[refusal] * 12))
        self.assertEqual((answer['status'], answer['auth']), ('failed', True))
        self.assertIn('401 Unauthorized', answer['error'])

    def test_a_stream_that_is_cut_recovers_and_its_transient_error_is_forgotten(self):
        answer = self.run_codex(self.model(CUT, [message('Recovered.')]))
        self.assertEqual((answer['status'], answer['text'], answer['error']), ('answered', 'Recovered.', None))

    def test_a_turn_that_fails_says_why(self):
        answer = self.run_codex(self.model(*[Failed('The prompt is not valid.')] * 8))
        self.assertEqual((answer['status'], answer['error'], answer['auth']),
                         ('failed', 'The prompt is not valid.', False))


class Kills(WithCodex):
    """A tool hangs past the deadline with children in every hiding place; nothing of it is left."""

    def hang(self, kind, bridge=None, folder=None):
        for deadline_s in DEADLINES_S:
            seconds = f'{300 + os.getpid() % 1000}.{time.monotonic_ns() % 1_000_000_000}'
            ready = os.path.join(folder or self.folder, 'ready-' + seconds)
            # A read-only sandbox lets no file be made: there the model's second request would tell of an early end.
            command = BROOD.format(s=seconds, ready=ready if kind != 'answer' else '/dev/null')
            model = self.model([shell(command, yield_time_ms=30_000)], [message('too early')])
            answer = self.run_codex(model, kind=kind, bridge=bridge, folder=folder, timeout=deadline_s)
            left = running(seconds)
            for pid in left:
                os.kill(pid, 9)
            self.assertEqual(left, [])
            self.assertEqual((answer['status'], answer['error']), ('timed_out', f'timed out after {deadline_s}s'))
            if os.path.exists(ready) or kind == 'answer' and answer['steps']:
                return
        self.fail('the tool never started')

    def test_in_the_read_only_sandbox(self):
        self.hang('answer')

    def test_in_the_sandbox_that_may_write(self):
        self.hang('autonomous')

    def test_in_bypass_mode_with_a_bridge(self):
        self.hang('bridge', TINY, self.worktree())

    def test_a_hanging_tool_of_a_bridge_and_its_child(self):
        seconds = f'{1300 + os.getpid() % 1000}.{time.monotonic_ns() % 1_000_000_000}'
        model = self.model([tool('tiny', 'sleep', {'text': seconds})], [message('too early')])
        answer = self.run_codex(model, kind='bridge', bridge=TINY, folder=self.worktree(), timeout=DEADLINES_S[0])
        left = running(seconds)
        for pid in left:
            os.kill(pid, 9)
        self.assertEqual((answer['status'], left), ('timed_out', []))


if __name__ == '__main__':
    unittest.main()
