"""A provider's own settings: what the stage wrote over what the provider was made with."""

import logging
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from agentforge.adapters.providers.type_words import in_words
from agentforge.model.errors import ProviderUnusable

_log = logging.getLogger(__name__)

Config = TypeVar("Config", bound=msgspec.Struct)


class ConfigReader(Generic[Config]):
    """Reads one provider's config into its struct. A key that nobody knows is warned about once."""

    def __init__(self, provider: str, kind: type[Config], defaults: Mapping[str, Any] | None = None) -> None:
        self._provider = provider
        self._kind = kind
        self._known = frozenset(field.encode_name for field in msgspec.structs.fields(kind))
        self._warned: set[str] = set()
        self.defaults: dict[str, Any] = dict(defaults or {})

    def read(self, config: Mapping[str, Any]) -> Config:
        merged = {**self.defaults, **config}
        for key in sorted(merged.keys() - self._known - self._warned):
            self._warned.add(key)
            _log.warning(
                "provider %s: unknown config key %r is ignored (known: %s)",
                self._provider,
                key,
                ", ".join(sorted(self._known)),
            )
        try:
            # Number keys come back as text when a plan was stored as JSON.
            return msgspec.convert(merged, self._kind, str_keys=True)
        except msgspec.ValidationError as error:
            raise ProviderUnusable(
                f"provider {self._provider}: {in_words(error)}",
                hint="correct the provider's config in the stage",
            ) from error
