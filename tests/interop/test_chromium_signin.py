"""A person in Chromium: the one-time link, the consent page, and what of it reaches the agent's own listener."""
import http.server
import threading
import unittest

from tests.interop.browser import ENTER, Chromium
from tests.signin_world import Client, World

import host
import host_signin
import owner


class Listener:
    """The agent's loopback callback: keeps the headers of whatever reaches it, on any path."""

    def __init__(self):
        self.seen = []
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                keeper.seen.append((self.path, dict(self.headers)))
                page = b'<!doctype html><title>callback</title><p>back at the agent</p>'
                self.send_response(200)
                self.send_header('Content-Type', 'text/html')
                self.send_header('Content-Length', str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.base = f'http://127.0.0.1:{self.server.server_port}'
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Consent(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.chromium = Chromium(script=False)             # everything works without JavaScript
        cls.addClassCleanup(cls.chromium.close)

    def setUp(self):
        self.world, self.listener = World(), Listener()
        self.addCleanup(self.world.close)
        self.addCleanup(self.listener.close)
        self.redirect = self.listener.base + '/callback'
        self.client = Client(self.world, client_name='Claude', redirect_uris=[self.redirect])
        self.home = self.chromium.enter(self.world)

    def open_consent(self):
        path = self.client.authorize_path(redirect_uri=self.redirect)
        self.chromium.open(self.world.base_url + path)
        return self.chromium

    def connections(self):
        return self.world.click('list_connections')['connections']

    def test_a_person_connects_by_clicks(self):
        page = self.open_consent()
        self.assertIn('Connect an agent', page.text)
        page.click('input[name=approve]')
        page.press('Connect', 'back at the agent')
        self.assertEqual([one['status'] for one in self.connections()], ['active'])
        code = self.listener.seen[0][0].split('code=')[1].split('&')[0]
        self.assertEqual(self.client.redeem(code, redirect_uri=self.redirect).status, 200)

    def test_a_person_connects_by_keyboard_alone(self):
        page = self.open_consent()
        page.type('input[name=approve]', ' ', clear=False)
        page.type('button[value=connect]', ENTER, clear=False)
        page.until('back at the agent')

    def test_without_the_tick_the_browser_does_not_send_and_cancel_needs_none(self):
        page = self.open_consent()
        page.press('Connect')
        self.assertIn('Connect an agent', page.text)
        page.press('Cancel', 'back at the agent')
        self.assertIn('error=access_denied', self.listener.seen[0][0])
        self.assertEqual(self.connections(), [])

    def test_no_cookie_of_ours_reaches_the_agents_listener(self):
        """security.md 1: cookies ignore ports. With Path=/ both of them arrived here."""
        page = self.open_consent()
        page.click('input[name=approve]')
        page.press('Connect', 'back at the agent')
        for path in ('/', '/callback/', '/o/', '/owner/decide', '/api/v1/external-mcp'):
            page.open(self.listener.base + path)
        self.assertGreaterEqual(len(self.listener.seen), 6)
        for path, headers in self.listener.seen:
            self.assertNotIn('osfoundry', headers.get('Cookie', ''), path)
            self.assertNotIn(self.world.base_url, headers.get('Referer', ''), path)
        page.open(self.home)                              # and they are still good at home
        self.assertNotIn('Sign in', page.text)
        self.assertEqual(page.cookies()[owner.PAGE_COOKIE]['sameSite'], 'Strict')
        self.assertTrue(page.cookies()[owner.PAGE_COOKIE]['httpOnly'])

    def test_the_pages_complain_about_nothing(self):
        page = self.open_consent()
        page.open(self.home)
        self.assertEqual([line for line in page.log() if 'favicon' not in line], [])


class WithScript(unittest.TestCase):
    """What a hostile page could try needs a script of its own."""

    def setUp(self):
        self.chromium = Chromium()
        self.addCleanup(self.chromium.close)
        self.world, self.listener = World(), Listener()
        self.addCleanup(self.world.close)
        self.addCleanup(self.listener.close)
        self.redirect = self.listener.base + '/callback'
        self.client = Client(self.world, redirect_uris=[self.redirect])
        self.chromium.enter(self.world)

    def consent(self):
        return self.chromium.open(self.world.base_url + self.client.authorize_path(redirect_uri=self.redirect))

    def send(self, page, change=''):
        page.run('const f = document.forms[0]; f.approve.checked = true; ' + change +
                 'f.requestSubmit(f.querySelector("button[value=connect]"));')
        page.wait_for('return document.readyState === "complete" && !document.forms.length')

    def test_a_replayed_and_a_forged_form_are_refused(self):
        page = self.consent()
        kept = page.run('return [document.forms[0].nonce.value, document.forms[0].form_token.value]')
        self.send(page)
        page.until('back at the agent')
        again = 'f.nonce.value = %r; f.form_token.value = %r;' % tuple(kept)
        self.send(self.consent(), again)                  # the same request to the byte: only its second use is refused
        page.until('Nothing was connected')
        self.send(self.consent(), 'f.form_token.value = "0".repeat(64);')
        page.until('Nothing was connected')
        self.assertEqual(len(self.world.click('list_connections')['connections']), 1)

    def test_another_origin_can_neither_frame_nor_post_nor_read_it(self):
        self.consent()
        place = self.chromium.url
        self.chromium.open(self.listener.base + '/evil')
        self.chromium.run('const i = document.createElement("iframe"); i.src = arguments[0]; document.body.append(i);', place)
        framed = self.chromium.command('/execute/async', {'script': """
            const done = arguments[arguments.length - 1], i = document.querySelector('iframe');
            const ask = () => { try { done(i.contentDocument ? 'readable' : 'blocked'); } catch (e) { done('blocked'); } };
            i.contentDocument && i.contentDocument.readyState !== 'complete' ? i.onload = ask : setTimeout(ask, 500);
        """, 'args': []})
        self.assertEqual(framed, 'blocked')
        self.chromium.run('const f = document.createElement("form"); f.method = "post"; f.action = arguments[0];'
                          'document.body.append(f); f.submit();', place)
        self.chromium.wait_for('return document.readyState === "complete" && location.pathname !== "/evil"')
        self.chromium.until('origin_denied')
        self.assertEqual(self.world.click('list_connections')['connections'], [])


class WholeWay(unittest.TestCase):
    def test_the_host_signs_in_through_the_browser_and_its_own_listener(self):
        chromium, world = Chromium(), World()
        self.addCleanup(chromium.close)
        self.addCleanup(world.close)
        chromium.enter(world)
        links, told = [], threading.Event()

        def say(line):
            links.append(line.split()[-1])
            told.set()
        one, answers = host.Host(world.running.url, host_signin.in_browser(open_it=False, say=say)), []
        thread = threading.Thread(target=lambda: answers.append(one.call('list_granted_resources', {})))
        thread.start()
        self.assertTrue(told.wait(60))
        chromium.open(links[0]).click('input[name=approve]')
        chromium.press('Connect', 'Connected. You can close this window.')
        thread.join()
        self.assertIsNone(answers[0].refused)


if __name__ == '__main__':
    unittest.main()
