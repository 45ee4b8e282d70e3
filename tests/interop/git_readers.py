"""What other implementations of git make of a repository that we wrote: run by a judge's Python, prints JSON.

Not a test module. `python git_readers.py pygit2|dulwich PATH`: the branch's history, newest first, with every file's text.
"""
import json
import sys


def with_pygit2(path):
    import pygit2
    repo = pygit2.Repository(path)

    def files(tree, folder=''):
        for entry in tree:
            if entry.type_str == 'tree':
                yield from files(repo[entry.id], folder + entry.name + '/')
            else:
                yield folder + entry.name, [entry.filemode, repo[entry.id].data.decode()]
    return [{'id': str(one.id), 'message': one.message, 'author': one.author.name, 'files': dict(files(one.tree))}
            for one in repo.walk(repo.references['refs/heads/main'].target, pygit2.enums.SortMode.TOPOLOGICAL)]


def with_dulwich(path):
    from dulwich.object_store import iter_tree_contents
    from dulwich.repo import Repo
    repo = Repo(path)
    for pack in repo.object_store.packs:
        pack.check()                                      # every checksum of every pack and index
    found = []
    for step in repo.get_walker([repo.refs[b'refs/heads/main']]):
        files = {entry.path.decode(): [entry.mode, repo[entry.sha].data.decode()]
                 for entry in iter_tree_contents(repo.object_store, step.commit.tree)}
        found.append({'id': step.commit.id.decode(), 'message': step.commit.message.decode(),
                      'author': step.commit.author.decode().split(' <')[0], 'files': files})
    return found


if __name__ == '__main__':
    print(json.dumps({'pygit2': with_pygit2, 'dulwich': with_dulwich}[sys.argv[1]](sys.argv[2])))
