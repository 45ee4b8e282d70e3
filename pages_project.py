"""pages_project.py - records, channels, Rooms, sessions and people: to read and to edit as the person one is.

Article 6, step 4 and "Dov'è il confine": what a project opens besides Notes and knowledge bases, who may be invited
where, and the colleague of article 5, whom anybody can play from the People page.

Not here: projects (pages_content.py), articles (pages_articles.py), Notes (pages_notes.py), repositories
(pages_gitnest.py), the clicks (owner_records.py, owner_channels.py and their sisters).
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
from pages import View, area, block, card, field, form, link, listed, soft, tag, text, typed, when
from pages_content import actor_name, item_name, whereabouts
from pages_notes import new_key
from versioned import Ref

# --- data ---------------------------------------------------------------------

ROLES = (('viewer', 'may look'), ('editor', 'may edit'), ('owner', 'owns the workspace'))
ROLE_NAMES = {value: name for name, value in workspaces.ROLES.items()}
HISTORY_SHOWN = 20
RUN_STATES = {'succeeded': 'good', 'failed': 'bad', 'cancelled': ''}
NO_APP = 'None. An assistant can only propose one; you decide under Needs your approval.'
DELETED = 'Its author deleted it.'
LEAVES = 'Whoever is taken out sees nothing here from the next click on. What they wrote stays.'
PLAY = 'To play a colleague, add one and open a link for them: their pages open beside yours, in this browser too.'

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
        pages.nothing(view, 'No record yet.', 'Add the first one below.')
    add = form(view, 'create_record', inputs(view, 'create_record', fields, {}), 'Add record', 'first',
               record_channel_id=ref.id, idempotency_key=new_key())
    return name, card('Records', inner, pages.more(found['next_item_id'] if found['has_more'] else None)) + \
        card('New record', add) + whereabouts(view, ref)


def record(view: View, ref: Ref, item_id: str) -> Tuple[str, str]:
    ours = {'record_channel_id': ref.id, 'item_id': item_id}
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = record_store.read_record_item(tx, '', ours, view.now_us)
        own = map(record_store.field_shown, record_store.fields_of(tx, ref.id).values())
        saved = record_store.item_history(tx, ref.id, item_id, HISTORY_SHOWN + 1, view.query.get('after'))
        history = [[when(one['version'], view.now_us), text(actor_name(tx, one['actor'])), text(members(one['change']))]
                   for one in saved[:HISTORY_SHOWN]]
    now = {'title': found['title'], **found['values']}
    shown = inputs(view, 'save_record', [{'field': 'title', 'kind': 'text'}, *own], now)
    write = form(view, 'save_record', shown, 'Save', 'first', idempotency_key=new_key(),
                 expected_version=found['version'], **ours)
    delete = form(view, 'delete_record', '', 'Delete', 'bad', expected_version=found['version'], **ours)
    earlier = pages.more(saved[HISTORY_SHOWN - 1]['version'] if len(saved) > HISTORY_SHOWN else None,
                         'Earlier versions')
    head = (f'<p class="soft">In {link(view, name, *ref)}, saved {when(found["version"], view.now_us)}, version '
            f'<code>{found["version"]}</code></p>')
    as_it_is = card('As it is now', f'<p>{text(members(now))}</p>') \
        if pages.is_refused(view, 'save_record') or not view.may_change else ''
    return found['title'], (head + as_it_is + card('Record', write) +
                            card('History', pages.table(('When', 'Who', 'What'), history, 'History'), earlier) +
                            card('Delete', pages.details('Delete this record...', delete)))


def members(values: Dict[str, Any]) -> str:
    return ', '.join(f'{name}: {pages.value_text(value)}' for name, value in values.items())


def inputs(view: View, verb: str, fields: List[Dict[str, Any]], values: Dict[str, Any]) -> str:
    """A field of the form for each field of the record: value.NAME, read back by pages_forms.record."""
    shown = ''
    for one in fields:
        name, key = 'Title' if one['field'] == 'title' else one['field'], f'value.{one["field"]}'
        value = typed(view, verb, key, pages.value_text(values.get(one['field'])))
        if one['kind'] == 'choice':
            shown += pages.select(name, key, [('', '(empty)'), *((choice, choice) for choice in one['choices'])], value)
        elif one['kind'] == 'checkbox':
            shown += pages.select(name, key, [('', '(empty)'), ('true', 'yes'), ('false', 'no')], value)
        else:
            shown += field(f'{name} ({one["kind"]})' if one['kind'] != 'text' else name, key, value,
                           more='required' if one['field'] == 'title' else '')
    return shown


def channel(view: View) -> Tuple[str, str]:
    """The channel itself, or one thread of it."""
    ref, root = Ref('channel', view.parts[1]), {'thread_root_id': view.parts[2]} if len(view.parts) > 2 else {}
    ask = {'channel_id': ref.id, 'limit': pages.A_PAGE, **root}
    if 'after' in view.query:
        ask['before'] = view.query['after']
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = channel_store.channel_history(tx, '', ask, view.now_us)
        about = channel_store.about_messages(tx, ref.id, [one['message_id'] for one in found['messages']])
        roster = channel_store.channel_roster(tx, '', ask, view.now_us)['members']
    lines = [message(view, ref, one, about[one['message_id']], bool(root)) for one in found['messages']]
    post = form(view, 'post_message', area('Message', 'text', typed(view, 'post_message', 'text'), 3),
                'Reply' if root else 'Post', 'first', channel_id=ref.id, idempotency_key=new_key(), **root)
    earlier = pages.more(found['before'] if found['has_more'] else None, 'Earlier messages')
    if root:
        return f'A thread in {name}', (card('Messages', earlier, listed(lines, ''), post) +
                                       f'<p>{link(view, "Back to " + name, *ref)}</p>')
    shown = listed(lines, '') if lines else pages.nothing(view, 'No message yet.', 'Write the first one.')
    return name, card('Messages', earlier, shown, post) + members_part(view, ref, roster) + whereabouts(view, ref)


def members_part(view: View, ref: Ref, roster: List[dict]) -> str:
    """Who is in it. A private channel is read by its members only, so here is the way in and out: its owner's, and out
    for a member himself."""
    inside, person = {one['handle'] for one in roster}, view.session.person
    with view.state.db.read() as tx:
        owner = channel_store.private_owner(tx, ref.id)
        rest = [(one, name) for one, name, _ in workspaces.people_of(tx, view.workspace) if one not in inside]
    people = [pages.between(f'<span>{text(one["handle"])} '
                            f'{tag("reachable" if one["reachable"] else "not reachable")}</span>',
                            form(view, 'remove_member', '', 'Remove', channel_id=ref.id, handle=one['handle'])
                            if channel_store.may_remove(owner, person, one['handle']) else '')
              for one in roster]
    add = form(view, 'set_member', pages.select('Person', 'handle', rest), 'Add to the channel', channel_id=ref.id,
               kind='person') if rest and owner in (None, person) else ''
    return card('Members', listed(people, 'Nobody is in it yet.'), pages.inline(add))


def message(view: View, ref: Ref, one: dict, about: dict, in_thread: bool) -> str:
    """What was said; below it its thread, and for its author the ways to change it."""
    stamp = when(one['created_at'], view.now_us)
    if about['edited_at'] and not one['deleted']:
        stamp += f', edited {when(about["edited_at"], view.now_us)}'
    shown = pages.between(f'<h3>{text(one["name"])}</h3>', f'<span class="soft">{stamp}</span>')
    shown += soft(DELETED) if one['deleted'] else block(one['text'])
    if not in_thread:
        words = 'Reply in a thread' if not about['replies'] else f'Replies: {about["replies"]}'
        shown += f'<p>{link(view, words, *ref, one["message_id"])}</p>'
    if one['deleted'] or about['actor'] != f'person:{view.session.person}':
        return shown
    ours = {'channel_id': ref.id, 'message_id': one['message_id']}
    words = typed(view, 'edit_message', 'text', one['text'], **ours)
    edit = form(view, 'edit_message', area('Your message', 'text', words, 3), 'Save', 'first', **ours)
    delete = form(view, 'delete_message', '', 'Delete', 'bad', **ours)
    return shown + pages.details('Edit or delete', edit + delete, pages.is_refused(view, 'edit_message', **ours))


def room(view: View) -> Tuple[str, str]:
    ref = Ref('room', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = rooms.read_room(tx, '', {'room_id': ref.id}, view.now_us)
    apps = [f'{text(one["app_name"])} <span class="soft">installed {when(one["installed_at"], view.now_us)}</span>'
            for one in found['apps']]
    return name, card('Apps', listed(apps, NO_APP)) + whereabouts(view, ref)


def session(view: View) -> Tuple[str, str]:
    ref = Ref('session', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        runs = session_store.read_session_runs(tx, '', {'session_id': ref.id}, view.now_us)['runs']
    rows = [[text(one['run_id']), tag(one['status'], RUN_STATES.get(one['status'], 'note'))] for one in runs]
    inner = pages.table(('Run', 'State'), rows, 'Runs') if rows else soft('No run was asked for.')
    return name, card('Runs', inner) + whereabouts(view, ref)


def people(view: View) -> Tuple[str, str]:
    """Who is in the workspace; and a way in for each, so that one person can play two."""
    with view.state.db.read() as tx:
        rows = workspaces.people_of(tx, view.workspace)
        mine = workspaces.role_in(tx, view.session.person, view.workspace)
    is_owner = mine == workspaces.OWNER
    shown, rest = pages.a_page(view, rows, lambda row: row[0])
    lines = [person_line(view, *row, is_owner and row[0] != view.session.person) for row in shown]
    name = field('Name', 'name', typed(view, 'add_person', 'name'), more='required maxlength="120"')
    role = pages.select('Role', 'role', ROLES, typed(view, 'add_person', 'role', 'editor'))
    add = form(view, 'add_person', name + role, 'Add person')
    others = pages.select('Workspace', 'workspace', view.others.items())
    switch = card('Your other workspaces', pages.inline(form(view, 'show_workspace', others, 'Show'))) \
        if view.others else ''
    return 'People', (card('In this workspace', listed(lines, ''), pages.more(rest)) + switch +
                      (card('Add somebody', soft(PLAY), pages.inline(add)) if is_owner else '') +
                      card('You', form(view, 'sign_out', '', 'Sign out')))


def person_line(view: View, person: str, name: str, role: int, may_change: bool) -> str:
    title = f'<h3>{text(name)}{" (you)" if person == view.session.person else ""}</h3>'
    line = pages.between(title, tag(dict(ROLES).get(ROLE_NAMES[role], 'has no role')))
    if not may_change:
        return line
    roles = form(view, 'set_role', pages.select('Role', 'role', ROLES, ROLE_NAMES[role]), 'Save role', of=person,
                 kind='workspace', id=view.workspace)
    link_for = form(view, 'open_link', '', 'Open a link for ' + name, of=person)
    leave = form(view, 'clear_role', soft(LEAVES), 'Take out of the workspace', 'bad', of=person, kind='workspace',
                 id=view.workspace)
    return line + link_for + pages.details('Change the role, or take out', pages.inline(roles) + leave)


def opened_link(view: View, answer: dict) -> str:
    """Shown once, to the owner who asked for it: whoever opens it is that person."""
    url = view.state.config.base_url + answer['link']
    name = text(answer['name'])
    return (f'<p>This link works once, for {owner.LINK_TTL_S // 60} minutes. Whoever opens it is {name}.</p>'
            f'<p><a class="button" href="{html.escape(url)}" target="_blank" rel="noopener">Open as {name}</a></p>'
            f'<p><code>{html.escape(url)}</code></p><p>{link(view, "Back to People", "people")}</p>')
