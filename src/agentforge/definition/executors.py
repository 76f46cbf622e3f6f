"""Stages that Python code runs in place of an agent: a class that the definition names, or an executor of the
calling program. Both are providers of the plan."""

from typing import Any

from msgspec.structs import replace

from agentforge.definition.precedence import merged
from agentforge.definition.read.artifact_keys import ARTIFACT
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.read.work_keys import RETRY
from agentforge.definition.report import Report
from agentforge.definition.specs import ProviderSpec, ResolvedStage, WorkSpec
from agentforge.definition.yaml_tree import Entry, Keyed, Scalar, Written
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.plan import OF_PROGRAM, PYTHON

_ATTEMPTS = 3


def executed(stage: ResolvedStage) -> ResolvedStage:
    """With its executor as the provider, in place of any other, and as the weakest level what it needs. An
    executor of the program also replaces what the stage's artifact must be like: it checks that itself."""
    provider = _provider(stage)
    if provider is None or provider.type is None:
        return stage
    at = provider.type.at
    needed = {
        "artifact": MappingSpec(ARTIFACT, at, {"schema": _any_object(at)}),
        "retry": MappingSpec(RETRY, at, {"max_attempts": Written(_ATTEMPTS, at)}),
    }
    above = {"artifact": needed["artifact"]} if provider.type.value == OF_PROGRAM else {}
    levels = (*stage.overrides, WorkSpec(above, provider))
    return replace(stage, around=(WorkSpec(needed), *stage.around), overrides=levels)


def has_executor(stage: ResolvedStage) -> bool:
    return _provider(stage) is not None


def refuse_executor(stage: ResolvedStage, report: Report) -> None:
    """In a parallel block, the block's providers run all stages."""
    spec = merged(stage, "executor")
    if named := spec and spec.get("python"):
        message = "an executor can't run a stage of a parallel block: the block's providers run it"
        report.error("unsupported", named.at, message, hint="put it on a stage outside of the block")


def validate_executor(stage: ResolvedStage, report: Report) -> None:
    spec = merged(stage, "executor")
    given = spec and spec.get("config")
    if given and not has_executor(stage):
        names = ", ".join(f"`{name}`" for name in given.value)
        message = f"{names} has no effect without an executor of the stage"
        report.warning(
            "no-effect", given.at, message, "add `executor: {python: MODULE:CLASS}` to its stage.yaml"
        )


def _provider(stage: ResolvedStage) -> ProviderSpec | None:
    spec = merged(stage, "executor")
    given, named = spec and spec.get("config"), spec and spec.get("python")
    config: dict[str, Any] = given.value if given else {}
    if own := stage.spec.executor:
        settings = {"stage": own.value, **({"config": config} if config else {})}
        return ProviderSpec(Written(OF_PROGRAM, own.at), config=settings)
    if named:
        return ProviderSpec(Written(PYTHON, named.at), config={"class": named.value, "config": config})
    return None


def _any_object(at: SourcePlace) -> Keyed:
    return Keyed(at, (Entry(Scalar(at, "type", "type"), Scalar(at, "object", "object")),))
