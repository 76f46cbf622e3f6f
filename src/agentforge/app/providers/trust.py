"""Whether the user trusts a project to override built-in providers: its own files can't say so."""

import os
from collections.abc import Mapping

from agentforge.model.errors import ProviderUnusable, StorageFailed
from agentforge.system import files

VARIABLE = "AGENTFORGE_TRUST_PROJECT"
FILE = os.path.join("agentforge", "trusted-projects")
"""In the user's config folder: one project's folder per line."""
MAX_BYTES = 1 << 20


def is_trusted(project: str, environ: Mapping[str, str]) -> bool:
    if environ.get(VARIABLE) == "1":
        return True
    home = environ.get("HOME", "")
    folder = environ.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
    try:
        text = files.read_text(os.path.join(folder, FILE), MAX_BYTES) if os.path.isabs(folder) else None
    except StorageFailed:
        return False
    listed = (os.path.realpath(line.strip()) for line in (text or "").splitlines() if os.path.isabs(line))
    return os.path.realpath(project) in listed


def untrusted(name: str, file: str) -> ProviderUnusable:
    return ProviderUnusable(
        f"provider {name!r}: {file} would override the built-in one",
        hint="rename the file to give the provider its own name, pass --trust-project, or add the project's "
        f"folder to ~/.config/{FILE}",
    )
