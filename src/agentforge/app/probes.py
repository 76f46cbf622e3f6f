"""What `doctor` finds, and its probes of the environment variables that are set: their values are checked as
those who read them would."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from agentforge.adapters.log.jsonl_log import BUFFER_VARIABLE, FLUSH_VARIABLE, buffer_settings
from agentforge.adapters.otlp import collector
from agentforge.adapters.providers.cli import parse_seconds
from agentforge.adapters.providers.mock import mock_delay
from agentforge.app.hook_needs import notification_needs
from agentforge.app.notifications import user_notifications
from agentforge.app.wiring import known_providers, sources_of
from agentforge.definition.precedence import canonical, gather
from agentforge.definition.read.provider_settings import settings_from_environment
from agentforge.definition.report import Report
from agentforge.model.diagnostic import choice
from agentforge.model.errors import AgentForgeError, InvalidRequest
from agentforge.model.hook import NOTIFY_VARIABLE
from agentforge.model.plan import Overrides
from agentforge.model.plan_limits import MAX_PORT, is_address, wrong_port
from agentforge.model.secrets import is_secret_name
from agentforge.model.variables import VARIABLES, Variable

ProbeLevel = Literal["ok", "note", "warning", "broken"]
Group = Literal[
    "machine",
    "project",
    "tools",
    "agents",
    "environment",
    "models",
    "sandboxes",
    "providers",
    "hooks",
    "settings",
]
"""In the order in which they are shown."""
GROUPS = get_args(Group)


class Probe(Struct, frozen=True):
    """One finding about this machine, project or environment, with the exact fix."""

    group: Group
    name: str
    level: ProbeLevel
    found: str
    fix: str = ""


MAX_SHOWN = 80
QUIET = frozenset({"TERM", "XDG_STATE_HOME", "XDG_CONFIG_HOME"})
"""Most desktops set them, and any value will do."""
OTEL = "OTEL_"
OWN_RULES = ("IS_SANDBOX", "MOCK_MODE", "AGENT_PIPELINES_LEGACY", NOTIFY_VARIABLE)
"""Variables that aren't checked as their kind says."""
CheckedValue = tuple[ProbeLevel, str, str]
"""The level, what was found, and the fix."""


def variable_probes(project: str, environ: Mapping[str, str], uid: int) -> list[Probe]:
    """One probe for each variable of the table that is set."""
    probes = _Probes(project, environ, uid)
    named = [variable for variable in VARIABLES if variable.name not in QUIET and environ.get(variable.name)]
    found = [Probe("settings", variable.name, *probes.finding(variable)) for variable in named]
    return found or [Probe("settings", "environment", "ok", "no variables set; using defaults")]


class _Probes:
    def __init__(self, project: str, environ: Mapping[str, str], uid: int) -> None:
        self._project = project
        self._environ = environ
        self._uid = uid
        self._sources = sources_of(project, environ)

    def finding(self, variable: Variable) -> CheckedValue:
        value = self._environ[variable.name].strip()
        try:
            has_rules = variable.name in READERS or variable.name.startswith((*OWN_RULES, OTEL))
            problem = self._of_name(variable.name, value) if has_rules else self._of_kind(variable, value)
        except AgentForgeError as error:
            return "broken", error.message, error.hint
        shown = value if len(value) <= MAX_SHOWN else f"{value[: MAX_SHOWN - 1]}…"
        return problem or ("ok", "set" if is_secret_name(variable.name) else shown, "")

    def _of_name(self, name: str, value: str) -> CheckedValue | None:
        match name:
            case "IS_SANDBOX":
                if self._uid == 0 and value != "1" and not self._environ.get("CLAUDE_CODE_BUBBLEWRAP"):
                    found = f"{value!r}: as root, Claude Code starts only if it is 1"
                    fix = "set IS_SANDBOX to 1, or unset it: AgentForge then sets it for Claude Code"
                    return "broken", found, fix
            case "MOCK_MODE" if value.lower() == "true":
                return "note", "true: the mock replaces every agent", "unset MOCK_MODE to run real agents"
            case "MOCK_MODE":
                return "warning", f"{value!r} has no effect", "set it to true, or unset it"
            case "AGENT_PIPELINES_LEGACY":
                found = "set, but has no effect: every run has a log"
                return "warning", found, "unset AGENT_PIPELINES_LEGACY"
            case "AGENTFORGE_NOTIFY":
                return self._notify(value)
            case _ if name.startswith(OTEL):
                return self._traces()
            case _ if name in READERS:
                READERS[name]({name: value})
        return None

    def _of_kind(self, variable: Variable, value: str) -> CheckedValue | None:
        match variable.kind:
            case "folder" if not self._sources.is_dir(self._path(value)):
                fix = f"create the folder, or unset {variable.name}"
                return "warning", f"{value} is not a folder", fix
            case "file" if self._sources.read(self._path(value)) is None:
                return "broken", f"{value} is not a file", f"create the file, or unset {variable.name}"
            case "provider":
                known = known_providers(self._project, self._environ)
                if known is not None and canonical(value) not in known:
                    return "broken", f"no provider named {value!r}", choice(value, "providers", known)
            case "number" if not (value.isascii() and value.isdigit()):
                found = f"{value!r} is not a whole number; {variable.default} is used"
                return "warning", found, "set it to a whole number, or unset it"
            case "time" if not _is_time(value):
                return "broken", f"{value!r} is not a time", "use a time such as 2026-01-31T12:00:00Z"
            case "switch" if value not in variable.values:
                fix = f"set it to {variable.values[0]}, or unset it"
                return "warning", f"{value!r} has no effect", fix
            case "text" if variable.values and value.lower() not in variable.values:
                return "broken", f"{value!r} is not allowed", f"use one of {', '.join(variable.values)}"
        return None

    def _path(self, value: str) -> str:
        return os.path.join(self._project, value)

    def _traces(self) -> CheckedValue:
        try:
            address = collector(self._environ)
        except AgentForgeError as error:  # The variable may be for other programs.
            return "warning", error.message, error.hint
        return "ok", f"spans are sent to {address}" if address else "no spans are sent", ""

    def _notify(self, value: str) -> CheckedValue | None:
        """The value is never shown: commands and URLs may contain secrets."""
        for notification in user_notifications(value):
            if notification.url is not None and not is_address(notification.url):
                found = f"{NOTIFY_VARIABLE} must be an http or https URL without user and password"
                if wrong_port(notification.url):
                    found = f"{NOTIFY_VARIABLE} must be a URL with a port from 1 to {MAX_PORT}"
                fix = f"set {NOTIFY_VARIABLE} to a URL such as https://example.com/notices"
                return "warning", f"{found}; no notifications are sent", fix
            for need in notification_needs(notification, self._environ, self._project):
                if need.fix:
                    return "warning", need.found, need.fix
            if not notification.desktop:
                return "ok", "a URL" if notification.url else "a command", ""
        return None


def _raise(read: Callable[[Report], object]) -> None:
    """Raise the first diagnostic of a reader."""
    report = Report()
    read(report)
    for found in report.diagnostics:
        raise InvalidRequest(found.message, hint=found.hint or "write a mapping in YAML or JSON")


READERS: dict[str, Callable[[Mapping[str, str]], object]] = {
    BUFFER_VARIABLE: buffer_settings,
    FLUSH_VARIABLE: buffer_settings,
    "MOCK_DELAY": mock_delay,
    "PIPELINE_CLI_INPUTS": lambda environ: _raise(lambda report: gather(environ, Overrides(), report)),
    "AGENTFORGE_PROVIDER_CONFIG": lambda environ: _raise(partial(settings_from_environment, environ)),
    "CODEX_TIMEOUT": lambda environ: parse_seconds("CODEX_TIMEOUT", environ["CODEX_TIMEOUT"]),
}
"""Variables whose readers refuse what is invalid."""


def _is_time(value: str) -> bool:
    try:
        msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return False
    return True
