"""The real Claude Code, with a model whose part is written down, plays article 6's run and article 7's nine steps."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from tests.interop import judges
from tests.interop.scripted_model import ScriptedModel

import published_project
import runs_access
import runs_project
import runs_stage

PREFIX = 'mcp__osfoundry__'
LONG_S = 240


class ClaudeCode(unittest.TestCase):
    def setUp(self):
        self.program = judges.claude_code()
        self.home = tempfile.mkdtemp(prefix='claude-')
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)

    def played(self, here, token, replies):
        """One conversation; the texts of the tool results, in order."""
        model = ScriptedModel([*replies, 'that is all'])
        self.addCleanup(model.close)
        config = os.path.join(self.home, 'mcp.json')
        with open(config, 'w', encoding='utf-8') as file:
            json.dump({'mcpServers': {'osfoundry': {'type': 'http', 'url': here.url,
                                                    'headers': {'Authorization': f'Bearer {token}'}}}}, file)
        environment = {'PATH': os.environ['PATH'], 'HOME': self.home, 'ANTHROPIC_BASE_URL': model.url,
                       'ANTHROPIC_API_KEY': 'x', 'CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC': '1', 'DISABLE_AUTOUPDATER': '1'}
        done = subprocess.run([self.program, '-p', 'Go.', '--mcp-config', config, '--strict-mcp-config', '--allowedTools',
                               f'{PREFIX[:-2]}', '--output-format', 'stream-json', '--verbose'], cwd=self.home,
                              env=environment, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=LONG_S)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        return model.tool_results()

    def call(self, name, **arguments):
        return 'tool', PREFIX + name, arguments


class Article6(ClaudeCode):
    def test_the_real_run_call_by_call(self):
        now_us = time.time_ns() // 1000
        with runs_stage.stage(lambda tx: runs_project.seed(tx, now_us)) as here:
            scripted = here.claude()
            scripted.call('list_granted_resources', {})            # signs in: this run is about the calls
            here.click('add_to_project', connection=here.connection(), project=runs_project.PROJECT)
            results = self.played(here, scripted.access_token, self.replies())
        granted, listed, tabs, tab, found, _, record, saved, stale = map(json.loads, results)
        cells = {(cell.row, cell.column): cell.published for cell in published_project.RUN.cells}
        self.assertEqual(f'1 project: "{granted["projects"][0]["name"]}"', cells['1 list_granted_resources', 'answer'])
        self.assertEqual(f'Note "{listed["resources"][0]["name"]}"',
                         cells['2 list_project_resources note "checklist"', 'answer'])
        self.assertEqual(', '.join(f'{one["label"]} ({one["tab_type"]})' for one in tabs['tabs']),
                         cells['3 list_note_tabs', 'answer'])
        count, unticked = runs_project.entries(tab['text'])
        self.assertEqual((count, len(unticked)), (9, 3))
        hit = found['results'][0]
        self.assertEqual((hit['title'], runs_project.age_days(hit['citation']['updated_at'], now_us)), ('Refund policy', 2))
        self.assertEqual((record['title'], record['values']['status']), ('pricing page', 'Draft'))
        self.assertEqual(saved['values']['status'], 'Ready')
        self.assertGreater(saved['version'], record['version'])
        self.assertEqual(stale['error'], 'stale_version')

    def replies(self):
        """The model's part. What an answer gave goes into the next call, as a model would carry it over."""
        def tab(results):
            return self.call('read_note_tab', note_id=runs_project.NOTE, tab_id=json.loads(results[2])['tabs'][0]['tab_id'])

        def record(results):
            item = json.loads(results[5])['items'][0]['item_id']
            return self.call('read_record_item', record_channel_id=runs_project.RECORDS, item_id=item)

        def edit(key):
            def reply(results):
                read = json.loads(results[6])
                return self.call('edit_record_item', record_channel_id=runs_project.RECORDS, item_id=read['item_id'],
                                 values={'status': 'Ready'}, expected_version=read['version'], idempotency_key=key)
            return reply
        return [self.call('list_granted_resources'),
                self.call('list_project_resources', project_id=runs_project.PROJECT, resource_type='note',
                          search='checklist'),
                self.call('list_note_tabs', note_id=runs_project.NOTE), tab,
                self.call('search_knowledge_base', knowledge_base_id=runs_project.KB, query='refund window'),
                self.call('list_record_items', record_channel_id=runs_project.RECORDS), record,
                edit('mark-ready-1'), edit('mark-ready-2')]


class Article7(ClaudeCode):
    def test_the_nine_steps_but_the_sign_in(self):
        """Between two conversations the owner clicks. Step 5's 403 is the host's to answer; here it reads of it."""
        with runs_stage.stage(runs_access.seed) as here:
            reader, writer = here.claude('osfoundry:read'), here.claude('osfoundry:read osfoundry:write')
            for claude in (reader, writer):
                claude.call('list_granted_resources', {})
            connection, token = here.connection(), reader.access_token
            steps = [self.step(here, token, self.call('list_project_resources'))]
            here.click('add_to_project', connection=connection, project='A')
            steps.append(self.step(here, token, self.call('list_project_resources')))
            tab = json.loads(self.step(here, token, self.call('list_note_tabs', note_id='note-a1')))['tabs'][0]['tab_id']
            read, edit = self.reading(tab), self.editing(tab)
            steps += self.played(here, token, [read, self.call('read_note_tab', note_id='note-b1', tab_id=tab), edit])[:2]
            saved = self.played(here, writer.access_token, [read, edit])[1]
            here.click('move_item', kind='note', id='note-a1', project='B')
            steps.append(self.step(here, token, read))
            here.click('move_item', kind='note', id='note-a1', project='A')
            here.click('remove_from_project', connection=connection, project='A')
            steps.append(self.step(here, token, read))
            here.click('revoke', connection=connection)
            steps.append(self.step(here, token, read))
            lines = here.click('recent_activity', connection=connection)['activity']
        self.assertEqual([self.said(step) for step in steps],
                         [[], ['note-a1'], runs_access.TITLE, 'not_in_project', 'not_in_project', 'not_in_project',
                          'connection_revoked'])
        self.assertIn('version', json.loads(saved))
        self.assertIn('insufficient_scope', {line['outcome'] for line in lines})

    def step(self, here, token, reply):
        return self.played(here, token, [reply])[0]

    def reading(self, tab):
        return self.call('read_note_tab', note_id='note-a1', tab_id=tab)

    def editing(self, tab):
        def reply(results):
            return self.call('edit_note_tab', note_id='note-a1', tab_id=tab, operation='replace_text',
                             text=runs_access.SECOND_TITLE, idempotency_key='nine-steps',
                             expected_version=json.loads(results[0])['version'])
        return reply

    def said(self, result):
        answer = json.loads(result)
        return answer.get('error') or answer.get('text') or runs_access.ids(answer)


if __name__ == '__main__':
    unittest.main()
