"""mcp.py - JSON-RPC on the one endpoint: a request in, an answer out, nothing else touched.

Article 7, "Cosa vede il client prima di avere un token?": initialize and tools/list are public, tools/call needs a
token; without one it is a 401 whose challenge names the resource metadata, in the header and in the result's _meta.
Two eras of the protocol share the endpoint, the gates and the tools; an Era below is all that tells them apart:
LEGACY (2025-06-18 and 2025-11-25: a handshake, then calls) and MODERN (2026-07-28: every request says everything).

The gates of a POST, in this order, each with its code:

    content type 415, accept 406                the media
    -32700 400                                  not UTF-8, not JSON, or JSON that two readers would read differently
    -32600 400                                  an array, or not a JSON-RPC 2.0 request
    202, empty                                  a notification, a stray response
    -32020, -32602, -32022 400                  which era, and do its headers say what the body says
    -32601 200 or 404                           unknown method (legacy, modern)
    401, 403, -32602, the tool's own result     tools/call: token, scope, tool, arguments, item

Not here: sockets and framing (wire.py), Host and Origin and other methods than POST (server.py), what a tool does and
who may call it (tools.py, access.py), how a client signs in (signin.py).
"""
import base64
import binascii
import json
import math
import re
from functools import lru_cache
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import access
import tools as tool_calls
from wire import Request, Response

# --- data ---------------------------------------------------------------------

ENDPOINT = '/api/v1/external-mcp'
METADATA = '/.well-known/oauth-protected-resource' + ENDPOINT  # RFC 9728: after the host, before the resource's path
LEGACY_VERSIONS = ('2025-11-25', '2025-06-18')                 # the newest first: what an unknown version is offered
HEADERLESS = '2025-03-26'                                      # what no version header means; its clients may say so
MODERN_VERSIONS = ('2026-07-28',)
SERVER_INFO = {'name': 'osfoundry', 'version': '0.1.0'}
INSTRUCTIONS = ('Call list_granted_resources first: it tells what this connection may reach. Every Note edit needs the '
                'exact tab id. Data that is only on a device is not available to cloud clients.')
TOOLS_A_PAGE = 100
TTL_MS = 300_000                   # the catalogue changes with a new version of the server only
CACHEABLE = ('tools/list', 'server/discover')

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022

VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
CAPABILITIES_KEY = 'io.modelcontextprotocol/clientCapabilities'
SERVER_INFO_KEY = 'io.modelcontextprotocol/serverInfo'
NAMED_BY = {'tools/call': 'name'}  # methods whose Mcp-Name header repeats a parameter
BEARER = re.compile(r'bearer +([A-Za-z0-9._~+/-]+=*)', re.IGNORECASE)
SURROGATE = re.compile(r'\\u[dD][89a-fA-F]')
SENTINEL = re.compile(r'=\?base64\?([A-Za-z0-9+/]*={0,2})\?=')
JSON = (('Content-Type', 'application/json'), ('Cache-Control', 'no-store'))

Call = Callable[[Optional[str], str, dict], dict]      # (bearer, tool, arguments) -> the tool's result


class Exchange(NamedTuple):
    """What a method gets to answer from."""
    params: dict
    headers: Dict[str, str]
    tools: Sequence[dict]          # as tools/list shows them, in the catalogue's order
    call: Call
    config: Any                    # its base_url: addresses come from configuration, never from a header


class Era(NamedTuple):
    methods: Dict[str, Callable[[Exchange], dict]]
    unknown_method_status: int
    error_status: int              # of an error in the parameters
    finish: Callable[[str, dict], dict]


class ProtocolError(Exception):
    """The request is malformed, or asks for what is not there. What concerns an item is a tool result instead."""

    def __init__(self, code: int, message: str, status: Optional[int] = None, data: Optional[dict] = None):
        super().__init__(message)
        self.code, self.status, self.data = code, status, data


class Challenge(Exception):
    """Signing in (401), or asking for another scope (403), would help: the answer says how."""

    def __init__(self, status: int, header: str, text: str):
        super().__init__(text)
        self.status, self.header = status, header


# --- rules --------------------------------------------------------------------

def answer(request: Request, tools: Sequence[dict], call: Call, config: Any) -> Response:
    """The answer to one POST."""
    if not is_json(request.headers.get('content-type', '')):
        return reply(415, None, error={'code': INVALID_REQUEST, 'message': 'Content-Type must be application/json'})
    if not admits_json(request.headers.get('accept', '*/*')):
        return reply(406, None, error={'code': INVALID_REQUEST, 'message': 'Accept must admit application/json'})
    message_id, era = None, LEGACY
    try:
        message = parse(request.body)
        message_id = check_id(message)
        method, params = check_message(message)
        if method is None or 'id' not in message:
            return Response(202, (), b'')
        era = choose_era(method, params, request.headers)
        if method not in era.methods:
            raise ProtocolError(METHOD_NOT_FOUND, f'Method not found: {method[:100]}', era.unknown_method_status)
        result = era.methods[method](Exchange(params, request.headers, tools, call, config))
        return reply(200, message_id, result=era.finish(method, result))
    except Challenge as challenge:
        return reply(challenge.status, message_id, result=era.finish('tools/call', challenge_result(challenge)),
                     headers=(('WWW-Authenticate', challenge.header),))
    except ProtocolError as error:
        detail = {'code': error.code, 'message': str(error), **({'data': error.data} if error.data else {})}
        return reply(error.status or era.error_status, message_id, error=detail)


def reply(status: int, message_id: Any, headers: Sequence[Tuple[str, str]] = (), **outcome: dict) -> Response:
    text = encode_json({'jsonrpc': '2.0', 'id': message_id, **outcome})
    # A lone surrogate can only come from a file name: as \udcXX it is JSON again.
    return Response(status, (*JSON, *headers), text.encode('utf-8', 'backslashreplace'))


encode_json = json.JSONEncoder(ensure_ascii=False, separators=(',', ':')).encode


# The media and the message.

@lru_cache(maxsize=64)
def is_json(content_type: str) -> bool:
    return content_type.partition(';')[0].strip().lower() == 'application/json'


@lru_cache(maxsize=64)
def admits_json(accept: str) -> bool:
    """The most exact range decides (RFC 9110 12.5.1). Clients that cannot take an event stream are welcome."""
    admitted = {}
    for media_range in accept.lower().split(','):
        kind, *parameters = [part.strip() for part in media_range.split(';')]
        admitted[kind] = not any(re.fullmatch(r'q=0(\.0*)?', parameter) for parameter in parameters)
    return admitted.get('application/json', admitted.get('application/*', admitted.get('*/*', False)))


def parse(body: bytes) -> dict:
    """The JSON object in the body. Refuses also what json.loads lets pass and another reader would read differently."""
    try:
        text = body.decode('utf-8')
        message = decode_json(text)
        if SURROGATE.search(text):
            encode_json(message).encode('utf-8')           # half a pair is a text that cannot be stored
    except RecursionError:
        raise ProtocolError(PARSE_ERROR, 'Parse error: nested too deep', 400) from None
    except UnicodeError:
        raise ProtocolError(PARSE_ERROR, 'Parse error: not UTF-8, or half of a surrogate pair', 400) from None
    except ValueError as error:
        raise ProtocolError(PARSE_ERROR, f'Parse error: {str(error)[:100]}', 400) from None
    if isinstance(message, list):
        raise ProtocolError(INVALID_REQUEST, 'Batches are not part of this protocol: send one message a request', 400)
    if not isinstance(message, dict):
        raise ProtocolError(INVALID_REQUEST, 'The body must be one JSON-RPC message', 400)
    return message


def once_each(pairs: List[Tuple[str, Any]]) -> dict:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError('a name is given twice in one object')
    return members


def finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError('a number is too large')
    return number


def no_constant(name: str) -> None:
    raise ValueError(f'{name} is not JSON')


decode_json = json.JSONDecoder(object_pairs_hook=once_each, parse_float=finite, parse_constant=no_constant).decode


def check_id(message: dict) -> Any:
    """The id to echo, 0 and "" included. None when there is none: MCP gives null no meaning."""
    if 'id' not in message:
        return None
    message_id = message['id']
    if isinstance(message_id, bool) or not isinstance(message_id, (str, int)):
        raise ProtocolError(INVALID_REQUEST, 'id must be a string or an integer', 400)
    return message_id


def check_message(message: dict) -> Tuple[Optional[str], dict]:
    """Method and parameters; method None means a response, which nobody here has asked for."""
    if message.get('jsonrpc') != '2.0':
        raise ProtocolError(INVALID_REQUEST, 'jsonrpc must be "2.0"', 400)
    if 'method' not in message and ('result' in message or 'error' in message):
        return None, {}
    method, params = message.get('method'), message.get('params', {})
    if not isinstance(method, str):
        raise ProtocolError(INVALID_REQUEST, 'method must be a string', 400)
    if not isinstance(params, dict):
        raise ProtocolError(INVALID_REQUEST, 'params must be an object', 400)
    return method, params


# The eras.

def choose_era(method: str, params: dict, headers: Dict[str, str]) -> Era:
    """A request says by its version header, or by its _meta, in which era it is to be read."""
    version, meta = headers.get('mcp-protocol-version'), params.get('_meta')
    modern_body = isinstance(meta, dict) and VERSION_KEY in meta
    if method == 'initialize' and not modern_body:         # it negotiates: whatever the header says is beside the point
        return LEGACY
    if version in MODERN_VERSIONS or modern_body:
        check_modern(method, params, headers)
        return MODERN
    if version is None or version in LEGACY_VERSIONS or version == HEADERLESS:
        return LEGACY
    raise unsupported(version)


def check_modern(method: str, params: dict, headers: Dict[str, str]) -> None:
    """The headers repeat the body for whoever routes without reading it: then both must say the same."""
    meta = params.get('_meta')
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if not isinstance(meta, dict) or key not in meta]
    if missing:
        raise ProtocolError(INVALID_PARAMS, f'params._meta must hold {" and ".join(missing)}', 400)
    expected = {'MCP-Protocol-Version': meta[VERSION_KEY], 'Mcp-Method': method}
    if method in NAMED_BY:
        expected['Mcp-Name'] = params.get(NAMED_BY[method])
    for header, value in expected.items():
        sent = headers.get(header.lower())
        if (unwrapped(sent) if header == 'Mcp-Name' else sent) != value:
            raise ProtocolError(HEADER_MISMATCH, f'Header mismatch: {header} must say what the body says', 400)
    if not isinstance(meta[VERSION_KEY], str) or not isinstance(meta[CAPABILITIES_KEY], dict):
        raise ProtocolError(INVALID_PARAMS, 'params._meta: the version is a string, the capabilities an object', 400)
    if meta[VERSION_KEY] not in MODERN_VERSIONS:
        raise unsupported(meta[VERSION_KEY])


def unwrapped(value: Optional[str]) -> Optional[str]:
    """A header value, decoded when it is wrapped as =?base64?...?=. None when it cannot be decoded."""
    wrapped = SENTINEL.fullmatch(value) if value is not None else None
    if wrapped is None:
        return value
    try:
        return base64.b64decode(wrapped.group(1), validate=True).decode('utf-8')
    except (binascii.Error, UnicodeDecodeError):
        return None


def unsupported(version: str) -> ProtocolError:
    return ProtocolError(UNSUPPORTED_VERSION, 'Unsupported protocol version', 400,
                         {'supported': [*MODERN_VERSIONS, *LEGACY_VERSIONS], 'requested': version[:100]})


def finish_legacy(method: str, result: dict) -> dict:
    return result


def finish_modern(method: str, result: dict) -> dict:
    """Nothing said before counts, so every result says who answers and, if it may be kept, for how long."""
    cached = {'ttlMs': TTL_MS, 'cacheScope': 'public'} if method in CACHEABLE else {}      # the same for everybody
    meta = {**result.get('_meta', {}), SERVER_INFO_KEY: SERVER_INFO}
    return {'resultType': 'complete', **result, **cached, '_meta': meta}


# The methods.

def initialize(exchange: Exchange) -> dict:
    requested = exchange.params.get('protocolVersion')
    version = requested if requested in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
    return {'protocolVersion': version, 'capabilities': {'tools': {}}, 'serverInfo': SERVER_INFO,
            'instructions': INSTRUCTIONS}


def discover(exchange: Exchange) -> dict:
    return {'supportedVersions': [*MODERN_VERSIONS, *LEGACY_VERSIONS], 'capabilities': {'tools': {}},
            'instructions': INSTRUCTIONS}


def ping(exchange: Exchange) -> dict:
    return {}


def list_tools(exchange: Exchange) -> dict:
    """One page. The cursor wraps the name of the last tool seen: it stays good when tools come or go elsewhere."""
    names = [tool['name'] for tool in exchange.tools]
    first = 0
    if 'cursor' in exchange.params:
        last_seen = read_cursor(exchange.params['cursor'])
        if last_seen not in names:
            raise ProtocolError(INVALID_PARAMS, 'Invalid cursor: list the tools again from the start')
        first = names.index(last_seen) + 1
    page = {'tools': list(exchange.tools[first:first + TOOLS_A_PAGE])}
    if first + TOOLS_A_PAGE < len(names):
        page['nextCursor'] = base64.urlsafe_b64encode(names[first + TOOLS_A_PAGE - 1].encode()).decode()
    return page


def read_cursor(cursor: Any) -> Optional[str]:
    try:
        return base64.b64decode(cursor.encode('ascii'), b'-_', validate=True).decode('ascii')
    except (AttributeError, ValueError):                   # not a string, not ASCII, not base64
        return None


def call_tool(exchange: Exchange) -> dict:
    name, arguments = exchange.params.get('name'), exchange.params.get('arguments', {})
    if not isinstance(name, str):
        raise ProtocolError(INVALID_PARAMS, 'params.name must be a string')
    if not isinstance(arguments, dict):
        raise ProtocolError(INVALID_PARAMS, 'params.arguments must be an object')
    try:
        return exchange.call(bearer(exchange.headers), name, arguments)
    except access.Unauthorized:
        raise Challenge(401, challenge(exchange.config, 'invalid_token', 'Connect osFoundry to continue'),
                        'Authentication required') from None
    except access.Forbidden as forbidden:
        text = encode_json({'error': 'insufficient_scope', 'message': str(forbidden), 'scope': forbidden.scope})
        raise Challenge(403, challenge(exchange.config, 'insufficient_scope', f'This tool needs {forbidden.scope}',
                                       forbidden.scope), text) from None
    except tool_calls.UnknownTool:
        raise ProtocolError(INVALID_PARAMS, f'Unknown tool: {name[:100]}') from None


def bearer(headers: Dict[str, str]) -> Optional[str]:
    token = BEARER.fullmatch(headers.get('authorization', ''))
    return token.group(1) if token else None


def challenge(config: Any, error: str, description: str, scope: Optional[str] = None) -> str:
    """The WWW-Authenticate value: from it alone a client finds the way to sign in (article 7)."""
    wanted = f', scope="{scope}"' if scope else ''
    return (f'Bearer resource_metadata="{config.base_url}{METADATA}", error="{error}"{wanted}, '
            f'error_description="{description}"')


def challenge_result(challenge: Challenge) -> dict:
    return {'isError': True, 'content': [{'type': 'text', 'text': str(challenge)}],
            '_meta': {'mcp/www_authenticate': [challenge.header]}}


LEGACY = Era({'initialize': initialize, 'ping': ping, 'tools/list': list_tools, 'tools/call': call_tool},
             unknown_method_status=200, error_status=200, finish=finish_legacy)
MODERN = Era({'server/discover': discover, 'tools/list': list_tools, 'tools/call': call_tool},
             unknown_method_status=404, error_status=400, finish=finish_modern)
