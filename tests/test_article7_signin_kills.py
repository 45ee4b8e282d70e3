"""Article 7: the server is killed (SIGKILL) while clients sign in and refresh. Real processes, one state folder.

No token is issued twice, and no session is lost but the one whose answer was under way.
"""
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from tests.signin_world import TOP
from tests.wire_world import lasting_port

import host
import host_signin
import oauth
import oauth_tokens
from host_signin import SignInError

CLIENTS, REFRESHES = 3, 2


class Session:
    """One client at work: signs in, refreshes, begins again; and says what it was waiting for when the line went dead."""

    def __init__(self, url):
        self.host = host.Host(url, host_signin.directly, client={'client_id': oauth.DEMO_CLIENT})
        self.answered, self.under_way = 0, None

    def run(self, tick):
        try:
            while True:
                self.under_way = 'sign-in'
                self.host.sign_in({})
                tick()
                for _ in range(REFRESHES):
                    self.under_way = 'refresh'
                    if not self.host.refresh(self.host.access_token):
                        raise AssertionError('a refresh was refused while nobody had used the token')
                    tick()
        except (SignInError, host.HostError) as fault:
            if getattr(fault, 'code', 'http') != 'http':
                raise


class Kills(unittest.TestCase):
    KILLS = 5

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='signin-kill-')
        self.addCleanup(shutil.rmtree, self.folder)
        self.port = str(lasting_port())
        self.process = None
        self.addCleanup(self.kill)

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(TOP, 'server.py'), '--port', self.port, '--data', os.path.join(self.folder, 'data'),
             '--demo', '--self-consent'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith('endpoint'):
                url = line.split()[1]
            if line.startswith('stop'):
                break
        return url

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def trial(self, rng):
        """Clients work until the server dies after a random number of answers; then it is started again."""
        url, enough, lock = self.start(), threading.Event(), threading.Lock()
        left = [rng.randrange(1, 25)]

        def tick():
            with lock:
                left[0] -= 1
                if left[0] <= 0:
                    enough.set()
        sessions = [Session(url) for _ in range(CLIENTS)]
        failures = []

        def work(session):
            try:
                session.run(tick)
            except Exception as fault:
                failures.append(fault)
                enough.set()
        threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
        for thread in threads:
            thread.start()
        self.assertTrue(enough.wait(120), 'the clients stopped before the kill')
        threading.Event().wait(rng.random() * 0.01)          # anywhere within the next answers, not right after one
        self.kill()
        self.killed_at = time.monotonic()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.start()
        return sessions

    def check(self, sessions):
        """Every session goes on. The one whose refresh was under way does within the grace, and may be lost after it."""
        for session in sessions:
            late = time.monotonic() - self.killed_at > oauth_tokens.GRACE_S - 1      # a busy machine starts slowly
            if not session.host.access_token or (late and session.under_way == 'refresh'):
                continue                                     # it was in its first sign-in, or in flight for too long
            self.assertIsNone(session.host.call_once('list_granted_resources', {}).refused)
            self.assertTrue(session.host.refresh(session.host.access_token), 'a session was lost')
            self.assertIsNone(session.host.call_once('list_granted_resources', {}).refused)

    def check_tables(self):
        db = sqlite3.connect(os.path.join(self.folder, 'data', 'state.db'))
        try:
            self.assertEqual(db.execute('PRAGMA integrity_check').fetchall(), [('ok',)])
            # A family begins with one code, used once, and has at most one refresh token that is not retired.
            twice = db.execute('SELECT family, count(*) FROM oauth_refresh WHERE retired_us IS NULL '
                               'GROUP BY family HAVING count(*) > 1').fetchall()
            orphans = db.execute('SELECT count(*) FROM oauth_refresh WHERE family NOT IN '
                                 '(SELECT family FROM oauth_codes WHERE used = 1)').fetchone()
            # Used, and nothing issued: half an exchange.
            half = db.execute('SELECT count(*) FROM oauth_codes WHERE used = 1 AND family NOT IN '
                              '(SELECT family FROM oauth_access)').fetchone()
            # Every refresh token that is retired has its successor: one more refresh token than rotations.
            uneven = db.execute('SELECT family FROM oauth_refresh GROUP BY family '
                                'HAVING sum(retired_us IS NULL) <> 1').fetchall()
            unknown = db.execute('SELECT count(*) FROM oauth_access WHERE digest NOT IN '
                                 '(SELECT digest FROM access_tokens)').fetchone()
            self.assertEqual((twice, orphans, half, uneven, unknown), ([], (0,), (0,), [], (0,)))
        finally:
            db.close()

    def test_a_server_killed_during_sign_in_and_refresh_issues_nothing_twice_and_loses_no_session(self):
        rng = random.Random(7)
        for _ in range(self.KILLS):
            sessions = self.trial(rng)
            self.check(sessions)
            self.kill()
            self.check_tables()


if __name__ == '__main__':
    unittest.main()
