"""published_proposals.py - every figure that article 4 prints.

The transcript (client.py scenario), what happens to two approvals and to a crash in both modes (client.py race and
client.py crash), what each operation costs and how many processes it starts (bench.py proposals). In the transcript
ids stand under names: SEED, A and B2 are commits, PA, PB and PB2 proposals.

Not here: the records and the printer (published.py), the measurements.
"""
from published import Cell, Table

# --- data ---------------------------------------------------------------------

PENDING = '"status": "pending", "base_oid": "%s"'
STEPS = (
    ('read_repo', 'head SEED  (1 commit)'),
    ('propose A  README.md  key=readme-fix-0001', '{"proposal_id": "PA", ' + PENDING % 'SEED' + '}'),
    ('propose A  (retry, same key+body)', '{"proposal_id": "PA", ' + PENDING % 'SEED' + ', "replayed": true}'),
    ("propose A' (same key, other body)", 'idempotency_key_reused_with_different_body'),
    ('propose B  app.py     key=app-bump-0001', '{"proposal_id": "PB", ' + PENDING % 'SEED' + '}'),
    ('decide A with the agent token', "HTTP 403 {'error': 'agent_scope_denied'}"),
    ('owner approves A', 'HTTP 200 {"status": "executed", "commit": "A"}  (2 commits)'),
    ('owner approves B',
     'HTTP 200 {"status": "stale", "refused": true, "base_oid": "SEED", "branch_head": "A"}  (2 commits)'),
    ('propose B2 on new head', '{"proposal_id": "PB2", ' + PENDING % 'A' + '}'),
    ('owner approves B2, crash before DB', "HTTP 500 {'error': 'injected: crash after git, before DB'}  (3 commits)"),
    ('owner retries approval of B2', 'HTTP 200 {"status": "executed", "commit": "B2", "replayed": true}  (3 commits)'),
    ('owner clicks approve on A again',
     'HTTP 200 {"status": "executed", "commit": "A", "replayed": true}  (3 commits)'),
    ('approve after decline', "HTTP 200 {'status': 'declined', 'refused': True}  (3 commits)"),
    ('approve after expiry (ttl 0.3 s)', "HTTP 200 {'status': 'expired', 'refused': True}  (1 commit)"),
)
LOG = ('B2 Claude (conn-claude-research) | repo-owner | Bump app',
       'A Claude (conn-claude-research) | repo-owner | Pin install version',
       'SEED owner | owner | seed')
SCENARIO = Table(4, 'What the scripted Claude saw', [
    *(Cell(row, 'answer', answer) for row, answer in STEPS),
    *(Cell(f'git log, line {number}', 'text', line) for number, line in enumerate(LOG, 1))])

CAS, NAIVE = 'CAS + marker', 'naive'
BOTH, LOST = 'both reported "executed"', 'approved commits not on main'


def race_cells(row: str, both: int, lost: int) -> list:
    return [Cell(row, BOTH, both, judged='range', of=100), Cell(row, LOST, lost, judged='range')]


RACE = Table(4, 'Race: two proposals on one base, approved at one instant', [
    *race_cells(CAS + ', run 1', 0, 0), *race_cells(CAS + ', run 2', 0, 0),
    *race_cells(NAIVE + ', run 1', 100, 100), *race_cells(NAIVE + ', run 2', 100, 100)])
OURS_PACK, TWO_SERVERS = 'one pack', 'one pack, two servers'
PUSH, PUSH_NAIVE = 'one pack against git push', 'naive against git push'
EXECUTED, WINNER, PUSHED = 'one executed, one stale', 'stale names the new head', 'pushes lost'
RACE_MORE = Table(4, 'The same race, beyond the article', [
    *(Cell(row, column, None, judged='range') for row in (OURS_PACK, TWO_SERVERS)
      for column in (BOTH, LOST, EXECUTED, WINNER)),
    *(Cell(PUSH, column, None, judged='range') for column in (LOST, PUSHED)),
    *(Cell(PUSH_NAIVE, column, None, judged='shown') for column in (LOST, PUSHED))])   # whichever it loses
REPLAYED, STALE, DOUBLED = 'executed (replayed)', 'stale', 'commits of one proposal'
CRASH = Table(4, 'Crash after git, then a retry', [
    Cell(f'{mode}, run {run}', column, 50 * (column == wanted), judged='range', of=50)
    for mode, wanted in ((CAS, REPLAYED), (NAIVE, STALE)) for run in (1, 2) for column in (REPLAYED, STALE)])
CRASH_MORE = Table(4, 'Commits that the retry found and left', [
    Cell(f'{mode}, run {run}', DOUBLED, 1, judged='range', low=1, high=1,
         reason='the most that any proposal has on main') for mode in (CAS, NAIVE) for run in (1, 2)])
KILLED = Table(4, 'The server killed at a random instant, started again, approved again', [
    Cell('kills', column, None, judged='range', low=0, high=0)
    for column in ('commits lost', 'commits doubled', 'locks left', 'wrong answers', 'fsck complaints')])

OPERATIONS = ('propose (new key)', 'propose (same key, replay)', 'approve, executed', 'approve, refused as stale',
              'approve again, already executed')
NO_MAC = 'milliseconds of a loaded Apple M1'
PUBLISHED_MS = {                          # (CAS median, CAS p95, naive median, naive p95), run 1 to run 2
    'propose (new key)': ('4.42-4.44', '7.1-12.3', '4.08-4.66', '6.4-10.0'),
    'propose (same key, replay)': ('1.42-1.50', '3.3-4.5', '1.27-1.49', '2.4-4.1'),
    'approve, executed': ('115-119', '199-257', '92-105', '130-193'),
    'approve, refused as stale': ('28-31', '52-70', '14-17', '24-34'),
    'approve again, already executed': ('1.46-1.60', '3.4-4.7', '1.38-1.54', '2.6-4.2'),
}
COLUMNS = ('CAS median', 'CAS p95', 'naive median', 'naive p95')
COST = Table(4, 'Wall time of a request', [
    Cell(row, column, value, judged='not run here', unit='ms', reason=NO_MAC)
    for row, values in PUBLISHED_MS.items() for column, value in zip(COLUMNS, values)])
COST_HERE = Table(4, 'The same here', [
    Cell(row, column, None, judged='shown', unit='ms')
    for row in OPERATIONS for column in (*COLUMNS, 'one pack, median', 'one pack, p95')])
ORDER = Table(4, 'Which is dearer', [
    Cell('replay before new (propose)', 'CAS', 0.33, judged='ratio', high=1.0),
    Cell('replay before new (propose)', 'naive', 0.31, judged='ratio', high=1.0),
    Cell('again before stale (approve)', 'CAS', 0.05, judged='ratio', high=1.0),
    Cell('again before stale (approve)', 'naive', 0.09, judged='ratio', high=1.0),
    Cell('stale before executed (approve)', 'CAS', 0.25, judged='ratio', high=1.0),
    Cell('stale before executed (approve)', 'naive', 0.16, judged='ratio', high=1.0)])

# The article's list has eight names; less the marker's look-up that is seven, not the six of its text. Between the
# naive look and its write stand read-tree, hash-object, update-index, write-tree and commit-tree: five, not four.
PROCESSES = Table(4, 'git processes an operation', [
    Cell('CAS, executed', 'processes', 8), Cell('CAS, refused as stale', 'processes', 2),
    Cell('CAS, already executed', 'processes', 0),
    Cell('naive, executed', 'processes', 6, judged='range', low=7, high=7,
         reason='erratum: its own list of eight less the marker\'s look-up is seven'),
    Cell('naive, refused as stale', 'processes', 1), Cell('naive, already executed', 'processes', 0),
    Cell('naive, between look and write', 'processes', 4, judged='range', low=5, high=5,
         reason='erratum: read-tree, hash-object, update-index, write-tree, commit-tree'),
    Cell('one pack, executed', 'processes', None, judged='range', low=0, high=0,
         reason='its two git processes stay open'),
    Cell('one pack, refused as stale', 'processes', None, judged='range', low=0, high=0),
    Cell('one git process', 'time', 14, judged='shown', unit='ms',
         reason='"about", on a loaded Apple M1; here git --version, median')])
WAYS = {'small, 1 file': 4.0, 'small, 20 x 10 KB': 2.5, '20,000 files, 1 file': 15.0, '20,000 files, 20 x 10 KB': 10.0}
LAST_WAY = '20,000 files, 20 x 10 KB'
APPROVAL = Table(4, 'A whole approval against the article\'s eight processes (times faster)', [
    cell for row, least in WAYS.items() for cell in (
        Cell(row, 'one pack', None, judged='ratio', low=least),
        Cell(row, 'pygit2', None, judged='ratio' if row == LAST_WAY else 'shown'),      # there we must be faster
        Cell(row, 'dulwich', None, judged='shown'))])
IN_SERVER = Table(4, 'In the server, without HTTP', [
    Cell('approve again, already executed', 'median', None, judged='range', unit='ms', high=0.5),
    Cell('approve, refused as stale', 'median', None, judged='range', unit='ms', high=1.0)])
GROWTH = Table(4, 'How it grows', [
    Cell('1,000 proposals, 10,000 references', 'approval, times the first', None, judged='ratio', high=3.0),
    Cell('1,000 proposals, 10,000 references', 'replay, times the first', None, judged='ratio', high=3.0)])

TABLES = [SCENARIO, RACE, RACE_MORE, CRASH, CRASH_MORE, KILLED, COST, COST_HERE, ORDER, PROCESSES, APPROVAL, IN_SERVER,
          GROWTH]
