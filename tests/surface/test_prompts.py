"""A run that asks in place, and the picker of the inbox, on a terminal of 80 columns in tmux."""

import shlex
import sys

import pytest
from tests.surface.terminal import ASK_ONCE, WRITE_RESULT, Project, wait_for
from tests.surface.tmux_server import TmuxServer, needs_tmux

pytestmark = needs_tmux

BUILD = f"build=echo visit >> made.txt; echo hard work; {WRITE_RESULT}"


class Pane:
    """A terminal in which a command runs; the last line shows its exit status."""

    def __init__(self, server: TmuxServer, project: Project) -> None:
        self._server, self._project = server, project

    @property
    def env(self) -> dict[str, str]:
        return self._server.env

    def run(self, *arguments: str) -> None:
        line = shlex.join([sys.executable, "-m", "agentforge", *arguments])
        variables = self._project.environment({"TERM": "screen"})
        env = [f"-e{name}={value}" for name, value in variables.items()]
        shell = f"{line}; echo ended with $?; exec cat"
        size = ("-x", "80", "-y", "200")
        self._server.call("kill-session", "-t", "asked")
        self._server.call(
            "new-session", "-d", "-s", "asked", *size, *env, "-c", str(self._project.root), shell
        )

    @property
    def text(self) -> str:
        return self._server.call("capture-pane", "-p", "-t", "asked")

    def until(self, text: str) -> None:
        wait_for(lambda: text in self.text, f"{text!r} on the screen")

    def type_unfinished(self, text: str) -> None:
        self._server.call("send-keys", "-t", "asked", "-l", text)

    def type(self, text: str) -> None:
        self.type_unfinished(text)
        self._server.call("send-keys", "-t", "asked", "Enter")


@pytest.fixture
def pane(project: Project, tmux: TmuxServer) -> Pane:
    return Pane(tmux, project)


def test_run_asks_in_place_until_the_result_is_approved(project: Project, pane: Pane) -> None:
    pane.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    pane.until("Your choice:")
    assert "  r  reject: run the stage again, with your feedback" in pane.text
    pane.type("v")
    pane.until("hard work\n")
    pane.type("nonsense")
    pane.until("Choose one of the answers above.")
    pane.type("r")
    pane.until("Feedback (leave empty to go back):")
    pane.type("use a queue")
    pane.until("(round 2 of 3)")
    pane.type("a")
    pane.until("ended with 0")
    assert "✓ Completed: 2 iterations" in pane.text
    answers = [e["data"] for e in project.events("auth") if e["type"] == "request_answered"]
    assert [(one["answer"], one.get("text", "")) for one in answers] == [
        ("reject", "use a queue"),
        ("approve", ""),
    ]
    assert len(list((project.run_dir("auth") / "answers").iterdir())) == 2


def test_request_that_is_left_for_later_is_picked_from_the_inbox(project: Project, pane: Pane) -> None:
    pane.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    pane.until("Your choice:")
    pane.type("l")
    pane.until("ended with 0")
    assert "  Approve: agentforge approve auth" in pane.text.replace(sys.executable + " -m ", "")
    pane.run("inbox")
    pane.until("Which request do you want to answer? [1-1, Enter to skip]:")
    pane.type("1")
    pane.until("Your choice:")
    pane.type("x")
    pane.until("End the run? It can't be resumed. [y/N]:")
    pane.type("y")
    pane.until("ended with 23")
    assert project.state("auth")["status"] == "aborted"


def test_confirmation_of_a_hook_is_asked_in_place(project: Project, pane: Pane) -> None:
    file = project.root / project.pipeline(BUILD)
    hooks = "hooks: {stage_end: [{id: publish, action: confirm, message: Publish it?}]}\n"
    file.write_text(hooks + file.read_text())
    pane.run("run", "-p", file.name, "-s", "auth")
    pane.until("Your choice:")
    assert "  Question:   Publish it?" in pane.text
    assert "  c  continue\n  x  abort: end the run; it can't be resumed\n" in pane.text
    pane.type("c")
    pane.until("ended with 0")
    assert "✓ Completed: 1 iteration" in pane.text


def test_answer_in_the_background_is_on_the_disk_when_the_command_returns(
    project: Project, pane: Pane
) -> None:
    project.env |= pane.env
    file = project.pipeline(BUILD, extra="    approve: true\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    done = project.call("approve", "--detach", "--json")
    assert (done.code, done.json["tmux"]) == (0, "pipeline-auth")
    assert len(list((project.run_dir("auth") / "answers").iterdir())) == 1
    wait_for(lambda: "session_complete" in project.types("auth"), "the end of the run")


def test_prompt_closes_when_the_question_is_answered_elsewhere(project: Project, pane: Pane) -> None:
    build = f"while [ ! -e go ]; do sleep 0.05; done; {WRITE_RESULT}"
    file = project.pipeline(f"plan={ASK_ONCE}", f"build={build}")
    pane.run("run", "-p", file, "-s", "auth")
    pane.until("Your choice:")
    pane.type_unfinished("2")
    with project.started("answer", "auth", "sqlite") as other:
        pane.until("Answered elsewhere by person: sqlite")
        # What the other engine does is shown here.
        pane.until("✓ plan 1/1 done")
        (project.root / "go").touch()
        pane.until("ended with 0")
        assert other.end().code == 0
    assert "✓ Completed: 3 iterations" in pane.text
    assert "already answered" not in pane.text
    assert project.types("auth").count("request_answered") == 1


def test_prompt_closes_and_says_that_the_run_is_complete(project: Project, pane: Pane) -> None:
    pane.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    pane.until("Your choice:")
    assert project.call("approve", "auth").code == 0
    pane.until("ended with 0")
    assert "Answered elsewhere by person: approve" in pane.text
    assert "✓ Completed: 1 iteration" in pane.text


def test_run_whose_prompt_closes_without_another_engine_is_continued_here(
    project: Project, pane: Pane
) -> None:
    extra = "    approve: {timeout: 3, on_timeout: approve}\n"
    pane.run("run", "-p", project.pipeline(BUILD, extra=extra), "-s", "auth")
    pane.until("Your choice:")
    pane.until("Answered elsewhere by default: approve")
    pane.until("ended with 0")
    assert "✓ Completed: 1 iteration" in pane.text


def test_prompt_of_the_inbox_closes_when_the_run_is_cancelled(project: Project, pane: Pane) -> None:
    file = project.pipeline(BUILD, extra="    approve: true\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    pane.run("inbox")
    pane.until("Which request do you want to answer? [1-1, Enter to skip]:")
    pane.type("1")
    pane.until("Your choice:")
    assert project.call("cancel", "auth").code == 0
    pane.until("ended with 23")
    assert "The request is closed." in pane.text
    assert "✗ Cancelled" in pane.text


PICK = "Which request do you want to answer?"


def test_list_of_the_inbox_closes_when_its_only_request_is_answered_elsewhere(
    project: Project, pane: Pane
) -> None:
    file = project.pipeline(BUILD, extra="    approve: true\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    pane.run("inbox")
    pane.until(PICK)
    assert project.call("approve", "auth").code == 0
    pane.until("ended with 0")
    assert "Answered elsewhere by person: approve" in pane.text
    assert "✓ Completed: 1 iteration" in pane.text


def test_list_of_the_inbox_closes_when_all_its_requests_are_answered_elsewhere(
    project: Project, pane: Pane
) -> None:
    file = project.pipeline(BUILD, extra="    approve: true\n")
    for session in ("one", "two", "three"):
        assert project.call("run", "-p", file, "-s", session).code == 0
    pane.run("inbox")
    pane.until(f"{PICK} [1-3")
    assert project.call("approve", "one").code == 0
    assert project.call("approve", "two").code == 0
    pane.type("1")
    pane.until("Answered elsewhere by person: approve")
    pane.until("ended with 0")
    assert "Your choice:" not in pane.text
    assert "hard work" not in pane.text
    for session in ("one", "two"):
        assert project.call("run", "-p", file, "-s", session, "--force").code == 0
    pane.run("inbox")
    pane.until(f"{PICK} [1-3")
    for session in ("one", "two", "three"):
        assert project.call("reject", session, "--abort").code == 23
    pane.until("ended with 0")
    for session in ("one", "two", "three"):
        assert f"{session}: Answered elsewhere by person: abort" in pane.text


def test_answer_that_comes_too_late_is_refused_and_the_run_is_continued(project: Project, pane: Pane) -> None:
    pane.run("run", "-p", project.pipeline(BUILD, extra="    approve: true\n"), "-s", "auth")
    pane.until("Your choice:")
    # It is on the disk, and no engine has applied it.
    answer = "from agentforge import SyncEngine; SyncEngine().answer('auth', 'approve', drive=False)"
    assert project.call_program(sys.executable, "-c", answer).code == 0
    pane.type("a")
    pane.until("ended with 0")
    # Unless the machine was so slow that the prompt had closed.
    assert any(
        text in pane.text for text in ("was already answered by person: approve", "Answered elsewhere")
    )
    assert "✓ Completed: 1 iteration" in pane.text
