"""Writes the hashes of all pinned releases into lock files: `make hashes`.

Asks the package index that PIP_INDEX_URL names (by default PyPI) for the files of each `NAME==VERSION`; those
of dev.txt are in constraints.txt. Only wheels for the supported interpreters and platforms are listed, so
that nothing is built during an installation.
"""

import os
import re
import sys
import urllib.request
from pathlib import Path

INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
FILE = re.compile(r'<a [^>]*href="[^"#]*#sha256=([0-9a-f]{64})"[^>]*>([^<]+)</a>')
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", re.MULTILINE)
INTERPRETER = re.compile(r"-(py3|py2\.py3|cp3\d+)-(none|abi3|cp31[1-4])-")
PLATFORM = re.compile(r"-any\.whl$|(linux|macosx)[^-]*_(x86_64|aarch64|arm64|universal2)\.whl$")


def hashes(name: str, version: str) -> list[str]:
    page = f"{INDEX}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        found = FILE.findall(answer.read().decode())
    files = {
        file: digest for digest, file in found if file.endswith(".whl") and file.split("-")[1] == version
    }
    wheels = {digest for file, digest in files.items() if is_supported(file)}
    if not wheels:
        raise SystemExit(f"{name}=={version}: {page} lists no wheel of this version")
    return sorted(wheels)


def is_supported(file: str) -> bool:
    return bool(INTERPRETER.search(file) and PLATFORM.search(file))


def locked(head: str, pins: str) -> str:
    """The comments and options of `head`, and the pins with their hashes."""
    lines = [line for line in head.splitlines() if line.startswith(("#", "--only-binary"))]
    for name, version in sorted(PIN.findall(pins), key=lambda pin: pin[0].lower()):
        found = (f"--hash=sha256:{digest}" for digest in hashes(name, version))
        lines.append(" \\\n    ".join([f"{name}=={version}", *found]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        pins = Path("constraints.txt") if path.name == "dev.txt" else path
        path.write_text(locked(path.read_text(encoding="utf-8"), pins.read_text(encoding="utf-8")))
