"""The counts that are demanded of the wire: 10,000 nasty requests by two seeds, 500 idle and 64 dripping connections."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article7_wire, test_article7_wire_nasty


class TenThousand(test_article7_wire_nasty.Requests):
    COUNT, SEED = 10_000, 2


class TenThousandMore(test_article7_wire_nasty.Requests):
    COUNT, SEED = 10_000, 3


class Crowd(test_article7_wire.Crowd):
    IDLE, DRIPPING = 500, 64


if __name__ == '__main__':
    unittest.main()
