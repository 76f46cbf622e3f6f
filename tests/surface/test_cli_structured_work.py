"""Artifacts, items and contexts as people see them: `show`, `status`, and the lines of a run."""

import json
from pathlib import Path

import pytest
from tests.surface.json_agents import stage, write_pipeline
from tests.surface.terminal import WRITE_RESULT, Project

STEPS = {"steps": [{"id": "s1", "title": "Parse"}, {"id": "s2", "after": ["s1"]}, {"id": "s3"}]}
LEAVE_STEPS = f"printf '%s' '{json.dumps(STEPS)}' > \"$AGENTFORGE_ARTIFACT\""
LEAVE_LARGE = 'echo "{\\"pad\\": \\"$(head -c 70000 /dev/zero | tr \\\\0 x)\\"}" > "$AGENTFORGE_ARTIFACT"'
FAIL_FIRST = (
    "if mkdir tried; "
    """then echo '{"summary": "no", "verdict": "fail", "reason": "it broke"}' > "$MOCK_RESULT_FILE"; """
    f"else {WRITE_RESULT}; fi"
)
OVER_STEPS = {"termination": {"type": "items", "from": "plan.steps"}, "context_strategy": "focused"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run whose first step fails, and whose last artifact is only in its file."""
    made = Project(tmp_path_factory.mktemp("structured"))
    do = {**stage("do", FAIL_FIRST), **OVER_STEPS, "on": {"fail": "report"}}
    del do["runs"]
    nodes = [
        stage("plan", f"{LEAVE_STEPS}; {WRITE_RESULT}", artifact={"type": "object"}),
        do,
        stage("report", f"{LEAVE_LARGE}; {WRITE_RESULT}", artifact={"type": "object"}),
    ]
    file = write_pipeline(made, "steps", *nodes, request="required")
    done = made.call("run", "-p", file, "-s", "auth", "Add a slugify function.")
    assert done.code == 0, done.err
    begun = [line.partition("] ")[2] for line in done.lines if " do " in line and "started" in line]
    assert begun == [
        "▸ do started: one iteration for each item with command",
        "▸ do 1/3 started: item s1",
        "▸ do 3/3 started: item s3",
    ]
    return made


def test_steps_are_listed_with_what_became_of_them(project: Project) -> None:
    assert project.call("show", "auth", "--items").lines == [
        "auth: completed, pipeline steps, 3 items: 1 failed, 1 blocked, 1 done",
        "",
        "✗ do, step 1 of 3, s1 (Parse): failed in iteration 1",
        "    Reason:   it broke",
        "‖ do, step 2 of 3, s2: blocked",
        "    After:    s1",
        "✓ do, step 3 of 3, s3: done in iteration 2",
    ]
    status = project.call("status", "auth").lines
    assert "User request: Add a slugify function." in status
    assert "  ✗ do      2/3  fail" in status


def test_artifacts_are_listed_and_written_to_a_file(project: Project, tmp_path: Path) -> None:
    lines = project.call("show", "auth", "plan", "--artifacts").lines
    assert lines[:3] == [
        "auth: completed, pipeline steps, 1 artifact",
        "",
        f"✓ plan, visit 1, iteration 1: {len(json.dumps(STEPS))} bytes, version 1.0",
    ]
    assert lines[5:7] == ["      {", '        "steps": [']
    target = tmp_path / "plan.json"
    write = ("show", "auth", "plan", "--artifacts", "-o", str(target))
    assert f"Wrote {target}" in project.call(*write).err
    written = json.loads(target.read_text())
    assert written.pop("_artifact_meta").keys() == {"stage", "version", "sha256"}
    assert written == STEPS
    assert project.call(*write).code == 0  # It replaces its own file.
    target.write_text(target.read_text().replace("Parse", "Parse it"))
    refused = project.call(*write)
    assert (refused.code, "was changed since" in refused.err) == (2, True)
    assert "Parse it" in target.read_text()


def test_context_of_an_iteration_has_the_tokens_of_its_texts(project: Project) -> None:
    lines = project.call("show", "auth", "do", "2", "--context").lines
    assert lines[0] == "auth: do, iteration 2"
    assert lines[1].startswith("  Context:   focused, ")
    assert [line.split()[1:] for line in lines[3:5]] == [
        ["item", "s3", "(3", "of", "3)"],
        ["the", "rest", "of", "what", "is", "sent"],
    ]
    assert lines[-1] == '    │ {"id":"s3"}'


def test_a_changed_artifact_is_reported_with_both_hashes(project: Project, tmp_path: Path) -> None:
    (report,) = project.call("show", "auth", "report", "--artifacts", "--json").json["artifacts"]
    file = project.run_dir("auth") / report["file"]
    assert len(report["value"]["pad"]) == 70_000
    content = file.read_bytes()
    try:
        file.write_bytes(content + b"\n")
        (changed,) = project.call("show", "auth", "report", "--artifacts", "--json").json["artifacts"]
        assert changed["value"] is None
        assert f"SHA-256 {report['sha256']} was accepted, it has" in changed["problem"]
        failed = project.call("show", "auth", "report", "--artifacts", "-o", str(tmp_path / "r.json"))
        assert (failed.code, changed["problem"] in failed.err) == (1, True)
        assert not (tmp_path / "r.json").exists()
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--artifacts", "--items"], "give one of --artifacts and --items", ""),
        (["do", "--context", "--items"], "give one of --context and --items", ""),
        (["-o", "plan.json"], "-o goes with --artifacts", ""),
        (["--all"], "--all goes with --artifacts", ""),
        (["do", "1", "--items"], "--items takes no ITERATION", ""),
        (["pln", "--artifacts"], "no iteration of a stage 'pln'", "Stages with iterations: plan, do, report"),
        (["zzz", "--items"], "no iteration of a stage 'zzz'", "stages with iterations: plan, do, report"),
        (["--artifacts", "-o", "x.json"], "-o writes one artifact; there are 2", "plan 1 --visit 1, report"),
        (["do", "--artifacts", "-o", "x.json"], "there are 0", ""),
    ],
)
def test_what_does_not_go_together_is_refused(
    project: Project, arguments: list[str], error: str, hint: str
) -> None:
    done = project.call("show", "auth", *arguments)
    assert (done.code, done.out) == (2, "")
    assert error in done.err
    assert hint in done.err
    assert not (project.root / "x.json").exists()
