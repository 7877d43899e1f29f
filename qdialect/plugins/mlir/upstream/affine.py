"""Reads affine maps and sets, semi-affine ones included, as MLIR builds them.

xDSL refuses products and divisions by symbols, and multiplies out sums. MLIR's builder does
less, and what it does is done here, so that a map that mlir-opt wrote is the same map:

    affine_map<(d0, d1)[s0] -> (d0 * s0, -(d0 - d1), d1 floordiv s0)>
"""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
)
from xdsl.parser.affine_parser import AffineParser
from xdsl.utils.mlir_lexer import MLIRToken, MLIRTokenKind

_KINDS = {
    "+": AffineBinaryOpKind.Add,
    "-": AffineBinaryOpKind.Add,
    "*": AffineBinaryOpKind.Mul,
    "floordiv": AffineBinaryOpKind.FloorDiv,
    "ceildiv": AffineBinaryOpKind.CeilDiv,
    "mod": AffineBinaryOpKind.Mod,
}
_NEUTRAL = {
    AffineBinaryOpKind.Add: 0,
    AffineBinaryOpKind.Mul: 1,
    AffineBinaryOpKind.FloorDiv: 1,
    AffineBinaryOpKind.CeilDiv: 1,
}
#: operations that may be nested in each other
_DEEPEST = 200
_COMMUTES = (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul)


class AffineReader(AffineParser):
    """Reads one map or set at the state of another parser."""

    @override
    def _get_parse_optional_bare_id(
        self, dims: list[str], syms: list[str]
    ) -> Callable[[], AffineExpr | None]:
        known = {name: AffineExpr.symbol(i) for i, name in reversed(list(enumerate(syms)))}
        known |= {name: AffineExpr.dimension(i) for i, name in reversed(list(enumerate(dims)))}

        def parse() -> AffineExpr | None:
            token = self._parse_optional_token(MLIRTokenKind.BARE_IDENT)
            if token is not None and token.text not in known:
                self.raise_error(f"Identifier not in space {token.text}", token.span)
            return None if token is None else known[token.text]

        return parse

    @override
    def _parse_affine_expr(
        self, parse_optional_bare_id: Callable[[], AffineExpr | None]
    ) -> AffineExpr:
        found = super()._parse_affine_expr(parse_optional_bare_id)
        level: list[AffineExpr] = [found]
        for _ in range(_DEEPEST):
            inner = (e for e in level if isinstance(e, AffineBinaryOpExpr))
            level = [part for e in inner for part in (e.lhs, e.rhs)]
        if level:
            self.raise_error("nested too deeply")
        return found

    @override
    def _parse_primary(self, parse_optional_bare_id: Callable[[], AffineExpr | None]) -> AffineExpr:
        if self.parse_optional_punctuation("-") is None:
            return super()._parse_primary(parse_optional_bare_id)
        return _negative(self._parse_primary(parse_optional_bare_id))

    @override
    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: MLIRToken) -> AffineExpr:
        return _binary(_KINDS[binop.text], lhs, _negative(rhs) if binop.text == "-" else rhs)

    @override
    def _parse_affine_constraint(
        self, parse_optional_bare_id: Callable[[], AffineExpr | None]
    ) -> AffineConstraintExpr:
        lhs = self._parse_affine_expr(parse_optional_bare_id)
        sign = self._consume_token().text + self._consume_token().text
        if sign not in (">=", "<=", "=="):
            self.raise_error("expected '==', '>=' or '<='")
        rhs = self._parse_affine_expr(parse_optional_bare_id)
        if sign == "<=":
            lhs, rhs = rhs, lhs
        kind = AffineConstraintKind.eq if sign == "==" else AffineConstraintKind.ge
        difference = _binary(AffineBinaryOpKind.Add, lhs, _negative(rhs))
        zero = AffineConstantExpr(0)
        return AffineConstraintExpr(kind, difference, zero, canonicalize=False)


def _negative(operand: AffineExpr) -> AffineExpr:
    return _binary(AffineBinaryOpKind.Mul, operand, AffineConstantExpr(-1))


def _binary(kind: AffineBinaryOpKind, lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    """The expression, simplified as far as MLIR does it when it builds one: constants."""
    if kind in _COMMUTES and isinstance(lhs, AffineConstantExpr):
        lhs, rhs = rhs, lhs
    if not isinstance(rhs, AffineConstantExpr):
        return AffineBinaryOpExpr(kind, lhs, rhs)
    if isinstance(lhs, AffineConstantExpr) and (kind in _COMMUTES or rhs.value > 0):
        return AffineExpr.binary(kind, lhs, rhs)
    if _NEUTRAL.get(kind) == rhs.value:
        return lhs
    if (
        isinstance(lhs, AffineBinaryOpExpr)
        and lhs.kind is kind
        and kind in _COMMUTES
        and isinstance(lhs.rhs, AffineConstantExpr)
    ):
        return _binary(kind, lhs.lhs, AffineExpr.binary(kind, lhs.rhs, rhs))
    return AffineBinaryOpExpr(kind, lhs, rhs)
