"""The environment variables that AgentForge reads and sets: names, meanings, types and defaults.

`doctor` checks their values by this table, and docs/variables.md is generated from it. Each is read where it
is needed; a test compares the names.
"""

from typing import Literal

from msgspec import Struct

VariableKind = Literal[
    "text", "folder", "file", "provider", "seconds", "number", "time", "list", "mapping", "switch"
]
Subject = Literal["files", "runs", "judge", "codex", "api", "mock", "log", "traces", "trust", "terminal"]


class Variable(Struct, frozen=True):
    name: str
    subject: Subject
    meaning: str
    kind: VariableKind = "text"
    default: str = ""
    values: tuple[str, ...] = ()
    """All that are allowed; empty: any of the kind. Of a switch, what turns it on."""


class GivenVariable(Struct, frozen=True):
    """One that the engine sets for a program that it starts."""

    name: str
    meaning: str


LOG_LEVELS = ("debug", "info", "warn", "warning", "error", "fatal")
OTLP = "http/protobuf"
EFFORTS = ("xhigh", "high", "medium", "low", "minimal")

SUBJECTS: dict[Subject, str] = {
    "files": "File locations",
    "runs": "Run settings",
    "judge": "The judge",
    "codex": "Codex",
    "api": "Provider `api`",
    "mock": "Mock mode",
    "log": "The log of a run",
    "traces": "Traces",
    "trust": "Trust",
    "terminal": "Output",
}

VARIABLES = (
    Variable("PROJECT_ROOT", "files", "the project's folder, as `-C DIR`", "folder", "the current folder"),
    Variable("STAGES_DIR", "files", "an additional folder of stages", "folder"),
    Variable("PIPELINES_DIR", "files", "an additional folder of pipelines", "folder"),
    Variable(
        "AGENT_PIPELINES_ROOT",
        "files",
        "a copy of agent-pipelines, whose `scripts/stages` and `scripts/pipelines` are used, too",
        "folder",
    ),
    Variable(
        "XDG_STATE_HOME",
        "files",
        "the parent of AgentForge's state folder, which holds the proofs that runs were started here",
        default="`~/.local/state`",
    ),
    Variable(
        "XDG_CONFIG_HOME",
        "files",
        "the parent of the folder with your settings and the list of trusted projects",
        default="`~/.config`",
    ),
    Variable(
        "CLAUDE_PIPELINE_PROVIDER",
        "runs",
        "the provider of all stages; `--provider` overrides it",
        "provider",
    ),
    Variable("CLAUDE_PIPELINE_MODEL", "runs", "the model of all stages; `--model` overrides it"),
    Variable("CLAUDE_PIPELINE_CONTEXT", "runs", "the text for `${CONTEXT}`; `--context` overrides it"),
    Variable(
        "AGENTFORGE_PROVIDER_CONFIG",
        "runs",
        "settings of the provider; `--provider-config` overrides it",
        "mapping",
    ),
    Variable("PIPELINE_CLI_PROVIDER", "runs", "the same as `--provider`, which overrides it", "provider"),
    Variable("PIPELINE_CLI_MODEL", "runs", "the same as `--model`, which overrides it"),
    Variable("PIPELINE_CLI_CONTEXT", "runs", "the same as `--context`, which overrides it"),
    Variable(
        "PIPELINE_CLI_INPUTS", "runs", "the same as `--input`, which overrides it: a JSON list of paths"
    ),
    Variable("BEADS_LABEL_PREFIX", "runs", "the prefix of the labels of queue tasks", default="`pipeline/`"),
    Variable(
        "AGENTFORGE_NOTIFY",
        "runs",
        "where notifications are sent when any run needs a person, fails, completes or is cancelled:"
        " `desktop`, a URL or a command",
    ),
    Variable(
        "COMPILE_TIMESTAMP", "runs", "the compile time in the plan, for reproducible output", "time", "now"
    ),
    Variable("SESSION_CREATED_AT", "runs", "the time at which the run was created", "time", "now"),
    Variable(
        "AGENT_PIPELINES_LEGACY", "runs", "for agent-pipelines only: has no effect, as every run has a log"
    ),
    Variable(
        "AGENTFORGE_NETWORK",
        "runs",
        "`local`: refuse providers and addresses that are not on this machine, as `--local`; what such a run "
        "starts gets it, too",
        default="`any`",
        values=("any", "local"),
    ),
    Variable("JUDGE_PROVIDER", "judge", "the provider that judges", "provider"),
    Variable("JUDGE_MODEL", "judge", "the model that judges"),
    Variable("JUDGE_PROMPT_PATH", "judge", "a file with the judge's prompt", "file", "the built-in prompt"),
    Variable(
        "PLATEAU_TEST_MODE",
        "judge",
        "don't call a judge; the agent's `plateau_suspected` decides",
        "switch",
        values=("1",),
    ),
    Variable("CODEX_MODEL", "codex", "the model", default="`gpt-5.5`"),
    Variable("CODEX_REASONING_EFFORT", "codex", "the reasoning effort", default="`high`", values=EFFORTS),
    Variable("CODEX_TIMEOUT", "codex", "the time limit of an attempt; 0 for none", "seconds", "900"),
    Variable("ANTHROPIC_API_KEY", "api", "the key for Anthropic's models"),
    Variable("ANTHROPIC_AUTH_TOKEN", "api", "the token that is used instead if there is no key"),
    Variable("ANTHROPIC_BASE_URL", "api", "the base URL of Anthropic's API"),
    Variable("OPENAI_API_KEY", "api", "the key for OpenAI's models"),
    Variable("OPENAI_BASE_URL", "api", "the base URL of OpenAI's API"),
    Variable(
        "AGENTFORGE_KEY_HOSTS", "api", "more hosts that a key may be sent to, separated by commas", "list"
    ),
    Variable("MOCK_MODE", "mock", "the mock replaces every agent", "switch", values=("true",)),
    Variable("MOCK_DELAY", "mock", "the time between two iterations", "seconds", "0"),
    Variable("MOCK_FIXTURES_DIR", "mock", "a folder of answers for the mock", "folder"),
    Variable(
        "AGENT_PIPELINES_EVENT_BUFFER",
        "log",
        "the number of progress events to buffer",
        "number",
        "100",
    ),
    Variable(
        "AGENT_PIPELINES_EVENT_FLUSH_MS",
        "log",
        "the maximum number of milliseconds to buffer them",
        "number",
        "1000",
    ),
    Variable("EVENTS_TAIL_LINES", "log", "the number of past events that `tail` shows first", "number", "50"),
    Variable(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "traces",
        "the collector of OpenTelemetry that the spans of runs are sent to, such as `http://localhost:4318`",
    ),
    Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "traces", "the same with the path, such as `/v1/traces`"),
    Variable(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "traces", "the protocol; no other is supported", default=f"`{OTLP}`"
    ),
    Variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "traces", "the same, which overrides it"),
    Variable(
        "OTEL_TRACES_EXPORTER",
        "traces",
        "`otlp`: send spans, without an endpoint to `http://localhost:4318`; `none`: send none",
    ),
    Variable("OTEL_SDK_DISABLED", "traces", "`true`: send no spans"),
    Variable(
        "AGENTFORGE_TRUST_PROJECT",
        "trust",
        "as `--trust-project`: the project may replace built-in providers, and say who is notified",
        "switch",
        values=("1",),
    ),
    Variable(
        "IS_SANDBOX",
        "trust",
        "for root only: tells Claude Code that it is in a sandbox, without which it refuses to work",
        "switch",
        "`1` for root",
        ("1",),
    ),
    Variable(
        "AGENT_PIPELINES_LOG_LEVEL",
        "terminal",
        "the minimum level to log to stderr, as `--log-level`",
        default="`warn`; with `--json`, `info`, unless stderr is a terminal",
        values=LOG_LEVELS,
    ),
    Variable("NO_COLOR", "terminal", "any value: no colours"),
    Variable("TERM", "terminal", "the terminal; `dumb` turns the live display off"),
    Variable(
        "AGENTFORGE_DEBUG", "terminal", "show the traceback of an unexpected error", "switch", values=("1",)
    ),
)

GIVEN = (
    GivenVariable("AGENTFORGE_RESULT", "the path of the result to write, as `${RESULT}`"),
    GivenVariable("AGENTFORGE_STATUS", "the path of the status to write, as `${STATUS}`"),
    GivenVariable(
        "AGENTFORGE_ARTIFACT", "if the stage has an artifact: the path to write it to, as `${ARTIFACT}`"
    ),
    GivenVariable("AGENTFORGE_PROMPT", "the path of the prompt"),
    GivenVariable("AGENT_PIPELINES_SESSION", "for hook scripts and notification commands: the session"),
    GivenVariable("AGENT_PIPELINES_STAGE", "for hook scripts: the stage; empty outside of stages"),
    GivenVariable("AGENT_PIPELINES_ITERATION", "for hook scripts: the iteration; 0 before the first"),
    GivenVariable("AGENT_PIPELINES_CONTEXT", "for hook scripts: the notes of people and hooks so far"),
    GivenVariable("AGENTFORGE_CHECK", "for checks: the name of the check"),
    GivenVariable("AGENTFORGE_REPORT", "for checks that read a JUnit report: where the command can write it"),
    GivenVariable("AGENTFORGE_HOOK", "for hook scripts: the id of the hook"),
    GivenVariable("AGENTFORGE_DELIVERY", "for hook scripts: the key of the call, the same for every try"),
    GivenVariable(
        "AGENTFORGE_EVENT",
        "for hook scripts: the hook point, such as `iteration_end`; for notification commands:"
        " `request`, `failed`, `completed` or `cancelled`",
    ),
    GivenVariable(
        "AGENTFORGE_HOOK_STATUS",
        "for hook scripts: `running`, `completed` or, at `stage_end` after a failure, `failed`",
    ),
    GivenVariable("AGENTFORGE_NOTIFICATION", "for notification commands: its key"),
    GivenVariable("AGENTFORGE_TEXT", "for notification commands: what happened, on one line"),
    GivenVariable("CLAUDE_PIPELINE_AGENT", "`1`: the program was started by AgentForge"),
    GivenVariable("CLAUDE_PIPELINE_SESSION", "for runs of a single stage: the session"),
    GivenVariable("CLAUDE_PIPELINE_TYPE", "for runs of a single stage: the stage"),
    GivenVariable(
        "AGENTFORGE_ATTEMPT", "marks the processes of the attempt, so that all of them can be ended"
    ),
)
"""Set by the engine for the programs that it starts."""
