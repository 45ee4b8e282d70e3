"""record_store.py - record channels and their items: read one, edit one over exactly the version that was read.

Article 6, "Un'esecuzione reale": read_record_item gives "pricing page", status Draft and a version; edit_record_item
sends that version back, so a record that somebody changed in between is refused, not overwritten, and a repeated
idempotency_key gets the first answer. A record channel has fields of a kind; an edit names the fields it changes and
leaves the others as they are.

The names create_record_item, list_record_items and the people's saves are ours: the article names read and edit.
Not here: where a record channel lies and who may (access.py), the tools (tools_records.py), the page
(pages_project.py).
"""
import json
import re
import unicodedata
from datetime import date
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import versioned
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS record_channels (
    record_channel_id TEXT PRIMARY KEY,
    name              TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record_fields (
    record_channel_id TEXT NOT NULL,
    field             TEXT NOT NULL,
    position          INTEGER NOT NULL,
    kind              TEXT NOT NULL,       -- one of KINDS
    choices           TEXT NOT NULL,       -- JSON: the values of a choice; [] for the other kinds
    PRIMARY KEY (record_channel_id, field)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record_items (
    record_channel_id TEXT NOT NULL,
    item_id           TEXT NOT NULL,
    version_us        INTEGER NOT NULL,    -- every save moves it
    deleted           INTEGER NOT NULL,    -- a person deleted it: gone, which is not the same as never there
    title             TEXT NOT NULL,
    folded            TEXT NOT NULL,       -- title and texts as search compares them
    vals              TEXT NOT NULL,       -- JSON: field to value; an empty field is absent
    PRIMARY KEY (record_channel_id, item_id)
) WITHOUT ROWID;
-- Who saved what, when. Never updated; kept for a stated time (retention.py).
CREATE TABLE IF NOT EXISTS record_history (
    record_channel_id TEXT NOT NULL,
    item_id           TEXT NOT NULL,
    version_us        INTEGER NOT NULL,
    actor             TEXT NOT NULL,
    change            TEXT NOT NULL,       -- JSON: the fields as they were sent, null for one that was emptied
    PRIMARY KEY (record_channel_id, item_id, version_us)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS record_history_by_time ON record_history (version_us);
"""

KINDS = ('text', 'number', 'checkbox', 'choice', 'date', 'link')
TITLE = 'title'                             # the one field that every channel has, and no item is without
TITLE_LENGTH, TEXT_LENGTH = (1, 300), (0, 10_000)
FIELDS_A_CHANNEL, CHOICES_A_FIELD = 60, 100
LIST_LIMIT, LIST_DEFAULT = (1, 100), 50
HISTORY_LIMIT = 100
DATE = re.compile(r'[0-9]{4}-[0-9]{2}-[0-9]{2}')
LINK = re.compile(r'https?://[^\s"<>\\^`{|}\x00-\x20\x7f]{1,2000}')
IS_CURRENT = 'version_us = ?'               # the compare of the compare-and-swap, inside the UPDATE


class Field(NamedTuple):
    field: str
    kind: str
    choices: Tuple[str, ...] = ()


class Item(NamedTuple):
    item_id: str
    version_us: int
    deleted: bool
    title: str
    values: Dict[str, Any]


# --- rules --------------------------------------------------------------------

def read_record_item(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{record_channel_id, item_id, title, values, version}. Refuses not_found, or gone after a person deleted it."""
    channel = arguments['record_channel_id']
    item = find_item(tx, channel, arguments['item_id'])
    return {'record_channel_id': channel, **shown(item)}


def edit_record_item(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """The same after changing the named fields over exactly expected_version; null empties a field.

    Refuses stale_version with current_version, gone, not_found, and invalid_argument for a value its field cannot hold.
    """
    def work() -> dict:
        return change_item(tx, actor, arguments['record_channel_id'], arguments['item_id'], arguments['values'],
                           versioned.parse_stamp(arguments.get('expected_version')), now_us)
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'edit_record_item', arguments, work)


def create_record_item(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """A new item with `values`, title among them. The id is ours, so that a repeated call cannot choose another."""
    def work() -> dict:
        channel = arguments['record_channel_id']
        fields = fields_of(tx, channel)
        changed = checked(fields, arguments['values'])
        if not changed.get(TITLE):
            raise versioned.invalid(f'values.{TITLE}', 'given: an item has a title')
        container = Ref('record_channel', channel)
        item_id = f'rec-{versioned.last_sequence(tx, container) + 1:06d}'
        version_us = versioned.next_stamp(tx, container, 0, now_us)
        values = {name: value for name, value in changed.items() if name != TITLE and value is not None}
        item = Item(item_id, version_us, False, changed[TITLE], values)
        tx.execute('INSERT INTO record_items VALUES (?, ?, ?, 0, ?, ?, ?)',
                   (channel, item_id, version_us, item.title, folded(item), json.dumps(values)))
        return saved(tx, actor, channel, item, changed, 'created')
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'create_record_item', arguments, work)


def list_record_items(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{name, fields, items, has_more, next_item_id}: by item_id after `after_item_id`. `search`: every word of it
    occurs in the title or in a text."""
    channel = arguments['record_channel_id']
    name = channel_name(tx, channel)
    limit = arguments.get('limit', LIST_DEFAULT)
    versioned.check_integer('limit', limit, *LIST_LIMIT)
    words = fold(arguments.get('search', '')).split()
    matches = ''.join(' AND instr(folded, ?) > 0' for _ in words)
    rows = tx.execute('SELECT item_id, version_us, deleted, title, vals FROM record_items '
                      f'WHERE record_channel_id = ? AND item_id > ? AND deleted = 0{matches} ORDER BY item_id LIMIT ?',
                      (channel, arguments.get('after_item_id', ''), *words, limit + 1)).fetchall()
    items = [shown(as_item(row)) for row in rows[:limit]]
    return {'record_channel_id': channel, 'name': name,
            'fields': [{'field': TITLE, 'kind': 'text'}, *map(field_shown, fields_of(tx, channel).values())],
            'items': items, 'has_more': len(rows) > limit, 'next_item_id': items[-1]['item_id'] if items else None}


def change_item(tx: Tx, actor: str, channel: str, item_id: str, values: dict, expected_us: int, now_us: int) -> dict:
    """The compare-and-swap of an edit, whoever makes it."""
    before = find_item(tx, channel, item_id)
    changed = checked(fields_of(tx, channel), values)
    if TITLE in changed and not changed[TITLE]:
        raise versioned.invalid(f'values.{TITLE}', 'a text: an item is not without a title')
    after = merged(before, changed)
    version_us = versioned.next_stamp(tx, Ref('record_channel', channel), before.version_us, now_us)
    # The comparison is in the WHERE clause: there is no moment between comparing and writing.
    swapped = tx.execute('UPDATE record_items SET version_us = ?, title = ?, folded = ?, vals = ? '
                         f'WHERE record_channel_id = ? AND item_id = ? AND {IS_CURRENT}',
                         (version_us, after.title, folded(after), json.dumps(after.values),
                          channel, item_id, expected_us)).rowcount
    if not swapped:
        raise stale(item_id, before.version_us)
    kind = 'updated' if before.title == after.title else 'retitled'
    return saved(tx, actor, channel, after._replace(version_us=version_us), changed, kind)


def merged(before: Item, changed: Dict[str, Any]) -> Item:
    """An edit says what it changes; a field that it does not name keeps its value."""
    values = {**before.values, **{name: value for name, value in changed.items() if name != TITLE}}
    return before._replace(title=changed.get(TITLE, before.title),
                           values={name: value for name, value in values.items() if value is not None})


def saved(tx: Tx, actor: str, channel: str, item: Item, changed: Dict[str, Any], kind: str) -> dict:
    """What every save leaves behind: a line of history and one event, in the transaction of the save."""
    tx.execute('INSERT INTO record_history VALUES (?, ?, ?, ?, ?)',
               (channel, item.item_id, item.version_us, actor, json.dumps(changed)))
    versioned.record_event(tx, Ref('record_channel', channel), kind, item.item_id, item.version_us)
    return {'record_channel_id': channel, **shown(item)}


# What a field can hold.

def checked(fields: Dict[str, Field], values: dict) -> Dict[str, Any]:
    """`values` when each fits its field; invalid_argument names the field and what it takes."""
    if not values:
        raise versioned.invalid('values', 'an object with at least one field')
    for name, value in values.items():
        field = Field(TITLE, 'text') if name == TITLE else fields.get(name)
        if field is None:
            raise versioned.invalid('values', 'of these fields: ' + ', '.join([TITLE, *fields]))
        limit = misfit(field, value)
        if value is not None and limit:
            raise versioned.invalid(f'values.{name}', limit + ', or null')
    return dict(values)


def is_date(value: str) -> bool:
    try:
        return DATE.fullmatch(value) is not None and date.fromisoformat(value) is not None
    except ValueError:                                     # 31 February
        return False


def misfit(field: Field, value: Any) -> Optional[str]:
    """What a value of this field must be; None if `value` is that. true is an int in Python and no number here."""
    length = TITLE_LENGTH if field.field == TITLE else TEXT_LENGTH
    is_text = isinstance(value, str) and versioned.is_text(value)
    fits, limit = {
        'text': (is_text and length[0] <= len(value) <= length[1], f'{length[0]} to {length[1]:,} characters of text'),
        'number': (type(value) in (int, float) and abs(value) < 2 ** 63,     # false for NaN and infinities, too
                   'a number of 64 bits'),
        'checkbox': (type(value) is bool, 'true or false'),
        'choice': (is_text and value in field.choices, 'one of ' + ', '.join(field.choices)),
        'date': (is_text and is_date(value), 'a date such as 2026-11-08'),
        'link': (is_text and LINK.fullmatch(value) is not None, 'an http or https address'),
    }[field.kind]
    return None if fits else limit


def fields_of(tx: Tx, channel: str) -> Dict[str, Field]:
    rows = tx.execute('SELECT field, kind, choices FROM record_fields WHERE record_channel_id = ? ORDER BY position',
                      (channel,))
    return {field: Field(field, kind, tuple(json.loads(choices))) for field, kind, choices in rows}


# Reading rows, and what an answer shows.

def find_item(tx: Tx, channel: str, item_id: str) -> Item:
    row = tx.execute('SELECT item_id, version_us, deleted, title, vals FROM record_items '
                     'WHERE record_channel_id = ? AND item_id = ?', (channel, item_id)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no item {item_id!r} in this record channel: list its items',
                      item_id=item_id)
    if row[2]:
        raise Refusal('gone', f'{item_id} was deleted: list the items again', item_id=item_id)
    return as_item(row)


def as_item(row: tuple) -> Item:
    item_id, version_us, deleted, title, values = row
    return Item(item_id, version_us, bool(deleted), title, json.loads(values))


def shown(item: Item) -> dict:
    return {'item_id': item.item_id, 'title': item.title, 'values': item.values,
            'version': versioned.stamp_text(item.version_us)}


def field_shown(field: Field) -> dict:
    return {'field': field.field, 'kind': field.kind, **({'choices': list(field.choices)} if field.choices else {})}


def channel_name(tx: Tx, channel: str) -> str:
    row = tx.execute('SELECT name FROM record_channels WHERE record_channel_id = ?', (channel,)).fetchone()
    if row is None:
        raise Refusal('not_found', f'there is no record channel {channel!r}', record_channel_id=channel)
    return row[0]


def stale(item_id: str, current_us: int) -> Refusal:
    current = versioned.stamp_text(current_us)
    return Refusal('stale_version', f'{item_id} was changed: read it again, apply the edit to what is there, and send '
                                    f'it with {current}', current_version=current)


def folded(item: Item) -> str:
    texts = [value for value in item.values.values() if isinstance(value, str)]
    return fold('\n'.join([item.title, *texts]))


def fold(text: str) -> str:
    """résumé is found by resume, STRASSE by straße."""
    return ''.join(letter for letter in unicodedata.normalize('NFKD', text.casefold())
                   if not unicodedata.combining(letter)).casefold()


# The people's side: record channels and their fields, saves from a page, deletions, history.

def create_record_channel(tx: Tx, channel: str, name: str, fields: Sequence[Field]) -> None:
    """Refuses fields of one name, of an unknown kind, or a choice with nothing to choose."""
    if len(fields) > FIELDS_A_CHANNEL or len({field.field for field in fields} | {TITLE}) != len(fields) + 1:
        raise versioned.invalid('fields', f'at most {FIELDS_A_CHANNEL} of different names, none of them "{TITLE}"')
    tx.execute('INSERT INTO record_channels VALUES (?, ?)', (channel, name))
    for position, field in enumerate(fields):
        if field.kind not in KINDS:
            raise versioned.invalid('kind', 'one of ' + ', '.join(KINDS))
        if (field.kind == 'choice') != bool(field.choices) or len(field.choices) > CHOICES_A_FIELD:
            raise versioned.invalid('choices', f'1 to {CHOICES_A_FIELD} texts for a choice, none for another kind')
        tx.execute('INSERT INTO record_fields VALUES (?, ?, ?, ?, ?)',
                   (channel, field.field, position, field.kind, json.dumps(list(field.choices))))


def delete_record_item(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """A person's deletion, over the version the page showed. Its history stays, and its id is not used again."""
    channel, item_id = arguments['record_channel_id'], arguments['item_id']
    before = find_item(tx, channel, item_id)
    version_us = versioned.next_stamp(tx, Ref('record_channel', channel), before.version_us, now_us)
    expected_us = versioned.parse_stamp(arguments.get('expected_version'))
    deleted = tx.execute(f'UPDATE record_items SET version_us = ?, deleted = 1, folded = \'\', vals = \'{{}}\' '
                         f'WHERE record_channel_id = ? AND item_id = ? AND {IS_CURRENT}',
                         (version_us, channel, item_id, expected_us)).rowcount
    if not deleted:
        raise stale(item_id, before.version_us)
    gone = Item(item_id, version_us, True, before.title, {})
    return {**saved(tx, actor, channel, gone, {}, 'deleted'), 'deleted': True}


def item_history(tx: Tx, channel: str, item_id: str, limit: int = HISTORY_LIMIT,
                 before: Optional[str] = None) -> List[dict]:
    """Saved versions, the newest first, for people's pages. `before` is the last version of the page before."""
    before_us = versioned.parse_stamp(before, 'before') if before else 2 ** 63 - 1
    rows = tx.execute('SELECT version_us, actor, change FROM record_history WHERE record_channel_id = ? '
                      'AND item_id = ? AND version_us < ? ORDER BY version_us DESC LIMIT ?',
                      (channel, item_id, before_us, limit))
    return [{'version': versioned.stamp_text(version_us), 'actor': actor, 'change': json.loads(change)}
            for version_us, actor, change in rows]


def prune_history(tx: Tx, before_us: int) -> None:
    """Forget saved versions older than `before_us`, never the line of the current one. The items themselves stay."""
    tx.execute('DELETE FROM record_history WHERE version_us < ? AND version_us < ('
               'SELECT version_us FROM record_items i WHERE i.record_channel_id = record_history.record_channel_id '
               'AND i.item_id = record_history.item_id)', (before_us,))
