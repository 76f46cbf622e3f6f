"""The items of a list: which lists are accepted, their order, and what a visit works through.

The properties have an oracle of their own, which knows nothing of the engine's way to the order.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentforge.engine.items import MAX_PROBLEMS, Element, elements_of, planned
from agentforge.model.artifact import ItemStatus, PlannedItem
from agentforge.model.facts import ItemsPlanned
from agentforge.model.request import Feedback


def read(listed: Any, most: int = 100) -> list[Element] | list[str]:
    return elements_of({"steps": listed}, "steps", most)


def elements(listed: Any) -> list[Element]:
    found = [one for one in read(listed) if isinstance(one, Element)]
    assert len(found) == len(listed)
    return found


def problems(listed: Any, most: int = 100) -> list[str]:
    found = [one for one in read(listed, most) if isinstance(one, str)]
    assert found
    return found


def step(id: Any, *after: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "after": [*after], **more}


@pytest.mark.parametrize(
    ("listed", "order"),
    [
        ([], []),
        ([step("a"), step("b")], ["a", "b"]),
        ([step("b", "a"), step("a"), step("c")], ["a", "b", "c"]),
        ([step("z", "b"), step("b"), step("a")], ["b", "z", "a"]),
        ([step("a", "c", "c"), step("b"), step("c")], ["b", "c", "a"]),
        ([step(1), step("s2", 1), step(3, "1", "s2")], ["1", "s2", "3"]),
        ([{"id": "a", "after": None}], ["a"]),
    ],
)
def test_items_are_in_the_order_of_the_list_behind_those_that_they_are_after(
    listed: Any, order: list[str]
) -> None:
    assert [one.id for one in elements(listed)] == order


def test_an_item_without_an_id_gets_one_from_its_content() -> None:
    first, second = elements(["do it", {"title": "this"}])
    assert first.id == f"item-{first.hash[:8]}"
    assert (first.value, second.value) == ("do it", {"title": "this"})
    assert [one.id for one in elements([{"title": "this"}, "do it"])] == [second.id, first.id]


def test_the_order_of_keys_does_not_change_an_item() -> None:
    (one,), (other,) = elements([{"id": "a", "x": 1, "y": 2}]), elements([{"y": 2, "x": 1, "id": "a"}])
    assert one.hash == other.hash
    assert one.hash != elements([{"id": "a", "x": 1, "y": 3}])[0].hash


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (None, "$.steps: it must be the list of the items; got `null`"),
        ("a\n b", "$.steps: it must be the list of the items; got `a b`"),
        ([step("a")] * 101, "$.steps: it has 101 items; the maximum is 100"),
        ([step("a/b")], "$.steps[0].id: use letters, digits, `-`, `_` and `.`; got `a/b`"),
        ([step("..")], "$.steps[0].id: use letters, digits, `-`, `_` and `.`; got `..`"),
        ([step("")], "$.steps[0].id: use letters, digits, `-`, `_` and `.`; got ``"),
        ([step("x" * 300)], "$.steps[0].id: use letters, digits, `-`, `_` and `.`; got `xxxxx"),
        ([step(True)], "$.steps[0].id: use letters, digits, `-`, `_` and `.`; got `true`"),
        ([step(1.5)], "$.steps[0].id: use letters, digits, `-`, `_` and `.`; got `1.5`"),
        ([step({"a": 1})], '$.steps[0].id: use letters, digits, `-`, `_` and `.`; got `{"a":1}`'),
        ([{"id": "a", "after": "b"}], "$.steps[0].after: it must be a list of ids; got `b`"),
        ([{"id": "a", "after": [None]}], "$.steps[0].after: it must be a list of ids; got `[null]`"),
        ([step("a"), step("A")], "$.steps[1].id: `A` is the id of $.steps[0], too"),
        ([step(1), step("1")], "$.steps[1].id: `1` is the id of $.steps[0], too"),
        (["x", "x"], "$.steps[1].id: `item-"),
        ([step("a", "b")], "$.steps[0].after: no item has the id `b`"),
        ([step("a", "A")], "$.steps[0].after: no item has the id `A`"),
        ([step("a", "a")], "$.steps: the items depend on each other in a cycle: `a` after `a`"),
        (
            [step("x"), step("d", "a"), step("a", "b", "x"), step("b", "c"), step("c", "a")],
            "$.steps: the items depend on each other in a cycle: `a` after `b` after `c` after `a`",
        ),
        (
            [step(f"s{n}", f"s{(n + 1) % 9}") for n in range(9)],
            "$.steps: the items depend on each other in a cycle:"
            " `s0` after `s1` after `s2` after `s3` after `s4` after `…` after `s0`",
        ),
    ],
)
def test_lists_that_are_refused(listed: Any, expected: str) -> None:
    (problem,) = problems(listed)
    assert problem.startswith(expected)


def test_a_missing_list_is_refused() -> None:
    assert elements_of({}, "steps", 9) == ["$.steps: it must be the list of the items; it is missing"]


def test_not_all_problems_are_listed() -> None:
    found = problems([step("/")] * 12)
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1] == "and more"
    assert len(problems([step("/", "b"), step("c")])) == 2
    assert len(problems([step(True), step(1.5)])) == 2


def test_what_a_problem_quotes_is_short() -> None:
    assert len(problems([step("x" * 100_000, ["y"] * 100_000)])[0]) < 200


def test_long_chains_and_many_dependencies_are_ordered() -> None:
    """In time that grows with the number of dependencies, without a recursion."""
    chain = [step(f"s{n}", *([f"s{n + 1}"] if n < 9_999 else [])) for n in range(10_000)]
    found = read(chain, 10_000)
    assert [one.id for one in found if isinstance(one, Element)] == [f"s{n}" for n in range(9_999, -1, -1)]
    (problem,) = [one for one in read([*chain[:-1], step("s9999", "s0")], 10_000) if isinstance(one, str)]
    assert "cycle" in problem


# -- what a visit works through


def visit(
    listed: Any, known: dict[str, PlannedItem] | None = None, feedback: Feedback | None = None, run: int = 2
) -> ItemsPlanned:
    return planned(elements(listed), tuple((known or {}).values()), feedback, run, "0" * 64)


def after_visit(fact: ItemsPlanned, **statuses: ItemStatus) -> dict[str, PlannedItem]:
    items = (replace(item, status=statuses.get(item.id, "done")) for item in fact.items)
    return {item.id: item for item in items}


AB = [step("a"), step("b", "a")]
SAID = Feedback("Mind the gap.", "stage verify")


def pending(fact: ItemsPlanned) -> list[str]:
    return [item.id for item in fact.items if item.status == "pending"]


def test_the_first_visit_works_through_all_items() -> None:
    fact = visit(AB, run=1)
    assert pending(fact) == ["a", "b"]
    assert (fact.added, fact.changed, fact.dropped, fact.repair) == (("a", "b"), (), (), "")
    # What was said before there was a list, as by a person, is in the feedback of each item.
    assert visit(AB, feedback=SAID).repair == ""


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (AB, ItemsPlanned()),
        ([step("a"), step("b", "a", title="x")], ItemsPlanned(changed=("b",))),
        ([step("b"), step("c")], ItemsPlanned(added=("c",), changed=("b",), dropped=("a",))),
        ([], ItemsPlanned(dropped=("a", "b"))),
    ],
)
def test_another_visit_works_through_what_changed(listed: Any, expected: ItemsPlanned) -> None:
    fact = visit(listed, after_visit(visit(AB)))
    assert replace(fact, items=(), sha256="") == expected
    assert set(pending(fact)) == {*expected.added, *expected.changed}


@pytest.mark.parametrize(("status"), ["pending", "failed"])
def test_an_item_that_is_not_done_is_worked_on(status: ItemStatus) -> None:
    assert pending(visit(AB, after_visit(visit(AB), b=status))) == ["b"]


@pytest.mark.parametrize(
    ("named", "reopened", "repair", "expected"),
    [
        (("b",), ("b",), "", ["b"]),
        (("b", "x"), ("b",), "", ["b"]),
        ((), (), "repair-2", ["repair-2"]),
        (("x",), (), "repair-2", ["repair-2"]),
    ],
)
def test_what_is_sent_back(
    named: tuple[str, ...], reopened: tuple[str, ...], repair: str, expected: list[str]
) -> None:
    fact = visit(AB, after_visit(visit(AB)), replace(SAID, items=named))
    assert (fact.reopened, fact.repair) == (reopened, repair)
    assert pending(fact) == expected


def test_a_repair_is_about_its_text_and_belongs_to_one_visit() -> None:
    again = visit(AB, after_visit(visit(AB)), SAID)
    assert again.items[-1].repair
    assert again.items[-1].hash != visit(AB, after_visit(visit(AB)), replace(SAID, text="x")).items[-1].hash
    third = visit(AB, after_visit(again), run=3)
    assert [item.id for item in third.items] == ["a", "b"]
    assert third.dropped == ("repair-2",)


def test_a_repair_that_failed_is_there_again() -> None:
    again = visit(AB, after_visit(visit(AB)), SAID)
    known = after_visit(again, **{"b": "failed", "repair-2": "failed"})
    third = visit(AB, known, replace(SAID, items=("b", "repair-2")), run=3)
    assert pending(third) == ["b", "repair-3"]
    assert (third.reopened, third.repair, third.dropped) == (("b",), "repair-3", ("repair-2",))


def test_the_name_of_a_repair_is_free() -> None:
    listed = [step("Repair-2"), step("repair-2-1")]
    assert visit(listed, after_visit(visit(listed)), SAID).repair == "repair-2-2"


def test_no_list_makes_the_name_of_a_repair_too_long_for_the_log() -> None:
    listed = [step(f"repair-2{'-1' * number}") for number in range(97)]
    again = visit(listed, after_visit(visit(listed)), SAID)
    assert (again.repair, again.defect("session")) == ("repair-2-2", "")


# -- any list


@st.composite
def any_list(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Without cycles: each item is only after those before it in a hidden order."""
    ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True))
    listed = [
        step(
            id, *draw(st.lists(st.sampled_from(ids[:n]), max_size=3) if n else st.just([])), v=draw(_versions)
        )
        for n, id in enumerate(ids)
    ]
    return list(draw(st.permutations(listed)))


_versions = st.integers(1, 2)
_status = st.sampled_from(["pending", "done", "done", "failed"])


@given(any_list())
def test_any_order_respects_what_items_are_after(listed: list[dict[str, Any]]) -> None:
    place = {one.id: n for n, one in enumerate(elements(listed))}
    assert set(place) == {one["id"] for one in listed}
    for index, one in enumerate(listed):
        assert all(place[before] < place[one["id"]] for before in one["after"])
        # What it overtakes in the list waits, directly or not, for something behind itself.
        for other in listed[:index]:
            if place[one["id"]] < place[other["id"]]:
                assert any(place[before] >= place[one["id"]] for before in other["after"])


@given(any_list(), any_list(), st.data())
def test_any_other_plan_keeps_what_is_finished_and_loses_nothing(
    before: list[dict[str, Any]], now: list[dict[str, Any]], data: st.DataObject
) -> None:
    first = visit(before, run=1)
    known = after_visit(first, **{item.id: data.draw(_status) for item in first.items})
    named = tuple(data.draw(st.lists(st.sampled_from("abcdefghx"), max_size=2)))
    feedback = data.draw(st.none() | st.just(replace(SAID, items=named)))
    again = visit(now, known, feedback)
    items = {item.id: item for item in again.items}
    said = {one["id"]: one for one in before}
    listed = {one["id"]: one for one in now}
    asked = set(named) if feedback else set()
    is_same = {id for id in listed if said.get(id) == listed[id]}

    finished = {id for id in is_same if known[id].status == "done"} - asked
    assert {item.id for item in again.items if item.status == "done"} == finished
    assert [id for id in items if id != again.repair] == [one.id for one in elements(now)]
    assert set(again.added) == set(listed) - set(said)
    assert set(again.changed) == (set(listed) & set(said)) - is_same
    assert set(again.dropped) == set(said) - set(listed)
    assert set(again.reopened) == is_same & asked
    assert bool(again.repair) == (feedback is not None and bool(known) and not asked & set(listed))
