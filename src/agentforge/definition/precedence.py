"""Precedence of values given at several levels: caller, environment, node, stage, pipeline, default."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.provider_settings import (
    OPTION,
    VARIABLE,
    merge_settings,
    settings_from_data,
    settings_from_environment,
)
from agentforge.definition.report import Report
from agentforge.definition.specs import (
    ApprovalLevel,
    ApprovalSpec,
    CheckSpec,
    LimitSpec,
    ProviderSpec,
    ResolvedBlock,
    ResolvedStage,
    RetrySpec,
    RouteSpec,
    SandboxSpec,
    WorkSpec,
    Written,
)
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.json_text import NOT_JSON
from agentforge.model.plan import Approval, LimitPolicy, Overrides, ProviderChoice, RetryPolicy, SandboxChoice

DEFAULT_PROVIDER = "claude"
JUDGE_MODEL = "haiku"
DEFAULT_MODELS = {"claude": "opus", "codex": "gpt-5.5"}
JUDGE_PROVIDER = "JUDGE_PROVIDER"
_ALIASES = {"claude-code": "claude", "anthropic": "claude", "openai": "codex"}


class OverrideLevels(Struct, frozen=True):
    """Values that override all files: from the caller and the environment."""

    overrides: Overrides
    providers: tuple[ProviderSpec, ...] = ()
    """Weakest first."""
    context: str | None = None
    judge: ProviderChoice = ProviderChoice(DEFAULT_PROVIDER, JUDGE_MODEL)
    """The judge of judgment stages."""


def canonical(provider: str) -> str:
    return _ALIASES.get(provider, provider)


def gather(environment: Mapping[str, str], overrides: Overrides, report: Report) -> OverrideLevels:
    """The caller's overrides, completed from the environment.

    `PIPELINE_CLI_*` passes a command line to another process, so it has the same precedence.
    """
    for name, value in (("provider", overrides.provider), ("model", overrides.model)):
        if value is not None and not value.strip():
            at, hint = report.argument(f'--{name} ""'), "leave it out to use that of the definition"
            report.error("bad-value", at, f"the {name} is empty", hint)
    given = Overrides(
        provider=overrides.provider or environment.get("PIPELINE_CLI_PROVIDER") or None,
        model=overrides.model or environment.get("PIPELINE_CLI_MODEL") or None,
        context=_first(overrides.context, environment.get("PIPELINE_CLI_CONTEXT") or None),
        inputs=overrides.inputs or _cli_inputs(environment.get("PIPELINE_CLI_INPUTS", ""), report),
        commands=overrides.commands,
        max_iterations=overrides.max_iterations,
        config=settings_from_data(overrides.config, report),
    )
    from_environment = ProviderSpec(
        _variable(environment, "CLAUDE_PIPELINE_PROVIDER", report),
        _variable(environment, "CLAUDE_PIPELINE_MODEL", report),
        config := settings_from_environment(environment, report),
        {name: report.variable(VARIABLE, name) for name in config},
    )
    from_caller = ProviderSpec(
        _option("provider", given.provider, report),
        _option("model", given.model, report),
        given.config,
        {name: report.argument(f"{OPTION} {name}") for name in given.config},
    )
    context = _first(given.context, environment.get("CLAUDE_PIPELINE_CONTEXT") or None)
    return OverrideLevels(given, (from_environment, from_caller), context, _judge(environment))


def _judge(environment: Mapping[str, str]) -> ProviderChoice:
    provider = canonical(environment.get(JUDGE_PROVIDER) or DEFAULT_PROVIDER)
    default = JUDGE_MODEL if provider == DEFAULT_PROVIDER else DEFAULT_MODELS.get(provider, "")
    return ProviderChoice(provider, environment.get("JUDGE_MODEL") or default)


def choose_provider(levels: Iterable[ProviderSpec | None]) -> ProviderChoice:
    """Merge the levels, weakest first.

    A model and settings belong to the provider they were written for: a level that changes the provider
    discards those of weaker levels.
    """
    chosen, model, config = DEFAULT_PROVIDER, "", dict[str, Any]()
    for level in levels:
        if level is None:
            continue
        if level.type and canonical(level.type.value) != chosen:
            chosen, model, config = canonical(level.type.value), "", {}
        if level.model:
            model = level.model.value
        config = merge_settings(config, level.config)
    return ProviderChoice(chosen, model or DEFAULT_MODELS.get(chosen, ""), config)


def provider_places(levels: Iterable[ProviderSpec | None]) -> dict[str, SourcePlace]:
    """Where the model and the settings of `choose_provider` are written, and as "" the provider's name."""
    chosen, places = DEFAULT_PROVIDER, dict[str, SourcePlace]()
    for level in levels:
        if level is None:
            continue
        if level.type and canonical(level.type.value) != chosen:
            chosen, places = canonical(level.type.value), {}
        if level.type:
            places[""] = level.type.at
        if level.model:
            places["model"] = level.model.at
        places |= level.places
    return places


def choose_fallbacks(levels: Iterable[ProviderSpec | None]) -> tuple[ProviderChoice, ...]:
    """The fallbacks of the strongest level that names a provider; none if that level names only one."""
    naming = naming_level(levels)
    return tuple(choose_provider([spec]) for spec in naming.fallbacks) if naming else ()


def choose_in_block(
    weaker: Iterable[ProviderSpec | None],
    branch: ProviderSpec,
    node: ProviderSpec | None,
    override_levels: Iterable[ProviderSpec] = (),
) -> ProviderChoice:
    """In a block the branch names the provider; the model is the node's, the branch's or the default.

    Weaker levels don't know which branch they are in, so they give no model, and settings only where they
    name the same provider. Overrides don't change providers and models, which would make all branches the
    same; their settings apply to the branches of the provider that they name, or to all.
    """
    chosen = choose_provider(levels_in_block(weaker, branch, node))
    for level in override_levels:
        if level.type is None or canonical(level.type.value) == chosen.type:
            chosen = replace(chosen, config=merge_settings(chosen.config, level.config))
    return chosen


def levels_in_block(
    weaker: Iterable[ProviderSpec | None], branch: ProviderSpec, node: ProviderSpec | None
) -> list[ProviderSpec | None]:
    """Weakest first."""
    settings = (replace(level, model=None) for level in weaker if level)
    return [*settings, branch, replace(node, type=None) if node else None]


def naming_level(levels: Iterable[ProviderSpec | None]) -> ProviderSpec | None:
    """The level whose provider `choose_provider` uses, or None."""
    return next((level for level in reversed([*levels]) if level and level.type), None)


Policy = TypeVar("Policy", RetryPolicy, LimitPolicy)


def choose_policy(kind: type[Policy], levels: Iterable[RetrySpec | LimitSpec | None]) -> Policy | None:
    """Merge the levels key by key, weakest first; None if all are empty."""
    values: dict[str, Any] = {}
    for level in levels:
        values |= _plain(level)
    return msgspec.convert(values, kind) if values else None


def choose_sandbox(levels: Iterable[SandboxSpec | None]) -> SandboxChoice | None:
    """The strongest level as a whole: sandboxes aren't merged."""
    given = [_plain(level) for level in levels if level]
    return msgspec.convert(given[-1], SandboxChoice) if given else None


def block_approval(block: ResolvedBlock, position: int) -> ApprovalLevel | None:
    """What a block says about one of its stages: the last stage has the result of a branch."""
    level = block.spec.work.approve
    is_off = isinstance(level, Written) and not level.value
    return level if is_off or position == len(block.stages) - 1 else None


def merge_approvals(
    pipeline: Iterable[WorkSpec], block: ApprovalLevel | None, node: ResolvedStage
) -> ApprovalSpec | None:
    """Merge the levels key by key; None if no approval is needed. A level that switches approvals off
    discards the keys of weaker levels."""
    merged: ApprovalSpec | None = None
    defaults = (level.approve for level in pipeline)
    for level in (*defaults, block, node.stage_work.approve, node.spec.work.approve):
        if isinstance(level, ApprovalSpec):
            own = {name: value for name in level.__struct_fields__ if (value := getattr(level, name))}
            merged = replace(merged or ApprovalSpec(), **own)
        elif level:
            merged = (merged or ApprovalSpec()) if level.value else None
    return merged


def lower_approval(merged: ApprovalSpec | None) -> Approval | None:
    return msgspec.convert(_plain(merged), Approval) if merged else None


def _plain(spec: Struct | None) -> dict[str, Any]:
    """The values of a spec, without their places."""
    values: dict[str, Any] = {}
    for name in spec.__struct_fields__ if spec else ():
        match getattr(spec, name):
            case Written(value=value):
                values[name] = value
            case tuple(items):
                values[name] = tuple(item.value for item in items)
    return values


def choose_checks(levels: Sequence[WorkSpec]) -> tuple[CheckSpec, ...]:
    """The checks of the strongest level that has some: lists aren't merged."""
    return next((level.checks for level in reversed(levels) if level.checks is not None), ())


def choose_routes(levels: Sequence[WorkSpec]) -> tuple[RouteSpec, ...]:
    return next((level.routes for level in reversed(levels) if level.routes is not None), ())


def strongest(levels: Iterable[Written[float] | None]) -> float | None:
    """The last value that is set, or None; levels weakest first."""
    values = [level.value for level in levels if level is not None]
    return values[-1] if values else None


def first_text(*written: Written[str] | None) -> str | None:
    """The first text that is set, or None; strongest first."""
    return next((text.value for text in written if text is not None), None)


def merge_commands(
    pipeline: Mapping[str, str], stage: WorkSpec, node: WorkSpec, override_levels: OverrideLevels
) -> dict[str, str]:
    return {**pipeline, **stage.commands, **node.commands, **override_levels.overrides.commands}


def _variable(environment: Mapping[str, str], name: str, report: Report) -> Written[str] | None:
    value = environment.get(name)
    return Written(value, report.variable(name, value)) if value else None


def _option(name: str, value: str | None, report: Report) -> Written[str] | None:
    return Written(value, report.argument(f"--{name} {value}")) if value else None


def _cli_inputs(text: str, report: Report) -> tuple[str, ...]:
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except NOT_JSON:
        at = report.variable("PIPELINE_CLI_INPUTS", text)
        report.error(
            "bad-value", at, "PIPELINE_CLI_INPUTS must be a JSON list of paths", hint='such as ["a.md"]'
        )
        return ()


def _first(*values: str | None) -> str | None:
    return next((value for value in values if value is not None), None)
