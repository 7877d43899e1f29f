"""QONNX's `FloatQuant`: floats rounded to floats of few bits.

    FloatQuant(x, scale, exponent bits, mantissa bits, exponent bias, greatest value)

    y = x / scale;  step = 2^max(floor(log2 |y|) - mantissa bits, 1 - bias - mantissa bits)
    clip(round(y / step) * step, -greatest, greatest) * scale

Where these are the numbers of a float type that is stored, the node is `quant.qcast` to it and
`quant.dcast`; else it becomes float ops that give the same bits: the power of two is found digit
by digit of its exponent, without a logarithm. QONNX's logarithm is rounded, which just below a
power of two gives the step above it; rounded to nearest, both are that power. So a node with
another rounding mode stays, and so does one that does not saturate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.algebra.qparams.parameters import Storage
from qdialect.ir import ops as nn
from qdialect.ir.quant import QCastOp, with_element
from qdialect.plugins.onnx.read.compute import Results
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.parameter_arrays import element_of
from qdialect.plugins.onnx.read.qonnx import are_floats, dequantized, parameter
from qdialect.plugins.onnx.read.quantization import shape_of
from qdialect.plugins.onnx.read.rounding_modes import NEAREST, number

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer


@dataclass(frozen=True)
class Small:
    """A float format of few bits: how many, the bias of the exponent and the greatest number."""

    exponent: int
    mantissa: int
    bias: int
    greatest: float

    @property
    def least_exponent(self) -> int:
        """The exponent of the distance of the least numbers."""
        return 1 - self.bias - self.mantissa


_STORED = {
    Small(4, 3, 7, 448.0): "f8E4M3FN",
    Small(5, 2, 15, 57344.0): "f8E5M2",
}
"""The formats that are types. (Of 4 bits there is one, too, which no runtime quantizes to.)"""

_MOST_BITS = 16
"""Bits of a mantissa below which QONNX's logarithm is near enough."""


def float_quant(imp: Importer, node: Node) -> Results:
    """`FloatQuant` that saturates and rounds to nearest even."""
    mode = str(node.get("rounding_mode", "ROUND")).upper()
    if len(node.inputs) != 6 or mode not in NEAREST or not node.get("saturation", 1):
        return None
    small, scale = _format(imp, node), parameter(imp, node.input(1))
    if small is None or imp.opset < 7 or not are_floats(imp, node.inputs[:2]):
        return None
    node.names_inputs = False
    element = None
    shape = shape_of(imp.type_of(node.input(0)))
    if small in _STORED and scale is not None and shape is not None:
        element = element_of(shape, Storage.of(_STORED[small]), scale)
    if element is None:
        y = _in_floats(imp, imp.value(node.input(0)), imp.value(node.input(1)), small)
        return [imp.build(nn.MulOp, y, imp.value(node.input(1)), output=node.output(0))]
    value = imp.value(node.input(0))
    codes = imp.emit(QCastOp(value, with_element(value.type, element))).results[0]
    return [dequantized(imp, codes)]


def _format(imp: Importer, node: Node) -> Small | None:
    """The format that constants describe, its greatest number being the least of what is said
    and what there are bits for; None where it is computed, or none of few bits."""
    arrays = [imp.static(name) for name in node.inputs[2:]]
    numbers = [float(a.reshape(-1)[0]) for a in arrays if a is not None and a.size == 1]
    if len(numbers) != 4 or not all(isfinite(n) for n in numbers):
        return None
    exponent, mantissa, bias, greatest = numbers
    if any(n != int(n) for n in numbers[:3]) or not 1 <= exponent <= 7:
        return None
    if not 0 <= mantissa < _MOST_BITS or abs(bias) > 100 or greatest <= 0:
        return None
    most = (2.0 - 2.0**-mantissa) * 2.0 ** (2.0**exponent - 1 - bias)
    return Small(int(exponent), int(mantissa), int(bias), min(greatest, most))


def _in_floats(imp: Importer, x: SSAValue, scale: SSAValue, small: Small) -> SSAValue:
    """x / scale rounded to the format, as floats."""

    def do(kind: Any, *operands: SSAValue, **values: Any) -> SSAValue:
        return imp.emit(kind(*operands, **values)).results[0]

    y = do(nn.DivOp, x, scale)
    # In units of the least normal number; what is greater than the greatest number is that one.
    normal = 2.0 ** (small.least_exponent + small.mantissa)
    size = do(nn.ClipOp, do(nn.AbsOp, y), max=small.greatest)
    size = do(nn.MulOp, size, number(imp, 1 / normal))
    step = number(imp, 2.0**small.least_exponent)
    for digit in reversed(range(small.exponent)):
        power = 2.0 ** (1 << digit)
        above = do(nn.CompareOp, size, number(imp, power), mode="ge")
        factor = do(nn.SelectOp, above, number(imp, power), number(imp, 1.0))
        size, step = do(nn.DivOp, size, factor), do(nn.MulOp, step, factor)
    y = do(nn.MulOp, do(nn.RoundOp, do(nn.DivOp, y, step)), step)
    return do(nn.ClipOp, y, min=-small.greatest, max=small.greatest)
