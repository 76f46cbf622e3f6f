"""How the engine calls git: whatever a repository configures, git starts no program of its choice and reaches
no network.

The user's and the system's own settings stay in effect (`safe.directory`, `core.excludesFile`). No setting
disables all filters and diff drivers, which have names of the repository's choice. So the engine only uses
commands that don't convert the content of files; `SAFE_COMMANDS` lists them. Hooks are disabled, also the one
of `update-ref`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from agentforge.system.programs import Program
from agentforge.system.tools import find_tool, tool_environment

SAFE_COMMANDS: Final = frozenset(
    {
        *("cat-file", "check-attr", "config", "ls-files", "ls-tree", "merge-base", "rev-parse"),
        *("symbolic-ref", "update-index", "update-ref"),
    }
)
REMOTE_COMMANDS: Final = frozenset({"ls-remote", "push"})
"""Those that contact another repository. They run in a repository of the engine's own, with the objects of
the user's: the user's own settings are in effect, and none of the user's repository."""
_CONVERTS: Final = frozenset({"--filters", "--textconv"})
MAX_COMPARED: Final = 16 * 1024 * 1024
"""Larger content counts as binary."""
MAX_MEMORY: Final = 1024 * 1024 * 1024
"""An object of some megabytes can unfold to any number of gigabytes, which git holds in memory."""
_SETTINGS: Final = (
    # Programs that git starts on its own.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    # Within the limit of memory, also for large packs.
    "core.packedGitWindowSize=32m",
    "core.packedGitLimit=256m",
    "gc.auto=0",
    "maintenance.auto=false",
    # Signatures are neither made nor verified.
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    # Other repositories: remote ones, submodules, and a folder that only looks like a bare repository.
    "protocol.allow=never",
    "submodule.recurse=false",
    "status.submoduleSummary=false",
    "safe.bareRepository=explicit",
)
_REMOTE_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "push.recurseSubmodules=no",
    "protocol.ext.allow=never",
    "safe.bareRepository=all",
)
_VARIABLES: Final = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
}
_KEPT: Final = (
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    *("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
)

_MISSING: Final = os.path.join(os.devnull, "git")


def git_argv(*arguments: str) -> tuple[str, ...]:
    options = [word for setting in _SETTINGS for word in ("-c", setting)]
    return ("git", "--no-pager", *options, *arguments)


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables that point git to another repository, such as those that a git hook has."""
    inherited = {
        name: value for name, value in environ.items() if not name.startswith("GIT_") or name in _KEPT
    }
    return {**inherited, **_VARIABLES}


def _resolved(argv: tuple[str, ...], environ: Mapping[str, str], project: str) -> tuple[str, ...]:
    return (find_tool("git", environ, project) or _MISSING, *argv[1:])


def object_program(
    project: str,
    repository: str,
    objects: Sequence[str],
    environ: Mapping[str, str],
    *arguments: str,
    timeout: float,
    max_output: int,
    stdin: bytes = b"",
) -> Program:
    """A comparison of objects in folders that something else may have written: with a repository of the
    engine's own, and without anyone's settings."""
    if arguments[0] != "diff-tree" or _CONVERTS.intersection(arguments):
        raise ValueError(f"git {arguments[0]} is not a comparison of objects")
    own = {
        "GIT_DIR": repository,
        "GIT_OBJECT_DIRECTORY": objects[0],
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(map(_quoted, objects[1:])),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    return Program(
        _resolved(git_argv("-c", f"core.bigFileThreshold={MAX_COMPARED}", *arguments), environ, project),
        timeout,
        cwd=repository,
        env={**git_environment(tool_environment(environ, project)), **own},
        max_output=max_output,
        max_memory=MAX_MEMORY,
        stdin=stdin,
    )


def _quoted(path: str) -> str:
    """As an entry of a list of paths, where a colon would separate two."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def remote_program(
    project: str,
    repository: str,
    objects: str,
    environ: Mapping[str, str],
    *arguments: str,
    timeout: float,
    max_output: int,
    mark: Mapping[str, str],
) -> Program:
    """A call that contacts another repository: its address is an argument. `repository`: an empty one of the
    engine's own; `objects`: the folder with those of the user's. `mark`: variables that identify it."""
    if arguments[0] not in REMOTE_COMMANDS:
        raise ValueError(f"git {arguments[0]} is not for other repositories")
    options = [word for setting in _REMOTE_SETTINGS for word in ("-c", setting)]
    env = git_environment(tool_environment(environ, project))
    # Programs of the user may ask a keyring, but not at a terminal.
    for name in ("GIT_ALLOW_PROTOCOL", "GIT_SSH_COMMAND", "GIT_ATTR_NOSYSTEM"):
        del env[name]
    env |= {name: environ[name] for name in ("GIT_SSH", "GIT_SSH_COMMAND") if name in environ}
    return Program(
        _resolved(("git", "--no-pager", *options, *arguments), environ, project),
        timeout,
        cwd=repository,
        env={**env, "GIT_DIR": repository, "GIT_OBJECT_DIRECTORY": objects, **mark},
        max_output=max_output,
        contained=True,
    )


def git_program(
    root: str,
    environ: Mapping[str, str],
    *arguments: str,
    timeout: float,
    max_output: int,
    stdin: bytes = b"",
    any_owner: bool = False,
) -> Program:
    """A call of the engine, in the repository that contains `root`. `any_owner`: for what
    is only read, also if it belongs to another user."""
    if arguments[0] not in SAFE_COMMANDS or _CONVERTS.intersection(arguments):
        raise ValueError(f"git {arguments[0]} may start programs that the repository configures")
    options = ("-c", "safe.directory=*") if any_owner else ()
    return Program(
        _resolved(git_argv(*options, *arguments), environ, root),
        timeout,
        cwd=os.path.abspath(root),
        env=git_environment(tool_environment(environ, root)),
        max_output=max_output,
        max_memory=MAX_MEMORY,
        stdin=stdin,
    )
