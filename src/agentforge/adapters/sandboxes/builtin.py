"""The sandboxes that there are, by the name that a stage gives them."""

from collections.abc import Mapping

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.adapters.sandboxes.docker import DockerSandbox
from agentforge.ports.sandbox import Sandbox


def sandboxes(environ: Mapping[str, str] | None = None) -> dict[str, Sandbox]:
    """All but `none`; `environ` is what their own programs are found and run with."""
    available: tuple[Sandbox, ...] = (BwrapSandbox(environ), DockerSandbox(environ))
    return {sandbox.name: sandbox for sandbox in available}
