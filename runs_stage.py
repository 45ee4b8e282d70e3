"""runs_stage.py - the stage of every scripted run: a server of its own, the scripted owner, the scripted Claude.

Articles 4 to 7 print runs of a client against a server. Each of ours (runs_*.py) begins with an empty folder, puts
in it what the workspace held before the first line, starts server.py on a free port as a process, and takes both
away again.

    with stage(seed) as here:
        claude = here.claude()                    an MCP host whose sign-in approves itself
        here.click('add_to_project', connection=..., project=...)

demo only: the server runs with --demo --self-consent. Not here: what a run says and does (runs_*.py), the host
(host.py).
"""
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence

import ending
import host
import host_signin
import oauth
import owner
import server
from versioned import Database, Tx

# --- data ---------------------------------------------------------------------

STOP_S = 30
WORKSPACE = owner.WORKSPACE[0]            # what an empty state begins with: one workspace and its owner
OWNER = owner.OWNER[0]


class ClickRefused(Exception):
    """The owner's click was answered with an error. `code` is the refusal's."""

    def __init__(self, status: int, answer: Dict[str, Any]):
        super().__init__(f'HTTP {status}: {answer.get("message")}')
        self.status, self.code = status, answer.get('error')


class Stage(NamedTuple):
    process: subprocess.Popen             # the server's
    folder: str                           # its --data
    base_url: str
    url: str                              # of the endpoint
    owner_token: str

    def claude(self, scope: Optional[str] = None) -> host.Host:
        """The scripted Claude, its client registered beforehand; it signs in at its first call."""
        return host.Host(self.url, host_signin.directly, client={'client_id': oauth.DEMO_CLIENT}, scope=scope)

    def click(self, verb: str, **arguments: Any) -> Dict[str, Any]:
        """One click of the scripted owner: POST /owner/VERB. Raises ClickRefused."""
        status, answer = host.owner_click(self.base_url, self.owner_token, verb, arguments)
        if status != 200:
            raise ClickRefused(status, answer)
        return answer

    def connection(self) -> str:
        """The newest connection of the workspace, as the Connected tab shows it first."""
        return self.click('list_connections')['connections'][0]['connection']


# --- I/O ----------------------------------------------------------------------

@contextmanager
def stage(seed: Callable[[Tx], None], flags: Sequence[str] = ()) -> Iterator[Stage]:
    """A server with `seed` in its state, ready when entered; its process and its folder are gone when left."""
    with ending.undisturbed():
        folder = tempfile.mkdtemp(prefix='osfoundry-run-')
        try:
            plant(folder, seed)
            with server_on(folder, flags) as here:
                yield here
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server_on(folder: str, flags: Sequence[str] = ()) -> Iterator[Stage]:
    """A server process on the state in `folder`, be it the first or another one."""
    with ending.undisturbed():
        process = start(folder, flags)
        try:
            with ending.disturbed():
                yield opened(folder, process)
        finally:
            stop(process)


def opened(folder: str, process: subprocess.Popen) -> Stage:
    """The stage of a server that was started on `folder`, as soon as it answers."""
    base_url = read_base_url(process)
    with open(os.path.join(folder, owner.TOKEN_FILE), encoding='ascii') as file:
        token = file.read().strip()
    return Stage(process, folder, base_url, base_url + server.mcp.ENDPOINT, token)


def plant(folder: str, seed: Callable[[Tx], None]) -> None:
    db = Database(os.path.join(folder, 'state.db'), server.SCHEMAS)
    try:
        with db.write() as tx:
            owner.ensure_owner(tx)
            seed(tx)
    finally:
        db.close()


def start(folder: str, flags: Sequence[str]) -> subprocess.Popen:
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'server.py')
    # A process group of its own: Ctrl-C reaches the run, and the run ends the server.
    return subprocess.Popen([sys.executable, page, '--port', '0', '--data', folder, '--demo', '--self-consent', *flags],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)


def read_base_url(process: subprocess.Popen) -> str:
    """From the line `endpoint  URL` that the server prints when it answers."""
    base_url = ''
    for line in process.stdout:
        word, _, rest = line.strip().partition(' ')
        if word == 'endpoint':
            base_url = rest.strip()[:-len(server.mcp.ENDPOINT)]
        if word == 'stop':                # its last line
            return base_url
    raise RuntimeError(f'server.py ended with status {process.wait()} instead of answering')


def stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
