"""Bugs in the trees of a run: taken, recorded, compared."""

from tests.mutants.mutation import Mutation as Bug

TREES = ("tests/adapters/test_git_trees.py",)
RECORD = ("tests/runtime/test_tree_record.py",)
GIT = "agentforge.adapters.host.git_trees"
REFERENCES = "agentforge.adapters.host.git_references"
KEPT = ("tests/adapters/test_git_references.py",)
SCAN = "agentforge.adapters.host.tree_scan"

BUGS = (
    Bug(
        GIT,
        "content that only git has is not copied when it changes",
        "        if not missing:\n            return\n",
        "        return\n",
        TREES,
    ),
    Bug(
        GIT,
        "a new engine forgets the tree of the earlier one",
        "self._latest, self._taken = self._noted(objects), None",
        "self._latest, self._taken = {}, None",
        TREES,
    ),
    Bug(
        SCAN,
        "a file that was changed a moment ago counts as known",
        "None if self._is_racy(stamp) else stamp",
        "stamp",
        equivalent="only two changes within one tick of the file system's clock show it",
    ),
    Bug(
        SCAN,
        "secrets are kept",
        "        content = self._redactor.bytes(content)\n",
        "",
        TREES,
    ),
    Bug(
        GIT,
        "an edit inside a submodule doesn't change the tree",
        "        content = objects.add_tree(inner[path], store=False) if inner[path] else id\n",
        "        content = id\n",
        TREES,
    ),
    Bug(
        GIT,
        "the engine's own files are in the tree",
        "if not can_be_in_tree(path) or (is_new",
        "if (is_new",
        TREES,
    ),
    Bug(
        "agentforge.adapters.host.tree_paths",
        "without git, the engine's own files are in the tree",
        "return is_cache(path) or not can_be_in_tree(path)",
        "return is_cache(path)",
        ("tests/adapters/test_folder_trees.py",),
    ),
    Bug(
        REFERENCES,
        "a kept tree is a branch of the user",
        'SPACE = "refs/agentforge"',
        'SPACE = "refs/heads"',
        KEPT,
    ),
    Bug(
        REFERENCES,
        "a reference names a tree that is incomplete",
        "            if content is None:\n                return NoTree(",
        "            if content is None:\n                continue\n                return NoTree(",
        KEPT,
    ),
    Bug(
        REFERENCES,
        "the references of runs with a similar name are removed, too",
        'f"{folder}/".encode()',
        "folder.encode()",
        KEPT,
    ),
    Bug(
        "agentforge.runtime.tasks.tree_record",
        "an outcome is lost when the engine stops waiting for its tree",
        "            self.forget()\n            return outcome\n",
        "            raise\n",
        RECORD,
    ),
    Bug(
        "agentforge.runtime.tasks.tree_record",
        "the tree before every attempt is recorded, changed or not",
        "        if taken != before:\n            report(_fact(attempt, taken))\n",
        "        report(_fact(attempt, taken))\n",
        RECORD,
    ),
    Bug(
        "agentforge.views.work",
        "a log may name anything as a tree",
        "return tree if tree is not None and is_tree_id(tree) else None",
        "return tree",
        ("tests/views/test_work.py",),
    ),
)
