"""The progress line of a provider in a parallel block."""

import pytest

from agentforge.views.lines.status import branch_text
from agentforge.views.stage_progress import BranchProgress


@pytest.mark.parametrize(
    ("branch", "words"),
    [
        (BranchProgress("claude", "current", "rate", 2, 4), "2/4  rate"),
        (BranchProgress("claude", "done", "rate", 3, 4), "3/4  done"),
        (BranchProgress("claude", "failed", "rate", 1, 4, "it\nbroke"), "1/4  rate  it broke"),
        (BranchProgress("claude", "waiting", "ideas", 0, 4), "0/4  ideas"),
    ],
)
def test_provider_line(branch: BranchProgress, words: str) -> None:
    assert branch_text(branch) == words
