"""Artifacts between stages: which fields and items of earlier stages a stage can take."""

import pytest

from agentforge.model.plan import ArtifactSource, InputSources, Items, ParallelNode, StageNode
from agentforge.model.plan_limits import MAX_FIELDS, plan_problem

from .world import found, plan, where

CLOSED = "{properties: {steps: {type: array}, goal: {type: string}, any: {}}, additionalProperties: false}"
OPEN = "{properties: {steps: {type: array}, goal: {type: string}}}"


def after(first: str, last: str, between: str = "") -> str:
    """A pipeline whose last node is on the file's last line."""
    return f"request: optional\nnodes:\n  - {first}\n{between}  - {last}\n"


def planner(schema: str = CLOSED, more: str = "") -> str:
    return f"{{id: plan, prompt: x, artifact: {{schema: {schema}{more}}}}}"


def over(source: str) -> str:
    """The source is at column 61."""
    return f"{{id: build, prompt: x, termination: {{type: items, from: {source}}}}}"


def needing(*fields: str) -> str:
    """The first field is at column 48."""
    return f"{{id: build, prompt: x, inputs: {{artifact: [{', '.join(fields)}]}}}}"


def last_of(text: str) -> StageNode:
    node = plan(text).nodes[-1]
    assert isinstance(node, StageNode)
    return node


def sources_of(text: str) -> InputSources:
    sources = last_of(text).sources
    assert sources is not None
    return sources


# -- items


@pytest.mark.parametrize(
    ("first", "source", "expected"),
    [
        (planner(), "plan.steps", ArtifactSource("0")),
        (planner(), "plan.any", ArtifactSource("0")),
        (planner("{}"), "plan.whatever", ArtifactSource("0")),
        (planner("{$ref: '#/$defs/p', $defs: {p: {properties: {s: {}}}}}"), "plan.s", ArtifactSource("0")),
        ("{id: other, prompt: x}", "initial.steps", ArtifactSource("")),
    ],
)
def test_items_come_from_a_list_of_an_earlier_artifact(
    first: str, source: str, expected: ArtifactSource
) -> None:
    node = last_of(after(first, over(source)))
    assert node.termination == Items(1000, source)
    assert node.sources == InputSources(items=expected)


@pytest.mark.parametrize(
    ("first", "source", "expected", "message", "hint"),
    [
        (planner(), "steps", "bad-value", "must be NODE.FIELD, got `steps`", "for example `plan.steps`"),
        (planner(), "plan", "bad-value", "must be NODE.FIELD, got `plan`", "for example `plan.steps`"),
        (planner("{}"), "plan", "bad-value", "must be NODE.FIELD", "for example `plan.steps`"),
        (planner(), "plan.", "bad-value", "must be NODE.FIELD", "for example `plan.steps`"),
        (planner(), ".steps", "bad-value", "must be NODE.FIELD", "for example `plan.steps`"),
        (planner(), "plna.steps", "unknown-node", "`plna`", "did you mean `plan`? nodes: initial, plan"),
        (planner(), "build.steps", "later-node", "`build` does not run before this stage", "earlier stage"),
        (planner(), "plan.goal", "not-a-list", "`goal` of `plan` is not a list", "lists: any, steps"),
        (planner(more=", fill: {any: request}"), "plan.any", "not-a-list", "`any` of `plan`", ""),
        (planner(), "plan.stpes", "unknown-field", "no field `stpes`", "did you mean `steps`?"),
        (planner(OPEN), "plan.stpes", "unknown-field", "doesn't name the field", "did you mean `steps`?"),
        ("{id: plan, prompt: x}", "plan.steps", "no-artifact", "leaves no artifact", "add `artifact: …`"),
        (
            "{id: initial, prompt: x}",
            "initial.steps",
            "conflict",
            "also the artifact that a run",
            "another id",
        ),
    ],
)
def test_what_items_can_not_be_taken_from(
    first: str, source: str, expected: str, message: str, hint: str
) -> None:
    (diagnostic,) = found(after(first, over(source)))
    assert where(diagnostic) == f"{expected} 4:61"
    assert message in diagnostic.message
    assert hint in diagnostic.hint


@pytest.mark.parametrize("source", ["plan.other", "plan.later"])
def test_a_field_that_an_open_schema_does_not_name_may_be_there(source: str) -> None:
    assert found(after(planner(OPEN), over(source))) == []


def test_items_of_a_stage_over_items_are_refused() -> None:
    first = f"{planner()}\n  - {over('plan.steps')[:-1]}, artifact: {OPEN}}}"
    (diagnostic,) = found(after(first, over("build.steps").replace("id: build", "id: third")))
    assert where(diagnostic) == "wrong-kind 5:61"
    assert "it leaves an artifact for each of them" in diagnostic.message


@pytest.mark.parametrize(
    ("termination", "expected", "message"),
    [
        ("{type: items}", "missing-key", "has no `from`"),
        ("{from: plan.steps}", "missing-key", "`termination.from` has no effect without a type"),
        ("{type: items, from: plan.steps, max: 10001}", "bad-value", "at most 10,000 items, got 10,001"),
    ],
)
def test_what_a_stage_over_items_needs(termination: str, expected: str, message: str) -> None:
    (diagnostic,) = found(after(planner(), f"{{id: build, prompt: x, termination: {termination}}}"))
    assert diagnostic.code == expected
    assert message in diagnostic.message


@pytest.mark.parametrize(
    "termination", ["{type: items}", "{from: plan.steps}", "{type: items, from: gone.steps}"]
)
def test_what_a_missing_stage_may_say_is_not_reported(termination: str) -> None:
    """Neither of a stage over items, nor of one that others take items from."""
    text = after("{id: gone, stage: nowhere}", f"{{id: b, stage: nowhere, termination: {termination}}}")
    codes = {one.code for one in found(text)}
    assert codes == {"unknown-stage"} | (
        {"unknown-node"} if "plan" in termination and "type" in termination else set()
    )


BLOCK = """nodes:
  - {{id: plan, prompt: x, artifact: {schema}}}
  - id: duel
    parallel:
      providers: [claude, codex]
      stages:
        - {{id: split, prompt: x, artifact: {schema}}}
        - {{id: build, prompt: x, termination: {{type: items, from: {source}}}}}
  - {{id: last, prompt: x, termination: {{type: items, from: {later}}}}}
"""


def test_a_branch_takes_items_of_its_own_stages_and_of_earlier_nodes() -> None:
    text = BLOCK.format(schema=CLOSED, source="split.steps", later="plan.steps")
    duel, last = plan(text).nodes[1:]
    assert isinstance(duel, ParallelNode)
    assert isinstance(last, StageNode)
    given = {branch.provider: branch.stages[1].sources for branch in duel.branches}
    assert given == {name: InputSources(items=ArtifactSource("1.0", name)) for name in ("claude", "codex")}
    assert last.sources == InputSources(items=ArtifactSource("0"))


@pytest.mark.parametrize("later", ["duel.steps", "split.steps"])
def test_later_stages_take_no_items_of_a_block(later: str) -> None:
    (diagnostic,) = found(BLOCK.format(schema=CLOSED, source="plan.steps", later=later))
    message = "parallel block" if later == "duel.steps" else "no earlier node has the id `split`"
    assert message in diagnostic.message


NESTED = """nodes:
  - {{id: inner, pipeline: inner.yaml, inputs: {{artifact: {needed}}}}}
  - {last}
"""


def inner(last: str) -> dict[str, str]:
    return {"inner.yaml": f"nodes:\n  - {planner()}\n  - {last}\n"}


def test_a_nested_pipeline_leaves_what_its_last_stage_does() -> None:
    files = inner(f"{{id: polish, prompt: x, artifact: {OPEN}}}")
    last = plan(NESTED.format(needed="[]", last=over("inner.steps")), files).nodes[-1]
    assert last.sources == InputSources(items=ArtifactSource("0.1"))


def test_a_nested_pipeline_may_leave_no_list() -> None:
    files = inner("{id: duel, parallel: {providers: [claude, codex], stages: [{id: s, prompt: x}]}}")
    (diagnostic,) = found(NESTED.format(needed="[]", last=over("inner.steps")), files)
    assert diagnostic.code == "wrong-kind"
    files = inner("{id: polish, prompt: x}")
    (diagnostic,) = found(NESTED.format(needed="[]", last=over("inner.steps")), files)
    assert diagnostic.code == "no-artifact"


def test_what_a_nested_pipeline_needs_is_needed_by_its_first_stage() -> None:
    files = inner("{id: polish, prompt: x}")
    found_plan = plan(NESTED.format(needed="[goal]", last="{id: last, prompt: x}"), files)
    needed = {path: stage.sources for (path, _), stage in found_plan.placed.items()}
    assert needed == {"0.0": InputSources(artifact=("goal",)), "0.1": None, "1": None}


# -- fields


@pytest.mark.parametrize(
    ("first", "field"),
    [
        (planner(), "goal"),
        (planner(more=", fill: {any: request}"), "any"),
        (planner("{}"), "whatever"),
        (planner(), "request_id"),
        (planner(), "original_request"),
        # Over items: a field with its id.
        (
            f"{planner()}\n  - {over('plan.steps')[:-1]}, artifact: {CLOSED}}}".replace("build", "each"),
            "each",
        ),
        # It can only be in the artifact that the run is started with.
        ("{id: other, prompt: x}", "goal"),
        ("{id: other, prompt: x, inputs: {artifact: [ticket]}}\n  - " + planner(), "ticket"),
        (
            "{id: other, prompt: x, termination: {type: items, from: initial.tickets}}\n  - " + planner(),
            "tickets",
        ),
    ],
)
def test_a_stage_may_need_a_field_of_an_earlier_artifact(first: str, field: str) -> None:
    assert sources_of(after(first, needing(field, field))) == InputSources(artifact=(field,))


def test_a_field_that_no_earlier_artifact_has_is_an_error() -> None:
    (diagnostic,) = found(after(planner(), needing("goal", "gaol")))
    assert where(diagnostic) == "unknown-field 4:54"
    assert diagnostic.message == "no earlier artifact has the field `gaol`"
    assert diagnostic.hint.startswith("did you mean `goal`?")


@pytest.mark.parametrize("field", ["a.b", "''", "'a b'"])
def test_a_field_is_one_name(field: str) -> None:
    (diagnostic,) = found(after(planner(), needing(field)))
    assert where(diagnostic) == "bad-value 4:48"


def test_a_stage_that_can_not_be_read_may_leave_anything() -> None:
    codes = [one.code for one in found(after("{id: gone, stage: nowhere}", needing("goal")))]
    assert codes == ["unknown-stage"]
    codes = [one.code for one in found(after("{id: gone, stage: nowhere}", over("gone.steps")))]
    assert codes == ["unknown-stage"]


def test_what_a_pipeline_that_can_not_be_read_leaves_is_unknown() -> None:
    (diagnostic,) = found(after("{id: inner, pipeline: nowhere.yaml}", over("inner.steps")))
    assert diagnostic.code == "unknown-pipeline"


def test_a_node_without_an_id_leaves_an_artifact() -> None:
    codes = [one.code for one in found(after(planner().replace("id: plan, ", ""), needing("goal")))]
    assert codes == ["missing-key"]


def test_a_schema_that_can_not_be_read_is_the_only_error() -> None:
    for last in (over("plan.steps"), needing("goal")):
        codes = [one.code for one in found(after(planner("{type: 5}"), last))]
        assert codes == ["bad-schema"]


def test_branches_have_artifacts_of_their_own() -> None:
    """A branch gets those of the nodes before the block and of its own stages; later nodes don't."""
    text = f"""nodes:
  - {planner()}
  - id: duel
    inputs: {{artifact: [goal]}}
    parallel:
      providers: [claude, {{name: codex, inputs: {{artifact: [any]}}}}]
      stages:
        - {{id: draft, prompt: x, artifact: {{properties: {{text: {{}}}}, additionalProperties: false}}}}
        - {{id: revise, prompt: x, inputs: {{artifact: [text]}}}}
  - {{id: last, prompt: x, inputs: {{artifact: [goal]}}}}
"""
    duel = plan(text).nodes[1]
    assert isinstance(duel, ParallelNode)
    needed = [
        [stage.sources and stage.sources.artifact for stage in branch.stages] for branch in duel.branches
    ]
    assert needed == [[("goal",), ("text",)], [("any",), ("text",)]]
    (diagnostic,) = found(
        text.replace(
            "id: last, prompt: x, inputs: {artifact: [goal]}",
            "id: last, prompt: x, inputs: {artifact: [text]}",
        )
    )
    assert diagnostic.message == "no earlier artifact has the field `text`"


# -- what stays empty


@pytest.mark.parametrize(
    ("prompt", "more", "message"),
    [
        ("${ARTIFACT}", "", "the stage leaves no artifact"),
        ("${SCHEMA}", "", "the stage leaves no artifact"),
        ("${INPUT_ARTIFACT}", "", "no earlier stage leaves an artifact"),
        ("${ITEM}", "", "the stage is not over items"),
        ("${BRIEFING}", "", "the stage has no `context_strategy`"),
        ("${ARTIFACT} ${SCHEMA} ${INPUT_ARTIFACT}", ", artifact: {type: object}", ""),
        ("${ITEM} ${INPUT_ARTIFACT}", ", termination: {type: items, from: initial.steps}", ""),
        ("${INPUT_ARTIFACT}", ", inputs: {artifact: [a]}", ""),
        ("${BRIEFING}", ", context_strategy: minimal", ""),
        ("${REQUEST}", "", ""),
    ],
)
def test_a_variable_that_stays_empty_is_reported(prompt: str, more: str, message: str) -> None:
    text = f"nodes: [{{id: a, prompt: 'do {prompt}'{more}}}]"
    expected = [f"`{prompt}` in the prompt is empty: {message}"] if message else []
    assert [one.message for one in found(text)] == expected


def test_later_stages_get_an_artifact() -> None:
    assert found(after(planner(), "{id: b, prompt: 'do ${INPUT_ARTIFACT}'}")) == []


@pytest.mark.parametrize(
    ("prompt", "more", "is_reported"),
    [
        ("x", ", artifact: {type: object}", True),
        ("x ${RESULT}", ", artifact: {type: object}", True),
        ("x ${ARTIFACT}", ", artifact: {type: object}", False),
        ("x ${SCHEMA}", ", artifact: {type: object}", False),
        ("x", "", False),
    ],
)
def test_a_prompt_that_does_not_ask_for_the_artifact(prompt: str, more: str, is_reported: bool) -> None:
    text = f"nodes: [{{id: a, prompt: '{prompt}', result_instructions: off{more}}}]"
    assert [one.code for one in found(text)] == ["artifact-not-named"] * is_reported


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes: [{id: a, prompt: x, tokens: 1000}]", []),
        ("nodes: [{id: a, prompt: x, tokens: {total: 1000, reserve: 5%, share: 30}}]", []),
        (
            "nodes: [{id: a, prompt: x, tokens: {reserve: 5%, share: 30%}}]",
            ["no-effect 1:46", "no-effect 1:57"],
        ),
        ("defaults: {tokens: {share: 30%}}\nnodes: [{id: a, prompt: x, tokens: 9}, {id: b, prompt: y}]", []),
        ("defaults: {tokens: {share: 30%}}\nnodes: [{id: b, prompt: y}]", ["no-effect 1:28"]),
        ("nodes: [{id: a, prompt: x, tokens: {total: 9, share: 0%}}]", ["bad-value 1:54"]),
        ("nodes: [{id: a, prompt: x, tokens: {total: 9, reserve: 100%}}]", ["bad-value 1:56"]),
        ("nodes: [{id: a, prompt: x, tokens: {total: 9, reserve: half}}]", ["bad-type 1:56"]),
        ("nodes: [{id: a, prompt: x, tokens: {total: 0}}]", ["bad-value 1:44"]),
    ],
)
def test_budgets(text: str, expected: list[str]) -> None:
    assert [where(one) for one in found(text)] == expected


def test_stages_of_blocks_have_budgets_too() -> None:
    text = """nodes:
  - {id: b, parallel: {providers: [claude, codex], stages: [{id: s, prompt: x, tokens: {share: 10%}}]}}
"""
    assert [one.code for one in found(text)] == ["no-effect"]


def test_an_artifact_that_only_looks_like_the_long_form_is_a_schema() -> None:
    (diagnostic,) = found("nodes: [{id: a, prompt: x, artifact: {properties: {}, version: 2}}]")
    assert diagnostic.code == "ignored-key"
    assert "`version` has no effect in a schema" in diagnostic.message
    (diagnostic,) = found("nodes: [{id: a, prompt: x, artifact: {schema: {}, heall: 2}}]")
    assert "did you mean `heal`?" in diagnostic.hint
    assert found(stage_with("x-mine: 1, schema: {}")) == []


def stage_with(artifact: str) -> str:
    return f"nodes: [{{id: a, prompt: x, artifact: {{{artifact}}}}}]"


def test_needs_of_nested_pipelines_add_up_in_a_plan_that_can_be_read_again() -> None:
    def fields(name: str) -> str:
        return f"[{', '.join(f'{name}{number}' for number in range(MAX_FIELDS))}]"

    def node(what: str) -> str:
        return f"nodes: [{{id: n, {what}, inputs: {{artifact: {fields(what[-3])}}}}}]\n"

    files = {"a.x": node("pipeline: b.x"), "b.x": node("pipeline: c.x"), "c.x": node("prompt: d.x")}
    whole = plan(node("pipeline: a.x"), files)
    (stage,) = whole.placed.values()
    assert stage.sources
    assert len(stage.sources.artifact) == 4 * MAX_FIELDS
    assert plan_problem(whole) == ""


def test_number_of_filled_fields_is_limited() -> None:
    fill = ", ".join(f"f{number}: request" for number in range(MAX_FIELDS + 1))
    (diagnostic,) = found(f"request: optional\nnodes:\n  - {planner('{}', f', fill: {{{fill}}}')}\n")
    assert diagnostic.code == "too-large"
