"""A model's part, written down beforehand: what the real Claude Code needs of the Messages API, on a loopback port.

Not a test module. `ScriptedModel([...])` answers the n-th request that offers tools with the n-th reply: a text, or
('tool', NAME, ARGUMENTS), or a function of the tool results so far that gives one of these. Requests without tools (a title for the conversation, say) get a fixed text. `requests`
keeps what was sent.
"""
import http.server
import json
import threading


class ScriptedModel:
    def __init__(self, replies):
        self.replies, self.requests, self.faults = list(replies), [], []
        model, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get('Content-Length', 0))) or b'{}')
                if not self.path.startswith('/v1/messages') or 'count_tokens' in self.path:
                    return self.send_body(b'{"input_tokens": 1}', 'application/json')
                with lock:
                    reply = 'noted'
                    if body.get('tools'):
                        model.requests.append(body)
                        reply = model.replies.pop(0) if model.replies else 'nothing more is written down'
                        reply = reply(model.tool_results()) if callable(reply) else reply
                self.send_body(events(reply, body.get('model', 'model'), len(model.requests)), 'text/event-stream')

            def do_GET(self):
                self.send_body(b'{}', 'application/json')

            def do_HEAD(self):
                self.send_body(b'', 'application/json')

            def send_body(self, body, kind):
                self.send_response(200)
                self.send_header('Content-Type', kind)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def tool_names(self):
        return [tool['name'] for tool in self.requests[0]['tools']] if self.requests else []

    def tool_results(self):
        """The texts of the tool results that the last request sent back, in order."""
        found = []
        for turn in self.requests[-1]['messages'] if self.requests else []:
            for block in turn['content'] if isinstance(turn['content'], list) else []:
                if block.get('type') == 'tool_result':
                    content = block['content']
                    found.append(content if isinstance(content, str) else content[0]['text'])
        return found


def events(reply, model, number):
    """One reply as the stream of server-sent events that the Messages API gives."""
    block, delta, reason = text_block(reply) if isinstance(reply, str) else tool_block(number, *reply[1:])
    steps = [('message_start', {'message': {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': model, 'content': [],
                                            'stop_reason': None, 'stop_sequence': None,
                                            'usage': {'input_tokens': 10, 'output_tokens': 1}}}),
             ('content_block_start', {'index': 0, 'content_block': block}),
             ('content_block_delta', {'index': 0, 'delta': delta}),
             ('content_block_stop', {'index': 0}),
             ('message_delta', {'delta': {'stop_reason': reason, 'stop_sequence': None}, 'usage': {'output_tokens': 5}}),
             ('message_stop', {})]
    return ''.join(f'event: {kind}\ndata: {json.dumps({"type": kind, **data})}\n\n' for kind, data in steps).encode()


def text_block(text):
    return {'type': 'text', 'text': ''}, {'type': 'text_delta', 'text': text}, 'end_turn'


def tool_block(number, name, arguments):
    return ({'type': 'tool_use', 'id': f'toolu_{number:06d}', 'name': name, 'input': {}},
            {'type': 'input_json_delta', 'partial_json': json.dumps(arguments)}, 'tool_use')

