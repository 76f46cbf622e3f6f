"""Runs of the shell engine: its log, its state.json, its folders."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

STAGE = """\
name: work
termination:
  type: fixed
delay: 0
"""
SESSION = "old"
MINUTE = "2026-01-10T10:{:02d}:00Z"


class ShellRun:
    """Writes one, line by line, with the names and values that the engine has."""

    def __init__(self, project: Path, *, most: int = 4, session: str = SESSION) -> None:
        self.project = project
        self.session = session
        self.run_dir = project / ".claude" / "pipeline-runs" / session
        self.run_dir.mkdir(parents=True)
        self.most = most
        self.lines: list[str] = []
        stage = project / ".claude" / "stages" / "work"
        stage.mkdir(parents=True, exist_ok=True)
        (stage / "stage.yaml").write_text(STAGE)
        (stage / "prompt.md").write_text("Do ${ITERATION}, tell ${RESULT}.\n")

    @property
    def log(self) -> Path:
        return self.run_dir / "events.jsonl"

    def event(self, kind: str, cursor: dict[str, Any] | None, **data: Any) -> None:
        at = MINUTE.format(len(self.lines) % 60)
        line = {"ts": at, "type": kind, "session": self.session, "cursor": cursor, "data": data}
        self.lines.append(json.dumps(line, separators=(",", ":")))
        self.log.write_text("".join(f"{line}\n" for line in self.lines))

    def begin_loop(self) -> None:
        self.event("session_start", _at("0", 0, 0), mode="loop", stage="work", stage_name="work")
        self.event("node_start", _at("0", 0, 0), name="work", type="work", provider="claude", model="opus")
        self.state(type="loop")

    def begin_pipeline(self, text: str, plan: dict[str, Any]) -> None:
        (self.run_dir / "pipeline.yaml").write_text(text)
        (self.project / "pipe.yaml").write_text(text)
        (self.run_dir / "plan.json").write_text(json.dumps(plan))
        self.event("session_start", _at("0", 0, 0), mode="pipeline", pipeline="p", pipeline_file="pipe.yaml")
        self.state(type="pipeline")

    def node(self, path: str, name: str, runs: int) -> None:
        self.event(
            "node_start", _at(path, 0, 0), name=name, type="work", provider="claude", model="opus", runs=runs
        )

    def iterations(self, path: str, folder: str, numbers: Iterable[int], **data: Any) -> None:
        for number in numbers:
            self.start_iteration(path, folder, number)
            self.finish_iteration(path, folder, number, **data)

    def start_iteration(self, path: str, folder: str, number: int) -> Path:
        here = self.run_dir / folder / "iterations" / f"{number:03d}"
        here.mkdir(parents=True)
        (here / "context.json").write_text(json.dumps({"limits": {"max_iterations": self.most}}))
        self.event(
            "iteration_start", _at(path, number, number), stage=folder.split("-", 2)[2], provider="claude"
        )
        return here

    def finish_iteration(self, path: str, folder: str, number: int, **data: Any) -> None:
        here = self.run_dir / folder / "iterations" / f"{number:03d}"
        (here / "output.md").write_text(f"output {number}\n")
        (here / "result.json").write_text('{"summary":"done"}')
        told = {"result_file": str(here / "result.json"), "decision": "continue", "reason": "more", **data}
        self.event("iteration_complete", _at(path, number, number), **told)

    def state(self, **fields: Any) -> None:
        state = {
            "session": self.session,
            "status": "running",
            "current_stage": 0,
            "event_offset": 0,
            **fields,
        }
        (self.run_dir / "state.json").write_text(json.dumps(state))


def _at(path: str, run: int, iteration: int) -> dict[str, Any]:
    return {"node_path": path, "node_run": run, "iteration": iteration}


def plan_json(*nodes: tuple[str, int]) -> dict[str, Any]:
    return {
        "version": 1,
        "source": {"path": "pipe.yaml", "sha256": "0" * 64},
        "session": {"name": SESSION, "created_at": "2026-01-10T10:00:00Z", "inputs": []},
        "pipeline": {"name": "p"},
        "dependencies": {"jq": True, "yq": True, "tmux": True, "bd": False},
        "nodes": [
            {
                "path": str(index),
                "id": name,
                "kind": "stage",
                "termination": {"type": "fixed", "max": most},
                "inputs": {},
                "ref": "work",
                "provider": {"type": "claude", "model": "sonnet"},
                "prompt_path": ".claude/stages/work/prompt.md",
            }
            for index, (name, most) in enumerate(nodes)
        ],
    }
