"""The provider: runs `program` as the agent, so the engine can reattach to it, time it out and end it."""

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
# Isolated (-I) from Python variables of the environment, but able to import this package.
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from remote_sandbox.program import main; main()"
START = (sys.executable, "-I", "-c", _CODE, PACKAGE_HOME)


class RemoteConfig(Struct, frozen=True):
    """A stage's settings, apart from `type` and `model`."""

    argv: tuple[str, ...] = ()
    """The agent's command inside the sandbox; it gets the prompt on stdin."""
    template: str = "default"
    pass_env: tuple[str, ...] = ()
    """Local variables to pass to the agent, such as its model's key."""
    exclude: tuple[str, ...] = ()
    """Files not to upload: patterns of names, or of paths relative to the workspace."""
    ttl: Annotated[int, Meta(ge=1)] = 3600
    """Seconds after which the service deletes the sandbox."""


class RemoteSandbox(ProgramProvider):
    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__("remote", environ)
        self._config = ConfigReader("remote", RemoteConfig)

    def capabilities(self) -> Capabilities:
        # The service isolates the agent. A provider that runs an unconfined agent on this machine declares
        # `requires_sandbox=True`; a stage without `sandbox:` is then refused.
        return Capabilities(supports_tools=True)

    def validate(self) -> None:
        """Check that the variables are set. The service is not called, so the key itself is not verified."""
        for variable, what in ((URL, "the service's address"), (KEY, "your key")):
            if not self._environ.get(variable):
                raise ProviderUnusable(f"provider remote: {variable} is not set", hint=f"set it to {what}")

    def command(self, request: ExecuteRequest) -> Command:
        self.validate()
        config = self._config.read(request.config)
        if not config.argv:
            raise ProviderUnusable(
                "provider remote: `argv` is missing",
                hint="add `argv: [claude, --print]` to the provider's settings",
            )
        passed = [self._environ[name] for name in config.pass_env if self._environ.get(name)]
        environment = agent_environment(self._environ, request, passes=(URL, KEY, *config.pass_env))
        name = sandbox_name(request.mark)
        return Command(
            argv=(*START, "work"),
            env=environment,
            # Not on the command line, which every local user can read.
            stdin=json.dumps(_task(name, config, request)),
            separate_errors=True,
            secrets=(self._environ[KEY], *passed),
        )

    def cleanup(self, mark: str) -> tuple[str, ...]:
        """Deletes the sandbox if the program was killed."""
        return (*START, "end", sandbox_name(mark), self._environ.get(URL, ""))

    def interpret(self, exit: Exit) -> ExecuteResult:
        ended = super().interpret(exit)
        reports = [line.removeprefix(REPORT) for line in exit.errors.splitlines() if line.startswith(REPORT)]
        if exit.exit_code == 0 or not reports:
            return ended
        kind, _, message = reports[-1].partition(": ")
        failure = Failure(FailureKind(kind), message)
        return ExecuteResult(exit.output, ended.exit_code, exit.duration_ms, failure=failure)


def sandbox_name(mark: str) -> str:
    """Unique per attempt, and derived from its mark, so that a later process can delete the sandbox."""
    return f"agentforge-{hashlib.sha256(mark.encode()).hexdigest()[:20]}"


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
