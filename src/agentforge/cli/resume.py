"""Runs that stopped: `resume`, because a person says so, and `recover` for every run that was left behind."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation, chosen, driving, invocation, record_option
from agentforge.cli.output import note, print_json, styled
from agentforge.model.errors import AgentForgeError
from agentforge.views.lines.requests import request_lines
from agentforge.views.lines.status import STATUS_TONES
from agentforge.views.stage_progress import current_step
from agentforge.views.status import RESUMABLE, resume_command
from agentforge.views.text import padded, width

if TYPE_CHECKING:
    from agentforge.app.results import RunInfo, RunResult
    from agentforge.definition.compiler import Compiled
    from agentforge.model.facts import AnyFact
    from agentforge.sdk.engine import Engine


@click.command()
@click.argument("session", required=False)
@click.option("--context", metavar="TEXT", help="Something the agents should know from now on.")
@click.option("--force", is_flag=True, help="Stop the process that drives the run, and take over.")
@click.option("--recompile", is_flag=True, help="Go on by the definition as it is now.")
@click.option("--accept-damage", is_flag=True, help="Go on although lines of the log are damaged.")
@record_option
@driving
def resume(*, session: str | None, context: str | None, recompile: bool, record: bool, **how: bool) -> int:
    """Go on with a run that stopped.

    Paused, failed and interrupted runs can be resumed; past failures no longer count. The run keeps the
    plan that it began with, unless it is told to --recompile. Without SESSION, the only one that can be
    resumed.
    """
    call = invocation()
    name = chosen(call, session, RESUMABLE, "to resume")
    return go_on(
        call,
        name,
        context=context,
        recompile=lambda engine: engine.recompile(name) if recompile else False,
        force=how["force"],
        accept_damage=how["accept_damage"],
        record=record,
    )


def go_on(
    call: Invocation,
    session: str,
    *,
    context: str | None,
    force: bool,
    recompile: "Callable[[Engine], Compiled | bool]",
    accept_damage: bool = False,
    notes: "Sequence[AnyFact]" = (),
    record: bool = False,
) -> int:
    from agentforge.cli.attached import conclude, drive
    from agentforge.cli.log_output import current_session
    from agentforge.cli.run_options import show_warnings

    info = call.runs.info(session)
    if not call.as_json and info.status in RESUMABLE:
        click.echo(f"Resuming session '{info.session}' from {_place(info)}")
        _show_others(call, info)

    async def work(engine: "Engine") -> "RunResult":
        current_session.set(session)
        compiled = recompile(engine)
        if not isinstance(compiled, bool):
            show_warnings(compiled)
        return await engine.resume(
            session,
            context,
            force=force,
            accept_damage=accept_damage,
            recompile=compiled,
            notes=notes,
            record=record,
        )

    return conclude(call, drive(call, work))


def _show_others(call: Invocation, info: "RunInfo") -> None:
    """What a resume doesn't answer."""
    asked = info.state.open_requests
    lines = request_lines(info.session, asked, call.program)
    for request, (question, command) in zip(asked, lines, strict=True):
        if request.kind != "escalation" or "resume" not in request.options:
            click.echo(f"Still open: {question}\n  Answer it with `{command}`.")


def _place(info: "RunInfo") -> str:
    """`stage build, iteration 2`: where it goes on."""
    state = info.state
    completed = state.node.completed if state.node else 0
    number = state.iteration.number if state.iteration else completed + 1
    step = current_step(info.plan, state)
    stage = f"stage {step.node.id}, " if step and info.plan.mode != "loop" else ""
    return f"{stage}iteration {number}"


class Recovered(Struct, frozen=True):
    """What became of one session."""

    session: str
    status: str
    iterations: int
    reason: str
    exit_code: int


@click.command()
@click.argument("session", required=False)
@click.option("--accept-damage", is_flag=True, help="Go on although lines of the log are damaged.")
@driving
def recover(session: str | None, accept_damage: bool) -> int:
    """Recover interrupted runs.

    A run is interrupted when its engine died or the machine went down. It reattaches to agents that are
    still running. Without SESSION, all interrupted runs of the project, side by side. Runs that a person
    paused or cancelled aren't touched.
    """
    from agentforge.cli.attached import conclude, drive
    from agentforge.sdk.engine import Engine

    call = invocation()
    Engine(call.root).tidy()
    names = [session] if session is not None else _interrupted(call)
    if session is not None and (refusal := _nothing_to_do(call, session)):
        return _say_nothing(call, refusal)
    if not names:
        return _say_nothing(call, "Nothing to recover: no run of this project is interrupted.")
    if len(names) == 1:
        driven = drive(call, lambda engine: _one(engine, names[0], accept_damage=accept_damage))
        if driven.outcome is None and driven.signal is None:
            return _say_nothing(call, f"Another engine recovered session '{names[0]}' just now.")
        return conclude(call, driven)
    driven = drive(call, lambda engine: _all(engine, names, accept_damage=accept_damage), several=True)
    found = [_recovered(name, outcome, driven.signal) for name, outcome in (driven.outcome or {}).items()]
    return _conclude_all(call, found, driven.signal)


async def _one(engine: "Engine", session: str, *, accept_damage: bool) -> "RunResult | None":
    from agentforge.cli.log_output import current_session

    current_session.set(session)
    return await engine.recover(session, accept_damage=accept_damage)


async def _all(engine: "Engine", names: list[str], *, accept_damage: bool) -> dict[str, Any]:
    """One that can't be recovered doesn't keep the others from it."""
    tasks = [asyncio.create_task(_one(engine, name, accept_damage=accept_damage)) for name in names]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    return dict(zip(names, outcomes, strict=True))


def _interrupted(call: Invocation) -> list[str]:
    runs = call.runs
    rows = runs.rows(len(runs.sessions()))
    left = [row.session for row in rows if row.status == "interrupted" and row.kept_from is None]
    # A run of agent-pipelines is imported when a person says so.
    return [session for session in left if not runs.is_original(session)]


def _nothing_to_do(call: Invocation, session: str) -> str:
    status = call.runs.info(session).status
    if status == "interrupted" and call.runs.is_original(session):
        command = resume_command(session, status, call.program, by_person=True)
        return f"Session '{session}' was begun by agent-pipelines: `{command}` imports it."
    if status == "interrupted":
        return ""
    if status in ("running", "completed", "aborted"):
        return f"Session '{session}' is {status}: nothing to recover."
    command = resume_command(session, status, call.program)
    return f"Session '{session}' is {status}, not interrupted: `{command}` goes on with it."


def _say_nothing(call: Invocation, text: str) -> int:
    if call.as_json:
        print_json({"recovered": [], "message": text})
    else:
        click.echo(text)
    return exit_codes.COMPLETED


def _recovered(session: str, outcome: Any, signal: Any) -> Recovered:
    if outcome is None:
        return Recovered(session, "running", 0, "somebody else took it up", exit_codes.COMPLETED)
    if isinstance(outcome, AgentForgeError):
        code = exit_codes.BY_ERROR.get(outcome.code, exit_codes.FAILED)
        return Recovered(session, "interrupted", 0, outcome.message, code)
    if isinstance(outcome, BaseException):
        raise outcome
    code = exit_codes.of_result(outcome, signal)
    return Recovered(session, outcome.status.value, outcome.iterations, outcome.reason, code)


def _conclude_all(call: Invocation, found: list[Recovered], signal: Any) -> int:
    if call.as_json:
        print_json({"recovered": found})
    elif not found:
        note("Stopped before anything was started.")
    else:
        columns = max(width(row.session) for row in found)
        click.echo(f"Recovered {len(found)} sessions:")
        for row in found:
            status = styled(f"{row.status:<11}", STATUS_TONES.get(row.status, "plain"))
            click.echo(f"  {padded(row.session, columns)}  {status}  {row.reason}".rstrip())
    codes = [row.exit_code for row in found]
    return exit_codes.worst(codes) if codes or signal is None else exit_codes.of_signal(signal)
