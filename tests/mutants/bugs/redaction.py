"""Bugs in what counts as a secret, and in hiding it."""

from tests.mutants.mutation import Mutation as Bug

REDACTION = "agentforge.model.secrets"
SECRECY = "agentforge.model.secrets"
LOGGING = "agentforge.app.redaction"
PROGRAM = "agentforge.adapters.cli_agents.program"

BUGS = (
    Bug(
        REDACTION,
        "a secret within JSON is printed",
        "found |= {value, once, _in_json(once, ascii_only)}",
        "found |= {value}",
    ),
    Bug(
        REDACTION,
        "a secret in JSON within JSON is printed",
        "found |= {value, once, _in_json(once, ascii_only)}",
        "found |= {value, once}",
    ),
    Bug(
        REDACTION,
        "a secret in JSON beyond ASCII is printed",
        "for ascii_only in (True, False):",
        "for ascii_only in (True,):",
    ),
    Bug(
        REDACTION,
        "the shorter of two secrets is hidden first",
        "key=lambda spelling: (-len(spelling), spelling)",
        "key=lambda spelling: (len(spelling), spelling)",
    ),
    Bug(
        REDACTION,
        "keys of data aren't redacted",
        "{self.data(key): self.data(item) for key, item",
        "{key: self.data(item) for key, item",
    ),
    Bug(
        REDACTION,
        "lists aren't redacted",
        "            case list() | tuple():\n                return type(value)(self.data(item) for item in value)\n",
        "",
    ),
    Bug(REDACTION, "secrets are patterns", "map(re.escape, written)", "written"),
    Bug(
        REDACTION,
        "other bytes are lost",
        '.encode("utf-8", "surrogateescape")',
        '.encode("utf-8", "replace")',
    ),
    Bug(SECRECY, "short values count", "len(text) >= MIN_SECRET_CHARS and", "len(text) >= 1 and"),
    Bug(SECRECY, "plain words count", " and _PLAIN_VALUE.fullmatch(text) is None", ""),
    Bug(SECRECY, "names that only end like a secret's count", " and _PLAIN_NAME.search(name) is None", ""),
    Bug(SECRECY, "passwords don't count", "| PASSWORD | PASSWD", "| PASSWD"),
    Bug(SECRECY, "names in lower case don't count", "    re.VERBOSE | re.IGNORECASE,\n", "    re.VERBOSE,\n"),
    Bug(SECRECY, "numbered keys don't count", r"(?:_?\d+)?$", "$"),
    Bug(
        LOGGING,
        "fields of a log record aren't redacted",
        "                    record.__dict__[name] = hide(value)\n",
        "                    pass\n",
    ),
    Bug(LOGGING, "traces aren't redacted", "            self._hide_exception(record)\n", ""),
    Bug(
        LOGGING,
        "arguments of a log record aren't redacted",
        "record.msg, record.args = hide(record.getMessage()), None",
        "record.msg = hide(record.msg)",
    ),
    Bug(
        PROGRAM,
        "inherited secrets aren't hidden",
        "(*environment.items(), *(inherited or {}).items())",
        "environment.items()",
    ),
    Bug(
        PROGRAM,
        "named variables aren't hidden",
        "(is_secret_name(name) or _matches(name, names)) and",
        "is_secret_name(name) and",
    ),
)
