"""`--skip-check` on the command line: a person continues without a check, and says why."""

import os
import pwd
from typing import Any

import click
import pytest
from tests.surface.terminal import WRITE_RESULT, Project

from agentforge.cli.background import in_background
from agentforge.cli.commands.loop import loop
from agentforge.cli.commands.pipeline import pipeline
from agentforge.cli.commands.resume import background_flags, refuse_resume_options, resume
from agentforge.cli.invocation import Invocation
from agentforge.cli.main import app
from agentforge.cli.run_options import RunOptions, skipped_checks

CHECKED = '    checks: [{name: test, run: "exit 1"}]\n'


def test_run_continues_without_a_check_and_shows_who_skipped_it(project: Project) -> None:
    file = project.pipeline(f"build={WRITE_RESULT}", extra=CHECKED)
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    unexplained = project.call("resume", "auth", "--skip-check", "test")
    assert unexplained.code == 2
    assert "--skip-check needs --reason TEXT" in unexplained.err
    unused = project.call("resume", "auth", "--reason", "it is late")
    assert unused.code == 2
    assert "use it with --skip-check NAME" in unused.err
    unknown = project.call("pipeline", "--foreground", "--skip-check=tset", "--reason=why", file, "other")
    assert unknown.code == 2
    assert "the pipeline has no check 'tset'" in unknown.err
    assert "did you mean `test`? checks: test" in unknown.err
    done = project.call("resume", "auth", "--skip-check", "test", "--reason", "the server is down")
    assert done.code == 0
    assert "check test was waived by" in done.out
    assert ": the server is down" in done.out
    assert "verdict pass (waived: test)" in done.out
    user = pwd.getpwuid(os.getuid()).pw_name
    assert f"  Waived: test by {user}: the server is down" in done.lines
    history = project.call("history", "auth").lines
    assert history[1] == f"    Waived:   test by {user}: the server is down"
    assert history[-1].endswith("build, visit 1: pass (waived: test)")
    waiver = {"check": "test", "reason": "the server is down", "by": user}
    assert project.call("checks", "auth", "--json").json["waivers"] == [waiver]


def test_resume_that_is_refused_does_not_say_that_it_resumes(project: Project) -> None:
    file = project.pipeline(f"build={WRITE_RESULT}", extra=CHECKED)
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    before = project.events("auth")
    done = project.call("resume", "auth", "--skip-check", "nope", "--reason", "why")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: the pipeline has no check 'nope'\n")
    assert project.events("auth") == before


SKIPPED = dict.fromkeys(("test", "-v"), "--the server\nis down")
OPTIONS = {"provider": None, "model": None, "context": None, "inputs": (), "commands": (), "settings": ()}
RESUMED = {"force": False, "recompile": False, "record": False, "accept_damage": False, "approve": False}
RESUMED |= {"restart_stage": False, "context": None, "provider": None, "detach": False}


def understood(command: click.Command, line: list[str]) -> dict[str, str]:
    """The checks that the process in the background is told to skip."""
    assert line[0] == command.name
    return skipped_checks(command.make_context(line[0], line[1:], **app.context_settings).params)


@pytest.mark.parametrize(
    ("command", "what"), [(pipeline, {"pipeline": "p.yaml"}), (loop, {"stage": "tidy", "count": 2})]
)
def test_run_in_the_background_skips_the_same_checks(command: click.Command, what: dict[str, Any]) -> None:
    given = RunOptions("auth", OPTIONS, skip_checks=SKIPPED, **what)
    assert understood(command, given.arguments("/project", "auth", None)) == SKIPPED


def test_run_that_is_resumed_in_the_background_skips_the_same_checks() -> None:
    line = in_background("resume", Invocation(), "auth", background_flags(**RESUMED, skip_checks=SKIPPED))
    assert understood(resume, line) == SKIPPED


@pytest.mark.parametrize(
    ("given", "option"), [({"skip_checks": SKIPPED}, "--skip-check"), ({"approve": True}, "--yes")]
)
def test_stage_of_a_running_run_is_not_restarted_with_options_of_a_resume(
    given: dict[str, Any], option: str
) -> None:
    refuse_resume_options("auth", {**RESUMED, "skip_checks": {}})
    with pytest.raises(click.UsageError, match=f"{option} can't be used while session 'auth' is running"):
        refuse_resume_options("auth", {**RESUMED, "skip_checks": {}, **given})
