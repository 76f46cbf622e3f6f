"""`python -m bench [--quick] [--json FILE] [--dir DIR]`: measure, print the table, write the JSON."""

import argparse
import asyncio
import logging
import tempfile
from pathlib import Path
from time import perf_counter

from msgspec import Struct

from bench import (
    caps,
    controller,
    hooks,
    iteration,
    log,
    long_runs,
    loop,
    sessions,
    spans,
    startup,
    structured,
    trees,
)
from bench.machine import machine
from bench.report import Report, text, write_json


class Sizes(Struct, frozen=True):
    """How much is measured."""

    iterations: int = 1301
    span_rounds: int = 6
    span_iterations: int = 501
    command_rounds: int = 6
    command_iterations: int = 11
    hook_rounds: int = 4
    hook_iterations: int = 201
    crowd_rounds: int = 12
    crowd_iterations: int = 20
    artifact_rounds: int = 4
    artifact_iterations: int = 201
    item_rounds: int = 4
    items: int = 300
    context_rounds: int = 20
    loop_rounds: int = 3
    loop_runs: int = 10
    loop_steps: int = 300
    lengths: tuple[int, ...] = (10_000, 100_000)
    append_rounds: int = 300
    replay_rounds: int = 7
    status_rounds: int = 12
    tree_files: int = 20_000
    tree_rounds: int = 12
    session_counts: tuple[int, ...] = (20, 50, 100)
    session_rounds: int = 5
    state_rounds: int = 20
    pipeline_rounds: int = 30
    pipelines: int = 200
    long_run: int = 10_000
    stretch: int = 1000


QUICK = Sizes(
    iterations=41,
    span_rounds=1,
    span_iterations=4,
    command_rounds=1,
    command_iterations=4,
    hook_rounds=1,
    hook_iterations=4,
    crowd_rounds=1,
    crowd_iterations=2,
    artifact_rounds=1,
    artifact_iterations=4,
    item_rounds=1,
    items=30,
    context_rounds=1,
    loop_rounds=1,
    loop_runs=1,
    loop_steps=12,
    lengths=(100, 300),
    append_rounds=5,
    replay_rounds=1,
    status_rounds=1,
    tree_files=100,
    tree_rounds=1,
    session_counts=(4, 6),
    session_rounds=1,
    state_rounds=2,
    pipeline_rounds=1,
    pipelines=2,
    long_run=60,
    stretch=20,
)


def main() -> None:
    options = _options()
    # The measured pipelines have no checks; that needs no warning.
    logging.getLogger("agentforge").addHandler(logging.NullHandler())
    parent = options.dir.absolute()
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        root = Path(folder, "project")
        root.mkdir()
        report = measure_all(root, QUICK if options.quick else Sizes(), quick=options.quick)
    print(text(report))
    if options.json is not None:
        write_json(report, options.json)


def measure_all(root: Path, sizes: Sizes, *, quick: bool) -> Report:
    """Nothing is deleted before all that is timed is done: on some file systems that slows down making
    new files, for minutes."""
    began = perf_counter()
    measures = asyncio.run(iteration.in_process(root, sizes.iterations))
    measures += asyncio.run(iteration.log_only(root, sizes.iterations))
    measures += asyncio.run(spans.spans(root, sizes.span_rounds, sizes.span_iterations))
    measures += asyncio.run(hooks.hooks(root, sizes.hook_rounds, sizes.hook_iterations))
    measures += asyncio.run(caps.caps(root, sizes.hook_rounds, sizes.hook_iterations))
    measures += asyncio.run(caps.crowd(root, sizes.crowd_rounds, sizes.crowd_iterations))
    measures += asyncio.run(structured.artifacts(root, sizes.artifact_rounds, sizes.artifact_iterations))
    measures += asyncio.run(structured.items(root, sizes.item_rounds, sizes.items))
    measures += asyncio.run(structured.preparations(root, sizes.context_rounds, sizes.items))
    measures += asyncio.run(loop.transitions(root, sizes.loop_rounds))
    measures += asyncio.run(loop.stages(root, sizes.loop_runs))
    measures += loop.memory(root, sizes.loop_steps)
    measures += asyncio.run(iteration.command(root, sizes.command_rounds, sizes.command_iterations))
    measures += log.replays(root, sizes.lengths, sizes.replay_rounds)
    measures += log.capped_replay(root, sizes.lengths[0], sizes.replay_rounds)
    measures += startup.status(root, sizes.lengths[-1], sizes.status_rounds)
    measures += log.appends(root, (0, *sizes.lengths), sizes.append_rounds)
    measures += trees.trees(root, sizes.tree_files, sizes.tree_rounds)
    measures += sessions.sessions(root, sizes.session_counts, sizes.session_rounds)
    measures += controller.states(root, sizes.state_rounds)
    measures += controller.pipelines(root, sizes.pipeline_rounds)
    measures += controller.kept(root, sizes.pipelines)
    stretches = long_runs.long_run(root, sizes.long_run, sizes.stretch)
    measures += long_runs.measures(stretches)
    return Report(machine(root), quick, perf_counter() - began, measures, stretches)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only show that everything can be measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measures as JSON, too")
    parser.add_argument(
        "--dir", type=Path, default=Path(".bench"), help="where to work; its disk is what is measured"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
