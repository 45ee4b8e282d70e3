"""The first tier: `python3 -m unittest`. tests/long holds the demanded counts, tests/interop the real peers."""
