"""The contract of the process port. Derive a test class, override the fixtures, and run all of it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agentforge.ports.host import Processes

SECONDS = 60.0
NOBODY = "AGENTFORGE_ATTEMPT=nobody has this one"


class ProcessesContract:
    @pytest.fixture
    def processes(self) -> Processes:
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Of an attempt."""
        folder = tmp_path / "attempt-1"
        folder.mkdir()
        return folder

    @pytest.fixture
    def spec(self) -> bytes:
        """Of an agent that works for longer than a test."""
        raise NotImplementedError

    @pytest.fixture
    def start_marked(self) -> Callable[[str], object]:
        """Starts a process with the mark."""
        raise NotImplementedError

    def test_a_supervisor_is_known_until_it_has_ended(
        self, processes: Processes, folder: Path, spec: bytes
    ) -> None:
        async def main() -> None:
            async with asyncio.timeout(SECONDS):
                identity = await processes.start_supervisor(str(folder), spec)
                assert processes.identify(identity.pid) == identity
                assert processes.is_alive(identity)
                assert processes.supervisors()[identity] == str(folder)
                for _ in range(2):  # What is over stays over.
                    processes.terminate(identity)
                    await processes.wait(identity)
                    assert not processes.is_alive(identity)
                    assert processes.identify(identity.pid) != identity
                    assert identity not in processes.supervisors()

        asyncio.run(main())

    def test_another_process_that_has_its_pid_is_not_it(
        self, processes: Processes, folder: Path, spec: bytes
    ) -> None:
        async def main() -> None:
            async with asyncio.timeout(SECONDS):
                identity = await processes.start_supervisor(str(folder), spec)
                for change in ({"start_time": "0"}, {"boot_id": "earlier"}, {"host": "elsewhere"}):
                    earlier = replace(identity, **change)
                    assert not processes.is_alive(earlier)
                    processes.terminate(earlier)
                    await processes.wait(earlier)
                    assert processes.is_alive(identity)
                processes.terminate(identity)
                await processes.wait(identity)

        asyncio.run(main())

    def test_what_has_a_mark_is_ended_and_counted_once(
        self, processes: Processes, start_marked: Callable[[str], object], tmp_path: Path
    ) -> None:
        mark = f"AGENTFORGE_ATTEMPT={tmp_path}"
        start_marked(mark)
        assert asyncio.run(processes.end_marked(NOBODY)) == 0
        assert asyncio.run(processes.end_marked(mark)) >= 1
        assert asyncio.run(processes.end_marked(mark)) == 0

    def test_nothing_is_inherited_of_a_variable_that_nobody_set(self, processes: Processes) -> None:
        assert processes.inherited("AGENTFORGE_OF_NOBODY") == frozenset()
