"""docs/json-output.md: every documented key is there, and every key that is there is documented."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.surface.terminal import Project, wait_for

PAGE = (Path(__file__).resolve().parents[2] / "docs/json-output.md").read_text(encoding="utf-8")
WRITES = 'cat > /dev/null; echo \'{"summary":"done"}\' > "$AGENTFORGE_RESULT"'
PIPELINE = f"""\
name: p
nodes:
  - {{id: a, prompt: x, runs: 1, provider: {{type: command, run: {json.dumps(WRITES)}}}}}
"""


def documented() -> dict[str, list[str]]:
    """The keys of each command that the table names."""
    found = {}
    for line in PAGE.splitlines():
        if line.startswith("| `"):
            commands, keys = line.strip("| ").split(" | ", 1)
            for command in re.findall(r"`([^`]+)`", commands):
                found[command] = re.findall(r"`([^` ]+)`", keys)
    return found


TABLE = documented()


def top(keys: list[str]) -> set[str]:
    return {key.removeprefix("[].").split(".")[0].removesuffix("[]") for key in keys}


def values_at(value: Any, path: str) -> Iterator[Any]:
    """What is found at `a[].b`; raises KeyError where it is missing."""
    name, _, rest = path.partition(".")
    if name.endswith("[]"):
        items = value[name[:-2]] if name != "[]" else value
        for item in items:
            yield from values_at(item, rest)
    else:
        found = value[name]
        if rest and found is not None:
            yield from values_at(found, rest)
        else:
            yield found


def is_found(value: Any, path: str) -> bool:
    try:
        list(values_at(value, path))
    except KeyError:
        return False
    return True


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("json"))
    subprocess.run(["git", "init", "-q", str(made.root)], check=True, env=made.env)
    made.stage("work", "delay: 0\n")
    (made.root / "p.yaml").write_text(PIPELINE)
    assert made.call("run", "-p", "p.yaml", "-s", "one", "--record").code == 0
    (made.root / "checked.yaml").write_text(
        PIPELINE.replace("runs: 1", "runs: 1, checks: [{name: test, run: 'true'}]")
    )
    assert made.call("run", "-p", "checked.yaml", "-s", "checked").code == 0
    (made.root / "asks.yaml").write_text(PIPELINE.replace("runs: 1", "runs: 1, approve: true"))
    assert made.call("run", "-p", "asks.yaml", "-s", "asks").code == 0
    return made


COMMANDS = {
    "run": ["run", "-p", "p.yaml", "-s", "two"],
    "replay": ["replay", "one", "-s", "three"],
    "pipeline --foreground": ["pipeline", "p.yaml", "four", "--foreground"],
    "status": ["status", "one"],
    "list": ["list"],
    "top": ["top"],
    "tail": ["tail", "one", "1", "--no-follow"],
    "show": ["show", "one"],
    "show SESSION STAGE": ["show", "one", "a"],
    "diff": ["diff", "one"],
    "checks": ["checks", "checked"],
    "history": ["history", "one"],
    "hooks": ["hooks", "one"],
    "log verify": ["log", "verify", "one"],
    "inbox": ["inbox"],
    "inbox show": ["inbox", "show", "asks"],
    "lint": ["lint"],
    "dry-run": ["dry-run", "pipeline", "p.yaml"],
    "graph": ["graph", "p.yaml"],
    "stages": ["stages"],
    "pipelines": ["pipelines"],
    "providers": ["providers"],
    "doctor": ["doctor"],
    "init": ["init"],
    "completion": ["completion", "fish"],
    "replay --check": ["replay", "one", "--check"],
    "migrate check": ["migrate", "check"],
    "version": ["version"],
    "clean": ["clean", "--older-than", "1d", "--yes"],
    "clean --dry-run": ["clean", "--older-than", "1d", "--dry-run"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_keys_of_a_command_are_those_of_the_page(project: Project, command: str) -> None:
    printed = project.call(*COMMANDS[command], "--json").out
    value = json.loads(printed.splitlines()[-1]) if command == "tail" else json.loads(printed)
    keys = TABLE[command]
    assert [key for key in keys if not is_found(value, key)] == []
    shown = value[0] if isinstance(value, list) else value
    assert set(shown) <= top(keys) | ({"plan"} if command == "dry-run" else set())
    assert set(shown) >= top(keys)


def test_keys_of_a_failed_and_of_a_resumed_run_are_those_of_the_page(project: Project) -> None:
    file = project.pipeline("a=exit 3", name="fails.yaml", extra="    retry: {max_attempts: 1}\n")
    assert set(project.call("run", "-p", file, "-s", "failing", "--json").json) == top(TABLE["run"])
    assert set(project.call("resume", "failing", "--json").json) == top(TABLE["resume"])


def test_keys_of_rm_are_those_of_the_page(project: Project) -> None:
    assert project.call("run", "-p", "p.yaml", "-s", "old").code == 0
    assert set(project.call("rm", "old", "--yes", "--json").json) == top(TABLE["rm"])


def test_keys_of_pause_and_cancel_are_those_of_the_page(project: Project) -> None:
    file = project.pipeline("a=touch up; while [ ! -e go ]; do sleep 0.02; done", name="slow.yaml")
    with project.started("run", "-p", file, "-s", "slow"):
        wait_for((project.root / "up").exists, "the agent")
        assert set(project.call("steer", "slow", "faster", "--json").json) == top(TABLE["steer"])
        assert set(project.call("pause", "slow", "--json").json) == top(TABLE["pause"])
        assert set(project.call("cancel", "slow", "--json").json) == top(TABLE["cancel"])
    project.end_agents()


@pytest.mark.parametrize(
    "arguments", [("status", "no-such-run"), ("run", "-p", "missing.yaml"), ("no-such-command",)]
)
def test_an_error_has_the_keys_of_the_page(project: Project, arguments: tuple[str, ...]) -> None:
    done = project.call(*arguments, "--json")
    assert done.code != 0
    assert {"code", "message"} <= set(done.json["error"]) <= {"code", "message", "hint", "diagnostics"}


def test_every_command_is_on_the_page() -> None:
    from agentforge.cli.main import COMMANDS as LISTED

    named = {command.split()[0] for command in TABLE}
    assert set(LISTED) - named == {"demo", "help", "log"} - named
