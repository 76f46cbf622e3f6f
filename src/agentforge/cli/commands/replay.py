"""`agentforge replay`: replay a recorded run without its agents, or check whether its course changed."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli import exit_codes
from agentforge.cli.controls import ask_for_trust, trust_option
from agentforge.cli.invocation import Invocation, engine_options, invocation
from agentforge.cli.output import echo, echo_wrapped, note, print_json, styled
from agentforge.model.errors import RunExists
from agentforge.views.lines.course import course_lines, describe_difference
from agentforge.views.text import counted, one_line

if TYPE_CHECKING:
    from agentforge import CourseComparison, Engine, Recording, Replay, RunResult

MAX_NOTES = 20


@click.command()
@click.argument("source", metavar="SESSION|CASSETTE")
@click.option(
    "-p", "--pipeline", metavar="PIPELINE|FILE", help="Pipeline to run.  [default: the recorded pipeline]"
)
@click.option("-s", "--session", metavar="NEW", help="Name of the new session.  [default: SESSION-replay]")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    metavar="N",
    default=0.0,
    help="Playback speed: 1 as recorded, 2 twice as fast, 0 without waiting.  [default: 0]",
)
@click.option("--allow-commands", is_flag=True, help="Run the commands of a cassette.")
@click.option("--overwrite", is_flag=True, help="Overwrite files even if they have uncommitted changes.")
@click.option("--check", is_flag=True, help="Only check whether the run would take the same course.")
@trust_option
@engine_options
def replay(
    *,
    source: str,
    pipeline: str | None,
    session: str | None,
    check: bool,
    trust: bool,
    **how: Any,
) -> int:
    """Replay a recorded run without its agents.

    Plays back a run that was started with `--record`: agents and judge produce the recorded output, files
    and failures. Files are written to this project, so use a clean checkout: without --overwrite, a file
    with uncommitted changes is not overwritten. Nothing is written below .git, .claude and .agentforge.
    Each stage runs in its sandbox. Work that was not recorded fails.

    With --check, runs and writes nothing: the current pipeline (or the one given by -p) is evaluated
    against the run's log, which supplies every result. No recording is needed. Exits 0 if the course is
    the same, 1 if it differs.
    """
    from agentforge import Engine

    call = invocation()
    if check:
        return _validate(call, source, pipeline)
    if source in call.runs.sessions() and ask_for_trust(call, source, given=trust):
        Engine(call.root).trust(source)
    recording = call.runs.recording(source)
    replayed = recording.replay(**how)
    return _replay(call, replayed, pipeline, session)


def _replay(call: Invocation, replayed: "Replay", pipeline: str | None, session: str | None) -> int:
    from agentforge.cli.attached import drive, show_conclusion
    from agentforge.cli.log_output import current_session
    from agentforge.cli.run_options import show_warnings

    recording = replayed.recording

    async def work(engine: "Engine") -> "RunResult":
        compiled = engine.compile_replay(recording, pipeline, session=session)
        show_warnings(compiled)
        current_session.set(compiled.plan.session.name)
        announce = partial(_announce, call, recording, compiled.plan.session.name)
        try:
            return await engine.start(compiled, replay=replayed, on_ready=announce)
        except RunExists as taken:
            raise RunExists(taken.message, hint="choose another name with `-s NEW`") from taken

    return show_conclusion(call, drive(call, work))


def _announce(call: Invocation, recording: "Recording", session: str) -> None:
    note(
        f"Replaying {recording.name} as session '{session}': files are written to {call.root}. "
        "Use a clean checkout (`git worktree add`) to keep your own files untouched."
    )
    for missing in recording.notes[:MAX_NOTES]:
        note(f"  not recorded: {one_line(missing)}")
    if len(recording.notes) > MAX_NOTES:
        note(f"  and {len(recording.notes) - MAX_NOTES} more")


def _validate(call: Invocation, source: str, pipeline: str | None) -> int:
    from agentforge import Engine
    from agentforge.cli.log_output import set_up_logs

    set_up_logs(call)
    found = Engine(call.root).rehearse(source, pipeline)
    if call.as_json:
        course = found.rehearsal
        print_json(
            {
                "session": found.session,
                "pipeline": found.pipeline,
                "same": found.is_same,
                "difference": course.difference,
                "text": describe_difference(course),
                "unrecorded": course.unrecorded,
                "past": course.past,
                "now": course.now,
                "damage": found.damage,
            }
        )
    else:
        _print(found)
    return exit_codes.COMPLETED if found.is_same else exit_codes.FAILED


def _print(found: "CourseComparison") -> None:
    for damage in found.damage:
        note(f"line {damage.line} of the log is damaged and skipped: {one_line(damage.reason)}")
    name, course = f"session '{found.session}'", found.rehearsal
    if found.is_same:
        iterations = sum(turn.what == "answer" for turn in course.past)
        amount = counted(iterations, "iteration")
        echo_wrapped(f"{styled('✓ same course', 'good')}: {name} with {found.pipeline} ({amount})")
        return
    echo_wrapped(f"{styled('✗ different course', 'bad')}: {name} with {found.pipeline}")
    echo_wrapped(f"  {describe_difference(course)}")
    for title, turns in (("Recorded run:", course.past), ("This pipeline:", course.now)):
        echo(styled(title, "dim"))
        for line in course_lines(turns):
            echo_wrapped(f"  {line}")
