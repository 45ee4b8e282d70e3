"""ablate.py - what each rule is worth: taken out one at a time, and tried.

All articles: their closing lists and limits, 39 rules. Each row takes one rule out of the real code, runs the smallest
real experiment with it and without it, and puts it back. A rule that no code can take out is listed with the reason.

    python3 ablate.py                every rule, by article (20 s)
    python3 ablate.py NAME           one rule, told step by step; python3 ablate.py --list names them
    python3 ablate.py explore        all interleavings of four protocols (ablate_explore.py)
    also: --json

Exit status: 0 every rule makes a difference, 1 one does not, 2 usage.
Not here: the experiments (ablate_kb.py, ablate_cache.py, ablate_codex.py, ablate_proposals.py, ablate_notes.py,
ablate_access.py), the claims as tests (tests/).
"""
import contextlib
import json
import platform
import sys
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

import published

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


def lines(results: Sequence[Result]) -> Iterator[str]:
    article = None
    for result in results:
        row = result.row
        if row.article != article:
            article = row.article
            yield f'\nArticle {article}'
        yield f'  {row.name}: {row.rule}  [{row.lives}]'
        if row.try_it is None:
            yield f'      cannot be taken out: {row.reason}'
        else:
            yield f'      with it     {result.with_it}'
            yield f'      without it  {result.without_it}' + ('' if worth(result) else '   NO DIFFERENCE')


def as_json(results: Sequence[Result]) -> str:
    rows = [{'article': result.row.article, 'point': result.row.point, 'name': result.row.name, 'rule': result.row.rule,
             'lives': result.row.lives, 'with': result.with_it, 'without': result.without_it,
             'differs': worth(result), 'reason': result.row.reason or None} for result in results]
    return json.dumps({'program': 'ablate.py', 'python': platform.python_version(), 'rows': rows})


# --- I/O ----------------------------------------------------------------------

def all_rows() -> List[Row]:
    """Every row, in the articles' order; the experiments are loaded only now, because they load the whole product."""
    import ablate_access
    import ablate_cache
    import ablate_codex
    import ablate_kb
    import ablate_notes
    import ablate_proposals
    return [*ablate_kb.ROWS, *ablate_cache.ROWS, *ablate_codex.ROWS, *ablate_proposals.ROWS, *ablate_notes.ROWS,
            *ablate_access.ROWS]


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    if argv[:1] == ['explore']:
        import ablate_explore
        return ablate_explore.main(argv[1:])
    words, wants_json = [word for word in argv if word != '--json'], '--json' in argv
    if '--help' in words or '-h' in words:
        print(__doc__)
        return 0
    rows = {row.name: row for row in all_rows()}
    if words == ['--list']:
        print('\n'.join(rows))
        return 0
    if len(words) > 1 or (words and words[0] not in rows):
        print(__doc__, file=sys.stderr)
        return 2
    results = []
    for name in words or rows:
        published.progress(f'{len(results) + 1} of {len(words or rows)}: {name}')
        results.append(run(rows[name], print if words and not wants_json else lambda step: None))
    published.progress('')
    print(as_json(results) if wants_json else '\n'.join(lines(results)))
    return 0 if all(worth(result) is not False for result in results) else 1


if __name__ == '__main__':
    sys.exit(published.run(main, sys.argv[1:]))
