"""published_kb.py - every figure that article 1 prints, and how each is judged.

Article 1, all tables and the sentences with figures. `range` cells get their bounds from the model (sim_model.py) when
they are measured; a cell without a published figure is ours and stands beside the one it explains.

Not here: the printer (published.py), any measurement (sim_kb.py, kb_kinds.py, bench_kb.py).
"""
from published import Cell, Table

# --- data ---------------------------------------------------------------------

HOURS = (1, 2, 4, 6, 8)

# "Cosa dovrebbe contenere una citazione?": answered by doing it (python3 kb_store.py).
ASKED = ('survives a rename', 'shows a change of content', 'is the version an edit takes')
KINDS = Table(1, 'what a citation holds', [
    Cell(kind, asked, answer)
    for kind, answers in (('title', ('no', 'no', 'no')),
                          ('article ID', ('yes', 'no', 'no')),
                          ('article ID + updated time', ('yes', 'yes', 'yes, if recent')))
    for asked, answer in zip(ASKED, answers)])

# The definitions at the head of the article: each limit is tried from both sides (python3 kb_store.py).
ARGUMENTS = (('search_knowledge_base', ('knowledge_base_id', 'query'), ('limit',)),
             ('read_knowledge_article', ('knowledge_base_id', 'article_id'), ()),
             ('edit_knowledge_article', ('knowledge_base_id', 'article_id', 'content', 'expected_version',
                                         'idempotency_key'), ('title',)),
             ('poll_resource_events', ('resource_type', 'resource_id'), ('after_sequence', 'limit')))
LIMITS = Table(1, 'the four tools and their limits', [
    Cell('search_knowledge_base', 'query, shortest', 2, unit='characters'),
    Cell('search_knowledge_base', 'query, longest', 200, unit='characters'),
    Cell('search_knowledge_base', 'limit, least', 1),
    Cell('search_knowledge_base', 'limit, most', 20),
    Cell('poll_resource_events', 'after_sequence, least', 0),
    Cell('poll_resource_events', 'limit, least', 1),
    Cell('poll_resource_events', 'limit, most', 100)] + [
    Cell(tool, argument, 'required' if argument in required else 'optional')
    for tool, required, optional in ARGUMENTS for argument in required + optional])

# "La ricostruzione".
DAY = Table(1, 'the ten most popular articles', [
    Cell('by the formula', 'of the questions', 36.7, unit='%'),
    Cell('by the formula', 'of the saves', 36.7, unit='%'),
    Cell('as drawn', 'of the questions', 36.7, 'range', '%'),
    Cell('as drawn', 'of the saves', 36.7, 'range', '%')])

# "Quanto velocemente diventano obsolete le citazioni?": (citations, stale, %, answers %, found by the title alone).
STALE_ROWS = {1: (152, 24, 15.8, 56.6, 5), 2: (298, 61, 20.5, 61.7, 17), 4: (580, 165, 28.4, 72.1, 56),
              6: (914, 250, 27.4, 69.4, 84), 8: (1200, 369, 30.8, 80.2, 152)}
STALE_COLUMNS = (('citations', ''), ('stale', ''), ('stale of the citations', '%'),
                 ('answers with a stale citation', '%'), ('by title alone', ''))
# "stale" counts distinct (article, version) pairs, "each" every citation: the README's errata say why there are two.
STALE = Table(1, 'how fast citations go stale', [
    cell for hour, figures in STALE_ROWS.items() for cell in (
        *(Cell(f'hour {hour}', column, figure, 'exact' if (hour, column) == (8, 'citations') else 'range', unit)
          for (column, unit), figure in zip(STALE_COLUMNS, figures)),
        Cell(f'hour {hour}', 'stale, each citation counted', None, 'range'),
        Cell(f'hour {hour}', 'the same of the citations', None, 'range', '%'))])
SPREAD = Table(1, 'the control: the same saves on any article alike', [
    Cell('hour 8', 'citations', 1200),
    Cell('hour 8', 'stale', 167, 'range'),
    Cell('hour 8', 'stale of the citations', 13.9, 'range', '%'),
    Cell('hour 8', 'answers', 600),
    Cell('hour 8', 'answers with a stale citation', 280, 'range'),
    Cell('hour 8', 'the same of the answers', 46.7, 'range', '%'),
    Cell('hour 8', 'stale, each citation counted', None, 'range'),
    Cell('hour 8', 'the same of the citations', None, 'range', '%')])
BY_TITLE = Table(1, 'what a title alone tells', [Cell('hour 8', 'of the stale citations', 41.2, 'range', '%')])

# "Rileggere ogni articolo citato o interrogare il log?": 40 checks.
COSTS = Table(1, 'what the hourly checks cost', [
    Cell('search every cited title again', 'calls', 2426, 'range'),
    Cell('search every cited title again', 'returned', 3342, 'range', 'KiB'),
    Cell('search every cited title again', 'calls a check', 60.6, 'range'),
    Cell('search every cited title again', 'returned a check', 83.5, 'range', 'KiB'),
    Cell('read every cited article again', 'calls', 2264, 'range'),
    Cell('read every cited article again', 'returned', 3445, 'range', 'KiB'),
    Cell('read every cited article again', 'calls a check', 56.6, 'range'),
    Cell('read every cited article again', 'returned a check', 86.1, 'range', 'KiB'),
    Cell('poll_resource_events from a cursor', 'calls', 40),
    Cell('poll_resource_events from a cursor', 'returned', 153, 'range', 'KiB'),
    Cell('poll_resource_events from a cursor', 'calls a check', 1.0),
    Cell('poll_resource_events from a cursor', 'returned a check', 3.8, 'range', 'KiB'),
    Cell('all three', 'checks', 40)])

# "Cosa succede quando Claude modifica usando la versione di una citazione?": (delay, seconds, changed, %, gone).
EDIT_ROWS = (('20 s', 20, 0, 0.0, 0), ('15 min', 900, 30, 20.0, 2),
             ('1 h', 3600, 57, 38.0, 3), ('4 h', 14400, 85, 56.7, 14))
EDITS = Table(1, 'edits with the version of a citation', [
    cell for delay, _, changed, share, gone in EDIT_ROWS for cell in (
        Cell(delay, 'edits', 150),
        Cell(delay, 'refused, version changed', changed, 'range'),
        Cell(delay, 'of the edits', share, 'range', '%'),
        Cell(delay, 'refused, no longer published', gone, 'range'))] + [
    Cell('all delays', 'refused again after a new read', 0, reason='published as 30 of 30, 57 of 57, 85 of 85 saved')])
REPLAYS = Table(1, 'retries and what was gone', [
    Cell('the same call with the same key', 'sent', 409, 'range'),
    Cell('the same call with the same key', 'not the first answer, marked', 0),
    Cell('the same call with the same key', 'events written', 0),
    Cell('delayed edits', 'in all', 600),
    Cell('delayed edits', 'no longer published', 19, 'range')])

FIT = Table(1, 'the published figures against the model', [
    Cell('each figure alone', 'outside its 99 % range', None, 'range', low=0, high=0),
    Cell('each figure alone', 'outside its 95 % range', None, 'range', low=0, high=4),
    Cell('all together', 'groups of days that fit worse', None, 'range', '%', low=1, high=100,
         reason='a tuned model: this is goodness of fit, no prediction')])

# "Seed 1-5 ... L'esecuzione completa richiede 25.7 s" (python3 bench.py kb).
TIMES = Table(1, 'how long the tables take', [
    Cell('five seeds, every table', 'time', 25.7, 'order', 's', high=25.7,
         reason='published: elapsed, on an M1; here CPU, ranges included: a busy machine does not judge')])

SIMULATED = (DAY, STALE, SPREAD, BY_TITLE, COSTS, EDITS, REPLAYS)     # in the order of sim.py kb
TABLES = (KINDS, LIMITS, *SIMULATED, FIT, TIMES)
