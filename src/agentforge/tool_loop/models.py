"""Creates pydantic-ai's model for an endpoint, reports its output as it streams, and classifies its errors.
Only the client library that is needed is imported."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import httpx2
from msgspec import Struct
from pydantic_ai import exceptions as e
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, create_async_httpx2_client
from pydantic_ai.settings import ModelSettings

from agentforge.model.failure import Failure, FailureKind
from agentforge.system.local_client import LocalTransport
from agentforge.tool_loop.budget import BudgetUsedUp
from agentforge.tool_loop.task import Endpoint, ModelTask, TextSaid, Thinking
from agentforge.tool_loop.toolbox import ProgressReport

# The kind of a failure decides who acts on it. `retryable`: the loop sends the request again, after a moment
# or the wait that the endpoint asks for. What takes longer, such as a quota, is left to the engine, which
# waits without a process or takes the next provider of the chain. Everything else would fail again in the
# same way, so its message says what a person can change.
#
# Each message quotes what the endpoint said, shortened: a proxy may answer with a page of HTML.

NO_KEY = "none"
"""Clients require a key; a server without authentication ignores it."""
PIECE = 400
LIFE_SECONDS = 1.0
K = FailureKind
_WORDS = 300


@asynccontextmanager
async def model_of(endpoint: Endpoint, key: str) -> AsyncIterator[Model]:
    """The model, for as long as its connections are open."""
    async with create_async_httpx2_client(transport=LocalTransport() if endpoint.local else None) as http:
        yield _anthropic(endpoint, key, http) if endpoint.api == "anthropic" else _openai(endpoint, key, http)


def settings_of(task: ModelTask, max_tokens: int | None) -> ModelSettings:
    # The loop retries: it reports retries and also detects truncated answers.
    settings = ModelSettings(max_retries=0, timeout=task.request_timeout)
    if max_tokens is not None:
        settings["max_tokens"] = max_tokens
    if task.temperature is not None:
        settings["temperature"] = task.temperature
    return settings


def _anthropic(endpoint: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    address = endpoint.base_url or None
    if endpoint.bearer:
        client = AsyncAnthropic(auth_token=key, base_url=address, http_client=http)
        return AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=client))
    provider = AnthropicProvider(api_key=key or NO_KEY, base_url=address, http_client=http)
    return AnthropicModel(endpoint.model, provider=provider)


def _openai(endpoint: Endpoint, key: str, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(api_key=key or NO_KEY, base_url=endpoint.base_url or None, http_client=http)
    return OpenAIChatModel(endpoint.model, provider=provider)


class Narrator:
    def __init__(self, report: ProgressReport) -> None:
        self._report = report
        self._text = ""
        self._last_sign = 0.0

    def hear(self, event: Any) -> None:
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ):
                self._text += text
                if len(self._text) >= PIECE or "\n" in text:
                    self.flush()
            case PartStartEvent(part=ThinkingPart()) | PartDeltaEvent(delta=ThinkingPartDelta()):
                self._sign()
            case PartStartEvent():
                # A tool call follows the text: what was said before it is shown before it.
                self.flush()
            case PartDeltaEvent():
                # The input of a tool is shown when the tool is called.
                self._sign()

    def flush(self) -> None:
        if self._text.strip():
            self._report(TextSaid(self._text))
        self._text = ""

    def _sign(self) -> None:
        if monotonic() - self._last_sign >= LIFE_SECONDS:
            self._last_sign = monotonic()
            self._report(Thinking())


class StreamCut(Exception):
    """The stream ended before the answer was complete."""


class TooLong(Exception):
    """The answer reached `max_tokens`."""


class StepLimit(Exception):
    """The model has used all its steps."""


class RequestFailure(Struct, frozen=True):
    failure: Failure
    retryable: bool = False
    """Whether the same request may succeed later."""
    wait: float | None = None
    """Seconds to wait, as requested by the endpoint."""


def request_failure(error: Exception, endpoint: Endpoint, now: datetime) -> RequestFailure:
    match error:
        case e.ModelQuotaExceededError():
            return _limited(K.PROVIDER_QUOTA, f"quota exceeded at {endpoint.shown}", error, now)
        case e.ModelRateLimitError():
            return _limited(K.PROVIDER_RATE_LIMITED, f"rate limited by {endpoint.shown}", error, now)
        # A server that accepts no connection isn't running, whatever the client calls it.
        case e.ModelTimeoutError(phase="connect"):
            return _unreachable(error, endpoint)
        case e.ModelTimeoutError() | e.ModelRequestTimeout():
            return _plain(K.PROVIDER_TIMEOUT, f"{endpoint.shown} didn't answer within `request_timeout`")
        case e.ModelConnectionError():
            return _unreachable(error, endpoint)
        case StreamCut():
            message = f"the answer from {endpoint.shown} was cut off: it has no finish reason"
            return RequestFailure(Failure(K.PROVIDER_UNREACHABLE, message), retryable=True)
        case e.ModelUnavailableError() | e.ModelServerError():
            return _overloaded(error, endpoint)
        case e.ModelHTTPError(status_code=status) if status >= 500:
            return _overloaded(error, endpoint)
        case e.ModelAPIError():
            return _refused(error, endpoint)
        case _:
            return _plain(*_of_the_agent(error))


def _refused(error: e.ModelAPIError, endpoint: Endpoint) -> RequestFailure:
    """An error that would occur again with the same request."""
    match error:
        case e.ModelAuthenticationError():
            key = f"the key in {endpoint.key_env}" if endpoint.key_env else "a request without a key"
            hint = f"fix {endpoint.key_env}" if endpoint.key_env else "set `api_key_env`"
            return _plain(K.PROVIDER_AUTH, f"{endpoint.shown} rejected {key} ({_message(error)}); {hint}")
        case e.ModelContextWindowExceededError():
            return _plain(K.AGENT_LIMIT, f"the conversation is too long for {endpoint.model}")
        case e.ModelNotFoundError():
            hint = "check its name, and that your key has access to it"
            if endpoint.start_hint:
                hint = (
                    f"load it into the server first, or use one that is listed at {endpoint.base_url}/models"
                )
            what = f"model {endpoint.model!r} not found at {endpoint.shown} ({_message(error)})"
            return _plain(K.PROVIDER_MISSING, f"{what}; {hint}")
        case _:
            return _plain(
                K.PROVIDER_MISSING,
                f"{endpoint.shown} rejected the request ({_message(error)}); "
                "check `model`, `base_url` and `api`",
            )


def _of_the_agent(error: Exception) -> tuple[FailureKind, str]:
    match error:
        case StepLimit():
            return K.AGENT_LIMIT, "the model used all its steps without completing the task; see `max_steps`"
        case BudgetUsedUp():
            return K.CAP_REACHED, f"the budget is used up: {error}"
        case TooLong() | e.IncompleteToolCall():
            return K.AGENT_LIMIT, "the model's answer exceeded `max_tokens`"
        case e.ContentFilterError():
            return K.AGENT_ERROR, f"the model's answer was filtered: {_short(str(error))}"
        case e.UnexpectedModelBehavior():
            why = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
            return K.RESULT_INVALID, f"the model returned no valid result: {_short(why)}"
        case e.UserError():
            return K.PROVIDER_MISSING, _short(str(error))
        case _:
            return K.PROVIDER_CRASHED, f"{type(error).__name__}: {_short(str(error))}"


def resets_at(headers: Mapping[str, str], retry_after: float | None, now: datetime) -> datetime | None:
    """When the limit ends, or None: the latest reset time of all exhausted limits in the headers."""
    # Each limit (of requests, of tokens) has a header for its reset and one for what remains. Those that are
    # not exhausted reset, too, but nothing waits for them.
    moments = []
    for name, value in headers.items():
        if name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
            remaining = headers.get(name.removesuffix("-reset") + "-remaining", "0")
            moment = _moment(value)
            if moment is not None and remaining.strip() == "0":
                moments.append(moment)
    if retry_after is not None:
        moments.append(now + timedelta(seconds=retry_after))
    return max((moment for moment in moments if moment >= now), default=None)


def _limited(kind: FailureKind, what: str, error: e.ModelAPIError, now: datetime) -> RequestFailure:
    headers = error.headers or {} if isinstance(error, e.ModelHTTPError) else {}
    until = resets_at(headers, error.retry_after, now)
    failure = Failure(kind, f"{what} ({_message(error)})", resets_at=until)
    retryable = kind is K.PROVIDER_RATE_LIMITED
    return RequestFailure(failure, retryable, (until - now).total_seconds() if until else None)


def _overloaded(error: e.ModelAPIError, endpoint: Endpoint) -> RequestFailure:
    failure = Failure(K.PROVIDER_OVERLOADED, f"{endpoint.shown} is unavailable ({_message(error)})")
    return RequestFailure(failure, retryable=True, wait=error.retry_after)


def _unreachable(error: e.ModelAPIError, endpoint: Endpoint) -> RequestFailure:
    if getattr(error, "phase", None) in ("read", "write"):
        message = f"connection to {endpoint.shown} lost ({_cause(error)})"
        return RequestFailure(Failure(K.PROVIDER_UNREACHABLE, message), retryable=True)
    hint = endpoint.start_hint or "check `base_url`"
    message = f"can't connect to {endpoint.shown} ({_cause(error)}); is the server running? {hint}"
    return RequestFailure(Failure(K.PROVIDER_UNREACHABLE, message), retryable=True)


def _plain(kind: FailureKind, message: str) -> RequestFailure:
    return RequestFailure(Failure(kind, message))


def _message(error: Exception) -> str:
    """The endpoint's error message."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message") if isinstance(inner, dict) else inner
    status = getattr(error, "status_code", None)
    words = _short(str(body)) if body else ("" if status else _short(str(error)))
    return f"{status}: {words}".rstrip(": ") if status else words


def _cause(error: BaseException) -> str:
    """The message of the innermost exception: the outer ones are generic."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return _short(str(error)) or type(error).__name__


def _short(text: str) -> str:
    return " ".join(text.split())[:_WORDS]


def _moment(value: str) -> datetime | None:
    """RFC 3339, or seconds since the epoch."""
    try:
        if value.isdecimal():
            return datetime.fromtimestamp(int(value), UTC)
        moment = datetime.fromisoformat(value)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
