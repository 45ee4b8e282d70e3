"""Article 6: each row of "Chi fa cosa" and each sentence of "Dov'è il confine", by its words."""
import ast
import json
import os
import re
import unittest

from tests.access_world import APPROVER, OWNER, TOP, connect
from tests.project_world import INVITED, ProjectWorld

import access
import catalogue
import channel_store
import owner
import owner_channels
import owner_gitnest
import owner_records
import owner_sessions
import owner_verbs
import runs_limits
import server
import tools
import workspace
from versioned import Ref, Refusal

OUTWARD = {'http.client', 'urllib.request', 'smtplib', 'ftplib', 'asyncio', 'xmlrpc.client', 'webbrowser'}
CHAT = {'project_id': 'project-a', 'label': 'Claude, launch planning'}


class WithProject(unittest.TestCase):
    REPOSITORY = False

    def setUp(self):
        self.world = ProjectWorld().build(self.REPOSITORY)
        self.addCleanup(self.world.close)
        self.click, self.call = self.world.click, self.world.call

    def answer(self, name, bearer=None, **arguments):
        result = self.call(name, bearer, **arguments)
        self.assertFalse(result['isError'], result)
        return result['structuredContent']

    def refusal(self, name, bearer=None, **arguments):
        result = self.call(name, bearer, **arguments)
        self.assertTrue(result['isError'], result)
        return json.loads(result['content'][0]['text'])

    def second(self):
        """Another connection in the same project: (connection, token)."""
        connection = self.click(connect, OWNER)
        self.click(access.add_to_project, connection, 'project-a')
        return connection, self.click(access.issue_access_token, connection, access.SCOPES, self.world.state.now_us(), 60)

    def refuses(self, code, work, *arguments):
        with self.assertRaises(Refusal) as caught:
            work(*arguments)
        self.assertEqual(caught.exception.code, code)


class WhoDoesWhat(WithProject):
    REPOSITORY = True

    def test_login_the_account_approves_the_connection_once_for_one_workspace(self):
        self.refuses('not_pending', self.click, access.attach, self.world.connection, 'acme', APPROVER)
        pending = self.click(access.add_assistant, 'acme', OWNER, 'claude', 'Claude two', 1)
        self.refuses('not_pending', self.click, access.attach, pending, 'other', OWNER)
        self.click(access.create_project, 'elsewhere', 'other', 'Elsewhere')
        self.refuses('not_found', self.click, access.add_to_project, self.world.connection, 'elsewhere')

    def test_what_runs_the_model_nothing_the_server_opens_no_connection_and_holds_no_provider_key(self):
        seen, todo = set(), ['server']
        while todo:
            page = todo.pop()
            seen.add(page)
            with open(os.path.join(TOP, page + '.py'), encoding='utf-8') as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                    [node.module] if isinstance(node, ast.ImportFrom) else []
                self.assertEqual(OUTWARD & set(names), set(), page)
                todo += [name for name in names if os.path.exists(os.path.join(TOP, name + '.py')) and name not in seen]
        self.assertIn('access', seen)
        self.assertNotIn('host', seen)
        self.assertNotIn('osfoundry:models', {tool.scope for tool in catalogue.TOOLS})

    def test_where_tools_run_here_and_only_after_access_was_checked(self):
        ran = []
        tool = self.world.state.catalogue['read_record_item']
        self.world.state.catalogue['read_record_item'] = tool._replace(run=lambda call: ran.append(call) or {})
        record = {'record_channel_id': 'pages', 'item_id': 'rec-000001'}
        self.answer('read_record_item', **record)
        self.click(access.remove_from_project, self.world.connection, 'project-a')
        self.refusal('read_record_item', **record)
        self.assertEqual(len(ran), 1)

    def test_what_it_can_reach_the_projects_it_was_added_to_and_the_channels_it_was_invited_to(self):
        granted = self.answer('list_granted_resources')
        self.assertEqual([project['project_id'] for project in granted['projects']], ['project-a'])
        self.assertEqual([channel['channel_id'] for channel in granted['channels']], [INVITED.id])

    def test_approvals_what_is_proposed_for_a_repository_or_a_room_waits(self):
        files = [{'path': 'index.html', 'content': 'x'}]
        answer = self.answer('propose_room_app_install', room_id='room-a', app_name='countdown', files=files,
                             idempotency_key=self.world.key())
        self.assertEqual(answer['status'], 'pending')
        self.assertEqual(self.answer('read_room', room_id='room-a')['apps'], [])
        self.assertEqual(self.answer('read_repo', repository_id='repo-a')['commits'], 0)
        waits = owner_gitnest.list_proposals(self.world.state, OWNER, {})
        self.assertEqual((len(waits['proposals']), len(waits['rooms'])), (1, 1))

    def test_where_data_stays_items_that_are_only_local_are_in_no_answer(self):
        for kind, item in (('note', 'note-a1'), ('room', 'room-a'), ('session', 'graph-a'), ('record_channel', 'pages')):
            self.click(access.place, Ref(kind, item), 'acme', 'project-a', True, 'ONLY-ON-THIS-DEVICE')
        for name, tool in self.world.state.catalogue.items():
            with self.subTest(tool=name):
                self.assertNotIn('ONLY-ON-THIS-DEVICE', json.dumps(self.call(name, **self.world.arguments(tool))))


class NoWayIntoAChat(WithProject):
    def test_no_tool_no_click_and_no_route_opens_lists_or_starts_a_chat(self):
        paths = [path for _, path in server.routes(self.world.state)]
        names = [*catalogue.by_name(), *owner.VERBS, *(part for path in paths for part in path.split('/'))]
        self.assertIn('link_current_chat', names)
        into = [name for name in names if runs_limits.INTO_A_CHAT.fullmatch(name) and name not in runs_limits.OURS]
        self.assertEqual(into, [])
        for name in ('open_chat', 'list_conversations', 'start_chat', 'read_host_chats'):
            self.assertTrue(runs_limits.INTO_A_CHAT.fullmatch(name), 'the pattern would notice')

    def test_the_label_of_link_current_chat_routes_and_is_no_identity(self):
        mine = self.answer('link_current_chat', **CHAT, idempotency_key=self.world.key())
        self.assertTrue(mine['declared'])
        _, other = self.second()
        theirs = self.answer('link_current_chat', other, **CHAT, idempotency_key=self.world.key())
        self.assertNotEqual(mine['chat_id'], theirs['chat_id'], 'the same words of another connection are another chat')
        again = self.answer('link_current_chat', **CHAT, idempotency_key=self.world.key())
        self.assertEqual(again['chat_id'], mine['chat_id'], 'nobody can tell two chats of one label apart')
        self.click(access.remove_from_project, self.world.connection, 'project-a')
        self.assertEqual(self.refusal('read_chat_work', **CHAT)['error'], 'not_in_project', 'the label opens nothing')

    def test_claude_is_told_nothing_in_the_background_work_waits_until_the_chat_asks(self):
        chat = self.answer('link_current_chat', **CHAT, idempotency_key=self.world.key())['chat_id']
        owner_sessions.assign_to_chat(self.world.state, OWNER, {'project_id': 'project-a', 'chat_id': chat, 'task': 'look'})
        for name in ('list_granted_resources', 'project_activity', 'list_project_resources'):
            arguments = {'project_id': 'project-a'} if name == 'project_activity' else {}
            self.assertNotIn('look', json.dumps(self.answer(name, **arguments)))
        work, = self.answer('read_chat_work', **CHAT)['work']
        self.assertEqual(work['task'], 'look')
        self.answer('answer_chat_work', project_id='project-a', work_id=work['work_id'], answer='done',
                    idempotency_key=self.world.key())
        listed = owner_sessions.list_chats(self.world.state, OWNER, {'project_id': 'project-a'})['chats'][0]
        self.assertEqual((listed['work'][0]['answer'], listed['work'][0]['status']), ('done', 'answered'))

    def test_work_for_one_connections_chat_is_not_anothers(self):
        chat = self.answer('link_current_chat', **CHAT, idempotency_key=self.world.key())['chat_id']
        owner_sessions.assign_to_chat(self.world.state, OWNER, {'project_id': 'project-a', 'chat_id': chat, 'task': 'look'})
        work, = self.answer('read_chat_work', **CHAT)['work']
        _, other = self.second()
        self.assertEqual(self.answer('read_chat_work', other, **CHAT)['work'], [])
        self.assertEqual(self.refusal('answer_chat_work', other, project_id='project-a', work_id=work['work_id'],
                                      answer='mine', idempotency_key=self.world.key())['error'], 'not_found')

    def test_a_chat_of_another_project_is_not_given_work_here(self):
        chat = self.answer('link_current_chat', **CHAT, idempotency_key=self.world.key())['chat_id']
        self.refuses('not_found', owner_sessions.assign_to_chat, self.world.state, OWNER,
                     {'project_id': 'project-b', 'chat_id': chat, 'task': 'look'})


class TheDesktop(WithProject):
    GRAPH = {'session_id': 'graph-a', 'request': 'go'}

    def run_code(self, tool='run_graph_session', **arguments):
        result = self.call(tool, **(arguments or self.GRAPH), idempotency_key=self.world.key())
        return json.loads(result['content'][0]['text'])['error'] if result['isError'] else 'ok'

    def verb(self, name, **arguments):
        return owner_sessions.VERBS[name](self.world.state, OWNER, arguments)

    def test_sharing_is_a_switch_of_its_own(self):
        self.assertEqual(self.run_code(), 'ok')
        self.verb('set_sharing', on=False)
        self.assertEqual(self.run_code(), 'sharing_is_off')
        self.assertEqual(self.call('read_session_runs', session_id='graph-a')['structuredContent']['runs'][0]['status'],
                         'cancelled', 'what waited must not start when it is switched on again')

    def test_the_app_must_be_open_and_signed_in(self):
        self.verb('desktop_closes')
        self.assertEqual(self.verb('read_desktop'), {'sharing': True, 'desktop': False})
        self.assertEqual(self.run_code(), 'desktop_not_there')
        self.verb('desktop_asks')
        self.assertEqual(self.run_code(), 'ok')

    def test_a_run_waits_until_the_desktop_asks_and_ends_with_the_desktops_word(self):
        run = self.answer('run_graph_session', **self.GRAPH, idempotency_key=self.world.key())
        self.assertEqual(run['status'], 'queued')
        taken = self.verb('desktop_asks')['run']
        self.assertEqual((taken['run_id'], taken['request']), (run['run_id'], 'go'))
        self.verb('end_run', run_id=run['run_id'], status='succeeded', outcome='42')
        shown = self.answer('read_session_runs', session_id='graph-a')['runs'][0]
        self.assertEqual((shown['status'], shown['outcome']), ('succeeded', '42'))

    def test_a_run_is_not_started_for_a_connection_that_may_no_longer_when_the_desktop_asks(self):
        self.assertEqual(self.run_code(), 'ok')
        self.click(access.uninvite, self.world.connection, Ref('session', 'graph-a'))
        self.assertIsNone(self.verb('desktop_asks')['run'])
        self.assertEqual(self.answer('read_session_runs', session_id='graph-a')['runs'][0]['status'], 'cancelled')

    def test_a_waiting_run_is_cancelled_at_once_and_a_running_one_when_the_desktop_hears_it(self):
        first = self.answer('run_graph_session', **self.GRAPH, idempotency_key=self.world.key())['run_id']
        cancel = {'session_id': 'graph-a', 'run_id': first}
        self.assertEqual(self.answer('cancel_graph_run', **cancel, idempotency_key=self.world.key())['status'], 'cancelled')
        second = self.answer('run_graph_session', **self.GRAPH, idempotency_key=self.world.key())['run_id']
        self.verb('desktop_asks')
        cancel['run_id'] = second
        self.assertEqual(self.answer('cancel_graph_run', **cancel, idempotency_key=self.world.key())['status'], 'cancelling')
        self.assertEqual(self.verb('desktop_asks')['cancel'], [second])

    def test_the_runner_role_is_granted_by_the_person_whose_desktop_it_is(self):
        grant = {'connection': self.world.connection, 'kind': 'session', 'id': 'graph-a', 'role': 'runner'}
        self.refuses('owner_invites', owner_verbs.invite, self.world.state, APPROVER, grant)
        owner_verbs.invite(self.world.state, OWNER, grant)

    def test_an_agent_session_is_asked_by_its_own_tool(self):
        self.assertEqual(self.run_code('request_session_run', session_id='agent-a', request='go'), 'ok')
        self.assertEqual(self.run_code('run_graph_session', session_id='agent-a', request='go'), 'invalid_argument')

    def test_the_session_log_tells_a_poll_what_happened(self):
        self.assertEqual(self.run_code(), 'ok')
        events = self.answer('poll_resource_events', resource_type='session', resource_id='graph-a')['events']
        self.assertEqual([event['type'] for event in events], ['run_queued'])


class MessageChannels(WithProject):
    def post(self, channel='talk-a', bearer=None, **more):
        return self.call('post_channel_message', bearer, channel_id=channel, text='Three entries are open.',
                         idempotency_key=self.world.key(), **more)

    def create(self, **arguments):
        return owner_channels.create_channel(self.world.state, OWNER, dict({'workspace': 'acme'}, **arguments))

    def invite(self, person, channel, connection=None):
        return owner_verbs.invite(self.world.state, person, {'connection': connection or self.world.connection,
                                                             'kind': 'channel', 'id': channel})

    def test_the_project_opens_its_own_discussion_channel_to_read_and_to_answer(self):
        sent = self.post()['structuredContent']
        history = self.answer('channel_history', channel_id='talk-a')
        self.assertEqual([(message['message_id'], message['name'], message['role']) for message in history['messages']],
                         [(sent['message_id'], 'Claude research', 'agent')])

    def test_every_other_channel_needs_an_explicit_invite(self):
        self.create(channel_id='design', name='Design')
        self.assertEqual(self.refusal('channel_history', channel_id='design')['error'], 'not_invited')
        self.assertTrue(self.post('design')['isError'])
        self.invite(OWNER, 'design')
        self.assertFalse(self.post('design')['isError'])

    def test_a_private_channel_needs_the_invite_of_its_owner(self):
        self.create(channel_id='board', name='Board', private=True)
        member = {'channel_id': 'board', 'handle': APPROVER, 'kind': 'person', 'reachable': True}
        owner_channels.set_member(self.world.state, OWNER, member)
        self.refuses('owner_invites', self.invite, APPROVER, 'board')
        self.invite(OWNER, 'board')
        self.assertFalse(self.post('board')['isError'])

    def test_who_is_not_in_a_private_channel_does_not_write_in_it_and_invites_to_nothing_he_may_not_see(self):
        self.create(channel_id='board', name='Board', private=True)
        message = {'channel_id': 'board', 'text': 'hello', 'idempotency_key': self.world.key()}
        self.refuses('not_found', owner_channels.post_message, self.world.state, APPROVER, message)
        member = {'channel_id': 'board', 'handle': APPROVER, 'kind': 'person', 'reachable': True}
        owner_channels.set_member(self.world.state, OWNER, member)
        owner_channels.post_message(self.world.state, APPROVER, message)
        self.click(workspace.set_role, APPROVER, INVITED, 'none')
        self.refuses('not_found', self.invite, APPROVER, INVITED.id)

    def test_for_who_is_not_in_a_private_channel_it_is_not_there_whatever_he_clicks_and_whatever_his_role_is(self):
        self.create(channel_id='board', name='Board', private=True)
        state, key = self.world.state, self.world.key()
        words, member = {'text': 'x'}, {'handle': APPROVER}
        clicks = ((owner_channels.post_message, {**words, 'idempotency_key': key}),
                  (owner_channels.edit_message, {**words, 'message_id': 'm000001'}),
                  (owner_channels.delete_message, {'message_id': 'm000001'}),
                  (owner_channels.set_member, {**member, 'kind': 'person', 'reachable': True}),
                  (owner_channels.remove_member, member))
        for role in ('editor', 'viewer'):
            self.click(workspace.set_role, APPROVER, Ref('workspace', 'acme'), role)
            for channel in ('board', 'no-such-channel'):
                for click, arguments in clicks:
                    self.refuses('not_found', click, state, APPROVER, {'channel_id': channel, **arguments})
        self.click(workspace.set_role, APPROVER, Ref('workspace', 'acme'), 'editor')
        for channel in ('board', 'no-such-channel'):
            self.refuses('not_found', self.invite, APPROVER, channel)

    def test_an_invited_channel_that_the_approver_may_no_longer_see_is_listed_no_more(self):
        self.click(workspace.set_role, APPROVER, INVITED, 'none')
        self.assertEqual(self.answer('list_granted_resources')['channels'], [])

    def test_moving_takes_a_right_to_the_item_and_to_both_ends(self):
        move = {'kind': 'note', 'id': 'note-a1', 'project': 'project-b'}
        for ref in (Ref('note', 'note-a1'), Ref('project', 'project-b')):
            self.click(workspace.set_role, APPROVER, ref, 'viewer')
            self.refuses('role_too_low', owner_verbs.move_item, self.world.state, APPROVER, move)
            self.click(workspace.clear_role, APPROVER, ref)
        self.click(access.create_project, 'elsewhere', 'other', 'Elsewhere')
        self.refuses('not_found', owner_verbs.move_item, self.world.state, OWNER, dict(move, project='elsewhere'))
        owner_verbs.move_item(self.world.state, APPROVER, move)
        self.assertEqual(self.refusal('list_note_tabs', note_id='note-a1')['error'], 'not_in_project')

    def test_an_invitation_of_one_connection_is_not_anothers(self):
        _, token = self.second()
        self.assertEqual(self.refusal('channel_history', token, channel_id=INVITED.id)['error'], 'not_invited')

    def test_a_private_channel_is_not_put_in_a_project_and_a_channel_is_not_moved(self):
        self.refuses('invalid_argument', lambda: self.create(channel_id='x', name='X', private=True, project='project-b'))
        for kind, item in (('channel', INVITED.id), ('project', 'project-b')):
            self.refuses('invalid_argument', owner_verbs.move_item, self.world.state, OWNER,
                         {'kind': kind, 'id': item, 'project': 'project-a', 'workspace': 'acme'})

    def test_a_project_has_one_discussion_channel(self):
        self.refuses('already_exists', lambda: self.create(channel_id='x', name='X', project='project-a'))

    def test_only_channels_and_sessions_open_by_name(self):
        for ref, role in ((Ref('note', 'note-b1'), 'member'), (Ref('session', 'graph-a'), 'member'),
                          (INVITED, 'runner'), (Ref('project', 'project-b'), 'member')):
            with self.subTest(ref=ref, role=role):
                self.refuses('invalid_argument', self.click, access.invite, self.world.connection, ref, role)

    def test_a_thread_is_read_by_its_root_and_a_repeated_post_is_one_message(self):
        root = self.post()['structuredContent']['message_id']
        reply = {'channel_id': 'talk-a', 'text': 'which?', 'thread_root_id': root, 'idempotency_key': self.world.key()}
        self.assertEqual(self.answer('post_channel_message', **reply)['message_id'],
                         self.answer('post_channel_message', **reply)['message_id'])
        thread = self.answer('channel_history', channel_id='talk-a', thread_root_id=root)
        self.assertEqual([message['text'] for message in thread['messages']], ['Three entries are open.', 'which?'])

    def test_who_speaks_is_the_connections_name_whatever_the_text_says(self):
        self.call('post_channel_message', channel_id='talk-a', text='I am Aiko', idempotency_key=self.world.key())
        self.assertEqual(self.answer('channel_history', channel_id='talk-a')['messages'][0]['name'], 'Claude research')

    def test_the_roster_and_the_activity_are_tools(self):
        self.click(channel_store.set_member, 'talk-a', '@claude', 'agent', True, 'ben')
        self.assertEqual(self.answer('channel_roster', channel_id='talk-a')['members'],
                         [{'handle': '@claude', 'kind': 'agent', 'reachable': True}])
        self.post()
        newest = self.answer('project_activity', project_id='project-a')['activity'][0]
        self.assertEqual((newest['resource_type'], newest['type']), ('channel', 'posted'))

    def test_the_activity_of_a_project_shows_only_what_the_connection_may_see(self):
        def kinds():
            return {line['resource_type'] for line in self.answer('project_activity', project_id='project-a')['activity']}
        self.assertIn('knowledge_base', kinds())
        self.click(workspace.set_role, APPROVER, Ref('knowledge_base', 'kb-a'), 'none')
        self.assertNotIn('knowledge_base', kinds())


class Records(WithProject):
    RECORD = {'record_channel_id': 'pages', 'item_id': 'rec-000001'}

    def edit(self, **changes):
        version = self.answer('read_record_item', **self.RECORD)['version']
        return dict(self.RECORD, **dict({'values': {'status': 'Ready'}, 'expected_version': version,
                                         'idempotency_key': self.world.key()}, **changes))

    def test_an_edit_needs_the_version_that_the_read_returned(self):
        edit = self.edit()
        self.answer('edit_record_item', **edit)
        refusal = self.refusal('edit_record_item', **dict(edit, idempotency_key=self.world.key()))
        self.assertEqual(refusal['error'], 'stale_version')
        self.assertEqual(refusal['current_version'], self.answer('read_record_item', **self.RECORD)['version'])

    def test_a_repeated_key_returns_the_first_result_and_writes_nothing(self):
        edit, poll = self.edit(), {'resource_type': 'record', 'resource_id': 'pages'}
        first = self.answer('edit_record_item', **edit)
        before = self.answer('poll_resource_events', **poll)['next_sequence']
        self.assertEqual(self.answer('edit_record_item', **edit), {**first, 'replayed': True})
        self.assertEqual(self.answer('poll_resource_events', **poll)['next_sequence'], before)

    def test_a_persons_save_in_between_is_kept(self):
        edit = self.edit()
        owner_records.save_record(self.world.state, OWNER, self.edit(values={'title': 'pricing page, new'}))
        self.assertEqual(self.refusal('edit_record_item', **edit)['error'], 'stale_version')
        self.assertEqual(self.answer('read_record_item', **self.RECORD)['title'], 'pricing page, new')

    def test_an_item_is_found_by_its_words_and_created_once_a_key(self):
        new = {'record_channel_id': 'pages', 'values': {'title': 'landing page'}, 'idempotency_key': self.world.key()}
        self.assertEqual(self.answer('create_record_item', **new)['item_id'],
                         self.answer('create_record_item', **new)['item_id'])
        found = self.answer('list_record_items', record_channel_id='pages', search='LANDING')
        self.assertEqual([item['title'] for item in found['items']], ['landing page'])

    def test_the_annotations_of_edit_record_item_are_the_published_ones(self):
        shown = tools.describe(catalogue.by_name()['edit_record_item'])
        self.assertEqual(shown['annotations'], {'readOnlyHint': False, 'destructiveHint': True, 'openWorldHint': False})
        self.assertEqual(shown['securitySchemes'], [{'type': 'oauth2', 'scopes': ['osfoundry:write']}])


class PollForEveryKind(WithProject):
    def test_every_write_to_a_channel_note_knowledge_base_record_or_session_is_an_event_of_its_log(self):
        writes = {'channel': ('talk-a', 'post_channel_message'), 'note': ('note-a1', 'edit_note_tab'),
                  'knowledge_base': ('kb-a', 'edit_knowledge_article'), 'record': ('pages', 'edit_record_item'),
                  'session': ('graph-a', 'run_graph_session')}
        for kind, (item, tool) in writes.items():
            with self.subTest(kind=kind):
                poll = {'resource_type': kind, 'resource_id': item}
                before = self.answer('poll_resource_events', **poll)['next_sequence']
                self.answer(tool, **self.current(tool))
                after = self.answer('poll_resource_events', **poll, after_sequence=before)
                self.assertEqual(len(after['events']), 1)

    def current(self, tool):
        arguments = self.world.arguments(self.world.state.catalogue[tool])
        arguments['idempotency_key'] = self.world.key()
        reads = {'edit_note_tab': ('read_note_tab', ('note_id', 'tab_id')),
                 'edit_record_item': ('read_record_item', ('record_channel_id', 'item_id'))}
        if tool in reads:
            read, names = reads[tool]
            arguments['expected_version'] = self.answer(read, **{name: arguments[name] for name in names})['version']
        if tool == 'edit_note_tab':
            arguments.update(operation='replace_text', text='x')
        if tool == 'edit_knowledge_article':
            arguments.update(self.world.edit_arguments())
        return arguments


class TheCatalogueOfTheArticles(unittest.TestCase):
    RUN = {'request_session_run', 'run_graph_session', 'cancel_graph_run'}

    def test_three_tools_need_the_run_scope_and_they_are_the_published_ones(self):
        self.assertEqual({tool.name for tool in catalogue.TOOLS if tool.scope == 'osfoundry:run'}, self.RUN)

    def test_the_articles_name_32_tools_16_that_read_13_that_write_and_3_that_run(self):
        served = {name: tool.scope for name, tool in catalogue.by_name().items() if name in catalogue.LIVE}
        self.assertEqual(len(catalogue.LIVE), 32)
        self.assertEqual(catalogue.LIVE - set(served), set())
        scopes = list(served.values())
        self.assertEqual([scopes.count(scope) for scope in access.SCOPES], [16, 13, 3, 0])

    def test_every_other_name_is_marked_with_where_it_comes_from(self):
        marked = catalogue.LIVE | catalogue.RESIDENT | catalogue.RECONSTRUCTION | catalogue.OURS
        self.assertEqual(set(catalogue.by_name()) - marked, set())
        self.assertEqual((catalogue.OURS | catalogue.RESIDENT | catalogue.RECONSTRUCTION) - set(catalogue.by_name()), set())

    def test_the_server_says_that_local_data_is_not_for_cloud_clients(self):
        self.assertTrue(re.search('not available to cloud clients', server.mcp.INSTRUCTIONS))


if __name__ == '__main__':
    unittest.main()
