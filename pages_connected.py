"""pages_connected.py - Connected agents: set an assistant up, say what it may reach, watch it, revoke it.

Article 6, steps 1 and 4 and "Dov'è il confine": Connect in three steps, the server address, Projects, Message
channels, Tools ("All supported tools are on by default."), Recent activity, Revoke connection, and the switch that
shares the desktop's sessions. Each button is one click of owner_verbs.py and its sisters.

Not here: the frame and the forms (pages.py), their routes (pages_owner.py).
"""
import html
from typing import Collection, Dict, List, Set, Tuple

import access
import channel_store
import mcp
import owner
import pages
import session_store
import workspace as workspaces
from pages import View, between, card, field, form, inline, link, listed, select, soft, tag, text, typed, when
from pages_content import may_see, project_names
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

STATES = {'pending': ('Setup pending', 'Setup pending. This assistant cannot read or change anything yet.', 'note'),
          'active': ('Connected', 'Connected.', 'good'),
          'revoked': ('Revoked', 'Revoked. It can reach nothing, for good.', 'bad')}
ASSISTANTS = (('claude', 'Claude'), ('chatgpt', 'ChatGPT'), ('other', 'Another assistant'))
GROUPS = (('Read', access.SCOPES[0]), ('Write', access.SCOPES[1]), ('Run', access.SCOPES[2]))
STEPS = ('Choose the assistant and a name that you will recognise, then Add assistant.',
         'Give it the server address.', 'Approve one workspace in the browser.')
DEMO_STEPS = (
    'Add assistant below, then type the two lines under Server address into a terminal and follow the link.',
    'Open the connection on this page and add it to the project Launch Q3.',
    'Ask: "With osFoundry, what is open in the Q3 launch checklist?" Its calls appear under Recent activity.',
    'Ask: "Propose a README.md for the repository site that states the refund window, on branch main." Then look at '
    'Needs your approval.',
    'Ask: "Read the tab Brief of the Note Q3 launch, then wait." Change that tab yourself and save. Then ask: "Now '
    'replace the Brief, with the version you read." It is refused as stale, and your words stay.')
IN_CLAUDE = ('In Claude: Customize, Connectors, add a custom connector with this address. No client id and no key is '
             'needed.')
NO_PROJECT = ('It sees nothing yet. Choose a project: its Notes, knowledge bases, records, Rooms, repositories and '
              'discussion channel open to it, also what is added to the project later.')
VIEWERS = 'You may look: whoever may edit in this workspace connects assistants and says what they reach.'
NO_CHANNEL = 'Invited to none. A project opens its own discussion channel only.'
RUNNING = 'A run needs three things: the runner role, your sharing switch, and your desktop, which is {}.'
NO_CALL = 'No call yet. Each call will be listed here, the refused ones too.'
FOR_GOOD = 'Its next call is refused. This cannot be undone; connecting again makes a new connection.'

# --- rules --------------------------------------------------------------------

def home(view: View) -> Tuple[str, str]:
    """Connected agents: three steps, and every connection of the workspace."""
    asked = {'workspace': view.workspace, 'after': view.query.get('after'), 'limit': pages.A_PAGE + 1}
    found = owner.run(view.state, view.session.person, 'list_connections', asked)['connections']
    with view.state.db.read() as tx:
        names = project_names(tx, view, view.workspace)
    name = field('Display name', 'display_name', typed(view, 'add_assistant', 'display_name'),
                 more='required maxlength="120" placeholder="Claude research"')
    kind = select('Assistant', 'assistant', ASSISTANTS, typed(view, 'add_assistant', 'assistant'))
    add = form(view, 'add_assistant', kind + name, 'Add assistant', 'first')
    lines = [connection_line(view, one, names) for one in found[:pages.A_PAGE]]
    rest = found[pages.A_PAGE - 1]['connection'] if len(found) > pages.A_PAGE else None
    connections = card('Connections', listed(lines, 'No assistant is connected. Begin with Add assistant above.'),
                       pages.more(rest))
    if not view.may_edit:
        return 'Connected agents', connections + soft(VIEWERS)
    demo = card('Try it in five steps', numbered(DEMO_STEPS)) if view.state.config.demo else ''
    connect = card('Connect in three steps', numbered(STEPS), add) + server_address(view)
    return 'Connected agents', demo + (connections + connect if found else connect + connections)


def numbered(steps: Tuple[str, ...]) -> str:
    return f'<ol>{"".join(f"<li>{html.escape(step)}</li>" for step in steps)}</ol>'


def connection_line(view: View, one: dict, names: Dict[str, str]) -> str:
    word, sentence, style = STATES[one['status']]
    where = ', '.join([text(names[project]) for project in one['projects'] if project in names] +
                      unseen(one['projects'], names))
    if one['status'] == 'active':
        sentence = f'In {where}.' if where else 'In no project yet: it sees nothing.'
    name = text(one['display_name'])
    if view.may_edit:
        name = link(view, one['display_name'], 'connection', one['connection'])
    return between(f'<h3>{name}</h3>', tag(word, style)) + f'<span class="soft">{sentence}</span>'


def unseen(ids: Collection[str], seen: Collection[str]) -> List[str]:
    """An id is made of the name: of what this person may not see, the number."""
    number = sum(one not in seen for one in ids)
    return [f'{number} that you may not see'] if number else []


def server_address(view: View) -> str:
    url = view.state.config.base_url + mcp.ENDPOINT
    return card('Server address', field('The same for every assistant', 'address', url, more='readonly'),
                '<p>Claude Code: type these two lines, then follow the link.</p><pre class="copy" '
                f'tabindex="0">claude mcp add --transport http osfoundry {html.escape(url)}\n'
                'claude mcp login osfoundry</pre>', soft(IN_CLAUDE))


def connection(view: View) -> Tuple[str, str]:
    """One connection: everything that the owner decides about it."""
    with view.state.db.read() as tx:
        known = access.connection_row(tx, view.parts[1])
        workspaces.require_role(tx, view.session.person, known['workspace'], workspaces.EDITOR)
        by = f', approved by {text(workspaces.person_name(tx, known["approver"]))}' if known['approver'] else ''
        opened = projects_part(tx, view, known) + channels_part(tx, view, known) + sessions_part(tx, view, known)
    connection_id, (_, sentence, style) = known['connection'], STATES[known['status']]
    body = (f'<p>{tag(sentence, "state " + style)}</p>'
            f'<p class="soft">Added {when(known["created_us"], view.now_us)}{by}.</p>')
    if known['status'] == 'pending':
        body += server_address(view)
    if known['status'] == 'active':
        body += opened + tools_part(view, connection_id)
    body += activity_part(view, connection_id)
    if known['status'] != 'revoked':
        body += card('Revoke', pages.details('Revoke connection...', soft(FOR_GOOD) + form(
            view, 'revoke', '', 'Revoke connection', 'bad', connection=connection_id)))
    return known['display_name'], body


def projects_part(tx: Tx, view: View, known: dict) -> str:
    connection_id, names = known['connection'], project_names(tx, view, known['workspace'])
    inside = access.projects_of(tx, connection_id)
    lines = [between(link(view, names[one], 'project', one),
                     form(view, 'remove_from_project', '', 'Remove', connection=connection_id, project=one))
             for one in inside if one in names] + unseen(inside, names)
    rest = [(one, name) for one, name in names.items() if one not in inside]
    add = form(view, 'add_to_project', select('Project', 'project', rest), 'Add to project', 'first',
               connection=connection_id) if rest else ''
    return card('Projects', listed(lines, NO_PROJECT), inline(add))


def opened_by_name(tx: Tx, connection_id: str, kind: str) -> Set[str]:
    return {row[0] for row in tx.execute('SELECT id FROM invitations WHERE connection = ? AND kind = ?',
                                         (connection_id, kind))}


def taken_back(view: View, connection_id: str, kind: str, item: str, name: str) -> str:
    return between(link(view, name, kind, item),
                   form(view, 'uninvite', '', 'Take back', connection=connection_id, kind=kind, id=item))


def channels_part(tx: Tx, view: View, known: dict) -> str:
    """Ordinary Message channels, which no project opens."""
    connection_id, invited = known['connection'], opened_by_name(tx, known['connection'], 'channel')
    rows = tx.execute("SELECT p.id, p.name, c.private FROM places p JOIN channels c ON c.channel_id = p.id "
                      "WHERE p.kind = 'channel' AND p.workspace = ? AND p.project IS NULL ORDER BY p.folded, p.id",
                      (known['workspace'],)).fetchall()
    seen = {row[0]: row for row in rows if may_see(tx, view, Ref('channel', row[0]))}
    lines = [taken_back(view, connection_id, 'channel', one, name) for one, name, _ in seen.values() if one in invited]
    lines += unseen([row[0] for row in rows if row[0] in invited], seen)
    rest = [(one, name + (' (private)' if private else '')) for one, name, private in seen.values()
            if one not in invited and may_invite(tx, one, view.session.person)]
    add = form(view, 'invite', select('Choose a Message channel', 'id', rest), 'Invite', connection=connection_id,
               kind='channel', role='member') if rest else ''
    return card('Message channels', listed(lines, NO_CHANNEL), inline(add))


def may_invite(tx: Tx, channel: str, person: str) -> bool:
    try:
        channel_store.require_inviter(tx, channel, person)
        return True
    except Refusal:
        return False


def sessions_part(tx: Tx, view: View, known: dict) -> str:
    connection_id, granted = known['connection'], opened_by_name(tx, known['connection'], 'session')
    rows = tx.execute("SELECT id, name FROM places WHERE kind = 'session' AND workspace = ? AND local_only = 0 "
                      'ORDER BY folded, id', (known['workspace'],)).fetchall()
    seen = {one: name for one, name in rows if may_see(tx, view, Ref('session', one))}
    lines = [taken_back(view, connection_id, 'session', one, name) for one, name in seen.items() if one in granted]
    lines += unseen([one for one, _ in rows if one in granted], seen)
    rest = [(one, name) for one, name in seen.items() if one not in granted]
    add = form(view, 'invite', select('Session', 'id', rest), 'Grant the runner role', connection=connection_id,
               kind='session', role='runner') if rest else ''
    desktop = session_store.desktop_of(tx, view.session.person, view.now_us)
    word = 'Stop sharing my desktop sessions' if desktop['sharing'] else 'Share my desktop sessions'
    switch = form(view, 'set_sharing', '', word, on='' if desktop['sharing'] else 'on')
    here = 'open' if desktop['desktop'] else 'not open now'
    return card('Sessions', soft(RUNNING.format(here)), listed(lines, 'No runner role granted.'), inline(add), switch)


def tools_part(view: View, connection_id: str) -> str:
    off = owner.run(view.state, view.session.person, 'tools_off', {'connection': connection_id})['off']
    groups = ''
    for words, scope in GROUPS:
        names = [name for name, tool in view.state.catalogue.items() if tool.scope == scope]
        ticks = ''.join(tick(name, name not in off) for name in names)
        groups += f'<fieldset><legend>{words}</legend><div class="tools">{ticks}</div></fieldset>' if ticks else ''
    status = f'{len(off)} switched off.' if off else 'All supported tools are on by default.'
    return card('Tools', soft(status), pages.details('Choose tools', form(view, 'save_tools', groups, 'Save tools',
                                                                          connection=connection_id)))


def tick(name: str, on: bool) -> str:
    return (f'<label><input type="checkbox" name="tool" value="{name}"{" checked" if on else ""}>'
            f'<span><code>{name}</code></span></label>')


def activity_part(view: View, connection_id: str) -> str:
    lines = owner.run(view.state, view.session.person, 'recent_activity', {'connection': connection_id})['activity']
    with view.state.db.read() as tx:
        rows: List[List[str]] = [
            [when(line['at'], view.now_us), tag(line['outcome'], 'good' if line['outcome'] == 'ok' else 'bad'),
             f'<code>{html.escape(line["tool"])}</code>', called_item(tx, view, line['id'])] for line in lines]
    heads = ('When', 'Outcome', 'Tool', 'Item')
    return card('Recent activity', pages.table(heads, rows, 'Recent activity') if rows else soft(NO_CALL))


def called_item(tx: Tx, view: View, item: str) -> str:
    """The id, unless it is one of something that this person may not see. Of a refused call the kind is a guess."""
    kinds = tx.execute('SELECT kind FROM places WHERE id = ?', (item,)).fetchall()
    return text(item) if all(may_see(tx, view, Ref(kind, item)) for kind, in kinds) else 'one that you may not see'
