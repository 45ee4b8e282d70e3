"""kb_citations.py - a file of citations that a reader keeps, and one poll that says which of them still stand.

Article 1, "Rileggere ogni articolo citato o interrogare il log?": the file holds the citations, the cursor of the log
and what earlier polls said of them, so that a check costs one poll however many were cited. To look on:

    python3 kb_store.py --db docs.db search retry after --cite CITATIONS.json
    python3 kb_store.py --db docs.db check CITATIONS.json

Not here: the verdict on one citation and the poll (kb_store.py), the commands (kb_folder.py), what a poll costs beside
a re-read (kb_kinds.py).
"""
import json
import os
from typing import ContextManager, List, Optional, Sequence

import kb_store
import versioned
from versioned import Database, Ref, Refusal, Tx

# --- rules --------------------------------------------------------------------

def judge(tx: Tx, actor: str, kept: dict, knowledge_base: str) -> List[str]:
    """A verdict a citation, in their order. `kept` gets the new cursor and what the next check must remember."""
    log = {'resource_type': 'knowledge_base', 'resource_id': knowledge_base}
    cited = {each['article_id'] for each in kept['citations']}
    moved = {article_id: kb_store.Moved(*news) for article_id, news in kept['moved'].items()}
    after = kept['after_sequence']
    try:
        more = True
        while more:
            page = kb_store.poll_resource_events(tx, actor, {**log, 'after_sequence': kept['after_sequence']}, 0)
            kb_store.apply_events(moved, page['events'])
            kept['after_sequence'], more = page['next_sequence'], page['has_more']
        lost = kept['after_sequence'] < after                   # another log, or a restored one: it cannot tell
    except Refusal as refusal:
        if refusal.code != 'cursor_too_old':
            raise
        kept['after_sequence'], lost = refusal.data['next_sequence'], True
    if lost:
        moved = {article_id: read_again(tx, actor, knowledge_base, article_id) for article_id in sorted(cited)}
    kept['moved'] = {article_id: list(news) for article_id, news in sorted(moved.items()) if article_id in cited}
    return [kb_store.verdict(each, moved) for each in kept['citations']]


def read_again(tx: Tx, actor: str, knowledge_base: str, article_id: str) -> kb_store.Moved:
    """What a poll would have said of an article, from the article: the dear way, when the log does not reach back."""
    try:
        article = kb_store.read_knowledge_article(
            tx, actor, {'knowledge_base_id': knowledge_base, 'article_id': article_id}, 0)
        return kb_store.Moved(article['citation']['updated_at'], False)
    except Refusal as refusal:
        if refusal.code == 'invalid_argument':
            raise
        return kb_store.Moved('9999-12-31T23:59:59.999999Z', True)


def checked(kept: object, knowledge_base: str) -> dict:
    """The content of a citations file, or a refusal that names what is wrong with it."""
    if not isinstance(kept, dict) or not isinstance(kept.get('citations'), list):
        raise versioned.invalid('citations', 'a list in an object, as --cite writes it')
    versioned.check_integer('after_sequence', kept.get('after_sequence', 0), 0, 2 ** 63 - 1)
    for each in kept['citations']:
        if not isinstance(each, dict) or each.get('knowledge_base_id') != knowledge_base:
            raise versioned.invalid('citations', f'all of the knowledge base {knowledge_base!r} (--kb chooses another)')
        kb_store.text(each, 'article_id', kb_store.ID_LENGTH)
        if versioned.stamp_text(versioned.parse_stamp(each.get('updated_at'), 'updated_at')) != each['updated_at']:
            raise versioned.invalid('updated_at', 'the text that the citation had, to the last digit')
        if not all(isinstance(value, str) for value in each.values()):
            raise versioned.invalid('citations', 'texts by name, each of them: nothing else stands in a citation')
    moved = kept.get('moved', {})
    if not isinstance(moved, dict) or not all(isinstance(news, list) and list(map(type, news)) == [str, bool]
                                              for news in moved.values()):
        raise versioned.invalid('moved', 'what the last check wrote there, or absent')
    return {'after_sequence': kept.get('after_sequence', 0), 'citations': kept['citations'], 'moved': moved}


# --- I/O ----------------------------------------------------------------------

def load(path: str, knowledge_base: str) -> Optional[dict]:
    try:
        with open(path, encoding='utf-8') as file:
            return checked(json.load(file), knowledge_base)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise versioned.invalid(path, 'a JSON file of citations, as --cite writes it') from None


def save(path: str, kept: dict) -> None:
    """The whole file or the old one: a reader that is interrupted must not lose its cursor."""
    scratch = f'{path}.{os.getpid()}'
    with open(scratch, 'w', encoding='utf-8') as file:
        file.write(json.dumps(kept, indent=1))
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)


def citing(database: Database, path: Optional[str]) -> ContextManager[Tx]:
    """Who changes a citations file is the one writer meanwhile: of two commands neither loses what the other cites."""
    return database.read() if path is None else database.write()


def cite(tx: Tx, path: Optional[str], knowledge_base: str, citations: Sequence[dict]) -> None:
    """Append. A new file begins at the end of the log, in the snapshot that the citations come from."""
    if path is None:
        return
    end = versioned.last_sequence(tx, Ref('knowledge_base', knowledge_base))
    kept = load(path, knowledge_base) or {'after_sequence': end, 'citations': [], 'moved': {}}
    kept['citations'] += [each for each in citations if each not in kept['citations']]
    save(path, kept)
