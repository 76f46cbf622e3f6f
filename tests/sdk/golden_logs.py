"""Records the golden logs: `python -m tests.sdk.golden_logs` writes them again, after a change of the log's
format. Each is the complete log of a run with scripted agents."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from agentforge.model.state import MACHINE_SHUTDOWN
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.fake_clock import FakeClock
from agentforge.testing.scripted_provider import Act, crashes, says

from .projects import ENVIRON, node, pipeline, run, run_dir

GOLDEN = Path(__file__).parent / "golden"
TIMES = {"COMPILE_TIMESTAMP": "2026-01-14T00:00:00Z", "SESSION_CREATED_AT": "2026-01-13T00:00:00Z"}
ONE_PROVIDER = {"name": "p", "type": "scripted"}
OTHER_PROVIDER = {"name": "q", "type": "scripted"}


def engine_of(project: Path, acts: list[Act]) -> Engine:
    cast = {"scripted": ScriptedProvider(acts)}
    return Engine(project, providers=cast, environ={**ENVIRON, **TIMES}, clock=FakeClock())


def stages(project: Path) -> None:
    """Two stages, with a retry, a delay between iterations and an agent that asks to stop."""
    made = engine_of(project, [crashes(), says("first"), says("second"), says("third", "stop")])
    run(made.run(pipeline(node("plan", runs=2, delay=3), node("build", runs=5)), session="s"))


def block(project: Path) -> None:
    """Two providers with two stages each, and a stage that reads their outputs."""
    inner = [{"id": "draft", "prompt": "x", "runs": 2}, {"id": "check", "prompt": "x", "runs": 1}]
    nodes = (
        {"id": "duel", "parallel": {"providers": [ONE_PROVIDER, OTHER_PROVIDER], "stages": inner}},
        node("merge", inputs={"from_parallel": {"stage": "draft"}}),
    )
    run(engine_of(project, [says("done")]).run(pipeline(*nodes), session="s"))


def stopped(project: Path) -> None:
    """Paused by a shutdown, recovered, paused by a person, resumed with a note, and cancelled."""

    def stops(reason: str) -> Act:
        def act(request: ExecuteRequest) -> ExecuteResult:
            made.interrupt(reason)
            return says("done")(request)

        return act

    made = engine_of(project, [stops(MACHINE_SHUTDOWN), stops("lunch"), stops("dinner")])
    run(made.run(pipeline(node(runs=5)), session="s"))
    run(made.recover("s"))
    run(made.resume("s", "go on"))
    run(made.cancel("s", "enough"))


def asked(project: Path) -> None:
    """Work that must not be repeated without asking: it fails, and a person lets it be repeated."""
    made = engine_of(project, [crashes(), says("done")])
    run(made.run(pipeline(node(semantics="at_most_once")), session="s"))
    run(made.answer("s", "resume"))


def decided(project: Path) -> None:
    """A person clears a checkpoint, rejects a result with feedback, and approves the next one."""
    made = engine_of(project, [says("first"), says("second")])
    run(made.run(pipeline(node(approve={"message": "Good?"}, checkpoint="go")), session="s"))
    run(made.answer("s", "approve"))
    run(made.answer("s", "reject", text="shorter"))
    run(made.answer("s", "approve"))


RUNS: dict[str, Callable[[Path], None]] = {
    "stages": stages,
    "block": block,
    "stopped": stopped,
    "asked": asked,
    "decided": decided,
}


def record() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name, make in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            shutil.copy(run_dir(Path(folder)) / "events.jsonl", GOLDEN / f"{name}.jsonl")


if __name__ == "__main__":
    record()
