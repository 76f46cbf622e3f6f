"""The view `escalations`: files that show requests, and files that answer them."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.engine.plans import NOON
from tests.sdk import blocks
from tests.sdk.approvals import events, started
from tests.sdk.projects import ENVIRON, Gate, cut_log, engine, eventually, node, pipeline, run, run_dir, types

from agentforge.model.status import RunStatus
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import crashes, returns, says

VIEW = {"views": ["escalations"]}
ASKS = pipeline(node(), **VIEW)
SECRET = {**ENVIRON, "DEPLOY_TOKEN": "hunter2-hunter2"}


def folder(project: Path) -> Path:
    return project / ".agentforge" / "escalations"


def shown(project: Path) -> list[dict[str, Any]]:
    """The escalations, by their time and name."""
    found = [path for path in folder(project).glob("ESC-*.yaml") if not path.stem.endswith(".resolution")]
    return sorted((yaml.safe_load(path.read_bytes()) for path in found), key=lambda each: each["created_at"])


def resolve(project: Path, content: str, number: int = -1) -> Path:
    path = folder(project) / f"{shown(project)[number]['escalation_id']}.resolution.yaml"
    path.write_text(content)
    return path


async def waiting(sdk: Engine) -> None:
    assert (await started(sdk, what=ASKS)).status is RunStatus.AWAITING_APPROVAL


def test_file_shows_the_request_and_later_its_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await waiting(sdk)
            (opened,) = shown(tmp_path)
            assert (opened["status"], opened["pipeline_id"], opened["stage"]) == ("pending", "s", "plan")
            await sdk.answer("s", "approve", by="anna")
            (closed,) = shown(tmp_path)
            assert (closed["status"], closed["answer"], closed["answered_by"]) == (
                "resolved",
                "approve",
                "anna",
            )
            assert closed["resolved_at"] is not None
            assert closed["escalation_id"] == opened["escalation_id"]

    run(main())


def test_file_shows_what_a_resume_answers(tmp_path: Path) -> None:
    """The answer is recorded before the run is driven."""

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes(), says("done")])) as sdk:
            result = await sdk.run(pipeline(node(semantics="at_most_once"), **VIEW), session="s")
            assert result.status is RunStatus.PAUSED
            (opened,) = shown(tmp_path)
            assert opened["status"] == "pending"
            assert (await sdk.resume("s", by="anna")).completed
            (closed,) = shown(tmp_path)
            assert (closed["status"], closed["answered_by"]) == ("resolved", "anna")

    run(main())


def test_run_without_the_view_writes_nothing_and_reads_no_resolution(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await started(sdk)
            assert not folder(tmp_path).exists()

    run(main())


def test_files_that_a_killed_engine_did_not_write_are_written_by_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await waiting(sdk)
            (opened,) = folder(tmp_path).glob("ESC-*")
            assert (folder(tmp_path) / ".gitignore").read_text() == "*\n"
            content = opened.read_bytes()
            opened.unlink()
            lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
            cut_log(tmp_path, lines[:-1])
            await sdk.recover("s")
            assert opened.read_bytes() == content

    run(main())


@pytest.mark.parametrize("verb", ["resume", "recover", "requests"])
def test_resolution_is_an_answer_like_any_other(tmp_path: Path, verb: str) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await waiting(sdk)
            resolve(tmp_path, "answer: approve\ntext: fine\nby: anna\n")
            assert sdk.runs.recoverable() == ["s"]
            if verb == "requests":
                assert sdk.requests() == []
                assert sdk.status("s").status == "awaiting_approval"
            result = await (sdk.resume("s") if verb == "resume" else sdk.recover("s"))
            assert result is not None
            assert result.completed

    run(main())
    (said,) = events(tmp_path, "request_answered")
    assert (said.fact.answer, said.fact.by, said.fact.text) == ("approve", "anna", "fine")


@pytest.mark.parametrize("verb", ["resume", "recover"])
def test_resolution_of_a_question_can_cancel_the_run(tmp_path: Path, verb: str) -> None:
    asks = returns("which?", decision="ask", questions=[{"question": "Which database?"}])

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([asks], uses_files=False)) as sdk:
            assert (await sdk.run(pipeline(node(), **VIEW), session="s")).requests
            resolve(tmp_path, "abort: true\nby: anna\n")
            assert sdk.runs.recoverable() == ["s"]
            await (sdk.resume("s") if verb == "resume" else sdk.recover("s"))
            assert sdk.status("s").status == "aborted"
            assert [each["status"] for each in shown(tmp_path)] == ["resolved"]

    run(main())
    (ended,) = events(tmp_path, "cancel_requested")
    assert ended.fact.reason == "aborted by anna"


def test_resolution_with_context_sends_the_stage_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await waiting(sdk)
            resolve(tmp_path, "abort: false\ncontext: use tabs\n")
            await sdk.recover("s")
            assert [each["status"] for each in shown(tmp_path)] == ["resolved", "pending"]
            resolve(tmp_path, "abort: true\n")
            result = await sdk.recover("s")
            assert result is not None
            assert result.status is RunStatus.ABORTED
            assert [each["status"] for each in shown(tmp_path)] == ["resolved", "resolved"]

    run(main())
    assert events(tmp_path, "node_restart")[0].fact.feedback.text == "use tabs"


def test_value_of_a_secret_in_a_resolution_is_not_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, environ=SECRET) as sdk:
            await waiting(sdk)
            resolve(tmp_path, "abort: false\ncontext: use hunter2-hunter2\n")
            await sdk.recover("s")

    run(main())
    assert events(tmp_path, "request_answered")[0].fact.text == "use ${secret:DEPLOY_TOKEN}"
    stored = [path.read_bytes() for path in run_dir(tmp_path).rglob("*") if path.is_file()]
    assert not any(b"hunter2" in content for content in stored)


@pytest.mark.parametrize(
    "content", ["", "abort: tr", "abort: [\n", "- approve\n", "# later\n", "answer: sing\n", "answer: \x00\n"]
)
def test_empty_and_partial_resolutions_are_ignored_until_they_are_complete(
    tmp_path: Path, content: str
) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await waiting(sdk)
            path = resolve(tmp_path, content)
            assert sdk.runs.recoverable() == []
            assert len(sdk.requests()) == 1
            path.write_text("answer: approve\n")
            result = await sdk.recover("s")
            assert result is not None
            assert result.completed

    run(main())


def test_resolution_is_not_read_through_a_link(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await waiting(sdk)
            path = resolve(tmp_path, "")
            path.unlink()
            (tmp_path / "elsewhere.yaml").write_text("answer: approve\n")
            path.symlink_to(tmp_path / "elsewhere.yaml")
            assert sdk.runs.recoverable() == []

    run(main())


def test_driver_reads_resolutions_while_another_branch_works(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate("claude")
        codex = ScriptedProvider([crashes(), says("done")], name="codex")
        async with blocks.engine(tmp_path, {"claude": gate, "codex": codex}) as sdk:
            block = blocks.block(["claude", "codex"], blocks.inner(semantics="at_most_once"))
            going = asyncio.create_task(sdk.run(pipeline(block, **VIEW), session="s"))
            await gate.working.wait()
            await eventually(lambda: folder(tmp_path).exists() and shown(tmp_path))
            resolve(tmp_path, "answer: retry\n")
            await eventually(lambda: "parallel_provider_complete" in types(tmp_path))
            gate.finish.set()
            assert (await going).completed

    run(main())


def test_folder_that_cannot_be_written_does_not_stop_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / ".agentforge").symlink_to(tmp_path / "outside")

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await waiting(sdk)
            result = await sdk.answer("s", "approve")
            assert result is not None
            assert result.completed

    with caplog.at_level(logging.WARNING, "agentforge.run"):
        run(main())
    assert "can't write the escalation" in caplog.text
    assert list((tmp_path / "outside").iterdir()) == []


def test_resolution_counts_although_the_clock_is_behind_the_question(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, clock=FakeClock(NOON + timedelta(hours=1))) as sdk:
            await waiting(sdk)
        resolve(tmp_path, "answer: approve\n")
        async with engine(tmp_path, clock=FakeClock(NOON)) as sdk:
            result = await sdk.recover("s")
            assert result is not None
            assert result.completed

    run(main())
