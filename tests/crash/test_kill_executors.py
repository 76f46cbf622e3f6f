"""The engine is killed while a stage executor works, in each of its phases."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from tests.surface.terminal import wait_for

from agentforge import Runs
from agentforge.core.pipeline import PipelineController, PipelineStatus, StagePhase

ID = "PL-20260102153000-1a2b3c4d"
PHASES = [phase.value for phase in StagePhase]
CLASS = """\
    import os, time
    from agentforge.core.pipeline import InputValidation, OutputValidation
    from agentforge.core.pipeline import StageExecutor, StageResult, StageStatus

    HERE = os.path.dirname(os.path.abspath(__file__))

    class Slow(StageExecutor):
        def __init__(self, config=None):
            super().__init__(config)
            self.stage_name = "work"

        def phase(self, name):
            with open(os.path.join(HERE, "ledger"), "a") as ledger:
                ledger.write(name + "\\n")
            while self.config.get("hold") == name and not os.path.exists(os.path.join(HERE, "go")):
                time.sleep(0.01)

        def initialize(self, context):
            self.phase("initialize")

        def validate_input(self, context):
            self.phase("validate_input")
            return InputValidation(True)

        def _execute(self, context):
            self.phase("execute")
            return StageResult("work", StageStatus.COMPLETED, artifact={"done": True})

        def validate_output(self, artifact):
            self.phase("validate_output")
            return OutputValidation(True)

        def finalize(self, context, result):
            self.phase("finalize")
"""
PROGRAM = """\
    import sys
    from slow import Slow
    from agentforge.core.pipeline import PipelineController

    made = PipelineController(".")
    made.stage_registry.register("work", Slow({"hold": sys.argv[1]}))
    made.execute("do it", "p")
"""


class Killed:
    """A project whose engine is killed."""

    def __init__(self, root: Path, hold: str, *, own: bool, **node: object) -> None:
        self.root, self.hold, self.own = root, hold, own
        (root / "slow.py").write_text(textwrap.dedent(CLASS))
        (root / "program.py").write_text(textwrap.dedent(PROGRAM))
        stage: dict[str, object] = {"id": "work", "stage": "work", **node}
        if not own:
            stage = {"id": "work", "executor": {"python": "slow:Slow", "config": {"hold": hold}}, **node}
        content = {
            "name": "p",
            "request": "required",
            "views": ["escalations", "controller"],
            "nodes": [stage],
        }
        folder = root / ".claude" / "pipelines"
        folder.mkdir(parents=True)
        (folder / "p.yaml").write_text(yaml.safe_dump(content))

    def controller(self) -> PipelineController:
        made = PipelineController(self.root)
        if self.own:
            sys.path.insert(0, str(self.root))
            try:
                sys.modules.pop("slow", None)
                from slow import Slow  # type: ignore[import-not-found]
            finally:
                sys.path.remove(str(self.root))
            made.stage_registry.register("work", Slow({}))
        return made

    @property
    def id(self) -> str:
        (session,) = Runs(self.root).sessions()
        return session

    def ledger(self) -> list[str]:
        path = self.root / "ledger"
        return path.read_text().split() if path.exists() else []

    def kill(self) -> None:
        """The engine, in the phase that holds."""
        command = [sys.executable, "program.py", self.hold]
        if not self.own:
            command = [sys.executable, "-m", "agentforge", "run", "-p", "p", "-s", ID, "do it"]
        with subprocess.Popen(
            command, cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as engine:
            try:
                wait_for(lambda: self.hold in self.ledger(), self.hold)
            finally:
                os.kill(engine.pid, signal.SIGKILL)

    def types(self) -> list[str]:
        return [event.fact.TYPE for event in Runs(self.root).events(self.id)]

    def places(self) -> list[str]:
        base = self.root / ".agentforge" / "pipeline"
        return [name for name in ("active", "completed") if (base / name / f"{self.id}.yaml").exists()]


@pytest.mark.parametrize("phase", PHASES)
def test_class_of_a_killed_engine_is_reattached_to_and_executes_once(tmp_path: Path, phase: str) -> None:
    killed = Killed(tmp_path, phase, own=False)
    killed.kill()
    assert killed.places() == ["active"]
    (tmp_path / "go").touch()
    result = killed.controller().execute(resume_pipeline_id=killed.id)
    assert (result.status, killed.ledger()) == (PipelineStatus.COMPLETED, PHASES)
    assert killed.types().count("attempt_start") == 1
    assert killed.places() == ["completed"]


@pytest.mark.parametrize("phase", PHASES)
def test_executor_that_dies_with_its_program_is_lost_and_repeated(tmp_path: Path, phase: str) -> None:
    killed = Killed(tmp_path, phase, own=True)
    killed.kill()
    before = killed.ledger()
    result = killed.controller().execute(resume_pipeline_id=killed.id)
    assert (result.status, killed.ledger()) == (PipelineStatus.COMPLETED, before + PHASES)
    assert killed.types().count("attempt_lost") == 1
    assert killed.places() == ["completed"]


def test_executor_that_must_run_at_most_once_is_asked_about(tmp_path: Path) -> None:
    killed = Killed(tmp_path, "execute", own=True, semantics="at_most_once")
    killed.kill()
    before = killed.ledger()
    made = killed.controller()
    assert made.execute(resume_pipeline_id=killed.id).status is PipelineStatus.PAUSED
    assert killed.ledger() == before
    assert made.provide_feedback(killed.id, "It was not done")
    assert made.execute(resume_pipeline_id=killed.id).status is PipelineStatus.COMPLETED


def test_another_process_ends_what_a_killed_engine_left(tmp_path: Path) -> None:
    killed = Killed(tmp_path, "execute", own=False)
    killed.kill()
    assert PipelineController(tmp_path).abort(killed.id, "not needed")
    state = PipelineController(tmp_path).get_status(killed.id)
    assert state is not None
    assert (state.status, state.error) == (PipelineStatus.ABORTED, "not needed")
    assert (killed.places(), killed.ledger()[-1]) == (["completed"], "execute")
