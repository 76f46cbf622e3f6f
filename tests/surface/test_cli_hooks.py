"""Hooks on the command line: what a run asks because of them, and `agentforge show --hooks`."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, Started

from agentforge import HookContext, HookResult, SyncEngine

ASKS = """\
hooks:
  stage_end:
    - {id: publish, stage: build, action: confirm, message: Publish it?}
"""


@pytest.fixture
def asking(project: Project) -> Project:
    """A run that stopped at its confirmation."""
    file = project.root / project.pipeline(f"build={WRITE_RESULT}", f"next=cat > seen.txt; {WRITE_RESULT}")
    file.write_text(
        ASKS + file.read_text().replace("cat >/dev/null; cat", "cat").replace("do it", "${CONTEXT}")
    )
    done = project.call("run", "-p", "p.yaml", "-s", "auth")
    assert (done.code, project.state("auth")["status"]) == (0, "paused")
    assert "  Continue: " in done.out
    return project


def test_hooks_status_and_inbox_show_what_a_confirmation_asks(asking: Project) -> None:
    assert asking.call("show", "auth", "--hooks").lines == [
        "auth: paused, pipeline demo, 1 hook call",
        "",
        "‖ publish (build, iteration 1): waiting for an answer",
        "    Hook:     confirm at stage_end",
        "    Request:  hook_confirm-8: open",
    ]
    status = asking.call("status", "auth").lines
    assert "Hook: publish (confirm at stage_end of build), waiting for an answer" in status
    assert "Pause reason: a hook asks for confirmation" in status
    shown = asking.call("inbox", "show", "auth").out
    assert "  Hook:       publish\n  Question:   Publish it?\n" in shown


@pytest.mark.parametrize("command", [["approve", "auth"], ["answer", "auth", "continue"], ["resume", "auth"]])
def test_confirmed_run_continues(asking: Project, command: list[str]) -> None:
    done = asking.call(*command)
    assert done.code == 0
    assert "✓ Completed: 2 iterations" in done.out
    assert "Still open" not in done.out
    (one,) = asking.call("show", "auth", "--hooks", "--json").json["deliveries"]
    assert (one["hook"], one["action"], one["decision"]) == ("publish", "confirm", "continue")


def test_resume_of_a_confirmation_adds_context(asking: Project) -> None:
    assert asking.call("resume", "auth", "--context", "be brief").code == 0
    assert (asking.root / "seen.txt").read_text() == "be brief"


def test_rejected_confirmation_ends_the_run(asking: Project) -> None:
    refused = asking.call("reject", "auth", "-f", "no")
    assert refused.code == 2
    assert "hook 'publish' paused the run: there is no result to reject" in refused.err
    assert asking.call("reject", "auth", "--abort").code == 23
    assert asking.state("auth")["status"] == "aborted"


def test_run_without_hooks_has_no_deliveries(project: Project) -> None:
    assert project.call("run", "-p", project.pipeline(f"a={WRITE_RESULT}"), "-s", "auth").code == 0
    assert project.call("show", "auth", "--hooks").lines == [
        "auth: completed, pipeline demo, no hooks were called"
    ]


PROGRAM = "the program that registers its hooks (iteration_end-review)"


def run_with_a_hook_of_this_program(project: Project, look: Callable[[], object] = lambda: None) -> None:
    """A run that stopped because of the hook. `look`: called during the hook."""

    def review(_: HookContext) -> HookResult:
        look()
        return HookResult("pause", "Continue?")

    file = project.pipeline(f"build={WRITE_RESULT}")
    with SyncEngine(project.root, environ=project.env) as sdk:
        sdk.engine.on_iteration_end(review)
        sdk.run(str(project.root / file), session="auth")


def test_run_that_needs_hooks_of_a_program_is_left_to_that_program(project: Project) -> None:
    run_with_a_hook_of_this_program(project)
    refused = project.call("resume", "auth")
    assert (refused.code, refused.out) == (1, "")
    assert "needs hooks that this program doesn't have: iteration_end-review" in refused.err
    shown = project.call("status", "auth").lines
    assert f"Resume: with {PROGRAM}" in shown
    recovered = project.call("recover", "auth")
    assert recovered.out == f"Session 'auth' is paused, not interrupted; resume it with {PROGRAM}.\n"


def test_answer_to_a_run_that_needs_hooks_of_a_program_waits_for_that_program(project: Project) -> None:
    run_with_a_hook_of_this_program(project)
    answered = project.call("approve", "auth")
    assert (answered.code, answered.out) == (0, "")
    said = f"Answered session 'auth': continue. Run {PROGRAM} to continue; it calls `recover`.\n"
    assert answered.err == said
    shown = project.call("status", "auth").lines
    assert f"Resume: answered, not continued: {PROGRAM}" in shown
    assert not [line for line in shown if line.startswith(("Question:", "Answer:"))]
    inbox = project.call("inbox")
    assert inbox.out == "No open requests.\n"
    assert inbox.err == f"Session 'auth' was answered but has no active engine; run {PROGRAM}.\n"


def test_run_with_a_hook_can_be_followed(project: Project) -> None:
    attached: list[Started] = []

    def look() -> None:
        follower = processes.enter_context(project.started("attach", "auth"))
        attached.append(follower)
        assert follower.process.stderr is not None
        assert follower.process.stderr.readline() == b"Ctrl-C detaches; the run continues.\n"

    with ExitStack() as processes:
        run_with_a_hook_of_this_program(project, look)
        done = attached[0].end()
    assert done.code == 0
    assert "‖ pause: Continue? [continue, abort]\n" in done.out
    assert f"  Resume: with {PROGRAM}\n" in done.out
    tailed = project.call("tail", "auth", "--no-follow").lines
    assert [line.split()[1] for line in tailed[-4:]] == [
        "hook_start",
        "hook_complete",
        "request_opened",
        "session_paused",
    ]
    assert ' action=pause reason="Continue?" ' in tailed[-3]


def test_time_of_a_continued_run_is_that_of_the_whole_run(asking: Project) -> None:
    done = asking.call("approve", "auth", "--json").json
    assert done["duration_seconds"] == asking.call("status", "auth", "--json").json["duration_seconds"]
