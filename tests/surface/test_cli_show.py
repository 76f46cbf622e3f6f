"""`show` and `diff` as people and programs see them."""

import io
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surface.screen import on_a_terminal
from tests.surface.terminal import WRITE_RESULT, Project

from agentforge.cli.log_output import PrettyFormatter
from agentforge.cli.run_views import VIEWS


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run that changed a file with an escape sequence in its name and its content."""
    made = Project(tmp_path_factory.mktemp("show"))
    subprocess.run(["git", "init", "-q", str(made.root)], check=True, env=made.env)
    (made.root / "a.txt").write_text("one\n")
    name = "$(printf 'b\\033[2J.txt')"
    script = f"printf 'two\\033[31m\\n' >> a.txt; printf 'x\\ty\\n' > \"{name}\"; echo said it"
    file = made.pipeline(f"plan={script}; {WRITE_RESULT}")
    assert made.call("run", "-p", file, "-s", "auth").code == 0
    return made


def printed_on_terminal(project: Project, *arguments: str) -> str:
    with on_a_terminal(project, *arguments, TERM="xterm", COLUMNS="80") as screen:
        assert screen.end() == 0
        return screen.raw


def test_show_lists_the_iterations_by_stage(project: Project) -> None:
    assert project.call("show", "auth").lines == [
        "auth: completed, pipeline demo, 1 iteration",
        "",
        "plan",
        "  ✓   1  Ns  2 files +2 -0  did it",
        "",
        "Details: agentforge show auth plan 1",
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_its_text_and_its_json(project: Project, view: str) -> None:
    text, found = project.call("show", f"--{view}"), project.call("show", f"--{view}", "--json").json
    assert text.lines[0].startswith("auth: completed, pipeline demo, ")
    assert (found["session"], found["waivers"], type(found[VIEWS[view].key])) == ("auth", [], list)


def test_a_view_can_be_of_one_stage_visit_and_iteration(project: Project) -> None:
    listed = ["plan, visit 1: 1 iteration"]
    for place in (["plan"], ["0"], ["plan", "--visit", "1"]):
        lines = project.call("show", "auth", *place, "--history").lines
        assert lines[0] == "auth: completed, pipeline demo, 1 visit"
        assert [line.removeprefix("✓ ") for line in lines[2:]] == listed
    assert project.call("show", "auth", "plan", "2", "--checks").lines[0].endswith("no checks ran")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["auth", "--checks", "--history"], "give one of --checks and --history", ""),
        (["auth", "plan", "--output", "--hooks"], "give one of --output and --hooks", ""),
        (["auth", "--output", "--diff"], "give one of --output and --diff", ""),
        (["auth", "--failures"], "--failures goes with --checks", ""),
        (["auth", "--hooks", "--cycles"], "--cycles goes with --history", ""),
        (["auth", "plan", "1", "--history"], "--history takes no ITERATION", ""),
        (["auth", "--checks", "--visit", "7"], "the run has no visit 7", "visits: 1"),
        (["auth", "pln", "--hooks"], "has no iteration of a stage 'pln'", "did you mean `plan`?"),
    ],
)
def test_views_that_do_not_go_together_are_refused(
    project: Project, arguments: list[str], error: str, hint: str
) -> None:
    done = project.call("show", *arguments)
    assert (done.code, done.out) == (2, "")
    assert error in done.err
    assert hint in done.err


def test_show_of_an_iteration(project: Project) -> None:
    here = f"{project.run_dir('auth')}/stage-00-plan/iterations/001"
    shown = project.call("show", "auth", "plan").lines
    assert shown == [
        "auth: plan, iteration 1",
        "  Status:    completed",
        "  Provider:  command",
        "  Decision:  continue",
        "  Summary:   did it",
        "  Duration:  Ns",
        "  Changed:   2 files, +2 -0 lines",
        "    M a.txt      +1",
        "    A b\ufffd[2J.txt  +1",
        "  Output:",
        "    │ said it",
        f"  Files:     {here}/",
        "    attempt-1, context.json, output.md, prompt.md, result.json",
        "",
        "More: agentforge show [--output | --prompt | --context | --diff] auth plan 1",
    ]


def test_the_parts_of_an_iteration(project: Project) -> None:
    assert project.call("show", "auth", "--output").out == "said it\n"
    prompt = (project.run_dir("auth") / "stage-00-plan/iterations/001/prompt.md").read_text()
    assert project.call("show", "auth", "plan", "1", "--prompt").out.rstrip() == prompt.rstrip()
    assert "two\x1b[31m" in project.call("show", "auth", "plan", "1", "--diff").out


def test_a_change_on_a_terminal_is_coloured_and_harmless(project: Project) -> None:
    shown = printed_on_terminal(project, "diff", "auth")
    assert "\x1b[32m+two\ufffd[31m\x1b[0m" in shown
    assert "\x1b[32m+x      y\x1b[0m" in shown
    assert "\x1b[2J" not in shown


def test_a_change_on_a_pipe_can_be_applied_and_counted(project: Project) -> None:
    patch = project.call("diff").out
    assert project.call("diff", "auth", "--stat").lines[-1] == "2 files, +2 -0 lines"
    checked = ["git", "-C", str(project.root), "apply", "--check", "-R", "-"]
    subprocess.run(checked, input=patch.encode(), check=True, env=project.env)


def test_timeline_as_text_and_as_a_picture(project: Project) -> None:
    done = project.call("show", "auth", "--timeline", "--svg", "auth.svg")
    assert done.code == 0
    rows = [line.partition("█")[0].strip() for line in done.out.splitlines()[3:]]
    assert rows == ["✓ run auth", "✓   plan, visit 1", "✓     iteration 1: command"]
    picture = (project.root / "auth.svg").read_text()
    assert [len(re.findall(tag, picture)) for tag in ("^<svg ", "<script", 'class="done"')] == [1, 0, 3]
    (project.root / "auth.svg").write_text("<svg/>")
    (project.root / "link.svg").symlink_to("auth.svg")
    assert project.call("show", "auth", "--timeline", "--svg", "link.svg").code == 0
    assert (project.root / "auth.svg").read_text() == "<svg/>"
    refused = project.call("show", "auth", "--timeline", "--svg", "a.txt")
    assert (refused.code, (project.root / "a.txt").read_text()) == (2, "one\ntwo\x1b[31m\n")
    assert "--svg goes with --timeline" in project.call("show", "auth", "--spans", "--svg", "auth.svg").err


def test_errors_name_what_exists(project: Project) -> None:
    done = project.call("show", "auth", "nosuch")
    assert (done.code, done.out) == (2, "")
    assert "hint: stages with iterations: plan" in done.err


def test_show_counts_completed_iterations_and_a_change_of_nothing_is_stated(tmp_path: Path) -> None:
    project = Project(tmp_path)
    subprocess.run(["git", "init", "-q", str(project.root)], check=True, env=project.env)
    file = project.pipeline(f"plan={WRITE_RESULT}", "build=exit 3", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    shown = project.call("show", "auth").lines
    assert shown[0] == "auth: failed, pipeline demo, 1 iteration"
    assert sum(line.startswith("  ✗") for line in shown) == 1
    nothing = project.call("show", "auth", "plan", "--diff")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "plan, iteration 1, changed no files.\n")
    assert project.call("diff", "auth").err == "No files changed during session 'auth'.\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_log_records_are_wrapped_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", Terminal())
    text = "session other is running in the same folder: the agents may overwrite each other's changes"
    shown = PrettyFormatter().format(logging.makeLogRecord({"msg": text, "levelname": "WARNING"}))
    first, second = shown.split("\n")
    assert len(first) <= 80
    assert second.startswith("    ")
    assert f"{first} {second.strip()}".endswith(text)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert PrettyFormatter().format(logging.makeLogRecord({"msg": text})).endswith(text)


def test_lines_of_commands_are_wrapped_at_words(tmp_path: Path) -> None:
    project = Project(tmp_path)
    session = "x" * 60
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", session).code == 0
    commands = (("list",), ("dry-run", file, session), ("stages",), ("log", "verify", session))
    for shown in (printed_on_terminal(project, *command) for command in commands):
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
        long = [line for line in lines if len(line) > 80 and len(line.split()) > 1 and session not in line]
        assert long == []
        assert any(line.startswith("    ") for line in lines)
