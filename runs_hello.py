"""runs_hello.py - what an MCP host sees before anybody has signed in.

Article 7, "Cosa vede il client prima di avere un token?" and "Dove lo manda il 401?": the handshake and the
catalogue are public, one tool call is answered with the header that leads to the sign-in, and the metadata lies
where RFC 9728 puts it.

    python3 client.py hello URL           any server; without URL one of ours is started (1 s)

Not here: what follows the 401 (runs_access.py, host_signin.py).
"""
import contextlib
import json
import re
import sys
from typing import Any, Dict, List, Sequence
from urllib.parse import urlsplit

import ending
import host_signin
import published
import published_access
import runs_stage

# --- data ---------------------------------------------------------------------

PROTOCOL = '2025-06-18'                   # what the article's client asked for
HEADERS = {'Content-Type': 'application/json', 'Accept': 'application/json, text/event-stream'}
WELL_KNOWN = '/.well-known/oauth-protected-resource'
INSTRUCTIONS = {'list_granted_resources first': r'list_granted_resources\b.*\bfirst|first\b.*list_granted_resources',
                'exact tab ID': r'exact tab id', 'local-only data': r'not available to cloud|unavailable to cloud'}

# --- rules --------------------------------------------------------------------

def hello(url: str, say: Any) -> Dict[published.Place, published.Value]:
    """Ask everything that needs no token; the figures of the table."""
    parts = urlsplit(url)
    origin = f'{parts.scheme}://{parts.netloc}'
    figures = {**shake_hands(url, say), **list_tools(url, say), **call_without_token(url, say)}
    figures['GET on the endpoint', 'status'] = status_of(url, say)
    figures['metadata, suffix after the host', 'status'] = status_of(origin + WELL_KNOWN + parts.path, say)
    figures['metadata, at the root', 'status'] = status_of(origin + WELL_KNOWN, say)
    same = get(origin + WELL_KNOWN).body == get(origin + WELL_KNOWN + parts.path).body
    figures['metadata, at the root', 'same document'] = 'yes' if same else 'no'
    figures['metadata, under the endpoint', 'status'] = status_of(url + WELL_KNOWN, say)
    return figures


def shake_hands(url: str, say: Any) -> Dict[published.Place, published.Value]:
    reply = post(url, 'initialize', {'protocolVersion': PROTOCOL, 'capabilities': {},
                                     'clientInfo': {'name': 'hello', 'version': '1'}})
    result = result_of(reply, 'initialize')
    server = f'{result["serverInfo"]["name"]} {result["serverInfo"]["version"]}'
    say(f'initialize             {reply.status}   protocol {result["protocolVersion"]}, server {server}')
    instructions = result.get('instructions', '').replace('\n', ' ')
    say('                             ' + instructions)
    said = [name for name, words in INSTRUCTIONS.items() if re.search(words, instructions, re.IGNORECASE)]
    return {('initialize', 'status'): reply.status, ('initialize', 'protocol'): result['protocolVersion'],
            ('initialize', 'server'): server, ('initialize', 'instructions'): '; '.join(said)}


def list_tools(url: str, say: Any) -> Dict[published.Place, published.Value]:
    """All pages of the catalogue. A tool's size is its share of the answers' bytes."""
    tools: List[dict] = []
    size, params, status = 0, {}, 200
    while status == 200:
        reply = post(url, 'tools/list', params)
        result, status = result_of(reply, 'tools/list'), reply.status
        tools, size = tools + result['tools'], size + len(reply.body)
        if not result.get('nextCursor'):
            break
        params = {'cursor': result['nextCursor']}
    say(f'tools/list             {status}   {len(tools)} tools, {size:,} bytes')
    counts = scopes(tools)
    for scope, count in sorted(counts.items()):
        say(f'                             {count} need {scope}')
    return {('tools/list', 'status'): status, ('tools/list', 'need osfoundry:run'): counts.get('osfoundry:run', 0),
            ('tools/list', 'size of a tool'): round(size / len(tools))}


def result_of(reply: host_signin.Reply, method: str) -> Dict[str, Any]:
    try:
        return json.loads(reply.body)['result']
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f'{method} was answered with HTTP {reply.status} and no result; is the path right?')


def scopes(tools: Sequence[dict]) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for tool in tools:
        for scheme in tool.get('securitySchemes', ()):
            for scope in scheme.get('scopes', ()):
                counts[scope] = counts.get(scope, 0) + 1
    return counts


def call_without_token(url: str, say: Any) -> Dict[published.Place, published.Value]:
    reply = post(url, 'tools/call', {'name': 'list_project_resources', 'arguments': {}})
    challenge = reply.headers.get('www-authenticate', '')
    content = json.loads(reply.body).get('result', {}).get('content', [{}])[0].get('text')
    say(f'tools/call             {reply.status}   {challenge}')
    return {('tools/call', 'status'): reply.status, ('tools/call', 'content'): content,
            ('tools/call', 'error_description'): host_signin.challenge(challenge).get('error_description')}


# --- I/O ----------------------------------------------------------------------

def post(url: str, method: str, params: dict) -> host_signin.Reply:
    body = json.dumps({'jsonrpc': '2.0', 'id': 3, 'method': method, 'params': params})
    return host_signin.fetch('POST', url, HEADERS, body.encode())


def get(url: str) -> host_signin.Reply:
    return host_signin.fetch('GET', url, {'Accept': 'application/json'})


def status_of(url: str, say: Any) -> int:
    reply = get(url)
    say(f'GET {reply.status}   {urlsplit(url).path}')
    return reply.status


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('client.py hello', __doc__)
    parser.add_argument('url', nargs='?', help='the endpoint; default: a server of our own')
    options = parser.parse_args(argv)

    def say(line: str) -> None:
        published.note(line, options.json)
    with contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(runs_stage.stage(lambda tx: None)).url
        try:
            figures = hello(url, say)
        except (OSError, host_signin.SignInError, ValueError, KeyError) as error:
            print(f'client.py hello: {url} did not answer as an MCP server: {error}'[:300], file=sys.stderr)
            return 1
    table = published.compare(published_access.BEFORE_A_TOKEN, figures)
    return published.report('client.py hello', [table], options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
