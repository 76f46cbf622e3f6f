"""Which environment variables hold secrets: told by their names, and by what a secret can look like."""

import re

SHORTEST_SECRET = 8
"""Anything shorter is too likely to stand in ordinary text."""

_SECRET_NAME = re.compile(
    r"""(?:^|_)(?:
        API_?KEY | (?<=_)KEY | TOKEN | SECRETS? | PASSWORD | PASSWD | PASSPHRASE | CREDENTIALS? | PAT | PWD
      | (?:API|AUTH|ACCESS|BEARER)TOKEN | PGPASSWORD
    )(?:_?\d+)?$""",
    re.VERBOSE | re.IGNORECASE,
)
# They end like a secret and are none.
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
    """Long enough to be one, and not just a word, a number or one character again and again."""
    text = value.strip()
    return len(text) >= SHORTEST_SECRET and _PLAIN_VALUE.fullmatch(text) is None


def looks_like_path(value: str) -> bool:
    return _PATH.match(value) is not None
