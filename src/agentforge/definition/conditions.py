"""Parses and validates the conditions of hooks: text to a `Condition`, or diagnostics. Imported only if a
definition has a condition, because of Lark."""

import re
from functools import cache
from typing import Literal, cast

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken
from msgspec import Struct

from agentforge.definition.report import Report
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.condition import (
    INTEGERS,
    MAX_DEPTH,
    MAX_LENGTH,
    VARIABLES,
    Condition,
    ConstantTerm,
    ListTerm,
    Operation,
    Operator,
    VariableTerm,
    is_too_large,
)
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.names import control_character
from agentforge.model.text_pattern import PatternRefused, compiled

# Conditions have a language of their own, as an expression of Python or of a shell could execute anything
# that a repository says. It has no loops and no attributes, its patterns match in linear time
# (`model/text_pattern.py`), and types are checked here, so that evaluating a condition can't fail in the
# middle of a run.

GRAMMAR = r"""
?start: disjunction
?disjunction: conjunction ("||" conjunction)*
?conjunction: comparison ("&&" comparison)*
?comparison: remainder [(COMPARE | IN | MATCHES) remainder]
?remainder: unary | remainder "%" unary
?unary: operand | "!" unary -> negation
?operand: constant | NAME -> variable | list | call | "(" disjunction ")"
?constant: INTEGER -> integer | STRING -> text | (TRUE | FALSE) -> truth
list: "[" [constant ("," constant)*] "]"
call: NAME "(" [disjunction ("," disjunction)*] ")"

COMPARE: "==" | "!=" | "<=" | ">=" | "<" | ">"
IN: "in"
MATCHES: "matches"
TRUE: "true"
FALSE: "false"
NAME: /[A-Za-z_][A-Za-z0-9_]*/
INTEGER: /-?[0-9]+/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
%ignore /[ \t\n]+/
"""

TermKind = Literal["integer", "text", "boolean", "list", "unknown"]
_NOUNS: dict[TermKind, str] = {"integer": "an integer", "text": "a string", "boolean": "true or false"}
_KINDS: dict[type, TermKind] = {bool: "boolean", int: "integer", str: "text"}
_OPERATORS: dict[str, Operator] = {
    "disjunction": "||",
    "conjunction": "&&",
    "remainder": "%",
    "negation": "!",
}
"""Of the rules that are named for their operator; a comparison has it as a token."""
_ESCAPE = re.compile(r"""\\(["'\\])""")
_HINTS = {
    "=": "compare with `==`",
    **dict.fromkeys(("and", "&"), "write `&&`"),
    **dict.fromkeys(("or", "|"), "write `||`"),
    "not": "write `!`",
    '"': 'close the string with `"`',
    "'": "close the string with `'`",
    ".": "numbers are integers, and variables have no attributes",
    **dict.fromkeys("+-*/", "the only arithmetic operator is `%`"),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "matches"), "combine comparisons with `&&`"),
}


def parse_condition(written: Written[str], report: Report) -> Condition | None:
    """The parsed condition, or None with errors in the report."""
    text = written.value
    if len(text) > MAX_LENGTH:
        message = f"the condition has {len(text):,} characters; the maximum is {MAX_LENGTH:,}"
        report.error("too-large", written.at, message, hint="shorten it, or decide in the hook itself")
        return None
    if found := control_character(text.replace("\n", " ").replace("\t", " ")):
        message = f"the condition contains the control character {found}"
        report.error("control-character", written.at, message, hint="remove it")
        return None
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        _report_syntax(written, error, report)
        return None
    return _TypeCheck(written, report).condition(tree)


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=False)


def _report_syntax(written: Written[str], error: UnexpectedInput, report: Report) -> None:
    text = written.value
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        message = "the condition is incomplete" if text.strip() else "the condition is empty"
        hint = 'for example `iteration % 3 == 0 && stage == "build"`'
        report.error("syntax", _place(written, len(text.rstrip()), report), message, hint)
        return
    offset = error.pos_in_stream or 0
    found = str(error.token) if isinstance(error, UnexpectedToken) else text[offset]
    hint = _HINTS["not"] if text[:offset].split()[-1:] == ["not"] else _HINTS.get(found, "")
    message = f"unexpected {shown(found)} in the condition"
    report.error("syntax", _place(written, offset, report), message, hint)


class _Typed(Struct, frozen=True):
    """A term, its type and its offset in the text."""

    term: Condition
    kind: TermKind
    offset: int


class _TypeCheck:
    """From the tree of the grammar to terms, with their types checked."""

    def __init__(self, written: Written[str], report: Report) -> None:
        self._written = written
        self._report = report
        self._valid = True

    def condition(self, tree: "Tree[Token]") -> Condition | None:
        whole = self._typed(tree, 1)
        self._expect(whole, "boolean", "a condition")
        return whole.term if self._valid else None

    def _error(self, code: str, offset: int, message: str, hint: str = "") -> None:
        self._valid = False
        self._report.error(code, _place(self._written, offset, self._report), message, hint)

    def _typed(self, tree: "Tree[Token]", depth: int) -> _Typed:
        offset = tree.meta.start_pos
        if depth > MAX_DEPTH:
            self._error("too-large", offset, f"the condition is nested more than {MAX_DEPTH} levels deep")
            return _Typed(ConstantTerm(False), "unknown", offset)
        match tree.data:
            case "variable" | "call":
                return self._name(str(tree.children[0]), tree.data, offset)
            case "integer" | "text" | "truth":
                return self._constant(tree.data, str(tree.children[0]), offset)
        operands = [self._typed(child, depth + 1) for child in tree.children if isinstance(child, Tree)]
        if tree.data == "list":
            if not operands:
                hint = 'for example `["plan", "build"]`'
                self._error("bad-value", offset, "the list is empty", hint)
            items = tuple(item.term for item in operands if isinstance(item.term, ConstantTerm))
            return _Typed(ListTerm(items), "list", offset)
        written = next((str(child) for child in tree.children if isinstance(child, Token)), "")
        op = _OPERATORS.get(tree.data) or cast(Operator, written)
        term = Operation(op, tuple(operand.term for operand in operands))
        return _Typed(term, self._kind(op, operands), offset)

    def _name(self, name: str, role: str, offset: int) -> _Typed:
        if role == "call":
            message = f"a condition can't call functions: `{name}(…)`"
            self._error("function-call", offset, message, hint="compare variables, or decide in the hook")
        elif name in VARIABLES:
            return _Typed(VariableTerm(name), "integer" if name in INTEGERS else "text", offset)
        else:
            hint = _HINTS.get(name) or choice(name, "variables", VARIABLES)
            self._error("unknown-variable", offset, f"unknown variable {shown(name)} in the condition", hint)
        return _Typed(ConstantTerm(False), "unknown", offset)

    def _constant(self, kind: str, written: str, offset: int) -> _Typed:
        if kind == "text":
            return _Typed(ConstantTerm(_ESCAPE.sub(r"\1", written[1:-1])), "text", offset)
        if kind == "truth":
            return _Typed(ConstantTerm(written == "true"), "boolean", offset)
        number = ConstantTerm(int(written))
        if is_too_large(number.value):
            self._error("bad-value", offset, f"the number {shown(written)} is too large")
        return _Typed(number, "integer", offset)

    def _kind(self, op: Operator, operands: list[_Typed]) -> TermKind:
        """Check the types of the operands; the type of the result."""
        what = f"`{op}`"
        match op:
            case "||" | "&&" | "!":
                for operand in operands:
                    self._expect(operand, "boolean", what)
            case "==" | "!=":
                self._same(operands[0], operands[1:], what)
            case "in" if operands[1].kind == "list":
                items, at = cast(ListTerm, operands[1].term).items, operands[1].offset
                self._same(operands[0], [_Typed(item, _KINDS[type(item.value)], at) for item in items], what)
            case "in" | "matches":
                for operand in operands:
                    self._expect(operand, "text", what)
                pattern = operands[1].term
                if op == "matches" and isinstance(pattern, ConstantTerm):
                    self._check_pattern(str(pattern.value), operands[1].offset)
            case _:
                for operand in operands:
                    self._expect(operand, "integer", what)
                if op == "%" and operands[1].term == ConstantTerm(0):
                    self._error("bad-value", operands[1].offset, "`%` divides by zero")
        if op == "!" and operands[0].kind != "boolean":
            return "unknown"  # What it is compared with was to be negated, too.
        return "integer" if op == "%" else "boolean"

    def _expect(self, operand: _Typed, kind: TermKind, what: str) -> None:
        if operand.kind in (kind, "unknown"):
            return
        got = _NOUNS.get(operand.kind, "a list")
        hint = "lists are for `in`" if operand.kind == "list" else ""
        if what == "`!`":
            hint = "put the comparison in parentheses: `!(…)`"
        elif kind == "boolean":
            hint = hint or "compare it, for example with `==`"
        self._error("bad-type", operand.offset, f"{what} needs {_NOUNS[kind]}, got {got}", hint)

    def _same(self, first: _Typed, others: list[_Typed], what: str) -> None:
        if first.kind == "list":
            self._error("bad-type", first.offset, f"{what} can't compare a list", hint="lists are for `in`")
            return
        for other in others:
            if other.kind != first.kind and "unknown" not in (other.kind, first.kind):
                found, expected = _NOUNS.get(other.kind, "a list"), _NOUNS[first.kind]
                message = f"{what} can't compare {expected} with {found}"
                self._error("bad-type", other.offset, message, hint="both sides need the same type")

    def _check_pattern(self, pattern: str, offset: int) -> None:
        """A pattern that isn't a constant is checked when it is used."""
        try:
            compiled(pattern)
        except PatternRefused as error:
            hint = "docs/pipelines.md lists what a pattern can contain"
            self._error("bad-value", offset, f"invalid pattern: {error.message}", hint)


def _place(written: Written[str], offset: int, report: Report) -> SourcePlace:
    """The place of a character of a value; the start of the value if its text isn't written as it reads."""
    at = written.at
    source = report.line(at)[at.col - 1 :]
    quote = source[:1] if source[:1] in ("'", '"') else ""
    escape = {"'": "'", '"': "\\"}.get(quote)
    index = len(quote)
    for char in written.value[:offset]:
        if source[index : index + 1] == escape:
            index += 1
        if source[index : index + 1] != char:
            return at
        index += 1
    return SourcePlace(at.file, at.line, at.col + index)
