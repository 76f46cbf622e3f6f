"""Where an agent's program is."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def find_program(program: str, workdir: str, environment: Mapping[str, str]) -> str | None:
    """Its absolute path; nothing if there is none that can be run."""
    # A name with a slash is relative to where the agent works, not to where the engine was started.
    name = str(Path(workdir) / program) if "/" in program else program
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    return None if found is None else str(Path(found).absolute())
