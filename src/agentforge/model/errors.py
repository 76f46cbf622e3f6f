"""Exceptions for the caller, the definition and the store. Work that fails is data, not one of these.

Every class has a stable `code`; each surface has one table from code to exit or HTTP status.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import DecodeError, Struct, field

from agentforge.model.diagnostic import ARGUMENTS, Diagnostic, render

NOT_JSON = (DecodeError, UnicodeError, RecursionError)
"""What decoding JSON raises: for another structure, for bytes that aren't UTF-8, and for deep nesting."""


_SETTINGS = ("agentforge/config/settings.yaml", ".agent/config.yml", "agentforge/settings.yaml")
"""How the paths of settings files end."""


class AgentForgeError(Exception):
    """Something the caller can act on: what is wrong, and what to do next."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.others: tuple[AgentForgeError, ...] = ()
        """What else was found to be wrong at the same time."""

    def __str__(self) -> str:
        return "\n".join(error.message for error in (self, *self.others))


class InvalidSession(AgentForgeError):
    """The session name is invalid; nothing was changed."""

    code = "invalid_session"


class InvalidRequest(AgentForgeError):
    """The call is invalid: a missing argument, a value out of range."""

    code = "invalid_request"


class DefinitionError(AgentForgeError):
    """The pipeline or a stage is invalid; carries all diagnostics."""

    code = "definition"

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [diagnostic for diagnostic in diagnostics if diagnostic.is_error]
        files = {diagnostic.place.file for diagnostic in errors}
        # Values that come from no file: `lint` doesn't see them.
        where = "arguments" if files == {ARGUMENTS} else "definition"
        if files and all(file.endswith(_SETTINGS) for file in files):
            where = "settings"
        lint = "; `agentforge lint` checks all stages and pipelines of the project"
        super().__init__(
            f"{len(errors)} error{'s' if len(errors) != 1 else ''} in the {where}",
            hint=f"fix the {where} and retry{lint if where == 'definition' else ''}",
        )

    def __str__(self) -> str:
        return f"{self.message}\n\n{render(self.diagnostics)}"


class UnknownRun(AgentForgeError):
    """No run has that name."""

    code = "unknown_run"


class RunExists(AgentForgeError):
    """The session already exists: resume it, or start over with force."""

    code = "run_exists"


class RunActive(AgentForgeError):
    """Another process owns this run."""

    code = "lock_contention"


class IllegalMove(AgentForgeError):
    """A status can't follow the one before it."""

    code = "illegal_move"


class UnknownRequest(AgentForgeError):
    """The run has no such request."""

    code = "unknown_request"


class ForeignRequest(UnknownRequest):
    """The request is one of another run."""

    code = "foreign_request"


class RequestClosed(AgentForgeError):
    """The request was withdrawn, or its run is over, without an answer."""

    code = "request_closed"


class AlreadyAnswered(AgentForgeError):
    """Another answer to the request was first."""

    code = "already_answered"


class InvalidAnswer(AgentForgeError):
    """The request doesn't offer this answer, or the text is too long."""

    code = "invalid_answer"


class NotPermitted(AgentForgeError):
    """An agent tried what only a person may do, or what no agent of the run itself may do."""

    code = "not_permitted"


class Execution(Struct, frozen=True, omit_defaults=True):
    """What a run would execute, for the person who decides whether to trust it: one provider of a stage, the
    judge, a hook or a notification."""

    stage: str
    provider: str
    model: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """Those of the provider: programs, arguments, permissions."""
    sandbox: str = "none"
    network: bool = True
    commands: dict[str, str] = field(default_factory=dict)
    """Commands for the agent, and that of the queue."""


class UntrustedRun(AgentForgeError):
    """The run was not started here, so nothing of it is executed until a person trusts it. Carries what it
    would execute."""

    code = "untrusted_run"

    def __init__(self, message: str, *, hint: str = "", executes: Sequence[Execution] = ()) -> None:
        super().__init__(message, hint=hint)
        self.executes = tuple(executes)


class HookMissing(AgentForgeError):
    """The run needs hooks of the program that started it, and this program doesn't have them."""

    code = "hook_missing"


class ExecutorMissing(HookMissing):
    """The same for the executors of its stages."""

    code = "executor_missing"


class LogCorrupt(AgentForgeError):
    """The log is damaged in the middle; continuing requires an explicit choice."""

    code = "state_corrupt"


class LogConflict(AgentForgeError):
    """The log changed under its writer: another process wrote to it, moved, replaced or removed it."""

    code = "log_conflict"

    def __init__(self, message: str, *, hint: str = "", restored: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.restored = restored
        """Whether the writer has put its log back at the path, in a new file."""


class LogTooNew(AgentForgeError):
    """The log holds events of a newer version."""

    code = "log_too_new"


class LogTooOld(LogCorrupt):
    """The log was written by a version whose events this one doesn't read."""

    code = "log_too_old"


class StorageFailed(AgentForgeError):
    """A disk operation failed: full, read-only, not permitted, not local."""

    code = "storage_failed"


class UnusableFile(StorageFailed):
    """The path isn't a readable regular file: it is a folder, a link, a pipe or too large."""

    code = "unusable_file"


class UnknownProvider(AgentForgeError):
    """No provider of that name is registered."""

    code = "unknown_provider"


class ProviderUnusable(AgentForgeError):
    """The provider is known but can't run here: its program is missing, its settings are wrong."""

    code = "provider_unusable"
    doubts: tuple[str, ...] = ()
    """What may be wrong besides: warnings about the settings."""


class MissingKey(ProviderUnusable):
    """The provider has no API key."""

    code = "missing_key"


class InvalidSettings(ProviderUnusable):
    """A stage's provider settings or a provider's description are invalid."""

    code = "invalid_settings"
