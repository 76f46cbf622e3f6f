"""What the demo shows: one line per thing that happens, and the table at the end."""

from typing import TYPE_CHECKING

from agentforge.model import facts as f
from agentforge.model.event import Event

if TYPE_CHECKING:
    from rich.console import Console

    from agentforge.cli.demo import Survived

MARKS: dict[str, tuple[str, str]] = {
    "note": ("·", "dim"),
    "command": ("$", "bold cyan"),
    "stage": ("▶", "bold"),
    "work": ("…", "dim"),
    "agent": ("│", "bright_black"),
    "done": ("✓", "green"),
    "kill": ("✗", "bold red"),
    "reattached": ("↻", "bold yellow"),
    "lost": ("!", "red"),
}
WITHIN_A_STAGE = frozenset({"work", "agent", "done", "reattached", "lost"})


class Screen:
    def __init__(self, console: "Console") -> None:
        self._console = console

    def show(self, kind: str, text: str) -> None:
        mark, style = MARKS[kind]
        indent = "  " if kind in WITHIN_A_STAGE else ""
        self._console.print(
            f"{indent}{mark} {text}", style=style, highlight=False, markup=False, soft_wrap=True
        )

    def show_table(self, survived: "Survived", kept: str | None) -> None:
        from rich.table import Table

        table = Table(title="What the run survived", title_justify="left", show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for name in survived.__struct_fields__:
            if name != "commit":
                table.add_row(name.replace("_", " "), str(getattr(survived, name)))
        self._console.print()
        self._console.print(table)
        self._console.print(f"Committed: {survived.commit}", style="green", highlight=False, markup=False)
        if kept:
            self._console.print(f"Kept in {kept}", highlight=False, markup=False)


def line_of(event: Event) -> tuple[str, str] | None:
    """What to show of an event, if anything: a kind and a text."""
    match event.fact:
        case f.NodeStarted(name=name):
            return "stage", name
        case f.AttemptStarted(attempt=attempt):
            iteration = event.cursor.iteration if event.cursor else 0
            return "work", f"iteration {iteration}, attempt {attempt}: the agent begins"
        case f.AttemptReattached(pid=pid):
            return "reattached", f"reattached to the running agent (supervisor PID {pid})"
        case f.AttemptLost(reason=reason):
            return "lost", f"attempt lost: {reason}"
        case f.IterationCompleted(result=result, duration_ms=duration):
            return "done", f"{result.summary} ({duration / 1000:.1f} s)"
        case f.ErrorOccurred(message=message):
            return "lost", message
        case f.SessionRecovered():
            return "reattached", "a new engine recovers the run from its log"
        case f.SessionCompleted():
            return "done", "the run is complete"
        case _:
            return None
