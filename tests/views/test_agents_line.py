"""What is said about the agents of a run before the first one starts."""

from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.model.plan import Judgment, Plan, ProviderChoice, SandboxChoice
from agentforge.views.lines.plan import agents_line

ALL = {"claude": ("--skip",), "codex": ("--yolo",)}


def line(plan: Plan) -> str:
    return agents_line(plan, ALL, "/app").removeprefix("Agents in /app: ")


def test_the_line_names_model_permissions_sandbox_and_folder() -> None:
    shown = agents_line(plan_of(stage("plan"), stage("build")), ALL, "/app\n")
    assert shown == "Agents in /app: claude / opus, all permissions, no sandbox"


def test_every_agent_is_named_also_judges_fallbacks_and_those_of_blocks_and_nested_pipelines() -> None:
    confined = stage("build", sandbox=SandboxChoice("bwrap"), provider=ProviderChoice("command", ""))
    chain = stage("review", fallbacks=(ProviderChoice("codex", "gpt", {"permissions": ["-s", "read-only"]}),))
    plan = plan_of(nested("inner", block("claude codex", stage("ideas"))), confined, chain)
    assert line(plan) == (
        "claude / opus, all permissions, no sandbox; "
        "codex / opus, all permissions, no sandbox; "
        "command, bwrap; codex / gpt, permissions -s read-only, no sandbox"
    )
    judged = stage(
        "plan", termination=Judgment(9), provider=ProviderChoice("claude", "", {"permissions": []})
    )
    assert line(plan_of(judged)) == (
        "claude, permissions as configured in the CLI's own settings, no sandbox; "
        "claude / haiku, all permissions, no sandbox"
    )


def test_a_program_without_arguments_that_grant_permissions_has_those_of_its_own_settings() -> None:
    shown = agents_line(plan_of(stage("plan", provider=ProviderChoice("mine", ""))), {"mine": ()}, "/app")
    assert shown == "Agents in /app: mine, permissions as configured in the CLI's own settings, no sandbox"


def test_the_line_stays_one_line_for_many_agents() -> None:
    plan = plan_of(*(stage(f"s{i}", provider=ProviderChoice("mine", f"m{i}\n" * 99)) for i in range(9)))
    shown = line(replace(plan, passes=2))
    assert shown.endswith(" and 5 more (`agentforge dry-run` shows them)")
    assert "\n" not in shown
    assert len(shown) < 500
