"""The agent CLIs on this machine: which are installed, and which have an API key or a login."""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from agentforge.app.providers.offers import AGENTS
from agentforge.system.tools import tool_environment

if TYPE_CHECKING:
    from agentforge.adapters.cli_agents.description import AgentCli


class AgentLogin(Struct, frozen=True):
    name: str
    path: str = ""
    """Of its program; empty if it isn't installed."""
    credentials: str = ""
    """What was found, by name and never by value; empty if nothing was."""
    fix: str = ""
    """What to do if it isn't usable."""

    @property
    def is_usable(self) -> bool:
        return bool(self.path and self.credentials)

    @property
    def found(self) -> str:
        return self.credentials if self.path else "not found"


def agent_logins(project: str, environ: Mapping[str, str]) -> list[AgentLogin]:
    """Each agent CLI that is built in. Runs nothing, and ignores programs in the project."""
    from agentforge.app.providers.described import BASES

    path = tool_environment(environ, project)["PATH"]
    return [agent_login(cli, shutil.which(cli.program_name, path=path), environ) for cli in BASES.values()]


def usable_agent(project: str, environ: Mapping[str, str]) -> str:
    """The first agent that is installed and logged in, or the one that is proposed to people without any."""
    return next((login.name for login in agent_logins(project, environ) if login.is_usable), AGENTS[0])


def agent_login(cli: "AgentCli", path: str | None, environ: Mapping[str, str]) -> AgentLogin:
    if path is None:
        return AgentLogin(cli.name, fix=cli.install)
    if credentials := _credentials(cli, environ):
        return AgentLogin(cli.name, path, credentials)
    keychain = " (a login in the keychain isn't detected)" if sys.platform == "darwin" else ""
    return AgentLogin(cli.name, path, fix=f"{cli.log_in}, or set {cli.keys[0]}{keychain}")


def _credentials(cli: "AgentCli", environ: Mapping[str, str]) -> str:
    for variable in cli.keys:
        if environ.get(variable):
            return f"{variable} is set"
    # Only whether the file is there: what it contains is the agent's business, and may be expired anyway.
    for login in cli.logins:
        if os.path.isfile(_expanded(login, environ)):
            return f"logged in ({login.rpartition(':')[2]})"
    return ""


def _expanded(login: str, environ: Mapping[str, str]) -> str:
    """`$CODEX_HOME:~/.codex/auth.json`: if the variable is set, the file is in its folder."""
    variable, _, default = login.rpartition(":")
    moved = environ.get(variable.removeprefix("$")) if variable else None
    if moved:
        # XDG variables name the parent of the folder of a program, others the folder itself.
        below = 2 if variable.startswith("$XDG") else 1
        return os.path.join(moved, *default.split("/")[-below:])
    home = environ.get("HOME") or os.path.expanduser("~")
    return default.replace("~", home, 1)
