"""Open questions in words: what is asked, what may be answered, and how."""

from agentforge.model.state import Request
from agentforge.views.plain_text import one_line


def answer_command(session: str, request: Request, program: str, *, only: bool) -> str:
    """`only`: whether the run asks nothing else, so that the request needn't be named."""
    dash = "-- " if session.startswith("-") else ""
    named = "" if only else f" --request {request.id}"
    options = "|".join(request.options)
    return f"{program} answer{named} {dash}{session} {options}"


def request_lines(session: str, requests: tuple[Request, ...], program: str) -> list[tuple[str, str]]:
    """Each question, and the command that answers it."""
    only = len(requests) == 1
    return [
        (one_line(request.question), answer_command(session, request, program, only=only))
        for request in requests
    ]
