"""The official conformance suite against our server: every scenario that applies to a server with tools only."""
import re
import socket
import subprocess
import tempfile
import threading
import unittest

from tests.interop import judges
from tests.wire_world import PATIENCE_S, Served

RELEASED, NEXT = '@modelcontextprotocol/conformance', 'conformance-next'    # 0.1.16, and the pre-release with 2026-07-28
SCENARIOS = ('server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection')
# The other scenarios call the tools, resources and prompts of the suite's own example server, or want
# logging, completion, sampling, elicitation, tasks and event streams, none of which the articles' server offers.
STATELESS = {
    'server-stateless': {'sep-2575-server-rejects-undeclared-capability',       # calls the example server's own
                         'sep-2575-missing-capability-http-400'},               # tool, which needs a capability
    'http-header-validation': set(),
    'caching': {'sep-2549-prompts-list-caching-hints', 'sep-2549-resources-list-caching-hints',      # no prompts, no
                'sep-2549-resources-templates-list-caching-hints', 'sep-2549-resources-read-caching-hints'},    # resources
    'tools-list': set(),
    'dns-rebinding-protection': set(),
}


class Relay:
    """Adds our token to every request on its way, byte for byte otherwise: the suite has no option for a header."""

    def __init__(self, port, token):
        self.target, self.line = port, b'Authorization: Bearer ' + token.encode() + b'\r\nConnection: close\r\n'
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        """One request a connection, and its answer until the server closes."""
        with client, socket.create_connection(('127.0.0.1', self.target)) as target:
            data = b''
            while b'\r\n\r\n' not in data:
                data += client.recv(65536) or b'\r\n\r\n'
            head, _, body = data.partition(b'\r\n\r\n')
            length = int((re.search(rb'(?i)\r\ncontent-length: *([0-9]+)', head) or [0, 0])[1])
            while len(body) < length:
                body += client.recv(65536)
            head = re.sub(rb'(?i)\r\nconnection:[^\r]*', b'', head)
            first, _, rest = head.partition(b'\r\n')
            target.sendall(first + b'\r\n' + self.line + rest + b'\r\n\r\n' + body)
            while True:
                answer = target.recv(65536)
                if not answer:
                    return
                client.sendall(answer)

    def close(self):
        self.listener.close()


def run(package, scenario, url, *more):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([judges.node(), judges.package(package, 'dist/index.js'), 'server', '--url', url,
                               '--scenario', scenario, *more], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=4 * PATIENCE_S)


def verdicts(output):
    """The checks with their verdicts: [(check, 'SUCCESS'), ...]."""
    plain = re.sub(r'\x1b\[[0-9;]*m', '', output)
    return re.findall(r'\[([a-z0-9-]+) *\] ([A-Z]+)', plain)


class Scenarios(unittest.TestCase):
    def setUp(self):
        judges.package(self.package, 'dist/index.js')
        self.served = Served()
        self.addCleanup(self.served.close)


class Released(Scenarios):
    package = RELEASED

    def test_the_scenarios_that_apply_pass_without_a_warning(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario=scenario):
                done = run(RELEASED, scenario, self.served.url)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout, r'Passed: ([1-9][0-9]*)/\1, 0 failed, 0 warnings')


class Prerelease(Scenarios):
    package = NEXT

    def test_the_stateless_scenarios_pass_but_for_the_checks_that_need_the_suites_own_server(self):
        relay = Relay(self.served.port, self.served.token)
        self.addCleanup(relay.close)
        for scenario, not_ours in STATELESS.items():
            with self.subTest(scenario=scenario):
                # One check wants a call to succeed, so it needs a token; the others are about what needs none.
                port = relay.port if scenario == 'http-header-validation' else self.served.port
                url = self.served.url.replace(str(self.served.port), str(port))
                done = run(NEXT, scenario, url, '--spec-version', '2026-07-28')
                checks = verdicts(done.stdout)
                self.assertTrue({verdict for _, verdict in checks} >= {'SUCCESS'}, done.stdout)
                failed = {check for check, verdict in checks if verdict not in ('SUCCESS', 'INFO', 'SKIPPED')}
                self.assertEqual(failed - not_ours, set(), done.stdout)


if __name__ == '__main__':
    unittest.main()
