"""The description of an agent's command-line program: pure data, in Python or in YAML."""

from typing import Literal

from msgspec import Struct, field

from agentforge.adapters.environment import SettingValue
from agentforge.model.failure import FailureKind

Words = tuple[str, ...]
TEXT = "text"
JSON_LINES = "json_lines"
"""Formats of output that don't belong to one CLI."""


class OutputFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to find each value in a program's JSON lines: dotted paths, which descend into lists.
    `PATH=VALUE` matches lines that have this value at the path."""

    text: str = ""
    group: str = ""
    """Consecutive texts with the same value here are joined."""
    session: str = ""
    input_tokens: str = ""
    output_tokens: str = ""
    cached_tokens: str = ""
    cost: str = ""
    model: str = ""
    error: str = ""
    done: str = ""
    """The final line; output without it is incomplete. Empty: the format has none."""


class AgentCli(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One CLI. Its command line is `arguments`, then those for permissions, model, effort, retries, the
    stage's own, those for resuming a session, and those for the prompt: each only if it applies."""

    name: str
    """The provider's name."""
    program: str = ""
    """Empty: the same as the name."""
    title: str = ""
    install: str = ""
    """How to install the program if it is missing."""
    log_in: str = ""
    """What to do when authentication fails."""
    keys: Words = ()
    """Variables for authentication; one of them is enough."""
    logins: Words = ()
    """Files that a login creates; `$NAME:default` is in a folder that the variable can override."""
    arguments: Words = ()

    prompt: Literal["stdin", "argument", "file"] = "stdin"
    prompt_arguments: Words | None = None
    """`{prompt}` is the text or the path of the file. Default: only that, and no arguments for stdin."""
    prompt_suffix: str = ""
    """Appended to every prompt."""

    permission_arguments: Words = ()
    """Arguments that let it work without asking for permission."""
    guarded_unless: Words = ()
    """Arguments, one of which lets it write below `.claude`; empty: it always can. Without them, it writes
    its result to another folder."""
    own_sandbox_unless: Words = ()
    """Arguments, one of which makes it run commands without a sandbox of its own; empty: it has none."""
    model_arguments: Words = ()
    """With `{model}`."""
    models: Words = ()
    """Names and patterns (`claude-*`) of known models; others cause a warning. Empty: no warnings."""
    any_model_with: Words = ()
    """Environment variables, one of which lets it call models that have other names."""
    default_model: str = ""
    model_variable: str = ""
    """The environment variable with the model to use if the request has none."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Model names, mapped to the program's own names."""
    effort_arguments: Words = ()
    """With `{effort}`."""
    efforts: Words = ()
    """Valid efforts; they can be appended to the model, as in `model:high`."""
    default_effort: str = ""
    effort_variable: str = ""
    resume_arguments: Words = ()
    """With `{session}`; empty: it can't resume a session."""
    schema_arguments: Words = ()
    """With `{schema}`, the JSON Schema of the stage's artifact; empty: it can't return one."""
    schema_suffix: str = ""
    """Appended to the prompt if the schema is passed."""
    budget_arguments: Words = ()
    """With `{budget}`, the US dollars that an attempt may spend; empty: it can't keep to a budget."""
    priced_models: Words = ()
    """Names and patterns of models whose price it knows, without which it can't keep to a budget. Empty: it
    knows the price of every model."""

    addresses: Words = ()
    """Variables with the address of the server of its models; the first that is set counts."""
    remote_with: Words = ()
    """Variables and options that make it call another service, whatever the address says."""
    environment: dict[str, SettingValue] = field(default_factory=dict)
    """Defaults; the agent's environment overrides them."""
    root_environment: dict[str, SettingValue] = field(default_factory=dict)
    """Set for root only, unless one of the variables in `root_unless` is set."""
    root_unless: Words = ()
    passes: Words = ()
    """Names or patterns of additional inherited variables that it needs."""
    secrets: Words = ()
    """Additional variables whose values are secret, besides those with a secret's name."""
    state: Words = ()
    """Paths of its state: `~/.x`, or `${VARIABLE:-~}/.x` if a variable overrides it."""

    retries: int | None = None
    """How often it may retry by itself. The engine's own retries are better: its waits are durable and
    visible."""
    retry_arguments: Words = ()
    """With `{retries}` and, if set in the stage's config, `{model_provider}`."""
    retry_variables: Words = ()
    """Environment variables that are set to the number of retries."""
    timeout: float | None = None
    """Seconds for one attempt."""
    timeout_variable: str = ""
    idle_timeout: float | None = None
    term_grace: float | None = None

    output: str = TEXT
    """The output format: `text`, `json_lines`, or the name of a CLI with the same format."""
    fields: OutputFields = OutputFields()
    """For `json_lines`."""
    error_patterns: Words = ()
    """Output that matches one of these near its end is an error, regardless of the exit status. `^` and `$`
    match at line boundaries, and a pattern may span lines."""
    lost_session_patterns: Words = ()
    """Match errors which report that the session to resume no longer exists."""
    failures: dict[str, FailureKind] = field(default_factory=dict)
    """Patterns of its errors, mapped to kinds of failure; they take precedence."""
    tools: bool = True
    """Whether it has tools: runs commands, writes files."""

    @property
    def program_name(self) -> str:
        return self.program or self.name

    @property
    def shown_name(self) -> str:
        return self.title or self.name
