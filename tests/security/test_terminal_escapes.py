"""Names from definitions, logs, file names and agents can't control the terminal that shows them."""

import json

import pytest
from tests.sampling import one_in
from tests.surface.terminal import WRITE_RESULT, Done, Project

TITLE = "\x1b]0;owned\x07"
HOSTILE = f"x{TITLE}\x9b2J\u202ey"


def is_harmless(done: Done) -> None:
    for text in (done.out, done.err):
        assert not set(text) & set("\x1b\x07\x9b\u202e"), text
    assert "Traceback" not in done.err


def forged(project: Project) -> None:
    """A log whose plan and events have hostile names, as another program could have written it."""
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "s").code == 0
    for path in project.run_dir("s").rglob("*"):
        if path.suffix in (".json", ".jsonl") and path.is_file():
            changed = path.read_text().replace('"demo"', json.dumps(HOSTILE))
            path.write_text(changed.replace('"did it"', json.dumps(HOSTILE)))


@pytest.mark.parametrize("command", [("list",), ("status", "s"), ("tail", "s"), ("log", "verify", "s")])
@pytest.mark.parametrize("form", one_in(2, [(), ("--json",)]))
def test_names_in_a_log(project: Project, command: tuple[str, ...], form: tuple[str, ...]) -> None:
    forged(project)
    done = project.call(*command, *form)
    is_harmless(done)
    if form and command[0] != "tail" and done.code == 0:
        assert done.json is not None


@pytest.mark.parametrize(
    "command",
    [("dry-run", "pipeline", "p.yaml"), ("run", "-p", "p.yaml"), ("lint", "p.yaml"), ("graph", "p.yaml")],
)
@pytest.mark.parametrize("form", one_in(2, [(), ("--json",)]))
@pytest.mark.parametrize("line", ['name: "{}"', 'name: p\nmodel: "{}"', 'name: p\ndescription: "{}"'])
def test_names_in_a_definition(
    project: Project, command: tuple[str, ...], form: tuple[str, ...], line: str
) -> None:
    written = line.format("x\\e]0;owned\\a\\x9b2J\\u202ey")
    node = f"  - id: a\n    prompt: x\n    provider: {{type: command, run: {json.dumps(WRITE_RESULT)}}}\n"
    (project.root / "p.yaml").write_text(f"{written}\nnodes:\n{node}")
    done = project.call(*command, *form)
    is_harmless(done)
    assert done.code == (0 if "description" in line else 2)
    if form:
        json.loads(done.out)


@pytest.mark.parametrize("command", [("lint",), ("stages",), ("pipelines",), ("providers",), ("doctor",)])
@pytest.mark.parametrize("form", one_in(2, [(), ("--json",)]))
def test_names_of_files(project: Project, command: tuple[str, ...], form: tuple[str, ...]) -> None:
    project.stage(HOSTILE)
    (project.root / ".claude" / "pipelines").mkdir()
    (project.root / ".claude" / "pipelines" / f"{HOSTILE}.yaml").write_text("nodes: [{id: a, prompt: x}]")
    folder = project.root / ".agentforge" / "providers"
    folder.mkdir(parents=True)
    (folder / f"{HOSTILE}.yaml").write_text("program: x")
    (folder / "mine.yaml").write_text('program: "x\\e]0;owned\\a"\n')
    done = project.call(*command, *form)
    is_harmless(done)
    if form:
        json.loads(done.out)


@pytest.mark.parametrize(
    "arguments", [("status", HOSTILE), ("run", "-p", HOSTILE), (HOSTILE,), ("tail", HOSTILE)]
)
def test_arguments_in_errors(project: Project, arguments: tuple[str, ...]) -> None:
    done = project.call(*arguments)
    assert done.code != 0
    is_harmless(done)
