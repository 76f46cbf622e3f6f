"""`agentforge list`: list the runs of a project."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import Invocation, WholeNumber, invocation, note_others, project_options
from agentforge.cli.output import echo, marked, note, print_json, styled, with_program, wrapped
from agentforge.model.status import status_text
from agentforge.views.lines.requests import waits_text
from agentforge.views.lines.status import STATUS_TONES, answered_text, running_check_text, wait_text
from agentforge.views.status import recover_command
from agentforge.views.text import age, one_line, padded, width

if TYPE_CHECKING:
    from agentforge import RunRow


@click.command("list")
@click.argument("count", type=WholeNumber(min=1), default=10)
@project_options
def list_runs(count: int) -> None:
    """List runs, latest first. `runs` is an alias."""
    call = invocation()
    note_others(call)
    rows = call.runs.rows(count)
    _note_stopped(call)
    if call.as_json:
        print_json(rows)
        return
    if not rows:
        echo(f"No runs yet in {call.root}")
        echo(f"  Start one: {call.program} run -p FILE")
        return
    now = datetime.now(UTC)
    for line in table(rows, now, call.program):
        echo(*wrapped(line))
    total = len(call.runs.sessions())
    if total > len(rows):
        echo(f"  {total - len(rows)} more: {call.program} list {total}")


def _note_stopped(call: Invocation) -> None:
    """Report why runs in the background stopped, or did not start."""
    for reason in call.runs.stopped():
        since = age((datetime.now(UTC) - reason.at).total_seconds())
        session = one_line(reason.session, 64)
        note(f"The engine of session '{session}' stopped {since}: {one_line(reason.message)}")
        if reason.hint:
            note(f"  hint: {one_line(with_program(reason.hint, call.program))}")


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
        else:
            below += [
                f"{one_line(request.question)} ({waits_text(request, now)})" for request in row.requests
            ]
        lines += [line for text in below for line in wrapped(f"    {marked('wait')} {text}", 6)]
        if row.check:
            lines += wrapped(f"    {marked('current')} {running_check_text(row.check, now)}", 6)
    return lines
