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
from tests.parity.differences import Difference, differ
from tests.parity.divergences import explain_refusal
from tests.parity.explain import explain
from tests.parity.recorded import Case

from agentforge.model.diagnostic import render
from agentforge.model.errors import DefinitionError
from agentforge.model.plan import Overrides
from agentforge.sdk.engine import Engine


@dataclass(frozen=True)
class Compiled:
    case: Case
    our_plan: Any
    recorded_plan: Any
    given: dict[str, set[str]] = field(default_factory=dict)
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
    refused = isinstance(ours, DefinitionError)
    if recorded is None or refused:
        if (recorded is None) != refused:
            sides = ("compiled", "refused") if refused else ("refused", "compiled")
            difference = Difference(f"{name} plan.json", "", *sides)
            report.note(difference, explain_refusal(render(ours.diagnostics)) if refused else None)
        return
    known = Compiled(case, ours, recorded, {key: {value} for key, value in (given or {}).items()})
    for difference in differ(f"{name} plan.json", recorded, ours):
        report.note(difference, explain(difference, known))


def _compiled(
    case: Case, source: str, recorded: Any, asked: dict[str, str], variables: dict[str, str]
) -> dict[str, Any] | DefinitionError:
    """Our plan as JSON, or why ours refuses it."""
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
    overrides = Overrides(**asked)
    try:
        compiled = engine.compile(f"{source}.yaml", session=session, overrides=overrides)
    except DefinitionError as error:
        return error
    plan: dict[str, Any] = json.loads(
        msgspec.json.encode(compiled.plan).replace(str(project).encode(), b"@PROJECT@")
    )
    return plan


def _given(path: Path) -> dict[str, str]:
    first = path.read_text().splitlines()[0] if path.is_file() else ""
    return dict(re.findall(r"\b(provider|model|context)=(\S+)", first))
