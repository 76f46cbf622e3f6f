"""Log lines of the shell engine become events, whatever they contain."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.engine.evolve.run import evolve
from agentforge.legacy.upcaster import NO_SUMMARY, Upcaster, is_event, is_shell_log
from agentforge.model import facts as f
from agentforge.model.codec import DamagedLine
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.result import Decision
from agentforge.model.state import RunState
from agentforge.model.status import NodeStatus, RunStatus


def line(happened: str, cursor: Any = None, /, **data: Any) -> bytes:
    told = {"ts": "2026-01-10T10:00:00Z", "type": happened, "session": "s", "cursor": cursor, "data": data}
    return json.dumps(told, separators=(",", ":")).encode()


def at(path: str, iteration: int = 0, provider: str | None = None) -> dict[str, Any]:
    place = {"node_path": path, "node_run": iteration, "iteration": iteration}
    return place | ({"provider": provider} if provider else {})


def upcast(*lines: bytes) -> list[Event]:
    upcaster = Upcaster()
    return [event for number, one in enumerate(lines, 1) for event in upcaster.take(one, number)]


def fold(events: list[Event]) -> RunState:
    state: RunState | None = None
    for event in events:
        state = evolve(state, event)
    assert state is not None
    return state


LOOP = (
    line("session_start", at("0"), mode="loop", stage="work", stage_name="Work"),
    line("node_start", at("0"), name="Work", type="work", provider="claude", model="opus"),
)
BLOCK = (
    line("session_start", at("0"), mode="pipeline", pipeline="p", pipeline_file="pipe.yaml"),
    line(
        "node_start", at("0"), name="both", kind="parallel", providers=["claude", "codex"], stages=["a", "b"]
    ),
    line("parallel_provider_start", at("0", 0, "claude"), provider="claude", stages=["a", "b"]),
    line("iteration_start", at("0", 1, "claude"), stage="a", ref="work", provider="claude", stage_index=0),
    line("worker_complete", at("0", 1, "claude"), result_file="/r", exit_code=0),
    line("iteration_complete", at("0", 1, "claude"), summary="ok", signals={"plateau_suspected": True}),
    line("iteration_start", at("0", 1, "claude"), stage="b", ref="work", provider="claude", stage_index=1),
)


def test_lines_are_numbered_by_their_place_and_belong_to_no_run_of_ours() -> None:
    events = upcast(*LOOP)
    assert [(event.seq, event.trace_id, event.fact.TYPE) for event in events] == [
        (1, "", "session_start"),
        (2, "", "node_start"),
    ]
    assert fold(events).run_id == ""


def test_result_and_output_are_at_the_recorded_paths() -> None:
    file = "/p/iterations/001/result.json"
    fact = upcast(*LOOP, line("iteration_complete", at("0", 1), result_file=file, decision="stop"))[-1].fact
    assert isinstance(fact, f.IterationCompleted)
    assert (fact.output, fact.decision) == ("/p/iterations/001/output.md", Decision.STOP)
    assert (fact.result.summary, fact.result.signals.plateau_suspected) == (NO_SUMMARY, True)


def test_stages_inside_a_block_are_distinguished() -> None:
    events = upcast(*BLOCK)
    paths = [event.cursor.node_path for event in events if event.cursor and event.cursor.iteration == 1]
    assert paths == ["0.0", "0.0", "0.0", "0.0", "0.1"]
    branch = fold(events).stage("claude")
    assert (branch and branch.position, branch and branch.completed) == (1, 0)


def test_completed_and_failed_provider() -> None:
    state = fold(
        upcast(
            *BLOCK,
            line("iteration_complete", at("0", 1, "claude"), summary="ok"),
            line("parallel_provider_complete", at("0", 0, "claude"), provider="claude", status="complete"),
            line(
                "error", at("0", 1, "codex"), message="Provider codex exited with 5", exit_code=5, stage="a"
            ),
            line("error", at("0"), message="Parallel block 'both' failed", stage="both"),
        )
    )
    assert state.block is not None
    assert [branch.status for branch in state.block.branches] == [NodeStatus.COMPLETED, NodeStatus.FAILED]
    assert [record.name for record in state.block.branches[0].stages] == ["a", "b"]
    assert state.failure is not None
    assert state.failure.kind is FailureKind.PARALLEL_BLOCK_FAILED
    assert state.status is RunStatus.FAILED


def test_event_after_an_error_is_a_resume_and_after_completion_a_new_start() -> None:
    failed = (*LOOP, line("error", at("0"), message="zero iterations", stage="work"))
    again = line("iteration_start", at("0", 1), stage="work")
    assert [e.fact.TYPE for e in upcast(*failed, again)][-2:] == ["session_resumed", "iteration_start"]
    assert fold(upcast(*failed, again)).status is RunStatus.RUNNING
    done = (*LOOP, line("node_complete", at("0", 1), name="Work"), line("session_complete", None, reason="x"))
    assert fold(upcast(*done)).status is RunStatus.COMPLETED
    anew = fold(upcast(*done, LOOP[1]))
    assert (anew.status, anew.stages, anew.node is not None) == (RunStatus.RUNNING, (), True)


def test_judge_called_twice_for_an_iteration_counts_once() -> None:
    said = line("judge_complete", {"iteration": 2}, status="success", result={"stop": True, "reason": "same"})
    failed = line("judge_complete", {"iteration": 3}, status="failed", reason="invalid_json")
    asked = line("judge_start", {"iteration": 2}, provider="claude", model="haiku")
    events = upcast(*LOOP, line("iteration_complete", at("0", 2)), asked, said, said)
    state = fold(events)
    assert (state.node and state.node.stops, state.node and state.node.judged) == (1, 2)
    after = fold([*events, *(e for e in upcast(*LOOP, failed) if isinstance(e.fact, f.JudgeCompleted))])
    assert after.node is not None
    assert (after.node.stops, after.node.judge_failures) == (1, 1)


def test_log_without_its_first_line_still_starts() -> None:
    assert [e.fact.TYPE for e in upcast(LOOP[1])] == ["session_start", "node_start"]


def test_joined_line_yields_its_last_event_and_an_incomplete_one_is_damage() -> None:
    assert [e.fact.TYPE for e in upcast(LOOP[0], b'{"ts":"2026-01-10T10' + LOOP[1])][-1] == "node_start"
    with pytest.raises(DamagedLine, match="not an event of agent-pipelines"):
        upcast(LOOP[0][:30])
    assert (is_event(LOOP[0]), is_event(LOOP[0][:30])) == (True, False)
    assert (is_shell_log(LOOP[0]), is_shell_log(b'{"seq":1')) == (True, False)


KINDS = st.sampled_from(
    [
        "session_start",
        "node_start",
        "iteration_start",
        "iteration_complete",
        "worker_complete",
        "parallel_provider_start",
        "parallel_provider_complete",
        "judge_start",
        "judge_complete",
        "node_complete",
        "session_complete",
        "error",
        "other",
    ]
)
VALUES = (
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "a", "loop", "parallel", "stop"])
)
DATA = st.dictionaries(
    st.sampled_from(
        [
            "mode",
            "stage",
            "name",
            "kind",
            "providers",
            "stages",
            "decision",
            "reason",
            "summary",
            "signals",
            "status",
            "result",
            "message",
            "exit_code",
            "stage_index",
            "runs",
        ]
    ),
    VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.sampled_from(["stop", "x"]), VALUES),
)
CURSORS = st.none() | st.dictionaries(
    st.sampled_from(["node_path", "iteration", "provider"]),
    st.sampled_from(["0", "1", "x", "", "claude"]) | st.integers(0, 3),
)


@given(st.lists(st.tuples(KINDS, CURSORS, DATA), max_size=12))
def test_any_lines_of_the_shell_engine_can_be_read_and_folded(
    told: list[tuple[str, Any, dict[str, Any]]],
) -> None:
    upcaster, state = Upcaster(), None
    for number, (kind, cursor, data) in enumerate(told, 1):
        with suppress(DamagedLine):
            for event in upcaster.take(line(kind, cursor, **data), number):
                state = evolve(state, event)
    assert (state is None) == (not told)
