"""The log cut at every byte and taken up again: the run comes to the same end, whatever was cut off.

`AGENTFORGE_CUT_EXAMPLES` sets the number of generated scripts (5); with `AGENTFORGE_CUT_EVERYWHERE=1`
the run is taken up to its end at every byte, and not only once for each line that a cut leaves.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.crash.oracle import FAILURES, SUCCESSES, Stage, expected
from tests.crash.scripted_run import ScriptedRun, check

from agentforge.adapters.jsonl_log import JsonlLog
from agentforge.model.errors import RunExists

EXAMPLES = int(os.environ.get("AGENTFORGE_CUT_EXAMPLES", "5"))
EVERYWHERE = os.environ.get("AGENTFORGE_CUT_EVERYWHERE") == "1"
SHM = Path("/dev/shm")

_acts = st.lists(st.sampled_from((*SUCCESSES, *FAILURES)), min_size=1, max_size=3).map(tuple)
_stages = st.lists(
    st.tuples(st.lists(_acts, min_size=1, max_size=4).map(tuple), st.integers(1, 3)), min_size=1, max_size=3
).map(lambda made: tuple(Stage("abc"[n], acts, most) for n, (acts, most) in enumerate(made)))

# One of everything, so that no run of this test does without.
EVERYTHING = (
    Stage("a", (("crash", "ok"), ("missing", "timeout", "status")), 3),
    Stage("b", (("ok",), ("stop",), ("ok",))),
    Stage("c", (("ok",), ("timeout", "invalid")), 3),
)

generated = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder where waiting for the disk costs nothing, if there is one."""
    folder = tempfile.mkdtemp(dir=SHM if os.access(SHM, os.W_OK) else None)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


@pytest.mark.timeout(0 if EVERYWHERE or EXAMPLES > 5 else 120)
@generated
@example(EVERYTHING)
@given(_stages)
def test_log_cut_at_every_byte_and_resumed_gives_the_same_final_state_and_files(
    stages: tuple[Stage, ...],
) -> None:
    with scratch() as folder:
        run = ScriptedRun(folder / "project", stages)
        run.project.mkdir()
        run.run()
        check(run, expected(stages))
        whole, files = run.log.read_bytes(), folder / "files"
        shutil.copytree(run.run_dir, files)
        taken_up: set[tuple[int, bool]] = set()
        for length in range(len(whole) + 1):
            lines = open_cut_log(folder / "cut", whole[:length], whole)
            torn = whole[:length].count(b"\n") < lines or not whole[:length].endswith(b"\n")
            if EVERYWHERE or (lines, torn) not in taken_up:
                taken_up.add((lines, torn))
                take_up(run, whole[:length], lines, files)
                take_up(run, whole[:length], lines, None)


def test_engine_that_dies_twice_in_one_run_comes_to_the_same_end() -> None:
    with scratch() as folder:
        run = ScriptedRun(folder / "project", EVERYTHING)
        run.project.mkdir()
        run.run()
        whole, first = run.log.read_bytes().splitlines(keepends=True), folder / "first"
        shutil.copytree(run.run_dir, first)
        chosen = random.Random(7)
        for lines in range(1, len(whole) - 1, 2):
            files = folder / f"files-{lines}"
            run.cut(b"".join(whole[:lines]), first)
            run.recover()
            shutil.copytree(run.run_dir, files)
            longer = run.log.read_bytes().splitlines(keepends=True)
            again = chosen.randint(lines + 1, len(longer))
            take_up(run, b"".join(longer[:again]), again, files)
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


def take_up(run: ScriptedRun, content: bytes, lines: int, files: Path | None) -> None:
    """Put the run back to the cut log, let an engine take it up, and compare it with the oracle."""
    run.cut(content, files)
    end = expected(tuple(run.stages.values()))
    known = [event for event in run.events() if "hash" in event] if content.endswith(b"\n") else None
    if lines == 0:
        run.run()
    elif b"\n" not in content:
        # Only to a writer is a first line without its newline an event: nobody can say yet who wrote it.
        with pytest.raises(RunExists, match="is interrupted and can be resumed"):
            run.run()
        run.recover()
    else:
        run.recover()
    done_before = {
        (list(run.stages)[int(event["cursor"]["node_path"])], event["cursor"]["iteration"])
        for event in run.events()[:lines]
        if event["type"] == "iteration_complete"
    }
    assert not done_before & set(run.worked_on), "a completed iteration was worked on again"
    if known is not None:
        assert run.events()[:lines] == known
    if (run.run_dir / "state.json").exists():
        check(run, end, None if files is not None else set(end.results) - done_before)
    else:
        # The whole log with no file beside it: the run is over, and nobody has anything to do.
        assert run.events()[-1]["type"] in ("session_complete", "session_failed")
