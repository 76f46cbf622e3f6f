"""Answers through the SDK: what they do, who may give them, and which are refused."""

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.engine.plans import NOON
from tests.sdk import blocks
from tests.sdk.approvals import awaited, events, started, with_approval
from tests.sdk.projects import ENVIRON, Gate, cut_log, engine, node, pipeline, run, run_dir, types

from agentforge.model.errors import (
    AlreadyAnswered,
    ForeignRequest,
    InvalidAnswer,
    NotPermitted,
    RequestClosed,
    UnknownRequest,
    UntrustedRun,
)
from agentforge.model.plan import Approval
from agentforge.model.request import Request
from agentforge.model.status import RunStatus
from agentforge.runtime.answers import Answer, give_answer
from agentforge.sdk.engine import Engine
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import says
from agentforge.views.results import RunResult

LIMITED = pipeline(node(), guardrails={"max_runtime_seconds": 100})


async def approved(sdk: Engine, **options: Any) -> RunResult:
    result = await sdk.answer("s", "approve", **options)
    assert result is not None
    return result


# -- what they do


def test_approval_completes_the_stage_without_running_it_again(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("done")])
        async with engine(tmp_path, provider) as sdk:
            request = await awaited(sdk)
            assert (request.kind, request.options) == ("approval", ("approve", "reject", "abort"))
            assert "node_complete" not in types(tmp_path)
            assert (await approved(sdk, by="anna", text="fine")).completed
        assert len(provider.calls) == 1

    run(main())
    (said,) = events(tmp_path, "request_answered")
    assert (said.fact.answer, said.fact.by, said.fact.text) == ("approve", "anna", "fine")


def test_rejection_with_feedback_visits_the_stage_again(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("first"), says("second")])
        async with engine(tmp_path, provider) as sdk:
            first = await awaited(sdk)
            result = await sdk.answer("s", "reject", text="use tabs", by="anna")
            assert result is not None
            (second,) = result.requests
            assert (second.kind, second.id != first.id) == ("approval", True)
            assert (await approved(sdk)).completed
        assert len(provider.calls) == 2

    run(main())
    assert [event.fact.run for event in events(tmp_path, "node_start")] == [1, 2]
    assert events(tmp_path, "node_restart")[0].fact.feedback.text == "use tabs"


@pytest.mark.parametrize(("answer", "text"), [("reject", ""), ("reject", "  "), ("abort", "no use")])
def test_rejection_without_feedback_and_abort_cancel_the_run(tmp_path: Path, answer: str, text: str) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            result = await sdk.answer("s", answer, text=text, by="anna")
        assert result is not None
        assert (result.status, result.reason) == (
            RunStatus.ABORTED,
            text if text.strip() else "rejected by anna",
        )

    run(main())


def test_run_that_was_started_with_approve_does_not_ask(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            assert (await started(sdk, approve=True)).completed

    run(main())
    assert events(tmp_path, "request_answered")[0].fact.by == "--yes"


def test_branches_ask_separately_and_are_answered_in_any_order(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(8)]

    async def main() -> None:
        providers = {name: ScriptedProvider([says("done")], name=name) for name in names}
        async with blocks.engine(tmp_path, providers) as sdk:
            result = await started(sdk, what=pipeline(blocks.block(names, blocks.inner())))
            asked = {request.branch: request for request in sdk.requests("s")}
            assert sorted(map(str, asked)) == names
            assert {entry.stage for entry in asked.values()} == {"draft"}
            for name in reversed(names):
                answered = await sdk.answer("s", "approve", request=asked[name].request.id)
                assert answered is not None
                result = answered
        assert result.completed

    run(main())
    assert types(tmp_path).count("request_resolved") == 8


def test_answer_continues_a_run_whose_engine_died_before_it_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
        lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
        assert b"awaiting_approval" in lines[-1]
        cut_log(tmp_path, lines[:-1])
        async with engine(tmp_path) as sdk:
            assert sdk.status("s").status == "interrupted"
            assert (await approved(sdk)).completed

    run(main())


def test_approval_that_was_open_for_two_days_uses_no_runtime(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock(hold=True)
        async with engine(tmp_path, clock=clock) as sdk:
            await awaited(sdk, what=LIMITED)
            clock.advance(2 * 24 * 3600)
            result = await sdk.answer("s", "reject", text="again")
            assert result is not None
            assert [request.kind for request in result.requests] == ["approval"]
            assert (await approved(sdk)).completed

    run(main())


def test_feedback_in_many_rounds_leaves_the_state_bounded(tmp_path: Path) -> None:
    rounds = 30

    async def main() -> int:
        async with engine(tmp_path, ScriptedProvider([says("x")])) as sdk:
            await awaited(sdk, Approval(rounds=1000))
            size = 0
            for number in range(rounds):
                await sdk.answer("s", "reject", text=f"round {number:04d} " + "x" * 2000)
                size = size or (run_dir(tmp_path) / "state.json").stat().st_size
            grown = (run_dir(tmp_path) / "state.json").stat().st_size - size
            state = sdk.status("s").state
            assert state.node is not None
            assert (state.node.run, len(state.requests)) == (rounds + 1, 1)
            return grown

    assert run(main()) < 20_000


# -- which are refused


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_second_answer_is_refused_with_who_answered_what_and_when(tmp_path: Path, answer: str) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            request = await awaited(sdk)
            await approved(sdk, by="anna")
            at = events(tmp_path, "request_answered")[0].at
            said = f"request '{request.id}' of session 's' was already answered by anna: approve"
            with pytest.raises(AlreadyAnswered, match=re.escape(f"{said} ({at:%Y-%m-%d %H:%M:%S} UTC)")):
                await sdk.answer("s", answer, request=request.id, text="x", by="ben")

    run(main())
    assert types(tmp_path).count("request_answered") == 1


def test_answer_that_no_engine_applied_counts_and_recovery_continues_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            request = await awaited(sdk)
            _leave(sdk, request, "approve")
            with pytest.raises(AlreadyAnswered, match="answered by anna: approve") as error:
                await sdk.answer("s", "approve")
            assert error.value.hint.startswith("`agentforge recover s`")
            assert sdk.runs.recoverable() == ["s"]
            result = await sdk.recover("s")
            assert result is not None
            assert result.completed
            assert await sdk.recover("s") is None

    run(main())


def test_answer_counts_although_the_clock_is_behind_the_question(tmp_path: Path) -> None:
    async def main() -> bool:
        async with engine(tmp_path, clock=FakeClock(NOON + timedelta(hours=1))) as sdk:
            await awaited(sdk)
        async with engine(tmp_path, clock=FakeClock(NOON)) as sdk:
            return (await approved(sdk)).completed

    assert run(main())


def test_requests_of_a_run_that_was_replaced_are_not_listed(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            await started(sdk, force=True)
            return [each.session for each in sdk.requests()]

    assert run(main()) == ["s"]


@pytest.mark.parametrize("damage", [lambda line: b"x" * len(line), lambda line: b"{}", None])
def test_a_look_at_the_requests_of_a_damaged_run_changes_nothing(
    tmp_path: Path, damage: Callable[[bytes], bytes] | None
) -> None:
    """A person decides about the damage first, although an answer is due."""

    async def main() -> tuple[dict[str, bytes], bool]:
        async with engine(tmp_path) as sdk:
            request = await awaited(sdk)
            _leave(sdk, request, "approve")
        log = run_dir(tmp_path) / "events.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        if damage is not None:
            log.write_bytes(b"".join((*lines[:2], damage(lines[2][:-1]) + b"\n", *lines[3:])))
        async with engine(tmp_path) as sdk:
            before = files_of_the_run()
            open_ones = sdk.requests()
            assert len(open_ones) == (damage is not None)
            return before, before == files_of_the_run()

    def files_of_the_run() -> dict[str, bytes]:
        return {name: (run_dir(tmp_path) / name).read_bytes() for name in ("events.jsonl", "state.json")}

    assert run(main())[1] is (damage is not None)


def _leave(sdk: Engine, request: Request, answer: str, text: str = "") -> None:
    """As a process that died right after it had answered."""
    state = sdk.status("s").state
    given = Answer(request.id, answer, "anna", state.run_id, request.opened_at + timedelta(seconds=1), text)
    assert give_answer(sdk.runs.layout("s"), given) is None


def test_requests_of_other_runs_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            request = await awaited(sdk)
            await sdk.run(pipeline(), session="other")
            with pytest.raises(
                ForeignRequest, match=f"'{request.id}' belongs to session 's', not to 'other'"
            ):
                await sdk.answer("other", "approve", request=request.id)
            with pytest.raises(
                UnknownRequest, match="session 's' has no open request 'approval-99'"
            ) as error:
                await sdk.answer("s", "approve", request="approval-99")
            assert error.value.hint == f"open requests: {request.id}"
            with pytest.raises(UnknownRequest, match="session 'other' has no open requests"):
                await sdk.answer("other", "approve")
            with pytest.raises(InvalidAnswer, match="'sing' is not an option") as refused:
                await sdk.answer("s", "sing")
            assert refused.value.hint == "use one of: approve, reject, abort"
            with pytest.raises(InvalidAnswer, match="at most 32768 bytes"):
                await sdk.answer("s", "reject", text="x" * 40_000)
            assert not (run_dir(tmp_path) / "answers").exists()
            await sdk.cancel("s")
            with pytest.raises(RequestClosed, match="is closed: the session is cancelled"):
                await sdk.answer("s", "approve", request=request.id)

    run(main())


@pytest.mark.parametrize(("cut_after", "command"), [("answered", "recover"), ("continued", "status")])
def test_second_answer_is_told_what_applies_the_first(tmp_path: Path, cut_after: str, command: str) -> None:
    """The engine died right after the first answer, or while it continued the run."""

    async def main() -> str:
        async with engine(tmp_path) as sdk:
            request = await awaited(sdk)
            await approved(sdk)
        lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
        end = [kind.endswith(cut_after) for kind in types(tmp_path)].index(True) + 1
        cut_log(tmp_path, lines[:end])
        async with engine(tmp_path) as sdk:
            with pytest.raises(AlreadyAnswered) as error:
                await sdk.answer("s", "reject", request=request.id)
        return error.value.hint

    assert run(main()).startswith(f"`agentforge {command} s`")


def test_request_that_was_withdrawn_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            request = await awaited(sdk)
            result = await sdk.restart_stage("s", "another idea")
            assert result is not None
            assert [known.kind for known in result.requests] == ["approval"]
            with pytest.raises(RequestClosed, match="is closed: it was withdrawn"):
                await sdk.answer("s", "approve", request=request.id)

    run(main())


@pytest.mark.requirement("NFR-014")
def test_value_of_a_secret_in_feedback_is_not_stored(tmp_path: Path) -> None:
    environ = {**ENVIRON, "DEPLOY_TOKEN": "hunter2-hunter2"}

    async def main() -> None:
        async with engine(tmp_path, environ=environ) as sdk:
            await awaited(sdk)
            await sdk.answer("s", "reject", text="use hunter2-hunter2")
            await sdk.steer("s", "also hunter2-hunter2")
            await approved(sdk)

    run(main())
    stored = [path.read_bytes() for path in run_dir(tmp_path).rglob("*") if path.is_file()]
    assert not any(b"hunter2" in content for content in stored if b"prompt" not in content)
    assert events(tmp_path, "request_answered")[0].fact.text == "use ${secret:DEPLOY_TOKEN}"
    assert events(tmp_path, "note_added")[0].fact.text == "also ${secret:DEPLOY_TOKEN}"


def test_value_of_a_secret_in_the_reason_of_a_restart_is_not_stored(tmp_path: Path) -> None:
    environ = {**ENVIRON, "DEPLOY_TOKEN": "hunter2-hunter2"}

    async def main() -> None:
        async with engine(tmp_path, environ=environ) as sdk:
            await awaited(sdk)
            await sdk.restart_stage("s", "not hunter2-hunter2")

    run(main())
    assert events(tmp_path, "restart_requested")[0].fact.reason == "not ${secret:DEPLOY_TOKEN}"


def test_value_of_a_secret_in_the_reason_of_a_cancel_is_not_stored(tmp_path: Path) -> None:
    environ = {**ENVIRON, "DEPLOY_TOKEN": "hunter2-hunter2"}

    async def main() -> None:
        async with engine(tmp_path, environ=environ) as sdk:
            await awaited(sdk)
            await sdk.cancel("s", "it is hunter2-hunter2")

    run(main())
    assert events(tmp_path, "cancel_requested")[0].fact.reason == "it is ${secret:DEPLOY_TOKEN}"


def test_value_of_a_secret_in_an_answer_that_was_left_is_not_recorded_by_a_look(tmp_path: Path) -> None:
    environ = {**ENVIRON, "DEPLOY_TOKEN": "hunter2-hunter2"}

    async def main() -> None:
        async with engine(tmp_path, environ=environ) as sdk:
            _leave(sdk, await awaited(sdk), "reject", text="not hunter2-hunter2")
            assert sdk.requests("s") == []

    run(main())
    assert events(tmp_path, "request_answered")[0].fact.text == "not ${secret:DEPLOY_TOKEN}"


def test_value_of_a_secret_in_the_definition_is_not_stored(tmp_path: Path) -> None:
    environ = {**ENVIRON, "DEPLOY_TOKEN": "hunter2-hunter2"}
    (tmp_path / "p.yaml").write_text(
        "name: p\nnodes: [{id: plan, prompt: use hunter2-hunter2, provider: scripted, runs: 1}]\n"
    )

    async def main() -> None:
        async with engine(tmp_path, environ=environ) as sdk:
            assert (await sdk.run(str(tmp_path / "p.yaml"), session="s")).completed

    run(main())
    for name in ("pipeline.yaml", "plan.json", "events.jsonl"):
        assert "hunter2" not in (run_dir(tmp_path) / name).read_text()


# -- who may answer

ELSEWHERE = {**ENVIRON, "AGENTFORGE_ATTEMPT": "another/0/1/1/1"}


def test_only_a_person_answers_unless_the_approval_accepts_agents(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            with pytest.raises(NotPermitted, match="must be answered by a person"):
                await sdk.answer("s", "approve", as_agent=True)
        async with engine(tmp_path, environ=ELSEWHERE) as agents:
            with pytest.raises(NotPermitted, match="must be answered by a person"):
                await agents.answer("s", "approve")
        async with engine(tmp_path) as sdk:
            await started(sdk, Approval(by="agent"), force=True)
        async with engine(tmp_path, environ=ELSEWHERE) as agents:
            assert (await approved(agents)).completed

    run(main())
    assert events(tmp_path, "request_answered")[0].fact.by == "agent"


OWN = "an agent of session 's' must not"
CALLS: dict[str, tuple[str, Any]] = {
    "answer": (OWN, lambda sdk: sdk.answer("s", "approve")),
    "resume": (OWN, lambda sdk: sdk.resume("s")),
    "approve": ("only a person may", lambda sdk: sdk.resume("s", approve=True)),
    "cancel": ("only a person may", lambda sdk: sdk.cancel("s")),
    "pause": ("only a person may", lambda sdk: sdk.pause("s")),
    "steer": ("only a person may", lambda sdk: sdk.steer("s", "hello")),
    "restart a stage": ("only a person may", lambda sdk: sdk.restart_stage("s")),
}


@pytest.mark.parametrize("verb", CALLS)
def test_agent_of_the_run_may_do_nothing_to_it(tmp_path: Path, verb: str) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk, Approval(by="agent"))
            run_id = sdk.status("s").state.run_id
        before = (run_dir(tmp_path) / "events.jsonl").read_bytes()
        own = {**ENVIRON, "AGENTFORGE_ATTEMPT": f"{run_id}/0/1/1/1"}
        refused, call = CALLS[verb]
        async with engine(tmp_path, environ=own) as agents:
            with pytest.raises(NotPermitted, match=f"{refused} {verb}"):
                await call(agents)
        assert (run_dir(tmp_path) / "events.jsonl").read_bytes() == before
        assert not (run_dir(tmp_path) / "answers").exists()
        assert not (run_dir(tmp_path) / "control").exists()

    run(main())


# -- what agents of other runs may do


def test_agent_starts_runs_and_resumes_one_without_requests(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("tried", "error", reason="no idea"), says("done", "stop")])
        async with engine(tmp_path, provider, environ=ELSEWHERE) as agents:
            failed = await agents.run(pipeline(node(retry={"max_attempts": 1})), session="s")
            assert failed.status is RunStatus.FAILED
            assert (await agents.resume("s")).completed

    run(main())
    assert [event.fact.by for event in events(tmp_path, "session_resumed")] == ["agent"]


def test_agent_resumes_an_interrupted_run_as_recovery_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(node()), session="s")
        cut_log(tmp_path, (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)[:1])
        async with engine(tmp_path, environ=ELSEWHERE) as agents:
            assert (await agents.resume("s")).completed

    run(main())
    assert [event.fact.by for event in events(tmp_path, "session_recovered")] == ["recovery"]


def test_agent_does_not_resume_what_a_person_paused(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            running = asyncio.create_task(sdk.run(pipeline(node(runs=2)), session="s"))
            await gate.working.wait()
            await sdk.pause("s")
            gate.finish.set()
            assert (await running).status is RunStatus.PAUSED
        async with engine(tmp_path, environ=ELSEWHERE) as agents:
            with pytest.raises(NotPermitted, match="only a person may resume it"):
                await agents.resume("s")
            with pytest.raises(NotPermitted, match="only a person may resume it"):
                agents.validate_resume("s")

    run(main())


# -- the list


def test_requests_lists_those_of_all_runs_oldest_first(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock(hold=True)
        async with engine(tmp_path, clock=clock) as sdk:
            for session in ("first", "second", "third"):
                clock.advance(60)
                compiled = sdk.compile(pipeline(node()), session=session)
                await sdk.start(with_approval(compiled))
            await sdk.answer("second", "approve")
            (run_dir(tmp_path, "broken")).mkdir()
            (run_dir(tmp_path, "broken") / "events.jsonl").write_bytes(b"no log\n")
            found = sdk.requests()
            assert [(each.session, each.stage, each.status) for each in found] == [
                ("first", "plan", "awaiting_approval"),
                ("third", "plan", "awaiting_approval"),
            ]
            assert all(each.is_own and each.branch is None for each in found)
            assert [each.session for each in sdk.requests("third")] == ["third"]
            assert sdk.requests("second") == []

    run(main())


def test_requests_of_a_run_that_was_not_started_here_are_marked(tmp_path: Path) -> None:
    stranger = {**ENVIRON, "XDG_STATE_HOME": str(tmp_path / "elsewhere")}

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
        async with engine(tmp_path, environ=stranger) as sdk:
            (found,) = sdk.requests()
            assert not found.is_own
            with pytest.raises(UntrustedRun):
                await sdk.answer("s", "approve")
            sdk.trust("s")
            assert (await approved(sdk)).completed

    run(main())


def test_blocking_engine_answers_too(tmp_path: Path) -> None:
    providers = {"scripted": ScriptedProvider([says("done")])}
    with SyncEngine(tmp_path, providers=providers, environ=ENVIRON) as sdk:
        sdk.start(with_approval(sdk.compile(pipeline(node()), session="s")))
        (asked,) = sdk.requests()
        sdk.steer("s", "be quick")
        assert sdk.restart_stage("s") is not None
        (asked,) = sdk.requests("s")
        result = sdk.answer("s", "approve", request=asked.request.id)
    assert result is not None
    assert result.completed
