"""note_folder.py - a folder of Markdown and CSV files as Notes with tabs: server.py --notes DIR.

Article 5, "Configurazione": a Note has to be in the workspace, and in a project, before a connection sees it. Here it
comes from files of your own. A folder in DIR is one Note: a .md file in it is a markdown tab, a .csv file a sheet, any
other file an attached file. A .md or .csv file that lies in DIR itself is a Note of one tab.

    python3 server.py --notes DIR        loads what is new, then serves it in a project that has DIR's name

Loaded once: from then on the Note in the state is the one that people and agents edit, and the file is never written
and not read again. Only regular files are read, no link is followed out of the tree; what cannot be loaded is named
with its reason. Not here: the store (note_store.py), the server.
"""
import base64
import csv
import hashlib
import io
import mimetypes
import os
import re
import stat
import sys
import unicodedata
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import access
import note_people
import note_store
import note_tabs
from versioned import Database, Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

PROJECT = 'notes'                         # where the loaded Notes lie
ACTOR = 'import:folder'
SHEET_BYTES = 64 * 2 ** 20                # of one .csv file
SHEET_CELLS = 4_000_000                   # of one, when its rows are of one length
TAB_KINDS = {'.md': 'markdown', '.markdown': 'markdown', '.csv': 'sheet'}


class Skipped(Exception):
    """This file is not loaded; the message says why."""


class Source(NamedTuple):
    """One Note to be: the files of its tabs and of its attachments."""
    note_id: str
    title: str
    paths: Sequence[str]


class Loaded(NamedTuple):
    notes: List[str]                      # new ones, by id
    present: List[str]                    # loaded at an earlier start
    skipped: List[Tuple[str, str]]        # (path, reason)


# --- rules --------------------------------------------------------------------

def note_id_of(name: str) -> str:
    """Readable, and the same at every start; two names that look alike stay two."""
    plain = unicodedata.normalize('NFKD', name).encode('ascii', 'ignore').decode().lower()
    slug = re.sub('[^a-z0-9]+', '-', plain).strip('-')[:40]
    return f'{slug or "note"}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:6]}'


def sheet_rows(text: str) -> List[List[Optional[str]]]:
    """The cells of a CSV file as text, padded to one width. An empty field is an empty cell."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline='')))
    except csv.Error as error:
        raise Skipped(f'not CSV: {error}') from None
    width = max(map(len, rows), default=0)
    if len(rows) > note_tabs.SHEET_ROWS or width > note_tabs.SHEET_COLS:
        raise Skipped(f'more than {note_tabs.SHEET_ROWS} rows or {note_tabs.SHEET_COLS} columns')
    if len(rows) * width > SHEET_CELLS:                    # a short row is padded to the longest
        raise Skipped(f'{len(rows):,} rows of {width:,} columns: more than {SHEET_CELLS:,} cells')
    return [[cell or None for cell in row] + [None] * (width - len(row)) for row in rows]


def blocks(rows: List[List[Any]]) -> List[dict]:
    """The sheet as changes of at most 100 x 100 cells, each within the rule that every writer keeps."""
    found = []
    for row in range(0, len(rows), note_tabs.RANGE_ROWS):
        for col in range(0, len(rows[0]), note_tabs.RANGE_COLS):
            values = [line[col:col + note_tabs.RANGE_COLS] for line in rows[row:row + note_tabs.RANGE_ROWS]]
            found.append({'start_row': row, 'start_col': col, 'values': values})
    return found


def write_note(tx: Tx, source: Source, tabs: Sequence[Tuple[dict, List[dict]]], files: Sequence[dict],
               now_us: int) -> None:
    """The whole Note or nothing: it is one transaction, so that a kill leaves no half of it."""
    note_store.create_note(tx, ACTOR, source.note_id, source.title, (), now_us)
    for tab, ranges in tabs:
        version = note_store.note_head(tx, source.note_id)[1]
        tab_id = note_store.add_tab(tx, ACTOR, source.note_id, tab, version, now_us)['tab_id']
        for change in ranges:
            version = note_store.note_head(tx, source.note_id)[1]
            edit = {'note_id': source.note_id, 'tab_id': tab_id, 'operation': 'sheet_set_range', **change}
            note_store.edit(tx, ACTOR, edit, version, now_us, note_tabs.FITS)
    for file in files:
        note_people.attach_file(tx, ACTOR, {'note_id': source.note_id, **file}, now_us)


# --- I/O ----------------------------------------------------------------------

def load(db: Database, folder: str, workspace: str, now_us: int) -> Loaded:
    """Load every Note of `folder` that is not there yet, each in a transaction of its own."""
    loaded = Loaded([], [], [])
    sources = find(folder, loaded.skipped)                 # first: a folder that is not there leaves no project
    ensure_project(db, folder, workspace)
    for source in sources:
        with db.read() as tx:
            present = note_store.note_title(tx, source.note_id) is not None
        if present:
            loaded.present.append(source.note_id)
            continue
        tabs, files = read_source(source, loaded.skipped)
        try:
            if tabs:
                with db.write() as tx:
                    write_note(tx, source, tabs, files, now_us)
                    access.place(tx, Ref('note', source.note_id), workspace, PROJECT, False, source.title)
                loaded.notes.append(source.note_id)
            elif files:
                loaded.skipped.append((source.title, 'no .md and no .csv: no Note'))
        except Refusal as refusal:                         # too many tabs for one Note, for example
            loaded.skipped.append((source.title, str(refusal)))
    return loaded


def ensure_project(db: Database, folder: str, workspace: str) -> None:
    name = os.path.basename(os.path.abspath(folder))
    with db.write() as tx:
        try:
            access.require_place(tx, Ref('project', PROJECT), workspace)
        except Refusal:
            access.create_project(tx, PROJECT, workspace, name if name.isprintable() and name.strip() else PROJECT)


def find(folder: str, skipped: List[Tuple[str, str]]) -> List[Source]:
    """The Notes that the folder holds, by name; links and hidden names are passed over, the former aloud."""
    sources = []
    for entry in visible(folder, skipped):
        stem, ending = os.path.splitext(entry.name)
        if entry.is_dir(follow_symlinks=False):
            try:
                inside = visible(entry.path, skipped)
            except OSError as error:                       # we may not look into it
                skipped.append((entry.path, error.strerror or str(error)))
                continue
            paths = [inner.path for inner in inside if not inner.is_dir(follow_symlinks=False)]
            skipped += [(inner.path, "a folder in a Note's folder") for inner in inside
                        if inner.is_dir(follow_symlinks=False)]
            sources.append(Source(note_id_of(entry.name), entry.name, paths))
        elif ending.lower() in TAB_KINDS:
            sources.append(Source(note_id_of(entry.name), stem, [entry.path]))
        else:
            skipped.append((entry.path, 'neither .md nor .csv, and in no folder of its own'))
    return sources


def visible(folder: str, skipped: List[Tuple[str, str]]) -> List[os.DirEntry]:
    found = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_symlink():
            skipped.append((entry.path, 'a link'))
        elif not entry.name.startswith('.'):
            found.append(entry)
    return found


def read_source(source: Source, skipped: List[Tuple[str, str]]) -> Tuple[List[Tuple[dict, List[dict]]], List[dict]]:
    """([(tab, its ranges)], [attached file]) of one Note, each checked; a file that cannot be one of them is named."""
    tabs: List[Tuple[dict, List[dict]]] = []
    files: List[dict] = []
    for path in source.paths:
        try:
            note_tabs.checked_label('title', source.title)
            kind = TAB_KINDS.get(os.path.splitext(path)[1].lower())
            if kind:
                tabs.append(read_tab(path, kind))
            else:
                files.append(read_file(path))
        except (OSError, Skipped, Refusal) as error:
            skipped.append((path, str(error)))
    return tabs, files


def read_tab(path: str, kind: str) -> Tuple[dict, List[dict]]:
    tab = {'tab_type': kind, 'label': note_tabs.checked_label('label', os.path.splitext(os.path.basename(path))[0])}
    text = read_text(path, SHEET_BYTES if kind == 'sheet' else note_tabs.TEXT_BYTES)
    if kind == 'markdown':
        return {**tab, **note_tabs.change_of('replace_text', {'text': text})}, []
    rows = sheet_rows(text)
    return tab, [note_tabs.change_of('sheet_set_range', block) for block in blocks(rows)]


def read_file(path: str) -> dict:
    name, content = os.path.basename(path), read_regular(path, note_people.FILE_BYTES)
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()
    return {'name': note_tabs.checked_label('name', name), 'content_base64': base64.b64encode(content).decode(),
            'media_type': mimetypes.guess_type(name)[0] or 'application/octet-stream', 'idempotency_key': digest}


def read_text(path: str, most_bytes: int) -> str:
    """As UTF-8, ends of line as they are; a byte order mark is not part of the first cell or heading."""
    try:
        return read_regular(path, most_bytes).decode('utf-8-sig')
    except UnicodeDecodeError:
        raise Skipped('not UTF-8') from None


def read_regular(path: str, most_bytes: int) -> bytes:
    # NONBLOCK: opening a pipe would wait for a writer. What was opened is looked at, not what the name meant before.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, 'rb') as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Skipped('no regular file')
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise Skipped(f'larger than {most_bytes:,} bytes')
    return content


def serve(db: Database, folder: str, workspace: str, now_us: int) -> None:
    """What server.py does with --notes. Raises Refusal when the folder cannot be read."""
    try:
        loaded = load(db, folder, workspace, now_us)
    except OSError as error:
        raise Refusal('notes_not_readable', f'--notes {ascii(folder)}: {error.strerror}') from error
    for path, reason in loaded.skipped:
        print(f'notes: skipped {ascii(path)}: {reason}', file=sys.stderr)
    print(f'notes: {len(loaded.notes)} loaded, {len(loaded.present)} there before', file=sys.stderr)
