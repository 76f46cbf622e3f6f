"""Text of open requests: the question, its options, and the command that answers it."""

from agentforge.model.request import Request
from agentforge.views.text import one_line, session_argument


def answer_command(session: str, request: Request, program: str, *, only: bool) -> str:
    """Uses the first option, so that it can be pasted unchanged. `only`: whether it is the only open request,
    so that it needn't be named."""
    named = "" if only else f" --request {request.id}"
    return f"{program} answer{named} {session_argument(session)} {request.options[0]}"


def request_lines(session: str, requests: tuple[Request, ...], program: str) -> list[tuple[str, str]]:
    """Each question with its options, and the command that answers it."""
    only = len(requests) == 1
    return [
        (
            f"{one_line(request.question)} [{', '.join(request.options)}]",
            answer_command(session, request, program, only=only),
        )
        for request in requests
        if request.options
    ]
