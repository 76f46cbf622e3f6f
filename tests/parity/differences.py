"""Where two JSON values differ. Ours may have more keys; an open mapping, whose keys are data, may not."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

FINGERPRINT = "sha256:"
OPEN = frozenset({"commands", "from_stage", "providers", "defaults"})


class Missing:
    def __repr__(self) -> str:
        return "(nothing)"


MISSING = Missing()


@dataclass(frozen=True)
class Difference:
    """Something recorded that ours hasn't got, or has otherwise."""

    where: str
    """The file, command or log, relative to the case."""
    path: str
    recorded: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.where}{f' {self.path}' if self.path else ''}: {self.recorded!r} -> {self.ours!r}"


def differ(where: str, recorded: Any, ours: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key, value in recorded.items():
            yield from differ(where, value, ours.get(key, MISSING), f"{path}.{key}".lstrip("."))
        if path.rpartition(".")[2] in OPEN:
            for key in ours.keys() - recorded.keys():
                yield Difference(where, f"{path}.{key}", MISSING, ours[key])
    elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        for index, value in enumerate(recorded):
            yield from differ(where, value, ours[index], f"{path}.{index}".lstrip("."))
    elif _plain(recorded) != _plain(ours) and not _is_fingerprint_of(recorded, ours):
        yield Difference(where, path, recorded, ours)


def fingerprint(text: str) -> str:
    """What a kept case has instead of a text of the shell engine."""
    return f"{FINGERPRINT}{sha256(text.encode()).hexdigest()[:16]}"


def _is_fingerprint_of(recorded: Any, ours: Any) -> bool:
    is_one = isinstance(recorded, str) and recorded.startswith(FINGERPRINT)
    return is_one and isinstance(ours, str) and recorded == fingerprint(ours)


def structure(value: Any) -> Any:
    """What kind of thing each part is; for files whose content is the agent's own."""
    if isinstance(value, dict):
        return {key: structure(child) for key, child in value.items()}
    return "list" if isinstance(value, list) else type(value).__name__


def _plain(value: Any) -> Any:
    """JSON doesn't tell 2 from 2.0."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
