"""pages_connected.py - Connected agents: set an assistant up, say what it may reach, watch it, revoke it.

Article 6, steps 1 and 4 and "Dov'è il confine": Connect in three steps, the server address, Projects, Message channels,
Tools ("All supported tools are on by default."), Recent activity, Revoke connection, and the switch that shares the
desktop's sessions. Each button is one click of owner_verbs.py and its sisters.

Not here: the frame and the forms (pages.py), their routes (pages_owner.py).
"""
import html
from typing import Dict, List, Tuple

import access
import channel_store
import mcp
import owner
import pages
import session_store
import workspace as workspaces
from pages import View, card, field, form, link, listed, soft, tag, text, when
from versioned import Refusal, Tx

# --- data ---------------------------------------------------------------------

STATES = {'pending': ('Setup pending. This assistant cannot read or change anything yet.', 'note'),
          'active': ('Connected.', 'good'), 'revoked': ('Revoked. It can reach nothing, for good.', 'bad')}
ASSISTANTS = (('claude', 'Claude'), ('chatgpt', 'ChatGPT'), ('other', 'Another assistant'))
OUTCOMES = {'ok': 'good'}                 # every other outcome is a refusal
GROUPS = (('Read', access.SCOPES[0]), ('Write', access.SCOPES[1]), ('Run', access.SCOPES[2]))
DEMO_STEPS = (
    'Add assistant below, then type the two lines it shows into a terminal; approve in the browser that opens.',
    'Open the connection here and add it to the project Launch Q3.',
    'Ask: "With osFoundry, what is open in the Q3 launch checklist?" Its calls appear under Recent activity.',
    'Ask: "Propose a README.md for the repository site that states the refund window." Then look at Needs your approval.',
    'Ask: "Read the tab Brief of the Note Q3 launch and wait." Change that tab yourself and save. Then ask: "Now replace '
    'the Brief using the version you read." It is refused as stale, and your words stay.')

# --- rules --------------------------------------------------------------------

def address(view: View) -> str:
    return view.state.config.base_url + mcp.ENDPOINT


def home(view: View) -> Tuple[str, str]:
    """Connected agents: three steps, and every connection of the workspace."""
    found = owner.run(view.state, view.session.person, 'list_connections', {'workspace': view.workspace})['connections']
    with view.state.db.read() as tx:
        names = project_names(tx, view.workspace)
    add = form(view, 'add_assistant', pages.select('Assistant', 'assistant', ASSISTANTS) +
               field('Display name', 'display_name', view.sent.get('display_name', ''),
                     more='required maxlength="120" placeholder="Claude research"'), 'Add assistant', 'first')
    steps = ('<ol><li>Choose the assistant and a name that you will recognise, then Add assistant.</li>'
             '<li>Give it the server address.</li><li>Approve one workspace in the browser.</li></ol>')
    lines = [connection_line(view, one, names) for one in found]
    demo = card('Try it in five steps', f'<ol>{"".join(f"<li>{html.escape(step)}</li>" for step in DEMO_STEPS)}</ol>') \
        if view.state.config.demo else ''
    return 'Connected agents', demo + card('Connect in three steps', steps, add) + server_address(view) + card(
        'Connections', listed(lines, 'No assistant is connected. Begin with Add assistant above.'))


def connection_line(view: View, one: dict, names: Dict[str, str]) -> str:
    where = ', '.join(text(names.get(project, project)) for project in one['projects']) or 'no project yet'
    where = 'in ' + where if one['projects'] else where
    state, style = STATES[one['status']]
    return (f'<div class="between"><h3>{link(view, one["display_name"], "connection", one["connection"])}</h3>'
            f'{tag(state.split(".")[0], style)}</div>'
            f'<span class="soft">{where if one["status"] == "active" else html.escape(state)}</span>')


def server_address(view: View) -> str:
    url = html.escape(address(view))
    return card('Server address', f'<p><label class="field"><span>For every assistant the same</span><input type="text" '
                f'readonly value="{url}"></label></p><p>Claude Code: type these two lines, then follow the link.</p>'
                f'<pre tabindex="0">claude mcp add --transport http osfoundry {url}\nclaude mcp login osfoundry</pre>'
                '<p class="soft">In Claude: Customize, Connectors, add a custom connector with this address. No client id and '
                'no key is needed.</p>')


def project_names(tx: Tx, workspace: str) -> Dict[str, str]:
    return dict(tx.execute("SELECT id, name FROM places WHERE kind = 'project' AND workspace = ? ORDER BY folded, id",
                           (workspace,)).fetchall())


def connection(view: View) -> Tuple[str, str]:
    """One connection: everything that the owner decides about it."""
    with view.state.db.read() as tx:
        known = access.connection_row(tx, view.parts[1])
        workspaces.require_role(tx, view.session.person, known['workspace'], workspaces.VIEWER)
        known['approved_by'] = workspaces.person_name(tx, known['approver']) if known['approver'] else ''
        projects = access.projects_of(tx, known['connection'])
        names = project_names(tx, known['workspace'])
        channels = channel_lines(tx, view, known['connection'])
        sessions = session_lines(tx, view, known['connection'])
    state, style = STATES[known['status']]
    body = (f'<p>{tag(state.split(".")[0], style)} {html.escape(state)}</p>'
            f'<p class="soft">Added {when(known["created_us"], view.now_us)}'
            f'{", approved by " + text(known["approved_by"]) if known["approved_by"] else ""}.</p>')
    if known['status'] == 'pending':
        body += server_address(view)
    if known['status'] == 'active':
        body += (projects_part(view, known['connection'], projects, names) + channels + sessions +
                 tools_part(view, known['connection']))
    return known['display_name'], body + activity_part(view, known['connection']) + revoke_part(view, known)


def projects_part(view: View, connection: str, projects: List[str], names: Dict[str, str]) -> str:
    lines = ['<div class="between">' + link(view, names.get(one, one), 'project', one) +
             form(view, 'remove_from_project', '', 'Remove', connection=connection, project=one) + '</div>' for one in projects]
    rest = [(one, name) for one, name in names.items() if one not in projects]
    add = form(view, 'add_to_project', pages.select('Project', 'project', rest), 'Add to project', 'first',
               connection=connection) if rest else ''
    return card('Projects', listed(lines, 'It sees nothing yet. Choose a project: its Notes, knowledge bases, records, Rooms, '
                                   'repositories and discussion channel open to it, also what is added later.'), add)


def channel_lines(tx: Tx, view: View, connection: str) -> str:
    """Ordinary Message channels, which a project does not open."""
    invited = {row[0] for row in tx.execute("SELECT id FROM invitations WHERE connection = ? AND kind = 'channel'",
                                            (connection,))}
    rows = tx.execute("SELECT p.id, p.name, c.private FROM places p JOIN channels c ON c.channel_id = p.id "
                      "WHERE p.kind = 'channel' AND p.workspace = ? AND p.project IS NULL ORDER BY p.folded, p.id",
                      (view.workspace,)).fetchall()
    may = [(one, name + (' (private)' if private else '')) for one, name, private in rows
           if one not in invited and may_invite(tx, one, view.session.person)]
    lines = ['<div class="between">' + link(view, name, 'channel', one) +
             form(view, 'uninvite', '', 'Take back', connection=connection, kind='channel', id=one) + '</div>'
             for one, name, _ in rows if one in invited]
    add = form(view, 'invite', pages.select('Choose a Message channel', 'id', may), 'Invite', connection=connection,
               kind='channel', role='member') if may else ''
    return card('Message channels', listed(lines, 'Invited to none. A project opens its own discussion channel only.'), add)


def may_invite(tx: Tx, channel: str, person: str) -> bool:
    try:
        channel_store.require_inviter(tx, channel, person)
        return True
    except Refusal:
        return False


def session_lines(tx: Tx, view: View, connection: str) -> str:
    granted = {row[0] for row in tx.execute("SELECT id FROM invitations WHERE connection = ? AND kind = 'session'",
                                            (connection,))}
    rows = tx.execute("SELECT id, name FROM places WHERE kind = 'session' AND workspace = ? AND local_only = 0 "
                      'ORDER BY folded, id', (view.workspace,)).fetchall()
    lines = ['<div class="between">' + text(name) +
             form(view, 'uninvite', '', 'Take back', connection=connection, kind='session', id=one) + '</div>'
             for one, name in rows if one in granted]
    rest = [(one, name) for one, name in rows if one not in granted]
    add = form(view, 'invite', pages.select('Session', 'id', rest), 'Grant the runner role', connection=connection,
               kind='session', role='runner') if rest else ''
    switch = form(view, 'set_sharing', '', 'Share my desktop sessions', on='on')
    desktop = session_store.desktop_of(tx, view.session.person, view.now_us)
    if desktop['sharing']:
        switch = form(view, 'set_sharing', '', 'Stop sharing my desktop sessions', on='')
    here = 'is open' if desktop['desktop'] else 'is not open, so that nothing runs until it asks'
    return card('Sessions', soft(f'Running needs three things: the runner role, your sharing switch, and your desktop, which '
                                 f'{here}.'), listed(lines, 'No runner role granted.'), add, switch)


def tools_part(view: View, connection: str) -> str:
    off = owner.run(view.state, view.session.person, 'tools_off', {'connection': connection})['off']
    groups = ''
    for words, scope in GROUPS:
        ticks = ''.join(f'<label><input type="checkbox" name="tool" value="{name}"{"" if name in off else " checked"}>'
                        f'<span><code>{name}</code></span></label>'
                        for name, tool in view.state.catalogue.items() if tool.scope == scope)
        groups += f'<fieldset><legend>{words}</legend><div class="tools">{ticks}</div></fieldset>' if ticks else ''
    status = f'{len(off)} switched off.' if off else 'All supported tools are on by default.'
    return card('Tools', soft(status), pages.details('Choose tools', form(view, 'save_tools', groups, 'Save tools',
                                                                          connection=connection)))


def activity_part(view: View, connection: str) -> str:
    lines = owner.run(view.state, view.session.person, 'recent_activity', {'connection': connection})['activity']
    rows = [[when(line['at'], view.now_us), f'<code>{html.escape(line["tool"])}</code>', text(line['id']),
             tag(line['outcome'], OUTCOMES.get(line['outcome'], 'bad'))] for line in lines]
    inner = pages.table(('When', 'Tool', 'Item', 'Outcome'), rows, 'Recent activity') if rows else \
        soft('No call yet. Each call will be listed here, the refused ones too.')
    return card('Recent activity', inner)


def revoke_part(view: View, known: dict) -> str:
    if known['status'] == 'revoked':
        return ''
    return card('Revoke', pages.details('Revoke connection...', soft('Its next call is refused. This cannot be undone; '
                'connecting again makes a new connection.') + form(view, 'revoke', '', 'Revoke connection', 'bad',
                                                                   connection=known['connection'])))
