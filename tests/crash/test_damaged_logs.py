"""Logs and files after accidents: resumed where that is possible, refused clearly where it isn't."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.oracle import Block, Stage, expected
from tests.crash.scripted_check import check
from tests.crash.scripted_run import ENVIRON, SESSION, ScriptedRun
from tests.engine.plans import NOON, plan_of, stage, started
from tests.sampling import one_in

from agentforge.model import codec
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import AgentForgeError, LogCorrupt, RunExists, UnknownRun
from agentforge.model.event import Event
from agentforge.model.plan import ProviderChoice
from agentforge.model.result import Decision, Result
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider, assert_iteration_count, assert_state_status
from agentforge.testing.mock_sessions import ObservedSession
from agentforge.testing.scripted_provider import Act, says, writes_nothing

STAGES = (Stage("a", (("ok",), ("crash", "ok"), ("ok",))), Stage("b", (("ok",),)))
LINES = 22


@pytest.fixture
def run(tmp_path: Path) -> ScriptedRun:
    """A finished run."""
    run = ScriptedRun(tmp_path / "project", STAGES)
    run.project.mkdir()
    run.run()
    check(run, expected(STAGES))
    return run


def engine_for(project: Path, script: list[Act] | None = None) -> SyncEngine:
    provider = ScriptedProvider(script or [says("more")])
    engine = SyncEngine(project, providers={"scripted": provider}, environ=ENVIRON)
    if SESSION in engine.runs.sessions():
        # Without a state folder nothing proves that it was started here, and no head is kept of its log.
        engine.trust(SESSION)
    return engine


def lines_of(run: ScriptedRun) -> list[bytes]:
    return run.log.read_bytes().splitlines(keepends=True)


def test_empty_log_is_a_run_that_never_started(run: ScriptedRun) -> None:
    run.cut(b"", None)
    with engine_for(run.project) as engine:
        with pytest.raises(UnknownRun, match="without events") as caught:
            engine.recover(SESSION)
        assert "start it again" in caught.value.hint
        with pytest.raises(LogCorrupt, match="has no readable plan"):
            engine.resume(SESSION)
        assert [row.status for row in engine.engine.list()] == ["unknown"]
    run.run()
    check(run, expected(STAGES))


def test_log_truncated_to_half_a_first_line_is_a_run_that_never_started(run: ScriptedRun) -> None:
    run.cut(lines_of(run)[0][:200], None)
    run.run()
    check(run, expected(STAGES))
    assert len(list(run.run_dir.glob("events.jsonl.torn-*"))) == 1


@pytest.mark.parametrize(
    "garbage",
    [b"not an event\n", b"\x00" * 4096 + b"\n", b'{"seq":1}\n[]\nnull\n', b"\xff\xfe\n" * 50, b"\n\n\n"],
)
def test_garbage_is_refused_clearly_and_archived_by_force(run: ScriptedRun, garbage: bytes) -> None:
    run.cut(garbage, None)
    with engine_for(run.project) as engine:
        attempts: list[Callable[[], object]] = [
            lambda: engine.run(run.pipeline, session=SESSION),
            lambda: engine.resume(SESSION),
            lambda: engine.recover(SESSION),
            lambda: engine.engine.status(SESSION),
        ]
        for attempt in attempts:
            with pytest.raises(LogCorrupt) as caught:
                attempt()
            assert caught.value.hint
        assert run.log.read_bytes() == garbage, "what is left was touched"
        assert engine.run(run.pipeline, session=SESSION, force=True).completed
    archived = [folder for folder in run.run_dir.parent.iterdir() if folder.name.startswith(f"{SESSION}.")]
    assert [(folder / "events.jsonl").read_bytes() for folder in archived] == [garbage]


def test_garbage_without_a_newline_is_torn_and_the_run_never_started(run: ScriptedRun) -> None:
    run.cut(b"\x01\x02garbage", None)
    run.run()
    check(run, expected(STAGES))
    assert run.events()[0]["type"] == "session_start"


def test_events_file_with_corrupted_final_line_is_repaired_and_the_repair_logged(run: ScriptedRun) -> None:
    lines = lines_of(run)
    torn = lines[-3][:40]
    run.cut(b"".join(lines[:-3]) + torn, None)
    run.recover()
    check(run, expected(STAGES), kept=len(lines) - 3)
    repaired = next(event["data"] for event in run.events() if event["type"] == "log_repaired")
    assert repaired["bytes"] == 40
    assert Path(repaired["kept"]).read_bytes() == torn


def test_events_file_with_mid_file_corruption_is_skipped_by_readers_and_refused_by_the_driver(
    run: ScriptedRun,
) -> None:
    lines = lines_of(run)
    damaged = 9
    lines[damaged - 1] = lines[damaged - 1].replace(b"iteration", b"iterution", 1)
    run.cut(b"".join(lines[:-2]), None)
    with engine_for(run.project) as engine:
        info = engine.engine.inspect(SESSION)
        assert [damage.line for damage in info.damage] == [damaged]
        assert info.status == "interrupted"
        assert len(list(engine.engine.events(SESSION))) == len(lines) - 3
        for attempt in (lambda: engine.recover(SESSION), lambda: engine.resume(SESSION)):
            with pytest.raises(LogCorrupt, match=f"line {damaged}") as caught:
                attempt()
            assert "--accept-damage" in caught.value.hint
        assert run.log.read_bytes() == b"".join(lines[:-2])
        result = engine.recover(SESSION, accept_damage=True)
    assert result is not None
    assert result.completed
    session = ObservedSession(run.project, SESSION)
    accepted = [event.fact for event in session.events() if isinstance(event.fact, f.DamageAccepted)]
    assert [fact.lines for fact in accepted] == [(damaged,)]


def test_damage_that_was_accepted_once_is_not_asked_about_again(run: ScriptedRun) -> None:
    lines = lines_of(run)
    lines[8] = b"ruined\n"
    run.cut(b"".join(lines[:12]), None)
    with engine_for(run.project) as engine:
        engine.recover(SESSION, accept_damage=True)
    content = lines_of(run)
    run.cut(b"".join(content[:-2]), None)
    result = run.recover()
    assert result is not None
    assert result.completed


@pytest.mark.parametrize("line", one_in(4, range(2, LINES)))
def test_run_continues_over_any_one_damaged_line_that_a_person_accepts(run: ScriptedRun, line: int) -> None:
    lines = lines_of(run)
    assert len(lines) == LINES
    lines[line - 1] = b"ruined\n"
    run.cut(b"".join(lines[:-1]), None)
    with engine_for(run.project) as engine:
        result = engine.recover(SESSION, accept_damage=True)
    assert result is not None
    assert result.completed
    completed = [
        (event["cursor"]["node_path"], event["cursor"]["iteration"])
        for event in map(json.loads, (text for text in lines_of(run) if text != b"ruined\n"))
        if event["type"] == "iteration_complete"
    ]
    assert len(completed) == len(set(completed)), "an iteration was completed twice"


BLOCK = (
    Stage("a", (("ok",),)),
    Block(
        "d",
        (
            ("p", (Stage("x", (("crash", "ok"),)), Stage("y", (("ok",), ("ok",)), judge=("go", "stop")))),
            ("q", (Stage("x", (("ok",),)), Stage("y", (("ok",), ("ok",)), judge=("flaky",)))),
        ),
    ),
    Stage("e", (("ok",),)),
)
BLOCK_LINES = 55


@pytest.mark.parametrize("line", one_in(4, range(2, BLOCK_LINES)))
def test_run_of_a_block_continues_over_any_one_damaged_line_that_a_person_accepts(
    tmp_path: Path, line: int
) -> None:
    run = ScriptedRun(tmp_path / "project", BLOCK)
    run.project.mkdir()
    run.run()
    lines = lines_of(run)
    assert len(lines) == BLOCK_LINES
    lines[line - 1] = b"ruined\n"
    run.cut(b"".join(lines[:-1]), None)
    result = run.recover(accept_damage=True)
    assert result is not None
    assert result.completed
    completed = [run.spot_of(event) for event in run.legible() if event["type"] == "iteration_complete"]
    assert len(completed) == len(set(completed)), "an iteration was completed twice"


def test_log_that_lost_its_first_line_is_refused_even_if_damage_is_accepted(run: ScriptedRun) -> None:
    run.cut(b"".join(lines_of(run)[1:]), None)
    with engine_for(run.project) as engine:
        with pytest.raises(LogCorrupt):
            engine.resume(SESSION, accept_damage=True)
        assert not list((run.project / ".claude" / "locks").glob("*.lock*"))


def test_log_of_a_newer_version_is_refused_and_unchanged(run: ScriptedRun) -> None:
    lines = lines_of(run)[:4]
    body = lines[-1][:-1].replace(b'"type":"attempt_start"', b'"type":"teleported"')
    before = codec.hash_of(lines[-2][:-1])
    body = body[: -codec.SUFFIX_BYTES]
    newer = body + b',"hash":"%b"}\n' % codec.computed_hash(body + b" " * codec.SUFFIX_BYTES, before).encode()
    run.cut(b"".join(lines[:-1]) + newer, None)
    content = run.log.read_bytes()
    with engine_for(run.project) as engine, pytest.raises(AgentForgeError, match="teleported"):
        engine.resume(SESSION)
    assert run.log.read_bytes() == content
    assert not list((run.project / ".claude" / "locks").glob("*.lock*"))


# -- logs of long runs


def write_long_log(path: Path, iterations: int, runs: int) -> int:
    """A log of that many completed iterations, chained as the engine does; the number of events."""
    node = stage("work", runs=runs, prompt="go on", provider=ProviderChoice("scripted", "opus"))
    plan = plan_of(node)
    facts: list[tuple[f.AnyFact, int]] = [
        (started(plan), 0),
        (f.NodeStarted("work", "0", type="work", provider="scripted", model="opus", runs=runs), 0),
    ]
    begin = f.IterationStarted("work", "work", "scripted", "opus", "0" * 64)
    attempt = f.AttemptStarted(1, 2, "scripted", "opus")
    complete = f.IterationCompleted(
        "work", 1, Decision.CONTINUE, "", "result.json", Result(summary="done"), 5
    )
    for number in range(1, iterations + 1):
        facts += [(begin, number), (attempt, number), (complete, number)]
    previous, lines = codec.GENESIS, []
    for seq, (fact, number) in enumerate(facts, 1):
        event = Event(seq, NOON, SESSION, "0af7651916cd43dd", fact, Cursor("0", 1, number))
        line, previous = codec.encode(event, previous)
        lines.append(line + b"\n")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(lines))
    return len(facts)


@pytest.mark.parametrize("events", [10_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_huge_log_is_resumed(tmp_path: Path, events: int) -> None:
    """That its time grows linearly is the benchmark's matter."""
    iterations = (events - 2) // 3
    run_dir = tmp_path / ".claude" / "pipeline-runs" / SESSION
    written = write_long_log(run_dir / "events.jsonl", iterations, iterations + 1)
    with engine_for(tmp_path, [says("the last one")]) as engine:
        result = engine.recover(SESSION)
    assert result is not None
    assert result.completed
    assert result.iterations == iterations + 1
    state = json.loads((run_dir / "state.json").read_bytes())
    assert len(state["history"]) == 1000
    assert state["history_omitted"] == iterations + 1 - 1000
    assert state["event_offset"] > written
    context = json.loads((run_dir / f"stage-00-work/iterations/{iterations + 1}/context.json").read_bytes())
    assert context["iteration"] == iterations + 1


# -- state.json is a view


@pytest.mark.parametrize(
    "accident",
    [
        lambda state: state.unlink(),
        lambda state: state.write_bytes(b""),
        lambda state: state.write_bytes(b"{torn"),
        lambda state: state.write_bytes(b"\x00\xff" * 100),
        lambda state: state.write_text("[]"),
        lambda state: state.write_text(json.dumps({"status": "completed", "iteration": 99})),
        lambda state: state.write_text(
            state.read_text().replace('"running"', '"aborted"').replace('"iterations"', '"x"')
        ),
    ],
    ids=["missing", "empty", "torn", "binary", "a list", "of another tool", "of another version"],
)
def test_missing_stale_or_corrupt_state_file_changes_nothing(
    run: ScriptedRun, tmp_path: Path, accident: Callable[[Path], object]
) -> None:
    files = tmp_path / "files"
    run.run_dir.rename(files)
    run.run_dir.mkdir()
    run.cut(b"".join((files / "events.jsonl").read_bytes().splitlines(keepends=True)[:12]), files)
    accident(run.run_dir / "state.json")
    with engine_for(run.project) as engine:
        assert engine.engine.status(SESSION).status == "interrupted"
    run.recover()
    check(run, expected(STAGES))


def test_session_with_events_but_no_state_file_is_reconstructed(run: ScriptedRun) -> None:
    (run.run_dir / "state.json").unlink()
    with engine_for(run.project) as engine:
        info = engine.engine.status(SESSION)
    assert info.status == "completed"
    assert [(done.name, done.iterations) for done in info.state.stages] == [("a", 3), ("b", 1)]


def test_stale_state_file_is_not_believed_and_events_are_the_truth(run: ScriptedRun) -> None:
    """A state.json of an earlier moment is brought up to date from the log; one of a future that the log
    doesn't hold is ignored."""
    final = (run.run_dir / "state.json").read_bytes()
    whole = lines_of(run)
    run.cut(b"".join(whole[:8]), None)
    (run.run_dir / "state.json").write_bytes(final)
    with engine_for(run.project) as engine:
        assert engine.engine.status(SESSION).state.seq == 8
        assert engine.engine.status(SESSION).status == "interrupted"
    run.recover()
    early = json.loads((run.run_dir / "state.json").read_bytes())
    with engine_for(run.project) as engine:
        assert engine.engine.status(SESSION).state == engine.engine.inspect(SESSION).state
    assert early["status"] == "completed"


# -- leftovers of an earlier attempt


def test_stale_result_of_an_earlier_attempt_is_moved_away_and_never_believed(tmp_path: Path) -> None:
    """The first attempt writes a result and crashes; the second writes nothing, which is not a success."""

    def result_then_crash(request: ExecuteRequest) -> ExecuteResult:
        says("of the first attempt")(request)
        Path(request.status_path).write_text('{"decision": "stop"}')
        return ExecuteResult(output="first", exit_code=7)

    pipeline = {
        "nodes": [
            {"id": "a", "prompt": "x", "provider": "scripted", "retry": {"initial_delay": 0}, "delay": 0}
        ]
    }
    with engine_for(tmp_path, [result_then_crash, writes_nothing("second")]) as engine:
        result = engine.run(pipeline, session=SESSION)
    assert (result.status, result.error_type) == ("failed", "result_missing")
    session = ObservedSession(tmp_path, SESSION)
    assert_state_status(session, "failed")
    assert_iteration_count(session, 0)
    here = session.run_dir / "stage-00-a" / "iterations" / "001"
    assert not (here / "result.json").exists()
    assert (here / "output.md").read_text() == "second\n"
    archived = here / "attempt-1"
    assert json.loads((archived / "result.json").read_text())["summary"] == "of the first attempt"
    assert (archived / "output.md").read_text() == "first\n"
    assert (archived / "status.json").exists()
    assert json.loads((archived / "error.json").read_text())["type"] == "provider_crashed"


def test_session_name_in_use_is_refused_with_the_next_step(run: ScriptedRun) -> None:
    with pytest.raises(RunExists, match="already completed") as caught:
        run.run()
    assert "--force" in caught.value.hint
