"""Chromium, driven as a person would use it: pages, links, buttons, fields. Not a test module.

WebDriver is HTTP and JSON, so nothing needs to be installed but chromium and its driver (Debian).
"""
import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import owner

ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
PATIENCE_S = 60
ENTER, TAB = '\ue007', '\ue004'


def need_chromium():
    for program in ('chromium', 'chromedriver'):
        if not os.environ.get('JUDGES'):
            raise unittest.SkipTest('JUDGES is not set: .ci/run interop installs the judges and sets it')
        if not shutil.which(program):
            raise unittest.SkipTest(f'{program} (Debian) is not installed')


class Gone(Exception):
    """What was looked for is not on the page, or the driver refused."""


class Chromium:
    def __init__(self, width=1100, height=900, dark=False, script=True):
        need_chromium()
        self.home = tempfile.mkdtemp(prefix='chromium-')
        self.driver = subprocess.Popen(['chromedriver', '--port=0'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True, env={'PATH': os.environ['PATH'], 'HOME': self.home})
        for line in self.driver.stdout:
            found = re.search(r'started successfully on port (\d+)', line)
            if found:
                break
        self.port, self.session = int(found.group(1)), None
        options = ['--headless=new', '--no-sandbox', '--disable-gpu', f'--user-data-dir={self.home}/profile',
                   f'--window-size={width},{height}', '--force-color-profile=srgb', '--hide-scrollbars']
        if dark:
            options.append('--force-dark-mode')
        preferences = {} if script else {'profile.managed_default_content_settings.javascript': 2}
        started = self.send('POST', '/session', {'capabilities': {'alwaysMatch': {
            'goog:chromeOptions': {'args': options, 'prefs': preferences}, 'goog:loggingPrefs': {'browser': 'ALL'}}}})
        self.session = started['sessionId']
        if width < 500:                                    # a window is not that narrow; a phone is
            self.command('/goog/cdp/execute', {'cmd': 'Emulation.setDeviceMetricsOverride', 'params': {
                'width': width, 'height': height, 'deviceScaleFactor': 2, 'mobile': True}})
        if dark:
            self.command('/goog/cdp/execute', {'cmd': 'Emulation.setEmulatedMedia', 'params': {
                'features': [{'name': 'prefers-color-scheme', 'value': 'dark'}]}})

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=120)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body),
                               headers={'Content-Type': 'application/json'})
            value = json.loads(connection.getresponse().read())['value']
        finally:
            connection.close()
        if isinstance(value, dict) and 'error' in value:
            raise Gone(f'{path}: {value["error"]}: {value.get("message", "")[:300]}')
        return value

    def command(self, path, body=None, method='POST'):
        return self.send(method, f'/session/{self.session}{path}', {} if body is None and method == 'POST' else body)

    def close(self):
        try:
            if self.session:
                self.command('', None, 'DELETE')
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.home, ignore_errors=True)

    def open(self, url):
        self.command('/url', {'url': url})
        return self

    def enter(self, world, person='owner'):
        """Signs a person in by a one-time link; the address of his home page."""
        with world.state.db.write() as tx:
            link = owner.make_link(tx, person, world.state.now_us())
        self.open(world.base_url + link).press('Open', 'Connected agents')
        return self.url

    def back(self):
        self.command('/back')

    @property
    def url(self):
        return self.command('/url', method='GET')

    def find(self, css):
        return self.command('/element', {'using': 'css selector', 'value': css})[ELEMENT]

    def find_all(self, css):
        return [one[ELEMENT] for one in self.command('/elements', {'using': 'css selector', 'value': css})]

    def named(self, words, tags=('button', 'a', 'summary', 'label')):
        """The element a person would point at by these words."""
        path = ' | '.join(f'//{tag}[normalize-space(.)={quoted(words)}]' for tag in tags)
        return self.command('/element', {'using': 'xpath', 'value': path})[ELEMENT]

    def press(self, words, then=None):
        """A click; with `then` the text of what comes of it, once it holds these words.

        A click may answer before the old page has gone: whoever looks, or goes elsewhere, without waiting for the new
        one reads the old words again, or breaks off what was sent.
        """
        element, page = self.named(words), self.find('html')
        goes = self.command(f'/element/{element}/name', method='GET') in ('a', 'button')
        self.command(f'/element/{element}/click')
        if then is None:
            return None
        if goes:
            self.patiently(lambda: not self.is_there(page), f'a new page after {words!r}')
        return self.until(then)

    def click(self, css):
        self.command(f'/element/{self.find(css)}/click')

    def type(self, css, words, clear=True):
        element = self.find(css)
        if clear:
            self.command(f'/element/{element}/clear')
        self.command(f'/element/{element}/value', {'text': words})

    def keys(self, words):
        """Typed at whatever has the focus."""
        element = self.command('/element/active', method='GET')[ELEMENT]
        self.command(f'/element/{element}/value', {'text': words})

    @property
    def text(self):
        return self.command(f'/element/{self.find("body")}/text', method='GET')

    def is_there(self, element):
        try:
            self.command(f'/element/{element}/name', method='GET')
        except Gone:
            return False
        return True

    def patiently(self, look, what):
        """The first true value of look(), which is asked anew each time: between two pages there is none."""
        give_up, trouble = time.monotonic() + PATIENCE_S, None
        while time.monotonic() < give_up:
            try:
                found = look()
                if found:
                    return found
            except Gone as gone:
                trouble = gone
            time.sleep(0.02)
        raise Gone(f'{what} did not come: {self.url} {self.text[:500]!r}; last refusal {trouble}')

    def until(self, words):
        """The page's text, once it holds these words."""
        def look():
            text = self.text
            return words in text and text
        return self.patiently(look, repr(words))

    def run(self, script, *arguments):
        return self.command('/execute/sync', {'script': script, 'args': list(arguments)})

    def wait_for(self, script, *arguments):
        """The script's value, once it is true. A script that waits in the page by itself ends with that page."""
        return self.patiently(lambda: self.run(script, *arguments), script)

    def cookies(self):
        return {one['name']: one for one in self.command('/cookie', method='GET')}

    def log(self):
        """What the page complained about in the console."""
        return [one['message'] for one in self.command('/se/log', {'type': 'browser'}) if one['level'] == 'SEVERE']

    def picture(self, path):
        """The whole page as a PNG."""
        size = self.command('/goog/cdp/execute', {'cmd': 'Page.getLayoutMetrics', 'params': {}})['cssContentSize']
        shot = self.command('/goog/cdp/execute', {'cmd': 'Page.captureScreenshot', 'params': {
            'captureBeyondViewport': True, 'clip': {'x': 0, 'y': 0, 'width': size['width'], 'height': size['height'], 'scale': 1}}})
        with open(path, 'wb') as file:
            file.write(base64.b64decode(shot['data']))


def quoted(words):
    """A string of XPath: it has no escapes, so one with both quotes is put together."""
    if "'" not in words:
        return f"'{words}'"
    return 'concat(' + ', "\'", '.join(f"'{part}'" for part in words.split("'")) + ')'
