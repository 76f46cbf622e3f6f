"""Both sides' files in one form: paths by placeholder, names by the successor's words, no times.

Events become steps: which kind of thing happened where. Inside a parallel block each provider has its own
order, so its steps stand together.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVENT_TYPES = frozenset(
    {
        "session_start",
        "session_complete",
        "node_start",
        "node_complete",
        "iteration_start",
        "iteration_complete",
        "worker_complete",
        "parallel_provider_start",
        "parallel_provider_complete",
        "error",
    }
)
"""The types that both sides have; everything else in our log is an addition."""
NUMBERED = frozenset({"iteration_start", "iteration_complete", "worker_complete", "error"})
TIMES = re.compile(r"(_at|_started|^timestamp|^ts|^duration_ms)$")
TIME = "@TIME@"
ERROR = "@ERROR@"
"""Errors are worded by each side in its own way."""
COMPLETED = {"complete": "completed"}
DATED_SESSION = re.compile(r"^(.+)-\d{8}-\d{6}$")


@dataclass(frozen=True)
class Step:
    """One event, as far as the two sides are compared."""

    type: str
    node: str
    iteration: int
    provider: str = ""

    def __str__(self) -> str:
        place = f" {self.node}" if self.node else ""
        number = f" #{self.iteration}" if self.type in NUMBERED and self.iteration else ""
        return f"{self.type}{place}{number}{f' {self.provider}' if self.provider else ''}"


@dataclass(frozen=True)
class Placeholders:
    """What stands for the project's own path and for a session whose name holds the time."""

    project: str
    session: str

    def put(self, text: str) -> str:
        text = text.replace(self.project, "@PROJECT@")
        return text.replace(self.session, "@SESSION@") if DATED_SESSION.match(self.session) else text


def load(path: Path, names: Placeholders) -> Any:
    """A JSON file with placeholders, or None if it is missing or not JSON."""
    try:
        return json.loads(names.put(path.read_text("utf-8")))
    except (OSError, ValueError):
        return None


def without_times(value: Any) -> Any:
    """Times become one word, so that only whether there is one counts."""
    if isinstance(value, dict):
        return {
            key: (TIME if TIMES.search(key) and child is not None else without_times(child))
            for key, child in value.items()
        }
    return [without_times(child) for child in value] if isinstance(value, list) else value


def steps(events: list[dict[str, Any]]) -> list[Step]:
    """The log as steps, in order; per provider inside a parallel block."""
    found = [step for event in _settled(events) if (step := _step(event)) is not None]
    return _by_provider(_started_once(found))


def _step(event: dict[str, Any]) -> Step | None:
    kind, cursor = event["type"], event.get("cursor") or {}
    data = event.get("data") or {}
    if kind == "session_failed":
        return Step("failed", "", 0)
    if kind not in EVENT_TYPES:
        return None
    provider = cursor.get("provider") or ""
    if kind == "error" and not provider and "attempt" not in data:
        # The shell engine's word for a failed session.
        return Step("failed", "", 0)
    if kind.startswith("session"):
        return Step(kind, "", 0)
    # Ours names the stage inside a block (`1.0`), the shell engine only the block.
    path = str(cursor.get("node_path", ""))
    node = path.partition(".")[0] if provider else path
    return Step(kind, node, cursor.get("iteration", 0) if kind in NUMBERED else 0, provider)


def _started_once(found: list[Step]) -> list[Step]:
    """An iteration that is started again without having ended counts once."""
    latest: dict[tuple[str, str], Step] = {}
    kept = []
    for step in found:
        place = (step.node, step.provider)
        if not (step.type == "iteration_start" and latest.get(place) == step):
            kept.append(step)
        latest[place] = step
    return kept


def _settled(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what only our side records in the same words: attempts that were tried again, and how the
    provider of a failed block ended."""
    kept = []
    for index, event in enumerate(events):
        if event["type"] == "error" and _is_tried_again(event, events[index + 1 :]):
            continue
        failed = (event.get("data") or {}).get("status") == "failed"
        if event["type"] == "parallel_provider_complete" and failed:
            continue
        if event["type"] == "error" and (event.get("data") or {}).get("attempt") and _ends_run(event, events):
            # Followed by `session_failed`, which says the same for the run.
            continue
        kept.append(event)
    return kept


def _is_tried_again(event: dict[str, Any], later: list[dict[str, Any]]) -> bool:
    place = event.get("cursor")
    following = next((e for e in later if e.get("cursor") == place), None)
    return following is not None and following["type"] == "retry_scheduled"


def _ends_run(event: dict[str, Any], events: list[dict[str, Any]]) -> bool:
    inside_block = bool((event.get("cursor") or {}).get("provider"))
    return not inside_block and any(other["type"] == "session_failed" for other in events)


def _by_provider(found: list[Step]) -> list[Step]:
    ordered: list[Step] = []
    block: list[Step] = []
    for step in [*found, None]:
        if step is not None and step.provider:
            block.append(step)
            continue
        ordered += sorted(block, key=lambda s: s.provider)
        block = []
        if step is not None:
            ordered.append(step)
    return ordered


def same_session(recorded: str, ours: list[str]) -> str | None:
    """Our session for a recorded one: by name, or by its beginning where the name ends in a time."""
    if recorded in ours:
        return recorded
    dated = DATED_SESSION.match(recorded)
    if dated is None:
        return None
    return next((name for name in ours if (m := DATED_SESSION.match(name)) and m[1] == dated[1]), None)


def renamed_state(recorded: Any, stage: str, folders: list[str]) -> Any:
    """The shell engine's state.json in our terms: `completed`, the stage's directory, one text for
    an error."""
    state = dict(recorded)
    state["status"] = COMPLETED.get(state.get("status", ""), state.get("status"))
    if state.get("type") in ("loop", ""):
        state["type"] = stage
    state["current_stage"] = (
        folders[state["current_stage"]] if state["current_stage"] < len(folders) else None
    )
    state["stages"] = [
        {**entry, "status": COMPLETED.get(entry["status"], entry["status"])}
        for entry in state.get("stages", [])
        if entry is not None
    ]
    if isinstance(state.get("error"), dict):
        state["error_type"] = state["error"].get("type")
        state["error"] = ERROR
    return state


def our_state(ours: Any) -> Any:
    return {**ours, "error": ERROR} if isinstance(ours, dict) and ours.get("error") else ours


def renamed_branch(recorded: Any) -> Any:
    status = recorded.get("status")
    return {**recorded, "status": COMPLETED.get(status, status)}
