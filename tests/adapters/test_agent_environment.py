"""The variables passed to an agent, and which values are redacted."""

from collections.abc import Collection

import pytest
from msgspec.structs import replace

from agentforge.adapters.environment import agent_environment, secrets_in
from agentforge.ports.provider import ExecuteRequest

INHERITED = {
    "PATH": "/usr/bin",
    "HOME": "/home/u",
    "LC_TIME": "C",
    "https_proxy": "http://127.0.0.1:1",
    "XDG_CONFIG_HOME": "/home/u/.config",
    "XDG_SESSION_ID": "4",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:2",
    "GITHUB_TOKEN": "ghp_0123456789",
    "EDITOR": "vi",
}


def request(**environment: str) -> ExecuteRequest:
    return ExecuteRequest("", "", {}, "/w", environment, "/it/status.json", "/it/result.json")


def test_everything_is_inherited_unless_the_environment_is_declared() -> None:
    environment = agent_environment(INHERITED, request())
    assert environment.items() >= INHERITED.items()


@pytest.mark.parametrize(
    ("passes", "there", "gone"),
    [
        (
            (),
            {"PATH", "HOME", "LC_TIME", "https_proxy", "XDG_CONFIG_HOME"},
            {"EDITOR", "GITHUB_TOKEN", "XDG_SESSION_ID"},
        ),
        (("ANTHROPIC_*",), {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}, {"GITHUB_TOKEN", "EDITOR"}),
        (("EDITOR", "NOT_THERE"), {"EDITOR", "PATH"}, {"NOT_THERE", "ANTHROPIC_API_KEY"}),
        (("anthropic_*",), {"PATH"}, {"ANTHROPIC_API_KEY"}),
        (("*",), set(INHERITED), set()),
    ],
)
def test_a_declared_environment_has_what_all_need_and_what_is_named(
    passes: Collection[str], there: set[str], gone: set[str]
) -> None:
    environment = agent_environment(INHERITED, request(), passes=passes)
    assert there <= environment.keys()
    assert not gone & environment.keys()


def test_variables_of_the_engine_and_the_stage_are_always_passed() -> None:
    environment = agent_environment(
        INHERITED, request(RUN="7"), {"GITHUB_TOKEN": "own", "DEEP": True}, passes=()
    )
    assert environment["RUN"] == "7"
    assert environment["GITHUB_TOKEN"] == "own"
    assert environment["DEEP"] == "true"
    assert environment["AGENTFORGE_RESULT"] == "/it/result.json"


def test_the_path_of_the_artifact_is_the_stages_own() -> None:
    outer = {**INHERITED, "AGENTFORGE_ARTIFACT": "/outer/artifact.json"}
    assert "AGENTFORGE_ARTIFACT" not in agent_environment(outer, request())
    environment = agent_environment(outer, replace(request(), artifact_path="/it/artifact.json"))
    assert environment["AGENTFORGE_ARTIFACT"] == "/it/artifact.json"


def test_secrets_are_found_by_the_names_of_their_variables() -> None:
    assert secrets_in(INHERITED) == ("ghp_0123456789", "sk-ant-0123456789")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("A_TOKEN", "short", False),
        ("A_TOKEN", "disabled", False),
        ("GOOGLE_CREDENTIALS", "/etc/google.json", False),
        ("GOOGLE_CREDENTIALS", "~/google.json", False),
        ("GOOGLE_CREDENTIALS", '{"type": "service_account"}', True),
        ("AWS_SECRET_ACCESS_KEY", "/bq3no-such-folder/xyz+abc", True),
        ("LOGIN", "word-for-entry", False),
    ],
)
def test_values_with_a_secret_name_are_redacted(name: str, value: str, secret: bool) -> None:
    assert secrets_in({name: value}) == ((value,) if secret else ())


def test_variables_named_by_the_caller_are_secret_whatever_they_are_called() -> None:
    environment = {"LOGIN": "word-for-entry", "LOGIN_URL": "http://127.0.0.1/"}
    assert secrets_in(environment, ("LOGIN",)) == ("word-for-entry",)
