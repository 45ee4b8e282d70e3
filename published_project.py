"""published_project.py - what article 6 prints: the set-up click by click, the real run, and where the limit is.

The article has no timings. Its figures are counts of one example (1 project, 9 entries of which 3 are open, 14 days
against 30) and outcomes, which client.py setup and client.py project play for real and compare as text, in our
words.

Not here: the records and the printer (published.py), the runs (runs_setup.py, runs_project.py).
"""
from published import Cell, Table

# --- data ---------------------------------------------------------------------

ADDRESS = '/api/v1/external-mcp'

SETUP = Table(6, 'The set-up, click by click', [
    Cell('1 Add assistant: Claude, "Claude research"', 'state', 'pending'),
    Cell('1 Add assistant: Claude, "Claude research"', 'server address', ADDRESS),
    Cell('2 Claude has the address only', 'first call', '401'),
    Cell('2 Claude has the address only', 'client ID or key to paste', 'none'),
    Cell('3 consent page', 'title', 'Connect an agent'),
    Cell('3 consent page', 'workspaces to choose', 1),
    Cell('3 consent page', 'capabilities in plain words', 3),
    Cell('3 consent page', 'connections', 'Create a new connection | Use pending: Claude research'),
    Cell('3 consent page', 'preselected', 'Create a new connection'),
    Cell('3 Connect', 'state', 'active'),
    Cell('3 Connect', 'projects', 0),
    Cell('4 Add to project', 'opens', 'channel, knowledge_base, note, record_channel, repository, room'),
    Cell('4 a Note added to the project later', 'read', 'ok'),
    Cell('4 a Note that is only on a device', 'read', 'not_found'),
    Cell('4 a Message channel', 'before Invite', 'not_invited'),
    Cell('4 a Message channel', 'after Invite', 'ok'),
    Cell('4 Tools', 'on by default', 'all'),
    Cell('4 one tool unticked, Save tools', 'that tool', 'tool_not_enabled'),
    Cell('4 one tool unticked, Save tools', 'the others', 'ok'),
    Cell('Revoke connection', 'next call', 'connection_revoked'),
    Cell('Recent activity', 'calls listed', 'every one'),
])

TABLES = [SETUP]
