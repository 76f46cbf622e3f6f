"""The settings below `orchestration` that a plan has, from a pipeline or from settings."""

from tests.engine.plans import plan_of, stage

from agentforge.app.settings_files import orchestration_of
from agentforge.model.plan import Approval, Limits, RetryPolicy, Route, TokenBudget


def test_those_of_a_stage_and_of_all() -> None:
    tokens = TokenBudget(total=900, share=40.0)
    plan = plan_of(
        stage("a", timeout=30.0, retry=RetryPolicy(4, stage=2), context_strategy="full", tokens=tokens),
        stage("b", timeout=1.5, retry=RetryPolicy(4), approve=Approval(), routes=(Route("fail", "go", "a"),)),
    )
    found = orchestration_of(plan)
    assert found["orchestration.step_retry_limit"] == 3
    assert found["orchestration.cycle_limit"] == 3
    assert "orchestration.stage_retry_limit" not in found
    assert "orchestration.token_budget.total" not in found
    assert (found["orchestration.a_timeout"], found["orchestration.b_timeout"]) == (30, 1.5)
    assert found["orchestration.token_budget.a"] == 40
    own = {key.removeprefix("orchestration.stages.a."): value for key, value in found.items()}
    assert own["retry_limit"] == 2
    assert own["context_strategy"] == "full"
    assert own["auto_retry_on_failure"] is False
    assert found["orchestration.stages.b.auto_retry_on_failure"] is True
    assert found["orchestration.stages.b.require_human_approval"] is True


def test_a_limit_of_all_stages() -> None:
    limits = Limits(cycles=5)
    assert orchestration_of(plan_of(stage("a", limits=limits)))["orchestration.cycle_limit"] == 5
