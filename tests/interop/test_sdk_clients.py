"""The clients of the field, `mcp` 2.x and `fastmcp` 4.x, with a token in a header: they list, they call, they read refusals."""
import json
import os
import subprocess
import unittest

from tests.interop import judges
from tests.wire_world import PATIENCE_S, TOP, Served

import mcp


class WithClients(unittest.TestCase):
    def run_client(self, which):
        """(what the client saw, the requests that we saw)"""
        python = judges.python_with('mcp', 'fastmcp')
        served, seen = Served(), []
        self.addCleanup(served.close)
        handle = served.running.wire.handle

        def recorded(request):
            seen.append((request.headers.get('mcp-protocol-version'),
                         json.loads(request.body)['method'] if request.body else request.method))
            return handle(request)
        served.running.wire.handle = recorded
        environment = {'PATH': os.environ['PATH'], 'HOME': served.folder, 'TOKEN': served.token}
        done = subprocess.run([python, os.path.join(TOP, 'tests', 'interop', 'sdk_client.py'), which, served.url], text=True,
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        saw = json.loads(done.stdout)
        self.assertEqual(saw['names'], list(served.running.state.catalogue))
        (failed, granted, _), (_, article, _), (refused, nothing, text) = saw['results']
        self.assertEqual((failed, [project['name'] for project in granted['projects']]), (False, ['Project A']))
        self.assertEqual(article['content'], '30 days')
        self.assertEqual((refused, nothing, json.loads(text)['error']), (True, None, 'not_in_project'))
        return seen


class Handshake(WithClients):
    def test_mcp_lists_and_calls_after_a_handshake(self):
        seen = self.run_client('mcp-legacy')
        self.assertEqual({version for version, _ in seen[1:]} - {None}, {'2025-11-25'})
        self.assertEqual([method for _, method in seen if method not in ('GET', 'DELETE')],
                         ['initialize', 'notifications/initialized', 'tools/list'] + ['tools/call'] * 3)


class Stateless(WithClients):
    def test_in_their_default_mode_mcp_and_fastmcp_make_only_calls_of_2026_07_28(self):
        for which in ('mcp-auto', 'fastmcp'):
            with self.subTest(client=which):
                seen = self.run_client(which)
                self.assertEqual({version for version, _ in seen}, set(mcp.MODERN_VERSIONS))
                self.assertEqual(seen[0][1], 'server/discover')
                self.assertNotIn('initialize', {method for _, method in seen})


if __name__ == '__main__':
    unittest.main()
