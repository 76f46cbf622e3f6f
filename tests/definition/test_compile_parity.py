"""Golden plans of agent-pipelines' own compiler: the same definitions must come to the same plan.json.

Ours may hold more. Where it differs, the difference is listed here with the rule that explains it.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentforge.adapters.file_sources import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides

MATRIX = Path(__file__).resolve().parents[3] / "shared" / "parity" / "26-compile-matrix"
pytestmark = pytest.mark.skipif(
    not MATRIX.is_dir(), reason="the recorded plans of agent-pipelines aren't beside this repository"
)

SAME = [
    "m01-st-none",
    "m02-st-fixedbare",
    "m03-st-fixed4",
    "m04-st-fixedmax7",
    "m10-st-promptsub",
    "m11-st-promptname",
    "m12-st-promptmissing",
    "m13-st-openai",
    "m16-st-noyaml",
    "m17-runs3-none",
    "m18-runs3-fixedbare",
    "m30-runs-string",
    "m33-iter-string",
    "m35-inline",
    "m36-inline-term",
    "m37-prov-node",
    "m39-prov-alias",
    "m42-defaults-codex",
    "m43-tmux-false",
    "m48-id-vs-name",
]

RUNS_WIN = "`runs` in a node overrides what stage.yaml says: the author wrote it last"
NO_LEFTOVERS = "a node that changes the type of termination drops the settings of the other type"
OWN_MODEL = "a provider without a default model of its own gets none, not another provider's"
TEXTS = "commands are texts"

# Case: path into the plan -> what ours says there, and why.
DIFFERENT: dict[str, tuple[str, dict[str, Any]]] = {
    "m19-runs3-fixed4": (RUNS_WIN, {"nodes.0.termination.max": 3}),
    "m20-runs3-fixedmax7": (RUNS_WIN, {"nodes.0.termination.max": 3}),
    "m25-term-fixed2-over-judg": (NO_LEFTOVERS, {"nodes.0.termination": {"type": "fixed", "max": 2}}),
    "m26-term-fixed2-runs9-over-judg": (NO_LEFTOVERS, {"nodes.0.termination": {"type": "fixed", "max": 2}}),
    "m40-prov-unknown": (OWN_MODEL, {"nodes.0.provider.model": ""}),
    "m49-yaml-types": (TEXTS, {"pipeline.commands": {"a": "1", "b": "true"}}),
}

REFUSED = {
    "m05-st-judg": "unsupported",
    "m06-st-judg5": "unsupported",
    "m07-st-queue": "unsupported",
    "m08-st-v2plateau": "unsupported",
    "m09-st-v2beads": "unsupported",
    "m14-st-weird": "bad-value",
    "m15-st-noprompt": "missing-prompt",
    "m21-runs3-judg": "unsupported",
    "m22-runs3-judg5": "unsupported",
    "m23-runs3-queue": "unsupported",
    "m24-runs3-v2plateau": "unsupported",
    "m27-term-judg-over-fixed4": "unsupported",
    "m28-term-max-over-judg": "unsupported",
    "m29-runs-object": "unsupported",
    "m31-runs-badstring": "bad-type",
    "m32-runs-zero": "bad-value",
    "m34-completion-node": "unsupported",
    "m38-prov-node-claude-over-judg": "unsupported",
    "m41-defaults": "unsupported",
    "m44-guardrails": "unsupported",
    "m45-inputs-misc": "unsupported",
    "m46-parallel-min": "unsupported",
    "m47-parallel-queue": "unsupported",
    "m50-id-special": "bad-id",
}
"""What belongs to later work, and what the original let through although it can't run."""

ENVIRONMENT = {"COMPILE_TIMESTAMP": "2026-01-14T00:00:00Z", "SESSION_CREATED_AT": "2026-01-13T00:00:00Z"}


def ours(case: str, overrides: Overrides | None = None, **environment: str) -> dict[str, Any]:
    project = MATRIX / "final"
    sources = FileSources(project, ENVIRONMENT | {"STAGES_DIR": str(project / "stages")} | environment)
    compiled = compile_pipeline(sources, f"{case}.yaml", "golden", overrides or Overrides())
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(compiled.plan))
    return data


def theirs(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((MATRIX / f"{name}.plan.json").read_text())
    return data


def assert_holds(mine: Any, golden: Any, different: dict[str, Any], path: str = "") -> None:
    """Everything golden is in ours; mappings may have more keys."""
    if path in different:
        assert mine == different[path], path
        assert mine != golden, f"{path} is listed as a difference and is none"
    elif isinstance(golden, dict):
        for key, value in golden.items():
            assert key in mine, f"{path}.{key}"
            assert_holds(mine[key], value, different, f"{path}.{key}".lstrip("."))
    elif isinstance(golden, list):
        assert len(mine) == len(golden), path
        for index, value in enumerate(golden):
            assert_holds(mine[index], value, different, f"{path}.{index}")
    else:
        assert mine == golden, path


@pytest.mark.parametrize("case", SAME)
def test_golden_plan_is_the_same(case: str) -> None:
    assert_holds(ours(case), theirs(case), {})


@pytest.mark.parametrize("case", DIFFERENT)
def test_golden_plan_differs_only_by_a_rule(case: str) -> None:
    _, different = DIFFERENT[case]
    assert_holds(ours(case), theirs(case), different)


@pytest.mark.parametrize("case", REFUSED)
def test_golden_case_that_is_refused(case: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        ours(case)
    assert REFUSED[case] in {found.code for found in refused.value.diagnostics if found.is_error}


def test_every_golden_case_is_accounted_for() -> None:
    recorded = {path.stem for path in MATRIX.glob("m*.yaml")}
    assert recorded == set(SAME) | set(DIFFERENT) | set(REFUSED)


def test_golden_environment_override() -> None:
    mine = ours("m02-st-fixedbare", CLAUDE_PIPELINE_PROVIDER="codex")
    assert_holds(mine, theirs("env-m02-st-fixedbare"), {})


def test_golden_caller_override_wins_over_the_node() -> None:
    """The original let node and stage win over the command line; a flag now outranks everything."""
    mine = ours("m37-prov-node", Overrides(provider="codex", model="gpt-5-codex"))
    assert_holds(mine, theirs("cli-m37-prov-node"), {"nodes.0.provider.model": "gpt-5-codex"})
