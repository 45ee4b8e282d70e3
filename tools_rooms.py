"""tools_rooms.py - cloud Rooms: one tool that reads, one that proposes.

Article 6, step 4 and "Dov'è il confine": app installs in Rooms go through a propose_ tool and wait for their owner.
Both names are ours: the article names the rule, not the tools.

Not here: what a proposal is and how it is decided (rooms.py, owner_project.py).
"""
from typing import List

import rooms
from tools import ID, KEY, READ, WRITE, Answer, Call, Tool, arguments_of, stored, text
from versioned import Ref, Tx

# --- data ---------------------------------------------------------------------

FILES = {'type': 'array', 'minItems': 1, 'maxItems': rooms.MOST_FILES, 'items': arguments_of({
    'path': {**text(*rooms.PATH_LENGTH), 'pattern': rooms.PATH}, 'content': text(0, rooms.MOST_CONTENT)})}

# --- rules --------------------------------------------------------------------

def room(tx: Tx, arguments: dict) -> Ref:
    return Ref('room', arguments['room_id'])


def propose(call: Call) -> Answer:
    return rooms.propose_room_app_install(call.tx, call.actor, call.arguments, call.now_us,
                                          int(call.state.config.ttl * 1_000_000))


TOOLS: List[Tool] = [
    Tool('read_room', 'One cloud Room: its apps, and what became of your own proposals there.',
         arguments_of({'room_id': ID}), READ, 'view', True, False, False,
         room, lambda call: stored(rooms.read_room, call)),
    Tool('propose_room_app_install',
         'Propose an app for one cloud Room: its name and whole files. Nothing is installed or run: the owner sees the '
         'Room and every file, and decides.',
         arguments_of({'room_id': ID, 'app_name': {**text(*rooms.NAME_LENGTH), 'pattern': rooms.NAME}, 'files': FILES,
                       'idempotency_key': KEY}),
         WRITE, 'edit', False, True, False, room, propose),
]
