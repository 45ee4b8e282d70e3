"""pages_owner.py - the owner's pages under /o/RANDOM/: the one-time link, and the way to every other page.

Article 6 calls it the key icon. A person arrives with the link that the server printed: looking at it shows a button
(previews and scanners fetch links too), pressing the button uses it up and sets the cookies.

Not here: who the person is (owner.py), the frame and the consent page (pages.py).
"""
from typing import Callable, Dict, Tuple

import owner
import pages
from tools import State
from versioned import Refusal
from wire import Request, Response

# --- data ---------------------------------------------------------------------

STATUS = {'owner_required': 401, 'forged_form': 403, 'role_too_low': 403, 'not_found': 404}     # any other: 409

# --- rules --------------------------------------------------------------------

def link_parts(path: str) -> Tuple[str, str]:
    """'/o/RANDOM/enter/SECRET' -> ('/o/RANDOM/', 'SECRET'); ('', '') for every other path."""
    parts = path.split('/')
    return (f'/o/{parts[2]}/', parts[4]) if len(parts) == 5 and parts[3] == 'enter' else ('', '')


# --- I/O ----------------------------------------------------------------------

def show(state: State, request: Request) -> Response:
    base, secret = link_parts(request.path)
    try:
        if base:
            return show_link(state, base, secret)
        with state.db.read() as tx:
            session = owner.page_session(tx, request, state.now_us())
        return pages.message(200, 'Connected agents', f'Signed in as {session.person}.')
    except Refusal as refusal:
        return refused(refusal)


def post(state: State, request: Request) -> Response:
    base, secret = link_parts(request.path)
    try:
        if base:
            return enter(state, base, secret)
        raise Refusal('not_found', 'there is nothing at this address')
    except Refusal as refusal:
        return refused(refusal)


def show_link(state: State, base: str, secret: str) -> Response:
    with state.db.read() as tx:
        owner.find_link(tx, base, secret, state.now_us())
    return pages.page(200, 'Open your workspace', '<p>This link works once, in this browser.</p>'
                      '<form method="post"><button class="first">Open</button></form>')


def enter(state: State, base: str, secret: str) -> Response:
    with state.db.write() as tx:
        page, consent = owner.use_link(tx, base, secret, state.now_us())
    secure = state.config.base_url.startswith('https:')
    return Response(303, (('Location', base), ('Cache-Control', 'no-store'), ('Referrer-Policy', 'no-referrer'),
                          *owner.cookie_headers(base, page, consent, secure)), b'')


def refused(refusal: Refusal) -> Response:
    words = str(refusal)
    return pages.message(STATUS.get(refusal.code, 409), 'That did not work', words[:1].upper() + words[1:] + '.')


ROUTES: Dict[Tuple[str, str], Callable[[State, Request], Response]] = {('GET', '/o/*'): show, ('POST', '/o/*'): post}
