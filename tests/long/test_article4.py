"""Article 4 with the demanded counts: 300 kills, gc in a loop during 200 approvals, 200 double clicks, 200 equal ids."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests import test_article4, test_article4_git


class Kills(test_article4.Kills):
    KILLS = 300

    def test_a_server_killed_at_any_instant_loses_nothing_doubles_nothing_and_locks_nothing(self):
        super().test_a_server_killed_at_any_instant_loses_nothing_doubles_nothing_and_locks_nothing()
        self.assertGreater(min(self.outcomes.values()), 30, 'the kills must fall on both sides of the move')


class Races(test_article4.Races):
    CLICKS, PAIRS = 200, 100


class OneCommit(test_article4_git.OneCommit):
    RANDOM = 200


class OneCommitOfSha256(test_article4_git.OneCommitOfSha256):
    RANDOM = 50


class BesideGc(test_article4_git.BesideGc):
    APPROVALS = 200


def load_tests(loader, tests, pattern):
    """These classes and not the first tier's, which the import also names."""
    return unittest.TestSuite(loader.loadTestsFromTestCase(case)
                              for case in (Kills, Races, OneCommit, OneCommitOfSha256, BesideGc))


if __name__ == '__main__':
    unittest.main()
