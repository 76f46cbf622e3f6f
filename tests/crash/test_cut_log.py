"""The log cut at every byte and recovered: the run always reaches the same end.

`AGENTFORGE_CUT_EVERYWHERE=1` the run is recovered to its end at every byte, and not only once for each
remaining line.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.crash.oracle import FAILURES, JUDGMENTS, LIMIT, SUCCESSES, Block, Node, Stage, expected
from tests.crash.scripted_check import check
from tests.crash.scripted_run import ScriptedRun
from tests.scratch import memory

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.model.errors import RunExists

SOAKS = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SAMPLE = 7
"""After this number of lines, all kinds of recoveries were tried once."""
EVERYWHERE = os.environ.get("AGENTFORGE_CUT_EVERYWHERE") == "1"

_acts = st.lists(st.sampled_from((*SUCCESSES, *FAILURES, LIMIT)), min_size=1, max_size=3).map(tuple)
_stages = st.lists(
    st.tuples(st.lists(_acts, min_size=1, max_size=4).map(tuple), st.integers(1, 3)), min_size=1, max_size=3
).map(lambda made: tuple(Stage("abc"[n], acts, most) for n, (acts, most) in enumerate(made)))


@st.composite
def _judged(draw: st.DrawFn, name: str, runs: int) -> Stage:
    """A stage that may have a judge."""
    judge = draw(st.none() | st.lists(st.sampled_from(JUDGMENTS), max_size=runs).map(tuple))
    acts = draw(st.lists(_acts, min_size=runs, max_size=runs).map(tuple))
    return Stage(name, acts, draw(st.integers(1, 3)), judge, draw(st.integers(1, 2)), draw(st.integers(1, 2)))


@st.composite
def _blocks(draw: st.DrawFn, name: str) -> Block:
    """All providers have the same stages, each its own way through them."""
    shapes = draw(
        st.lists(st.integers(1, 2).flatmap(lambda runs: _judged("x", runs)), min_size=1, max_size=2)
    )
    branches = []
    for provider in draw(st.sampled_from([("p", "q"), ("p", "q", "r")])):
        stages = []
        for number, shape in enumerate(shapes):
            runs = len(shape.acts)
            acts = draw(st.lists(_acts, min_size=runs, max_size=runs).map(tuple))
            judge = None
            if shape.judge is not None:
                judge = draw(st.lists(st.sampled_from(JUDGMENTS), max_size=runs).map(tuple))
            stages.append(replace(shape, name="xy"[number], acts=acts, judge=judge))
        branches.append((provider, tuple(stages)))
    return Block(name, tuple(branches))


_nodes = st.tuples(_blocks("d"), st.integers(1, 4).flatmap(lambda runs: _judged("e", runs)))

# One of everything, so that no run of this test does without.
EVERYTHING = (
    Stage("a", (("crash", "limit", "ok"), ("missing", "limit", "timeout", "status")), 3),
    Stage("b", (("ok",), ("stop",), ("ok",))),
    Stage("c", (("ok",), ("timeout", "invalid")), 3),
)
FOUR = (("ok",),) * 4
EVERYTHING_JUDGED = (
    Stage("a", FOUR, judge=("flaky", "go", "down", "stop")),
    Stage("b", (*FOUR, ("ok",)), judge=("junk", "down", "junk"), judged_from=2),
    Stage("c", FOUR, judge=("stop", "stop", "junk", "stop"), consensus=3),
)
EVERYTHING_AT_ONCE = (
    Block(
        "d",
        (
            ("p", (Stage("x", (("crash", "ok"), ("ok",))), Stage("y", (("ok",), ("ok",)), judge=("flaky",)))),
            (
                "q",
                (Stage("x", (("stop",), ("ok",))), Stage("y", (("ok",), ("status",)), judge=("junk", "go"))),
            ),
        ),
    ),
    Stage("e", (("ok",),)),
)
ONE_BRANCH_FAILS = (
    Stage("a", (("ok",),)),
    Block("d", (("p", (Stage("x", (("ok",), ("ok",))),)), ("q", (Stage("x", (("ok",), ("invalid",))),)))),
    Stage("e", (("ok",),)),
)


# Each example plays hundreds of runs: `make test` has those that are written down here.
rare = settings(
    max_examples=max(1, settings().max_examples // 50),
    phases=tuple(Phase) if SOAKS else (Phase.explicit,),
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder where waiting for the disk costs nothing, if there is one."""
    folder = tempfile.mkdtemp(dir=memory())
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


@rare
@example(EVERYTHING)
@given(_stages)
def test_log_cut_at_every_byte_and_resumed_gives_the_same_final_state_and_files(
    stages: tuple[Stage, ...],
) -> None:
    cut_everywhere(stages, lambda whole: range(len(whole) + 1) if SOAKS else every_byte_of_a_few(whole))


@rare
@example(EVERYTHING_AT_ONCE)
@example(EVERYTHING_JUDGED)
@example(ONE_BRANCH_FAILS)
@given(_nodes)
def test_log_of_parallel_blocks_and_judgments_cut_at_every_byte_reaches_the_same_end(
    nodes: tuple[Node, ...],
) -> None:
    cut_everywhere(nodes, lambda whole: range(len(whole) + 1) if EVERYWHERE else around_line_ends(whole))


def every_byte_of_a_few(whole: bytes) -> list[int]:
    """Every length within the first line and one of each forty others, and those around the ends of all."""
    lengths, start = set(around_line_ends(whole)), 0
    for number, line in enumerate(whole.splitlines(keepends=True)):
        if number % 40 == 0:
            lengths.update(range(start, start + len(line)))
        start += len(line)
    return sorted(lengths)


def around_line_ends(whole: bytes) -> list[int]:
    """Lengths that leave a line just begun, about to end, or somewhere in between. Whether a line is torn
    doesn't depend on what it says, and every byte was tried above."""
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    near = {end + by for end in (0, *ends) for by in ((-2, -1, 0, 1, 2, 40) if SOAKS else (-1, 0, 1, 40))}
    return sorted(length for length in near if 0 <= length <= len(whole))


def cut_everywhere(nodes: tuple[Node, ...], lengths: Callable[[bytes], Iterable[int]]) -> None:
    with scratch() as folder:
        run = ScriptedRun(folder / "project", nodes)
        run.project.mkdir()
        run.run()
        check(run, expected(nodes))
        whole, files = run.log.read_bytes(), folder / "files"
        shutil.copytree(run.run_dir, files)
        taken_up: set[tuple[int, bool]] = set()
        for length in lengths(whole):
            lines = open_cut_log(folder / "cut", whole[:length], whole)
            torn = whole[:length].count(b"\n") < lines or not whole[:length].endswith(b"\n")
            if EVERYWHERE or (lines, torn) not in taken_up:
                taken_up.add((lines, torn))
                # Torn or not, with the files of the whole run or with none: one of these after some lines.
                if EVERYWHERE or SOAKS or (lines % SAMPLE) == (0 if torn else 2):
                    recover_cut_log(run, whole[:length], lines, files)
                if EVERYWHERE or SOAKS or (lines % SAMPLE) == (4 if torn else 5):
                    recover_cut_log(run, whole[:length], lines, None)


@pytest.mark.parametrize(
    "nodes", [EVERYTHING, EVERYTHING_JUDGED, EVERYTHING_AT_ONCE], ids=["stages", "judged", "at once"]
)
def test_engine_that_dies_twice_in_one_run_reaches_the_same_end(nodes: tuple[Node, ...]) -> None:
    with scratch() as folder:
        run = ScriptedRun(folder / "project", nodes)
        run.project.mkdir()
        run.run()
        whole, first = run.log.read_bytes().splitlines(keepends=True), folder / "first"
        shutil.copytree(run.run_dir, first)
        chosen = random.Random(7)
        for lines in range(1, len(whole) - 1, 2 if SOAKS else SAMPLE):
            files = folder / f"files-{lines}"
            run.cut(b"".join(whole[:lines]), first)
            run.recover()
            shutil.copytree(run.run_dir, files)
            longer = run.log.read_bytes().splitlines(keepends=True)
            again = chosen.randint(lines + 1, len(longer))
            recover_cut_log(run, b"".join(longer[:again]), again, files)
            shutil.rmtree(files)


def open_cut_log(folder: Path, content: bytes, whole: bytes) -> int:
    """Open the log, which repairs it; how many lines are left."""
    folder.mkdir(exist_ok=True)
    path = folder / "events.jsonl"
    path.write_bytes(content)
    with JsonlLog(path, mounts=tuple).open() as writer:
        assert writer.damage == ()
        assert len(list(writer.replay())) == writer.head.seq
        lines, repaired = writer.head.seq, writer.repaired
    left = path.read_bytes()
    assert left == b"".join(whole.splitlines(keepends=True)[:lines])
    if repaired is not None:
        kept = Path(repaired.kept)
        assert left + kept.read_bytes() == content
        kept.unlink()
    else:
        # Nothing was cut off; at most the newline of a whole last line was put back.
        assert left in (content, content + b"\n")
    return lines


def recover_cut_log(run: ScriptedRun, content: bytes, lines: int, files: Path | None) -> None:
    """Put the run back to the cut log, let an engine recover it, and compare it with the oracle."""
    run.cut(content, files)
    end = expected(run.nodes)
    known = [event for event in run.events() if "hash" in event] if content.endswith(b"\n") else None
    if lines == 0:
        run.run()
    elif b"\n" not in content:
        # Only a writer accepts a first line without its newline as an event.
        with pytest.raises(RunExists, match="is interrupted and can be resumed"):
            run.run()
        run.recover()
    else:
        run.recover()
    before = run.events()[:lines]
    done_before = {run.spot_of(event) for event in before if event["type"] == "iteration_complete"}
    assert not done_before & set(run.worked_on), "a completed iteration was worked on again"
    heard_before = {
        run.spot_of(event)
        for event in before
        if event["type"] == "judge_complete" and event["data"]["status"] == "success"
    }
    assert not heard_before & set(run.judged_on), "an iteration that was judged was judged again"
    if known is not None:
        assert before == known
    if (run.run_dir / "state.json").exists():
        check(run, end, kept=None if files is not None else lines)
    else:
        # The whole log without other files: the run is over, and there is no work left.
        assert run.events()[-1]["type"] in ("session_complete", "session_failed")
