"""What a delivery reads of the user's repository: its branch, its lists of files, its settings and
attributes."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentforge.adapters.host.git_commands import MAX_LISTING, GitCommands
from agentforge.adapters.host.git_objects import GitObjects, TreeEntry
from agentforge.adapters.host.git_text import NAMES, Conversion, conversion
from agentforge.adapters.host.tree_scan import TreeFailed
from agentforge.system.git import git_program
from agentforge.system.programs import ProgramResult, run

HEAD = "HEAD"
BRANCHES = "refs/heads/"
_UNDER_WAY = {
    "merge": "a merge",
    "cherry-pick": "a cherry-pick",
    "revert": "a revert",
}
_REBASES = ("rebase-merge", "rebase-apply")
_LISTED = re.compile(
    rb"(?P<mode>[0-7]{6}) (?:\w+ )?(?P<id>[0-9a-f]{40,64})(?: (?P<stage>\d))?\t(?P<path>.+)", re.DOTALL
)
_NOT_IN_IDENTITY = re.compile(r"[<>\n\0]")


class WorkTree(Struct, frozen=True):
    """The repository now."""

    folder: str
    """That of the work tree below `.git`."""
    prefix: str
    """The project in its repository, with a slash; empty if it is its root."""
    hash_name: str
    head: str
    """The commit; empty before the first one."""
    ref: str
    """The full name of the branch, or HEAD without one."""

    @property
    def under_way(self) -> str:
        """What the user has begun there."""
        heads = {f"{name.upper().replace('-', '_')}_HEAD": what for name, what in _UNDER_WAY.items()}
        marks = {**heads, **dict.fromkeys(_REBASES, "a rebase")}
        found = (what for name, what in marks.items() if os.path.lexists(f"{self.folder}/{name}"))
        return next(found, "")


class GitRepository:
    """Its methods may raise TreeFailed and TooMuch."""

    def __init__(self, project: str, environ: Mapping[str, str], seconds: float) -> None:
        self.git = GitCommands(project, environ, seconds)
        self._project = project
        self._environ = environ
        self._seconds = seconds

    def here(self) -> WorkTree:
        words = ("--is-bare-repository", "--is-inside-work-tree", "--show-object-format")
        answer = self.git.call("rev-parse", *words).output.split()
        if answer[:2] != ["false", "true"]:
            raise TreeFailed("the project is not in a work tree of git")
        folder = self._path("--absolute-git-dir")
        named = self.ask("symbolic-ref", "-q", HEAD)
        ref = named.output.strip() if named.code == 0 else HEAD
        return WorkTree(folder, self._path("--show-prefix"), answer[2], self.commit_at(HEAD), ref)

    def _path(self, option: str) -> str:
        return os.fsdecode(self.git.call("rev-parse", option).stdout.removesuffix(b"\n"))

    def common_folder(self) -> str:
        """That of the repository, which its work trees share."""
        asked = self.git.call("rev-parse", "--path-format=absolute", "--git-common-dir")
        return os.path.realpath(os.fsdecode(asked.stdout.removesuffix(b"\n")))

    def commit_at(self, name: str) -> str:
        """Empty without such a commit."""
        found = self.ask("rev-parse", "--verify", "-q", f"{name}^{{commit}}")
        return found.output.strip() if found.code == 0 else ""

    def ask(self, *arguments: str, stdin: bytes = b"") -> ProgramResult:
        """Like a call, but a failure is an answer."""
        return run(
            git_program(
                self._project,
                self._environ,
                *arguments,
                timeout=self._seconds,
                max_output=MAX_LISTING,
                stdin=stdin,
            )
        )

    def setting(self, *words: str) -> str:
        """The value that git would use; empty without one."""
        found = self.ask("config", "--get", *words)
        return found.output.strip() if found.code == 0 else ""

    def tree_of(self, commit: str) -> dict[str, TreeEntry]:
        """By the paths of the repository; nothing before the first commit."""
        if not commit:
            return {}
        output = self.git.call("ls-tree", "-r", "-z", "--full-tree", commit).stdout
        return {path: entry for path, entry, _ in _entries(output)}

    def index(self) -> dict[str, TreeEntry]:
        """By the paths of the repository; an entry in conflict is like no other."""
        top = self._path("--show-cdup") or "."
        output = self.git.call("ls-files", "-s", "-z", "--full-name", "--", top).stdout
        return {
            path: entry if stage == "0" else TreeEntry(stage, entry.id)
            for path, entry, stage in _entries(output)
        }

    def conversions(self, paths: Sequence[str]) -> dict[str, Conversion]:
        """How git converts files, by their paths in the project."""
        if not paths:
            return {}
        asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
        words = self.git.call("check-attr", "-z", "--stdin", *NAMES, stdin=asked).stdout.split(b"\0")
        given: dict[str, dict[str, str]] = {path: {} for path in paths}
        for path, name, value in zip(words[::3], words[1::3], words[2::3], strict=False):
            given.setdefault(os.fsdecode(path), {})[name.decode()] = value.decode("utf-8", "replace")
        autocrlf = self.setting("core.autocrlf")
        return {path: conversion(attributes, autocrlf) for path, attributes in given.items()}

    def identity(self, who: str) -> str:
        """Of the AUTHOR or the COMMITTER, as git would take it."""
        found = []
        for part in ("name", "email"):
            given = self._environ.get(f"GIT_{who}_{part.upper()}") or self.setting(f"{who.lower()}.{part}")
            found.append(_NOT_IN_IDENTITY.sub("", given or self.setting(f"user.{part}")).strip())
        name, mail = found
        if not name or not mail:
            raise TreeFailed("git doesn't know your name: set user.name and user.email with `git config`")
        return f"{name} <{mail}>"


def objects_in(folder: str, here: WorkTree) -> GitObjects:
    return GitObjects(folder, "sha256" if here.hash_name == "sha256" else "sha1")


def _entries(output: bytes) -> Iterator[tuple[str, TreeEntry, str]]:
    for match in map(_LISTED.fullmatch, output.split(b"\0")):
        if match is not None:
            stage = (match["stage"] or b"0").decode()
            yield os.fsdecode(match["path"]), TreeEntry(match["mode"].decode(), match["id"].decode()), stage
