"""Article 7's sign-in in the counts that were asked for: the server killed 100 times."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article7_signin_kills


class Kills(test_article7_signin_kills.Kills):
    KILLS = 100


if __name__ == '__main__':
    unittest.main()
