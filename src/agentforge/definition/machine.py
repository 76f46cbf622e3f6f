"""What the compiler asks about the user and this machine."""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from agentforge.definition.precedence import DEFAULT_PROVIDER
from agentforge.model.plan import ProviderChoice


class SettingProblem(Struct, frozen=True):
    message: str
    """Quotes the setting that it is about."""
    hint: str = ""
    is_error: bool = True


SettingsCheck = Callable[[ProviderChoice], Iterable[SettingProblem]]
"""What a provider says about a model and settings; nothing about a provider that isn't known."""


class Machine(Struct, frozen=True):
    """Functions are called only if the compiler needs the answer."""

    default_provider: Callable[[], str] = lambda: DEFAULT_PROVIDER
    """That of stages for which neither a file nor the caller names one."""
    trusts_project: Callable[[], bool] = lambda: False
    """Whether the project may say who is notified."""
    known_providers: Collection[str] | None = None
    """None: every name passes."""
    check_settings: SettingsCheck | None = None
    has_settings: bool = True
    """Whether settings files are read."""
