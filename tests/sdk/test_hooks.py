"""Hooks of a program: what each result does to the run, and what a hook is told."""

import asyncio
import gc
import json
import logging
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.sdk import blocks
from tests.sdk.approvals import events
from tests.sdk.projects import cut_log, engine, iteration_dir, load, node, pipeline, run, run_dir, types

from agentforge import HookContext, HookResult
from agentforge.model.errors import AgentForgeError
from agentforge.model.hook import OnFailure
from agentforge.model.request import Request
from agentforge.model.status import RunStatus
from agentforge.sdk.engine import Engine
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says

TWICE = pipeline(node(runs=2))
POINTS = (
    *("session_start", "stage_start", "iteration_start", "iteration_end", "iteration_start"),
    *("iteration_end", "stage_end", "session_end"),
)


def hook_events(project: Path) -> list[tuple[str, str]]:
    """The hooks' events, with the hook that each is about."""
    found = map(json.loads, (run_dir(project) / "events.jsonl").read_bytes().splitlines())
    return [(event["type"], event["data"]["hook"]) for event in found if event["type"].startswith("hook_")]


def test_hooks_run_at_every_point_of_a_run(tmp_path: Path) -> None:
    seen: list[str] = []

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            for decorator in (
                *(sdk.on_session_start, sdk.on_session_end, sdk.on_stage_start, sdk.on_stage_end),
                *(sdk.on_iteration_start, sdk.on_iteration_end),
            ):
                decorator(name="see")(lambda context: seen.append(context.point))
            assert (await sdk.run(TWICE, session="s")).completed

    run(main())
    assert tuple(seen) == POINTS


def test_hook_registration_several_hooks_of_a_point_run_in_registration_order(tmp_path: Path) -> None:
    seen: list[str] = []

    async def main() -> None:
        async with engine(tmp_path) as sdk:

            @sdk.on_iteration_end
            def second(_: HookContext) -> None:
                seen.append("second")

            @sdk.on_iteration_end(name="a")
            async def first(_: HookContext) -> HookResult:
                await asyncio.sleep(0)
                seen.append("a")
                return HookResult()

            await sdk.run(pipeline(), session="s")

    run(main())
    assert seen == ["second", "a"]
    assert hook_events(tmp_path) == [
        ("hook_start", "iteration_end-second"),
        ("hook_complete", "iteration_end-second"),
        ("hook_start", "iteration_end-a"),
        ("hook_complete", "iteration_end-a"),
    ]


def test_hooks_of_the_file_run_before_those_of_the_program(tmp_path: Path) -> None:
    def note(_: HookContext) -> None:
        with (tmp_path / "order").open("a") as order:
            order.write("program\n")

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_iteration_end(note)
            hooks = {"iteration_end": [{"action": "script", "script": "echo file >> order"}]}
            assert (await sdk.run(pipeline(hooks=hooks), session="s")).completed

    run(main())
    assert (tmp_path / "order").read_text() == "file\nprogram\n"


def test_program_can_t_use_the_id_of_a_hook_of_the_file(tmp_path: Path) -> None:
    sdk = engine(tmp_path)
    sdk.on_stage_end(name="check")(lambda _: None)
    hooks = {"stage_end": [{"id": "stage_end-check", "action": "script", "script": "true"}]}
    with pytest.raises(AgentForgeError, match="the pipeline already has a hook 'stage_end-check'"):
        sdk.compile(pipeline(hooks=hooks), session="s")


def test_hook_continue_pipeline_proceeds_normally(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_iteration_end(name="go")(lambda _: HookResult("continue"))
            result = await sdk.run(TWICE, session="s")
            assert (result.completed, result.iterations) == (True, 2)

    run(main())


def test_hook_pause_writes_the_state_and_releases_the_lock(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:

            @sdk.on_iteration_end
            def review(context: HookContext) -> HookResult | None:
                return HookResult("pause", "Please review") if context.iteration == 1 else None

            result = await sdk.run(TWICE, session="s")
            assert (result.status, result.iterations) == (RunStatus.PAUSED, 1)
            (request,) = result.requests
            assert (request.kind, request.question, request.subject) == (
                "pause",
                "Please review",
                "iteration_end-review",
            )
            assert load(run_dir(tmp_path) / "state.json")["status"] == "paused"
            assert sdk.status("s").driver_pid is None
            assert not list((tmp_path / ".claude" / "locks").glob("*.lock"))
            result = await sdk.resume("s")
            assert (result.completed, result.iterations) == (True, 2)

    run(main())


def test_hook_abort_stops_the_pipeline_with_status_aborted(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_iteration_end(name="stop")(lambda _: HookResult("abort", "it is wrong"))
            result = await sdk.run(TWICE, session="s")
            assert (result.status, result.iterations, result.reason) == (RunStatus.ABORTED, 1, "it is wrong")

    run(main())


def test_hook_modify_context_is_in_the_context_of_the_next_iteration(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("done")])

    async def main() -> None:
        async with engine(tmp_path, provider) as sdk:

            @sdk.on_iteration_end
            def advise(context: HookContext) -> HookResult:
                return HookResult("modify_context", context=f"After {context.iteration}: more tests.")

            await sdk.run(pipeline(node(runs=3, prompt="Work. ${CONTEXT}")), session="s")

    run(main())
    prompts = [call.prompt for call in provider.calls]
    assert "more tests" not in prompts[0]
    assert "After 1: more tests." in prompts[1]
    assert "After 2: more tests." not in prompts[1]
    assert "After 2: more tests." in prompts[2]


def test_oldest_notes_of_hooks_are_dropped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_iteration_end(name="advise")(lambda _: HookResult("modify_context", context="x" * 15_000))
            assert (await sdk.run(pipeline(node(runs=3)), session="s")).completed

    with caplog.at_level(logging.WARNING, "agentforge.run"):
        run(main())
    assert caplog.text.count("the oldest notes no longer fit into the context (32768 bytes in total)") == 1


def test_hook_restart_stage_starts_over_at_iteration_1_with_the_context(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("done")])

    async def main() -> None:
        async with engine(tmp_path, provider) as sdk:

            @sdk.on_iteration_end
            def again(context: HookContext) -> HookResult | None:
                if context.iteration == 2 and context.place and context.place.node_run == 1:
                    return HookResult("restart_stage", "wrong direction", context="Try the other way.")
                return None

            result = await sdk.run(pipeline(node(runs=2, prompt="Work. ${CONTEXT}")), session="s")
            assert result.completed

    run(main())
    assert [call.iteration for call in provider.calls] == [1, 2, 1, 2]
    assert "Try the other way." in provider.calls[2].prompt


def test_resume_after_pause_with_context_injects_it(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("done")])

    async def main() -> None:
        async with engine(tmp_path, provider) as sdk:

            @sdk.on_iteration_start
            def ask(context: HookContext) -> HookResult | None:
                return HookResult("pause", "Continue?") if context.iteration == 2 else None

            @sdk.on_resume
            def quote(context: HookContext, text: str) -> HookResult:
                assert context.point == "resume"
                return HookResult("modify_context", context=f"The user says: {text}")

            await sdk.run(pipeline(node(runs=2, prompt="Work. ${CONTEXT}")), session="s")
            assert (await sdk.resume("s", "focus on X")).completed

    run(main())
    assert [call.iteration for call in provider.calls] == [1, 2]
    assert "focus on X" in provider.calls[1].prompt
    assert "The user says: focus on X" in provider.calls[1].prompt


def test_pause_in_a_parallel_block_waits_until_every_branch_is_idle(tmp_path: Path) -> None:
    async def main() -> None:
        providers = {name: ScriptedProvider([says("done")], name=name) for name in ("claude", "codex")}
        async with blocks.engine(tmp_path, providers) as sdk:

            @sdk.on_iteration_end
            def review(context: HookContext) -> HookResult | None:
                wants = context.provider == "claude" and context.iteration == 1
                return HookResult("pause", "Look") if wants else None

            result = await sdk.run(
                pipeline(blocks.block(["claude", "codex"], blocks.inner(runs=2))), session="s"
            )
            assert result.status is RunStatus.PAUSED
            assert len(providers["claude"].calls) == 1
            assert len(providers["codex"].calls) <= 2
            assert (await sdk.resume("s")).completed
            assert [len(provider.calls) for provider in providers.values()] == [2, 2]

    run(main())


# -- errors


@pytest.mark.parametrize(
    ("errors", "status"),
    [("continue", RunStatus.COMPLETED), ("pause", RunStatus.PAUSED), ("fail", RunStatus.FAILED)],
)
def test_hook_errors_are_caught_and_logged_and_the_run_follows_the_setting(
    tmp_path: Path, errors: OnFailure, status: RunStatus, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with engine(tmp_path, hook_errors=errors) as sdk:

            @sdk.on_iteration_end
            def broken(_: HookContext) -> None:
                raise KeyError("tests")

            assert (await sdk.run(pipeline(), session="s")).status is status

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "iteration_end-broken" in caplog.text
    assert "KeyError: 'tests'" in caplog.text
    (failed,) = events(tmp_path, "hook_failed")
    assert failed.fact.message == "KeyError: 'tests'"


def raise_exit(_: HookContext) -> None:
    raise SystemExit(3)


async def raise_exit_later(_: HookContext) -> None:
    raise SystemExit(3)


async def cancel_itself(_: HookContext) -> None:
    raise asyncio.CancelledError


def raise_stop(_: HookContext) -> None:
    raise StopIteration


def return_text(_: HookContext) -> str:
    return "continue"


def return_unknown_action(_: HookContext) -> HookResult:
    return HookResult("explode")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "function",
    [raise_exit, raise_exit_later, cancel_itself, raise_stop, return_text, return_unknown_action],
)
def test_misbehaving_hook_fails_and_the_engine_lives(tmp_path: Path, function: Any) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_stage_start(function)
            assert (await sdk.run(pipeline(), session="s")).completed

    run(main())
    assert [kind for kind, _ in hook_events(tmp_path)] == ["hook_start", "hook_failed", "hook_skipped"]


@pytest.mark.parametrize("is_async", [True, False])
def test_hook_timeout_ends_the_wait_for_a_function(tmp_path: Path, is_async: bool) -> None:
    release = threading.Event()

    async def sleep(_: HookContext) -> None:
        await asyncio.Event().wait()

    def block(_: HookContext) -> None:
        release.wait(30)

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_stage_start(timeout=0.01)(sleep if is_async else block)
            assert (await sdk.run(pipeline(), session="s")).completed

    run(main())
    release.set()
    assert "hook_timeout" in types(tmp_path)


# -- what a hook is told


def test_hook_context_has_state_result_context_progress_and_place(tmp_path: Path) -> None:
    seen: list[HookContext] = []

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([says("one"), says("two")])) as sdk:
            sdk.on_iteration_end(name="see")(seen.append)
            sdk.on_session_end(name="see")(seen.append)

            @sdk.on_iteration_end
            def note(context: HookContext) -> HookResult:
                assert context.place is not None
                stage = iteration_dir(tmp_path).parents[1]
                (stage / "progress.md").write_text(f"iteration {context.iteration}")
                return HookResult("modify_context", context=f"note {context.iteration}")

            await sdk.run(TWICE, session="s")

    run(main())
    first, second, end = seen
    assert (first.session, first.stage, first.iteration, first.provider) == ("s", "plan", 1, "scripted")
    assert first.result is not None
    assert (first.result.summary, first.context) == ("one", "")
    assert first.state.status is RunStatus.RUNNING
    assert second.result is not None
    assert (second.result.summary, second.context, second.progress) == ("two", "note 1", "iteration 1")
    assert second.place is not None
    assert (second.place.node_path, second.place.iteration) == ("0", 2)
    assert first.delivery != second.delivery
    assert (end.place, end.result, end.stage, end.progress) == (None, None, "", "")
    assert end.context == "note 1\nnote 2"


def test_result_of_an_iteration_is_known_after_a_restart_of_the_program(tmp_path: Path) -> None:
    seen: list[HookContext] = []

    def hooked() -> Engine:
        sdk = engine(tmp_path, ScriptedProvider([says("one", "stop")]))

        @sdk.on_stage_end
        def look(context: HookContext) -> HookResult | None:
            seen.append(context)
            return HookResult("pause", "Look") if len(seen) == 1 else None

        @sdk.on_stage_end
        def see(context: HookContext) -> None:
            seen.append(context)

        return sdk

    async def main() -> None:
        async with hooked() as sdk:
            assert (await sdk.run(TWICE, session="s")).status is RunStatus.PAUSED
        async with hooked() as sdk:
            assert (await sdk.resume("s")).completed

    run(main())
    assert [context.result and context.result.summary for context in seen] == ["one", "one"]


def test_hooks_of_a_block_are_told_the_branch(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str, str]] = []

    def see(context: HookContext) -> None:
        summary = context.result.summary if context.result else ""
        seen.append((context.point, context.stage, context.provider, summary))

    async def main() -> None:
        providers = {"claude": ScriptedProvider([says("done")], name="claude")}
        async with blocks.engine(tmp_path, providers) as sdk:
            for decorator in (sdk.on_parallel_provider_start, sdk.on_parallel_provider_end, sdk.on_stage_end):
                decorator(see)
            await sdk.run(pipeline(blocks.block(["claude"], blocks.inner(runs=1))), session="s")

    run(main())
    points = [(point, provider, summary) for point, _, provider, summary in seen]
    assert points == [
        ("parallel_provider_start", "claude", ""),
        ("stage_end", "claude", "done"),
        ("parallel_provider_end", "claude", "done"),
        ("stage_end", "", ""),
    ]


def test_stage_option_calls_the_hook_at_one_node_only(tmp_path: Path) -> None:
    seen: list[str] = []

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_stage_end(stage="build", name="see")(lambda context: seen.append(context.stage))
            await sdk.run(pipeline(node("plan"), node("build")), session="s")
            await sdk.run(pipeline(node("plan")), session="without")

    run(main())
    assert seen == ["build"]
    assert "hooks" not in load(run_dir(tmp_path, "without") / "plan.json")["pipeline"]


# -- requests


def asked(project: Path, *hooks: Any, **changes: Any) -> Any:
    """A run of a stage that asks for approval, with hooks at its requests."""

    async def main() -> Any:
        async with engine(project) as sdk:
            for hook in hooks:
                sdk.on_request(hook)
            return await sdk.run(pipeline(node(approve=True, **changes)), session="s")

    return run(main())


def test_on_request_answers_a_request(tmp_path: Path) -> None:
    seen: list[Request | None] = []

    def policy(context: HookContext) -> HookResult:
        seen.append(context.request)
        return HookResult("answer", answer="approve", text="looks good")

    assert asked(tmp_path, policy).completed
    (request,) = seen
    assert request is not None
    assert (request.kind, request.options) == ("approval", ("approve", "reject", "abort"))
    (answered,) = events(tmp_path, "request_answered")
    assert (answered.fact.by, answered.fact.text) == ("hook request-policy", "looks good")


def test_on_request_leaves_a_request_to_a_person(tmp_path: Path) -> None:
    result = asked(tmp_path, lambda_named("later", None))
    assert result.status is RunStatus.AWAITING_APPROVAL


def lambda_named(name: str, result: HookResult | None) -> Any:
    def hook(_: HookContext) -> HookResult | None:
        return result

    hook.__name__ = name
    return hook


def test_on_request_with_an_answer_that_is_not_offered_leaves_it_to_a_person(tmp_path: Path) -> None:
    result = asked(tmp_path, lambda_named("wrong", HookResult("answer", answer="maybe")))
    assert result.status is RunStatus.AWAITING_APPROVAL
    (skipped,) = events(tmp_path, "hook_skipped")
    assert "maybe" in skipped.fact.reason


def test_on_request_decides_about_an_escalation(tmp_path: Path) -> None:
    """A policy of its own: the work of a lost or failed attempt was done."""

    async def main() -> None:
        provider = ScriptedProvider([crashes(), says("done")])
        async with engine(tmp_path, provider) as sdk:

            @sdk.on_request
            async def policy(context: HookContext) -> HookResult | None:
                request = context.request
                retry = request is not None and request.kind == "escalation" and "retry" in request.options
                return HookResult("answer", answer="retry") if retry else None

            result = await sdk.run(pipeline(node(semantics="at_most_once")), session="s")
            assert result.completed

    run(main())


# -- registration


def test_name_is_required_for_a_function_without_one_and_must_be_new(tmp_path: Path) -> None:
    sdk = engine(tmp_path)
    with pytest.raises(AgentForgeError, match="'<lambda>' can't be the name of a hook"):
        sdk.on_stage_end(lambda _: None)
    with pytest.raises(AgentForgeError, match="the hook has no name") as unnamed:
        sdk.on_stage_end(partial(print, "x"))
    assert unnamed.value.hint.startswith("pass `name`: ")
    with pytest.raises(AgentForgeError, match="a hook must be a function, got str"):
        sdk.on_stage_end("build")  # type: ignore[call-overload]
    sdk.on_stage_end(name="a")(lambda _: None)
    sdk.on_stage_start(name="a")(lambda _: None)
    with pytest.raises(AgentForgeError, match="'stage_end-a' is already registered"):
        sdk.on_stage_end(name="a")(lambda _: None)
    with pytest.raises(AgentForgeError, match="must be positive"):
        sdk.on_stage_end(name="b", timeout=0)(lambda _: None)
    with pytest.raises(AgentForgeError, match="session_end has no stage"):
        sdk.on_session_end(name="b", stage="plan")(lambda _: None)
    with pytest.raises(AgentForgeError, match="repeat or pause"):
        sdk.on_stage_end(name="b", on_lost="retry")(lambda _: None)  # type: ignore[call-overload]
    with pytest.raises(AgentForgeError, match="hook_errors must be one of"):
        engine(tmp_path, hook_errors="ignore")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"stage": 3}, "the stage of hook 'stage_end-b' must be the id of a node"),
        ({"timeout": "soon"}, "the timeout of hook 'stage_end-b' must be positive, at most a year"),
        ({"name": 3}, "3 can't be the name of a hook"),
    ],
)
def test_options_of_a_hook_are_checked(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    with pytest.raises(AgentForgeError, match=why):
        engine(tmp_path).on_stage_end(**{"name": "b", **options})(lambda _: None)


def test_parameters_of_a_hook_are_checked_when_it_is_registered(tmp_path: Path) -> None:
    sdk = engine(tmp_path)
    with pytest.raises(AgentForgeError, match="hook 'stage_end-none' must take the HookContext: too many"):
        sdk.on_stage_end(name="none")(lambda: None)
    with pytest.raises(AgentForgeError, match="'resume-one' must take the HookContext and the person's text"):
        sdk.on_resume(name="one")(lambda _: None)
    sdk.on_resume(name="two")(lambda _context, _text: None)
    sdk.on_stage_end(name="any")(lambda *_: None)
    # Its parameters are unknown.
    sdk.on_stage_end(name="type")(dict.fromkeys)


def test_decorator_returns_the_function(tmp_path: Path) -> None:
    def see(_: HookContext) -> None: ...

    sdk = engine(tmp_path)
    assert sdk.on_stage_end(see) is see
    assert sdk.on_stage_start(name="x")(see) is see


def test_sync_engine_has_the_decorators(tmp_path: Path) -> None:
    seen: list[int] = []
    provider = ScriptedProvider([says("x")])
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ={}) as sdk:

        @sdk.on_iteration_end
        def see(context: HookContext) -> None:
            seen.append(context.iteration)

        assert sdk.run(TWICE, session="s").completed
    assert seen == [1, 2]


def test_engine_has_no_more_hooks_than_a_plan_may_have(tmp_path: Path) -> None:
    sdk = engine(tmp_path)
    for number in range(100):
        sdk.on_stage_end(name=f"h{number}")(lambda _: None)
    with pytest.raises(AgentForgeError, match="at most 100 hooks"):
        sdk.on_stage_end(name="more")(lambda _: None)


# -- stopping


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("how", ["pause", "cancel", "task"])
def test_run_is_stopped_while_a_hook_works_and_the_hook_is_called_again(
    tmp_path: Path, how: str, is_async: bool
) -> None:
    release = threading.Event()
    attempts: list[tuple[str, int]] = []

    async def main() -> None:
        working, loop = asyncio.Event(), asyncio.get_running_loop()

        def begin(context: HookContext) -> bool:
            attempts.append((context.delivery, context.attempt))
            loop.call_soon_threadsafe(working.set)
            return len(attempts) == 1

        async def wait(context: HookContext) -> None:
            if begin(context):
                await asyncio.Event().wait()

        def block(context: HookContext) -> None:
            if begin(context):
                release.wait(60)

        async with engine(tmp_path, stop_grace=0.0) as sdk:
            sdk.on_stage_start(name="slow")(wait if is_async else block)
            running = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await working.wait()
            if how == "cancel":
                await sdk.cancel("s")
                assert (await running).status is RunStatus.ABORTED
                return
            if how == "pause":
                await sdk.pause("s", now=True)
                assert (await running).status is RunStatus.PAUSED
            else:
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
            assert sdk.status("s").status == "paused"
            assert (await sdk.resume("s")).completed

    try:
        run(main())
    finally:
        release.set()
    assert len({delivery for delivery, _ in attempts}) == 1
    assert [attempt for _, attempt in attempts] == ([1] if how == "cancel" else [1, 2])


def test_on_lost_pause_asks_a_person_after_a_crash_in_the_hook(tmp_path: Path) -> None:
    calls: list[int] = []

    def hooked() -> Engine:
        sdk = engine(tmp_path)
        sdk.on_stage_start(name="pay", on_lost="pause")(lambda context: calls.append(context.attempt))
        return sdk

    async def main() -> None:
        async with hooked() as sdk:
            assert (await sdk.run(pipeline(), session="s")).completed
        lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
        begun = next(number for number, line in enumerate(lines) if b'"hook_start"' in line)
        cut_log(tmp_path, lines[: begun + 1])
        async with hooked() as sdk:
            result = await sdk.recover("s")
            assert result is not None
            (request,) = result.requests
            assert (request.reason, request.options) == ("hook_lost", ("continue", "retry", "abort"))
            assert calls == [1]
            result = await sdk.answer("s", "retry")
            assert result is not None
            assert result.completed

    run(main())
    assert calls == [1, 2]


def test_hook_that_fails_while_it_is_stopped_is_not_reported_as_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def slow(_: HookContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("closed")

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_stage_start(timeout=0.01)(slow)
            assert (await sdk.run(pipeline(), session="s")).completed

    run(main())
    gc.collect()
    assert "never retrieved" not in caplog.text
