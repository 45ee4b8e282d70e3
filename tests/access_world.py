"""A small workspace for the tests of access: projects A and B, one knowledge base and one Note in each, one connection.

Not a test module. Everything is real: a sqlite file, the stores, call_tool; the owner's clicks are access.py's
functions.
"""
import itertools
import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)

import access
import activity
import catalogue
import kb_store
import note_store
import server
import tools
import workspace
from versioned import Database, Ref

OWNER, APPROVER = 'person:owner', 'person:aiko'
KB_A, KB_B = Ref('knowledge_base', 'kb-a'), Ref('knowledge_base', 'kb-b')
NOTE_A, NOTE_B = Ref('note', 'note-a1'), Ref('note', 'note-b1')
ALL_SCOPES = access.SCOPES


@contextmanager
def errors_of_children():
    """What our children say on the standard error that they share with us: a file, to be read when they have ended."""
    with tempfile.TemporaryFile('w+') as file:
        ours = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(ours, 2)
            os.close(ours)


class World:
    """`call(name, **arguments)` calls a tool with the connection's token; `click(function, ...)` is the owner's."""

    def __init__(self, folder=None, token_only=False):
        self.folder = folder or tempfile.mkdtemp(prefix='access-')
        self.db = Database(os.path.join(self.folder, 'state.db'), server.SCHEMAS, synchronous='NORMAL')
        config = server.Config(data=self.folder)
        self.state = tools.State(self.db, catalogue.by_name(), config, token_only=token_only)
        self.keys = itertools.count(1)

    def build(self):
        with self.db.write() as tx:
            build_workspace(tx)
        self.connection = self.click(connect)
        self.click(access.add_to_project, self.connection, 'project-a')
        self.token = self.new_token()
        return self

    def new_token(self, *scopes, ttl_s=3600):
        return self.click(access.issue_access_token, self.connection, scopes or ALL_SCOPES, self.state.now_us(), ttl_s)

    def click(self, function, *arguments):
        with self.db.write() as tx:
            return function(tx, *arguments)

    def call(self, name, bearer=None, **arguments):
        return tools.call_tool(self.state, bearer or self.token, name, arguments)

    def code(self, name, bearer=None, **arguments):
        """'ok', or the code of the refusal."""
        result = self.call(name, bearer, **arguments)
        return json.loads(result['content'][0]['text'])['error'] if result['isError'] else 'ok'

    def key(self):
        return f'key-{next(self.keys):08d}'

    def edit_arguments(self, content='new words'):
        article = self.call('read_knowledge_article', knowledge_base_id='kb-a', article_id='refunds')
        return {'knowledge_base_id': 'kb-a', 'article_id': 'refunds', 'content': content,
                'expected_version': article['structuredContent']['citation']['updated_at'],
                'idempotency_key': self.key()}

    def recent(self):
        self.state.activity.flush()
        with self.db.read() as tx:
            return activity.recent(tx, self.connection)

    def close(self, keep=False):
        self.state.close()
        if not keep:
            shutil.rmtree(self.folder)


def build_workspace(tx):
    workspace.add_person(tx, OWNER, 'Owner')
    workspace.add_person(tx, APPROVER, 'Aiko')
    workspace.create_workspace(tx, 'acme', 'Acme', OWNER)
    workspace.set_role(tx, APPROVER, Ref('workspace', 'acme'), 'editor')
    workspace.create_workspace(tx, 'other', 'Other', OWNER)
    for letter in 'ab':
        project = f'project-{letter}'
        access.create_project(tx, project, 'acme', f'Project {letter.upper()}')
        kb_store.create_knowledge_base(tx, f'kb-{letter}', f'Support {letter.upper()}')
        access.place(tx, Ref('knowledge_base', f'kb-{letter}'), 'acme', project, False, f'Support {letter.upper()}')
        article = {'knowledge_base_id': f'kb-{letter}', 'article_id': 'refunds',
                   'title': 'Refund policy', 'content': '30 days'}
        kb_store.create_article(tx, OWNER, article, 1)
        kb_store.publish_article(tx, OWNER, article, 2)
        title = f'Q3 launch checklist {letter.upper()}'
        note_store.create_note(tx, OWNER, f'note-{letter}1', title, [{'tab_type': 'note', 'label': 'Brief'}], 1)
        access.place(tx, Ref('note', f'note-{letter}1'), 'acme', project, False, title)


def connect(tx, approver=APPROVER):
    connection = access.add_assistant(tx, 'acme', OWNER, 'claude', 'Claude research', 1)
    access.attach(tx, connection, 'acme', approver)
    return connection
