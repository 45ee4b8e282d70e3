"""ablate_kb.py - article 1's rules taken out: versions in citations, the cursor, published only, compare-and-swap.

Article 1, "Se lo implementi tu", five points. Every experiment is a knowledge base on disk and a handful of calls.

    python3 ablate.py compare-and-swap        one of them, step by step

Not here: what a row is and how a rule is taken out (ablate_rule.py).
"""
import contextlib
import json
import os
import sys
import tempfile
from typing import Iterator, List

import kb_store
import runs_signin
import sim_model
import sim_store
import tools
import tools_kb
import versioned
from ablate_rule import Change, Row, Say, always
from versioned import Database

# --- data ---------------------------------------------------------------------

HERE = sys.modules[__name__]
KB = {'knowledge_base_id': 'kb'}
REFUNDS = {**KB, 'article_id': 'refunds'}
NOW_US = sim_store.START_US
DAY = sim_model.Settings(articles=60, questions=40, saves=80, hours=4)

# What a reader does with the store. These two stand here so that they can be taken out like a rule of the store.
CHECK = sim_store.Claude.stale_by_read                          # which part of a citation he compares


def keep_cursor(page: dict) -> int:
    """The one integer to keep between two checks."""
    return page['next_sequence']


# --- rules --------------------------------------------------------------------

@contextlib.contextmanager
def knowledge_base() -> Iterator[Database]:
    """One published article, `refunds`, and one draft."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'kb.db')
        with contextlib.closing(Database(path, [kb_store.SCHEMA], synchronous='OFF')) as database:
            with database.write() as tx:
                kb_store.create_knowledge_base(tx, 'kb', 'Support')
                for name, title, publish in (('refunds', 'Refund policy', True), ('bands', 'Salary bands', False)):
                    kb_store.create_article(tx, 'person:mika', {**KB, 'article_id': name, 'title': title,
                                                                'content': 'Within 30 days.', 'publish': publish}, 0)
            yield database


def ask(database: Database, tool: sim_store.Tool, **arguments: object) -> dict:
    """An answer or a refusal, as a dictionary. The clock stands still: versions do not depend on it."""
    return sim_store.write(database, 'connection:claude', tool, {**KB, **arguments}, NOW_US)


def mika_saves(database: Database, content: str) -> dict:
    return sim_store.write(database, 'person:mika', kb_store.save_article, {**REFUNDS, 'content': content}, NOW_US)


def read_refunds(database: Database) -> dict:
    return ask(database, kb_store.read_knowledge_article, article_id='refunds')


def edit_refunds(database: Database, version: str, content: str) -> dict:
    return ask(database, kb_store.edit_knowledge_article, article_id='refunds', content=content,
               expected_version=version, idempotency_key='key-00001')


def outcome(answer: dict) -> str:
    return answer.get('error') or ('replayed' if answer.get('replayed') else 'saved')


def stale_citations(say: Say) -> str:
    day = sim_model.draw_day(1, DAY)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'kb.db')
        facts = sim_store.write_articles(path, day)
        with contextlib.closing(sim_store.open_database(path)) as database:
            people, claude = sim_store.People(database, day, facts), sim_store.Claude(database, len(facts))
            for at_us, kind, index in sim_model.moments(day):
                if kind == 0:
                    people.save(day.saves[index], NOW_US + at_us)
                elif kind == 1:
                    title = people.facts[sim_store.article_id(day.questions[index].article)].title
                    claude.answer(title, NOW_US + at_us)
            cited = {each for answer in claude.answers for each in answer}
            truth, found = people.stale(cited), CHECK(claude, cited, NOW_US)
    say(f'  Claude holds {len(cited)} citations after four hours; people have changed the articles of {len(truth)}')
    return f'{len(found)} of {len(truth)} stale citations are found'


def hourly_polls(say: Say) -> str:
    size = cursor = 0
    with knowledge_base() as database:
        for hour in range(1, 9):
            for save in range(40):
                mika_saves(database, f'{hour}, {save}')
            more = True
            while more:
                page = ask(database, kb_store.poll_resource_events, resource_type='knowledge_base', resource_id='kb',
                           after_sequence=cursor, limit=100)
                size, cursor, more = size + len(json.dumps(page)), page['next_sequence'], page['has_more']
            cursor = keep_cursor(page)
            say(f'  hour {hour}: {size // 1024} KiB so far')
    return f'8 checks over 320 changes return {size // 1024} KiB'


def search_for_a_draft(say: Say) -> str:
    with knowledge_base() as database:
        found = [hit['title'] for hit in ask(database, kb_store.search_knowledge_base, query='salary bands')['results']]
        say('  a person has a draft, "Salary bands", and Claude searches for it')
        return 'the search finds ' + (', '.join(found) or 'nothing')


def unpublish_a_cited_one(say: Say) -> str:
    with knowledge_base() as database:
        cited, moved = read_refunds(database)['citation'], {}
        sim_store.write(database, 'person:mika', kb_store.unpublish_article, REFUNDS, NOW_US)
        say('  Claude cites the refund policy, then Mika takes it from publication')
        page = ask(database, kb_store.poll_resource_events, resource_type='knowledge_base', resource_id='kb')
        kb_store.apply_events(moved, page['events'])
        return f'the poll calls the citation {kb_store.verdict(cited, moved)}'


def edit_an_old_version(say: Say) -> str:
    with knowledge_base() as database:
        old = read_refunds(database)['citation']['updated_at']
        mika_saves(database, 'Within 14 days, says the law.')
        say('  Claude reads "Within 30 days.", Mika writes "Within 14 days, says the law."')
        answer = edit_refunds(database, old, 'Within 30 days, by mail.')
        say(f'  Claude edits with the version it read: {outcome(answer)}')
        return f'{outcome(answer)}; the article says: {read_refunds(database)["content"]}'


def two_saves_on_a_frozen_clock(say: Say) -> str:
    with knowledge_base() as database:
        mika_saves(database, 'first')
        old = read_refunds(database)['citation']['updated_at']
        mika_saves(database, 'second, which Claude has not read')
        say(f'  two saves at one tick of the clock; Claude holds {old[11:]}, of the first')
        return f'its edit over the second is {outcome(edit_refunds(database, old, "third"))}'


def lost_answer(say: Say) -> str:
    with knowledge_base() as database:
        version = read_refunds(database)['citation']['updated_at']
        first = edit_refunds(database, version, 'Within 14 days.')
        again = edit_refunds(database, version, 'Within 14 days.')
        say(f'  the first answer ({outcome(first)}) is lost on the way, the host sends the same call again')
        return f'the retry is told: {outcome(again)}'


def ask_the_person(say: Say) -> str:
    edit = next(tool for tool in tools_kb.TOOLS if tool.name == 'edit_knowledge_article')
    shown = tools.describe(edit)
    say(f'  the catalogue says of edit_knowledge_article: {shown["annotations"]}')
    return 'the host asks the person before the call' if runs_signin.needs_consent(shown) else 'the host does not ask'


def quiet(describe):
    return lambda tool: {**describe(tool), 'annotations': {'readOnlyHint': True}}


ROWS: List[Row] = [
    Row(1, 1, 'version-in-citation', 'a citation carries a version, not a title alone', 'kb_store.py: citation',
        [Change(HERE, 'CHECK', always(sim_store.Claude.stale_by_search))], stale_citations),
    Row(1, 1, 'never-twice', 'a version is given once, whatever the clock does', 'versioned.py: next_stamp',
        [Change(versioned, 'next_stamp', always(lambda tx, ref, current_us, now_us: now_us))],
        two_saves_on_a_frozen_clock),
    Row(1, 2, 'cursor', 'one integer is kept between two checks', 'kb_store.py: poll_resource_events',
        [Change(HERE, 'keep_cursor', always(lambda page: 0))], hourly_polls),
    Row(1, 3, 'published-only', 'only what is published is searched and read', 'kb_store.py: PUBLISHED',
        [Change(kb_store, 'PUBLISHED', always("state <> ''"))], search_for_a_draft),
    Row(1, 3, 'gone', 'unpublishing is an event of its own', 'kb_store.py: event_type',
        [Change(kb_store, 'event_type', always(lambda before, after: 'updated'))], unpublish_a_cited_one),
    Row(1, 4, 'compare-and-swap', 'an edit goes over the version it names, or nowhere', 'kb_store.py: IS_CURRENT',
        [Change(kb_store, 'IS_CURRENT', always('? IS NOT NULL'))], edit_an_old_version),
    Row(1, 4, 'replay', 'an edit has a key, and is done once', 'versioned.py: once',
        [Change(versioned, 'once', always(lambda tx, actor, key, tool, arguments, work: work()))], lost_answer),
    Row(1, 5, 'annotations', 'the edit tool is marked as a write, and the host asks each time', 'tools.py: describe',
        [Change(tools, 'describe', quiet)], ask_the_person)]
