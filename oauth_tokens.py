"""oauth_tokens.py - the authorization server after the code: tokens, refresh with rotation, revocation.

Article 7, "Cosa dice di sé il server di autorizzazione?" (public clients, S256: the code is worth nothing without the
verifier) and "Perché lo scope non basta?" (a token says who, which connection, which scopes). Rules and SQL only.

    a code             60 s, one use; a second use by who knows the verifier revokes what the first one got
    an access token    one hour, opaque, only its SHA-256 is stored (access.issue_access_token)
    a refresh token    rotates; a retired one revokes its family, except within 10 s: many processes share one token

What must be written although the client is refused (a family revoked) is returned as an answer, not raised: an
exception rolls the transaction back. Not here: clients, the request, codes (oauth.py), the routes (signin.py).
"""
import base64
import hashlib
import secrets
from typing import Dict, Iterable, Optional, Tuple

import access
import oauth
from oauth import OAuthError
from versioned import Tx

# --- data ---------------------------------------------------------------------

SCHEMA = """
-- A family is what one code became: all its tokens stand and fall together.
CREATE TABLE IF NOT EXISTS oauth_refresh (
    digest     BLOB PRIMARY KEY,
    family     TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    connection TEXT NOT NULL,
    resource   TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    retired_us INTEGER,                   -- when its successor was issued; NULL: the current one
    expires_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oauth_refresh_by_family ON oauth_refresh (family);
CREATE INDEX IF NOT EXISTS oauth_refresh_by_expiry ON oauth_refresh (expires_us);
CREATE TABLE IF NOT EXISTS oauth_access (
    digest     BLOB PRIMARY KEY,          -- of the token in access.py's table
    family     TEXT NOT NULL,
    expires_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oauth_access_by_family ON oauth_access (family);
CREATE INDEX IF NOT EXISTS oauth_access_by_expiry ON oauth_access (expires_us);
"""

ACCESS_TTL_S = 3600                       # the article's expires_in
REFRESH_TTL_S = 30 * 24 * 3600            # unused for so long: sign in again
GRACE_S = 10                              # a retired refresh token still gets an access token, and nothing else
KEPT_S = 24 * 3600                        # a used code is remembered, so that its second use is recognised
PRUNED_AT_ONCE = 100


# --- rules --------------------------------------------------------------------

def exchange(tx: Tx, form: Dict[str, str], now_us: int) -> dict:
    """The token endpoint: RFC 6749's answer, or {"error": ...} after a revocation to be kept. Raises OAuthError."""
    grant_type = form.get('grant_type')
    if grant_type is None:
        raise OAuthError('invalid_request', 'grant_type is missing')
    if grant_type not in GRANTS:
        raise OAuthError('unsupported_grant_type', 'grant_type is authorization_code or refresh_token')
    require_client(tx, form)
    prune(tx, now_us)
    answer = GRANTS[grant_type](tx, form, now_us)
    if 'error' not in answer:
        tx.execute('UPDATE oauth_clients SET used_us = ? WHERE client_id = ?', (now_us, form['client_id']))
    return answer


def require_client(tx: Tx, form: Dict[str, str]) -> None:
    if oauth.find_client(tx, oauth.plain(form.get('client_id'))) is None:
        raise OAuthError('invalid_client', 'this client is not registered here: register, then sign in again', 401)


def redeem(tx: Tx, form: Dict[str, str], now_us: int) -> dict:
    """A code for tokens. All is compared before the code is used up: a wrong guess takes nothing from anybody."""
    digest = access.digest(required(form, 'code'))
    row = tx.execute('SELECT client_id, redirect_uri, challenge, resource, scopes, connection, family, expires_us, '
                     'used FROM oauth_codes WHERE digest = ?', (digest,)).fetchone()
    if row is None:
        raise invalid_grant('this code is unknown or too old')
    client_id, redirect_uri, challenge, resource, scopes, connection, family, expires_us, used = row
    if client_id != form['client_id'] or redirect_uri != form.get('redirect_uri'):
        raise invalid_grant('this code was issued to another client, or for another redirect_uri')
    if not verifier_matches(challenge, required(form, 'code_verifier')):
        raise invalid_grant('code_verifier does not match code_challenge')
    require_resource(form, resource)
    # The comparison and the change are one statement: of any number of redemptions at one instant one succeeds.
    first = tx.execute('UPDATE oauth_codes SET used = 1 WHERE digest = ? AND used = 0 AND expires_us > ?',
                       (digest, now_us)).rowcount
    if first:
        require_active(tx, connection)
        return issue(tx, family, client_id, connection, resource, scopes.split(), now_us)
    if expires_us <= now_us and not used:
        raise invalid_grant('this code is unknown or too old')
    revoke_family(tx, family)
    return invalid_grant('this code was used before: what it was used for is revoked').as_dict()


def refresh(tx: Tx, form: Dict[str, str], now_us: int) -> dict:
    digest = access.digest(required(form, 'refresh_token'))
    row = tx.execute('SELECT family, client_id, connection, resource, scopes, retired_us FROM oauth_refresh '
                     'WHERE digest = ? AND expires_us > ?', (digest, now_us)).fetchone()
    if row is None or row[1] != form['client_id']:
        raise invalid_grant('this refresh token is unknown, revoked or too old')
    family, client_id, connection, resource, scopes, retired_us = row
    require_resource(form, resource)
    require_active(tx, connection)
    asked = form.get('scope', scopes).split()
    if not asked or not set(asked) <= set(scopes.split()):
        raise OAuthError('invalid_scope', f'this sign-in was granted {scopes}: for more, sign in again')
    if retired_us is None:
        tx.execute('UPDATE oauth_refresh SET retired_us = ? WHERE digest = ?', (now_us, digest))
        return issue(tx, family, client_id, connection, resource, scopes.split(), now_us, asked)
    if in_grace(retired_us, now_us):
        return access_answer(tx, family, connection, asked, now_us)
    revoke_family(tx, family)
    return invalid_grant('this refresh token was used before: everything of its sign-in is revoked').as_dict()


GRANTS = {'authorization_code': redeem, 'refresh_token': refresh}


def in_grace(retired_us: int, now_us: int) -> bool:
    return now_us - retired_us <= GRACE_S * 1_000_000


def issue(tx: Tx, family: str, client_id: str, connection: str, resource: str, scopes: Iterable[str], now_us: int,
          asked: Optional[Iterable[str]] = None) -> dict:
    """An access token (for the scopes asked) and the family's next refresh token (for all that were granted)."""
    answer = access_answer(tx, family, connection, scopes if asked is None else asked, now_us)
    token = secrets.token_urlsafe(oauth.SECRET_BYTES)
    tx.execute('INSERT INTO oauth_refresh VALUES (?, ?, ?, ?, ?, ?, NULL, ?)',
               (access.digest(token), family, client_id, connection, resource, ' '.join(scopes),
                now_us + REFRESH_TTL_S * 1_000_000))
    return dict(answer, refresh_token=token)


def access_answer(tx: Tx, family: str, connection: str, scopes: Iterable[str], now_us: int) -> dict:
    token = access.issue_access_token(tx, connection, scopes, now_us, ACCESS_TTL_S)
    tx.execute('INSERT INTO oauth_access VALUES (?, ?, ?)',
               (access.digest(token), family, now_us + ACCESS_TTL_S * 1_000_000))
    return {'access_token': token, 'token_type': 'Bearer', 'expires_in': ACCESS_TTL_S, 'scope': ' '.join(scopes)}


def revoke(tx: Tx, form: Dict[str, str]) -> None:
    """RFC 7009: an access or a refresh token of this client; its whole family goes. An unknown token is no error."""
    require_client(tx, form)
    digest = access.digest(required(form, 'token'))
    for family, client_id in family_of(tx, digest):
        if client_id == form['client_id']:
            revoke_family(tx, family)


def family_of(tx: Tx, digest: bytes) -> Iterable[Tuple[str, str]]:
    return tx.execute('SELECT DISTINCT r.family, r.client_id FROM oauth_refresh r WHERE r.digest = ? OR r.family = '
                      '(SELECT family FROM oauth_access WHERE digest = ?)', (digest, digest)).fetchall()


def revoke_family(tx: Tx, family: str) -> None:
    """From now on its access tokens are unknown: 401, and signing in again helps."""
    for (digest,) in tx.execute('SELECT digest FROM oauth_access WHERE family = ?', (family,)).fetchall():
        access.revoke_access_token(tx, digest)
    tx.execute('DELETE FROM oauth_access WHERE family = ?', (family,))
    tx.execute('DELETE FROM oauth_refresh WHERE family = ?', (family,))


def verifier_matches(challenge: str, verifier: str) -> bool:
    """S256 (RFC 7636): only who began the sign-in knows what hashes to its challenge."""
    digest = hashlib.sha256(verifier.encode('utf-8', 'surrogateescape')).digest()
    return secrets.compare_digest(base64.urlsafe_b64encode(digest).rstrip(b'=').decode(), challenge)


def require_resource(form: Dict[str, str], resource: str) -> None:
    if form.get('resource', resource).rstrip('/') != resource:
        raise OAuthError('invalid_target', f'this sign-in is for {resource}')


def require_active(tx: Tx, connection: str) -> None:
    """The owner's Revoke connection ends every sign-in of it; its access tokens stay known, and are refused by name."""
    if access.connection_row(tx, connection)['status'] != 'active':
        raise invalid_grant('the owner has revoked this connection: a person must connect again')


def required(form: Dict[str, str], name: str) -> str:
    if name not in form:
        raise OAuthError('invalid_request', f'{name} is missing')
    return form[name]


def invalid_grant(description: str) -> OAuthError:
    return OAuthError('invalid_grant', description)


def prune(tx: Tx, now_us: int) -> None:
    """A few expired rows at every issue, so that the tables stay as small as what is alive."""
    for (digest,) in tx.execute('SELECT digest FROM oauth_access WHERE expires_us <= ? LIMIT ?',
                                (now_us, PRUNED_AT_ONCE)).fetchall():
        access.revoke_access_token(tx, digest)
        tx.execute('DELETE FROM oauth_access WHERE digest = ?', (digest,))
    tx.execute('DELETE FROM oauth_refresh WHERE digest IN '
               '(SELECT digest FROM oauth_refresh WHERE expires_us <= ? LIMIT ?)', (now_us, PRUNED_AT_ONCE))
    tx.execute('DELETE FROM oauth_codes WHERE expires_us <= ?', (now_us - KEPT_S * 1_000_000,))
