"""`--skip` on the command line: a person leaves out a stage, and says why."""

import json
import os
import pwd

from tests.surface.terminal import WRITE_RESULT, Project

USER = pwd.getpwuid(os.getuid()).pw_name
LEAVE = 'echo \'{"steps": ["a"]}\' > "$AGENTFORGE_ARTIFACT"; ' + WRITE_RESULT
NODES = [
    {"id": "plan", "run": LEAVE, "artifact": {"schema": {"type": "object", "required": ["steps"]}}},
    {"id": "build", "run": WRITE_RESULT, "termination": {"type": "items", "from": "plan.steps"}},
    {"id": "verify", "run": "exit 9", "retry": {"max_attempts": 1}, "on": {"fail": "build"}},
]
WHY = ("--reason", "verified by hand")


def pipeline(project: Project, **changed: str) -> str:
    """`changed`: what stages run."""
    nodes = []
    for node in map(dict, NODES):
        node["run"] = changed.get(str(node["id"]), node["run"])
        work = {"type": "command", "run": node.pop("run")}
        nodes.append({**node, "prompt": "do it", "delay": 0, "provider": work})
    text = json.dumps({"name": "p", "require": ["plan", "verify"], "nodes": nodes})
    (project.root / "p.yaml").write_text(text)
    return "p.yaml"


def test_a_run_without_a_stage_shows_who_skipped_it(project: Project) -> None:
    file = pipeline(project)
    done = project.call("run", "-p", file, "-s", "auth", "--skip", "verify", *WHY)
    assert done.code == 0
    assert f"stage verify was waived by {USER}: verified by hand" in done.out
    assert f"verify skipped by {USER}: verified by hand" in done.out
    assert f"  Waived: stage verify by {USER}: verified by hand" in done.lines
    status = project.call("status", "auth")
    assert f"Verdict: verify: skipped by {USER}" in status.lines
    assert "Outcome: 2 stages completed, 1 skipped" in status.lines
    history = project.call("show", "auth", "--history")
    assert f"! verify, visit 1: skipped by {USER}" in history.lines
    waiver = {"check": "", "stage": "verify", "reason": "verified by hand", "by": USER}
    shown = project.call("show", "auth", "--history", "--json").json
    assert shown["waivers"] == [waiver]
    assert "skipped=verify" in project.call("tail", "auth").out


def test_a_run_that_failed_is_resumed_without_the_stage(project: Project) -> None:
    file = pipeline(project)
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    done = project.call("resume", "auth", "--skip", "verify", *WHY)
    assert done.code == 0, done.err
    assert project.types("auth").count("waived") == 1
    assert project.types("auth")[-1] == "session_complete"


def test_a_stage_is_not_needed_by_one_that_was_skipped_before(project: Project) -> None:
    file = pipeline(project, plan="exit 9")
    first = ("--skip", "build", "--skip", "verify", *WHY)
    assert project.call("run", "-p", file, "-s", "auth", *first).code == 1
    done = project.call("resume", "auth", "--skip", "plan", *WHY)
    assert done.code == 0, done.err


def test_what_cannot_be_skipped_says_what_to_do(project: Project) -> None:
    file = pipeline(project)
    for arguments, message, hint in (
        (["--skip", "verify"], "--skip needs --reason TEXT", ""),
        (["--skip", "verfy", *WHY], "the pipeline has no stage 'verfy'", "stages: build, plan, verify"),
        (
            ["--skip", "plan", *WHY],
            "stage 'plan' can't be skipped: 'build' needs the field 'steps' of its artifact",
            "with it in --artifact FILE",
        ),
    ):
        done = project.call("run", "-p", file, "-s", "auth", *arguments)
        assert done.code == 2
        assert message in done.err
        assert hint in done.err
    assert not project.run_dir("auth").exists()


def test_what_a_skipped_stage_would_leave_is_given(project: Project) -> None:
    file = pipeline(project)
    given = ("--artifact", "given.json")
    (project.root / "given.json").write_text('{"steps": [{"id": "one", "after": "two"}]}')
    skipped = ("--skip", "plan", "--skip", "verify")
    wrong = project.call("run", "-p", file, "-s", "auth", *skipped, *WHY, *given)
    assert wrong.code == 2
    assert "the items of stage 'build'" in wrong.err
    (project.root / "given.json").write_text('{"steps": ["one", "two"]}')
    preview = project.call("dry-run", file, *skipped, *given)
    assert (
        preview.lines.count("- Skipped: nothing is run; the run continues as after the verdict `pass`") == 2
    )
    assert project.call("dry-run", file, "--skip", "plan", "--json").code == 2
    assert project.call("run", "-p", file, "-s", "auth", *skipped, *WHY, *given).code == 0
    assert project.types("auth").count("iteration_complete") == 2
    assert "item_ended" in project.types("auth")
