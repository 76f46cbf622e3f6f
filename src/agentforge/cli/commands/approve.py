"""`agentforge approve` and `agentforge reject`: decide about a result, a checkpoint or a pause."""

import click

from agentforge.cli.answers import answer_and_continue, reply_options
from agentforge.cli.invocation import engine_options, invocation
from agentforge.cli.request_choice import Target, TargetAnswer, choose_request, request_options
from agentforge.model.errors import InvalidRequest
from agentforge.model.request import ABORT, APPROVE, REJECT
from agentforge.views.answers import APPROVED_WITH
from agentforge.views.text import one_line


@click.command()
@request_options
@reply_options
@engine_options
def approve(session: str | None, request: str | None, detach: bool, trust: bool) -> int:
    """Approve a stage's result, a checkpoint, or a hook's pause.

    The run continues. The result is accepted as it was shown: the stage doesn't run again. `agentforge inbox
    show` shows it. SESSION can be omitted if only one request is open.
    """
    call = invocation()
    target = choose_request(call, session, request, APPROVED_WITH)
    answer = APPROVED_WITH[target.request.kind] if target.request else APPROVE
    return answer_and_continue(call, TargetAnswer(target, answer), is_detached=detach, trust=trust)


@click.command()
@request_options
@click.option("-f", "--feedback", metavar="TEXT", help="Feedback for the next visit of the stage.")
@click.option("--abort", is_flag=True, help="End the run instead; it can't be resumed.")
@reply_options
@engine_options
def reject(
    *, session: str | None, request: str | None, feedback: str | None, abort: bool, detach: bool, trust: bool
) -> int:
    """Reject the result of a stage, with feedback.

    The stage runs again, and gets the feedback as ${FEEDBACK}. With --abort, the run ends instead. SESSION
    can be omitted if only one request is open.
    """
    call = invocation()
    if abort == (feedback is not None):
        raise click.UsageError("give either -f TEXT, to run the stage again, or --abort, to end the run")
    if feedback is not None and not feedback.strip():
        raise click.UsageError("the feedback is empty: say what to do better, or use --abort to end the run")
    target = choose_request(call, session, request, APPROVED_WITH)
    if not abort:
        _refuse_without_result(target)
    reply = TargetAnswer(target, ABORT) if abort else TargetAnswer(target, REJECT, feedback or "")
    return answer_and_continue(call, reply, is_detached=detach, trust=trust)


def _refuse_without_result(target: Target) -> None:
    request = target.request
    if request is None or request.kind == "approval":
        return
    name = one_line(request.subject)
    what = (
        f"hook {name!r} paused the run"
        if request.kind == "pause"
        else f"checkpoint {name!r} comes before a stage"
    )
    raise InvalidRequest(f"{what}: there is no result to reject", hint="use --abort to end the run")
