"""Checks, verdicts, routes and their limits in definitions."""

import pytest
from jsonschema import Draft7Validator

from agentforge.definition.lower import NO_COMMAND
from agentforge.definition.read.file_keys import pipeline_schema
from agentforge.model.check import Check, FileRule
from agentforge.model.plan import Guardrails, Limits, NestedNode, ParallelNode, Route, StageNode

from .test_schema import loaded
from .world import found, only_node, plan, stage, where

PIPELINE = Draft7Validator(pipeline_schema())
HEAD = "name: p\ncommands: {test: make test}\nnodes:\n"


def node(*lines: str) -> str:
    return HEAD + "  - id: n\n    stage: s\n" + "".join(f"    {line}\n" for line in lines)


def nodes(*lines: str) -> str:
    return HEAD + "".join(f"  - {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("checks: [test]", Check("test", "make test")),
        ("checks: [{name: test}]", Check("test", "make test")),
        ("checks: [{name: lint, run: ruff check, parse: lines}]", Check("lint", "ruff check", parse="lines")),
        (
            "checks: [{name: u, run: t, parse: junit, report: out/r.xml}]",
            Check("u", "t", parse="junit", report="out/r.xml"),
        ),
        (
            "checks: [{name: u, run: t, parse: lines, regressions: true}]",
            Check("u", "t", parse="lines", regressions=True),
        ),
        (
            "checks: [{name: u, run: t, expect: fail, timeout: 60, at: start, needs: network}]",
            Check("u", "t", expect="fail", timeout=60, at=("start",), network=True),
        ),
        ("checks: [{name: u, run: t, at: iteration}]", Check("u", "t", at=("iteration",))),
        (
            "checks: [{name: u, run: t, at: [need, end, need]}]",
            Check("u", "t", at=("need", "end")),
        ),
        (
            "checks: [{name: u, run: t, parse: pytest, expect: red}]",
            Check("u", "t", parse="pytest", expect="red"),
        ),
        (
            "checks: [{name: u, run: t, parse: junit, report: r, expect: {red: 0.3}, regressions: true}]",
            Check("u", "t", "red", "junit", report="r", regressions=True, red_tolerance=0.3),
        ),
        ("checks: [{name: test, file: {path: a.md}}]", Check("test", file=FileRule("a.md"))),
        ("checks: [{name: u, scope: [a/**, b.md, a/**]}]", Check("u", scope=("a/**", "b.md"))),
        (
            "checks: [{name: u, file: {path: a.md, contains: [b, c, b], absent: d, heading: '# E'},"
            " expect: fail}]",
            Check("u", expect="fail", file=FileRule("a.md", ("b", "c"), ("d",), ("# E",))),
        ),
    ],
)
def test_check_is_in_the_plan(line: str, expected: Check) -> None:
    assert only_node(node(line)).checks == (expected,)
    assert found(node(line)) == []
    assert PIPELINE.is_valid(loaded(node(line)))


@pytest.mark.parametrize(
    ("line", "at", "message"),
    [
        ("checks: [{run: make}]", "missing-key 6:14", "a check has no `name`"),
        ("checks: [{name: [1]}]", "bad-type 6:21", "`checks.name` must be a name"),
        ("checks: [lint]", "missing-key 6:14", "check `lint` has no `run`, and there is no command `lint`"),
        (
            "checks: [{name: lint, optional: false}]",
            "missing-key 6:21",
            "check `lint` has no `run`, and there is no command `lint`",
        ),
        ("checks: [test, test]", "duplicate-id 6:20", "the check `test` is already on line 6"),
        ("checks: [{name: a, run: b, parse: junit}]", "missing-key 6:21", "check `a` has no `report`"),
        ("checks: [{name: a, run: b, report: c}]", "ignored-key 6:40", "`report` is only read with"),
        ("checks: [{name: a, file: {contains: b}}]", "missing-key 6:30", "`file` has no `path`"),
        ("checks: [{name: a, file: b}]", "bad-type 6:30", "`checks.file` must be a mapping"),
        ("checks: [{name: a, file: {path: ../b}}]", "bad-value 6:37", "leads outside the project"),
        (
            "checks: [{name: a, file: {path: b, contains: 4}}]",
            "bad-type 6:50",
            "`checks.file.contains` must be text",
        ),
        (
            "checks: [{name: a, file: {path: b}, parse: lines}]",
            "conflict 6:41",
            "`checks.parse` doesn't go with `file`",
        ),
        (
            "checks: [{name: a, run: b, regressions: true, expect: fail}]",
            "conflict 6:45",
            "`checks.regressions` doesn't go with `expect: fail`",
        ),
        ("checks: [{name: a, scope: [b], file: {path: b}}]", "conflict 6:24", "`checks.scope` doesn't go"),
        ("checks: [{name: a, scope: [b], expect: fail}]", "conflict 6:36", "`checks.expect` doesn't go"),
        ("checks: [{name: a, scope: [b], at: start}]", "bad-value 6:40", "nothing has changed yet"),
        ("checks: [{name: a, scope: [b], at: [end, need]}]", "bad-value 6:46", "nothing has changed yet"),
        ("checks: [{name: a, run: b, at: []}]", "missing-key 6:36", "`checks.at` is empty"),
        (
            "checks: [{name: a, run: b, at: [start, need]}]",
            "conflict 6:44",
            "`at: need` doesn't go with `at: start`",
        ),
        ("checks: [{name: a, run: b, expect: blue}]", "bad-value 6:40", "invalid value `blue`"),
        ("checks: [{name: a, run: b, expect: {blue: 1}}]", "bad-type 6:40", "a word or `{red: NUMBER}`"),
        (
            "checks: [{name: a, run: b, parse: pytest, expect: {red: x}}]",
            "bad-type 6:61",
            "`checks.expect.red` must be a number",
        ),
        (
            "checks: [{name: a, run: b, parse: pytest, expect: {red: 1.5}}]",
            "bad-value 6:61",
            "must be from 0 to",
        ),
        (
            "checks: [{name: a, run: b, expect: red}]",
            "conflict 6:40",
            "`expect: red` needs the results of the tests",
        ),
        (
            "checks: [{name: a, file: {path: b}, expect: red}]",
            "conflict 6:49",
            "`expect: red` needs the results of the tests",
        ),
        (
            "checks: [{name: a, run: b, parse: pytest, expect: red, regressions: true}]",
            "conflict 6:73",
            "needs the ids of all tests",
        ),
        ("checks: [{name: a, scope: []}]", "missing-key 6:31", "`checks.scope` is empty"),
        ("checks: [{name: a, scope: [../b]}]", "bad-value 6:32", "leads outside the project"),
        ("checks: [{name: a, run: b, file: {path: b}}]", "conflict 6:24", "`checks.run` doesn't go"),
        ("checks: [{name: a, run: b, at: never}]", "bad-value 6:36", "invalid value `never`"),
        ("on: {pas: n}", "unknown-verdict 6:10", "`pas` is not a verdict of this stage"),
        ("on: {fail: bild}", "unknown-node 6:16", "no node has the id `bild`"),
        ("on: {'a b': n}", "bad-value 6:10", "`a b` can't be a verdict"),
        ("on: [fail]", "bad-type 6:9", "`on` must be a mapping"),
        ("on: {fail: [n]}", "bad-type 6:16", "`on.fail` must be"),
        ("verdicts: [Reject]", "conflict 6:16", "the verdict `Reject` is the same as `reject`"),
        ("verdicts: [late, LATE]", "conflict 6:22", "the verdict `LATE` is the same as `late`"),
        ("limits: {cycles: 11}", "bad-value 6:22", "`limits.cycles` must be from 1 to 10, got 11"),
        (
            "limits: {runtime: 5}\n    guardrails: {max_runtime_seconds: 6}",
            "conflict 6:23",
            "are the same limit",
        ),
    ],
)
def test_mistakes_in_checks_and_routes_are_reported_where_they_are(line: str, at: str, message: str) -> None:
    (diagnostic,) = found(node(line))
    assert where(diagnostic) == at
    assert message in diagnostic.message


@pytest.mark.parametrize(
    ("routes", "hint"),
    [
        ("{trivial: ask}", "add `trivial` to `verdicts`, or use one of: pass, fail, reject"),
        (
            "{rejct: ask}",
            "did you mean `reject`? add `rejct` to `verdicts`, or use one of: pass, fail, reject",
        ),
        ("{fail: verify}", "use a node (build, n), or ask, fail or end"),
        ("{fail: buildd}", "did you mean `build`? use a node (build, n), or ask, fail or end"),
    ],
)
def test_hints_name_the_verdicts_and_the_targets(routes: str, hint: str) -> None:
    (diagnostic,) = found(nodes("{id: build, stage: s}", f"{{id: n, stage: s, on: {routes}}}"))
    assert diagnostic.hint == hint


@pytest.mark.parametrize("id", ["ask", "fail", "end"])
def test_node_that_has_the_name_of_an_action_is_not_a_target(id: str) -> None:
    text = nodes(f"{{id: {id}, stage: s}}", f"{{id: n, stage: s, on: {{reject: {id}}}}}")
    (diagnostic,) = found(text)
    assert where(diagnostic) == "conflict 5:36"
    assert diagnostic.message == f"`{id}` is a node and also an action of routes"
    assert diagnostic.hint == "give the node another id: ask, fail and end are actions"
    assert found(nodes(f"{{id: {id}, stage: s}}", "{id: n, stage: s, on: {reject: n}}")) == []


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("limits: {runtime: 5}", "limits.runtime"),
        ("guardrails: {max_runtime_seconds: 5}", "guardrails.max_runtime_seconds"),
    ],
)
def test_runtime_limit_of_a_nested_pipeline_is_named_as_it_is_written(written: str, key: str) -> None:
    inner = {"inner.yaml": f"{written}\nnodes:\n  - {{id: a, stage: s}}\n"}
    (diagnostic,) = found(nodes("{id: n, pipeline: inner.yaml}"), inner)
    assert diagnostic.message == f"`{key}` of a nested pipeline has no effect"


def test_command_of_a_check_that_no_pipeline_has_is_named() -> None:
    text = "name: p\nnodes:\n  - {id: n, stage: s, checks: [test]}\n"
    (diagnostic,) = found(text)
    assert diagnostic.hint == "add `commands: {test: …}`, or `optional: true`"


def test_optional_check_is_left_out_where_there_is_no_command() -> None:
    optional = "    checks: [{name: test, optional: true}, {name: lint, optional: true}]\n"
    known = only_node(HEAD + "  - id: n\n    stage: s\n" + optional)
    assert (known.checks, known.left_out) == ((Check("test", "make test"),), {"lint": NO_COMMAND})
    none = only_node("name: p\nnodes:\n  - id: n\n    stage: s\n" + optional)
    assert (none.checks, none.left_out) == ((), {"test": NO_COMMAND, "lint": NO_COMMAND})
    (warning,) = found(node("checks: [{name: lint, run: x, optional: true}]"))
    assert where(warning) == "ignored-key 6:35"


def test_routes_verdicts_and_limits_are_in_the_plan() -> None:
    text = nodes(
        "{id: build, stage: s}",
        "{id: verify, stage: s, verdicts: [blocking], limits: {cycles: 2, cluster: 4},"
        " on: {fail: build, reject: ask, blocking: end, x-note: y}}",
    )
    verify = plan("limits: {no_progress: 5, runtime: 60}\n" + text).nodes[1]
    assert isinstance(verify, StageNode)
    assert verify.routes == (Route("fail", "go", "build"), Route("reject", "ask"), Route("blocking", "end"))
    assert verify.verdicts == ("blocking",)
    assert verify.limits == Limits(cycles=2, cluster=4)
    whole = plan("limits: {no_progress: 5, runtime: 60}\n" + text).pipeline
    assert whole.limits == Limits(no_progress=5)
    assert whole.guardrails == Guardrails(60)


def test_node_overrides_the_checks_and_routes_of_its_stage() -> None:
    files = stage("t", "checks: [{name: a, run: b}]\non: {fail: ask}\nverdicts: [x]\nlimits: {cycles: 4}\n")
    own = plan(nodes("{id: n, stage: t}"), files).nodes[0]
    assert isinstance(own, StageNode)
    assert (own.checks, own.routes) == ((Check("a", "b"),), (Route("fail", "ask"),))
    changed = plan(nodes("{id: n, stage: t, checks: [], on: {fail: end}}"), files).nodes[0]
    assert isinstance(changed, StageNode)
    assert (changed.checks, changed.routes) == ((), (Route("fail", "end"),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("stages: [{id: a, stage: s, checks: [test]}]", "`checks` are not possible in a parallel block"),
        ("stages: [{id: a, stage: s, rollback: true}]", "`rollback` is not possible in a parallel block"),
        (
            "stages: [{id: a, stage: s, artifact: {type: object}, freeze: [x]}]",
            "`freeze` is not possible in a parallel block",
        ),
        ("stages: [{id: a, stage: s, on: {fail: n}}]", "`n` is a node of another pipeline or block"),
        ("checks: [test], stages: [{id: a, stage: s}]", "misplaced key `checks` in parallel"),
    ],
)
def test_what_blocks_do_not_have_is_refused(line: str, message: str) -> None:
    text = nodes("{id: n, stage: s}", f"{{id: duel, parallel: {{providers: [claude], {line}}}}}")
    (diagnostic,) = found(text)
    assert message in diagnostic.message


def test_route_in_a_branch_stays_in_it() -> None:
    stages = "[{id: a, stage: s}, {id: b, stage: s, on: {reject: a}}]"
    block = plan(nodes(f"{{id: duel, parallel: {{providers: [claude], stages: {stages}}}}}")).nodes[0]
    assert isinstance(block, ParallelNode)
    assert block.branches[0].stages[1].routes == (Route("reject", "go", "a"),)


@pytest.mark.parametrize("key", ["checks: [test]", "on: {fail: n}", "verdicts: [x]"])
def test_keys_of_stages_are_misplaced_elsewhere(key: str) -> None:
    for text in (f"{key}\n{node()}", f"defaults: {{{key}}}\n{node()}"):
        assert [diagnostic.code for diagnostic in found(text)] == ["misplaced-key"]


def test_limits_of_a_nested_pipeline_apply_to_its_stages() -> None:
    inner = {
        "inner.yaml": "limits: {cycles: 5, cluster: 2}\nnodes:\n  - {id: a, stage: s, limits: {cycles: 1}}\n"
    }
    node = plan(nodes("{id: n, pipeline: inner.yaml}"), inner).nodes[0]
    assert isinstance(node, NestedNode)
    stage_node = node.plan.nodes[0]
    assert isinstance(stage_node, StageNode)
    assert stage_node.limits == Limits(cycles=1, cluster=2)


def test_checks_of_a_nested_pipeline_use_the_commands_around_it() -> None:
    inner = {"inner.yaml": "nodes:\n  - {id: a, stage: s, checks: [test]}\n"}
    assert found(nodes("{id: n, pipeline: inner.yaml}"), inner) == []


def test_commands_and_checks_of_the_pipeline_can_be_named_by_criteria() -> None:
    text = (
        "name: p\ncommands: {test: make test, build: make, none: '', 'not a name': x, criteria: x}\nnodes:\n"
        "  - {id: plan, stage: s, artifact: {schema: {required: [steps]}}}\n"
        "  - {id: do, stage: s, termination: {type: items, from: plan.steps, criteria: done},"
        " checks: [{name: own, run: x}]}\n"
        "  - {id: verify, stage: s, checks: [{name: test, at: start, parse: pytest, regressions: true}]}\n"
    )
    do = plan(text).nodes[1]
    assert isinstance(do, StageNode)
    assert do.criteria == "done"
    assert do.checks == (
        Check("own", "x"),
        Check("criteria", at=("iteration",), criteria=True),
        Check("test", "make test", at=("iteration",), parse="pytest", regressions=True, criteria=True),
        Check("build", "make", at=("iteration",), criteria=True),
    )
    assert found(text) == []
    (taken,) = found(text.replace("{name: own, run: x}", "{name: criteria, run: x}"))
    assert where(taken) == "duplicate-id 5:102"


@pytest.mark.parametrize("optional", [True, False])
def test_an_empty_command_is_none(optional: bool) -> None:
    check = f"{{name: test, optional: {str(optional).lower()}}}"
    files = {".agentforge/config/settings.yaml": "commands: {test: ' '}\n", "go.mod": ""}
    text = f"nodes: [{{id: n, stage: s, checks: [{check}]}}]\n"
    assert [where(one) for one in found(text, files)] == ([] if optional else ["missing-key 1:43"])
    if optional:
        made = only_node(text, files)
        assert (made.checks, list(made.left_out)) == ((), ["test"])


def test_criteria_are_refused_in_a_block() -> None:
    block = (
        "name: p\nnodes:\n  - {id: plan, stage: s, artifact: {schema: {required: [steps]}}}\n"
        "  - id: duel\n    parallel:\n      providers: [claude]\n      stages:\n"
        "        - {id: do, stage: s, termination: {type: items, from: plan.steps, criteria: done}}\n"
    )
    assert "`criteria` are not verified in a parallel block" in found(block)[0].message


@pytest.mark.parametrize(
    ("lines", "code", "message"),
    [
        (
            ("freeze: [tests]",),
            "no-artifact",
            "`freeze` names a field of the artifact, and the stage leaves none",
        ),
        (
            ("artifact: {properties: {test_files: {}}}", "freeze: [tests]"),
            "unknown-field",
            "the artifact of the stage has no field `tests`",
        ),
        (
            ("artifact: {additionalProperties: false}", "freeze: tests"),
            "unknown-field",
            "the artifact of the stage has no field `tests`",
        ),
    ],
)
def test_fields_that_freeze_files_are_those_of_the_artifact(
    lines: tuple[str, ...], code: str, message: str
) -> None:
    (problem,) = [one for one in found(node(*lines)) if one.is_error]
    assert (problem.code, problem.message) == (code, message)


def test_frozen_fields_and_rollbacks_are_in_the_plan() -> None:
    only = only_node(node("artifact: {type: object}", "freeze: [tests, tests]", "rollback: true"))
    assert isinstance(only, StageNode)
    assert (only.freeze, only.rollback) == (("tests",), True)
    assert only.asked_verdicts
    assert plan(node("rollback: true")).keeps_trees
    assert not plan(node("rollback: false")).keeps_trees
