"""What hooks and notifications need on this machine, and what is missing."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.views.samples import plan

from agentforge import SyncEngine
from agentforge.app.doctor import hook_probes
from agentforge.app.hook_needs import HookNeed, hook_needs, hook_warnings
from agentforge.model.hook import Hook, Notification
from agentforge.model.plan import NestedNode, Plan


def hooked(*hooks: Hook, notify: tuple[Notification, ...] = ()) -> Plan:
    return replace(plan(), pipeline=replace(plan().pipeline, hooks=hooks, notify=notify))


def script(line: str) -> Plan:
    return hooked(Hook("check", "stage_end", "script", script=line))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    for name in ("bin/review", "local.sh", "sh"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "plain.sh").write_text("echo\n")
    return {"PATH": f"{tmp_path / 'bin'}:/bin", "KEY": "k"}


@pytest.mark.parametrize(
    "line",
    [
        "review --fast",
        "A=1 B=2 review",
        "./local.sh x",
        "sh plain.sh",
        "sh -c 'echo'",
        'sh "$FILE"',
        "if true; then review; fi",
        "(cd x; nothing)",
        "$TOOL x",
        "echo a | nothing",
        "review 'unbalanced",
        "",
    ],
)
def test_script_that_can_run_is_not_a_warning(line: str, environ: dict[str, str], tmp_path: Path) -> None:
    assert hook_warnings(script(line), environ, str(tmp_path)) == ()


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("nothing --fast", "nothing was not found or is not executable"),
        (
            "A=1 ./plain.sh",
            "./plain.sh was not found or is not executable",
        ),
        ("sh missing.sh", "missing.sh is not a file of the project"),
    ],
)
def test_missing_program_of_a_script_is_a_warning(
    line: str, warning: str, environ: dict[str, str], tmp_path: Path
) -> None:
    assert hook_warnings(script(line), environ, str(tmp_path)) == (f"hook 'check': {warning}",)


def test_found_program_is_named_with_its_path(environ: dict[str, str], tmp_path: Path) -> None:
    (need,) = hook_needs(script("review"), environ, str(tmp_path))
    assert need == HookNeed("hook 'check'", str(tmp_path / "bin/review"))


def test_missing_secret_and_variables_are_warnings(environ: dict[str, str], tmp_path: Path) -> None:
    webhook = Hook("review", "stage_end", "webhook", url="http://localhost/", secret="SECRET")
    check = Hook("check", "stage_end", "script", script="review", environment=("KEY", "OTHER"))
    assert hook_warnings(hooked(webhook, check), environ, str(tmp_path)) == (
        "hook 'review': SECRET is not set: the webhook will fail, because it can't be signed",
        "hook 'check': OTHER is not set: the script runs without it",
    )
    assert hook_warnings(hooked(webhook), {"SECRET": "s"}, str(tmp_path)) == ()


def test_hooks_of_a_nested_pipeline_count(environ: dict[str, str], tmp_path: Path) -> None:
    inner = script("nothing")
    outer = replace(plan(), nodes=(NestedNode("0", "inner", 1, {}, inner, "inner.yaml"),))
    assert len(hook_warnings(outer, environ, str(tmp_path))) == 1


def test_notification_needs_its_program_and_its_secret(environ: dict[str, str], tmp_path: Path) -> None:
    notify = (Notification(command="nothing", secret="SECRET"), Notification(desktop=True))
    found = hook_warnings(hooked(notify=notify), environ, str(tmp_path))
    assert found[:2] == (
        "notification: nothing was not found or is not executable",
        "notification: SECRET is not set: it will not be sent, because it can't be signed",
    )


def test_doctor_probes_the_hooks_of_each_pipeline(environ: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / ".claude/pipelines"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("name: broken\n")
    (folder / "notes.yaml").write_text(
        "name: notes\n"
        "hooks:\n"
        "  stage_end:\n"
        "    - {id: check, action: script, script: review, environment: OTHER}\n"
        "nodes: [{id: a, prompt: x}]\n"
    )
    assert [(probe.name, probe.level, probe.found) for probe in hook_probes(str(tmp_path), environ)] == [
        ("notes", "ok", f"hook 'check': {tmp_path / 'bin/review'}"),
        ("notes", "warning", "hook 'check': OTHER is not set: the script runs without it"),
    ]


def test_lint_warns_about_what_a_hook_lacks(tmp_path: Path) -> None:
    (tmp_path / "notes.yaml").write_text(
        "name: notes\n"
        "hooks: {stage_end: [{id: check, action: script, script: sh missing.sh}]}\n"
        "nodes: [{id: a, prompt: x, provider: {type: command, run: 'true'}}]\n"
    )
    with SyncEngine(tmp_path) as engine:
        found = engine.lint("notes.yaml", "pipeline")
    assert found.passed
    assert [one.message for one in found.diagnostics] == [
        "hook 'check': missing.sh is not a file of the project"
    ]
