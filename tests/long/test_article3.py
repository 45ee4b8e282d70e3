"""Article 3 with the demanded counts: 20,000 mutated streams, 20 repetitions of the 22 cases and the kills under load."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article3_runs as runs
from tests import test_article3_streams as streams


class Damaged(streams.Damaged):
    MUTANTS = 20_000


class Replays(runs.Replays):
    EVERY = 1


class UnderLoad:
    """Every core is kept busy by somebody else."""

    def setUp(self):
        super().setUp()
        for _ in range(os.cpu_count() or 1):
            busy = subprocess.Popen([sys.executable, '-c', 'while True: pass'])
            self.addCleanup(busy.wait)
            self.addCleanup(busy.kill)


class Cases(UnderLoad, runs.Cases):
    TIMES = 20


class Kills(UnderLoad, runs.Kills):
    TIMES = 20


if __name__ == '__main__':
    unittest.main()
