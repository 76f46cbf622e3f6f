"""The provider: the agent is a local program, so the engine can reattach to it, time it out and end it."""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from agentforge.provider import (
    Capabilities,
    Command,
    ConfigReader,
    ExecuteRequest,
    ExecuteResult,
    Exit,
    Failure,
    FailureKind,
    ProgramProvider,
    ProviderUnusable,
    agent_environment,
)
from remote_sandbox.service import KEY, REPORT, URL

PACKAGE_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Isolated from Python's environment variables, but able to import this package.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from remote_sandbox.program import main; main()"


class RemoteConfig(Struct, frozen=True):
    """The settings of a stage besides `type` and `model`."""

    argv: tuple[str, ...] = ()
    """The agent's command inside the sandbox; the prompt is its stdin."""
    template: str = "default"
    pass_env: tuple[str, ...] = ()
    """Variables of this machine that the agent needs in the sandbox, such as its API key."""
    exclude: tuple[str, ...] = ()
    """Files to exclude: names, or paths from the workspace's root, with `*`."""
    ttl: Annotated[int, Meta(ge=1)] = 3600
    """Seconds after which the service ends the sandbox if it is still running."""


class RemoteSandbox(ProgramProvider):
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__("remote", environ)
        self._config = ConfigReader("remote", RemoteConfig)

    def capabilities(self) -> Capabilities:
        # The service isolates the agent. An agent on this machine that needs isolation would set
        # `requires_sandbox=True`: then a stage without `sandbox:` is refused.
        return Capabilities(supports_tools=True)

    def validate(self) -> None:
        """Raises if a setting is missing. Doesn't call the service, so the key itself isn't checked."""
        for variable, what in ((URL, "the service's address"), (KEY, "your key")):
            if not self._environ.get(variable):
                raise ProviderUnusable(f"provider remote: {variable} isn't set", hint=f"put {what} there")

    def command(self, request: ExecuteRequest) -> Command:
        self.validate()
        config = self._config.read(request.config)
        if not config.argv:
            raise ProviderUnusable(
                "provider remote: the stage doesn't say which agent to run",
                hint="add `argv: [claude, --print]` to the provider's settings",
            )
        passed = [self._environ[name] for name in config.pass_env if self._environ.get(name)]
        environment = agent_environment(self._environ, request, passes=(URL, KEY, *config.pass_env))
        start = (sys.executable, "-I", "-c", _START, PACKAGE_HOME)
        name = sandbox_name(request)
        return Command(
            argv=(*start, "work"),
            env=environment,
            # Not on the command line, which every user of this machine can read.
            stdin=json.dumps(_task(name, config, request)),
            separate_errors=True,
            secrets=(self._environ[KEY], *passed),
            # Ends the sandbox even if the program is killed.
            after=(*start, "end", name, self._environ[URL]),
        )

    def interpret(self, exit: Exit) -> ExecuteResult:
        ended = super().interpret(exit)
        reports = [line.removeprefix(REPORT) for line in exit.errors.splitlines() if line.startswith(REPORT)]
        if exit.exit_code == 0 or not reports:
            return ended
        kind, _, message = reports[-1].partition(": ")
        failure = Failure(FailureKind(kind), message)
        return ExecuteResult(exit.output, ended.exit_code, exit.duration_ms, failure=failure)


def sandbox_name(request: ExecuteRequest) -> str:
    """A unique and deterministic name for each attempt, so that a later engine can end the sandbox by it."""
    about = [request.environment, request.result_path, request.session, request.stage]
    text = json.dumps([*about, request.iteration, request.attempt], sort_keys=True)
    return f"agentforge-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def _task(name: str, config: RemoteConfig, request: ExecuteRequest) -> dict[str, object]:
    return {
        "name": name,
        "template": config.template,
        "ttl": config.ttl,
        "argv": config.argv,
        "prompt": request.prompt,
        "model": request.model,
        "workdir": request.workdir,
        "results": os.path.dirname(request.result_path),
        "environment": request.environment,
        "pass_env": config.pass_env,
        "exclude": config.exclude,
    }
