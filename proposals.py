"""proposals.py - the owner decides, and git moves once.

Article 4, "La ricostruzione" (the approval, the marker), "Cosa si rompe senza compare-and-swap?" (the retry) and "Se lo
implementi tu". A click is: git's facts; the decision, as one COMMIT; git, with no transaction open; the outcome, as a
second COMMIT; all under the repository's lock. Killed anywhere, the next click reads the facts again and answers with
what really happened: `next_step` is the whole recovery.

Stricter than the article: a marker alone is no proof. A git that is killed between its two renames leaves one reference
without the other, so only a commit that is on the branch counts as executed; its id is stored before git hears of it.

Not here: intake (proposal_intake.py), the repository (git_repo.py), the card (proposal_card.py), HTTP (owner.py).
"""
import json
from typing import Callable, NamedTuple, Optional, Tuple

import proposal_intake
from git_lock import MARKERS
from git_objects import Build, GitError, Intent, person
from git_repo import Repository
from git_repo import Facts as GitFacts
from proposal_intake import Proposal, find, status_of
from versioned import Database, Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

ATTEMPTS = 5                             # somebody may push between our look and our move; each time we look again
# Raises Refusal when the proposer or the approver may no longer; asked inside the decision's own transaction.
Recheck = Callable[[Tx, Proposal], None]
Afterwards = Callable[[Tx, Proposal, str, int], None]    # what else an executed commit means: in the outcome's COMMIT


def nothing(*_: object) -> None:
    pass


class Click(NamedTuple):
    """What the owner did. `after_git`: demo only, where a crash is injected."""
    approver: str                        # 'person:mika'
    verb: str                            # 'approve' | 'decline'
    now_us: int
    recheck: Recheck
    reason: str
    after_git: Callable[[], None]
    afterwards: Afterwards


class Facts(NamedTuple):
    """All that the next step depends on."""
    status: str
    expired: bool
    allowed: bool                        # connection, project, role: as they are now
    head: Optional[str]
    expected_head: Optional[str]
    commit: Optional[str]                # ours, as the intent foresees it; None: nobody decided yet
    marker: Optional[str]
    contains: bool                       # our commit is on the branch


# --- rules --------------------------------------------------------------------

def next_step(facts: Facts) -> str:
    """'replay' | 'add_marker' | 'build' | 'stale' | 'refuse'."""
    if facts.status == 'executed':
        return 'replay'
    if facts.commit and facts.contains:                  # git did it: whatever was said since, it happened
        return 'replay' if facts.marker else 'add_marker'
    if facts.status != 'pending' or facts.expired or not facts.allowed:
        return 'refuse'
    if facts.marker and facts.marker != facts.commit:    # somebody else wrote under our name
        return 'refuse'
    return 'build' if facts.head == facts.expected_head else 'stale'


def require_owner(approver: str, verb: str) -> None:
    if not approver.startswith('person:'):
        raise Refusal('agent_scope_denied', 'the proposer never decides: a person does')
    if verb not in ('approve', 'decline'):
        raise invalid('decision', 'approve or decline')


def make_intent(row: Proposal, click: Click, git: GitFacts) -> Intent:
    """The commit to be. A retry makes the very commit that was decided, unless another person decides now and git has
    nothing of the first decision."""
    committer, decided_us = sign(click.approver), click.now_us
    if row.commit_oid and (row.committer == committer or git.marker == row.commit_oid):
        committer, decided_us = row.committer, row.intent_us
    message = f'{row.message.rstrip()}\n\nProposal: {row.proposal}\nApproved-by: {committer.split(" <")[0]}\n'
    files = [(path, content) for path, content in json.loads(row.files)]
    return Intent(row.base_oid, files, row.author, row.created_us // 1_000_000, committer, decided_us // 1_000_000,
                  message)


def sign(key: str) -> str:
    """'person:mika' -> 'mika <mika@person.invalid>': the account, whatever name it goes by."""
    kind, _, name = key.partition(':')
    return person(name, f'{name}@{kind}.invalid')


def decider(committer: str) -> str:
    """'mika <mika@person.invalid>' -> 'person:mika'."""
    return 'person:' + committer.partition(' <')[0]


def weigh(tx: Tx, row: Proposal, git: GitFacts, click: Click) -> Tuple[str, Optional[Refusal]]:
    """(next step, why access refuses). Inside the decision's transaction: a revocation is before it or after it."""
    problem = None
    try:
        proposal_intake.require_gitnest(tx, row.repository)
        click.recheck(tx, row)
    except Refusal as refused:
        problem = refused
    return next_step(Facts(row.status, click.now_us >= row.expires_us, problem is None, git.head, row.expected_head,
                           ours(row, git), git.marker, bool(git.contains))), problem


def ours(row: Proposal, git: GitFacts) -> Optional[str]:
    return row.commit_oid or (git.marker if git.contains else None)


def conclude(tx: Tx, row: Proposal, git: GitFacts, step: str, problem: Optional[Refusal], click: Click) -> dict:
    """What needs no git any more: a replay, a decline, a refusal. Written in the decision's transaction."""
    if step == 'replay':
        commit = ours(row, git)
        if row.status != 'executed':                      # else it stands already, by whoever decided first
            record_executed(tx, row, commit, click)
        return executed(commit, click.verb, replayed=True)
    if row.status != 'pending':
        return refusal(row, row.status, git.head)
    if click.verb == 'decline':                           # also of what is stale or forbidden: no is always possible
        proposal_intake.close(tx, row, 'declined', click.approver, click.now_us, click.reason)
        return {'status': 'declined'}
    if click.now_us >= row.expires_us or step == 'stale':
        status = 'stale' if step == 'stale' else 'expired'
        proposal_intake.close(tx, row, status, click.approver, click.now_us)
        return refusal(row, status, git.head)
    if problem and problem.code == 'stale':               # another pin than the branch: what is current is in the data
        proposal_intake.close(tx, row, 'stale', click.approver, click.now_us)
        return {'status': 'stale', 'refused': True, **problem.data}
    if problem:
        return {'status': 'pending', 'refused': True, **problem.as_dict()}
    return {'status': 'pending', 'refused': True, 'error': 'marker_conflict',
            'message': f'{MARKERS}{row.proposal} names a commit that is not this proposal\'s: somebody must look'}


def record_executed(tx: Tx, row: Proposal, commit: str, click: Click) -> None:
    tx.execute('INSERT INTO intents VALUES (?, ?, NULL, NULL) '
               'ON CONFLICT (proposal) DO UPDATE SET commit_oid = excluded.commit_oid', (row.proposal, commit))
    proposal_intake.close(tx, row, 'executed', click.approver, click.now_us)
    click.afterwards(tx, row, commit, click.now_us)


def executed(commit: str, verb: str, replayed: bool) -> dict:
    answer = {'status': 'executed', 'commit': commit}
    if verb == 'decline':                                 # too late: it is on the branch
        return {**answer, 'refused': True}
    return {**answer, 'replayed': True} if replayed else answer


def refusal(row: Proposal, status: str, head: Optional[str]) -> dict:
    answer = {'status': status, 'refused': True}
    return {**answer, 'base_oid': row.base_oid, 'branch_head': head} if status == 'stale' else answer


# --- I/O ----------------------------------------------------------------------

def decide(db: Database, repo: Repository, proposal: str, approver: str, verb: str, now_us: int, mode: str = 'cas',
           recheck: Recheck = nothing, reason: str = '', after_git: Callable[[], None] = nothing,
           afterwards: Afterwards = nothing) -> dict:
    """The click -> what the article prints: status, and refused or replayed. Raises Refusal not_found.

    Clicks on one repository queue, so the second of a double click gets the replay.
    """
    require_owner(approver, verb)
    click = Click(approver, verb, now_us, recheck, reason, after_git, afterwards)
    with db.read() as tx:
        row = find(tx, proposal)
    known = settled(repo, row, verb)
    if known:
        return known
    if mode == 'naive':
        return decide_naive(db, repo, row, click)
    try:
        with repo.lock():
            for _ in range(ATTEMPTS):
                answer = attempt_or_undo(db, repo, proposal, click)
                if answer:
                    return answer
    except GitError as error:
        return {'status': 'pending', 'refused': True, 'error': error.code, 'message': str(error)}
    return {'status': 'pending', 'refused': True, 'error': 'busy', 'message': 'others push all the time: try again'}


def settled(repo: Repository, row: Proposal, verb: str) -> Optional[dict]:
    """The answer that needs no lock and no process: what was decided stays decided."""
    if row.status == 'executed':
        return executed(row.commit_oid, verb, replayed=True)
    if row.commit_oid or row.status == 'pending':
        return None                                       # git has a word in this
    return refusal(row, row.status, repo.head(row.branch) if row.status == 'stale' else None)


def attempt_or_undo(db: Database, repo: Repository, proposal: str, click: Click) -> Optional[dict]:
    """What git refused is no decision under way: its proposer may take it back, and it may expire."""
    try:
        return attempt(db, repo, proposal, click)
    except GitError:
        bring_to_an_end(db, repo, proposal, click)
        raise


def attempt(db: Database, repo: Repository, proposal: str, click: Click) -> Optional[dict]:
    """One look, one decision, one move, under the repository's lock. None: the branch moved under us, look again."""
    with db.read() as tx:
        row = find(tx, proposal)
    git = look(repo, row)
    intent = make_intent(row, click, git)
    build = repo.build(intent) if click.verb == 'approve' and git.head == row.expected_head else None
    with db.write() as tx:
        row = row._replace(status=status_of(tx, proposal))    # again: the proposer may have withdrawn it since
        step, problem = weigh(tx, row, git, click)
        if step in ('replay', 'add_marker') and row.committer:
            click = click._replace(approver=decider(row.committer))      # who decided, and not who asks again
        if step == 'build' and click.verb == 'approve':   # this COMMIT is the decision
            tx.execute('INSERT OR REPLACE INTO intents VALUES (?, ?, ?, ?)',
                       (proposal, build.commit, intent.committer, intent.committer_s * 1_000_000))
        elif step != 'add_marker':
            return conclude(tx, row, git, step, problem, click)
    commit = build.commit if step == 'build' else ours(row, git)
    if not carry_out(repo, row, step, build, intent, git, commit):
        return None
    click.after_git()
    with db.write() as tx:
        record_executed(tx, row, commit, click)
    return executed(commit, click.verb, replayed=step == 'add_marker')


def look(repo: Repository, row: Proposal) -> GitFacts:
    """Git's facts. Whether a commit is on the branch is asked only when there is one: an intent's, or else a marker's
    that proves itself by its trailer (git may know more than the database: a restored backup)."""
    git = repo.facts(row.branch, row.proposal, row.commit_oid)
    if row.commit_oid is None and git.marker is not None:
        text = (repo.object(git.marker, 'commit') or b'').decode('utf-8', 'replace')
        mine = f'\nProposal: {row.proposal}\n' in text
        return git._replace(contains=mine and repo.contains(git.head, git.marker))
    return git


def carry_out(repo: Repository, row: Proposal, step: str, build: Optional[Build], intent: Intent, git: GitFacts,
              commit: str) -> bool:
    """Git, with no transaction open. False: the branch is no longer where it was."""
    try:
        if step == 'add_marker':
            repo.add_marker(row.proposal, commit)
        else:
            repo.write(build, intent, row.branch, row.proposal)
            repo.move(row.branch, commit, row.expected_head, row.proposal, has_marker=git.marker == commit)
        return True
    except GitError as error:
        if error.code != 'moved':
            raise
        return False
    finally:
        repo.settle()


def recover(db: Database, repo: Repository, repository: str, now_us: int, afterwards: Afterwards = nothing) -> int:
    """At start: a decision that a kill cut short is either in git, then it is executed, or nobody has decided.

    Returns how many there were.
    """
    with db.read() as tx:
        begun = tx.execute('SELECT p.proposal FROM proposals p JOIN intents i ON i.proposal = p.proposal '
                           "WHERE p.repository = ? AND p.status = 'pending'", (repository,)).fetchall()
    for proposal, in begun:
        click = Click('', 'approve', now_us, nothing, '', nothing, afterwards)
        try:
            with repo.lock():
                bring_to_an_end(db, repo, proposal, click)
        except GitError:
            continue                                      # somebody holds a lock: the next click asks git again
    return len(begun)


def bring_to_an_end(db: Database, repo: Repository, proposal: str, click: Click) -> None:
    with db.read() as tx:
        row = find(tx, proposal)
    if row.status != 'pending' or row.commit_oid is None:     # another process ended it while we waited for the lock
        return
    git = look(repo, row)
    if git.contains and git.marker is None:
        repo.add_marker(proposal, row.commit_oid)
    with db.write() as tx:
        if git.contains:
            record_executed(tx, row, row.commit_oid, click._replace(approver=decider(row.committer)))
        elif git.marker is None:                          # a marker without its branch still tells whose it is
            tx.execute('DELETE FROM intents WHERE proposal = ?', (proposal,))


def decide_naive(db: Database, repo: Repository, row: Proposal, click: Click) -> dict:
    """demo only, do not copy: the article's --mode naive. It looks at the head, builds, and writes the reference
    without an old value and without a marker; two clicks at one instant both look before either writes."""
    with db.write() as tx:
        problem = weigh(tx, row, GitFacts(None, None, None), click)[1]
        if problem or click.verb == 'decline' or click.now_us >= row.expires_us:
            return conclude(tx, row, GitFacts(None, None, None), 'refuse', problem, click)
    head = repo.look_up('refs/heads/' + row.branch)
    if head != row.expected_head:
        with db.write() as tx:
            return conclude(tx, row, GitFacts(head, None, None), 'stale', None, click)
    intent = make_intent(row, click, GitFacts(head, None, None))
    build = repo.build(intent)
    repo.write(build, intent, row.branch, row.proposal)
    repo.overwrite(row.branch, build.commit)
    click.after_git()
    with db.write() as tx:
        record_executed(tx, row, build.commit, click)
    return executed(build.commit, click.verb, replayed=False)
