"""docs/providers.md: its examples work, and its tables name what there is."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.adapters.fake_clis import STREAMS, put_cli, speaking
from tests.code_blocks import code_blocks

from agentforge.adapters.cli_agents.command_line import CliConfig
from agentforge.adapters.cli_agents.description import AgentCli, OutputFields
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import CliAgent
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.app.providers.described import described_provider
from agentforge.app.providers.offers import find_described
from agentforge.engine.decide.failure import ATTEMPTS_PER_KIND
from agentforge.model.failure import LIMITS
from agentforge.model.failure import FailureKind as K
from agentforge.ports.provider import ExecuteRequest, Exit
from agentforge.sdk.sync import SyncEngine

PAGE = (Path(__file__).resolve().parents[2] / "docs/providers.md").read_text()
SOURCE = Path(__file__).resolve().parents[2] / "src"
YAML = [block.text for block in code_blocks("docs/providers.md", "yaml")]
FILES = {
    found[1]: text for text in YAML if (found := re.match(r"# \.agentforge/providers/(\S+)\.yaml\n", text))
}


@pytest.fixture
def agents(tmp_path: Path) -> dict[str, CliAgent]:
    """The page's descriptions, in a project whose programs show how they are called."""
    folder = tmp_path / ".agentforge/providers"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text)
        put_cli(tmp_path / "bin", name)
    project, environ = str(tmp_path), {"PATH": str(tmp_path / "bin")}
    files = find_described(project).items()
    found = {name: described_provider(project, name, file, environ) for name, file in files}
    return {name: provider for name, provider in found.items() if isinstance(provider, CliAgent)}


def asked(folder: Path, model: str) -> ExecuteRequest:
    (folder / "prompt.md").write_text("Tidy up.")
    return ExecuteRequest(
        prompt="Tidy up.",
        model=model,
        config={},
        workdir=str(folder),
        environment={},
        status_path=str(folder / "status.json"),
        result_path=str(folder / "result.json"),
        prompt_path=str(folder / "prompt.md"),
    )


def test_described_providers_of_the_page_load(agents: dict[str, CliAgent]) -> None:
    assert sorted(agents) == ["aider", "careful", "goose"]


@pytest.mark.parametrize(
    ("name", "model", "words", "stdin"),
    [
        (
            "aider",
            "openai/m:high",
            "--yes-always --no-pretty --no-stream --no-check-update --no-analytics --no-show-release-notes"
            " --model openai/m --reasoning-effort high --message-file $/prompt.md",
            "",
        ),
        (
            "goose",
            "m",
            "run --no-session --with-builtin developer --output-format stream-json --model m -i -",
            "Tidy up.",
        ),
    ],
)
def test_aider_and_goose_are_called_as_described(
    agents: dict[str, CliAgent], tmp_path: Path, name: str, model: str, words: str, stdin: str
) -> None:
    command = agents[name].command(asked(tmp_path, model))
    assert list(command.argv[1:]) == words.replace("$", str(tmp_path)).split()
    assert command.stdin == stdin


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("Applied edit to a.py\nTokens: 1k sent\n", None),
        (
            "litellm.AuthenticationError: wrong key\nThe API provider can't authenticate you.\n",
            K.PROVIDER_AUTH,
        ),
        ("litellm.RateLimitError: slow\nRetrying in 0.2 seconds...\nDone.\nTokens: 1k sent\n", None),
        (
            "litellm.RateLimitError: a\nRetrying in 32.0 s\nlitellm.RateLimitError: b\n",
            K.PROVIDER_RATE_LIMITED,
        ),
        ("litellm.InternalServerError: high demand\n", K.PROVIDER_OVERLOADED),
    ],
)
def test_errors_of_aider_are_found_though_it_exits_with_0(
    agents: dict[str, CliAgent], output: str, kind: K | None
) -> None:
    failure = agents["aider"].interpret(Exit(0, None, 1, output)).failure
    assert (failure.kind if failure else None) == kind


def test_recorded_goose_is_read_as_described(agents: dict[str, CliAgent]) -> None:
    result = agents["goose"].interpret(
        Exit(0, None, 1, (STREAMS / "goose/usage.jsonl").read_text(), model="m")
    )
    assert (result.failure, result.output) == (None, "All done: hello.txt and result.json are written.")
    assert result.usage is not None
    used = result.usage
    assert (used.input_tokens, used.output_tokens, used.cached_tokens, used.model) == (3000, 150, 1200, "m")


@pytest.mark.parametrize(
    ("case", "code", "kind"), [("err401", 1, K.PROVIDER_AUTH), ("err429", 0, K.PROVIDER_RATE_LIMITED)]
)
def test_recorded_failures_of_goose_are_distinguished(
    agents: dict[str, CliAgent], case: str, code: int, kind: K
) -> None:
    failure = (
        agents["goose"].interpret(Exit(code, None, 1, (STREAMS / f"goose/{case}.jsonl").read_text())).failure
    )
    assert failure is not None
    assert failure.kind is kind


def test_a_description_inherits_omitted_keys(agents: dict[str, CliAgent]) -> None:
    careful = agents["careful"].cli
    assert careful.arguments == CLAUDE.arguments
    assert (careful.name, careful.program_name, careful.retries) == ("careful", "claude", 1)


def test_the_python_example_runs(tmp_path: Path) -> None:
    code, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    put_cli(tmp_path / "bin", "my-agent", speaking("claude"))
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(SOURCE),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "completed"), done.stderr


def test_the_provider_inside_the_engine_runs(tmp_path: Path) -> None:
    _, code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    with SyncEngine(tmp_path, providers={"shouting": names["Shouting"]()}, environ={}) as engine:
        made = {"nodes": [{"id": "a", "prompt": "tidy up", "provider": "shouting", "runs": 3, "delay": 0}]}
        result = engine.run(made, session="s")
    assert (result.completed, result.iterations) == (True, 1)
    written = tmp_path / ".claude/pipeline-runs/s/stage-00-a/iterations/001/output.md"
    assert written.read_text() == "TIDY UP\n"


# -- what the tables name


@pytest.mark.parametrize("kind", [AgentCli, OutputFields, CliConfig])
def test_every_key_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    names = {field.encode_name for field in msgspec.structs.fields(kind)} - {"name"}
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("cli", [CLAUDE, CODEX, OPENCODE, GEMINI], ids=lambda cli: cli.name)
def test_the_table_of_the_four_is_true(cli: AgentCli) -> None:
    assert f"`{cli.install}`" in PAGE
    assert f"`{' '.join(cli.permission_arguments)}`" in PAGE
    told = {
        *cli.environment,
        *cli.root_environment,
        *cli.retry_variables,
        cli.model_variable,
        cli.timeout_variable,
    }
    assert [name for name in sorted(told - {""}) if f"`{name}`" not in PAGE] == []
    assert all(f"`{effort}`" in PAGE for effort in cli.efforts)
    first = " ".join([cli.name, *cli.arguments]).partition(" -c ")[0]
    assert f"`{first}`" in PAGE


def test_the_table_of_failures_is_true() -> None:
    rows = dict(
        re.findall(
            r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", PAGE.partition("## When it fails")[2], re.MULTILINE
        )
    )
    of_providers = {kind for kind in K if kind.value.startswith("provider_")}
    assert {K(name) for name in rows} == of_providers | {
        K.ITERATION_TIMEOUT,
        K.PERMISSION_DENIED,
        K.AGENT_LIMIT,
        K.CAP_REACHED,
        K.OUTPUT_UNREADABLE,
    }
    for name, happens in rows.items():
        kind = K(name)
        assert happens.startswith("retried") == (kind in ATTEMPTS_PER_KIND), name
        assert (happens.startswith("waits") or happens == "the same") == (kind in LIMITS), name
