"""The small client that the conformance suite starts: host.py, told by the scenario's name what to call.

    python3 tests/interop/conformance_client.py URL      MCP_CONFORMANCE_SCENARIO and _CONTEXT in the environment
"""
import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import host            # noqa: E402
import host_signin     # noqa: E402

DOCUMENT = 'https://conformance-test.local/client-metadata.json'     # the suite's own example of a client by document


def accept_defaults(params: dict) -> dict:
    """A person who sends an elicitation's form as it stands."""
    properties = params.get('requestedSchema', {}).get('properties', {})
    return {'action': 'accept', 'content': {name: one['default'] for name, one in properties.items() if 'default' in one}}


def plain_calls(tools):
    """Every tool once: a number for each argument that it requires, or the first tool's schema where it wants one."""
    return [{'name': tool['name'], 'arguments': {name: tools[0]['inputSchema'] if name == 'schema' else 2
                                                 for name in tool['inputSchema'].get('required', [])}} for tool in tools]


def main(argv) -> int:
    scenario = os.environ.get('MCP_CONFORMANCE_SCENARIO', '')
    context = json.loads(os.environ.get('MCP_CONFORMANCE_CONTEXT') or '{}')
    client = {name: context[name] for name in ('client_id', 'client_secret') if name in context} or None
    one = host.Host(argv[0], host_signin.directly, client=client, document=DOCUMENT)
    one.serve['elicitation/create'] = accept_defaults
    one.meet(capabilities={'elicitation': {'form': {'applyDefaults': True}}})
    threading.Thread(target=one.stand_by, daemon=True).start()
    tools = one.list_tools()
    for call in context.get('toolCalls') or plain_calls(tools):
        one.call(call['name'], call['arguments'])
    print(f'{scenario}: {len(one.trips)} round trips')
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except (host.HostError, host_signin.SignInError) as fault:
        print(f'{type(fault).__name__}: {fault}', file=sys.stderr)
        sys.exit(1)
