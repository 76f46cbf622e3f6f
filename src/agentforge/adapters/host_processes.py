"""Which process adapter serves on this system."""

import sys

from agentforge.adapters.linux_processes import LinuxProcesses
from agentforge.adapters.macos_processes import MacProcesses
from agentforge.model.errors import AgentForgeError
from agentforge.ports.process import Processes


def host_processes(supervisor: str, platform: str = sys.platform) -> Processes:
    """`supervisor` is the path of the supervisor program."""
    if platform == "linux":
        return LinuxProcesses(supervisor)
    if platform == "darwin":
        return MacProcesses(supervisor)
    system = "Windows" if platform in ("win32", "cygwin") else f"this system ({platform})"
    raise AgentForgeError(
        f"AgentForge doesn't run on {system}: its agents must outlive the engine and end with all they "
        "started, which needs process sessions and signals",
        hint="use Linux or macOS; on Windows, run it inside WSL 2",
    )
