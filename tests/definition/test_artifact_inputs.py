"""What stages take of earlier artifacts: fields, the lists of their items, and the variables of prompts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agentforge.definition.compiler import compile_stage
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import ArtifactSource, InputSources, Items, ParallelNode, StageNode

from .world import TextWorld, found, only_node, plan, stage, where

HEAD = "nodes:\n  - id: n\n    stage: s\n"


def schema_of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


LIST, TEXT = {"type": "array"}, {"type": "string"}
CLOSED = {**schema_of(steps=LIST, goal=TEXT), "additionalProperties": False}


def pipeline(*nodes: Mapping[str, Any], **keys: Any) -> str:
    """A line for each node, the first one on line 2. Those that are stages of their own get a prompt."""
    lines = [
        json.dumps(one if {"stage", "pipeline", "parallel"} & one.keys() else {"prompt": "do it", **one})
        for one in nodes
    ]
    return "\n".join(['{"nodes": [', ",\n".join(lines), f"], {json.dumps(keys)[1:]}"])


PLANNER = {"id": "plan", "artifact": CLOSED}
OVER = {"id": "do", "termination": {"type": "items", "from": "plan.steps"}}


def needing(*fields: str, id: str = "n", **keys: Any) -> dict[str, Any]:
    return {"id": id, "inputs": {"artifact": list(fields)}, **keys}


@pytest.mark.parametrize(
    ("nodes", "unknown"),
    [
        ([PLANNER, needing("goal", "steps", "request_id", "original_request")], []),
        ([PLANNER, needing("gaol")], ["gaol"]),
        # Without an artifact before, it is of the one that the run is started with; later stages may need it.
        ([needing("spec")], []),
        ([needing("spec", id="a", artifact=CLOSED), needing("spec", "goal", "tests")], ["tests"]),
        (
            [
                {**OVER, "termination": {"type": "items", "from": "initial.todo"}},
                PLANNER,
                needing("todo", "x"),
            ],
            ["x"],
        ),
        # One that says nothing of its fields may have any.
        ([{"id": "a", "artifact": {"type": "object"}}, needing("any")], []),
        (
            [{"id": "a", "artifact": {"type": "object", "additionalProperties": False}}, needing("any")],
            ["any"],
        ),
        ([PLANNER, {"id": "a", "artifact": "t.json"}, needing("any")], []),
        # Alternatives and references.
        (
            [
                {
                    "id": "a",
                    "artifact": {
                        "anyOf": [schema_of(a=TEXT), {"$ref": "#/$defs/b"}],
                        "if": schema_of(c=TEXT),
                        "$defs": {"b": {"allOf": [schema_of(b=TEXT)]}},
                    },
                },
                needing("a", "b", "c", "d"),
            ],
            ["d"],
        ),
        (
            [
                {"id": "a", "artifact": {"$ref": "#", "not": schema_of(a=TEXT), **schema_of(b=TEXT)}},
                needing("a", "b"),
            ],
            ["a"],
        ),
        # A stage over items contributes its id.
        ([PLANNER, {**OVER, "artifact": schema_of(files=LIST)}, needing("do", "files")], ["files"]),
        ([PLANNER, OVER, needing("do")], ["do"]),
        (
            [
                {"id": "a", "artifact": {"schema": schema_of(a=TEXT), "fill": {"goal": "request"}}},
                needing("goal"),
            ],
            [],
        ),
    ],
    ids=range(13),
)
def test_fields_that_a_stage_can_need(nodes: list[dict[str, Any]], unknown: list[str]) -> None:
    diagnostics = [one for one in found(pipeline(*nodes, request="required")) if one.code != "missing-schema"]
    messages = [f"no earlier artifact has the field `{field}`" for field in unknown]
    assert [one.message for one in diagnostics] == messages


def test_a_node_without_an_id_leaves_an_artifact() -> None:
    assert [one.code for one in found(pipeline({"artifact": CLOSED}, needing("goal")))] == ["missing-key"]


def test_needed_fields_are_in_the_plan() -> None:
    inner = pipeline(needing("steps", id="x"), needing("goal", id="y"))
    text = pipeline(
        PLANNER,
        needing("goal", "goal"),
        {"id": "i", "pipeline": "inner.yaml", "inputs": {"artifact": "goal"}},
    )
    sources = [one.sources for one in plan(text, {"inner.yaml": inner}).stages]
    needed = [None, ("goal",), ("goal", "steps"), ("goal",)]
    assert sources == [InputSources(artifact=fields) if fields else None for fields in needed]
    (unknown,) = found(
        text.replace('"inputs": {"artifact": "goal"}', '"inputs": {"artifact": "gaol"}'),
        {"inner.yaml": inner},
    )
    assert (unknown.place.file, unknown.hint) == (
        "p.yaml",
        "did you mean `goal`? fields: goal, original_request, request_id, steps",
    )


def block(*stages: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    inside = [{"prompt": "do it", **one} for one in stages]
    return {
        "id": "b",
        "parallel": {
            "providers": ["claude", {"name": "codex", "inputs": {"artifact": "goal"}}],
            "stages": inside,
        },
        **keys,
    }


def test_branches_have_their_own_artifacts() -> None:
    own = {"id": "own", "artifact": {"schema": schema_of(notes=LIST)}}
    text = pipeline(PLANNER, block(own, needing("notes", "steps")), needing("notes"))
    (unknown,) = found(text)
    assert (where(unknown)[:15], unknown.message) == (
        "unknown-field 4",
        "no earlier artifact has the field `notes`",
    )
    over = {"id": "over", "termination": {"type": "items", "from": "own.notes"}}
    outer = {"id": "outer", "termination": {"type": "items", "from": "plan.steps"}}
    text = pipeline(PLANNER, block(own, over, outer, inputs={"artifact": ["steps"]}))
    node = plan(text).nodes[1]
    assert isinstance(node, ParallelNode)
    claude, codex = ([one.sources for one in branch.stages] for branch in node.branches)
    assert claude == [
        InputSources(artifact=("steps",)),
        InputSources(artifact=("steps",), items=ArtifactSource("1.0", "claude")),
        InputSources(artifact=("steps",), items=ArtifactSource("0")),
    ]
    assert [one and one.artifact for one in codex] == [("goal",)] * 3
    assert [one and one.items and one.items.provider for one in codex] == [None, "codex", None]


# -- items


@pytest.mark.parametrize(
    ("source", "path"),
    [("plan.steps", "0"), ("v1.2.steps", "1"), ("inner.steps", "2.1"), ("initial.todo", "")],
)
def test_whose_artifact_has_the_items(source: str, path: str) -> None:
    inner = pipeline({"id": "x"}, PLANNER)
    dotted = {"id": "v1.2", "artifact": schema_of(steps={"type": ["array", "null"]})}
    over = {"id": "do", "termination": {"type": "items", "from": source, "iterations": 20}}
    text = pipeline(PLANNER, dotted, {"id": "inner", "pipeline": "inner.yaml"}, over)
    assert found(text, {"inner.yaml": inner}) == []
    last = plan(text, {"inner.yaml": inner}).nodes[-1]
    assert isinstance(last, StageNode)
    assert last.sources == InputSources(items=ArtifactSource(path))
    assert last.termination == Items(20, source)
    assert last.termination.field == source.rpartition(".")[2]


def test_a_stage_has_at_most_1000_items_by_default_and_never_more_than_10000() -> None:
    assert plan(pipeline(PLANNER, OVER)).stages[1].termination.max == 1000
    over = {**OVER, "termination": {"type": "items", "from": "plan.steps", "max": 10_001}}
    (diagnostic,) = found(pipeline(PLANNER, over))
    assert diagnostic.message == "a stage is over at most 10,000 items, got 10,001"


BEFORE = [
    {
        "id": "plan",
        "artifact": {"schema": {**CLOSED, "$defs": {"n": {"type": "integer"}}}, "fill": {"goal": "request"}},
    },
    {"id": "open", "artifact": schema_of(steps=LIST, n={"allOf": [{"type": "integer"}]}, any={})},
    {"id": "none"},
    {"id": "over", "artifact": schema_of(a=LIST), "termination": {"type": "items", "from": "plan.steps"}},
    {"id": "bad", "artifact": "t.json"},
    {"id": "lost", "stage": "missing"},
    block({"id": "own", "artifact": schema_of(a=LIST)}),
    {"id": "gone", "pipeline": "missing.yaml"},
]
LISTS = "is not a list; lists:"
FORM = "bad-value `termination.from` must be NODE.FIELD, got"
LATER = "does not run before this stage; take the items from an earlier stage"
EXPECTED = {
    "open.any": "",
    "open.more": "",
    "bad.x": "",
    "lost.x": "",
    "gone.x": "",
    "open.stpes": "unknown-field the schema of `open` doesn't name the field `stpes`; "
    "did you mean `steps`? lists: any, steps",
    "plan.stps": "unknown-field the artifact of `plan` has no field `stps`; "
    "did you mean `steps`? lists: steps",
    "plan.goal": f"not-a-list `goal` of `plan` {LISTS} steps",
    "open.n": f"not-a-list `n` of `open` {LISTS} any, steps",
    "plan": f"{FORM} `plan`; for example `plan.steps`",
    "none": f"{FORM} `none`; for example `plan.steps`",
    "plan.a b": f"{FORM} `plan.a b`; for example `plan.steps`",
    "none.x": "no-artifact `none` leaves no artifact; "
    "add `artifact: …` to `none`, with a schema that has the list",
    "over.a": "wrong-kind `over` is itself over items: it leaves an artifact for each of them; "
    "take the items from another stage",
    "b.a": "wrong-kind `b` is a parallel block, whose branches have artifacts of their own; "
    "take the items from a stage that merges the artifacts, or in the block itself",
    "plam.x": "unknown-node no earlier node has the id `plam`; "
    "did you mean `plan`? nodes: bad, initial, open, over, plan",
    "own.a": "unknown-node no earlier node has the id `own`; nodes: bad, initial, open, over, plan",
    "do.x": f"later-node `do` {LATER}",
    "later.x": f"later-node `later` {LATER}",
}


@pytest.mark.parametrize("source", EXPECTED)
def test_what_items_cannot_be_taken_from(source: str) -> None:
    text = pipeline(
        *BEFORE,
        {"id": "do", "termination": {"type": "items", "from": source}},
        {"id": "later"},
        request="required",
    )
    elsewhere = {"missing-schema", "unknown-stage", "unknown-pipeline"}
    diagnostics = [one for one in found(text) if one.code not in elsewhere]
    at = text.splitlines()[9].index(json.dumps(source)) + 1
    assert [f"{where(one)} {one.message}; {one.hint}" for one in diagnostics] == [
        EXPECTED[source].replace(" ", f" 10:{at} ", 1)
    ] * bool(EXPECTED[source])


@pytest.mark.parametrize(
    ("termination", "expected"),
    [
        ({"type": "items"}, "missing-key a stage over items has no `from`"),
        ({"from": "plan.steps"}, "missing-key `termination.from` has no effect without a type"),
        ({"type": "fixed", "from": "plan.steps"}, ""),
        (
            {"type": "items", "from": "initial.x"},
            "conflict `initial` is a node, and also the artifact that a run is",
        ),
    ],
)
def test_other_mistakes_about_items(termination: dict[str, str], expected: str) -> None:
    text = pipeline({**PLANNER, "id": "initial"}, PLANNER, {"id": "do", "termination": termination})
    diagnostics = found(text)
    assert len(diagnostics) == bool(expected)
    assert all(f"{one.code} {one.message}".startswith(expected) for one in diagnostics)


def test_a_stage_alone_takes_its_items_from_the_artifact_of_the_run() -> None:
    world = TextWorld(stage("s", "termination: {type: items, from: initial.todo}\n"))
    assert compile_stage(world, "s").plan.only_stage.sources == InputSources(items=ArtifactSource(""))
    with pytest.raises(DefinitionError, match="no earlier node has the id `plan`"):
        compile_stage(TextWorld(stage("s", "termination: {type: items, from: plan.steps}\n")), "s")


# -- keys without effect


ALL_VARIABLES = "${ARTIFACT} ${SCHEMA} ${INPUT_ARTIFACT} ${ITEM} ${BRIEFING}"


def empty_in(*nodes: Mapping[str, Any]) -> list[str]:
    """The empty variables of the last one."""
    text = pipeline(*nodes[:-1], {**nodes[-1], "prompt": ALL_VARIABLES})
    diagnostics = found(text)
    assert {one.code for one in diagnostics} <= {"empty-variable"}
    return [one.message.split("`")[1] for one in diagnostics]


def test_a_variable_that_stays_empty_is_a_warning() -> None:
    named = [f"${{{name}}}" for name in ("ARTIFACT", "BRIEFING", "INPUT_ARTIFACT", "ITEM", "SCHEMA")]
    assert empty_in({"id": "n"}) == named
    assert empty_in(PLANNER, {"id": "n"}) == [named[0], named[1], named[3], named[4]]
    assert empty_in(needing("x")) == [named[0], named[1], named[3], named[4]]
    assert empty_in(PLANNER) == [named[1], named[3]]
    assert empty_in(PLANNER, OVER) == [named[0], named[1], named[4]]
    assert empty_in({"id": "n", "context_strategy": "full"}) == [named[0], *named[2:]]
    # A node may add what a stage alone lacks.
    files = {".claude/stages/s/prompt.md": ALL_VARIABLES}
    assert compile_stage(TextWorld(files), "s").warnings == ()


def test_a_prompt_that_does_not_ask_for_the_artifact() -> None:
    for prompt, number in (("hi", 1), ("${ARTIFACT}", 0), ("${SCHEMA}", 0)):
        text = pipeline({**PLANNER, "result_instructions": "off", "prompt": prompt})
        assert [one.code for one in found(text)] == ["artifact-not-named"] * number
    assert found(pipeline({**PLANNER, "result_instructions": "on"})) == []


def test_a_field_is_filled_only_in_a_pipeline_that_takes_a_request() -> None:
    filled = {"id": "n", "artifact": {"schema": CLOSED, "fill": {"goal": "request"}}}
    inner = pipeline(filled, request="required")
    outer = '{"nodes": [{"id": "i", "pipeline": "inner.yaml"}]}'
    for text, number in ((pipeline(filled), 1), (pipeline(filled, request="none"), 1), (inner, 0)):
        assert [one.code for one in found(text)] == ["no-effect"] * number
    messages = [one.message for one in found(outer, {"inner.yaml": inner})]
    assert "`goal` is filled with the user request, and the pipeline takes none" in messages
    assert (
        compile_stage(TextWorld(stage("s", f"artifact: {json.dumps(filled['artifact'])}\n")), "s").warnings
        == ()
    )


@pytest.mark.parametrize(
    ("written", "budget"),
    [
        ("1000", (1000, 10, 100, 900)),
        ("{total: 1000, reserve: 0, share: 12.5%}", (1000, 0, 12.5, 125)),
        ("{total: '1000', reserve: '20', share: 50}", (1000, 20, 50, 400)),
    ],
)
def test_a_budget(written: str, budget: tuple[float, ...]) -> None:
    tokens = only_node(f"{HEAD}    tokens: {written}\n").tokens
    assert tokens is not None
    assert (tokens.total, tokens.reserve, tokens.share, tokens.limit) == budget


def test_a_share_of_no_total_is_a_warning_unless_a_stage_uses_it() -> None:
    parts = "tokens: {reserve: 5%, share: 30%}\n"
    assert [where(one) for one in found(f"{parts}{HEAD}")] == ["no-effect 1:19", "no-effect 1:30"]
    block = "{id: b, parallel: {providers: [claude], stages: [{id: n, prompt: x, tokens: 9}]}}"
    assert found(f"{parts}nodes: [{{id: a, prompt: x}}, {block}]\n") == []
