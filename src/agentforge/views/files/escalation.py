"""The files of the view `escalations`: one for each request of a run, and resolutions, which answer them."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.request import ABORT, APPROVE, CANCEL, CONTINUE, REJECT, RESUME, RETRY, Request
from agentforge.model.status import FINAL


class EscalationFile(Struct, frozen=True):
    escalation_id: str
    pipeline_id: str
    """The session."""
    stage: str
    issue: str
    """The question."""
    context: dict[str, Any]
    created_at: datetime
    status: Literal["pending", "resolved"] = "pending"
    resolved_at: datetime | None = None
    answer: str | None = None
    answered_by: str | None = None
    text: str | None = None

    @property
    def content(self) -> bytes:
        fields = msgspec.to_builtins(self)
        text: str = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)
        return text.encode("utf-8", "replace")


def escalation_id(run_id: str, request: str, opened_at: datetime) -> str:
    """The same for every process that writes the file again."""
    name = uuid.uuid5(uuid.NAMESPACE_OID, f"{run_id}/{request}")
    return f"ESC-{opened_at:%Y%m%d%H%M%S}-{name}"


class Escalations:
    """The requests of a run, folded from its events, as files that aren't written yet."""

    def __init__(self) -> None:
        self._open: dict[str, EscalationFile] = {}
        self.unwritten: dict[str, EscalationFile] = {}
        """By escalation id."""

    def apply(self, plan: Plan, event: Event) -> None:
        fact = event.fact
        match fact:
            case f.RequestOpened():
                self._put(fact.id, _opened(plan, event, fact))
            case f.RequestAnswered(id=id) if id in self._open:
                said = replace(
                    self._open[id], answer=fact.answer, answered_by=fact.by, text=fact.text or None
                )
                self._put(id, said)
            case f.RequestResolved(id=id) if id in self._open:
                self._close(id, event.at)
            # A failed run can be resumed, so its requests stay open.
            case _ if fact.run_status in FINAL:
                for id in tuple(self._open):
                    self._close(id, event.at)

    def _put(self, id: str, file: EscalationFile) -> None:
        self._open[id] = self.unwritten[file.escalation_id] = file

    def _close(self, id: str, at: datetime) -> None:
        self._put(id, replace(self._open[id], status="resolved", resolved_at=at))
        del self._open[id]


def _opened(plan: Plan, event: Event, fact: f.RequestOpened) -> EscalationFile:
    at = event.cursor
    stage = plan.stage(at.node_path, at.provider) if at else None
    context = {
        "request": fact.id,
        "kind": fact.kind,
        "reason": fact.reason,
        "options": list(fact.options),
        "answerers": list(fact.answerers),
        "branch": at.provider if at else None,
        "iteration": at.iteration if at else None,
        "due_at": fact.due_at,
        "default": fact.default,
    }
    return EscalationFile(
        escalation_id=escalation_id(event.trace_id, fact.id, event.at),
        pipeline_id=event.session,
        stage=stage.label if stage else "",
        issue=fact.question,
        context=context,
        created_at=event.at,
    )


def cancels(request: Request, given: Mapping[str, Any]) -> bool:
    """Whether a resolution ends the run instead of answering: any text would be an answer to a question."""
    return request.kind == "question" and given.get("abort") is True


def answer_of_resolution(request: Request, given: Mapping[str, Any]) -> tuple[str, str] | None:
    """The answer and the text of a resolution file, or None if it says nothing or isn't accepted."""
    said = _words(given.get("text", given.get("context")))
    answer = _words(given.get("answer"))
    if given.get("abort") is True:
        answer = {"escalation": CANCEL, "question": ""}.get(request.kind, ABORT)
    elif not answer and ("abort" in given or said):
        answer, said = continuation(request, said)
    is_complete = bool(said.strip()) or not request.needs_reason(answer)
    return (answer, said) if request.accepts(answer) and is_complete else None


def continuation(request: Request, said: str) -> tuple[str, str]:
    """The answer and its text, of a text that names no answer: about a result, it sends the stage back."""
    match request.kind:
        case "question":
            return said, ""
        case "approval":
            return (REJECT if said else APPROVE), said
        case "checkpoint":
            return APPROVE, said
        case "pause":
            return CONTINUE, said
        case _:
            return (RESUME if RESUME in request.options and request.reason != "verdict" else RETRY), said


def _words(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value.strip()
        case dict() | list():
            return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).strip()
        case _:
            return msgspec.json.encode(value).decode()
