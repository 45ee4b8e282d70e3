"""Somebody else's MCP server and authorization server, as strange as a test wants it. Not a test module.

    with Foreign() as foreign:
        foreign.metadata.update(issuer='https://other.example')
        foreign.paths['/.well-known/...'] = 404
"""
import base64
import hashlib
import http.server
import json
import threading
from urllib.parse import parse_qsl, urlencode, urlsplit


class Foreign:
    """Every request is kept in `seen` as (method, path, headers, form or JSON); answers follow the dicts below."""

    def __enter__(self):
        self.seen, self.codes, self.registrations = [], {}, 0
        self.httpd = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.httpd.foreign = self
        self.base = f'http://127.0.0.1:{self.httpd.server_port}'
        self.url = self.base + '/mcp'
        self.challenge = f'Bearer resource_metadata="{self.base}/meta", error="invalid_token"'
        self.resource = {'resource': self.url, 'authorization_servers': [self.base], 'scopes_supported': ['a', 'b']}
        self.metadata = {'issuer': self.base, 'authorization_endpoint': self.base + '/authorize',
                         'token_endpoint': self.base + '/token', 'registration_endpoint': self.base + '/register',
                         'code_challenge_methods_supported': ['S256'],
                         'token_endpoint_auth_methods_supported': ['none']}
        self.paths = {'/meta': self.resource, '/.well-known/oauth-authorization-server': self.metadata}
        self.callback, self.token_extra, self.secret = {}, {}, None
        self.good = lambda token: token is not None
        self.answer_call = lambda message: (200, {}, {'jsonrpc': '2.0', 'id': message['id'], 'result': {'content': []}})
        threading.Thread(target=self.httpd.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.httpd.shutdown()
        self.httpd.server_close()

    def requests(self, path):
        return [one for one in self.seen if urlsplit(one[1]).path == path]

    def answer(self, method, path, headers, sent):
        """(status, headers, body): a dict is sent as JSON."""
        at, query = urlsplit(path).path, dict(parse_qsl(urlsplit(path).query))
        if at == '/mcp':
            token = headers.get('authorization', '').partition('Bearer ')[2] or None
            if sent.get('method') == 'tools/call' and not self.good(token):
                return 401, {'WWW-Authenticate': self.challenge} if self.challenge else {}, {}
            return self.answer_call(sent)
        if at == '/authorize':
            code = f'code-{len(self.codes)}'
            self.codes[code] = query
            back = {'code': code, 'state': query['state'], **self.callback}
            back = {name: value for name, value in back.items() if value is not None}
            return 302, {'Location': query['redirect_uri'] + '?' + urlencode(back)}, {}
        if at == '/register':
            self.registrations += 1
            more = {'client_secret': self.secret} if self.secret else {}
            return 201, {}, {'client_id': f'client-{self.registrations}', **more, **sent}
        if at == '/token':
            return self.token(sent)
        found = self.paths.get(at, 404)
        return (found, {}, {}) if isinstance(found, int) else (200, {}, found)

    def token(self, form):
        if form.get('grant_type') == 'authorization_code':
            asked = self.codes[form['code']]
            digest = hashlib.sha256(form['code_verifier'].encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b'=').decode() != asked['code_challenge']:
                return 400, {}, {'error': 'invalid_grant'}
        return 200, {}, {'access_token': f'token-{len(self.seen)}', 'token_type': 'bearer', **self.token_extra}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_form = 'urlencoded' in headers.get('content-type', '')
        sent = dict(parse_qsl(body)) if is_form else json.loads(body or '{}')
        self.server.foreign.seen.append((self.command, self.path, headers, sent))
        status, more, answer = self.server.foreign.answer(self.command, self.path, headers, sent)
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {'Content-Type': 'application/json', **more}.items():
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_POST = do_GET

    def log_message(self, *_):
        pass
