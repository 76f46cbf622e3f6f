"""The example of items: the commands of its README, as a reader runs them."""

import re

from tests.code_blocks import ROOT, code_blocks
from tests.surface.terminal import Project

EXAMPLE = "items"
START, SHOW, KILL, STRICT = (block.text for block in code_blocks("examples/items/README.md", "sh"))


def done_items(project: Project, session: str) -> list[str]:
    events = project.events(session)
    return [
        item for event in events if event["type"] == "iteration_start" if (item := event["data"].get("item"))
    ]


def test_a_plan_with_a_cycle_is_corrected_and_the_third_step_alone_is_reopened(repository: Project) -> None:
    assert len((ROOT / "examples/items/items.yaml").read_text().splitlines()) <= 22
    done = repository.call_program("bash", "-c", START)
    assert done.code == 0, done
    assert "in a cycle: `s1` after `s3` after `s2` after `s1`" in done.out
    assert done_items(repository, "greet") == ["s1", "s2", "s3", "s3"]
    greetings = {path.stem: path.read_text() for path in (repository.root / "greetings").iterdir()}
    assert greetings == {"english": "Hello\n", "german": "Hallo\n", "french": "Bonjour\n"}
    shown = repository.call_program("bash", "-ec", SHOW)
    assert shown.code == 0, shown
    assert "3 items: 3 done" in shown.out
    assert shown.out.count("plan, visit 1, iteration 1:") == 1
    assert re.search(r"\d+  item s1, which it depends on", shown.out), shown


def test_an_engine_that_is_killed_during_the_second_step_does_not_repeat_the_first(
    repository: Project,
) -> None:
    done = repository.call_program("bash", "-c", KILL)
    assert done.code == 0, done
    assert done_items(repository, "killed") == ["s1", "s2", "s3", "s3"]


def test_without_healing_the_run_fails_with_the_rejected_file(repository: Project) -> None:
    done = repository.call_program("bash", "-c", STRICT)
    assert done.code == 1, done
    said = re.search(r"artifact_invalid: .* in a cycle: .* it is kept in (\S+)", done.out)
    assert said, done
    assert (repository.run_dir("strict") / said[1].rstrip(".")).exists()
    assert "try 2" not in done.out
