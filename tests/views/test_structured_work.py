"""The artifacts, items and contexts of a run that people look at."""

from datetime import UTC
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.views.item_runs import PLAN, STEPS, ItemStory, accepted, at, used
from tests.views.test_work import Story

from agentforge.engine.items import elements_of, planned
from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ArtifactRule, OmittedPart
from agentforge.model.errors import UnusableFile
from agentforge.model.plan import Items
from agentforge.model.result import JSONObject
from agentforge.model.state import Spending
from agentforge.views.lines.entries import EntryRow, RunEntry, Shown
from agentforge.views.lines.structured_work import (
    artifact_entry,
    context_parts,
    context_rows,
    item_entry,
    items_text,
    part_head,
)
from agentforge.views.lines.work import work_line, work_rows
from agentforge.views.prompt import quoted
from agentforge.views.record import record_of
from agentforge.views.structured_work import ItemIteration, ItemWork, artifacts_of, items_of
from agentforge.views.token_budget import parts_in, tokens_of

SHOWN = Shown("/runs/auth", "running", UTC)
LARGE = Artifact("1/artifact.json", 70_000, "a" * 64)


def read(artifact: Artifact) -> JSONObject:
    if artifact.value is None:
        raise UnusableFile(f"{artifact.file} was changed")
    return artifact.value


def items(story: Story) -> list[ItemWork]:
    return items_of(story.fold, read)


def words(story: Story, shown: Shown = SHOWN) -> list[str]:
    return [item_entry(one, shown).title for one in items(story)]


def begun(story: ItemStory, number: int, id: str) -> ItemStory:
    story.add(f.IterationStarted("build", "build", "claude", "opus", "0", item=id), at("1", number))
    return story


def test_a_run_without_items_and_artifacts() -> None:
    assert (items(ItemStory()), artifacts_of(ItemStory().fold, read)) == ([], [])
    assert items_text([]) == "no items"
    assert (items_of(record_of([]), read), artifacts_of(record_of([]), read)) == ([], [])


def test_steps_with_their_titles_and_iterations() -> None:
    story = begun(ItemStory().planned().items().item(1, "s1"), 2, "s2")
    assert words(story) == [
        "build, step 1 of 3, s1 (Parse): done in iteration 1",
        "build, step 2 of 3, s2 (Check): running in iteration 2",
        "build, step 3 of 3, s3: to do",
    ]
    assert items_text(items(story)) == "3 items: 1 done, 1 under way, 1 to do"
    assert words(story, replace(SHOWN, status="interrupted"))[1].endswith(
        "s2 (Check): interrupted in iteration 2"
    )
    assert [one.visit for one in items(story)] == [1, 1, None]
    story.complete(at("1", 2), stage="build")
    again = begun(story, 3, "s2")
    assert words(again)[1] == "build, step 2 of 3, s2 (Check): running in iteration 2, 3"


def test_a_failed_step_blocks_those_behind_it() -> None:
    steps = {"steps": [*STEPS["steps"], {"id": "s4", "after": ["s2"]}]}
    story = ItemStory().enter("0").iteration(at("0", 1), artifact=accepted(steps)).items(value=steps)
    story.item(1, "s1", status="failed").item(2, "s3")
    assert [(one.id, one.status, one.reason) for one in items(story)] == [
        ("s1", "failed", "it does not work"),
        ("s2", "blocked", ""),
        ("s3", "done", ""),
        ("s4", "blocked", ""),
    ]
    assert item_entry(items(story)[0], SHOWN).rows == (EntryRow("Reason", "it does not work"),)
    assert item_entry(items(story)[1], SHOWN).rows == (EntryRow("After", "s1"),)
    (work, _) = story.fold.iterations[1:]
    assert {row.label: row.value for row in work_rows(work, None, "running")}["Item"] == (
        "s1: failed: it does not work"
    )
    assert " s1 " in work_line(work, None, "running", 80).title


def test_dropped_and_reopened_steps_stay_in_the_history() -> None:
    story = ItemStory().planned().items().item(1, "s1").item(2, "s2").item(3, "s3")
    shorter = {"steps": STEPS["steps"][:2]}
    story.items(2, shorter, items=("s2",)).item(1, "s2", visit=2)
    assert words(story) == [
        "build, step 1 of 2, s1 (Parse): done in iteration 1",
        "build, step 2 of 2, s2 (Check): done in iteration 2; visit 2, iteration 1",
        "build, s3: dropped, after iteration 3",
    ]
    story = ItemStory().planned().items().item(1, "s1").items(2, {"steps": STEPS["steps"][:1]})
    (_, repair) = items(story)
    assert (repair.id, repair.repair) == ("repair-2", True)
    assert item_entry(repair, SHOWN).title == "build, step 2 of 2, repair-2 (repair): to do"


def test_steps_of_a_branch_and_of_a_list_that_can_not_be_read() -> None:
    vote = stage("vote", termination=Items(10, "plan.steps"))
    story = Story(plan_of(block("claude codex", vote)))
    found: Any = elements_of(STEPS, "steps", 10)
    story.add(planned(found, (), None, 1, "0" * 64), at("0.0", branch="claude"))
    assert words(story)[0] == "vote (claude), step 1 of 3, s1: to do"
    large = ItemStory().enter("0").iteration(at("0", 1), artifact=LARGE).items()
    assert [one.title for one in items(large)] == ["", "", ""]
    # Of a node that the plan doesn't have, as a damaged log may name one.
    story.add(planned(found, (), None, 1, "0" * 64), at("7"))
    assert words(story)[3] == "7, step 1 of 3, s1: to do"


def test_many_iterations_of_a_step_are_cut() -> None:
    many = tuple(ItemIteration(1, number) for number in range(1, 30))
    one = ItemWork("build", "1", None, "s1", 1, 1, "done", iterations=many)
    assert item_entry(one, SHOWN).title.endswith("done in iteration 20, 21, 22, 23, 24, 25, 26, 27, 28, 29")


def history() -> ItemStory:
    story = ItemStory().planned().items()
    for number, id in enumerate(("s1", "s2", "s3"), 1):
        story.item(number, id, artifact=replace(accepted({"did": id}), item=id))
    shorter = {"steps": STEPS["steps"][:2]}
    story.items(2, shorter, items=("s2",))
    return story.item(1, "s2", visit=2, artifact=replace(accepted({"did": "s2 again"}), item="s2"))


def test_latest_artifacts_are_those_that_later_stages_get() -> None:
    found = artifacts_of(history().fold, read, latest=True)
    assert [(one.stage, one.visit, one.iteration, one.item) for one in found] == [
        ("plan", 1, 1, ""),
        ("build", 1, 1, "s1"),
        ("build", 2, 1, "s2"),
    ]
    assert found[2].value == {"did": "s2 again"}
    assert len(artifacts_of(history().fold, read)) == 5
    assert {tuple(one.added) for one in found} == {("request_id",)}


def test_what_the_engine_adds_to_an_artifact_is_beside_it() -> None:
    rule = ArtifactRule({}, fill={"plan_id": "id"})
    story = Story(plan_of(stage("plan", artifact=rule)))
    story.begin(at("0", 1)).complete(at("0", 1), artifact=accepted({"goal": "x"}))
    (one,) = artifacts_of(story.fold, read)
    assert (one.value, list(one.added)) == ({"goal": "x"}, ["plan_id", "request_id"])
    assert artifact_entry(one, SHOWN).rows[2:] == (EntryRow("Added", f"plan_id: {one.added['plan_id']}"),)


def test_artifact_as_text() -> None:
    one = artifacts_of(history().fold, read)[1]
    entry = artifact_entry(one, SHOWN)
    assert (entry.mark, entry.title) == (
        "done",
        "build, visit 1, iteration 1, item s1: 100 bytes, version 1.0",
    )
    lines = ("{", '  "did": "s1"', "}")
    assert entry.rows == (
        EntryRow("File", "/runs/auth/0/artifact.json"),
        EntryRow("SHA-256", "0" * 64, lines),
    )
    assert (one.name, replace(one, branch="codex").name) == ("build", "build@codex")
    long = replace(one, value={"a": list(range(50)), "b": "x" * 1000})
    shown = artifact_entry(long, SHOWN).rows[1].lines
    assert (len(shown), shown[-1]) == (21, "… 35 more lines: see --json, or -o FILE")


def test_artifact_that_was_given_and_one_that_was_changed() -> None:
    story = ItemStory()
    story.events = []
    given = f.SessionStarted("pipeline", "r", PLAN, "1.0", format=f.LOG_FORMAT, artifact=LARGE)
    story.add(given)
    (one,) = artifacts_of(story.fold, read, latest=True)
    assert (one.stage, one.value, one.problem) == ("", None, "1/artifact.json was changed")
    assert artifact_entry(one, SHOWN) == RunEntry(
        "failed",
        "given to the run: 70,000 bytes, version 1.0",
        (
            EntryRow("File", "/runs/auth/1/artifact.json"),
            EntryRow("SHA-256", "a" * 64),
            EntryRow("Problem", "1/artifact.json was changed"),
        ),
    )


PROMPT = f"Do it.\n{quoted('item s1', '{}')}\n{quoted('feedback', 'again')}\n"


def test_context_has_the_tokens_of_each_text() -> None:
    omitted = (OmittedPart("output of a", 900, 200), OmittedPart("note 1", 30))
    story = ItemStory().planned().items()
    story.iteration(at("1", 1), "s1", context=replace(used(100), omitted=omitted))
    work = story.fold.iterations[-1]
    item, feedback = parts_in(PROMPT)
    assert list(context_rows(work, PROMPT)) == [
        EntryRow("Context", "focused, 100 of 1,000 tokens by estimation, 2 texts left out or cut"),
        EntryRow(
            "Parts",
            "2 quoted texts",
            (
                f"{item.tokens:>7}  item s1",
                f"{feedback.tokens:>7}  feedback",
                f"{100 - item.tokens - feedback.tokens:>7}  the rest of what is sent",
            ),
        ),
        EntryRow("Left out", "2 texts", ("    900  output of a, 200 of them kept", "     30  note 1")),
    ]
    assert {row.label for row in work_rows(work, None, "running")} >= {"Context", "Item"}
    assert [row.label for row in context_rows(work, "")] == ["Context", "Left out"]
    assert context_parts(PROMPT)[0] == {"name": "item s1", "tokens": item.tokens, "text": "{}"}
    assert part_head(item) == f"item s1, {item.tokens} tokens:"


def test_the_count_of_the_provider_is_beside_the_estimation() -> None:
    work = ItemStory().planned().fold.iterations[-1]
    counted = replace(work, spending=Spending(input_tokens=1234))
    rows = {row.label: row.value for row in context_rows(counted, PROMPT)}
    assert rows["Counted"] == "1,234 tokens by the provider, all calls together"


@pytest.mark.parametrize("prompt", [PROMPT, "no data"])
def test_context_of_a_stage_without_strategy_and_budget(prompt: str) -> None:
    work = ItemStory().planned().fold.iterations[-1]
    head, parts = context_rows(work, prompt)
    assert head == EntryRow("Context", f"{tokens_of(prompt):,} tokens by estimation")
    assert len(parts.lines) == 1 + prompt.count("----- end of")
    assert {row.label: row.value for row in work_rows(work, None, "running")}["Artifact"] == (
        "100 bytes, version 1.0"
    )
