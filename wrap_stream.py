"""wrap_stream.py - the parser of Codex's event stream, one JSON object a line.

Article 3, "Perché leggere gli eventi invece di un file con la risposta finale?": its seven rows, and what the
stream of a real codex-cli 0.171 has beyond them (README, differences). `parse_codex_line` knows one line and
nothing else; `Reading` adds the lines up to an answer, its steps and its error.

    python3 wrap_stream.py < recorded.jsonl        what each line becomes

Copied out together with the other wrap files. Not here: processes and deadlines
(wrap_process.py), the verdict over a whole run (wrap.py).
"""
import argparse
import json
import re
import shlex
import sys
from typing import Callable, List, NamedTuple, Optional, Sequence, Set, Union

# --- data ---------------------------------------------------------------------

LINE_BYTES = 16 * 1024 * 1024    # real lines reach 5 MB; a longer one is skipped with a warning
STEP_CHARS = 500                 # a step is a line of progress, not the text itself
ERROR_CHARS = 4_000
STEPS_KEPT = 10_000              # a run that never stops talking must not fill the memory
WARNINGS_KEPT = 1_000
SHELL_STEP = 'Using shell — '
QUOTED_CHARS = 4_000             # a longer command is shown as Codex quotes it: taking quotes apart is slow
SHOWN_KEPT = 1_000               # started items remembered, so that their completion is not shown again

# The article's list (401, unauthorized, please log in, sign in) and what real builds say. 403 is no login problem.
AUTH_WORDS = re.compile(
    r'\b401\b|\bunauthorized\b|\bplease log ?in\b|\bsign(?:ed)? in\b|\bnot logged in\b|\blog ?in again\b'
    r'|\bcodex login\b|\bincorrect api key\b|\binvalid_api_key\b|\btoken_(?:expired|invalidated|revoked)\b'
    r'|\brefresh token\b',
    re.IGNORECASE)
# A URL or a request id may hold 401 by chance, so they are not looked at.
NOT_WORDS = re.compile(r'\b[a-z][a-z0-9+.-]*://\S+|\b(?:request[ _-]?id|cf-ray)["\']?\s*[:=]?\s*\S+', re.IGNORECASE)
TRANSIENT = re.compile(r'Reconnecting\b')
SHELL = re.compile(r'(?:/\S*/)?(?:ba|z|da|k)?sh -l?c ')
# How every real build begins the line of a completed item. Only ever used to skip work, never to understand a line.
COMPLETED = b'{"type":"item.completed","item":{"id":"'
COMMAND = b'","type":"command_execution",'
LONG_LINE = 512                  # shorter ones are decoded sooner than they are told apart


class Event(NamedTuple):
    """What one line means. `kind`: text, step, usage, error, retry, warning."""
    kind: str
    text: str
    key: str = ''                        # two events with one key are one thing: show it once
    usage: Optional[dict] = None
    auth: bool = False                   # only on error: the way out is to sign in
    ends: bool = False                   # nothing of this turn follows


# --- rules --------------------------------------------------------------------

# The scanner itself: JSONDecoder.decode runs two regular expressions a line around it.
_scan = json.JSONDecoder().scan_once


def parse_codex_line(line: Union[bytes, str]) -> Optional[Event]:
    """The article's table. None: not JSON, not an object, or a type nobody needs; it costs nothing."""
    event = json_object(line)
    if event is None:
        return None
    kind = event.get('type')
    if kind == 'item.completed' or kind == 'item.started' or kind == 'item.updated':
        item = event.get('item')
        return item_event(kind, item) if isinstance(item, dict) else None
    if kind == 'turn.completed':
        usage = event.get('usage')
        return Event('usage', '', usage=usage if isinstance(usage, dict) else None, ends=True)
    if kind == 'turn.failed' or kind == 'error':
        return error_event(event, ends=kind == 'turn.failed')
    return None


def json_object(line: Union[bytes, str]) -> Optional[dict]:
    """One line as an object. Bytes that are no UTF-8 are replaced: one bad byte must not lose an answer."""
    text = line if isinstance(line, str) else line.decode('utf-8', 'replace')
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value if isinstance(value, dict) else None
    except StopIteration:                                   # no value begins here
        pass
    except (ValueError, RecursionError):                    # RecursionError: brackets a thousand deep
        return None
    bare = text.strip('\ufeff \t\r\n')
    return json_object(bare) if len(bare) < len(text) else None


def item_event(kind: str, item: dict) -> Optional[Event]:
    """An item's row. Commands and tools are told when they start: completion may be an hour away, or never come."""
    what = item.get('type')
    if what == 'command_execution':
        command = string(item.get('command'))
        return Event('step', cut(SHELL_STEP + strip_shell(command)), key_of(kind, item, command))
    if what == 'todo_list':
        return plan_event(item, marked=kind != 'item.completed')
    if what == 'mcp_tool_call':
        return tool_event(kind, item)
    if kind != 'item.completed':
        return None
    if what == 'agent_message':
        return Event('text', string(item.get('text')))
    if what == 'reasoning':
        text = string(item.get('text'))
        return Event('step', cut('Thinking: ' + text)) if text else None
    if what == 'file_change':
        return file_event(item)
    if what == 'error':                                     # the run goes on and ends well: not a failure
        return Event('warning', cut(string(item.get('message'))))
    return None


def key_of(kind: str, item: dict, what: str) -> str:
    """What is done has its id and its words as the key; its completion, which may tell them otherwise, the id alone."""
    return f'{item.get("id")}' if kind == 'item.completed' else f'{item.get("id")} {what[:STEP_CHARS]}'


def tool_event(kind: str, item: dict) -> Event:
    tool = string(item.get('tool'))
    error = item.get('error')
    if isinstance(error, dict) and isinstance(error.get('message'), str):
        # A backtrace follows the first line.
        return Event('warning', cut(f'{tool}: {first_line(error["message"])}'))
    return Event('step', cut(f'Using {tool}…'), key_of(kind, item, tool))


def file_event(item: dict) -> Optional[Event]:
    changes = item.get('changes')
    if not isinstance(changes, list):
        return None
    paths = [change['path'] for change in changes if isinstance(change, dict) and isinstance(change.get('path'), str)]
    verb = 'Could not edit' if item.get('status') == 'failed' else 'Edited'
    return Event('step', cut(f'{verb} {", ".join(paths)}')) if paths else None


def plan_event(item: dict, marked: bool) -> Optional[Event]:
    """The plan as published; while it is live, finished entries are marked, or a change could not be seen."""
    entries = item.get('items')
    if not isinstance(entries, list):
        return None
    todo = [(string(entry.get('text')), entry.get('completed') is True) for entry in entries if isinstance(entry, dict)]
    words = [f'{n}. {text}{" (done)" if done and marked else ""}' for n, (text, done) in enumerate(todo, 1)]
    return Event('step', cut('Plan: ' + ' '.join(words)), f'{item.get("id")} {todo}'[:8 * STEP_CHARS]) if todo else None


def error_event(event: dict, ends: bool) -> Event:
    error = event.get('error')
    raw = string(error.get('message') if isinstance(error, dict) else error) or string(event.get('message'))
    if not ends and TRANSIENT.match(raw):
        return Event('retry', cut(raw))                     # also when it says 401: only the last word counts
    text = unwrap(raw)[:ERROR_CHARS] or 'the turn failed without a message'
    return Event('error', text, auth=is_auth(raw), ends=ends)


def is_auth(message: str) -> bool:
    return AUTH_WORDS.search(NOT_WORDS.sub(' ', message[:ERROR_CHARS])) is not None


def unwrap(message: str) -> str:
    """The message inside, where a provider's JSON body was passed on as the text."""
    body = json_object(message) if len(message) < 16 * ERROR_CHARS else None
    if body is None:
        return message
    inner = body.get('error')
    found = [inner.get('message') if isinstance(inner, dict) else inner, body.get('message'), body.get('detail')]
    return next((text for text in found if isinstance(text, str) and text), message)


def strip_shell(command: str) -> str:
    """`/bin/bash -lc 'ls -l'` -> `ls -l`: the reader wants to know what runs, not how Codex starts it."""
    wrapped = SHELL.match(command)
    if wrapped is None:
        return command
    quoted = command[wrapped.end():]
    if quoted[:1] == "'" and quoted.find("'", 1) == len(quoted) - 1 > 0:
        return quoted[1:-1]
    return unquote(quoted) if len(quoted) <= QUOTED_CHARS else quoted


def unquote(quoted: str) -> str:
    """One word of a shell, in whatever mixture of quotes."""
    try:
        words = shlex.split(quoted)
    except ValueError:
        return quoted
    return words[0] if len(words) == 1 else quoted


def first_line(text: str) -> str:
    return text.lstrip().split('\n', 1)[0].rstrip()


def string(value: object) -> str:
    return value if isinstance(value, str) else ''


def cut(text: str) -> str:
    return text if len(text) <= STEP_CHARS else text[:STEP_CHARS] + '…'


class Reading:
    """Everything that a stream has said so far. Fed with bytes as they come, in any cuts; never raises over them.

    The last agent_message is the answer; earlier ones were progress, and a retried turn repeats itself, so
    nothing is ever concatenated.
    """

    def __init__(self, on_event: Optional[Callable[[Event], None]] = None) -> None:
        self.on_event = on_event
        self.text, self.error, self.retry = '', '', ''
        self.auth, self.complete, self.ended = False, False, False
        self.usage: Optional[dict] = None
        self.steps: List[str] = []
        self.warnings: List[str] = []
        self.first_item_at: Optional[float] = None
        self.answer_at: Optional[float] = None
        self._text_at = 0                    # where among the steps the present answer would stand
        self._shown: Set[str] = set()        # keys of steps
        self._commands: Set[bytes] = set()   # ids of commands whose start was shown
        self._held = bytearray()             # a line without its end; growing a bytes object would be quadratic
        self._skipping = False

    def feed(self, chunk: bytes, now: float = 0.0) -> None:
        """Take what a read gave. Lines end in b'\\n' only: U+2028, U+0085 and lone CR stand raw inside strings."""
        lines = chunk.split(b'\n')
        rest = lines.pop()
        if lines:
            if self._held or self._skipping:
                lines[0] = self._line_end(lines[0])
            self._take_lines(lines, now)
        if rest:
            self._hold(rest)

    def close(self, now: float = 0.0) -> None:
        """The stream has ended. A last line without its newline counts."""
        if self._held:
            self._take_lines([self._line_end(b'')], now)

    def _hold(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._held += piece
        if len(self._held) > LINE_BYTES:
            self._held, self._skipping = bytearray(), True
            self._warn(f'skipped a line of more than {LINE_BYTES} bytes')

    def _line_end(self, piece: bytes) -> bytes:
        self._hold(piece)
        line = bytes(self._held)
        self._held, self._skipping = bytearray(), False
        return line

    def _take_lines(self, lines: Sequence[bytes], now: float) -> None:
        at = len(COMPLETED)
        for line in lines:
            # A completed command carries its whole output, the bulk of a stream, and says nothing new once its
            # start was shown: it is not even decoded.
            if len(line) > LONG_LINE and line.startswith(COMPLETED):
                quote = line.find(b'"', at)
                if line[at:quote] in self._commands and line.startswith(COMMAND, quote):
                    continue
            event = parse_codex_line(line)
            if event is not None:
                self.take(event, now)

    def take(self, event: Event, now: float) -> None:
        kind = event.kind
        if kind == 'step':
            if event.key:
                if event.key in self._shown:
                    return
                self._remember(event)
            if self.first_item_at is None:
                self.first_item_at = now
            if len(self.steps) < STEPS_KEPT:
                self.steps.append(event.text)
        elif kind == 'text':
            self._take_text(event.text, now)
        else:
            self._take_rest(event)
        if self.on_event is not None:
            self.on_event(event)

    def _remember(self, event: Event) -> None:
        if len(self._shown) >= SHOWN_KEPT:   # the price is a step shown twice in a very long run
            self._shown.clear()
            self._commands.clear()
        self._shown.add(event.key)
        if event.text.startswith('Using '):
            number = event.key.split(' ', 1)[0]
            self._shown.add(number)          # so its completion is known
            if event.text.startswith(SHELL_STEP):
                self._commands.add(number.encode('utf-8', 'replace'))

    def _take_text(self, text: str, now: float) -> None:
        if self.first_item_at is None:
            self.first_item_at = now
        if not text.strip():
            return
        if self.text and self.text != text and len(self.steps) < STEPS_KEPT:
            self.steps.insert(self._text_at, cut(self.text))
        self.text, self.answer_at, self._text_at = text, now, len(self.steps)

    def _take_rest(self, event: Event) -> None:
        if event.kind == 'usage':
            self.usage, self.complete = event.usage, True
        elif event.kind == 'error':          # error and turn.failed say one thing twice: the later stands
            self.error, self.auth = event.text, event.auth
        elif event.kind == 'retry':
            self.retry = event.text
        else:
            self._warn(event.text)
        self.ended = self.ended or event.ends

    def _warn(self, text: str) -> None:
        if len(self.warnings) < WARNINGS_KEPT:
            self.warnings.append(text)


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    for line in sys.stdin.buffer if sys.stdin is not None else ():
        event = parse_codex_line(line.rstrip(b'\n'))
        print(event.kind + '  ' + ascii(event.text) if event else '-')
    return 0


if __name__ == '__main__':
    try:
        import ending
    except ImportError:                        # copied out alone: then Python says how it ended
        sys.exit(main(sys.argv[1:]))
    sys.exit(ending.run(main, sys.argv[1:]))
