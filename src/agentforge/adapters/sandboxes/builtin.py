"""All sandboxes, by the name used in a stage."""

from collections.abc import Mapping

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.adapters.sandboxes.docker import DockerSandbox
from agentforge.ports.sandbox import Sandbox


def sandboxes(environ: Mapping[str, str] | None = None, project: str = "") -> dict[str, Sandbox]:
    """All except `none`; `environ` is used to find and run their programs, outside the project."""
    available: tuple[Sandbox, ...] = (BwrapSandbox(environ, project), DockerSandbox(environ, project))
    return {sandbox.name: sandbox for sandbox in available}
