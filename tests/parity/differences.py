"""Where two JSON values differ. Ours may have more keys; an open mapping, whose keys are data, may not."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OPEN = frozenset({"commands", "from_stage", "providers", "defaults"})


class Missing:
    def __repr__(self) -> str:
        return "(nothing)"


MISSING = Missing()


@dataclass(frozen=True)
class Difference:
    """A recorded value that ours lacks or has differently."""

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
    elif _plain(recorded) != _plain(ours):
        yield Difference(where, path, recorded, ours)


def structure(value: Any) -> Any:
    """The type of each value, for files whose content is the agent's."""
    if isinstance(value, dict):
        return {key: structure(child) for key, child in value.items()}
    return "list" if isinstance(value, list) else type(value).__name__


def _plain(value: Any) -> Any:
    """JSON doesn't distinguish 2 and 2.0."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
