"""Recorded compilations: `NAME.yaml` with the `NAME.plan.json` that came of it, or with `NAME.err` alone
where it was refused. `cli-NAME` and `env-NAME` were compiled with what `cli-override.txt` and
`env-override.txt` begin with."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from tests.parity.compare import Report
from tests.parity.differences import MISSING, Difference, differ
from tests.parity.explain import explain
from tests.parity.recorded import Case

from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides
from agentforge.sdk.engine import Engine

CALLER = "caller-wins"


@dataclass(frozen=True)
class Compiled:
    case: Case
    our_plan: Any
    recorded_plan: Any
    parted: dict[tuple[str, str], int] = field(default_factory=dict)


def is_matrix(case: Case) -> bool:
    return not case.commands and any(case.root.glob("*.plan.json"))


def compare_matrix(case: Case) -> Report:
    report = Report(case.name)
    for path in sorted(case.root.glob("*.yaml")):
        _one(report, case, path.stem, path.stem, {})
    for prefix in ("cli", "env"):
        given = _given(case.root / f"{prefix}-override.txt")
        for path in sorted(case.root.glob(f"{prefix}-*.plan.json")):
            name = path.name.removesuffix(".plan.json")
            _one(report, case, name.removeprefix(f"{prefix}-"), name, given if prefix == "cli" else {}, given)
    return report


def _one(
    report: Report,
    case: Case,
    source: str,
    name: str,
    asked: dict[str, str],
    given: dict[str, str] | None = None,
) -> None:
    recorded_path = case.root / f"{name}.plan.json"
    recorded = json.loads(recorded_path.read_text()) if recorded_path.is_file() else None
    report.checked += 1
    ours = _compiled(case, source, recorded, asked, {} if asked else given or {})
    if recorded is None or ours is None:
        if (recorded is None) != (ours is None):
            known = "compiled" if ours is None else "refused"
            difference = Difference(f"{name} plan.json", "", known, "refused" if ours is None else "compiled")
            report.note(difference, "checked-definition" if ours is None else None)
        return
    known = Compiled(case, ours, recorded)
    for difference in differ(f"{name} plan.json", recorded, ours):
        rule = explain(difference, known)
        if given and difference.ours in (*given.values(), MISSING) and "provider" in difference.path:
            rule = rule or CALLER
        report.note(difference, rule)


def _compiled(
    case: Case, source: str, recorded: Any, asked: dict[str, str], variables: dict[str, str]
) -> dict[str, Any] | None:
    """Our plan as JSON; nothing if ours refuses it."""
    project: Path = case.moments[0].root if case.moments else case.root
    times = recorded or {
        "compiled_at": "2026-01-01T00:00:00Z",
        "session": {"created_at": "2026-01-01T00:00:00Z"},
    }
    environment = {
        "MOCK_MODE": "true",
        "STAGES_DIR": str(project / "stages"),
        "COMPILE_TIMESTAMP": times["compiled_at"],
        "SESSION_CREATED_AT": times["session"]["created_at"],
        **{f"CLAUDE_PIPELINE_{name.upper()}": value for name, value in variables.items()},
    }
    session = recorded["session"]["name"] if recorded else "golden"
    engine = Engine(project, environ=environment)
    overrides = Overrides(provider=asked.get("provider"), model=asked.get("model"))
    try:
        compiled = engine.compile(f"{source}.yaml", session=session, overrides=overrides)
    except DefinitionError:
        return None
    plan: dict[str, Any] = json.loads(
        msgspec.json.encode(compiled.plan).replace(str(project).encode(), b"@PROJECT@")
    )
    return plan


def _given(path: Path) -> dict[str, str]:
    first = path.read_text().splitlines()[0] if path.is_file() else ""
    return dict(re.findall(r"\b(provider|model)=(\S+)", first))
