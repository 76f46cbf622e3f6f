"""`python -m tests.parity [CASES]`: play recorded cases of agent-pipelines with ours, and compare. Without
the folder, plays the cases that are kept in the repository."""

import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.parity.cases import CASES
from tests.parity.compare import Report, compare
from tests.parity.kept_cases import KEPT, NAMES, kept_case, pack
from tests.parity.matrix import compare_matrix, is_matrix
from tests.parity.recorded import Case, load_case, load_cases
from tests.parity.replay import play
from tests.parity.report import lines, rule_table


def main() -> int:
    given = _arguments()
    if given.rules:
        sys.stdout.write("\n".join(rule_table()) + "\n")
        return 0
    found = load_cases(given.cases.resolve()) if given.cases.is_dir() else []
    if given.keep:
        return keep(found)
    if not found:
        sys.stderr.write(f"folder {given.cases} not found: playing the cases that are kept in {KEPT}\n")
        found = [load_case(kept_case(name)) for name in NAMES]
    cases = [case for case in found if not given.only or case.name.startswith(tuple(given.only))]
    with ThreadPoolExecutor(given.jobs) as pool:
        reports = list(pool.map(examine, cases))
    sys.stdout.write("\n".join(lines(reports, details=given.details)) + "\n")
    return 1 if any(report.unexplained for report in reports) else 0


def keep(cases: list[Case]) -> int:
    """Write the compact form of every case into the repository."""
    KEPT.mkdir(exist_ok=True)
    for case in cases:
        (KEPT / f"{case.name}.json").write_text(pack(case.root))
    return 0 if cases else 2


def examine(case: Case) -> Report:
    """One case, played in a folder of its own that is gone afterwards."""
    if is_matrix(case):
        return compare_matrix(case)
    folder = Path(tempfile.mkdtemp(prefix="parity-"))
    try:
        return compare(play(case, folder.resolve()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("cases", nargs="?", type=Path, default=CASES, help="folder of cases")
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once")
    parser.add_argument("--details", action="store_true", help="show differences that a rule explains, too")
    parser.add_argument("--keep", action="store_true", help="write the cases in compact form and stop")
    parser.add_argument("--rules", action="store_true", help="print the table of rules and stop")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
