"""`doctor` checks the value of every environment variable, as the reader of the variable would."""

import os
from pathlib import Path

import pytest

from agentforge.adapters.providers.codex import CODEX
from agentforge.app.probes import QUIET, variable_probes
from agentforge.cli.commands.doctor import NO_AGENT
from agentforge.model.variables import EFFORTS, VARIABLES, Variable

SECRET = "sk-test-0123456789abcdef"


def probed(folder: Path, uid: int = 1000, **environ: str) -> dict[str, tuple[str, str, str]]:
    found = variable_probes(str(folder), environ, uid)
    return {probe.name: (probe.level, probe.found, probe.fix) for probe in found}


INVALID = [
    ("CODEX_TIMEOUT", "xx", "broken", "CODEX_TIMEOUT must be a number of seconds, got 'xx'"),
    ("CODEX_REASONING_EFFORT", "huge", "broken", "'huge' is not allowed"),
    ("JUDGE_PROVIDER", "nosuch", "broken", "no provider named 'nosuch'"),
    ("JUDGE_PROMPT_PATH", "nosuch.md", "broken", "nosuch.md is not a file"),
    ("CLAUDE_PIPELINE_PROVIDER", "cluade", "broken", "no provider named 'cluade'"),
    ("PIPELINE_CLI_PROVIDER", "x", "broken", "no provider named 'x'"),
    ("PIPELINE_CLI_INPUTS", "a.md", "broken", "PIPELINE_CLI_INPUTS must be a JSON list of paths"),
    ("AGENTFORGE_PROVIDER_CONFIG", "words", "broken", ""),
    ("COMPILE_TIMESTAMP", "yesterday", "broken", "'yesterday' is not a time"),
    ("SESSION_CREATED_AT", "1", "broken", "'1' is not a time"),
    ("MOCK_DELAY", "-1", "broken", "MOCK_DELAY must be a number of seconds, got '-1'"),
    ("AGENT_PIPELINES_EVENT_BUFFER", "0", "broken", ""),
    ("AGENT_PIPELINES_EVENT_FLUSH_MS", "soon", "broken", ""),
    ("AGENT_PIPELINES_LOG_LEVEL", "loud", "broken", "'loud' is not allowed"),
    ("EVENTS_TAIL_LINES", "-3", "warning", "'-3' is not a whole number; 50 is used"),
    (
        "AGENTFORGE_NOTIFY",
        "http://x y",
        "warning",
        "AGENTFORGE_NOTIFY must be an http or https URL without user and password; no notifications are sent",
    ),
    (
        "AGENTFORGE_NOTIFY",
        "http://127.0.0.1:99999",
        "warning",
        "AGENTFORGE_NOTIFY must be a URL with a port from 1 to 65535; no notifications are sent",
    ),
    ("AGENTFORGE_NOTIFY", "desktpo", "warning", "desktpo was not found or is not executable"),
    ("OTEL_TRACES_EXPORTER", "zipkin", "warning", "OTEL_TRACES_EXPORTER: 'zipkin' is not supported"),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "localhost",
        "warning",
        "OTEL_EXPORTER_OTLP_ENDPOINT is not a plain http(s) address",
    ),
    ("MOCK_MODE", "1", "warning", "'1' has no effect"),
    ("AGENTFORGE_DEBUG", "yes", "warning", "'yes' has no effect"),
    ("AGENTFORGE_TRUST_PROJECT", "true", "warning", "'true' has no effect"),
    ("PLATEAU_TEST_MODE", "true", "warning", "'true' has no effect"),
    ("AGENT_PIPELINES_LEGACY", "1", "warning", "set, but has no effect: every run has a log"),
    *((name, "/nosuch", "warning", "/nosuch is not a folder") for name in ("PROJECT_ROOT", "STAGES_DIR")),
    *(
        (name, "nosuch", "warning", "nosuch is not a folder")
        for name in ("PIPELINES_DIR", "MOCK_FIXTURES_DIR")
    ),
]


@pytest.mark.parametrize(
    ("name", "value", "level", "text"), INVALID, ids=[" ".join(row[:2]) for row in INVALID]
)
def test_an_invalid_value_has_its_fix(name: str, value: str, level: str, text: str, tmp_path: Path) -> None:
    found, said, fix = probed(tmp_path, **{name: value})[name]
    assert (found, bool(fix)) == (level, True)
    assert said == text or (not text and said)


VALID = {
    "folder": ".",
    "file": "prompt.md",
    "provider": "codex",
    "seconds": "1.5",
    "number": "7",
    "time": "2026-01-31T12:00:00Z",
    "mapping": "{timeout: 60}",
    "list": "a.example, b.example",
    "text": "anything",
}


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_a_valid_value_is_ok(variable: Variable, tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("x")
    value = variable.values[0] if variable.values else VALID[variable.kind]
    address = "https://example.com/"
    value = {
        "PIPELINE_CLI_INPUTS": "[]",
        "AGENTFORGE_NOTIFY": address,
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": address,
        "OTEL_TRACES_EXPORTER": "otlp",
    }.get(variable.name, value)
    found = probed(tmp_path, **{variable.name: value})
    if variable.name in QUIET:
        assert list(found) == ["environment"]
    elif variable.name not in ("MOCK_MODE", "AGENT_PIPELINES_LEGACY"):
        assert found[variable.name][0] == "ok"


@pytest.mark.parametrize(
    ("uid", "value", "level"), [(0, "yes", "broken"), (0, "0", "broken"), (0, "1", "ok"), (1000, "yes", "ok")]
)
def test_claude_refuses_root_in_a_sandbox_with_another_name(
    uid: int, value: str, level: str, tmp_path: Path
) -> None:
    found = probed(tmp_path, uid, IS_SANDBOX=value)["IS_SANDBOX"]
    assert found[0] == level
    assert ("set IS_SANDBOX to 1" in found[2]) == (level == "broken")
    assert probed(tmp_path, uid, IS_SANDBOX=value, CLAUDE_CODE_BUBBLEWRAP="1")["IS_SANDBOX"][0] == "ok"


def test_no_secret_is_shown(tmp_path: Path) -> None:
    assert probed(tmp_path, ANTHROPIC_API_KEY=SECRET)["ANTHROPIC_API_KEY"] == ("ok", "set", "")


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (f"https://me:{SECRET}@example.com/", "warning"),
        (f"https://example.com/{SECRET}", "ok"),
        (f"true {SECRET}", "ok"),
    ],
)
def test_value_of_the_notification_variable_is_not_shown(value: str, level: str, tmp_path: Path) -> None:
    found = probed(tmp_path, AGENTFORGE_NOTIFY=value, PATH=os.defpath)["AGENTFORGE_NOTIFY"]
    assert found[0] == level
    assert SECRET not in "".join(found)


def test_without_variables_there_is_one_line(tmp_path: Path) -> None:
    assert probed(tmp_path) == {"environment": ("ok", "no variables set; using defaults", "")}


def test_the_table_agrees_with_codex() -> None:
    table = {variable.name: variable for variable in VARIABLES}
    assert set(EFFORTS) == set(CODEX.efforts)
    assert table[CODEX.model_variable].default == f"`{CODEX.default_model}`"
    assert table[CODEX.effort_variable].default == f"`{CODEX.default_effort}`"
    assert float(table[CODEX.timeout_variable].default) == CODEX.timeout


def test_no_agent_has_one_text() -> None:
    from agentforge.app import doctor

    assert NO_AGENT == doctor.NO_AGENT
