"""Write transposed convolutions on codes as convolutions and depth_to_space.

A target may have integer kernels for convolutions and none for their transposes.  With
stride s and kernel K, row J = s u + a of the result (a < s, counted from the first row
that the kernel reaches) sums the taps h = a + s t:

    y[s u + a] = sum_t x[u - t] w[a + s t]        t < T = ceil(K / s)

For each phase a this is a convolution over x with T taps, mirrored, where taps beyond
the kernel are 0.  All s^2 phases read the same windows: they are channels of one
convolution, (a, b, o) in this order, and depth_to_space (DCR) puts each in its place; with
groups (o, a, b), and CRD.  What `pads` cuts off stays off: whole blocks are not computed, the
rest is sliced.

The same products are summed and rounded once, so it is exact in the reals; where several
taps meet, floats sum in another order, which may move ties.  Where the target says so
(`Target.should_lower`), for constant weights, one stride and no dilation.

For example

    %w = nn.constant dense<[[[[1, 2], [3, 4]]]]> : tensor<1x1x2x2xi8> : !w
    %0 = nn.conv_transpose2d %x, %w strides [2, 2] : (!x, !w) -> !y

becomes

    %1 = nn.constant dense<[[[[1]]], [[[2]]], [[[3]]], [[[4]]]]> : tensor<4x1x1x1xi8> : !phases
    %2 = nn.conv2d %x, %1 : (!x, !phases) -> !channels
    %0 = nn.depth_to_space %2 block 2 : (!channels) -> !y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.ir.ops import (
    Conv2DOp,
    ConvTranspose2DOp,
    DepthToSpaceOp,
    SliceOp,
    make_constant,
    shape_of,
)
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_new
from qdialect.rewrite import Refusal, Rewriter, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class _Phases:
    """One dimension: `taps` of a phase, pads of the convolution, rows to drop after."""

    taps: int
    begin: int
    end: int
    first: int
    last: int


def phases(kernel: int, stride: int, pads: tuple[int, int], extra: int) -> _Phases:
    """How a dimension is computed; `extra` is its output padding."""
    taps = -(-kernel // stride)
    reach = kernel + extra - pads[1]
    begin = max(0, taps - 1 - pads[0] // stride)
    end = max(0, -(-reach // stride) - 1)
    first = pads[0] - (taps - 1 - begin) * stride
    return _Phases(taps, begin, end, first, stride * (end + 1) - reach)


@dataclass(frozen=True)
class _Transposed:
    op: ConvTranspose2DOp
    stride: int
    rows: tuple[_Phases, _Phases]


class TransposedToPhases(Rule[_Transposed]):
    """A transposed convolution is a convolution to its phases; see the module."""

    name = "transposed-to-phases"
    root = ConvTranspose2DOp.name

    def match(self, op: Operation) -> _Transposed | None:
        assert isinstance(op, ConvTranspose2DOp)
        if any(qparams_of(v) is None for v in (*op.operands[:2], op.result)):
            return None
        v, kernel = op.values, shape_of(op.weight)[2:]
        pads, stride = v["pads"], v["strides"][0]
        rows = [
            phases(kernel[d], stride, (pads[d], pads[d + 2]), v["output_padding"][d])
            for d in range(2)
        ]
        return _Transposed(op, stride, (rows[0], rows[1]))

    def check(self, match: _Transposed) -> Contract | Refusal:
        op, target = match.op, self.session.target
        if not target.should_lower(op):
            return Refusal("whole", f"{target.name} runs '{op.name}' whole")
        v, result = op.values, qparams_of(op.result)
        if len(set(v["strides"])) > 1 or any(d != 1 for d in v["dilations"]):
            return Refusal("window", "strides differ, or there are dilations")
        if result is None or not result.is_per_tensor:
            return Refusal("grid", "the result has parameters along a dimension")
        if any(constant_values(x, self.session) is None for x in op.operands[1:]):
            return Refusal("constant", "the weight or the bias is not constant")
        new = self._build(match)
        refusal = refuse_new(self.session, new)
        erase_new(new)
        if all(rows.taps == 1 for rows in match.rows):
            return refusal or EXACT
        return refusal or Contract(Numerics.TIES, note="floats sum in another order")

    def rewrite(self, match: _Transposed, rewriter: Rewriter) -> None:
        rewriter.replace_by(match.op, self._build(match))

    def _build(self, match: _Transposed) -> list[Operation]:
        """The ops in its place, in no block yet; the last one gives the result."""
        op, block, (rows, columns) = match.op, match.stride, match.rows
        new: list[Operation] = [self._weight(match)]
        operands: list[SSAValue] = [op.input, new[0].results[0]]
        if op.bias is not None:
            new.append(self._bias(op.bias, block * block, op.values["groups"]))
            operands.append(new[-1].results[0])
        element = element_type(op.result.type)
        attributes = {n: a for n, a in op.attributes.items() if n != QPARAMS}
        new.append(
            Conv2DOp(
                *operands,
                element=element,
                pads=(rows.begin, columns.begin, rows.end, columns.end),
                groups=op.values["groups"],
                rounding=op.values["rounding"],
            )
        )
        if block > 1:
            mode = "DCR" if op.values["groups"] == 1 else "CRD"
            new.append(DepthToSpaceOp(new[-1].results[0], block=block, mode=mode))
        first, last = (0, 0, rows.first, columns.first), (0, 0, rows.last, columns.last)
        if any((*first, *last)):
            ends = tuple(map(_end, first, last, shape_of(op.result)))
            whole = new[-1].results[0]
            new.append(SliceOp(whole, starts=first, stops=ends, steps=(1, 1, 1, 1)))
        new[-1].attributes.update(attributes)
        return new

    def _weight(self, match: _Transposed) -> Operation:
        """[in, out / groups, K, K] as [out * s^2, in / groups, T, T]."""
        import numpy as np

        op, s, groups = match.op, match.stride, match.op.values["groups"]
        codes, params = constant_values(op.weight, self.session), qparams_of(op.weight)
        assert codes is not None and params is not None
        inner, outer, *kernel = codes.shape
        zeros = params.zero_point_list()
        axis = None if params.is_per_tensor else params.axis
        # A depthwise weight may have its parameters along the inputs.
        along = {None: (1, 1, 1, 1), 0: (inner, 1, 1, 1), 1: (1, outer, 1, 1)}[axis]
        zero = np.broadcast_to(np.array(zeros, codes.dtype).reshape(along), (inner, outer, 1, 1))
        size = [rows.taps * s for rows in match.rows]
        wide = np.empty((inner, outer, *size), codes.dtype)
        wide[...] = zero
        wide[:, :, : kernel[0], : kernel[1]] = codes
        taps = [rows.taps for rows in match.rows]
        split = wide.reshape(groups, inner // groups, outer, taps[0], s, taps[1], s)
        # groups, out, a, b, in, taps: mirrored; or a, b, out first
        order = (4, 6, 0, 2, 1, 3, 5) if groups == 1 else (0, 2, 4, 6, 1, 3, 5)
        turned = split.transpose(order)[..., ::-1, ::-1]
        array = np.ascontiguousarray(turned).reshape(groups * outer * s * s, inner // groups, *taps)
        if axis is not None:
            each = range(groups) if axis == 0 else [n for _ in range(groups) for n in range(outer)]
            params = _repeated(params, _phased(each, s * s, groups))
        return make_constant(array, UniformType(params), self.session.blobs)

    def _bias(self, bias: SSAValue, times: int, groups: int) -> Operation:
        import numpy as np

        values, params = constant_values(bias, self.session), qparams_of(bias)
        assert values is not None
        rows = _phased(range(len(values)), times, groups)
        array: NDArray[Any] = values[np.array(rows)]
        if params is None:
            return make_constant(array, element_type(bias.type), self.session.blobs)
        if not params.is_per_tensor:
            params = _repeated(params, rows)
        return make_constant(array, UniformType(params), self.session.blobs)


def _end(first: int, last: int, extent: int) -> int:
    """Where a slice stops; an extent that is not known is counted from the end."""
    if extent != DYNAMIC:
        return first + extent
    return -last or _FAR


#: past any end
_FAR = 2**63 - 1


def _phased(channels: Sequence[int], times: int, groups: int) -> list[int]:
    if groups == 1:
        return [n for _ in range(times) for n in channels]
    return [n for n in channels for _ in range(times)]


def _repeated(params: QParams, rows: Sequence[int]) -> QParams:
    """The parameters of these channels, along dimension 0."""
    scales, zeros = params.scale_list(), params.zero_point_list()
    return QParams.per_axis(
        params.storage,
        0,
        [scales[n] for n in rows],
        [zeros[n] for n in rows],
        params.expressed,
    )


@dataclass(frozen=True)
class LowerTransposed(RulePass):
    """Transposed convolutions as convolutions and depth_to_space; see the module."""

    name = "lower-transposed"
    of = (TransposedToPhases,)
