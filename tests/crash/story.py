"""The observable facts of a crash run: its log, its agents' ledger, the killed processes."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from .scenarios import SESSION, Scenario

FINAL = ("completed", "aborted")
LOST_HOOKS = ("hook_lost", "hook_script_failed")
"""Reasons for asking what to do about a hook whose process was killed."""


def is_caused_by_a_kill(request: dict) -> bool:
    return request["kind"] == "escalation" or request.get("reason") in LOST_HOOKS


@dataclass
class Story:
    """What is known about the run from outside."""

    base: Path
    scenario: Scenario
    run: str
    commands: list[str] = field(default_factory=list)
    killed: list[tuple[str, str]] = field(default_factory=list)
    """Role and `node/iteration/attempt` of all killed processes."""
    logs: list[bytes] = field(default_factory=list)
    """The log as each engine left it."""
    trouble: list[str] = field(default_factory=list)
    ledger: Path = field(init=False)
    trace: Path = field(init=False)
    """The system calls of all engines and supervisors."""
    deliveries: Path = field(init=False)
    """The webhooks that arrived."""

    def __post_init__(self) -> None:
        self.ledger = self.base / "ledger"
        self.trace = self.base / "trace.jsonl"
        self.deliveries = self.base / "deliveries.jsonl"

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def run_dir(self) -> Path:
        return self.project / ".claude" / "pipeline-runs" / SESSION

    @property
    def log(self) -> Path:
        return self.run_dir / "events.jsonl"

    def events(self) -> list[dict]:
        """Every complete line, read without the product's own code."""
        if not self.log.exists():
            return []
        whole, newline, _ = self.log.read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in whole.split(b"\n")] if newline else []

    def notes(self) -> list[dict]:
        return (
            [json.loads(line) for line in self.ledger.read_bytes().splitlines()]
            if self.ledger.exists()
            else []
        )

    def received(self) -> list[dict]:
        """The webhooks that arrived, in order."""
        return (
            [json.loads(line) for line in self.deliveries.read_bytes().splitlines()]
            if self.deliveries.exists()
            else []
        )

    def open_requests(self) -> list[dict]:
        """What is asked and has no answer yet, also not one that no engine has seen."""
        events = self.events()
        opened = [event["data"] for event in events if event["type"] == "request_opened"]
        closed = {
            event["data"]["id"]
            for event in events
            if event["type"] in ("request_answered", "request_resolved")
        }
        answers = self.run_dir / "answers"
        return [
            request
            for request in opened
            if request["id"] not in closed and not (answers / f"{request['id']}.json").exists()
        ]

    def decisions(self) -> int:
        """How many answers people gave that no kill made necessary."""
        events = self.events()
        by_kills = {
            event["data"]["id"]
            for event in events
            if event["type"] == "request_opened" and is_caused_by_a_kill(event["data"])
        }
        answered = [event["data"]["id"] for event in events if event["type"] == "request_answered"]
        return sum(id not in by_kills for id in answered)

    def status(self) -> str:
        """The status of the run by its log."""
        turns = {
            "session_start": "running",
            "session_resumed": "running",
            "session_continued": "running",
            "session_paused": "paused",
            "awaiting_approval": "waiting",
            "session_failed": "failed",
            "session_aborted": "aborted",
            "session_complete": "completed",
        }
        status = "unborn"
        for event in self.events():
            status = turns.get(event["type"], status)
            if event["type"] == "session_recovered" and event["data"].get("by") == "person":
                status = "running"
        return status
