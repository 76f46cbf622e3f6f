"""How a run notifies someone: as its plan says, as the user wants of every run, and otherwise, for a single
stage, on the desktop."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct

from agentforge.adapters.environment import named_secrets
from agentforge.adapters.host.desktop import notify
from agentforge.adapters.httpx_webhooks import HttpxWebhooks
from agentforge.model.hook import Notification, Occasion
from agentforge.model.plan import Plan
from agentforge.model.secrets import SecretReferences
from agentforge.ports.webhook import WebhookAnswer, WebhookMessage, WebhookTimedOut
from agentforge.runtime.notifier import SECONDS, Channel
from agentforge.system.programs import Program, run
from agentforge.system.tools import tool_environment
from agentforge.views.notice import Notice

VARIABLE = "AGENTFORGE_NOTIFY"
LOOP = Notification(on=("failed", "completed"), desktop=True)
SHELL = "/bin/sh"

Send = Callable[[Notice], None]
"""Raises the reason why the notice was not sent."""


def channels(plan: Plan, environ: Mapping[str, str], project: str) -> tuple[Channel, ...]:
    """Each receiver once, with all occasions on which it is notified."""
    sender = NotificationSender(environ, project)
    found: dict[Receiver, set[Occasion]] = {}
    for notification in _notifications_of(plan, environ):
        for receiver in _receivers(notification):
            found.setdefault(receiver, set()).update(notification.on)
    return tuple(
        Channel(receiver.kind, frozenset(on), sender.send_to(receiver)) for receiver, on in found.items()
    )


def _notifications_of(plan: Plan, environ: Mapping[str, str]) -> tuple[Notification, ...]:
    found = (*plan.pipeline.notify, *user_notifications(environ.get(VARIABLE, "").strip()))
    return found or ((LOOP,) if plan.mode == "loop" else ())


def user_notifications(value: str) -> Iterator[Notification]:
    """What the value of the variable asks for."""
    if value == "desktop":
        yield Notification(desktop=True)
    elif value.startswith(("http://", "https://")):
        yield Notification(url=value)
    elif value:
        yield Notification(command=value)


class Receiver(Struct, frozen=True):
    kind: str
    address: str = ""
    """The command, or the URL."""
    secret: str | None = None


def _receivers(notification: Notification) -> Iterator[Receiver]:
    if notification.desktop:
        yield Receiver("desktop")
    if notification.command:
        yield Receiver("command", notification.command)
    if notification.url:
        yield Receiver("webhook", notification.url, notification.secret)


class NotificationSender:
    """Sends notices from this machine."""

    def __init__(self, environ: Mapping[str, str], project: str) -> None:
        self._environ = environ
        self._project = project

    def send_to(self, receiver: Receiver) -> Send:
        send = {"desktop": self._show, "command": self._run, "webhook": self._post}[receiver.kind]
        return lambda notice: send(receiver, notice)

    def _show(self, _: Receiver, notice: Notice) -> None:
        notify(notice.title, notice.text, self._environ, self._project)

    def _run(self, receiver: Receiver, notice: Notice) -> None:
        """Run the command in the project, with the notice on its input and in variables."""
        environment = tool_environment(self._environ, self._project)
        done = run(
            Program(
                (SHELL, "-c", self._resolved(receiver.address)),
                SECONDS,
                cwd=self._project,
                env={**environment, **_variables(notice)},
                contained=True,
                stdin=msgspec.json.encode(notice) + b"\n",
            )
        )
        if done.code != 0:
            why = done.problem or f"exit status {done.status}"
            raise RuntimeError(f"{why}: {done.last_error}" if done.last_error else why)

    def _post(self, receiver: Receiver, notice: Notice) -> None:
        message = WebhookMessage(
            self._resolved(receiver.address),
            msgspec.json.encode(notice),
            notice.notification,
            int(time.time()),
            self._secret(receiver.secret),
        )
        # In a loop of its own: to import httpx and to load certificates takes long.
        match asyncio.run(HttpxWebhooks().post(message, SECONDS)):
            case WebhookAnswer():
                return
            case WebhookTimedOut():
                raise TimeoutError
            case refused:
                raise RuntimeError(refused.message)

    def _secret(self, name: str | None) -> str:
        if name is None:
            return ""
        value = self._environ.get(name)
        if not value:
            raise RuntimeError(f"{name}, which holds the secret, is not set")
        return value

    def _resolved(self, text: str) -> str:
        """With the values of secrets, which the plan has as references."""
        values = named_secrets(self._environ)
        return SecretReferences(values).resolve(text, values)


def _variables(notice: Notice) -> dict[str, str]:
    return {
        "AGENT_PIPELINES_SESSION": notice.session,
        "AGENTFORGE_EVENT": notice.event,
        "AGENTFORGE_NOTIFICATION": notice.notification,
        "AGENTFORGE_TEXT": notice.text,
    }
