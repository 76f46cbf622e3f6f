"""Prepares a project: examines it, and writes a first stage, a first pipeline and the lines of .gitignore.
Nothing that exists is overwritten, no link is followed, and nothing of the project is executed."""

import os
from collections.abc import Mapping

from msgspec import Struct

from agentforge.app.logins import AgentLogin, agent_logins
from agentforge.app.providers.offers import BASES
from agentforge.app.starter.language import find_language
from agentforge.app.starter.texts import IGNORED, IGNORED_TITLE, starter_texts
from agentforge.model.control_characters import control_character
from agentforge.model.errors import InvalidRequest, StorageFailed
from agentforge.system import files

MAX_GITIGNORE = 1024 * 1024
MAX_TEST = 500
_SHARED = 0o777
"""Like any folder of the project: others may read it, as the user's umask allows."""


class ProjectSurvey(Struct, frozen=True):
    """What was found in a project, and what `init` would add to its .gitignore."""

    language: str
    test: str
    """The command that runs the tests; empty if none was found."""
    agents: tuple[AgentLogin, ...]
    ignores: tuple[str, ...]

    @property
    def usable(self) -> tuple[str, ...]:
        """The agents that are installed and logged in."""
        return tuple(agent.name for agent in self.agents if agent.is_usable)


class StarterFiles(Struct, frozen=True):
    """What `init` wrote, as paths relative to the project, and for what."""

    agent: str
    test: str
    """The command that runs the tests; empty if there are none."""
    created: tuple[str, ...]
    kept: tuple[str, ...]
    """What was there already."""
    ignores: tuple[str, ...]
    """The lines that were added to .gitignore."""


def examine_project(
    project: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None
) -> ProjectSurvey:
    """Examine a project without changing it."""
    root = os.path.realpath(project)
    environ = os.environ if environ is None else environ
    try:
        ignores = _missing(_gitignore(root))
    except StorageFailed as error:
        raise _refused(error) from error
    language = find_language(root)
    return ProjectSurvey(language.name, language.test, tuple(agent_logins(root, environ)), ignores)


def init_project(
    project: str | os.PathLike[str] = ".",
    *,
    agent: str | None = None,
    test: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> StarterFiles:
    """Write the first files of a project. `agent` and `test` default to what `examine_project` finds; an
    empty `test` means that the project has no tests."""
    root = os.path.realpath(project)
    survey = examine_project(root, environ)
    agent = agent or next(iter(survey.usable), next(iter(BASES)))
    test = survey.test if test is None else test.strip()
    _refuse(agent, test)
    try:
        created, kept = _written(root, starter_texts(agent, test))
        _append(root, survey.ignores)
    except StorageFailed as error:
        raise _refused(error) from error
    return StarterFiles(agent, test, tuple(created), tuple(kept), survey.ignores)


def _refused(error: StorageFailed) -> StorageFailed:
    return type(error)(error.message, hint="correct this, then run `agentforge init` again")


def _refuse(agent: str, test: str) -> None:
    if agent not in BASES:
        raise InvalidRequest(f"no agent named {agent!r}", hint=f"use one of {', '.join(BASES)}")
    if control_character(test) or len(test) > MAX_TEST:
        raise InvalidRequest("the test command must be one short line", hint="put a longer one into a script")


def _written(root: str, texts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The paths that were created, and those that were there. A folder with files is kept as it is: a file
    more could change what a stage of the user does."""
    folders = {os.path.dirname(path) for path in texts if "/stages/" in path}
    taken = {folder for folder in folders if files.listing(os.path.join(root, folder))}
    created: list[str] = []
    kept: list[str] = []
    for path, text in texts.items():
        place = os.path.join(root, path)
        is_new = os.path.dirname(path) not in taken and not os.path.lexists(place)
        if is_new:
            files.make_dir(os.path.dirname(place), _SHARED)
            is_new = files.place(place, text.encode())
        (created if is_new else kept).append(path)
    return created, kept


def _gitignore(root: str) -> bytes:
    return files.read_bytes(os.path.join(root, ".gitignore"), MAX_GITIGNORE) or b""


def _missing(gitignore: bytes) -> tuple[str, ...]:
    there = {_plain(line) for line in gitignore.decode("utf-8", "replace").splitlines()}
    return tuple(line for line in IGNORED if _plain(line) not in there)


def _plain(line: str) -> str:
    return line.strip().strip("/")


def _append(root: str, lines: tuple[str, ...]) -> None:
    if not lines:
        return
    path, before = os.path.join(root, ".gitignore"), _gitignore(root)
    end = "\r\n" if b"\r\n" in before else "\n"
    gap = "" if not before else end if before.endswith(b"\n") else end * 2
    added = gap + "".join(f"{line}{end}" for line in (IGNORED_TITLE, *lines))
    if not before and files.place(path, added.encode()):
        return
    files.append(path, added.encode())
