"""The JSONL log keeps the port's contract in full."""

from pathlib import Path

import pytest

from agentforge.testing.event_log_contract import EventLogContract, LogHarness

from .jsonl_harness import JsonlHarness


class TestJsonlLog(EventLogContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> LogHarness:
        return JsonlHarness(tmp_path)
