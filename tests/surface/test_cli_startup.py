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


@pytest.mark.parametrize(
    "arguments", [("status", "auth"), ("list",), ("tail", "auth", "--no-follow"), ("version",)]
)
def test_read_only_commands_load_no_engine(project: Project, arguments: tuple[str, ...]) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ",".join(HEAVY), *arguments],
        cwd=project.root,
        env=project.environment({"PATH": os.environ["PATH"]}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_probe_would_notice(project: Project) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ",".join(HEAVY), "recover"],
        cwd=project.root,
        env=project.environment({"PATH": os.environ["PATH"]}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "loaded: " in done.stderr
