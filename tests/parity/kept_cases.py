"""The recorded cases of agent-pipelines in a compact form, so that every clone has them: the facts that are
compared, without the texts of the shell engine.

A case is one JSON file: contents, and for each path of the case the number of its content. Sentences that the
shell engine wrote are kept as fingerprints, and of its output only the words that the harness looks for.
Definitions, commands and scripted answers were written for the cases.
"""

import json
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.parity.differences import fingerprint

KEPT = Path(__file__).parent / "kept"
NAMES = sorted(path.stem for path in KEPT.glob("*.json"))
SAID = re.compile(
    r"Status: \w+|currently active|already running|Maximum iterations|Stop suggested|not found"
    r"|Unknown provider|alphanumeric|Missing required command|CLI not found|Judge evaluation"
)
"""What the harness looks for in the output and in reasons."""
NOT_KEPT = re.compile(
    r"(^|/)calls/|pipeline-runs/[^/]+/pipeline\.yaml$|\.(lock|log|args|judge|py|tmp)$"
    r"|^(plan|state)-\S+\.json$|^fixtures/(stage\.yaml|prompt\.md)$"
    r"|^(?!cmd-)[^/]+\.(out|err)$|^(?!cmd-|cli-|env-)[^/]+\.txt$"
)
FIXTURE = re.compile(r"^fixtures/iteration-\w+\.txt$")
TORN = 9
"""How many bytes are kept of a line that is not an event."""

_unpacked = tempfile.TemporaryDirectory(prefix="agentforge-parity-")


@cache
def kept_case(name: str) -> Path:
    """The folder of a kept case."""
    return unpack((KEPT / f"{name}.json").read_text(), Path(_unpacked.name) / name)


def kept_files(name: str) -> dict[str, str]:
    """The contents of a kept case by their paths in its folder."""
    return files_of((KEPT / f"{name}.json").read_text())


def pack(root: Path) -> str:
    """The case in the folder, as the text of its file."""
    names = {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}
    kept = {name: path for name, path in names.items() if not NOT_KEPT.search(name)}
    own = "\n".join(path.read_text("utf-8", "replace") for name, path in kept.items() if _is_own(name))
    numbers: dict[str, int] = {}
    files = {}
    for name, path in kept.items():
        content = json.dumps(_facts(name, path.read_text("utf-8", "replace"), own), ensure_ascii=False)
        files[name] = numbers.setdefault(content, len(numbers))
    places = ",\n".join(f"{json.dumps(name)}: {number}" for name, number in files.items())
    contents = ",\n".join(numbers)
    return f'{{"contents": [\n{contents}\n],\n"files": {{\n{places}\n}}}}\n'


def files_of(text: str) -> dict[str, str]:
    case = json.loads(text)
    contents = [found if isinstance(found, str) else json.dumps(found) for found in case["contents"]]
    return {name: contents[number] for name, number in case["files"].items()}


def unpack(text: str, root: Path) -> Path:
    for name, content in files_of(text).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def _is_own(name: str) -> bool:
    """Whether it was written for the case."""
    if "pipeline-runs/" in name or name.startswith("fixtures/"):
        return False
    return name.endswith((".yaml", ".txt", ".md", ".json")) and not name.endswith(".plan.json")


def _facts(name: str, text: str, own: str) -> Any:
    base = name.rpartition("/")[2]
    if base.startswith("cmd-") and base.endswith((".out", ".err")):
        return "\n".join(SAID.findall(text))
    if FIXTURE.match(name):
        return "output\n"
    if "pipeline-runs/" not in name and not name.startswith("fixtures/"):
        return text
    if base == "events.jsonl":
        return "\n".join(_event(line, own) for line in text.split("\n"))
    if base.endswith(".json"):
        return _without_sentences(json.loads(text), own) if text.strip() else ""
    return fingerprint(text) if base.startswith("progress") else ""


def _event(line: str, own: str) -> str:
    """An event, or the beginning of what is none."""
    try:
        return json.dumps(_without_sentences(json.loads(line), own))
    except ValueError:
        return line[:TORN]


def _without_sentences(value: Any, own: str) -> Any:
    match value:
        case dict():
            return {key: _without_sentences(child, own) for key, child in value.items()}
        case list():
            return [_without_sentences(child, own) for child in value]
        case str() if re.search(r"\s", value) and value not in own:
            said = SAID.search(value)
            return said[0] if said else fingerprint(value)
        case _:
            return value
