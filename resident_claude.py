"""resident_claude.py - a resident Claude Code process, as resident_pool.py starts one.

Article 2, "Cosa riceve una sessione fredda che una calda non riceve?", on the real program: one process, one line of
JSON a turn on standard input, the answer as the line of type `result`. The native id is chosen here, so that it is
known before the first turn; `resume` reloads the exact saved session.

    python3 resident_claude.py PROGRAM        one turn a line of standard input

Not here: the pool and its leases (resident_pool.py), what a turn shows (channel_render.py).
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import uuid
from typing import Dict, List, NamedTuple, Optional, Sequence

import ending
import wrap_kill
from resident_pool import Resident

# --- data ---------------------------------------------------------------------

STREAM = ('-p', '--input-format', 'stream-json', '--output-format', 'stream-json', '--verbose')
FAREWELL_S = 5.0                 # from the end of its input to SIGKILL


class Failed(Exception):
    """The process ended, or said that the turn failed. `said`: its last line of type result, if there was one."""

    def __init__(self, message: str, said: Optional[dict] = None) -> None:
        super().__init__(message)
        self.said = said


class Setting(NamedTuple):
    """What all processes of one app share."""
    program: str
    folder: str
    environment: Dict[str, str]
    flags: Sequence[str] = ()


# --- rules --------------------------------------------------------------------

def command(setting: Setting, native: str, restored: bool) -> List[str]:
    return [setting.program, *STREAM, *setting.flags, '--resume' if restored else '--session-id', native]


def user_line(text: str) -> str:
    return json.dumps({'type': 'user', 'message': {'role': 'user', 'content': text}}) + '\n'


def event_of(line: str) -> dict:
    """Of a line that is no event there is nothing to know: a warning that somebody printed, half of a last line."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


# --- I/O ----------------------------------------------------------------------

class ClaudeProcess:
    """One process and its session. Turns come one after another: a lease sees to that."""

    def __init__(self, setting: Setting, native: Optional[str] = None) -> None:
        self.restored, self.native = native is not None, native or str(uuid.uuid4())
        self.run = wrap_kill.begin(uuid.uuid4().hex, adopts=False)
        try:
            self.process = subprocess.Popen(
                command(setting, self.native, self.restored), cwd=setting.folder, start_new_session=True, text=True,
                encoding='utf-8', errors='replace', stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env={**setting.environment, wrap_kill.MARK: self.run.mark})
        except OSError as error:
            wrap_kill.end(self.run)
            raise Failed(f'cannot start {setting.program}: {error.strerror or error}') from error
        self.run = wrap_kill.started(self.run, self.process.pid)
        self.complaints: List[str] = []
        self.drain = threading.Thread(target=self.complaints.extend, args=(self.process.stderr,), daemon=True)
        self.drain.start()                   # an undrained stderr stops it (article 3)

    def resident(self) -> Resident:
        return Resident(self.native, self.alive, self.end, self.restored)

    def alive(self) -> bool:
        return self.process.poll() is None

    def turn(self, text: str) -> str:
        """Send one user turn, wait for its answer. Raises Failed."""
        try:
            self.process.stdin.write(user_line(text))
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise Failed(self.last_words('it had ended before the turn')) from None
        for line in self.process.stdout:
            said = event_of(line)
            if said.get('type') == 'result':
                if said.get('is_error') or said.get('subtype') != 'success' or 'result' not in said:
                    raise Failed(f'the turn failed: {said.get("result") or said.get("subtype")}', said)
                return said['result']
        raise Failed(self.last_words('it ended in the middle of the turn'))

    def last_words(self, what: str) -> str:
        """Its pipes close a moment before it can be seen to have ended: until then the pool would lease it again."""
        try:
            self.process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            pass
        self.drain.join(1.0)
        return f'{what}: {"".join(self.complaints)[-300:].strip() or "nothing on stderr"}'

    def crash(self) -> None:
        """demo only: as the kernel would end it."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Close its input, which it takes as the end; then whatever of it is left."""
        try:
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass
        try:
            self.process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            pass
        wrap_kill.sweep(self.run, {})
        self.process.wait()
        wrap_kill.end(self.run)
        self.drain.join(1.0)
        self.process.stdout.close()
        self.process.stderr.close()


def environment(home: str, model_url: str) -> Dict[str, str]:
    """Nothing of this machine's: an empty HOME, a model on loopback, a key that opens nothing."""
    return {'PATH': os.environ.get('PATH', os.defpath), 'HOME': home, 'ANTHROPIC_BASE_URL': model_url,
            'ANTHROPIC_API_KEY': 'x', 'CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC': '1', 'DISABLE_AUTOUPDATER': '1'}


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', help='such as claude')
    program = parser.parse_args(argv).program
    try:
        process = ClaudeProcess(Setting(program, os.getcwd(), dict(os.environ)))
        try:
            for line in sys.stdin:
                print(process.turn(line), flush=True)
        finally:
            process.end()
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
