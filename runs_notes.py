"""runs_notes.py - article 5's run: Claude edits a Note beside Mika, and nobody's words disappear.

Article 5, "Configurazione" (steps 1 to 4), "Un'esecuzione reale", "Dove sta il limite" and "Prossimo passo", played
for real: a server as a process, the scripted owner's and Mika's clicks, the scripted Claude over HTTP. The host asks
before each write; Mika saves while the question waits, so the first write is stale.

    python3 client.py notes              every line, then the tables; a few seconds
    python3 client.py notes --json       the tables for programs

Not here: the store (note_store.py, note_people.py), the stage (runs_stage.py), the figures (published_notes.py).
"""
import json
import sys
import time
from typing import Any, Dict, List, Sequence, Tuple

import access
import ending
import host
import note_store
import published
import published_notes
import runs_stage
import tools_notes
import workspace
from published import Figures
from runs_stage import Stage
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

NOTE = 'q3-launch'
POINTS = ('venue', 'speakers', 'embargo date', 'landing page', 'pricing page', 'translations', 'screenshots', 'mailing')
OWNERS = [['open point', 'owner', 'due', 'done']] + [
    [point, ('Aiko', 'Mika', 'Jonas')[place % 3], f'2026-11-{12 + place}', False]
    for place, point in enumerate((*POINTS, 'budget', 'photos'))] + [['press kit', 'Mika', '2026-11-20', False]]
BRIEF = 'Open before the launch:\n' + '\n'.join(f'- {point}' for point in POINTS)
SHEET = {'start_row': 0, 'start_col': 0, 'values': OWNERS}
TABS = [{'tab_type': 'note', 'label': 'Brief', 'text': BRIEF}, {'tab_type': 'sheet', 'label': 'Owners', **SHEET},
        {'tab_type': 'sheet', 'label': 'Owners archive', **SHEET}]
WRITES = [tool.name for tool in tools_notes.TOOLS if not tool.read_only]


class Scene:
    """One run under way: who plays, which versions were seen, and what is printed."""

    def __init__(self, here: Stage, out: Any) -> None:
        self.here, self.out, self.claude = here, out, here.claude()
        self.tabs: Dict[str, str] = {}                   # label -> exact id, as Claude learns them
        self.versions: List[str] = []                    # in the order they appeared: V1, V2, ...
        # What the server says of its tools decides where the host asks, not what we know of them.
        self.asks = {tool['name'] for tool in self.claude.list_tools() if not tool['annotations']['readOnlyHint']}
        self.meanwhile = None                            # what a person does while the host's question waits

    def say(self, line: str = '') -> None:
        print(line, file=self.out)

    def named(self, version: str) -> str:
        if version not in self.versions:
            self.versions.append(version)
        return f'V{self.versions.index(version) + 1}'

    def call(self, tool: str, **arguments: Any) -> Tuple[str, Dict[str, Any]]:
        """One call as Claude makes it: (ok or the refusal's code, the answer). The host asks before a write."""
        self.say(f'Claude -> {tool} {self.shown(arguments)}')
        if tool in self.asks:
            self.say('       [the host asks: allow this call? -> Allow]')
            if self.meanwhile:
                self.meanwhile()
                self.meanwhile = None
        answer = self.claude.call(tool, {'note_id': NOTE, **arguments})
        found = host.tool_answer(answer.result)
        code = answer.refused or 'ok'
        self.say(f'       <- {"refused: " + code if answer.refused else self.short(found)}')
        return code, found

    def shown(self, arguments: Dict[str, Any]) -> str:
        labels = {tab_id: f'<{label}>' for label, tab_id in self.tabs.items()}
        texts = {name: labels.get(value, value) if isinstance(value, str) else value
                 for name, value in arguments.items()}
        if 'expected_version' in texts:
            texts['expected_version'] = self.named(texts['expected_version'])
        return json.dumps({name: value[:40] + '...' if isinstance(value, str) and len(value) > 40 else value
                           for name, value in texts.items()}, ensure_ascii=False)

    def short(self, found: Dict[str, Any]) -> str:
        version = f', version {self.named(found["version"])}' if 'version' in found else ''
        kinds = [f'{tab["label"]} ({tab["tab_type"]})' for tab in found.get('tabs', ())]
        if 'values' in found:
            return f'{len(found["values"])} x {len(found["values"][0])} values{version}'
        parts = ', '.join(name for name in ('text', 'slides', 'files', 'sources') if name in found)
        return (', '.join(kinds) or parts or 'saved') + version

    def mika(self, verb: str, **arguments: Any) -> Dict[str, Any]:
        return self.here.click(verb, person='mika', note_id=NOTE, **arguments)

    def mika_saves(self, label: str, text: str, base: str, key: str) -> Dict[str, Any]:
        return self.mika('save_note', tab_id=self.tabs[label], operation='replace_text', text=text, base_version=base,
                         idempotency_key=key)


# --- rules --------------------------------------------------------------------

def seed(tx: Tx) -> None:
    """What the workspace held before: Mika, two projects, the Note in neither, and a Note that never left a device."""
    workspace.add_person(tx, 'mika', 'Mika')
    workspace.set_role(tx, 'mika', Ref('workspace', runs_stage.WORKSPACE), 'editor')
    for project, name in (('launch', 'Launch Q3'), ('other', 'Another project')):
        access.create_project(tx, project, runs_stage.WORKSPACE, name)
    for note_id, title, local_only in ((NOTE, 'Q3 launch', False), ('on-this-device', 'Diary', True)):
        note_store.create_note(tx, f'person:{runs_stage.OWNER}', note_id, title, TABS, time.time_ns() // 1000)
        access.place(tx, Ref('note', note_id), runs_stage.WORKSPACE, None, local_only, title)


def with_owners(text: str, owners: Dict[str, str]) -> str:
    """Claude's edit: every open point gets the owner that the sheet names. Applied to whatever the tab holds now."""
    lines = []
    for line in text.split('\n'):
        point = line[2:]
        lines.append(f'{line} - owner: {owners[point]}' if line.startswith('- ') and point in owners else line)
    return '\n'.join(lines)


def write_to_be_refused(scene: Scene, version: str, key: str) -> str:
    """The outcome of a write that something else must stop: an empty Brief must never be saved."""
    return scene.call('edit_note_tab', tab_id=scene.tabs['Brief'], operation='replace_text', text='',
                      expected_version=version, idempotency_key=key)[0]


def set_up(scene: Scene) -> Figures:
    """Steps 1 to 4. The connection exists and is in the project; the Note is not yet."""
    here, found = scene.here, {}
    scene.claude.call('list_granted_resources', {})                # signs in: the connection begins here
    connection = here.connection()
    here.click('add_to_project', connection=connection, project='launch')
    project = here.click('read_note', note_id=NOTE)['project']
    found['1 the Note has no project', 'its page'] = 'Add to project' if project is None else project
    found['1 the Note has no project', 'Claude reads'] = scene.call('list_note_tabs')[0]
    here.click('move_item', kind='note', id=NOTE, project='launch')
    scene.say('owner: Add to project -> Launch Q3')
    code, listed = scene.call('list_note_tabs')
    found['1 the Note is in the connected project', 'Claude reads'] = code
    scene.tabs = {tab['label']: tab['tab_id'] for tab in listed['tabs']}
    found['1 a Note only on this device', 'Claude reads'] = scene.call('list_note_tabs', note_id='on-this-device')[0]
    served = {tool['name'] for tool in scene.claude.list_tools()}
    found['2 the tools of this guide', 'served'] = len(served & {tool.name for tool in tools_notes.TOOLS})
    here.click('save_tools', connection=connection, off=WRITES)
    scene.say('owner: unticks ' + ', '.join(WRITES) + ' -> Save tools')
    row = '2 the three writing tools unticked'
    found[row, 'Claude writes'] = write_to_be_refused(scene, listed['version'], 'while-unticked')
    found[row, 'Claude reads'] = scene.call('list_note_tabs')[0]
    here.click('save_tools', connection=connection, off=[])
    role = {'of': runs_stage.OWNER, 'kind': 'note', 'id': NOTE}
    here.click('set_role', role='viewer', **role)
    scene.say('owner: may only look at this Note for a moment')
    outcome = write_to_be_refused(scene, listed['version'], 'while-viewer')
    found['3 the approver may only look', 'Claude writes'] = outcome
    here.click('set_role', role='editor', **role)
    exact = [tab['tab_id'] for tab in listed['tabs'] if tab['label'] == 'Owners']
    found['4 "Owners" by its name', 'leads to'] = 'one exact tab id' if len(exact) == 1 else f'{len(exact)} tabs'
    return found


def run(scene: Scene) -> Figures:
    """The article's seven calls, with Mika saving between the third and the fourth."""
    found: Figures = {}
    listed = scene.call('list_note_tabs')[1]
    kinds = ', '.join(f'{tab["label"]} ({tab["tab_type"]})' for tab in listed['tabs'])
    found['1 list_note_tabs', 'answer'] = f'version {scene.named(listed["version"])}; {kinds}'
    values = scene.call('read_sheet_range', tab_id=scene.tabs['Owners'], start_row=0, start_col=0, row_count=12,
                        col_count=4)[1]['values']
    found['2 read_sheet_range A1:D12', 'answer'] = f'{len(values)} x {len(values[0])} values'
    owners = {row[0]: row[1] for row in values[1:]}
    brief = read_brief(scene)
    found['3 read_note_tab Brief', 'answer'] = f'text, version {scene.named(brief["version"])}'
    scene.meanwhile = lambda: mika_adds_press_kit(scene, brief)
    code, refusal = edit_brief(scene, with_owners(brief['text'], owners), brief['version'], 'brief-owners-1')
    found['4 edit_note_tab brief-owners-1', 'host asks'] = 'no question' if scene.meanwhile else 'Allow'
    found['4 edit_note_tab brief-owners-1', 'answer'] = (
        f'refused: {code}, current {scene.named(refusal.get("current_version", "none"))}')
    again = read_brief(scene)
    seen = 'with' if 'press kit' in again['text'] else 'without'
    found['5 read_note_tab Brief', 'answer'] = f'text {seen} "press kit", version {scene.named(again["version"])}'
    code, saved = edit_brief(scene, with_owners(again['text'], owners), again['version'], 'brief-owners-2')
    found['6 edit_note_tab brief-owners-2', 'answer'] = f'saved, version {scene.named(saved["version"])}'
    people = sorted(set(owners.values()))
    deck = scene.call('create_note_tab', tab_type='slides', label='Launch status', expected_version=saved['version'],
                      slides=[{'title': person} for person in people], idempotency_key='launch-status-deck')[1]
    found['7 create_note_tab launch-status-deck', 'answer'] = (
        'a new tab id' if deck['tab_id'] not in scene.tabs.values() else 'an old tab id')
    scene.tabs['Launch status'] = deck['tab_id']
    return {**found, **what_stands(scene, people)}


def read_brief(scene: Scene) -> Dict[str, Any]:
    return scene.call('read_note_tab', tab_id=scene.tabs['Brief'])[1]


def edit_brief(scene: Scene, text: str, version: str, key: str) -> Tuple[str, Dict[str, Any]]:
    return scene.call('edit_note_tab', tab_id=scene.tabs['Brief'], operation='replace_text', text=text,
                      expected_version=version, idempotency_key=key)


def mika_adds_press_kit(scene: Scene, brief: Dict[str, Any]) -> None:
    saved = scene.mika_saves('Brief', brief['text'] + '\n- press kit', brief['version'], 'mika-press-kit')
    scene.say(f'       (meanwhile Mika adds "press kit" to the Brief: version {scene.named(saved["version"])})')


def what_stands(scene: Scene, people: List[str]) -> Figures:
    """After the run: both changes are in the Brief, and the deck has one slide an owner."""
    lines = [line[2:] for line in read_brief(scene)['text'].split('\n') if line.startswith('- ')]
    slides = scene.call('read_note_tab', tab_id=scene.tabs['Launch status'])[1]['slides']
    return {('the Brief now', 'open points with an owner'): sum(' - owner: ' in line for line in lines),
            ('the Brief now', "Mika's line"): lines[-1],
            ('Launch status', 'slides'): 'one an owner' if [slide['title'] for slide in slides] == people else 'others'}


def limits(scene: Scene) -> Figures:
    """Each sentence of the section, as one call."""
    found: Figures = {}
    for rows, row in ((101, 'a range of 101 rows'), (100, 'a range of 100 by 100')):
        code, answer = scene.call('read_sheet_range', tab_id=scene.tabs['Owners'], start_row=0, start_col=0,
                                  row_count=rows, col_count=100)
        found[row, 'answer'] = f'{code}: {answer["field"]}' if code != 'ok' else (
            f'{len(answer["values"])} x {len(answer["values"][0])} values')
    found.update(a_lost_answer(scene))
    found.update(a_persons_save(scene))
    code, answer = scene.call('edit_note_tab', tab_id=scene.tabs['Owners'], operation='replace_text', text='x',
                              expected_version=now(scene), idempotency_key='text-on-a-sheet')
    found['replace_text on a sheet', 'answer'] = f'{code}: {answer.get("field")}'
    scene.mika('attach_file', name='press kit.pdf', media_type='application/pdf', content_base64='JVBERi0=',
               idempotency_key='press-kit-file')
    file = scene.call('list_note_attachments')[1]['files'][0]
    found['list_note_attachments', 'a file has'] = ', '.join(sorted(file))
    for scheme in ('ftp:', 'https:'):
        code, answer = scene.call('add_note_source', url=f'{scheme}//example.org/kit', expected_version=now(scene),
                                  idempotency_key=f'source-{scheme}')
        found[f'add_note_source {scheme}', 'answer'] = code if code == 'ok' else f'{code}: {answer.get("field")}'
    return found


def now(scene: Scene) -> str:
    """The version as a person's page shows it."""
    return scene.mika('read_note')['version']


def a_lost_answer(scene: Scene) -> Figures:
    """The deck's call again, word for word, as a host sends it whose answer never came."""
    slides = scene.call('read_note_tab', tab_id=scene.tabs['Launch status'])[1]['slides']
    again = scene.call('create_note_tab', tab_type='slides', label='Launch status', expected_version=scene.versions[2],
                       slides=[{'title': slide['title']} for slide in slides], idempotency_key='launch-status-deck')[1]
    same = again.get('tab_id') == scene.tabs['Launch status'] and again.get('replayed') is True
    return {('create_note_tab again, its answer lost', 'answer'): 'the same tab id' if same else 'another'}


def a_persons_save(scene: Scene) -> Figures:
    """Mika's page is older than Claude's edit: her text becomes a draft. Then she saves another tab; Claude is late."""
    row, old, before = 'Mika saves from a revision before Claude', scene.versions[1], read_brief(scene)
    lost = scene.mika_saves('Brief', 'hers: typed on the train', old, 'mika-from-the-train')
    scene.say('Mika saves from the train: ' + ('saved' if lost['saved'] else 'sync conflict, her text is now a draft'))
    drafts = [draft['text'] for draft in scene.mika('list_drafts')['drafts']]
    after = read_brief(scene)
    scene.mika('save_note', tab_id=scene.tabs['Owners archive'], operation='sheet_set_range', start_row=0, start_col=5,
               values=[['checked']], base_version=after['version'], idempotency_key='mika-in-the-archive')
    scene.say('Mika writes one cell of Owners archive')
    late = edit_brief(scene, 'x', after['version'], 'after-another-tab')[0]
    return {(row, 'answer'): 'saved' if lost['saved'] else 'conflict',
            (row, 'her text'): 'a draft' if drafts == ['hers: typed on the train'] else 'lost',
            (row, "Claude's text"): 'unchanged' if after['text'] == before['text'] else 'overwritten',
            ('Mika saves another tab, Claude writes', 'answer'): late}


def next_step(scene: Scene) -> Figures:
    """The owners as a briefing of five slides; a person retitles one while Claude works."""
    rows = scene.call('read_sheet_range', tab_id=scene.tabs['Owners'], start_row=1, start_col=0, row_count=5,
                      col_count=2)[1]
    deck = scene.call('create_note_tab', tab_type='slides', label='Briefing', expected_version=now(scene),
                      slides=[{'title': f'{point}: {person}'} for point, person in rows['values']],
                      idempotency_key='briefing-deck')[1]
    scene.tabs['Briefing'] = deck['tab_id']
    slides = scene.call('read_note_tab', tab_id=deck['tab_id'])[1]['slides']
    add = {'tab_id': deck['tab_id'], 'operation': 'slide_add', 'slides': [{'title': 'Questions'}]}
    scene.meanwhile = lambda: scene.mika(
        'save_note', tab_id=deck['tab_id'], operation='slide_set', position=0, slides=[{'title': 'Venue: booked'}],
        base_version=deck['version'], idempotency_key='mika-retitles')
    late = scene.call('edit_note_tab', **add, expected_version=deck['version'], idempotency_key='questions-1')[0]
    read = scene.call('read_note_tab', tab_id=deck['tab_id'])[1]
    again = scene.call('edit_note_tab', **add, expected_version=read['version'], idempotency_key='questions-2')[0]
    titles = [slide['title'] for slide in scene.call('read_note_tab', tab_id=deck['tab_id'])[1]['slides']]
    return {('1 create_note_tab Briefing', 'slides'): len(slides),
            ('2 slide_add after the person retitled one', 'answer'): late,
            ('3 read_note_tab, slide_add again', 'answer'): again,
            ("the person's title", 'in the deck'): 'yes' if titles[0] == 'Venue: booked' and len(titles) == 6 else 'no'}


def closing(scene: Scene) -> Figures:
    """Move, remove, revoke: each is felt at the next read, with the token that was good a moment before."""
    here, connection, found = scene.here, scene.here.connection(), {}
    token = scene.claude.access_token

    def read(what: str) -> None:
        scene.say(f'owner: {what}')
        found[what, 'next read'] = scene.call('read_note_tab', tab_id=scene.tabs['Brief'])[0]
    here.click('move_item', kind='note', id=NOTE, project='other')
    read('the Note moved to another project')
    here.click('move_item', kind='note', id=NOTE, project='launch')
    here.click('remove_from_project', connection=connection, project='launch')
    read('the project removed from the connection')
    here.click('add_to_project', connection=connection, project='launch')
    here.click('revoke', connection=connection)
    read('the connection revoked')
    if scene.claude.access_token != token:
        opened = 'another token was used'
    else:
        opened = 'yes' if 'ok' in found.values() else 'no'
    found['the same token after all that', 'still opens it'] = opened
    return found


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('client.py notes', __doc__)
    options = parser.parse_args(argv)
    with runs_stage.stage(seed) as here:
        scene = Scene(here, sys.stderr if options.json else sys.stdout)
        figures = []
        for title, part in (('The set-up', set_up), ('The run', run), ('Where the limit is', limits),
                            ('The next step', next_step), ('Access is closed', closing)):
            scene.say(f'--- {title}')
            figures.append(part(scene))
            scene.say()
    prepared, played, limited, stepped, closed = figures
    return published.report('client.py notes', [
        published.compare(published_notes.SETUP, prepared), published.compare(published_notes.RUN, played),
        published.compare(published_notes.LIMITS, {**limited, **closed}),
        published.compare(published_notes.NEXT_STEP, stepped)], options.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
