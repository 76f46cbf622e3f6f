"""`status`, `list` and `tail` start fast because they load little."""

import os
import subprocess
import sys

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

HEAVY = (
    "asyncio",
    "rich",
    "yaml",
    "subprocess",
    "tempfile",
    "pathlib",
    "logging",
    "difflib",
    "traceback",
    "urllib.parse",
    "agentforge.model.cassette",
    "agentforge.sdk.engine",
    "agentforge.runtime.driver",
    "agentforge.engine.decide.run",
    "agentforge.definition.compiler",
    "agentforge.adapters.providers",
)

SCRIPT = """
import sys
from agentforge.cli.main import call
code = call(sys.argv[2:])
loaded = [name for name in sys.argv[1].split(",") if name in sys.modules]
sys.exit(f"loaded: {loaded}" if loaded else code)
"""


SCHEMAS = ("jsonschema_rs", "agentforge.tool_loop")
"""What few commands need, also of those that run pipelines."""


def loading(project: Project, names: tuple[str, ...], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own, which fails if it loads one of these modules."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, ",".join(names), *arguments],
        cwd=project.root,
        env=project.environment({"PATH": os.environ["PATH"]}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments", [("status", "auth"), ("list",), ("tail", "auth", "--no-follow"), ("version",)]
)
def test_read_only_commands_load_no_engine(project: Project, arguments: tuple[str, ...]) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0
    done = loading(project, (*HEAVY, *SCHEMAS), *arguments)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_probe_would_notice(project: Project) -> None:
    assert "loaded: " in loading(project, HEAVY, "recover").stderr


PLAN = """\
name: plan
nodes:
  - id: plan
    prompt: do it
    runs: 1
    provider: {type: command, run: 'echo "{}" > "$AGENTFORGE_RESULT"; echo "{}" > "$AGENTFORGE_ARTIFACT"'}
"""


def test_only_runs_with_artifacts_load_schemas(project: Project) -> None:
    (project.root / "p.yaml").write_text(PLAN.replace("$AGENTFORGE_ARTIFACT", "made"))
    done = loading(project, SCHEMAS, "run", "-p", "p.yaml", "-s", "plain")
    assert done.returncode == 0, done.stderr
    (project.root / "p.yaml").write_text(f"{PLAN}    artifact: {{type: object}}\n")
    done = loading(project, SCHEMAS, "run", "-p", "p.yaml", "-s", "checked")
    assert "loaded: ['jsonschema_rs']" in done.stderr, "the probe would notice"
    for arguments in (("status", "checked"), ("list",), ("show", "checked")):
        assert loading(project, SCHEMAS, *arguments).returncode == 0, arguments
