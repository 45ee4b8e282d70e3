"""tools.py - what a tool is, and the one place where access, store and transaction meet: call_tool.

Article 7, "Cosa vede il client prima di avere un token?" (annotations and securitySchemes of every tool) and
"Perché lo scope non basta?" (what is read again at every call); article 6, Recent activity. Every tool of every
article goes through call_tool, so that a revocation is either before a call (refused) or after it (the edit
counted), also across two processes.

Not here: the tools (tools_*.py, merged by catalogue.py), the rules of access (access.py), JSON-RPC (mcp.py), HTTP
(wire.py, server.py).
"""
import json
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union

import access
import activity
import schema
import versioned
from versioned import Database, Ref, Refusal, Tx

# --- data ---------------------------------------------------------------------

READ, WRITE, RUN = access.SCOPES[:3]
NO_ITEM = ('', '')                        # in a line of activity


class Tool(NamedTuple):
    name: str
    description: str                      # for the model; holds no data of anybody's
    schema: dict                          # of the arguments; root type object
    scope: str                            # READ, WRITE or RUN
    needs: str                            # of the approver: 'view', 'edit', 'run'; 'connection' = no one item
    read_only: bool
    destructive: bool
    open_world: bool
    ref: Callable[[Tx, dict], Optional[Ref]]     # the item, or the container of a child; unknown = Refusal not_found
    run: Callable[['Call'], 'Answer']


class Call(NamedTuple):
    """What a tool's `run` gets. It is inside one transaction, and the check has passed in that transaction."""
    tx: Tx
    grant: access.Grant
    actor: str                            # the key space of idempotency keys: 'connection:c7'
    arguments: dict
    now_us: int
    state: 'State'


Answer = Union[dict, Callable[[], dict]]  # a function is run after COMMIT: git and other slow reads


class UnknownTool(Exception):
    """No such tool in the catalogue: a protocol error (-32602), not a tool result. Raised after authenticate only."""


# --- rules --------------------------------------------------------------------

def call_tool(state: 'State', bearer: Optional[str], name: str, arguments: dict) -> dict:
    """One call of one tool -> its MCP result. Raises access.Unauthorized (401), access.Forbidden (403), UnknownTool."""
    tool = state.catalogue.get(name)
    try:
        # 1. On one snapshot: who calls (401), the scope (403), the arguments. None of these takes the writer.
        with state.db.read() as tx:
            grant = access.authenticate(tx, bearer, state.now_us(), state.token_only)
            if tool is None:
                raise UnknownTool(name)
            access.require_scope(grant, tool.scope)
            schema.check(tool.schema, arguments)
            # 2. On the same snapshot: the check, then a read, or the first answer of a repeated write.
            answer, done = (checked if tool.read_only else replayed)(state, tx, grant, tool, arguments)
        if answer is None:
            # 3. A new write: check, work and activity stand or fall together.
            answer, done = written(state, bearer, tool, arguments), None
        # 4. What is slow runs with no transaction open.
        result = succeeded(answer() if callable(answer) else answer)
        if done:
            state.activity.add(done)
        return result
    except access.Forbidden:
        state.activity.add(line(state, grant, tool, None, 'insufficient_scope'))
        raise
    except Refusal as refusal:
        state.activity.add(line(state, grant, tool, named_item(tool, arguments), refusal.code))
        return refused(refusal)


Done = Tuple[Optional[Answer], Optional[activity.Line]]      # the answer, and the line of activity that goes with it


def checked(state: 'State', tx: Tx, grant: access.Grant, tool: Tool, arguments: dict) -> Done:
    """The check, then the work, in one transaction."""
    ref = tool.ref(tx, arguments)
    access.check(tx, grant, tool.name, tool.needs, ref)
    now_us = state.now_us()
    answer = tool.run(Call(tx, grant, f'connection:{grant.connection}', arguments, now_us, state))
    return answer, activity.Line(grant.connection, tool.name, *(ref or NO_ITEM), 'ok', now_us)


def written(state: 'State', bearer: Optional[str], tool: Tool, arguments: dict) -> Answer:
    """One write transaction: authenticate again, check, run, and the line of activity.

    Since the snapshot of steps 1 and 2 the owner may have revoked. A revocation is a writer too, so inside this
    transaction it is either done and seen, or not yet begun.
    """
    with state.db.write() as tx:
        grant = access.authenticate(tx, bearer, state.now_us(), state.token_only)
        answer, done = checked(state, tx, grant, tool, arguments)
        activity.record(tx, [done])
    return answer


def replayed(state: 'State', tx: Tx, grant: access.Grant, tool: Tool, arguments: dict) -> Done:
    """The first answer of a repeated write, or (None, None). Behind the check: it does not outlive access."""
    answer = versioned.stored(tx, f'connection:{grant.connection}', arguments.get('idempotency_key'), tool.name,
                              arguments)
    if answer is None:
        return None, None
    ref = tool.ref(tx, arguments)
    access.check(tx, grant, tool.name, tool.needs, ref)
    return answer, activity.Line(grant.connection, tool.name, *(ref or NO_ITEM), 'ok', state.now_us())


def line(state: 'State', grant: access.Grant, tool: Tool, ref: Optional[Ref], outcome: str) -> activity.Line:
    """Of a call that was refused."""
    return activity.Line(grant.connection, tool.name, *(ref or NO_ITEM), outcome, state.now_us())


def named_item(tool: Tool, arguments: dict) -> Optional[Ref]:
    """Which item a refused call named, for Recent activity: the first argument NAME_id, bounded; never content."""
    for name in tool.schema['properties']:
        if name.endswith('_id') and isinstance(arguments, dict) and isinstance(arguments.get(name), str):
            return Ref(name[:-len('_id')], arguments[name].encode('ascii', 'replace').decode('ascii')[:128])
    return None


def succeeded(answer: dict) -> dict:
    return {'content': [{'type': 'text', 'text': json.dumps(answer, ensure_ascii=False)}],
            'structuredContent': answer, 'isError': False}


def refused(refusal: Refusal) -> dict:
    """A refusal is a result, so that the model reads it; signing in again would not help (article 7)."""
    return {'content': [{'type': 'text', 'text': json.dumps(refusal.as_dict(), ensure_ascii=False)}], 'isError': True}


def stored(work: Callable[..., dict], call: Call) -> Answer:
    """The `run` of a tool that is one function of a store."""
    return work(call.tx, call.actor, call.arguments, call.now_us)


def describe(tool: Tool) -> dict:
    """The tool as tools/list shows it."""
    return {'name': tool.name, 'description': tool.description, 'inputSchema': tool.schema,
            'annotations': {'readOnlyHint': tool.read_only, 'destructiveHint': tool.destructive,
                            'openWorldHint': tool.open_world},
            'securitySchemes': [{'type': 'oauth2', 'scopes': [tool.scope]}]}


def arguments_of(required: Dict[str, dict], optional: Optional[Dict[str, dict]] = None) -> dict:
    """A tool's schema: these arguments and no others."""
    return {'type': 'object', 'properties': {**required, **(optional or {})}, 'required': list(required),
            'additionalProperties': False}


def text(shortest: int, longest: int, description: str = '') -> dict:
    return described({'type': 'string', 'minLength': shortest, 'maxLength': longest}, description)


def integer(least: int, most: int, description: str = '') -> dict:
    return described({'type': 'integer', 'minimum': least, 'maximum': most}, description)


def described(argument: dict, description: str) -> dict:
    return {**argument, 'description': description} if description else argument


ID = {'type': 'string', 'minLength': 1, 'maxLength': 128}
VERSION = {'type': 'string', 'format': 'date-time'}     # versioned.parse_stamp says more
KEY = {'type': 'string', 'minLength': 8, 'maxLength': 128}


# --- I/O ----------------------------------------------------------------------

class State:
    """What every request shares. Made once by server.open_state, closed once."""

    def __init__(self, db: Database, catalogue: Dict[str, Tool], config: Any = None, token_only: bool = False,
                 repositories: Optional[Dict[str, Any]] = None,
                 now_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self.db, self.catalogue, self.config = db, catalogue, config
        self.token_only = token_only                    # demo only: --check token_only
        self.repositories = {} if repositories is None else repositories
        self.now_us = now_us
        self.activity = activity.Batch(db)

    def close(self) -> None:
        self.activity.close()
        for repository in self.repositories.values():
            repository.close()
        self.db.close()
