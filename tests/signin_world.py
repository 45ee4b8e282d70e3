"""A real server, a person's browser and a client, for the tests of sign-in.

Not a test module. The browser keeps cookies as browsers do (by host and path, whatever the port) and follows nothing
by itself; the client is the HTTP that an assistant would send.
"""
import base64
import hashlib
import html
import http.client
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)

import host
import oauth
import owner
import server

REDIRECT = 'http://127.0.0.1:5555/callback'
AUTHORIZE, TOKEN, REGISTER, REVOKE = (oauth.ISSUED_UNDER + name for name in ('authorize', 'token', 'register', 'revoke'))


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __getitem__(self, name):
        return dict((key.lower(), value) for key, value in self.headers).get(name)

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def answer(self):
        """The parameters that a redirect carries back to the client."""
        return dict(parse_qsl(urlsplit(self['location']).query, keep_blank_values=True))


class World:
    """A server in this process, with an empty workspace unless told otherwise."""

    def __init__(self, **flags):
        self.folder = tempfile.mkdtemp(prefix='signin-')
        self.offset_s = 0.0
        self.open(**flags)

    def open(self, **flags):
        self.flags = flags
        self.running = server.start(server.Config(port=0, data=os.path.join(self.folder, 'data'), **flags))
        self.state, self.base_url = self.running.state, self.running.config.base_url
        real = self.state.now_us
        self.state.now_us = lambda: real() + int(self.offset_s * 1_000_000)
        with open(os.path.join(self.running.config.data, owner.TOKEN_FILE), encoding='ascii') as file:
            self.owner_token = file.read().strip()

    def close(self):
        server.stop(self.running)
        shutil.rmtree(self.folder)

    def http(self, method, path, headers=None, body=None):
        at = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Reply(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def form(self, path, fields, headers=None):
        body = fields if isinstance(fields, (str, bytes)) else urlencode(fields)
        return self.http('POST', path, {'Content-Type': 'application/x-www-form-urlencoded', **(headers or {})}, body)

    def post_json(self, path, body, headers=None):
        return self.http('POST', path, {'Content-Type': 'application/json', **(headers or {})}, json.dumps(body))

    def click(self, verb, **arguments):
        """The scripted owner's click; its answer."""
        status, answer = host.owner_click(self.base_url, self.owner_token, verb, arguments)
        assert status == 200, answer
        return answer

    def rows(self, sql, *values):
        with self.state.db.read() as tx:
            return tx.execute(sql, values).fetchall()

    def call(self, bearer, name='list_granted_resources', arguments=None):
        message = {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {'name': name, 'arguments': arguments or {}}}
        return self.post_json(oauth.ENDPOINT, message, {'Authorization': f'Bearer {bearer}'} if bearer else {})

    def outcome(self, bearer, name='list_granted_resources', arguments=None):
        """'ok', an HTTP status that is not 200, or the code of the tool's refusal."""
        reply = self.call(bearer, name, arguments)
        if reply.status != 200:
            return reply.status
        result = reply.json['result']
        return json.loads(result['content'][0]['text'])['error'] if result['isError'] else 'ok'


class Browser:
    """A person who came with the one-time link."""

    def __init__(self, world, person='owner', entered=True):
        self.world, self.cookies = world, {}
        if entered:
            with world.state.db.write() as tx:
                self.link = owner.make_link(tx, person, world.state.now_us())
            self.home = self.post(self.link, {})['location']

    def headers(self, path):
        sent = [f'{name}={value}' for (name, at), value in self.cookies.items()
                if path == at or path.startswith(at if at.endswith('/') else at + '/')]
        return {'Cookie': '; '.join(sent)} if sent else {}

    def keep(self, reply):
        for name, value in reply.headers:
            if name.lower() == 'set-cookie':
                pair, path = value.split(';')[0], re.search(r'; Path=([^;]+)', value).group(1)
                self.cookies[pair.split('=')[0], path] = pair.split('=', 1)[1]
        return reply

    def get(self, path):
        return self.keep(self.world.http('GET', path, self.headers(urlsplit(path).path)))

    def post(self, path, fields, more=None):
        more = dict(self.headers(urlsplit(path).path), Origin=self.world.base_url, **(more or {}))
        return self.keep(self.world.form(path, fields, more))

    def open_consent(self, client, **changed):
        """The consent page of a request: its address and its hidden fields."""
        at = self.get(client.authorize_path(**changed))['location']
        page = self.get(at)
        return at, dict(hidden_fields(page.text)), page

    def decide(self, client, decision='connect', connection='new', workspace='workspace', approve='yes', **changed):
        at, fields, _ = self.open_consent(client, **changed)
        fields.update(decision=decision, connection=connection, workspace=workspace, approve=approve)
        return self.post(at, fields)

    @contextmanager
    def door(self, trips, connection='new'):
        """host.py's way through this browser: the person approves whatever is asked."""
        def visit(url):
            at = self.get(url[len(self.world.base_url):])['location']
            fields = dict(hidden_fields(self.get(at).text), decision='connect', connection=connection,
                          workspace='workspace', approve='yes')
            return self.post(at, fields)['location']
        yield REDIRECT, visit


class Client:
    """A registered client and one sign-in's secrets."""

    def __init__(self, world, **metadata):
        self.world = world
        metadata = {'client_name': 'Claude', 'redirect_uris': [REDIRECT], **metadata}
        self.registered = world.post_json(REGISTER, metadata).json
        self.client_id = self.registered['client_id']
        self.verifier = secrets.token_urlsafe(48)

    def request(self, **changed):
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b'=').decode()
        asked = {'response_type': 'code', 'client_id': self.client_id, 'redirect_uri': REDIRECT, 'state': 's-1',
                 'code_challenge': challenge, 'code_challenge_method': 'S256',
                 'scope': 'osfoundry:read osfoundry:write', 'resource': self.world.running.url, **changed}
        return {name: value for name, value in asked.items() if value is not None}

    def authorize_path(self, **changed):
        return f'{AUTHORIZE}?{urlencode(self.request(**changed))}'

    def redeem(self, code, /, **changed):
        form = {'grant_type': 'authorization_code', 'client_id': self.client_id, 'code': code,
                'redirect_uri': REDIRECT, 'code_verifier': self.verifier, **changed}
        return self.world.form(TOKEN, {name: value for name, value in form.items() if value is not None})

    def refresh(self, token, **changed):
        return self.world.form(TOKEN, {'grant_type': 'refresh_token', 'client_id': self.client_id,
                                       'refresh_token': token, **changed})

    def sign_in(self, browser, **decision):
        """All of it; the token endpoint's answer."""
        code = browser.decide(self, **decision).answer['code']
        reply = self.redeem(code)
        assert reply.status == 200, reply.text
        return reply.json


def hidden_fields(page):
    return [(name, html.unescape(value))
            for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page)]
