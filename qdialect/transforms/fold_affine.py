"""Fold affine functions of one value into its scale.

On codes of at most 8 bits, y = clamp(m x + c) with real constants m, c is a table
of 256 entries. With x' the same codes read on the scale |m| s_x:

    table is the identity          ->  x read on y's qparams         no arithmetic
    c = 0, m > 0                   ->  rescale(x')
    c != 0, m > 0, clamp absorbed  ->  add(x', c)                    saturation clamps

Reading codes on other qparams is a pair of `quant.scast`, which costs nothing.
m s_x is rounded to the expressed type, so that files can hold it; the rewrite is
done only if all 256 results stay the same: exact.  Where m x + c comes so close to a
tie that float arithmetic, before or after, may end on its other side: ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.ranges import seen_qparams
from qdialect.behaviors import Affine, Behavior
from qdialect.context import QContext
from qdialect.dialects.nn import AddOp
from qdialect.dialects.quant import RescaleOp, SCastOp, UniformType, storage_type, with_element
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.numerics.float_path import near_tie
from qdialect.numerics.float_text import FORMATS, round_to_format
from qdialect.qparams import QParams
from qdialect.rewrite import Refusal, Rewriter, Rule
from qdialect.transforms.rule_pass import RulePass, with_qparams
from qdialect.transforms.scalars import exact_scalar, scalar_of


@dataclass(frozen=True)
class _Function:
    """`op` computes clamp(slope * x + offset) of its operand `x`."""

    op: Operation
    behavior: Behavior
    x: SSAValue
    affine: Affine


@dataclass(frozen=True)
class _Plan:
    """What replaces the op: read x as `middle`, then a rescale or an add, or nothing."""

    middle: QParams
    offset: Fraction | None = None
    direct: bool = False


class AffineOfCodes(Rule[_Function]):
    """clamp(m x + c) on codes becomes a change of scale; see the module."""

    name = "affine-of-codes"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.affine is not None)

    def match(self, op: Operation) -> _Function | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        if behavior.affine is None or len(op.results) != 1:
            return None
        constants = [scalar_of(v, self.session) for v in op.operands]
        data = [v for v, c in zip(op.operands, constants, strict=True) if c is None]
        if len(data) != 1 or not all(map(_is_byte, (data[0], op.results[0]))):
            return None
        if data[0].type != with_element(op.results[0].type, _element(data[0])):
            return None  # the constant broadcasts x
        affine = behavior.affine(op, constants)
        return _Function(op, behavior, data[0], affine) if affine else None

    def check(self, match: _Function) -> Contract | Refusal:
        if match.affine.slope <= 0:
            return Refusal("slope", "a scale is positive")
        plan = self._plan(match)
        if plan is None:
            return Refusal("table", "no scale gives the same result on every code")
        if plan.offset is not None and match.op.name == AddOp.name:
            return Refusal("already", "it is an addition of a constant already")
        undecided = self._undecided(match)
        if undecided:
            return Contract(Numerics.TIES, note=f"{undecided} results are ties in floats")
        return EXACT

    def _undecided(self, match: _Function) -> int:
        """How many codes runtimes that compute in floats may round either way."""
        source, result = qparams_of(match.x), qparams_of(match.op.results[0])
        assert source is not None and result is not None
        seen = seen_qparams(match.x, self.session) or source
        (a,), (b,), f = exact.affines(seen), exact.affines(result), match.affine
        step = Fraction(b.scale)
        bounds = [Fraction(v) for v in (f.low, f.high) if abs(v) != float("inf")]
        count = sum(near_tie([v / step], b, source.expressed) for v in bounds)
        for code in range(a.low, a.high + 1):
            x = (code - a.zero) * Fraction(a.scale)
            scaled = f.slope * x
            value = scaled + f.offset
            if f.low <= value <= f.high:
                steps = [value / step, scaled / step, f.offset / step]
                count += near_tie(steps, b, source.expressed, (x, scaled, value, value / step))
        return count

    def _plan(self, match: _Function) -> _Plan | None:
        source, result = qparams_of(match.x), qparams_of(match.op.results[0])
        assert source is not None and result is not None
        rounding, f = rounding_of(match.op), match.affine
        # All codes that may occur, also those outside narrowed bounds.
        seen = seen_qparams(match.x, self.session) or source
        a, b = exact.affines(seen)[0], exact.affines(result)[0]
        table = exact.linear_table(a, b, f.slope, f.offset, rounding)
        low, high = (exact.quantize_real(v, b, rounding) for v in (f.low, f.high))
        table = np.clip(table, low, high)
        if source.storage == result.storage and np.array_equal(table, exact.codes_of(a)):
            return _Plan(result, direct=True)
        scale = round_to_format(float(f.slope * Fraction(a.scale)), source.expressed)
        if not scale > 0 or scale == float("inf"):
            return None
        middle = QParams.per_tensor(source.storage, scale, a.zero, source.expressed)
        offset = Fraction(round_to_format(float(f.offset), source.expressed))
        shifted = exact.linear_table(a._replace(scale=scale), b, Fraction(1), offset, rounding)
        return _Plan(middle, offset or None) if np.array_equal(shifted, table) else None

    def rewrite(self, match: _Function, rewriter: Rewriter) -> None:
        plan = self._plan(match)
        assert plan is not None
        x = reinterpret(match.x, plan.middle, match.op, rewriter)
        if plan.direct:
            rewriter.replace(match.op, [x])
            return
        result_type = match.op.results[0].type
        new: Operation
        if plan.offset is None:
            new = RescaleOp(x, result_type, rounding_of(match.op))
        else:
            # In the storage of x, so that no later re-encoding finds it different.
            constant = exact_scalar(
                plan.offset,
                plan.middle.expressed,
                (),
                self.session,
                signed=plan.middle.storage.signed,
            )
            rewriter.insert(constant, match.op)
            new = AddOp.create(
                operands=[x, constant.result],
                result_types=[result_type],
                properties={"rounding": match.op.properties["rounding"]},
                attributes=match.op.attributes,
            )
        rewriter.insert(new, match.op, keep=match.op)
        rewriter.replace(match.op, new.results)


def _is_byte(value: SSAValue) -> bool:
    params = qparams_of(value)
    return (
        params is not None
        and params.is_per_tensor
        and params.storage.width <= 8
        and not params.storage.is_float
        and params.storage.quantile is None
        and params.expressed in FORMATS
    )


def _element(value: SSAValue) -> UniformType:
    params = qparams_of(value)
    assert params is not None
    return UniformType(params)


def reinterpret(
    value: SSAValue, params: QParams, before: Operation, rewriter: Rewriter
) -> SSAValue:
    """The codes of `value`, read on other qparams of the same storage."""
    source = qparams_of(value)
    assert source is not None
    bits = SCastOp(value, with_element(value.type, storage_type(source)))
    rewriter.insert(bits, before)
    read = SCastOp(bits.result, with_qparams(value, params))
    rewriter.insert(read, before)
    return read.result


@dataclass(frozen=True)
class FoldAffine(RulePass):
    """Fold affine functions of one value into its scale; see the module."""

    name = "fold-affine"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (AffineOfCodes(session),)
