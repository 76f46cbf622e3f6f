"""The YAML of pipelines and stages as JSON Schema (draft 2020-12), for editors that complete and check.

It describes shapes; names, references and combinations are the compiler's. Tests keep its keys and the
reader's the same.
"""

from typing import Any, get_args

from agentforge.definition.check import MAX_ATTEMPTS, MAX_MULTIPLIER, MAX_RUNS, MAX_SECONDS
from agentforge.definition.termination import KINDS
from agentforge.model.plan import SANDBOXES, OnLimit, Semantics

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ANY: Schema = {}
_TEXT: Schema = {"type": ["string", "number", "boolean"]}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_RUNS}
_SECONDS: Schema = {"type": "number", "minimum": 0, "maximum": MAX_SECONDS}
_LIMIT: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}
_OWN_SETTINGS: Schema = {"type": "object"}
_SELECT: Schema = {"enum": ["latest", "history", "all"]}


def pipeline_schema() -> Schema:
    return {
        "$schema": DIALECT,
        "title": "Pipeline",
        **_mapping(
            {
                "name": _TEXT,
                "version": _ANY,
                "description": _TEXT,
                "inputs": _some(_TEXT, "Files, globs and folders that the run begins with."),
                "commands": _texts("The project's commands, for the agents' context."),
                "tmux": _FLAG,
                "guardrails": _ref("guardrails"),
                "defaults": _mapping(_DEFAULTS, about="For all nodes, weaker than stage.yaml."),
                "nodes": _list(_ref("node"), "What runs, in this order."),
                "stages": {**_list(_ref("node")), "deprecated": True, "description": "Now `nodes`."},
                **_DEFAULTS,
            }
        ),
        "anyOf": [{"required": ["nodes"]}, {"required": ["stages"]}],
        "$defs": _definitions(),
    }


def stage_schema() -> Schema:
    """Of a stage.yaml; every key has a default, as the prompt may be all there is."""
    keys = {"name": _TEXT, "version": _ANY, "progress": _ANY, **_WORK}
    return {"$schema": DIALECT, "title": "Stage", **_mapping(keys), "$defs": _definitions()}


def _definitions() -> dict[str, Schema]:
    return {
        "node": {"oneOf": [_ref("stageNode"), _ref("parallelNode"), _ref("pipelineNode")]},
        "stageNode": {
            **_mapping({**_ID, "stage": _TEXT, "loop": _former("stage"), "inputs": _ref("inputs"), **_WORK}),
            "anyOf": [{"required": [key]} for key in ("stage", "loop", "prompt")],
        },
        "parallelNode": _mapping(
            {**_ID, "description": _TEXT, "inputs": _ref("inputs"), "parallel": _ref("parallel")},
            required=["parallel"],
        ),
        "pipelineNode": _mapping(
            {**_ID, "description": _TEXT, "inputs": _ref("inputs"), "pipeline": _TEXT, "runs": _COUNT},
            required=["pipeline"],
        ),
        "parallel": _mapping(
            {
                "providers": _list(_ref("branch"), "Each runs all stages, at the same time as the others."),
                "stages": _list(_ref("stageNode"), "In this order within each provider."),
                "failure_mode": _TEXT,
            },
            required=["providers", "stages"],
        ),
        "branch": {"anyOf": [_TEXT, _BRANCH]},
        "inputs": _mapping(_INPUTS, about="Whose outputs the stage finds in its context."),
        "parallelSource": {"anyOf": [_TEXT, _mapping(_PARALLEL_SOURCE, required=["stage"])]},
        "provider": {"anyOf": [_TEXT, _PROVIDER, _list({"anyOf": [_TEXT, _PROVIDER]}, _CHAIN)]},
        "termination": _mapping(_TERMINATION),
        "retry": _mapping(_RETRY),
        "onLimit": {"anyOf": [_LIMIT_TURN, _mapping(_ON_LIMIT)]},
        "sandbox": {"anyOf": [_SANDBOX_TYPE, _mapping(_SANDBOX, required=["type"])]},
        "guardrails": _mapping({"max_runtime_seconds": _LIMIT}),
    }


def _mapping(keys: dict[str, Schema], required: list[str] | None = None, about: str = "") -> Schema:
    schema: Schema = {"type": "object", "properties": keys, "additionalProperties": False}
    if required:
        schema["required"] = required
    return {**schema, "description": about} if about else schema


def _list(items: Schema, about: str = "") -> Schema:
    schema: Schema = {"type": "array", "items": items, "minItems": 1}
    return {**schema, "description": about} if about else schema


def _some(item: Schema, about: str = "") -> Schema:
    schema: Schema = {"anyOf": [item, {"type": "array", "items": item}]}
    return {**schema, "description": about} if about else schema


def _texts(about: str) -> Schema:
    return {"type": "object", "additionalProperties": _TEXT, "description": about}


def _former(current: str) -> Schema:
    return {**_TEXT, "deprecated": True, "description": f"Now `{current}`."}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


_ID: dict[str, Schema] = {"id": _TEXT, "name": _TEXT}

_DEFAULTS: dict[str, Schema] = {
    "provider": _ref("provider"),
    "provider_config": _OWN_SETTINGS,
    "model": _TEXT,
    "delay": {**_SECONDS, "description": "Seconds between iterations."},
    "timeout": {**_LIMIT, "description": "Seconds for one attempt."},
    "idle_timeout": {**_LIMIT, "description": "Seconds without any output."},
    "retry": _ref("retry"),
    "on_limit": {**_ref("onLimit"), "description": "What to do at a quota or a rate limit."},
    "semantics": {
        "enum": list(get_args(Semantics)),
        "description": "`at_most_once`: a person says whether work that came to nothing is done again.",
    },
    "sandbox": _ref("sandbox"),
}

_WORK: dict[str, Schema] = {
    **_DEFAULTS,
    "description": _TEXT,
    "prompt": _TEXT,
    "context": _TEXT,
    "output_path": _TEXT,
    "commands": _texts("Over those of the pipeline, key by key."),
    "runs": {
        "anyOf": [_COUNT, _ref("termination")],
        "description": "How many iterations; a mapping is a termination.",
    },
    "termination": _ref("termination"),
    "check_before": {**_FLAG, "description": "`queue`: look at it before the first iteration, too."},
    "completion": {
        "enum": ["plateau", "beads-empty", "fixed-n"],
        "deprecated": True,
        "description": "Now `termination`.",
    },
    "min_iterations": {"type": "integer", "minimum": 0, "deprecated": True},
    "consensus": {**_COUNT, "deprecated": True},
    "guardrails": _ref("guardrails"),
}

_TERMINATION: dict[str, Schema] = {
    "type": {"enum": list(KINDS)},
    "max": _COUNT,
    "iterations": _COUNT,
    "min_iterations": {"type": "integer", "minimum": 0, "description": "`judgment`: not judged before."},
    "consensus": {**_COUNT, "description": "`judgment`: so many stops in a row."},
    "check_before": _FLAG,
    "command": _TEXT,
}

_RETRY: dict[str, Schema] = {
    "max_attempts": {"type": "integer", "minimum": 1, "maximum": MAX_ATTEMPTS},
    "initial_delay": _SECONDS,
    "multiplier": {"type": "number", "minimum": 1, "maximum": MAX_MULTIPLIER},
    "max_delay": _SECONDS,
}

_CHAIN = "The next takes over when one can't work."
_LIMIT_TURN: Schema = {"enum": list(get_args(OnLimit))}
_ON_LIMIT: dict[str, Schema] = {
    "do": _LIMIT_TURN,
    "initial_delay": {
        **_SECONDS,
        "description": "Where the provider doesn't say until when; doubled each time.",
    },
    "max_delay": _SECONDS,
    "max_wait": {**_SECONDS, "description": "A longer wait asks a person instead."},
}

_SANDBOX_TYPE: Schema = {"enum": list(SANDBOXES)}
_SANDBOX: dict[str, Schema] = {
    "type": _SANDBOX_TYPE,
    "network": {"enum": ["on", "off", True, False]},
    "image": {**_TEXT, "description": "Of `docker`."},
    "writable": _some(_TEXT, "Further paths that agents may write to."),
    "hidden": _some(_TEXT, "Further paths that agents don't see."),
}

_INPUTS: dict[str, Schema] = {
    "from": _some(_TEXT, "Earlier nodes, or earlier stages of the same branch."),
    "select": _SELECT,
    "from_parallel": _some(_ref("parallelSource"), "Stages of earlier parallel blocks."),
    "from_initial": _ANY,
    "from_previous_iterations": _ANY,
}

_PARALLEL_SOURCE: dict[str, Schema] = {
    "stage": _TEXT,
    "block": _TEXT,
    "providers": _some(_TEXT),
    "select": _SELECT,
}

# What a provider takes besides is its own affair.
_PROVIDER: Schema = {
    "type": "object",
    "properties": {"type": _TEXT, "name": _TEXT, "model": _TEXT},
    "anyOf": [{"required": ["type"]}, {"required": ["name"]}],
}
_BRANCH: Schema = {**_PROVIDER, "properties": {**_PROVIDER["properties"], "inputs": _ref("inputs")}}
