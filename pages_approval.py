"""pages_approval.py - Needs your approval: what an assistant proposes, with every line of it, and the two answers.

Article 4: the pinned values become text ("Reviewed commit: ..."), and what is approved is that version and that commit,
not whatever is current when the click arrives. Article 6, "Dov'è il confine": the repository or Room and the files are
shown before Approve or Decline. Characters that no eye sees are shown by their number (proposal_card.visible).

Not here: the decision (proposals.py, rooms.py), the card's text (proposal_card.py).
"""
import html
from typing import List, Tuple

import access
import owner
import owner_gitnest
import owner_project
import pages
import proposal_card
import proposal_intake
import rooms
import workspace as workspaces
from pages import View, card, field, form, link, listed, soft, tag, text, when
from pages_content import actor_name
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

STATUS = {'pending': 'note', 'executed': 'good', 'stale': 'bad', 'declined': '', 'expired': ''}
WORDS = {'pending': 'Waits for your answer.', 'executed': 'Approved and carried out.', 'declined': 'Declined.',
         'withdrawn': 'Taken back.', 'expired': 'Too old: it can no longer be decided.',
         'stale': 'Not carried out: what you reviewed is no longer current. Nothing was changed; the assistant can '
                  'look again and propose anew.'}
NOTHING = ('Nothing waits. When an assistant proposes a change to a repository or a Room, it appears here with every '
           'line.')
EXACTLY = 'You approve exactly what is shown above, on the version it names.'

# --- rules --------------------------------------------------------------------

def approval(view: View) -> Tuple[str, str]:
    if len(view.parts) > 1:
        return proposal(view, view.parts[1])
    found = owner.run(view.state, view.session.person, 'list_proposals', {})
    lines = [line(view, one['proposal_id'], first_line(one['message']), about(one)) for one in found['proposals']]
    lines += [line(view, one['proposal_id'], f'Install {one["app_name"]}', f'for the Room {text(one["room"])}')
              for one in found['rooms']]
    return 'Needs your approval', card('Waiting for you', listed(lines, NOTHING))


def about(one: dict) -> str:
    author = one['from'].split(' <')[0]                    # as git has it: 'Claude (Claude research) <conn-...>'
    return f'from {text(author)}, for {text(one["repository_id"])} branch {text(one["branch"])}'


def line(view: View, proposal_id: str, words: str, more: str) -> str:
    return f'<h3>{link(view, words, "approval", proposal_id)}</h3><span class="soft">{more}</span>'


def first_line(message: str) -> str:
    return proposal_card.visible(message.split('\n')[0])[:120] or '(no message)'


def proposal(view: View, proposal_id: str) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        if rooms.is_room_proposal(tx, proposal_id):
            return install(view, tx, proposal_id)
        row = proposal_intake.find(tx, proposal_id)
        access.require_role_of(tx, view.session.person, Ref('repository', row.repository), workspaces.EDITOR)
        status, by = proposal_intake.status_now(row, view.now_us), actor_name(tx, row.actor)
    words = owner.run(view.state, view.session.person, 'read_card', {'proposal_id': proposal_id})['card']
    origin = (f'<p class="soft">Proposed by {text(by)} for {link(view, row.repository, "repository", row.repository)}, '
              f'{when(row.created_us, view.now_us)}.</p>')
    return first_line(row.message), (outcome(status, row.reason) + origin +
                                     card('What you approve', f'<pre tabindex="0">{coloured(words)}</pre>') +
                                     answers(view, proposal_id, status))


def outcome(status: str, reason: str) -> str:
    why = f' Reason: {text(reason)}' if reason else ''
    return f'<p>{tag(status, STATUS.get(status, ""))} {html.escape(WORDS.get(status, ""))}{why}</p>'


def coloured(words: str) -> str:
    """Every line of the card; added and removed ones also by colour, never by colour alone."""
    shown: List[str] = []
    for one in words.split('\n'):
        mark = {'+': 'ins', '-': 'del'}.get(one[:1])
        shown.append(f'<{mark}>{html.escape(one)}</{mark}>' if mark else html.escape(one) + '\n')
    return ''.join(shown)


def install(view: View, tx: Tx, proposal_id: str) -> Tuple[str, str]:
    row = rooms.find(tx, proposal_id)
    access.require_role_of(tx, view.session.person, Ref('room', row.room), workspaces.EDITOR)
    shown, status = rooms.card(tx, row), rooms.status_now(row, view.now_us)
    files = ''.join(f'<h3>{text(proposal_card.visible(one["path"]))}</h3><pre tabindex="0">'
                    f'{html.escape(lines_shown(one["content"]))}</pre>' for one in shown['files'])
    replaces = ' It replaces the app that is there under this name.' if shown['replaces_an_app'] else ''
    by = text(actor_name(tx, shown['proposed_by']))
    origin = (f'<p>Room: {link(view, shown["room"], "room", shown["room_id"])}.{replaces} <span class="soft">Proposed '
              f'by {by}; expires {when(shown["expires_at"], view.now_us)}.</span></p>')
    return f'Install {shown["app_name"]}', (outcome(status, row.reason or '') + origin +
                                            card('What you approve', files) + answers(view, proposal_id, status))


def answers(view: View, proposal_id: str, status: str) -> str:
    if status != 'pending':
        return ''
    reason = field('Reason, for the assistant to read', 'reason', more='maxlength="1000"')
    return card('Your answer', soft(EXACTLY),
                form(view, 'decide', '', 'Approve', 'first', proposal_id=proposal_id, decision='approve'),
                form(view, 'decide', reason, 'Decline', proposal_id=proposal_id, decision='decline'))


def lines_shown(content: str) -> str:
    return '\n'.join(proposal_card.visible(line) for line in content.split('\n'))


def waiting_count(tx: Tx, person: str, now_us: int) -> int:
    """How many proposals this person could decide now: the number in the navigation."""
    return len(owner_gitnest.waiting(tx, person, now_us)) + len(owner_project.room_cards(tx, person, now_us))
