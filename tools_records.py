"""tools_records.py - record channels: two tools of the articles, two of ours.

Article 6, "Un'esecuzione reale" (read_record_item and edit_record_item with their arguments), and article 7, which
prints edit_record_item's annotations. list_record_items and create_record_item are names of ours: a model that has
no item_id must get one from somewhere.

Not here: what a record is (record_store.py), the check before it (tools.call_tool).
"""
from typing import List

import record_store
from tools import ID, KEY, READ, VERSION, WRITE, Tool, arguments_of, integer, stored, text
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

CHANNEL, ITEM = {'record_channel_id': ID}, {'record_channel_id': ID, 'item_id': ID}
VALUES = {'type': 'object', 'minProperties': 1, 'maxProperties': record_store.FIELDS_A_CHANNEL + 1,
          'additionalProperties': {'type': ['string', 'number', 'boolean', 'null']}}

# --- rules --------------------------------------------------------------------

def record_channel(tx: Tx, arguments: dict) -> Ref:
    return Ref('record_channel', arguments['record_channel_id'])


TOOLS: List[Tool] = [
    Tool('list_record_items',
         'The items of one record channel and its fields, in pages: pass next_item_id as after_item_id. search narrows '
         'to items that hold every word of it.',
         arguments_of(CHANNEL, {'search': text(1, 200), 'after_item_id': ID,
                                'limit': integer(*record_store.LIST_LIMIT)}),
         READ, 'view', True, False, False,
         record_channel, lambda call: stored(record_store.list_record_items, call)),
    Tool('read_record_item',
         'One item of a record channel: its title, its values and its version, which an edit must carry.',
         arguments_of(ITEM), READ, 'view', True, False, False,
         record_channel, lambda call: stored(record_store.read_record_item, call)),
    Tool('edit_record_item',
         'Change the named fields of one item; the others keep their values, and null empties one. expected_version is '
         'from read_record_item: if anybody saved the item since, this is refused; read again and redo it.',
         arguments_of({**ITEM, 'values': VALUES, 'expected_version': VERSION, 'idempotency_key': KEY}),
         WRITE, 'edit', False, True, False,
         record_channel, lambda call: stored(record_store.edit_record_item, call)),
    Tool('create_record_item',
         'A new item in one record channel, with at least a title among its values. The same key again gives the same '
         'item.',
         arguments_of({**CHANNEL, 'values': VALUES, 'idempotency_key': KEY}),
         WRITE, 'edit', False, False, False,
         record_channel, lambda call: stored(record_store.create_record_item, call)),
]
