"""ablate_sessions.py - two protocols to be walked: what a native session was shown, and a refresh token that rotates.

Article 2, "Quando avanza il watermark?" (stage, commit, discard, another native session); article 7, "Cosa dice di sé
il server di autorizzazione?" (rotation). What is shown and what is passed over is decided by channel_render and
watermarks.belongs_to, the grace by oauth_tokens.in_grace.

    python3 ablate.py explore watermark

Not here: the walk (ablate_explore.py), proposals and edits (ablate_protocols.py).
"""
import sys
from typing import FrozenSet, Iterator, NamedTuple, Optional, Tuple

import channel_render
import oauth_tokens
import watermarks
from ablate_rule import Change, always
from ablate_explore import Protocol, Step
from channel_render import Row, Shown, Watermark

# --- data ---------------------------------------------------------------------

HERE = sys.modules[__name__]
ROWS, RUNS, NATIVES = 5, 3, 2                                   # messages, runs, processes one after the other


class Run(NamedTuple):
    """A mention that is being answered, by the process that got it."""
    native: int
    shown: Shown


class Session(NamedTuple):
    rows: int = 0                                               # messages in the channel, m1, m2, ...
    runs: int = 0
    native: int = 1
    mark: Optional[Watermark] = None                            # as committed
    running: Optional[Run] = None
    had: FrozenSet[str] = frozenset()                           # what the present process has really read
    twice: Optional[str] = None


# --- rules --------------------------------------------------------------------

def channel(count: int) -> Tuple[Row, ...]:
    return tuple(Row(f'm{number}', 'user', 'ben', 'hello', number) for number in range(1, count + 1))


def after_failure(state: Session, run: Run) -> Session:
    """A run that failed may have shown the agent nothing."""
    return state


def after_success(state: Session, run: Run) -> Session:
    return state._replace(mark=channel_render.advance(state.mark, str(run.native), run.shown))


def session_steps(state: Session) -> Iterator[Step]:
    if state.rows < ROWS:
        yield f'somebody writes m{state.rows + 1}', state._replace(rows=state.rows + 1)
    if not state.running and state.runs < RUNS and state.rows < ROWS:
        yield deliver(state)
    if state.running:
        read = frozenset(row.id for row in state.running.shown.rows)
        again = sorted(read & state.had)
        done = state._replace(running=None, had=state.had | read, twice=again[0] if again else state.twice)
        yield 'the run succeeds', after_success(done, state.running)
        # The agent has read nothing of it: it failed on the way.
        yield 'the run fails before the agent reads', after_failure(state._replace(running=None), state.running)
    if state.native < NATIVES:
        words = 'the process is replaced' + (', its run with it' if state.running else '')
        yield words, state._replace(native=state.native + 1, running=None, had=frozenset())


def deliver(state: Session) -> Step:
    """A mention arrives as the newest row, and is answered by the present process."""
    rows = channel(state.rows + 1)
    mark = state.mark if state.mark and watermarks.belongs_to(state.mark, str(state.native)) else None
    shown = channel_render.render(rows, rows[-1].id, mark)
    words = ', '.join(row.id for row in shown.rows) or 'nothing new'
    return (f'm{state.rows + 1} mentions it; process {state.native} is delivered {words}',
            state._replace(rows=state.rows + 1, runs=state.runs + 1, running=Run(state.native, shown)))


def session_broken(state: Session) -> Optional[str]:
    """No row twice to one process in runs that succeeded, and none that its next turn would pass over unread."""
    if state.twice:
        return f'{state.twice} was shown twice to one process'
    if state.running or state.mark is None or not watermarks.belongs_to(state.mark, str(state.native)):
        return None
    shown = channel_render.render(channel(state.rows), '', state.mark)
    missed = {row.id for row in channel(state.rows)} - {row.id for row in shown.rows} - state.had
    return f'{min(missed)} was never read, and no later turn will show it' if missed else None


WATERMARK = Protocol('watermark', Session(), session_steps, session_broken, [
    ('it advances when the run has succeeded', [Change(HERE, 'after_failure', lambda rule: after_success)]),
    ('it belongs to one native session', [Change(watermarks, 'belongs_to', always(lambda mark, native: True))])])


# A refresh token that two processes of one host share in a file, and a thief who has copied it. Every answer arrives:
# a lost one costs a new sign-in, as RFC 9700 accepts.

REFRESHES, MINUTE_S, MOMENT_S = 5, 60, 2                        # what a process has read it sends within the grace


class Family(NamedTuple):
    """Tokens are numbered as they are issued; the highest is the current one."""
    now_s: int = 0
    retired_s: Tuple[int, ...] = ()                             # when token 1, 2, ... was replaced
    file: int = 1                                               # the host's
    read: Tuple[int, int] = (0, 0)                              # what each process has read from it, to be sent
    thief: int = 0                                              # the token he has; 0: none
    left: int = REFRESHES
    revoked: bool = False
    signed_out: bool = False                                    # the host was refused, and nobody has stolen anything
    reused: bool = False                                        # a token came long after it had been replaced


def on_reuse(state: Family) -> Family:
    """A retired token, long after its successor: somebody has a copy, so everybody signs in again."""
    return state._replace(revoked=True)


def family_steps(state: Family) -> Iterator[Step]:
    if state.revoked or not state.left:
        return
    for number, token in enumerate(state.read):
        if not token:
            yield f'process {number + 1} reads token {state.file} from the file', hold(state, number, state.file)
        else:
            done = hold(state._replace(now_s=state.now_s + MOMENT_S), number, 0)
            words, after, new = refresh(done, token)
            yield f'process {number + 1} {words}', after._replace(
                file=new or after.file, signed_out=after.signed_out or (after.revoked and not state.thief))
    if not state.thief:
        yield f'a thief copies the file, with token {state.file}', state._replace(thief=state.file)
    else:
        words, after, new = refresh(state, state.thief)
        yield f'the thief {words}', after._replace(thief=new or after.thief)
    if not any(state.read):
        yield 'a minute passes', state._replace(now_s=state.now_s + MINUTE_S, left=state.left - 1)


def hold(state: Family, number: int, token: int) -> Family:
    return state._replace(read=tuple(token if number == each else read for each, read in enumerate(state.read)))


def refresh(state: Family, token: int) -> Tuple[str, Family, int]:
    """(what happens, the family, the new refresh token or 0)."""
    state, current = state._replace(left=state.left - 1), len(state.retired_s) + 1
    if token == current:
        return (f'refreshes with token {token} and gets token {current + 1}',
                state._replace(retired_s=state.retired_s + (state.now_s,)), current + 1)
    if oauth_tokens.in_grace(state.retired_s[token - 1] * 1_000_000, state.now_s * 1_000_000):
        return f'refreshes with token {token} and gets an access token only', state, 0
    long_after = state.now_s - state.retired_s[token - 1] >= MINUTE_S
    seen = state._replace(reused=state.reused or long_after)
    return f'refreshes with token {token} and is refused', on_reuse(seen), 0


def family_broken(state: Family) -> Optional[str]:
    if state.signed_out:
        return 'the host is signed out, and nobody has stolen anything'
    if state.reused and not state.revoked:
        return 'a copied token has shown itself, and the family\'s tokens still work'
    return None


REFRESH = Protocol('refresh', Family(), family_steps, family_broken, [
    ('a token just replaced still gets an access token',
     [Change(oauth_tokens, 'in_grace', always(lambda *when: False))]),
    ('reuse ends the whole family', [Change(HERE, 'on_reuse', always(lambda state: state))])])

PROTOCOLS = (WATERMARK, REFRESH)
