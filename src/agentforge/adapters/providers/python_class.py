"""A Python class that executes a stage, in a program of its own: it can be reattached to, timed and ended
like an agent. The engine never imports the class."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from agentforge.adapters.cli_agents.program import ProgramProvider, exit_status
from agentforge.adapters.cli_agents.settings import ConfigReader
from agentforge.adapters.environment import SettingValue, agent_environment, secrets_in
from agentforge.model.errors import NOT_JSON, ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.result import JSONObject, Usage
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit, StageInput

PROGRAM = str(Path(__file__).resolve().parents[2] / "core" / "pipeline" / "child.py")
"""What the supervisor runs. It is above this layer, so that it is named, not imported."""
CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class PythonConfig(Struct, frozen=True, rename={"name": "class"}):
    name: str = ""
    """`package.module:Class`"""
    config: dict[str, Any] = {}
    """What the class is created with."""
    env: dict[str, SettingValue] = field(default_factory=dict)


class StageCall(Struct, frozen=True):
    """What the program reads from its standard input, as JSON."""

    name: str
    config: dict[str, Any]
    session: str
    stage: str
    workdir: str
    given: StageInput


class StageEnded(Struct, frozen=True, tag_field="event", tag="stage_ended"):
    """The last line that the program prints, as JSON; what the class prints comes before it."""

    result: JSONObject | None = None
    artifact: JSONObject | None = None
    failure: Failure | None = None
    usage: Usage | None = None


class PythonProvider(ProgramProvider):
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__("python", environ)
        self._config = ConfigReader(self.name, PythonConfig)

    def capabilities(self) -> Capabilities:
        return Capabilities(can_judge=False, reads_input=True)

    def validate(self) -> None:
        """It needs nothing but the interpreter that runs the engine."""

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - no model
        return self._config.validate(config, lambda read: _refuse_name(read.name))

    def command(self, request: ExecuteRequest) -> Command:
        config = self._config.read(request.config)
        assert request.given is not None
        call = StageCall(
            config.name,
            config.config,
            request.session,
            request.stage,
            request.workdir,
            request.given,
        )
        environment = agent_environment(self._environ, request, config.env)
        return Command(
            argv=(sys.executable, "-P", PROGRAM),
            env=environment,
            stdin=msgspec.json.encode(call).decode(),
            secrets=secrets_in(environment, inherited=self._environ),
        )

    def interpret(self, exit: Exit) -> ExecuteResult:
        status = exit_status(exit)
        lines = exit.output.rstrip("\n").split("\n")
        ended = _ended(lines[-1])
        if ended is None:
            last = next((line for line in reversed(lines) if line.strip()), "no output")
            message = f"the executor ended with status {status} and without a result: {last.strip()[:200]}"
            failure = Failure(FailureKind.EXECUTOR_FAILED, message, status)
            return ExecuteResult(exit.output, status, exit.duration_ms, failure=failure)
        printed = "".join(f"{line}\n" for line in lines[:-1])
        return ExecuteResult(
            printed, 0, exit.duration_ms, ended.usage, ended.failure, ended.result, ended.artifact
        )

    def progress(self, line: str) -> str:
        return "" if _ended(line) else line


def _ended(line: str) -> StageEnded | None:
    try:
        return msgspec.json.decode(line, type=StageEnded)
    except NOT_JSON:
        return None


def _refuse_name(name: str) -> None:
    if not CLASS.fullmatch(name):
        raise ProviderUnusable(
            f"provider python: the class must be `package.module:Class`, got `{name}`",
            hint="for example `executor: {python: stages.intake:Intake}`",
        )
