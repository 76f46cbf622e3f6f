"""Hooks: the user's own code and services, called at the points of a run; and notifications."""

import uuid
from typing import Literal, get_args

from msgspec import Struct

from agentforge.model.condition import Condition

HookPoint = Literal[
    "session_start",
    "session_end",
    "stage_start",
    "stage_end",
    "iteration_start",
    "iteration_end",
    "parallel_provider_start",
    "parallel_provider_end",
    "resume",
    "request",
]
CallPoint = Literal["resume", "request"]
"""Points that only hooks of the SDK have: a person resumed the run; a request is open."""

POINTS: tuple[HookPoint, ...] = get_args(HookPoint)
CALL_POINTS: tuple[CallPoint, ...] = get_args(CallPoint)
YAML_POINTS: tuple[HookPoint, ...] = tuple(point for point in POINTS if point not in CALL_POINTS)
STAGE_POINTS: tuple[HookPoint, ...] = ("stage_start", "iteration_start", "iteration_end", "stage_end")
"""The points of one visit of a stage."""
BRANCH_POINTS: tuple[HookPoint, ...] = ("parallel_provider_start", "parallel_provider_end")

HookAction = Literal["pause", "confirm", "webhook", "script", "call"]
"""What a hook does. `call`: a function of the program that embeds the engine."""
HookOutcome = Literal["continue", "pause", "abort", "restart_stage", "modify_context", "answer"]
"""What a hook returns. `answer`: only at the point `request`."""
OnFailure = Literal["pause", "continue", "fail"]
OnLost = Literal["repeat", "pause"]

DEFAULT_TIMEOUTS: dict[HookAction, float] = {"webhook": 60.0, "script": 30.0}
DEFAULT_TRIES = 3
"""Of a webhook; other hooks are tried once."""
MAX_CONTEXT = 32 * 1024
"""Bytes of the context that a hook returns, as UTF-8; the rest is dropped."""


class Hook(Struct, frozen=True, omit_defaults=True):
    id: str
    """Unique in the plan."""
    point: HookPoint
    action: HookAction
    stage: str | None = None
    """The id of the node that it applies to; None: all."""
    condition: Condition | None = None
    """It is called only where this holds."""
    message: str | None = None
    """What `pause` and `confirm` ask."""
    url: str | None = None
    secret: str | None = None
    """The environment variable with the secret that signs a webhook."""
    script: str | None = None
    """A shell command line."""
    environment: tuple[str, ...] = ()
    """Further variables that the script gets."""
    timeout: float | None = None
    """Of one try; None: the default of the action."""
    tries: int = DEFAULT_TRIES
    on_timeout: OnFailure = "pause"
    on_failure: OnFailure = "pause"
    on_lost: OnLost = "repeat"
    """What to do if the engine died during a call: send it again with the same delivery id, or ask."""
    network: bool = False
    """Whether it needs the network."""

    @property
    def max_tries(self) -> int:
        return self.tries if self.action == "webhook" else 1

    @property
    def seconds(self) -> float | None:
        """The time limit of one try, or None."""
        return DEFAULT_TIMEOUTS.get(self.action) if self.timeout is None else self.timeout


class HookResult(Struct, frozen=True):
    """What a hook returns to the engine."""

    action: HookOutcome = "continue"
    reason: str = ""
    context: str = ""
    """Text for the context of all later iterations, with any action."""
    answer: str = ""
    """The answer to the request, with the action `answer`."""
    text: str = ""
    """What is said with that answer, such as the feedback of a rejection."""


def delivery_id(run_id: str, place: str, hook: str, point: HookPoint, subject: str = "") -> str:
    """Identifies the call of a hook at one place: the same for every try, also after a crash."""
    # Derived and not drawn, so that an engine that repeats the call after a crash comes to the same id.
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"agentforge:{run_id}:{place}:{point}:{hook}:{subject}"))


Occasion = Literal["request", "failed", "completed", "cancelled"]
OCCASIONS: tuple[Occasion, ...] = get_args(Occasion)
NOTIFY_VARIABLE = "AGENTFORGE_NOTIFY"
"""The variable in which the user says where notifications of every run are sent."""


class Notification(Struct, frozen=True, omit_defaults=True):
    """Tells someone that a run needs a person, failed, completed or was cancelled."""

    on: tuple[Occasion, ...] = OCCASIONS
    desktop: bool = False
    command: str | None = None
    environment: tuple[str, ...] = ()
    """Further variables that the command gets."""
    in_project: bool = False
    """Whether the command runs in the project, where agents may have changed what it starts."""
    url: str | None = None
    secret: str | None = None
