"""Two modules of tests at a time: they wait for disks, deadlines and other processes, hardly ever for each other.

A forked worker runs a module whole; what it would have said, and its lists of what went wrong, come here when it ends.
"""
import io
import os
import sys
import unittest
from multiprocessing import connection, get_context

LANES = 2
LISTS = ('errors', 'failures', 'skipped', 'expectedFailures', 'unexpectedSuccesses', 'collectedDurations')


class Lanes(unittest.TestSuite):
    def run(self, result, debug=False):
        modules = [module for module in self if module.countTestCases()]
        # Only what is sure to be told whole: unittest's own result, to the end, where a fork may do anything.
        if (not LANES <= len(modules) <= 255 or type(result) is not unittest.TextTestResult or result.failfast
                or sys.platform != 'linux'):
            return super().run(result, debug)
        told, ends = 0, {}
        for number, end in ends_of(modules, result):
            ends[number] = end
            while told in ends:                               # in their order
                tell(result, *ends.pop(told))
                told += 1
        if told < len(modules):
            raise RuntimeError(f'the process of {next(tests_of(modules[told])).id()} ended before its module did')
        return result


def tests_of(suite):
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        else:
            yield each


def ends_of(modules, result):
    """(number of a module, what became of it), as they end. The workers end with us, whatever ends us."""
    lanes, context, (todo, fill) = [], get_context('fork'), os.pipe()
    os.write(fill, bytes(range(len(modules))))                # a byte is a module that nobody has begun
    os.close(fill)
    for _ in range(LANES):
        here, there = context.Pipe(duplex=False)
        context.Process(target=work, args=(modules, todo, there, result, os.getpid()), daemon=True).start()
        there.close()
        lanes.append(here)
    os.close(todo)
    while lanes:
        for lane in connection.wait(lanes):
            try:
                yield lane.recv()
            except EOFError:
                lanes.remove(lane)


def work(modules, todo, there, asked, parent):
    """One module after the other, until none is left, nobody listens any more, or Ctrl-C."""
    verbosity = 2 if asked.showAll else 1 if asked.dots else 0
    try:
        while os.getppid() == parent:
            number = os.read(todo, 1)
            if not number:
                return
            there.send((number[0], run_module(modules[number[0]], verbosity, asked.buffer)))
    except (BrokenPipeError, KeyboardInterrupt):
        pass


def run_module(module, verbosity, buffer):
    """(what is said of it, how many tests ran, the lists)."""
    result = unittest.TextTestResult(Lines(), True, verbosity)
    result.buffer = buffer
    module(result)
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
