"""The normalised result of an iteration, and its usage."""

import re
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field


class Decision(StrEnum):
    CONTINUE = "continue"
    STOP = "stop"
    ERROR = "error"
    ASK = "ask"


class WorkReport(Struct, frozen=True):
    items_completed: tuple[str, ...] = ()
    files_touched: tuple[str, ...] = ()


class Artifacts(Struct, frozen=True):
    outputs: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Signals(Struct, frozen=True):
    plateau_suspected: bool = False
    risk: str = "low"
    notes: str = ""


class AgentQuestion(Struct, frozen=True, omit_defaults=True):
    """A question that an agent asks in its result."""

    id: str
    question: str
    options: tuple[str, ...] = ()
    """Empty: any text is an answer."""
    default: str | None = None
    blocking: bool = True
    """Whether the stage waits for the answer; otherwise the default is used."""


class Result(Struct, frozen=True):
    """The result schema (v3), plus the agent's decision."""

    summary: str = ""
    work: WorkReport = field(default_factory=WorkReport)
    artifacts: Artifacts = field(default_factory=Artifacts)
    signals: Signals = field(default_factory=Signals)
    decision: Decision = Decision.CONTINUE
    reason: str = ""
    errors: tuple[str, ...] = ()
    questions: tuple[AgentQuestion, ...] | UnsetType = UNSET
    """Only with the decision `ask`."""
    verdict: str | UnsetType = UNSET
    """What the agent concluded about the work; its reason is `reason`."""
    items: tuple[str, ...] | UnsetType = UNSET
    """The items that the verdict is about."""

    @property
    def asked(self) -> tuple[AgentQuestion, ...]:
        return () if isinstance(self.questions, UnsetType) else self.questions


class Usage(Struct, frozen=True, omit_defaults=True):
    """Usage of an attempt; None means unknown, not zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    model: str | None = None
    agent_session: str | None = None


_AGENT_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")


def is_agent_session(text: str) -> bool:
    """Whether a text can be the id of an agent session: one word, neither an option nor a path."""
    return _AGENT_SESSION.fullmatch(text) is not None


JSONObject = dict[str, Any]
