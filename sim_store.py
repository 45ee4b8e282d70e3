"""sim_store.py - the support day of article 1 through the real store: people, a scripted Claude, and the truth.

Article 1, "La ricostruzione": every search, read, edit and poll is a transaction on a sqlite file. Three ways of
checking citations are held against what the people themselves did, at every check; one that differs is an error.

    python3 sim.py kb        plays five days and prints the tables (sim_kb.py)

Not here: how a day is drawn and counted without a store (sim_model.py), the tables (sim_kb.py).
"""
import contextlib
import json
import os
import shutil
from typing import Callable, Dict, Iterable, List, NamedTuple, Sequence, Set

import kb_store
import versioned
from sim_model import (HITS_KEPT, POLL_PAGE, SEARCH_LIMIT, TOPICS, US_AN_HOUR, Counts, Day, Save, add_up, control,
                       delay_s, moments)
from versioned import Database, Tx

# --- data ---------------------------------------------------------------------

NAME = 'kb'
START_US = versioned.parse_stamp('2026-11-08T09:00:00Z')
YESTERDAY_US = START_US - 24 * US_AN_HOUR                       # when the articles were written
PEOPLE, CLAUDE = 'person:support', 'connection:claude'
FILLER = ('Open the panel, pick the plan that fits, and follow the steps below in order. ' * 20)[:1458]

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(',', ':'))

Tool = Callable[[Tx, str, dict, int], dict]


class Disagreement(Exception):
    """A way of checking differs from what the people did: the store is wrong, and no table is worth printing."""


class Cited(NamedTuple):
    """A citation as the scripted Claude keeps it; the title is for the check that has nothing else."""
    article_id: str
    updated_at: str
    title: str


class Fact(NamedTuple):
    """What a person knows of an article from having saved it."""
    updated_at: str
    published: bool
    title: str


# --- rules --------------------------------------------------------------------

def article_id(article: int) -> str:
    return f'art-{article:06d}'


def title_text(topic: int, code: int) -> str:
    """Two words: the topic that stays, and a code of fixed width that no other title has ever had."""
    return f'{TOPICS[topic]} k{code:06d}'


def content_text(revision: int) -> str:
    """1.4 KiB of fixed width, without any topic or code: the words of a title are found in titles only."""
    return f'Revision {revision:06d}. {FILLER}'


class People:
    """They save, and remember what they saved: the ground truth, taken neither from the log nor from a read."""

    def __init__(self, database: Database, day: Day, facts: Dict[str, Fact]) -> None:
        self.database, self.topics, self.facts = database, day.topics, dict(facts)
        self.revision = len(facts)

    def save(self, save: Save, now_us: int) -> None:
        name = article_id(save.article)
        fact = self.facts[name]
        self.revision += 1
        arguments = {'knowledge_base_id': NAME, 'article_id': name}
        if save.kind == 'unpublish' and fact.published:
            answer = write(self.database, PEOPLE, kb_store.unpublish_article, arguments, now_us)
        else:
            arguments['content'] = content_text(self.revision)
            if save.kind == 'retitle':
                arguments['title'] = title_text(self.topics[save.article], self.revision)
            answer = write(self.database, PEOPLE, kb_store.save_article, arguments, now_us)
        published = fact.published and save.kind != 'unpublish'
        self.facts[name] = Fact(answer['citation']['updated_at'], published, answer['title'])

    def stale(self, cited: Iterable[Cited]) -> Set[Cited]:
        return {each for each in cited if self.facts[each.article_id][:2] != (each.updated_at, True)}


class Claude:
    """It searches with a title, reads the first two hits and keeps both citations; an hour later it wants to know."""

    def __init__(self, database: Database, cursor: int) -> None:
        self.database, self.cursor = database, cursor
        self.answers: List[List[Cited]] = []
        self.moved: Dict[str, kb_store.Moved] = {}
        self.spent: Counts = {}

    def answer(self, title: str, now_us: int) -> List[Cited]:
        hits = self.search(title, now_us)['results'][:HITS_KEPT]
        reads = [self.read(hit['citation']['article_id'], now_us) for hit in hits]
        self.answers.append([Cited(each['citation']['article_id'], each['citation']['updated_at'], each['title'])
                             for each in reads])
        return self.answers[-1]

    def search(self, title: str, now_us: int) -> dict:
        return read(self.database, CLAUDE, kb_store.search_knowledge_base,
                    {'knowledge_base_id': NAME, 'query': title, 'limit': SEARCH_LIMIT}, now_us)

    def read(self, name: str, now_us: int) -> dict:
        return read(self.database, CLAUDE, kb_store.read_knowledge_article,
                    {'knowledge_base_id': NAME, 'article_id': name}, now_us)

    def stale_by_search(self, cited: Iterable[Cited], now_us: int) -> Set[Cited]:
        """Every cited title once more: it tells when the title no longer leads to the article."""
        leads = {}
        for title in sorted({each.title for each in cited}):
            answer = self.weigh('search', self.search(title, now_us))
            leads[title] = {hit['citation']['article_id'] for hit in answer['results'] if hit['title'] == title}
        return {each for each in cited if each.article_id not in leads[each.title]}

    def stale_by_read(self, cited: Iterable[Cited], now_us: int) -> Set[Cited]:
        """Every cited article once more, whole: its version, or that it is gone."""
        current = {}
        for name in sorted({each.article_id for each in cited}):
            answer = self.weigh('read', self.read(name, now_us))
            current[name] = answer['citation']['updated_at'] if 'citation' in answer else answer['error']
        return {each for each in cited if current[each.article_id] != each.updated_at}

    def stale_by_poll(self, cited: Iterable[Cited], now_us: int) -> Set[Cited]:
        """The log from the cursor: its size follows what changed, not what was cited."""
        more = True
        while more:
            page = self.weigh('poll', read(self.database, CLAUDE, kb_store.poll_resource_events,
                                           {'resource_type': 'knowledge_base', 'resource_id': NAME,
                                            'after_sequence': self.cursor, 'limit': POLL_PAGE}, now_us))
            kb_store.apply_events(self.moved, page['events'])
            self.cursor, more = page['next_sequence'], page['has_more']
        return {each for each in cited if kb_store.verdict(each._asdict(), self.moved) != 'fresh'}

    def weigh(self, way: str, answer: dict) -> dict:
        for name, amount in ((f'{way} calls', 1), (f'{way} bytes', size_bytes(answer))):
            self.spent[name] = self.spent.get(name, 0) + amount
        return answer


def check(people: People, claude: Claude, hour: int, now_us: int) -> Counts:
    """One hourly check, all three ways, against the truth."""
    cited = {each for answer in claude.answers for each in answer}
    truth = people.stale(cited)
    by_search = claude.stale_by_search(cited, now_us)
    for way, found in (('read', claude.stale_by_read(cited, now_us)), ('poll', claude.stale_by_poll(cited, now_us))):
        if found != truth:
            raise Disagreement(f'hour {hour}, {way}: {len(found)} stale, in truth {len(truth)}; '
                               f'only one of them has {sorted(found ^ truth)[:3]}')
    if not by_search <= truth:
        raise Disagreement(f'hour {hour}, search: fresh citations called stale: {sorted(by_search - truth)[:3]}')
    each = [sum(citation in truth for citation in answer) for answer in claude.answers]
    return {f'answers {hour}': len(each), f'citations {hour}': sum(map(len, claude.answers)),
            f'stale {hour}': len(truth), f'stale each {hour}': sum(each),
            f'answers stale {hour}': len(each) - each.count(0), f'by title {hour}': len(by_search)}


def edit(people: People, claude: Claude, cited: Cited, question: int, now_us: int) -> Counts:
    """Claude edits over a citation: saved, and sent a second time; changed, then read and written again; or gone."""
    fact = people.facts[cited.article_id]
    expected = 'gone' if not fact.published else 'saved' if fact.updated_at == cited.updated_at else 'changed'
    arguments = {'knowledge_base_id': NAME, 'article_id': cited.article_id, 'content': content_text(900_000 + question),
                 'expected_version': cited.updated_at, 'idempotency_key': f'question-{question:04d}'}
    answer = write(claude.database, CLAUDE, kb_store.edit_knowledge_article, arguments, now_us)
    outcome = {'stale_version': 'changed', 'gone': 'gone'}.get(answer.get('error'), 'saved')
    if outcome != expected:
        raise Disagreement(f'{cited}: {outcome}, in truth {expected}')
    counts = {f'{outcome} {delay_s(question)}': 1}
    if outcome == 'saved':
        counts.update(send_again(claude, arguments, answer, now_us))
    elif outcome == 'changed':
        again = claude.read(cited.article_id, now_us)['citation']['updated_at']
        answer = write(claude.database, CLAUDE, kb_store.edit_knowledge_article,
                       {**arguments, 'expected_version': again}, now_us)
        counts['refused again'] = int('error' in answer)
    if 'citation' in answer:
        people.facts[cited.article_id] = fact._replace(updated_at=answer['citation']['updated_at'])
    return counts


def send_again(claude: Claude, arguments: dict, first: dict, now_us: int) -> Counts:
    """A retry after a lost answer must get the first answer, marked, and write no event."""
    before = last_sequence(claude.database)
    again = write(claude.database, CLAUDE, kb_store.edit_knowledge_article, arguments, now_us)
    return {'not replayed': int(again != {**first, 'replayed': True}),
            'replay events': last_sequence(claude.database) - before}


def size_bytes(answer: dict) -> int:
    return len(COMPACT.encode(answer).encode())


# --- I/O ----------------------------------------------------------------------

def read(database: Database, actor: str, tool: Tool, arguments: dict, now_us: int) -> dict:
    try:
        with database.read() as tx:
            return tool(tx, actor, arguments, now_us)
    except versioned.Refusal as refusal:
        return refusal.as_dict()


def write(database: Database, actor: str, tool: Tool, arguments: dict, now_us: int) -> dict:
    try:
        with database.write() as tx:
            return tool(tx, actor, arguments, now_us)
    except versioned.Refusal as refusal:
        return refusal.as_dict()


def last_sequence(database: Database) -> int:
    with database.read() as tx:
        return versioned.last_sequence(tx, versioned.Ref('knowledge_base', NAME))


def open_database(path: str) -> Database:
    # NORMAL: a simulated day need not outlive a power cut, and 7,000 syncs would be most of the run.
    return Database(path, [kb_store.SCHEMA], synchronous='NORMAL')


def write_articles(path: str, day: Day) -> Dict[str, Fact]:
    """The knowledge base as the day finds it; one event an article, all before the day's cursor."""
    database, facts = open_database(path), {}
    with database.write() as tx:
        kb_store.create_knowledge_base(tx, NAME, 'Support')
        for article, topic in enumerate(day.topics):
            arguments = {'knowledge_base_id': NAME, 'article_id': article_id(article), 'publish': True,
                         'title': title_text(topic, article), 'content': content_text(article)}
            answer = kb_store.create_article(tx, PEOPLE, arguments, YESTERDAY_US)
            facts[article_id(article)] = Fact(answer['citation']['updated_at'], True, answer['title'])
    database.close()
    return facts


def play_in_store(path: str, day: Day, facts: Dict[str, Fact]) -> Counts:
    """The day with hourly checks on the database at `path`."""
    with contextlib.closing(open_database(path)) as database:
        people, claude, counts = People(database, day, facts), Claude(database, len(facts)), {}
        for at_us, kind, index in moments(day):
            now_us = START_US + at_us
            if kind == 0:
                people.save(day.saves[index], now_us)
            elif kind == 1:
                claude.answer(people.facts[article_id(day.questions[index].article)].title, now_us)
            else:
                counts.update(check(people, claude, index, now_us))
    return {**counts, **claude.spent}


def play_edits_in_store(path: str, day: Day, facts: Dict[str, Fact]) -> Counts:
    """The day with an edit after each answer, delay_s(i) later; it runs on after the people have stopped."""
    with contextlib.closing(open_database(path)) as database:
        people, claude, counts = People(database, day, facts), Claude(database, len(facts)), []
        cited: Dict[int, List[Cited]] = {}
        for at_us, kind, index in moments(day, edits=True):
            now_us = START_US + at_us
            if kind == 0:
                people.save(day.saves[index], now_us)
            elif kind == 1:
                cited[index] = claude.answer(people.facts[article_id(day.questions[index].article)].title, now_us)[:1]
            else:
                counts += [edit(people, claude, each, index, now_us) for each in cited[index]]
    return add_up(counts)


def play_three(folder: str, day: Day) -> Sequence[Counts]:
    """(checks, control, edits) of one seed; each begins with a copy of the same file."""
    written = os.path.join(folder, 'written.db')
    facts = write_articles(written, day)
    counts = []
    for play, played in ((play_in_store, day), (play_in_store, control(day)), (play_edits_in_store, day)):
        path = os.path.join(folder, 'day.db')
        shutil.copyfile(written, path)
        counts.append(play(path, played, facts))
        os.remove(path)
    os.remove(written)
    return counts
