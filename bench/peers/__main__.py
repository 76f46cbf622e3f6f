"""`python -m bench.peers [--dir DIR] [--json FILE] [--plot FILE]`: measure the peers, print the tables."""

import argparse
import signal
import sys
from pathlib import Path
from time import perf_counter
from types import FrameType

from bench.machine import machine
from bench.peers import chart, rounds
from bench.peers.places import KINDS, prepared
from bench.peers.report import Report, report, text, write_json
from bench.peers.rounds import ALL, PEERS_PYTHON, WITH_PROGRAMS, Phase

SECONDS = 420
PHASES = (
    Phase(ALL, steps=200, rounds=3),
    Phase((WITH_PROGRAMS,), steps=300, rounds=1, turn_steps=0),
    Phase((WITH_PROGRAMS,), steps=600, rounds=1, turn_steps=0),
    Phase(ALL, steps=2000, rounds=1),
)
QUICK = (
    Phase(ALL, steps=15, rounds=1, turn_steps=5),
    Phase((WITH_PROGRAMS,), steps=2, rounds=1, turn_steps=0),
    Phase((WITH_PROGRAMS,), steps=4, rounds=1, turn_steps=0),
)


def main() -> None:
    options = _options()
    if not PEERS_PYTHON.exists():
        sys.exit("The peers aren't installed: run `make peers` or `make bench-peers`.")
    # An exit instead of an abrupt end, so that the file systems are unmounted and removed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    found = measure(options.dir.absolute(), options.places, QUICK if options.quick else PHASES)
    print(text(found))
    if options.json is not None:
        write_json(found, options.json)
    if options.plot is not None:
        options.plot.write_text(chart.svg(found.rows))
    sys.exit(1 if found.missing else 0)


def measure(parent: Path, kinds: tuple[str, ...], phases: tuple[Phase, ...]) -> Report:
    began = perf_counter()
    with prepared(parent, kinds) as (places, skipped):
        left = SECONDS - (perf_counter() - began)
        samples, missing = rounds.run_phases(places, phases, left)
        about = {place.kind: place.about for place in places}
        return report(machine(parent), perf_counter() - began, about, samples, skipped, missing)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--dir", type=Path, default=Path(".bench"), help="working folder, whose disk is measured"
    )
    parser.add_argument("--places", type=_kinds, default=KINDS, help=f"some of {','.join(KINDS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the longest runs as SVG")
    parser.add_argument("--quick", action="store_true", help="only check that all measurements run")
    return parser.parse_args()


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    if unknown := set(kinds) - set(KINDS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: choose of {','.join(KINDS)}")
    return kinds


if __name__ == "__main__":
    main()
