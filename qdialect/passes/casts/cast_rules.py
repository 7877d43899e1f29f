"""Rules that fold the casts between floats and codes.

quantize(dequantize(q)), same type          -> q                      exact if codes
                   are inside the bounds and the float path is wide enough
quantize(dequantize(q)), other type         -> rescale(q)             exact (reals)
quantize(constant)                          -> constant               exact
dequantize(rescale(q)), dequantize(f(quantize(x)))                    relaxed
                   where f moves elements or keeps their order
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

from xdsl.ir import Operation, SSAValue

from qdialect.algebra import arithmetic
from qdialect.algebra import requantize as exact
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.analysis.codes import is_integer, qparams_of, survives_float
from qdialect.analysis.ranges import inside_bounds, narrowed_qparams, ranges
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    arithmetic_of,
    cast_rounding,
    element_type,
    quant_element,
    with_element,
)
from qdialect.passes.casts.cast_movement import refuse_floats
from qdialect.passes.pair_contract import NO_TWO_STAGE, target_rounding
from qdialect.passes.rule_pass import dequantized, rescaled
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


@dataclass(frozen=True)
class Pair:
    """An op and the op that defines its operand."""

    lower: Operation
    upper: Operation

    @property
    def source(self) -> SSAValue:
        """The operand of the upper op."""
        return self.upper.operands[0]

    @property
    def result(self) -> SSAValue:
        """The result of the lower op."""
        return self.lower.results[0]


class QuantizeOfDequantize(Rule[Pair]):
    """quantize_b(dequantize_a(q)) = q if a = b, else rescale_{a->b}(q)."""

    name = "quantize-of-dequantize"
    root = QCastOp.name

    def match(self, op: Operation) -> Pair | None:
        upper = dequantized(op.operands[0])
        if upper is None or qparams_of(op.results[0]) is None or qparams_of(upper.input) is None:
            return None
        return Pair(op, upper)

    def check(self, match: Pair) -> Contract | Refusal:
        a, b = qparams_of(match.source), qparams_of(match.result)
        assert a is not None and b is not None
        if not (is_integer(a) and is_integer(b)):
            return Refusal("storage", "rescale is defined between integer storages")
        if a == b:
            if not inside_bounds(match.source, self.session):
                return Refusal("bounds", "codes may lie outside the narrowed bounds")
            if not survives_float(a, cast_rounding(match.lower)):
                return Refusal("float-path", f"{a.expressed} cannot carry every code")
            return EXACT
        if exact.unique_pairs(a, b) is None:
            return Refusal("grid", "the two encodings lie on different grids")
        if self.session.target.rescale_price(a, b) == inf:
            return Refusal("target", f"{self.session.target.name}: no such rescale")
        return target_rounding(
            self.session.target,
            cast_rounding(match.lower),
            lambda: narrowed_qparams(match.source, self.session) or a,
            b,
            arithmetic_of(match.lower),
        )[1]

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        if match.source.type == match.result.type:
            rewriter.replace(match.lower, [match.source])
            return
        rounding = self.session.target.rounding(cast_rounding(match.lower))
        new = RescaleOp(match.source, match.result.type, rounding)
        rewriter.insert(new, match.lower, keep=match.lower)
        rewriter.replace(match.lower, new.results)


class QuantizeOfConstant(Rule[QCastOp]):
    """A quantized constant is a constant, computed as ONNX QuantizeLinear does."""

    name = "quantize-of-constant"
    root = QCastOp.name

    def match(self, op: Operation) -> QCastOp | None:
        assert isinstance(op, QCastOp)
        known = constant_of(op.input) is not None and quant_element(op.result.type) is not None
        return op if known else None

    def check(self, match: QCastOp) -> Contract | Refusal:
        from qdialect.algebra.quantize import can_quantize_floats

        params = qparams_of(match.result)
        assert params is not None
        if not can_quantize_floats(params) or not is_integer(params):
            return Refusal("expressed", f"cannot evaluate in {params.expressed}")
        return NO_TWO_STAGE if cast_rounding(match).two_stage else EXACT

    def rewrite(self, match: QCastOp, rewriter: Rewriter) -> None:
        from qdialect.algebra.quantize import quantize_floats

        constant, params = constant_of(match.input), qparams_of(match.result)
        assert constant is not None and params is not None
        floats = constant_array(constant, self.session.blobs)
        codes = quantize_floats(floats, params, cast_rounding(match))
        replace_by_constant(match, codes, constant, self.session, rewriter)


def replace_by_constant(
    op: Operation, codes: Any, source: ConstantOp, session: QContext, rewriter: Rewriter
) -> None:
    """Replace `op` by a constant of `codes`, with the key and location of `source`."""
    element = quant_element(op.results[0].type)
    assert element is not None
    key = {KEY: source.attributes[KEY]} if KEY in source.attributes else None
    new = make_constant(codes, element, session.blobs, key)
    rewriter.insert(new, op, keep=source)
    rewriter.replace(op, new.results)


class DequantizeOfRescale(Rule[Pair]):
    """dequantize(rescale(q)) ~ dequantize(q): drops a rounding and a clip."""

    name = "dequantize-of-rescale"
    root = DCastOp.name

    def match(self, op: Operation) -> Pair | None:
        upper = rescaled(op.operands[0])
        return Pair(op, upper) if upper is not None else None

    def check(self, match: Pair) -> Contract | Refusal:
        upper = match.upper
        assert isinstance(upper, RescaleOp)
        source = narrowed_qparams(upper.input, self.session) or upper.input_qparams
        cells = exact.unique_pairs(source, upper.result_qparams)
        if upper.input_qparams.expressed != upper.result_qparams.expressed:
            return Refusal("expressed", "the expressed types differ")
        floats = arithmetic_of(upper).floats(source.expressed)
        lossless = cells and all(
            arithmetic.is_lossless(a, b, floats) and a.scale == b.scale for a, b in cells
        )
        if lossless:
            return Contract(Numerics.EXACT, note="the rescale renumbers codes")
        if exact.codes_clip_at_zero(source, upper.result_qparams):
            return Refusal("clips", "the clip at 0 computes a ReLU")
        return Contract(Numerics.RELAXED, note="drops a rounding and a clip")

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        new = DCastOp(match.source, match.result.type)
        new.attributes.update(match.lower.attributes)
        rewriter.insert(new, match.lower, keep=match.lower)
        rewriter.replace(match.lower, new.results)


@dataclass(frozen=True)
class _Between:
    """A dequantize, and the ops on codes between it and the quantizes above, the lowest
    first: ops that commute with both, and rescales."""

    lower: DCastOp
    ops: tuple[Operation, ...]


class DequantizeOfQuantize(Rule[_Between]):
    """dequantize(f(quantize(x))) ~ f(x) for an f that commutes with casts, or none: drops a
    rounding and a clip, so only at `relaxed`, and not where codes end at 0: that clip is a ReLU.
    All operands of f are quantized, and nothing else uses the codes on the way."""

    name = "dequantize-of-quantize"

    def __init__(self, session: QContext, *, keeps_integers: bool = False) -> None:
        super().__init__(session)
        self._keeps_integers = keeps_integers

    def roots(self) -> Iterable[str]:
        return (DCastOp.name,)

    def match(self, op: Operation) -> _Between | None:
        assert isinstance(op, DCastOp)
        expressed, found = element_type(op.result.type), list[Operation]()
        pending = [op.input]
        while pending:
            value = pending.pop()
            owner = value.owner
            if isinstance(owner, QCastOp):
                if element_type(owner.input.type) != expressed:
                    return None
                continue
            if not isinstance(owner, Operation) or not value.has_one_use():
                return None
            if rescaled(value) is None:
                behavior = self.session.behaviors.get(owner)
                if behavior is None or not behavior.commutes or len(owner.results) != 1:
                    return None
                pending += [owner.operands[i] for i in tied_operands(owner, behavior)]
            else:
                pending.append(owner.operands[0])
            found.append(owner)
        return _Between(op, tuple(found))

    def _clips_at_zero(self, match: _Between) -> bool:
        """Whether some codes on the way end at 0 where the floats may go on."""
        for value in (match.lower.input, *(v for op in match.ops for v in op.operands)):
            owner, params = value.owner, qparams_of(value)
            if params is None or not isinstance(owner, QCastOp | RescaleOp):
                continue
            if isinstance(owner, RescaleOp):
                clips = exact.codes_clip_at_zero(owner.input_qparams, params)
            else:
                clips = exact.clips_at_zero(params, *self._bounds(owner.input))
            if clips:
                return True
        return False

    def _bounds(self, value: SSAValue) -> tuple[float | Fraction, float | Fraction]:
        known, owner = ranges(self.session).of(value), value.owner
        if known is not None:
            return known.low, known.high
        behavior = self.session.behaviors.get(owner) if isinstance(owner, Operation) else None
        if not isinstance(owner, Operation) or behavior is None or behavior.clamp is None:
            return -inf, inf
        return behavior.clamp(owner)

    def check(self, match: _Between) -> Contract | Refusal:
        kind = element_type(match.lower.result.type)
        if self._clips_at_zero(match):
            return Refusal("clips", "a clip at 0 computes a ReLU")
        for op in match.ops:
            behavior = self.session.behaviors.get(op)
            if behavior is None or isinstance(op, RescaleOp):
                continue
            if self._keeps_integers:
                return Refusal("boundary", f"'{op.name}' on integers would become one on floats")
            refusal = refuse_floats(self.session, behavior, op, kind)
            if refusal:
                return refusal
        return Contract(Numerics.RELAXED, note="drops a rounding and a clip")

    def rewrite(self, match: _Between, rewriter: Rewriter) -> None:
        kind = element_type(match.lower.result.type)
        floats: dict[SSAValue, SSAValue] = {}

        def as_float(value: SSAValue) -> SSAValue:
            return value.owner.input if isinstance(value.owner, QCastOp) else floats[value]

        for op in reversed(match.ops):
            if isinstance(op, RescaleOp):
                floats[op.result] = as_float(op.input)
                continue
            behavior = self.session.behaviors.get(op)
            assert behavior is not None
            operands = list(op.operands)
            for index in tied_operands(op, behavior):
                operands[index] = as_float(operands[index])
            new = retyped(op, operands, [with_element(op.results[0].type, kind)])
            rewriter.insert(new, op, keep=op)
            floats[op.results[0]] = new.results[0]
        rewriter.replace(match.lower, [as_float(match.lower.input)])
