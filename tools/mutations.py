"""Small changes of the syntax tree of a function, each of which may be a bug."""

# pyright: basic
from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_ORDER = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_EQUAL = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In}
_TEXTS = ("Refusal", "NoFixedPointError", "NoPiecesError", "Illegal")
"""What they are given is told to people."""
WEAK = ("TIES", "BOUNDED", "SATURATION", "RELAXED")


@dataclass
class Change:
    """An attribute (or element of a list) of a node that becomes another one."""

    kind: str
    line: int
    #: the expression it is shown in
    shown: ast.AST
    holder: Any
    key: Any
    value: object

    @property
    def last(self) -> int:
        """The line where the expression ends."""
        shown = self.shown.test if isinstance(self.shown, ast.If) else self.shown
        return getattr(shown, "end_lineno", None) or self.line

    @contextmanager
    def made(self) -> Iterator[None]:
        """The tree with the change."""
        old = self._get()
        self._set(self.value)
        try:
            yield
        finally:
            self._set(old)

    def _get(self) -> object:
        if isinstance(self.holder, list):
            return self.holder[self.key]
        return getattr(self.holder, self.key)

    def _set(self, value: object) -> None:
        if isinstance(self.holder, list):
            self.holder[self.key] = value
        else:
            setattr(self.holder, self.key, value)


def signature(change: Change) -> tuple[str, str]:
    """The expression before and after, each on one line."""
    before = _text(change.shown)
    with change.made():
        after = _text(change.shown)
    return before, after


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        node = ast.If(node.test, node.body[:1], [])
    return " ".join(ast.unparse(node).split())


def changes(function: ast.FunctionDef) -> list[Change]:
    """All of them, in the order of the text."""
    found: list[Change] = []
    for statement in function.body:
        _visit(statement, found)
    return found


def _visit(node: ast.AST, found: list[Change]) -> None:
    if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr)):
        return
    if isinstance(node, ast.Call) and _name(node.func) in _TEXTS:
        return
    found += _of(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg == "note":
                continue
            if isinstance(child, ast.AST):
                _visit(child, found)


def _of(node: ast.AST) -> Iterator[Change]:
    line = getattr(node, "lineno", 0)
    if isinstance(node, (ast.If, ast.IfExp)):
        negated = ast.UnaryOp(ast.Not(), node.test)
        yield Change("negate", line, node, node, "test", negated)
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Return):
            yield Change("drop", line, node, node, "test", ast.Constant(False))
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield Change("logic", line, node, node, "op", other)
    elif isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            swapped = _ORDER.get(type(op)) or _EQUAL.get(type(op))
            if swapped is not None:
                yield Change("compare", line, node, node.ops, index, swapped())
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield Change("sign", line, node, node, "op", other)
    elif isinstance(node, ast.Return):
        yield from _returned(node, line)
    elif isinstance(node, ast.Call):
        yield from _called(node, line)


def _returned(node: ast.Return, line: int) -> Iterator[Change]:
    value = node.value
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        yield Change("answer", line, node, node, "value", ast.Constant(not value.value))
    if isinstance(value, ast.Name) and value.id == "EXACT":
        weaker = ast.parse("EXACT.__class__(EXACT.level.__class__(4))", mode="eval").body
        yield Change("weaker", line, node, node, "value", weaker)


def _called(node: ast.Call, line: int) -> Iterator[Change]:
    name = _name(node.func)
    if name in ("any", "all") and isinstance(node.func, ast.Name):
        other = "all" if name == "any" else "any"
        yield Change("logic", line, node, node, "func", ast.Name(other, ast.Load()))
    elif name in ("min", "max", "abs") and isinstance(node.func, ast.Name) and node.args:
        if not isinstance(node.args[0], (ast.Starred, ast.GeneratorExp)):
            kept = "(lambda first, *others, **named: first)"
            first = ast.parse(kept, mode="eval").body
            yield Change("clamp", line, node, node, "func", first)
    elif name == "Contract" and node.args:
        level = node.args[0]
        if isinstance(level, ast.Attribute) and level.attr in WEAK:
            exact = ast.Attribute(level.value, "EXACT", ast.Load())
            yield Change("stronger", line, node, node.args, 0, exact)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
