"""Runs of scripts in a real sandbox, in a project of its own."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.model.errors import ProviderUnusable
from agentforge.model.plan import SandboxChoice
from agentforge.views.results import RunResult

WORK = """printf '{"summary": "done"}' > "$AGENTFORGE_RESULT"\n"""
TRY = """try() { if (eval "$1") >/dev/null 2>&1; then echo "could: $1" >> could; fi; }\n"""


def need_bwrap() -> None:
    try:
        BwrapSandbox().probe(SandboxChoice(type="bwrap"))
    except ProviderUnusable as error:
        pytest.skip(f"sandbox: {error.message}; {error.hint}")


def project_in(parent: str) -> Iterator[Path]:
    """A project in a folder that sandboxes leave as it is, such as /srv."""
    if not os.access(parent, os.W_OK):
        pytest.skip(f"privileges: {parent} isn't writable")
    folder = Path(tempfile.mkdtemp(prefix="agentforge-", dir=parent))
    yield folder
    shutil.rmtree(folder)


def script(text: str, id: str = "plan", **changes: Any) -> dict[str, Any]:
    """A stage whose agent is a shell script, confined unless told otherwise."""
    provider = {"type": "command", "run": text}
    return node(id, **{"provider": provider, "sandbox": "bwrap", "retry": {"max_attempts": 1}, **changes})


def attempts(*actions: str) -> str:
    return TRY + "".join(f"try '{action}'\n" for action in actions) + WORK


def ran(project: Path, *nodes: dict[str, Any], session: str = "s", **environ: str) -> RunResult:
    used = engine(project, environ={**ENVIRON, **environ})
    return run(used.run(pipeline(*nodes), session=session))


def could(project: Path) -> list[str]:
    """The actions that an agent should not have been able to do, but did."""
    noted = project / "could"
    return noted.read_text().splitlines() if noted.exists() else []
