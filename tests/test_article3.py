"""Article 3: the command, the rows of the parser, what counts as success. Streams and runs: the modules beside."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

import wrap
import wrap_command
import wrap_kill
import wrap_process
import wrap_stream

PUBLISHED = ['codex', 'exec', 'Reply with the single word: ok', '--json', '--skip-git-repo-check',
             '--ignore-user-config', '--ignore-rules', '-s', 'read-only', '-c', 'approval_policy="never"']
HELP = """Commands:
  resume  Resume a previous session
  help    Print this message

Options:
      --ignore-rules
"""


def build(prompt='hi', kind='answer', help_text=HELP, **more):
    return wrap.build_codex_command(prompt, kind, help_text=help_text, **more)


class Command(unittest.TestCase):
    def test_the_sign_in_check_is_the_articles_command_word_for_word(self):
        self.assertEqual(build(wrap_command.VERIFY_PROMPT, 'verify'), PUBLISHED)

    def test_ignore_rules_is_left_out_when_the_binarys_help_does_not_name_it(self):
        self.assertEqual(build(wrap_command.VERIFY_PROMPT, help_text=HELP.replace('ignore-rules', 'ignore-rules-not')),
                         [word for word in PUBLISHED if word != '--ignore-rules'])

    def test_a_binary_is_asked_for_its_help_once(self):
        with tempfile.TemporaryDirectory() as folder:
            binary, asked = os.path.join(folder, 'codex'), os.path.join(folder, 'asked')
            with open(binary, 'w', encoding='ascii') as file:
                file.write(f'#!/bin/sh\necho "$@" >> "{asked}"\necho "      --ignore-rules"\n')
            os.chmod(binary, 0o755)
            for _ in range(2):
                self.assertIn('--ignore-rules', build(codex=binary, help_text=None))
            with open(asked, encoding='ascii') as file:
                self.assertEqual(file.read(), 'exec --help\n')

    def test_an_autonomous_run_may_write_in_its_workspace(self):
        argv = build(kind='autonomous')
        self.assertEqual(argv[argv.index('-s') + 1], 'workspace-write')
        self.assertIn('approval_policy="never"', argv)

    def test_an_answer_is_read_only(self):
        argv = build()
        self.assertEqual(argv[argv.index('-s') + 1], 'read-only')

    def test_prompts_that_codex_would_misread_go_by_standard_input(self):
        for prompt in ('-s danger-full-access', '-', 'resume', 'help', 'nul \0 inside', 'é' * 65_536):
            with self.subTest(prompt=prompt[:20]):
                argv = build(prompt)
                self.assertEqual(argv[2], '-')
                self.assertEqual(wrap.prompt_input(argv, prompt), prompt.encode())

    def test_other_prompts_are_the_one_positional_argument(self):
        for prompt in ('hi', 'resume my work', ' -x', 'x' * 131_071):
            with self.subTest(prompt=prompt[:20]):
                self.assertEqual(build(prompt)[2], prompt)
                self.assertIsNone(wrap.prompt_input(build(prompt), prompt))

    def test_the_longest_argument_really_passes_and_one_byte_more_does_not(self):
        longest = 'x' * wrap_command.ARGUMENT_BYTES
        self.assertEqual(subprocess.run(['true', longest]).returncode, 0)
        if wrap_process.wrap_kill.LINUX:
            with self.assertRaises(OSError):
                subprocess.run(['true', longest + 'x'])

    def test_a_prompt_over_the_limit_is_refused_with_the_limit_before_anything_starts(self):
        build('x' * wrap_command.PROMPT_CHARS)
        with self.assertRaises(wrap.CannotRun) as refused:
            build('x' * (wrap_command.PROMPT_CHARS + 1))
        self.assertEqual((refused.exception.code, refused.exception.data['limit']), ('prompt_too_long', 1_048_576))

    def test_sub_commands_are_those_that_the_help_lists(self):
        self.assertEqual(wrap_command.subcommands(HELP), ('resume', 'help'))
        self.assertEqual(build('fork')[2], 'fork')
        self.assertEqual(build('fork', help_text='')[2], '-')

    def test_system_stands_in_front_and_earlier_turns_are_a_labelled_transcript(self):
        self.assertEqual(wrap.build_prompt('Be brief.', [('User', 'hi'), ('Assistant', 'yes?'), ('User', 'why')]),
                         'Be brief.\n\nUser: hi\n\nAssistant: yes?\n\nUser: why')
        self.assertEqual(wrap.build_prompt('Be brief.', [('User', 'hi')]), 'Be brief.\n\nhi')
        self.assertEqual(wrap.build_prompt('', [('User', 'hi')]), 'hi')

    def test_what_would_move_the_run_to_another_account_is_taken_out_of_the_environment(self):
        gone = ('CODEX_API_KEY', 'OPENAI_API_KEY', 'OPENAI_BASE_URL', 'CODEX_ACCESS_TOKEN', 'RUST_LOG')
        self.assertEqual(wrap_command.child_environment({**dict.fromkeys(gone, 'x'), 'PATH': '/bin'}), {'PATH': '/bin'})


class BridgeRun(unittest.TestCase):
    """The bypass is allowed inside a linked git worktree only."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.main, self.linked = os.path.join(folder.name, 'main'), os.path.join(folder.name, 'linked')
        for words in (['init', '-q', self.main],
                      ['-C', self.main, '-c', 'user.name=t', '-c', 'user.email=t@example.org', 'commit', '-q',
                       '--allow-empty', '-m', 'first'],
                      ['-C', self.main, 'worktree', 'add', '-q', self.linked]):
            subprocess.run(['git', *words], check=True, capture_output=True)
        self.bridge = wrap.Bridge('osfoundry', ['python3', 'bridge.py', 'a "b"', 'ü\U0001f600\x7f'])

    def flags(self, folder, bridge=None):
        return build(kind='bridge', bridge=bridge or self.bridge, cwd=folder)

    def test_the_bypass_replaces_sandbox_and_approvals_and_the_bridge_comes_as_configuration(self):
        argv = self.flags(self.linked)
        at = argv.index('--dangerously-bypass-approvals-and-sandbox')
        self.assertNotIn('-s', argv)
        self.assertNotIn('approval_policy="never"', argv)
        self.assertEqual(argv[at + 1:], [
            '-c', 'mcp_servers.osfoundry.command="python3"',
            '-c', 'mcp_servers.osfoundry.args=["bridge.py", "a \\"b\\"", "ü\U0001f600\\u007f"]',
            '-c', 'mcp_servers.osfoundry.required=true'])

    def test_a_bridge_over_http_names_the_variable_of_its_token_and_never_the_token(self):
        argv = self.flags(self.linked, wrap.Bridge('osf', url='http://127.0.0.1:1/mcp', bearer_variable='OSF_TOKEN'))
        self.assertIn('mcp_servers.osf.url="http://127.0.0.1:1/mcp"', argv)
        self.assertIn('mcp_servers.osf.bearer_token_env_var="OSF_TOKEN"', argv)

    def test_a_sandboxed_bridge_keeps_the_sandbox_and_approves_only_its_own_tools(self):
        argv = self.flags(self.linked, self.bridge._replace(sandboxed=True))
        self.assertNotIn('--dangerously-bypass-approvals-and-sandbox', argv)
        self.assertEqual(argv[argv.index('-s') + 1], 'workspace-write')
        self.assertIn('mcp_servers.osfoundry.default_tools_approval_mode="approve"', argv)

    def test_a_folder_inside_the_worktree_will_do(self):
        inside = os.path.join(self.linked, 'a', 'b')
        os.makedirs(inside)
        self.assertIn('--dangerously-bypass-approvals-and-sandbox', self.flags(inside))

    def test_everything_else_is_refused_by_name(self):
        fake = os.path.join(os.path.dirname(self.main), 'fake')
        os.mkdir(fake)
        with open(os.path.join(fake, '.git'), 'w') as file:       # points at a worktree that does not point back
            file.write(f'gitdir: {self.main}/.git/worktrees/linked\n')
        for folder in (self.main, os.path.dirname(self.main), fake, os.path.join(self.main, 'absent')):
            with self.subTest(folder=os.path.basename(folder)), self.assertRaises(wrap.CannotRun) as refused:
                self.flags(folder)
            self.assertEqual(refused.exception.code, 'not_a_worktree')
            self.assertIn(folder, str(refused.exception))

    def test_a_bridge_without_a_usable_name_or_with_two_addresses_is_refused(self):
        for bridge in (wrap.Bridge('a.b', ['x']), wrap.Bridge('a'), wrap.Bridge('a', ['x'], 'http://h/')):
            with self.subTest(bridge=bridge), self.assertRaises(wrap.CannotRun) as refused:
                self.flags(self.linked, bridge)
            self.assertEqual(refused.exception.code, 'bad_bridge')


def event(kind, **fields):
    return wrap.parse_codex_line(json.dumps({'type': kind, **fields}))


def item(what, kind='item.completed', **fields):
    return event(kind, item={'id': 'item_1', 'type': what, **fields})


class Rows(unittest.TestCase):
    """The article's table: seven rows, and everything else costs nothing."""

    def test_agent_message_becomes_the_answers_text(self):
        self.assertEqual(item('agent_message', text='hello')[:2], ('text', 'hello'))

    def test_reasoning_becomes_a_thinking_line(self):
        self.assertEqual(item('reasoning', text='look first')[:2], ('step', 'Thinking: look first'))

    def test_a_command_becomes_using_shell_without_the_shell_that_codex_puts_around_it(self):
        for command, shown in (("/bin/bash -lc 'ls -l'", 'ls -l'), ('bash -lc "echo \\"a\\" b"', 'echo "a" b'),
                               ("/usr/bin/zsh -lc ls", 'ls'), ('ls -l', 'ls -l'),
                               ("/bin/bash -lc 'it'\\''s'", "it's"),
                               ('/bin/bash -lc "a \'"\'$B\'', "a '$B"), ("/bin/bash -lc '", "'"),
                               ("/bin/bash -lc 'a' 'b'", "'a' 'b'"), ('crash -lc x', 'crash -lc x')):
            for kind in ('item.started', 'item.completed'):
                told = item('command_execution', kind, command=command)
                self.assertEqual(told[:2], ('step', f'Using shell — {shown}'))

    def test_a_tool_of_an_mcp_server_becomes_using_tool(self):
        called = item('mcp_tool_call', server='osf', tool='read_note_tab')
        self.assertEqual(called[:2], ('step', 'Using read_note_tab…'))

    def test_changed_files_become_edited_paths(self):
        changes = [{'path': '/a', 'kind': 'add'}, {'path': '/b', 'kind': 'update'}]
        self.assertEqual(item('file_change', changes=changes[:1], status='completed')[:2], ('step', 'Edited /a'))
        self.assertEqual(item('file_change', changes=changes, status='completed').text, 'Edited /a, /b')
        self.assertEqual(item('file_change', changes=changes, status='failed').text, 'Could not edit /a, /b')

    def test_a_todo_list_becomes_the_numbered_plan(self):
        todo = [{'text': 'read', 'completed': True}, {'text': 'write', 'completed': False}]
        self.assertEqual(item('todo_list', items=todo)[:2], ('step', 'Plan: 1. read 2. write'))
        self.assertEqual(item('todo_list', 'item.updated', items=todo).text, 'Plan: 1. read (done) 2. write')

    def test_turn_completed_carries_the_usage(self):
        usage = {'input_tokens': 100, 'cached_input_tokens': 40, 'output_tokens': 20}
        done = event('turn.completed', usage=usage)
        self.assertEqual((done.kind, done.usage, done.ends), ('usage', usage, True))

    def test_turn_failed_and_error_are_errors_and_marked_when_they_are_about_the_sign_in(self):
        for failed in (event('turn.failed', error={'message': '401 Unauthorized: please log in'}),
                       event('error', message='401 Unauthorized: please log in')):
            self.assertEqual(failed[:2], ('error', '401 Unauthorized: please log in'))
            self.assertTrue(failed.auth)
        self.assertFalse(event('turn.failed', error={'message': 'The model had an internal error.'}).auth)

    def test_anything_else_is_ignored(self):
        for line in ('', 'a log line', '[1]', '"text"', '{"type":"turn.weather"}', '{"no":"type"}', '{"type":["x"]}',
                     '{"type":"item.completed"}', '{"type":"item.completed","item":3}',
                     '{"type":"item.completed","item":{}}',
                     '{"type":"item.completed","item":{"type":"telepathy"}}', '{"type":"turn.started"}', '{' * 100_000,
                     '{"a":' * 100_000, '{"type":"turn.completed"} {"type":"turn.completed"}'):
            with self.subTest(line=line[:40]):
                self.assertIsNone(wrap.parse_codex_line(line))
                self.assertIsNone(wrap.parse_codex_line(line.encode()))

    def test_a_field_of_the_wrong_type_is_as_good_as_absent(self):
        for wrong in (None, 3, ['x'], {'a': 1}, True):
            with self.subTest(wrong=wrong):
                self.assertEqual(item('agent_message', text=wrong).text, '')
                self.assertIsNone(item('reasoning', text=wrong))
                self.assertIsNone(item('todo_list', items=wrong if wrong != ['x'] else [3]))
                self.assertIsNone(item('file_change', changes=wrong))
                self.assertIsNone(event('turn.completed', usage=wrong if not isinstance(wrong, dict) else 'x').usage)
                self.assertEqual(event('turn.failed', error=wrong if wrong != ['x'] else 0).kind, 'error')

    def test_an_item_that_is_an_error_is_a_warning(self):
        self.assertEqual(item('error', message='falling back')[:2], ('warning', 'falling back'))

    def test_a_tools_error_is_its_first_line(self):
        failed = item('mcp_tool_call', tool='boom', error={'message': 'it broke\n\nStack backtrace:\n 0: <unknown>'})
        self.assertEqual(failed[:2], ('warning', 'boom: it broke'))

    def test_reconnecting_is_never_the_error_and_never_about_the_sign_in(self):
        again = event('error', message='Reconnecting... 2/5 (unexpected status 401 Unauthorized)')
        self.assertEqual((again.kind, again.auth), ('retry', False))

    def test_a_message_that_is_json_is_unwrapped(self):
        inner = json.dumps({'error': {'message': 'Invalid value', 'code': 'invalid_api_key'}})
        self.assertEqual(event('turn.failed', error={'message': inner})[:2], ('error', 'Invalid value'))
        self.assertTrue(event('turn.failed', error={'message': inner}).auth)


class SignIn(unittest.TestCase):
    def test_the_articles_words_and_what_real_builds_say(self):
        for text in ('401', 'HTTP 401: nope', 'Unauthorized', 'please log in', 'Please login first',
                     'Sign in to continue', 'You are not logged in', 'Incorrect API key provided: sk-xxx', 'run `codex login`',
                     'Your access token could not be refreshed. Please log out and sign in again.'):
            with self.subTest(text=text):
                self.assertTrue(wrap_stream.is_auth(text))

    def test_a_number_or_a_word_by_chance_is_none(self):
        for text in ('403 Forbidden', 'took 4012 ms', 'http://host/401/x failed', 'request id: req-401-a',
                     'request_id="401"', 'design in progress', 'assign in order', 'quota exceeded', 'cf-ray: 401-FRA'):
            with self.subTest(text=text):
                self.assertFalse(wrap_stream.is_auth(text))


def judged(*events, why='exit', status=0, stderr='', timeout=300):
    reading = wrap_stream.Reading()
    reading.feed(b''.join(json.dumps(e).encode() + b'\n' for e in events))
    return wrap.judge_events(reading, wrap_process.Ended(why, status, stderr, 0, 0.0, 1.0, 0.0), timeout)


MESSAGE = {'type': 'item.completed', 'item': {'id': 'i', 'type': 'agent_message', 'text': 'yes'}}
DONE = {'type': 'turn.completed', 'usage': {'input_tokens': 1}}
FAILED = {'type': 'turn.failed', 'error': {'message': 'no'}}


class Success(unittest.TestCase):
    """Failed if turn.failed or error came, or no text; the exit status does not decide."""

    def test_text_and_turn_completed_are_an_answer_whatever_the_exit_status(self):
        for status in (0, 1, 137, -9):
            self.assertEqual(judged(MESSAGE, DONE, status=status)[:3], ('answered', 'yes', True))

    def test_a_turn_that_failed_is_a_failure_with_exit_0_and_with_text(self):
        answer = judged(MESSAGE, FAILED)
        self.assertEqual((answer.status, answer.error, answer.text), ('failed', 'no', 'yes'))

    def test_text_without_turn_completed_is_kept_as_partial_without_an_error(self):
        answer = judged(MESSAGE, status=137)
        self.assertEqual((answer.status, answer.text, answer.complete, answer.error), ('partial', 'yes', False, None))

    def test_no_text_is_a_failure_with_the_tail_of_stderr_as_the_hint(self):
        self.assertEqual(judged(DONE, stderr='x' * 500 + 'panicked').error, f'returned no output ({"x" * 192}panicked)')
        traced = 'Error: the input is too long\n\nStack backtrace:\n' + '   0: <unknown>\n' * 40
        self.assertEqual(judged(stderr=traced).error, 'returned no output (Error: the input is too long)')
        self.assertEqual(judged(status=101).error, 'returned no output (exit status 101, nothing on stderr)')

    def test_without_an_event_the_last_line_of_stderr_tells_of_a_sign_in_problem(self):
        self.assertTrue(judged(stderr='starting\nError: 401 Unauthorized: please log in\n').auth)
        self.assertFalse(judged(stderr='401 Unauthorized, trying again\nError: no such model\n').auth)

    def test_of_a_stderr_that_never_ends_only_the_tail_is_kept(self):
        kept = bytearray()
        for number in range(1_000):
            wrap_process.keep_tail(kept, b'%4000d' % number)
        self.assertEqual(wrap_process.tail(kept), '%4000d' % 999)
        self.assertLess(len(kept), 2 * wrap_process.READ_BYTES)

    def test_the_deadline_is_the_error_and_the_last_words_belong_to_it(self):
        again = {'type': 'error', 'message': 'Reconnecting... waiting for network'}
        self.assertEqual(judged(why='timeout', timeout=3).error, 'timed out after 3s')
        self.assertEqual(judged(again, why='timeout', timeout=0.5).error,
                         'timed out after 0.5s (Reconnecting... waiting for network)')
        self.assertEqual(judged(MESSAGE, why='timeout')[:2], ('timed_out', 'yes'))
        self.assertEqual(judged(MESSAGE, DONE, why='timeout').status, 'answered')

    def test_the_last_message_wins_and_an_earlier_one_becomes_a_step_in_its_place(self):
        first = {'type': 'item.completed', 'item': {'id': 'a', 'type': 'agent_message', 'text': 'I look'}}
        think = {'type': 'item.completed', 'item': {'id': 'b', 'type': 'reasoning', 'text': 'hm'}}
        answer = judged(think, first, think, MESSAGE, MESSAGE, DONE)
        self.assertEqual((answer.text, answer.steps), ('yes', ['Thinking: hm', 'I look', 'Thinking: hm']))


class WhoBelongsToARun(unittest.TestCase):
    """The rules alone, on numbers that no process has; tests of real kills are in test_article3_runs.py."""
    LEADER = 10_000_000

    def members(self, leaders_start):
        leader = wrap_kill.Process(self.LEADER, 'S', 1, self.LEADER, self.LEADER, leaders_start)
        tool = leader._replace(pid=self.LEADER + 1, start=7)
        run = wrap_kill.Run('mark', frozenset(), False, self.LEADER, 5)
        return set(wrap_kill.members(run, {p.pid: p for p in (leader, tool)}, {}))

    def test_a_group_whose_number_was_given_to_another_process_is_no_longer_ours(self):
        self.assertEqual(self.members(leaders_start=5), {self.LEADER, self.LEADER + 1})
        self.assertEqual(self.members(leaders_start=9), set())

    @unittest.skipUnless(wrap_kill.LINUX, 'elsewhere nothing tells when a process began')
    def test_a_signal_reaches_only_the_process_that_was_meant_and_not_one_with_its_number(self):
        with subprocess.Popen(['sleep', '60']) as child:
            start = wrap_kill.read_stat(str(child.pid)).start
            wrap_kill.send(child.pid, start - 1, signal.SIGKILL)
            self.assertIsNone(child.poll())
            wrap_kill.send(child.pid, start, signal.SIGTERM)
            self.assertEqual(child.wait(), -signal.SIGTERM)

    def test_of_two_runs_only_the_last_one_going_claims_an_orphan_without_a_mark(self):
        first, second = wrap_kill.begin('first', False), wrap_kill.begin('second', False)
        self.addCleanup(wrap_kill.end, second)
        self.addCleanup(wrap_kill.end, first)
        self.assertFalse(wrap_kill.may_claim_orphans(first))
        wrap_kill.end(second)
        self.assertTrue(wrap_kill.may_claim_orphans(first))


if __name__ == '__main__':
    unittest.main()
