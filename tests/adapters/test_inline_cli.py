"""A user's own CLI: described in Python, in a stage, or in a file of the project."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.fake_clis import leaving_code, put_cli, shown

import agentforge
from agentforge import AgentCli, CliAgent
from agentforge.adapters.cli_agents.description import OutputFields
from agentforge.adapters.providers.cli import InlineCli
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import FailureKind as K
from agentforge.model.result import Usage
from agentforge.model.spending import Amount
from agentforge.ports.provider import ExecuteRequest, Exit, Provider
from agentforge.testing.provider_contract import LeaveArtifacts, ProcessProviderContract, run


class TestOwnCliContract(ProcessProviderContract):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> Provider:
        put_cli(tmp_path / "bin", "my-agent")
        return InlineCli({"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})

    @pytest.fixture
    def config(self) -> dict[str, Any]:
        return {"program": "my-agent", "resume_arguments": ["--session", "{session}"]}

    @pytest.fixture
    def slow_config(self) -> dict[str, Any]:
        return {"program": "sleep", "arguments": [300]}

    @pytest.fixture
    def leaving(self, provider: Provider, tmp_path: Path) -> LeaveArtifacts:
        def own_cli(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            put_cli(tmp_path / "bin", "my-agent", leaving_code(*artifacts))
            return provider, {"program": "my-agent"}

        return own_cli


class TestDescribedCliContract(ProcessProviderContract):
    @pytest.fixture
    def provider(self, tmp_path: Path) -> Provider:
        put_cli(tmp_path / "bin", "my-agent")
        cli = AgentCli(name="mine", program="my-agent", prompt="argument", arguments=("--quiet",))
        return CliAgent(cli, {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})

    @pytest.fixture
    def slow_config(self, tmp_path: Path) -> dict[str, Any]:
        return {"command": str(put_cli(tmp_path / "slow", "slow", "import time\ntime.sleep(300)\n"))}

    @pytest.fixture
    def leaving(self, provider: Provider, tmp_path: Path) -> LeaveArtifacts:
        def described_cli(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            put_cli(tmp_path / "bin", "my-agent", leaving_code(*artifacts))
            return provider, {}

        return described_cli


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    put_cli(tmp_path / "bin", "my-agent")
    return tmp_path / "bin"


def asked(folder: Path, **changes: Any) -> ExecuteRequest:
    (folder / "prompt.md").write_text("Say é")
    given: dict[str, Any] = {
        "prompt": "Say é",
        "model": "",
        "config": {},
        "workdir": str(folder),
        "environment": {},
        "status_path": str(folder / "status.json"),
        "result_path": str(folder / "result.json"),
        "prompt_path": str(folder / "prompt.md"),
    }
    return ExecuteRequest(**{**given, **changes})


def test_the_public_names_exist() -> None:
    assert {"AgentCli", "CliAgent", "Engine"} <= set(agentforge.__all__)
    for name in agentforge.__all__:
        assert getattr(agentforge, name)


@pytest.mark.parametrize(
    ("config", "words", "stdin"),
    [
        ({}, [], "Say é"),
        ({"prompt": "argument"}, ["Say é"], ""),
        ({"prompt": "argument", "prompt_arguments": ["--message", "{prompt}"]}, ["--message", "Say é"], ""),
        ({"prompt": "file"}, ["$/prompt.md"], ""),
        ({"prompt": "file", "prompt_arguments": ["--file={prompt}", "go"]}, ["--file=$/prompt.md", "go"], ""),
        ({"arguments": ["-n", 3, True], "prompt_arguments": ["-"]}, ["-n", "3", "true", "-"], "Say é"),
        ({"model_arguments": ["-m", "{model}"]}, ["-m", "big"], "Say é"),
        ({"efforts": ["high"], "effort_arguments": ["-e{effort}"], "effort": "high"}, ["-ehigh"], "Say é"),
        ({"resume_arguments": ["--go-on", "{session}"]}, ["--go-on", "S1"], "Say é"),
        ({"prompt_suffix": " now"}, [], "Say é now"),
        ({"permission_arguments": ["--yes"], "permissions": ["--ask"]}, ["--ask"], "Say é"),
        ({"retries": 2, "retry_arguments": ["--tries={retries}"]}, ["--tries=2"], "Say é"),
        ({"budget_arguments": ["--usd={budget}"]}, ["--usd=0.25"], "Say é"),
        ({"budget_arguments": ["--usd={budget}"], "arguments": ["--usd=0.1"]}, ["--usd=0.1"] * 2, "Say é"),
    ],
)
def test_a_stage_s_own_program_is_called_as_it_describes(
    bin: Path, config: dict[str, Any], words: list[str], stdin: str
) -> None:
    request = asked(
        bin.parent, model="big", resume="S1", budget=Amount(0.25), config={"program": "my-agent", **config}
    )
    result = run(InlineCli({"PATH": str(bin)}).execute(request))
    assert result.failure is None
    called = shown(result.output)
    assert called["argv"] == [word.replace("$", str(bin.parent)) for word in words]
    assert called["stdin"] == stdin


def test_the_environment_of_an_own_program_is_declared(bin: Path) -> None:
    config = {
        "program": "my-agent",
        "passes": ["MINE_*"],
        "pass_env": ["OTHER"],
        "environment": {"MODE": "batch"},
        "env": {"EXTRA": 1},
        "secrets": ["MINE_CODE"],
        "state": ["~/.mine"],
    }
    inherited = {"MINE_CODE": "hush-hush-1", "OTHER": "o", "NOT": "n", "HOME": "/h", "PATH": str(bin)}
    made = InlineCli(inherited).command(asked(bin.parent, config=config))
    assert {name: made.env.get(name) for name in ("MINE_CODE", "OTHER", "NOT", "MODE", "EXTRA")} == {
        "MINE_CODE": "hush-hush-1",
        "OTHER": "o",
        "NOT": None,
        "MODE": "batch",
        "EXTRA": "1",
    }
    assert (made.secrets, made.state) == (("hush-hush-1",), ("/h/.mine",))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "`program` is missing"),
        ({"program": "my-agent", "output": "xml"}, "unknown output format 'xml'"),
        ({"program": "my-agent", "prompt": "telepathy"}, "`prompt` can't be 'telepathy'"),
        ({"program": "my-agent", "fields": {"text": "a"}}, "`fields` requires JSON lines"),
        ({"program": "my-agent", "output": "json_lines", "fields": {"txt": "a"}}, "txt"),
        ({"program": "my-agent", "error_patterns": ["("]}, "invalid regular expression"),
        ({"program": "my-agent", "retries": -1}, "`retries` must be 0 or more, got -1"),
        ({"program": "my-agent", "model_arguments": ["--model"]}, r"must contain \{model\}"),
        ({"program": "my-agent", "resume_arguments": ["{prompt}"]}, r"doesn't support \{prompt\}"),
        ({"program": "my-agent", "prompt": "file", "prompt_arguments": ["x"]}, r"must contain \{prompt\}"),
        ({"program": "my-agent", "efforts": ["high"]}, "requires `effort_arguments`"),
        ({"program": "no-such-agent"}, "no program 'no-such-agent' in PATH"),
    ],
)
def test_an_invalid_description_is_rejected(bin: Path, config: dict[str, Any], says: str) -> None:
    with pytest.raises(ProviderUnusable, match=says) as refusal:
        InlineCli({"PATH": str(bin)}).command(asked(bin.parent, config=config))
    assert refusal.value.hint


def test_a_prompt_too_long_for_an_argument_is_refused(bin: Path) -> None:
    config = {"program": "my-agent", "prompt": "argument"}
    with pytest.raises(ProviderUnusable, match="exceeds the system's limit"):
        InlineCli({"PATH": str(bin)}).command(asked(bin.parent, config=config, prompt="x" * 200_000))


# -- what it prints

GOOSE_FIELDS = OutputFields(text="message.content.text", error="type=error", done="type=complete")
COUNTED = OutputFields(
    text="say",
    session="id",
    input_tokens="used.in",
    output_tokens="used.out",
    cached_tokens="used.cached",
    cost="used.usd",
    model="by",
    error="problem.text",
    done="end",
)


def read(fields: OutputFields, output: str, code: int = 0, **more: Any) -> Any:
    cli = AgentCli(name="mine", output="json_lines", fields=fields, **more)
    return CliAgent(cli, {}).interpret(Exit(code, None, 1, output, model="asked"))


def test_json_lines_by_dotted_paths() -> None:
    result = read(
        COUNTED,
        'banner\n{"id":"s1"}\n{"say":"one"}\n{"say":"two","used":{"in":5,"out":1}}\n'
        '{"used":{"in":9,"out":2,"cached":4,"usd":0.5},"by":"m1","end":true}\n',
    )
    assert (result.output, result.failure, result.exit_code) == ("two", None, 0)
    assert result.usage == Usage(
        input_tokens=9, output_tokens=2, cached_tokens=4, cost_usd=0.5, model="m1", agent_session="s1"
    )


@pytest.mark.parametrize(
    ("output", "kind", "says"),
    [
        ('{"say":"one"}\n', K.PROVIDER_CRASHED, "the stream ended early"),
        ('{"problem":{"text":"HTTP 429 slow down"},"end":true}', K.PROVIDER_RATE_LIMITED, "slow down"),
        ('{"problem":{"text":"odd"},"end":true}', K.PROVIDER_CRASHED, "mine: odd"),
        ('{"problem":{"text":"connection refused"}}', K.PROVIDER_UNREACHABLE, "refused"),
    ],
)
def test_json_lines_with_errors(output: str, kind: K, says: str) -> None:
    for code in (0, 1):
        failure = read(COUNTED, output, code).failure
        assert (failure.kind, says in failure.message) == (kind, True)


def test_paths_go_through_lists_and_a_value_picks_the_lines() -> None:
    said = '{"type":"message","message":{"content":[{"text":"a"},{"tool":1},{"text":"b"}]}}\n'
    assert read(GOOSE_FIELDS, said + '{"type":"complete"}\n').output == "ab"
    failure = read(GOOSE_FIELDS, said + '{"type":"error","error":"overloaded"}\n').failure
    assert (failure.kind, failure.message) == (K.PROVIDER_OVERLOADED, "mine: overloaded")


def test_progress_of_json_lines_is_their_text() -> None:
    agent = CliAgent(AgentCli(name="mine", output="json_lines", fields=COUNTED), {})
    assert agent.progress('{"say":"hello\\nyou"}') == "hello"
    assert agent.progress('{"problem":{"text":"no"}}') == "✗ no"
    assert agent.progress('{"id":"s1"}') == ""


def test_a_pattern_makes_an_error_of_a_line_whatever_the_exit_status() -> None:
    cli = AgentCli(name="mine", error_patterns=(r"^litellm\.\w+Error",))
    agent = CliAgent(cli, {})
    assert agent.interpret(Exit(0, None, 1, "all well\n")).failure is None
    result = agent.interpret(Exit(0, None, 1, "hm\nlitellm.RateLimitError: rate limited\nbye\n"))
    assert result.failure is not None
    assert (result.failure.kind, result.exit_code) == (K.PROVIDER_RATE_LIMITED, 1)


def test_failure_patterns_of_a_description_take_precedence() -> None:
    cli = AgentCli(name="mine", failures={"rate limited": K.PROVIDER_QUOTA})
    failure = CliAgent(cli, {}).interpret(Exit(1, None, 1, "rate limited\n")).failure
    assert failure is not None
    assert failure.kind is K.PROVIDER_QUOTA


def test_a_cli_with_the_format_of_another_is_read_like_it() -> None:
    stream = (Path(__file__).parent / "streams/claude/text.jsonl").read_text()
    cli = AgentCli(name="mine", output="claude")
    assert CliAgent(cli, {}).interpret(Exit(0, None, 1, stream)).output == "Just text."
    config = {"program": "mine", "output": "claude"}
    assert InlineCli({}).interpret(Exit(0, None, 1, stream, config=config)).output == "Just text."
