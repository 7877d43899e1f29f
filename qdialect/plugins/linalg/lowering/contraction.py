"""Convolutions and matrix products: sums of products in 32 bits.

    sum (x - z_x)(w - z_w) = sum x w'  - z_x sum w'        w' = w - z_w

Of constant weights w' and its sums are known here, so that codes are multiplied as they are
and the correction is in what the sum starts with, together with the bias; pads hold z_x. Of
other weights the zero points are subtracted in the loop. Sums are taken modulo 2**32, which
is exact as the result is known to fit (`split-rescale`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, TensorType, i32, i64
from xdsl.dialects.linalg.ops import Conv2DNchwFchwOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.emitter import element_of, integers
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order, matrix_shapes
from qdialect.plugins.common.lowering.preconditions import exact_result, is_on_codes, quantized
from qdialect.plugins.common.lowering.windows import Geometry, fitted, turned
from qdialect.plugins.linalg.lowering.elementwise import laid_out_type, stepped, zero_of
from qdialect.plugins.linalg.lowering.emitter import Compute, Emitter, Read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Sides(ABC):
    """Both factors of products that are summed, as values."""

    x: SSAValue
    w: SSAValue
    #: what pads of `x` hold
    pad: float
    #: whether their product is one of their own types, which named ops compute
    is_signed: bool

    @abstractmethod
    def sum(self, body: Body, values: Sequence[SSAValue]) -> SSAValue:
        """The sum so far, plus one product."""

    @abstractmethod
    def begun(self, e: Emitter, shape: Sequence[int], dimension: int) -> SSAValue:
        """What the sums start with: the bias along a dimension of the result, or 0."""


class FloatSides(Sides):
    """Both factors of float products."""

    is_signed = True

    def __init__(self, e: Emitter, x: LaidOut, w: LaidOut, bias: LaidOut | None = None) -> None:
        self.x, self.w, self.pad = e.value_of(x), e.value_of(w), 0.0
        self._bias = None if bias is None else e.value_of(bias)
        self._element = element_of(self.x)
        if element_of(self.w) != self._element or not isinstance(self._element, AnyFloat):
            raise Unlowerable("type", f"it multiplies {self._element} and {element_of(self.w)}")

    def sum(self, body: Body, values: Sequence[SSAValue]) -> SSAValue:
        """See the base class."""
        x, w, total = values
        return body.add(arith.AddfOp(total, body.add(arith.MulfOp(x, w))))

    def begun(self, e: Emitter, shape: Sequence[int], dimension: int) -> SSAValue:
        """See the base class."""
        if self._bias is None:
            return e.filled_with(shape, 0.0, self._element)
        return _along(e, self._bias, shape, dimension)


def _along(e: Emitter, vector: SSAValue, shape: Sequence[int], dimension: int) -> SSAValue:
    """A vector along a dimension of `shape`, repeated along the others."""
    rank = len(shape)
    source = vector, AffineMap(rank, 0, (AffineExpr.dimension(dimension),))
    result = e.empty(shape, element_of(vector)), AffineMap.identity(rank)
    return e.loops([source], result, "p" * rank, lambda _, v: v[0])


class CodeSides(Sides):
    """Both factors of products of codes, and what is still to subtract in the loop."""

    def __init__(
        self, e: Emitter, x: LaidOut, w: LaidOut, bias: LaidOut | None = None, along: int = 0
    ) -> None:
        """`along` is the dimension of constant weights that the results have too."""
        self.params = quantized(x, "input"), quantized(w, "weight")
        self.x_zero = zero_of(self.params[0])
        self.x = e.value_of(x)
        self.folded = w.array is not None
        sums: Array | None = None
        if w.array is None:
            zero_of(self.params[1])
            self.w = e.value_of(w)
        else:
            weights = differences(w.array, self.params[1])
            self.w = e.const(weights, integers(weights.dtype.itemsize * 8))
            summed = tuple(d for d in range(weights.ndim) if d != along)
            sums = weights.astype(np.int64).sum(summed) * -self.x_zero
        self.start = _started(e, bias, sums)
        self.pad = bits_of(self.x_zero, self.params[0])
        self.is_signed = self.params[0].storage.signed and self.folded

    def product(self, body: Body, x: SSAValue, w: SSAValue) -> SSAValue:
        """One product, in 32 bits."""
        if not self.folded:
            factors = stepped(body, x, self.params[0]), stepped(body, w, self.params[1])
        else:
            unsigned = arith.ExtUIOp if not self.params[0].storage.signed else arith.ExtSIOp
            factors = _extended(body, x, unsigned), _extended(body, w, arith.ExtSIOp)
        return body.add(arith.MuliOp(*factors))

    def sum(self, body: Body, values: Sequence[SSAValue]) -> SSAValue:
        """The sum so far, plus one product."""
        x, w, total = values
        return body.add(_add(total, self.product(body, x, w)))

    def begun(self, e: Emitter, shape: Sequence[int], dimension: int) -> SSAValue:
        """What the sums start with: the bias along a dimension of the result, less what the
        zero point of the input adds."""
        if self.start is None:
            return e.filled(shape, 32, 0)
        return _along(e, self.start, shape, dimension)


def _started(e: Emitter, bias: LaidOut | None, sums: Array | None) -> SSAValue | None:
    """The bias and the correction in one, if there is either."""
    if bias is not None and (bias.params is None or bias.params.storage.spelling != "i32"):
        raise Unlowerable("bias", "its bias is no i32 on the scale of the sums")
    if sums is not None and not sums.any():
        sums = None
    if bias is None or sums is None:
        if bias is not None:
            return e.value_of(bias)
        return None if sums is None else e.const(_wrapped(sums), i32)
    if bias.array is not None:
        return e.const(_wrapped(sums + bias.array), i32)
    values = [e.value_of(bias), e.const(_wrapped(sums), i32)]
    return e.elementwise(values, sums.shape, i32, lambda body, v: body.add(_add(v[0], v[1])))


def _add(lhs: SSAValue, rhs: SSAValue) -> Operation:
    return arith.AddiOp(lhs, rhs)


def _extended(body: Body, value: SSAValue, extend: Any) -> SSAValue:
    return value if value.type == i32 else body.add(extend(value, i32))


def differences(array: Array, params: QParams) -> Array:
    """Weights less their zero points, in the narrowest integers that hold them."""
    zeros = np.asarray(params.zero_point_list(), np.int64)
    if zeros.size > 1:
        if params.axis is None:
            raise Unlowerable("grid", "its weight has parameters of blocks")
        shape = [1] * array.ndim
        shape[params.axis] = -1
        zeros = zeros.reshape(shape)
    steps = array.astype(np.int64) - zeros
    for kind in (np.int8, np.int16):
        if not steps.size or (steps == steps.astype(kind)).all():
            return steps.astype(kind)
    return _wrapped(steps)


def _wrapped(numbers: Array) -> Array:
    """Modulo 2**32, as i32."""
    return (numbers & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def _sides(e: Emitter, op: Operation, factors: Sequence[LaidOut]) -> Sides:
    """Input, weight and perhaps bias of an op on floats, or on codes that it sums exactly."""
    x, w, *bias = factors
    if not is_on_codes(op):
        return FloatSides(e, x, w, bias[0] if bias else None)
    exact_result(e, op)
    return CodeSides(e, x, w, bias[0] if bias else None)


def convolution(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv1d`, `nn.conv2d`, `nn.conv3d`, in groups or not."""
    assert isinstance(op, NNOp)
    v, result = op.values, shape_of(op.results[0])
    x, w = operands[:2]
    sides = _sides(e, op, operands)
    geometry = fitted(x.shape[2:], w.shape[2:], v["strides"], v["pads"], v["dilations"])
    value = padded(e, sides.x, geometry, sides.pad)
    out = convolved(e, sides, value, (geometry, v["groups"]), result)
    return e.result(out, identity_order(x.rank), qparams_of(op.results[0]), result)


def convolved(
    e: Emitter,
    sides: Sides,
    value: SSAValue,
    windows: tuple[Geometry, int],
    result: Sequence[int],
) -> SSAValue:
    """The sums of all windows of `value`, which is padded; in as many groups."""
    (geometry, groups), shape, weights = windows, shape_of(value), shape_of(sides.w)
    init, spatial = sides.begun(e, result, 1), len(shape) - 2
    if groups == 1:
        if spatial == 2 and sides.is_signed:
            return _named(e, value, sides.w, init, geometry)
        return _summed(e, sides, (value, sides.w, init), geometry, "nf{o}c{k}")
    takes, gives = shape[1] // groups, weights[0] // groups
    # Channels as groups of channels; what is 1 in each group is left out.
    ins = (groups, *((takes,) if takes > 1 else ()))
    outs = (groups, *((gives,) if gives > 1 else ()))
    value = e.reshaped(value, (shape[0], *ins, *shape[2:]))
    weight = e.reshaped(sides.w, (*outs, *ins[1:], *weights[2:]))
    init = e.reshaped(init, (shape[0], *outs, *result[2:]))
    names = "ng" + ("f" if gives > 1 else "") + "{o}" + ("c" if takes > 1 else "") + "{k}"
    return e.reshaped(_summed(e, sides, (value, weight, init), geometry, names), result)


def padded(e: Emitter, value: SSAValue, geometry: Geometry, number: float) -> SSAValue:
    """`value` with as much around its spatial dimensions as windows read."""
    return e.padded(value, [(0, 0), (0, 0), *geometry.pads], number)


def bits_of(code: int, params: QParams) -> int:
    """A code as the signed integer of the same bits."""
    width = laid_out_type(params).width.data
    return code - (1 << width) if code >= 1 << (width - 1) else code


def window_maps(geometry: Geometry, names: str) -> tuple[dict[str, list[AffineExpr]], int]:
    """The dimensions of a loop nest by letter; `i` is where a window reads."""
    spatial = len(geometry.strides)
    order = names.format(o="o" * spatial, k="k" * spatial)
    dims: dict[str, list[AffineExpr]] = {}
    for position, name in enumerate(order):
        dims.setdefault(name, []).append(AffineExpr.dimension(position))
    dims["i"] = [
        o * s + k * d
        for o, k, s, d in zip(
            dims["o"], dims["k"], geometry.strides, geometry.dilations, strict=True
        )
    ]
    return dims, len(order)


def _summed(
    e: Emitter,
    sides: Sides,
    values: tuple[SSAValue, SSAValue, SSAValue],
    geometry: Geometry,
    names: str,
) -> SSAValue:
    """The loop nest of a convolution; `names` are its dimensions."""
    dims, count = window_maps(geometry, names)

    def read(letters: str) -> AffineMap:
        return AffineMap(count, 0, tuple(e for name in letters for e in dims.get(name, ())))

    x, w, init = values
    order = names.format(o="o" * len(geometry.strides), k="k" * len(geometry.strides))
    kinds = "".join("r" if name in "ck" else "p" for name in order)
    # Sums start with what is there.
    inputs: list[Read] = [(x, read("ngci")), (w, read("gfck"))]
    return e.loops(inputs, (init, read("ngfo")), kinds, sides.sum)


def _named(
    e: Emitter, value: SSAValue, weight: SSAValue, init: SSAValue, geometry: Geometry
) -> SSAValue:
    return e.add(
        Conv2DNchwFchwOp(
            [value, weight],
            [init],
            [init.type],
            strides=_pair(geometry.strides),
            dilations=_pair(geometry.dilations),
        )
    )


def _pair(values: Sequence[int]) -> Any:
    return DenseIntOrFPElementsAttr.from_list(TensorType(i64, [len(values)]), list(values))


def fully_connected(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.fully_connected`: the weight has a row for each result."""
    x, w = operands[:2]
    (rows, _), channels = x.shape, w.shape[0]
    sides = _sides(e, op, operands)
    init = sides.begun(e, (rows, channels), 1)
    out = _product(e, sides.sum, (sides.x, sides.w, init), ("mk", "nk", "mn"))
    return e.result(out, identity_order(2), qparams_of(op.results[0]), (rows, channels))


def matmul(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.matmul`, its batches as they broadcast."""
    exact_result(e, op)
    a, b = operands
    result = shape_of(op.results[0])
    left, right = matrix_shapes(a.shape, b.shape)
    batches = np.broadcast_shapes(left[:-2], right[:-2])
    shape = (*batches, left[-2], right[-1])
    if b.array is not None and (prod(right[:-2]) > 1 or b.rank < 2):
        # Its sums are not one for each column of the result.
        b = LaidOut(b.shape, identity_order(b.rank), b.params, e.value_of(b))
    sides = CodeSides(e, a, b, along=b.rank - 1)
    init = sides.begun(e, shape, len(shape) - 1)
    x, w = e.reshaped(sides.x, left), e.reshaped(sides.w, right)
    out = stacked_product(e, (x, w, init), sides.sum)
    return e.result(
        e.reshaped(out, result), identity_order(len(result)), qparams_of(op.results[0]), result
    )


def stacked_product(
    e: Emitter, values: tuple[SSAValue, SSAValue, SSAValue], compute: Compute
) -> SSAValue:
    """Products of stacks of matrices, of which the batches broadcast; the third value is what
    the sums start with."""
    x, w, init = values
    names = "abcdefgh"[: len(shape_of(init)) - 2]
    lhs, at = _repeated(e, x, names, "mk")
    rhs, of = _repeated(e, w, names, "kn")
    return _product(e, compute, (lhs, rhs, init), (at, of, f"{names}mn"))


def _repeated(e: Emitter, value: SSAValue, names: str, last: str) -> tuple[SSAValue, str]:
    """A stack of matrices without the dimensions along which it repeats."""
    shape = shape_of(value)
    batches = shape[:-2]
    last_names = names[len(names) - len(batches) :]
    repeated = [(n, name) for n, name in zip(batches, last_names, strict=True) if n > 1]
    value = e.reshaped(value, (*(n for n, _ in repeated), *shape[-2:]))
    return value, "".join(name for _, name in repeated) + last


def _product(
    e: Emitter, compute: Compute, values: tuple[SSAValue, SSAValue, SSAValue], names: Sequence[str]
) -> SSAValue:
    """The loop nest of a matrix product; `names` are the dimensions of each value."""
    order = f"{names[2]}k"

    def read(letters: str) -> AffineMap:
        dims = tuple(AffineExpr.dimension(order.index(name)) for name in letters)
        return AffineMap(len(order), 0, dims)

    reads = [(v, read(letters)) for v, letters in zip(values, names, strict=True)]
    kinds = "p" * (len(order) - 1) + "r"
    return e.loops(reads[:2], reads[2], kinds, compute)


def lower_transposed(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv_transpose1d`, `nn.conv_transpose2d`, `nn.conv_transpose3d`, in groups or not.

        y[i s + h d - p] += x[i] w[h]      =      y[j] = sum_h x'[j + p - h d] w[h]

    x' has s - 1 zeros behind each element of x. So this is a convolution with stride 1 and the
    reversed kernel, over x' with (K - 1) d - p zeros around it. A zero is the zero point.
    """
    assert isinstance(op, NNOp)
    v, result = op.values, shape_of(op.results[0])
    x, w = operands[:2]
    spatial, groups = x.rank - 2, v["groups"]
    backwards = _backwards if is_on_codes(op) else _float_backwards
    sides = _sides(e, op, [x, backwards(e, w, groups), *operands[2:]])
    zero = sides.pad
    value, spread = _spread(e, sides.x, v["strides"], zero)
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], v["dilations"], strict=True)]
    pads, cut, left = [(0, 0), (0, 0)], [0, 0], list(spread)
    for d in range(spatial):
        before = reach[d] - v["pads"][d]
        # What stands behind the last element is as much as the result has windows.
        after = result[d + 2] + reach[d] - spread[d + 2] - before
        pads.append((max(before, 0), max(after, 0)))
        cut.append(max(-before, 0))
        left[d + 2] += min(before, 0) + min(after, 0)
    if min(left) < 1:
        raise Unlowerable("pads", "its pads cut off all that it reads")
    value = e.padded(e.box(value, cut, left), pads, zero)
    ones = (1,) * spatial
    geometry = Geometry(pads[2:], ones, v["dilations"], (0,) * spatial, result[2:])
    out = convolved(e, sides, value, (geometry, groups), result)
    return e.result(out, identity_order(x.rank), qparams_of(op.results[0]), result)


def _spread(
    e: Emitter, value: SSAValue, strides: Sequence[int], zero: float
) -> tuple[SSAValue, list[int]]:
    """`value` with s - 1 zeros between elements, and its extents: each element is padded to a
    row of s."""
    shape = shape_of(value)
    spread = [*shape[:2], *((n - 1) * s + 1 for n, s in zip(shape[2:], strides, strict=True))]
    if spread == list(shape):
        return value, spread
    split = [*shape[:2], *(m for n in shape[2:] for m in (n, 1))]
    pads = [(0, 0), (0, 0), *(p for s in strides for p in ((0, 0), (0, s - 1)))]
    rows = e.padded(e.reshaped(value, split), pads, zero)
    whole = [*shape[:2], *(n * s for n, s in zip(shape[2:], strides, strict=True))]
    return e.box(e.reshaped(rows, whole), [0] * len(shape), spread), spread


def _backwards(e: Emitter, w: LaidOut, groups: int) -> LaidOut:
    """[in, out / groups, kernel...] as [out, in / groups, kernel backwards...], less its zero
    points."""
    params = quantized(w, "weight")
    if w.array is None:
        raise Unlowerable("weight", "its weight is no constant", "constant weights")
    steps = differences(w.array, params).astype(np.int16)
    unit = QParams.per_tensor("i16", 1.0)
    return _turned(LaidOut(w.shape, w.order, unit, None, steps), groups)


def _turned(w: LaidOut, groups: int) -> LaidOut:
    """See `_backwards`, of a constant."""
    assert w.array is not None
    array = turned(w.array, groups)
    return LaidOut(array.shape, identity_order(w.rank), w.params, None, array)


def _float_backwards(e: Emitter, w: LaidOut, groups: int) -> LaidOut:
    """The same of floats, which need not be constant."""
    if w.array is not None:
        return _turned(w, groups)
    kernel, (takes, gives) = w.shape[2:], w.shape[:2]
    value = e.reshaped(e.value_of(w), (groups, takes // groups, gives, *kernel))
    swapped = e.permuted(value, (0, 2, 1, *range(3, 3 + len(kernel))))
    shape = (groups * gives, takes // groups, *kernel)
    value = e.reshaped(swapped, shape)
    return LaidOut(shape, identity_order(w.rank), None, e.reversed_along(value, range(2, w.rank)))
