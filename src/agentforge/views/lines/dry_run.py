"""The output of a dry run: what a plan will do, as Markdown that is readable as plain text.

The rows of the key tables say how plain keys are shown. The code here says the rest: what depends on several
keys, and the order of the lines. Rows without a place in that order come last.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, assert_never

from msgspec import Struct, structs

from agentforge.definition.read.file_keys import PIPELINE_KEYS
from agentforge.definition.read.node_keys import STAGE_NODE
from agentforge.definition.read.table import Key, Nested
from agentforge.model.artifact import ArtifactRule
from agentforge.model.layout import RunLayout
from agentforge.model.plan import (
    Approval,
    Fixed,
    Items,
    Judgment,
    ParallelNode,
    Plan,
    ProviderChoice,
    Queue,
    RetryPolicy,
    SandboxChoice,
    StageNode,
    Step,
    Termination,
)
from agentforge.model.spending import shown
from agentforge.views.graph import GraphNode, stages_by_path
from agentforge.views.lines.deliver import rule_text
from agentforge.views.lines.plan import (
    OWN_PERMISSIONS,
    Permissions,
    hook_sections,
    judgment_lines,
    permission_words,
    provider_text,
    unanswered,
)
from agentforge.views.prompt import asks_for_result
from agentforge.views.text import counted, one_line, span

TEXT_CHARS = 100
APPENDED = "a paragraph that asks for it is appended to the prompt (`result_instructions: off` omits it)"


def preview(
    plan: Plan,
    layout: RunLayout,
    permissions: Permissions | None = None,
    skipped: Collection[str] = (),
    request: str | None = None,
) -> list[str]:
    """`skipped`: the ids of the stages that a person skips. `request`: the user request."""
    inputs = ["", "## Inputs", *(f"- {path}" for path in plan.session.inputs)] if plan.session.inputs else []
    stages = _steps(plan, layout, permissions or {}, skipped)
    lines = [*_head(plan, layout, request), *inputs, "", "## Stages", *stages, *hook_sections(plan)]
    if commands := plan.pipeline.commands | plan.pipeline.overrides.commands:
        texts = (f"- {name}: {one_line(text, TEXT_CHARS)}" for name, text in sorted(commands.items()))
        lines += ["", "## Commands", *texts]
    return lines


def readiness_lines(problems: Sequence[tuple[str, str]], warnings: Sequence[str]) -> list[str]:
    """What prevents the run on this machine, each with its fix, and what is worth knowing before it."""
    lines = ["", "## Not ready: the run would be refused"] if problems else []
    for message, hint in problems:
        lines.append(f"- {one_line(message)}{f'; {one_line(hint)}' if hint else ''}")
    if warnings:
        lines += ["", "## Warnings", *(f"- {one_line(warning)}" for warning in warnings)]
    return lines


def _head(plan: Plan, layout: RunLayout, request: str | None) -> Iterator[str]:
    what = "loop" if plan.mode == "loop" else "pipeline"
    yield f"# Dry run: {what} {plan.pipeline.name}"
    yield ""
    if plan.pipeline.description:
        yield one_line(plan.pipeline.description)
        yield ""
    yield f"- Session: {plan.session.name}"
    yield f"- Source: {plan.source.path}"
    yield f"- Run directory: {layout.root}"
    if request is not None:
        yield f"- Request: {one_line(request, TEXT_CHARS)}"
    if plan.mode == "loop":
        yield f"- Progress: {layout.session_progress}"
    if plan.passes > 1:
        yield f"- Runs: {plan.passes} times"
    for setting in plan.pipeline.settings:
        yield f"- Setting: {one_line(setting.key)} ({one_line(setting.place)})"
    rows = _rows(PIPELINE_KEYS, plan.pipeline)
    yield from _lines("Runtime limit", rows)
    for place in plan.caps:
        amounts = ", ".join(shown(unit, cap) for unit, cap in place.caps.known)
        yield f"- Cap: {one_line(place.name)} may spend at most {amounts}"
    if daily := plan.pipeline.daily_usd:
        yield f"- Cap: all of your runs of a day may spend at most {shown('cost_usd', daily)}"
    if notice := plan.pipeline.warn_usd:
        yield f"- Notice: when the run has spent {shown('cost_usd', notice)}"
    judged = (plan.judge_of(stage) for stage in plan.stages if isinstance(stage.termination, Judgment))
    if judges := dict.fromkeys(map(provider_text, judged)):
        yield f"- Judge: {', '.join(judges)}"
    yield from _rest(rows)


class _Values(Formatter):
    """The values in the texts of rows; a format, such as `{:g}` or `{:usd}`, overrides that of the type."""

    def format_field(self, value: Any, format_spec: str) -> str:
        match value:
            case float() if not format_spec:
                return span(value)
            case float() if format_spec == "usd":
                return shown("cost_usd", value)
            case tuple():
                return ", ".join(self.format_field(item, format_spec) for item in value)
            case str():
                return one_line(value, TEXT_CHARS)
            case _:
                return format(value, format_spec)


_VALUES = _Values()


def _rows(keys: Iterable[Key], part: Struct) -> dict[str, list[str]]:
    """What the rows of keys show of a part of the plan, by title."""
    found: dict[str, list[str]] = {}
    defaults = {field.name: field.default for field in structs.fields(part)}
    for key in keys:
        value = getattr(part, key.field or key.name) if key.field is not None else None
        if value and key.shown and value != defaults[key.field or key.name]:
            title, _, text = key.shown.partition(": ")
            found.setdefault(title, []).append(_VALUES.format(text, value))
        if value and isinstance(key.kind, Nested):
            found |= _rows(key.kind.table.keys, value)
    return found


def _lines(title: str, rows: dict[str, list[str]], default: str = "") -> Iterator[str]:
    """Takes the line with that title from the rows."""
    if text := ", ".join(rows.pop(title, ())) or default:
        yield f"- {title}: {text}"


def _rest(rows: dict[str, list[str]]) -> Iterator[str]:
    for title in list(rows):
        yield from _lines(title, rows)


def _steps(
    plan: Plan, layout: RunLayout, permissions: Permissions, skipped: Collection[str]
) -> Iterator[str]:
    cleared: set[str] = set()
    stages = stages_by_path(plan)
    for step in plan.steps:
        yield ""
        for name in plan.checkpoints(step.path):
            # A checkpoint is asked once in a run, however many nodes name it.
            if name not in cleared:
                yield f"### Checkpoint {name}: the run waits for an approval"
                yield ""
        cleared.update(plan.checkpoints(step.path))
        if isinstance(step.node, ParallelNode):
            yield from _block(step, step.node, layout, permissions, stages)
        elif step.node.id in skipped:
            yield f"### {step.path} {_title(step.node)}"
            yield "- Skipped: nothing is run; the run continues as after the verdict `pass`"
        else:
            yield f"### {step.path} {_title(step.node)}"
            yield from _stage(step.node, layout.session, permissions, stages[step.path])
            yield f"- Directory: {layout.stage_dir(step.dir)}"


def _block(
    step: Step,
    node: ParallelNode,
    layout: RunLayout,
    permissions: Permissions,
    stages: Mapping[str, GraphNode],
) -> Iterator[str]:
    providers = [branch.provider for branch in node.branches]
    yield f"### {step.path} {node.id}: {', '.join(providers)} in parallel"
    yield f"- Directory: {layout.stage_dir(step.dir)}"
    for branch in node.branches:
        for position, stage in enumerate(branch.stages):
            yield ""
            yield f"#### {step.path}.{position} {branch.provider}: {_title(stage)}"
            yield from _stage(stage, layout.session, permissions, stages[step.inner_path(stage)])
            folder = f"{step.dir}/providers/{branch.provider}/stage-{position:02d}-{stage.id}"
            yield f"- Directory: {layout.stage_dir(folder)}"


def _title(node: StageNode) -> str:
    return node.id if node.stage == node.id else f"{node.id} ({node.stage})"


def _stage(node: StageNode, session: str, permissions: Permissions, place: GraphNode) -> Iterator[str]:
    if node.description:
        yield f"- {one_line(node.description, TEXT_CHARS)}"
    if node.deliver:
        yield f"- Delivers: {rule_text(node.deliver)}"
    else:
        yield from _agents(node, session, permissions, place)


def _agents(node: StageNode, session: str, permissions: Permissions, place: GraphNode) -> Iterator[str]:
    for title, choice in zip(("Provider", *["Fallback"] * len(node.fallbacks)), node.chain, strict=True):
        yield f"- {title}: {provider_text(choice)}"
        yield from _access(choice, permissions)
    yield f"- Sandbox: {_sandbox(node.sandbox)}"
    yield f"- Iterations: {_iterations(node.termination)}"
    if node.prompt_path or node.prompt:
        yield f"- Prompt: {node.prompt_path or one_line(node.prompt or '', TEXT_CHARS)}"
    is_cli = any(choice.type in permissions for choice in node.chain)
    if is_cli and node.result_instructions and not asks_for_result(node.prompt or ""):
        yield f"- Result: {APPENDED}"
    if node.artifact:
        yield f"- Artifact: {_artifact(node.artifact)}"
    if node.sources and node.sources.artifact:
        yield f"- Needs: {', '.join(map(one_line, node.sources.artifact))} of earlier artifacts"
    rows = _rows(STAGE_NODE.keys, node)
    if node.on_limit:
        rows.setdefault("Limits", []).append(f"at a quota or rate limit: {node.on_limit.do}")
    if node.approve:
        yield f"- Approval: {_approval(node.approve)}"
    yield from _lines("Question", rows)
    yield from _lines("Delay", rows)
    yield f"- Attempts: {_attempts(node)}"
    yield from _lines("Limits", rows, "none")
    yield from judgment_lines(place)
    yield from (f"- Check: {one_line(name)} is not run: {why}" for name, why in node.left_out.items())
    if (tokens := node.tokens) and tokens.limit is not None:
        parts = f"{tokens.reserve:g} % reserve, {tokens.share:g} % of the rest for the stage"
        yield f"- Tokens: at most {tokens.limit:,} ({tokens.total:,} in all, {parts})"
    yield from _lines("Context", rows)
    for source in node.sources.from_stage if node.sources else ():
        yield f"- Input: {source.id} ({_selected(source.select)})"
    for block in node.sources.from_parallel if node.sources else ():
        providers = ", ".join(block.providers)
        yield f"- Input: {block.stage} of {block.block}: {providers} ({_selected(block.select)})"
    if node.output_path:
        yield f"- Output: {node.output_path.replace('${SESSION}', session)}"
    yield from _rest(rows)


def _artifact(rule: ArtifactRule) -> str:
    schema = f"as in {one_line(rule.source)}" if rule.source else "with an inline schema"
    heal = f"corrected at most {counted(rule.heal, 'time')}" if rule.heal else "never corrected"
    words = {"request": "the user request", "id": "a new id"}
    filled = (f"; {one_line(name)}: {words[source]}" for name, source in rule.fill.items())
    return f"version {rule.version}, {schema}, {heal}{''.join(filled)}"


def _approval(approval: Approval) -> str:
    who = "a person" if approval.by == "person" else "a person or another agent"
    parts = [f"by {who} when the stage has ended"]
    parts.append(
        f"at most {counted(approval.rounds, 'round')}" if approval.feedback else "a rejection ends the run"
    )
    if later := unanswered(approval.timeout, approval.on_timeout):
        parts.append(later)
    return "; ".join(parts)


def _access(choice: ProviderChoice, permissions: Permissions) -> Iterator[str]:
    """Which server the provider calls, and what its agent may do without asking."""
    if address := choice.config.get("base_url"):
        key = choice.config.get("api_key_env") or "the key of the model's vendor, if any"
        yield f"- Server: {one_line(str(address), TEXT_CHARS)}, with {one_line(str(key), TEXT_CHARS)}"
    words = permission_words(choice, permissions, TEXT_CHARS)
    if words is not None:
        yield f"- Permissions: {words or OWN_PERMISSIONS}"


def _sandbox(sandbox: SandboxChoice | None) -> str:
    if sandbox is None or sandbox.type == "none":
        return "auto (none)" if sandbox and sandbox.auto else "none"
    kind = f"auto ({sandbox.type})" if sandbox.auto else sandbox.type
    parts = [kind, "with network" if sandbox.network else "without network"]
    parts += [f"image {sandbox.image}"] if sandbox.image else []
    parts += [f"writable: {' '.join(sandbox.writable)}"] if sandbox.writable else []
    parts += [f"hidden: {' '.join(sandbox.hidden)}"] if sandbox.hidden else []
    return one_line(", ".join(parts), TEXT_CHARS)


def _attempts(node: StageNode) -> str:
    if node.semantics == "at_most_once":
        return "at_most_once, a person decides whether a failed one is retried"
    policy = node.retry or RetryPolicy()
    again = f", {counted(policy.stage, 'retry', 'retries')} of the stage" if policy.stage else ""
    any = " for any failure" if policy.retried == "any" else ""
    asks = ", then asks" if policy.exhausted == "ask" else ""
    return f"{node.semantics}, at most {policy.max_attempts} per iteration{any}{again}{asks}"


def _iterations(termination: Termination) -> str:
    limit = counted(termination.max, "iteration")
    match termination:
        case Fixed(until_pass=True):
            return f"until the verdict is pass; at most {limit}"
        case Fixed():
            return limit if termination.max == 1 else f"at most {limit}; the agent can stop earlier"
        case Judgment():
            stops, first = counted(termination.required_stops, "stop"), termination.judged_from
            return f"until the judge decides {stops} in a row, from iteration {first}; at most {limit}"
        case Queue():
            return f"until the queue is empty; at most {limit}"
        case Items(source=source):
            return f"one for each item of {source}; at most {counted(termination.max, 'item')}"
        case _:
            assert_never(termination)


def _selected(select: str) -> str:
    return "every output" if select == "all" else "its latest output"
