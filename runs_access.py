"""runs_access.py - article 7's nine steps, for a server that checks every call and for one that trusts the token.

Article 7, "La ricostruzione": the client starts without a token, finds the sign-in from the 401 alone, and then
reads and writes while the owner adds, moves, removes and revokes. Table: the nine steps, in both designs; from the
first call to a token.

    python3 client.py access              both designs, a few seconds
    python3 client.py access --check per_call

Step 9 of the weak design still reads: that is the article's point. Not here: the check (access.py), the stage
(runs_stage.py).
"""
import json
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple
from urllib.parse import urlsplit

import access
import ending
import host
import note_store
import oauth
import owner
import published
import published_access
import runs_person
import runs_stage
from runs_stage import Stage
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

DESIGNS = {'per_call': published_access.PER_CALL, 'token_only': published_access.TOKEN_ONLY}
TITLE, SECOND_TITLE = 'Q3 launch checklist', 'Q3 launch checklist v2'


class Step(NamedTuple):
    text: str                             # '3 read note in A'
    answer: str                           # '200 OK   "Q3 launch checklist"'


# --- rules --------------------------------------------------------------------

def seed(tx: Tx) -> None:
    """Two projects, a Note in each."""
    for project, note, text in (('A', 'note-a1', TITLE), ('B', 'note-b1', 'Another team\'s plan')):
        access.create_project(tx, project, runs_stage.WORKSPACE, f'Project {project}')
        tab = {'tab_type': 'note', 'label': 'Note', 'text': text}
        note_store.create_note(tx, runs_stage.OWNER, note, text, [tab], 1)
        access.place(tx, Ref('note', note), runs_stage.WORKSPACE, project, False, text)


def outcome(answer: host.Answer, show: Callable[[Any], Any]) -> str:
    """The tail of a printed step: the HTTP status, OK or DENY, and what came back."""
    if answer.refused:
        return f'{answer.status} DENY {answer.refused}'
    return f'{answer.status} OK   {json.dumps(show(host.tool_answer(answer.result)))}'


def ids(listed: Dict[str, Any]) -> List[str]:
    return [resource['resource_id'] for resource in listed['resources']]


def tab_text(tab: Dict[str, Any]) -> str:
    return tab['text']


def play(here: Stage, weak: bool) -> Tuple[Dict[str, Any], List[Step]]:
    """All nine steps; (the discovery, the steps). `weak`: the token carries the projects of its last refresh."""
    claude, steps = here.claude('osfoundry:read'), []

    def step(text: str, answer: host.Answer, show: Callable[[Any], Any]) -> None:
        steps.append(Step(f'{len(steps) + 1} {text}', outcome(answer, show)))
    started = time.perf_counter()
    found = discover(claude, started)
    step('fresh connection, no project yet', found.pop('answer'), ids)
    connection = here.connection()
    here.click('add_to_project', connection=connection, project='A')
    if weak:
        claude.refresh(claude.access_token)          # the token is where this design keeps the projects
    step('after owner adds project A', claude.call_once('list_project_resources', {}), ids)
    tab = host.tool_answer(claude.call_once('list_note_tabs', {'note_id': 'note-a1'}).result)['tabs'][0]['tab_id']
    note_a = {'note_id': 'note-a1', 'tab_id': tab}

    def read() -> host.Answer:
        return claude.call_once('read_note_tab', note_a)
    step('read note in A', read(), tab_text)
    step('read note in B (never added)', claude.call_once('read_note_tab', dict(note_a, note_id='note-b1')), tab_text)
    edit = dict(note_a, operation='replace_text', text=SECOND_TITLE, idempotency_key='nine-steps',
                expected_version=host.tool_answer(read().result)['version'])
    step('write with a read-only token', claude.call_once('edit_note_tab', edit), str)
    claude.scope = None                              # the 403 names the scope; the host asks for it and calls again
    step('write with read+write token', claude.call('edit_note_tab', edit), lambda saved: 'saved')
    here.click('move_item', kind='note', id='note-a1', project='B')
    step('same read after note moved to B', read(), tab_text)
    here.click('move_item', kind='note', id='note-a1', project='A')
    here.click('remove_from_project', connection=connection, project='A')
    step('same read after owner removes project A', read(), tab_text)
    here.click('revoke', connection=connection)
    step('same read after revoke', read(), tab_text)
    return found, steps


def discover(claude: host.Host, started: float) -> Dict[str, Any]:
    """The first call, from the 401 to its answer: everything between is found from that one header."""
    answer = claude.call('list_project_resources', {})
    trips = claude.trips[:-1]                        # the last one is the call again, now with a token
    return {'answer': answer, 'first': trips[0].status, 'round trips': len(trips), 'metadata': trips[1].url,
            'expires_in': claude.grant['tokens']['expires_in'],
            'ms': 1_000 * (time.perf_counter() - started)}


def newcomer(here: Stage) -> Dict[str, int]:
    """The round trips that the five leave out: a client nobody registered, and a person at the consent page."""
    cookies = runs_person.open_owner_link(here)
    claude = host.Host(here.url, runs_person.at_the_page(here, cookies, 'Create a new connection'))
    claude.call('list_granted_resources', {})
    paths = [urlsplit(trip.url).path for trip in claude.trips]
    return {'registration': paths.count(oauth.ISSUED_UNDER + 'register'), 'consent page': paths.count(owner.CONSENT)}


# --- I/O ----------------------------------------------------------------------

def run(check: str, out: Any) -> Tuple[Dict[str, Any], List[Step]]:
    flags = ('--check', 'token_only') if check == 'token_only' else ()
    with runs_stage.stage(seed, flags) as here:
        found, steps = play(here, check == 'token_only')
        found.update(newcomer(here))
        path = found['metadata'][len(here.base_url):]
    print(f'CHECK={check}', file=out)
    print(f'discovery: first call -> {found["first"]}, metadata {path}, {found["round trips"]} round trips, '
          f'{found["ms"]:.1f} ms', file=out)
    print(f'not in these: {found["registration"]} for a client nobody registered, '
          f'{found["consent page"]} for the person at the consent page', file=out)
    for step in steps:
        print(f'{step.text:<45}{step.answer}', file=out)
    print(file=out)
    return found, steps


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('client.py access', __doc__)
    parser.add_argument('--check', choices=tuple(DESIGNS), help='one design only; default both')
    options = parser.parse_args(argv)
    figures, discovery = {}, {}
    chosen = [options.check] if options.check else list(DESIGNS)
    for check in chosen:
        found, steps = run(check, sys.stderr if options.json else sys.stdout)
        figures.update({(step.text, DESIGNS[check]): step.answer for step in steps})
        discovery = {('first call', 'status'): found['first'], ('discovery', 'round trips'): found['round trips'],
                     ('registration', 'round trips'): found['registration'],
                     ('consent page', 'round trips'): found['consent page'],
                     ('discovery', 'time'): round(found['ms'], 1),
                     ('token', 'expires_in'): found['expires_in']}
    names = [DESIGNS[check] for check in chosen]
    scenario = published_access.SCENARIO._replace(
        cells=[cell for cell in published_access.SCENARIO.cells if cell.column in names])
    tables = [published.compare(scenario, figures), published.compare(published_access.DISCOVERY, discovery)]
    return published.report('client.py access', tables, options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
