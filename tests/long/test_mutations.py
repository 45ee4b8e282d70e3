"""Sixty rules broken by hand, one at a time, in a copy of the product: a test that names the claim fails for each."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

A1, ST, FO, VE = 'test_article1', 'test_article1_storage', 'test_article1_folder', 'test_versioned'
A2, A3, A4, G4, A5, T5 = 'test_article2', 'test_article3', 'test_article4', 'test_article4_git', 'test_article5', 'test_article5_tabs'
R3, A7, TK, CO, GA, WI = ('test_article3_runs', 'test_article7_access', 'test_article7_signin_tokens', 'test_article7_signin_consent',
                          'test_article7_wire_gates', 'test_article7_wire')
# (file, what stands there once, what it becomes, the test that must fail: module, class, claim)
MUTATIONS = (
    # article 1
    ('kb_store.py', "IS_CURRENT = 'updated_us = ?'", "IS_CURRENT = 'updated_us >= ?'", A1,
     'Edits.test_an_old_version_is_refused_with_the_current_one_and_the_newer_words_stay'),
    ('kb_store.py', "PUBLISHED = \"state = 'published'\"", "PUBLISHED = \"state <> 'unpublished'\"", A1,
     'Published.test_a_draft_is_neither_found_nor_read_nor_edited_and_its_existence_does_not_show'),
    ('kb_store.py', "article is not None and article.state == 'published'", 'article is not None', A1,
     'Published.test_an_unpublished_article_leaves_search_and_read_at_the_next_call_and_comes_back_as_gone'),
    ('kb_store.py', "gone = event['type'] == 'unpublished' or (", "gone = event['type'] == 'unpublished' and (", A1,
     'Published.test_a_citation_is_fresh_changed_or_gone_and_an_edited_draft_is_still_gone'),
    ('kb_store.py', "news.updated_at <= cited['updated_at']", "news.updated_at < cited['updated_at']", A1,
     'Published.test_a_citation_is_fresh_changed_or_gone_and_an_edited_draft_is_still_gone'),
    ('kb_store.py', 'ORDER BY count(*) DESC, w.article_id', 'ORDER BY w.article_id', A1,
     'Search.test_words_of_the_title_come_first_most_words_first_then_the_id'),
    ('kb_store.py', "plain = plain.replace(mark, '')", 'pass', A1,
     'Search.test_it_finds_what_people_type'),
    ('kb_store.py', "ESCAPED.sub(r'\\\\\\g<0>', word)", 'word', A1,
     'Search.test_wildcards_quotes_and_operators_are_only_characters'),
    ('kb_store.py', 'QUERY_LENGTH = (2, 200)', 'QUERY_LENGTH = (1, 200)', A1,
     'Citations.test_a_title_tells_of_a_rename_only_the_id_of_no_change_and_the_time_of_every_change'),
    ('kb_store.py', "return 'retitled' if before.title != after.title else 'updated'", "return 'updated'", A1,
     'Citations.test_every_save_is_one_event_with_the_version_it_made'),
    ('kb_folder.py', "if not outcomes['not listed']:", 'if True:', FO,
     'Folder.test_a_folder_that_cannot_be_listed_unpublishes_nothing'),
    ('kb_citations.py', "lost = kept['after_sequence'] < after", 'lost = False', FO,
     'Folder.test_a_pruned_or_a_replaced_log_makes_the_check_read_again_instead_of_saying_fresh'),
    ('kb_folder.py', "getattr(os, 'O_NONBLOCK', 0)", '0', FO,
     'Folder.test_odd_files_are_taken_for_what_they_are_or_named_with_the_reason'),
    # what all stores stand on
    ('versioned.py', 'stamp_us = max(now_us, current_us + 1, row[0] + 1 if row else 0)', 'stamp_us = max(now_us, current_us)', VE,
     'Versions.test_a_version_is_never_given_twice_whatever_the_clock_says'),
    ('versioned.py', 'KEY_LENGTH = (8, 128)', 'KEY_LENGTH = (0, 128)', VE,
     'Replays.test_a_key_has_8_to_128_characters_of_text'),
    ('versioned.py', "json.dumps([tool, arguments], sort_keys=True", "json.dumps([tool], sort_keys=True", VE,
     'Replays.test_a_key_used_for_another_body_is_refused'),
    ('versioned.py', 'if after + 1 < first:', 'if False:', VE,
     'Log.test_a_cursor_older_than_the_pruned_log_is_told_so_and_a_younger_one_goes_on'),
    ('versioned.py', "self._reader.execute('PRAGMA query_only = ON')", 'pass', VE, 'Transactions.test_a_reader_cannot_write'),
    ('versioned.py', 'if type(value) is not int or not', 'if not isinstance(value, int) or not', VE,
     'Log.test_a_limit_or_a_cursor_out_of_bounds_names_the_field_and_the_limit'),
    # article 2
    ('channel_render.py', 'return [row for row in rows if row.id != answering]', 'return list(rows)', A2,
     'WhatAMentionShows.test_the_message_being_answered_is_not_shown_a_second_time'),
    ('channel_render.py', 'BODY_CHARACTERS = 600', 'BODY_CHARACTERS = 6000', A2,
     'WhatAMentionShows.test_a_long_text_is_cut_at_600_characters_with_a_marker_that_names_the_tool'),
    ('channel_render.py', "LABEL = 'UNTRUSTED DATA from", "LABEL = 'DATA from", A2,
     'WhatAMentionShows.test_both_headers_say_that_strangers_wrote_this_and_where_the_rest_is'),
    ('channel_render.py', "return '\\n  '.join(text.splitlines())", 'return text', A2,
     'HostileRows.test_whatever_a_text_holds_only_our_lines_begin_in_the_first_column'),
    ('channel_render.py', 'return (supervised and resident) or exact_saved_session', 'return True', A2,
     'WhatAMentionShows.test_a_binding_keeps_a_watermark_when_supervised_and_resident_or_when_its_exact_session_was_saved'),
    ('watermarks.py', 'return watermark.native == native', 'return True', A2,
     'WhoseWatermark.test_a_new_native_session_gets_a_snapshot_and_no_gap'),
    ('watermarks.py', 'if recorded is not None and recorded.native not in (staged.native, staged.replaces):', 'if False:', A2,
     'WhoseWatermark.test_a_replaced_process_that_ends_late_does_not_take_the_record_back'),
    ('resident_pool.py', "    if lease.cold:\n        return f'{system}\\n\\n{prompt}'\n    return prompt_warm", "    return f'{system}\\n\\n{prompt}'", A2,
     'ColdOrWarm.test_a_resident_process_is_never_sent_its_own_transcript'),
    ('resident_pool.py', 'MOST_RESIDENT = 4', 'MOST_RESIDENT = 5', A2,
     'ColdOrWarm.test_there_are_four_at_most_and_the_least_recently_used_goes_first'),
    # article 3
    ('wrap.py', "if not error and reading.complete and text:", 'if ended.exit_status == 0:', A3,
     'Success.test_text_and_turn_completed_are_an_answer_whatever_the_exit_status'),
    ('wrap_command.py', "STRIPPED = ('CODEX_API_KEY', 'OPENAI_API_KEY',", "STRIPPED = ('CODEX_API_KEY',", A3,
     'Command.test_what_would_move_the_run_to_another_account_is_taken_out_of_the_environment'),
    ('wrap_command.py', "if names_flag(help_text, '--ignore-rules'):", 'if True:', A3,
     'Command.test_ignore_rules_is_left_out_when_the_binarys_help_does_not_name_it'),
    ('wrap_stream.py', 'if not ends and TRANSIENT.match(raw):', 'if False:', A3,
     'Rows.test_reconnecting_is_never_the_error_and_never_about_the_sign_in'),
    ('wrap_process.py', 'wrap_kill.signal_group(run.leader, signal.SIGINT)', 'pass', R3,
     'Kills.test_sigint_comes_first_when_the_run_is_gentle'),
    ('wrap_process.py', "if self.options.drain_stderr:\n            self._watch(self.process.stderr", "if False:\n            self._watch(self.process.stderr", R3,
     'Pipes.test_stderr_is_drained_beside_stdout_and_its_tail_is_kept'),
    # article 4
    ('proposals.py', "return 'build' if facts.head == facts.expected_head else 'stale'", "return 'build'", A4,
     'Recovery.test_next_step_row_by_row'),
    ('proposals.py', "if facts.commit and facts.contains:", 'if False:', A4,
     'Recovery.test_a_crash_after_git_is_a_replay_without_another_commit'),
    ('proposals.py', "if facts.marker and facts.marker != facts.commit:", 'if False:', A4, 'Recovery.test_next_step_row_by_row'),
    ('proposals.py', "if not approver.startswith('person:'):", 'if False:', A4,
     'Approval.test_only_a_person_decides_and_never_the_proposer'),
    ('proposals.py', "\\n\\nProposal: {row.proposal}\\nApproved-by:", "\\n\\nApproved-by:", A4,
     'Approval.test_the_commit_says_who_proposed_who_approved_and_which_proposal'),
    ('proposal_intake.py', 'MOST_FILES = 20', 'MOST_FILES = 21', A4, 'Intake.test_the_live_limits_hold_on_both_sides'),
    ('proposal_intake.py', 'if not row or not row[0]:', 'if not row:', A4, 'Intake.test_a_repository_with_gitnest_off_refuses'),
    ('git_repo.py', '{old or self.zero}', '', G4,
     'OneCommit.test_the_branch_moves_only_from_where_it_was_reviewed_and_the_marker_with_it'),
    ('git_repo.py', 'EXECUTABLE if mode and int(mode, 8) & 0o100 else FILE', 'FILE', G4,
     'OneCommit.test_an_executable_file_stays_executable_and_the_rest_of_the_tree_stays'),
    # article 5
    ('note_store.py', 'WHERE note_id = ? AND version = ?', 'WHERE note_id = ? AND version >= ?', A5,
     'WhereTheLimitIs.test_a_stale_write_is_refused_and_never_merged_even_into_a_tab_nobody_touched'),
    ('note_store.py', 'WHERE t.tab_id = ? AND t.note_id = ?', 'WHERE t.tab_id = ? AND ? IS NOT NULL', A5,
     'WhoDoesWhat.test_a_tab_of_another_note_is_not_opened_by_the_right_to_this_one'),
    ('note_tabs.py', 'if tab_type not in fits[operation]:', 'if False:', A5,
     'WhereTheLimitIs.test_each_operation_fits_its_kinds_and_no_others'),
    ('note_tabs.py', 'RANGE_ROWS = RANGE_COLS = 100', 'RANGE_ROWS = RANGE_COLS = 101', T5,
     'Ranges.test_over_100_by_100_is_refused_with_the_limit_reading_and_writing'),
    # articles 6 and 7
    ('access.py', "return facts.status == 'active'", 'return True', A7,
     'EveryCallReadsAgain.test_a_revoked_connection_is_refused_at_the_next_call'),
    ('access.py', 'return not facts.unticked', 'return True', A7,
     'EveryCallReadsAgain.test_an_unticked_tool_is_refused_and_the_other_tools_go_on'),
    ('access.py', "return facts.approver_role >= NEEDS[needs]", 'return True', A7,
     'EveryCallReadsAgain.test_an_approver_who_may_only_view_reads_and_does_not_edit'),
    ('access.py', 'else facts.invitation is not None', 'else True', A7,
     'EveryCallReadsAgain.test_a_channel_in_no_project_needs_an_invitation_and_loses_it_at_once'),
    ('access.py', "if scope not in grant.scopes:", 'if False:', A7,
     'WhoCalls.test_a_missing_scope_is_forbidden_before_anything_about_the_item'),
    ('access.py', "'WHERE t.digest = ? AND t.expires_us > ?'", "'WHERE t.digest = ? AND t.expires_us >= ?'", A7,
     'WhoCalls.test_a_token_is_unknown_from_the_microsecond_it_expires'),
    ('oauth_tokens.py', "    revoke_family(tx, family)\n    return invalid_grant('this refresh token was used", "    return invalid_grant('this refresh token was used", TK,
     'Refresh.test_after_the_grace_a_retired_one_revokes_the_family'),
    ('oauth_tokens.py', 'AND used = 0 AND', 'AND', TK, 'Codes.test_of_sixteen_redemptions_at_one_instant_one_succeeds'),
    ('oauth_tokens.py', "if not verifier_matches(challenge, required(form, 'code_verifier')):", 'if False:', TK,
     'Codes.test_a_code_is_bound_to_client_redirect_verifier_and_resource_and_a_wrong_try_takes_nothing'),
    ('owner.py', "if scheme.lower() == 'bearer':", 'if False:', CO,
     'OwnersDoor.test_anonymous_is_401_and_an_agent_403_whatever_else_it_shows'),
    ('owner.py', 'Path={base}; SameSite=Strict', 'Path=/; SameSite=Strict', CO,
     'OwnersDoor.test_each_cookie_has_its_own_path_and_neither_opens_the_others_door'),
    ('mcp.py', "resource_metadata=\"{config.base_url}{METADATA}\", ", '', GA,
     'Calling.test_without_a_token_the_answer_is_a_401_that_says_in_two_places_where_to_go'),
    ('mcp.py', "if isinstance(message_id, bool) or not", 'if not', GA,
     'Messages.test_what_is_json_but_no_request_is_invalid'),
)


class Mutations(unittest.TestCase):
    LIMIT_S = 120                          # a mutation that hangs is caught too

    def setUp(self):
        self.copy = tempfile.mkdtemp(prefix='mutation-')
        self.addCleanup(shutil.rmtree, self.copy)
        for name in os.listdir(TOP):
            if name.endswith('.py'):
                shutil.copy(os.path.join(TOP, name), self.copy)
        shutil.copytree(os.path.join(TOP, 'tests'), os.path.join(self.copy, 'tests'),
                        ignore=shutil.ignore_patterns('__pycache__', 'long', 'interop'))

    def passes(self, module, claim):
        try:
            done = subprocess.run([sys.executable, '-m', 'unittest', f'tests.{module}.{claim}'], cwd=self.copy,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=self.LIMIT_S)
        except subprocess.TimeoutExpired:
            return False
        self.assertIn(b'Ran ', done.stdout, f'{module}.{claim} did not run')
        self.assertNotIn(b'_FailedTest', done.stdout, f'there is no {module}.{claim}')
        return done.returncode == 0

    def test_there_are_sixty_and_no_two_are_one(self):
        self.assertEqual(len(MUTATIONS), 60)
        self.assertEqual(len({mutation[:3] for mutation in MUTATIONS}), 60)

    def test_each_claim_holds_before_anything_is_broken(self):
        for module, claim in sorted({mutation[3:] for mutation in MUTATIONS}):
            with self.subTest(claim=claim):
                self.assertTrue(self.passes(module, claim))

    def test_each_broken_rule_fails_the_test_that_names_its_claim(self):
        for page, before, after, module, claim in MUTATIONS:
            with self.subTest(page=page, before=before):
                path = os.path.join(self.copy, page)
                with open(path, encoding='utf-8') as file:
                    text = file.read()
                self.assertEqual(text.count(before), 1, 'the rule stands there once')
                try:
                    with open(path, 'w', encoding='utf-8') as file:
                        file.write(text.replace(before, after))
                    self.assertFalse(self.passes(module, claim), 'nobody noticed')
                finally:
                    with open(path, 'w', encoding='utf-8') as file:
                        file.write(text)


if __name__ == '__main__':
    unittest.main()
