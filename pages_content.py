"""pages_content.py - projects and what lies in them; of every item, where it is and its log.

Article 6, step 4: what a project opens to an assistant, what is added later included.

Not here: Notes (pages_notes.py), knowledge articles (pages_articles.py), records, channels, Rooms, sessions, people
(pages_project.py), repositories (pages_gitnest.py), the clicks (owner_verbs.py, owner_project.py).
"""
import html
from typing import Dict, List, Optional, Sequence, Tuple

import access
import channel_store
import owner
import pages
import versioned
import workspace as workspaces
from pages import View, area, between, block, card, field, form, hidden, link, listed, soft, tag, text, typed, when
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

KINDS = {'note': 'Notes', 'knowledge_base': 'Knowledge bases', 'record_channel': 'Records', 'channel': 'Channels',
         'room': 'Rooms', 'repository': 'Repositories', 'session': 'Sessions'}
Item = Tuple[str, str, str, int]          # kind, id, name, local_only
NEW = (('create_note', 'title', 'New Note'), ('create_knowledge_base', 'name', 'New knowledge base'),
       ('create_record_channel', 'name', 'New record channel'), ('create_channel', 'name', 'New channel'),
       ('create_room', 'name', 'New Room'), ('create_repository', 'repository_id', 'New repository'))
NO_PROJECT = 'No project yet. Make one: an assistant sees only what lies in projects that you add it to.'
LOOSE = 'No assistant sees these, except a Message channel to which it was invited.'
BY_INVITE = 'In no project: an assistant sees it when it is invited, on the page of its connection.'
NOWHERE = 'In no project: no assistant sees it.'
HIDDEN = 'In a project that you may not see.'
NO_AGENT = 'None. Open a connection and use Add to project.'
NO_CHAT = 'None. A chat links itself with the tool link_current_chat; nobody can open a chat from here.'
DECLARED = 'A label that the chat gave itself: for routing, not identity.'
ON_DEVICE = 'Only on this device: it has no copy in the workspace, and no assistant can see it.'

# --- rules --------------------------------------------------------------------

def projects(view: View) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        shown, rest = pages.a_page(view, list(project_names(tx, view, view.workspace).items()), lambda row: row[0])
        found = [(one, name, how_many(tx, view, one)) for one, name in shown]
        loose, more_loose = items_page(tx, view, None, 'loose')
    lines = [between(f'<h3>{link(view, name, "project", one)}</h3>', f'<span class="soft">{count}</span>')
             for one, name, count in found]
    name = field('Name', 'name', typed(view, 'create_project', 'name'), more='required maxlength="120"')
    add = form(view, 'create_project', name, 'New project')
    name = field('New Message channel', 'name', typed(view, 'create_channel', 'name'), more='required maxlength="100"')
    private = pages.checkbox('Private', 'private', typed(view, 'create_channel', 'private') != '')
    channel = form(view, 'create_channel', name + private, 'Create')
    return 'Projects', (
        card('In this workspace', listed(lines, NO_PROJECT), pages.more(rest),
             pages.inline(add) if view.may_edit else '') +
        card('In no project', soft(LOOSE), item_lists(view, loose) or soft('Nothing.'),
             pages.more(more_loose, name='loose'), pages.inline(channel) if view.may_edit else ''))


def places(tx: Tx, view: View, project_id: Optional[str]) -> List[Item]:
    """What lies in a project, or in none, in the order of lists. Some of it this person may not see."""
    rows = tx.execute("SELECT kind, id, name, local_only FROM places WHERE workspace = ? AND project IS ? "
                      "AND kind <> 'project' ORDER BY folded, id", (view.workspace, project_id)).fetchall()
    return sorted(rows, key=lambda row: list(KINDS).index(row[0]))


def items_page(tx: Tx, view: View, project_id: Optional[str], name: str = 'after') -> Tuple[List[Item], Optional[str]]:
    return pages.a_page(view, places(tx, view, project_id), lambda row: f'{row[0]}:{row[1]}', name,
                        lambda row: may_see(tx, view, Ref(row[0], row[1])))


def how_many(tx: Tx, view: View, project_id: str) -> str:
    shown, rest = items_page(tx, view._replace(query={}), project_id)
    return f'more than {len(shown)} items' if rest else f'{len(shown)} item{"" if len(shown) == 1 else "s"}'


def may_see(tx: Tx, view: View, ref: Ref) -> bool:
    try:
        require_sight(tx, view, ref)
        return True
    except Refusal:
        return False


def require_sight(tx: Tx, view: View, ref: Ref) -> None:
    """Raises not_found. The way into a private channel is its roster."""
    access.require_role_of(tx, view.session.person, ref, workspaces.VIEWER)
    if ref.kind == 'channel':
        channel_store.require_reader(tx, ref.id, view.session.person)


def project_names(tx: Tx, view: View, workspace: str) -> Dict[str, str]:
    """Those that this person may see, by name, as lists and choices show them."""
    rows = tx.execute("SELECT id, name FROM places WHERE kind = 'project' AND workspace = ? ORDER BY folded, id",
                      (workspace,)).fetchall()
    return {one: name for one, name in rows if may_see(tx, view, Ref('project', one))}


def item_lists(view: View, items: Sequence[Tuple[str, str, str, int]]) -> str:
    parts = ''
    for kind, words in KINDS.items():
        lines = [link(view, name or one, kind, one) + (' ' + tag('only on this device', 'note') if local else '')
                 for what, one, name, local in items if what == kind]
        parts += f'<h3>{words}</h3>{listed(lines, "")}' if lines else ''
    return parts


def project(view: View) -> Tuple[str, str]:
    ref = Ref('project', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        shown, rest = items_page(tx, view, ref.id)
        agents = tx.execute('SELECT c.connection, c.display_name FROM project_members m JOIN connections c ON '
                            'c.connection = m.connection WHERE m.project = ? ORDER BY c.display_name',
                            (ref.id,)).fetchall()
    chats = owner.run(view.state, view.session.person, 'list_chats', {'project_id': ref.id})['chats']
    new = ''.join(form(view, verb, field(words, name_of, typed(view, verb, name_of), more='required maxlength="100"'),
                       'Create', project=ref.id) for verb, name_of, words in NEW)
    seen_by = [link(view, words, 'connection', one) if view.may_edit else text(words) for one, words in agents]
    inside = item_lists(view, shown) or pages.nothing(view, 'Nothing yet.', 'Create something below.')
    return name, (card('What is in it', inside, pages.more(rest)) +
                  card('Assistants that see it', listed(seen_by, NO_AGENT)) +
                  card('Linked chats', listed([chat_line(view, ref.id, chat) for chat in chats], NO_CHAT)) +
                  (card('Create', pages.inline(new)) if view.may_edit else ''))


def chat_line(view: View, project_id: str, chat: dict) -> str:
    work = [text(one['task']) + ' ' + tag(one['status'], 'good' if one['answer'] else 'note') +
            (block(one['answer']) if one['answer'] else '') for one in chat['work']]
    task = typed(view, 'assign_to_chat', 'task', chat_id=chat['chat_id'])
    leave = form(view, 'assign_to_chat', area('Task; it waits until the chat asks', 'task', task, 2), 'Leave this task',
                 project_id=project_id, chat_id=chat['chat_id'])
    return f'<h3>{text(chat["label"])}</h3>{soft(DECLARED)}{listed(work, "No work was left for it.")}{leave}'


# Every item.

def item_name(tx: Tx, view: View, ref: Ref) -> str:
    """Its name, for whoever may see it; else not_found."""
    require_sight(tx, view, ref)
    return tx.execute('SELECT name FROM places WHERE kind = ? AND id = ?', ref).fetchone()[0] or ref.id


def actor_name(tx: Tx, actor: str) -> str:
    """'person:mika' -> 'Mika'; an assistant is told apart from a person of the same name."""
    kind, _, one = actor.partition(':')
    if kind == 'person':
        return workspaces.person_name(tx, one)
    row = tx.execute('SELECT display_name FROM connections WHERE connection = ?', (one,)).fetchone()
    return f'{row[0]} (assistant)' if row else actor


def whereabouts(view: View, ref: Ref) -> str:
    """In which project an item lies, where it may go, and its log."""
    with view.state.db.read() as tx:
        workspace, project_id, local = tx.execute('SELECT workspace, project, local_only FROM places '
                                                  'WHERE kind = ? AND id = ?', ref).fetchone()
        names = project_names(tx, view, workspace)         # the item's, whichever workspace is shown
    log = f'<p>{link(view, "Event log", "events", *ref)}</p>'
    if project_id in names:
        where = f'<p>In {link(view, names[project_id], "project", project_id)}.</p>'
    else:
        where = soft(HIDDEN if project_id else BY_INVITE if ref.kind == 'channel' else NOWHERE)
    if ref.kind == 'channel':                              # opened by its project or by Invite, never moved
        return card('Project', where, log)
    rest = [(one, name) for one, name in names.items() if one != project_id]
    move = form(view, 'move_item', pages.select('Project', 'project', rest), 'Move' if project_id else 'Add to project',
                kind=ref.kind, id=ref.id) if rest else ''
    out = form(view, 'move_item', hidden('project', ''), 'Take out of the project', kind=ref.kind, id=ref.id) \
        if project_id else ''
    return card('Project', where, soft(ON_DEVICE) if local else '', pages.inline(move, out), log)


def events(view: View) -> Tuple[str, str]:
    """The log that agents poll, as people read it."""
    ref, given = Ref(view.parts[1], view.parts[2]), view.query.get('after', '0')
    after = int(given) if given.isascii() and given.isdigit() and len(given) < 16 else 0
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        first, _ = versioned.log_ends(tx, ref)
        found = versioned.events_after(tx, ref, max(after, first - 1), pages.A_PAGE)
    item = versioned.ITEM_FIELD.get(ref.kind, 'item_id')
    rows = [[str(one['sequence']), f'<code>{html.escape(one["type"])}</code>', text(one[item]),
             when(one['updated_at'], view.now_us)] for one in found['events']]
    inner = pages.table(('Sequence', 'Event', 'Item', 'When'), rows, 'Events') if rows else soft('No event here.')
    rest = str(found['next_sequence']) if found['has_more'] else None
    older = soft(f'It begins with {first}: what is older is kept no longer.') if first > 1 else ''
    return f'Event log: {name}', (card('Events', older, inner, pages.more(rest)) +
                                  f'<p>{link(view, "Back to " + name, *ref)}</p>')
