"""`agentforge show` and `diff`: what happened in a run (its iterations, or a view of `cli/run_views.py`), and
what it changed."""

from typing import TYPE_CHECKING, Any

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import (
    Invocation,
    WholeNumber,
    choose_session_to_show,
    invocation,
    project_options,
)
from agentforge.cli.output import (
    columns,
    echo,
    echo_hanging,
    echo_patch,
    echo_row,
    hanging,
    is_terminal,
    marked,
    note,
    print_json,
    styled,
)
from agentforge.cli.run_views import (
    DRAWN,
    VIEWS,
    WRITTEN,
    chosen_view,
    echo_entries,
    echo_head,
    run_head,
    show_view,
    view_options,
    views_help,
)
from agentforge.views.lines.evidence import evidence_entries
from agentforge.views.lines.structured_work import context_parts, context_rows, part_head
from agentforge.views.lines.work import (
    changes_text,
    file_lines,
    git_rows,
    output_lines,
    show_command,
    stage_title,
    stages_of,
    work_line,
    work_rows,
)
from agentforge.views.text import counted, padded
from agentforge.views.token_budget import parts_in
from agentforge.views.work import iteration_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentforge import RunWork
    from agentforge.views.lines.entries import EntryRow
    from agentforge.views.work import IterationWork


LABEL = 10
EVIDENCE = "evidence"
PARTS = ("output", "prompt", "context", "diff")
"""Options that print one thing of an iteration, and nothing else."""
PART_OPTIONS = f"[{' | '.join(f'--{part}' for part in PARTS)}]"


@click.command(
    help=f"""Show what happened in a run.

    Without STAGE: all iterations, by stage. With STAGE: its latest iteration, or ITERATION, with its result,
    attempts, changed files and output. STAGE is an id or a path such as 1.0, in a parallel block followed by
    `@PROVIDER`. Without STAGE, --output, --prompt, --context and --diff apply to the latest iteration.

    {views_help()}

    SESSION can be omitted if there is only one unfinished session.
    """
)
@click.argument("session", required=False)
@click.argument("stage", required=False)
@click.argument("iteration", type=WholeNumber(1), required=False)
@click.option("--visit", type=WholeNumber(1), help="Visit of the stage.  [default: the latest]")
@click.option("--output", is_flag=True, help="Print only the agent's output.")
@click.option("--prompt", is_flag=True, help="Print only the prompt.")
@click.option("--context", is_flag=True, help="Print what the prompt quotes, with tokens for each text.")
@click.option("--diff", is_flag=True, help="Print only the change to the project's files.")
@click.option(
    "--evidence",
    is_flag=True,
    help="Show what the engine established about the change; exit status 1 if the project differs now.",
)
@click.option("-o", "target", metavar="FILE", help="With --artifacts: also write the artifact to this file.")
@click.option("--svg", metavar="FILE", help="With --timeline: also draw it into this SVG file.")
@view_options
@project_options
def show(
    session: str | None,
    stage: str | None,
    iteration: int | None,
    visit: int | None,
    *,
    target: str | None,
    svg: str | None,
    **flags: bool,
) -> int | None:
    from agentforge import RunWork

    chosen, details = chosen_view((*PARTS, EVIDENCE), flags)
    for option, file, view in (("-o", target, WRITTEN), ("--svg", svg, DRAWN)):
        if file is not None and chosen != view:
            raise click.UsageError(f"{option} goes with --{view}")
    call = invocation()
    if chosen == EVIDENCE:
        if stage or visit:
            raise click.UsageError(f"--{EVIDENCE} is about the whole run: leave STAGE and --visit out")
        return _show_evidence(call, choose_session_to_show(call, session))
    work = RunWork(call.runs, choose_session_to_show(call, session))
    if chosen in VIEWS:
        show_view(call, work, chosen, (stage, iteration, visit), details=details, target=target or svg)
        return None
    if stage is None and chosen is None:
        _show_run(call, work)
        return None
    found = work.find(stage, iteration, visit)
    if call.as_json:
        print_json(_as_json(work, found, chosen))
    elif chosen is None:
        _show_iteration(call, work, found)
    else:
        _show_part(work, found, chosen)
    return None


def _show_evidence(call: Invocation, session: str) -> int:
    from agentforge import RunEvidence

    evidence = RunEvidence(call.runs, session)
    differs = evidence.differences()
    if call.as_json:
        print_json({**run_head(evidence.info), "evidence": evidence.found, "differs": differs})
    else:
        shown = [*evidence_entries(evidence.found, differs)]
        echo_head(evidence.info, "evidence")
        echo("")
        echo_entries(shown)
    return exit_codes.FAILED if differs else exit_codes.COMPLETED


def _show_run(call: Invocation, work: "RunWork") -> None:
    iterations = work.iterations
    changes = work.changes(iterations)
    if call.as_json:
        views = [iteration_json(one, changed) for one, changed in zip(iterations, changes, strict=True)]
        print_json({**run_head(work.info), "iterations": views, "git_left": work.info.summary.git_left})
        return
    echo_head(work.info, counted(sum(one.status == "completed" for one in iterations), "iteration"))
    known = dict(zip(map(id, iterations), changes, strict=True))
    for visit in stages_of(iterations):
        echo("", styled(stage_title(visit[0], iterations), "strong"))
        for one in visit:
            line = work_line(one, known[id(one)], work.info.status, columns() - 4)
            echo(f"  {marked(line.mark)} {line.title}")
    if left := list(git_rows(work.info.summary.git_left, work.info.summary.git_omitted)):
        echo("")
        _echo_rows(left)
    if iterations:
        command = show_command(iterations[-1], iterations, work.session, call.program)
        echo("", styled(f"Details: {command}", "dim"))


def _show_iteration(call: Invocation, work: "RunWork", one: "IterationWork") -> None:
    title = _title(work, one)
    echo(f"{styled(work.session, 'strong')}: {styled(title, 'strong')}")
    _echo_rows(work_rows(one, work.changes([one])[0], work.info.status))
    if output := list(output_lines(work.output(one))):
        echo(f"  {styled('Output:', 'dim')}", *(f"    │ {line}" for line in output))
    if files := work.files(one):
        folder, names = files[0].rpartition("/")[0], [path.rpartition("/")[2] for path in files]
        echo(f"  {styled(padded('Files:', LABEL), 'dim')} {folder}/")
        echo_hanging(f"    {hanging(', '.join(names), 4)}")
    command = show_command(one, work.iterations, work.session, call.program, PART_OPTIONS)
    echo("", styled(f"More: {command}", "dim"))


def _echo_rows(rows: "Iterable[EntryRow]") -> None:
    for row in rows:
        echo_row(row.label, row.value, LABEL)
        for line in row.lines:
            echo_hanging(f"    {hanging(line, 6) if row.label == 'Attempts' else line}")


def _show_part(work: "RunWork", one: "IterationWork", part: str) -> None:
    if part == "diff":
        if patch := work.patch(one, binary=not is_terminal()):
            echo_patch(patch)
        else:
            note(f"{_title(work, one)}, changed no files.")
        return
    text = work.output(one) if part == "output" else work.prompt(one)
    if part == "context" and (text or one.context):
        _show_context(work, one, text or "")
    elif text:
        echo(*text.splitlines())
    else:
        note(f"No {part} recorded for {_title(work, one)}.")


def _show_context(work: "RunWork", one: "IterationWork", prompt: str) -> None:
    echo(f"{styled(work.session, 'strong')}: {styled(_title(work, one), 'strong')}")
    _echo_rows(context_rows(one, prompt))
    for part in parts_in(prompt):
        echo("", f"  {styled(part_head(part), 'dim')}", *(f"    │ {line}" for line in part.text.split("\n")))


def _title(work: "RunWork", one: "IterationWork") -> str:
    return f"{stage_title(one, work.iterations)}, iteration {one.iteration}"


def _as_json(work: "RunWork", one: "IterationWork", part: str | None) -> dict[str, Any]:
    view = iteration_json(one, work.changes([one])[0])
    patch = work.patch(one, binary=False).decode("utf-8", "replace") if part == "diff" else None
    return {
        **run_head(work.info),
        "iteration": view,
        "files": work.files(one),
        "output": work.output(one) if part in (None, "output") else None,
        "prompt": work.prompt(one) if part == "prompt" else None,
        "parts": context_parts(work.prompt(one) or "") if part == "context" else None,
        "diff": patch,
    }


@click.command()
@click.argument("session", required=False)
@click.option("--stat", is_flag=True, help="List only the changed files, with line counts.")
@project_options
def diff(session: str | None, stat: bool) -> None:
    """Show what changed in the project's files since a run began.

    While the run is running or interrupted, the files are compared as they are now; otherwise, as they were
    when its last attempt ended. Needs a git repository. When piped, the output can be passed to `git apply`.
    """
    from agentforge import RunWork

    call = invocation()
    work = RunWork(call.runs, choose_session_to_show(call, session))
    total = work.total(binary=not (call.as_json or is_terminal()))
    if call.as_json:
        shown = {
            "session": work.session,
            "status": work.info.status,
            "tree_before": total.before,
            "tree_after": total.after,
            "now": total.is_now,
            "changed": total.changes.files,
            "diff": None if stat else total.patch.decode("utf-8", "replace"),
        }
        print_json(shown)
    elif not total.changes.files:
        when = f"since session '{work.session}' began" if total.is_now else f"during session '{work.session}'"
        note(f"No files changed {when}.")
    elif stat:
        echo(*file_lines(total.changes, most=len(total.changes.files)), changes_text(total.changes))
    else:
        echo_patch(total.patch)
