"""Every rule taken out, those that wait for a deadline too."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_ablate


class Rows(test_ablate.Rows):
    LEFT_OUT = ()


if __name__ == '__main__':
    unittest.main()
