"""server.py as people start it: first lines, flags that are refused, a private DATA folder, signals, two on one folder."""
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from contextlib import redirect_stderr
from io import StringIO
from unittest import mock

from tests import access_world
from tests.wire_world import READ_A, TOP, Process, Talk, message, raw, rpc

import access
import server
from versioned import Refusal


def bare(folder):
    repo = os.path.join(folder, 'site.git')
    subprocess.run(['git', 'init', '-q', '--bare', repo], check=True)
    return repo


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='wire-')
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = os.path.join(self.folder, 'data')

    def process(self, *flags, **how):
        process = Process(self.data, *flags, **how)
        self.addCleanup(self.reap, process.child)
        return process

    def refused(self, *flags):
        """What server.main says where it may not start: a line, and 1."""
        log = StringIO()
        with redirect_stderr(log), mock.patch('server.announce', side_effect=AssertionError('it started')):
            self.assertEqual(server.main(['--port', '0', '--data', self.data, *flags]), 1)
        self.assertEqual(log.getvalue().count('\n'), 1)
        return log.getvalue()

    def call(self, talk, token, name, arguments):
        answer = talk.ask(rpc(message('tools/call', {'name': name, 'arguments': arguments}), token=token))
        return json.loads(answer.json['result']['content'][0]['text'])

    def reap(self, child):
        if child.poll() is None:
            child.kill()
        child.communicate()


class Starting(WithFolder):
    def test_it_says_where_it_is_and_what_to_type(self):
        process = self.process()
        self.assertIn(f'endpoint  http://127.0.0.1:{process.port}/api/v1/external-mcp', process.lines)
        self.assertIn(f'add it    claude mcp add --transport http osfoundry {process.url}', process.lines)
        with Talk(process.port) as talk:
            self.assertEqual(talk.ask(rpc(message('ping'))).json['result'], {})

    def test_int_and_term_end_it_with_0_and_without_a_word(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                process = self.process()
                with Talk(process.port) as idle, Talk(process.port) as half:
                    self.assertEqual(idle.ask(rpc(message('ping'))).status, 200)
                    half.send(b'POST / HT')
                    self.assertEqual(process.end(number), (0, ''))
                    self.assertTrue(idle.is_closed())

    def test_with_demo_the_first_line_says_weakened_and_without_it_no_line_does(self):
        self.assertTrue(self.process('--demo', '--self-consent').lines[0].startswith('WEAKENED'))
        for flags in ((), ('--demo',)):
            self.assertNotIn('WEAKENED', '\n'.join(self.process(*flags).lines))

    def test_flags_that_are_wrong_or_too_weak_for_the_place_are_a_usage_error(self):
        for flags in (['--self-consent'], ['--check', 'token_only'], ['--mode', 'naive'], ['--inject-crash'], ['--bogus'],
                      ['--demo', '--host', '0.0.0.0'], ['--demo', '--base-url', 'https://connector.example'], ['--port', '70000'],
                      ['--demo', '--check', 'per_call'], ['--base-url', 'ftp://x'], ['--base-url', 'https://x/y'], ['--ttl', '0'],
                      ['--base-url', 'http://['], ['--base-url', 'http://x:99999'], ['--git', 'other'], ['--de'], ['--port', 'x'], ['extra']):
            with self.subTest(flags=flags), redirect_stderr(StringIO()), self.assertRaises(SystemExit) as ended:
                server.parse_flags(flags)
            self.assertEqual(ended.exception.code, 2)

    def test_with_few_descriptors_the_longest_idle_connections_make_room_and_nothing_is_said(self):
        few = 180
        process = self.process(descriptors=few)
        talks = [Talk(process.port) for _ in range(few)]
        for talk in talks[-20:]:
            self.assertEqual(talk.ask(rpc(message('ping'))).status, 200)
        self.assertTrue(talks[0].is_closed())
        for talk in talks:
            talk.sock.close()
        self.assertEqual(process.end(signal.SIGTERM), (0, ''))

    def test_a_taken_port_is_one_line_and_1(self):
        first = self.process()
        self.refused('--port', str(first.port), '--data', os.path.join(self.folder, 'other'))

    def test_advertised_addresses_are_the_configured_ones(self):
        process = self.process('--base-url', 'https://connector.example')
        with Talk(process.port) as talk:
            answer = talk.ask(raw('GET', '/.well-known/oauth-protected-resource', host='connector.example'))
            self.assertEqual(answer.json['resource'], 'https://connector.example/api/v1/external-mcp')
            self.assertEqual(talk.ask(rpc(message('ping'), host='connector.example:443')).status, 200)
            for host in (f'connector.example:{process.port}', 'connector.example:80', 'other.example'):
                self.assertEqual(talk.ask(rpc(message('ping'), host=host)).status, 421)

    def test_nobody_need_read_what_it_says_a_closed_or_broken_standard_output_stops_no_server(self):
        for redirected in ('>&-', ''):
            with self.subTest(redirected=redirected):
                child = subprocess.Popen(['sh', '-c', f'exec "$0" server.py --port 0 --data "$1" {redirected}', sys.executable,
                                          self.data], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.addCleanup(child.kill)
                child.stdout.close()
                child.stdout = None
                while not os.path.exists(os.path.join(self.data, 'owner-link')):      # written just before it says so
                    self.assertIsNone(child.poll())
                    time.sleep(0.05)
                time.sleep(0.2)
                child.send_signal(signal.SIGTERM)
                self.assertEqual((child.communicate()[1], child.returncode), (b'', 0))
                os.remove(os.path.join(self.data, 'owner-link'))

    def test_at_the_terminal_ctrl_d_and_an_empty_line_are_a_no(self):
        repo = bare(self.folder)
        for answer in (b'\x04', b'n\n', b'\n'):
            with self.subTest(answer=answer):
                terminal, theirs = pty.openpty()
                child = subprocess.Popen([sys.executable, 'server.py', '--port', '0', '--data', self.data, '--repo', repo],
                                         cwd=TOP, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.addCleanup(self.reap, child)
                while not child.stderr.readline().startswith(b'forge'):
                    pass
                os.write(terminal, answer)
                self.assertNotIn(b'Traceback', child.communicate()[1])
                self.assertEqual(child.returncode, 1)
                os.close(terminal)
                os.close(theirs)
                self.assertFalse(os.path.exists(os.path.join(repo, 'osfoundry')))

    def test_with_a_closed_standard_input_nobody_is_asked_and_that_is_a_no(self):
        done = subprocess.run(['sh', '-c', 'exec "$0" server.py --port 0 --data "$1" --repo "$2" <&-', sys.executable, self.data,
                               bare(self.folder)], cwd=TOP, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count('\n')), (1, 1), done.stderr)
        self.assertIn('start the server once in a terminal', done.stderr)

    def test_a_folder_that_is_no_repository_is_one_line_and_1_and_nobody_is_asked(self):
        self.assertEqual(self.refused('--repo', self.folder), f'server.py: {self.folder} is no bare git repository\n')

    def test_two_repositories_of_one_name_are_one_line_and_1_and_naming_one_twice_is_no_matter(self):
        os.makedirs(os.path.join(self.data, 'repos'))
        os.chmod(self.data, 0o700)
        ours = bare(os.path.join(self.data, 'repos'))
        self.assertIn(f'{ours} is served as', self.refused('--demo', '--self-consent', '--repo', bare(self.folder)))
        self.process('--demo', '--self-consent', '--repo', ours)

    def test_a_start_that_fails_leaves_nothing_open(self):
        os.mkdir(self.data, 0o700)
        os.symlink('elsewhere', os.path.join(self.data, 'owner-token'))
        before = threading.active_count()
        self.refused()
        self.assertEqual(threading.active_count(), before)

    def test_without_git_it_says_so(self):
        repo = bare(self.folder)
        with mock.patch.dict(os.environ, PATH=self.folder):
            self.assertIn('git cannot be started', self.refused('--demo', '--self-consent', '--repo', repo))


class Data(WithFolder):
    def test_the_folder_is_made_for_us_alone(self):
        process = self.process()
        self.assertEqual(os.stat(self.data).st_mode & 0o777, 0o700)
        self.assertEqual(process.end(signal.SIGTERM), (0, ''))
        for name in os.listdir(self.data):
            self.assertEqual(os.stat(os.path.join(self.data, name)).st_mode & 0o077, 0, name)

    def test_a_folder_that_others_may_enter_a_link_and_a_file_are_refused(self):
        os.mkdir(self.data, 0o755)
        os.chmod(self.data, 0o755)
        link, plain = os.path.join(self.folder, 'link'), os.path.join(self.folder, 'file')
        private = os.path.join(self.folder, 'private')
        os.mkdir(private, 0o700)
        os.symlink(private, link)
        with open(plain, 'w'):
            pass
        for path in (self.data, link, plain):
            with self.subTest(path=path), self.assertRaises((Refusal, OSError)):
                server.private_folder(path)
        server.private_folder(private)


class Articles(WithFolder):
    def test_a_folder_of_articles_is_served_and_read_again_at_the_next_start(self):
        pages = os.path.join(self.folder, 'handbook')
        os.mkdir(pages)
        for words in ('30 days', '14 days'):
            with open(os.path.join(pages, 'refunds.md'), 'w') as file:
                file.write(f'# Refund policy\n\n{words}\n')
            process = self.process('--kb', pages)
            token = self.token()
            with Talk(process.port) as talk:
                found = self.call(talk, token, 'search_knowledge_base', {'knowledge_base_id': 'kb', 'query': 'refund'})
                self.assertEqual([hit['title'] for hit in found['results']], ['Refund policy'])
                article = self.call(talk, token, 'read_knowledge_article', {'knowledge_base_id': 'kb', 'article_id': 'refunds.md'})
                self.assertIn(words, article['content'])
            status, errors = process.end(signal.SIGTERM)
            self.assertEqual((status, errors.count('\n'), errors[:4]), (0, 1, 'kb: '))

    def test_a_folder_that_is_none_is_one_line_and_1(self):
        self.refused('--kb', os.path.join(self.folder, 'none'))

    def token(self):
        """Of a connection in the project that the folder lies in."""
        database = server.Database(os.path.join(self.data, 'state.db'), server.SCHEMAS)
        with database.write() as tx:
            home = tx.execute("SELECT workspace FROM places WHERE kind = 'project' AND id = 'kb'").fetchone()[0]
            connection = access.add_assistant(tx, home, server.owner.OWNER[0], 'claude', 'Claude research', 1)
            access.attach(tx, connection, home, server.owner.OWNER[0])
            access.add_to_project(tx, connection, 'kb')
            token = access.issue_access_token(tx, connection, access.SCOPES, server.tools.time.time_ns() // 1000, 3600)
        database.close()
        return token


class Ending(WithFolder):
    def test_what_was_answered_before_the_signal_stands_in_recent_activity(self):
        process = self.process()
        database = server.Database(os.path.join(self.data, 'state.db'), server.SCHEMAS)
        self.addCleanup(database.close)
        with database.write() as tx:
            access_world.build_workspace(tx)
            connection = access_world.connect(tx)
            token = access.issue_access_token(tx, connection, access.SCOPES, server.tools.time.time_ns() // 1000, 3600)
        with Talk(process.port) as talk:
            for _ in range(3):
                self.call(talk, token, 'list_granted_resources', {})
            process.child.send_signal(signal.SIGTERM)
        self.assertEqual(process.end(), (0, ''))
        with database.read() as tx:
            self.assertEqual(tx.execute('SELECT count(*) FROM activity WHERE connection = ?', (connection,)).fetchone(), (3,))


class TwoOnOneFolder(WithFolder):
    def test_both_start_at_one_instant_on_an_empty_folder_and_each_sees_what_the_other_did(self):
        first, second = self.both()
        database = server.Database(os.path.join(self.data, 'state.db'), server.SCHEMAS)
        with database.write() as tx:
            access_world.build_workspace(tx)
            connection = access_world.connect(tx)
            access.add_to_project(tx, connection, 'project-a')
            token = access.issue_access_token(tx, connection, access.SCOPES, server.tools.time.time_ns() // 1000, 3600)
        with Talk(first.port) as one, Talk(second.port) as two:
            version = self.call(one, token, *READ_A)['citation']['updated_at']
            edit = {**READ_A[1], 'content': 'new', 'expected_version': version, 'idempotency_key': 'key-00000001'}
            saved = self.call(one, token, 'edit_knowledge_article', edit)
            replayed = self.call(two, token, 'edit_knowledge_article', edit)
            self.assertEqual((replayed.pop('replayed'), replayed), (True, saved))
            stale = self.call(two, token, 'edit_knowledge_article', {**edit, 'content': 'other', 'idempotency_key': 'key-00000002'})
            self.assertEqual(stale['error'], 'stale_version')
            with database.write() as tx:
                access.revoke(tx, connection)
            for talk in (one, two):
                self.assertEqual(self.call(talk, token, *READ_A)['error'], 'connection_revoked')
        database.close()
        for process in (first, second):
            self.assertEqual(process.end(signal.SIGTERM), (0, ''))

    def both(self):
        found = [None, None]

        def begin(place):
            found[place] = self.process()
        threads = [threading.Thread(target=begin, args=(place,)) for place in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


if __name__ == '__main__':
    unittest.main()
