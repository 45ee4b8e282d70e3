"""pages_project.py - records, channels, Rooms, repositories and people: to read and to edit as the person one is.

Article 6, step 4 and "Dov'è il confine": what a project opens besides Notes and knowledge bases, who may be invited
where, and the colleague of article 5, whom anybody can play from the People page.

Not here: Notes, articles, projects (pages_content.py), the clicks (owner_records.py, owner_channels.py and their sisters).
"""
import html
from typing import Any, Dict, List, Tuple

import channel_store
import owner
import pages
import record_store
import rooms
import session_store
import workspace as workspaces
from pages import View, area, block, card, field, form, link, listed, soft, tag, text, when
from pages_content import actor_name, item_name, new_key, whereabouts
from versioned import Ref

# --- data ---------------------------------------------------------------------

ROLES = (('viewer', 'may look'), ('editor', 'may edit'), ('owner', 'owns the workspace'))
ROLE_NAMES = {value: name for name, value in workspaces.ROLES.items()}
RUN_STATES = {'succeeded': 'good', 'failed': 'bad', 'cancelled': ''}
FIELDS_HELP = 'One field a line: name, kind, and the choices of a choice; such as "status: choice: Draft, Ready"'

# --- rules --------------------------------------------------------------------

def record_channel(view: View) -> Tuple[str, str]:
    ref = Ref('record_channel', view.parts[1])
    if len(view.parts) > 2:
        return record(view, ref, view.parts[2])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = record_store.list_record_items(tx, '', {'record_channel_id': ref.id, 'limit': pages.A_PAGE,
                                                        'after_item_id': view.query.get('after', '')}, view.now_us)
    fields = found['fields']
    rows = [[link(view, one['title'], *ref, one['item_id']),
             *(text(pages.value_text(one['values'].get(each['field']))) for each in fields[1:]),
             when(one['version'], view.now_us)] for one in found['items']]
    inner = pages.table(('Title', *(each['field'] for each in fields[1:]), 'Saved'), rows, 'Records') if rows else \
        soft('No record yet. Add the first one below.')
    add = form(view, 'create_record', inputs(fields, {}, view.sent), 'Add record', 'first', record_channel_id=ref.id,
               idempotency_key=new_key())
    return name, card('Records', inner, pages.more(view, found['next_item_id'] if found['has_more'] else None)) + \
        card('New record', add) + whereabouts(view, ref)


def record(view: View, ref: Ref, item_id: str) -> Tuple[str, str]:
    ours = {'record_channel_id': ref.id, 'item_id': item_id}
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = record_store.read_record_item(tx, '', ours, view.now_us)
        fields = [{'field': 'title', 'kind': 'text'}, *map(record_store.field_shown, record_store.fields_of(tx, ref.id).values())]
        history = [[when(one['version'], view.now_us), text(actor_name(tx, one['actor'])),
                    text(', '.join(f'{key}: {pages.value_text(value)}' for key, value in one['change'].items()))]
                   for one in record_store.item_history(tx, ref.id, item_id, 20)]
    now = {'title': found['title'], **found['values']}
    write = form(view, 'save_record', inputs(fields, now, view.sent), 'Save', 'first', idempotency_key=new_key(),
                 expected_version=found['version'], **ours)
    as_it_is = card('As it is now', listed([f'{html.escape(key)}: {text(pages.value_text(value))}' for key, value in now.items()],
                                           '')) if view.sent else ''
    return found['title'], (
        f'<p class="soft">In {link(view, name, *ref)}, saved {when(found["version"], view.now_us)}, version '
        f'<code>{found["version"]}</code></p>{as_it_is}' + card('Record', write) +
        card('History', pages.table(('When', 'Who', 'What'), history, 'History')) +
        card('Delete', pages.details('Delete this record...', form(view, 'delete_record', '', 'Delete', 'bad',
                                                                  expected_version=found['version'], **ours))))


def inputs(fields: List[Dict[str, Any]], values: Dict[str, Any], sent: Dict[str, str]) -> str:
    """A field of the form for each field of the record: value.NAME, read back by pages_forms.record_values."""
    shown = ''
    for one in fields:
        name, key = one['field'], f'value.{one["field"]}'
        value = sent.get(key, pages.value_text(values.get(name)))
        if one['kind'] == 'choice':
            shown += pages.select(name, key, [('', '(empty)'), *((choice, choice) for choice in one['choices'])], value)
        elif one['kind'] == 'checkbox':
            shown += pages.select(name, key, [('', '(empty)'), ('true', 'yes'), ('false', 'no')], value)
        else:
            shown += field(f'{name} ({one["kind"]})' if one['kind'] != 'text' else name, key, value,
                           more='required' if name == 'title' else '')
    return shown


def channel(view: View) -> Tuple[str, str]:
    ref = Ref('channel', view.parts[1])
    ask = {'channel_id': ref.id, 'limit': pages.A_PAGE}
    if 'after' in view.query:
        ask['before'] = view.query['after']
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = channel_store.channel_history(tx, '', ask, view.now_us)
        members = channel_store.channel_roster(tx, '', ask, view.now_us)['members']
    lines = [f'<div class="between"><h3>{text(one["name"])}</h3><span class="soft">{when(one["created_at"], view.now_us)}</span>'
             f'</div>{block(one["text"])}' for one in found['messages']]
    post = form(view, 'post_message', area('Message', 'text', view.sent.get('text', ''), 3), 'Post', 'first', channel_id=ref.id,
                idempotency_key=new_key())
    people = listed([f'{text(one["handle"])} {tag("reachable" if one["reachable"] else "not reachable")}' for one in members],
                    'Nobody is in it yet.')
    earlier = pages.more(view, found['before'] if found['has_more'] else None, 'Earlier messages')
    return name, card('Messages', earlier, listed(lines, 'No message yet. Write the first one.'), post) + \
        card('Members', people) + whereabouts(view, ref)


def room(view: View) -> Tuple[str, str]:
    ref = Ref('room', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = rooms.read_room(tx, '', {'room_id': ref.id}, view.now_us)
    apps = [f'{text(one["app_name"])} <span class="soft">installed {when(one["installed_at"], view.now_us)}</span>'
            for one in found['apps']]
    return name, card('Apps', listed(apps, 'None. An assistant can only propose one; you decide under Needs your approval.')) + \
        whereabouts(view, ref)


def repository(view: View) -> Tuple[str, str]:
    ref = Ref('repository', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        on = tx.execute('SELECT gitnest_on FROM repositories WHERE repository = ?', (ref.id,)).fetchone()
    switch = form(view, 'set_gitnest', '', 'Switch GitNest off' if on and on[0] else 'Switch GitNest on', repository_id=ref.id,
                  on='' if on and on[0] else 'on')
    state = tag('GitNest is on', 'good') if on and on[0] else tag('GitNest is off', 'bad')
    return name, card('Changes', f'<p>{state}</p>', soft('Assistants never write here: they propose, and you decide under Needs '
                                                         'your approval. Off refuses proposals and approvals; reading goes '
                                                         'on.'), switch) + whereabouts(view, ref)


def session(view: View) -> Tuple[str, str]:
    ref = Ref('session', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        runs = session_store.read_session_runs(tx, '', {'session_id': ref.id}, view.now_us)['runs']
    rows = [[text(one['run_id']), tag(one['status'], RUN_STATES.get(one['status'], 'note'))] for one in runs]
    return name, card('Runs', pages.table(('Run', 'State'), rows, 'Runs') if rows else soft('No run was asked for.')) + \
        whereabouts(view, ref)


def people(view: View) -> Tuple[str, str]:
    """Who is in the workspace; and a way in for each, so that one person can play two."""
    with view.state.db.read() as tx:
        rows = tx.execute("SELECT p.person, p.name, r.role FROM roles r JOIN people p ON p.person = r.person "
                          "WHERE r.kind = 'workspace' AND r.id = ? ORDER BY p.name, p.person", (view.workspace,)).fetchall()
        mine = workspaces.role_in(tx, view.session.person, view.workspace)
    lines = []
    for person, name, role in rows:
        buttons = ''
        if mine == workspaces.OWNER and person != view.session.person:
            buttons = ('<div class="row">' + form(view, 'open_link', '', 'Open a link for ' + name, of=person) +
                       form(view, 'set_role', pages.select('Role', 'role', ROLES, ROLE_NAMES[role]), 'Save role', of=person,
                            kind='workspace', id=view.workspace) + '</div>')
        lines.append(f'<div class="between"><h3>{text(name)}{" (you)" if person == view.session.person else ""}</h3>'
                     f'{tag(ROLE_NAMES[role])}</div>{buttons}')
    add = form(view, 'add_person', field('Name', 'name', view.sent.get('name', ''), more='required maxlength="120"') +
               pages.select('Role', 'role', ROLES, 'editor'), 'Add person') if mine == workspaces.OWNER else ''
    return 'People', card('In this workspace', listed(lines, '')) + (card('Add somebody', soft(
        'To play a colleague, add one and open a link for them: their pages open beside yours, in this browser too.'), add)
        if add else '') + card('You', form(view, 'sign_out', '', 'Sign out'))


def opened_link(view: View, answer: dict) -> str:
    """Shown once, to the owner who asked for it: whoever opens it is that person."""
    url = view.state.config.base_url + answer['link']
    return (f'<p>This link works once, for {owner.LINK_TTL_S // 60} minutes. Whoever opens it is {text(answer["name"])}.</p>'
            f'<p><a class="button" href="{html.escape(url)}" target="_blank" rel="noopener">Open as {text(answer["name"])}</a></p>'
            f'<p><code>{html.escape(url)}</code></p><p>{link(view, "Back to People", "people")}</p>')
