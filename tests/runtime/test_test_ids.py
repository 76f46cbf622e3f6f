"""The tests of a check are in a file of the run, and read only as they were."""

from pathlib import Path

import pytest

from agentforge.model.check import CheckCounts, RanTest
from agentforge.model.errors import UnusableFile
from agentforge.model.layout import RunLayout
from agentforge.runtime.test_ids import keep_tests, read_tests

TESTS = (RanTest("a::b", "passed"), RanTest("a::c", "failed", "it is 3", "a.py"))


def test_tests_are_kept_by_their_hash_and_read_again(tmp_path: Path) -> None:
    layout = RunLayout(str(tmp_path), "s")
    ran = keep_tests(layout, TESTS)
    assert ran is not None
    assert ran == keep_tests(layout, TESTS)
    assert (ran.file, ran.counts) == (f"tests/{ran.sha256}.json", CheckCounts(1, 1))
    assert read_tests(layout, ran) == TESTS
    assert keep_tests(layout, None) is None
    assert len(list((tmp_path / "tests").iterdir())) == 1


@pytest.mark.parametrize(("content", "why"), [(None, "it is missing"), (b'[["a","passed"]]', "was changed")])
def test_file_that_was_changed_is_not_read(tmp_path: Path, content: bytes | None, why: str) -> None:
    layout = RunLayout(str(tmp_path), "s")
    ran = keep_tests(layout, TESTS)
    assert ran is not None
    path = tmp_path / ran.file
    path.write_bytes(content) if content else path.unlink()
    with pytest.raises(UnusableFile, match=why):
        read_tests(layout, ran)
