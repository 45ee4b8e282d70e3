"""kb_folder.py - the command line of kb_store.py: a real folder of Markdown files, and a file of citations into it.

Article 1, "Rileggere ogni articolo citato o interrogare il log?" put to use: import a documentation folder, cite from
it, import it again a week later, and ask with one poll which citations still stand.

    python3 kb_store.py                                      article 1's three kinds of citation, measured (1 s)
    python3 kb_store.py --db docs.db import DIR              new, changed, disappeared; odd files named, not taken
    python3 kb_store.py --db docs.db search retry after --cite CITATIONS.json
    python3 kb_store.py --db docs.db read guide/limits.md --cite CITATIONS.json
    python3 kb_store.py --db docs.db edit guide/limits.md FILE --version 2026-11-08T09:30:00.000042Z
    python3 kb_store.py --db docs.db poll 120
    python3 kb_store.py --db docs.db check CITATIONS.json
    also: --kb NAME (kb), --json; before the command or after it

Exit: 0 done, and every checked citation fresh; 1 refused, or one changed or gone; 2 an argument or a file is wrong.

Not here: what a citation and a search are (kb_store.py), the file of citations (kb_citations.py), article 1's tables
(kb_kinds.py, sim_kb.py).
"""
import argparse
import contextlib
import hashlib
import json
import os
import re
import sqlite3
import stat
import sys
import time
import uuid
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence

import kb_citations
import kb_store
import versioned
from versioned import Database, Refusal, Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
-- What the last import took: a file is new to us when its hash is, and an article that somebody edited since then
-- has another version.
CREATE TABLE IF NOT EXISTS imported_files (
    knowledge_base_id TEXT NOT NULL,
    article_id        TEXT NOT NULL,       -- the path below the folder, with forward slashes
    sha256            BLOB NOT NULL,
    updated_us        INTEGER NOT NULL,
    PRIMARY KEY (knowledge_base_id, article_id)
) WITHOUT ROWID;
"""

SUFFIXES = ('.md', '.markdown')
LARGEST_BYTES = 4 * kb_store.CONTENT_LENGTH[1]                  # UTF-8: no longer file can be short enough
ACTOR = 'person:command-line'
USAGE = ('invalid_argument', 'file', 'storage_unusable')        # exit 2: 1 is the verdict of a check
HEADING = re.compile(r'#{1,6}[ \t]+(.+)')
TITLE_FIELD = re.compile(r'title:(.+)')


class Page(NamedTuple):
    """A file that can be an article."""
    article_id: str
    title: str
    content: str
    sha256: bytes


class Skipped(Exception):
    """This file cannot be an article; the message says why."""


# --- rules --------------------------------------------------------------------

def title_of(content: str, article_id: str) -> str:
    """The title in the front matter, else the first heading outside a code block, else the file's name."""
    lines = content.splitlines()
    if lines and lines[0].strip() == '---' and '---' in [line.strip() for line in lines[1:]]:
        end = [line.strip() for line in lines].index('---', 1)
        named = [unquoted(match[1].strip(' \t')) for match in map(TITLE_FIELD.fullmatch, lines[1:end]) if match]
        if named and named[0]:
            return named[0][:kb_store.TITLE_LENGTH[1]]
        lines = lines[end + 1:]
    fenced = False
    for line in lines:
        fenced ^= line.lstrip().startswith(('```', '~~~'))
        match = None if fenced else HEADING.fullmatch(line.strip())
        if match:
            return (match[1].rstrip(' \t#') or match[1][0])[:kb_store.TITLE_LENGTH[1]]
    return os.path.splitext(os.path.basename(article_id))[0][:kb_store.TITLE_LENGTH[1]]


def unquoted(value: str) -> str:
    value = value[1:] if len(value) > 1 and value[0] in '"\'' else value
    return value[:-1] if len(value) > 1 and value[-1] in '"\'' else value


def import_page(tx: Tx, knowledge_base: str, page: Page, overwrite: bool, now_us: int) -> str:
    """'new', 'changed', 'unchanged', or 'edited here too': what was edited since the last import is not lost."""
    name = {'knowledge_base_id': knowledge_base, 'article_id': page.article_id}
    text = {'title': page.title, 'content': page.content}
    last = tx.execute('SELECT sha256, updated_us FROM imported_files WHERE knowledge_base_id = ? AND article_id = ?',
                      (knowledge_base, page.article_id)).fetchone()
    article = kb_store.head(tx, knowledge_base, page.article_id)
    if article is None:
        outcome, answer = 'new', kb_store.create_article(tx, ACTOR, {**name, **text, 'publish': True}, now_us)
    elif last and last[0] == page.sha256 and article.state == 'published':
        return 'unchanged'
    elif (last is None or last[1] != article.updated_us) and not overwrite:
        return 'edited here too'
    else:
        kb_store.save_article(tx, ACTOR, {**name, **text}, now_us)
        outcome, answer = 'changed', kb_store.publish_article(tx, ACTOR, name, now_us)
    tx.execute('INSERT OR REPLACE INTO imported_files VALUES (?, ?, ?, ?)',
               (knowledge_base, page.article_id, page.sha256, versioned.parse_stamp(answer['citation']['updated_at'])))
    return outcome


def unpublish_missing(tx: Tx, knowledge_base: str, present: Sequence[str], now_us: int) -> List[str]:
    """Articles that came from a file which is no longer there."""
    rows = tx.execute('SELECT i.article_id FROM imported_files i JOIN articles a '
                      'ON a.knowledge_base_id = i.knowledge_base_id AND a.article_id = i.article_id '
                      f'WHERE i.knowledge_base_id = ? AND a.{kb_store.PUBLISHED}', (knowledge_base,)).fetchall()
    gone = sorted({article_id for article_id, in rows} - set(present))
    for article_id in gone:
        name = {'knowledge_base_id': knowledge_base, 'article_id': article_id}
        answer = kb_store.unpublish_article(tx, ACTOR, name, now_us)
        tx.execute('UPDATE imported_files SET updated_us = ? WHERE knowledge_base_id = ? AND article_id = ?',
                   (versioned.parse_stamp(answer['citation']['updated_at']), knowledge_base, article_id))
    return gone


def shown(text: str) -> str:
    """For a terminal: what an article or a file name holds must not move the cursor or turn the line around."""
    return ''.join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


# --- I/O ----------------------------------------------------------------------

def markdown_files(folder: str, unread: List[str]) -> Iterator[str]:
    """Paths below the folder, with forward slashes, sorted. No link is followed; folders that cannot be listed go to
    `unread`, because nothing below them may count as disappeared."""
    for here, folders, files in os.walk(folder, onerror=lambda error: unread.append(error.filename)):
        below = '' if here == folder else os.path.relpath(here, folder).replace(os.sep, '/') + '/'
        folders[:] = sorted(name for name in folders if not name.startswith('.'))
        yield from (below + name for name in sorted(files) if name.lower().endswith(SUFFIXES))
        if len(below) > kb_store.ID_LENGTH[1]:                  # no id is that long: named, not entered
            yield from (below + name for name in folders)
            folders.clear()


def read_page(folder: str, path: str) -> Page:
    """Raises Skipped. Opened without following a link and without waiting: a FIFO would hold us for ever."""
    try:
        kb_store.text({'path': path}, 'path', kb_store.ID_LENGTH)
        flags = os.O_RDONLY | getattr(os, 'O_NOFOLLOW', 0) | getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_BINARY', 0)
        with open(os.open(os.path.join(folder, path), flags), 'rb') as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Skipped('not a regular file')
            raw = file.read(LARGEST_BYTES + 1)
        content = raw.decode('utf-8-sig')
        kb_store.text({'content': content}, 'content', kb_store.CONTENT_LENGTH)
    except UnicodeDecodeError:
        raise Skipped('not UTF-8') from None
    except Refusal as refusal:
        raise Skipped(str(refusal)) from None
    except OSError as error:
        link = os.path.islink(os.path.join(folder, path))
        raise Skipped('a link' if link else error.strerror or str(error)) from None
    return Page(path, title_of(content, path), content, hashlib.sha256(raw).digest())


def import_folder(database: Database, knowledge_base: str, folder: str, overwrite: bool,
                  now_us: int) -> Dict[str, list]:
    """One transaction: a reader sees the folder as it was or as it is. Returns outcome -> ids, or [id, reason]."""
    outcomes: Dict[str, list] = {name: [] for name in (
        'new', 'changed', 'unchanged', 'edited here too', 'unpublished', 'skipped', 'not listed')}
    present = []
    with database.write() as tx:
        tx.execute('INSERT OR IGNORE INTO knowledge_bases VALUES (?, ?)', (knowledge_base, knowledge_base))
        for path in sorted(markdown_files(folder, outcomes['not listed'])):
            present.append(path)                                # skipped now: what was imported of it before stays
            try:
                page = read_page(folder, path)
                outcomes[import_page(tx, knowledge_base, page, overwrite, now_us)].append(path)
            except Skipped as reason:
                outcomes['skipped'].append([path, str(reason)])
        if not outcomes['not listed']:
            outcomes['unpublished'] = unpublish_missing(tx, knowledge_base, present, now_us)
    return outcomes


# The commands: each returns what --json prints; `lines` says the same to people.

def do_import(chosen: argparse.Namespace, database: Database) -> dict:
    if not os.path.isdir(chosen.folder):
        raise versioned.invalid('folder', f'a folder: {shown(chosen.folder)} is none')
    return import_folder(database, chosen.kb, chosen.folder, chosen.overwrite, time.time_ns() // 1000)


def do_search(chosen: argparse.Namespace, database: Database) -> dict:
    arguments = {'knowledge_base_id': chosen.kb, 'query': ' '.join(chosen.words), 'limit': chosen.limit}
    with kb_citations.citing(database, chosen.cite) as tx:
        answer = kb_store.search_knowledge_base(tx, ACTOR, arguments, 0)
        kb_citations.cite(tx, chosen.cite, chosen.kb, [hit['citation'] for hit in answer['results']])
    return answer


def do_read(chosen: argparse.Namespace, database: Database) -> dict:
    arguments = {'knowledge_base_id': chosen.kb, 'article_id': chosen.article}
    with kb_citations.citing(database, chosen.cite) as tx:
        answer = kb_store.read_knowledge_article(tx, ACTOR, arguments, 0)
        kb_citations.cite(tx, chosen.cite, chosen.kb, [answer['citation']])
    return answer


def do_edit(chosen: argparse.Namespace, database: Database) -> dict:
    try:
        with open(0 if chosen.file == '-' else chosen.file, encoding='utf-8', newline='') as file:
            content = file.read()
    except ValueError:
        raise versioned.invalid('file', 'UTF-8') from None
    arguments = {'knowledge_base_id': chosen.kb, 'article_id': chosen.article, 'content': content,
                 'expected_version': chosen.version, 'idempotency_key': chosen.key or str(uuid.uuid4())}
    if chosen.title is not None:
        arguments['title'] = chosen.title
    with database.write() as tx:
        return kb_store.edit_knowledge_article(tx, ACTOR, arguments, time.time_ns() // 1000)


def do_poll(chosen: argparse.Namespace, database: Database) -> dict:
    with database.read() as tx:
        return kb_store.poll_resource_events(tx, ACTOR, {'resource_type': 'knowledge_base', 'resource_id': chosen.kb,
                                                         'after_sequence': chosen.after, 'limit': chosen.limit}, 0)


def do_check(chosen: argparse.Namespace, database: Database) -> dict:
    with kb_citations.citing(database, chosen.citations) as tx:
        kept = kb_citations.load(chosen.citations, chosen.kb)
        if kept is None:
            raise versioned.invalid('citations', f'a file: {shown(chosen.citations)} is none')
        after = kept['after_sequence']
        verdicts = kb_citations.judge(tx, ACTOR, kept, chosen.kb)
        kb_citations.save(chosen.citations, kept)
    return {'after_sequence': after, 'next_sequence': kept['after_sequence'],
            'citations': [{**each, 'verdict': verdict} for each, verdict in zip(kept['citations'], verdicts)]}


def lines(answer: dict) -> Iterator[str]:
    """An answer of any command as people read it."""
    for hit in answer.get('results', []):
        yield f'{hit["title"]}  [{hit["citation"]["article_id"]} @ {hit["citation"]["updated_at"]}]'
        yield f'    {hit["snippet"]}'
    for event in answer.get('events', []):
        yield f'{event["sequence"]:>8}  {event["type"]:<11}  {event["article_id"]}  {event["updated_at"]}'
    for each in answer.get('citations', []):
        yield f'{each["verdict"]:<7}  {each["article_id"]} @ {each["updated_at"]}'
    for name in ('edited here too', 'unpublished', 'not listed'):
        yield from (f'{name}: {path}' for path in answer.get(name, []))
    yield from (f'skipped: {path}: {reason}' for path, reason in answer.get('skipped', []))
    if 'skipped' in answer:
        yield ', '.join(f'{len(paths)} {name}' for name, paths in answer.items())
    if 'citation' in answer:
        yield f'{answer["title"]}  [{answer["citation"]["article_id"]} @ {answer["citation"]["updated_at"]}]'
    yield from answer.get('content', '').splitlines()
    if 'next_sequence' in answer:
        yield f'next_sequence {answer["next_sequence"]}' + (', and there is more' if answer.get('has_more') else '')


# --- main ---------------------------------------------------------------------

COMMANDS: Dict[str, Callable[[argparse.Namespace, Database], dict]] = {
    'import': do_import, 'search': do_search, 'read': do_read, 'edit': do_edit, 'poll': do_poll, 'check': do_check}


def options(argv: Sequence[str]) -> argparse.Namespace:
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)    # before or after a command
    shared.add_argument('--db', metavar='FILE', help='the database; import makes it')
    shared.add_argument('--kb', help='the knowledge base in it (kb)')
    shared.add_argument('--json', action='store_true', help='one JSON object instead of lines')
    parser = argparse.ArgumentParser(prog='kb_store.py', description=__doc__, parents=[shared],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command')

    def command(name: str, said: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=said, description=f'{said}. Exit status: 0 done, 1 refused, 2 usage.',
                                   parents=[shared], epilog=f'python3 kb_store.py --db docs.db {example}')
    one = command('import', 'a folder of Markdown files; again: only what changed', 'import DIR')
    one.add_argument('folder', help='its .md and .markdown files, at any depth')
    one.add_argument('--overwrite', action='store_true', help='a changed file wins over an edit made here')
    one = command('search', 'title words first, then text', 'search retry after --cite CITATIONS.json')
    one.add_argument('words', nargs='+', help='of a title, or of a text')
    one.add_argument('--limit', type=number, default=kb_store.SEARCH_DEFAULT, help='1 to 20 (5)')
    one.add_argument('--cite', metavar='FILE', help='append the citations')
    one = command('read', 'one article', 'read guide/limits.md --cite CITATIONS.json')
    one.add_argument('article', help='its path below the folder')
    one.add_argument('--cite', metavar='FILE', help='append the citation')
    one = command('edit', 'replace the content over exactly the version that was read',
                  'edit guide/limits.md FILE --version 2026-11-08T09:30:00.000042Z')
    one.add_argument('article', help='its path below the folder')
    one.add_argument('file', help='the new content; - is standard input')
    one.add_argument('--version', required=True, help='updated_at of the read')
    one.add_argument('--title', help='a new one; without it the title stays')
    one.add_argument('--key', help='8 to 128 characters; the same call again gets the first answer')
    one = command('poll', 'the events after a sequence', 'poll 120')
    one.add_argument('after', type=number, nargs='?', default=0, help='the sequence that the last poll returned (0)')
    one.add_argument('--limit', type=number, default=kb_store.POLL_DEFAULT, help='1 to 100 (100)')
    one = command('check', 'fresh, or changed or gone (exit 1): one poll, the cursor kept', 'check CITATIONS.json')
    one.add_argument('citations', help='the file that --cite has made')
    return parser.parse_args(argv, argparse.Namespace(db=None, kb='kb', json=False))


def number(text: str) -> int:
    if not re.fullmatch('[0-9]{1,19}', text):                   # int() also takes 1_0, +5 and Arabic digits
        raise argparse.ArgumentTypeError(f'{text!r} is no number')
    return int(text)


def main(argv: Sequence[str]) -> int:
    chosen = options(argv)
    if chosen.command is None:
        import kb_kinds                                         # the table needs the printer, the commands do not
        return kb_kinds.main(['--json'] if chosen.json else [])
    if not 0 < len(chosen.kb) <= kb_store.ID_LENGTH[1] or not versioned.is_text(chosen.kb):
        print(f'kb_store.py: --kb must be text of 1 to {kb_store.ID_LENGTH[1]} characters', file=sys.stderr)
        return 2
    if not chosen.db or (chosen.command != 'import' and not os.path.exists(chosen.db)):
        made = 'is missing; import makes it' if not chosen.db else 'must name a database that an import has made'
        print(f'kb_store.py {chosen.command}: --db FILE {made}', file=sys.stderr)
        return 2
    os.umask(0o077)
    try:
        with contextlib.closing(Database(chosen.db, [kb_store.SCHEMA, SCHEMA])) as database:
            answer = COMMANDS[chosen.command](chosen, database)
    except (Refusal, OSError, sqlite3.Error) as error:
        refused = (error.as_dict() if isinstance(error, Refusal) else
                   {'error': 'file' if isinstance(error, OSError) else 'storage_unusable', 'message': str(error)})
        print(json.dumps(refused) if chosen.json else f'{refused["error"]}: {shown(refused["message"])}',
              file=sys.stdout if chosen.json else sys.stderr)
        return 2 if refused['error'] in USAGE else 1
    for line in [json.dumps(answer)] if chosen.json else map(shown, lines(answer)):
        print(line)
    return int(any(each.get('verdict', 'fresh') != 'fresh' for each in answer.get('citations', [])))
