"""owner_notes.py - a person's clicks on Notes: read, save, drafts, history, files, a new Note.

Article 5, "Configurazione" and "Dove sta il limite": the desktop app's side. A save carries the revision it began from
and answers with a conflict and a draft when it lost. Every click asks for the person's own right to this Note in the
transaction that does the work, by the rule that holds for whoever approved a connection.

Not here: what a save means (note_people.py), how the person was proven (owner.py), the other clicks (owner_verbs.py).
"""
import base64
from typing import Any, Callable, Dict

import access
import note_people
import note_store
import note_tabs
import schema
import tools_notes
import workspace as workspaces
from owner_verbs import own_place, own_workspace
from tools import ID, KEY, VERSION, State, arguments_of, integer, text
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

CONTENT = {'text': text(0, note_tabs.TEXT_BYTES), 'slides': tools_notes.SLIDES, **tools_notes.CORNER,
           'position': integer(0, 2 ** 31), 'values': {'type': ['array', 'object']}}
SAVE = arguments_of({'note_id': ID, 'tab_id': ID, 'operation': {'type': 'string', 'enum': list(note_tabs.FITS_PEOPLE)},
                     'base_version': VERSION, 'idempotency_key': KEY}, CONTENT)
NOTE = arguments_of({'note_id': ID})
TAB = arguments_of({'note_id': ID, 'tab_id': ID})
RANGE = next(tool.schema for tool in tools_notes.TOOLS if tool.name == 'read_sheet_range')
HISTORY = arguments_of({'note_id': ID}, {'limit': integer(*note_people.HISTORY_LIMIT), 'before': VERSION})
NEW_TAB = {'type': 'object', 'properties': {'tab_type': {'type': 'string', 'enum': list(note_tabs.TAB_TYPES)},
                                            'label': text(1, note_tabs.LABEL_CHARS), **CONTENT},
           'required': ['tab_type', 'label'], 'additionalProperties': False}
NEW_NOTE = arguments_of({'note_id': ID, 'title': text(1, note_tabs.LABEL_CHARS)},
                        {'project': {'type': ['string', 'null']}, 'local_only': {'type': 'boolean'}, 'workspace': ID,
                         'tabs': {'type': 'array', 'maxItems': 100, 'items': NEW_TAB}})
FILE = arguments_of({'note_id': ID, 'name': text(1, note_tabs.LABEL_CHARS), 'media_type': text(1, 100),
                     'content_base64': text(0, note_people.FILE_BYTES * 4 // 3 + 4), 'idempotency_key': KEY})

# --- rules --------------------------------------------------------------------

def reading(state: State, person: str, arguments: dict, wanted: dict, work: Callable[[Tx, str], Any]) -> Any:
    schema.check(wanted, arguments)
    with state.db.read() as tx:
        access.require_role_of(tx, person, Ref('note', arguments['note_id']), workspaces.VIEWER)
        return work(tx, f'person:{person}')


def writing(state: State, person: str, arguments: dict, wanted: dict, least: int,
            work: Callable[[Tx, str, int], dict]) -> dict:
    """Right and work in one transaction: a colleague's role taken away is before this click or after it."""
    schema.check(wanted, arguments)
    with state.db.write() as tx:
        access.require_role_of(tx, person, Ref('note', arguments['note_id']), least)
        return work(tx, f'person:{person}', state.now_us())


def read_note(state: State, person: str, arguments: dict) -> dict:
    """The Note's tabs, and where it lies: project is null when its page shows "Add to project"."""
    def work(tx: Tx, actor: str) -> dict:
        project, local_only = tx.execute("SELECT project, local_only FROM places WHERE kind = 'note' AND id = ?",
                                         (arguments['note_id'],)).fetchone()
        return {**note_store.list_note_tabs(tx, actor, arguments, state.now_us()), 'project': project,
                'local_only': bool(local_only)}
    return reading(state, person, arguments, NOTE, work)


def read_tab(state: State, person: str, arguments: dict) -> dict:
    return reading(state, person, arguments, TAB,
                   lambda tx, actor: note_store.read_note_tab(tx, actor, arguments, state.now_us()))


def read_range(state: State, person: str, arguments: dict) -> dict:
    return reading(state, person, arguments, RANGE,
                   lambda tx, actor: note_store.read_sheet_range(tx, actor, arguments, state.now_us()))


def list_attachments(state: State, person: str, arguments: dict) -> dict:
    return reading(state, person, arguments, NOTE,
                   lambda tx, actor: note_store.list_note_attachments(tx, actor, arguments, state.now_us()))


def list_notes(state: State, person: str, arguments: dict) -> dict:
    """The Notes of one workspace that this person may look at, by title; those in no project and on this device too."""
    schema.check(arguments_of({}, {'workspace': ID}), arguments)
    with state.db.read() as tx:
        workspace = own_workspace(tx, person, arguments)
        rows = tx.execute('SELECT id, name, project, local_only FROM places WHERE workspace = ? '
                          "AND kind = 'note' ORDER BY folded, id", (workspace,)).fetchall()
        return {'notes': [{'note_id': note_id, 'title': title, 'project': project, 'local_only': bool(local_only)}
                          for note_id, title, project, local_only in rows
                          if access.role_of(tx, person, Ref('note', note_id)) >= workspaces.VIEWER]}


def save_note(state: State, person: str, arguments: dict) -> dict:
    """{saved: true, version} or {saved: false, conflict, current_version, draft_id}."""
    return writing(state, person, arguments, SAVE, workspaces.EDITOR,
                   lambda tx, actor, now_us: note_people.save_note(tx, actor, arguments, now_us))


def keep_draft(state: State, person: str, arguments: dict) -> dict:
    """Whoever may only look may still keep words of their own: the right to edit may have gone while they wrote."""
    return writing(state, person, arguments, SAVE, workspaces.VIEWER,
                   lambda tx, actor, now_us: note_people.keep_draft(tx, actor, arguments, now_us))


def drop_draft(state: State, person: str, arguments: dict) -> dict:
    return writing(state, person, arguments, arguments_of({'note_id': ID, 'draft_id': ID}), workspaces.VIEWER,
                   lambda tx, actor, now_us: note_people.drop_draft(tx, actor, arguments))


def list_drafts(state: State, person: str, arguments: dict) -> dict:
    return {'drafts': reading(state, person, arguments, NOTE,
                              lambda tx, actor: note_people.drafts(tx, actor, arguments['note_id']))}


def note_history(state: State, person: str, arguments: dict) -> dict:
    return {'history': reading(state, person, arguments, HISTORY, lambda tx, actor: note_people.history(
        tx, arguments['note_id'], arguments.get('limit', 50), arguments.get('before')))}


def note_change(state: State, person: str, arguments: dict) -> dict:
    """What one saved version brought."""
    return reading(state, person, arguments, arguments_of({'note_id': ID, 'version': VERSION}),
                   lambda tx, actor: note_people.saved_change(tx, arguments['note_id'], arguments['version']))


def create_note(state: State, person: str, arguments: dict) -> dict:
    """A new Note, in a project of the workspace or in none."""
    schema.check(NEW_NOTE, arguments)
    note_id, title = arguments['note_id'], arguments['title']
    with state.db.write() as tx:
        workspace, project = own_place(tx, person, arguments)
        note_store.create_note(tx, f'person:{person}', note_id, title, arguments.get('tabs', ()), state.now_us())
        access.place(tx, Ref('note', note_id), workspace, project, arguments.get('local_only', False), title)
        return note_store.list_note_tabs(tx, f'person:{person}', {'note_id': note_id}, state.now_us())


def attach_file(state: State, person: str, arguments: dict) -> dict:
    return writing(state, person, arguments, FILE, workspaces.EDITOR,
                   lambda tx, actor, now_us: note_people.attach_file(tx, actor, arguments, now_us))


def read_file(state: State, person: str, arguments: dict) -> dict:
    """A file's bytes, for a person who may look at its Note. No tool has this, and no link stands for it."""
    content = reading(state, person, arguments, arguments_of({'note_id': ID, 'file_id': ID}),
                      lambda tx, actor: note_people.file_content(tx, arguments['note_id'], arguments['file_id']))
    return {'file_id': arguments['file_id'], 'content_base64': base64.b64encode(content).decode()}


VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    'list_notes': list_notes, 'create_note': create_note, 'read_note': read_note, 'read_tab': read_tab,
    'read_range': read_range, 'list_attachments': list_attachments, 'save_note': save_note,
    'keep_draft': keep_draft, 'drop_draft': drop_draft, 'list_drafts': list_drafts, 'note_history': note_history,
    'note_change': note_change, 'attach_file': attach_file, 'read_file': read_file,
}
