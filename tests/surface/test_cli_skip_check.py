"""`--skip-check` on the command line: a person continues without a check, and says why."""

import os
import pwd

from tests.surface.terminal import WRITE_RESULT, Project

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
    history = project.call("show", "auth", "--history").lines
    assert history[1] == f"    Waived:   test by {user}: the server is down"
    assert history[-1].endswith("build, visit 1: pass (waived: test)")
    waiver = {"check": "test", "reason": "the server is down", "by": user}
    assert project.call("show", "auth", "--checks", "--json").json["waivers"] == [waiver]


def test_resume_that_is_refused_does_not_say_that_it_resumes(project: Project) -> None:
    file = project.pipeline(f"build={WRITE_RESULT}", extra=CHECKED)
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    before = project.events("auth")
    done = project.call("resume", "auth", "--skip-check", "nope", "--reason", "why")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: the pipeline has no check 'nope'\n")
    assert project.events("auth") == before
