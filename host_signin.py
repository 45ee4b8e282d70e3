"""host_signin.py - how an MCP host finds the sign-in behind a 401 and comes back with a token.

Article 7, "Dove lo manda il 401?" and "Cosa dice di sé il server di autorizzazione?":
the host's side of the same chain that oauth.py and signin.py serve. host.py makes the calls and turns
to this file when one is answered with 401 or with 403 insufficient_scope.

    from the 401's header to the resource metadata, from there to the authorization server's metadata,
    registration unless the host is known there, authorize in a browser (PKCE S256, state, resource,
    iss), the code for tokens, and later a refresh token for new ones

http.client only: urllib carries Authorization across hosts when it follows a redirect. Not here: the
calls themselves and event streams (host.py), the file the tokens are kept in (host.py), the server.
"""
import base64
import hashlib
import hmac
import html
import http.client
import http.server
import json
import re
import secrets
import sys
import threading
import webbrowser
from contextlib import contextmanager
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

# --- data ---------------------------------------------------------------------

TIMEOUT_S = 60                    # a send or a receive of one request
PERSON_TIMEOUT_S = 600            # the authorize leg waits for a person
REPLY_LIMIT_BYTES = 16 * 2 ** 20
CLIENT_NAME = 'osFoundry reference host'
CALLBACK = 'http://127.0.0.1/callback'      # the port is the listener's; a server must not compare it
RESOURCE_SUFFIX = '/.well-known/oauth-protected-resource'
LOOPBACK = ('127.0.0.1', '::1', 'localhost')
# The parameter by parameter form of RFC 9110: scheme names have no '=', everything else is theirs.
CHALLENGE_WORD = re.compile(r'([A-Za-z0-9._~+/-]+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]+))?')


class Reply(NamedTuple):
    status: int
    headers: Dict[str, str]       # lower-case names; a name sent twice is joined with ', '
    body: bytes


class Trip(NamedTuple):
    """One HTTP round trip, for the line that counts them."""
    method: str
    url: str
    status: int


class Event(NamedTuple):
    """One server-sent event."""
    id: Optional[str]
    retry_ms: Optional[int]
    data: str


class SignInError(Exception):
    """No token came of it. `code` is an OAuth error, or one of: discovery, resource, issuer, pkce, state, iss, http."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class Places(NamedTuple):
    """What discovery found: where to sign in, and for what."""
    resource: str                 # RFC 8707: named on both legs, so that the token is good for nothing else
    scopes: Optional[List[str]]   # the resource's scopes_supported
    server: Dict[str, Any]        # the authorization server's metadata


Visit = Callable[[str], str]      # an authorize URL to the callback URL that the browser was sent to
Door = Callable[[List[Trip]], ContextManager[Tuple[str, Visit]]]      # gives the redirect URI and the visit


# --- rules --------------------------------------------------------------------

def challenge(header: str) -> Dict[str, str]:
    """The Bearer parameters of a WWW-Authenticate header, among whatever other schemes it offers."""
    found: Dict[str, str] = {}
    scheme = ''
    for word, value in CHALLENGE_WORD.findall(header[:8192]):
        if not value:
            scheme = word.lower()
        elif scheme == 'bearer':
            plain = re.sub(r'\\(.)', r'\1', value[1:-1]) if value[:1] == '"' else value
            found.setdefault(word.lower(), plain)
    return found


def checked_address(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ('http', 'https') and parts.hostname and parts.port != 0
        usable = usable and parts.hostname.encode('idna') and (parts.path + parts.query).isascii()
    except ValueError:                                     # an open bracket, a port over 65535, a host such as a..b
        usable = False
    if not usable:
        raise SignInError('http', f'not an http address: {url[:200]!r}')
    return parts


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f'{parts.scheme}://{parts.netloc}'


def canonical(url: str) -> str:
    """Scheme and host do not care about case, and a lone slash is no path; everything else counts."""
    parts = checked_address(url)
    path = '' if parts.path == '/' else parts.path
    return f'{parts.scheme.lower()}://{parts.netloc.lower()}{path}' + (f'?{parts.query}' if parts.query else '')


def may_hold_secrets(url: str) -> bool:
    """Codes and tokens go over https, or stay on this machine."""
    try:
        parts = checked_address(url)
    except SignInError:
        return False
    return parts.scheme == 'https' or parts.hostname in LOOPBACK


def resource_metadata_urls(url: str, header: Dict[str, str]) -> List[str]:
    """RFC 9728: the 401's own word, else the suffix after the host with the path at the end, else the root.

    The suffix at the end of the path is the article's 'first mistake', and not tried."""
    if header.get('resource_metadata'):
        return [header['resource_metadata']]
    root = origin(url) + RESOURCE_SUFFIX
    path = urlsplit(url).path.rstrip('/')
    return [root + path, root] if path else [root]


def server_metadata_urls(issuer: str) -> List[str]:
    """RFC 8414 inserts the suffix before the path, OpenID Connect inserts or appends it."""
    root, path = origin(issuer), urlsplit(issuer).path.rstrip('/')
    urls = [f'{root}/.well-known/oauth-authorization-server{path}', f'{root}/.well-known/openid-configuration{path}']
    return urls + [f'{root}{path}/.well-known/openid-configuration'] if path else urls


def check_resource(metadata: Dict[str, Any], url: str, found_at: str) -> None:
    """A document about another resource would have our token minted for it (RFC 9728, 3.3).

    Only the document at the root may speak for the whole origin: that is the resource whose place the root is."""
    named, good = metadata.get('resource'), [canonical(url)]
    if found_at == origin(url) + RESOURCE_SUFFIX:
        good.append(canonical(origin(url)))
    if not isinstance(named, str) or canonical(named) not in good:
        raise SignInError('resource', f'the metadata is for {named!r}, not for {url}')


def check_server(metadata: Dict[str, Any], issuer: str) -> None:
    """The issuer is compared byte for byte (RFC 8414, 3.3), and a server without S256 is no server for us."""
    if metadata.get('issuer') != issuer:
        raise SignInError('issuer', f'asked {issuer} for its metadata and got those of {metadata.get("issuer")!r}')
    if 'S256' not in (metadata.get('code_challenge_methods_supported') or []):
        raise SignInError('pkce', f'{issuer} does not offer PKCE with S256')
    for name in ('authorization_endpoint', 'token_endpoint'):
        if not may_hold_secrets(str(metadata.get(name))):
            raise SignInError('discovery', f'{name} {metadata.get(name)!r} is no address over https or on this machine')


def scope_to_ask(header: Dict[str, str], scopes: Optional[List[str]]) -> Optional[str]:
    """The challenge knows what this call needs; else everything the resource offers; else leave it out."""
    return header.get('scope') or (' '.join(scopes) if scopes else None)


def union(*scopes: Optional[str]) -> Optional[str]:
    """Stepping up must not lose what was granted before."""
    words = [word for scope in scopes for word in (scope or '').split()]
    return ' '.join(dict.fromkeys(words)) or None


def auth_method(server: Dict[str, Any], client: Dict[str, Any]) -> str:
    """How to prove at the token endpoint who we are: as registered, if the server still offers it."""
    if not client.get('client_secret'):
        return 'none'
    offered = server.get('token_endpoint_auth_methods_supported') or ['client_secret_basic']
    registered = client.get('token_endpoint_auth_method')
    if registered in offered:
        return registered
    return next((method for method in ('client_secret_basic', 'client_secret_post') if method in offered), 'none')


def authorize_url(places: Places, client_id: str, redirect_uri: str, scope: Optional[str], state: str,
                  verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {'response_type': 'code', 'client_id': client_id, 'redirect_uri': redirect_uri, 'state': state,
             'code_challenge': base64.urlsafe_b64encode(digest).rstrip(b'=').decode(),
             'code_challenge_method': 'S256', 'resource': places.resource}
    if scope:
        query['scope'] = scope
    if 'offline_access' in (scope or '').split():
        query['prompt'] = 'consent'
    endpoint = places.server['authorization_endpoint']
    return endpoint + ('&' if urlsplit(endpoint).query else '?') + urlencode(query)


def read_callback(url: str, state: str, server: Dict[str, Any]) -> str:
    """The code, if the answer is to our question (state) and from the server we asked (iss, RFC 9207)."""
    answer = dict(parse_qsl(urlsplit(url).query))
    if not hmac.compare_digest(answer.get('state', '').encode(), state.encode()):
        raise SignInError('state', 'the browser came back with an answer to another sign-in')
    # advertised and there: compare. Advertised and missing: refuse. Not advertised: compare if it is there.
    promised = server.get('authorization_response_iss_parameter_supported') is True
    if ('iss' in answer or promised) and answer.get('iss') != server.get('issuer'):
        raise SignInError('iss', f'the answer is signed {answer.get("iss")!r}, not {server.get("issuer")!r}')
    if 'error' in answer or not answer.get('code'):
        raise SignInError(answer.get('error', 'invalid_request'), answer.get('error_description', 'no code came back'))
    return answer['code']


def token_request(server: Dict[str, Any], client: Dict[str, Any], form: Dict[str, str]) -> Tuple[Dict[str, str], bytes]:
    """Headers and body for the token endpoint."""
    headers = {'Content-Type': 'application/x-www-form-urlencoded', 'Accept': 'application/json'}
    method = auth_method(server, client)
    if method == 'client_secret_basic':
        pair = f'{quote(client["client_id"], safe="")}:{quote(client["client_secret"], safe="")}'
        headers['Authorization'] = 'Basic ' + base64.b64encode(pair.encode()).decode()
    else:
        form = dict(form, client_id=client['client_id'])
    if method == 'client_secret_post':
        form['client_secret'] = client['client_secret']
    return headers, urlencode(form).encode()


# --- I/O ----------------------------------------------------------------------

def fetch(method: str, url: str, headers: Dict[str, str], body: Optional[bytes] = None,
          trips: Optional[List[Trip]] = None, on_event: Optional[Callable[[Event], bool]] = None) -> Reply:
    """One round trip: no redirect, no proxy, no second try.

    An event stream is handed on event by event until `on_event` says that it has heard enough."""
    parts = checked_address(url)
    kind = http.client.HTTPSConnection if parts.scheme == 'https' else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
    try:
        target = (parts.path or '/') + (f'?{parts.query}' if parts.query else '')
        connection.request(method, target, body=body, headers=headers)
        response = connection.getresponse()
        reply = Reply(response.status, joined(response.getheaders()), b'')
        if trips is not None:
            trips.append(Trip(method, url, response.status))
        if on_event and reply.headers.get('content-type', '').startswith('text/event-stream'):
            for event in events(response):
                if on_event(event):
                    break
            return reply
        return reply._replace(body=response.read(REPLY_LIMIT_BYTES))
    except (OSError, http.client.HTTPException) as fault:
        raise SignInError('http', f'{method} {origin(url)}{parts.path}: {fault or type(fault).__name__}') from fault
    finally:
        connection.close()


def joined(headers: List[Tuple[str, str]]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        found[name] = f'{found[name]}, {value}' if name in found else value
    return found


def events(lines: Any) -> Iterator[Event]:
    """Server-sent events from a stream of lines; comments and unknown fields are passed over."""
    last_id, retry_ms, data, seen = None, None, [], False
    while True:
        raw = lines.readline(REPLY_LIMIT_BYTES)
        line = raw.decode('utf-8', 'replace').rstrip('\r\n')
        if not line:
            if seen:
                yield Event(last_id, retry_ms, '\n'.join(data))
            data, seen = [], False
            if not raw:
                return
            continue
        name, _, value = line.partition(':')
        value = value[1:] if value.startswith(' ') else value
        seen = seen or name in ('data', 'id', 'retry')
        if name == 'data':
            data.append(value)
        elif name == 'id':
            last_id = value
        elif name == 'retry' and re.fullmatch('[0-9]{1,7}', value):
            retry_ms = int(value)


def fetch_json(url: str, trips: List[Trip]) -> Optional[Dict[str, Any]]:
    """The document, or None on any 4xx: then the next place is asked."""
    reply = fetch('GET', url, {'Accept': 'application/json'}, None, trips)
    if 400 <= reply.status < 500:
        return None
    return json_object(reply, url)


def json_object(reply: Reply, url: str) -> Dict[str, Any]:
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SignInError('discovery', f'{url} answered {reply.status} without a JSON object')
    return found


def discover(url: str, header: Dict[str, str], trips: List[Trip]) -> Places:
    """From the address and the 401's header to where one signs in: two round trips when the header tells."""
    found_at, metadata = first_found(resource_metadata_urls(url, header), trips)
    if metadata is None:        # a server from before RFC 9728 (MCP 2025-03-26) is its own authorization server
        issuer = origin(url)
        return Places(url, None, first_found(server_metadata_urls(issuer)[:1], trips)[1] or default_server(issuer))
    check_resource(metadata, url, found_at)
    issuer = next(iter(metadata.get('authorization_servers') or []), None)
    if not isinstance(issuer, str) or not may_hold_secrets(issuer):
        raise SignInError('discovery', f'the resource names no usable authorization server: {issuer!r}')
    server = first_found(server_metadata_urls(issuer), trips)[1]
    if server is None:
        raise SignInError('discovery', f'{issuer} has no metadata')
    check_server(server, issuer)
    return Places(metadata['resource'], metadata.get('scopes_supported'), server)


def first_found(urls: List[str], trips: List[Trip]) -> Tuple[str, Optional[Dict[str, Any]]]:
    """The first document that is there, and where it was."""
    for url in urls:
        found = fetch_json(url, trips)
        if found is not None:
            return url, found
    return '', None


def default_server(issuer: str) -> Dict[str, Any]:
    """Where MCP 2025-03-26 puts the endpoints of a server that publishes no metadata."""
    return {'issuer': issuer, 'authorization_endpoint': issuer + '/authorize', 'token_endpoint': issuer + '/token',
            'registration_endpoint': issuer + '/register', 'code_challenge_methods_supported': ['S256']}


def register(server: Dict[str, Any], redirect_uri: str, scope: Optional[str], trips: List[Trip]) -> Dict[str, Any]:
    """RFC 7591. A public client if the server takes one: what is on this machine is no secret."""
    if not server.get('registration_endpoint'):
        raise SignInError('registration', f'{server["issuer"]} registers nobody, and we have no client there')
    offered = server.get('token_endpoint_auth_methods_supported') or ['client_secret_basic']
    methods = [method for method in ('none', 'client_secret_post', 'client_secret_basic') if method in offered]
    wish = {'client_name': CLIENT_NAME, 'redirect_uris': [redirect_uri], 'response_types': ['code'],
            'grant_types': ['authorization_code', 'refresh_token'], 'application_type': 'native',
            'token_endpoint_auth_method': methods[0] if methods else 'none'}
    if scope:
        wish['scope'] = scope
    url = server['registration_endpoint']
    reply = fetch('POST', url, {'Content-Type': 'application/json', 'Accept': 'application/json'},
                  json.dumps(wish).encode(), trips)
    client = json_object(reply, url)
    if reply.status not in (200, 201) or not isinstance(client.get('client_id'), str):
        raise SignInError(str(client.get('error', 'registration')), f'registration was answered {reply.status}')
    return client


def ask_for_tokens(server: Dict[str, Any], client: Dict[str, Any], form: Dict[str, str],
                   trips: List[Trip]) -> Dict[str, Any]:
    headers, body = token_request(server, client, form)
    reply = fetch('POST', server['token_endpoint'], headers, body, trips)
    answer = json_object(reply, server['token_endpoint'])
    if reply.status != 200 or not isinstance(answer.get('access_token'), str):
        raise SignInError(str(answer.get('error', 'http')), str(answer.get('error_description', reply.status)))
    if str(answer.get('token_type', '')).lower() != 'bearer':
        raise SignInError('discovery', f'the token is of type {answer.get("token_type")!r}, not bearer')
    return answer


def authorize(places: Places, client: Dict[str, Any], redirect_uri: str, visit: Visit, scope: Optional[str],
              trips: List[Trip]) -> Dict[str, Any]:
    """Through the browser for a code, and the code for tokens: {access_token, refresh_token?, scope?, expires_in?}."""
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    url = authorize_url(places, client['client_id'], redirect_uri, scope, state, verifier)
    code = read_callback(visit(url), state, places.server)
    form = {'grant_type': 'authorization_code', 'code': code, 'redirect_uri': redirect_uri,
            'code_verifier': verifier, 'resource': places.resource}
    return ask_for_tokens(places.server, client, form, trips)


@contextmanager
def directly(trips: List[Trip]) -> Iterator[Tuple[str, Visit]]:
    """The door for an authorize page that approves itself: one request, whose redirect is the callback."""
    def visit(url: str) -> str:
        reply = fetch('GET', url, {'Accept': 'text/html'}, None, trips)
        target = reply.headers.get('location', '')
        if reply.status not in (302, 303) or not target.startswith(CALLBACK):
            raise SignInError('http', f'authorize answered {reply.status} and did not come back to {CALLBACK}')
        return target
    yield CALLBACK, visit


def in_browser(open_it: bool = True, say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)) -> Door:
    """The door for a person: a loopback listener takes the callback; the link is printed in any case."""
    @contextmanager
    def door(trips: List[Trip]) -> Iterator[Tuple[str, Visit]]:
        arrived = threading.Event()
        listener = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Callback)
        listener.arrived, listener.callback, listener.state = arrived, '', None
        threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()

        def visit(url: str) -> str:
            listener.state = dict(parse_qsl(urlsplit(url).query))['state']
            say(f'Sign in here:\n\n    {url}\n')
            if open_it and urlsplit(url).scheme in ('http', 'https'):
                webbrowser.open(url)
            if not arrived.wait(PERSON_TIMEOUT_S):
                raise SignInError('http', f'nobody came back within {PERSON_TIMEOUT_S} s')
            return listener.callback
        try:
            yield f'http://127.0.0.1:{listener.server_port}/callback', visit
        finally:
            listener.shutdown()
            listener.server_close()
    return door


class Callback(http.server.BaseHTTPRequestHandler):
    """Takes the one request that the browser is redirected to, and no other page's."""
    timeout = 10

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        answer = dict(parse_qsl(url.query))
        if url.path != '/callback' or self.server.state is None or answer.get('state') != self.server.state:
            self.send_error(404)
            return
        failed = answer.get('error')
        text = f'Not connected: {failed}.' if failed else 'Connected. You can close this window.'
        page = f'<!doctype html><meta charset="utf-8"><title>Sign-in</title><p>{html.escape(text)}</p>'.encode()
        self.send_response(200)
        self.send_header('Content-Type', 'text/html; charset=utf-8')
        self.send_header('Content-Length', str(len(page)))
        self.send_header('Referrer-Policy', 'no-referrer')
        self.end_headers()
        self.wfile.write(page)
        self.server.callback = self.path
        self.server.arrived.set()

    def log_message(self, *_) -> None:
        """The request line holds the code."""
