"""The loop completes in repositories of any kind: with the commands that are found there, also if they fail
from the beginning, and without any."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.surface.terminal import Project

# It makes one file, and finds everything good.
AGENT = f"""\
#!{sys.executable} -IS
import json, os
from pathlib import Path
stage = Path(os.environ["AGENTFORGE_RESULT"]).parents[2].name[9:]
step = {{"id": "s1", "title": "Make it", "action": "Make it."}}
step["criteria"] = [{{"file": {{"path": "made.txt"}}}}]
if stage == "executor":
    Path("made.txt").write_text("made")
good = {{"level": "good", "explanation": "fine"}}
aspects = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")
dimensions = dict.fromkeys(aspects, good)
artifact = {{
    "planner": {{"goal": "it is made", "steps": [step]}},
    "executor": {{"verdict": "pass", "summary": "made it"}},
    "verifier": {{"verdict": "pass", "checks": [{{"name": "all", "status": "pass"}}]}},
    "reviewer": {{"verdict": "pass", "summary": "good", "tried": ["it"], "dimensions": dimensions}},
}}[stage]
Path(os.environ["AGENTFORGE_ARTIFACT"]).write_text(json.dumps(artifact))
Path(os.environ["AGENTFORGE_RESULT"]).write_text(json.dumps({{"summary": "did it"}}))
"""
PYTEST = '[project]\nname = "x"\nversion = "0"\n[tool.pytest.ini_options]\n'
PASSES = "def test_it():\n    pass\n"
UNUSED = f"import os\n\n\n{PASSES}"
FAILS = "def test_it():\n    assert False\n"
UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n"
PACKAGE = {"name": "x", "version": "1.0.0", "scripts": {"test": "echo tested", "lint": "echo linted"}}
PLAIN = {"pyproject.toml": PYTEST.partition("[tool")[0], "tests/__init__.py": ""}
KINDS = {
    "Python, pytest": ("pytest", "test", {"pyproject.toml": PYTEST, "tests/test_it.py": PASSES}),
    "unknown": ("", "", {"notes.txt": "nothing is known about this\n"}),
    "red tests": ("pytest", "test", {"pyproject.toml": PYTEST, "test_red.py": FAILS, "test_it.py": PASSES}),
    "red linter without places": ("make", "test", {"Makefile": "test:\n\ttrue\nlint:\n\tfalse\n"}),
}
MORE_KINDS = {
    "Python, unittest": ("python3", "test", {**PLAIN, "tests/test_it.py": UNITTEST}),
    "JavaScript": ("npm", "lint test", {"package.json": json.dumps(PACKAGE)}),
    "Makefile": ("make", "lint test", {"Makefile": "test:\n\ttrue\nlint:\n\ttrue\n"}),
    "red linter": ("ruff", "lint test", {"pyproject.toml": f"{PYTEST}[tool.ruff]\n", "test_it.py": UNUSED}),
}
"""The program that has to be there, the checks before the verifier, and the files."""
SAID = {
    "unknown": "Only an agent verifies",
    "red tests": "baseline of check test failed",
    "red linter": "baseline of check lint failed",
    "red linter without places": "check lint is not used in this run: before the first agent, it fails",
}


@pytest.fixture
def project() -> Iterator[Project]:
    """On the disk: a sandbox hides what is in memory."""
    with tempfile.TemporaryDirectory(prefix="af-loop-") as folder:
        made = Project(Path(folder))
        yield made
        made.end_agents()


@pytest.mark.requirement("FR-001", "FR-011", "NFR-013")
@pytest.mark.parametrize(
    "kind", [*KINDS, *(pytest.param(kind, marks=pytest.mark.soak) for kind in MORE_KINDS)]
)
def test_loop_completes(project: Project, kind: str) -> None:
    program, checks, files = (KINDS | MORE_KINDS)[kind]
    project.env["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    if program and not shutil.which(program, path=project.env["PATH"]):
        pytest.skip(f"program: no {program}")
    for name, text in files.items():
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text(text)
    agent = project.home / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    (project.root / ".agentforge/providers").mkdir(parents=True)
    (project.root / ".agentforge/providers/maker.yaml").write_text(f"program: {agent}\n")
    done = project.call("run", "Make it", "--provider", "maker", "-s", "s")
    assert done.code == 0, done
    assert SAID.get(kind, "") in done.out + done.err
    assert (project.root / "made.txt").exists()
    told = [event["data"] for event in project.events("s") if event["type"] == "check_complete"]
    checked = {one["check"]: one["status"] for one in told if not one.get("baseline")}
    assert checked == dict.fromkeys(["criteria", *checks.split()], "pass")
