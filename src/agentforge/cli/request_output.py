"""Prints a request: what is asked, and what it is about."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentforge.cli.invocation import Invocation
from agentforge.cli.output import echo, echo_patch, echo_row, is_terminal, styled, wrapped
from agentforge.model.errors import InvalidRequest
from agentforge.model.names import session_argument
from agentforge.views.answers import commands_of
from agentforge.views.lines.requests import options_text, question_text, waits_text
from agentforge.views.lines.work import changes_text, file_lines, output_lines, stage_title, work_rows
from agentforge.views.text import age, one_line, padded, width
from agentforge.views.work import iteration_json

if TYPE_CHECKING:
    from agentforge import IterationWork, OpenRequest, RunChange

LABEL = 11
LATEST = ("Summary", "Reason", "Judge", "Attempts", "For git")
"""The rows of an iteration that help to decide."""


HEADS = ("AGE", "SESSION", "STAGE", "REQUEST")


def request_list(call: Invocation, found: "Sequence[OpenRequest]", *, numbered: bool = False) -> list[str]:
    """All open requests: age, session, stage and id, and the question below. Numbered, or with the commands
    that answer."""
    now = datetime.now(UTC)
    rows = [
        (
            age((now - one.request.opened_at).total_seconds()).removesuffix(" ago"),
            one.session,
            _place(one) or "-",
            one.request.id,
        )
        for one in found
    ]
    columns = [max(width(row[n]) for row in [*rows, HEADS]) for n in range(len(HEADS))]
    lead = "    " if numbered else ""
    lines = [styled(f"{lead}{_joined(HEADS, columns)}", "strong")]
    for number, (one, row) in enumerate(zip(found, rows, strict=True), 1):
        lines.append(f"{f'{number:>2}  ' if numbered else ''}{_joined(row, columns)}")
        below = [question_text(one.request)]
        if one.request.due_at or "agent" in one.request.answerers:
            below.append(f"waits for {waits_text(one.request, now)}")
        if not one.is_own:
            below.append("not started here: use --trust to answer it")
        if not numbered:
            commands = commands_of(one.session, one.request, call.program, only=is_only(one, found))
            below += [styled(command, "busy") for command in commands]
        lines += [part for line in below for part in wrapped(f"{lead}    {line}", len(lead) + 6)]
    return lines


def _joined(cells: Sequence[str], columns: Sequence[int]) -> str:
    return "  ".join(padded(cell, room) for cell, room in zip(cells, columns, strict=True)).rstrip()


def _place(one: "OpenRequest") -> str:
    return f"{one.branch}: {one.stage}" if one.branch else one.stage


def is_only(one: "OpenRequest", found: "Sequence[OpenRequest]") -> bool:
    """Whether its session has no other open request."""
    return sum(other.session == one.session for other in found) == 1


class RequestSubject:
    """What a request is about: the latest iteration of its stage, and what the stage changed."""

    def __init__(self, call: Invocation, one: "OpenRequest") -> None:
        from agentforge import RunWork

        self.one = one
        self.work: RunWork = RunWork(call.runs, one.session)
        self.iteration: IterationWork | None = self.work.asked_about(one.request)

    @property
    def output(self) -> str | None:
        return self.work.output(self.iteration) if self.iteration else None

    def change(self, *, binary: bool = False) -> "RunChange | None":
        """Since the stage began; since the run began if no stage asked. None if unknown."""
        if self.iteration is not None:
            return self.work.stage_change(self.iteration, binary=binary)
        try:
            return self.work.total(binary=binary)
        except InvalidRequest:
            return None


def show_request(call: Invocation, subject: RequestSubject, *, verbose: bool = False) -> None:
    one = subject.one
    where = f", {_place(one)}" if one.stage else ""
    echo(f"{styled(f'{one.session}{where}', 'strong')}: {one.request.kind} {one.request.id}")
    if one.request.kind == "pause":
        echo_row("Hook", one_line(one.request.subject), LABEL)
    echo_row("Question", one_line(one.request.question), LABEL, tone="warn")
    echo_row("Options", options_text(one.request), LABEL)
    echo_row("Waits for", waits_text(one.request, datetime.now(UTC)), LABEL)
    show_subject(call, subject, verbose=verbose)


def show_subject(call: Invocation, subject: RequestSubject, *, verbose: bool) -> None:
    """The result, the output and the change."""
    work, iteration = subject.work, subject.iteration
    if iteration is not None:
        echo_row("Work", f"{stage_title(iteration, work.iterations)}, iteration {iteration.iteration}", LABEL)
        for row in work_rows(iteration, None, work.info.status):
            if row.label in LATEST:
                echo_row(row.label, row.value, LABEL)
                if row.label == "For git":
                    echo(*(f"    {line}" for line in row.lines))
    if output := list(output_lines(subject.output)):
        echo(f"  {styled('Output:', 'dim')}", *(f"    │ {line}" for line in output))
    # Contents of binary files are for `git apply`; a person can't read them.
    change = subject.change(binary=verbose and not is_terminal())
    since = "since the stage began" if iteration is not None else "since the run began"
    if change is None:
        echo_row("Changed", "not recorded", LABEL)
        return
    echo_row(
        "Changed",
        f"{changes_text(change.changes)} {since}" if change.changes.files else f"nothing {since}",
        LABEL,
    )
    echo(*(f"    {line}" for line in file_lines(change.changes)))
    if verbose and change.patch:
        echo("")
        echo_patch(change.patch)
    elif change.patch:
        command = f"{call.program} inbox show -v {session_argument(subject.one.session)}"
        echo(styled(f"  Full change: {command}", "dim"))


def request_json(
    call: Invocation, subject: RequestSubject, found: "Sequence[OpenRequest]", *, verbose: bool
) -> dict[str, Any]:
    change, iteration = subject.change(), subject.iteration
    shown = iteration_json(iteration, None) if iteration else None
    return {
        **listed_json(call, subject.one, found),
        "iteration": shown,
        "output": subject.output,
        "changed": change.changes.files if change else None,
        "diff": change.patch.decode("utf-8", "replace") if change and verbose else None,
    }


def listed_json(call: Invocation, one: "OpenRequest", found: "Sequence[OpenRequest]") -> dict[str, Any]:
    return {
        "session": one.session,
        "status": one.status,
        "stage": one.stage,
        "branch": one.branch,
        "trusted": one.is_own,
        "request": one.request,
        "answer_commands": commands_of(one.session, one.request, call.program, only=is_only(one, found)),
    }
