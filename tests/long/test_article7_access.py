"""Article 7's seam with many trials: the owner's click and an assistant's call at the same moment."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article7_access_seam as seam


class InOneProcess(seam.InOneProcess):
    TRIALS = 30                           # of each of the five clicks: 150


class AcrossTwoProcesses(seam.AcrossTwoProcesses):
    TRIALS = 10                           # of each: 50


if __name__ == '__main__':
    unittest.main()
