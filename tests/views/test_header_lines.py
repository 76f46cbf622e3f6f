"""What a terminal shows first: which pipeline or stage runs."""

from msgspec.structs import replace
from tests.engine.plans import plan_of, stage

from agentforge.model.check import Check
from agentforge.model.plan import Items, ProviderChoice
from agentforge.views.lines.events import header_lines


def test_the_header_of_a_pipeline() -> None:
    lines = header_lines(plan_of(stage("plan"), stage("build")))
    assert lines[-3:] == ["2 stages: plan → build", "Providers: claude / opus", "Spending: no cap"]
    assert header_lines(plan_of(stage("plan"), passes=3))[-3] == "1 stage: plan, 3 times"
    chain = replace(stage("b"), fallbacks=(ProviderChoice("codex", "small"), ProviderChoice("mine", "")))
    assert header_lines(plan_of(stage("a"), chain))[-2] == "Providers: claude / opus, codex / small, mine"


def test_the_header_of_a_single_stage() -> None:
    plan = plan_of(replace(stage("tidy", 5), provider=ProviderChoice("claude", "opus")), mode="loop")
    assert header_lines(plan)[0::2] == ["Loop: tidy", "Max iterations: 5", "Spending: no cap"]
    assert header_lines(plan)[3] == "Provider: claude / opus"
    plain = plan_of(replace(stage("tidy", 5), provider=ProviderChoice("claude", "")), mode="loop")
    assert header_lines(plain)[3] == "Provider: claude"


def test_the_header_of_a_single_stage_over_items() -> None:
    plan = plan_of(stage("do", termination=Items(10, "initial.steps")), mode="loop")
    assert header_lines(plan)[2] == "Items: initial.steps"


def test_the_header_says_what_the_checks_run() -> None:
    checks = Check("test", "make\ntest"), Check("criteria", criteria=True)
    twice = plan_of(stage("build", checks=checks), stage("again", checks=(*checks, Check("lint", "l" * 100))))
    assert header_lines(twice)[-2] == f"Checks: test: make test; lint: {'l' * 79}…"
