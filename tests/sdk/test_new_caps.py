"""Other caps for a run that `recover` or `answer` continues."""

from pathlib import Path

import pytest
from tests.sdk.approvals import awaited
from tests.sdk.projects import ENVIRON, cut_log, engine, node, pipeline, run, run_dir

from agentforge.model.errors import InvalidRequest, NotPermitted
from agentforge.model.spending import Amount
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

CAPPED = node(max_iteration_cost_usd=0.1)


def caps_of(sdk: Engine) -> Amount:
    (cap,) = sdk.status("s").plan.caps
    return cap.caps


def test_waiting_run_continues_below_the_new_cap(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([says("done")])) as sdk:
            await awaited(sdk, what=pipeline(CAPPED, limits={"cost_usd": 1}))
            await sdk.limit("s", max_cost=3.0)
            assert sdk.status("s").status == "awaiting_approval"
            await sdk.answer("s", "approve")
            assert (caps_of(sdk), sdk.status("s").status) == (Amount(3.0), "completed")

    run(main())


def test_interrupted_run_is_recovered_below_the_new_cap(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([says("done")] * 2)) as sdk:
            await sdk.run(pipeline(CAPPED), session="s")
            lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
            cut_log(tmp_path, lines[:-2])
            await sdk.limit("s", max_cost=2.0)
            assert sdk.runs.recoverable() == ["s"]
            result = await sdk.recover("s")
            assert result is not None
            assert (result.completed, caps_of(sdk)) == (True, Amount(2.0))

    run(main())


def test_without_a_cap_nothing_changes(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
            before = (run_dir(tmp_path) / "events.jsonl").read_bytes()
            await sdk.limit("s")
            with pytest.raises(InvalidRequest, match="greater than 0"):
                await sdk.limit("s", max_cost=-1.0)
            assert (run_dir(tmp_path) / "events.jsonl").read_bytes() == before

    run(main())


def test_only_a_person_sets_a_cap(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await awaited(sdk)
        environ = {**ENVIRON, "AGENTFORGE_ATTEMPT": "other/0/1/1/1"}
        async with engine(tmp_path, environ=environ) as agents:
            with pytest.raises(NotPermitted, match="set a cap on the cost of a run"):
                await agents.limit("s", max_cost=9.0)

    run(main())
