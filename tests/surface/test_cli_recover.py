"""Interrupted runs, runs with two engines, and controls by people."""

import json
from signal import SIGKILL

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, is_alive, wait_for

from agentforge import HookContext, HookResult, SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

AGENT = f"echo run >> count; echo $$ > pid; touch up; while [ ! -e go ]; do sleep 0.05; done; {WRITE_RESULT}"


def killed(project: Project, session: str = "auth", file: str = "p.yaml") -> int:
    """A run whose engine was killed while its agent works; the agent's pid."""
    up = project.root / "up"
    up.unlink(missing_ok=True)
    with project.started("run", "-p", file, "-s", session) as run:
        wait_for(up.exists, "the agent")
        run.signal(SIGKILL)
        run.process.wait(60)
    return int((project.root / "pid").read_text())


def test_recover_reattaches_to_the_running_agent(project: Project) -> None:
    project.pipeline(f"plan={AGENT}")
    pid = killed(project)
    assert is_alive(pid)
    status = project.call("status", "auth").out
    assert "Status: interrupted (no engine running)\n" in status
    assert "Resume: agentforge recover auth\n" in status
    with project.started("recover") as recovering:
        wait_for(lambda: "attempt_reattached" in project.types("auth"), "the reattachment")
        (project.root / "go").touch()
        done = recovering.end()
    assert done.code == 0
    assert done.lines[0] == f"Agents in {project.root}: command, no sandbox"
    assert "plan 1/1 reattached to the running agent" in done.out
    assert done.lines[-2] == "✓ Completed: 1 iteration in Ns"
    assert (project.root / "count").read_text() == "run\n"


def test_recover_recovers_all_interrupted_runs_concurrently(project: Project) -> None:
    project.pipeline(f"plan={AGENT}")
    killed(project, "one")
    killed(project, "two")
    (project.root / "go").touch()
    done = project.call("recover")
    assert done.code == 0
    assert done.lines[-3] == "Recovered 2 sessions:"
    assert sorted(done.lines[-2:]) == [
        "  one  completed    all stages completed",
        "  two  completed    all stages completed",
    ]
    assert "one: · recovered from an interruption" in done.out
    for name in ("one", "two"):
        assert f"{name}: Agents in {project.root}: command, no sandbox" in done.lines[:2]


def test_recover_as_json(project: Project) -> None:
    assert project.call("recover", "--json").json["recovered"] == []
    project.pipeline(f"plan={AGENT}")
    killed(project, "one")
    killed(project, "two")
    (project.root / "go").touch()
    done = project.call("recover", "--json")
    assert {row["session"]: row["status"] for row in done.json["recovered"]} == {
        "one": "completed",
        "two": "completed",
    }


def test_recover_ignores_archived_runs(project: Project) -> None:
    project.pipeline(f"plan={AGENT}")
    pid = killed(project)
    (project.root / "go").touch()
    wait_for(lambda: not is_alive(pid), "the agent's end")
    assert project.call("run", "-p", "p.yaml", "-s", "auth", "--force").code == 0
    assert project.call("recover").out.startswith("Nothing to recover")


def test_recover_does_not_continue_a_renamed_run(project: Project) -> None:
    project.pipeline(f"plan={AGENT}")
    pid = killed(project)
    (project.root / "go").touch()
    wait_for(lambda: not is_alive(pid), "the agent's end")
    runs = project.root / ".claude" / "pipeline-runs"
    (runs / "auth").rename(runs / "old")
    done = project.call("recover", "old")
    assert done.out.startswith("Session 'old' was renamed from 'auth'; run `agentforge")
    assert "resume old` to resume it." in done.out


def test_an_archived_run_is_shown_with_its_own_name(project: Project) -> None:
    project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    for _ in range(2):
        assert project.call("run", "-p", "p.yaml", "-s", "auth", "--force").code == 1
    (archived,) = (row["session"] for row in project.call("list", "--json").json if row["archived_from"])
    status = project.call("status", archived, "--json").json
    assert status["session"] == archived
    assert status["resume_command"].endswith(f"resume {archived}")
    assert {row["session"] for row in project.call("top", "--json").json} == {"auth", archived}
    assert project.call("resume", archived, "--json").json["session"] == archived


def test_two_processes_on_one_session(project: Project) -> None:
    file = project.pipeline(f"plan={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as first:
        wait_for((project.root / "up").exists, "the agent")
        for arguments in (("run", "-p", file, "-s", "auth"), ("resume", "auth")):
            second = project.call(*arguments)
            assert second.code == 1
            assert f"Session 'auth' is already running (PID {first.process.pid})" in second.err
            assert "--force" in second.err
        (project.root / "go").touch()
        assert first.end().code == 0
    assert project.types("auth").count("session_start") == 1


def test_force_stops_the_owner_and_starts_over(project: Project) -> None:
    file = project.pipeline(f"plan={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as first:
        wait_for((project.root / "up").exists, "the agent")
        with project.started("run", "-p", file, "-s", "auth", "--force") as second:
            wait_for(lambda: "pause_requested" in project.types("auth"), "the first being asked")
            (project.root / "go").touch()
            assert first.end().code == 143
            assert second.end().code == 0
    assert project.state("auth")["status"] == "completed"
    kept = [path.name for path in project.run_dir("auth").parent.glob("auth.*")]
    assert len(kept) == 1
    assert project.state(kept[0])["status"] == "paused"


def test_a_finished_session_is_refused_without_force(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    again = project.call("run", "-p", file, "-s", "auth")
    assert again.code == 1
    assert again.err.startswith("Error: Session 'auth' already completed.\n  hint: ")
    assert project.call("resume", "auth").code == 1
    assert project.call("run", "-p", file, "-s", "auth", "--force").code == 0


def test_resume_continues_after_a_failure_with_new_context(project: Project) -> None:
    shell = f"test -e fixed || exit 3; {WRITE_RESULT}"
    file = project.pipeline(f"plan={shell}", extra="    retry: {max_attempts: 1}\n    context: first\n")
    text = (project.root / file).read_text().replace("prompt: do it", "prompt: 'say ${CONTEXT}'")
    (project.root / file).write_text(text)
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    (project.root / "fixed").touch()
    assert project.call("--resume", "auth", "--context", "use the new key").code == 0
    prompt = project.run_dir("auth") / "stage-00-plan" / "iterations" / "001" / "prompt.md"
    assert "use the new key" in json.dumps(project.events("auth"))
    assert prompt.exists()


def test_pipeline_resume_flag_resumes_the_session(project: Project) -> None:
    file = project.pipeline(
        f"plan=test -e fixed || exit 3; {WRITE_RESULT}", extra="    retry: {max_attempts: 1}\n"
    )
    assert project.call("pipeline", file, "auth", "--foreground").code == 1
    (project.root / "fixed").touch()
    done = project.call("pipeline", file, "auth", "--resume", "--foreground")
    assert done.code == 0
    assert "Resuming session 'auth' from stage plan, iteration 1" in done.out


def test_without_a_session_the_only_one_that_fits_or_a_list(project: Project) -> None:
    nothing = project.call("resume")
    assert nothing.code == 2
    assert "no session to resume" in nothing.err
    file = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    project.call("run", "-p", file, "-s", "one")
    assert project.call("resume").code == 1
    project.call("run", "-p", file, "-s", "two")
    several = project.call("resume")
    assert several.code == 2
    assert "more than one session to resume: two (failed), one (failed)" in several.err
    which = project.call("status")
    assert which.code == 2
    assert "more than one session: two (failed), one (failed)" in which.err


def test_pause_waits_for_the_iteration_and_pause_now_ends_the_agent(project: Project) -> None:
    file = project.pipeline(f"plan*3={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        asked = project.call("pause")
        assert asked.out == "Session 'auth' will pause after its current iteration.\n"
        (project.root / "go").touch()
        done = run.end()
    assert done.code == 0
    assert "‖ Paused after 1 iteration" in done.out
    (project.root / "go").unlink()
    (project.root / "up").unlink()
    with project.started("resume", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        assert project.call("pause", "auth", "--now", "--json").json["now"] is True
        assert run.end().code == 0
    assert "attempt_cancelled" in project.types("auth")
    idle = project.call("pause", "auth")
    assert idle.code == 1
    assert "only a running session can be paused" in idle.err


def test_resume_after_pause_loads_the_paused_state_and_resume_with_context_injects_it(
    project: Project,
) -> None:
    file = project.pipeline(f"plan*2={AGENT}")
    text = (project.root / file).read_text().replace("prompt: do it", "prompt: 'say ${CONTEXT}'")
    (project.root / file).write_text(text)
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        project.call("pause", "auth")
        (project.root / "go").touch()
        assert run.end().code == 0
    paused = project.state("auth")
    assert (paused["status"], paused["pause_reason"], bool(paused["paused_at"])) == (
        "paused",
        "requested",
        True,
    )
    assert not (project.root / ".claude" / "locks" / "auth.lock").exists(), "a paused session holds no lock"
    done = project.call("--resume", "auth", "--context", "focus on X, skip Y")
    assert done.code == 0
    assert (project.root / "count").read_text() == "run\n" * 2, "the completed iteration is not repeated"
    prompt = project.run_dir("auth") / "stage-00-plan" / "iterations" / "002" / "prompt.md"
    assert "say focus on X, skip Y" in prompt.read_text()
    kinds = project.types("auth")
    assert kinds.index("session_paused") < kinds.index("session_resumed")


def test_cancel_ends_a_run_without_an_engine(project: Project) -> None:
    project.pipeline(f"plan={AGENT}")
    pid = killed(project)
    done = project.call("cancel", "auth")
    assert (done.code, done.out) == (0, "Cancelled session 'auth'.\n")
    assert not is_alive(pid)
    assert project.state("auth")["status"] == "aborted"
    assert project.call("resume", "auth").code == 1
    assert project.call("cancel", "auth").code == 1


@pytest.mark.parametrize("command", ["status", "tail", "resume", "recover", "pause", "cancel"])
def test_an_unknown_session_exits_2_and_lists_the_known_ones(project: Project, command: str) -> None:
    project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth")
    done = project.call(command, "nosuch")
    assert done.code == 2
    assert "no session 'nosuch'" in done.err
    assert "known sessions: auth" in done.err


def test_a_damaged_log_is_not_continued_unasked(project: Project) -> None:
    project.pipeline(f"plan={AGENT}")
    pid = killed(project)
    (project.root / "go").touch()
    wait_for(lambda: not is_alive(pid), "the agent's end")
    log = project.run_dir("auth") / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    refused = project.call("recover", "auth")
    assert refused.code == 1
    assert "--accept-damage" in refused.err
    assert "Damage: line 3: " in project.call("status", "auth").out
    assert project.call("recover", "auth", "--accept-damage").code == 0


# -- runs of another program


def test_run_that_needs_hooks_of_another_program_is_left_to_it(project: Project) -> None:
    with SyncEngine(
        project.root, environ=project.env, providers={"scripted": ScriptedProvider([says("x")])}
    ) as sdk:

        @sdk.on_iteration_end
        def review(_: HookContext) -> HookResult:
            return HookResult("pause", "Continue?")

        text = "name: p\nnodes: [{id: a, prompt: x, provider: scripted, delay: 0}]\n"
        (project.root / "p.yaml").write_text(text)
        assert sdk.run("p.yaml", session="auth").status.value == "paused"
    done = project.call("approve", "auth")
    assert done.code == 0
    left = "Run the program that registers its hooks (iteration_end-review) to continue; it calls `recover`."
    assert f"Answered session 'auth': continue. {left}" in done.err
    needs = "session 'auth' needs hooks that this program doesn't have: iteration_end-review"
    done = project.call("recover")
    assert (done.code, done.lines) == (
        0,
        ["Nothing to recover: no other run of this project is interrupted."],
    )
    assert f"Skipped: {needs}. Continue it with the program that registers them" in done.err
    assert project.call("recover", "--json").json["skipped"] == ["auth"]
    for command in ("recover", "resume"):
        done = project.call(command, "auth")
        assert done.code == 1
        assert needs in done.err
        assert "`agentforge resume --recompile auth` continues without them" in done.err
