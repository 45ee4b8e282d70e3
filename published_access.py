"""published_access.py - every figure that article 7 prints.

The transcript in both designs (client.py access), what a host sees before it has a token (client.py hello), and
what the check costs (bench.py access, which adds the rows of the database that the article could not measure).

Not here: the records and the printer (published.py), the measurements.
"""
from typing import Sequence

from published import Cell, Table

# --- data ---------------------------------------------------------------------

PER_CALL, TOKEN_ONLY = 'check on every call', 'token only'
NO_MAC = 'an Apple M1 in Tokyo against the live service'

STEPS = (                                 # step, then the answer in both designs, or in each
    ('1 fresh connection, no project yet', '200 OK   []'),
    ('2 after owner adds project A', '200 OK   ["note-a1"]'),
    ('3 read note in A', '200 OK   "Q3 launch checklist"'),
    ('4 read note in B (never added)', '200 DENY not_in_project'),
    ('5 write with a read-only token', '403 DENY insufficient_scope'),
    ('6 write with read+write token', '200 OK   "saved"'),
    ('7 same read after note moved to B', '200 DENY not_in_project'),
    ('8 same read after owner removes project A', '200 DENY not_in_project', '200 OK   "Q3 launch checklist v2"'),
    ('9 same read after revoke', '200 DENY connection_revoked', '200 OK   "Q3 launch checklist v2"'),
)

SCENARIO = Table(7, 'The nine steps, in both designs', [
    Cell(step, design, answers[0] if design == PER_CALL else answers[-1])
    for design in (PER_CALL, TOKEN_ONLY) for step, *answers in STEPS])

DISCOVERY = Table(7, 'From the first call to a token', [
    Cell('first call', 'status', 401),
    Cell('discovery', 'round trips', 5),
    Cell('registration', 'round trips', None, judged='range', low=1, high=1, reason='of a client nobody registered'),
    Cell('consent page', 'round trips', None, judged='range', low=2, high=2, reason='a GET and a POST of the browser'),
    Cell('discovery', 'metadata', '/.well-known/oauth-protected-resource/mcp', judged='not run here',
         reason='ours is /.well-known/oauth-protected-resource/api/v1/external-mcp, as the live service has it'),
    Cell('token', 'expires_in', 3_600, unit='s'),
    Cell('discovery', 'time', '7.5-13.4', judged='shown', unit='ms',
         reason='milliseconds are a machine\'s own; 11.3 in its transcript, 34 once under load'),
    Cell('live: the three legs without a person', 'time', 1.6, judged='not run here', unit='s', reason=NO_MAC),
])

BEFORE_A_TOKEN = Table(7, 'What the client sees before it has a token', [
    Cell('initialize', 'status', 200),
    Cell('initialize', 'protocol', '2025-06-18'),
    Cell('initialize', 'server', 'osfoundry 0.1.0'),
    Cell('initialize', 'instructions', 'list_granted_resources first; exact tab ID; local-only data'),
    Cell('tools/list', 'status', 200),
    Cell('tools/list', 'tools', 59, judged='not run here', reason='the articles name 32 of the 59'),
    Cell('tools/list', 'size', 45_368, judged='not run here', unit='bytes', reason='of the live catalogue'),
    Cell('tools/list', 'need osfoundry:read', 30, judged='not run here', reason='of the live catalogue'),
    Cell('tools/list', 'need osfoundry:write', 26, judged='not run here', reason='of the live catalogue'),
    Cell('tools/list', 'need osfoundry:run', 3),
    Cell('tools/list', 'size of a tool', 769, judged='ratio', unit='bytes', high=769),
    Cell('tools/call', 'status', 401),
    Cell('tools/call', 'content', 'Authentication required'),
    Cell('tools/call', 'error_description', 'Connect osFoundry to continue'),
    Cell('GET on the endpoint', 'status', 405),
    Cell('metadata, suffix after the host', 'status', 200),
    Cell('metadata, at the root', 'status', 200),
    Cell('metadata, at the root', 'same document', 'yes'),
    Cell('metadata, under the endpoint', 'status', 404),
])

# Timings are a machine's own. What is judged is the article's sentence about them, that the check disappears in a
# loopback call: each check must be below the call measured in the same run.
COST = Table(7, 'What the check costs', [
    Cell(PER_CALL, 'access() median', '1.3-1.6', judged='order', unit='µs'),
    Cell(PER_CALL, 'access() p99', '6.1-7.0', judged='order', unit='µs'),
    Cell(PER_CALL, 'tool call on loopback, median', '430-780', judged='order', unit='µs'),
    Cell(TOKEN_ONLY, 'access() median', '0.7-1.6', judged='order', unit='µs'),
    Cell(TOKEN_ONLY, 'access() p99', '3.5-7.7', judged='order', unit='µs'),
    Cell(TOKEN_ONLY, 'tool call on loopback, median', '350-1,360', judged='order', unit='µs'),
    Cell('discovery', 'round trips', 5),
    Cell('live: initialize', 'median', 790, judged='not run here', unit='ms', reason=NO_MAC),
    Cell('live: tools/list', 'median', 816, judged='not run here', unit='ms', reason=NO_MAC),
    Cell('live: tools/call with 401', 'median', 565, judged='not run here', unit='ms', reason=NO_MAC),
    Cell('live: each metadata document', 'median', '520-530', judged='not run here', unit='ms', reason=NO_MAC),
])

# A check is a handful of look-ups by key. A tree of a million rows is four levels deep and one of ten rows is one, so
# the check grows with the depth; with the number it would grow a hundred thousand times.
MOST_GROWTH, MOST_SHARE = 2.0, 10.0

TABLES = [SCENARIO, DISCOVERY, BEFORE_A_TOKEN, COST]

# --- rules --------------------------------------------------------------------

def on_database(sizes: Sequence[int]) -> Table:
    """The rows that the article could not measure: timings as they are, judged by their growth and their share."""
    cells = []
    for size in sizes:
        row = f'{size:,} items'
        cells += [Cell(row, column, None, judged='shown', unit='µs')
                  for column in ('in memory', 'on the database', 'p99')]
        cells += [Cell(row, 'in memory, against the smallest', None, judged='shown', unit='times'),
                  Cell(row, 'against the smallest', None, judged='shown' if size == sizes[0] else 'ratio',
                       unit='times', high=MOST_GROWTH),
                  Cell(row, 'share of a loopback call', None, judged='ratio', unit='%', high=MOST_SHARE)]
    return Table(7, 'The check on the database', cells)
