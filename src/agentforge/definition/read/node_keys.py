"""The keys of nodes: stages, parallel blocks and nested pipelines, and their inputs."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.artifact_keys import FieldName, artifacts_elsewhere
from agentforge.definition.read.check_keys import CAPS, OF_STAGES, PER_ATTEMPT
from agentforge.definition.read.table import Entries, Key, Nested, Table
from agentforge.definition.read.values import (
    COUNT,
    MODEL,
    PROSE,
    SOME_TEXTS,
    TEXT,
    Given,
    ListOf,
    Name,
    Required,
    Schema,
    Text,
    as_data,
)
from agentforge.definition.read.work_keys import (
    DEFAULT_KEYS,
    OF_PIPELINE,
    OTHER_NAMES,
    UNSUPPORTED,
    WORK_KEYS,
    build_work,
    other_names,
    read_settings,
)
from agentforge.definition.report import Report
from agentforge.definition.specs import BlockSpec, BranchSpec, InputsSpec, NodeSpec, ParallelRef
from agentforge.definition.yaml_tree import Keyed, Listed, Scalar, Tree, kind_of
from agentforge.model.plan import Select
from agentforge.model.plan_limits import MAX_FIELDS

SELECTS: dict[str, Select] = {"latest": "latest", "history": "all", "all": "all"}
_SELECT = Key("select", Text(tuple(SELECTS)), "The latest output, or the output of every iteration.")

PARALLEL_SOURCE = Table(
    "from_parallel",
    (
        Key("stage", TEXT, "The id of a stage in an earlier block."),
        Key("block", TEXT, "The block's id, if several blocks have such a stage."),
        Key("providers", SOME_TEXTS, "Use only these providers of the block."),
        _SELECT,
    ),
    lambda entries: ParallelRef(entries.at, **entries.values) if "stage" in entries.values else None,
    name="parallelSource",
    prefix="from_parallel.",
    required=(
        Required(("stage",), "`from_parallel` has no `stage`", "add `stage: …`, an id in an earlier block"),
    ),
)


def _inputs(entries: Entries) -> InputsSpec:
    trees = {key.name: tree for key in INPUTS.keys if (tree := entries.tree(key.name))}
    select = entries.key("select")
    if select and "select" in trees and "from" not in trees:
        hint = "in `from_parallel`, write it beside `stage`"
        entries.report.warning("ignored-key", select.at, "`select` has no effect without `from`", hint)
    return InputsSpec(
        written={name: as_data(tree, f"`inputs.{name}`", entries.report) for name, tree in trees.items()},
        stages=entries.get("from", ()),
        select=entries.get("select"),
        parallel=entries.get("from_parallel", ()),
        parallel_list=isinstance(trees.get("from_parallel"), Listed),
        artifact=entries.get("artifact", ()),
    )


_NEEDED = Key(
    "artifact",
    ListOf(FieldName(), or_one=True, longest=MAX_FIELDS),
    "The fields of earlier artifacts that the stage needs.",
)
STAGE_INPUTS = Table(
    "inputs of the stage",
    (_NEEDED,),
    lambda entries: InputsSpec(artifact=entries.get("artifact", ())),
    prefix="inputs.",
    misplaced=dict.fromkeys(("from", "select", "from_parallel"), "put it on the node that runs the stage"),
)
INPUTS = Table(
    "inputs",
    (
        Key("from", SOME_TEXTS, "Earlier nodes, or earlier stages of the same branch."),
        _SELECT,
        Key(
            "from_parallel",
            ListOf(Nested(PARALLEL_SOURCE, short="stage"), or_one=True),
            "Stages of earlier parallel blocks.",
        ),
        _NEEDED,
        Key(
            "from_initial",
            Given(
                "the initial inputs of the run are always in the context",
                "give files with --input, or with `inputs` of the pipeline",
            ),
            "Always in the context; kept in the plan.",
        ),
        Key(
            "from_previous_iterations",
            Given("the outputs of earlier iterations are always in the context"),
            "Always in the context; kept in the plan.",
        ),
    ),
    _inputs,
    name="inputs",
    prefix="inputs.",
)


_ON_STAGES = "put it on the stages of the block"
_OF_STAGES = {**OF_STAGES, **dict.fromkeys(PER_ATTEMPT, "put it on a stage")}


def _branch(entries: Entries) -> BranchSpec:
    """`name` is the branch's name, `type` the provider; each defaults to the other."""
    name, kind, keyed = entries.get("name"), entries.get("type"), entries.keyed
    settings = read_settings(keyed, entries.report, but=BRANCH.keys)
    return BranchSpec(
        entries.at,
        name or kind,
        replace(settings, type=kind or name, model=entries.get("model")),
        written=name.value if name and not keyed.entries else as_data(keyed, "`providers`", entries.report),
        inputs=entries.get("inputs", InputsSpec()),
    )


BRANCH = Table(
    "provider of the block",
    (
        Key("name", TEXT, "The branch's name, unique in the block."),
        Key("type", TEXT, "The provider, if it differs from the name."),
        Key("model", MODEL, "The provider's model."),
        Key("inputs", Nested(INPUTS), "For all stages of this provider."),
    ),
    _branch,
    name="branch",
    required=(
        Required(("name", "type"), "a provider of the block has no `name`", "add `name: claude` or another"),
    ),
    misplaced={
        **artifacts_elsewhere(_ON_STAGES),
        **dict.fromkeys(
            ("limits", *PER_ATTEMPT), "put it on the block or its stages, for all branches together"
        ),
    },
    is_open=True,
)

_OF_A_STAGE = ("stage", "loop", "prompt", "executor", "deliver")
_ID_KEYS = (
    Key("id", TEXT, "A short name, unique in the pipeline.", field=None),
    Key("name", TEXT, "Alias of `id`.", field=None),
    Key("inputs", Nested(INPUTS), "Nodes whose outputs are added to the stage's context.", field=None),
)
_CHECKPOINT = Key(
    "checkpoint", Name(), "A checkpoint: a person approves before this node is entered, once per run."
)
_STAGE_KEYS = (
    *_ID_KEYS,
    Key("stage", TEXT, "The name of the stage: its folder.", field=None),
    Key("loop", TEXT, "Use `stage`.", deprecated=True, field=None),
    *WORK_KEYS,
)


def _stage_node(entries: Entries) -> NodeSpec:
    is_stage = not any(entries.key(other) for other in ("parallel", "pipeline"))
    return _node(entries, stage=entries.get("stage") or entries.get("loop"), is_stage=is_stage)


def _node(entries: Entries, **more: Any) -> NodeSpec:
    node_id, inputs = entries.get("id") or entries.get("name"), entries.get("inputs", InputsSpec())
    return NodeSpec(entries.at, node_id, work=build_work(entries), inputs=inputs, **more)


STAGE_NODE = Table(
    "node",
    (*_STAGE_KEYS, _CHECKPOINT),
    _stage_node,
    name="stageNode",
    required=(Required(_OF_A_STAGE),),
    unsupported=UNSUPPORTED,
    misplaced=OF_PIPELINE,
    foreign=OTHER_NAMES,
)
STAGE_OF_BLOCK = Table(
    "stage of the block",
    _STAGE_KEYS,
    _stage_node,
    name="stageOfBlock",
    required=(Required(_OF_A_STAGE),),
    unsupported=UNSUPPORTED,
    misplaced={"checkpoint": "put it on the block, beside `parallel`", **OF_PIPELINE},
    foreign=OTHER_NAMES,
)


class NodeKind(Struct, frozen=True):
    """A node in a list: a stage, or another kind depending on its keys."""

    stage: Table[NodeSpec]
    others: dict[str, Table[NodeSpec]] = {}

    def read(self, tree: Tree, _: str, report: Report) -> NodeSpec | None:
        if not isinstance(tree, Keyed):
            hint = f"write `- stage: {tree.text}`" if isinstance(tree, Scalar) and tree.text else ""
            message = f"a {self.stage.where} must be a mapping, got {kind_of(tree)}"
            report.error("bad-type", tree.at, message, hint)
            return None
        kinds = [entry.key for entry in tree.entries if entry.key.text in ("parallel", "pipeline")]
        if kinds and not self.others:
            for key in kinds:
                message = f"`{key.text}` is not allowed inside a parallel block"
                report.error("unsupported", key.at, message, hint="make it a separate node")
        if not kinds or not self.others:
            return self.stage.read(tree, report, skipped=("parallel", "pipeline"))
        kind = "parallel" if any(key.text == "parallel" for key in kinds) else "pipeline"
        others = [name for name in (*_OF_A_STAGE, "parallel", "pipeline") if name != kind]
        for entry in tree.entries:
            if entry.key.text in others:
                message = f"a node cannot have both `{kind}` and `{entry.key.text}`"
                report.error("conflict", entry.key.at, message, hint="split it into two nodes")
        return self.others[kind].read(tree, report, skipped=others)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        stage = self.stage.schema(definitions)
        if self.others:
            return {"oneOf": [stage, *(table.schema(definitions) for table in self.others.values())]}
        return {"allOf": [stage], "properties": {"parallel": False, "pipeline": False}}


# Supported only for stages so far. Ignoring them at a block or nested pipeline would silently drop a setting.
_FOR_STAGES = frozenset(
    (
        *("sandbox", "semantics", "timeout", "idle_timeout", "retry", "on_limit"),
        *("on_escalation", "escalation_timeout"),
    )
)
_UNSUPPORTED = UNSUPPORTED | _FOR_STAGES

_OTHER_NAMES_OF_BLOCK = other_names(
    "put `runs` on the stages of the block", "put `retry.max_attempts` on the stages of the block"
)

_PROVIDERS = Required(("providers",), "the parallel block has no `providers`", "name at least one")
_STAGES = Required(("stages",), "the parallel block has no `stages`", "add `- id: …` with `stage: …`")

BLOCK = Table(
    "parallel",
    (
        Key(
            "providers",
            ListOf(Nested(BRANCH, short="name"), required=_PROVIDERS),
            "Providers that run all stages in parallel.",
            field=None,
        ),
        Key(
            "stages",
            ListOf(NodeKind(STAGE_OF_BLOCK), required=_STAGES),
            "Stages that each provider runs, in order.",
            field=None,
        ),
        Key("failure_mode", TEXT, "Kept in the plan; ignored."),
    ),
    lambda found: BlockSpec(found.at, found.get("providers", ()), found.get("stages", ()), found.values),
    name="parallel",
    required=(_PROVIDERS, _STAGES),
    unsupported=UNSUPPORTED,
    misplaced={
        **dict.fromkeys(("approve", "checkpoint", "limits"), "put it beside `parallel`"),
        "executor": "put it on a stage outside of the block",
        **dict.fromkeys(_FOR_STAGES, _ON_STAGES),
        **artifacts_elsewhere(_ON_STAGES),
        **OF_PIPELINE,
        **_OF_STAGES,
    },
    foreign=_OTHER_NAMES_OF_BLOCK,
)

_SHAPE = "write `parallel: {providers: [claude, codex], stages: [{id: plan, prompt: …}]}`"
# The approval of a block is that of the last stage of each branch.
_APPROVE = replace(next(key for key in DEFAULT_KEYS if key.name == "approve"), field=None)
_CAPS = Key("limits", Nested(CAPS), "What all of its stages together may spend.")
_DESCRIPTION = Key("description", PROSE, "What the node is for.")
PARALLEL_NODE = Table(
    "parallel node",
    (
        *_ID_KEYS,
        _DESCRIPTION,
        _APPROVE,
        _CHECKPOINT,
        _CAPS,
        Key(
            "parallel",
            Nested(BLOCK, shape=_SHAPE),
            "Stages that several providers run in parallel.",
            field=None,
        ),
    ),
    lambda entries: _node(entries, block=entries.get("parallel"), is_stage=False),
    name="parallelNode",
    required=(
        Required(("parallel",), "`parallel` is empty", "add `providers: [claude, codex]` and `stages:`"),
    ),
    unsupported=_UNSUPPORTED,
    misplaced={
        "executor": "put it on a stage outside of the block",
        **OF_PIPELINE,
        **_OF_STAGES,
        **artifacts_elsewhere(_ON_STAGES),
    },
    foreign=_OTHER_NAMES_OF_BLOCK,
)
_ON_A_STAGE = "put it on a stage of that pipeline"
PIPELINE_NODE = Table(
    "pipeline node",
    (
        *_ID_KEYS,
        _DESCRIPTION,
        Key("runs", COUNT, "How often the pipeline runs."),
        _CHECKPOINT,
        _CAPS,
        Key("pipeline", TEXT, "The name or path of a pipeline.", field=None),
    ),
    lambda entries: _node(entries, pipeline=entries.get("pipeline"), is_stage=False),
    name="pipelineNode",
    required=(Required(("pipeline",), "`pipeline` is empty", "add its name or path"),),
    unsupported=_UNSUPPORTED,
    misplaced={
        **dict.fromkeys(("approve", "executor", *_OF_STAGES), _ON_A_STAGE),
        **artifacts_elsewhere(_ON_A_STAGE),
        **OF_PIPELINE,
    },
    foreign=other_names(
        "how often the pipeline runs is `runs`", "put `retry.max_attempts` on a stage of that pipeline"
    ),
)
NODE = NodeKind(STAGE_NODE, {"parallel": PARALLEL_NODE, "pipeline": PIPELINE_NODE})
