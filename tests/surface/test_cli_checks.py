"""lint, doctor, stages, pipelines: what is usable here, and what isn't."""

from pathlib import Path

from tests.surface.terminal import WRITE_RESULT, Project


def test_lint_prints_every_diagnostic_and_a_summary(project: Project) -> None:
    project.stage("good", "description: fine\nprovider: mock\n")
    project.stage("bad", "provider: mock\ntermination: {type: fixed, iterations: -1}\nprompt: nosuch.md\n")
    done = project.call("lint")
    assert done.code == 2
    assert done.out.startswith("  bad\n    [FAIL] Validation failed\n    [ERROR] ")
    assert "  good\n    [PASS] All checks passed\n" in done.out
    assert done.lines[-1] == "Summary: 2 targets, 1 passed, 1 failed"
    assert "^" in done.out
    as_json = project.call("lint", "--json")
    assert (as_json.json["passed"], as_json.json["failed"]) == (1, 1)
    assert as_json.json["targets"][0]["diagnostics"][0]["place"]["line"] == 2


def test_lint_takes_a_kind_a_name_or_a_file(project: Project) -> None:
    project.stage("good", "provider: mock\n")
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("lint", "loop", "good").code == 0
    assert project.call("lint", "loop").lines[-1] == "Summary: 1 targets, 1 passed, 0 failed"
    assert project.call("lint", "pipeline", file).lines == [
        "  p.yaml",
        "    [PASS] All checks passed",
        "Summary: 1 targets, 1 passed, 0 failed",
    ]
    assert project.call("lint", file).code == 0
    missing = project.call("lint", "pipeline", "nosuch")
    assert missing.code == 2
    assert "[ERROR] <arguments>:1:1: unknown-pipeline: " in missing.out
    assert project.call("lint", "nosuch").code == 2
    assert "neither `loop` nor `pipeline`" in project.call("lint", "nosuch").err


def test_lint_strict_counts_warnings(project: Project) -> None:
    project.stage("odd", "provider: mock\nno_such_key: 1\n")
    lenient = project.call("lint", "loop", "odd")
    assert lenient.code == 0
    assert "[PASS] Passed, with warnings" in lenient.out
    assert "[WARN] " in lenient.out
    assert project.call("lint", "loop", "odd", "--strict").code == 2


def test_lint_of_an_empty_project_says_so(project: Project) -> None:
    done = project.call("lint")
    assert done.code == 0
    assert done.lines[-1] == "Summary: 0 targets, 0 passed, 0 failed"


def test_doctor_says_what_is_usable_and_how_to_fix_the_rest(project: Project, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text("#!/bin/sh\necho '2.3.4 (Claude Code)'\n")
    (programs / "claude").chmod(0o755)
    (programs / "codex").write_text("#!/bin/sh\nexit 9\n")
    (programs / "codex").chmod(0o755)
    done = project.call("doctor", env={"PATH": f"{programs}:/bin"})
    assert done.code == 0
    found = " ".join(done.out.split())
    assert f"✓ claude 2.3.4 ({programs}/claude)" in found
    assert f"✓ codex {programs}/codex" in found
    assert "· gemini not found fix: npm install -g @google/gemini-cli" in found
    assert "✓ writing permitted, " in found
    assert done.lines[-1] == "AgentForge can run here."


def test_doctor_finds_bad_settings(project: Project) -> None:
    env = {
        "AGENT_PIPELINES_EVENT_BUFFER": "many",
        "STAGES_DIR": "/nosuch",
        "AGENT_PIPELINES_LEGACY": "1",
        "MOCK_MODE": "true",
        "AGENT_PIPELINES_LOG_LEVEL": "debug",
        "CLAUDE_PIPELINE_MODEL": "opus",
    }
    done = project.call("doctor", "--json", env=env)
    assert done.code == 1
    assert done.json["usable"] is False
    checks = {check["name"]: check for check in done.json["checks"]}
    assert checks["AGENT_PIPELINES_EVENT_BUFFER"]["level"] == "broken"
    assert checks["AGENT_PIPELINES_EVENT_BUFFER"]["fix"] == "use a number of at least 1"
    assert checks["STAGES_DIR"]["level"] == "warning"
    assert checks["AGENT_PIPELINES_LEGACY"]["fix"] == "unset AGENT_PIPELINES_LEGACY"
    assert checks["MOCK_MODE"]["level"] == "note"
    assert checks["AGENT_PIPELINES_LOG_LEVEL"]["level"] == "ok"
    assert checks["CLAUDE_PIPELINE_MODEL"]["found"] == "opus"
    shown = project.call("doctor", env=env)
    assert shown.code == 1
    assert shown.lines[-1] == "AgentForge can't run here yet: AGENT_PIPELINES_EVENT_BUFFER"


def test_doctor_leaves_nothing_behind(project: Project) -> None:
    before = sorted(project.root.rglob("*"))
    project.call("doctor")
    assert sorted(project.root.rglob("*")) == before


def test_stages_and_pipelines_list_what_there_is(project: Project) -> None:
    project.stage("tidy", "description: tidies up\n")
    listed = [line.split(maxsplit=1) for line in project.call("stages").lines]
    assert ["tidy", "tidies up"] in listed
    assert "tidy" in [stage["name"] for stage in project.call("stages", "--json").json]
    folder = project.root / ".claude" / "pipelines"
    folder.mkdir()
    (folder / "ship.yaml").write_text("name: ship\ndescription: ships it\nnodes: []\n")
    listed = [line.split(maxsplit=1) for line in project.call("pipelines").lines]
    assert ["ship", "ships it"] in listed
