"""The real Claude Code with a token in a header list: it finds the server, lists the tools, and calls them."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from tests.interop import judges
from tests.interop.scripted_model import ScriptedModel
from tests.wire_world import Served

PREFIX = 'mcp__osfoundry__'
LONG_S = 240


class WithAHeader(unittest.TestCase):
    def setUp(self):
        self.program = judges.claude_code()
        self.served = Served()
        self.addCleanup(self.served.close)
        self.home = tempfile.mkdtemp(prefix='wire-')
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.config = os.path.join(self.home, 'mcp.json')
        with open(self.config, 'w') as file:
            json.dump({'mcpServers': {'osfoundry': {'type': 'http', 'url': self.served.url,
                                                    'headers': {'Authorization': f'Bearer {self.served.token}'}}}}, file)

    def claude(self, model, *arguments):
        environment = {'PATH': os.environ['PATH'], 'HOME': self.home, 'ANTHROPIC_BASE_URL': model.url, 'ANTHROPIC_API_KEY': 'x',
                       'CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC': '1', 'DISABLE_AUTOUPDATER': '1'}
        return subprocess.run([self.program, *arguments], cwd=self.home, env=environment, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=LONG_S)

    def test_it_lists_our_tools_calls_them_and_reads_a_refusal(self):
        read = ('tool', PREFIX + 'read_knowledge_article', {'knowledge_base_id': 'kb-a', 'article_id': 'refunds'})
        model = ScriptedModel([('tool', PREFIX + 'list_granted_resources', {}), read,
                               ('tool', read[1], {'knowledge_base_id': 'kb-b', 'article_id': 'refunds'}), 'The window is 30 days.'])
        self.addCleanup(model.close)
        names = [PREFIX + name for name in self.served.running.state.catalogue]
        done = self.claude(model, '-p', 'What is the refund window?', '--mcp-config', self.config, '--strict-mcp-config',
                           '--allowedTools', ','.join(names), '--output-format', 'stream-json', '--verbose')
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        begun = next(line for line in said if line.get('subtype') == 'init')
        self.assertEqual([(one['name'], one['status']) for one in begun['mcp_servers']], [('osfoundry', 'connected')])
        self.assertLessEqual(set(names), set(begun['tools']))
        granted, article, refusal = model.tool_results()
        self.assertEqual(json.loads(granted)['projects'][0]['name'], 'Project A')
        self.assertEqual(json.loads(article)['content'], '30 days')
        self.assertEqual(json.loads(refusal)['error'], 'not_in_project')
        self.assertEqual(said[-1]['result'], 'The window is 30 days.')

    def test_mcp_list_shows_it_connected(self):
        model = ScriptedModel([])
        self.addCleanup(model.close)
        added = self.claude(model, 'mcp', 'add', '--transport', 'http', 'osfoundry', self.served.url,
                            '--header', f'Authorization: Bearer {self.served.token}')
        self.assertEqual(added.returncode, 0, added.stderr)
        listed = self.claude(model, 'mcp', 'list')
        self.assertRegex(listed.stdout, r'osfoundry: .*external-mcp.* Connected')


if __name__ == '__main__':
    unittest.main()
