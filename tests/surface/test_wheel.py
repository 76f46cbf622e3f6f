"""The wheel, installed into an empty environment, works from a folder that isn't the repository."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.surface.json_page import PAGE, Comparison, read_page
from tests.worker_shares import once_for_all_workers

ROOT = Path(__file__).parents[2]
OFFLINE = ("No matching distribution found", "Could not find a version", "Failed to establish", "Max retries")

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def agentforge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that holds the wheel and its dependencies, nothing else."""
    return once_for_all_workers(tmp_path_factory, "wheel", _install) / "venv" / "bin" / "agentforge"


def _install(place: Path) -> None:
    # A clone in a folder like `name-2` would be built in pip's cache, under that name, by all runs at once.
    options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", str(place / "dist"))
    _pip("wheel", str(ROOT), *options)
    (wheel,) = (place / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    python = place / "venv" / "bin" / "python"
    constraints = str(ROOT / "constraints.txt")
    # What the tests import is compiled then.
    _pip("--python", str(python), "install", "--no-compile", "-c", constraints, str(wheel))


def test_the_wheel_holds_nothing_that_only_the_repository_has(agentforge: Path) -> None:
    installed = agentforge.parents[1].glob("lib/python*/site-packages/*.dist-info")
    names = {folder.name.partition("-")[0].lower() for folder in installed}
    assert "agentforge_pipelines" in names
    assert "pytest" not in names


def test_the_wheel_brings_the_manual_page(agentforge: Path) -> None:
    page = agentforge.parents[1] / "share/man/man1/agentforge.1"
    assert ".SH NAME\nagentforge" in page.read_text(encoding="utf-8")


def test_the_demo_runs_from_the_wheel_outside_the_repository(agentforge: Path, tmp_path: Path) -> None:
    done = _run(agentforge, tmp_path, "demo", "--json")
    numbers = json.loads(done.stdout)
    assert numbers["kills_survived"] == 2
    # On a busy machine an agent may be done before the next engine looks for it.
    assert numbers["agents_reattached"] <= numbers["kills_survived"]
    assert numbers["iterations"] == 4
    assert numbers["iterations_lost"] == numbers["iterations_repeated"] == 0
    assert "plain addresses" in numbers["commit"]
    comparison = Comparison(read_page(PAGE.read_text(encoding="utf-8")))
    comparison.compare(numbers, "demo", "demo")
    assert comparison.problems == set()


def test_a_pipeline_runs_from_the_wheel_outside_the_repository(agentforge: Path, tmp_path: Path) -> None:
    stage = tmp_path / ".claude" / "stages" / "hello"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text("name: hello\nprovider: {type: command, run: 'cat > seen'}\n")
    (stage / "prompt.md").write_text("hello ${SESSION}, write ${RESULT}\n")
    (tmp_path / "pipe.yaml").write_text("name: pipe\nnodes:\n  - id: one\n    stage: hello\n    runs: 2\n")
    done = _run(agentforge, tmp_path, "run", "-p", "pipe.yaml", "-s", "s1", mock="true")
    assert done.returncode == 0
    status = json.loads(_run(agentforge, tmp_path, "status", "s1", "--json").stdout)
    assert status["status"] == "completed"
    built_in = _run(agentforge, tmp_path, "loop", "work", "s2", "1", "--foreground", mock="true")
    assert built_in.returncode == 0
    original = _run(
        agentforge.with_name("agent-pipelines"), tmp_path, "work", "s3", "1", "--no-tmux", mock="true"
    )
    assert original.returncode == 0


def _run(agentforge: Path, folder: Path, *arguments: str, mock: str = "") -> subprocess.CompletedProcess[str]:
    environ: Mapping[str, str] = {
        "PATH": f"{agentforge.parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "MOCK_MODE": mock,
    }
    done = subprocess.run(
        [agentforge, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and any(sign in done.stderr for sign in OFFLINE):
        pytest.skip(f"index: no package index within reach: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
