"""server.py - routes, state and main: the connector of articles 4 to 7 as one process.

    python3 server.py --demo                  a small workspace to play with; prints the owner's one-time link
    python3 server.py --kb DOCS --repo SITE.git      serves a folder of articles and proposes to your repository
    python3 server.py --demo --self-consent   WEAKENED, for the scripted runs (client.py): consent needs no person

The endpoint is http://127.0.0.1:8767/api/v1/external-mcp, until Ctrl-C. Exit status: 0 stopped, 1 it cannot start, 2
usage.

Before every route stand two gates: a Host that is not ours gets 421, a foreign Origin 403; a page on another site could
otherwise reach a server on the reader's own machine (DNS rebinding). Then the table of routes: (method, path), where a
path that ends in /* takes everything below it. A method without an entry gets 405 with Allow, before any sign-in.
Errors become HTTP here and nowhere else. Two servers may share one DATA folder.

Not here: sockets (wire.py), JSON-RPC (mcp.py), the routes of sign-in (signin.py), of the owner (owner.py,
pages_owner.py), what a call may do (tools.py, access.py).
"""
import argparse
import io
import os
import re
import resource
import signal
import sqlite3
import stat
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import urlsplit

import access
import activity
import catalogue
import gitnest
import gitnest_proposals
import channel_store
import demo
import kb_folder
import kb_store
import mcp
import note_folder
import note_store
import oauth
import oauth_tokens
import owner
import owner_gitnest
import pages_owner
import proposal_intake
import record_store
import repositories
import retention
import rooms
import session_store
import signin
import tools
import wire
import workspace
from versioned import Database, Ref, Refusal
from wire import Request, Response

# --- data ---------------------------------------------------------------------

SCHEMAS = (workspace.SCHEMA, access.SCHEMA, activity.SCHEMA, owner.SCHEMA, oauth.SCHEMA, oauth_tokens.SCHEMA,
           kb_store.SCHEMA, kb_folder.SCHEMA, note_store.SCHEMA, rooms.SCHEMA, proposal_intake.SCHEMA,
            gitnest.SCHEMA, gitnest_proposals.SCHEMA,
           record_store.SCHEMA, channel_store.SCHEMA, session_store.SCHEMA)
DAY_S = 24 * 3600
BASE_URL = re.compile(r'https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?/?')     # it goes into headers
LOOPBACK = ('127.0.0.1', 'localhost', '::1')
DEFAULT_PORT = {'http': 80, 'https': 443}
SPARE_DESCRIPTORS = 128             # files of the state, git and its pipes
KB = Ref('knowledge_base', 'kb')    # of --kb; its project has the same id


class Config(NamedTuple):
    """The flags, under their names."""
    port: int = 8767
    host: str = '127.0.0.1'
    data: str = 'data'
    base_url: str = ''              # as the world sees us; empty: http://HOST:PORT
    kb: Optional[str] = None
    notes: Optional[str] = None
    repo: Optional[str] = None
    ttl: float = 7 * DAY_S          # seconds a proposal waits for the owner
    git: str = 'pack'
    demo: bool = False              # the rest only with it
    check: str = 'per_call'
    mode: str = 'cas'
    self_consent: bool = False
    inject_crash: bool = False


Route = Callable[[tools.State, Request], Response]
Routes = Dict[Tuple[str, str], Route]

# What browsers may call from another page: nothing there looks at a cookie.
SHARED = (mcp.ENDPOINT, mcp.METADATA, '/.well-known/oauth-protected-resource',
          '/.well-known/oauth-authorization-server', '/.well-known/openid-configuration',
          *(oauth.ISSUED_UNDER + name for name in ('token', 'register', 'revoke')))
ALLOWED_HEADERS = ('Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, '
                   'Mcp-Session-Id, Last-Event-ID')
STATUS = {'unauthorized': 401, 'owner_required': 401, 'agent_scope_denied': 403, 'forged_form': 403,
          'role_too_low': 403, 'not_found': 404, 'invalid_argument': 400,
          'storage_busy': 503, 'storage_unusable': 503,
          owner_gitnest.INJECTED: 500}     # of a refusal outside the endpoint; any other: 409
JSON = (('Content-Type', 'application/json'), ('Cache-Control', 'no-store'), ('X-Content-Type-Options', 'nosniff'))

# --- rules --------------------------------------------------------------------


def handle(state: tools.State, table: Routes, request: Request) -> Response:
    """One request, whatever it is, to one answer."""
    origin = request.headers.get('origin')
    if not host_is_ours(state.config, request.headers.get('host', '')):
        return error_response(421, 'wrong_host', 'this server does not answer under that name')
    if origin is not None and not origin_is_allowed(state.config, origin, request):
        return error_response(403, 'origin_denied', 'requests from that origin are not accepted')
    response = routed(state, table, request)
    return shared(response, origin) if origin is not None and request.path in SHARED else response


def routed(state: tools.State, table: Routes, request: Request) -> Response:
    methods = methods_of(table, request.path)
    if not methods:
        return error_response(404, 'not_found', 'there is nothing at this address')
    method = 'GET' if request.method == 'HEAD' else request.method
    if method == 'OPTIONS':
        return Response(204, (('Allow', allow(methods)),), b'')
    if method not in methods:
        return error_response(405, 'method_not_allowed', f'use {allow(methods)}', (('Allow', allow(methods)),))
    try:
        return methods[method](state, request)
    except Refusal as refusal:
        return json_response(STATUS.get(refusal.code, 409), refusal.as_dict())
    except access.Unauthorized as unauthorized:
        return error_response(401, 'unauthorized', str(unauthorized))
    except sqlite3.Error as error:
        print(f'503 {type(error).__name__}: {str(error)[:200]}', file=sys.stderr, flush=True)
        return error_response(503, 'storage_failed', 'the storage failed: nothing was changed, try again')


def methods_of(table: Routes, path: str) -> Dict[str, Route]:
    """The methods at `path`: its own entry, else the longest /* above it."""
    at = path
    if not any(known == path for _, known in table):
        above = [known for _, known in table if known.endswith('/*') and path.startswith(known[:-1])]
        at = max(above, key=len, default='')
    return {method: route for (method, known), route in table.items() if known == at}


def allow(methods: Dict[str, Route]) -> str:
    return ', '.join(sorted(methods))


def host_is_ours(config: Config, host: str) -> bool:
    """The configured name, or a loopback name under any port: a forwarded port is still this machine."""
    host, base = host.lower(), urlsplit(config.base_url)
    name, port = split_port(host)
    ours = {authority(config.host, config.port), base.netloc.lower()}
    if base.port is None:
        ours.add(f'{base.netloc.lower()}:{DEFAULT_PORT[base.scheme]}')
    return (name in LOOPBACK and port is not None) or host in ours


def split_port(host: str) -> Tuple[str, Optional[str]]:
    """'[::1]:80' -> ('::1', '80'); the port is '' when there is none, None when it is malformed."""
    name, colon, port = host.rpartition(':')
    if not colon or host.endswith(']'):
        name, port = host, ''
    if name.startswith('[') and name.endswith(']'):
        name = name[1:-1]
    well_formed = port == '' or (port.isascii() and port.isdigit())
    return name, port if well_formed else None


def authority(host: str, port: int) -> str:
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def origin_is_allowed(config: Config, origin: str, request: Request) -> bool:
    """Ours everywhere; any loopback page where SHARED says so. null is anybody, unless the browser vouches for it:
    a page with the policy no-referrer sends null with its own form, and Sec-Fetch-Site cannot be set by a page."""
    parts = urlsplit_or_none(origin)
    if origin == 'null':
        return request.path not in SHARED and request.headers.get('sec-fetch-site') == 'same-origin'
    if parts is None or parts.scheme not in ('http', 'https') or origin != f'{parts.scheme}://{parts.netloc}':
        return False
    base = urlsplit(config.base_url)
    name, port = split_port(parts.netloc.lower())
    if (parts.scheme, parts.netloc.lower()) == (base.scheme, base.netloc.lower()):
        return True
    return name in LOOPBACK and port is not None and (request.path in SHARED or port == str(config.port))


def urlsplit_or_none(url: str) -> Any:
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else None
    except ValueError:                     # a bracket that is not closed, a port over 65535
        return None


def shared(response: Response, origin: str) -> Response:
    """CORS, on refusals too: a client in a browser must be able to read the challenge of a 401."""
    more = [('Access-Control-Allow-Origin', origin), ('Vary', 'Origin'),
            ('Access-Control-Expose-Headers', 'WWW-Authenticate')]
    if response.status == 204:
        methods = dict(response.headers)['Allow']
        more += [('Access-Control-Allow-Methods', methods), ('Access-Control-Allow-Headers', ALLOWED_HEADERS),
                 ('Access-Control-Max-Age', '600')]
    return response._replace(headers=(*response.headers, *more))


def json_response(status: int, body: dict, headers: Sequence[Tuple[str, str]] = ()) -> Response:
    return Response(status, (*JSON, *headers), mcp.encode_json(body).encode('utf-8', 'backslashreplace'))


def error_response(status: int, code: str, message: str, headers: Sequence[Tuple[str, str]] = ()) -> Response:
    return json_response(status, {'error': code, 'message': message}, headers)


def routes(state: tools.State) -> Routes:
    """Every route of the server. The other files' tables are merged in; none may take another's place."""
    listed = [tools.describe(tool) for tool in state.catalogue.values()]

    def call(bearer: Optional[str], name: str, arguments: dict) -> dict:
        return tools.call_tool(state, bearer, name, arguments)

    def endpoint(state: tools.State, request: Request) -> Response:
        return mcp.answer(request, listed, call, state.config)

    table: Routes = {('POST', mcp.ENDPOINT): endpoint}
    for more in TABLES:
        assert not table.keys() & more.keys(), 'two files claim one route'
        table.update(more)
    return table


TABLES: List[Routes] = [signin.ROUTES, owner.ROUTES, pages_owner.ROUTES]

# --- I/O ----------------------------------------------------------------------


class Running(NamedTuple):
    config: Config                  # with the port and the base URL that it really has
    state: tools.State
    wire: wire.Server
    sweeper: retention.Sweeper

    @property
    def url(self) -> str:
        return self.config.base_url + mcp.ENDPOINT


def start(config: Config, limits: wire.Limits = wire.Limits()) -> Running:
    """Bind, open the state, answer. Port 0 takes a free one. Raises OSError or Refusal; nothing is left open then."""
    try:
        listener = wire.listen(config.host, config.port)
    except OSError as error:
        raise Refusal('cannot_listen', f'{authority(config.host, config.port)}: {error.strerror}') from error
    try:
        port = listener.getsockname()[1]
        config = config._replace(port=port, base_url=config.base_url or f'http://{authority(config.host, port)}')
        state = open_state(config)
    except BaseException:
        listener.close()
        raise
    table = routes(state)
    answering = wire.Server(listener, lambda request: handle(state, table, request), limits)
    return Running(config, state, answering, retention.Sweeper(state))


def stop(running: Running) -> None:
    running.wire.stop()
    running.sweeper.close()
    running.state.close()


def open_state(config: Config) -> tools.State:
    private_folder(config.data)
    db = Database(os.path.join(config.data, 'state.db'), SCHEMAS)
    state = tools.State(db, catalogue.by_name(), config, token_only=config.check == 'token_only')
    try:
        owner.open_owner_token(state, config.data)
        if config.self_consent:
            with db.write() as tx:
                oauth.register_demo_client(tx, state.now_us())
        load_folders(state, config)
        if config.demo and not config.self_consent:        # for a person; the scripted runs bring their own
            demo.furnish(state)
    except BaseException:
        state.close()
        raise
    return state


def load_folders(state: tools.State, config: Config) -> None:
    """What the folders of the flags hold and the state does not yet, into the first workspace of its owner."""
    with state.db.write() as tx:
        home = workspace.workspaces_of(tx, owner.ensure_owner(tx))[0][0]
    if config.kb:
        load_articles(state, config.kb, home)
    if config.notes:
        note_folder.serve(state.db, config.notes, home, state.now_us())
    repositories.serve(state, config.data, config.repo or '', home,
                       agreed=lambda path: config.self_consent or repositories.ask(path))


def load_articles(state: tools.State, folder: str, home: str) -> None:
    """The folder's Markdown files as published articles, read again at every start; what was edited here stays."""
    if not os.path.isdir(folder):
        raise Refusal('kb_not_readable', f'--kb {ascii(folder)}: not a folder')
    outcome = kb_folder.import_folder(state.db, KB.id, folder, False, state.now_us())
    with state.db.write() as tx:
        if not access.is_placed(tx, KB):
            name = os.path.basename(os.path.abspath(folder))
            name = name if name.isprintable() and name.strip() else KB.id
            access.create_project(tx, KB.id, home, name)
            access.place(tx, KB, home, KB.id, False, name)
    for path, reason in outcome['skipped']:
        print(f'kb: skipped {ascii(path)}: {ascii(reason)}', file=sys.stderr)
    for reason in ('edited here too', 'not listed'):
        for path in outcome[reason]:
            print(f'kb: left as it is, {reason}: {ascii(path)}', file=sys.stderr)
    counts = ', '.join(f'{len(outcome[name])} {name}' for name in ('new', 'changed', 'unpublished', 'unchanged'))
    print(f'kb: {counts}', file=sys.stderr)


def private_folder(path: str) -> None:
    """Make `path`, or accept it only if it is a folder of ours that nobody else may enter."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise Refusal('data_not_private', f'{path} must be a folder of yours, no link, with mode 700', path=path)


def room_for(limits: wire.Limits) -> wire.Limits:
    """As many connections as there are descriptors for, beside those that the state, git and its pipes need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + SPARE_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return limits._replace(connections=max(1, min(limits.connections, soft - SPARE_DESCRIPTORS)))


def announce(running: Running) -> None:
    """What a person needs next. One line each, so that programs can read them too."""
    config = running.config
    lines = ['WEAKENED by --demo: for the scripted runs on this machine only'] if weakened(config) else []
    to_terminal = sys.stdout is not None and sys.stdout.isatty()
    lines += [f'listens   {authority(config.host, config.port)}', f'endpoint  {running.url}',
              *owner.announce(running.state, config.data, config.base_url, to_terminal),
              f'add it    claude mcp add --transport http osfoundry {running.url}', 'stop it   Ctrl-C']
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='backslashreplace')          # a folder's name may be no text
    try:
        print('\n'.join(lines), flush=True)
    except BrokenPipeError:                # the reader has seen enough (`| head`): no reason to stop serving
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# --- main ---------------------------------------------------------------------

def parse_flags(argv: Sequence[str]) -> Config:
    """Exits with 2 on a flag that is wrong, or weaker than the place it is to run in."""
    parser = argparse.ArgumentParser(prog='server.py', allow_abbrev=False, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Config()
    parser.add_argument('--port', type=int, default=default.port, help='default %(default)s; 0: any free one')
    parser.add_argument('--host', default=default.host, help='default %(default)s')
    parser.add_argument('--data', default=default.data, metavar='DIR', help='state; default %(default)s')
    parser.add_argument('--base-url', default='', metavar='URL', help='as the world sees it; default http://HOST:PORT')
    parser.add_argument('--kb', metavar='DIR', help='a folder of articles to serve')
    parser.add_argument('--notes', metavar='DIR', help='a folder of Notes to serve')
    parser.add_argument('--repo', metavar='PATH.git', help='a bare repository to propose changes to')
    parser.add_argument('--ttl', type=float, default=default.ttl, metavar='SECONDS',
                        help='how long a proposal waits; default %(default)s, 7 days')
    parser.add_argument('--git', choices=('pack', 'plumbing'), default=default.git, help='default %(default)s')
    parser.add_argument('--demo', action='store_true',
                        help='begin with a small workspace, and allow the weaker designs below; loopback only')
    parser.add_argument('--check', choices=('token_only',), help='demo: believe the projects in the token (article 7)')
    parser.add_argument('--mode', choices=('naive',), help='demo: approve without comparing (article 4)')
    parser.add_argument('--self-consent', action='store_true', help='demo: consent without a person')
    parser.add_argument('--inject-crash', action='store_true',
                        help='demo: fail between git and the database (article 4)')
    flags = {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}
    config = default._replace(**flags)
    mistake = wrong_flags(config)
    if mistake:
        parser.error(mistake)
    return config._replace(base_url=config.base_url.rstrip('/'))


def weakened(config: Config) -> bool:
    return config.check != 'per_call' or config.mode != 'cas' or config.self_consent or config.inject_crash


def wrong_flags(config: Config) -> Optional[str]:
    base = urlsplit_or_none(config.base_url)
    if config.base_url and not (base and BASE_URL.fullmatch(config.base_url)):
        return '--base-url must be http://NAME[:PORT] or https://NAME[:PORT]'
    if not 0 <= config.port <= 65535 or not 0 < config.ttl < 1e9:
        return '--port must be 0 to 65535, and --ttl more than 0'
    if weakened(config) and not config.demo:
        return '--check, --mode, --self-consent and --inject-crash weaken the server: only with --demo'
    if config.demo and (config.host not in LOOPBACK or (config.base_url and base.hostname not in LOOPBACK)):
        return '--demo only on a loopback address'
    return None


def main(argv: Sequence[str]) -> int:
    config = parse_flags(argv)
    os.umask(0o077)
    # The interpreter itself writes to the pipe when a signal comes. A handler would run only after the read below,
    # if the signal came just before that read; and one that sets an Event may wait for the Event's own lock for ever.
    stopped, stop_now = os.pipe()
    os.set_blocking(stop_now, False)
    try:
        running = start(config, room_for(wire.Limits()))
        signal.set_wakeup_fd(stop_now)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
    except (OSError, Refusal) as error:
        print(f'server.py: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:              # while a question of repositories.ask waits, for example
        return 130
    announce(running)
    os.read(stopped, 1)
    stop(running)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
