"""ablate_codex.py - article 3's rules taken out: the stream, the judge, the group, stderr, the environment.

Article 3, "Se lo implementi tu", six points. Every experiment is a run of the stand-in (fake_codex.py), a real process.

    python3 ablate.py process-group        one of them, step by step

Not here: what a row is and how a rule is taken out (ablate_rule.py).
"""
import json
import os
import signal
import sys
import tempfile
from typing import List, Sequence, Tuple

import codex_cases
import wrap
import wrap_command
import wrap_process
import wrap_stream
from ablate_rule import Change, Row, Say, always

# --- data ---------------------------------------------------------------------

HERE = sys.modules[__name__]
CODEX = [sys.executable, '-I', '-S', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fake_codex.py')]
DEADLINE_S = 1.5
GROUP, DRAIN_STDERR = True, True                                # run_events has the article's two switches


# --- rules --------------------------------------------------------------------

def run(mode: str, timeout: float = 20, **more: str) -> wrap.Answer:
    """One run of the stand-in in this mode, ten times as fast as the article's timeline."""
    environment = {**os.environ, 'FAKE_CODEX': mode, 'FAKE_CODEX_SPEED': '10', **more}
    return wrap.run_events([*CODEX, 'exec', 'hi'], timeout, environment, group=GROUP, drain_stderr=DRAIN_STDERR)


def log_line_on_stdout(say: Say) -> str:
    say('  a log line, a list and an empty line get between the events, then the answer comes')
    try:
        answer = run('not_json')
    except ValueError as error:
        return f'the wrapper dies: {type(error).__name__}'
    return f'{answer.status}: {answer.text}'


def two_conversations(say: Say) -> str:
    asked = [('User', 'Is it safe?'), ('Assistant', 'No.'), ('User', 'Delete it.')]
    told = [('User', 'Is it safe?'), ('User', 'No.'), ('User', 'Delete it.')]
    prompts = {wrap_command.build_prompt('Be careful.', turns) for turns in (asked, told)}
    for prompt in sorted(prompts):
        say(f'  {prompt!r}')
    return f'two conversations, in which "No." is said by another, give {len(prompts)} prompt(s)'


def exit_codes_that_lie(say: Say) -> str:
    answered, failed = run('completed_exit_1'), run('failed_exit_0')
    say(f'  an answer, turn.completed, exit 1: {answered.status}')
    say(f'  turn.failed, exit 0: {failed.status}')
    return f'exit 1 after an answer: {answered.status}; exit 0 after turn.failed: {failed.status}'


def hanging_tool(say: Say) -> str:
    with tempfile.TemporaryDirectory() as folder:
        pids = os.path.join(folder, 'pids')
        answer = run('hang', DEADLINE_S, FAKE_CODEX_PIDS=pids)
        alive = codex_cases.living(pids)
        say(f'  a tool sleeps for 30 s; the run is {answer.status} after {DEADLINE_S:g} s')
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
    return f'{len(alive)} process of the tool still runs' if alive else 'no process of the tool runs on'


def full_pipe(say: Say) -> str:
    answer = run('trace', 3 * DEADLINE_S)
    say('  200 KB of trace go to stderr before the answer; a pipe holds 64 KB')
    return answer.text if answer.status == 'answered' else answer.error


def inherited_key(say: Say) -> str:
    with tempfile.TemporaryDirectory() as folder:
        seen = os.path.join(folder, 'seen')
        run('auth', FAKE_CODEX_SEEN=seen, OPENAI_API_KEY='sk-metered')
        with open(seen, encoding='utf-8') as file:
            there = 'OPENAI_API_KEY' in json.load(file)['env']
    say('  the shell has an OPENAI_API_KEY from another project')
    return 'Codex sees the key: the run is billed to it' if there else 'Codex does not see it: the ChatGPT login counts'


def older_build(say: Say) -> str:
    environment = {**os.environ, 'FAKE_CODEX': 'ok', 'FAKE_CODEX_SPEED': '10', 'FAKE_CODEX_HELP': 'old'}
    help_text = 'Options:\n  --json\n  --skip-git-repo-check\n  --ignore-user-config\n'
    command = wrap_command.build_codex_command('hi', codex=CODEX, help_text=help_text)
    answer = wrap.run_events(command, 20, environment)
    say(f'  an older build, whose --help does not name --ignore-rules, is started with {command[len(CODEX) + 2:]}')
    return f'{answer.status}: {answer.text or answer.error.splitlines()[0]}'


def strict_json(line: object) -> dict:
    """The mistake: whatever is no JSON object ends the run."""
    return json.loads(line)


def joined(system: str, turns: Sequence[Tuple[str, str]]) -> str:
    return '\n\n'.join([system, *(text for _, text in turns)])


def by_exit_code(judge):
    def by_exit(reading: wrap_stream.Reading, ended: wrap_process.Ended, timeout: float) -> wrap.Answer:
        return judge(reading, ended, timeout)._replace(status='answered' if ended.exit_status == 0 else 'failed')
    return by_exit


ROWS: List[Row] = [
    Row(3, 1, 'skip-lines', 'what is no known event is skipped', 'wrap_stream.py: json_object',
        [Change(wrap_stream, 'json_object', always(strict_json))], log_line_on_stdout),
    Row(3, 2, 'labelled-turns', 'the system prompt in front, the turns labelled', 'wrap_command.py: build_prompt',
        [Change(wrap_command, 'build_prompt', always(joined))], two_conversations),
    Row(3, 3, 'judge', 'the stream says what succeeded, not the exit code', 'wrap.py: judge_events',
        [Change(wrap, 'judge_events', by_exit_code)], exit_codes_that_lie),
    Row(3, 4, 'process-group', 'a timeout ends the whole process group', 'wrap.py: run_events(group=True)',
        [Change(HERE, 'GROUP', always(False))], hanging_tool),
    Row(3, 5, 'drain-stderr', 'stderr is read beside stdout', 'wrap.py: run_events(drain_stderr=True)',
        [Change(HERE, 'DRAIN_STDERR', always(False))], full_pipe),
    Row(3, 6, 'inherited-keys', 'keys that would change the account are taken out', 'wrap_command.py: STRIPPED',
        [Change(wrap_command, 'STRIPPED', always(()))], inherited_key),
    Row(3, 6, 'ask-help', 'an optional flag only where --help names it', 'wrap_command.py: names_flag',
        [Change(wrap_command, 'names_flag', always(lambda help_text, flag: True))], older_build)]
