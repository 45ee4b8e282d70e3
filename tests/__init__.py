"""The first tier: `python3 -m unittest`. tests/long holds the demanded counts, tests/interop the real peers."""
import atexit
import os
import shutil
import tempfile

# Where nothing but python3 and git is on PATH, sh and sleep still stand where every POSIX system has them.
os.environ['PATH'] = os.pathsep.join((os.environ.get('PATH', ''), os.defpath)).lstrip(os.pathsep)

# The hundreds of processes that the tests start share the compiled pages of this run, also where Python was told to
# keep none or may not write beside the pages: compiling them anew would be half of each server's start.
if 'PYTHONPYCACHEPREFIX' not in os.environ:
    os.environ['PYTHONPYCACHEPREFIX'] = tempfile.mkdtemp(prefix='osfoundry-compiled-')
    atexit.register(shutil.rmtree, os.environ['PYTHONPYCACHEPREFIX'], ignore_errors=True)
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)


def load_tests(loader, tests, pattern):
    """What `python3 -m unittest` found here, two modules at a time."""
    from tests.lanes import Lanes
    return Lanes(loader.discover(os.path.dirname(__file__), pattern or 'test*.py'))
