"""The stage `refactor`: better code that does the same."""

from collections.abc import Mapping
from typing import Any

from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_context import StageContext
from agentforge.core.pipeline.stages.green import CALLS, CodingStage, kept, restored
from agentforge.core.pipeline.stages.tested import failures_text, paths_in, results_of


class RefactorPhaseExecutor(CodingStage, folder="refactor"):
    """Nothing is to be done if the project's linter finds nothing. What makes a test fail is taken back."""

    artifact_type = "refactored_code"
    carried = ("components", "test_files", "implementation_files")
    ends_with = "complete"

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__({"max_iterations": CALLS, **(config or {})})

    def _execute(self, context: StageContext) -> StageResult:
        tests, given = self.tests_of(context), context.input_artifact
        before = tests.run(timeout=self.timeout)
        if before.status != "pass":
            return self._failed(f"Tests must pass before refactoring: {failures_text(before)}")
        lint = tests.lint(self.timeout)
        whole = paths_in(given, "implementation_files", "test_files")
        if lint is not None and lint.status == "pass":
            return self._left(context, [], whole, results_of(before), conforms=True)
        files = kept(tests, whole)
        told = self.get_user_message(context)
        told += f"\n\nThe linter says:\n\n{failures_text(lint)}" if lint else ""
        reply = self._ask(context, self.get_system_prompt(context), told)
        frozen = {path: files[path] for path in paths_in(given, "test_files") if path in files}
        restored(tests, frozen)
        after = tests.run(timeout=self.timeout)
        if after.status != "pass":
            restored(tests, files)
            return self._failed(f"Tests failed after refactoring: {failures_text(after)}")
        changed = [path for path in self.changed_in(reply) if path not in frozen]
        again = tests.lint(self.timeout)
        whole = list(dict.fromkeys([*whole, *changed]))
        conforms = again is None or again.status == "pass"
        return self._left(context, changed, whole, results_of(after), conforms=conforms)

    def _left(
        self,
        context: StageContext,
        changed: list[str],
        whole: list[str],
        results: dict[str, Any],
        *,
        conforms: bool,
    ) -> StageResult:
        found = {
            "refactored_files": changed,
            "final_files": whole,
            "test_results": results,
            "conformance_passed": conforms,
        }
        artifact = self.artifact_of(found, context)
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact=artifact)

    def warnings_of(self, artifact: dict[str, Any]) -> list[str]:
        return [] if artifact.get("conformance_passed", True) else ["The linter still finds something"]


def create_refactor_executor(config: Mapping[str, Any] | None = None) -> RefactorPhaseExecutor:
    return RefactorPhaseExecutor(config)
