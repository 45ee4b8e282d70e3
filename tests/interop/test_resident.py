"""Article 2's pool with the real Claude Code in its seats: leases, idle ends, crashes, native ids, what each is sent."""
import json
import os
import shutil
import tempfile
import unittest

import bench_warm
import channel_render
import fake_messages
import resident_claude
import resident_pool
import sim_cache
import sim_channel
from sim_cache import Tokens, WATERMARK
from tests.interop import judges
from token_counter import counter_of_ours
from watermarks import Key, commit, open_marks, stage, watermark_for


class Pool(unittest.TestCase):
    """One binding in one channel; the simulation's mentions; watermarks on disk, kept by the native id of the process."""

    def setUp(self):
        self.program = judges.claude_code()
        self.home = tempfile.mkdtemp(prefix='resident-')
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.model = fake_messages.Model(f'answer {n}\n' for n in range(1, 20))
        self.addCleanup(self.model.close)
        folder = os.path.join(self.home, 'project')
        os.makedirs(folder)
        self.setting = resident_claude.Setting(
            self.program, folder, resident_claude.environment(self.home, self.model.url), bench_warm.MODEL)
        self.processes = {}
        self.pool = resident_pool.Pool(self.start)
        self.addCleanup(resident_pool.close, self.pool)
        self.marks = open_marks(os.path.join(self.home, 'channel-watermarks'), lambda line: None)
        plan = sim_channel.ARTICLE
        self.rows, self.mentions = sim_channel.channel(plan, 30)
        self.talk, self.turns = [], 0

    def start(self, channel, binding):
        process = resident_claude.ClaudeProcess(self.setting)
        self.processes[process.native] = process
        return process.resident()

    def mention(self, minute):
        """One mention as the app runs it: lease, watermark, turn, commit, release. Returns (lease, rows, answer)."""
        at, turn = self.mentions[self.turns], self.turns
        self.turns += 1
        held = resident_pool.lease(self.pool, 'ch-backend', 'b-claude', minute * 60)
        key, run = Key('b-claude', 'ch-backend', None), f'run-{turn}'
        mark = watermark_for(self.marks, key, held.native)
        shown = channel_render.mention_context(sim_cache.window_of(self.rows, at), self.rows[at].id, None, mark)
        asked = channel_render.mention_turn(sim_channel.mention_of(self.rows[at], turn), shown.text)
        stage(self.marks, run, key, held.native, shown)
        self.talk.append(('user', asked))
        text = resident_pool.prompt_for(held, sim_channel.framing(), resident_pool.build_prompt(self.talk),
                                        resident_pool.latest_user_turn(self.talk))
        try:
            answer = self.processes[held.native].turn(text)
        except resident_claude.Failed:
            resident_pool.release(self.pool, held, False, minute * 60)
            raise
        commit(self.marks, run)
        self.talk.append(('assistant', answer))
        resident_pool.release(self.pool, held, True, minute * 60)
        return held, shown.rows, answer

    def last_user_text(self):
        content = self.model.exchanges[-1].body['messages'][-1]['content']
        return content if isinstance(content, str) else content[-1]['text']

    def test_lease_warm_turn_idle_end_crash_new_native_id_snapshot(self):
        first, snapshot, answer = self.mention(0)
        self.assertEqual((first.cold, answer.strip()), (True, 'answer 1'))
        self.assertEqual(len(snapshot), channel_render.SHOWN_ROWS)
        self.assertIn(sim_channel.SYSTEM[:40], json.dumps(self.model.exchanges[-1].body, ensure_ascii=False))

        warm, new, _ = self.mention(5)
        self.assertEqual((warm.cold, warm.native), (False, first.native))
        self.assertEqual(len(new), self.mentions[1] - self.mentions[0])
        self.assertFalse({row.id for row in new} & {row.id for row in snapshot})
        self.assertTrue(self.last_user_text().startswith(channel_render.OPENING), 'a warm turn is the new turn alone')
        _, beside = bench_warm.read(self.model.exchanges, Tokens(counter_of_ours()))
        self.assertEqual(beside.cacheable, beside.previous, 'the whole request before is a prefix of this one')

        self.assertEqual(resident_pool.sweep(self.pool, 5 * 60 + resident_pool.IDLE_S), 1)
        self.assertFalse(self.processes[first.native].alive())
        cold, again, _ = self.mention(36)
        self.assertTrue(cold.cold)
        self.assertNotEqual(cold.native, first.native)
        self.assertEqual(len(again), channel_render.SHOWN_ROWS, 'a new native id starts from the snapshot')
        self.assertIn('Assistant: answer 1', self.last_user_text())

        self.processes[cold.native].crash()
        after, rows, _ = self.mention(40)
        self.assertTrue(after.cold)
        self.assertNotEqual(after.native, cold.native)
        self.assertEqual(len(rows), channel_render.SHOWN_ROWS)

    def test_a_crash_in_the_middle_of_a_turn_leaves_the_watermark_where_it_was(self):
        _, snapshot, _ = self.mention(0)
        native = next(iter(self.processes))
        self.processes[native].process.kill()        # the pool does not know yet: the turn itself fails
        with self.assertRaises(resident_claude.Failed):
            self.processes[native].turn('hello')
        held, rows, _ = self.mention(5)
        self.assertNotEqual(held.native, native)
        self.assertEqual(len(rows), channel_render.SHOWN_ROWS)
        self.assertTrue({row.id for row in rows} & {row.id for row in snapshot}, 'shown again: not committed here')


class Mentions(unittest.TestCase):
    def test_every_request_of_a_process_keeps_the_whole_one_before_it(self):
        turns = bench_warm.play(judges.claude_code(), WATERMARK, 6, Tokens(counter_of_ours()))
        self.assertEqual(len(turns), 6)
        for turn in turns[1:]:
            self.assertEqual(turn.cacheable, turn.previous)
            self.assertIn('message -1 (user)', turn.breakpoints)

    def test_a_resumed_session_keeps_it_too_and_a_new_process_keeps_the_tools(self):
        tokens = Tokens(counter_of_ours())
        resumed = bench_warm.play(judges.claude_code(), WATERMARK, 3, tokens, bench_warm.RESUMED)[-1]
        fresh = bench_warm.play(judges.claude_code(), WATERMARK, 3, tokens, bench_warm.FRESH)[-1]
        self.assertEqual(resumed.cacheable, resumed.previous)
        self.assertLess(fresh.cacheable, fresh.previous)
        self.assertGreater(fresh.cacheable, 0)


if __name__ == '__main__':
    unittest.main()
