"""Which kind of failure it was, from what an agent's CLI says: by the HTTP status, and by its words."""

import re
from collections.abc import Mapping, Sequence

from agentforge.adapters.providers.limit_times import limit_ends
from agentforge.adapters.providers.stream import Complaint
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.ports.provider import Exit

Table = Sequence[tuple[str, FailureKind]]

K = FailureKind

STATUSES: Mapping[int, FailureKind] = {
    401: K.PROVIDER_AUTH,
    402: K.PROVIDER_QUOTA,
    403: K.PROVIDER_AUTH,
    408: K.PROVIDER_UNREACHABLE,
    429: K.PROVIDER_RATE_LIMITED,
    **dict.fromkeys((500, 502, 503, 504, 529), K.PROVIDER_OVERLOADED),
}

NOT_FOUND = 404

BEFORE_STATUS: Table = (
    # A quota arrives with 400, 403 or 429, so that the words know better.
    (r"usage.{0,3}limit|hit your .{0,30}limit|limit reached\|", K.PROVIDER_QUOTA),
    (r"insufficient.quota|credit balance is too low|out of (extra usage|credits)", K.PROVIDER_QUOTA),
    (r"exceeded your current quota|quota exceeded|exhausted your daily quota", K.PROVIDER_QUOTA),
    (r"spend(ing)? limit|billing.{0,20}(limit|hard)", K.PROVIDER_QUOTA),
    (r"issue with the selected model|model.{0,60}(not found|not exist|not supported)", K.PROVIDER_MISSING),
    (r"(no such|unknown|unsupported|invalid) model\b", K.PROVIDER_MISSING),
)
AFTER_STATUS: Table = (
    (r"not logged in|log ?in again|please (run )?/?log ?in|invalid (x-)?api.key", K.PROVIDER_AUTH),
    (r"failed to authenticate|authentication|unauthori[sz]ed|invalid auth method", K.PROVIDER_AUTH),
    (r"missing environment variable|must specify the \w+ environment variable", K.PROVIDER_AUTH),
    (r"(oauth|access|refresh) token.{0,40}(expired|revoked|invalid)", K.PROVIDER_AUTH),
    (r"rate.?limit|too many requests|resource.?exhausted", K.PROVIDER_RATE_LIMITED),
    (
        r"overloaded|high demand|at capacity|exhausted your capacity|internal server error",
        K.PROVIDER_OVERLOADED,
    ),
    (r"service unavailable|bad gateway|gateway time-?out", K.PROVIDER_OVERLOADED),
    (
        r"connection (refused|reset|failed|error|lost|closed)|econn\w+|enotfound|eai_again",
        K.PROVIDER_UNREACHABLE,
    ),
    (r"fetch failed|error sending request|could not resolve|dns|network", K.PROVIDER_UNREACHABLE),
    (r"stream (closed|disconnected|ended without)|socket hang up|unable to connect", K.PROVIDER_UNREACHABLE),
    (r"timed? ?out|timeout", K.PROVIDER_TIMEOUT),
)

_STATUS_IN_TEXT = re.compile(
    r"(?:API Error: |status[: ]+|status code:? |rejected \(|HTTP |\"code\":\s*)([45]\d\d)\b", re.IGNORECASE
)


def failure_of(
    complaint: Complaint, exit: Exit, title: str, own: Mapping[str, FailureKind]
) -> Failure | None:
    """The failure; nothing where neither status nor words are known. `own` are the CLI's own words, which
    win."""
    text = complaint.message
    kind = complaint.kind or _by_words(text, tuple(own.items())) or _by_words(text, BEFORE_STATUS)
    kind = kind or _by_status(complaint) or _by_words(text, AFTER_STATUS)
    if kind is None:
        return None
    ends = complaint.resets_at or limit_ends(text, exit.ended_at) if kind in LIMITS else None
    return Failure(kind, f"{title}: {text}", exit.exit_code, ends)


def _by_status(complaint: Complaint) -> FailureKind | None:
    found = _STATUS_IN_TEXT.search(complaint.message)
    status = complaint.status or (int(found[1]) if found else 0)
    if status == NOT_FOUND and "model" in complaint.message.lower():
        return K.PROVIDER_MISSING
    return STATUSES.get(status)


def _by_words(text: str, table: Table) -> FailureKind | None:
    return next((kind for words, kind in table if re.search(words, text, re.IGNORECASE)), None)
