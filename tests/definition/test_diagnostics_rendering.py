"""How diagnostics look: `file:line:col: code: message`, the line, a caret, a hint."""

from agentforge.definition.report import Report
from agentforge.model.diagnostic import Diagnostic, SourcePlace, render, render_one

from .world import found


def shown(text: str, col: int) -> str:
    return render_one(Diagnostic("code", "error", "message", SourcePlace("f.yaml", 3, col), "", text))


def test_the_whole_form() -> None:
    diagnostics = found("name: p\nnodes:\n  - id: n\n    stage: s\n    contxt: x\n    runs: 0\n")
    assert render(diagnostics) == (
        "p.yaml:5:5: unknown-key: unknown key `contxt` in node\n"
        "  |     contxt: x\n"
        "  |     ^\n"
        "  hint: did you mean `context`?\n"
        "\n"
        "p.yaml:6:11: bad-value: `runs` must be from 1 to 1,000,000, got 0\n"
        "  |     runs: 0\n"
        "  |           ^"
    )


def test_sorted_by_place() -> None:
    def at(file: str, line: int, col: int) -> Diagnostic:
        return Diagnostic("c", "error", "m", SourcePlace(file, line, col))

    text = render([at("b", 1, 1), at("a", 10, 1), at("a", 9, 2), at("a", 9, 1)])
    assert [line.split(": ")[0] for line in text.splitlines() if line] == [
        "a:9:1",
        "a:9:2",
        "a:10:1",
        "b:1:1",
    ]


def test_caret_is_under_the_column_after_tabs_and_wide_characters() -> None:
    assert shown("\ta: b", 5).splitlines()[2] == "  | \t   ^"
    assert shown("計画: b", 5).splitlines()[2] == "  |       ^"
    assert shown("e\u0301: b", 5).splitlines()[2] == "  |    ^"


def test_long_lines_are_cut_around_the_column() -> None:
    line, caret = shown("x" * 500 + "HERE" + "y" * 500, 501).splitlines()[1:]
    assert len(line) < 130
    assert line[caret.index("^") :].startswith("HERE")


def test_a_definition_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in shown("a: \x1b[31m", 1)


def test_no_line_no_caret() -> None:
    assert shown("", 1) == "f.yaml:3:1: code: message"


def test_a_value_that_comes_from_no_file_has_no_line() -> None:
    report = Report()
    report.error("e", report.argument("nosuch"), "unknown")
    report.error("e", report.variable("PROVIDER", "x"), "unknown")
    assert [render_one(d).split("\n")[0] for d in report.diagnostics] == [
        "arguments: e: unknown",
        "environment: e: unknown",
    ]


def test_report_keeps_each_remark_once_and_knows_errors() -> None:
    report = Report()
    at = report.argument("x")
    report.warning("w", at, "careful")
    assert not report.has_errors
    report.error("e", at, "wrong")
    report.error("e", at, "wrong")
    assert report.has_errors
    assert [d.code for d in report.diagnostics] == ["e", "w"]
    assert report.argument("x") == at
    assert report.argument("y").line == 2
