"""proposal_card.py - what the owner sees before the click: the pinned values and every line that would change.

Article 4, "Cosa fissano i sette tool di proposta?": in the review card the pinned values become text. Nothing is left
out silently and nothing hides: a character that no eye sees, or that turns the line around, is shown by its number.

Not here: the page around it (pages_approval.py), the click (proposals.py).
"""
import difflib
import json
import unicodedata
from typing import List, Optional, Sequence

import git_paths
from git_objects import EXECUTABLE, GitError
from git_repo import Repository
from proposal_intake import Proposal
from versioned import stamp_text

# --- data ---------------------------------------------------------------------

CONTEXT = 3                              # unchanged lines around a change
LINES_COMPARED = 2_000                   # beyond that the difference is "all of the old, all of the new"
SHOWN_BYTES = 1 << 22                    # of an old file; a larger one is said to be replaced whole

# --- rules --------------------------------------------------------------------

def visible(text: str) -> str:
    """Control, bidi and zero-width characters as <U+202E>; tab stays."""
    shown = []
    for character in text:
        odd = unicodedata.category(character) in ('Cc', 'Cf', 'Cs', 'Co', 'Cn') or character in git_paths.INVISIBLE
        shown.append(f'<U+{ord(character):04X}>' if odd and character != '\t' else character)
    return ''.join(shown)


def difference(old: Optional[str], new: str) -> List[str]:
    """Lines with '+', '-' or ' ' in front. Every changed line is there."""
    if old is None:
        return ['+' + line for line in lines_of(new)]
    return compared(lines_of(old), lines_of(new))


def compared(before: Sequence[str], after: Sequence[str]) -> List[str]:
    """Lines with '+', '-' or ' ' in front, and '@@ ... @@' above each place."""
    if max(len(before), len(after)) > LINES_COMPARED:        # comparing takes the square of it
        return ['-' + line for line in before] + ['+' + line for line in after]
    return list(difflib.unified_diff(before, after, lineterm='', n=CONTEXT))[2:]


def lines_of(text: str) -> List[str]:
    """Split at \\n only: \\r and the other line ends stay in the line, where they are shown."""
    lines = [visible(line) for line in text.split('\n')]
    if lines[-1] == '':
        return lines[:-1]
    return lines[:-1] + [lines[-1] + '  <no newline at the end>']


def base_line(row: Proposal) -> str:
    if row.base_oid is None:
        return 'none: this will be the first commit'
    if row.expected_head is None:
        return f'{row.base_oid} (the branch does not exist yet and begins there)'
    return row.base_oid


# --- I/O ----------------------------------------------------------------------

def card(repo: Repository, row: Proposal) -> str:
    """The whole card as text."""
    files = json.loads(row.files)
    head = [f'Proposal: {row.proposal}', f'From: {visible(row.author)}', f'Branch: {row.branch}',
            f'Reviewed commit: {base_line(row)}', f'Expires: {stamp_text(row.expires_us)}', f'Files: {len(files)}', '',
            *('    ' + visible(line) for line in row.message.split('\n'))]
    for path, content in files:
        head += ['', *file_part(repo, row.base_oid, path, content)]
    return '\n'.join(head) + '\n'


def file_part(repo: Repository, base_oid: Optional[str], path: str, content: str) -> List[str]:
    found = repo.entry(base_oid, path)
    if found is None:
        kind, old = 'new file', None
    else:
        kind = 'executable file' if found[0].encode() == EXECUTABLE else 'file'
        old = old_text(repo, found[1])
        kind += ', unchanged' if old == content else ', replaced whole: the old one is not shown as text' \
            if old is None else ', changed'
    warning = '  <-- look twice: git acts on this file' \
        if path.rsplit('/', 1)[-1].casefold() in git_paths.REVIEW_TWICE else ''
    return [f'{visible(path)} ({kind}){warning}', *difference(old, content)]


def old_text(repo: Repository, oid: str) -> Optional[str]:
    """None when it is no text, or too long to be shown."""
    try:
        return (repo.object(oid, 'blob', SHOWN_BYTES) or b'').decode('utf-8')
    except (GitError, UnicodeDecodeError):
        return None
