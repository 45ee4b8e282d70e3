"""tools_gitnest_work.py - the rest of GitNest's tools: six readers, and six that propose.

Article 4, "Cosa fissano i sette tool di proposta?": the required fields of each propose tool are its pins, and the two
publications alone are open-world, because they make something outside the archive of proposals. Readers answer from the
repository as it is now, bounded.

Not here: file imports (tools_gitnest.py), what a click compares (gitnest_proposals.py), the store (gitnest.py).
"""
from typing import List

import git_paths
import gitnest
import gitnest_proposals
import proposal_intake
from git_objects import GitError
from git_repo import Repository
from tools import ID, KEY, READ, WRITE, Answer, Call, Tool, arguments_of, integer, text
from tools_gitnest import BRANCH, FILES, author, repository_of, served
from versioned import Refusal, invalid

# --- data ---------------------------------------------------------------------

IMPORTS = {'type': 'array', 'minItems': 1, 'maxItems': gitnest.MOST_IMPORTS, 'items': arguments_of({
    'message': text(1, proposal_intake.MOST_MESSAGE), 'files': FILES})}
OID = {'type': 'string', 'pattern': '^([0-9a-f]{40}|[0-9a-f]{64})$'}
VERSION = integer(1, 2 ** 53)
IN_REPOSITORY, CHANGE_SET = {'repository_id': ID}, {'repository_id': ID, 'change_set_id': ID}
PINNED_VERSION = {**CHANGE_SET, gitnest_proposals.VERSION: VERSION}
PINNED_COMMIT = {**PINNED_VERSION, gitnest_proposals.OID: OID}
FOUND_LINES, LINE_CHARACTERS, LISTED_PATHS = 50, 300, 200
FILE_BYTES = 200_000                     # of one file in an answer
SEARCH_DEADLINE_S = 5.0

# --- rules --------------------------------------------------------------------

def proposing(tool: str):
    """The run of a propose tool."""
    def run(call: Call) -> Answer:
        repo = served(call.state, call.arguments['repository_id'])
        return gitnest_proposals.propose(call.tx, call.actor, call.arguments, call.now_us, tool, repo, author(call),
                                         int(call.state.config.ttl * 1_000_000))
    return run


def head_of(repo: Repository, branch: str) -> str:
    proposal_intake.require_branch(branch)
    head = repo.head(branch)
    if head is None:
        raise Refusal('not_found', f'there is no branch {branch!r}')
    return head


def read_repository(call: Call) -> Answer:
    """{branch, head, commits, paths, has_more}, or with a path that file's content as it is at the head."""
    arguments, repo = call.arguments, served(call.state, call.arguments['repository_id'])
    branch = arguments.get('branch', 'main')

    def read() -> dict:
        try:
            head = head_of(repo, branch)
            found = {'branch': branch, 'head': head, 'commits': repo.count(head)}
            if 'path' in arguments:
                return {**found, 'path': arguments['path'], 'content': file_at(repo, head, arguments['path'])}
            paths = repo.paths(head, LISTED_PATHS + 1)
            return {**found, 'paths': paths[:LISTED_PATHS], 'has_more': len(paths) > LISTED_PATHS}
        except GitError as error:
            raise Refusal(error.code, str(error), **error.data) from error
    return read


def file_at(repo: Repository, head: str, path: str) -> str:
    fault = git_paths.path_fault(path)
    if fault:
        raise invalid('path', 'another one: ' + fault)
    entry = repo.entry(head, path)
    if entry is None:
        raise Refusal('not_found', f'there is no file {path!r} on that branch')
    data = repo.object(entry[1], 'blob', FILE_BYTES)
    if data is None:
        raise Refusal('not_a_file', f'{path!r} is no file')
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError:
        raise Refusal('not_text', f'{path!r} is no UTF-8 text') from None


def search_code(call: Call) -> Answer:
    """{head, lines: [{path, line, text}], has_more}: the words as they stand in files at the branch's head."""
    arguments, repo = call.arguments, served(call.state, call.arguments['repository_id'])
    if '\n' in arguments['query']:                       # git grep would take the lines for two searches
        raise invalid('query', 'one line')

    def search() -> dict:
        try:
            head = head_of(repo, arguments.get('branch', 'main'))
            found = repo.grep(head, arguments['query'], FOUND_LINES + 1, SEARCH_DEADLINE_S)
        except GitError as error:
            raise Refusal(error.code, str(error), **error.data) from error
        lines = [{'path': path, 'line': number, 'text': line[:LINE_CHARACTERS]} for path, number, line in found]
        return {'head': head, 'lines': lines[:FOUND_LINES], 'has_more': len(lines) > FOUND_LINES}
    return search


def list_work(call: Call) -> Answer:
    return gitnest.list_work(call.tx, call.arguments['repository_id'])


def read_work(call: Call) -> Answer:
    """A work item with its change sets, or one change set."""
    arguments = call.arguments
    if ('work_id' in arguments) == ('change_set_id' in arguments):
        raise invalid('work_id', 'given, or change_set_id, and not both')
    if 'work_id' in arguments:
        return gitnest.read_work(call.tx, arguments['repository_id'], arguments['work_id'])
    row = gitnest.find_in(call.tx, arguments['repository_id'], arguments['change_set_id'])
    return gitnest.describe(call.tx, row)


def saved_results(call: Call) -> Answer:
    return gitnest.saved_results(call.tx, call.arguments['repository_id'], call.arguments.get('change_set_id'))


def list_checks(call: Call) -> Answer:
    """{composition_oid, checks}: of the change set's composition now, or of the one named."""
    row = gitnest.find_in(call.tx, call.arguments['repository_id'], call.arguments['change_set_id'])
    oid = call.arguments.get('composition_oid', row.composition_oid)
    return {'change_set_version': row.version, 'composition_oid': oid,
            'required': list(gitnest.policy(call.tx, row.repository).required_checks),
            'checks': gitnest.checks_of(call.tx, row.change_set, oid) if oid else []}


def reader(name: str, description: str, schema: dict, run) -> Tool:
    return Tool(name, description, schema, READ, 'view', True, False, False, repository_of, run)


def proposer(name: str, description: str, required: dict, optional: dict, destructive: bool, open_world: bool) -> Tool:
    schema = arguments_of({**required, 'idempotency_key': KEY}, optional)
    return Tool(name, description + ' Nothing happens until the owner approves.', schema, WRITE, 'edit', False,
                destructive, open_world, repository_of, proposing(name))


TOOLS: List[Tool] = [
    reader('read_gitnest_repository', 'A branch of a repository: its head and its paths; with path, that file.',
           arguments_of(IN_REPOSITORY, {'branch': BRANCH, 'path': text(1, git_paths.PATH_CHARACTERS)}),
           read_repository),
    reader('search_gitnest_code', 'Lines of the files at a branch that hold this text, exactly as written.',
           arguments_of({**IN_REPOSITORY, 'query': text(2, 200)}, {'branch': BRANCH}), search_code),
    reader('list_gitnest_work', 'The work items and change sets of a repository, the newest first.',
           arguments_of(IN_REPOSITORY), list_work),
    reader('read_gitnest_work', 'A work item with its change sets, or one change set: its version and its composed '
           'commit are what later proposals must name.',
           arguments_of(IN_REPOSITORY, {'work_id': ID, 'change_set_id': ID}), read_work),
    reader('list_gitnest_saved_results', 'What became of compositions, checks and publications, the newest first.',
           arguments_of(IN_REPOSITORY, {'change_set_id': ID}), saved_results),
    reader('list_gitnest_checks', 'The checks of a composed commit and how they stand.',
           arguments_of(CHANGE_SET, {'composition_oid': OID}), list_checks),
    proposer('propose_gitnest_work', 'Propose a work item.',
             {**IN_REPOSITORY, 'title': text(*gitnest.TITLE)}, {'description': text(*gitnest.DESCRIPTION)},
             False, False),
    proposer('propose_gitnest_change_set', 'Propose a change set: imports of files, in order, towards a branch.',
             {**IN_REPOSITORY, 'title': text(*gitnest.TITLE), 'target_branch': BRANCH, 'imports': IMPORTS},
             {'work_id': ID}, False, False),
    proposer('propose_gitnest_server_composition', 'Propose that the server composes a change set, in the version you '
             'read, into one commit on its own branch.', PINNED_VERSION, {}, True, False),
    proposer('propose_gitnest_check_rerun', 'Propose that a check of the commit you read runs again.',
             {**PINNED_COMMIT, 'check': text(1, 100)}, {}, False, False),
    proposer('propose_gitnest_native_publication', 'Propose a pull request for exactly the version and commit you '
             'read.', PINNED_COMMIT, {}, True, True),
    proposer('propose_gitnest_provider_publication', 'Propose to push the change set\'s branch to the provider, at '
             'exactly the version and commit you read, and to open a pull request there.', PINNED_COMMIT, {},
             True, True),
]
