"""No test is skipped for a reason that a reader wouldn't accept."""

import pytest
from tests.skips import CLASSES, error


@pytest.mark.parametrize("name", CLASSES)
def test_known_classes_are_accepted(name: str) -> None:
    assert error(f"{name}: some detail", allowed=" ".join(CLASSES)) == ""


@pytest.mark.parametrize("reason", ["", "flaky", "sandbox", "later: some detail", "unconditional skip"])
def test_anything_else_is_a_failure(reason: str) -> None:
    assert "without a known class" in error(reason)


def test_a_class_that_could_run_here_is_a_failure() -> None:
    assert error("program: needs tmux", allowed="program sandbox") == ""
    assert "could run here" in error("agent: no claude", allowed="program sandbox")
    assert "could run here" in error("agent: no claude", allowed="")


PROBE = """
import pytest

@pytest.mark.skip(reason={reason!r})
def test_it():
    pass
"""


@pytest.mark.parametrize(("reason", "code"), [("platform: needs /proc", 0), ("some day", 1)])
def test_pytest_itself_fails_on_a_skip_without_a_class(
    pytestconfig: pytest.Config, reason: str, code: int
) -> None:
    """In a pytest of its own, with the same hooks."""
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    root = pytestconfig.rootpath
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_probe.py").write_text(PROBE.format(reason=reason))
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
        done = subprocess.run(
            [*argv, "--rootdir", folder, folder], cwd=root, capture_output=True, text=True, check=False
        )
    assert done.returncode == code, done.stdout
    assert ("without a known class" in done.stdout) is bool(code)
