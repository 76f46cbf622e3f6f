"""The provider api: its command, the interpretation of its exit, and the provider contract."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import agentforge
from agentforge.adapters.extras import install_command
from agentforge.adapters.providers.api import ApiProvider
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Usage
from agentforge.model.spending import Amount
from agentforge.ports.provider import Command, ExecuteRequest, Exit, Provider, ShowsProgress
from agentforge.testing.model_server import Call, ModelServer, Script, Turn
from agentforge.testing.provider_contract import LeaveArtifacts, ProcessProviderContract
from agentforge.tool_loop.task import (
    LoopEnded,
    ModelTask,
    Price,
    Retrying,
    SessionBegun,
    TextSaid,
    ToolCalled,
    encode,
)

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
DONE = Script((Turn("", (Call("complete", {"summary": "hello", "decision": "stop"}),)),))

IN_NEW_PROCESSES = {
    "test_execute_writes_a_result_or_returns_output",
    "test_cancellation_stops_all_processes",
}
"""The tests of the contract whose agents are not forked."""


class TestContract(ProcessProviderContract):
    @pytest.fixture
    def server(self) -> Iterator[ModelServer]:
        with ModelServer() as server:
            yield server

    @pytest.fixture
    def provider(self, request: pytest.FixtureRequest) -> Provider:
        if request.node.name not in IN_NEW_PROCESSES:
            request.getfixturevalue("warm_tool_loop")
        return ApiProvider(ENVIRON)

    @pytest.fixture
    def config(self, server: ModelServer) -> dict[str, Any]:
        return {"model": "ollama:m", "base_url": server.url(DONE, "fast") + "/v1"}

    @pytest.fixture
    def slow_config(self, server: ModelServer) -> dict[str, Any]:
        return {"model": "ollama:m", "base_url": server.url("hang", "slow") + "/v1"}

    @pytest.fixture
    def small_budget(self) -> Amount:
        return Amount(tokens=2000)

    @pytest.fixture
    def leaving(self, provider: Provider, server: ModelServer) -> LeaveArtifacts:
        def model(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            first, second = (
                Turn("", (Call("complete", {"summary": "left it", "decision": "stop", "result": artifact}),))
                for artifact in (*artifacts, artifacts[-1])[:2]
            )
            script = Script((first, second))
            return provider, {"model": "ollama:m", "base_url": server.url(script, "artifacts") + "/v1"}

        return model


def request(folder: Path, **fields: Any) -> ExecuteRequest:
    here = folder / ".claude/pipeline-runs/s/stage-00-a/iterations/001"
    here.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {
        "prompt": "Do it.",
        "model": "ollama:m",
        "config": {},
        "workdir": str(folder),
        "environment": {"MARK": "1"},
        "status_path": str(here / "status.json"),
        "result_path": str(here / "result.json"),
        "attempt": 2,
    }
    return ExecuteRequest(**{**given, **fields})


def task_of(command: Command) -> ModelTask:
    return msgspec.json.decode(command.stdin, type=ModelTask)


def test_settings_reach_the_task(tmp_path: Path) -> None:
    config = {
        "max_steps": 7,
        "max_tokens": 100,
        "temperature": 0.5,
        "allow": ["git", "make test"],
        "command_timeout": 9,
        "request_timeout": 8,
        "retries": 0,
        "system": "Be brief.",
        "schema": {"type": "object"},
        "timeout": 0,
    }
    command = ApiProvider(ENVIRON).command(request(tmp_path, config=config, resume="abc"))
    task = task_of(command)
    assert (task.prompt, task.system, task.resume) == ("Do it.", "Be brief.", "abc")
    assert (task.max_steps, task.max_tokens, task.temperature, task.retries) == (7, 100, 0.5, 0)
    assert (task.commands.allow, task.commands.timeout) == (("git", "make test"), 9.0)
    assert (task.request_timeout, task.schema) == (8.0, {"type": "object"})
    assert command.timeout is None
    assert ApiProvider(ENVIRON).command(request(tmp_path)).timeout == 300


@pytest.mark.parametrize(
    ("model", "config", "missing"),
    [
        ("claude-sonnet-4-5", {}, None),
        ("openai:gpt-5", {"base_url": "http://127.0.0.1:1/v1"}, None),
        ("anthropic:no-such-model", {}, "`prices: {no-such-model: {input: 3, output: 15}}` to its settings"),
        ("ollama:qwen3:30b", {}, "`prices: {qwen3:30b: {input: 3, output: 15}}` to its settings"),
        (
            "gpt-5",
            {"base_url": "http://127.0.0.1:1/v1"},
            "`prices: {gpt-5: {input: 3, output: 15}}` to its settings",
        ),
        ("ollama:qwen3:30b", {"prices": {"qwen3:30b": {"input": 0, "output": 0}}}, None),
        ("ollama:qwen3:30b", {"prices": {"ollama:qwen3:30b": {"input": 1, "output": 2}}}, None),
        ("", {"model": "ollama:m", "prices": {"m": {"input": 1, "output": 2}}}, None),
        (
            "ollama:m",
            {"prices": {"other": {"input": 1, "output": 2}}},
            "`prices: {m: {input: 3, output: 15}}` to its settings",
        ),
    ],
)
def test_models_without_a_price_are_known_before_the_run(
    model: str, config: dict[str, Any], missing: str | None
) -> None:
    assert ApiProvider(ENVIRON).missing_price(model, config) == missing
    if missing:
        prices = yaml.safe_load(missing.split("`")[1])
        assert ApiProvider(ENVIRON).missing_price(model, {**config, **prices}) is None


def test_budget_and_price_reach_the_task(tmp_path: Path) -> None:
    prices = {"m": {"input": 1.5, "output": 2, "cached": 0.5}}
    asked = request(tmp_path, config={"prices": prices}, budget=Amount(0.5, 9))
    task = task_of(ApiProvider(ENVIRON).command(asked))
    assert (task.budget, task.price) == (Amount(0.5, 9), Price(1.5, 2, 0.5))


@pytest.mark.parametrize(
    ("price", "says"),
    [
        ({"input": 1}, "`prices`: Object missing required field `output`"),
        ({"input": -1, "output": 1}, ">= 0"),
        ({"input": float("nan"), "output": 1}, ">= 0"),
        ({"input": float("inf"), "output": 1}, "<= 1000000"),
        ({"input": 1, "output": 1, "outputs": 1}, "unknown field"),
        (3, "must be"),
    ],
)
def test_wrong_prices_are_rejected(price: Any, says: str) -> None:
    with pytest.raises(ProviderUnusable, match=r"prices") as refusal:
        ApiProvider(ENVIRON).validate_settings("ollama:m", {"prices": {"m": price}})
    assert says in refusal.value.message


def test_schema_of_the_stage_replaces_that_of_the_settings(tmp_path: Path) -> None:
    config = {"schema": {"type": "array"}}
    schema, path = {"type": "object"}, str(tmp_path / "it/artifact.json")
    asked = request(tmp_path, config=config, schema=schema, artifact_path=path)
    task = task_of(ApiProvider(ENVIRON).command(asked))
    assert (task.schema, task.is_artifact, task.files.artifact) == (schema, True, path)
    assert path in task.files.protected
    own = task_of(ApiProvider(ENVIRON).command(request(tmp_path, config=config)))
    assert (own.schema, own.is_artifact) == ({"type": "array"}, False)


@pytest.mark.parametrize(
    "config",
    [{"max_steps": 0}, {"retries": -1}, {"command_timeout": 0}, {"api": "gemini"}, {"allow": "git"}],
)
def test_invalid_settings_are_rejected(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises(ProviderUnusable):
        ApiProvider(ENVIRON).command(request(tmp_path, config=config))


def test_schema_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"type": "object"}')
    provider = ApiProvider(ENVIRON)
    task = task_of(provider.command(request(tmp_path, config={"schema": "s.json"})))
    assert task.schema == {"type": "object"}
    assert task.files.artifact.endswith("/001/artifact.json")
    for content in ("[]", "{", None):
        if content is None:
            (tmp_path / "s.json").unlink()
        else:
            (tmp_path / "s.json").write_text(content)
        with pytest.raises(ProviderUnusable, match=r"can't read the schema .*s\.json"):
            provider.command(request(tmp_path, config={"schema": "s.json"}))


def test_a_schema_outside_the_workspace_by_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "project/schemas").mkdir(parents=True)
    (tmp_path / "secret.json").write_text('{"description": "secret"}')
    (tmp_path / "project/s.json").symlink_to("../secret.json")
    (tmp_path / "project/schemas/up").symlink_to("../..")
    os.mkfifo(tmp_path / "project/pipe.json")
    for name in ("s.json", "schemas/up/secret.json", "pipe.json"):
        with pytest.raises(ProviderUnusable, match="can't read the schema") as refusal:
            ApiProvider(ENVIRON).command(request(tmp_path / "project", config={"schema": name}))
        assert "secret" not in refusal.value.message.replace("secret.json", "")


def test_a_schema_that_was_not_readable_when_the_run_was_compiled_is_refused() -> None:
    with pytest.raises(ProviderUnusable, match=r"the schema s\.json is missing"):
        ApiProvider(ENVIRON).validate_settings("", {"schema": "s.json"})


def test_missing_key_is_noticed_before_the_run() -> None:
    (warning,) = ApiProvider({}).validate_settings("claude-sonnet-4-5", {})
    assert warning.startswith("provider api: ANTHROPIC_API_KEY is not set: set the environment variable")
    assert ApiProvider({"ANTHROPIC_API_KEY": "k"}).validate_settings("claude-sonnet-4-5", {}) == []


@pytest.mark.parametrize(
    ("model", "config", "meant"),
    [
        ("anthropic:claude-opsu-4-5", {}, "claude-opus-4-5"),
        ("claude-sonnet-4", {}, "claude-sonnet-4-"),
        ("openai:gtp-5.5", {}, "gpt-5.5"),
        ("openai:mine", {"base_url": "http://127.0.0.1:1"}, ""),
        ("ollama:claude-opsu", {}, ""),
    ],
)
def test_a_model_that_its_maker_may_not_have_is_a_warning(
    model: str, config: dict[str, Any], meant: str
) -> None:
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "AGENTFORGE_KEY_HOSTS": "127.0.0.1"}
    found = ApiProvider(keys).validate_settings(model, config)
    assert len(found) == bool(meant), found
    assert all(f"did you mean `{meant}" in text for text in found)


def test_all_that_is_wrong_with_the_settings_is_reported() -> None:
    wrong = {"schema": "s.json", "base_url": "nowhere", "retries": -1, "timeout": -4, "modle": "x", "note": 1}
    with pytest.raises(ProviderUnusable) as refusal:
        ApiProvider({}).validate_settings("claude-sonnet-4-5", wrong)
    values, settings = dict(wrong), ("retries", "timeout", "modle")
    for name in settings:
        assert f"`{name}`" in str(refusal.value)
        del values[name]
    with pytest.raises(ProviderUnusable, match=r"the schema s\.json is missing(.|\n)*`base_url` must be"):
        ApiProvider({}).validate_settings("claude-sonnet-4-5", values)


def test_only_what_is_needed_reaches_the_program(tmp_path: Path) -> None:
    environ = {
        **ENVIRON,
        "ANTHROPIC_API_KEY": "anthropic-key-1",
        "OPENAI_API_KEY": "openai-key-2",
        "GITHUB_TOKEN": "github-token-3",
        "PYTHONPATH": "/somewhere",
        "WANTED": "yes",
    }
    config = {"pass_env": ["WANTED"], "env": {"CI": True}}
    command = ApiProvider(environ).command(request(tmp_path, model="anthropic:claude-x", config=config))
    assert set(command.env) == {
        *("PATH", "HOME", "ANTHROPIC_API_KEY", "WANTED", "CI", "MARK"),
        *("AGENTFORGE_RESULT", "AGENTFORGE_STATUS"),
    }
    assert command.env["CI"] == "true"
    assert command.secrets == ("anthropic-key-1", "github-token-3", "openai-key-2")
    assert "anthropic-key-1" not in command.stdin
    local = ApiProvider(environ).command(request(tmp_path))
    assert not [name for name in local.env if name.endswith(("_KEY", "_TOKEN"))]
    assert local.secrets == command.secrets


def test_named_key_is_a_secret_whatever_its_name(tmp_path: Path) -> None:
    config = {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "GATE"}
    command = ApiProvider({**ENVIRON, "GATE": "open-sesame-1"}).command(
        request(tmp_path, model="m", config=config)
    )
    assert command.secrets == ("open-sesame-1",)
    assert command.argv[-1] == "GATE"


def test_files_of_the_run_are_protected_apart_from_what_the_agent_shares(tmp_path: Path) -> None:
    progress = tmp_path / ".claude/pipeline-runs/s/progress-s.md"
    asked = request(tmp_path, progress_path=str(progress))
    here = Path(asked.result_path).parent
    files = task_of(ApiProvider(ENVIRON).command(asked)).files
    assert files.writable == (str(here), str(progress))
    assert {asked.result_path, asked.status_path, str(here / "attempt-2")} <= set(files.protected)
    assert str(tmp_path / ".claude/pipeline-runs") in files.protected


ALONE = """
import sys
sys.path += [{source!r}, {packages!r}]
from agentforge.adapters.providers.api import ApiProvider
from agentforge.model.errors import ProviderUnusable
try:
    ApiProvider({{}}).validate()
except ProviderUnusable as error:
    print(error.message)
"""


def test_missing_packages_are_named_with_the_way_to_install_them(tmp_path: Path) -> None:
    """In a Python that has what we need ourselves, and nothing else."""
    for package in (msgspec, yaml):
        folder = Path(str(package.__file__)).parent
        (tmp_path / folder.name).symlink_to(folder)
    source = str(Path(agentforge.__file__).parent.parent)
    script = ALONE.format(source=source, packages=str(tmp_path))
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert "(pydantic_ai, anthropic, openai)" in ran.stdout
    assert "-m pip install '.[api]', in a clone" in ran.stdout


def test_nothing_heavy_is_imported_to_offer_the_provider() -> None:
    script = (
        "import sys; from agentforge.app.providers.offers import BUILTIN; "
        "BUILTIN['api']({}).validate(); "
        "print([name for name in ('pydantic', 'pydantic_ai', 'anthropic', 'openai', 'jsonschema_rs') "
        "if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.strip() == "[]"


def exit_with(*events: Any, code: int | None = 0, signal: int | None = None, more: str = "") -> Exit:
    return Exit(code, signal, 12, b"".join(encode(event) for event in events).decode() + more)


def test_last_line_is_the_outcome() -> None:
    usage = Usage(input_tokens=1, agent_session="s")
    result = ApiProvider(ENVIRON).interpret(
        exit_with(SessionBegun("s", "m"), TextSaid("x"), LoopEnded("completed", "all done", 2, usage))
    )
    assert (result.output, result.exit_code, result.usage, result.failure) == ("all done", 0, usage, None)


def test_failure_is_the_program_s_own() -> None:
    failure = Failure(FailureKind.PROVIDER_QUOTA, "used up", resets_at=datetime(2026, 1, 1, tzinfo=UTC))
    result = ApiProvider(ENVIRON).interpret(
        exit_with(LoopEnded("failed", failure=failure), code=1, more="warning: something\n")
    )
    assert result.failure == failure
    assert result.exit_code == 1


def test_session_of_a_killed_program_can_be_resumed() -> None:
    result = ApiProvider(ENVIRON).interpret(
        exit_with(SessionBegun("abc", "m"), TextSaid("I begin."), code=None, signal=9)
    )
    assert result.exit_code == 137
    assert result.usage == Usage(model="m", agent_session="abc")
    assert result.output == "I begin."


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (TextSaid("I look."), "I look."),
        (ToolCalled("read_file", {"path": "src/a.py"}), "→ read_file src/a.py"),
        (ToolCalled("run_command", {"command": ["git", "diff"]}), "→ run_command git diff"),
        (ToolCalled("list_directory", {}), "→ list_directory"),
        (Retrying(1, 2.0, "the server is busy"), "the server is busy; retrying in 2 s"),
        (SessionBegun("s", "m"), ""),
        (LoopEnded("completed", "done"), ""),
    ],
)
def test_progress_is_shown_as_text(event: Any, words: str) -> None:
    provider = ApiProvider(ENVIRON)
    assert isinstance(provider, ShowsProgress)
    assert provider.progress(encode(event).decode()) == words
    assert provider.progress("no json") == ""


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/me/.local/share/pipx/venvs/agentforge", "pipx install --force '.[api]'"),
        ("/home/me/.local/share/uv/tools/agentforge", "uv tool install --force '.[api]'"),
        ("/home/me/app/.venv", "'/my python' -m pip install '.[api]'"),
    ],
)
def test_the_extra_is_installed_in_the_way_that_this_program_was(prefix: str, command: str) -> None:
    assert install_command("api", prefix, "/my python") == f"{command}, in a clone of AgentForge"
