"""`agentforge top`: all runs of a project, on a real terminal and elsewhere."""

from tests.surface.screen import on_a_terminal
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

PATIENT = f"touch up; while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}"


def test_without_a_terminal_top_prints_one_table(project: Project) -> None:
    assert project.call("top").out == f"No runs yet in {project.root}\n"
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0
    failing = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", failing, "-s", "broken").code == 1
    done = project.call("top")
    assert done.code == 0
    assert [line.split() for line in done.lines] == [
        ["SESSION", "STATUS", "STAGE", "ITER", "ELAPSED", "COST", "WAITS", "FOR"],
        ["broken", "failed", "plan", "1/1", "Ns", "resume:", "provider_crashed"],
        ["auth", "completed", "plan", "1/1", "Ns"],
        ["1", "failed,", "1", "completed"],
    ]
    with on_a_terminal(project, "top", "--once") as screen:
        assert screen.end() == 0
    assert "1 failed, 1 completed" in screen.text


def test_top_on_a_terminal_selects_attaches_pauses_and_cancels(project: Project) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "done").code == 0
    file = project.pipeline(f"plan*2={PATIENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        with on_a_terminal(project, "top") as screen:
            screen.until("1 running, 1 completed")
            screen.until("› auth")
            screen.until("agent (command)")
            screen.type("a")
            screen.until("0/2  iteration 1")
            screen.type("\x03")
            screen.until("Detached: session 'auth' continues.")
            screen.until("Press any key to return to the list.")
            screen.forget()
            screen.type(" ")
            screen.until("› auth")
            screen.type("p")
            screen.until("Session 'auth' will pause after its current iteration.")
            screen.type("j")
            screen.until("› done")
            screen.type("p")
            screen.until("only a running session can be paused")
            screen.type("kc")
            screen.until("Cancel session 'auth'? It can't be resumed. [y/N]")
            screen.type("n")
            screen.type("c")
            screen.type("y")
            screen.until("1 cancelled, 1 completed")
            screen.type("s")
            screen.until("auth: cancelled")
            screen.until("Press any key to return to the list.")
            screen.forget()
            screen.type(" ")
            screen.until("› auth")
            screen.type("q")
            assert screen.end() == 0
        assert run.end().code == 23
    # The terminal is as it was: the main screen, with a visible cursor.
    assert screen.raw.count("\x1b[?1049h") == screen.raw.count("\x1b[?1049l")
    assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")
    assert "pause_requested" in project.types("auth")


def test_a_pause_of_an_interrupted_run_waits_for_its_recovery(project: Project) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0
    log = project.run_dir("auth") / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))
    with on_a_terminal(project, "top") as screen:
        screen.until("1 interrupted")
        screen.type("p")
        screen.until("Session 'auth' has no active engine; it will pause as soon as it is recovered.")
        screen.type("q")
        assert screen.end() == 0


def test_a_signal_leaves_the_terminal_as_it_was(project: Project) -> None:
    """Without a shell that could continue it, the process isn't stopped by Ctrl-Z."""
    with on_a_terminal(project, "top") as screen:
        screen.until("No runs yet.")
        screen.type("\x1a")
        screen.until_raw("\x1b[?1049h", 2)
        assert screen.raw.count("\x1b[?1049l") == 1
        screen.terminate()
        assert screen.end() == 143
    assert screen.raw.count("\x1b[?1049h") == screen.raw.count("\x1b[?1049l")
    assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")
