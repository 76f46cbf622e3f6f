"""Text about frozen files and visits that are undone, and the rows of their facts."""

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.frozen import named
from agentforge.views.lines.checks import tree_text
from agentforge.views.lines.row import TEXT_CHARS, Details, RunLine, listed, quoted, row
from agentforge.views.text import counted, one_line


def _about(fact: f.FilesFact) -> Details:
    return {"files": one_line(fact.about), "attempt": fact.attempt}


def _looked(fact: f.VisitTree, _: Event) -> RunLine | None:
    if not fact.problem:
        return None
    return RunLine(f"no tree of the files: {one_line(fact.problem, TEXT_CHARS)}", "warning", "warn")


def _replaced(tree: str) -> str:
    return f"; what was there before is in tree {tree_text(tree)}" if tree else ""


def _restored(fact: f.FilesRestored, _: Event) -> RunLine:
    text = f"frozen files were changed, and are restored: {one_line(named(fact.paths), TEXT_CHARS)}"
    return RunLine(f"{text}{_replaced(fact.replaced)}", "warning", "warn")


def _rolled_back(fact: f.FilesRolledBack, _: Event) -> RunLine:
    if not fact.paths:
        return RunLine("nothing to undo: its agents left no change")
    text = f"undid what its agents changed: {one_line(named(fact.paths), TEXT_CHARS)}"
    return RunLine(f"{text}{_replaced(fact.replaced)}", "note", "warn")


def _frozen(fact: f.FilesFrozen, _: Event) -> RunLine:
    paths = tuple(file.path for file in fact.files)
    return RunLine(f"froze {counted(len(paths), 'file')}: {one_line(named(paths), TEXT_CHARS)}")


ROWS = (
    row(f.FilesStarted, "iteration", details=_about),
    row(f.FilesPrepared, "iteration", details=lambda x: {**_about(x), "tree": x.tree}),
    row(
        f.VisitTree,
        "iteration",
        details=lambda x: {
            **_about(x),
            "tree": x.tree or "",
            "tree_problem": quoted(x.problem),
            "inexact": listed(x.inexact[:5]),
        },
        line=_looked,
    ),
    row(
        f.FilesFrozen,
        "iteration",
        details=lambda x: {**_about(x), "count": len(x.files), "tree": x.tree},
        line=_frozen,
    ),
    row(f.FrozenVerified, "iteration", details=_about),
    row(
        f.FilesRestored,
        "iteration",
        details=lambda x: {**_about(x), "paths": listed(x.paths[:5]), "replaced": x.replaced},
        line=_restored,
    ),
    row(
        f.FilesRolledBack,
        "iteration",
        details=lambda x: {**_about(x), "paths": listed(x.paths[:5]), "replaced": x.replaced},
        line=_rolled_back,
    ),
    # The next line has the reason: the question.
    row(f.RollbackRefused, "iteration", details=lambda x: {**_about(x), "reason": quoted(x.reason)}),
)
