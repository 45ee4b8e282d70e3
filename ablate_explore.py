"""ablate_explore.py - every interleaving of four small protocols, with their rules and with one rule out.

Articles 1, 2, 4 and 7: a proposal, a watermark, a replayed edit, a refresh token. Each is a few actors on one state;
all orders of their steps are walked, with a kill at every place where one hurts. With the rules no state breaks a
promise; with one out, the shortest way to a broken one is told in words.

    python3 ablate.py explore              states visited, violations, counterexamples (5 s)
    python3 ablate.py explore proposal     one protocol; also --json

Exit status: 0 every walk ends as it should, 1 one does not, 2 usage.
Not here: the four models (ablate_protocols.py, ablate_sessions.py), the same with real processes (tests/).
"""
import json
import platform
import sys
from collections import deque
from typing import Callable, Dict, Hashable, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import published
from ablate_rule import Change, Row, taken_out

# --- data ---------------------------------------------------------------------

State = Hashable
Step = Tuple[str, State]                                        # what happens, in words, and what then is


class Protocol(NamedTuple):
    name: str
    start: State
    steps: Callable[[State], Iterable[Step]]                    # everything that may happen next
    broken: Callable[[State], Optional[str]]                    # the promise that this state breaks, in words
    rules: Sequence[Tuple[str, Sequence[Change]]]               # what can be taken out: (the rule, how)


class Walk(NamedTuple):
    protocol: str
    rule_out: Optional[str]
    states: int
    violations: int                                             # states that break a promise
    promise: Optional[str]                                      # the one that broke first
    story: Sequence[str]                                        # the shortest way there


# --- rules --------------------------------------------------------------------

def walk(protocol: Protocol, rule_out: Optional[str] = None) -> Walk:
    """Breadth first, so that the first broken state is at the end of a shortest way. A broken state is not left."""
    before: Dict[State, Optional[Tuple[State, str]]] = {protocol.start: None}
    waiting, violations, first = deque([protocol.start]), 0, None
    while waiting:
        state = waiting.popleft()
        promise = protocol.broken(state)
        if promise:
            violations += 1
            first = first or (promise, state)
            continue
        for words, after in protocol.steps(state):
            if after not in before:
                before[after] = (state, words)
                waiting.append(after)
    promise, end = first or (None, None)
    return Walk(protocol.name, rule_out, len(before), violations, promise, story(before, end) if first else ())


def story(before: Dict[State, Optional[Tuple[State, str]]], state: State) -> List[str]:
    words = []
    while before[state] is not None:
        state, step = before[state]
        words.append(step)
    return words[::-1]


def explore(protocols: Sequence[Protocol]) -> List[Walk]:
    walks = []
    for protocol in protocols:
        published.progress(protocol.name)
        walks.append(walk(protocol))
        for rule, changes in protocol.rules:
            with taken_out(Row(0, 0, '', '', '', changes)):
                walks.append(walk(protocol, rule))
    published.progress('')
    return walks


def right(each: Walk) -> bool:
    """No violation with the rules, and one at least without."""
    return (each.violations == 0) == (each.rule_out is None)


def lines(walks: Sequence[Walk]) -> Iterable[str]:
    for each in walks:
        if each.rule_out is None:
            yield f'\n{each.protocol}: {each.states:,} states, {each.violations:,} violations'
        else:
            yield f'  without "{each.rule_out}": {each.states:,} states, {each.violations:,} violations'
            yield from (f'    {number}. {words}' for number, words in enumerate(each.story, 1))
            yield f'    => {each.promise or "NO VIOLATION"}'


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str], models: Sequence[Protocol]) -> int:
    protocols = {each.name: each for each in models}
    words = [word for word in argv if word != '--json']
    if len(words) > 1 or (words and words[0] not in protocols):
        asked = words[0] in ('-h', '--help')
        named = ', '.join(protocols)
        print(f'{__doc__}\nProtocols: {named}' if asked else
              f'ablate.py explore: {" ".join(words)!r} is not one of {named}; also --json',
              file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    walks = explore([protocols[words[0]]] if words else list(protocols.values()))
    if '--json' in argv:
        print(json.dumps({'program': 'ablate.py explore', 'python': platform.python_version(),
                          'walks': [each._asdict() for each in walks]}))
    else:
        print('\n'.join(lines(walks)))
    return 0 if all(map(right, walks)) else 1

