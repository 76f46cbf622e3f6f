"""The trees of a run in a git repository: in its log, for every way in which an attempt ends."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.security.trapped_repository import ENVIRON as GIT

from agentforge.model import facts as f
from agentforge.sdk.engine import Engine

from .projects import ENVIRON, engine, node, pipeline, run

DONE = 'echo \'{"summary":"done"}\' > "$AGENTFORGE_RESULT"'


def agent(script: str, **changes: Any) -> dict[str, Any]:
    return node(provider={"type": "command", "run": f"cat > /dev/null; {script}; {DONE}"}, **changes)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "none")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, env=GIT)
    (tmp_path / "a.txt").write_text("a")
    return tmp_path


def trees(made: Engine) -> list[tuple[str, str | None]]:
    facts = [event.fact for event in made.events("s")]
    return [(fact.TYPE, fact.tree) for fact in facts if hasattr(fact, "tree")]


def test_each_outcome_has_its_tree_and_a_tree_before_is_recorded_if_something_else_changed(
    project: Path,
) -> None:
    script = "echo $MOCK_ITERATION >> a.txt; test $MOCK_ITERATION != 2 || exit 3"
    work = agent(script, runs=3, retry={"max_attempts": 1})

    async def main() -> None:
        async with engine(project) as made:
            assert (await made.run(pipeline(work), session="s")).status == "failed"
            first = trees(made)
            assert [type for type, _ in first] == ["tree_taken", "iteration_complete", "error"]
            assert len({tree for _, tree in first}) == 3
            assert None not in dict(first).values()
        (project / "by-a-person.txt").write_text("mine")
        async with engine(project) as made:
            assert (await made.resume("s")).status == "failed"
            assert [type for type, _ in trees(made)[3:]] == ["tree_taken", "error"]
            assert trees(made)[3][1] != first[2][1]

    run(main())


def test_the_engines_copy_of_the_output_belongs_to_the_iteration(project: Path) -> None:
    work = agent("echo report", runs=2, output_path="report.md")

    async def main() -> None:
        async with engine(project) as made:
            assert (await made.run(pipeline(work), session="s")).completed
            assert [type for type, _ in trees(made)] == ["tree_taken", *["iteration_complete"] * 2]
            (_, before), (_, after), (_, again) = trees(made)
            assert before != after
            assert after == again, "a second copy of the same text changes nothing"

    run(main())


def test_an_iteration_inside_the_engine_takes_no_tree(project: Path) -> None:
    async def main() -> None:
        async with engine(project) as made:
            assert (await made.run(pipeline(), session="s")).completed
            assert trees(made) == [("iteration_complete", None)]

    run(main())


def test_a_problem_is_recorded_and_the_run_continues(project: Path) -> None:
    (project / ".git/HEAD").unlink()

    async def main() -> None:
        async with engine(project) as made:
            assert (await made.run(pipeline(agent("true", runs=2)), session="s")).completed
            problems = [event.fact for event in made.events("s") if isinstance(event.fact, f.TreeTaken)]
            assert len(problems) == 1
            assert "git" in problems[0].problem

    run(main())


def test_without_git_the_log_is_unchanged(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine(tmp_path, environ=ENVIRON) as made:
            assert (await made.run(pipeline(agent("true")), session="s")).completed
            assert trees(made) == [("iteration_complete", None)]
            assert "tree" not in (tmp_path / ".claude/pipeline-runs/s/events.jsonl").read_text()

    run(main())
