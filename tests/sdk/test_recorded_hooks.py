"""A recorded run with hooks: its replay calls no service, runs no script and asks no person."""

from pathlib import Path
from typing import Any

from tests.sdk.blocks import block, inner
from tests.sdk.hooked import hook_facts
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run, run_dir
from tests.sdk.test_recording import course
from tests.webhook_server import Reply, WebhookServer, serving

from agentforge.model import facts as f
from agentforge.sdk.engine import Engine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import says
from agentforge.views.results import RunResult

SCRIPT = 'echo "$AGENTFORGE_HOOK" >> ../calls; echo "$AGENTFORGE_EVENT"'
REPLIES = (
    Reply(500),
    Reply(body='{"context": "more tests"}'),
    Reply(body='{"action": "pause", "reason": "look"}'),
)


def reviewed(url: str) -> dict[str, Any]:
    """A pipeline that calls a service after each iteration, scripts, and a person."""
    return pipeline(
        node("draft", runs=2),
        node("publish", checkpoint="release"),
        hooks={
            "session_start": [{"action": "script", "script": SCRIPT}],
            "iteration_end": [{"stage": "draft", "action": "webhook", "url": url}],
            "stage_end": [
                {"stage": "publish", "action": "confirm", "message": "Published?"},
                {"stage": "publish", "action": "script", "script": SCRIPT},
            ],
            "session_end": [{"action": "script", "script": f"{SCRIPT}; exit 3", "on_failure": "continue"}],
        },
    )


def recorded(project: Path, server: WebhookServer) -> RunResult:
    """Paused by the service; then the checkpoint, then `confirm`."""
    project.mkdir()

    async def main() -> RunResult:
        async with engine(project, clock=FakeClock()) as sdk:
            result = await sdk.run(reviewed(server.url), session="s", record=True)
            for reason, answer in (
                ("hook_pause", "continue"),
                ("checkpoint", "approve"),
                ("hook_confirm", "continue"),
            ):
                assert [request.reason for request in result.requests] == [reason]
                driven = await sdk.answer("s", answer, by="alice")
                assert driven is not None
                result = driven
            return result

    return run(main())


def replayed(project: Path, cassette: Path) -> tuple[RunResult, list[f.AnyFact]]:
    project.mkdir(exist_ok=True)

    async def main() -> tuple[RunResult, list[f.AnyFact]]:
        async with Engine(project, environ=ENVIRON, clock=FakeClock()) as sdk:
            return await sdk.replay(str(cassette), session="s"), hook_facts(sdk)

    return run(main())


def said(facts: list[f.AnyFact]) -> list[tuple[Any, ...]]:
    """What the hooks answered, without keys and times."""
    answers = (fact for fact in facts if isinstance(fact, f.HookCompleted | f.HookFailed | f.HookTimedOut))
    return [
        (fact.TYPE, fact.hook, fact.attempt, getattr(fact, "context", ""), getattr(fact, "message", ""))
        for fact in answers
    ]


def test_a_replay_plays_the_answers_of_hooks(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(*REPLIES) as server:
        assert recorded(first, server).completed
    calls = (tmp_path / "calls").read_text()
    assert (len(server.received), len(calls.splitlines())) == (3, 3)
    result, facts = replayed(second, run_dir(first) / "cassette.jsonl")
    assert result.completed, result
    assert len(server.received) == 3, "nothing was sent"
    assert (tmp_path / "calls").read_text() == calls, "no script was run"

    async def main() -> list[f.AnyFact]:
        async with engine(first) as sdk:
            return hook_facts(sdk)

    assert said(facts) == said(run(main()))
    assert ("hook_failed", "session_end-1", 1, "", "exit status 3: session_end") in said(facts)
    assert course(second, "s") == course(first, "s")


def test_check_of_a_session_and_of_its_cassette_follows_the_answers_of_hooks(tmp_path: Path) -> None:
    project = tmp_path / "first"
    with serving(*REPLIES) as server:
        assert recorded(project, server).completed

    async def main() -> None:
        async with engine(project) as sdk:
            for source in ("s", str(run_dir(project) / "cassette.jsonl")):
                compared = sdk.rehearse(source, reviewed(server.url))
                assert compared.is_same, compared.rehearsal.difference
                kinds = [step.what for step in compared.rehearsal.now]
                assert (kinds.count("hook"), kinds.count("hook_answer")) == (7, 7)
            changed = reviewed(server.url)
            del changed["hooks"]["session_start"]
            difference = sdk.rehearse("s", changed).rehearsal.difference
            assert difference is not None
            assert (difference.past.what, difference.past.detail) == ("hook", "session_start-1")

    run(main())
    assert len(server.received) == 3


def test_a_hook_without_a_recorded_answer_fails(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(*REPLIES) as server:
        assert recorded(first, server).completed
    cassette = run_dir(first) / "cassette.jsonl"
    lines = [
        line
        for line in cassette.read_text().splitlines()
        if '"session_start-1"' not in line or '"plan"' in line
    ]
    cassette.write_text("\n".join(lines) + "\n")
    result, facts = replayed(second, cassette)
    assert (result.status, result.reason) == ("paused", "hook_script_failed")
    assert said(facts)[0][-1] == "the cassette has no answer of this hook at the run"


def test_hooks_of_the_branches_of_a_block_are_replayed_apart(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    script = {"action": "script", "script": 'echo "$AGENTFORGE_EVENT of $AGENT_PIPELINES_STAGE"; date +%N'}
    points = ("stage_start", "iteration_end", "parallel_provider_start", "parallel_provider_end")
    pause = {"action": "pause", "message": "?"}
    duel = pipeline(
        block(["scripted", "other"], inner("plan")),
        hooks={point: [script] for point in points} | {"parallel_provider_end": [script, pause]},
    )

    async def main() -> list[f.AnyFact]:
        providers = {name: ScriptedProvider([says("done")]) for name in ("scripted", "other")}
        async with Engine(first, providers=providers, environ=ENVIRON) as sdk:
            result = await sdk.run(duel, session="s", record=True)
            while result.requests:
                driven = await sdk.answer("s", "continue", request=result.requests[0].id)
                assert driven is not None
                result = driven
            assert result.completed
            return hook_facts(sdk)

    facts = run(main())
    result, again = replayed(second, run_dir(first) / "cassette.jsonl")
    assert result.completed, result
    assert sorted(said(again)) == sorted(said(facts))
    assert len({answer[3] for answer in said(facts)}) > 4
