"""Normalises an agent's result and output."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from agentforge.engine.claims import AllowedVerdicts, allowed_by, asked_questions, claimed_verdict
from agentforge.model.artifact import MAX_ITEMS
from agentforge.model.facts import JudgeResult
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import StageNode
from agentforge.model.result import Artifacts, Decision, JSONObject, Result, Signals, WorkReport

ANY_STAGE = AllowedVerdicts()
MAX_OUTPUT_BYTES = 1024 * 1024
TRUNCATED = "\n[output truncated at 1MB]\n"
_WRITE_RESULT = (
    "tell the agent in its prompt to write a JSON object to ${RESULT} (in a command: $AGENTFORGE_RESULT)"
)

# Every escape character is consumed by one of these, so none is left. None looks further than to the
# next escape character or line end, and none backtracks, so that long outputs take linear time.
_ANSI = re.compile(
    rb"(?:\x1b(?:"
    rb"\[[0-?]*+[ -/]*+[@-~]?+"  # CSI: colours, cursor movements.
    rb"|\][^\x07\x1b\r\n]*+(?:\x07|\x1b\\)?+"  # OSC: titles, links.
    rb"|[PX^_][^\x1b]*+\x1b\\"  # DCS, SOS, PM, APC: strings with an end.
    rb"|[ -/]++[0-~]?+"  # Character sets.
    rb"|[0-~]"
    rb"|))++"
)


_LINE_END = re.compile(rb"(?<!\r)\r++\n")


class CleanOutput(Struct, frozen=True):
    text: str
    truncated_from: int | None = None
    """The size in bytes before truncation, or None."""


def normalise_result(
    result_text: str | None, status_text: str | None, allowed: AllowedVerdicts = ANY_STAGE
) -> Result | Failure:
    """The agent's result.json, else its converted status.json. None means that the file is missing.

    Inside an object, values of the wrong type are ignored.
    """
    if result_text is not None:
        written = _object(result_text)
        if isinstance(written, str):
            return Failure(FailureKind.RESULT_INVALID, f"result.json is malformed: {written}")
        return _with_claims(_from_result(written), written, allowed)
    if status_text is None:
        return Failure(FailureKind.RESULT_MISSING, f"the agent wrote no result; {_WRITE_RESULT}")
    written = _object(status_text)
    if isinstance(written, str):
        return Failure(
            FailureKind.RESULT_MISSING,
            f"the agent wrote no result.json, and status.json is malformed ({written}); {_WRITE_RESULT}",
        )
    return _with_claims(_from_status(written), written, allowed)


def normalise_returned(result: JSONObject | None, allowed: AllowedVerdicts = ANY_STAGE) -> Result | Failure:
    """The result returned by an in-process provider."""
    if result is None:
        return Failure(
            FailureKind.RESULT_MISSING,
            "the provider returned no result: return `ExecuteResult(result={...})`, or declare"
            " `Capabilities(uses_files=True)` to write result.json",
        )
    return _with_claims(_from_result(result), result, allowed)


def with_fields_of(artifact: JSONObject, node: StageNode, result: Result) -> Result | Failure:
    """The result with the fields that the artifact has in its place. What the result itself says of them is
    ignored: a schema has made sure of the artifact."""
    stated: JSONObject = {field: artifact[field] for field in node.stated if artifact.get(field) is not None}
    if not stated:
        return result
    if "summary" in stated or "reason" in stated:
        summary, reason = _text(stated.get("summary")), _text(stated.get("reason"))
        result = replace(result, summary=summary or result.summary, reason=reason or result.reason)
    verdict = None if isinstance(result.verdict, UnsetType) else result.verdict
    items = None if isinstance(result.items, UnsetType) else list(result.items)
    stated = {"verdict": verdict, "items": items} | stated
    return _with_claims(result, stated, allowed_by(node))


def clean_output(raw: bytes) -> CleanOutput:
    """The text of output.md: without escape codes, in valid UTF-8, at most 1 MB cut at a line.

    Windows line endings become plain ones. Other carriage returns are kept, because overwritten text such as
    a progress bar may explain a failure.
    """
    raw = without_escapes(raw)
    if b"\r" in raw:
        raw = _LINE_END.sub(b"\n", raw)
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if not text:
        return CleanOutput("")
    text += "\n"
    encoded = text.encode()
    if len(encoded) <= MAX_OUTPUT_BYTES:
        return CleanOutput(text)
    # The complete lines that fit, or the start of a single long line.
    end = encoded.rfind(b"\n", 0, MAX_OUTPUT_BYTES)
    head = encoded[: MAX_OUTPUT_BYTES if end < 0 else end].decode("utf-8", "ignore")
    return CleanOutput(head + TRUNCATED, truncated_from=len(encoded))


def without_escapes(raw: bytes) -> bytes:
    """The output of a program without the codes that control a terminal."""
    return _ANSI.sub(b"", raw) if b"\x1b" in raw else raw


def _from_result(written: JSONObject) -> Result:
    signals = _signals(written)
    decision, remarks = _decision(written)
    return Result(
        summary=_text(written.get("summary")),
        work=_work(written),
        artifacts=_artifacts(written),
        signals=signals,
        decision=decision,
        reason=_text(written.get("reason")) or signals.notes,
        errors=_errors(written) + remarks,
    )


def _from_status(written: JSONObject) -> Result:
    """Convert the older format. A stop is an instruction to the engine, not a sign of a plateau."""
    reason = _text(written.get("reason"))
    decision, remarks = _decision(written)
    return Result(
        summary=_text(written.get("summary")),
        work=_work(written),
        signals=Signals(notes=reason),
        decision=decision,
        reason=reason,
        errors=_errors(written) + remarks,
    )


def _with_claims(result: Result, written: JSONObject, allowed: AllowedVerdicts) -> Result | Failure:
    claimed = claimed_verdict(written, allowed)
    if isinstance(claimed, Failure):
        return claimed
    verdict, remarks = claimed
    if verdict is not UNSET or remarks:
        items = (_texts(written.get("items"))[:MAX_ITEMS] or UNSET) if verdict is not UNSET else UNSET
        result = replace(result, verdict=verdict, items=items, errors=result.errors + remarks)
    asked = asked_questions(written, result.decision)
    if isinstance(asked, Failure):
        return asked
    questions, remarks = asked
    if not questions and not remarks:
        return result
    return replace(result, errors=result.errors + remarks, questions=questions or UNSET)


def _object(text: str) -> JSONObject | str:
    """The JSON object in a text, or an error message."""
    try:
        value = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        return str(error) if text.strip() else "it is empty"
    return value if isinstance(value, dict) else "the top level is not an object"


def _decision(written: JSONObject) -> tuple[Decision, tuple[str, ...]]:
    """The agent's decision. An unknown one counts as continue and adds an error."""
    given = written.get("decision")
    if given is None or given == "":
        return Decision.CONTINUE, ()
    try:
        return Decision(given.strip().lower() if isinstance(given, str) else given), ()
    except ValueError:
        return Decision.CONTINUE, (f"unknown decision {given!r} treated as continue",)


def _work(written: JSONObject) -> WorkReport:
    work = written.get("work")
    if not isinstance(work, dict):
        return WorkReport()
    return WorkReport(
        items_completed=_texts(work.get("items_completed")), files_touched=_texts(work.get("files_touched"))
    )


def _artifacts(written: JSONObject) -> Artifacts:
    artifacts = written.get("artifacts")
    if not isinstance(artifacts, dict):
        return Artifacts()
    return Artifacts(outputs=_texts(artifacts.get("outputs")), paths=_texts(artifacts.get("paths")))


def _signals(written: JSONObject) -> Signals:
    signals = written.get("signals")
    if not isinstance(signals, dict):
        return Signals()
    return Signals(
        plateau_suspected=signals.get("plateau_suspected") is True,
        risk=_text(signals.get("risk")) or "low",
        notes=_text(signals.get("notes")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    """The strings of a list; numbers are often ids and are converted."""
    if not isinstance(value, list):
        return ()
    return tuple(str(item) for item in value if type(item) in (str, int, float))


def _errors(written: JSONObject) -> tuple[str, ...]:
    """The reported errors as strings, whatever their type."""
    value = written.get("errors")
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, list):
        return ()
    return tuple(item if isinstance(item, str) else msgspec.json.encode(item).decode() for item in value)


JUDGMENT_CHARS = 64 * 1024
"""How much of the end of an answer is searched for a judgment."""
MAX_SCANNED_CHARS = 1024 * 1024
"""How much is decoded in vain: an object without an end is read once for each brace in it."""

MAX_CANDIDATES = 10_000
_OBJECT = re.compile(r"\{(?=\s*+[\"}])")
_decoder = json.JSONDecoder()


def read_judgment(answer: str) -> JudgeResult | None:
    """The last judgment in an answer, which may wrap it in a code fence or in prose; or None."""
    last = None
    for value in _objects(answer[-JUDGMENT_CHARS:]):
        if "stop" in value:
            last = value
    if last is None:
        return None
    stop, reason = last["stop"], last.get("reason")
    return JudgeResult(
        stop=stop is True or (isinstance(stop, str) and stop.strip().lower() == "true"),
        reason=reason if isinstance(reason, str) else "",
        confidence=_confidence(last.get("confidence")),
    )


def _objects(answer: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in the text, outermost only."""
    end, scanned = 0, 0
    for found in islice(_OBJECT.finditer(answer), MAX_CANDIDATES):
        start = found.start()
        if start < end or scanned > MAX_SCANNED_CHARS:
            continue
        try:
            value, end = _decoder.raw_decode(answer, start)
        except (ValueError, RecursionError) as error:
            # How far the decoder came. The error of a string without an end is at its beginning.
            came = len(answer)
            if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated"):
                came = error.pos
            scanned += came - start
        else:
            yield value


def _confidence(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0.0
    # NaN compares false and so becomes 0.
    return float(given) if 0 <= given <= 1 else 1.0 if given > 1 else 0.0
