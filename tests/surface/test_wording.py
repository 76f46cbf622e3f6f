"""Phrases that strings, docstrings, comments, Markdown files and names of tests must not contain."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "agentforge"

# Patterns, each with the wording to use instead. A space also matches a line break.
PHRASES = {
    r"\b(go|goes|going|gone|went) on\b": "continue, resume",
    r"\b(take|takes|taken|taking|took) (it |them |him |her )?up\b": "resume, recover, reattach",
    r"\badopt(s|ed|ing)?\b": "reattach (to an agent), import (a run of the shell engine)",
    r"\b(nobody|somebody|whoever)\b": "name the actor: engine, owner, user, process",
    r"\bnothing if\b|\b(if|where) there is none\b": "or None, empty, missing",
    r"(?<!\bthere )\bis no (?!longer\b|more\b)": "must be a …, is not a …",
    r"\babove all\b": "overrides",
    r"\b(how|where) (\w+ ){1,3}(stands|stood)\b": "status, position",
    r"\banew\b": "again, start over",
    r"\b(keep|keeps|kept|put|puts) (it |them )?aside\b": "archive, rename",
    r"\bat work\b": "running",
    r"\b(let|lets|letting) go of\b": "release",
    r"\bleft behind\b": "left over, remaining",
    r"\b(come|comes|came|coming) to nothing\b": "fail",
    r"\b(come|comes|came|coming) up\b(?! with)": "start, initialize",
    r"\b(is|isn't|are|aren't|be|not|was) tried again\b": "is retried",
    r"\b(make|makes|made) (it |them )?again\b": "retry, repeat",
    r"\bin words\b": "as text",
    r"\bso many\b": "state the number",
    r"\b(isn't|aren't|wasn't|is not) there\b": "is missing, does not exist",
    r"\boriginal (run|log|engine)s?\b|\bthe original's\b|\bagent-pipelines' own\b": "the shell engine",
}


def violations(text: str, first_line: int = 1) -> Iterator[tuple[int, str]]:
    """The line and the advice for each forbidden phrase in the text."""
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", text)
    for phrase, instead in PHRASES.items():
        for found in re.finditer(phrase.replace(" ", r"\s"), text, re.IGNORECASE):
            line = first_line + text.count("\n", 0, found.start())
            yield line, f"{' '.join(found[0].split())!r}: use {instead}"


def has_phrase(source: str) -> bool:
    """Whether a part of a file can have one: reading its comments and strings takes much longer."""
    text = re.sub(r"[\s#]+", " ", source)
    return any(re.search(phrase, text, re.IGNORECASE) for phrase in PHRASES)


def of_python(source: str) -> list[tuple[int, str]]:
    strings = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return [
        found
        for node in strings
        if isinstance(node.value, str)
        for found in violations(node.value, node.lineno)
    ]


def of_docstrings(source: str) -> list[tuple[int, str]]:
    """Those of modules, classes, functions and fields; other strings of a test are data."""
    statements = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    return [
        found
        for node in statements
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in violations(node.value, node.lineno)
    ]


def of_comments(source: str) -> list[tuple[int, str]]:
    """Comments on consecutive lines are one text."""
    lines = [""] * (source.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = token.string.lstrip("# ")
    return list(violations("\n".join(line or "." for line in lines)))


def report(path: Path, found: list[tuple[int, str]]) -> list[str]:
    return [f"{path.relative_to(REPOSITORY)}:{line}: {advice}" for line, advice in sorted(found)]


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_strings_of_the_package(path: Path) -> None:
    source = path.read_text()
    assert not has_phrase(source) or report(path, of_python(source) + of_comments(source)) == []


@pytest.mark.parametrize("folder", ["tests", "tools", "bench", "examples"])
def test_docstrings_and_comments_of_other_code(folder: str) -> None:
    found = []
    for path in sorted((REPOSITORY / folder).rglob("*.py")):
        if path != Path(__file__).resolve() and has_phrase(source := path.read_text()):
            found += report(path, of_docstrings(source) + of_comments(source))
    assert found == []


def pages() -> list[Path]:
    """All pages for people; prompts for agents use some of these words in another sense."""
    patterns = ("*.md", "docs/**/*.md", "examples/**/*.md")
    return sorted(path for pattern in patterns for path in REPOSITORY.glob(pattern))


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_markdown(path: Path) -> None:
    assert report(path, list(violations(path.read_text()))) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\nIt goes\non with the run.", 2),
        ("Or nothing if there is none.", 1),
        ("`timeout` is no number of seconds", 1),
        ("Show how a run stands.", 1),
    ],
)
def test_phrase_is_found_with_its_line(text: str, line: int) -> None:
    assert next(violations(text))[0] == line


@pytest.mark.parametrize(
    "text", ["There is no such run.", "It is no longer needed.", "Resume a run, or None."]
)
def test_ordinary_text_is_accepted(text: str) -> None:
    assert list(violations(text)) == []


def test_names_of_tests() -> None:
    found = []
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if name := re.match(r" *(?:async )?def (test_\w+)", text):
                found += report(path, list(violations(name[1].replace("_", " "), line)))
    assert found == []


def test_strings_docstrings_and_comments_are_read_but_not_names() -> None:
    source = '"""Nobody."""\nnobody = f"{1} whoever"  # somebody\n# It goes\n# on.\n'
    assert [line for line, _ in of_python(source)] == [1, 2]
    assert [line for line, _ in of_docstrings(source)] == [1]
    assert sorted(line for line, _ in of_comments(source)) == [2, 3]
