"""Notifications: sent when an event is durable, at most once, and never in the run's way."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import plan_of, stage
from tests.sdk.approvals import with_approval
from tests.sdk.projects import ENVIRON, cut_log, engine, node, pipeline, run, run_dir
from tests.webhook_server import Reply, serving

from agentforge import HookContext, HookResult
from agentforge.app.notifications import channels
from agentforge.model.hook import OCCASIONS, Notification
from agentforge.sdk.engine import Engine
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says
from agentforge.views.notice import notification_key
from agentforge.views.results import RunResult

WRITE = 'cat >> told.jsonl; echo "$AGENTFORGE_EVENT $AGENTFORGE_NOTIFICATION" >> told'
COMMAND = Notification(command=WRITE, in_project=True)


async def started(
    sdk: Engine, notify: Notification = COMMAND, *, approve: bool = False, **changes: Any
) -> RunResult:
    compiled = sdk.compile(pipeline(node(**changes)), session="s")
    plan = replace(compiled.plan, pipeline=replace(compiled.plan.pipeline, notify=(notify,)))
    compiled = replace(compiled, plan=plan)
    return await sdk.start(with_approval(compiled) if approve else compiled)


def told(project: Path, file: str = "told.jsonl") -> list[dict[str, Any]]:
    path = project / file
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def seq_of(project: Path, kind: str) -> tuple[str, int]:
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    events = map(json.loads, lines)
    return next((event["trace_id"], event["seq"]) for event in events if event["type"] == kind)


def test_command_is_told_that_a_run_completed(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            assert (await started(sdk)).completed

    run(main())
    (notice,) = told(tmp_path)
    run_id, seq = seq_of(tmp_path, "session_complete")
    key = notification_key(run_id, seq)
    assert notice == {
        "session": "s",
        "event": "completed",
        "title": "AgentForge",
        "text": "refine s: complete",
        "notification": key,
        "run_id": run_id,
    }
    assert (tmp_path / "told").read_text() == f"completed {key}\n"


def test_command_is_told_that_a_run_failed(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes(3, "no key")])) as sdk:
            assert not (await started(sdk, retry={"max_attempts": 1})).completed

    run(main())
    (notice,) = told(tmp_path)
    assert (notice["event"], notice["text"]) == (
        "failed",
        "refine s: failed: scripted exited with status 3: no key",
    )


def test_command_is_told_that_a_run_was_cancelled_by_a_hook_or_a_person(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            sdk.on_iteration_end(name="h")(lambda _: HookResult("abort", "not good enough"))
            assert (await started(sdk)).status == "aborted"
        (notice,) = told(tmp_path)
        assert (notice["event"], notice["text"]) == ("cancelled", "refine s: cancelled: not good enough")
        async with engine(tmp_path) as sdk:
            compiled = with_approval(sdk.compile(pipeline(node()), session="other"))
            plan = replace(compiled.plan, pipeline=replace(compiled.plan.pipeline, notify=(COMMAND,)))
            await sdk.start(replace(compiled, plan=plan))
        # The first command has ended: two at once may end in any order.
        async with engine(tmp_path) as sdk:
            await sdk.cancel("other")

    run(main())
    assert [notice["event"] for notice in told(tmp_path)] == ["cancelled", "request", "cancelled"]


def test_command_is_told_who_is_asked_what_and_how_to_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            (request,) = (await started(sdk, approve=True)).requests
        (notice,) = told(tmp_path)
        assert notice["event"] == "request"
        assert notice["request"] == request.id
        assert notice["text"] == f"refine s: needs an answer: {request.question}"
        assert notice["command"] == "agentforge approve s"
        async with engine(tmp_path) as sdk:
            await sdk.answer("s", "approve")

    run(main())
    assert [notice["event"] for notice in told(tmp_path)] == ["request", "completed"]


def test_notification_is_sent_only_on_the_occasions_that_it_names(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await started(sdk, replace(COMMAND, on=("completed",)), approve=True)
            await sdk.answer("s", "approve")

    run(main())
    assert [notice["event"] for notice in told(tmp_path)] == ["completed"]


def test_next_engine_sends_no_notification_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await started(sdk, approve=True)
        log = run_dir(tmp_path) / "events.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        opened = next(number for number, line in enumerate(lines) if b"request_opened" in line)
        cut_log(tmp_path, lines[: opened + 1])
        async with engine(tmp_path) as sdk:
            result = await sdk.recover("s")
            assert result is not None
            assert [request.kind for request in result.requests] == ["approval"]

    run(main())
    assert len(told(tmp_path)) == 1


def test_failed_notification_is_logged_and_the_run_completes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:
            assert (await started(sdk, Notification(command="echo no route >&2; exit 4"))).completed

    with caplog.at_level(logging.WARNING):
        run(main())
    assert [r.getMessage() for r in caplog.records if "notification by" in r.getMessage()] == [
        "session 's': notification by command failed: exit status 4: no route"
    ]


def test_user_is_notified_of_every_run_by_the_command_in_the_environment(tmp_path: Path) -> None:
    """It runs in the user's home."""
    environ = {**ENVIRON, "AGENTFORGE_NOTIFY": WRITE, "HOME": str(tmp_path)}

    async def main() -> None:
        async with engine(tmp_path, environ=environ) as sdk:
            await sdk.run(pipeline(), session="a")
            # The same command in the plan: notified once.
            await started(sdk)

    run(main())
    assert sorted(notice["session"] for notice in told(tmp_path)) == ["a", "s"]


def test_replay_sends_no_notification(tmp_path: Path) -> None:
    environ = {**ENVIRON, "AGENTFORGE_NOTIFY": WRITE, "HOME": str(tmp_path)}

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            await sdk.run(pipeline(), session="s", record=True)
        async with engine(tmp_path, environ=environ) as sdk:
            assert (await sdk.replay("s", session="again")).completed

    run(main())
    assert told(tmp_path) == []


def test_webhook_receives_the_signed_notice_with_its_key(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with engine(tmp_path, environ={**ENVIRON, "REVIEW_KEY": "s3cret-s3cret"}) as sdk:
            assert (await started(sdk, Notification(url=url, secret="REVIEW_KEY"))).completed

    with serving() as server:
        run(main(f"{server.url}/notify"))
    (received,) = server.received
    assert received.payload["text"] == "refine s: complete"
    assert received.key == received.payload["notification"]
    assert received.is_signed_with("s3cret-s3cret")


@pytest.mark.parametrize(
    ("status", "secret", "why"),
    [
        (500, None, "500"),
        (200, "ABSENT", "ABSENT, which holds the secret, is not set"),
    ],
)
def test_webhook_that_fails_is_not_repeated(
    tmp_path: Path, status: int, secret: str | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(url: str) -> None:
        async with engine(tmp_path) as sdk:
            assert (await started(sdk, Notification(url=url, secret=secret))).completed

    with serving(Reply(status)) as server, caplog.at_level(logging.WARNING):
        run(main(server.url))
    assert len(server.received) == (0 if secret else 1)
    (message,) = [text for text in caplog.messages if "notification by" in text]
    assert message.startswith("session 's': notification by webhook failed: ")
    assert why in message


def test_url_that_contains_a_secret_is_stored_without_it_and_used_with_it(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        environ = {**ENVIRON, "HOOK_TOKEN": "t0ken-t0ken-t0ken", "AGENTFORGE_NOTIFY": "true"}
        async with engine(tmp_path, environ=environ) as sdk:
            assert (await started(sdk, Notification(url=f"{url}/t0ken-t0ken-t0ken"))).completed

    with serving() as server:
        run(main(server.url))
    assert [received.path for received in server.received] == ["/t0ken-t0ken-t0ken"]
    assert b"t0ken-t0ken-t0ken" not in (run_dir(tmp_path) / "events.jsonl").read_bytes()


@pytest.mark.parametrize("host", ["http://h.example", "https://h.example"])
def test_url_with_a_secret_leads_to_a_host_that_the_user_names(
    tmp_path: Path, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with engine(tmp_path, environ={**ENVIRON, "HOOK_TOKEN": "t0ken-t0ken-t0ken"}) as sdk:
            assert (await started(sdk, Notification(url=f"{host}/t0ken-t0ken-t0ken"))).completed

    with caplog.at_level(logging.WARNING):
        run(main())
    (message,) = [text for text in caplog.messages if "notification by" in text]
    assert "h.example" in message
    assert "https" in message or "AGENTFORGE_KEY_HOSTS=h.example" in message
    assert "t0ken-t0ken" not in message


def test_reference_in_a_url_is_text(tmp_path: Path) -> None:
    """The definition was not compiled here, and the user's own URL is not part of one."""

    async def main(url: str) -> None:
        environ = {**ENVIRON, "HOOK_TOKEN": "t0ken-t0ken-t0ken"}
        environ["AGENTFORGE_NOTIFY"] = f"{url}/own/${{secret:HOOK_TOKEN}}"
        async with engine(tmp_path, environ=environ) as sdk:
            assert (await started(sdk, Notification(url=f"{url}/file/${{secret:HOOK_TOKEN}}"))).completed

    with serving() as server:
        run(main(server.url))
    assert sorted(received.path.split("/")[1] for received in server.received) == ["file", "own"]
    assert not any("t0ken" in received.path for received in server.received)


@pytest.mark.parametrize("value", ["desktop", "URL", "true"])
def test_variable_names_the_desktop_a_url_or_a_command(tmp_path: Path, value: str) -> None:
    with serving() as server:
        environ = {"AGENTFORGE_NOTIFY": value.replace("URL", server.url)}
        found = channels(plan_of(stage()), environ, str(tmp_path), {})
    kinds = {"desktop": "desktop", "URL": "webhook", "true": "command"}
    assert [channel.name for channel in found] == [kinds[value]]
    assert found[0].on == frozenset(OCCASIONS)


def test_single_stage_notifies_the_desktop_unless_something_else_is_wanted(tmp_path: Path) -> None:
    loop, folder = plan_of(stage(), mode="loop"), str(tmp_path)
    assert [(one.name, one.on) for one in channels(loop, {}, folder, {})] == [
        ("desktop", frozenset({"failed", "completed"}))
    ]
    assert [one.name for one in channels(loop, {"AGENTFORGE_NOTIFY": "true"}, folder, {})] == ["command"]
    assert channels(plan_of(stage()), {}, folder, {}) == ()


@pytest.mark.parametrize(("answer", "expected"), [("approve", ["completed"]), ("", ["request"])])
def test_request_that_a_hook_answers_needs_no_person(
    tmp_path: Path, answer: str, expected: list[str]
) -> None:
    async def main() -> None:
        async with engine(tmp_path) as sdk:

            @sdk.on_request
            def policy(_: HookContext) -> HookResult | None:
                return HookResult("answer", answer=answer) if answer else None

            await started(sdk, approve=True)

    run(main())
    assert [notice["event"] for notice in told(tmp_path)] == expected


def test_run_returns_while_its_notification_is_being_sent(tmp_path: Path) -> None:
    """The command ends after the run has returned."""

    async def main() -> None:
        waiting = "while [ ! -e returned ]; do sleep 0.01; done; echo sent > sent"
        command = Notification(command=waiting, in_project=True)
        async with engine(tmp_path) as sdk:
            assert (await started(sdk, command)).completed
            assert not (tmp_path / "sent").exists()
            (tmp_path / "returned").touch()

    run(main())
    assert (tmp_path / "sent").exists()


def test_notify_in_the_file_of_a_stage_is_for_a_run_of_the_stage_alone(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "stages" / "tidy"
    folder.mkdir(parents=True)
    settings = {
        "provider": "scripted",
        "delay": 0,
        "notify": [{"command": WRITE, "in_project": True, "on": "completed"}],
    }
    (folder / "stage.yaml").write_text(json.dumps(settings))
    (folder / "prompt.md").write_text("Tidy.")
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        assert sdk.run(stage="tidy", session="s", max_iterations=1).completed
        assert sdk.run({"nodes": [{"id": "a", "stage": "tidy", "runs": 1}]}, session="p").completed
    (notice,) = told(tmp_path)
    assert (notice["title"], notice["text"]) == ("Loop Agent", "tidy s: complete")
