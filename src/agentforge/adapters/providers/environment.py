"""What an agent program finds in its environment."""

from collections.abc import Mapping

from agentforge.ports.provider import ExecuteRequest

RESULT = "AGENTFORGE_RESULT"
STATUS = "AGENTFORGE_STATUS"
PROMPT = "AGENTFORGE_PROMPT"

Scalar = str | int | float | bool


def agent_environment(
    inherited: Mapping[str, str], request: ExecuteRequest, extra: Mapping[str, Scalar] | None = None
) -> dict[str, str]:
    """The inherited variables, what the engine adds, the stage's own, and where to write."""
    environment = {**inherited, **request.environment}
    environment.update((name, as_text(value)) for name, value in (extra or {}).items())
    environment[RESULT] = request.result_path
    environment[STATUS] = request.status_path
    if request.prompt_path:
        environment[PROMPT] = request.prompt_path
    return environment


def as_text(value: Scalar) -> str:
    """As YAML spells it: `true`, not `True`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
