"""Article 5 under fire: agents and people edit one Note at once while the server is killed and started again.

Every accepted edit is in the history, every refused one changed nothing, and each person's losing text is kept. A call
whose answer was lost is sent again as it was, as a host does. Agents come through MCP, people through their own clicks.
"""
import contextlib
import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
import unittest

import access
import host
import host_signin
import note_people
import note_store
import owner
import runs_stage
import server
import workspace
from tests.test_article5_people import contents, rebuilt
from tests.wire_world import lasting_port
from versioned import Database, Ref, events_after

NOTE = Ref('note', 'q3-launch')
LABELS = ('Brief', 'Owners') * 4 + ('Kick-off',)       # a deck has an end, so it grows slowly
PATIENCE_S = 120                         # how long one call is sent again before the test gives up
LOST = 0.1                               # of all answers never reach the writer, who sends the call again


class Killed(unittest.TestCase):
    AGENTS, PEOPLE, SECONDS, KILLS = 3, 2, 1.5, 1

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tokens = {}                 # agent -> (its actor in the history, its access token)
        runs_stage.plant(self.folder, self.seed)
        self.port = lasting_port()
        self.process = self.start()
        self.addCleanup(self.stop)
        with open(os.path.join(self.folder, owner.TOKEN_FILE), encoding='ascii') as file:
            self.owner_token = file.read().strip()
        self.base_url = f'http://127.0.0.1:{self.port}'
        self.over, self.lock, self.done, self.faults = threading.Event(), threading.Lock(), [], []

    def seed(self, tx):
        access.create_project(tx, 'launch', runs_stage.WORKSPACE, 'Launch')
        note_store.create_note(tx, 'person:owner', NOTE.id, 'Q3 launch', [
            {'tab_type': 'note', 'label': 'Brief', 'text': '{}'}, {'tab_type': 'sheet', 'label': 'Owners'},
            {'tab_type': 'slides', 'label': 'Kick-off'}], time.time_ns() // 1000)
        access.place(tx, NOTE, runs_stage.WORKSPACE, 'launch', False, 'Q3 launch')
        listed = note_store.list_note_tabs(tx, '', {'note_id': NOTE.id}, 0)
        self.tabs = {tab['label']: tab['tab_id'] for tab in listed['tabs']}
        for number in range(self.AGENTS):
            connection = access.add_assistant(tx, runs_stage.WORKSPACE, 'owner', 'claude', f'Agent {number}', 1)
            access.attach(tx, connection, runs_stage.WORKSPACE, 'owner')
            access.add_to_project(tx, connection, 'launch')
            token = access.issue_access_token(tx, connection, access.SCOPES, time.time_ns() // 1000, 3600)
            self.tokens[f'a{number}'] = f'connection:{connection}', token
        for number in range(self.PEOPLE):
            workspace.add_person(tx, f'p{number}', f'Person {number}')
            workspace.set_role(tx, f'p{number}', Ref('workspace', runs_stage.WORKSPACE), 'editor')

    def start(self):
        process = runs_stage.start(self.folder, ('--port', str(self.port)))
        runs_stage.read_base_url(process)
        return process

    def stop(self):
        runs_stage.stop(self.process)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.process = self.start()

    def insist(self, send):
        """The answer of `send`, sent again as it is for as long as no answer comes."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                return send()
            except (host.HostError, host_signin.SignInError):
                if time.monotonic() > give_up:
                    raise
                self.over.wait(0.02)

    # The two kinds of writer: both read, change their own part, and send the version they read.

    def agent(self, name):
        actor, token = self.tokens[name]
        claude = host.Host(self.base_url + server.mcp.ENDPOINT)
        claude.grant['tokens'] = {'access_token': token}

        def read(label):
            tab = {'note_id': NOTE.id, 'tab_id': self.tabs[label]}
            return self.insist(lambda: host.tool_answer(claude.call('read_note_tab', tab).result))

        def write(arguments):
            call = {**arguments, 'expected_version': arguments['base']}
            del call['base']
            answer = self.insist(lambda: host.tool_answer(claude.call('edit_note_tab', call).result))
            return {**answer, 'saved': 'version' in answer}
        self.writer(name, actor, read, write)

    def person(self, name):
        def click(verb, arguments):
            def send():
                status, answer = host.owner_click(self.base_url, self.owner_token, verb, {'person': name, **arguments})
                if status >= 500:
                    raise host.HostError(status, str(answer))
                return answer
            return self.insist(send)

        def read(label):
            return click('read_tab', {'note_id': NOTE.id, 'tab_id': self.tabs[label]})

        def write(arguments):
            call = {**arguments, 'base_version': arguments['base']}
            del call['base']
            return click('save_note', call)
        self.writer(name, f'person:{name}', read, write)

    def writer(self, name, actor, read, write):
        rng, number = random.Random(name), 0
        try:
            while not self.over.is_set():
                number += 1
                label, mark = rng.choice(LABELS), f'{name}-{number}'
                arguments = self.change(label, name, number, mark, read(label))
                answer = write(arguments)
                if rng.random() < LOST:            # as if that answer had been lost on the way
                    answer = write(arguments)
                with self.lock:
                    self.done.append((actor, mark, arguments, answer))
        except Exception as fault:                     # shown by the test: a thread's own end would be silent
            self.faults.append(f'{name}: {fault!r}')

    def change(self, label, name, number, mark, seen):
        """A change of one's own part: a line of the Brief, a cell of the sheet, or one more slide."""
        if label == 'Brief':
            brief = {**json.loads(seen['text']), name: mark}
            content = {'operation': 'replace_text', 'text': json.dumps(brief)}
        elif label == 'Owners':
            cell = {'start_row': int(name[1:]) + 10 * (name[0] == 'p'), 'start_col': number % 90}
            content = {'operation': 'sheet_set_range', **cell, 'values': [[mark]]}
        else:
            content = {'operation': 'slide_add', 'slides': [{'title': mark}]}
        return {'note_id': NOTE.id, 'tab_id': self.tabs[label], 'base': seen['version'],
                'idempotency_key': f'key-of-{mark}', **content}

    def test_every_accepted_edit_is_in_the_history_every_refused_one_changed_nothing_and_losing_texts_are_kept(self):
        threads = [threading.Thread(target=self.agent, args=(name,)) for name in self.tokens]
        threads += [threading.Thread(target=self.person, args=(f'p{number}',)) for number in range(self.PEOPLE)]
        for thread in threads:
            thread.start()
        for _ in range(self.KILLS):
            self.over.wait(self.SECONDS / (self.KILLS + 1))
            with self.lock:
                before = len(self.done)
            self.kill()
            self.wait_until(lambda: len(self.done) > before + self.AGENTS + self.PEOPLE)
        self.over.wait(self.SECONDS / (self.KILLS + 1))
        self.wait_until(lambda: len(self.saved(True)) > self.AGENTS + self.PEOPLE and self.saved(False))
        self.over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(self.faults, [])
        runs_stage.stop(self.process)
        with contextlib.closing(Database(os.path.join(self.folder, 'state.db'), server.SCHEMAS)) as db:
            with db.write() as tx:
                self.judge(tx)

    def wait_until(self, enough):
        """However slow the machine: until the writers have done what the test is about."""
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up and not self.faults:
            with self.lock:
                if enough():
                    return
            self.over.wait(0.02)

    def saved(self, wanted):
        return [each for each in self.done if each[3]['saved'] == wanted]

    def judge(self, tx):
        saved, refused = self.saved(True), self.saved(False)
        self.assertGreater(len(saved), self.AGENTS + self.PEOPLE)
        self.assertGreater(len(refused), 0)
        reasons = {answer.get('error', answer.get('conflict')) for _, _, _, answer in refused}
        self.assertEqual(reasons, {'stale_version'})
        self.judge_history(tx, saved)
        self.judge_brief(tx)
        self.judge_drafts(tx, refused)
        self.assertEqual(tx.execute('PRAGMA integrity_check').fetchall(), [('ok',)])
        self.assertEqual(rebuilt(tx, NOTE.id), contents(tx, NOTE.id))

    def judge_history(self, tx, saved):
        """Exactly the accepted edits, each as sent, under the version that was answered; and an event for each."""
        rows = tx.execute('SELECT version, actor, operation, tab_id, change FROM note_history WHERE note_id = ? '
                          "AND operation NOT LIKE 'create%'", (NOTE.id,))
        lines = {version: (*who_what, json.loads(change)) for version, *who_what, change in rows}
        parse = note_store.versioned.parse_stamp
        sent = {parse(answer['version']): (actor, arguments['operation'], arguments['tab_id'], self.content(arguments))
                for actor, _, arguments, answer in saved}
        self.assertEqual(len(sent), len(saved), 'two edits were answered with one version')
        self.assertEqual(lines, sent)
        sequence, events = 0, []
        while True:
            page = events_after(tx, NOTE, sequence, 100)
            events, sequence = events + page['events'], page['next_sequence']
            if not page['has_more']:
                break
        self.assertEqual([event['sequence'] for event in events], list(range(1, len(events) + 1)))
        updated = [parse(event['updated_at']) for event in events if event['type'] == 'updated']
        self.assertEqual(updated, sorted(lines))

    def content(self, arguments):
        content = {name: arguments[name] for name in ('text', 'start_row', 'start_col', 'values') if name in arguments}
        if 'slides' in arguments:
            content['slides'] = [{'title': slide['title'], 'text': ''} for slide in arguments['slides']]
        return content

    def judge_brief(self, tx):
        """Each saved Brief is the one before it with its writer's own line changed: nobody's words were lost."""
        before = {}
        for change, in tx.execute("SELECT change FROM note_history WHERE note_id = ? AND operation = 'replace_text' "
                                  'ORDER BY version', (NOTE.id,)):
            brief = json.loads(json.loads(change)['text'])
            changed = {name for name in {*before, *brief} if before.get(name) != brief.get(name)}
            self.assertEqual(len(changed), 1, (before, brief))
            before = brief

    def judge_drafts(self, tx, refused):
        for number in range(self.PEOPLE):
            actor = f'person:p{number}'
            kept = {draft['draft_id']: draft for draft in note_people.drafts(tx, actor, NOTE.id)}
            lost = {answer['draft_id']: arguments for who, _, arguments, answer in refused if who == actor}
            self.assertEqual(set(kept), set(lost))
            for draft_id, arguments in lost.items():
                content = self.content(arguments)
                self.assertEqual({name: kept[draft_id][name] for name in content}, content)


if __name__ == '__main__':
    unittest.main()
