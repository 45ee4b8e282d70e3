"""runs_person.py - the scripted person at the browser: opens the owner's link, reads the consent page, decides.

Article 6, step 3, and article 7, "Cosa dice di sé il server di autorizzazione?": the one leg of the sign-in that
waits for a person. The pages are fetched and their form is read as a browser reads it: what the page does not offer
cannot be chosen.

    claude = host.Host(url, at_the_page(here, open_owner_link(here), 'Use pending: Claude research'))

demo only. Not here: the page (pages_consent.py), its checks (signin.py); a real browser clicks through it in
tests/interop/.
"""
import html.parser
import os
import re
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import urlencode, urljoin, urlsplit

import host_signin
import owner
from host_signin import Door, Reply, SignInError, Trip, Visit
from runs_stage import Stage

# --- data ---------------------------------------------------------------------

FORM_TYPE = 'application/x-www-form-urlencoded'
HOPS = 5                                  # redirects a browser would follow here


class Choice(NamedTuple):
    """One input of the page's form, with the text beside it."""
    kind: str                             # 'radio', 'checkbox', 'hidden'
    name: str
    value: str
    checked: bool
    text: str


class ConsentPage(html.parser.HTMLParser):
    """The page's headline, its text, its list of capabilities and its inputs."""

    def __init__(self, body: bytes):
        super().__init__()
        self.title, self.text = '', ''
        self.capabilities: List[str] = []
        self.choices: List[Choice] = []
        self._inside: List[str] = []
        self.feed(body.decode('utf-8'))

    def handle_starttag(self, tag: str, attributes: List[Tuple[str, Optional[str]]]) -> None:
        found: Dict[str, Any] = dict(attributes)
        if tag == 'input':
            self.choices.append(Choice(found.get('type', 'text'), found['name'], found.get('value', ''),
                                       'checked' in found, ''))
        else:
            self._inside.append(tag)
            self.capabilities += [''] if tag == 'li' else []

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        if 'h1' in self._inside:
            self.title += data
        if 'li' in self._inside:
            self.capabilities[-1] += data
        if 'label' in self._inside and self.choices:
            self.choices[-1] = self.choices[-1]._replace(text=self.choices[-1].text + data)


# --- rules --------------------------------------------------------------------

def filled_in(page: ConsentPage, connection: str) -> Dict[str, str]:
    """The form as this person sends it: what was preselected or hidden, the connection by its text, the tick."""
    form = {choice.name: choice.value for choice in page.choices if choice.kind == 'hidden' or choice.checked}
    form['connection'] = the_connection(page, connection).value
    form.update({choice.name: choice.value for choice in page.choices if choice.kind == 'checkbox'}, decision='connect')
    return form


def the_connection(page: ConsentPage, wanted: str) -> Choice:
    for choice in page.choices:
        if choice.name == 'connection' and choice.text.strip() == wanted:
            return choice
    raise SignInError('http', f'the consent page does not offer the connection {wanted!r}')


# --- I/O ----------------------------------------------------------------------

def open_owner_link(here: Stage) -> Dict[str, str]:
    """Press the button behind the one-time link; the session's cookies by name."""
    with open(os.path.join(here.folder, owner.LINK_FILE), encoding='ascii') as file:
        link = file.read().strip()
    host_signin.fetch('GET', link, {})                       # shows the button, uses nothing up
    reply = host_signin.fetch('POST', link, {'Content-Type': FORM_TYPE, 'Origin': here.base_url}, b'')
    names = '|'.join((owner.PAGE_COOKIE, owner.CONSENT_COOKIE))
    cookies = dict(re.findall(rf'\b({names})=([A-Za-z0-9_-]+)', reply.headers.get('set-cookie', '')))
    if owner.CONSENT_COOKIE not in cookies:
        raise SignInError('http', f'the owner\'s link answered {reply.status} and set no cookie')
    return cookies


def at_the_page(here: Stage, cookies: Dict[str, str], connection: str,
                pages: Optional[List[ConsentPage]] = None) -> Door:
    """The door of a host whose person sits before the consent page. Each page seen is put into `pages`."""
    @contextmanager
    def door(trips: List[Trip]) -> Iterator[Tuple[str, Visit]]:
        def visit(url: str) -> str:
            shown, reply = browse(url, cookies, trips)
            page = ConsentPage(reply.body)
            if pages is not None:
                pages.append(page)
            form = urlencode(filled_in(page, connection)).encode()
            headers = {'Content-Type': FORM_TYPE, 'Origin': here.base_url, **cookie_header(cookies)}
            decided = host_signin.fetch('POST', shown, headers, form, trips)
            if decided.status != 303:
                raise SignInError('http', f'the consent page answered {decided.status} to its form')
            return decided.headers['location']
        yield host_signin.CALLBACK, visit
    return door


def browse(url: str, cookies: Dict[str, str], trips: List[Trip]) -> Tuple[str, Reply]:
    """GET with this person's cookies, following redirects as a browser does; (the address reached, the page)."""
    for _ in range(HOPS):
        sent = cookie_header(cookies) if urlsplit(url).path == owner.CONSENT else {}
        reply = host_signin.fetch('GET', url, {'Accept': 'text/html', **sent}, None, trips)
        if reply.status == 200:
            return url, reply
        if reply.status not in (302, 303):
            break
        url = urljoin(url, reply.headers['location'])
    raise SignInError('http', f'{urlsplit(url).path} answered {reply.status} instead of the consent page')


def cookie_header(cookies: Dict[str, str]) -> Dict[str, str]:
    """Only the cookie whose Path is the consent page's: a browser would send no other there."""
    return {'Cookie': f'{owner.CONSENT_COOKIE}={cookies[owner.CONSENT_COOKIE]}'}
