"""pages_articles.py - knowledge articles: to read and to edit as the person one is, and every version that was saved.

Article 1: published articles feed the workspace's assistants and its search; a person's save that comes second is told
so and keeps its words. The history shows who saved what and when, the words of each version, how they differ from the
one before, and puts an old text back, over exactly the version that the page showed.

Not here: what a save means (kb_store.py), what is kept of it (kb_history.py), the clicks (owner_project.py).
"""
import html
from typing import List, Sequence, Tuple

import kb_store
import owner
import pages
import proposal_card
import versioned
from pages import View, area, block, card, coloured, field, form, link, soft, tag, text, typed, when
from pages_content import actor_name, item_name, whereabouts
from versioned import Ref

# --- data ---------------------------------------------------------------------

STATES = {'published': 'good', 'draft': 'note', 'unpublished': ''}
PUBLISHED = ('Published articles feed the assistants and the search of this workspace. Nobody outside of it sees them; '
             'drafts are seen on these pages only.')
KEPT = 'Every save keeps the words that it replaces, for a year. Assistants see only what is published now.'
PUT_BACK = ('A new save with this title and this text, in the place of what stands there now. Whether the article is '
            'published stays as it is.')
HISTORY_SHOWN = 20

# --- rules --------------------------------------------------------------------

def knowledge_base(view: View) -> Tuple[str, str]:
    ref = Ref('knowledge_base', view.parts[1])
    if len(view.parts) > 2:
        return article(view, ref, view.parts[2]) if len(view.parts) == 3 else version(view, ref, *view.parts[2:])
    with view.state.db.read() as tx:
        name, found = item_name(tx, view, ref), kb_store.articles_for_people(tx, ref.id)
    shown = [row for row in found if row[0] > view.query.get('after', '')][:pages.A_PAGE]
    rows = [[link(view, title, 'knowledge_base', ref.id, one), tag(state, STATES[state]), when(saved_us, view.now_us)]
            for one, state, saved_us, title in shown]
    inner = pages.table(('Article', 'State', 'Saved'), rows, 'Articles') if rows else \
        pages.nothing(view, 'No article yet.', 'Write the first one below.')
    rest = shown[-1][0] if shown and shown[-1][0] != found[-1][0] else None
    publish = pages.checkbox('Publish at once', 'publish', typed(view, 'save_article', 'publish') != '')
    write = form(view, 'save_article', editor(view, '', '', 8) + publish, 'Save', 'first', knowledge_base_id=ref.id,
                 article_id='')
    return name, (soft(PUBLISHED) + card('Articles', inner, pages.more(rest)) + card('New article', write) +
                  whereabouts(view, ref))


def editor(view: View, title: str, content: str, rows: int) -> str:
    return (field('Title', 'title', typed(view, 'save_article', 'title', title), more='required maxlength="300"') +
            area('Text', 'content', typed(view, 'save_article', 'content', content), rows))


def article(view: View, ref: Ref, article_id: str) -> Tuple[str, str]:
    with view.state.db.read() as tx:
        name, found = item_name(tx, view, ref), kb_store.article_for_people(tx, ref.id, article_id)
        by = actor_name(tx, found['updated_by'])
    version, state = versioned.stamp_text(found['updated_us']), found['state']
    ours = {'knowledge_base_id': ref.id, 'article_id': article_id}
    write = form(view, 'save_article', editor(view, found['title'], found['content'], 16), 'Save', 'first',
                 expected_version=version, **ours) or block(typed(view, 'save_article', 'content', found['content']))
    turn = form(view, 'unpublish_article', '', 'Unpublish', **ours) if state == 'published' else \
        form(view, 'publish_article', '', 'Publish', **ours)
    head = (f'<p>{tag(state, STATES[state])} <span class="soft">saved {when(found["updated_us"], view.now_us)} by '
            f'{text(by)}, version <code>{version}</code></span></p>')
    as_it_is = card('As it is now', block(found['content'])) if pages.is_refused(view, 'save_article') else ''
    return found['title'], (head + as_it_is + card('Article', write) + card('Publication', soft(PUBLISHED), turn) +
                            history(view, ours) + f'<p>In {link(view, name, *ref)}.</p>')


def history(view: View, ours: dict) -> str:
    ask = {**ours, 'limit': HISTORY_SHOWN + 1, **({'before': view.query['after']} if 'after' in view.query else {})}
    found = owner.run(view.state, view.session.person, 'article_history', ask)['history']
    with view.state.db.read() as tx:
        names = {one['actor']: actor_name(tx, one['actor']) for one in found}
    shown = found[:HISTORY_SHOWN]
    rows = [[pages.dated(view, one['version'], 'knowledge_base', *ours.values(), one['version']),
             text(names[one['actor']]), tag(one['state'], STATES[one['state']]), text(one['title'])] for one in shown]
    rest = shown[-1]['version'] if len(found) > HISTORY_SHOWN else None
    return card('History', soft(KEPT), pages.table(('Saved', 'Who', 'State', 'Title'), rows, 'History'),
                pages.more(rest, 'Earlier versions'))


def version(view: View, ref: Ref, article_id: str, stamp: str) -> Tuple[str, str]:
    """One saved version: what it changed, its whole text, and the way back to it."""
    ours = {'knowledge_base_id': ref.id, 'article_id': article_id}
    with view.state.db.read() as tx:
        item_name(tx, view, ref)
        now_us = kb_store.article_for_people(tx, ref.id, article_id)['updated_us']
    found = owner.run(view.state, view.session.person, 'article_version', {**ours, 'version': stamp})
    with view.state.db.read() as tx:
        by = actor_name(tx, found['actor'])
    head = (f'<p>{tag(found["state"], STATES[found["state"]])} <span class="soft">saved {when(stamp, view.now_us)} by '
            f'{text(by)}, version <code>{html.escape(stamp)}</code></span></p>')
    if found['version'] == versioned.stamp_text(now_us):
        turn = soft('This is the article as it is now.')
    else:
        turn = card('Put it back', soft(PUT_BACK), form(
            view, 'put_article_back', '', 'Put this text back', version=stamp,
            expected_version=versioned.stamp_text(now_us), **ours))
    return f'A saved version of {found["title"]}', (
        head + card('What it changed', changes(found)) + card('The whole text', block(found['content'])) + turn +
        f'<p>{link(view, "Back to the article", "knowledge_base", *ours.values())}</p>')


def changes(found: dict) -> str:
    if found['before'] is None:
        return soft('Nothing older is kept to compare it with.')
    lines = difference(lines_of(found['before']), lines_of(found))
    return coloured(lines) if lines else soft('Nothing: it was saved with the same words.')


def lines_of(version: dict) -> List[str]:
    """The title and the state are words of the version too."""
    return [f'Title: {version["title"]}', f'State: {version["state"]}', '', *version['content'].split('\n')]


def difference(old: Sequence[str], new: Sequence[str]) -> List[str]:
    """Lines with '+', '-' or ' ' in front, '…' where equal ones are left out. Every changed line is there, and what
    no eye sees is shown by its number."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - start) if old[-1 - n] != new[-1 - n]), least - start)
    if start == len(old) == len(new):
        return []
    lines = [' ' + line for line in old[max(0, start - proposal_card.CONTEXT):start]]
    lines += changed(old[start:len(old) - end], new[start:len(new) - end])
    lines += [' ' + line for line in old[len(old) - end:][:proposal_card.CONTEXT]]
    return [proposal_card.visible(line) for line in lines]


def changed(old: Sequence[str], new: Sequence[str]) -> List[str]:
    lines = [' …' if line.startswith('@@') else line for line in proposal_card.compared(old, new)]
    return lines[1:] if lines[:1] == [' …'] else lines
