"""Runs in the background, in a real tmux: sessions, windows, collisions, what is stale."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, is_alive, wait_for
from tests.surface.tmux_server import TmuxServer, needs_tmux

pytestmark = needs_tmux

WAIT = "touch up; while [ ! -e go ]; do sleep 0.02; done"
PATIENT = f"{WAIT}; {WRITE_RESULT}"


def finish(project: Project, session: str) -> None:
    (project.root / "go").touch()
    wait_for(lambda: "session_complete" in project.types(session), "the end of the run")


def test_tmux_session_detached_named_pipeline_and_the_hints(project: Project, tmux: TmuxServer) -> None:
    file = project.pipeline(f"plan={PATIENT}")
    done = project.call("pipeline", file, "auth")
    assert done.code == 0, done.err
    assert done.lines == [
        f"Agents in {project.root}: command, no sandbox",
        "Session started in tmux: pipeline-auth",
        "",
        "  Attach:  agentforge attach auth",
        "  Output:  agentforge logs auth",
        "  Status:  agentforge status auth",
        "  Stop:    agentforge pause auth",
    ]
    assert tmux.sessions() == ["pipeline-auth"]
    assert project.call("status", "auth", "--json").json["status"] == "running"
    wait_for((project.root / "up").exists, "the agent")
    wait_for(lambda: "plan" in tmux.call("capture-pane", "-t", "pipeline-auth", "-p"), "the display")
    finish(project, "auth")
    wait_for(lambda: not tmux.sessions(), "the end of the tmux session")
    assert not project.lock("auth").exists()


@pytest.mark.parametrize("form", [("loop", "tidy"), ("tidy",)])
def test_tmux_runs_loops_and_stages_in_the_background_too(
    project: Project, tmux: TmuxServer, form: tuple[str, ...]
) -> None:
    project.stage("tidy")
    done = project.call(*form, "a.b", "2", "--json", env={"MOCK_MODE": "true"})
    assert done.json == {"session": "a.b", "tmux": "pipeline-a_b", "window": False, "cleaned": None}
    wait_for(lambda: "session_complete" in project.types("a.b"), "the end of the run")
    assert project.types("a.b").count("iteration_complete") == 2


def test_tmux_child_gets_arguments_and_environment_as_they_are(project: Project, tmux: TmuxServer) -> None:
    # A server that is already running has its own environment.
    tmux.call("new-session", "-d", "-s", "other", "sleep", "60")
    file = project.pipeline(f'plan=printf "%s" "$GIVEN" > given; {WRITE_RESULT}')
    hostile = 'it\'s "two" words; $(touch pwned) \\;'
    long = "x" * 30_000
    done = project.call(
        "pipeline",
        file,
        "auth",
        f"--context={hostile} {long}",
        "--command=test=a 'b' ;",
        env={"GIVEN": hostile},
    )
    assert done.code == 0, done.err
    wait_for(lambda: "session_complete" in project.types("auth"), "the end of the run")
    assert (project.root / "given").read_text() == hostile
    plan = json.loads((project.run_dir("auth") / "plan.json").read_text())
    assert plan["pipeline"]["overrides"] == {
        "context": f"{hostile} {long}",
        "commands": {"test": "a 'b' ;"},
    }
    assert not (project.root / "pwned").exists()
    assert not list(project.temporary.glob("agentforge-launch-*"))


def test_no_file_is_left_if_the_child_never_starts(project: Project, tmux: TmuxServer) -> None:
    """A tmux that accepts the command and starts nothing."""
    tools = project.root.parent / "tools"
    tools.mkdir()
    (tools / "tmux").write_text("#!/bin/sh\nexit 0\n")
    (tools / "tmux").chmod(0o755)
    file = project.pipeline(f"plan={WRITE_RESULT}")
    done = project.call("pipeline", file, "auth", env={"PATH": f"{tools}:{os.environ['PATH']}"})
    assert done.code == 1
    assert "the program didn't start in tmux" in done.err
    assert not list(project.temporary.glob("agentforge-launch-*"))


def test_a_killed_launcher_leaves_no_secret_in_a_file(project: Project, tmux: TmuxServer) -> None:
    tools = project.root.parent / "tools"
    tools.mkdir()
    (tools / "tmux").write_text('#!/bin/sh\n[ "$1" != new-session ] || touch ../up\nexit 0\n')
    (tools / "tmux").chmod(0o755)
    file = project.pipeline(f"plan={WRITE_RESULT}")
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "MY_API_KEY": "sk-0123456789"}
    with project.started("pipeline", file, "auth", env=env) as launcher:
        wait_for((project.root.parent / "up").exists, "tmux")
        launcher.process.kill()
        launcher.process.wait()
    left = [path for path in project.temporary.rglob("*") if path.is_file()]
    assert [path for path in left if b"sk-0123456789" in path.read_bytes()] == []


def test_tmux_session_that_is_running_is_refused(project: Project, tmux: TmuxServer) -> None:
    file = project.pipeline(f"plan={PATIENT}")
    assert project.call("pipeline", file, "auth").code == 0
    again = project.call("pipeline", file, "auth")
    assert again.code == 1
    assert "Error: Session already running. Use `--force` to override." in again.err
    assert "tmux attach -t pipeline-auth" in again.err
    assert tmux.sessions() == ["pipeline-auth"]
    finish(project, "auth")


def test_tmux_force_stops_the_running_session_and_starts_over(project: Project, tmux: TmuxServer) -> None:
    file = project.pipeline(f"plan={PATIENT}")
    assert project.call("pipeline", file, "auth").code == 0
    wait_for((project.root / "up").exists, "the agent")
    first = project.events("auth")[0]["trace_id"]
    (project.root / "go").touch()
    forced = project.call("pipeline", file, "auth", "--force")
    assert forced.code == 0, forced.err
    wait_for(lambda: "session_complete" in project.types("auth"), "the end of the second run")
    assert project.events("auth")[0]["trace_id"] != first


def test_tmux_stale_session_is_cleaned_up_with_an_event(project: Project, tmux: TmuxServer) -> None:
    """A tmux session with the run's name exists, and no engine drives the run."""
    tmux.call("new-session", "-d", "-s", "pipeline-auth", "-c", str(project.root), "sleep", "60")
    shell = int(tmux.call("list-panes", "-a", "-F", "#{pane_pid}"))
    project.lock("auth").parent.mkdir(parents=True)
    project.lock("auth").write_text(
        json.dumps({"session": "auth", "pid": 4_190_001, "started_at": "2026-01-15T12:00:00Z"})
    )
    done = project.call("pipeline", project.pipeline(f"plan={WRITE_RESULT}"), "auth")
    assert done.code == 0, done.err
    assert "Cleaning up stale tmux session 'pipeline-auth' (PID 4190001 not running)" in done.err
    wait_for(lambda: "session_complete" in project.types("auth"), "the end of the run")
    cleaned = next(event for event in project.events("auth") if event["type"] == "tmux_session_cleaned")
    assert cleaned["data"] == {"name": "pipeline-auth", "pid": 4_190_001}
    wait_for(lambda: not is_alive(shell), "the end of the stale session's program")


def test_tmux_session_of_a_killed_engine_is_stale_and_resumed(project: Project, tmux: TmuxServer) -> None:
    tmux.call("new-session", "-d", "-s", "other", "sleep", "60")
    tmux.call("set-option", "-g", "remain-on-exit", "on")
    file = project.pipeline(f"plan={PATIENT}")
    assert project.call("pipeline", file, "auth").code == 0
    wait_for((project.root / "up").exists, "the agent")
    pid = json.loads(project.lock("auth").read_text())["pid"]
    os.kill(pid, 9)
    wait_for(lambda: project.call("status", "auth", "--json").json["status"] == "interrupted", "the death")
    assert "pipeline-auth" in tmux.sessions()
    tmux.call("set-option", "-g", "remain-on-exit", "off")
    done = project.call("pipeline", file, "auth", "--resume")
    assert done.code == 0, done.err
    assert f"(PID {pid} not running)" in done.err
    wait_for(lambda: "attempt_reattached" in project.types("auth"), "the second engine")
    finish(project, "auth")
    types = project.types("auth")
    assert types.count("attempt_start") == 1
    assert types.count("attempt_reattached") == 1
    assert types.count("tmux_session_cleaned") == 1


def test_tmux_inside_of_tmux_a_window_is_made(project: Project, tmux: TmuxServer) -> None:
    tmux.call("new-session", "-d", "-s", "mine", "sleep", "60")
    inside = tmux.call("display-message", "-p", "-t", "mine", "#{socket_path},#{pid},0")
    pane = tmux.call("display-message", "-p", "-t", "mine", "#{pane_id}")
    file = project.pipeline(f"plan={PATIENT}")
    done = project.call("pipeline", file, "auth", env={"TMUX": inside, "TMUX_PANE": pane})
    assert done.code == 0, done.err
    assert done.lines[1] == "Session started in tmux window: pipeline-auth"
    assert "  Attach:  agentforge attach auth" in done.lines
    assert tmux.sessions() == ["mine"]
    assert "mine/pipeline-auth" in tmux.windows()
    finish(project, "auth")
    wait_for(lambda: "mine/pipeline-auth" not in tmux.windows(), "the end of the window")


def test_sessions_with_the_same_tmux_name_are_refused(project: Project, tmux: TmuxServer) -> None:
    file = project.pipeline(f"plan={PATIENT}")
    assert project.call("pipeline", file, "a.b").code == 0
    done = project.call("pipeline", file, "a_b")
    assert done.code == 1
    assert f"tmux session 'pipeline-a_b' belongs to session 'a.b' in {project.root}" in done.err
    assert tmux.sessions() == ["pipeline-a_b"]
    finish(project, "a.b")


def test_tmux_session_of_another_project_is_left_alone(project: Project, tmux: TmuxServer) -> None:
    tmux.call("new-session", "-d", "-s", "pipeline-auth", "-c", str(project.home), "sleep", "60")
    done = project.call("pipeline", project.pipeline(f"plan={WRITE_RESULT}"), "auth")
    assert done.code == 1
    assert f"tmux session 'pipeline-auth' belongs to another program in {project.home}" in done.err
    assert tmux.sessions() == ["pipeline-auth"]
    assert project.events("auth") == []


def test_tmux_errors_are_reported_before_detaching(project: Project, tmux: TmuxServer) -> None:
    project.stage("tidy", "provider: codex\n")
    missing = project.call("tidy", "a", env={"PATH": str(_only(project, "tmux", "sh", "env"))})
    assert missing.code == 1
    assert "codex" in missing.err
    assert project.call("loop", "nosuch", "a").code == 2
    assert project.call("pipeline", "nosuch.yaml", "a").code == 2
    assert tmux.sessions() == []
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("pipeline", file, "b", "--foreground").code == 0
    taken = project.call("pipeline", file, "b")
    assert taken.code == 1
    assert "Session 'b' already completed." in taken.err


def test_tmux_resume_detached_continues_in_the_background(project: Project, tmux: TmuxServer) -> None:
    shell = f"test -e fixed || exit 3; {PATIENT}"
    file = project.pipeline(f"plan={shell}", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    (project.root / "fixed").touch()
    done = project.call("resume", "auth", "--detach", "--context", "a note; it's fixed")
    assert done.code == 0, done.err
    agents = f"Agents in {project.root}: command, no sandbox"
    assert done.lines[:2] == [agents, "Session started in tmux: pipeline-auth"]
    wait_for((project.root / "up").exists, "the agent")
    assert tmux.sessions() == ["pipeline-auth"]
    again = project.call("resume", "auth", "--detach")
    assert again.code == 1
    assert "already running" in again.err
    finish(project, "auth")
    resumed = next(event for event in project.events("auth") if event["type"] == "session_resumed")
    assert resumed["data"]["context"] == "a note; it's fixed"
    assert project.call("resume", "auth", "--detach").code == 1


def test_tmux_recover_detached_continues_every_interrupted_run(project: Project, tmux: TmuxServer) -> None:
    file = project.pipeline(f"plan={PATIENT}")
    for session in ("one", "two"):
        with project.started("run", "-p", file, "-s", session) as run:
            wait_for(lambda session=session: "attempt_start" in project.types(session), "the agent")
            run.process.kill()
            run.process.wait(60)
    done = project.call("recover", "--detach", "--json")
    assert done.code == 0, done.err
    assert sorted(run["session"] for run in done.json["detached"]) == ["one", "two"]
    assert sorted(tmux.sessions()) == ["pipeline-one", "pipeline-two"]
    finish(project, "one")
    finish(project, "two")
    assert "Nothing to recover" in project.call("recover", "--detach").out


def test_tmux_run_that_fails_in_the_background_says_why(project: Project, tmux: TmuxServer) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    text = (project.root / file).read_text()
    tools = project.home / "tools"
    tools.mkdir()
    # The file disappears after it was checked in the foreground.
    real, path = shutil.which("tmux"), project.root / file
    (tools / "tmux").write_text(
        f'#!/bin/sh\ncase "$*" in *new-session*) rm -f {path};; esac\nexec {real} "$@"\n'
    )
    (tools / "tmux").chmod(0o700)
    project.env["PATH"] = f"{tools}:{project.env['PATH']}"
    done = project.call("pipeline", file, "auth")
    assert done.code == 1
    assert "Session 'auth' failed to start: " in done.err
    assert file in done.err
    status = project.call("status", "auth")
    assert status.code == 2
    assert "session 'auth' did not start: " in status.err
    assert "The engine of session 'auth' stopped" in project.call("list").err
    path.write_text(text)
    assert project.call("pipeline", file, "auth", "--foreground").code == 0
    assert project.call("list").err == ""


def test_tmux_missing_and_no_foreground_is_a_clear_error(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    without = {"PATH": str(_only(project, "sh", "cat", "env"))}
    done = project.call("pipeline", file, "auth", env=without)
    assert done.code == 2
    assert "tmux required for background execution. Install tmux or use `--foreground`" in done.err
    assert project.call("pipeline", file, "auth", "--foreground", env=without).code == 0


def test_tmux_kill_session_pauses_the_run(project: Project, tmux: TmuxServer) -> None:
    """As users of the shell engine do: no agent is left running."""
    file = project.pipeline("plan=touch up; exec sleep 60", extra="    timeout: 60\n")
    assert project.call("pipeline", file, "auth").code == 0
    wait_for((project.root / "up").exists, "the agent")
    tmux.call("kill-session", "-t", "pipeline-auth")
    wait_for(lambda: "pause_requested" in project.types("auth"), "that it is heard")
    # Another signal at once ends the agent, too.
    os.kill(json.loads(project.lock("auth").read_text())["pid"], signal.SIGTERM)
    wait_for(lambda: "session_paused" in project.types("auth"), "the pause")


def _only(project: Project, *programs: str) -> Path:
    """A folder with just these programs, to be the whole path."""
    folder = project.home / "-".join(programs)
    folder.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found
        (folder / program).symlink_to(found)
    return folder


def test_tmux_session_of_a_project_whose_path_has_a_newline_is_found(
    project: Project, tmux: TmuxServer
) -> None:
    project.root = project.root / "one\npipeline-auth\t0\t\t\ttwo"
    project.root.mkdir()
    file = project.pipeline(f"plan={PATIENT}")
    assert project.call("pipeline", file, "auth").code == 0
    again = project.call("pipeline", file, "auth")
    assert again.code == 1
    assert "Session already running" in again.err
    finish(project, "auth")


def test_tmux_session_that_another_program_started_in_such_a_folder_is_named(
    project: Project, tmux: TmuxServer
) -> None:
    odd = project.root / "one\ntwo"
    odd.mkdir()
    tmux.call("new-session", "-d", "-s", "pipeline-auth", "-c", str(odd), "sleep", "60")
    done = project.call("pipeline", project.pipeline(f"plan={PATIENT}"), "auth")
    assert done.code == 1
    assert "belongs to another program in" in done.err
    assert "unexpected" not in done.err


def test_tmux_a_secret_in_an_option_reaches_the_agent_and_no_file_and_no_screen(
    project: Project, tmux: TmuxServer
) -> None:
    secret = "sk-in-the-context-0123456789"
    file = project.pipeline(f"plan={PATIENT}")
    text = (project.root / file).read_text().replace("prompt: do it", "prompt: 'do ${CONTEXT}'")
    (project.root / file).write_text(text.replace("cat >/dev/null", "cat > ../prompt"))
    done = project.call("pipeline", file, "auth", "--context", secret, env={"DEPLOY_TOKEN": secret})
    assert done.code == 0, done.err
    wait_for((project.root / "up").exists, "the agent")
    warning = "contains the value of DEPLOY_TOKEN"
    pane = ("capture-pane", "-t", "pipeline-auth", "-p", "-S-")
    wait_for(lambda: warning in tmux.call(*pane) + done.err, "the warning")
    seen = tmux.call(*pane) + tmux.call("show-environment", "-g")
    finish(project, "auth")
    wait_for(lambda: not (project.root / ".claude/locks/auth.lock").exists(), "the end of the engine")
    assert secret in (project.root.parent / "prompt").read_text()
    assert secret not in seen + done.err + done.out
    folders = (project.root, project.home)
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
