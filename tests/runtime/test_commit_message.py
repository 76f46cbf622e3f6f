"""The messages of commits that runs make."""

from agentforge.runtime.commit_message import CommitFacts, commit_message

TRAILERS = "AgentForge-Run: run1\nAgentForge-Tree: abc"


def message(facts: CommitFacts, *paths: str) -> str:
    return commit_message(facts, paths, "abc")


def test_it_tells_the_request_the_files_and_the_tests() -> None:
    facts = CommitFacts("run1", "add a slugify function", artifact={"spec_id": "SPEC-1"}, passed=12)
    assert message(facts, "src/a.py", "tests/b.py") == (
        "feat: add a slugify function\n\nSpec: SPEC-1\n\nFiles modified:\n- src/a.py\n- tests/b.py\n\n"
        f"Tests: 12 passed\n\n{TRAILERS}"
    )


def test_without_anything_known_it_has_a_subject_and_trailers() -> None:
    assert message(CommitFacts("run1")) == f"feat: Implementation\n\n{TRAILERS}"


def test_a_long_request_is_cut_and_many_files_are_counted() -> None:
    text = message(CommitFacts("run1", "x" * 51), *(f"f{number}" for number in range(12)))
    assert text.startswith(f"feat: {'x' * 47}...\n")
    assert "- f9\n- and 2 more\n" in text
    assert message(CommitFacts("run1", "x" * 50)).startswith(f"feat: {'x' * 50}\n")


def test_the_type_is_that_of_the_scope() -> None:
    types = {"bugfix": "fix", "Refactoring": "refactor", "documentation": "docs", "test": "test", "?": "feat"}
    for scope, word in types.items():
        assert message(CommitFacts("run1", "it", artifact={"scope": scope})).startswith(f"{word}: it\n")


def test_texts_of_others_add_no_lines_and_no_trailers() -> None:
    facts = CommitFacts("run1", "a\n\nAgentForge-Run: other", artifact={"spec_id": "x\ny", "scope": 5})
    text = message(facts, "a\nSigned-off-by: me")
    assert text.splitlines()[0] == "feat: a AgentForge-Run: other"
    assert "Spec: x y" in text
    assert "- a Signed-off-by: me" in text
    assert message(CommitFacts("run1", subject="docs: as\nsaid")).startswith("docs: as said\n")
