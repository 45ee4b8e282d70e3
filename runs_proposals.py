"""runs_proposals.py - article 4's transcript: an agent proposes, the owner decides, git moves once.

Article 4, "Cosa ha visto il Claude scriptato": fourteen lines and three of git log. A server as a process, the scripted
Claude over HTTP, the scripted owner's clicks, a real bare repository; the line about expiry comes from a second server
with a time-to-live of 0.3 s. Table: what the scripted Claude saw.

    python3 client.py scenario            3 s

Exit status 1 unless every line says what the article's says; ids are compared by which is which. Not here: the race and
the crash (runs_race.py, runs_kill.py), the decision (proposals.py).
"""
import json
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import access
import ending
import git_process
import git_repo
import host
import host_signin
import oauth
import published
import published_proposals
import runs_stage
import workspace
from git_objects import Intent, person
from runs_stage import Stage
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

PROJECT, REPOSITORY, APPROVER = 'A', 'site', 'repo-owner'
CONNECTION_NAME = 'conn-claude-research'
SEED = [('README.md', 'install: pip install site\n'), ('app.py', 'VERSION = 1\n')]
ID = re.compile('[0-9a-f]{40}')
Say = Callable[[str], None]


class Scene(NamedTuple):
    here: Stage
    path: str                             # of the bare repository
    claude: host.Host
    seed: str                             # its first commit

    def call(self, name: str, **arguments: Any) -> dict:
        """What the tool said, be it an answer or a refusal."""
        return host.tool_answer(self.claude.call(name, {**arguments}).result)

    def propose(self, path: str, content: str, key: str, message: str = 'Pin install version') -> dict:
        return self.call('propose_file_import', repository_id=REPOSITORY, branch='main', message=message,
                         files=[{'path': path, 'content': content}], idempotency_key=key)

    def decide(self, proposal: str, decision: str = 'approve', **more: Any) -> Tuple[int, dict]:
        return host.owner_click(self.here.base_url, self.here.owner_token, 'decide',
                                {'proposal_id': proposal, 'decision': decision, 'person': APPROVER, **more})

    def commits(self) -> int:
        return self.call('read_repo', repository_id=REPOSITORY)['commits']


# --- rules --------------------------------------------------------------------

def seed_state(tx: Tx) -> None:
    """A project with the repository, its owner, and a connection of the article's name that is in the project."""
    place = runs_stage.WORKSPACE
    workspace.add_person(tx, APPROVER, 'Repo owner')
    workspace.set_role(tx, APPROVER, Ref('workspace', place), 'owner')
    access.create_project(tx, PROJECT, place, 'Site')
    access.place(tx, Ref('repository', REPOSITORY), place, PROJECT, False, 'Site')
    connection = access.add_assistant(tx, place, runs_stage.OWNER, 'claude', CONNECTION_NAME, 1)
    access.attach(tx, connection, place, runs_stage.OWNER)
    access.add_to_project(tx, connection, PROJECT)
    # Consent was given once; the scripted client's sign-in comes back to this connection.
    tx.execute('INSERT INTO oauth_grants VALUES (?, ?, ?)', (oauth.DEMO_CLIENT, connection, runs_stage.OWNER))


def shortened(answer: dict) -> dict:
    """Ids as the article prints them: eight digits of a commit, the first part of a proposal."""
    shown = {}
    for name, value in answer.items():
        if name == 'proposal_id':
            value = value[:8] + '-…'
        elif isinstance(value, str) and ID.fullmatch(value):
            value = value[:8]
        shown[name] = value
    return shown


def counted(commits: int) -> str:
    return f'({commits} commit{"s" if commits != 1 else ""})'


def error_only(answer: dict) -> dict:
    """An error as the article prints it: without the sentence for people."""
    return {'error': answer['error']} if 'error' in answer else answer


def by_name(text: str, names: Dict[str, str]) -> str:
    """Ids replaced by what they are: the head after A is 'A' here and in the article."""
    for shown, name in names.items():
        text = text.replace(shown, name)
    return text


class Transcript:
    """The lines as they are printed, and as they are compared."""

    def __init__(self, say: Say) -> None:
        self.say, self.lines, self.names = say, [], {}           # type: Say, List[Tuple[str, str]], Dict[str, str]

    def name(self, shown: str, name: str) -> None:
        self.names[shown] = name

    def line(self, row: str, answer: str, printed: Optional[str] = None) -> None:
        self.say(f'{printed or row:<35}-> {answer}')
        self.lines.append((row, answer))

    def figures(self) -> Dict[Tuple[str, str], str]:
        return {(row, 'answer'): by_name(answer, self.names) for row, answer in self.lines}


def play(scene: Scene, script: Transcript) -> None:
    """Thirteen lines; the fourteenth needs a server of its own."""
    rows = [row for row, _ in published_proposals.STEPS]
    read = scene.call('read_repo', repository_id=REPOSITORY)
    script.name(read['head'][:8], 'SEED')
    script.line(rows[0], f'head {read["head"][:8]}  {counted(read["commits"])}')
    a = propose(scene, script, rows[1], 'PA', 'README.md', 'install: pip install site==1\n', 'readme-fix-0001')
    propose(scene, script, rows[2], 'PA', 'README.md', 'install: pip install site==1\n', 'readme-fix-0001')
    script.line(rows[3], scene.propose('README.md', 'another\n', 'readme-fix-0001')['error'])
    b = propose(scene, script, rows[4], 'PB', 'app.py', 'VERSION = 2\n', 'app-bump-0001', 'Bump app')
    script.line(rows[5], as_agent(scene, a))
    decided(scene, script, rows[6], a, 'A')
    stale = decided(scene, script, rows[7], b)
    b2 = propose(scene, script, rows[8], 'PB2', 'app.py', 'VERSION = 2\n', 'app-bump-0002', 'Bump app',
                 f'{rows[8]} {stale["branch_head"][:8]}')
    decided(scene, script, rows[9], b2, crash=True)
    decided(scene, script, rows[10], b2, 'B2')
    decided(scene, script, rows[11], a)
    declined = scene.propose('app.py', 'VERSION = 3\n', 'app-bump-0003')['proposal_id']
    scene.decide(declined, 'decline', reason='not now')
    script.line(rows[12], plain(scene, *scene.decide(declined)))


def propose(scene: Scene, script: Transcript, row: str, name: str, path: str, content: str, key: str,
            message: str = 'Pin install version', printed: Optional[str] = None) -> str:
    answer = scene.propose(path, content, key, message)
    shown = shortened(answer)
    script.name(shown['proposal_id'], name)
    script.line(row, json.dumps(shown, ensure_ascii=False), printed)
    return answer['proposal_id']


def decided(scene: Scene, script: Transcript, row: str, proposal: str, name: str = '', **more: Any) -> dict:
    status, answer = scene.decide(proposal, **more)
    if name and 'commit' in answer:
        script.name(answer['commit'][:8], name)
    shown = repr(error_only(answer)) if 'error' in answer else json.dumps(shortened(answer))
    script.line(row, f'HTTP {status} {shown}  {counted(scene.commits())}')
    return answer


def plain(scene: Scene, status: int, answer: dict) -> str:
    return f'HTTP {status} {answer!r}  {counted(scene.commits())}'


def as_agent(scene: Scene, proposal: str) -> str:
    """The agent tries the owner's route with its own token."""
    url = f'{scene.here.base_url}/owner/decide'
    headers = {'Content-Type': 'application/json', 'Authorization': f'Bearer {scene.claude.access_token}'}
    body = json.dumps({'proposal_id': proposal, 'decision': 'approve'}).encode()
    reply = host_signin.fetch('POST', url, headers, body)
    return f'HTTP {reply.status} {error_only(host_signin.json_object(reply, url))!r}'


def expired(scene: Scene, script: Transcript) -> None:
    proposal = scene.propose('app.py', 'VERSION = 9\n', 'late-bump-0001')['proposal_id']
    while scene.call('read_proposal', proposal_id=proposal)['status'] == 'pending':
        time.sleep(0.02)
    script.line(published_proposals.STEPS[13][0], plain(scene, *scene.decide(proposal)))


# --- I/O ----------------------------------------------------------------------

@contextmanager
def scene(*flags: str, plumbing: bool = False) -> Iterator[Scene]:
    """A bare repository with one commit, and a server that serves it."""
    with ending.undisturbed():
        folder = tempfile.mkdtemp(prefix='osfoundry-repo-')
        try:
            path = os.path.join(folder, REPOSITORY + '.git')
            first = make_repository(path)
            more = ('--git', 'plumbing') if plumbing else ()
            with runs_stage.stage(seed_state, ('--repo', path, *more, *flags)) as here:
                yield Scene(here, path, here.claude('osfoundry:read osfoundry:write'), first)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def make_repository(path: str) -> str:
    owner = person('owner', 'owner@person.invalid')
    repo = git_repo.create(path)
    try:
        return git_repo.commit(repo, 'main', None, Intent(None, SEED, owner, int(time.time()), owner, int(time.time()),
                                                          'seed'), 'seed')
    finally:
        repo.close()


def git(path: str, *arguments: str) -> str:
    """What somebody at the repository types."""
    status, output, errors = git_process.run(path, arguments)
    if status:
        raise RuntimeError(f'git {" ".join(arguments)}: {errors}')
    return output.strip()


def run(say: Say) -> List[dict]:
    script = Transcript(say)
    with scene('--inject-crash') as first:
        play(first, script)
        log = git(first.path, 'log', '--abbrev=6', '--format=%h %H %an | %cn | %s', 'main').split('\n')
    with scene('--ttl', '0.3') as second:
        expired(second, script)
    say('')
    figures = script.figures()
    for number, line in enumerate(log, 1):
        short, full, rest = line.split(' ', 2)
        say(f'{short} {rest}')
        figures[f'git log, line {number}', 'text'] = f'{by_name(full[:8], script.names)} {rest}'
    say('')
    return [published.compare(published_proposals.SCENARIO, figures)]


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('client.py scenario', __doc__)
    options = parser.parse_args(argv)
    tables = run(lambda line: print(line, file=sys.stderr if options.json else sys.stdout))
    return published.report('client.py scenario', tables, options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
