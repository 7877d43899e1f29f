"""Multiply weights of few bits by a power of two, so that a bias is rounded to finer steps.

ONNX Runtime rounds the float bias of a product of codes to its sums, whose step is scale(x) times
scale(w).  Of weights of 2 bits in storage of 8 that is a coarse step: on networks of 2 bits the
runtime lost 4 dB of 17 by it.  The same weights as multiples of 2^k, with the scale divided by
2^k, mean the same numbers exactly, and the step is finer by 2^k:

    w * s  =  (w * 2^k) * (s / 2^k)

k is the largest with which codes stay in their storage, and two products in 16 bits, where some
processors add them up in pairs.  Exact.  For constant weights that nothing else reads, without a
zero point, and a bias of constant floats.

For example

    %b = nn.constant dense<[0.25]> : tensor<1xf32> : !b
    %w = nn.constant dense<[[1, -1]]> : tensor<1x2xi8> : !w
    %0 = nn.fully_connected %x, %w, %b : (!x, !w, !b) -> !y

becomes

    %b = nn.constant dense<[0.25]> : tensor<1xf32> : !b
    %1 = nn.constant dense<[[64, -64]]> : tensor<1x2xi8> : !finer
    %0 = nn.fully_connected %x, %1, %b : (!x, !finer, !b) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.ir.ops import CONVOLUTIONS, ConstantOp, FullyConnectedOp, constant_of, make_constant
from qdialect.ir.quant import UniformType
from qdialect.passes.rule_pass import RulePass, refuse_new
from qdialect.rewrite import Refusal, Rewriter, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAIR = 2**15 - 1
"""What two products may be at most."""
_LEAST_SCALE = 2.0**-100
"""Scales that are smaller are not divided: what they mean would lose bits."""


@dataclass(frozen=True)
class _Coarse:
    """A product, its weights, and by how many bits they can be shifted."""

    op: Operation
    weights: ConstantOp
    codes: NDArray[Any]
    qparams: QParams
    shift: int


class FinerWeights(Rule[_Coarse]):
    """w * s = (w * 2^k) * (s / 2^k); see the module."""

    name = "finer-weights"

    def roots(self) -> Iterable[str]:
        return tuple(kind.name for kind in (*CONVOLUTIONS, FullyConnectedOp))

    def match(self, op: Operation) -> _Coarse | None:
        if len(op.operands) != 3 or qparams_of(op.results[0]) is None:
            return None
        x, weight, bias = op.operands
        inputs, qparams, weights = qparams_of(x), qparams_of(weight), constant_of(weight)
        if inputs is None or qparams is None or weights is None or qparams_of(bias) is not None:
            return None
        if qparams.storage.spelling != "i8" or inputs.storage.width != 8:
            return None
        codes = constant_values(weight, self.session)
        if codes is None or constant_of(bias) is None or not codes.size:
            return None
        largest = max(abs(inputs.storage.min), abs(inputs.storage.max))
        most = min(qparams.storage.full_range[1], _PAIR // (2 * max(largest, 1)))
        bound = max(abs(int(codes.min())), abs(int(codes.max())), 1)
        shift = (most // bound).bit_length() - 1
        return _Coarse(op, weights, codes, qparams, shift) if shift > 0 else None

    def check(self, match: _Coarse) -> Contract | Refusal:
        if match.weights.result.has_more_than_one_use():
            return Refusal("shared", "others read the weights")
        if any(match.qparams.zero_point_list()):
            return Refusal("zero-point", "the weights have a zero point")
        if min(match.qparams.scale_list()) < _LEAST_SCALE:
            return Refusal("scale", "the scale of the weights would lose bits")
        weights = self._finer(match)
        changed = self._with(match, weights)
        refusal = refuse_new(self.session, [changed])
        changed.erase()
        weights.erase()
        return refusal or EXACT

    def rewrite(self, match: _Coarse, rewriter: Rewriter) -> None:
        weights = self._finer(match)
        rewriter.replace_by(match.op, [weights, self._with(match, weights)])

    def _finer(self, match: _Coarse) -> ConstantOp:
        """The weights shifted, in no block yet."""
        import numpy as np

        factor, storage = 1 << match.shift, match.qparams.storage
        codes = (match.codes.astype(np.int32) * factor).astype(np.int8)
        low, high = storage.full_range
        bounds = max(storage.min * factor, low), min(storage.max * factor, high)
        scales = [scale / factor for scale in match.qparams.scale_list()]
        wide = replace(storage, min=bounds[0], max=bounds[1])
        if match.qparams.axis is None:
            qparams = QParams.per_tensor(wide, scales[0], 0, match.qparams.expressed)
        else:
            qparams = QParams.per_axis(
                wide, match.qparams.axis, scales, None, match.qparams.expressed
            )
        return make_constant(
            codes, UniformType(qparams), self.session.blobs, match.weights.attributes
        )

    def _with(self, match: _Coarse, weights: ConstantOp) -> Operation:
        """The product with other weights, in no block yet."""
        op = match.op
        return type(op).create(
            operands=[op.operands[0], weights.result, op.operands[2]],
            result_types=list(op.result_types),
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )


@dataclass(frozen=True)
class FinerWeightsPass(RulePass):
    """Weights of few bits as multiples of a power of two; see the module."""

    name = "finer-weights"
    of = (FinerWeights,)
