"""The program under the name `agent-pipelines`: the arguments, flags and conventions of the shell engine."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Done, Project

# What an installer writes for a console script.
SCRIPT = f"""#!{sys.executable}
import sys
from agentforge.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""
MOCK = {"MOCK_MODE": "true"}
RESULT_ASKED = (
    "- Result: a paragraph that asks for it is appended to the prompt (`result_instructions: off` omits it)"
)


class ShellEngineName:
    """The program as its users call it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.path = project.home / "agent-pipelines"
        self.path.write_text(SCRIPT)
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def __call__(self, *arguments: str, env: dict[str, str] | None = None) -> Done:
        return self.project.call(*arguments, env=env, name=str(self.path))


@pytest.fixture
def program(project: Project) -> ShellEngineName:
    return ShellEngineName(project)


def test_name_without_arguments_is_help_and_exit_1(program: ShellEngineName) -> None:
    done = program()
    assert done.code == 1
    assert done.out.startswith("Usage: agent-pipelines ")


@pytest.mark.parametrize("word", ["help", "-h", "--help"])
def test_help_exits_0(program: ShellEngineName, word: str) -> None:
    done = program(word)
    assert done.code == 0
    assert "Usage: agent-pipelines [OPTIONS] COMMAND" in done.out
    assert "dry-run" in done.out


def test_help_of_a_command(program: ShellEngineName) -> None:
    assert "Usage: agent-pipelines lint" in program("help", "lint").out
    assert program("help", "nosuch").code == 2


def test_hints_name_the_program_as_it_was_called(program: ShellEngineName, project: Project) -> None:
    file = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    on_path = {"PATH": f"{program.path.parent}:{os.environ['PATH']}"}
    done = program("pipeline", file, "auth", "--foreground", env=on_path)
    assert done.code == 1
    assert "  Resume: agent-pipelines resume auth" in done.lines
    again = program("pipeline", file, "auth", "--foreground")
    assert f"hint: {program.path} resume auth   (or" in again.err


@pytest.mark.parametrize(
    "line",
    [
        "--foreground --provider=codex --context=brief tidy s9 2",
        "tidy --foreground s9 --provider=codex 2 --context=brief",
        "--no-tmux --provider codex --context brief loop tidy s9 2",
        "loop tidy s9 2 --provider=codex --context=brief --no-tmux",
    ],
)
def test_flags_may_be_anywhere_in_the_line(program: ShellEngineName, project: Project, line: str) -> None:
    project.stage("tidy", "delay: 0\n")
    done = program(*line.split(), env=MOCK)
    assert done.code == 0, done.err
    assert project.types("s9").count("iteration_complete") == 2
    plan = json.loads((project.run_dir("s9") / "plan.json").read_text())
    assert plan["pipeline"]["overrides"] == {"provider": "codex", "context": "brief", "max_iterations": 2}


def test_all_flags_of_a_pipeline(program: ShellEngineName, project: Project) -> None:
    (project.root / "a.md").write_text("a")
    (project.root / "b.md").write_text("b")
    file = project.pipeline(f"plan={WRITE_RESULT}")
    flags = ("--input=a.md", "--input", "b.md", "--model=m", "--command=test=pytest tests/", "--foreground")
    done = program("pipeline", file, "auth", *flags, "--force", "--recompile")
    assert done.code == 0, done.err
    context = project.run_dir("auth") / "stage-00-plan" / "iterations" / "001" / "context.json"
    context_json = json.loads(context.read_text())
    assert context_json["inputs"]["from_initial"] == [str(project.root / "a.md"), str(project.root / "b.md")]
    assert context_json["commands"] == {"test": "pytest tests/"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("loop tidy s 1 --unknown-flag", "No such option"),
        ("--foreground loop tidy s 1 --input", "Option '--input' requires an argument"),
        ("bogus-command", "'bogus-command' is neither a command nor a stage"),
        ("loop", "Missing argument 'STAGE'"),
        ("loop tidy s 2 extra", "unexpected extra argument"),
        ("loop tidy s 0", "0 is not in the range x>=1"),
        ("pipeline p.yaml --resume --foreground", "missing session to resume"),
        ("loop tidy nosuch --resume --foreground", "no session 'nosuch'"),
        ("--resume nosuch", "no session 'nosuch'"),
        ("status nosuch --force", "No such option"),
    ],
)
def test_usage_errors_are_clear_and_exit_2(
    program: ShellEngineName, project: Project, line: str, message: str
) -> None:
    project.stage("tidy")
    done = program(*line.split(), env=MOCK)
    assert done.code == 2
    assert message in done.err


def test_test_command_suggests_what_to_use_instead(program: ShellEngineName, project: Project) -> None:
    done = program("test")
    assert done.code == 2
    assert "lint" in done.err
    project.stage("test", "delay: 0\n")
    assert program("test", "s", "1", "--foreground", env=MOCK).code == 0


def test_pipeline_runs_n_times_in_a_row(program: ShellEngineName, project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}", f"build={WRITE_RESULT}")
    done = program("pipeline", file, "auth", "3", "--foreground")
    assert done.code == 0, done.err
    assert "2 stages: plan → build, 3 times" in done.out
    started = [e["cursor"] for e in project.events("auth") if e["type"] == "node_start"]
    assert [(at["node_path"], at["node_run"]) for at in started] == [
        (path, run) for run in (1, 2, 3) for path in ("0", "1")
    ]
    assert (project.run_dir("auth") / "stage-00-plan" / "run-003" / "iterations" / "001").is_dir()


def test_resume_flag_on_every_form(program: ShellEngineName, project: Project) -> None:
    project.stage("tidy", "delay: 0\nretry: {max_attempts: 1}\nprovider: {type: command, run: sh agent}\n")
    (project.root / "agent").write_text("exit 3")
    forms = {
        "a": ("loop", "tidy", "a", "1"),
        "b": ("tidy", "b", "1"),
        "c": ("--foreground", "tidy", "c", "1"),
    }
    for form in forms.values():
        assert program(*form, "--foreground").code == 1
    (project.root / "agent").write_text(WRITE_RESULT)
    for session, form in forms.items():
        done = program("--resume", *form, "--foreground")
        assert done.code == 0, done.err
        assert done.out.startswith(f"Resuming session '{session}' from iteration 1\n")
    again = program("loop", "tidy", "a", "1", "--resume", "--foreground")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("Error: Session 'a' already completed.\n")
    assert "agent-pipelines loop --force tidy a` archives it and starts over" in again.err
    over = program("resume", "a", "--restart-stage")
    assert (over.code, over.out) == (1, "")


def test_resume_and_a_session_is_enough(program: ShellEngineName, project: Project) -> None:
    file = project.pipeline(
        "plan=test -e go || exit 3; " + WRITE_RESULT, extra="    retry: {max_attempts: 1}\n"
    )
    assert program("pipeline", file, "auth", "--foreground").code == 1
    (project.root / "go").touch()
    assert program("--resume", "auth", "--context", "go on").code == 0
    assert project.events("auth")[-1]["type"] == "session_complete"


# -- dry-run


def test_dry_run_of_a_pipeline_shows_what_it_would_do(program: ShellEngineName, project: Project) -> None:
    (project.root / "notes.md").write_text("notes")
    (project.root / "p.yaml").write_text(
        "name: refine\ncommands: {test: pytest -q}\nnodes:\n"
        "  - {id: plan, prompt: think, runs: 3, delay: 2}\n"
        "  - id: duel\n    parallel:\n      providers: [claude, {name: codex, model: small}]\n"
        "      stages: [{id: ideas, prompt: have ideas}]\n"
        "  - {id: build, prompt: do it, inputs: {from: plan, from_parallel: ideas}}\n"
    )
    done = program("dry-run", "p.yaml", "auth", "--input=notes.md")
    assert done.code == 1, done.err
    run = project.run_dir("auth")
    missing = [("Claude", "@anthropic-ai/claude-code"), ("Codex", "@openai/codex")]
    worst, ready = (
        done.lines.index("## Worst case"),
        done.lines.index("## Not ready: the run would be refused"),
    )
    assert done.lines[:worst] + done.lines[ready:] == [
        "# Dry run: pipeline refine",
        "",
        "- Session: auth",
        "- Source: p.yaml",
        f"- Run directory: {run}",
        "",
        "## Inputs",
        f"- {project.root}/notes.md",
        "",
        "## Stages",
        "",
        "### 0 plan",
        "- Provider: claude / opus",
        "- Permissions: all (--dangerously-skip-permissions)",
        "- Sandbox: none",
        "- Iterations: at most 3 iterations; the agent can stop earlier",
        "- Prompt: think",
        RESULT_ASKED,
        "- Delay: 2 s between iterations",
        "- Attempts: at_least_once, at most 2 per iteration",
        "- Limits: none",
        f"- Directory: {run}/stage-00-plan",
        "",
        "### 1 duel: claude, codex in parallel",
        f"- Directory: {run}/parallel-01-duel",
        "",
        "#### 1.0 claude: ideas",
        "- Provider: claude / opus",
        "- Permissions: all (--dangerously-skip-permissions)",
        "- Sandbox: none",
        "- Iterations: 1 iteration",
        "- Prompt: have ideas",
        RESULT_ASKED,
        "- Attempts: at_least_once, at most 2 per iteration",
        "- Limits: none",
        f"- Directory: {run}/parallel-01-duel/providers/claude/stage-00-ideas",
        "",
        "#### 1.0 codex: ideas",
        "- Provider: codex / small",
        "- Permissions: all (--dangerously-bypass-approvals-and-sandbox)",
        "- Sandbox: none",
        "- Iterations: 1 iteration",
        "- Prompt: have ideas",
        RESULT_ASKED,
        "- Attempts: at_least_once, at most 2 per iteration",
        "- Limits: none",
        f"- Directory: {run}/parallel-01-duel/providers/codex/stage-00-ideas",
        "",
        "### 2 build",
        "- Provider: claude / opus",
        "- Permissions: all (--dangerously-skip-permissions)",
        "- Sandbox: none",
        "- Iterations: 1 iteration",
        "- Prompt: do it",
        RESULT_ASKED,
        "- Attempts: at_least_once, at most 2 per iteration",
        "- Limits: none",
        "- Input: plan (its latest output)",
        "- Input: ideas of duel: claude, codex (its latest output)",
        f"- Directory: {run}/stage-02-build",
        "",
        "## Commands",
        "- test: pytest -q",
        "",
        "## Not ready: the run would be refused",
        *(f"- {name} CLI not found. Install with: npm install -g {package}" for name, package in missing),
    ]
    assert not (project.root / ".claude").exists()


def test_dry_run_of_a_loop_and_as_json(program: ShellEngineName, project: Project) -> None:
    project.stage("tidy", "description: tidies\ntermination: {type: judgment, consensus: 3, max: 9}\n")
    assert program("dry-run", "tidy").out == program("dry-run", "stage", "tidy").out
    done = program("dry-run", "loop", "tidy")
    assert done.lines[:5] == [
        "# Dry run: loop tidy",
        "",
        "- Session: preview",
        "- Source: .claude/stages/tidy/stage.yaml",
        f"- Run directory: {project.run_dir('preview')}",
    ]
    assert (
        "- Iterations: until the judge decides 3 stops in a row, from iteration 1; at most 9 iterations"
        in done.lines
    )
    found = program("dry-run", "loop", "tidy", "auth", "--json").json
    assert found["plan"]["session"]["name"] == "auth"
    assert found["run_dir"] == str(project.run_dir("auth"))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("loop",),
        ("a", "b", "c"),
        ("foo", "bar"),
        ("loop", "nosuch"),
        ("pipeline", "nosuch"),
        ("loop", "work", "../x"),
    ],
)
def test_dry_run_fails_clearly(program: ShellEngineName, arguments: tuple[str, ...]) -> None:
    done = program("dry-run", *arguments)
    assert done.code == 2
    assert done.err.rstrip()
    assert "Traceback" not in done.err


# -- small habits


def test_loop_completions_are_noted(program: ShellEngineName, project: Project) -> None:
    notes = project.root / ".claude" / "loop-completions.json"
    project.stage("tidy", "delay: 0\n")
    assert program("tidy", "a", "1", "--foreground", env=MOCK).code == 0
    project.stage("fails", "retry: {max_attempts: 1}\nprovider: {type: command, run: exit 3}\n")
    assert program("fails", "b", "1", "--foreground").code == 1
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert program("pipeline", file, "c", "--foreground").code == 0
    found = json.loads(notes.read_text())
    assert [(n["session"], n["type"], n["status"]) for n in found] == [
        ("a", "tidy", "complete"),
        ("b", "fails", "failed"),
    ]
    assert all(n["completed_at"].endswith("Z") for n in found)


def test_end_of_a_loop_shows_a_desktop_notification(program: ShellEngineName, project: Project) -> None:
    tools = project.home / "tools"
    tools.mkdir()
    notifier = tools / "notify-send"
    notifier.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > told\nexit 1\n')
    notifier.chmod(0o755)
    env = {"PATH": f"{tools}:{project.env['PATH']}", "DISPLAY": ":0", **MOCK}
    project.stage("tidy", "delay: 0\n")
    assert program("tidy", "a", "1", "--foreground", env=env).code == 0
    assert (project.root / "told").read_text().splitlines() == ["--", "Loop Agent", "tidy a: complete"]


def test_agents_get_the_variables_of_the_shell_engine(program: ShellEngineName, project: Project) -> None:
    shell = "env > seen; " + WRITE_RESULT
    project.stage(
        "tidy",
        "delay: 0\nprovider: {type: command, run: " + json.dumps(shell) + "}\n",
    )
    assert program("tidy", "a", "7", "--foreground").code == 0
    variables = dict(line.partition("=")[::2] for line in (project.root / "seen").read_text().splitlines())
    names = ("AGENT", "SESSION", "TYPE")
    assert {name: variables[f"CLAUDE_PIPELINE_{name}"] for name in names} == {
        "AGENT": "1",
        "SESSION": "a",
        "TYPE": "tidy",
    }
    assert (variables["MAX_ITERATIONS"], variables["MIN_ITERATIONS"], variables["CONSENSUS"]) == (
        "7",
        "1",
        "2",
    )
    file = project.pipeline(f"plan={shell}")
    assert program("pipeline", file, "c", "--foreground").code == 0
    variables = dict(line.partition("=")[::2] for line in (project.root / "seen").read_text().splitlines())
    assert variables["CLAUDE_PIPELINE_AGENT"] == "1"
    assert "CLAUDE_PIPELINE_SESSION" not in variables


FAKE_BD = "#!/bin/sh\necho 1 task left\n"


@pytest.mark.parametrize(
    ("said", "iterations"),
    [("done\\n<promise>COMPLETE</promise>\\n\\n", 1), ("say <promise>COMPLETE</promise> when done", 3)],
)
def test_promise_as_the_last_line_ends_a_queue_stage_of_a_loop(
    program: ShellEngineName, project: Project, said: str, iterations: int
) -> None:
    tools = project.home / "tools"
    tools.mkdir()
    (tools / "bd").write_text(FAKE_BD)
    (tools / "bd").chmod(0o755)
    shell = f"printf '{said}'; {WRITE_RESULT}"
    project.stage(
        "ralphy",
        "delay: 0\ntermination: {type: queue}\nprovider: {type: command, run: " + json.dumps(shell) + "}\n",
    )
    env = {"PATH": f"{tools}:{project.env['PATH']}"}
    assert program("ralphy", "a", "3", "--foreground", env=env).code == 0
    assert project.types("a").count("iteration_complete") == iterations
    noted = json.loads((project.root / ".claude" / "loop-completions.json").read_text())
    assert noted[0]["status"] == ("complete" if iterations == 1 else "max_iterations")


def test_legacy_variable_is_accepted_and_warned_about(program: ShellEngineName, project: Project) -> None:
    project.stage("tidy", "delay: 0\n")
    done = program("tidy", "a", "1", "--foreground", env={**MOCK, "AGENT_PIPELINES_LEGACY": "1"})
    assert done.code == 0
    assert "AGENT_PIPELINES_LEGACY has no effect" in done.err
    assert project.types("a")[-1] == "session_complete"


def test_variables_of_the_shell_engine_count_as_its_flags(program: ShellEngineName, project: Project) -> None:
    (Path(project.root) / "a.md").write_text("a")
    project.stage("tidy", "delay: 0\n")
    env = {**MOCK, "PIPELINE_CLI_MODEL": "m", "PIPELINE_CLI_INPUTS": '["a.md"]'}
    assert program("tidy", "a", "1", "--foreground", env=env).code == 0
    plan = json.loads((project.run_dir("a") / "plan.json").read_text())
    assert plan["nodes"][0]["provider"]["model"] == "m"
    assert plan["session"]["inputs"] == [str(project.root / "a.md")]
