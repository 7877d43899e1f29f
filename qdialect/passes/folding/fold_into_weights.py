"""Fold what is done to each output channel of a float contraction into its weights.

    m (w x + b) + c = (m w) x + (m b + c)          m, c one number, or one per channel

for mul, div, add, sub, neg by constants and batch norm with constant statistics. When the model is
quantized, it rounds one value in place of two, by the range of the result. The new op has the key
of the result.

Exact in the reals where the new weights are numbers of their float type; `ties` where they
are rounded to it once more.

For example

    %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !w : !w
    %b = nn.constant dense<[1.0, -1.0]> : !b : !b
    %m = nn.constant dense<[0.5, 2.0]> : !b : !b
    %0 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y
    %1 = nn.mul %0, %m {nn.key = "scaled"} : (!y, !b) -> !y

becomes

    %3 = nn.constant dense<[[0.5, 1.0], [6.0, 8.0]]> : !w : !w
    %4 = nn.constant dense<[0.5, -2.0]> : !b : !b
    %1 = nn.fully_connected %x, %3, %4 {nn.key = "scaled"} : (!x, !w, !b) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import Contract, Numerics
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors import Accumulator, AffineFunction
from qdialect.ir.behaviors.shapes import tensor_type
from qdialect.ir.ops import constant_array, constant_of, make_constant
from qdialect.ir.ops.keys import KEY, QPARAMS
from qdialect.passes.folding.affine_chains import function_of
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class _Folded:
    op: Operation
    product: Operation
    acc: Accumulator
    x: SSAValue
    axis: int | None
    channels: Sequence[AffineFunction]


class FoldIntoWeights(Rule[_Folded]):
    """m op(x, w, b) + c = op(x, m w, m b + c)."""

    name = "fold-into-weights"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.affine is not None)

    def match(self, op: Operation) -> _Folded | None:
        function = function_of(op, self.session)
        product = None if function is None else function.x.owner
        if function is None or not isinstance(product, Operation):
            return None
        behavior = self.session.behaviors.get(product)
        acc = None if behavior is None else behavior.accumulator
        if behavior is None or acc is None or behavior.activation is not None:
            return None
        if any(qparams_of(v) for v in (*op.results, *product.operands)):
            return None
        each = list(function.functions)
        channels = [affine for affine in each if affine is not None]
        if len(channels) < len(each):
            return None
        return _Folded(op, product, acc, function.x, function.axis, channels)

    def check(self, match: _Folded) -> Contract | Refusal:
        op, product = match.op, match.product
        if not match.x.has_one_use():
            return Refusal("multi-use", "the product is also used as it is")
        if op.results[0].type != match.x.type:
            return Refusal("shape", "the result has another type than the product")
        if match.axis not in (None, match.acc.result_axis(product)):
            return Refusal("axis", "the numbers differ along another dimension than channels")
        if any(isfinite(each.low) or isfinite(each.high) for each in match.channels):
            return Refusal("clamp", "it also limits its result")
        if constant_of(product.operands[match.acc.rhs]) is None:
            return Refusal("weight", "the weights are no constant")
        bias = _bias(match)
        if bias is not None and constant_of(bias) is None:
            return Refusal("bias", "the bias is no constant")
        if not all(self._is_finite(v) for v in (product.operands[match.acc.rhs], bias)):
            return Refusal("overflow", "a weight or bias is not finite")
        if match.acc.bias is None and any(each.offset for each in match.channels):
            return Refusal("bias", f"'{product.name}' has no bias to add to")
        if match.axis is not None and match.acc.repeats(product) != 1:
            return Refusal("groups", "groups share the channels of the weights")
        weights, biases, exact = self._folded(match)
        if not all(np.isfinite(array).all() for array in (weights, biases)):
            return Refusal("overflow", "a weight or bias would not be finite")
        if exact:
            return in_reals(product)
        return Contract(Numerics.TIES, note="weights are rounded once more")

    def _is_finite(self, value: SSAValue | None) -> bool:
        return value is None or bool(np.isfinite(self._array(value)).all())

    def _folded(self, match: _Folded) -> tuple[Array, Array, bool]:
        """Weights and biases, and whether they are exact; no bias at all is one of zeros."""
        acc, product, channels = match.acc, match.product, match.channels
        weights = self._array(product.operands[acc.rhs])
        axis = acc.rhs_axis(product)
        count = weights.shape[axis] * acc.repeats(product)
        along = [1] * weights.ndim
        along[axis] = -1
        slopes = np.array([float(each.slope) for each in channels])
        bias = _bias(match)
        numbers = [Fraction(0)] * count
        if bias is not None:
            numbers = [Fraction(float(number)) for number in self._array(bias)]
        moved = [
            number * channels[n % len(channels)].slope + channels[n % len(channels)].offset
            for n, number in enumerate(numbers)
        ]
        with np.errstate(over="ignore"):
            # Of numbers of at most 24 bits these products are exact.
            wide = weights.astype(np.float64) * slopes.reshape(along)
            scaled = wide.astype(weights.dtype)
            biases = np.array([_nearest(number) for number in moved]).astype(weights.dtype)
        exact = (
            weights.dtype.itemsize <= 4
            and all(_is_single(each.slope) for each in channels)
            and bool((scaled == wide).all())
            and bool(np.isfinite(biases).all())
            and all(Fraction(float(a)) == b for a, b in zip(biases, moved, strict=True))
        )
        return scaled, biases, exact

    def _array(self, value: SSAValue) -> Array:
        constant = constant_of(value)
        assert constant is not None
        return constant_array(constant, self.session.blobs)

    def rewrite(self, match: _Folded, rewriter: Rewriter) -> None:
        product, acc = match.product, match.acc
        operands = list(product.operands)
        old = constant_of(operands[acc.rhs])
        element = tensor_type(operands[acc.rhs]).element_type
        arrays = self._folded(match)[:2]
        new_constants = [make_constant(array, element, self.session.blobs) for array in arrays]
        operands[acc.rhs] = new_constants[0].result
        if _bias(match) is not None:
            operands[acc.bias or 0] = new_constants[1].result
        elif arrays[1].any():
            operands.append(new_constants[1].result)
        else:
            new_constants.pop()
        for constant in new_constants:
            rewriter.insert(constant, match.op, keep=old)
        new = retyped(product, operands, [match.op.results[0].type])
        new.attributes.pop(KEY, None)
        new.attributes.pop(QPARAMS, None)
        rewriter.replace_by(match.op, [new])


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf


def _is_single(number: Fraction) -> bool:
    with np.errstate(over="ignore"):
        single = float(np.float32(_nearest(number)))
    return isfinite(single) and Fraction(single) == number


def _bias(match: _Folded) -> SSAValue | None:
    number, operands = match.acc.bias, match.product.operands
    return operands[number] if number is not None and number < len(operands) else None


@dataclass(frozen=True)
class FoldIntoWeightsPass(RulePass):
    """Folds per-channel affine functions into float weights; see the module."""

    name = "fold-into-weights"
    of = (FoldIntoWeights,)
