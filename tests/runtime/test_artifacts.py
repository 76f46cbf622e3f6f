"""The artifacts of a run: what is accepted, healed or rejected, and that what was accepted never changes."""

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.approvals import events
from tests.sdk.projects import ENVIRON, engine, iteration_dir, node, pipeline, run, run_dir

from agentforge.model.artifact import INLINE_BYTES, MAX_ARTIFACT_BYTES, MAX_ARTIFACT_DEPTH, REMOVED
from agentforge.model.result import Usage
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, crashes, returns, says
from agentforge.views.results import RunResult

SCHEMA = {
    "type": "object",
    "required": ["goal"],
    "properties": {"goal": {"type": "string"}, "size": {"type": "integer"}},
    "additionalProperties": False,
}
PLAN = {"goal": "slugs", "size": 3}
LATER = node("later", prompt="do ${INPUT_ARTIFACT}")
REJECTED = "stage-00-plan/iterations/001/attempt-1/artifact.json"


def planning(**rule: Any) -> dict[str, Any]:
    return node(artifact={"schema": SCHEMA, **rule}, runs=1)


def played(project: Path, *acts: Act, nodes: tuple[dict[str, Any], ...] = (), **more: Any) -> RunResult:
    """A run whose stage `plan` leaves an artifact."""
    agent = ScriptedProvider(acts, resumes=True)
    return run(engine(project, agent).run(pipeline(*(nodes or (planning(),)), **more), session="s"))


def by_stage(**acts: Act) -> ScriptedProvider:
    return ScriptedProvider(lambda request: acts.get(request.stage, says("done")))


def accepted(project: Path) -> Any:
    (done,) = [event.fact for event in events(project, "iteration_complete")][:1]
    return done.artifact


def failure(project: Path) -> Any:
    return events(project, "error")[-1].fact


def left(content: bytes) -> Act:
    """An agent that leaves these bytes as its artifact."""

    def act(request: ExecuteRequest) -> ExecuteResult:
        Path(request.artifact_path).write_bytes(content)
        return says("planned")(request)

    return act


def test_accepted_artifact_is_in_the_log_and_its_file_stays(tmp_path: Path) -> None:
    assert played(tmp_path, left(json.dumps(PLAN, indent=1).encode())).completed
    artifact = accepted(tmp_path)
    content = (iteration_dir(tmp_path) / "artifact.json").read_bytes()
    assert artifact.value == json.loads(content) == PLAN
    assert (artifact.size, artifact.sha256) == (len(content), sha256(content).hexdigest())
    assert artifact.version == "1.0"
    assert run_dir(tmp_path) / artifact.file == iteration_dir(tmp_path) / "artifact.json"


def test_artifact_that_a_provider_returns_is_written_for_people(tmp_path: Path) -> None:
    assert played(tmp_path, returns("planned", artifact=PLAN)).completed
    assert json.loads((iteration_dir(tmp_path) / "artifact.json").read_bytes()) == PLAN
    assert accepted(tmp_path).value == PLAN


def test_artifact_of_an_iteration_without_files_is_written_when_the_run_ends(tmp_path: Path) -> None:
    agent = ScriptedProvider([returns("planned", artifact=PLAN)], uses_files=False)
    assert run(engine(tmp_path, agent).run(pipeline(planning()), session="s")).completed
    content = (run_dir(tmp_path) / accepted(tmp_path).file).read_bytes()
    assert (accepted(tmp_path).value, json.loads(content)) == (PLAN, PLAN)
    assert accepted(tmp_path).sha256 == sha256(content).hexdigest()


def test_large_artifact_of_an_iteration_without_files_is_a_file(tmp_path: Path) -> None:
    agent = ScriptedProvider([returns("planned", artifact=LARGE)], uses_files=False)
    assert run(engine(tmp_path, agent).run(pipeline(planning()), session="s")).completed
    content = (run_dir(tmp_path) / accepted(tmp_path).file).read_bytes()
    assert (accepted(tmp_path).value, json.loads(content)) == (None, LARGE)


def test_wrong_artifact_of_an_iteration_without_files_is_healed(tmp_path: Path) -> None:
    agent = ScriptedProvider([returns("p", artifact={}), returns("p", artifact=PLAN)], uses_files=False)
    assert run(engine(tmp_path, agent).run(pipeline(planning()), session="s")).completed
    assert '"goal" is a required property' in agent.calls[1].prompt


SESSION = Usage(agent_session="talk-1")
WRONG = says("planned", artifact={"size": "three", "color": 1}, usage=SESSION)


def test_wrong_artifact_is_corrected_in_the_session_of_the_agent(tmp_path: Path) -> None:
    agent = ScriptedProvider([WRONG, says("planned", artifact=PLAN)], resumes=True)
    plan = pipeline(planning(), defaults={"retry": {"max_attempts": 1}})
    assert run(engine(tmp_path, agent).run(plan, session="s")).completed
    first, second = agent.calls
    assert (first.resume, second.resume) == ("", "talk-1")
    before, _, task = second.prompt.partition("The task was:\n\n")
    assert task == first.prompt
    assert before.startswith("The artifact that you left was not accepted.")
    for problem in (
        '$: "goal" is a required property',
        '$.size: "three" is not of type "integer"',
        "'color'",
    ):
        assert problem in before
    assert accepted(tmp_path).value == PLAN
    assert json.loads((run_dir(tmp_path) / REJECTED).read_bytes()) == {"size": "three", "color": 1}
    assert len(events(tmp_path, "attempt_start")) == 2


def test_agent_without_sessions_is_told_what_was_wrong_all_the_same(tmp_path: Path) -> None:
    agent = ScriptedProvider([says("planned", artifact="[]"), says("planned", artifact=PLAN)])
    assert run(engine(tmp_path, agent).run(pipeline(planning()), session="s")).completed
    assert agent.calls[1].resume == ""
    assert "$: it must be a JSON object" in agent.calls[1].prompt


def test_healing_that_crashes_is_repeated_with_what_was_wrong(tmp_path: Path) -> None:
    agent = ScriptedProvider([WRONG, crashes(), says("planned", artifact=PLAN)], resumes=True)
    plan = pipeline(planning(), defaults={"retry": {"max_attempts": 3, "initial_delay": 0}})
    assert run(engine(tmp_path, agent).run(plan, session="s")).completed
    assert "is a required property" in agent.calls[2].prompt


def test_artifact_that_is_not_corrected_fails_the_run_and_says_where_it_is(tmp_path: Path) -> None:
    assert not played(tmp_path, WRONG).completed
    assert len(events(tmp_path, "attempt_start")) == 2
    assert failure(tmp_path).message.endswith(f"it is kept in {REJECTED.replace('-1/', '-2/')}")
    assert (run_dir(tmp_path) / REJECTED).exists()


def test_without_healing_the_run_fails_with_the_errors_and_the_rejected_file(tmp_path: Path) -> None:
    result = played(tmp_path, WRONG, nodes=(planning(heal=0),))
    assert len(events(tmp_path, "attempt_start")) == 1
    assert failure(tmp_path).kind.value == "artifact_invalid"
    for part in ("the artifact is not accepted: $", '"goal" is a required property', f"kept in {REJECTED}"):
        assert part in failure(tmp_path).message
        assert part in result.reason
    assert json.loads((run_dir(tmp_path) / REJECTED).read_bytes())["color"] == 1
    assert not (iteration_dir(tmp_path) / "artifact.json").exists()


def test_retried_stage_may_heal_its_artifact_again(tmp_path: Path) -> None:
    agent = ScriptedProvider([WRONG, WRONG, WRONG, says("planned", artifact=PLAN)])
    plan = pipeline({**planning(), "retry": {"stage": 2, "initial_delay": 0}})
    assert run(engine(tmp_path, agent).run(plan, session="s")).completed
    assert len(agent.calls) == 4


def nested(depth: int) -> bytes:
    """An object with this number of levels."""
    return b'{"goal":' * (depth - 1) + b"1" + b"}" * (depth - 1)


INVALID: dict[str, tuple[bytes, str]] = {
    "empty": (b" \n", "$: the file is empty"),
    "no JSON": (b'{"goal": "slu', "$: it is not JSON: "),
    "no UTF-8": (b'{"goal": "\xff"}', "$: it is not JSON: "),
    "a list": (b"[1]", "$: it must be a JSON object"),
    "too deep": (nested(MAX_ARTIFACT_DEPTH + 1), f"nested deeper than {MAX_ARTIFACT_DEPTH} levels"),
    "deep enough to end a parser": (nested(200_000), "$: it is not JSON: "),
    "a key of the engine": (b'{"goal": "x", "_meta": 1}', "$._meta: the engine sets this key; leave it out"),
    "another request id": (b'{"goal": "x", "request_id": "REQ-1"}', "$.request_id: the engine sets this key"),
    "another request": (b'{"goal": "x", "original_request": "y"}', "$.original_request: the engine sets"),
    "a wrong type": (b'{"goal": 1}', '$.goal: 1 is not of type "string"'),
}


@pytest.mark.parametrize(("content", "problem"), INVALID.values(), ids=INVALID)
def test_invalid_artifact_is_rejected_and_kept(tmp_path: Path, content: bytes, problem: str) -> None:
    assert not played(tmp_path, left(content), nodes=(planning(heal=0),)).completed
    assert failure(tmp_path).kind.value == "artifact_invalid"
    assert problem in failure(tmp_path).message
    assert (run_dir(tmp_path) / REJECTED).read_bytes() == content


def test_artifact_as_deep_as_possible_is_accepted_also_with_a_byte_order_mark(tmp_path: Path) -> None:
    agent = by_stage(plan=left(b"\xef\xbb\xbf" + nested(MAX_ARTIFACT_DEPTH)))
    plan = pipeline(node(artifact={"type": "object"}, runs=1), LATER)
    assert run(engine(tmp_path, agent).run(plan, session="s")).completed


def a_link(path: Path) -> None:
    path.with_name("elsewhere").write_text(json.dumps(PLAN))
    path.symlink_to("elsewhere")


def a_large_file(path: Path) -> None:
    path.touch()
    os.truncate(path, MAX_ARTIFACT_BYTES + 1)


IN_ITS_PLACE: dict[str, Callable[[Path], None]] = {
    "a link": a_link,
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a file that is too large": a_large_file,
}


@pytest.mark.parametrize("put", IN_ITS_PLACE.values(), ids=IN_ITS_PLACE)
def test_what_is_not_a_file_of_bounded_size_is_healed_as_a_wrong_artifact_is(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    def act(request: ExecuteRequest) -> ExecuteResult:
        put(Path(request.artifact_path))
        return says("planned")(request)

    assert played(tmp_path, act, says("planned", artifact=PLAN)).completed
    assert failure(tmp_path).kind.value == "artifact_invalid"
    assert "the agent must write a regular file of at most 16 MB" in failure(tmp_path).message
    assert str(tmp_path) not in failure(tmp_path).message
    assert failure(tmp_path).message.endswith(f"; it is kept in {REJECTED}")
    assert accepted(tmp_path).value == PLAN


@pytest.mark.parametrize("put", IN_ITS_PLACE.values(), ids=IN_ITS_PLACE)
def test_what_is_not_a_file_of_bounded_size_is_archived_if_no_attempt_follows(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    def act(request: ExecuteRequest) -> ExecuteResult:
        put(Path(request.artifact_path))
        return says("planned")(request)

    assert not played(tmp_path, act, nodes=(planning(heal=0),)).completed
    assert os.path.lexists(run_dir(tmp_path) / REJECTED)
    assert not os.path.lexists(iteration_dir(tmp_path) / "artifact.json")


def test_file_that_is_too_large_to_be_searched_for_secrets_is_removed(tmp_path: Path) -> None:
    secret = "s3cret-value-42"

    def act(request: ExecuteRequest) -> ExecuteResult:
        Path(request.artifact_path).write_text(secret)
        os.truncate(request.artifact_path, MAX_ARTIFACT_BYTES + 1)
        return says("planned")(request)

    made = engine(tmp_path, ScriptedProvider([act]), environ={**ENVIRON, "DEPLOY_TOKEN": secret})
    assert not run(made.run(pipeline(planning(heal=0)), session="s")).completed
    assert failure(tmp_path).kind.value == "artifact_invalid"
    assert "$: the file had more than 16 MB; " in failure(tmp_path).message
    assert (run_dir(tmp_path) / REJECTED).read_bytes() == REMOVED
    assert not os.path.lexists(iteration_dir(tmp_path) / "artifact.json")


def test_missing_artifact_is_healed_and_the_message_says_where_it_belongs(tmp_path: Path) -> None:
    assert played(tmp_path, says("planned"), says("planned", artifact=PLAN)).completed
    place = "stage-00-plan/iterations/001/artifact.json"
    assert failure(tmp_path).message.endswith(f"it must write a JSON object to {place}")


@pytest.mark.parametrize("decision", ["ask", "error"])
def test_iteration_that_asks_or_reports_an_error_owes_no_artifact(tmp_path: Path, decision: str) -> None:
    asked = [{"id": "db", "question": "Which?"}]
    act = says("planned", decision, reason="no idea", questions=asked if decision == "ask" else [])
    assert not played(tmp_path, act).completed
    assert [event.fact.kind.value for event in events(tmp_path, "error")] == (
        [] if decision == "ask" else ["agent_error"]
    )


def test_agent_may_repeat_what_the_engine_sets(tmp_path: Path) -> None:
    def act(request: ExecuteRequest) -> ExecuteResult:
        given = json.loads(Path(request.context_path).read_bytes())["artifact"]
        return says("done", artifact={**PLAN, "request_id": given["request_id"]})(request)

    agent = by_stage(plan=says("planned", artifact=PLAN), again=act)
    plan = pipeline(planning(), node("again", artifact=SCHEMA, runs=1))
    assert run(engine(tmp_path, agent).run(plan, session="s")).completed


# -- what was accepted doesn't change

LARGE = {"goal": "x" * INLINE_BYTES}


def test_copy_of_an_artifact_in_the_log_is_not_read_again(tmp_path: Path) -> None:
    def act(request: ExecuteRequest) -> ExecuteResult:
        (iteration_dir(tmp_path) / "artifact.json").write_text('{"goal": "forged"}')
        return says("done")(request)

    later = [node(id, prompt="do", runs=1) for id in ("forger", "later")]
    agent = by_stage(plan=says("planned", artifact=PLAN), forger=act)
    assert run(engine(tmp_path, agent).run(pipeline(planning(), *later), session="s")).completed
    context = json.loads((iteration_dir(tmp_path, 1, "stage-02-later") / "context.json").read_bytes())
    assert context["artifact"]["goal"] == "slugs"


def test_large_artifact_is_a_file_which_the_log_names(tmp_path: Path) -> None:
    agent = by_stage(plan=says("planned", artifact=LARGE))
    assert run(engine(tmp_path, agent).run(pipeline(planning(), LATER), session="s")).completed
    content = (iteration_dir(tmp_path) / "artifact.json").read_bytes()
    artifact = accepted(tmp_path)
    assert (artifact.value, artifact.size) == (None, len(content))
    assert artifact.sha256 == sha256(content).hexdigest()
    here = iteration_dir(tmp_path, 1, "stage-01-later")
    context = json.loads((here / "context.json").read_bytes())
    assert context["artifact"] == str(here / "input.json"), "a path, as it is large"
    assert json.loads((here / "input.json").read_bytes())["goal"] == LARGE["goal"]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def edited(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def lengthened(path: Path) -> None:
    os.truncate(path, 2**30)


def linked(path: Path) -> None:
    path.rename(path.with_name("kept"))
    path.symlink_to("kept")


def replaced_by_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: list[Callable[[Path], None]] = [
    emptied,
    edited,
    lengthened,
    Path.unlink,
    linked,
    replaced_by_a_fifo,
    replaced_by_a_folder,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_large_artifact_that_was_changed_fails_the_next_stage_before_its_agent_starts(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    def act(request: ExecuteRequest) -> ExecuteResult:
        change(iteration_dir(tmp_path) / "artifact.json")
        return says("done")(request)

    agent = by_stage(plan=says("planned", artifact=LARGE), forger=act)
    nodes = (planning(), node("forger", prompt="do", runs=1), LATER)
    content = (json.dumps(LARGE, separators=(",", ":"))).encode()
    result = run(engine(tmp_path, agent).run(pipeline(*nodes), session="s"))
    assert [call.stage for call in agent.calls] == ["plan", "forger"]
    message = failure(tmp_path).message
    assert failure(tmp_path).kind.value == "artifact_unusable"
    assert sha256(content).hexdigest() in message, "that of the accepted one"
    assert str(iteration_dir(tmp_path) / "artifact.json") in message
    if change in (emptied, edited):
        now = (iteration_dir(tmp_path) / "artifact.json").read_bytes()
        assert f"it has {sha256(now).hexdigest()} now" in message
    assert message in result.reason or result.reason in message


def test_restored_artifact_is_used_when_the_run_is_resumed(tmp_path: Path) -> None:
    place = iteration_dir(tmp_path) / "artifact.json"

    def act(request: ExecuteRequest) -> ExecuteResult:
        place.rename(place.with_name("kept"))
        return says("done")(request)

    agent = by_stage(plan=says("planned", artifact=LARGE), forger=act)
    made = engine(tmp_path, agent)
    nodes = (planning(), node("forger", prompt="do", runs=1), LATER)
    assert not run(made.run(pipeline(*nodes), session="s")).completed
    place.with_name("kept").rename(place)
    assert run(made.resume("s")).completed


def test_open_file_of_an_agent_is_not_the_accepted_artifact(tmp_path: Path) -> None:
    """It may write to it later."""
    opened = []

    def act(request: ExecuteRequest) -> ExecuteResult:
        opened.append(open(request.artifact_path, "w+b"))  # noqa: SIM115 - it stays open, on purpose.
        opened[0].write(json.dumps(LARGE).encode())
        opened[0].flush()
        return says("planned")(request)

    def late(request: ExecuteRequest) -> ExecuteResult:
        opened[0].seek(0)
        opened[0].write(b'{"goal": "forged')
        opened[0].close()
        return says("done")(request)

    agent = by_stage(plan=act, forger=late)
    nodes = (planning(), node("forger", prompt="do", runs=1), LATER)
    assert run(engine(tmp_path, agent).run(pipeline(*nodes), session="s")).completed


def test_secrets_in_artifacts_are_redacted(tmp_path: Path) -> None:
    environ = {"DEPLOY_TOKEN": "s3cret-value-42", "XDG_STATE_HOME": str(tmp_path / "state")}
    secret = {"goal": "s3cret-value-42"}
    for number, act in enumerate((says("p", artifact=secret), returns("p", artifact=secret))):
        project = tmp_path / str(number)
        project.mkdir()
        made = engine(project, by_stage(plan=act), environ=environ)
        assert run(made.run(pipeline(planning(), LATER), session="s")).completed
        for path in run_dir(project).rglob("*"):
            assert not path.is_file() or b"s3cret-value-42" not in path.read_bytes(), path
        assert accepted(project).value["goal"] != PLAN["goal"]


def a_full_folder(path: Path) -> None:
    path.mkdir()
    (path / "x").touch()


PLANTED: dict[str, Callable[[Path], None]] = {
    **{name: put for name, put in IN_ITS_PLACE.items() if put is not a_large_file},
    "a folder that isn't empty": a_full_folder,
}


@pytest.mark.parametrize("put", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("place", ["attempt-1/artifact.json", "attempt-1"])
def test_what_an_agent_puts_in_the_place_of_the_rejected_file_does_not_stop_the_engine(
    tmp_path: Path, put: Callable[[Path], None], place: str
) -> None:
    def act(request: ExecuteRequest) -> ExecuteResult:
        there = Path(request.artifact_path).parent / place
        there.parent.mkdir(exist_ok=True)
        put(there)
        return WRONG(request)

    assert played(tmp_path, act, says("planned", artifact=PLAN)).completed
    assert failure(tmp_path).kind.value == "artifact_invalid"
    assert accepted(tmp_path).value == PLAN


def test_verdict_that_the_artifact_states_decides_and_is_in_the_result_file(tmp_path: Path) -> None:
    rule = {"schema": {"required": ["verdict"]}, "result": ["verdict", "reason"]}
    stage = node(artifact=rule, runs=1, verdicts=["unsure"], on={"unsure": "ask"})
    says_pass = returns("fine", verdict="pass", artifact={"verdict": "unsure", "reason": "no tests"})
    assert not played(tmp_path, says_pass, nodes=(stage,)).completed
    written = json.loads((iteration_dir(tmp_path) / "result.json").read_bytes())
    assert (written["verdict"], written["reason"]) == ("unsure", "no tests")
    (verdict,) = events(tmp_path, "stage_verdict")
    assert (verdict.fact.verdict, verdict.fact.reason) == ("unsure", "no tests")
