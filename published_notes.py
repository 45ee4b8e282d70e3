"""published_notes.py - what article 5 prints: its set-up, its run call by call, its limits, and its next step.

The article's figures are few (100 by 100 cells, 12 by 4 values, nine open points); the rest are outcomes, which
client.py notes plays for real and compares as text, in our words. Versions are V1, V2, V3 in the order they appear:
the article's example calls them ...41.118Z, ...07.502Z and ...19.044Z.

Not here: the records and the printer (published.py), the run (runs_notes.py), timings, of which the article has none
(bench_notes.py holds what we promise instead).
"""
from published import Cell, Table

# --- data ---------------------------------------------------------------------

SETUP = Table(5, 'The set-up', [
    Cell('1 the Note has no project', 'its page', 'Add to project'),
    Cell('1 the Note has no project', 'Claude reads', 'not_in_project'),
    Cell('1 the Note is in the connected project', 'Claude reads', 'ok'),
    Cell('1 a Note only on this device', 'Claude reads', 'not_found'),
    Cell('2 the tools of this guide', 'served', 7),
    Cell('2 the three writing tools unticked', 'Claude writes', 'tool_not_enabled'),
    Cell('2 the three writing tools unticked', 'Claude reads', 'ok'),
    Cell('3 the approver may only look', 'Claude writes', 'approver_lacks_role'),
    Cell('4 "Owners" by its name', 'leads to', 'one exact tab id'),
])

RUN = Table(5, 'The run, call by call', [
    Cell('1 list_note_tabs', 'answer', 'version V1; Brief (note), Owners (sheet), Owners archive (sheet)'),
    Cell('2 read_sheet_range A1:D12', 'answer', '12 x 4 values'),
    Cell('3 read_note_tab Brief', 'answer', 'text, version V1'),
    Cell('4 edit_note_tab brief-owners-1', 'host asks', 'Allow'),
    Cell('4 edit_note_tab brief-owners-1', 'answer', 'refused: stale_version, current V2'),
    Cell('5 read_note_tab Brief', 'answer', 'text with "press kit", version V2'),
    Cell('6 edit_note_tab brief-owners-2', 'answer', 'saved, version V3'),
    Cell('7 create_note_tab launch-status-deck', 'answer', 'a new tab id'),
    Cell('the Brief now', 'open points with an owner', 9, of=9),
    Cell('the Brief now', "Mika's line", 'press kit - owner: Mika'),
    Cell('Launch status', 'slides', 'one an owner'),
])

LIMITS = Table(5, 'Where the limit is', [
    Cell('a range of 101 rows', 'answer', 'invalid_argument: row_count'),
    Cell('a range of 100 by 100', 'answer', '100 x 100 values'),
    Cell('create_note_tab again, its answer lost', 'answer', 'the same tab id'),
    Cell('Mika saves from a revision before Claude', 'answer', 'conflict'),
    Cell('Mika saves from a revision before Claude', 'her text', 'a draft'),
    Cell('Mika saves from a revision before Claude', "Claude's text", 'unchanged'),
    Cell('Mika saves another tab, Claude writes', 'answer', 'stale_version'),
    Cell('replace_text on a sheet', 'answer', 'invalid_argument: operation'),
    Cell('list_note_attachments', 'a file has', 'added_at, file_id, media_type, name, size_bytes'),
    Cell('add_note_source ftp:', 'answer', 'invalid_argument: url'),
    Cell('add_note_source https:', 'answer', 'ok'),
    Cell('the Note moved to another project', 'next read', 'not_in_project'),
    Cell('the project removed from the connection', 'next read', 'not_in_project'),
    Cell('the connection revoked', 'next read', 'connection_revoked'),
    Cell('the same token after all that', 'still opens it', 'no'),
])

NEXT_STEP = Table(5, 'The next step: a briefing, while a person retitles a slide', [
    Cell('1 create_note_tab Briefing', 'slides', 5),
    Cell('2 slide_add after the person retitled one', 'answer', 'stale_version'),
    Cell('3 read_note_tab, slide_add again', 'answer', 'ok'),
    Cell('the person\'s title', 'in the deck', 'yes'),
])

# The article only says that a large sheet must not flood a conversation and that a save names one tab. What that has
# to mean for the storage is our promise; ratios in one run, so that a machine's speed does not matter.
COSTS = Table(5, 'What a range and an edit cost', [
    Cell('range of 100 x 100', 'sheet of 1,000 x 1,000 against 100 x 100', None, judged='ratio', high=1.5,
         reason='only its own cells are read'),
    Cell('edit of one tab', 'Note of 1,000 tabs against 1 tab', None, judged='ratio', high=1.5),
    Cell('edit of one tab', 'bytes to disk, 1,000 tabs against 1 tab', None, judged='ratio', high=1.5,
         reason='the Note is not written again'),
    Cell('edit of one cell', 'sheet of 1,000 x 1,000 against 100 x 100', None, judged='ratio', high=1.5),
    Cell('range of 100 x 100', 'against the Note as one JSON text', None, judged='ratio', unit='times faster', low=10),
    Cell('edit of one cell', 'against the Note as one JSON text', None, judged='ratio', unit='times faster', low=10),
    Cell('2,000 ranges', 'growth of memory', None, judged='range', unit='KiB', high=4096,
         reason='flat: what one range needs is given back'),
])

TABLES = [SETUP, RUN, LIMITS, NEXT_STEP, COSTS]
