"""QUANTIZE, DEQUANTIZE, FAKE_QUANT and CAST."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import Float16Type, StringAttr, f32

from qdialect.algebra.arithmetic import table
from qdialect.algebra.qparams import QParams
from qdialect.algebra.requantize import quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.ir.ops import TableOp, shape_of
from qdialect.ir.ops.base import ranked
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, UniformType
from qdialect.ir.quant.casts import ROUNDING_KEY
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tflite.numerics.rescale import concatenated
from qdialect.plugins.tflite.raising.node import Node, is_float, kind_of, params_of
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, element_in
from qdialect.plugins.tflite.raising.requantize import Pair, clamping, requantization
from qdialect.plugins.tflite.raising.values import Constant

_ROUNDINGS = {"litert-xnn": Rounding.RECIPROCAL, "litert-ref": Rounding.HALF_AWAY}
"""How engines quantize floats; the optimized kernels do both."""


def quantize(r: Raiser, node: Node) -> Raised:
    """`QUANTIZE`, of floats or from codes to codes."""
    x = node.input(0)
    if not is_float(x):
        return rescaled(r, node, x)
    value = r.value(x)
    kind = ranked(element_in(r, node, x.order), shape_of(value))
    made = r.append(QCastOp(value, kind))
    rounding = _ROUNDINGS.get(r.kernel)
    if rounding is None:
        return Raised(x.order, r.marked(made.results[0]))
    made.attributes[ROUNDING_KEY] = StringAttr(rounding.value)
    return Raised(x.order, made.results[0])


def rescaled(r: Raiser, node: Node, x: Raised) -> Raised:
    """Codes on the scale of the result of an op: QUANTIZE of codes."""
    params, target = params_of(x), node.params()
    if params is None or target is None:
        raise Unraisable("type", "it quantizes plain integers")
    if params == target:
        return x
    shape = x.shape
    count = prod(shape) if all_known(shape) else -1
    pair = requantization(r.kernel, params, target, count)
    if pair is not None:
        return _rescaled(r, node, x, pair)
    value = r.value(x)
    kind = ranked(element_in(r, node, x.order), shape_of(value))
    return Raised(x.order, r.marked(r.append(RescaleOp(value, kind)).results[0]))


def by_gemmlowp(r: Raiser, node: Node, x: Raised) -> Raised:
    """Codes on the scale of the result, as clamps multiply them."""
    params, target = params_of(x), node.params()
    if params is None or target is None:
        raise Unraisable("type", "it clamps plain integers")
    return x if params == target else _rescaled(r, node, x, clamping(params, target))


def joined(r: Raiser, node: Node, x: Raised) -> Raised:
    """An operand of CONCATENATION on the scale of the result, as the kernel makes it: a rescale
    where that gives all codes, else a table."""
    params, target = params_of(x), node.params()
    if params is None or target is None or params == target:
        return x
    (a,), (b,) = quant_grids(params), quant_grids(target)
    made = concatenated(a, b).astype(np.uint8)
    value, kind = r.value(x), UniformType(target)
    if all(np.array_equal(made, table(a, b, Rounding.HALF_EVEN, f)) for f in (None, "f32")):
        return Raised(x.order, r.append(RescaleOp(value, ranked(kind, shape_of(value)))).results[0])
    return Raised(x.order, r.op(TableOp, value, r.constant(made, kind), element=kind))


def _rescaled(r: Raiser, node: Node, x: Raised, pair: Pair) -> Raised:
    (multiplier, shift), rounding = pair
    value = r.value(x)
    kind = ranked(element_in(r, node, x.order), shape_of(value))
    made = RescaleOp(value, kind, rounding, [multiplier], [shift])
    return Raised(x.order, r.append(made).results[0])


def dequantize(r: Raiser, node: Node) -> Raised:
    """`DEQUANTIZE`: a constant is taken as the floats it stands for, where it is used."""
    x = node.input(0)
    if isinstance(x.element, Float16Type) and x.array is not None:
        source = x.source if isinstance(x, Constant) else None
        return Constant(x.order, None, x.array.astype(np.float32), f32, source)
    if kind_of(x) in ("f16", "bf16"):
        return Raised(x.order, r.cast(r.value(x), f32))
    if params_of(x) is None:
        raise Unraisable("type", f"it dequantizes {x.kind}")
    if x.array is not None:
        source = x.source if isinstance(x, Constant) else None
        return Constant(x.order, None, x.array, x.element, source, True)
    value = r.value(x)
    made = r.append(DCastOp(value, ranked(f32, shape_of(value)))).results[0]
    return Raised(x.order, r.marked(made) if r.kernel == "litert-opt" else made)


def cast(r: Raiser, node: Node) -> Raised:
    """`CAST` of plain numbers."""
    x, target = node.input(0), node.kind()
    if node.params() is not None:
        raise Unraisable("type", "it casts to codes")
    if x.array is not None and x.kind == target:
        return x
    params = params_of(x)
    if params is not None and not is_float(x):
        # Codes are cast as the integers that they are; those of plain integers have a sign.
        if params.storage.signed:
            return Raised(x.order, r.cast(r.plain(x, x.order), target))
        value = r.value(r.retyped(x, QParams.per_tensor(params.storage, 1.0, 0)))
        floats = r.append(DCastOp(value, ranked(f32, shape_of(value)))).results[0]
        return Raised(x.order, r.cast(floats, target))
    return Raised(x.order, r.cast(r.value(x), target))


HANDLERS: Mapping[str, Handler] = {
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
    "CAST": cast,
}
