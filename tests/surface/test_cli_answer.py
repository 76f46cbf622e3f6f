"""`agentforge answer`: open requests, the command that answers them, and continuing the run."""

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

from agentforge.adapters.host.clock import SystemClock
from agentforge.adapters.log.log import JsonlLog
from agentforge.model import facts as f
from agentforge.runtime.journal import Journal

ONCE = "    semantics: at_most_once\n"
AGENT = f"echo run >> count; if [ -e ok ]; then {WRITE_RESULT}; else exit 1; fi"


@pytest.fixture
def asking(project: Project) -> Project:
    """A run `auth` that stopped with a question."""
    file = project.pipeline(f"plan={AGENT}", extra=ONCE)
    done = project.call("run", "-p", file, "-s", "auth")
    assert done.code == 22
    assert "  Answer: agentforge answer auth retry\n" in done.out
    return project


def request_of(project: Project) -> str:
    """The id of the latest question."""
    opened = [event["data"] for event in project.events("auth") if event["type"] == "request_opened"]
    id: str = opened[-1]["id"]
    return id


def record(project: Project, fact: f.AnyFact) -> None:
    log = JsonlLog(str(project.run_dir("auth") / "events.jsonl"))
    journal = Journal("auth", log.open(), SystemClock())
    journal.record(fact, journal.state.cursor)
    journal.close()


def inject(project: Project) -> None:
    """An approval, as later parts of the engine will ask for it."""
    options = ("yes", "no", "cancel")
    record(project, f.RequestOpened("approval-1", "approval", "deploy", "approval", "Deploy?", options))


# -- listing


@pytest.mark.parametrize("named", [["auth"], []])
def test_answer_without_an_answer_lists_the_requests_with_the_exact_command(
    asking: Project, named: list[str]
) -> None:
    done = asking.call("answer", *named)
    question, command = done.out.splitlines()
    assert done.code == 0
    assert question.startswith("attempt 1 at iteration 1 of stage 'plan' failed (")
    assert command == "  agentforge answer auth retry"


def test_answer_lists_several_requests_each_with_its_name(asking: Project) -> None:
    inject(asking)
    commands = asking.call("answer", "auth").out.splitlines()[1::2]
    assert commands == [
        "  agentforge answer --request at_most_once-6 auth retry",
        "  agentforge approve --request approval-1 auth",
    ]


def test_answer_lists_as_json(asking: Project) -> None:
    listed = asking.call("answer", "auth", "--json").json
    assert listed["session"] == "auth"
    (request,) = listed["requests"]
    assert (request["id"], request["kind"]) == (request_of(asking), "escalation")
    assert request["options"] == ["retry", "succeeded", "resume", "cancel"]


def test_answer_without_open_requests_prints_a_message(project: Project) -> None:
    project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth")
    done = project.call("answer", "auth")
    assert (done.code, done.out) == (0, "Session 'auth' has no open requests.\n")
    assert project.call("answer", "auth", "--json").json == {"session": "auth", "requests": []}


# -- answering


def test_answer_continues_the_run_attached_to_its_end(asking: Project) -> None:
    (asking.root / "ok").touch()
    done = asking.call("answer", "auth", "retry")
    assert done.code == 0
    assert "· person answered: retry" in done.out
    assert "· continuing after an answer" in done.out
    assert done.lines[-2] == "✓ Completed: 1 iteration in Ns"
    assert (asking.root / "count").read_text() == "run\nrun\n"


def test_answer_that_leads_to_another_question_ends_as_a_run_that_needs_a_person(asking: Project) -> None:
    first = request_of(asking)
    done = asking.call("answer", "auth", "retry", "--request", first)
    assert done.code == 22
    assert "  Answer: agentforge answer auth retry\n" in done.out
    assert request_of(asking) != first


def test_answer_may_count_the_work_as_done(asking: Project) -> None:
    assert asking.call("answer", "auth", "succeeded").code == 0
    assert (asking.root / "count").read_text() == "run\n"
    assert asking.state("auth")["status"] == "completed"


def test_answer_may_cancel_the_run(asking: Project) -> None:
    done = asking.call("answer", "auth", "cancel")
    assert done.code == 23
    assert done.lines[-1] == "✗ Cancelled after 0 iterations in Ns: answered by person"
    assert asking.state("auth")["requests"] == []


def test_answer_as_json_reports_how_the_run_stopped(asking: Project) -> None:
    (asking.root / "ok").touch()
    done = asking.call("answer", "auth", "retry", "--json")
    assert (done.code, done.json["status"], done.json["requests"]) == (0, "completed", [])


# -- refusing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["auth", "sing"], "Error: 'sing' is not an option of request 'at_most_once-6'"),
        (["auth", "retry", "--request", "other-1"], "Error: session 'auth' has no open request 'other-1'"),
        (["nobody", "retry"], "Error: no session 'nobody'"),
    ],
)
def test_answer_that_is_not_offered_or_not_asked_for_is_a_usage_error(
    asking: Project, arguments: list[str], message: str
) -> None:
    before = asking.events("auth")
    done = asking.call("answer", *arguments)
    assert done.code == 2
    assert done.err.startswith(message)
    assert "Traceback" not in done.err
    assert asking.events("auth") == before
    assert not (asking.run_dir("auth") / "answers").exists()


def test_answer_names_the_options(asking: Project) -> None:
    assert "hint: use one of: retry, succeeded, resume, cancel" in asking.call("answer", "auth", "sing").err


def test_answer_to_a_run_without_requests_is_a_usage_error(asking: Project) -> None:
    asking.call("answer", "auth", "succeeded")
    done = asking.call("answer", "auth", "retry")
    assert (done.code, done.err) == (
        2,
        "Error: session 'auth' has no open requests\n  hint: `agentforge status auth` shows its status\n",
    )


def test_answer_to_one_of_several_requests_has_to_name_it(asking: Project) -> None:
    inject(asking)
    done = asking.call("answer", "auth", "cancel")
    assert done.code == 2
    assert "has several open requests: at_most_once-6, approval-1" in done.err
    assert asking.call("answer", "auth", "cancel", "--request", "approval-1").code == 23


def test_answer_without_any_session_is_a_usage_error(project: Project) -> None:
    done = project.call("answer")
    assert done.code == 2
    assert done.err.startswith("Error: no session with open requests in")


# -- beside `resume`


def test_resume_shows_the_command_for_what_it_does_not_answer(asking: Project) -> None:
    inject(asking)
    done = asking.call("resume", "auth")
    assert done.code == 22
    assert done.out.splitlines()[1:3] == [
        "Still open: Deploy? [yes, no, cancel]",
        "  Answer it with `agentforge approve --request approval-1 auth`.",
    ]
    assert asking.state("auth")["status"] == "awaiting_approval"


# -- runs that are not continued at once


def test_answer_continues_a_run_whose_engine_died(asking: Project) -> None:
    record(asking, f.SessionResumed("person"))  # And the engine died.
    (asking.root / "ok").touch()
    assert asking.call("answer", "auth", "retry").code == 0
    assert asking.state("auth")["status"] == "completed"
