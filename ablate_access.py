"""ablate_access.py - the rules of articles 6 and 7 taken out: every call is checked, and how it is refused.

Article 6, "Dov'è il confine" (five limits), and article 7, "Se lo colleghi tu" (six points). Every experiment is a
workspace with two projects, a connection with a token, and calls through the one seam that every tool goes through.

    python3 ablate.py small-token        one of them, step by step

Not here: what a row is and how a rule is taken out (ablate_rule.py).
"""
import contextlib
import json
import os
import sys
import tempfile
from typing import Any, Callable, Iterator, List

import access
import catalogue
import host_signin
import mcp
import note_store
import server
import tools
import versioned
import workspace
from ablate_rule import Change, Row, Say, always
from versioned import Database, Ref, Refusal
from wire import Request

# --- data ---------------------------------------------------------------------

HERE = sys.modules[__name__]
OWNER, AIKO = 'person:owner', 'person:aiko'
LAUNCH = Ref('note', 'launch')
TOKEN_ONLY = False                                              # the server's switch: --check token_only


class Office:
    """A workspace on disk. `call` is Claude's, with its token; `click` is the owner's."""

    def __init__(self, database: Database) -> None:
        self.state = tools.State(database, catalogue.by_name(), server.Config(), token_only=TOKEN_ONLY)
        self.database, self.connection, self.token = database, '', ''

    def click(self, verb: Callable[..., Any], *arguments: Any) -> Any:
        with self.database.write() as tx:
            return verb(tx, *arguments)

    def sign_in(self, *scopes: str) -> None:
        self.token = self.click(access.issue_access_token, self.connection, scopes or access.SCOPES,
                                self.state.now_us(), 3600)

    def call(self, name: str, **arguments: Any) -> dict:
        """The tool's answer, or its refusal as {"error": code, ...}."""
        result = tools.call_tool(self.state, self.token, name, arguments)
        return json.loads(result['content'][0]['text'])

    def read(self, note: str = 'launch') -> str:
        """What a read of the Note comes to: its text, or the refusal."""
        tab = self.click(lambda tx: note_store.list_note_tabs(tx, OWNER, {'note_id': note}, 0))['tabs'][0]['tab_id']
        answer = self.call('read_note_tab', note_id=note, tab_id=tab)
        return answer.get('error') or f'reads "{answer["text"]}"'


# --- rules --------------------------------------------------------------------

@contextlib.contextmanager
def office() -> Iterator[Office]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(os.path.join(folder, 'state.db'), server.SCHEMAS, synchronous='OFF')
        here = Office(database)
        here.click(build)
        here.connection = here.click(access.add_assistant, 'acme', OWNER, 'claude', 'Claude research', 1)
        here.click(access.attach, here.connection, 'acme', AIKO)
        here.click(access.add_to_project, here.connection, 'a')
        here.sign_in()
        try:
            yield here
        finally:
            here.state.close()


def build(tx: versioned.Tx) -> None:
    """Projects A and B; a Note in A, one only on a device, and a Message channel in no project."""
    workspace.add_person(tx, OWNER, 'Owner')
    workspace.add_person(tx, AIKO, 'Aiko')
    workspace.create_workspace(tx, 'acme', 'Acme', OWNER)
    workspace.set_role(tx, AIKO, Ref('workspace', 'acme'), 'editor')
    for project in 'ab':
        access.create_project(tx, project, 'acme', f'Project {project.upper()}')
    for note, text in (('launch', 'Q3 launch checklist'), ('diary', 'my diary')):
        note_store.create_note(tx, OWNER, note, text, [{'tab_type': 'note', 'label': 'Brief', 'text': text},
                                                       {'tab_type': 'sheet', 'label': 'Owners'}], 1)
        access.place(tx, Ref('note', note), 'acme', 'a', note == 'diary', text)
    access.place(tx, Ref('channel', 'random'), 'acme', None, False, '#random')


def edit_arguments(here: Office) -> dict:
    tabs = here.call('list_note_tabs', note_id='launch')
    return {'note_id': 'launch', 'tab_id': tabs['tabs'][0]['tab_id'], 'operation': 'replace_text', 'text': 'v2',
            'expected_version': tabs['version'], 'idempotency_key': 'key-00001'}


def moved(say: Say) -> str:
    with office() as here:
        say(f'  the Note lies in project A, which Claude may see: {here.read()}')
        here.click(access.move, LAUNCH, 'b')
        say('  its owner moves it to project B; the same token calls again')
        return f'the next call: {here.read()}'


def removed_project(say: Say) -> str:
    with office() as here:
        say(f'  a token was issued while project A was in the connection: {here.read()}')
        here.click(access.remove_from_project, here.connection, 'a')
        say('  the owner removes project A from the connection; the token is still valid for an hour')
        return f'the next call: {here.read()}'


def revoked(say: Say) -> str:
    with office() as here:
        here.click(access.revoke, here.connection)
        say('  the owner clicks Revoke connection; Claude calls with the token it has')
        return f'the next call: {here.read()}'


def demoted_approver(say: Say) -> str:
    with office() as here:
        arguments = edit_arguments(here)
        here.click(workspace.set_role, AIKO, Ref('workspace', 'acme'), 'viewer')
        say('  Aiko, who approved the connection, may only view from now on; Claude edits')
        answer = here.call('edit_note_tab', **arguments)
        return f'the edit: {answer.get("error", "saved")}'


def device_only(say: Say) -> str:
    with office() as here:
        say('  a Note that was never synchronised, in a project that Claude may see')
        return f'a read of it: {here.read("diary")}'


def uninvited(say: Say) -> str:
    with office() as here:
        say('  #random lies in no project, and nobody has invited the connection')
        with here.database.read() as tx:
            grant = access.authenticate(tx, here.token, here.state.now_us())
            try:
                access.check(tx, grant, 'any_reader_of_channels', 'view', Ref('channel', 'random'))
            except Refusal as refusal:
                return f'Claude asks for its messages: {refusal.code}'
        return 'Claude asks for its messages: the check lets it pass'


def first_call(say: Say) -> str:
    config = server.Config(base_url='https://tools.example')
    header = mcp.challenge(config, 'invalid_token', 'Connect osFoundry to continue')
    tried = host_signin.resource_metadata_urls('https://tools.example' + mcp.ENDPOINT, host_signin.challenge(header))
    say(f'  the 401 says: {header}')
    told = 'resource_metadata' in header
    return 'the host is told where to sign in' if told else f'the host has to guess among {len(tried)} addresses'


def read_only_token(say: Say) -> str:
    with office() as here:
        arguments = edit_arguments(here)
        here.sign_in(tools.READ)
        say('  the person allowed reading only; Claude edits')
        try:
            return f'the edit: {here.call("edit_note_tab", **arguments).get("error", "saved")}'
        except access.Forbidden as forbidden:
            return f'the edit: 403 insufficient_scope, it needs {forbidden.scope}'


def refused_item(say: Say) -> str:
    with office() as here:
        here.click(access.move, LAUNCH, 'b')
        body = {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call',
                'params': {'name': 'list_note_tabs', 'arguments': {'note_id': 'launch'}}}
        request = Request('POST', mcp.ENDPOINT, '', {'content-type': 'application/json',
                                                    'authorization': f'Bearer {here.token}'},
                          json.dumps(body).encode(), '127.0.0.1')
        response = mcp.answer(request, [], lambda *call: tools.call_tool(here.state, *call), server.Config())
        say(f'  a Note of another project: HTTP {response.status}, {response.body.decode()[:150]}...')
        return ('HTTP 200, and the model reads not_in_project' if response.status == 200 else
                f'HTTP {response.status}: the host signs in once more, for the scope that it has')


def lost_answer(say: Say) -> str:
    with office() as here:
        tabs = here.call('list_note_tabs', note_id='launch')
        arguments = {'note_id': 'launch', 'tab_type': 'slides', 'label': 'Launch status',
                     'expected_version': tabs['version'], 'idempotency_key': 'launch-status-deck'}
        first = here.call('create_note_tab', **arguments)
        again = here.call('create_note_tab', **arguments)
        say(f'  create_note_tab made {first["tab_id"]}; its answer is lost, the host calls again')
        same = again.get('tab_id') == first['tab_id']
        return 'the retry gets the same tab' if same else f'the retry is told {again.get("error", "of another tab")}'


def as_forbidden(refused):
    def forbid(refusal: Refusal) -> dict:
        raise access.Forbidden(tools.READ)
    return forbid


def open_to_all(item_is_open):
    return lambda facts: facts.project is None or item_is_open(facts)


ROWS: List[Row] = [
    Row(6, 1, 'no-way-back', 'no chat is opened, listed or started from here', 'catalogue.py, server.py',
        reason='there is no code to take out: no tool and no route leads to a chat'),
    Row(6, 2, 'local-only', 'what was never synchronised does not exist for a connection', 'access.py: FACTS',
        [Change(access, 'FACTS', lambda facts: facts.replace('AND p.local_only = 0', ''))], device_only),
    Row(6, 3, 'every-call', 'access is checked in every call, not at sign-in', 'access.py: check',
        [Change(access, 'check', always(lambda tx, grant, tool, needs, ref: None))], revoked),
    Row(6, 3, 'approver-still-may', 'an edit needs the approver\'s right of today', 'access.py: approver_may',
        [Change(access, 'approver_may', always(lambda facts, needs: True))], demoted_approver),
    Row(6, 4, 'proposals-wait', 'work on a repository waits for a person', 'tools_gitnest.py',
        reason='no tool writes to a repository; what decides in its place is the row propose-only'),
    Row(6, 5, 'invitation', 'a Message channel opens by invitation only', 'access.py: item_is_open',
        [Change(access, 'item_is_open', open_to_all)], uninvited),
    Row(7, 1, 'metadata-in-401', 'the 401 says where to sign in', 'mcp.py: challenge',
        [Change(mcp, 'challenge', always(lambda config, error, *more: f'Bearer error="{error}"'))], first_call),
    Row(7, 2, 'public-before-sign-in', 'what is public before a sign-in is decided', 'mcp.py: LEGACY, MODERN',
        reason='a decision, not a mechanism; a test holds that no description tells of anybody'),
    Row(7, 3, 'scope', 'every tool names its scope, and a token without it is refused', 'access.py: require_scope',
        [Change(access, 'require_scope', always(lambda grant, scope: None))], read_only_token),
    Row(7, 4, 'small-token', 'the token holds no project list; it is read at every call', 'access.py: reachable, check',
        [Change(HERE, 'TOKEN_ONLY', always(True))], removed_project),
    Row(7, 5, 'refusal-is-a-result', 'a refusal about an item is a result, not a 403', 'tools.py: refused',
        [Change(tools, 'refused', as_forbidden)], refused_item),
    Row(7, 6, 'version-and-key', 'a write carries a key, because hosts retry', 'versioned.py: once, stored',
        [Change(versioned, 'once', always(lambda tx, actor, key, tool, arguments, work: work())),
         Change(versioned, 'stored', always(lambda *call: None))], lost_answer)]
