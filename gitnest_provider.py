"""gitnest_provider.py - a change set's one branch, pushed to a provider, and never another reference.

Article 4, "Perché non dare all'agente un token di push?": the publication pushes the change set's own branch alone,
with a lease on an absent reference: if the provider has a branch of that name, nothing is overwritten. The provider's
address may hold a secret: it reaches git in the environment, and neither it nor a word of the provider's is ever in an
answer.

Not here: when this is done (gitnest_proposals.py). GIT_ALLOW_PROTOCOL admits a repository on this machine only; a
provider on the network is a change of that one word.
"""
from typing import Optional, Tuple

import git_process
from git_objects import OID, GitError
from git_repo import Repository

# --- data ---------------------------------------------------------------------

PUSH_DEADLINE_S = 30.0
REMOTE = 'osfoundry-provider'            # no remote of the repository's own configuration


class ProviderError(Exception):
    """`code`: provider_refused, provider_branch_exists (nothing was pushed); provider_unreachable (nobody knows)."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


# --- I/O ----------------------------------------------------------------------

def branch_at(repo: Repository, url: str, branch: str) -> Optional[str]:
    """The commit the provider has on that branch; None when there is no such branch. Raises provider_unreachable."""
    status, output = ask(repo, url, 'ls-remote', REMOTE, 'refs/heads/' + branch)
    if status:
        raise ProviderError('provider_unreachable', 'the provider did not answer: try again')
    # It matches the ends of names: refs/tags/refs/heads/NAME, too.
    commits = {name: oid for oid, _, name in (line.partition('\t') for line in output.split('\n'))}
    found = commits.get('refs/heads/' + branch, '')
    return found if OID.fullmatch(found) else None


def push(repo: Repository, url: str, oid: str, branch: str) -> None:
    """The branch, made at the provider. Raises ProviderError."""
    name = 'refs/heads/' + branch
    _, output = ask(repo, url, 'push', '--porcelain', '--no-verify', '--no-follow-tags', '--recurse-submodules=no',
                    f'--force-with-lease={name}:', REMOTE, f'{oid}:{name}')
    flags = {line[:1] for line in output.split('\n') if '\t' in line}
    if flags == {'*'}:                                        # a new branch; '=' was there already, and git is content
        return
    if branch_at(repo, url, branch) is not None:
        raise ProviderError('provider_branch_exists', f'the provider has a branch {branch} already: nothing was pushed')
    if '!' in flags:                                          # the provider looked at it and said no
        raise ProviderError('provider_refused', 'the provider refused the branch: its owner can see why there')
    raise ProviderError('provider_unreachable', 'the push did not end: approve again, and it is looked up first')


def ask(repo: Repository, url: str, *arguments: str) -> Tuple[int, str]:
    """git with the provider as a remote. An orphan keeps the publication's lock. What it says on errors is dropped."""
    secret = {'GIT_CONFIG_COUNT': '1', 'GIT_CONFIG_KEY_0': f'remote.{REMOTE}.url', 'GIT_CONFIG_VALUE_0': url}
    fd = repo.publishing.fd
    try:
        status, output, _ = git_process.run(repo.path, arguments, environ=secret, fds=() if fd < 0 else (fd,),
                                            deadline_s=PUSH_DEADLINE_S)
        return status, output
    except GitError as error:
        raise ProviderError('provider_unreachable', 'the provider did not answer in time: try again') from error
