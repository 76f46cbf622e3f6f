"""A recorded session as an agent: a program of ours plays the cassette back, so that it can be timed
out, killed and picked up again like any other agent."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from agentforge.adapters.providers import replay_player
from agentforge.adapters.providers.cassette import load_cassette
from agentforge.adapters.providers.config import ConfigReader
from agentforge.adapters.providers.environment import agent_environment, secrets_in
from agentforge.adapters.providers.program_provider import ProgramProvider
from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit


class ReplayConfig(Struct, frozen=True):
    cassette: str = ""
    """A path; a relative one begins at the workdir."""
    speed: Annotated[float, Meta(ge=0)] = 1.0
    """2 is twice as fast as recorded, 0 doesn't wait at all."""


class ReplayProvider(ProgramProvider):
    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        name: str = "replay",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, environ)
        self._config = ConfigReader(name, ReplayConfig, config)

    def capabilities(self) -> Capabilities:
        return Capabilities(supports_tools=True)

    def validate(self) -> None:
        if not sys.executable:
            raise ProviderUnusable(
                "provider replay needs a Python program to play with, and this process names none",
                hint="run from a regular Python installation",
            )
        if self._config.defaults:
            load_cassette(_cassette_path(self._config.read({}), str(Path.cwd())))

    def command(self, request: ExecuteRequest) -> Command:
        config = self._config.read(request.config)
        cassette = _cassette_path(config, request.workdir)
        load_cassette(cassette)
        environment = agent_environment(self._environ, request)
        return Command(
            argv=(
                sys.executable,
                "-I",
                replay_player.__file__,
                f"--stage={request.stage}",
                f"--iteration={request.iteration}",
                f"--attempt={request.attempt}",
                f"--speed={config.speed}",
                "--",
                cassette,
            ),
            env=environment,
            secrets=secrets_in(environment),
        )

    def interpret(self, exit: Exit) -> ExecuteResult:
        return msgspec.structs.replace(super().interpret(exit), failure=_player_failure(exit))


def _cassette_path(config: ReplayConfig, workdir: str) -> str:
    if not config.cassette:
        raise ProviderUnusable(
            "provider replay: no cassette given", hint="set `cassette: path/to/session.jsonl` in its config"
        )
    return str((Path(workdir) / Path(config.cassette).expanduser()).absolute())


def _player_failure(exit: Exit) -> Failure | None:
    """The player's own refusals, in its own words; an exit that was recorded is the engine's business."""
    if exit.exit_code not in (replay_player.NO_EXCHANGE, replay_player.STEP_FAILED):
        return None
    last = exit.output.rstrip().rpartition("\n")[2]
    if not last.startswith("replay: "):
        return None
    return Failure(FailureKind.PROVIDER_CRASHED, last, exit.exit_code)
