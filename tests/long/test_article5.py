"""Article 5 with the demanded counts: 8 agents and 4 people edit one Note for 30 s, the server killed twice."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article5_killed


class Killed(test_article5_killed.Killed):
    AGENTS, PEOPLE, SECONDS, KILLS = 8, 4, 30, 2


if __name__ == '__main__':
    unittest.main()
