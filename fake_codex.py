"""fake_codex.py - a stand-in for the Codex CLI: its flags, its events, its ways to go wrong.

Article 3, "Ricostruire entrambe su un Mac": the timeline behind its tables. It measures a wrapper, never the speed of
Codex.

    python3 fake_codex.py exec "hello" --json          the article's timeline, 2.7 s
    FAKE_CODEX=auth python3 fake_codex.py exec hi      one of the cases
    python3 fake_codex.py --modes                      lists them
    FAKE_CODEX=replay FAKE_CODEX_STREAM=FILE.jsonl python3 fake_codex.py exec hi --json   (FILE.meta.json beside it)

FAKE_CODEX_SPEED=10 divides every pause by ten; FAKE_CODEX_DELAY=0.5 waits as many seconds after each replayed line;
FAKE_CODEX_HELP=old is a CLI without --ignore-rules; FAKE_CODEX_PIDS=FILE takes the pid of every process it starts;
FAKE_CODEX_SEEN=FILE takes what it was called with, as JSON. Shares no code with wrap.py. Not here: a model, a sandbox.
"""
import json
import os
import signal
import sys
import time
from functools import partial
from typing import Callable, Dict, NamedTuple, NoReturn, Optional, Sequence, Tuple

# --- data ---------------------------------------------------------------------

# Seconds, the article's.
REASONING_S, TOOL_S, MESSAGE_S, COMPLETED_S = 0.4, 0.8, 1.3, 0.2
HANG_S = 30
TRACE_BYTES = 200_000
LEFT_OPEN_S = 20                 # how long a grandchild holds stdout, a finished process stays
NO_UTF8 = b'{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"caf\xe9 \xff"}}\n'
NO_JSON = b'2026-11-30T19:23:28Z INFO a log line that got onto stdout\n[1, 2]\n"text"\n\n'
ANSWER = 'The answer.'
LOGIN = '401 Unauthorized: please log in'
USAGE = {'input_tokens': 100, 'cached_input_tokens': 40, 'cache_write_input_tokens': 0,
         'output_tokens': 20, 'reasoning_output_tokens': 5}

TAKES_VALUE = {'-c', '--config', '-s', '--sandbox', '-o', '--output-last-message', '-C', '--cd', '-m', '--model'}
BARE = {'--json', '--experimental-json', '--skip-git-repo-check', '--ignore-user-config', '--ignore-rules',
        '--dangerously-bypass-approvals-and-sandbox'}
BARE_ENVIRONMENT = {'PATH': os.environ.get('PATH', os.defpath)}
HELP = """Run Codex non-interactively

Usage: codex exec [OPTIONS] [PROMPT]

Commands:
  resume  Resume a previous session
  fork    Fork a previous session
  review  Run a code review
  help    Print this message

Options:
  -c, --config <key=value>
  -s, --sandbox <SANDBOX_MODE>
      --dangerously-bypass-approvals-and-sandbox
  -C, --cd <DIR>
      --skip-git-repo-check
      --ignore-user-config
      --ignore-rules
      --json
  -o, --output-last-message <FILE>
"""


class Call(NamedTuple):
    """What it was asked for."""
    prompt: str
    as_json: bool
    answer_file: Optional[str]


# --- rules --------------------------------------------------------------------

def parse(argv: Sequence[str]) -> Call:
    """Read `exec [FLAGS] PROMPT` as strictly as the real one, which fails on a flag that it does not know."""
    words, prompt, flags, values = list(argv[1:]), None, set(), {}
    if list(argv[:1]) != ['exec']:
        usage_error('expected `exec`')
    while words:
        word = words.pop(0)
        if word in TAKES_VALUE:
            if not words:
                usage_error(f"a value is required for '{word}'")
            values[word] = words.pop(0)
        elif word in BARE and not (word == '--ignore-rules' and os.environ.get('FAKE_CODEX_HELP') == 'old'):
            if word in flags:
                usage_error(f"the argument '{word}' cannot be used multiple times")
            flags.add(word)
        elif word.startswith('-') and word != '-' or prompt is not None:
            usage_error(f"unexpected argument '{word}' found")
        else:
            prompt = word
    return Call('-' if prompt is None else prompt, bool({'--json', '--experimental-json'} & flags),
                values.get('-o') or values.get('--output-last-message'))


def usage_error(message: str) -> NoReturn:
    sys.stderr.write(f'error: {message}\n\nUsage: codex exec [OPTIONS] [PROMPT]\n')
    sys.exit(2)


def completed(number: int, kind: str, **fields: object) -> dict:
    return {'type': 'item.completed', 'item': {'id': f'item_{number}', 'type': kind, **fields}}


def message(text: str = ANSWER, number: int = 9) -> dict:
    return completed(number, 'agent_message', text=text)


def failed(text: str) -> dict:
    return {'type': 'turn.failed', 'error': {'message': text}}


THREAD = {'type': 'thread.started', 'thread_id': '0199a213-81c0-7800-8aa1-bbab2a035a53'}
TURN = {'type': 'turn.started'}
DONE = {'type': 'turn.completed', 'usage': USAGE}

# --- I/O ----------------------------------------------------------------------

_call = Call('', False, None)


def emit(*events: dict) -> None:
    for event in events:
        put(json.dumps(event, separators=(',', ':'), ensure_ascii=False).encode('utf-8', 'surrogatepass') + b'\n')


def put(raw: bytes) -> None:
    """To stdout at once, when it was asked for events; without --json nothing is said there."""
    if _call.as_json:
        write_all(1, raw)


def complain(text: str) -> None:
    write_all(2, text.encode() + b'\n')


def write_all(fd: int, raw: bytes) -> None:
    view = memoryview(raw)
    try:
        while view:
            view = view[os.write(fd, view):]
    except OSError:                              # nobody reads, or nothing was open: there is nobody to tell
        os._exit(1)


def pause(seconds: float) -> None:
    time.sleep(seconds / float(os.environ.get('FAKE_CODEX_SPEED', '1')))


def leave(status: int, answer: Optional[str] = None) -> NoReturn:
    """The answer's file is the last thing that is written."""
    if answer is not None and _call.answer_file:
        with open(_call.answer_file, 'w', encoding='utf-8', errors='surrogatepass') as file:
            file.write(answer)
    os._exit(status)


def tool(*words: str, own_session: bool = False, env: Optional[Dict[str, str]] = None) -> int:
    """Start a child as a tool is started, tell its pid to whoever asked, and return when it is the tool."""
    environment = dict(os.environ) if env is None else env
    begun, begins = os.pipe()            # closed by exec
    pid = os.fork()
    if pid == 0:
        try:
            if own_session:
                os.setsid()
            note_pid(os.getpid())        # not earlier: whoever reads it may end our group at once
            os.execvpe(words[0], words, environment)
        finally:
            os._exit(127)
    os.close(begins)
    os.read(begun, 1)
    os.close(begun)
    return pid


def note_pid(pid: int) -> None:
    path = os.environ.get('FAKE_CODEX_PIDS')
    if path:
        with open(path, 'ab', buffering=0) as file:
            file.write(b'%d\n' % pid)


def escape(seconds: int) -> None:
    """A child with an empty environment, in a session of its own, whose parent has gone: it bears no sign at all."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return
    os.setsid()
    tool('sleep', str(seconds), env=BARE_ENVIRONMENT)
    os._exit(0)


def brood(seconds: int) -> None:
    """Every way to get away that was seen: foreground, background, setsid, nohup, deaf, and escaped."""
    tool('sleep', str(seconds))
    tool('sh', '-c', f'sleep {seconds} & echo $! >> "$FAKE_CODEX_PIDS"; wait')
    tool('sleep', str(seconds), own_session=True)
    tool('nohup', 'sleep', str(seconds), own_session=True)
    tool('sh', '-c', f'trap "" INT TERM HUP; sleep {seconds} & echo $! >> "$FAKE_CODEX_PIDS"; wait; sleep {seconds}',
         own_session=True)
    escape(seconds)


# --- the cases ----------------------------------------------------------------

def ok() -> NoReturn:
    emit(THREAD, TURN)
    pause(REASONING_S)
    emit(completed(0, 'reasoning', text='I look at the folder first.'))
    command = {'command': "/bin/bash -lc 'sleep 0.8'", 'aggregated_output': '', 'exit_code': None,
               'status': 'in_progress'}
    emit({'type': 'item.started', 'item': {'id': 'item_1', 'type': 'command_execution', **command}})
    os.waitpid(tool('sleep', str(TOOL_S / float(os.environ.get('FAKE_CODEX_SPEED', '1')))), 0)
    emit(completed(1, 'command_execution', **{**command, 'exit_code': 0, 'status': 'completed'}))
    pause(MESSAGE_S)
    emit(message())
    pause(COMPLETED_S)
    emit(DONE)
    leave(0, ANSWER)


def quick(*events: dict) -> NoReturn:
    emit(THREAD, TURN, *events, message(), DONE)
    leave(0, ANSWER)


def crash() -> NoReturn:
    emit(THREAD, TURN)
    pause(REASONING_S)
    emit(completed(0, 'reasoning', text='I look at the folder first.'))
    complain("thread 'main' panicked at core/src/exec.rs:42: index out of bounds")
    leave(101)


def auth() -> NoReturn:
    emit(THREAD, TURN, failed(LOGIN))
    complain(f'ERROR {LOGIN}')
    leave(1)


def killed() -> NoReturn:
    emit(THREAD, TURN, message())
    leave(137)


def completed_exit_1() -> NoReturn:
    emit(THREAD, TURN, message(), DONE)
    leave(1, ANSWER)


def failed_exit_0() -> NoReturn:
    emit(THREAD, TURN, failed('The model had an internal error.'))
    leave(0)


def hang(own_session: bool = False, env: Optional[Dict[str, str]] = None) -> NoReturn:
    emit(THREAD, TURN)
    os.waitpid(tool('sleep', str(HANG_S), own_session=own_session, env=env), 0)
    leave(0)


def hang_deaf() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()


def hang_brood() -> NoReturn:
    emit(THREAD, TURN)
    brood(HANG_S)
    note_ready()
    time.sleep(HANG_S)
    leave(0)


def leave_brood() -> NoReturn:
    emit(THREAD, TURN)
    brood(HANG_S)
    note_ready()
    emit(message(), DONE)
    leave(0, ANSWER)


def note_ready() -> None:
    """All eight pids of the brood are on file: only then is there something to look for."""
    path = os.environ.get('FAKE_CODEX_PIDS')
    while path and sum(1 for _ in open(path, 'rb')) < 8:
        time.sleep(0.005)
    emit(completed(1, 'reasoning', text='ready'))


def trace() -> NoReturn:
    for number in range(TRACE_BYTES // 100):
        complain(f'TRACE {number:06d} codex_core::client '.ljust(99, '.'))
    ok()


def trace_line() -> NoReturn:
    write_all(2, b'.' * TRACE_BYTES)
    quick()


def long_line(size: int) -> NoReturn:
    quick(completed(0, 'command_execution', command='cat big.txt', aggregated_output='x' * size, exit_code=0,
                    status='completed'))


def among_events(raw: bytes) -> NoReturn:
    emit(THREAD, TURN)
    put(raw)
    emit(message(), DONE)
    leave(0, ANSWER)


def unknown() -> NoReturn:
    quick({'type': 'turn.weather', 'sun': True}, completed(0, 'telepathy', text='hm'))


def reconnect() -> NoReturn:
    again = [{'type': 'error', 'message': f'Reconnecting... {n}/5 (unexpected status {LOGIN})'} for n in range(1, 4)]
    quick(*again, completed(0, 'error', message='Falling back from WebSockets to HTTPS transport.'))


def separators() -> NoReturn:
    text = 'one\u2028two\u2029three\u0085four\ufefffive'
    emit(THREAD, TURN, message(text), DONE)
    leave(0, text)


def no_newline() -> NoReturn:
    emit(THREAD, TURN, message())
    put(json.dumps(DONE).encode())
    leave(0, ANSWER)


def linger() -> NoReturn:
    emit(THREAD, TURN, message(), DONE)
    time.sleep(LEFT_OPEN_S)
    leave(0, ANSWER)


def holder() -> NoReturn:
    tool('sleep', str(LEFT_OPEN_S), own_session=True)
    quick()


def unread() -> NoReturn:
    complain('error: unsupported model')
    leave(1)


def multi() -> NoReturn:
    quick(message('I will look first.', 0), completed(1, 'reasoning', text='Looking.'))


def replay() -> NoReturn:
    path = os.environ.get('FAKE_CODEX_STREAM') or usage_error('FAKE_CODEX=replay needs FAKE_CODEX_STREAM=FILE.jsonl')
    with open(path[:-len('.jsonl')] + '.meta.json', encoding='utf-8') as file:
        recorded = json.load(file)
    delay_s = float(os.environ.get('FAKE_CODEX_DELAY', '0'))
    with open(path, 'rb') as file:
        for line in file.read().split(b'\n'):
            if line:
                put(line + b'\n')
                time.sleep(delay_s)
    write_all(2, recorded['stderr'].encode())
    status = recorded['exit_code']
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if status != -9 else None
        os.kill(os.getpid(), -status)
    leave(status)


# name -> (what it does, what it does in words)
MODES: Dict[str, Tuple[Callable[[], NoReturn], str]] = {
    'ok': (ok, "The article's timeline: a thought, a command, an answer, the end."),
    'quick': (quick, 'The answer at once.'),
    'crash': (crash, 'A panic before any answer, exit 101.'),
    'auth': (auth, 'turn.failed, since nobody is signed in; exit 1.'),
    'killed': (killed, 'The answer, and then exit 137 with no end of the turn.'),
    'completed_exit_1': (completed_exit_1, 'The turn completes, and yet exit 1.'),
    'failed_exit_0': (failed_exit_0, 'The turn fails, and yet exit 0.'),
    'silent': (partial(leave, 0), 'Exit 0, and nothing was said.'),
    'hang': (hang, f'A command of {HANG_S} s.'),
    'hang_session': (partial(hang, own_session=True), 'The same in a session of its own, as the real one starts it.'),
    'hang_bare': (partial(hang, own_session=True, env=BARE_ENVIRONMENT), 'And with none of our environment either.'),
    'hang_deaf': (hang_deaf, 'As hang; hears neither SIGINT nor SIGTERM.'),
    'hang_brood': (hang_brood, 'Six commands, each with another way to get away; then it hangs.'),
    'leave_brood': (leave_brood, 'The same six; then it answers and ends before they do.'),
    'trace': (trace, f'As the article: {TRACE_BYTES:,} bytes of trace lines before anything is answered.'),
    'trace_line': (trace_line, 'As many bytes of trace in one line that never ends.'),
    'line_100k': (partial(long_line, 100_000), 'An event in a line of 100 KB.'),
    'line_10m': (partial(long_line, 10_000_000), 'An event in a line of 10 MB.'),
    'invalid_utf8': (partial(among_events, NO_UTF8), 'An event with two bytes that are no UTF-8.'),
    'not_json': (partial(among_events, NO_JSON), 'A log line, a list and a bare text between the events.'),
    'unknown': (unknown, 'An event and an item of kinds that nobody knows.'),
    'reconnect': (reconnect, 'Errors that are none: it connects again, and answers.'),
    'separators': (separators, 'Characters that str.splitlines takes for line ends, raw inside a string.'),
    'no_newline': (no_newline, 'The last line without its end.'),
    'linger': (linger, f'Everything is said, and it stays for {LEFT_OPEN_S} s.'),
    'holder': (holder, 'Ends well while a grandchild still holds its stdout.'),
    'unread': (unread, 'Ends without reading its prompt: writing it must neither hang nor be what is reported.'),
    'multi': (multi, 'Two answers: the last one counts.'),
    'replay': (replay, 'A recorded stream, line by line, and the exit status and stderr that were recorded with it.'),
}


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    global _call
    if list(argv) == ['--modes']:
        write_all(1, ''.join(f'{name:17} {words}\n' for name, (_, words) in MODES.items()).encode())
        return 0
    if '--help' in argv or '-h' in argv:
        old = os.environ.get('FAKE_CODEX_HELP') == 'old'
        write_all(1, (HELP.replace('      --ignore-rules\n', '') if old else HELP).encode())
        return 0
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(1))      # as the real one: exit 1, no last event
    _call = parse(argv)
    mode = os.environ.get('FAKE_CODEX', 'ok')
    if mode not in MODES:
        usage_error(f'FAKE_CODEX={mode} is not one of --modes')
    note_call(argv, read_prompt() if mode != 'unread' else '')
    MODES[mode][0]()
    return 0


def read_prompt() -> str:
    """From standard input where the argument says so. Beside an argument an open pipe is read too: so does Codex."""
    said = sys.stdin.buffer.read() if sys.stdin is not None else b''
    return said.decode('utf-8', 'replace') if _call.prompt == '-' else _call.prompt


def note_call(argv: Sequence[str], prompt: str) -> None:
    path = os.environ.get('FAKE_CODEX_SEEN')
    if path:
        with open(path, 'w', encoding='utf-8') as file:
            json.dump({'argv': list(argv), 'prompt': prompt, 'cwd': os.getcwd(), 'env': dict(os.environ)}, file)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
