"""`agentforge diff`: show what changed in the project since a run began."""

import click

from agentforge.cli.invocation import choose_session_to_show, invocation, project_options
from agentforge.cli.output import echo, echo_patch, is_terminal, note, print_json
from agentforge.views.lines.work import changes_text, file_lines


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
