"""The tests that every provider must pass. Subclass, override the fixtures `provider`, `config` and
`slow_config`, and run all of it; a provider whose agent is a program takes ProcessProviderContract, and says
with `secret_values` which keys it was given. With `leaving`, it shows that its agents leave artifacts, with
`small_budget` that they keep to a budget.

    class TestMyAgent(ProviderContract):
        @pytest.fixture
        def provider(self) -> Provider:
            return MyAgent()
"""

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import Struct

from agentforge.app.runs.lookup import Runs
from agentforge.model.errors import ProviderUnusable
from agentforge.model.facts import AttemptStarted, ErrorOccurred, IterationCompleted
from agentforge.model.failure import FailureKind
from agentforge.model.result import JSONObject
from agentforge.model.spending import UNITS, Amount, Spending
from agentforge.ports.provider import (
    Capabilities,
    CleansUp,
    Command,
    ExecuteRequest,
    ExecuteResult,
    Exit,
    ProcessProvider,
    Provider,
    ShowsProgress,
)
from agentforge.sdk.engine import Engine
from agentforge.testing.marked_processes import MARK, end_marked, processes_marked
from agentforge.views.results import RunResult

MakeRequest = Callable[..., ExecuteRequest]
"""Makes a request from any of its fields; the others get defaults."""

SECONDS = 30.0
"""The timeout of every call."""
ARTIFACT_SECONDS = 300.0
"""That of a run."""

LEFT_BY_AGENTS = (
    "",
    "\n\n",
    "\x00\x1b[31m\ufffd",
    '{"type":',
    "[]\n3\nnull\n{}\n",
    '{"type": 1, "result": [], "usage": "none", "session_id": {}, "error": 5, "message": null}\n',
    "words " * 20_000,
)
"""Incomplete and invalid output that an agent may print."""

ARTIFACT_SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}},
    "additionalProperties": False,
}
GOOD_ARTIFACT, BAD_ARTIFACT = {"name": "slugify"}, {"name": 1}

LeaveArtifacts = Callable[..., tuple[Provider, dict[str, Any]]]
"""Makes a provider and a config from artifacts: each attempt leaves the next one, the others the last."""

_Result = TypeVar("_Result")


def run(work: Awaitable[_Result], seconds: float = SECONDS) -> _Result:
    async def bounded() -> _Result:
        return await asyncio.wait_for(work, seconds)

    return asyncio.run(bounded())


class ProviderContract:
    @pytest.fixture
    def provider(self) -> Provider:
        raise NotImplementedError("override the fixture `provider`")

    @pytest.fixture
    def config(self) -> dict[str, Any]:
        """A config with which a request succeeds immediately."""
        return {}

    @pytest.fixture
    def slow_config(self) -> dict[str, Any]:
        """A config with which a request runs longer than the timeout of a test."""
        raise NotImplementedError("override the fixture `slow_config`")

    @pytest.fixture
    def leaving(self) -> LeaveArtifacts | None:
        """None: these tests don't have its agents leave artifacts."""
        return None

    @pytest.fixture
    def small_budget(self) -> Amount | None:
        """Less than a request with `config` spends; None: these tests have no agent that spends."""
        return None

    @pytest.fixture
    def agent_session(self) -> str:
        """A valid session id of the provider's agent."""
        return "0f8fad5b-d9cb-469f-a165-70867728950e"

    @pytest.fixture
    def make_request(self, tmp_path: Path, config: dict[str, Any]) -> MakeRequest:
        workdir = tmp_path / "work"
        workdir.mkdir()

        def make(**fields: Any) -> ExecuteRequest:
            iteration = fields.get("iteration", 1)
            folder = tmp_path / "iterations" / f"{iteration:03d}"
            folder.mkdir(parents=True, exist_ok=True)
            prompt = fields.get("prompt", "Say hello.")
            (folder / "prompt.md").write_text(prompt, encoding="utf-8")
            given: dict[str, Any] = {
                "prompt": prompt,
                "model": "",
                "config": config,
                "workdir": str(workdir),
                "environment": {},
                "status_path": str(folder / "status.json"),
                "result_path": str(folder / "result.json"),
                "session": "contract",
                "stage": "work",
                "prompt_path": str(folder / "prompt.md"),
            }
            return ExecuteRequest(**{**given, **fields})

        return make

    def test_name_is_a_stable_identifier(self, provider: Provider) -> None:
        assert provider.name
        assert not any(character.isspace() or character == "/" for character in provider.name)
        assert provider.name == provider.name

    def test_init_then_validate(self, provider: Provider) -> None:
        run(provider.init())
        provider.validate()

    def test_capabilities_are_declared(self, provider: Provider) -> None:
        capabilities = provider.capabilities()
        assert isinstance(capabilities, Capabilities)
        assert capabilities == provider.capabilities()

    def test_bounds_are_units(self, provider: Provider) -> None:
        bounds = provider.capabilities().bounds
        assert set(bounds) <= set(UNITS)
        assert len(set(bounds)) == len(bounds)

    def test_budget_that_is_not_used_up_changes_nothing(
        self, provider: Provider, make_request: MakeRequest
    ) -> None:
        request = make_request(budget=Amount(1000.0, 10**9))
        result = run(_session(provider, request))
        assert_worked(request, result)
        assert Spending().settled(result.usage, request.budget).overruns == 0

    def test_attempt_that_used_up_its_budget_is_at_a_cap(
        self, provider: Provider, make_request: MakeRequest, small_budget: Amount | None
    ) -> None:
        if small_budget is None or not provider.capabilities().bounds:
            pytest.skip("contract: the provider keeps to no budget, or its agent spends nothing here")
        result = run(_session(provider, make_request(budget=small_budget)))
        assert result.failure is not None
        assert result.failure.kind is FailureKind.CAP_REACHED
        assert result.usage is not None, "without it, the whole budget counts as used"

    def test_execute_writes_a_result_or_returns_output(
        self, provider: Provider, make_request: MakeRequest
    ) -> None:
        request = make_request()
        assert_worked(request, run(_session(provider, request)))

    def test_unknown_config_keys_do_not_fail(
        self, provider: Provider, make_request: MakeRequest, config: dict[str, Any]
    ) -> None:
        request = make_request(config={**config, "no_such_option": 1})
        assert_worked(request, run(_session(provider, request)))

    def test_concurrent_executes_do_not_mix(self, provider: Provider, make_request: MakeRequest) -> None:
        if not provider.capabilities().concurrent:
            pytest.skip("contract: the provider declares that its executes wait in line")
        requests = [make_request(iteration=iteration) for iteration in range(1, 5)]

        async def all_at_once() -> list[ExecuteResult]:
            await provider.init()
            results = await asyncio.gather(*(provider.execute(request) for request in requests))
            await provider.shutdown()
            return results

        for request, result in zip(requests, run(all_at_once()), strict=True):
            assert_worked(request, result)

    def test_a_second_execute_works_like_the_first(
        self, provider: Provider, make_request: MakeRequest
    ) -> None:
        async def twice() -> None:
            await provider.init()
            for iteration in (1, 2):
                request = make_request(iteration=iteration)
                assert_worked(request, await provider.execute(request))
            await provider.shutdown()

        run(twice())

    def test_shutdown_is_idempotent(self, provider: Provider) -> None:
        async def twice() -> None:
            await provider.shutdown()
            await provider.init()
            await provider.shutdown()
            await provider.shutdown()

        run(twice())

    def test_can_be_initialized_again_after_a_shutdown(
        self, provider: Provider, make_request: MakeRequest
    ) -> None:
        async def twice() -> None:
            for iteration in (1, 2):
                request = make_request(iteration=iteration)
                assert_worked(request, await _session(provider, request))

        run(twice())

    def test_agent_session_is_ignored_without_resume_support(
        self, provider: Provider, make_request: MakeRequest, agent_session: str
    ) -> None:
        if provider.capabilities().supports_resume:
            pytest.skip("contract: handling of an unknown session is not specified for providers that resume")
        request = make_request(resume=agent_session)
        assert_worked(request, run(_session(provider, request)))

    def test_artifact_is_delivered(self, leaving: LeaveArtifacts | None, tmp_path: Path) -> None:
        ended = _run_with_artifacts(leaving, tmp_path, GOOD_ARTIFACT)
        assert ended.result.completed, ended.result.reason
        assert ended.artifacts == [GOOD_ARTIFACT]
        assert len(ended.resumed) == 1

    def test_wrong_artifact_is_healed(self, leaving: LeaveArtifacts | None, tmp_path: Path) -> None:
        """By another attempt, which resumes the session if the provider can; or by the agent itself."""
        ended = _run_with_artifacts(leaving, tmp_path, BAD_ARTIFACT, GOOD_ARTIFACT)
        assert ended.result.completed, ended.result.reason
        assert ended.artifacts == [GOOD_ARTIFACT]
        assert ended.resumed in ([False], [False, ended.resumes])

    def test_artifact_that_stays_wrong_fails_the_run_with_what_is_wrong(
        self, leaving: LeaveArtifacts | None, tmp_path: Path
    ) -> None:
        ended = _run_with_artifacts(leaving, tmp_path, BAD_ARTIFACT)
        assert not ended.result.completed
        assert (ended.result.error_type, ended.artifacts) == ("artifact_invalid", [])
        assert '$.name: 1 is not of type "string"' in (ended.result.error or "")
        assert len(ended.resumed) == 2

    def test_cancellation_stops_all_processes(
        self, provider: Provider, make_request: MakeRequest, slow_config: dict[str, Any]
    ) -> None:
        """It may still answer, although that is too late."""
        mark = uuid.uuid4().hex
        request = make_request(config=slow_config, environment={MARK: mark})

        async def cancelled() -> None:
            await provider.init()
            task = asyncio.create_task(provider.execute(request))
            await _wait_until_started(provider, task, mark)
            task.cancel()
            ended, _ = await asyncio.wait({task}, timeout=10)
            assert ended, "a cancelled execute continues"
            assert task.cancelled() or isinstance(task.result(), ExecuteResult)
            await provider.shutdown()

        run(cancelled())
        assert end_marked(mark) == []


class ProcessProviderContract(ProviderContract):
    @pytest.fixture
    def secret_values(self) -> tuple[str, ...]:
        """Secrets in the environment that the provider was created with."""
        return ()

    @pytest.fixture
    def process_provider(self, provider: Provider) -> ProcessProvider:
        assert isinstance(provider, ProcessProvider)
        run(provider.init())
        return provider

    def test_command_names_an_existing_program(
        self, process_provider: ProcessProvider, make_request: MakeRequest
    ) -> None:
        command = process_provider.command(make_request())
        assert isinstance(command, Command)
        assert Path(command.argv[0]).is_absolute()
        assert Path(command.argv[0]).is_file()
        assert not any("\0" in word for word in command.argv)

    def test_command_is_the_same_for_the_same_request(
        self, process_provider: ProcessProvider, make_request: MakeRequest
    ) -> None:
        request = make_request()
        assert process_provider.command(request) == process_provider.command(request)

    def test_command_passes_the_variables_of_the_engine(
        self, process_provider: ProcessProvider, make_request: MakeRequest
    ) -> None:
        command = process_provider.command(make_request(environment={"ADDED": "by the engine"}))
        assert command.env["ADDED"] == "by the engine"

    def test_command_is_valid(self, process_provider: ProcessProvider, make_request: MakeRequest) -> None:
        command = process_provider.command(make_request())
        assert all(isinstance(text, str) for pair in command.env.items() for text in pair)
        assert not any("=" in name or "\0" in name for name in command.env)
        for limit in (command.timeout, command.idle_timeout, command.term_grace):
            assert limit is None or limit >= 0
        assert all(Path(path).is_absolute() for path in command.state)
        cleanup = _cleanup(process_provider)
        assert not cleanup or Path(cleanup[0]).is_file()

    def test_secrets_are_declared_and_not_on_the_command_line(
        self, process_provider: ProcessProvider, make_request: MakeRequest, secret_values: tuple[str, ...]
    ) -> None:
        command = process_provider.command(make_request())
        assert set(secret_values) <= set(command.secrets)
        seen = "\n".join((*command.argv, *_cleanup(process_provider), command.stdin))
        assert not [secret for secret in command.secrets if secret and secret in seen]

    def test_agent_session_is_passed_if_resume_is_supported(
        self, process_provider: ProcessProvider, make_request: MakeRequest, agent_session: str
    ) -> None:
        fresh = process_provider.command(make_request())
        resumed = process_provider.command(make_request(resume=agent_session))
        if process_provider.capabilities().supports_resume:
            assert agent_session in "\n".join((*resumed.argv, resumed.stdin, *resumed.env.values()))
        else:
            assert resumed == fresh

    def test_interpret_keeps_the_output_and_a_clean_exit(self, process_provider: ProcessProvider) -> None:
        result = process_provider.interpret(Exit(exit_code=0, signal=None, duration_ms=12, output="done\n"))
        assert (result.exit_code, result.failure, result.duration_ms) == (0, None, 12)
        assert "done" in result.output

    @pytest.mark.parametrize("ending", [(1, None), (70, None), (None, 9), (None, 15), (None, None)])
    def test_interpret_never_reports_a_bad_exit_as_success(
        self, process_provider: ProcessProvider, ending: tuple[int | None, int | None]
    ) -> None:
        code, signal = ending
        result = process_provider.interpret(Exit(exit_code=code, signal=signal, duration_ms=0, output=""))
        assert result.exit_code != 0

    def test_interpret_does_not_treat_separate_errors_as_output(
        self, process_provider: ProcessProvider
    ) -> None:
        quiet = process_provider.interpret(Exit(0, None, 12, "done\n"))
        noisy = process_provider.interpret(Exit(0, None, 12, "done\n", errors="a harmless warning\n"))
        assert (noisy.output, noisy.failure) == (quiet.output, quiet.failure)

    @pytest.mark.parametrize("output", LEFT_BY_AGENTS)
    def test_interpret_and_progress_accept_any_output(
        self, process_provider: ProcessProvider, output: str
    ) -> None:
        for code, signal in ((0, None), (1, None), (None, 9)):
            exit = Exit(code, signal, 12, output, errors=output)
            result = process_provider.interpret(exit)
            assert isinstance(result, ExecuteResult)
            assert result == process_provider.interpret(exit), "interpret must be deterministic"
            assert result.duration_ms == 12
        if isinstance(process_provider, ShowsProgress):
            assert all(isinstance(process_provider.progress(line), str) for line in output.split("\n"))

    def test_an_unusable_command_is_a_failure_and_not_an_exception(
        self, process_provider: ProcessProvider, make_request: MakeRequest
    ) -> None:
        request = make_request(workdir="/no/such/folder")
        try:
            process_provider.command(request)
        except ProviderUnusable as error:
            assert error.message
        result = run(process_provider.execute(request))
        assert result.failure is not None


class _ArtifactRun(Struct, frozen=True):
    """A run of one stage whose iteration owes an artifact."""

    result: RunResult
    artifacts: list[JSONObject | None]
    """The accepted ones."""
    resumed: list[bool]
    """Whether each attempt resumed an agent session."""
    resumes: bool
    """Whether the provider says that it does, and its agent had a session."""


def _run_with_artifacts(leaving: LeaveArtifacts | None, folder: Path, *artifacts: JSONObject) -> _ArtifactRun:
    """A run whose attempts leave these."""
    if leaving is None:
        pytest.skip("contract: no fixture `leaving` has the agents of this provider leave artifacts")
    provider, config = leaving(*artifacts)
    project = folder / "project"
    stage = {
        "id": "work",
        "prompt": "Write the artifact to [artifact=${ARTIFACT}] and the result to [result=${RESULT}].",
        "provider": {"type": provider.name, **config},
        "artifact": ARTIFACT_SCHEMA,
        "runs": 1,
        "delay": 0,
        "retry": {"max_attempts": 1},
    }
    project.mkdir(exist_ok=True)
    environ = {"PATH": os.defpath, "XDG_STATE_HOME": str(project.with_name("state"))}

    async def main() -> RunResult:
        async with Engine(project, providers={provider.name: provider}, environ=environ) as engine:
            return await engine.run({"name": "artifacts", "nodes": [stage]}, session="contract")

    result = run(main(), ARTIFACT_SECONDS)
    facts = [event.fact for event in Runs(str(project), environ).events("contract")]
    done = [fact.artifact for fact in facts if isinstance(fact, IterationCompleted)]
    begun = [fact for fact in facts if isinstance(fact, AttemptStarted)]
    failed = [fact.agent_session for fact in facts if isinstance(fact, ErrorOccurred)]
    return _ArtifactRun(
        result,
        [one.value for one in done if one],
        [fact.resume is not None for fact in begun],
        provider.capabilities().supports_resume and any(failed),
    )


def assert_worked(request: ExecuteRequest, result: ExecuteResult) -> None:
    assert result.failure is None, result.failure
    assert result.exit_code == 0, result.output
    assert result.duration_ms >= 0
    written = Path(request.result_path).exists() or Path(request.status_path).exists()
    assert written or result.output.strip(), "neither a result nor any output"


async def _session(provider: Provider, request: ExecuteRequest) -> ExecuteResult:
    await provider.init()
    provider.validate()
    try:
        return await provider.execute(request)
    finally:
        await provider.shutdown()


async def _wait_until_started(provider: Provider, task: "asyncio.Task[ExecuteResult]", mark: str) -> None:
    """Wait until there is something to cancel: the program is running, or the coroutine is waiting."""
    await asyncio.sleep(0.05)
    while isinstance(provider, ProcessProvider) and not processes_marked(mark):
        assert not task.done(), "the slow request ended before it could be cancelled"
        await asyncio.sleep(0.02)
    assert not task.done(), "the slow request ended before it could be cancelled"


def _cleanup(provider: ProcessProvider) -> tuple[str, ...]:
    return provider.cleanup("run/0/1/1/1@0") if isinstance(provider, CleansUp) else ()
