"""A control whose engine was killed between recording and removing it counts once."""

import sys
from pathlib import Path

import pytest

from .case import Case, play
from .checks import violations
from .points import baseline

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]


@pytest.mark.parametrize(("scenario", "kind"), [("pause", "pause_requested"), ("cancel", "cancel_requested")])
def test_it_is_recorded_once(tmp_path: Path, scenario: str, kind: str) -> None:
    story = play(tmp_path / "run", Case.parse(f"{scenario} engine:drop:1:before:engine")).story
    assert story.killed
    assert violations(story, baseline(scenario).state) == []
    assert [event["type"] for event in story.events()].count(kind) == 1
