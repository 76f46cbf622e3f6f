"""The task queue port on beads, with a fake `bd`."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from agentforge.adapters.beads import Beads
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.task_queue import TaskQueue

BD = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> asked
case "$1" in
ready) cat ready ;;
list) echo "a warning" >&2; cat taken ;;
update) grep -q "^$2$" stuck 2>/dev/null && { echo "it is locked"; exit 1; }; exit 0 ;;
esac
"""


class Queue:
    """A `bd` whose tasks are files: `ready` as lines, `taken` as JSON, `stuck` can't be given back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        self.program(BD)
        self.ready()
        self.taken()

    def program(self, script: str) -> None:
        (self.folder / "bd").write_text(script)
        (self.folder / "bd").chmod(0o755)

    def ready(self, *lines: str) -> None:
        (self.folder / "ready").write_text("".join(f"{line}\n" for line in lines))

    def taken(self, *ids: str) -> None:
        (self.folder / "taken").write_text(json.dumps([{"id": id, "title": "x"} for id in ids]))

    def stuck(self, *ids: str) -> None:
        (self.folder / "stuck").write_text("".join(f"{id}\n" for id in ids))

    @property
    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def beads(self, **environ: str) -> TaskQueue:
        path = f"{self.folder}:{os.environ['PATH']}"
        return Beads(str(self.project), "s", {"PATH": path, **environ})


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path / "tools")


def counted(beads: TaskQueue) -> int | Failure:
    return asyncio.run(beads.count())


@pytest.mark.parametrize(
    ("lines", "count"), [((), 0), (("one",), 1), (("one", "", "  ", "two"), 2), (("x",) * 500, 500)]
)
def test_count_is_the_number_of_ready_tasks_and_can_be_repeated(
    queue: Queue, lines: tuple[str, ...], count: int
) -> None:
    queue.ready(*lines)
    beads = queue.beads()
    assert [counted(beads), counted(beads)] == [count, count]
    assert queue.asked == ["ready --label=pipeline/s"] * 2


def test_label_has_the_prefix_of_the_environment(queue: Queue) -> None:
    counted(queue.beads(BEADS_LABEL_PREFIX="loop/"))
    assert queue.asked == ["ready --label=loop/s"]


def test_unreadable_queue_is_a_failure_with_the_error_message(queue: Queue) -> None:
    queue.program("#!/bin/sh\necho 'database is locked' >&2\nexit 4\n")
    message = "`bd ready --label=pipeline/s` exited with 4: database is locked"
    assert counted(queue.beads()) == Failure(FailureKind.QUEUE_UNREADABLE, message)


def test_program_that_cannot_be_started_is_a_failure(queue: Queue) -> None:
    queue.program("no program")
    found = counted(queue.beads())
    assert isinstance(found, Failure)
    assert "Exec format error" in found.message


def test_missing_program_is_a_failure_with_install_instructions(tmp_path: Path) -> None:
    found = counted(Beads(str(tmp_path), "s", {"PATH": str(tmp_path)}))
    assert isinstance(found, Failure)
    assert "npm install -g @beads/bd" in found.message


def test_release_reopens_only_tasks_in_progress(queue: Queue) -> None:
    queue.taken("bd-1", "--all", "", "bd-2")
    asyncio.run(queue.beads().release())
    assert queue.asked == [
        "list --label=pipeline/s --status=in_progress --json",
        "update bd-1 --status=open",
        "update bd-2 --status=open",
    ]


def test_release_continues_after_a_task_that_fails(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue.taken("bd-1", "bd-2")
    queue.stuck("bd-1")
    asyncio.run(queue.beads().release())
    assert queue.asked[-1] == "update bd-2 --status=open"
    assert "can't release bead bd-1: it is locked" in caplog.text


@pytest.mark.parametrize("listed", ["", "[]", "not json", '{"id": 1}'])
def test_release_without_tasks_queries_once(queue: Queue, listed: str) -> None:
    (queue.folder / "taken").write_text(listed)
    asyncio.run(queue.beads().release())
    assert len(queue.asked) == 1


def test_release_without_the_program_does_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(Beads(str(tmp_path), "s", {"PATH": str(tmp_path)}).release())
    assert (caplog.text, list(tmp_path.iterdir())) == ("", [])


def test_cancelling_ends_the_program(queue: Queue) -> None:
    queue.program('#!/bin/sh\necho $$ > "$(dirname "$0")/pid"\nexec sleep 60\n')
    note = queue.folder / "pid"

    async def main() -> None:
        going = asyncio.create_task(queue.beads().count())
        while not (note.exists() and note.read_text().strip()):  # noqa: ASYNC110 - another process's file.
            await asyncio.sleep(0.01)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    asyncio.run(main())
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
