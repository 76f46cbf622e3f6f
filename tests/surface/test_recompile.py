"""Pinned plans: a resumed run keeps its own and says when the file changed; --recompile takes the new one."""

import json
import signal
from typing import Any

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

FAILS = "exit 3"
ONCE = "    retry: {max_attempts: 1}\n"


def plan_of(project: Project, session: str = "auth") -> Any:
    return json.loads((project.run_dir(session) / "plan.json").read_text())


def failed(project: Project, *stages: str) -> str:
    """A run whose last stage failed."""
    file = project.pipeline(*stages, f"build={FAILS}", extra=ONCE)
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    return file


def test_resume_keeps_the_pinned_plan_and_warns_that_the_file_changed(project: Project) -> None:
    file = failed(project)
    before = plan_of(project)
    project.pipeline(f"build={WRITE_RESULT}", extra=ONCE)
    done = project.call("resume", "auth")
    assert done.code == 1
    assert any(f"{file} changed since session 'auth' was compiled" in text for text in done.logged("WARN"))
    assert plan_of(project) == before
    assert "plan_changed" not in project.types("auth")


def test_resume_does_not_warn_about_an_unchanged_file(project: Project) -> None:
    failed(project)
    assert not any("changed since" in text for text in project.call("resume", "auth").logged("WARN"))


@pytest.mark.parametrize(
    "form", [("resume", "auth"), ("pipeline", "p.yaml", "auth", "--resume", "--foreground")]
)
def test_recompile_continues_with_the_current_file(project: Project, form: tuple[str, ...]) -> None:
    failed(project, f"plan={WRITE_RESULT}")
    project.pipeline(f"plan={WRITE_RESULT}", f"build*2={WRITE_RESULT}", f"check={WRITE_RESULT}", extra=ONCE)
    done = project.call(*form, "--recompile")
    assert done.code == 0, done.err
    types = project.types("auth")
    assert types.count("plan_changed") == 1
    assert types.index("plan_changed") < types.index("session_resumed")
    assert types.count("iteration_complete") == 4
    assert [node["id"] for node in plan_of(project)["nodes"]] == ["plan", "build", "check"]
    assert (project.run_dir("auth") / "pipeline.yaml").read_text() == (project.root / "p.yaml").read_text()
    assert project.call("log", "verify", "auth").code == 0
    status = project.call("status", "auth", "--json").json
    assert [stage["completed"] for stage in status["stages"]] == [1, 2, 1]


def test_recompile_continues_the_visit_of_a_node_that_moved(project: Project) -> None:
    failed(project, f"plan={WRITE_RESULT}")
    project.pipeline(f"first={WRITE_RESULT}", f"plan={WRITE_RESULT}", f"build={WRITE_RESULT}", extra=ONCE)
    assert project.call("resume", "auth", "--recompile").code == 0
    assert (project.run_dir("auth") / "stage-01-build" / "iterations" / "001" / "result.json").exists()
    started = [event["data"].get("name") for event in project.events("auth") if event["type"] == "node_start"]
    assert started == ["plan", "build"]


def test_recompile_is_refused_when_the_current_node_is_gone(project: Project) -> None:
    failed(project, f"plan={WRITE_RESULT}")
    before = project.types("auth")
    project.pipeline(f"plan={WRITE_RESULT}", f"other={WRITE_RESULT}")
    done = project.call("resume", "auth", "--recompile")
    assert done.code == 1
    assert "the current node 'build' is no longer in p.yaml" in done.err
    assert "resume without --recompile" in done.err
    assert project.types("auth") == before
    assert [node["id"] for node in plan_of(project)["nodes"]] == ["plan", "build"]


def test_recompile_with_a_mistake_in_the_file_changes_nothing(project: Project) -> None:
    file = failed(project)
    (project.root / file).write_text("nodes: [\n")
    assert project.call("resume", "auth", "--recompile").code == 2
    assert project.state("auth")["status"] == "failed"


def test_recompile_takes_new_overrides_and_keeps_the_old(project: Project) -> None:
    shell = f"cat >/dev/null; touch up; while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}"
    provider = json.dumps({"type": "command", "run": shell})
    project.stage("tidy", f"delay: 0\nprovider: {provider}\n")
    with project.started("tidy", "a", "9", "--foreground", "--context=brief", "--model=m1") as run:
        wait_for((project.root / "up").exists, "the agent")
        run.signal(signal.SIGINT)
        wait_for(lambda: "pause_requested" in project.types("a"), "the request to pause")
        (project.root / "go").touch()
        assert run.end().code == 130
    refused = project.call("tidy", "a", "--resume", "--foreground", "--model=m2")
    assert refused.code == 2
    assert "a resumed run keeps its plan: use --recompile with --model" in refused.err
    refused = project.call("tidy", "a", "--resume", "--foreground", "--provider-config", "timeout=5")
    assert refused.code == 2
    assert "a resumed run keeps its plan: use --recompile with --provider-config" in refused.err
    done = project.call("tidy", "a", "3", "--resume", "--foreground", "--recompile", "--model=m2")
    assert done.code == 0, done.err
    assert plan_of(project, "a")["pipeline"]["overrides"] == {
        "context": "brief",
        "model": "m2",
        "max_iterations": 3,
    }
    assert project.types("a").count("iteration_complete") == 3


def test_resume_with_another_maximum_warns_that_the_plan_is_kept(project: Project) -> None:
    project.stage("tidy", "delay: 0\nretry: {max_attempts: 1}\nprovider: {type: command, run: exit 3}\n")
    assert project.call("tidy", "a", "2", "--foreground").code == 1
    done = project.call("tidy", "a", "5", "--resume", "--foreground")
    assert "The run keeps its plan (2, not 5): use --recompile to change it." in done.err


def test_recompile_of_a_new_session_is_what_happens_anyway(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("pipeline", file, "auth", "--recompile", "--foreground").code == 0
    assert "plan_changed" not in project.types("auth")


def test_plan_file_is_restored_from_the_log(project: Project) -> None:
    """A crash between the files of a new plan and its event leaves plan.json ahead of the log."""
    failed(project)
    before = plan_of(project)
    (project.run_dir("auth") / "plan.json").write_text('{"nodes": []}')
    project.call("resume", "auth")
    assert plan_of(project) == before


def test_node_that_was_moved_before_the_current_one_is_named_as_skipped(project: Project) -> None:
    failed(project)
    project.pipeline(*(f"{name}={WRITE_RESULT}" for name in ("new", "build", "last")), extra=ONCE)
    done = project.call("resume", "auth", "--recompile")
    assert done.code == 0, done.err
    assert "skipped without having been run, because the run has already reached 'build': 'new'" in done.err
    status = project.call("status", "auth").out
    assert "Outcome: 2 stages completed, 1 skipped" in status
    stages = json.loads(project.call("status", "auth", "--json").out)["stages"]
    assert [(stage["id"], stage["mark"]) for stage in stages] == [
        ("new", "skipped"),
        ("build", "done"),
        ("last", "done"),
    ]
    assert "skipped=new" in project.call("tail", "auth").out


def test_logs_of_a_run_that_is_recompiled_in_another_order_name_the_current_stage(project: Project) -> None:
    file = project.pipeline(f"a={WRITE_RESULT}", f"b={FAILS}", extra=ONCE)
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    project.pipeline(f"b={WRITE_RESULT}", f"a={WRITE_RESULT}", extra=ONCE)
    done = project.call("resume", "auth", "--recompile", "--json")
    logged = [json.loads(line) for line in done.err.splitlines()]
    changed, resumed = ([one for one in logged if one.get("event_type") == name] for name in CHANGES)
    assert [one["stage"] for one in (*changed, *resumed)] == ["b", "b"]


CHANGES = ("plan_changed", "session_resumed")
