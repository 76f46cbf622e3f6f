"""What an attempt did, as steps of a cassette."""

from base64 import b64encode
from collections.abc import Iterator

import msgspec

from agentforge.engine.normalise import clean_output
from agentforge.model.cassette import (
    AnyStep,
    End,
    Fail,
    Say,
    Sleep,
    Write,
    WriteResult,
    WriteStatus,
)
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import IterationLayout
from agentforge.model.redaction import Redactor
from agentforge.ports.provider import ExecuteResult
from agentforge.system import files


def told(ended: ExecuteResult, redactor: Redactor) -> Iterator[AnyStep]:
    if ended.duration_ms > 0:
        yield Sleep(seconds=ended.duration_ms / 1000)
    text = clean_output(ended.output.encode("utf-8", "replace")).text
    if text:
        yield Say(text=redactor.text(text))


def ending(ended: ExecuteResult, redactor: Redactor) -> Iterator[AnyStep]:
    failure = ended.failure
    if failure is not None:
        yield Fail(kind=failure.kind, message=redactor.text(failure.message), exit_code=failure.exit_code)
    elif ended.exit_code != 0:
        yield End(code=ended.exit_code % 256 or 1)


def written(here: IterationLayout, redactor: Redactor) -> Iterator[AnyStep]:
    """result.json and status.json as the agent wrote them."""
    result, status = files.read_text(here.result), files.read_text(here.status)
    if result is not None:
        value, text = _read_object(redactor.text(result))
        yield WriteResult(value=value, text=text)
    if status is not None:
        value, text = _read_object(redactor.text(status))
        yield WriteStatus(value=value, text=text)


def judge_failure(message: str) -> ExecuteResult:
    """A judge that couldn't be asked at all."""
    return ExecuteResult(failure=Failure(FailureKind.JUDGE_FAILED, message))


def write_step(path: str, content: bytes, *, executable: bool) -> Write:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return Write(path=path, base64=b64encode(content).decode(), executable=executable)
    return Write(path=path, text=text, executable=executable)


def is_sayable(path: str) -> bool:
    """Whether a file's name can be written down: one that isn't UTF-8 can't."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read_object(text: str) -> tuple[dict[str, object] | None, str | None]:
    """As an object where it is one and comes out the same, else as text."""
    try:
        return msgspec.json.decode(text, type=dict[str, object]), None
    except (msgspec.DecodeError, RecursionError):
        return None, text
