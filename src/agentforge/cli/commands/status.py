"""`agentforge status`: show the status of a run."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from agentforge.cli.invocation import choose_session_to_show, invocation, project_options
from agentforge.cli.output import (
    echo,
    is_terminal,
    local_zone,
    marked,
    print_json,
    styled,
    with_program,
    wrapped,
)
from agentforge.views.lines.status import branch_text, stage_text, status_rows
from agentforge.views.stage_progress import BranchProgress, StageProgress
from agentforge.views.status import StatusView, status_view
from agentforge.views.text import padded, width

if TYPE_CHECKING:
    from agentforge import RunInfo


LABEL = 13


@click.command()
@click.argument("session", required=False)
@project_options
def status(session: str | None) -> None:
    """Show the status of a run.

    SESSION can be omitted if there is only one unfinished session.
    """
    call = invocation()
    name = choose_session_to_show(call, session)
    now = datetime.now(UTC)
    view = status_of(call.runs.info(name), now, call.program)
    if call.as_json:
        print_json(view)
        return
    for row in status_rows(view, now, local_zone()):
        # In columns on a terminal; elsewhere as `Label: value`, which existing tools parse.
        label, value = f"{row.label}:", styled(row.value, row.tone)
        label = styled(padded(label, LABEL), "dim") if is_terminal() else label
        echo(*wrapped(f"{label} {value}", LABEL + 1))
    if len(view.stages) > 1 or any(stage.branches for stage in view.stages):
        echo(styled("Stages:", "dim") if is_terminal() else "Stages:")
        columns = max(width(stage.id) for stage in view.stages)
        for stage in view.stages:
            echo(stage_line(stage, columns))
            for branch in stage.branches:
                echo(branch_line(branch, max(width(other.provider) for other in stage.branches)))


def status_of(info: "RunInfo", now: datetime, program: str) -> StatusView:
    stopped = info.stopped and replace(info.stopped, hint=with_program(info.stopped.hint, program))
    return status_view(replace(info, stopped=stopped), now, program)


def stage_line(stage: StageProgress, columns: int) -> str:
    done, gap, reason = stage_text(stage).partition("  ")
    return f"  {marked(stage.mark)} {padded(stage.id, columns)}  {done}{gap}{styled(reason, 'dim')}"


def branch_line(branch: BranchProgress, columns: int) -> str:
    """One provider of a parallel block, below it."""
    name = styled(padded(branch.provider, columns), "strong")
    return f"      {marked(branch.mark)} {name}  {branch_text(branch)}"
