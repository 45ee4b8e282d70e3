"""wrap_command.py - the command line, the prompt and the environment of a Codex run.

Article 3, from its first command to "Ricostruire entrambe su un Mac": exec with the prompt as the one
positional argument, which flags and why, what is taken out of the environment. What the real CLI makes of a long or
dash-led prompt is met here too (README, differences).

Copied out together with the other wrap files. Not here: running it (wrap_process.py).
"""
import json
import os
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import wrap_process

# --- data ---------------------------------------------------------------------

VERIFY_PROMPT = 'Reply with the single word: ok'
TIMEOUT_S, AUTONOMOUS_TIMEOUT_S = 300, 1_800
SANDBOX = {'verify': 'read-only', 'answer': 'read-only', 'autonomous': 'workspace-write'}    # and 'bridge'
BYPASS = '--dangerously-bypass-approvals-and-sandbox'

# Any of these would move a run from the ChatGPT login to a metered account, or to another login. RUST_LOG: a trace
# of hundreds of kilobytes on stderr, for nobody.
STRIPPED = ('CODEX_API_KEY', 'OPENAI_API_KEY', 'OPENAI_BASE_URL', 'CODEX_ACCESS_TOKEN', 'RUST_LOG')

ARGUMENT_BYTES = 131_071         # the longest argument that Linux passes on, without its NUL
PROMPT_CHARS = 1_048_576         # what Codex takes on standard input
SUBCOMMANDS = ('resume', 'fork', 'review', 'help')
HELP_TIMEOUT_S = 20


class Bridge(NamedTuple):
    """An MCP server for the run: a command over stdio, or a URL whose bearer token stands in a variable."""
    name: str
    command: Sequence[str] = ()
    url: str = ''
    bearer_variable: str = ''
    sandboxed: bool = False      # keep the sandbox and approve this server's tools (0.171), instead of the bypass


class CannotRun(Exception):
    """Nothing was started. `code`: prompt_too_long, prompt_empty, not_a_worktree, bad_bridge, no_codex, no_posix."""

    def __init__(self, code: str, message: str, **data) -> None:
        super().__init__(message)
        self.code, self.data = code, data


# --- rules --------------------------------------------------------------------

def build_prompt(system: str, turns: Sequence[Tuple[str, str]]) -> str:
    """Codex has no flag for a system prompt: it goes in front, a blank line, then the labelled turns.

    One turn alone needs no label: there is nobody to tell it from.
    """
    if len(turns) == 1:
        transcript = turns[0][1]
    else:
        transcript = '\n\n'.join(f'{speaker}: {text}' for speaker, text in turns)
    return f'{system}\n\n{transcript}' if system else transcript


def build_codex_command(prompt: str, kind: str = 'answer', codex: Union[str, Sequence[str]] = 'codex',
                        bridge: Optional[Bridge] = None, cwd: Optional[str] = None,
                        help_text: Optional[str] = None) -> List[str]:
    """The article's command for one of four kinds of run: verify, answer, autonomous, bridge.

    `-` stands for a prompt that must go by standard input: give `prompt_input(argv, prompt)` to the run. `help_text` is
    what `codex exec --help` prints; None asks the binary, once. Raises CannotRun.
    """
    binary = [codex] if isinstance(codex, str) else list(codex)
    if help_text is None:
        help_text = ask_help(tuple(binary))
    check_prompt(prompt)
    argv = binary + ['exec', '-' if goes_by_stdin(prompt, help_text) else prompt,
                     '--json', '--skip-git-repo-check', '--ignore-user-config']
    if names_flag(help_text, '--ignore-rules'):      # an older build refuses it, and with it the whole run
        argv.append('--ignore-rules')
    if kind == 'bridge':
        return argv + bridge_flags(bridge, cwd)
    return argv + ['-s', SANDBOX[kind], '-c', 'approval_policy="never"']


def bridge_flags(bridge: Optional[Bridge], cwd: Optional[str]) -> List[str]:
    """The bypass replaces sandbox and approvals, so what it may touch must be expendable: a worktree, by name."""
    if bridge is None or not re.fullmatch(r'[A-Za-z0-9_-]+', bridge.name) or bool(bridge.command) == bool(bridge.url):
        raise CannotRun('bad_bridge', 'a bridge needs a name of letters, digits, - and _, and a command or a url')
    require_worktree(cwd or os.getcwd())
    keys = {'command': bridge.command[0], 'args': list(bridge.command[1:])} if bridge.command else {'url': bridge.url}
    if bridge.bearer_variable:
        keys['bearer_token_env_var'] = bridge.bearer_variable
    keys['required'] = True                          # else a dead bridge is not even mentioned
    if bridge.sandboxed:
        keys['default_tools_approval_mode'] = 'approve'
        flags = ['-s', SANDBOX['autonomous'], '-c', 'approval_policy="never"']
    else:
        flags = [BYPASS]
    for key, value in keys.items():
        flags += ['-c', f'mcp_servers.{bridge.name}.{key}={toml(value)}']
    return flags


def toml(value: object) -> str:
    """JSON's strings, lists and booleans are TOML's, but for pairs of surrogates and DEL."""
    return json.dumps(value, ensure_ascii=False).replace('\x7f', '\\u007f')


def require_worktree(folder: str) -> None:
    """`folder` must lie in a linked git worktree: its .git is a file, and what that names points back at it."""
    top = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(top, '.git')) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    dot_git = os.path.join(top, '.git')
    named = read_line(dot_git)
    if named.startswith('gitdir: '):
        admin = os.path.join(top, named[len('gitdir: '):])
        back = os.path.join(admin, read_line(os.path.join(admin, 'gitdir')))
        if os.path.exists(os.path.join(admin, 'commondir')) and os.path.realpath(back) == os.path.realpath(dot_git):
            return
    raise CannotRun('not_a_worktree', f'{folder} is not inside a linked git worktree: make one with '
                    '`git worktree add`; without a sandbox a run may touch only what can be thrown away', folder=folder)


def check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise CannotRun('prompt_empty', 'the prompt is empty')
    if len(prompt) > PROMPT_CHARS:
        raise CannotRun('prompt_too_long', f'the prompt has {len(prompt)} characters; Codex takes {PROMPT_CHARS}',
                        limit=PROMPT_CHARS)


def goes_by_stdin(prompt: str, help_text: str = '') -> bool:
    """Too long for an argument, or one that Codex would take for a flag or a sub-command."""
    return ('\0' in prompt or prompt.startswith('-') or prompt in (subcommands(help_text) or SUBCOMMANDS)
            or len(prompt.encode('utf-8', 'surrogateescape')) > ARGUMENT_BYTES)


def prompt_input(argv: Sequence[str], prompt: str) -> Optional[bytes]:
    """What to write to the command's standard input; None: nothing."""
    return prompt.encode('utf-8', 'replace') if '-' in argv else None


def subcommands(help_text: str) -> Tuple[str, ...]:
    listed = re.search(r'^Commands:\n((?: +\S.*\n)+)', help_text, re.MULTILINE)
    return tuple(re.findall(r'^ {2}([\w-]+)', listed.group(1), re.MULTILINE)) if listed else ()


def names_flag(help_text: str, flag: str) -> bool:
    return re.search(rf'(?<![\w-]){re.escape(flag)}(?![\w-])', help_text) is not None


def child_environment(env: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    return {name: value for name, value in (os.environ if env is None else env).items() if name not in STRIPPED}


# --- I/O ----------------------------------------------------------------------

_help: Dict[Tuple[str, ...], str] = {}      # asked once a binary: it takes 85 ms through the npm launcher


def ask_help(codex: Tuple[str, ...]) -> str:
    if codex not in _help:
        chunks: List[bytes] = []

        def feed(chunk: bytes, _now_s: float) -> bool:
            chunks.append(chunk)
            return False

        refuse_windows()
        wrap_process.run_process([*codex, 'exec', '--help'], HELP_TIMEOUT_S, child_environment(),
                                 wrap_process.Options(), feed)
        _help[codex] = b''.join(chunks).decode('utf-8', 'replace')
    return _help[codex]


def read_line(path: str) -> str:
    try:
        with open(path, encoding='utf-8', errors='surrogateescape') as file:
            return file.readline(4_096).rstrip('\r\n')
    except OSError:
        return ''


def refuse_windows() -> None:
    if os.name != 'posix':
        raise CannotRun('no_posix', 'this needs process groups and pipes that poll: Linux or macOS, not Windows')
