"""codex_cases.py - 22 ways in which an agent's CLI answers or goes wrong, and what a wrapper should make of each.

Article 3's four failures and eighteen that were seen in the field (README, article 3). `fake_codex.py` has
a mode for each; the tests hold wrap.py to them, and `python3 bench.py peers` holds its published rivals to them too.

Not here: a way to run anything.
"""
import os
from typing import List, NamedTuple, Optional

# --- data ---------------------------------------------------------------------

ANSWER = 'The answer.'
SEPARATED = 'one\u2028two\u2029three\x85four\ufefffive'
DEADLINE_S = 3.0                 # the article's, for whoever hangs
GRACE_S = 2.5                    # how much later than its deadline a wrapper may return


class Case(NamedTuple):
    """`mode` of the stand-in, and what is right. A partial may be told as an error, if its text is kept."""
    mode: str
    what: str
    status: str = 'answered'
    text: str = ANSWER
    error: str = ''              # must occur in what the caller is told
    auth: bool = False
    hangs: bool = False
    prompt: str = 'hi'


class Outcome(NamedTuple):
    """What a caller of some wrapper gets."""
    text: str                    # '' when there is none
    error: Optional[str]         # None: it reports success
    late_s: float                # beyond the deadline
    survivors: int


CASES: List[Case] = [
    Case('ok', 'the article\'s timeline'),
    Case('crash', 'crash before an answer', 'failed', '', 'panicked'),
    Case('auth', 'turn.failed with a 401', 'failed', '', '401 Unauthorized: please log in', auth=True),
    Case('killed', 'killed after the message', 'partial'),
    Case('completed_exit_1', 'turn.completed, then exit 1'),
    Case('failed_exit_0', 'turn.failed, then exit 0', 'failed', '', 'The model had an internal error.'),
    Case('silent', 'exit 0 without a word', 'failed', '', 'returned no output'),
    Case('hang', 'a hanging tool', 'timed_out', '', 'timed out', hangs=True),
    Case('hang_session', 'a hanging tool in a session of its own', 'timed_out', '', 'timed out', hangs=True),
    Case('trace', '200 KB of stderr in lines'),
    Case('trace_line', '200 KB of stderr in one line'),
    Case('line_100k', 'a line of 100 KB'),
    Case('line_10m', 'a line of 10 MB'),
    Case('invalid_utf8', 'bytes that are no UTF-8'),
    Case('not_json', 'lines that are no JSON object'),
    Case('unknown', 'unknown events and items'),
    Case('reconnect', 'reconnecting, then fine, with a warning'),
    Case('separators', 'U+2028, U+0085 and a BOM inside a string', text=SEPARATED),
    Case('no_newline', 'a last line without its newline'),
    Case('linger', 'turn.completed, and then it hangs'),
    Case('holder', 'exit 0 while a grandchild holds stdout'),
    Case('unread', 'exit without reading a 3 MB prompt', 'failed', '', 'unsupported model',
         prompt='\u20ac' * 1_000_000),
]

# --- rules --------------------------------------------------------------------

def verdict(case: Case, outcome: Outcome) -> str:
    """'right', or what is wrong with it. Lenient on wording: any error that names the cause will do."""
    if outcome.survivors:
        return f'{outcome.survivors} left alive'
    if outcome.late_s > GRACE_S:
        return f'{outcome.late_s:.1f} s late: {outcome.error}'
    if case.status in ('answered', 'partial') and outcome.text != case.text:
        return f'lost the answer: {outcome.error}' if not outcome.text else 'another text'
    if case.status == 'answered' and outcome.error is not None:
        return f'an error over an answer: {outcome.error}'
    if case.status in ('failed', 'timed_out') and outcome.error is None:
        return 'reports success'
    if case.status == 'failed' and case.mode != 'silent' and case.error not in (outcome.error or ''):
        return f'hides the cause: {outcome.error}'
    return 'right'


# --- I/O ----------------------------------------------------------------------

def living(pids_file: str) -> List[int]:
    """Which of the processes that the stand-in noted still run."""
    try:
        with open(pids_file, encoding='ascii') as file:
            pids = [int(line) for line in file.read().split()]
    except FileNotFoundError:
        return []
    return [pid for pid in pids if runs(pid)]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        with open(f'/proc/{pid}/stat', 'rb') as file:      # a zombie answers to signal 0, and runs no more
            return file.read().rsplit(b')', 1)[1].split()[0] not in (b'Z', b'X')
    except FileNotFoundError:
        return os.path.isdir('/proc/self') is False        # no /proc at all: believe the signal
