"""gitnest_card.py - the review card of the other six propose tools: the pinned values as text, and what would happen.

Article 4, "Cosa fissano i sette tool di proposta?": "Change set: ... · expected version 3", "Reviewed commit: ...".
What the owner approves is that version and that commit, and not what is current when the click arrives. The provider is
shown by its name; its address, which may hold a secret, never.

Not here: how text is made visible and lines are compared (proposal_card.py), the click (gitnest_proposals.py).
"""
import json
from typing import List, NamedTuple, Optional, Tuple

import gitnest
import gitnest_proposals
import proposal_intake
from git_repo import Repository
from gitnest import ChangeSet
from gitnest_proposals import CHANGE_SET, NATIVE, PROVIDER, RERUN, WORK, Pinned
from proposal_card import file_part, old_text, visible
from versioned import Refusal, Tx, stamp_text

# --- data ---------------------------------------------------------------------

ACTIONS = {WORK: 'a work item', CHANGE_SET: 'a change set', RERUN: 'a check again', NATIVE: 'a pull request',
           PROVIDER: 'the branch pushed, and a pull request', gitnest_proposals.COMPOSITION: 'one composed commit'}


class Facts(NamedTuple):
    """What the card shows besides the proposal, read in one snapshot."""
    change_set: Optional[ChangeSet]
    checks: List[dict]
    missing: List[dict]
    look_twice: List[str]
    base_oid: Optional[str]              # of the composition that is asked for, with its files as they were proposed
    files: List[Tuple[str, str]]


# --- rules --------------------------------------------------------------------

def read_facts(tx: Tx, row: Pinned) -> Facts:
    if row.change_set is None:
        return Facts(None, [], [], [], None, [])
    change_set, oid = gitnest.find(tx, row.change_set), row.expected_oid
    look_twice = gitnest.look_twice_reasons(tx, change_set)
    if oid is None:
        intake = proposal_intake.find(tx, row.proposal)
        return Facts(change_set, [], [], look_twice, intake.base_oid, json.loads(intake.files))
    return Facts(change_set, gitnest.checks_of(tx, row.change_set, oid), gitnest.missing_checks(tx, change_set, oid),
                 look_twice, None, [])


def pinned_lines(row: Pinned, facts: Facts) -> List[str]:
    """The values that the click will compare."""
    lines = [f'Proposal: {row.proposal}', f'From: {visible(row.author)}', f'Asks for: {ACTIONS[row.tool]}',
             f'Repository: {row.repository}', f'Expires: {stamp_text(row.expires_us)}']
    if facts.change_set:
        lines.append(f'Change set: {visible(facts.change_set.title)} · expected version {row.expected_version}')
        lines.append(f'Target branch: {facts.change_set.target_branch}')
    if row.expected_oid:
        lines.append(f'Reviewed commit: {row.expected_oid}')
    if facts.change_set:
        try:
            gitnest_proposals.compare(facts.change_set, row.expected_version, row.expected_oid)
        except Refusal as stale:
            lines.append(f'No longer current: {stale}')
    lines += [f'Check {one["name"]}: {one["status"]}' for one in facts.checks]
    lines += [f'Required and not passed: {one["name"]} ({one["status"]})' for one in facts.missing]
    return lines + [f'Look twice: {visible(reason)}' for reason in facts.look_twice]


def body_lines(row: Pinned) -> List[str]:
    body = json.loads(row.body)
    lines = [f'Check: {visible(body["check"])}'] if row.tool == RERUN else []
    if row.tool == PROVIDER:
        lines.append(f'Provider: {visible(body["provider"])}')
    if row.tool in (WORK, CHANGE_SET):
        lines.append(f'Title: {visible(body["title"])}')
    if row.tool == WORK:
        lines += ['    ' + visible(line) for line in body['description'].split('\n')]
    return lines + ([f'Target branch: {body["target_branch"]}'] if row.tool == CHANGE_SET else [])


# --- I/O ----------------------------------------------------------------------

def parent_of(repo: Repository, oid: str) -> Optional[str]:
    lines = (repo.object(oid, 'commit') or b'').decode('utf-8', 'replace').split('\n')
    return next((line[len('parent '):] for line in lines[:2] if line.startswith('parent ')), None)


def committed_files(repo: Repository, oid: str) -> List[Tuple[str, str]]:
    """What the reviewed commit changed, read from the commit itself: the change set may be another by now."""
    return [(path, old_text(repo, repo.entry(oid, path)[1]) or '') for path in repo.changed(oid)]


def card(repo: Repository, row: Pinned, facts: Facts) -> str:
    """The whole card as text: every line of every file that the proposal brings or publishes."""
    lines = [*pinned_lines(row, facts), *body_lines(row)]
    if row.tool == CHANGE_SET:
        body = json.loads(row.body)
        base = repo.head(body['target_branch']) or repo.default_head()
        for number, one in enumerate(body['imports'], 1):
            lines += ['', f'Import {number}: {visible(one["message"])}']
            lines += [line for path, content in one['files'] for line in ['', *file_part(repo, base, path, content)]]
    elif row.tool in (gitnest_proposals.COMPOSITION, NATIVE, PROVIDER):
        files = committed_files(repo, row.expected_oid) if row.expected_oid else facts.files
        base = parent_of(repo, row.expected_oid) if row.expected_oid else facts.base_oid
        lines += [line for path, content in files for line in ['', *file_part(repo, base, path, content)]]
    return '\n'.join(lines) + '\n'
