"""ablate_notes.py - article 5's limits taken out: refused not merged, one version a Note, the fitting operation.

Article 5, "Dove sta il limite", five of them. Every experiment is a Note with a text and a sheet, Mika and Claude.

    python3 ablate.py never-merged        one of them, step by step

Not here: what a row is and how a rule is taken out (ablate_rule.py), the workspace (ablate_access.py).
"""
from typing import List

import access
import note_store
import note_tabs
from ablate_rule import Change, Row, Say, always
from ablate_access import OWNER, Office, moved, office
from versioned import Tx

# --- rules --------------------------------------------------------------------

def write(here: Office, tab: int, version: str, **change: object) -> str:
    """Claude's edit of the Note's first or second tab: saved, or the refusal."""
    tab_id = here.call('list_note_tabs', note_id='launch')['tabs'][tab]['tab_id']
    answer = here.call('edit_note_tab', note_id='launch', tab_id=tab_id, expected_version=version,
                       idempotency_key='key-00001', **change)
    return answer.get('error', 'saved')


def mika(here: Office, tab: int, **change: object) -> None:
    """Mika's save, over what is there."""
    def save(tx: Tx) -> None:
        tabs = note_store.list_note_tabs(tx, OWNER, {'note_id': 'launch'}, 0)
        note_store.edit_note_tab(tx, OWNER, {'note_id': 'launch', 'tab_id': tabs['tabs'][tab]['tab_id'],
                                             'expected_version': tabs['version'], 'idempotency_key': 'mika-saves',
                                             **change}, here.state.now_us())
    here.click(save)


def same_tab(say: Say) -> str:
    with office() as here:
        version = here.call('list_note_tabs', note_id='launch')['version']
        mika(here, 0, operation='replace_text', text='Q3 launch checklist, and the press kit')
        say('  Claude reads the Brief; Mika adds "the press kit"; Claude writes its own new text')
        outcome = write(here, 0, version, operation='replace_text', text='Q3 checklist, with owners')
        return f'{outcome}; the Brief {here.read()}'


def other_tab(say: Say) -> str:
    with office() as here:
        version = here.call('list_note_tabs', note_id='launch')['version']
        mika(here, 1, operation='sheet_set_range', start_row=0, start_col=0, values=[['press kit', 'Aiko']])
        say('  Claude has read Owners and writes the Brief from it; Mika has given the press kit to Aiko meanwhile')
        outcome = write(here, 0, version, operation='replace_text', text='the press kit has no owner')
        return f'{outcome}; the Brief {here.read()}'


def text_into_a_sheet(say: Say) -> str:
    with office() as here:
        version = here.call('list_note_tabs', note_id='launch')['version']
        say('  Claude sends replace_text for the sheet Owners')
        return f'the edit: {write(here, 1, version, operation="replace_text", text="| Owner |")}'


def per_tab(save):
    """The mistake: a tab's writer is told of changes to that tab alone."""
    def save_tab(tx: Tx, actor: str, note_id: str, tab_id: str, operation: str, change: dict, base_us: int, event: str,
                 now_us: int) -> int:
        own = tx.execute('SELECT max(version) FROM note_history WHERE note_id = ? AND tab_id = ?',
                         (note_id, tab_id)).fetchone()[0]
        current = note_store.note_head(tx, note_id)[1]
        base_us = current if own and own <= base_us else base_us
        return save(tx, actor, note_id, tab_id, operation, change, base_us, event, now_us)
    return save_tab


def swap_always(tx: Tx, note_id: str, base_us: int, version: int) -> bool:
    return tx.execute('UPDATE notes SET version = ? WHERE note_id = ?', (version, note_id)).rowcount == 1


ROWS: List[Row] = [
    Row(5, 1, 'never-merged', 'a stale write is refused', 'note_store.py: swap_version',
        [Change(note_store, 'swap_version', always(swap_always))], same_tab),
    Row(5, 2, 'whole-note', 'the version is the whole Note\'s', 'note_store.py: save',
        [Change(note_store, 'save', per_tab)], other_tab),
    Row(5, 3, 'only-adds', 'creating a tab cannot replace one', 'note_store.py: create_note_tab',
        reason='it has no argument that could name a tab that exists'),
    Row(5, 3, 'fitting-operation', 'each operation fits its kinds of tab', 'note_tabs.py: require_fit',
        [Change(note_tabs, 'require_fit', always(lambda operation, tab_type, fits: None))], text_into_a_sheet),
    Row(5, 4, 'metadata-only', 'files stay metadata', 'note_store.py: list_note_attachments',
        reason='no statement that a tool runs selects the bytes, and no route serves them to a connection'),
    Row(5, 5, 'moving-closes', 'access follows the Note, from the next call on', 'access.py: item_is_open',
        [Change(access, 'item_is_open', always(lambda facts: True))], moved)]
