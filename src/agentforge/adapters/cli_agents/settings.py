"""A provider's settings: the stage's override the provider's defaults; validates them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from agentforge.model.diagnostic import USER_PREFIX, did_you_mean, is_misspelled
from agentforge.model.errors import ProviderUnusable

_NAMES = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_WRONG = re.compile(r"Expected `(?P<expected>[^`]+)`(?P<bound> [<>]=? \S+)?(?:, got `(?P<found>[^`]+)`)?")

_CHOSEN = re.compile(r"Invalid enum value (.+)", re.DOTALL)


def describe_error(error: msgspec.ValidationError, key: str = "") -> str:
    """For example "`timeout` must be a number, not text"; `key` names the validated value."""
    message, _, path = str(error).partition(" - at `$")
    inside = path.rstrip("`").removesuffix("[...]")
    name = f"{key}{inside}" if key else inside.lstrip(".")
    if chosen := _CHOSEN.fullmatch(message):
        return f"`{name}` can't be {chosen[1]}"
    wrong = _WRONG.fullmatch(message)
    if wrong is None:
        return f"`{name}`: {message}" if name else message
    expected = f"must be {_kinds(wrong['expected'])}{wrong['bound'] or ''}"
    if wrong["found"]:
        expected += f", not {_kinds(wrong['found'])}"
    return f"`{name}` {expected}" if name else f"it {expected}"


def _kinds(types: str) -> str:
    """The type names, without `null`."""
    names = [name for name in types.split(" | ") if name != "null"] or ["null"]
    return " or ".join(dict.fromkeys(_NAMES.get(name, f"`{name}`") for name in names))


Config = TypeVar("Config", bound=msgspec.Struct)


class ConfigReader(Generic[Config]):
    """Reads one provider's config into its struct; unknown keys are ignored."""

    def __init__(self, provider: str, kind: type[Config], defaults: Mapping[str, Any] | None = None) -> None:
        self._provider = provider
        self._kind = kind
        self._known = frozenset(field.encode_name for field in msgspec.structs.fields(kind))
        self.defaults: dict[str, Any] = dict(defaults or {})

    def read(self, config: Mapping[str, Any]) -> Config:
        return self._converted({**self.defaults, **config})

    def _converted(self, merged: Mapping[str, Any]) -> Config:
        try:
            # Number keys come back as text when a plan was stored as JSON.
            return msgspec.convert(merged, self._kind, str_keys=True)
        except msgspec.ValidationError as error:
            raise ProviderUnusable(
                f"provider {self._provider}: {describe_error(error)}",
                hint="fix the provider's config in the stage",
            ) from error

    def validate(self, config: Mapping[str, Any], *checks: Callable[[Config], object]) -> list[str]:
        """Warnings about keys that are ignored. Raises ProviderUnusable with everything that is wrong; the
        provider's own checks raise it as well."""
        merged = {**self.defaults, **config}
        unknown = sorted(key for key in merged.keys() - self._known if not key.startswith(USER_PREFIX))
        wrong: list[ProviderUnusable] = []
        # One by one, as a conversion ends at the first wrong key.
        for key in sorted(merged.keys() & self._known):
            try:
                self._converted({key: merged[key]})
            except ProviderUnusable as error:
                wrong.append(error)
        wrong += self._misspelled(unknown)
        for check in checks:
            try:
                check(self.read(config))
            except ProviderUnusable as error:
                wrong.append(error)
        refuse_all(wrong)
        known = ", ".join(sorted(self._known))
        return [
            f"provider {self._provider}: unknown config key `{key}` is ignored (known: {known})"
            for key in unknown
        ]

    def _misspelled(self, unknown: list[str]) -> Iterator[ProviderUnusable]:
        """Ignoring a key that resembles a known one could run an agent without its limits or its sandbox."""
        meant = self._known | {"model", "sandbox"}  # They are beside the config in a definition.
        for key in unknown:
            if key == "sandbox":
                yield ProviderUnusable(
                    f"provider {self._provider}: `sandbox` is not a setting of a provider",
                    hint="put it on the stage, or at the top of the pipeline",
                )
            elif is_misspelled(key, meant):
                yield ProviderUnusable(
                    f"provider {self._provider}: unknown config key `{key}`",
                    hint=did_you_mean(key, meant),
                )


def refuse_all(wrong: list[ProviderUnusable]) -> None:
    """Raise the first with all others; each is reported once."""
    distinct = list({error.message: error for error in wrong}.values())
    if distinct:
        distinct[0].others = tuple(distinct[1:])
        raise distinct[0]
