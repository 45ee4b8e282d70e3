"""Article 6, "L'accesso viene controllato a ogni chiamata", and article 7's order: every tool of the catalogue, every reason.

One table: each reason is brought about by the owner's click while other connections are at work, every tool is called once
on it, and each call must be refused with the reason's code. The control before it shows that the same calls pass the check
without the reason; its keys are used again, so a stored answer that outlived access would be caught.
"""
import json
import threading
import unittest

from tests.access_world import APPROVER, OWNER, connect
from tests.project_world import INVITED, ITEMS, ProjectWorld

import access
import catalogue
import schema
import workspace
from versioned import Ref

TOOLS = catalogue.by_name()
WHOLE, PROJECT_A = Ref('workspace', 'acme'), Ref('project', 'project-a')
RUNNERS = [tool.name for tool in TOOLS.values() if tool.needs == 'run']
# What the check says. Anything else a call is refused for is the store's word, given after the check.
CHECKED = {'connection_revoked', 'tool_not_enabled', 'not_in_project', 'not_invited', 'approver_lacks_role',
           'runner_role_required'}


class Load:
    """Other connections, approved by somebody else, that read and edit in project B all the time."""

    def __init__(self, world, connections):
        self.world, self.stop, self.outcomes = world, threading.Event(), set()
        self.threads = [threading.Thread(target=self.work, args=(self.token(),)) for _ in range(connections)]
        for thread in self.threads:
            thread.start()

    def token(self):
        connection = self.world.click(connect, OWNER)
        self.world.click(access.add_to_project, connection, 'project-b')
        return self.world.click(access.issue_access_token, connection, access.SCOPES, self.world.state.now_us(), 3600)

    def work(self, token):
        article = {'knowledge_base_id': 'kb-b', 'article_id': 'refunds'}
        while not self.stop.is_set():
            read = self.world.call('read_knowledge_article', token, **article)['structuredContent']
            self.outcomes.add(self.world.code('edit_knowledge_article', token, **article, content='x',
                                              expected_version=read['citation']['updated_at'],
                                              idempotency_key=self.world.key()))

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return self.outcomes


class EveryToolEveryReason(unittest.TestCase):
    LOADERS = 2

    @classmethod
    def setUpClass(cls):
        cls.world = ProjectWorld().build(repository=True)
        cls.click = cls.world.click
        cls.calls = {name: cls.world.arguments(tool) for name, tool in TOOLS.items()}

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def setUp(self):
        self.world.be_there()
        self.control()
        self.load = Load(self.world, self.LOADERS)
        self.addCleanup(lambda: self.assertLessEqual(self.load.outcomes, {'ok', 'stale_version'}))
        self.addCleanup(self.load.end)

    def control(self):
        """Every call passes the check, so that what refuses it below is the reason and nothing else."""
        for name, arguments in self.calls.items():
            schema.check(TOOLS[name].schema, arguments)
            self.assertNotIn(self.world.code(name, **arguments), CHECKED, name)

    def expect(self, reason, codes):
        """`codes(tool, ref)` -> the code, or None where this reason does not touch the tool."""
        for name, tool in TOOLS.items():
            with self.world.db.read() as tx:
                ref = tool.ref(tx, self.calls[name])
            wanted = codes(tool, ref)
            result = self.world.call(name, **self.calls[name])
            said = json.loads(result['content'][0]['text']) if result['isError'] else {'error': 'ok'}
            with self.subTest(reason=reason, tool=name):
                if wanted is None:
                    self.assertNotIn(said['error'], CHECKED)
                else:
                    self.assertEqual(said['error'], wanted)
                if wanted == 'not_found':                # the check's, not the store's
                    self.assertIn('in the connected workspace', said['message'])

    def nothing_is_listed(self):
        listed = self.world.call('list_project_resources')
        self.assertEqual(listed['structuredContent']['resources'], [])

    def test_unticking(self):
        self.click(access.save_tools, self.world.connection, list(TOOLS))
        try:
            self.expect('unticked', lambda tool, ref: 'tool_not_enabled')
        finally:
            self.click(access.save_tools, self.world.connection, [])

    def test_removing_the_project(self):
        self.click(access.remove_from_project, self.world.connection, 'project-a')
        try:
            self.expect('removed', lambda tool, ref: 'not_in_project' if ref else None)
            self.nothing_is_listed()
            self.assertEqual(self.world.code('channel_history', channel_id=INVITED.id), 'ok', 'an invitation is its own')
        finally:
            self.click(access.add_to_project, self.world.connection, 'project-a')

    def test_moving_each_item_into_another_project(self):
        self.move('project-b')
        try:
            self.expect('moved', lambda tool, ref: 'not_in_project' if ref in ITEMS else None)
            self.nothing_is_listed()
        finally:
            self.move('project-a')

    def test_taking_each_item_out_of_every_project(self):
        self.move(None)
        try:
            def code(tool, ref):
                if ref not in ITEMS:
                    return None
                # A session that was opened to this connection by name stays open, as an invited channel does.
                return {'channel': 'not_invited', 'session': None}.get(ref.kind, 'not_in_project')
            self.expect('in no project', code)
            self.nothing_is_listed()
        finally:
            self.move('project-a')

    def move(self, project):
        for ref in ITEMS:
            self.click(access.move, ref, project)

    def test_losing_the_role_on_the_project(self):
        self.click(workspace.set_role, APPROVER, PROJECT_A, 'none')
        try:
            self.expect('no role', lambda tool, ref: 'approver_lacks_role' if ref else None)
            self.nothing_is_listed()
        finally:
            self.click(workspace.clear_role, APPROVER, PROJECT_A)

    def test_a_person_who_left_the_workspace(self):
        self.click(workspace.clear_role, APPROVER, WHOLE)
        try:
            self.expect('left', lambda tool, ref: 'approver_lacks_role' if ref else None)
            self.nothing_is_listed()
        finally:
            self.click(workspace.set_role, APPROVER, WHOLE, 'editor')

    def test_a_person_who_may_only_look(self):
        self.click(workspace.set_role, APPROVER, WHOLE, 'viewer')
        try:
            self.expect('viewer', lambda tool, ref: 'approver_lacks_role' if tool.needs in ('edit', 'run') else None)
        finally:
            self.click(workspace.set_role, APPROVER, WHOLE, 'editor')

    def test_losing_the_runner_role(self):
        sessions = [ref for ref in ITEMS if ref.kind == 'session']
        for ref in sessions:
            self.click(access.uninvite, self.world.connection, ref)
        try:
            self.assertEqual(len(RUNNERS), 3)
            self.expect('no runner', lambda tool, ref: 'runner_role_required' if tool.name in RUNNERS else None)
        finally:
            for ref in sessions:
                self.click(access.invite, self.world.connection, ref, 'runner')

    def test_items_that_are_only_on_a_device(self):
        self.place(True)
        try:
            self.expect('local', lambda tool, ref: 'not_found' if ref in ITEMS else None)
            self.nothing_is_listed()
        finally:
            self.place(False)

    def place(self, local_only):
        for ref in ITEMS:
            self.click(access.place, ref, 'acme', 'project-a', local_only)

    def test_a_token_without_the_scope_or_without_a_life(self):
        none, dead = self.world.new_token('osfoundry:models'), self.world.new_token()
        self.click(access.revoke_access_token, access.digest(dead))
        for name, arguments in self.calls.items():
            with self.subTest(tool=name):
                with self.assertRaises(access.Forbidden):
                    self.world.call(name, none, **arguments)
                with self.assertRaises(access.Unauthorized):
                    self.world.call(name, dead, **arguments)

    def test_revoking_the_connection(self):
        self.click(access.revoke, self.world.connection)
        try:
            self.expect('revoked', lambda tool, ref: 'connection_revoked')
        finally:
            self.world.connection = self.click(connect)        # revoking is for good: the next test has a new one
            self.world.token = self.world.new_token()
            self.click(access.add_to_project, self.world.connection, 'project-a')
            for ref in (*[ref for ref in ITEMS if ref.kind == 'session'], INVITED):
                self.click(access.invite, self.world.connection, ref, access.INVITED_AS[ref.kind])
            self.world.ids = self.world.make_ids()
            type(self).calls = {name: self.world.arguments(tool) for name, tool in TOOLS.items()}


if __name__ == '__main__':
    unittest.main()
