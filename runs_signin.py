"""runs_signin.py - the host by hand: connect to an address in a browser, then call one tool.

Article 7, "Dove lo manda il 401?": a person pastes one URL, everything else is found. Article 6, "Chi fa cosa": the
host asks before a call that is not marked readOnlyHint; so does this one, a call at a time and never for a whole
session.

    python3 client.py connect URL                     a person signs in (a link, a browser, a loopback listener)
    python3 client.py call URL NAME '{"a": 1}'        one tool, such as list_granted_resources '{}'
    also: --no-browser, --tokens FILE, mode 600; default ~/.osfoundry-tokens.json

Try it beside `python3 server.py --demo`. Exit status: 0 done, 1 refused, by a person or by the server, 2 usage.
Not here: how the sign-in is found (host_signin.py), calls and refresh (host.py).
"""
import argparse
import json
import os
import sys
from typing import Any, Dict, List, Optional, Sequence

import host
import host_signin

# --- data ---------------------------------------------------------------------

TOKENS = os.path.join('~', '.osfoundry-tokens.json')
FIRST_CALL = 'list_granted_resources'     # what the server's instructions ask for first

# --- rules --------------------------------------------------------------------

def shown(text: str) -> str:
    """Somebody else's words for a terminal: a control character could rewrite the lines above it."""
    return ''.join(one if one.isprintable() or one == '\n' else ascii(one)[1:-1] for one in text)


def read_arguments(text: str) -> Dict[str, Any]:
    """The JSON object of the command line. Raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError('arguments: nested too deep')
    except ValueError as fault:
        raise ValueError(f'arguments: no JSON: {fault}')
    if not isinstance(found, dict):
        raise ValueError(f'arguments: one JSON object, such as \'{{"a": 1}}\' or \'{{}}\', not {text[:80]}')
    return found


def find_tool(tools: List[Dict[str, Any]], name: str) -> Optional[Dict[str, Any]]:
    return next((tool for tool in tools if tool['name'] == name), None)


def needs_consent(tool: Dict[str, Any]) -> bool:
    """Whatever is not marked as reading only, a tool without annotations included."""
    return (tool.get('annotations') or {}).get('readOnlyHint') is not True


# --- I/O ----------------------------------------------------------------------

def allowed(tool: Dict[str, Any], arguments: Dict[str, Any], yes: bool) -> bool:
    """Ask the person about this one call; the line is printed in any case."""
    if not needs_consent(tool):
        return True
    print(shown(f'{tool["name"]} {json.dumps(arguments, ensure_ascii=False)}'), file=sys.stderr)
    if yes:
        return True
    if sys.stdin is None or not sys.stdin.isatty():       # None: it was closed before we began
        print('not read-only, and nobody here to ask: --yes allows it', file=sys.stderr)
        return False
    print('Allow this call? [y/N] ', end='', file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ('y', 'yes')


def check_tokens(path: str) -> None:
    """Before a person signs in: afterwards it would be in vain. Raises ValueError."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f'--tokens: {folder} is no folder that can be written')
    try:
        host.read_grants(path)
    except (OSError, ValueError) as fault:
        raise ValueError(f'--tokens: {fault}')


def connect(options: argparse.Namespace, door: host_signin.Door) -> int:
    one = host.Host(options.url, door, os.path.expanduser(options.tokens), scope=options.scope)
    about, tools = one.meet().get('serverInfo', {}), one.list_tools()
    print(shown(f'{about.get("name")} {about.get("version")}, {len(tools)} tools'))
    if find_tool(tools, FIRST_CALL) is None:
        print('connected' if one.access_token else 'this server asked for no sign-in')
        return 0
    answer = one.call(FIRST_CALL, {})
    if answer.refused:
        print(shown(f'refused: {answer.refused}'))
        return 1
    print(shown(f'connected for {one.grant.get("scope")}'))
    print(shown(json.dumps(host.tool_answer(answer.result), ensure_ascii=False, indent=1)))
    return 0


def call(options: argparse.Namespace, door: host_signin.Door) -> int:
    arguments = read_arguments(options.arguments)
    one = host.Host(options.url, door, os.path.expanduser(options.tokens))
    one.meet()
    tool = find_tool(one.list_tools(), options.name)
    if tool is None:
        print(f'client.py call: {options.url} has no tool {options.name!r}', file=sys.stderr)
        return 1
    if not allowed(tool, arguments, options.yes):
        return 1
    answer = one.call(options.name, arguments)
    if answer.status in (401, 403):
        print(f'refused: {answer.refused}', file=sys.stderr)
        return 1
    print(shown(json.dumps(host.tool_answer(answer.result), ensure_ascii=False, indent=1)))
    return 1 if answer.refused else 0


# --- main ---------------------------------------------------------------------

def parser_of(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f'client.py {verb}', description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('url', help='the server address, such as http://127.0.0.1:8767/api/v1/external-mcp')
    parser.add_argument('--tokens', default=TOKENS, metavar='FILE',
                        help='where they are kept, mode 600; default %(default)s')
    parser.add_argument('--no-browser', action='store_true', help='only print the link')
    return parser


def run(verb: Any, options: argparse.Namespace) -> int:
    try:
        check_tokens(os.path.expanduser(options.tokens))
        return verb(options, host_signin.in_browser(open_it=not options.no_browser))
    except (host.HostError, host_signin.SignInError) as fault:
        print(shown(f'client.py: {fault}'), file=sys.stderr)
        return 1
    except ValueError as fault:
        print(shown(f'client.py: {fault}'), file=sys.stderr)
        return 2


def main_connect(argv: Sequence[str]) -> int:
    parser = parser_of('connect')
    parser.add_argument('--scope', help='ask for these scopes only, such as "osfoundry:read"')
    return run(connect, parser.parse_args(argv))


def main_call(argv: Sequence[str]) -> int:
    parser = parser_of('call')
    parser.add_argument('name', help='the tool')
    parser.add_argument('arguments', help='one JSON object, such as {}')
    parser.add_argument('--yes', action='store_true', help='allow this call without asking, for scripts')
    return run(call, parser.parse_args(argv))
