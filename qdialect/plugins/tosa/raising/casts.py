"""Integers as floats: `tosa.cast`, and the product behind it, as `quant.dcast`.

cast(q) * s    float(q) * s, as `quant.dcast` of a scale of s computes it
cast(q)        the same of a scale of 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.ops import shape_of
from qdialect.ir.quant import DCastOp, element_type
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser


def dequantized(r: Raiser, x: Raised, scale: float) -> Raised:
    """Codes less no zero point, times `scale` in f32."""
    width = _width(x)
    stored = r.typed(x, QParams.per_tensor(f"i{width}", scale))
    kind = TensorType(f32, list(shape_of(stored)))
    return Raised(x.order, r.append(DCastOp(stored, kind)).results[0])


def _width(x: Raised) -> int:
    """The bits of the integers of a value; Unraisable of other types."""
    name = str(x.storage)
    if name not in ("i8", "i16", "i32"):
        raise Unraisable("type", f"it casts {name}")
    return int(name[1:])


def cast(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """Integers to f32; other casts stay, as no op of ours is one."""
    result: SSAValue = op.results[0]
    if str(element_type(result.type)) != "f32":
        raise Unraisable("type", f"it casts to {element_type(result.type)}")
    return dequantized(r, operands[0], 1.0)


HANDLERS: Mapping[str, Handler] = {"cast": cast}
