"""The example of checks: the commands of its README, with real pytest."""

import re
import subprocess

import pytest
from tests.code_blocks import code_blocks
from tests.surface.terminal import Project

EXAMPLE = "checked"
START, READ, LIMITED, RETRY = (block.text for block in code_blocks("examples/checked/README.md", "sh"))


@pytest.fixture(autouse=True)
def no_plugins(repository: Project) -> None:
    repository.env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"


def test_agent_that_lies_twice_is_sent_back_twice(repository: Project) -> None:
    done = repository.call_program("bash", "-c", START)
    assert done.code == 0, done
    seen = re.findall(
        r"(check test \w+|goes back to build \(.*?\)|verdict pass on tree [0-9a-f]{12})", done.out
    )
    assert seen == [
        "check test failed",
        "goes back to build (cycle 2 of 3)",
        "check test failed",
        "goes back to build (cycle 3 of 3)",
        "check test passed",
        seen[-1],
    ]
    tree = seen[-1].removeprefix("verdict pass on tree ")
    kept = subprocess.run(
        ["git", "cat-file", "-p", f"{tree}:prices.py"],
        cwd=repository.root,
        env=repository.env,
        capture_output=True,
        check=True,
    )
    assert b"sum(prices)" in kept.stdout, kept
    assert "test_prices.py::test_sum" in repository.call_program("bash", "-c", READ).out


def test_cycle_limit_asks_with_its_own_exit_code(repository: Project) -> None:
    (repository.root / "prices.py").touch()
    done = repository.call_program("bash", "-c", LIMITED)
    assert done.code == 21, done
    assert "reached the maximum number of cycles" in done.out
    assert "stage 'verify' did not pass in cycle 2 of 2" in done.out
    assert "Answer: agentforge answer short retry" in done.out
    retried = repository.call_program("bash", "-c", RETRY)
    assert "✓ Completed" in retried.out, retried
    assert retried.code == 0
