"""The request of `agentforge run -p PIPELINE REQUEST`: where it comes from, and what is refused."""

import json
import subprocess
import sys

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

NODE = {"id": "a", "prompt": "${REQUEST}", "delay": 0, "provider": {"type": "command", "run": WRITE_RESULT}}
TAKES = {"request": "required", "name": "change", "nodes": [NODE]}


@pytest.fixture
def file(project: Project) -> str:
    (project.root / "change.yaml").write_text(json.dumps(TAKES))
    return "change.yaml"


def asked(project: Project, session: str = "s") -> str:
    return str(project.events(session)[0]["data"]["user_request"])


def test_the_request_is_an_argument_an_option_or_stdin(project: Project, file: str) -> None:
    assert project.call("run", "-p", file, "-s", "one", "add a function").code == 0
    assert project.call("run", "-p", file, "-s", "two", "--request", "add a function").code == 0
    assert project.call("pipeline", "--foreground", "--request=add a function", file, "three").code == 0
    line = [sys.executable, "-m", "agentforge", "run", "-p", file, "-s", "four", "-"]
    done = subprocess.run(
        line,
        cwd=project.root,
        env=project.environment(),
        input=b"add a function\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {asked(project, name) for name in ("one", "two", "three", "four")} == {"add a function"}


@pytest.mark.parametrize(
    ("arguments", "why", "hint"),
    [
        (("-p", "change.yaml"), "the pipeline 'change' needs a user request", "say what you want"),
        (("-p", "loop"), "the pipeline 'loop' needs a user request", 'agentforge run -p loop "…"'),
        (("-p", "change.yaml", " "), "the user request is empty", "say what you want"),
        (
            ("-p", "change.yaml", "change.yaml"),
            "names something to run",
            "run -p change.yaml` runs a pipeline",
        ),
        (("change.yaml",), "names something to run", "run -p change.yaml` runs a pipeline"),
        (("my change.yaml",), "names something to run", "run -p 'my change.yaml'` runs a pipeline"),
        (("-p", "change.yaml", "work"), "names something to run", "work` runs the stage of that name"),
        (("-p", "change.yaml", "x", "--request", "y"), "the request is given twice", ""),
        (("-p", "none.yaml", "x"), "takes no user request", "add `request: optional` to it"),
        ((), "nothing to run", 'run "Add a slugify function"`'),
        (
            ("x" * 80_000,),
            "the user request has 20,000 tokens; stage 'reviewer'",
            "put the details into files",
        ),
    ],
)
def test_what_is_not_a_request_is_refused_before_a_run_exists(
    project: Project, file: str, arguments: tuple[str, ...], why: str, hint: str
) -> None:
    (project.root / "my change.yaml").touch()
    (project.root / "none.yaml").write_text((project.root / file).read_text().replace("required", "none"))
    refused = project.call("run", *arguments, "-s", "s")
    assert (refused.code, refused.out) == (2, "")
    assert why in refused.err
    assert hint in refused.err
    assert not (project.root / ".claude" / "pipeline-runs" / "s").exists()


def test_dry_run_and_the_schema_know_the_key(project: Project, file: str) -> None:
    assert "- User request: required" in project.call("dry-run", file).out
    wrong = project.root / "wrong.yaml"
    wrong.write_text((project.root / file).read_text().replace("required", "always"))
    assert "hint: values: none, optional, required" in project.call("lint", "wrong.yaml").out
