"""A run that is being deleted, killed at every step."""

import subprocess
import sys
from pathlib import Path

from tests.crash import killed_removal


def test_removal_that_is_killed_at_any_step_is_completed_by_the_next(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", killed_removal.__file__, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 8
