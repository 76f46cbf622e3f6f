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
        "GitTrees._keep_replaced",
        "if not missing:\n    return",
        "return",
        TREES,
    ),
    Bug(
        GIT,
        "a new engine forgets the tree of the earlier one",
        "GitTrees._take",
        "self._noted(objects)",
        "{}",
        TREES,
    ),
    Bug(
        SCAN,
        "a file that was changed a moment ago counts as known",
        "TreeScan._file",
        "None if self._is_racy(stamp) else stamp",
        "stamp",
        equivalent="only two changes within one tick of the file system's clock show it",
    ),
    Bug(
        SCAN,
        "secrets are kept",
        "TreeScan._blob",
        "self._redactor.bytes(content)",
        "content",
        TREES,
    ),
    Bug(
        GIT,
        "an edit inside a submodule doesn't change the tree",
        "_with_submodules",
        "objects.add_tree(inner[path], store=False) if inner[path] else id",
        "id",
        TREES,
    ),
    Bug(
        GIT,
        "the engine's own files are in the tree",
        "GitTrees._parsed",
        "not can_be_in_tree(path) or (is_new and is_cache(path)) or self._is_left_out(path)",
        "is_new and is_cache(path) or self._is_left_out(path)",
        TREES,
    ),
    Bug(
        "agentforge.adapters.host.tree_scan",
        "without git, the engine's own files are in the tree",
        "_is_left_out",
        "is_cache(path) or not can_be_in_tree(path)",
        "is_cache(path)",
        ("tests/adapters/test_folder_trees.py",),
    ),
    Bug(
        REFERENCES,
        "a kept tree is a branch of the user",
        "",
        "'refs/agentforge'",
        "'refs/heads'",
        KEPT,
    ),
    Bug(
        REFERENCES,
        "a reference names a tree that is incomplete",
        "GitReferences._bring",
        "raise TreeFailed(f'the content {id[:12]} is missing in the repository')",
        "continue\nraise TreeFailed(f'the content {id[:12]} is missing in the repository')",
        KEPT,
    ),
    Bug(
        REFERENCES,
        "the references of runs with a similar name are removed, too",
        "GitReferences.drop",
        "f'{folder}/'",
        "folder",
        KEPT,
    ),
    Bug(
        "agentforge.runtime.tasks.agent",
        "an outcome is lost when the engine stops waiting for its tree",
        "TreeRecord.after",
        "self.forget()\nreturn outcome",
        "raise",
        RECORD,
    ),
    Bug(
        "agentforge.runtime.tasks.agent",
        "the tree before every attempt is recorded, changed or not",
        "TreeRecord.before",
        "if taken != before:\n    report(_tree_fact(attempt, taken))",
        "report(_tree_fact(attempt, taken))",
        RECORD,
    ),
    Bug(
        "agentforge.views.record",
        "a log may name anything as a tree",
        "RunRecord._see",
        "tree if tree is not None and is_tree_id(tree) else None",
        "tree",
        ("tests/views/test_work.py",),
    ),
)
