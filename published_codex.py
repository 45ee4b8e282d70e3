"""published_codex.py - every figure that article 3 prints, and how each is judged.

Article 3, all tables and the sentences with figures. Seconds come from the stand-in's pauses: what they fix is judged
by difference (a span between two marks), what they do not by order. A cell without a published figure is ours.

Not here: the printer (published.py), any measurement (bench_codex.py, bench_wrap.py).
"""
from published import Cell, Table

# --- data ---------------------------------------------------------------------

# A busy machine wakes late; early it cannot be.
SLACK_S = 0.6

# "Perché leggere gli eventi invece di un file con la risposta finale?": the row's event, parsed.
ROWS = Table(3, 'what an event becomes', [
    Cell('item.completed + agent_message', 'becomes', "the answer's text"),
    Cell('item.completed + reasoning', 'becomes', 'Thinking: …'),
    Cell('item.completed + command_execution', 'becomes', 'Using shell — <command>'),
    Cell('item.completed + mcp_tool_call', 'becomes', 'Using <tool>…'),
    Cell('item.completed + file_change', 'becomes', 'Edited <path>'),
    Cell('item.completed + todo_list', 'becomes', 'Plan: 1. … 2. …'),
    Cell('turn.completed', 'becomes', 'usage (input_tokens, cached_input_tokens, output_tokens)'),
    Cell('turn.failed', 'becomes', 'error, about the sign-in'),
    Cell('error', 'becomes', 'error, about the sign-in'),
    Cell('an unknown event, an unknown item, no JSON', 'becomes', 'nothing'),
])

# "Tempo al primo byte contro tempo alla risposta": 20 runs there, medians.
TIMES = Table(3, 'first byte, first item, answer, exit', [
    Cell('first byte on stdout', 'events', 0.034, 'order', 's'),
    Cell('first byte on stdout', 'file', 'none'),
    Cell('python3 -c pass', 'whole', 0.019, 'shown', 's',
         reason='its average, our median; the stand-in starts quicker, with -I -S'),
    Cell('first completed item', 'events', 0.443, 'order', 's'),
    Cell('first completed item', 'file', 'none'),
    Cell('answer available', 'events', 2.562, 'order', 's'),
    Cell('answer available', 'file', 2.824, 'order', 's', reason='a file is there only when the process has ended'),
    Cell('process ended', 'events', 2.775, 'order', 's'),
    Cell('process ended', 'file', 2.824, 'order', 's'),
    Cell('runs that succeeded', 'events', 20, of=20),
    Cell('runs that succeeded', 'file', 20, of=20),
    Cell('from the first byte to the first item', 'events', 0.409, 'range', 's', 0.39, 0.4 + SLACK_S,
         reason='0.443 - 0.034; the stand-in pauses 0.4 s'),
    Cell('from the first item to the answer', 'events', 2.119, 'range', 's', 2.09, 2.1 + SLACK_S,
         reason='2.562 - 0.443; it pauses 0.8 + 1.3 s'),
    Cell('from the answer to the exit', 'events', 0.213, 'range', 's', 0.19, 0.2 + SLACK_S,
         reason='2.775 - 2.562; it pauses 0.2 s'),
    Cell('how much later the file has the answer', 'file', 0.262, 'range', 's', 0.15, 0.2 + SLACK_S,
         reason='2.824 - 2.562: the last pause and the exit'),
])

# "Che aspetto ha un errore da ciascun lato?": one run a case.
FAILURES = Table(3, 'what an error looks like from either side', [
    Cell('crash before an answer', 'exit', 101),
    Cell('crash before an answer', 'events', 'error with the tail of stderr'),
    Cell('crash before an answer', 'events, after', 0.44, 'range', 's', 0.4, 0.4 + SLACK_S),
    Cell('crash before an answer', 'file', 'error: no answer file'),
    Cell('crash before an answer', 'file, after', 0.51, 'range', 's', 0.4, 0.4 + SLACK_S),
    Cell('sign-in (turn.failed 401)', 'exit', 1),
    Cell('sign-in (turn.failed 401)', 'events', '401 Unauthorized: please log in, about the sign-in'),
    Cell('sign-in (turn.failed 401)', 'file', 'error: no answer file, text of stderr'),
    Cell('killed after the message', 'exit', 137),
    Cell('killed after the message', 'events', 'answer kept, no error'),
    Cell('killed after the message', 'file', 'error: no answer file'),
    Cell('hangs past 3 s', 'exit', -9),
    Cell('hangs past 3 s', 'events', 'timed out after 3s'),
    Cell('hangs past 3 s', 'events, after', 3.004, 'range', 's', 3.0, 3.0 + SLACK_S),
    Cell('hangs past 3 s', 'file', 'timed out after 3s'),
    Cell('hangs past 3 s', 'file, after', 3.027, 'range', 's', 3.0, 3.0 + SLACK_S),
])

# "Cosa uccide davvero un timeout?": the tool's process, looked at 0.3 s after the return.
KILLS = Table(3, 'what a timeout kills', [
    Cell('p.kill()', 'returns after', 3.010, 'range', 's', 3.0, 3.0 + SLACK_S),
    Cell('p.kill()', "the tool's process", 'still running'),
    Cell('new session + killpg', 'returns after', 3.011, 'range', 's', 3.0, 3.0 + SLACK_S),
    Cell('new session + killpg', "the tool's process", 'gone'),
    Cell('ours, a tool in a session of its own', "the tool's process", None, 'range', 'alive', 0, 0,
         reason='killpg alone misses it: a real Codex starts every tool so'),
])

# "Perché svuotare stderr su un thread a parte?"
STDERR = Table(3, 'stderr drained or not', [
    Cell('what a pipe holds', 'bytes', 65_536),
    Cell('drained beside stdout', 'answer after', 2.56, 'range', 's', 2.49, 2.5 + SLACK_S),
    Cell('read after stdout closes', 'result', 'timed out after 8s'),
])

# The article's timeouts, its tail, its list of variables.
LIMITS = Table(3, 'limits', [
    Cell('timeout of an autonomous run', 'seconds', 1_800),
    Cell('timeout of anything else', 'seconds', 300),
    Cell('tail of stderr that is kept', 'bytes', 4_000),
    Cell('variables taken out', 'names', 'CODEX_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL'),
])

TABLES = [ROWS, TIMES, FAILURES, KILLS, STDERR, LIMITS]

# Ours, for bench.py wrap. The article gives no figure for them; the bounds are what we ask of ourselves.
COSTS = Table(3, 'what the wrapper costs', [
    Cell('100 MB of a long session', 'times the floor', None, 'ratio', '', high=1.3,
         reason='the floor: split, decode, JSONDecoder.raw_decode, and nothing done with it'),
    Cell('lines of 81 bytes', 'times the floor', None, 'ratio', '', high=4.5,
         reason='what an event costs in Python shows when its line costs next to nothing: 2 microseconds'),
    Cell('100 MB of a long session', 'peak memory', None, 'range', 'MB', high=60),
    Cell('one line of 10 MB', 'per byte', None, 'range', 'ns', high=20),
    Cell('one line of 100 MB', 'per byte', None, 'order', 'ns',
         reason='linear: at most three times the 10 MB line'),
    Cell('a run that ends at once', 'over a bare Popen', None, 'range', 'ms', high=1.5),
    Cell('from the kill to the return', 'median', None, 'range', 'ms', high=150),
])
