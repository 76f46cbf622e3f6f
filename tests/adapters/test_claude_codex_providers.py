"""The providers claude and codex: the contract on stand-ins for their CLIs, and how these are called."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.fake_clis import put_cli, shown

from agentforge.adapters.providers.claude import CLAUDE, root_environment
from agentforge.adapters.providers.cli_agent import AgentCli, CliAgent
from agentforge.adapters.providers.codex import CODEX, EXIT_INSTRUCTION
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import FailureKind
from agentforge.ports.provider import Command, ExecuteRequest, Provider
from agentforge.testing.provider_contract import ProcessProviderContract, run

SLOW = "import subprocess\nsubprocess.run(['sleep', '300'])\n"
CLAUDE_MISSING = "Claude CLI not found. Install with: npm install -g @anthropic-ai/claude-code"
CODEX_MISSING = "Codex CLI not found. Install with: npm install -g @openai/codex"
EITHER = pytest.mark.parametrize("cli", [CLAUDE, CODEX], ids=["claude", "codex"])


class CliContract(ProcessProviderContract):
    cli: AgentCli

    @pytest.fixture
    def provider(self, tmp_path: Path) -> Provider:
        put_cli(tmp_path / "bin", self.cli.name)
        return CliAgent(self.cli, {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})

    @pytest.fixture
    def slow_config(self, tmp_path: Path) -> dict[str, Any]:
        return {"command": str(put_cli(tmp_path / "slow", self.cli.name, SLOW))}


class TestClaudeContract(CliContract):
    cli = CLAUDE


class TestCodexContract(CliContract):
    cli = CODEX


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    for name in ("claude", "codex"):
        put_cli(tmp_path / "bin", name)
    return tmp_path / "bin"


def asked(folder: Path, model: str = "", **changes: Any) -> ExecuteRequest:
    given: dict[str, Any] = {
        "prompt": "Say é",
        "model": model,
        "config": {},
        "workdir": str(folder),
        "environment": {},
        "status_path": str(folder / "status.json"),
        "result_path": str(folder / "result.json"),
    }
    return ExecuteRequest(**{**given, **changes})


def command(cli: AgentCli, bin: Path, model: str = "", config: Any = None, **environ: str) -> Command:
    agent = CliAgent(cli, {"PATH": str(bin), **environ})
    return agent.command(asked(bin.parent, model, config=config or {}))


# -- claude


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("", []),
        ("opus", ["--model", "opus"]),
        ("sonnet", ["--model", "sonnet"]),
        ("haiku", ["--model", "haiku"]),
        ("claude-opus", ["--model", "opus"]),
        ("claude-sonnet", ["--model", "sonnet"]),
        ("claude-haiku", ["--model", "haiku"]),
        ("claude-sonnet-4-5", ["--model", "claude-sonnet-4-5"]),
    ],
)
def test_claude_argv_and_model_aliases(bin: Path, model: str, flags: list[str]) -> None:
    argv = command(CLAUDE, bin, model).argv
    assert argv == (str(bin / "claude"), "--print", "--dangerously-skip-permissions", *flags)


def test_claude_gets_the_prompt_on_stdin_and_answers_in_text(bin: Path) -> None:
    result = run(CliAgent(CLAUDE, {"PATH": str(bin)}).execute(asked(bin.parent, "opus")))
    assert (result.exit_code, result.failure) == (0, None)
    called = shown(result.output)
    assert called["stdin"] == "Say é"
    assert called["argv"] == ["--print", "--dangerously-skip-permissions", "--model", "opus"]


@pytest.mark.parametrize(
    ("environment", "uid", "adds"),
    [
        ({}, 0, {"IS_SANDBOX": "1"}),
        ({}, 1000, {}),
        ({"IS_SANDBOX": "0"}, 0, {}),
        ({"CLAUDE_CODE_BUBBLEWRAP": "1"}, 0, {}),
        ({"IS_SANDBOX": ""}, 0, {"IS_SANDBOX": "1"}),
    ],
)
def test_claude_as_root_is_told_of_a_sandbox(
    environment: dict[str, str], uid: int, adds: dict[str, str]
) -> None:
    assert root_environment(environment, uid) == adds


def test_claude_finds_the_sandbox_variable_in_its_environment(bin: Path) -> None:
    assert command(CLAUDE, bin).env.get("IS_SANDBOX") == ("1" if os.geteuid() == 0 else None)
    assert command(CLAUDE, bin).timeout is None


# -- codex


@pytest.mark.parametrize(
    ("model", "environ", "expected"),
    [
        ("gpt-5.2-codex", {}, ("gpt-5.2-codex", "high")),
        ("gpt-5.2-codex:xhigh", {}, ("gpt-5.2-codex", "xhigh")),
        ("gpt-5.1-codex-max:high", {}, ("gpt-5.1-codex-max", "high")),
        ("gpt-5.1-codex:medium", {}, ("gpt-5.1-codex", "medium")),
        ("gpt-5-codex:low", {"CODEX_REASONING_EFFORT": "xhigh"}, ("gpt-5-codex", "low")),
        ("gpt-5-codex-mini:minimal", {}, ("gpt-5-codex-mini", "minimal")),
        ("gpt-5-codex", {"CODEX_REASONING_EFFORT": "low"}, ("gpt-5-codex", "low")),
        ("", {}, ("gpt-5.2-codex", "high")),
        ("", {"CODEX_MODEL": "gpt-5-codex:low"}, ("gpt-5-codex", "low")),
        ("gpt-5-codex", {"CODEX_MODEL": "gpt-5.1-codex"}, ("gpt-5-codex", "high")),
        ("qwen3-coder:30b", {}, ("qwen3-coder:30b", "high")),
        ("qwen3-coder:30b:low", {}, ("qwen3-coder:30b", "low")),
    ],
)
def test_codex_argv_model_and_reasoning_effort(
    bin: Path, model: str, environ: dict[str, str], expected: tuple[str, str]
) -> None:
    name, effort = expected
    assert command(CODEX, bin, model, **environ).argv == (
        str(bin / "codex"),
        "exec",
        "--dangerously-bypass-approvals-and-sandbox",
        "--skip-git-repo-check",
        "--model",
        name,
        "-c",
        f"model_reasoning_effort={effort}",
        "-",
    )


def test_codex_prompt_ends_with_an_exit_instruction(bin: Path) -> None:
    result = run(CliAgent(CODEX, {"PATH": str(bin)}).execute(asked(bin.parent, "gpt-5-codex")))
    assert shown(result.output)["stdin"] == "Say é" + EXIT_INSTRUCTION
    assert "stop" in EXIT_INSTRUCTION


def test_codex_unknown_model_warns_once_and_is_passed_on(bin: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent = CliAgent(CODEX, {"PATH": str(bin)})
    with caplog.at_level(logging.WARNING):
        for model in ("gpt-9:low", "gpt-9:low", "gpt-5-codex"):
            assert model.partition(":")[0] in agent.command(asked(bin.parent, model)).argv
    (record,) = caplog.records
    assert record.getMessage().startswith("provider codex: model 'gpt-9' isn't known to work (known: gpt-5.2")


@pytest.mark.parametrize(
    ("config", "environ", "expected"),
    [
        ({}, {}, 900.0),
        ({}, {"CODEX_TIMEOUT": "60"}, 60.0),
        ({}, {"CODEX_TIMEOUT": ""}, 900.0),
        ({}, {"CODEX_TIMEOUT": "0"}, None),
        ({"timeout": 1.5}, {"CODEX_TIMEOUT": "60"}, 1.5),
        ({"timeout": 0}, {}, None),
        ({"env": {"CODEX_TIMEOUT": 30}}, {"CODEX_TIMEOUT": "60"}, 30.0),
    ],
)
def test_codex_timeout(
    bin: Path, config: dict[str, Any], environ: dict[str, str], expected: float | None
) -> None:
    assert command(CODEX, bin, config=config, **environ).timeout == expected


@pytest.mark.parametrize(
    ("config", "environ", "says"),
    [
        ({}, {"CODEX_TIMEOUT": "soon"}, "CODEX_TIMEOUT is no number of seconds: 'soon'"),
        ({}, {"CODEX_TIMEOUT": "-1"}, "CODEX_TIMEOUT"),
        ({}, {"CODEX_TIMEOUT": "nan"}, "CODEX_TIMEOUT"),
        ({}, {"CODEX_TIMEOUT": "inf"}, "CODEX_TIMEOUT"),
        ({"timeout": -1}, {}, "`timeout` is no number of seconds"),
        ({"timeout": "long"}, {}, r"\$\.timeout"),
        ({}, {"CODEX_REASONING_EFFORT": "banana"}, "CODEX_REASONING_EFFORT .*'banana'"),
    ],
)
def test_codex_settings_that_make_no_sense_are_refused(
    bin: Path, config: dict[str, Any], environ: dict[str, str], says: str
) -> None:
    with pytest.raises(ProviderUnusable, match=says) as refusal:
        command(CODEX, bin, config=config, **environ)
    assert refusal.value.hint


# -- both


@EITHER
def test_timeout_ends_an_agent_that_is_used_on_its_own(cli: AgentCli, bin: Path) -> None:
    put_cli(bin, cli.name, SLOW)
    agent = CliAgent(cli, {"PATH": f"{bin}:{os.environ['PATH']}"}, config={"timeout": 0.2})
    result = run(agent.execute(asked(bin.parent)))
    assert result.failure is not None
    assert (result.failure.kind, result.exit_code) == (FailureKind.ITERATION_TIMEOUT, 124)
    assert result.failure.message == "the agent was ended after 0.2 s"


@EITHER
def test_exit_code_and_output_of_a_failing_cli_are_kept(cli: AgentCli, bin: Path) -> None:
    put_cli(bin, cli.name, "import sys\nsys.exit('Not logged in')")
    result = run(CliAgent(cli, {"PATH": str(bin)}).execute(asked(bin.parent)))
    assert (result.exit_code, result.output, result.failure) == (1, "Not logged in\n", None)


@pytest.mark.parametrize(("cli", "message"), [(CLAUDE, CLAUDE_MISSING), (CODEX, CODEX_MISSING)])
def test_missing_cli_is_named_with_how_to_install_it(cli: AgentCli, message: str, tmp_path: Path) -> None:
    agent = CliAgent(cli, {"PATH": str(tmp_path)})
    for refused in (agent.validate, lambda: agent.command(asked(tmp_path))):
        with pytest.raises(ProviderUnusable) as refusal:
            refused()
        assert (refusal.value.message, refusal.value.hint) == (message, "")
    failure = run(agent.execute(asked(tmp_path))).failure
    assert failure is not None
    assert (failure.kind, failure.message) == (FailureKind.PROVIDER_MISSING, message)


@EITHER
def test_command_in_the_config_is_another_program(cli: AgentCli, bin: Path, tmp_path: Path) -> None:
    other = put_cli(tmp_path / "tools", "my-agent")
    for written in (str(other), "./tools/my-agent"):
        assert command(cli, bin, config={"command": written}).argv[0] == str(other)
    CliAgent(cli, {"PATH": ""}, config={"command": str(other)}).validate()
    with pytest.raises(ProviderUnusable, match=f"{cli.title} CLI not found: 'no-such'"):
        command(cli, bin, config={"command": "no-such"})


@EITHER
def test_environment_of_the_agent(cli: AgentCli, bin: Path) -> None:
    agent = CliAgent(cli, {"PATH": str(bin), "EXTRA": "inherited"})
    request = asked(bin.parent, config={"env": {"EXTRA": 7}})
    env = shown(run(agent.execute(request)).output)["env"]
    assert env["EXTRA"] == "7"
    assert env["AGENTFORGE_RESULT"] == request.result_path
    assert env["AGENTFORGE_STATUS"] == request.status_path
