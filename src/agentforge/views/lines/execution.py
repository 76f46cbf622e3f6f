"""What a run would execute, as lines for the person who decides whether to trust it."""

from collections.abc import Iterator, Sequence

import msgspec

from agentforge.model.execution import Execution
from agentforge.views.text import one_line, shortened

MAX_LINES = 20
COLUMNS = 400
"""Of one line: a long command is cut, and the plan in the log has all of it."""


def execution_lines(executes: Sequence[Execution]) -> list[str]:
    lines = [one_line(", ".join(_parts(execution))) for execution in executes[:MAX_LINES]]
    more = len(executes) - MAX_LINES
    shown = [shortened(line, COLUMNS) for line in lines]
    return [*shown, f"and {more} more"] if more > 0 else shown


def _parts(execution: Execution) -> Iterator[str]:
    name = f"{execution.provider} {execution.model}".strip()
    yield f"{execution.stage}: {name}"
    confined = execution.sandbox != "none"
    network = "" if execution.network else " without network"
    yield f"sandbox {execution.sandbox}{network}" if confined else "no sandbox"
    for title, values in (("settings", execution.settings), ("commands", execution.commands)):
        if values:
            yield f"{title} {msgspec.json.encode(values).decode()}"
