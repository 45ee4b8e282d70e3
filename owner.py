"""owner.py - who is the owner: a one-time link, cookies that the agent never sees, and the scripted owner's token.

Article 4, "La ricostruzione": the owner decides on a route of its own, /owner/decide, which answers an agent with
403 agent_scope_denied. Article 7, "La ricostruzione": routes stand in for the owner's clicks. A person comes through a
link that the server prints once; it opens pages under a random path, and the cookie's Path is that path. Cookies ignore
ports: one with Path=/ also reached the agent's own loopback callback, and the agent could approve its own proposals.

    POST /owner/VERB     Authorization: Owner TOKEN, JSON in and out: the scripted owner (client.py)
    /o/RANDOM/...        the same verbs behind a cookie and forms: a person (pages_owner.py)

Not here: what each click does (owner_verbs.py, owner_notes.py), the pages (pages_connected.py and its sisters),
consent (signin.py).
"""
import hashlib
import hmac
import json
import os
import re
import secrets
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import owner_channels
import owner_gitnest
import owner_notes
import owner_project
import owner_records
import owner_sessions
import owner_verbs
import workspace as workspaces
from access import digest
from tools import State
from versioned import Ref, Refusal, Tx, is_text
from wire import Request, Response

# --- data ---------------------------------------------------------------------

SCHEMA = """
-- Only SHA-256 of a secret is ever stored.
CREATE TABLE IF NOT EXISTS owner_tokens (
    digest BLOB PRIMARY KEY,
    person TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owner_links (
    digest     BLOB PRIMARY KEY,
    base       TEXT NOT NULL,             -- the random path its session will live under
    person     TEXT NOT NULL,
    expires_us INTEGER NOT NULL
) WITHOUT ROWID;
-- A session has two cookies: one for its pages, one for the consent page. Neither opens the other's door.
CREATE TABLE IF NOT EXISTS owner_sessions (
    base           TEXT PRIMARY KEY,
    digest         BLOB NOT NULL UNIQUE,
    consent_digest BLOB NOT NULL UNIQUE,
    person         TEXT NOT NULL,
    expires_us     INTEGER NOT NULL,
    workspace      TEXT                   -- which of several the pages show; NULL: the first by name
) WITHOUT ROWID;
"""

PAGES = '/o/'                             # and then the session's random part
CONSENT = '/external-assistant-authorize'
PAGE_COOKIE, CONSENT_COOKIE = 'osfoundry_owner', 'osfoundry_consent'
OWNER, WORKSPACE = ('owner', 'Owner'), ('workspace', 'Workspace')     # who and what an empty state begins with
SECRET_BYTES = 32
LINK_TTL_S, SESSION_TTL_S = 3600, 12 * 3600
TOKEN_FILE, LINK_FILE = 'owner-token', 'owner-link'
SECRET = re.compile('[A-Za-z0-9_-]{16,64}')
JSON_HEADERS = (('Content-Type', 'application/json'), ('Cache-Control', 'no-store'))


class Session(NamedTuple):
    """A person whose cookie was recognised."""
    person: str
    base: str                             # '/o/RANDOM/'
    secret: str                           # the cookie itself: what form tokens are made from
    workspace: Optional[str] = None       # which of several the pages show


# --- rules --------------------------------------------------------------------

def cookie(request: Request, name: str) -> Optional[str]:
    """The cookie's value if it has the shape of a secret of ours."""
    for part in request.headers.get('cookie', '').replace(',', ';').split(';'):
        key, _, value = part.strip().partition('=')
        if key == name and SECRET.fullmatch(value):
            return value
    return None


def form_token(secret: str, purpose: str) -> str:
    """Bound to the person's session and to what the form is for: another session's or another page's form is forged."""
    return hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def require_form_token(secret: str, purpose: str, sent: str) -> None:
    if not hmac.compare_digest(form_token(secret, purpose).encode(), sent.encode('utf-8', 'replace')):
        raise Refusal('forged_form', 'this form is not one that this session was shown: load the page again')


def make_link(tx: Tx, person: str, now_us: int) -> str:
    """The path of a one-time link: /o/RANDOM/enter/SECRET."""
    base, secret = PAGES + secrets.token_urlsafe(SECRET_BYTES // 2) + '/', secrets.token_urlsafe(SECRET_BYTES)
    tx.execute('DELETE FROM owner_links WHERE expires_us <= ?', (now_us,))
    tx.execute('INSERT INTO owner_links VALUES (?, ?, ?, ?)',
               (digest(secret), base, person, now_us + LINK_TTL_S * 1_000_000))
    return f'{base}enter/{secret}'


def find_link(tx: Tx, base: str, secret: str, now_us: int) -> str:
    """The person a link is for. Looking uses nothing up: previews and scanners fetch links."""
    row = tx.execute('SELECT person FROM owner_links WHERE digest = ? AND base = ? AND expires_us > ?',
                     (digest(secret), base, now_us)).fetchone()
    if row is None:
        raise Refusal('not_found', 'this link was used before or is too old: start the server again for a new one')
    return row[0]


def use_link(tx: Tx, base: str, secret: str, now_us: int) -> Tuple[str, str]:
    """Consume the link; the secrets of the session's two cookies. Of two clicks at one instant one finds the row."""
    person = find_link(tx, base, secret, now_us)
    tx.execute('DELETE FROM owner_links WHERE digest = ?', (digest(secret),))
    tx.execute('DELETE FROM owner_sessions WHERE expires_us <= ?', (now_us,))
    page, consent = secrets.token_urlsafe(SECRET_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    tx.execute('INSERT INTO owner_sessions VALUES (?, ?, ?, ?, ?, NULL)',
               (base, digest(page), digest(consent), person, now_us + SESSION_TTL_S * 1_000_000))
    return page, consent


def cookie_headers(base: str, page: str, consent: str, secure: bool) -> List[Tuple[str, str]]:
    """Each cookie's Path is its own door. Consent is Lax: the browser comes to it from the assistant's site."""
    tail = f'; Max-Age={SESSION_TTL_S}; HttpOnly' + ('; Secure' if secure else '')
    return [('Set-Cookie', f'{PAGE_COOKIE}={page}; Path={base}; SameSite=Strict{tail}'),
            ('Set-Cookie', f'{CONSENT_COOKIE}={consent}; Path={CONSENT}; SameSite=Lax{tail}')]


def page_session(tx: Tx, request: Request, now_us: int) -> Session:
    """The person behind a page under /o/RANDOM/; else owner_required."""
    base = page_base(request.path)
    secret = cookie(request, PAGE_COOKIE)
    row = secret and tx.execute('SELECT person, workspace FROM owner_sessions '
                                'WHERE digest = ? AND base = ? AND expires_us > ?',
                                (digest(secret), base, now_us)).fetchone()
    if not row:
        raise Refusal('owner_required', 'open the link that the server printed when it started')
    return Session(row[0], base, secret, row[1])


def show_workspace(tx: Tx, session: Session, workspace: str) -> None:
    """Of several workspaces these pages show this one from now on."""
    workspaces.require_role(tx, session.person, workspace, workspaces.VIEWER)
    tx.execute('UPDATE owner_sessions SET workspace = ? WHERE base = ?', (workspace, session.base))


def consent_session(tx: Tx, request: Request, now_us: int) -> Session:
    """The person behind the consent page, by the consent cookie and no other; else owner_required."""
    secret = cookie(request, CONSENT_COOKIE)
    row = secret and tx.execute('SELECT person, base FROM owner_sessions WHERE consent_digest = ? AND expires_us > ?',
                                (digest(secret), now_us)).fetchone()
    if not row:
        raise Refusal('owner_required', 'open the link that the server printed when it started, then load this again')
    return Session(row[0], row[1], secret)


def page_base(path: str) -> str:
    """'/o/RANDOM/' of a path below it; '' of any other."""
    parts = path.split('/')
    return f'{PAGES}{parts[2]}/' if len(parts) > 3 and path.startswith(PAGES) else ''


def scripted_person(tx: Tx, request: Request) -> str:
    """Who the scripted owner is. Being no agent is no proof: anonymous is 401, and an agent's token is 403 always."""
    scheme, _, secret = request.headers.get('authorization', '').partition(' ')
    if scheme.lower() == 'bearer':
        raise Refusal('agent_scope_denied', 'an agent does not decide: the owner does, on the owner\'s pages')
    row = scheme.lower() == 'owner' and tx.execute(
        'SELECT person FROM owner_tokens WHERE digest = ?', (digest(secret.strip()),)).fetchone()
    if not row:
        raise Refusal('owner_required', 'send the owner\'s token: Authorization: Owner TOKEN')
    return row[0]


def add_person(state: State, person: str, arguments: dict) -> dict:
    """Somebody new in the workspace: {of, name, role}. Only its owner says who is in it."""
    other, name = owner_verbs.new_id(arguments, 'of'), owner_verbs.field(arguments, 'name')
    with state.db.write() as tx:
        workspace = owner_verbs.own_workspace(tx, person, arguments)
        workspaces.require_role(tx, person, workspace, workspaces.OWNER)
        if workspaces.is_known(tx, other):
            raise Refusal('already_exists', f'there is a person {other!r} already: choose another id')
        workspaces.add_person(tx, other, name)
        workspaces.set_role(tx, other, Ref('workspace', workspace), owner_verbs.field(arguments, 'role', 'viewer'))
    return {'of': other, 'name': name}


def open_link(state: State, person: str, arguments: dict) -> dict:
    """A one-time link for a colleague: {of}. A path: whoever opens it is that person, so in each workspace that this
    person may enter the asker must be an owner."""
    other = owner_verbs.field(arguments, 'of')
    with state.db.write() as tx:
        workspace = owner_verbs.own_workspace(tx, person, arguments)
        workspaces.require_role(tx, person, workspace, workspaces.OWNER)
        if workspaces.role_in(tx, other, workspace) == workspaces.NO_ROLE:
            raise Refusal('not_found', 'there is no such person in this workspace')
        for one, _, _ in workspaces.workspaces_of(tx, other):
            if workspaces.role_in(tx, person, one) != workspaces.OWNER:
                raise Refusal('role_too_low', 'this person is in a workspace that you do not own: the link would open '
                                              'it to you')
        return {'of': other, 'name': workspaces.person_name(tx, other), 'link': make_link(tx, other, state.now_us())}


def sign_out(state: State, person: str, arguments: dict) -> dict:
    """Every session of this person ends, in every browser."""
    with state.db.write() as tx:
        ended = tx.execute('DELETE FROM owner_sessions WHERE person = ?', (person,)).rowcount
    return {'ended': ended}


def acting_person(tx: Tx, owner: str, arguments: dict) -> str:
    """The scripted owner may play a colleague by naming one: {"person": "mika", ...}."""
    person = arguments.pop('person', owner)
    if not isinstance(person, str) or not workspaces.is_known(tx, person):
        raise Refusal('not_found', 'there is no such person here')
    return person


def media_type(request: Request) -> str:
    return request.headers.get('content-type', '').partition(';')[0].strip().lower()


def read_object(request: Request) -> dict:
    try:
        found = json.loads(request.body or b'{}')
        plain = is_text(json.dumps(found, ensure_ascii=False))
    except (ValueError, RecursionError):
        found, plain = None, False
    if not isinstance(found, dict) or not plain:
        raise Refusal('invalid_argument', 'the body must be one JSON object', field='body', limit='one JSON object')
    return found


# --- I/O ----------------------------------------------------------------------

def click(state: State, request: Request) -> Response:
    """POST /owner/VERB for the scripted owner."""
    with state.db.read() as tx:
        owner = scripted_person(tx, request)
        arguments = read_object(request)
        person = acting_person(tx, owner, arguments)
    answer = run(state, person, request.path[len('/owner/'):], arguments)
    return Response(200, JSON_HEADERS, json.dumps(answer, ensure_ascii=True).encode())


def run(state: State, person: str, verb: str, arguments: dict) -> dict:
    """One click of a proven person. Forms and the scripted owner come through here alike."""
    work: Optional[Callable[[State, str, dict], dict]] = VERBS.get(verb)
    if work is None:
        raise Refusal('not_found', f'there is no click {verb[:64]!r}: ' + ', '.join(sorted(VERBS)))
    return work(state, person, arguments)


def ensure_owner(tx: Tx) -> str:
    """Who made the state, or another owner once he is none; an empty state gets one, with an empty workspace."""
    row = tx.execute("SELECT person FROM roles WHERE kind = 'workspace' AND role = ? ORDER BY person <> ?, id, person",
                     (workspaces.OWNER, OWNER[0])).fetchone()
    if row is None:
        workspaces.add_person(tx, *OWNER)
        workspaces.create_workspace(tx, *WORKSPACE, OWNER[0])
    return row[0] if row else OWNER[0]


def open_owner_token(state: State, folder: str) -> str:
    """The scripted owner's token, in a file of mode 600 that outlives the server; the file's path is returned."""
    path = os.path.join(folder, TOKEN_FILE)
    with state.db.write() as tx:          # of two servers that start on a new folder the second finds the first's file
        token = read_secret(path)
        if token is None:
            token = secrets.token_urlsafe(SECRET_BYTES)
            write_secret(path, token)
        tx.execute('DELETE FROM owner_tokens')          # who deleted the file wants the old token dead
        tx.execute('INSERT INTO owner_tokens VALUES (?, ?)', (digest(token), ensure_owner(tx)))
    return path


def announce(state: State, folder: str, base_url: str, to_terminal: bool) -> List[str]:
    """The lines the server prints about its owner at start: secrets to a terminal only, else to a file of mode 600."""
    with state.db.write() as tx:
        link = base_url + make_link(tx, ensure_owner(tx), state.now_us())
    if not to_terminal:
        write_secret(os.path.join(folder, LINK_FILE), link)
        link = os.path.join(folder, LINK_FILE) + ' holds the link'
    return [f'owner     {link}   (open it once, in your browser)',
            f'script    owner token in {os.path.join(folder, TOKEN_FILE)}']


def read_secret(path: str) -> Optional[str]:
    """None when there is no such file, or no secret in it: an emptied file must not make '' the owner's token."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, encoding='ascii', errors='replace') as file:
        secret = file.read().strip()
    return secret if SECRET.fullmatch(secret) else None


def write_secret(path: str, secret: str) -> None:
    """Whole or not at all, and readable by its owner only from the first instant."""
    temporary = f'{path}.{secrets.token_hex(4)}'
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, 'w', encoding='ascii') as file:
        file.write(secret + '\n')
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


# A click has one name, on the page and for the scripted owner.
VERBS: Dict[str, Callable[[State, str, dict], dict]] = {
    **owner_verbs.VERBS, **owner_notes.VERBS, **owner_project.VERBS, **owner_records.VERBS, **owner_channels.VERBS,
    **owner_sessions.VERBS, **owner_gitnest.VERBS,
    'add_person': add_person, 'open_link': open_link, 'sign_out': sign_out}
ROUTES: Dict[Tuple[str, str], Callable[[State, Request], Response]] = {('POST', '/owner/*'): click}
