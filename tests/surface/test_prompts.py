"""A run that asks in place, and the picker of the inbox, on a terminal of 80 columns."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.surface.screen import on_a_terminal
from tests.surface.terminal import ASK_ONCE, WRITE_RESULT, Project, wait_for
from tests.surface.tmux_server import TmuxServer, needs_tmux

BUILD = f"build=echo visit >> made.txt; echo hard work; {WRITE_RESULT}"


class Terminal:
    """In which commands run, one after the other."""

    def __init__(self, project: Project) -> None:
        self._project, self._running = project, ExitStack()

    def run(self, *arguments: str) -> None:
        self.close()
        size = {"TERM": "screen", "COLUMNS": "80", "LINES": "200"}
        self._screen = self._running.enter_context(on_a_terminal(self._project, *arguments, **size))

    def close(self) -> None:
        self._running.close()

    @property
    def text(self) -> str:
        """Of the last command."""
        return self._screen.text.replace("\r\n", "\n")

    def until(self, text: str) -> None:
        self._screen.until(text)

    def ends_with(self, code: int) -> None:
        assert self._screen.end() == code, self.text

    def type_unfinished(self, text: str) -> None:
        self._screen.type(text)

    def type(self, text: str) -> None:
        self._screen.type(text + "\n")


@pytest.fixture
def terminal(project: Project) -> Iterator[Terminal]:
    made = Terminal(project)
    yield made
    made.close()


def test_run_asks_in_place_until_the_result_is_approved(project: Project, terminal: Terminal) -> None:
    terminal.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    terminal.until("Your choice:")
    assert "  r  reject: run the stage again, with your feedback" in terminal.text
    terminal.type("v")
    terminal.until("v\r\n  Work:       build, iteration 1")
    terminal.type("nonsense")
    terminal.until("Choose one of the answers above.")
    terminal.type("r")
    terminal.until("Feedback (leave empty to go back):")
    terminal.type("use a queue")
    terminal.until("(round 2 of 3)")
    terminal.type("a")
    terminal.ends_with(0)
    assert "✓ Completed: 2 iterations" in terminal.text
    answers = [e["data"] for e in project.events("auth") if e["type"] == "request_answered"]
    assert [(one["answer"], one.get("text", "")) for one in answers] == [
        ("reject", "use a queue"),
        ("approve", ""),
    ]
    assert len(list((project.run_dir("auth") / "answers").iterdir())) == 2


def test_request_left_for_later_is_picked_from_the_inbox(project: Project, terminal: Terminal) -> None:
    terminal.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    terminal.until("Your choice:")
    terminal.type("l")
    terminal.ends_with(0)
    assert "  Approve: agentforge approve auth" in terminal.text.replace(sys.executable + " -m ", "")
    terminal.run("inbox")
    terminal.until("Which request do you want to answer? [1-1, Enter to skip]:")
    terminal.type("1")
    terminal.until("Your choice:")
    terminal.type("x")
    terminal.until("End the run? It can't be resumed. [y/N]:")
    terminal.type("y")
    terminal.ends_with(23)
    assert project.state("auth")["status"] == "aborted"


def test_confirmation_of_a_hook_is_asked_in_place(project: Project, terminal: Terminal) -> None:
    file = project.root / project.pipeline(BUILD)
    hooks = "hooks: {stage_end: [{id: publish, action: confirm, message: Publish it?}]}\n"
    file.write_text(hooks + file.read_text())
    terminal.run("run", "-p", file.name, "-s", "auth")
    terminal.until("Your choice:")
    assert "  Question:   Publish it?" in terminal.text
    assert "  c  continue\n  x  abort: end the run; it can't be resumed\n" in terminal.text
    terminal.type("c")
    terminal.ends_with(0)
    assert "✓ Completed: 1 iteration" in terminal.text


@needs_tmux
def test_answer_in_the_background_is_on_the_disk_when_the_command_returns(
    project: Project, tmux: TmuxServer
) -> None:
    project.env |= tmux.env
    file = project.pipeline(BUILD, extra="    approve: true\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    done = project.call("approve", "--detach", "--json")
    assert (done.code, done.json["tmux"]) == (0, "pipeline-auth")
    assert len(list((project.run_dir("auth") / "answers").iterdir())) == 1
    wait_for(lambda: "session_complete" in project.types("auth"), "the end of the run")


def test_prompt_closes_when_the_question_is_answered_elsewhere(project: Project, terminal: Terminal) -> None:
    build = f"while [ ! -e go ]; do sleep 0.05; done; {WRITE_RESULT}"
    file = project.pipeline(f"plan={ASK_ONCE}", f"build={build}")
    terminal.run("run", "-p", file, "-s", "auth")
    terminal.until("Your choice:")
    terminal.type_unfinished("2")
    with project.started("answer", "auth", "sqlite") as other:
        terminal.until("Answered elsewhere by person: sqlite")
        # What the other engine does is shown here.
        terminal.until("✓ plan 1/1 done")
        (project.root / "go").touch()
        terminal.ends_with(0)
        assert other.end().code == 0
    assert "✓ Completed: 3 iterations" in terminal.text
    assert "already answered" not in terminal.text
    assert project.types("auth").count("request_answered") == 1


def test_prompt_closes_and_says_that_the_run_is_complete(project: Project, terminal: Terminal) -> None:
    terminal.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    terminal.until("Your choice:")
    assert project.call("approve", "auth").code == 0
    terminal.ends_with(0)
    assert "Answered elsewhere by person: approve" in terminal.text
    assert "✓ Completed: 1 iteration" in terminal.text


def test_run_whose_prompt_closes_without_another_engine_is_continued_here(
    project: Project, terminal: Terminal
) -> None:
    extra = "    approve: {timeout: 3, on_timeout: approve}\n"
    terminal.run("run", "-p", project.pipeline(BUILD, extra=extra), "-s", "auth")
    terminal.until("Your choice:")
    terminal.until("Answered elsewhere by default: approve")
    terminal.ends_with(0)
    assert "✓ Completed: 1 iteration" in terminal.text


def test_prompt_of_the_inbox_closes_when_the_run_is_cancelled(project: Project, terminal: Terminal) -> None:
    file = project.pipeline(BUILD, extra="    approve: true\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    terminal.run("inbox")
    terminal.until("Which request do you want to answer? [1-1, Enter to skip]:")
    terminal.type("1")
    terminal.until("Your choice:")
    assert project.call("cancel", "auth").code == 0
    terminal.ends_with(23)
    assert "The request is closed." in terminal.text
    assert "✗ Cancelled" in terminal.text


PICK = "Which request do you want to answer?"


def test_list_of_the_inbox_closes_when_its_only_request_is_answered_elsewhere(
    project: Project, terminal: Terminal
) -> None:
    file = project.pipeline(BUILD, extra="    approve: true\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    terminal.run("inbox")
    terminal.until(PICK)
    assert project.call("approve", "auth").code == 0
    terminal.ends_with(0)
    assert "Answered elsewhere by person: approve" in terminal.text
    assert "✓ Completed: 1 iteration" in terminal.text


def test_list_of_the_inbox_closes_when_all_its_requests_are_answered_elsewhere(
    project: Project, terminal: Terminal
) -> None:
    file = project.pipeline(BUILD, extra="    approve: true\n")
    for session in ("one", "two", "three"):
        assert project.call("run", "-p", file, "-s", session).code == 0
    terminal.run("inbox")
    terminal.until(f"{PICK} [1-3")
    assert project.call("approve", "one").code == 0
    assert project.call("approve", "two").code == 0
    terminal.type("1")
    terminal.until("Answered elsewhere by person: approve")
    terminal.ends_with(0)
    assert "Your choice:" not in terminal.text
    assert "hard work" not in terminal.text
    for session in ("one", "two"):
        assert project.call("run", "-p", file, "-s", session, "--force").code == 0
    terminal.run("inbox")
    terminal.until(f"{PICK} [1-3")
    for session in ("one", "two", "three"):
        assert project.call("reject", session, "--abort").code == 23
    terminal.ends_with(0)
    for session in ("one", "two", "three"):
        assert f"{session}: Answered elsewhere by person: abort" in terminal.text


def test_late_answer_is_refused_and_the_run_is_continued(project: Project, terminal: Terminal) -> None:
    terminal.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    terminal.until("Your choice:")
    # It is on the disk, and no engine has applied it.
    answer = "from agentforge import SyncEngine; SyncEngine().answer('auth', 'approve', drive=False)"
    assert project.call_program(sys.executable, "-c", answer).code == 0
    terminal.type("a")
    terminal.ends_with(0)
    # Unless the machine was so slow that the prompt had closed.
    assert any(
        text in terminal.text for text in ("was already answered by person: approve", "Answered elsewhere")
    )
    assert "✓ Completed: 1 iteration" in terminal.text
