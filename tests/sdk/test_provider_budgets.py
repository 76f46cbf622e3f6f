"""Which budget a provider is given below caps, and what its answer does to the run."""

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run

from agentforge.model.errors import InvalidSettings
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import Usage
from agentforge.model.spending import UNITS, Amount
from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteResult
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, fails, says
from agentforge.views.results import RunResult

CAP = Failure(FailureKind.CAP_REACHED, "used up")
STOP = '{"stop": true, "reason": "nothing new", "confidence": 0.8}'
JUDGED = {"termination": {"type": "judgment", "consensus": 1, "max": 6}}


def used(usd: float, tokens: int = 0) -> Usage:
    return Usage(tokens, 0, cost_usd=usd)


def answers(usage: Usage) -> Act:
    return lambda _: ExecuteResult(output=STOP, usage=usage)


def budgets(provider: ScriptedProvider) -> list[Amount | None]:
    return [request.budget for request in provider.calls]


def test_attempt_is_given_what_is_left_and_continues_after_a_grant(tmp_path: Path) -> None:
    worker = ScriptedProvider(
        [says("one", usage=used(0.4, 100)), fails(CAP, usage=used(0.6, 50)), says("two", usage=used(0.2, 5))],
        bounds=UNITS,
    )

    async def main() -> tuple[RunResult, RunResult | None]:
        async with engine(tmp_path, worker) as sdk:
            capped = pipeline(node(runs=2), limits={"cost_usd": 1, "tokens": 1000})
            return await sdk.run(capped, session="s"), await sdk.answer("s", "0.7")

    asked, ended = run(main())
    assert (asked.status, [request.reason for request in asked.requests]) == (
        RunStatus.PAUSED,
        ["spending_cap"],
    )
    assert ended is not None
    assert ended.completed, ended.error
    assert budgets(worker) == [Amount(1.0, 1000), Amount(0.6, 900), Amount(0.7, 850)]
    assert [ended.spending.counted(unit) for unit in UNITS] == [1.2, 155]


def test_judge_is_given_a_budget_and_asks_at_it_without_failing_the_judgment(tmp_path: Path) -> None:
    worker = ScriptedProvider([says("did it", usage=used(0.4))], bounds=UNITS)
    judge = ScriptedProvider(
        [*[fails(CAP, usage=used(0.6))] * 4, answers(used(0.1))], name="claude", bounds=("cost_usd",)
    )

    async def main() -> list[RunResult | None]:
        providers = {"scripted": worker, "claude": judge}
        async with Engine(tmp_path, providers=providers, environ=ENVIRON) as sdk:
            capped = pipeline(node(runs=6, **JUDGED), limits={"cost_usd": 1})
            return [
                await sdk.run(capped, session="s"),
                *[await sdk.answer("s", "0.6") for _ in range(4)],
            ]

    *asked, ended = run(main())
    for times, result in enumerate(asked):
        assert result is not None
        assert result.status is RunStatus.PAUSED
        spent = f"${1 + times * 0.6:.2f}"
        assert f"{spent} of {spent} spent; the judge of stage 'plan'" in result.requests[0].question
    assert ended is not None
    assert (ended.status, ended.iterations) == (RunStatus.COMPLETED, 1)
    assert budgets(worker) == [Amount(1.0)]
    assert budgets(judge) == [Amount(0.6)] * 5
    assert ended.spending.counted("cost_usd") == 2.9


class Priced(ScriptedProvider):
    """It knows the price of one model."""

    def missing_price(self, model: str, config: dict[str, Any]) -> str | None:
        return None if model == "known" else f"`prices: {{{model}: 3}}` to its settings"


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"model": "known"}, ""),
        ({"model": "other"}, "attempt with scripted / other may spend: it knows no price of that model"),
        ({"model": "other", "max_iteration_cost_usd": 0.3}, ""),
        ({"model": "other", "limits": {"tokens": 9}}, ""),
    ],
)
def test_model_without_a_price_bounds_no_cost(tmp_path: Path, changes: dict[str, Any], refused: str) -> None:
    provider = Priced([says("done", usage=used(0.1, 5))], bounds=UNITS)
    caps: dict[str, Any] = {} if "limits" in changes else {"limits": {"cost_usd": 1}}

    async def main() -> RunResult:
        async with engine(tmp_path, provider) as sdk:
            return await sdk.run(pipeline(node(**changes), **caps), session="s")

    if refused:
        with pytest.raises(InvalidSettings, match=refused) as refusal:
            run(main())
        assert refusal.value.hint.startswith(
            "add `prices: {other: 3}` to its settings (US dollars for a million"
        )
        assert provider.calls == []
    else:
        assert run(main()).completed


def test_mock_spends_nothing_of_a_cap(tmp_path: Path) -> None:
    async def main() -> RunResult:
        async with Engine(tmp_path, environ=ENVIRON) as sdk:
            capped = pipeline(node(provider="mock", runs=3), limits={"cost_usd": 1, "tokens": 10})
            return await sdk.run(capped, session="s")

    result = run(main())
    assert result.completed, result.error
    assert [result.spending.counted(unit) for unit in UNITS] == [0, 0]


def test_request_has_no_budget_without_a_cap(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("done")], bounds=UNITS)

    async def main() -> RunResult:
        async with engine(tmp_path, provider) as sdk:
            return await sdk.run(pipeline(), session="s")

    assert run(main()).completed
    assert budgets(provider) == [None]
