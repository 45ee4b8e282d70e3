"""Article 5, the person's side: saves with a base, drafts that are kept, and a history that rebuilds every tab."""
import json
import unittest

import note_people
import note_store
import note_tabs
import owner
import workspace
from tests import test_article5
from tests.test_article5 import BRIEF, Q3
from versioned import Ref, Refusal


class Person(test_article5.Workspace):
    def kept(self, person='person:mika'):
        with self.state.db.read() as tx:
            return note_people.drafts(tx, person, Q3.id)

    def refuses(self, code, work, *arguments, **named):
        with self.assertRaises(Refusal) as caught:
            work(*arguments, **named)
        self.assertEqual(caught.exception.code, code)
        return caught.exception.data


class Saves(Person):
    def test_a_save_from_the_current_revision_is_saved_and_keeps_no_draft(self):
        answer = self.mika_saves('Brief', 'hers', self.version())
        self.assertEqual((answer['saved'], answer['version']), (True, self.version()))
        self.assertEqual((self.text(), self.kept()), ('hers', []))

    def test_when_claude_saved_meanwhile_the_text_is_kept_as_a_draft_with_a_conflict_and_claudes_words_stay(self):
        base = self.version()
        self.ok('edit_note_tab', **self.edit('Brief', base, operation='replace_text', text="Claude's"))
        answer = self.mika_saves('Brief', 'hers, an hour of work', base)
        self.assertEqual((answer['saved'], answer['conflict'], answer['current_version']),
                         (False, 'stale_version', self.version()))
        self.assertEqual(self.text(), "Claude's")
        draft, = self.kept()
        self.assertEqual((draft['text'], draft['base_version'], draft['draft_id']),
                         ('hers, an hour of work', base, answer['draft_id']))

    def test_a_conflict_sent_twice_is_one_draft(self):
        base = self.version()
        self.mika_saves('Minutes', 'first', base)
        lost = {'tab_id': self.tabs['Brief'], 'operation': 'replace_text', 'text': 'second', 'base_version': base,
                'idempotency_key': 'a-double-click'}
        answer = self.mika(note_people.save_note, **lost)
        self.assertEqual(self.mika(note_people.save_note, **lost), {**answer, 'replayed': True})
        self.assertEqual(len(self.kept()), 1)

    def test_every_kind_of_content_that_loses_is_kept_whole(self):
        base = self.version()
        self.mika_saves('Brief', 'now everything is stale', base)
        lost = {'Owners': ('sheet_set_range', {'start_row': 2, 'start_col': 1, 'values': [['Aiko', None, True]]}),
                'Kick-off': ('slide_set', {'position': 0, 'slides': [{'title': 'Why not', 'text': ''}]}),
                'Board': ('replace_tab_data', {'values': {'columns': []}}),
                'Minutes': ('replace_text', {'text': 'long ' * 1000})}
        for label, (operation, content) in lost.items():
            self.mika(note_people.save_note, tab_id=self.tabs[label], operation=operation, base_version=base, **content)
        for draft, (operation, content) in zip(self.kept(), lost.values()):
            self.assertEqual(draft['operation'], operation)
            self.assertEqual({name: draft[name] for name in content}, content)

    def test_a_bad_save_is_refused_and_keeps_nothing(self):
        for wrong in ({'operation': 'slide_add'}, {'base_version': 'yesterday'}, {'text': 'nul \x00'},
                      {'tab_id': 'Brief'}, {'text': '\ud800'}, {'idempotency_key': 'short'},
                      {'text': 'x' * (note_tabs.TEXT_BYTES + 1)}):
            call = {'tab_id': self.tabs['Brief'], 'operation': 'replace_text', 'text': 'x',
                    'base_version': self.version(), **wrong}
            with self.subTest(wrong=str(wrong)[:60]):
                before = self.everything()
                code = 'not_found' if 'tab_id' in wrong else 'invalid_argument'
                self.refuses(code, self.mika, note_people.save_note, **call)
                self.assertEqual((self.everything(), self.kept()), (before, []))

    def test_a_person_may_rewrite_one_slide_and_an_agent_may_not(self):
        call = {'tab_id': self.tabs['Kick-off'], 'operation': 'slide_set', 'position': 0,
                'slides': [{'title': 'Why now'}]}
        self.refused('invalid_argument', 'edit_note_tab', note_id=Q3.id, **call, expected_version=self.version(),
                     idempotency_key=self.key())
        self.mika(note_people.save_note, **call, base_version=self.version())
        read = self.ok('read_note_tab', note_id=Q3.id, tab_id=self.tabs['Kick-off'])
        self.assertEqual([slide['title'] for slide in read['slides']], ['Why now'])
        call.update(position=1, base_version=read['version'])
        self.refuses('invalid_argument', self.mika, note_people.save_note, **call)


class Drafts(Person):
    def test_a_draft_changes_nothing_in_the_note_and_only_its_owner_sees_and_drops_it(self):
        before = self.everything()[:-1]                # but for the stored answer
        draft_id = self.mika(note_people.keep_draft, tab_id=self.tabs['Brief'], operation='replace_text',
                             text='on the train', base_version=self.version())['draft_id']
        self.assertEqual(self.everything()[:-1], before)
        self.assertEqual(self.kept('person:owner'), [])
        self.assertEqual([draft['text'] for draft in self.kept()], ['on the train'])
        with self.state.db.write() as tx:
            self.refuses('not_found', note_people.drop_draft, tx, 'person:owner', {'draft_id': draft_id})
            note_people.drop_draft(tx, 'person:mika', {'draft_id': draft_id})
        self.assertEqual(self.kept(), [])

    def test_a_draft_stays_after_a_later_save_until_its_owner_drops_it(self):
        base = self.version()
        self.ok('edit_note_tab', **self.edit('Brief', base, operation='replace_text', text="Claude's"))
        self.mika_saves('Brief', 'hers', base)
        self.mika_saves('Brief', "Claude's and hers", self.version())
        self.assertEqual([draft['text'] for draft in self.kept()], ['hers'])

    def test_no_tool_shows_a_draft(self):
        self.mika(note_people.keep_draft, tab_id=self.tabs['Brief'], operation='replace_text',
                  text='not yet for anybody', base_version=self.version())
        calls = [('list_note_tabs', {}), ('list_note_attachments', {}), *(('read_note_tab', {'tab_id': each})
                                                                         for each in self.tabs.values())]
        for name, arguments in calls:
            self.assertNotIn('not yet', json.dumps(self.ok(name, note_id=Q3.id, **arguments)))


class History(Person):
    def test_every_saved_version_is_in_the_history_with_who_when_and_what_and_no_refused_one_is(self):
        start = self.version()
        edited = self.ok('edit_note_tab', **self.edit('Brief', start, operation='replace_text', text="Claude's"))
        claude = edited['version']
        self.mika_saves('Brief', 'lost', start)
        lost = self.edit('Brief', start, operation='replace_text', text='lost too')
        self.refused('stale_version', 'edit_note_tab', **lost)
        mika = self.mika_saves('Minutes', 'hers', claude)['version']
        with self.state.db.read() as tx:
            lines = note_people.history(tx, Q3.id)
            what = [note_people.saved_change(tx, Q3.id, line['version'])['text'] for line in lines[:2]]
        self.assertEqual([(line['version'], line['actor'], line['operation'], line['tab_id']) for line in lines[:3]], [
            (mika, 'person:mika', 'replace_text', self.tabs['Minutes']),
            (claude, f'connection:{self.connection}', 'replace_text', self.tabs['Brief']),
            (start, 'person:owner', 'create_note_tab', self.tabs['Board'])])
        self.assertEqual(what, ['hers', "Claude's"])

    def test_the_history_is_read_in_pages_without_a_gap(self):
        version = self.version()
        for number in range(7):
            version = self.mika_saves('Brief', str(number), version)['version']
        with self.state.db.read() as tx:
            whole = note_people.history(tx, Q3.id, 200)
            pages, before = [], None
            while not pages or len(page) == 3:
                page = note_people.history(tx, Q3.id, 3, before)
                pages, before = pages + page, page[-1]['version'] if page else before
        self.assertEqual(pages, whole)
        self.assertEqual(len(whole), 1 + len(self.tabs) + 7)

    def test_the_history_alone_rebuilds_every_tab(self):
        base = self.version()
        for label, content in [
                ('Brief', {'operation': 'replace_text', 'text': BRIEF + '\n- press kit'}),
                ('Owners', {'operation': 'sheet_set_range', 'start_row': 3, 'start_col': 1,
                            'values': [['Mika', None], [1.5, 7]]}),
                ('Kick-off', {'operation': 'slide_add', 'slides': [{'title': 'Press kit', 'text': 'due'}]}),
                ('Kick-off', {'operation': 'slides_add_outline', 'text': 'Aiko\n - two points\nMika'}),
                ('Board', {'operation': 'replace_tab_data', 'values': {'columns': ['open'], 'cards': [1, 2.5, None]}})]:
            base = self.ok('edit_note_tab', **self.edit(label, base, **content))['version']
        self.mika(note_people.save_note, tab_id=self.tabs['Kick-off'], operation='slide_set', position=1,
                  slides=[{'title': 'Press kit, final'}], base_version=base)
        with self.state.db.write() as tx:
            self.assertEqual(rebuilt(tx, Q3.id), contents(tx, Q3.id))


def contents(tx, note_id):
    """What every tab holds now: its own rows, by label."""
    tabs = [note_store.find_tab(tx, note_id, tab_id) for tab_id, in
            tx.execute('SELECT tab_id FROM note_tabs WHERE note_id = ? ORDER BY position', (note_id,)).fetchall()]
    return [(tab.label, tab.tab_type, note_tabs.read_content(tx, tab), cells(tx, tab.tab_id)) for tab in tabs]


def cells(tx, tab_id):
    return tx.execute('SELECT row, block, cells FROM note_cells WHERE tab_id = ? '
                      'ORDER BY row, block', (tab_id,)).fetchall()


def rebuilt(tx, note_id):
    """The same from the history alone: its lines are applied to a Note that has only a name."""
    note_store.create_note(tx, 'person:test', 'copy of ' + note_id, 'copy', [], 0)
    copies = {}
    for actor, operation, tab_id, change in tx.execute(
            'SELECT actor, operation, tab_id, change FROM note_history WHERE note_id = ? ORDER BY version',
            (note_id,)).fetchall():
        change = json.loads(change)
        version = note_store.note_head(tx, 'copy of ' + note_id)[1]
        if operation == 'create_note_tab':
            copies[tab_id] = note_store.add_tab(tx, actor, 'copy of ' + note_id, change, version, 0)['tab_id']
        elif tab_id:
            note_tabs.apply_change(tx, note_store.find_tab(tx, 'copy of ' + note_id, copies[tab_id]), operation, change)
    return contents(tx, 'copy of ' + note_id)


class Files(Person):
    def test_a_file_moves_the_version_and_its_bytes_come_back_to_people_only_from_its_own_note(self):
        before = self.version()
        with self.state.db.write() as tx:
            file = self.attach(tx, 'a.pdf', b'\x00\xff%PDF')
        self.assertNotEqual(self.version(), before)
        with self.state.db.read() as tx:
            self.assertEqual(note_people.file_content(tx, Q3.id, file['file_id']), b'\x00\xff%PDF')
            self.refuses('not_found', note_people.file_content, tx, 'another', file['file_id'])

    def test_a_file_too_large_or_with_a_name_of_two_lines_is_refused(self):
        large = b'x' * (note_people.FILE_BYTES + 1)
        for name, content in (('a', large), ('a\nb', b''), ('', b''), ('a\x9b0m', b'')):
            with self.state.db.write() as tx:
                self.refuses('invalid_argument', self.attach, tx, name, content)

    def test_a_file_sent_twice_with_one_key_is_one_file(self):
        call = {'note_id': Q3.id, 'name': 'a', 'media_type': 'text/plain', 'content_base64': 'YQ==',
                'idempotency_key': 'one-upload'}
        with self.state.db.write() as tx:
            first = note_people.attach_file(tx, 'person:mika', call, 1)
            self.assertEqual(note_people.attach_file(tx, 'person:mika', call, 2), {**first, 'replayed': True})
            for wrong in ('Y', 'Y===', 'YQ==!', 'é', None):
                self.refuses('invalid_argument', note_people.attach_file, tx, 'person:mika',
                             {**call, 'content_base64': wrong, 'idempotency_key': self.key()}, 3)


class Clicks(Person):
    """The same through the owner's verbs, which ask for the person's own right first."""

    def click(self, verb, person='mika', **arguments):
        return owner.run(self.state, person, verb, arguments)

    def save(self, text, base, **more):
        return {'note_id': Q3.id, 'tab_id': self.tabs['Brief'], 'operation': 'replace_text', 'text': text,
                'base_version': base, 'idempotency_key': self.key(), **more}

    def test_a_person_saves_meets_a_conflict_finds_the_draft_and_drops_it(self):
        base = self.version()
        self.assertTrue(self.click('save_note', **self.save('first', base))['saved'])
        answer = self.click('save_note', **self.save('second', base))
        self.assertEqual((answer['saved'], answer['current_version']), (False, self.version()))
        draft, = self.click('list_drafts', note_id=Q3.id)['drafts']
        self.assertEqual(draft['text'], 'second')
        self.click('drop_draft', note_id=Q3.id, draft_id=draft['draft_id'])
        self.assertEqual(self.click('list_drafts', note_id=Q3.id)['drafts'], [])
        newest = self.click('note_history', note_id=Q3.id, limit=1)['history'][0]
        self.assertEqual(self.click('note_change', note_id=Q3.id, version=newest['version'])['text'], 'first')

    def test_a_file_comes_back_to_a_person_who_may_look_at_its_note(self):
        file = self.click('attach_file', note_id=Q3.id, name='a.pdf', media_type='application/pdf',
                          content_base64='AP8lUERG', idempotency_key=self.key())
        self.assertEqual(self.click('read_file', note_id=Q3.id, file_id=file['file_id'])['content_base64'], 'AP8lUERG')
        self.owner(workspace.set_role, 'mika', Q3, 'none')
        self.refuses('not_found', self.click, 'read_file', note_id=Q3.id, file_id=file['file_id'])

    def test_the_persons_own_right_is_asked_at_every_click(self):
        base = self.version()
        self.owner(workspace.set_role, 'mika', Ref('project', 'launch'), 'viewer')
        self.assertEqual(self.click('read_tab', note_id=Q3.id, tab_id=self.tabs['Brief'])['text'], BRIEF)
        self.refuses('role_too_low', self.click, 'save_note', **self.save('x', base))
        self.refuses('role_too_low', self.click, 'attach_file', note_id=Q3.id, name='a', media_type='b',
                     content_base64='', idempotency_key=self.key())
        self.click('keep_draft', **self.save('still hers', base))
        self.owner(workspace.set_role, 'mika', Q3, 'none')
        for verb, more in (('save_note', self.save('x', base)), ('keep_draft', self.save('x', base)),
                           ('list_drafts', {'note_id': Q3.id}), ('read_note', {'note_id': Q3.id}),
                           ('note_history', {'note_id': Q3.id}), ('read_tab', {'note_id': Q3.id, 'tab_id': 'x'})):
            self.refuses('not_found', self.click, verb, **more)
        self.owner(workspace.clear_role, 'mika', Q3)
        draft, = self.click('list_drafts', note_id=Q3.id)['drafts']
        self.assertEqual(draft['text'], 'still hers')
        self.owner(workspace.clear_role, 'mika', Ref('workspace', 'w1'))     # left: nothing below it counts
        self.refuses('not_found', self.click, 'read_note', note_id=Q3.id)
        self.refuses('not_found', self.click, 'read_note', person='stranger', note_id=Q3.id)

    def test_a_new_note_lies_in_a_project_or_in_none_or_on_this_device_only(self):
        for note_id, more in (('n-project', {'project': 'launch'}), ('n-none', {}), ('n-local', {'local_only': True})):
            self.click('create_note', note_id=note_id, title='T', **more,
                       tabs=[{'tab_type': 'note', 'label': 'a', 'text': 'b'}])
            read = self.click('read_note', note_id=note_id)
            self.assertEqual((read['project'], read['local_only'], len(read['tabs'])),
                             (more.get('project'), more.get('local_only', False), 1))
        self.ok('list_note_tabs', note_id='n-project')
        self.refused('not_in_project', 'list_note_tabs', note_id='n-none')
        self.refused('not_found', 'list_note_tabs', note_id='n-local')
        for note_id in ('n-none', 'two\nlines', ' '):
            self.refuses('invalid_argument', self.click, 'create_note', note_id=note_id, title='again')
        self.refuses('not_found', self.click, 'create_note', note_id='n-x', title='T', project='nowhere')

    def test_a_person_sees_the_notes_that_are_open_to_her_with_their_cells_and_attachments(self):
        self.click('create_note', person='owner', note_id='n-none', title='Alone')
        self.click('create_note', person='owner', note_id='n-private', title='Private')
        self.owner(workspace.set_role, 'mika', Ref('note', 'n-private'), 'none')
        found = self.click('list_notes')['notes']
        seen = [(note['title'], note['project']) for note in found]
        self.assertEqual(seen, [('Alone', None), ('Q3 launch', 'launch')])
        corner = {'note_id': Q3.id, 'tab_id': self.tabs['Owners'], 'start_row': 0, 'start_col': 0}
        self.assertEqual(self.click('read_range', **corner, row_count=1, col_count=2)['values'], [['point', 'owner']])
        self.assertEqual(self.click('list_attachments', note_id=Q3.id)['files'], [])

    def test_a_click_with_a_wrong_argument_is_refused_by_name(self):
        for verb, arguments in (('save_note', {'note_id': Q3.id}), ('read_note', {}), ('read_note', {'note_id': 7}),
                                ('save_note', self.save('x', self.version(), more=1)),
                                ('note_history', {'note_id': 'q', 'limit': 0})):
            self.refuses('invalid_argument', self.click, verb, **arguments)


if __name__ == '__main__':
    unittest.main()
