"""The list of mutations. One that no test can catch says why; a new one comes with the test that catches it."""

from tests.mutants.bugs import (
    artifacts,
    budgets,
    caps,
    checks,
    confinement,
    daily,
    engine,
    forecast,
    hook_calls,
    hooks,
    log,
    model,
    redaction,
    routes,
    runtime,
    sandbox,
    second_time,
    supervisor,
    surfaces,
    trees,
)
from tests.mutants.mutation import ROOT

ALL = (
    *model.BUGS,
    *engine.BUGS,
    *log.BUGS,
    *runtime.BUGS,
    *supervisor.BUGS,
    *sandbox.BUGS,
    *confinement.BUGS,
    *redaction.BUGS,
    *surfaces.BUGS,
    *trees.BUGS,
    *checks.BUGS,
    *routes.BUGS,
    *hook_calls.BUGS,
    *hooks.BUGS,
    *second_time.BUGS,
    *artifacts.BUGS,
    *budgets.BUGS,
    *caps.BUGS,
    *daily.BUGS,
    *forecast.BUGS,
)


def _in(folder: str, *patterns: str) -> tuple[str, ...]:
    found: list[str] = []
    for pattern in patterns:
        paths = sorted((ROOT / "tests" / folder).glob(pattern))
        assert paths, f"no tests match tests/{folder}/{pattern}"
        found += (str(path.relative_to(ROOT)) for path in paths)
    return tuple(found)


ENGINE = _in(
    "engine",
    "test_decide*.py",
    *(
        "test_state_lifecycle.py",
        "test_evolve.py",
        "test_second_passes.py",
        "test_legal.py",
        "test_node_order.py",
        "test_judgment.py",
    ),
)
LOG = _in("adapters", "test_jsonl_log*.py", "test_log_scan.py", "test_write_ahead.py")
MODEL = ("tests/model", "tests/engine/test_legal.py", "tests/engine/test_decide_provider_limits.py")
REDACTION = (
    "tests/model",
    "tests/adapters/test_agent_usage.py",
    "tests/sdk/test_log_redaction.py",
    "tests/adapters/test_agent_environment.py",
)
SANDBOX = (
    *_in(
        "adapters",
        "test_bwrap*.py",
        "test_docker*.py",
        "test_tool_loop_workspace.py",
        "test_api_workspace_protected.py",
    ),
    "tests/sdk/test_sandboxed_runs.py",
)
REATTACHMENT = "tests/runtime/test_reattachment.py"
SUPERVISOR = (*_in("runtime", "test_supervised*.py"), REATTACHMENT)
ATTEMPT = (
    "tests/runtime/test_agent_outcomes.py",
    "tests/runtime/test_conclusion.py",
    "tests/runtime/test_agent_programs.py",
)
SESSIONS = "tests/sdk/test_agent_sessions.py"
LOCKS = "tests/surface/test_locks.py"
LAYERS = (
    (engine, ENGINE),
    (log, LOG),
    (model, MODEL),
    (redaction, REDACTION),
    (sandbox, SANDBOX),
    (supervisor, SUPERVISOR),
)

NEAR = {
    **{bug.module: tests for layer, tests in LAYERS for bug in layer.BUGS},
    "agentforge.model.codec": ("tests/model", *LOG),
    "agentforge.system.disk": (*LOG, "tests/system"),
    "agentforge.system.repository": ("tests/system/test_repository.py", *SANDBOX),
    "agentforge.adapters.sandboxes.mounts": ("tests/adapters/test_sandbox_mounts.py", *SANDBOX),
    "agentforge.system.confined": _in("adapters", "test_tool_loop_workspace.py"),
    "agentforge.system.folders": ("tests/system", *_in("adapters", "test_tool_loop_workspace.py")),
    "agentforge.runtime.journal": _in("runtime", "test_journal*.py"),
    "agentforge.runtime.state_folder": _in("runtime", "test_head_keeper.py", "test_conclusion.py"),
    "agentforge.runtime.conclusion": ATTEMPT,
    "agentforge.runtime.confinement": ("tests/runtime/test_confinement.py", *SANDBOX),
    "agentforge.runtime.tasks.agent": (*ATTEMPT, REATTACHMENT, SESSIONS),
    "agentforge.runtime.tasks.call": (
        *(
            SESSIONS,
            REATTACHMENT,
            "tests/runtime/test_agent_outcomes.py",
            "tests/runtime/test_confinement.py",
            "tests/sdk/test_provider_crowds.py",
            "tests/sdk/test_sandboxed_runs.py",
        ),
    ),
    "agentforge.runtime.tasks.judge": (
        "tests/sdk/test_judge_secrets.py",
        "tests/sdk/test_judge.py",
    ),
    "agentforge.runtime.tasks.performer": (*ATTEMPT, REATTACHMENT, "tests/runtime/test_hook_performer.py"),
    "agentforge.runtime.tasks.prepare": (
        "tests/runtime/test_preparation.py",
        "tests/runtime/test_shorter_context.py",
        "tests/runtime/test_files_and_locks.py",
        "tests/sdk/test_engine_run.py",
    ),
    "agentforge.legacy.import_run": (
        "tests/runtime/test_imported_files.py",
        "tests/sdk/test_shell_engine_runs.py",
    ),
    "agentforge.runtime.view_files": (
        "tests/runtime/test_light_files.py",
        "tests/runtime/test_iteration_files.py",
        "tests/sdk/test_light_iterations.py",
    ),
    "agentforge.views.history": ("tests/sdk/test_light_iterations.py",),
    "agentforge.app.runs.lock_folder": (
        "tests/runtime/test_living_programs.py",
        "tests/runtime/test_files_and_locks.py",
        LOCKS,
    ),
    "agentforge.runtime.recorder": ("tests/runtime/test_recorder.py", "tests/sdk/test_recording.py"),
}
"""By module: the tests to run for mutations that name none."""
