"""Answers a request, and continues the run: attached, in the background, or in the engine that owns it."""

from typing import TYPE_CHECKING

import click

from agentforge.cli.background import Detached, detach, in_background, show_detached
from agentforge.cli.controls import ask_for_trust, trust_option
from agentforge.cli.invocation import Invocation, options_of
from agentforge.cli.request_choice import TargetAnswer

if TYPE_CHECKING:
    from agentforge import Background, Engine, RunResult

reply_options = options_of(
    click.option("--detach", is_flag=True, help="Continue the run in the background, in tmux."),
    trust_option,
)


def answer_and_continue(call: Invocation, reply: TargetAnswer, *, is_detached: bool, trust: bool) -> int:
    """Returns the exit status."""
    from agentforge.cli.attached import drive_and_ask, show_answered

    session = reply.target.session
    trusted = ask_for_trust(call, session, given=trust)
    if is_detached and call.runs.info(session).status != "running":
        return _detach(call, reply, trusted=trusted)

    async def work(engine: "Engine") -> "RunResult | None":
        if trusted:
            engine.trust(session)
        return await reply.give(engine)

    status = drive_and_ask(call, work)
    return show_answered(call, reply) if status is None else status


def _detach(call: Invocation, reply: TargetAnswer, *, trusted: bool) -> int:
    """The answer is on the disk before the engine in the background starts, which applies it."""
    session = reply.target.session

    async def prepare(engine: "Engine", background: "Background") -> Detached:
        if trusted:
            engine.trust(session)
        background.refuse(session, force=False)
        await reply.give(engine, drive=False)
        return Detached(session, in_background("recover", call, session))

    return show_detached(call, detach(call, prepare))
