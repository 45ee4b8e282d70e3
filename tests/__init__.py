"""The first tier: `python3 -m unittest`. tests/long holds the demanded counts, tests/interop the real peers."""
import os

# Where nothing but python3 and git is on PATH, sh and sleep still stand where every POSIX system has them.
os.environ['PATH'] = os.pathsep.join((os.environ.get('PATH', ''), os.defpath)).lstrip(os.pathsep)
