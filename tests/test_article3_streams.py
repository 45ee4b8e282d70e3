"""Article 3: the recorded streams of a real codex-cli 0.171.0, and what damage may do to them: nothing.

REVIEWED was written down by hand, line by line beside tests/data/codex-streams/NAME.jsonl: what a person who reads
the stream would say of it. The mutations need no expectation: whatever comes, the parser must neither raise nor
slow down, and must say the same however the bytes are cut.
"""
import json
import os
import random
import time
import unittest

import wrap
import wrap_process
import wrap_stream

STREAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data', 'codex-streams')
HELLO = 'Hello from the fake model.'
PATCHED = ['Edited /home/dev/project/hello.txt, /home/dev/project/old.txt']
UNICODE = ('Grüße \U0001f980 line\u2028sep\u2029para \x85 nel \x0b vt \0 nul \x1b[31m esc \ufeff bom "q" \\ back\n'
           'newline\r\ncrlf')

# name: status, text, sign-in needed, steps
REVIEWED = {
    'authfile_apikey_vs_codex_env': ('answered', HELLO, False, []),
    'authfile_only': ('answered', HELLO, False, []),
    'bad_config': ('failed', '', False, []),
    'bad_flag': ('failed', '', False, []),
    'bad_toml_userconfig': ('failed', '', False, []),
    'badtool': ('answered', 'No such tool.', False, []),
    'ctx': ('failed', '', False, []),
    'cut': ('failed', '', False, []),
    'empty': ('failed', '', False, []),                          # exit 0 and turn.completed, but not a word
    'env_codex_access_token': ('answered', HELLO, False, []),
    'env_codex_api_key': ('answered', HELLO, False, []),
    'env_codex_api_key2': ('answered', HELLO, False, []),
    'env_openai_api_key': ('answered', HELLO, False, []),
    'env_openai_api_key2': ('answered', HELLO, False, []),
    'failed': ('failed', '', False, []),
    'http400': ('failed', '', False, []),
    'http401': ('failed', '', True, []),
    'http404': ('failed', '', False, []),
    'http429': ('failed', '', False, []),
    'http500': ('failed', '', False, []),
    'incomplete': ('failed', 'Half an ans', False, []),          # turn.failed decides; the half is kept
    'killed9_after_message': ('partial', 'Message before the hang.', False, []),
    'killed9_before_message': ('failed', '', False, []),
    'mcp_approve_mode': ('answered', 'MCP done.', False, ['Using echo…', 'Using boom…']),
    'mcp_badserver': ('answered', HELLO, False, []),
    'mcp_bypass': ('answered', 'MCP done.', False, ['Using echo…', 'Using boom…']),
    'mcp_readonly_never': ('answered', 'MCP done.', False, ['Using echo…', 'Using boom…']),
    'multi': ('answered', 'Final answer.', False, ['I will look first.', 'Using shell — echo hi']),
    'no_git_check': ('failed', '', False, []),
    'nologin_401': ('failed', '', True, []),
    'nologin_default_provider': ('failed', '', False, []),       # waits for a network for ever: not a login problem
    'nologin_env_base_url': ('failed', '', False, []),
    'patch': ('answered', 'Patched.', False, PATCHED),
    'patch_readonly': ('answered', 'Patched.', False, []),       # the rejected patch is not in the stream at all
    'patch_shell': ('answered', 'Patched via shell.', False, PATCHED),
    'plain': ('answered', HELLO, False, []),
    'plan': ('answered', 'Planned.', False,
             ['Plan: 1. Read code 2. Fix it', 'Plan: 1. Read code (done) 2. Fix it']),
    'plan_disabled': ('answered', 'Planned.', False, []),
    'prompt_dash': ('failed', '', False, []),
    'prompt_plus_stdin': ('answered', HELLO, False, []),
    'prompt_stdin_200000': ('answered', HELLO, False, []),
    'prompt_stdin_5000000': ('failed', '', False, []),
    'quota': ('failed', '', False, []),
    'ratefail': ('failed', '', False, []),
    'shell': ('answered', 'The command printed out.', False,
              ['Thinking: **Thinking about it**\n\nI should list files.',
               "Using shell — echo out; echo err >&2; printf 'no newline'", 'Thinking: **Done**']),
    'shellfail': ('answered', 'The command failed with 7.', False, ['Using shell — echo boom >&2; exit 7']),
    'sigint_after_message': ('partial', 'Message before the hang.', False, []),
    'sigint_before_message': ('failed', '', False, []),
    'sigint_npm': ('failed', '', False, []),
    'sigterm_during_shell': ('partial', 'I run a long command.', False, ['Using shell — sleep 300']),
    'stdin_bom_utf8': ('answered', HELLO, False, []),
    'stdin_invalid_utf8': ('failed', '', False, []),
    'stdin_no_prompt_empty': ('failed', '', False, []),
    'unicode': ('answered', UNICODE, False, []),
    'userconfig_provider_hijack': ('answered', HELLO, False, []),
}
# What the person is told, where a stream holds more than one candidate or wraps it.
ERRORS = {
    'cut': 'stream disconnected before completion: stream closed before response.completed',
    'http400': "Invalid value: 'foo'.",
    'http401': 'unexpected status 401 Unauthorized: Incorrect API key provided: sk-xxx., url: '
               'http://model.example/v1/responses, request id: req_fake',
    'incomplete': 'Incomplete response returned, reason: max_output_tokens',
    'nologin_default_provider': 'returned no output (Reconnecting... waiting for network '
                                '(Connection failed: error sending request))',
    'quota': 'Quota exceeded. Check your plan and billing details.',
}
WARNINGS = {
    'authfile_only': ['Falling back from WebSockets to HTTPS transport. unexpected status 200 OK: {"models": [], '
                      '"data": [], "object": "list"}, url: ws://model.example/v1/responses'],
    'mcp_bypass': ['boom: tool call error: tool call failed for `tiny/boom`'],
    'mcp_readonly_never': ['boom: MCP tool call requires approval, but approval policy is never'],
}


def stream(name):
    with open(os.path.join(STREAMS, name + '.jsonl'), 'rb') as file:
        return file.read()


def recorded(name):
    with open(os.path.join(STREAMS, name + '.meta.json'), encoding='utf-8') as file:
        return json.load(file)


def read(raw, cuts=()):
    """A whole reading of `raw`, cut at the given places."""
    reading = wrap_stream.Reading()
    places = [0, *sorted(cuts), len(raw)]
    for start, end in zip(places, places[1:]):
        if start < end:
            reading.feed(raw[start:end])
    reading.close()
    return reading


def said(reading):
    return (reading.text, reading.error, reading.auth, reading.complete, reading.ended, reading.retry, reading.usage,
            reading.steps, reading.warnings)


def read_slowly(raw):
    """The same without anything that Reading does for speed: each line by itself, decoded, whatever it is."""
    reading = wrap_stream.Reading()
    for line in raw.split(b'\n'):
        event = wrap_stream.parse_codex_line(line)
        if event is not None:
            reading.take(event, 0.0)
    return reading


class Recorded(unittest.TestCase):
    def test_every_recorded_stream_is_reviewed(self):
        self.assertEqual(sorted(REVIEWED), sorted(name[:-6] for name in os.listdir(STREAMS) if name.endswith('.jsonl')))

    def test_status_text_steps_and_sign_in_are_what_a_person_would_say(self):
        for name, expected in REVIEWED.items():
            with self.subTest(stream=name):
                answer = self.answer(name)
                self.assertEqual((answer.status, answer.text, answer.auth, answer.steps), expected)

    def test_errors_and_warnings_are_what_a_person_needs_to_know(self):
        for name, error in ERRORS.items():
            with self.subTest(stream=name):
                self.assertEqual(self.answer(name).error, error)
        for name, warnings in WARNINGS.items():
            with self.subTest(stream=name):
                self.assertEqual(self.answer(name).warnings, warnings)

    def test_usage_keeps_all_five_fields_of_the_real_stream(self):
        self.assertEqual(self.answer('plain').usage, {
            'input_tokens': 100, 'cached_input_tokens': 40, 'cache_write_input_tokens': 0, 'output_tokens': 20,
            'reasoning_output_tokens': 5})
        self.assertIsNone(self.answer('cut').usage)

    def test_published_concatenation_would_join_two_messages(self):
        """A difference from the article's listing, shown on a real stream: text += … gives both messages."""
        texts = [json.loads(line)['item']['text'] for line in stream('multi').splitlines()
                 if b'"agent_message"' in line]
        self.assertEqual(''.join(texts), 'I will look first.Final answer.')
        self.assertEqual(self.answer('multi').text, 'Final answer.')

    def test_no_cut_of_the_bytes_changes_anything(self):
        for name in ('unicode', 'shell', 'plan'):
            raw = stream(name)
            whole = said(read(raw))
            for at in range(1, len(raw)):
                self.assertEqual(said(read(raw, [at])), whole, f'{name} cut at {at}')
            self.assertEqual(said(read(raw, range(len(raw)))), whole)

    def answer(self, name):
        meta = recorded(name)
        ended = wrap_process.Ended('exit', meta['exit_code'], meta['stderr'], 0, 0.0, 1.0, 0.0)
        return wrap.judge_events(read(stream(name)), ended, 300)


def damage(raw, rng):
    """One to four of: cut, merged lines, a doubled line, junk, wrong bytes, wrong types, wrong numbers."""
    for _ in range(1 + int(rng.random() * 4)):
        lines = raw.split(b'\n')
        a, b = int(rng.random() * len(lines)), int(rng.random() * len(lines))
        at = int(rng.random() * (len(raw) + 1))
        way = int(rng.random() * 9)
        if way == 0:
            raw = raw[:at]
        elif way == 1:
            raw = b'\n'.join(lines[:a] + [b''.join(lines[a:a + 2])] + lines[a + 2:])
        elif way == 2:
            raw = b'\n'.join(lines[:a] + [lines[b]] + lines[a:])
        elif way == 3:
            raw = raw[:at] + bytes(int(rng.random() * 256) for _ in range(20)) + raw[at:]
        elif way == 4:
            raw = raw[:at] + bytes([int(rng.random() * 256)]) + raw[at + 1:]
        elif way == 5:
            raw = raw.replace(b'"item_%d"' % (a % 3), b'"item_%d"' % (b % 3))
        elif way == 6:
            raw = raw.replace(b'"type"', rng_pick(rng, [b'"type":["x"],"type"', b'"kind"', b'"type":null,"t"']), 1 + a)
        elif way == 7:
            raw = raw.replace(rng_pick(rng, [b'true', b'0', b'"text":"', b'[]', b'{']), rng_pick(
                rng, [b'NaN', b'1e999', b'null', b'[[[', b'{}', b'"\\ud800', b'-' * 9, b'9' * 5_000]), 1)
        else:
            raw = lines[a] + b'\r\n' + raw
    return raw


def rng_pick(rng, choices):
    return choices[int(rng.random() * len(choices))]


class Damaged(unittest.TestCase):
    MUTANTS = 800

    def setUp(self):
        self.addCleanup(setattr, wrap_stream, 'LONG_LINE', wrap_stream.LONG_LINE)
        wrap_stream.LONG_LINE = 0        # so that the short lines recorded here take the short cut for long ones too

    def test_damaged_streams_never_raise_and_say_the_same_however_they_are_read(self):
        rng = random.Random(3)
        sources = [stream(name) for name in sorted(REVIEWED) if stream(name)]
        for number in range(self.MUTANTS):
            raw = damage(rng_pick(rng, sources), rng)
            whole = read(raw)
            cuts = [int(rng.random() * (len(raw) + 1)) for _ in range(3)]
            self.assertEqual(repr(said(read(raw, cuts))), repr(said(whole)), f'mutant {number}: {raw!r}')
            self.assertEqual(repr(said(read_slowly(raw))), repr(said(whole)), f'mutant {number}: {raw!r}')
            answer = wrap.judge_events(whole, wrap_process.Ended('exit', 0, '', 0, 0.0, 1.0, 0.0), 300)
            json.dumps(answer._asdict()).encode()

    def test_the_time_is_linear_in_the_bytes_whatever_they_are(self):
        shapes = {
            'one line': lambda n: b'{"type":"' + b'x' * n,
            'no newline in small pieces': lambda n: b'x' * n,
            'only newlines': lambda n: b'\n' * n,
            'brackets': lambda n: b'{"a":' * (n // 5),
            'a long text': lambda n: json.dumps({**MESSAGE, 'item': {**MESSAGE['item'], 'text': 'é' * (n // 6)}}),
            'a quoted command': lambda n: json.dumps({'type': 'item.started', 'item': {
                'id': 'i', 'type': 'command_execution', 'command': "/bin/bash -lc '" + "'\\''" * (n // 5) + "'"}}),
            'many messages': lambda n: (json.dumps(MESSAGE).encode() + b'\n') * (n // 90),
            'an error about nothing': lambda n: json.dumps({'type': 'error', 'message': 'sign ' * (n // 5)}),
        }
        for name, shape in shapes.items():
            with self.subTest(shape=name):
                once, four_times = (min(self.cost(shape(n)) for _ in range(2)) for n in (100_000, 400_000))
                self.assertLess(four_times, 4 * 3 * max(once, 0.002), f'{name}: {once:.4f} s, then {four_times:.4f} s')

    def cost(self, raw):
        raw = raw.encode() if isinstance(raw, str) else raw
        began = time.process_time()
        reading = wrap_stream.Reading()
        for at in range(0, len(raw), 4_096):
            reading.feed(raw[at:at + 4_096])
        reading.close()
        return time.process_time() - began

    def test_a_line_over_the_limit_is_skipped_with_a_warning_and_the_next_one_counts(self):
        raw = b'{"x":"' + b'x' * wrap_stream.LINE_BYTES + b'"}\n' + json.dumps(MESSAGE).encode() + b'\n'
        reading = read(raw, range(0, len(raw), 65_536))
        self.assertEqual((reading.text, len(reading.warnings)), ('yes', 1))
        self.assertIn(str(wrap_stream.LINE_BYTES), reading.warnings[0])

    def test_a_line_just_under_the_limit_counts(self):
        text = 'x' * (wrap_stream.LINE_BYTES - 200)
        raw = json.dumps({**MESSAGE, 'item': {**MESSAGE['item'], 'text': text}}).encode()
        self.assertEqual(read(raw, range(0, len(raw), 65_536)).text, text)

    def test_a_run_that_never_stops_talking_does_not_fill_the_memory(self):
        reading = wrap_stream.Reading()
        step = b'{"type":"item.completed","item":{"type":"reasoning","text":"%s"}}\n' % (b'x' * 5_000)
        warning = b'{"type":"item.completed","item":{"type":"error","message":"w"}}\n'
        for _ in range(wrap_stream.STEPS_KEPT // 100 + 1):
            reading.feed((step + warning) * 100)
        self.assertEqual(len(reading.steps), wrap_stream.STEPS_KEPT)
        self.assertEqual(len(reading.warnings), wrap_stream.WARNINGS_KEPT)
        self.assertLess(max(map(len, reading.steps)), 600)
        for number in range(3 * wrap_stream.SHOWN_KEPT):
            reading.feed(b'{"type":"item.started","item":{"id":"%d","type":"command_execution","command":"ls"}}\n' % number)
        self.assertLessEqual(max(len(reading._shown), len(reading._commands)), wrap_stream.SHOWN_KEPT)


class Dedupe(unittest.TestCase):
    START = (b'{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"ls","status":"x"}}\n')
    END = START.replace(b'started', b'completed')

    def test_a_command_is_told_when_it_starts_and_only_then(self):
        self.assertEqual(read(self.START).steps, ['Using shell — ls'])
        self.assertEqual(read(self.START + self.END).steps, ['Using shell — ls'])

    def test_a_completed_command_whose_start_was_never_seen_is_told(self):
        self.assertEqual(read(self.END).steps, ['Using shell — ls'])

    def test_another_item_with_a_commands_id_is_not_taken_for_its_end(self):
        text = 'yes' * wrap_stream.LONG_LINE
        message = b'{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"%s"}}\n'
        self.assertEqual(read(self.START + message % text.encode()).text, text)

    def test_a_completed_command_is_not_even_decoded_once_its_start_was_shown(self):
        parsed, kept = [], wrap_stream.parse_codex_line
        self.addCleanup(setattr, wrap_stream, 'parse_codex_line', kept)
        wrap_stream.parse_codex_line = lambda line: parsed.append(line) or kept(line)
        read(self.START + self.END.replace(b'"ls"', b'"ls","aggregated_output":"%s"' % (b'x' * wrap_stream.LONG_LINE)))
        self.assertEqual(parsed, [self.START.rstrip(b'\n')])

    def test_each_event_is_told_to_the_listener_once_and_in_order(self):
        told = []
        reading = wrap_stream.Reading(lambda event: told.append((event.kind, event.text)))
        reading.feed(self.START + self.END + stream('multi'))
        self.assertEqual(told, [('step', 'Using shell — ls'), ('text', 'I will look first.'),
                                ('step', 'Using shell — echo hi'), ('text', 'Final answer.'), ('usage', '')])


MESSAGE = {'type': 'item.completed', 'item': {'id': 'i', 'type': 'agent_message', 'text': 'yes'}}

if __name__ == '__main__':
    unittest.main()
