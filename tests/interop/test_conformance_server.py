"""The official conformance suite against our server: every scenario that applies to a server with tools only."""
import subprocess
import tempfile
import unittest

from tests.interop import judges
from tests.wire_world import PATIENCE_S, Served

RELEASED = '@modelcontextprotocol/conformance'                  # 0.1.16: protocol 2025-06-18 and 2025-11-25
SCENARIOS = ('server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection')
# The other scenarios call the tools, resources and prompts of the suite's own example server, or want
# logging, completion, sampling, elicitation and event streams, none of which the articles' server offers.


def run(package, scenario, url, *more):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([judges.node(), judges.package(package, 'dist/index.js'), 'server', '--url', url,
                               '--scenario', scenario, *more], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)


class Scenarios(unittest.TestCase):
    def test_the_scenarios_that_apply_pass_without_a_warning(self):
        judges.package(RELEASED, 'dist/index.js')
        served = Served()
        self.addCleanup(served.close)
        for scenario in SCENARIOS:
            with self.subTest(scenario=scenario):
                done = run(RELEASED, scenario, served.url)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout, r'Passed: ([1-9][0-9]*)/\1, 0 failed, 0 warnings')


if __name__ == '__main__':
    unittest.main()
