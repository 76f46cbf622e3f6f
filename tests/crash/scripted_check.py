"""Compares the result of a scripted run with the oracle: the log, state.json, and every file."""

import json
from typing import Any

from tests.crash.oracle import Expected, Spot
from tests.crash.scripted_run import ScriptedRun


def check(run: ScriptedRun, expected: Expected, *, kept: int | None = None) -> None:
    """The result of the run matches the oracle. If its files were lost, `kept` is the number of remaining log
    lines: the iterations in them have no files."""
    events = run.events()
    _check_sequence(run, events, expected)
    _check_state(run, events, expected)
    before = events[: kept or 0]
    done = {run.spot_of(event) for event in before if event["type"] == "iteration_complete"}
    for spot in expected.results.keys() - done:
        _check_files(run, spot, expected.results[spot], lost=kept is not None)
    judged = {run.spot_of(event) for event in before if event["type"] == "judge_complete"}
    for spot in expected.judged.keys() - judged:
        _check_judge(run, spot, expected.judged[spot])
    _check_manifests(run, expected, {event["data"]["path"] for event in before if "path" in event["data"]})


def _check_files(run: ScriptedRun, spot: Spot, result: tuple[str, str], *, lost: bool) -> None:
    place, iteration = spot
    here = run.run_dir / run.folders[place] / "iterations" / f"{iteration:03d}"
    written = json.loads((here / "result.json").read_bytes())
    assert (written["summary"], written["decision"]) == result
    assert (here / "output.md").read_text() == f"said {result[0]}\n"
    attempts = here / "attempts.jsonl"
    records = [json.loads(line) for line in attempts.read_text().splitlines()] if attempts.exists() else []
    if not records:
        return  # It succeeded at once.
    numbers = [record["attempt"] for record in records]
    # Records of attempts from before the files were lost can't be there.
    assert numbers == list(range(numbers[0] if lost else 1, numbers[-1] + 1))
    assert records[-1]["status"] == "success"


def _check_judge(run: ScriptedRun, spot: Spot, verdict: str) -> None:
    place, iteration = spot
    file = run.run_dir / run.folders[place] / "iterations" / f"{iteration:03d}" / "judge.json"
    if verdict in ("stop", "go"):
        assert json.loads(file.read_bytes())["stop"] == (verdict == "stop")
    elif file.exists():
        # It says why the judge failed, unless the files were lost.
        written = json.loads(file.read_bytes())
        assert (written["stop"], bool(written["error"])) == (False, True)


def _check_manifests(run: ScriptedRun, expected: Expected, before: set[str]) -> None:
    finished = {name for name, _ in expected.finished}
    for folder, block in run.blocks.items():
        file = run.run_dir / folder / "manifest.json"
        if f"{folder}/manifest.json" in before:
            continue
        assert file.exists() == (block.name in finished), "a manifest is of a block that succeeded"
        if not file.exists():
            continue
        for provider, stages in json.loads(file.read_bytes())["providers"].items():
            for name, told in stages.items():
                place = f"{block.name}/{provider}/{name}"
                assert told["iterations"] == sum(1 for where, _ in expected.results if where == place)


def _check_sequence(run: ScriptedRun, events: list[dict[str, Any]], expected: Expected) -> None:
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    seen: dict[tuple[str, str], list[int]] = {}
    for event in events:
        if event["type"] in ("iteration_start", "iteration_complete"):
            place, number = run.spot_of(event)
            seen.setdefault((place, event["type"]), []).append(number)
    for place in run.stages:
        done = sum(1 for where, _ in expected.results if where == place)
        begun = done + (place in expected.broken)
        assert seen.get((place, "iteration_start"), []) == list(range(1, begun + 1)), place
        assert seen.get((place, "iteration_complete"), []) == list(range(1, done + 1)), place
    assert sum(1 for event in events if event["type"] == "error") == expected.charged
    _check_judgments(run, events, expected)
    attempts: dict[str, list[int]] = {}
    for event in events:
        if event["type"] in ("attempt_start", "judge_start"):
            who = f"{event['type']} {event['cursor']}"
            attempts.setdefault(who, []).append(event["data"].get("attempt", 1))
    for numbers in attempts.values():
        assert numbers == list(range(1, len(numbers) + 1)), "an attempt's number was given out twice"


def _check_judgments(run: ScriptedRun, events: list[dict[str, Any]], expected: Expected) -> None:
    """The last verdict on each iteration counts; a judge that couldn't be reached was asked once more."""
    said: dict[Spot, str] = {}
    for event in events:
        if event["type"] == "judge_complete":
            status, result = event["data"]["status"], event["data"]["result"]
            spot = run.spot_of(event)
            again = said.get(spot)
            assert again in (None, "failed"), f"{spot} was judged twice"
            said[spot] = ("stop" if result["stop"] else "go") if status == "success" else status
    assert said == expected.judged


def _check_state(run: ScriptedRun, events: list[dict[str, Any]], expected: Expected) -> None:
    state = json.loads((run.run_dir / "state.json").read_bytes())
    assert state["status"] == expected.status
    assert state["error_type"] == expected.error
    finished = [(s["name"], s["iterations"]) for s in state["stages"] if s["status"] == "completed"]
    assert finished == expected.finished
    if expected.unfinished is not None:
        assert (state["stages"][-1]["name"], state["stages"][-1]["iterations"]) == expected.unfinished
    assert state["event_offset"] == len(events)
    history = [(entry["stage"], entry["iteration"]) for entry in state["history"]]
    results = [(place.rpartition("/")[2], iteration) for place, iteration in expected.results]
    # The branches of a block may finish in any order.
    assert sorted(history) == sorted(results) if run.blocks else history == results
