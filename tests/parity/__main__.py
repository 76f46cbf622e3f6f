"""`python -m tests.parity [CASES]`: play recorded cases of agent-pipelines with ours, and compare."""

import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.parity.cases import CASES
from tests.parity.compare import Report, compare
from tests.parity.matrix import compare_matrix, is_matrix
from tests.parity.recorded import Case, load_cases
from tests.parity.replay import play
from tests.parity.report import lines, rule_table


def main() -> int:
    given = _arguments()
    if given.rules:
        sys.stdout.write("\n".join(rule_table()) + "\n")
        return 0
    if not given.cases.is_dir():
        sys.stderr.write(f"folder not found: {given.cases}; give a folder with recorded cases\n")
        return 2
    cases = [
        case
        for case in load_cases(given.cases.resolve())
        if not given.only or case.name.startswith(tuple(given.only))
    ]
    with ThreadPoolExecutor(given.jobs) as pool:
        reports = list(pool.map(examine, cases))
    sys.stdout.write("\n".join(lines(reports, details=given.details)) + "\n")
    return 1 if any(report.unexplained for report in reports) else 0


def examine(case: Case) -> Report:
    """Play one case in a temporary folder."""
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
    parser.add_argument("--rules", action="store_true", help="print the table of rules and stop")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
