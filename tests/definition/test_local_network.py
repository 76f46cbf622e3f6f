"""`network: local` in a plan: who may ask for it, and what it leaves out."""

import pytest

from agentforge.definition.compiler import compile_pipeline, compile_stage
from agentforge.definition.local_network import NEEDS_NETWORK, as_local
from agentforge.definition.settings import is_local_user
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import NETWORK, Overrides, Plan, SandboxChoice

from .world import TextWorld, found, stage

PIPELINE = """name: p
hooks:
  stage_end:
    - {id: tell, action: webhook, url: "https://x", needs: network}
    - {id: sum, action: script, script: make sum}
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
    within = "inner/" if text.endswith(NESTED) else ""
    assert [hook.id for hook in compiled.all_hooks] == [f"{within}tell", f"{within}sum"][expected:]
    assert compiled.pipeline.left_out == ({f"{within}tell": NEEDS_NETWORK} if expected else {})
    assert as_local(compiled) == as_local(as_local(compiled))
    # An agent needs the server of its model.
    assert work.sandbox == SandboxChoice("bwrap")
    assert report.sandbox == SandboxChoice("bwrap", network=not expected)


def test_a_nested_pipeline_asks_for_the_whole_run() -> None:
    world = TextWorld({"q.yaml": NESTED, ".claude/pipelines/p.yaml": "network: local\n" + PIPELINE})
    assert compile_pipeline(world, "q.yaml", "s").plan.is_local


def test_settings_ask_for_all_runs() -> None:
    world = TextWorld({"q.yaml": PIPELINE, ".agentforge/config/settings.yaml": "network: local\n"})
    assert compile_pipeline(world, "q.yaml", "s").plan.is_local


@pytest.mark.parametrize(
    ("users", "environment", "expected"),
    [
        ("network: local\n", {}, True),
        ("network: local\n", {NETWORK: "any"}, True),
        ("network: any\n", {}, False),
        ("", {NETWORK: "local"}, True),
        ("", {}, False),
    ],
)
def test_the_user_decides_for_runs_that_are_compiled_already(
    users: str, environment: dict[str, str], expected: bool
) -> None:
    own = {"/home/me/agentforge/settings.yaml": users, ".agentforge/config/settings.yaml": "network: local\n"}
    world = TextWorld(own, XDG_CONFIG_HOME="/home/me", **environment)
    assert is_local_user(world) is expected
    assert not is_local_user(TextWorld(own))


def test_a_mistake_in_the_users_settings_is_not_taken_for_a_permission() -> None:
    with pytest.raises(DefinitionError, match="invalid value `lokal`"):
        is_local_user(TextWorld({"/u/agentforge/settings.yaml": "network: lokal\n"}, XDG_CONFIG_HOME="/u"))


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
