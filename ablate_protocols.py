"""ablate_protocols.py - two protocols to be walked: a proposal's approval, an edit that is sent again.

Article 4, "La ricostruzione" and "Se lo implementi tu" (the approval, the marker, the retry); article 1, "Cosa succede
quando Claude modifica" (compare-and-swap, the key). The steps are small; what is decided in them is decided by the
product: proposals.next_step, versioned.once.

    python3 ablate.py explore proposal

Not here: the walk (ablate_explore.py), sessions and sign-ins (ablate_sessions.py).
"""
import sys
from typing import Dict, FrozenSet, Iterator, NamedTuple, Optional, Tuple

import proposals
import versioned
from ablate_rule import Change, always
from ablate_explore import Protocol, Step
from proposals import Facts
from versioned import Refusal

# --- data ---------------------------------------------------------------------

HERE = sys.modules[__name__]
BASE = 'base'
RENAMES = ('branch', 'marker')                                  # git renames one lock file after the other
CLICKS, DECLINES, KILLS, PUSHES = 2, 1, 1, 1                    # clicks on each proposal; the others in all


class Filed(NamedTuple):
    """A proposal in the database, and what the owner was told of it last."""
    status: str = 'pending'
    commit: Optional[str] = None                                # the intent: stored, the decision is made
    told: Optional[str] = None


class Click(NamedTuple):
    """A click under way. `todo` are the renames still to be done."""
    proposal: int
    verb: str
    at: str                                                     # looking, deciding, git, recording
    head: str = BASE
    marker: Optional[str] = None
    contains: bool = False
    todo: Tuple[str, ...] = ()


class Approval(NamedTuple):
    """Two proposals on one base, their owner, one repository."""
    filed: Tuple[Filed, Filed] = (Filed(), Filed())
    branch: Tuple[str, ...] = (BASE,)
    markers: FrozenSet[str] = frozenset()
    allowed: bool = True                                        # the connection that proposed
    clicks: Tuple[Click, ...] = ()
    left: Tuple[int, ...] = (CLICKS, CLICKS, DECLINES, KILLS, PUSHES)
    late: bool = False                                          # a decision was made after the revocation


# --- rules --------------------------------------------------------------------

def ours(proposal: int) -> str:
    """The commit of a proposal: the same intent gives the same id."""
    return f'commit {proposal + 1}'


def may_begin(state: Approval) -> bool:
    """The repository's lock: one click at a time."""
    return not state.clicks


def may_move(branch: Tuple[str, ...], expected: str) -> bool:
    """Git's compare and swap of the reference: asked once, when it has locked both references and before it renames."""
    return branch[-1] == expected


def may_push(state: Approval) -> bool:
    """Between the two renames git holds the branch's lock."""
    return not any(click.at == 'git' and len(click.todo) < len(RENAMES) for click in state.clicks)


def is_allowed(state: Approval) -> bool:
    """Access, asked again inside the decision's transaction."""
    return state.allowed


def stored_intent(proposal: int) -> Optional[str]:
    """What the decision's COMMIT stores before git hears of anything."""
    return ours(proposal)


def approval_steps(state: Approval) -> Iterator[Step]:
    for proposal in (0, 1):
        if may_begin(state) and state.left[proposal]:
            yield (f'the owner clicks Approve on proposal {proposal + 1}',
                   begin(state, Click(proposal, 'approve', 'looking'), proposal))
    if may_begin(state) and state.left[2]:
        yield 'the owner clicks Decline on proposal 1', begin(state, Click(0, 'decline', 'looking'), 2)
    if state.allowed:
        yield 'the owner revokes the connection that proposed', state._replace(allowed=False)
    for number, click in enumerate(state.clicks):
        yield from click_step(state, number, click)
    if state.left[4] and may_push(state):
        yield 'somebody pushes to main', spend(state._replace(branch=state.branch + ('a push',)), 4)
    if state.clicks and state.left[3]:
        yield 'the server is killed', spend(state._replace(clicks=()), 3)


def begin(state: Approval, click: Click, budget: int) -> Approval:
    return spend(state._replace(clicks=state.clicks + (click,)), budget)


def spend(state: Approval, budget: int) -> Approval:
    return state._replace(left=tuple(left - (number == budget) for number, left in enumerate(state.left)))


def click_step(state: Approval, number: int, click: Click) -> Iterator[Step]:
    name, filed = f'proposal {click.proposal + 1}', state.filed[click.proposal]
    if click.at == 'looking':
        marker = ours(click.proposal) if ours(click.proposal) in state.markers else None
        seen = click._replace(at='deciding', head=state.branch[-1], marker=marker,
                              contains=filed.commit in state.branch)
        yield f'it looks at git: main is at {seen.head}', put(state, number, seen)
    elif click.at == 'deciding':
        yield decide(state, number, click, filed)
    elif click.at == 'git' and click.todo == RENAMES and not may_move(state.branch, BASE):
        again = Click(click.proposal, click.verb, 'looking')
        yield 'git refuses: the branch is elsewhere by now', put(state, number, again)
    elif click.at == 'git':
        yield move_one(state, number, click)
    else:
        done = filed._replace(status='executed', commit=ours(click.proposal), told='executed')
        yield f'{name} is recorded as executed, the owner is told', put(file(state, click.proposal, done), number, None)


def decide(state: Approval, number: int, click: Click, filed: Filed) -> Step:
    """One transaction, and the product's own decision in it."""
    name = f'proposal {click.proposal + 1}'
    step = proposals.next_step(Facts(filed.status, False, is_allowed(state), click.head, BASE, filed.commit,
                                     click.marker, click.contains))
    if step == 'build' and click.verb == 'approve':
        after = file(state, click.proposal, filed._replace(commit=stored_intent(click.proposal)))
        after = after._replace(late=state.late or not state.allowed)
        return f'the decision on {name} is stored', put(after, number, click._replace(at='git', todo=RENAMES))
    if step == 'add_marker':
        return f'{name} is on the branch already', put(state, number, click._replace(at='git', todo=('marker',)))
    if step == 'replay':
        done = filed._replace(status='executed', told='executed')
    elif filed.status != 'pending' or (step == 'refuse' and click.verb == 'approve'):
        done = filed._replace(told=filed.status)
    else:
        status = 'declined' if click.verb == 'decline' else 'stale'
        done = filed._replace(status=status, told=status)
    return f'the owner is told: {name} is {done.told}', put(file(state, click.proposal, done), number, None)


def move_one(state: Approval, number: int, click: Click) -> Step:
    """One of the two renames. Afterwards the other, or the outcome."""
    after = click._replace(todo=click.todo[1:], at='git' if click.todo[1:] else 'recording')
    if click.todo[0] == 'marker':
        moved = state._replace(markers=state.markers | {ours(click.proposal)})
        return f'git renames the marker of proposal {click.proposal + 1} into place', put(moved, number, after)
    moved = state._replace(branch=(BASE, ours(click.proposal)))
    return f'git renames main into place, at {ours(click.proposal)}', put(moved, number, after)


def put(state: Approval, number: int, click: Optional[Click]) -> Approval:
    clicks = state.clicks[:number] + ((click,) if click else ()) + state.clicks[number + 1:]
    return state._replace(clicks=clicks)


def file(state: Approval, proposal: int, filed: Filed) -> Approval:
    return state._replace(filed=tuple(filed if number == proposal else each for number, each in enumerate(state.filed)))


def approval_broken(state: Approval) -> Optional[str]:
    for proposal, filed in enumerate(state.filed):
        on_branch = ours(proposal) in state.branch
        if filed.told == 'executed' and not on_branch:
            return f'the owner was told that proposal {proposal + 1} is executed, and it is not on the branch'
        if filed.told in ('stale', 'declined') and on_branch:
            return f'the owner was told that proposal {proposal + 1} is {filed.told}, and it is on the branch'
    if not state.left[4] and 'a push' not in state.branch:
        return 'what somebody pushed is lost, and nobody is told'
    return 'a decision was made after the connection was revoked' if state.late else None


def without_git(next_step):
    """What git says of our own commit is not asked: the marker, the branch."""
    return lambda facts: next_step(facts._replace(contains=False, marker=None))


def marker_alone(next_step):
    """The article's rule: a marker proves that the proposal was executed."""
    return lambda facts: 'replay' if facts.marker else next_step(facts)


PROPOSAL = Protocol('proposal', Approval(), approval_steps, approval_broken, [
    ('git is asked whether it has happened already', [Change(proposals, 'next_step', without_git)]),
    ('the intent is stored before git moves', [Change(HERE, 'stored_intent', always(lambda proposal: None))]),
    ('the branch goes first, and a marker alone proves nothing',
     [Change(HERE, 'RENAMES', always(('marker', 'branch'))), Change(proposals, 'next_step', marker_alone)]),
    ('the reference moves from the old value', [Change(HERE, 'may_move', always(lambda branch, expected: True))]),
    ('one click at a time', [Change(HERE, 'may_begin', always(lambda state: len(state.clicks) < 2))]),
    ('access is asked again when the decision is stored', [Change(HERE, 'is_allowed', always(lambda state: True))])])


# An edit that is sent again, because its answer was lost or is late.

class Edited(NamedTuple):
    """An article that Claude has read at version 1, Mika beside it, and Claude's call on its way."""
    version: int = 1
    mika: bool = True                                           # Mika has still to save
    sends: int = 3                                              # that the host may still make
    in_flight: Tuple[Tuple[str, int], ...] = ()                 # calls at the server: (key, expected version)
    replays: Tuple[Tuple[str, bytes, str], ...] = ()            # what versioned.once has stored
    told: Optional[str] = None                                  # what Claude heard of its edit
    again: bool = False                                         # it has read again, and sends the edit anew
    written: int = 0                                            # how often its edit was applied
    lost: bool = False                                          # Mika's save was written over unread


class Replays:
    """As much of a transaction as versioned.once asks for."""

    def __init__(self, rows: Tuple[Tuple[str, bytes, str], ...]) -> None:
        self.rows: Dict[str, Tuple[bytes, str]] = {key: (digest, answer) for key, digest, answer in rows}
        self.found: Optional[Tuple[bytes, str]] = None

    def execute(self, statement: str, values: Tuple) -> 'Replays':
        if statement.startswith('SELECT'):
            self.found = self.rows.get(values[1])
        else:
            self.rows[values[1]] = (values[2], values[3])
        return self

    def fetchone(self) -> Optional[Tuple[bytes, str]]:
        return self.found

    def stored(self) -> Tuple[Tuple[str, bytes, str], ...]:
        return tuple((key, *row) for key, row in sorted(self.rows.items()))


def is_current(expected: int, version: int) -> bool:
    """The compare and swap of an edit."""
    return expected == version


def edit_steps(state: Edited) -> Iterator[Step]:
    if state.mika:
        yield 'Mika saves a line of hers', state._replace(version=state.version + 1, mika=False)
    if state.sends and state.told != 'saved':
        call = ('second-key', state.version) if state.again else ('first-key', 1)
        if call not in state.in_flight or len(state.in_flight) < 2:
            words = 'Claude sends the edit' + (' anew, with the version it has just read' if state.again else '')
            yield words, state._replace(sends=state.sends - 1, in_flight=state.in_flight + (call,))
    if state.told == 'stale_version' and not state.again:
        yield 'Claude reads the article again', state._replace(again=True, told=None)
    if state.in_flight:
        waiting = state._replace(in_flight=state.in_flight[1:])
        yield 'the server is killed before the COMMIT', waiting
        outcome, after = answer(waiting, *state.in_flight[0])
        yield f'the server answers {outcome}; the answer is lost', after
        yield f'the server answers {outcome}', after._replace(told=outcome if after.told is None else after.told)


def answer(state: Edited, key: str, expected: int) -> Tuple[str, Edited]:
    """One transaction on the article. A replay is an answer like the first one: saved."""
    tx, applied = Replays(state.replays), []

    def work() -> dict:
        if not is_current(expected, state.version):
            raise Refusal('stale_version', 'read again')
        applied.append(expected)
        return {'saved': True}
    try:
        versioned.once(tx, 'connection:c7', key, 'edit', {'expected_version': expected}, work)
    except Refusal as refusal:
        return refusal.code, state
    if not applied:
        return 'saved', state
    unread = applied[0] < state.version
    return 'saved', state._replace(version=state.version + 1, written=state.written + 1, replays=tx.stored(),
                                   lost=state.lost or unread)


def edit_broken(state: Edited) -> Optional[str]:
    if state.written > 1:
        return 'the edit was applied twice'
    if state.lost:
        return 'a save that Claude has not read was written over'
    untrue = state.told == 'saved' and not state.written
    return 'Claude was told that its edit is saved, and it is not' if untrue else None


EDIT = Protocol('edit', Edited(), edit_steps, edit_broken, [
    ('a key is done once', [Change(versioned, 'once', always(lambda tx, actor, key, tool, arguments, work: work()))]),
    ('an edit goes over the version it names', [Change(HERE, 'is_current', always(lambda expected, version: True))])])

PROTOCOLS = (PROPOSAL, EDIT)
