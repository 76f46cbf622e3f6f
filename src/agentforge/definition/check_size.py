"""How long a run may be: its course is laid out in full, so repetitions within repetitions are bounded."""

from agentforge.definition.check import MAX_RUNS
from agentforge.definition.diagnostics import Report
from agentforge.definition.resolved import ResolvedNested, ResolvedPipeline

MAX_STEPS = 100_000


def check_size(pipeline: ResolvedPipeline, passes: int, report: Report) -> None:
    if not 1 <= passes <= MAX_RUNS:
        at = report.argument(f"{pipeline.spec.name} {passes}")
        message = f"a pipeline runs from 1 to {MAX_RUNS:,} times, not {passes:,}"
        report.error("bad-value", at, message)
        return
    steps = passes * _steps(pipeline)
    if steps > MAX_STEPS:
        message = f"the run would have {steps:,} steps; {MAX_STEPS:,} are possible"
        hint = "lower the `runs` of pipelines within it, or how often it runs"
        report.error("too-large", pipeline.spec.source.start, message, hint)


def _steps(pipeline: ResolvedPipeline) -> int:
    total = 0
    for node in pipeline.nodes:
        if isinstance(node, ResolvedNested):
            runs = node.spec.work.runs
            total += max(runs.value if runs else 1, 1) * _steps(node.pipeline)
        else:
            total += 1
    return total
