"""pages_approval.py - Needs your approval: what an assistant proposes, with every line of it, and the two answers.

Article 4: the pinned values become text ("Reviewed commit: ..."), and what is approved is that version and that commit,
not whatever is current when the click arrives. Article 6, "Dov'è il confine": the repository or Room and the files are
shown before Approve or Decline. Characters that no eye sees are shown by their number (proposal_card.visible).

Not here: the decision (proposals.py, rooms.py), the card's text (proposal_card.py).
"""
import html
from typing import NamedTuple, Optional, Tuple

import access
import owner
import owner_gitnest
import owner_project
import proposal_card
import rooms
import workspace as workspaces
from pages import (View, a_page, card, checkbox, coloured, field, form, link, listed, more, soft, tag, text, typed,
                   when)
from pages_content import actor_name
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

STATUS = {'pending': 'note', 'executed': 'good', 'stale': 'bad', 'declined': '', 'expired': ''}
WORDS = {'pending': 'Waits for your answer.', 'executed': 'Approved and carried out.', 'declined': 'Declined.',
         'withdrawn': 'Taken back.', 'expired': 'Too old: it can no longer be decided.',
         'stale': 'Not carried out: what you reviewed is no longer current. Nothing was changed; the assistant can '
                  'look again and propose anew.'}
NOTHING = ('Nothing waits. When an assistant proposes a change to a repository or a Room, it appears here with every '
           'line.')
CARD = ('What was proposed', 'What you approve')
EXACTLY = 'You approve exactly what is shown above, on the version it names.'

TITLES = {'propose_gitnest_work': 'A work item', 'propose_gitnest_change_set': 'A change set',
          'propose_gitnest_server_composition': 'A composed commit', 'propose_gitnest_check_rerun': 'A check again',
          'propose_gitnest_native_publication': 'A pull request',
          'propose_gitnest_provider_publication': 'A branch pushed, and a pull request'}
TITLE_SHOWN = 120                         # characters of a message's first line
LOOK_TWICE = 'Look twice: '               # what a card says of paths that the owner's policy marks


class Shown(NamedTuple):
    title: str
    actor: str
    repository: str
    status: str
    reason: str
    created_us: int
    expires_us: int
    approver: str                         # who answered, and when; '' and 0 before
    decided_us: int
    decided: bool                         # a commit was decided; whether git has it, the repository knows

# --- rules --------------------------------------------------------------------

def approval(view: View) -> Tuple[str, str]:
    if len(view.parts) > 1:
        return proposal(view, view.parts[1])
    found = owner.run(view.state, view.session.person, 'list_proposals', {})
    shown, rest = a_page(view, found['proposals'] + found['rooms'], lambda one: one['proposal_id'])
    with view.state.db.read() as tx:
        lines = [line(tx, view, one) for one in shown]
    return 'Needs your approval', card('Waiting for you', listed(lines, NOTHING), more(rest))


def line(tx: Tx, view: View, one: dict) -> str:
    if 'app_name' in one:
        title, about = f'Install {one["app_name"]}', f'for the Room {text(one["room"])}'
    else:
        author = one['from'].split(' <')[0]                # as git has it: 'Claude (Claude research) <conn-...>'
        shown = find(tx, one['proposal_id'])
        title, about = shown.title, f'from {text(author)}, for {text(one["repository_id"])}'
        about += f', {when(shown.created_us, view.now_us)}'
    return f'<h3>{link(view, title, "approval", one["proposal_id"])}</h3><span class="soft">{about}</span>'


def find(tx: Tx, proposal_id: str) -> Shown:
    """Of every kind of proposal for a repository what its page shows around the card."""
    row = tx.execute('SELECT p.tool, p.actor, p.repository, p.status, p.reason, p.created_us, p.expires_us, '
                     "COALESCE(p.approver, ''), COALESCE(p.decided_us, 0), f.message, "
                     'i.commit_oid FROM proposals p LEFT JOIN file_imports f ON f.proposal = p.proposal '
                     'LEFT JOIN intents i ON i.proposal = p.proposal WHERE p.proposal = ?', (proposal_id,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no proposal {proposal_id!r}')
    tool, *known, message, commit = row
    title = proposal_card.visible((message or '').split('\n')[0])[:TITLE_SHOWN] or TITLES.get(tool, tool)
    return Shown(title, *known, commit is not None)


def proposal(view: View, proposal_id: str) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        if rooms.is_room_proposal(tx, proposal_id):
            return install(view, tx, proposal_id)
        shown = find(tx, proposal_id)
        access.require_role_of(tx, view.session.person, Ref('repository', shown.repository), workspaces.EDITOR)
        by, answered_by = actor_name(tx, shown.actor), shown.approver and actor_name(tx, shown.approver)
    words = owner.run(view.state, view.session.person, 'read_card', {'proposal_id': proposal_id})['card']
    # With a decision under way it is not too old: git may have done it already.
    late = shown.status == 'pending' and not shown.decided and view.now_us >= shown.expires_us
    status = 'expired' if late else shown.status
    where = link(view, shown.repository, 'repository', shown.repository)
    origin = f'<p class="soft">Proposed by {text(by)} for {where}, {when(shown.created_us, view.now_us)}.</p>'
    return shown.title, (outcome(view, status, shown.reason, answered_by, shown.decided_us) + origin +
                         card(CARD[status == 'pending'], coloured(words.rstrip('\n').split('\n'))) +
                         answers(view, proposal_id, status, LOOK_TWICE in words))


def outcome(view: View, status: str, reason: str, by: Optional[str], decided_us: Optional[int]) -> str:
    why = f' Reason: {text(reason)}' if reason else ''
    who = f' <span class="soft">{text(by)}, {when(decided_us, view.now_us)}.</span>' if by else ''
    return f'<p>{tag(status, STATUS.get(status, ""))} {html.escape(WORDS.get(status, ""))}{who}{why}</p>'


def install(view: View, tx: Tx, proposal_id: str) -> Tuple[str, str]:
    row = rooms.find(tx, proposal_id)
    access.require_role_of(tx, view.session.person, Ref('room', row.room), workspaces.EDITOR)
    shown, status = rooms.card(tx, row), rooms.status_now(row, view.now_us)
    files = ''.join(f'<h3>{text(proposal_card.visible(one["path"]))}</h3><pre tabindex="0">'
                    f'{html.escape(lines_shown(one["content"]))}</pre>' for one in shown['files'])
    replaces = ' It replaces the app that is there under this name.' if shown['replaces_an_app'] else ''
    by, answered_by = text(actor_name(tx, shown['proposed_by'])), row.approver and actor_name(tx, row.approver)
    origin = (f'<p>Room: {link(view, shown["room"], "room", shown["room_id"])}.{replaces} <span class="soft">Proposed '
              f'by {by}; expires {when(shown["expires_at"], view.now_us)}.</span></p>')
    head = outcome(view, status, row.reason or '', answered_by, row.decided_us) + origin
    return f'Install {shown["app_name"]}', (head + card(CARD[status == 'pending'], files) +
                                            answers(view, proposal_id, status, False))


def answers(view: View, proposal_id: str, status: str, look_twice: bool) -> str:
    if status != 'pending':
        return ''
    second = checkbox('I have looked twice at what is marked above', 'second_look', more=' required') if look_twice \
        else ''
    reason = field('Reason, for the assistant to read', 'reason', typed(view, 'decide', 'reason'),
                   more='maxlength="1000"')
    return card('Your answer', soft(EXACTLY),
                form(view, 'decide', second, 'Approve', 'first', proposal_id=proposal_id, decision='approve'),
                form(view, 'decide', reason, 'Decline', proposal_id=proposal_id, decision='decline'))


def lines_shown(content: str) -> str:
    return '\n'.join(proposal_card.visible(line) for line in content.split('\n'))


def waiting_count(tx: Tx, person: str, now_us: int) -> int:
    """How many proposals this person could decide now: the number in the navigation."""
    return len(owner_gitnest.waiting(tx, person, now_us)) + owner_project.waiting_in_rooms(tx, person, now_us)
