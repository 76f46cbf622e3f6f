"""What a stage is given, what becomes of its result in each phase, and the files of its artifacts."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.unit.pipeline.states import ID, MAPPINGS, state

from agentforge import InvalidRequest, StorageFailed
from agentforge.core.pipeline import (
    InputValidation,
    OutputValidation,
    PipelineConfig,
    StageArtifact,
    StageContext,
    StageExecutor,
    StagePhase,
    StageResult,
    StageStatus,
)
from agentforge.core.pipeline.stage_executor import failure_text
from agentforge.provider import Usage


class Small(StageExecutor):
    """The ten lines of a team: no prompts, no checks, only `_execute`."""

    stage_name = "count"

    def _execute(self, context: StageContext) -> StageResult:
        return StageResult(
            "count", StageStatus.COMPLETED, artifact={"words": len(context.user_request.split())}
        )


class Failing(StageExecutor):
    """Raises in the phase that the test names."""

    stage_name = "failing"

    def __init__(self, at: StagePhase, error: Exception) -> None:
        super().__init__()
        self._at, self._error = at, error

    def _raise(self, at: StagePhase) -> None:
        if at is self._at:
            raise self._error

    def initialize(self, context: StageContext) -> None:
        self._raise(StagePhase.INITIALIZE)

    def validate_input(self, context: StageContext) -> InputValidation:
        self._raise(StagePhase.VALIDATE_INPUT)
        return InputValidation(valid=True, warnings=["old input"])

    def _execute(self, context: StageContext) -> StageResult:
        self._raise(StagePhase.EXECUTE)
        return StageResult("failing", StageStatus.COMPLETED, artifact={"a": 1}, warnings=["by itself"])

    def validate_output(self, artifact: dict[str, Any] | None) -> OutputValidation:
        self._raise(StagePhase.VALIDATE_OUTPUT)
        return OutputValidation(valid=False, errors=["too short"], warnings=["no title"])

    def finalize(self, context: StageContext, result: StageResult) -> None:
        self._raise(StagePhase.FINALIZE)


def context(project: Path, stage: str = "count", **changes: Any) -> StageContext:
    return StageContext.from_pipeline_state(state(**changes), stage, {}, project)


def test_a_subclass_needs_execute_only(tmp_path: Path) -> None:
    result = Small().execute({}, state(), tmp_path)
    assert (result.success, result.artifact) == (True, {"words": 3})
    assert result.duration_seconds > 0
    assert StageArtifact.load(tmp_path / f".agentforge/artifacts/{ID}/00-count.yaml").data == {"words": 3}


@pytest.mark.parametrize("phase", [*StagePhase][:4])
def test_an_exception_names_its_phase(tmp_path: Path, phase: StagePhase) -> None:
    executor = Failing(phase, ValueError("boom"))
    result = executor.execute({}, state(), tmp_path)
    assert (result.status, result.error) == (StageStatus.FAILED, f"boom (in the phase {phase.value})")
    with pytest.raises(ValueError, match="boom") as raised:
        executor.run(context(tmp_path, "failing"))
    assert failure_text(raised.value).startswith("boom (in the phase ")


def test_an_exception_without_a_message_has_its_name(tmp_path: Path) -> None:
    result = Failing(StagePhase.EXECUTE, KeyError()).execute({}, state(), tmp_path)
    assert result.error == "KeyError (in the phase execute)"


def test_warnings_and_the_artifact_are_kept_when_the_output_is_not_valid(tmp_path: Path) -> None:
    result = Failing(StagePhase.FINALIZE, ValueError()).execute({}, state(), tmp_path)
    assert result.error == "Output validation failed: ['too short']"
    assert result.warnings == ["old input", "by itself", "no title"]
    assert result.artifact == {"a": 1}
    assert result.duration_seconds > 0


def test_an_early_result_has_a_duration(tmp_path: Path) -> None:
    class Early(Small):
        def initialize(self, context: StageContext) -> StageResult:
            return StageResult("count", StageStatus.COMPLETED, artifact={"words": 0})

    result = Early().execute({}, state(), tmp_path)
    assert (result.artifact, result.duration_seconds > 0) == ({"words": 0}, True)


@pytest.mark.parametrize("value", [None, "missing"])
def test_a_required_field_that_is_none_is_missing(tmp_path: Path, value: str | None) -> None:
    class Strict(Small):
        required_input_fields = ("request_id",)
        output_fields = ("words", "letters")

    given: dict[str, Any] = {} if value else {"request_id": None}
    result = Strict().execute(given, state(), tmp_path)
    assert result.error == "Input validation failed: ['Missing required field: request_id']"
    assert Strict().validate_output({"words": 1, "letters": None}).errors == ["Missing output field: letters"]


def test_a_completed_stage_without_an_artifact_fails(tmp_path: Path) -> None:
    class Nothing(Small):
        def _execute(self, context: StageContext) -> StageResult:
            return StageResult("count", StageStatus.COMPLETED)

    result = Nothing().execute({}, state(), tmp_path)
    assert result.error == "Output validation failed: ['No artifact produced']"


def test_what_is_not_a_result_is_named(tmp_path: Path) -> None:
    class Wrong(Small):
        def _execute(self, context: StageContext) -> Any:
            return {"words": 3}

    result = Wrong().execute({}, state(), tmp_path)
    assert result.error == "Wrong._execute returned dict, not a StageResult (in the phase execute)"


def test_an_unusable_state_is_a_failed_result(tmp_path: Path) -> None:
    assert Small().execute({}, None, tmp_path).status is StageStatus.FAILED  # type: ignore[arg-type]


def test_an_escalation_and_a_failure_are_not_checked(tmp_path: Path) -> None:
    class Asking(Failing):
        def _execute(self, context: StageContext) -> StageResult:
            return self.escalate(context, "Which one?")

    result = Asking(StagePhase.VALIDATE_OUTPUT, ValueError()).execute({}, state(), tmp_path)
    assert (result.escalation_reason, result.warnings) == ("Which one?", ["old input"])


# -- the context


def test_the_context_has_all_that_the_state_says(tmp_path: Path) -> None:
    found = context(
        tmp_path,
        completed_stages=["intake"],
        stage_artifacts={"intake": {"a": 1}, "count": {"words": 1}},
        iteration_count={"count": 2},
        pending_feedback="more",
        current_stage_index=1,
        config=PipelineConfig("design", ["intake", "count"], timeout_seconds=30),
    )
    assert (found.pipeline_id, found.pipeline_type, found.stage_name) == (ID, "design", "count")
    assert (found.stage_index, found.iteration, found.completed_stages) == (1, 2, ["intake"])
    assert (found.previous_feedback, found.previous_attempt) == ("more", {"words": 1})
    assert (found.project_path, found.agentforge_path) == (tmp_path, tmp_path / ".agentforge")
    assert (found.timeout_seconds, found.max_tokens) == (30, 100_000)
    assert context(tmp_path, pending_artifact={"words": 2}).previous_attempt == {"words": 2}


def test_the_config_of_a_stage_sets_its_limits(tmp_path: Path) -> None:
    limits = {"timeout_seconds": 5, "max_tokens": 6}
    found = StageContext.from_pipeline_state(state(), "count", {}, tmp_path, limits)
    assert (found.timeout_seconds, found.max_tokens) == (5, 6)


def test_a_stage_changes_nothing_of_the_pipeline(tmp_path: Path) -> None:
    before = state(stage_artifacts={"intake": {"files": ["a"]}}, completed_stages=["intake"])
    given = {"files": ["a"]}

    class Changing(Small):
        def _execute(self, context: StageContext) -> StageResult:
            context.input_artifact["files"].append("b")
            context.stage_artifacts["intake"]["files"].append("b")
            context.completed_stages.append("count")
            return super()._execute(context)

    assert Changing().execute(given, before, tmp_path).success
    assert given == before.stage_artifacts["intake"] == {"files": ["a"]}
    assert before.completed_stages == ["intake"]


def test_no_two_executors_share_their_config() -> None:
    given: Mapping[str, Any] = {"a": 1}
    one, other = Small(given), Small(given)
    one.config["a"] = 2
    assert (other.config, Small().config) == ({"a": 1}, {})
    assert isinstance(StageExecutor.required_input_fields, tuple)


# -- the files


def test_the_artifacts_of_earlier_attempts_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / f".agentforge/artifacts/{ID}"
    for iteration in (0, 1, 1, 2):
        Small()._save_artifact(
            context(tmp_path, iteration_count={"count": iteration}, current_stage_index=3), {"i": iteration}
        )
    names = {path.name: StageArtifact.load(path) for path in folder.iterdir()}
    assert {name: one.data["i"] for name, one in names.items()} == {
        "03-count.yaml": 2,
        "03-count.it0.yaml": 0,
        "03-count.it1.yaml": 1,
    }
    assert {name: one.metadata["iteration"] for name, one in names.items()}["03-count.it1.yaml"] == 1


def test_what_the_models_used_is_in_the_file(tmp_path: Path) -> None:
    class Thinking(Small):
        def _execute(self, context: StageContext) -> StageResult:
            self._count(Usage(input_tokens=1000, output_tokens=None, cost_usd=0.5))
            self._count(Usage(input_tokens=500, output_tokens=20, model="m"))
            return super()._execute(context)

    executor = Thinking()
    result = executor.execute({}, state(), tmp_path)
    assert result.usage == Usage(input_tokens=1500, output_tokens=20, cost_usd=0.5, model="m")
    saved = StageArtifact.load(tmp_path / f".agentforge/artifacts/{ID}/00-count.yaml")
    assert (saved.metadata["tokens_used"], saved.metadata["pipeline_id"]) == (1520, ID)
    assert executor.execute({}, state(), tmp_path).usage == result.usage


def test_the_engine_saves_the_artifact_of_a_run(tmp_path: Path) -> None:
    given = context(tmp_path)
    given.saves_artifact = False
    assert Small().run(given).success
    assert not (tmp_path / ".agentforge").exists()


@pytest.mark.parametrize("content", ["torn: [", "- a list", None])
def test_an_unreadable_artifact_is_replaced(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / f".agentforge/artifacts/{ID}/00-count.yaml"
    path.parent.mkdir(parents=True)
    if content is None:
        path.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_text("mine")
    else:
        path.write_text(content)
    assert Small().execute({}, state(), tmp_path).success
    assert StageArtifact.load(path).data == {"words": 3}
    assert content is not None or (tmp_path / "elsewhere").read_text() == "mine"


def test_no_artifact_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".agentforge").mkdir()
    (tmp_path / ".agentforge/artifacts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed):
        Small().run(context(tmp_path))
    assert list((tmp_path / "elsewhere").iterdir()) == []


# -- StageArtifact


@given(MAPPINGS, MAPPINGS)
def test_any_plain_data_survives(data: dict[str, Any], metadata: dict[str, Any]) -> None:
    before = StageArtifact("count", "counted", data=data, metadata=metadata)
    after = StageArtifact.from_dict(before.to_dict())
    own = {key: value for key, value in data.items() if key not in ("_artifact_meta", "_metadata")}
    assert (after.data, after.metadata, after.created_at) == (own, metadata, before.created_at)


def test_data_does_not_replace_the_parts_of_the_file() -> None:
    found = StageArtifact(
        "count", "counted", data={"_artifact_meta": {"stage_name": "other"}, "_metadata": 1}
    )
    assert StageArtifact.from_dict(found.to_dict()).stage_name == "count"


@pytest.mark.parametrize("written", ["2026-01-02T15:30:00Z", "2026-01-02 15:30:00", "'2026-01-02T15:30:00'"])
def test_times_are_read_however_they_are_written(tmp_path: Path, written: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"_artifact_meta: {{created_at: {written}}}\na: 1\n")
    found = StageArtifact.load(path)
    assert (found.created_at, found.data) == (datetime(2026, 1, 2, 15, 30, tzinfo=UTC), {"a": 1})
    assert (found.stage_name, found.artifact_type, found.version) == ("unknown", "unknown", "1.0")


def test_a_time_that_is_none_is_now() -> None:
    assert StageArtifact.from_dict({"_artifact_meta": {"created_at": "soon"}}).created_at.tzinfo is UTC
    at = datetime(2026, 1, 2)
    assert StageArtifact.from_dict({"_artifact_meta": {"created_at": at}}).created_at == at.replace(
        tzinfo=UTC
    )


@pytest.mark.parametrize("content", [None, "- 1"])
def test_a_file_without_an_artifact_is_refused(tmp_path: Path, content: str | None) -> None:
    if content:
        (tmp_path / "a.yaml").write_text(content)
    with pytest.raises(InvalidRequest, match=r"a\.yaml is (missing|not the artifact of a stage)"):
        StageArtifact.load(tmp_path / "a.yaml")
