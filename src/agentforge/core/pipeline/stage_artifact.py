"""The artifact of a stage as a file: its data, what it is, and how it came about."""

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentforge import InvalidRequest, plain_data, read_yaml, write_yaml
from agentforge.core.pipeline.state import utc

META, METADATA = "_artifact_meta", "_metadata"


@dataclass
class StageArtifact:
    """The artifact of a stage as its file has it."""

    stage_name: str
    artifact_type: str
    version: str = "1.0"
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """A copy, as plain data. Keys of the data that are those of the file's own parts are left out."""
        meta = {
            "stage_name": self.stage_name,
            "artifact_type": self.artifact_type,
            "version": self.version,
            "created_at": utc(self.created_at).isoformat(),
        }
        own = {key: value for key, value in self.data.items() if key not in (META, METADATA)}
        whole: dict[str, Any] = plain_data({META: meta, **own, METADATA: self.metadata})
        return whole

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StageArtifact":
        given = copy.deepcopy(dict(data))
        meta, metadata = (_mapping(given.pop(key, None)) for key in (META, METADATA))
        return cls(
            stage_name=str(meta.get("stage_name", "unknown")),
            artifact_type=str(meta.get("artifact_type", "unknown")),
            version=str(meta.get("version", "1.0")),
            created_at=_time(meta.get("created_at")),
            data=given,
            metadata=metadata,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """As YAML, atomically; follows no link below `.agentforge`."""
        write_yaml(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "StageArtifact":
        """Raises InvalidRequest if the file is missing or has no mapping."""
        content = read_yaml(path)
        if not isinstance(content, dict):
            problem = "is missing" if content is None else "is not the artifact of a stage"
            raise InvalidRequest(f"{os.fspath(path)} {problem}", hint="check the path")
        return cls.from_dict(content)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _time(value: Any) -> datetime:
    if isinstance(value, datetime):
        return utc(value)
    try:
        return utc(datetime.fromisoformat(str(value)))
    except ValueError:
        return datetime.now(UTC)
