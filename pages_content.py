"""pages_content.py - projects and knowledge articles: to read and to edit as the person one is; every item's log.

Article 6, step 4: what a project opens to an assistant, what is added later included. Article 1: published articles
feed the workspace's assistants and its search; a person's save that comes second is told so and keeps its words.

Not here: Notes (pages_notes.py), records, channels, Rooms, repositories, people (pages_project.py), the clicks
(owner_verbs.py, owner_project.py).
"""
import html
from typing import Dict, List, Optional, Sequence, Tuple

import access
import kb_store
import owner
import pages
import versioned
import workspace as workspaces
from pages import View, area, between, block, card, field, form, hidden, link, listed, soft, tag, text, when
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

KINDS = {'note': 'Notes', 'knowledge_base': 'Knowledge bases', 'record_channel': 'Records', 'channel': 'Channels',
         'room': 'Rooms', 'repository': 'Repositories', 'session': 'Sessions'}
NEW = (('create_note', 'title', 'New Note'), ('create_knowledge_base', 'name', 'New knowledge base'),
       ('create_record_channel', 'name', 'New record channel'), ('create_channel', 'name', 'New channel'),
       ('create_room', 'name', 'New Room'), ('create_repository', 'repository_id', 'New repository'))
STATES = {'published': 'good', 'draft': 'note', 'unpublished': ''}
PUBLISHED = ('Published articles feed the assistants and the search of this workspace. Nobody outside of it sees them; '
             'drafts are seen on these pages only.')
NO_PROJECT = 'No project yet. Make one: an assistant sees only what lies in projects that you add it to.'
LOOSE = 'No assistant sees these, except a Message channel to which it was invited.'
NO_AGENT = 'None. Open a connection and use Add to project.'
NO_CHAT = 'None. A chat links itself with the tool link_current_chat; nobody can open a chat from here.'
DECLARED = 'A label that the chat gave itself: for routing, not identity.'
ON_DEVICE = 'Only on this device: it has no copy in the workspace, and no assistant can see it.'

# --- rules --------------------------------------------------------------------

def projects(view: View) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        found = [(one, name, len(places(tx, view, one))) for one, name in project_names(tx, view.workspace).items()]
        loose = places(tx, view, None)
    lines = [between(f'<h3>{link(view, name, "project", one)}</h3>', f'<span class="soft">{count} items</span>')
             for one, name, count in found]
    add = form(view, 'create_project', field('Name', 'name', more='required maxlength="120"'), 'New project')
    return 'Projects', (card('In this workspace', listed(lines, NO_PROJECT), pages.inline(add)) +
                        card('In no project', soft(LOOSE), item_lists(view, loose) or soft('Nothing.')))


def places(tx: Tx, view: View, project_id: Optional[str]) -> List[Tuple[str, str, str, int]]:
    """(kind, id, name, local_only) of what lies in a project, or in none; only what this person may see."""
    rows = tx.execute("SELECT kind, id, name, local_only FROM places WHERE workspace = ? AND project IS ? "
                      "AND kind <> 'project' ORDER BY kind, folded, id", (view.workspace, project_id)).fetchall()
    return [row for row in rows if access.role_of(tx, view.session.person, Ref(row[0], row[1])) >= workspaces.VIEWER]


def project_names(tx: Tx, workspace: str) -> Dict[str, str]:
    """By name, as lists and choices show them."""
    return dict(tx.execute("SELECT id, name FROM places WHERE kind = 'project' AND workspace = ? ORDER BY folded, id",
                           (workspace,)).fetchall())


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
        name, items = item_name(tx, view, ref), places(tx, view, ref.id)
        agents = tx.execute('SELECT c.connection, c.display_name FROM project_members m JOIN connections c ON '
                            'c.connection = m.connection WHERE m.project = ? ORDER BY c.display_name',
                            (ref.id,)).fetchall()
    chats = owner.run(view.state, view.session.person, 'list_chats', {'project_id': ref.id})['chats']
    new = ''.join(form(view, verb, field(words, name_of, more='required maxlength="100"'), 'Create', project=ref.id)
                  for verb, name_of, words in NEW)
    seen_by = [link(view, words, 'connection', one) if view.may_edit else text(words) for one, words in agents]
    return name, (card('What is in it', item_lists(view, items) or soft('Nothing yet. Create something below.')) +
                  card('Assistants that see it', listed(seen_by, NO_AGENT)) +
                  card('Linked chats', listed([chat_line(view, ref.id, chat) for chat in chats], NO_CHAT)) +
                  (card('Create', pages.inline(new)) if view.may_edit else ''))


def chat_line(view: View, project_id: str, chat: dict) -> str:
    work = [text(one['task']) + ' ' + tag(one['status'], 'good' if one['answer'] else 'note') +
            (block(one['answer']) if one['answer'] else '') for one in chat['work']]
    leave = form(view, 'assign_to_chat', area('Task; it waits until the chat asks', 'task', '', 2), 'Leave this task',
                 project_id=project_id, chat_id=chat['chat_id'])
    return f'<h3>{text(chat["label"])}</h3>{soft(DECLARED)}{listed(work, "No work was left for it.")}{leave}'


def knowledge_base(view: View) -> Tuple[str, str]:
    ref = Ref('knowledge_base', view.parts[1])
    if len(view.parts) > 2:
        return article(view, ref, view.parts[2])
    with view.state.db.read() as tx:
        name, found = item_name(tx, view, ref), kb_store.articles_for_people(tx, ref.id)
    shown = [row for row in found if row[0] > view.query.get('after', '')][:pages.A_PAGE]
    rows = [[link(view, title, 'knowledge_base', ref.id, one), tag(state, STATES[state]), when(saved_us, view.now_us)]
            for one, state, saved_us, title in shown]
    inner = pages.table(('Article', 'State', 'Saved'), rows, 'Articles') if rows else \
        soft('No article yet. Write the first one below.')
    rest = shown[-1][0] if shown and shown[-1][0] != found[-1][0] else None
    publish = '<label><input type="checkbox" name="publish" value="yes"><span>Publish at once</span></label>'
    write = form(view, 'save_article', editor(view, '', '', 8) + publish, 'Save', 'first', knowledge_base_id=ref.id,
                 article_id='')
    return name, (soft(PUBLISHED) + card('Articles', inner, pages.more(view, rest)) + card('New article', write) +
                  whereabouts(view, ref))


def editor(view: View, title: str, content: str, rows: int) -> str:
    """What was typed and refused comes back into the form."""
    return (field('Title', 'title', view.sent.get('title', title), more='required maxlength="300"') +
            area('Text', 'content', view.sent.get('content', content), rows))


def article(view: View, ref: Ref, article_id: str) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        item_name(tx, view, ref)
        found = kb_store.article_for_people(tx, ref.id, article_id)
        by = actor_name(tx, found['updated_by'])
    version, state = versioned.stamp_text(found['updated_us']), found['state']
    ours = {'knowledge_base_id': ref.id, 'article_id': article_id}
    write = form(view, 'save_article', editor(view, found['title'], found['content'], 16), 'Save', 'first',
                 expected_version=version, **ours)
    turn = form(view, 'unpublish_article', '', 'Unpublish', **ours) if state == 'published' else \
        form(view, 'publish_article', '', 'Publish', **ours)
    head = (f'<p>{tag(state, STATES[state])} <span class="soft">saved {when(found["updated_us"], view.now_us)} by '
            f'{text(by)}, version <code>{version}</code></span></p>')
    as_it_is = card('As it is now', block(found['content'])) if 'content' in view.sent else ''
    return found['title'], (head + as_it_is + card('Article', write) + card('Publication', soft(PUBLISHED), turn) +
                            f'<p>{link(view, "Event log of this knowledge base", "events", *ref)}</p>')


# Every item.

def item_name(tx: Tx, view: View, ref: Ref) -> str:
    """Its name, for whoever may see it; else not_found."""
    access.require_role_of(tx, view.session.person, ref, workspaces.VIEWER)
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
        project_id, local = tx.execute('SELECT project, local_only FROM places WHERE kind = ? AND id = ?',
                                       ref).fetchone()
        names = project_names(tx, view.workspace)
    log = f'<p>{link(view, "Event log", "events", *ref)}</p>'
    where = f'<p>In {link(view, names[project_id], "project", project_id)}.</p>' if project_id in names else \
        soft('In no project: no assistant sees it.')
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
        found = versioned.events_after(tx, ref, after, pages.A_PAGE)
    item = versioned.ITEM_FIELD.get(ref.kind, 'item_id')
    rows = [[str(one['sequence']), f'<code>{html.escape(one["type"])}</code>', text(one[item]),
             when(one['updated_at'], view.now_us)] for one in found['events']]
    inner = pages.table(('Sequence', 'Event', 'Item', 'When'), rows, 'Events') if rows else soft('No event here.')
    rest = str(found['next_sequence']) if found['has_more'] else None
    return f'Event log: {name}', (card('Events', inner, pages.more(view, rest)) +
                                  f'<p>{link(view, "Back to " + name, *ref)}</p>')
