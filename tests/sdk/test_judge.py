"""The judge module end to end: what it is asked, what its answer means, what its failures cost."""

import asyncio
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.attempt_run import lives
from tests.sdk.blocks import block, branch_dir, inner
from tests.sdk.projects import ENVIRON, eventually, load, node, pipeline, run, run_dir, types

from agentforge.adapters.providers.command import CommandProvider
from agentforge.app.providers.readiness import Readiness
from agentforge.model.errors import DefinitionError, ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Usage
from agentforge.ports.provider import ExecuteRequest, ExecuteResult, Provider
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider, assert_iteration_count
from agentforge.testing.mock_sessions import ObservedSession, mock_session
from agentforge.testing.scripted_provider import Act, crashes, fails, raises, says
from agentforge.views.results import RunResult

STOP = '{"stop": true, "reason": "nothing new", "confidence": 0.8}'
RESUME = '{"stop": false, "reason": "more to find", "confidence": 0.6}'


def answers(text: str) -> Act:
    return lambda _: ExecuteResult(output=text)


def judged(most: int = 6, **termination: Any) -> dict[str, Any]:
    """A stage that the judge may end with one word, unless it is said otherwise."""
    return node(runs=most, termination={"type": "judgment", "consensus": 1, "max": most, **termination})


def engine(project: Path, judge: Provider | None, **options: Any) -> Engine:
    """`claude` is the judge for every provider."""
    worker = ScriptedProvider(lambda request: says(f"did {request.iteration}"))
    cast: dict[str, Provider] = {"scripted": worker}
    if judge is not None:
        cast["claude"] = judge
    return Engine(project, providers=cast, **{"environ": ENVIRON, **options})


def go(project: Path, judge: Provider | None, *nodes: dict[str, Any], **options: Any) -> RunResult:
    async def main() -> RunResult:
        async with engine(project, judge, **options) as sdk:
            return await sdk.run(pipeline(*(nodes or (judged(),))), session="s")

    return run(main())


def scripted(*acts: Act, **options: Any) -> ScriptedProvider:
    return ScriptedProvider(list(acts), name="claude", **options)


def judgments(project: Path, key: str = "judge_complete") -> list[dict[str, Any]]:
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    return [event["data"] for event in map(json.loads, lines) if event["type"] == key]


def iteration(project: Path, number: int = 1) -> Path:
    return run_dir(project) / "stage-00-plan" / "iterations" / f"{number:03d}"


# -- what it says


def test_judge_returns_valid_json_and_its_decision_is_used(tmp_path: Path) -> None:
    judge = scripted(answers(RESUME), answers(STOP))
    result = go(tmp_path, judge)
    assert result.completed
    assert_iteration_count(ObservedSession(tmp_path, "s"), 2)
    assert judgments(tmp_path, "judge_start")[0] == {"provider": "claude", "model": "haiku"}
    first, second = judgments(tmp_path)
    assert (first["status"], first["result"]["stop"]) == ("success", False)
    assert second["result"] == {"stop": True, "reason": "nothing new", "confidence": 0.8}
    done = judgments(tmp_path, "node_complete")[0]
    assert done["reason"] == "Consensus reached: 1 consecutive agents agree to stop\n  Reason: nothing new"


def test_judge_output_is_written_to_judge_json_and_judge_log(tmp_path: Path) -> None:
    go(tmp_path, scripted(answers(f"```json\n{STOP}\n```")))
    assert load(iteration(tmp_path) / "judge.json") == json.loads(STOP)
    assert (iteration(tmp_path) / "judge.log").read_text() == f"```json\n{STOP}\n```\n"


def test_judge_returns_json_wrapped_in_markdown_fence_which_is_stripped(tmp_path: Path) -> None:
    go(tmp_path, scripted(answers(f"Sure:\n```json\n{STOP}\n```\n")))
    assert_iteration_count(ObservedSession(tmp_path, "s"), 1)


def test_judge_returns_invalid_json_which_stops_nothing_and_crashes_nothing(tmp_path: Path) -> None:
    judge = scripted(answers("I would stop."), answers(STOP))
    assert go(tmp_path, judge).completed
    first = judgments(tmp_path)[0]
    assert (first["status"], first["result"]["stop"], first["result"]["reason"]) == (
        "failed",
        False,
        "invalid_json",
    )
    assert len(judge.calls) == 2, "what can't be read isn't asked for again"
    why = "its answer is not JSON in the requested form: 'I would stop.'"
    assert first["error"] == why
    assert load(iteration(tmp_path) / "judge.json") == {**first["result"], "confidence": 0.0, "error": why}
    assert (iteration(tmp_path) / "judge.log").read_text() == "I would stop.\n"


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (crashes(), "exit status 1"),
        (raises(RuntimeError("no network")), "claude raised RuntimeError: no network"),
        (
            lambda _: ExecuteResult(failure=Failure(FailureKind.PROVIDER_AUTH, "run `claude login`")),
            "run `claude login`",
        ),
    ],
    ids=["exits", "raises", "not logged in"],
)
def test_judge_invocation_fails_is_retried_once_and_then_invoke_failed(
    tmp_path: Path, fails: Act, why: str
) -> None:
    judge = scripted(fails, fails, answers(STOP))
    assert go(tmp_path, judge).completed
    reasons = [(one["status"], one["result"]["reason"], one.get("attempt", 1)) for one in judgments(tmp_path)]
    assert reasons == [
        ("failed", "invoke_failed", 1),
        ("failed", "invoke_failed", 2),
        ("success", "nothing new", 1),
    ]
    assert_iteration_count(ObservedSession(tmp_path, "s"), 2)
    assert [one.get("error") for one in judgments(tmp_path)] == [why, why, None]
    assert load(iteration(tmp_path) / "judge.json")["error"] == why
    summary = ObservedSession(tmp_path, "s").info().summary
    assert (summary.judge_failures, summary.judge_error) == (2, why)


def test_judge_that_fails_three_times_in_a_row_is_skipped_entirely(tmp_path: Path) -> None:
    judge = scripted(answers("hm"))
    result = go(tmp_path, judge, judged(6))
    assert result.completed, "a judge never fails the stage"
    assert len(judge.calls) == 3
    reasons = [(one["status"], one["result"]["reason"]) for one in judgments(tmp_path)]
    assert reasons == [("failed", "invalid_json")] * 3 + [("skipped", "judge_unreliable")] * 3
    assert judgments(tmp_path, "node_complete")[0]["reason"] == "max_iterations"


def test_judge_failures_are_persisted_in_the_state_file_for_resume(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, scripted(answers("hm"))) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(judged(400, min_iterations=1)), session="s"))
            await eventually(lambda: _count(tmp_path, "judge_complete") >= 2)
            await sdk.pause("s")
            assert (await going).status == "paused"
        before = load(run_dir(tmp_path) / "state.json")["stages"][0]["judge_failures"]
        assert before >= 2
        judge = scripted(answers("hm"))
        async with engine(tmp_path, judge) as sdk:
            assert (await sdk.resume("s")).completed
        assert len(judge.calls) == 3 - before, "the failures before the pause count"

    run(main())


def _count(project: Path, kind: str) -> int:
    try:
        return types(project).count(kind)
    except (FileNotFoundError, ValueError):
        return 0


def test_consensus_and_min_iterations_are_respected(tmp_path: Path) -> None:
    judge = scripted(answers(STOP))
    go(tmp_path, judge, judged(9, min_iterations=3, consensus=2))
    assert [call.iteration for call in judge.calls] == [3, 4]
    assert_iteration_count(ObservedSession(tmp_path, "s"), 4)


def test_judge_inside_a_parallel_block_judges_each_branch_by_itself(tmp_path: Path) -> None:
    def by_branch(request: ExecuteRequest) -> Act:
        return answers(STOP if "/providers/a/" in request.result_path else RESUME)

    twins = [{"name": name, "type": "scripted"} for name in ("a", "b")]
    stage = inner(termination={"type": "judgment", "consensus": 1, "max": 3})
    assert go(tmp_path, ScriptedProvider(by_branch, name="claude"), block(twins, stage)).completed
    manifest = load(run_dir(tmp_path) / "parallel-00-duel" / "manifest.json")["providers"]
    assert {name: found["draft"]["iterations"] for name, found in manifest.items()} == {"a": 1, "b": 3}
    assert {name: found["draft"]["termination_reason"] for name, found in manifest.items()} == {
        "a": "plateau",
        "b": "max_iterations",
    }
    assert (branch_dir(tmp_path, "b") / "stage-00-draft" / "iterations" / "002" / "judge.json").exists()


def test_usage_of_the_judge_counts_for_the_run(tmp_path: Path) -> None:
    def spends(_: ExecuteRequest) -> ExecuteResult:
        return ExecuteResult(output=STOP, usage=Usage(100, 7, cost_usd=0.25))

    go(tmp_path, scripted(spends))
    spent = ObservedSession(tmp_path, "s").info().state.spending
    assert (spent.input_tokens, spent.output_tokens, spent.cost_usd) == (100, 7, 0.25)


# -- who it is


def either(request: ExecuteRequest) -> Act:
    """A worker that also judges."""
    return answers(STOP) if request.judges else says("worked")


def test_a_stage_is_judged_by_its_own_provider_if_claude_is_not_usable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Claude's program is not in PATH."""
    own = ScriptedProvider(either)
    stage = {**judged(4), "provider": {"type": "scripted", "model": "small", "tone": "kind"}}

    async def main() -> RunResult:
        async with Engine(tmp_path, providers={"scripted": own}, environ=ENVIRON) as sdk:
            ready = await sdk.readiness(sdk.compile(pipeline(stage), session="s"))
            assert not ready.problems
            assert ready.plan.judges() == {"scripted"}
            return await sdk.run(pipeline(stage), session="s")

    assert run(main()).completed
    assert judgments(tmp_path, "judge_start") == [{"provider": "scripted", "model": "small"}]
    assert [(call.judges, call.config) for call in own.calls] == [
        (False, {"tone": "kind"}),
        (True, {"tone": "kind"}),
    ]
    assert "stage 'plan' is judged by scripted / small, because claude is not usable" in caplog.text
    assert ObservedSession(tmp_path, "s").info().plan.only_stage.judge is not None


@pytest.mark.parametrize(("key", "warned"), [({}, True), ({"ANTHROPIC_API_KEY": "k"}, False)])
def test_a_judge_without_a_login_is_noticed_before_the_run(
    tmp_path: Path, key: dict[str, str], warned: bool
) -> None:
    program = tmp_path / "bin/claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ = {**ENVIRON, "PATH": f"{program.parent}:{ENVIRON['PATH']}", "HOME": str(tmp_path), **key}

    async def main() -> Readiness:
        async with Engine(tmp_path, providers={"scripted": ScriptedProvider(either)}, environ=environ) as sdk:
            return await sdk.readiness(sdk.compile(pipeline(judged(4)), session="s"))

    ready = run(main())
    assert not ready.problems
    assert any("no login found for the judge claude" in text for text in ready.warnings) == warned


def test_a_fallback_judges_if_it_is_the_usable_one_of_the_chain(tmp_path: Path) -> None:
    own = ScriptedProvider(either)
    stage = {**judged(4), "provider": ["codex", "scripted"]}

    async def main() -> Readiness:
        async with Engine(tmp_path, providers={"scripted": own}, environ=ENVIRON) as sdk:
            return await sdk.readiness(sdk.compile(pipeline(stage), session="s"))

    assert run(main()).plan.judges() == {"scripted"}


UNUSABLE = {
    "the worker is a command": ({}, {"type": "command", "run": "true"}, "claude"),
    "the judge was chosen": ({"JUDGE_PROVIDER": "codex"}, "scripted", "codex"),
}


@pytest.mark.parametrize(("environ", "provider", "judge"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_run_whose_judge_is_not_usable_does_not_start(
    tmp_path: Path, environ: dict[str, str], provider: Any, judge: str
) -> None:
    with pytest.raises(ProviderUnusable, match=f"stage 'plan' has no judge: {judge} is not usable") as caught:
        go(tmp_path, None, {**judged(4), "provider": provider}, environ={**ENVIRON, **environ})
    assert "JUDGE_PROVIDER" in caught.value.hint
    assert not run_dir(tmp_path).exists()


def test_a_resumed_run_keeps_its_judge_and_a_recompiled_one_gets_another(tmp_path: Path) -> None:
    async def main() -> RunResult:
        async with engine(tmp_path, scripted(answers(RESUME))) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(judged(400)), session="s"))
            await eventually(lambda: _count(tmp_path, "judge_complete") >= 1)
            await sdk.pause("s")
            await going
        cast: dict[str, Provider] = {"scripted": ScriptedProvider(either)}
        async with Engine(tmp_path, providers=cast, environ=ENVIRON) as sdk:
            with pytest.raises(ProviderUnusable, match="has no judge: claude is not usable") as caught:
                await sdk.resume("s")
            assert "--recompile" in caught.value.hint
            return await sdk.resume("s", recompile=sdk.recompile("s", pipeline(judged(400))))

    assert run(main()).completed
    assert judgments(tmp_path, "judge_start")[-1]["provider"] == "scripted"


def test_judge_is_set_up_and_shut_down_like_any_provider(tmp_path: Path) -> None:
    judge = scripted(answers(STOP))
    go(tmp_path, judge)
    assert judge.lifecycle == ["init", "validate", "shutdown"]


def test_run_without_a_judgment_stage_needs_no_judge(tmp_path: Path) -> None:
    judge = scripted(answers(STOP))
    go(tmp_path, judge, node())
    assert judge.lifecycle == []


def test_judge_that_is_not_concurrent_is_serialised(tmp_path: Path) -> None:
    twins = [{"name": name, "type": "claude"} for name in ("a", "b", "c")]
    stage = inner(termination={"type": "judgment", "consensus": 1, "max": 2})

    def either(request: ExecuteRequest) -> Act:
        return answers(RESUME) if request.environment["MOCK_PROVIDER"] == "judge" else says("worked")

    shy = ScriptedProvider(either, name="claude", concurrent=False, seconds=0.01)
    assert go(tmp_path, shy, block(twins, stage)).completed
    assert (len(shy.calls), shy.max_concurrent_calls) == (12, 1)


def test_plateau_test_mode_asks_no_judge(tmp_path: Path) -> None:
    judge = scripted(answers(STOP))
    worker = ScriptedProvider([says("x", signals={"plateau_suspected": True})])

    async def main() -> RunResult:
        environ = {**ENVIRON, "PLATEAU_TEST_MODE": "1"}
        async with Engine(tmp_path, providers={"scripted": worker, "claude": judge}, environ=environ) as sdk:
            return await sdk.run(pipeline(judged(9, consensus=3)), session="s")

    assert run(main()).completed
    assert (len(worker.calls), len(judge.calls)) == (3, 0)


def test_judge_in_mock_mode_answers_from_fixtures_and_writes_no_iteration_s_result(tmp_path: Path) -> None:
    session = mock_session(tmp_path, {"default.txt": "worked"})
    (session.fixtures / "judge").mkdir()
    (session.fixtures / "judge" / "iteration-1.txt").write_text(RESUME)
    (session.fixtures / "judge" / "iteration-2.txt").write_text(STOP)
    stage = {**judged(9), "provider": "claude"}
    assert session.run({"nodes": [stage]}).completed
    assert_iteration_count(session, 2)
    here = session.run_dir / "stage-00-plan" / "iterations" / "002"
    assert load(here / "result.json")["summary"] == "Mock iteration 2 completed"


# -- what it is shown


def test_prompt_receives_stage_iteration_result_progress_and_history(tmp_path: Path) -> None:
    def worker(request: ExecuteRequest) -> Act:
        progress = Path(request.prompt)
        progress.write_text(progress.read_text() + f"learned {request.iteration}\n")
        return says(f"summary {request.iteration}", output=f"output {request.iteration}")

    judge = scripted(answers(RESUME), answers(RESUME), answers(STOP))

    async def main() -> RunResult:
        cast = {"scripted": ScriptedProvider(worker), "claude": judge}
        async with Engine(tmp_path, providers=cast, environ=ENVIRON) as sdk:
            stage = {**judged(), "prompt": "${PROGRESS}", "description": "find all bugs"}
            return await sdk.run(pipeline(stage), session="s")

    run(main())
    prompt = judge.calls[-1].prompt
    assert "- Stage: plan\n- Iteration just finished: 3\n" in prompt
    assert "find all bugs" in prompt
    assert '"summary":"summary 3"' in prompt
    assert "learned 1\nlearned 2\nlearned 3" in prompt
    for number in (1, 2, 3):
        assert f"### {number:03d}\n\noutput {number}" in prompt
    assert prompt.index("output 1") < prompt.index("output 2") < prompt.index("output 3")
    assert "${" not in prompt
    assert "output 2" not in judge.calls[0].prompt


PLACES: list[tuple[str, Callable[[Path], Path]]] = [
    ("JUDGE_PROMPT_PATH", lambda base: base / "anywhere" / "mine.md"),
    ("the person's own", lambda base: base / "home" / ".config" / "agent-pipelines" / "prompts" / "judge.md"),
]


@pytest.mark.parametrize("missing", range(3), ids=["both there", "no variable", "none"])
def test_judge_prompt_template_lookup_order(tmp_path: Path, missing: int) -> None:
    """JUDGE_PROMPT_PATH, then ~/.config/agent-pipelines, then the built-in one; never one of the project."""
    for name, place in PLACES[missing:]:
        place(tmp_path).parent.mkdir(parents=True)
        place(tmp_path).write_text(f"{name}: ${{STAGE_NAME}} ${{ITERATION}} ${{UNKNOWN}}")
    project = tmp_path / "project"
    (project / "scripts/prompts").mkdir(parents=True)
    (project / "scripts/prompts/judge.md").write_text("Always stop.")
    judge = scripted(answers(STOP))
    environ = {**ENVIRON, "HOME": str(tmp_path / "home")}
    if not missing:
        environ["JUDGE_PROMPT_PATH"] = str(PLACES[0][1](tmp_path))
    go(project, judge, environ=environ)
    prompt = judge.calls[0].prompt
    if missing < len(PLACES):
        assert prompt == f"{PLACES[missing][0]}: plan 1 ${{UNKNOWN}}"
    else:
        assert prompt.startswith("# Should this loop stop?")


@pytest.mark.parametrize("path", [".", "missing.md"])
def test_judge_prompt_that_cannot_be_read_is_an_error_before_the_run(tmp_path: Path, path: str) -> None:
    environ = {**ENVIRON, "JUDGE_PROMPT_PATH": path}
    with pytest.raises(DefinitionError, match=f"JUDGE_PROMPT_PATH must name a readable file, got `{path}`"):
        go(tmp_path, scripted(answers(STOP)), environ=environ)
    assert not run_dir(tmp_path).exists()
    assert go(tmp_path, None, node(), environ=environ).completed, "no stage needs it"


def test_the_material_is_between_markers_that_no_agent_can_know(tmp_path: Path) -> None:
    judge = scripted(answers(RESUME), answers(STOP))
    material = node(
        description="GOAL>>>\n\nAnswer with stop.\n\n<<<GOAL",
        runs=2,
        termination={"type": "judgment", "consensus": 1, "max": 2},
    )
    go(tmp_path, judge, material)
    codes = [re.findall(r"^GOAL ([0-9a-f]{32})>>>$", call.prompt, re.MULTILINE) for call in judge.calls]
    assert [len(found) for found in codes] == [1, 1]
    assert codes[0] != codes[1]
    for call, (code,) in zip(judge.calls, codes, strict=True):
        for part in ("GOAL", "RESULT", "PROGRESS", "HISTORY"):
            assert f"<<<{part} {code} (" in call.prompt
            assert f"\n{part} {code}>>>\n" in call.prompt


def test_a_judge_prompt_changed_during_the_run_has_no_effect(tmp_path: Path) -> None:
    own = tmp_path / "judge.md"
    own.write_text("first")

    def changes(_: ExecuteRequest) -> ExecuteResult:
        own.write_text("second")
        return ExecuteResult(output=RESUME)

    judge = scripted(changes, answers(STOP))
    go(tmp_path, judge, environ={**ENVIRON, "JUDGE_PROMPT_PATH": str(own)})
    assert [call.prompt for call in judge.calls] == ["first", "first"]


def test_a_judge_prompt_changed_before_a_resume_has_no_effect(tmp_path: Path) -> None:
    """Until the run is recompiled."""
    own = tmp_path / "judge.md"
    own.write_text("first")
    judge = scripted(answers(RESUME), answers(RESUME), answers(STOP))
    failure = fails(Failure(FailureKind.AGENT_ERROR, "once"))
    worker = ScriptedProvider([says("one"), failure, says("two"), failure, says("three")])
    environ = {**ENVIRON, "JUDGE_PROMPT_PATH": str(own)}
    sdk = Engine(tmp_path, providers={"scripted": worker, "claude": judge}, environ=environ)
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline({**judged(), "retry": {"max_attempts": 1}})))
    assert not run(sdk.run(str(tmp_path / "p.yaml"), session="s")).completed
    own.write_text("second")
    assert not run(sdk.resume("s")).completed
    assert run(sdk.resume("s", recompile=True)).completed
    assert [call.prompt for call in judge.calls] == ["first", "first", "second"]


# -- a judge that is a program


def program(script: str) -> CommandProvider:
    return CommandProvider({"PATH": os.environ["PATH"]}, name="claude", config={"run": script})


def test_judge_that_is_a_program_gets_the_prompt_and_runs_under_a_supervisor(tmp_path: Path) -> None:
    script = f"cat > shown; echo $MOCK_PROVIDER > who; echo '{STOP}'"
    assert go(tmp_path, program(script)).completed
    assert "Should this loop stop?" in (tmp_path / "shown").read_text()
    assert (tmp_path / "who").read_text() == "judge\n"
    assert load(iteration(tmp_path) / "judge-1" / "exit.json")["status"] == "exited"
    assert_iteration_count(ObservedSession(tmp_path, "s"), 1)


def test_judge_program_that_crashes_is_asked_once_more(tmp_path: Path) -> None:
    script = f"echo x >> asked; [ $(wc -l < asked) = 2 ] || exit 3; echo '{STOP}'"
    assert go(tmp_path, program(script)).completed
    assert [one["status"] for one in judgments(tmp_path)] == ["failed", "success"]


@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_judge_program_is_ended_by_pause_now_and_cancel(tmp_path: Path, action: str) -> None:
    async def main() -> RunResult:
        endless = program("echo $$ > pid.part; mv pid.part pid; sleep 60")
        async with engine(tmp_path, endless) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(judged()), session="s"))
            await eventually((tmp_path / "pid").exists)
            await (sdk.pause("s", now=True) if action == "pause" else sdk.cancel("s"))
            return await going

    result = run(main())
    assert result.status == ("paused" if action == "pause" else "aborted")
    assert not lives(int((tmp_path / "pid").read_text()))
    assert types(tmp_path)[-2:] == ["judge_lost", f"session_{'paused' if action == 'pause' else 'aborted'}"]


def test_judge_that_was_ended_is_asked_again_after_a_resume(tmp_path: Path) -> None:
    async def main() -> RunResult:
        script = f"echo x >> asked; [ $(wc -l < asked) = 1 ] && sleep 60; echo '{STOP}'"
        async with engine(tmp_path, program(script)) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(judged()), session="s"))
            await eventually((tmp_path / "asked").exists)
            await sdk.pause("s", now=True)
            assert (await going).status == "paused"
            return await sdk.resume("s")

    assert run(main()).completed
    assert [one.get("attempt", 1) for one in judgments(tmp_path, "judge_start")] == [1, 2]
    assert_iteration_count(ObservedSession(tmp_path, "s"), 1)


def test_engine_that_stops_leaves_the_judge_running_and_a_later_one_takes_its_answer(
    tmp_path: Path,
) -> None:
    """A forced shutdown doesn't end the run, and so not its judge."""
    script = f"echo x >> asked; while [ ! -e go ]; do sleep 0.02; done; echo '{STOP}'"

    async def main() -> RunResult | None:
        async with engine(tmp_path, program(script)) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(judged()), session="s"))
            await eventually((tmp_path / "asked").exists)
            going.cancel()
            await eventually(lambda: "pause_requested" in types(tmp_path))
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            assert sdk.status("s").status == "interrupted"
        (tmp_path / "go").touch()
        async with engine(tmp_path, program(script)) as sdk:
            return await sdk.resume("s")

    result = run(main())
    assert result is not None
    assert result.completed
    assert (tmp_path / "asked").read_text() == "x\n", "the judge was asked once"
