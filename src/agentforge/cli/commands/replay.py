"""`agentforge replay`: a recorded run without its agents, or only whether it would go the same way."""

from typing import TYPE_CHECKING

import click

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation, engine_options, invocation
from agentforge.cli.output import note, print_json, styled
from agentforge.model.errors import RunExists
from agentforge.views.lines.course import course_lines, describe_difference
from agentforge.views.text import counted, one_line

if TYPE_CHECKING:
    from agentforge import CourseComparison, Engine, Recording, RunResult

SHOWN_NOTES = 20


@click.command()
@click.argument("source", metavar="SESSION|CASSETTE")
@click.option(
    "-p", "--pipeline", metavar="PIPELINE|FILE", help="Another pipeline.  [default: that of the recording]"
)
@click.option("-s", "--session", metavar="NEW", help="What to call the replay.  [default: SESSION-replay]")
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    metavar="N",
    default=0.0,
    help="1 is as fast as recorded, 2 twice as fast, 0 doesn't wait.  [default: 0]",
)
@click.option("--check", is_flag=True, help="Only say whether the run would go the same way.")
@engine_options
def replay(*, source: str, pipeline: str | None, session: str | None, speed: float, check: bool) -> int:
    """Run a recorded run again, without its agents.

    What `--record` kept is played: every agent and the judge say, write and fail as they did, in this very
    project, so that a clean checkout is the place for it. What wasn't recorded fails.

    With --check nothing is run and nothing is written: the run's log is rehearsed with the pipeline as it
    is now, or with another, and every answer is taken from the log. No recording is needed. Exit status 0
    means the same course, 1 another one.
    """
    call = invocation()
    if check:
        return _validate(call, source, pipeline)
    return _replay(call, source, pipeline, session, speed)


def _replay(call: Invocation, source: str, pipeline: str | None, session: str | None, speed: float) -> int:
    from agentforge.cli.attached import conclude, drive
    from agentforge.cli.log_output import current_session
    from agentforge.cli.run_options import show_warnings

    recording = call.runs.recording(source)

    async def work(engine: "Engine") -> "RunResult":
        compiled = engine.compile_replay(recording, pipeline, session=session)
        show_warnings(compiled)
        current_session.set(compiled.plan.session.name)
        try:
            await engine.validate_start(compiled, replay=recording.replay(speed))
        except RunExists as taken:
            raise RunExists(taken.message, hint="give this replay another name: `-s NEW`") from taken
        _announce(call, recording, compiled.plan.session.name)
        return await engine.start(compiled, replay=recording.replay(speed))

    return conclude(call, drive(call, work))


def _announce(call: Invocation, recording: "Recording", session: str) -> None:
    note(
        f"Replaying {recording.name} as session '{session}': its files are written into {call.root}. "
        "A clean checkout (`git worktree add`) keeps yours apart."
    )
    for kept in recording.notes[:SHOWN_NOTES]:
        note(f"  not recorded: {one_line(kept)}")
    if len(recording.notes) > SHOWN_NOTES:
        note(f"  and {len(recording.notes) - SHOWN_NOTES} more")


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
                "words": describe_difference(course),
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
        note(f"line {damage.line} of the log is damaged and left out: {one_line(damage.reason)}")
    name, course = f"session '{found.session}'", found.rehearsal
    if found.is_same:
        iterations = sum(turn.what == "answer" for turn in course.past)
        amount = counted(iterations, "iteration")
        click.echo(f"{styled('✓ same course', 'good')}: {name} by {found.pipeline} ({amount})")
        return
    click.echo(f"{styled('✗ another course', 'bad')}: {name} by {found.pipeline}")
    click.echo(f"  {describe_difference(course)}")
    for title, turns in (("The past run:", course.past), ("This pipeline:", course.now)):
        click.echo(styled(title, "dim"))
        for line in course_lines(turns):
            click.echo(f"  {line}")
