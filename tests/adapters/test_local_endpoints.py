"""Which servers the providers say that they call."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.providers.api import ApiProvider
from agentforge.adapters.providers.cli import CliAgent, InlineCli
from agentforge.app.providers.described import BASES
from agentforge.model.errors import ProviderUnusable

HERE, THERE = "http://127.0.0.1:8080/v1", "https://h.example/v1"


def cli(name: str, config: dict[str, Any], model: str = "", **environ: str) -> tuple[str, ...]:
    return CliAgent(BASES[name], environ).endpoints(model, config).addresses


def test_clis_with_an_address_in_a_variable() -> None:
    assert cli("claude", {}, ANTHROPIC_BASE_URL=HERE) == (HERE,)
    # That of the stage counts, and each other address that the program gets.
    own = {"env": {"ANTHROPIC_BASE_URL": HERE, "ANTHROPIC_BEDROCK_BASE_URL": THERE}}
    assert cli("claude", own, ANTHROPIC_BASE_URL=THERE) == (HERE, THERE)
    assert cli("gemini", {}, GOOGLE_GEMINI_BASE_URL=HERE, OPENAI_BASE_URL=THERE) == (HERE,)
    inline = {"program": "mine", "addresses": ["MODEL_API_URL"], "env": {"MODEL_API_URL": HERE}}
    assert InlineCli({}).endpoints("", inline).addresses == (HERE,)
    found = CliAgent(BASES["claude"], {"ANTHROPIC_BASE_URL": HERE, "HTTP_PROXY": THERE}).endpoints("", {})
    assert found.environment["HTTP_PROXY"] == THERE


@pytest.mark.parametrize(
    ("name", "environ", "hint"),
    [
        ("claude", {}, "set ANTHROPIC_BASE_URL to the address of a server on this machine"),
        (
            "claude",
            {"ANTHROPIC_BASE_URL": HERE, "CLAUDE_CODE_USE_BEDROCK": "1"},
            "unset CLAUDE_CODE_USE_BEDROCK",
        ),
        ("gemini", {}, "set GOOGLE_GEMINI_BASE_URL to"),
        ("codex", {"OPENAI_BASE_URL": HERE}, "name in its settings the address"),
        ("opencode", {"OPENCODE_CONFIG_CONTENT": "no json"}, "name in its settings the address"),
    ],
)
def test_clis_that_call_their_maker_are_refused(name: str, environ: dict[str, str], hint: str) -> None:
    with pytest.raises(ProviderUnusable) as refused:
        cli(name, {}, "a/b", **{"HOME": "/nonexistent", **environ})
    assert refused.value.hint.startswith(hint)


OWN = '[model_providers.mine]\nbase_url = "http://127.0.0.1:8080/v1"\n'
USES = 'model_provider = "mine"\n'


@pytest.mark.parametrize(
    ("settings", "config", "expected"),
    [
        (USES + OWN, {}, HERE),
        (OWN, {"model_provider": "mine"}, HERE),
        (OWN, {"arguments": ["-c", "model_provider=mine"]}, HERE),
        ("", {"arguments": ["-c", f'openai_base_url="{HERE}"']}, HERE),
        (USES + OWN, {"arguments": ["-c", f'model_providers.mine.base_url="{THERE}"']}, THERE),
        ('model_provider = "ollama"', {}, "http://localhost:11434/v1"),
        (OWN, {}, None),
        (USES, {}, None),
        ('profile = "other"\n' + USES + OWN, {}, None),
        (USES + OWN, {"arguments": ["--profile", "other"]}, None),
        (USES + OWN, {"arguments": ["--profile=other"]}, None),
        (USES + OWN, {"arguments": ["-pother"]}, None),
        (USES + OWN, {"arguments": ["-c", "profile=other"]}, None),
        (USES + OWN, {"arguments": ["--config=model_provider=openai"]}, None),
        (USES + OWN, {"arguments": [f"-cmodel_providers.mine.base_url={THERE}"]}, THERE),
        (USES + OWN, {"arguments": ["-c", f'model_providers.mine={{base_url="{THERE}"}}']}, None),
        (USES + OWN, {"permissions": [f"-c=model_providers.mine.base_url={THERE}"]}, THERE),
        ("not = toml = at all", {}, None),
    ],
)
def test_codex_as_its_settings_say(
    tmp_path: Path, settings: str, config: dict[str, Any], expected: str | None
) -> None:
    (tmp_path / "config.toml").write_text(settings)
    if expected is None:
        with pytest.raises(ProviderUnusable):
            cli("codex", config, CODEX_HOME=str(tmp_path))
    else:
        assert cli("codex", config, CODEX_HOME=str(tmp_path)) == (expected,)


@pytest.mark.parametrize(
    ("name", "argument"),
    [("claude", "--settings={}"), ("claude", "--settings"), ("opencode", "-m=x/y"), ("opencode", "--attach")],
)
def test_options_that_may_name_another_server_are_refused(tmp_path: Path, name: str, argument: str) -> None:
    (tmp_path / "opencode.json").write_text(opencode_settings(HERE))
    environ = {"ANTHROPIC_BASE_URL": HERE, "OPENCODE_CONFIG": str(tmp_path / "opencode.json")}
    assert cli(name, {"arguments": ["--verbose"]}, "mine/model", **environ) == (HERE,)
    with pytest.raises(ProviderUnusable) as refused:
        cli(name, {"arguments": [argument]}, "mine/model", **environ)
    assert "from `arguments`" in refused.value.hint


def opencode_settings(address: str, **more: Any) -> str:
    return json.dumps({"provider": {"mine": {"options": {"baseURL": address}}}, **more})


def test_opencode_as_its_settings_say(tmp_path: Path) -> None:
    (tmp_path / "opencode.json").write_text(opencode_settings(HERE))
    named = {"OPENCODE_CONFIG": str(tmp_path / "opencode.json")}
    assert cli("opencode", {}, "mine/model", **named) == (HERE,)
    content = {"OPENCODE_CONFIG_CONTENT": opencode_settings(THERE, model="mine/model")}
    assert cli("opencode", {}, "", **named, **content) == (THERE,)
    small = {"OPENCODE_CONFIG_CONTENT": json.dumps({"small_model": "anthropic/claude-haiku"})}
    for model, environ in (("other/model", named), ("mine/model", {**named, **small})):
        with pytest.raises(ProviderUnusable):
            cli("opencode", {}, model, **environ)


@pytest.mark.parametrize(
    ("model", "config", "expected"),
    [
        ("ollama:qwen3", {}, "http://127.0.0.1:11434/v1"),
        ("lmstudio:some", {}, "http://127.0.0.1:1234/v1"),
        ("qwen3", {"base_url": THERE}, THERE),
        ("claude-opus-4", {"env": {"ANTHROPIC_BASE_URL": HERE}}, HERE),
        ("claude-opus-4", {}, None),
        ("openai:gpt-5.5", {}, None),
    ],
)
def test_api_as_the_stage_says(model: str, config: dict[str, Any], expected: str | None) -> None:
    provider = ApiProvider({})
    if expected is None:
        with pytest.raises(ProviderUnusable, match=r"it calls the \w+ API"):
            provider.endpoints(model, config)
    else:
        assert provider.endpoints(model, config).addresses == (expected,)


def test_an_agent_that_names_no_address_is_unknown() -> None:
    with pytest.raises(ProviderUnusable, match="it is unknown which server it calls"):
        CliAgent(AgentCli(name="mine"), {}).endpoints("", {})
