"""What the crash runs run: small pipelines that touch every command of the engine."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HOME = Path(__file__).parent
SESSION = "night"
HEAD = f"""\
defaults:
  provider: {{type: command, argv: ["{sys.executable}", -I, -S, "{HOME / "agent.py"}"]}}
  delay: 0
  retry: {{max_attempts: 3, initial_delay: 0.05, max_delay: 0.2}}
nodes:
"""


@dataclass(frozen=True)
class Control:
    """What somebody asks of the run while an agent works on a certain iteration."""

    at: str
    """`node/iteration`"""
    command: Literal["pause", "cancel"]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    name: str
    nodes: str
    agent: dict[str, str] = field(default_factory=dict)
    control: Control | None = None
    ends: str = "completed"

    @property
    def pipeline(self) -> str:
        return f"name: {self.name}\n{HEAD}{self.nodes}"


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "plain",
            "  - {id: work, prompt: 'do ${ITERATION}', runs: 3}\n",
            {"AGENT_TOOL": "0/1 0/2", "AGENT_WAITS": "0/2 0/3"},
        ),
        Scenario(
            "retry",
            "  - {id: first, prompt: one, runs: 2}\n"
            "  - {id: second, prompt: two, runs: 1, output_path: 'docs/${SESSION}.md'}\n",
            {
                "AGENT_CRASHES": "0/1 1/1",
                "AGENT_OLD_STATUS": "0/2",
                "AGENT_WAITS": "0/1 0/2 1/1",
                "AGENT_TOOL": "1/1",
            },
        ),
        Scenario(
            "delay", "  - {id: slow, prompt: x, runs: 3, delay: 0.15}\n", {"AGENT_WAITS": "0/1 0/2 0/3"}
        ),
        Scenario(
            "pause",
            "  - {id: held, prompt: x, runs: 3}\n",
            {"AGENT_LINGERS": "0/2", "AGENT_LONG": "0.6", "AGENT_WAITS": "0/1 0/3"},
            Control("0/2", "pause"),
        ),
        Scenario(
            "pause-now",
            "  - {id: ended, prompt: x, runs: 2}\n",
            {"AGENT_LINGERS": "0/1", "AGENT_LONG": "1.0", "AGENT_TOOL": "0/1"},
            Control("0/1", "pause", ("--now",)),
        ),
        Scenario(
            "cancel",
            "  - {id: dropped, prompt: x, runs: 3}\n",
            {"AGENT_LINGERS": "0/2", "AGENT_LONG": "20", "AGENT_TOOL": "0/2"},
            Control("0/2", "cancel"),
            ends="aborted",
        ),
    )
}
