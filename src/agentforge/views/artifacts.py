"""What a stage gets of earlier artifacts: their merge, by the keys at the top, and what the engine adds."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model.artifact import (
    INLINE_BYTES,
    ORIGINAL_REQUEST,
    REQUEST_ID,
    Artifact,
    ArtifactRule,
    is_of_engine,
)
from agentforge.model.plan import Items, Plan, StageNode
from agentforge.model.request import UserRequest
from agentforge.model.result import JSONObject
from agentforge.model.task import AgentTask, PrepareTask
from agentforge.views.history import History

ReadArtifact = Callable[[Artifact], JSONObject]
"""Its value, also of one that is too large for the log."""


class IterationInput(Struct, frozen=True, dict=True):
    """What an iteration gets of artifacts."""

    merged: JSONObject = {}
    """Empty: there is no earlier artifact."""
    previous: Artifact | None = None
    """The stage's own last artifact: over items, that of the item."""
    element: Any = None
    """What the item says."""
    needed: Mapping[str, Any] = {}
    """By id: what those items say that it depends on."""
    by_stage: Mapping[str, JSONObject] = {}
    """The artifacts that are merged, by the ids of their stages."""

    @cached_property
    def encoded(self) -> bytes:
        return msgspec.json.encode(self.merged)

    @property
    def is_large(self) -> bool:
        """Whether agents get the merge as a file."""
        return len(self.encoded) > INLINE_BYTES


NO_INPUT = IterationInput()


class RunKeys(Struct, frozen=True):
    """The keys of artifacts that only the engine sets."""

    request_id: str
    original_request: str | None = None

    @property
    def values(self) -> JSONObject:
        known = {REQUEST_ID: self.request_id, ORIGINAL_REQUEST: self.original_request}
        return {key: value for key, value in known.items() if value is not None}

    def foreign(self, artifact: JSONObject) -> list[str]:
        """Those that an artifact sets to another value, or that don't exist."""
        own = self.values
        reserved = filter(is_of_engine, artifact)
        return [key for key in reserved if key not in own or artifact[key] != own[key]]

    def without(self, artifact: JSONObject) -> JSONObject:
        """What an agent has left of an artifact in which it may have repeated them."""
        own = self.values.items()
        return {key: value for key, value in artifact.items() if (key, value) not in own}

    def filled(self, rule: ArtifactRule | None, stage: str, branch: str | None = None) -> JSONObject:
        """The fields that the engine sets for those that get the artifact of the stage."""
        found: JSONObject = {}
        for field, source in rule.fill.items() if rule else ():
            match source:
                case "id":
                    place = f"{stage}@{branch}" if branch else stage
                    found[field] = artifact_id(field, place, self.request_id)
                case "request" if self.original_request is not None:
                    found[field] = self.original_request
        return found


def artifact_id(field: str, stage: str, request_id: str) -> str:
    """The id that a stage's artifact gets in a field: `SPEC-<time>-<8 hex digits>` for `spec_id`. All visits
    of the stage in the run of that request have the same."""
    digest = sha256(f"{request_id} {stage} {field}".encode()).hexdigest()[:8]
    return "-".join([field.removesuffix("_id").upper(), *request_id.split("-")[1:2], digest])


def request_id_of(started_at: datetime, run_id: str) -> str:
    """`REQ-<time>-<8 hex digits>`"""
    digest = sha256(run_id.encode()).hexdigest()[:8]
    return f"REQ-{started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{digest}"


def run_keys(started_at: datetime, run_id: str, wanted: UserRequest | None) -> RunKeys:
    return RunKeys(request_id_of(started_at, run_id), wanted.text if wanted else None)


def earlier_stages(
    plan: Plan, path: str, branch: str | None = None
) -> Iterator[tuple[str, str | None, StageNode]]:
    """The stages with an artifact before one, in the order of the plan, with their paths and branches. The
    branches of a block have their own artifacts, which neither each other nor later stages get."""
    for step in plan.steps:
        own = branch if path.startswith(f"{step.path}.") else None
        for stage in (step.node,) if isinstance(step.node, StageNode) else step.branch(own or ""):
            at = step.inner_path(stage) if own else step.path
            if at == path:
                return
            if stage.artifact:
                yield at, own, stage


def artifact_input(
    plan: Plan,
    task: PrepareTask | AgentTask,
    history: History,
    keys: RunKeys,
    read: ReadArtifact,
) -> IterationInput:
    place, item = task.place, task.item
    merged = dict(read(history.initial)) if history.initial else {}
    by_stage: dict[str, JSONObject] = {}
    for path, branch, stage in earlier_stages(plan, place.path, place.branch):
        known = history.artifacts_of(path, branch)
        if known.over_items and isinstance(stage.termination, Items):
            merged[stage.id] = by_stage[stage.id] = {id: read(one) for id, one in known.by_item.items()}
        elif known.latest is not None:
            by_stage[stage.id] = read(known.latest) | keys.filled(stage.artifact, stage.id, branch)
            merged |= by_stage[stage.id]
    own = history.artifacts_of(place.path, place.branch)
    last = own.by_item.get(item.id) if item else own.latest
    return IterationInput({**merged, **keys.values} if merged else {}, last, by_stage=by_stage)
