"""Fifth pass: rules that need more than one mapping or file. Here are those of whole pipelines: their names,
their providers, their size. Those of one stage are in `stage_rules`, those of hooks in `hook_rules`."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from agentforge.definition.artifact_rules import validate_fill, validate_tokens
from agentforge.definition.cap_rules import validate_caps
from agentforge.definition.delivery import delivers, refuse_deliver, validate_deliver
from agentforge.definition.executors import has_executor, refuse_executor, validate_executor
from agentforge.definition.hook_rules import validate_hooks
from agentforge.definition.lower import pinned_choice
from agentforge.definition.machine import Machine
from agentforge.definition.precedence import (
    DEFAULT_PROVIDER,
    JUDGE_PROVIDER,
    OverrideLevels,
    canonical,
    choose_provider,
    levels_in_block,
    merged,
    naming_level,
)
from agentforge.definition.report import Report
from agentforge.definition.resolve import is_stage_name
from agentforge.definition.specs import (
    BlockSpec,
    NodeSpec,
    PipelineSpec,
    ProviderSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
    ids_of,
)
from agentforge.definition.stage_rules import (
    refuse_checks,
    validate_approval,
    validate_checks,
    validate_prompt,
    validate_required,
    validate_routes,
    validate_runtime,
    validate_termination,
)
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.plan import ProviderChoice
from agentforge.model.plan_limits import MAX_RUNS, MAX_STEPS, is_directory_name
from agentforge.ports.sources import Sources

_QUOTED = re.compile(r"`([a-z]\w*)")


def named_setting(message: str, choice: ProviderChoice) -> str:
    """The setting that the message is about, or `model`; empty: it is about none that is written."""
    written = {"model", *choice.config}
    return next((name for name in _QUOTED.findall(message) if name in written), "")


def is_of_definition(message: str, choice: ProviderChoice) -> bool:
    """Whether an error is about what is written, or missing, in a definition; otherwise it is about this
    machine."""
    return bool(_QUOTED.search(message)) or (choice.model != "" and choice.model in message)


class Validation:
    """The whole pass, over a pipeline and those nested in it."""

    def __init__(
        self,
        sources: Sources,
        overrides: OverrideLevels,
        machine: Machine,
        report: Report,
        *,
        given: frozenset[SourcePlace] | None,
    ) -> None:
        """`given`: the nodes that get an artifact; None: a stage runs alone."""
        self._sources = sources
        self._given = given
        self._overrides = overrides
        self._machine = machine
        self._report = report
        self.places: dict[str, SourcePlace] = {}
        """Where each provider is first named."""
        self._stages: list[ResolvedStage] = []

    def run(self, pipelines: Sequence[ResolvedPipeline], default_runs: int, passes: int) -> None:
        """`pipelines`: the outermost one, then those nested in it."""
        nodes = [node for part in pipelines for node in part.spec.nodes]
        inner = [stage for node in nodes if node.block for stage in node.block.stages]
        everywhere = frozenset(ids_of([*nodes, *inner]))
        for part in pipelines:
            self._pipeline(part, default_runs, everywhere, is_nested=part is not pipelines[0])
        validate_tokens(self._stages, self._report)
        validate_caps(pipelines[0], self._overrides.overrides.caps, self._report)
        rule = pipelines[0].spec.get("request")
        if self._given is not None and (rule is None or rule.value == "none"):
            validate_fill(self._stages, self._report)
        validate_checkpoints([part.spec for part in pipelines], self._report)
        validate_size(pipelines[0], passes, self._report)
        if judge := self._sources.environment.get(JUDGE_PROVIDER):
            self._provider(Written(judge, self._report.variable(JUDGE_PROVIDER, judge)))

    def _pipeline(
        self, pipeline: ResolvedPipeline, default_runs: int, everywhere: Collection[str], *, is_nested: bool
    ) -> None:
        """`everywhere` are the ids of all nodes, also of other pipelines."""
        spec, report = pipeline.spec, self._report
        _validate_nodes(spec.nodes, "node", report)
        validate_hooks(pipeline, report, is_nested=is_nested)
        validate_required(pipeline, everywhere, report)
        if is_nested:
            self._ignored_keys(spec)
        else:
            validate_runtime(spec.get("guardrails"), report)
        for node in pipeline.nodes:
            if isinstance(node, ResolvedBlock):
                self._block(node)
                for stage in filter(None, node.stages):
                    self._stage(stage, default_runs)
                    refuse_checks(stage, report)
                    refuse_executor(stage, report)
                    refuse_deliver(stage, report)
                    validate_routes(stage, ids_of(node.block.stages), everywhere, report)
            elif isinstance(node, ResolvedStage):
                validate_deliver(node, report)
                if delivers(node):
                    continue
                self._stage(node, default_runs)
                validate_checks(node, report)
                validate_routes(node, ids_of(spec.nodes), everywhere, report)
                self._chain(node)

    def _chain(self, node: ResolvedStage) -> None:
        levels = [level.provider for level in node.levels]
        named = naming_level(levels)
        self._settings(levels, node.spec.at)
        for spec in named.fallbacks if named else ():
            self._settings([spec], node.spec.at)
        for spec in (named, *named.fallbacks) if named and not has_executor(node) else ():
            if spec.type:
                self._provider(spec.type)
        # The stage.yaml of one that wasn't found may name a provider, so the default may not be in force.
        if named is None and node.is_found:
            self._provider(Written(DEFAULT_PROVIDER, node.spec.at))

    # A pipeline may be run by itself and be part of another one, so these keys are right in its file. They
    # are warnings only, as its own run obeys them.
    def _ignored_keys(self, spec: PipelineSpec) -> None:
        where = "set them in the outermost pipeline"

        # What a template doesn't write itself is at its start.
        def written(key: str) -> Any:
            value = spec.get(key)
            first = value[0] if isinstance(value, tuple) and value else value
            return None if not first or first.at == spec.source.start else value

        if rails := written("guardrails"):
            limits, (name, limit) = spec.get("limits"), next(iter(rails.values.items()))
            is_limit = limits is not None and limits.get("runtime") is limit
            key = "limits.runtime" if is_limit else f"guardrails.{name}"
            message = f"`{key}` of a nested pipeline has no effect"
            hint = "set it in the outermost pipeline or in the stages"
            self._report.warning("ignored-key", limit.at, message, hint)
        if wanted := written("request"):
            message = "`request` of a nested pipeline has no effect"
            self._report.warning("ignored-key", wanted.at, message, "set it in the outermost pipeline")
        for key, verb in (("views", "have"), ("notify", "has")):
            for value in (written(key) or ())[:1]:
                message = f"`{key}` of a nested pipeline {verb} no effect"
                self._report.warning("ignored-key", value.at, message, where)

    def _stage(self, stage: ResolvedStage, default_runs: int) -> None:
        self._stages.append(stage)
        validate_termination(stage, default_runs, self._report)
        validate_prompt(stage, self._sources, self._given, self._report)
        validate_approval(stage, self._report)
        validate_runtime(merged(stage, "guardrails"), self._report)
        validate_executor(stage, self._report)

    def _block(self, node: ResolvedBlock) -> None:
        for branch in node.block.branches:
            if branch.provider.type:
                self._provider(branch.provider.type)
            for stage in filter(None, node.stages):
                self._settings(levels_in_block(stage, branch.provider), branch.at)
        # Once for each block, not an error: the same option is right for the other nodes of the pipeline.
        for level in filter(None, (level.provider for level in self._overrides.levels)):
            for given in filter(None, (level.type, level.model)):
                message = f"`{given.value}` doesn't override the providers and models of parallel blocks"
                hint = "a block always uses its own `providers`"
                self._report.warning("block-keeps-providers", given.at, message, hint)

    def _settings(self, levels: Sequence[ProviderSpec | None], default: SourcePlace) -> None:
        chosen, places = choose_provider(levels)
        self.places.setdefault(chosen.type, places.get("", default))
        check = self._machine.check_settings
        if check is None:
            return
        chosen = pinned_choice(chosen, self._sources)
        for problem in check(chosen):
            at = places.get(named_setting(problem.message, chosen), places.get("", default))
            add = self._report.error if problem.is_error else self._report.warning
            add("provider-settings", at, problem.message, problem.hint)

    def _provider(self, named: Written[str]) -> None:
        """Check that the provider is registered; without a list every name passes."""
        known = self._machine.known_providers
        if not named.value.strip():
            message, hint = "the provider's name is empty", "for example `claude`"
            self._report.error("bad-value", named.at, message, hint)
        elif known is not None and canonical(named.value) not in known:
            message, hint = f"no provider named {shown(named.value)}", choice(named.value, "providers", known)
            self._report.error("unknown-provider", named.at, message, hint)


def validate_checkpoints(pipelines: Iterable[PipelineSpec], report: Report) -> None:
    """A checkpoint is asked once in a run, so a second one of the same name would never be asked."""
    seen: dict[str, Written[str]] = {}
    names = (node.work.get("checkpoint") for spec in pipelines for node in spec.nodes)
    for name in filter(None, names):
        first = seen.setdefault(name.value, name)
        # A pipeline that is included twice has one checkpoint, at one place.
        if first.at == name.at:
            continue
        hint = "give it another name"
        if first.at.file == name.at.file:
            message = f"the checkpoint {shown(name.value)} is already on line {first.at.line}"
            report.error("duplicate-checkpoint", name.at, message, hint)
        else:
            message = f"the checkpoint {shown(name.value)} is also in {first.at.file}; the run asks only once"
            report.warning("duplicate-checkpoint", name.at, message, hint)


def _validate_nodes(nodes: Sequence[NodeSpec], what: str, report: Report) -> None:
    seen: dict[str, Written[str]] = {}
    for index, node in enumerate(nodes):
        if node.id is None:
            hint = "add a short name: `id: …`"
            report.error("missing-key", node.at, f"{what} {index + 1} has no `id`", hint)
        else:
            _validate_name(node.id, "id", seen, report)
        if node.block:
            _validate_block(node.block, report)
        elif node.is_stage:
            _validate_stage(node, f"{what} `{node.id.value}`" if node.id else f"{what} {index + 1}", report)


def _validate_stage(node: NodeSpec, what: str, report: Report) -> None:
    if node.stage and not is_stage_name(node.stage.value):
        hint = "use the name of the stage's folder, such as `plan`, without `.`, `..` or empty parts"
        report.error("bad-value", node.stage.at, f"invalid stage name {shown(node.stage.value)}", hint)
    own = (node.work.prompt, node.work.prompt_file, node.work.get("executor"), node.work.get("deliver"))
    if not (node.stage or any(own)):
        hint = "add `stage: NAME`, `prompt: TEXT` or `prompt: {file: PATH}`"
        report.error("missing-key", node.at, f"{what} needs `stage` or `prompt`", hint)


def _validate_block(block: BlockSpec, report: Report) -> None:
    seen: dict[str, Written[str]] = {}
    for branch in block.branches:
        if branch.name:
            _validate_name(branch.name, "provider", seen, report)
    _validate_nodes(block.stages, "stage", report)
    for stage in block.stages:
        named = stage.work.provider.type if stage.work.provider else None
        if named:
            message = "`provider` is ignored here; the block's `providers` apply"
            report.warning("ignored-key", named.at, message, hint="remove it; `model` is allowed")


def _validate_name(name: Written[str], what: str, seen: dict[str, Written[str]], report: Report) -> None:
    """A node's id or a branch's name: used as a directory name, so it must be valid and unique."""
    if not is_directory_name(name.value):
        message = f"the {what} {shown(name.value)} cannot be used as a directory name"
        report.error("bad-id", name.at, message, "use letters, digits, `-`, `_` and `.` (not first)")
    # Compared by identity, as two nodes of the same file may have equal names at equal places: those that an
    # alias repeats.
    first = seen.setdefault(name.value, name)
    if first is not name and what == "id":
        message = f"the id {shown(name.value)} is already used by the node on line {first.at.line}"
        report.error("duplicate-id", name.at, message)
    elif first is not name:
        message = f"the block lists the provider {shown(name.value)} twice"
        hint = f"give one of them another name: `{{name: other, type: {name.value}}}`"
        report.error("duplicate-provider", name.at, message, hint)


def validate_size(pipeline: ResolvedPipeline, passes: int, report: Report) -> None:
    """Bound the number of steps: nested repetitions multiply."""
    if not 1 <= passes <= MAX_RUNS:
        at = report.argument(f"{pipeline.spec.name} {passes}")
        message = f"the number of runs must be from 1 to {MAX_RUNS:,}, got {passes:,}"
        report.error("bad-value", at, message)
        return
    steps = passes * _steps(pipeline)
    if steps > MAX_STEPS:
        message = f"the run would have {steps:,} steps; the maximum is {MAX_STEPS:,}"
        hint = "lower the `runs` of nested pipelines, or how often the pipeline runs"
        report.error("too-large", pipeline.spec.source.start, message, hint)


def _steps(pipeline: ResolvedPipeline) -> int:
    total = 0
    for node in pipeline.nodes:
        if isinstance(node, ResolvedNested):
            runs = node.spec.work.get("runs")
            total += max(runs.value if runs else 1, 1) * _steps(node.pipeline)
        else:
            total += 1
    return total
