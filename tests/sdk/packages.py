"""Installed packages for tests: a module and the metadata that makes its entry points known."""

from collections.abc import Mapping
from pathlib import Path


def install(site: Path, name: str, source: str, providers: Mapping[str, str], version: str = "1.2") -> None:
    """Put a package into a folder as an installer would; the folder has to be on the path."""
    site.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(source, encoding="utf-8")
    metadata = site / f"{module}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{entry} = {module}:{value}" for entry, value in providers.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[agentforge.providers]", *lines, ""]))
