"""What the settings of git name: programs, hooks and further settings in the files of a project.

No list of keys is complete, so every value is read as a command, except for those that never are one.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.system import files
from agentforge.system.git import git_program
from agentforge.system.links import way
from agentforge.system.programs import run

SECONDS = 10.0
MAX_OUTPUT = 4 * 1024 * 1024
MAX_BYTES = 1024 * 1024
MAX_INCLUDED = 64
MAX_NESTED = 4
_HOOKS = "core.hookspath"
_FILES = frozenset({"core.attributesfile", "core.excludesfile", "commit.template"})
_NEVER_COMMANDS = (
    *(".merge", ".url", ".pushurl", ".fetch", ".remote", ".name", ".email", ".worktree", ".description"),
)
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
    settings: tuple[str, ...] = ()
    """Those of the files that are settings of git."""
    missing: tuple[str, ...] = ()
    """Programs and settings that don't exist."""
    links: dict[str, str] = {}
    """The links that lead to any of them, and what they say."""
    is_anywhere: bool = False
    """Whether a setting of the user names a program relative to whatever repository git works in."""

    def __add__(self, other: "NamedFiles") -> "NamedFiles":
        return NamedFiles(
            self.folders + other.folders,
            self.files + other.files,
            self.settings + other.settings,
            self.missing + other.missing,
            {**self.links, **other.links},
            self.is_anywhere or other.is_anywhere,
        )

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.folders, *self.files, *self.missing, *self.links)


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


class _Places:
    """What paths lead to, as far as it is in the project."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._folders: dict[str, None] = {}
        self._files: dict[str, None] = {}
        self._settings: dict[str, None] = {}
        self._missing: dict[str, None] = {}
        self._links: dict[str, str] = {}

    def add(self, path: str, kind: str) -> None:
        led = way(path, self._project)
        place = led.end
        is_inside = place == self._project or place.startswith(f"{self._project}/")
        if kind == "hooks":
            self._note(self._folders, place, is_inside)
            self.add_hooks(place)
        elif os.path.isfile(place):
            self._note(self._files, place, is_inside)
            self._note(self._settings, place, is_inside and kind == "include")
        elif kind in ("program", "include") and not os.path.isdir(place):
            self._note(self._missing, place, is_inside)
        else:
            return
        self._links.update(led.links)

    def add_hooks(self, folder: str) -> None:
        """The programs in the project to which hooks are linked."""
        try:
            names = files.listing(folder)
        except StorageFailed:
            return
        for path in (os.path.join(folder, name) for name in names):
            if os.path.islink(path):
                self.add(path, "program")

    def _note(self, places: dict[str, None], place: str, is_inside: bool) -> None:
        if is_inside:
            places[place] = None

    def named(self, is_anywhere: bool = False) -> NamedFiles:
        return NamedFiles(
            tuple(self._folders),
            tuple(self._files),
            tuple(self._settings),
            tuple(self._missing),
            self._links,
            is_anywhere,
        )


def settings_in(path: str, environ: Mapping[str, str]) -> list[tuple[str, str | None]] | None:
    """The names and values in a file, without those of included files; None if it can't be read. A value that
    is None is a name without `=`, which means true."""
    about = files.about(path)
    if about is None or about.st_size > MAX_BYTES:
        return None
    listed = _listed(os.path.dirname(path), environ, "--file", path)
    if listed is None:
        return None
    entries = (os.fsdecode(entry).partition("\n") for entry in listed.split(b"\0") if entry)
    return [(name, value if newline else None) for name, newline, value in entries]


def settings_text(settings: Iterable[tuple[str, str | None]]) -> bytes:
    """A file with these settings."""
    lines = []
    for name, value in settings:
        section, _, rest = name.partition(".")
        inner, dot, key = rest.rpartition(".")
        lines.append(f'[{section} "{_escaped(inner)}"]' if dot else f"[{section}]")
        lines.append(f"\t{key}" if value is None else f'\t{key} = "{_escaped(value)}"')
    return os.fsencode("".join(f"{line}\n" for line in lines))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def named_files(root: str, project: str, environ: Mapping[str, str]) -> NamedFiles:
    """What the settings name that git uses in `root`, the top of a work tree: the user's and its own."""
    places, is_anywhere = _Places(project), False
    home = environ.get("HOME", "")
    for path in _user_settings(home, environ):
        places.add(os.path.join(root, path), "include")
    for setting in _settings(root, environ):
        for path, kind in _named(setting):
            base = os.path.dirname(setting.origin) if kind == "include" else root
            places.add(_place(path, base, home), kind)
            if setting.scope not in ("local", "worktree") and _STARTED_ANYWHERE.fullmatch(setting.name):
                is_relative = not path.startswith(("/", "~"))
                is_anywhere = is_anywhere or (is_relative and kind in ("hooks", "program"))
    return places.named(is_anywhere)


def _user_settings(home: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Also empty or missing ones; they can be in the project, or links into it."""
    yield os.path.join(home, ".gitconfig")
    yield os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git/config")
    yield environ.get("GIT_CONFIG_GLOBAL") or os.devnull


def hook_programs(folders: Iterable[str], project: str) -> NamedFiles:
    """The programs in the project to which the hooks in the folders are linked."""
    places = _Places(project)
    for folder in folders:
        places.add_hooks(folder)
    return places.named()


def _settings(root: str, environ: Mapping[str, str]) -> Iterator[_Setting]:
    """All of them, with those of included files, whatever the condition of the include is."""
    listed = _listed(root, environ, "--show-scope", "--show-origin") or b""
    fields = [os.fsdecode(field) for field in listed.split(b"\0")]
    todo = [
        _setting(scope, os.path.join(root, origin.removeprefix("file:")), entry)
        for scope, origin, entry in zip(fields[::3], fields[1::3], fields[2::3], strict=False)
        # The settings of the command line are the engine's own.
        if scope != "command"
    ]
    seen: set[str] = set()
    while todo:
        setting = todo.pop()
        yield setting
        path = _place(setting.value, os.path.dirname(setting.origin), environ.get("HOME", ""))
        # Files can include each other.
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
    ended = run(git_program(folder, environ, *words, timeout=SECONDS, max_output=MAX_OUTPUT, any_owner=True))
    return None if ended.code != 0 or ended.truncated else ended.stdout


def _place(path: str, base: str, home: str) -> str:
    """Not normalized, as a folder on the way can be a link."""
    if path == "~" or path.startswith("~/"):
        return os.path.join(home, path[2:])
    return os.path.join(base, os.path.expanduser(path) if path.startswith("~") else path)


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
        yield from words_in(value.removeprefix("!")).items()


def words_in(value: str, depth: int = 0) -> dict[str, str]:
    """The words of a command that can name a file, and what each is. "program": a path, or what an
    interpreter is given. "word": any other that isn't looked up in PATH."""
    found: dict[str, str] = {}
    if "/" in value and not any(character in value for character in "'\"\\;|&()$`"):
        found[value] = "program"  # Also a path with spaces.
    for command in (value, *_COMMANDS.split(value)):
        is_script = is_argument = False
        for word in _words(command):
            if " " in word and depth < MAX_NESTED:
                found = {**words_in(word, depth + 1), **found}  # As in `sh -c '…'`.
            if word.startswith("-") or _ASSIGNMENT.fullmatch(word):
                found.setdefault(word.partition("=")[2], "word")
                continue
            runs_another = _RUNS_ANOTHER.fullmatch(os.path.basename(word))
            if "/" in word or (is_script and not runs_another):
                found[word] = "program"
            elif is_argument:
                found.setdefault(word, "word")
            is_script, is_argument = bool(runs_another), True
    found.pop("", None)
    return found


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
