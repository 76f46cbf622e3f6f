"""The contract of a stage: its prompt, the fields that its artifact has, and how an artifact differs."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentforge import DefinitionError, artifact_id, request_id_of, stage_contract

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
STAGE = "description: Mine\nartifact: {type: object, required: [goal]}\n"


def test_a_built_in_stage_and_one_of_the_project(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/stages/intake"
    folder.mkdir(parents=True)
    (folder / "stage.yaml").write_text(STAGE)
    (folder / "prompt.md").write_text("Do it my way.")
    builtin, mine = stage_contract("intake"), stage_contract("intake", tmp_path)
    assert (builtin.name, builtin.prompt.splitlines()[0]) == ("intake", "# Record the request")
    assert builtin.leaves == ("request_id", "detected_scope", "priority")
    assert stage_contract("spec").needs == ("request_id", "analysis", "components")
    assert (mine.prompt, mine.description, mine.leaves) == ("Do it my way.", "Mine", ("goal",))
    assert (mine.mismatches({"goal": 1}), len(mine.mismatches({}))) == ([], 1)


def test_a_stage_without_an_artifact_accepts_any() -> None:
    contract = stage_contract("work")
    assert (contract.leaves, contract.needs, contract.mismatches({"a": 1})) == ((), (), [])


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(DefinitionError, match="nowhere"):
        stage_contract("nowhere")


def test_ids_without_a_run_are_like_those_of_one() -> None:
    request = request_id_of(NOON, "anything")
    assert artifact_id("spec_id", "spec", request).startswith("SPEC-20260115T120000Z-")
    assert artifact_id("spec_id", "spec", "mine").startswith("SPEC-")
