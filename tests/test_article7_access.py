"""Article 7: what is read again at every call, in which order it refuses, and what the catalogue says of itself."""
import json
import math
import os
import sqlite3
import time
import unittest

from tests.access_world import ALL_SCOPES, APPROVER, KB_A, NOTE_A, OWNER, World, connect

import access
import activity
import catalogue
import kb_store
import schema
import tools
import versioned
import workspace
from versioned import Ref, Refusal

READ_A = ('read_knowledge_article', {'knowledge_base_id': 'kb-a', 'article_id': 'refunds'})


class WithWorld(unittest.TestCase):
    def setUp(self):
        self.world = World().build()
        self.addCleanup(self.world.close)
        self.click = self.world.click

    def code(self, name='read_knowledge_article', bearer=None, **arguments):
        return self.world.code(name, bearer, **(arguments or READ_A[1]))


class WhoCalls(WithWorld):
    def test_a_call_without_a_token_and_one_with_an_unknown_token_are_both_unauthorized(self):
        for bearer in ('', 'x' * 43, 'ü\udc80', '\x00'):
            with self.subTest(bearer=bearer), self.assertRaises(access.Unauthorized):
                tools.call_tool(self.world.state, bearer, *READ_A)
        with self.assertRaises(access.Unauthorized):
            tools.call_tool(self.world.state, None, *READ_A)

    def test_a_token_is_unknown_from_the_microsecond_it_expires(self):
        token = self.click(access.issue_access_token, self.world.connection, ALL_SCOPES, 1_000, 60)
        with self.world.db.read() as tx:
            access.authenticate(tx, token, 60_000_999)
            with self.assertRaises(access.Unauthorized):
                access.authenticate(tx, token, 60_001_000)

    def test_a_token_revoked_as_a_token_is_unauthorized_while_one_of_a_revoked_connection_is_told_so(self):
        other = self.world.new_token()
        self.click(access.revoke_access_token, access.digest(other))
        with self.assertRaises(access.Unauthorized):
            tools.call_tool(self.world.state, other, *READ_A)
        self.click(access.revoke, self.world.connection)
        self.assertEqual(self.code(), 'connection_revoked')

    def test_no_issued_token_stands_anywhere_in_the_database_or_its_log(self):
        self.code()
        for name in os.listdir(self.world.folder):
            with open(os.path.join(self.world.folder, name), 'rb') as file:
                self.assertNotIn(self.world.token.encode(), file.read(), name)

    def test_a_missing_scope_is_forbidden_before_anything_about_the_item(self):
        token = self.world.new_token('osfoundry:read')
        with self.assertRaises(access.Forbidden) as caught:
            self.world.call('edit_knowledge_article', token, knowledge_base_id='nowhere')
        self.assertEqual(caught.exception.scope, 'osfoundry:write')

    def test_an_expired_token_without_the_scope_is_unauthorized_not_forbidden(self):
        token = self.click(access.issue_access_token, self.world.connection, ['osfoundry:read'], 0, 1)
        with self.assertRaises(access.Unauthorized):
            self.world.call('edit_knowledge_article', token, **{})

    def test_an_unknown_tool_is_told_only_to_somebody_known(self):
        with self.assertRaises(access.Unauthorized):
            self.world.call('no_such_tool', 'x' * 43)
        with self.assertRaises(tools.UnknownTool):
            self.world.call('no_such_tool')


class EveryCallReadsAgain(WithWorld):
    """One test a thing that the article lists as read again; each is changed between two calls of one token."""

    def test_a_new_connection_has_no_project(self):
        self.world.connection = self.click(connect)
        token = self.world.new_token()
        self.assertEqual(self.world.call('list_project_resources', token)['structuredContent']['resources'], [])
        self.assertEqual(self.code(bearer=token), 'not_in_project')

    def test_a_pending_connection_can_hold_no_project_and_call_nothing(self):
        pending = self.click(access.add_assistant, 'acme', OWNER, 'claude', 'Claude two', 1)
        with self.assertRaises(Refusal) as caught:
            self.click(access.add_to_project, pending, 'project-a')
        self.assertEqual(caught.exception.code, 'connection_pending')
        token = self.click(access.issue_access_token, pending, ALL_SCOPES, self.world.state.now_us(), 60)
        self.assertEqual(self.code(bearer=token), 'connection_revoked')

    def test_a_project_that_the_owner_adds_is_open_at_the_next_call_and_later_content_too(self):
        self.assertEqual(self.code(), 'ok')
        self.click(kb_store.create_knowledge_base, 'kb-new', 'Later')
        self.click(access.place, Ref('knowledge_base', 'kb-new'), 'acme', 'project-a', False, 'Later')
        self.assertEqual(self.code('search_knowledge_base', knowledge_base_id='kb-new', query='anything'), 'ok')

    def test_a_project_that_was_never_added_is_closed(self):
        self.assertEqual(self.code(knowledge_base_id='kb-b', article_id='refunds'), 'not_in_project')

    def test_an_item_moved_to_another_project_is_refused_at_the_next_call(self):
        self.click(access.move, KB_A, 'project-b')
        self.assertEqual(self.code(), 'not_in_project')

    def test_an_item_taken_out_of_every_project_is_refused(self):
        self.click(access.move, KB_A, None)
        self.assertEqual(self.code(), 'not_in_project')

    def test_a_removed_project_is_refused_at_the_next_call(self):
        self.click(access.remove_from_project, self.world.connection, 'project-a')
        self.assertEqual(self.code(), 'not_in_project')

    def test_a_revoked_connection_is_refused_at_the_next_call(self):
        self.click(access.revoke, self.world.connection)
        self.assertEqual(self.code(), 'connection_revoked')

    def test_an_unticked_tool_is_refused_and_the_other_tools_go_on(self):
        self.click(access.save_tools, self.world.connection, ['edit_knowledge_article'])
        self.assertEqual(self.code('edit_knowledge_article', **self.world.edit_arguments()), 'tool_not_enabled')
        self.assertEqual(self.code(), 'ok')
        self.click(access.save_tools, self.world.connection, [])
        self.assertEqual(self.code('edit_knowledge_article', **self.world.edit_arguments()), 'ok')

    def test_an_item_of_another_workspace_is_as_unknown_as_one_that_never_was(self):
        self.click(access.place, KB_A, 'other', None, False)
        elsewhere = self.world.call(*READ_A[:1], **READ_A[1])
        nowhere = self.world.call('read_knowledge_article', knowledge_base_id='kb-x', article_id='refunds')
        self.assertEqual(elsewhere['content'][0]['text'], nowhere['content'][0]['text'].replace('kb-x', 'kb-a'))
        self.assertEqual(self.code(), 'not_found')
        self.click(access.place, KB_A, 'other', 'project-a', False)
        listed = self.world.call('list_project_resources')['structuredContent']['resources']
        self.assertEqual([item['resource_id'] for item in listed], ['note-a1'])

    def test_an_item_only_on_somebodys_device_is_unknown_and_listed_nowhere(self):
        self.click(access.place, KB_A, 'acme', 'project-a', True)
        self.click(access.move, KB_A, 'project-b')
        self.click(access.move, KB_A, 'project-a')
        self.assertEqual(self.code(), 'not_found', 'moving synchronises nothing')
        listed = self.world.call('list_project_resources')['structuredContent']['resources']
        self.assertEqual([item['resource_id'] for item in listed], ['note-a1'])

    def test_an_approver_who_may_only_view_reads_and_does_not_edit(self):
        edit = self.world.edit_arguments()
        self.click(workspace.set_role, APPROVER, KB_A, 'viewer')
        self.assertEqual(self.code('edit_knowledge_article', **edit), 'approver_lacks_role')
        self.assertEqual(self.code(), 'ok')

    def test_the_nearest_role_of_the_approver_counts(self):
        edit = self.world.edit_arguments()
        for ref, role, outcome in ((Ref('workspace', 'acme'), 'viewer', 'approver_lacks_role'),
                                   (Ref('project', 'project-a'), 'editor', 'ok'),
                                   (KB_A, 'none', 'approver_lacks_role'), (KB_A, 'editor', 'ok')):
            with self.subTest(ref=ref, role=role):
                self.click(workspace.set_role, APPROVER, ref, role)
                self.assertEqual(self.code('edit_knowledge_article', **dict(edit, idempotency_key=self.world.key(),
                                           expected_version=self.world_version())), outcome)

    def world_version(self):
        with self.world.db.read() as tx:
            return versioned.stamp_text(kb_store.article_for_people(tx, 'kb-a', 'refunds')['updated_us'])

    def test_an_approver_who_left_the_workspace_has_no_role_left_anywhere(self):
        self.click(workspace.set_role, APPROVER, KB_A, 'editor')
        self.click(workspace.clear_role, APPROVER, Ref('workspace', 'acme'))
        self.assertEqual(self.code(), 'approver_lacks_role')
        self.assertEqual(self.world.call('list_project_resources')['structuredContent']['resources'], [])

    def test_a_channel_in_no_project_needs_an_invitation_and_loses_it_at_once(self):
        channel = Ref('channel', 'ch-backend')
        self.click(access.place, channel, 'acme', None, False, 'backend')
        poll = {'resource_type': 'channel', 'resource_id': 'ch-backend'}
        self.assertEqual(self.code('poll_resource_events', **poll), 'not_invited')
        self.click(access.invite, self.world.connection, channel)
        self.assertEqual(self.code('poll_resource_events', **poll), 'ok')
        self.click(access.uninvite, self.world.connection, channel)
        self.assertEqual(self.code('poll_resource_events', **poll), 'not_invited')

    def test_a_list_shows_the_projects_of_this_moment_only(self):
        def listed():
            return [item['resource_id'] for item in
                    self.world.call('list_project_resources', search='checklist')['structuredContent']['resources']]
        self.assertEqual(listed(), ['note-a1'])
        self.click(access.add_to_project, self.world.connection, 'project-b')
        self.assertEqual(listed(), ['note-a1', 'note-b1'])
        self.click(access.place, NOTE_A, 'acme', None, False)
        self.click(access.remove_from_project, self.world.connection, 'project-b')
        self.assertEqual(listed(), [])

    def test_a_project_is_named_only_to_whom_it_is_open(self):
        self.assertEqual(self.code('list_project_resources', project_id='project-b'), 'not_in_project')
        self.assertEqual(self.code('list_project_resources', project_id='project-z'), 'not_found')
        granted = self.world.call('list_granted_resources')['structuredContent']
        self.assertEqual([project['project_id'] for project in granted['projects']], ['project-a'])
        self.assertEqual(granted['workspace'], {'workspace_id': 'acme', 'name': 'Acme'})


class TheOrder(WithWorld):
    def test_each_reason_is_given_before_the_ones_that_follow_it_in_the_articles_order(self):
        facts = access.Facts('revoked', True, None, None, False, None, workspace.NO_ROLE)
        steps = ((dict(status='active'), 'connection_revoked'), (dict(unticked=False), 'tool_not_enabled'),
                 (dict(workspace='acme', project='project-b'), 'not_found'), (dict(in_project=True), 'not_in_project'),
                 (dict(approver_role=workspace.EDITOR), 'approver_lacks_role'),
                 (dict(invitation='runner'), 'runner_role_required'))
        grant = access.Grant('c', 'acme', APPROVER, frozenset())
        real = access.read_facts
        try:
            for change, code in steps:
                access.read_facts = lambda *call, known=facts: known
                with self.assertRaises(Refusal) as caught:
                    access.check(None, grant, 'run_graph_session', 'run', Ref('session', 's1'))
                self.assertEqual(caught.exception.code, code)
                facts = facts._replace(**change)
            access.read_facts = lambda *call: facts
            access.check(None, grant, 'run_graph_session', 'run', Ref('session', 's1'))
        finally:
            access.read_facts = real

    def test_token_only_trusts_the_projects_of_the_last_refresh_and_a_refresh_repairs_it(self):
        weak = World(self.world.folder, token_only=True)
        self.addCleanup(weak.close, keep=True)
        weak.connection, weak.token = self.world.connection, self.world.token
        self.click(access.place, Ref('note', 'note-m'), 'acme', 'project-b', False, 'moved')
        self.assertEqual(weak.code('list_project_resources'), 'ok')
        self.assertEqual(weak.code(READ_A[0], **dict(READ_A[1], knowledge_base_id='kb-b')), 'not_in_project')
        self.click(access.remove_from_project, self.world.connection, 'project-a')
        self.assertEqual(weak.code(*READ_A[:1], **READ_A[1]), 'ok')
        self.assertEqual(self.code(), 'not_in_project')
        self.assertEqual(weak.code(*READ_A[:1], weak.new_token(), **READ_A[1]), 'not_in_project')
        self.click(access.revoke, self.world.connection)
        self.assertEqual(weak.code(*READ_A[:1], **READ_A[1]), 'ok')


class OneCall(WithWorld):
    def test_a_stored_answer_does_not_outlive_access(self):
        edit = self.world.edit_arguments()
        self.assertEqual(self.code('edit_knowledge_article', **edit), 'ok')
        self.assertTrue(self.world.call('edit_knowledge_article', **edit)['structuredContent']['replayed'])
        self.click(access.remove_from_project, self.world.connection, 'project-a')
        self.assertEqual(self.code('edit_knowledge_article', **edit), 'not_in_project')
        self.click(access.add_to_project, self.world.connection, 'project-a')
        self.assertTrue(self.world.call('edit_knowledge_article', **edit)['structuredContent']['replayed'])

    def test_recent_activity_holds_reads_writes_and_refusals_and_neither_content_nor_a_secret(self):
        self.code('edit_knowledge_article', **self.world.edit_arguments('a very secret text'))
        self.code('read_knowledge_article', knowledge_base_id='kb-b', article_id='refunds')
        self.code('search_knowledge_base', knowledge_base_id='kb-a', query='x')
        with self.assertRaises(access.Forbidden):
            self.world.call('edit_knowledge_article', self.world.new_token('osfoundry:read'), **{})
        lines = [(line.tool, line.kind, line.id, line.outcome) for line in self.world.recent()]
        kb = 'knowledge_base'
        self.assertEqual(sorted(lines), sorted([
            ('read_knowledge_article', kb, 'kb-a', 'ok'), ('edit_knowledge_article', kb, 'kb-a', 'ok'),
            ('read_knowledge_article', kb, 'kb-b', 'not_in_project'),
            ('search_knowledge_base', kb, 'kb-a', 'invalid_argument'),
            ('edit_knowledge_article', '', '', 'insufficient_scope')]))
        self.assertNotIn('secret', json.dumps(self.world.recent()))

    def test_what_a_refused_call_named_is_bounded_in_recent_activity(self):
        self.code('search_knowledge_base', knowledge_base_id='\u202e' + 'x' * 100_000, query='refunds')
        self.assertEqual([line.id for line in self.world.recent()], ['?' + 'x' * 127])

    def test_a_refused_write_leaves_nothing_but_its_line_of_activity(self):
        edit = self.world.edit_arguments()
        with self.world.db.read() as tx:
            before = versioned.last_sequence(tx, KB_A)
        stale = dict(edit, expected_version='2020-01-01T00:00:00.000000Z')
        self.assertEqual(self.code('edit_knowledge_article', **stale), 'stale_version')
        with self.world.db.read() as tx:
            self.assertEqual(versioned.last_sequence(tx, KB_A), before)
        self.assertEqual([line.outcome for line in self.world.recent()[:1]], ['stale_version'])
        self.assertEqual(self.code('edit_knowledge_article', **edit), 'ok', 'the key of a refused call works again')

    def test_401_and_403_never_wait_for_the_writer(self):
        reader = self.world.new_token('osfoundry:read')
        with self.world.db.write():
            with self.assertRaises(access.Unauthorized):
                self.world.call('edit_knowledge_article', 'x' * 43, **{})
            with self.assertRaises(access.Forbidden):
                self.world.call('edit_knowledge_article', reader, **{})

    def test_what_a_tool_leaves_for_after_the_commit_runs_with_no_transaction_open(self):
        def slow(call):
            def after():
                with call.state.db.write() as tx:
                    return {'open_before': tx.in_transaction and 'nested'}
            return after
        tool = self.world.state.catalogue['list_granted_resources']
        self.world.state.catalogue['list_granted_resources'] = tool._replace(run=slow)
        self.assertEqual(self.world.call('list_granted_resources')['structuredContent'], {'open_before': 'nested'})

    def test_a_read_that_fails_after_the_check_is_one_line_and_not_two(self):
        def fails(call):
            def after():
                raise Refusal('repository_unusable', 'git says no')
            return after
        tool = self.world.state.catalogue['list_granted_resources']
        self.world.state.catalogue['list_granted_resources'] = tool._replace(run=fails)
        self.assertEqual(self.world.code('list_granted_resources'), 'repository_unusable')
        self.assertEqual([line.outcome for line in self.world.recent()], ['repository_unusable'])

    def test_activity_of_a_read_reaches_the_disk_without_anybody_asking(self):
        self.code()
        other = sqlite3.connect(os.path.join(self.world.folder, 'state.db'))
        self.addCleanup(other.close)
        for _ in range(3_000):
            if other.execute("SELECT count(*) FROM activity WHERE tool = 'read_knowledge_article'").fetchone()[0]:
                return
            time.sleep(0.01)
        self.fail('30 seconds, and the line is not there')

    def test_a_busy_database_delays_the_lines_of_activity_and_loses_none(self):
        self.code()
        real, self.world.state.activity._db = self.world.state.activity._db, Busy()
        self.world.state.activity.add(('c', 't', '', '', 'ok', 1))
        self.world.state.activity.flush()
        self.world.state.activity._db = real
        self.assertEqual(len(self.world.recent()), 1)
        with self.world.db.read() as tx:
            self.assertEqual(len(activity.recent(tx, 'c')), 1)


class Busy:
    def write(self):
        raise Refusal('storage_busy', 'another process holds it')


class TheCatalogue(unittest.TestCase):
    def test_every_tool_states_what_it_does_and_the_scope_it_needs(self):
        for tool in catalogue.TOOLS:
            with self.subTest(tool=tool.name):
                shown = tools.describe(tool)
                self.assertEqual(shown['securitySchemes'], [{'type': 'oauth2', 'scopes': [tool.scope]}])
                self.assertEqual(tool.read_only, tool.scope == 'osfoundry:read')
                self.assertFalse(tool.read_only and (tool.destructive or tool.open_world))
                self.assertIn(tool.needs, ('view', 'edit', 'run', 'connection'))

    def test_the_knowledge_tools_are_annotated_as_published(self):
        by_name = {tool.name: tools.describe(tool) for tool in catalogue.TOOLS}
        self.assertEqual(by_name['edit_knowledge_article']['annotations'],
                         {'readOnlyHint': False, 'destructiveHint': True, 'openWorldHint': True})
        knowledge = ('search_knowledge_base', 'read_knowledge_article', 'poll_resource_events')
        self.assertEqual([by_name[name]['annotations']['openWorldHint'] for name in knowledge], [False] * 3)
        self.assertIn('Read it again right before editing', by_name['edit_knowledge_article']['description'])
        query = by_name['search_knowledge_base']['inputSchema']['properties']['query']
        self.assertEqual((query['minLength'], query['maxLength']), (2, 200))

    def test_every_schema_uses_only_keywords_that_the_checker_checks(self):
        for tool in catalogue.TOOLS:
            with self.subTest(tool=tool.name):
                self.assertEqual(tool.schema['type'], 'object')
                self.assertIs(tool.schema['additionalProperties'], False)
                for node in nodes(tool.schema):
                    self.assertEqual(set(node) - schema.CHECKED - schema.ANNOTATIONS, set())

    def test_every_write_carries_a_key_of_8_to_128_characters(self):
        for tool in catalogue.TOOLS:
            if not tool.read_only:
                with self.subTest(tool=tool.name):
                    key = tool.schema['properties']['idempotency_key']
                    self.assertEqual((key['minLength'], key['maxLength']), versioned.KEY_LENGTH)
                    self.assertIn('idempotency_key', tool.schema['required'])

    def test_a_tool_costs_at_most_768_bytes_on_average(self):
        sizes = [len(json.dumps(tools.describe(tool), separators=(',', ':')).encode()) for tool in catalogue.TOOLS]
        self.assertLessEqual(sum(sizes) / len(sizes), 768)

    def test_the_catalogue_holds_no_data_of_anybodys(self):
        world = World().build()
        self.addCleanup(world.close)
        shown = json.dumps([tools.describe(tool) for tool in world.state.catalogue.values()])
        for word in (world.connection, 'acme', 'Acme', 'kb-a', 'note-a1', 'Claude research', 'Aiko', 'Q3 launch'):
            self.assertNotIn(word, shown)


def nodes(node):
    """The schema and every schema below it."""
    yield node
    for below in (*node.get('properties', {}).values(), node.get('items'), node.get('additionalProperties')):
        if isinstance(below, dict):
            yield from nodes(below)


class TheChecker(unittest.TestCase):
    CASES = [                                         # schema of the argument `a`, wrong value, field and limit told
        ({'type': 'string'}, 1, 'a', 'a string'), ({'type': 'integer'}, True, 'a', 'an integer'),
        ({'type': 'integer'}, 1.0, 'a', 'an integer'), ({'type': 'number'}, math.nan, 'a', 'finite'),
        ({'type': 'number'}, False, 'a', 'a number'), ({'type': ['string', 'null']}, 1, 'a', 'a string or a null'),
        ({'type': 'integer'}, 2 ** 63, 'a', str(2 ** 63 - 1)), ({'type': 'integer', 'minimum': 1}, 0, 'a', '1'),
        ({'type': 'integer', 'maximum': 20}, 21, 'a', '20'),
        ({'type': 'string', 'minLength': 2}, 'x', 'a', 'at least 2 characters'),
        ({'type': 'string', 'maxLength': 200}, 'x' * 201, 'a', 'at most 200 characters'),
        ({'type': 'string'}, '\ud800', 'a', 'lone surrogate'), ({'type': 'string'}, 'a\x00b', 'a', 'NUL'),
        ({'type': 'string', 'enum': ['note', 'sheet']}, 'file', 'a', 'note, sheet'),
        ({'type': 'string', 'pattern': '^[0-9a-f]+$'}, 'abc\n', 'a', '[0-9a-f]'),
        ({'type': 'string', 'pattern': r'^\d+$'}, '٣', 'a', r'\d'),
        ({'type': 'array', 'items': {'type': 'integer'}}, [1, 'x'], 'a[1]', 'an integer'),
        ({'type': 'array', 'maxItems': 2}, [1, 2, 3], 'a', 'at most 2 elements'),
        ({'type': 'array', 'minItems': 1}, [], 'a', 'at least 1 elements'),
        ({'type': 'object', 'properties': {'b': {'type': 'string'}}, 'required': ['b']}, {}, 'a.b', 'required'),
        ({'type': 'object', 'additionalProperties': {'type': 'string'}}, {'x': 1}, 'a.x', 'a string'),
        ({'type': 'object', 'additionalProperties': False}, {'x': 1}, 'a.x', 'left out'),
        ({'type': 'object', 'maxProperties': 1}, {'x': 1, 'y': 2}, 'a', 'at most 1 members'),
        ({'type': 'object'}, {'\ud800': 1}, 'a', 'lone surrogate'), ({}, [{'x': '\x00'}], 'a[0].x', 'NUL'),
    ]

    def test_each_keyword_refuses_with_the_path_and_the_limit(self):
        for kept, value, field, limit in self.CASES:
            with self.subTest(schema=kept, value=value), self.assertRaises(Refusal) as caught:
                schema.check(tools.arguments_of({'a': kept}), {'a': value})
            self.assertEqual((caught.exception.code, caught.exception.data['field']), ('invalid_argument', field))
            self.assertIn(limit, caught.exception.data['limit'])
            self.assertIn(field, str(caught.exception))

    def test_the_limits_themselves_are_inside(self):
        kept = tools.arguments_of({'query': tools.text(2, 200), 'limit': tools.integer(1, 20)})
        for query in ('xy', 'x' * 200):
            for limit in (1, 20):
                schema.check(kept, {'query': query, 'limit': limit})

    def test_a_missing_and_an_unknown_argument_are_named(self):
        kept = tools.arguments_of({'note_id': tools.ID})
        for arguments, field in (({}, 'note_id'), ({'note_id': 'n', 'noteId': 'n'}, 'noteId')):
            with self.assertRaises(Refusal) as caught:
                schema.check(kept, arguments)
            self.assertEqual(caught.exception.data['field'], field)

    def test_a_value_nested_deeper_than_the_limit_is_refused(self):
        deep = 'x'
        for _ in range(500):
            deep = [deep]
        with self.assertRaises(Refusal):
            schema.check(tools.arguments_of({'a': {}}), {'a': deep})


if __name__ == '__main__':
    unittest.main()
