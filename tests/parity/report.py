"""Report of a comparison: a readable difference per case, a summary, and the rules that were used."""

from collections import Counter
from collections.abc import Iterable

from tests.parity.compare import Report
from tests.parity.rules import BY_ID, RULES

SHOWN = 400


def lines(reports: list[Report], *, details: bool = False) -> Iterable[str]:
    for report in reports:
        yield from _case(report, details=details)
    yield ""
    yield f"{'CASE':<42} {'COMPARED':>8} {'EXPLAINED':>9} {'UNEXPLAINED':>11}  NOT PLAYED"
    for report in reports:
        explained = len(report.found) - len(report.unexplained)
        numbers = f"{report.checked:>8} {explained:>9} {len(report.unexplained):>11}"
        yield f"{report.case:<42} {numbers}  {len(report.skipped) or ''}".rstrip()
    yield ""
    yield from _rules(reports)
    unexplained = sum(len(report.unexplained) for report in reports)
    compared = sum(report.checked for report in reports)
    yield f"{len(reports)} cases, {compared} things compared, {unexplained} differences without a rule"


def rule_table() -> list[str]:
    """The rules as a table for the documentation."""
    rows = ["| rule | kind | what differs | why |", "|---|---|---|---|"]
    return rows + [f"| `{rule.id}` | {rule.kind} | {rule.what} | {rule.why} |" for rule in RULES]


def _case(report: Report, *, details: bool) -> Iterable[str]:
    if not (report.unexplained or report.skipped or details):
        return
    yield f"-- {report.case}"
    for difference, rule in report.found:
        if rule is None or details:
            yield f"   {rule or 'NO RULE'}: {difference.where} {difference.path}".rstrip()
            yield f"     - {_shown(difference.recorded)}"
            yield f"     + {_shown(difference.ours)}"
    for label, why in report.skipped:
        yield f"   {label} not played: {why}"


def _rules(reports: list[Report]) -> Iterable[str]:
    used = Counter(rule for report in reports for _, rule in report.found if rule is not None)
    if not used:
        return
    yield f"{'RULE':<26} {'USES':>5}  WHAT DIFFERS, AND WHY"
    for name, count in sorted(used.items()):
        rule = BY_ID[name]
        yield f"{name:<26} {count:>5}  {rule.what}"
        yield f"{'':<33}{rule.kind}: {rule.why}"
    yield ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
