"""Detection and redaction of secrets, and where keys may be sent."""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import pbkdf2_hmac
from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model.errors import NOT_JSON

HIDDEN = "[secret]"


def spellings(values: Iterable[str]) -> tuple[str, ...]:
    """Each value as it may appear in a text: plain, in JSON, and in JSON within JSON; longest first."""
    # Agents print what they were given as JSON, and many report what they print as JSON again. A value that
    # contains another comes first, as a pattern takes the first alternative that fits.
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

    def json(self, content: bytes) -> bytes:
        """Redact JSON, however its texts are escaped; what isn't JSON is text."""
        kept = self.bytes(content)
        if self._pattern is None or b"\\" not in kept:
            return kept
        try:
            value = msgspec.json.decode(kept.removeprefix(BOM_UTF8))
            hidden = self.data(value)
            return kept if hidden == value else msgspec.json.encode(hidden)
        except NOT_JSON:
            return kept

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


REFERENCE = "${secret:"
"""How a reference begins."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(rf"\$\{{secret:({_NAME})\}}")
_STORED = re.compile(rf"\$\{{secret:(?:({_NAME})\}}|:)")


class StoredText(Struct, frozen=True):
    """A text as it is stored: with references instead of secrets."""

    text: str
    secrets: tuple[str, ...] = ()
    """The variables whose values were in it. A reference to any other variable is just text."""


class SecretReferences:
    """Replaces the values of variables by references (`${secret:NAME}`), which can be stored."""

    def __init__(self, values: Mapping[str, str], found: Callable[[str], object] = str) -> None:
        """`values`: by the name of the variable. `found` is called with the name of each that is replaced."""
        self._values, self._found = values, found
        self._names = {spelling: name for name in sorted(values) for spelling in spellings([values[name]])}
        longest = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest))) if longest else None

    def hide(self, text: str) -> StoredText:
        """Bytes of a command line that aren't UTF-8, which can't be stored, are replaced, too."""
        text = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
        if self._pattern is None:
            return StoredText(text)
        names = tuple(sorted({self._names[value] for value in self._pattern.findall(text)}))
        for name in names:
            self._found(name)
        hidden = self._pattern.sub(lambda found: f"{REFERENCE}{self._names[found[0]]}}}", text)
        return StoredText(hidden, names)

    def proofs(self, names: Iterable[str], text: str) -> dict[str, str]:
        """For a text in a file that others may write: that its writer had the values."""
        return {name: _proof(self._values[name], text) for name in names}

    def proven(self, proofs: Mapping[str, str], text: str) -> tuple[str, ...]:
        """The variables whose values the writer of the text had."""
        known = ((name, self._values.get(name)) for name in sorted(proofs))
        return tuple(name for name, value in known if value and proofs[name] == _proof(value, text))


NO_SECRETS = SecretReferences({})


def references_in(text: str) -> frozenset[str]:
    """The variables to which the text refers."""
    return frozenset(_REFERENCE.findall(text))


def with_marks(text: str, names: Collection[str], mark: str) -> str:
    """The text with a mark in the place of each reference to these variables. `mark`: a text that occurs
    nowhere else."""
    if not names:
        return text
    return _REFERENCE.sub(lambda found: f"{mark}{found[1]}}}" if found[1] in names else found[0], text)


def from_marks(text: str, mark: str) -> str:
    """The text with references in the place of marks. What looked like a reference before is escaped, with a
    second colon, however the text was put together."""
    return text.replace(REFERENCE, f"{REFERENCE}:").replace(mark, REFERENCE)


def resolve(text: str, values: Mapping[str, str]) -> str:
    """Replace the references to these variables by their values, and unescape."""

    def value(found: re.Match[str]) -> str:
        return values.get(found[1], found[0]) if found[1] else REFERENCE

    return _STORED.sub(value, text) if REFERENCE in text else text


def _proof(value: str, text: str) -> str:
    # Slow, so that the value can't be found by trying.
    password, salt = value.encode("utf-8", "replace"), text.encode("utf-8", "replace")
    return pbkdf2_hmac("sha256", password, salt, 200_000).hex()


def _in_json(text: str, ascii_only: bool) -> str:
    import json

    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


MIN_SECRET_CHARS = 8
"""Anything shorter is too likely to occur in ordinary text."""

_SECRET_NAME = re.compile(
    r"""(?:^|_)(?:
        API_?KEY | (?<=_)KEY | TOKEN | SECRETS? | PASSWORD | PASSWD | PASSPHRASE | CREDENTIALS? | PAT | PWD
      | (?:API|AUTH|ACCESS|BEARER)TOKEN | PGPASSWORD | OTLP_(?:[A-Z]+_)?HEADERS
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


KEY_HOSTS = "AGENTFORGE_KEY_HOSTS"
"""Further hosts, separated by commas or blanks."""
KEY_HOSTS_HINT = (
    "a definition may send keys only to their vendor or to this machine; see docs/providers-api.md"
)
MAKERS = frozenset(
    {"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai"}
)
# Strict, so that no other reader of the address can find another host in it.
_ADDRESS = re.compile(
    r"(https?)://(\[[0-9a-f:]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?(?:[/?][!-~]*)?", re.IGNORECASE
)
_ADDRESS_NAME = re.compile(r"\w*_(?:BASE_URL|API_BASE|API_URL|ENDPOINT)", re.IGNORECASE)


def names_address(variable: str) -> bool:
    """Whether a program sends its requests, with their keys, to the address in this variable."""
    return _ADDRESS_NAME.fullmatch(variable) is not None


def plain_address(address: str) -> tuple[str, str] | None:
    """Scheme and host of an http(s) address; None if readers might find different hosts in it."""
    found = _ADDRESS.fullmatch(address)
    return (found[1].lower(), found[2].lower().strip("[]").rstrip(".")) if found else None


def host_problem(address: str, environ: Mapping[str, str]) -> str:
    """Why no key may be sent to an address of a definition; "" if it may. `environ` is the user's."""
    found = plain_address(address)
    if found is None:
        return f"{address!r} is not a plain http(s) address"
    scheme, host = found
    if host == "localhost" or is_loopback(host):
        return ""
    if scheme == "http":
        return f"{host} would get the key unencrypted; use https"
    if host in MAKERS or host in _allowed(environ):
        return ""
    return f"refusing to send a key to {host}, which only a file names; to allow it, set {KEY_HOSTS}={host}"


def is_loopback(address: str) -> bool:
    from ipaddress import ip_address  # Only where a definition names an address.

    try:
        found = ip_address(address)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _allowed(environ: Mapping[str, str]) -> set[str]:
    """The hosts that the user's environment names: in the variable of the makers' programs, or in ours."""
    found = (_ADDRESS.fullmatch(value) for name, value in environ.items() if names_address(name))
    named = {match[2].lower().rstrip(".") for match in found if match}
    return named | set(re.split(r"[\s,]+", environ.get(KEY_HOSTS, "").lower().strip()))
