"""Approvals on the command line: the inbox, approve, reject, and what other commands show meanwhile."""

import json
import re
import subprocess
import time

import pytest
from tests.surface.terminal import ASK_ONCE, WRITE_RESULT, Project, wait_for

from agentforge import SyncEngine

APPROVE = "    approve: true\n"
BUILD = f"build=echo visit >> made.txt; echo hard work; {WRITE_RESULT}"


@pytest.fixture
def waiting(project: Project) -> Project:
    """A run `auth` that waits for an approval."""
    subprocess.run(["git", "init", "-q", str(project.root)], check=True, env=project.env)
    done = project.call("run", "-p", project.pipeline(BUILD, extra=APPROVE), "-s", "auth")
    assert done.code == 0
    assert done.lines[-5:] == [
        "‖ Awaiting approval after 1 iteration in Ns",
        "  Approve the result of stage 'build'? [approve, reject, abort]",
        "  Approve: agentforge approve auth",
        "  Reject: agentforge reject auth -f TEXT",
        "  Inspect: agentforge inbox show auth",
    ]
    return project


def visits(project: Project) -> int:
    return project.types("auth").count("node_start")


# -- looking


def test_inbox_lists_age_session_stage_and_question_with_the_commands(waiting: Project) -> None:
    done = waiting.call("inbox")
    assert done.lines == [
        "AGE  SESSION  STAGE  REQUEST",
        "Ns   auth     build  approval-7",
        "    Approve the result of stage 'build'? [approve, reject, abort]",
        "    agentforge approve auth",
        "    agentforge reject auth -f TEXT",
        "",
        "Details: agentforge inbox show SESSION",
    ]


@pytest.mark.parametrize("named", [[], ["auth"], ["approval-7"]])
def test_inbox_shows_result_output_and_change(waiting: Project, named: list[str]) -> None:
    lines = waiting.call("inbox", "show", *named).lines
    assert lines == [
        "auth, build: approval approval-7",
        "  Question:   Approve the result of stage 'build'?",
        "  Options:    approve, reject, abort",
        "  Waits for:  a person; asked Ns ago",
        "  Work:       build, iteration 1",
        "  Summary:    did it",
        "  Output:",
        "    │ hard work",
        "  Changed:    1 file, +1 -0 lines since the stage began",
        "    A made.txt  +1",
        "  Full change: agentforge inbox show -v auth",
        "",
        "  Approve: agentforge approve auth",
        "  Reject: agentforge reject auth -f TEXT",
    ]


def test_inbox_shows_the_full_change_on_request(waiting: Project) -> None:
    assert "+visit\n" in waiting.call("inbox", "show", "-v").out
    shown = waiting.call("inbox", "show", "-v", "--json").json
    assert "+visit\n" in shown["diff"]
    assert shown["iteration"]["summary"] == "did it"


def test_status_list_top_and_tail_show_who_must_answer_and_what_is_asked(waiting: Project) -> None:
    status = waiting.call("status", "auth").lines
    assert "Status: awaiting approval" in status
    assert "Question: Approve the result of stage 'build'? [approve, reject, abort]" in status
    assert "Waits for: a person; asked Ns ago" in status
    assert not [line for line in status if line.startswith("Resume")]
    listed = waiting.call("list").lines
    assert "    ‖ Approve the result of stage 'build'? (a person; asked Ns ago)" in listed
    assert "a person, Ns: Approve the result of stage 'build'?" in waiting.call("top", "--once").lines[1]
    assert "kind=approval of=person question=" in waiting.call("tail", "auth", "--no-follow").out


@pytest.mark.parametrize(
    ("agent", "extra", "is_asked", "command", "answer"),
    [
        (ASK_ONCE, "", "waiting for an answer", "answer auth sqlite", "sqlite"),
        (WRITE_RESULT, APPROVE, "awaiting approval", "approve auth", "approve"),
    ],
)
def test_a_run_with_the_name_of_one_that_waits_names_the_command_that_answers(
    project: Project, agent: str, extra: str, is_asked: str, command: str, answer: str
) -> None:
    run = ("run", "-p", project.pipeline(f"plan={agent}", extra=extra), "-s", "auth")
    project.call(*run)
    refused, over = project.call(*run), "   (or --force to start over)"
    assert refused.err == f"Error: Session 'auth' is {is_asked}.\n  hint: agentforge {command}{over}\n"
    assert f"Last event: {is_asked} (" in project.call("status", "auth").out
    with SyncEngine(project.root, environ=project.environment({})) as engine:
        engine.answer("auth", answer, drive=False)
    refused = project.call(*run)
    message = "Session 'auth' was answered, and not continued."
    assert refused.err == f"Error: {message}\n  hint: agentforge recover auth{over}\n"
    assert "awaiting_approval" not in project.call("status", "auth").out


def test_question_is_waited_for_and_changes_no_total(project: Project) -> None:
    file = project.pipeline(f"plan*3={ASK_ONCE}", f"build={WRITE_RESULT}")
    asks = project.call("run", "-p", file, "-s", "auth")
    assert asks.code == 22
    assert "‖ Waiting for an answer after 1 iteration in Ns" in asks.lines
    assert any(line.startswith("[HH:MM:SS] ✓ plan 1/3 asked a question after") for line in asks.lines)
    status = project.call("status", "auth").lines
    assert {"Status: waiting for an answer", "Iteration: 1/3", "  ‖ plan   0/3"} <= set(status)
    assert " waiting for an answer " in project.call("list").lines[1]
    row = project.call("top", "--once").lines[1]
    assert ("waiting for an answer" in row, "1/3" in row) == (True, True)
    listed, top = project.call("list", "--json").json[0], project.call("top", "--json").json[0]
    for shown in (listed, top, project.call("status", "auth", "--json").json):
        assert [request["kind"] for request in shown["requests"]] == ["question"]
    asked_at = (project.run_dir("auth") / "events.jsonl").stat().st_mtime
    wait_for(lambda: time.time() > asked_at + 1, "a second of waiting")
    answered = project.call("answer", "auth", "sqlite")
    shown = [line.split(" ", 1)[1] for line in answered.lines if line.endswith(" started")]
    assert shown == [f"▸ {place} started" for place in ("plan 1/3", "plan 2/3", "plan 3/3", "build 1/1")]
    waited = r"(✓ Completed: 5 iterations in|Duration:) [\d.]+s, stopped for [\d.]+s"
    assert re.search(waited, answered.out)
    assert re.search(waited, project.call("status", "auth").out)
    ended = project.call("status", "auth", "--json").json
    assert 1 <= ended["waited_seconds"] <= ended["duration_seconds"]
    assert [(one["completed"], one["total"]) for one in ended["stages"]] == [(3, 3), (1, 1)]


def test_inbox_names_a_run_whose_time_to_answer_is_over(project: Project) -> None:
    for seconds in (1, 4, 16, 64):
        name, extra = f"auth-{seconds}", f"    approve: {{timeout: {seconds}, on_timeout: approve}}\n"
        waits = project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}", extra=extra), "-s", name)
        # On a busy machine, the time may be over before the engine has left.
        if "session_complete" not in project.types(name):
            break
    assert "Awaiting approval" in waits.out
    told = f"Session '{name}' was answered but has no active engine; run `agentforge recover {name}`.\n"
    wait_for(lambda: project.call("inbox").err == told, "the end of the time")
    then = f"answered, not continued: `agentforge recover {name}`"
    status = project.call("status", name)
    assert f"Resume: {then}" in status.lines
    assert "Question" not in status.out
    assert f"    ‖ {then}" in project.call("list").lines
    assert "recover: answered, not continued" in project.call("top", "--once").lines[1]
    shown = project.call("status", name, "--json").json
    assert (shown["answered"], shown["resume_command"]) == (True, f"agentforge recover {name}")
    assert (shown["answer_commands"], shown["inspect_command"]) == ([], None)
    assert project.call("list", "--json").json[0]["answered"]
    assert project.call("recover", name).code == 0
    assert project.call("inbox").err == ""
    assert not project.call("status", name, "--json").json["answered"]


def test_empty_inbox_says_so(project: Project) -> None:
    assert project.call("inbox").out == "No open requests.\n"
    assert project.call("inbox", "--json").json == []
    done = project.call("approve")
    assert (done.code, done.err.splitlines()[0]) == (2, f"Error: no open request in {project.root}")


# -- deciding


@pytest.mark.parametrize("named", [[], ["auth"], ["approval-7"], ["--request", "approval-7", "auth"]])
def test_approve_accepts_the_result_and_continues_without_running_the_stage_again(
    waiting: Project, named: list[str]
) -> None:
    done = waiting.call("approve", *named)
    assert (done.code, done.lines[-2]) == (0, "✓ Completed: 1 iteration in Ns")
    assert visits(waiting) == 1
    assert (waiting.root / "made.txt").read_text() == "visit\n"


def test_reject_with_feedback_runs_the_stage_again_and_asks_again(waiting: Project) -> None:
    done = waiting.call("reject", "auth", "-f", "use a queue")
    assert done.code == 0
    assert "‖ build was rejected by person, and runs again: use a queue" in done.out
    assert "  Approve the result of stage 'build'? (round 2 of 3) [approve, reject, abort]\n" in done.out
    assert visits(waiting) == 2
    shown = waiting.call("inbox", "show").out
    assert "Work:       build, visit 2, iteration 1" in shown
    assert "1 file, +2 -0 lines since the stage began" in shown
    assert waiting.call("approve").code == 0


def test_reject_may_end_the_run(waiting: Project) -> None:
    done = waiting.call("reject", "--abort")
    assert (done.code, waiting.state("auth")["status"]) == (23, "aborted")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reject", "auth"], "give either -f TEXT, to run the stage again, or --abort, to end the run"),
        (["reject", "auth", "-f", "x", "--abort"], "give either -f TEXT"),
        (["reject", "auth", "-f", " "], "the feedback is empty"),
        (["answer", "auth", "reject"], "a rejection needs feedback: `agentforge reject auth -f TEXT`"),
        (["approve", "nobody"], "'nobody' is neither a session nor an open request"),
        (
            ["inbox", "show", "--request", "other-1", "auth"],
            "request 'other-1' of session 'auth' is not open",
        ),
    ],
)
def test_unclear_decision_changes_nothing(waiting: Project, arguments: list[str], message: str) -> None:
    before = waiting.events("auth")
    done = waiting.call(*arguments)
    assert (done.code, message in done.err) == (2, True)
    assert waiting.events("auth") == before


def test_second_answer_is_refused_with_the_first_one(waiting: Project) -> None:
    assert waiting.call("approve", "approval-7").code == 0
    done = waiting.call("reject", "approval-7", "-f", "too late")
    assert done.code == 1
    assert "request 'approval-7' of session 'auth' was already answered by person: approve (" in done.err
    assert done.err.count("Error") == 1
    late = waiting.call("approve", "approval-7", "--json")
    assert (late.code, late.json["error"]["code"]) == (1, "already_answered")


def test_resume_prints_the_command_to_use_instead(waiting: Project) -> None:
    done = waiting.call("resume", "auth")
    assert (done.code, done.out) == (1, "")
    assert "hint: answer it instead: `agentforge approve auth`" in done.err


def test_yes_approves_without_asking(project: Project) -> None:
    done = project.call("run", "-p", project.pipeline(BUILD, extra=APPROVE), "-s", "auth", "--yes")
    assert done.code == 0
    assert "· --yes answered: approve" in done.out


def test_yes_does_not_clear_a_checkpoint(project: Project) -> None:
    file = project.pipeline(BUILD, extra="    checkpoint: go-live\n")
    assert project.call("run", "-p", file, "-s", "auth", "--yes").code == 0
    shown = project.call("inbox", "show").out
    assert shown.startswith("auth, build: checkpoint checkpoint-")
    rejected = project.call("reject", "-f", "later")
    assert (rejected.code, "there is no result to reject" in rejected.err) == (2, True)
    assert project.call("approve").code == 0
    assert project.types("auth").count("checkpoint_cleared") == 1


def test_resume_may_start_the_stage_over(waiting: Project) -> None:
    done = waiting.call("resume", "auth", "--restart-stage", "--yes")
    assert done.code == 0
    assert visits(waiting) == 2
    assert waiting.state("auth")["status"] == "completed"
    unclear = waiting.call("resume", "auth", "--provider", "a")
    assert (unclear.code, "--restart-stage" in unclear.err) == (2, True)


# -- a run that is running


def branch(name: str, work: str) -> str:
    run = f"cat >/dev/null; {work}; {WRITE_RESULT}"
    return f"{{type: command, name: {name}, run: {json.dumps(run)}}}"


def test_answer_for_a_branch_names_the_engine_that_continues(project: Project) -> None:
    slow = branch("slow", "while [ ! -e go ]; do sleep 0.02; done")
    block = (
        f"{{providers: [{branch('fast', 'true')}, {slow}], stages: [{{id: a, prompt: x, approve: true}}]}}"
    )
    (project.root / "p.yaml").write_text(f"name: both\nnodes:\n  - {{id: both, parallel: {block}}}\n")
    with project.started("run", "-p", "p.yaml", "-s", "auth") as started:
        wait_for(lambda: "request_opened" in project.types("auth"), "the approval of a branch")
        done = project.call("approve")
        engine = f"Its engine (PID {started.process.pid}) continues the run."
        assert (done.code, done.err) == (0, f"Answered session 'auth': approve. {engine}\n")
        (project.root / "go").touch()
        assert started.end().code == 0
    assert "slow: Approve the result of stage 'a'?" in project.call("inbox", "show").out
    assert project.call("approve").code == 0


def test_steer_and_abort_reach_a_running_run(project: Project) -> None:
    wait = "touch up; while [ ! -e go ]; do sleep 0.02; done"
    file = project.root / project.pipeline(f"build*2={wait}; {WRITE_RESULT}")
    file.write_text(file.read_text().replace("do it", "do it ${CONTEXT}"))
    with project.started("run", "-p", str(file), "-s", "auth") as started:
        wait_for((project.root / "up").exists, "the agent")
        assert project.call("steer", "auth", "prefer a queue").code == 0
        (project.root / "go").touch()
        assert started.end().code == 0
    notes = [event["data"] for event in project.events("auth") if event["type"] == "note_added"]
    assert [(note["text"], note["by"]) for note in notes] == [("prefer a queue", "person")]
    prompts = sorted(project.run_dir("auth").rglob("prompt.md"))
    assert ["prefer a queue" in prompt.read_text() for prompt in prompts] == [False, True]
    late = project.call("abort", "auth", "-r", "too late")
    assert late.code == 1


def test_abort_records_its_reason(waiting: Project) -> None:
    assert waiting.call("abort", "auth", "-r", "not needed").code == 0
    assert waiting.state("auth")["status"] == "aborted"
    reasons = [e["data"]["reason"] for e in waiting.events("auth") if e["type"] == "cancel_requested"]
    assert reasons == ["not needed"]


def test_keys_of_the_inbox_are_json(waiting: Project) -> None:
    (one,) = json.loads(waiting.call("inbox", "--json").out)
    assert (one["session"], one["stage"], one["request"]["kind"]) == ("auth", "build", "approval")
    assert one["answer_commands"] == ["agentforge approve auth", "agentforge reject auth -f TEXT"]


def test_a_question_that_is_still_open_is_shown_beside_the_one_that_was_answered(project: Project) -> None:
    asks = [{"id": name, "question": f"Which {name}?", "options": ["yes", "no"]} for name in ("db", "ui")]
    said = json.dumps({"decision": "ask", "questions": asks})
    agent = f"cat > \"$AGENTFORGE_RESULT\" <<'E'\n{said}\nE"
    file = project.root / "p.json"
    node = {"id": "plan", "prompt": "x", "provider": {"type": "command", "run": agent}}
    file.write_text(json.dumps({"name": "p", "nodes": [node]}))
    project.call("run", "-p", "p.json", "-s", "q")
    first, second = project.call("status", "q", "--json").json["requests"]
    with SyncEngine(project.root, environ=project.environment({})) as engine:
        engine.answer("q", "yes", request=first["id"], drive=False)
    status, listed = project.call("status", "q"), project.call("list")
    for text in (status.out, listed.out):
        assert "answered, not continued: `agentforge recover q`" in text
        assert ("Which db?" in text, "Which ui?" in text) == (False, True)
    assert f"agentforge answer --request {second['id']} q yes" in status.out
    for shown in (project.call("status", "q", "--json").json, project.call("list", "--json").json[0]):
        assert (shown["answered"], shown["unanswered"]) == (True, [second["id"]])
