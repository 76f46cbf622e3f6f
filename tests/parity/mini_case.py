"""Small recorded cases: a loop of one iteration, or a pipeline, as the shell engine writes them."""

import json
from pathlib import Path
from typing import Any

SESSION = "s1"
RESULT = {
    "summary": "Mock iteration 1 completed",
    "work": {"items_completed": [], "files_touched": []},
    "artifacts": {"outputs": [], "paths": []},
    "signals": {"plateau_suspected": False, "risk": "low", "notes": "more"},
}


def write_mini_case(root: Path) -> Path:
    _write(
        root / "cmd-01.txt", "# env: MOCK_MODE=true\n@ENGINE@/scripts/run.sh loop work s1 1 --foreground\n"
    )
    _write(root / "cmd-01.rc", "0\n")
    _write(root / "cmd-02.txt", "# env: MOCK_MODE=true\n@ENGINE@/scripts/run.sh status s1\n")
    _write(root / "cmd-02.out", "Session: s1\nStatus: complete\n")
    _write(root / "cmd-02.rc", "0\n")
    project = root / "after-run"
    _write(project / "stages/work/stage.yaml", "name: work\ntermination:\n  type: fixed\ndelay: 0\n")
    _write(project / "stages/work/prompt.md", "Do it: ${CTX}\n")
    run_dir = project / ".claude/pipeline-runs" / SESSION
    _write(run_dir / "events.jsonl", "".join(f"{json.dumps(event)}\n" for event in _events()))
    _write(run_dir / "state.json", json.dumps(_state()))
    iteration = run_dir / "stage-00-work/iterations/001"
    _write(iteration / "context.json", json.dumps(_context()))
    _write(iteration / "result.json", json.dumps(RESULT))
    _write(iteration / "output.md", "whatever\n")
    return root


def write_pipeline_case(
    root: Path, pipeline: str, options: str = "", plan: dict[str, Any] | None = None
) -> Path:
    """A pipeline that was run once and shown once, with only its plan saved."""
    words = f"pipeline pipe.yaml {SESSION} {options} --foreground".replace("  ", " ")
    for number, command in ((1, words), (2, f"status {SESSION}")):
        _write(root / f"cmd-0{number}.txt", f"# env: MOCK_MODE=true\n@ENGINE@/scripts/run.sh {command}\n")
        _write(root / f"cmd-0{number}.rc", "0\n")
    _write(root / "cmd-02.out", f"Session: {SESSION}\nStatus: complete\n")
    project = root / "after-run"
    _write(project / "pipe.yaml", pipeline)
    _write(project / "stages/work/stage.yaml", "name: work\nmodel: sonnet\ncontext: of the stage\ndelay: 0\n")
    _write(project / "stages/work/prompt.md", "Do it: ${CONTEXT}\n")
    _write(project / ".claude/pipeline-runs" / SESSION / "plan.json", json.dumps(plan or {"version": 1}))
    return root


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _events() -> list[dict[str, Any]]:
    result = "@PROJECT@/.claude/pipeline-runs/s1/stage-00-work/iterations/001/result.json"
    events: list[tuple[str, int, dict[str, Any]]] = [
        ("session_start", 0, {"mode": "loop", "stage": "work", "stage_name": "work"}),
        ("node_start", 0, {"name": "work", "type": "work", "provider": "claude", "model": "opus"}),
        ("iteration_start", 1, {"stage": "work", "type": "work", "provider": "claude", "model": "opus"}),
        ("iteration_complete", 1, {"result_file": result, "decision": "continue", "reason": "more"}),
        (
            "node_complete",
            1,
            {"name": "work", "status": "complete", "reason": "Completed 1 iterations (max: 1)"},
        ),
        ("session_complete", 1, {"reason": "Completed 1 iterations (max: 1)"}),
    ]
    return [
        {
            "ts": "2026-01-10T10:00:00Z",
            "type": kind,
            "session": SESSION,
            "cursor": {"node_path": "0", "node_run": number, "iteration": number},
            "data": data,
        }
        for kind, number, data in events
    ]


def _context() -> dict[str, Any]:
    run_dir = "@PROJECT@/.claude/pipeline-runs/s1"
    return {
        "session": SESSION,
        "pipeline": "loop",
        "stage": {"id": "work", "index": 0, "template": "work"},
        "iteration": 1,
        "paths": {
            "session_dir": run_dir,
            "stage_dir": f"{run_dir}/stage-00-work",
            "progress": f"{run_dir}/progress-s1.md",
            "output": f"{run_dir}/stage-00-work/output.md",
            "status": f"{run_dir}/stage-00-work/iterations/001/status.json",
            "result": f"{run_dir}/stage-00-work/iterations/001/result.json",
        },
        "inputs": {"from_stage": {}, "from_previous_iterations": [], "from_initial": []},
        "limits": {"max_iterations": 1, "remaining_seconds": -1},
        "commands": {},
    }


def _state() -> dict[str, Any]:
    return {
        "session": SESSION,
        "type": "loop",
        "started_at": "2026-01-10T10:00:00Z",
        "status": "complete",
        "current_stage": 0,
        "iteration": 1,
        "iteration_completed": 1,
        "iteration_started": None,
        "stages": [],
        "history": [
            {
                "iteration": 1,
                "timestamp": "2026-01-10T10:00:01Z",
                "stage": "work",
                "decision": "continue",
                "reason": "Mock execution - more work simulated",
                "summary": "Mock iteration 1 completed",
                "files_touched": [],
                "items_completed": [],
                "signals": {
                    "plateau_suspected": False,
                    "risk": "low",
                    "notes": "Mock execution - more work simulated",
                },
            }
        ],
        "event_offset": 0,
        "completed_at": "2026-01-10T10:00:01Z",
        "completion_reason": "Completed 1 iterations (max: 1)",
    }
