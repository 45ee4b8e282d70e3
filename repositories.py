"""repositories.py - which bare repositories a server works on: DATA/repos/, and the one of --repo.

Article 4 runs on a real bare repository beside ordinary pushes. Opening somebody's repository changes it (a folder of
ours, hidden references, packs), so a person is asked once and told what. At start, decisions that a kill cut short are
brought to their end.

Not here: what is written (git_repo.py), proposals and their recovery (proposals.py), who may see which (access.py).
"""
import os
import re
import shutil
import sys
import tempfile
from typing import Callable

import access
import git_plumbing
import git_repo
import gitnest_proposals
import proposal_intake
import proposals
from git_objects import GitError
from tools import State
from versioned import Ref, Refusal, invalid

# --- data ---------------------------------------------------------------------

NAME = re.compile('[A-Za-z0-9][A-Za-z0-9._-]{0,99}')
FOLDER = 'repos'
UNNAMED = 'new-'                          # a repository being made; what a kill leaves of one is never served
WHAT_IT_DOES = """{path}
is about to be served. This adds a folder "osfoundry" to it, sets receive.hideRefs=refs/proposals so that no push can
forge a decision, and from then on writes packs, refs/proposals/*, and approved commits; git gc --auto runs on it.
Go on? [y/N] """

# --- I/O ----------------------------------------------------------------------

def serve(state: State, folder: str, repo: str, workspace: str, agreed: Callable[[str], bool]) -> None:
    """Open every repository of DATA/repos and the one of --repo into state.repositories. Raises Refusal."""
    found = [os.path.join(folder, FOLDER, name) for name in sorted(listed(os.path.join(folder, FOLDER)))]
    if repo and os.path.realpath(repo) not in map(os.path.realpath, found):
        found.append(os.path.abspath(repo))
    for path in found:
        if not os.path.isdir(os.path.join(path, 'objects')):
            raise Refusal('repository_unusable', f'{path} is no bare git repository')
        if not git_repo.adopted(path) and not agreed(path):
            raise Refusal('not_agreed', f'{path}: start the server once in a terminal and say yes to what it changes')
        open_one(state, path, workspace)


def listed(folder: str) -> list:
    return [name for name in os.listdir(folder) if name.endswith('.git')] if os.path.isdir(folder) else []


def open_one(state: State, path: str, workspace: str) -> str:
    """Open one and make it known. Where it lies already stays; a new one lies in the workspace, in no project."""
    name = repository_id(path)
    if name in state.repositories:
        raise Refusal('repository_unusable', f'{path}: {state.repositories[name].path} is served as {name!r} already')
    try:
        # The naive mode is the article's, and so are its processes.
        plumbing = state.config.git == 'plumbing' or state.config.mode == 'naive'
        state.repositories[name] = git_plumbing.Plumbing(path) if plumbing else git_repo.Repository(path)
        with state.db.write() as tx:
            if not tx.execute('SELECT 1 FROM repositories WHERE repository = ?', (name,)).fetchone():
                proposal_intake.register(tx, name)
            if not access.is_placed(tx, Ref('repository', name)):
                access.place(tx, Ref('repository', name), workspace, None, False, name)
        proposals.recover(state.db, state.repositories[name], name, state.now_us(), gitnest_proposals.afterwards)
    except GitError as error:
        raise Refusal('repository_unusable', str(error)) from error
    return name


def create(state: State, folder: str, name: str, workspace: str) -> None:
    """A new, empty one under DATA/repos."""
    if not NAME.fullmatch(name) or name.endswith(('.git', '.lock')) or '..' in name:
        raise invalid('repository_id', 'letters, digits, dot, dash and underscore, and not end in .git')
    path = os.path.join(folder, FOLDER, name + '.git')
    if name in state.repositories or os.path.exists(path):
        raise taken(name)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    unnamed = tempfile.mkdtemp(prefix=UNNAMED, dir=os.path.dirname(path))
    try:
        git_repo.create(unnamed).close()
        os.rename(unnamed, path)          # whole or not at all, and of two clicks at one instant one gets the name
    except (GitError, OSError) as error:
        shutil.rmtree(unnamed, ignore_errors=True)
        if os.path.exists(path):
            raise taken(name) from error
        raise Refusal('repository_unusable', str(error)) from error
    open_one(state, path, workspace)


def taken(name: str) -> Refusal:
    return Refusal('already_exists', f'there is a repository {name!r} already: choose another id')


def repository_id(path: str) -> str:
    """'/srv/site.git' -> 'site'."""
    name = os.path.basename(path.rstrip('/'))
    name = name[:-4] if name.endswith('.git') else name
    if not NAME.fullmatch(name):
        raise Refusal('repository_unusable', f'{path}: its name must be letters, digits, dot, dash and underscore')
    return name


def ask(path: str) -> bool:
    """A person at a terminal agrees; nobody else can."""
    if sys.stdin is None or not sys.stdin.isatty():       # None: it was closed before we began
        return False
    print(WHAT_IT_DOES.format(path=path), end='', file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ('y', 'yes')
