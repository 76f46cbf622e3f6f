"""Parallel input resolution end to end: what a stage's context.json says of earlier stages and blocks."""

import json
from pathlib import Path
from typing import Any

from tests.sdk.blocks import block, branch_dir, engine, inner, inputs_of, iteration, players, speaks
from tests.sdk.projects import load, node, pipeline, run, run_dir

from agentforge.ports.provider import ExecuteRequest
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, crashes, says
from agentforge.views.results import RunResult

TWO = ["claude", "codex"]


def go(project: Path, *nodes: dict[str, Any], providers: dict[str, ScriptedProvider] | None = None) -> None:
    async def main() -> RunResult:
        async with engine(project, providers) as sdk:
            return await sdk.run(pipeline(*nodes), session="s")

    result = run(main())
    assert result.completed, result.error


def after(**inputs: Any) -> dict[str, Any]:
    return node("merge", provider="claude", inputs=inputs, retry={"initial_delay": 0})


def merged(project: Path, folder: str = "stage-01-merge") -> Any:
    return inputs_of(run_dir(project) / folder / "iterations" / "001")["from_parallel"]


def output(
    project: Path, provider: str, number: int = 1, block: str = "parallel-00-duel", stage: int = 0
) -> str:
    names = ("draft", "check")
    here = branch_dir(project, provider, block) / f"stage-{stage:02d}-{names[stage]}"
    return f"{here}/iterations/{number:03d}/output.md"


def events(project: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir(project) / "events.jsonl").read_bytes().splitlines()]


def test_from_parallel_as_string_shorthand_resolves_to_all_providers_latest_outputs(tmp_path: Path) -> None:
    go(tmp_path, block(["codex", "claude"], inner(runs=2)), after(from_parallel="draft"))
    found = merged(tmp_path)
    assert (found["stage"], found["block"], found["select"]) == ("draft", "duel", "latest")
    assert found["manifest"] == str(run_dir(tmp_path) / "parallel-00-duel" / "manifest.json")
    assert list(found["providers"]) == TWO, "provider keys are sorted"
    for name in TWO:
        assert found["providers"][name] == {
            "output": output(tmp_path, name, 2),
            "status": output(tmp_path, name, 2).replace("output.md", "status.json"),
            "iterations": 2,
            "termination_reason": "fixed",
            "history": [],
        }


def test_from_parallel_as_object_with_provider_filter_resolves_to_filtered_providers_only(
    tmp_path: Path,
) -> None:
    go(
        tmp_path,
        block([*TWO, {"name": "third", "type": "claude"}], inner()),
        after(from_parallel={"stage": "draft", "providers": ["codex", "third"]}),
    )
    assert list(merged(tmp_path)["providers"]) == ["codex", "third"]


def test_select_history_lists_the_outputs_of_all_iterations_in_order(tmp_path: Path) -> None:
    go(
        tmp_path,
        block(TWO, inner(runs=3)),
        after(from_parallel={"stage": "draft", "block": "duel", "select": "history"}),
    )
    found = merged(tmp_path)
    assert found["select"] == "history"
    for name in TWO:
        assert found["providers"][name]["output"] == output(tmp_path, name, 3)
        assert found["providers"][name]["history"] == [output(tmp_path, name, n) for n in (1, 2, 3)]


def test_from_parallel_as_array_resolves_each_entry_independently(tmp_path: Path) -> None:
    go(
        tmp_path,
        block(TWO, inner(runs=2), inner("check")),
        after(
            from_parallel=[
                {"stage": "draft", "providers": ["claude"], "select": "history"},
                {"stage": "check", "providers": ["codex"]},
                "draft",
            ]
        ),
    )
    first, second, third = merged(tmp_path)
    assert {name: found["history"] for name, found in first["providers"].items()} == {
        "claude": [output(tmp_path, "claude", 1), output(tmp_path, "claude", 2)]
    }
    assert {name: found["output"] for name, found in second["providers"].items()} == {
        "codex": output(tmp_path, "codex", stage=1)
    }
    assert list(third["providers"]) == TWO


def test_array_of_one_entry_is_an_array_in_the_context(tmp_path: Path) -> None:
    go(tmp_path, block(TWO, inner()), after(from_parallel=[{"stage": "draft"}]))
    assert [entry["stage"] for entry in merged(tmp_path)] == ["draft"]


def test_array_from_parallel_with_mixed_stages_of_different_blocks(tmp_path: Path) -> None:
    go(
        tmp_path,
        block(TWO, inner(), id="ideate"),
        block(TWO, inner("check"), id="evaluate"),
        after(
            from_parallel=[
                {"stage": "draft", "providers": ["claude"]},
                {"stage": "check", "block": "evaluate", "providers": ["codex"]},
            ]
        ),
    )
    ideas, rated = merged(tmp_path, "stage-02-merge")
    assert (ideas["block"], rated["block"]) == ("ideate", "evaluate")
    assert ideas["providers"]["claude"]["output"] == output(tmp_path, "claude", block="parallel-00-ideate")
    here = branch_dir(tmp_path, "codex", "parallel-01-evaluate")
    assert rated["providers"]["codex"]["output"] == f"{here}/stage-00-check/iterations/001/output.md"
    assert ideas["manifest"] != rated["manifest"]


def test_same_stage_id_in_two_blocks_is_distinguished_by_the_block(tmp_path: Path) -> None:
    go(
        tmp_path,
        block(TWO, inner(), id="one"),
        block(TWO, inner(), id="two"),
        after(from_parallel={"stage": "draft", "block": "two"}),
    )
    found = merged(tmp_path, "stage-02-merge")
    assert found["providers"]["claude"]["output"] == output(tmp_path, "claude", block="parallel-01-two")


def test_per_provider_inputs_give_each_provider_what_it_is_configured_for(tmp_path: Path) -> None:
    providers = [
        {"name": "claude", "inputs": {"from_parallel": {"stage": "draft", "select": "history"}}},
        {"name": "codex", "inputs": {"from": "plan"}},
    ]
    go(
        tmp_path,
        node("plan", provider="claude"),
        block(TWO, inner(runs=2), id="ideate"),
        block(providers, inner("check"), id="rate"),
    )
    rated = {
        name: inputs_of(iteration(tmp_path, name, stage="stage-00-check", block="parallel-02-rate"))
        for name in TWO
    }
    assert [len(found["history"]) for found in rated["claude"]["from_parallel"]["providers"].values()] == [
        2,
        2,
    ]
    assert rated["claude"]["from_stage"] == {}
    assert rated["codex"]["from_parallel"] == {}
    plan = run_dir(tmp_path) / "stage-00-plan" / "iterations" / "001" / "output.md"
    assert rated["codex"]["from_stage"] == {"plan": [str(plan)]}


def test_cross_evaluation_gives_each_provider_the_other_s_output(tmp_path: Path) -> None:
    providers = [
        {"name": "claude", "inputs": {"from_parallel": {"stage": "draft", "providers": ["codex"]}}},
        {"name": "codex", "inputs": {"from_parallel": {"stage": "draft", "providers": ["claude"]}}},
    ]
    go(tmp_path, block(TWO, inner(), id="generate"), block(providers, inner("check"), id="evaluate"))
    for name, other in (("claude", "codex"), ("codex", "claude")):
        here = iteration(tmp_path, name, stage="stage-00-check", block="parallel-01-evaluate")
        found = inputs_of(here)["from_parallel"]["providers"]
        assert {who: one["output"] for who, one in found.items()} == {
            other: output(tmp_path, other, block="parallel-00-generate")
        }
        assert Path(found[other]["output"]).read_text() == f"{other} draft 1\n"


def test_provider_model_override_in_object_format_overrides_the_stage_default(tmp_path: Path) -> None:
    stage = tmp_path / ".claude" / "stages" / "think"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text("name: think\nmodel: small\ndelay: 0\n")
    (stage / "prompt.md").write_text("think")
    cast = players()
    providers = [
        {"name": "claude", "model": "opus"},
        "codex",
        {"name": "third", "type": "claude", "model": "x"},
    ]
    stages = ({"id": "a", "stage": "think"}, {"id": "b", "stage": "think", "model": "own"})
    go(tmp_path, block(providers, *stages), providers=cast)
    models = {(call.stage, call.model) for call in cast["claude"].calls}
    assert models == {("a", "opus"), ("a", "x"), ("b", "own")}
    started = [
        (event["data"]["provider"], event["data"]["model"], event["cursor"]["provider"])
        for event in events(tmp_path)
        if event["type"] == "iteration_start" and event["cursor"]["node_path"] == "0.0"
    ]
    assert ("claude", "opus", "claude") in started
    assert ("claude", "x", "third") in started


def test_stage_of_a_branch_takes_what_an_earlier_stage_of_the_same_branch_left(tmp_path: Path) -> None:
    """The branch's own directory is looked at first, then the session's."""
    go(
        tmp_path,
        node("plan", provider="claude"),
        block(TWO, inner(runs=2), inner("check", inputs={"from": ["draft", "plan"]})),
    )
    for name in TWO:
        here = iteration(tmp_path, name, stage="stage-01-check", block="parallel-01-duel")
        assert inputs_of(here)["from_stage"] == {
            "draft": [output(tmp_path, name, 2, "parallel-01-duel")],
            "plan": [str(run_dir(tmp_path) / "stage-00-plan/iterations/001/output.md")],
        }


def test_branch_stage_of_the_same_name_as_an_outer_stage_wins_inside_its_branch(tmp_path: Path) -> None:
    go(
        tmp_path,
        node("draft", provider="claude"),
        block(TWO, inner(), inner("check", inputs={"from": "draft"})),
    )
    here = iteration(tmp_path, "codex", stage="stage-01-check", block="parallel-01-duel")
    assert inputs_of(here)["from_stage"] == {"draft": [output(tmp_path, "codex", 1, "parallel-01-duel")]}


def test_from_stage_select_latest_and_all(tmp_path: Path) -> None:
    go(
        tmp_path,
        node("plan", provider="claude", runs=3),
        node("one", provider="claude", inputs={"from": "plan"}),
        node("two", provider="claude", inputs={"from": "plan", "select": "all"}),
        node("three", provider="claude", inputs={"from": ["two", "one"], "select": "history"}),
    )
    found = {
        name: inputs_of(run_dir(tmp_path) / name / "iterations" / "001")["from_stage"]
        for name in ("stage-01-one", "stage-02-two", "stage-03-three")
    }
    plan = run_dir(tmp_path) / "stage-00-plan" / "iterations"
    assert found["stage-01-one"] == {"plan": [f"{plan}/003/output.md"]}
    assert found["stage-02-two"] == {"plan": [f"{plan}/{n:03d}/output.md" for n in (1, 2, 3)]}
    assert list(found["stage-03-three"]) == ["one", "two"], "keys are sorted"


def test_stage_without_output_has_an_empty_list(tmp_path: Path) -> None:
    silent = players(codex=lambda _: says("done", output=""))
    go(
        tmp_path,
        node("quiet", provider="codex"),
        block(TWO, inner()),
        node("merge", provider="claude", inputs={"from": "quiet", "from_parallel": "draft"}),
        providers=silent,
    )
    found = inputs_of(run_dir(tmp_path) / "stage-02-merge" / "iterations" / "001")
    assert found["from_stage"] == {"quiet": []}
    assert found["from_parallel"]["providers"]["codex"]["output"] is None
    assert found["from_parallel"]["providers"]["codex"]["iterations"] == 1


def test_inputs_come_from_the_log_and_never_from_other_files(tmp_path: Path) -> None:
    """Files without an event are never inputs, even at the path of an output."""

    def litters(request: ExecuteRequest) -> Act:
        stray = Path(request.result_path).parents[1] / "007"
        stray.mkdir(exist_ok=True)
        (stray / "output.md").write_text("stray")
        return says("clean")

    go(
        tmp_path,
        node("plan", provider="codex", runs=2),
        node("merge", provider="claude", inputs={"from": "plan", "select": "all"}),
        providers=players(codex=litters),
    )
    found = inputs_of(run_dir(tmp_path) / "stage-01-merge" / "iterations" / "001")["from_stage"]["plan"]
    assert [Path(path).parent.name for path in found] == ["001", "002"]


def test_inputs_after_a_resume_are_the_same(tmp_path: Path) -> None:
    nodes = (block(TWO, inner(runs=2)), after(from_parallel={"stage": "draft", "select": "history"}))
    failing = players(claude=lambda request: crashes() if request.stage == "merge" else speaks(request))

    async def main() -> RunResult:
        async with engine(tmp_path, failing) as sdk:
            assert (await sdk.run(pipeline(*nodes), session="s")).status == "failed"
        context = run_dir(tmp_path) / "stage-01-merge" / "iterations" / "001" / "context.json"
        before = context.read_bytes()
        context.unlink()
        async with engine(tmp_path) as sdk:
            result = await sdk.resume("s")
        assert context.read_bytes() == before
        return result

    assert run(main()).completed


def test_deterministic_ordering_of_all_inputs(tmp_path: Path) -> None:
    """Two runs of the same pipeline say the same in every context, apart from where they lie."""
    texts = []
    for name in ("first", "second"):
        project = tmp_path / name
        project.mkdir()
        for file in ("b.md", "a.md"):
            (project / file).write_text("x")
        nodes = (
            node("zeta", provider="claude", runs=2),
            node("alpha", provider="codex"),
            block(
                ["codex", "claude"],
                inner(runs=2),
                inner("check", inputs={"from": ["zeta", "draft", "alpha"]}),
            ),
            node(
                "last",
                provider="claude",
                inputs={"from": ["zeta", "alpha"], "from_parallel": ["check", "draft"]},
            ),
        )

        async def main(project: Path = project, nodes: Any = nodes) -> RunResult:
            async with engine(project) as sdk:
                return await sdk.run(pipeline(*nodes), session="s", inputs=["b.md", "a.md"])

        assert run(main()).completed
        contexts = sorted((run_dir(project)).rglob("context.json"))
        texts.append([path.read_text().replace(str(project), "P") for path in contexts])
    assert texts[0] == texts[1]
    last = load(run_dir(tmp_path / "first") / "stage-03-last" / "iterations" / "001" / "context.json")[
        "inputs"
    ]
    assert [Path(path).name for path in last["from_initial"]] == ["a.md", "b.md"]
    assert list(last["from_stage"]) == ["alpha", "zeta"]
    assert [entry["stage"] for entry in last["from_parallel"]] == ["check", "draft"], "as it was written"
