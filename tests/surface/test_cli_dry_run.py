"""`agentforge dry-run`: what it takes for a name and what for a request, and the forecast that it shows."""

import json
import os

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

from agentforge.app.runs.forecast import MAX_LOG_BYTES
from agentforge.views.lines.forecast import INTRODUCTION, NOT_COUNTED

WORK = {"type": "command", "run": WRITE_RESULT}


def node(id: str, **more: object) -> dict[str, object]:
    return {
        "id": id,
        "prompt": "${REQUEST}",
        "delay": 0,
        "provider": WORK,
        "retry": {"max_attempts": 1},
        **more,
    }


@pytest.fixture
def file(project: Project) -> str:
    """A pipeline in which `verify` sends `build` back."""
    verify = node("verify", on={"fail": "build"}, checks=[{"name": "test", "run": "true", "timeout": 10}])
    nodes = [node("build", timeout=60, max_iteration_cost_usd=0.5), {**verify, "timeout": 30}]
    change = {"name": "change", "request": "optional", "nodes": nodes, "limits": {"cycles": 2}}
    (project.root / "change.yaml").write_text(json.dumps(change))
    return "change.yaml"


def shown(project: Project, *arguments: str) -> list[str]:
    done = project.call("dry-run", *arguments)
    assert done.code == int("## Not ready: the run would be refused" in done.lines), done.err
    return done.lines


def test_the_worst_case_follows_the_routes_and_earlier_runs_are_counted(project: Project, file: str) -> None:
    lines = shown(project, "-p", file, "Add a function")
    assert "- Request: Add a function" in lines
    assert lines[lines.index("## Worst case") :] == [
        "## Worst case",
        INTRODUCTION,
        "",
        "| stage  | visits | iterations | attempts |    time |     cost |",
        "| ------ | -----: | ---------: | -------: | ------: | -------: |",
        "| build  |      2 |          8 |        8 |  8m Ns |    $4.00 |",
        "| verify |      2 |          8 |        8 |  8m Ns | no bound |",
        "| all    |        |         16 |       16 | 16m Ns | no bound |",
        "",
        "- Exact, as a run can reach them: iterations, attempts; other numbers are upper bounds",
        "- Visits: also after routes back, rejections, and up to 10 restarts by hooks",
        "- Iterations: also 3 in each visit in which the agent asks questions",
        "- No bound for the cost: stage 'verify' with command: no cap; set `max_iteration_cost_usd`",
        "- Not enforced: stage 'build' with command: an attempt may spend more than its figure",
        f"- Not counted: {'; '.join(NOT_COUNTED)}",
        "",
        "## Earlier runs",
        "- None of this pipeline was completed in this project",
    ]
    for session in ("one", "two"):
        assert project.call("run", "-p", file, "-s", session).code == 0
    (project.run_dir("two") / "events.jsonl").write_text("not a log\n")
    assert project.call("run", "-p", file, "-s", "large").code == 0
    os.truncate(project.run_dir("large") / "events.jsonl", MAX_LOG_BYTES + 1)
    found = project.call("dry-run", file, "--json").json
    assert (found["earlier"]["runs"], found["earlier"]["seconds"]["runs"]) == (1, 1)
    assert found["worst_case"]["iterations"] == 16
    assert found["worst_case"]["exact"] == ["iterations", "attempts", "judgments"]


def test_the_options_of_run_count(project: Project, file: str) -> None:
    lines = shown(
        project, "-p", file, "-s", "mine", "--skip-check", "test", "--skip", "build", "--yes", "--force"
    )
    assert "- Session: mine" in lines
    assert "- Check: test is not run: it is skipped" in lines
    assert "| all    |        |          8 |        8 | 4m Ns | no bound |" in lines


def test_a_name_is_a_name_and_any_other_text_the_request(project: Project, file: str) -> None:
    project.stage("tidy", "description: tidies\n")
    (project.root / "plain").write_text((project.root / file).read_text())
    for name, first in (("tidy", "loop tidy"), (file, "pipeline change"), ("plain", "pipeline change")):
        assert shown(project, name)[0] == f"# Dry run: {first}"
    done = project.call("dry-run", "Add a slugify function")
    assert done.lines[0] == "# Dry run: pipeline loop"
    assert "- Request: Add a slugify function" in done.lines
    assert done.err == ""
    meant = project.call("dry-run", "tydy")
    assert "'tydy' names no pipeline and no stage, so it is the request; did you mean `tidy`?" in meant.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "nothing to show"),
        (("-p", "change.yaml", "add", "it"), "expected at most one REQUEST with -p, got 2 arguments"),
        (("-p", "change.yaml", "add it", "--request", "add it"), "the request is given twice"),
        (("change.yaml", "one", "-s", "two"), "the session is given twice"),
        (("tydy", "one"), "'tydy' is neither a pipeline nor a stage"),
        (("-p", "change.yaml", " "), "the user request is empty"),
        (("-p", "change.yaml", "--skip-check", "lint"), "the pipeline has no check 'lint'"),
    ],
)
def test_what_is_wrong_is_said(project: Project, file: str, arguments: tuple[str, ...], why: str) -> None:
    project.stage("tidy", "description: tidies\n")
    done = project.call("dry-run", *arguments)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
