"""owner_gitnest.py - the owner's clicks on proposals: see the card, approve, decline; and on repositories.

Article 4: the owner decides on a route of its own, POST /owner/decide, which answers an agent's token with 403
agent_scope_denied (owner.py). What an approval re-reads besides git - the connection, its project, the present roles -
is asked in the decision's own transaction. One click for every kind of proposal.

Not here: the decision (proposals.py), the card's text (proposal_card.py), the page around it (pages_approval.py).
"""
from typing import Any, Callable, Dict, List

import access
import gitnest_card
import gitnest_proposals
import owner_gitnest_work
import owner_project
import proposal_card
import proposal_intake
import proposals
import repositories
import rooms
import schema
import workspace as workspaces
from git_objects import GitError
from owner_verbs import own_place
from tools import ID, State, arguments_of, text
from tools_gitnest import served
from versioned import Ref, Refusal, Tx, invalid

# --- data ---------------------------------------------------------------------

DECIDE = arguments_of(owner_project.DECISION,
                      {'reason': text(0, 1_000), 'second_look': {'type': 'boolean'}, 'crash': {'type': 'boolean'}})
NEW_REPOSITORY = arguments_of({'repository_id': ID}, {'project': {'type': ['string', 'null']}, 'workspace': ID})
INJECTED = 'injected: crash after git, before DB'

# --- rules --------------------------------------------------------------------

def decide(state: State, person: str, arguments: dict) -> dict:
    """What the article prints: {status, commit} or {status, refused: true, ...}. A repetition is a replay."""
    schema.check(DECIDE, arguments)
    if arguments.get('crash') and not state.config.inject_crash:
        raise invalid('crash', 'left out: this server was started without --demo --inject-crash')
    proposal = arguments['proposal_id']
    with state.db.read() as tx:
        of_a_room = rooms.is_room_proposal(tx, proposal)
        repository = None if of_a_room else proposal_intake.repository_of(tx, proposal)
        if repository:
            require_editor(tx, person, repository)
    if of_a_room:
        return owner_project.decide_room(state, person, arguments)

    def recheck(tx: Tx, row: Any) -> None:
        require_editor(tx, person, row.repository)
        access.still_allowed(tx, row.actor.partition(':')[2], row.tool, 'edit', Ref('repository', row.repository))
    click = gitnest_proposals.Click(
        f'person:{person}', arguments['decision'], state.now_us(), recheck, arguments.get('reason', ''),
        arguments.get('second_look', False), state.config.mode, crash if arguments.get('crash') else proposals.nothing)
    try:
        return gitnest_proposals.decide(state.db, served(state, repository), proposal, click)
    except GitError as error:
        raise Refusal(error.code, str(error)) from error


def require_editor(tx: Tx, person: str, repository: str) -> None:
    access.require_role_of(tx, person, Ref('repository', repository), workspaces.EDITOR)


def crash() -> None:
    """demo only: what a database that fails after the git step looks like."""
    raise Refusal(INJECTED, 'the commit is on the branch, and the database does not know it yet: approve again')


def list_proposals(state: State, person: str, arguments: dict) -> dict:
    """Needs your approval: what waits in every repository and Room that this person may decide on."""
    schema.check(arguments_of({}), arguments)
    with state.db.read() as tx:
        return {'proposals': waiting(tx, person, state.now_us()),
                'rooms': owner_project.room_cards(tx, person, state.now_us())}


def waiting(tx: Tx, person: str, now_us: int) -> List[dict]:
    found = []
    for (repository,) in tx.execute('SELECT repository FROM repositories ORDER BY repository').fetchall():
        if access.role_of(tx, person, Ref('repository', repository)) >= workspaces.EDITOR:
            found += [{'proposal_id': proposal, 'tool': tool, 'repository_id': repository, 'from': author}
                      for proposal, tool, author in gitnest_proposals.waiting(tx, repository, now_us)]
    return found


def read_card(state: State, person: str, arguments: dict) -> dict:
    """{card}: the whole proposal as text."""
    schema.check(arguments_of({'proposal_id': ID}), arguments)
    proposal = arguments['proposal_id']
    with state.db.read() as tx:
        repository, tool = proposal_intake.repository_of(tx, proposal), proposal_intake.tool_of(tx, proposal)
        require_editor(tx, person, repository)
        ours = tool in gitnest_proposals.INTAKES
        row = gitnest_proposals.find(tx, proposal) if ours else proposal_intake.find(tx, proposal)
        facts = gitnest_card.read_facts(tx, row) if ours else None
    repo = served(state, repository)
    try:
        return {'card': gitnest_card.card(repo, row, facts) if ours else proposal_card.card(repo, row)}
    except GitError as error:
        raise Refusal(error.code, str(error)) from error


def create_repository(state: State, person: str, arguments: dict) -> dict:
    """A new, empty bare repository under DATA/repos."""
    schema.check(NEW_REPOSITORY, arguments)
    name = arguments['repository_id']
    with state.db.read() as tx:
        workspace, project = own_place(tx, person, arguments)
        if access.is_placed(tx, Ref('repository', name)):
            raise repositories.taken(name)
    repositories.create(state, state.config.data, name, workspace)
    with state.db.write() as tx:
        access.move(tx, Ref('repository', name), project)
    return {'repository_id': name, 'project': project}


def set_gitnest(state: State, person: str, arguments: dict) -> dict:
    """Repository GitNest on or off: off refuses proposals and approvals, reading goes on."""
    schema.check(arguments_of({'repository_id': ID, 'on': {'type': 'boolean'}}), arguments)
    with state.db.write() as tx:
        require_editor(tx, person, arguments['repository_id'])
        proposal_intake.register(tx, arguments['repository_id'], arguments['on'])
    return {'repository_id': arguments['repository_id'], 'on': arguments['on']}


VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    **owner_gitnest_work.VERBS, 'decide': decide, 'list_proposals': list_proposals, 'read_card': read_card,
    'create_repository': create_repository, 'set_gitnest': set_gitnest,
}
