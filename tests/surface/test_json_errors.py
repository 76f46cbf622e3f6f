"""docs/json-output.md: the keys of errors."""

from tests.surface.json_agents import describe_provider, stage, write_pipeline
from tests.surface.json_calls import Calls
from tests.surface.terminal import WRITE_RESULT, Project

SHOWN = ("error", "execution", "diagnostic", "place")
MISSING = ("first", "second")


def test_keys_of_errors_are_those_of_the_page(project: Project) -> None:
    for name in MISSING:
        describe_provider(project, name, WRITE_RESULT)
        (project.home / name).unlink()
    write_pipeline(project, "unusable", *({**stage(name), "provider": name} for name in MISSING))
    (project.root / "invalid.yaml").write_text("nodes: [{id: a}]\n")
    calls = Calls(project)
    for line in (
        ["no-such-command"],
        ["status", "no-such-run"],
        ["run", "-p", "invalid.yaml"],
        ["run", "-p", "unusable.yaml"],
    ):
        calls.call(line[0], "error", line)
    for session in stopped(project):
        calls.compare("resume", "error", project.call("resume", session, "--json", env=another_user(project)))
    done = write_pipeline(project, "done", stage("a", WRITE_RESULT))
    assert project.call("run", "-p", done, "-s", "done").code == 0
    calls.call("resume", "error", ["resume", "done"])
    assert calls.problems(SHOWN) == []


def stopped(project: Project) -> list[str]:
    """Runs that can be resumed, one of them without a sandbox."""
    checked = stage("a", "exit 3", retry={"max_attempts": 1}, checks=[{"name": "test", "run": "true"}])
    sandboxed = stage("a", approve=True, sandbox={"type": "bwrap", "network": False})
    runs = {"failed": (checked, {}), "asking": (sandboxed, {"MOCK_MODE": "true"})}
    for session, (node, env) in runs.items():
        file = write_pipeline(project, session, node)
        assert project.call("run", "-p", file, "-s", session, "--model=opus", env=env).out
    return list(runs)


def another_user(project: Project) -> dict[str, str]:
    """A user with another home folder, who didn't start the runs."""
    home = project.home / "another"
    home.mkdir(exist_ok=True)
    return {"HOME": str(home)}
