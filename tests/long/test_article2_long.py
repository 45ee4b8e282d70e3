"""Article 2 in the counts that were asked for: 10,000 channels, and a kill before every single step."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article2, test_article2_kills


class Channels(test_article2.RandomChannels):
    CHANNELS = 10_000


class Kills(test_article2_kills.Kills):
    EVERY = 1


class TwoProcesses(test_article2_kills.TwoProcesses):
    COMMITS = 90        # 180 ids on one record: within the 200 that a watermark keeps


if __name__ == '__main__':
    unittest.main()
