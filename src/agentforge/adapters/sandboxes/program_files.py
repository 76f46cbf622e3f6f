"""What a program needs in order to start: its folder, the installation it belongs to, its interpreter."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

# By one of these, a folder that has programs in its `bin` is an installation as a whole.
_INSTALLATION = ("pyvenv.cfg", "conda-meta", "bin/node", "bin/python3", "bin/java")
_MAX_HOPS = 8
_SITE = ("site-packages", "dist-packages")


def program_files(program: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The folders without which the program, those on its PATH and our own don't run."""
    path = environment.get("PATH", os.defpath)
    home = environment.get("HOME", "")
    found: list[str] = []
    for place in (program, sys.executable):
        _trace(place, path, found)
    folders = [
        *(_installation(os.path.dirname(place), home) for place in found),
        *(_installation(folder, home) for folder in path.split(os.pathsep) if os.path.isabs(folder)),
        *_our_own(),
    ]
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in folders))


def _trace(program: str, path: str, found: list[str]) -> None:
    """The program, all that its links lead through, and the same of the interpreter it names."""
    place = shutil.which(program, path=path)
    hops = 0
    while place is not None and place not in found and hops < _MAX_HOPS:
        found.append(place)
        hops += 1
        if os.path.islink(place):
            place = os.path.join(os.path.dirname(place), os.readlink(place))
        else:
            found.append(os.path.realpath(place))
            place = shutil.which(interpreter, path=path) if (interpreter := _interpreter(place)) else None


def _interpreter(program: str) -> str:
    try:
        with Path(program).open("rb") as file:
            first = file.readline(512)
    except OSError:
        return ""
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _installation(folder: str, home: str) -> str:
    """The folder, or the whole installation that it is a part of."""
    before, modules, _ = folder.partition("/node_modules/")
    if modules:
        return f"{before}/node_modules"
    prefix = os.path.dirname(folder)
    if os.path.basename(folder) != "bin" or prefix in ("/", home, os.path.join(home, ".local")):
        return folder
    whole = any(os.path.exists(os.path.join(prefix, name)) for name in _INSTALLATION)
    return prefix if whole else folder


def _our_own() -> Iterable[str]:
    package = str(Path(__file__).absolute().parents[2])
    sites = (entry for entry in sys.path if os.path.basename(entry) in _SITE)
    return (sys.prefix, sys.base_prefix, package, *sites)
