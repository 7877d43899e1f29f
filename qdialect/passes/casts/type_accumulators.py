"""Give contractions of codes with a float result their integer accumulator.

    op(dequantize(x), dequantize(w), b)  ->  dequantize(op(x, w, b'))
    op(x, w, b)                          ->  dequantize(op(x, w, b'))   with a float result

The accumulator sums integer products, so it is an i32 of scale s_x s_w, zero point
0, per output channel where the weight is (the groups of a transposed convolution
share theirs): nothing is calibrated and nothing is
rounded. Exact in real arithmetic, so `ties` where ops are defined in floats: a float sum of K
products is within K 2^-24 of the sum of their absolute values, and the dequantized one within
3 2^-24 of itself. Refused unless the largest possible sum fits
32 bits. A bias on exactly this scale is summed too, if it is constant and 32 bits
hold the sum; any other stays a float addition.

For example

    %0 = quant.dcast %x : !x to !fx
    %1 = quant.dcast %w : !w to !fw
    %2 = nn.fully_connected %0, %1 : (!fx, !fw) -> !fy

becomes

    %0 = nn.fully_connected %x, %w : (!x, !w) -> !sums
    %2 = quant.dcast %0 : !sums to !fy
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import Contract
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.contractions import keeps_activation, sums_of
from qdialect.analysis.ranges import narrowed_qparams, ranges
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops import AddOp, ReshapeOp, constant_array, constant_of
from qdialect.ir.quant import DCastOp, element_type, with_element
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rescale.split_rescale import accumulator_qparams
from qdialect.passes.rule_pass import (
    RulePass,
    dequantized,
    only_quantized_alike,
    refuse_types,
    with_qparams,
)
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

_MAX = 2**31 - 1


@dataclass(frozen=True)
class _Sum:
    op: Operation
    behavior: Behavior
    acc: Accumulator
    lhs: QParams
    rhs: QParams

    @property
    def bias(self) -> SSAValue | None:
        index = self.acc.bias
        return (
            self.op.operands[index] if index is not None and index < len(self.op.operands) else None
        )


class TypeAccumulator(Rule[_Sum]):
    """op(dequantize(x), dequantize(w)) = dequantize(op(x, w)) with an i32 result."""

    name = "type-accumulator"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.accumulator is not None)

    def match(self, op: Operation) -> _Sum | None:
        behavior = self.session.behaviors.get(op)
        if behavior is None or behavior.accumulator is None or len(op.results) != 1:
            return None
        acc = behavior.accumulator
        sides = [_codes(op.operands[n]) for n in (acc.lhs, acc.rhs)]
        lhs, rhs = (narrowed_qparams(side, self.session) if side else None for side in sides)
        if lhs is None or rhs is None or qparams_of(op.results[0]) is not None:
            return None
        return _Sum(op, behavior, acc, lhs, rhs)

    def check(self, match: _Sum) -> Contract | Refusal:
        if only_quantized_alike(match.op.results[0]) is not None:
            return Refusal("quantized", "the result is quantized: integerize")
        if not (is_integer(match.lhs) and is_integer(match.rhs)):
            return Refusal("storage", "codes that are no integers have no integer sums")
        if not match.lhs.is_per_tensor:
            return Refusal("axis", "the left side is not quantized per tensor")
        if not (match.rhs.is_per_tensor or match.rhs.axis == match.acc.rhs_axis(match.op)):
            return Refusal("axis", "the right side's scales vary along a summed dimension")
        depth = match.acc.depth(match.op)
        if depth == DYNAMIC:
            return Refusal("overflow", "the number of products summed is not known")
        if self._largest(match) > _MAX:
            return Refusal("overflow", f"a sum of {depth} products may leave 32 bits")
        operands = self._operands(match)
        if match.behavior.activation is not None and len(operands) < len(match.op.operands):
            return Refusal("activation", "the bias would be added after the activation")
        if not keeps_activation(match.behavior, match.op):
            return Refusal("activation", "its sums would be limited to a number without a code")
        refusal = refuse_types(
            self.session,
            match.behavior,
            match.op,
            [v.type for v in operands],
            [with_qparams(match.op.results[0], self._result(match))],
        )
        return refusal or in_reals(match.op, "integer sums, in real arithmetic")

    def _largest(self, match: _Sum) -> int:
        """Largest |sum| of products, of any number of them in any order."""
        acc = match.acc
        lhs, rhs = (_codes(match.op.operands[n]) for n in (acc.lhs, acc.rhs))
        assert lhs is not None and rhs is not None
        found = sums_of(
            self.session,
            match.op,
            acc,
            match.behavior.operand_port(acc.rhs),
            (lhs, rhs),
            ranges(self.session).of,
            partial=True,
        )
        return _MAX + 1 if found is None else found.largest

    def _result(self, match: _Sum) -> QParams:
        return accumulator_qparams(match.op, match.acc, match.lhs, match.rhs)

    def _operands(self, match: _Sum) -> list[SSAValue]:
        """Codes in place of floats; without the bias unless it is on the sum's scale."""
        operands = list(match.op.operands)
        for n in (match.acc.lhs, match.acc.rhs):
            side = _codes(operands[n])
            assert side is not None
            operands[n] = side
        codes = self._bias_codes(match)
        if match.bias is not None:
            assert match.acc.bias is not None
            operands[match.acc.bias : match.acc.bias + 1] = [codes] if codes else []
        return operands

    def _bias_codes(self, match: _Sum) -> SSAValue | None:
        bias = _codes(match.bias) if match.bias is not None else None
        params = qparams_of(bias) if bias else None
        constant = constant_of(bias) if bias else None
        if params is None or constant is None or params.storage.width != 32:
            return None
        sums, scales = self._result(match).scale_list(), params.scale_list()
        count = max(len(sums), len(scales))
        on_sums = len(scales) == 1 or params.axis == 0
        if not on_sums or [*sums] * (count // len(sums)) != [*scales] * (count // len(scales)):
            return None
        if any(params.zero_point_list()):
            return None
        codes = constant_array(constant, self.session.blobs)
        furthest = max(abs(int(codes.min(initial=0))), abs(int(codes.max(initial=0))))
        return bias if self._largest(match) + furthest <= _MAX else None

    def rewrite(self, match: _Sum, rewriter: Rewriter) -> None:
        result = match.op.results[0]
        operands = self._operands(match)
        new = retyped(match.op, operands, [with_qparams(result, self._result(match))])
        rewriter.insert(new, match.op, keep=match.op)
        cast = DCastOp(new.results[0], result.type)
        rewriter.insert(cast, match.op)
        value: SSAValue = cast.result
        if match.bias is not None and self._bias_codes(match) is None:
            value = self._add(match, value, match.bias, rewriter)
        rewriter.replace(match.op, [value])

    def _add(self, match: _Sum, value: SSAValue, bias: SSAValue, rewriter: Rewriter) -> SSAValue:
        """The float bias added along the result's channel dimension."""
        if qparams_of(bias) is not None:
            cast = DCastOp(bias, with_element(bias.type, element_type(value.type)))
            rewriter.insert(cast, match.op)
            bias = cast.result
        below = len(shape_of(value)) - 1 - match.acc.result_axis(match.op)
        if below:
            column = ReshapeOp(bias, (*shape_of(bias), *(1,) * below))
            rewriter.insert(column, match.op)
            bias = column.result
        total = AddOp(value, bias, result_types=[value.type])
        rewriter.insert(total, match.op, keep=match.op)
        return total.result


def _codes(value: SSAValue) -> SSAValue | None:
    if qparams_of(value) is not None:
        return value
    cast = dequantized(value)
    return cast.input if cast is not None else None


@dataclass(frozen=True)
class TypeAccumulators(RulePass):
    """Integer accumulators for contractions with a float result; see the module."""

    name = "type-accumulators"
    of = (TypeAccumulator,)
