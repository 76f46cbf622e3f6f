"""Recorded cases of agent-pipelines, played with ours: every difference has a rule; and the harness sees
differences that have none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.parity.__main__ import examine
from tests.parity.cases import REPOSITORY
from tests.parity.compare import Report
from tests.parity.differences import differ, fingerprint
from tests.parity.kept_cases import NAMES, kept_case, pack, unpack
from tests.parity.mini_case import SESSION, write_mini_case, write_pipeline_case
from tests.parity.recorded import load_case
from tests.parity.report import lines, rule_table
from tests.sampling import one_in

RUN = Path("after-run/.claude/pipeline-runs") / SESSION
CONTEXT = RUN / "stage-00-work/iterations/001/context.json"


@pytest.mark.parametrize("name", one_in(4, NAMES))
def test_recorded_case_of_agent_pipelines_differs_only_by_a_rule(name: str) -> None:
    report = examine(load_case(kept_case(name)))
    assert not report.unexplained, "\n".join(lines([report]))


def test_kept_case_has_fingerprints_instead_of_the_sentences_of_the_shell_engine(
    case: Path, tmp_path: Path
) -> None:
    text = pack(case)
    assert "Completed 1 iterations" not in text
    assert "Mock execution" not in text
    assert "Do it: ${CTX}" in text
    assert unexplained(unpack(text, tmp_path / "kept")) == []
    assert text == pack(tmp_path / "kept"), "what is kept can be kept again"


def test_fingerprint_stands_for_one_text() -> None:
    assert list(differ("x", fingerprint("a b"), "a b")) == []
    assert [found.ours for found in differ("x", fingerprint("a b"), "a c")] == ["a c"]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    return write_mini_case(tmp_path / "case")


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps(change(content) or content))


def unexplained(case: Path) -> list[str]:
    return [f"{found.where} {found.path}".strip() for found in examine(load_case(case)).unexplained]


def test_case_that_ours_plays_the_same_way_passes(case: Path) -> None:
    report = examine(load_case(case))
    assert (report.unexplained, report.checked >= 5) == ([], True)


def test_harness_sees_another_value_in_context_json(case: Path) -> None:
    edit(case / CONTEXT, lambda context: context["limits"].update(max_iterations=7))
    assert f"{SESSION} stage-00-work/iterations/001/context.json limits.max_iterations" in unexplained(case)


def test_harness_sees_a_key_that_ours_lacks(case: Path) -> None:
    edit(case / CONTEXT, lambda context: context["paths"].update(scratch="@PROJECT@/x"))
    assert f"{SESSION} stage-00-work/iterations/001/context.json paths.scratch" in unexplained(case)


def test_harness_sees_another_structure_of_result_json(case: Path) -> None:
    edit(case / CONTEXT.with_name("result.json"), lambda result: result.update(work=[]))
    assert f"{SESSION} stage-00-work/iterations/001/result.json work" in unexplained(case)


def test_harness_sees_another_status_in_state_json(case: Path) -> None:
    edit(case / RUN / "state.json", lambda state: state.update(status="failed"))
    assert f"{SESSION} state.json status" in unexplained(case)


def test_harness_sees_another_order_of_events(case: Path) -> None:
    log = case / RUN / "events.jsonl"
    events = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*events[:2], events[3], events[2], *events[4:]]))
    assert f"{SESSION} events.jsonl" in unexplained(case)


def test_harness_sees_a_missing_file_and_a_missing_session(case: Path) -> None:
    (case / RUN / "stage-00-work/notes.json").write_text("{}")
    other = case / "after-run/.claude/pipeline-runs/s2"
    other.mkdir()
    assert {f"{SESSION} stage-00-work/notes.json", "sessions s2"} <= set(unexplained(case))


def test_harness_sees_another_exit_code_and_status_line(case: Path) -> None:
    (case / "cmd-01.rc").write_text("3\n")
    (case / "cmd-02.out").write_text("Session: s1\nStatus: failed\n")
    assert unexplained(case)[:2] == ["cmd-01 loop work s1 1 --foreground exit", "cmd-02 status s1 Status"]


def test_report_shows_both_sides_and_counts_what_has_no_rule(case: Path) -> None:
    edit(case / CONTEXT, lambda context: context["limits"].update(max_iterations=7))
    text = "\n".join(lines([examine(load_case(case))]))
    assert "NO RULE: s1 stage-00-work/iterations/001/context.json limits.max_iterations" in text
    assert "     - 7\n     + 1\n" in text
    assert "1 differences without a rule" in text


PIPE = "name: p\nnodes:\n  - id: a\n    stage: work\n"
AS_WRITTEN = {"provider": {"type": "claude", "model": "sonnet"}, "context": "of the stage"}


def of_plan(case: Path) -> dict[str, str | None]:
    """The differences of plan.json, each with its rule."""
    report = examine(load_case(case))
    return {found.path: rule for found, rule in report.found if found.where.endswith("plan.json")}


@pytest.mark.parametrize(
    "options", ["--model=haiku --context=now", "--provider=codex --model=gpt-5-codex --context=now"]
)
def test_what_the_caller_says_outranks_the_files_in_plan_json(tmp_path: Path, options: str) -> None:
    case = write_pipeline_case(tmp_path / "case", PIPE, options, {"nodes": [AS_WRITTEN]})
    found = of_plan(case)
    assert {"nodes.0.provider.model", "nodes.0.context"} <= set(found)
    assert set(found.values()) == {"caller-wins"}


def test_the_stages_of_a_block_get_the_callers_context_too(tmp_path: Path) -> None:
    block = (
        "name: p\nnodes:\n  - id: a\n    parallel: {providers: [claude], stages: [{id: b, stage: work}]}\n"
    )
    plan = {"nodes": [{"stages": [{"context": "of the stage"}]}]}
    case = write_pipeline_case(tmp_path / "case", block, "--context=now", plan)
    assert of_plan(case) == {"nodes.0.stages.0.context": "caller-wins"}


def test_harness_sees_another_model_or_context_that_the_caller_did_not_ask_for(tmp_path: Path) -> None:
    recorded = {"provider": {"type": "claude", "model": "haiku"}, "context": "other"}
    case = write_pipeline_case(tmp_path / "case", PIPE, "--model=opus", {"nodes": [recorded]})
    assert of_plan(case) == {"nodes.0.provider.model": "caller-wins", "nodes.0.context": None}
    case = write_pipeline_case(tmp_path / "other", PIPE, "--context=now", {"nodes": [recorded]})
    assert of_plan(case) == {"nodes.0.provider.model": None, "nodes.0.context": "caller-wins"}


@pytest.mark.parametrize("wanted", ["{from: no}", "{from: [a, no]}", "{from: b}", "{from_parallel: a}"])
def test_an_input_that_names_no_earlier_node_is_refused_by_a_rule(tmp_path: Path, wanted: str) -> None:
    pipe = f"{PIPE}  - id: b\n    stage: work\n    inputs: {wanted}\n"
    report = examine(load_case(write_pipeline_case(tmp_path / "case", pipe)))
    assert [rule for _, rule in report.found] == ["sources-exist"] * 3
    assert [found.path for found, _ in report.found] == ["exit", "exit", SESSION]


def test_harness_reports_another_refusal_of_a_recorded_definition(tmp_path: Path) -> None:
    case = write_pipeline_case(tmp_path / "case", f"{PIPE}    timeout: soon\n")
    assert [str(found.path) for found in examine(load_case(case)).unexplained][:1] == ["exit"]


def test_rules_are_listed_in_the_documentation() -> None:
    text = (REPOSITORY / "docs" / "parity.md").read_text()
    missing = [row for row in rule_table() if row not in text]
    assert not missing, "write the output of `python -m tests.parity --rules` into docs/parity.md"


def test_report_of_nothing_is_empty() -> None:
    assert Report("none").unexplained == []
