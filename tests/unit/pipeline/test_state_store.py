"""The store of states: files that a crash, a person or an agent may have changed."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.unit.pipeline.states import ID, state

from agentforge import InvalidRequest, RunLayout, StorageFailed
from agentforge.core.pipeline import PipelineState, PipelineStateStore, PipelineStatus

BIG = {"components": [{"name": f"c{number}", "text": "x" * 100} for number in range(1000)]}
OTHER = "PL-20260102153001-ffffffff"
SAVING = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tests.unit.pipeline.states import state
from agentforge.core.pipeline import PipelineStateStore
store = PipelineStateStore(sys.argv[1])
with ThreadPoolExecutor(5) as pool:
    list(pool.map(store.save, [state(f"PL-{sys.argv[2]}-{number}") for number in range(5)]))
"""


@pytest.fixture
def store(tmp_path: Path) -> PipelineStateStore:
    return PipelineStateStore(tmp_path / ".agentforge/pipeline")


def active(store: PipelineStateStore, id: str = ID) -> Path:
    return store.active_path / f"{id}.yaml"


def completed(store: PipelineStateStore, id: str = ID) -> Path:
    return store.completed_path / f"{id}.yaml"


class TestPipelineStateStore:
    def test_save_creates_file(self, store: PipelineStateStore) -> None:
        store.save(state())
        assert yaml.safe_load(active(store).read_text())["pipeline_id"] == ID
        assert yaml.safe_load(store.index_path.read_text())[ID]["status"] == "running"

    def test_load_returns_saved_state(self, store: PipelineStateStore) -> None:
        saved = state(stage_artifacts={"intake": {"text": "two\nlines\n", "on": "1e3"}})
        store.save(saved)
        assert store.load(ID) == saved
        assert store.load(OTHER) is None

    def test_list_returns_pipelines_by_status(self, store: PipelineStateStore) -> None:
        first = datetime(2026, 1, 2, tzinfo=UTC)
        for number, status in enumerate(PipelineStatus):
            store.save(state(f"PL-{number}", status=status, created_at=first + timedelta(days=number)))
        assert [found.pipeline_id for found in store.list(PipelineStatus.PAUSED)] == ["PL-2"]
        assert [found.pipeline_id for found in store.list(limit=2)] == ["PL-6", "PL-5"]
        assert store.list(limit=0) == []
        assert store.get_active_count() == 4

    def test_completed_pipelines_move_to_completed_dir(self, store: PipelineStateStore) -> None:
        store.save(state())
        store.save(state(status=PipelineStatus.COMPLETED))
        assert (active(store).exists(), completed(store).exists()) == (False, True)
        assert store.load(ID).status is PipelineStatus.COMPLETED  # type: ignore[union-attr]
        assert (len(store.list()), store.get_active_count()) == (1, 0)
        store.save(state())
        assert (active(store).exists(), completed(store).exists()) == (True, False)


def test_a_state_is_in_one_place_even_if_a_crash_left_two(store: PipelineStateStore) -> None:
    store.save(state(status=PipelineStatus.COMPLETED))
    old = completed(store).read_bytes()
    store.save(state())
    completed(store).write_bytes(old)
    assert store.load(ID).status is PipelineStatus.RUNNING  # type: ignore[union-attr]
    assert [found.status for found in store.list()] == [PipelineStatus.RUNNING]
    assert store.delete(ID)
    assert (store.load(ID), store.list(), store.delete(ID)) == (None, [], False)


@pytest.mark.parametrize("id", ["../../victim", "PL-", "PL-a/b", "PL-a\n", "nobody", ""])
def test_other_ids_are_refused(store: PipelineStateStore, id: str) -> None:
    for call in (store.load, store.delete, lambda id: store.save(state(id))):
        with pytest.raises(InvalidRequest, match="invalid id of a pipeline"):
            call(id)


def test_a_pipeline_with_a_run_is_neither_saved_nor_deleted(
    store: PipelineStateStore, tmp_path: Path
) -> None:
    log = Path(RunLayout.of(str(tmp_path), ID).log)
    log.parent.mkdir(parents=True)
    log.touch()
    for call in (lambda: store.save(state()), lambda: store.delete(ID)):
        with pytest.raises(InvalidRequest, match="from the log of its run"):
            call()
    store.save(state(OTHER))


# -- what others did to the files


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"torn: [", b"- a list", b"pipeline_id: only", b"\xff\xfe\x00", b"[" * 100_000),
        *(b"a: !!python/tuple [1]", b"a: &b [1]\nc: *b", b"a: 9999-99-99"),
    ],
)
def test_an_unreadable_state_is_renamed(store: PipelineStateStore, content: bytes) -> None:
    store.save(state(OTHER))
    store.save(state())
    active(store).write_bytes(content)
    assert store.load(ID) is None
    assert [path.name for path in store.active_path.glob("*.unreadable")] == [f"{ID}.yaml.unreadable"]
    assert [found.pipeline_id for found in store.list()] == [OTHER]
    store.save(state())
    assert store.load(ID) is not None


def test_links_are_neither_read_nor_written(store: PipelineStateStore, tmp_path: Path) -> None:
    store.save(state())
    users = tmp_path / "users.yaml"
    active(store).rename(users)
    before = users.read_bytes()
    active(store).symlink_to(users)
    assert store.load(ID) is None
    active(store).symlink_to(users)
    store.save(state(status=PipelineStatus.PAUSED))
    store.index_path.unlink()
    store.index_path.symlink_to(users)
    assert [found.status for found in store.list()] == [PipelineStatus.PAUSED]
    assert (users.read_bytes(), store.index_path.is_symlink()) == (before, False)


def test_a_link_in_place_of_a_folder_is_refused(store: PipelineStateStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    store.base_path.mkdir(parents=True)
    store.active_path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed, match="active"):
        store.save(state())
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("damaged", [None, b"", b"torn", b"# The pipelines by id\n{", -1, -4])
def test_an_unusable_index_is_rebuilt(store: PipelineStateStore, damaged: bytes | int | None) -> None:
    store.save(state())
    store.save(state(OTHER, status=PipelineStatus.FAILED))
    whole = store.index_path.read_bytes()
    store.index_path.unlink()
    if damaged is not None:
        store.index_path.write_bytes(whole[:damaged] if isinstance(damaged, int) else damaged)
    assert {found.pipeline_id for found in store.list()} == {ID, OTHER}
    assert sorted(store.index_path.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_a_state_that_the_index_missed_is_found(store: PipelineStateStore) -> None:
    store.save(state())
    before = store.index_path.read_bytes()
    store.save(state(OTHER))
    # As a crash between the two files leaves it.
    store.index_path.write_bytes(before)
    os.utime(store.index_path, ns=(1, 1))
    assert {found.pipeline_id for found in store.list()} == {ID, OTHER}


def test_files_of_others_are_left_alone(store: PipelineStateStore) -> None:
    store.save(state())
    (store.active_path / "notes.txt").write_text("mine")
    (store.active_path / "README.yaml").write_text("mine")
    assert [found.pipeline_id for found in store.list()] == [ID]
    assert store.get_active_count() == 1


# -- artifacts


def artifact_files(store: PipelineStateStore, id: str = ID) -> list[str]:
    return sorted(path.name for path in store.base_path.glob(f"{id}.artifacts/*"))


def test_large_artifacts_have_their_own_files(store: PipelineStateStore) -> None:
    saved = state(stage_artifacts={"intake": {"request_id": "R"}, "a/b ü": BIG}, pending_artifact=BIG)
    store.save(saved)
    assert active(store).stat().st_size < 2000
    assert [name[:-14] for name in artifact_files(store)] == ["a_b__", "pending"]
    assert store.load(ID) == saved
    store.save(state(stage_artifacts={"spec": BIG}))
    assert [name[:-14] for name in artifact_files(store)] == ["spec"]
    store.delete(ID)
    assert not (store.base_path / f"{ID}.artifacts").exists()


def test_many_artifacts_share_the_file_of_the_state_up_to_a_limit(store: PipelineStateStore) -> None:
    half = {"text": "x" * 40_000}
    saved = state(stage_artifacts={"one": half, "two": half, "three": {"a": 1}})
    store.save(saved)
    assert len(artifact_files(store)) == 1
    assert store.load(ID) == saved


def test_an_artifact_that_looks_like_a_reference_is_kept(store: PipelineStateStore) -> None:
    saved = state(stage_artifacts={"intake": {"_file": "../../etc/passwd"}})
    store.save(saved)
    assert store.load(ID) == saved


@pytest.mark.parametrize("content", [None, b"{}", b"torn"])
def test_a_state_without_its_artifact_is_unreadable(store: PipelineStateStore, content: bytes | None) -> None:
    store.save(state(stage_artifacts={"spec": BIG}))
    (file,) = store.base_path.glob("*.artifacts/*")
    file.unlink() if content is None else file.write_bytes(content)
    assert store.load(ID) is None
    store.save(state(stage_artifacts={"spec": BIG}))
    assert store.load(ID) is not None


# -- several writers


def test_thirty_concurrent_saves_are_all_kept(store: PipelineStateStore) -> None:
    programs = [
        subprocess.Popen([sys.executable, "-c", SAVING, str(store.base_path), str(number)])
        for number in range(6)
    ]
    assert [program.wait() for program in programs] == [0] * 6
    assert len(store.list(limit=100)) == store.get_active_count() == 30
    assert len(yaml.safe_load(store.index_path.read_text())) == 30


def test_readers_never_see_a_part(store: PipelineStateStore) -> None:
    """One writer moves a state between the two places, and its artifacts change."""
    states = [
        state(status=status, stage_artifacts={"spec": {**BIG, "number": number}})
        for number, status in enumerate([PipelineStatus.RUNNING, PipelineStatus.COMPLETED] * 10)
    ]
    store.save(states[0])

    def read(_: int) -> PipelineState | None:
        return PipelineStateStore(store.base_path).load(ID)

    with ThreadPoolExecutor(3) as pool:
        found = pool.map(read, range(60))
        for one in states:
            store.save(one)
        assert None not in found
    assert list(store.base_path.rglob("*.unreadable")) == []
