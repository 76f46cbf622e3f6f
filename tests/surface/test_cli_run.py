"""Beginning runs: every form of the command, its output, its exit status, its errors."""

import json
import re
from pathlib import Path

import pytest
from tests.adapters.fake_clis import put_cli, speaking
from tests.surface.terminal import WRITE_RESULT, Project, wait_for


def test_run_prints_a_line_for_each_event_that_matters(project: Project) -> None:
    file = project.pipeline(f"plan*2={WRITE_RESULT}", f"build={WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "auth")
    assert done.code == 0
    assert done.lines == [
        f"Agents in {project.root}: command, no sandbox",
        "Pipeline: demo",
        "Session: auth",
        "2 stages: plan → build",
        "Providers: command",
        "Spending: no cap",
        "[HH:MM:SS] ▸ plan started: up to 2 iterations with command",
        "[HH:MM:SS] ▸ plan 1/2 started",
        "[HH:MM:SS] ✓ plan 1/2 done in Ns: did it",
        "[HH:MM:SS] ▸ plan 2/2 started",
        "[HH:MM:SS] ✓ plan 2/2 done in Ns: did it",
        "[HH:MM:SS] ✓ plan is done: Completed 2 iterations (max: 2)",
        "[HH:MM:SS] ▸ build started: up to 1 iteration with command",
        "[HH:MM:SS] ▸ build 1/1 started",
        "[HH:MM:SS] ✓ build 1/1 done in Ns: did it",
        "[HH:MM:SS] ✓ build is done: Completed 1 iteration (max: 1)",
        "✓ Completed: 3 iterations in Ns",
        "  .claude/pipeline-runs/auth",
    ]
    assert project.types("auth")[-1] == "session_complete"


def test_permissions_model_and_folder_are_said_before_the_first_agent(project: Project) -> None:
    put_cli(project.home / "bin", "claude", speaking("claude"))
    search = f"{project.home}/bin:{project.env['PATH']}"
    done = project.call("work", "fix", "1", "--foreground", "--model", "haiku", env={"PATH": search})
    allowed = "all permissions, no sandbox"
    assert done.lines[0] == f"Agents in {project.root}: claude / haiku, {allowed}"
    mocked = project.call("work", "mocked", "1", "--foreground", env={"MOCK_MODE": "true"})
    assert "Agents in" not in mocked.out


def test_permissions_model_and_folder_are_said_before_a_resume(project: Project) -> None:
    put_cli(project.home / "bin", "claude", speaking("claude"))
    search = {"PATH": f"{project.home}/bin:{project.env['PATH']}"}
    file = project.pipeline(f"one=test -e go && {WRITE_RESULT}", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", file, "-s", "s").code == 1
    agents = f"Agents in {project.root}:"
    resumed = project.call("resume", "s")
    assert f"{agents} command, no sandbox" in resumed.lines[:2]
    (project.root / file).write_text(
        "nodes: [{id: one, prompt: x, runs: 1, provider: claude, model: haiku}]\n"
    )
    allowed = "all permissions, no sandbox"
    again = project.call("resume", "s", "--recompile", env=search)
    assert f"{agents} claude / haiku, {allowed}" in again.lines[:2]
    assert (
        project.call("run", "-p", file, "-s", "mocked", env={"MOCK_MODE": "true", "MOCK_FAIL": "1"}).code == 0
    )


def test_logs_beside_text_are_lines_for_people(project: Project) -> None:
    file = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    project.lock("old").parent.mkdir(parents=True)
    project.lock("old").write_text('{"session": "old", "pid": 4000000, "started_at": "2026-01-01T00:00:00Z"}')
    quiet = project.call("run", "-p", file, "-s", "auth")
    assert (quiet.code, quiet.err) == (1, "")
    warned = project.call("run", "-p", file, "-s", "moved", env={"AGENT_PIPELINES_LEGACY": "1"})
    assert re.fullmatch(r"[\d:]{8} WARN  AGENT_PIPELINES_LEGACY has no effect: .*\n", warned.err)
    shown = project.call("run", "-p", file, "-s", "info", "--log-level", "info")
    assert " ERROR plan 1/1 failed (attempt 1): provider_crashed" in shown.err
    assert "{" not in shown.err


def test_structured_logs_go_to_stderr_as_json(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", "quiet").err == ""
    done = project.call("run", "-p", file, "-s", "auth", "--json")
    entries = [json.loads(line) for line in done.err.splitlines()]
    assert {entry["session"] for entry in entries} == {"auth"}
    ended = next(entry for entry in entries if entry.get("event_type") == "iteration_complete")
    assert ended["level"] == "info"
    assert ended["stage"] == "plan"
    assert ended["iteration"] == 1
    assert ended["duration_ms"] >= 0
    assert "plan 1/1 done" in ended["msg"]


def test_end_of_a_run_tells_that_stages_were_skipped(project: Project) -> None:
    small = json.dumps({"summary": "tiny", "verdict": "small"})
    run = f"cat >/dev/null; printf '%s' '{small}' > \"$MOCK_RESULT_FILE\""
    first = {"id": "plan", "verdicts": ["small"], "on": {"small": "end"}}
    worker = {"prompt": "x", "runs": 1, "delay": 0, "provider": {"type": "command", "run": run}}
    nodes = [{**first, **worker}, {"id": "build", **worker}]
    (project.root / "p.yaml").write_text(json.dumps({"name": "p", "nodes": nodes}))
    done = project.call("run", "-p", "p.yaml", "-s", "auth", "--json")
    assert json.loads(done.err.splitlines()[-1])["msg"] == "completed: 1 stage completed, 1 skipped"
    assert "Outcome: 1 stage completed, 1 skipped" in project.call("status", "auth").lines


def test_log_level_and_format_are_options_and_a_variable(project: Project) -> None:
    file = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    # The lines on stdout already show the events.
    assert project.call("run", "-p", file, "-s", "a", "--log-level", "error").err == ""
    level = {"AGENT_PIPELINES_LOG_LEVEL": "info"}
    events = project.call("run", "-p", file, "-s", "b", "--log-format", "json", env=level)
    errors = [entry for line in events.err.splitlines() if (entry := json.loads(line))["level"] == "error"]
    assert len(errors) == 2
    assert "exited with status 3" in errors[0]["error"]
    pretty = project.call("--log-format", "pretty", "run", "-p", file, "-s", "c", "--json", env=level)
    assert " ERROR plan 1/1 failed (attempt 1): provider_crashed" in pretty.err
    bad = project.call("run", "-p", file, "-s", "d", env={"AGENT_PIPELINES_LOG_LEVEL": "loud"})
    assert bad.code == 2
    assert "invalid log level AGENT_PIPELINES_LOG_LEVEL='loud'" in bad.err


def test_run_as_json_prints_one_object(project: Project) -> None:
    done = project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth", "--json")
    assert done.code == 0
    assert done.json["session"] == "auth"
    assert done.json["status"] == "completed"
    assert done.json["iterations"] == 1
    assert done.json["outcome"] == "completed: reached the end of the pipeline"


def test_a_failed_run_exits_1_and_says_how_to_resume(project: Project) -> None:
    file = project.pipeline("plan=echo no luck; exit 3", extra="    retry: {max_attempts: 1}\n")
    done = project.call("run", "-p", file, "-s", "auth")
    assert done.code == 1
    assert done.lines[-4:] == [
        "[HH:MM:SS] ✗ plan 1/1 failed (attempt 1): provider_crashed: command exited with status 3: no luck",
        "✗ Failed after 0 iterations in Ns: provider_crashed: command exited with status 3: no luck",
        "  .claude/pipeline-runs/auth",
        "  Resume: agentforge resume auth",
    ]


def test_a_retry_is_shown(project: Project) -> None:
    shell = f"test -e once || {{ touch once; exit 3; }}; {WRITE_RESULT}"
    file = project.pipeline(f"plan={shell}", extra="    retry: {max_attempts: 2, initial_delay: 0.1}\n")
    done = project.call("run", "-p", file, "-s", "auth")
    assert done.code == 0
    assert "[HH:MM:SS] ‖ plan 1/1 retrying in Ns (try 2 of 2)" in done.lines


def test_a_stage_timeout_exits_20(project: Project) -> None:
    extra = "    timeout: 0.3\n    retry: {max_attempts: 1}\n"
    done = project.call("run", "-p", project.pipeline("plan=sleep 20", extra=extra), "-s", "auth")
    assert done.code == 20
    assert "iteration_timeout" in done.out


def test_a_run_that_needs_a_person_exits_22_and_shows_the_question(project: Project) -> None:
    file = project.pipeline("plan=sleep 20", extra="    retry: {max_attempts: 2, initial_delay: 0.1}\n")
    text = (project.root / file).read_text()
    (project.root / file).write_text(f"guardrails: {{max_runtime_seconds: 0.5}}\n{text}")
    done = project.call("run", "-p", file, "-s", "auth")
    assert done.code == 22
    assert done.lines[-5].startswith("‖ Paused after 0 iterations in Ns: ")
    assert done.lines[-4:] == [
        "  the runtime limit of 0.5 s is used up. Extend it by the same amount? "
        "[resume, retry, cancel, or a number of seconds]",
        "  Answer: agentforge answer auth resume",
        "  Inspect: agentforge inbox show auth",
        "  Resume: agentforge resume auth",
    ]
    status = project.call("status", "auth")
    assert "Question: the runtime limit of 0.5 s is used up. Extend it by the same amount?" in status.out


def test_a_run_cancelled_by_another_process_exits_23(project: Project) -> None:
    file = project.pipeline("plan=touch up; sleep 20")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        asked = project.call("cancel", "auth")
        assert asked.code == 0
        # The driver may be done with it before `cancel` has looked whether there is one.
        assert asked.out in (
            "Cancelling session 'auth': its engine is stopping the agent.\n",
            "Cancelled session 'auth'.\n",
        )
        done = run.end()
    assert done.code == 23
    assert done.lines[-1] == "✗ Cancelled after 0 iterations in Ns: on request"


def test_a_definition_error_exits_2_with_the_line_and_a_caret(project: Project) -> None:
    (project.root / "p.yaml").write_text("name: demo\nnodes:\n  - id: plan\n    runs: many\n    prompt: x\n")
    done = project.call("run", "-p", "p.yaml", "-s", "auth")
    assert done.code == 2
    assert "p.yaml:4:11: " in done.err
    assert "    runs: many\n" in done.err
    assert "^" in done.err
    assert "Error: " in done.err
    assert not project.run_dir("auth").exists()
    as_json = project.call("run", "-p", "p.yaml", "--json")
    assert as_json.code == 2
    assert as_json.json["error"]["code"] == "definition"
    places = [found["place"] for found in as_json.json["error"]["diagnostics"]]
    assert {"file": "p.yaml", "line": 4, "col": 11} in places


def test_pipeline_command_takes_file_and_session(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("pipeline", file, "auth", "--foreground").code == 0
    assert project.state("auth")["status"] == "completed"
    without = project.call("pipeline", file, "--no-tmux")
    assert without.code == 0
    assert "Session: demo-" in without.out


def test_loop_and_stage_name_run_a_single_stage(project: Project) -> None:
    project.stage("tidy")
    mock = {"MOCK_MODE": "true"}
    loop = project.call("loop", "tidy", "a", "2", "--foreground", env=mock)
    assert loop.code == 0
    assert loop.lines[:3] == ["Loop: tidy", "Session: a", "Max iterations: 2"]
    short = project.call("tidy", "b", "3", "--foreground", env=mock)
    assert short.code == 0
    assert project.types("b").count("iteration_complete") == 3
    default = project.call("tidy", "--foreground", "--context", "be brief", env=mock)
    assert default.code == 0
    assert "Session: tidy" in default.out


def test_a_stage_of_another_project_is_found_with_C_behind_it(project: Project) -> None:
    project.stage("tidy")
    done = project.call(
        "tidy",
        "a",
        "1",
        "-C",
        str(project.root),
        "--foreground",
        env={"MOCK_MODE": "true"},
        cwd=project.home,
    )
    assert done.code == 0
    assert project.run_dir("a").exists()
    again = project.call("list", env={"PROJECT_ROOT": str(project.root)}, cwd=project.home)
    assert "completed" in again.out


def test_commands_take_precedence_over_stage_names(project: Project) -> None:
    project.stage("list")
    done = project.call("list", env={"MOCK_MODE": "true"})
    assert done.code == 0
    assert done.out.startswith("No runs yet in ")


def test_command_flag_overrides_commands_in_the_context(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    flags = ("--command", "test=pytest tests/", "--command=lint=ruff check .")
    assert project.call("run", "-p", file, "-s", "auth", *flags).code == 0
    context = project.run_dir("auth") / "stage-00-plan" / "iterations" / "001" / "context.json"
    assert json.loads(context.read_text())["commands"] == {"test": "pytest tests/", "lint": "ruff check ."}


def test_inputs_and_overrides_reach_the_plan(project: Project) -> None:
    (project.root / "notes.md").write_text("notes")
    project.stage("tidy")
    flags = ("--foreground", "-i", "notes.md", "--model", "opus", "--context", "be brief")
    assert project.call("tidy", "a", "1", *flags, env={"MOCK_MODE": "true"}).code == 0
    plan = json.loads((project.run_dir("a") / "plan.json").read_text())
    assert plan["session"]["inputs"] == [str(project.root / "notes.md")]
    assert plan["nodes"][0]["provider"]["model"] == "opus"
    assert plan["nodes"][0]["context"] == "be brief"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "nothing to run"),
        (("run", "-p", "nosuch.yaml"), "no pipeline file `nosuch.yaml`"),
        (("run", "-p", "nosuch"), "no pipeline named `nosuch`"),
        (("run", "-p", "p.yaml", "--command", "test"), "got 'test'"),
        (("run", "-p", "p.yaml", "extra"), "the pipeline 'demo' takes no user request"),
        (("run", "-p", "p.yaml", "-C", "nosuch"), "project folder not found: "),
        (("pipeline", "p.yaml", "s", "0"), "0 is not in the range x>=1"),
        (("resume", "s", "--recompile"), "no session 's'"),
        (("pipeline", "p.yaml", "--resume"), "missing session to resume"),
        (("pipeline", "p.yaml", "s", "--resume"), "no session 's'"),
        (("loop",), "Missing argument 'STAGE'"),
        (("loop", "nosuch"), "no stage named `nosuch`"),
        (("loop", "work", "s", "many"), "'many' is not a valid integer."),
        (("dry-run", "nosuch", "s"), "'nosuch' is neither a pipeline nor a stage"),
        (("nosuch",), "'nosuch' is neither a command nor a stage"),
        (("run", "--nosuch"), "No such option"),
    ],
)
def test_usage_errors_exit_2_and_name_the_thing(
    project: Project, arguments: tuple[str, ...], message: str
) -> None:
    project.pipeline(f"plan={WRITE_RESULT}")
    done = project.call(*arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (project.root / ".claude").exists()


def test_did_you_mean_looks_at_commands_and_stages(project: Project) -> None:
    project.stage("tidy")
    assert "did you mean `status`?" in project.call("statsu").err
    assert "did you mean `tidy`?" in project.call("tidyy").err
    as_json = project.call("statsu", "--json")
    assert as_json.code == 2
    assert as_json.json["error"]["hint"] == "did you mean `status`?"


def test_without_arguments_the_help_is_shown(project: Project) -> None:
    done = project.call()
    assert done.code == 2
    assert "Usage: agentforge" in done.out
    assert "Exit status:" in done.out


def test_version(project: Project) -> None:
    assert project.call("version").out == project.call("--version").out
    assert project.call("version", "--json").json["version"]


def test_an_unexpected_error_is_one_line_and_a_way_to_the_details(project: Project, tmp_path: Path) -> None:
    # A broken standard library is nothing that any check foresees.
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import os\ndef listdir(path): raise RuntimeError('broken')\nos.listdir = listdir\n"
    )
    environ = {"PYTHONPATH": str(broken)}
    (project.root / ".claude" / "pipeline-runs").mkdir(parents=True)
    done = project.call("list", env=environ)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert done.err.startswith("Error: unexpected RuntimeError: broken")
    assert "AGENTFORGE_DEBUG=1" in done.err
    assert project.call("list", "--json", env=environ).json["error"]["code"] == "unexpected"
    assert "Traceback" in project.call("list", env={**environ, "AGENTFORGE_DEBUG": "1"}).err


def test_a_file_in_the_place_of_the_runs_folder_is_named(project: Project) -> None:
    (project.root / ".claude").mkdir()
    (project.root / ".claude" / "pipeline-runs").write_text("")
    done = project.call("list")
    assert done.code == 1
    assert ".claude/pipeline-runs: Not a directory" in done.err


def test_a_closed_pipe_ends_the_output_not_the_run(project: Project) -> None:
    file = project.pipeline(f"plan*3={WRITE_RESULT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        assert run.process.stdout is not None
        run.process.stdout.close()
        run.process.stdout = None
        assert run.process.wait(60) == 0
    assert project.state("auth")["status"] == "completed"


def test_a_file_without_p_gets_the_command_that_runs_it(project: Project) -> None:
    done = project.call("run", project.pipeline(f"plan={WRITE_RESULT}"))
    assert (done.code, done.err) == (
        2,
        "Error: 'p.yaml' names something to run, and is not a request\n"
        "  hint: `agentforge run -p p.yaml` runs a pipeline\n",
    )


def test_a_missing_file_and_a_folder_are_short_errors(project: Project) -> None:
    (project.root / "adir.yaml").mkdir()
    missing, folder = (project.call("run", "-p", name) for name in ("nosuch.yaml", "adir.yaml"))
    assert (missing.code, missing.err) == (
        2,
        "Error: no pipeline file `nosuch.yaml`\n  hint: check the path\n",
    )
    assert project.call("lint", "nosuch.yaml").err == missing.err
    assert folder.err == "Error: `adir.yaml` is a folder, not a pipeline file\n  hint: name a file in it\n"


def test_a_stage_behind_run_gets_the_command_that_runs_it(project: Project) -> None:
    hint = "  hint: `agentforge work` runs the stage of that name"
    assert project.call("run", "work").err.endswith(f"{hint}\n")
    pipelines = project.root / ".claude" / "pipelines"
    pipelines.mkdir(parents=True)
    (project.root / project.pipeline("a=true")).rename(pipelines / "work.yaml")
    both = f"{hint}, `agentforge run -p work` runs the pipeline of that name\n"
    assert project.call("run", "work").err.endswith(both)
    assert project.call("run", "work", "-p", "p.yaml").err.endswith(both)


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        (("work", "fix", "3", "--model"), "agentforge work"),
        (("loop", "work", "fix", "--model"), "agentforge loop"),
        (("run", "-p"), "agentforge run"),
        (("logs", "--nosuch"), "agentforge logs"),
        (("inbox", "show", "--nosuch"), "agentforge inbox show"),
        (("-C",), "agentforge"),
    ],
)
def test_hints_name_the_command_that_was_typed(
    project: Project, arguments: tuple[str, ...], typed: str
) -> None:
    assert project.call(*arguments).err.endswith(f"  hint: see `{typed} --help`\n")


def test_hints_name_the_stage_that_was_typed(project: Project) -> None:
    assert project.call("work", "--nosuch").err.endswith("  hint: see `agentforge work --help`\n")
    assert project.call("loop", "work", "--nosuch").err.endswith("  hint: see `agentforge loop --help`\n")
    negative = project.call("work", "fix", "-3")
    assert negative.err.startswith("Error: a number must be at least 1, got one that begins with '-3'\n")


def test_a_local_run_refuses_a_server_elsewhere(project: Project) -> None:
    (project.root / "p.yaml").write_text(
        "nodes: [{id: plan, prompt: x, provider: {type: api, model: m, base_url: 'http://203.0.113.7/v1'}}]\n"
    )
    done = project.call("run", "-p", "p.yaml", "-s", "s", "--local")
    assert done.code == 1
    assert (
        "stage 'plan': the run has `network: local`, but provider api calls http://203.0.113.7/v1" in done.err
    )
    assert "docs/network.md" in done.err
    assert "Traceback" not in done.err
    assert not (project.root / ".claude/pipeline-runs/s").exists()
    preview = project.call("dry-run", "pipeline", "p.yaml", "--local")
    assert "## Not ready: the run would be refused" in preview.out
    assert "- Network: local" in preview.out


def test_a_resume_may_make_a_run_local(project: Project) -> None:
    file = project.pipeline(f"one=test -e go && {WRITE_RESULT}", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", file, "-s", "s").code == 1
    (project.root / "go").touch()
    assert project.call("resume", "s", "--local").code == 0
    assert "plan_changed" in project.types("s")
