"""Stages and providers for runs whose output is compared with docs/json-output.md."""

import json
from typing import Any

from tests.surface.terminal import WRITE_RESULT, Project

WAIT = "while [ ! -e go ]; do sleep 0.02; done"


def agent(shell: str = WRITE_RESULT) -> dict[str, str]:
    """A provider that runs a line of shell."""
    return {"type": "command", "run": f"cat >/dev/null; {shell}"}


def stage(id: str, shell: str = WRITE_RESULT, **more: Any) -> dict[str, Any]:
    return {"id": id, "prompt": "x", "runs": 1, "delay": 0, "provider": agent(shell), **more}


def block(id: str, *providers: str, **more: Any) -> dict[str, Any]:
    stages = [{"id": "draft", "prompt": "x", "runs": 1, "delay": 0}]
    return {"id": id, "parallel": {"providers": list(providers), "stages": stages}, **more}


def write_pipeline(project: Project, name: str, *nodes: dict[str, Any], **more: Any) -> str:
    file = f"{name}.yaml"
    (project.root / file).write_text(json.dumps({"name": name, "nodes": nodes, **more}))
    return file


def describe_provider(project: Project, name: str, shell: str) -> None:
    """A provider of the project that runs a line of shell, also in a block and as a judge."""
    program = project.home / name
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{shell}\n")
    program.chmod(0o755)
    folder = project.root / ".agentforge" / "providers"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(f"program: {program}\n")
