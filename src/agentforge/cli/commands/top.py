"""`agentforge top`: all runs of a project, live."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from agentforge.cli.commands.status import status_of
from agentforge.cli.invocation import Invocation, engine_options, invocation, note_others
from agentforge.cli.output import echo, print_json, styled
from agentforge.views.lines.status import STATUS_TONES
from agentforge.views.text import padded, width
from agentforge.views.top import HEADS, TopRow, in_order, top_row, totals

if TYPE_CHECKING:
    from agentforge import Overview


@click.command()
@click.option("--once", is_flag=True, help="Print one table and exit; the default without a terminal.")
@engine_options
def top(once: bool) -> None:
    """Show all runs of the project, live.

    For each run: its status, stage and iteration, the elapsed time, the cost, and what it waits for.

    \b
    Keys:
      up, down   select a run
      a, Enter   attach to it; Ctrl-C detaches
      s          show what its agents did
      p          pause it after its current iteration
      c          cancel it, after confirmation
      q          quit; the runs continue
    """
    from agentforge import Overview
    from agentforge.cli.display import can_draw

    call = invocation()
    overview = Overview(call.runs)
    if call.as_json:
        print_json(current_rows(call, overview))
    elif once or not (can_draw() and sys.stdin.isatty()):
        note_others(call)
        echo(*_table(call, current_rows(call, overview)))
    else:
        from agentforge.cli.top_screen import TopScreen

        TopScreen(call, lambda: current_rows(call, overview)).run()


def current_rows(call: Invocation, overview: "Overview") -> list[TopRow]:
    now = datetime.now(UTC)
    found = (
        top_row(status_of(info, now, call.program), now) if info else TopRow(session, "unknown")
        for session, info in overview.infos().items()
    )
    return in_order(found)


def _table(call: Invocation, rows: Sequence[TopRow]) -> list[str]:
    if not rows:
        return [f"No runs yet in {call.root}"]
    table = [HEADS, *(row.cells for row in rows)]
    columns = [max(width(cells[number]) for cells in table) for number in range(len(HEADS) - 1)]
    tones = ["strong", *(STATUS_TONES.get(row.status, "plain") for row in rows)]
    lines = []
    for cells, tone in zip(table, tones, strict=True):
        texts = [padded(cell, room) for cell, room in zip(cells, columns, strict=False)]
        texts[1] = styled(texts[1], tone)
        lines.append("  ".join([*texts, cells[-1]]).rstrip())
    return [*lines, styled(totals(rows), "dim")]
