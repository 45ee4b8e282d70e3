"""pages_consent.py - the page where a person decides whether an assistant may connect.

Article 6, step 3: "Connect an agent" shows the assistant's client and the host it returns to, one workspace, the
requested capabilities in plain words, a pending connection or a new one, a box to tick, Connect. No JavaScript; the
form posts to its own address, so that the request it decides is the one that is shown.

Not here: who may see it and what a decision does (signin.py, oauth.py).
"""
import html
from typing import List, Sequence, Tuple
from urllib.parse import urlsplit

import pages
from oauth import Authorization
from pages import text
from wire import Response

# --- data ---------------------------------------------------------------------

CAPABILITIES = {
    'osfoundry:read': 'Read supported resources in projects you add',
    'osfoundry:write': 'Change supported resources where you have edit access',
    'osfoundry:run': 'Run sessions where you grant a runner role',
    'osfoundry:models': 'Use models that you connect (no tool here does)',
}
KINDS = {'pending': 'Use pending: ', 'connected': 'Keep, with its projects: '}

# --- rules --------------------------------------------------------------------

def consent(status: int, request: Authorization, person: str, workspaces: Sequence[Tuple[str, str, int]],
            choices: Sequence[Tuple[str, str, str, str]], nonce: str, form_token: str, problem: str = '') -> Response:
    names = {workspace: name for workspace, name, _ in workspaces}
    body = (f'{pages.problem_line(problem)}<p><strong>{text(request.client_name)}</strong> asks to be connected. Your '
            f'browser will go back to <strong>{text(urlsplit(request.redirect_uri).netloc)}</strong>.</p>'
            f'<p class="soft">You are signed in here as {text(person)}.</p><form method="post">'
            f'<fieldset><legend>Workspace to connect</legend>{places(names)}</fieldset>'
            f'<section class="card"><h2>Requested capabilities</h2><ul>{capabilities(request.scopes)}</ul>'
            '<p class="soft">A new connection is in no project and sees nothing until you add it to one.</p></section>'
            f'<fieldset><legend>Connection</legend>{connections(choices, names)}</fieldset>'
            '<p><label><input type="checkbox" name="approve" value="yes" required><span>I approve connecting this '
            f'assistant to {goal(names)}</span></label></p>{pages.hidden("nonce", nonce)}'
            f'{pages.hidden("form_token", form_token)}'
            '<p class="row"><button class="first" name="decision" value="connect">Connect</button>'
            '<button name="decision" value="cancel" formnovalidate>Cancel</button></p></form>')
    # No form-action: Chromium holds it against the redirect after the form, and would block the callback.
    return pages.page(status, 'Connect an agent', body, policy=pages.POLICY)


def places(names: dict) -> str:
    """Exactly one; the only one there is needs no choosing."""
    chosen = ' checked' if len(names) == 1 else ''
    return '<p class="soft">Exactly one. A second workspace needs a connection of its own.</p>' + ''.join(
        f'<label><input type="radio" name="workspace" value="{html.escape(workspace)}" required{chosen}>'
        f'<span>{text(name)}</span></label>' for workspace, name in names.items())


def goal(names: dict) -> str:
    return text(next(iter(names.values()))) if len(names) == 1 else 'the workspace chosen above'


def capabilities(scopes: Sequence[str]) -> str:
    return ''.join(f'<li>{html.escape(words)}</li>' for scope, words in CAPABILITIES.items() if scope in scopes)


def connections(choices: Sequence[Tuple[str, str, str, str]], names: dict) -> str:
    """No existing connection is preselected: taking one over is the person's own doing."""
    lines: List[str] = ['<label><input type="radio" name="connection" value="new" checked>'
                        '<span>Create a new connection</span></label>']
    for workspace, connection, name, kind in choices:
        where = f' <span class="soft">in {text(names[workspace])}</span>' if len(names) > 1 else ''
        lines.append(f'<label><input type="radio" name="connection" value="{html.escape(connection)}">'
                     f'<span>{KINDS[kind]}{text(name)}{where}</span></label>')
    return ''.join(lines)
