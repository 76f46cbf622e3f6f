"""What stages get of artifacts, items and the run: merged inputs, items in order, briefings in a budget."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.approvals import events
from tests.sdk.blocks import block, branch_dir, inner
from tests.sdk.projects import ENVIRON, engine, iteration_dir, node, pipeline, run, run_dir
from tests.security.trapped_repository import ENVIRON as GIT

from agentforge.model.artifact import INLINE_BYTES
from agentforge.ports.provider import ExecuteRequest
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, returns, says
from agentforge.views.results import RunResult

OBJECT = {"type": "object"}
Acts = dict[str, Act]


def agent(acts: Acts) -> ScriptedProvider:
    """By stage; other stages only say that they are done."""
    return ScriptedProvider(lambda request: acts.get(request.stage, says("done")))


def leaves(**artifact: Any) -> Act:
    return says("left", artifact=artifact)


def each(choose: Callable[[ExecuteRequest], Act]) -> Act:
    return lambda request: choose(request)(request)


def once(act: Act) -> Act:
    """What is done in a first iteration."""
    return lambda request: (act if request.iteration == 1 else says("done"))(request)


def played(project: Path, *nodes: dict[str, Any], acts: Acts | None = None, **more: Any) -> RunResult:
    request = more.pop("request_text", None)
    made = engine(project, agent(acts or {}))
    return run(made.run(pipeline(*nodes, **more), session="s", request=request))


def leaving(id: str, **more: Any) -> dict[str, Any]:
    return node(id, artifact=OBJECT, runs=1, **more)


def context(project: Path, stage: str, number: int = 1) -> Any:
    return json.loads((iteration_dir(project, number, stage) / "context.json").read_bytes())


def prompt(project: Path, stage: str, number: int = 1) -> str:
    return (iteration_dir(project, number, stage) / "prompt.md").read_text()


def without_id(found: dict[str, Any]) -> dict[str, Any]:
    assert found["request_id"].startswith("REQ-")
    return {name: value for name, value in found.items() if name != "request_id"}


def error(project: Path) -> Any:
    return events(project, "error")[-1].fact


def started(project: Path) -> list[Any]:
    return [event.fact for event in events(project, "iteration_start")]


# -- the merge


def test_input_is_the_merge_of_earlier_artifacts_with_the_nearest_last(tmp_path: Path) -> None:
    acts = {"a": leaves(x=1, y={"a": 1}), "b": leaves(y={"b": 2}, z=3), "d": leaves(x="later")}
    assert played(tmp_path, leaving("a"), leaving("b"), node("c", runs=1), leaving("d"), acts=acts).completed
    assert "artifact" not in context(tmp_path, "stage-00-a")
    assert without_id(context(tmp_path, "stage-01-b")["artifact"]) == {"x": 1, "y": {"a": 1}}
    for stage in ("stage-02-c", "stage-03-d"):
        assert without_id(context(tmp_path, stage)["artifact"]) == {"x": 1, "y": {"b": 2}, "z": 3}


def test_input_is_a_file_for_prompts_that_name_it_and_a_path_if_it_is_large(tmp_path: Path) -> None:
    small = node("small", prompt="see ${INPUT_ARTIFACT}", runs=1)
    assert played(tmp_path, leaving("a"), small, acts={"a": leaves(x=1)}).completed
    here = iteration_dir(tmp_path, 1, "stage-01-small")
    assert prompt(tmp_path, "stage-01-small") == f"see {here / 'input.json'}"
    assert json.loads((here / "input.json").read_bytes()) == context(tmp_path, "stage-01-small")["artifact"]


def test_several_small_artifacts_become_a_large_input(tmp_path: Path) -> None:
    half = "x" * (INLINE_BYTES // 2)
    acts = {"a": leaves(x=half), "b": leaves(y=half)}
    assert played(tmp_path, leaving("a"), leaving("b"), node("c", runs=1), acts=acts).completed
    place = iteration_dir(tmp_path, 1, "stage-02-c") / "input.json"
    assert context(tmp_path, "stage-02-c")["artifact"] == str(place)
    assert without_id(json.loads(place.read_bytes())) == {"x": half, "y": half}


def test_stage_that_is_visited_again_gets_its_own_last_artifact(tmp_path: Path) -> None:
    tries = iter(("fail", "pass"))

    def verdict(_: ExecuteRequest) -> Act:
        return says("seen", verdict=next(tries), reason="no tests")

    acts: Acts = {"a": each(lambda r: leaves(x=f"visit {r.result_path.count('run-002') + 1}"))}
    acts["verify"] = each(verdict)
    assert played(tmp_path, leaving("a"), node("verify", runs=1, on={"fail": "a"}), acts=acts).completed
    assert "previous" not in context(tmp_path, "stage-00-a")
    again = json.loads((run_dir(tmp_path) / "stage-00-a/run-002/iterations/001/context.json").read_bytes())
    assert again["previous"] == {"x": "visit 1"}
    assert "artifact" not in again, "its own artifact is no input"
    later = json.loads(
        (run_dir(tmp_path) / "stage-01-verify/run-002/iterations/001/context.json").read_bytes()
    )
    assert later["artifact"]["x"] == "visit 2"
    assert context(tmp_path, "stage-01-verify")["artifact"]["x"] == "visit 1"


def test_earlier_artifacts_have_a_bounded_size_together(tmp_path: Path) -> None:
    def leaves_large(request: ExecuteRequest) -> Act:
        return leaves(**{f"f{request.iteration}": "x" * 13_500_000})

    items = over_items(artifact=OBJECT)
    acts = {"plan": leaves(steps=[{"id": f"s{n}"} for n in range(5)]), "do": each(leaves_large)}
    assert not played(tmp_path, leaving("plan"), items, node("after", runs=1), acts=acts).completed
    assert error(tmp_path).kind.value == "artifact_unusable"
    assert error(tmp_path).message.startswith(
        "the artifacts before stage 'after' have more than 64 MB together"
    )
    assert len(events(tmp_path, "attempt_start")) == 6


def test_filled_field_is_the_request_until_a_later_stage_has_its_own(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["goal", "x"], "additionalProperties": False}
    schema["properties"] = {"goal": {"type": "string"}, "x": {"type": "integer"}}
    first = node("a", runs=1, artifact={"schema": schema, "fill": {"goal": "request"}}, prompt="${SCHEMA}")
    needs = node("b", runs=1, artifact=OBJECT, inputs={"artifact": ["goal"]})
    acts = {"a": leaves(x=1), "b": leaves(goal="refined")}
    nodes = (first, needs, node("c", runs=1))
    wanted = "add ${SESSION}"
    assert played(tmp_path, *nodes, acts=acts, request="required", request_text=wanted).completed
    assert "goal" not in prompt(tmp_path, "stage-00-a"), "the agent's schema lacks what the engine sets"
    given = {"x": 1, "goal": wanted, "original_request": wanted}
    assert without_id(context(tmp_path, "stage-01-b")["artifact"]) == given
    assert without_id(context(tmp_path, "stage-02-c")["artifact"]) == {**given, "goal": "refined"}


@pytest.mark.parametrize("artifact", [{"x": 1}, {"plan": None}])
def test_field_that_is_missing_or_null_fails_the_stage_before_its_agent_starts(
    tmp_path: Path, artifact: dict[str, Any]
) -> None:
    needs = node("b", runs=1, inputs={"artifact": ["plan"]})
    provider = agent({"a": leaves(**artifact)})
    result = run(engine(tmp_path, provider).run(pipeline(leaving("a"), needs), session="s"))
    assert not result.completed
    assert [call.stage for call in provider.calls] == ["a"]
    assert error(tmp_path).message == "stage 'b' needs `plan` of an earlier artifact"
    assert error(tmp_path).kind.value == "artifact_unusable"
    assert len(events(tmp_path, "attempt_start")) == 1


TWO = [{"name": "p", "type": "scripted"}, {"name": "q", "type": "scripted"}]


def test_branches_have_artifacts_of_their_own_whose_paths_the_next_stage_gets(tmp_path: Path) -> None:
    made = each(lambda r: leaves(who=r.branch))
    nodes = (
        leaving("a"),
        block(TWO, inner("draft", artifact=OBJECT, runs=1), inner("review", runs=1)),
        node("merge", runs=1, inputs={"from_parallel": "draft"}),
    )
    assert played(tmp_path, *nodes, acts={"a": leaves(x=1), "draft": made}).completed
    for provider in ("p", "q"):
        place = (
            branch_dir(tmp_path, provider, "parallel-01-duel") / "stage-01-review/iterations/001/context.json"
        )
        assert without_id(json.loads(place.read_bytes())["artifact"]) == {"x": 1, "who": provider}
    merged = context(tmp_path, "stage-02-merge")
    assert without_id(merged["artifact"]) == {"x": 1}, "not those of the branches"
    for provider, found in merged["inputs"]["from_parallel"]["providers"].items():
        assert json.loads(Path(found["artifact"]).read_bytes()) == {"who": provider}


# -- items

STEPS = [{"id": "s2", "after": ["s1"]}, {"id": "s1", "title": "${CTX} -----"}, {"id": "s3"}]


def over_items(**more: Any) -> dict[str, Any]:
    return node("do", termination={"type": "items", "from": "plan.steps"}, **{"prompt": "do ${ITEM}", **more})


def item_of(request: ExecuteRequest) -> Any:
    return json.loads(Path(request.context_path).read_bytes())["item"]


def test_items_are_done_in_order_each_with_what_the_list_says(tmp_path: Path) -> None:
    acts = {"plan": leaves(steps=STEPS), "do": each(lambda r: leaves(did=item_of(r)["id"]))}
    nodes = (leaving("plan"), over_items(artifact=OBJECT), node("verify", runs=1))
    assert played(tmp_path, *nodes, acts=acts).completed
    items = [context(tmp_path, "stage-01-do", number)["item"] for number in (1, 2, 3)]
    assert [item["id"] for item in items] == ["s1", "s2", "s3"]
    assert [fact.item for fact in started(tmp_path)] == ["", "s1", "s2", "s3", ""]
    first = prompt(tmp_path, "stage-01-do")
    assert "one item of a list, 1 of 3" in first
    assert '{"id":"s1","title":"${CTX} -----"}\n----- end of item s1 ' in first, "as data"
    found = without_id(context(tmp_path, "stage-02-verify")["artifact"])
    assert found == {"steps": STEPS, "do": {id: {"did": id} for id in ("s1", "s2", "s3")}}


def test_empty_list_completes_the_stage_and_leaves_no_artifacts_of_items(tmp_path: Path) -> None:
    needs = node("verify", runs=1, inputs={"artifact": ["do"]})
    provider = agent({"plan": leaves(steps=[])})
    nodes = (leaving("plan"), over_items(artifact=OBJECT), needs)
    assert run(engine(tmp_path, provider).run(pipeline(*nodes), session="s")).completed
    assert [call.stage for call in provider.calls] == ["plan", "verify"]
    assert context(tmp_path, "stage-02-verify")["artifact"]["do"] == {}


CYCLE = [{"id": "s1", "after": ["s2"]}, {"id": "s2", "after": ["s1"]}]
BAD_LISTS = {
    "a cycle": (CYCLE, "in a cycle"),
    "an unknown id": ([{"id": "s1", "after": ["s9"]}], "no item has the id `s9`"),
    "a duplicate": ([{"id": "s1"}, {"id": "S1"}], "is the id of $.steps[0], too"),
    "a path": ([{"id": "../x"}], "use letters, digits"),
    "too many": ([{"id": f"s{n}"} for n in range(4)], "it has 4 items; the maximum is 3"),
}


@pytest.mark.parametrize(("steps", "problem"), BAD_LISTS.values(), ids=BAD_LISTS)
def test_list_that_cannot_be_worked_through_is_healed_where_it_was_made(
    tmp_path: Path, steps: list[Any], problem: str
) -> None:
    provider = ScriptedProvider([leaves(steps=steps), leaves(steps=STEPS), says("done")])
    items = node("do", prompt="do", termination={"type": "items", "from": "plan.steps", "max": 3})
    assert run(engine(tmp_path, provider).run(pipeline(leaving("plan"), items), session="s")).completed
    assert [call.stage for call in provider.calls] == ["plan", "plan", "do", "do", "do"]
    assert problem in error(tmp_path).message
    assert problem in provider.calls[1].prompt


def test_large_list_that_was_edited_fails_the_next_item_before_its_agent_starts(tmp_path: Path) -> None:
    steps = [{"id": f"s{n}", "notes": "x" * INLINE_BYTES} for n in (1, 2)]

    def edits(request: ExecuteRequest) -> Act:
        place = iteration_dir(tmp_path, 1, "stage-00-plan") / "artifact.json"
        place.write_text(place.read_text().replace("s2", "s9"))
        return says("done")

    provider = agent({"plan": leaves(steps=steps), "do": each(edits)})
    assert not run(
        engine(tmp_path, provider).run(pipeline(leaving("plan"), over_items()), session="s")
    ).completed
    assert [call.stage for call in provider.calls] == ["plan", "do"]
    assert "was changed: SHA-256" in error(tmp_path).message


def test_item_that_is_done_again_gets_its_own_artifact_and_the_failures(tmp_path: Path) -> None:
    check = {"name": "test", "run": "test -e repaired", "at": "iteration"}

    def does(request: ExecuteRequest) -> Act:
        if request.iteration == 2:
            (tmp_path / "repaired").touch()
        return leaves(n=request.iteration)

    items = over_items(artifact=OBJECT, checks=[check])
    one = {"plan": leaves(steps=[{"id": "s1"}]), "do": each(does)}
    assert played(tmp_path, leaving("plan"), items, acts=one).completed
    again = context(tmp_path, "stage-01-do", 2)
    assert (again["item"]["id"], again["previous"]) == ("s1", {"n": 1})
    assert "check 'test': fail" in again["feedback"]["text"]
    assert [event.fact.status for event in events(tmp_path, "item_ended")] == ["done"]


def test_what_is_repeated_after_a_new_list_is_up_to_the_list(tmp_path: Path) -> None:
    """And not to the names in the verdict that asked for it: they are of the old one."""
    old = [{"id": "s1"}, {"id": "s2"}]
    lists = iter((old, [{"id": "s1"}, {"id": "s2", "note": "with a test"}]))
    verdicts = iter(
        (says("seen", verdict="fail", reason="no test", items=["s1"]), says("seen", verdict="pass"))
    )
    done: list[str] = []

    def does(request: ExecuteRequest) -> Act:
        done.append(json.loads(Path(request.context_path).read_bytes())["item"]["id"])
        return says("done")

    acts = {
        "plan": each(lambda _: leaves(steps=next(lists))),
        "do": each(does),
        "review": each(lambda _: next(verdicts)),
    }
    review = node("review", runs=1, on={"fail": "plan"})
    assert played(tmp_path, leaving("plan"), over_items(), review, acts=acts).completed
    assert done == ["s1", "s2", "s2"]


def test_only_a_stage_that_may_return_items_is_asked_for_them(tmp_path: Path) -> None:
    provider = agent({"plan": leaves(steps=[{"id": "s1"}])})
    nodes = (leaving("plan"), over_items(), node("verify", runs=1, on={"fail": "do"}))
    assert run(engine(tmp_path, provider).run(pipeline(*nodes), session="s")).completed
    asked = [(call.stage, call.returns_items) for call in provider.calls]
    assert asked == [("plan", False), ("do", False), ("verify", True)]


# -- briefings and budgets


def budgeted(total: int, **more: Any) -> dict[str, Any]:
    return node("b", runs=1, tokens={"total": total, "reserve": 0}, **more)


def test_log_has_what_an_iteration_was_given_and_what_was_left_out(tmp_path: Path) -> None:
    acts = {"a": leaves(text="y" * 4_000)}
    stage = budgeted(500, context_strategy="full", prompt="go ${BRIEFING}")
    nodes = (leaving("a"), stage)
    wanted = "add a slugify function"
    assert played(tmp_path, *nodes, acts=acts, request="required", request_text=wanted).completed
    _, second = started(tmp_path)
    used, text = second.context, prompt(tmp_path, "stage-01-b")
    assert (used.strategy, used.budget, used.estimator) == ("full", 500, "utf8-bytes/4")
    assert used.tokens == -(-len(text.encode()) // 4) <= 500
    assert [part.name for part in used.omitted] == ["input artifact"]
    assert wanted in text
    assert "yyyy" not in text
    here = iteration_dir(tmp_path, 1, "stage-01-b")
    assert context(tmp_path, "stage-01-b")["briefing"] == str(here / "briefing.md")
    assert text == f"go {(here / 'briefing.md').read_text()}"


@pytest.mark.parametrize("often", [1, 2, 3, 9])
def test_prompt_with_a_variable_more_than_once_fits(tmp_path: Path, often: int) -> None:
    stage = budgeted(2_000, context_strategy="full", prompt="go" + " ${BRIEFING}" * often)
    acts = {"a": says("left", output="y" * 7_000)}
    assert played(tmp_path, node("a", runs=1), stage, acts=acts).completed
    used = started(tmp_path)[1].context
    assert used.tokens == -(-len(prompt(tmp_path, "stage-01-b").encode()) // 4) <= 2_000
    (cut,) = used.omitted if often > 1 else (None,)
    assert cut is None or cut.kept > 1_500 // often // 2, "some of it is kept"


def test_briefing_without_a_budget_has_everything(tmp_path: Path) -> None:
    stage = node("b", runs=1, context_strategy="full", prompt="go ${BRIEFING}")
    assert played(tmp_path, leaving("a"), stage, acts={"a": leaves(text="y" * 400_000)}).completed
    assert "y" * 400_000 in prompt(tmp_path, "stage-01-b")
    used = started(tmp_path)[1].context
    assert (used.budget, used.omitted) == (None, ())
    assert used.tokens == -(-len(prompt(tmp_path, "stage-01-b").encode()) // 4)


def test_trees_of_a_finished_visit_are_compared_once(tmp_path: Path) -> None:
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "none")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, env=GIT)

    script = 'cat > /dev/null; echo made > made.py; echo \'{"summary": "done"}\' > "$AGENTFORGE_RESULT"'
    changes = node("a", runs=1, provider={"type": "command", "run": script})

    def forgets(request: ExecuteRequest) -> Any:
        (run_dir(tmp_path) / "trees").rename(tmp_path / "moved")
        return says("forgot")(request)

    looks = node("b", runs=2, context_strategy="summary", prompt="${BRIEFING}")
    assert played(tmp_path, changes, looks, acts={"b": once(forgets)}).completed
    for number in (1, 2):
        told = prompt(tmp_path, "stage-01-b", number)
        assert "files changed by a" in told
        assert "made.py" in told
        # The content can only be read while the folder is there.
        assert ("change since the run began" in told, "\n+made\n" in told) == (number == 1, number == 1)


def test_user_request_that_does_not_fit_fails_before_an_agent_starts(tmp_path: Path) -> None:
    provider = agent({})
    plan = pipeline(budgeted(200, prompt="go ${REQUEST}"), request="required")
    assert not run(engine(tmp_path, provider).run(plan, session="s", request="x" * 780)).completed
    assert provider.calls == []
    assert (error(tmp_path).kind.value, error(tmp_path).started) == ("context_too_large", True)
    assert "its budget is 200" in error(tmp_path).message
    assert events(tmp_path, "attempt_start") == []


@pytest.mark.parametrize("strategy", [None, "focused"])
def test_item_that_does_not_fit_fails_before_its_agent_starts(tmp_path: Path, strategy: str | None) -> None:
    steps = [{"id": "s1"}, {"id": "s2", "text": "x" * 4_000}]
    brief = {"context_strategy": strategy} if strategy else {}
    items = over_items(tokens={"total": 800, "reserve": 0}, prompt="do", **brief)
    provider = agent({"plan": leaves(steps=steps)})
    assert not run(engine(tmp_path, provider).run(pipeline(leaving("plan"), items), session="s")).completed
    assert [call.stage for call in provider.calls] == ["plan", "do"]
    assert error(tmp_path).kind.value == "context_too_large"


def test_schema_counts(tmp_path: Path) -> None:
    schema = {"type": "object", "description": "x" * 4_000}
    provider = agent({})
    stage = budgeted(800, artifact={"schema": schema})
    assert not run(engine(tmp_path, provider).run(pipeline(stage), session="s")).completed
    assert provider.calls == []


@pytest.mark.parametrize("strategy", ["full", "focused", "minimal", "summary"])
def test_secrets_are_not_in_what_a_stage_is_told(tmp_path: Path, strategy: str) -> None:
    secret = "s3cret-value-42"
    environ = {**ENVIRON, "DEPLOY_TOKEN": secret}
    acts = {
        "plan": says(
            f"uses {secret}", output=f"printed {secret}", artifact={"steps": [{"id": "s1", "t": secret}]}
        ),
        "do": returns(f"used {secret}", artifact={"t": secret}),
    }
    items = over_items(artifact=OBJECT, context_strategy=strategy, prompt="do ${BRIEFING}")
    last = node("b", runs=1, context_strategy=strategy, prompt="see ${BRIEFING} ${INPUT_ARTIFACT}")
    provider = agent(acts)
    made = engine(tmp_path, provider, environ=environ)
    plan = pipeline(leaving("plan"), items, last, request="required")
    assert run(made.run(plan, session="s", request=f"with {secret}")).completed
    for path in run_dir(tmp_path).rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    # What a person wrote is the agent's to know.
    told = [secret in call.prompt for call in provider.calls]
    assert told == [False, strategy in ("full", "summary"), strategy in ("full", "summary")]


BEFORE = """\
{
  "session": "s",
  "pipeline": "refine",
  "stage": {
    "id": "b",
    "index": 1,
    "template": "b"
  },
  "iteration": 1,
  "paths": {
    "session_dir": "RUN",
    "stage_dir": "RUN/stage-01-b",
    "progress": "RUN/stage-01-b/progress.md",
    "output": "RUN/stage-01-b/iterations/001/output.md",
    "status": "RUN/stage-01-b/iterations/001/status.json",
    "result": "RUN/stage-01-b/iterations/001/result.json"
  },
  "inputs": {
    "from_initial": [],
    "from_stage": {
      "a": [
        "RUN/stage-00-a/iterations/001/output.md"
      ]
    },
    "from_parallel": {},
    "from_previous_iterations": [],
    "from_previous_iterations_omitted": 0
  },
  "limits": {
    "max_iterations": 1,
    "remaining_seconds": -1
  },
  "commands": {},
  "parallel_scope": null
}
"""


@pytest.mark.parametrize("others", [{}, {"context_strategy": "full", "tokens": 9_000}])
def test_stage_without_the_keys_gets_what_it_always_got(tmp_path: Path, others: dict[str, Any]) -> None:
    """Also beside stages that have them."""
    stage = node("b", runs=1, prompt="see ${CTX} of ${SESSION}", inputs={"from": "a"})
    assert played(tmp_path, node("a", runs=1, **others), stage).completed
    here, root = iteration_dir(tmp_path, 1, "stage-01-b"), str(run_dir(tmp_path))
    assert (here / "context.json").read_text().replace(root, "RUN") == BEFORE
    assert (here / "prompt.md").read_text() == f"see {here / 'context.json'} of s"
    assert sorted(path.name for path in here.iterdir()) == [
        "context.json",
        "output.md",
        "prompt.md",
        "result.json",
    ]
    assert started(tmp_path)[1].context is None
