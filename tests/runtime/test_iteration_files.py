"""The files of an iteration, end to end: context, prompt, progress, results, attempts, outputs."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, iteration_dir, load, node, pipeline, run_dir

from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import FakeClock, ScriptedProvider
from agentforge.testing.scripted_provider import (
    Act,
    crashes,
    says,
    writes,
    writes_nothing,
    writes_status,
)
from agentforge.views.results import RunResult

NO_WAIT = {"initial_delay": 0}


def go(project: Path, script: list[Act] | None = None, *nodes: dict[str, Any], **more: Any) -> RunResult:
    """Run a pipeline of these nodes, with the agent following the script."""
    options = {"clock": more.pop("clock")} if "clock" in more else {}
    call = {key: more.pop(key) for key in ("context", "inputs") if key in more}
    provider = more.pop("provider", None) or ScriptedProvider(script or [says("done")])
    with SyncEngine(project, providers={"scripted": provider}, environ=ENVIRON, **options) as sdk:
        return sdk.run(pipeline(*nodes, **more), session="s", **call)


def attempts(project: Path, number: int = 1) -> list[dict[str, Any]]:
    lines = (iteration_dir(project, number) / "attempts.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


# -- context.json


def test_context_file_has_the_fields_of_v3(tmp_path: Path) -> None:
    (tmp_path / "in.md").write_text("input")
    go(
        tmp_path,
        None,
        node("plan", runs=2, commands={"test": "pytest -x"}),
        commands={"lint": "ruff check .", "test": "pytest"},
        inputs=["in.md"],
    )
    run, here = run_dir(tmp_path), iteration_dir(tmp_path, 2)
    assert load(here / "context.json") == {
        "session": "s",
        "pipeline": "refine",
        "stage": {"id": "plan", "index": 0, "template": "plan"},
        "iteration": 2,
        "paths": {
            "session_dir": str(run),
            "stage_dir": str(run / "stage-00-plan"),
            "progress": str(run / "stage-00-plan" / "progress.md"),
            "output": str(here / "output.md"),
            "status": str(here / "status.json"),
            "result": str(here / "result.json"),
        },
        "inputs": {
            "from_initial": [str(tmp_path / "in.md")],
            "from_stage": {},
            "from_parallel": {},
            "from_previous_iterations": [str(iteration_dir(tmp_path, 1) / "output.md")],
            "from_previous_iterations_omitted": 0,
        },
        "limits": {"max_iterations": 2, "remaining_seconds": -1},
        "commands": {"lint": "ruff check .", "test": "pytest -x"},
        "parallel_scope": None,
    }


def test_from_previous_iterations_is_empty_first_then_sorted_and_only_of_this_stage(tmp_path: Path) -> None:
    quiet = says("said nothing", output="")
    script = [says("one"), quiet, says("three"), says("four"), says("five")]
    go(tmp_path, script, node("plan", runs=4), node("build"))
    listed = [
        [Path(path).parent.name for path in load(here / "context.json")["inputs"]["from_previous_iterations"]]
        for here in (
            *(iteration_dir(tmp_path, number) for number in (1, 2, 3, 4)),
            iteration_dir(tmp_path, 1, "stage-01-build"),
        )
    ]
    assert listed == [[], ["001"], ["001"], ["001", "003"], []]
    assert not (iteration_dir(tmp_path, 2) / "output.md").exists()


def test_remaining_seconds_count_down_to_the_runtime_limit(tmp_path: Path) -> None:
    clock = FakeClock(hold=True)

    def slow(request: ExecuteRequest) -> ExecuteResult:
        clock.advance(30)
        return says("done")(request)

    go(
        tmp_path,
        [slow],
        node(runs=3),
        guardrails={"max_runtime_seconds": 7200},
        clock=clock,
    )
    limits = [load(iteration_dir(tmp_path, n) / "context.json")["limits"] for n in (1, 2, 3)]
    assert [limit["remaining_seconds"] for limit in limits] == [7200, 7170, 7140]


def test_commands_of_the_caller_outrank_stage_and_pipeline(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(
            pipeline(node(commands={"test": "of the node", "build": "make"}), commands={"lint": "ruff"}),
            session="s",
            commands={"test": "of the caller"},
        )
    context = load(iteration_dir(tmp_path) / "context.json")
    assert context["commands"] == {"lint": "ruff", "test": "of the caller", "build": "make"}


# -- the prompt


def test_template_variables_resolve_end_to_end(tmp_path: Path) -> None:
    current, older = "CTX PROGRESS STATUS RESULT OUTPUT", "SESSION SESSION_NAME ITERATION INDEX CONTEXT"
    names = f"{current} {older} OUTPUT_PATH UNKNOWN".split()
    prompt = "\n".join(f"{name}=${{{name}}}" for name in names)
    provider = ScriptedProvider([says("x")])
    go(
        tmp_path,
        None,
        node(runs=2, prompt=prompt, context="a & b ${ITERATION}", output_path="out/${SESSION}.md"),
        provider=provider,
    )
    here = iteration_dir(tmp_path, 2)
    values = dict(line.split("=", 1) for line in provider.calls[1].prompt.splitlines())
    assert values == {
        "CTX": str(here / "context.json"),
        "PROGRESS": str(run_dir(tmp_path) / "stage-00-plan" / "progress.md"),
        "STATUS": str(here / "status.json"),
        "RESULT": str(here / "result.json"),
        "OUTPUT": str(here / "output.md"),
        "SESSION": "s",
        "SESSION_NAME": "s",
        "ITERATION": "2",
        "INDEX": "1",
        "CONTEXT": "a & b ${ITERATION}",
        "OUTPUT_PATH": str(tmp_path / "out" / "s.md"),
        "UNKNOWN": "${UNKNOWN}",
    }
    assert (here / "prompt.md").read_text() == provider.calls[1].prompt
    assert provider.calls[1].prompt_path == str(here / "prompt.md")


@pytest.mark.parametrize("change", ["second", None], ids=["changed", "removed"])
def test_prompt_is_the_one_that_was_compiled_until_a_person_recompiles(
    tmp_path: Path, change: str | None
) -> None:
    stage = tmp_path / ".claude" / "stages" / "ralph"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text("name: ralph\n")
    (stage / "prompt.md").write_text("first")

    def changes_the_prompt(request: ExecuteRequest) -> ExecuteResult:
        if change is None:
            (stage / "prompt.md").unlink(missing_ok=True)
        else:
            (stage / "prompt.md").write_text(change)
        return says("x")(request) if len(provider.calls) < 2 else crashes()(request)

    provider = ScriptedProvider([changes_the_prompt, changes_the_prompt, says("x")])
    retry = {"max_attempts": 1}
    ralph = {"id": "ralph", "stage": "ralph", "runs": 3, "provider": "scripted", "delay": 0, "retry": retry}
    go(tmp_path, None, ralph, provider=provider)
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ=ENVIRON) as sdk:
        assert sdk.resume("s").completed
    assert [call.prompt for call in provider.calls] == ["first"] * 4


def test_iteration_whose_files_are_gone_is_prepared_again_before_an_attempt(tmp_path: Path) -> None:
    """They are written without waiting for the disk, so a power cut may take them or leave them empty."""
    provider = ScriptedProvider([crashes(), says("x")])
    go(tmp_path, None, node(prompt="the prompt", retry={"max_attempts": 1}), provider=provider)
    here = iteration_dir(tmp_path)
    (here / "prompt.md").write_text("")
    (here / "context.json").unlink()
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ=ENVIRON) as sdk:
        assert sdk.resume("s").completed
    assert [call.prompt for call in provider.calls] == ["the prompt", "the prompt"]
    assert load(here / "context.json")["iteration"] == 1


# -- progress files


def test_progress_file_of_a_stage_is_created_once_and_then_left_to_the_agents(tmp_path: Path) -> None:
    def appends(request: ExecuteRequest) -> ExecuteResult:
        with (run_dir(tmp_path) / "stage-00-plan" / "progress.md").open("a") as file:
            file.write(f"learned {request.iteration}\n")
        return says("x")(request)

    go(tmp_path, [appends], node(runs=2))
    progress = run_dir(tmp_path) / "stage-00-plan" / "progress.md"
    assert progress.read_text() == "# Stage Progress\n\n---\nlearned 1\nlearned 2\n"


def test_progress_file_of_a_single_stage_run_lies_with_the_session(tmp_path: Path) -> None:
    stage = tmp_path / ".claude" / "stages" / "ralph"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text("name: ralph\nprovider: scripted\ndelay: 0\ncommands: {test: pytest}\n")
    (stage / "prompt.md").write_text("${PROGRESS_FILE}")
    provider = ScriptedProvider([says("x")])
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ=ENVIRON) as sdk:
        sdk.run(stage="ralph", session="s", max_iterations=1)
    progress = run_dir(tmp_path) / "progress-s.md"
    assert provider.calls[0].prompt == str(progress)
    assert progress.read_text().startswith("# Progress: s\n\nVerify: pytest\n\n## Codebase Patterns\n")
    context = load(iteration_dir(tmp_path, stage="stage-00-ralph") / "context.json")
    assert context["pipeline"] == "loop"
    assert context["paths"]["progress"] == str(progress)


# -- results


def test_result_is_normalised_end_to_end(tmp_path: Path) -> None:
    go(tmp_path, [writes('{"summary": "did it", "work": 7, "unknown": 1, "signals": {"risk": "high"}}')])
    expected = {
        "summary": "did it",
        "work": {"items_completed": [], "files_touched": []},
        "artifacts": {"outputs": [], "paths": []},
        "signals": {"plateau_suspected": False, "risk": "high", "notes": ""},
        "decision": "continue",
        "reason": "",
        "errors": [],
    }
    assert load(iteration_dir(tmp_path) / "result.json") == expected
    lines = (run_dir(tmp_path) / "events.jsonl").read_text().splitlines()
    complete = next(json.loads(line) for line in lines if '"iteration_complete"' in line)
    assert complete["data"]["result"] == expected
    assert complete["data"]["result_file"] == "stage-00-plan/iterations/001/result.json"
    assert complete["data"]["attempt"] == 1


def test_status_file_is_converted_and_kept_and_its_stop_ends_the_stage(tmp_path: Path) -> None:
    result = go(
        tmp_path, [writes_status(decision="stop", reason="all done", summary="x", errors=["e"])], node(runs=9)
    )
    assert (result.iterations, result.status) == (1, RunStatus.COMPLETED)
    written = load(iteration_dir(tmp_path) / "result.json")
    assert (written["summary"], written["decision"], written["errors"]) == ("x", "stop", ["e"])
    assert written["signals"] == {"plateau_suspected": False, "risk": "low", "notes": "all done"}
    assert load(iteration_dir(tmp_path) / "status.json")["reason"] == "all done"


def test_output_is_stripped_of_escape_codes_and_cut_at_one_megabyte(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = "\x1b[31mred\x1b[0m line\n" * 150_000
    go(tmp_path, [says("x", output=long)])
    text = (iteration_dir(tmp_path) / "output.md").read_text()
    assert text.startswith("red line\nred line\n")
    assert text.endswith("red line\n[output truncated at 1MB]\n")
    assert len(text) < 1_048_576 + 40
    assert "Iteration 1 output truncated from 1350000 bytes to 1MB" in caplog.text


# -- retry artifact handling


def test_every_attempt_leaves_a_record_and_retries_do_not_advance_the_iteration(tmp_path: Path) -> None:
    clock = FakeClock()
    result = go(
        tmp_path,
        [crashes(2, "first"), says("second", output="second"), says("third")],
        node(runs=2),
        clock=clock,
    )
    assert (result.status, result.iterations) == (RunStatus.COMPLETED, 2)
    first, second = attempts(tmp_path)
    assert set(first) == {"attempt", "status", "error", "started_at", "ended_at", "output_path"}
    assert (first["attempt"], first["status"], first["error"]) == (1, "failed", "provider_crashed")
    assert (second["attempt"], second["status"], second["error"]) == (2, "success", None)
    assert (first["output_path"], second["output_path"]) == ("attempt-1/output.md", "output.md")
    assert clock.waits == [2.0]
    assert not (iteration_dir(tmp_path, 2) / "attempts.jsonl").exists()


def test_canonical_files_are_those_of_the_last_attempt_and_earlier_ones_lie_beside(tmp_path: Path) -> None:
    go(tmp_path, [crashes(2, "first"), says("second", output="second")], node(retry=NO_WAIT))
    here = iteration_dir(tmp_path)
    assert (here / "output.md").read_text() == "second\n"
    assert load(here / "result.json")["summary"] == "second"
    assert (here / "attempt-1" / "output.md").read_text() == "first\n"
    assert load(here / "attempt-1" / "error.json")["attempt"] == 1
    assert not (here / "error.json").exists()


def test_all_errors_are_written_to_error_json_with_full_details(tmp_path: Path) -> None:
    clock = FakeClock()
    go(tmp_path, [crashes(3, "boom")], node(retry={"max_attempts": 1}), clock=clock)
    assert load(iteration_dir(tmp_path) / "error.json") == {
        "type": "provider_crashed",
        "message": "scripted exited with status 3: boom",
        "exit_code": 3,
        "stage": "plan",
        "iteration": 1,
        "attempt": 1,
        "provider": "scripted",
        "timestamp": "2026-01-15T12:00:00Z",
        "output_path": "output.md",
    }


def test_state_file_shows_the_current_attempt_and_the_failure(tmp_path: Path) -> None:
    go(tmp_path, [crashes(), crashes()], node(retry=NO_WAIT))
    state = load(run_dir(tmp_path) / "state.json")
    assert (state["status"], state["error_type"], state["current_attempt"]) == (
        "failed",
        "provider_crashed",
        2,
    )
    assert (state["iteration"], state["iteration_completed"]) == (1, 0)
    assert state["iteration_started"] is None


def test_agent_error_fails_at_once_and_says_why(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("stuck", "error", reason="no database")])
    result = go(tmp_path, None, node(runs=5), provider=provider)
    assert (result.error_type, result.error) == ("agent_error", "Agent reported error: no database")
    assert len(provider.calls) == 1
    assert load(iteration_dir(tmp_path) / "result.json")["decision"] == "error"


def test_missing_result_is_tried_once_more_then_fails(tmp_path: Path) -> None:
    provider = ScriptedProvider([writes_nothing("hm")])
    result = go(tmp_path, None, node(retry={"max_attempts": 5, "initial_delay": 0}), provider=provider)
    assert (result.error_type, len(provider.calls)) == ("result_missing", 2)


def test_malformed_result_fails_at_once_and_the_raw_output_is_kept(tmp_path: Path) -> None:
    provider = ScriptedProvider([writes("{broken", output="what the agent said")])
    result = go(tmp_path, None, node(retry={"max_attempts": 5}), provider=provider)
    assert (result.error_type, len(provider.calls)) == ("result_invalid", 1)
    assert (iteration_dir(tmp_path) / "output.md").read_text() == "what the agent said\n"
    assert (iteration_dir(tmp_path) / "result.json").read_text() == "{broken"


# -- output_path


def test_output_is_copied_to_the_output_path_of_each_iteration(tmp_path: Path) -> None:
    go(
        tmp_path,
        [says("x", output="one"), says("x", output="two")],
        node(runs=2, output_path="docs/${SESSION}/plan.md"),
        clock=FakeClock(),
    )
    assert (tmp_path / "docs" / "s" / "plan.md").read_text() == "two\n"


def test_report_that_an_agent_wrote_is_not_replaced_by_the_message_of_a_later_iteration(
    tmp_path: Path,
) -> None:
    target = tmp_path / "plan.md"

    def writes_it(request: ExecuteRequest) -> ExecuteResult:
        target.write_text(f"of the agent, iteration {request.iteration}\n")
        return says("x", output="only said")(request)

    go(tmp_path, [writes_it, says("x", output="said")], node(runs=2, output_path="plan.md"))
    assert target.read_text() == "of the agent, iteration 1\n"
    assert (iteration_dir(tmp_path, 2) / "output.md").read_text() == "said\n"


def test_agent_may_replace_the_copy_of_a_message(tmp_path: Path) -> None:
    target = tmp_path / "plan.md"

    def extends_it(request: ExecuteRequest) -> ExecuteResult:
        target.write_text(target.read_text() + "more\n")
        return says("x", output="extended")(request)

    go(tmp_path, [says("x", output="said"), extends_it], node(runs=2, output_path="plan.md"))
    assert target.read_text() == "said\nmore\n"


def test_copy_of_another_run_is_replaced(tmp_path: Path) -> None:
    go(tmp_path, [says("x", output="first")], node(output_path="plan.md"))
    scripted = ScriptedProvider([says("x", output="second")])
    with SyncEngine(tmp_path, providers={"scripted": scripted}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(node(output_path="plan.md")), session="t")
    assert (tmp_path / "plan.md").read_text() == "second\n"


def test_output_path_keeps_what_a_person_had_there(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("old\n")
    go(tmp_path, [says("x", output="new")], node(output_path="plan.md"))
    assert (tmp_path / "plan.md").read_text() == "old\n"


def test_nothing_is_copied_without_output(tmp_path: Path) -> None:
    go(tmp_path, [says("x", output="")], node(output_path="plan.md"))
    assert not (tmp_path / "plan.md").exists()


def test_failed_attempt_does_not_touch_the_output_path(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("old\n")
    go(tmp_path, [crashes()], node(output_path="plan.md", retry={"max_attempts": 1}))
    assert (tmp_path / "plan.md").read_text() == "old\n"
