"""pages_gitnest.py - a repository on the owner's screen: its switch and policy, change sets, and the results of checks.

Article 4, "Perché non dare all'agente un token di push?": what needs a second look and which checks must have passed
is the owner's policy, read again at every approval. Nothing that an agent wrote is executed here: somebody ran the
check elsewhere, and the owner's side records how it ended, for one composed commit.

Not here: proposals and their cards (pages_approval.py), the clicks (owner_gitnest.py, owner_gitnest_work.py).
"""
import html
import json
from typing import List, Tuple

import gitnest
import pages
import pages_approval
import pages_forms
from gitnest_proposals import VERSION
from pages import View, area, between, block, card, details, field, form, link, listed, soft, tag, text, when
from pages_content import item_name, whereabouts
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

GITNEST = ('Assistants never write here: they propose, and you decide under Needs your approval. Off refuses proposals '
           'and approvals; reading goes on.')
POLICY = ('Read again at every approval of a publication: required checks must have passed for the very commit, and '
          'marked paths ask you to look twice.')
NO_SET = 'None yet. An assistant proposes work and change sets; each waits under Needs your approval first.'
REVISE = 'A new version: it is composed anew, and whatever was proposed for this one is refused as stale.'
TOO_LARGE = 'It is too large for a form: the click revise_change_set takes it.'
FORM_CHARACTERS = 1_000_000               # of all files; in a form a byte may take three
CHECKS = {'passed': 'good', 'failed': 'bad', 'queued': 'note'}
SHORT = 10                                # characters of a commit's id that a person compares

# --- rules --------------------------------------------------------------------

def repository(view: View) -> Tuple[str, str]:
    if len(view.parts) > 2:
        return one_change_set(view)
    ref = Ref('repository', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        is_on = tx.execute('SELECT gitnest_on FROM repositories WHERE repository = ?', (ref.id,)).fetchone() == (1,)
        policy, work = gitnest.policy(tx, ref.id), gitnest.list_work(tx, ref.id)
        shown_sets, more_sets = pages.a_page(view, work['change_sets'], lambda one: one['change_set_id'], 'sets')
        sets = [change_set(tx, view, gitnest.find(tx, one['change_set_id'])) for one in shown_sets]
        results = gitnest.saved_results(tx, ref.id, None)['results']
        decided = decided_part(tx, view, ref.id)
    switch = form(view, 'set_gitnest', '', 'Switch GitNest off' if is_on else 'Switch GitNest on', repository_id=ref.id,
                  on='' if is_on else 'on')
    state = tag('GitNest is on', 'good') if is_on else tag('GitNest is off', 'bad')
    return name, (card('Changes', f'<p>{state}</p>', soft(GITNEST), switch) + work_part(view, work['work']) +
                  card('Change sets', listed(sets, NO_SET), pages.more(more_sets, name='sets'),
                       newest(work['change_sets'])) +
                  results_part(view, results) + decided +
                  card('Policy', soft(POLICY), details('Change the policy', policy_form(view, ref.id, policy),
                                                       pages.is_refused(view, 'set_policy'))) +
                  whereabouts(view, ref))


def work_part(view: View, work: List[dict]) -> str:
    shown, rest = pages.a_page(view, work, lambda one: one['work_id'], 'work')
    return card('Work', listed([text(one['title']) for one in shown], 'None yet.'), pages.more(rest, name='work'),
                newest(work))


def results_part(view: View, results: List[dict]) -> str:
    shown, rest = pages.a_page(view, results, lambda one: ' '.join((one['at'], one['kind'], one['summary'])), 'results')
    rows = [[when(one['at'], view.now_us), text(one['kind']), text(one['summary'])] for one in shown]
    saved = pages.table(('When', 'What', 'Result'), rows, 'Saved results') if rows else soft('None yet.')
    return card('Saved results', saved, pages.more(rest, name='results'), newest(results))


def decided_part(tx: Tx, view: View, repository: str) -> str:
    """What was answered, and how; each card as it was. Only for whoever may answer: a card holds what was proposed."""
    if not view.may_change:
        return ''
    found = tx.execute('SELECT proposal, status, decided_us FROM proposals WHERE repository = ? '
                       "AND status <> 'pending' AND decided_us IS NOT NULL ORDER BY decided_us DESC, proposal",
                       (repository,)).fetchall()
    shown, rest = pages.a_page(view, found, lambda row: row[0], 'decided')
    rows = [[pages.dated(view, decided_us, 'approval', one), tag(status, pages_approval.STATUS.get(status, '')),
             text(pages_approval.find(tx, one).title)] for one, status, decided_us in shown]
    table = pages.table(('Decided', 'How', 'Proposal'), rows, 'Decided proposals') if rows else soft('None yet.')
    return card('Decided proposals', table, pages.more(rest, name='decided'))


def newest(found: List[dict]) -> str:
    return soft(f'These are the newest {gitnest.LISTED}.') if len(found) == gitnest.LISTED else ''


def change_set(tx: Tx, view: View, found: gitnest.ChangeSet) -> str:
    """Its version and commit as a publication would pin them, and the checks of that commit."""
    head = between(f'<h3>{link(view, found.title, "repository", found.repository, found.change_set)}</h3>',
                   tag(f'version {found.version}'))
    if found.composition_oid is None:
        return head + soft('Not composed yet.')
    checks = [between(f'<span>{text(each["name"])} {tag(each["status"], CHECKS[each["status"]])}</span>',
                      verdicts(view, found, each['name']))
              for each in gitnest.checks_of(tx, found.change_set, found.composition_oid)]
    commit = f'<p class="soft">Composed commit <code>{html.escape(found.composition_oid[:SHORT])}</code> for ' \
             f'{text(found.target_branch)}</p>'
    return head + commit + listed(checks, 'No check is required.')


def verdicts(view: View, found: gitnest.ChangeSet, name: str) -> str:
    """How a check ended elsewhere, recorded for this commit."""
    ours = {'change_set_id': found.change_set, 'composition_oid': found.composition_oid, 'check': name}
    return ('<div class="row">' + form(view, 'record_check', '', 'It passed', status='passed', **ours) +
            form(view, 'record_check', '', 'It failed', status='failed', **ours) + '</div>')


def one_change_set(view: View) -> Tuple[str, str]:
    """What is in it, to be read and revised: over exactly the version that the page showed."""
    ref = Ref('repository', view.parts[1])
    with view.state.db.read() as tx:
        name = item_name(tx, view, ref)
        found = gitnest.find_in(tx, ref.id, view.parts[2])
        state = change_set(tx, view, found)
    imports = json.loads(found.imports)
    parts = [card(f'Import {number}', f'<p>{text(one["message"])}</p>', *(
        f'<h3><bdi>{html.escape(path)}</bdi></h3>{block(content)}' for path, content in one['files']))
        for number, one in enumerate(imports, 1)]
    revise = details('Change the imports', revision_form(view, found, imports),
                     pages.is_refused(view, 'revise_change_set'))
    return found.title, (card('State', state) + ''.join(parts) +
                         (card('Revise', soft(REVISE), revise) if view.may_change else '') +
                         f'<p>{link(view, "Back to " + name, "repository", ref.id)}</p>')


def revision_form(view: View, found: gitnest.ChangeSet, imports: List[dict]) -> str:
    """As it is stored, or as it was typed when that was refused; with room for one more file and one more import."""
    if sum(len(content) for one in imports for _, content in one['files']) > FORM_CHARACTERS:
        return soft(TOO_LARGE)
    rows = [(one['message'], one['files']) for one in imports]
    if pages.is_refused(view, 'revise_change_set'):
        rows = [(one['message'], [(file['path'], file['content']) for file in one['files']])
                for one in pages_forms.imports_of(view.sent, {})]
    inner = ''
    for number, (message, files) in enumerate([*rows, ('', [])]):
        fields = field('Message; empty: no such import', f'message.{number}', message, more='')
        for place, (path, content) in enumerate([*files, ('', '')]):
            label = f'Path of file {place + 1}; empty: no such file'
            fields += (field(label, f'path.{number}.{place}', path, more='') +
                       area('Its content', f'content.{number}.{place}', content, min(12, content.count('\n') + 2)))
        inner += f'<fieldset><legend>Import {number + 1}</legend>{fields}</fieldset>'
    return form(view, 'revise_change_set', inner, 'Save as a new version', change_set_id=found.change_set,
                **{VERSION: str(found.version)})


def policy_form(view: View, repository_id: str, policy: gitnest.Policy) -> str:
    over = '' if policy.look_twice_over == gitnest.UNLIMITED else str(policy.look_twice_over)
    checks, paths = '\n'.join(policy.required_checks), '\n'.join(policy.look_twice)

    def shown(name: str, before: str) -> str:
        return pages.typed(view, 'set_policy', name, before)

    inner = (area('Required checks, one a line', 'required_checks', shown('required_checks', checks), 3) +
             area('Paths to look at twice, one a line; a folder ends in a slash', 'look_twice',
                  shown('look_twice', paths), 3) +
             field('Look twice over so many bytes; empty for never', 'look_twice_over', shown('look_twice_over', over),
                   'number', '') +
             field('Provider, as it is shown', 'provider', shown('provider', policy.provider), more='') +
             field('Its address; never shown again', 'provider_url', '', more=''))
    return form(view, 'set_policy', inner, 'Save policy', repository_id=repository_id)
