"""The first tier: `python3 -m unittest`. tests/long holds the demanded counts, tests/interop the real peers."""
import os
import tempfile

# Where nothing but python3 and git is on PATH, sh and sleep still stand where every POSIX system has them.
os.environ['PATH'] = os.pathsep.join((os.environ.get('PATH', ''), os.defpath)).lstrip(os.pathsep)

# The hundreds of processes that the tests start share the compiled pages of this run, also where Python was told to
# keep none or may not write beside the pages: compiling them anew would be half of each server's start.
if 'PYTHONPYCACHEPREFIX' not in os.environ:
    _compiled = tempfile.TemporaryDirectory(prefix='osfoundry-compiled-')
    os.environ['PYTHONPYCACHEPREFIX'] = _compiled.name
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
