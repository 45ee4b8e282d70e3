"""fake_messages.py - a stand-in for the Messages API: what a resident Claude Code needs of a model, on a loopback port.

Article 2, for its simulation on the real program (bench_warm.py), and wherever Claude Code itself is the judge: every
request is kept, every answer is written down beforehand, and nothing leaves the machine. An answer is a text, or
('tool', NAME, ARGUMENTS), or a function of the tool results so far that gives one of these. Only requests that offer
tools take one; a title for the conversation and the like get a word of their own.

    python3 fake_messages.py        serves on a free port and says each request's size, until Ctrl-C

Not here: a model, tokens of a provider, an account.
"""
import argparse
import http.server
import json
import sys
import threading
from typing import Callable, Iterable, List, NamedTuple, Sequence, Tuple, Union

import ending

# --- data ---------------------------------------------------------------------

OTHER = 'noted'                  # for requests without tools
NOTHING_LEFT = 'nothing more is written down'
BODY_BYTES = 64 * 1024 * 1024


Answer = Union[str, Tuple[str, str, dict], Callable[[List[str]], object]]


class Exchange(NamedTuple):
    """A request that offered tools, as it was sent."""
    body: dict
    size_bytes: int


# --- rules --------------------------------------------------------------------

def events(answer: Answer, model: str, number: int) -> bytes:
    """One answer as the server-sent events of the API."""
    block, delta, reason = text_block(answer) if isinstance(answer, str) else tool_block(number, *answer[1:])
    message = {'id': f'msg_{number:06d}', 'type': 'message', 'role': 'assistant', 'model': model, 'content': [],
               'stop_reason': None, 'stop_sequence': None, 'usage': {'input_tokens': 1, 'output_tokens': 1}}
    steps = [('message_start', {'message': message}),
             ('content_block_start', {'index': 0, 'content_block': block}),
             ('content_block_delta', {'index': 0, 'delta': delta}),
             ('content_block_stop', {'index': 0}),
             ('message_delta', {'delta': {'stop_reason': reason, 'stop_sequence': None},
                                'usage': {'output_tokens': 1}}),
             ('message_stop', {})]
    return ''.join(f'event: {kind}\ndata: {json.dumps({"type": kind, **data})}\n\n' for kind, data in steps).encode()


def text_block(text: str) -> Tuple[dict, dict, str]:
    return {'type': 'text', 'text': ''}, {'type': 'text_delta', 'text': text}, 'end_turn'


def tool_block(number: int, name: str, arguments: dict) -> Tuple[dict, dict, str]:
    return ({'type': 'tool_use', 'id': f'toolu_{number:06d}', 'name': name, 'input': {}},
            {'type': 'input_json_delta', 'partial_json': json.dumps(arguments)}, 'tool_use')


def tool_results(body: dict) -> List[str]:
    """The texts of the tool results that a request sends back, in order."""
    found = []
    for turn in body['messages']:
        for block in turn['content'] if isinstance(turn['content'], list) else []:
            if block.get('type') == 'tool_result':
                content = block['content']
                found.append(content if isinstance(content, str) else content[0]['text'])
    return found


# --- I/O ----------------------------------------------------------------------

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(min(int(self.headers.get('Content-Length', 0)), BODY_BYTES)) or b'{}')
        if not self.path.startswith('/v1/messages') or 'count_tokens' in self.path:
            return self.answer(b'{"input_tokens": 1}', 'application/json')
        answer, number = self.server.model.next_answer(body, int(self.headers.get('Content-Length', 0)))
        self.answer(events(answer, body.get('model', 'model'), number), 'text/event-stream')

    def do_GET(self) -> None:
        self.answer(b'{}', 'application/json')

    do_HEAD = do_GET

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Model:
    """The server and what it was asked. `answers` are given in order, one to a request with tools."""

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.answers, self.exchanges, self.lock = list(answers), [], threading.Lock()    # type: List[Answer], List, ...
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads, self.server.model = True, self
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def next_answer(self, body: dict, size_bytes: int) -> Tuple[object, int]:
        with self.lock:
            if not body.get('tools'):
                return OTHER, 0
            self.exchanges.append(Exchange(body, size_bytes))
            answer = self.answers.pop(0) if self.answers else NOTHING_LEFT
            return (answer(tool_results(body)) if callable(answer) else answer), len(self.exchanges)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    model = Model()
    print(f'ANTHROPIC_BASE_URL={model.url}', flush=True)
    told = 0
    try:
        while model.thread.is_alive():
            model.thread.join(0.2)
            while told < len(model.exchanges):
                print(f'{model.exchanges[told].size_bytes:,} bytes', flush=True)
                told += 1
    finally:
        model.close()
    return 0


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
