"""Golden plans of the shell engine's compiler: the same definitions must compile to the same plan.json.

Ours may hold more. Where it differs, the difference is listed here with the rule that explains it.
"""

import json
from pathlib import PurePath
from typing import Any

import msgspec
import pytest
from tests.parity.kept_cases import NAMES, kept_case, kept_files

from agentforge.adapters.host.project_files import FileSources
from agentforge.definition.compiler import compile_pipeline
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides

MATRIX = "26-compile-matrix"

SAME = [
    "m01-st-none",
    "m02-st-fixedbare",
    "m03-st-fixed4",
    "m04-st-fixedmax7",
    "m05-st-judg",
    "m06-st-judg5",
    "m07-st-queue",
    "m08-st-v2plateau",
    "m09-st-v2beads",
    "m10-st-promptsub",
    "m11-st-promptname",
    "m12-st-promptmissing",
    "m13-st-openai",
    "m16-st-noyaml",
    "m17-runs3-none",
    "m18-runs3-fixedbare",
    "m21-runs3-judg",
    "m23-runs3-queue",
    "m24-runs3-v2plateau",
    "m27-term-judg-over-fixed4",
    "m28-term-max-over-judg",
    "m29-runs-object",
    "m30-runs-string",
    "m33-iter-string",
    "m34-completion-node",
    "m35-inline",
    "m36-inline-term",
    "m37-prov-node",
    "m39-prov-alias",
    "m41-defaults",
    "m42-defaults-codex",
    "m43-tmux-false",
    "m44-guardrails",
    "m46-parallel-min",
    "m47-parallel-queue",
    "m48-id-vs-name",
]

RUNS_WIN = "`runs` in a node overrides what stage.yaml says: the author wrote it last"
NO_LEFTOVERS = "settings that a type of termination doesn't have are dropped, not carried along"
OWN_MODEL = (
    "a model belongs to the provider it was written for; another provider gets its own default, if any"
)
TEXTS = "commands are texts"
CALLER_WINS = "what the caller or the environment says outranks all files"

# The shell engine's default model for codex is no longer in codex's catalogue.
CURRENT_MODELS = {"gpt-5.2-codex": "gpt-5.5"}

# Case: path into the plan -> what ours says there, and why.
DIFFERENT: dict[str, tuple[str, dict[str, Any]]] = {
    "m19-runs3-fixed4": (RUNS_WIN, {"nodes.0.termination.max": 3}),
    "m20-runs3-fixedmax7": (RUNS_WIN, {"nodes.0.termination.max": 3}),
    "m22-runs3-judg5": (RUNS_WIN, {"nodes.0.termination.max": 3}),
    "m25-term-fixed2-over-judg": (NO_LEFTOVERS, {"nodes.0.termination": {"type": "fixed", "max": 2}}),
    "m26-term-fixed2-runs9-over-judg": (NO_LEFTOVERS, {"nodes.0.termination": {"type": "fixed", "max": 2}}),
    "m38-prov-node-claude-over-judg": (OWN_MODEL, {"nodes.0.provider.model": "opus"}),
    "m40-prov-unknown": (OWN_MODEL, {"nodes.0.provider.model": ""}),
    "m49-yaml-types": (TEXTS, {"pipeline.commands": {"a": "1", "b": "true"}}),
}

# Accepted by the shell engine although it can't run, promises too much, or has no effect.
REFUSED = {
    "m14-st-weird": "bad-value",
    "m15-st-noprompt": "missing-prompt",
    "m31-runs-badstring": "bad-type",
    "m32-runs-zero": "bad-value",
    "m45-inputs-misc": "unknown-node",
    "m50-id-special": "bad-id",
}

ENVIRONMENT = {"COMPILE_TIMESTAMP": "2026-01-14T00:00:00Z", "SESSION_CREATED_AT": "2026-01-13T00:00:00Z"}


def ours(case: str, overrides: Overrides | None = None, **environment: str) -> dict[str, Any]:
    project = kept_case(MATRIX) / "final"
    sources = FileSources(project, ENVIRONMENT | {"STAGES_DIR": str(project / "stages")} | environment)
    compiled = compile_pipeline(sources, f"{case}.yaml", "golden", overrides or Overrides())
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(compiled.plan))
    return data


def theirs(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((kept_case(MATRIX) / f"{name}.plan.json").read_text())
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
    elif path.endswith("provider.model"):
        assert mine in (golden, CURRENT_MODELS.get(golden)), path
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
    recorded = {path.stem for path in kept_case(MATRIX).glob("m*.yaml")}
    assert recorded == set(SAME) | set(DIFFERENT) | set(REFUSED)


def test_golden_environment_override() -> None:
    mine = ours("m02-st-fixedbare", CLAUDE_PIPELINE_PROVIDER="codex")
    assert_holds(mine, theirs("env-m02-st-fixedbare"), {})


OVERRIDES = {
    "m05-st-judg": {"nodes.0.provider.model": "gpt-5-codex"},
    "m37-prov-node": {"nodes.0.provider.model": "gpt-5-codex"},
    "m41-defaults": {"nodes.1.provider.model": "gpt-5-codex", "nodes.2.provider.model": "gpt-5-codex"},
    # The providers of a block stay: a caller's would make all branches one.
    "m46-parallel-min": {},
}


@pytest.mark.parametrize("case", OVERRIDES)
def test_golden_caller_override_wins_over_the_node(case: str) -> None:
    """In the shell engine, node and stage overrode the command line; a flag now overrides everything."""
    mine = ours(case, Overrides(provider="codex", model="gpt-5-codex"))
    assert_holds(mine, theirs(f"cli-{case}"), OVERRIDES[case])


def test_golden_environment_override_leaves_another_providers_model_behind() -> None:
    mine = ours("m41-defaults", CLAUDE_PIPELINE_PROVIDER="codex")
    assert_holds(mine, theirs("env-m41-defaults"), {"nodes.0.provider.model": "gpt-5.5"})


# The plans of whole runs, compiled again from the files that lie around them.
RUNS = [
    (case, path)
    for case in NAMES
    for path, content in sorted(kept_files(case).items())
    if PurePath(path).match("*/.claude/pipeline-runs/*/plan.json") and "source" in content
]
DIFFERENT_RUNS: dict[str, dict[str, Any]] = {
    # RUNS_WIN
    "04-multi-stage-inputs": {"nodes.0.termination.max": 3, "nodes.1.termination.max": 1},
    # NO_LEFTOVERS
    "05-legacy-keys": {"nodes.0.termination": {"type": "fixed", "max": 2}},
}
# No iterations at all: the shell engine notices only after the start.
REFUSED_RUNS = ("31-zero-iterations",)


@pytest.mark.parametrize(("case", "path"), RUNS, ids=[case for case, _ in RUNS])
def test_golden_plan_of_a_run(case: str, path: str) -> None:
    plan = kept_case(case) / path
    project = plan.parents[3]
    golden = json.loads(plan.read_text().replace("@PROJECT@", str(project)))
    environment = {
        "COMPILE_TIMESTAMP": golden["compiled_at"],
        "SESSION_CREATED_AT": golden["session"]["created_at"],
        "STAGES_DIR": str(project / "stages"),
    }
    sources = FileSources(project, environment)
    if case in REFUSED_RUNS:
        with pytest.raises(DefinitionError):
            compile_pipeline(sources, golden["source"]["path"], "x")
        return
    compiled = compile_pipeline(sources, golden["source"]["path"], golden["session"]["name"])
    mine = msgspec.json.decode(msgspec.json.encode(compiled.plan))
    assert_holds(mine, golden, DIFFERENT_RUNS.get(case, {}))


def test_golden_array_of_parallel_sources_is_accepted() -> None:
    """The shell engine rejected the list form on a node, which its documentation describes."""
    project = kept_case("06b-parallel-array-rejected") / "final"
    sources = FileSources(project, {"STAGES_DIR": str(project / "stages")})
    sources_of = compile_pipeline(sources, "pipe.yaml", "p2").plan.nodes[1].sources
    assert [(found.path, found.providers) for found in sources_of.from_parallel] == [
        ("0", ("claude",)),
        ("0", ("codex",)),
    ]
    assert sources_of.parallel_list
