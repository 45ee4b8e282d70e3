"""ablate_rule.py - a rule of the product, how it is taken out, and what is tried without it.

All articles: one row a rule of their closing lists and limits. The product holds every rule as a module-level function
or constant that is looked up when it is used, so a row replaces it from outside, and afterwards all is as it was.

Not here: the rows (ablate_kb.py, ablate_cache.py, ablate_codex.py, ablate_proposals.py, ablate_notes.py,
ablate_access.py), the table (ablate.py).
"""
import contextlib
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

# --- data ---------------------------------------------------------------------

Say = Callable[[str], None]                                     # hears one step of the story


class Change(NamedTuple):
    """`name` in `place` (a module or a class) becomes `make(what it was)`."""
    place: Any
    name: str
    make: Callable[[Any], Any]


class Row(NamedTuple):
    article: int
    point: int                                                  # of the article's closing list or limits, from 1
    name: str                                                   # for the command line
    rule: str
    lives: str                                                  # file: name
    changes: Sequence[Change] = ()
    try_it: Optional[Callable[[Say], str]] = None               # tells its steps, returns what came of it
    reason: str = ''                                            # why nothing can break it


class Result(NamedTuple):
    row: Row
    with_it: Optional[str]
    without_it: Optional[str]


# --- rules --------------------------------------------------------------------

@contextlib.contextmanager
def taken_out(row: Row) -> Iterator[None]:
    """The product without one rule; on the way out everything is as it was, whatever happened inside."""
    kept = []
    try:
        for place, name, make in row.changes:
            kept.append((place, name, vars(place)[name]))
            setattr(place, name, make(vars(place)[name]))
        yield
    finally:
        for place, name, before in reversed(kept):
            setattr(place, name, before)


def run(row: Row, say: Say = lambda step: None) -> Result:
    if row.try_it is None:
        return Result(row, None, None)
    say('With the rule:')
    with_it = row.try_it(say)
    say(f'  so: {with_it}')
    say('Without it:')
    with taken_out(row):
        without_it = row.try_it(say)
    say(f'  so: {without_it}')
    return Result(row, with_it, without_it)


def worth(result: Result) -> Optional[bool]:
    """Whether the rule made a difference; None where it cannot be taken out."""
    return None if result.row.try_it is None else result.with_it != result.without_it


def always(value: Any) -> Callable[[Any], Any]:
    """A change that does not depend on what was there."""
    return lambda before: value
