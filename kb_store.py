"""kb_store.py - a knowledge base whose citations can be checked: search, read, edit, poll.

Article 1, the tools, "Cosa dovrebbe contenere una citazione?", "La ricostruzione" and the two sections on publishing.
A citation is {knowledge_base_id, article_id, updated_at}: it names the words somebody saw, a poll from a number
tells whether they still stand, and its updated_at is the expected_version that an edit takes.

    python3 kb_store.py                                  article 1's three kinds of citation, measured (1 s)
    python3 kb_store.py --db FILE import DIR             a folder of Markdown files as a knowledge base
    python3 kb_store.py --db FILE search WORDS [--cite CITATIONS.json]
    python3 kb_store.py --db FILE check CITATIONS.json   fresh, changed or gone: one poll, the cursor kept
    also: read ID, edit ID FILE --version V, poll [N]; --help tells the rest

Not here: the commands on a folder (kb_folder.py), old versions for people (kb_history.py), transactions, replays and
the log (versioned.py), who may call what (access.py), the day of article 1 (sim_kb.py).
"""
import re
import sys
import unicodedata
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import versioned
from versioned import Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS knowledge_bases (
    knowledge_base_id TEXT PRIMARY KEY,
    name              TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS articles (
    knowledge_base_id TEXT NOT NULL,
    article_id        TEXT NOT NULL,
    state             TEXT NOT NULL,       -- draft, published or unpublished: only published is searched and read
    updated_us        INTEGER NOT NULL,    -- the version; every save moves it
    updated_by        TEXT NOT NULL,
    title             TEXT NOT NULL,
    folded            TEXT NOT NULL,       -- title and content as search compares them; before content, so that
    content           TEXT NOT NULL,       -- a scan need not walk over it
    PRIMARY KEY (knowledge_base_id, article_id)
);
-- The words that a save replaced, so that a person can read them and put them back (kb_history.py).
CREATE TABLE IF NOT EXISTS article_versions (
    kept              INTEGER PRIMARY KEY, -- in the order in which they were replaced
    knowledge_base_id TEXT NOT NULL,
    article_id        TEXT NOT NULL,
    state             TEXT NOT NULL,
    updated_us        INTEGER NOT NULL,    -- the version that it was
    updated_by        TEXT NOT NULL,
    replaced_us       INTEGER NOT NULL,    -- the version that took its place
    title             TEXT NOT NULL,
    content           TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS article_versions_by_article ON article_versions (knowledge_base_id, article_id, updated_us);
-- Title words decide the ranking; a table of whole words answers in microseconds and finds words of any length.
CREATE TABLE IF NOT EXISTS title_words (
    knowledge_base_id TEXT NOT NULL,
    word              TEXT NOT NULL,
    article_id        TEXT NOT NULL,
    PRIMARY KEY (knowledge_base_id, word, article_id)
) WITHOUT ROWID;
"""

QUERY_LENGTH = (2, 200)                    # characters; the limits of the live tools (article 1)
SEARCH_LIMIT, SEARCH_DEFAULT = (1, 20), 5
POLL_LIMIT, POLL_DEFAULT = (1, 100), 100
ID_LENGTH = (1, 200)                       # ours, as the next two
TITLE_LENGTH = (1, 300)
CONTENT_LENGTH = (0, 1_000_000)
SNIPPET_LENGTH = 130

PUBLISHED = "state = 'published'"          # an answer points at what a person has decided to be an answer
IS_CURRENT = 'updated_us = ?'              # the compare of the compare-and-swap, inside the UPDATE
SENTENCE_MARKS = '.,;:!?"\'()[]{}<>|…“”‘’«»、。・「」'
PARTS = re.compile(r'[^\W_]+')
ESCAPED = re.compile(r'[%_\\]')              # what LIKE takes for more than itself


class Head(NamedTuple):
    """An article without its text."""
    state: str
    updated_us: int
    title: str


class Moved(NamedTuple):
    """What the log said last about an article."""
    updated_at: str
    gone: bool


# --- rules --------------------------------------------------------------------

def search_knowledge_base(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{"results": [{citation, title, snippet}]}: title words first, content only to fill the limit, then article_id."""
    knowledge_base = text(arguments, 'knowledge_base_id', ID_LENGTH)
    query = text(arguments, 'query', QUERY_LENGTH)
    limit = whole(arguments, 'limit', SEARCH_LIMIT, SEARCH_DEFAULT)
    require_knowledge_base(tx, knowledge_base)
    wanted = words(query)
    found = by_title(tx, knowledge_base, wanted, limit)
    more = by_content(tx, knowledge_base, wanted, found, limit - len(found)) if len(found) < limit else []
    return {'results': hits(tx, knowledge_base, found, ()) + hits(tx, knowledge_base, more, wanted)}


def read_knowledge_article(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{citation, title, content} of a published article. Refuses not_found, or gone when it was published once."""
    knowledge_base = text(arguments, 'knowledge_base_id', ID_LENGTH)
    article_id = text(arguments, 'article_id', ID_LENGTH)
    row = tx.execute('SELECT updated_us, title, content FROM articles '
                     f'WHERE knowledge_base_id = ? AND article_id = ? AND {PUBLISHED}',
                     (knowledge_base, article_id)).fetchone()
    if row is None:
        raise not_readable(tx, knowledge_base, article_id)
    return {'citation': citation(knowledge_base, article_id, row[0]), 'title': row[1], 'content': row[2]}


def edit_knowledge_article(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{citation, title} after replacing the content, and the title if one is given, over exactly expected_version.

    Refuses stale_version with current_version, gone, not_found. The same call with the same key gets the first answer.
    """
    knowledge_base = text(arguments, 'knowledge_base_id', ID_LENGTH)
    article_id = text(arguments, 'article_id', ID_LENGTH)
    content = text(arguments, 'content', CONTENT_LENGTH)
    title = text(arguments, 'title', TITLE_LENGTH) if 'title' in arguments else None
    expected_us = versioned.parse_stamp(arguments.get('expected_version'))

    def work() -> dict:
        return swap(tx, actor, knowledge_base, article_id, title, content, expected_us, now_us)
    return versioned.once(tx, actor, arguments.get('idempotency_key'), 'edit_knowledge_article', arguments, work)


def poll_resource_events(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """{events, next_sequence, has_more} after a sequence. Every save is an event, unpublishing too."""
    if arguments.get('resource_type') != 'knowledge_base':
        raise versioned.invalid('resource_type', '"knowledge_base"')
    knowledge_base = text(arguments, 'resource_id', ID_LENGTH)
    after = whole(arguments, 'after_sequence', (0, 2 ** 63 - 1), 0)
    limit = whole(arguments, 'limit', POLL_LIMIT, POLL_DEFAULT)
    require_knowledge_base(tx, knowledge_base)
    return versioned.events_after(tx, Ref('knowledge_base', knowledge_base), after, limit)


def citation(knowledge_base: str, article_id: str, updated_us: int) -> dict:
    """What an answer points at; updated_at is the version, and what an edit must name."""
    return {'knowledge_base_id': knowledge_base, 'article_id': article_id,
            'updated_at': versioned.stamp_text(updated_us)}


def swap(tx: Tx, actor: str, knowledge_base: str, article_id: str, title: Optional[str], content: str,
         expected_us: int, now_us: int) -> dict:
    """The compare-and-swap of an edit: over exactly the version that was read, and only what is published."""
    before = head(tx, knowledge_base, article_id)
    if not readable(before):
        raise not_readable(tx, knowledge_base, article_id)
    after = before if title is None else before._replace(title=title)
    return save(tx, actor, knowledge_base, article_id, before, after, content, expected_us, now_us)


def save(tx: Tx, actor: str, knowledge_base: str, article_id: str, before: Head, after: Head, content: str,
         base_us: int, now_us: int) -> dict:
    """What every save does, whoever made it: over exactly `base_us`, under a new version, the words until then kept."""
    container = Ref('knowledge_base', knowledge_base)
    after = after._replace(updated_us=versioned.next_stamp(tx, container, before.updated_us, now_us))
    keep(tx, knowledge_base, article_id, base_us, after.updated_us)
    # The comparison is in the WHERE clause: there is no moment between comparing and writing.
    swapped = tx.execute('UPDATE articles SET state = ?, updated_us = ?, updated_by = ?, title = ?, folded = ?, '
                         f'content = ? WHERE knowledge_base_id = ? AND article_id = ? AND {IS_CURRENT}',
                         (after.state, after.updated_us, actor, after.title, fold(f'{after.title}\n{content}'), content,
                          knowledge_base, article_id, base_us)).rowcount
    if not swapped:
        raise stale(article_id, before.updated_us)
    return saved(tx, knowledge_base, article_id, before, after)


def keep(tx: Tx, knowledge_base: str, article_id: str, base_us: int, replaced_us: int) -> None:
    """What is about to be replaced. A save that is refused keeps nothing: the comparison stands here too."""
    tx.execute('INSERT INTO article_versions SELECT NULL, knowledge_base_id, article_id, state, updated_us, '
               'updated_by, ?, title, content FROM articles '
               f'WHERE knowledge_base_id = ? AND article_id = ? AND {IS_CURRENT}',
               (replaced_us, knowledge_base, article_id, base_us))


def saved(tx: Tx, knowledge_base: str, article_id: str, before: Optional[Head], after: Head) -> dict:
    """The words of a new title, one event, and the answer."""
    if before is None or before.title != after.title:
        index_title(tx, knowledge_base, article_id, before.title if before else '', after.title)
    versioned.record_event(tx, Ref('knowledge_base', knowledge_base), event_type(before, after), article_id,
                           after.updated_us)
    return {'citation': citation(knowledge_base, article_id, after.updated_us), 'title': after.title}


def index_title(tx: Tx, knowledge_base: str, article_id: str, old: str, new: str) -> None:
    tx.executemany('DELETE FROM title_words WHERE knowledge_base_id = ? AND word = ? AND article_id = ?',
                   [(knowledge_base, word, article_id) for word in words(old)])
    tx.executemany('INSERT INTO title_words VALUES (?, ?, ?)',
                   [(knowledge_base, word, article_id) for word in words(new)])


def event_type(before: Optional[Head], after: Head) -> str:
    if before is None:
        return 'created'
    if before.state != after.state:
        return after.state                 # published or unpublished
    return 'retitled' if before.title != after.title else 'updated'


# What a reader keeps between two turns is one integer; this is the rest of his side of it.

def apply_events(moved: Dict[str, Moved], events: Iterable[dict]) -> None:
    """Fold a page of the log into what is known about each article. An edited draft is still gone."""
    for event in events:
        known = moved.get(event['article_id'])
        gone = event['type'] == 'unpublished' or (known is not None and known.gone and event['type'] != 'published')
        moved[event['article_id']] = Moved(event['updated_at'], gone)


def verdict(cited: dict, moved: Dict[str, Moved]) -> str:
    """'fresh', 'changed' or 'gone'. Stamps are of fixed width and only grow, so their text compares as they do."""
    news = moved.get(cited['article_id'])
    if news is None or news.updated_at <= cited['updated_at']:
        return 'fresh'
    return 'gone' if news.gone else 'changed'


# Search: what a word is, and the two tiers.

def fold(value: str) -> str:
    """Letters as search compares them: résumé is resume, STRASSE is straße, a full-width Ａ is a."""
    if value.isascii():
        return value.lower()
    plain = unicodedata.normalize('NFKD', unicodedata.normalize('NFKD', value).casefold())
    for mark in filter(unicodedata.combining, set(plain)):     # a few, each in one pass: not a call a character
        plain = plain.replace(mark, '')
    return plain


def words(value: str) -> List[str]:
    """The folded words, each once: 'Retry-After, C++' is retry-after, retry, after, c++."""
    found: Dict[str, None] = {}
    for chunk in fold(value).split():
        chunk = chunk.strip(SENTENCE_MARKS)
        if chunk:
            found[chunk] = None
        if not chunk.isalnum():
            found.update((part, None) for part in PARTS.findall(chunk) if len(part) > 1)
    return list(found)


def by_title(tx: Tx, knowledge_base: str, wanted: Sequence[str], limit: int) -> List[str]:
    """Ids of published articles with any of the words in the title: most words first, then article_id."""
    marks = ', '.join('?' * len(wanted))
    # CROSS JOIN keeps SQLite from walking all the articles first.
    rows = tx.execute('SELECT w.article_id FROM title_words w CROSS JOIN articles a '
                      'ON a.knowledge_base_id = w.knowledge_base_id AND a.article_id = w.article_id '
                      f'WHERE w.knowledge_base_id = ? AND w.word IN ({marks}) AND a.{PUBLISHED} '
                      'GROUP BY w.article_id ORDER BY count(*) DESC, w.article_id LIMIT ?',
                      (knowledge_base, *wanted, limit))
    return [article_id for article_id, in rows]


def by_content(tx: Tx, knowledge_base: str, wanted: Sequence[str], found: Sequence[str], limit: int) -> List[str]:
    """Ids of further articles whose text holds any of the words, inside a longer one too (京都 in 東京都)."""
    if not wanted:
        return []
    # LIKE stops at a first letter with one machine instruction: four times as fast as instr. Both sides are folded.
    holds, patterns = ["folded LIKE ? ESCAPE '\\'"] * len(wanted), [ESCAPED.sub(r'\\\g<0>', word) for word in wanted]
    patterns = [f'%{pattern}%' for pattern in patterns]
    rows = tx.execute(f'SELECT article_id FROM articles WHERE knowledge_base_id = ? AND {PUBLISHED} '
                      f'AND article_id NOT IN ({", ".join("?" * len(found))}) AND ({" OR ".join(holds)}) '
                      f'ORDER BY {" + ".join(f"({each})" for each in holds)} DESC, article_id LIMIT ?',
                      (knowledge_base, *found, *patterns, *patterns, limit))
    return [article_id for article_id, in rows]


def hits(tx: Tx, knowledge_base: str, found: Sequence[str], wanted: Sequence[str]) -> List[dict]:
    """The results in their order. A title says for itself why it was found; else the snippet shows a word `wanted`."""
    if not found:
        return []
    length = CONTENT_LENGTH[1] if wanted else SNIPPET_LENGTH
    rows = tx.execute('SELECT article_id, updated_us, title, substr(content, 1, ?) FROM articles '
                      f'WHERE knowledge_base_id = ? AND article_id IN ({", ".join("?" * len(found))})',
                      (length, knowledge_base, *found))
    results = {article_id: {'citation': citation(knowledge_base, article_id, updated_us), 'title': title,
                            'snippet': snippet(content, wanted)} for article_id, updated_us, title, content in rows}
    return [results[article_id] for article_id in found]


def snippet(content: str, wanted: Sequence[str]) -> str:
    """One line around the first word found, or the beginning."""
    places = [place for place in map(fold(content).find, wanted) if place >= 0] if wanted else []
    start = max(0, unfolded(content, min(places)) - SNIPPET_LENGTH // 4) if places else 0
    return ' '.join(content[start:start + SNIPPET_LENGTH].split())


def unfolded(content: str, place: int) -> int:
    """The index in `content` whose folding begins at or before `place`: ß became two letters, a mark none."""
    if content.isascii():
        return place
    index = reached = 0
    for step in (4096, 1):
        while index < len(content):
            width = len(fold(content[index:index + step]))
            if reached + width > place:
                break
            index, reached = index + step, reached + width
    return index


# The people's side: they see drafts, and save over what their page showed.

def create_knowledge_base(tx: Tx, knowledge_base: str, name: str) -> None:
    """Refuses already_exists."""
    if not tx.execute('INSERT OR IGNORE INTO knowledge_bases VALUES (?, ?)', (knowledge_base, name)).rowcount:
        raise Refusal('already_exists', f'there is a knowledge base {knowledge_base!r}',
                      knowledge_base_id=knowledge_base)


def create_article(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """A draft, or published at once with publish: true; article_id may be left out. Refuses already_exists."""
    knowledge_base = text(arguments, 'knowledge_base_id', ID_LENGTH)
    title, content = text(arguments, 'title', TITLE_LENGTH), text(arguments, 'content', CONTENT_LENGTH)
    require_knowledge_base(tx, knowledge_base)
    number = versioned.last_sequence(tx, Ref('knowledge_base', knowledge_base)) + 1
    while head(tx, knowledge_base, f'art-{number:06d}'):   # somebody chose an id like ours
        number += 1
    article_id = text({'article_id': f'art-{number:06d}', **arguments}, 'article_id', ID_LENGTH)
    if head(tx, knowledge_base, article_id):
        raise Refusal('already_exists', f'there is an article {article_id!r}: save it, or choose another id',
                      article_id=article_id)
    state = 'published' if arguments.get('publish') is True else 'draft'
    updated_us = versioned.next_stamp(tx, Ref('knowledge_base', knowledge_base), 0, now_us)
    tx.execute('INSERT INTO articles VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
               (knowledge_base, article_id, state, updated_us, actor, title, fold(f'{title}\n{content}'), content))
    return saved(tx, knowledge_base, article_id, None, Head(state, updated_us, title))


def save_article(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """A person's save of content, title or both, in any state; with expected_version it is compared as an edit is."""
    knowledge_base = text(arguments, 'knowledge_base_id', ID_LENGTH)
    article_id = text(arguments, 'article_id', ID_LENGTH)
    before = head(tx, knowledge_base, article_id)
    if before is None:
        raise not_readable(tx, knowledge_base, article_id)
    base_us = versioned.parse_stamp(arguments['expected_version']) if 'expected_version' in arguments \
        else before.updated_us
    title = text(arguments, 'title', TITLE_LENGTH) if 'title' in arguments else before.title
    content = (text(arguments, 'content', CONTENT_LENGTH) if 'content' in arguments
               else article_for_people(tx, knowledge_base, article_id)['content'])
    return save(tx, actor, knowledge_base, article_id, before, before._replace(title=title), content, base_us, now_us)


def publish_article(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    return set_state(tx, actor, arguments, 'published', now_us)


def unpublish_article(tx: Tx, actor: str, arguments: dict, now_us: int) -> dict:
    """Takes it from search and read at the next call; a citation of it comes back gone, not changed."""
    return set_state(tx, actor, arguments, 'unpublished', now_us)


def set_state(tx: Tx, actor: str, arguments: dict, state: str, now_us: int) -> dict:
    """A change of state is a save like any other; to ask for the state it is in changes nothing."""
    knowledge_base = text(arguments, 'knowledge_base_id', ID_LENGTH)
    article_id = text(arguments, 'article_id', ID_LENGTH)
    before = head(tx, knowledge_base, article_id)
    if before is None:
        raise not_readable(tx, knowledge_base, article_id)
    if before.state == state or (before.state, state) == ('draft', 'unpublished'):
        return {'citation': citation(knowledge_base, article_id, before.updated_us), 'title': before.title}
    content = article_for_people(tx, knowledge_base, article_id)['content']
    return save(tx, actor, knowledge_base, article_id, before, before._replace(state=state), content,
                before.updated_us, now_us)


def article_for_people(tx: Tx, knowledge_base: str, article_id: str) -> dict:
    """The whole article in any state. Refuses not_found."""
    names = ('knowledge_base_id', 'article_id', 'state', 'updated_us', 'updated_by', 'title', 'content')
    row = tx.execute(f'SELECT {", ".join(names)} FROM articles WHERE knowledge_base_id = ? AND article_id = ?',
                     (knowledge_base, article_id)).fetchone()
    if row is None:
        raise not_readable(tx, knowledge_base, article_id)
    return dict(zip(names, row))


def articles_for_people(tx: Tx, knowledge_base: str) -> List[Tuple[str, str, int, str]]:
    """(article_id, state, updated_us, title) of all, drafts too, by article_id."""
    return tx.execute('SELECT article_id, state, updated_us, title FROM articles WHERE knowledge_base_id = ? '
                      'ORDER BY article_id', (knowledge_base,)).fetchall()


# Refusals and arguments.

def head(tx: Tx, knowledge_base: str, article_id: str) -> Optional[Head]:
    row = tx.execute('SELECT state, updated_us, title FROM articles WHERE knowledge_base_id = ? AND article_id = ?',
                     (knowledge_base, article_id)).fetchone()
    return Head(*row) if row else None


def readable(article: Optional[Head]) -> bool:
    return article is not None and article.state == 'published'


def stale(article_id: str, current_us: int) -> Refusal:
    current = versioned.stamp_text(current_us)
    return Refusal('stale_version', f'{article_id} was changed: read it again, apply the edit to what is there, '
                                    f'and send it with {current}', current_version=current)


def not_readable(tx: Tx, knowledge_base: str, article_id: str) -> Refusal:
    """Gone for what was published once; a draft is not found, so that its existence does not show."""
    article = head(tx, knowledge_base, article_id)
    if article is not None and article.state == 'unpublished':
        return Refusal('gone', f'{article_id} is no longer published: search again', article_id=article_id)
    return Refusal('not_found', f'there is no published article {article_id!r} in {knowledge_base!r}: search for it',
                   article_id=article_id)


def require_knowledge_base(tx: Tx, knowledge_base: str) -> None:
    if tx.execute('SELECT 1 FROM knowledge_bases WHERE knowledge_base_id = ?', (knowledge_base,)).fetchone() is None:
        raise Refusal('not_found', f'there is no knowledge base {knowledge_base!r}', knowledge_base_id=knowledge_base)


def text(arguments: dict, field: str, length: Tuple[int, int]) -> str:
    value = arguments.get(field)
    if not isinstance(value, str) or not length[0] <= len(value) <= length[1] or not versioned.is_text(value):
        raise versioned.invalid(field, f'{length[0]} to {length[1]} characters of text')
    return value


def whole(arguments: dict, field: str, limits: Tuple[int, int], default: int) -> int:
    value = arguments.get(field, default)
    versioned.check_integer(field, value, *limits)
    return value


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    import kb_folder                       # the commands stand on this file, so it cannot import them at the top
    return kb_folder.main(argv)


if __name__ == '__main__':
    import ending                          # here, as above: what is copied out are the rules
    sys.exit(ending.run(main, sys.argv[1:]))
