"""The command provider: the contract, and how prompt, environment and program reach the agent."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.fake_clis import leaving_code

from agentforge.adapters.cli_agents.program import MAX_ARGUMENT_BYTES
from agentforge.adapters.providers.command import CommandProvider
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import FailureKind
from agentforge.ports.provider import ExecuteRequest, Provider
from agentforge.testing.provider_contract import LeaveArtifacts, MakeRequest, ProcessProviderContract, run

ECHO_PROMPT = [sys.executable, "-c", "import sys; print('got', repr(sys.stdin.read()))"]
SHOW_LAST = [sys.executable, "-c", "import sys; print('got', repr(sys.argv[-1]))"]
WRITE_RESULT = """printf '{"summary": "%s"}' "$WHO" > "$AGENTFORGE_RESULT"; echo written"""


class TestCommandContract(ProcessProviderContract):
    @pytest.fixture
    def provider(self, secret_values: tuple[str, ...]) -> Provider:
        return CommandProvider({**os.environ, "SOME_API_KEY": secret_values[0]})

    @pytest.fixture
    def secret_values(self) -> tuple[str, ...]:
        return ("some-key-0123456789",)

    @pytest.fixture
    def config(self) -> dict[str, Any]:
        return {"run": WRITE_RESULT}

    @pytest.fixture
    def slow_config(self) -> dict[str, Any]:
        # With a child of its own, which must go too.
        return {"run": "sleep 300 & sleep 300; wait"}

    @pytest.fixture
    def leaving(self, provider: Provider) -> LeaveArtifacts:
        def command(*artifacts: Any) -> tuple[Provider, dict[str, Any]]:
            return provider, {"argv": [sys.executable, "-I", "-S", "-c", leaving_code(*artifacts)]}

        return command


class TestNamedCommandContract(ProcessProviderContract):
    """A program registered under a name of its own, without any config in the stage."""

    @pytest.fixture
    def provider(self) -> Provider:
        return CommandProvider(name="my-agent", config={"argv": ECHO_PROMPT})

    @pytest.fixture
    def slow_config(self) -> dict[str, Any]:
        return {"argv": ["sleep", 300]}


@pytest.fixture
def request_for(tmp_path: Path) -> MakeRequest:
    def make(config: dict[str, Any], **fields: Any) -> ExecuteRequest:
        given: dict[str, Any] = {
            "prompt": "Say é",
            "model": "",
            "workdir": str(tmp_path),
            "environment": {},
            "status_path": str(tmp_path / "status.json"),
            "result_path": str(tmp_path / "result.json"),
        }
        return ExecuteRequest(config=config, **{**given, **fields})

    return make


def output_of(request: ExecuteRequest) -> str:
    result = run(CommandProvider().execute(request))
    assert result.failure is None, result.failure
    return result.output


def test_the_prompt_is_passed_on_stdin_by_default(request_for: MakeRequest) -> None:
    assert output_of(request_for({"argv": ECHO_PROMPT})) == "got 'Say é'\n"


def test_the_prompt_as_last_argument(request_for: MakeRequest) -> None:
    assert output_of(request_for({"argv": SHOW_LAST, "prompt": "argument"})) == "got 'Say é'\n"


def test_the_prompt_as_first_argument_of_a_shell_line(request_for: MakeRequest) -> None:
    text = output_of(request_for({"run": 'echo "<$1>"', "prompt": "argument"}, prompt="$(id) 'x'"))
    assert text == "<$(id) 'x'>\n"


@pytest.mark.parametrize("config", [{"argv": ["cat", "{prompt}"]}, {"run": "cat {prompt}"}])
def test_the_prompt_as_a_file(request_for: MakeRequest, tmp_path: Path, config: dict[str, Any]) -> None:
    prompt = tmp_path / "the prompt; it's here.md"
    prompt.write_text("from a file")
    request = request_for({**config, "prompt": "file"}, prompt_path=str(prompt))
    assert output_of(request) == "from a file"


def test_no_prompt(request_for: MakeRequest) -> None:
    assert output_of(request_for({"argv": ECHO_PROMPT, "prompt": "none"})) == "got ''\n"


def test_a_program_that_ignores_its_prompt_succeeds(request_for: MakeRequest) -> None:
    assert output_of(request_for({"run": "echo done"}, prompt="x" * 1_000_000)) == "done\n"


def test_both_streams_are_captured_in_order(request_for: MakeRequest) -> None:
    assert output_of(request_for({"run": "echo a; echo b >&2; echo c"})) == "a\nb\nc\n"


def test_a_background_process_does_not_hold_up_the_end(request_for: MakeRequest, tmp_path: Path) -> None:
    pid = int(output_of(request_for({"run": "sleep 300 & echo $!"})))
    assert pid > 1
    os.kill(pid, 9)  # Raises if it has ended.


def test_environment_precedence(request_for: MakeRequest) -> None:
    provider = CommandProvider(
        {"PATH": os.environ["PATH"], "A": "inherited", "B": "inherited", "C": "inherited"}
    )
    request = request_for(
        {"run": "true", "env": {"C": "stage", "PORT": 8080, "FLAG": True}},
        environment={"B": "engine", "C": "engine"},
    )
    environment = provider.command(request).env
    assert [environment[name] for name in ("A", "B", "C", "PORT", "FLAG")] == [
        "inherited",
        "engine",
        "stage",
        "8080",
        "true",
    ]
    assert environment["AGENTFORGE_RESULT"] == request.result_path
    assert environment["AGENTFORGE_STATUS"] == request.status_path


SURROUNDINGS = {
    "PATH": os.environ["PATH"],
    "EDITOR": "vi",
    "MY_API_KEY": "key-0123456789",
    "MY_URL": "http://127.0.0.1/",
}


@pytest.mark.parametrize(
    ("config", "inherited"),
    [
        ({}, {"EDITOR", "MY_API_KEY", "MY_URL"}),
        ({"env": {"OWN": "1"}}, {"OWN", "EDITOR", "MY_API_KEY", "MY_URL"}),
        ({"env": "declared"}, set()),
        ({"env": "declared", "pass_env": ["EDITOR"]}, {"EDITOR"}),
        ({"pass_env": ["MY_*"]}, {"MY_API_KEY", "MY_URL"}),
        ({"pass_env": []}, set()),
        ({"pass_env": ["MY_URL"], "env": {"OWN": "1"}}, {"MY_URL", "OWN"}),
    ],
)
def test_environment_passed_to_the_program(
    request_for: MakeRequest, config: dict[str, Any], inherited: set[str]
) -> None:
    command = CommandProvider(SURROUNDINGS).command(request_for({"run": "true", **config}))
    assert command.env.keys() == {"PATH", "AGENTFORGE_RESULT", "AGENTFORGE_STATUS"} | inherited
    assert command.secrets == ("key-0123456789",)


def test_a_program_whose_environment_is_declared_sees_no_other_variable(request_for: MakeRequest) -> None:
    request = request_for({"run": 'echo "<$MY_API_KEY>"', "env": "declared"})
    assert run(CommandProvider(SURROUNDINGS).execute(request)).output == "<>\n"


def test_the_agent_finds_the_result_path_in_its_environment(request_for: MakeRequest) -> None:
    request = request_for({"run": WRITE_RESULT, "env": {"WHO": "me"}})
    assert output_of(request) == "written\n"
    assert json.loads(Path(request.result_path).read_text()) == {"summary": "me"}


def test_a_nonzero_exit_is_left_to_the_engine(request_for: MakeRequest) -> None:
    result = run(CommandProvider().execute(request_for({"run": "echo broken; exit 3"})))
    assert (result.exit_code, result.failure, result.output) == (3, None, "broken\n")


def test_an_exit_by_signal_counts_from_128(request_for: MakeRequest) -> None:
    result = run(CommandProvider().execute(request_for({"run": "kill -9 $$"})))
    assert result.exit_code == 137


def test_a_missing_program_is_provider_missing_with_install_guidance(request_for: MakeRequest) -> None:
    request = request_for({"argv": ["no-such-agent"]})
    with pytest.raises(ProviderUnusable, match="'no-such-agent' not found in PATH"):
        CommandProvider().command(request)
    failure = run(CommandProvider().execute(request)).failure
    assert failure is not None
    assert failure.kind is FailureKind.PROVIDER_MISSING
    assert "install it" in failure.message


def test_validate_checks_the_program_of_a_named_command() -> None:
    with pytest.raises(ProviderUnusable, match="no-such-agent"):
        CommandProvider(name="mine", config={"argv": ["no-such-agent"]}).validate()
    CommandProvider(name="mine", config={"argv": ["sh"]}).validate()
    CommandProvider().validate()


def test_a_relative_program_is_looked_up_in_the_workdir(request_for: MakeRequest, tmp_path: Path) -> None:
    agent = tmp_path / "bin" / "agent.sh"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\necho from the workdir\n")
    agent.chmod(0o755)
    assert output_of(request_for({"argv": ["./bin/agent.sh"]})) == "from the workdir\n"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "either `argv` or `run`"),
        ({"argv": ["sh"], "run": "true"}, "not both"),
        ({"argv": "sh -c true"}, "`argv` must be a list, not text"),
        ({"run": "true", "prompt": "pigeon"}, "`prompt` can't be 'pigeon'"),
        ({"run": "true", "env": "none"}, "`env` "),
        ({"run": "true", "pass_env": "HOME"}, "`pass_env` must be a list, not text"),
        ({"argv": ["cat"], "prompt": "file"}, r"\{prompt\}"),
        ({"argv": ["cat", "{prompt}"], "prompt": "file"}, "has no prompt file"),
    ],
)
def test_a_wrong_config_names_the_key(request_for: MakeRequest, config: dict[str, Any], says: str) -> None:
    with pytest.raises(ProviderUnusable, match=says):
        CommandProvider().command(request_for(config))


@pytest.mark.parametrize("prompt", ["x" * (MAX_ARGUMENT_BYTES + 1), "a\0b"])
def test_a_prompt_too_long_for_an_argument_is_rejected(request_for: MakeRequest, prompt: str) -> None:
    with pytest.raises(ProviderUnusable) as refusal:
        CommandProvider().command(request_for({"argv": ["echo"], "prompt": "argument"}, prompt=prompt))
    assert "prompt: stdin" in refusal.value.hint


def test_the_longest_prompt_that_an_argument_holds(request_for: MakeRequest) -> None:
    request = request_for({"argv": ["echo"], "prompt": "argument"}, prompt="x" * MAX_ARGUMENT_BYTES)
    assert len(output_of(request)) == MAX_ARGUMENT_BYTES + 1


def test_unknown_config_keys_are_warned_about_and_misspelled_ones_refused() -> None:
    provider = CommandProvider()
    assert provider.validate_settings("", {"run": "true", "colour": "red", "x-mine": 1}) == [
        "provider command: unknown config key `colour` is ignored (known: argv, env, pass_env, prompt, run)"
    ]
    with pytest.raises(ProviderUnusable, match="unknown config key `pasenv`") as refusal:
        provider.validate_settings("", {"run": "true", "pasenv": []})
    assert refusal.value.hint == "did you mean `pass_env`?"
