"""The commands that answer requests, and the one that shows what is asked about."""

import shlex
from collections.abc import Iterator, Sequence

from agentforge.model.request import ACCEPT, APPROVE, CONTINUE, RETRY, Request
from agentforge.model.session_name import session_argument
from agentforge.views.text import one_line

APPROVED_WITH = {"approval": APPROVE, "checkpoint": APPROVE, "pause": CONTINUE}
"""The kinds of requests that `approve` and `reject` answer, with the answer of `approve`."""
LABELS = {
    "approval": ("Approve", "Reject"),
    "checkpoint": ("Approve", "Abort"),
    "pause": ("Continue", "Abort"),
}
"""What `approve` and `reject` do with each kind."""


def answer_command(session: str, request: Request, program: str, *, only: bool) -> str:
    """Uses the first option that needs no reason, so that it can be pasted unchanged; TEXT stands for any
    text. `only`: whether it is the only open request, so that it needn't be named."""
    named = "" if only else f" --request {request.id}"
    if request.kind in APPROVED_WITH:
        return f"{program} approve{named} {session_argument(session)}"
    plain = next((option for option in request.options if not request.needs_reason(option)), None)
    answer = shlex.quote(one_line(plain)) if plain is not None else "TEXT"
    return f"{program} answer{named} {session_argument(session)} {answer}"


def accept_command(session: str, request: Request, program: str, *, only: bool) -> str | None:
    """The command that continues despite a verdict; None if that isn't offered."""
    if ACCEPT not in request.options or not request.needs_reason(ACCEPT):
        return None
    named = "" if only else f" --request {request.id}"
    return f"{program} answer{named} --reason TEXT {session_argument(session)} {ACCEPT}"


def reject_command(session: str, request: Request, program: str, *, only: bool) -> str | None:
    """The command that sends the result back or ends the run; None if the request isn't an approval."""
    if request.kind not in APPROVED_WITH:
        return None
    named = "" if only else f" --request {request.id}"
    how = "-f TEXT" if request.kind == "approval" else "--abort"
    words = f"{how} -- {session}" if session.startswith("-") else f"{session} {how}"
    return f"{program} reject{named} {words}"


def retry_command(session: str, request: Request, program: str, *, only: bool) -> str | None:
    """The command that repeats what failed before a pause; None if that isn't offered."""
    if request.kind != "pause" or RETRY not in request.options:
        return None
    named = "" if only else f" --request {request.id}"
    return f"{program} answer{named} {session_argument(session)} {RETRY}"


def answer_commands(session: str, requests: Sequence[Request], program: str) -> list[str]:
    """All commands that answer the requests."""
    only = len(requests) == 1
    return [text for one in requests for text in commands_of(session, one, program, only=only)]


def commands_of(session: str, request: Request, program: str, *, only: bool) -> list[str]:
    """The command that answers the request, and, where they are offered, those that repeat, reject and
    accept."""
    return [command for _, command in labelled_commands(session, request, program, only=only)]


def labelled_commands(
    session: str, request: Request, program: str, *, only: bool
) -> Iterator[tuple[str, str]]:
    """`commands_of`, each with a label such as `Approve`, `Retry` or `Abort`."""
    answer, refuse = LABELS.get(request.kind, ("Answer", ""))
    commands = (
        (answer, answer_command),
        ("Retry", retry_command),
        (refuse, reject_command),
        ("Accept", accept_command),
    )
    for label, command in commands:
        if text := command(session, request, program, only=only):
            yield label, text


def inspect_command(session: str, requests: Sequence[Request], program: str) -> str | None:
    """The command that shows what is asked about, or None if nothing is."""
    return f"{program} inbox show {session_argument(session)}" if requests else None
