"""gitnest_proposals.py - the other six propose tools: what each pins, and the click that compares it.

Article 4, "Cosa fissano i sette tool di proposta?" (the table of pins) and "Perché non dare all'agente un token di
push?" (what an approval reads again). Intake compares once, so that a model that is late is told at once; the click
compares again, in the transaction that decides. Work, change sets, reruns and native publications need the database
alone. A composition is a file import onto the change set's own branch, so proposals.py decides and recovers it. A
provider publication stores its intent, pushes, and records; a retry asks the provider first what happened.

Not here: the store (gitnest.py), the push (gitnest_provider.py), who may call or click (access.py, owner_gitnest.py).
"""
import json
import uuid
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import gitnest
import gitnest_provider
import proposal_intake
import proposals
import versioned
from git_objects import GitError, Intent
from git_repo import Repository
from gitnest import ChangeSet
from gitnest_provider import ProviderError
from proposal_intake import Proposal
from proposals import nothing
from versioned import Database, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS gitnest_pins (
    proposal         TEXT PRIMARY KEY,
    author           TEXT NOT NULL,
    change_set       TEXT,
    expected_version INTEGER,
    expected_oid     TEXT,
    body             TEXT NOT NULL,      -- JSON: what else was proposed
    intent_us        INTEGER,            -- a push was decided: what became of it, the provider knows
    result           TEXT NOT NULL       -- JSON: what it led to
) WITHOUT ROWID;
"""

WORK, CHANGE_SET, COMPOSITION, RERUN, NATIVE, PROVIDER = (
    'propose_gitnest_work', 'propose_gitnest_change_set', 'propose_gitnest_server_composition',
    'propose_gitnest_check_rerun', 'propose_gitnest_native_publication', 'propose_gitnest_provider_publication')
VERSION, OID = 'expected_change_set_version', 'expected_composition_oid'


class Pinned(NamedTuple):
    """A proposal of these tools, with what it pins."""
    proposal: str
    tool: str
    actor: str
    repository: str
    status: str
    reason: str
    created_us: int
    expires_us: int
    approver: Optional[str]
    decided_us: Optional[int]
    author: str
    change_set: Optional[str]
    expected_version: Optional[int]
    expected_oid: Optional[str]
    body: str
    intent_us: Optional[int]
    result: str


class Click(NamedTuple):
    """As the owner's route hands it on. `second_look`: the owner says that the marked paths were looked at."""
    approver: str
    verb: str
    now_us: int
    recheck: Callable[[Tx, Any], None] = nothing
    reason: str = ''
    second_look: bool = False
    mode: str = 'cas'
    after_git: Callable[[], None] = nothing


# --- rules --------------------------------------------------------------------

def find(tx: Tx, proposal: str) -> Pinned:
    # A composition's intent is its file import's.
    row = tx.execute('SELECT p.*, g.author, g.change_set, g.expected_version, g.expected_oid, g.body, '
                     'COALESCE(g.intent_us, i.intent_us), g.result FROM proposals p '
                     'JOIN gitnest_pins g ON g.proposal = p.proposal '
                     'LEFT JOIN intents i ON i.proposal = p.proposal WHERE p.proposal = ?', (proposal,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no proposal {proposal!r}')
    return Pinned(*row)


def propose(tx: Tx, actor: str, arguments: dict, now_us: int, tool: str, repo: Repository, author: str,
            ttl_us: int = proposal_intake.TTL_US) -> dict:
    """{proposal_id, status, and what was pinned}."""
    def work() -> dict:
        proposal_intake.require_gitnest(tx, arguments['repository_id'])
        proposal_intake.require_few(tx, actor, arguments['repository_id'], now_us)
        proposal, pins = str(uuid.uuid4()), pins_of(tx, arguments)
        body = INTAKES[tool](tx, proposal, arguments, repo, author, pins.pop('row'))
        proposal_intake.file_proposal(tx, proposal, tool, actor, arguments['repository_id'], now_us, ttl_us)
        tx.execute("INSERT INTO gitnest_pins VALUES (?, ?, ?, ?, ?, ?, NULL, '{}')",
                   (proposal, author, arguments.get('change_set_id'), pins.get(VERSION), pins.get(OID),
                    json.dumps(body)))
        return {'proposal_id': proposal, 'status': 'pending', **pins}
    return versioned.once(tx, actor, arguments['idempotency_key'], tool, arguments, work)


def pins_of(tx: Tx, arguments: dict) -> dict:
    """What the model read, compared with what is: {expected_...} and the change set as 'row'."""
    if VERSION not in arguments:
        return {'row': None}
    row = gitnest.find_in(tx, arguments['repository_id'], arguments['change_set_id'])
    compare(row, arguments[VERSION], arguments.get(OID))
    return {'row': row, **{name: arguments[name] for name in (VERSION, OID) if name in arguments}}


def compare(row: ChangeSet, version: int, oid: Optional[str]) -> None:
    """The pins against the change set of this moment; Refusal stale says what is current."""
    if row.version != version:
        raise Refusal('stale', 'the change set was revised: read it again', **{VERSION: version},
                      current_version=row.version)
    if oid is not None and (row.composition_oid, row.composed_version) != (oid, version):
        raise Refusal('stale', 'the change set was composed again: read it again', **{OID: oid},
                      composition_oid=row.composition_oid, composed_version=row.composed_version)


# What each tool stores besides its pins: (tx, proposal, arguments, repo, author, change set) -> body.

def intake_work(tx: Tx, proposal: str, arguments: dict, repo: Repository, author: str, row: Any) -> dict:
    return {'title': arguments['title'], 'description': arguments.get('description', '')}


def intake_change_set(tx: Tx, proposal: str, arguments: dict, repo: Repository, author: str, row: Any) -> dict:
    proposal_intake.require_branch(arguments['target_branch'], 'target_branch')
    if 'work_id' in arguments:
        gitnest.require_work(tx, arguments['repository_id'], arguments['work_id'])
    return {'title': arguments['title'], 'target_branch': arguments['target_branch'],
            'imports': gitnest.check_imports(arguments['imports']), 'work_id': arguments.get('work_id')}


def intake_composition(tx: Tx, proposal: str, arguments: dict, repo: Repository, author: str, row: ChangeSet) -> dict:
    """The base is the target branch as it is now: pinned by the server, like a file import's."""
    files, message = gitnest.composed_files(row), gitnest.composed_message(row)
    try:
        base, _ = proposal_intake.pin(repo, row.target_branch, None)
        tip = repo.head(row.branch)
        repo.build(Intent(base, files, author, 0, author, 0, message))
    except GitError as error:
        raise Refusal(error.code, str(error), **error.data) from error
    tx.execute('INSERT INTO file_imports VALUES (?, ?, ?, ?, ?, ?, ?)',
               (proposal, row.branch, base, tip, author, message, json.dumps(files)))
    return {}


def intake_rerun(tx: Tx, proposal: str, arguments: dict, repo: Repository, author: str, row: ChangeSet) -> dict:
    gitnest.require_check(tx, row.change_set, arguments[OID], arguments['check'])
    return {'check': arguments['check']}


def intake_native(tx: Tx, proposal: str, arguments: dict, repo: Repository, author: str, row: ChangeSet) -> dict:
    return {}


def intake_provider(tx: Tx, proposal: str, arguments: dict, repo: Repository, author: str, row: ChangeSet) -> dict:
    provider = gitnest.policy(tx, row.repository).provider
    if not provider:
        raise Refusal('no_provider', 'this repository has no provider: its owner can name one')
    return {'provider': provider}


INTAKES: Dict[str, Callable[..., dict]] = {
    WORK: intake_work, CHANGE_SET: intake_change_set, COMPOSITION: intake_composition, RERUN: intake_rerun,
    NATIVE: intake_native, PROVIDER: intake_provider}


def waiting(tx: Tx, repository: str, now_us: int) -> List[tuple]:
    """(proposal, tool, author) of all that needs the owner's approval, of every kind, the oldest first."""
    return tx.execute(
        'SELECT p.proposal, p.tool, COALESCE(g.author, f.author) FROM proposals p '
        'LEFT JOIN gitnest_pins g ON g.proposal = p.proposal LEFT JOIN file_imports f ON f.proposal = p.proposal '
        'LEFT JOIN intents i ON i.proposal = p.proposal '
        "WHERE p.repository = ? AND p.status = 'pending' AND (p.expires_us > ? OR i.commit_oid IS NOT NULL "
        'OR g.intent_us IS NOT NULL) ORDER BY p.created_us, p.proposal', (repository, now_us)).fetchall()


def read_proposal(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    row = find(tx, arguments['proposal_id'])
    if row.actor != actor:
        raise Refusal('not_found', f'there is no proposal {row.proposal!r}')
    pins = {'change_set_id': row.change_set, VERSION: row.expected_version, OID: row.expected_oid,
            'reason': row.reason or None}
    status = proposal_intake.status_now(row, row.intent_us is not None, now_us)
    return {'proposal_id': row.proposal, 'status': status, 'tool': row.tool,
            'expires_at': versioned.stamp_text(row.expires_us), **json.loads(row.result),
            **{name: value for name, value in pins.items() if value is not None}}


def withdraw(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    return versioned.once(tx, actor, arguments['idempotency_key'], 'withdraw_proposal', arguments,
                          lambda: proposal_intake.take_back(tx, actor, find(tx, arguments['proposal_id']), now_us))


# What the click compares, and what it does.

def check_pins(tx: Tx, row: Pinned, click: Click, tip: Optional[str]) -> Optional[ChangeSet]:
    """Everything that must still hold, in the decision's transaction. `tip`: the change set's branch, as git has it."""
    proposal_intake.require_gitnest(tx, row.repository)
    click.recheck(tx, row)
    if row.change_set is None:
        return None
    change_set = gitnest.find(tx, row.change_set)
    compare(change_set, row.expected_version, row.expected_oid)
    if row.tool in (NATIVE, PROVIDER):
        check_publication(tx, row, change_set, click, tip)
    return change_set


def check_publication(tx: Tx, row: Pinned, change_set: ChangeSet, click: Click, tip: Optional[str]) -> None:
    """The owner's policy of this moment: required checks for this very commit, and the second look."""
    if tip != row.expected_oid:
        raise Refusal('stale', f'{change_set.branch} is no longer the reviewed commit', **{OID: row.expected_oid},
                      branch_head=tip)
    missing = gitnest.missing_checks(tx, change_set, row.expected_oid)
    if missing:
        raise Refusal('required_checks', 'not every required check has passed for this commit', checks=missing)
    reasons = gitnest.look_twice_reasons(tx, change_set)
    if reasons and not click.second_look:
        raise Refusal('second_look_required', 'the policy of this repository wants a second look', reasons=reasons)


def carry_out(tx: Tx, row: Pinned, change_set: Optional[ChangeSet], now_us: int) -> dict:
    """What an approved proposal leads to in the database."""
    body = json.loads(row.body)
    if row.tool == WORK:
        return {'work_id': gitnest.create_work(tx, row.repository, body['title'], body['description'], row.actor,
                                               now_us)}
    if row.tool == CHANGE_SET:
        return {'change_set_id': gitnest.create_change_set(tx, row.repository, body['work_id'], body['title'],
                                                           body['target_branch'], body['imports'], row.actor, now_us)}
    if row.tool == RERUN:
        return {'runs': gitnest.ask_again(tx, row.change_set, row.expected_oid, body['check'], now_us)}
    return gitnest.open_pull_request(tx, row.proposal, change_set, row.expected_version, row.expected_oid,
                                     body.get('provider', ''), now_us)


def finish(tx: Tx, row: Pinned, change_set: Optional[ChangeSet], click: Click) -> dict:
    result = carry_out(tx, row, change_set, click.now_us)
    tx.execute('UPDATE gitnest_pins SET result = ? WHERE proposal = ?', (json.dumps(result), row.proposal))
    proposal_intake.close(tx, row, 'executed', click.approver, click.now_us)
    return {'status': 'executed', **result}


def known_answer(row: Pinned, verb: str) -> Optional[dict]:
    """What was decided stays decided."""
    if row.status == 'executed':
        return {'status': 'executed', **json.loads(row.result), **({'refused': True} if verb == 'decline'
                                                                    else {'replayed': True})}
    return {'status': row.status, 'refused': True} if row.status != 'pending' else None


def refuse(tx: Tx, row: Pinned, refusal: Refusal, click: Click) -> dict:
    """Stale closes the proposal; whatever may yet become right leaves it pending."""
    if refusal.code == 'stale':
        proposal_intake.close(tx, row, 'stale', click.approver, click.now_us)
        return {'status': 'stale', 'refused': True, **refusal.data}
    return {'status': 'pending', 'refused': True, **refusal.as_dict()}


def settle(tx: Tx, row: Pinned, click: Click) -> Optional[dict]:
    """The answers that need no pins: decided before, declined now, expired."""
    answer = known_answer(row, click.verb)
    if answer is None and click.verb == 'decline':
        proposal_intake.close(tx, row, 'declined', click.approver, click.now_us, click.reason)
        return {'status': 'declined'}
    if answer is None and click.now_us >= row.expires_us:
        proposal_intake.close(tx, row, 'expired', click.approver, click.now_us)
        return {'status': 'expired', 'refused': True}
    return answer


# --- I/O ----------------------------------------------------------------------

def decide(db: Database, repo: Repository, proposal: str, click: Click) -> dict:
    """The owner's click on a proposal of any of the seven tools (and the reconstruction's own)."""
    with db.read() as tx:
        tool = proposal_intake.tool_of(tx, proposal)
    if tool == COMPOSITION:
        return decide_composition(db, repo, proposal, click)
    if tool not in INTAKES:
        return proposals.decide(db, repo, proposal, click.approver, click.verb, click.now_us, click.mode,
                                click.recheck, click.reason, click.after_git)
    proposals.require_owner(click.approver, click.verb)
    if tool == PROVIDER:
        return decide_provider(db, repo, proposal, click)
    return decide_here(db, repo, proposal, click)


def decide_here(db: Database, repo: Repository, proposal: str, click: Click) -> dict:
    """One transaction. The change set's branch is looked up before it: only a push past us could move it meanwhile."""
    with db.read() as tx:
        row = find(tx, proposal)
    tip = tip_of(db, repo, row)
    with db.write() as tx:
        row = find(tx, proposal)
        answer = settle(tx, row, click)
        if answer is None:
            try:
                answer = finish(tx, row, check_pins(tx, row, click, tip), click)
            except Refusal as refusal:
                answer = refuse(tx, row, refusal, click)
    return answer


def tip_of(db: Database, repo: Repository, row: Pinned) -> Optional[str]:
    if row.tool not in (NATIVE, PROVIDER):
        return None
    with db.read() as tx:
        branch = gitnest.find(tx, row.change_set).branch
    return repo.head(branch)


def decide_composition(db: Database, repo: Repository, proposal: str, click: Click) -> dict:
    """A file import onto the change set's branch, whose version and base are compared too."""
    with db.read() as tx:
        row = find(tx, proposal)
    # A composition that a kill cut short comes to its end before another one takes its place on the branch.
    proposals.recover(db, repo, row.repository, click.now_us, afterwards)
    with db.read() as tx:
        target = gitnest.find(tx, row.change_set).target_branch

    def recheck(tx: Tx, intake: Proposal) -> None:
        click.recheck(tx, intake)
        compare(gitnest.find(tx, row.change_set), row.expected_version, None)
        base = repo.head(target) or repo.default_head()
        if base != intake.base_oid:
            raise Refusal('stale', f'{target} moved', base_oid=intake.base_oid, branch_head=base)
    return proposals.decide(db, repo, proposal, click.approver, click.verb, click.now_us, 'cas', recheck, click.reason,
                            click.after_git, afterwards)


def afterwards(tx: Tx, intake: Proposal, commit: str, now_us: int) -> None:
    """In the outcome's COMMIT: the change set has its composition."""
    if intake.tool != COMPOSITION:
        return
    row = find(tx, intake.proposal)
    result = {'composition_oid': commit, 'change_set_version': row.expected_version}
    tx.execute('UPDATE gitnest_pins SET result = ? WHERE proposal = ?', (json.dumps(result), row.proposal))
    gitnest.record_composition(tx, gitnest.find(tx, row.change_set), row.expected_version, commit, intake.base_oid,
                               now_us)


def decide_provider(db: Database, repo: Repository, proposal: str, click: Click) -> dict:
    """Intent, push, outcome; under a lock of its own, so that a slow provider stops no other decision."""
    try:
        with repo.publishing.hold():
            return publish(db, repo, proposal, click)
    except (GitError, ProviderError) as error:
        return {'status': 'pending', 'refused': True, 'error': error.code, 'message': str(error)}


def publish(db: Database, repo: Repository, proposal: str, click: Click) -> dict:
    with db.read() as tx:
        row = find(tx, proposal)
        known = known_answer(row, click.verb)
        change_set, url = gitnest.find(tx, row.change_set), gitnest.policy(tx, row.repository).provider_url
    if known:
        return known
    if row.intent_us is not None:                         # an earlier click got as far as the push: what became of it?
        there = gitnest_provider.branch_at(repo, url, change_set.branch)
        if there == row.expected_oid:
            with db.write() as tx:
                answer = finish(tx, row, gitnest.find(tx, row.change_set), click)
            return {**answer, **({'refused': True} if click.verb == 'decline' else {'replayed': True})}
    tip = repo.head(change_set.branch)
    with db.write() as tx:
        row = find(tx, proposal)
        answer = settle(tx, row, click)
        if answer is not None:
            return answer
        try:
            change_set = check_pins(tx, row, click, tip)
        except Refusal as refusal:
            return refuse(tx, row, refusal, click)
        tx.execute('UPDATE gitnest_pins SET intent_us = ? WHERE proposal = ?', (click.now_us, proposal))
    push(db, repo, url, row, change_set)                  # `row` is from before: it knows of an earlier intent only
    click.after_git()
    with db.write() as tx:
        return finish(tx, row, change_set, click)


def push(db: Database, repo: Repository, url: str, row: Pinned, change_set: ChangeSet) -> None:
    """A provider that said no to the first push has nothing of ours: the intent goes. Where one push may have been
    cut short it stays: that one may yet arrive."""
    try:
        gitnest_provider.push(repo, url, row.expected_oid, change_set.branch)
    except ProviderError as error:
        if error.code != 'provider_unreachable' and row.intent_us is None:
            with db.write() as tx:
                tx.execute('UPDATE gitnest_pins SET intent_us = NULL WHERE proposal = ?', (row.proposal,))
        raise
