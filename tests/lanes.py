"""Two modules of tests at a time: they wait for disks, deadlines and other processes, hardly ever for each other.

A forked worker runs a module whole; what it would have said, and its lists of what went wrong, come here when it ends.
"""
import io
import multiprocessing
import sys
import unittest
from concurrent.futures import ProcessPoolExecutor

LANES = 2
LISTS = ('errors', 'failures', 'skipped', 'expectedFailures', 'unexpectedSuccesses', 'collectedDurations')
modules = []                     # of tests; a worker inherits them, and is told a number


class Lanes(unittest.TestSuite):
    def run(self, result, debug=False):
        modules[:] = [module for module in self if module.countTestCases()]
        # Only what is sure to be told whole: unittest's own result, where a fork may do anything.
        if len(modules) < LANES or type(result) is not unittest.TextTestResult or sys.platform != 'linux':
            return super().run(result, debug)
        verbosity = 2 if result.showAll else 1 if result.dots else 0
        with ProcessPoolExecutor(LANES, multiprocessing.get_context('fork')) as pool:
            ends = [pool.submit(run_module, number, verbosity, result.buffer, result.failfast)
                    for number in range(len(modules))]
            for end in ends:
                tell(result, *end.result())
                if result.failfast and not result.wasSuccessful():
                    pool.shutdown(cancel_futures=True)
                    break
        return result


def run_module(number, verbosity, buffer, failfast):
    """In a worker: (what is said of it, how many tests ran, the lists)."""
    result = unittest.TextTestResult(Lines(), True, verbosity)
    result.buffer, result.failfast = buffer, failfast
    modules[number](result)
    return result.stream.getvalue(), result.testsRun, {name: sendable(getattr(result, name, [])) for name in LISTS}


def tell(result, said, count, lists):
    result.stream.write(said)
    result.stream.flush()
    result.testsRun += count
    for name, entries in lists.items():
        if entries:
            getattr(result, name).extend(entries)


def sendable(entry):
    """A list, an entry of it, or a part of an entry: tests stay where they are, their names go."""
    if isinstance(entry, (list, tuple)):
        return type(entry)(map(sendable, entry))
    return Named(entry) if hasattr(entry, 'shortDescription') else entry


class Named:
    """A test of a worker, as the runner names it."""

    def __init__(self, test):
        self.text, self.words = str(test), test.shortDescription()

    def __str__(self):
        return self.text

    def shortDescription(self):
        return self.words


class Lines(io.StringIO):
    def writeln(self, text=''):
        self.write(text + '\n')
