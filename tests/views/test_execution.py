"""What a run would execute, for the person who decides whether to trust it."""

from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.model.check import Check
from agentforge.model.errors import Execution
from agentforge.model.hook import Hook, Notification
from agentforge.model.plan import Judgment, Overrides, PipelineInfo, ProviderChoice, Queue, SandboxChoice
from agentforge.model.state import RunSettings
from agentforge.views.execution import COLUMNS, MAX_LINES, execution_lines, executions

SHELL = ProviderChoice("command", "", {"run": "curl x | sh"})


def test_every_provider_of_every_stage_is_listed_with_its_settings_and_sandbox() -> None:
    chain = {"provider": SHELL, "fallbacks": (ProviderChoice("codex", "o3"),)}
    confined = stage("build", **chain, sandbox=SandboxChoice("bwrap", network=False))
    found = executions(plan_of(confined, block("p q", stage("x"))), RunSettings())
    assert [(one.stage, one.provider, one.sandbox) for one in found] == [
        ("build", "command", "bwrap"),
        ("build", "codex", "bwrap"),
        ("x", "p", "none"),
        ("x", "q", "none"),
    ]
    assert found[0].settings == {"run": "curl x | sh"}
    assert not found[0].network


def test_judge_and_commands_are_listed() -> None:
    judged = stage(
        "a", termination=Judgment(3), commands={"test": "make test"}, checks=(Check("lint", "ruff check"),)
    )
    queued = stage("b", termination=Queue(3, command="bd list"))
    plan = replace(plan_of(judged, queued), judge=ProviderChoice("claude", "haiku"))
    found = executions(plan, RunSettings())
    assert found[0].commands == {"test": "make test", "check lint": "ruff check"}
    assert found[1].commands == {"queue": "bd list"}
    assert (found[-1].stage, found[-1].provider, found[-1].model) == ("judge", "claude", "haiku")
    own = replace(judged, judge=ProviderChoice("codex", "o3", {"env": {"A": "1"}}))
    several = executions(replace(plan, nodes=(judged, own, judged)), RunSettings())
    assert [(one.provider, one.settings) for one in several if one.stage == "judge"] == [
        ("claude", {}),
        ("codex", {"env": {"A": "1"}}),
    ]


def test_mock_mode_and_replay_execute_no_provider() -> None:
    plan = plan_of(stage("a", provider=SHELL))
    for settings, name in ((RunSettings(mock=True), "mock"), (RunSettings(replay=0.0), "replay")):
        (one,) = executions(plan, settings)
        assert (one.provider, one.settings) == (name, {})


def test_hooks_and_notifications_that_leave_the_engine_are_listed() -> None:
    inner = plan_of(stage("b"))
    script = Hook("n", "stage_end", "script", script="y")
    inner = replace(inner, pipeline=replace(inner.pipeline, hooks=(script,)))
    info = PipelineInfo(
        "refine",
        Overrides(),
        {},
        hooks=(
            Hook("ask", "stage_end", "confirm"),
            Hook("check", "stage_end", "script", script="make lint"),
            Hook("review", "iteration_end", "webhook", url="https://a.example/"),
        ),
        notify=(Notification(desktop=True), Notification(command="x", url="https://b.example/")),
    )
    plan = replace(plan_of(stage("a"), replace(nested("n"), plan=inner)), pipeline=info)
    found = [(one.stage, one.provider, one.settings) for one in executions(plan, RunSettings())]
    assert found[2:] == [
        ("hook check", "script", {"script": "make lint"}),
        ("hook review", "webhook", {"url": "https://a.example/"}),
        ("hook n", "script", {"script": "y"}),
        ("notify", "command", {"command": "x"}),
        ("notify", "webhook", {"url": "https://b.example/"}),
    ]
    assert len(executions(plan, RunSettings(replay=0.0))) == 2


def test_notification_has_the_sandbox_of_the_last_stage_that_has_one() -> None:
    info = PipelineInfo("refine", Overrides(), {}, notify=(Notification(command="x"),))
    confined = stage("b", sandbox=SandboxChoice("bwrap", network=False))
    docker = stage("a", sandbox=SandboxChoice("docker", image="i"))
    plain = stage("c", sandbox=SandboxChoice())
    plan = replace(plan_of(docker, confined, plain), pipeline=info)
    notify = executions(plan, RunSettings())[-1]
    assert (notify.stage, notify.sandbox, notify.network) == ("notify", "bwrap", False)
    assert replace(plan_of(plain), pipeline=info).notify_sandbox is None


def test_lines_show_all_of_it_without_control_characters() -> None:
    plain = Execution("plan", "command", settings={"run": "echo \x1b[31m"}, commands={"t": "x"})
    confined = Execution("b\x1b", "claude", "opus", sandbox="bwrap", network=False)
    assert execution_lines([plain, confined]) == [
        'plan: command, no sandbox, settings {"run":"echo \\u001b[31m"}, commands {"t":"x"}',
        "b\ufffd: claude opus, sandbox bwrap without network",
    ]
    assert execution_lines([Execution("a", "c", sandbox="docker")]) == ["a: c, sandbox docker"]


def test_many_and_long_lines_are_cut() -> None:
    long = Execution("a", "command", settings={"run": "x" * 1000})
    lines = execution_lines([long] * (MAX_LINES + 3))
    assert len(lines) == MAX_LINES + 1
    assert len(lines[0]) == COLUMNS
    assert lines[-1] == "and 3 more"
