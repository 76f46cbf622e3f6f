"""Precedence: what is in force of what several levels say.

The levels of a stage, weakest first, are the pipelines around it, its block, its stage.yaml, its node, the
environment and the caller (`ResolvedStage.levels`). A row of a key table says how the values of one key are
merged, so that a plain key needs no code here. Providers do.
"""

# Why providers can't be a row: `provider`, `model` and settings are one choice. `model: opus` in a stage.yaml
# means Claude's; if a node then says `provider: codex`, passing `opus` on would fail, or worse, be accepted
# as something else. So a level that names another provider discards what weaker levels wrote for theirs. The
# shell engine kept the model, which `migrate check` still explains (`own-model`). Names count after aliases:
# `claude-code` after `claude` changes nothing and discards nothing.
#
# Fallbacks are the exception: they come as a whole from the level that names the provider. A chain of one
# level completed by another would send work to a provider that was not chosen as the fallback of this one.

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.node_keys import STAGE_NODE
from agentforge.definition.read.provider_settings import (
    OPTION,
    VARIABLE,
    merge_settings,
    settings_from_data,
    settings_from_environment,
)
from agentforge.definition.read.table import fields
from agentforge.definition.report import Report
from agentforge.definition.specs import ProviderSpec, ResolvedStage, WorkSpec
from agentforge.definition.yaml_tree import Written
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.errors import NOT_JSON
from agentforge.model.plan import NETWORK, Overrides, ProviderChoice

DEFAULT_PROVIDER = "claude"
JUDGE_MODEL = "haiku"
DEFAULT_MODELS = {"claude": "opus", "codex": "gpt-5.5"}
JUDGE_PROVIDER = "JUDGE_PROVIDER"
_ALIASES = {"claude-code": "claude", "anthropic": "claude", "openai": "codex"}


_ROWS = {key.name: key for key in STAGE_NODE.keys}


class OverrideLevels(Struct, frozen=True):
    """Values that override all files: from the caller and the environment."""

    overrides: Overrides
    levels: tuple[WorkSpec, ...] = ()
    """Weakest first."""
    judge: ProviderChoice = ProviderChoice(DEFAULT_PROVIDER, JUDGE_MODEL)
    """The judge of judgment stages."""


def merged(stage: ResolvedStage, key: str) -> Any:
    """The value of a key that is in force for a stage, with its place; None if no level has it."""
    return _ROWS[key].merged([level.values for level in stage.levels])


def merged_fields(stage: ResolvedStage) -> dict[str, Any]:
    """All fields of the plan that plain keys set."""
    return fields(STAGE_NODE.keys, [level.values for level in stage.levels])


def canonical(provider: str) -> str:
    return _ALIASES.get(provider, provider)


def gather(
    environment: Mapping[str, str], overrides: Overrides, report: Report, above: tuple[WorkSpec, ...] = ()
) -> OverrideLevels:
    """The caller's overrides, completed from the environment. `above`: further levels of the caller.

    `PIPELINE_CLI_*` passes a command line to another process, so it has the same precedence.
    """
    for name, value in (("provider", overrides.provider), ("model", overrides.model)):
        if value is not None and not value.strip():
            at, hint = report.argument(f'--{name} ""'), "leave it out to use that of the definition"
            report.error("bad-value", at, f"the {name} is empty", hint)
    in_cli = environment.get("PIPELINE_CLI_CONTEXT")
    given = replace(
        overrides,
        provider=overrides.provider or environment.get("PIPELINE_CLI_PROVIDER") or None,
        model=overrides.model or environment.get("PIPELINE_CLI_MODEL") or None,
        context=overrides.context if overrides.context is not None else in_cli or None,
        inputs=overrides.inputs or _cli_inputs(environment.get("PIPELINE_CLI_INPUTS", ""), report),
        config=settings_from_data(overrides.config, report),
        local=overrides.local or _is_local(environment.get(NETWORK, ""), report),
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
    context = environment.get("CLAUDE_PIPELINE_CONTEXT")
    # Without places: nothing is reported about them.
    of_caller = {"context": given.context, "commands": given.commands}
    levels = (
        WorkSpec({"context": context} if context else {}, from_environment),
        WorkSpec({name: value for name, value in of_caller.items() if value is not None}, from_caller),
        *above,
    )
    judge = canonical(environment.get(JUDGE_PROVIDER) or DEFAULT_PROVIDER)
    model = JUDGE_MODEL if judge == DEFAULT_PROVIDER else DEFAULT_MODELS.get(judge, "")
    return OverrideLevels(given, levels, ProviderChoice(judge, environment.get("JUDGE_MODEL") or model))


def _is_local(value: str, report: Report) -> bool:
    if value not in ("", "any", "local"):
        message = f"{NETWORK} must be `any` or `local`, got {value!r}"
        report.error("bad-value", report.variable(NETWORK, value), message, "correct or unset the variable")
    return value == "local"


def choose_provider(
    levels: Iterable[ProviderSpec | None],
) -> tuple[ProviderChoice, dict[str, SourcePlace]]:
    """Merge the levels, weakest first; also where the model and the settings are written, and as "" the name.

    A model and settings belong to the provider they were written for: a level that changes the provider
    discards those of weaker levels.
    """
    chosen, model = DEFAULT_PROVIDER, ""
    config, places = dict[str, Any](), dict[str, SourcePlace]()
    for level in filter(None, levels):
        if level.type and canonical(level.type.value) != chosen:
            chosen, model, config, places = canonical(level.type.value), "", {}, {}
        if level.type:
            places[""] = level.type.at
        if level.model:
            model, places["model"] = level.model.value, level.model.at
        config = merge_settings(config, level.config)
        places |= level.places
    return ProviderChoice(chosen, model or DEFAULT_MODELS.get(chosen, ""), config), places


def choose_fallbacks(levels: Iterable[ProviderSpec | None]) -> tuple[ProviderChoice, ...]:
    """The fallbacks of the strongest level that names a provider; none if that level names only one."""
    naming = naming_level(levels)
    return tuple(choose_provider([spec])[0] for spec in naming.fallbacks) if naming else ()


def choose_in_block(stage: ResolvedStage, branch: ProviderSpec) -> ProviderChoice:
    """In a block the branch names the provider; the model is the node's, the branch's or the default.

    Weaker levels don't know which branch they are in, so they give no model, and settings only where they
    name the same provider. Overrides don't change providers and models, which would make all branches the
    same; their settings apply to the branches of the provider that they name, or to all.
    """
    chosen, _ = choose_provider(levels_in_block(stage, branch))
    for level in filter(None, (override.provider for override in stage.overrides)):
        if level.type is None or canonical(level.type.value) == chosen.type:
            chosen = replace(chosen, config=merge_settings(chosen.config, level.config))
    return chosen


def levels_in_block(stage: ResolvedStage, branch: ProviderSpec) -> list[ProviderSpec | None]:
    """Weakest first."""
    weaker = (level.provider for level in (*stage.around, stage.stage_work))
    settings = (replace(level, model=None) for level in weaker if level)
    node = stage.spec.work.provider
    return [*settings, branch, replace(node, type=None) if node else None]


def naming_level(levels: Iterable[ProviderSpec | None]) -> ProviderSpec | None:
    """The level whose provider `choose_provider` uses, or None."""
    return next((level for level in reversed([*levels]) if level and level.type), None)


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
        message = "PIPELINE_CLI_INPUTS must be a JSON list of paths"
        report.error("bad-value", at, message, hint='such as ["a.md"]')
        return ()
