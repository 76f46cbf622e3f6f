"""What providers say about the models and settings of a definition gets its place in the file."""

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from agentforge.definition.report import Report
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.plan import ProviderChoice

_QUOTED = re.compile(r"`([a-z]\w*)")


class SettingProblem(Struct, frozen=True):
    message: str
    """Quotes the setting that it is about."""
    hint: str = ""
    is_error: bool = True


SettingsCheck = Callable[[ProviderChoice], Iterable[SettingProblem]]
"""What a provider says about a model and settings; nothing about a provider that isn't known."""


def named_setting(message: str, choice: ProviderChoice) -> str:
    """The setting that the message is about, or `model`; empty: it is about none that is written."""
    written = {"model", *choice.config}
    return next((name for name in _QUOTED.findall(message) if name in written), "")


def is_of_definition(message: str, choice: ProviderChoice) -> bool:
    """Whether an error is about what is written, or missing, in a definition; otherwise it is about this
    machine."""
    return bool(_QUOTED.search(message)) or (choice.model != "" and choice.model in message)


def report_settings(
    choice: ProviderChoice,
    places: Mapping[str, SourcePlace],
    default: SourcePlace,
    check: SettingsCheck,
    report: Report,
) -> None:
    """`places`: of the model and each setting, and of the provider's name as that of ""."""
    for problem in check(choice):
        at = places.get(named_setting(problem.message, choice), places.get("", default))
        add = report.error if problem.is_error else report.warning
        add("provider-settings", at, problem.message, problem.hint)
