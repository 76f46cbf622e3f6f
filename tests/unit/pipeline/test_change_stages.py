"""The executors of red, green and refactor: the tests that they run decide, not what the model says."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.states import state

from agentforge import InvalidRequest, ProjectTests
from agentforge.core.pipeline import StageContext, StageResult
from agentforge.core.pipeline.results import StageStatus
from agentforge.core.pipeline.stages.green import GreenPhaseExecutor, create_green_executor
from agentforge.core.pipeline.stages.packaged import PackagedStage
from agentforge.core.pipeline.stages.red import RedPhaseExecutor, create_red_executor
from agentforge.core.pipeline.stages.refactor import RefactorPhaseExecutor, create_refactor_executor

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/tdd"
TEST = "from slugs import slugify\n\n\ndef test_slug():\n    assert slugify('A B') == 'a-b'\n"
CODE = "\n\ndef slugify(text):\n    return '-'.join(text.lower().split())\n"
SPEC = {"spec_id": "SPEC-1", "components": [{"name": "slugify", "type": "function"}], "test_cases": []}
Act = Callable[[Path], Any]


class Acting:
    """Answers in place of a model: each act changes files and returns what the model says."""

    def acts(self, *acts: Act) -> Any:
        self._acts = [*acts]
        self.told: list[str] = []
        return self

    def _run_with_llm(
        self, context: StageContext, system_prompt: str, user_message: str, tools: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        assert system_prompt
        self.told.append(user_message)
        act = self._acts[min(len(self.told), len(self._acts)) - 1]
        said = act(context.project_path)
        calls = [{"tool_name": "write_file", "input": {"path": path}, "result": "ok"} for path in said[1:]]
        return {"response": said[0], "tool_results": calls}


class Red(Acting, RedPhaseExecutor):
    pass


class Green(Acting, GreenPhaseExecutor):
    pass


class Refactor(Acting, RefactorPhaseExecutor):
    pass


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    return tmp_path


def run(executor: Any, folder: Path, given: dict[str, Any]) -> StageResult:
    result = executor.execute({"request_id": "REQ-1", **given}, state(), folder)
    assert isinstance(result, StageResult)
    return result


def says(*paths_and_texts: str) -> Act:
    blocks = zip(paths_and_texts[::2], paths_and_texts[1::2], strict=True)
    text = "\n".join(f"### FILE: {path}\n```python\n{text}```\n" for path, text in blocks)
    return lambda _: [text]


def writes(**files: str) -> Act:
    """Appends to files, by their names without `.py`; `test` is the test."""
    names = {"test": "tests/test_slug.py"}

    def act(folder: Path) -> list[str]:
        paths = [names.get(name, f"{name}.py") for name in files]
        for path, text in zip(paths, files.values(), strict=True):
            place = folder / path
            place.write_text((place.read_text() if place.exists() else "") + text)
        return ["Done.", *paths]

    return act


@pytest.mark.parametrize(
    ("executor", "artifact_type", "required", "left"),
    [
        (create_red_executor(), "test_suite", ("spec_id", "components", "test_cases"), "test_files"),
        (create_green_executor(), "implementation", ("spec_id", "test_files"), "implementation_files"),
        (create_refactor_executor({"llm": {}}), "refactored_code", ("spec_id",), "final_files"),
    ],
)
def test_what_each_executor_needs_and_leaves(
    executor: PackagedStage, artifact_type: str, required: Any, left: str
) -> None:
    assert executor.artifact_type == artifact_type
    assert set(required) <= set(executor.required_input_fields)
    assert executor.stage_name == executor.contract.name
    assert left in executor.contract.schema["properties"]


def test_tests_that_fail_because_of_the_code_are_red(project: Path) -> None:
    red = Red().acts(says("tests/test_slug.py", TEST))
    result = run(red, project, SPEC)
    assert result.status is StageStatus.COMPLETED, result.error
    assert result.artifact is not None
    assert result.artifact["test_files"] == ["tests/test_slug.py"]
    assert result.artifact["failing_tests"] == ["tests.test_slug"]
    assert result.artifact["test_results"]["errors"] == 1
    assert result.artifact["components"] == SPEC["components"]
    assert (project / "tests/test_slug.py").read_text() == TEST


def test_what_is_wrong_with_tests_is_sent_back(project: Path) -> None:
    passes, broken = TEST.replace("slugify", "title").replace("a-b", "A B"), "def test_a(:\n"
    red = Red().acts(
        lambda _: ["I wrote them."],
        says("slugs.py", TEST),
        says("../x.py", TEST),
        says("tests/test_slug.py", passes),
        says("tests/test_slug.py", broken),
    )
    red.config["max_rounds"] = 5
    result = run(red, project, SPEC)
    assert result.status is StageStatus.FAILED
    assert "SyntaxError" in str(result.error)
    assert ["can't be used" in told for told in red.told] == [False, True, True, True, True]
    assert "slugs.py is not in a test folder" in red.told[2]
    assert "../x.py can't be written" in red.told[3]
    assert "passed, but none may" in red.told[4]
    assert (project / "slugs.py").read_text() == (EXAMPLE / "slugs.py").read_text()


GIVEN = {**SPEC, "test_files": ["tests/test_slug.py"], "failing_tests": ["tests.test_slug"]}


def test_green_ends_when_the_tests_pass_and_keeps_them_as_they_are(project: Path) -> None:
    (project / "tests/test_slug.py").write_text(TEST)
    green = Green().acts(
        lambda _: ["All tests pass."],
        writes(slugs=CODE, test="\n\ndef test_more():\n    assert False\n"),
        writes(slugs=""),
    )
    result = run(green, project, GIVEN)
    assert result.status is StageStatus.COMPLETED, result.error
    assert result.artifact is not None
    assert result.artifact["implementation_files"] == ["slugs.py"]
    assert result.artifact["iterations"] == 3
    assert "tests.test_slug::test_slug" in result.artifact["passing_tests"]
    assert "tests/test_slug.py were undone" in green.told[2]
    assert (project / "tests/test_slug.py").read_text() == TEST


def test_green_fails_when_its_rounds_are_used_up(project: Path) -> None:
    (project / "tests/test_slug.py").write_text(TEST)
    result = run(Green({"max_rounds": 1}).acts(lambda _: ["Done."]), project, GIVEN)
    assert "Max iterations (1) reached" in str(result.error)


DONE = {**GIVEN, "implementation_files": ["slugs.py"], "test_results": {"passed": 1}}


def test_a_refactoring_that_breaks_a_test_is_taken_back(project: Path) -> None:
    (project / "tests/test_slug.py").write_text(TEST)
    assert "Tests must pass before" in str(run(Refactor().acts(writes(slugs="")), project, DONE).error)
    writes(slugs=CODE)(project)
    before = (project / "slugs.py").read_text()
    result = run(Refactor().acts(writes(slugs="\n\nslugify = None\n")), project, DONE)
    assert "Tests failed after refactoring" in str(result.error)
    assert (project / "slugs.py").read_text() == before
    result = run(Refactor().acts(writes(slugs="\n# Words.\n", more="A = 1\n")), project, DONE)
    assert result.artifact is not None
    assert result.artifact["refactored_files"] == ["slugs.py", "more.py"]
    assert result.artifact["final_files"] == ["slugs.py", "tests/test_slug.py", "more.py"]


def test_nothing_is_done_if_the_linter_finds_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (project / "ruff.toml").write_text("")
    (project / "tests/test_slug.py").write_text(TEST)
    writes(slugs=CODE)(project)
    refactor = Refactor().acts(writes(slugs="\n\nimport os\n"))
    result = run(refactor, project, DONE)
    assert result.artifact is not None
    assert (result.artifact["refactored_files"], refactor.told) == ([], [])
    writes(slugs="\n\nimport os\n")(project)
    result = run(refactor, project, DONE)
    assert result.warnings == ["The linter still finds something"]
    assert "The linter says" in refactor.told[0]


def test_a_project_without_a_known_command_has_no_result(tmp_path: Path) -> None:
    tests = ProjectTests(tmp_path)
    assert (tests.run().status, tests.lint()) == ("error", None)
    assert ProjectTests(tmp_path, command="exit 1").run(["a"]).status == "fail"
    assert ProjectTests(tmp_path, command="sleep 9").run(timeout=0.1).status == "timeout"
    assert tests.read("missing") is None
    for path in ("/etc/x", ".git/config"):
        with pytest.raises(InvalidRequest):
            tests.write(path, "")
