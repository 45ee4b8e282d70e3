"""catalogue.py - all tools that the server offers, merged.

Article 7, "Cosa vede il client prima di avere un token?": the catalogue is public, so no description holds
anybody's data (a test). Each tools_*.py holds the tools of one article; this file only joins them, so that none
imports another.

Not here: what a tool is and how it is called (tools.py).
"""
from typing import Dict, List

import tools_channels
import tools_gitnest
import tools_kb
import tools_notes
import tools_project
import tools_records
import tools_rooms
import tools_sessions
from tools import Tool

# --- data ---------------------------------------------------------------------

TOOLS: List[Tool] = [
    *tools_project.TOOLS,
    *tools_kb.TOOLS,
    *tools_notes.TOOLS,
    *tools_gitnest.TOOLS,
    *tools_records.TOOLS,
    *tools_rooms.TOOLS,
    *tools_channels.TOOLS,
    *tools_sessions.TOOLS,
]

# --- rules --------------------------------------------------------------------

def by_name() -> Dict[str, Tool]:
    """In the order of tools/list."""
    return {tool.name: tool for tool in TOOLS}
