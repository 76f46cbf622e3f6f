"""What the settings of git name: programs, hooks and further settings in the files of a project.

No list of keys is complete, so every value is read as a command, except for those that never are one.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct

from agentforge.system import files
from agentforge.system.git import git_program
from agentforge.system.programs import run

SECONDS = 10.0
MAX_OUTPUT = 4 * 1024 * 1024
MAX_BYTES = 1024 * 1024
MAX_INCLUDED = 64
MAX_NESTED = 4
_HOOKS = "core.hookspath"
_FILES = frozenset({"core.attributesfile", "core.excludesfile", "commit.template"})
_NEVER_COMMANDS = (".merge", ".url", ".pushurl", ".fetch", ".remote", ".name", ".email", ".worktree")
_STARTED_ANYWHERE = re.compile(
    r"core\.(?:hookspath|fsmonitor|editor|pager)|diff\.external|gpg\..*program|hook\..*\.command"
    r"|filter\..*\.(?:clean|smudge|process)|diff\..*\.(?:command|textconv)"
)
"""What `git status`, `git diff` and `git commit` start."""
_COMMANDS = re.compile(r"[;|&()`\n]+")
_RUNS_ANOTHER = re.compile(
    r"(?:(?:ba|da|z|k)?sh|python[\d.]*|node|ruby|perl|php|env|exec|command|source|\.|sudo|nice|nohup|time)"
)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)


class NamedFiles(Struct, frozen=True):
    """Absolute paths, those inside the project only."""

    folders: tuple[str, ...] = ()
    """Of hooks."""
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Programs and settings that don't exist."""
    is_anywhere: bool = False
    """Whether a setting of the user names a program relative to whatever repository git works in."""

    def __add__(self, other: "NamedFiles") -> "NamedFiles":
        return NamedFiles(
            self.folders + other.folders,
            self.files + other.files,
            self.missing + other.missing,
            self.is_anywhere or other.is_anywhere,
        )

    @property
    def all(self) -> tuple[str, ...]:
        return self.folders + self.files + self.missing


class _Setting(Struct, frozen=True):
    scope: str
    origin: str
    """The file, as an absolute path."""
    name: str
    value: str

    @property
    def is_include(self) -> bool:
        return self.name == "include.path" or (
            self.name.startswith("includeif.") and self.name.endswith(".path")
        )


def setting_names(path: str, environ: Mapping[str, str]) -> list[str] | None:
    """The names of the settings in a file, those of included files excepted; None if it can't be read."""
    about = files.about(path)
    if about is None or about.st_size > MAX_BYTES:
        return None
    listed = _listed(os.path.dirname(path), environ, "--file", path, "--name-only")
    return None if listed is None else [os.fsdecode(name) for name in listed.split(b"\0") if name]


def named_files(root: str, project: str, environ: Mapping[str, str]) -> NamedFiles:
    """What the settings name that git uses in `root`, the top of a work tree: the user's and its own."""
    found: dict[str, list[str]] = {"folders": [], "files": [], "missing": []}
    is_anywhere = False
    home = environ.get("HOME", "")
    for setting in _settings(root, environ):
        for path, kind in _named(setting):
            is_relative = not path.startswith(("/", "~"))
            base = os.path.dirname(setting.origin) if kind == "include" else root
            place = _place(path, base, home)
            if setting.scope not in ("local", "worktree") and _STARTED_ANYWHERE.fullmatch(setting.name):
                is_anywhere = is_anywhere or (is_relative and kind in ("hooks", "program"))
            if not place.startswith(f"{project}/"):
                continue
            if kind == "hooks":
                found["folders"].append(place)
            elif os.path.isfile(place):
                if kind != "word" or os.access(place, os.X_OK):
                    found["files"].append(place)
            elif kind in ("program", "include") and not os.path.isdir(place):
                found["missing"].append(place)
    lists = {kind: tuple(dict.fromkeys(paths)) for kind, paths in found.items()}
    return NamedFiles(**lists, is_anywhere=is_anywhere)


def _settings(root: str, environ: Mapping[str, str]) -> Iterator[_Setting]:
    """All of them, with those of included files, whatever the condition of the include is."""
    listed = _listed(root, environ, "--show-scope", "--show-origin") or b""
    fields = [os.fsdecode(field) for field in listed.split(b"\0")]
    todo = [
        _setting(scope, os.path.join(root, origin.removeprefix("file:")), entry)
        for scope, origin, entry in zip(fields[::3], fields[1::3], fields[2::3], strict=False)
        if scope != "command"
    ]
    seen: set[str] = set()
    while todo:
        setting = todo.pop()
        yield setting
        path = _place(setting.value, os.path.dirname(setting.origin), environ.get("HOME", ""))
        if not setting.is_include or path in seen or len(seen) >= MAX_INCLUDED:
            continue
        seen.add(path)
        about = files.about(os.path.realpath(path))
        if about is not None and about.st_size <= MAX_BYTES:
            inner = _listed(root, environ, "--file", path) or b""
            entries = (os.fsdecode(entry) for entry in inner.split(b"\0") if entry)
            todo += [_setting(setting.scope, path, entry) for entry in entries]


def _setting(scope: str, origin: str, entry: str) -> _Setting:
    name, _, value = entry.partition("\n")
    return _Setting(scope, os.path.normpath(origin), name, value)


def _listed(folder: str, environ: Mapping[str, str], *options: str) -> bytes | None:
    words = ("config", "--list", "--no-includes", "-z", *options)
    ended = run(git_program(folder, environ, *words, timeout=SECONDS, max_output=MAX_OUTPUT))
    return None if ended.code != 0 or ended.truncated else ended.stdout


def _place(path: str, base: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        return os.path.normpath(os.path.join(home, path[2:]))
    return os.path.normpath(os.path.join(base, path))


def _named(setting: _Setting) -> Iterator[tuple[str, str]]:
    """The paths that the setting names, and what each is: hooks, include, file, program or word."""
    value = setting.value
    if not value:
        return
    if setting.name == _HOOKS:
        yield value, "hooks"
    elif setting.is_include:
        yield value, "include"
    elif setting.name in _FILES:
        yield value, "file"
    elif setting.name.startswith(("alias.", "url.")) and not value.startswith("!"):
        return  # Arguments of git, the beginning of an address.
    elif not setting.name.endswith(_NEVER_COMMANDS):
        yield from ((word, "program") for word in programs_in(value.removeprefix("!")))
        yield from ((word, "word") for word in value.split() if "/" in word)


def programs_in(value: str, depth: int = 0) -> Iterator[str]:
    """The programs that a command starts, as far as they are written as paths, and the scripts that it gives
    to interpreters."""
    if "/" in value and not any(character in value for character in "'\"\\;|&()$`"):
        yield value  # Also a path with spaces.
    for command in _COMMANDS.split(value):
        is_script = False
        for word in _words(command):
            if is_script and " " in word and depth < MAX_NESTED:
                yield from programs_in(word, depth + 1)  # As in `sh -c '…'`.
            if word.startswith("-") or _ASSIGNMENT.fullmatch(word):
                continue
            runs_another = _RUNS_ANOTHER.fullmatch(os.path.basename(word))
            if "/" in word or (is_script and not runs_another):
                yield word
            if not runs_another:
                break
            is_script = True


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
