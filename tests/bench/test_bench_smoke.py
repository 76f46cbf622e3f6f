"""The benchmark runs, cleans up, and reports every measure beside its floor. No timing is judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURED = {
    "floor (a)",
    "iteration in process",
    "iteration with a program",
    "iteration with a hook in process",
    "iteration with hooks that don't apply",
    "iteration with caps",
    "iteration with a cap of the day",
    "16 branches under one cap",
    "iteration with an artifact",
    "iteration with spans",
    "iteration with spans turned off",
    "item 30 of 30",
    "context after 30 items",
    "transition between stages",
    "loop of four programs",
    "memory of the loop",
    "append + sync",
    "tree of",
    "replay of",
    "status,",
    "mock loop of",
    "mock block of",
    "save a state with 1 MB",
    "load a state with 1 MB",
    "mock loop, last fifth",
    "bytes on disk per iteration",
    "Python objects alive",
    "resident memory",
}


@pytest.mark.requirement("NFR-001", "NFR-002", "NFR-004")
def test_bench_quick_reports_every_measure_with_its_floor(tmp_path: Path) -> None:
    work, report = tmp_path / "work", tmp_path / "bench.json"
    argv = [sys.executable, "-m", "bench", "--quick", "--json", str(report), "--dir", str(work)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["quick"] is True
    assert set(found["machine"]) == {
        "system",
        "processor",
        "cores",
        "load",
        "memory_gb",
        "file_system",
        "python",
        "msgspec",
    }
    measures = found["measures"]
    assert {start for start in MEASURED if any(m["name"].startswith(start) for m in measures)} == MEASURED
    for measure in measures:
        assert measure["value"] > 0, measure
        assert measure["name"] in done.stdout
        if not measure["name"].startswith("floor"):
            assert measure["floor"], measure
            assert measure["floor_value"] > 0, measure
            assert measure["ratio"] > 0, measure
        assert (measure["aim"] is None) == (measure["met"] is None), measure
    assert [stretch["to"] for stretch in found["growth"]] == [20, 40, 60]
    assert all(stretch["bytes_per_iteration"] > 0 for stretch in found["growth"])
    assert list(work.iterdir()) == []
