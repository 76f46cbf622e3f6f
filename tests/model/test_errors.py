"""Every exception has a unique code, a message and a next step."""

import pytest

from agentforge.model import errors
from agentforge.model.diagnostic import ARGUMENTS, Diagnostic, Severity, SourcePlace
from agentforge.model.errors import AgentForgeError, DefinitionError, Execution
from agentforge.model.layout import PROJECT_SETTINGS, USER_SETTINGS


def _classes() -> list[type[AgentForgeError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in found if issubclass(kind, AgentForgeError)]


def test_every_error_has_a_unique_stable_code() -> None:
    codes = [kind.code for kind in _classes()]
    assert len(codes) == len(set(codes)) >= 14


def test_error_carries_its_message_and_the_next_step() -> None:
    error = errors.RunActive("Session 'x' is already running", hint="watch it")
    assert (str(error), error.message, error.hint) == ("Session 'x' is already running",) * 2 + ("watch it",)


def test_errors_about_a_run_carry_what_a_caller_needs() -> None:
    executes = [Execution("work", "command")]
    assert errors.UntrustedRun("x", executes=executes).executes == tuple(executes)
    assert errors.LogConflict("x", restored=True).restored


def test_definition_error_counts_errors_and_keeps_all_diagnostics() -> None:
    found = [_diagnostic("error"), _diagnostic("warning")]
    error = DefinitionError(found)
    assert error.diagnostics == tuple(found)
    assert error.message == "1 error in the definition"
    assert DefinitionError([*found, _diagnostic("error")]).message == "2 errors in the definition"
    assert "lint" in error.hint


def test_definition_error_about_arguments_only_says_so() -> None:
    argument = Diagnostic("unknown-pipeline", "error", "no", SourcePlace(ARGUMENTS, 1, 1))
    error = DefinitionError([argument, _diagnostic("warning")])
    assert (error.message, error.hint) == ("1 error in the arguments", "fix the arguments and retry")
    assert DefinitionError([argument, _diagnostic("error")]).message == "2 errors in the definition"


def test_str_of_a_definition_error_contains_the_diagnostics() -> None:
    text = str(DefinitionError([_diagnostic("error"), _diagnostic("warning")]))
    assert text.splitlines()[0] == "1 error in the definition"
    assert "p.yaml:1:1: bad-value: no" in text
    assert "p.yaml:1:1: bad-value: no (warning)" in text


def _diagnostic(severity: Severity) -> Diagnostic:
    return Diagnostic("bad-value", severity, "no", SourcePlace("p.yaml", 1, 1))


@pytest.mark.parametrize("file", [*PROJECT_SETTINGS, f"/home/me/.config/{USER_SETTINGS}"])
def test_errors_in_settings_are_not_those_of_a_definition(file: str) -> None:
    found = Diagnostic("code", "error", "wrong", SourcePlace(file, 1, 1))
    error = DefinitionError([found])
    assert (error.message, error.hint) == ("1 error in the settings", "fix the settings and retry")
    assert "in the definition" in DefinitionError([found, _diagnostic("error")]).message
