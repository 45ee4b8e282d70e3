"""owner_gitnest_work.py - the owner's side of the rest of GitNest: policy, check results, revisions.

Article 4, "Perché non dare all'agente un token di push?": the policy of risk and the required checks are the owner's,
and an approval reads them as they are then. A check's result is recorded here; nothing an agent wrote is executed.

Not here: approve and decline (owner_gitnest.py), what the rows mean (gitnest.py).
"""
from typing import Any, Callable, Dict

import access
import git_paths
import gitnest
import gitnest_proposals
import schema
import workspace as workspaces
from tools import ID, State, arguments_of, integer, text
from tools_gitnest_work import IMPORTS, OID, VERSION
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

NAMES = {'type': 'array', 'maxItems': 20, 'items': {'type': 'string', 'pattern': gitnest.NAME_PATTERN}}
PATHS = {'type': 'array', 'maxItems': 100, 'items': text(1, git_paths.PATH_CHARACTERS)}
POLICY = arguments_of({'repository_id': ID}, {
    'required_checks': NAMES, 'look_twice': PATHS, 'look_twice_over': integer(0, gitnest.UNLIMITED),
    'provider': text(0, 40), 'provider_url': text(0, 2_000)})
CHECK = arguments_of({'change_set_id': ID, 'composition_oid': OID,
                      'check': {'type': 'string', 'pattern': gitnest.NAME_PATTERN},
                      'status': {'type': 'string', 'enum': ['passed', 'failed']}}, {'detail': text(0, 2_000)})
REVISION = arguments_of({'change_set_id': ID, gitnest_proposals.VERSION: VERSION, 'imports': IMPORTS})

# --- rules --------------------------------------------------------------------

def changing(state: State, person: str, repository: str, work: Callable[[Tx], Any]) -> Any:
    with state.db.write() as tx:
        access.require_role_of(tx, person, Ref('repository', repository), workspaces.EDITOR)
        return work(tx)


def repository_of(state: State, change_set: str) -> str:
    with state.db.read() as tx:
        return gitnest.find(tx, change_set).repository


def set_policy(state: State, person: str, arguments: dict) -> dict:
    """What is left out stays. Only an owner of the repository names its provider."""
    schema.check(POLICY, arguments)
    repository = arguments['repository_id']

    def work(tx: Tx) -> dict:
        old = gitnest.policy(tx, repository)
        more = {name: tuple(value) if isinstance(value, list) else value
                for name, value in arguments.items() if name != 'repository_id'}
        new = old._replace(**more)
        if (new.provider, new.provider_url) != (old.provider, old.provider_url):
            access.require_role_of(tx, person, Ref('repository', repository), workspaces.OWNER)
        if bool(new.provider) != bool(new.provider_url):
            raise Refusal('invalid_argument', 'a provider has a name and an address', field='provider', limit='both')
        gitnest.set_policy(tx, repository, new)
        return {'repository_id': repository, 'provider': new.provider or None}
    return changing(state, person, repository, work)


def record_check(state: State, person: str, arguments: dict) -> dict:
    schema.check(CHECK, arguments)
    change_set, oid, name = arguments['change_set_id'], arguments['composition_oid'], arguments['check']

    def work(tx: Tx) -> dict:
        gitnest.record_check(tx, change_set, oid, name, arguments['status'], arguments.get('detail', ''),
                             state.now_us())
        return {'check': name, 'status': arguments['status']}
    return changing(state, person, repository_of(state, change_set), work)


def revise_change_set(state: State, person: str, arguments: dict) -> dict:
    """Other imports than those of the version that the person has seen: a new version."""
    schema.check(REVISION, arguments)
    change_set = arguments['change_set_id']
    return changing(state, person, repository_of(state, change_set), lambda tx: {
        'change_set_id': change_set,
        'version': gitnest.revise(tx, change_set, arguments['imports'], arguments[gitnest_proposals.VERSION])})


VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    'set_policy': set_policy, 'record_check': record_check, 'revise_change_set': revise_change_set,
}
