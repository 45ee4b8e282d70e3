"""git_plumbing.py - the article's own way to a commit: eight git processes an approval.

Article 4, "La ricostruzione" and "Quanto costa?": the reference that git_repo.py's one pack is measured and checked
against (`server.py --git plumbing`; `bench.py proposals`). Process by process: look up the marker, look up the branch,
read-tree, hash-object, update-index, write-tree, commit-tree, update-ref --stdin. The naive way leaves out the marker
and the old value: seven, of which five (from read-tree to commit-tree) lie between its look and its write.

Its objects are loose and not synced, and a `git gc --prune=now` at the wrong moment takes them: copy git_repo.py.
Not here: a main of its own, the reference transaction and the lock (git_repo.py).
"""
import os
import tempfile
from typing import List, Optional

import git_process
from git_lock import MARKERS
from git_objects import Build, GitError, Intent
from git_repo import Facts, Repository

# --- I/O ----------------------------------------------------------------------


class Plumbing(Repository):
    """A Repository whose looks and writes are processes."""

    def look_up(self, name: str) -> Optional[str]:
        return self.git('rev-parse', '--verify', '--quiet', name, allow=(0, 1)).strip() or None

    def facts(self, branch: str, marker: str, commit: Optional[str] = None) -> Facts:
        found, head = self.look_up(MARKERS + marker), self.look_up('refs/heads/' + branch)
        return Facts(head, found, self.contains(head, commit) if commit else None)

    def write(self, build: Build, intent: Intent, branch: str, marker: str) -> None:
        """Five processes; the commit must be the one that `build` foresaw."""
        with tempfile.TemporaryDirectory() as folder:
            index = {'GIT_INDEX_FILE': os.path.join(folder, 'index')}
            self.git('read-tree', intent.parent or '--empty', environ=index)
            blobs = self._blobs(folder, intent)
            rows = [f'{self._mode(intent.parent, path)} {blob}\t{path}\0'
                    for (path, _), blob in zip(intent.files, blobs)]
            self.git('update-index', '-z', '--index-info', text=''.join(rows), environ=index)
            tree = self.git('write-tree', environ=index).strip()
        made = self._commit(tree, intent)
        if made != build.commit:
            raise GitError('git_failed', f'commit-tree made {made}, foreseen was {build.commit}')

    def _blobs(self, folder: str, intent: Intent) -> list:
        places = [os.path.join(folder, str(number)) for number in range(len(intent.files))]
        for place, (_, text) in zip(places, intent.files):
            with open(place, 'wb') as file:
                file.write(text.encode('utf-8'))
        # --no-filters: attributes of the repository would change the bytes that the owner reviewed.
        return self.git('hash-object', '-w', '--no-filters', '--stdin-paths', text='\n'.join(places) + '\n').split()

    def _mode(self, parent: Optional[str], path: str) -> str:
        found = self.entry(parent, path)
        return '100755' if found and int(found[0], 8) & 0o100 else '100644'

    def _commit(self, tree: str, intent: Intent) -> str:
        people = {}
        for role, who, seconds in (('AUTHOR', intent.author, intent.author_s),
                                   ('COMMITTER', intent.committer, intent.committer_s)):
            name, _, email = who.partition(' <')
            people.update({f'GIT_{role}_NAME': name, f'GIT_{role}_EMAIL': email[:-1],
                           f'GIT_{role}_DATE': f'@{seconds} +0000'})
        parent = ['-p', intent.parent] if intent.parent else []
        return self.git('-c', 'i18n.commitEncoding=UTF-8', 'commit-tree', tree, *parent,
                        text=intent.message.rstrip('\n') + '\n', environ=people).strip()

    def _update(self, commands: List[str]) -> None:
        """The eighth process."""
        self._finish(self._start_updater(), 'update-ref', git_process.transaction(commands))

    def overwrite(self, branch: str, new: str) -> None:
        """demo only: the naive way. Whatever was put on the branch since the look is lost, and nobody is told."""
        self.git('update-ref', 'refs/heads/' + branch, new)
