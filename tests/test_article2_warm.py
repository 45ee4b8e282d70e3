"""Article 2 on the real Claude Code: how bench_warm.py reads a request. The program itself: tests/interop."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import bench_warm
import fake_messages
import resident_claude
from sim_cache import Tokens
from token_counter import counter_of_ours

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARK = {'cache_control': {'type': 'ephemeral'}}


def text(words, **more):
    return {'type': 'text', 'text': words, **more}


def request(system, *messages):
    return {'tools': [{'name': 'Read', 'description': 'reads a file'}], 'system': [text(system, **MARK)],
            'messages': [{'role': role, 'content': content} for role, content in messages]}


FIRST = request('Be brief.', ('user', [text('hello', **MARK)]))
SECOND = request('Be brief.', ('user', 'hello'), ('assistant', [text('yes')]), ('user', [text('and?', **MARK)]))


class Requests(unittest.TestCase):
    def beside(self, *bodies):
        tokens = Tokens(counter_of_ours())
        return list(bench_warm.read([fake_messages.Exchange(body, 0) for body in bodies], tokens))

    def test_the_whole_request_before_is_a_prefix_although_its_breakpoint_moved_and_its_spelling_changed(self):
        _, second = self.beside(FIRST, SECOND)
        self.assertEqual(second.cacheable, second.previous)
        self.assertGreater(second.tokens, second.cacheable)

    def test_a_line_in_front_of_the_system_prompt_leaves_the_tools_cached_and_nothing_behind_them(self):
        _, second = self.beside(request('4 online. Be brief.', ('user', 'hello')),
                                request('5 online. Be brief.', ('user', 'hello')))
        tools = len(bench_warm.segments(FIRST)[0].encode())
        self.assertGreaterEqual(second.prefix_bytes, tools)
        self.assertLess(second.prefix_bytes, tools + len('{"type": "text", "text": "45'))

    def test_a_first_request_has_nothing_before_it(self):
        first, = self.beside(FIRST)
        self.assertEqual((first.cacheable, first.previous, first.prefix_bytes), (0, 0, 0))

    def test_breakpoints_are_told_by_section_and_messages_from_the_end(self):
        self.assertEqual(bench_warm.breakpoints(SECOND), ('system 1', 'message -1 (user)'))

    def test_without_the_program_every_cell_is_said_to_be_missing(self):
        done = subprocess.run([sys.executable, 'bench.py', 'warm', '--json'], cwd=TOP, capture_output=True, text=True,
                              env={**os.environ, 'JUDGES': '/nowhere'})
        cells = [cell for table in json.loads(done.stdout)['tables'] for cell in table['cells']]
        self.assertEqual(done.returncode, 0)
        self.assertEqual({cell['judged'] for cell in cells}, {'not run here'})
        self.assertTrue(all('not installed' in cell['reason'] for cell in cells))


class Resident(unittest.TestCase):
    def process(self, script):
        """One that runs this script of the shell, whatever flags it is given."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = os.path.join(folder.name, 'claude')
        with open(program, 'w') as file:
            file.write('#!/bin/sh\n' + script)
        os.chmod(program, 0o755)
        process = resident_claude.ClaudeProcess(resident_claude.Setting(program, folder.name, dict(os.environ)))
        self.addCleanup(process.end)
        return process

    def test_a_process_that_ends_in_a_turn_says_why_and_is_swept(self):
        process = self.process('read turn; echo the model is gone >&2; exit 1')
        with self.assertRaises(resident_claude.Failed) as failed:
            process.turn('hello')
        self.assertEqual(str(failed.exception), 'it ended in the middle of the turn: the model is gone')
        self.assertFalse(process.alive())

    def test_a_line_that_is_no_event_is_passed_over_and_a_result_without_one_is_a_turn_that_failed(self):
        process = self.process("""while read turn; do
            echo 'a warning'; echo '{half'; echo '[1]'; head -c 200000 /dev/zero | tr '\\0' '['; echo
            echo '{"type": "result", "subtype": "success", "result": "yes"}'
            read turn; echo '{"type": "result", "subtype": "success"}'; done""")
        self.assertEqual(process.turn('hello'), 'yes')
        with self.assertRaises(resident_claude.Failed):
            process.turn('hello')
        self.assertTrue(process.alive())

    def test_a_program_that_is_not_there_is_said_in_a_line(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(resident_claude.main([TOP + '/no-such-program']), 1)
        self.assertEqual(said.getvalue(), f'cannot start {TOP}/no-such-program: No such file or directory\n')

    def test_a_new_session_has_an_id_of_ours_and_a_saved_one_is_resumed(self):
        setting = resident_claude.Setting('claude', TOP, {})
        self.assertEqual(resident_claude.command(setting, 'id-1', False)[-2:], ['--session-id', 'id-1'])
        self.assertEqual(resident_claude.command(setting, 'id-1', True)[-2:], ['--resume', 'id-1'])


if __name__ == '__main__':
    unittest.main()
