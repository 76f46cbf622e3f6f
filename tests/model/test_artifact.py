"""Versions of artifacts."""

import pytest

from agentforge.model.artifact import other_major


@pytest.mark.parametrize(
    ("version", "other", "is_other"),
    [
        ("1.0", "1.0", False),
        ("1.0", "1.10", False),
        ("1.9", "2.9", True),
        ("1.0", "10.0", True),
        ("01.0", "1.0", False),
    ],
)
def test_versions_with_the_same_major_number_can_be_read(version: str, other: str, is_other: bool) -> None:
    assert other_major(version, other) is other_major(other, version) is is_other
