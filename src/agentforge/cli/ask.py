"""Asks the person at the terminal: the request in place, or one that was picked from the inbox."""

import sys
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from agentforge.cli.invocation import Invocation
from agentforge.cli.output import echo, styled
from agentforge.cli.request_choice import Target, TargetAnswer, read_open_requests
from agentforge.cli.request_output import RequestSubject, show_request, show_subject
from agentforge.model.request import REJECT, Request
from agentforge.views.choices import FINAL, choices, chosen

if TYPE_CHECKING:
    from agentforge import OpenRequest, RunResult
    from agentforge.cli.request_watch import ClosedRequest, RequestWatch

VIEW, LATER = "v", "l"
HOOK_PAUSE = "hook_pause"
WAITING = frozenset({"awaiting_approval", "paused"})


def can_ask(call: Invocation) -> bool:
    """Whether a person is at the terminal; not for an engine in the background."""
    return not call.as_json and call.background is None and sys.stdin.isatty() and sys.stdout.isatty()


def ask_in_place(
    call: Invocation, result: "RunResult", put_off: set[str]
) -> "TargetAnswer | ClosedRequest | None":
    """The answer to a request of the run, or None: no request is answered now. `put_off`: the ids of
    those that are left for later."""
    if result.status.value not in WAITING or not can_ask(call):
        return None
    for one in _to_ask(read_open_requests(call, result.session), put_off):
        if reply := ask(call, one):
            return reply
        put_off.add(one.request.id)
    return None


def _to_ask(found: "Sequence[OpenRequest]", put_off: Collection[str]) -> "list[OpenRequest]":
    """All but what stops the run on purpose, and those that are left for later."""
    return [one for one in found if one.request.reason != HOOK_PAUSE and one.request.id not in put_off]


def ask(call: Invocation, one: "OpenRequest") -> "TargetAnswer | ClosedRequest | None":
    """Show the request and ask for an answer, until it was given here or elsewhere; None: later."""
    from agentforge.cli.request_watch import Closed, RequestWatch

    subject, watch = RequestSubject(call, one), RequestWatch(call, one)
    echo("")
    show_request(call, subject)
    try:
        return _reply(call, subject, watch)
    except Closed:
        echo("")
        return watch.closed()
    except (EOFError, KeyboardInterrupt):
        echo("")
        return None


def _reply(call: Invocation, subject: RequestSubject, watch: "RequestWatch") -> TargetAnswer | None:
    one = subject.one
    target = Target(one.session, one.request.id, one.request)
    while (answer := _answer(call, subject, watch)) is not None:
        label = _label_of_text(one.request, answer)
        text = read_line(f"{label} (leave empty to go back): ", watch) if label else ""
        if (text or not label) and _is_sure(one.request, answer, watch):
            return TargetAnswer(target, answer, text)
    return None


def _label_of_text(request: Request, answer: str) -> str:
    """What the person has to add to the answer; empty: nothing."""
    if request.kind == "approval" and answer == REJECT:
        return "Feedback"
    return "Reason" if request.needs_reason(answer) else ""


def _answer(call: Invocation, subject: RequestSubject, watch: "RequestWatch") -> str | None:
    request = subject.one.request
    _show_choices(request)
    while True:
        typed = read_line(f"Your {'answer' if request.takes_text else 'choice'}: ", watch)
        is_view = typed == ("?" if request.takes_text else VIEW)
        if not is_view and (answer := chosen(request, typed)) is not None:
            return answer
        if typed.lower() in ("", LATER):
            return None
        if is_view:
            show_subject(call, subject, verbose=True)
            _show_choices(request)
        else:
            echo("Choose one of the answers above.")


def _show_choices(request: Request) -> None:
    echo("")
    for choice in choices(request):
        echo(f"  {styled(choice.key, 'busy')}  {choice.text}")
    if request.grants:
        echo(f"  {styled('N', 'busy')}  number of further {request.grants} to grant")
    if request.takes_text:
        echo("  Type your answer; ? shows the output and the change, Enter skips the question.")
        return
    echo(f"  {styled(VIEW, 'busy')}  view the output and the full change")
    echo(f"  {styled(LATER, 'busy')}  later: leave it open")


def _is_sure(request: Request, answer: str, watch: "RequestWatch") -> bool:
    if request.kind == "question" or answer not in FINAL:
        return True
    return read_line("End the run? It can't be resumed. [y/N]: ", watch).lower() in ("y", "yes")


def read_line(prompt: str, watch: "RequestWatch | None" = None) -> str:
    """A line that was typed. Raises EOFError if the terminal is closed, and Closed if the request is."""
    with suppress(ImportError):
        import readline  # noqa: F401 - for editing the line
    sys.stdout.flush()
    with watch.watching() if watch else nullcontext():
        return input(prompt).strip()
