"""What `graph`, `dry-run` and `lint` show of checks and routes."""

import xml.etree.ElementTree as ET
from html import unescape

from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage
from tests.views.test_plan_lines import THIRD

from agentforge.model.artifact import ArtifactRule
from agentforge.model.check import Check, FileRule
from agentforge.model.hook import Hook
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Approval, Items, Limits, ParallelNode, Plan, Route, StageNode
from agentforge.views.graph import GraphLimits, GraphRoute, graph
from agentforge.views.graph_picture import graph_svg
from agentforge.views.lines.dry_run import preview
from agentforge.views.lines.plan import check_line, graph_lines, lint_lines

SVG = "{http://www.w3.org/2000/svg}"
TEST = Check("test", "pytest -q", parse="pytest")


def verify(**changes: object) -> StageNode:
    routes = (
        Route("fail", "go", "build"),
        Route("reject", "go", "plan"),
        Route("blocking", "ask"),
        Route("trivial", "go", "ship"),
        Route("enough", "end"),
    )
    given = {"checks": (TEST,), "verdicts": ("blocking", "trivial", "enough"), "routes": routes, **changes}
    return stage("verify", **given)


def feature() -> Plan:
    return plan_of(stage("plan"), stage("build", 5, stage="ralph"), verify(), stage("docs"), stage("ship"))


def limited(plan: Plan, limits: Limits) -> Plan:
    return replace(plan, pipeline=replace(plan.pipeline, limits=limits))


def test_every_verdict_leads_somewhere() -> None:
    assert graph(feature())[2].routes == (
        GraphRoute(("pass",), "next", "docs"),
        GraphRoute(("fail",), "back", "build"),
        GraphRoute(("reject",), "back", "plan"),
        GraphRoute(("blocking",), "ask"),
        GraphRoute(("trivial",), "skip", "ship", ("docs",)),
        GraphRoute(("enough",), "end"),
    )


def test_verdicts_that_lead_to_the_same_end_are_one_route() -> None:
    (only,) = graph(plan_of(stage("verify", checks=(TEST,))))
    assert only.routes == (GraphRoute(("pass",), "next"), GraphRoute(("fail", "reject"), "fail"))
    assert only.limits is None


def test_a_route_to_the_following_node_skips_nothing() -> None:
    first = stage("draft", routes=(Route("fail", "go", "ship"), Route("pass", "fail")))
    assert graph(plan_of(first, stage("ship")))[0].routes == (
        GraphRoute(("pass", "reject"), "fail"),
        GraphRoute(("fail",), "next", "ship"),
    )


def test_limits_of_a_stage_come_before_those_of_the_pipeline_and_the_defaults() -> None:
    again = (Route("fail", "go", "a"),)
    plan = plan_of(stage("a", routes=again, limits=Limits(cycles=5)))
    (node,) = graph(limited(plan, Limits(cycles=7, no_progress=4)))
    assert node.limits == GraphLimits(5, 4, 3)


def test_the_graph_as_text() -> None:
    inner = nested("think", stage("doubt", routes=(Route("reject", "go", "doubt"),)), runs=2)
    plan = plan_of(stage("build", 5, stage="ralph"), block("claude codex", stage("draft")), inner)
    assert graph_lines(plan) == [
        "refine",
        "",
        "  build (ralph), at most 5 iterations",
        "    pass → duel",
        "",
        "  duel: claude, codex in parallel",
        "",
        "    draft",
        "      pass → done",
        "",
        "    → think",
        "",
        "  think: pipeline think.yaml, 2 times",
        "",
        "    doubt",
        "      pass → done",
        "      fail → the run fails",
        "      reject → doubt (back, at most 3 cycles)",
        "      cycles: a person is asked at the limit, after 2 visits without progress, or after 3 visits"
        " with the same failure",
        "",
        "    → done",
    ]


def test_a_block_without_branches_and_a_pipeline_that_runs_once_are_shown() -> None:
    empty = ParallelNode("0", "duel", (), (), {}, ())
    assert graph_lines(plan_of(empty, nested("n", stage("a"))))[1:5] == [
        "",
        "  duel:  in parallel",
        "    → n",
        "",
    ]


def test_a_check_is_shown_with_all_that_it_says() -> None:
    assert check_line(TEST) == "test at the end: pytest -q (reads the output of pytest; at most 10m 00s)"
    full = Check("red\x1b", "make\nred", "fail", "junit", "out/r.xml", 30.0, ("start",), network=True)
    assert check_line(full) == (
        "red� before the first iteration: make red"
        " (must fail; reads JUnit XML from out/r.xml; with network; at most 30s)"
    )
    assert (
        check_line(Check("a", "true", at=("iteration",))) == "a after each iteration: true (at most 10m 00s)"
    )
    twice = "a before the first iteration and at the end: true (at most 10m 00s)"
    assert check_line(Check("a", "true", at=("start", "end"))) == twice
    red = Check("a", "true", expect="red", red_tolerance=0.3)
    assert "(its tests must fail, at most 30% may pass; at most 10m 00s)" in check_line(red)
    criteria = Check("criteria", at=("iteration",), criteria=True)
    assert check_line(criteria) == (
        "criteria after each iteration for each item: the criteria that the engine verifies"
    )
    named = Check("a", "b", at=("iteration",), criteria=True)
    assert check_line(named).startswith("a after each iteration for each item whose criteria name it: b (")
    only_new = Check("a", "b", parse="lines", regressions=True)
    assert check_line(only_new) == (
        "a at the end: b (only new failures count; reads lines of a linter; at most 10m 00s)"
    )
    rule = FileRule("a.md", contains=("x", "y"), absent=("z",), heading=("Use",))
    assert check_line(Check("a", file=rule, expect="fail")) == (
        "a at the end: file a.md contains 'x', 'y', doesn't contain 'z', has heading 'Use' (must fail)"
    )
    assert check_line(Check("a", file=FileRule("a.md"))) == "a at the end: file a.md exists"
    assert check_line(Check("a", scope=("src/**", "b"))) == "a at the end: only src/**, b may change"


def test_checks_that_are_left_out_are_shown() -> None:
    plan = plan_of(stage("verify", left_out={"lint": "there is none"}))
    assert "    check lint is not run: there is none" in graph_lines(plan)


def test_lint_shows_checks_and_the_routes_that_are_not_to_the_next_node() -> None:
    assert list(lint_lines(feature())) == [
        "check of verify: test at the end: pytest -q (reads the output of pytest; at most 10m 00s)",
        "route of verify: fail → build (back, at most 3 cycles)",
        "route of verify: reject → plan (back, at most 3 cycles)",
        "route of verify: blocking → a person is asked",
        "route of verify: trivial → ship (skips docs)",
        "route of verify: enough → the end",
    ]


def test_a_dry_run_shows_checks_verdicts_and_limits() -> None:
    lines = preview(feature(), RunLayout("/run", "auth"))
    start = lines.index("- Check: test at the end: pytest -q (reads the output of pytest; at most 10m 00s)")
    assert lines[start + 1 : start + 8] == [
        "- Verdict: pass → docs",
        "- Verdict: fail → build (back, at most 3 cycles)",
        "- Verdict: reject → plan (back, at most 3 cycles)",
        "- Verdict: blocking → a person is asked",
        "- Verdict: trivial → ship (skips docs)",
        "- Verdict: enough → the end",
        "- Cycles: a person is asked at the limit, after 2 visits without progress, or after 3 visits"
        " with the same failure",
    ]
    assert sum(line.startswith("- Verdict") for line in lines) == 6


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def lines_of(picture: str, action: str) -> int:
    return picture.count(f'marker-end="url(#{action})"')


def test_the_picture_has_a_box_for_each_node_and_a_line_for_each_route() -> None:
    picture = graph_svg(feature())
    assert [lines_of(picture, action) for action in ("next", "back", "skip")] == [4, 2, 1]
    assert len(list(ET.fromstring(picture).iter(f"{SVG}rect"))) == 6
    assert "check test: pytest -q" in texts(picture)
    assert "fail → build (back, at most 3 cycles)" in texts(picture)


def test_the_picture_has_the_nodes_inside_blocks_and_nested_pipelines() -> None:
    draft, critique = stage("draft"), stage("critique", routes=(Route("reject", "go", "draft"),))
    picture = graph_svg(plan_of(block("claude codex", draft, critique), nested("n", stage("a"))))
    assert texts(picture) == [
        *("refine", "duel: claude, codex in parallel", "draft", "critique"),
        *("fail → the run fails", "reject → draft (back, at most 3 cycles)", "n: pipeline n.yaml", "a"),
    ]
    assert [lines_of(picture, action) for action in ("next", "back")] == [2, 1]


def test_lines_beside_each_other_do_not_overlap() -> None:
    """Two routes over the same nodes have lanes of their own; the shorter one is next to the boxes."""
    picture = graph_svg(feature())
    paths = [
        element
        for element in ET.fromstring(picture).iter(f"{SVG}path")
        if "url(#back)" in str(element.attrib)
    ]
    columns = [float(path.attrib["d"].split("H")[1].split("V")[0]) for path in paths]
    assert columns[0] < columns[1]


def test_a_node_without_a_way_to_the_next_one_has_no_line_to_it() -> None:
    first = stage("a", routes=(Route("pass", "end"),))
    assert lines_of(graph_svg(plan_of(first, stage("b"))), "next") == 0


def test_texts_of_a_definition_are_escaped_in_the_picture() -> None:
    odd = Check("x", "echo '<script>alert(1)</script>' & \x1b[31m")
    picture = graph_svg(plan_of(stage("a", checks=(odd,))))
    assert "<script" not in picture
    assert "\x1b" not in picture
    assert "check x: echo '<script>alert(1)</script>' & �[31m" in texts(picture)


def test_the_picture_of_a_plan_without_nodes_is_valid() -> None:
    assert texts(graph_svg(plan_of())) == ["refine"]


def test_approvals_checkpoints_and_hooks_are_shown_in_the_text_and_the_picture() -> None:
    build = stage("build", approve=Approval(by="agent"), checkpoint="ship")
    inside = block("claude", stage("x", approve=Approval(timeout=60, on_timeout="approve")))
    plan = plan_of(build, inside, nested("n", stage("a")))
    hooks = (
        Hook("before", "session_start", "pause"),
        Hook("own", "stage_end", "confirm", stage="build", condition=THIRD),
        Hook("each", "iteration_end", "script", script="true"),
        Hook("branch", "parallel_provider_end", "pause"),
    )
    plan = replace(plan, pipeline=replace(plan.pipeline, hooks=hooks))
    wanted = {
        "hook before: pause at session_start": 1,
        "checkpoint ship: a person approves before it is entered": 1,
        "approval: a person or another agent approves its result": 1,
        "approval: a person approves its result; after 1m 00s without an answer: approve": 1,
        "hook own: confirm at stage_end, if iteration > 3": 1,
        "hook each: script at iteration_end": 3,
        "hook branch: pause at parallel_provider_end": 1,
    }
    lines = [line.strip() for line in graph_lines(plan)]
    assert {line: lines.count(line) for line in wanted} == wanted
    picture = unescape(graph_svg(plan))
    assert {line: picture.count(f">{line}<") for line in wanted} == wanted


def test_the_checkpoint_of_a_block_is_shown_before_its_stages() -> None:
    lines = [
        line.strip() for line in graph_lines(plan_of(replace(block("claude", stage()), checkpoint="ship")))
    ]
    assert lines.index("checkpoint ship: a person approves before it is entered") < lines.index("plan")


def test_required_nodes_are_shown() -> None:
    inner = nested("n", stage("a"), stage("b"))
    inner = replace(inner, plan=replace(inner.plan, pipeline=replace(inner.plan.pipeline, require=("b",))))
    plan = plan_of(stage("plan"), inner)
    plan = replace(plan, pipeline=replace(plan.pipeline, require=("plan",)))
    titles = [line.strip() for line in graph_lines(plan) if "required" in line]
    assert titles == ["plan, required", "b, required"]
    assert "- Required nodes: plan" in preview(plan, RunLayout("/project", "auth"))


def test_items_and_artifacts_are_shown() -> None:
    plan = plan_of(
        stage("plan", artifact=ArtifactRule({}, version="1.2")),
        stage("build", 10, termination=Items(10, "plan.steps")),
    )
    assert graph_lines(plan)[2:6] == [
        "  plan",
        "    leaves an artifact, version 1.2",
        "    pass → build",
        "",
    ]
    assert graph_lines(plan)[6] == "  build, one iteration for each item of plan.steps"
    assert [(node.items, node.artifact) for node in graph(plan)] == [(None, "1.2"), ("plan.steps", None)]
    assert "one iteration for each" in " ".join(texts(graph_svg(plan)))
