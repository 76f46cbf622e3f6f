"""The stage `red`: the tests of a specification, which fail as long as there is no code."""

import re
from collections.abc import Mapping
from typing import Any

from agentforge import InvalidRequest
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_context import StageContext
from agentforge.core.pipeline.stages.tested import TestedStage, failures_text, ids_of, results_of

MAX_ROUNDS = 3
_FILE = re.compile(
    r"^### FILE: *`?([^\n`]+?)`? *\n+(`{3,})[\w+-]* *\n(.*?)\n?^\2 *$", re.MULTILINE | re.DOTALL
)
_AGAIN = "\n\nYour previous tests can't be used:\n\n{problem}\n\nAnswer again, with all files."


class RedPhaseExecutor(TestedStage, folder="red"):
    """The model answers with files; they are written to test folders, and must fail. `config` may have
    `max_rounds`."""

    artifact_type = "test_suite"
    carried = ("components", "acceptance_criteria")
    answer = (
        "answer with every file whole, each as a line `### FILE: <path>` and a fenced block with its content,"
        " and nothing after them."
    )

    def _execute(self, context: StageContext) -> StageResult:
        system, message, problem = self.get_system_prompt(context), self.get_user_message(context), ""
        for _ in range(int(self.config.get("max_rounds", MAX_ROUNDS))):
            told = message + (_AGAIN.format(problem=problem) if problem else "")
            reply = self._ask(context, system, told)
            found = self.read_answer(reply, context)
            if found is None:
                problem = "No file was found in the answer."
            elif isinstance(found.get("problem"), str):
                problem = found["problem"]
            else:
                artifact = self.artifact_of(found, context)
                return StageResult(self.stage_name, StageStatus.COMPLETED, artifact=artifact)
        return self._failed(f"The tests are not red: {problem}")

    def get_user_message(self, context: StageContext) -> str:  # noqa: ARG002 - files have no schema
        return f"Do this for the specification in the context below: {self.answer}"

    def read_answer(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        """Writes the files, and runs them; `problem` instead of the fields if they aren't as they must be."""
        written = _FILE.findall(str(llm_result.get("response") or ""))
        if not written:
            return None
        tests = self.tests_of(context)
        try:
            paths = [tests.write(path, f"{text}\n", self.contract.scope) for path, _, text in written]
        except InvalidRequest as error:
            return {"problem": f"{error.message}; {error.hint}"}
        run = tests.run(paths, expect="red", timeout=self.timeout)
        if run.status != "pass":
            return {"problem": failures_text(run)}
        return {
            "test_files": paths,
            "test_results": results_of(run),
            "failing_tests": ids_of(run, "failed", "error"),
        }


def create_red_executor(config: Mapping[str, Any] | None = None) -> RedPhaseExecutor:
    return RedPhaseExecutor(config)
