"""Rules of the fifth pass about caps on spending: a cap around a higher one is what counts."""

from collections.abc import Iterator, Mapping
from typing import Any

from agentforge.definition.precedence import merged
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.report import Report
from agentforge.definition.specs import ResolvedBlock, ResolvedNested, ResolvedPipeline, ResolvedStage
from agentforge.definition.yaml_tree import Written
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.spending import UNITS, Amount, Unit

Caps = Mapping[Unit, Written[Any]]
"""The lowest ones that apply at a place."""


def validate_caps(pipeline: ResolvedPipeline, given: Amount | None, report: Report) -> None:
    """`given`: by the caller, in place of those of the outermost pipeline."""
    caps = _lowest(pipeline.spec.get("limits"), {})
    left = {unit: cap for unit, cap in caps.items() if given is None or given.of(unit) is None}
    found = dict[SourcePlace, str]()
    for at, message in _higher_in(pipeline, left):
        found.setdefault(at, message)  # A figure of the pipeline is that of each stage.
    for at, message in found.items():
        report.warning("higher-cap", at, message, "lower it, or raise the other one")


def _higher_in(pipeline: ResolvedPipeline, here: Caps) -> Iterator[tuple[SourcePlace, str]]:
    for node in pipeline.nodes:
        match node:
            case ResolvedStage():
                yield from _higher_at(node, here)
            case ResolvedNested():
                limits, inner = node.spec.work.get("limits"), node.pipeline.spec.get("limits")
                yield from _higher(limits, here)
                yield from _higher(inner, around := _lowest(limits, here))
                yield from _higher_in(node.pipeline, _lowest(inner, around))
            case ResolvedBlock():
                limits = node.spec.work.get("limits")
                yield from _higher(limits, here)
                for stage in filter(None, node.stages):
                    yield from _higher_at(stage, _lowest(limits, here))


def _higher_at(stage: ResolvedStage, around: Caps) -> Iterator[tuple[SourcePlace, str]]:
    own = merged(stage, "limits")
    yield from _higher(own, around)
    for unit, cap in _lowest(own, around).items():
        figure = merged(stage, f"max_iteration_{unit}")
        if figure and figure.value > cap.value:
            message = f"`max_iteration_{unit}` is above the cap in {cap.at.text}: no attempt fits below it"
            yield figure.at, message


def _higher(own: MappingSpec | None, around: Caps) -> Iterator[tuple[SourcePlace, str]]:
    for unit, cap in around.items():
        mine = own.get(unit) if own else None
        if mine and mine.value > cap.value:
            yield mine.at, f"`limits.{unit}` has no effect: the cap in {cap.at.text} is lower"


def _lowest(own: MappingSpec | None, around: Caps) -> Caps:
    found = dict(around)
    for unit in UNITS:
        mine = own.get(unit) if own else None
        if mine and (unit not in around or mine.value < around[unit].value):
            found[unit] = mine
    return found
