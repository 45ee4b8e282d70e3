"""Article 5, "Chi fa cosa" and "Dove sta il limite": each row and each sentence as a claim, through call_tool."""
import base64
import json
import os
import tempfile
import threading
import time
import unittest

import access
import catalogue
import note_people
import note_store
import note_tabs
import server
import tools
import versioned
import workspace
from versioned import Ref

Q3 = Ref('note', 'q3-launch')
OPEN = [f'- point {number}' for number in range(1, 9)]
BRIEF = '# Brief\n' + '\n'.join(OPEN)
OWNERS = [['point', 'owner', 'due', 'done'],
          *([f'point {number}', 'Aiko' if number % 2 else 'Mika', number, number < 3] for number in range(1, 12))]
TABS = [{'tab_type': 'note', 'label': 'Brief', 'text': BRIEF},
        {'tab_type': 'sheet', 'label': 'Owners', 'start_row': 0, 'start_col': 0, 'values': OWNERS},
        {'tab_type': 'sheet', 'label': 'Owners archive'},
        {'tab_type': 'markdown', 'label': 'Minutes', 'text': 'none yet'},
        {'tab_type': 'slides', 'label': 'Kick-off', 'slides': [{'title': 'Why'}]},
        {'tab_type': 'board', 'label': 'Board', 'values': {'columns': ['open', 'done']}}]


class Workspace(unittest.TestCase):
    """One workspace, the project of the launch, its Note, Mika, and a connection of Claude that is in the project."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'state.db')
        self.state = tools.State(versioned.Database(self.path, server.SCHEMAS), catalogue.by_name())
        self.addCleanup(self.state.close)
        self.keys = 0
        with self.state.db.write() as tx:
            for person in ('owner', 'mika'):
                workspace.add_person(tx, person, person.title())
            workspace.create_workspace(tx, 'w1', 'Press', 'owner')
            workspace.set_role(tx, 'mika', Ref('workspace', 'w1'), 'editor')
            for project in ('launch', 'other'):
                access.create_project(tx, project, 'w1', project)
            note_store.create_note(tx, 'person:owner', Q3.id, 'Q3 launch', TABS, self.state.now_us())
            access.place(tx, Q3, 'w1', 'launch', False, 'Q3 launch')
            self.connection, self.token = self.connect(tx, 'w1', 'owner')
            access.add_to_project(tx, self.connection, 'launch')
        listed = self.ok('list_note_tabs', note_id=Q3.id)
        self.tabs = {tab['label']: tab['tab_id'] for tab in listed['tabs']}

    def connect(self, tx, where, approver):
        connection = access.add_assistant(tx, where, approver, 'claude', 'Claude research', self.state.now_us())
        access.attach(tx, connection, where, approver)
        return connection, access.issue_access_token(tx, connection, access.SCOPES, self.state.now_us(), 3600)

    def call(self, name, token=None, **arguments):
        return tools.call_tool(self.state, token or self.token, name, arguments)

    def ok(self, name, **arguments):
        result = self.call(name, **arguments)
        self.assertFalse(result['isError'], result['content'])
        return result['structuredContent']

    def refused(self, code, name, **arguments):
        result = self.call(name, **arguments)
        self.assertTrue(result['isError'], result)
        error = json.loads(result['content'][0]['text'])
        self.assertEqual(error['error'], code, error)
        return error

    def owner(self, click, *arguments):
        with self.state.db.write() as tx:
            return click(tx, *arguments)

    def mika(self, work, **arguments):
        """Mika's own save, as her page sends it."""
        with self.state.db.write() as tx:
            return work(tx, 'person:mika', {'note_id': Q3.id, 'idempotency_key': self.key(), **arguments},
                        self.state.now_us())

    def mika_saves(self, tab, text, base):
        return self.mika(note_people.save_note, tab_id=self.tabs[tab], operation='replace_text', text=text,
                         base_version=base)

    def attach(self, tx, name, content):
        return note_people.attach_file(tx, 'person:mika', {
            'note_id': Q3.id, 'name': name, 'media_type': 'application/pdf', 'idempotency_key': self.key(),
            'content_base64': base64.b64encode(content).decode()}, self.state.now_us())

    def key(self):
        self.keys += 1
        return f'test-key-{self.keys:04}'

    def version(self):
        return self.ok('list_note_tabs', note_id=Q3.id)['version']

    def edit(self, tab, version, **content):
        return {'note_id': Q3.id, 'tab_id': self.tabs[tab], 'expected_version': version, 'idempotency_key': self.key(),
                **content}

    def text(self, tab='Brief'):
        return self.ok('read_note_tab', note_id=Q3.id, tab_id=self.tabs[tab])['text']

    def writes(self):
        version = self.version()
        return [('edit_note_tab', self.edit('Brief', version, operation='replace_text', text='x')),
                ('create_note_tab', {'note_id': Q3.id, 'tab_type': 'slides', 'label': 'x', 'expected_version': version,
                                     'idempotency_key': self.key()}),
                ('add_note_source', {'note_id': Q3.id, 'url': 'https://example.org/', 'expected_version': version,
                                     'idempotency_key': self.key()})]

    def everything(self):
        """All rows of the Note: what a refused call must leave as it was."""
        with self.state.db.read() as tx:
            return [tx.execute(f'SELECT * FROM {table} ORDER BY 1, 2').fetchall() for table in (
                'notes', 'note_tabs', 'note_texts', 'note_slides', 'note_cells', 'note_history', 'note_sources',
                'note_files', 'events', 'replays')]


class WhoDoesWhat(Workspace):
    def test_access_is_the_connection_that_was_approved_for_one_workspace(self):
        with self.state.db.write() as tx:
            workspace.create_workspace(tx, 'w2', 'Elsewhere', 'owner')
            _, elsewhere = self.connect(tx, 'w2', 'owner')
        self.refused('not_found', 'list_note_tabs', token=elsewhere, note_id=Q3.id)

    def test_only_notes_of_projects_the_connection_was_added_to(self):
        with self.state.db.write() as tx:
            note_store.create_note(tx, 'person:owner', 'secret', 'Salaries', [], self.state.now_us())
            access.place(tx, Ref('note', 'secret'), 'w1', 'other', False, 'Salaries')
        found = self.ok('list_project_resources', resource_type='note')['resources']
        self.assertEqual([each['resource_id'] for each in found], [Q3.id])
        self.refused('not_in_project', 'list_note_tabs', note_id='secret')

    def test_every_tab_instance_is_listed_two_sheets_of_one_kind_included_and_an_edit_needs_the_exact_id(self):
        version = self.version()
        created = self.ok('create_note_tab', note_id=Q3.id, tab_type='sheet', label='Owners', expected_version=version,
                          idempotency_key='a-second-owners')
        listed = self.ok('list_note_tabs', note_id=Q3.id)['tabs']
        sheets = [tab['label'] for tab in listed if tab['tab_type'] == 'sheet']
        self.assertEqual(sheets, ['Owners', 'Owners archive', 'Owners'])
        self.assertEqual(len({tab['tab_id'] for tab in listed}), len(listed))
        for wrong in ('Owners', 'sheet', created['tab_id'][:-1], created['tab_id'] + ' ', created['tab_id'].upper()):
            call = self.edit('Owners', created['version'], operation='sheet_set_range', start_row=0, start_col=0,
                             values=[[1]])
            self.refused('not_found', 'edit_note_tab', **{**call, 'tab_id': wrong})

    def test_a_tab_of_another_note_is_not_opened_by_the_right_to_this_one(self):
        with self.state.db.write() as tx:
            note_store.create_note(tx, 'person:owner', 'secret', 'Salaries',
                                   [{'tab_type': 'note', 'label': 'All', 'text': 'a lot'}], self.state.now_us())
            tab_id = note_store.list_note_tabs(tx, '', {'note_id': 'secret'}, 0)['tabs'][0]['tab_id']
        self.refused('not_found', 'read_note_tab', note_id=Q3.id, tab_id=tab_id)

    def test_writes_carry_expected_version_and_an_old_one_is_refused_with_the_current(self):
        old = self.version()
        current = self.ok('edit_note_tab', **self.edit('Brief', old, operation='replace_text', text='new'))['version']
        before = self.everything()
        error = self.refused('stale_version', 'edit_note_tab',
                             **self.edit('Brief', old, operation='replace_text', text='mine'))
        self.assertEqual(error['current_version'], current)
        self.assertEqual(self.everything(), before)

    def test_the_same_key_returns_the_first_result_and_writes_once(self):
        call = self.edit('Brief', self.version(), operation='replace_text', text='once')
        first = self.ok('edit_note_tab', **call)
        before = self.everything()
        self.assertEqual(self.ok('edit_note_tab', **call), {**first, 'replayed': True})
        self.assertEqual(self.everything(), before)
        self.refused('idempotency_key_reused_with_different_body', 'edit_note_tab', **{**call, 'text': 'twice'})
        self.assertEqual(self.text(), 'once')

    def test_the_hosts_question_comes_before_each_write_because_writes_are_not_marked_read_only(self):
        hints = {tool.name: tool.read_only for tool in catalogue.TOOLS}
        for name in ('list_note_tabs', 'read_note_tab', 'read_sheet_range', 'list_note_attachments'):
            self.assertTrue(hints[name], name)
        for name in ('edit_note_tab', 'create_note_tab', 'add_note_source'):
            self.assertFalse(hints[name], name)

    def test_the_approvers_present_right_to_edit_is_asked_at_every_call(self):
        self.ok('edit_note_tab', **self.edit('Brief', self.version(), operation='replace_text', text='while editor'))
        self.owner(workspace.set_role, 'owner', Q3, 'viewer')
        before = self.everything()
        for name, arguments in self.writes():
            self.refused('approver_lacks_role', name, **arguments)
        self.assertEqual(self.everything(), before)
        self.assertEqual(self.text(), 'while editor')
        self.owner(workspace.clear_role, 'owner', Q3)
        self.ok('edit_note_tab', **self.edit('Brief', self.version(), operation='replace_text', text='again'))


class SetUp(Workspace):
    def test_a_note_without_a_project_and_one_only_on_this_device_are_out_of_reach(self):
        self.owner(access.place, Q3, 'w1', None, False)
        self.refused('not_in_project', 'list_note_tabs', note_id=Q3.id)
        self.owner(access.place, Q3, 'w1', 'launch', True)
        self.refused('not_found', 'list_note_tabs', note_id=Q3.id)
        self.assertEqual(self.ok('list_project_resources', resource_type='note')['resources'], [])
        self.owner(access.place, Q3, 'w1', 'launch', False)
        self.ok('list_note_tabs', note_id=Q3.id)

    def test_all_seven_tools_are_on_by_default_and_unticking_the_three_writes_leaves_reading(self):
        writes = self.writes()
        self.owner(access.save_tools, self.connection, [name for name, _ in writes])
        for name, arguments in writes:
            self.refused('tool_not_enabled', name, **arguments)
        self.assertEqual(self.text(), BRIEF)
        self.owner(access.save_tools, self.connection, [])
        self.ok(writes[0][0], **writes[0][1])


class WhereTheLimitIs(Workspace):
    def test_a_stale_write_is_refused_and_never_merged_even_into_a_tab_nobody_touched(self):
        old = self.version()
        self.mika_saves('Brief', BRIEF + '\n- press kit', old)
        before = self.everything()
        for tab in ('Brief', 'Minutes'):
            mine = self.edit(tab, old, operation='replace_text', text='mine')
            self.refused('stale_version', 'edit_note_tab', **mine)
        self.refused('stale_version', 'edit_note_tab', **self.edit(
            'Owners archive', old, operation='sheet_set_range', start_row=50, start_col=0, values=[[1]]))
        for name, arguments in self.writes()[1:]:
            self.refused('stale_version', name, **{**arguments, 'expected_version': old})
        self.assertEqual(self.everything(), before)

    def test_the_agent_reads_again_and_its_second_write_holds_both_changes(self):
        old = self.version()
        self.mika_saves('Brief', BRIEF + '\n- press kit', old)
        self.refused('stale_version', 'edit_note_tab', **self.edit('Brief', old, operation='replace_text', text='mine'))
        read = self.ok('read_note_tab', note_id=Q3.id, tab_id=self.tabs['Brief'])
        self.ok('edit_note_tab', **self.edit('Brief', read['version'], operation='replace_text',
                                             text=read['text'].replace('press kit', 'press kit - owner: Mika')))
        self.assertEqual(self.text(), BRIEF + '\n- press kit - owner: Mika')

    def test_a_refused_call_leaves_its_key_free_for_the_second_try(self):
        old, key = self.version(), 'brief-owners-1'
        self.mika_saves('Brief', 'hers', old)
        call = {**self.edit('Brief', old, operation='replace_text', text='both'), 'idempotency_key': key}
        self.refused('stale_version', 'edit_note_tab', **call)
        self.ok('edit_note_tab', **{**call, 'expected_version': self.version()})

    def test_the_version_belongs_to_the_note_and_every_read_gives_the_same_one(self):
        versions = {self.version()}
        for label in ('Brief', 'Owners', 'Kick-off', 'Board'):
            versions.add(self.ok('read_note_tab', note_id=Q3.id, tab_id=self.tabs[label])['version'])
        versions.add(self.ok('read_sheet_range', note_id=Q3.id, tab_id=self.tabs['Owners'], start_row=0, start_col=0,
                             row_count=1, col_count=1)['version'])
        versions.add(self.ok('list_note_attachments', note_id=Q3.id)['version'])
        self.assertEqual(len(versions), 1)

    def test_a_write_may_follow_a_write_with_the_version_it_gave(self):
        version = self.version()
        for number in range(3):
            saved = self.ok('edit_note_tab', **self.edit('Brief', version, operation='replace_text', text=str(number)))
            version = saved['version']
        self.assertEqual(version, self.version())

    def test_creating_a_tab_only_adds(self):
        version, before = self.version(), self.everything()
        created = self.ok('create_note_tab', note_id=Q3.id, tab_type='slides', label='Kick-off',
                          slides=[{'title': 'Aiko'}, {'title': 'Mika'}], expected_version=version,
                          idempotency_key='launch-status-deck')
        after = self.everything()
        self.assertNotIn(created['tab_id'], self.tabs.values())
        for old_rows, new_rows in list(zip(before, after))[1:]:        # but for the Note's own version
            self.assertLessEqual(set(old_rows), set(new_rows))
        read = self.ok('read_note_tab', note_id=Q3.id, tab_id=created['tab_id'])
        self.assertEqual([slide['title'] for slide in read['slides']], ['Aiko', 'Mika'])
        self.assertEqual(self.ok('list_note_tabs', note_id=Q3.id)['tabs'][-1]['tab_id'], created['tab_id'])

    def test_creating_a_tab_has_no_argument_that_names_one_and_no_kind_but_slides_and_sheet(self):
        call = {'note_id': Q3.id, 'tab_type': 'slides', 'label': 'x', 'expected_version': self.version(),
                'idempotency_key': self.key()}
        self.refused('invalid_argument', 'create_note_tab', **call, tab_id=self.tabs['Brief'])
        for kind in set(note_tabs.TAB_TYPES) - {'slides', 'sheet'}:
            error = self.refused('invalid_argument', 'create_note_tab', **{**call, 'tab_type': kind})
            self.assertEqual(error['field'], 'tab_type')

    def test_a_lost_answer_to_create_note_tab_asked_again_gives_the_same_tab(self):
        call = {'note_id': Q3.id, 'tab_type': 'slides', 'label': 'Launch status', 'slides': [{'title': 'Aiko'}],
                'expected_version': self.version(), 'idempotency_key': 'launch-status-deck'}
        first = self.ok('create_note_tab', **call)
        self.mika_saves('Brief', 'meanwhile', first['version'])
        self.assertEqual(self.ok('create_note_tab', **call), {**first, 'replayed': True})
        labels = [tab['label'] for tab in self.ok('list_note_tabs', note_id=Q3.id)['tabs']]
        self.assertEqual(labels.count('Launch status'), 1)

    def test_each_operation_fits_its_kinds_and_no_others(self):
        content = {'replace_text': {'text': 'x'}, 'slide_add': {'slides': [{'title': 'x'}]},
                   'slides_add_outline': {'text': 'x\n y'}, 'replace_tab_data': {'values': {}},
                   'sheet_set_range': {'start_row': 0, 'start_col': 0, 'values': [['x']]}}
        fits = {'replace_text': {'Brief', 'Minutes'}, 'slide_add': {'Kick-off'}, 'slides_add_outline': {'Kick-off'},
                'sheet_set_range': {'Owners', 'Owners archive'}, 'replace_tab_data': {'Board'}}
        self.assertEqual(set(fits), set(note_tabs.FITS))
        for operation in fits:
            for label in self.tabs:
                call = self.edit(label, self.version(), operation=operation, **content[operation])
                with self.subTest(operation=operation, tab=label):
                    if label in fits[operation]:
                        self.ok('edit_note_tab', **call)
                    else:
                        error = self.refused('invalid_argument', 'edit_note_tab', **call)
                        self.assertEqual(error['field'], 'operation')

    def test_files_and_sources_are_listed_as_metadata_without_content_or_link_and_nothing_else_gives_them(self):
        content = b'embargo until friday ' * 50
        with self.state.db.write() as tx:
            self.attach(tx, 'press kit.pdf', content)
        self.ok('add_note_source', note_id=Q3.id, url='https://example.org/brief', expected_version=self.version(),
                idempotency_key=self.key())
        listed = self.ok('list_note_attachments', note_id=Q3.id)
        (file,), (source,) = listed['files'], listed['sources']
        self.assertEqual(set(file), {'file_id', 'name', 'media_type', 'size_bytes', 'added_at'})
        self.assertEqual((file['name'], file['size_bytes']), ('press kit.pdf', len(content)))
        self.assertEqual(source['url'], 'https://example.org/brief')
        answers = [self.call('list_note_attachments', note_id=Q3.id), self.call('list_note_tabs', note_id=Q3.id)]
        answers += [self.call('read_note_tab', note_id=Q3.id, tab_id=tab_id)
                    for tab_id in [*self.tabs.values(), file['file_id']]]
        for answer in answers:
            self.assertNotIn('embargo', json.dumps(answer))
            self.assertNotIn('http', json.dumps(answer).replace('https://example.org/brief', ''))

    def test_a_source_is_an_http_or_https_url_with_the_notes_version_and_a_key(self):
        call = {'note_id': Q3.id, 'url': 'http://example.org/a?b=%20#c', 'expected_version': self.version(),
                'idempotency_key': 'source-one'}
        first = self.ok('add_note_source', **call)
        self.assertEqual(self.ok('add_note_source', **call), {**first, 'replayed': True})
        self.refused('stale_version', 'add_note_source', **{**call, 'idempotency_key': 'source-two'})
        for url in ('ftp://example.org/', 'javascript:alert(1)', 'data:text/html,x', '//example.org/', 'http://',
                    'https:///x', 'http://user@example.org/', 'http://a:b@example.org/', 'http://exa mple.org/',
                    'http://example.org/\n',
                    'http://example.org/\u202eflip', 'http://[::1', 'http://example.org:99999/', 'http://e/"onload="x',
                    'http:\\\\x', 'https://' + 'a' * note_store.URL_CHARS):
            with self.subTest(url=url[:40]):
                again = {**call, 'url': url, 'expected_version': first['version'], 'idempotency_key': self.key()}
                self.assertEqual(self.refused('invalid_argument', 'add_note_source', **again)['field'], 'url')
        for missing in ('expected_version', 'idempotency_key'):
            less = {name: value for name, value in call.items() if name != missing}
            self.assertEqual(self.refused('invalid_argument', 'add_note_source', **less)['field'], missing)

    def test_moving_the_note_closes_access_from_the_next_call_and_a_token_issued_before_does_not_keep_it_open(self):
        replay = self.edit('Brief', self.version(), operation='replace_text', text='before the move')
        self.ok('edit_note_tab', **replay)
        self.owner(access.place, Q3, 'w1', 'other', False)
        self.closed('not_in_project', replay)
        self.owner(access.place, Q3, 'w1', 'launch', False)
        self.assertEqual(self.text(), 'before the move')
        self.owner(access.remove_from_project, self.connection, 'launch')
        self.closed('not_in_project', replay)
        self.owner(access.add_to_project, self.connection, 'launch')
        self.assertEqual(self.text(), 'before the move')
        self.owner(access.revoke, self.connection)
        self.closed('connection_revoked', replay)

    def closed(self, code, replay):
        """For reading, for writing, and for the stored answer of a write that was allowed."""
        self.refused(code, 'read_note_tab', note_id=Q3.id, tab_id=self.tabs['Brief'])
        self.refused(code, 'edit_note_tab', **{**replay, 'idempotency_key': self.key()})
        self.refused(code, 'edit_note_tab', **replay)


class EveryWriteIsAnEvent(Workspace):
    def test_a_poll_from_a_cursor_names_each_write_once_whoever_made_it(self):
        start = self.poll(0)['next_sequence']
        edited = self.ok('edit_note_tab', **self.edit('Brief', self.version(), operation='replace_text', text='a'))
        version = edited['version']
        tab_id = self.ok('create_note_tab', note_id=Q3.id, tab_type='sheet', label='b', expected_version=version,
                         idempotency_key=self.key())['tab_id']
        self.ok('add_note_source', note_id=Q3.id, url='https://example.org', expected_version=self.version(),
                idempotency_key=self.key())
        self.mika_saves('Minutes', 'c', self.version())
        with self.state.db.write() as tx:
            self.attach(tx, 'a.txt', b'd')
        self.assertFalse(self.mika_saves('Minutes', 'e', version)['saved'])
        events = self.poll(start)['events']
        self.assertEqual([(event['type'], event['tab_id']) for event in events], [
            ('updated', self.tabs['Brief']), ('tab_created', tab_id), ('source_added', ''),
            ('updated', self.tabs['Minutes']), ('file_added', '')])
        self.assertEqual(events[-1]['updated_at'], self.version())

    def poll(self, after):
        return self.ok('poll_resource_events', resource_type='note', resource_id=Q3.id, after_sequence=after)


class AtOneInstant(Workspace):
    def test_of_eight_writers_with_one_version_exactly_one_is_saved_and_all_others_are_told_the_current_version(self):
        version, barrier, answers = self.version(), threading.Barrier(8), []

        def write(number):
            call = self.edit('Brief', version, operation='replace_text', text=str(number))
            barrier.wait()
            answers.append(self.call('edit_note_tab', **call))
        self.in_threads(write, 8)
        saved = [answer['structuredContent']['version'] for answer in answers if not answer['isError']]
        self.assertEqual(len(saved), 1)
        for answer in answers:
            if answer['isError']:
                self.assertEqual(json.loads(answer['content'][0]['text'])['current_version'], saved[0])

    def test_one_call_sent_eight_times_at_one_instant_makes_one_tab(self):
        call = {'note_id': Q3.id, 'tab_type': 'sheet', 'label': 'once', 'expected_version': self.version(),
                'idempotency_key': 'sent-eight-times'}
        barrier, answers = threading.Barrier(8), []

        def create(number):
            barrier.wait()
            answers.append(self.ok('create_note_tab', **call))
        self.in_threads(create, 8)
        self.assertEqual(len({answer['tab_id'] for answer in answers}), 1)
        self.assertEqual([tab['label'] for tab in self.ok('list_note_tabs', note_id=Q3.id)['tabs']].count('once'), 1)

    def test_writers_in_two_servers_on_one_folder_lose_nothing_to_each_other(self):
        other = tools.State(versioned.Database(self.path, server.SCHEMAS), catalogue.by_name())
        self.addCleanup(other.close)

        def write(number):
            state, saved = (self.state, other)[number % 2], 0
            while saved < 10:                              # reads again after each refusal
                read = self.call_in(state, 'read_note_tab', note_id=Q3.id, tab_id=self.tabs['Minutes'])
                text = read['structuredContent']['text'] + f'{number};'
                call = {'note_id': Q3.id, 'tab_id': self.tabs['Minutes'], 'operation': 'replace_text', 'text': text,
                        'expected_version': read['structuredContent']['version'],
                        'idempotency_key': f'writer-{number}-{time.monotonic_ns()}'}
                saved += not self.call_in(state, 'edit_note_tab', **call)['isError']
        self.in_threads(write, 4)
        marks = self.text('Minutes')[len('none yet'):].split(';')[:-1]
        self.assertEqual(sorted(marks), sorted('0123' * 10))

    def call_in(self, state, name, **arguments):
        return tools.call_tool(state, self.token, name, arguments)

    def in_threads(self, work, count):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == '__main__':
    unittest.main()
