"""The output of a dry run: what a plan will do, as Markdown that is readable as plain text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from agentforge.model.layout import RunLayout
from agentforge.model.plan import (
    Approval,
    Fixed,
    FromParallel,
    FromStage,
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
from agentforge.views.graph import GraphNode, stages_by_path
from agentforge.views.lines.agents import OWN_PERMISSIONS, Permissions, permission_words, provider_text
from agentforge.views.lines.plan import hook_sections, judgment_lines
from agentforge.views.prompt import asks_for_result
from agentforge.views.text import counted, one_line, span

TEXT_CHARS = 100
APPENDED = "a paragraph that asks for it is appended to the prompt (`result_instructions: off` omits it)"


def preview(plan: Plan, layout: RunLayout, permissions: Permissions | None = None) -> list[str]:
    stages = _steps(plan, layout, permissions or {})
    head = (*_head(plan, layout), *_initial(plan))
    return [*head, "", "## Stages", *stages, *hook_sections(plan), *_commands(plan)]


def readiness_lines(problems: Sequence[tuple[str, str]], warnings: Sequence[str]) -> list[str]:
    """What prevents the run on this machine, each with its fix, and what is worth knowing before it."""
    lines = ["", "## Not ready: the run would be refused"] if problems else []
    for message, hint in problems:
        lines.append(f"- {one_line(message)}{f'; {one_line(hint)}' if hint else ''}")
    if warnings:
        lines += ["", "## Warnings", *(f"- {one_line(warning)}" for warning in warnings)]
    return lines


def _head(plan: Plan, layout: RunLayout) -> Iterator[str]:
    what = "loop" if plan.mode == "loop" else "pipeline"
    yield f"# Dry run: {what} {plan.pipeline.name}"
    yield ""
    if plan.pipeline.description:
        yield one_line(plan.pipeline.description)
        yield ""
    yield f"- Session: {plan.session.name}"
    yield f"- Source: {plan.source.path}"
    yield f"- Run directory: {layout.root}"
    if plan.mode == "loop":
        yield f"- Progress: {layout.session_progress}"
    if plan.passes > 1:
        yield f"- Runs: {plan.passes} times"
    rails = plan.pipeline.guardrails
    if rails and rails.max_runtime_seconds is not None:
        yield f"- Runtime limit: {span(rails.max_runtime_seconds)}"
    stages = [stage for step in plan.steps for stage in step.stages]
    judged = (plan.judge_of(stage) for stage in stages if isinstance(stage.termination, Judgment))
    if judges := dict.fromkeys(map(provider_text, judged)):
        yield f"- Judge: {', '.join(judges)}"
    if plan.pipeline.views:
        yield f"- Views: {', '.join(plan.pipeline.views)}"


def _initial(plan: Plan) -> Iterator[str]:
    if plan.session.inputs:
        yield ""
        yield "## Inputs"
        yield from (f"- {path}" for path in plan.session.inputs)


def _steps(plan: Plan, layout: RunLayout, permissions: Permissions) -> Iterator[str]:
    cleared: set[str] = set()
    stages = stages_by_path(plan)
    for step in plan.steps:
        yield ""
        for name in plan.checkpoints(step.path):
            if name not in cleared:
                yield f"### Checkpoint {name}: the run waits for an approval"
                yield ""
        cleared.update(plan.checkpoints(step.path))
        if isinstance(step.node, ParallelNode):
            yield from _block(step, step.node, layout, permissions, stages)
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
    for title, choice in zip(("Provider", *["Fallback"] * len(node.fallbacks)), node.chain, strict=True):
        yield f"- {title}: {provider_text(choice)}"
        yield from _access(choice, permissions)
    yield f"- Sandbox: {_sandbox(node.sandbox)}"
    yield f"- Iterations: {_iterations(node.termination)}"
    yield f"- Prompt: {node.prompt_path or one_line(node.prompt or '', TEXT_CHARS)}"
    is_cli = any(choice.type in permissions for choice in node.chain)
    if is_cli and node.result_instructions and not asks_for_result(node.prompt or ""):
        yield f"- Result: {APPENDED}"
    if node.approve:
        yield f"- Approval: {_approval(node.approve)}"
        if node.approve.message:
            yield f"- Question: {one_line(node.approve.message, TEXT_CHARS)}"
    if node.delay:
        yield f"- Delay: {node.delay:g} s between iterations"
    yield f"- Attempts: {_attempts(node)}"
    yield f"- Limits: {', '.join(_limits(node)) or 'none'}"
    yield from judgment_lines(place)
    if node.context:
        yield f"- Context: {one_line(node.context, TEXT_CHARS)}"
    for source in node.sources.from_stage if node.sources else ():
        yield f"- Input: {_from_stage(source)}"
    for block in node.sources.from_parallel if node.sources else ():
        yield f"- Input: {_from_parallel(block)}"
    if node.output_path:
        yield f"- Output: {node.output_path.replace('${SESSION}', session)}"


def _approval(approval: Approval) -> str:
    who = "a person" if approval.by == "person" else "a person or another agent"
    parts = [f"by {who} when the stage has ended", f"at most {counted(approval.rounds, 'round')}"]
    if approval.timeout is not None:
        then = "still waits" if approval.on_timeout == "wait" else approval.on_timeout
        parts.append(f"after {span(approval.timeout)} without an answer: {then}")
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
        return "none"
    parts = [sandbox.type, "with network" if sandbox.network else "without network"]
    parts += [f"image {sandbox.image}"] if sandbox.image else []
    parts += [f"writable: {' '.join(sandbox.writable)}"] if sandbox.writable else []
    parts += [f"hidden: {' '.join(sandbox.hidden)}"] if sandbox.hidden else []
    return one_line(", ".join(parts), TEXT_CHARS)


def _attempts(node: StageNode) -> str:
    if node.semantics == "at_most_once":
        return "at_most_once, a person decides whether a failed one is retried"
    policy = node.retry or RetryPolicy()
    again = f", {counted(policy.stage, 'retry', 'retries')} of the stage" if policy.stage else ""
    return f"{node.semantics}, at most {policy.max_attempts} per iteration{again}"


def _limits(node: StageNode) -> Iterator[str]:
    if node.timeout is not None:
        yield f"{span(node.timeout)} for an attempt"
    if node.idle_timeout is not None:
        yield f"{span(node.idle_timeout)} without output"
    if node.guardrails and node.guardrails.max_runtime_seconds is not None:
        yield f"{span(node.guardrails.max_runtime_seconds)} for the stage"
    if node.on_limit:
        yield f"at a quota or rate limit: {node.on_limit.do}"


def _iterations(termination: Termination) -> str:
    limit = counted(termination.max, "iteration")
    match termination:
        case Fixed():
            return limit if termination.max == 1 else f"at most {limit}; the agent can stop earlier"
        case Judgment():
            stops, first = counted(termination.required_stops, "stop"), termination.judged_from
            return f"until the judge decides {stops} in a row, from iteration {first}; at most {limit}"
        case Queue():
            return f"until the queue is empty; at most {limit}"
        case _:
            assert_never(termination)


def _from_stage(source: FromStage) -> str:
    return f"{source.id} ({_selected(source.select)})"


def _from_parallel(source: FromParallel) -> str:
    return f"{source.stage} of {source.block}: {', '.join(source.providers)} ({_selected(source.select)})"


def _selected(select: str) -> str:
    return "every output" if select == "all" else "its latest output"


def _commands(plan: Plan) -> Iterator[str]:
    commands = plan.pipeline.commands | plan.pipeline.overrides.commands
    if commands:
        yield ""
        yield "## Commands"
        yield from (
            f"- {name}: {one_line(command, TEXT_CHARS)}" for name, command in sorted(commands.items())
        )
