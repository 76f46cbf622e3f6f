"""The environment variables that are in effect, and what is wrong with their values."""

from collections.abc import Callable, Iterator, Mapping

from agentforge.adapters.jsonl_log import BUFFER_VARIABLE, FLUSH_VARIABLE, buffer_settings
from agentforge.adapters.providers.mock import is_mock_mode, mock_delay
from agentforge.definition.diagnostics import Report
from agentforge.definition.provider_settings import VARIABLE as PROVIDER_CONFIG
from agentforge.definition.provider_settings import settings_in
from agentforge.model.errors import InvalidRequest
from agentforge.sdk.checks import Check
from agentforge.sdk.wiring import sources_of

FOLDERS = ("PROJECT_ROOT", "STAGES_DIR", "PIPELINES_DIR", "AGENT_PIPELINES_ROOT", "MOCK_FIXTURES_DIR")
LOG_LEVELS = ("debug", "info", "warn", "warning", "error", "fatal")
FREE = (
    "CLAUDE_PIPELINE_PROVIDER",
    "CLAUDE_PIPELINE_MODEL",
    "CLAUDE_PIPELINE_CONTEXT",
    "EVENTS_TAIL_LINES",
    "COMPILE_TIMESTAMP",
    "SESSION_CREATED_AT",
    "NO_COLOR",
    "AGENTFORGE_DEBUG",
)


def _provider_config(environ: Mapping[str, str]) -> None:
    report = Report()
    settings_in(environ, report)
    for found in report.diagnostics:
        raise InvalidRequest(found.message, hint=found.hint or "write a mapping in YAML or JSON")


REFUSING: dict[str, Callable[[Mapping[str, str]], object]] = {
    BUFFER_VARIABLE: buffer_settings,
    FLUSH_VARIABLE: buffer_settings,
    "MOCK_DELAY": mock_delay,
    PROVIDER_CONFIG: _provider_config,
}
"""Variables whose own reader says what is wrong with them."""


def check_settings(project: str, environ: Mapping[str, str]) -> list[Check]:
    found = [*_values(environ), *_folders(project, environ), *_modes(environ)]
    return found or [Check("settings", "environment", "ok", "nothing is set: defaults hold")]


def _values(environ: Mapping[str, str]) -> Iterator[Check]:
    for name, read in REFUSING.items():
        if value := environ.get(name):
            try:
                read({name: value})
            except InvalidRequest as error:
                yield Check("settings", name, "broken", error.message, error.hint)
            else:
                yield Check("settings", name, "ok", value)
    if level := environ.get("AGENT_PIPELINES_LOG_LEVEL"):
        known = level.strip().lower() in LOG_LEVELS
        fix = "" if known else f"use one of {', '.join(LOG_LEVELS)}"
        yield Check("settings", "AGENT_PIPELINES_LOG_LEVEL", "ok" if known else "broken", level, fix)
    for name in FREE:
        if value := environ.get(name):
            yield Check("settings", name, "ok", value if len(value) <= 80 else f"{value[:79]}…")


def _folders(project: str, environ: Mapping[str, str]) -> Iterator[Check]:
    sources = sources_of(project, environ)
    for name in FOLDERS:
        if value := environ.get(name):
            there = sources.is_dir(value if value.startswith("/") else f"{project}/{value}")
            if there:
                yield Check("settings", name, "ok", value)
            else:
                fix = f"create the folder, or unset {name}"
                yield Check("settings", name, "warning", f"{value} is no folder", fix)


def _modes(environ: Mapping[str, str]) -> Iterator[Check]:
    if is_mock_mode(environ):
        found = "true: every agent is played by the mock"
        yield Check("settings", "MOCK_MODE", "note", found, "unset MOCK_MODE to run real agents")
    if environ.get("AGENT_PIPELINES_LEGACY"):
        found = "set, but without effect: there is always a log"
        yield Check("settings", "AGENT_PIPELINES_LEGACY", "warning", found, "unset AGENT_PIPELINES_LEGACY")
