"""The tool loop of the provider api below a budget: it stops before a request that might not fit."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.adapters.api_tasks import DONE, WRITES, Ran, task
from tests.sampling import one_in

from agentforge.model.failure import FailureKind
from agentforge.model.result import Usage
from agentforge.model.spending import UNITS, Amount, Spending
from agentforge.testing.model_server import Call, Fault, ModelServer, Script, Tokens, Turn
from agentforge.tool_loop.task import ModelTask, Price

LOOPS = Script(tuple(Turn("", (Call("read_file", {"path": f"{n}"}),)) for n in range(40)))
"""Each of its requests takes what `Tokens` says: 1000 and 50."""
CHEAP = Price(input=1.0, output=2.0)


def longest() -> int:
    """Of answers. Importing the libraries of models takes long: not when this file is imported."""
    from agentforge.tool_loop.budget import LONGEST

    return LONGEST


def used(ran: Ran) -> Usage:
    assert ran.outcome.usage is not None
    return ran.outcome.usage


def counted(ran: Ran, work: ModelTask) -> list[float]:
    """As the engine does."""
    spending = Spending().settled(used(ran), work.budget)
    assert spending.overruns == 0
    return [spending.counted(unit) for unit in UNITS]


@pytest.mark.parametrize(
    "budget",
    [
        *(Amount(tokens=tokens) for tokens in (1, 900, 9_000)),
        *(Amount(cost_usd) for cost_usd in (0.000001, 0.01, 0.05)),
        Amount(0.09, 9_000),
        Amount(0.03, 30_000),
        *one_in(5, [*(Amount(tokens=many) for many in (12_345, 20_000, 30_000)), Amount(0.09), Amount(0.12)]),
    ],
    ids=repr,
)
def test_no_request_is_sent_that_might_not_fit(
    model_server: ModelServer, wire_format: str, tmp_path: Path, budget: Amount
) -> None:
    work = task(model_server, LOOPS, wire_format, tmp_path, budget=budget)
    ran = Ran(work)
    failure, requests = ran.outcome.failure, model_server.requests("t")
    assert failure is not None
    assert failure.kind is FailureKind.CAP_REACHED
    assert "spent, and the next request may need" in failure.message
    # What it reports is what the server counted, and no more than the budget.
    assert (used(ran).input_tokens, used(ran).output_tokens) == (1000 * len(requests), 50 * len(requests))
    assert all(
        value <= cap
        for value, cap in zip(counted(ran, work), (budget.cost_usd, budget.tokens), strict=True)
        if cap
    )
    assert used(ran).agent_session == ran.outcome.session


def test_what_is_sent_is_counted_before_it_is_sent(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    work = task(model_server, Script((WRITES, DONE)), wire_format, tmp_path, price=Price(1000.0, 0))
    work = replace(work, endpoint=replace(work.endpoint, model="own-model"))
    assert Ran(replace(work, budget=Amount(1.0))).outcome.failure is not None
    assert model_server.requests("t") == ()
    (tmp_path / "work" / "long.txt").write_text("words " * 4000)
    reads = Script((Turn("", (Call("read_file", {"path": "long.txt"}),)), DONE))
    work = task(model_server, reads, wire_format, tmp_path, budget=Amount(tokens=20_000))
    assert Ran(work).outcome.failure is not None
    assert len(model_server.requests("t")) == 1, "the file might not fit"


def test_it_spends_what_it_may(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    """It stops only when the shortest answer doesn't fit."""
    from agentforge.tool_loop.budget import SHORTEST

    ran = Ran(task(model_server, LOOPS, wire_format, tmp_path, budget=Amount(tokens=30_000)))
    assert 30_000 - (used(ran).input_tokens or 0) - (used(ran).output_tokens or 0) < 1050 + SHORTEST + 1000


def lengths(server: ModelServer) -> list[int]:
    bodies = [request.body or {} for request in server.requests("t")]
    return [body.get("max_tokens", body.get("max_completion_tokens", 0)) for body in bodies]


def test_answers_are_as_long_as_the_budget_leaves(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    from agentforge.tool_loop.budget import SHORTEST

    work = task(model_server, Script((WRITES, DONE)), wire_format, tmp_path)
    Ran(replace(work, budget=Amount(1000.0, 10**9)))
    assert lengths(model_server) == [longest()] * 2
    Ran(replace(work, budget=Amount(tokens=16_000), files=replace(work.files, sessions="")))
    shorter = lengths(model_server)[2:]
    assert len(shorter) == 2
    assert all(SHORTEST <= length < longest() for length in shorter)
    assert shorter[0] < shorter[1], "the server has counted what the first one estimated"


def test_max_tokens_that_are_set_are_not_lowered(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    work = task(model_server, Script((WRITES, DONE)), wire_format, tmp_path, max_tokens=30_000)
    assert Ran(replace(work, budget=Amount(tokens=50_000))).outcome.failure is None
    assert lengths(model_server) == [30_000] * 2
    failure = Ran(replace(work, budget=Amount(tokens=30_000))).outcome.failure
    assert failure is not None
    assert failure.kind is FailureKind.CAP_REACHED
    assert len(lengths(model_server)) == 2


def test_next_attempt_continues_the_conversation(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    work = task(
        model_server, Script((*[WRITES] * 6, DONE)), wire_format, tmp_path, budget=Amount(tokens=8_000)
    )
    first = Ran(work)
    assert first.outcome.failure is not None
    before = len(model_server.requests("t"))
    assert 0 < before < 7
    # It knows what the server counted for the earlier requests: a new conversation wouldn't fit.
    less = Amount(tokens=5_500)
    again = Ran(replace(work, resume=first.outcome.session, budget=less))
    assert again.outcome.failure is None, again.outcome.failure
    assert len(model_server.requests("t")) == 7
    assert Ran(replace(work, budget=less)).outcome.failure is not None


@pytest.mark.parametrize(
    ("changes", "price", "cost"),
    [
        ({}, CHEAP, "listed"),
        ({"priced": False}, CHEAP, 0.001 + 0.0001),
        ({"model": "own-model"}, Price(1.0, 2.0, 0.5), 0.001 + 0.0001),
        ({"model": "own-model"}, Price(0, 0), 0.0),
        ({"priced": False}, None, None),
    ],
)
def test_prices_of_the_settings_are_for_models_that_the_list_does_not_have(
    model_server: ModelServer, wire_format: str, tmp_path: Path, changes: Any, price: Price | None, cost: Any
) -> None:
    work = task(model_server, Script((DONE,)), wire_format, tmp_path, price=price, budget=Amount(0.09))
    found = used(Ran(replace(work, endpoint=replace(work.endpoint, **changes)))).cost_usd
    if cost == "listed":
        assert found == used(Ran(replace(work, price=None))).cost_usd
        assert found is not None
        assert found > 0.0011
    else:
        assert found == (None if cost is None else pytest.approx(cost))


def test_own_price_bounds_the_cost(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    work = task(model_server, LOOPS, wire_format, tmp_path, price=CHEAP, budget=Amount(0.02))
    work = replace(work, endpoint=replace(work.endpoint, model="own-model"))
    ran = Ran(work)
    assert ran.outcome.failure is not None
    assert "of $0.02 spent" in ran.outcome.failure.message
    assert 0 < counted(ran, work)[0] <= 0.02


def test_model_without_a_price_keeps_to_tokens_only(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    work = task(model_server, Script((WRITES, DONE)), wire_format, tmp_path)
    work = replace(work, endpoint=replace(work.endpoint, priced=False), budget=Amount(0.000001))
    ran = Ran(work)
    assert ran.outcome.failure is None
    assert counted(ran, work)[0] == 0.000001, "what is unknown counts as reserved"


@pytest.mark.parametrize(("status", "billed"), [(500, False), (0, True)])
def test_request_that_broke_off_counts_in_full_and_one_that_was_refused_does_not(
    model_server: ModelServer, wire_format: str, tmp_path: Path, status: int, billed: bool
) -> None:
    script = Script((DONE,), faults=(Fault(status),)) if status else Script((DONE,), cuts=9)
    work = task(model_server, script, wire_format, tmp_path, retries=0, budget=Amount(1000.0, 60_000))
    ran = Ran(work)
    assert ran.outcome.failure is not None
    cost, tokens = counted(ran, work)
    assert (cost > 0, tokens > longest()) == (billed, billed)
    assert (cost == 0, tokens == 0) == (not billed, not billed)


def test_broken_requests_use_up_a_budget(model_server: ModelServer, wire_format: str, tmp_path: Path) -> None:
    work = task(
        model_server, Script((DONE,), cuts=9), wire_format, tmp_path, retries=9, budget=Amount(tokens=50_000)
    )
    failure = Ran(work).outcome.failure
    assert failure is not None
    assert failure.kind is FailureKind.CAP_REACHED


def test_answers_without_usage_count_in_full(
    model_server: ModelServer, wire_format: str, tmp_path: Path
) -> None:
    script = replace(LOOPS, usage=Tokens(0, 0))
    work = task(model_server, script, wire_format, tmp_path, budget=Amount(tokens=60_000))
    ran = Ran(work)
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.kind is FailureKind.CAP_REACHED
    assert 60_000 - counted(ran, work)[1] < longest() + 9_000
