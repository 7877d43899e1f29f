"""QONNX's `Quant`, `BipolarQuant` and `Trunc`: floats in, floats of a quantization grid out.

    Quant(x, scale, zero, bits) = (clip(round(x / scale + zero), low, high) - zero) * scale

The zero point is added *before* rounding, which for zero points other than 0 is not what
`quant.qcast` does. So a node becomes, with parameters that are constants:

- of a constant, its codes, computed here by the definition, under `quant.dcast`;
- without a zero point, and rounding to nearest even, `quant.qcast` and `quant.dcast`;
- else float ops that give codes as floats, which are exact as integers:
  `quant.qcast` to the scale 1, read under the scale and zero point of the node.

Parameters that are computed, or that no type has (a scale below 0, a zero point of a half),
leave float ops. A rounding mode that nobody has defined leaves the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import SSAValue

from qdialect.algebra.qparams.parameters import QParams, Storage
from qdialect.errors import InputError
from qdialect.ir import ops as nn
from qdialect.ir.ops import KEY, make_constant
from qdialect.ir.quant import DCastOp, QCastOp, UniformType, element_type, with_element
from qdialect.plugins.onnx.read.compute import Results
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.parameter_arrays import element_of
from qdialect.plugins.onnx.read.quantization import shape_of
from qdialect.plugins.onnx.read.rounding_modes import (
    MODES,
    NEAREST,
    number,
    rounded,
    rounded_array,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer

    Array = NDArray[Any]

_MOST_BITS = 64
_WIDEST = 16
"""Bits of codes that values which are computed get a type for; wider ones stay floats."""


@dataclass(frozen=True)
class Grid:
    """The codes from `low` to `high`, and the tensors that say what they mean; `zero` is ""
    where there is none. `sign` has the two codes 1 and -1, for x >= 0 and below."""

    scale: str
    zero: str
    low: int
    high: int
    mode: str = "ROUND"
    sign: bool = False

    @cached_property
    def storage(self) -> Storage | None:
        """The least integers that hold the codes, of those that ONNX has scales for."""
        for spelling in ("i8", "i16", "i32") if self.low < 0 else ("u8", "u16", "i32"):
            full = Storage.of(spelling)
            if full.min <= self.low and self.high <= full.max:
                return Storage.of(spelling, self.low, self.high)
        return None


def quant(imp: Importer, node: Node) -> Results:
    """`Quant`, and `IntQuant`, which is the same."""
    bits = bit_width(imp, node, 3)
    mode = str(node.get("rounding_mode", "ROUND")).upper()
    if bits is None or mode not in MODES or len(node.inputs) != 4:
        return None
    signed, narrow = bool(node.get("signed", 1)), bool(node.get("narrow", 0))
    sign = signed and bits == 1
    low, high = (-1, 1) if sign else bounds(bits, signed, narrow)
    return _on_grid(imp, node, Grid(node.input(1), node.input(2), low, high, mode, sign))


def bipolar(imp: Importer, node: Node) -> Results:
    """`BipolarQuant(x, scale)`: 1 for x >= 0 and -1 below, times the scale."""
    if len(node.inputs) != 2:
        return None
    return _on_grid(imp, node, Grid(node.input(1), "", -1, 1, sign=True))


def bounds(bits: int, signed: bool, narrow: bool) -> tuple[int, int]:
    """The least and the greatest code; a narrow range lacks the least one of a sign, and the
    greatest one without."""
    if signed:
        return -(1 << (bits - 1)) + narrow, (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1 - narrow


def bit_width(imp: Importer, node: Node, position: int) -> int | None:
    """The bits that a constant says; None if it is none, or says so many that no integer has
    them. InputError for a number that is no whole one above 0."""
    array = imp.static(node.input(position))
    if array is None or array.size != 1 or array.dtype.kind not in "fiu":
        return None
    value = float(array.reshape(-1)[0])
    if value != value or value < 1 or value != value // 1:
        raise InputError(
            f"{value:g} is no bit width: it must be a whole number above 0",
            where=node.where,
            code="bad-qparams",
        )
    return int(value) if value <= _MOST_BITS else None


def parameter(imp: Importer, name: str) -> Array | None:
    """A parameter that is known, as f32."""
    import numpy as np

    array = imp.static(name)
    return array if array is not None and array.dtype == np.float32 else None


def are_floats(imp: Importer, names: list[str]) -> bool:
    """Whether tensors are ranked and of type f32."""
    kinds = [imp.type_of(name) for name in names]
    return all(shape_of(kind) is not None and element_type(kind) == f32 for kind in kinds)


def _on_grid(imp: Importer, node: Node, grid: Grid) -> Results:
    """The node's first input, quantized to a grid."""
    names = [name for name in (node.input(0), grid.scale, grid.zero) if name]
    if imp.opset < 7 or not are_floats(imp, names):
        return None
    node.names_inputs = False
    scale, zero = parameter(imp, grid.scale), parameter(imp, grid.zero)
    element, x = None, imp.static(node.input(0))
    if scale is not None and (zero is not None or not grid.zero):
        element = _element(imp, node, grid, scale, zero)
        if element is not None and x is not None:
            return [constant(imp, node.input(0), _codes(x, grid, scale, zero), element)]
    if element is not None and element.qparams.storage.width <= _WIDEST:
        return [_cast(imp, node, grid, element)]
    y = _float_codes(imp, imp.value(node.input(0)), grid)
    if grid.zero and not _is_zero(imp, grid.zero):
        y = imp.emit(nn.SubOp(y, imp.value(grid.zero))).results[0]
    return [imp.build(nn.MulOp, y, imp.value(grid.scale), output=node.output(0))]


def _element(
    imp: Importer, node: Node, grid: Grid, scale: Array, zero: Array | None
) -> UniformType | None:
    shape = shape_of(imp.type_of(node.input(0)))
    if grid.storage is None or shape is None:
        return None
    return element_of(shape, grid.storage, scale, zero)


def _is_zero(imp: Importer, name: str) -> bool:
    array = parameter(imp, name)
    return array is not None and not array.any()


def _codes(x: Array, grid: Grid, scale: Array, zero: Array | None) -> Array:
    """The codes of a constant, in the arithmetic of f32."""
    import numpy as np

    y: Array = x
    if not grid.sign or zero is not None:
        with np.errstate(all="ignore"):
            y = x / scale if zero is None else x / scale + zero
    if grid.sign:
        return np.where(y >= 0, 1, -1)
    y = rounded_array(np.clip(y, np.float32(grid.low), np.float32(grid.high)), grid.mode)
    # An f32 has no 2^31 - 1, which is the greatest code of 32 bits.
    return np.clip(np.nan_to_num(y).astype(np.int64), grid.low, grid.high)


def constant(imp: Importer, name: str, codes: Array, element: UniformType) -> SSAValue:
    """Codes of the tensor `name` as a constant, dequantized."""
    storage = element.qparams.storage
    kind = f"{'i' if storage.signed else 'u'}{storage.width // 8}"
    op = make_constant(codes.astype(kind), element, imp.ctx.blobs)
    op.attributes[KEY] = StringAttr(name)
    return dequantized(imp, imp.emit(op).results[0])


def _cast(imp: Importer, node: Node, grid: Grid, element: UniformType) -> SSAValue:
    """A value that is computed, as codes, and dequantized."""
    x = imp.value(node.input(0))
    nearest = grid.mode in NEAREST and not grid.sign
    if nearest and (not grid.zero or _is_zero(imp, grid.zero)):
        codes = imp.emit(QCastOp(x, with_element(x.type, element))).results[0]
        return dequantized(imp, codes)
    return of_float_codes(imp, _float_codes(imp, x, grid), element)


def of_float_codes(imp: Importer, codes: SSAValue, element: UniformType) -> SSAValue:
    """Codes that are floats, each within the bounds of `element`, dequantized."""
    unit = UniformType(QParams.per_tensor(element.qparams.storage, 1.0, 0, "f32"))
    stored = imp.emit(QCastOp(codes, with_element(codes.type, unit))).results[0]
    return dequantized(imp, imp.quantized(stored, element))


def dequantized(imp: Importer, codes: SSAValue) -> SSAValue:
    """Codes as floats."""
    return imp.emit(DCastOp(codes, with_element(codes.type, f32))).results[0]


def _float_codes(imp: Importer, x: SSAValue, grid: Grid) -> SSAValue:
    if not grid.sign or grid.zero:
        x = imp.emit(nn.DivOp(x, imp.value(grid.scale))).results[0]
        if grid.zero and not _is_zero(imp, grid.zero):
            x = imp.emit(nn.AddOp(x, imp.value(grid.zero))).results[0]
    if grid.sign:
        above = imp.emit(nn.CompareOp(x, number(imp, 0.0), "ge")).results[0]
        return imp.emit(nn.SelectOp(above, number(imp, 1.0), number(imp, -1.0))).results[0]
    return rounded(imp, clipped(imp, x, grid.low, grid.high), grid.mode)


def clipped(imp: Importer, x: SSAValue, low: int, high: int) -> SSAValue:
    """Floats between two codes."""
    import numpy as np

    least, most = (float(np.float32(code)) for code in (low, high))
    return imp.emit(nn.ClipOp(x, min=least, max=most)).results[0]


# -- Trunc ------------------------------------------------------------------------------


def trunc(imp: Importer, node: Node) -> Results:
    """`Trunc`: codes without their lowest bits.

    Of version 1, `Trunc(x, scale, zero, bits, new bits)`: the result keeps the scale, and is not
    clipped. Of version 2, `Trunc(x, scale, zero, bits, new scale, new bits)`.
    """
    mode = str(node.get("rounding_mode", "FLOOR")).upper()
    if mode not in MODES or len(node.inputs) not in (5, 6) or imp.opset < 7:
        return None
    if not are_floats(imp, [*node.inputs[:3], *node.inputs[4:-1]]):
        return None
    node.names_inputs = False
    return (_trunc_1 if len(node.inputs) == 5 else _trunc_2)(imp, node, mode)


def _trunc_1(imp: Importer, node: Node, mode: str) -> Results:
    before, after = (bit_width(imp, node, position) for position in (3, 4))
    if before is None or after is None:
        return None
    y = _all_codes(imp, node)
    y = imp.emit(nn.DivOp(y, number(imp, 2.0 ** (before - after)))).results[0]
    y = imp.emit(nn.SubOp(rounded(imp, y, mode), imp.value(node.input(2)))).results[0]
    return [imp.build(nn.MulOp, y, imp.value(node.input(1)), output=node.output(0))]


def _trunc_2(imp: Importer, node: Node, mode: str) -> Results:
    import numpy as np

    bits, x = bit_width(imp, node, 5), imp.type_of(node.input(0))
    scale, zero, new = (parameter(imp, node.input(position)) for position in (1, 2, 4))
    if bits is None or scale is None or zero is None or new is None:
        return None
    with np.errstate(all="ignore"):
        factor = 2 ** np.round(np.log2(new / scale))
    if not np.isfinite(factor).all():
        return None
    low, high = bounds(bits, bool(node.get("signed", 1)), bool(node.get("narrow", 0)))
    y = imp.emit(nn.DivOp(_all_codes(imp, node), _array(imp, factor))).results[0]
    y = rounded(imp, clipped(imp, y, low, high), mode)
    new_zero = (zero / factor).astype(np.float32)
    storage, shape = Grid("", "", low, high).storage, shape_of(x)
    if storage is not None and storage.width <= _WIDEST and shape is not None:
        element = element_of(shape, storage, new, new_zero)
        if element is not None:
            return [of_float_codes(imp, y, element)]
    y = imp.emit(nn.SubOp(y, _array(imp, new_zero))).results[0]
    return [imp.build(nn.MulOp, y, imp.value(node.input(4)), output=node.output(0))]


def _all_codes(imp: Importer, node: Node) -> SSAValue:
    """What `Trunc` cuts bits off, as floats: the codes of its input, not clipped."""
    x, scale, zero = (imp.value(name) for name in node.inputs[:3])
    y = imp.emit(nn.DivOp(x, scale)).results[0]
    return imp.emit(nn.RoundOp(imp.emit(nn.AddOp(y, zero)).results[0])).results[0]


def _array(imp: Importer, array: Array) -> SSAValue:
    """A constant of type f32."""
    return imp.emit(make_constant(array.astype("<f4"), f32, imp.ctx.blobs)).results[0]
