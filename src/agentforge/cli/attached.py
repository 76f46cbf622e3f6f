"""Runs that are attached to a terminal: with a display, stopped by signals, ending in a summary.

A run has one driver. `drive` drives runs with an engine of this process; `_followed` reads the log of a run
that another process drives. Both give a display the same pairs of an event and the run after it, so that a
run looks the same from every terminal.

A run that stops to ask may be answered here or elsewhere, and may be continued here or elsewhere. So each
answer leads to another drive, or to following another engine, until the run has ended, the person leaves it
or a signal stops it: that is the loop of `_ask_and_continue`.
"""

import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from agentforge import (
    AlreadyAnswered,
    Engine,
    RequestClosed,
    RunResult,
    Tail,
    protect_process,
    stop_on_signals,
)
from agentforge.cli import exit_codes
from agentforge.cli.controls import continued_by
from agentforge.cli.display import Display, display_for
from agentforge.cli.invocation import ABANDONED_SECONDS, Invocation
from agentforge.cli.log_output import RunLogger, set_up_logs
from agentforge.cli.output import echo, echo_wrapped, ignore_closed_stdout, note, print_json, styled, wrapped
from agentforge.cli.pipeline_lines import outcome_json, outcome_lines
from agentforge.cli.request_choice import ClosedRequest, TargetAnswer
from agentforge.model.errors import AgentForgeError, InvalidRequest
from agentforge.model.facts import SessionStarted
from agentforge.model.names import session_argument
from agentforge.model.status import status_text
from agentforge.views.answers import inspect_command, labelled_commands
from agentforge.views.lines.checks import waiver_text
from agentforge.views.lines.deliver import delivered_place
from agentforge.views.lines.requests import question_text
from agentforge.views.lines.status import program_text
from agentforge.views.run_model import RunModel
from agentforge.views.spending import cap_of_run, cost_text, spending_json
from agentforge.views.status import needed_hooks, resume_command, resume_command_of
from agentforge.views.text import counted, duration_text, one_line, reason_text

T = TypeVar("T")
POLL_SECONDS = 0.1
PAST_EVENTS = 12
"""How many past events are shown first."""
HINT = "Ctrl-C detaches; the run continues."


class DriveResult(Struct, frozen=True):
    """The outcome of a drive, and the signal that stopped it, or None."""

    outcome: Any
    """None if it was stopped before any run started."""
    signal: signal.Signals | None

    @property
    def is_elsewhere(self) -> bool:
        """Whether another engine drives the run."""
        return self.outcome is None and self.signal is None


def drive(call: Invocation, work: Callable[[Engine], Awaitable[T]], *, several: bool = False) -> DriveResult:
    """Run the work on an engine, with a display and signal handling."""
    # Its environment contains all of the user's secrets, of which an agent is given only some.
    protect_process()
    set_up_logs(call)
    return asyncio.run(_drive(call, work, several=several))


async def _drive(call: Invocation, work: Callable[[Engine], Awaitable[T]], *, several: bool) -> DriveResult:
    outcome: T | None = None
    engine = Engine(call.root)
    display = display_for(call, several=several)
    watching = asyncio.create_task(_watch(call, engine, display))
    try:
        with stop_on_signals(engine, display.stopping) as stopped:
            try:
                outcome = await work(engine)
            except asyncio.CancelledError:
                # A signal cancels the work; any other cancellation is not ours to hide.
                if stopped.signal is None:
                    raise
    finally:
        # In this order: closing records the last events, which `_watch` passes to the display.
        await engine.close()
        await watching
        display.close()
    return DriveResult(outcome, stopped.signal)


async def _watch(call: Invocation, engine: Engine, display: Display) -> None:
    logged = RunLogger(call.runs.events)
    # Several runs if `recover` continues all that were interrupted.
    runs: dict[str, RunModel] = {}
    try:
        async for event in engine.subscribe():
            run = runs.get(event.session)
            if run is None:
                run = runs[event.session] = RunModel()
                if not isinstance(event.fact, SessionStarted):
                    # Another process started it: its past is read from its files.
                    info = engine.status(event.session)
                    run.plan, run.state, run.summary = info.plan, info.state, info.summary
                    if call.is_acode:  # Its lines have the titles of steps, which an earlier artifact has.
                        for past in islice(call.runs.events(event.session), info.state.seq):
                            run.history.apply(past)
            run.catch_up(event)
            display.show(event, run)
            logged.log(event)
    except AgentForgeError as error:
        # A failing display must not stop the run.
        note(f"The display stopped: {error.message}")


def drive_and_ask(call: Invocation, work: Callable[[Engine], Awaitable[RunResult | None]]) -> int | None:
    """Drive the run; whenever it stops to ask, ask the person at the terminal, and continue with the answer.
    Returns the exit status, or None if another engine drives the run."""
    return _ask_and_continue(call, drive(call, work))


def _ask_and_continue(call: Invocation, driven: DriveResult | int) -> int | None:
    """`driven`: the exit status if this process doesn't drive the run."""
    from agentforge.cli.ask import ask_in_place

    put_off: set[str] = set()
    while not isinstance(driven, int) and driven.outcome is not None and driven.signal is None:
        reply = ask_in_place(call, driven.outcome, put_off)
        if reply is None:
            break
        driven = _continue_with(call, reply)
    if isinstance(driven, int):
        return driven
    return None if driven.is_elsewhere else show_conclusion(call, driven)


def _continue_with(call: Invocation, reply: TargetAnswer | ClosedRequest) -> DriveResult | int:
    """Returns the exit status if this process doesn't drive the run."""
    if isinstance(reply, ClosedRequest):
        return _continue_closed(call, reply)
    session = reply.target.session
    # Read before the answer is given: if it comes too late, all that happened since is shown.
    seen = call.runs.info(session).state.seq
    try:
        driven = drive(call, reply.give)
    except (AlreadyAnswered, RequestClosed) as error:
        return _continue_closed(call, ClosedRequest(session, f"{error.message}.", seen))
    return show_answered(call, reply) if driven.is_elsewhere else driven


def show_closed(call: Invocation, closed: ClosedRequest) -> int:
    """Show what follows a request that was closed elsewhere. Returns the exit status."""
    return _ask_and_continue(call, _continue_closed(call, closed)) or exit_codes.COMPLETED


def _continue_closed(call: Invocation, closed: ClosedRequest) -> DriveResult | int:
    """Follow the engine that continues the run; if none does, continue it here."""
    echo_wrapped(closed.text)
    session, seen = closed.session, closed.seq
    while True:
        followed = _followed(call, session, seen)
        info = call.runs.info(session)
        is_left = info.state.waits and call.runs.is_recoverable(session)
        if isinstance(followed, int) or not is_left or needed_hooks(info.plan, info.state):
            return followed
        # The process that answered has died, or left the run to be continued. Another one may begin at the
        # same moment: then this one follows it.
        driven = drive(call, lambda engine: engine.recover(session))
        if not driven.is_elsewhere:
            return driven
        seen = info.state.seq


def show_answered(call: Invocation, reply: TargetAnswer) -> int:
    """What happens next if this process doesn't continue the run."""
    session = reply.target.session
    if call.as_json:
        print_json({"session": session, "answer": reply.answer, "continued": False})
    else:
        note(f"Answered session '{session}': {reply.answer}. {_next_step(call, session)}")
    return exit_codes.COMPLETED


def _next_step(call: Invocation, session: str) -> str:
    info = call.runs.info(session)
    command = resume_command_of(session, info.state, info.status)
    command = call.named(command) if command else None
    if info.driver_pid is not None:
        return f"Its engine (PID {info.driver_pid}) continues the run."
    if hooks := needed_hooks(info.plan, info.state):
        return f"Run {program_text(hooks)} to continue; it calls `recover`."
    if info.status == "interrupted":
        return f"It has no active engine; run `{command}`."
    if command is None:
        return "The engine that runs it will apply the answer."
    return f"It is {info.status}; run `{command}` to apply the answer."


def show_conclusion(call: Invocation, driven: DriveResult, hooks: Sequence[str] = ()) -> int:
    """Print how the run stopped and what to do next. `hooks`: those that only the program has that drove it.
    Returns the exit status."""
    result: RunResult | None = driven.outcome
    if result is None:
        assert driven.signal is not None
        note("Stopped before any run started.")
        return exit_codes.of_signal(driven.signal)
    status = exit_codes.of_result(result, driven.signal)
    command = resume_command(
        result.session, result.status.value, requests=result.requests, reason=result.reason
    )
    command = call.named(command) if command else None
    then = styled(command, "busy") if command else ""
    # Another process would refuse to resume the run: it lacks these functions.
    if command and hooks:
        command, then = None, f"with {program_text(hooks)}"
    with ignore_closed_stdout():
        if call.as_json:
            shown = {key: value for key, value in asdict(result).items() if key != "spending"}
            shown |= {
                "outcome": result.outcome,
                "orchestration_code": result.orchestration_code,
                **spending_json(result.spending, result.caps),
            }
            print_json({**shown, "resume_command": command, **outcome_json(call, result)})
        else:
            lines = conclusion(result, call.program)
            lines += [
                f"  Only an agent verified the work: no check of stage {one_line(id)} could be used"
                for id in result.unverified
            ]
            if call.is_acode:
                lines[0] = f"  {_amount(result)}"  # The line of the event has said how it ended.
            lines += [f"  Waived: {waiver_text(waiver)}" for waiver in result.waivers]
            if result.delivered and (place := delivered_place(result.delivered)):
                lines.append(f"  {place}")
            lines += [f"  Recorded: {_shown(result.cassette)}"] if result.cassette else []
            lines += [f"  Resume: {then}"] if then else []
            lines += outcome_lines(call, result)
            echo(*(part for line in lines for part in wrapped(line)))
    return status


def conclusion(result: RunResult, program: str = "agentforge") -> list[str]:
    amount = _amount(result)
    match result.status.value:
        case "completed":
            return [f"{styled('✓ Completed', 'good')}: {amount}", f"  {_shown(result.run_dir)}"]
        case "failed":
            error = one_line(f"{result.error_type}: {result.error}")
            return [f"{styled('✗ Failed', 'bad')} after {amount}: {error}", f"  {_shown(result.run_dir)}"]
        case "aborted":
            return [f"{styled('✗ Cancelled', 'warn')} after {amount}: {reason_text(result.reason)}"]
        case _:
            if result.status.value == "awaiting_approval":
                waits = status_text(result.status, result.requests).capitalize()
                lines = [f"{styled(f'‖ {waits}', 'warn')} after {amount}"]
            else:
                lines = [f"{styled('‖ Paused', 'warn')} after {amount}: {reason_text(result.reason)}"]
            return [*lines, *_asked(result, program)]


def _amount(result: RunResult) -> str:
    spent = cost_text(result.spending, cap_of_run(result.caps, "cost_usd"))
    duration = duration_text(result.duration_seconds, result.waited_seconds)
    return f"{counted(result.iterations, 'iteration')} in {duration}{f', cost {spent}' if spent else ''}"


def _asked(result: RunResult, program: str) -> list[str]:
    """What is asked, and the commands that answer it."""
    lines = [f"  {question_text(request)}" for request in result.requests]
    only = len(result.requests) == 1
    for request in result.requests:
        commands = labelled_commands(result.session, request, program, only=only)
        lines += [f"  {label}: {styled(command, 'busy')}" for label, command in commands]
    inspect = inspect_command(result.session, result.requests, program)
    return lines + ([f"  Inspect: {styled(inspect, 'busy')}"] if inspect else [])


def _shown(path: str) -> str:
    inside = os.path.relpath(path)
    return path if inside.startswith("..") else inside


def follow_run(call: Invocation, session: str) -> int:
    """Show the run until it stops or the user detaches. Returns the exit status."""
    info = call.runs.info(session)
    if info.status != "running":
        hint = f"`{call.program_of('status')} status {session_argument(session)}` shows it"
        raise InvalidRequest(
            f"session {session!r} is {status_text(info.status, info.state.open_requests)}, not running",
            hint=hint,
        )
    followed = _followed(call, session)
    if isinstance(followed, int):
        return followed
    return show_conclusion(call, followed, needed_hooks(info.plan, info.state))


def _followed(call: Invocation, session: str, seen: int | None = None) -> DriveResult | int:
    """Show the run until it stops. Returns the exit status if the user detached or its engine died. `seen`:
    the latest event that was shown; None: show some past ones first."""
    display = display_for(call, follows=True)
    try:
        is_over = _follow(Tail(call.runs, session), display, seen)
    except KeyboardInterrupt:
        display.close()
        name = session_argument(session)
        note(
            f"Detached: session '{session}' continues.\n"
            f"  Attach: {call.program} attach {name}\n"
            f"  Stop:   {call.program_of('pause')} pause {name}"
        )
        return exit_codes.COMPLETED
    display.close()
    info = call.runs.info(session)
    if not is_over and info.status == "interrupted":
        then = continued_by(info, f"{call.program} recover {session_argument(session)}")
        note(f"Session '{session}' has no active engine; run {then}.")
        return exit_codes.FAILED
    return DriveResult(call.runs.info(session, cached=False).result if call.as_json else info.result, None)


def _follow(tail: Tail, display: Display, seen: int | None) -> bool:
    """Returns whether the run has stopped; False if its engine died."""
    run, past = RunModel(), deque(maxlen=PAST_EVENTS if seen is None else None)  # type: ignore[var-annotated]
    for event in tail.news():
        run.apply(event)
        # The model keeps changing, and each event is shown with the run as it was after it.
        if event.seq > (seen or 0):
            past.append((event, copy(run)))
    for event, then in past:
        display.show(event, then)
    if not tail.is_over:
        display.say(HINT)
    driven_at = time.monotonic()
    while not tail.is_over:
        if tail.is_driven:
            driven_at = time.monotonic()
        # An engine that hands the run over to another leaves it without one for a moment.
        elif time.monotonic() - driven_at > ABANDONED_SECONDS:
            return False
        time.sleep(POLL_SECONDS)
        for event in tail.news():
            run.apply(event)
            display.show(event, run)
    return True
