"""Looking at runs: status, tail, list, log verify; while they run, after they stopped, when they are hurt."""

import json
import re
from signal import SIGINT

from tests.surface.terminal import WRITE_RESULT, Project, wait_for

AGENT = f"touch up; while [ ! -e go ]; do sleep 0.05; done; {WRITE_RESULT}"
ONCE = "    retry: {max_attempts: 1}\n"


def completed(project: Project, session: str = "auth") -> None:
    file = project.pipeline(f"plan*2={WRITE_RESULT}", f"build={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", session).code == 0


def test_status_of_a_completed_run(project: Project) -> None:
    completed(project)
    done = project.call("status")
    assert done.code == 0
    shown = [re.sub(r"\d{4}-\d\d-\d\d", "DATE", line) for line in done.lines]
    assert shown == [
        "Session: auth",
        "Status: completed",
        "Pipeline: demo",
        "Node: 1 (build)",
        "Iteration: 1/1",
        "Started: DATE HH:MM:SS",
        "Last event: session_complete (Ns ago)",
        "Outcome: all stages completed",
        "Errors: 0",
        "Duration: Ns",
        f"Events: {len(project.events('auth'))} written",
        "Stages:",
        "  ✓ plan   2/2",
        "  ✓ build  1/1",
    ]


def test_status_of_a_failed_run_shows_error_last_iteration_and_resume_command(project: Project) -> None:
    shell = f"test ! -e once || exit 3; touch once; {WRITE_RESULT}"
    project.call("run", "-p", project.pipeline(f"plan*3={shell}", extra=ONCE), "-s", "auth")
    done = project.call("status", "auth")
    assert done.code == 0
    lines = done.lines
    assert "Status: failed" in lines
    assert "Iteration: 2/3" in lines
    assert "Errors: 1" in lines
    assert "Outcome: failed in plan, iteration 2" in lines
    assert lines[-3:] == [
        "Error: provider_crashed: command exited with status 3: no output",
        "Last completed iteration: 1",
        "Resume: agentforge resume auth",
    ]
    elsewhere = project.call("status", "auth", "-C", str(project.root), cwd=project.home)
    assert f"Resume: agentforge -C {project.root} resume auth" in elsewhere.out


def test_status_as_json(project: Project) -> None:
    completed(project)
    view = project.call("status", "auth", "--json").json
    assert view["session"] == "auth"
    assert view["status"] == "completed"
    assert view["iteration"] == 1
    assert view["health"] == {"score": 1.0, "label": "ok", "warnings": []}
    assert view["log"]["events_flushed"] == len(project.events("auth"))
    assert view["log"]["behind"] == 0
    assert [stage["mark"] for stage in view["stages"]] == ["done", "done"]
    assert view["resume_command"] is None


def test_status_and_tail_while_running(project: Project) -> None:
    file = project.pipeline(f"plan={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        status = project.call("status")
        assert f"Status: running (PID {run.process.pid})\n" in status.out
        assert "Attempt: 1\n" in status.out
        assert project.call("status", "--json").json["driver_pid"] == run.process.pid
        with project.started("tail", "auth") as tail:
            (project.root / "go").touch()
            assert run.end().code == 0
            followed = tail.end()
    assert followed.code == 0
    types = [line.split()[1] for line in followed.out.splitlines()]
    assert types == project.types("auth")


def test_tail_output_streams_the_output_of_running_agents(project: Project) -> None:
    file = project.pipeline(f"plan=echo reading the code; {AGENT}; printf 'the last word'")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        with project.started("tail", "auth", "--output") as tail:
            assert tail.process.stdout is not None
            lines = iter(tail.process.stdout.readline, b"")
            assert any("│ reading the code" in line.decode() for line in lines)
            (project.root / "go").touch()
            assert run.end().code == 0
            rest = tail.end()
    assert rest.code == 0
    assert "│ reading the code" not in rest.out
    assert "│ the last word" in rest.out


def test_tail_output_and_logs_show_each_line_under_its_attempt(project: Project) -> None:
    count = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n"
    shell = f'{count}; echo $n begins; printf "%s ends" $n; {WRITE_RESULT}'
    file = project.pipeline(f"plan*3={shell}")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    done = project.call("tail", "auth", "--output")
    assert done.code == 0
    shown = [line.split("]")[-1].split()[0] for line in done.lines if "│" not in line]
    assert shown == project.types("auth")
    at = [done.lines.index(f"  │ {n} {what}") for n in range(3) for what in ("begins", "ends")]
    starts = [n for n, line in enumerate(done.lines) if " attempt_start " in line]
    ends = [n for n, line in enumerate(done.lines) if " iteration_complete " in line]
    assert at == [found for n in starts for found in (n + 1, n + 2)]
    assert ends == [n + 3 for n in starts]
    assert project.call("logs", "auth").lines == done.lines
    last = project.call("logs", "auth", "3", "--no-follow").lines
    assert last[:2] == ["  │ 2 begins", "  │ 2 ends"]
    assert len(last) == 5
    found = [json.loads(line) for line in project.call("logs", "auth", "--json").out.splitlines()]
    outputs = [(at["cursor"]["iteration"], at["data"]) for at in found if at["type"] == "output"]
    assert outputs == [
        (n + 1, {"attempt": 1, "text": f"{n} {what}"}) for n in range(3) for what in ("begins", "ends")
    ]


def test_tail_line_shapes(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}", "build=echo no luck; exit 3", extra=ONCE)
    project.call("run", "-p", file, "-s", "auth")
    done = project.call("tail", "auth")
    assert done.code == 0
    assert done.lines == [
        "[HH:MM:SS] session_start",
        "[HH:MM:SS] node_start node=plan kind=stage",
        "[HH:MM:SS] iteration_start node=plan visit=1 iter=1 provider=command",
        "[HH:MM:SS] attempt_start node=plan visit=1 iter=1 attempt=1",
        '[HH:MM:SS] iteration_complete node=plan visit=1 iter=1 decision=continue summary="did it"',
        '[HH:MM:SS] node_complete node=plan visit=1 reason="Completed 1 iteration (max: 1)"',
        "[HH:MM:SS] node_start node=build kind=stage",
        "[HH:MM:SS] iteration_start node=build visit=1 iter=1 provider=command",
        "[HH:MM:SS] attempt_start node=build visit=1 iter=1 attempt=1",
        "[HH:MM:SS] error node=build visit=1 iter=1 type=provider_crashed exit_code=3 "
        'message="command exited with status 3: no luck"',
        '[HH:MM:SS] session_failed type=provider_crashed message="command exited with status 3: no luck"',
    ]


def test_tail_says_what_it_leaves_out(project: Project) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan*2={WRITE_RESULT}"), "-s", "auth").code == 0
    number = len(project.events("auth"))
    for given in (["tail"], ["logs"], ["tail", "--json"]):
        some = project.call(*given, "auth", "--lines", "3")
        assert some.err == f"… {number - 3} earlier events; --lines {number} shows all\n"
        whole = project.call(*given, "auth", "--lines", str(number))
        assert (len(some.out.splitlines()), whole.err) == (3, "")
    left_out = project.call("tail", "auth", env={"EVENTS_TAIL_LINES": str(number - 1)}).err
    assert left_out == f"… 1 earlier event; --lines {number} shows all\n"


def test_tail_lines_as_argument_option_and_variable(project: Project) -> None:
    completed(project)
    assert len(project.call("tail", "auth", "3").lines) == 3
    assert len(project.call("tail", "auth", "--lines", "2", "--no-follow").lines) == 2
    assert len(project.call("tail", "auth", env={"EVENTS_TAIL_LINES": "4"}).lines) == 4
    assert project.call("tail", "auth", "0").out == ""


def test_tail_as_json_gives_one_event_a_line(project: Project) -> None:
    completed(project)
    lines = project.call("tail", "auth", "--json").out.splitlines()
    stored = project.events("auth")
    for event in stored:
        del event["hash"]
    assert [json.loads(line) for line in lines] == stored


def test_tail_of_a_run_without_an_engine_ends_with_a_message(project: Project) -> None:
    file = project.pipeline(f"plan={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        run.process.kill()
        run.process.wait(60)
    done = project.call("tail", "auth")
    assert done.code == 0
    assert "Session 'auth' has no active engine; run `agentforge recover auth`." in done.err
    project.call("cancel", "auth")


def test_ctrl_c_ends_tail_quietly(project: Project) -> None:
    file = project.pipeline(f"plan={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        with project.started("tail", "auth") as tail:
            assert tail.process.stdout is not None
            tail.process.stdout.readline()
            tail.signal(SIGINT)
            done = tail.end()
        assert done.code == 0
        assert done.err == ""
        (project.root / "go").touch()
        assert run.end().code == 0


def test_list_is_a_table_of_the_latest_runs(project: Project) -> None:
    assert project.call("list").lines[0].startswith("No runs yet in ")
    completed(project, "one")
    project.call("run", "-p", project.pipeline("plan=exit 3", extra=ONCE), "-s", "two")
    done = project.call("list")
    assert done.code == 0
    assert done.lines == [
        "  SESSION              STATUS     AGE          STAGE",
        "  two                  failed     Ns ago       plan (0 iters)",
        "  one                  completed  Ns ago       build (3 iters)",
    ]
    assert project.call("runs", "1").lines[1:] == [done.lines[1], "  1 more: agentforge list 2"]
    assert [row["session"] for row in project.call("list", "--json").json] == ["two", "one"]
    assert project.call("list", "0").code == 2


def test_list_shows_runs_that_it_can_not_read_as_unknown(project: Project) -> None:
    completed(project)
    for name, content in {"empty": b"", "garbage": b"\xff\x00\n" * 3}.items():
        project.run_dir(name).mkdir()
        (project.run_dir(name) / "events.jsonl").write_bytes(content)
    done = project.call("list")
    assert done.code == 0
    assert {line.split()[0]: line.split()[1] for line in done.out.splitlines()[1:]} == {
        "auth": "completed",
        "empty": "unknown",
        "garbage": "unknown",
    }
    assert project.call("status", "garbage").code == 1


def test_log_verify_states_its_limits(project: Project) -> None:
    completed(project)
    done = project.call("log", "verify", "auth")
    assert done.code == 0
    count = len(project.events("auth"))
    assert done.lines[0] == f"✓ intact: the log of session 'auth' has {count} events on {count} lines"
    assert done.lines[-1].startswith("This finds accidental damage, not tampering")
    log = project.run_dir("auth") / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"summary":"did it"', b'"summary":"did IT"', 1))
    damaged = project.call("log", "verify", "auth", "--json")
    assert damaged.code == 1
    assert damaged.json["intact"] is False
    assert damaged.json["damage"][0]["line"] == 5
    assert "line 5: " in project.call("log", "verify", "auth").out


def test_agent_output_does_not_control_the_terminal(project: Project) -> None:
    summary = json.dumps({"summary": "a\x1b[2Jb\r\nc"}).replace("\\", "\\\\")
    file = project.pipeline(f"plan=printf '{summary}' > \"$MOCK_RESULT_FILE\"")
    done = project.call("run", "-p", file, "-s", "auth")
    assert done.code == 0
    for out in (done.out, project.call("tail", "auth").out):
        assert "\x1b" not in out
        assert "a\ufffd[2Jb c" in out
