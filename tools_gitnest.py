"""tools_gitnest.py - the tools of article 4 whose proposal is a set of files. None of them writes to git.

Article 4, "La ricostruzione" (read_repo, propose_file_import, read_proposal: names of the reconstruction) and the live
propose_gitnest_file_import, whose schema opens the article and pins no base: the server takes the head.

Not here: the rest of GitNest (tools_gitnest_work.py), intake and its limits (proposal_intake.py), the owner's side
(owner_gitnest.py).
"""
from typing import Any, List, Optional

import access
import git_paths
import gitnest_proposals
import proposal_intake
from git_objects import GitError, person
from git_repo import Repository
from tools import ID, KEY, READ, WRITE, Answer, Call, State, Tool, arguments_of, text
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

BRANCH = text(1, git_paths.BRANCH_CHARACTERS)
FILES = {'type': 'array', 'minItems': 1, 'maxItems': proposal_intake.MOST_FILES, 'items': arguments_of({
    'path': text(1, git_paths.PATH_CHARACTERS), 'content': text(0, proposal_intake.MOST_CONTENT)})}
IMPORT = {'repository_id': ID, 'branch': BRANCH, 'message': text(1, proposal_intake.MOST_MESSAGE), 'files': FILES,
          'idempotency_key': KEY}
BASE = {'type': 'string', 'pattern': '^([0-9a-f]{40}|[0-9a-f]{64})$',
        'description': 'The commit that was read. Left out: the head of the branch now.'}
ASSISTANTS = {'claude': 'Claude', 'chatgpt': 'ChatGPT', 'other': 'Assistant'}

# --- rules --------------------------------------------------------------------

def repository_of(tx: Tx, arguments: dict) -> Optional[Ref]:
    return Ref('repository', arguments['repository_id'])


def repository_of_proposal(tx: Tx, arguments: dict) -> Optional[Ref]:
    return Ref('repository', proposal_intake.repository_of(tx, arguments['proposal_id']))


def served(state: State, name: str) -> Repository:
    if name not in state.repositories:
        raise Refusal('not_found', f'the repository {name!r} is not served here')
    return state.repositories[name]


def author(call: Call) -> str:
    """Who git says it was: the assistant under the owner's name for it; the address names the connection itself."""
    row = access.connection_row(call.tx, call.grant.connection)
    return person(f'{ASSISTANTS[row["assistant"]]} ({row["display_name"]})', f'{row["connection"]}@connection.invalid')


def read_repo(call: Call) -> Answer:
    """{branch, head, commits}, read from git after the check's transaction has ended."""
    repo, branch = served(call.state, call.arguments['repository_id']), call.arguments.get('branch', 'main')
    proposal_intake.require_branch(branch)

    def read() -> dict:
        try:
            head = repo.head(branch)
            return {'branch': branch, 'head': head, 'commits': repo.count(head) if head else 0}
        except GitError as error:
            raise Refusal(error.code, str(error)) from error
    return read


def propose(call: Call, tool: str) -> Answer:
    arguments, state = call.arguments, call.state
    return proposal_intake.propose_file_import(call.tx, call.actor, arguments, call.now_us,
                                               served(state, arguments['repository_id']), author(call),
                                               int(state.config.ttl * 1_000_000), tool)


def propose_file_import(call: Call) -> Answer:
    return propose(call, 'propose_file_import')


def propose_gitnest_file_import(call: Call) -> Answer:
    return propose(call, 'propose_gitnest_file_import')


def read_proposal(call: Call) -> Answer:
    return store_of(call).read_proposal(call.tx, call.actor, call.arguments, call.now_us)


def withdraw(call: Call) -> Answer:
    return store_of(call).withdraw(call.tx, call.actor, call.arguments, call.now_us)


def store_of(call: Call) -> Any:
    """Each kind of proposal is read and taken back where it was stored."""
    tool = proposal_intake.tool_of(call.tx, call.arguments['proposal_id'])
    return gitnest_proposals if tool in gitnest_proposals.INTAKES else proposal_intake


PROPOSE = ('Prepare files for one branch of a repository: whole new contents, at most '
           f'{proposal_intake.MOST_FILES} UTF-8 files and {proposal_intake.MOST_BYTES // 1000} KB together. Nothing is '
           'committed: the owner reviews every file and decides. ')

TOOLS: List[Tool] = [
    Tool('read_repo', 'Where a branch of a repository stands: its head commit and how many commits it has.',
         arguments_of({'repository_id': ID}, {'branch': BRANCH}),
         READ, 'view', True, False, False, repository_of, read_repo),
    Tool('propose_file_import',
         PROPOSE + 'Send the commit you read as expected_base_oid. Answered stale: read again, then propose again with '
         'a new key. Repeat a lost call with the same key.',
         arguments_of(IMPORT, {'expected_base_oid': BASE}),
         WRITE, 'edit', False, True, False, repository_of, propose_file_import),
    Tool('propose_gitnest_file_import',
         PROPOSE + 'Repository GitNest must be enabled. The owner compares with the head of the branch at this moment.',
         arguments_of(IMPORT),
         WRITE, 'edit', False, True, False, repository_of, propose_gitnest_file_import),
    Tool('read_proposal', 'What became of a proposal of yours: pending, executed with its commit, stale, declined with '
         'the owner\'s reason, expired or withdrawn.',
         arguments_of({'proposal_id': ID}),
         READ, 'view', True, False, False, repository_of_proposal, read_proposal),
    Tool('withdraw_proposal', 'Take back a proposal of yours that nobody has decided yet.',
         arguments_of({'proposal_id': ID, 'idempotency_key': KEY}),
         WRITE, 'edit', False, False, False, repository_of_proposal, withdraw),
]
