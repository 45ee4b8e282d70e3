"""Article 7: codes for tokens, refresh with rotation, reuse and grace, revocation; what is stored, and what is not."""
import contextlib
import glob
import io
import os
import sqlite3
import threading
import unittest

from tests.signin_world import REVOKE, TOKEN, Browser, Client, World

import oauth
import oauth_tokens
import versioned


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.addClassCleanup(cls.world.close)

    def setUp(self):
        self.world.offset_s = 0.0
        self.browser, self.client = Browser(self.world), Client(self.world)

    def code(self, **changed):
        return self.browser.decide(self.client, **changed).answer['code']

    def refused(self, reply, error, status=400):
        self.assertEqual((reply.status, reply.json['error']), (status, error), reply.text)
        self.assertIn('no-store', reply['cache-control'])


class Codes(Tokens):
    def test_a_code_becomes_a_token_of_one_hour_that_says_what_was_granted(self):
        reply = self.client.redeem(self.code())
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply['cache-control'], 'no-store')
        found = reply.json
        self.assertEqual(sorted(found), ['access_token', 'expires_in', 'refresh_token', 'scope', 'token_type'])
        self.assertEqual((found['token_type'], found['expires_in'], found['scope']),
                         ('Bearer', 3600, 'osfoundry:read osfoundry:write'))
        self.assertIs(type(found['expires_in']), int)
        self.assertEqual(self.world.outcome(found['access_token']), 'ok')

    def test_a_token_dies_after_its_hour(self):
        token = self.client.redeem(self.code()).json['access_token']
        self.world.offset_s = 3599
        self.assertEqual(self.world.outcome(token), 'ok')
        self.world.offset_s = 3601
        self.assertEqual(self.world.outcome(token), 401)

    def test_a_code_is_good_for_sixty_seconds(self):
        early, late = self.code(), self.code()
        self.world.offset_s = 59
        self.assertEqual(self.client.redeem(early).status, 200)
        self.world.offset_s = 61
        self.refused(self.client.redeem(late), 'invalid_grant')

    def test_a_code_is_bound_to_client_redirect_verifier_and_resource_and_a_wrong_try_takes_nothing(self):
        code, other = self.code(), Client(self.world)
        for changed, error in (({'client_id': other.client_id}, 'invalid_grant'), ({'redirect_uri': None}, 'invalid_grant'),
                               ({'redirect_uri': 'http://127.0.0.1:5556/callback'}, 'invalid_grant'),
                               ({'code_verifier': other.verifier}, 'invalid_grant'), ({'code_verifier': None}, 'invalid_request'),
                               ({'resource': 'https://elsewhere.example/'}, 'invalid_target'),
                               ({'code': code[:-1]}, 'invalid_grant'), ({'code': None}, 'invalid_request')):
            with self.subTest(changed=changed):
                self.refused(self.client.redeem(code, **changed), error)
        self.assertEqual(self.client.redeem(code, resource=self.world.running.url).status, 200)

    def test_of_sixteen_redemptions_at_one_instant_one_succeeds(self):
        """everruns/everruns#2427"""
        code, barrier, replies = self.code(), threading.Barrier(16), []

        def redeem():
            barrier.wait()
            replies.append(self.client.redeem(code).status)
        threads = [threading.Thread(target=redeem) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(replies), [200] + [400] * 15)

    def test_a_second_use_revokes_what_the_first_one_got(self):
        code = self.code()
        first = self.client.redeem(code).json
        self.refused(self.client.redeem(code), 'invalid_grant')
        self.assertEqual(self.world.outcome(first['access_token']), 401)
        self.refused(self.client.refresh(first['refresh_token']), 'invalid_grant')

    def test_a_second_use_with_a_wrong_verifier_revokes_nothing(self):
        code = self.code()
        first = self.client.redeem(code).json
        self.refused(self.client.redeem(code, code_verifier='x' * 43), 'invalid_grant')
        self.refused(self.client.redeem(code, client_id=Client(self.world).client_id), 'invalid_grant')
        self.assertEqual(self.world.outcome(first['access_token']), 'ok')

    def test_a_second_use_after_the_codes_minute_still_revokes(self):
        code = self.code()
        first = self.client.redeem(code).json
        self.world.offset_s = 120
        self.refused(self.client.redeem(code), 'invalid_grant')
        self.assertEqual(self.world.outcome(first['access_token']), 401)

    def test_a_code_of_a_connection_revoked_meanwhile_is_worth_nothing(self):
        code = self.code()
        self.world.click('revoke', connection=self.world.click('list_connections')['connections'][0]['connection'])
        self.refused(self.client.redeem(code), 'invalid_grant')


class Endpoint(Tokens):
    def test_unknown_clients_get_401_and_wrong_requests_400(self):
        good = {'grant_type': 'refresh_token', 'client_id': self.client.client_id, 'refresh_token': 'x'}
        for changed, error, status in (({'client_id': 'client-unknown'}, 'invalid_client', 401),
                                       ({'client_id': ''}, 'invalid_client', 401),
                                       ({'grant_type': 'password'}, 'unsupported_grant_type', 400),
                                       ({'grant_type': ''}, 'invalid_request', 400),
                                       ({'refresh_token': ''}, 'invalid_request', 400), ({}, 'invalid_grant', 400)):
            with self.subTest(changed=changed):
                self.refused(self.world.form(TOKEN, {**good, **changed}), error, status)

    def test_it_takes_a_form_only_and_every_field_once(self):
        self.refused(self.world.post_json(TOKEN, {'grant_type': 'refresh_token'}), 'invalid_request')
        self.refused(self.world.form(TOKEN, 'grant_type=refresh_token&grant_type=refresh_token'), 'invalid_request')
        self.refused(self.world.form(TOKEN, 'a=1&' * 100), 'invalid_request')
        self.refused(self.world.form(TOKEN, 'code=' + 'x' * 70_000), 'invalid_request')
        self.refused(self.world.form(TOKEN, b'grant_type=refresh_token&client_id=%ff%00\xff'), 'invalid_client', 401)
        self.assertEqual(self.world.http('GET', TOKEN).status, 405)

    def test_a_storage_failure_is_503_and_never_invalid_grant(self):
        old = versioned.BUSY_TIMEOUT_S
        self.addCleanup(setattr, versioned, 'BUSY_TIMEOUT_S', old)
        versioned.BUSY_TIMEOUT_S = 0.05
        world = World()
        self.addCleanup(world.close)
        client = Client(world)
        tokens = client.sign_in(Browser(world))
        other = sqlite3.connect(os.path.join(world.running.config.data, 'state.db'), isolation_level=None)
        self.addCleanup(other.close)
        other.execute('BEGIN IMMEDIATE')
        reply = client.refresh(tokens['refresh_token'])
        self.refused(reply, 'temporarily_unavailable', 503)
        other.execute('ROLLBACK')
        self.assertEqual(client.refresh(tokens['refresh_token']).status, 200)

    def test_a_token_in_the_query_string_is_no_token(self):
        token = self.client.sign_in(self.browser)['access_token']
        message = {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call',
                   'params': {'name': 'list_granted_resources', 'arguments': {}}}
        self.assertEqual(self.world.post_json(f'{oauth.ENDPOINT}?access_token={token}', message).status, 401)
        self.assertEqual(self.world.outcome(token), 'ok')


class Refresh(Tokens):
    def setUp(self):
        super().setUp()
        self.tokens = self.client.sign_in(self.browser)

    def test_it_rotates_and_both_access_tokens_live(self):
        reply = self.client.refresh(self.tokens['refresh_token'], resource=self.world.running.url)
        self.assertEqual(reply.status, 200)
        self.assertNotEqual(reply.json['refresh_token'], self.tokens['refresh_token'])
        self.assertEqual(reply.json['scope'], self.tokens['scope'])
        self.assertEqual(self.world.outcome(reply.json['access_token']), 'ok')
        self.assertEqual(self.world.outcome(self.tokens['access_token']), 'ok')

    def test_within_the_grace_a_retired_one_gets_an_access_token_and_nothing_else(self):
        """anthropics/claude-code#91641: many processes share one token"""
        old = self.tokens['refresh_token']
        new = self.client.refresh(old).json
        self.world.offset_s = oauth_tokens.GRACE_S - 1
        again = self.client.refresh(old)
        self.assertEqual(again.status, 200)
        self.assertNotIn('refresh_token', again.json)
        self.assertEqual(self.world.outcome(again.json['access_token']), 'ok')
        self.assertEqual(self.client.refresh(new['refresh_token']).status, 200)

    def test_after_the_grace_a_retired_one_revokes_the_family(self):
        old = self.tokens['refresh_token']
        new = self.client.refresh(old).json
        self.world.offset_s = oauth_tokens.GRACE_S + 1
        self.refused(self.client.refresh(old), 'invalid_grant')
        self.refused(self.client.refresh(new['refresh_token']), 'invalid_grant')
        self.assertEqual(self.world.outcome(new['access_token']), 401)
        self.assertEqual(self.world.outcome(self.tokens['access_token']), 401)

    def test_both_sides_of_the_window_to_the_microsecond(self):
        self.assertTrue(oauth_tokens.in_grace(5, 5 + 10_000_000))
        self.assertFalse(oauth_tokens.in_grace(5, 5 + 10_000_001))

    def test_another_sign_in_of_the_same_client_is_another_family(self):
        other = self.client.sign_in(self.browser)
        self.client.refresh(self.tokens['refresh_token'])
        self.world.offset_s = oauth_tokens.GRACE_S + 1
        self.client.refresh(self.tokens['refresh_token'])
        self.assertEqual(self.world.outcome(other['access_token']), 'ok')

    def test_another_client_can_neither_use_it_nor_revoke_it(self):
        other = Client(self.world)
        self.refused(other.refresh(self.tokens['refresh_token']), 'invalid_grant')
        self.world.form(REVOKE, {'client_id': other.client_id, 'token': self.tokens['refresh_token']})
        self.assertEqual(self.client.refresh(self.tokens['refresh_token']).status, 200)

    def test_less_scope_may_be_asked_and_more_may_not(self):
        less = self.client.refresh(self.tokens['refresh_token'], scope='osfoundry:read').json
        self.assertEqual(less['scope'], 'osfoundry:read')
        note = {'note_id': 'n', 'tab_id': 't', 'operation': 'replace_text', 'text': 'x',
                'expected_version': '2026-11-08T09:30:00.000042Z', 'idempotency_key': 'k' * 8}
        self.assertEqual(self.world.outcome(less['access_token'], 'edit_note_tab', note), 403)
        self.refused(self.client.refresh(less['refresh_token'], scope='osfoundry:run'), 'invalid_scope')
        self.assertEqual(self.client.refresh(less['refresh_token']).json['scope'], self.tokens['scope'])

    def test_it_dies_after_thirty_days_without_use(self):
        self.world.offset_s = oauth_tokens.REFRESH_TTL_S + 1
        self.refused(self.client.refresh(self.tokens['refresh_token']), 'invalid_grant')

    def test_the_owners_revocation_ends_refreshing_while_live_tokens_are_refused_by_name(self):
        connection = self.world.click('list_connections')['connections'][0]['connection']
        self.world.click('revoke', connection=connection)
        self.refused(self.client.refresh(self.tokens['refresh_token']), 'invalid_grant')
        self.assertEqual(self.world.outcome(self.tokens['access_token']), 'connection_revoked')

    def test_eight_clients_at_work_are_refused_on_the_very_next_call_after_the_revocation(self):
        tokens = [self.client.sign_in(self.browser)['access_token']]
        connection = self.world.click('list_connections')['connections'][0]['connection']
        tokens += [self.client.sign_in(self.browser, connection=connection)['access_token'] for _ in range(7)]
        revoked, working = threading.Event(), threading.Barrier(9)
        outcomes = [[] for _ in tokens]

        def work(number):
            working.wait()
            while True:
                answered = revoked.is_set()        # read before the call: whatever starts after the answer is refused
                outcomes[number].append((answered, self.world.outcome(tokens[number])))
                if answered:
                    return
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        working.wait()
        self.world.click('revoke', connection=connection)
        revoked.set()
        for thread in threads:
            thread.join()
        self.assertEqual([one[-1] for one in outcomes], [(True, 'connection_revoked')] * 8)

    def test_a_client_may_revoke_its_own_tokens_of_either_kind(self):
        for name in ('access_token', 'refresh_token'):
            tokens = self.client.sign_in(self.browser)
            reply = self.world.form(REVOKE, {'client_id': self.client.client_id, 'token': tokens[name]})
            self.assertEqual(reply.status, 200)
            self.assertEqual(self.world.outcome(tokens['access_token']), 401)
            self.refused(self.client.refresh(tokens['refresh_token']), 'invalid_grant')
        unknown = self.world.form(REVOKE, {'client_id': self.client.client_id, 'token': 'never-issued'})
        self.assertEqual(unknown.status, 200)
        self.refused(self.world.form(REVOKE, {'client_id': 'nobody', 'token': 'x'}), 'invalid_client', 401)


class AtRest(unittest.TestCase):
    def test_no_secret_that_was_issued_lies_in_the_database_its_log_or_what_the_server_printed(self):
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
            world = World()
            self.addCleanup(world.close)
            browser, client = Browser(world), Client(world)
            code = browser.decide(client).answer['code']
            tokens = client.redeem(code).json
            more = client.refresh(tokens['refresh_token']).json
            world.outcome(tokens['access_token'])
            client.redeem('wrong')
            client.redeem(code)                                         # the second use, with its revocation
        secrets = [code, client.verifier, tokens['access_token'], tokens['refresh_token'], more['access_token'],
                   more['refresh_token'], world.owner_token, browser.link.split('/')[-1], *browser.cookies.values()]
        self.assertEqual(len(set(secrets)), 10)
        stored = b''
        for path in glob.glob(os.path.join(world.running.config.data, 'state.db*')):
            with open(path, 'rb') as file:
                stored += file.read()
        self.assertIn(client.client_id.encode(), stored)                # so we do look where things are
        for secret in secrets:
            self.assertNotIn(secret.encode(), stored)
            self.assertNotIn(secret, printed.getvalue())

    def test_a_code_and_a_token_have_256_random_bits(self):
        world = World()
        self.addCleanup(world.close)
        client = Client(world)
        code = Browser(world).decide(client).answer['code']
        for secret in (code, *(client.redeem(code).json[name] for name in ('access_token',))):
            self.assertEqual(len(secret), 43)                           # base64url of 32 bytes

    def test_what_has_expired_is_pruned(self):
        world = World()
        self.addCleanup(world.close)
        client, browser = Client(world), Browser(world)
        client.sign_in(browser)
        world.offset_s = oauth_tokens.REFRESH_TTL_S + oauth_tokens.KEPT_S
        client.sign_in(Browser(world))
        for table, left in (('oauth_codes', 1), ('oauth_refresh', 1), ('oauth_access', 1), ('access_tokens', 1)):
            self.assertEqual(world.rows(f'SELECT count(*) FROM {table}'), [(left,)], table)


if __name__ == '__main__':
    unittest.main()
