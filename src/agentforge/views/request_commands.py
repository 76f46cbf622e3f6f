"""The commands that answer requests, and the one that shows what is asked about."""

import shlex
from collections.abc import Iterator, Sequence

from agentforge.model.names import session_argument
from agentforge.model.request import ACCEPT, APPROVE, CONTINUE, RETRY, Request
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
    name = session_argument(session)
    if request.kind in APPROVED_WITH:
        return f"{program} approve{_named(request, only)} {name}"
    plain = next((option for option in request.options if not request.needs_reason(option)), None)
    answer = shlex.quote(one_line(plain)) if plain is not None else "TEXT"
    return f"{program} answer{_named(request, only)} {name} {answer}"


def reject_command(session: str, request: Request, program: str, *, only: bool) -> str:
    """The command that sends the result of an approval back, or ends the run."""
    how = "-f TEXT" if request.kind == "approval" else "--abort"
    # -f takes the next word, whatever it begins with; a session after `--` can't be taken for an option.
    words = f"{how} -- {session}" if session.startswith("-") else f"{session} {how}"
    return f"{program} reject{_named(request, only)} {words}"


def _named(request: Request, only: bool) -> str:
    return "" if only else f" --request {request.id}"


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
    name, answer = session_argument(session), f"{program} answer{_named(request, only)}"
    to_answer, to_reject = LABELS.get(request.kind, ("Answer", ""))
    yield to_answer, answer_command(session, request, program, only=only)
    if request.kind == "pause" and RETRY in request.options:
        yield "Retry", f"{answer} {name} {RETRY}"
    if request.kind in APPROVED_WITH:
        yield to_reject, reject_command(session, request, program, only=only)
    if ACCEPT in request.options and request.needs_reason(ACCEPT):
        yield "Accept", f"{answer} --reason TEXT {name} {ACCEPT}"


def inspect_command(session: str, requests: Sequence[Request], program: str) -> str | None:
    """The command that shows what is asked about, or None if nothing is."""
    return f"{program} inbox show {session_argument(session)}" if requests else None
