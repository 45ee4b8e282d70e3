"""fake_messages.py - a stand-in for the Messages API: what a resident Claude Code needs of a model, on a loopback port.

Article 2, for its simulation on the real program (bench_warm.py): every request is kept, every answer is written down
beforehand, and nothing leaves the machine. Only requests that offer tools take an answer; a title for the conversation
and the like get a word of their own.

    python3 fake_messages.py        serves on a free port and says each request's size, until Ctrl-C

Not here: a model, tokens of a provider, an account.
"""
import http.server
import json
import sys
import threading
from typing import List, NamedTuple, Optional, Sequence

# --- data ---------------------------------------------------------------------

OTHER = 'noted'                  # for requests without tools
NOTHING_LEFT = 'nothing more is written down'
BODY_BYTES = 64 * 1024 * 1024


class Exchange(NamedTuple):
    """A request that offered tools, as it was sent."""
    body: dict
    size_bytes: int


# --- rules --------------------------------------------------------------------

def events(text: str, model: str, number: int) -> bytes:
    """One answer as the server-sent events of the API."""
    message = {'id': f'msg_{number:06d}', 'type': 'message', 'role': 'assistant', 'model': model, 'content': [],
               'stop_reason': None, 'stop_sequence': None, 'usage': {'input_tokens': 1, 'output_tokens': 1}}
    steps = [('message_start', {'message': message}),
             ('content_block_start', {'index': 0, 'content_block': {'type': 'text', 'text': ''}}),
             ('content_block_delta', {'index': 0, 'delta': {'type': 'text_delta', 'text': text}}),
             ('content_block_stop', {'index': 0}),
             ('message_delta', {'delta': {'stop_reason': 'end_turn', 'stop_sequence': None},
                                'usage': {'output_tokens': 1}}),
             ('message_stop', {})]
    return ''.join(f'event: {kind}\ndata: {json.dumps({"type": kind, **data})}\n\n' for kind, data in steps).encode()


# --- I/O ----------------------------------------------------------------------

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(min(int(self.headers.get('Content-Length', 0)), BODY_BYTES)) or b'{}')
        if not self.path.startswith('/v1/messages') or 'count_tokens' in self.path:
            return self.answer(b'{"input_tokens": 1}', 'application/json')
        text, number = self.server.model.next_answer(body, int(self.headers.get('Content-Length', 0)))
        self.answer(events(text, body.get('model', 'model'), number), 'text/event-stream')

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

    def __init__(self, answers: Sequence[str] = ()) -> None:
        self.answers, self.exchanges, self.lock = list(answers), [], threading.Lock()    # type: List[str], List, ...
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads, self.server.model = True, self
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def next_answer(self, body: dict, size_bytes: int) -> tuple:
        with self.lock:
            if not body.get('tools'):
                return OTHER, 0
            self.exchanges.append(Exchange(body, size_bytes))
            return (self.answers.pop(0) if self.answers else NOTHING_LEFT), len(self.exchanges)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


# --- main ---------------------------------------------------------------------

def main(argv: Optional[Sequence[str]] = None) -> int:
    if argv:
        print(__doc__, file=sys.stdout if argv[0] in ('-h', '--help') else sys.stderr)
        return 0 if argv[0] in ('-h', '--help') else 2
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
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
