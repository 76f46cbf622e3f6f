"""Which paths belong to the tree of a project, and those of a folder, without the help of git."""

from agentforge.adapters.host.project_files import OURS
from agentforge.adapters.host.tree_scan import TreeLimits, too_many_files
from agentforge.model.layout import OUTBOX
from agentforge.system.confined import ConfinedFolder
from agentforge.system.file_search import FileSearch, TooManyEntries

CACHE_FOLDERS = frozenset(
    {
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
        *(".venv", "venv", "node_modules", ".gradle", ".cache", ".turbo", ".terraform"),
    }
)
"""Programs fill these folders, also while a check runs. Git's trees have what is tracked of them."""
CACHE_FILES = frozenset({".coverage", ".eslintcache", ".DS_Store"})
_CACHE_ENDS = (".pyc", ".tsbuildinfo")
_EXCLUDED = frozenset({*OURS, OUTBOX})
_BELOW_EXCLUDED = tuple(f"{path}/" for path in _EXCLUDED)
_STEPS = frozenset({"", ".", "..", ".git"})
"""Not in the path of a file of a tree."""
_ENTRIES_PER_FILE = 2


def can_be_in_tree(path: str) -> bool:
    """Whether the path is neither the engine's nor git's own."""
    if path in _EXCLUDED or path.startswith(_BELOW_EXCLUDED):
        return False
    return _STEPS.isdisjoint(path.split("/"))


def is_cache(path: str) -> bool:
    """Whether a program fills the file or folder on its own."""
    steps = path.split("/")
    name = steps[-1]
    return not CACHE_FOLDERS.isdisjoint(steps) or name in CACHE_FILES or name.endswith(_CACHE_ENDS)


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
