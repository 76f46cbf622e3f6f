"""`agentforge recover`: recover interrupted runs."""

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import click
from msgspec import Struct

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation, engine_options, invocation, note_others
from agentforge.cli.output import echo, echo_wrapped, note, print_json, show_error, styled
from agentforge.cli.run_options import options_for
from agentforge.cli.start import announce_agents
from agentforge.model.errors import AgentForgeError, HookMissing, UntrustedRun
from agentforge.model.names import session_argument
from agentforge.model.run_options import CapOptions, caps_of
from agentforge.model.status import status_text
from agentforge.views.lines.status import STATUS_TONES, program_text
from agentforge.views.stage_progress import completion_text, stage_progress
from agentforge.views.status import needed_hooks, resume_command, resume_command_of
from agentforge.views.text import padded, reason_text, width

if TYPE_CHECKING:
    from agentforge import Background, Engine, RunInfo, RunResult
    from agentforge.cli.background import Launched


class Recovered(Struct, frozen=True):
    """The outcome of one session."""

    session: str
    status: str
    iterations: int
    reason: str
    exit_code: int


@click.command()
@click.argument("session", required=False)
@click.option("--accept-damage", is_flag=True, help="Continue even if the log has damaged lines.")
@click.option("--detach", is_flag=True, help="Recover in the background, each run in tmux.")
@options_for(CapOptions)
@engine_options
def recover(session: str | None, accept_damage: bool, detach: bool, **caps: Unpack[CapOptions]) -> int:
    """Recover interrupted runs.

    A run is interrupted if its engine died or the machine went down. Runs that a shutdown paused, and runs
    whose request was answered or timed out, are recovered as well. Recovery reattaches to agents that are
    still running. Without SESSION, recovers all these runs of the project concurrently. Runs that a person
    paused or cancelled are not affected.
    Runs that were not started by you on this machine are skipped: `agentforge resume SESSION --trust`
    continues one. Runs that need hook functions of another program are skipped, too; run that program.
    """
    from agentforge import Engine, refuse_agent
    from agentforge.cli.attached import drive, drive_and_ask
    from agentforge.cli.log_output import set_up_logs

    call = invocation()
    set_up_logs(call)
    refuse_agent(os.environ, accept_damage=accept_damage, **caps)
    caps_of(caps["max_cost"], caps["max_tokens"])
    # Runs whose engine died after their last event need no engine, only their files.
    Engine(call.root).tidy()
    if session is None:
        note_others(call)
    names = call.runs.recoverable() if session is None else [session]
    if session is not None and (refusal := _reason_not_to_recover(call, session)):
        return _print_message(call, refusal)
    skipped = _skipped(call, names)
    if session is not None:
        for error in skipped.values():
            raise error
    _report_skipped(call, skipped)
    names = [name for name in names if name not in skipped]
    if not names:
        which = "no other run" if skipped else "no run"
        text = f"Nothing to recover: {which} of this project is interrupted."
        return _print_message(call, text, skipped)
    if detach:
        return _detach_all(call, names, skipped, caps, accept_damage=accept_damage)
    if len(names) == 1:
        name = names[0]
        status = drive_and_ask(
            call, lambda engine: _one(call, engine, name, caps, accept_damage=accept_damage)
        )
        if status is None:
            return _print_message(call, f"Another engine recovered session '{name}' just now.")
        return status
    driven = drive(
        call, lambda engine: _all(call, engine, names, caps, accept_damage=accept_damage), several=True
    )
    found = [_recovered(name, outcome, driven.signal) for name, outcome in (driven.outcome or {}).items()]
    return _conclude_all(call, found, driven.signal, skipped)


def _detach_all(
    call: Invocation,
    names: Sequence[str],
    skipped: Collection[str],
    caps: CapOptions,
    *,
    accept_damage: bool,
) -> int:
    """Recover each run in its own process; a failure of one doesn't affect the others."""
    from agentforge.cli.background import Detached, detach, in_background, show_detached

    flags = ["--accept-damage"] if accept_damage else []
    launched: list[Launched] = []
    failed: dict[str, AgentForgeError] = {}
    for name in names:

        async def prepare(engine: "Engine", background: "Background", name: str = name) -> Detached:
            background.refuse(name, force=False)
            await engine.limit(name, **caps)
            announce_agents(call, engine, call.runs.info(name), name if len(names) > 1 else "")
            return Detached(name, in_background("recover", call, name, flags))

        try:
            launched.append(detach(call, prepare))
        except AgentForgeError as error:
            failed[name] = error
    if call.as_json:
        errors = [{"session": name, "message": error.message} for name, error in failed.items()]
        print_json({"detached": [run.shown for run in launched], "failed": errors, "skipped": list(skipped)})
    else:
        for run in launched:
            show_detached(call, run)
    codes = [show_error(error, as_json=False, program=call.program) for error in failed.values()]
    return exit_codes.worst(codes)


async def _one(
    call: Invocation,
    engine: "Engine",
    session: str,
    caps: CapOptions,
    *,
    accept_damage: bool,
    several: bool = False,
) -> "RunResult | None":
    from agentforge.cli.log_output import current_session

    current_session.set(session)
    await engine.limit(session, **caps)
    announce_agents(call, engine, call.runs.info(session), session if several else "")
    return await engine.recover(session, accept_damage=accept_damage)


async def _all(
    call: Invocation, engine: "Engine", names: list[str], caps: CapOptions, *, accept_damage: bool
) -> dict[str, Any]:
    """Recover all sessions concurrently; a failure of one doesn't affect the others."""
    tasks = [
        asyncio.create_task(_one(call, engine, name, caps, accept_damage=accept_damage, several=True))
        for name in names
    ]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    return dict(zip(names, outcomes, strict=True))


def _reason_not_to_recover(call: Invocation, session: str) -> str:
    info = call.runs.info(session)
    status, shown = info.status, status_text(info.status, info.state.open_requests)
    if status == "interrupted" and call.runs.is_shell_run(session):
        command = resume_command(session, status, call.program, by_person=True)
        return f"Session '{session}' was started by the shell engine; run `{command}` to import it."
    if call.runs.is_recoverable(session):
        return ""
    if status == "interrupted" and info.is_archived:
        return f"Session '{session}' was renamed from '{info.state.session}'; {_next_step(call, info)}."
    if status in ("running", "completed", "aborted"):
        return f"Session '{session}' is {shown}: nothing to recover."
    return f"Session '{session}' is {shown}, not interrupted; {_next_step(call, info)}."


def _next_step(call: Invocation, info: "RunInfo") -> str:
    command = resume_command_of(info.session, info.state, info.status, call.program)
    if command is None:
        return f"answer its request: `{call.program} inbox show {session_argument(info.session)}`"
    if hooks := needed_hooks(info.plan, info.state):
        return f"resume it with {program_text(hooks)}"
    return f"run `{command}` to resume it"


def _skipped(call: Invocation, names: Sequence[str]) -> dict[str, AgentForgeError]:
    """Those that were not started here or need another program, with the reason."""
    from agentforge import Engine

    engine = Engine(call.root)
    found: dict[str, AgentForgeError] = {}
    for name in names:
        try:
            engine.refuse_untrusted(name)
            engine.refuse_missing_hooks(name)
        except UntrustedRun as error:
            hint = f"check what it would execute, then run `{_trust_command(call, name)}`"
            found[name] = UntrustedRun(error.message, hint=hint, executes=error.executes)
        except HookMissing as error:
            found[name] = error
    return found


def _report_skipped(call: Invocation, skipped: Mapping[str, AgentForgeError]) -> None:
    for name, error in skipped.items():
        if isinstance(error, UntrustedRun):
            see = f"`{call.program} status {session_argument(name)}`"
            note(
                f"Skipped session '{name}', which was not started by you on this machine."
                f" See {see}; `{_trust_command(call, name)}` continues it."
            )
        else:
            note(f"Skipped: {error.message}. {error.hint[:1].upper()}{error.hint[1:]}.")


def _trust_command(call: Invocation, session: str) -> str:
    return f"{call.program} resume --trust {session_argument(session)}"


def _print_message(call: Invocation, text: str, skipped: Collection[str] = ()) -> int:
    call.report({"recovered": [], "skipped": list(skipped), "message": text}, text)
    return exit_codes.COMPLETED


def _recovered(session: str, outcome: Any, signal: Any) -> Recovered:
    if outcome is None:
        return Recovered(session, "running", 0, "recovered by another engine", exit_codes.COMPLETED)
    if isinstance(outcome, AgentForgeError):
        code = exit_codes.BY_ERROR.get(outcome.code, exit_codes.FAILED)
        return Recovered(session, "interrupted", 0, outcome.message, code)
    if isinstance(outcome, BaseException):
        raise outcome
    code = exit_codes.of_result(outcome, signal)
    return Recovered(session, outcome.status.value, outcome.iterations, outcome.reason, code)


def _conclude_all(call: Invocation, found: list[Recovered], signal: Any, skipped: Collection[str]) -> int:
    if call.as_json:
        print_json({"recovered": found, "skipped": list(skipped)})
    elif not found:
        note("Stopped before any run started.")
    else:
        columns = max(width(row.session) for row in found)
        echo(f"Recovered {len(found)} sessions:")
        for row in found:
            reason = reason_text(row.reason)
            if row.status == "completed":
                info = call.runs.info(row.session)
                reason = completion_text(row.reason, stage_progress(info.plan, info.state))
            status = styled(f"{status_text(row.status):<11}", STATUS_TONES.get(row.status, "plain"))
            echo_wrapped(f"  {padded(row.session, columns)}  {status}  {reason}".rstrip())
    codes = [row.exit_code for row in found]
    return exit_codes.worst(codes) if codes or signal is None else exit_codes.of_signal(signal)
