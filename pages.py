"""pages.py - what every page is made of: the frame, the look, words from outside as text, forms, times.

Article 6 describes the owner's screen; ours is plain HTML from the server, without JavaScript: light and dark, phone
width, keyboard. Everything that came from somebody is escaped and isolated (<bdi>): markup, scripts and right-to-left
text are shown as text.

Not here: the pages themselves (pages_connected.py, pages_approval.py, pages_content.py, pages_articles.py,
pages_notes.py, pages_project.py, pages_gitnest.py, pages_consent.py), their routes (pages_owner.py), who may see a page
(owner.py), what a click does (owner_verbs.py and its sisters).
"""
import base64
import hashlib
import html
import json
from datetime import timedelta
from itertools import groupby, islice
from typing import Any, Callable, Dict, Iterable, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import quote, urlencode

import versioned
from owner import Session, form_token
from tools import State
from wire import Response

# --- data ---------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --ink: #1c2127; --soft: #4f5863; --line: #ccd2d9; --ground: #f4f5f7; --card: #ffffff;
  --accent: #1a56b0; --on-accent: #ffffff; --bad: #9c2118; --bad-ground: #fdecea; --good: #17623a;
  --good-ground: #e6f4ec; --note: #7a4b00; --note-ground: #fdf3dd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a9b2bd; --line: #3b444e; --ground: #14181c;
  --card: #1d2328; --accent: #8ab4f8; --on-accent: #10151a; --bad: #f6a49b; --bad-ground: #3a1f1c; --good: #86d3a5;
  --good-ground: #173024; --note: #efc87a; --note-ground: #33290f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main, nav ul, header p { max-width: 52rem; margin: 0 auto; padding: 1.25rem 1rem 4rem; overflow-wrap: anywhere; }
header { background: var(--card); border-bottom: 1px solid var(--line); }
header p { padding: .5rem 1rem 0; color: var(--soft); font-size: .9rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .15rem 1.25rem; list-style: none; padding: .35rem 1rem .6rem; }
nav a { color: var(--ink); text-decoration: none; display: inline-block; padding: .3rem 0;
  border-bottom: 2px solid transparent; }
nav a[aria-current] { border-color: var(--accent); font-weight: 600; } nav a:hover { text-decoration: underline; }
a { color: var(--accent); } h1 { font-size: 1.5rem; line-height: 1.25; margin: .25rem 0 1rem;
  text-align: left; }
h2, legend { font-size: 1.05rem; font-weight: 600; margin: 0 0 .5rem; padding: 0; } h3 { font-size: 1rem; margin: 0; }
p, ul, ol, form { margin: 0 0 .75rem; } ul, ol { padding-left: 1.35rem; }
section > :last-child, section > details > :last-child, fieldset > :last-child, li > :last-child, .between > form,
.row > form { margin-bottom: 0; } li > .between { margin-bottom: .35rem; } label + button { margin-top: .5rem; }
main nav ul { padding: .35rem 0 .6rem; }
.card, fieldset { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem;
  margin: 0 0 1rem; min-width: 0; }
fieldset legend { float: left; width: 100%; } fieldset legend + * { clear: both; }
fieldset fieldset { border: 0; padding: 0; margin: 0 0 .75rem; }
label { display: flex; gap: .6rem; align-items: baseline; padding: .25rem 0; }
.field { display: block; margin: 0 0 .75rem; } .field > span { display: block; font-size: .92rem; color: var(--soft); }
input[type=radio], input[type=checkbox] { flex: none; width: 1.05rem; height: 1.05rem; accent-color: var(--accent);
  position: relative; top: .15rem; margin: 0; }
input[type=text], input[type=number], select, textarea { font: inherit; color: inherit; background: var(--ground);
  border: 1px solid var(--soft); border-radius: .35rem; padding: .4rem .55rem; width: 100%; max-width: 100%; }
select, .short input { width: auto; min-width: 10rem; } textarea { resize: vertical; display: block; }
button, .button { font: inherit; padding: .45rem 1rem; border-radius: .4rem; border: 1px solid var(--accent);
  cursor: pointer; background: var(--card); color: var(--accent); text-decoration: none; display: inline-block; }
button.first { background: var(--accent); color: var(--on-accent); }
button.bad { border-color: var(--bad); color: var(--bad); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.row { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; } .row > .field { margin: 0; }
.between { display: flex; flex-wrap: wrap; gap: .35rem 1rem; justify-content: space-between; align-items: center; }
.soft { color: var(--soft); } .problem, .notice { border-radius: .4rem; padding: .6rem .8rem; margin: 0 0 1rem; }
.problem { background: var(--bad-ground); color: var(--bad); }
.notice { background: var(--note-ground); color: var(--note); }
.tag { font-size: .85rem; border-radius: 1rem; padding: .05rem .6rem; border: 1px solid var(--line); color: var(--soft);
  white-space: nowrap; } .tag.good { color: var(--good); background: var(--good-ground); border-color: transparent; }
.tag.bad { color: var(--bad); background: var(--bad-ground); border-color: transparent; }
.tag.note { color: var(--note); background: var(--note-ground); border-color: transparent; }
.scroll { overflow-x: auto; margin: 0 0 .75rem; }
table { border-collapse: collapse; width: max-content; min-width: 100%; font-size: .95rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); font-size: .88rem; white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
td { overflow-wrap: break-word; max-width: min(24rem, 70vw); }       /* words stay whole; a wide table scrolls alone */
.plain { list-style: none; padding: 0; }
.plain > li { padding: .5rem 0; border-bottom: 1px solid var(--line); } .plain > li:last-child { border-bottom: 0; }
pre, .text { font: .92em/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  margin: 0 0 .75rem; max-height: 40rem; overflow-y: auto; } .text { font-family: inherit; font-size: 1em; }
code { font: .92em/1.4 ui-monospace, monospace; } pre ins, pre del { display: block; text-decoration: none; }
pre ins { background: var(--good-ground); color: var(--good); }
pre del { background: var(--bad-ground); color: var(--bad); } .copy { user-select: all; }   /* one click takes it all */
.inline form { display: flex; flex-wrap: wrap; gap: .6rem; align-items: flex-end; }
.inline .field { margin: 0; padding: 0; flex: 1 1 8rem; max-width: 18rem; }
.inline select { width: 100%; min-width: 0; }
.inline form { margin: 0 0 .75rem; } .inline:last-child form:last-child { margin: 0; }
.state { font-size: 1rem; display: inline-block; white-space: normal; border-radius: .4rem; padding: .15rem .6rem; }
details > summary { cursor: pointer; color: var(--accent); } details[open] > summary { margin-bottom: .6rem; }
.tools { columns: 17rem; } .tools label { break-inside: avoid; } time { white-space: nowrap; }
.skip { position: absolute; left: -60rem; } .skip:focus { position: static; }
"""
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'"
HEADERS = (('Content-Type', 'text/html; charset=utf-8'), ('X-Frame-Options', 'DENY'), ('Cache-Control', 'no-store'),
           ('Referrer-Policy', 'no-referrer'), ('X-Content-Type-Options', 'nosniff'))
NAVIGATION = (('', 'Connected agents'), ('approval', 'Needs your approval'), ('projects', 'Projects'),
              ('people', 'People'))
# Pages that a section leads to; any other belongs to the one of its own name.
SECTIONS = {'connection': '', **dict.fromkeys((
    'project', 'knowledge_base', 'note', 'version', 'file', 'events', 'record_channel', 'channel', 'room', 'repository',
    'session'), 'projects')}
OWN_FORMS = POLICY + "; form-action 'self'"
ONES_OWN = ('drop_draft', 'show_workspace', 'sign_out')           # clicks that need no right to the item of the page
A_PAGE = 50                               # lines of a long list


class View(NamedTuple):
    """One page for one person, now."""
    state: State
    session: Session
    name: str                             # the person's
    workspace: str
    workspace_name: str
    others: Dict[str, str]                # the person's other workspaces, id to name
    may_edit: bool                        # in the workspace; on the item that the page is about: may_change
    waiting: int                          # proposals that need this person
    now_us: int
    parts: Sequence[str] = ()             # the path below the session's, decoded
    query: Dict[str, str] = {}
    problem: str = ''                     # what was refused when a form of this page was sent
    refused: str = ''                     # which click that was
    sent: Dict[str, str] = {}             # and what its form held, so that nobody types twice: typed
    may_change: bool = True               # the item that the page is about; who may not is shown no form


# --- rules --------------------------------------------------------------------

def text(value: Any) -> str:
    """Somebody's words: as text, and in a direction of their own."""
    return f'<bdi>{html.escape(str(value))}</bdi>'


def page(status: int, title: str, body: str, header: str = '', policy: str = OWN_FORMS) -> Response:
    document = ('<!doctype html><html lang="en"><head><meta charset="utf-8">'
                '<meta name="viewport" content="width=device-width, initial-scale=1">'
                f'<title>{html.escape(title)} - osFoundry</title><style>{STYLE}</style></head>'
                f'<body>{header}<main id="main"><h1 dir="auto">{html.escape(title)}</h1>{body}</main></body></html>')
    return Response(status, (*HEADERS, ('Content-Security-Policy', policy)), document.encode('utf-8', 'replace'))


def message(status: int, title: str, words: str) -> Response:
    return page(status, title, f'<p>{html.escape(words)}</p>')


def owner_page(view: View, title: str, body: str, status: int = 200) -> Response:
    here = view.parts[0] if view.parts else ''
    links = ''.join(f'<li><a href="{at(view, place) if place else view.session.base}"'
                    f'{current(place == SECTIONS.get(here, here), len(view.parts) < 2)}>{words}'
                    f'{f" ({view.waiting})" if place == "approval" and view.waiting else ""}</a></li>'
                    for place, words in NAVIGATION)
    header = (f'<a class="skip" href="#main">Skip to the page</a><header><p>{text(view.workspace_name)}, as '
              f'{text(view.name)}</p><nav aria-label="Pages"><ul>{links}</ul></nav></header>')
    return page(status, title, problem_line(view.problem) + body, header)


def current(here: bool, this_page: bool = True) -> str:
    """The mark on the page that is shown, or on the section that it belongs to."""
    return f' aria-current="{"page" if this_page else "true"}"' if here else ''


def problem_line(problem: str) -> str:
    return f'<p class="problem" role="alert">{html.escape(problem)}</p>' if problem else ''


def sentence(words: str) -> str:
    """'the owner has ...' -> 'The owner has ....'"""
    return words[:1].upper() + words[1:] + ('' if words.endswith('.') else '.')


def at(view: View, *segments: str) -> str:
    """The address of a page of this session."""
    return view.session.base + '/'.join(quote(segment, safe='') for segment in segments)


def query_of(view: View) -> str:
    """Which part of a long list the page shows, so that a click leads back to it."""
    return '?' + urlencode(view.query) if view.query else ''


def link(view: View, words: Any, *segments: str) -> str:
    return f'<a href="{at(view, *segments)}">{text(words)}</a>'


def hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'


def form(view: View, verb: str, inner: str, button: str, style: str = '', files: bool = False,
         **constants: str) -> str:
    """A form for one click. It comes back to this page, and is bound to this session and this click. '' for whoever
    may only look: what a form holds, the page then shows as text. `files`: it holds a field for one."""
    if not view.may_change and verb not in ONES_OWN:
        return ''
    fields = ''.join(hidden(name, value) for name, value in constants.items())
    back = '/'.join(quote(part, safe='') for part in view.parts) + query_of(view)
    how = ' enctype="multipart/form-data"' if files else ''
    return (f'<form method="post" action="{at(view, "do", verb)}"{how}>'
            f'{hidden("form_token", form_token(view.session.secret, verb))}{hidden("back", back)}{fields}{inner}'
            f'<button{f" class={style}" if style else ""}>{html.escape(button)}</button></form>')


def is_refused(view: View, verb: str, **constants: str) -> bool:
    """Whether this form was sent and refused just now. `constants` tell it from the others for the same click."""
    return view.refused == verb and constants.items() <= view.sent.items()


def typed(view: View, verb: str, name: str, before: str = '', **constants: str) -> str:
    """What a field of a form begins with: what was typed into it, when that was refused."""
    return view.sent.get(name, before) if is_refused(view, verb, **constants) else before


def field(label: str, name: str, value: str = '', kind: str = 'text', more: str = 'required') -> str:
    return (f'<label class="field"><span>{html.escape(label)}</span><input type="{kind}" name="{html.escape(name)}" '
            f'value="{html.escape(value)}" dir="auto" autocomplete="off" {more}></label>')


def area(label: str, name: str, value: str, rows: int = 8) -> str:
    # The line feed after the tag is not part of the value: without it a text that begins with one would lose it.
    return (f'<label class="field"><span>{html.escape(label)}</span><textarea name="{html.escape(name)}" rows="{rows}" '
            f'dir="auto">\n{html.escape(value, quote=False)}</textarea></label>')


def checkbox(label: str, name: str, on: bool = False, more: str = '') -> str:
    return (f'<label><input type="checkbox" name="{html.escape(name)}" value="yes"{" checked" if on else ""}{more}>'
            f'<span>{html.escape(label)}</span></label>')


def file_field(label: str, name: str) -> str:
    return (f'<label class="field"><span>{html.escape(label)}</span>'
            f'<input type="file" name="{html.escape(name)}"></label>')


def select(label: str, name: str, options: Iterable[Tuple[str, str]], chosen: str = '') -> str:
    lines = ''
    for value, words in options:
        mark = ' selected' if value == chosen else ''
        lines += f'<option value="{html.escape(value)}"{mark}>{html.escape(words)}</option>'
    return (f'<label class="field"><span>{html.escape(label)}</span>'
            f'<select name="{html.escape(name)}">{lines}</select></label>')


def card(title: str, *inner: str) -> str:
    """A part of a page; no part when there is nothing in it."""
    words = ''.join(inner)
    return f'<section class="card"><h2>{html.escape(title)}</h2>{words}</section>' if words else ''


def between(left: str, right: str) -> str:
    """Two things at the two ends of a line; one below the other on a phone."""
    return f'<div class="between">{left}{right}</div>'


def inline(*forms: str) -> str:
    """Short forms: each field beside its button, where there is room."""
    words = ''.join(forms)
    return f'<div class="inline">{words}</div>' if words else ''


def details(summary: str, inner: str, is_open: bool = False) -> str:
    opened = ' open' if is_open else ''
    return f'<details{opened}><summary>{html.escape(summary)}</summary>{inner}</details>' if inner else ''


def tag(words: str, style: str = '') -> str:
    return f'<span class="tag {style}">{html.escape(words)}</span>'


def soft(words: str) -> str:
    return f'<p class="soft">{html.escape(words)}</p>'


def nothing(view: View, words: str, then: str) -> str:
    """An empty list, and for whoever may what to do next."""
    return soft(f'{words} {then}' if view.may_change else words)


def listed(lines: Sequence[str], empty: str) -> str:
    """A list, or what to do next when there is nothing."""
    return f'<ul class="plain">{"".join(f"<li>{line}</li>" for line in lines)}</ul>' if lines else soft(empty)


def dated(view: View, stamp: Any, *segments: str) -> str:
    """A time that leads to what happened then."""
    return f'<a href="{at(view, *segments)}">{when(stamp, view.now_us)}</a>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> str:
    head = ''.join(f'<th scope="col">{html.escape(one)}</th>' for one in heads)
    body = ''.join(f'<tr>{"".join(f"<td>{cell}</td>" for cell in row)}</tr>' for row in rows)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(label)}">'
            f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def block(words: str) -> str:
    """A longer text, its line ends kept."""
    return f'<div class="text" dir="auto" tabindex="0">{html.escape(words)}</div>'


def a_page(view: View, rows: Sequence[Any], key: Callable[[Any], str], name: str = 'after',
           may_see: Optional[Callable[[Any], bool]] = None) -> Tuple[list, Optional[str]]:
    """(what this page shows of a long list, the key that the next page begins after). Whether a row may be seen is
    asked of those that are shown alone. A key that is there no more begins at the beginning."""
    asked = view.query.get(name)
    begin = next((place + 1 for place, row in enumerate(rows) if key(row) == asked), 0)
    shown = list(islice(filter(may_see, rows[begin:]), A_PAGE + 1))
    return shown[:A_PAGE], key(shown[A_PAGE - 1]) if len(shown) > A_PAGE else None


def more(after: Optional[str], words: str = 'Next page', name: str = 'after') -> str:
    """The way to the rest of a long list."""
    return f'<p><a href="?{name}={quote(after, safe="")}">{html.escape(words)}</a></p>' if after else ''


def coloured(lines: Iterable[str]) -> str:
    """Lines with '+', '-' or ' ' in front; added and removed ones also by colour, never by colour alone."""
    shown = []
    for mark, group in groupby(lines, lambda line: {'+': 'ins', '-': 'del'}.get(line[:1])):
        words = html.escape('\n'.join(group))
        shown.append(f'<{mark}>{words}</{mark}>' if mark else words + '\n')
    return f'<pre tabindex="0">{"".join(shown)}</pre>'


def when(stamp: Any, now_us: int) -> str:
    """A version or an instant as people read it: how long ago today, the date before that."""
    at_us = stamp if isinstance(stamp, int) else versioned.parse_stamp(stamp)
    seconds = (now_us - at_us) // 1_000_000
    exact = versioned.stamp_text(at_us)
    return f'<time datetime="{exact}" title="{exact}">{ago(seconds, at_us)}</time>'


def ago(seconds: int, at_us: int) -> str:
    if 0 <= seconds < 60:
        return 'just now'
    if 0 <= seconds < 3600:
        return f'{seconds // 60} min ago'
    if 0 <= seconds < 86_400:
        return f'{seconds // 3600} h ago'
    moment = versioned.EPOCH + timedelta(microseconds=at_us)
    return f'{moment.day} {moment:%b %Y, %H:%M} UTC'


def value_text(value: Any) -> str:
    """A value of a cell or a field, as a person writes it."""
    return '' if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
