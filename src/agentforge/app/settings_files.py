"""The settings files of a user and a project: what is in force and where it comes from, and changing them."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from agentforge.app.providers.logins import usable_agent
from agentforge.app.providers.offers import is_trusted
from agentforge.app.runs.caller import refuse_agent
from agentforge.app.runs.lookup import existing_project
from agentforge.app.settings_text import changed_settings
from agentforge.app.wiring import sources_of
from agentforge.definition.compiler import compile_pipeline
from agentforge.definition.precedence import choose_provider, gather, naming_level
from agentforge.definition.project_commands import find_language
from agentforge.definition.read.settings_keys import SETTINGS, SPENDING
from agentforge.definition.read.values import as_data
from agentforge.definition.report import Report, SourceText, relative
from agentforge.definition.settings import (
    BY_NAME,
    LIMITS,
    Settings,
    is_blank,
    nested,
    plain_key,
    read_settings,
    settings_tree,
    top_of,
    user_settings,
)
from agentforge.definition.specs import ProviderSpec
from agentforge.definition.yaml_tree import Written, parse_value
from agentforge.engine.decide.checks import DEFAULT_CYCLES, cycle_limits
from agentforge.model.diagnostic import Diagnostic, SourcePlace, choice
from agentforge.model.errors import AgentForgeError, DefinitionError, InvalidRequest, StorageFailed
from agentforge.model.hook import NOTIFY_VARIABLE
from agentforge.model.layout import PROJECT_SETTINGS
from agentforge.model.names import DEFAULT_PIPELINE
from agentforge.model.plan import FAIL, NETWORK, Overrides, Plan, RetryPolicy, StageNode, TokenBudget
from agentforge.system import files

VARIABLES = {
    "provider": ("PIPELINE_CLI_PROVIDER", "CLAUDE_PIPELINE_PROVIDER"),
    "model": ("PIPELINE_CLI_MODEL", "CLAUDE_PIPELINE_MODEL"),
    "notify": (NOTIFY_VARIABLE,),
    "network": (NETWORK,),
}
"""The environment variables that override a setting, strongest first."""
_SHARED = 0o777
_DEFAULT, _DETECTED = "default", "detected in the project"

TEMPLATE = """\
# Settings of AgentForge for all pipelines; `agentforge config show --origin` shows those in force.
# Remove the `#` before a line to set it.

# provider: claude            # for stages for which a pipeline names none
# model: opus
# sandbox: auto               # bwrap where it works
# network: any                # local: only providers on this machine
# limits: {cost_usd: 5, daily_usd: 50, warn_usd: 2}    # US dollars for a run, a day, a notice
# notify: desktop             # when a run needs a person, fails, completes or is cancelled
# pipeline: loop              # for `agentforge run "REQUEST"`

# commands:                   # for the checks `test` and `lint`; by default they are detected
#   test: pytest -q
#   lint: ruff check .

# orchestration:              # for pipelines with `settings: orchestration`, such as `loop`
#   cycle_limit: 3
#   step_retry_limit: 3
#   stage_retry_limit: 2
#   executor_timeout: 300
#   token_budget: {planner: 40, executor: 30, verifier: 15, reviewer: 15}
"""


class SettingInForce(Struct, frozen=True):
    """A setting in force."""

    key: str
    value: Any
    origin: str
    """A file with its line, a variable, or `default`."""


class SettingsCheckup(Struct, frozen=True):
    """What is wrong with the settings files."""

    files: tuple[str, ...]
    """Those that exist."""
    diagnostics: tuple[Diagnostic, ...]

    @property
    def passed(self) -> bool:
        return not any(found.is_error for found in self.diagnostics)


class SettingsFiles:
    """Of one project and its user."""

    def __init__(
        self,
        project: str | os.PathLike[str] = ".",
        environ: Mapping[str, str] | None = None,
        *,
        new: str = PROJECT_SETTINGS[0],
    ) -> None:
        """`new`: the file that is made in a project that has none."""
        self._new = new
        self._project = existing_project(project)
        self._environ = os.environ if environ is None else environ
        self._sources = sources_of(self._project, self._environ)

    def get(self, key: str) -> SettingInForce:
        """The value in force; of a mapping, all its values. Raises InvalidRequest for an unset key."""
        found, name = {value.key: value for value in self.show()}, plain_key(key)
        if name in found:
            return found[name]
        inner = [value for value in found.values() if value.key.startswith(f"{name}.")]
        if not inner:
            known = {*found, *(row.name for row in SETTINGS.keys)}
            known |= {f"{LIMITS}.{row.name}" for row in SPENDING.keys}
            what = f"the setting {key!r} has no value" if name in known else f"no setting {key!r}"
            raise InvalidRequest(what, hint=choice(name, "settings", known))
        origins = dict.fromkeys(value.origin for value in inner)
        values = nested((value.key.removeprefix(f"{name}.").split("."), value.value) for value in inner)
        return SettingInForce(name, values, ", ".join(origins))

    def show(self) -> Sequence[SettingInForce]:
        """All settings in force. Raises DefinitionError for mistakes in the files."""
        settings = self._read()
        trusted = is_trusted(self._project, self._environ)
        said = {
            key: SettingInForce(key, value.value, f"{value.at.file}:{value.at.line}")
            for level in settings.levels
            for key, value in level.written.items()
            if settings.level_of(key, trusts_project=trusted) is level
        }
        for key, names in VARIABLES.items():
            name = next((name for name in names if self._environ.get(name)), None)
            if name and not (key == "network" and settings.is_local):
                said = {one: value for one, value in said.items() if top_of(one) != key}
                said[key] = SettingInForce(key, self._environ[name], name)
        agent, model = self._agent(settings)
        if "model" in said and said["model"].value != model:
            del said["model"]  # It is that of a provider which something stronger replaces.
        written = {*map(top_of, said)}.difference(BY_NAME)
        defaults = self._defaults(settings, agent, model)
        found = {one.key: one for one in defaults if one.key not in written} | said
        order = [row.name for row in SETTINGS.keys]
        return sorted(found.values(), key=lambda one: (order.index(top_of(one.key)), one.key))

    def _agent(self, settings: Settings) -> tuple[str, str]:
        """The agent that is used if no setting names one, and the model of the provider in force."""
        agent = usable_agent(self._project, self._environ)
        default = ProviderSpec(Written(agent, SourcePlace("", 1, 1)))
        above = gather(self._environ, Overrides(), Report()).levels
        named = [level.provider for level in (*settings.works, *above)]
        chosen, _ = choose_provider(named if naming_level(named) else [default, *named])
        return agent, chosen.model

    def _defaults(self, settings: Settings, agent: str, model: str) -> Iterator[SettingInForce]:
        pipeline = settings.pipeline.value if settings.pipeline else DEFAULT_PIPELINE
        yield SettingInForce("pipeline", DEFAULT_PIPELINE, _DEFAULT)
        yield SettingInForce("provider", agent, _DEFAULT)
        if model:
            yield SettingInForce("model", model, _DEFAULT)
        yield SettingInForce("network", "any", _DEFAULT)
        for name, run in find_language(self._sources).commands.items():
            yield SettingInForce(f"commands.{name}", run, _DETECTED)
        try:
            plan = compile_pipeline(self._sources, pipeline, "settings").plan
        except AgentForgeError:
            return  # A run of the pipeline reports it.
        for key, value in orchestration_of(plan).items():
            yield SettingInForce(key, value, f"pipeline {pipeline}")

    def validate(self) -> SettingsCheckup:
        report = Report()
        read_settings(self._sources, report)
        users = user_settings(self._environ)
        own = (os.path.join(self._project, one) for one in PROJECT_SETTINGS)
        places = (path for path in (users, *own) if path and os.path.lexists(path))
        existing = [relative(self._project, path) for path in places]
        # One that can't be reached, because of a link, is not among those that exist.
        existing += [found.place.file for found in report.diagnostics if found.code == "unreadable"]
        return SettingsCheckup(tuple(dict.fromkeys(existing)), report.diagnostics)

    def _read(self) -> Settings:
        report = Report()
        settings = read_settings(self._sources, report)
        if report.has_errors:
            raise DefinitionError(report.diagnostics)
        return settings

    # -- changing

    def init(self, *, user: bool = False, force: bool = False) -> str | None:
        """Write a file in which all is commented out; returns its path, or None if there is one."""
        refuse_agent(self._environ, change_settings=True)
        path = self._path(user=user)
        if os.path.lexists(path) and not force:
            return None
        self._content(path)
        self._write(path, TEMPLATE)
        return path

    def set(self, key: str, value: str, *, user: bool = False) -> str:
        """Set one key, as YAML, and keep the rest of the file as it is; returns the path of the file. Raises
        DefinitionError with what `validate` would say, and changes nothing then."""
        refuse_agent(self._environ, change_settings=True)
        path, report = self._path(user=user), Report()
        tree = parse_value(SourceText(f"<{key}>", value), report) if value.strip() else None
        data = as_data(tree, f"`{key}`", report) if tree else value
        if report.has_errors:
            raise DefinitionError(report.diagnostics)
        before, unknown = read_settings(self._sources, Report()), _unknown_keys(self.validate().diagnostics)
        text = changed_settings(self._text(path), key, data)
        after = read_settings(self._sources, report, {path: text})
        if report.has_errors:
            raise DefinitionError(report.diagnostics)
        if new := _unknown_keys(report.diagnostics).keys() - unknown.keys():
            hint = _unknown_keys(report.diagnostics)[new.pop()].hint
            raise InvalidRequest(f"no setting {key!r}", hint=hint)
        if _others(before, key) != _others(after, key):
            # What two readers of YAML disagree about, such as a number in an unusual form.
            raise InvalidRequest("other settings of the file would change, too", hint="edit the file by hand")
        self._write(path, text)
        return path

    def _text(self, path: str) -> str:
        """What the file says, if it can be kept: only a mapping can."""
        text, report = self._content(path), Report()
        if not is_blank(text):
            settings_tree(SourceText(relative(self._project, path), text), report)
        if report.has_errors:
            raise DefinitionError(report.diagnostics)
        return text

    def _content(self, path: str) -> str:
        """Raises InvalidRequest for a link that leads out of the project."""
        try:
            return self._sources.read(path) or ""
        except StorageFailed as error:
            raise InvalidRequest(error.message, hint=error.hint) from error

    def _path(self, *, user: bool) -> str:
        if not user:
            paths = [os.path.join(self._project, one) for one in PROJECT_SETTINGS]
            return next(
                (path for path in paths if os.path.lexists(path)), os.path.join(self._project, self._new)
            )
        path = user_settings(self._environ)
        if path is None:
            raise InvalidRequest("the folder of your settings is unknown", hint="set HOME or XDG_CONFIG_HOME")
        return path

    def _write(self, path: str, text: str) -> None:
        if path == user_settings(self._environ):
            path = os.path.realpath(path)  # The user may keep the file elsewhere, with a link to it.
        files.make_dir(os.path.dirname(path), _SHARED)
        files.replace(path, text.encode(), durable=True)


def _others(settings: Settings, key: str) -> dict[tuple[bool, str], Any]:
    """The values of all keys but one."""
    name = plain_key(key)
    return {
        (level.is_users, other): value.value
        for level in settings.levels
        for other, value in level.written.items()
        if other != name and not other.startswith(f"{name}.") and not name.startswith(f"{other}.")
    }


def _unknown_keys(diagnostics: Sequence[Diagnostic]) -> dict[str, Diagnostic]:
    return {found.message: found for found in diagnostics if found.code == "unknown-key"}


# -- orchestration


def orchestration_of(plan: Plan) -> dict[str, Any]:
    """By dotted keys. A key for all stages is left out if they differ."""
    stages = [stage for step in plan.steps for stage in step.stages]
    retries = [stage.retry or RetryPolicy() for stage in stages]
    cycles = (cycle_limits(plan.pipeline, stage).cycles or DEFAULT_CYCLES for stage in stages)
    totals = (stage.tokens.total if stage.tokens else None for stage in stages)
    found = {
        "step_retry_limit": _common(retry.max_attempts - 1 for retry in retries),
        "stage_retry_limit": _common(retry.stage for retry in retries),
        "cycle_limit": _common(cycles),
        "token_budget.total": _common(totals),
        **{key: value for stage in stages for key, value in _of_stage(stage)},
    }
    return {f"orchestration.{key}": _whole(value) for key, value in found.items() if value is not None}


def _whole(value: Any) -> Any:
    """A number as people write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_stage(stage: StageNode) -> Iterator[tuple[str, Any]]:
    own, fail = f"stages.{stage.id}.", stage.route(FAIL)
    yield f"{stage.id}_timeout", stage.timeout
    yield f"token_budget.{stage.id}", (stage.tokens or TokenBudget()).share
    yield f"{own}timeout", stage.timeout
    yield f"{own}retry_limit", (stage.retry or RetryPolicy()).stage
    yield f"{own}context_strategy", stage.context_strategy
    yield f"{own}parallel_steps", False
    yield f"{own}auto_retry_on_failure", fail is not None and fail.action == "go"
    yield f"{own}require_human_approval", stage.approve is not None


def _common(values: Iterable[Any]) -> Any:
    found = set(values)
    return found.pop() if len(found) == 1 else None
