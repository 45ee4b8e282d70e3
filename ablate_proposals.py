"""ablate_proposals.py - article 4's rules taken out: who decides, the pinned base, the reference, keys, provenance.

Article 4, "Se lo implementi tu", six points. Every experiment is a repository of git's and a database, in a folder that
goes away.

    python3 ablate.py moved-branch        one of them, step by step

Not here: what a row is and how a rule is taken out (ablate_rule.py), every interleaving (ablate_explore.py).
"""
import contextlib
import os
import sys
import tempfile
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

import git_plumbing
import git_repo
import owner
import proposal_intake
import proposals
import versioned
from ablate_rule import Change, Row, Say, always
from git_objects import Intent, person
from versioned import Database, Refusal
from wire import Request

# --- data ---------------------------------------------------------------------

HERE = sys.modules[__name__]
NOW_US = 1_790_000_000_000_000
CLAUDE, MIKA = person('Claude', 'c7@connection.invalid'), person('mika', 'mika@person.invalid')
MODE = 'cas'                                                    # decide has the article's switch: 'naive'


class Pushed(git_plumbing.Plumbing):
    """A repository into which somebody pushes once, between our look at the branch and our move of it."""
    push: Optional[Callable[[], None]] = None

    def write(self, *arguments: Any) -> None:
        super().write(*arguments)
        push, self.push = self.push, None
        if push:
            push()


class Desk(NamedTuple):
    folder: str
    database: Database
    repo: Pushed
    base: str


class Killed(Exception):
    """The server dies here."""


# --- rules --------------------------------------------------------------------

@contextlib.contextmanager
def desk() -> Iterator[Desk]:
    """A repository with one commit on main, and a database that knows it as r1."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'r.git')
        git_repo.create(path).close()
        repo = Pushed(path)
        base = git_repo.commit(repo, 'main', None, intent(None, 'README.md', 'one\n', 'seed'), 'seed')
        with contextlib.closing(Database(os.path.join(folder, 'state.db'), [proposal_intake.SCHEMA])) as database:
            with database.write() as tx:
                proposal_intake.register(tx, 'r1')
            yield Desk(folder, database, repo, base)
        repo.close()


def intent(parent: Optional[str], path: str, text: str, message: str) -> Intent:
    return Intent(parent, [(path, text)], MIKA, NOW_US // 1_000_000, MIKA, NOW_US // 1_000_000, message)


def propose(here: Desk, text: str = 'two\n', key: str = 'key-00001') -> dict:
    arguments = {'repository_id': 'r1', 'branch': 'main', 'message': 'Pin the version', 'idempotency_key': key,
                 'files': [{'path': 'README.md', 'content': text}]}
    try:
        with here.database.write() as tx:
            return proposal_intake.propose_file_import(tx, 'connection:c7', arguments, NOW_US, here.repo, CLAUDE)
    except Refusal as refusal:
        return refusal.as_dict()


def approve(here: Desk, proposal: str, approver: str = 'person:mika', **more: Any) -> dict:
    return proposals.decide(here.database, here.repo, proposal, approver, 'approve', NOW_US + 1_000_000, MODE, **more)


def mika_pushes(here: Desk) -> str:
    """An ordinary commit on the branch, past the proposals."""
    fix = intent(here.repo.head('main'), 'fix.py', 'fixed\n', 'fix')
    build = here.repo.build(fix)
    git_plumbing.Plumbing.write(here.repo, build, fix, 'main', 'push')
    here.repo.overwrite('main', build.commit)
    return build.commit


def on_main(here: Desk, commit: str) -> bool:
    return here.repo.contains(here.repo.head('main'), commit)


def agent_decides(say: Say) -> str:
    with desk() as here:
        proposal = propose(here)['proposal_id']
        say('  Claude proposes, then posts to /owner/decide itself, with the token of its connection')
        request = Request('POST', '/owner/decide', '', {'authorization': 'Bearer agent-token'}, b'', '127.0.0.1')
        try:
            with here.database.read() as tx:
                person_key = owner.scripted_person(tx, request)
        except Refusal as refusal:
            return f'refused: {refusal.code}'
        return f'{approve(here, proposal, person_key)["status"]}: the agent has approved its own proposal'


def branch_moved_before_the_click(say: Say) -> str:
    with desk() as here:
        proposal = propose(here)['proposal_id']
        fix = mika_pushes(here)
        answer = approve(here, proposal)
        say(f'  the card shows a change of {here.base[:8]}; Mika pushes {fix[:8]}; then the owner clicks Approve')
        say(f'  the answer: {answer}')
        kept = 'kept' if on_main(here, fix) else 'gone from the branch'
        return f'{answer["status"]}; Mika\'s push is {kept}'


def push_during_the_approval(say: Say) -> str:
    with desk() as here:
        proposal, pushed = propose(here)['proposal_id'], []
        here.repo.push = lambda: pushed.append(mika_pushes(here))
        answer = approve(here, proposal)
        say('  the branch is looked at, the commit is built; Mika pushes; then the reference is moved')
        kept = 'kept' if on_main(here, pushed[0]) else 'lost, and nobody is told'
        return f'{answer["status"]}; Mika\'s push is {kept}'


def killed_after_git(say: Say) -> str:
    def die() -> None:
        raise Killed
    with desk() as here:
        proposal = propose(here)['proposal_id']
        with contextlib.suppress(Killed):
            approve(here, proposal, after_git=die)
        say('  git has moved the branch; the server dies before it can write that down; the owner clicks again')
        answer = approve(here, proposal)
        commits = here.repo.count(here.repo.head('main')) - 1
        return f'{commits} commit on the branch, and the owner is told: {answer["status"]}'


def one_key_two_bodies(say: Say) -> str:
    with desk() as here:
        first, second = propose(here, 'two\n'), propose(here, 'three\n')
        say(f'  the same key for other files: {second}')
        if second.get('proposal_id') == first['proposal_id']:
            return 'the second proposal is taken for the first one: it is dropped, and Claude is told that it waits'
        return f'the second call is refused: {second["error"]}'


def no_key(say: Say) -> str:
    with desk() as here:
        first, second = propose(here, 'two\n', key=''), propose(here, 'three\n', key='')
        say('  a client that fills in an empty key proposes twice')
        return f'first: {first.get("error", "pending")}; second: {second.get("error", "pending")}'


def database_lost(say: Say) -> str:
    with desk() as here:
        approve(here, propose(here)['proposal_id'])
        say('  a year later the database is gone; git log says:')
        show = '--format=%an proposed, %cn approved, %(trailers:key=Proposal,keyonly)'
        log = here.repo.git('log', '-1', show, 'main')
        say(f'    {log.strip()}')
        return log.strip().rstrip(', ').replace('Proposal', 'and which proposal it was')


def taken_for_unmoved(look):
    """The mistake: the base that the reviewer saw is not compared with the branch."""
    return lambda repo, row: look(repo, row)._replace(head=row.expected_head)


def blind_move(move):
    def overwrite(repo: git_repo.Repository, branch: str, new: str, old: Optional[str], marker: str,
                  has_marker: bool = False) -> None:
        repo.git('update-ref', 'refs/heads/' + branch, new)
    return overwrite


def forgetful(next_step):
    """The mistake: what git says of our own commit and marker is not asked."""
    return lambda facts: next_step(facts._replace(contains=False, marker=None))


def by_the_server(make_intent):
    def unsigned(row: proposal_intake.Proposal, click: proposals.Click, git: proposals.GitFacts) -> Intent:
        made = make_intent(row, click, git)
        return made._replace(author=made.committer, message=row.message)
    return unsigned


ROWS: List[Row] = [
    Row(4, 1, 'propose-only', 'who proposes never decides, wherever it calls', 'owner.py: scripted_person',
        [Change(owner, 'scripted_person', always(lambda tx, request: 'person:mika'))], agent_decides),
    Row(4, 2, 'moved-branch', 'the branch must still be where the reviewer saw it', 'proposals.py: next_step',
        [Change(proposals, 'look', taken_for_unmoved), Change(git_repo.Repository, 'move', blind_move)],
        branch_moved_before_the_click),
    Row(4, 3, 'compare-and-swap-ref', 'the reference moves from the old value or not at all', 'git_repo.py: move',
        [Change(HERE, 'MODE', always('naive'))], push_during_the_approval),
    Row(4, 3, 'look-for-our-commit', 'git is asked first whether it has happened already', 'proposals.py: next_step',
        [Change(proposals, 'next_step', forgetful)], killed_after_git),
    Row(4, 4, 'body-hash', 'a key stands for one body', 'versioned.py: body_hash',
        [Change(versioned, 'body_hash', always(lambda tool, arguments: b''))], one_key_two_bodies),
    Row(4, 4, 'short-keys', 'a key has at least 8 characters', 'versioned.py: KEY_LENGTH',
        [Change(versioned, 'KEY_LENGTH', always((0, 128)))], no_key),
    Row(4, 5, 'provenance', 'the commit says who proposed, who approved, and what', 'proposals.py: make_intent',
        [Change(proposals, 'make_intent', by_the_server)], database_lost),
    Row(4, 6, 'stop-at-pull-request', 'nothing merges and nothing deploys', 'catalogue.py',
        reason='there is no code to take out: no tool and no route merges or deploys')]
