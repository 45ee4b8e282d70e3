"""The smallest MCP server over stdio: `echo` answers, `boom` fails, `sleep` hangs with a child. Not a test module."""
import json
import subprocess
import sys

SCHEMA = {'type': 'object', 'properties': {'text': {'type': 'string'}}}
TOOLS = [{'name': name, 'description': name, 'inputSchema': SCHEMA} for name in ('echo', 'boom', 'sleep')]


def answer(request):
    method, params = request['method'], request.get('params') or {}
    if method == 'initialize':
        return {'protocolVersion': params['protocolVersion'], 'capabilities': {'tools': {}},
                'serverInfo': {'name': 'tiny', 'version': '1'}}
    if method == 'tools/list':
        return {'tools': TOOLS}
    if method == 'tools/call' and params['name'] == 'echo':
        return {'content': [{'type': 'text', 'text': 'echo: ' + params['arguments'].get('text', '')}]}
    if method == 'tools/call' and params['name'] == 'sleep':
        subprocess.run(['sleep', params['arguments']['text']])
        return {'content': []}
    return None


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if 'id' not in request:
            continue
        result = answer(request)
        outcome = {'error': {'code': -32000, 'message': 'tool exploded'}} if result is None else {'result': result}
        print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], **outcome}), flush=True)


if __name__ == '__main__':
    main()
