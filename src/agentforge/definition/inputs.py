"""The files that a run begins with: what the caller and the pipelines name, found, sorted, each once."""

from collections.abc import Iterable

from agentforge.definition.diagnostics import Report
from agentforge.definition.spec import PipelineSpec
from agentforge.ports.sources import Sources


def session_inputs(
    sources: Sources, asked: tuple[str, ...], specs: Iterable[PipelineSpec], report: Report
) -> tuple[str, ...]:
    found: set[str] = set()
    for pattern in asked:
        files = sources.expand(pattern)
        found.update(files)
        if not files:
            report.error(
                "missing-input",
                report.argument(f"--input {pattern}"),
                f"no file fits the input `{pattern}`",
                hint="give a file, a glob or a folder, relative to the project",
            )
    for written in (written for spec in specs for written in spec.inputs or ()):
        files = sources.expand(written.value)
        found.update(files)
        if not files:
            message = f"no file fits the input `{written.value}`"
            report.warning("missing-input", written.at, message, hint="the run begins without it")
    return tuple(sorted(found))
