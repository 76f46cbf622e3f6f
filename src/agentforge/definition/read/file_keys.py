"""Second pass: trees to specs. The keys of a pipeline file and of a stage.yaml, how they are read, and their
JSON Schema (draft 7, which all editors support). The schema describes types; the compiler checks names,
references and combinations."""

from posixpath import basename, splitext
from typing import Any, get_args

from msgspec.structs import replace

from agentforge.definition.read.check_keys import LIMITS, OF_STAGES
from agentforge.definition.read.hook_keys import HOOKS_KEY, NOTIFY_KEY
from agentforge.definition.read.node_keys import NODE, STAGE_INPUTS
from agentforge.definition.read.settings_keys import SETTINGS
from agentforge.definition.read.table import Key, Nested, Table, plain, unique
from agentforge.definition.read.template_keys import TEMPLATE, is_template, read_template
from agentforge.definition.read.values import (
    FLAG,
    PROSE,
    SOME_TEXTS,
    TEXT,
    Anything,
    ListOf,
    Required,
    Schema,
    Text,
    Texts,
    refuse_control_characters,
)
from agentforge.definition.read.work_keys import (
    DEFAULT_KEYS,
    GUARDRAILS,
    NOT_FOR_STAGES,
    OF_PIPELINE,
    OTHER_NAMES,
    OTHER_NAMES_ABOVE,
    UNSUPPORTED,
    WORK_KEYS,
    build_work,
    combined_runtime,
)
from agentforge.definition.report import Report, SourceText
from agentforge.definition.specs import InputsSpec, PipelineSpec, StageSpec, WorkSpec
from agentforge.definition.yaml_tree import Keyed
from agentforge.model.plan import NetworkRule, RequestRule
from agentforge.model.plan_limits import VIEWS

UNNAMED = "pipeline"

_EMPTY = "empty pipeline: it has no nodes"
_REQUIRED = Required(("nodes", "stages"), _EMPTY, "add `- id: …` with `stage: …`", "empty-pipeline")
_NODES = ListOf(NODE, required=_REQUIRED)


# A pipeline file is two tables in one: keys about the pipeline itself, and the defaults for its stages, which
# may also be written below `defaults`. They are told apart by their rows (`Entries.of`). A key that means
# something only elsewhere is refused with the place where it belongs.

_OF_NODE = {"checkpoint": "put it on a node", "executor": "put it on a stage"}

DEFAULTS = Table(
    "defaults",
    DEFAULT_KEYS,
    build_work,
    unsupported=UNSUPPORTED,
    misplaced={**_OF_NODE, **OF_STAGES, "limits": "put it at the top", **OF_PIPELINE},
    foreign=OTHER_NAMES_ABOVE,
)

PIPELINE_KEYS = (
    Key("name", TEXT, "The pipeline's name; defaults to the file name.", field=None),
    Key("version", Anything(), "Ignored; templates have one.", shown="Version: {}"),
    Key("description", PROSE, "What the pipeline is for; `agentforge pipelines` shows it."),
    Key("inputs", SOME_TEXTS, "Input files of the run: paths, globs and folders."),
    Key(
        "request",
        Text((*get_args(RequestRule), "none")),
        "Whether a run is started with a user request, which prompts have as `${REQUEST}`.",
        lower=lambda rule: None if plain(rule) == "none" else plain(rule),
        shown="User request: {}",
    ),
    Key(
        "require",
        SOME_TEXTS,
        "The ids of nodes that must be visited before the pipeline ends: no route may skip them.",
        lower=unique,
        shown="Required nodes: {}",
    ),
    Key(
        "settings",
        Text(("orchestration",)),
        "Whether the settings below `orchestration` override what the stages say.",
        field=None,
    ),
    Key(
        "network",
        Text(("any", *get_args(NetworkRule))),
        "`local`: refuse providers and addresses that are not on this machine.",
        lower=lambda rule: None if plain(rule) == "any" else plain(rule),
        shown="Network: {}",
    ),
    Key("commands", Texts(), "The project's commands, added to the agents' context."),
    Key("tmux", FLAG, "Whether the plan lists tmux as a dependency.", field=None),
    Key(
        "guardrails",
        Nested(GUARDRAILS),
        "Limits of the whole run.",
        shown="Runtime limit: {0.max_runtime_seconds}",
    ),
    Key("limits", Nested(LIMITS), "Limits of the whole run, and of stages that have none of their own."),
    Key(
        "views",
        ListOf(Text(VIEWS), or_one=True),
        "Additional files that are kept up to date.",
        lower=unique,
        shown="Views: {}",
    ),
    HOOKS_KEY,
    NOTIFY_KEY,
    Key("defaults", Nested(DEFAULTS), "Defaults for all nodes; stage.yaml overrides them.", field=None),
    Key("nodes", _NODES, "The nodes to run, in order.", field=None),
    Key("stages", _NODES, "Use `nodes`.", deprecated=True, field=None),
)
"""Those that are about the pipeline itself."""

PIPELINE = Table(
    "pipeline",
    (*PIPELINE_KEYS, *DEFAULT_KEYS),
    lambda entries: entries,
    required=(_REQUIRED,),
    unsupported=UNSUPPORTED - {"network"},
    misplaced={**_OF_NODE, **OF_STAGES},
    foreign=OTHER_NAMES_ABOVE,
)

STAGE = Table(
    "stage",
    (
        Key("name", TEXT, "The stage's name; defaults to the folder name."),
        Key("version", Anything(), "Ignored.", field=None),
        Key("progress", Anything(), "Ignored.", field=None),
        NOTIFY_KEY,
        Key("inputs", Nested(STAGE_INPUTS), "What the stage needs, wherever it is used."),
        *WORK_KEYS,
    ),
    lambda entries: entries,
    unsupported=UNSUPPORTED,
    misplaced=NOT_FOR_STAGES,
    foreign=OTHER_NAMES,
)


def read_pipeline(source: SourceText, tree: Keyed, report: Report) -> PipelineSpec:
    if is_template(tree):
        return read_template(source, tree, report)
    entries = PIPELINE.read(tree, report)
    refuse_control_characters(source.file, "the path of the file", source.start, report)
    get, old = entries.get, entries.key("stages")
    if old and entries.key("nodes"):
        report.error("conflict", old.at, "the pipeline has both `nodes` and `stages`", "keep `nodes`")
    elif old:
        report.warning("deprecated-key", old.at, "`stages` is deprecated", "rename it to `nodes`")
    name, inline = get("name"), source.file.startswith("<")
    return PipelineSpec(
        source=source,
        name=name.value if name else UNNAMED if inline else splitext(basename(source.file))[0],
        nodes=get("nodes") or get("stages") or (),
        levels=(get("defaults", WorkSpec()), build_work(entries.of(DEFAULT_KEYS))),
        values={**entries.of(PIPELINE_KEYS).values, "guardrails": combined_runtime(entries)},
        hooks=get("hooks", ()),
    )


def read_stage(source: SourceText, tree: Keyed, report: Report) -> StageSpec:
    entries = STAGE.read(tree, report)
    refuse_control_characters(source.file, "the path of the file", source.start, report)
    work = build_work(entries.of(WORK_KEYS))
    work = replace(work, prompt=work.prompt or work.prompt_file, prompt_file=None)
    needs = entries.get("inputs", InputsSpec()).artifact
    return StageSpec(source, work, entries.get("name"), entries.get("notify", ()), needs)


DIALECT = "http://json-schema.org/draft-07/schema#"


def pipeline_schema() -> Schema:
    return _schema("AgentForge pipeline", PIPELINE)


def template_schema() -> Schema:
    return _schema("AgentForge template", TEMPLATE)


def stage_schema() -> Schema:
    """Schema of a stage.yaml; every key is optional."""
    return _schema("AgentForge stage", STAGE)


def settings_schema() -> Schema:
    return _schema("AgentForge settings", SETTINGS)


def _schema(title: str, table: Table[Any]) -> Schema:
    definitions: dict[str, Schema] = {}
    schema = table.inline_schema(definitions)
    return {"$schema": DIALECT, "title": title, **schema, "definitions": definitions}
