"""bench_peers.py - the 22 cases on ours, on three published wrappers, and on subprocess.run.

Article 3 says how to wrap an agent's CLI; these do it. Each runs the same stand-in in each case of codex_cases.py, in
a process of its own with its own way to set a deadline, and is asked three things: is what the caller gets right, how
late after the deadline does he get it, and what is left running. The rivals are looked for in the virtual environment
of $JUDGES (or --judges DIR); what is not installed there is said to be missing and is not run.

    python3 bench.py peers --judges DIR       2 minutes
    python3 bench.py peers --json             the counts as one JSON object

Not here: the cases (codex_cases.py), the stand-in (fake_codex.py).
"""
import argparse
import asyncio
import concurrent.futures
import importlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from typing import Awaitable, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import codex_cases
import ending
import published
import wrap
import wrap_kill
import wrap_process
from codex_cases import CASES, DEADLINE_S, Case, Outcome
from published import Cell, Table

# --- data ---------------------------------------------------------------------

HERE = os.path.dirname(os.path.abspath(__file__))
STAND_IN = os.path.join(HERE, 'fake_codex.py')
SPEED = '10'                     # the stand-in's pauses, divided: no case comes near the deadline by itself
CAP_S = 40.0                     # beyond the deadline: then the wrapper itself is ended
NEVER = 'it never returned'
LOOK_S = 0.3                     # after the return
AT_ONCE = 3


class Peer(NamedTuple):
    name: str
    module: str                  # '': of ours, run by this interpreter
    package: str                 # as pip calls it


PEERS = [Peer('ours', '', ''), Peer('subprocess.run', '', ''),
         Peer('openai-codex-sdk', 'openai_codex_sdk.abort', 'openai-codex-sdk'),
         Peer('codex-sdk-python', 'codex_sdk', 'codex-sdk-python'),
         Peer("claude-agent-sdk's transport", 'claude_agent_sdk._internal.transport.subprocess_cli',
              'claude-agent-sdk')]
COLUMNS = ('right', 'latest return', 'left running')
Told = Tuple[str, Optional[str]]     # text, error

# --- rules --------------------------------------------------------------------

def table(versions: Dict[str, Optional[str]], outcomes: Dict[str, Dict[str, Outcome]]) -> dict:
    """Ours must be right in all, and leave nothing; the others are shown. A case is right or it is not."""
    cells, figures = [], {}
    for peer in PEERS:
        row = f'{peer.name} {versions[peer.name] or ""}'.strip()
        if peer.name not in outcomes:
            cells += [Cell(row, column, None, 'not run here', reason=f'{peer.package} is not installed below JUDGES')
                      for column in COLUMNS]
            continue
        found = outcomes[peer.name]
        right = sum(codex_cases.verdict(case, found[case.mode]) == 'right' for case in CASES)
        judged = 'range' if peer.name == 'ours' else 'shown'
        cells += [Cell(row, 'right', None, judged, low=len(CASES), of=len(CASES)),
                  Cell(row, 'latest return', None, judged, 's', high=codex_cases.GRACE_S,
                       reason='after a deadline of 3 s'),
                  Cell(row, 'left running', None, judged, 'processes', high=0)]
        figures[row, 'right'] = right
        figures[row, 'latest return'] = max(0.0, max(outcome.late_s for outcome in found.values()))
        figures[row, 'left running'] = sum(outcome.survivors for outcome in found.values())
    return published.compare(Table(3, '22 cases, and who is right', cells), figures)


def matrix(outcomes: Dict[str, Dict[str, Outcome]]) -> str:
    """Every case that somebody got wrong, and how."""
    lines = []
    for case in CASES:
        wrong = {name: codex_cases.verdict(case, found[case.mode]) for name, found in outcomes.items()}
        wrong = {name: said for name, said in wrong.items() if said != 'right'}
        lines.append(case.what + (':' if wrong else ': all right'))
        lines += [f'    {name}: {wrap.printable(said)[:110]}' for name, said in wrong.items()]
    return '\n'.join(lines)


def fold(events: Sequence[dict]) -> Told:
    """What a careful caller would make of events that a transport hands him: the article's rule."""
    text, error = '', None
    for event in events:
        item = event.get('item')
        if event.get('type') == 'item.completed' and isinstance(item, dict) and item.get('type') == 'agent_message':
            text = item.get('text', '')
        elif event.get('type') in ('turn.failed', 'error'):
            message = (event.get('error') or {}).get('message') or event.get('message') or ''
            error = None if message.startswith('Reconnecting') else message
    return text, error


# --- I/O ----------------------------------------------------------------------

def measure(peer: Peer, case: Case, python: str, folder: str) -> Outcome:
    """One run in a process of its own, and who is alive after it."""
    pids = os.path.join(folder, f'{peer.name}-{case.mode}'.replace(' ', '-'))
    env = {**os.environ, 'FAKE_CODEX': case.mode, 'FAKE_CODEX_SPEED': SPEED, 'FAKE_CODEX_PIDS': pids,
           'PEER_FOLDER': folder, 'PYTHONDONTWRITEBYTECODE': '1'}
    driver = subprocess.Popen([python, os.path.abspath(__file__), '--drive', peer.name, case.mode], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              start_new_session=True)
    try:
        said, _ = driver.communicate(timeout=DEADLINE_S + CAP_S)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        said, _ = driver.communicate()
    time.sleep(LOOK_S)
    alive = codex_cases.living(pids)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    last = said.strip().rsplit(b'\n', 1)[-1]
    told = json.loads(last) if last.startswith(b'{') else {'text': '', 'error': NEVER, 'took_s': CAP_S + DEADLINE_S}
    return Outcome(told['text'], told['error'], told['took_s'] - DEADLINE_S, len(alive))


def drive(name: str, mode: str) -> int:
    """In a process of its own: one case through one wrapper; the outcome as one line of JSON."""
    case = next(case for case in CASES if case.mode == mode)
    program = shim(os.environ['PEER_FOLDER'], name)
    # Our own mcp.py must not be found in place of the package that a rival needs.
    sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder or '.') != os.path.realpath(HERE)]
    run = {'ours': drive_ours, 'subprocess.run': drive_subprocess, 'openai-codex-sdk': drive_openai,
           'codex-sdk-python': drive_codex_sdk, "claude-agent-sdk's transport": drive_claude}[name]
    module = next(peer.module for peer in PEERS if peer.name == name)
    if module:
        importlib.import_module(module)      # seconds, for some: not counted
    began = time.monotonic()
    try:
        text, error = run(program, case.prompt)
    except Exception as failure:         # whatever a rival raises is what its caller is told
        text, error = '', f'{type(failure).__name__}: {failure}'
    told = {'text': text, 'error': error and error[:2_000], 'took_s': time.monotonic() - began}
    sys.stdout.write('\n' + json.dumps(told) + '\n')
    sys.stdout.flush()
    os._exit(0)                          # a rival's threads and loops may hold us for as long as they like


def shim(folder: str, name: str) -> str:
    """A `codex` that is the stand-in. The transport of claude-agent-sdk has flags of its own: they are dropped."""
    path = os.path.join(folder, 'codex-' + name.replace(' ', '-').replace("'", ''))
    words = 'exec - --json' if name.startswith('claude') else '"$@"'
    made = f'{path}.{os.getpid()}'
    with open(made, 'w', encoding='utf-8') as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{STAND_IN}" {words}\n')
    os.chmod(made, stat.S_IRWXU)
    os.replace(made, path)
    return path


def drive_ours(program: str, prompt: str) -> Told:
    argv = wrap.build_codex_command(prompt, codex=program)
    options = wrap.Options(gentle_s=wrap_process.GENTLE_S, subreaper=wrap_kill.adopt_orphans(),
                           stdin=wrap.prompt_input(argv, prompt))
    answer = wrap.run_events(argv, DEADLINE_S, options=options)
    return answer.text, answer.error


def drive_subprocess(program: str, prompt: str) -> Told:
    """As most people write it."""
    done = subprocess.run([program, 'exec', '-', '--json'], input=prompt, text=True, capture_output=True,
                          timeout=DEADLINE_S)
    if done.returncode:
        return '', done.stderr[-2_000:] or f'exit status {done.returncode}'
    return fold([json.loads(line) for line in done.stdout.splitlines() if line.strip()])


def drive_openai(program: str, prompt: str) -> Told:
    sdk = importlib.import_module('openai_codex_sdk')
    thread = sdk.Codex({'codex_path_override': program}).start_thread({'skip_git_repo_check': True})
    controller = importlib.import_module('openai_codex_sdk.abort').AbortController()
    options = importlib.import_module('openai_codex_sdk.types').TurnOptions(signal=controller.signal)
    return asyncio.run(aborted_late(lambda: thread.run(prompt, options), controller.abort))


def drive_codex_sdk(program: str, prompt: str) -> Told:
    sdk = importlib.import_module('codex_sdk')
    thread = sdk.Codex(sdk.CodexOptions(codex_path_override=program)).start_thread(
        sdk.ThreadOptions(skip_git_repo_check=True))
    controller = sdk.AbortController()
    options = sdk.TurnOptions(signal=controller.signal)
    return asyncio.run(aborted_late(lambda: thread.run(prompt, options), controller.abort))


async def aborted_late(run: Callable[[], Awaitable], abort: Callable) -> Told:
    """A turn under the deadline that these two offer: an abort signal."""
    asyncio.get_running_loop().call_later(DEADLINE_S, abort, 'deadline')
    turn = await run()
    return turn.final_response, None


def drive_claude(program: str, prompt: str) -> Told:
    sdk = importlib.import_module('claude_agent_sdk')
    transport_of = importlib.import_module('claude_agent_sdk._internal.transport.subprocess_cli')
    return asyncio.run(through_transport(sdk, transport_of, program, prompt))


async def through_transport(sdk, transport_of, program: str, prompt: str) -> Told:
    async def nothing():
        return
        yield {}

    complaints: List[str] = []
    transport = transport_of.SubprocessCLITransport(
        prompt=nothing(), options=sdk.ClaudeAgentOptions(cli_path=program, stderr=complaints.append))
    events: List[dict] = []

    async def read() -> None:
        await transport.connect()
        await transport.write(prompt)
        await transport.end_input()
        async for event in transport.read_messages():
            events.append(event)

    failure = None
    try:
        await asyncio.wait_for(read(), DEADLINE_S)
    except Exception as raised:          # whoever iterates has what came before
        failure = f'{type(raised).__name__}: {raised}'
    finally:
        await transport.close()
    text, error = fold(events)
    return text, error or failure and '\n'.join([failure, *complaints[-3:]])


def version_of(peer: Peer, python: str) -> Optional[str]:
    """What the virtual environment has; None: nothing."""
    script = f'from importlib.metadata import version; print(version({peer.package!r}))'
    done = subprocess.run([python, '-c', script], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def interpreters(judges: Optional[str]) -> Tuple[Dict[str, str], Dict[str, Optional[str]]]:
    """(interpreter, version) by peer; those that are missing have no interpreter."""
    found: Dict[str, str] = {}
    versions: Dict[str, Optional[str]] = {}
    python = os.path.join(judges or '', 'venv', 'bin', 'python')
    for peer in PEERS:
        if not peer.module:
            found[peer.name], versions[peer.name] = sys.executable, None
        elif judges and os.path.exists(python):
            versions[peer.name] = version_of(peer, python)
            if versions[peer.name]:
                found[peer.name] = python
        else:
            versions[peer.name] = None
    return found, versions


# --- main ---------------------------------------------------------------------

def main(argv: Sequence[str]) -> int:
    parser = published.parser('bench.py peers', __doc__)
    parser.add_argument('--judges', default=os.environ.get('JUDGES'), metavar='DIR',
                        help='a folder whose venv has the rivals; default: the variable JUDGES')
    parser.add_argument('--drive', nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.drive:
        return drive(*args.drive)
    found, versions = interpreters(args.judges)
    with tempfile.TemporaryDirectory(prefix='peers-') as folder:
        jobs = [(peer, case) for peer in PEERS if peer.name in found for case in CASES]
        outcomes: Dict[str, Dict[str, Outcome]] = {}
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            running = {pool.submit(measure, peer, case, found[peer.name], folder): (peer, case) for peer, case in jobs}
            for n, done in enumerate(concurrent.futures.as_completed(running), 1):
                published.progress(f'{n} of {len(jobs)}')
                peer, case = running[done]
                outcomes.setdefault(peer.name, {})[case.mode] = done.result()
    published.progress('')
    published.note(matrix(outcomes) + '\n', args.json)
    return published.report('bench.py peers', [table(versions, outcomes)], args.json)


if __name__ == '__main__':
    sys.exit(ending.run(main, sys.argv[1:]))
