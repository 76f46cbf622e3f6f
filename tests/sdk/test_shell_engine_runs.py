"""A run of the shell engine can be shown, and is resumed where it stopped."""

import asyncio
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.parity.kept_cases import kept_case
from tests.sdk.shell_engine_runs import SESSION, ShellRun, plan_json

from agentforge.adapters.log.jsonl_log import verify
from agentforge.model.errors import IllegalMove, InvalidRequest, RunExists
from agentforge.model.status import RunStatus
from agentforge.sdk.engine import Engine
from agentforge.views.results import RunResult

PIPE = """\
name: p
nodes:
  - id: a
    stage: work
    runs: 2
  - id: b
    stage: work
    inputs: {from: a, select: all}
"""


def sdk(project: Path, **environ: str) -> Engine:
    home = {"HOME": str(project / "home"), "PATH": "/usr/bin:/bin", "MOCK_MODE": "true"}
    return Engine(project, environ=home | environ)


def resumed(project: Path, session: str = SESSION, **options: Any) -> RunResult:
    async def main() -> RunResult:
        async with sdk(project, **options) as engine:
            engine.trust(session)
            return await engine.resume(session)

    return asyncio.run(main())


def context(run: ShellRun, folder: str, number: int) -> Any:
    return json.loads((run.run_dir / folder / "iterations" / f"{number:03d}" / "context.json").read_text())


@pytest.fixture
def loop(tmp_path: Path) -> ShellRun:
    """Killed in the middle of its second iteration of four."""
    run = ShellRun(tmp_path, most=4)
    run.begin_loop()
    run.iterations("0", "stage-00-work", [1])
    run.start_iteration("0", "stage-00-work", 2)
    return run


def test_status_list_and_tail_show_a_run_of_the_shell_engine(loop: ShellRun) -> None:
    engine = sdk(loop.project)
    info = engine.status(SESSION)
    assert (info.status, info.state.node and info.state.node.completed) == ("interrupted", 1)
    assert info.plan.steps[0].node.id == "work"
    assert info.plan.only_stage.termination.max == 4
    row = engine.list()[0]
    assert (row.session, row.status, row.stage, row.iterations) == (SESSION, "interrupted", "work", 1)
    types = [event.fact.TYPE for event in engine.events(SESSION)]
    assert types == [
        "session_start",
        "node_start",
        "iteration_start",
        "iteration_complete",
        "iteration_start",
    ]


def test_first_resume_appends_log_imported_and_the_chain_starts_there(loop: ShellRun) -> None:
    before = loop.log.read_bytes()
    result = resumed(loop.project)
    assert (result.status, result.iterations) == (RunStatus.COMPLETED, 4)
    after = loop.log.read_bytes()
    assert after.startswith(before)
    imported = json.loads(after[len(before) :].splitlines()[0])
    assert (imported["type"], imported["seq"]) == ("log_adopted", 6)
    assert imported["data"]["lines"] == 5
    assert imported["data"]["sha256"] == hashlib.sha256(before).hexdigest()
    assert verify(loop.log).is_intact


def test_resume_continues_with_the_iteration_that_was_not_complete(loop: ShellRun) -> None:
    (loop.run_dir / "stage-00-work/iterations/002/result.json").write_text('{"summary":"half"}')
    resumed(loop.project)
    started = [
        e.cursor.iteration for e in sdk(loop.project).events(SESSION) if _is_ours(e, "iteration_start")
    ]
    assert started == [2, 3, 4]
    assert (
        loop.run_dir / "stage-00-work/iterations/002/attempt-0/result.json"
    ).read_text() == '{"summary":"half"}'


def test_results_of_an_earlier_pass_do_not_count_for_later_iterations(loop: ShellRun) -> None:
    stale = loop.run_dir / "stage-00-work/iterations/004"
    stale.mkdir()
    (stale / "result.json").write_text('{"summary":"of another pass","decision":"error"}')
    assert resumed(loop.project).completed
    assert "of another pass" in (stale / "attempt-0/result.json").read_text()
    assert "of another pass" not in (stale / "result.json").read_text()


def test_imported_and_interrupted_run_is_recovered(loop: ShellRun) -> None:
    """Killed right after `log_adopted` was written."""
    before = len(loop.lines)
    resumed(loop.project)
    lines = loop.log.read_bytes().splitlines(keepends=True)
    loop.log.write_bytes(b"".join(lines[: before + 1]))
    (loop.run_dir / "state.json").unlink()
    engine = sdk(loop.project)
    assert engine.status(SESSION).status == "interrupted"
    engine.trust(SESSION)
    recovered = asyncio.run(engine.recover(SESSION))
    assert recovered is not None
    assert (recovered.status, recovered.iterations) == (RunStatus.COMPLETED, 4)


@pytest.mark.parametrize("kept", range(1, 9))
def test_pipeline_of_the_shell_engine_is_resumed_from_every_line_of_its_log(
    tmp_path: Path, kept: int
) -> None:
    run = ShellRun(tmp_path, most=2)
    run.begin_pipeline(PIPE, plan_json(("a", 2), ("b", 1)))
    run.node("0", "a", 2)
    run.iterations("0", "stage-00-a", [1, 2])
    run.event("node_complete", {"node_path": "0", "node_run": 2, "iteration": 2}, name="a", status="complete")
    run.node("1", "b", 1)
    run.log.write_text("".join(f"{line}\n" for line in run.lines[:kept]))
    result = resumed(tmp_path)
    assert (result.status, result.iterations) == (RunStatus.COMPLETED, 3)
    assert verify(run.log).is_intact


def test_earlier_outputs_of_the_shell_engine_are_found_after_a_resume(loop: ShellRun) -> None:
    resumed(loop.project)
    third = context(loop, "stage-00-work", 3)["inputs"]["from_previous_iterations"]
    assert third == [str(loop.run_dir / f"stage-00-work/iterations/{n:03d}/output.md") for n in (1, 2)]


def test_pipeline_of_the_shell_engine_continues_at_the_stage_boundary(tmp_path: Path) -> None:
    run = ShellRun(tmp_path, most=2)
    run.begin_pipeline(PIPE, plan_json(("a", 2), ("b", 1)))
    run.node("0", "a", 2)
    run.iterations("0", "stage-00-a", [1, 2])
    result = resumed(tmp_path)
    assert (result.status, result.iterations) == (RunStatus.COMPLETED, 3)
    inputs = context(run, "stage-01-b", 1)["inputs"]["from_stage"]
    assert [path.rpartition("/iterations/")[2] for path in inputs["a"]] == ["001/output.md", "002/output.md"]


def test_resumed_pipeline_keeps_the_provider_and_iterations_that_it_was_pinned_to(tmp_path: Path) -> None:
    run = ShellRun(tmp_path, most=3)
    run.begin_pipeline(PIPE, plan_json(("a", 3), ("b", 1)))
    run.node("0", "a", 3)
    run.iterations("0", "stage-00-a", [1])
    result = resumed(tmp_path)
    plan = json.loads((run.run_dir / "plan.json").read_text())
    assert result.iterations == 4
    assert [node["provider"]["model"] for node in plan["nodes"]] == ["sonnet", "sonnet"]


def test_failed_run_of_the_shell_engine_is_failed_and_can_be_resumed(loop: ShellRun) -> None:
    loop.event("error", {"node_path": "0", "node_run": 0, "iteration": 0}, message="it broke", stage="work")
    info = sdk(loop.project).status(SESSION)
    assert (info.status, info.state.failure and info.state.failure.message) == ("failed", "it broke")
    assert resumed(loop.project).completed


def test_completed_session_of_the_shell_engine_is_refused_like_ours(loop: ShellRun) -> None:
    loop.event("session_complete", None, reason="all done")
    before = loop.log.read_bytes()
    with pytest.raises(IllegalMove, match="already completed"):
        resumed(loop.project)
    with pytest.raises(RunExists, match="already completed"):
        asyncio.run(sdk(loop.project).run(stage="work", session=SESSION))
    assert loop.log.read_bytes() == before


def test_session_restarted_by_the_shell_engine_counts_from_its_new_start(loop: ShellRun) -> None:
    loop.event("session_complete", None, reason="all done")
    loop.event("node_start", {"node_path": "0", "node_run": 0, "iteration": 0}, name="work", type="work")
    info = sdk(loop.project).status(SESSION)
    assert (info.status, info.state.stages, info.state.node and info.state.node.completed) == (
        "interrupted",
        (),
        0,
    )


def test_torn_last_line_of_the_shell_engine_is_archived_when_it_is_resumed(loop: ShellRun) -> None:
    with loop.log.open("a") as log:
        log.write('{"ts":"2026-01-10T10:09:00Z","type":"iteration_com')
    assert resumed(loop.project).completed
    types = [event.fact.TYPE for event in sdk(loop.project).events(SESSION)]
    assert types[5:7] == ["log_adopted", "log_repaired"]
    assert verify(loop.log).is_intact


def test_event_on_a_torn_line_of_the_shell_engine_is_not_lost(loop: ShellRun) -> None:
    loop.lines[-1] = loop.lines[-1][:40] + loop.lines[-1]
    loop.finish_iteration("0", "stage-00-work", 2)
    types = [event.fact.TYPE for event in sdk(loop.project).events(SESSION)]
    assert types.count("iteration_start") == 2
    assert types.count("iteration_complete") == 2


def test_changed_line_before_log_imported_is_noticed(loop: ShellRun) -> None:
    resumed(loop.project)
    loop.log.write_bytes(loop.log.read_bytes().replace(b'"reason":"more"', b'"reason":"less"', 1))
    assert not verify(loop.log).is_intact


def test_run_of_the_shell_engine_is_not_recovered_paused_or_cancelled_before_it_is_imported(
    loop: ShellRun,
) -> None:
    before = loop.log.read_bytes()
    engine = sdk(loop.project)
    assert asyncio.run(engine.recover(SESSION)) is None
    with pytest.raises(IllegalMove, match="started by the agent-pipelines shell engine"):
        asyncio.run(engine.pause(SESSION))
    with pytest.raises(IllegalMove, match="started by the agent-pipelines shell engine"):
        asyncio.run(engine.cancel(SESSION))
    assert loop.log.read_bytes() == before


def test_definition_that_no_longer_matches_the_run_is_refused(tmp_path: Path) -> None:
    run = ShellRun(tmp_path)
    run.begin_pipeline(PIPE, plan_json(("a", 2), ("b", 1)))
    run.node("0", "other", 2)
    run.event("node_complete", {"node_path": "0", "node_run": 0, "iteration": 0}, name="other")
    with pytest.raises(InvalidRequest, match="doesn't match the definition"):
        resumed(tmp_path)


def test_imported_run_is_read_from_its_snapshot_and_by_followers(loop: ShellRun) -> None:
    resumed(loop.project)
    engine = sdk(loop.project)
    assert engine.status(SESSION).state == engine.inspect(SESSION).state
    assert engine.status(SESSION).plan == engine.inspect(SESSION).plan


def test_reader_continues_inside_the_lines_of_the_shell_engine(loop: ShellRun) -> None:
    reader = sdk(loop.project).runs.log(SESSION).reader()
    list(reader.events())
    head = reader.head
    loop.finish_iteration("0", "stage-00-work", 2)
    assert [event.fact.TYPE for event in reader.events(after=head)] == ["iteration_complete"]
    resumed(loop.project)
    later = [event.fact.TYPE for event in reader.events(after=head)]
    assert later[:2] == ["iteration_complete", "log_adopted"]


def _is_ours(event: Any, kind: str) -> bool:
    return bool(event.trace_id) and kind == event.fact.TYPE


GOLDEN = [
    ("11-crash-kill9-resume-loop", "after-kill", "c1", 4),
    ("15-parallel-fail-resume", "after-fail", "pf1", 5),
    ("22-reconcile", "before-status", "rc1", 3),
    ("35-crash-at-stage-boundary", "after-resume", "bd1", 3),
]


@pytest.mark.parametrize(("case", "moment", "session", "iterations"), GOLDEN)
def test_recorded_run_of_the_shell_engine_is_resumed(
    tmp_path: Path, case: str, moment: str, session: str, iterations: int
) -> None:
    project = tmp_path / "project"
    shutil.copytree(kept_case(case) / moment, project)
    for path in [project, *project.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.is_file():
            path.write_text(path.read_text().replace("@PROJECT@", str(project)))
    result = resumed(project, session, STAGES_DIR=str(project / "stages"))
    assert (result.status, result.iterations) == (RunStatus.COMPLETED, iterations)
    assert verify(project / ".claude/pipeline-runs" / session / "events.jsonl").is_intact
