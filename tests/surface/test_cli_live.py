"""The live display in a real terminal."""

import re
from copy import copy
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.surface.json_agents import stage, write_pipeline
from tests.surface.screen import on_a_terminal
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

from agentforge import Runs
from agentforge.cli.live import LivePainter
from agentforge.model.facts import RequestAnswered
from agentforge.views.run_model import RunModel

AGENT = f"echo '[red]reading[/red] the code'; while [ ! -e go ]; do sleep 0.05; done; {WRITE_RESULT}"


def test_the_live_display_shows_stages_iterations_and_the_last_line(project: Project) -> None:
    file = project.pipeline(f"plan*2={AGENT}", f"build={WRITE_RESULT}")
    with on_a_terminal(project, "run", "-p", file, "-s", "auth") as screen:
        screen.until("0/2  iteration 1")
        screen.until("│ [red]reading[/red] the code")
        assert "· build" in screen.text
        (project.root / "go").touch()
        assert screen.end() == 0
    assert "✓ plan 1/2 done in" in screen.text
    assert "━━━" in screen.text
    assert "✓ Completed: 3 iterations in" in screen.text
    assert '"level"' not in screen.text
    # The cursor that was hidden while drawing is back.
    assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")


def test_the_live_display_shows_the_step_of_a_stage_over_items(project: Project) -> None:
    leave = """echo '{"steps": [{"id": "s1"}, {"id": "s2"}]}' > "$AGENTFORGE_ARTIFACT\""""
    plan = stage("plan", f"{leave}; {WRITE_RESULT}", artifact={"type": "object"})
    do = stage("do", AGENT, termination={"type": "items", "from": "plan.steps"})
    del do["runs"]
    file = write_pipeline(project, "steps", plan, do)
    with on_a_terminal(project, "run", "-p", file, "-s", "auth") as screen:
        screen.until("0/2  step 1 of 2: s1")
        (project.root / "go").touch()
        assert screen.end() == 0
    assert "✓ do 2/2 done in" in screen.text


def test_the_live_display_shows_the_check_that_runs(project: Project) -> None:
    check = "    checks: [{name: slow, run: 'while [ ! -e go ]; do sleep 0.05; done'}]\n"
    file = project.pipeline(f"plan={WRITE_RESULT}", extra=check)
    with on_a_terminal(project, "run", "-p", file, "-s", "auth") as screen:
        screen.until("1/1  check slow, ")
        assert project.call("top", "--json").json[0]["waits_for"].startswith("check slow, ")
        (project.root / "go").touch()
        assert screen.end() == 0
    assert "plan verdict pass" in screen.text


def test_ctrl_c_on_a_terminal_says_what_happens_and_how_to_resume(project: Project) -> None:
    file = project.pipeline(f"plan*2={AGENT}")
    with on_a_terminal(project, "run", "-p", file, "-s", "auth") as screen:
        screen.until("reading")
        screen.type("\x03")
        screen.until("Press Ctrl-C again to stop immediately.")
        (project.root / "go").touch()
        assert screen.end() == 130
    assert "‖ Paused after 1 iteration in" in screen.text
    assert re.search(r"Resume: .*agentforge resume auth", screen.text)
    assert project.types("auth")[-2:] == ["iteration_complete", "session_paused"]


def test_a_wait_for_a_limit_is_a_separate_line_that_fits(project: Project) -> None:
    agent = project.root / "agent"
    agent.write_text("#!/bin/sh\necho slow down >&2\nexit 1\n")
    agent.chmod(0o700)
    (project.root / "p.yaml").write_text(
        "name: demo\nnodes:\n"
        "  - id: a-stage-with-quite-a-long-name\n    prompt: do it\n"
        "    on_limit: {initial_delay: 5000, max_delay: 5000}\n"
        "    provider: {type: cli, program: ./agent, failures: {slow down: provider_rate_limited}}\n"
    )
    with on_a_terminal(project, "run", "-p", "p.yaml", "-s", "auth", COLUMNS="60") as screen:
        screen.until("‖ waiting 1h 23m for cli: a-stage-with")
        screen.type("\x03")
        assert screen.end() == 130
    assert screen.text.count("slow down") == 1


def test_a_resumed_run_shows_what_was_done_before(project: Project) -> None:
    shell = f"test -e fixed || exit 3; {WRITE_RESULT}"
    file = project.pipeline(f"plan={WRITE_RESULT}", f"build={shell}", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    (project.root / "fixed").touch()
    with on_a_terminal(project, "resume") as screen:
        assert screen.end() == 0
    assert "Resuming session 'auth' from stage build, iteration 1" in screen.text
    assert re.search(r"✓ plan +━+ 1/1", screen.text)


def test_a_terminal_that_can_not_draw_gets_plain_lines(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    with on_a_terminal(project, "run", "-p", file, "-s", "auth", TERM="dumb") as screen:
        assert screen.end() == 0
    assert "\x1b" not in screen.raw
    assert "▸ plan 1/1 started" in screen.text
    with on_a_terminal(project, "status", "auth", TERM="dumb") as screen:
        assert screen.end() == 0
    assert "\x1b" not in screen.raw


def test_bars_remain_without_colours(project: Project) -> None:
    # Each iteration waits until its bar was seen: the display isn't drawn at every event.
    agent = f"while [ ! -e go-$MOCK_ITERATION ]; do sleep 0.05; done; {WRITE_RESULT}"
    with on_a_terminal(
        project, "run", "-p", project.pipeline(f"plan*2={agent}"), "-s", "auth", NO_COLOR="1"
    ) as screen:
        screen.until(f"plan {'─' * 24} 0/2  iteration 1")
        (project.root / "go-1").touch()
        screen.until(f"plan {'━' * 12}{'─' * 12} 1/2  iteration 2")
        (project.root / "go-2").touch()
        assert screen.end() == 0
    assert f"plan {'━' * 24} 2/2" in screen.text


def test_long_lines_are_wrapped_at_words(project: Project) -> None:
    words = " ".join(f"word{number:02d}" for number in range(22))
    shell = f"echo {words}; exit 3"
    file = project.pipeline(f"plan={shell}", extra="    retry: {max_attempts: 1}\n")
    commands = (
        ("run", "-p", file, "-s", "live"),
        ("status", "live"),
        ("tail", "live"),
        ("run", "-p", f"{words}.yaml"),
    )
    shown = []
    for arguments in commands:
        with on_a_terminal(project, *arguments, COLUMNS="80") as screen:
            screen.end()
        shown.append(screen.text)
    with on_a_terminal(project, "run", "-p", file, "-s", "plain", COLUMNS="80", TERM="dumb") as screen:
        screen.end()
    for text in (*shown, screen.text):
        # Excerpts of files are not wrapped: a caret is below them.
        lines = [line for line in re.split(r"[\r\n]+", text) if not line.startswith("  |")]
        assert [line for line in lines if len(line) > 80] == []
        assert "word12" in text
        assert [line for line in lines if re.search(r"\bwor?d?$|^\s*(ord|rd|d)\d", line)] == []


def test_elapsed_time_of_a_run_that_is_followed_ends_with_the_run(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended long ago, and had waited before for an approval."""
    file = project.pipeline(f"plan={WRITE_RESULT}", extra="    approve: true\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    assert project.call("approve", "auth").code == 0
    painter, run, waited = LivePainter(str(project.root), "agentforge", follows=True), RunModel(), False
    for event in Runs(str(project.root), {}).events("auth"):
        waited = waited or isinstance(event.fact, RequestAnswered)
        moved = replace(event, at=event.at - timedelta(hours=8 if waited else 9))
        run.apply(moved)
        painter.event(moved, copy(run))
    painter.end()
    assert re.search(r"^ +\d+(\.\d)?s · 1 iteration$", capsys.readouterr().out, re.MULTILINE)
    assert run.summary.waited_seconds > 3600


def test_status_on_a_terminal_is_in_columns_and_colours(project: Project) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0
    with on_a_terminal(project, "status") as screen:
        assert screen.end() == 0
    assert "Session:      auth\r\nStatus:       completed\r\n" in screen.text
    assert "\x1b[32mcompleted" in screen.raw


def test_attach_shows_a_running_session_and_ctrl_c_leaves_it_running(project: Project) -> None:
    file = project.pipeline(f"plan*2={AGENT}", f"build={WRITE_RESULT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for(lambda: "attempt_start" in project.types("auth"), "the agent")
        with on_a_terminal(project, "attach") as screen:
            screen.until("0/2  iteration 1")
            screen.until("│ [red]reading[/red] the code")
            screen.until("Ctrl-C detaches; the run continues.")
            screen.type("\x03")
            assert screen.end() == 0
        assert "Detached: session 'auth' continues." in screen.text
        assert "agentforge pause auth" in screen.text
        assert project.call("status", "auth", "--json").json["status"] == "running"
        with on_a_terminal(project, "attach", "auth") as screen:
            screen.until("0/2  iteration 1")
            (project.root / "go").touch()
            assert screen.end() == 0
        assert "✓ Completed: 3 iterations in" in screen.text
        assert run.end().code == 0
    done = project.call("attach", "auth")
    assert done.code == 2
    assert "session 'auth' is completed, not running" in done.err
