"""oauth.py - the authorization server up to the code: discovery documents, clients, the request, the consent's effect.

Article 7, "Dove lo manda il 401?" (resource metadata, RFC 9728) and "Cosa dice di sé il server di autorizzazione?"
(server metadata, RFC 8414; registration, RFC 7591; public clients, S256, iss), and article 6, step 3: one workspace, a
pending connection or a new one. Rules and SQL only: every function takes the transaction, and nothing here knows HTTP.

    read_authorization      client and redirect first: a wrong one is a page, never a redirect; then the rest
    approve                 what Connect does: a connection, and a code that is good for 60 seconds and one use

Not here: codes for tokens, refresh, revocation (oauth_tokens.py); the routes (signin.py); the consent page
(pages_consent.py).
"""
import json
import re
import secrets
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import access
import owner
import workspace as workspaces
from mcp import ENDPOINT
from versioned import Refusal, Tx, is_text

# --- data ---------------------------------------------------------------------

SCHEMA = """
CREATE TABLE IF NOT EXISTS oauth_clients (
    client_id  TEXT PRIMARY KEY,
    metadata   TEXT NOT NULL,             -- JSON, as registration answered it
    created_us INTEGER NOT NULL,
    used_us    INTEGER,                   -- the last code or refresh token it redeemed; NULL: never
    permanent  INTEGER NOT NULL           -- registered beforehand: neither counted nor expired
) WITHOUT ROWID;
-- Which client a person approved a connection for: asking for more scope keeps that connection and its projects.
CREATE TABLE IF NOT EXISTS oauth_grants (
    client_id  TEXT NOT NULL,
    connection TEXT NOT NULL,
    person     TEXT NOT NULL,
    PRIMARY KEY (client_id, connection)
) WITHOUT ROWID;
-- Consent forms that were decided. The form itself is kept nowhere until then: showing it writes nothing.
CREATE TABLE IF NOT EXISTS oauth_decisions (
    digest     BLOB PRIMARY KEY,
    expires_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS oauth_codes (
    digest       BLOB PRIMARY KEY,        -- SHA-256, as of every secret here
    client_id    TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge    TEXT NOT NULL,
    resource     TEXT NOT NULL,
    scopes       TEXT NOT NULL,
    connection   TEXT NOT NULL,
    family       TEXT NOT NULL,           -- of the tokens it will become: a second use revokes them
    expires_us   INTEGER NOT NULL,
    used         INTEGER NOT NULL
) WITHOUT ROWID;
"""

ISSUED_UNDER = '/api/v1/external-oauth/'
CODE_TTL_S, FORM_TTL_S = 60, 600
SECRET_BYTES = 32                         # 256 random bits a code or token
CLIENTS, UNUSED_TTL_S, UNUSED_WHEN_FULL_S, IDLE_TTL_S = 1_000, 24 * 3600, 600, 90 * 24 * 3600
REDIRECT_URIS, URI_LENGTH, PARAMETER_LENGTH, PARAMETERS = 10, 2048, 4096, 40
DEFAULT_SCOPE = access.SCOPES[0]          # who asks for nothing gets the least; a 403 tells what else there is
LOOPBACK_URI = re.compile(r'http://(127\.0\.0\.1|\[::1\]|localhost)(?::[0-9]{1,5})?([/?].*)?', re.DOTALL)
CHALLENGE = re.compile('[A-Za-z0-9_-]{43}')           # base64url of 32 bytes
URI_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+")    # no '#', no space, no backslash
TEXTS = ('client_name', 'scope', 'software_id', 'software_version')
LINKS = ('client_uri', 'logo_uri', 'tos_uri', 'policy_uri')
# demo only: the client that --self-consent approves without asking; a public client has no secret to give away.
DEMO_CLIENT, DEMO_NAME, DEMO_REDIRECT = 'scripted-claude', 'Scripted Claude', 'http://127.0.0.1/callback'


class Authorization(NamedTuple):
    """A request that may be shown to the person: client and redirect are known, and it asks for what there is."""
    client_id: str
    client_name: str
    redirect_uri: str
    state: Optional[str]
    challenge: str
    scopes: Tuple[str, ...]
    resource: str


class Misdirected(Exception):
    """Client or redirect_uri is wrong: nobody may be redirected anywhere, so the person gets a page."""


class Denied(Exception):
    """The request is wrong in another way: the client is told at its redirect_uri."""

    def __init__(self, error: str, description: str, redirect_uri: str, state: Optional[str]):
        super().__init__(description)
        self.error, self.redirect_uri, self.state = error, redirect_uri, state


class OAuthError(Exception):
    """An answer of the register, token or revoke endpoint; nothing was written."""

    def __init__(self, error: str, description: str, status: int = 400):
        super().__init__(description)
        self.error, self.status = error, status

    def as_dict(self) -> dict:
        return {'error': self.error, 'error_description': str(self)}


# --- rules --------------------------------------------------------------------

def resource_of(base_url: str) -> str:
    return base_url + ENDPOINT


def resource_metadata(base_url: str) -> dict:
    """RFC 9728. Issuer, this entry and `iss` are the same bytes; all addresses come from configuration."""
    return {'resource': resource_of(base_url), 'authorization_servers': [base_url],
            'scopes_supported': list(access.SCOPES), 'bearer_methods_supported': ['header'],
            'resource_name': 'osFoundry'}


def server_metadata(base_url: str) -> dict:
    """RFC 8414: the article's members in its order, then what the specifications ask for besides."""
    under = base_url + ISSUED_UNDER
    return {'issuer': base_url, 'authorization_endpoint': under + 'authorize', 'token_endpoint': under + 'token',
            'registration_endpoint': under + 'register',
            'grant_types_supported': ['authorization_code', 'refresh_token'],
            'token_endpoint_auth_methods_supported': ['none'], 'code_challenge_methods_supported': ['S256'],
            'authorization_response_iss_parameter_supported': True,
            'response_types_supported': ['code'], 'response_modes_supported': ['query'],
            'scopes_supported': list(access.SCOPES), 'revocation_endpoint': under + 'revoke',
            'revocation_endpoint_auth_methods_supported': ['none']}


# Clients.

def register(tx: Tx, sent: Any, now_us: int) -> dict:
    """RFC 7591: what 201 answers. Anybody may call this, so clients are capped and unused ones go."""
    metadata = client_metadata(sent)
    make_room(tx, now_us)
    client_id = 'client-' + secrets.token_hex(16)
    tx.execute('INSERT INTO oauth_clients VALUES (?, ?, ?, NULL, 0)', (client_id, json.dumps(metadata), now_us))
    return {'client_id': client_id, 'client_id_issued_at': now_us // 1_000_000, **metadata}


def register_demo_client(tx: Tx, now_us: int) -> None:
    metadata = client_metadata({'client_name': DEMO_NAME, 'redirect_uris': [DEMO_REDIRECT]})
    tx.execute('INSERT OR IGNORE INTO oauth_clients VALUES (?, ?, ?, NULL, 1)',
               (DEMO_CLIENT, json.dumps(metadata), now_us))


def client_metadata(sent: Any) -> dict:
    """What of `sent` we keep: all we know, defaults for what is missing or null, no secret. Raises OAuthError."""
    if not isinstance(sent, dict):
        raise OAuthError('invalid_client_metadata', 'the body must be one JSON object')
    uris = sent.get('redirect_uris')
    if not isinstance(uris, list) or not 1 <= len(uris) <= REDIRECT_URIS:
        raise OAuthError('invalid_redirect_uri', f'redirect_uris must be a list of 1 to {REDIRECT_URIS} addresses')
    for uri in uris:
        if redirect_fault(uri):
            raise OAuthError('invalid_redirect_uri', f'a redirect_uri {redirect_fault(uri)}')
    kept: Dict[str, Any] = {'redirect_uris': uris, 'token_endpoint_auth_method': 'none'}
    kept['grant_types'] = words(sent, 'grant_types', ('authorization_code', 'refresh_token'), 'authorization_code')
    kept['response_types'] = words(sent, 'response_types', ('code',), 'code')
    for name in TEXTS + LINKS:
        if sent.get(name) is not None:
            kept[name] = text_member(name, sent[name])
    if isinstance(sent.get('contacts'), list):
        kept['contacts'] = [text_member('contacts', one) for one in sent['contacts'][:REDIRECT_URIS]]
    return kept


def words(sent: dict, name: str, ours: Tuple[str, ...], needed: str) -> List[str]:
    """A list of words, cut to those we support; it must hold the one without which nothing works."""
    value = sent.get(name) if sent.get(name) is not None else list(ours)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value) or needed not in value:
        raise OAuthError('invalid_client_metadata', f'{name} must be a list that holds {needed!r}')
    return [word for word in ours if word in value]


def text_member(name: str, value: Any) -> str:
    longest = workspaces.NAME_LENGTH[1] if name == 'client_name' else URI_LENGTH
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not value.isprintable():
        raise OAuthError('invalid_client_metadata', f'{name} must be 1 to {longest} printable characters')
    if name in LINKS and urlsplit_or_none(value, ('https', 'http')) is None:
        raise OAuthError('invalid_client_metadata', f'{name} must be an http or https address')
    return value


def urlsplit_or_none(uri: str, schemes: Tuple[str, ...]) -> Any:
    try:
        parts = urlsplit(uri)
        usable = parts.scheme in schemes and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:                                     # a port of 99999, a bracket left open
        return None
    return parts if usable else None


def redirect_fault(uri: Any) -> Optional[str]:
    """What is wrong with a redirect URI, or None: https, or http on a loopback host, and none of the owner's paths.

    A cookie is sent to every port of its host: a callback under the owner's or the consent page's path would get it.
    """
    if not isinstance(uri, str) or len(uri) > URI_LENGTH or not URI_CHARACTERS.fullmatch(uri):
        return f'must be an absolute address of at most {URI_LENGTH} URI characters, without a fragment'
    parts = urlsplit_or_none(uri, ('https', 'http'))
    if parts is None or parts.username is not None or parts.password is not None:
        return 'must be an https address, or an http one on this machine, without user info'
    if parts.scheme == 'http' and not LOOPBACK_URI.fullmatch(uri):
        return 'must be https unless its host is 127.0.0.1, [::1] or localhost'
    path = unquote(parts.path).lower()
    if '/.' in path or '\\' in path or path.startswith((owner.PAGES, owner.CONSENT)) or path == owner.PAGES[:-1]:
        return "must not lie under the owner's pages"
    return None


def redirect_matches(registered: str, asked: str) -> bool:
    """Byte for byte; only a loopback address may come with another port (RFC 8252, 7.3)."""
    ours, theirs = LOOPBACK_URI.fullmatch(registered), LOOPBACK_URI.fullmatch(asked)
    return registered == asked or bool(ours and theirs and ours.groups() == theirs.groups())


def make_room(tx: Tx, now_us: int) -> None:
    """Unused clients go after a day, unused for long after 90; when it is full, unused ones after ten minutes."""
    def forget(unused_s: int) -> int:
        tx.execute('DELETE FROM oauth_clients WHERE permanent = 0 AND '
                   '(used_us IS NULL AND created_us <= ? OR used_us <= ?)',
                   (now_us - unused_s * 1_000_000, now_us - IDLE_TTL_S * 1_000_000))
        return tx.execute('SELECT count(*) FROM oauth_clients WHERE permanent = 0').fetchone()[0]
    if forget(UNUSED_TTL_S) >= CLIENTS and forget(UNUSED_WHEN_FULL_S) >= CLIENTS:
        raise OAuthError('temporarily_unavailable', f'{CLIENTS} clients are registered: try again later', 503)


def find_client(tx: Tx, client_id: Optional[str]) -> Optional[dict]:
    row = tx.execute('SELECT metadata FROM oauth_clients WHERE client_id = ?', (client_id,)).fetchone()
    return json.loads(row[0]) if row else None


# The request.

def parameters(query: str) -> Tuple[Dict[str, str], List[str]]:
    """Each parameter's first value, and the names that came twice. Bytes that are no UTF-8 survive for `state`."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors='surrogateescape', max_num_fields=PARAMETERS)
    except ValueError:
        return {}, ['']
    found: Dict[str, str] = {}
    twice = []
    for name, value in pairs:
        if name in found:
            twice.append(name)
        found.setdefault(name, value)
    return {name: value for name, value in found.items() if value != ''}, twice


def read_authorization(tx: Tx, query: str, base_url: str) -> Authorization:
    """Check an authorize request. Raises Misdirected or Denied; writes nothing, for clients look before they leap."""
    sent, twice = parameters(query)
    client = None if {'client_id', 'redirect_uri'} & set(twice) else find_client(tx, plain(sent.get('client_id')))
    if client is None:
        raise Misdirected('This link names an application that is not registered here. Start again from the assistant.')
    uri = sent.get('redirect_uri', '')
    if redirect_fault(uri) or not any(redirect_matches(one, uri) for one in client['redirect_uris']):
        raise Misdirected('This link would send you to an address that the application has not registered.')
    state = sent.get('state')

    def deny(error: str, description: str) -> Denied:
        return Denied(error, description, uri, state)
    if twice or any(len(value) > PARAMETER_LENGTH for value in sent.values()):
        raise deny('invalid_request', f'a parameter is given twice, or longer than {PARAMETER_LENGTH} characters')
    if sent.get('response_type') != 'code':
        raise deny('unsupported_response_type' if 'response_type' in sent else 'invalid_request',
                   'response_type must be code')
    if sent.get('code_challenge_method') != 'S256' or not CHALLENGE.fullmatch(sent.get('code_challenge', '')):
        raise deny('invalid_request', 'PKCE is needed: code_challenge, with code_challenge_method=S256')
    scopes = tuple(dict.fromkeys(sent.get('scope', DEFAULT_SCOPE).split()))
    if not scopes or not set(scopes) <= set(access.SCOPES):
        raise deny('invalid_scope', 'the scopes are ' + ' '.join(access.SCOPES))
    if sent.get('resource', resource_of(base_url)).rstrip('/') != resource_of(base_url):
        raise deny('invalid_target', f'the resource here is {resource_of(base_url)}')
    return Authorization(sent['client_id'], client.get('client_name', 'An assistant'), uri, state,
                         sent['code_challenge'], scopes, resource_of(base_url))


def plain(value: Optional[str]) -> Optional[str]:
    """A value that can be looked up; sqlite takes no lone surrogate."""
    return value if value is not None and is_text(value) else None


def callback(redirect_uri: str, state: Optional[str], base_url: str, **answer: str) -> str:
    """Where the browser goes: the client's own query stays, `state` is theirs to the byte, `iss` is ours (RFC 9207)."""
    if state is not None:
        answer['state'] = state
    pairs = urlencode(dict(answer, iss=base_url), errors='surrogateescape')
    return redirect_uri + ('&' if '?' in redirect_uri else '?') + pairs


# The consent.

def choices(tx: Tx, person: str, client_id: str) -> List[Tuple[str, str, str, str]]:
    """What the request may be attached to: (workspace, connection, its name, 'pending' | 'connected').

    Another client's active connection is not among them. This client's own is, for more scope or a lost token.
    """
    found = []
    for workspace, _, _ in workspaces.workspaces_of(tx, person):
        found += [(workspace, connection, name, 'pending')
                  for connection, name in access.pending_connections(tx, workspace)]
        found += [(workspace, connection, name, 'connected') for connection, name in tx.execute(
            'SELECT c.connection, c.display_name FROM oauth_grants g JOIN connections c ON c.connection = g.connection '
            "WHERE g.client_id = ? AND g.person = ? AND c.workspace = ? AND c.approver = g.person "
            "AND c.status = 'active' ORDER BY c.created_us DESC, c.connection", (client_id, person, workspace))]
    return found


def decide_once(tx: Tx, form: str, now_us: int) -> None:
    """One decision a shown form: of two clicks at one instant the second finds the first one's row."""
    tx.execute('DELETE FROM oauth_decisions WHERE expires_us <= ?', (now_us,))
    decided = tx.execute('INSERT OR IGNORE INTO oauth_decisions VALUES (?, ?)',
                         (access.digest(form), now_us + 2 * FORM_TTL_S * 1_000_000)).rowcount
    if not decided:
        raise Refusal('already_decided', 'this form was sent before: start again from the assistant')


def approve(tx: Tx, person: str, request: Authorization, workspace: str, connection: Optional[str], now_us: int) -> str:
    """What Connect does: attach to a pending connection, keep the client's own, or make a new one. Returns the code."""
    workspaces.require_role(tx, person, workspace, workspaces.VIEWER)
    if connection is None:
        connection = access.add_assistant(tx, workspace, person, assistant_of(request.client_name),
                                          request.client_name, now_us)
    if (workspace, connection, 'connected') not in [(place, one, kind) for place, one, _, kind
                                                    in choices(tx, person, request.client_id)]:
        access.attach(tx, connection, workspace, person)
    tx.execute('INSERT OR REPLACE INTO oauth_grants VALUES (?, ?, ?)', (request.client_id, connection, person))
    return new_code(tx, request, connection, now_us)


def assistant_of(client_name: str) -> str:
    name = client_name.casefold()
    return next((assistant for assistant in access.ASSISTANTS if assistant in name), 'other')


def new_code(tx: Tx, request: Authorization, connection: str, now_us: int) -> str:
    code = secrets.token_urlsafe(SECRET_BYTES)
    tx.execute('INSERT INTO oauth_codes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)',
               (access.digest(code), request.client_id, request.redirect_uri, request.challenge, request.resource,
                ' '.join(request.scopes), connection, secrets.token_hex(16), now_us + CODE_TTL_S * 1_000_000))
    return code


def approve_demo(tx: Tx, person: str, request: Authorization, now_us: int) -> str:
    """demo only, do not copy: consent without a person, for the one client registered beforehand, on this machine."""
    if request.client_id != DEMO_CLIENT or not LOOPBACK_URI.fullmatch(request.redirect_uri):
        raise Refusal('consent_required', 'only the scripted client approves itself')
    workspace = workspaces.workspaces_of(tx, person)[0][0]
    known = [connection for place, connection, _, kind in choices(tx, person, DEMO_CLIENT)
             if kind == 'connected' and place == workspace]
    return approve(tx, person, request, workspace, known[0] if known else None, now_us)
