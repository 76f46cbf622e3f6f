"""What a stage promises, for programs that run it in another way: its prompt, what its artifact must be like,
and which fields it needs of earlier ones."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from agentforge.app.wiring import BUILTIN, sources_of
from agentforge.definition.compiler import compile_stage
from agentforge.model.artifact import FillSource
from agentforge.model.plan import Overrides
from agentforge.model.result import JSONObject
from agentforge.system.schemas import JsonSchema


class StageContract(Struct, frozen=True, dict=True):
    name: str
    description: str
    prompt: str
    schema: JSONObject
    """Of its artifact as later stages get it; empty: it says nothing."""
    needs: tuple[str, ...] = ()
    """Fields of earlier artifacts, without which it doesn't start."""
    fill: dict[str, FillSource] = {}
    """Fields of its artifact that are set for it: to the request, or to an id."""

    scope: tuple[str, ...] = ()
    """Patterns, of which each file that the stage changes must match one; empty: any file."""

    @property
    def leaves(self) -> tuple[str, ...]:
        """The fields that its artifact always has."""
        return tuple(self.schema.get("required", ()))

    @cached_property
    def _checked(self) -> JsonSchema:
        return JsonSchema(self.schema)

    def mismatches(self, artifact: Mapping[str, Any]) -> list[str]:
        """How an artifact differs from the schema; empty: it matches."""
        return [one.text for one in self._checked.mismatches(dict(artifact))]


_COMMANDS = Overrides(commands={"test": "true"})
"""A contract says nothing of checks, and a project without tests has no command for them."""


def stage_contract(
    stage: str,
    project: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> StageContract:
    """The contract of a stage by its name: that of the project, or without one of the built-in stage. Raises
    DefinitionError."""
    sources = sources_of(os.path.realpath(project or BUILTIN), environ or {})
    node = compile_stage(sources, stage, "contract", _COMMANDS).plan.only_stage
    return StageContract(
        node.id,
        node.description or "",
        node.prompt or "",
        node.artifact.schema if node.artifact else {},
        node.sources.artifact if node.sources else (),
        node.artifact.fill if node.artifact else {},
        node.scoped.scope if node.scoped else (),
    )
