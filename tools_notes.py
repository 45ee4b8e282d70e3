"""tools_notes.py - the seven Note tools: four that read, three that write.

Article 5, step 2 of the set-up (the list of tools) and "Un'esecuzione reale" (names and arguments). Each only joins a
schema to a function of the store; the check before it and the transaction around it are tools.call_tool's.

Not here: what the functions do (note_store.py), the other tools (catalogue.py).
"""
from typing import List

import note_store
import note_tabs
from tools import ID, KEY, READ, VERSION, WRITE, Tool, arguments_of, integer, stored, text
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

SLIDES = {'type': 'array', 'minItems': 1, 'maxItems': note_tabs.SLIDES_A_CALL, 'items': {
    'type': 'object', 'properties': {'title': text(1, note_tabs.LABEL_CHARS), 'text': text(0, note_tabs.SLIDE_BYTES)},
    'required': ['title'], 'additionalProperties': False}}
CORNER = {'start_row': integer(0, note_tabs.SHEET_ROWS - 1, 'From 0.'),
          'start_col': integer(0, note_tabs.SHEET_COLS - 1, 'From 0.')}
ON_VERSION = {'expected_version': VERSION, 'idempotency_key': KEY}


# --- rules --------------------------------------------------------------------

def note_of(tx: Tx, arguments: dict) -> Ref:
    """The Note decides for all its tabs and attachments; whether a tab is in this Note is the store's question."""
    return Ref('note', arguments['note_id'])


TOOLS: List[Tool] = [
    Tool('list_note_tabs',
         'List every tab of one Note with its exact tab_id, kind and label, and the version of the Note. Labels and '
         'kinds may repeat: only the tab_id names one tab. create_note_tab takes the version from here.',
         arguments_of({'note_id': ID}), READ, 'view', True, False, False,
         note_of, lambda call: stored(note_store.list_note_tabs, call)),
    Tool('read_note_tab',
         'Read one tab: its text, slides or data, and the version of the Note that an edit must carry. Of a sheet it '
         'gives the size; read_sheet_range gives the cells.',
         arguments_of({'note_id': ID, 'tab_id': ID}), READ, 'view', True, False, False,
         note_of, lambda call: stored(note_store.read_note_tab, call)),
    Tool('read_sheet_range',
         'Read a rectangle of cells of one sheet tab, at most 100 rows by 100 columns, counted from 0. Empty cells are '
         'null.',
         arguments_of({'note_id': ID, 'tab_id': ID, **CORNER, 'row_count': integer(1, note_tabs.RANGE_ROWS),
                       'col_count': integer(1, note_tabs.RANGE_COLS)}), READ, 'view', True, False, False,
         note_of, lambda call: stored(note_store.read_sheet_range, call)),
    Tool('list_note_attachments',
         'List the files and sources of one Note: metadata only, with the cited URL of a source. Contents of files and '
         'download links are never given.',
         arguments_of({'note_id': ID}), READ, 'view', True, False, False,
         note_of, lambda call: stored(note_store.list_note_attachments, call)),
    Tool('edit_note_tab',
         'Change one tab. Read it first and send the version you read: if anybody saved any tab since, this is refused '
         'and nothing is merged; read again, redo the change in what is there now, never resend the old text with the '
         'new version. Operations: replace_text (note, markdown tabs: text is the whole new text); slide_add (one of '
         'slides), slides_add_outline (slides, or text with a title a line and indented lines under it); '
         'sheet_set_range (start_row, start_col, values as rows; null empties a cell; at most 100 by 100); '
         'replace_tab_data (other content tabs: values is the whole data).',
         arguments_of({'note_id': ID, 'tab_id': ID, 'operation': {'type': 'string', 'enum': list(note_tabs.FITS)},
                       **ON_VERSION},
                      {'text': text(0, note_tabs.TEXT_BYTES), 'slides': SLIDES, **CORNER,
                       'values': {'type': ['array', 'object']}}),
         WRITE, 'edit', False, True, False,
         note_of, lambda call: stored(note_store.edit_note_tab, call)),
    Tool('create_note_tab',
         'Add a slides or sheet tab at the end of one Note and get its tab_id. Replaces nothing. Takes the version '
         'from list_note_tabs or the last write; the same key again gives the same tab.',
         arguments_of({'note_id': ID, 'tab_type': {'type': 'string', 'enum': list(note_tabs.CREATABLE)},
                       'label': text(1, note_tabs.LABEL_CHARS), **ON_VERSION}, {'slides': SLIDES}),
         WRITE, 'edit', False, False, False,
         note_of, lambda call: stored(note_store.create_note_tab, call)),
    Tool('add_note_source',
         'Cite a web page in one Note by its http or https URL. Nothing is fetched.',
         arguments_of({'note_id': ID, 'url': text(8, note_store.URL_CHARS), **ON_VERSION}),
         WRITE, 'edit', False, False, False,
         note_of, lambda call: stored(note_store.add_note_source, call)),
]
