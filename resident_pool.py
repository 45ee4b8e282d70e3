"""resident_pool.py - resident processes, their leases, and what each lease is sent.

Article 2, "Cosa riceve una sessione fredda che una calda non riceve?": one process a (channel, binding), four at
most, ended after 30 minutes without a turn, the least recently used first. `prompt_for` is the one place that decides
between framing with transcript, framing with the new turn, and the new turn alone. Needs nothing else of this
project.

    python3 resident_pool.py        four turns in one channel: cold, warm, cold after half an hour and after Start fresh

Not here: what the turn itself shows (channel_render.py), which rows a session has had (watermarks.py).
"""
import argparse
import sys
import threading
from collections import OrderedDict
from contextlib import ExitStack
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

# --- data ---------------------------------------------------------------------

MOST_RESIDENT = 4
IDLE_S = 30 * 60
NOT_A_USER = ('assistant', 'system', 'tool')

Key = Tuple[str, str]                       # (channel, binding)
Message = Tuple[str, str]                   # (role, text)


class Resident(NamedTuple):
    """A running process, as a starter returns it. `native` is the provider's own id of the session inside it."""
    native: str
    alive: Callable[[], bool]
    end: Callable[[], None]
    restored: bool = False                  # it reloaded the exact saved session that it had before


class Lease(NamedTuple):
    """One turn's right to one process. `cold`: the process has not had a turn yet."""
    channel: str
    binding: str
    native: str
    cold: bool
    restored: bool
    resident: Resident


class Busy(Exception):
    """Nothing was started. Either this process answers another turn, or all four do: wait for a release."""

    def __init__(self, message: str, channel: str, binding: str) -> None:
        super().__init__(message)
        self.channel, self.binding = channel, binding


class Seat:
    """A place in the pool. It changes with every turn, so it is no record."""

    def __init__(self, now_s: float) -> None:
        self.resident = None                # type: Optional[Resident]
        self.leased, self.cold, self.used_s = True, True, now_s


class Pool:
    """The residents of one app. `start` may take seconds; no lock is held while it runs."""

    def __init__(self, start: Callable[[str, str], Resident]) -> None:
        self.start, self.lock = start, threading.Lock()
        self.seats = OrderedDict()          # type: OrderedDict[Key, Seat]      # least recently used first


# --- rules --------------------------------------------------------------------

def prompt_for(lease: Lease, system: str, prompt: str, prompt_warm: str) -> str:
    """What this lease is sent: the only place that tells cold from warm.

    A warm process keeps the framing and every turn so far. Sent the transcript, it would take its own answers for new
    words of the user, a little more with every turn. An empty newest turn says nothing to a process that waits, warm
    or restored: it gets framing and transcript whatever the lease says.
    """
    if not prompt_warm.strip():
        return f'{system}\n\n{prompt}'
    if lease.restored:
        return f'{system}\n\n{prompt_warm}'
    if lease.cold:
        return f'{system}\n\n{prompt}'
    return prompt_warm


def build_prompt(messages: Sequence[Message]) -> str:
    """The conversation as `User:` and `Assistant:` lines. Further lines are indented, so that no text can open a
    line of its own with another speaker's label."""
    labels = {'assistant': 'Assistant', 'system': 'System', 'tool': 'Tool'}
    return '\n'.join(f'{labels.get(role, "User")}: ' + '\n  '.join(text.splitlines()) for role, text in messages)


def latest_user_turn(messages: Sequence[Message]) -> str:
    """The newest message that is not the assistant's, the system's or a tool's; '' if there is none."""
    return next((text for role, text in reversed(messages) if role not in NOT_A_USER), '')


def lease(pool: Pool, channel: str, binding: str, now_s: float) -> Lease:
    """The process of this channel and binding, started if need be, for one turn. Raises Busy."""
    key = (channel, binding)
    with pool.lock:
        seat, ended = take_seat(pool, key, now_s)
    if seat.resident is None or ended:
        fill_seat(pool, key, seat, ended)
    resident = seat.resident
    # Restored counts for the first turn only: from the second on the process is as warm as any.
    return Lease(channel, binding, resident.native, seat.cold, seat.cold and resident.restored, resident)


def fill_seat(pool: Pool, key: Key, seat: Seat, ended: Sequence[Resident]) -> None:
    """End the victims, then start: four at most means at any moment. A start that fails leaves no seat behind."""
    try:
        end_all(ended)
        resident = seat.resident or pool.start(*key)
    except BaseException:
        with pool.lock:
            if seat.resident is None:
                pool.seats.pop(key, None)
            seat.leased = False
        raise
    with pool.lock:
        seat.resident, closed = resident, pool.seats.get(key) is not seat
    if closed:
        resident.end()
        raise Busy('the pool was closed while the process started', *key)


def take_seat(pool: Pool, key: Key, now_s: float) -> Tuple[Seat, List[Resident]]:
    """Under the lock: (the seat, now leased; residents to be ended)."""
    ended = remove_idle(pool, now_s)
    seat = pool.seats.get(key)
    if seat is not None and seat.leased:
        raise Busy(f'{key[1]} is answering another turn in {key[0]}: wait for its end', *key)
    if seat is not None and not seat.resident.alive():     # it crashed between two turns
        ended.append(pool.seats.pop(key).resident)
        seat = None
    if seat is None:
        ended += make_room(pool, key)
        seat = pool.seats[key] = Seat(now_s)
    seat.leased, seat.used_s = True, now_s
    pool.seats.move_to_end(key)
    return seat, ended


def make_room(pool: Pool, key: Key) -> List[Resident]:
    """Least recently used first; a process in the middle of a turn is never taken."""
    if len(pool.seats) < MOST_RESIDENT:
        return []
    victim = next((other for other, seat in pool.seats.items() if not seat.leased), None)
    if victim is None:
        raise Busy(f'all {MOST_RESIDENT} resident processes are answering: wait for a release', *key)
    return [pool.seats.pop(victim).resident]


def remove_idle(pool: Pool, now_s: float) -> List[Resident]:
    idle = [key for key, seat in pool.seats.items() if not seat.leased and now_s - seat.used_s >= IDLE_S]
    return [pool.seats.pop(key).resident for key in idle]


def release(pool: Pool, done: Lease, succeeded: bool, now_s: float) -> None:
    """The end of a turn. A cold turn that failed may have left no framing behind: its process is ended, and the next
    lease is cold again, under a new native id. A lease of a process that is gone changes nothing."""
    key, ended = (done.channel, done.binding), []           # type: Tuple[Key, List[Resident]]
    with pool.lock:
        seat = pool.seats.get(key)
        if seat is None or seat.resident is not done.resident:
            return
        if (done.cold and not succeeded) or not done.resident.alive():
            ended.append(pool.seats.pop(key).resident)
        else:
            seat.leased, seat.cold, seat.used_s = False, False, now_s
    end_all(ended)


def start_fresh(pool: Pool, channel: str, binding: str) -> None:
    """The owner's Start fresh: the next turn has a new process and so a new native id. Raises Busy in a turn."""
    with pool.lock:
        seat = pool.seats.get((channel, binding))
        if seat is not None and seat.leased:
            raise Busy(f'{binding} is answering a turn in {channel}: wait for its end', channel, binding)
        ended = [pool.seats.pop((channel, binding)).resident] if seat else []
    end_all(ended)


def sweep(pool: Pool, now_s: float) -> int:
    """End what has been idle for too long; how many that were. For a timer: leases sweep as well."""
    with pool.lock:
        ended = remove_idle(pool, now_s)
    end_all(ended)
    return len(ended)


def close(pool: Pool) -> None:
    with pool.lock:
        ended = [seat.resident for seat in pool.seats.values() if seat.resident is not None]
        pool.seats.clear()
    end_all(ended)


def end_all(residents: Sequence[Resident]) -> None:
    with ExitStack() as stack:                             # each of them, whatever another's end raises
        for resident in reversed(residents):
            stack.callback(resident.end)


# --- main ---------------------------------------------------------------------

def main(argv: List[str]) -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    started: Dict[str, bool] = {}

    def start(channel: str, binding: str) -> Resident:      # demo only: a process that is none
        native = f'session-{len(started) + 1}'
        started[native] = True
        return Resident(native, lambda: started[native], lambda: started.update({native: False}))
    pool, talk = Pool(start), []                            # type: Pool, List[Message]
    for minute, asked in ((0, 'where is the retry count set?'), (5, 'and who reads it?'), (36, 'is it tested?'),
                          (40, 'why is it flaky?')):
        if minute == 40:
            print('minute 40: the owner clicks Start fresh')
            start_fresh(pool, 'ch-backend', 'b-claude')
        talk.append(('user', asked))
        held = lease(pool, 'ch-backend', 'b-claude', minute * 60)
        sent = prompt_for(held, '(framing)', build_prompt(talk), latest_user_turn(talk))
        print(f'minute {minute}: {held.native} {"cold" if held.cold else "warm"} is sent {sent!r}')
        talk.append(('assistant', 'in config.py'))
        release(pool, held, True, minute * 60)
    print(f'minute 70: {sweep(pool, 70 * 60)} idle process ended by the timer')
    close(pool)
    return 0


if __name__ == '__main__':
    try:
        import ending
    except ImportError:                        # copied out alone: then Python says how it ended
        sys.exit(main(sys.argv[1:]))
    sys.exit(ending.run(main, sys.argv[1:]))
