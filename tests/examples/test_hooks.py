"""The example of hooks: the commands of its README, with a crash of the engine in the middle of a webhook."""

import re

import pytest
from tests.code_blocks import code_blocks
from tests.free_port import free_port
from tests.surface.terminal import Project, wait_for

EXAMPLE = "hooks"
SERVE, START, KILL, LIST, CONFIRM = (block.text for block in code_blocks("examples/hooks/README.md", "sh"))


@pytest.fixture(autouse=True)
def port(repository: Project) -> None:
    """One that is free."""
    port = str(free_port())
    for path in repository.root.iterdir():
        if path.is_file():
            path.write_text(path.read_text().replace("8765", port))


def test_call_that_the_engine_died_in_is_one_delivery_with_two_tries_and_one_key(repository: Project) -> None:
    calls = repository.root / "calls.txt"
    with repository.started_program("bash", "-c", f"exec env {SERVE.strip()} 2> calls.txt"):
        with repository.started_program("bash", "-c", START) as run:
            wait_for(lambda: calls.exists() and ": new" in calls.read_text(), "the call of the service")
            killed = repository.call_program("bash", "-c", KILL)
            assert run.end().code in (-9, 137)
        assert "calling hook review (webhook, try 2)" in killed.out
        assert "‖ Paused after 4 iterations" in killed.out
        listed = repository.call_program("bash", "-c", LIST).out
        received = re.findall(r"(\S+) iteration 3: (.*)", calls.read_text())
    key = received[0][0]
    assert received == [(key, "new"), (key, "sent again")]
    review = listed.split("\n\n")[1]
    assert review.startswith("✓ review (draft, iteration 3): modify_context\n")
    assert [row.split()[0] for row in review.splitlines()[1:]] == ["Hook:", "Key:", "Try", "Try", "Context:"]
    assert f"Key:      {key}\n" in review
    assert "✓ length (draft, iteration 4): modify_context\n" in listed
    assert "✓ Completed: 5 iterations" in repository.call_program("bash", "-c", CONFIRM).out
    assert "twice as fast" in (repository.root / "published.md").read_text()
    effects = [e["type"] for e in repository.events("notes") if e["type"].startswith("effect_")]
    assert effects == ["effect_intended", "effect_reconciled", "effect_intended", "effect_done"]
