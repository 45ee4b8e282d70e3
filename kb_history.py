"""kb_history.py - the saved versions of an article: who wrote what and when, and an old text put back as a new save.

Article 1 says of a citation that it names the words somebody saw: here a person finds those words again. Every save
keeps what it replaces, in its own transaction (kb_store.keep); nothing here is reachable by a tool, so that an
assistant sees neither drafts nor what a person took back.

Not here: the save itself (kb_store.py), how long old words are kept (retention.py), the pages (pages_articles.py).
"""
from typing import List, Optional, Sequence

import kb_store
import versioned
from versioned import Refusal, Tx

# --- data ---------------------------------------------------------------------

HISTORY_LIMIT = (1, 200)                  # lines a page
LAST = 2 ** 63 - 1                        # later than every version
HEAD = ('updated_us', 'updated_by', 'state', 'title')
WHOLE = (*HEAD, 'content')

# --- rules --------------------------------------------------------------------

def article_history(tx: Tx, knowledge_base: str, article_id: str, limit: int = 50,
                    before: Optional[str] = None) -> List[dict]:
    """Saved versions, newest first: version, actor, state, title. `before` is the last version of the page before."""
    versioned.check_integer('limit', limit, *HISTORY_LIMIT)
    kb_store.article_for_people(tx, knowledge_base, article_id)
    before_us = versioned.parse_stamp(before, 'before') if before else LAST
    return find(tx, HEAD, knowledge_base, article_id, '<', before_us, limit)


def saved_version(tx: Tx, knowledge_base: str, article_id: str, version: str) -> dict:
    """One version with its whole text, and `before`: the one that it replaced, or None. Refuses not_found."""
    at_us = versioned.parse_stamp(version, 'version')
    found = find(tx, WHOLE, knowledge_base, article_id, '=', at_us, 1)
    if not found:
        raise Refusal('not_found', f'this article has no version {version}, or has it no longer')
    earlier = find(tx, WHOLE, knowledge_base, article_id, '<', at_us, 1)
    return {**found[0], 'before': earlier[0] if earlier else None}


def put_back(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Save the title and the text of `version` again, over exactly expected_version; whether it is published stays.

    A save like any other: a new version, an event, and what it replaces is kept. Refuses stale_version, not_found.
    """
    knowledge_base, article_id = arguments['knowledge_base_id'], arguments['article_id']
    old = saved_version(tx, knowledge_base, article_id, arguments['version'])
    return kb_store.save_article(tx, actor, {
        'knowledge_base_id': knowledge_base, 'article_id': article_id, 'title': old['title'],
        'content': old['content'], 'expected_version': arguments['expected_version']}, now_us)


def find(tx: Tx, names: Sequence[str], knowledge_base: str, article_id: str, compare: str, at_us: int,
         limit: int) -> List[dict]:
    """The newest versions < or = `at_us`. The current one stands in articles, the others where kb_store.keep puts them.
    """
    columns, place = ', '.join(names), (knowledge_base, article_id, at_us)
    where = f'WHERE knowledge_base_id = ? AND article_id = ? AND updated_us {compare} ?'
    rows = tx.execute(f'SELECT {columns} FROM articles {where} UNION ALL '
                      f'SELECT {columns} FROM article_versions {where} ORDER BY updated_us DESC LIMIT ?',
                      (*place, *place, limit))
    return [as_saved(*row) for row in rows]


def as_saved(updated_us: int, actor: str, state: str, title: str, *content: str) -> dict:
    found = {'version': versioned.stamp_text(updated_us), 'actor': actor, 'state': state, 'title': title}
    return {**found, 'content': content[0]} if content else found


def prune_versions(tx: Tx, before_us: int) -> None:
    """Forget what was replaced before `before_us`; the current words stay. Read from the oldest, so that the writer
    is kept for what goes and not for all that stays."""
    first = tx.execute('SELECT kept FROM article_versions WHERE replaced_us >= ? ORDER BY kept LIMIT 1',
                       (before_us,)).fetchone()
    tx.execute('DELETE FROM article_versions WHERE kept < ?', (first[0] if first else LAST,))
