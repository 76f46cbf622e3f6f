"""Where an agent's program is, and what it can't be called with."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentforge.model.errors import ProviderUnusable

# Linux takes no single argument longer than this, whatever the total may be.
MAX_ARGUMENT_BYTES = 128 * 1024 - 1


def find_program(program: str, workdir: str, environment: Mapping[str, str]) -> str | None:
    """Its absolute path; nothing if there is none that can be run."""
    # A name with a slash is relative to where the agent works, not to where the engine was started.
    name = str(Path(workdir) / program) if "/" in program else program
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    return None if found is None else str(Path(found).absolute())


def refuse_impossible(provider: str, words: Iterable[str]) -> None:
    """What the kernel would refuse less clearly."""
    for word in words:
        if "\0" in word:
            raise ProviderUnusable(
                f"provider {provider}: an argument holds a NUL character", hint="use `prompt: stdin`"
            )
        size = len(word.encode("utf-8", "replace"))
        if size > MAX_ARGUMENT_BYTES:
            raise ProviderUnusable(
                f"provider {provider}: an argument of {size} bytes is longer than the system takes",
                hint="use `prompt: stdin` or `prompt: file`",
            )
