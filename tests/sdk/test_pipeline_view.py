"""The view `controller`: the state of a pipeline, its artifacts and its specifications as files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sdk.projects import cut_log, engine, node, pipeline, run, run_dir

from agentforge.model.status import RunStatus
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, crashes, returns

ID = "PL-20260102153000-1a2b3c4d"
SCHEMA = {"title": "notes", "type": "object"}
ASKS = returns("which?", decision="ask", questions=[{"question": "Which database?"}])


def stage(id: str, **changes: Any) -> dict[str, Any]:
    return node(id, artifact={"schema": SCHEMA}, **changes)


def of(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return pipeline(*nodes, views=["controller"], request="required", **more)


def leaves(**artifact: Any) -> Act:
    return returns("done", artifact=artifact)


def scripted(*acts: Act) -> ScriptedProvider:
    return ScriptedProvider(list(acts), uses_files=False)


def state(project: Path, place: str = "active") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder(project) / place / f"{ID}.yaml").read_bytes())
    return found


def folder(project: Path) -> Path:
    return project / ".agentforge" / "pipeline"


def artifacts(project: Path) -> dict[str, Any]:
    paths = sorted((project / ".agentforge" / "artifacts" / ID).glob("*.yaml"))
    return {path.name: yaml.safe_load(path.read_bytes()) for path in paths}


def places(project: Path) -> list[str]:
    """Where the state of the pipeline is."""
    return [name for name in ("active", "completed") if (folder(project) / name / f"{ID}.yaml").exists()]


async def started(sdk: Engine, what: dict[str, Any], **how: Any) -> RunStatus:
    return (await sdk.run(what, session=ID, request="add notes", **how)).status


def test_state_tells_how_far_the_pipeline_is_and_moves_when_it_is_over(tmp_path: Path) -> None:
    two = of(stage("plan", approve=True), stage("build"))

    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(notes=["a"]), leaves(files=["b"]))) as sdk:
            await started(sdk, two, artifact={"ticket": 7})
            waiting = state(tmp_path)
            assert (waiting["status"], waiting["current_stage"], waiting["current_stage_index"]) == (
                "awaiting_approval",
                "plan",
                0,
            )
            assert waiting["pending_artifact"]["notes"] == ["a"]
            assert (waiting["user_request"], waiting["context"]) == ("add notes", {"ticket": 7})
            assert (waiting["completed_stages"], waiting["stage_artifacts"]) == ([], {})
            assert sdk.pipeline_state(ID) == waiting
            await sdk.answer(ID, "approve")

    run(main())
    assert places(tmp_path) == ["completed"]
    ended = state(tmp_path, "completed")
    assert (ended["status"], ended["current_stage"], ended["pending_artifact"]) == ("completed", None, None)
    assert (ended["completed_stages"], ended["approved_stages"]) == (["plan", "build"], ["plan"])
    assert ended["stage_artifacts"]["build"]["files"] == ["b"]
    assert ended["completed_at"] is not None
    assert ended["config"]["stages"] == ["plan", "build"]
    index = yaml.safe_load((folder(tmp_path) / "index.yaml").read_bytes())
    assert index[ID]["status"] == "completed"


def test_artifacts_have_their_stage_their_ids_and_what_they_took(tmp_path: Path) -> None:
    first = stage("plan", approve=True)

    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(notes=["a"]), leaves(notes=["b"]))) as sdk:
            await started(sdk, of(first))
            await sdk.answer(ID, "reject", text="shorter")
            await sdk.answer(ID, "approve")

    run(main())
    found = artifacts(tmp_path)
    assert list(found) == ["00-plan.it0.yaml", "00-plan.yaml"]
    latest = found["00-plan.yaml"]
    meta = latest["_artifact_meta"]
    assert (meta["stage_name"], meta["artifact_type"], meta["version"]) == ("plan", "notes", "1.0")
    assert (latest["notes"], latest["original_request"]) == (["b"], "add notes")
    assert latest["request_id"].startswith("REQ-")
    about = latest["_metadata"]
    assert (about["pipeline_id"], about["iteration"]) == (ID, 1)
    assert {"tokens_used", "duration_seconds"} <= about.keys()
    assert found["00-plan.it0.yaml"]["notes"] == ["a"]
    assert state(tmp_path, "completed")["iteration_count"] == {"plan": 1}


def test_specification_is_kept_under_its_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(spec_id="SPEC-1", title="Notes"))) as sdk:
            await started(sdk, of(stage("spec")))

    run(main())
    kept = yaml.safe_load((tmp_path / ".agentforge/specs/SPEC-1.yaml").read_bytes())
    assert kept["title"] == "Notes"


def test_id_of_a_specification_is_not_used_as_a_path(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(spec_id="../../x"))) as sdk:
            await started(sdk, of(stage("spec")))

    run(main())
    assert not (tmp_path / ".agentforge/specs").exists()
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.parametrize(
    ("act", "status", "place", "error"),
    [
        (ASKS, "paused", "active", None),
        (crashes("broken"), "failed", "completed", "Stage failed after 2 attempts: "),
    ],
)
def test_questions_pause_and_failures_say_how_often_it_was_tried(
    tmp_path: Path, act: Act, status: str, place: str, error: str | None
) -> None:
    retry = {"initial_delay": 0, "max_delay": 0}

    async def main() -> None:
        async with engine(tmp_path, scripted(act, act)) as sdk:
            await started(sdk, of(stage("plan", retry=retry)))

    run(main())
    found = state(tmp_path, place)
    assert (found["status"], places(tmp_path)) == (status, [place])
    assert (found["error"] or "").startswith(error or "")
    assert (found["error"] is None) == (error is None)


def test_abort_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, scripted(leaves())) as sdk:
            await started(sdk, of(stage("plan", approve=True)))
            await sdk.cancel(ID, "out of scope")

    run(main())
    found = state(tmp_path, "completed")
    assert (found["status"], found["error"]) == ("aborted", "out of scope")


def damages(project: Path) -> Iterator[Any]:
    path = folder(project) / "active" / f"{ID}.yaml"
    yield path.unlink
    yield lambda: path.write_text("pipeline_id: [")
    yield lambda: path.write_text(path.read_text().replace("awaiting_approval", "completed"))
    yield lambda: (path.unlink(), path.symlink_to(project / "elsewhere"))
    artifact = project / ".agentforge" / "artifacts" / ID / "00-plan.yaml"
    yield artifact.unlink
    yield lambda: artifact.write_text("notes: forged\n")


@pytest.mark.parametrize("number", range(6))
def test_files_that_were_changed_are_written_again_from_the_log(tmp_path: Path, number: int) -> None:
    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(notes=["a"]))) as sdk:
            await started(sdk, of(stage("plan", approve=True)))
            before = (state(tmp_path), artifacts(tmp_path))
            list(damages(tmp_path))[number]()
            (tmp_path / "elsewhere").write_text("not ours")
            assert sdk.pipeline_state(ID) == before[0]
            assert (state(tmp_path), artifacts(tmp_path)) == before
            assert (tmp_path / "elsewhere").read_text() == "not ours"

    run(main())


def test_files_that_a_killed_engine_did_not_write_are_written_by_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(notes=["a"]), leaves(files=["b"]))) as sdk:
            await started(sdk, of(stage("plan"), stage("build")))
            expected = state(tmp_path, "completed")
            lines = (run_dir(tmp_path, ID) / "events.jsonl").read_bytes().splitlines(keepends=True)
            cut_log(tmp_path, lines[:-1], ID)
            os.replace(
                folder(tmp_path) / "completed" / f"{ID}.yaml", folder(tmp_path) / "active" / f"{ID}.yaml"
            )
            await sdk.recover(ID)
            times = dict.fromkeys(("updated_at", "completed_at"))
            assert state(tmp_path, "completed") | times == expected | times
            assert places(tmp_path) == ["completed"]

    run(main())


def test_run_with_another_name_has_artifacts_but_no_state(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(notes=["a"]))) as sdk:
            await sdk.run(of(stage("plan")), session="mine", request="x")

    run(main())
    assert not folder(tmp_path).exists()
    assert (tmp_path / ".agentforge/artifacts/mine/00-plan.yaml").exists()


def test_folder_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / ".agentforge").write_text("not a folder")

    async def main() -> None:
        async with engine(tmp_path, scripted(leaves(notes=["a"]))) as sdk:
            assert await started(sdk, of(stage("plan"))) is RunStatus.COMPLETED

    run(main())
