"""Artifacts: the JSON objects that iterations leave, what a stage's must look like, and the items in them."""

from functools import cached_property
from typing import Literal

from msgspec import Struct

from agentforge.model.agent_schema import without_fields
from agentforge.model.request import Feedback
from agentforge.model.result import JSONObject

MAX_ARTIFACT_BYTES = 16 * 1024 * 1024
MAX_INPUT_BYTES = 4 * MAX_ARTIFACT_BYTES
"""Of all earlier artifacts that a stage gets."""
REMOVED = b"the file had more than 16 MB; this is in its place, as secrets can't be looked for in it\n"
"""In the place of a larger file of an agent."""
MAX_ARTIFACT_DEPTH = 64
INLINE_BYTES = 64 * 1024
"""A larger artifact is only in its file, which the log names by size and hash."""
MAX_ITEMS = 10_000
DEFAULT_ITEMS = 1_000
DEFAULT_VERSION = "1.0"
REQUEST_ID, ORIGINAL_REQUEST = "request_id", "original_request"
ENGINE_KEYS = (REQUEST_ID, ORIGINAL_REQUEST)
"""The engine sets them, and all that begin with `_`: an artifact can't give them another value."""


def is_of_engine(field: str) -> bool:
    return field in ENGINE_KEYS or field.startswith("_")


def other_major(version: str, other: str) -> bool:
    """Whether what reads one version can't read the other."""
    return int(version.partition(".")[0]) != int(other.partition(".")[0])


META = "_artifact_meta"
"""In the file of an artifact that is given to another run: its stage and version."""

FillSource = Literal["request", "id"]
ResultField = Literal["verdict", "reason", "items", "summary"]


class ArtifactRule(Struct, frozen=True, omit_defaults=True, dict=True):
    """What the artifact of each iteration of a stage must look like."""

    schema: JSONObject
    source: str = ""
    """The file or the built-in schema that it was read from."""
    version: str = DEFAULT_VERSION
    heal: int = 1
    """How often an iteration may correct an invalid one."""
    fill: dict[str, FillSource] = {}
    """Fields that the engine sets in the input of later stages: to the user request, or to an id of their
    own."""
    result: tuple[ResultField, ...] = ()
    """Fields that count in place of those of the result."""

    @cached_property
    def agent_schema(self) -> JSONObject:
        """The schema without what the engine sets."""
        return without_fields(self.schema, {*self.fill, *ENGINE_KEYS})


class Artifact(Struct, frozen=True, omit_defaults=True):
    """One that was accepted, as the log has it."""

    file: str
    """Relative to the run directory. If `value` is set, it is a copy that the engine doesn't read."""
    size: int
    sha256: str
    version: str = DEFAULT_VERSION
    value: JSONObject | None = None
    """None: it is too large for the log."""
    item: str = ""
    """The item that it is about."""


ItemStatus = Literal["pending", "done", "failed"]


class PlannedItem(Struct, frozen=True, omit_defaults=True):
    """An element of the list that a stage works through. What it says is in the artifact."""

    id: str
    hash: str
    """Of its content."""
    after: tuple[str, ...] = ()
    """The items that must be done before."""
    status: ItemStatus = "pending"
    checks: tuple[str, ...] = ()
    """The checks that its criteria need."""
    repair: bool = False
    """Whether the list lacks it: it is about the feedback that the visit began with."""


class ItemAt(Struct, frozen=True, omit_defaults=True):
    """The item of an iteration, and its position."""

    id: str
    number: int
    """From 1."""
    of: int
    repair: Feedback | None = None
    """What it says, if the list lacks it."""


Strategy = Literal["full", "focused", "minimal", "summary"]
ESTIMATOR = "utf8-bytes/4"


class OmittedPart(Struct, frozen=True, omit_defaults=True):
    """A part of the context that didn't fit into its budget, or not as a whole."""

    name: str
    tokens: int
    kept: int = 0


class ContextUse(Struct, frozen=True, omit_defaults=True):
    """How much context an iteration was given, by estimation."""

    strategy: Strategy | None
    tokens: int
    """Of all that the engine sends."""
    budget: int | None = None
    omitted: tuple[OmittedPart, ...] = ()
    estimator: str = ""
    """By name: a later engine may count in another way."""
