"""The message of a commit that a run makes, and the body of its pull request."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

SUBJECT_CHARS, CUT_CHARS = 50, 47
"""Of the request; a longer one is cut, with three dots."""
MAX_FILES = 10
MAX_SUMMARY = 5
UNNAMED = "Implementation"
_TYPES = {
    "bugfix": "fix",
    "bug_fix": "fix",
    "fix": "fix",
    "refactor": "refactor",
    "refactoring": "refactor",
    "documentation": "docs",
    "docs": "docs",
    "test": "test",
    "testing": "test",
}
"""By the scope that a stage found; another one is a feature."""


class CommitFacts(Struct, frozen=True):
    """What the message tells."""

    run_id: str
    request: str = ""
    subject: str | None = None
    """As the definition says; None: made of the request."""
    artifact: Mapping[str, Any] = {}
    """What the stages of the run found."""
    passed: int = 0
    """Tests, in the latest check that counts them."""

    def text(self, name: str) -> str:
        """What an artifact says in that field; agents wrote it."""
        value = self.artifact.get(name)
        return one_line(value) if isinstance(value, str) else ""


def one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))


def commit_message(facts: CommitFacts, paths: Sequence[str], tree: str) -> str:
    lines = [_subject(facts)]
    if spec := facts.text("spec_id"):
        lines += ["", f"Spec: {spec}"]
    if paths:
        shown = [f"- {one_line(path)}" for path in paths[:MAX_FILES]]
        more = len(paths) - MAX_FILES
        lines += ["", "Files modified:", *shown, *([f"- and {more} more"] if more > 0 else [])]
    if facts.passed:
        lines += ["", f"Tests: {facts.passed} passed"]
    # The last paragraph: git reads trailers only there.
    return "\n".join([*lines, "", f"AgentForge-Run: {facts.run_id}", f"AgentForge-Tree: {tree}"])


def _subject(facts: CommitFacts) -> str:
    if facts.subject is not None:
        return one_line(facts.subject)
    request = one_line(facts.request) or facts.text("title") or UNNAMED
    if len(request) > SUBJECT_CHARS:
        request = f"{request[:CUT_CHARS]}..."
    return f"{_TYPES.get(facts.text('scope').lower(), 'feat')}: {request}"


def summary(facts: CommitFacts, paths: Sequence[str], count: int) -> str:
    """The body of a pull request."""
    lines = ["## Delivery Summary", ""]
    if request := one_line(facts.request):
        lines += [request, ""]
    if spec := facts.text("spec_id"):
        lines.append(f"- Spec: {spec}")
    lines.append(f"- Files modified: {count}")
    lines += [f"  - `{one_line(path).replace('`', ' ')}`" for path in paths[:MAX_SUMMARY]]
    if count > MAX_SUMMARY:
        lines.append(f"  - and {count - MAX_SUMMARY} more")
    if facts.passed:
        lines.append(f"- Tests: {facts.passed} passed")
    return "\n".join([*lines, "", f"AgentForge-Run: {facts.run_id}", ""])
