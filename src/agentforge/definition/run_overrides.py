"""What the caller says of a whole run: who approves its results, how long it lasts, and where it ends."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.precedence import merged
from agentforge.definition.read.deliver_keys import MODES
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.read.values import COUNT, FLAG, TEXT, TIME_LIMIT, Text, ValueKind
from agentforge.definition.read.work_keys import GUARDRAILS, supervised_approval
from agentforge.definition.report import Report
from agentforge.definition.specs import PipelineSpec, ResolvedPipeline, ResolvedStage, RouteSpec, WorkSpec
from agentforge.definition.yaml_tree import Scalar, Written, shown
from agentforge.model.delivery import DeliveryMode
from agentforge.model.diagnostic import choice
from agentforge.model.plan import END, FAIL, PASS, REJECT, Overrides


class RunOverrides(Struct, frozen=True):
    """With the places of arguments. What isn't valid is None, and reported."""

    supervised: Written[bool] | None = None
    exit_after: Written[str] | None = None
    rounds: Written[int] | None = None
    iterate: Written[bool] | None = None
    max_runtime: Written[float] | None = None
    executors: tuple[Written[str], ...] = ()
    delivery: Written[DeliveryMode] | None = None

    @property
    def levels(self) -> tuple[WorkSpec, ...]:
        """Above the keys of all stages."""
        levels = (self.supervised, supervised_approval(self.rounds, self.iterate))
        return tuple(WorkSpec({"approve": level}) for level in levels if level)

    def kept(self, given: Overrides) -> Overrides:
        """As the plan has them."""
        values = {name: getattr(self, name) for name in self.__struct_fields__ if name != "executors"}
        read = {name: one.value for name, one in values.items() if one is not None}
        return replace(given, executors=tuple(one.value for one in self.executors), **read)

    def to_pipeline(self, spec: PipelineSpec) -> PipelineSpec:
        """The outermost pipeline with the runtime limit, and with the stages that the program runs: it may
        have executors for stages of other pipelines, too."""
        by_id = {named.value: named for named in self.executors}
        nodes = tuple(
            replace(node, executor=by_id.get(node.id.value)) if node.id and node.is_stage else node
            for node in spec.nodes
        )
        return self._limited(replace(spec, nodes=nodes) if by_id else spec)

    def _limited(self, spec: PipelineSpec) -> PipelineSpec:
        if self.max_runtime is None:
            return spec
        own = spec.get("guardrails")
        keys = {**(own.values if own else {}), "max_runtime_seconds": self.max_runtime}
        limit = MappingSpec(GUARDRAILS, self.max_runtime.at, keys)
        return replace(spec, values={**spec.values, "guardrails": limit})

    def ended(self, pipeline: ResolvedPipeline, report: Report) -> ResolvedPipeline:
        """With the route that ends the run, in place of those that would end it at other stages."""
        if self.exit_after is None:
            return pipeline
        last = self.exit_after
        stages = {
            node.spec.id.value: node
            for node in pipeline.nodes
            if isinstance(node, ResolvedStage) and node.spec.id
        }
        if last.value not in stages:
            message = f"pipeline {shown(pipeline.spec.name)} has no stage {shown(last.value)} to end after"
            report.error("unknown-stage", last.at, message, choice(last.value, "stages", stages))
            return pipeline
        ids = [node.id.value if node.id else "" for node in pipeline.spec.nodes]
        until = ids.index(last.value) + 1
        beyond = {id: ids[until:] if id in ids[:until] else [] for id in stages}
        changed = {
            id: _routed(node, last, beyond[id], is_last=id == last.value) for id, node in stages.items()
        }
        nodes = (
            changed[node.spec.id.value] if isinstance(node, ResolvedStage) and node.spec.id else node
            for node in pipeline.nodes
        )
        return replace(pipeline, nodes=tuple(nodes))


def _routed(
    stage: ResolvedStage, last: Written[str], beyond: Sequence[str], *, is_last: bool
) -> ResolvedStage:
    """`beyond`: the nodes after the last stage, to which nothing may lead but what failed."""
    routes: tuple[RouteSpec, ...] = merged(stage, "on") or ()
    end = Written(END, last.at)
    kept = tuple(
        replace(one, to=end) if one.to.value in beyond and one.verdict.value not in (FAIL, REJECT) else one
        for one in routes
        if not one.ends_run
    )
    if is_last:
        others = (route for route in kept if route.verdict.value != PASS)
        kept = (*others, RouteSpec(Written(PASS, last.at), end))
    return stage if kept == routes else replace(stage, overrides=(*stage.overrides, WorkSpec({"on": kept})))


def read_run_overrides(given: Overrides, report: Report) -> RunOverrides:
    def read(option: str, kind: ValueKind, value: Any) -> Any:
        if value is None:
            return None
        at = report.argument(f"{option} {value}")
        return kind.read(Scalar(at, str(value), value), f"`{option}`", report)

    return RunOverrides(
        supervised=read("--supervised", FLAG, given.supervised),
        exit_after=read("--exit-after", TEXT, given.exit_after),
        rounds=read("rounds", COUNT, given.rounds),
        iterate=read("iterate", FLAG, given.iterate),
        max_runtime=read("--timeout", TIME_LIMIT, given.max_runtime),
        delivery=read("--delivery-mode", Text(MODES), given.delivery),
        executors=tuple(filter(None, (read("executors", TEXT, id) for id in given.executors))),
    )
