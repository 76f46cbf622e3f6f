"""The tasks that an engine can perform."""

from pathlib import Path

from tests.sdk.projects import engine, pipeline, run

from agentforge import HookContext
from agentforge.engine.decide.task_kinds import KINDS
from agentforge.runtime.driver import Performers


def test_every_kind_of_task_is_performed_and_those_with_an_intent_are_awaited(tmp_path: Path) -> None:
    seen: list[Performers] = []

    async def main() -> None:
        async with engine(tmp_path) as sdk:

            def look(_: HookContext) -> None:
                seen.append(sdk._context.drivers["s"]._performers)

            sdk.on_session_start(name="see")(look)
            assert (await sdk.run(pipeline(), session="s")).completed

    run(main())
    (performers,) = seen
    assert sorted([*performers.immediate, *performers.waited_for]) == sorted(KINDS)
    assert {name for name, kind in KINDS.items() if kind.ending} <= set(performers.waited_for)
