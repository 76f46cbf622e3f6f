"""The keys `hooks` and `notify`: what they mean in the plan, and what is reported."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from agentforge.definition.compiler import compile_stage
from agentforge.definition.read.file_keys import pipeline_schema, stage_schema
from agentforge.definition.read.hook_keys import HOOK
from agentforge.model.condition import condition_text
from agentforge.model.hook import YAML_POINTS, Hook, Notification
from agentforge.model.plan import NestedNode, Plan
from agentforge.model.plan_limits import (
    MAX_COMMAND,
    MAX_NAMED_VARIABLES,
    MAX_NOTIFICATIONS,
    MAX_YAML_HOOKS,
    plan_problem,
)

from .test_schema import loaded
from .world import TextWorld, found, plan, stage, where

NODES = "nodes:\n  - {id: research, stage: s}\n  - {id: refine, stage: s}\n"
BLOCK = (
    "nodes:\n  - {id: duel, parallel: {providers: [claude], stages: [{id: draft, stage: s}]}}\n"
    "  - {id: inner, pipeline: inner.yaml}\n"
)
INNER = {"inner.yaml": "nodes:\n  - {id: deep, stage: s}\n"}
PIPELINE, STAGE = Draft7Validator(pipeline_schema()), Draft7Validator(stage_schema())

SPECIFIED = (
    """\
name: research-pipeline
hooks:
  stage_end:
    - stage: research          # Only for this stage
      action: confirm
      message: "Research complete. Review findings and approve next stage?"

  iteration_end:
    - stage: refine
      condition: "iteration % 3 == 0"  # Every 3rd iteration
      action: webhook
      url: "https://api.example.com/review"
      timeout: 300  # Wait up to 5 min for response
"""
    + NODES
)


def hooks(*lines: str, nodes: str = NODES) -> str:
    return "hooks:\n" + "".join(f"  {line}\n" for line in lines) + nodes


def only(text: str) -> Hook:
    (hook,) = plan(text).pipeline.hooks
    return hook


def ids(text: str) -> list[str]:
    return [hook.id for hook in plan(text).pipeline.hooks]


def test_the_plan_pins_hooks_with_ids_and_parsed_conditions() -> None:
    compiled = plan(SPECIFIED)
    assert found(SPECIFIED) == []
    assert json.loads(msgspec.json.encode(compiled.pipeline.hooks)) == [
        {
            "id": "stage_end-1",
            "point": "stage_end",
            "action": "confirm",
            "stage": "research",
            "message": "Research complete. Review findings and approve next stage?",
        },
        {
            "id": "iteration_end-1",
            "point": "iteration_end",
            "action": "webhook",
            "stage": "refine",
            "condition": {
                "term": "operation",
                "op": "==",
                "of": [
                    {
                        "term": "operation",
                        "op": "%",
                        "of": [{"term": "variable", "name": "iteration"}, {"term": "constant", "value": 3}],
                    },
                    {"term": "constant", "value": 0},
                ],
            },
            "url": "https://api.example.com/review",
            "timeout": 300.0,
        },
    ]
    assert plan_problem(compiled) == ""
    assert PIPELINE.is_valid(loaded(SPECIFIED))


def test_a_plan_without_hooks_does_not_mention_them() -> None:
    assert not {"hooks", "notify"} & json.loads(msgspec.json.encode(plan(NODES).pipeline)).keys()
    assert plan(hooks("stage_end: []")).pipeline.hooks == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("stage_start: {action: pause}", Hook("stage_start-1", "stage_start", "pause")),
        ("session_start: [{action: pause, message: Go?}]", {"message": "Go?", "point": "session_start"}),
        ("iteration_start: [{id: mine, action: confirm}]", {"id": "mine", "action": "confirm"}),
        (
            "stage_end: [{action: webhook, url: 'http://127.0.0.1:8080/x?y=1', secret: A_1, tries: 1}]",
            {"url": "http://127.0.0.1:8080/x?y=1", "secret": "A_1", "tries": 1, "on_failure": "pause"},
        ),
        (
            "stage_end: [{action: script, script: ./look.sh, environment: [CI, HOME], timeout: 0.5}]",
            {"script": "./look.sh", "environment": ("CI", "HOME"), "timeout": 0.5},
        ),
        (
            "stage_end: {action: script, script: x, on_timeout: continue, on_failure: fail, on_lost: pause}",
            {"on_timeout": "continue", "on_failure": "fail", "on_lost": "pause"},
        ),
        (
            "session_end: [{action: script, script: x}]",
            {"on_timeout": "continue", "on_failure": "continue", "on_lost": "repeat"},
        ),
        ("session_end: [{action: script, script: x, on_failure: fail}]", {"on_failure": "fail"}),
        ("stage_end: {action: script, script: x, needs: network}", {"network": True}),
        ("stage_end: {action: webhook, url: 'https://x', needs: network}", {"network": True}),
        ("stage_end: {action: script, script: x}", {"network": False}),
    ],
)
def test_a_hook_is_in_the_plan(line: str, expected: Hook | dict[str, object]) -> None:
    text = hooks(line)
    hook = only(text)
    assert found(text) == []
    if isinstance(expected, Hook):
        assert hook == expected
    else:
        assert {name: getattr(hook, name) for name in expected} == expected
    assert PIPELINE.is_valid(loaded(text))


def test_hooks_are_numbered_by_point_in_the_order_of_the_file() -> None:
    text = hooks(
        "stage_end: [{action: pause}, {id: mine, action: pause}, {action: confirm}]",
        "session_start: {action: pause}",
        "x-note: 1",
    )
    assert ids(text) == ["session_start-1", "stage_end-1", "mine", "stage_end-3"]


def test_hooks_of_nested_pipelines_carry_the_ids_of_their_nodes() -> None:
    files = {
        "inner.yaml": hooks("stage_end: [{action: pause}, {id: mine, action: pause, stage: deep}]", nodes="")
        + INNER["inner.yaml"],
        "middle.yaml": "nodes:\n  - {id: b, pipeline: inner.yaml}\n",
    }
    text = "nodes:\n  - {id: a, pipeline: middle.yaml}\n  - {id: c, pipeline: inner.yaml}\n"
    outer = plan(text, files)
    middle, second = outer.nodes
    assert isinstance(middle, NestedNode)
    assert isinstance(second, NestedNode)
    inner = middle.plan.nodes[0]
    assert isinstance(inner, NestedNode)
    assert [hook.id for hook in inner.plan.pipeline.hooks] == ["a/b/stage_end-1", "a/b/mine"]
    assert [hook.id for hook in second.plan.pipeline.hooks] == ["c/stage_end-1", "c/mine"]
    assert plan_problem(outer) == ""


@pytest.mark.parametrize(
    ("line", "expected", "message"),
    [
        ("stage_ended: []", "unknown-point 2:3", "unknown hook point `stage_ended`"),
        ("resume: {action: pause}", "unknown-point 2:3", "unknown hook point `resume`"),
        ("stage_end: [{stage: refine}]", "missing-key 2:15", "the hook has no `action`"),
        ("stage_end: [{action: ask}]", "bad-value 2:24", "invalid value `ask` for `action`"),
        ("stage_end: [{action: call}]", "bad-value 2:24", "invalid value `call` for `action`"),
        ("stage_end: [pause]", "bad-type 2:15", "`stage_end` must be a mapping"),
        ("stage_end: [{action: webhook}]", "missing-key 2:15", "the webhook has no `url`"),
        ("stage_end: [{action: script}]", "missing-key 2:15", "the script has no `script`"),
        (
            "stage_end: [{action: pause, url: 'https://x'}]",
            "conflict 2:31",
            "`url` is not a key of the action `pause`",
        ),
        (
            "stage_end: [{action: confirm, timeout: 9}]",
            "conflict 2:33",
            "`timeout` is not a key of the action `confirm`",
        ),
        (
            "stage_end: [{action: script, script: x, tries: 2}]",
            "conflict 2:43",
            "`tries` is not a key of the action `script`",
        ),
        ("session_end: {action: pause}", "conflict 2:25", "`pause` is not possible at session_end"),
        ("session_end: {action: confirm}", "conflict 2:25", "`confirm` is not possible at session_end"),
        (
            "session_end: {action: script, script: x, on_lost: pause}",
            "conflict 2:53",
            "`on_lost: pause` is not possible at session_end",
        ),
        (
            "session_start: {action: pause, stage: refine}",
            "conflict 2:34",
            "`stage` has no effect at session_start, which belongs to the whole run",
        ),
        ("stage_end: {action: pause, stage: refin}", "unknown-node 2:37", "no node has the id `refin`"),
        (
            "stage_end: [{id: a, action: pause}, {id: a, action: pause}]",
            "duplicate-id 2:44",
            "the id `a` is already used by the hook on line 2",
        ),
        (
            "stage_end: [{id: stage_end-2, action: pause}, {action: pause}]",
            "duplicate-id 2:49",
            "the id `stage_end-2` is already used by the hook on line 2",
        ),
        ("stage_end: {id: a/b, action: pause}", "bad-value 2:19", "`id` must be a name"),
        (
            "stage_end: {action: pause, condition: 'stage == refne'}",
            "unknown-variable 2:51",
            "unknown variable `refne` in the condition",
        ),
        ("stage_end: {action: pause, needs: network}", "conflict 2:30", "`needs` is not a key of the action"),
        ("stage_end: {action: script, script: x, needs: net}", "bad-value 2:49", "invalid value `net`"),
        ("stage_end: {action: pause, condition: ''}", "syntax 2:42", "the condition is empty"),
        ("stage_end: {action: pause, condition: [x]}", "bad-type 2:41", "`condition` must be text"),
        (
            "stage_end: {action: webhook, url: 'ftp://x'}",
            "bad-value 2:37",
            "`url` must be an http or https address, got `ftp://x`",
        ),
        ("stage_end: {action: webhook, url: 'http://[x'}", "bad-value 2:37", "`url` must be an http or"),
        ("stage_end: {action: webhook, url: 'https:// x'}", "bad-value 2:37", "`url` must be an http or"),
        (
            "stage_end: {action: webhook, url: 'http://127.0.0.1:99999/x'}",
            "bad-value 2:37",
            "the port of `url` must be from 1 to 65535, got `99999`",
        ),
        ("stage_end: {action: webhook, url: 'https:///x'}", "bad-value 2:37", "`url` must be an http or"),
        ("stage_end: {action: script, script: ' '}", "bad-value 2:39", "`script` is empty"),
        (
            'stage_end: {action: script, script: "a\\0"}',
            "control-character 2:39",
            "`script` contains a null character",
        ),
        (
            f"stage_end: {{action: script, script: '{'x' * (MAX_COMMAND + 1)}'}}",
            "bad-value 2:39",
            "`script` has 10,001 characters; the maximum is 10,000",
        ),
        (
            "stage_end: {action: script, script: x, environment: [A=1]}",
            "bad-value 2:56",
            "`environment` must be the name of an environment variable, got `A=1`",
        ),
        (
            f"stage_end: {{action: script, script: x, environment: [{', '.join(['A'] * 101)}]}}",
            "too-large 2:55",
            f"`environment` has 101 items; the maximum is {MAX_NAMED_VARIABLES}",
        ),
        (
            f"stage_end: [{', '.join(['{action: pause}'] * (MAX_YAML_HOOKS + 1))}]",
            "too-large 2:3",
            "the pipeline has 101 hooks; the maximum is 100",
        ),
    ],
)
def test_a_wrong_hook_is_reported_with_its_place(line: str, expected: str, message: str) -> None:
    (diagnostic,) = found(hooks(line))
    assert (where(diagnostic), diagnostic.is_error) == (expected, True)
    assert diagnostic.message.startswith(message)


def test_unknown_points_and_stages_come_with_suggestions() -> None:
    (point,) = found(hooks("stage_ends: []"))
    assert point.hint.startswith("did you mean `stage_end`?")
    (program,) = found(hooks("request: []"))
    assert program.hint == "`request` is only available to functions: `engine.on_request`, see docs/sdk.md"
    (node,) = found(hooks("stage_end: {action: pause, stage: refin}"))
    assert node.hint == "did you mean `refine`? stages: refine, research"


@pytest.mark.parametrize("line", ["hooks: x", "hooks: [{action: pause}]"])
def test_hooks_are_a_mapping_of_points(line: str) -> None:
    (diagnostic,) = found(f"{line}\n{NODES}")
    assert where(diagnostic) == "bad-type 1:8"
    assert not PIPELINE.is_valid(loaded(f"{line}\n{NODES}"))


@pytest.mark.parametrize(
    "line",
    [
        "stage_ended: []",
        "stage_end: {}",
        "stage_end: {action: ask}",
        "stage_end: {action: webhook}",
        "stage_end: [{action: script}]",
        "stage_end: {action: pause, url: 'https://x'}",
        "stage_end: {action: webhook, url: 'https://x', script: x}",
        "stage_end: {action: webhook, url: 'ftp://x'}",
        "stage_end: {action: webhook, url: 'https://me@x'}",
        "stage_end: {action: webhook, url: 'https://x', secret: a-b}",
    ],
)
def test_the_schema_rejects_the_same_as_the_compiler(line: str) -> None:
    assert not PIPELINE.is_valid(loaded(hooks(line)))
    assert any(one.is_error for one in found(hooks(line)))


words = st.sampled_from(["research", "pause", "https://x/y", "x", "A_B", "true", "iteration > 1", "continue"])
keys = st.sampled_from(sorted(key.name for key in HOOK.keys))
any_hooks = st.dictionaries(
    st.sampled_from(YAML_POINTS),
    st.lists(
        st.builds(
            lambda action, more: {"action": action, **more},
            st.sampled_from(["pause", "confirm", "webhook", "script"]),
            st.dictionaries(keys, words | st.integers(0, 11) | st.text(max_size=5), max_size=3)
            | st.just({"url": "http://x", "script": "x"}),
        ),
        max_size=3,
    ),
)


@given(any_hooks)
def test_any_hooks_compile_or_are_explained(tree: dict[str, list[object]]) -> None:
    text = json.dumps({"hooks": tree, "nodes": [{"id": "research", "stage": "s"}]})
    if any(one.is_error for one in found(text)):
        return
    compiled = plan(text)
    assert plan_problem(compiled) == ""
    assert len(compiled.all_hooks) == sum(map(len, tree.values()))
    assert msgspec.json.decode(msgspec.json.encode(compiled), type=Plan) == compiled


@pytest.mark.parametrize(
    ("point", "node", "expected"),
    [
        ("stage_start", "duel", ""),
        ("stage_end", "duel", ""),
        ("stage_start", "draft", ""),
        ("iteration_end", "draft", ""),
        ("iteration_end", "deep", ""),
        ("parallel_provider_end", "duel", ""),
        ("parallel_provider_start", "duel", ""),
        ("iteration_start", "draft", ""),
        ("iteration_start", "duel", "conflict: `duel` is a block, which has no iteration_start"),
        ("iteration_end", "duel", "conflict: `duel` is a block, which has no iteration_end"),
        ("stage_start", "inner", "conflict: `inner` is a nested pipeline, which has no stage_start"),
        ("stage_end", "inner", "conflict: `inner` is a nested pipeline, which has no stage_end"),
        ("parallel_provider_end", "deep", "conflict: `deep` is a stage, which has no parallel_provider_end"),
        ("parallel_provider_end", "x", "unknown-node: no node has the id `x`"),
    ],
)
def test_a_hook_names_a_node_that_has_the_point(point: str, node: str, expected: str) -> None:
    text = hooks(f"{point}: {{action: pause, stage: {node}}}", nodes=BLOCK)
    assert "".join(f"{one.code}: {one.message}" for one in found(text, INNER)) == expected


def test_a_node_of_a_pipeline_that_is_not_found_is_not_reported_again() -> None:
    text = hooks("stage_end: {action: pause, stage: deep}", nodes=BLOCK)
    assert [one.code for one in found(text)] == ["unknown-pipeline"]


def test_a_hook_of_branches_without_a_block_is_warned_of() -> None:
    (diagnostic,) = found(hooks("parallel_provider_end: {action: pause}"))
    assert (where(diagnostic), diagnostic.is_error) == ("no-effect 2:26", False)
    assert found(hooks("parallel_provider_end: {action: pause}", nodes=BLOCK), INNER) == []


@pytest.mark.parametrize(
    ("point", "condition", "expected"),
    [
        ("stage_end", "stage == 'draft' || stage != 'duel' || 'deep' == stage", ""),
        ("stage_end", "stage in ['draft', 'deep'] && 'dr' in stage && provider == 'x'", ""),
        ("stage_end", "stage == session && iteration == 1 && stage matches 'x'", ""),
        ("stage_end", "event == 'stage_end' && status == 'completed'", ""),
        ("stage_end", "!(stage == 'darft')", "`stage` is never `darft` at stage_end"),
        ("stage_end", "stage in ['draft', 'x']", "`stage` is never `x` at stage_end"),
        ("stage_end", "stage == 'inner'", "`stage` is never `inner` at stage_end"),
        ("stage_end", "event == 'stage_start'", "`event` is never `stage_start` at stage_end"),
        ("stage_end", "status == 'running'", "`status` is never `running` at stage_end"),
        ("iteration_end", "status == 'failed'", "`status` is never `failed` at iteration_end"),
        ("stage_start", "status == 'completed'", "`status` is never `completed` at stage_start"),
        ("session_start", "stage == 'draft'", "`stage` is never `draft` at session_start"),
    ],
)
def test_a_comparison_that_never_holds_is_warned_of(point: str, condition: str, expected: str) -> None:
    text = hooks(f'{point}: {{action: pause, condition: "{condition}"}}', nodes=BLOCK)
    diagnostics = found(text, INNER)
    assert [one.message for one in diagnostics] == ([expected] if expected else [])
    assert not any(one.is_error for one in diagnostics)
    assert {one.code for one in found(text)} <= {"unknown-pipeline", "no-effect"}


@pytest.mark.parametrize("point", ["session_start", "session_end"])
def test_a_nested_pipeline_has_no_points_of_the_session(point: str) -> None:
    hook = "{action: script, script: x}"
    files = {"inner.yaml": hooks(f"{point}: {hook}", nodes="") + INNER["inner.yaml"]}
    (diagnostic,) = found(BLOCK, files)
    assert where(diagnostic).startswith("conflict 2:")
    assert (
        diagnostic.message == f"`{point}` is not allowed in a nested pipeline, which is part of another run"
    )


def test_a_secret_in_the_file_is_refused_and_not_shown() -> None:
    for line in (
        "stage_end: {action: webhook, url: 'https://x', secret: 'hunter2-hunter2'}",
        "stage_end: {action: webhook, url: 'https://me:hunter2-hunter2@x/'}",
    ):
        (diagnostic,) = found(hooks(line))
        assert diagnostic.is_error
        assert "hunter2" not in diagnostic.message + diagnostic.text + diagnostic.hint
    (diagnostic,) = found(hooks("stage_end: {action: webhook, url: 'https://x', secret: a-b}"))
    assert diagnostic.message == "`secret` must be the name of an environment variable"


def test_hooks_belong_to_the_pipeline() -> None:
    for text, files in (
        ("nodes:\n  - {id: a, stage: s, hooks: {}}\n", {}),
        (f"defaults: {{hooks: {{}}}}\n{NODES}", {}),
        (NODES, stage("s", "hooks: {}\n")),
    ):
        diagnostic, *_ = found(text, files)
        assert (diagnostic.code, diagnostic.hint[:38]) == (
            "misplaced-key",
            "put it at the top of the pipeline file",
        )


def test_a_condition_is_kept_as_it_reads() -> None:
    text = hooks("stage_end: {action: pause, condition: '(iteration>3)&&(stage in [\"refine\"])'}")
    condition = only(text).condition
    assert condition is not None
    assert condition_text(condition) == 'iteration > 3 && stage in ["refine"]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{desktop: true}", Notification(desktop=True)),
        ("desktop", Notification(desktop=True)),
        ("[desktop]", Notification(desktop=True)),
        ("https://x/y", Notification(url="https://x/y")),
        ("[{on: failed, command: ./tell.sh}]", Notification(("failed",), command="./tell.sh")),
        (
            "{command: ./tell.sh, environment: CI_TOKEN, in_project: true}",
            Notification(command="./tell.sh", environment=("CI_TOKEN",), in_project=True),
        ),
        (
            "[{on: [request, completed, request], url: 'https://x/y', secret: S}]",
            Notification(("request", "completed"), url="https://x/y", secret="S"),
        ),
    ],
)
def test_notifications_are_in_the_plan(text: str, expected: Notification) -> None:
    assert plan(f"notify: {text}\n{NODES}").pipeline.notify == (expected,)
    assert found(f"notify: {text}\n{NODES}") == []
    assert PIPELINE.is_valid(loaded(f"notify: {text}\n{NODES}"))
    assert STAGE.is_valid(loaded(f"notify: {text}"))


def test_notifications_of_a_single_stage_come_from_its_file() -> None:
    world = TextWorld(stage(body="notify: {desktop: true}\n"))
    assert compile_stage(world, "s").plan.pipeline.notify == (Notification(desktop=True),)
    assert plan(NODES, stage(body="notify: {desktop: true}\n")).pipeline.notify == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("destkop", "bad-value 1:9"),
        ("[desktop, ./tell.sh]", "bad-value 1:19"),
        ("https:///x", "bad-value 1:9"),
        ("https://me:hunter2-hunter2@x", "secret-in-file 1:9"),
        ("[[desktop]]", "bad-type 1:10"),
        ("{}", "missing-key 1:9"),
        ("{desktop: false}", "missing-key 1:9"),
        ("{on: [], desktop: true}", "missing-key 1:14"),
        ("{on: started, desktop: true}", "bad-value 1:14"),
        ("{url: example.com}", "bad-value 1:15"),
        ("{url: 'https://x', secret: 'a b'}", "bad-value 1:36"),
        ("{desktop: true, secret: S}", "no-effect 1:25"),
        ("{desktop: true, environment: [S]}", "no-effect 1:25"),
        ("{desktop: true, in_project: true}", "no-effect 1:25"),
        ("{command: x, environment: a-b}", "bad-value 1:35"),
        (f"[{', '.join(['{desktop: true}'] * (MAX_NOTIFICATIONS + 1))}]", "too-large 1:9"),
    ],
)
def test_a_wrong_notification_is_reported(text: str, expected: str) -> None:
    (diagnostic,) = found(f"notify: {text}\n{NODES}")
    assert where(diagnostic) == expected


def test_error_in_a_receiver_names_the_forms() -> None:
    (diagnostic,) = found(f"notify: ./tell.sh\n{NODES}")
    assert diagnostic.message == "`notify` must be `desktop`, a URL or a mapping, got `./tell.sh`"
    assert diagnostic.hint == "for a command, write `notify: {command: …}`"
    assert not PIPELINE.is_valid(loaded(f"notify: ./tell.sh\n{NODES}"))


def test_notifications_of_a_nested_pipeline_are_warned_of() -> None:
    (diagnostic,) = found(BLOCK, {"inner.yaml": f"notify: {{desktop: true}}\n{INNER['inner.yaml']}"})
    assert (diagnostic.code, diagnostic.is_error) == ("ignored-key", False)
