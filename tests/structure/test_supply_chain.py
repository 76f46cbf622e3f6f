"""What is installed to build and test is pinned with hashes, without an address to download it from."""

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKED = ("dev", "agents", "peers")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", re.MULTILINE)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pins(name: str) -> dict[str, str]:
    return {canonicalize_name(package): version for package, version in PIN.findall(text(name))}


@pytest.mark.parametrize("name", LOCKED)
def test_every_pin_has_hashes_and_nothing_else_is_in_the_file(name: str) -> None:
    content = text(f"requirements/{name}.txt").replace("\\\n", "")
    lines = [line for line in content.splitlines() if not line.startswith("#")]
    assert lines.pop(0) == "--only-binary :all:"
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", line.strip()), line


def test_the_versions_are_those_of_the_constraints() -> None:
    assert pins("requirements/dev.txt") == pins("constraints.txt")


def test_the_development_requirements_are_pinned() -> None:
    project = tomllib.loads(text("pyproject.toml"))
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["api"], *extras["dev"]]
    pinned = pins("requirements/dev.txt")
    for requirement in map(Requirement, wanted):
        if requirement.name != project["project"]["name"]:
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


def test_the_dependencies_of_what_is_pinned_are_pinned() -> None:
    pinned = pins("requirements/dev.txt")
    for package in pinned:
        for requirement in map(Requirement, metadata.requires(package) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                version = pinned[canonicalize_name(requirement.name)]
                assert requirement.specifier.contains(version), f"{package} requires {requirement}"


def test_the_build_requirements_are_pinned() -> None:
    required = tomllib.loads(text("pyproject.toml"))["build-system"]["requires"]
    assert required == [f"hatchling=={pins('requirements/dev.txt')['hatchling']}"]


def test_npm_packages_have_integrity_hashes_and_no_address() -> None:
    lock = json.loads(text("requirements/package-lock.json"))
    packages = {name: about for name, about in lock["packages"].items() if name}
    assert {"node_modules/@google/gemini-cli", "node_modules/opencode-linux-x64"} <= packages.keys()
    for name, about in packages.items():
        assert about["integrity"].startswith("sha512-"), name
        assert "resolved" not in about, name


@pytest.mark.parametrize("name", ["constraints.txt", *(f"requirements/{name}.txt" for name in LOCKED)])
def test_no_file_names_a_download_address(name: str) -> None:
    assert "://" not in text(name)
    assert "://" not in text("requirements/package-lock.json")


def test_make_installs_only_what_is_locked() -> None:
    makefile = text("Makefile").replace("\\\n", " ")
    installs = [
        line for line in makefile.splitlines() if re.search(r"pip install|\$\(NPM\) (ci|install)", line)
    ]
    for line in installs:
        assert "--no-deps" in line or "--ignore-scripts" in line, line
    assert any("--no-deps --require-hashes -r" in line for line in installs)
    assert "$(NPM) ci " in makefile
