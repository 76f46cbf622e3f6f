"""The lines of the events of frozen files and of visits that are undone."""

from agentforge.model import facts as f
from agentforge.model.facts import AnyFact
from agentforge.model.frozen import FrozenFile

PLACE = "node=1 visit=1 iter=2"
TREE = "ab12" * 10

FILES_LINES: list[tuple[AnyFact, str, str | None]] = [
    (f.FilesStarted("look", "start"), f"{PLACE} files=look start attempt=1", None),
    (f.FilesPrepared("restore", "end", tree=TREE), f"{PLACE} files=restore end attempt=1 tree={TREE}", None),
    (f.VisitTree("look", "start", tree=TREE), f"{PLACE} files=look start attempt=1 tree={TREE}", None),
    (
        f.VisitTree("look", "start", problem="too many files"),
        f'{PLACE} files=look start attempt=1 tree_problem="too many files"',
        "build 2/3 no tree of the files: too many files",
    ),
    (
        f.FilesFrozen("freeze", stage="red", files=(FrozenFile("a.py", "0" * 64),), tree=TREE),
        f"{PLACE} files=freeze attempt=1 count=1 tree={TREE}",
        "build 2/3 froze 1 file: a.py",
    ),
    (f.FrozenVerified("restore", "end"), f"{PLACE} files=restore end attempt=1", None),
    (
        f.FilesRestored("restore", "end", paths=tuple("abcdef"), replaced=TREE),
        f"{PLACE} files=restore end attempt=1 paths=a,b,c,d,e replaced={TREE}",
        "build 2/3 frozen files were changed, and are restored: a, b, c, d, e and 1 more;"
        " what was there before is in tree ab12ab12ab12",
    ),
    (
        f.FilesRolledBack("rollback", paths=("a",), replaced=TREE),
        f"{PLACE} files=rollback attempt=1 paths=a replaced={TREE}",
        "build 2/3 undid what its agents changed: a; what was there before is in tree ab12ab12ab12",
    ),
    (
        f.FilesRolledBack("rollback"),
        f"{PLACE} files=rollback attempt=1",
        "build 2/3 nothing to undo: its agents left no change",
    ),
    (
        f.RollbackRefused("rollback", paths=("a",), reason="it was changed"),
        f'{PLACE} files=rollback attempt=1 reason="it was changed"',
        None,
    ),
    (
        f.FilesFailed("freeze", message="no such file"),
        f'{PLACE} files=freeze attempt=1 status=failed error="no such file"',
        "build 2/3 files freeze failed: no such file",
    ),
    (
        f.FilesEnding("freeze", reason="lunch"),
        f'{PLACE} files=freeze attempt=1 reason="lunch"',
        "build 2/3 stopping files freeze: lunch",
    ),
    (f.FilesLost("freeze"), f"{PLACE} files=freeze attempt=1", "build 2/3 lost files freeze (try 1)"),
]
