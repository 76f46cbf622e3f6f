"""The controller of pipelines: it runs, asks, resumes and ends runs as the specification of its API says."""

import io
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.stages import STAGES, TYPE, Handler, Recorded, Silent, controller, define, done

from agentforge import AgentForgeError, InvalidRequest, RunLayout, Runs
from agentforge.core.pipeline import (
    ApprovalResult,
    DefaultEscalationHandler,
    EscalationResolution,
    PipelineConfig,
    PipelineController,
    PipelineResult,
    PipelineStatus,
    StageContext,
    StageExecutor,
    StageResult,
    StageStatus,
)

YES = ApprovalResult(approved=True)


def fails(times: int, error: Exception | None = None, stage: str = "b") -> Recorded:
    """An executor that raises, or returns a failure, so often."""
    tries: list[int] = []

    def work(_: StageContext) -> StageResult:
        tries.append(1)
        if len(tries) > times:
            return done(stage, **{stage: "done"})
        if error is not None:
            raise error
        return StageResult(stage, StageStatus.FAILED, error="the file is missing")

    return Recorded(stage, work)


def asks(*questions: str, stage: str = "b") -> Recorded:
    """An executor that escalates until each question is answered."""
    executor: Recorded

    def work(context: StageContext) -> StageResult:
        answers = context.input_artifact.get("question_answers", {})
        if len(answers) < len(questions):
            return executor.escalate(context, questions[len(answers)])
        return done(stage, **{stage: dict(answers)})

    executor = Recorded(stage, work)
    return executor


def execute(made: PipelineController, request: str = "Add OAuth2", **how: Any) -> PipelineResult:
    result = made.execute(request, TYPE, **how)
    assert result.status is not PipelineStatus.FAILED or result.error
    return result


def executors(made: PipelineController) -> list[Recorded]:
    found = [made.stage_registry.get(name) for name in STAGES]
    return [one for one in found if isinstance(one, Recorded)]


def visits(made: PipelineController) -> list[int]:
    """How often each stage was executed."""
    return [len(one.contexts) for one in executors(made)]


class TestPipelineController:
    def test_create_pipeline_generates_unique_id(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        ids = {execute(made).pipeline_id for _ in range(3)}
        assert len(ids) == 3
        assert all(re.fullmatch(r"PL-\d{14}-[0-9a-f]{8}", id) for id in ids)

    def test_execute_runs_all_stages_in_order(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        result = execute(made, context={"ticket": 7})
        assert (result.success, result.status, result.error) == (True, PipelineStatus.COMPLETED, None)
        assert result.stages_completed == list(STAGES)
        assert result.total_duration_seconds > 0
        assert result.deliverable is not None
        assert {"ticket": 7, "a": "done", "b": "done", "c": "done"}.items() <= result.deliverable.items()
        a, b, c = (one.contexts[0] for one in executors(made))
        assert a.input_artifact["original_request"] == a.user_request == "Add OAuth2"
        assert (b.stage_index, b.completed_stages, b.stage_artifacts["a"]["a"]) == (1, ["a"], "done")
        assert {"ticket": 7, "a": "done", "b": "done"}.items() <= c.input_artifact.items()

    def test_execute_stops_on_stage_failure(self, tmp_path: Path) -> None:
        made = controller(tmp_path, fails(9))
        result = execute(made)
        assert (result.success, result.status) == (False, PipelineStatus.FAILED)
        assert result.error == "the file is missing"
        assert (result.current_stage, result.stages_completed) == ("b", ["a"])
        assert visits(made) == [1, 1, 0]

    def test_execute_handles_escalation(self, tmp_path: Path) -> None:
        handler = Handler(EscalationResolution(context={"provider": "google"}))
        made = controller(tmp_path, asks("Which provider?"), handler=handler)
        result = execute(made)
        assert result.status is PipelineStatus.COMPLETED
        assert handler.asked == [("b", "Which provider?")]
        again = executors(made)[1].contexts[1]
        assert again.input_artifact["question_answers"] == {"Which provider?": "provider: google"}
        assert again.previous_feedback == "provider: google"

    def test_resume_continues_from_current_stage(self, tmp_path: Path) -> None:
        made = controller(tmp_path, fails(1))
        failed = execute(made)
        assert failed.status is PipelineStatus.FAILED
        result = made.execute(resume_pipeline_id=failed.pipeline_id)
        assert (result.pipeline_id, result.status) == (failed.pipeline_id, PipelineStatus.COMPLETED)
        assert visits(made) == [1, 2, 1]
        assert executors(made)[1].contexts[1].input_artifact["a"] == "done"

    def test_supervised_mode_pauses_between_stages(self, tmp_path: Path) -> None:
        handler = Handler(YES, YES, YES)
        made = controller(tmp_path, handler=handler, supervised=True)
        assert execute(made).status is PipelineStatus.COMPLETED
        assert handler.asked == [(name, "done") for name in STAGES]  # Also the last one.

    def test_early_exit_stops_at_configured_stage(self, tmp_path: Path) -> None:
        made = controller(tmp_path, exit_after="b")
        result = execute(made)
        assert (result.status, result.stages_completed) == (PipelineStatus.COMPLETED, ["a", "b"])
        assert visits(made) == [1, 1, 0]

    def test_abort_terminates_running_pipeline(self, tmp_path: Path) -> None:
        made = controller(tmp_path, supervised=True)

        def abort(context: StageContext) -> StageResult:
            # Of another process, while the stage runs.
            assert PipelineController(tmp_path).abort(context.pipeline_id, "out of scope")
            return done("b", b="done")

        made.stage_registry.register("b", Recorded("b", abort))
        waiting = execute(made)
        assert waiting.status is PipelineStatus.AWAITING_APPROVAL
        assert made.approve(waiting.pipeline_id)
        state = made.get_status(waiting.pipeline_id)
        assert state is not None
        assert (state.status, state.error) == (PipelineStatus.ABORTED, "out of scope")
        assert not made.abort(waiting.pipeline_id)
        assert visits(made)[2] == 0


class TestFeedback:
    def test_feedback_runs_the_same_stage_again_once(self, tmp_path: Path) -> None:
        answers = (YES, ApprovalResult(False, "Shorter, please"), YES, YES)
        made = controller(tmp_path, handler=Handler(*answers), supervised=True)
        result = execute(made)
        assert (result.status, result.stages_completed) == (PipelineStatus.COMPLETED, list(STAGES))
        assert visits(made) == [1, 2, 1]
        again, last = executors(made)[1].contexts[1], executors(made)[2].contexts[0]
        assert (again.previous_feedback, again.iteration) == ("Shorter, please", 1)
        assert (again.previous_attempt or {})["b"] == "done"
        assert last.previous_feedback is None

    def test_rounds_of_feedback_are_bounded(self, tmp_path: Path) -> None:
        no = ApprovalResult(False, "No")
        handler = Handler(no, no, EscalationResolution(abort=True))
        made = controller(tmp_path, handler=handler, supervised=True, max_iterations_per_stage=2)
        result = execute(made)
        assert (result.status, result.error) == (PipelineStatus.ABORTED, "User aborted after escalation")
        assert visits(made) == [2, 0, 0]

    @pytest.mark.parametrize(
        ("answer", "override"),
        [(ApprovalResult(False), {}), (ApprovalResult(False, "No"), {"iteration_enabled": False})],
    )
    def test_rejection_that_runs_nothing_again_aborts(
        self, tmp_path: Path, answer: ApprovalResult, override: dict[str, Any]
    ) -> None:
        made = controller(tmp_path, handler=Handler(answer), supervised=True, **override)
        result = execute(made)
        assert (result.status, visits(made)) == (PipelineStatus.ABORTED, [1, 0, 0])
        assert result.error

    def test_feedback_for_a_waiting_pipeline_is_used_by_its_resume(self, tmp_path: Path) -> None:
        made = controller(tmp_path, supervised=True)
        id = execute(made).pipeline_id
        assert made.provide_feedback(id, "Shorter, please")
        assert not made.provide_feedback(id, "And faster")
        assert visits(made) == [1, 0, 0]
        assert made.execute(resume_pipeline_id=id).status is PipelineStatus.AWAITING_APPROVAL
        assert executors(made)[0].contexts[1].previous_feedback == "Shorter, please"

    def test_feedback_answers_a_question(self, tmp_path: Path) -> None:
        made = controller(tmp_path, asks("Which?"))
        paused = execute(made)
        assert paused.status is PipelineStatus.PAUSED
        assert made.provide_feedback(paused.pipeline_id, "this one")
        assert made.execute(resume_pipeline_id=paused.pipeline_id).status is PipelineStatus.COMPLETED

    def test_approval_counts_once_and_continues(self, tmp_path: Path) -> None:
        made = controller(tmp_path, supervised=True)
        id = execute(made).pipeline_id
        assert [made.approve(id) for _ in range(4)] == [True, True, True, False]
        state = made.get_status(id)
        assert state is not None
        assert (state.status, state.approved_stages) == (PipelineStatus.COMPLETED, list(STAGES))
        assert visits(made) == [1, 1, 1]


class TestEscalations:
    def test_without_a_handler_the_question_is_printed_and_execute_returns(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        result = execute(controller(tmp_path, asks("Which?")))
        assert (result.success, result.status) == (False, PipelineStatus.PAUSED)
        printed = capsys.readouterr().out
        assert "ESCALATION REQUIRED" in printed
        (file,) = (tmp_path / ".agentforge" / "escalations").glob("ESC-*.yaml")
        assert f"{file.name.removesuffix('.yaml')}.resolution.yaml" in printed

    def test_second_escalation_asks_again(self, tmp_path: Path) -> None:
        handler = Handler(*(EscalationResolution(context={"it": name}) for name in ("x", "y", "z")))
        made = controller(tmp_path, asks("Which?", "Which?", "Why?"), handler=handler)
        result = execute(made)
        assert result.status is PipelineStatus.COMPLETED
        assert [issue for _, issue in handler.asked] == ["Which?", "Which? (asked again: 2)", "Why?"]

    def test_escalation_times_out(self, tmp_path: Path) -> None:
        result = execute(controller(tmp_path, asks("Which?"), handler=Silent(0.3)))
        assert (result.status, result.error) == (PipelineStatus.ABORTED, "escalation timed out")

    def test_abort_of_an_escalation(self, tmp_path: Path) -> None:
        handler = Handler(EscalationResolution(abort=True))
        result = execute(controller(tmp_path, asks("Which?"), handler=handler))
        assert (result.status, result.current_stage) == (PipelineStatus.ABORTED, None)
        assert result.error == "User aborted after escalation"

    def test_resolution_file_is_an_answer_while_a_handler_waits(self, tmp_path: Path) -> None:
        class Writes(Silent):
            def wait_for_resolution(self, *_: Any, **how: Any) -> None:
                context = _[3] if len(_) > 3 else how["context"]
                (tmp_path / context["resolution_file"]).write_text("abort: false\ncontext: this one\n")

        made = controller(tmp_path, asks("Which?"), handler=Writes(60))
        assert execute(made).status is PipelineStatus.COMPLETED


class TestDefaultHandler:
    @pytest.mark.parametrize(
        ("typed", "answer"),
        [
            ("y\n", YES),
            ("YES\n", YES),
            ("n\n", ApprovalResult(False)),
            ("\n\nUse Tabs\n", ApprovalResult(False, "Use Tabs")),
            ("", None),
        ],
    )
    def test_approvals_are_asked_on_a_terminal(
        self, monkeypatch: pytest.MonkeyPatch, typed: str, answer: ApprovalResult | None
    ) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setattr("sys.stdin", Terminal(typed))
        assert DefaultEscalationHandler().request_approval("PL-1", "spec", {"a": 1}) == answer

    def test_without_a_terminal_only_answers_from_elsewhere_count(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        handler = DefaultEscalationHandler()
        assert handler.request_approval("PL-1", "spec", None) is None
        assert handler.wait_for_resolution("PL-1", "spec", "Which?") is None
        assert "agentforge answer PL-1" in capsys.readouterr().out


class TestFailures:
    def test_exceptions_are_retried_and_counted(self, tmp_path: Path) -> None:
        made = controller(tmp_path, fails(9, ValueError("boom")))
        result = execute(made)
        assert result.error == "Stage failed after 3 attempts: ValueError: boom (in the phase execute)"
        made = controller(tmp_path, fails(2, ValueError("boom")))
        assert execute(made).status is PipelineStatus.COMPLETED

    def test_stage_without_an_artifact_fails(self, tmp_path: Path) -> None:
        nothing = Recorded("b", lambda _: StageResult("b", StageStatus.COMPLETED))
        assert execute(controller(tmp_path, nothing)).error == (
            "Output validation failed: ['No artifact produced']"
        )

    @pytest.mark.parametrize("artifact", [{"b": object()}, {1: "x"}, {"b": float("nan")}])
    def test_artifact_of_unusual_values_is_kept_as_plain_data(self, tmp_path: Path, artifact: Any) -> None:
        made = controller(tmp_path, Recorded("b", lambda _: done("b") if not artifact else _of(artifact)))
        assert execute(made).status is PipelineStatus.COMPLETED

    def test_executor_that_returns_something_else_fails(self, tmp_path: Path) -> None:
        made = controller(tmp_path, Recorded("b", lambda _: {"b": 1}))  # type: ignore[arg-type, return-value]
        assert "not a StageResult" in (execute(made).error or "")

    @pytest.mark.parametrize(
        ("request_", "type", "override", "error"),
        [
            ("", TYPE, {}, "request"),
            ("x", "nonsense", {}, "Unknown pipeline type: nonsense"),
            ("x", TYPE, {"exit_after": "d"}, "'d'"),
        ],
    )
    def test_what_can_not_start_is_a_result(
        self, tmp_path: Path, request_: str, type: str, override: dict[str, Any], error: str
    ) -> None:
        made = controller(tmp_path, **override)
        result = made.execute(request_, type)
        assert (result.success, result.status) == (False, PipelineStatus.FAILED)
        assert error.strip("'") in (result.error or "")
        assert visits(made) == [0, 0, 0]

    def test_unknown_override_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequest, match="no field 'stagse'"):
            controller(tmp_path, stagse=["a"])

    def test_override_changes_a_copy_skips_none_and_holds_on_resume(self, tmp_path: Path) -> None:
        made = controller(tmp_path, fails(1), exit_after="b", supervised=None)
        failed = execute(made)
        again = controller(tmp_path)
        result = again.execute(resume_pipeline_id=failed.pipeline_id)
        assert result.stages_completed == ["a", "b"]

    def test_engine_keys_of_a_context_are_refused(self, tmp_path: Path) -> None:
        result = execute(controller(tmp_path), context={"original_request": "forged"})
        assert result.status is PipelineStatus.FAILED
        assert "original_request" in (result.error or "")

    @pytest.mark.parametrize("how", ["completed", "aborted", "unknown"])
    def test_resume_of_what_is_over_is_refused(self, tmp_path: Path, how: str) -> None:
        made = controller(tmp_path, supervised=how == "aborted")
        id = execute(made).pipeline_id if how != "unknown" else "PL-1-2"
        if how == "aborted":
            made.abort(id)
        result = made.execute(resume_pipeline_id=id)
        assert not result.success
        assert result.status.value == {"unknown": "failed"}.get(how, how)
        assert result.error
        assert visits(made) == ([1, 0, 0] if how == "aborted" else [int(how == "completed")] * 3)

    @pytest.mark.parametrize("id", ["PL-1-2", "../../x", "", "s"])
    def test_unknown_id_has_no_state_and_no_effect(self, tmp_path: Path, id: str) -> None:
        made = controller(tmp_path)
        assert made.get_status(id) is None
        assert not any((made.approve(id), made.abort(id), made.provide_feedback(id, "x")))
        result = made.execute(resume_pipeline_id=id or "PL-0")
        assert (result.status, bool(result.error)) == (PipelineStatus.FAILED, True)

    def test_failed_pipeline_is_not_aborted(self, tmp_path: Path) -> None:
        made = controller(tmp_path, fails(9))
        id = execute(made).pipeline_id
        assert not made.abort(id)
        state = made.get_status(id)
        assert state is not None
        assert (state.status, state.error) == (PipelineStatus.FAILED, "the file is missing")
        assert state.completed_at is not None

    def test_time_limit_of_the_pipeline_pauses_it(self, tmp_path: Path) -> None:
        over = threading.Event()

        def slow(_: StageContext) -> StageResult:
            over.wait(30)
            return done("b", b="late")

        made = controller(tmp_path, Recorded("b", slow), timeout_seconds=1)
        result = execute(made)
        over.set()
        assert (result.status, result.current_stage) == (PipelineStatus.PAUSED, "b")

    def test_executor_without_execute_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(AgentForgeError, match=r"'b' \(object\) has no method `execute`"):
            controller(tmp_path).stage_registry.register("b", object())  # type: ignore[arg-type]


class TestOtherProcesses:
    def test_pipelines_are_listed_by_status_the_latest_first(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        first = execute(made).pipeline_id
        failed = execute(controller(tmp_path, fails(9))).pipeline_id
        assert [one.pipeline_id for one in made.list_pipelines()] == [failed, first]
        (only,) = made.list_pipelines(status=PipelineStatus.FAILED)
        assert only.pipeline_id == failed
        assert len(made.list_pipelines(limit=1)) == 1

    def test_program_without_the_executors_answers_and_leaves_the_run_alone(self, tmp_path: Path) -> None:
        made = controller(tmp_path, supervised=True)
        id = execute(made).pipeline_id
        other = PipelineController(tmp_path)
        assert other.approve(id)
        result = other.execute(resume_pipeline_id=id)
        assert "needs executors that this program doesn't have" in (result.error or "")
        assert visits(made) == [1, 0, 0]
        assert made.execute(resume_pipeline_id=id).status is PipelineStatus.AWAITING_APPROVAL
        assert visits(made) == [1, 1, 0]

    def test_another_answer_ends_the_wait_of_a_handler(self, tmp_path: Path) -> None:
        class Elsewhere(Silent):
            def request_approval(self, pipeline_id: str, *_: Any, **__: Any) -> None:
                assert PipelineController(tmp_path).approve(pipeline_id)

        made = controller(tmp_path, handler=Elsewhere(60), supervised=True)
        assert execute(made).status is PipelineStatus.COMPLETED
        assert visits(made) == [1, 1, 1]

    def test_pipeline_is_running_while_a_stage_runs_again(self, tmp_path: Path) -> None:
        seen: list[PipelineStatus] = []

        def work(context: StageContext) -> StageResult:
            state = PipelineController(tmp_path).get_status(context.pipeline_id)
            assert state is not None
            seen.append(state.status)
            return done("b", b="done")

        answers = (YES, ApprovalResult(False, "Again"), YES, YES)
        made = controller(tmp_path, Recorded("b", work), handler=Handler(*answers), supervised=True)
        assert execute(made).success
        assert seen == [PipelineStatus.RUNNING] * 2

    def test_interrupted_program_leaves_a_paused_pipeline(self, tmp_path: Path) -> None:
        def interrupted(_: StageContext) -> StageResult:
            os.kill(os.getpid(), signal.SIGINT)
            return done("b", b="done")

        made = controller(tmp_path, Recorded("b", interrupted))
        with pytest.raises(KeyboardInterrupt):
            execute(made)
        (state,) = made.list_pipelines()
        assert state.status is PipelineStatus.PAUSED
        made.stage_registry.register("b", Recorded("b"))
        assert made.execute(resume_pipeline_id=state.pipeline_id).success

    def test_factory_makes_one_executor_for_each_run(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        created: list[StageExecutor] = []

        def factory() -> StageExecutor:
            created.append(Recorded("b"))
            return created[-1]

        made.stage_registry.register_factory("b", factory)
        execute(made)
        execute(made)
        assert [len(one.contexts) for one in created if isinstance(one, Recorded)] == [1, 1]

    def test_controller_works_below_a_running_event_loop(self, tmp_path: Path) -> None:
        import asyncio

        async def main() -> PipelineResult:
            return execute(controller(tmp_path))

        assert asyncio.run(main()).success

    def test_changes_of_a_context_change_nothing_else(self, tmp_path: Path) -> None:
        def spoil(context: StageContext) -> StageResult:
            context.input_artifact["a"] = context.stage_artifacts["a"]["a"] = "spoilt"
            return done("b", b="done")

        made = controller(tmp_path, Recorded("b", spoil))
        execute(made)
        assert executors(made)[2].contexts[0].stage_artifacts["a"]["a"] == "done"


def _of(artifact: Any) -> StageResult:
    return StageResult("b", StageStatus.COMPLETED, artifact=artifact)


def test_log_is_that_of_a_run(tmp_path: Path) -> None:
    id = execute(controller(tmp_path)).pipeline_id
    assert Runs(tmp_path).info(id).status == "completed"
    assert Path(RunLayout.of(str(tmp_path), id).log).exists()
    define(tmp_path)


class TestPipelineTemplateLoader:
    def test_type_has_a_fresh_config(self, tmp_path: Path) -> None:
        loader = controller(tmp_path).pipeline_templates
        first = loader.load(TYPE)
        first.stages.append("d")
        assert loader.load(TYPE) == PipelineConfig(TYPE, list(STAGES))

    def test_unknown_type_is_a_value_error_that_names_the_others(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="Unknown pipeline type: nonsense") as error:
            controller(tmp_path).pipeline_templates.load("nonsense")
        assert isinstance(error.value, AgentForgeError)
        assert TYPE in error.value.hint
