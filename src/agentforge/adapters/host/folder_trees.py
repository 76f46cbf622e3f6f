"""Trees of a project without a git repository.

The ids are those that git would give the same files, so that a tree has the same identity in both. The trees
themselves are kept, and not the content of the files: paths can be compared, but not lines.
"""

from functools import cached_property

from agentforge.adapters.host.git_objects import GitObjects
from agentforge.adapters.host.tree_paths import listed_files
from agentforge.adapters.host.tree_scan import ScannedTrees, TreeScan
from agentforge.ports.tree import KeptTree, NoTree, TakenTree
from agentforge.system import files


class FolderTrees(ScannedTrees):
    def is_possible(self) -> bool:
        return files.is_dir(self._project)

    def keep(self, tree: str, name: str) -> KeptTree | NoTree:
        return NoTree(f"the tree {tree[:12]} is not kept as {name}: the project is not a git repository")

    def _take(self, deadline: float) -> TakenTree | NoTree:
        files.make_dir(self._folder)
        scan = TreeScan(self._project, self._objects, self._redactor, self._limits, deadline, unstored=("",))
        scan.look(dict.fromkeys(self._listed(), ""), self._hashed)
        self._hashed = scan.hashed
        return TakenTree(self._objects.add_tree(scan.entries()), scan.omitted)

    @cached_property
    def _objects(self) -> GitObjects:
        """One for all trees, as it knows what is stored."""
        return GitObjects(self._folder, "sha1")

    def _listed(self) -> list[str]:
        found = listed_files(self._project, self._limits)
        return [path for path in found if not self._is_left_out(path)]
