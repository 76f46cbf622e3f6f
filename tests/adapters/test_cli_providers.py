"""The providers that are agents' CLIs: the contract on stand-ins for them, and how they are called."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.fake_clis import leaving_code, put_cli, shown, speaking

from agentforge.adapters.cli_agents.description import AgentCli
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent, refuse_as_root, root_environment, state_folders
from agentforge.adapters.providers.codex import CODEX, EXIT_INSTRUCTION
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import FailureKind
from agentforge.model.spending import Amount
from agentforge.ports.provider import Command, ExecuteRequest, Exit, Provider
from agentforge.testing.provider_contract import LeaveArtifacts, ProcessProviderContract, run

SLOW = "import subprocess\nsubprocess.run(['sleep', '300'])\n"
CLIS = (CLAUDE, CODEX, OPENCODE, GEMINI)
EACH = pytest.mark.parametrize("cli", CLIS, ids=[cli.name for cli in CLIS])


class CliContract(ProcessProviderContract):
    cli: AgentCli

    @pytest.fixture
    def provider(self, tmp_path: Path) -> Provider:
        put_cli(tmp_path / "bin", self.cli.name, speaking(self.cli.name))
        return CliAgent(self.cli, {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})

    @pytest.fixture
    def slow_config(self, tmp_path: Path) -> dict[str, Any]:
        return {"command": str(put_cli(tmp_path / "slow", self.cli.name, SLOW))}

    @pytest.fixture
    def leaving(self, provider: Provider, tmp_path: Path) -> LeaveArtifacts:
        def cli(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            put_cli(tmp_path / "bin", self.cli.name, leaving_code(*artifacts) + speaking(self.cli.name))
            return provider, {}

        return cli


class TestClaudeContract(CliContract):
    cli = CLAUDE

    @pytest.fixture
    def small_budget(self, provider: Provider, tmp_path: Path) -> Amount:
        put_cli(tmp_path / "bin", "claude", speaking("claude", "budget"))
        return Amount(0.001)


class TestCodexContract(CliContract):
    cli = CODEX


class TestOpencodeContract(CliContract):
    cli = OPENCODE


class TestGeminiContract(CliContract):
    cli = GEMINI


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    for cli in CLIS:
        put_cli(tmp_path / "bin", cli.name)
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


def command(
    cli: AgentCli, bin: Path, model: str = "", config: Any = None, resume: str = "", **environ: str
) -> Command:
    agent = CliAgent(cli, {"PATH": str(bin), **environ})
    return agent.command(asked(bin.parent, model, config=config or {}, resume=resume))


# -- the command lines

CLAUDE_ARGV = "--print --output-format stream-json --verbose --dangerously-skip-permissions"
CODEX_ARGV = (
    "exec --json --skip-git-repo-check -c check_for_update_on_startup=false -c analytics.enabled=false"
    " --dangerously-bypass-approvals-and-sandbox"
)
OPENCODE_ARGV = "run --format json --auto"
GEMINI_ARGV = "--output-format stream-json --approval-mode yolo --skip-trust"


@pytest.mark.parametrize(
    ("cli", "model", "resume", "config", "words"),
    [
        (CLAUDE, "", "", {}, CLAUDE_ARGV),
        (CLAUDE, "opus", "", {}, f"{CLAUDE_ARGV} --model opus"),
        (CLAUDE, "sonnet", "", {}, f"{CLAUDE_ARGV} --model sonnet"),
        (CLAUDE, "haiku", "", {}, f"{CLAUDE_ARGV} --model haiku"),
        (CLAUDE, "claude-opus", "", {}, f"{CLAUDE_ARGV} --model opus"),
        (CLAUDE, "claude-sonnet", "", {}, f"{CLAUDE_ARGV} --model sonnet"),
        (CLAUDE, "claude-haiku", "", {}, f"{CLAUDE_ARGV} --model haiku"),
        (CLAUDE, "claude-sonnet-4-5", "", {}, f"{CLAUDE_ARGV} --model claude-sonnet-4-5"),
        (CLAUDE, "opus:max", "", {}, f"{CLAUDE_ARGV} --model opus --effort max"),
        (CLAUDE, "claude-opus:low", "S", {}, f"{CLAUDE_ARGV} --model opus --effort low --resume S"),
        (CLAUDE, "", "", {"effort": "high"}, f"{CLAUDE_ARGV} --effort high"),
        (CLAUDE, "qwen3-coder:30b", "", {}, f"{CLAUDE_ARGV} --model qwen3-coder:30b"),
        (CLAUDE, "", "S", {"arguments": ["--max-turns", "9"]}, f"{CLAUDE_ARGV} --max-turns 9 --resume S"),
        (
            CLAUDE,
            "",
            "",
            {"permissions": ["--permission-mode", "acceptEdits"]},
            "--print --output-format stream-json --verbose --permission-mode acceptEdits",
        ),
        (
            CODEX,
            "gpt-5.2-codex:xhigh",
            "",
            {},
            f"{CODEX_ARGV} --model gpt-5.2-codex -c model_reasoning_effort=xhigh -",
        ),
        (
            CODEX,
            "gpt-5-codex",
            "T",
            {"effort": "low"},
            f"{CODEX_ARGV} --model gpt-5-codex -c model_reasoning_effort=low resume T -",
        ),
        (
            CODEX,
            "gpt-5-codex",
            "",
            {"model_provider": "mine", "retries": 1},
            f"{CODEX_ARGV} --model gpt-5-codex -c model_reasoning_effort=high -c model_provider=mine"
            " -c model_providers.mine.request_max_retries=1 -c model_providers.mine.stream_max_retries=1 -",
        ),
        (OPENCODE, "", "", {}, OPENCODE_ARGV),
        (OPENCODE, "ollama/qwen3:30b", "", {}, f"{OPENCODE_ARGV} --model ollama/qwen3:30b"),
        (
            OPENCODE,
            "openai/gpt-5:high",
            "ses_1",
            {},
            f"{OPENCODE_ARGV} --model openai/gpt-5 --variant high --session ses_1",
        ),
        (GEMINI, "", "", {}, GEMINI_ARGV),
        (GEMINI, "gemini-2.5-pro", "U", {}, f"{GEMINI_ARGV} --model gemini-2.5-pro --resume U"),
    ],
)
def test_command_lines(
    cli: AgentCli, model: str, resume: str, config: dict[str, Any], words: str, bin: Path
) -> None:
    assert command(cli, bin, model, config, resume).argv == (str(bin / cli.name), *words.split())


@pytest.mark.parametrize(
    ("budget", "config", "words"),
    [
        (None, {}, []),
        (Amount(tokens=9), {}, []),
        (Amount(0.5, 9), {}, ["--max-budget-usd", "0.5"]),
        (Amount(1000.0), {}, ["--max-budget-usd", "1000"]),
        (Amount(0.00001), {}, ["--max-budget-usd", "0.00001"]),
        (Amount(0.1 + 0.2), {}, ["--max-budget-usd", "0.3"]),
        # The last one counts for the CLI, and the lower one is last.
        (Amount(2.0), {"arguments": ["--max-budget-usd", 0.7]}, ["0.7", "--max-budget-usd", "0.7"]),
        (Amount(2.0), {"arguments": ["--max-budget-usd=3"]}, ["--max-budget-usd=3", "--max-budget-usd", "2"]),
        (Amount(2.0), {"permissions": ["--max-budget-usd=1"]}, ["--max-budget-usd", "1"]),
        (Amount(2.0), {"arguments": ["--max-budget-usd", "nan"]}, ["nan", "--max-budget-usd", "2"]),
        (None, {"arguments": ["--max-budget-usd", "0.7"]}, ["--max-budget-usd", "0.7"]),
    ],
)
def test_claude_is_told_the_lower_one_of_its_budgets(
    bin: Path, budget: Amount | None, config: dict[str, Any], words: list[str]
) -> None:
    request = asked(bin.parent, config=config, budget=budget, resume="S")
    argv = CliAgent(CLAUDE, {"PATH": str(bin)}).command(request).argv
    assert list(argv[:-2])[-len(words) :] == (words or list(argv[:-2]))
    assert ("--max-budget-usd" in argv) == bool(words)
    assert argv[-2:] == ("--resume", "S")


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("", True),
        ("opus", True),
        ("sonnet[1m]:high", True),
        ("claude-haiku", True),
        ("claude-sonnet-4-5", True),
        ("us.anthropic.claude-opus-4-5-v1:0", True),
        ("qwen3-coder:30b", False),
        ("gpt-5.5", False),
    ],
)
def test_claude_knows_the_prices_of_its_makers_models(model: str, known: bool) -> None:
    assert CliAgent(CLAUDE, {}).missing_price(model, {}) == (None if known else "")


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
        ("", {}, ("gpt-5.5", "high")),
        ("", {"CODEX_MODEL": "gpt-5-codex:low"}, ("gpt-5-codex", "low")),
        ("gpt-5-codex", {"CODEX_MODEL": "gpt-5.1-codex"}, ("gpt-5-codex", "high")),
        ("qwen3-coder:30b", {}, ("qwen3-coder:30b", "high")),
        ("qwen3-coder:30b:low", {}, ("qwen3-coder:30b", "low")),
    ],
)
def test_codex_model_and_reasoning_effort(
    bin: Path, model: str, environ: dict[str, str], expected: tuple[str, str]
) -> None:
    argv = command(CODEX, bin, model, **environ).argv
    name, effort = expected
    assert argv[-5:] == ("--model", name, "-c", f"model_reasoning_effort={effort}", "-")


@EACH
def test_the_prompt_is_given_on_stdin(cli: AgentCli, bin: Path) -> None:
    result = run(CliAgent(cli, {"PATH": str(bin)}).execute(asked(bin.parent)))
    assert (result.exit_code, result.failure) == (0, None)
    assert shown(result.output)["stdin"] == "Say é" + cli.prompt_suffix


def test_codex_is_told_to_stop_when_it_is_done() -> None:
    assert CODEX.prompt_suffix == EXIT_INSTRUCTION
    assert "stop" in EXIT_INSTRUCTION


def test_an_unknown_model_is_passed_on(bin: Path) -> None:
    assert "gpt-9" in CliAgent(CODEX, {"PATH": str(bin)}).command(asked(bin.parent, "gpt-9:low")).argv


@pytest.mark.parametrize(
    ("cli", "model", "warning"),
    [
        (CLAUDE, "opuss", "claude may not know `opuss`; did you mean `opus`?"),
        (CLAUDE, "5", "claude may not know `5`; known models: claude-fable-5, "),
        (
            CLAUDE,
            "claude-opsu-4-5",
            "claude may not know `claude-opsu-4-5`; did you mean `claude-opus-4-5`?",
        ),
        (CLAUDE, "claude-nova-7", "claude may not know `claude-nova-7`; "),
        (CLAUDE, "sonnet:hgih", "unknown effort in `sonnet:hgih`; did you mean `high`?"),
        (CODEX, "gpt-5.5:hgih", "unknown effort in `gpt-5.5:hgih`; did you mean `high`?"),
        (
            CODEX,
            "gpt-55:high",
            "codex may not know `gpt-55`; did you mean `gpt-5.5`?",
        ),
        (OPENCODE, "a/b:hihg", "unknown effort in `a/b:hihg`; did you mean `high`?"),
        (CODEX, "gpt-5.2-codex", "codex may not know `gpt-5.2-codex`; did you mean `gpt-5."),
        (
            GEMINI,
            "gemni-2.5-pro",
            "gemini may not know `gemni-2.5-pro`; did you mean `gemini-2.5-pro`?",
        ),
        (
            GEMINI,
            "gemini-2.5-prp",
            "gemini may not know `gemini-2.5-prp`; did you mean `gemini-2.5-pro`?",
        ),
        (
            OPENCODE,
            "anthropic/claude-sonnet-4",
            "opencode may not know `anthropic/claude-sonnet-4`; did you mean `anthropic/claude-sonnet-4-",
        ),
        (
            OPENCODE,
            "antropic/claude-opus-5",
            "opencode may not know `antropic/claude-opus-5`; did you mean `anthropic/claude-opus-5`?",
        ),
    ],
)
def test_a_model_or_an_effort_that_may_be_misspelt_is_a_warning(
    cli: AgentCli, model: str, warning: str
) -> None:
    (found,) = CliAgent(cli, {}).validate_settings(model, {})
    assert found.startswith(f"`model`: {warning}")


@pytest.mark.parametrize(
    ("cli", "model", "config"),
    [
        *(
            (CLAUDE, name, {})
            for name in ("", "opus:high", "opus[1m]", "claude-opus", "claude-opus-4-5-2026")
        ),
        (CLAUDE, "us.anthropic.claude-opus-4-v1:0", {}),
        (CLAUDE, "qwen3-coder:30b", {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}}),
        (CODEX, "gpt-6-sol:low", {}),
        (CODEX, "mine", {"model_provider": "local"}),
        (OPENCODE, "mine/anything:30b", {}),
        (OPENCODE, "anthropic/claude-opus-4-5-20251101", {}),
        (OPENCODE, "openai/gpt-5.4-mini", {}),
        (OPENCODE, "google/gemini-3.8-flash", {}),
        (GEMINI, "gemini-2.5-pro", {}),
        (GEMINI, "gemini-3.1-pro-preview", {}),
    ],
)
def test_known_models_are_no_warning(cli: AgentCli, model: str, config: dict[str, Any]) -> None:
    assert CliAgent(cli, {}).validate_settings(model, config) == []


def test_what_is_wrong_besides_does_not_hide_a_doubtful_model() -> None:
    with pytest.raises(ProviderUnusable) as found:
        CliAgent(CLAUDE, {}).validate_settings("opuss", {"timeout": -1})
    (doubt,) = found.value.doubts
    assert "did you mean `opus`?" in doubt


# -- limits


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


@EACH
def test_limits_of_time(cli: AgentCli, bin: Path) -> None:
    made = command(cli, bin)
    assert made.timeout == (900 if cli is CODEX else None)
    assert made.idle_timeout == (900 if cli is OPENCODE else None)
    assert made.term_grace == (30 if cli is CODEX else None)
    assert made.separate_errors
    made = command(cli, bin, config={"timeout": 7, "idle_timeout": 3})
    assert (made.timeout, made.idle_timeout) == (7, 3)
    assert command(cli, bin, config={"idle_timeout": 0}).idle_timeout is None


@pytest.mark.parametrize(
    ("config", "environ", "says"),
    [
        ({}, {"CODEX_TIMEOUT": "soon"}, "CODEX_TIMEOUT must be a number of seconds, got 'soon'"),
        ({}, {"CODEX_TIMEOUT": "-1"}, "CODEX_TIMEOUT"),
        ({}, {"CODEX_TIMEOUT": "nan"}, "CODEX_TIMEOUT"),
        ({}, {"CODEX_TIMEOUT": "inf"}, "CODEX_TIMEOUT"),
        ({"timeout": -1}, {}, "`timeout` must be a number of seconds"),
        ({"idle_timeout": -1}, {}, "`idle_timeout` must be a number of seconds"),
        ({"timeout": "long"}, {}, "`timeout` must be a number, not text"),
        ({"effort": "banana"}, {}, "`effort`: invalid reasoning effort 'banana'"),
        ({}, {"CODEX_REASONING_EFFORT": "banana"}, "CODEX_REASONING_EFFORT: .*'banana'"),
    ],
)
def test_invalid_settings_are_rejected(
    bin: Path, config: dict[str, Any], environ: dict[str, str], says: str
) -> None:
    with pytest.raises(ProviderUnusable, match=says) as refusal:
        command(CODEX, bin, config=config, **environ)
    assert refusal.value.hint


def test_an_effort_for_a_cli_without_efforts_is_rejected(bin: Path) -> None:
    with pytest.raises(ProviderUnusable, match="provider gemini doesn't support a reasoning effort"):
        command(GEMINI, bin, config={"effort": "high"})


@pytest.mark.parametrize(
    ("config", "environ", "retries"),
    [
        ({}, {}, "3"),
        ({"retries": 0}, {}, "0"),
        ({}, {"CLAUDE_CODE_MAX_RETRIES": "7"}, "7"),
        ({"retries": 5}, {"CLAUDE_CODE_MAX_RETRIES": "7"}, "5"),
    ],
)
def test_retries_of_claude_are_bounded(
    bin: Path, config: dict[str, Any], environ: dict[str, str], retries: str
) -> None:
    assert command(CLAUDE, bin, config=config, **environ).env["CLAUDE_CODE_MAX_RETRIES"] == retries


# -- the environment


@pytest.mark.parametrize(
    ("cli", "reaches", "does_not"),
    [
        (CLAUDE, ["ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "AWS_PROFILE", "GOOGLE_X"], ["OPENAI_API_KEY"]),
        (CODEX, ["OPENAI_API_KEY", "CODEX_HOME", "CODEX_API_KEY"], ["ANTHROPIC_API_KEY", "AWS_PROFILE"]),
        (OPENCODE, ["OPENCODE_CONFIG", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"], ["STRIPE_API_KEY"]),
        (GEMINI, ["GEMINI_API_KEY", "GOOGLE_API_KEY"], ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]),
    ],
)  # fmt: skip
def test_the_environment_is_what_all_programs_need_and_what_this_one_does(
    cli: AgentCli, reaches: list[str], does_not: list[str], bin: Path
) -> None:
    given = dict.fromkeys([*reaches, *does_not, "HOME", "LANG", "MY_TOKEN", "CLAUDECODE"], "some-value")
    env = command(cli, bin, **given).env
    assert {name for name in given if name in env} == {*reaches, "HOME", "LANG"}
    env = command(cli, bin, config={"pass_env": ["MY_*"], "env": {"EXTRA": True}}, **given).env
    assert (env["MY_TOKEN"], env["EXTRA"]) == ("some-value", "true")
    assert does_not[0] in command(cli, bin, config={"pass_env": ["*"]}, **given).env


@EACH
def test_default_arguments_of_a_cli_can_be_overridden(cli: AgentCli, bin: Path) -> None:
    for name, value in cli.environment.items():
        assert command(cli, bin).env[name] == value
        assert command(cli, bin, **{name: "other"}).env[name] == "other"
        assert command(cli, bin, config={"env": {name: "stage"}}, **{name: "other"}).env[name] == "stage"


def test_auto_update_is_off() -> None:
    assert CLAUDE.environment["DISABLE_AUTOUPDATER"] == "1"
    assert OPENCODE.environment["OPENCODE_DISABLE_AUTOUPDATE"] == "1"
    assert "check_for_update_on_startup=false" in CODEX.arguments


@EACH
def test_the_agent_finds_where_to_write(cli: AgentCli, bin: Path) -> None:
    agent = CliAgent(cli, {"PATH": str(bin), "EXTRA": "inherited"})
    request = asked(bin.parent, config={"env": {"EXTRA": 7}})
    env = shown(run(agent.execute(request)).output)["env"]
    assert env["EXTRA"] == "7"
    assert env["AGENTFORGE_RESULT"] == request.result_path
    assert env["AGENTFORGE_STATUS"] == request.status_path


@EACH
def test_values_of_secret_variables_are_named_as_secrets(cli: AgentCli, bin: Path) -> None:
    name = {"claude": "ANTHROPIC_AUTH_TOKEN", "gemini": "GEMINI_API_KEY"}.get(cli.name, "OPENAI_API_KEY")
    assert command(cli, bin, **{name: "sk-very-secret-1"}).secrets == ("sk-very-secret-1",)
    assert command(cli, bin).secrets == ()


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
    assert root_environment(CLAUDE, environment, uid) == adds


@pytest.mark.parametrize(
    ("environment", "uid"),
    [
        ({}, 0),
        ({"IS_SANDBOX": "1"}, 0),
        ({"IS_SANDBOX": "yes"}, 1000),
        ({"IS_SANDBOX": "yes", "CLAUDE_CODE_BUBBLEWRAP": "1"}, 0),
    ],
)
def test_claude_starts_as_root_in_what_it_takes_for_a_sandbox(environment: dict[str, str], uid: int) -> None:
    refuse_as_root(CLAUDE, environment, uid)


def test_claude_as_root_with_another_value_is_refused_before_the_run() -> None:
    with pytest.raises(ProviderUnusable, match="as root: IS_SANDBOX is 'yes', not 1") as refusal:
        refuse_as_root(CLAUDE, {"IS_SANDBOX": "yes"}, 0)
    assert refusal.value.hint == "set IS_SANDBOX to 1, or unset it: AgentForge then sets it"
    claude = CliAgent(CLAUDE, {"IS_SANDBOX": "yes"})
    # It asks for permissions otherwise, and starts.
    claude.validate_settings("", {"permissions": ["--permission-mode", "acceptEdits"]})
    if os.geteuid() == 0:
        with pytest.raises(ProviderUnusable):
            claude.validate_settings("", {})


def test_claude_finds_the_sandbox_variable_in_its_environment(bin: Path) -> None:
    assert command(CLAUDE, bin).env.get("IS_SANDBOX") == ("1" if os.geteuid() == 0 else None)


@pytest.mark.parametrize(
    ("cli", "environ", "folders"),
    [
        (CLAUDE, {"HOME": "/h"}, ("/h/.claude", "/h/.claude.json")),
        (CLAUDE, {"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}, ("/c", "/c/.claude.json")),
        (CLAUDE, {}, ()),
        (CODEX, {"HOME": "/h"}, ("/h/.codex",)),
        (CODEX, {"HOME": "/h", "CODEX_HOME": "/x"}, ("/x",)),
        (GEMINI, {"HOME": "/h"}, ("/h/.gemini",)),
        (GEMINI, {"HOME": "/h", "GEMINI_CLI_HOME": "/g"}, ("/g/.gemini",)),
        (
            OPENCODE,
            {"HOME": "/h", "XDG_DATA_HOME": "/d"},
            ("/h/.config/opencode", "/d/opencode", "/h/.local/state/opencode", "/h/.cache/opencode"),
        ),
        (OPENCODE, {"OPENCODE_CONFIG": "/h/own.json"}, ("/h/own.json",)),
    ],
)
def test_where_a_cli_keeps_its_state(
    cli: AgentCli, environ: dict[str, str], folders: tuple[str, ...], bin: Path
) -> None:
    assert state_folders(cli, environ) == folders
    assert command(cli, bin, **environ).state == folders


# -- all of them


@EACH
def test_capabilities_are_those_of_the_description(cli: AgentCli) -> None:
    able = CliAgent(cli, {}).capabilities()
    assert (able.supports_tools, able.supports_resume, able.concurrent) == (True, True, True)
    assert able.supports_reasoning_control == (cli is not GEMINI)
    assert able.bounds == (("cost_usd",) if cli is CLAUDE else ())


@EACH
def test_timeout_ends_an_agent_without_a_supervisor(cli: AgentCli, bin: Path) -> None:
    put_cli(bin, cli.name, SLOW)
    agent = CliAgent(cli, {"PATH": f"{bin}:{os.environ['PATH']}"}, config={"timeout": 0.2})
    result = run(agent.execute(asked(bin.parent)))
    assert result.failure is not None
    assert (result.failure.kind, result.exit_code) == (FailureKind.ITERATION_TIMEOUT, 124)
    assert result.failure.message == "the agent was ended after 0.2 s"


@EACH
def test_exit_code_and_output_of_a_failing_cli_are_kept(cli: AgentCli, bin: Path) -> None:
    put_cli(bin, cli.name, "import sys\nsys.exit('Not logged in')")
    result = run(CliAgent(cli, {"PATH": str(bin)}).execute(asked(bin.parent)))
    assert (result.exit_code, result.output) == (1, "Not logged in\n")
    assert result.failure is not None
    assert result.failure.kind is FailureKind.PROVIDER_AUTH


@pytest.mark.parametrize(
    ("cli", "message"),
    [
        (CLAUDE, "Claude CLI not found. Install with: npm install -g @anthropic-ai/claude-code"),
        (CODEX, "Codex CLI not found. Install with: npm install -g @openai/codex"),
        (OPENCODE, "opencode CLI not found. Install with: npm install -g opencode-ai"),
        (GEMINI, "Gemini CLI not found. Install with: npm install -g @google/gemini-cli"),
    ],
)
def test_missing_cli_is_named_with_how_to_install_it(cli: AgentCli, message: str, tmp_path: Path) -> None:
    agent = CliAgent(cli, {"PATH": str(tmp_path)})
    for refused in (agent.validate, lambda: agent.command(asked(tmp_path))):
        with pytest.raises(ProviderUnusable) as refusal:
            refused()
        assert (refusal.value.message, refusal.value.hint) == (message, "")
    failure = run(agent.execute(asked(tmp_path))).failure
    assert failure is not None
    assert (failure.kind, failure.message) == (FailureKind.PROVIDER_MISSING, message)


@EACH
def test_command_in_the_config_is_another_program(cli: AgentCli, bin: Path, tmp_path: Path) -> None:
    other = put_cli(tmp_path / "tools", "my-agent")
    for written in (str(other), "./tools/my-agent"):
        assert command(cli, bin, config={"command": written}).argv[0] == str(other)
    CliAgent(cli, {"PATH": ""}, config={"command": str(other)}).validate()
    with pytest.raises(ProviderUnusable, match=f"{cli.title} CLI not found: 'no-such'"):
        command(cli, bin, config={"command": "no-such"})


def test_a_variable_that_codex_misses_is_passed_on() -> None:
    said = "Missing environment variable: `FAKE_API_KEY`."
    stream = json.dumps({"type": "turn.failed", "error": {"message": said}})
    failure = CliAgent(CODEX, {}).interpret(Exit(1, None, 5, stream)).failure
    assert failure is not None
    fix = "set FAKE_API_KEY and pass it on with `pass_env: [FAKE_API_KEY]` in the provider's config"
    assert failure.message == f"Codex: {said.rstrip('.')}; {fix}"
