"""Answers a request, and continues the run: attached, in the background, or in the engine that owns it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from agentforge.cli.background import Detached, detach, in_background, show_detached
from agentforge.cli.invocation import Invocation, options_of
from agentforge.cli.output import note, print_json
from agentforge.cli.request_choice import TargetAnswer
from agentforge.cli.trust import ask_for_trust, trust_option
from agentforge.views.lines.status import program_text
from agentforge.views.status import needed_hooks, resume_command

if TYPE_CHECKING:
    from agentforge import Background, Engine, RunResult

reply_options = options_of(
    click.option("--detach", is_flag=True, help="Continue the run in the background, in tmux."),
    trust_option,
)


def answer_and_continue(call: Invocation, reply: TargetAnswer, *, is_detached: bool, trust: bool) -> int:
    """Returns the exit status."""
    session = reply.target.session
    trusted = ask_for_trust(call, session, given=trust)
    if is_detached and call.runs.info(session).status != "running":
        return _detach(call, reply, trusted=trusted)

    async def work(engine: "Engine") -> "RunResult | None":
        if trusted:
            engine.trust(session)
        return await reply.give(engine)

    status = drive_and_ask(call, work)
    return _show_answered(call, reply) if status is None else status


def drive_and_ask(call: Invocation, work: "Callable[[Engine], Awaitable[RunResult | None]]") -> int | None:
    """Drive the run; whenever it stops to ask, ask the person at the terminal, and continue with the answer.
    Returns the exit status, or None if another engine drives the run."""
    from agentforge.cli.attached import conclude, drive
    from agentforge.cli.prompt import ask_in_place

    put_off: set[str] = set()
    driven = drive(call, work)
    while driven.outcome is not None and driven.signal is None:
        answered = ask_in_place(call, driven.outcome, put_off)
        if answered is None:
            break
        driven = drive(call, answered.give)
        if driven.outcome is None and driven.signal is None:
            return _show_answered(call, answered)
    return None if driven.outcome is None and driven.signal is None else conclude(call, driven)


def _detach(call: Invocation, reply: TargetAnswer, *, trusted: bool) -> int:
    """The answer is on the disk before the engine in the background starts, which applies it."""
    session = reply.target.session

    async def prepare(engine: "Engine", background: "Background") -> Detached:
        if trusted:
            engine.trust(session)
        background.refuse(session, force=False)
        await reply.give(engine, drive=False)
        return Detached(session, lambda _: in_background("recover", call, session))

    return show_detached(call, detach(call, prepare))


def _show_answered(call: Invocation, reply: TargetAnswer) -> int:
    """What happens next if this process doesn't continue the run."""
    session = reply.target.session
    if call.as_json:
        print_json({"session": session, "answer": reply.answer, "continued": False})
    else:
        note(f"Answered session '{session}': {reply.answer}. {_next_step(call, session)}")
    return 0


def _next_step(call: Invocation, session: str) -> str:
    info = call.runs.info(session)
    requests, reason = info.state.open_requests, info.state.pause_reason
    command = resume_command(session, info.status, call.program, requests=requests, reason=reason)
    if info.driver_pid is not None:
        return f"Its engine (PID {info.driver_pid}) continues the run."
    if hooks := needed_hooks(info.plan, info.state):
        return f"Run {program_text(hooks)} to continue; it calls `recover`."
    if info.status == "interrupted":
        return f"It has no active engine; run `{command}`."
    if command is None:
        return "The engine that runs it will apply the answer."
    return f"It is {info.status}; run `{command}` to apply the answer."
