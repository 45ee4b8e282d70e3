"""Article 6's table of every tool and every reason, beside eight connections at work."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article6_every_tool as every


class EveryToolEveryReason(every.EveryToolEveryReason):
    LOADERS = 8


if __name__ == '__main__':
    unittest.main()
