"""Article 1 with the demanded counts: 50 kills, 300 torn logs, 5,000 nasty inputs, every seed of the tables."""
import contextlib
import io
import os
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, TOP)

import sim
import sim_closed
from sim_model import Settings
from tests import test_article1_sim, test_article1_storage as storage


class Processes(storage.Processes):
    KILLS, ANSWERED = 50, 200


class Clocks(storage.Clocks):
    EDITS, THREADS = 150, 8


class SameKey(storage.SameKey):
    TRIALS = 300


class PowerCut(storage.PowerCut):
    COPIES = 300


class Nasty(storage.Nasty):
    INPUTS = 5000


class Model(test_article1_sim.Model):
    SEEDS = range(1, 21)


class Depth(test_article1_sim.Depth):
    GROUPS, TOPIC_DRAWS = 200, 200

    def test_the_formulas_agree_with_the_simulation_within_two_and_a_half_percent(self):
        cells = sim_closed.judged(sim_closed.compare(Settings(), self.GROUPS), self.GROUPS)['cells']
        self.assertEqual([cell for cell in cells if cell['holds'] is False], [])


class Pictures(unittest.TestCase):
    def test_the_pictures_in_the_repository_are_those_of_today(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(sim.main(['kb', '--svg', folder]), 0)
            for name in os.listdir(folder):
                with open(os.path.join(folder, name)) as now, open(os.path.join(TOP, 'pictures', name)) as kept:
                    self.assertEqual(now.read(), kept.read(), f'{name}: python3 sim.py kb --svg pictures')


if __name__ == '__main__':
    unittest.main()
