"""watermarks.py - which channel rows a native session has had: kept on disk, moved only by runs that succeeded.

Article 2, "Quando avanza il watermark?": the record {native, last_at, ids} by session, channel and thread. `stage` at
delivery, `commit` when the run has succeeded, `discard` when it has not. What is staged lives in memory alone: a crash
between delivery and commit shows the rows again, and never hides one.

    python3 watermarks.py FOLDER        the watermarks kept in FOLDER, one a line

A difference: the article keeps one channel-watermarks.json; here every record has a file of its own, so that a commit
costs the same beside ten channels and ten thousand. Not here: how a watermark is made and used (channel_render.py).
"""
import argparse
import errno
import fcntl
import hashlib
import json
import os
import sys
import threading
from contextlib import contextmanager
from typing import Callable, Iterator, List, NamedTuple, Optional

import channel_render
from channel_render import Shown, Watermark

# --- data ---------------------------------------------------------------------

MOST_BYTES = 1 << 20            # 200 ids are a few kilobytes; whatever is larger is not ours
FORMAT = 'channel watermark 1'


class Key(NamedTuple):
    session: str                # the session's key in the app, not the provider's id
    channel: str
    thread: Optional[str]


class Staged(NamedTuple):
    key: Key
    native: str
    replaces: Optional[str]     # the native id on record at delivery
    shown: Shown


class Foreign(Exception):
    """This file is torn or not ours."""


class Marks:
    """One app's watermarks: a folder that processes share, and what this process has delivered but not committed."""

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self.folder, self.say, self.lock = folder, say, threading.Lock()
        self.staged = {}        # type: Dict[str, Staged]           # by run id


# --- rules --------------------------------------------------------------------

def watermark_for(marks: Marks, key: Key, native: Optional[str]) -> Optional[Watermark]:
    """The watermark, if it belongs to the native session that answers now. `native` is None for a binding that keeps
    no session (channel_render.remembers): it has no watermark and gets a snapshot."""
    watermark = read_mark(marks, key) if native is not None else None
    return watermark if watermark is not None and belongs_to(watermark, native) else None


def belongs_to(watermark: Watermark, native: Optional[str]) -> bool:
    """A new process under the same handle has read nothing: a snapshot for it, not a gap."""
    return watermark.native == native


def stage(marks: Marks, run_id: str, key: Key, native: Optional[str], shown: Shown) -> None:
    """Remember what a run was shown, at its delivery. A second delivery in one run takes the place of the first."""
    if native is None:
        return
    recorded = read_mark(marks, key)
    with marks.lock:
        marks.staged[run_id] = Staged(key, native, recorded.native if recorded else None, shown)


def commit(marks: Marks, run_id: str) -> bool:
    """The run has succeeded: what it was shown is read. False when there is nothing to move: nothing was staged,
    another session has taken the record over, or the disk refuses (then it says so, and the rows come again)."""
    with marks.lock:
        staged = marks.staged.pop(run_id, None)
    if staged is None:
        return False
    try:
        with exclusive(marks):
            recorded = read_mark(marks, staged.key)
            # A process that was replaced may end its run after its successor: its late commit must not win.
            if recorded is not None and recorded.native not in (staged.native, staged.replaces):
                return False
            write_mark(marks, staged.key, channel_render.advance(recorded, staged.native, staged.shown))
    except OSError as error:
        marks.say(f'the watermark of {staged.key.channel} was not written ({error.strerror}): the rows will come again')
        return False
    return True


def discard(marks: Marks, run_id: str) -> bool:
    """The run has failed and may have shown the agent nothing: the rows stay unread. Whether anything was staged."""
    with marks.lock:
        return marks.staged.pop(run_id, None) is not None


def encode(key: Key, watermark: Watermark) -> bytes:
    record = {'format': FORMAT, 'key': list(key), 'native': watermark.native, 'last_at': watermark.last_at_us,
              'ids': list(watermark.ids)}
    return json.dumps(record, separators=(',', ':')).encode('ascii') + b'\n'


def decode(content: bytes, key: Optional[Key] = None) -> Watermark:
    """Raises Foreign on anything that `encode` did not write, for this key."""
    try:
        record = json.loads(content.decode('ascii'))
        whose, native, last_at, ids = record['key'], record['native'], record['last_at'], record['ids']
        ours = (record['format'] == FORMAT and (key is None or whose == list(key)) and type(last_at) is int
                and isinstance(native, str) and len(ids) <= channel_render.WATERMARK_IDS
                and all(isinstance(id, str) for id in ids))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Foreign from None
    if not ours:
        raise Foreign
    return Watermark(native, last_at, tuple(ids))


# --- I/O ----------------------------------------------------------------------

def open_marks(folder: str, say: Optional[Callable[[str], None]] = None) -> Marks:
    """The cost does not depend on how many records the folder holds: none of them is read."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return Marks(folder, say or (lambda text: print(text, file=sys.stderr)))


def path_of(marks: Marks, key: Key) -> str:
    """Ids come from outside and may hold anything, so a file is named by their hash."""
    name = hashlib.sha256(json.dumps(list(key)).encode('ascii')).hexdigest()[:32]
    return os.path.join(marks.folder, name + '.json')


def read_mark(marks: Marks, key: Key) -> Optional[Watermark]:
    path = path_of(marks, key)
    try:
        with open(path, 'rb') as file:
            return decode(file.read(MOST_BYTES), key)
    except FileNotFoundError:
        return None
    except (Foreign, IsADirectoryError):
        set_aside(marks, path, key)
    except OSError as error:                                # a whole record may lie behind it: nothing is moved
        marks.say(f'the watermark of {key.channel} cannot be read ({error.strerror}): the session gets a snapshot')
    return None


def set_aside(marks: Marks, path: str, key: Key) -> None:
    """Keep what is not ours for whoever wants to know why, out of the way. The session gets a snapshot."""
    try:
        os.replace(path, path + '.aside')
        where = f'set aside as {path}.aside'
    except OSError:
        where = f'left in {path}'
    marks.say(f'the watermark of {key.channel} is torn or not ours: {where}, the session gets a snapshot')


def write_mark(marks: Marks, key: Key, watermark: Watermark) -> None:
    """Whole or not at all. Under `exclusive`, so one name does for all new files, and a killed writer leaves one."""
    path, new = path_of(marks, key), os.path.join(marks.folder, 'new')
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        content = encode(key, watermark)
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(new, path)


@contextmanager
def exclusive(marks: Marks) -> Iterator[None]:
    """Read, advance and write as one step, among threads and processes. The kernel lets go when a holder is killed."""
    descriptor = os.open(os.path.join(marks.folder, 'lock'), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def forget(marks: Marks, older_than_s: float) -> int:
    """Remove records that no run has moved since that time (seconds since 1970); how many. Their sessions, should
    they ever answer again, get a snapshot."""
    removed = 0
    with exclusive(marks), os.scandir(marks.folder) as entries:
        for entry in entries:
            if entry.name.endswith(('.json', '.aside')) and entry.stat(follow_symlinks=False).st_mtime < older_than_s:
                os.unlink(entry.path)
                removed += 1
    return removed


# --- main ---------------------------------------------------------------------

def main(argv: List[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', help='of the records; each is listed')
    folder = parser.parse_args(argv).folder
    if not os.path.isdir(folder):
        parser.error(f'{folder} is no folder')
    for name in sorted(os.listdir(folder)):
        if name.endswith('.json'):
            try:
                with open(os.path.join(folder, name), 'rb') as file:
                    content = file.read(MOST_BYTES)
                watermark = decode(content)
            except (Foreign, OSError):
                print(ascii(name), 'is torn or not ours')
                continue
            print(ascii(json.loads(content)['key']), ascii(watermark.native), f'{len(watermark.ids)} rows')
    return 0


if __name__ == '__main__':
    try:
        import ending
    except ImportError:                        # copied out alone: then Python says how it ended
        sys.exit(main(sys.argv[1:]))
    sys.exit(ending.run(main, sys.argv[1:]))
