"""Lets the compiler ask providers about the models and settings of a definition."""

from collections.abc import Callable, Iterator

from agentforge.definition.settings_check import (
    SettingProblem,
    SettingsCheck,
    is_of_definition,
    named_setting,
)
from agentforge.model.errors import ProviderUnusable
from agentforge.model.key_hosts import HINT as KEY_HOSTS_HINT
from agentforge.model.plan import ProviderChoice
from agentforge.ports.provider import Provider, ValidatesSettings


def settings_check(known: Callable[[str], Provider | None]) -> SettingsCheck:
    """`known`: the provider of a name, or None if it is missing or can't be created."""

    def check(choice: ProviderChoice) -> Iterator[SettingProblem]:
        provider = known(choice.type)
        if not isinstance(provider, ValidatesSettings):
            return
        try:
            warnings = provider.validate_settings(choice.model, choice.config) or ()
        except ProviderUnusable as error:
            warnings = error.doubts
            for one in (error, *error.others):
                # Which hosts may get a key depends on the environment.
                if is_of_definition(one.message, choice) and one.hint != KEY_HOSTS_HINT:
                    yield SettingProblem(one.message, one.hint)
        # The others are about this machine, such as a missing key.
        for text in warnings:
            if named_setting(text, choice):
                yield SettingProblem(text, is_error=False)

    return check
