"""The source pass: YAML 1.2 core schema, places, and texts that aren't a definition at all."""

import math
from typing import Any

import pytest
import yaml

from agentforge.definition.read.values import as_data
from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import FASTEST_LOADER, MAX_DEPTH, Keyed, parse_mapping, plain_value
from agentforge.ports.sources import MAX_SOURCE_BYTES

from .world import where

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])]


def parse(text: str, loader: Any = FASTEST_LOADER) -> tuple[Keyed | None, Report]:
    report = Report()
    return parse_mapping(SourceText("f.yaml", text), report, loader), report


def data(text: str, loader: Any = FASTEST_LOADER) -> Any:
    tree, report = parse(text, loader)
    assert tree is not None
    assert not report.diagnostics
    return as_data(tree, "x", report)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("No", "No"),
        ("y", "y"),
        ("2026-01-01", "2026-01-01"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("017", 17),
        ("0o17", 15),
        ("0xfF", 255),
        ("-12", -12),
        ("+3", 3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("Null", None),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("=", "="),
        ("9" * 19, "9" * 19),
        ("9" * 5000, "9" * 5000),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_core_schema_scalars(text: str, value: object) -> None:
    assert plain_value(text) == value
    assert type(plain_value(text)) is type(value)


def test_core_schema_not_a_number() -> None:
    value = plain_value(".nan")
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.__name__)
class TestBothLoaders:
    def test_on_is_a_string_key(self, loader: Any) -> None:
        assert data("on: {fail: plan}\nyes: no\n", loader) == {"on": {"fail": "plan"}, "yes": "no"}

    def test_quoted_scalars_stay_text(self, loader: Any) -> None:
        assert data("a: '1'\nb: \"true\"\nc: |\n  null\n", loader) == {"a": "1", "b": "true", "c": "null\n"}

    def test_tags(self, loader: Any) -> None:
        text = "a: !!str 1\nb: !!int 0x10\nc: ! 2\nd: !!float 1\ne: !!seq [x]\nf: !!map {k: v}\n"
        assert data(text, loader) == {"a": "1", "b": 16, "c": "2", "d": 1, "e": ["x"], "f": {"k": "v"}}

    def test_aliases_are_allowed(self, loader: Any) -> None:
        assert data("a: &x [1, 2]\nb: *x\nc: &y {k: *x}\nd: *y\n", loader) == {
            "a": [1, 2],
            "b": [1, 2],
            "c": {"k": [1, 2]},
            "d": {"k": [1, 2]},
        }

    def test_byte_order_mark_is_not_part_of_the_text(self, loader: Any) -> None:
        assert data("\ufeffname: x\n", loader) == {"name": "x"}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", ["empty 1:1"]),
            ("\n\n", ["empty 1:1"]),
            ("# only a comment\n", ["empty 1:1"]),
            ("- a\n", ["not-a-mapping 1:1"]),
            ("\n  just text\n", ["not-a-mapping 2:3"]),
            ("---\n", ["not-a-mapping"]),
            ("a: 1\nb: 2\na: 3\n", ["duplicate-key 3:1"]),
            ("x:\n  k: 1\n  'k': 2\ny: {m: 1, m: 2}\n", ["duplicate-key 3:3", "duplicate-key 4:11"]),
            ("a: 1\n---\nb: 2\n", ["syntax 2:1"]),
            ("a: *nothing\n", ["syntax 1:4"]),
            ("a: &x\n  b: *x\n", ["syntax 2:6"]),
            ("? [a]\n: 1\n", ["bad-type 1:3"]),
            ("a: !!python/object:os.system x\n", ["bad-tag 1:4"]),
            ("a: !mine [1]\n", ["bad-tag 1:4"]),
            ("a: !!int x\n", ["bad-tag 1:4"]),
            ("<<: {a: 1}\n", ["unsupported 1:1"]),
            ("a: b\udcff\n", ["bad-encoding 1:5"]),
            ("a: 1\r\nb: \udc80", ["bad-encoding 2:4"]),
            ("\ufeffa: \udc80", ["bad-encoding 1:4"]),
            ("a: 1\nb: \x07\n", ["syntax 2:4"]),
            ('a: "\\ud800"\n', ["syntax"]),
            ('a: "\\UFFFFFFFF"\n', ["syntax"]),
        ],
    )
    def test_refusals_with_their_places(self, loader: Any, text: str, expected: list[str]) -> None:
        _, report = parse(text, loader)
        assert len(report.diagnostics) == len(expected)
        for diagnostic, wanted in zip(report.diagnostics, expected, strict=True):
            assert where(diagnostic).startswith(wanted)

    @pytest.mark.parametrize(
        ("text", "line"),
        [("a: [1, 2\nb: 3\n", 2), ("a: 'open\n", 2), ("a: b: c\n", 1), ("a:\n  - x\n b: 1\n", 3), ("}\n", 1)],
    )
    def test_syntax_errors_name_a_place(self, loader: Any, text: str, line: int) -> None:
        tree, report = parse(text, loader)
        assert tree is None
        (diagnostic,) = report.diagnostics
        assert diagnostic.code == "syntax"
        assert diagnostic.place.line == line
        assert "\n" not in diagnostic.message

    @pytest.mark.parametrize("text", ["prompt: Note: be brief\n", "prompt: @name\n"])
    def test_a_value_that_needs_quotes_is_named(self, loader: Any, text: str) -> None:
        _, report = parse(text, loader)
        assert report.diagnostics[0].hint.startswith("put quotes around a value")

    def test_syntax_error_names_the_start_of_its_construct(self, loader: Any) -> None:
        _, report = parse("a:\n  - {b: 1\nc: 2\n", loader)
        assert report.diagnostics[0].hint == "check the flow mapping that starts on line 2"

    def test_syntax_error_outside_of_any_construct_has_no_hint(self, loader: Any) -> None:
        _, report = parse("{a: 1}\nb: 2\n", loader)
        (diagnostic,) = report.diagnostics
        assert (where(diagnostic), diagnostic.hint) == ("syntax 2:1", "")

    def test_tab_indentation_is_named(self, loader: Any) -> None:
        _, report = parse("a:\n\tb: 1\n", loader)
        (diagnostic,) = report.diagnostics
        assert where(diagnostic) == "syntax 2:1"
        assert "tab" in diagnostic.message
        assert "spaces" in diagnostic.hint

    def test_depth_is_bounded(self, loader: Any) -> None:
        assert parse("a: " + "[" * 100_000, loader)[1].diagnostics[0].code == "too-large"
        depth = MAX_DEPTH - 1
        assert not parse("a: " + "[" * depth + "]" * depth, loader)[1].diagnostics

    def test_depth_through_aliases_is_bounded(self, loader: Any) -> None:
        lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, MAX_DEPTH + 1)]
        assert parse("\n".join(lines), loader)[1].diagnostics[0].code == "too-large"

    def test_billion_laughs_is_refused(self, loader: Any) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
        tree, report = parse("\n".join(lines), loader)
        assert tree is None
        assert where(report.diagnostics[0]) == "too-large 5:5"

    def test_line_ends_of_every_kind_count(self, loader: Any) -> None:
        _, report = parse("a: 1\r\nb: 2\rc: 3\nb: 4\n", loader)
        assert where(report.diagnostics[0]) == "duplicate-key 4:1"
        assert report.diagnostics[0].text == "b: 4"


def test_text_size_is_bounded() -> None:
    _, report = parse("a: " + "x" * MAX_SOURCE_BYTES)
    assert where(report.diagnostics[0]) == "too-large 1:1"


def test_duplicate_keys_keep_the_first_and_reading_continues() -> None:
    tree, report = parse("a: 1\na: 2\nb: 3\n")
    assert tree is not None
    assert as_data(tree, "x", report) == {"a": 1, "b": 3}


def test_hash_is_of_the_bytes() -> None:
    text = b"a\r\n\xff".decode("utf-8", "surrogateescape")
    assert SourceText("f", text).sha256 == "9673847181cd5eb6eca538070ff4d26516d41b9b62657155d8f8baad8abd88f8"
