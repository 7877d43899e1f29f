"""In which arithmetic the quantized ops of a module are defined: `quant.arithmetic`.

    module attributes {quant.arithmetic = "expressed"} { ... }

says that a quantized op is dequantize, a float op and quantize, each rounded to the expressed
type, as in an ONNX model; importers set it.  Without it a quantized op is a function in the
reals, rounded once (docs/design/002-rescale-contracts.md).
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.arithmetic import Arithmetic

ARITHMETIC_KEY = "quant.arithmetic"
"""Discardable attribute of a module (a string)."""

IN_FLOATS = StringAttr(Arithmetic.EXPRESSED.value)


def arithmetic_of(op: Operation) -> Arithmetic:
    """The arithmetic of the quantized ops of the module that `op` is in, or is."""
    current: Operation | None = op
    while current is not None:
        if current.attributes.get(ARITHMETIC_KEY) == IN_FLOATS:
            return Arithmetic.EXPRESSED
        current = current.parent_op()
    return Arithmetic.REAL


def arithmetic_at(value: SSAValue) -> Arithmetic:
    """The same of the op or the block that makes `value`."""
    owner = value.owner
    if isinstance(owner, Operation):
        return arithmetic_of(owner)
    parent = owner.parent_op()
    return Arithmetic.REAL if parent is None else arithmetic_of(parent)
