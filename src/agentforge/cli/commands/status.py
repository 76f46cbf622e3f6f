"""`agentforge status`, `list` and `top`: how the runs of a project stand."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from agentforge.cli.invocation import (
    Invocation,
    WholeNumber,
    choose_session_to_show,
    engine_options,
    invocation,
    note_others,
    project_options,
)
from agentforge.cli.output import (
    echo,
    is_terminal,
    local_zone,
    marked,
    note,
    print_json,
    styled,
    with_program,
    wrapped,
)
from agentforge.model.status import status_text
from agentforge.views.lines.requests import waits_text
from agentforge.views.lines.status import (
    STATUS_TONES,
    answered_text,
    branch_text,
    running_check_text,
    stage_text,
    status_rows,
    verbose_rows,
    wait_text,
)
from agentforge.views.stage_progress import BranchProgress, StageProgress
from agentforge.views.status import StatusView, recover_command, status_view
from agentforge.views.text import age, one_line, padded, width
from agentforge.views.top import HEADS, TopRow, in_order, top_row, totals

if TYPE_CHECKING:
    from agentforge import Overview, RunInfo, RunRow


LABEL = 13


@click.command()
@click.argument("session", required=False)
@click.option("-v", "--verbose", is_flag=True, help="Also show the request, when it was created, and usage.")
@project_options
def status(session: str | None, verbose: bool) -> None:
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
    rows = status_rows(view, now, local_zone())
    for row in [*rows, *(verbose_rows(view, local_zone()) if verbose else ())]:
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
    return f"  {marked(stage.mark)} {padded(stage.id, columns)}  {done}{gap}{styled(reason, 'dim')}".rstrip()


def branch_line(branch: BranchProgress, columns: int) -> str:
    """One provider of a parallel block, below it."""
    name = styled(padded(branch.provider, columns), "strong")
    return f"      {marked(branch.mark)} {name}  {branch_text(branch)}"


@click.command("list")
@click.argument("count", type=WholeNumber(min=1), default=10)
@project_options
def list_runs(count: int) -> None:
    """List runs, latest first. `runs` is an alias."""
    call = invocation()
    note_others(call)
    rows = call.runs.rows(count)
    # Runs in the background whose engine stopped, or did not start: nothing else says why.
    for reason in call.runs.stopped():
        since = age((datetime.now(UTC) - reason.at).total_seconds())
        session = one_line(reason.session, 64)
        note(f"The engine of session '{session}' stopped {since}: {one_line(reason.message)}")
        if reason.hint:
            note(f"  hint: {one_line(with_program(reason.hint, call.program))}")
    if call.as_json:
        print_json(rows)
        return
    if not rows:
        echo(f"No runs yet in {call.root}")
        echo(f'  Start one: {call.named("agentforge run")} "REQUEST"')
        return
    now = datetime.now(UTC)
    for line in table(rows, now, call.program):
        echo(*wrapped(line))
    total = len(call.runs.sessions())
    if total > len(rows):
        echo(f"  {total - len(rows)} more: {call.program} list {total}")


def table(rows: "Sequence[RunRow]", now: datetime, program: str) -> list[str]:
    sessions = max(20, *(width(row.session) for row in rows))
    texts = [status_text(row.status, row.requests) for row in rows]
    statuses = max(10, *map(len, texts))
    head = f"  {padded('SESSION', sessions)} {'STATUS':<{statuses}} {'AGE':<12} STAGE"
    lines = [styled(head, "strong")]
    for row, text in zip(rows, texts, strict=True):
        shown = styled(f"{text:<{statuses}}", STATUS_TONES.get(row.status, "plain"))
        since = age((now - row.updated_at).total_seconds())
        iterations = f"({row.iterations} iter{'' if row.iterations == 1 else 's'})"
        stage = f"{row.stage} {iterations}" if row.stage else ""
        lines.append(f"  {padded(row.session, sessions)} {shown} {since:<12} {stage}".rstrip())
        below = [f"waiting: {wait_text(wait, now)}" for wait in row.waiting]
        if row.answered:
            below.append(answered_text(f"`{recover_command(row.session, program)}`"))
        below += [
            f"{one_line(request.question)} ({waits_text(request, now)})"
            for request in row.requests
            if not row.answered or request.id in row.unanswered
        ]
        lines += [line for text in below for line in wrapped(f"    {marked('wait')} {text}", 6)]
        if row.check:
            lines += wrapped(f"    {marked('current')} {running_check_text(row.check, now)}", 6)
    return lines


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
