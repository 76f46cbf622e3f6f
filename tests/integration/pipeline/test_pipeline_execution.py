"""Whole pipelines: with a model that stages call, over several programs, and with answers from files."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit.pipeline.models import Models
from tests.unit.pipeline.stages import STAGES, TYPE, Recorded, controller, define, done

from agentforge.core.pipeline import (
    LLMStageExecutor,
    PipelineController,
    PipelineStatus,
    StageContext,
    StageResult,
)

PROGRAM = """\
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from tests.unit.pipeline.stages import controller
result = controller(Path("."), supervised=True).execute({request!r}, "simple", resume_pipeline_id={id!r})
print(result.pipeline_id, result.status.value, *result.stages_completed)
"""


class Writes(LLMStageExecutor):
    """A stage whose work is a task for a model, which answers in YAML."""

    output_fields = ("text",)

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage_name = stage

    def get_system_prompt(self, context: StageContext) -> str:
        return "You write."

    def get_user_message(self, context: StageContext) -> str:
        return f"Write {self.stage_name} for: {context.user_request}"

    def parse_response(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        return self.extract_yaml_from_response(llm_result["response"])


def program(project: Path, request: str = "", id: str | None = None) -> list[str]:
    """What another program that runs the pipeline says."""
    code = PROGRAM.format(tests=str(Path(__file__).parents[3]), request=request, id=id)
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.splitlines()[-1].split()


class TestPipelineExecution:
    def test_simple_pipeline_completes(self, tmp_path: Path, models: Models) -> None:
        models.answer("```yaml\ntext: hello\n```")
        define(tmp_path, ("a", "b"))
        made = controller(tmp_path, Writes("a"), Writes("b"))
        result = made.execute("a greeting", TYPE)
        assert result.success, result.error
        assert result.stages_completed == ["a", "b"]
        assert (result.deliverable or {})["text"] == "hello"
        state = made.get_status(result.pipeline_id)
        assert state is not None
        assert state.total_tokens_used > 0

    def test_pipeline_persists_across_restart(self, tmp_path: Path) -> None:
        id, status, *completed = program(tmp_path, "do it")
        assert (status, completed) == ("awaiting_approval", [])
        for number, stage in enumerate(STAGES, 1):
            state = PipelineController(tmp_path).get_status(id)
            assert state is not None
            assert (state.current_stage, len(state.completed_stages)) == (stage, number - 1)
            assert PipelineController(tmp_path).approve(id)
            _, status, *completed = program(tmp_path, id=id)
            assert completed == list(STAGES[:number])
        assert status == "completed"

    def test_escalation_workflow(self, tmp_path: Path) -> None:
        def asks(context: StageContext) -> StageResult:
            if context.previous_feedback is None:
                return executor.escalate(context, "Which provider?")
            return done("b", b=context.previous_feedback)

        executor = Recorded("b", asks)
        made = controller(tmp_path, executor)
        paused = made.execute("do it", TYPE)
        assert (paused.status, paused.current_stage) == (PipelineStatus.PAUSED, "b")
        folder = tmp_path / ".agentforge" / "escalations"
        (escalation,) = folder.glob("ESC-*.yaml")
        assert "status: pending" in escalation.read_text()
        resolution = escalation.with_name(f"{escalation.stem}.resolution.yaml")
        resolution.write_text("abort: false\ncontext: {answer: google}\n")
        result = made.execute(resume_pipeline_id=paused.pipeline_id)
        assert result.status is PipelineStatus.COMPLETED
        assert (result.deliverable or {})["b"] == "answer: google"
        assert "status: resolved" in escalation.read_text()
        assert [len(one.contexts) for one in (executor,)] == [2]
