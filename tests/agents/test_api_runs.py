"""Runs whose agent is a model that is called directly, in both formats, against a scripted server."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.runtime.agents import ENVIRON, LIMITS, EngineProcess
from tests.sampling import one_in
from tests.sdk.projects import eventually as soon
from tests.sdk.projects import iteration_dir, load, pipeline, run, run_dir, types

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.sdk.engine import Engine
from agentforge.testing.model_server import FOREVER, Call, Fault, ModelServer, Script, Turn
from agentforge.views.results import RunResult

KEY = "test-key-of-nobody"
ONCE = {"max_attempts": 1}
FORMATS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai": "openai:gpt-5.5"}
DONE = Turn("Done.", (Call("complete", {"summary": "written", "decision": "stop", "reason": "all there"}),))
WORK = Script((Turn("I write.", (Call("write_file", {"path": "hello.txt", "content": "hello\n"}),)), DONE))
SECONDS = 150.0


def shell(line: str) -> Script:
    return Script((Turn("", (Call("run_command", {"command": ["sh", "-c", line]}),)), DONE))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=one_in(2, reversed(FORMATS)))
def any_format(request: pytest.FixtureRequest) -> str:
    """For what doesn't depend on the format, or is tried with both in the loop itself."""
    return str(request.param)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert left_running(tmp_path) == []


def left_running(project: Path) -> list[int]:
    """Everything that works in the project's folder, whatever it calls itself."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.joinpath("cwd").readlink() == project and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def node(server: ModelServer, script: Script, format: str, **changes: Any) -> dict[str, Any]:
    config = changes.pop("config", {})
    url = server.url(script, "r")
    provider = {
        "type": "api",
        "model": FORMATS[format],
        "base_url": url if format == "anthropic" else f"{url}/v1",
        "api_key_env": "MY_KEY",
        "allow": ["sh"],
        **config,
    }
    return {
        "id": "plan",
        "prompt": "Write hello.txt.",
        "provider": provider,
        "delay": 0,
        "retry": ONCE,
        **changes,
    }


def engine(project: Path) -> Engine:
    return Engine(project, environ={**ENVIRON, "MY_KEY": KEY}, limits=LIMITS)


def go(project: Path, stage: dict[str, Any]) -> RunResult:
    async def main() -> RunResult:
        async with engine(project) as sdk:
            return await sdk.run(pipeline(stage), session="s")

    return run(main(), SECONDS)


def facts(project: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run_dir(project) / "events.jsonl").read_text().splitlines())
    return [line["data"] for line in lines if line["type"] == kind]


def test_stage_is_done_with_files_and_a_result(server: ModelServer, any_format: str, project: Path) -> None:
    result = go(project, node(server, WORK, any_format))
    assert result.completed
    assert (project / "hello.txt").read_text() == "hello\n"
    written = load(iteration_dir(project) / "result.json")
    assert (written["summary"], written["decision"]) == ("written", "stop")
    assert written["work"]["files_touched"] == ["hello.txt"]
    assert (iteration_dir(project) / "output.md").read_text() == "written\n"
    usage = facts(project, "iteration_complete")[0]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (2000, 100)
    assert usage["cost_usd"] > 0
    assert usage["agent_session"]
    for path in project.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("unit", one_in(2, ["cost_usd", "tokens"]))
@pytest.mark.usefixtures("warm_tool_loop")
def test_run_stops_before_the_request_that_might_not_fit_and_asks(
    server: ModelServer, any_format: str, project: Path, unit: str
) -> None:
    cap, more = {"cost_usd": (0.08, "0.5"), "tokens": (8000, "60000")}[unit]
    script = Script((*[WORK.turns[0]] * 40, DONE))
    stage = node(server, script, any_format)

    async def main() -> tuple[RunResult, RunResult | None]:
        async with engine(project) as sdk:
            first = await sdk.run(pipeline(stage, limits={unit: cap}), session="s")
            before = len(server.requests("r"))
            assert 0 < before < 41
            assert first.spending.counted("tokens") == before * 1050
            assert first.spending.counted(unit) < cap
            return first, await sdk.answer("s", more)

    asked, ended = run(main(), SECONDS)
    assert [request.reason for request in asked.requests] == ["spending_cap"]
    assert ended is not None
    # It continues the conversation: nothing is asked twice.
    starts = facts(project, "attempt_start")
    assert starts[1]["resume"] == facts(project, "error")[0]["agent_session"]
    assert ended.completed, ended.reason
    assert len(server.requests("r")) == 41
    assert ended.spending.overruns == 0


# What the loop does by itself is tested in its own process, where the model's libraries are imported once:
# tests/adapters/test_tool_loop*.py. Runs that end as it ends are samples here.


@pytest.mark.soak
def test_limit_that_passes_is_waited_for(server: ModelServer, any_format: str, project: Path) -> None:
    script = replace(WORK, faults=(Fault(429, times=2, retry_after=0),))
    assert go(project, node(server, script, any_format)).completed
    assert [seen.status for seen in server.requests("r")] == [429, 429, 200, 200]


@pytest.mark.parametrize(
    ("fault", "kind", "requests"),
    [
        pytest.param(Fault(429, retry_after=0), "provider_rate_limited", 3, marks=pytest.mark.soak),
        pytest.param(Fault(500, retry_after=0), "provider_overloaded", 3, marks=pytest.mark.soak),
        (Fault(401), "provider_auth", 1),
        pytest.param(Fault(404), "provider_missing", 1, marks=pytest.mark.soak),
    ],
)
@pytest.mark.usefixtures("warm_tool_loop")
def test_permanent_errors_fail_by_their_kind(
    server: ModelServer, any_format: str, project: Path, fault: Fault, kind: str, requests: int
) -> None:
    script = replace(WORK, faults=(fault,))
    result = go(project, node(server, script, any_format, on_limit="fail"))
    assert result.error_type == kind
    assert len(server.requests("r")) == requests
    assert KEY not in str(result.error)


@pytest.mark.soak
def test_streams_that_break_off_twice_are_retried(
    server: ModelServer, any_format: str, project: Path
) -> None:
    assert go(project, node(server, replace(WORK, cuts=2), any_format)).completed
    assert (project / "hello.txt").exists()


@pytest.mark.soak
def test_streams_that_always_break_off_fail(server: ModelServer, any_format: str, project: Path) -> None:
    result = go(project, node(server, replace(WORK, cuts=FOREVER), any_format))
    assert result.error_type == "provider_unreachable"


@pytest.mark.soak
def test_slow_model_is_waited_for(server: ModelServer, any_format: str, project: Path) -> None:
    assert go(project, node(server, replace(WORK, delay=0.5, drip=0.02), any_format)).completed


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        pytest.param({"config": {"timeout": 4}}, "iteration_timeout", marks=pytest.mark.soak),
        ({"timeout": 4}, "iteration_timeout"),
        pytest.param({"config": {"request_timeout": 0.5}}, "provider_timeout", marks=pytest.mark.soak),
    ],
)
def test_model_that_hangs_is_ended_by_the_first_limit(
    server: ModelServer, any_format: str, project: Path, limits: dict[str, Any], kind: str
) -> None:
    result = go(project, node(server, replace(WORK, hang="within"), any_format, **limits))
    assert result.error_type == kind


def test_cancelling_within_a_command_leaves_nothing_running_and_nothing_late(
    server: ModelServer, any_format: str, project: Path
) -> None:
    script = shell(
        "echo $$ > started; (trap '' TERM; setsid sleep 600; echo late > late) & sleep 600; echo > later"
    )

    async def main() -> None:
        async with engine(project) as sdk:
            working = asyncio.create_task(sdk.run(pipeline(node(server, script, any_format)), session="s"))
            await soon((project / "started").exists, SECONDS)
            await sdk.cancel("s")
            await working

    run(main(), SECONDS)
    assert left_running(project) == []
    assert not (project / "late").exists()
    assert not (project / "later").exists()
    assert not (iteration_dir(project) / "result.json").exists()


@pytest.mark.crash
def test_agent_outlives_its_engine_and_is_reattached_to(
    server: ModelServer, any_format: str, project: Path
) -> None:
    script = shell("echo $$ >> runs; while [ ! -e go ]; do sleep 0.02; done; echo went")
    # Without a key: the engine that is killed has no environment but its own.
    stage = node(server, script, any_format, config={"model": "m", "api": any_format, "api_key_env": ""})
    EngineProcess(project, stage).kill_while_running()

    async def main() -> None:
        async with engine(project) as sdk:
            recovering = asyncio.create_task(sdk.recover("s"))
            await soon(lambda: "attempt_reattached" in types(project), SECONDS)
            (project / "go").touch()
            result = await recovering
        assert result is not None
        assert result.completed

    run(main(), SECONDS)
    assert len((project / "runs").read_text().split()) == 1
    assert len(server.requests("r")) == 2
    assert facts(project, "iteration_complete")[0]["usage"]["input_tokens"] == 2000


@pytest.mark.usefixtures("warm_tool_loop")
def test_next_attempt_resumes_the_session(server: ModelServer, any_format: str, project: Path) -> None:
    """The server refuses in the middle; the second attempt has the conversation of the first before it."""
    script = replace(WORK, faults=(Fault(500, after=1, times=1, retry_after=0),))
    stage = node(
        server, script, any_format, retry={"max_attempts": 2, "initial_delay": 0.01}, config={"retries": 0}
    )
    assert go(project, stage).completed
    first, second = facts(project, "attempt_start")
    assert not first.get("resume")
    assert second["resume"] == facts(project, "error")[0]["agent_session"]
    assert facts(project, "iteration_complete")[0]["usage"]["agent_session"] == second["resume"]
    assert server.requests("r")[-1].results == ("wrote hello.txt (6 bytes)",)
    assert len(server.requests("r")) == 3


def test_model_works_in_a_sandbox(server: ModelServer, any_format: str, project: Path) -> None:
    try:
        BwrapSandbox().probe(SandboxChoice(type="bwrap"))
    except ProviderUnusable as error:
        pytest.skip(f"sandbox: {error.message}; {error.hint}")
    outside = project.parent / "outside.txt"
    script = shell(f"echo inside > inside.txt; echo bad > {outside}; echo bad > .claude/pipeline-runs/s/bad")
    result = go(project, node(server, script, any_format, sandbox="bwrap"))
    assert result.completed, result.error
    assert (project / "inside.txt").read_text() == "inside\n"
    assert not outside.exists()
    assert not (run_dir(project) / "bad").exists()
    assert list((iteration_dir(project) / "api-sessions").iterdir())
