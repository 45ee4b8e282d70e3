"""note_store.py - Notes that an agent and a person write at the same time, and nobody's words disappear.

Article 5, whole: one version for the whole Note, carried by every write; a stale write is refused, never merged;
exact tab ids; a range instead of the sheet; create_note_tab only adds; files stay metadata. The seven tools' store
side is here, in the order of the article's list, then what all writes share.

A write is: once (a retry gets the first answer), the check of the arguments, the comparison of the version inside the
UPDATE, the tab's own rows, one line of history, one event. Nothing else of the Note is touched.

    python3 client.py notes       the article's run, with Mika saving in between, in a few seconds
    python3 bench.py notes        1 to 1,000 tabs, a sheet of 1,000 x 1,000

Not here: what a tab holds and which operation fits it (note_tabs.py), a person's saves and drafts (note_people.py),
folders (note_folder.py), projects and rights (access.py): a store knows no connection and no project.
"""
import json
import re
import secrets
from typing import Optional, Sequence
from urllib.parse import urlsplit

import note_tabs
import versioned
from note_tabs import Tab
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (
    note_id TEXT PRIMARY KEY,
    title   TEXT NOT NULL,
    version INTEGER NOT NULL              -- of the whole Note, microseconds: any save of any tab moves it
);
CREATE TABLE IF NOT EXISTS note_tabs (
    tab_id    TEXT PRIMARY KEY,           -- random: neither a label nor a kind leads to it, and it is never used again
    note_id   TEXT NOT NULL,
    position  INTEGER NOT NULL,
    tab_type  TEXT NOT NULL,
    label     TEXT NOT NULL,              -- not unique: "Owners" may stand twice
    row_count INTEGER NOT NULL DEFAULT 0,
    col_count INTEGER NOT NULL DEFAULT 0,
    UNIQUE (note_id, position)
);
-- Saved versions: who, when (the version is the time), what. Never updated: a tab can be rebuilt from its lines.
CREATE TABLE IF NOT EXISTS note_history (
    note_id   TEXT NOT NULL,
    version   INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    operation TEXT NOT NULL,
    tab_id    TEXT NOT NULL,              -- '' where the change is the Note's own: a source, a file, its creation
    change    TEXT NOT NULL,              -- JSON: the content as it was written
    UNIQUE (note_id, version)
);
CREATE TABLE IF NOT EXISTS note_sources (
    source_id TEXT PRIMARY KEY,
    note_id   TEXT NOT NULL,
    url       TEXT NOT NULL,
    added_us  INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS note_sources_by_note ON note_sources (note_id, added_us);
-- The bytes are for people's pages only. No function that a tool calls selects them.
CREATE TABLE IF NOT EXISTS note_files (
    file_id    TEXT PRIMARY KEY,
    note_id    TEXT NOT NULL,
    name       TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    added_us   INTEGER NOT NULL,
    content    BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS note_files_by_note ON note_files (note_id, added_us);
-- A person's text that lost against a newer version, or was not sent yet. Only that person sees it.
CREATE TABLE IF NOT EXISTS note_drafts (
    draft_id     TEXT PRIMARY KEY,
    note_id      TEXT NOT NULL,
    tab_id       TEXT NOT NULL,
    actor        TEXT NOT NULL,
    operation    TEXT NOT NULL,
    change       TEXT NOT NULL,
    base_version INTEGER NOT NULL,
    kept_us      INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS note_drafts_by_person ON note_drafts (actor, note_id, kept_us);
""" + note_tabs.SCHEMA

# What the content of a new tab is checked and written as; that of the other content tabs as replace_tab_data.
FILLS = {'note': 'replace_text', 'markdown': 'replace_text', 'slides': 'slides_add_outline', 'sheet': 'sheet_set_range'}
TABS_A_NOTE, SOURCES_A_NOTE = 5_000, 1_000
URL_CHARS = 2_000
# Whole and printable: a space, a quote, a backslash or a control character could end the link wherever it is shown.
WEB_URL = re.compile(r'https?://[^\s\x00-\x20\x7f-\x9f<>"\\^`{|}'
                     r'\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+', re.IGNORECASE)


# --- rules --------------------------------------------------------------------

def list_note_tabs(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Every tab instance with its exact id, two sheets of one label included, and the version a new tab is based on."""
    note_id = arguments['note_id']
    title, version = note_head(tx, note_id)
    rows = tx.execute('SELECT tab_id, tab_type, label, row_count, col_count FROM note_tabs WHERE note_id = ? '
                      'ORDER BY position', (note_id,))
    tabs = []
    for tab_id, tab_type, label, row_count, col_count in rows:
        size = {'row_count': row_count, 'col_count': col_count} if tab_type == 'sheet' else {}
        tabs.append({'tab_id': tab_id, 'tab_type': tab_type, 'label': label, **size})
    return {'note_id': note_id, 'title': title, 'version': versioned.stamp_text(version), 'tabs': tabs}


def read_note_tab(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    tab = find_tab(tx, arguments['note_id'], arguments['tab_id'])
    return {'note_id': tab.note_id, 'tab_id': tab.tab_id, 'tab_type': tab.tab_type, 'label': tab.label,
            'version': versioned.stamp_text(tab.version), **note_tabs.read_content(tx, tab)}


def read_sheet_range(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Exactly row_count x col_count values from (start_row, start_col), at most 100 x 100; empty cells are null."""
    tab = find_tab(tx, arguments['note_id'], arguments['tab_id'])
    if tab.tab_type != 'sheet':
        raise versioned.invalid('tab_id', f'that of a sheet: this tab is of the kind {tab.tab_type}')
    corner, size = (arguments['start_row'], arguments['start_col']), (arguments['row_count'], arguments['col_count'])
    note_tabs.require_range(*corner, *size, ('row_count', 'col_count'))
    return {'note_id': tab.note_id, 'tab_id': tab.tab_id, 'version': versioned.stamp_text(tab.version),
            'start_row': corner[0], 'start_col': corner[1], 'row_count': size[0], 'col_count': size[1],
            'values': note_tabs.read_cells(tx, tab.tab_id, *corner, *size)}


def list_note_attachments(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Files and Sources as metadata. No content and no link to it: a link in a chat would outlive the connection."""
    note_id = arguments['note_id']
    version = note_head(tx, note_id)[1]
    files = tx.execute('SELECT file_id, name, media_type, size_bytes, added_us FROM note_files WHERE note_id = ? '
                       'ORDER BY added_us', (note_id,))
    sources = tx.execute('SELECT source_id, url, added_us FROM note_sources WHERE note_id = ? '
                         'ORDER BY added_us', (note_id,))
    return {'note_id': note_id, 'version': versioned.stamp_text(version),
            'files': [{'file_id': file_id, 'name': name, 'media_type': media_type, 'size_bytes': size_bytes,
                       'added_at': versioned.stamp_text(added_us)}
                      for file_id, name, media_type, size_bytes, added_us in files],
            'sources': [{'source_id': source_id, 'url': url, 'added_at': versioned.stamp_text(added_us)}
                        for source_id, url, added_us in sources]}


def edit_note_tab(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """One operation on one tab, against the version the Note was last read at. Refuses stale_version, never merges."""
    def work() -> dict:
        base_us = versioned.parse_stamp(arguments.get('expected_version'))
        return edit(tx, actor, arguments, base_us, now_us, note_tabs.FITS)
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'edit_note_tab', arguments, work)


def create_note_tab(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Add a slides or sheet tab at the end. It has no way to name a tab that exists, so it cannot replace one."""
    def work() -> dict:
        if arguments.get('tab_type') not in note_tabs.CREATABLE:
            raise versioned.invalid('tab_type', 'one of ' + ', '.join(note_tabs.CREATABLE))
        if arguments['tab_type'] == 'sheet' and 'slides' in arguments:
            raise versioned.invalid('slides', 'left out: they go into a slides tab')
        base_us = versioned.parse_stamp(arguments.get('expected_version'))
        return add_tab(tx, actor, arguments['note_id'], arguments, base_us, now_us)
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'create_note_tab', arguments, work)


def add_note_source(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Cite a web page in the Note. The URL is kept as given; nobody fetches it."""
    def work() -> dict:
        note_id, url = arguments['note_id'], checked_url(arguments.get('url'))
        base_us = versioned.parse_stamp(arguments.get('expected_version'))
        sources = tx.execute('SELECT COUNT(*) FROM note_sources WHERE note_id = ?', (note_id,)).fetchone()[0]
        require_room('sources', sources, SOURCES_A_NOTE)
        version = save(tx, actor, note_id, '', 'add_note_source', {'url': url}, base_us, 'source_added', now_us)
        source_id = new_id('source')
        tx.execute('INSERT INTO note_sources VALUES (?, ?, ?, ?)', (source_id, note_id, url, version))
        return {'note_id': note_id, 'source_id': source_id, 'url': url, 'version': versioned.stamp_text(version)}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'add_note_source', arguments, work)


def create_note(tx: Tx, actor: str, note_id: str, title: str, tabs: Sequence[dict], now_us: int) -> int:
    """A new Note with `tabs` ({tab_type, label, and the kind's content}) -> its version. Its place: access.place."""
    note_tabs.checked_label('note_id', note_id)
    note_tabs.checked_label('title', title)
    if tx.execute('SELECT 1 FROM notes WHERE note_id = ?', (note_id,)).fetchone():
        raise versioned.invalid('note_id', f'new: there is a Note {note_id!r}')
    tx.execute('INSERT INTO notes VALUES (?, ?, 0)', (note_id, title))
    version = save(tx, actor, note_id, '', 'create_note', {'title': title}, 0, 'created', now_us)
    for tab in tabs:
        version = versioned.parse_stamp(add_tab(tx, actor, note_id, tab, version, now_us)['version'])
    return version


def edit(tx: Tx, actor: str, arguments: dict, base_us: int, now_us: int, fits: dict) -> dict:
    """What an agent's edit and a person's save share: fit, check, compare and swap, write."""
    tab = find_tab(tx, arguments['note_id'], arguments['tab_id'])
    operation = arguments.get('operation')
    note_tabs.require_fit(operation, tab.tab_type, fits)
    change = note_tabs.change_of(operation, arguments)
    version = save(tx, actor, tab.note_id, tab.tab_id, operation, change, base_us, 'updated', now_us)
    note_tabs.apply_change(tx, tab, operation, change)
    return {'note_id': tab.note_id, 'tab_id': tab.tab_id, 'version': versioned.stamp_text(version)}


def add_tab(tx: Tx, actor: str, note_id: str, wanted: dict, base_us: int, now_us: int) -> dict:
    """Append a tab, with content when `wanted` brings some. One version, one line of history, one event."""
    tab_type, label = wanted.get('tab_type'), note_tabs.checked_label('label', wanted.get('label'))
    if tab_type not in note_tabs.TAB_TYPES:
        raise versioned.invalid('tab_type', 'one of ' + ', '.join(note_tabs.TAB_TYPES))
    fill = FILLS.get(tab_type, 'replace_tab_data')
    filled = any(field in wanted for field in note_tabs.CONTENT_FIELDS)
    change = note_tabs.change_of(fill, wanted) if filled else {}
    note_head(tx, note_id)
    position = tx.execute('SELECT COUNT(*) FROM note_tabs WHERE note_id = ?', (note_id,)).fetchone()[0]
    require_room('tabs', position, TABS_A_NOTE)
    tab = Tab(note_id, new_id('tab'), tab_type, label, 0, 0, base_us)
    version = save(tx, actor, note_id, tab.tab_id, 'create_note_tab', {'tab_type': tab_type, 'label': label, **change},
                   base_us, 'tab_created', now_us)
    tx.execute('INSERT INTO note_tabs (tab_id, note_id, position, tab_type, label) VALUES (?, ?, ?, ?, ?)',
               (tab.tab_id, note_id, position, tab_type, label))
    if filled:
        note_tabs.apply_change(tx, tab, fill, change)
    return {'note_id': note_id, 'tab_id': tab.tab_id, 'tab_type': tab_type, 'label': label,
            'version': versioned.stamp_text(version)}


def save(tx: Tx, actor: str, note_id: str, tab_id: str, operation: str, change: dict, base_us: int, event: str,
         now_us: int) -> int:
    """The one gate of every write: compare and swap the Note's version, remember who did what, tell the log."""
    ref = Ref('note', note_id)
    version = versioned.next_stamp(tx, ref, 0, now_us)       # the Note's own clock: later than any version it ever had
    if not swap_version(tx, note_id, base_us, version):
        raise stale(tx, note_id)
    tx.execute('INSERT INTO note_history VALUES (?, ?, ?, ?, ?, ?)',
               (note_id, version, actor, operation, tab_id, json.dumps(change, ensure_ascii=False)))
    versioned.record_event(tx, ref, event, tab_id, version)
    return version


def swap_version(tx: Tx, note_id: str, base_us: int, version: int) -> bool:
    """Whether the Note still was at `base_us`; then it is at `version` now. Comparing and swapping are one."""
    return tx.execute('UPDATE notes SET version = ? WHERE note_id = ? AND version = ?',
                      (version, note_id, base_us)).rowcount == 1


def stale(tx: Tx, note_id: str) -> Refusal:
    current = versioned.stamp_text(note_head(tx, note_id)[1])
    return Refusal('stale_version', 'the Note changed after that version and nothing was written: read the tab again, '
                   'make your change in what is there now, and write with the version you then read',
                   current_version=current)


def note_head(tx: Tx, note_id: str) -> tuple:
    """(title, version)."""
    row = tx.execute('SELECT title, version FROM notes WHERE note_id = ?', (note_id,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no Note {note_id!r}')
    return row


def note_title(tx: Tx, note_id: str) -> Optional[str]:
    row = tx.execute('SELECT title FROM notes WHERE note_id = ?', (note_id,)).fetchone()
    return row[0] if row else None


def find_tab(tx: Tx, note_id: str, tab_id: str) -> Tab:
    """By its exact id, and inside this Note: the right to one Note must not open another one's tab."""
    row = tx.execute('SELECT t.note_id, t.tab_id, t.tab_type, t.label, t.row_count, t.col_count, n.version '
                     'FROM note_tabs t JOIN notes n ON n.note_id = t.note_id '
                     'WHERE t.tab_id = ? AND t.note_id = ?', (tab_id, note_id)).fetchone()
    if row is None:
        note_head(tx, note_id)
        raise Refusal('not_found', f'this Note has no tab {tab_id!r}: list_note_tabs gives the exact ids')
    return Tab(*row)


def require_room(what: str, there: int, most: int) -> None:
    if there >= most:
        raise versioned.invalid('note_id', f'a Note with room: this one has {there:,} {what} already')


def checked_url(url: object) -> str:
    """http or https, a host, no user info (it would hide where the link leads), nothing invisible."""
    try:
        parts = urlsplit(url) if isinstance(url, str) and len(url) <= URL_CHARS and WEB_URL.fullmatch(url) else None
        if parts and parts.hostname and '@' not in parts.netloc and versioned.is_text(url) and (parts.port or 1):
            return url
    except ValueError:                                       # a broken [::1 or a port like :99999
        pass
    raise versioned.invalid('url', f'a whole http or https URL of at most {URL_CHARS} characters, without user name')


def new_id(kind: str) -> str:
    return f'{kind}-{secrets.token_hex(6)}'

