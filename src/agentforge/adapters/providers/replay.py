"""A recorded session as an agent: a program plays the cassette back, so that it can time out, be killed and
be reattached to like any other agent."""

import errno
import os
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from agentforge.adapters.cli_agents.program import ProgramProvider
from agentforge.adapters.cli_agents.settings import ConfigReader
from agentforge.adapters.environment import agent_environment, secrets_in
from agentforge.adapters.providers import replay_player
from agentforge.model.cassette import MAX_CASSETTE, Cassette, Fail, parse_cassette
from agentforge.model.errors import NOT_JSON, ProviderUnusable, StorageFailed
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.model.spending import NOTHING, UNITS
from agentforge.ports.provider import Capabilities, Command, ExecuteRequest, ExecuteResult, Exit
from agentforge.system import files


def load_cassette(path: str) -> Cassette:
    """Raises ProviderUnusable with all errors and their lines."""
    try:
        text = _read(path).decode("utf-8")
    except (StorageFailed, UnicodeDecodeError) as error:
        why = error.message if isinstance(error, StorageFailed) else f"{path}: not UTF-8 text"
        raise ProviderUnusable(
            f"can't read the cassette: {why}", hint="fix `cassette` in the provider's config"
        ) from error
    return parse_cassette(text, path)


def _read(path: str) -> bytes:
    content = files.read_named(path, MAX_CASSETTE)
    if content is None:
        raise StorageFailed(f"{path}: {os.strerror(errno.ENOENT)}")
    return content


class ReplayConfig(Struct, frozen=True):
    cassette: str = ""
    """A path, absolute or relative to the workdir."""
    speed: Annotated[float, Meta(ge=0)] = 1.0
    """2 is twice as fast as recorded, 0 doesn't wait."""
    allow_commands: bool = False
    """Whether `run` steps are run."""


class ReplayProvider(ProgramProvider):
    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        name: str = "replay",
        config: Mapping[str, Any] | None = None,
        for_all: bool = False,
    ) -> None:
        """`for_all`: it replaces all other providers, and ignores their config."""
        super().__init__(name, environ)
        self._config = ConfigReader(name, ReplayConfig, config)
        self._for_all = for_all

    def capabilities(self) -> Capabilities:
        return Capabilities(supports_tools=True, can_judge=False, bounds=UNITS)

    def validate(self) -> None:
        if not sys.executable:
            raise ProviderUnusable(
                "provider replay needs a Python executable, but `sys.executable` is empty",
                hint="run from a regular Python installation",
            )
        if self._config.defaults:
            load_cassette(_cassette_path(self._config.read({}), str(Path.cwd())))

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - the port's
        given = {} if self._for_all else config
        return self._config.validate(given, lambda settings: _cassette_path(settings, ""))

    def command(self, request: ExecuteRequest) -> Command:
        config = self._config.read({} if self._for_all else request.config)
        cassette = _cassette_path(config, request.workdir)
        if (commands := load_cassette(cassette).commands) and not config.allow_commands:
            raise ProviderUnusable(
                f"{cassette} runs commands, such as `{shlex.join(commands[0])}`",
                hint="read them, then set `allow_commands: true` in the provider's config",
            )
        environment = agent_environment(self._environ, request)
        return Command(
            argv=(
                sys.executable,
                "-I",
                replay_player.__file__,
                f"--stage={request.stage}",
                f"--iteration={request.iteration}",
                f"--attempt={request.attempt}",
                f"--kind={'judge' if request.judges else 'work'}",
                f"--node={request.node}",
                f"--branch={request.branch}",
                f"--speed={config.speed}",
                *(("--allow-commands",) if config.allow_commands else ()),
                "--",
                cassette,
            ),
            env=environment,
            secrets=secrets_in(environment, inherited=self._environ),
        )

    def interpret(self, exit: Exit) -> ExecuteResult:
        # The player's last line has the failure: a replay has no other way to the engine than an agent has.
        played = msgspec.structs.replace(super().interpret(exit), usage=NOTHING if exit.budget else None)
        failure = _recorded_failure(exit)
        if failure is None:
            return msgspec.structs.replace(played, failure=_player_failure(exit))
        output = exit.output.rstrip("\n").rpartition("\n")[0]
        return msgspec.structs.replace(played, output=output, failure=failure)


def _cassette_path(config: ReplayConfig, workdir: str) -> str:
    if not config.cassette:
        raise ProviderUnusable(
            "provider replay: `cassette` is missing",
            hint="set `cassette: path/to/session.jsonl` below `provider:`",
        )
    return str((Path(workdir) / Path(config.cassette).expanduser()).absolute())


def _recorded_failure(exit: Exit) -> Failure | None:
    """The failure that was recorded, or None. Limits are replayed as already over."""
    marker, _, encoded = exit.output.rstrip("\n").rpartition("\n")[2].partition(" ")
    if exit.exit_code != replay_player.FAILED or marker != replay_player.FAILURE:
        return None
    try:
        step = msgspec.json.decode(encoded, type=Fail)
    except NOT_JSON:
        return None
    return Failure(step.kind, step.message, step.exit_code, LONG_AGO if step.kind in LIMITS else None)


def _player_failure(exit: Exit) -> Failure | None:
    """An error of the player itself, or None; a recorded exit status is handled by the engine."""
    kind = _REFUSALS.get(exit.exit_code or 0)
    last = exit.output.rstrip().rpartition("\n")[2]
    if kind is None or not last.startswith("replay: "):
        return None
    return Failure(kind, last, exit.exit_code)


LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_REFUSALS = {
    replay_player.NO_EXCHANGE: FailureKind.NOT_RECORDED,
    replay_player.STEP_FAILED: FailureKind.PROVIDER_CRASHED,
}
