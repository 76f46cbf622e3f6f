"""Recorded runs with hooks that are functions of a program: replayed and rehearsed without the program."""

from pathlib import Path

from tests.sdk.projects import engine, node, pipeline, run

from agentforge import HookContext, HookResult
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

PIPELINE = "name: p\nnodes:\n- {id: a, prompt: 'x ${CONTEXT}', provider: scripted, runs: 3, delay: 0}\n"


def test_replay_and_rehearsal_call_no_function_and_need_none(tmp_path: Path) -> None:
    calls: list[int] = []
    (tmp_path / "p.yaml").write_text(PIPELINE)

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([says("x")])) as sdk:

            @sdk.on_iteration_end
            def note(context: HookContext) -> HookResult | None:
                calls.append(context.iteration)
                return HookResult("abort", "enough") if context.iteration == 2 else None

            assert (await sdk.run("p.yaml", session="s", record=True)).status.value == "aborted"
            assert sdk.rehearse("s").is_same
            assert (await sdk.replay("s", session="own")).status.value == "aborted"
        async with engine(tmp_path) as other:
            assert other.rehearse("s").is_same
            assert other.rehearse("s", "p.yaml").is_same
            assert (await other.replay("s", session="again")).status.value == "aborted"
            assert (await other.replay("s", "p.yaml", session="changed")).status.value == "aborted"

    run(main())
    assert calls == [1, 2]


def test_rehearsal_in_a_program_with_other_hooks_shows_the_difference(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_iteration_end(name="stop")(lambda _: HookResult("abort", "enough"))
            await sdk.run(pipeline(node(runs=2)), session="s")
        async with engine(tmp_path) as other:
            other.on_stage_start(name="see")(lambda _: None)
            assert not other.rehearse("s", pipeline(node(runs=2))).is_same

    run(main())
