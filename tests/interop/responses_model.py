"""A model's part for the real Codex: what it needs of the Responses API, on a loopback port. Not a test module.

`ResponsesModel([...])` answers the n-th request with the n-th reply: a list of items made by `message`, `reasoning`,
`shell`, `tool`, or one of the ways to go wrong: `Status`, `CUT`, `Failed`. `requests` keeps what was sent.
"""
import http.server
import json
import threading
from typing import NamedTuple

USAGE = {'input_tokens': 100, 'input_tokens_details': {'cached_tokens': 40}, 'output_tokens': 20,
         'output_tokens_details': {'reasoning_tokens': 5}, 'total_tokens': 120}


class Status(NamedTuple):
    """An HTTP error instead of a stream."""
    code: int
    body: dict


class Failed(NamedTuple):
    """A stream that ends in response.failed."""
    message: str


CUT = 'cut'                      # a stream that ends before it is complete


def message(text):
    return {'type': 'message', 'role': 'assistant', 'content': [{'type': 'output_text', 'text': text}]}


def reasoning(text):
    return {'type': 'reasoning', 'summary': [{'type': 'summary_text', 'text': text}], 'encrypted_content': None}


def shell(command, **arguments):
    return call('exec_command', {'cmd': command, **arguments})


def tool(server, name, arguments):
    return {**call(name, arguments), 'namespace': f'mcp__{server}'}


def call(name, arguments):
    return {'type': 'function_call', 'name': name, 'arguments': json.dumps(arguments), 'call_id': f'call_{name}'}


class ResponsesModel:
    def __init__(self, replies):
        self.replies, self.requests = list(replies), []
        model, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get('Content-Length', 0))) or b'{}')
                with lock:
                    model.requests.append(body)
                    reply = model.replies.pop(0) if model.replies else [message('nothing more is written down')]
                if isinstance(reply, Status):
                    return self.send_body(reply.code, json.dumps(reply.body).encode(), 'application/json')
                self.send_body(200, events(reply, len(model.requests)), 'text/event-stream')

            def do_GET(self):
                self.send_body(404, b'{}', 'application/json')

            def send_body(self, code, body, kind):
                self.send_response(code)
                self.send_header('Content-Type', kind)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}/v1'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def flags(self):
        """What points Codex at this model, without a line in anybody's configuration."""
        provider = f'{{name="scripted",base_url="{self.url}",wire_api="responses"}}'
        return ['-c', 'model_provider="scripted"', '-c', f'model_providers.scripted={provider}',
                '-c', 'model="scripted"']

    def outputs(self):
        """What the tools gave back, as the last request has it."""
        return [item['output'] for item in self.requests[-1]['input'] if item['type'].endswith('_output')]


def events(reply, number):
    """One reply as the stream of server-sent events that the Responses API gives."""
    steps = [{'type': 'response.created', 'response': {'id': f'resp_{number}'}}]
    if isinstance(reply, Failed):
        steps.append({'type': 'response.failed', 'response': {
            'id': f'resp_{number}', 'error': {'code': 'invalid_prompt', 'message': reply.message}}})
    elif reply != CUT:
        steps += [{'type': 'response.output_item.done', 'item': {'id': f'item_{number}_{n}', **item}}
                  for n, item in enumerate(reply)]
        steps.append({'type': 'response.completed', 'response': {'id': f'resp_{number}', 'usage': USAGE}})
    return ''.join(f'event: {step["type"]}\ndata: {json.dumps(step)}\n\n' for step in steps).encode()
