"""How a program asks a person: called by the controller when the run has stopped, never by the engine. The
answer takes the path of every other answer, so that one from a terminal or a file may be first."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

PREVIEW_CHARS = 500


@dataclass
class EscalationResolution:
    abort: bool = False
    context: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = dict(self.context or {})


@dataclass
class ApprovalResult:
    approved: bool
    feedback: str | None = None


class EscalationHandler(ABC):
    """The controller calls it in a thread of its own, and stops waiting when another answer was first."""

    timeout_seconds: float | None = None
    """When the controller stops waiting, and aborts the pipeline; None: never."""

    @abstractmethod
    def wait_for_resolution(
        self, pipeline_id: str, stage: str, issue: str, context: dict[str, Any] | None = None
    ) -> EscalationResolution | None:
        """Ask about a question or an escalation. None: no answer; one from elsewhere is waited for."""

    @abstractmethod
    def request_approval(
        self, pipeline_id: str, stage: str, artifact: dict[str, Any] | None
    ) -> ApprovalResult | None:
        """Ask whether the result of a stage is approved. None: no answer, as above."""


class DefaultEscalationHandler(EscalationHandler):
    """Prints what is asked, and where to write the resolution. On a terminal, it asks for approvals there."""

    def __init__(self, timeout_seconds: float = 86400) -> None:
        self.timeout_seconds = timeout_seconds

    def wait_for_resolution(
        self, pipeline_id: str, stage: str, issue: str, context: dict[str, Any] | None = None
    ) -> EscalationResolution | None:
        """The engine reads resolution files by itself: they are answers from elsewhere."""
        show(escalation_text(pipeline_id, stage, issue, context))
        return None

    def request_approval(
        self, pipeline_id: str, stage: str, artifact: dict[str, Any] | None
    ) -> ApprovalResult | None:
        show(approval_text(pipeline_id, stage, artifact))
        if not (sys.stdin and sys.stdin.isatty()):
            return None
        while True:
            try:
                said = input("\n   Approve? [y/n/feedback]: ").strip()
            except EOFError:
                return None
            if said.lower() in ("y", "yes"):
                return ApprovalResult(approved=True)
            if said.lower() in ("n", "no"):
                return ApprovalResult(approved=False)
            if said:
                return ApprovalResult(approved=False, feedback=said)


def escalation_text(
    pipeline_id: str, stage: str, issue: str, context: dict[str, Any] | None
) -> tuple[str, ...]:
    file = (context or {}).get("resolution_file")
    how = (
        (f"\n   To resolve, create: {file}", "   With: abort: false/true and context: {...}") if file else ()
    )
    return (
        "\n⚠️  ESCALATION REQUIRED",
        f"   Pipeline: {pipeline_id}",
        f"   Stage: {stage}",
        f"   Issue: {issue}",
        *how,
        f"   Or: agentforge answer {pipeline_id}",
    )


def approval_text(pipeline_id: str, stage: str, artifact: dict[str, Any] | None) -> tuple[str, ...]:
    preview = (
        yaml.safe_dump(artifact, sort_keys=False, allow_unicode=True)[:PREVIEW_CHARS] if artifact else ""
    )
    return (
        "\n📋 APPROVAL REQUIRED",
        f"   Pipeline: {pipeline_id}",
        f"   Stage: {stage}",
        "\n   Artifact preview:",
        preview,
        f"   Or: agentforge approve {pipeline_id}, agentforge reject {pipeline_id} -f TEXT",
    )


def show(lines: Iterable[str]) -> None:
    sys.stdout.write("\n".join((*lines, "")))
    sys.stdout.flush()
