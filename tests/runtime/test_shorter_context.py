"""An iteration that timed out is retried with a shorter context."""

from pathlib import Path
from typing import Any

from tests.sdk.projects import ENVIRON, iteration_dir, load, node, pipeline

from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, fails, says

LATE = fails(Failure(FailureKind.ITERATION_TIMEOUT, "took too long"))
CRASHED = fails(Failure(FailureKind.PROVIDER_CRASHED, "crashed"))


def told_at_each_attempt(project: Path, failure: Act) -> list[dict[str, Any]]:
    """The contexts that the attempts at the sixth iteration get, when the first fails."""
    contexts: list[dict[str, Any]] = []

    def script(request: ExecuteRequest) -> Act:
        def act(request: ExecuteRequest) -> ExecuteResult:
            contexts.append(load(iteration_dir(project, 6) / "context.json"))
            return (failure if request.attempt == 1 else says("done"))(request)

        return act if request.iteration == 6 else says("done")

    with SyncEngine(project, providers={"scripted": ScriptedProvider(script)}, environ=ENVIRON) as sdk:
        retry = {"max_attempts": 2, "initial_delay": 0}
        assert sdk.run(pipeline(node(runs=6, retry=retry)), session="s").completed
    return contexts


def test_iteration_timeout_retries_with_shorter_context(tmp_path: Path) -> None:
    first, second = (told["inputs"] for told in told_at_each_attempt(tmp_path, LATE))
    assert len(first["from_previous_iterations"]) == 5
    assert first["from_previous_iterations_omitted"] == 0
    assert second["from_previous_iterations"] == first["from_previous_iterations"][-3:]
    assert second["from_previous_iterations_omitted"] == 2


def test_other_failures_keep_the_context(tmp_path: Path) -> None:
    first, second = told_at_each_attempt(tmp_path, CRASHED)
    assert first == second
