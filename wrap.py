"""wrap.py - the Codex CLI as a subprocess: its answer, its progress, a clean error, nothing left behind.

Article 3, all sections: the command that `build_codex_command` builds, the two ways to get an answer
(`run_events` reads the stream, `run_file` the file of `-o`), what counts as success. Its tables are made by
`python3 bench.py codex`.

    python3 wrap.py "explain this folder"     runs the codex on PATH; progress on stderr, the answer on stdout
    python3 wrap.py --demo "anything"         the stand-in instead (fake_codex.py), 3 s
    python3 wrap.py --verify                  whether the sign-in works

Exit: 0 answered, 3 partial (text without turn.completed), 4 sign-in needed, 124 timed out, 127 no codex, 1 failed,
2 usage. Copied out together with wrap_command.py (the command line), wrap_stream.py (the lines), wrap_process.py (the
loop) and wrap_kill.py (the end of a run). On macOS only the process group is ended: tools in sessions of their own can
be found only on Linux.
"""
import argparse
import errno
import json
import os
import shutil
import signal
import sys
import tempfile
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import wrap_command
import wrap_kill
import wrap_process
import wrap_stream
from wrap_command import (AUTONOMOUS_TIMEOUT_S, TIMEOUT_S, VERIFY_PROMPT, Bridge, CannotRun, build_codex_command,
                          build_prompt, prompt_input)
from wrap_process import Cancel, Options
from wrap_stream import Event, parse_codex_line

__all__ = ['build_codex_command', 'build_prompt', 'parse_codex_line', 'run_events', 'run_file', 'Answer', 'Bridge',
           'Cancel', 'CannotRun', 'Event', 'Options']

# --- data ---------------------------------------------------------------------

EXIT = {'answered': 0, 'partial': 3, 'failed': 1, 'timed_out': 124}


class Answer(NamedTuple):
    """A run as a caller sees it. Also the keys of --json."""
    status: str                  # answered | partial | failed | timed_out
    text: str
    complete: bool               # turn.completed was seen; without it the text may be half an answer
    auth: bool                   # the way out is to sign in
    error: Optional[str]
    warnings: List[str]
    steps: List[str]
    usage: Optional[dict]
    exit_status: Optional[int]   # -9 for SIGKILL, as Popen has it; None: it never started
    stderr_tail: str
    survivors: int
    timings: Dict[str, Optional[float]]


# --- rules --------------------------------------------------------------------

def judge_events(reading: wrap_stream.Reading, ended: wrap_process.Ended, timeout: float) -> Answer:
    """What the stream says decides, not the exit status. The article's rule, and `complete` beside it."""
    error, auth, text = reading.error, reading.auth, reading.text
    if not error and reading.complete and text:
        status = 'answered'
    elif ended.why == 'timeout':
        status, error = 'timed_out', timed_out(timeout, error or reading.retry)
    elif ended.why in ('cancelled', 'no start'):
        status, error = 'failed', error or (ended.stderr if ended.why == 'no start' else 'cancelled')
    elif error or not text:
        status = 'failed'
        if not error:
            error, auth = no_output(ended, reading.retry), blames_login(ended.stderr)
    else:
        status = 'partial'                           # by the article's rule no error: the text stands
    timings = {'first_byte': ended.first_byte_s, 'first_item': reading.first_item_at,
               'answer': reading.answer_at, 'exit': ended.exit_s}
    return Answer(status, text, reading.complete, auth, error or None, reading.warnings, reading.steps, reading.usage,
                  ended.exit_status, ended.stderr, ended.survivors, timings)


def judge_file(text: Optional[str], ended: wrap_process.Ended, timeout: float) -> Answer:
    """A file holds a string or is not there; only stderr can hint at why, and only the exit at whether it is whole."""
    error, auth = None, False
    complete = bool(text) and ended.exit_status == 0
    if complete:
        status = 'answered'
    elif ended.why == 'timeout':
        status, error = 'timed_out', timed_out(timeout, '')
    elif ended.why in ('cancelled', 'no start'):
        status, error = 'failed', ended.stderr if ended.why == 'no start' else 'cancelled'
    elif text:
        status = 'partial'
    else:
        status, error, auth = 'failed', f'no answer file ({hint(ended)})', blames_login(ended.stderr)
    timings = {'first_byte': None, 'first_item': None, 'answer': ended.exit_s if text else None, 'exit': ended.exit_s}
    return Answer(status, text or '', complete, auth, error, [], [], None, ended.exit_status, ended.stderr,
                  ended.survivors, timings)


def timed_out(timeout: float, last_words: str) -> str:
    return f'timed out after {timeout:g}s' + (f' ({last_words})' if last_words else '')


def no_output(ended: wrap_process.Ended, retry: str) -> str:
    return f'returned no output ({retry or hint(ended)})'


def hint(ended: wrap_process.Ended) -> str:
    """The end of stderr, without the backtrace that may be all of it."""
    said = ended.stderr.split('\n\nStack backtrace:')[0].strip()
    return said[-200:] or f'exit status {ended.exit_status}, nothing on stderr'


def blames_login(stderr: str) -> bool:
    """A guess, for want of a structured field: the last thing it said."""
    return wrap_stream.is_auth(stderr.strip().rsplit('\n', 1)[-1])


# --- I/O ----------------------------------------------------------------------

def run_events(argv: Sequence[str], timeout: float, env: Optional[Dict[str, str]] = None, group: bool = True,
               drain_stderr: bool = True, options: Options = Options(),
               on_event: Optional[Callable[[Event], None]] = None) -> Answer:
    """Run `argv` with --json and read its events. `on_event` sees each one as it comes, on this thread.

    As in the article SIGKILL comes at once; `Options(gentle_s=…, subreaper=True)` is what the program does.
    """
    wrap_command.refuse_windows()
    reading = wrap_stream.Reading(on_event)

    def feed(chunk: bytes, now_s: float) -> bool:
        if chunk:
            reading.feed(chunk, now_s)
        else:
            reading.close(now_s)
        return reading.ended

    argv = list(argv) if '--json' in argv else [*argv, '--json']
    options = options._replace(group=group, drain_stderr=drain_stderr)
    ended = wrap_process.run_process(argv, timeout, wrap_command.child_environment(env), options, feed)
    return judge_events(reading, ended, timeout)


def run_file(argv: Sequence[str], timeout: float, env: Optional[Dict[str, str]] = None, group: bool = True,
             drain_stderr: bool = True, options: Options = Options()) -> Answer:
    """The other strategy: the same command with -o instead of --json; nothing is known until it has ended."""
    wrap_command.refuse_windows()
    options = options._replace(group=group, drain_stderr=drain_stderr)
    # A fresh file every run: on failure Codex leaves the old content where it was.
    with tempfile.TemporaryDirectory(prefix='wrap-') as folder:
        path = os.path.join(folder, 'answer.txt')
        argv = [word for word in argv if word != '--json'] + ['-o', path]
        env = wrap_command.child_environment(env)
        ended = wrap_process.run_process(argv, timeout, env, options, wrap_process.discard)
        text = read_answer(path)
    return judge_file(text, ended, timeout)


def read_answer(path: str) -> Optional[str]:
    try:
        with open(path, 'rb') as file:
            return file.read().decode('utf-8', 'replace')
    except OSError:
        return None


def show_progress() -> Callable[[Event], None]:
    """A listener that prints to stderr. A message is held back: only a later one shows that it was progress."""
    held: List[str] = []

    def listen(event: Event) -> None:
        if event.kind in ('step', 'text') and held:
            say(wrap_stream.first_line(held.pop()))
        if event.kind == 'text':
            held.append(event.text)
        elif event.kind != 'usage':
            say(('warning: ' if event.kind == 'warning' else '') + event.text)

    return listen


def say(text: str) -> None:
    """One line on stderr, as soon as it is known. Agents' words must not steer the terminal."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(printable(' '.join(text.splitlines())) + '\n')
            sys.stderr.flush()
    except OSError:                                  # nobody listens: the run goes on
        pass


def printable(text: str, kept: str = '') -> str:
    return ''.join(c if c.isprintable() or c in kept else c.encode('unicode_escape', 'replace').decode() for c in text)


def write_answer(answer: Answer, as_json: bool) -> None:
    """Raises OSError when standard output is closed or full."""
    text = json.dumps(answer._asdict()) if as_json else answer.text
    if sys.stdout is None:
        raise OSError(errno.EBADF, 'it is closed')
    if not as_json and sys.stdout.isatty():
        text = printable(text, kept='\n\t')
    if text or as_json:
        with open(1, 'wb', closefd=False) as file:
            file.write(text.encode('utf-8', 'replace') + b'\n')


def explain(answer: Answer) -> None:
    if answer.error:
        say(f'wrap.py: {answer.error}')
    if answer.auth:
        say('wrap.py: sign in with `codex login`, then try again')
    if answer.status == 'partial':
        say('wrap.py: the run ended before turn.completed: this may be half an answer')
    if answer.survivors:
        say(f'wrap.py: {answer.survivors} processes of the run would not end')


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    args = parse_arguments(argv)
    stopped: List[int] = []
    try:
        command, prompt = command_line(args)
        answer = run_program(args, command, prompt, stopped)
    except CannotRun as refusal:
        say(f'wrap.py: {refusal}')
        return 127 if refusal.code == 'no_codex' else 2
    explain(answer)
    try:
        write_answer(answer, args.json)
    except BrokenPipeError:                          # the reader has enough; nothing is left to say to it
        pass
    except OSError as error:
        say(f'wrap.py: the answer was not written to standard output: {error.strerror}')
        return 1
    if stopped:
        return 128 + stopped[0]
    return 4 if answer.auth else EXIT[answer.status]


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='wrap.py', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('prompt', nargs='?', help='what to ask; - reads it from standard input')
    parser.add_argument('--system', default='', help='goes in front of the prompt, with a blank line between')
    parser.add_argument('--cd', metavar='DIR', help='the folder to run in')
    parser.add_argument('--timeout', type=float, metavar='SECONDS',
                        help=f'default: {TIMEOUT_S}; {AUTONOMOUS_TIMEOUT_S} with --autonomous')
    parser.add_argument('--autonomous', action='store_true', help='may write in the folder (-s workspace-write)')
    parser.add_argument('--json', action='store_true', help='print the whole result as one JSON object')
    parser.add_argument('--file', action='store_true', help='take the answer from -o FILE instead of the events')
    parser.add_argument('--demo', action='store_true', help='run the stand-in, fake_codex.py, instead of codex')
    parser.add_argument('--verify', action='store_true', help=f'check the sign-in: asks "{VERIFY_PROMPT}"')
    args = parser.parse_args(argv)
    if (args.prompt is None) != args.verify:
        parser.error('give a prompt, or --verify')
    if args.cd is not None and not os.path.isdir(args.cd):
        parser.error(f'--cd: {args.cd} is not a folder')
    if args.timeout is not None and not 0 < args.timeout <= 1e6:
        parser.error('--timeout: seconds between 0 and 1000000')
    return args


def command_line(args: argparse.Namespace) -> Tuple[List[str], str]:
    """The command and the prompt of this run. Raises CannotRun."""
    wrap_command.refuse_windows()
    if args.demo:
        stand_in = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fake_codex.py')
        codex = [sys.executable, '-I', '-S', stand_in]
    else:
        found = shutil.which('codex')
        if found is None:
            raise CannotRun('no_codex', 'there is no codex on PATH: `npm install -g @openai/codex`, then '
                            '`codex login`; `wrap.py --demo` runs a stand-in')
        codex = [os.path.abspath(found)]
    prompt = VERIFY_PROMPT if args.verify else read_prompt() if args.prompt == '-' else args.prompt
    prompt = build_prompt(args.system, [('User', prompt)])
    kind = 'verify' if args.verify else 'autonomous' if args.autonomous else 'answer'
    return build_codex_command(prompt, kind, codex), prompt


def read_prompt() -> str:
    """Standard input as UTF-8; a byte that is none is replaced, as in answers. A closed one holds an empty prompt."""
    return '' if sys.stdin is None else sys.stdin.buffer.read().decode('utf-8', 'replace')


def run_program(args: argparse.Namespace, command: List[str], prompt: str, stopped: List[int]) -> Answer:
    """One run as the program does it: gentle, as a subreaper, and cleaned up on Ctrl-C, SIGTERM and SIGHUP."""
    cancel = Cancel()

    def stop(number: int, _frame: object) -> None:
        if stopped:
            raise KeyboardInterrupt                  # the second time: no more patience
        stopped.append(number)
        cancel.cancel()

    options = Options(gentle_s=wrap_process.GENTLE_S, subreaper=wrap_kill.adopt_orphans(), cwd=args.cd,
                      stdin=prompt_input(command, prompt), cancel=cancel)
    timeout = args.timeout or (AUTONOMOUS_TIMEOUT_S if args.autonomous else TIMEOUT_S)
    # Whoever started us with a signal ignored (nohup, a background job) meant it.
    heard = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
             if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    # A handler alone would run after the loop's wait, not before it, if its signal came just before that wait.
    woken = signal.set_wakeup_fd(cancel.wakeup_fd())
    try:
        if args.file:
            return run_file(command, timeout, options=options)
        return run_events(command, timeout, options=options, on_event=show_progress())
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        cancel.close()


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
