"""git_objects.py - what a commit is made of: blobs, trees, the commit itself, and the pack they travel in.

Article 4, "La ricostruzione": hash-object, write-tree and commit-tree as plain functions on bytes, for sha1 and sha256.
Pure: no file, no process, no clock. The same Intent gives the same commit id today and after a crash, which is what a
retry recognises its own commit by.

Not here: a repository (git_repo.py).
"""
import hashlib
import re
import struct
import zlib
from itertools import accumulate
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

# --- data ---------------------------------------------------------------------

OID = re.compile(r'[0-9a-f]{40}|[0-9a-f]{64}')
TREE_ENTRY = {size: re.compile(rb'([0-7]+) ([^\0]+)\0(.{%d})' % size, re.DOTALL) for size in (20, 32)}
FILE, EXECUTABLE, TREE = b'100644', b'100755', b'40000'
NOT_A_FILE = {b'120000': 'a symbolic link', b'160000': 'a submodule', TREE: 'a directory'}
PACK_TYPES = {'commit': 1, 'tree': 2, 'blob': 3}
# gc packs it again; 200 KB at level 6 cost more than all else in an approval. A tree is ids, which hardly compress.
ZLIB_LEVEL = {'commit': 1, 'tree': 0, 'blob': 1}
CRUD = ''.join(map(chr, range(33))) + '.,:;<>"\'\\'     # what git itself strips from both ends of a name

Objects = Dict[bytes, Tuple[str, bytes]]    # raw object id -> (type, data)


class Intent(NamedTuple):
    """Everything a commit id depends on: the same Intent gives the same id, today and after a crash."""
    parent: Optional[str]                   # None: a first commit
    files: Sequence[Tuple[str, str]]        # (path, text)
    author: str                             # as person() gives it
    author_s: int
    committer: str
    committer_s: int
    message: str


class Build(NamedTuple):
    """A commit that no one can see yet. `objects` is everything it adds, by raw object id."""
    commit: str
    objects: Objects


class GitError(Exception):
    """No reference was moved. `code`: path_conflict, moved, busy, too_large, unusable, timed_out, git_failed."""

    def __init__(self, code: str, message: str, **data: object):
        super().__init__(message)
        self.code, self.data = code, data


# --- rules --------------------------------------------------------------------

def person(name: str, email: str) -> str:
    """`Name <email>` as git would write it: no bracket, NUL or newline inside, nothing odd at the ends."""
    name, email = [re.sub('[<>\0\n]', '', text).strip(CRUD) for text in (name, email)]
    return f'{name or "unknown"} <{email}>'


def object_id(kind: str, data: bytes, hash_name: str) -> bytes:
    return hashlib.new(hash_name, b'%b %d\0' % (kind.encode('ascii'), len(data)) + data).digest()


def commit_data(intent: Intent, tree: str) -> bytes:
    lines = [f'tree {tree}', *([f'parent {intent.parent}'] if intent.parent else []),
             f'author {intent.author} {intent.author_s} +0000',
             f'committer {intent.committer} {intent.committer_s} +0000', '', intent.message.rstrip('\n') + '\n']
    return '\n'.join(lines).encode('utf-8')


def parse_tree(data: bytes, id_bytes: int) -> Dict[bytes, Tuple[bytes, bytes]]:
    """{name: (mode, raw object id)} in the tree's order. Each entry begins where the last one ended."""
    return {name: (mode, raw) for mode, name, raw in TREE_ENTRY[id_bytes].findall(data)}


def in_order(entries: Dict[bytes, Tuple[bytes, bytes]]) -> Dict[bytes, Tuple[bytes, bytes]]:
    """git sorts a directory as if its name ended in a slash."""
    return dict(sorted(entries.items(), key=lambda entry: entry[0] + b'/' if entry[1][0] == TREE else entry[0]))


def tree_data(entries: Dict[bytes, Tuple[bytes, bytes]]) -> bytes:
    """Of entries in git's order."""
    return b''.join([b'%b %b\0%b' % (mode, name, raw) for name, (mode, raw) in entries.items()])


def nested(files: Sequence[Tuple[str, str]]) -> dict:
    """{'a': {'b.txt': bytes}} for ('a/b.txt', text)."""
    root: dict = {}
    for path, text in files:
        *folders, name = path.encode('utf-8').split(b'/')
        folder = root
        for part in folders:
            folder = folder.setdefault(part, {})
            if not isinstance(folder, dict):
                raise GitError('path_conflict', f'{path} stands below another file of this call', path=path)
        if name in folder:
            raise GitError('path_conflict', f'{path} is named twice, or is a file and a directory', path=path)
        folder[name] = text.encode('utf-8')
    return root


def pack_entry(kind: str, data: bytes) -> bytes:
    """Type and size in groups of 4, 7, 7, ... bits, then the zlib stream."""
    size, byte = len(data) >> 4, PACK_TYPES[kind] << 4 | len(data) & 15
    header = bytearray()
    while size:
        header.append(byte | 128)
        size, byte = size >> 7, size & 127
    header.append(byte)
    return bytes(header) + zlib.compress(data, ZLIB_LEVEL[kind])


def pack_bytes(objects: Objects, hash_name: str) -> Tuple[bytes, bytes]:
    """(pack, index) of version 2."""
    chunks, rows, offset = [struct.pack('>4sLL', b'PACK', 2, len(objects))], [], 12
    for raw, (kind, data) in objects.items():
        entry = pack_entry(kind, data)
        rows.append((raw, zlib.crc32(entry), offset))
        chunks.append(entry)
        offset += len(entry)
    body = b''.join(chunks)
    pack = body + hashlib.new(hash_name, body).digest()
    rows.sort()
    firsts = [0] * 256
    for raw, _, _ in rows:
        firsts[raw[0]] += 1
    index = b''.join([b'\xfftOc', struct.pack('>L256L', 2, *accumulate(firsts)),
                      *(raw for raw, _, _ in rows),
                      *(struct.pack('>L', crc) for _, crc, _ in rows),
                      *(struct.pack('>L', at) for _, _, at in rows), pack[-len(rows[0][0]):]])
    return pack, index + hashlib.new(hash_name, index).digest()


def conflict(path: bytes, mode: bytes) -> GitError:
    text = path.decode('utf-8', 'replace')
    return GitError('path_conflict', f'{text} is {NOT_A_FILE.get(mode, "a file")} in the repository', path=text)
