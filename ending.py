"""ending.py - Ctrl-C, SIGTERM and a closed terminal end a program once, and never between two halves of a step.

All articles' programs that start a server or make a folder. A signal's exception may come between any two lines:
between the start of a process and the assignment that remembers it, or within the very `finally` that takes it away.
So what must not be torn stands in `undisturbed`, and what may take long, inside it, in `disturbed`:

    with ending.undisturbed():
        process = start()                 a signal that comes here waits
        try:
            with ending.disturbed():      and is obeyed here, as an exception
                use(process)
        finally:
            stop(process)                 once obeyed, no second one cuts this short

Not here: how a run of the Codex CLI is cancelled (wrap.py), how a server stops (server.py).
"""
import io
import os
import signal
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

# --- data ---------------------------------------------------------------------

AGAIN_S = 0.01                            # after this, a signal whose exception was swallowed is obeyed again


class Ending:
    """What the signals of this process have come to. Python runs their handlers in the main thread alone."""

    def __init__(self) -> None:
        self.number = 0                   # the signal that ends it; the first one counts
        self.obeyed = False
        self.held = 0                     # how deep in `undisturbed`


_ending = Ending()

# --- rules --------------------------------------------------------------------

def obey() -> None:
    """Leave, if a signal came and has not been obeyed and this is a place to leave."""
    if not _ending.number or _ending.obeyed or _ending.held:
        return
    _ending.obeyed = True
    if _ending.number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + _ending.number)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A signal that comes in here is obeyed at the end."""
    _ending.held += 1
    try:
        yield
    finally:
        _ending.held -= 1
        obey()


@contextmanager
def disturbed() -> Iterator[None]:
    """Within `undisturbed`: here a signal is obeyed at once."""
    held, _ending.held = _ending.held, 0
    try:
        obey()
        yield
    finally:
        _ending.held = held


# --- I/O ----------------------------------------------------------------------

def listen() -> None:
    """Hear the three signals, but none that whoever started us had us ignore (nohup, a background job)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, hear)
    sys.unraisablehook = not_swallowed


def hear(number: int, _frame: Any) -> None:
    _ending.number = _ending.number or number
    obey()


def not_swallowed(swallowed: Any) -> None:
    """What is raised in a __del__ or in a callback of the interpreter goes nowhere: not so the end of the program."""
    if not _ending.obeyed or not isinstance(swallowed.exc_value, (KeyboardInterrupt, SystemExit)):
        sys.__unraisablehook__(swallowed)
        return
    _ending.obeyed = False
    signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def run(main: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int:
    """A program's exit status. Ctrl-C, a reader that has seen enough (`| head`) and a full disk end it without a
    traceback; SIGTERM and a closed terminal as Ctrl-C does, so that the servers it started end too."""
    listen()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='backslashreplace')   # a terminal that cannot show …
    try:
        status = main(argv)
        if sys.stdout is not None:                       # None: it was closed before we began
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except OSError as error:                             # a full disk, a file that cannot be made
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)     # or the interpreter complains when it flushes at its end
        if isinstance(error, BrokenPipeError):
            return 141
        print(f'{os.path.basename(sys.argv[0])}: {error}', file=sys.stderr)
        return 1
