"""pages_forms.py - how a form's texts become a click's arguments.

A form knows only texts and files, a click takes what the scripted owner would send as JSON: numbers, lists, nothing
at all. One entry a click whose arguments are more than texts; every other form is passed on as it is, without its
empty fields.

Not here: the forms (pages.py), the clicks (owner_verbs.py and its sisters).
"""
import base64
import json
import re
import secrets
from itertools import count, takewhile
from typing import Any, Callable, Dict, List, NamedTuple, Tuple
from urllib.parse import parse_qsl

import gitnest
import note_people
import owner
from gitnest_proposals import VERSION
from tools import State
from versioned import invalid, is_text
from wire import Request

# --- data ---------------------------------------------------------------------

FIELDS = 2_000                            # of one form: a checklist of tools, a record of 60 fields
OURS = ('form_token', 'back')
NUMBER = re.compile(r'-?(0|[1-9][0-9]{0,15})')
DECIMAL = re.compile(r'-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?')
BOUNDARY = re.compile(r'boundary="?([0-9A-Za-z\'()+_,./:=? -]{1,70})', re.IGNORECASE)
DISPOSITION = re.compile(r'^content-disposition: *form-data; *name="([^"]*)"(?:; *filename="([^"]*)")?',
                         re.IGNORECASE | re.MULTILINE)
PART_TYPE = re.compile(r'^content-type: *([^\s;]+)', re.IGNORECASE | re.MULTILINE)
NO_TYPE = 'application/octet-stream'


class Upload(NamedTuple):
    """A file that a person chose."""
    name: str
    media_type: str
    content: bytes


class Sent(NamedTuple):
    """A form: its fields, every value of those that were sent more than once, and the files."""
    fields: Dict[str, str]
    lists: Dict[str, List[str]]
    files: Dict[str, Upload] = {}


Fields = Tuple[List[Tuple[str, str]], Dict[str, Upload]]

# --- rules --------------------------------------------------------------------

def read(request: Request) -> Sent:
    """Raises invalid_argument for what is no form. Line ends are \\n, whatever the browser makes of them."""
    readers = {'application/x-www-form-urlencoded': read_pairs, 'multipart/form-data': read_parts}
    if owner.media_type(request) not in readers:
        raise invalid('form', ' or '.join(readers))
    try:
        pairs, files = readers[owner.media_type(request)](request)
    except ValueError as fault:                            # not UTF-8, too many fields, or no parts
        raise invalid('form', f'text of at most {FIELDS} fields') from fault
    lists: Dict[str, List[str]] = {}
    for name, value in pairs:
        if not is_text(value):
            raise invalid(name, 'text without NUL')
        lists.setdefault(name, []).append(value.replace('\r\n', '\n'))
    return Sent({name: values[0] for name, values in lists.items()}, lists, files)


def read_pairs(request: Request) -> Fields:
    return parse_qsl(request.body.decode('utf-8'), keep_blank_values=True, errors='strict', max_num_fields=FIELDS), {}


def read_parts(request: Request) -> Fields:
    """As browsers send a form with files (HTML, multipart form data; RFC 7578). Raises ValueError."""
    boundary = BOUNDARY.search(request.headers['content-type'])
    parts = (b'\r\n' + request.body).split(b'\r\n--' + boundary.group(1).encode()) if boundary else []
    if not 2 < len(parts) <= FIELDS + 2 or parts[0] or parts[-1].strip() != b'--':
        raise ValueError('no parts')
    pairs, files = [], {}
    for part in parts[1:-1]:
        head, _, content = part.partition(b'\r\n\r\n')
        named, kind = DISPOSITION.search(head.decode('utf-8')), PART_TYPE.search(head.decode('utf-8'))
        if not named:
            raise ValueError('a part without a name')
        name, filename = named.group(1), named.group(2)
        if filename is None:
            pairs.append((name, content.decode('utf-8')))
        elif filename or content:                          # else none was chosen
            files[name] = Upload(file_name(filename), kind.group(1) if kind else NO_TYPE, content)
    return pairs, files


def file_name(sent: str) -> str:
    """Without the three escapes of the HTML standard, and without the folders that some browsers send along."""
    for escape, character in (('%22', '"'), ('%0D', '\r'), ('%0A', '\n')):
        sent = sent.replace(escape, character)
    return re.split(r'[/\\]', sent)[-1]


def arguments(state: State, workspace: str, verb: str, sent: Sent) -> dict:
    """Of the workspace that the page showed: whoever is in several must not be asked which."""
    found = SHAPES.get(verb, plain)(state, sent)
    return {'workspace': workspace, **found} if verb in IN_WORKSPACE else found


def plain(state: State, sent: Sent) -> dict:
    """Texts as they are; an empty field is an absent argument."""
    return {name: value for name, value in sent.fields.items() if name not in OURS and value != ''}


def new_id(words: str) -> str:
    """An id that can be read and is not taken: 'Launch Q3' -> 'launch-q3-1f3a9c'."""
    word = re.sub('[^a-z0-9]+', '-', words.lower()).strip('-')[:40]
    return (word + '-' if word else '') + secrets.token_hex(3)


def with_id(name: str, of: str) -> Callable[[State, Sent], dict]:
    """The form asks for a name only; the id is made of it."""
    def shape(state: State, sent: Sent) -> dict:
        found = plain(state, sent)
        return {name: new_id(sent.fields.get(of, '')), **found}
    return shape


def new_note(state: State, sent: Sent) -> dict:
    """A Note begins with one tab to write into."""
    return {**with_id('note_id', 'title')(state, sent), 'tabs': [{'tab_type': 'note', 'label': 'Note', 'text': ''}]}


def new_records(state: State, sent: Sent) -> dict:
    """Fields as lines, 'status: choice: Draft, Ready'; without any, one status to begin with."""
    found = with_id('record_channel_id', 'name')(state, sent)
    lines = [line for line in found.pop('fields', 'status: choice: Draft, Ready').split('\n') if line.strip()]
    return {**found, 'fields': [record_field(line) for line in lines]}


def record_field(line: str) -> dict:
    name, kind, choices = ([part.strip() for part in line.split(':', 2)] + ['text', ''])[:3]
    if kind != 'choice':
        return {'field': name, 'kind': kind}
    return {'field': name, 'kind': kind, 'choices': [one.strip() for one in choices.split(',') if one.strip()]}


def article(state: State, sent: Sent) -> dict:
    """An empty text is a text; a new article gets its id from its title."""
    found = {name: sent.fields.get(name, '') for name in ('knowledge_base_id', 'article_id', 'title', 'content')}
    found['article_id'] = found['article_id'] or new_id(found['title'])
    if sent.fields.get('expected_version'):
        found['expected_version'] = sent.fields['expected_version']
    return {**found, 'publish': True} if 'publish' in sent.fields else found


def note_save(state: State, sent: Sent) -> dict:
    """One operation on one tab; what else the form holds depends on the operation."""
    one = sent.fields
    found = {name: one.get(name, '') for name in ('note_id', 'tab_id', 'operation', 'base_version', 'idempotency_key')}
    operation = found['operation']
    if operation == 'replace_text':
        return {**found, 'text': one.get('text', '')}
    if operation == 'slide_add':
        return {**found, 'slides': [{'title': one.get('title', ''), 'text': one.get('text', '')}]}
    if operation == 'sheet_set_range':
        words = one.get('cells', '').rstrip()
        lines = words.split('\n') if words else []            # a blank line between others is an empty row
        rows = [[cell_value(cell) for cell in line.split(',')] for line in lines]
        width = max(map(len, rows), default=0)
        return {**found, 'start_row': number('start_row', one), 'start_col': number('start_col', one),
                'values': [row + [None] * (width - len(row)) for row in rows]}
    return {**found, 'values': json_value('data', one.get('data', ''))}


def cell_value(words: str) -> Any:
    """A cell as a person types it: a number when it looks like one, nothing when it is empty."""
    words = words.strip()
    if NUMBER.fullmatch(words):
        return int(words)
    return float(words) if DECIMAL.fullmatch(words) else words or None


def number(name: str, fields: Dict[str, str]) -> int:
    if not NUMBER.fullmatch(fields.get(name, '')):
        raise invalid(name, 'a whole number')
    return int(fields[name])


def json_value(name: str, words: str) -> Any:
    try:
        return json.loads(words)
    except (ValueError, RecursionError):
        raise invalid(name, 'JSON') from None


def record(state: State, sent: Sent) -> dict:
    """value.NAME fields become values, each of its field's kind; an empty one empties the field."""
    found = {name: value for name, value in plain(state, sent).items() if not name.startswith('value.')}
    with state.db.read() as tx:
        kinds = dict(tx.execute('SELECT field, kind FROM record_fields WHERE record_channel_id = ?',
                                (found.get('record_channel_id', ''),)))
    values = {name[len('value.'):]: value for name, value in sent.fields.items() if name.startswith('value.')}
    shaped = {name: record_value(name, kinds.get(name, 'text'), value) for name, value in values.items()}
    if 'item_id' not in found:                             # a new record has nothing to empty
        shaped = {name: value for name, value in shaped.items() if value is not None}
    return {**found, 'values': shaped}


def record_value(name: str, kind: str, words: str) -> Any:
    if words == '':
        return None
    if kind == 'checkbox':
        return words == 'true'
    if kind == 'number':
        value = cell_value(words)
        if isinstance(value, str):
            raise invalid(name, 'a number')
        return value
    return words


def ticks(state: State, sent: Sent) -> dict:
    """The form sends what is ticked, the click takes what is not."""
    on = set(sent.lists.get('tool', ()))
    off = [name for name in state.catalogue if name not in on]
    return {'connection': sent.fields.get('connection', ''), 'off': off}


def switch(state: State, sent: Sent) -> dict:
    return {**plain(state, sent), 'on': sent.fields.get('on') == 'on'}


def policy(state: State, sent: Sent) -> dict:
    """Lists as lines. An empty address leaves the one that is there: it is never shown, so it cannot come back."""
    found, lines = plain(state, sent), sent.fields
    for name in ('required_checks', 'look_twice'):
        found[name] = [line.strip() for line in lines.get(name, '').split('\n') if line.strip()]
    over = lines.get('look_twice_over', '')
    return {**found, 'look_twice_over': number('look_twice_over', lines) if over else gitnest.UNLIMITED}


def decision(state: State, sent: Sent) -> dict:
    found = plain(state, sent)
    return {**found, 'second_look': True} if found.pop('second_look', '') else found


def moved(state: State, sent: Sent) -> dict:
    """No project is a place to be, too."""
    return {**plain(state, sent), 'project': sent.fields.get('project') or None}


def channel(state: State, sent: Sent) -> dict:
    found = with_id('channel_id', 'name')(state, sent)
    return {**found, 'private': True} if found.pop('private', '') else found


def member(state: State, sent: Sent) -> dict:
    return {**plain(state, sent), 'reachable': True}


def file(state: State, sent: Sent) -> dict:
    """The file that was chosen; without one, the text."""
    found = plain(state, sent)
    words = found.pop('file_text', '')
    chosen = sent.files.get('file') or Upload('', 'text/plain', words.encode())
    if len(chosen.content) > note_people.FILE_BYTES:       # the click would tell of base64, which nobody typed
        raise invalid('file', f'at most {note_people.FILE_BYTES:,} bytes, not {len(chosen.content):,}')
    return {**found, 'name': found.get('name', chosen.name), 'media_type': chosen.media_type,
            'content_base64': base64.b64encode(chosen.content).decode()}


def revision(state: State, sent: Sent) -> dict:
    with state.db.read() as tx:
        imports = json.loads(gitnest.find(tx, sent.fields.get('change_set_id', '')).imports)
    before: Dict[str, List[str]] = {}
    for one in imports:
        for path, content in one['files']:
            before.setdefault(path, []).append(content)
    return {'change_set_id': sent.fields['change_set_id'], VERSION: number(VERSION, sent.fields),
            'imports': imports_of(sent.fields, before)}


def imports_of(fields: Dict[str, str], before: Dict[str, List[str]]) -> List[dict]:
    """message.0, path.0.0, content.0.0, path.0.1, ... What was emptied is left out. `before`: contents by path."""
    found: List[dict] = []
    for nth in takewhile(lambda nth: f'message.{nth}' in fields, count()):
        files = []
        for place in takewhile(lambda place: f'path.{nth}.{place}' in fields, count()):
            path, content = fields[f'path.{nth}.{place}'], fields.get(f'content.{nth}.{place}', '')
            if path:
                files.append({'path': path, 'content': line_ends(before.get(path, []), content)})
        if files or fields[f'message.{nth}']:
            found.append({'message': fields[f'message.{nth}'], 'files': files})
    return found


def line_ends(before: List[str], sent: str) -> str:
    """A form makes \\n of every line end: a text keeps those that it had."""
    for each in before:
        if sent == each.replace('\r\n', '\n').replace('\r', '\n'):
            return each
    return sent.replace('\n', '\r\n') if any(each.count('\r\n') == each.count('\n') > 0 for each in before) else sent


SHAPES: Dict[str, Callable[[State, Sent], dict]] = {
    'create_project': with_id('project', 'name'), 'create_note': new_note,
    'create_knowledge_base': with_id('knowledge_base_id', 'name'), 'create_record_channel': new_records,
    'create_channel': channel, 'set_member': member, 'attach_file': file, 'create_room': with_id('room_id', 'name'),
    'add_person': with_id('of', 'name'), 'save_article': article, 'save_note': note_save, 'save_tools': ticks,
    'create_record': record, 'save_record': record, 'set_sharing': switch, 'set_gitnest': switch, 'move_item': moved,
    'decide': decision, 'set_policy': policy, 'revise_change_set': revision,
}
IN_WORKSPACE = ('add_assistant', 'create_project', 'create_note', 'create_knowledge_base', 'create_record_channel',
                'create_channel', 'create_room', 'create_repository', 'move_item', 'set_role', 'add_person',
                'open_link')
LANDINGS: Dict[str, Tuple[str, ...]] = {                   # where a click leads: a page, and the members of its answer
    'add_assistant': ('connection', 'connection'), 'create_project': ('project', 'project'),
    'create_note': ('note', 'note_id'), 'create_knowledge_base': ('knowledge_base', 'knowledge_base_id'),
    'create_record_channel': ('record_channel', 'record_channel_id'), 'create_channel': ('channel', 'channel_id'),
    'create_room': ('room', 'room_id'), 'create_repository': ('repository', 'repository_id'),
    'create_record': ('record_channel', 'record_channel_id', 'item_id'),
}
