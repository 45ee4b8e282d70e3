"""pages_owner.py - the owner's pages under /o/RANDOM/: the one-time link, the table of pages, and what a form does.

Article 6 calls it the key icon. A person arrives with the link that the server printed: looking at it shows a button
(previews and scanners fetch links too), pressing the button uses it up and sets the cookies. After that a page is a
function of PAGES, and a form is a click of owner.VERBS: the same functions that the scripted owner calls.

Not here: who the person is (owner.py), the pages (pages_connected.py and its sisters), a form's fields
(pages_forms.py).
"""
from typing import Callable, Dict, List, Tuple, Union
from urllib.parse import parse_qsl, unquote

import access
import owner
import pages
import pages_approval
import pages_articles
import pages_connected
import pages_content
import pages_forms
import pages_gitnest
import pages_notes
import pages_project
import workspace as workspaces
from pages import View
from tools import State
from versioned import Ref, Refusal
from wire import Request, Response

# --- data ---------------------------------------------------------------------

STATUS = {'owner_required': 401, 'forged_form': 403, 'role_too_low': 403, 'not_found': 404, 'gone': 404,
          'invalid_argument': 400, 'storage_busy': 503}           # any other: 409
Page = Callable[[View], Union[Tuple[str, str], Response]]         # its title and body; a download answers by itself
# The first part of the path: the least and the most parts that follow it, and the page.
PAGES: Dict[str, Tuple[int, int, Page]] = {
    '': (0, 0, pages_connected.home), 'connection': (1, 1, pages_connected.connection),
    'approval': (0, 1, pages_approval.approval), 'projects': (0, 0, pages_content.projects),
    'project': (1, 1, pages_content.project), 'knowledge_base': (1, 3, pages_articles.knowledge_base),
    'note': (1, 2, pages_notes.note), 'version': (2, 2, pages_notes.version), 'file': (2, 2, pages_notes.file),
    'download': (2, 2, pages_notes.download), 'events': (2, 2, pages_content.events),
    'record_channel': (1, 2, pages_project.record_channel), 'channel': (1, 2, pages_project.channel),
    'room': (1, 1, pages_project.room), 'repository': (1, 2, pages_gitnest.repository),
    'session': (1, 1, pages_project.session), 'people': (0, 0, pages_project.people),
}
STALE = ('Not saved: somebody saved this in between. It is shown as it is now; what you wrote is still in the form. '
         'Put right what needs it, then save again.')
NOT_PUT_BACK = ('Not put back: somebody saved this article in between. Look at it as it is now; if the old text is '
                'still right, put it back then.')
NO_STORE = (('Cache-Control', 'no-store'), ('Referrer-Policy', 'no-referrer'))

# --- rules --------------------------------------------------------------------

def link_parts(path: str) -> Tuple[str, str]:
    """'/o/RANDOM/enter/SECRET' -> ('/o/RANDOM/', 'SECRET'); ('', '') for every other path."""
    parts = path.split('/')
    return (owner.page_base(path), parts[4]) if len(parts) == 5 and parts[3] == 'enter' else ('', '')


def path_parts(path: str) -> List[str]:
    """'/o/RANDOM/note/n%201' -> ['note', 'n 1']."""
    return [unquote(part, errors='replace') for part in path.split('/')[3:] if part]


def find_page(parts: List[str]) -> Page:
    name, rest = (parts[0], len(parts) - 1) if parts else ('', 0)
    least, most, function = PAGES.get(name, (1, 0, pages_connected.home))
    if not least <= rest <= most:
        raise Refusal('not_found', 'there is nothing at this address')
    return function


def said(refusal: Refusal, verb: str = '') -> str:
    """A refusal for a person's eyes."""
    if refusal.code == 'stale_version':
        return NOT_PUT_BACK if verb == 'put_article_back' else STALE
    return pages.sentence(str(refusal))


def page_back(back: str) -> Tuple[List[str], Dict[str, str]]:
    """What a form says of its page, 'note/n%201?after=x' -> (['note', 'n 1'], {'after': 'x'})."""
    path, _, query = back.partition('?')
    return [unquote(part) for part in path.split('/') if part], dict(parse_qsl(query, errors='replace'))


# --- I/O ----------------------------------------------------------------------

def view_of(state: State, request: Request, parts: List[str]) -> View:
    """The person behind the request and what the frame shows. Raises owner_required."""
    with state.db.read() as tx:
        session = owner.page_session(tx, request, state.now_us())
        mine = workspaces.workspaces_of(tx, session.person)
        if not mine:
            raise Refusal('not_found', 'you are in no workspace any more: its owner can add you again')
        waiting = pages_approval.waiting_count(tx, session.person, state.now_us())
        about = Ref(*parts[:2]) if len(parts) > 1 and parts[0] in pages_content.KINDS else None
        may_change = about is None or access.role_of(tx, session.person, about) >= workspaces.EDITOR
        name = workspaces.person_name(tx, session.person)
    workspace, workspace_name, role = next((one for one in mine if one[0] == session.workspace), mine[0])
    others = {one: words for one, words, _ in mine if one != workspace}
    return View(state, session, name, workspace, workspace_name, others, role >= workspaces.EDITOR, waiting,
                state.now_us(), parts, dict(parse_qsl(request.query, errors='replace')), may_change=may_change)


def show(state: State, request: Request) -> Response:
    base, secret = link_parts(request.path)
    try:
        if base:
            return show_link(state, base, secret)
        return shown(view_of(state, request, path_parts(request.path)))
    except Refusal as refusal:
        return refused(state, request, refusal)


def shown(view: View, status: int = 200) -> Response:
    found = find_page(list(view.parts))(view)
    return found if isinstance(found, Response) else pages.owner_page(view, *found, status)


def post(state: State, request: Request) -> Response:
    base, secret = link_parts(request.path)
    try:
        if base:
            return enter(state, base, secret)
        parts = path_parts(request.path)
        if len(parts) != 2 or parts[0] != 'do':
            raise Refusal('not_found', 'there is nothing at this address')
        sent = pages_forms.read(request)
        parts_back, query = page_back(sent.fields.get('back', ''))
        view = view_of(state, request, parts_back)._replace(query=query)
        owner.require_form_token(view.session.secret, parts[1], sent.fields.get('form_token', ''))
    except Refusal as refusal:
        return refused(state, request, refusal)
    return clicked(view, parts[1], sent)


def clicked(view: View, verb: str, sent: pages_forms.Sent) -> Response:
    """Run the click; on to its page, or this page again with what was refused and what was typed."""
    state, person = view.state, view.session.person
    try:
        if verb == 'show_workspace':                       # of this session, so no click of owner.VERBS
            with state.db.write() as tx:
                owner.show_workspace(tx, view.session, sent.fields.get('workspace', ''))
            return Response(303, (('Location', view.session.base), *NO_STORE), b'')
        answer = owner.run(state, person, verb, pages_forms.arguments(state, view.workspace, verb, sent))
    except Refusal as refusal:
        return again(view._replace(problem=said(refusal, verb), refused=verb, sent=sent.fields), refusal)
    if verb == 'open_link':
        return pages.owner_page(view, f'A link for {answer["name"]}', pages_project.opened_link(view, answer))
    if verb == 'sign_out':
        return pages.message(200, 'Signed out', 'Start the server again for a new link.')
    return Response(303, (('Location', landing(view, verb, sent, answer)), *NO_STORE), b'')


def again(view: View, refusal: Refusal) -> Response:
    status = STATUS.get(refusal.code, 409)
    try:
        return shown(view, status)
    except Refusal:                                        # the page itself is out of reach now
        return pages.owner_page(view, 'That did not work', '', status)


def landing(view: View, verb: str, sent: pages_forms.Sent, answer: dict) -> str:
    """The page that shows what came of the click; else the one it came from."""
    if verb in ('save_article', 'put_article_back'):
        return pages.at(view, 'knowledge_base', sent.fields['knowledge_base_id'], answer['citation']['article_id'])
    if verb in pages_forms.LANDINGS:
        name, *members = pages_forms.LANDINGS[verb]
        return pages.at(view, name, *(str(answer[member]) for member in members))
    if verb == 'post_message':                             # the newest page, where it stands
        return pages.at(view, *view.parts)
    return pages.at(view, *(view.parts[:2] if verb == 'delete_record' else view.parts)) + pages.query_of(view)


def show_link(state: State, base: str, secret: str) -> Response:
    with state.db.read() as tx:
        owner.find_link(tx, base, secret, state.now_us())
    return pages.page(200, 'Open your workspace', '<p>This link works once, in this browser.</p>'
                      '<form method="post"><button class="first">Open</button></form>')


def enter(state: State, base: str, secret: str) -> Response:
    with state.db.write() as tx:
        page, consent = owner.use_link(tx, base, secret, state.now_us())
    secure = state.config.base_url.startswith('https:')
    return Response(303, (('Location', base), *NO_STORE, *owner.cookie_headers(base, page, consent, secure)), b'')


def refused(state: State, request: Request, refusal: Refusal) -> Response:
    """A page that says what happened; inside the frame when we know the person."""
    status, title = STATUS.get(refusal.code, 409), 'That did not work'
    try:
        view = view_of(state, request, ['refused'])        # a part that is in no navigation
        return pages.owner_page(view._replace(problem=said(refusal)), title, '', status)
    except Refusal:
        return pages.message(status, title, said(refusal))


ROUTES: Dict[Tuple[str, str], Callable[[State, Request], Response]] = {
    ('GET', owner.PAGES + '*'): show, ('POST', owner.PAGES + '*'): post}
