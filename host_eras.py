"""host_eras.py - which protocol a host speaks with a server, and what a request of 2026-07-28 carries.

Beside article 7, whose host opens with a call or a handshake: today's servers also take requests that need neither,
because each says everything itself. Host.meet (host.py) asks in that way first; whatever comes back that is no word of
that era means a handshake. The rules are here:

    _meta           version, who we are, what we can do: in every request
    headers         version, method, the tool's name: repeated, so that a gateway need not read the body
    Mcp-Param-NAME  an argument that the tool's schema asks to see in a header; a schema that asks wrongly is no tool
    input_required  the server wants to know something first: answer, and send the request again

Not here: sending (host.py), the server's side of the same rules (mcp.py).
"""
import base64
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

# --- data ---------------------------------------------------------------------

MODERN = ('2026-07-28',)                   # the newest first
LEGACY = ('2025-11-25', '2025-06-18')
META = 'io.modelcontextprotocol/'
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
MODERN_ERRORS = (HEADER_MISMATCH, -32021, UNSUPPORTED_VERSION)     # only a server of this era says these
NAMED_BY = {'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri'}
ROUNDS = 10                                # a server that always wants one more thing is left

PLAIN = re.compile(r'[!-~](?:[ -~\t]*[!-~])?|')
SENTINEL = re.compile(r'=\?base64\?.*\?=', re.DOTALL)
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
PRIMITIVE = ('string', 'integer', 'boolean')
SCHEMAS_BY_NAME = ('$defs', 'definitions', 'patternProperties', 'dependentSchemas')
VALUES = ('const', 'default', 'enum', 'examples')                  # hold instances, not schemas


class Mirrored(NamedTuple):
    """An argument to be repeated in a header; `path` is None when the mark stands where no argument can be."""
    path: Optional[Tuple[str, ...]]
    name: Any
    kind: Any


# --- rules --------------------------------------------------------------------

def with_meta(params: Dict[str, Any], version: str, capabilities: Dict[str, Any],
              client: Dict[str, Any]) -> Dict[str, Any]:
    meta = {META + 'protocolVersion': version, META + 'clientInfo': client, META + 'clientCapabilities': capabilities}
    return {**params, '_meta': {**params.get('_meta', {}), **meta}}


def headers(message: Dict[str, Any], version: str, schema: Optional[dict]) -> Dict[str, str]:
    """What the headers of this request repeat of its body."""
    method, params = message['method'], message.get('params', {})
    found = {'MCP-Protocol-Version': version, 'Mcp-Method': method}
    if method in NAMED_BY:
        found['Mcp-Name'] = encoded(str(params.get(NAMED_BY[method], '')))
    if method == 'tools/call' and schema is not None:
        found.update(mirrored_headers(schema, params.get('arguments') or {}))
    return found


def mirrored_headers(schema: dict, arguments: Dict[str, Any]) -> Dict[str, str]:
    found = {}
    for mirrored in marks(schema):
        value: Any = arguments
        for step in mirrored.path or ():
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            found[f'Mcp-Param-{mirrored.name}'] = encoded(as_text(value))
    return found


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def encoded(value: str) -> str:
    """As it is when every reader gives it back so; else wrapped, also when it only looks wrapped."""
    if PLAIN.fullmatch(value) and not SENTINEL.fullmatch(value):
        return value
    return '=?base64?' + base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode('ascii') + '?='


def marks(schema: Any, path: Tuple[str, ...] = (), reachable: bool = True) -> Iterator[Mirrored]:
    """Every x-mcp-header in a schema, wherever it stands. An argument is reached through `properties` alone."""
    if not isinstance(schema, dict):
        return
    if 'x-mcp-header' in schema:
        yield Mirrored(path if reachable and path else None, schema['x-mcp-header'], schema.get('type'))
    for keyword, value in schema.items():
        if keyword == 'properties' and isinstance(value, dict):
            for name, inner in value.items():
                yield from marks(inner, (*path, name), reachable)
        elif keyword in SCHEMAS_BY_NAME and isinstance(value, dict):
            for inner in value.values():
                yield from marks(inner, path, False)
        elif keyword not in VALUES:
            for inner in value if isinstance(value, list) else [value]:
                yield from marks(inner, path, False)


def fault(schema: Any) -> Optional[str]:
    """Why a tool with this schema must not be used; None when it may. One bad tool does not spoil the others."""
    try:
        found = list(marks(schema))
    except RecursionError:
        return 'the schema is nested too deep'
    names: List[str] = []
    for mirrored in found:
        if not isinstance(mirrored.name, str) or not TOKEN.fullmatch(mirrored.name):
            return 'x-mcp-header is not the name of a header'
        if mirrored.path is None:
            return f'x-mcp-header {mirrored.name} stands where no argument can be'
        if mirrored.kind not in PRIMITIVE:
            return f'x-mcp-header {mirrored.name} is on something that is no string, integer or boolean'
        names.append(mirrored.name.lower())
    return None if len(set(names)) == len(names) else 'two arguments want one header'


def offered_version(error: Dict[str, Any]) -> Optional[str]:
    """Told which versions the server speaks: the newest of this era that we speak too."""
    data = error.get('data')
    return shared_version({'supportedVersions': data.get('supported')}
                          if isinstance(data, dict) and error.get('code') == UNSUPPORTED_VERSION else {})


def is_modern_only(error: Dict[str, Any]) -> bool:
    """A word of this era that a handshake would not change: its version list names no legacy one, or it is another."""
    data = error.get('data')
    supported = data.get('supported') if isinstance(data, dict) else None
    if error.get('code') == UNSUPPORTED_VERSION:
        return isinstance(supported, list) and not set(LEGACY) & {v for v in supported if isinstance(v, str)}
    return error.get('code') in MODERN_ERRORS


def shared_version(result: Dict[str, Any]) -> Optional[str]:
    """The newest version of this era that a server/discover result names and we speak."""
    supported = result.get('supportedVersions')
    return next((version for version in MODERN if isinstance(supported, list) and version in supported), None)


def introduction(result: Dict[str, Any], version: str) -> Dict[str, Any]:
    """A discover result in the words of a handshake's, so that nobody above needs to know the era."""
    server = (result.get('_meta') or {}).get(META + 'serverInfo') or {}
    return {'protocolVersion': version, 'serverInfo': server, 'capabilities': result.get('capabilities', {}),
            'instructions': result.get('instructions', '')}
