"""What the stages share that work with tests: they run them, and the outcome is part of their artifact."""

from collections.abc import Iterable, Mapping
from typing import Any

from agentforge import ProjectTests, SuiteRun
from agentforge.core.pipeline.stage_context import StageContext
from agentforge.core.pipeline.stages.packaged import PackagedStage

SPEC_ID = "spec_id"
MAX_OUTPUT = 20_000
MAX_TOLD = 200
"""Characters of each failure that a model is told."""


class TestedStage(PackagedStage):
    """`config` may have `test_command` and `test_timeout` (300 seconds)."""

    __test__ = False

    def tests_of(self, context: StageContext) -> ProjectTests:
        return ProjectTests(context.project_path, command=str(self.config.get("test_command") or ""))

    @property
    def timeout(self) -> float:
        return float(self.config.get("test_timeout", 300))

    def given_fields(self, context: StageContext) -> dict[str, Any]:
        given = super().given_fields(context)
        return {**given, SPEC_ID: context.input_artifact[SPEC_ID]}

    def asked_schema(self, context: StageContext) -> dict[str, Any]:
        schema = super().asked_schema(context)
        known = {name for name in ENGINE_FIELDS if name in schema["properties"]}
        schema["properties"] = {name: one for name, one in schema["properties"].items() if name not in known}
        schema["required"] = [name for name in schema["required"] if name not in known]
        return schema


ENGINE_FIELDS = (
    *("test_results", "failing_tests", "passing_tests", "implementation_files", "refactored_files"),
    "final_files",
)
"""Established by running the tests and looking at the files; a model isn't asked."""


def results_of(run: SuiteRun) -> dict[str, Any]:
    counts = run.counts
    return {
        "passed": counts.passed,
        "failed": counts.failed,
        "errors": counts.errors,
        "skipped": counts.skipped,
        "total": counts.total,
        "exit_code": run.exit_code,
        "output": run.output[-MAX_OUTPUT:],
        "test_details": [
            {"name": test.id, "status": test.status, "message": test.message} for test in run.tests
        ],
    }


def ids_of(run: SuiteRun, *statuses: str) -> list[str]:
    return [test.id for test in run.tests if test.status in statuses]


def failures_text(run: SuiteRun) -> str:
    """What still fails, for a model."""
    counts = run.counts
    head = (
        f"{run.reason or run.status}: {counts.passed} passed, {counts.failed} failed, {counts.errors} errors"
    )
    failed = [test for test in run.tests if test.status in ("failed", "error")]
    lines = [f"- {test.id}: {test.message[:MAX_TOLD]}" for test in failed]
    return "\n".join([head, *(lines or [run.output[-MAX_OUTPUT:]])])


def paths_in(artifact: Mapping[str, Any], *fields: str) -> list[str]:
    listed: Iterable[Any] = (path for field in fields for path in artifact.get(field) or ())
    return list(dict.fromkeys(path for path in listed if isinstance(path, str)))
