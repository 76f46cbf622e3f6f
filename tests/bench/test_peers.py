"""The benchmark beside other systems: our workers and the report run everywhere, the peers where they are
installed. No timing is judged here."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.agents import SAYS, STATUS
from bench.machine import machine
from bench.peers import chart, places
from bench.peers.figures import rows, targets
from bench.peers.places import Place
from bench.peers.report import report, text, write_json
from bench.peers.rounds import (
    AGENTFORGE,
    ALL,
    APPEND,
    PEERS_PYTHON,
    WITH_PROGRAMS,
    Phase,
    Sample,
    System,
    WorkerResult,
    run_phases,
    run_together,
)
from bench.peers.workload import RESULT, disk_bytes

ROOT = Path(__file__).parents[2]


def result(steps: int = 200, *turns: float, apparent: int = 200_000) -> WorkerResult:
    """Of turns of 50 steps; the first one is the start, and isn't among them."""
    return WorkerResult("1.0", steps, 9.0 + sum(turns), 50, [9.0, *turns], apparent, 400_000)


CANNED = [
    Sample("synced append", "plain", 0, result(200, 0.1, 0.1, 0.1)),
    Sample("AgentForge", "plain", 0, result(200, 0.05, 0.1, 0.15)),
    Sample("LangGraph", "plain", 0, result(200, 0.1, 0.125, 0.3)),
    Sample("Burr", "plain", 0, result(200, 0.1, 0.1, 0.1)),
    Sample("DBOS", "plain", 0, result(200, 0.4, 0.4, 0.4)),
    Sample("AgentForge", "plain", 1, result(200, 0.08, 0.08, 0.08)),
    Sample("LangGraph", "plain", 1, result(200, 0.1, 0.1, 0.1)),
    Sample("AgentForge, programs", "plain", 0, result(50, apparent=50 * 10_000)),
    Sample("AgentForge, programs", "plain", 0, result(200, apparent=200 * 30_000)),
]


def test_all_systems_keep_the_same_result() -> None:
    assert {**json.loads(STATUS), "output": SAYS} == RESULT


def test_a_ratio_is_the_median_of_the_turns_of_all_rounds() -> None:
    found = {(row.system, row.steps): row for row in rows(CANNED)}
    ours = found["AgentForge", 200]
    assert ours.rounds == 2
    assert ours.ms_per_step == pytest.approx(1.6)  # The median of 0.05, 0.08, 0.08, 0.08, 0.1, 0.15 by 50.
    assert ours.of_langgraph == pytest.approx(0.8)  # Of 0.5, 0.5, 0.8, 0.8, 0.8, 0.8.
    assert ours.whole_ms_per_step == pytest.approx(1000 * (9.3 + 9.24) / 2 / 200)
    assert ours.apparent_per_step == 1000
    assert ours.allocated_per_step == 2000
    assert found["LangGraph", 200].of_langgraph is None
    assert found["AgentForge, programs", 200].of_langgraph is None


def test_targets_are_judged_by_the_bytes_in_files_and_by_growth() -> None:
    judged = {target.what: target.met for target in targets(rows(CANNED))}
    assert judged == {
        "time beside LangGraph: plain, 200 steps": False,
        "disk per step: plain, 200 steps": True,
        "disk per program: plain, 50 steps": True,
        "disk per program: plain, 200 steps": False,
        "disk per program, flat: plain, 200 steps against 50": False,
    }


def test_report_shows_every_row_and_why_something_is_missing(tmp_path: Path) -> None:
    found = report(machine(tmp_path), 1.0, {"plain": "ext4"}, CANNED, ["skipped: fresh: why"], ["Burr: why"])
    shown = text(found)
    for part in (
        "LangGraph",
        "Burr",
        "DBOS",
        "0.80",
        "skipped: fresh: why",
        "missing: Burr: why",
        "plain: ext4",
    ):
        assert part in shown
    assert "\x1b" not in shown
    write_json(found, tmp_path / "peers.json")
    assert len(json.loads((tmp_path / "peers.json").read_text())["samples"]) == len(CANNED)
    drawn = ElementTree.fromstring(chart.svg(found.rows))
    assert sum(element.tag.endswith("rect") for element in drawn.iter()) == 1 + 2 * len(ALL)


@pytest.mark.parametrize("system", [APPEND, AGENTFORGE, WITH_PROGRAMS], ids=lambda system: system.name)
def test_our_own_workers_report_the_costs_of_a_run(tmp_path: Path, system: System) -> None:
    phase = Phase((system,), steps=5, rounds=1, turn_steps=0 if system == WITH_PROGRAMS else 2)
    results, failed = run_together(phase, tmp_path, seconds=60)
    assert failed == []
    found = results[system.name]
    assert found.steps == 5
    assert len(found.turns) == (0 if system == WITH_PROGRAMS else 2)
    assert found.seconds > sum(found.turns)
    assert found.apparent_bytes > 0
    assert found.allocated_bytes > 0
    assert found.allocated_bytes % 512 == 0


def test_a_worker_that_fails_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    phase = Phase((System("none", "no_such_worker", ours=True), APPEND), steps=4, rounds=1, turn_steps=2)
    samples, missing = run_phases([Place("plain", tmp_path, "")], [phase], seconds=60)
    assert [sample.system for sample in samples] == ["synced append"]
    assert len(missing) == 1
    assert missing[0].startswith("plain, 4 steps, round 1 of 1: none: exit status 1")


@pytest.mark.parametrize("seconds", [-1.0, 0.001])
def test_a_run_ends_when_the_time_is_up(tmp_path: Path, seconds: float) -> None:
    phase = Phase((APPEND,), steps=1_000_000, rounds=1)
    samples, missing = run_phases([Place("plain", tmp_path, "")], [phase], seconds)
    assert samples == []
    assert len(missing) == 1
    assert missing[0].endswith("no time left")


def test_disk_bytes_are_those_in_files_and_those_of_du(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"x" * 10_000)
    apparent, allocated = disk_bytes(tmp_path)
    if sys.platform == "linux":
        du = subprocess.run(["du", "-s", "-B1", tmp_path], capture_output=True, text=True, check=True)
        assert allocated == int(du.stdout.split()[0])
    assert apparent == 10_000


def test_where_nothing_can_be_mounted_a_folder_is_aged_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # No mkfs.ext4 there.
    with places.prepared(tmp_path / "work", places.KINDS, batches=1) as (found, skipped):
        assert [place.kind for place in found] == ["plain", "aged"]
        assert "files created" in found[1].about
        assert [line.split(":")[0] for line in skipped] == ["skipped", "skipped"]
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.skipif(not PEERS_PYTHON.exists(), reason="the peers aren't installed: make peers")
@pytest.mark.timeout(100)
def test_peers_are_measured_and_nothing_remains(tmp_path: Path) -> None:
    work, json_file = tmp_path / "work", tmp_path / "peers.json"
    argv = [sys.executable, "-m", "bench.peers", "--quick", "--places", "plain"]
    argv += ["--dir", str(work), "--json", str(json_file)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(json_file.read_text())
    assert {row["system"] for row in found["rows"]} == {system.name for system in (*ALL, WITH_PROGRAMS)}
    assert list(work.iterdir()) == []
