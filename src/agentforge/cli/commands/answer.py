"""`agentforge approve`, `reject` and `answer`: decide what a run asks."""

from typing import Unpack

import click

from agentforge.cli.invocation import Invocation, engine_options, invocation
from agentforge.cli.request_choice import (
    TargetAnswer,
    choose_request,
    read_open_requests,
    request_options,
)
from agentforge.cli.start import answer_and_continue, reply_options
from agentforge.model.errors import InvalidRequest
from agentforge.model.request import ABORT, APPROVE, REJECT
from agentforge.model.run_options import CapOptions
from agentforge.views.answers import APPROVED_WITH, reject_command
from agentforge.views.lines.requests import question_text
from agentforge.views.text import one_line


@click.command()
@request_options
@reply_options
@engine_options
def approve(
    session: str | None, request: str | None, detach: bool, trust: bool, **caps: Unpack[CapOptions]
) -> int:
    """Approve a stage's result, a checkpoint, or a hook's pause.

    The run continues. The result is accepted as it was shown: the stage doesn't run again. `agentforge inbox
    show` shows it. SESSION can be omitted if only one request is open.
    """
    call = invocation()
    target = choose_request(call, session, request, APPROVED_WITH)
    answer = APPROVED_WITH[target.request.kind] if target.request else APPROVE
    return answer_and_continue(call, TargetAnswer(target, answer), is_detached=detach, trust=trust, **caps)


@click.command()
@request_options
@click.option("-f", "--feedback", metavar="TEXT", help="Feedback for the next visit of the stage.")
@click.option("--abort", is_flag=True, help="End the run instead; it can't be resumed.")
@reply_options
@engine_options
def reject(
    *,
    session: str | None,
    request: str | None,
    feedback: str | None,
    abort: bool,
    detach: bool,
    trust: bool,
    **caps: Unpack[CapOptions],
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
    asked = target.request
    if not abort and asked is not None and asked.kind != "approval":
        name = one_line(asked.subject)
        what = f"checkpoint {name!r} comes before a stage"
        if asked.kind == "pause":
            what = f"hook {name!r} paused the run"
        raise InvalidRequest(f"{what}: there is no result to reject", hint="use --abort to end the run")
    reply = TargetAnswer(target, ABORT) if abort else TargetAnswer(target, REJECT, feedback or "")
    return answer_and_continue(call, reply, is_detached=detach, trust=trust, **caps)


@click.command()
@request_options
@click.argument("answer", required=False)
@click.option(
    "--reason",
    metavar="TEXT",
    default="",
    help="Reason for the answer, recorded in the log; required for `accept`.",
)
@reply_options
@engine_options
def answer(
    session: str | None,
    request: str | None,
    answer: str | None,
    *,
    reason: str,
    detach: bool,
    trust: bool,
    **caps: Unpack[CapOptions],
) -> int:
    """Answer a question of a run and continue the run.

    ANSWER is one of the request's options, a number if the request accepts one, or any text for a question
    without options. The first answer counts. SESSION can be omitted if only one request is open. For
    approvals, use `approve` and `reject`.
    """
    call = invocation()
    if session is None:
        raise click.UsageError(f"missing ANSWER; `{call.program} inbox` lists what is asked")
    if answer is None:
        _refuse_named(call, session)
        given = TargetAnswer(choose_request(call, None, request), session, reason)
    else:
        given = TargetAnswer(choose_request(call, session, request), answer, reason)
    asked = given.target.request
    if asked is not None and asked.kind == "approval" and given.answer == REJECT:
        # Without feedback it would end the run.
        command = reject_command(given.target.session, asked, call.program, only=True)
        raise click.UsageError(f"a rejection needs feedback: `{command}`, or --abort to end the run")
    return answer_and_continue(call, given, is_detached=detach, trust=trust, **caps)


def _refuse_named(call: Invocation, word: str) -> None:
    """A single argument is the answer to the only open request, unless it names a session or a request."""
    asked = [one.request for one in read_open_requests(call) if word in (one.session, one.request.id)]
    if asked or word in call.runs.sessions():
        options = f": {question_text(asked[0])}" if asked else ""
        raise click.UsageError(f"missing ANSWER for {word!r}{options}")
