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
WORDS = {'executed': 'Approved and carried out.', 'installed': 'Approved and installed.', 'declined': 'Declined.',
         'stale': 'Not carried out: what you reviewed is no longer current. Nothing was changed; the assistant can look again '
                  'and propose anew.', 'expired': 'Too old: it can no longer be decided.', 'withdrawn': 'Taken back.'}

# --- rules --------------------------------------------------------------------

def approval(view: View) -> Tuple[str, str]:
    if len(view.parts) > 1:
        return proposal(view, view.parts[1])
    found = owner.run(view.state, view.session.person, 'list_proposals', {})
    lines = [f'<h3>{link(view, first_line(one["message"]), "approval", one["proposal_id"])}</h3><span class="soft">from '
             f'{text(one["from"])}, for {text(one["repository_id"])} branch {text(one["branch"])}</span>'
             for one in found['proposals']]
    lines += [f'<h3>{link(view, "Install " + one["app_name"], "approval", one["proposal_id"])}</h3><span class="soft">for the '
              f'Room {text(one["room"])}</span>' for one in found['rooms']]
    return 'Needs your approval', card('Waiting for you', listed(lines, 'Nothing waits. When an assistant proposes a change to '
                                                                 'a repository or a Room, it appears here with every line.'))


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
    body = (f'<p>{tag(status, STATUS.get(status, ""))} {html.escape(WORDS.get(status, ""))}</p><p class="soft">Proposed by {text(by)} '
            f'for {link(view, row.repository, "repository", row.repository)}, {when(row.created_us, view.now_us)}.</p>')
    return first_line(row.message), body + card('What you approve', f'<pre tabindex="0">{coloured(words)}</pre>') + \
        (answers(view, proposal_id) if status == 'pending' else '')


def coloured(words: str) -> str:
    """Every line of the card; added and removed ones also by colour, never by colour alone."""
    shown: List[str] = []
    for line in words.split('\n'):
        mark = {'+': 'ins', '-': 'del'}.get(line[:1])
        shown.append(f'<{mark}>{html.escape(line)}</{mark}>' if mark else html.escape(line) + '\n')
    return ''.join(shown)


def install(view: View, tx: Tx, proposal_id: str) -> Tuple[str, str]:
    row = rooms.find(tx, proposal_id)
    access.require_role_of(tx, view.session.person, Ref('room', row.room), workspaces.EDITOR)
    shown, status = rooms.card(tx, row), rooms.status_now(row, view.now_us)
    files = ''.join(f'<h3>{text(proposal_card.visible(one["path"]))}</h3><pre tabindex="0">'
                    f'{html.escape(lines_shown(one["content"]))}</pre>' for one in shown['files'])
    replaces = ' It replaces the app that is there under this name.' if shown['replaces_an_app'] else ''
    body = (f'<p>{tag(status, STATUS.get(status, ""))} {html.escape(WORDS.get(status, ""))}</p><p>Room: '
            f'{link(view, shown["room"], "room", shown["room_id"])}.{replaces} <span class="soft">Proposed by '
            f'{text(actor_name(tx, shown["proposed_by"]))}; expires {when(shown["expires_at"], view.now_us)}.</span></p>')
    return f'Install {shown["app_name"]}', body + card('What you approve', files) + \
        (answers(view, proposal_id) if status == 'pending' else '')


def answers(view: View, proposal_id: str) -> str:
    yes = form(view, 'decide', soft('You approve exactly what is shown above, on the version it names.'), 'Approve', 'first',
               proposal_id=proposal_id, decision='approve')
    no = form(view, 'decide', field('Reason, for the assistant to read', 'reason', more='maxlength="1000"'), 'Decline',
              proposal_id=proposal_id, decision='decline')
    return card('Your answer', yes, '<hr>', no)


def lines_shown(content: str) -> str:
    return '\n'.join(proposal_card.visible(line) for line in content.split('\n'))


def waiting_count(tx: Tx, person: str, now_us: int) -> int:
    """How many proposals this person could decide now: the number in the navigation."""
    return len(owner_gitnest.waiting(tx, person, now_us)) + len(owner_project.room_cards(tx, person, now_us))
