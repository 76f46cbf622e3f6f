"""Keep secrets from the engine's environment out of recordings and logs."""

import logging
from collections.abc import Mapping

from agentforge.adapters.environment import named_secrets, secrets_in
from agentforge.model.secrets import Redactor, SecretReferences, StoredText

log = logging.getLogger("agentforge.run")


def environment_redactor(environ: Mapping[str, str]) -> Redactor:
    """Hides the values of all variables with the name of a secret."""
    return Redactor(secrets_in(environ))


def references(environ: Mapping[str, str], where: str) -> SecretReferences:
    """Replaces secrets in what is stored; the user is told."""

    def tell(name: str) -> None:
        log.warning("%s contains the value of %s: stored as ${secret:%s}", where, name, name)

    return SecretReferences(named_secrets(environ), tell)


def stored(text: str, environ: Mapping[str, str], where: str) -> StoredText:
    """The text as it is stored. The agent is given the values of its references."""
    return references(environ, where).hide(text)


def stored_text(text: str, environ: Mapping[str, str], where: str) -> str:
    """Of a text that no agent is given."""
    return stored(text, environ, where).text


def references_of_answers(environ: Mapping[str, str]) -> SecretReferences:
    return references(environ, "the answer")


# A filter rather than a formatter: the program that embeds the engine chooses the format of its log.
class RedactingFilter(logging.Filter):
    """For a log handler: hides secrets in the message, fields and exception of a record."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__()
        self._redactor = environment_redactor(environ)

    def filter(self, record: logging.LogRecord) -> bool:
        if self._redactor:
            hide = self._redactor.text
            record.msg, record.args = hide(record.getMessage()), None
            for name, value in record.__dict__.items():
                if isinstance(value, str) and name != "msg":
                    record.__dict__[name] = hide(value)
            self._hide_exception(record)
        return True

    def _hide_exception(self, record: logging.LogRecord) -> None:
        if not record.exc_info or record.exc_info[1] is None:
            return
        trace = logging.Formatter().formatException(record.exc_info)
        hidden = self._redactor.text(trace)
        if hidden != trace:
            error = record.exc_info[1]
            record.__dict__.setdefault("error", self._redactor.text(f"{type(error).__name__}: {error}"))
            # Without `exc_info`, formatters print this text instead of formatting the exception again.
            record.exc_text, record.exc_info = hidden, None
