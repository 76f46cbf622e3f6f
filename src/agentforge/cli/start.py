"""Start, resume and answer runs, attached to the terminal or in the background.

Both ways do the same in the same order: ask for trust, compile, validate, name the agents, act. In the
background, a second process repeats the command with `--foreground`; what can be refused is refused here,
before it starts, because what it prints is not seen.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

import click
from msgspec import Struct
from msgspec.structs import replace

from agentforge.cli import exit_codes
from agentforge.cli.background import (
    Arguments,
    Detached,
    cleaned_option,
    detach,
    in_background,
    show_detached,
)
from agentforge.cli.controls import ask_for_trust, trust_existing, trust_option
from agentforge.cli.invocation import Invocation, invocation, options_of
from agentforge.cli.output import echo, echo_wrapped, ignore_closed_stdout, note, with_program, wrapped
from agentforge.cli.request_choice import TargetAnswer
from agentforge.cli.run_options import (
    Definition,
    options_for,
    options_given,
    repeated,
    show_warnings,
    taken,
)
from agentforge.model.errors import LogCorrupt, UnknownRun
from agentforge.model.run_options import CapOptions, OverrideOptions, ResumeOptions, StartOptions
from agentforge.model.status import FINAL
from agentforge.views.lines.requests import request_lines
from agentforge.views.lines.status import step_text
from agentforge.views.stage_progress import current_step
from agentforge.views.status import resume_command_of
from agentforge.views.verification import unverified_text

if TYPE_CHECKING:
    from agentforge import Background, Compiled, Engine, RunInfo, RunResult


def start_attached(
    what: Definition,
    how: StartOptions,
    *,
    trust: bool,
    heading: Sequence[str] = (),
    complete: "Callable[[Compiled, StartOptions], StartOptions] | None" = None,
) -> int:
    """Start a run and stay attached to it. `heading`: lines that come first when it starts. `complete`: adds
    options that depend on the plan."""
    from agentforge.cli.attached import drive_and_ask
    from agentforge.cli.log_output import current_session

    call = invocation()
    trusted = _is_trusted(call, what.session, how, given=trust)

    async def work(engine: "Engine") -> "RunResult":
        compiled = what.compiled(engine)
        current_session.set(compiled.plan.session.name)
        if trusted:
            trust_existing(engine, compiled.plan.session.name)

        def announce() -> None:
            if heading and not call.as_json:
                with ignore_closed_stdout():
                    echo(*(line for text in heading for line in wrapped(text)))
            announce_agents(call, engine, compiled)

        # A refusal must not follow a line that names the agents of the run.
        options = complete(compiled, how) if complete else how
        return await engine.start(compiled, on_ready=announce, **options)

    return drive_and_ask(call, work) or exit_codes.COMPLETED


def announce_agents(
    call: Invocation, engine: "Engine", planned: "Compiled | RunInfo", session: str = ""
) -> None:
    """Before the first agent: what it may do, which model it calls, where it works, and whether anything but
    an agent verifies it. `session`: of several runs, the one that it is about."""
    line = "" if call.as_json else with_program(engine.agents(planned), call.program)
    if line:
        line += unverified_text(planned.plan, {})
        with ignore_closed_stdout():
            echo_wrapped(f"{session}: {line}" if session else line)


def _is_trusted(call: Invocation, session: str | None, how: StartOptions, *, given: bool) -> bool:
    """Whether the person trusts the run that has the name of the new one."""
    if session is None or not how.get("force") or session not in call.runs.sessions():
        return given
    # A log that can't be read, or is empty, names nothing to execute: --force archives the run.
    with suppress(LogCorrupt, UnknownRun):
        return ask_for_trust(call, session, given=given)
    return given


start_options = options_of(
    options_for(StartOptions),
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
    cleaned_option,
    options_for(OverrideOptions),
)


def start_or_resume(options: dict[str, Any], what: Definition) -> int:
    """`options`: those of `start_options`."""
    from agentforge.model.names import session_name

    call, context = invocation(), click.get_current_context()
    session, trust = what.session, options["trust"]
    if session is not None:
        session_name(session)

    def again(session: str, trusted: bool) -> Arguments:
        flags = ["--foreground", *repeated(context, trusted=trusted)]
        count = [] if what.count is None else [str(what.count)]
        words = [what.stage or what.pipeline or "", session, *count]
        return in_background(str(context.command.name), call, session, flags, words)

    if session is not None and options["is_resumed"]:
        recompile = options["recompile"]
        if not recompile:
            _refuse_ignored_options(call, session, what, options_given(context))
        how_resumed = taken(ResumeOptions, options)
        how_resumed["local"] = what.overrides.local
        resumption = Resumption(
            session,
            how_resumed,
            what.overrides.context,
            lambda engine: what.recompiled(engine, session) if recompile else False,
            again,
            trust=trust,
        )
        return resume(call, resumption, is_detached=not options["foreground"])
    how = taken(StartOptions, options)
    if options["foreground"]:
        return start_attached(what, how, trust=trust)
    trusted = _is_trusted(call, session, how, given=trust)

    async def prepare(engine: "Engine", background: "Background") -> Detached:
        if trusted and session is not None:
            trust_existing(engine, session)
        compiled, force = what.compiled(engine), how.get("force", False)
        name = compiled.plan.session.name
        background.refuse(name, force=force)
        await engine.validate_start(compiled, **how)
        announce_agents(call, engine, compiled)
        return Detached(name, again(name, trusted), force)

    return show_detached(call, detach(call, prepare))


def _refuse_ignored_options(
    call: Invocation, session: str, what: Definition, given: Mapping[str, str]
) -> None:
    """Reject options that would change the plan: they need --recompile on a resume."""
    plan = call.runs.info(session).plan
    for name, flag in given.items():
        if name in OverrideOptions.__annotations__ and name not in ("context", "local"):
            raise click.UsageError(f"a resumed run keeps its plan: use --recompile with {flag}")
    kept = plan.only_stage.termination.max if plan.mode == "loop" else plan.passes
    if what.count not in (None, kept):
        note(f"The run keeps its plan ({kept}, not {what.count}): use --recompile to change it.")


class Resumption(Struct, frozen=True):
    """A run to resume, as the command line says it."""

    session: str
    how: ResumeOptions
    context: str | None
    recompile: "Callable[[Engine], Compiled | bool]"
    again: Callable[[str, bool], Arguments]
    """The arguments of the same call in the background, for a session that the person trusts or not."""
    trust: bool = False


def resume(call: Invocation, what: Resumption, *, is_detached: bool) -> int:
    """Resume a run here or, after validating it here, in tmux."""
    session, how = what.session, what.how
    trusted = ask_for_trust(call, session, given=what.trust)
    if not is_detached:
        return _resume_attached(call, what, trusted=trusted)

    async def prepare(engine: "Engine", background: "Background") -> Detached:
        force = how.get("force", False)
        if trusted:
            engine.trust(session)
        background.refuse(session, force=force)
        compiled = what.recompile(engine)
        engine.validate_resume(session, recompile=compiled, **how)
        announce_agents(call, engine, _planned(call.runs.info(session), compiled))
        return Detached(session, what.again(session, trusted), force)

    return show_detached(call, detach(call, prepare))


def _resume_attached(call: Invocation, what: Resumption, *, trusted: bool) -> int:
    from agentforge.cli.attached import drive_and_ask
    from agentforge.cli.log_output import current_session

    session, how = what.session, what.how
    info = call.runs.info(session)
    # A run that only waits for an answer is not continued by `resume`: the engine says what to do instead.
    asks_only = resume_command_of(session, info.state, info.status) is None
    is_answered = not asks_only or any(map(how.get, ("restart_stage", "approve", "skip")))
    is_continued = info.state.status not in FINAL and is_answered

    async def work(engine: "Engine") -> "RunResult":
        current_session.set(session)
        if trusted:
            engine.trust(session)
        compiled = what.recompile(engine)
        # Before anything is printed: a refusal must not follow a line that says that the run is resumed.
        if is_continued or not isinstance(compiled, bool):
            engine.validate_resume(session, recompile=compiled, **how)
        if is_continued and not call.as_json:
            echo(f"Resuming session '{info.session}' from {_place(info)}")
            # Those that `resume` doesn't answer.
            asked = info.state.open_requests
            shown = request_lines(info.session, asked, call.program)
            for request, (question, command) in zip(asked, shown, strict=True):
                if request.resumes_with is None:
                    echo_wrapped(f"Still open: {question}", f"  Answer it with `{command}`.")
        if not isinstance(compiled, bool):
            show_warnings(compiled)
        if is_continued or not isinstance(compiled, bool):
            announce_agents(call, engine, _planned(info, compiled))
        return await engine.resume(session, what.context, recompile=compiled, **how)

    return drive_and_ask(call, work) or exit_codes.COMPLETED


def _planned(info: "RunInfo", compiled: "Compiled | bool") -> "RunInfo":
    """The run with its plan, or with the one that it gets."""
    return info if isinstance(compiled, bool) else replace(info, plan=compiled.plan)


def _place(info: "RunInfo") -> str:
    """Where the run continues, as in `stage build, iteration 2`."""
    state = info.state
    step = current_step(info.plan, state)
    stage = f"stage {step.node.id}, " if step and info.plan.mode != "loop" else ""
    at, completed = state.node, state.node.counted if state.node else 0
    if state.iteration is None and completed:
        # Whether another one follows is decided when the run continues.
        return f"{stage}after iteration {completed}"
    if at and (item := state.item_at(at.path, at.item_id)):
        return f"{stage}step {step_text(item)}"
    return f"{stage}iteration {state.iteration.number - at.asked if at and state.iteration else 1}"


reply_options = options_of(
    click.option("--detach", is_flag=True, help="Continue the run in the background, in tmux."),
    trust_option,
    options_for(CapOptions),
)


def answer_and_continue(
    call: Invocation, reply: TargetAnswer, *, is_detached: bool, trust: bool, **caps: Unpack[CapOptions]
) -> int:
    """Returns the exit status."""
    from agentforge.cli.attached import drive_and_ask, show_answered

    session = reply.target.session
    trusted = ask_for_trust(call, session, given=trust)

    async def work(engine: "Engine") -> "RunResult | None":
        if trusted:
            engine.trust(session)
        await engine.limit(session, **caps)
        return await reply.give(engine)

    # The answer is on the disk before the engine in the background starts, which applies it.
    async def prepare(engine: "Engine", background: "Background") -> Detached:
        if trusted:
            engine.trust(session)
        background.refuse(session, force=False)
        await engine.limit(session, **caps)
        await reply.give(engine, drive=False)
        return Detached(session, in_background("recover", call, session))

    # An engine that runs the session takes the answer: there is nothing to start beside it.
    if is_detached and call.runs.info(session).status != "running":
        return show_detached(call, detach(call, prepare))
    status = drive_and_ask(call, work)
    return show_answered(call, reply) if status is None else status
