"""The objects in the folder of a run that came with a repository: git reads no other repository through them,
and no amount of memory is taken for them."""

import os
import zlib
from collections.abc import Callable
from functools import cache
from itertools import repeat
from pathlib import Path

import pytest
from tests.security.trapped_repository import ENVIRON, TrappedRepository

from agentforge.adapters.host.git_objects import FILE, GitObjects, TreeEntry, oversized_object
from agentforge.app.runs.comparison import TreeComparison
from agentforge.model.errors import InvalidRequest
from agentforge.system.git import MAX_MEMORY

CHUNK = bytes(32 * 1024 * 1024)


def comparison(tmp_path: Path) -> TreeComparison:
    return TreeComparison(str(tmp_path), [str(tmp_path / "trees")], ENVIRON)


@cache
def blob(size: int) -> bytes:
    """One of zeros, as git stores it."""
    compress = zlib.compressobj(1)
    parts = [b"blob %d\0" % size, *repeat(CHUNK, size // len(CHUNK))]
    return b"".join(map(compress.compress, parts)) + compress.flush()


def unfolding(folder: Path, size: int) -> str:
    """A blob of zeros, in the folder of a run; git does not compare the id of what it reads."""
    id = "ab" * 20
    (folder / "ab").mkdir(parents=True, exist_ok=True)
    (folder / "ab" / id[2:]).write_bytes(blob(size))
    return id


def test_an_object_that_unfolds_to_gigabytes_is_refused(tmp_path: Path) -> None:
    objects = GitObjects(str(tmp_path / "trees"), "sha1")
    big = unfolding(tmp_path / "trees", MAX_MEMORY + len(CHUNK))
    before = objects.add_tree({"a": TreeEntry(FILE, objects.add("blob", b"a\n"))})
    after = objects.add_tree({"a": TreeEntry(FILE, big)})
    with pytest.raises(InvalidRequest, match=f"trees/ab/{big[2:]} is larger than any file"):
        comparison(tmp_path).patch(before, after, binary=True)
    (changes,) = comparison(tmp_path).changes([(before, after)])
    assert changes is not None
    assert [file.path for file in changes.files] == ["a"]


@pytest.mark.parametrize(
    ("head", "is_refused"),
    [
        (b"blob 67108865\0", True),
        (b"blob 67108864\0", False),
        (b"blob 9\0", False),
        (b"blob " + b"9" * 99, True),
    ],
)
def test_the_size_of_an_object_is_read_before_its_content(
    tmp_path: Path, head: bytes, is_refused: bool
) -> None:
    (tmp_path / "ab").mkdir()
    place = tmp_path / "ab" / ("c" * 38)
    place.write_bytes(zlib.compress(head + os.urandom(80_000)))
    (tmp_path / "ab" / "torn").write_bytes(os.urandom(80_000))
    assert oversized_object(str(tmp_path)) == (str(place) if is_refused else "")


def test_what_an_engine_stores_is_not_too_large(tmp_path: Path) -> None:
    objects = GitObjects(str(tmp_path), "sha1")
    for content in (
        bytes(10**7),
        "".join(f"{n} é {n * n}\n" for n in range(60_000)).encode(),
        os.urandom(10**6),
    ):
        objects.add("blob", content)
    assert oversized_object(str(tmp_path)) == ""


def test_git_gets_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    """For sizes that no header tells, as in an object of the project."""
    objects = GitObjects(str(tmp_path / "own"), "sha1")
    big = unfolding(tmp_path / "own", MAX_MEMORY + len(CHUNK))
    before = objects.add_tree({"a": TreeEntry(FILE, objects.add("blob", b"a\n"))})
    after = objects.add_tree({"a": TreeEntry(FILE, big)})
    of_the_run = tmp_path / "trees"
    of_the_run.mkdir()
    both = TreeComparison(str(tmp_path), [str(tmp_path / "own"), str(of_the_run)], ENVIRON)
    with pytest.raises(InvalidRequest, match="git needs more than 1024 MB of memory"):
        both.patch(before, after, binary=True)


def _alternates(trees: Path, objects: Path) -> None:
    (trees / "info").mkdir(parents=True)
    (trees / "info/alternates").write_text(f"{objects}\n")


def _linked_information(trees: Path, objects: Path) -> None:
    _alternates(trees.parent / "elsewhere", objects)
    trees.mkdir()
    (trees / "info").symlink_to("../elsewhere/info")


def _link(trees: Path, objects: Path) -> None:
    trees.symlink_to(objects)


def _linked_folders(trees: Path, objects: Path) -> None:
    trees.mkdir()
    for folder in objects.iterdir():
        (trees / folder.name).symlink_to(folder)


def _linked_objects(trees: Path, objects: Path) -> None:
    for path in objects.glob("??/*"):
        (trees / path.parent.name).mkdir(parents=True, exist_ok=True)
        (trees / path.parent.name / path.name).symlink_to(path)


@pytest.mark.parametrize("plant", [_alternates, _linked_information, _link, _linked_folders, _linked_objects])
def test_no_other_repository_is_read(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    other = TrappedRepository(tmp_path)
    (other.root / "secret.txt").write_text("the-secret-word\n")
    other.git("add", ".")
    other.git("commit", "-qm", "secret")
    plant(tmp_path / "trees", other.root / ".git/objects")
    before, after = other.git("rev-parse", "HEAD~:"), other.git("rev-parse", "HEAD:")
    with pytest.raises(InvalidRequest, match="was not written by an engine"):
        comparison(tmp_path).patch(before, after, binary=False)
    with pytest.raises(InvalidRequest, match="was not written by an engine"):
        comparison(tmp_path).changes([(before, after)])
