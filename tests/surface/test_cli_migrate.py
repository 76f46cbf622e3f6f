"""`agentforge migrate check`: what behaves differently in an agent-pipelines project, and the migration."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.parity.rules import BY_ID
from tests.sdk.shell_engine_runs import ShellRun
from tests.surface.terminal import Project

from agentforge.app.definitions import Definitions

REPOSITORY = Path(__file__).resolve().parents[2]
GUIDE = REPOSITORY / "docs" / "migration.md"
PIPE = """\
name: p
inputs: [b.md, a.md]
guardrails: {max_runtime_seconds: 60}
nodes:
  - id: re-plan
    stage: work
    runs: 2
  - id: plan
    stage: work
    provider: codex
  - id: both
    parallel:
      providers: [claude, codex]
      stages:
        - id: draft
          stage: work
        - id: check
          stage: judged
          inputs: {from: draft}
  - id: last
    prompt: "read ${OUTPUT} and .inputs.from_parallel[0]"
    inputs: {from: plan, from_parallel: draft}
"""


def check(project: Path, *options: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        done = Project(Path(folder)).call("migrate", "check", str(project), *options, env={"NO_COLOR": "1"})
    return done.code, done.out + done.err


def stage(project: Path, name: str, text: str, prompt: str = "Do it.\n") -> None:
    folder = project / ".claude" / "stages" / name
    folder.mkdir(parents=True)
    (folder / "stage.yaml").write_text(text)
    (folder / "prompt.md").write_text(prompt)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    stage(tmp_path, "work", "name: work\nmodel: opus\ntermination: {type: fixed, iterations: 4}\ndelay: 2\n")
    stage(tmp_path, "judged", "name: judged\ntermination:\n  type: judgment\n", "Keep ${OUTPUT} short.\n")
    (tmp_path / "pipe.yaml").write_text(PIPE)
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("x\n")
    return tmp_path


def findings(project: Path) -> set[tuple[str, int, str]]:
    migration = Definitions(str(project), {}).migration()
    return {(one.place.file, one.place.line, one.rule) for one in migration.findings}


def test_migrate_check_names_file_line_and_rule_of_what_behaves_differently(project: Path) -> None:
    assert findings(project) >= {
        ("pipe.yaml", 2, "sorted-inputs"),
        ("pipe.yaml", 3, "runtime-limit"),
        ("pipe.yaml", 7, "runs-win"),
        ("pipe.yaml", 10, "own-model"),
        ("pipe.yaml", 19, "stage-inputs-in-blocks"),
        ("pipe.yaml", 22, "exact-stages"),
        ("pipe.yaml", 22, "one-source-is-an-object"),
        ("pipe.yaml", 21, "output-per-iteration"),
        ("pipe.yaml", 21, "one-source-is-an-object"),
        (".claude/stages/judged/stage.yaml", 3, "judge-counts"),
        (".claude/stages/judged/prompt.md", 1, "output-per-iteration"),
    }


def test_migrate_check_shows_a_table_and_exits_1(project: Path) -> None:
    code, text = check(project)
    assert code == 1
    row = next(line for line in text.splitlines() if line.startswith("pipe.yaml:7 "))
    assert row.split(maxsplit=3)[1:3] == ["changes", "runs-win"]
    assert "agent-pipelines ran 4 (.claude/stages/work/stage.yaml:3)" in row
    assert "1 pipeline, 2 stages, 0 runs" in text


def test_migrate_check_prints_json_for_programs(project: Path) -> None:
    code, text = check(project, "--json")
    report: dict[str, Any] = json.loads(text)
    assert (code, report["same"], report["pipelines"], report["stages"]) == (1, False, 1, 2)
    rules = {(one["place"]["file"], one["place"]["line"], one["rule"]) for one in report["findings"]}
    assert rules == findings(project)


def test_migrate_check_of_nested_pipelines_block_inputs_and_limits(tmp_path: Path) -> None:
    stage(tmp_path, "slow", "name: slow\nguardrails: {max_runtime_seconds: 5}\n")
    (tmp_path / "inner.yaml").write_text("name: inner\nnodes:\n  - id: a\n    stage: slow\n")
    (tmp_path / "list.yaml").write_text("nodes: 3\nstages:\n  - x\n")
    (tmp_path / "text.yaml").write_text("nodes:\n\t- x\n")
    (tmp_path / "outer.yaml").write_text(
        "name: outer\n"
        "nodes:\n"
        "  - id: first\n    stage: slow\n"
        "  - id: in\n    pipeline: inner.yaml\n"
        "  - id: both\n"
        "    inputs: {from: first}\n"
        "    parallel:\n"
        "      providers:\n        - {name: claude, inputs: {from_parallel: x}}\n"
        "      stages:\n"
        "        - {id: x, stage: nowhere}\n"
        "        - {id: y, prompt: hi, inputs: {from_parallel: x}}\n"
    )
    assert findings(tmp_path) >= {
        (".claude/stages/slow/stage.yaml", 2, "runtime-limit"),
        ("outer.yaml", 5, "nested-pipelines-run"),
        ("outer.yaml", 8, "stage-inputs-in-blocks"),
        ("outer.yaml", 11, "one-source-is-an-object"),
        ("outer.yaml", 13, "checked-definition"),
        ("outer.yaml", 14, "stage-inputs-in-blocks"),
        ("list.yaml", 1, "checked-definition"),
        ("text.yaml", 2, "checked-definition"),
    }


def test_migrate_check_of_a_project_that_behaves_the_same_exits_0(tmp_path: Path) -> None:
    stage(tmp_path, "work", "name: work\ndelay: 2\n")
    (tmp_path / "pipe.yaml").write_text("name: p\nnodes:\n  - id: a\n    stage: work\n    runs: 3\n")
    code, text = check(tmp_path)
    assert (code, "0 refusals, 0 changes, 0 notes" in text) == (0, True)


def test_migrate_check_reports_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipe.yaml").write_text("name: p\nnodes:\n  - id: a\n    stage: nowhere\n")
    (tmp_path / "other.yaml").write_text("just: data\n")
    assert findings(tmp_path) == {("pipe.yaml", 4, "checked-definition")}


def test_migrate_check_describes_what_agent_pipelines_did_with_refused_definitions(tmp_path: Path) -> None:
    stage(tmp_path, "work", "name: work\n")
    (tmp_path / "pipe.yaml").write_text(
        "name: p\nnodes:\n  - id: a\n    stage: work\n    sandbx: bwrap\n"
        "  - id: b\n    stage: work\n    inputs: {from: nobody}\n"
    )
    code, text = check(tmp_path)
    assert code == 1
    rows = {line.split()[0]: line.split(maxsplit=3)[1:] for line in text.splitlines() if "pipe.yaml:" in line}
    level, rule, message = rows["pipe.yaml:5"]
    assert (level, rule) == ("refused", "checked-definition")
    assert "did you mean `sandbox`?); agent-pipelines ignored it" in message
    level, rule, message = rows["pipe.yaml:8"]
    assert (level, rule) == ("refused", "sources-exist")
    assert (
        message == "unknown-node: no earlier node has the id `nobody`; agent-pipelines continued without it"
    )


def test_migrate_check_reads_finished_runs_of_the_shell_engine(tmp_path: Path) -> None:
    run = ShellRun(tmp_path)
    run.begin_loop()
    run.iterations("0", "stage-00-work", [1], decision="error")
    run.event("session_complete", None, reason="done")
    log = ".claude/pipeline-runs/old/events.jsonl"
    assert findings(tmp_path) >= {(log, 4, "failure-fails"), (log, 5, "finished-is-finished")}


def test_migrate_check_names_the_command_that_resumes_a_run(tmp_path: Path) -> None:
    ShellRun(tmp_path, session="-old").begin_loop()
    command = f"agentforge -C {tmp_path} resume -- -old"
    assert f"`{command}` imports and continues it" in check(tmp_path)[1]


def test_migrate_check_changes_nothing_and_refuses_a_missing_folder(project: Path) -> None:
    before = sorted(path.relative_to(project) for path in project.rglob("*"))
    check(project)
    assert sorted(path.relative_to(project) for path in project.rglob("*")) == before
    code, text = check(project / "nowhere")
    assert (code, "project folder not found" in text) == (2, True)


def test_rules_of_migrate_check_are_rules_of_the_parity_table() -> None:
    sources = [
        REPOSITORY / "src/agentforge" / name for name in ("legacy/migration.py", "legacy/migration.py")
    ]
    used = {rule for path in sources for rule in re.findall(r'Finding\("([a-z-]+)"', path.read_text())}
    assert used
    assert used <= set(BY_ID)
    found = set(re.findall(r"^\| `([a-z-]+)` \|", GUIDE.read_text(), re.MULTILINE))
    assert found <= set(BY_ID)
    assert used - found <= {"repaired-log", "resumes-in-place"}


@pytest.mark.parametrize(("switch", "said"), [("1", "new loop ralph s 2"), ("0", "old loop ralph s 2")])
def test_wrapper_of_the_guide_delegates_when_the_variable_is_set(
    tmp_path: Path, switch: str, said: str
) -> None:
    script, function = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    _program(tmp_path / "agent-pipelines", 'echo "new $*"')
    _program(scripts / "run.sh", f'{script}echo "old $*"')
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "AGENT_PIPELINES_GO": switch}
    for command in ("./scripts/run.sh loop ralph s 2", f"{function}\npipelines loop ralph s 2"):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.strip() == said


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
