"""ablate.py - what each rule is worth: taken out one at a time, and tried.

All articles: their closing lists and limits, 39 rules. Each row takes one rule out of the real code, runs the smallest
real experiment with it and without it, and puts it back. A rule that no code can take out is listed with the reason.

    python3 ablate.py                every rule, by article (20 s)
    python3 ablate.py NAME           one rule, told step by step; python3 ablate.py --list names them
    python3 ablate.py explore        all interleavings of four protocols (ablate_explore.py)
    also: --json

Exit status: 0 every rule makes a difference, 1 one does not, 2 usage. Not here: how a rule is taken out
(ablate_rule.py), the experiments (ablate_kb.py, ablate_cache.py, ablate_codex.py, ablate_proposals.py, ablate_notes.py,
ablate_access.py), the claims as tests (tests/).
"""
import json
import platform
import sys
from typing import Iterator, List, Sequence

import ablate_access
import ablate_cache
import ablate_codex
import ablate_explore
import ablate_kb
import ablate_notes
import ablate_proposals
import ablate_protocols
import ablate_sessions
import ending
import published
from ablate_rule import Result, Row, run, worth

# --- data ---------------------------------------------------------------------

PROTOCOLS = (*ablate_protocols.PROTOCOLS, *ablate_sessions.PROTOCOLS)

# --- rules --------------------------------------------------------------------

def all_rows() -> List[Row]:
    """Every row, in the articles' order."""
    return [*ablate_kb.ROWS, *ablate_cache.ROWS, *ablate_codex.ROWS, *ablate_proposals.ROWS, *ablate_notes.ROWS,
            *ablate_access.ROWS]


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


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    if argv[:1] == ['explore']:
        return ablate_explore.main(argv[1:], PROTOCOLS)
    words, wants_json = [word for word in argv if word != '--json'], '--json' in argv
    if '--help' in words or '-h' in words:
        print(__doc__)
        return 0
    rows = {row.name: row for row in all_rows()}
    if words == ['--list']:
        print(json.dumps({'program': 'ablate.py', 'rules': list(rows)}) if wants_json else '\n'.join(rows))
        return 0
    if len(words) > 1 or (words and words[0] not in rows):
        wrong = 'asks for more than one rule' if words[0] in rows else 'is no rule, --list names them'
        print(published.misused('ablate.py', f'{" ".join(words)!r} {wrong}'), file=sys.stderr)
        return 2
    results = []
    for name in words or rows:
        published.progress(f'{len(results) + 1} of {len(words or rows)}: {name}')
        results.append(run(rows[name], print if words and not wants_json else lambda step: None))
    published.progress('')
    print(as_json(results) if wants_json else '\n'.join(lines(results)))
    return 0 if all(worth(result) is not False for result in results) else 1


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
