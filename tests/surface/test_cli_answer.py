"""`agentforge answer`: the options of an escalation, and continuing the run."""

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
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
    """A second request, of a branch for example."""
    options = ("approve", "abort")
    record(project, f.RequestOpened("gate-1", "checkpoint", "deploy", "gate", "Deploy?", options))


# -- answering


@pytest.mark.parametrize("named", [["auth"], ["at_most_once-6"], []])
def test_answer_continues_the_run_attached_to_its_end(asking: Project, named: list[str]) -> None:
    (asking.root / "ok").touch()
    done = asking.call("answer", *named, "resume")
    assert done.code == 0
    assert "· person answered: resume" in done.out
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
    done = asking.call("answer", "auth", "resume", "--json")
    assert (done.code, done.json["status"], done.json["requests"]) == (0, "completed", [])


# -- refusing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["auth", "sing"], "Error: 'sing' is not an option of request 'at_most_once-6'"),
        (["auth", "resume", "--request", "other-1"], "Error: session 'auth' has no open request 'other-1'"),
        (["nobody", "resume"], "Error: 'nobody' is neither a session nor an open request"),
        (["auth"], "Error: missing ANSWER for 'auth': attempt 1 at iteration 1"),
        ([], "Error: missing ANSWER"),
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
    done = asking.call("answer", "auth", "sing")
    assert "hint: use one of: retry, succeeded, resume, cancel" in done.err


def test_answer_to_a_run_without_open_requests_is_told_who_was_first(asking: Project) -> None:
    asking.call("answer", "auth", "succeeded")
    done = asking.call("answer", "auth", "resume")
    assert done.code == 1
    assert done.err.startswith(
        "Error: request 'at_most_once-6' of session 'auth' was already answered by person"
    )


def test_answer_to_one_of_several_requests_has_to_name_it(asking: Project) -> None:
    inject(asking)
    done = asking.call("answer", "auth", "abort")
    assert done.code == 2
    assert "2 requests are open: at_most_once-6 of session 'auth' (" in done.err
    assert asking.call("answer", "auth", "abort", "--request", "gate-1").code == 23


# -- beside `resume`


def test_resume_shows_the_command_for_what_it_does_not_answer(asking: Project) -> None:
    inject(asking)
    done = asking.call("resume", "auth")
    assert done.code == 22
    assert done.out.splitlines()[1:3] == [
        "Still open: Deploy? [approve, abort]",
        "  Answer it with `agentforge approve --request gate-1 auth`.",
    ]
    assert asking.state("auth")["status"] == "awaiting_approval"


# -- runs that are not continued at once


def test_answer_continues_a_run_whose_engine_died(asking: Project) -> None:
    record(asking, f.SessionResumed("person"))  # And the engine died.
    (asking.root / "ok").touch()
    assert asking.call("answer", "auth", "resume").code == 0
    assert asking.state("auth")["status"] == "completed"
