"""git_paths.py - which paths, branches and messages an agent may ask for: each trick is refused by name.

Article 4: the owner reviews every file; so a path must be what it looks like, on every file system that the repository
may be checked out on. The oracle of the tests is `git fsck --strict`. Pure: what stands in the repository already (a
symbolic link on the way, a file where a directory is asked for) is found by git_repo.py.

Not here: the sizes and counts of the tool's schema (proposal_intake.py), how odd characters are shown
(proposal_card.py).
"""
import re
import unicodedata
from typing import Dict, Optional, Sequence

# --- data ---------------------------------------------------------------------

PATH_CHARACTERS = 2048                      # the live schema's maxLength
PART_BYTES, PATH_PARTS = 255, 100           # what a file system takes; how deep a tree may get
BRANCH_CHARACTERS = 200
# Invisible though not of category Cf: the fillers of Korean, the grapheme joiner, the line separators.
INVISIBLE = set('\u034f\u115f\u1160\u17b4\u17b5\u2028\u2029\u3164\uffa0')
SHORT_GIT = re.compile('gi[0-9a-z]{0,4}~[0-9]+')     # what NTFS also calls .git, .gitmodules, .gitattributes
DESCRIBED = re.compile('-[0-9]+-g[0-9a-f]{4,}$')          # git describe's own names of commits
BRANCH_FORBIDDEN = re.compile(r'[ ~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)')
OUR_TRAILERS = re.compile(r'[\s]*(?:proposal|approved-by)[\s]*:', re.IGNORECASE)
REVIEW_TWICE = {'.gitmodules', '.gitattributes'}   # allowed, and marked on the card

# --- rules --------------------------------------------------------------------

def path_fault(path: str) -> Optional[str]:
    """Why this path cannot be written, in words; None when it can."""
    if not path or len(path) > PATH_CHARACTERS:
        return f'the path must have 1 to {PATH_CHARACTERS:,} characters'
    fault = text_fault(path)
    if fault:
        return fault
    if path.startswith('/'):
        return 'the path is absolute'
    parts = path.split('/')
    if len(parts) > PATH_PARTS:
        return f'the path has more than {PATH_PARTS} parts'
    for part in parts:
        fault = part_fault(part)
        if fault:
            return fault
    if any(part.casefold() in REVIEW_TWICE for part in parts[:-1]):
        return 'git takes .gitmodules and .gitattributes for files: nothing can lie in them'
    return None


def part_fault(part: str) -> Optional[str]:
    if not part:
        return 'the path has an empty part'
    if part in ('.', '..'):
        return f'the path has a part {part!r}'
    if part[-1] in '. ':
        return 'a part of the path ends in a dot or a space, which Windows drops'
    if ':' in part or '\\' in part:
        return 'the path has a colon or a backslash, which Windows gives a meaning'
    if part.casefold() == '.git' or SHORT_GIT.fullmatch(part.casefold()):
        return f'{part!r} is git\'s own folder'
    if len(part.encode('utf-8')) > PART_BYTES:
        return f'a part of the path has more than {PART_BYTES} bytes'
    return None


def text_fault(text: str) -> Optional[str]:
    """A character that no eye sees, or no file system takes: '.g\u200cit' is .git on a Mac."""
    for character in text:
        category = unicodedata.category(character)
        if category in ('Cc', 'Cs'):
            return f'it has a control character or half of one (U+{ord(character):04X})'
        if category == 'Cf' or character in INVISIBLE:
            return f'it has an invisible character (U+{ord(character):04X})'
    return None


def twin_fault(paths: Sequence[str]) -> Optional[str]:
    """Two names of one proposal that one file system takes for the same, or a file that is also a directory."""
    seen: Dict[str, str] = {}                # folded path -> as it was written, for files and every folder above
    files, folders = set(), set()
    for path in paths:
        parts = path.split('/')
        for length in range(1, len(parts) + 1):
            prefix = '/'.join(parts[:length])
            folded = fold(prefix)
            if seen.setdefault(folded, prefix) != prefix:
                return f'{prefix!r} and {seen[folded]!r} are one name where case or composition does not count'
            if length == len(parts) and folded in files:
                return f'{path!r} is named twice'
            (files if length == len(parts) else folders).add(folded)
    both = files & folders
    return f'{seen[min(both)]!r} is a file and a directory' if both else None


def fold(path: str) -> str:
    return unicodedata.normalize('NFC', unicodedata.normalize('NFC', path).casefold())


def branch_fault(branch: str) -> Optional[str]:
    """git's own rules for a reference name (check-ref-format), and no name that reads like an option or like HEAD."""
    if not branch or len(branch) > BRANCH_CHARACTERS:
        return f'the branch must have 1 to {BRANCH_CHARACTERS} characters'
    if branch[0] in '-./' or branch[-1] in './' or branch in ('@', 'HEAD') or BRANCH_FORBIDDEN.search(branch):
        return 'git takes no branch of that name'
    if branch.startswith('refs/') or DESCRIBED.search(branch):
        return 'git would take that name for something else'
    if any(len(part.encode('utf-8', 'replace')) > PART_BYTES - 5 for part in branch.split('/')):      # ".lock" is added
        return f'a part of the branch has more than {PART_BYTES - 5} bytes'
    return text_fault(branch)


def message_fault(message: str) -> Optional[str]:
    """The trailers of a commit are ours: a message that writes its own would name an approver who never looked."""
    if not message.strip():
        return 'the message is empty'
    for line in message.split('\n'):
        fault = text_fault(line.replace('\t', ' '))
        if fault:
            return fault
        if OUR_TRAILERS.match(line):
            return f'the line {line.strip()!r} imitates a trailer that only the approval writes'
    return None
