"""pages_content.py - projects, knowledge articles and Notes: to read and to edit as the person one is.

Article 5: a person's save carries the version that the page showed; when somebody saved in between it changes nothing
and the words are kept. Article 1: published articles feed the workspace's assistants and its search. Article 6, step 4:
what a project opens to an assistant.

Not here: records, channels, Rooms, repositories, people (pages_project.py), the clicks (owner_notes.py, owner_project.py).
"""
import html
import json
import secrets
from typing import Any, Dict, List, Sequence, Tuple

import access
import kb_store
import note_people
import note_store
import note_tabs
import owner
import pages
import versioned
import workspace as workspaces
from pages import View, area, block, card, field, form, hidden, link, listed, soft, tag, text, when
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
SHEET_SHOWN = (60, 20)                    # rows and columns of a sheet on its page; an assistant reads any range

# --- rules --------------------------------------------------------------------

def actor_name(tx: Tx, actor: str) -> str:
    kind, _, one = actor.partition(':')
    if kind == 'person':
        return workspaces.person_name(tx, one)
    row = tx.execute('SELECT display_name FROM connections WHERE connection = ?', (one,)).fetchone()
    return f'{row[0]} (assistant)' if row else actor


def new_key() -> str:
    """An idempotency key for one shown form: sent twice, it saves once."""
    return 'page-' + secrets.token_hex(12)


def places(tx: Tx, view: View, project: Any) -> List[Tuple[str, str, str, int]]:
    """(kind, id, name, local_only) of what lies in a project, or in none; only what this person may see."""
    rows = tx.execute("SELECT kind, id, name, local_only FROM places WHERE workspace = ? AND project IS ? "
                      "AND kind <> 'project' ORDER BY kind, folded, id", (view.workspace, project)).fetchall()
    return [row for row in rows if access.role_of(tx, view.session.person, Ref(row[0], row[1])) >= workspaces.VIEWER]


def project_options(tx: Tx, view: View) -> List[Tuple[str, str]]:
    return tx.execute("SELECT id, name FROM places WHERE kind = 'project' AND workspace = ? ORDER BY folded, id",
                      (view.workspace,)).fetchall()


def projects(view: View) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        found = [(one, name, len(places(tx, view, one))) for one, name in project_options(tx, view)]
        loose = places(tx, view, None)
    lines = [f'<div class="between"><h3>{link(view, name, "project", one)}</h3><span class="soft">{count} items</span></div>'
             for one, name, count in found]
    add = form(view, 'create_project', field('Name', 'name', more='required maxlength="120"'), 'New project')
    return 'Projects', card('In this workspace', listed(lines, 'No project yet. Make one: an assistant sees only what lies '
                                                        'in projects you add it to.'), add) + \
        card('In no project', soft('No assistant sees these, except a Message channel to which it was invited.'),
             item_lists(view, loose) or soft('Nothing.'))


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
        access.require_role_of(tx, view.session.person, ref, workspaces.VIEWER)
        name = dict(project_options(tx, view))[ref.id]
        items = places(tx, view, ref.id)
        agents = tx.execute('SELECT c.connection, c.display_name FROM project_members m JOIN connections c '
                            'ON c.connection = m.connection WHERE m.project = ? ORDER BY c.display_name', (ref.id,)).fetchall()
    chats = owner.run(view.state, view.session.person, 'list_chats', {'project_id': ref.id})['chats']
    new = ''.join(form(view, verb, field(words, name_of, more='required maxlength="100"'), 'Create', project=ref.id)
                  for verb, name_of, words in NEW)
    return name, (
        card('What is in it', item_lists(view, items) or soft('Nothing yet. Create something below.')) +
        card('Assistants that see it', listed([link(view, words, 'connection', one) for one, words in agents],
                                              'None. Open a connection and use Add to project.')) +
        card('Linked chats', listed([chat_line(view, ref.id, chat) for chat in chats],
                                    'None. A chat links itself with the tool link_current_chat; nobody can open a chat from '
                                    'here.')) + card('Create', new))


def chat_line(view: View, project_id: str, chat: dict) -> str:
    work = listed([f'{text(one["task"])} {tag(one["status"], "good" if one["answer"] else "note")}'
                   f'{block(one["answer"]) if one["answer"] else ""}' for one in chat['work']], 'No work was left for it.')
    leave = form(view, 'assign_to_chat', area('Task; it waits until the chat asks', 'task', '', 2), 'Leave this task',
                 project_id=project_id, chat_id=chat['chat_id'])
    return f'<h3>{text(chat["label"])}</h3>{soft("A label the chat gave itself: for routing, not identity.")}{work}{leave}'


# Knowledge bases.

def knowledge_base(view: View) -> Tuple[str, str]:
    ref = Ref('knowledge_base', view.parts[1])
    if len(view.parts) > 2:
        return article(view, ref, view.parts[2])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = kb_store.articles_for_people(tx, ref.id)
        after = view.query.get('after', '')
        shown = [row for row in found if row[0] > after][:pages.A_PAGE]
    rows = [[link(view, title, 'knowledge_base', ref.id, one), tag(state, STATES[state]), when(updated_us, view.now_us)]
            for one, state, updated_us, title in shown]
    inner = pages.table(('Article', 'State', 'Saved'), rows, 'Articles') if rows else \
        soft('No article yet. Write the first one below.')
    rest = shown[-1][0] if shown and shown[-1][0] != found[-1][0] else None
    write = form(view, 'save_article', field('Title', 'title', view.sent.get('title', ''), more='required maxlength="300"') +
                 area('Text', 'content', view.sent.get('content', '')) +
                 '<label><input type="checkbox" name="publish" value="yes"><span>Publish at once</span></label>', 'Save', 'first',
                 knowledge_base_id=ref.id, article_id='')
    return name, soft(PUBLISHED) + card('Articles', inner, pages.more(view, rest)) + card('New article', write) + \
        whereabouts(view, ref)


def article(view: View, ref: Ref, article_id: str) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        item_name(tx, view, ref)
        found = kb_store.article_for_people(tx, ref.id, article_id)
        by = actor_name(tx, found['updated_by'])
    version = versioned.stamp_text(found['updated_us'])
    turned = 'unpublish_article' if found['state'] == 'published' else 'publish_article'
    ours = {'knowledge_base_id': ref.id, 'article_id': article_id}
    write = form(view, 'save_article', field('Title', 'title', view.sent.get('title', found['title'])) +
                 area('Text', 'content', view.sent.get('content', found['content']), 16), 'Save', 'first',
                 expected_version=version, **ours)
    kept = card('As it is now', block(found['content'])) if 'content' in view.sent else ''
    return found['title'], (
        f'<p>{tag(found["state"], STATES[found["state"]])} <span class="soft">saved {when(found["updated_us"], view.now_us)} '
        f'by {text(by)}, version <code>{version}</code></span></p>{kept}' + card('Article', write) +
        card('Publication', soft(PUBLISHED), form(view, turned, '', 'Unpublish' if turned[0] == 'u' else 'Publish', **ours)) +
        f'<p>{link(view, "Event log of this knowledge base", "events", *ref)}</p>')


# Notes.

def note(view: View) -> Tuple[str, str]:
    ref = Ref('note', view.parts[1])
    ask = {'note_id': ref.id}
    found = owner.run(view.state, view.session.person, 'read_note', ask)
    drafts = owner.run(view.state, view.session.person, 'list_drafts', ask)['drafts']
    history = owner.run(view.state, view.session.person, 'note_history', {**ask, 'limit': 20})['history']
    with view.state.db.read() as tx:
        attached = note_store.list_note_attachments(tx, '', ask, view.now_us)
        names = {one['actor']: actor_name(tx, one['actor']) for one in history}
    chosen = view.parts[2] if len(view.parts) > 2 else found['tabs'][0]['tab_id'] if found['tabs'] else ''
    tabs = ''.join(f'<li><a href="{pages.at(view, "note", ref.id, one["tab_id"])}"{pages.current(one["tab_id"] == chosen)}>'
                   f'{text(one["label"])}</a> <span class="soft">({html.escape(one["tab_type"])})</span></li>'
                   for one in found['tabs'])
    body = f'<nav aria-label="Tabs of this Note"><ul>{tabs}</ul></nav>' if tabs else soft('This Note has no tab.')
    if chosen:
        body += tab(view, ref.id, chosen)
    labels = {one['tab_id']: one['label'] for one in found['tabs']}
    return found['title'], (
        f'<p class="soft">Version <code>{found["version"]}</code>, saved {when(found["version"], view.now_us)}. It belongs to '
        f'the whole Note: a save in any tab moves it.</p>{"".join(draft(view, one, labels) for one in drafts)}' + body +
        attachments(view, attached) + history_part(view, history, names, labels) + whereabouts(view, ref))


def tab(view: View, note_id: str, tab_id: str) -> str:
    """One tab, with the form that fits its kind. The version shown is the one that a save must still find."""
    ask = {'note_id': note_id, 'tab_id': tab_id}
    found = owner.run(view.state, view.session.person, 'read_tab', ask)
    save = dict(ask, base_version=found['version'], idempotency_key=new_key())
    kind = found['tab_type']
    if kind in note_tabs.TEXT_KINDS:
        shown = form(view, 'save_note', area('Text', 'text', found['text'], 14), 'Save', 'first', operation='replace_text', **save)
    elif kind == 'slides':
        shown = listed([f'<h3>{text(one["title"])}</h3>{block(one["text"]) if one.get("text") else ""}'
                        for one in found['slides']], 'No slide yet.') + form(
            view, 'save_note', field('Title', 'title') + area('Text', 'text', '', 3), 'Add slide', operation='slide_add', **save)
    elif kind == 'sheet':
        shown = sheet(view, note_id, found) + form(
            view, 'save_note', '<div class="row short">' + field('From row', 'start_row', '0', 'number') +
            field('From column', 'start_col', '0', 'number') + '</div>' +
            area('Cells: a line a row, commas between cells', 'cells', '', 3), 'Set cells', operation='sheet_set_range', **save)
    else:
        shown = form(view, 'save_note', area('Data (JSON)', 'data', json.dumps(found['values'], ensure_ascii=False, indent=1)),
                     'Save', 'first', operation='replace_tab_data', **save)
    return card(found['label'], shown)


def sheet(view: View, note_id: str, found: dict) -> str:
    rows, cols = min(found['row_count'], SHEET_SHOWN[0]), min(found['col_count'], SHEET_SHOWN[1])
    if not rows or not cols:
        return soft('Empty. Set the first cells below.')
    with view.state.db.read() as tx:
        values = note_tabs.read_cells(tx, found['tab_id'], 0, 0, rows, cols)
    body = [[f'<span class="soft">{number}</span>', *(text(pages.value_text(cell)) for cell in row)]
            for number, row in enumerate(values)]
    cut = soft(f'The first {rows} of {found["row_count"]} rows and {cols} of {found["col_count"]} columns.') \
        if (rows, cols) != (found['row_count'], found['col_count']) else ''
    return pages.table(('', *map(str, range(cols))), body, 'Cells') + cut


def draft(view: View, one: dict, labels: Dict[str, str]) -> str:
    """What a person tried to save when somebody else had saved: kept until they drop it."""
    kept = one.get('text') or json.dumps({name: one[name] for name in note_tabs.CONTENT_FIELDS if name in one},
                                         ensure_ascii=False)
    return (f'<section class="card"><p class="notice">Not saved: somebody saved this Note first. Your words for '
            f'{text(labels.get(one["tab_id"], one["tab_id"]))} are kept here, {when(one["kept_at"], view.now_us)}. Put what is '
            f'still right into the tab, save, then drop the draft.</p>{block(kept)}'
            f'{form(view, "drop_draft", "", "Drop this draft", note_id=view.parts[1], draft_id=one["draft_id"])}</section>')


def attachments(view: View, attached: dict) -> str:
    files = [f'{text(one["name"])} <span class="soft">{text(one["media_type"])}, {one["size_bytes"]:,} bytes</span>'
             for one in attached['files']]
    # Only http and https reach the store, and rel keeps the page's address to itself.
    sources = [f'<a href="{html.escape(one["url"])}" rel="noopener noreferrer nofollow">{text(one["url"])}</a>'
               for one in attached['sources']]
    return card('Files and Sources', soft('An assistant sees their names and sizes, never content or a download link.'),
                listed(files + sources, 'None.'))


def history_part(view: View, history: Sequence[dict], names: Dict[str, str], labels: Dict[str, str]) -> str:
    rows = [[when(one['version'], view.now_us), text(names[one['actor']]), text(labels.get(one['tab_id'], '')),
             f'<code>{html.escape(one["operation"])}</code>', link(view, 'Show', 'version', view.parts[1], one['version'])]
            for one in history]
    return card('History', pages.table(('When', 'Who', 'Tab', 'What', ''), rows, 'History') if rows else soft('None.'))


def version(view: View) -> Tuple[str, str]:
    """What one saved version of a Note brought: any earlier text can be had back from here."""
    ask = {'note_id': view.parts[1], 'version': view.parts[2]}
    change = owner.run(view.state, view.session.person, 'note_change', ask)
    with view.state.db.read() as tx:
        name, by = item_name(tx, view, Ref('note', view.parts[1])), actor_name(tx, change.pop('actor'))
    brought = change['text'] if isinstance(change.get('text'), str) else json.dumps(change, ensure_ascii=False, indent=1)
    return f'{name}: a saved version', (
        f'<p class="soft">Saved {when(view.parts[2], view.now_us)} by {text(by)}: <code>{html.escape(change["operation"])}</code>, '
        f'version <code>{html.escape(view.parts[2])}</code></p>' + card('What it brought', block(brought)) +
        f'<p>{link(view, "Back to " + name, "note", view.parts[1])}</p>')


# Every item.

def item_name(tx: Tx, view: View, ref: Ref) -> str:
    """Its name, for whoever may see it; else not_found."""
    access.require_role_of(tx, view.session.person, ref, workspaces.VIEWER)
    return tx.execute('SELECT name FROM places WHERE kind = ? AND id = ?', ref).fetchone()[0] or ref.id


def whereabouts(view: View, ref: Ref) -> str:
    """In which project an item lies, and its log."""
    with view.state.db.read() as tx:
        project_id, local = tx.execute('SELECT project, local_only FROM places WHERE kind = ? AND id = ?', ref).fetchone()
        options = project_options(tx, view)
    names = dict(options)
    where = f'In {link(view, names[project_id], "project", project_id)}.' if project_id in names else 'In no project: no ' \
        'assistant sees it.'
    device = soft('Only on this device: it has no copy in the workspace, and no assistant can see it.') if local else ''
    rest = [(one, name) for one, name in options if one != project_id]
    move = form(view, 'move_item', pages.select('Project', 'project', rest),
                'Move' if project_id else 'Add to project', kind=ref.kind, id=ref.id) if rest else ''
    out = form(view, 'move_item', hidden('project', ''), 'Take out of the project', kind=ref.kind, id=ref.id) \
        if project_id else ''
    return card('Project', f'<p>{where}</p>', device, move, out, f'<p>{link(view, "Event log", "events", *ref)}</p>')


def events(view: View) -> Tuple[str, str]:
    """The log that agents poll, as people read it."""
    ref = Ref(view.parts[1], view.parts[2])
    given = view.query.get('after', '0')
    after = int(given) if given.isascii() and given.isdigit() and len(given) < 16 else 0
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = versioned.events_after(tx, ref, after, pages.A_PAGE)
    item = versioned.ITEM_FIELD.get(ref.kind, 'item_id')
    rows = [[str(one['sequence']), f'<code>{html.escape(one["type"])}</code>', text(one[item]), when(one['updated_at'], view.now_us)]
            for one in found['events']]
    inner = pages.table(('Sequence', 'Event', 'Item', 'When'), rows, 'Events') if rows else soft('No event after this one.')
    return f'Event log: {name}', card('Events', inner, pages.more(view, str(found['next_sequence']) if found['has_more'] else None)) \
        + f'<p>{link(view, "Back to " + name, *ref)}</p>'


