"""Agent sessions are resumed after failures, and work isn't done twice."""

import json
from pathlib import Path

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import fails, says, writes_nothing

from .projects import ENVIRON, engine, load, node, pipeline, run, run_dir

CRASHED = Failure(FailureKind.PROVIDER_CRASHED, "it died")


def used(session: str | None, tokens: int = 10) -> Usage:
    return Usage(input_tokens=tokens, agent_session=session)


def starts(made: Engine) -> list[tuple[int, str | None]]:
    facts = [event.fact for event in made.events("s")]
    return [(fact.attempt, fact.resume) for fact in facts if isinstance(fact, f.AttemptStarted)]


def test_a_retry_resumes_the_agent_session_and_notifies_the_agent(tmp_path: Path) -> None:
    provider = ScriptedProvider([fails(CRASHED, usage=used("abc")), says("done")], resumes=True)

    async def main() -> None:
        async with engine(tmp_path, provider, clock=FakeClock()) as made:
            assert (await made.run(pipeline(), session="s")).status == "completed"
            assert starts(made) == [(1, None), (2, "abc")]

    run(main())
    first, second = provider.calls
    assert (first.resume, first.prompt) == ("", "do it")
    assert second.resume == "abc"
    assert "it wasn't finished" in second.prompt
    assert second.prompt.endswith("do it")


def test_a_provider_without_resume_starts_a_new_session(tmp_path: Path) -> None:
    provider = ScriptedProvider([fails(CRASHED, usage=used("abc")), says("done")])

    async def main() -> None:
        async with engine(tmp_path, provider, clock=FakeClock()) as made:
            assert (await made.run(pipeline(), session="s")).status == "completed"
            assert starts(made) == [(1, None), (2, None)]

    run(main())
    assert provider.calls[1].prompt == "do it"


def test_a_missing_result_is_asked_for_in_the_same_session(tmp_path: Path) -> None:
    def forgets(request: ExecuteRequest) -> ExecuteResult:
        return replace(writes_nothing("I am done")(request), usage=used("abc"))

    provider = ScriptedProvider([forgets, says("done")], resumes=True)

    async def main() -> None:
        async with engine(tmp_path, provider, clock=FakeClock()) as made:
            assert (await made.run(pipeline(), session="s")).status == "completed"
            assert starts(made) == [(1, None), (2, "abc")]

    run(main())


def test_at_most_once_pauses_and_asks_before_work_is_done_again(tmp_path: Path) -> None:
    provider = ScriptedProvider([fails(CRASHED), says("done")])

    async def main() -> None:
        async with engine(tmp_path, provider, clock=FakeClock()) as made:
            once = pipeline(node(semantics="at_most_once"))
            result = await made.run(once, session="s")
            assert (result.status, result.reason) == ("paused", "at_most_once")
            (request,) = made.status("s").state.requests
            assert "it died" in request.question
            assert len(provider.calls) == 1
            assert (await made.resume("s")).status == "completed"
            assert len(provider.calls) == 2

    run(main())


def test_at_most_once_asks_when_an_engine_died_with_the_attempt(tmp_path: Path) -> None:
    """A log that ends with an attempt under way, as a kill leaves it."""
    provider = ScriptedProvider([says("done")])

    async def main() -> None:
        async with engine(tmp_path, provider) as made:
            await made.run(pipeline(node(semantics="at_most_once")), session="s")
        log = run_dir(tmp_path) / "events.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        started = next(i for i, line in enumerate(lines) if json.loads(line)["type"] == "attempt_start")
        log.write_bytes(b"".join(lines[: started + 1]))
        async with engine(tmp_path, provider) as made:
            result = await made.recover("s", accept_damage=True)
            assert result is not None
            assert (result.status, result.reason) == ("paused", "at_most_once")
            assert len(provider.calls) == 1

    run(main())


def test_usage_of_a_failed_attempt_is_kept_with_its_session(tmp_path: Path) -> None:
    provider = ScriptedProvider([fails(CRASHED, usage=used("abc", 7)), says("done", usage=used("abc", 5))])

    async def main() -> None:
        async with Engine(
            tmp_path, providers={"scripted": provider}, environ=ENVIRON, clock=FakeClock()
        ) as made:
            await made.run(pipeline(), session="s")
            assert made.status("s").state.spending.input_tokens == 12

    run(main())
    state = load(run_dir(tmp_path) / "state.json")
    assert state["status"] == "completed"
