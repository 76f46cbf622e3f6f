"""How the packages of an optional feature are installed."""

import shlex
import sys
from pathlib import Path


def install_command(extra: str, prefix: str = sys.prefix, executable: str = sys.executable) -> str:
    """How to add them to the environment of this program."""
    folders = Path(prefix).parts
    if "pipx" in folders:
        command = f"pipx install --force '.[{extra}]'"
    elif "uv" in folders and "tools" in folders:
        command = f"uv tool install --force '.[{extra}]'"
    else:
        command = f"{shlex.quote(executable)} -m pip install '.[{extra}]'"
    return f"{command}, in a clone of AgentForge"
