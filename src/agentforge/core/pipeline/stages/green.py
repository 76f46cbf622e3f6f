"""The stage `green`: the code that makes the tests pass."""

from collections.abc import Mapping
from typing import Any

from agentforge import ProjectTests
from agentforge.core.contracts import READING
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_context import StageContext
from agentforge.core.pipeline.stages.tested import TestedStage, failures_text, ids_of, paths_in, results_of

COMPLETE = "complete_implementation"
MAX_ROUNDS = 10
CALLS = 25
WRITING = tuple({"name": name} for name in ("write_file", "edit_file"))
_ROUND = "\n\nThe tests say:\n\n{problem}\n\nCorrect the code until they pass. At the end, call `{tool}`."


class CodingStage(TestedStage):
    """The model changes files with tools, until the tests pass. The files of the tests stay as they are."""

    ends_with: str = COMPLETE

    def _offered_tools(self) -> list[Mapping[str, Any]]:
        schema = {"type": "object", "properties": {"summary": {"type": "string"}}}
        end = {
            "name": self.ends_with,
            "description": "Say that the work is done.",
            "input_schema": schema,
            "ends": True,
        }
        return [*READING, *WRITING, end]

    def get_user_message(self, context: StageContext) -> str:  # noqa: ARG002 - for subclasses
        return f"Do this with the files of the project. At the end, call the tool `{self.ends_with}`."

    def changed_in(self, reply: Mapping[str, Any]) -> list[str]:
        """The files that the model wrote."""
        names = {one["name"] for one in WRITING}
        calls = [call for call in reply.get("tool_results") or () if call.get("tool_name") in names]
        done = [call for call in calls if not str(call.get("result")).startswith("error:")]
        paths = (call["input"].get("path") for call in done if isinstance(call.get("input"), Mapping))
        return list(dict.fromkeys(path for path in paths if isinstance(path, str)))


def kept(tests: ProjectTests, paths: list[str]) -> dict[str, str]:
    return {path: text for path in paths if (text := tests.read(path)) is not None}


def restored(tests: ProjectTests, before: Mapping[str, str]) -> list[str]:
    """Write back those that were changed."""
    changed = [path for path, text in before.items() if tests.read(path) != text]
    return [tests.write(path, before[path]) for path in changed]


class GreenPhaseExecutor(CodingStage, folder="green"):
    """`config` may have `max_rounds`, and `max_iterations` for the answers of the model in one round."""

    artifact_type = "implementation"
    carried = ("components", "test_files", "failing_tests")

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__({"max_iterations": CALLS, **(config or {})})

    def _execute(self, context: StageContext) -> StageResult:
        tests, given = self.tests_of(context), context.input_artifact
        frozen = kept(tests, paths_in(given, "test_files"))
        system, changed = self.get_system_prompt(context), list[str]()
        run, said = tests.run(timeout=self.timeout), ""
        most = int(self.config.get("max_rounds", MAX_ROUNDS))
        for number in range(1, most + 1):
            told = _ROUND.format(problem=said + failures_text(run), tool=self.ends_with)
            reply = self._ask(context, system, self.get_user_message(context) + told)
            changed = list(dict.fromkeys([*changed, *self.changed_in(reply)]))
            undone = restored(tests, frozen)
            said = f"Changes to {', '.join(undone)} were undone: tests stay as they are.\n" if undone else ""
            run = tests.run(timeout=self.timeout)
            if run.status == "pass" and not undone:
                left = [path for path in changed if path not in frozen]
                found = {
                    "implementation_files": left,
                    "test_results": results_of(run),
                    "passing_tests": ids_of(run, "passed"),
                    "summary": str(reply.get("response") or ""),
                    "iterations": number,
                    "all_tests_pass": True,
                }
                return StageResult(
                    self.stage_name, StageStatus.COMPLETED, artifact=self.artifact_of(found, context)
                )
        return self._failed(f"Max iterations ({most}) reached: {failures_text(run)}")

    def warnings_of(self, artifact: dict[str, Any]) -> list[str]:
        return [] if artifact["implementation_files"] else ["No file was changed"]


def create_green_executor(config: Mapping[str, Any] | None = None) -> GreenPhaseExecutor:
    return GreenPhaseExecutor(config)
