"""The example of an approval: the commands of its README, with a crash of the engine in between."""

import subprocess
from pathlib import Path

import pytest
from tests.adapters.fake_clis import put_cli
from tests.code_blocks import code_blocks
from tests.surface.terminal import Done, Project, wait_for

EXAMPLE = "approval"


@pytest.fixture(autouse=True)
def setting(repository: Project, tmp_path: Path) -> None:
    """The agent sleeps until the test lets it continue."""
    waits = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.02)"
    put_cli(tmp_path / "bin", "sleep", waits)
    repository.env |= dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "me")
    repository.env |= dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "me@example.com")


def shell(project: Project, command: str) -> Done:
    done = project.call_program("bash", "-c", command)
    assert done.code == 0, done
    return done


def test_approval_survives_feedback_and_a_crash_of_the_engine(repository: Project, tmp_path: Path) -> None:
    start, look, reject, kill, approve = (
        block.text for block in code_blocks("examples/approval/README.md", "sh")
    )
    assert "‖ Awaiting approval after 1 iteration" in shell(repository, start).out
    assert "Question:   Commit these release notes?" in shell(repository, look).out
    with repository.started_program("bash", "-c", reject) as second_shell:
        # Not only its intent: an agent that wasn't started yet would be lost instead.
        wait_for(
            lambda: any(repository.root.glob("**/run-002/**/agent.json")), "the agent of the second visit"
        )
        with repository.started_program("bash", "-c", kill) as first_shell:
            wait_for(lambda: "attempt_reattached" in repository.types("release"), "the recovery")
            (tmp_path / "go").touch()
            recovered = first_shell.end()
        assert second_shell.end().code in (-9, 137)
    assert "reattached to the running agent" in recovered.out
    assert "✓ Completed: 3 iterations" in shell(repository, approve).out
    types = repository.types("release")
    places = [
        event["cursor"]["node_path"]
        for event in repository.events("release")
        if event["type"] == "node_start"
    ]
    assert places == ["0", "0", "1"]
    assert types.count("attempt_start") == 3
    answers = [e["data"]["answer"] for e in repository.events("release") if e["type"] == "request_answered"]
    assert answers == ["reject", "approve"]
    log = subprocess.run(
        ["git", "log", "--format=%s"],
        cwd=repository.root,
        env=repository.env,
        capture_output=True,
        check=True,
    )
    assert log.stdout == b"Add release notes\n"
    assert "The parser accepts empty files." in (repository.root / "NOTES.md").read_text()
