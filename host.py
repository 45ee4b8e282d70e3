"""host.py - an MCP host: one address in, tool answers out.

Article 7, "La ricostruzione": client.py plays the host. It starts without a token, calls a tool, gets
the 401, follows resource_metadata, signs in, and calls again. host_signin.py holds that way; here are the
calls, the answers (JSON or an event stream), the 403 that asks for more scope, and the kept tokens.

    host = Host(url, host_signin.directly)     an authorize page that approves itself
    host.call('list_granted_resources', {}).result

Not here: the runs (client.py), asking the person before a write (runs_signin.py), the server's side.
"""
import fcntl
import itertools
import json
import os
import tempfile
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import host_eras
import host_signin
from host_signin import Door, Event, Reply, SignInError, Trip

# --- data ---------------------------------------------------------------------

PROTOCOL = '2025-11-25'
CLIENT_INFO = {'name': 'osfoundry-reference-host', 'version': '0.1.0'}
SIGN_INS = 3              # a request: a server that is never content must not send a person round for ever
RESUMES = 5               # a stream cut before its answer is taken up again this often
RETRY_MS = 1_000          # between them, unless the server names its own


class HostError(Exception):
    """The server's answer was no answer. `status` is the HTTP status, `error` the JSON-RPC error if there was one."""

    def __init__(self, status: int, message: str, error: Optional[dict] = None):
        super().__init__(message)
        self.status, self.error = status, error


class Answer(NamedTuple):
    """One answered request: the HTTP status, the challenge of a 401 or 403, and the JSON-RPC message."""
    status: int
    challenge: Dict[str, str]
    message: Dict[str, Any]

    @property
    def result(self) -> Dict[str, Any]:
        if 'result' not in self.message:
            error = self.message.get('error')
            doubt = '; is the path right?' if self.status in (404, 405) else ''
            raise HostError(self.status, f'HTTP {self.status}: {error or "no result"}{doubt}', error)
        return self.message['result']

    @property
    def refused(self) -> Optional[str]:
        """The code of a refusal, be it a tool result or the protocol's; None when the call was allowed."""
        if self.status in (401, 403):
            return self.challenge.get('error', 'unauthorized')
        if not self.result.get('isError'):
            return None
        said = tool_answer(self.result)
        return said.get('error', 'error') if isinstance(said, dict) else 'error'

    @property
    def wants_scope(self) -> bool:
        return self.status == 403 and self.challenge.get('error') == 'insufficient_scope'


Grant = Dict[str, Any]    # what the tokens file keeps an address: client, server, resource, tokens


# --- rules --------------------------------------------------------------------

def tool_answer(result: Dict[str, Any]) -> Any:
    """What the tool said: structuredContent, else the JSON in its first text block, else that text."""
    if 'structuredContent' in result:
        return result['structuredContent']
    text = next((block.get('text', '') for block in result.get('content', []) if block.get('type') == 'text'), '')
    try:
        return json.loads(text)
    except ValueError:
        return {'error': text} if result.get('isError') else text


def answers(message: Dict[str, Any], request_id: Any) -> bool:
    return 'method' not in message and message.get('id') == request_id


# --- I/O ----------------------------------------------------------------------

class Host:
    """One address, and what it takes to call it. One thread at a time; processes may share the tokens file."""

    def __init__(self, url: str, door: Optional[Door] = None, tokens: Optional[str] = None,
                 client: Optional[Dict[str, Any]] = None, scope: Optional[str] = None,
                 document: Optional[str] = None):
        self.url, self.door, self.tokens, self.scope = url, door, tokens, scope
        self.document = document                   # an address that describes this client, for servers that read it
        self.grant: Grant = read_grants(tokens).get(url, {}) if tokens else {}
        if client:
            self.grant['client'] = client          # registered beforehand
        self.trips: List[Trip] = []
        self.headers: Dict[str, str] = {}          # what initialize settled: version and session
        self.version: Optional[str] = None         # of the stateless era, once `meet` has found the server in it
        self.capabilities: Dict[str, Any] = {}
        self.schemas: Dict[str, dict] = {}         # of the tools listed in that era: some arguments go into headers
        self.ids = itertools.count(1)
        self.serve: Dict[str, Callable[[dict], dict]] = {'ping': lambda params: {}}    # what the server may ask us

    @property
    def access_token(self) -> Optional[str]:
        return self.grant.get('tokens', {}).get('access_token')

    def initialize(self, capabilities: Optional[dict] = None) -> Dict[str, Any]:
        params = {'protocolVersion': PROTOCOL, 'capabilities': capabilities or {}, 'clientInfo': CLIENT_INFO}
        result = self.request('initialize', params).result
        if not isinstance(result, dict) or not isinstance(result.get('protocolVersion'), str):
            raise HostError(200, f'{self.url} answered initialize without a protocolVersion; is the path right?')
        self.headers['MCP-Protocol-Version'] = result['protocolVersion']
        self.post({'jsonrpc': '2.0', 'method': 'notifications/initialized'})
        return result

    def meet(self, capabilities: Optional[dict] = None) -> Dict[str, Any]:
        """Who the server is, in whichever era it speaks: a stateless request first, a handshake after any refusal of
        it. Raises HostError when the server says in the stateless era's own words that a handshake would not help."""
        self.capabilities, self.version = capabilities or {}, host_eras.MODERN[0]
        for _ in range(2):                             # the second time in a version that the server named
            result, error = self.discover()
            version = host_eras.shared_version(result)
            if version is not None:
                self.version = version
                return host_eras.introduction(result, version)
            offered = host_eras.offered_version(error)
            if offered is None:
                break
            self.version = offered
        if host_eras.is_modern_only(error):
            raise HostError(400, f'no protocol in common: {error}', error)
        self.version = None
        return self.initialize(capabilities)

    def discover(self) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """(result, error) of a stateless request; both empty when what came back was no JSON-RPC."""
        try:
            message = self.request('server/discover', {}).message
        except HostError:
            return {}, {}
        result, error = message.get('result'), message.get('error')
        return result if isinstance(result, dict) else {}, error if isinstance(error, dict) else {}

    def list_tools(self) -> List[Dict[str, Any]]:
        """Every page. Of the stateless era without the tools whose schema asks wrongly for a header."""
        tools, params = [], {}
        while True:
            page = self.request('tools/list', params).result
            if not isinstance(page, dict) or not isinstance(page.get('tools'), list):
                raise HostError(200, f'{self.url} answered tools/list without tools')
            tools += page['tools']
            if not page.get('nextCursor'):
                break
            params = {'cursor': page['nextCursor']}
        if self.version is not None:
            tools = [tool for tool in tools if host_eras.fault(tool.get('inputSchema')) is None]
            self.schemas = {tool['name']: tool['inputSchema'] for tool in tools}
        return tools

    def call(self, name: str, arguments: Dict[str, Any]) -> Answer:
        """Call a tool; sign in or step up when the server asks for it and there is a door."""
        params = {'name': name, 'arguments': arguments}
        answer = self.request('tools/call', params)
        error = answer.message.get('error')
        if self.version is not None and isinstance(error, dict) and error.get('code') == host_eras.HEADER_MISMATCH:
            self.list_tools()                          # the schema may ask for another header by now
            answer = self.request('tools/call', params)
        return answer

    def call_once(self, name: str, arguments: Dict[str, Any]) -> Answer:
        """Call a tool with the token as it is and take whatever comes back, also a 401 or 403."""
        return self.send('tools/call', {'name': name, 'arguments': arguments})

    def request(self, method: str, params: Dict[str, Any]) -> Answer:
        """Like `send`; a 401 is answered with a refresh, then a sign-in, a missing scope with a sign-in for more."""
        used = self.access_token
        answer = self.send(method, params)
        if answer.status == 401 and used and self.refresh(used):
            answer = self.send(method, params)
        for _ in range(SIGN_INS if self.door else 0):
            if answer.status != 401 and not answer.wants_scope:
                break
            self.sign_in(answer.challenge)
            answer = self.send(method, params)
        return answer

    def send(self, method: str, params: Dict[str, Any]) -> Answer:
        """One request and its answer; what a stateless server wants to know in between is answered by `serve`."""
        answer, more = self.send_once(method, params), {}
        for _ in range(host_eras.ROUNDS):
            result = answer.message.get('result')
            kind = result.get('resultType', 'complete') if isinstance(result, dict) else 'complete'
            if self.version is None or kind == 'complete':
                return answer
            if kind != 'input_required':
                raise HostError(answer.status, f'a result of the unknown type {kind!r}')
            asked = result.get('inputRequests') or {}
            more = {'inputResponses': {key: self.input_for(request) for key, request in asked.items()}} if asked else {}
            if 'requestState' in result:               # opaque: back as it came, and only in this retry
                more['requestState'] = result['requestState']
            answer = self.send_once(method, {**params, **more})
        raise HostError(answer.status, f'the server wanted more input {host_eras.ROUNDS} times')

    def input_for(self, request: Dict[str, Any]) -> Dict[str, Any]:
        answer = self.answer_server({'id': 0, **request})
        if 'error' in answer:
            raise HostError(200, f'the server wants {request.get("method")!r}, which this host does not do')
        return answer['result']

    def send_once(self, method: str, params: Dict[str, Any]) -> Answer:
        """One JSON-RPC request, one answer."""
        if self.version is not None:
            params = host_eras.with_meta(params, self.version, self.capabilities, CLIENT_INFO)
        request_id = next(self.ids)
        heard: Dict[str, Any] = {'message': None, 'last_id': None, 'retry_ms': RETRY_MS}
        listener = self.listen_for(request_id, heard)
        reply = self.post({'jsonrpc': '2.0', 'id': request_id, 'method': method, 'params': params}, listener)
        for _ in range(RESUMES):
            if heard['message'] is not None or heard['last_id'] is None:
                break
            time.sleep(heard['retry_ms'] / 1000)       # the server's own wish, not a guess of ours
            self.resume(heard['last_id'], listener)
        if 'mcp-session-id' in reply.headers and method == 'initialize':
            self.headers['Mcp-Session-Id'] = reply.headers['mcp-session-id']
        message = heard['message'] if heard['message'] is not None else read_message(reply)
        return Answer(reply.status, host_signin.challenge(reply.headers.get('www-authenticate', '')), message)

    def stand_by(self) -> None:
        """Hear what the server says of its own accord, until it closes; for a thread of its own. Ours says 405."""
        heard: Dict[str, Any] = {'message': None, 'last_id': None, 'retry_ms': RETRY_MS}
        self.resume(None, self.listen_for(None, heard))

    def post(self, message: Dict[str, Any], on_event: Optional[Callable[[Event], bool]] = None) -> Reply:
        headers = {'Content-Type': 'application/json', 'Accept': 'application/json, text/event-stream'}
        headers.update(self.headers, **self.bearer())
        if self.version is not None and 'method' in message:
            schema = self.schemas.get(message.get('params', {}).get('name'))
            headers.update(host_eras.headers(message, self.version, schema))
        return host_signin.fetch('POST', self.url, headers, json.dumps(message).encode(), self.trips, on_event)

    def resume(self, last_id: Optional[str], on_event: Callable[[Event], bool]) -> None:
        headers = dict(self.headers, Accept='text/event-stream', **self.bearer())
        if last_id is not None:
            headers['Last-Event-ID'] = last_id
        host_signin.fetch('GET', self.url, headers, None, self.trips, on_event)

    def bearer(self) -> Dict[str, str]:
        return {'Authorization': f'Bearer {self.access_token}'} if self.access_token else {}

    def listen_for(self, request_id: Optional[int], heard: Dict[str, Any]) -> Callable[[Event], bool]:
        """Hears a stream until the answer; what the server asks meanwhile is answered on a POST of its own."""
        def on_event(event: Event) -> bool:
            heard['last_id'] = event.id if event.id is not None else heard['last_id']
            heard['retry_ms'] = heard['retry_ms'] if event.retry_ms is None else event.retry_ms
            if not event.data:
                return False
            message = object_in(event.data, 200)
            if answers(message, request_id):
                heard['message'] = message
                return True
            if 'method' in message and 'id' in message:
                self.post(self.answer_server(message))
            return False
        return on_event

    def answer_server(self, message: Dict[str, Any]) -> Dict[str, Any]:
        head = {'jsonrpc': '2.0', 'id': message['id']}
        work = self.serve.get(message['method'])
        if work is None:
            return dict(head, error={'code': -32601, 'message': 'this host does not do that'})
        return dict(head, result=work(message.get('params') or {}))

    def sign_in(self, header: Dict[str, str]) -> None:
        """From a challenge to tokens. A second time at the same door keeps the client and asks for the union."""
        places = host_signin.discover(self.url, header, self.trips)
        scope = self.scope or host_signin.scope_to_ask(header, places.scopes)
        if header.get('error') == 'insufficient_scope':
            scope = host_signin.union(self.grant.get('scope'), scope)
        with self.door(self.trips) as (redirect_uri, visit):
            client = self.client_at(places.server) or host_signin.register(places.server, redirect_uri, scope,
                                                                            self.trips)
            tokens = host_signin.authorize(places, client, redirect_uri, visit, scope, self.trips)
        self.keep({'client': client, 'server': places.server, 'resource': places.resource,
                   'scope': tokens.get('scope', scope), 'tokens': tokens})

    def client_at(self, server: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """Who we are at this server without registering: as before, or by our document. Never as at another server."""
        known = self.grant.get('client')
        if known and self.grant.get('server', server)['issuer'] == server['issuer']:
            return known
        if self.document and server.get('client_id_metadata_document_supported') is True:
            return {'client_id': self.document, 'token_endpoint_auth_method': 'none'}
        return None

    def refresh(self, used: str) -> bool:
        """New tokens for the refresh token; False when there is none or it is no longer good.

        Several processes share one file: whoever comes second finds the first one's new token there."""
        with locked(self.tokens):
            if self.tokens:
                self.grant = read_grants(self.tokens).get(self.url, self.grant)
            if self.access_token != used:
                return True
            token = self.grant.get('tokens', {}).get('refresh_token')
            if not token or 'server' not in self.grant:
                return False
            form = {'grant_type': 'refresh_token', 'refresh_token': token, 'resource': self.grant['resource']}
            try:
                answer = host_signin.ask_for_tokens(self.grant['server'], self.grant['client'], form, self.trips)
            except SignInError as refusal:
                if refusal.code in ('http', 'temporarily_unavailable'):
                    raise                    # the refresh token may still be good: do not throw it away
                return False
            self._keep(dict(self.grant, tokens=dict({'refresh_token': token}, **answer),
                            scope=answer.get('scope', self.grant.get('scope'))))
            return True

    def keep(self, grant: Grant) -> None:
        with locked(self.tokens):
            self._keep(grant)

    def _keep(self, grant: Grant) -> None:
        self.grant = grant
        if self.tokens:
            write_grants(self.tokens, dict(read_grants(self.tokens), **{self.url: grant}))


def read_message(reply: Reply) -> Dict[str, Any]:
    """The body's object. A challenge counts without one: a 401 or 403 may come from a gateway, as a page or as text."""
    try:
        return object_in(reply.body, reply.status) if reply.body else {}
    except HostError:
        if reply.status in (401, 403):
            return {}
        raise


def object_in(text: Any, status: int) -> Dict[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise HostError(status, f'HTTP {status} without a JSON-RPC message')
    return message


def read_grants(path: str) -> Dict[str, Grant]:
    """The grants by address; a file that is not there, or is empty, holds none yet. Raises ValueError, OSError."""
    try:
        with open(path, 'rb') as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    try:
        grants = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        grants = None
    if not isinstance(grants, dict) or not all(isinstance(grant, dict) for grant in grants.values()):
        raise ValueError(f'{path} is no file of tokens: name another, or delete it and sign in again')
    return grants


def write_grants(path: str, grants: Dict[str, Grant]) -> None:
    """Whole or not at all, and for nobody else's eyes: mkstemp opens with O_EXCL and mode 600."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    with os.fdopen(handle, 'w', encoding='utf-8') as file:
        json.dump(grants, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextmanager
def locked(path: Optional[str]) -> Iterator[None]:
    """One process at a time refreshes: a rotated token used twice would cost everybody the session."""
    if path is None:
        yield
        return
    with open(os.open(f'{path}.lock', os.O_RDWR | os.O_CREAT, 0o600), 'r+') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def owner_click(base_url: str, owner_token: str, verb: str, arguments: Dict[str, Any]) -> Tuple[int, Dict[str, Any]]:
    """The scripted owner's click: (HTTP status, the answer's object)."""
    headers = {'Content-Type': 'application/json', 'Authorization': f'Owner {owner_token}'}
    url = f'{base_url}/owner/{verb}'
    reply = host_signin.fetch('POST', url, headers, json.dumps(arguments).encode())
    return reply.status, host_signin.json_object(reply, url)
