"""What a terminal shows first: which pipeline or stage runs."""

from msgspec.structs import replace
from tests.engine.plans import plan_of, stage

from agentforge.model.plan import ProviderChoice
from agentforge.views.lines.live import header_lines


def test_the_header_of_a_pipeline() -> None:
    lines = header_lines(plan_of(stage("plan"), stage("build")))
    assert lines[-1] == "2 stages: plan → build"
    assert header_lines(plan_of(stage("plan"), passes=3))[-1] == "1 stage: plan, 3 times"


def test_the_header_of_a_single_stage() -> None:
    plan = plan_of(replace(stage("tidy", 5), provider=ProviderChoice("claude", "opus")), mode="loop")
    assert header_lines(plan)[0::2] == ["Loop: tidy", "Max iterations: 5"]
    assert header_lines(plan)[3] == "Provider: claude / opus"
    plain = plan_of(replace(stage("tidy", 5), provider=ProviderChoice("claude", "")), mode="loop")
    assert header_lines(plain)[3] == "Provider: claude"
