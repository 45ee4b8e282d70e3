"""pages_notes.py - a Note as a person reads and edits it, beside an assistant that does the same.

Article 5, "Configurazione" and "Dove sta il limite": every form carries the version that the page showed. When
somebody saved in between, the save changes nothing and the words are kept as a draft, shown here until its person
drops it. Each saved version can be looked at.

Not here: what a save means (note_people.py), the clicks (owner_notes.py), other kinds of items (pages_content.py).
"""
import base64
import html
import json
import secrets
from typing import Any, Dict, List, Sequence, Tuple
from urllib.parse import quote

import note_people
import note_store
import note_tabs
import owner
import pages
from pages import View, area, block, card, field, form, link, listed, soft, text, typed, when
from pages_content import actor_name, item_name, whereabouts
from versioned import Ref, Refusal, Tx
from wire import Response

# --- data ---------------------------------------------------------------------

SHEET_SHOWN = (60, 20)                    # rows and columns of a sheet on its page; an assistant reads any range
HISTORY_SHOWN = 20
WHOLE_NOTE = 'It belongs to the whole Note: a save in any tab moves it.'
FILES = 'An assistant sees their names and sizes, never content or a download link.'
NO_TEXT = 'It is no text: nothing of it is shown here.'
DOWNLOAD = (('Content-Type', 'application/octet-stream'), ('X-Content-Type-Options', 'nosniff'),
            ('Content-Security-Policy', "default-src 'none'; sandbox"), ('Cache-Control', 'no-store'),
            ('Referrer-Policy', 'no-referrer'))
KEPT = ('Not saved: somebody saved this Note first. Your words for {} are kept here, {}. Put what is still right into '
        'the tab, save, then drop the draft.')

# --- rules --------------------------------------------------------------------

def new_key() -> str:
    """An idempotency key for one shown form: sent twice, it saves once."""
    return 'page-' + secrets.token_hex(12)


def note(view: View) -> Tuple[str, str]:
    ask = {'note_id': view.parts[1]}
    found = owner.run(view.state, view.session.person, 'read_note', ask)
    drafts = owner.run(view.state, view.session.person, 'list_drafts', ask)['drafts']
    labels = {one['tab_id']: one['label'] for one in found['tabs']}
    chosen = view.parts[2] if len(view.parts) > 2 else next(iter(labels), '')
    head = (f'<p class="soft">Version <code>{found["version"]}</code>, saved {when(found["version"], view.now_us)}. '
            f'{WHOLE_NOTE}</p>')
    return found['title'], (head + ''.join(draft(view, one, labels) for one in drafts) +
                            tab_list(view, found['tabs'], chosen) + (tab(view, chosen) if chosen else '') +
                            attachments(view) + history(view, labels) + whereabouts(view, Ref('note', view.parts[1])))


def tab_list(view: View, tabs: Sequence[dict], chosen: str) -> str:
    lines = ''
    for one in tabs:
        address = pages.at(view, 'note', view.parts[1], one['tab_id'])
        lines += (f'<li><a href="{address}"{pages.current(one["tab_id"] == chosen)}>{text(one["label"])}</a> '
                  f'<span class="soft">({html.escape(one["tab_type"])})</span></li>')
    return f'<nav aria-label="Tabs of this Note"><ul>{lines}</ul></nav>' if lines else soft('This Note has no tab.')


def tab(view: View, tab_id: str) -> str:
    """One tab, with the form that fits its kind. The version shown is the one that a save must still find."""
    ask = {'note_id': view.parts[1], 'tab_id': tab_id}
    found = owner.run(view.state, view.session.person, 'read_tab', ask)
    base = dict(ask, base_version=found['version'], idempotency_key=new_key())
    shape = text_tab if found['tab_type'] in note_tabs.TEXT_KINDS else \
        {'slides': slides_tab, 'sheet': sheet_tab}.get(found['tab_type'], data_tab)
    return card(found['label'], shape(view, found, base))


def text_tab(view: View, found: dict, base: Dict[str, str]) -> str:
    words = typed(view, 'save_note', 'text', found['text'])
    return form(view, 'save_note', area('Text', 'text', words, 14), 'Save', 'first', operation='replace_text',
                **base) or block(words)


def slides_tab(view: View, found: dict, base: Dict[str, str]) -> str:
    slides = [f'<h3>{text(one["title"])}</h3>{block(one["text"]) if one["text"] else ""}' for one in found['slides']]
    more = (field('Title', 'title', typed(view, 'save_note', 'title')) +
            area('Text', 'text', typed(view, 'save_note', 'text'), 3))
    return listed(slides, 'No slide yet.') + form(view, 'save_note', more, 'Add slide', operation='slide_add', **base)


def sheet_tab(view: View, found: dict, base: Dict[str, str]) -> str:
    corner = (field('From row', 'start_row', typed(view, 'save_note', 'start_row', '0'), 'number') +
              field('From column', 'start_col', typed(view, 'save_note', 'start_col', '0'), 'number'))
    cells = area('Cells: a line a row, commas between cells', 'cells', typed(view, 'save_note', 'cells'), 3)
    return cells_table(view, found) + form(view, 'save_note', f'<div class="row short">{corner}</div>{cells}',
                                           'Set cells', operation='sheet_set_range', **base)


def data_tab(view: View, found: dict, base: Dict[str, str]) -> str:
    words = typed(view, 'save_note', 'data', json.dumps(found['values'], ensure_ascii=False, indent=1))
    return form(view, 'save_note', area('Data (JSON)', 'data', words), 'Save', 'first',
                operation='replace_tab_data', **base) or block(words)


def cells_table(view: View, found: dict) -> str:
    size = found['row_count'], found['col_count']
    rows, cols = min(size[0], SHEET_SHOWN[0]), min(size[1], SHEET_SHOWN[1])
    if not rows or not cols:
        return pages.nothing(view, 'Empty.', 'Set the first cells below.')
    with view.state.db.read() as tx:
        values = first_rows(tx, found['tab_id'], rows, cols)
    rows = len(values)
    body = [[f'<span class="soft">{number}</span>', *(text(pages.value_text(cell)) for cell in row)]
            for number, row in enumerate(values)]
    cut = soft(f'The first {rows} of {size[0]} rows and {cols} of {size[1]} columns.') if (rows, cols) != size else ''
    return pages.table(('Row', *map(str, range(cols))), body, 'Cells') + cut


def first_rows(tx: Tx, tab: str, rows: int, cols: int) -> List[List[Any]]:
    """As many as an answer may hold: a few long cells must not close the page."""
    while rows > 1:
        try:
            return note_tabs.read_cells(tx, tab, 0, 0, rows, cols)
        except Refusal:
            rows //= 2
    return note_tabs.read_cells(tx, tab, 0, 0, rows, cols)


def draft(view: View, one: dict, labels: Dict[str, str]) -> str:
    """What a person tried to save when somebody else had saved: kept until they drop it."""
    change = {name: one[name] for name in note_tabs.CONTENT_FIELDS if name in one}
    words = one['text'] if isinstance(one.get('text'), str) else json.dumps(change, ensure_ascii=False)
    notice = KEPT.format(text(labels.get(one['tab_id'], one['tab_id'])), when(one['kept_at'], view.now_us))
    drop = form(view, 'drop_draft', '', 'Drop this draft', note_id=view.parts[1], draft_id=one['draft_id'])
    return f'<section class="card"><h2>Your draft</h2><p class="notice">{notice}</p>{block(words)}{drop}</section>'


def attachments(view: View) -> str:
    with view.state.db.read() as tx:
        found = note_store.list_note_attachments(tx, '', {'note_id': view.parts[1]}, view.now_us)
    files = [f'{link(view, one["name"], "file", view.parts[1], one["file_id"])} '
             f'<span class="soft">{text(one["media_type"])}, {one["size_bytes"]:,} bytes</span>'
             for one in found['files']]
    # Only http and https come into the store, and rel keeps this page's address from the page that is linked.
    sources = [f'<a href="{html.escape(one["url"])}" rel="noopener noreferrer nofollow">{text(one["url"])}</a>'
               for one in found['sources']]
    inner = (pages.file_field(f'File, at most {note_people.FILE_BYTES:,} bytes', 'file') +
             area('or a text', 'file_text', typed(view, 'attach_file', 'file_text'), 4) +
             field('Name; empty: as the file is called', 'name', typed(view, 'attach_file', 'name'),
                   more='maxlength="200"'))
    attach = form(view, 'attach_file', inner, 'Attach', files=True, note_id=view.parts[1], idempotency_key=new_key())
    return card('Files and Sources', soft(FILES), listed(files + sources, 'None.'),
                pages.details('Attach a file', attach, pages.is_refused(view, 'attach_file')))


def file(view: View) -> Tuple[str, str]:
    """A file of a Note as text: what somebody attached must not run as a page."""
    one, content = read_file(view)
    with view.state.db.read() as tx:
        name = item_name(tx, view, Ref('note', view.parts[1]))
    try:
        shown = block(content.decode('utf-8'))
    except UnicodeDecodeError:
        shown = soft(NO_TEXT)
    head = (f'<p class="soft">{text(one["media_type"])}, {len(content):,} bytes, added '
            f'{when(one["added_at"], view.now_us)}</p>')
    links = link(view, 'Download', 'download', *view.parts[1:]), link(view, 'Back to ' + name, 'note', view.parts[1])
    return one['name'], head + card('Content', shown) + f'<p class="row">{" ".join(links)}</p>'


def download(view: View) -> Response:
    """Its bytes, for a folder and not for the window: no browser makes a page of these headers."""
    one, content = read_file(view)
    disposition = "attachment; filename*=UTF-8''" + quote(one['name'], safe='')
    return Response(200, (*DOWNLOAD, ('Content-Disposition', disposition)), content)


def read_file(view: View) -> Tuple[dict, bytes]:
    """(what is known of the file, its content), for whoever may see it."""
    ask = {'note_id': view.parts[1], 'file_id': view.parts[2]}
    content = base64.b64decode(owner.run(view.state, view.session.person, 'read_file', ask)['content_base64'])
    with view.state.db.read() as tx:
        files = note_store.list_note_attachments(tx, '', ask, view.now_us)['files']
    return next(one for one in files if one['file_id'] == view.parts[2]), content


def history(view: View, labels: Dict[str, str]) -> str:
    ask = {'note_id': view.parts[1], 'limit': HISTORY_SHOWN + 1}
    if 'after' in view.query:
        ask['before'] = view.query['after']
    found = owner.run(view.state, view.session.person, 'note_history', ask)['history']
    with view.state.db.read() as tx:
        names = {one['actor']: actor_name(tx, one['actor']) for one in found}
    rows = [[pages.dated(view, one['version'], 'version', view.parts[1], one['version']), text(names[one['actor']]),
             text(labels.get(one['tab_id'], '')), f'<code>{html.escape(one["operation"])}</code>']
            for one in found[:HISTORY_SHOWN]]
    rest = found[HISTORY_SHOWN - 1]['version'] if len(found) > HISTORY_SHOWN else None
    return card('History', pages.table(('Saved', 'Who', 'Tab', 'What'), rows, 'History'),
                pages.more(rest, 'Earlier versions'))


def version(view: View) -> Tuple[str, str]:
    """What one saved version of a Note brought: any earlier text can be had back from here."""
    note_id, stamp = view.parts[1:]
    change = owner.run(view.state, view.session.person, 'note_change', {'note_id': note_id, 'version': stamp})
    with view.state.db.read() as tx:
        name, by = item_name(tx, view, Ref('note', note_id)), actor_name(tx, change.pop('actor'))
    words = change['text'] if isinstance(change.get('text'), str) else json.dumps(change, ensure_ascii=False, indent=1)
    head = (f'<p class="soft">Saved {when(stamp, view.now_us)} by {text(by)}: '
            f'<code>{html.escape(change["operation"])}</code>, version <code>{html.escape(stamp)}</code></p>')
    return f'A saved version of {name}', (head + card('What it brought', block(words)) +
                                        f'<p>{link(view, "Back to " + name, "note", note_id)}</p>')
