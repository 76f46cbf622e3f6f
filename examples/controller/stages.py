"""The stages of the example: what a team writes."""

import time
from pathlib import Path

from agentforge.core.pipeline import StageContext, StageExecutor, StageResult, StageStatus


class Classify(StageExecutor):
    """Registered by the program, and executed in it."""

    stage_name = "classify"
    output_fields = ("kind",)

    def _execute(self, context: StageContext) -> StageResult:
        kind = "fix" if "fix" in context.user_request.lower() else "feature"
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact={"kind": kind})


class Write(StageExecutor):
    """Named by its stage.yaml, and executed in a program of its own, which survives the engine."""

    stage_name = "write"
    required_input_fields = ("kind",)
    output_fields = ("entry",)

    def _execute(self, context: StageContext) -> StageResult:
        with Path("executed.txt").open("a") as ledger:
            ledger.write("write\n")
        time.sleep(self.config.get("seconds", 0))
        words = context.previous_feedback or context.user_request
        entry = f"{context.input_artifact['kind']}: {words}"
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact={"entry": entry})
