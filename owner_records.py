"""owner_records.py - a person's clicks on record channels: make one, add an item, save it, delete it.

Article 6, step 4 (record channels are part of what a project opens) and "Un'esecuzione reale", where a record may
have been changed by somebody in between: this is the somebody. A person's save carries the version that the page
showed, as an assistant's edit does.

Not here: what a record is (record_store.py), the assistant's tools (tools_records.py).
"""
from typing import Callable, Dict

import owner_project
import record_store
import schema
import tools_records
from owner_project import NAME, PLACE
from record_store import Field
from tools import ID, KEY, VERSION, State, arguments_of, text
from versioned import Ref

# --- data ---------------------------------------------------------------------

CHOICES = {'type': 'array', 'items': text(1, 200), 'maxItems': record_store.CHOICES_A_FIELD}
FIELD = arguments_of({'field': text(1, 64), 'kind': {'type': 'string', 'enum': list(record_store.KINDS)}},
                     {'choices': CHOICES})
NEW_CHANNEL = arguments_of({'record_channel_id': ID, 'name': NAME, 'fields': {
    'type': 'array', 'items': FIELD, 'maxItems': record_store.FIELDS_A_CHANNEL}}, PLACE)
NEW_ITEM = arguments_of({**tools_records.CHANNEL, 'values': tools_records.VALUES, 'idempotency_key': KEY})
SAVE = arguments_of({**tools_records.ITEM, 'values': tools_records.VALUES, 'expected_version': VERSION,
                     'idempotency_key': KEY})
DELETE = arguments_of({**tools_records.ITEM, 'expected_version': VERSION})

# --- rules --------------------------------------------------------------------

def create_record_channel(state: State, person: str, arguments: dict) -> dict:
    schema.check(NEW_CHANNEL, arguments)
    ref = Ref('record_channel', arguments['record_channel_id'])
    fields = [Field(field['field'], field['kind'], tuple(field.get('choices', ()))) for field in arguments['fields']]
    with state.db.write() as tx:
        owner_project.put(tx, person, arguments, ref, arguments['name'])
        record_store.create_record_channel(tx, ref.id, arguments['name'], fields)
    return {'record_channel_id': ref.id, 'project': arguments.get('project')}


def changing(state: State, person: str, wanted: dict, arguments: dict, work: Callable[..., dict]) -> dict:
    return owner_project.changing(state, person, wanted, arguments, 'record_channel',
                                  lambda tx: work(tx, f'person:{person}', arguments, state.now_us()))


def create_record(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, NEW_ITEM, arguments, record_store.create_record_item)


def save_record(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, SAVE, arguments, record_store.edit_record_item)


def delete_record(state: State, person: str, arguments: dict) -> dict:
    return changing(state, person, DELETE, arguments, record_store.delete_record_item)


VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    'create_record_channel': create_record_channel, 'create_record': create_record, 'save_record': save_record,
    'delete_record': delete_record,
}
