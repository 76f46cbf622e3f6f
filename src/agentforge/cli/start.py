"""Start and resume runs, attached to the terminal or in the background: shared by several commands."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from agentforge.cli import exit_codes
from agentforge.cli.background import Detached, cleaned_option, detach, in_background, show_detached
from agentforge.cli.invocation import Invocation, invocation, options_of, record_option, yes_option
from agentforge.cli.output import echo, echo_wrapped, ignore_closed_stdout, note, with_program
from agentforge.cli.run_options import (
    RunOptions,
    compile_and_warn,
    show_warnings,
    skip_check_options,
    skipped_checks,
)
from agentforge.cli.trust import ask_for_trust, trust_existing, trust_option
from agentforge.model.errors import LogCorrupt
from agentforge.model.status import FINAL
from agentforge.views.lines.requests import request_lines
from agentforge.views.stage_progress import current_step
from agentforge.views.status import resume_command_of

if TYPE_CHECKING:
    from agentforge import Background, Compiled, Engine, RunInfo, RunResult
    from agentforge.model.facts import AnyFact


def start_attached(given: RunOptions, notes: "Sequence[AnyFact]" = ()) -> int:
    """Start a run and stay attached to it."""
    from agentforge.cli.attached import drive_and_ask
    from agentforge.cli.log_output import current_session

    call = invocation()
    trusted = _is_trusted(call, given)

    async def work(engine: "Engine") -> "RunResult":
        compiled = compile_and_warn(given.compiled, engine)
        current_session.set(compiled.plan.session.name)
        if trusted:
            trust_existing(engine, compiled.plan.session.name)
        _announce_agents(call, engine, compiled)
        return await engine.start(
            compiled,
            force=given.force,
            notes=notes,
            record=given.record,
            approve=given.approve,
            skip_checks=given.skip_checks,
        )

    return drive_and_ask(call, work) or exit_codes.COMPLETED


def _announce_agents(call: Invocation, engine: "Engine", compiled: "Compiled") -> None:
    """Before the first agent: what it may do, which model it calls, and where it works."""
    line = "" if call.as_json else with_program(engine.agents(compiled), call.program)
    if line:
        with ignore_closed_stdout():
            echo_wrapped(line)


def _is_trusted(call: Invocation, given: RunOptions) -> bool:
    """Whether the person trusts the run that is resumed, or that has the name of the new one."""
    name = given.session
    if name is None or not (given.force or given.is_resumed) or name not in call.runs.sessions():
        return given.trust
    # A log that can't be read names nothing to execute: --force archives the run.
    with suppress(LogCorrupt):
        return ask_for_trust(call, name, given=given.trust)
    return given.trust


start_options = options_of(
    click.option("--force", is_flag=True, help="Stop and archive any run with this name, then start over."),
    click.option("--resume", "is_resumed", is_flag=True, help="Resume the session instead of starting it."),
    click.option("--recompile", is_flag=True, help="With --resume: recompile the definition first."),
    click.option(
        "--foreground/--tmux",
        "--no-tmux",
        "foreground",
        default=False,
        help="Stay attached, or run in the background.  [default: --tmux]",
    ),
    trust_option,
    record_option,
    yes_option,
    skip_check_options,
    cleaned_option,
)


def start_or_resume(options: dict[str, Any], **what: Any) -> int:
    from agentforge.model.session_name import session_name

    if what["session"] is not None:
        session_name(what["session"])
    foreground, notes = options.pop("foreground"), options.pop("notes")
    names = ("force", "recompile", "is_resumed", "record", "trust", "approve")
    how = {name: options.pop(name) for name in names}
    skipped = skipped_checks(options)
    given = RunOptions(options=options, skip_checks=skipped, **what, **how)
    if given.is_resumed:
        _refuse_ignored_options(given)
    if not foreground:
        return _start_in_background(invocation(), given)
    if given.is_resumed:
        return resume_attached(
            invocation(),
            what["session"],
            context=options["context"],
            force=given.force,
            recompile=given.recompiled,
            notes=notes,
            record=given.record,
            trust=given.trust,
            approve=given.approve,
            skip_checks=given.skip_checks,
        )
    return start_attached(given, notes)


async def _validate(call: Invocation, engine: "Engine", given: RunOptions, background: "Background") -> str:
    """Report errors while the terminal is still attached. Returns the session."""
    if given.is_resumed and given.session is not None:
        background.refuse(given.session, force=given.force)
        engine.validate_resume(
            given.session,
            force=given.force,
            recompile=given.recompiled(engine),
            approve=given.approve,
            skip_checks=given.skip_checks,
        )
        return given.session
    compiled = compile_and_warn(given.compiled, engine)
    session = compiled.plan.session.name
    background.refuse(session, force=given.force)
    await engine.validate_start(
        compiled, force=given.force, approve=given.approve, skip_checks=given.skip_checks
    )
    _announce_agents(call, engine, compiled)
    return session


def _refuse_ignored_options(given: RunOptions) -> None:
    """Reject options that would change the plan: they need --recompile on a resume."""
    plan = invocation().runs.info(given.session or "").plan
    if given.recompile:
        return
    names = {
        "provider": "--provider",
        "model": "--model",
        "settings": "--provider-config",
        "inputs": "--input",
        "commands": "--command",
    }
    for name, option in names.items():
        if given.options[name]:
            raise click.UsageError(f"a resumed run keeps its plan: use --recompile with {option}")
    kept = plan.only_stage.termination.max if plan.mode == "loop" else plan.passes
    if given.count not in (None, kept):
        note(f"The run keeps its plan ({kept}, not {given.count}): use --recompile to change it.")


def _start_in_background(call: Invocation, given: RunOptions) -> int:
    """Start the run in tmux, after validating it here."""
    given = replace(given, trust=_is_trusted(call, given))

    async def prepare(engine: "Engine", background: "Background") -> Detached:
        if given.trust and given.session is not None:
            trust_existing(engine, given.session)
        session = await _validate(call, engine, given, background)
        return Detached(session, lambda cleaned: given.arguments(call.root, session, cleaned), given.force)

    return show_detached(call, detach(call, prepare))


def resume_attached(
    call: Invocation,
    session: str,
    *,
    context: str | None,
    force: bool,
    recompile: "Callable[[Engine], Compiled | bool]",
    accept_damage: bool = False,
    notes: "Sequence[AnyFact]" = (),
    record: bool = False,
    trust: bool = False,
    approve: bool = False,
    restart_stage: bool = False,
    provider: str | None = None,
    skip_checks: Mapping[str, str] | None = None,
) -> int:
    from agentforge.cli.attached import drive_and_ask
    from agentforge.cli.log_output import current_session

    trusted = ask_for_trust(call, session, given=trust)
    info = call.runs.info(session)
    asks_only = resume_command_of(session, info.state, info.status) is None
    is_continued = info.state.status not in FINAL and (not asks_only or restart_stage or approve)

    async def work(engine: "Engine") -> "RunResult":
        current_session.set(session)
        if trusted:
            engine.trust(session)
        compiled = recompile(engine)
        if is_continued or not isinstance(compiled, bool):
            engine.validate_resume(
                session,
                force=force,
                recompile=compiled,
                restart_stage=restart_stage,
                provider=provider,
                approve=approve,
                skip_checks=skip_checks,
            )
        if is_continued and not call.as_json:
            echo(f"Resuming session '{info.session}' from {_place(info)}")
            _print_open_requests(call, info)
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
            approve=approve,
            restart_stage=restart_stage,
            provider=provider,
            skip_checks=skip_checks,
        )

    return drive_and_ask(call, work) or exit_codes.COMPLETED


def resume_detached(
    call: Invocation,
    session: str,
    flags: Sequence[str],
    *,
    force: bool,
    recompile: "Callable[[Engine], Compiled | bool]",
    trust: bool,
    **how: Any,
) -> int:
    """Resume the run in tmux, after validating it here."""
    trusted = ask_for_trust(call, session, given=trust)

    async def prepare(engine: "Engine", background: "Background") -> Detached:
        if trusted:
            engine.trust(session)
        background.refuse(session, force=force)
        engine.validate_resume(session, force=force, recompile=recompile(engine), **how)
        more = [*flags, *(["--trust"] if trusted else [])]
        return Detached(session, lambda cleaned: in_background("resume", call, session, more, cleaned), force)

    return show_detached(call, detach(call, prepare))


def _print_open_requests(call: Invocation, info: "RunInfo") -> None:
    """Print the open requests that `resume` doesn't answer."""
    asked = info.state.open_requests
    lines = request_lines(info.session, asked, call.program)
    for request, (question, command) in zip(asked, lines, strict=True):
        if request.resumes_with is None:
            echo_wrapped(f"Still open: {question}", f"  Answer it with `{command}`.")


def _place(info: "RunInfo") -> str:
    """Where the run continues, as in `stage build, iteration 2`."""
    state = info.state
    step = current_step(info.plan, state)
    stage = f"stage {step.node.id}, " if step and info.plan.mode != "loop" else ""
    at, completed = state.node, state.node.counted if state.node else 0
    if state.iteration is None and completed:
        # Whether another one follows is decided when the run continues.
        return f"{stage}after iteration {completed}"
    return f"{stage}iteration {state.iteration.number - at.asked if at and state.iteration else 1}"
