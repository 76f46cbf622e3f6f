"""Applies settings to the stages of a pipeline, and what is detected where neither says anything."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from agentforge.definition.machine import Machine
from agentforge.definition.orchestration import (
    orchestrated,
    stage_of,
    validate_shares,
    warn_of_unknown_stages,
)
from agentforge.definition.precedence import DEFAULT_PROVIDER, merged, naming_level
from agentforge.definition.project_commands import TEST, find_language, first_tests, parser_of, reporting
from agentforge.definition.read.check_keys import CAPS, RULES, is_auto
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.report import Report, absolute
from agentforge.definition.settings import LIMITS, LOOSEN, Settings, is_as_strict, refuse_unset
from agentforge.definition.specs import (
    PipelineSpec,
    ProviderSpec,
    ResolvedPipeline,
    ResolvedStage,
    WorkSpec,
    ids_of,
)
from agentforge.definition.yaml_tree import Written
from agentforge.model.check import CheckParser
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.hook import NOTIFY_VARIABLE, Notification
from agentforge.model.layout import TRUST_FILE
from agentforge.model.plan import AppliedSetting
from agentforge.model.plan_limits import MAX_NOTIFICATIONS
from agentforge.ports.sources import Sources

SETTINGS_KEY = "settings"
"""Of a pipeline."""


class StageSettings:
    def __init__(self, settings: Settings, machine: Machine, sources: Sources, report: Report) -> None:
        self._settings = settings
        self._machine = machine
        self._sources = sources
        self._report = report
        self._used = set[SourcePlace]()

    def applied(self, stage: ResolvedStage, pipeline: PipelineSpec) -> ResolvedStage:
        """With the levels that settings add: the weakest of all, or above the stage's own keys."""
        stage = self._supervised(stage, pipeline)
        stage = replace(stage, around=(*self._settings.works, *stage.around))
        named = naming_level(level.provider for level in stage.levels)
        if (
            stage.is_found
            and named is None
            and (name := self._machine.default_provider()) != DEFAULT_PROVIDER
        ):
            default = WorkSpec(provider=ProviderSpec(Written(name, stage.spec.at)))
            stage = replace(stage, around=(default, *stage.around))
        if pipeline.get(SETTINGS_KEY):
            above = orchestrated(stage, self._settings.orchestration)
            stage = replace(stage, overrides=(above, *stage.overrides))
        stage = self._confined(stage)
        self._note(stage, is_orchestrated=pipeline.get(SETTINGS_KEY) is not None)
        return self._with_commands(stage)

    def _supervised(self, stage: ResolvedStage, pipeline: PipelineSpec) -> ResolvedStage:
        """With the default for pipelines of the controller."""
        default = self._settings.supervised
        if default is None or not pipeline.has_controller_view:
            return stage
        supervised = replace(stage, around=(WorkSpec({"approve": default}), *stage.around))
        if merged(supervised, "approve") != merged(stage, "approve"):
            self._used.add(default.at)
        return supervised

    def _note(self, stage: ResolvedStage, *, is_orchestrated: bool) -> None:
        """Which settings the stage takes, and which it would take if their variables were set."""
        id, levels = stage.spec.id, self._settings.levels
        for number, level in enumerate(levels):
            for key in (*level.written, *level.unset):
                top, _, name = key.partition(".")
                if top == "orchestration":
                    stronger = (name in other.orchestration for other in levels[number + 1 :])
                    is_known = name in level.orchestration or key in level.unset
                    is_used = is_orchestrated and is_known and not any(stronger)
                    is_used = is_used and stage_of(name) in ("", id.value if id else "")
                else:
                    is_used = _is_in_force(top, name, level.work, stage)
                if is_used and key in level.unset:
                    refuse_unset([level.unset[key]], self._report)
                elif is_used:
                    self._used.add(level.written[key].at)

    def to_pipeline(self, spec: PipelineSpec) -> PipelineSpec:
        """The outermost pipeline with the commands, the notifications and the limits of settings."""
        commands = {**self._settings.commands, **spec.values.get("commands", {})}
        notify = (*spec.values.get("notify", ()), *self._notify)
        added: dict[str, Any] = {"commands": commands} if commands else {}
        if self._notify and len(notify) > MAX_NOTIFICATIONS:
            message = (
                f"settings and pipeline have {len(notify)} notifications; the maximum is {MAX_NOTIFICATIONS}"
            )
            self._report.error("too-large", notify[-1].at, message, "remove some of them")
        if limits := self._limits(spec):
            added[LIMITS] = limits
        return replace(spec, values={**spec.values, **added, **({"notify": notify} if notify else {})})

    def _limits(self, spec: PipelineSpec) -> MappingSpec | None:
        """Those of the pipeline, apart from caps of settings that are lower."""
        own: MappingSpec | None = spec.get(LIMITS)
        values = dict(own.values) if own else {}
        for name, value in self._settings.limits.items():
            if name in values and values[name].value <= value.value:
                continue
            level = self._settings.level_of(key := f"{LIMITS}.{name}")
            assert level is not None
            self._used.add(level.written[key].at)
            if name in values and not self._is_builtin(values[name].at):
                message = f"`limits.{name}` of the settings is lower ({value.at.text}), which counts"
                self._report.warning("less-strict", values[name].at, message, LOOSEN)
            values[name] = value
            own = own or MappingSpec(CAPS, value.at)
        return replace(own, values=values) if own else None

    def _is_builtin(self, place: SourcePlace) -> bool:
        """No one has to correct a built-in pipeline."""
        return absolute(self._sources.project, place.file).startswith(f"{self._sources.builtin}/")

    @cached_property
    def _notify(self) -> tuple[Written[Notification], ...]:
        """Those of the project only if the user trusts it; none if a variable says who is notified."""
        if self._sources.environment.get(NOTIFY_VARIABLE):
            return ()
        wanted = [level for level in self._settings.levels if level.notify and not level.is_users]
        trusted = bool(wanted) and self._machine.trusts_project()
        if wanted and not trusted:
            message = "`notify` is ignored: you don't trust this project"
            hint = f"check it, then pass --trust-project, or add its folder to ~/.config/{TRUST_FILE}"
            self._report.warning("untrusted", wanted[0].notify[0].at, message, hint)
        level = self._settings.level_of("notify", trusts_project=trusted)
        if level is None:
            return ()
        self._used |= {value.at for key, value in level.written.items() if key.startswith("notify")}
        return level.notify

    @property
    def used(self) -> tuple[AppliedSetting, ...]:
        """What has an effect in the stages so far, in the order of the files."""
        return tuple(
            AppliedSetting(key, value.at.text)
            for level in self._settings.levels
            for key, value in level.written.items()
            if value.at in self._used or (key, value.value) == ("network", "local")
        )

    def validate(self, pipelines: Sequence[ResolvedPipeline]) -> None:
        """Settings for stages that no pipeline has, and those that are wrong together with the pipelines."""
        taking = [pipeline for pipeline in pipelines if pipeline.spec.get(SETTINGS_KEY)]
        if not taking:
            for value in self._settings.of_caller.values():
                message = f"{pipelines[0].spec.name!r} takes no settings below `orchestration`"
                hint = "add `settings: orchestration` to it, or leave the option out"
                self._report.error("no-orchestration", value.at, message, hint)
            return
        nodes = [node for pipeline in taking for node in pipeline.spec.nodes]
        inner = [stage for node in nodes if node.block for stage in node.block.stages]
        warn_of_unknown_stages(self._settings.orchestration, ids_of([*nodes, *inner]), self._report)
        for pipeline in taking:
            stages = [node for node in pipeline.nodes if isinstance(node, ResolvedStage)]
            validate_shares(stages, self._settings.orchestration, self._report)

    def _confined(self, stage: ResolvedStage) -> ResolvedStage:
        """With the sandbox of the user's own settings, if what the project says is less strict."""
        users, found = self._settings.users_sandbox, merged(stage, "sandbox")
        if users is None or is_as_strict(found, users):
            return stage
        if not self._is_builtin(found.at):
            message = (
                f"this sandbox is less strict than that of your settings ({users.at.text}), which counts"
            )
            self._report.warning("less-strict", found.at, message, LOOSEN)
        return replace(stage, overrides=(*stage.overrides, WorkSpec({"sandbox": users})))

    def _with_commands(self, stage: ResolvedStage) -> ResolvedStage:
        """With the commands that its checks name without saying them, and the parsers of these commands."""
        checks = merged(stage, "checks") or ()
        named = [check for check in checks if not any(map(check.get, ("run", *RULES)))]
        given = merged(stage, "commands") or {}
        names = {check.get("name").value for check in named}.difference(given)
        found = {name: run for name, run in self._detected.items() if name in names} if names else {}
        if TEST in names - found.keys() and any(map(is_auto, named)) and (run := first_tests(self._sources)):
            found[TEST] = run
        settings = self._settings.commands.items() & given.items()
        known = {name: Written(parser_of(run), stage.spec.at) for name, run in (*settings, *found.items())}
        read = tuple(_parsed(check, known) if check in named else check for check in checks)
        read = tuple(self._reporting(check, {**found, **given}) for check in read)
        if not found and read == checks:
            return stage
        above = (*stage.overrides, WorkSpec({"checks": read}))
        return replace(stage, around=(WorkSpec({"commands": found}), *stage.around), overrides=above)

    def _reporting(self, check: MappingSpec, commands: Mapping[str, str]) -> MappingSpec:
        """A check with `parse: auto` with the command that leaves a report, or the parser of its output."""
        if not is_auto(check):
            return check
        parse = check.get("parse")
        run = check.get("run") or commands.get(check.get("name").value, "")
        values = {name: value for name, value in check.values.items() if name not in ("parse", "report")}
        if own := reporting(run, self._sources):
            junit = Written("junit", parse.at)
            return replace(check, values={**values, "parse": junit, "run": own})
        return replace(check, values={**values, "parse": Written(parser_of(run), parse.at)})

    @cached_property
    def _detected(self) -> dict[str, str]:
        return find_language(self._sources).commands


def _is_in_force(key: str, name: str, level: WorkSpec, stage: ResolvedStage) -> bool:
    """Whether no stronger level says something else."""
    levels = stage.levels
    stronger = levels[next(i for i, one in enumerate(levels) if one is level) + 1 :]
    others = [one.provider for one in stronger if one.provider]
    match key:
        case "provider":
            return not any(other.type for other in others)
        case "model":
            return not any(other.type or other.model for other in others)
        case "sandbox":
            return merged(stage, key) is level.get(key)
        case "commands":
            return (merged(stage, key) or {}).get(name) == (level.get(key) or {}).get(name)
        case _:
            return False


def _parsed(check: MappingSpec, parsers: Mapping[str, Written[CheckParser]]) -> MappingSpec:
    parse = parsers.get(check.get("name").value)
    if check.get("parse") or parse is None or parse.value == "exit":
        return check
    return replace(check, values={**check.values, "parse": parse})
