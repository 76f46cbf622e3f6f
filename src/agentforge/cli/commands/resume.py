"""`agentforge resume`: resume a stopped run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli.background import Arguments, cleaned_option, in_background
from agentforge.cli.controls import open_engine, trust_option
from agentforge.cli.invocation import Invocation, choose_session, engine_options, invocation
from agentforge.cli.request_choice import TargetAnswer, choose_request
from agentforge.cli.run_options import options_for, options_given, repeated, taken
from agentforge.cli.start import Resumption, answer_and_continue
from agentforge.cli.start import resume as resume_run
from agentforge.model.run_options import ResumeOptions
from agentforge.views.files.escalation import continuation
from agentforge.views.status import RESUMABLE

if TYPE_CHECKING:
    from agentforge import Compiled, Engine


@click.command()
@click.argument("session", required=False)
@click.option("--context", metavar="TEXT", help="Text to add to ${CONTEXT} in later prompts.")
@click.option(
    "-f",
    "--feedback",
    metavar="TEXT",
    help="Reject the result that waits for approval, or answer the open question, with this text; otherwise,"
    " the same as --context.",
)
@options_for(ResumeOptions)
@click.option("--recompile", is_flag=True, help="Recompile from the current definition before resuming.")
@click.option("--detach", is_flag=True, help="Resume in the background, in tmux.")
@cleaned_option
@trust_option
@engine_options
def resume(
    *,
    session: str | None,
    context: str | None,
    feedback: str | None,
    recompile: bool,
    detach: bool,
    trust: bool,
    **options: Any,
) -> int:
    """Resume a paused, failed or interrupted run.

    Resets failure counters. The run keeps the plan that it was started with unless --recompile is given.
    SESSION can be omitted if only one session can be resumed. To continue a run that waits for an approval or
    an answer, use `approve`, `reject` or `answer`, or give your text with -f.

    A run that was not started by you on this machine, such as one that came with a repository, is resumed
    only with --trust: its log decides which programs are run.
    """
    call, given = invocation(), click.get_current_context()
    how = taken(ResumeOptions, options)
    if how.get("provider") is not None and not how.get("restart_stage"):
        raise click.UsageError("--provider names the branch to start over: use it with --restart-stage")
    name = choose_session(call, session, RESUMABLE, "to resume")
    is_running = how.get("restart_stage") and call.runs.info(name).status == "running"
    if is_running and not how.get("force"):
        refuse_for_running(name, options_given(given))
        return restart_running(call, name, how)

    if feedback is not None:
        reply = answer_of(call, name, feedback)
        if reply is not None:
            refuse_others(options_given(given))
            return answer_and_continue(call, reply, is_detached=detach, trust=trust)
        context = "\n".join(filter(None, (context, feedback)))

    def recompiled(engine: "Engine") -> "Compiled | bool":
        return engine.recompile(name) if recompile else False

    def again(session: str, trusted: bool) -> Arguments:
        return in_background("resume", call, session, repeated(given, trusted=trusted))

    what = Resumption(name, how, context, recompiled, again, trust=trust)
    return resume_run(call, what, is_detached=detach)


def answer_of(call: Invocation, session: str, feedback: str) -> TargetAnswer | None:
    """What the text means for the run; None if it waits for no answer."""
    if not feedback.strip():
        raise click.UsageError("the feedback is empty: say what to do better, or leave -f out")
    target = choose_request(call, session)
    if target.request is None:
        return None
    answer, text = continuation(target.request, feedback)
    return TargetAnswer(target, answer, text)


def refuse_others(given: Mapping[str, str]) -> None:
    """An answer continues the run as it is."""
    for name, flag in given.items():
        if name not in ("feedback", "detach", "trust"):
            raise click.UsageError(f"{flag} can't be used with -f while the run waits for an answer")


def refuse_for_running(session: str, given: Mapping[str, str]) -> None:
    """A run that is running takes no options of a resume."""
    for name, flag in given.items():
        if name not in ("restart_stage", "provider", "trust"):
            raise click.UsageError(
                f"{flag} can't be used while session '{session}' is running;"
                " use --force to stop it and take over"
            )


def restart_running(call: Invocation, session: str, how: ResumeOptions) -> int:
    """The engine that runs the session starts its stage over."""
    with open_engine(call) as engine:
        engine.restart_stage(session, provider=how.get("provider"))
    said = f"Session '{session}' is restarting its current stage; its engine stops the agent first."
    call.report({"session": session, "asked": "restart"}, said)
    return 0
