"""Asks the person at the terminal: the request in place, or one that was picked from the inbox."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from agentforge.cli.invocation import ABANDONED_SECONDS, Invocation
from agentforge.cli.output import echo, styled
from agentforge.cli.request_choice import ClosedRequest, Target, TargetAnswer, read_open_requests
from agentforge.cli.request_output import RequestSubject, show_request, show_subject
from agentforge.model.facts import RequestAnswered
from agentforge.model.request import REJECT, Request
from agentforge.views.answers import FINAL, choices, chosen
from agentforge.views.lines.requests import closed_text

if TYPE_CHECKING:
    from agentforge import OpenRequest, RunResult

VIEW, LATER = "v", "l"
HOOK_PAUSE = "hook_pause"
WAITING = frozenset({"awaiting_approval", "paused"})


LOOK_SECONDS = 0.5


class Closed(Exception):
    """What the person is asked about is no longer open."""


class RequestWatch:
    """Whether a request is still open while a person is asked about it."""

    def __init__(self, call: Invocation, one: "OpenRequest") -> None:
        self._call, self._session, self._id = call, one.session, one.request.id
        from agentforge import Runs

        self._runs = Runs(call.root, os.environ)
        self._seq = self._runs.info(one.session).state.seq
        self._left_at: float | None = None

    @property
    def is_closed(self) -> bool:
        state = self._runs.info(self._session).state
        if all(request.id != self._id for request in state.open_requests):
            return True
        if not self._runs.is_recoverable(self._session):
            self._left_at = None
            return False
        # The process that answered it may be about to continue the run.
        self._left_at = self._left_at or time.monotonic()
        return time.monotonic() - self._left_at > ABANDONED_SECONDS

    def closed(self) -> ClosedRequest:
        """What became of the request."""
        read_open_requests(self._call, self._session)  # Records an answer that no engine applied.
        for event in self._runs.events(self._session):
            if isinstance(event.fact, RequestAnswered) and event.fact.id == self._id:
                return ClosedRequest(self._session, closed_text(event.fact), event.seq)
        return ClosedRequest(self._session, closed_text(None), self._seq)


@contextmanager
def watching(watches: Sequence[RequestWatch]) -> Iterator[None]:
    """Raises Closed in the body as soon as all the requests are closed."""

    def look(*_: Any) -> None:
        if all(watch.is_closed for watch in watches):
            # A second signal must not interrupt what follows.
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Closed

    # The readline library waits for input without Python: only a signal interrupts it.
    before = signal.signal(signal.SIGALRM, look)
    try:
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def can_ask(call: Invocation) -> bool:
    """Whether a person is at the terminal; not for an engine in the background."""
    return not call.as_json and call.background is None and sys.stdin.isatty() and sys.stdout.isatty()


def ask_in_place(
    call: Invocation, result: "RunResult", put_off: set[str]
) -> TargetAnswer | ClosedRequest | None:
    """The answer to a request of the run, or None: no request is answered now. `put_off`: the ids of
    those that are left for later."""
    if result.status.value not in WAITING or not can_ask(call):
        return None
    for one in read_open_requests(call, result.session):
        # A hook that pauses the run means to stop it.
        if one.request.reason != HOOK_PAUSE and one.request.id not in put_off:
            if reply := ask(call, one):
                return reply
            put_off.add(one.request.id)
    return None


def ask(call: Invocation, one: "OpenRequest") -> TargetAnswer | ClosedRequest | None:
    """Show the request and ask for an answer, until it was given here or elsewhere; None: later."""
    # It may have been chosen from a list that was printed some time ago.
    watch = RequestWatch(call, one)
    if watch.is_closed:
        return watch.closed()
    subject = RequestSubject(call, one)
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


def _reply(call: Invocation, subject: RequestSubject, watch: RequestWatch) -> TargetAnswer | None:
    one = subject.one
    target = Target(one.session, one.request.id, one.request)
    while (answer := _answer(call, subject, watch)) is not None:
        is_rejection = one.request.kind == "approval" and answer == REJECT
        label = "Feedback" if is_rejection else "Reason" if one.request.needs_reason(answer) else ""
        text = read_line(f"{label} (leave empty to go back): ", watch) if label else ""
        # Without its text, the person is back at the choices.
        if label and not text:
            continue
        is_final = one.request.kind != "question" and answer in FINAL
        sure = read_line("End the run? It can't be resumed. [y/N]: ", watch) if is_final else "y"
        if sure.lower() in ("y", "yes"):
            return TargetAnswer(target, answer, text)
    return None


def _answer(call: Invocation, subject: RequestSubject, watch: RequestWatch) -> str | None:
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
        echo(f"  {styled('N', 'busy')}  number of further {request.unit} to grant")
    if request.takes_text:
        echo("  Type your answer; ? shows the output and the change, Enter skips the question.")
        return
    echo(f"  {styled(VIEW, 'busy')}  view the output and the full change")
    echo(f"  {styled(LATER, 'busy')}  later: leave it open")


def read_line(prompt: str, *watches: RequestWatch) -> str:
    """A line that was typed. Raises EOFError if the terminal is closed, and Closed if the requests are."""
    with suppress(ImportError):
        import readline  # noqa: F401 - for editing the line
    sys.stdout.flush()
    with watching(watches):
        return input(prompt).strip()
