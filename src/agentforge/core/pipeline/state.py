"""The state of a pipeline, as it is shown and stored."""

from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import msgspec

from agentforge import InvalidRequest, plain_data
from agentforge.core.pipeline.results import PipelineConfig, PipelineStatus

SCHEMA_VERSION = 1


def utc(moment: datetime) -> datetime:
    """The moment with a time zone: one without is in UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


@dataclass
class PipelineState:
    pipeline_id: str
    pipeline_type: str
    config: PipelineConfig
    user_request: str
    context: dict[str, Any]
    status: PipelineStatus
    current_stage_index: int
    current_stage: str | None = None
    error: str | None = None
    completed_stages: list[str] = field(default_factory=list)
    approved_stages: list[str] = field(default_factory=list)
    stage_artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The latest of each stage."""
    iteration_count: dict[str, int] = field(default_factory=dict)
    """How often feedback ran a stage again."""
    pending_feedback: str | None = None
    """For the next attempt of the current stage."""
    pending_artifact: dict[str, Any] | None = None
    """What a person must approve."""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated_at: datetime | None = None
    completed_at: datetime | None = None
    total_tokens_used: int = 0
    total_cost_usd: float = 0.0
    schema_version: int = SCHEMA_VERSION
    unknown: dict[str, Any] = field(default_factory=dict, repr=False)
    """Fields of other versions, which are kept."""

    def __post_init__(self) -> None:
        self.created_at = utc(self.created_at)
        self.updated_at = utc(self.updated_at) if self.updated_at else None
        self.completed_at = utc(self.completed_at) if self.completed_at else None

    def to_dict(self) -> dict[str, Any]:
        """A copy of all fields, as plain data."""
        copied: dict[str, Any] = plain_data(self.document())
        return copied

    def document(self) -> dict[str, Any]:
        """All fields by name; artifacts are not copied."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "unknown"}
        times = {name: value.isoformat() for name, value in values.items() if isinstance(value, datetime)}
        config = {**self.unknown.get("config", {}), **asdict(self.config)}
        return {**self.unknown, **values, **times, "config": config, "status": self.status.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "PipelineState":
        """Raises InvalidRequest, which names the field that is wrong."""
        return cls.from_document(plain_data(data))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "PipelineState":
        """Like `from_dict`, for plain data that nothing else uses."""
        given = {"context": {}, **_without_nulls(document)}
        config = given.get("config")
        given["config"] = _without_nulls(config) if isinstance(config, dict) else config
        try:
            state = msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"not the state of a pipeline: {error}") from error
        others = _others(document, cls)
        if of_config := _others(document["config"], PipelineConfig):
            others["config"] = of_config
        state.unknown = others
        return state


def _without_nulls(data: dict[str, Any]) -> dict[str, Any]:
    """So that a field without a value has its default."""
    return {key: value for key, value in data.items() if value is not None}


def _others(data: dict[str, Any], known: type) -> dict[str, Any]:
    names = {one.name for one in fields(known)}
    return {key: value for key, value in data.items() if key not in names}
