"""Requests of real runs, and answers as files, given while a driver is running, before and after."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.engine.plans import NOON
from tests.sdk import blocks
from tests.sdk.projects import (
    ENVIRON,
    Gate,
    cut_log,
    engine,
    eventually,
    load,
    node,
    pipeline,
    run,
    run_dir,
    types,
)

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.model import facts as f
from agentforge.model.errors import (
    AlreadyAnswered,
    InvalidAnswer,
    InvalidRequest,
    NotPermitted,
    UnknownRequest,
)
from agentforge.model.layout import RunLayout
from agentforge.model.request import Request
from agentforge.model.state import MAX_NOTES_BYTES
from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.answers import Answer, give_answer
from agentforge.runtime.journal import Journal
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says
from agentforge.views.results import RunResult

ONCE = pipeline(node(semantics="at_most_once"))
"""Its first failure is a question."""


def layout_of(project: Path) -> RunLayout:
    return RunLayout.of(str(project), "s")


def answer_file(project: Path, request: str) -> Path:
    return run_dir(project) / "answers" / f"{request}.json"


def counted(project: Path, kind: str) -> int:
    return types(project).count(kind)


def leave_answer(project: Path, request: str, answer: str, *, early: float = 0.0) -> None:
    """As another process does; `early`: seconds before its time."""
    run_id = next(iter(JsonlLog(layout_of(project).log).reader().events())).trace_id
    at = SystemClock().now() + timedelta(seconds=early)
    assert give_answer(layout_of(project), Answer(request, answer, "anna", run_id, at)) is None


async def asked(sdk: Engine, what: dict[str, Any] = ONCE) -> str:
    """A run that paused with one question; the question's id."""
    result = await sdk.run(what, session="s")
    assert result.status is RunStatus.PAUSED
    (request,) = result.requests
    return request.id


# -- an answer continues, a resume resets counters


def test_answer_continues_a_paused_run_and_resets_no_counters(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes()])) as sdk:
            first = await asked(sdk)
            result = await sdk.answer("s", "retry", by="anna")
            assert result is not None
            (second,) = result.requests
            assert (result.status, second.id != first) == (RunStatus.PAUSED, True)
            state = sdk.inspect("s").state
            assert state.iteration is not None
            assert len(state.iteration.failures) == 2
            assert state.resumed_at is None
            result = await sdk.resume("s")
            state = sdk.inspect("s").state
            assert state.iteration is not None
            assert len(state.iteration.failures) == 1, "only a person's resume resets them"
            assert state.resumed_at is not None

    run(main())
    assert "session_continued" in types(tmp_path)


def test_answer_that_counts_the_work_as_done_completes_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([crashes()])
        async with engine(tmp_path, provider) as sdk:
            await asked(sdk)
            result = await sdk.answer("s", "succeeded", by="anna")
        assert result is not None
        assert (result.completed, result.iterations, len(provider.calls)) == (True, 1, 1)

    run(main())


def test_time_waiting_for_an_answer_does_not_count_as_runtime(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock(hold=True)
        provider = ScriptedProvider([crashes(), says("done")])
        async with engine(tmp_path, provider, clock=clock) as sdk:
            limited = pipeline(node(semantics="at_most_once"), guardrails={"max_runtime_seconds": 100})
            await asked(sdk, limited)
            clock.advance(5000)
            result = await sdk.answer("s", "retry")
        assert result is not None
        assert result.completed

    run(main())


# -- while a driver lives


def duel(**more: Any) -> dict[str, Any]:
    return pipeline(blocks.block(["claude", "codex"], blocks.inner(semantics="at_most_once", **more)))


async def open_request(sdk: Engine) -> str:
    """The open request of a running run."""
    await eventually(lambda: sdk.status("s").state.open_requests)
    (request,) = sdk.status("s").state.open_requests
    return request.id


def test_answer_given_as_a_file_continues_a_branch_before_the_other_is_done(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate("claude")
        codex = ScriptedProvider([crashes(), says("done")], name="codex")
        async with blocks.engine(tmp_path, {"claude": gate, "codex": codex}) as sdk:
            going = asyncio.create_task(sdk.run(duel(), session="s"))
            await gate.working.wait()
            request = await open_request(sdk)
            assert sdk.status("s").status == "running"
            leave_answer(tmp_path, request, "resume")
            await eventually(lambda: counted(tmp_path, "parallel_provider_complete") == 1)
            assert not gate.finish.is_set()
            gate.finish.set()
            assert (await going).completed
        assert (len(codex.calls), counted(tmp_path, "request_resolved")) == (2, 1)
        assert "session_paused" not in types(tmp_path)

    run(main())


def test_answer_through_the_engine_that_drives_the_run_wakes_it(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate("claude")
        codex = ScriptedProvider([crashes()], name="codex")
        async with blocks.engine(tmp_path, {"claude": gate, "codex": codex}) as sdk:
            going = asyncio.create_task(sdk.run(duel(), session="s"))
            await gate.working.wait()
            request = await open_request(sdk)
            assert await sdk.answer("s", "succeeded", request=request) is None, "it is driven already"
            await eventually(lambda: counted(tmp_path, "parallel_provider_complete") == 1)
            gate.finish.set()
            assert (await going).completed

    run(main())


def test_cancel_answered_in_a_branch_ends_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate("claude")
        codex = ScriptedProvider([crashes()], name="codex")
        async with blocks.engine(tmp_path, {"claude": gate, "codex": codex}) as sdk:
            going = asyncio.create_task(sdk.run(duel(), session="s"))
            await gate.working.wait()
            await open_request(sdk)
            await sdk.answer("s", "cancel", by="anna")
            result = await going
        assert (result.status, result.reason) == (RunStatus.ABORTED, "answered by anna")
        assert result.requests == ()

    run(main())


NOT_OFFERED = b'{"request": "ID", "answer": "sing", "by": "eve"}'
NO_ANSWERS = {
    "no json": b"not json",
    "of another": b'{"request": "another", "answer": "resume", "by": "eve"}',
    "not offered": NOT_OFFERED,
    "incomplete": b'{"request": "ID"}',
    "empty": b"",
    "too long": b"x" * 100_000,
}
REQUEST = Request("limit-7", "escalation", "limit", "limit", "Go on?", ("resume", "cancel"), NOON)


@pytest.mark.parametrize("content", [NOT_OFFERED, NO_ANSWERS["too long"]], ids=["not offered", "too long"])
def test_invalid_answer_is_archived_and_a_later_one_counts(tmp_path: Path, content: bytes) -> None:
    async def main() -> None:
        gate = Gate("claude")
        codex = ScriptedProvider([crashes(), says("done")], name="codex")
        async with blocks.engine(tmp_path, {"claude": gate, "codex": codex}) as sdk:
            going = asyncio.create_task(sdk.run(duel(), session="s"))
            await gate.working.wait()
            request = await open_request(sdk)
            file = answer_file(tmp_path, request)
            file.parent.mkdir()
            file.write_bytes(content.replace(b"ID", request.encode()))
            await eventually(lambda: not file.exists())
            assert file.with_name(f"{file.name}.refused").exists()
            assert counted(tmp_path, "file_refused") == 1
            assert counted(tmp_path, "request_answered") == 0
            leave_answer(tmp_path, request, "resume")
            await eventually(lambda: counted(tmp_path, "parallel_provider_complete") == 1)
            gate.finish.set()
            assert (await going).completed

    run(main())


def test_answers_to_requests_that_the_run_never_asked_are_archived(tmp_path: Path) -> None:
    async def main() -> str:
        async with engine(tmp_path, ScriptedProvider([crashes(), says("done")])) as sdk:
            request = await asked(sdk)
            for id in ("nosuch", "lost-999", "lost-1000000000000"):
                leave_answer(tmp_path, id, "retry")
            await sdk.answer("s", "retry")
            return request

    request = run(main())
    left = {path.name for path in answer_file(tmp_path, request).parent.iterdir()}
    stray = ("nosuch", "lost-999", "lost-1000000000000")
    assert left == {f"{request}.json", *(f"{id}.json.refused" for id in stray)}
    assert counted(tmp_path, "file_refused") == 3


@pytest.mark.parametrize("content", [b"not json", NOT_OFFERED], ids=["no json", "not offered"])
@pytest.mark.parametrize("verb", ["answer", "resume"])
def test_invalid_answer_does_not_prevent_a_valid_one_for_a_run_without_an_engine(
    tmp_path: Path, content: bytes, verb: str
) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes(), says("done")])) as sdk:
            request = await asked(sdk)
            file = answer_file(tmp_path, request)
            file.parent.mkdir()
            file.write_bytes(content.replace(b"ID", request.encode()))
            result = await (sdk.answer("s", "retry") if verb == "answer" else sdk.resume("s"))
        assert result is not None
        assert result.completed
        kept = load(file)
        assert (kept["request"], kept["by"]) == (request, "person")
        assert file.with_name(f"{file.name}.refused").exists()
        assert counted(tmp_path, "file_refused") == 1

    run(main())


def test_answer_that_comes_while_the_run_is_being_paused_is_taken_before_the_driver_leaves(
    tmp_path: Path,
) -> None:
    """It exists when the question and the pause are recorded."""

    def crash_and_answer(request: ExecuteRequest) -> ExecuteResult:
        leave_answer(tmp_path, "at_most_once-6", "resume", early=60)
        return crashes()(request)

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crash_and_answer, says("done")])) as sdk:
            assert (await sdk.run(ONCE, session="s")).completed

    run(main())
    assert counted(tmp_path, "request_answered") == counted(tmp_path, "session_continued") == 1


def test_answer_waits_for_a_driver_that_is_about_to_release_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes(), says("done")])) as sdk:
            request = await asked(sdk)
            leaving = JsonlLog(layout_of(tmp_path).log).open()
            answering = asyncio.create_task(sdk.answer("s", "retry"))
            await eventually(answer_file(tmp_path, request).exists)
            leaving.close()
            result = await answering
        assert result is not None
        assert result.completed

    run(main())


# -- before a driver is running


def test_answer_to_a_run_whose_engine_died_continues_it(tmp_path: Path) -> None:
    """The engine died between the question and the pause."""

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes()])) as sdk:
            request = await asked(sdk)
        log = run_dir(tmp_path) / "events.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        assert b"session_paused" in lines[-1]
        cut_log(tmp_path, lines[:-1])
        async with engine(tmp_path) as sdk:
            assert sdk.status("s").status == "interrupted"
            result = await sdk.answer("s", "retry")
        assert result is not None
        assert result.completed
        assert request in answer_file(tmp_path, request).read_text()

    run(main())
    assert counted(tmp_path, "request_answered") == counted(tmp_path, "request_resolved") == 1
    assert "session_paused" not in types(tmp_path)


def test_answer_left_for_a_paused_run_counts_when_an_engine_drives_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes()])) as sdk:
            request = await asked(sdk)
            leave_answer(tmp_path, request, "succeeded")
            result = await sdk.recover("s")
        assert result is not None
        assert result.completed

    run(main())


# -- who may answer what


def test_second_answer_is_refused_with_the_name_of_who_was_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes()])) as sdk:
            request = await asked(sdk)
            leave_answer(tmp_path, request, "cancel")
            with pytest.raises(
                AlreadyAnswered,
                match=f"request '{request}' of session 's' was already answered by anna: cancel",
            ):
                await sdk.answer("s", "retry", by="ben")

    run(main())


def test_answer_to_a_request_that_is_not_open_or_not_offered_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes()])) as sdk:
            request = await asked(sdk)
            with pytest.raises(InvalidAnswer, match=f"'sing' is not an option of request '{request}'"):
                await sdk.answer("s", "sing")
            with pytest.raises(UnknownRequest, match="has no open request 'other-1'"):
                await sdk.answer("s", "retry", request="other-1")
            await sdk.answer("s", "succeeded")
            with pytest.raises(AlreadyAnswered, match="already answered by person: succeeded"):
                await sdk.answer("s", "retry")
            assert not list(answer_file(tmp_path, request).parent.glob("*.refused"))

    run(main())


def test_agent_of_a_run_may_not_answer_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes()])) as sdk:
            request = await asked(sdk)
            run_id = sdk.status("s").state.run_id
        environ = {**ENVIRON, "AGENTFORGE_ATTEMPT": f"{run_id}/0/1/1/1"}
        async with engine(tmp_path, environ=environ) as agents:
            with pytest.raises(NotPermitted, match="must not answer it"):
                await agents.answer("s", "resume")
        assert not answer_file(tmp_path, request).exists()

    run(main())


def test_several_open_requests_have_to_be_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with blocks.engine(tmp_path, _both_crash()) as sdk:
            result = await sdk.run(duel(), session="s")
            first, second = result.requests
            with pytest.raises(InvalidRequest, match=f"several open requests: {first.id}, {second.id}"):
                await sdk.answer("s", "succeeded")
            result = await sdk.answer("s", "succeeded", request=second.id)
            assert result is not None
            assert [request.id for request in result.requests] == [first.id]
            result = await sdk.answer("s", "succeeded")
        assert result is not None
        assert result.completed

    run(main())


def _both_crash() -> dict[str, ScriptedProvider]:
    return {name: ScriptedProvider([crashes()], name=name) for name in ("claude", "codex")}


# -- other kinds of requests


def inject(project: Path, fact: f.RequestOpened) -> None:
    """As later parts of the engine will ask."""
    journal = Journal("s", JsonlLog(layout_of(project).log).open(), SystemClock())
    journal.record(fact, journal.state.cursor)
    journal.close()


APPROVAL = f.RequestOpened("approval-1", "approval", "deploy", "approval", "Deploy?", ("yes", "no"))


def test_resume_answers_the_escalations_that_offer_it_and_leaves_an_approval_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes(), crashes(), says("done")])) as sdk:
            await asked(sdk)
            inject(tmp_path, APPROVAL)
            result = await sdk.resume("s")
            assert result.status is RunStatus.AWAITING_APPROVAL
            assert result.requests[0].id == "approval-1"
            assert sdk.status("s").status == "awaiting_approval"
            assert load(run_dir(tmp_path) / "state.json")["status"] == "awaiting_approval"
            escalation = result.requests[1]
            continued = await sdk.answer("s", "yes", request="approval-1")
            assert continued is not None
            assert [request.id for request in continued.requests] == [escalation.id]
            assert continued.status is RunStatus.PAUSED
            assert (await sdk.resume("s")).completed

    run(main())
    assert load(answer_file(tmp_path, "approval-1"))["answer"] == "yes"


def test_default_counts_when_its_time_comes_in_a_run_that_waits(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock(hold=True)
        due = f.RequestOpened(
            "approval-1",
            "approval",
            "deploy",
            "approval",
            "Deploy?",
            ("yes", "cancel"),
            due_at=clock.now(),
            default="cancel",
        )
        async with engine(tmp_path, ScriptedProvider([crashes()]), clock=clock) as sdk:
            await asked(sdk)
            inject(tmp_path, due)
            result = await sdk.resume("s")
        assert (result.status, result.reason) == (RunStatus.ABORTED, "rejected by default")

    run(main())


# -- notes


def notes_project(project: Path, clock: FakeClock, seen: list[str]) -> Engine:
    """Each iteration uses up the runtime limit, so that a person is asked after it."""

    def slow(request: ExecuteRequest) -> ExecuteResult:
        seen.append(request.prompt)
        clock.advance(20)
        return says("x")(request)

    return engine(project, ScriptedProvider([slow]), clock=clock)


NOTED = pipeline(node(runs=9, prompt="<${CONTEXT}>", context="own"), guardrails={"max_runtime_seconds": 15})


def resumed_with(project: Path, *notes: str) -> tuple[list[str], RunResult]:
    """The prompts that the agent got, one after each note."""
    seen: list[str] = []

    async def main() -> RunResult:
        async with notes_project(project, FakeClock(hold=True), seen) as sdk:
            result = await sdk.run(NOTED, session="s")
            for note in notes:
                result = await sdk.resume("s", note)
        return result

    return seen, run(main())


def test_notes_of_several_resumes_reach_the_context_in_order(tmp_path: Path) -> None:
    seen, _ = resumed_with(tmp_path, "first", "second", "third")
    assert [prompt.strip() for prompt in seen] == [
        "<own>",
        "<own\nfirst>",
        "<own\nfirst\nsecond>",
        "<own\nfirst\nsecond\nthird>",
    ]


def test_oldest_notes_are_dropped_with_a_warning_when_all_are_too_much(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "agentforge.run"):
        seen, _ = resumed_with(tmp_path, "a" * 20_000, "b" * 10_000, "c" * 10_000)
    assert seen[2].strip() == f"<own\n{'a' * 20_000}\n{'b' * 10_000}>"
    assert seen[3].strip() == f"<own\n{'b' * 10_000}\n{'c' * 10_000}>"
    assert caplog.text.count("the oldest notes no longer fit into the context (32768 bytes in total)") == 1
    assert "dropped 1" in caplog.text


def test_note_that_never_fits_is_refused_before_anything_happens(tmp_path: Path) -> None:
    resumed_with(tmp_path, "x" * MAX_NOTES_BYTES)
    log = run_dir(tmp_path) / "events.jsonl"
    before = log.read_bytes()

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            with pytest.raises(InvalidRequest, match="the context must have at most 32768 bytes, got 32770"):
                await sdk.resume("s", "é" * (MAX_NOTES_BYTES // 2 + 1))
        assert log.read_bytes() == before
        assert sdk.status("s").status == "paused"

    run(main())


# -- what files say


def test_state_file_shows_open_requests_and_when_a_person_resumed(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes()])) as sdk:
            request = await asked(sdk)
            state = load(run_dir(tmp_path) / "state.json")
            assert state["resumed_at"] is None
            assert [entry["id"] for entry in state["requests"]] == [request]
            assert state["requests"][0]["question"].startswith("attempt 1 at iteration 1 of stage 'plan'")
            await sdk.answer("s", "retry")
            state = load(run_dir(tmp_path) / "state.json")
            assert state["resumed_at"] is None, "an answer isn't a resume"
            result = await sdk.resume("s")
            state = load(run_dir(tmp_path) / "state.json")
            assert state["resumed_at"] is not None
            assert [entry["id"] for entry in state["requests"]] == [result.requests[0].id]

    run(main())
