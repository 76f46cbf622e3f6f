"""`network: local` in a plan: who may ask for it, and what it leaves out."""

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.definition.local_network import NEEDS_NETWORK
from agentforge.model.plan import NETWORK, Overrides, Plan, SandboxChoice

from .world import TextWorld, found, stage

PIPELINE = """name: p
nodes:
  - id: work
    prompt: x
    sandbox: bwrap
    checks:
      - {name: test, run: pytest}
      - {name: audit, run: pip-audit, needs: network}
  - id: report
    prompt: x
    sandbox: bwrap
    provider: {type: command, run: ./report.sh}
"""
NESTED = "nodes:\n  - id: inner\n    pipeline: p\n"


def plan(text: str, overrides: Overrides | None = None, **environment: str) -> Plan:
    world = TextWorld({"q.yaml": text, ".claude/pipelines/p.yaml": PIPELINE}, **environment)
    return compile_pipeline(world, "q.yaml", "s", overrides or Overrides()).plan


@pytest.mark.parametrize(
    ("text", "overrides", "environment", "expected"),
    [
        (PIPELINE, Overrides(), {}, False),
        ("network: any\n" + PIPELINE, Overrides(), {NETWORK: "any"}, False),
        ("network: local\n" + PIPELINE, Overrides(), {NETWORK: "any"}, True),
        ("network: any\n" + PIPELINE, Overrides(local=True), {}, True),
        (PIPELINE, Overrides(), {NETWORK: "local"}, True),
        (NESTED, Overrides(), {}, False),
        ("network: local\n" + NESTED, Overrides(), {}, True),
    ],
)
def test_any_level_can_ask_for_it_and_none_can_loosen_it(
    text: str, overrides: Overrides, environment: dict[str, str], expected: bool
) -> None:
    compiled = plan(text, overrides, **environment)
    assert compiled.is_local is expected
    work, report = compiled.stages
    assert [check.name for check in work.checks] == (["test"] if expected else ["test", "audit"])
    assert work.left_out == ({"audit": NEEDS_NETWORK} if expected else {})
    # An agent needs the server of its model.
    assert work.sandbox == SandboxChoice("bwrap")
    assert report.sandbox == SandboxChoice("bwrap", network=not expected)


def test_a_nested_pipeline_asks_for_the_whole_run() -> None:
    world = TextWorld({"q.yaml": NESTED, ".claude/pipelines/p.yaml": "network: local\n" + PIPELINE})
    assert compile_pipeline(world, "q.yaml", "s").plan.is_local


def test_settings_ask_for_all_runs() -> None:
    world = TextWorld({"q.yaml": PIPELINE, ".agentforge/config/settings.yaml": "network: local\n"})
    assert compile_pipeline(world, "q.yaml", "s").plan.is_local


def test_a_single_stage_can_be_local() -> None:
    world = TextWorld(stage())
    assert compile_stage(world, "s", overrides=Overrides(local=True)).plan.is_local
    assert not compile_stage(world, "s").plan.is_local


def test_other_values_are_errors() -> None:
    (diagnostic,) = found("network: lokal\n" + PIPELINE)
    assert diagnostic.code == "bad-value"
    assert "`network`" in diagnostic.message
    (diagnostic,) = found(PIPELINE, **{NETWORK: "off"})
    assert diagnostic.message == f"{NETWORK} must be `any` or `local`, got 'off'"
