"""pages.py - what a person sees: the frame of every page, and the consent page.

Article 6, step 3: "Connect an agent" shows the assistant's client and the host it returns to, one workspace, the
requested capabilities in plain words, a pending connection or a new one, a box to tick, Connect. Plain HTML from the
server, without JavaScript: labels, keyboard, phone width, light and dark.

Everything that came from outside is escaped and isolated (<bdi>): markup, scripts and right-to-left text are shown as
text. Not here: who may see a page (owner.py), what a click does (owner_verbs.py, signin.py).
"""
import base64
import hashlib
import html
from typing import List, Sequence, Tuple
from urllib.parse import urlsplit

from oauth import Authorization
from wire import Response

# --- data ---------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --ink: #1c2127; --soft: #4f5863; --line: #ccd2d9; --ground: #f4f5f7; --card: #ffffff;
  --accent: #1a56b0; --on-accent: #ffffff; --bad: #9c2118; --bad-ground: #fdecea; --good: #17623a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a9b2bd; --line: #3b444e; --ground: #14181c;
  --card: #1d2328; --accent: #8ab4f8; --on-accent: #10151a; --bad: #f6a49b; --bad-ground: #3a1f1c; --good: #86d3a5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2, legend { font-size: 1.05rem; font-weight: 600; margin: 0 0 .5rem; padding: 0; }
p, ul { margin: 0 0 .75rem; } ul { padding-left: 1.25rem; }
.card, fieldset { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem;
  margin: 0 0 1rem; min-width: 0; }
fieldset legend { float: left; width: 100%; } fieldset legend + * { clear: both; }
label { display: flex; gap: .6rem; align-items: baseline; padding: .25rem 0; }
input[type=radio], input[type=checkbox] { flex: none; width: 1.05rem; height: 1.05rem; accent-color: var(--accent);
  position: relative; top: .15rem; margin: 0; }
button, .button { font: inherit; padding: .5rem 1.1rem; border-radius: .4rem; border: 1px solid var(--accent);
  cursor: pointer; background: var(--card); color: var(--accent); text-decoration: none; display: inline-block; }
button.first { background: var(--accent); color: var(--on-accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.row { display: flex; flex-wrap: wrap; gap: .75rem; align-items: center; }
.soft { color: var(--soft); } .problem { background: var(--bad-ground); color: var(--bad); border-radius: .4rem;
  padding: .6rem .8rem; margin: 0 0 1rem; }
code { font: .92em/1.4 ui-monospace, monospace; }
"""
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# No form-action on the consent page: Chromium holds it against the redirect after the form, and blocks the callback.
POLICY = f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'"
HEADERS = (('Content-Type', 'text/html; charset=utf-8'), ('X-Frame-Options', 'DENY'), ('Cache-Control', 'no-store'),
           ('Referrer-Policy', 'no-referrer'), ('X-Content-Type-Options', 'nosniff'))
CAPABILITIES = {
    'osfoundry:read': 'Read supported resources in projects you add',
    'osfoundry:write': 'Change supported resources where you have edit access',
    'osfoundry:run': 'Run sessions where you grant a runner role',
    'osfoundry:models': 'Use models that you connect (no tool here does)',
}

# --- rules --------------------------------------------------------------------

def text(value: str) -> str:
    """Somebody's words: as text, and in a direction of their own."""
    return f'<bdi>{html.escape(value)}</bdi>'


def attribute(value: str) -> str:
    return html.escape(value, quote=True)


def page(status: int, title: str, body: str, policy: str = POLICY) -> Response:
    document = ('<!doctype html><html lang="en"><head><meta charset="utf-8">'
                '<meta name="viewport" content="width=device-width, initial-scale=1">'
                f'<title>{html.escape(title)} - osFoundry</title><style>{STYLE}</style></head>'
                f'<body><main><h1>{html.escape(title)}</h1>{body}</main></body></html>')
    return Response(status, (*HEADERS, ('Content-Security-Policy', policy)), document.encode('utf-8', 'replace'))


def message(status: int, title: str, words: str) -> Response:
    return page(status, title, f'<p>{html.escape(words)}</p>')


def consent(status: int, request: Authorization, workspaces: Sequence[Tuple[str, str, int]],
            choices: Sequence[Tuple[str, str, str, str]], nonce: str, form_token: str, problem: str = '') -> Response:
    """The form posts to its own address, so that the request it decides is the one that is shown."""
    host = urlsplit(request.redirect_uri).netloc
    several = len(workspaces) > 1
    chosen = '' if several else ' checked'
    places = ''.join(f'<label><input type="radio" name="workspace" value="{attribute(workspace)}" required{chosen}>'
                     f'<span>{text(name)}</span></label>' for workspace, name, _ in workspaces)
    to = 'the workspace chosen above' if several else text(workspaces[0][1]) if workspaces else 'a workspace'
    body = (f'{problem_line(problem)}<p><strong>{text(request.client_name)}</strong> asks to be connected. '
            f'Your browser will go back to <strong>{text(host)}</strong>.</p>'
            '<form method="post"><fieldset><legend>Workspace to connect</legend>'
            f'<p class="soft">Exactly one. A second workspace needs a connection of its own.</p>{places}</fieldset>'
            f'<section class="card"><h2>Requested capabilities</h2><ul>{capabilities(request.scopes)}</ul>'
            '<p class="soft">A new connection is in no project and sees nothing until you add it to one.</p></section>'
            f'<fieldset><legend>Connection</legend>{connections(choices, dict((w[0], w[1]) for w in workspaces))}'
            '</fieldset>'
            f'<p><label><input type="checkbox" name="approve" value="yes" required>'
            f'<span>I approve connecting this assistant to {to}</span></label></p>'
            f'<input type="hidden" name="nonce" value="{attribute(nonce)}">'
            f'<input type="hidden" name="form_token" value="{attribute(form_token)}">'
            '<p class="row"><button class="first" name="decision" value="connect">Connect</button>'
            '<button name="decision" value="cancel" formnovalidate>Cancel</button></p></form>')
    return page(status, 'Connect an agent', body)


def problem_line(problem: str) -> str:
    return f'<p class="problem" role="alert">{html.escape(problem)}</p>' if problem else ''


def capabilities(scopes: Sequence[str]) -> str:
    return ''.join(f'<li>{html.escape(CAPABILITIES[scope])}</li>' for scope in CAPABILITIES if scope in scopes)


def connections(choices: Sequence[Tuple[str, str, str, str]], names: dict) -> str:
    """No existing connection is preselected: taking one over is the person's own doing."""
    words = {'pending': 'Use pending: ', 'connected': 'Keep, with its projects: '}
    lines: List[str] = ['<label><input type="radio" name="connection" value="new" checked>'
                        '<span>Create a new connection</span></label>']
    for workspace, connection, name, kind in choices:
        where = f' <span class="soft">in {text(names[workspace])}</span>' if len(names) > 1 else ''
        lines.append(f'<label><input type="radio" name="connection" value="{attribute(connection)}">'
                     f'<span>{words[kind]}{text(name)}{where}</span></label>')
    return ''.join(lines)
