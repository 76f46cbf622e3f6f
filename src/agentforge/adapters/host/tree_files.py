"""The files of a folder that belong to its tree, without the help of git."""

from agentforge.adapters.host.tree_paths import can_be_in_tree, is_cache
from agentforge.adapters.host.tree_scan import TreeLimits, too_many_files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.search import FileSearch, TooManyEntries

_ENTRIES_PER_FILE = 2


def listed_files(root: str, limits: TreeLimits) -> list[str]:
    """Relative to the folder. Raises TooMuch."""
    with ConfinedFolder(root) as folder:
        search = FileSearch(folder, _ENTRIES_PER_FILE * limits.files)
        try:
            paths = search.below(links="listed", skip=_is_left_out)
            found = [path for path in paths if not _is_left_out(path)]
        except TooManyEntries:
            raise too_many_files(limits) from None
    if len(found) > limits.files:
        raise too_many_files(limits)
    return found


def _is_left_out(path: str) -> bool:
    return is_cache(path) or not can_be_in_tree(path)
