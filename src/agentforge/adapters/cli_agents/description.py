"""An agent's command-line program, described: data alone, in Python or in YAML."""

from typing import Literal

from msgspec import Struct, field

from agentforge.adapters.cli_agents.program import SettingValue
from agentforge.model.failure import FailureKind

Words = tuple[str, ...]


class OutputFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Where in its JSON lines a program says what: dotted paths, which go through lists. `PATH=VALUE` stands
    for lines that have that value there."""

    text: str = ""
    group: str = ""
    """Texts whose lines have the same value here are pieces of one."""
    session: str = ""
    input_tokens: str = ""
    output_tokens: str = ""
    cached_tokens: str = ""
    cost: str = ""
    model: str = ""
    error: str = ""
    done: str = ""
    """The line without which the output is cut short; empty: there is none."""


class AgentCli(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One CLI. Its command line is `arguments`, then those of permissions, model, effort, retries, what the
    stage adds, of a session to go on with, and of the prompt: each only where it applies."""

    name: str
    """Of the provider."""
    program: str = ""
    """Empty: the same as the name."""
    title: str = ""
    install: str = ""
    """What to do when the program isn't there."""
    log_in: str = ""
    """What to do when it isn't let in."""
    keys: Words = ()
    """Variables, of which one is enough to be let in."""
    logins: Words = ()
    """Files that a login leaves; `$NAME:default` is in a folder that a variable moves."""
    arguments: Words = ()

    prompt: Literal["stdin", "argument", "file"] = "stdin"
    prompt_arguments: Words | None = None
    """`{prompt}` is the text or the path of the file. Not given: just that, and nothing for stdin."""
    prompt_suffix: str = ""
    """What follows every prompt."""

    permission_arguments: Words = ()
    """What lets it work without asking."""
    model_arguments: Words = ()
    """With `{model}`."""
    models: Words = ()
    """Known to work; any other is tried with a warning. Empty: all are."""
    default_model: str = ""
    model_variable: str = ""
    """The environment variable that has the model where the request names none."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Names of models, and what the program calls them."""
    effort_arguments: Words = ()
    """With `{effort}`."""
    efforts: Words = ()
    """What may stand after the model, as in `model:high`."""
    default_effort: str = ""
    effort_variable: str = ""
    resume_arguments: Words = ()
    """With `{session}`; empty: it can't go on with a session."""

    environment: dict[str, SettingValue] = field(default_factory=dict)
    """Set unless the agent's environment has it already."""
    root_environment: dict[str, SettingValue] = field(default_factory=dict)
    """Set for root alone, unless one of `root_unless` says something."""
    root_unless: Words = ()
    passes: Words = ()
    """Names or patterns of inherited variables that it needs beside those that all programs get."""
    secrets: Words = ()
    """Variables whose values nobody may see, beside those whose names say so."""
    state: Words = ()
    """Where it keeps its state: `~/.x`, or `${VARIABLE:-~}/.x` where a variable moves it."""

    retries: int | None = None
    """How often it may try again by itself. The engine waits better: its waits are durable, and people see
    them."""
    retry_arguments: Words = ()
    """With `{retries}` and, where the stage's config has it, `{model_provider}`."""
    retry_variables: Words = ()
    """Environment variables that take the same number."""
    timeout: float | None = None
    """Seconds for one attempt."""
    timeout_variable: str = ""
    idle_timeout: float | None = None
    term_grace: float | None = None

    output: str = "text"
    """Who reads what it prints: `text`, `json_lines`, or the name of a CLI whose format it has."""
    fields: OutputFields = OutputFields()
    """Of `json_lines`."""
    error_patterns: Words = ()
    """What one of these is found in is an error, whatever the exit status says. `^` and `$` are those of a
    line, and a pattern may look at the lines that follow."""
    lost_session_patterns: Words = ()
    """By which an error says that the session to go on with isn't there any more."""
    failures: dict[str, FailureKind] = field(default_factory=dict)
    """Patterns of its errors, and the kind of failure that they stand for; looked up before all others."""
    tools: bool = True
    """Whether it works with tools of its own: runs commands, writes files."""

    @property
    def program_name(self) -> str:
        return self.program or self.name

    @property
    def shown_name(self) -> str:
        return self.title or self.name
