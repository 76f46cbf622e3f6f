"""Runs whose hooks are functions of another program: they are left to that program."""

from pathlib import Path

import pytest
from tests.sdk.projects import cut_log, engine, node, pipeline, run, run_dir, types

from agentforge import HookContext, HookResult
from agentforge.model.errors import HookMissing
from agentforge.model.status import RunStatus
from agentforge.sdk.engine import Engine


def hooked(project: Path) -> Engine:
    sdk = engine(project)

    @sdk.on_iteration_end
    def review(context: HookContext) -> HookResult | None:
        return HookResult("pause", "Continue?") if context.iteration == 1 else None

    return sdk


async def paused(project: Path) -> None:
    async with hooked(project) as sdk:
        result = await sdk.run(pipeline(node(runs=2)), session="s")
        assert result.status is RunStatus.PAUSED


def test_plan_and_log_name_the_hooks_that_a_run_needs(tmp_path: Path) -> None:
    run(paused(tmp_path))
    (hook,) = engine(tmp_path).status("s").plan.pipeline.hooks
    assert (hook.id, hook.action, hook.on_failure) == ("iteration_end-review", "call", "continue")


def test_process_without_a_hook_does_not_continue_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        await paused(tmp_path)
        before = types(tmp_path)
        async with engine(tmp_path) as other:
            for call in (other.resume("s"), other.resume("s", "a note")):
                with pytest.raises(HookMissing, match=r"'s' needs hooks .*: iteration_end-review") as error:
                    await call
                assert error.value.code == "hook_missing"
                # An inline pipeline can't be compiled again.
                assert error.value.hint == "continue it with the program that registers them"
            with pytest.raises(HookMissing):
                other.validate_resume("s")
            with pytest.raises(HookMissing):
                other.refuse_missing_hooks("s")
        assert types(tmp_path) == before
        async with hooked(tmp_path) as sdk:
            sdk.validate_resume("s")
            sdk.refuse_missing_hooks("s")
            assert (await sdk.resume("s")).completed

    run(main())


def test_recover_leaves_the_run_to_the_program_with_the_hooks(tmp_path: Path) -> None:
    async def main() -> None:
        await paused(tmp_path)
        lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
        started = next(number for number, line in enumerate(lines) if b'"hook_start"' in line)
        cut_log(tmp_path, lines[: started + 1])
        async with engine(tmp_path) as other:
            with pytest.raises(HookMissing):
                await other.recover("s")
        async with hooked(tmp_path) as sdk:
            result = await sdk.recover("s")
            assert result is not None
            assert result.status is RunStatus.PAUSED
        # The call that the first engine had begun is repeated under the same delivery id.
        assert types(tmp_path).count("hook_start") == 2
        assert "hook_lost" in types(tmp_path)

    run(main())


def test_answer_is_kept_for_the_program_with_the_hooks(tmp_path: Path) -> None:
    async def main() -> None:
        await paused(tmp_path)
        async with engine(tmp_path) as other:
            assert await other.answer("s", "continue") is None
            assert other.status("s").status == "paused"
            # The log shows it at once.
            assert types(tmp_path)[-1] == "request_answered"
        async with hooked(tmp_path) as sdk:
            result = await sdk.recover("s")
            assert result is not None
            assert result.completed

    run(main())


def test_recompiling_continues_without_the_hooks(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "p.yaml").write_text(
            "name: p\nnodes:\n- {id: a, prompt: x, provider: scripted, runs: 2, delay: 0}\n"
        )
        async with hooked(tmp_path) as sdk:
            assert (await sdk.run("p.yaml", session="s")).status is RunStatus.PAUSED
        async with engine(tmp_path) as other:
            assert (await other.resume("s", recompile=True)).completed

    run(main())


def test_other_runs_and_cancellation_need_no_hooks(tmp_path: Path) -> None:
    async def main() -> None:
        await paused(tmp_path)
        async with engine(tmp_path) as other:
            assert (await other.run(pipeline(), session="t")).completed
            result = await other.cancel("s")
            assert result is not None
            assert result.status is RunStatus.ABORTED

    run(main())
