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

RUN = Table(6, 'The real run, call by call', [
    Cell('1 list_granted_resources', 'answer', '1 project: "Launch Q3"'),
    Cell('2 list_project_resources note "checklist"', 'answer', 'Note "Q3 launch checklist"'),
    Cell('3 list_note_tabs', 'answer', 'Note (note), Owners (sheet)'),
    Cell('4 read_note_tab', 'entries', 9),
    Cell('4 read_note_tab', 'not ticked', 3),
    Cell('5 search_knowledge_base "refund window"', 'answer', '"Refund policy", updated 2 days ago'),
    Cell('6 read_record_item', 'answer', '"pricing page", status Draft'),
    Cell('7 edit_record_item', 'host asks', 'Allow'),
    Cell('7 edit_record_item', 'answer', 'saved, a new version'),
    Cell('Claude answers', 'open', 'press embargo date; FAQ translation; refund line of the pricing page'),
    Cell('Claude answers', 'days by the checklist', 14),
    Cell('Claude answers', 'days by "Refund policy"', 30),
    Cell('the record now', 'status', 'Ready'),
    Cell('a record changed in between', 'edit', 'stale_version'),
    Cell('a record changed in between', 'its text', 'kept'),
    Cell('the same call again', 'answer', 'the first one, replayed'),
    Cell('the same call again', 'events written', 0),
    Cell('Claude posts what it found', 'in the discussion channel', 'ok'),
    Cell('next step: what the KB says of refunds', 'answer carries', 'article_id and updated_at'),
    Cell('Recent activity', 'calls listed', 'every one'),
])

LIMITS = Table(6, 'Where the limit is', [
    Cell('osFoundry opens a chat', 'tools and routes that could', 0),
    Cell('link_current_chat', 'the label it declares', 'routes, proves nothing'),
    Cell('work for a linked chat', 'before the chat asks', 'waits'),
    Cell('local-only data', 'initialize says', 'not available to cloud clients'),
    Cell('a local Room', 'read', 'not_found'),
    Cell('a local Graph session', 'run', 'not_found'),
    Cell('a Note that was never synchronised', 'read', 'not_found'),
    Cell('no runner role on the session', 'run', 'runner_role_required'),
    Cell('Graph sessions of the desktop, sharing off', 'run', 'sharing_is_off'),
    Cell('the desktop app not there', 'run', 'desktop_not_there'),
    Cell('shared, and the desktop is there', 'run', 'waits until the desktop asks'),
    Cell('the Note moved to another project', 'next call', 'not_in_project'),
    Cell('the project removed', 'next call', 'not_in_project'),
    Cell('the approver may only look', 'edit', 'approver_lacks_role'),
    Cell('the approver may only look', 'read', 'ok'),
    Cell('Revoke connection', 'next call', 'connection_revoked'),
    Cell('an app for a Room', 'answer', 'pending'),
    Cell('an app for a Room', 'Needs your approval shows', 'the Room and 2 files'),
    Cell('an app for a Room', 'Claude approves it', '403 agent_scope_denied'),
    Cell('an app for a Room', 'after Approve', 'installed'),
    Cell('the discussion channel of the project', 'read', 'ok'),
    Cell('another channel', 'read', 'not_invited'),
    Cell('a private channel', 'invited by a colleague', 'owner_invites'),
    Cell('a private channel', 'invited by its owner', 'ok'),
])

TABLES = [SETUP, RUN, LIMITS]
