"""Last pass: lowers a validated, resolved pipeline to its Plan, and pins the plan to the files that it names:
their text becomes part of it, so that a change during the run has no effect until a person recompiles it."""

# Agents can write in the project during the run. Without the pins, one agent would decide what the next one
# is asked, also outside of its sandbox; what a sandbox mounts would follow a link that an earlier agent
# planted. So everything a run obeys is read once, when a person starts it, and the log has it. The judge's
# template is never read from the project: the judged would write it.

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from posixpath import join, normpath
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.delivery import delivers
from agentforge.definition.executors import has_executor
from agentforge.definition.link import Links, inherited
from agentforge.definition.precedence import (
    OverrideLevels,
    choose_fallbacks,
    choose_in_block,
    choose_provider,
    merged,
    merged_fields,
)
from agentforge.definition.read.check_keys import RULES, has_no_command
from agentforge.definition.read.file_keys import PIPELINE_KEYS
from agentforge.definition.read.node_keys import BLOCK, PARALLEL_NODE, PIPELINE_NODE
from agentforge.definition.read.table import MappingSpec, by_key, fields
from agentforge.definition.read.work_keys import FIXED, TERMINATIONS
from agentforge.definition.report import Report, absolute, relative
from agentforge.definition.schemas import Schemas
from agentforge.definition.specs import (
    BranchSpec,
    HookSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
    WorkSpec,
)
from agentforge.model.artifact import DEFAULT_ITEMS
from agentforge.model.check import CRITERIA, Check
from agentforge.model.errors import NOT_JSON
from agentforge.model.hook import Hook
from agentforge.model.layout import PROVIDERS
from agentforge.model.plan import (
    Approval,
    Branch,
    Fixed,
    InputSources,
    Items,
    Mode,
    NestedNode,
    Node,
    ParallelNode,
    PipelineInfo,
    Plan,
    PlanSession,
    PlanSource,
    ProviderChoice,
    Queue,
    SandboxChoice,
    StageNode,
    Termination,
)
from agentforge.model.plan_limits import is_plain_name
from agentforge.ports.sources import Sources

DEFAULT_RUNS: dict[Mode, int] = {"pipeline": 1, "loop": 25}
"""A loop is a single stage, so that all stages of a plan have the same default."""
_NO_PROVIDER = ProviderChoice("", "")
_OF_DELIVERY = ("deliver", "description", "checkpoint")
JUDGE_PROMPT_PATH = "JUDGE_PROMPT_PATH"
NO_COMMAND = "there is no command of that name"
_SCHEMA = "schema"
"""The setting of a provider that may name a file with a JSON Schema."""


def lower_termination(spec: MappingSpec | None, default_runs: int) -> Termination:
    """Settings that don't apply to the type are dropped: they were written for an overridden type."""
    given = spec.fields() if spec else {}
    kind = TERMINATIONS[given.pop("type", FIXED)]
    own = {name: given[name] for name in kind.__struct_fields__ if name in given}
    return kind(**{"max": DEFAULT_ITEMS if kind is Items else default_runs, **own})


def _lower_check(spec: MappingSpec, commands: Mapping[str, str]) -> Check:
    given, expect = spec.fields(), spec.get("expect")
    if expect:
        given |= {"expect": expect.value.word, "red_tolerance": expect.value.tolerance}
    named = {} if any(rule in given for rule in RULES) else {"run": commands.get(given["name"], "")}
    return Check(**{**named, **given})


def lower_hooks(specs: Sequence[HookSpec], within: str = "") -> Iterator[Hook]:
    """With their ids: as written, or the point and a number. Those of nested pipelines begin with their
    nodes."""
    seen: Counter[str] = Counter()
    for spec in specs:
        seen[spec.hook.point] += 1
        own = spec.id.value if spec.id else f"{spec.hook.point}-{seen[spec.hook.point]}"
        stage, condition = spec.stage and spec.stage.value, spec.condition and spec.condition.value
        yield replace(spec.hook, id=f"{within}{own}", stage=stage, condition=condition)


class CompilationContext(Struct, frozen=True):
    """Inputs of the compilation that don't come from the definition files."""

    mode: Mode
    project: str
    session: str
    inputs: tuple[str, ...]
    compiled_at: datetime
    created_at: datetime
    override_levels: OverrideLevels


def lower(
    pipeline: ResolvedPipeline, links: Links, schemas: Schemas, context: CompilationContext, passes: int = 1
) -> Plan:
    plan = _Lowering(links, schemas, context).plan(pipeline, "", passes)
    if caps := context.override_levels.overrides.caps:
        plan = plan.with_caps(caps)
    named = {check.name: check for stage in reversed(plan.stages) for check in stage.checks if check.run}
    return plan.with_stages(partial(_with_criteria, named))


def _with_criteria(named: Mapping[str, Check], stage: StageNode) -> StageNode:
    """With the checks that verify the criteria of its items. A command that is a check of the pipeline is run
    like that."""
    if stage.criteria is None:
        return stage
    usable = ((name, run) for name, run in stage.commands.items() if is_plain_name(name) and run.strip())
    given = {name: Check(name, run) for name, run in usable} | dict(named)
    own = {CRITERIA, *(check.name for check in stage.checks)}
    known = (Check(CRITERIA), *(check for name, check in given.items() if name not in own))
    found = (replace(check, at=("iteration",), criteria=True) for check in known)
    return replace(stage, checks=(*stage.checks, *found))


class _Lowering:
    def __init__(self, links: Links, schemas: Schemas, context: CompilationContext) -> None:
        self._links = links
        self._schemas = schemas
        self._context = context

    def plan(self, pipeline: ResolvedPipeline, prefix: str, passes: int, within: str = "") -> Plan:
        """`within` are the ids of the nodes around it."""
        spec, context = pipeline.spec, self._context
        nodes = tuple(self._nodes(pipeline, prefix, within))
        tmux = spec.get("tmux")
        return Plan(
            mode=context.mode,
            compiled_at=context.compiled_at,
            source=PlanSource(spec.source.file, spec.source.sha256),
            session=PlanSession(context.session, context.created_at, context.inputs),
            pipeline=PipelineInfo(
                name=spec.name,
                overrides=context.override_levels.overrides,
                hooks=tuple(lower_hooks(spec.hooks, within)),
                supervision=_supervision((*spec.levels, *context.override_levels.levels)),
                **{"commands": {}, **fields(PIPELINE_KEYS, [spec.values])},
            ),
            # The tools that agent-pipelines would need for this plan; agentforge needs only `bd`.
            dependencies={
                "jq": True,
                "yq": True,
                "tmux": tmux.value if tmux else True,
                "bd": any(map(_needs_bd, nodes)),
            },
            nodes=nodes,
            passes=passes,
            judge=context.override_levels.judge,
        )

    def _nodes(self, pipeline: ResolvedPipeline, prefix: str, within: str) -> Iterator[Node]:
        for index, node in enumerate(pipeline.nodes):
            path = str(index)
            if isinstance(node, ResolvedBlock):
                yield self._block(path, node, prefix)
            elif isinstance(node, ResolvedNested):
                yield self._nested(path, node, prefix, within)
            elif node and delivers(node):
                yield self._delivering(path, node)
            elif node:  # sound
                candidates = [level.provider for level in node.levels]
                sources = self._links.get((f"{prefix}{path}", ""))
                provider, inputs = choose_provider(candidates)[0], node.spec.inputs.written
                stage = self._stage(path, node, provider, inputs, sources)
                yield replace(stage, fallbacks=choose_fallbacks(candidates))

    def _stage(
        self,
        path: str,
        node: ResolvedStage,
        provider: ProviderChoice,
        inputs: dict[str, Any],
        sources: InputSources | None = None,
    ) -> StageNode:
        """Rows of the key table set the plain fields; here is what needs more than the values of one key. The
        arguments are what differs between the branches of a block."""
        project, default_runs = self._context.project, DEFAULT_RUNS[self._context.mode]
        plain = merged_fields(node)
        prompt = node.spec.work.prompt
        ref, named = node.spec.stage.value if node.spec.stage else None, node.stage and node.stage.name
        node_id = node.spec.id.value if node.spec.id else path
        termination = lower_termination(merged(node, "termination"), default_runs)
        commands = plain.get("commands", {})
        checks = merged(node, "checks") or ()
        is_executed = not node.prompt_path and has_executor(node)
        left_out = [check for check in checks if has_no_command(check, commands)]
        return StageNode(
            path=path,
            id=node_id,
            stage=ref or node_id,
            runs=termination.max,
            termination=termination,
            inputs=inputs,
            provider=provider,
            sources=sources,
            ref=ref,
            name=named.value if named and named.value != ref else None,
            artifact=self._schemas.rule(node),
            checks=tuple(_lower_check(check, commands) for check in checks if check not in left_out),
            left_out={check.get("name").value: NO_COMMAND for check in left_out},
            prompt_path=relative(project, node.prompt_path) if node.prompt_path else None,
            prompt=prompt.value if prompt and not node.prompt_path else "" if is_executed else None,
            **plain,
        )

    def _delivering(self, path: str, node: ResolvedStage) -> StageNode:
        """A stage without an agent has nothing of what the levels say of agents."""
        ref, node_id = node.spec.stage.value if node.spec.stage else None, node.spec.id
        own = {key: value for key, value in merged_fields(node).items() if key in _OF_DELIVERY}
        name = node_id.value if node_id else path
        return StageNode(
            path=path,
            id=name,
            stage=ref or name,
            runs=1,
            termination=Fixed(1),
            inputs=node.spec.inputs.written,
            provider=_NO_PROVIDER,
            ref=ref,
            **own,
        )

    def _nested(self, path: str, node: ResolvedNested, prefix: str, within: str) -> NestedNode:
        ref, node_id = node.spec.pipeline, node.spec.id.value if node.spec.id else path
        return NestedNode(
            path=path,
            id=node_id,
            inputs=node.spec.inputs.written,
            plan=self.plan(node.pipeline, f"{prefix}{path}.", 1, f"{within}{node_id}/"),
            ref=ref.value if ref else "",
            **{"runs": 1, **fields(PIPELINE_NODE.keys, [node.spec.work.values])},
        )

    def _block(self, path: str, node: ResolvedBlock, prefix: str) -> ParallelNode:
        block, node_id = node.block, node.spec.id
        return ParallelNode(
            path=path,
            id=node_id.value if node_id else path,
            providers=tuple(branch.written for branch in block.branches),
            stages=tuple(self._shared(path, node)),
            inputs=node.spec.inputs.written,
            branches=tuple(self._branch(path, node, branch, prefix) for branch in block.branches),
            **fields(PARALLEL_NODE.keys, [node.spec.work.values]),
            **fields(BLOCK.keys, [block.values]),
        )

    # plan.json is also read by tools for agent-pipelines, which know the stages of a block without branches.
    def _shared(self, path: str, node: ResolvedBlock) -> Iterator[dict[str, Any]]:
        """The block's stages in the format of agent-pipelines, which has no branches."""
        for position, stage in enumerate(node.stages):
            if stage:  # sound
                inputs = stage.spec.inputs.written
                lowered = self._stage(f"{path}.{position}", stage, _NO_PROVIDER, inputs)
                shared: dict[str, Any] = msgspec.to_builtins(lowered)
                del shared["provider"]
                own = stage.spec.work.provider
                yield {**shared, "model": own.model.value} if own and own.model else shared

    def _branch(self, path: str, node: ResolvedBlock, branch: BranchSpec, prefix: str) -> Branch:
        name = branch.name.value if branch.name else ""
        stages: list[StageNode] = []
        for position, stage in enumerate(node.stages):
            if stage:  # sound
                here = f"{path}.{position}"
                chosen = choose_in_block(stage, branch.provider)
                inputs = inherited(stage.spec.inputs, branch.inputs, node.spec.inputs)
                sources = self._links.get((f"{prefix}{here}", name))
                stages.append(self._stage(here, stage, chosen, inputs, sources))
        return Branch(name, tuple(stages))


def _supervision(levels: Iterable[WorkSpec]) -> Approval | None:
    """Kept also if no stage has an approval now: a person may switch them on."""
    said = [level.get("approve") for level in levels]
    keys = [one for one in said if isinstance(one, MappingSpec)]
    return Approval(**by_key(keys).fields()) if any(one.get("when") for one in keys) else None


def _needs_bd(node: Node) -> bool:
    match node:
        case StageNode():
            return isinstance(node.termination, Queue)
        case ParallelNode():
            return any(_needs_bd(stage) for branch in node.branches for stage in branch.stages)
        case NestedNode():  # exhaustive
            return node.plan.dependencies["bd"]


def pin(plan: Plan, sources: Sources, report: Report) -> Plan:
    judges = plan.judges()
    described = ((name, _description(name, sources)) for name in sorted({*plan.providers(), *judges}))
    return replace(
        plan.with_stages(_Pins(sources).stage),
        judge_prompt=_judge_prompt(sources, report) if judges else "",
        descriptions={name: text for name, text in described if text is not None},
    )


class _Pins:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def stage(self, node: StageNode) -> StageNode:
        return replace(
            node,
            prompt=pinned_text(node.prompt_path, self._sources) if node.prompt_path else node.prompt,
            provider=self.choice(node.provider),
            fallbacks=tuple(self.choice(choice) for choice in node.fallbacks),
            sandbox=self._resolved(node.sandbox) if node.sandbox else None,
        )

    def choice(self, choice: ProviderChoice) -> ProviderChoice:
        named = choice.config.get(_SCHEMA)
        path, home = named if isinstance(named, str) else "", self._sources.environment.get("HOME", "")
        if path.startswith("~/") and home:
            path = join(home, path[2:])
        text = pinned_text(path, self._sources) if path else None
        if text is None:
            return choice
        try:
            schema = msgspec.json.decode(text, type=dict[str, Any])
        except NOT_JSON:
            return choice  # The provider reports it.
        place = relative(self._sources.project, absolute(self._sources.project, path))
        return replace(choice, config={**choice.config, _SCHEMA: schema}, schema_path=place)

    def _resolved(self, choice: SandboxChoice) -> SandboxChoice:
        """With where existing paths lead, but for those in the agent's home, which may differ from ours."""
        project = self._sources.resolve(self._sources.project) or self._sources.project
        named = (*choice.writable, *choice.hidden)
        outside = (path for path in named if path != "~" and not path.startswith("~/"))
        found = ((path, self._sources.resolve(absolute(self._sources.project, path))) for path in outside)
        resolved = tuple((path, relative(project, place)) for path, place in found if place is not None)
        return replace(choice, resolved=resolved)


def pinned_choice(choice: ProviderChoice, sources: Sources) -> ProviderChoice:
    return _Pins(sources).choice(choice)


def pinned_text(path: str, sources: Sources) -> str | None:
    """The text of a file as a plan contains it; the path is relative to the project."""
    text = sources.read(absolute(sources.project, path))
    return None if text is None else _encodable(text)


def _description(name: str, sources: Sources) -> str | None:
    texts = (pinned_text(join(PROVIDERS, f"{name}{suffix}"), sources) for suffix in (".yml", ".yaml"))
    return next((text for text in texts if text is not None), None) if "/" not in name else None


def _encodable(text: str) -> str:
    """Bytes that aren't UTF-8, which sources represent as surrogates, are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _judge_prompt(sources: Sources, report: Report) -> str:
    """The user's own template, else the built-in one; none of the project, which agents can write."""
    home = sources.environment.get("HOME", "")
    named = sources.environment.get(JUDGE_PROMPT_PATH, "")
    if named:
        text = sources.read(absolute(sources.project, named))
        if text is None:
            at = report.variable(JUDGE_PROMPT_PATH, named)
            message = f"{JUDGE_PROMPT_PATH} must name a readable file, got `{named}`"
            report.error("missing-file", at, message, "correct the path, or unset the variable")
        return _encodable(text or "")
    places = (
        join(home, ".config", "agent-pipelines", "prompts", "judge.md") if home else "",
        normpath(join(sources.builtin, "prompts", "judge.md")),
    )
    texts = (sources.read(path) for path in places if path)
    return next((_encodable(text) for text in texts if text is not None), "")
