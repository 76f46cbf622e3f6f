"""`migrate check`: what would behave differently from the shell engine in a project."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from posixpath import dirname
from typing import Literal, Protocol

from msgspec import Struct

from agentforge.definition.compiler import lint
from agentforge.definition.machine import Machine
from agentforge.definition.precedence import canonical, merged
from agentforge.definition.read.file_keys import read_pipeline
from agentforge.definition.report import Report, SourceText, relative
from agentforge.definition.resolve import Assembly, Located, StageLookup
from agentforge.definition.specs import (
    InputsSpec,
    NodeSpec,
    ResolvedBlock,
    ResolvedPipeline,
    ResolvedStage,
    WorkSpec,
)
from agentforge.definition.yaml_tree import Written, parse_mapping
from agentforge.model import facts as f
from agentforge.model.diagnostic import Diagnostic, SourcePlace
from agentforge.model.errors import AgentForgeError
from agentforge.model.event import Event
from agentforge.model.layout import RunLayout
from agentforge.model.names import session_argument
from agentforge.model.result import Decision
from agentforge.ports.sources import Sources

FindingLevel = Literal["refused", "changes", "note"]
"""`refused`: AgentForge rejects it. `changes`: it behaves differently. `note`: for information."""


class Finding(Struct, frozen=True):
    rule: str
    level: FindingLevel
    place: SourcePlace
    message: str


# The findings are found by our own compiler: a definition that it refuses, a value that it reads in another
# way. So a rule about definitions gets the resolved pipeline, where every value has its place and its level;
# only prompts are searched as text.
#
# A rule is a promise that docs/parity.md explains under the same name. `refused` and `changes` make
# `migrate check` fail, `note` doesn't.

PIPELINES = (".claude/pipelines", "scripts/pipelines", ".")
STAGES = (".claude/stages", "stages", "scripts/stages")
ORDER: dict[FindingLevel, int] = {"refused": 0, "changes": 1, "note": 2}


class Migration(Struct, frozen=True):
    """The number of definitions and runs that were checked, and the findings."""

    pipelines: int
    stages: int
    runs: int
    findings: tuple[Finding, ...]

    @property
    def is_same(self) -> bool:
        return all(finding.level == "note" for finding in self.findings)


class _HasStatus(Protocol):
    @property
    def status(self) -> str: ...


class PastRuns(Protocol):
    """The runs of the project."""

    def sessions(self) -> Sequence[str]: ...
    def layout(self, session: str) -> RunLayout: ...
    def is_shell_run(self, session: str) -> bool: ...
    def info(self, session: str) -> _HasStatus: ...
    def events(self, session: str) -> Iterator[Event]: ...


def examine_migration(sources: Sources, runs: PastRuns, known: Collection[str] | None) -> Migration:
    """Check everything in the project, without changing it. Findings are ordered by file."""
    found: set[Finding] = set()
    pipelines, stages, machine = _pipelines(sources), _stages(sources), Machine(known_providers=known)
    for path in pipelines:
        found.update(pipeline_findings(sources, path))
        found.update(_refused(lint(sources, path, "pipeline", machine)[0], path))
    for name in stages:
        found.update(stage_findings(sources, name))
        found.update(_refused(lint(sources, name, "stage", machine)[0], name))
    sessions = sorted(runs.sessions())
    for session in sessions:
        found.update(_of_run(runs, session, sources.project))
    ordered = sorted(found, key=lambda n: (n.place.file, n.place.line, ORDER[n.level], n.rule, n.message))
    return Migration(len(pipelines), len(stages), len(sessions), tuple(ordered))


def _pipelines(sources: Sources) -> list[str]:
    found = []
    for folder in PIPELINES:
        root = os.path.normpath(os.path.join(sources.project, folder))
        for name in sources.listing(root):
            path = os.path.join(root, name)
            lines = (sources.read(path) or "").splitlines() if name.endswith((".yaml", ".yml")) else None
            # The project's top folder may contain other YAML files.
            if lines is not None and (
                folder != "." or any(line.startswith(("nodes:", "stages:")) for line in lines)
            ):
                found.append(path)
    return found


def _stages(sources: Sources) -> list[str]:
    names = (
        name
        for folder in STAGES
        for name in sources.listing(os.path.join(sources.project, folder))
        if sources.is_dir(os.path.join(sources.project, folder, name))
    )
    return list(dict.fromkeys(names))


def _refused(diagnostics: list[Diagnostic], target: str) -> Iterator[Finding]:
    for found in diagnostics:
        if found.is_error:
            # An error of the definition as a whole has no position in a file.
            place = SourcePlace(target, 1, 1) if found.place.file.startswith("<") else found.place
            yield refusal(found, place)


def _of_run(runs: PastRuns, session: str, project: str) -> Iterator[Finding]:
    """Findings about a run of the shell engine; other runs have none."""
    log = os.path.relpath(runs.layout(session).log, project)
    try:
        if not runs.is_shell_run(session):
            return
        status = runs.info(session).status
        events = list(runs.events(session))
    except AgentForgeError as error:
        yield Finding("repaired-log", "note", SourcePlace(log, 1, 1), f"cannot read the log: {error.message}")
        return
    last = SourcePlace(log, events[-1].seq if events else 1, 1)
    if status == "completed":
        what = "use --force to start over under this name"
    elif status == "running":
        what = "let it finish, or stop it, before resuming it with AgentForge"
    else:
        what = f"`agentforge resume {session_argument(session)}` imports and continues it"
    rule = "finished-is-finished" if status == "completed" else "resumes-in-place"
    yield Finding(rule, "note", last, f"session {session!r} is {status}: {what}")
    yield from _of_events(log, events)


def _of_events(log: str, events: list[Event]) -> Iterator[Finding]:
    starts = 0
    for event in events:
        place = SourcePlace(log, event.seq, 1)
        if isinstance(event.fact, f.IterationCompleted) and event.fact.decision is Decision.ERROR:
            message = "the run continued after a failed iteration; in AgentForge it would have failed"
            yield Finding("failure-fails", "changes", place, message)
        if isinstance(event.fact, f.SessionStarted):
            starts += 1
            if starts > 1:
                message = "the completed session was started again over its files; AgentForge rejects that"
                yield Finding("finished-is-finished", "changes", place, message)


DEFAULT_DELAY = 3.0
PIPELINE_DELAY = 2.0
"""The shell engine's delay between the iterations of a pipeline, regardless of the stage's `delay`."""
_FIRST_SOURCE = re.compile(r"from_parallel\s*(\[|\.\[|\s*\|)")


_NO_SOURCE = frozenset(("unknown-node", "later-node", "wrong-kind", "ambiguous-stage"))
"""The compiler's diagnostics for `inputs` without a source."""


def refusal(found: Diagnostic, place: SourcePlace) -> Finding:
    """A compiler error, with what the shell engine did instead."""
    message = f"{found.code}: {found.message}"
    if found.code in _NO_SOURCE:
        return Finding("sources-exist", "refused", place, f"{message}; agent-pipelines continued without it")
    if found.code == "unknown-key":
        message = f"{message} ({found.hint}); agent-pipelines ignored it"
    return Finding("checked-definition", "refused", place, message)


def pipeline_findings(sources: Sources, path: str) -> list[Finding]:
    """`path` is absolute. The compiler reports files that can't be parsed."""
    report = Report()
    source = SourceText(relative(sources.project, path), sources.read(path) or "")
    tree = parse_mapping(source, report)
    if tree is None:
        return []
    spec = read_pipeline(source, tree, report)
    pipeline = Assembly(sources, report).pipeline(Located(spec, dirname(path), (path,)))
    return [*_of_pipeline(sources, pipeline), *_of_nodes(pipeline)]


def stage_findings(sources: Sources, name: str) -> list[Finding]:
    """Findings about a stage, independent of where it is used."""
    at = SourcePlace(name, 1, 1)
    node = StageLookup(sources, sources.project, Report()).resolve(
        NodeSpec(at, None, Written(name, at), WorkSpec())
    )
    path = node.prompt_path
    of_prompt = _of_prompt(relative(sources.project, path), sources.read(path) or "") if path else ()
    return [*_of_work(node), *of_prompt]


def _of_pipeline(sources: Sources, pipeline: ResolvedPipeline) -> Iterator[Finding]:
    spec = pipeline.spec
    if (rails := spec.get("guardrails")) and (limit := rails.get("max_runtime_seconds")):
        message = f"the run pauses and asks after {limit.value:g} s; agent-pipelines ignored the limit"
        yield Finding("runtime-limit", "changes", limit.at, message)
    inputs: Sequence[Written[str]] = spec.get("inputs") or ()
    given = [path for written in inputs for path in sources.expand(written.value) or ()]
    if given != sorted(set(given)):
        message = "agents get the inputs sorted and without duplicates; agent-pipelines kept the order"
        yield Finding("sorted-inputs", "changes", inputs[0].at, message)


def _of_nodes(pipeline: ResolvedPipeline) -> Iterator[Finding]:
    earlier: list[str] = []
    for node in pipeline.nodes:
        if isinstance(node, ResolvedStage):
            yield from _of_stage_node(node) if node.is_found else ()
            yield from _of_inputs(node.spec.inputs, earlier)
            if prompt := node.spec.work.prompt:
                yield from _of_prompt(prompt.at.file, prompt.value, prompt.at)
        elif isinstance(node, ResolvedBlock):
            yield from _of_block(node, earlier)
        elif node is not None:
            message = "the nested pipeline runs; agent-pipelines stopped here"
            yield Finding("nested-pipelines-run", "changes", node.spec.at, message)
        if node is not None and node.spec.id:
            earlier.append(node.spec.id.value)


def _of_stage_node(node: ResolvedStage) -> Iterator[Finding]:
    work, stage = node.spec.work, node.stage_work
    yield from _of_work(node)
    runs, of_stage = work.get("runs"), _maximum(stage)
    if runs and of_stage and not _maximum(work) and of_stage.value != runs.value:
        before = f"agent-pipelines ran {of_stage.value} ({of_stage.at.file}:{of_stage.at.line})"
        yield Finding("runs-win", "changes", runs.at, f"runs {runs.value} times; {before}")
    named = work.provider.type if work.provider else None
    model = stage.provider.model if stage.provider else None
    if named and model and not (work.provider and work.provider.model):
        of = stage.provider.type.value if stage.provider and stage.provider.type else "claude"
        if canonical(of) != canonical(named.value):
            before = f"agent-pipelines used the stage's `{model.value}`"
            message = f"uses the default model of `{named.value}`; {before}"
            yield Finding("own-model", "changes", named.at, message)
    yield from _of_delay(node)


def _maximum(work: WorkSpec) -> Written[int] | None:
    """That of its `termination`; `runs` isn't one."""
    termination = work.get("termination")
    maximum: Written[int] | None = termination.get("max") if termination else None
    return None if maximum is work.get("runs") else maximum


def _of_delay(node: ResolvedStage) -> Iterator[Finding]:
    delay = node.spec.work.get("delay") or node.stage_work.get("delay")
    seconds = delay.value if delay else DEFAULT_DELAY
    termination = merged(node, "termination")
    count = termination.get("max") if termination else None
    if count and count.value > 1 and seconds != PIPELINE_DELAY:
        at = delay.at if delay else node.spec.at
        message = f"waits {seconds:g} s between iterations; pipelines of agent-pipelines waited 2 s"
        yield Finding("delays-count", "note", at, message)


def _of_work(node: ResolvedStage) -> Iterator[Finding]:
    """Findings about the stage's termination and limits."""
    termination = merged(node, "termination")
    kind = termination.get("type") if termination else None
    if kind and kind.value == "judgment":
        message = (
            "the judge alone ends the stage; in agent-pipelines the agents' `plateau_suspected` had to agree,"
            " and without a judge prompt it always ran to its maximum"
        )
        yield Finding("judge-counts", "changes", kind.at, message)
    if (rails := merged(node, "guardrails")) and (limit := rails.get("max_runtime_seconds")):
        message = f"pauses and asks after {limit.value:g} s; agent-pipelines ignored the limit"
        yield Finding("runtime-limit", "changes", limit.at, message)


def _of_block(node: ResolvedBlock, earlier: list[str]) -> Iterator[Finding]:
    for stage in node.stages:
        if stage is None:
            continue
        yield from _of_work(stage)
        if (at := _first(stage.spec.inputs)) is not None:
            message = "every provider gets these inputs; agent-pipelines ignored them inside a block"
            yield Finding("stage-inputs-in-blocks", "changes", at, message)
    if (at := _first(node.spec.inputs)) is not None:
        message = "every provider gets the block's inputs; agent-pipelines ignored them"
        yield Finding("stage-inputs-in-blocks", "changes", at, message)
    for branch in node.block.branches:
        yield from _of_inputs(branch.inputs, earlier)


def _of_inputs(inputs: InputsSpec, earlier: list[str]) -> Iterator[Finding]:
    if inputs.parallel and not inputs.parallel_list:
        message = "`inputs.from_parallel` in context.json is an object; agent-pipelines wrote a list of one"
        yield Finding("one-source-is-an-object", "changes", inputs.parallel[0].at, message)
    for source in inputs.stages:
        other = next((name for name in earlier if name.endswith(f"-{source.value}")), None)
        if other is not None:
            message = f"reads `{source.value}`; agent-pipelines may have read `{other}`, which ends in it"
            yield Finding("exact-stages", "changes", source.at, message)


def _of_prompt(file: str, text: str, at: SourcePlace | None = None) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        place = at or SourcePlace(file, number, 1)
        if "${OUTPUT}" in line:
            message = "`${OUTPUT}` is the iteration's output.md; agent-pipelines used one file for the stage"
            yield Finding("output-per-iteration", "changes", place, message)
        if _FIRST_SOURCE.search(line):
            message = "reads `from_parallel` as a list; for a single source it is now an object"
            yield Finding("one-source-is-an-object", "changes", place, message)


def _first(inputs: InputsSpec) -> SourcePlace | None:
    if inputs.stages:
        return inputs.stages[0].at
    return inputs.parallel[0].at if inputs.parallel else None
