"""signin.py - sign-in over HTTP: both discovery documents, register, authorize, consent, token, revoke.

Article 7, "Dove lo manda il 401?", "Cosa dice di sé il server di autorizzazione?", and article 6, step 3 ("Approva un
workspace"). Each route reads its request, calls a rule of oauth.py or oauth_tokens.py in one transaction, and says the
outcome in HTTP.

    GET  /.well-known/oauth-protected-resource[/api/v1/external-mcp]     which authorization server
    GET  /.well-known/oauth-authorization-server                         where its endpoints are
    POST /api/v1/external-oauth/register                                 201, a public client
    GET  /api/v1/external-oauth/authorize                                checks, writes nothing, on to the consent page
    GET, POST /external-assistant-authorize                              the person decides; back to the client
    POST /api/v1/external-oauth/token, .../revoke                        codes and refresh tokens for tokens

Not here: the rules (oauth.py, oauth_tokens.py), the consent page's looks (pages_consent.py), Host and Origin, CORS
(server.py).
"""
import json
import secrets
import sqlite3
from typing import Callable, Dict, Optional, Tuple

import mcp
import oauth
import oauth_tokens
import owner
import pages
import pages_consent
import workspace as workspaces
from oauth import Authorization, Denied, Misdirected, OAuthError
from owner import Session
from tools import State
from versioned import Refusal, Tx, is_text
from wire import Request, Response

# --- data ---------------------------------------------------------------------

NO_STORE = (('Content-Type', 'application/json'), ('Cache-Control', 'no-store'), ('Pragma', 'no-cache'),
            ('X-Content-Type-Options', 'nosniff'))
DOCUMENT = (('Content-Type', 'application/json'), ('Cache-Control', 'public, max-age=300'))
BODY_BYTES = 64 * 1024                    # of a registration or a form: what a client says of itself is short

# --- rules --------------------------------------------------------------------

def form_purpose(request: Request, nonce: str) -> str:
    """What a consent form's token is bound to, besides the session: this request, to the byte, and this showing."""
    return f'consent {nonce} {request.query}'


def new_nonce(now_us: int) -> str:
    return f'{now_us // 1_000_000}.{secrets.token_urlsafe(16)}'


def require_shown_form(request: Request, session: Session, form: Dict[str, str], now_us: int) -> None:
    """The form this session was shown for this request, not long ago; else forged_form or form_expired."""
    if not all(map(is_text, form.values())):               # bytes that are no UTF-8: no page of ours sends them
        raise Refusal('forged_form', 'a field of this form is no text: load the page again')
    nonce = form.get('nonce', '')
    owner.require_form_token(session.secret, form_purpose(request, nonce), form.get('form_token', ''))
    if now_us // 1_000_000 - int(nonce.split('.')[0]) > oauth.FORM_TTL_S:      # ours: the token over it was right
        raise Refusal('form_expired', 'this page stood open for too long: start again from the assistant')


def read_form(request: Request) -> Dict[str, str]:
    """A form's fields. Raises OAuthError invalid_request for another type, a repeated field, or too much of it."""
    if owner.media_type(request) != 'application/x-www-form-urlencoded' or len(request.body) > BODY_BYTES:
        raise OAuthError('invalid_request', 'send application/x-www-form-urlencoded, '
                                            f'at most {BODY_BYTES // 1024} KiB of it')
    fields, twice = oauth.parameters(request.body.decode('utf-8', 'surrogateescape'))
    if twice:
        raise OAuthError('invalid_request', 'a field is given twice, or there are too many')
    return fields


def answer(status: int, body: dict) -> Response:
    return Response(status, NO_STORE, json.dumps(body).encode())


def redirect(location: str) -> Response:
    """303: whatever was posted is not posted again at the place it leads to."""
    headers = (('Location', location), ('Cache-Control', 'no-store'), ('Referrer-Policy', 'no-referrer'))
    return Response(303, headers, b'')


# --- I/O ----------------------------------------------------------------------

def resource_document(state: State, request: Request) -> Response:
    return Response(200, DOCUMENT, json.dumps(oauth.resource_metadata(state.config.base_url)).encode())


def server_document(state: State, request: Request) -> Response:
    return Response(200, DOCUMENT, json.dumps(oauth.server_metadata(state.config.base_url)).encode())


def endpoint(state: State, work: Callable[[Tx], Tuple[int, dict]]) -> Response:
    """One transaction of the register, token or revoke endpoint. A storage failure is 503: never invalid_grant, for
    which a client throws its refresh token away."""
    try:
        with state.db.write() as tx:
            status, body = work(tx)
    except OAuthError as error:
        return answer(error.status, error.as_dict())
    except (Refusal, sqlite3.Error):
        return answer(503, {'error': 'temporarily_unavailable', 'error_description': 'the storage failed: try again'})
    return answer(status, body)


def register(state: State, request: Request) -> Response:
    usable = owner.media_type(request) == 'application/json' and len(request.body) <= BODY_BYTES
    try:
        sent = json.loads(request.body) if usable else None
    except (ValueError, RecursionError):
        sent = None
    return endpoint(state, lambda tx: (201, oauth.register(tx, sent, state.now_us())))


def token(state: State, request: Request) -> Response:
    def work(tx: Tx) -> Tuple[int, dict]:
        body = oauth_tokens.exchange(tx, read_form(request), state.now_us())
        return (400 if 'error' in body else 200), body
    return endpoint(state, work)


def revoke(state: State, request: Request) -> Response:
    def work(tx: Tx) -> Tuple[int, dict]:
        oauth_tokens.revoke(tx, read_form(request))
        return 200, {}
    return endpoint(state, work)


def authorize(state: State, request: Request) -> Response:
    """To the consent page with the same query. Nothing is written yet: clients look here before they send a person."""
    try:
        with state.db.read() as tx:
            checked = oauth.read_authorization(tx, request.query, state.config.base_url)
    except Misdirected as fault:
        return pages.message(400, 'This link cannot be used', str(fault))
    except Denied as denied:
        return deny(state, denied)
    if state.config.self_consent and checked.client_id == oauth.DEMO_CLIENT:
        return self_consent(state, checked)
    return redirect(f'{owner.CONSENT}?{request.query}')


def deny(state: State, denied: Denied) -> Response:
    return redirect(oauth.callback(denied.redirect_uri, denied.state, state.config.base_url,
                                   error=denied.error, error_description=str(denied)))


def self_consent(state: State, checked: Authorization) -> Response:
    """demo only, do not copy: the person who would be asked is not."""
    with state.db.write() as tx:
        code = oauth.approve_demo(tx, owner.ensure_owner(tx), checked, state.now_us())
    return redirect(oauth.callback(checked.redirect_uri, checked.state, state.config.base_url, code=code))


def show_consent(state: State, request: Request, status: int = 200, problem: str = '') -> Response:
    try:
        with state.db.read() as tx:
            session = owner.consent_session(tx, request, state.now_us())
            checked = oauth.read_authorization(tx, request.query, state.config.base_url)
            mine = workspaces.workspaces_of(tx, session.person)
            choices = oauth.choices(tx, session.person, checked.client_id)
            name = workspaces.person_name(tx, session.person)
    except Refusal as refusal:
        return pages.message(401, 'Sign in first', f'Please {refusal}.')
    except Misdirected as fault:
        return pages.message(400, 'This link cannot be used', str(fault))
    except Denied as denied:
        return deny(state, denied)
    nonce = new_nonce(state.now_us())
    form_token = owner.form_token(session.secret, form_purpose(request, nonce))
    return pages_consent.consent(status, checked, name, mine, choices, nonce, form_token, problem)


def decide_consent(state: State, request: Request) -> Response:
    """The person's decision: everything is checked again, and a shown form decides once."""
    try:
        form = read_form(request)
        with state.db.write() as tx:
            session = owner.consent_session(tx, request, state.now_us())
            require_shown_form(request, session, form, state.now_us())
            checked = oauth.read_authorization(tx, request.query, state.config.base_url)
            problem = missing(form)
            if not problem:
                location = decided(tx, state, session, checked, form)
    except Refusal as refusal:
        status = {'owner_required': 401, 'forged_form': 403}.get(refusal.code, 409)
        return pages.message(status, 'Nothing was connected', f'{refusal}'.capitalize() + '.')
    except (Misdirected, OAuthError) as fault:
        return pages.message(400, 'Nothing was connected', str(fault))
    except Denied as denied:
        return deny(state, denied)
    return show_consent(state, request, 400, problem) if problem else redirect(location)


def missing(form: Dict[str, str]) -> Optional[str]:
    """What the page still needs, for a browser that does not look at `required`; None when it can be decided."""
    if form.get('decision') == 'cancel':
        return None
    if form.get('decision') != 'connect' or not form.get('workspace') or not form.get('connection'):
        return 'Choose a workspace and a connection, then Connect or Cancel.'
    return None if form.get('approve') == 'yes' else 'Tick the box to approve, then Connect.'


def decided(tx: Tx, state: State, session: Session, checked: Authorization, form: Dict[str, str]) -> str:
    """Where the browser goes: with a code, or with access_denied."""
    oauth.decide_once(tx, form['nonce'], state.now_us())
    base_url = state.config.base_url
    if form['decision'] == 'cancel':
        return oauth.callback(checked.redirect_uri, checked.state, base_url, error='access_denied',
                              error_description='the person did not approve')
    connection = None if form['connection'] == 'new' else form['connection']
    code = oauth.approve(tx, session.person, checked, form['workspace'], connection, state.now_us())
    return oauth.callback(checked.redirect_uri, checked.state, base_url, code=code)


UNDER = oauth.ISSUED_UNDER
ROUTES: Dict[Tuple[str, str], Callable[[State, Request], Response]] = {
    ('GET', '/.well-known/oauth-protected-resource'): resource_document,
    ('GET', mcp.METADATA): resource_document,
    ('GET', '/.well-known/oauth-authorization-server'): server_document,
    ('POST', UNDER + 'register'): register,
    ('GET', UNDER + 'authorize'): authorize,
    ('POST', UNDER + 'token'): token,
    ('POST', UNDER + 'revoke'): revoke,
    ('GET', owner.CONSENT): show_consent,
    ('POST', owner.CONSENT): decide_consent,
}
