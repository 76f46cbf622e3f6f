"""Detection and redaction of secrets."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

HIDDEN = "[secret]"


def spellings(values: Iterable[str]) -> tuple[str, ...]:
    """Each value as it may appear in a text: plain, in JSON, and in JSON within JSON; longest first."""
    found: set[str] = set()
    for value in values:
        for ascii_only in (True, False):
            once = _in_json(value, ascii_only)
            found |= {value, once, _in_json(once, ascii_only)}
    return tuple(sorted(found - {""}, key=lambda spelling: (-len(spelling), spelling)))


class Redactor:
    """Replaces secrets with a placeholder; input without secrets is returned unchanged."""

    def __init__(self, values: Iterable[str]) -> None:
        written = spellings(values)
        self._pattern = re.compile("|".join(map(re.escape, written))) if written else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def text(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)

    def bytes(self, content: bytes) -> bytes:
        """Redact UTF-8 text; other bytes are kept."""
        if self._pattern is None:
            return content
        return self.text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def data(self, value: Any) -> Any:
        """Redact every string in JSON data, including keys."""
        match value:
            case _ if self._pattern is None:
                return value
            case str():
                return self.text(value)
            case dict():
                return {self.data(key): self.data(item) for key, item in value.items()}
            case list() | tuple():
                return type(value)(self.data(item) for item in value)
            case _:
                return value


_REFERENCE = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")


class SecretReferences:
    """Replaces the values of variables by references (`${secret:NAME}`), which can be stored, and back."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """`values`: by the name of the variable."""
        self._values = values
        self._names = {spelling: name for name in sorted(values) for spelling in spellings([values[name]])}
        longest = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest))) if longest else None

    def names_in(self, text: str) -> tuple[str, ...]:
        """The variables whose values are in the text."""
        found = self._pattern.findall(text) if self._pattern else ()
        return tuple(sorted({self._names[value] for value in found}))

    def hide(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"${{secret:{self._names[found[0]]}}}", text)

    def resolve(self, text: str, names: Collection[str]) -> str:
        """Replace the references to these variables; each must have a value."""
        return _REFERENCE.sub(lambda found: self._values[found[1]] if found[1] in names else found[0], text)

    def value(self, name: str) -> str | None:
        return self._values.get(name)


def references_in(text: str) -> tuple[str, ...]:
    """The variables to which the text refers."""
    return tuple(sorted(set(_REFERENCE.findall(text))))


def _in_json(text: str, ascii_only: bool) -> str:
    import json

    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


MIN_SECRET_CHARS = 8
"""Anything shorter is too likely to occur in ordinary text."""

_SECRET_NAME = re.compile(
    r"""(?:^|_)(?:
        API_?KEY | (?<=_)KEY | TOKEN | SECRETS? | PASSWORD | PASSWD | PASSPHRASE | CREDENTIALS? | PAT | PWD
      | (?:API|AUTH|ACCESS|BEARER)TOKEN | PGPASSWORD
    )(?:_?\d+)?$""",
    re.VERBOSE | re.IGNORECASE,
)
# Names that end like a secret but are not secrets.
_PLAIN_NAME = re.compile(
    r"^(?:OLD)?PWD$|^PAT$|(?:^|_)(?:PUBLIC|PUB|PRIMARY|FOREIGN|SORT|PARTITION|ROW|CACHE|GROUP|SHORTCUT|HOT"
    r"|FINGERPRINT)_KEY$|(?:^|_)(?:MAX|MIN|PER|EOS|BOS|PAD|STOP|END|START|NEXT|PAGE)_TOKEN$",
    re.IGNORECASE,
)
_PLAIN_VALUE = re.compile(
    r"true|false|disabled|enabled|required|optional|default|password|changeme|\d+(?:\.\d+)?|(?P<again>.)(?P=again)*",
    re.IGNORECASE | re.DOTALL,
)
_PATH = re.compile(r"(?:~|\.{1,2})?/")


def is_secret_name(name: str) -> bool:
    """`ANTHROPIC_API_KEY`, `GITHUB_TOKEN`, `DB_PASSWORD`; not `TOKEN_COUNT`, `KEYBOARD` or `PWD`."""
    return _SECRET_NAME.search(name) is not None and _PLAIN_NAME.search(name) is None


def can_be_secret(value: str) -> bool:
    """Whether the value is long enough, and not just a common word, a number or one repeated character."""
    text = value.strip()
    return len(text) >= MIN_SECRET_CHARS and _PLAIN_VALUE.fullmatch(text) is None


def looks_like_path(value: str) -> bool:
    return _PATH.match(value) is not None
