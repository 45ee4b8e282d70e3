"""note_people.py - the person's side of a Note: saves with a base, drafts that are kept, files, and the history.

Article 5, "Dove sta il limite": a person's save is guarded like the agent's. It carries the revision it began from;
when the Note has moved on, the text is kept as a draft of that person and a conflict is reported, and the agent's
words stay. Nothing here is reachable by a tool: a draft belongs to one person, a file's bytes to people's pages.

Not here: the agents' seven tools (note_store.py), the pages that show all this (pages_notes.py).
"""
import base64
import json
from typing import Any, List, Optional

import note_store
import note_tabs
import versioned
from versioned import Refusal, Tx

# --- data ---------------------------------------------------------------------

FILE_BYTES = 2 ** 21                     # with base64 it still fits one request
HISTORY_LIMIT = (1, 200)                # lines a page


# --- rules --------------------------------------------------------------------

def save_note(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{saved: true, version}, or {saved: false, conflict, current_version, draft_id}: the text is kept either way.

    `arguments`: as for edit_note_tab (and the operation slide_set), with base_version in the place of expected_version.
    A conflict is an answer and not a refusal, because it writes something: the draft.
    """
    def work() -> dict:
        base_us = versioned.parse_stamp(arguments.get('base_version'), 'base_version')
        try:
            return {'saved': True, **note_store.edit(tx, actor, arguments, base_us, now_us, note_tabs.FITS_PEOPLE)}
        except Refusal as refusal:
            if refusal.code != 'stale_version':
                raise
            draft = keep(tx, actor, arguments, base_us, now_us)
            return {'saved': False, 'conflict': refusal.code, **refusal.data, **draft}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'save_note', arguments, work)


def keep_draft(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Keep an unsent change as a draft (the app was offline). It changes nothing in the Note."""
    def work() -> dict:
        base_us = versioned.parse_stamp(arguments.get('base_version'), 'base_version')
        return keep(tx, actor, arguments, base_us, now_us)
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'keep_draft', arguments, work)


def keep(tx: Tx, actor: str, arguments: dict, base_us: int, now_us: int) -> dict:
    tab = note_store.find_tab(tx, arguments['note_id'], arguments['tab_id'])
    operation = arguments.get('operation')
    note_tabs.require_fit(operation, tab.tab_type, note_tabs.FITS_PEOPLE)
    change = note_tabs.change_of(operation, arguments)
    draft_id = note_store.new_id('draft')
    text = json.dumps(change, ensure_ascii=False)
    tx.execute('INSERT INTO note_drafts VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
               (draft_id, tab.note_id, tab.tab_id, actor, operation, text, base_us, now_us))
    return {'draft_id': draft_id, 'note_id': tab.note_id, 'tab_id': tab.tab_id}


def drafts(tx: Tx, actor: str, note_id: str) -> List[dict]:
    """This person's drafts of this Note, oldest first, with the whole text."""
    rows = tx.execute('SELECT draft_id, tab_id, operation, change, base_version, kept_us FROM note_drafts '
                      'WHERE actor = ? AND note_id = ? ORDER BY kept_us, draft_id', (actor, note_id))
    return [{'draft_id': draft_id, 'tab_id': tab_id, 'operation': operation, **json.loads(change),
             'base_version': versioned.stamp_text(base_us), 'kept_at': versioned.stamp_text(kept_us)}
            for draft_id, tab_id, operation, change, base_us, kept_us in rows]


def drop_draft(tx: Tx, actor: str, arguments: dict) -> dict:
    """Only by its owner, and only when told to: a saved text does not make a draft disappear by itself."""
    draft_id = arguments['draft_id']
    if not tx.execute('DELETE FROM note_drafts WHERE draft_id = ? AND actor = ?', (draft_id, actor)).rowcount:
        raise Refusal('not_found', 'you have no such draft')
    return {'dropped': draft_id}


def attach_file(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Add a file: note_id, name, media_type, content_base64, idempotency_key.

    It replaces nothing, so that it needs no base; it moves the Note's version like any other change.
    """
    def work() -> dict:
        note_id, content = arguments['note_id'], file_bytes(arguments.get('content_base64'))
        about = {'name': note_tabs.checked_label('name', arguments.get('name')),
                 'media_type': note_tabs.checked_label('media_type', arguments.get('media_type')),
                 'size_bytes': len(content)}
        base_us = note_store.note_head(tx, note_id)[1]
        version = note_store.save(tx, actor, note_id, '', 'attach_file', about, base_us, 'file_added', now_us)
        file_id = note_store.new_id('file')
        tx.execute('INSERT INTO note_files VALUES (?, ?, ?, ?, ?, ?, ?)',
                   (file_id, note_id, *about.values(), version, content))
        return {'note_id': note_id, 'file_id': file_id, **about, 'version': versioned.stamp_text(version)}
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'attach_file', arguments, work)


def file_bytes(content_base64: Any) -> bytes:
    try:
        content = base64.b64decode(content_base64, validate=True)
    except (TypeError, ValueError):                          # not text; not ASCII, or not base64
        raise versioned.invalid('content_base64', 'the bytes of the file in base64') from None
    if len(content) > FILE_BYTES:
        raise versioned.invalid('content_base64', f'a file of at most {FILE_BYTES:,} bytes')
    return content


def file_content(tx: Tx, note_id: str, file_id: str) -> bytes:
    """For a person's click. No tool calls this."""
    row = tx.execute('SELECT content FROM note_files WHERE file_id = ? AND note_id = ?', (file_id, note_id)).fetchone()
    if row is None:
        raise Refusal('not_found', 'this Note has no such file')
    return row[0]


def history(tx: Tx, note_id: str, limit: int = 50, before: Optional[str] = None) -> List[dict]:
    """Saved versions, newest first: who, when (the version), what. `before` is the last version of the page before."""
    versioned.check_integer('limit', limit, *HISTORY_LIMIT)
    note_store.note_head(tx, note_id)
    before_us = versioned.parse_stamp(before, 'before') if before else 2 ** 63 - 1
    rows = tx.execute('SELECT version, actor, operation, tab_id FROM note_history WHERE note_id = ? AND version < ? '
                      'ORDER BY version DESC LIMIT ?', (note_id, before_us, limit))
    return [{'version': versioned.stamp_text(version), 'actor': actor, 'operation': operation, 'tab_id': tab_id}
            for version, actor, operation, tab_id in rows]


def saved_change(tx: Tx, note_id: str, version: str) -> dict:
    """The content that one saved version brought: with it any earlier text can be had back."""
    row = tx.execute('SELECT actor, operation, tab_id, change FROM note_history WHERE note_id = ? AND version = ?',
                     (note_id, versioned.parse_stamp(version, 'version'))).fetchone()
    if row is None:
        raise Refusal('not_found', f'this Note has no version {version}')
    return {'actor': row[0], 'operation': row[1], 'tab_id': row[2], **json.loads(row[3])}


def prune_history(tx: Tx, before_us: int) -> None:
    """Forget saved versions older than `before_us`, never the line of the current one. What the Note holds stays."""
    tx.execute('DELETE FROM note_history WHERE version < ? AND version < '
               '(SELECT version FROM notes WHERE notes.note_id = note_history.note_id)', (before_us,))
