"""Fifty runs at once through one provider: each has its own results, turns are kept, time is bounded."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest
from tests.sdk.projects import engine, iteration_dir, load, node, pipeline, run, types

from agentforge.adapters.providers.command import CommandProvider
from agentforge.ports.provider import Capabilities, ExecuteRequest, ExecuteResult, Provider
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, says

RUNS = 50
NAMES = [f"run-{number:02d}" for number in range(RUNS)]
ITERATIONS = 3


def echo(request: ExecuteRequest) -> Act:
    """Says which run and iteration asked, as the request has it."""
    return says(f"{request.session} {request.iteration} {request.prompt}")


class Crowd(ScriptedProvider):
    """Its first calls wait for each other, however long each run takes to get there."""

    def __init__(self, size: int) -> None:
        super().__init__(echo)
        self._absent, self._complete = size, asyncio.Event()

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        self._absent -= 1
        if self._absent <= 0:
            self._complete.set()
        await self._complete.wait()
        return await super().execute(request)


def all_at_once(
    project: Path, provider: Provider, iterations: int, seconds: float, names: Sequence[str] = NAMES
) -> float:
    """The duration of the runs, each with a different prompt."""
    began = monotonic()

    async def main() -> None:
        async with engine(project, provider) as sdk:
            once = {"max_attempts": 1}
            runs = [
                sdk.run(pipeline(node(runs=iterations, prompt=f"prompt of {name}", retry=once)), session=name)
                for name in names
            ]
            results = await asyncio.gather(*runs)
            assert [result.session for result in results] == list(names)
            assert [(result.completed, result.iterations) for result in results] == [
                (True, iterations)
            ] * len(names)

    run(main(), seconds)
    return monotonic() - began


def assert_each_has_its_own(project: Path, iterations: int, names: Sequence[str] = NAMES) -> None:
    for name in names:
        for number in range(1, iterations + 1):
            folder = iteration_dir(project, number, session=name)
            expected = f"{name} {number} prompt of {name}"
            assert load(folder / "result.json")["summary"] == expected
            assert (folder / "output.md").read_text().strip() == expected
    assert all(types(project, name) == types(project, names[0]) for name in names)


def test_fifty_runs_through_one_provider_inside_the_engine(tmp_path: Path) -> None:
    provider = Crowd(RUNS)
    all_at_once(tmp_path, provider, ITERATIONS, seconds=240)
    assert_each_has_its_own(tmp_path, ITERATIONS)
    assert len(provider.calls) == RUNS * ITERATIONS
    assert provider.max_concurrent_calls == RUNS
    assert provider.lifecycle == ["init", "validate", "shutdown"]


def test_fifty_runs_through_one_provider_that_is_not_concurrent(tmp_path: Path) -> None:
    provider = ScriptedProvider(echo, seconds=0.005, concurrent=False)
    taken = all_at_once(tmp_path, provider, ITERATIONS, seconds=240)
    assert_each_has_its_own(tmp_path, ITERATIONS)
    assert (provider.max_concurrent_calls, len(provider.calls)) == (1, RUNS * ITERATIONS)
    assert taken >= RUNS * ITERATIONS * 0.005


AGENT = """
import json, os, sys
prompt = sys.stdin.read()
said = f"{prompt.rpartition(' ')[2]} {int(os.environ['MOCK_ITERATION'])} {prompt}"
print(said)
with open(os.environ["MOCK_RESULT_FILE"], "w") as file:
    json.dump({"summary": said}, file)
"""

COUNTING = """
import fcntl, os, sys, time
with open(os.environ["COUNTER"], "r+") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another agent is running")
    time.sleep(0.01)
"""


class Programs(CommandProvider):
    """A program as an agent; the test sets whether it is concurrent."""

    def __init__(self, script: Path, *, concurrent: bool, **env: str) -> None:
        config = {"argv": [sys.executable, "-I", "-S", str(script)], "env": env}
        super().__init__({"PATH": "/usr/bin:/bin"}, name="programs", config=config)
        self.concurrent = concurrent

    def capabilities(self) -> Capabilities:
        return Capabilities(concurrent=self.concurrent)


@pytest.mark.parametrize(
    ("concurrent", "names"),
    [
        pytest.param(True, NAMES[:20], id="all at once, a sample"),
        pytest.param(True, NAMES, id="all at once", marks=pytest.mark.soak),
        pytest.param(False, NAMES[:12], id="one at a time, a sample"),
        pytest.param(False, NAMES, id="one at a time", marks=pytest.mark.soak),
    ],
)
def test_fifty_runs_through_one_provider_whose_agent_is_a_program(
    tmp_path: Path, concurrent: bool, names: list[str]
) -> None:
    script, counter = tmp_path / "agent.py", tmp_path / "counter"
    script.write_text(AGENT if concurrent else COUNTING + AGENT)
    counter.touch()
    provider = Programs(script, concurrent=concurrent, COUNTER=str(counter))
    all_at_once(tmp_path, provider, 1, seconds=240, names=names)
    assert_each_has_its_own(tmp_path, 1, names)
    records = [json.loads(path.read_bytes()) for path in tmp_path.rglob("exit.json")]
    assert len(records) == len(names)
