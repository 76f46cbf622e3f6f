"""Text about deliveries, and the rows of their facts. A step starts, is stopped, is lost and fails like any
task (`row.task_row`)."""

from agentforge.model import facts as f
from agentforge.model.delivery import DeliveredWork, DeliverRule
from agentforge.model.event import Event
from agentforge.views.lines.row import Details, RunLine, message, quoted, row
from agentforge.views.text import counted, one_line

SHORT = 12
"""Characters of a commit that are shown; git takes them as well."""


def delivered_text(work: DeliveredWork) -> str:
    """What became of the change, such as `committed 3 paths as 1a2b3c4d5e6f on main`."""
    paths = counted(work.count, "path")
    where = f" on {one_line(work.branch)}" if work.branch else ""
    match work.status:
        case "committed":
            return f"committed {paths} as {work.commit[:SHORT]}{where}"
        case "staged":
            return f"staged {paths}"
        case "files":
            return f"left {paths} in the workspace"
        case "patched":
            return f"wrote {paths} to {one_line(work.patch)}"
        case "pull_request":
            return f"opened {one_line(work.url)} with {paths}"
        case "no_changes":
            return "nothing changed, so nothing was delivered"
    return "a replay delivers nothing"


def delivered_place(work: DeliveredWork) -> str:
    """`Commit: <id>`, `PR: <url>` or `Patch: <file>`; or an empty text."""
    if work.url:
        return f"PR: {one_line(work.url)}"
    if work.patch:
        return f"Patch: {one_line(work.patch)}"
    return f"Commit: {work.commit}" if work.commit else ""


def rule_text(rule: DeliverRule) -> str:
    """What a stage is going to deliver."""
    match rule.mode:
        case "commit":
            return "a commit" if rule.auto_commit else "the change, staged"
        case "files":
            return "the files in the workspace"
        case "patch":
            return "a patch"
    return f"a pull request from a branch {rule.branch_prefix}ID"


def _delivered(fact: f.Delivered) -> Details:
    work = fact.work
    return {
        "mode": work.mode,
        "status": work.status,
        "paths": work.count,
        "commit": work.commit[:SHORT],
        "branch": one_line(work.branch),
        "url": one_line(work.url),
        "patch": one_line(work.patch),
    }


def _seen(fact: f.RepositorySeen, _: Event) -> RunLine | None:
    problem = fact.base.problem
    return RunLine(f"can't deliver: {message(problem)}", "warning", "warn") if problem else None


ROWS = (
    row(
        f.RepositorySeen,
        "visit",
        details=lambda x: {
            "tree": x.base.tree[:SHORT],
            "commit": x.base.head[:SHORT],
            "branch": one_line(x.base.ref),
            "remote": one_line(x.base.address),
            "problem": quoted(x.base.problem),
        },
        line=_seen,
    ),
    row(
        f.Delivered,
        "visit",
        details=_delivered,
        line=lambda x, _: RunLine(delivered_text(x.work), "done"),
    ),
)
