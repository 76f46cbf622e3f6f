"""Real agents below caps on spending. A response of the scripted model costs what the CLI counts for it."""

import pytest
from msgspec.structs import replace
from tests.agents.trial import WRITES, Trial, bounded

from agentforge.cli import exit_codes
from agentforge.model.errors import InvalidSettings
from agentforge.model.spending import UNITS
from agentforge.model.status import RunStatus
from agentforge.testing.model_server import Call, Rule, Script, Shell, Turn
from agentforge.views.results import RunResult

pytestmark = pytest.mark.agents
DONE = WRITES.turns[2]
RESPONSE = 0.00375
"""What Claude Code counts for a response of `WRITES`, which takes three."""


def only(trial: Trial, name: str) -> None:
    if trial.cli.name != name:
        pytest.skip(f"contract: this is about {name}")


def reserved(trial: Trial) -> list[float | None]:
    return [(start.get("reserves") or {}).get("cost_usd") for start in trial.facts("attempt_start")]


def test_claude_stopped_by_its_cap_asks_and_continues_its_session_with_a_grant(trial: Trial) -> None:
    only(trial, "claude")
    pipeline = {**trial.pipeline(), "limits": {"cost_usd": 0.005}}
    # It ends before it runs the tool that the second response calls, and remembers both calls.
    script = replace(
        WRITES, rules=(Rule("worked on the task below earlier", (*WRITES.turns[1:2] * 3, DONE)),)
    )

    async def main() -> tuple[RunResult, RunResult]:
        async with trial.engine(script) as engine:
            first = await engine.run(pipeline, session="s")
            (request,) = first.requests
            assert "$0.0075 of $0.005 spent" in request.question
            continued = await engine.answer("s", "0.02")
            assert continued is not None
            return first, continued

    stopped, ended = bounded(main())
    assert (stopped.status, exit_codes.of_result(stopped)) == (RunStatus.PAUSED, 22)
    assert ended.completed, ended.error
    failed = trial.only("error")
    assert failed["type"] == "cap_reached"
    # It compares after a request: the second one went above.
    assert failed["usage"]["cost_usd"] == pytest.approx(2 * RESPONSE)
    starts = trial.facts("attempt_start")
    assert starts[1]["resume"] == failed["agent_session"]
    assert reserved(trial) == [0.005, 0.0175]


def test_subagents_of_claude_stop_at_the_budget_of_the_attempt(trial: Trial) -> None:
    only(trial, "claude")
    calls = tuple(
        Call("Agent", {"description": "part", "prompt": f"PART {n}", "subagent_type": "general-purpose"})
        for n in range(3)
    )
    steps = tuple(Turn("", (Shell(f"echo {n}"),)) for n in range(10))
    script = Script((Turn("I delegate.", calls), DONE), rules=(Rule("PART", (*steps, Turn("Done."))),))

    async def main() -> RunResult:
        async with trial.engine(script) as engine:
            return await engine.run({**trial.pipeline(), "limits": {"cost_usd": 0.01}}, session="s")

    asked = bounded(main())
    assert [request.reason for request in asked.requests] == ["spending_cap"]
    # Without a budget, there would be 35. Each subagent may have one in flight, and one that follows it.
    assert len(trial.requests()) < 12


def test_codex_without_a_figure_is_refused_and_with_one_is_counted(trial: Trial) -> None:
    only(trial, "codex")
    pipeline = {**trial.pipeline(), "limits": {"cost_usd": 0.5, "tokens": 10_000}}

    async def main() -> RunResult:
        async with trial.engine(WRITES) as engine:
            with pytest.raises(InvalidSettings, match="nothing bounds what an attempt with codex") as refused:
                await engine.run(pipeline, session="s")
            assert "`max_iteration_cost_usd`" in refused.value.hint
            assert trial.requests() == ()
            figures = {"max_iteration_cost_usd": 0.2, "max_iteration_tokens": 5000}
            return await engine.run({**pipeline, **figures}, session="s")

    result = bounded(main())
    assert result.completed, result.error
    assert reserved(trial) == [0.2]
    # It reports tokens and no cost: that counts as reserved.
    assert [result.spending.counted(unit) for unit in UNITS] == [0.2, 3150]
