"""Widen convolutions on codes to numbers of channels that a target's kernel is made for.

A kernel may take products in blocks: that of ONNX Runtime sums four codes at a time and gives
four channels at a time, and what is left over takes it twice as long.  Channels that are added
to the input meet weights that mean 0, so they add nothing to any sum, and come last in it, so
that floats sum the others as before; channels that are added to the result are sliced off:

    conv(x, w)  =  slice(conv(pad(x), wide w))

An input that was sliced so is read from before the slice.  Exact.  Where the target says so
(`Target.channels`), for constant weights and one group.

For example

    %w = nn.constant dense<[[[[2]]], [[[3]]]]> : tensor<2x1x1x1xi8> : !w
    %0 = nn.conv2d %x, %w : (!x, !w) -> !y

becomes

    %1 = nn.pad %x low [0, 0, 0, 0] high [0, 1, 0, 0] : (!x) -> !two
    %2 = nn.constant dense<[[[[2]], [[0]]], [[[3]], [[0]]]]> : tensor<2x2x1x1xi8> : !wide
    %0 = nn.conv2d %1, %2 : (!two, !wide) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.errors import UsageError
from qdialect.ir.context import QContext
from qdialect.ir.ops import CONVOLUTIONS, PadOp, SliceOp, make_constant, shape_of
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_new
from qdialect.rewrite import Refusal, Rewriter, Rule

_CHANNELS = 1
#: past any end
_FAR = 2**63 - 1


@dataclass(frozen=True)
class _Narrow:
    """A convolution, and the channels that its input and its result should have."""

    op: Operation
    inputs: int
    outputs: int


class WidenConvolution(Rule[_Narrow]):
    """conv(x, w) = slice(conv(pad(x), wide w)); see the module."""

    name = "widen-convolution"

    def __init__(self, session: QContext, multiple: int) -> None:
        super().__init__(session)
        self._multiple = multiple

    def roots(self) -> Iterable[str]:
        return tuple(kind.name for kind in CONVOLUTIONS)

    def match(self, op: Operation) -> _Narrow | None:
        channels = shape_of(op.operands[1])[_CHANNELS], shape_of(op.results[0])[_CHANNELS]
        if DYNAMIC in channels or any(
            qparams_of(v) is None for v in (*op.operands[:2], *op.results)
        ):
            return None
        m = self._multiple
        wider = self.session.target.channels(op)
        if m:
            wider = -(-channels[0] // m) * m, -(-channels[1] // m) * m
        return None if wider is None or wider == channels else _Narrow(op, *wider)

    def check(self, match: _Narrow) -> Contract | Refusal:
        op = match.op
        x, result = qparams_of(op.operands[0]), qparams_of(op.results[0])
        assert x is not None and result is not None
        if shape_of(op.operands[0])[_CHANNELS] != shape_of(op.operands[1])[_CHANNELS]:
            return Refusal("groups", "it has groups")
        if not x.is_per_tensor or not result.is_per_tensor:
            return Refusal("grid", "parameters of the input or the result differ along a dimension")
        if any(constant_values(value, self.session) is None for value in op.operands[1:]):
            return Refusal("constant", "the weight or the bias is not constant")
        weight = qparams_of(op.operands[1])
        if weight is None or not (weight.is_per_tensor or weight.axis == 0):
            return Refusal("grid", "parameters of the weight differ along its inputs")
        if QPARAMS in op.attributes:
            return Refusal("components", "it has qparams of its pieces")
        new = self._build(match)
        refusal = refuse_new(self.session, new)
        erase_new(new)
        return refusal or EXACT

    def rewrite(self, match: _Narrow, rewriter: Rewriter) -> None:
        rewriter.replace_by(match.op, self._build(match))

    def _build(self, match: _Narrow) -> list[Operation]:
        """The ops in its place, in no block yet; the last one gives the result."""
        op, new = match.op, list[Operation]()
        x, weight, *bias = op.operands
        count, channels = shape_of(weight)[:2]
        if match.inputs != channels:
            wide = _before_slice(x, match.inputs)
            if wide is None:
                end = [match.inputs - channels if d == _CHANNELS else 0 for d in range(_rank(x))]
                new.append(PadOp(x, low=[0] * _rank(x), high=end))
                wide = new[-1].results[0]
            x = wide
        operands = [x]
        for value, inputs in ((weight, match.inputs - channels), *((b, 0) for b in bias)):
            new.append(self._wide(value, match.outputs - count, inputs))
            operands.append(new[-1].results[0])
        result = op.results[0]
        conv = type(op).create(
            operands=operands,
            result_types=[_of_channels(result, match.outputs)],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        new.append(conv)
        if match.outputs != count:
            stops = [_FAR if n == DYNAMIC else n for n in shape_of(result)]
            zeros, ones = [0] * _rank(result), [1] * _rank(result)
            new.append(SliceOp(conv.results[0], starts=zeros, stops=stops, steps=ones))
        return new

    def _wide(self, value: SSAValue, outputs: int, inputs: int) -> Operation:
        """A constant with so many channels more, all of them codes that mean 0."""
        import numpy as np

        codes, params = constant_values(value, self.session), qparams_of(value)
        assert codes is not None
        edges = [(0, outputs), (0, inputs), *[(0, 0)] * (codes.ndim - 2)][: codes.ndim]
        if params is None:
            array = np.pad(codes, edges)
            return make_constant(array, element_type(value.type), self.session.blobs)
        if not params.is_per_tensor:
            params = _longer(params, outputs)
        zeros = np.array(params.zero_point_list(), codes.dtype)
        shape = [n + more for n, (_, more) in zip(codes.shape, edges, strict=True)]
        array = np.empty(shape, codes.dtype)
        array[...] = zeros.reshape(-1, *[1] * (codes.ndim - 1))
        array[tuple(slice(n) for n in codes.shape)] = codes
        return make_constant(array, UniformType(params), self.session.blobs)


def _rank(value: SSAValue) -> int:
    return len(shape_of(value))


def _before_slice(value: SSAValue, channels: int) -> SSAValue | None:
    """The value of so many channels that `value` is the first ones of, if it is."""
    op = value.owner
    if not isinstance(op, SliceOp):
        return None
    wide, v = shape_of(op.operands[0]), op.values
    whole = [_FAR if n == DYNAMIC else n for n in wide]
    ends = [d == _CHANNELS or v["stops"][d] >= whole[d] for d in range(len(wide))]
    if any(v["starts"]) or set(v["steps"]) != {1} or not all(ends):
        return None
    return op.operands[0] if wide[_CHANNELS] == channels else None


def _of_channels(value: SSAValue, channels: int) -> TensorType[Any]:
    shape = shape_of(value)
    return ranked(element_type(value.type), (shape[0], channels, *shape[2:]))


def _longer(params: QParams, more: int) -> QParams:
    """Parameters along dimension 0, with the last ones so often again."""
    scales, zeros = list(params.scale_list()), list(params.zero_point_list())
    scales, zeros = scales + scales[-1:] * more, zeros + zeros[-1:] * more
    return QParams.per_axis(params.storage, 0, scales, zeros, params.expressed)


@dataclass(frozen=True)
class WidenChannels(RulePass):
    """Convolutions of numbers of channels a target is fast with; see the module.

    `multiple`: of what number those should be; 0: the target says which.
    """

    name = "widen-channels"

    multiple: int = 0

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        if self.multiple < 0:
            raise UsageError(f"a multiple of {self.multiple} (at least 0)", code="bad-option")
        return (WidenConvolution(session, self.multiple),)
