"""The artifacts and the items of a run, for programs."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.sdk.projects import ENVIRON, engine, run

from agentforge import InvalidRequest, SyncEngine, UnusableFile, write_artifact
from agentforge.testing import ScriptedProvider, returns

PLANNED = {
    "nodes": [
        {"id": "plan", "prompt": "Plan.", "provider": "scripted", "runs": 1, "artifact": {"type": "object"}},
        {
            "id": "do",
            "prompt": "Do it.",
            "provider": "scripted",
            "delay": 0,
            "termination": {"type": "items", "from": "plan.steps"},
            "artifact": {"schema": {"type": "object"}, "version": "2.1"},
        },
    ]
}
STEPS = {"steps": [{"id": "s1", "title": "Parse"}, {"id": "s2"}]}
LARGE = {"pad": "x" * 70_000}


def agent() -> ScriptedProvider:
    acts = [returns("planned", artifact=STEPS)]
    acts += [returns("did it", artifact=value) for value in ({"did": 1}, LARGE)]
    return ScriptedProvider(acts, uses_files=False)


def test_a_program_gets_artifacts_and_items(tmp_path: Path) -> None:
    made = engine(tmp_path, agent())
    result = run(made.run(PLANNED, session="auth"))
    # It is only in its file: the log has its hash.
    assert result.artifact is not None
    assert (result.artifact.value, result.artifact.version, result.artifact.item) == (None, "2.1", "s2")
    assert made.inspect("auth").result == result
    found = made.artifacts("auth")
    assert [(one.stage, one.item, one.value) for one in found] == [
        ("plan", "", STEPS),
        ("do", "s1", {"did": 1}),
        ("do", "s2", LARGE),
    ]
    assert made.artifacts("auth", latest=True) == found
    items = [(one.id, one.title, one.status) for one in made.work("auth").items()]
    assert items == [("s1", "Parse", "done"), ("s2", "", "done")]


def test_artifact_in_a_file_is_verified(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": agent()}, environ=ENVIRON) as made:
        run_dir = Path(made.run(PLANNED, session="auth").run_dir)
        *_, large = made.artifacts("auth")
        target = Path(write_artifact(large, tmp_path / "large.json"))
        assert json.loads(target.read_text())["pad"] == LARGE["pad"]
        assert write_artifact(large, target) == str(target)
        (run_dir / large.file).unlink()
        *_, missing = made.artifacts("auth")
        assert (missing.value, "it is missing" in missing.problem) == (None, True)
        with pytest.raises(UnusableFile, match=large.sha256):
            write_artifact(missing, target)


@pytest.mark.parametrize("content", ["{}", "[1]", "text", '{"_artifact_meta": 3}', '{"_artifact_meta": {}}'])
def test_other_files_are_not_replaced(tmp_path: Path, content: str) -> None:
    with SyncEngine(tmp_path, providers={"scripted": agent()}, environ=ENVIRON) as made:
        made.run(PLANNED, session="auth")
        target = tmp_path / "mine.json"
        target.write_text(content)
        with pytest.raises(InvalidRequest, match="was not written by this command"):
            write_artifact(made.artifacts("auth")[0], target)
        assert target.read_text() == content


@pytest.mark.parametrize("file", ["list.json", "deep.json"])
def test_log_of_another_project_can_name_no_other_file(tmp_path: Path, file: str) -> None:
    with SyncEngine(tmp_path, providers={"scripted": agent()}, environ=ENVIRON) as made:
        run_dir = Path(made.run(PLANNED, session="auth").run_dir)
        work = made.work("auth")
        contents = {"list.json": "[1]", "deep.json": "[" * 100_000}
        (run_dir / file).write_text(contents[file])
        last = work.record.model.history.artifacts_of("1").latest
        assert last is not None
        content = contents[file].encode()
        forged = replace(last, file=file, size=len(content), sha256=sha256(content).hexdigest())
        work.record._iterations = {
            at: replace(one, artifact=forged) for at, one in work.record._iterations.items()
        }
        (first, *_) = work.artifacts()
        assert (first.value, first.problem != "") == (None, True)
