"""The live display, drawn with Rich: past iterations scroll by above, the stages of the run stay below."""

import os
from datetime import UTC, datetime
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agentforge import AgentOutput
from agentforge.cli.output import MARKS
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus
from agentforge.views.answers import answer_command
from agentforge.views.hook_calls import hook_calls
from agentforge.views.lines.events import header_lines, run_line
from agentforge.views.lines.hooks import hook_call_text
from agentforge.views.lines.requests import QUESTION_CHARS, waits_text
from agentforge.views.lines.status import branch_text, running_check_text, stage_text, step_text
from agentforge.views.results import duration
from agentforge.views.run_model import RunModel, Summary
from agentforge.views.spending import cap_of_run, cap_views, cost_text
from agentforge.views.stage_progress import BranchProgress, StageMark, StageProgress, stage_progress
from agentforge.views.status import running_check, waiting
from agentforge.views.text import counted, one_line, printable, span

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MAX_STAGES = 10
MAX_REQUESTS = 3
BAR_COLUMNS = 24

STYLES = {"busy": "cyan", "good": "green", "bad": "red", "warn": "yellow", "dim": "dim"}
"""Rich styles by tone."""


def shown(text: str, style: str = "") -> Text:
    """A text on the screen; the only way to make one. Rich would pass control characters on."""
    return Text(printable(text), style)


def append(text: Text, more: str, style: str | None = None) -> Text:
    return text.append(printable(more), style)


class LivePainter:
    tick_seconds: float | None = 0.12

    def __init__(self, project: str, program: str, *, follows: bool) -> None:
        """`program`: as it is called, for commands that are shown. `follows`: another process drives the run,
        and may have ended it already: the elapsed time is that of the run, not of this process."""
        self._output = AgentOutput(project, os.environ)
        self._program = program
        self._run: RunModel | None = None
        self._notice = ""
        self._began = None if follows else monotonic()
        self._frame = 0
        self._console = Console(highlight=False)
        self._live: Live | None = None

    def event(self, event: Event, run: RunModel) -> None:
        plan, self._run = run.plan, run
        if plan is None:
            return
        live = self._started(plan)
        line = run_line(event, plan, run.state)
        # The rows of stages show what is running.
        if line and line.mark != "begin":
            mark, tone = MARKS[line.mark]
            text = append(shown(""), f"{line.subject} " if line.subject else "", "bold")
            append(text, line.text, "red" if line.level == "error" else "default")
            live.console.print(_hanging(mark, text, STYLES[tone]))

    def say(self, text: str) -> None:
        self._notice = text
        if self._live is None:
            self._console.print(shown(text, "yellow"))

    def tick(self) -> None:
        self._frame += 1
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    def end(self) -> None:
        if self._live is not None:
            self._notice = ""
            self._live.update(self._picture(), refresh=True)
            self._live.stop()

    def _started(self, plan: Plan) -> Live:
        # Not before the first event: a command that fails earlier leaves no empty picture behind.
        if self._live is None:
            first, *rest = header_lines(plan)
            self._console.print(shown(first, "bold"), shown("  ".join(rest), "dim"), sep="  ")
            self._live = Live(
                self._picture(), console=self._console, auto_refresh=False, transient=False, screen=False
            )
            self._live.start()
        return self._live

    def _picture(self) -> RenderableType:
        run = self._run
        if run is None or run.plan is None or run.state is None:
            return shown("")
        plan, state = run.plan, run.state
        parts: list[RenderableType] = [
            shown(""),
            self._stages(plan, state),
            self._footer(run.summary, plan, state),
        ]
        room = max(10, self._console.width - 5)
        for wait in waiting(plan, state):
            left = span((wait.until - datetime.now(UTC)).total_seconds())
            text = one_line(f"waiting {left} for {wait.provider}: {wait.stage}", room)
            parts.append(shown(f"  ‖ {text}", "yellow"))
        for call in hook_calls(plan, state):
            if call.status != "asking":
                text = f"hook {hook_call_text(call, datetime.now(UTC))}"
                parts.append(_hanging("▸", shown(text, "cyan"), "cyan"))
        parts += self._requests(state) if state.status is RunStatus.RUNNING else []
        for branch, output in self._output.last(plan, state):
            text = f"{branch}: {output}" if branch else output
            parts.append(shown(f"  │ {one_line(text, room)}", "dim"))
        if self._notice:
            parts.append(shown(f"  {self._notice}", "yellow"))
        return Group(*parts)

    def _requests(self, state: RunState) -> list[Table]:
        """What is asked while the rest of the run continues, of whom, and the commands that answer it."""
        now, parts = datetime.now(UTC), []
        only = len(state.open_requests) == 1
        for request in state.open_requests[:MAX_REQUESTS]:
            question = one_line(request.question, QUESTION_CHARS)
            command = answer_command(state.session, request, self._program, only=only)
            parts.append(_hanging("‖", shown(f"{question} ({waits_text(request, now)})", "yellow")))
            parts.append(_hanging("", shown(f"Answer: {command}", "cyan")))
        return parts

    def _stages(self, plan: Plan, state: RunState) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(width=3, justify="right")
        table.add_column(max_width=32, no_wrap=True, overflow="ellipsis")
        table.add_column(width=BAR_COLUMNS)
        table.add_column(no_wrap=True)
        rows = stage_progress(plan, state)
        for row in _window(rows):
            table.add_row(
                self._mark(row), shown(row.id, _name_style(row)), _bar(row), self._doing(row, state)
            )
            for branch in row.branches:
                name = shown(f"  {branch.provider}", _name_style(branch))
                text = shown(branch_text(branch), "red" if branch.error else "dim")
                table.add_row(self._mark(branch), name, _bar(branch), text)
        if hidden := len(rows) - len(_window(rows)):
            table.add_row("", shown(f"and {counted(hidden, 'stage')} more", "dim"))
        return table

    def _mark(self, row: StageProgress | BranchProgress) -> Text:
        if row.mark == "current":
            return shown(FRAMES[self._frame % len(FRAMES)], "bold cyan")
        mark, tone = MARKS[row.mark]
        return shown(mark, STYLES[tone])

    def _doing(self, row: StageProgress, state: RunState) -> Text:
        if row.mark != "current":
            return shown(stage_text(row), "dim")
        text = shown(stage_text(row), "bold")
        if call := running_check(state):
            return append(text, f"  {running_check_text(call, datetime.now(UTC))}", "cyan")
        at, iteration, attempt = state.node, state.iteration, state.attempt
        if at is None or iteration is None:
            is_delayed = at is not None and at.delay_due is not None
            return append(text, "  waiting before the next iteration", "dim") if is_delayed else text
        what = f"step {step_text(row.item)}: {one_line(row.item.id)}" if row.item else ""
        append(text, f"  {what or f'iteration {iteration.number - at.asked}'}", "cyan")
        if attempt is not None and attempt.number > 1:
            append(text, f"  attempt {attempt.number}", "yellow")
        return text

    def _footer(self, summary: Summary, plan: Plan, state: RunState) -> Text:
        spending, caps = state.spending, cap_views(plan, state)
        if self._began is None:
            elapsed = duration(state, state.status, datetime.now(UTC)) - summary.waited_seconds
        else:
            elapsed = monotonic() - self._began
        parts = [span(elapsed), counted(summary.iterations, "iteration")]
        if summary.errors:
            parts.append(counted(summary.errors, "error"))
        if spent := cost_text(spending, cap_of_run(caps, "cost_usd")):
            parts.append(spent)
        if cap := cap_of_run(caps, "tokens"):
            parts.append(cap.text)
        elif tokens := spending.input_tokens + spending.output_tokens:
            parts.append(f"{tokens:,} tokens")
        return shown("    " + " · ".join(parts), "dim")


def _hanging(mark: str, text: Text, style: str = "yellow") -> Table:
    """Text that is longer than a line is wrapped at words, below its start."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=3, justify="right")
    table.add_column(overflow="fold")
    table.add_row(shown(mark, style), text)
    return table


def _name_style(row: StageProgress | BranchProgress) -> str:
    return {"current": "bold", "waiting": "dim", "skipped": "dim", "failed": "red"}.get(row.mark, "default")


def _bar(row: StageProgress | BranchProgress) -> RenderableType:
    if row.mark in ("waiting", "skipped") or not row.total:
        return shown("")
    # A stage that ended early is complete: its maximum was no goal.
    completed = row.total if row.mark in ("done", "warning") else row.completed
    filled = min(BAR_COLUMNS, BAR_COLUMNS * completed // row.total)
    # Two characters, so that the bar can be read without colours.
    bar = shown("━" * filled, STYLES[MARKS[row.mark][1]])
    return append(bar, "─" * (BAR_COLUMNS - filled), "dim")


def _window(rows: tuple[StageProgress, ...]) -> tuple[StageProgress, ...]:
    """The rows around the current stage if there are too many to show."""
    if len(rows) <= MAX_STAGES:
        return rows
    marks = [row.mark for row in rows]
    prominent: tuple[StageMark, ...] = ("current", "stopped", "failed")
    current = next((marks.index(mark) for mark in prominent if mark in marks), len(rows) - 1)
    first = min(max(0, current - MAX_STAGES // 2), len(rows) - MAX_STAGES)
    return rows[first : first + MAX_STAGES]
