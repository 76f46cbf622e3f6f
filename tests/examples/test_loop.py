"""The example of the loop: the demo as `make demo-loop` runs it, and the commands of its README."""

from tests.code_blocks import ROOT, code_blocks
from tests.surface.terminal import Project

EXAMPLE = "loop"
(COMMANDS,) = (block.text for block in code_blocks("examples/loop/README.md", "sh"))
STORY = (
    "The engine was killed in step 2",
    "executor 2/2 reattached to the running agent",
    "verifier check test failed",
    "verifier goes back to executor (cycle 2 of 3)",
    "reviewer goes back to planner (cycle 2 of 3): slugify of an empty text is empty",
    "executor has 3 items, 1 of them to do (1 added, 1 dropped)",
    "Completed:",
    "reviewer, visit 2: pass",
    "Steps:    3",
    "+    def test_an_empty_text_has_a_slug(self)",
)


def test_the_demo_tells_its_story_in_order(repository: Project) -> None:
    done = repository.call_program("sh", str(ROOT / "examples/loop/demo.sh"))
    assert done.code == 0, done
    at = 0
    for told in STORY:
        at = done.out.find(told, at)
        assert at >= 0, (told, done)


def test_the_commands_of_the_readme_run(repository: Project) -> None:
    done = repository.call_program("bash", "-ec", COMMANDS)
    assert done.code == 0, done
    events = repository.events("slug")
    items = [event["data"].get("item") for event in events if event["type"] == "iteration_start"]
    assert [item for item in items if item in ("s1", "s2", "s3")] == ["s1", "s2", "s3"]
