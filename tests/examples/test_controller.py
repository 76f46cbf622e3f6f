"""The example of the controller: the commands of its README, as a reader runs them."""

from tests.code_blocks import code_blocks
from tests.surface.terminal import Project

EXAMPLE = "controller"
START, APPROVE, CONTINUE = (block.text for block in code_blocks("examples/controller/README.md", "sh"))


def test_pipeline_is_approved_elsewhere_and_survives_its_program(repository: Project) -> None:
    done = repository.call_program("bash", "-c", "\n".join((START, APPROVE, CONTINUE)))
    assert done.code == 0, done
    assert "classify True" in done.out
    assert "too late" in done.out
    assert "fix: Fix the login with a wrong password" in done.out
    assert (repository.root / "executed.txt").read_text() == "write\n"
    assert done.err.count("was already answered by person: approve") == 1
