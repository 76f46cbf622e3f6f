"""The kinds of value that name something outside of the project: addresses, commands and variables."""

from msgspec import Struct

from agentforge.definition.read.values import Schema, Text, as_text
from agentforge.definition.report import Report
from agentforge.definition.yaml_tree import Tree, shown
from agentforge.model.plan_limits import (
    MAX_COMMAND,
    MAX_PORT,
    MAX_URL,
    VARIABLE_PATTERN,
    is_address,
    is_variable_name,
    wrong_port,
)
from agentforge.model.secrets import can_be_secret


class Address(Struct, frozen=True):
    """The address of a web service."""

    def read(self, tree: Tree, name: str, report: Report) -> str | None:
        text = Text(longest=MAX_URL).read(tree, name, report)
        if text is None:
            return None
        if "@" in text.value.partition("//")[2].partition("/")[0]:
            report.hide(text.value)
            hint = "sign the messages with `secret`; a definition contains no passwords"
            report.error("secret-in-file", text.at, f"{name} contains a user or a password", hint)
        elif port := wrong_port(text.value):
            message = f"the port of {name} must be from 1 to {MAX_PORT}, got {shown(port)}"
            report.error("bad-value", text.at, message)
        elif not is_address(text.value):
            hint = "for example `https://reviews.example.com/hook`"
            message = f"{name} must be an http or https address, got {shown(text.value)}"
            report.error("bad-value", text.at, message, hint)
        return text.value

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^/@]+(/.*)?$", "maxLength": MAX_URL}


class CommandKind(Struct, frozen=True):
    """A command line of the shell."""

    def read(self, tree: Tree, name: str, report: Report) -> str | None:
        text = Text(prose=True, longest=MAX_COMMAND).read(tree, name, report)
        if text and not text.value.strip():
            report.error("bad-value", text.at, f"{name} is empty", hint="write a command")
        if text and "\0" in text.value:
            report.error("control-character", text.at, f"{name} contains a null character", hint="remove it")
        return text.value if text else None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": ["string", "number", "boolean"], "pattern": r"\S", "maxLength": MAX_COMMAND}


class NamedVariable(Struct, frozen=True):
    """The name of an environment variable."""

    is_secret: bool = False
    """Whether the variable holds a secret. Then what isn't a name may be the secret itself."""

    def read(self, tree: Tree, name: str, report: Report) -> str | None:
        text = as_text(tree, name, report)
        if text is None or is_variable_name(text.value):
            return text.value if text else None
        message = f"{name} must be the name of an environment variable"
        if self.is_secret:
            if can_be_secret(text.value):
                report.hide(text.value)
            hint = (
                "set a variable, such as REVIEW_SECRET, and write its name; a definition contains no secrets"
            )
            report.error("bad-value", text.at, message, hint)
        else:
            report.error(
                "bad-value", text.at, f"{message}, got {shown(text.value)}", "for example `CI_TOKEN`"
            )
        return None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "string", "pattern": f"^{VARIABLE_PATTERN}$"}


ADDRESS = Address()
COMMAND = CommandKind()
SECRET = NamedVariable(is_secret=True)
