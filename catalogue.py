"""catalogue.py - all tools that the server offers, merged.

Article 7, "Cosa vede il client prima di avere un token?": the catalogue is public, so no description holds
anybody's data (a test). Each tools_*.py holds the tools of one article; this file only joins them, so that none
imports another.

Not here: what a tool is and how it is called (tools.py).
"""
from typing import Dict, List

import tools_channels
import tools_gitnest
import tools_gitnest_work
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
    *tools_gitnest_work.TOOLS,
    *tools_records.TOOLS,
    *tools_rooms.TOOLS,
    *tools_channels.TOOLS,
    *tools_sessions.TOOLS,
]

# Where each name comes from. Of the live catalogue's 59 tools the articles name these 32: 16 read, 13 write, 3 run.
LIVE = frozenset('''
    list_granted_resources list_project_resources search_knowledge_base read_knowledge_article poll_resource_events
    list_note_tabs read_note_tab read_sheet_range list_note_attachments read_record_item read_gitnest_repository
    search_gitnest_code list_gitnest_work read_gitnest_work list_gitnest_saved_results list_gitnest_checks
    edit_knowledge_article edit_note_tab create_note_tab add_note_source edit_record_item link_current_chat
    propose_gitnest_work propose_gitnest_change_set propose_gitnest_server_composition propose_gitnest_file_import
    propose_gitnest_check_rerun propose_gitnest_native_publication propose_gitnest_provider_publication
    request_session_run run_graph_session cancel_graph_run'''.split())
# A resident session's (article 2), and those of article 4's own reconstruction.
RESIDENT = frozenset(('channel_history', 'channel_roster', 'project_activity'))
RECONSTRUCTION = frozenset(('read_repo', 'propose_file_import', 'read_proposal'))
# Ours: what the articles describe and give no tool for. The README lists them as a difference.
OURS = frozenset('''list_record_items create_record_item read_room propose_room_app_install post_channel_message
    read_session_runs read_chat_work answer_chat_work withdraw_proposal'''.split())

# --- rules --------------------------------------------------------------------

def by_name() -> Dict[str, Tool]:
    """In the order of tools/list."""
    return {tool.name: tool for tool in TOOLS}
