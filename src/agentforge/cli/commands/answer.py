"""`agentforge answer`: answer a request of a run."""

import click

from agentforge.cli.answers import answer_and_continue, reply_options
from agentforge.cli.invocation import Invocation, engine_options, invocation
from agentforge.cli.request_choice import TargetAnswer, choose_request, read_open_requests, request_options
from agentforge.model.request import REJECT
from agentforge.views.answers import reject_command
from agentforge.views.lines.requests import question_text


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
    session: str | None, request: str | None, answer: str | None, *, reason: str, detach: bool, trust: bool
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
    _refuse_plain_rejection(call, given)
    return answer_and_continue(call, given, is_detached=detach, trust=trust)


def _refuse_plain_rejection(call: Invocation, given: TargetAnswer) -> None:
    """Without feedback it would end the run."""
    request = given.target.request
    if request is not None and request.kind == "approval" and given.answer == REJECT:
        command = reject_command(given.target.session, request, call.program, only=True)
        raise click.UsageError(f"a rejection needs feedback: `{command}`, or --abort to end the run")


def _refuse_named(call: Invocation, word: str) -> None:
    """A single argument is the answer to the only open request, unless it names a session or a request."""
    asked = [one.request for one in read_open_requests(call) if word in (one.session, one.request.id)]
    if asked or word in call.runs.sessions():
        options = f": {question_text(asked[0])}" if asked else ""
        raise click.UsageError(f"missing ANSWER for {word!r}{options}")
