"""`--skip-check` on the command line: a person continues without a check, and says why."""

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
    done = project.call("resume", "auth", "--skip-check", "test", "--reason", "the server is down")
    assert done.code == 0
    assert "check test was waived by" in done.out
    assert ": the server is down" in done.out
    assert "verdict pass (waived: test)" in done.out
