"""How a run notifies someone: as its plan says, as the user wants of every run, and otherwise, for a single
stage, on the desktop.

Agents have worked in the project by then. So a command of the plan runs like the script of a hook: with basic
variables, in the sandbox of the stages if they have one, without the keys of the user's session, and outside
of the project unless it says otherwise.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.adapters.host.machine import notify
from agentforge.adapters.httpx_webhooks import HttpxWebhooks
from agentforge.adapters.providers.command import ScriptProvider
from agentforge.model.hook import NOTIFY_VARIABLE, OCCASIONS, Notification, Occasion
from agentforge.model.layout import OUTBOX, RUNS
from agentforge.model.plan import Plan
from agentforge.model.secrets import Redactor, host_problem, resolve
from agentforge.ports.provider import Command, ExecuteRequest
from agentforge.ports.sandbox import Confinement, Sandbox
from agentforge.ports.webhook import WebhookAnswer, WebhookMessage, WebhookTimedOut
from agentforge.runtime.confinement import is_confined
from agentforge.runtime.notifier import SECONDS, Channel
from agentforge.system.linux import leave_session_keyring
from agentforge.system.programs import NoExit, Program, run
from agentforge.system.tools import tool_environment
from agentforge.views.notice import Notice

LOOP = Notification(on=("failed", "completed"), desktop=True)

Send = Callable[[Notice], None]
"""Raises the reason why the notice was not sent."""


class Receiver(Struct, frozen=True):
    kind: str
    address: str = ""
    """The command, or the URL."""
    secret: str | None = None
    environment: tuple[str, ...] = ()
    in_project: bool = False
    is_users: bool = False
    """Whether it is the user's own, for all runs, and not that of a file."""


def channels(
    plan: Plan, environ: Mapping[str, str], project: str, sandboxes: Mapping[str, Sandbox]
) -> tuple[Channel, ...]:
    """Each receiver once, with all occasions on which it is notified."""
    sender = NotificationSender(plan, environ, project, sandboxes)
    own = tuple(user_notifications(environ.get(NOTIFY_VARIABLE, "").strip()))
    users = {replace(receiver, is_users=True) for one in own for receiver in _receivers(one)}
    # The user's own receivers are notified of everything, whatever a pipeline says about the same address.
    found: dict[Receiver, set[Occasion]] = {receiver: set(OCCASIONS) for receiver in users}
    known = {(receiver.kind, receiver.address) for receiver in users}
    for notification in plan.pipeline.notify or ((LOOP,) if plan.mode == "loop" and not own else ()):
        for receiver in _receivers(notification):
            if (receiver.kind, receiver.address) not in known:
                found.setdefault(receiver, set()).update(notification.on)
    return tuple(
        Channel(receiver.kind, frozenset(on), sender.send_to(receiver)) for receiver, on in found.items()
    )


def user_notifications(value: str) -> Iterator[Notification]:
    """What the value of the variable asks for."""
    if value == "desktop":
        yield Notification(desktop=True)
    elif value.startswith(("http://", "https://")):
        yield Notification(url=value)
    elif value:
        yield Notification(command=value)


def _receivers(one: Notification) -> Iterator[Receiver]:
    if one.desktop:
        yield Receiver("desktop")
    if one.command:
        yield Receiver("command", one.command, environment=one.environment, in_project=one.in_project)
    if one.url:
        yield Receiver("webhook", one.url, one.secret)


class NotificationSender:
    """Sends notices from this machine."""

    def __init__(
        self, plan: Plan, environ: Mapping[str, str], project: str, sandboxes: Mapping[str, Sandbox]
    ) -> None:
        self._plan = plan
        self._environ = environ
        self._project = project
        self._sandboxes = sandboxes

    def send_to(self, receiver: Receiver) -> Send:
        match receiver.kind:
            case "desktop":
                return lambda notice: notify(notice.title, notice.text, self._environ, self._project)
            case "command":
                return lambda notice: self._run(receiver, notice)
            case _:
                return lambda notice: self._post(receiver, notice)

    # -- commands

    def _run(self, receiver: Receiver, notice: Notice) -> None:
        """Run the command with the notice on its input and in variables."""
        environ = tool_environment(self._environ, self._project)
        command = ScriptProvider(environ).command(_request(receiver, notice))
        command = replace(command, stdin=msgspec.json.encode(notice).decode() + "\n")
        if receiver.is_users:
            _run(command, environ.get("HOME") or "/")
            return
        with TemporaryDirectory(prefix="agentforge-") as folder:
            workdir = os.path.realpath(self._project if receiver.in_project else folder)
            # A keyring belongs to a thread: that of a pool also starts the user's own command.
            with ThreadPoolExecutor(1, initializer=leave_session_keyring) as thread:
                thread.submit(self._run_in, workdir, command, notice.notification).result()

    def _run_in(self, workdir: str, command: Command, mark: str) -> None:
        choice = self._plan.notify_sandbox
        if not is_confined(choice):
            _run(command, workdir)
            return
        sandbox = self._sandboxes[choice.type]
        hidden = (os.path.join(self._project, name) for name in (RUNS, OUTBOX))
        # A notification changes nothing: the project is only readable, also for a command that runs in it.
        within = Confinement(workdir, protected=(self._project,), hidden=tuple(hidden))
        confined = sandbox.wrap(command, replace(choice, writable=()), within, mark)
        _run(confined, workdir, sandbox.cleanup(mark))

    # -- webhooks

    def _post(self, receiver: Receiver, notice: Notice) -> None:
        secret = self._environ.get(receiver.secret, "") if receiver.secret is not None else ""
        if receiver.secret is not None and not secret:
            raise RuntimeError(f"{receiver.secret}, which holds the secret, is not set")
        message = WebhookMessage(
            receiver.address if receiver.is_users else self._resolved(receiver.address),
            msgspec.json.encode(notice),
            notice.notification,
            int(time.time()),
            secret,
            self._plan.is_local,
        )
        # In a loop of its own: to import httpx and to load certificates takes long.
        match asyncio.run(HttpxWebhooks().post(message, SECONDS)):
            case WebhookAnswer():
                return
            case WebhookTimedOut():
                raise TimeoutError
            case refused:
                raise RuntimeError(refused.message)

    def _resolved(self, url: str) -> str:
        """With the values of secrets that the definition had in it."""
        values = {name: self._environ.get(name, "") for name in self._plan.pipeline.secrets}
        resolved = resolve(url, values)
        if resolved != url and (problem := host_problem(resolved, self._environ)):
            raise RuntimeError(Redactor(values.values()).text(problem))
        return resolved


def _request(receiver: Receiver, notice: Notice) -> ExecuteRequest:
    return ExecuteRequest(
        prompt="",
        model="",
        config={"run": receiver.address, "environment": receiver.environment},
        workdir="",
        environment={
            "AGENT_PIPELINES_SESSION": notice.session,
            "AGENTFORGE_EVENT": notice.event,
            "AGENTFORGE_NOTIFICATION": notice.notification,
            "AGENTFORGE_TEXT": notice.text.replace("\0", "\N{REPLACEMENT CHARACTER}"),
        },
        status_path="",
        result_path="",
    )


def _run(command: Command, workdir: str, cleanup: tuple[str, ...] = ()) -> None:
    """`cleanup`: ends a command that works outside the process tree."""
    program = Program(
        command.argv,
        SECONDS,
        cwd=workdir,
        env=command.env,
        contained=True,
        stdin=command.stdin.encode(),
        descriptors=command.descriptors,
    )
    done = run(program)
    if cleanup and done.reason is NoExit.TIMED_OUT:
        run(Program(cleanup, SECONDS, env=command.env))
    if done.code != 0:
        why = done.problem or f"exit status {done.status}"
        said = Redactor(command.secrets).text(done.last_error)
        raise RuntimeError(f"{why}: {said}" if said else why)
